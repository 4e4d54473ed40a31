"""Implementations of random streams by their records (`jax.extend.random`).

Streams are calque.random's, and those of functions of a library's own.  Start reading at
`PRNGImpl` and `define_prng_impl`.
"""
from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np

from calque import random
from calque.core.client import ClientPrimitive
from calque.core.dtypes import KeyDtype, Stream, key_dtype_of
from calque.core.errors import explain
from calque.core.types import Function, Shape
from calque.interpreters import batching, mlir
from calque.numpy import asarray, concatenate, uint32
from calque.random.keys import PRNGSpec


@dataclasses.dataclass(frozen=True)
class PRNGImpl:
    """An implementation: its name, the short form of it in dtypes, and the shape of a key's words.

    Args:
      name: as `calque.random.key` takes it.
      tag: as in key<fry>.
      key_shape: of the words of a key.

    Example:
      >>> from calque.extend.random import threefry_prng_impl
      >>> threefry_prng_impl.name, threefry_prng_impl.key_shape
      ('threefry2x32', (2,))
    """

    name: str
    tag: str
    key_shape: Shape


def _impl(name: str) -> PRNGImpl:
    dtype = key_dtype_of(name)
    return PRNGImpl(name, dtype.tag, (dtype.words,))


threefry_prng_impl, rbg_prng_impl, unsafe_rbg_prng_impl = (
    _impl(name) for name in ("threefry2x32", "rbg", "unsafe_rbg"))


def seed_with_impl(impl: PRNGImpl, seed: Any) -> Any:
    """A typed key of an implementation.

    Args:
      impl: one of this module's records.
      seed: integer scalar.

    Returns:
      A key of shape ().

    Raises:
      TypeError: the seed is no integer scalar, or impl is no record.

    Example:
      >>> from calque.extend.random import rbg_prng_impl, seed_with_impl
      >>> seed_with_impl(rbg_prng_impl, 3).dtype
      key<rbg>
    """
    return random_seed(seed, impl)


def random_seed(seeds: Any, impl: PRNGImpl) -> Any:
    """A typed key of an implementation (see `seed_with_impl`).

    Args:
      seeds: integer scalar.
      impl: one of this module's records.

    Returns:
      A key of shape ().

    Raises:
      TypeError: the seed is no integer scalar, or impl is no record.

    Example:
      >>> from calque.extend.random import random_seed, threefry_prng_impl
      >>> random_seed(3, threefry_prng_impl).dtype
      key<fry>
    """
    if isinstance(impl, PRNGSpec):
        return random.key(seeds, impl=impl)
    if not isinstance(impl, PRNGImpl):
        raise TypeError(explain(f"random_seed takes a PRNGImpl, got {impl!r}.",
                                fix="pass threefry_prng_impl, or use calque.random.key."))
    return random.key(seeds, impl=impl.name)


def define_prng_impl(*, key_shape: Shape, seed: Function, split: Function, random_bits: Function,
                     fold_in: Function, name: str = "<unnamed>", tag: str = "?") -> PRNGSpec:
    """A stream made of functions of its own, for `impl` of calque.random.key.

    Args:
      key_shape: of the words of a key, uint32.
      seed: seed(integer) -> words.
      split: split(words, shape) -> words of keys of that shape.
      random_bits: random_bits(words, bit_width, shape) -> unsigned integers of so many bits.
      fold_in: fold_in(words, number) -> words; the number is a uint32.
      name: of the stream.
      tag: the short form of it in dtypes.

    Returns:
      What `calque.random.key`, `wrap_key_data` and `key_dtype` take as impl.

    Raises:
      Nothing.

    Example:
      >>> import calque.numpy as jnp
      >>> from calque import random
      >>> from calque.extend.random import define_prng_impl
      >>> impl = define_prng_impl(
      ...     key_shape=(1,), name="count", tag="n",
      ...     seed=lambda s: jnp.uint32(s)[None],
      ...     split=lambda k, shape: k + 1 + jnp.arange(shape[0], dtype="uint32")[:, None],
      ...     random_bits=lambda k, width, shape: jnp.full(shape, k[0]).astype(f"uint{width}"),
      ...     fold_in=lambda k, n: k ^ n)
      >>> key = random.key(7, impl=impl)
      >>> random.bits(key, (2,)), key.dtype, random.key_impl(key)
      (Array([7, 7], dtype=uint32), key<n>, PRNGSpec('count'))
    """
    stream = Stream(tuple(key_shape), seed, split, random_bits, fold_in)
    return PRNGSpec(KeyDtype(tag, name, math.prod(key_shape), stream))


_ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))


def threefry_2x32(keypair: Any, count: Any) -> Any:
    """Threefry-2x32 with 20 rounds (Salmon et al., 2011) of a counter.

    Args:
      keypair: two words of a key, uint32.
      count: uint32 array; its first half and its second half are the two words of the counters.

    Returns:
      Random words of count's shape, uint32.

    Raises:
      TypeError: an operand is no uint32.

    Example:
      >>> import calque.numpy as jnp
      >>> from calque.extend.random import threefry_2x32
      >>> threefry_2x32(jnp.array([1, 2], "uint32"), jnp.arange(4, dtype="uint32"))
      Array([4128513521, 3192206206, 2345921600, 3057534555], dtype=uint32)
    """
    first, second = (asarray(k) for k in keypair)
    count = asarray(count)
    if {first.dtype, second.dtype, count.dtype} != {asarray(0, uint32).dtype}:
        raise TypeError(explain(
            f"threefry_2x32 takes uint32, got {first.dtype}, {second.dtype} and {count.dtype}.",
            fix="cast with .astype(jnp.uint32)."))
    flat = count.ravel()
    odd = flat.size % 2
    if odd:
        flat = concatenate([flat, asarray([0], uint32)])
    half = flat.size // 2
    out = concatenate(_block(first, second, flat[:half], flat[half:]))
    return (out[:-1] if odd else out).reshape(count.shape)


def _block(first: Any, second: Any, x: Any, y: Any) -> list[Any]:
    """Both words of what a key makes of two words of a counter."""
    keys = (first, second, first ^ second ^ uint32(0x1BD11BDA))
    x, y = x + keys[0], y + keys[1]
    for i in range(5):
        for r in _ROTATIONS[i % 2]:
            x = x + y
            y = ((y << uint32(r)) | (y >> uint32(32 - r))) ^ x
        x, y = x + keys[(i + 1) % 3], y + keys[(i + 2) % 3] + uint32(i + 1)
    return [x, y]


def _block_types(*avals: Any) -> list[Any]:
    if len({(a.shape, a.dtype) for a in avals}) != 1 or avals[0].dtype != np.uint32:
        raise TypeError(explain("threefry2x32 takes four uint32 arrays of one shape.",
                                fix="broadcast and cast them."))
    return [avals[0], avals[0]]


threefry2x32_p = ClientPrimitive("threefry2x32")  # (ours gives both words as one of 64 bits)
threefry2x32_p.multiple_results = True
threefry2x32_p.def_abstract_eval(_block_types)
threefry2x32_p.def_impl(_block)
mlir.register_lowering(threefry2x32_p, mlir.lower_fun(_block))
batching.defbroadcasting(threefry2x32_p)


__all__ = ["PRNGImpl", "define_prng_impl", "random_seed", "rbg_prng_impl", "seed_with_impl",
           "threefry2x32_p", "threefry_2x32", "threefry_prng_impl", "unsafe_rbg_prng_impl"]


def __dir__() -> list[str]:
    return __all__
