"""PRNG keys of JAX's streams: making them, splitting them, what is a key and what is not.

Keys are typed (`random.key`) or, as of old, uint32[n] arrays (`random.PRNGKey`), then of the
implementation that `jax_default_prng_impl` names.
Start reading at `key_of`.
"""
from __future__ import annotations

import operator
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np

from calque.core import dtypes
from calque.core.avals import aval_of, dtype_of
from calque.core.config import config
from calque.core.dims import Dim
from calque.core.errors import explain
from calque.core.trace import Tracer
from calque.core.types import Dtype, Shape
from calque.dispatch.array import Array
from calque.dispatch.eager import lazy_eval
from calque.dispatch.key_reuse import CLONED
from calque.dispatch.replay import planned
from calque.lax.operands import user_dtype
from calque.primitives import elementwise as ew
from calque.primitives import random as prim
from calque.primitives import shape as sh
from calque.primitives.checkpoint import name_p


def _is_legacy(key: Any) -> bool:
    a = aval_of(key)
    return not dtypes.is_key(a.dtype)


def _old_form(name: str) -> None:
    text = f"Legacy uint32 key array passed as key to jax.random function: {name}."
    fix = "make keys with random.key(seed), or wrap the words: random.wrap_key_data(words)."
    if config.jax_legacy_prng_key == "error":
        raise ValueError(explain(text, fix=fix))
    warnings.warn(f"{text}\n  Fix: {fix}", stacklevel=2)


def key_of(name: str, key: Any, batched: bool = False) -> Any:
    """A typed key from either form; TypeError or ValueError for anything else."""
    if not isinstance(key, (Array, Tracer, np.ndarray)):
        raise TypeError(explain(
            f"{name}: unexpected PRNG key type {type(key)}.",
            fix="make a key with random.key(seed) or random.PRNGKey(seed)."))
    a = aval_of(key)
    if dtypes.is_key(a.dtype):
        shape = a.shape
    else:
        if a.dtype != np.dtype("uint32"):
            raise TypeError(explain(
                f"{name}: JAX encountered invalid PRNG key data: a PRNG key must be a typed key "
                f"or a uint32 array, got {a.short()}."))
        if config.jax_legacy_prng_key != "allow":
            _old_form(name)
        kind = _kind(None)
        if a.shape[-1:] != (kind.words,):
            raise TypeError(explain(
                f"{name}: JAX encountered invalid PRNG key data: expected key_data.shape to end "
                f"with ({kind.words},); got {a.shape}, for {kind.impl}.",
                fix="wrap the words of another implementation: wrap_key_data(words, impl=...)."))
        key, shape = prim.random_wrap_p.bind(key, **prim.impl_of(kind)), a.shape[:-1]
    if shape and not batched:
        raise ValueError(explain(
            f"{name} accepts a single key, but was given a key array of shape {shape} != ().",
            fix="use vmap for batching."))
    return key


def _seed(seed: Any, name: str) -> Any:
    offset = config.jax_random_seed_offset
    if offset and not isinstance(seed, (int, np.integer)):
        seed = _integer(seed, name)
        return ew.add(seed, np.asarray(offset).astype(dtype_of(seed)))
    seed = seed + offset if offset else seed
    if isinstance(seed, (int, np.integer)):
        if not -2**63 <= int(seed) < (2**64 if isinstance(seed, np.unsignedinteger) else 2**63):
            raise OverflowError(explain(
                f"Python int too large to convert to C long: PRNG key seed {seed} does not fit 64 "
                "bits.", fix="use a seed in [-2**63, 2**63)."))
        bits = int(seed) & (2**64 - 1)
        if config.jax_enable_x64:
            return np.uint64(bits)
        return np.int64(bits if bits < 2**63 else bits - 2**64).astype(np.int32)
    return _integer(seed, name)


def _integer(seed: Any, name: str) -> Any:
    a = aval_of(seed)
    if dtypes.is_key(a.dtype):
        raise TypeError(explain(
            f"{name} accepts a scalar seed, but was given a PRNG key.",
            fix="draw from the key itself, or from one that random.split or fold_in makes of it."))
    if not dtypes.is_integer(a.dtype):
        raise TypeError(explain(f"PRNG key seed must be an integer; got {seed!r}."))
    if a.shape:
        raise TypeError(explain(
            f"{name} accepts a scalar seed, but was given an array of shape {a.shape} != (). Use "
            "jax.vmap for batching", fix=f"vmap(random.{name})(seeds)."))
    return seed


def _kind(impl: Any) -> dtypes.KeyDtype:
    """The dtype of keys of an implementation; None: the configured one."""
    return dtypes.key_dtype_of(config.jax_default_prng_impl if impl is None else impl)


