"""Samples of cholesky, triangular_solve, lu and lu_pivots_to_permutation (see samples.py)."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from support.samples import BF16, C64, C128, F16, F32, F64, Sample, op, row, sample

FACTORED = (F32, F64, C64, C128)


def _positive(*shape: int, seed: int = 0) -> Callable[[Any], Any]:
    """Well conditioned Hermitian matrices; above the diagonal other numbers, which nobody reads."""
    def values(dtype: Any) -> Any:
        rng = np.random.default_rng(seed)
        x = rng.standard_normal(shape)
        x = x + 1j * rng.standard_normal(shape) if np.dtype(dtype).kind == "c" else x
        a = x @ np.swapaxes(x.conj(), -1, -2) / max(1, shape[-1]) + np.eye(shape[-1])
        return np.tril(a) + np.triu(x, 1)
    return values


def _marked(dtype: Any) -> Any:
    """Not positive, zero, NaN inside, infinite: NaN each but the last two, which are fine."""
    bad = [[[1, 0], [2, 1]], [[0, 0], [0, 1]], [[1, 0], [np.nan, 1]], [[np.inf, 0], [1, 1]],
           [[-1, 0], [0, 1]], [[4, np.nan], [2, 5]], [[4, 9], [2, 5]]]
    return np.array(bad)


row("cholesky", FACTORED, (
    sample("normal", op(values=_positive(4, 4))), sample("batch", op(values=_positive(3, 2, 3, 3))),
    sample("loop", op(values=_positive(40, 40))), sample("halves", op(values=_positive(150, 150))),
    sample("many", op(values=_positive(70, 3, 3))),
    sample("one", op(values=_positive(1, 1))), sample("empty", op(0, 0)),
    sample("empty batch", op(0, 3, 3)), sample("empty matrices", op(2, 0, 0))),
    normwise=True, hermitian=True, specials=(sample("special", op(values=_marked)),
                             sample("normal", op(values=_positive(4, 4)))))


def _triangular(n: int, *lead: int) -> Callable[[Any], Any]:
    """A large diagonal; both triangles are filled, for only one is read."""
    def values(dtype: Any) -> Any:
        rng = np.random.default_rng(n)
        x = rng.uniform(-1, 1, (*lead, n, n))
        x = x + 1j * rng.uniform(-1, 1, x.shape) if np.dtype(dtype).kind == "c" else x
        return x / max(1, n) + np.eye(n) * (1.5 if np.dtype(dtype).kind != "c" else 1.5 - 0.5j)
    return values


def _solve(label: str, n: int, m: int, lead: tuple[int, ...] = (), left: bool = True,
           lower: bool = True, transpose: bool = False, conj: bool = False, unit: bool = False
           ) -> Sample:
    shape = (*lead, n, m) if left else (*lead, m, n)
    return sample(label, op(values=_triangular(n, *lead)), op(*shape), left_side=left, lower=lower,
                  transpose_a=transpose, conjugate_a=conj, unit_diagonal=unit)


_EVERY = [_solve(f"{left=} {lower=} {transpose=} {unit=}", 4, 3, (), left, lower, transpose,
                 transpose, unit)
          for left in (True, False) for lower in (True, False) for transpose in (False, True)
          for unit in (False, True)]
row("triangular_solve", (F16, BF16, *FACTORED), (
    _solve("normal", 4, 3, conj=True), *_EVERY, _solve("batch", 3, 2, (2, 2)),
    _solve("loop", 60, 5, lower=False), _solve("vector", 90, 1, transpose=True),
    _solve("halves", 170, 150), _solve("halves, upper", 170, 150, (), False, False),
    _solve("many", 3, 2, (70,)), _solve("one", 1, 1), _solve("empty", 0, 3),
    _solve("no columns", 3, 0), _solve("empty batch", 3, 2, (0,))),
    linear=(1,), normwise=True)


def _ties(dtype: Any) -> Any:
    """Equal pivots, zero columns, NaN, infinities, -0."""
    return np.array([[[1, 2, 3], [-1, 5, 6], [1, 1, 1]], [[0, 0, 0], [0, 0, 0], [0, 0, 0]],
                     [[0, 1, 2], [0, 0, 3], [0, 4, -0.0]], [[1, 2, 2], [2, 4, 4], [4, 8, 8]]])


def _shuffled(m: int, n: int) -> Any:
    """One large number in each row and column: pivots are the same in every precision."""
    rng = np.random.default_rng(m)
    x = rng.uniform(-1, 1, (m, n)) + 40 * np.eye(m, n)
    return op(values=x[rng.permutation(m)])


row("lu", FACTORED, (
    sample("normal", op(4, 4)), sample("tall", op(5, 3)), sample("wide", op(3, 5)),
    sample("batch", op(2, 2, 3, 3)), sample("loop", op(30, 30)),
    sample("halves", _shuffled(190, 190)),
    sample("tall halves", _shuffled(300, 120)),
    sample("wide halves", _shuffled(130, 270)),
    sample("many", op(70, 3, 3)), sample("column", op(6, 1)), sample("row", op(1, 6)),
    sample("one", op(1, 1)), sample("empty", op(0, 3)), sample("no columns", op(3, 0)),
    sample("empty batch", op(0, 3, 3))),
    normwise=True, factor=20.0,  # residuals of pivoted elimination grow with the size
    specials=(sample("ties", op(values=_ties)), sample("normal", op(4, 4))))


def _pivots(label: str, values: Any, size: int) -> Sample:
    return sample(label, op(values=values), permutation_size=size)


row("lu_pivots_to_permutation", (np.dtype("i4"),), (
    _pivots("normal", [1, 2, 2], 4), _pivots("all", [2, 2, 2], 3),
    _pivots("batch", [[[1, 1]], [[3, 2]]], 4), _pivots("outside", [1, 7, -2], 4),
    _pivots("loop", (np.arange(60) + np.arange(60) * 7 % 40), 100), _pivots("one", [0], 1),
    sample("empty", op(0), permutation_size=3), sample("empty batch", op(0, 2),
                                                       permutation_size=3)))
