"""Bits, uniform and normal numbers, integers and coins, bit for bit JAX's from the same keys.

The default stream is the one the tutorials print; `jax_threefry_partitionable` selects today's.
Start reading at `raw_bits` and `draw_uniform`.
"""
from __future__ import annotations

import math
from typing import Any

import numpy as np

from calque import numpy as jnp
from calque.core import dtypes
from calque.core.avals import shape_of
from calque.core.config import config
from calque.core.errors import TypePromotionError, explain
from calque.core.types import Dtype, Shape
from calque.dispatch.array import Array
from calque.dispatch.eager import lazy_eval
from calque.dispatch.replay import planned
from calque.dispatch.sharded.placing import resharding
from calque.lax.operands import user_dtype
from calque.lax.shape import broadcast_sizes
from calque.primitives import elementwise as ew
from calque.primitives import random as prim
from calque.primitives import shape as sh
from calque.random.keys import as_shape, float_dtype, key_of, subkeys


@resharding
@planned
def bits(key: Any, shape: Any = (), dtype: Any = None, *, out_sharding: Any = None) -> Array:
    """Uniform random bits as unsigned integers.

    Args:
      key: a PRNG key.
      shape: of the result.
      dtype: uint8, uint16, uint32 or uint64 (default uint32, uint64 with x64).
      out_sharding: of the result, over Explicit axes (NamedSharding or PartitionSpec).

    Returns:
      An array of that shape and dtype.

    Raises:
      TypeError: the first argument is no key, or shape is no tuple of integers.
      ValueError: it is an array of keys, or dtype is no unsigned integer dtype.

    Example:
      >>> import calque.random as random
      >>> random.bits(random.PRNGKey(0), (2,))
      Array([ 928981903, 3453687069], dtype=uint32)
    """
    d = dtypes.canonical(np.uint64) if dtype is None else user_dtype("", dtype)
    if not dtypes.is_unsigned(d):
        raise ValueError(explain(
            f"dtype argument to `bits` must be an unsigned int dtype, got {d}."))
    with lazy_eval("bits"):
        return raw_bits(key_of("bits", key), 8 * d.itemsize, as_shape("bits", shape))


def raw_bits(key: Any, width: int, shape: Shape) -> Any:
    """Random bits of a typed key."""
    return prim.bits(key, width, shape, config.jax_threefry_partitionable)


@resharding
@planned
def uniform(key: Any, shape: Any = (), dtype: Any = None, minval: Any = 0.0, maxval: Any = 1.0,
            *, out_sharding: Any = None) -> Array:
    """Uniform random floats in [minval, maxval).

    The mantissa is filled with random bits (23 for float32, 52 for float64) under exponent 0, and
    1 is subtracted, so that the values are multiples of 2^-23 (2^-52), as JAX's are.

    Args:
      key: a PRNG key.
      shape: of the result.
      dtype: float dtype (default float32, float64 with x64).
      minval, maxval: bounds, broadcast to shape. As in JAX, one number of rank 1 and more
        (shape (1,), (1, 1)) goes with the shape () only, and the result has its shape.
      out_sharding: of the result, over Explicit axes (NamedSharding or PartitionSpec).

    Returns:
      An array of that shape and dtype.

    Raises:
      TypeError: the first argument is no key, or shape is no tuple of integers.
      ValueError: it is an array of keys, dtype is no float dtype, or a bound does not broadcast.

    Example:
      >>> import calque.random as random
      >>> print(random.uniform(random.PRNGKey(0), (2,)))
      [0.21629536 0.8041241 ]
    """
    d = float_dtype("uniform", dtype)
    with lazy_eval("uniform"):
        wanted = as_shape("uniform", shape)
        drawn = draw_uniform(key_of("uniform", key), wanted, d, *(
            _fitting(name, bound, wanted) for name, bound in (
                ("minval", minval), ("maxval", maxval))))
        return _of_rank_one(drawn, minval, maxval) if wanted == () else drawn


