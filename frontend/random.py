"""Random numbers: keys, splitting and bits of JAX's Threefry streams, bit for bit.

The default stream is the one the tutorials print; `jax_threefry_partitionable` selects today's.
Keys are typed (`random.key`) or, as of old, uint32[2] arrays (`random.PRNGKey`).
Start reading at `_key_of` and `uniform`.
"""
from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from calque.array import Array
from calque.core import dtypes, errors
from calque.core.avals import aval_of
from calque.core.config import config
from calque.core.trace import Tracer
from calque.eager import fused
from calque.primitives import elementwise as ew
from calque.primitives import random as prim
from calque.primitives import shape as sh

__all__ = ["PRNGKey", "bits", "clone", "fold_in", "key", "key_data", "key_impl", "normal", "split",
           "uniform", "wrap_key_data"]


def __dir__() -> list[str]:
    return __all__


def _is_legacy(key: Any) -> bool:
    a = aval_of(key)
    return not dtypes.is_key(a.dtype)


def _key_of(name: str, key: Any, batched: bool = False) -> Any:
    """A typed key from either form; TypeError or ValueError for anything else."""
    if not isinstance(key, (Array, Tracer, np.ndarray)):
        raise TypeError(errors.explain(
            f"{name}: unexpected PRNG key type {type(key)}.",
            fix="make a key with random.key(seed) or random.PRNGKey(seed)."))
    a = aval_of(key)
    if dtypes.is_key(a.dtype):
        shape = a.shape
    else:
        if a.dtype != np.dtype("uint32"):
            raise TypeError(errors.explain(
                f"{name}: PRNG key must be a typed key or a uint32 array, got {a.short()}."))
        if a.shape[-1:] != (2,):
            raise TypeError(errors.explain(
                f"{name}: JAX encountered invalid PRNG key data: expected key_data.shape to end "
                f"with (2,); got {a.shape}."))
        key, shape = prim.random_wrap_p.bind(key), a.shape[:-1]
    if shape and not batched:
        raise ValueError(errors.explain(
            f"{name} accepts a single key, but was given a key array of shape {shape} != ().",
            fix="use vmap for batching."))
    return key


def _seed(seed: Any) -> Any:
    if isinstance(seed, (int, np.integer)) and not isinstance(seed, bool):
        if not -2**63 <= int(seed) < 2**64:
            raise OverflowError(f"PRNG key seed {seed} does not fit 64 bits.")
        bits = int(seed) & (2**64 - 1)
        if config.jax_enable_x64:
            return np.uint64(bits)
        return np.int64(bits if bits < 2**63 else bits - 2**64).astype(np.int32)
    a = aval_of(seed)
    if not dtypes.is_integer(a.dtype):
        raise TypeError(errors.explain(f"PRNG key seed must be an integer; got {seed!r}."))
    if a.shape:
        raise TypeError(errors.explain(
            f"PRNG key seed must be a scalar; got an array of shape {a.shape}.",
            fix="use vmap for batching."))
    return seed


def _check_impl(impl: Any) -> None:
    name = getattr(impl, "name", impl)
    if name not in (None, "threefry2x32", "fry"):
        raise ValueError(errors.explain(
            f"unrecognized PRNG implementation {impl!r}.", fix="use 'threefry2x32'."))


def key(seed: Any, *, impl: Any = None) -> Array:
    """A typed PRNG key from an integer seed.

    Args:
      seed: integer scalar of at most 64 bits (without x64 the low 32 count), also traced.
      impl: 'threefry2x32' or None.

    Returns:
      A key, shape ().

    Raises:
      TypeError: the seed is no integer scalar.
      OverflowError: a Python seed does not fit 64 bits.
      ValueError: another implementation is asked for.

    Example:
      >>> import calque.random as random
      >>> random.key(1)
      Array((), dtype=key<fry>) overlaying:
      [0 1]
    """
    _check_impl(impl)
    return prim.random_seed_p.bind(_seed(seed))


def PRNGKey(seed: Any, *, impl: Any = None) -> Array:  # noqa: N802 (JAX's name)
    """A key as a uint32[2] array (the older form).

    Args:
      seed: integer scalar of at most 64 bits (without x64 the low 32 count), also traced.
      impl: 'threefry2x32' or None.

    Returns:
      uint32[2].

    Raises:
      TypeError: the seed is no integer scalar.
      OverflowError: a Python seed does not fit 64 bits.
      ValueError: another implementation is asked for.

    Example:
      >>> import calque.random as random
      >>> print(random.PRNGKey(18))
      [ 0 18]
    """
    _check_impl(impl)
    with fused("PRNGKey"):
        return prim.random_unwrap_p.bind(prim.random_seed_p.bind(_seed(seed)))