def key(seed: Any, *, impl: Any = None, dtype: Any = None) -> Array:
    """A typed PRNG key from an integer seed.

    Args:
      seed: integer scalar of at most 64 bits (without x64 the low 32 count), also traced.
      impl: 'threefry2x32', 'threefry4x32', 'philox2x32', 'philox4x32', 'rbg' or 'unsafe_rbg';
        None: what jax_default_prng_impl says, threefry2x32 at first.
      dtype: another word for impl: the dtype of keys, or the implementation's name.

    Returns:
      A key, shape ().

    Raises:
      TypeError: the seed is no integer scalar.
      OverflowError: a Python seed does not fit 64 bits.
      ValueError: there is no such implementation, or both impl and dtype are given.

    Example:
      >>> import calque.random as random
      >>> random.key(1)
      Array((), dtype=key<fry>) overlaying:
      [0 1]
    """
    if impl is not None and dtype is not None:
        raise ValueError(explain(
            "Cannot specify both `impl` and `dtype` arguments to random.key.", fix="give one."))
    kind = _kind(impl if dtype is None else dtype)
    return prim.seeded(_seed(seed, "key"), kind)


def PRNGKey(seed: Any, *, impl: Any = None) -> Array:  # noqa: N802 (JAX's name)
    """A key as an array of words (the older form).

    Args:
      seed: integer scalar of at most 64 bits (without x64 the low 32 count), also traced.
      impl: name of an implementation (see `key`).

    Returns:
      uint32[2], of other implementations than threefry2x32 uint32[1] or uint32[4]; a typed key
      under `enable_custom_prng`.

    Raises:
      TypeError: the seed is no integer scalar.
      OverflowError: a Python seed does not fit 64 bits.
      ValueError: there is no such implementation.

    Example:
      >>> import calque.random as random
      >>> print(random.PRNGKey(18))
      [ 0 18]
    """
    kind = _kind(impl)
    with lazy_eval("PRNGKey"):
        made = prim.seeded(_seed(seed, "PRNGKey"), kind)
        if config.jax_enable_custom_prng:
            return made
        return prim.random_unwrap_p.bind(made)


def wrap_key_data(key_bits_array: Any, *, impl: Any = None, dtype: Any = None) -> Array:
    """A typed key from its words.

    Args:
      key_bits_array: uint32[..., n], n words a key: 2 for threefry2x32 and philox4x32, 1 for
        philox2x32, 4 for the others.
      impl: name of an implementation (see `key`).
      dtype: the same as a dtype of keys, or what has one.

    Returns:
      Keys of shape [...].

    Raises:
      TypeError: the words are not uint32, or their last axis is not n.
      ValueError: there is no such implementation, or impl and dtype are both given.

    Example:
      >>> import calque.random as random
      >>> import numpy as np
      >>> random.wrap_key_data(np.array([0, 1], np.uint32))
      Array((), dtype=key<fry>) overlaying:
      [0 1]
    """
    if dtype is not None:
        if impl is not None:
            raise ValueError(explain("wrap_key_data: Cannot specify both `impl` and `dtype`.",
                                     fix="give one of them."))
        impl = dtype
    return prim.wrapped(key_bits_array, _kind(impl))


def key_data(keys: Any) -> Array:
    """The words of keys.

    Args:
      keys: PRNG keys, typed or as words.

    Returns:
      uint32[..., n], n words a key.

    Raises:
      TypeError: the argument is no key.

    Example:
      >>> import calque.random as random
      >>> random.key_data(random.key(1))
      Array([0, 1], dtype=uint32)
    """
    return prim.unwrapped(key_of("key_data", keys, batched=True))


def key_impl(keys: Any) -> Any:
    """The implementation of a key's stream.

    Args:
      keys: PRNG keys, typed or as words.

    Returns:
      Its name, such as 'threefry2x32'; what define_prng_impl gave, for keys of such a stream.

    Raises:
      TypeError: the argument is no key.

    Example:
      >>> import calque.random as random
      >>> random.key_impl(random.key(0))
      'threefry2x32'
    """
    kind = dtype_of(key_of("key_impl", keys, batched=True))
    return kind.impl if kind.stream is None else PRNGSpec(kind)


class PRNGSpec:
    """What stands for a stream of a library's own (see `calque.extend.random.define_prng_impl`)."""

    def __init__(self, kind: dtypes.KeyDtype) -> None:
        self.key_dtype = kind

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PRNGSpec) and other.key_dtype == self.key_dtype

    def __hash__(self) -> int:
        return hash(self.key_dtype)

    def __repr__(self) -> str:
        return f"PRNGSpec({self.key_dtype.impl!r})"