def _fitting(name: str, bound: Any, shape: Shape) -> Any:
    """A bound that broadcasts to a shape; one number of any rank beside () is a scalar."""
    have = shape_of(bound)
    if shape == () and have and math.prod(have) == 1:
        return sh.reshape(bound, ())
    if have and (len(have) > len(shape) or any(n not in (1, m) for n, m in zip(
            have[::-1], shape[::-1], strict=False))):
        raise ValueError(explain(
            f"uniform: {name} of shape {have} does not broadcast to the shape {shape}.",
            fix=f"draw numbers of shape {have}, or give bounds that broadcast to {shape}."))
    return bound


def _of_rank_one(drawn: Any, *bounds: Any) -> Any:
    """A scalar in the shape of bounds of one number each."""
    rank = max(len(shape_of(b)) for b in bounds)
    return sh.reshape(drawn, (1,) * rank) if rank else drawn


def broadcast_bound(x: Any, shape: Shape, dtype: Dtype) -> Any:
    if hasattr(x, "aval") or np.ndim(x):
        x = ew.convert(x, dtype)
    else:
        x = np.asarray(np.real(x), dtype)[()]  # (JAX's bounds may be complex, too)
    have = shape_of(x)
    if have == shape or not have:
        return x
    return sh.broadcast_in_dim(x, shape, range(len(shape) - len(have), len(shape)))


def draw_uniform(key: Any, shape: Shape, d: Dtype, minval: Any = 0,
                 maxval: Any = 1) -> Any:
    """Numbers in [minval, maxval) of a typed key."""
    info = dtypes.finfo(d)
    width, mantissa = 8 * d.itemsize, info.nmant
    drawn = 8 if mantissa < 8 else width  # short mantissas take 8 random bits
    words = raw_bits(key, drawn, shape)
    kind = np.dtype(f"uint{width}")
    if drawn != width:
        words = ew.convert(words, kind)
    one = np.ones((), d).view(kind)[()]
    filled = ew.or_(
        ew.shift_right_logical(words, kind.type(drawn - mantissa)), one)
    floats = ew.sub(ew.bitcast_convert_type(filled, new_dtype=d), ew.const(
        np.zeros((), d), 1))
    low, high = broadcast_bound(minval, shape, d), broadcast_bound(maxval, shape, d)
    scaled = ew.add(ew.mul(floats, ew.sub(high, low)), low)
    return sh.reshape(ew.max_(low, scaled), shape)


@resharding
@planned
def normal(key: Any, shape: Any = (), dtype: Any = None, *, out_sharding: Any = None) -> Array:
    """Standard normal floats: sqrt(2) * erf_inv(u) of u uniform in (-1, 1).

    Args:
      key: a PRNG key.
      shape: of the result.
      dtype: float dtype (default float32, float64 with x64), or a complex one, whose two parts have
        variance 1/2 each.
      out_sharding: of the result, over Explicit axes (NamedSharding or PartitionSpec).

    Returns:
      An array of that shape and dtype.

    Raises:
      TypeError: the first argument is no key, or shape is no tuple of integers.
      ValueError: it is an array of keys, or dtype is no float or complex dtype.

    Example:
      >>> import calque.random as random
      >>> [round(x, 4) for x in random.normal(random.PRNGKey(0), (2,)).tolist()]
      [-0.7848, 0.8564]
    """
    d = float_dtype("normal", dtype, " or complex")
    with lazy_eval("normal"):
        return draw_normal(key_of("normal", key), as_shape("normal", shape), d)


def draw_normal(key: Any, shape: Shape, d: Dtype) -> Any:
    """Standard normal numbers of a typed key."""
    if dtypes.is_complex(d):
        real = dtypes.real_dtype(d)
        root = np.asarray(1, real)[()] / np.asarray(math.sqrt(2), real)[()]  # as XLA divides
        return ew.complex_(*(ew.mul(draw_normal(k, shape, real), root) for k in subkeys(key)))
    low = np.nextafter(np.asarray(-1, d), np.asarray(0, d), dtype=d)
    u = draw_uniform(key, shape, d, low, np.asarray(1, d)[()])
    return ew.mul(np.asarray(math.sqrt(2), d)[()], ew.erf_inv(u))


