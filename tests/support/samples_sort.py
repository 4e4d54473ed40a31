"""Samples of sort and top_k (see samples.py)."""
from __future__ import annotations

from typing import Any

import numpy as np

from support.samples import ANY, BOOL, FLOAT8, REAL, Sample, op, row, sample, special


def _sort(label: str, *operands: Any, axis: int = 0, keys: int = 1, stable: bool = True) -> Sample:
    return sample(label, *operands, dimension=axis, is_stable=stable, num_keys=keys)


TIES = 72  # three times the most special values that a dtype has


def _ties(dtype: Any) -> Any:
    """Every special value three times or more, apart: positions show the order of equals."""
    return np.resize(special(dtype), TIES)


def _few(n: int) -> Any:
    return op(values=np.arange(n) * 7 % 3, dtype="i4")


_SORTS = (
    _sort("vector", op(9)), _sort("rows", op(3, 5), axis=1), _sort("columns", op(5, 3)),
    _sort("middle", op(2, 40, 3), axis=1), _sort("long", op(300)),
    _sort("longer", op(5000, dtype="i4"), stable=False), _sort("long rows", op(2, 70), axis=1),
    _sort("one", op(1)), _sort("size 1", op(3, 1), axis=1), _sort("empty", op(0, 3)),
    _sort("empty, other axis", op(0, 3), axis=1),
    _sort("two keys", _few(12), op(12), op(12), keys=2),
    _sort("two keys, long", _few(100), op(100), keys=2),
    _sort("stable, short", _few(20), op(20)), _sort("stable, long", _few(90), op(90)))
_POSITIONS = op(values=np.arange(TIES), dtype="i4")
row("sort", ANY + FLOAT8, _SORTS, specials=(
    _sort("special", op(values=_ties), _POSITIONS),
    _sort("special, two keys", _few(30), op(values=lambda d: _ties(d)[:30]), keys=2)))


def _top(label: str, operand: Any, k: int, axis: int = 0) -> Sample:
    return sample(label, operand, k=k, axis=axis)


row("top_k", (BOOL, *REAL), (
    _top("vector", op(9), 4), _top("rows", op(3, 5), 2, 1), _top("columns", op(5, 3), 3),
    _top("middle", op(2, 40, 3), 7, 1), _top("long", op(300), 10), _top("all", op(50), 50),
    _top("none", op(5), 0), _top("one", op(1), 1), _top("empty", op(0, 3), 0),
    _top("empty, other axis", op(0, 3), 2, 1)),
    specials=[_top("special", op(values=_ties), TIES - 1)])