def wrap_key_data(key_bits_array: Any, *, impl: Any = None) -> Array:
    """A typed key from its words.

    Args:
      key_bits_array: uint32[..., 2].
      impl: 'threefry2x32' or None.

    Returns:
      Keys of shape [...].

    Raises:
      TypeError: the words are not uint32, or their last axis is not 2.
      ValueError: another implementation is asked for.

    Example:
      >>> import calque.random as random
      >>> import numpy as np
      >>> random.wrap_key_data(np.array([0, 1], np.uint32))
      Array((), dtype=key<fry>) overlaying:
      [0 1]
    """
    _check_impl(impl)
    return prim.random_wrap_p.bind(key_bits_array)


def key_data(keys: Any) -> Array:
    """The words of keys.

    Args:
      keys: PRNG keys, typed or as words.

    Returns:
      uint32[..., 2].

    Raises:
      TypeError: the argument is no key.

    Example:
      >>> import calque.random as random
      >>> random.key_data(random.key(1))
      Array([0, 1], dtype=uint32)
    """
    return prim.random_unwrap_p.bind(_key_of("key_data", keys, batched=True))


def key_impl(keys: Any) -> str:
    """The implementation of a key's stream.

    Args:
      keys: PRNG keys, typed or as words.

    Returns:
      'threefry2x32'.

    Raises:
      TypeError: the argument is no key.

    Example:
      >>> import calque.random as random
      >>> random.key_impl(random.key(0))
      'threefry2x32'
    """
    _key_of("key_impl", keys, batched=True)
    return "threefry2x32"


def clone(key: Any) -> Array:
    """The same key (in JAX a mark that it is used again on purpose).

    Args:
      key: a PRNG key.

    Returns:
      The key.

    Raises:
      Nothing.

    Example:
      >>> import calque.random as random
      >>> k = random.PRNGKey(18)
      >>> print(random.clone(k))
      [ 0 18]
    """
    return key


def _like(given: Any, typed: Any) -> Any:
    return prim.random_unwrap_p.bind(typed) if _is_legacy(given) else typed


def split(key: Any, num: int | Sequence[int] = 2) -> Array:
    """New keys from one; draw from those and never again from the old one.

    Args:
      key: a PRNG key.
      num: how many, or the shape of an array of them.

    Returns:
      Keys in the form of `key`: typed ones of shape (num,), or uint32[num, 2].

    Raises:
      TypeError: the argument is no key.
      ValueError: it is an array of keys.

    Example:
      >>> import calque.random as random
      >>> a, b = random.split(random.PRNGKey(18))
      >>> print(a, b)
      [4197003906 1654466292] [1685972163 1654824463]
    """
    typed = _key_of("split", key)
    shape = (int(num),) if isinstance(num, (int, np.integer)) else tuple(int(n) for n in num)
    with fused("split"):
        typed = _key_of("split", key)
        return _like(key, prim.random_split_p.bind(
            typed, shape=shape, partitionable=config.jax_threefry_partitionable))


def fold_in(key: Any, data: Any) -> Array:
    """A new key from a key and an integer, such as the number of a step.

    Args:
      key: a PRNG key.
      data: integer scalar, taken modulo 2^32.

    Returns:
      A key in the form of `key`.

    Raises:
      TypeError: the first argument is no key, or data is no integer scalar.
      ValueError: the first argument is an array of keys.

    Example:
      >>> import calque.random as random
      >>> print(random.fold_in(random.PRNGKey(0), 1))
      [ 928981903 3453687069]
    """
    _key_of("fold_in", key)
    a = aval_of(data)
    if a.shape:
        raise TypeError(errors.explain(
            f"fold_in accepts a scalar, but was given an array of shape {a.shape} != ().",
            fix="use vmap for batching."))
    if not dtypes.is_integer(a.dtype):
        raise TypeError(errors.explain(f"fold_in: data must be an integer, got {a.short()}."))
    with fused("fold_in"):
        typed = _key_of("fold_in", key)
        if isinstance(data, (int, np.integer)):
            word: Any = np.uint32(int(data) & 0xFFFFFFFF)
        else:
            word = ew.convert(data, np.uint32)
        return _like(key, prim.random_fold_in_p.bind(typed, word))


def _shape(name: str, shape: Any) -> tuple[int, ...]:
    if isinstance(shape, (int, np.integer)):
        return (int(shape),)
    try:
        return tuple(int(d) for d in shape)
    except TypeError:
        raise TypeError(errors.explain(
            f"{name}: shape must be a tuple of integers, got {shape!r}.")) from None