def parameters(name: str, shape: Any, *values: Any, dtype: Any = None, safe: bool = False
               ) -> tuple[tuple[int, ...], list[Any]]:
    """The shape of the draws and the parameters of a distribution as arrays of `dtype`, which
    holds all of their values if `safe`."""
    arrays = [given(name, v) for v in values]
    for a in arrays if safe else ():
        if jnp.result_type(a, dtype) != dtype:
            raise TypePromotionError(explain(
                f"In arguments to {name}, cannot safely cast argument of type {a.dtype} to "
                f"{dtype}.", fix="convert it, or give a wider dtype."))
    if dtype is not None:
        arrays = [ew.convert(a, dtype) for a in arrays]
    shapes = [tuple(a.shape) for a in arrays]
    size = None if shape is None else as_shape(name, shape)
    every = shapes if size is None else [size, *shapes]
    try:
        full = broadcast_sizes(every)
    except ValueError:
        raise ValueError(explain(
            f"{name}: Incompatible shapes for broadcasting: shapes={every}.")) from None
    if size is not None and full != size:
        raise ValueError(explain(
            f"{name} parameter shapes must be broadcast-compatible with shape argument, and the "
            f"result of broadcasting the shapes must equal the shape argument, but got result "
            f"{full} for shape argument {size}."))
    return tuple(full), arrays


def given(name: str, x: Any) -> Any:
    """A parameter as an array; TypeError for what is none."""
    if not (isinstance(x, (Array, np.ndarray, np.generic, bool, int, float, complex))
            or hasattr(x, "aval") or hasattr(x, "__jax_array__")):
        raise TypeError(explain(
            f"{name} requires ndarray or scalar arguments, got {type(x)}.",
            fix="make an array of it with numpy.asarray."))
    return jnp.asarray(x)


# ---- integers
@resharding
@planned
def randint(key: Any, shape: Any, minval: Any, maxval: Any, dtype: Any = None, *,
            out_sharding: Any = None) -> Array:
    """Uniform random integers in [minval, maxval).

    Args:
      key: a PRNG key.
      minval, maxval: integers, broadcast to shape; what lies outside of dtype counts as its ends.
        An empty interval gives minval.
      shape: of the result.
      dtype: integer dtype (default int32, int64 with x64).
      out_sharding: of the result, over Explicit axes (NamedSharding or PartitionSpec).

    Returns:
      An array of that shape and dtype.

    Raises:
      TypeError: the first argument is no key, or shape is no tuple of integers.
      ValueError: it is an array of keys, or dtype is no such dtype.
      TypeError: the dtype is no integer one.

    Example:
      >>> import calque.random as random
      >>> key = random.PRNGKey(0)
      >>> print(random.randint(key, (3,), 0, 10))
      [8 1 7]
    """
    d = user_dtype("", int if dtype is None else dtype)
    if not dtypes.is_integer(d):
        raise TypeError(explain(f"randint only accepts integer dtypes, got {d}."))
    with lazy_eval("randint"):
        typed = key_of("randint", key)
        size, (low, high) = parameters("randint", shape, minval, maxval)
        return draw_randint(typed, size, low, high, d)


def draw_randint(key: Any, shape: Shape, low: Any, high: Any, d: Dtype) -> Any:
    """Two words of bits for each number: their remainders by the span are nearly uniform."""
    limits = dtypes.iinfo(d)
    if d.itemsize < 4:
        wide = np.dtype(np.int32)
        low = _clipped(low, limits.min, limits.max)
        high = _clipped(high, limits.min, limits.max + 1)
        return ew.convert(draw_randint(key, shape, low, high, wide), d)
    beyond = jnp.greater(high, _bound(high, limits.max)) if high.dtype != d else False
    low, high = (ew.convert(_clipped(v, limits.min, limits.max), d) for v in (low, high))
    unsigned = np.dtype(f"u{d.itemsize}")
    bits_high, bits_low = (raw_bits(k, 8 * d.itemsize, shape) for k in subkeys(key))
    span = jnp.where(high <= low, unsigned.type(1), ew.convert(high - low, unsigned))
    if beyond is not False:
        span = jnp.where(beyond & (high > low), span + unsigned.type(1), span)
    span = jnp.broadcast_to(span, shape)
    factor = ew.rem(jnp.full(shape, 1 << (4 * d.itemsize), unsigned), span)
    factor = ew.rem(factor * factor, span)  # (x rem 0 is x, as for the span 2^32)
    offset = ew.rem(bits_high, span) * factor + ew.rem(bits_low, span)
    return low + ew.convert(ew.rem(offset, span), d)