def key_dtype(impl_spec: Any = None) -> Any:
    """The dtype of typed keys.

    Args:
      impl_spec: name of an implementation (see `key`).

    Returns:
      A dtype, such as key<fry>.

    Raises:
      ValueError: there is no such implementation.

    Example:
      >>> import calque.random as random
      >>> random.key_dtype() == random.key(0).dtype
      True
    """
    return _kind(impl_spec)


def clone(key: Any) -> Array:
    """The same key, used again on purpose: jax_debug_key_reuse takes it for another one.

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
    if config.jax_debug_key_reuse and dtypes.is_key(dtype_of(key)):
        return Array(key._buffer, key.aval) if type(key) is Array else name_p.bind(key, name=CLONED)
    return key


def _like(given: Any, typed: Any) -> Any:
    return prim.random_unwrap_p.bind(typed) if _is_legacy(given) else typed


@planned
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
    typed = key_of("split", key)
    shape = as_shape("split", num)
    with lazy_eval("split"):
        typed = key_of("split", key)
        return _like(key, prim.split(typed, shape, config.jax_threefry_partitionable))


def fold_in(key: Any, data: Any) -> Array:
    """A new key from a key and an integer, such as the number of a step.

    Args:
      key: a PRNG key.
      data: integer scalar, taken modulo 2^32; of a bool or float its integer.

    Returns:
      A key in the form of `key`.

    Raises:
      TypeError: the first argument is no key, or data is no real scalar.
      ValueError: the first argument is an array of keys, or data is NaN.
      OverflowError: a Python number is not in [0, 2^32).

    Example:
      >>> import calque.random as random
      >>> print(random.fold_in(random.PRNGKey(0), 1))
      [ 928981903 3453687069]
    """
    key_of("fold_in", key)
    a = aval_of(data)
    if a.shape:
        raise TypeError(explain(
            f"fold_in accepts a scalar, but was given an array of shape {a.shape} != ().",
            fix="use vmap for batching."))
    if dtypes.is_complex(a.dtype) or dtypes.is_key(a.dtype):
        raise TypeError(explain(f"fold_in: data must be an integer, got {a.short()}."))
    if isinstance(data, float) and not isinstance(data, np.generic):
        data = int(data)
    if isinstance(data, int) and not 0 <= data < 1 << 32:
        raise OverflowError(explain(
            f"fold_in: Python integer {data} out of bounds for uint32.",
            fix="fold in its low and its high 32 bits, one after the other."))
    with lazy_eval("fold_in"):
        typed = key_of("fold_in", key)
        if isinstance(data, (int, np.integer)):
            word: Any = np.uint32(int(data) & 0xFFFFFFFF)
        else:
            word = ew.convert(data, np.uint32)
        return _like(key, prim.folded_in(typed, word))


def subkeys(key: Any, num: int = 2) -> list[Any]:
    """Typed keys split from a typed key."""
    keys = prim.split(key, (num,), config.jax_threefry_partitionable)
    return [sh.squeeze(sh.slice_in_dim(keys, i, i + 1, 0), (0,)) for i in range(num)]


def as_shape(name: str, shape: Any) -> Shape:
    """A shape argument as a tuple; an integer is a vector's length."""
    try:
        sizes = tuple(d if isinstance(d, Dim) else operator.index(d)
                      for d in (shape if np.iterable(shape) else (shape,)))
    except TypeError:
        raise TypeError(explain(
            f"{name}: Shapes must be 1D sequences of concrete values of integer type, got "
            f"{shape!r}.", fix="give a tuple of integers.")) from None
    if any(d < 0 for d in sizes):
        raise ValueError(explain(
            f"{name}: negative dimensions are not allowed, got shape {sizes}."))
    return sizes  # type: ignore[return-value]


def float_dtype(name: str, dtype: Any, more: str = "") -> Dtype:
    """A dtype argument that must be a float one (`more`: or a complex one)."""
    d = user_dtype("", float if dtype is None else dtype)
    if not (dtypes.is_float(d) or (more and dtypes.is_complex(d))):
        raise ValueError(explain(
            f"dtype argument to `{name}` must be a float{more} dtype, got {d}."))
    return d


def int_dtype(name: str, dtype: Any) -> Dtype:
    """A dtype argument that must be an integer one."""
    d = user_dtype("", int if dtype is None else dtype)
    if not dtypes.is_integer(d):
        raise ValueError(explain(
            f"dtype argument to `{name}` must be an int dtype, got {d}."))
    return d