def bits(key: Any, shape: Any = (), dtype: Any = None, *, out_sharding: Any = None) -> Array:
    """Uniform random bits as unsigned integers.

    Args:
      key: a PRNG key.
      shape: of the result.
      dtype: uint8, uint16, uint32 or uint64 (default uint32, uint64 with x64).
      out_sharding: accepted for compatibility.

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
    _key_of("bits", key)
    d = dtypes.canonical(np.uint64 if dtype is None else dtype)
    if d.kind != "u":
        raise ValueError(errors.explain(
            f"dtype argument to `bits` must be an unsigned int dtype, got {d}."))
    with fused("bits"):
        return _bits(_key_of("bits", key), 8 * d.itemsize, _shape("bits", shape))


def _bits(key: Any, width: int, shape: tuple[int, ...]) -> Any:
    return prim.random_bits_p.bind(key, bit_width=width, shape=shape,
                                   partitionable=config.jax_threefry_partitionable)


def _float_dtype(name: str, dtype: Any) -> np.dtype[Any]:
    d = dtypes.canonical(float if dtype is None else dtype)
    if not dtypes.is_float(d):
        raise ValueError(errors.explain(
            f"dtype argument to `{name}` must be a float dtype, got {d}."))
    return d


def uniform(key: Any, shape: Any = (), dtype: Any = None, minval: Any = 0.0, maxval: Any = 1.0,
            *, out_sharding: Any = None) -> Array:
    """Uniform random floats in [minval, maxval).

    The mantissa is filled with random bits (23 for float32, 52 for float64) under exponent 0, and
    1 is subtracted, so that the values are multiples of 2^-23 (2^-52), as JAX's are.

    Args:
      key: a PRNG key.
      shape: of the result.
      dtype: float dtype (default float32, float64 with x64).
      minval, maxval: bounds, broadcast to shape.
      out_sharding: accepted for compatibility.

    Returns:
      An array of that shape and dtype.

    Raises:
      TypeError: the first argument is no key, or shape is no tuple of integers.
      ValueError: it is an array of keys, or dtype is no float dtype.

    Example:
      >>> import calque.random as random
      >>> print(random.uniform(random.PRNGKey(0), (2,)))
      [0.21629536 0.8041241 ]
    """
    _key_of("uniform", key)
    d = _float_dtype("uniform", dtype)
    with fused("uniform"):
        return _uniform(_key_of("uniform", key), _shape("uniform", shape), d, minval, maxval)


def _spread(x: Any, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Any:
    x = ew.convert(x, dtype) if hasattr(x, "aval") or np.ndim(x) else np.asarray(x, dtype)[()]
    have = aval_of(x).shape
    if have == shape or not have:
        return x
    return sh.broadcast_in_dim(x, shape, range(len(shape) - len(have), len(shape)))


def _uniform(key: Any, shape: tuple[int, ...], d: np.dtype[Any], minval: Any,
             maxval: Any) -> Any:
    info = dtypes.finfo(d)
    width, mantissa = 8 * d.itemsize, info.nmant
    drawn = 8 if mantissa < 8 else width  # short mantissas take 8 random bits
    words = _bits(key, drawn, shape)
    kind = np.dtype(f"uint{width}")
    if drawn != width:
        words = ew.convert(words, kind)
    one = np.ones((), d).view(kind)[()]
    filled = ew.or_p.bind(
        ew.shift_right_logical_p.bind(words, kind.type(drawn - mantissa)), one)
    floats = ew.sub(ew.bitcast_convert_type_p.bind(filled, new_dtype=d), ew.const(
        np.zeros((), d), 1))
    low, high = _spread(minval, shape, d), _spread(maxval, shape, d)
    scaled = ew.add(ew.mul(floats, ew.sub(high, low)), low)
    return sh.reshape(ew.max_p.bind(low, scaled), shape)


def normal(key: Any, shape: Any = (), dtype: Any = None, *, out_sharding: Any = None) -> Array:
    """Standard normal floats: sqrt(2) * erf_inv(u) of u uniform in (-1, 1).

    Args:
      key: a PRNG key.
      shape: of the result.
      dtype: float dtype (default float32, float64 with x64), or a complex one, whose two parts have
        variance 1/2 each.
      out_sharding: accepted for compatibility.

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
    _key_of("normal", key)
    d = dtypes.canonical(float if dtype is None else dtype)
    if not dtypes.is_inexact(d):
        raise ValueError(errors.explain(
            f"dtype argument to `normal` must be a float or complex dtype, got {d}."))
    with fused("normal"):
        typed = _key_of("normal", key)
        size = _shape("normal", shape)
        if not dtypes.is_complex(d):
            return _normal(typed, size, d)
        part = dtypes.real_dtype(d)
        keys = prim.random_split_p.bind(typed, shape=(2,),
                                        partitionable=config.jax_threefry_partitionable)
        re, im = (_normal(sh.squeeze(sh.slice_in_dim(keys, i, i + 1, 0), (0,)), size, part)
                  for i in (0, 1))
        both = ew.complex_(re, im)
        return ew.div(both, ew.const(np.zeros((), d), math.sqrt(2)))


def _normal(key: Any, shape: tuple[int, ...], d: np.dtype[Any]) -> Any:
    low = np.nextafter(np.asarray(-1, d), np.asarray(0, d), dtype=d)
    u = _uniform(key, shape, d, low, np.asarray(1, d)[()])
    return ew.mul(np.asarray(math.sqrt(2), d)[()], ew.erf_inv_p.bind(u))