def _bound(x: Any, value: int) -> Any:
    """A limit of an integer dtype in the dtype of x, as far as that reaches."""
    if dtypes.is_integer(x.dtype):
        info = dtypes.iinfo(x.dtype)
        value = min(max(value, info.min), info.max)
    return np.asarray(value).astype(x.dtype)[()]


def _clipped(x: Any, low: int, high: int) -> Any:
    return jnp.minimum(jnp.maximum(x, _bound(x, low)), _bound(x, high))


# ---- coins
def _chance(p: Any) -> Any:
    x = given("bernoulli", p)
    if not dtypes.is_float(x.dtype):
        raise TypeError(explain(
            f"bernoulli probability `p` must have a floating dtype, got {x.dtype}."))
    return x


@resharding
@planned
def bernoulli(key: Any, p: Any = 0.5, shape: Any = None, mode: str = "low", *,
              out_sharding: Any = None) -> Array:
    """True with probability p: a uniform number below p.

    Args:
      key: a PRNG key.
      p: probability, a float array.
      mode: 'low' (one uniform number) or 'high' (two, for exact small probabilities).
      shape: of the result (default that of p).
      out_sharding: of the result, over Explicit axes (NamedSharding or PartitionSpec).

    Returns:
      A bool array of that shape.

    Raises:
      TypeError: the first argument is no key, or shape is no tuple of integers.
      ValueError: it is an array of keys.
      TypeError: p is no float.
      ValueError: mode is unknown, or p has another shape.

    Example:
      >>> import calque.random as random
      >>> key = random.PRNGKey(0)
      >>> print(random.bernoulli(key, 0.3, (3,)))
      [False False False]
    """
    if mode not in ("high", "low"):
        raise ValueError(explain(f"bernoulli: got {mode=}, expected 'high' or 'low'."))
    with lazy_eval("bernoulli"):
        typed = key_of("bernoulli", key)
        size, (chance,) = parameters("bernoulli", shape, _chance(p))
        return draw_bernoulli(typed, chance, size, mode)


def draw_bernoulli(key: Any, p: Any, shape: Shape, mode: str = "low") -> Any:
    """Coins of a typed key."""
    d = np.dtype(p.dtype)
    if mode == "low":
        return draw_uniform(key, shape, d) < p
    u = draw_uniform(key, (2, *shape), d)
    return u[1] * d.type(2.0 ** -dtypes.finfo(d).nmant) < p - u[0]


@resharding
@planned
def rademacher(key: Any, shape: Any = (), dtype: Any = None, *, out_sharding: Any = None) -> Array:
    """1 or -1, each with probability 1/2.

    Args:
      key: a PRNG key.
      shape: of the result.
      dtype: any dtype (default int32, int64 with x64).
      out_sharding: of the result, over Explicit axes (NamedSharding or PartitionSpec).

    Returns:
      An array of that shape and dtype.

    Raises:
      TypeError: the first argument is no key, or shape is no tuple of integers.
      ValueError: it is an array of keys, or dtype is no such dtype.

    Example:
      >>> import calque.random as random
      >>> key = random.PRNGKey(0)
      >>> print(random.rademacher(key, (4,)))
      [-1  1 -1  1]
    """
    d = user_dtype("", int if dtype is None else dtype)
    with lazy_eval("rademacher"):
        return draw_rademacher(key_of("rademacher", key), as_shape("rademacher", shape), d)


def draw_rademacher(key: Any, shape: Shape, d: Dtype) -> Any:
    """1 or -1 of a typed key."""
    half = jnp.asarray(0.5, dtypes.canonical(float))
    head = draw_bernoulli(key, half, shape)
    if d == np.dtype(bool):
        return jnp.ones(shape, d)
    return ew.convert(head, d) * d.type(2) - d.type(1)
