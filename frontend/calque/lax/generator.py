"""lax functions of random bits: rng_bit_generator and rng_uniform.  calque.random is for users."""
from __future__ import annotations

import os
from typing import Any

import numpy as np

from calque.api import callbacks
from calque.core import dtypes
from calque.core.avals import aval_of
from calque.core.errors import explain
from calque.dispatch.eager import lazy_eval
from calque.dispatch.sharded.placing import resharded
from calque.lax.operands import as_operand, as_sizes, user_dtype
from calque.lax.shape import unchanged
from calque.primitives import elementwise as ew
from calque.primitives import generator as gen
from calque.primitives import shape as sh
from calque.primitives.generator import RandomAlgorithm


def rng_bit_generator(key: Any, shape: Any, dtype: Any = np.uint32,
                      algorithm: Any = RandomAlgorithm.RNG_DEFAULT, *,
                      out_sharding: Any = None) -> tuple[Any, Any]:
    """Random bits of a state, and the state after them; the same on every machine.

    Args:
      key: the state, uint32[4] (or uint64[2] with x64): a key and a counter.
      shape: of the bits.
      dtype: uint8, uint16, uint32 or uint64.
      algorithm: RandomAlgorithm.RNG_PHILOX (the default) or RNG_THREE_FRY.

    Returns:
      (the next state, bits)

    Raises:
      TypeError: the state or dtype is another one.
      ValueError: the algorithm is unknown.

    Example:
      >>> import numpy as np
      >>> from calque import lax
      >>> lax.rng_bit_generator(np.array([1, 2, 3, 4], np.uint32), (2,))[1]
      Array([ 512747620, 1298009047], dtype=uint32)
    """
    if out_sharding is not None:
        return resharded("rng_bit_generator", out_sharding, rng_bit_generator, key, shape, dtype,
                         algorithm)
    sizes = as_sizes("rng_bit_generator", shape)
    kind = user_dtype("rng_bit_generator", dtype)
    try:
        which = RandomAlgorithm(algorithm)
    except ValueError:
        raise ValueError(explain(f"rng_bit_generator: unknown algorithm {algorithm!r}.",
                                 fix="use lax.RandomAlgorithm.RNG_PHILOX or RNG_THREE_FRY."
                                 )) from None
    state = unchanged(as_operand("rng_bit_generator", key))
    after, bits = gen.rng_bit_generator(state, sizes, kind, which)
    return after, bits


def _fresh_state() -> Any:
    return np.frombuffer(os.urandom(16), np.uint32)


def rng_uniform(a: Any, b: Any, shape: Any) -> Any:
    """Numbers in [a, b) that differ from call to call; calque.random gives reproducible ones.

    Args:
      a: the smallest, a scalar of int or float dtype.
      b: the end, of a's dtype.
      shape: of the result.

    Returns:
      An array of a's dtype; integers are uniform up to a bias of (b - a) / 2^64.

    Raises:
      TypeError: dtypes differ or are no numbers.
      ValueError: a or b is no scalar.

    Example:
      >>> import numpy as np
      >>> from calque import lax
      >>> lax.rng_uniform(np.float32(2), np.float32(3), (5,)).shape
      (5,)
    """
    low, high = (as_operand("rng_uniform", v, i) for i, v in enumerate((a, b)))
    first, last = aval_of(low), aval_of(high)
    if first.dtype != last.dtype or first.dtype.kind not in "iuf":
        raise TypeError(explain(
            "Arguments to rng_uniform must have identical dtypes of numbers, got "
            f"{first.dtype.name} and {last.dtype.name}."))
    if first.shape or last.shape:
        raise ValueError(explain(
            f"Arguments to rng_uniform must be scalars; got shapes {first.shape} and "
            f"{last.shape}."))
    sizes, dtype = as_sizes("rng_uniform", shape), first.dtype
    with lazy_eval("rng_uniform"):
        state = callbacks.io_callback(_fresh_state, _Words())
        low, high = (sh.broadcast_in_dim(v, sizes, ()) for v in (low, high))
        span = ew.sub(high, low)
        if dtype.kind == "f":
            bits = gen.rng_bit_generator(state, sizes, "u4", RandomAlgorithm.RNG_PHILOX)[1]
            top = ew.convert(ew.shift_right_logical(bits, ew.const(bits, 8)),
                             dtypes.float32)
            unit = ew.convert(ew.mul(top, ew.const(top, 2.0**-24)), dtype)
            made = ew.add(low, ew.mul(unit, span))
            return ew.select_n(ew.lt(made, high), low, made)
        wide = np.dtype("u8") if dtype.itemsize == 8 else np.dtype("u4")
        bits = gen.rng_bit_generator(state, sizes, wide, RandomAlgorithm.RNG_PHILOX)[1]
        count = ew.convert(span, wide)
        one = ew.max_(count, sh.broadcast_in_dim(np.array(1, wide), sizes, ()))
        return ew.add(low, ew.convert(ew.rem(bits, one), dtype))


class _Words:
    """What the host's function returns."""

    shape = (4,)
    dtype = np.dtype("u4")


__all__ = ["RandomAlgorithm", "rng_bit_generator", "rng_uniform"]
