"""rng_bit_generator (bits from a state, and the next state) and optimization_barrier.

Start reading at `rng_bit_generator`.
"""
from __future__ import annotations

import enum
from collections.abc import Sequence
from typing import Any

import numpy as np

from calque.core.avals import ShapedArray
from calque.core.errors import explain
from calque.core.primitive import Primitive, is_linear
from calque.core.types import Shape
from calque.core.zeros import instantiate, is_zero, zero_like
from calque.primitives.control import batch_by_loop


class RandomAlgorithm(enum.IntEnum):
    """How bits are made from a state; the default is Philox.

    Example:
      >>> from calque import lax
      >>> lax.RandomAlgorithm.RNG_PHILOX.name
      'RNG_PHILOX'
    """

    RNG_DEFAULT = 0
    RNG_THREE_FRY = 1
    RNG_PHILOX = 2

    def __str__(self) -> str:
        return self.name


INT = np.dtype("i4")
BITS = tuple(np.dtype(f"u{n}") for n in (1, 2, 4, 8))

rng_bit_generator_p = Primitive("rng_bit_generator", multiple_results=True, differentiable=False)
optimization_barrier_p = Primitive("optimization_barrier", multiple_results=True, moves=True)
# which group of `platforms` the one is in that a program runs on; their number: in none.  Only what
# is traced for calque.export has it (lax.platform_dependent).
platform_index_p = Primitive("platform_index", differentiable=False, client=True)
platform_index_p.abstract = lambda *, platforms: ShapedArray((), INT)
platform_index_p.batch = lambda size, args, dims, **params: (platform_index_p.bind(**params), None)


def rng_bit_generator(state: Any, shape: Sequence[int], dtype: Any,
                      algorithm: RandomAlgorithm) -> list[Any]:
    """[next state, bits]"""
    return rng_bit_generator_p.bind(
        state, shape=tuple(shape), dtype=np.dtype(dtype), algorithm=algorithm, out_sharding=None)


def _bits_abstract(state: ShapedArray, *, shape: Shape, dtype: Any,
                   algorithm: RandomAlgorithm, out_sharding: Any = None) -> list[ShapedArray]:
    if (state.shape, state.dtype.name) not in (((4,), "uint32"), ((2,), "uint64")):
        raise TypeError(explain(
            f"rng_bit_generator: key must be uint32[4] or uint64[2], got {state.short()}.",
            fix="two words of key and two of counter make one: jnp.concatenate([key, key])."))
    if dtype not in BITS:
        raise TypeError(explain(f"rng_bit_generator: unsupported dtype {dtype.name}",
                                fix="use uint8, uint16, uint32 or uint64."))
    return [ShapedArray(state.shape, state.dtype), ShapedArray(shape, dtype)]


def _bits_batch(size: int, args: Sequence[Any], dims: Sequence[int | None], **params: Any) -> Any:
    return batch_by_loop(rng_bit_generator_p, size, args, dims, **params)


rng_bit_generator_p.abstract, rng_bit_generator_p.batch = _bits_abstract, _bits_batch


# ---- optimization_barrier: its operands, across which nothing is fused
def _barrier_abstract(*xs: ShapedArray) -> list[ShapedArray]:
    return list(xs)


def _barrier_jvp(primals: Sequence[Any], tangents: Sequence[Any]) -> Any:
    outs = optimization_barrier_p.bind(*primals)
    nonzero = [t for t in tangents if not is_zero(t)]
    made = iter(optimization_barrier_p.bind(*nonzero) if nonzero else ())
    return outs, [zero_like(o) if is_zero(t) else next(made)
                  for o, t in zip(outs, tangents)]


def _barrier_transpose(cts: Sequence[Any], *xs: Any) -> list[Any]:
    kept = [instantiate(ct) for ct, x in zip(cts, xs) if is_linear(x)]
    made = iter(optimization_barrier_p.bind(*kept) if kept else ())
    return [next(made) if is_linear(x) else None for x in xs]


def _barrier_batch(size: int, args: Sequence[Any], dims: Sequence[int | None]) -> Any:
    return optimization_barrier_p.bind(*args), list(dims)


optimization_barrier_p.abstract, optimization_barrier_p.jvp = _barrier_abstract, _barrier_jvp
optimization_barrier_p.transpose = _barrier_transpose
optimization_barrier_p.batch = _barrier_batch
