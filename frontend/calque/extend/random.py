"""Implementations of random streams by their records (`jax.extend.random`).

Streams are calque.random's; one of a library's own is refused.  Start reading at `PRNGImpl`.
"""
from __future__ import annotations

import dataclasses
from typing import Any

from calque import random
from calque.core.dtypes import key_dtype_of
from calque.core.errors import explain
from calque.core.types import Shape
from calque.numpy import asarray, concatenate, uint32


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
    if not isinstance(impl, PRNGImpl):
        raise TypeError(explain(f"random_seed takes a PRNGImpl, got {impl!r}.",
                                fix="pass threefry_prng_impl, or use calque.random.key."))
    return random.key(seeds, impl=impl.name)


def define_prng_impl(*, name: str = "<unnamed>", **functions: Any) -> PRNGImpl:
    """Refused: a stream made of functions of a library's own.

    Args:
      name: of the stream.
      **functions: key_shape, seed, split, random_bits, fold_in, tag.

    Returns:
      Nothing.

    Raises:
      NotImplementedError: always.

    Example:
      >>> from calque.extend.random import define_prng_impl
      >>> define_prng_impl(name="mine")
      Traceback (most recent call last):
        ...
      NotImplementedError: define_prng_impl: a stream 'mine' of functions of its own ...
    """
    raise NotImplementedError(explain(
        f"define_prng_impl: a stream {name!r} of functions of its own cannot be a dtype of keys "
        "here.", fix="use one of the streams that calque.random.key takes as impl."))


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
    x, y = flat[:half], flat[half:]
    keys = (first, second, first ^ second ^ uint32(0x1BD11BDA))
    x, y = x + keys[0], y + keys[1]
    for i in range(5):
        for r in _ROTATIONS[i % 2]:
            x = x + y
            y = ((y << uint32(r)) | (y >> uint32(32 - r))) ^ x
        x, y = x + keys[(i + 1) % 3], y + keys[(i + 2) % 3] + uint32(i + 1)
    out = concatenate([x, y])
    return (out[:-1] if odd else out).reshape(count.shape)


__all__ = ["PRNGImpl", "define_prng_impl", "random_seed", "rbg_prng_impl", "seed_with_impl",
           "threefry_2x32", "threefry_prng_impl", "unsafe_rbg_prng_impl"]


def __dir__() -> list[str]:
    return __all__
