"""Samples of rng_bit_generator and optimization_barrier (see samples.py)."""
from __future__ import annotations

from typing import Any

import numpy as np

from calque.lax import RandomAlgorithm
from support.samples import ANY, op, row, sample

LATE = np.array([1, 2, 0xFFFFFFFE, 0xFFFFFFFF], np.uint32)  # counters that run over


def _bits(label: str, kind: str, *shape: int, dtype: str = "u4", state: Any = None) -> Any:
    operand = op(4) if state is None else op(values=state, dtype=state.dtype)
    return sample(f"{kind} {dtype} {label or shape}", operand, shape=shape, dtype=np.dtype(dtype),
                  algorithm=RandomAlgorithm[kind], out_sharding=None)


_KINDS = ("RNG_DEFAULT", "RNG_THREE_FRY", "RNG_PHILOX")
row("rng_bit_generator", (np.dtype("u4"),), (
    *[_bits("", k, *s) for k in _KINDS[:2] for s in ((10,), (), (1,), (3, 5), (5, 3), (3, 4, 2),
                                                     (0, 3))],
    *[_bits("", k, 7, dtype=d) for k in _KINDS[1:] for d in ("u1", "u2", "u8")],
    *[_bits("late", k, 13, dtype=d, state=LATE) for k in _KINDS[1:] for d in ("u4", "u8")],
    _bits("", "RNG_PHILOX", 300)),
    specials=(_bits("max", "RNG_PHILOX", 5, state=np.full(4, 0xFFFFFFFF, np.uint32)),))

row("optimization_barrier", ANY, (
    sample("normal", op(3, 4), op(2)), sample("scalar", op(), op(3)), sample("one", op(1)),
    sample("empty", op(0, 3), op(2, 2))), linear=(0, 1))
