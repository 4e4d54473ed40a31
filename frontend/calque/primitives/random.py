"""PRNG keys and bits as primitives on keys.

A key array of shape s is uint32[*s, n] inside, n = 2 for threefry2x32, whose keys primitives make
where no `impl` is given; the lowering writes the rounds out.  `partitionable` chooses between JAX's
two streams of threefry2x32.  None is differentiable.
"""
from __future__ import annotations

from typing import Any

import numpy as np

from calque.core import dtypes
from calque.core.avals import ShapedArray, aval_of, dtype_of, shape_of
from calque.core.errors import explain
from calque.core.primitive import Primitive
from calque.core.types import Shape
from calque.primitives import elementwise as ew
from calque.primitives import shape as sh
from calque.transforms.vmap import batch_first


def _key_primitive(name: str, **facts: Any) -> Primitive:
    return Primitive(name, differentiable=False, keys=True, **facts)


def _need_key(name: str, a: ShapedArray) -> None:
    if not dtypes.is_key(a.dtype):
        raise TypeError(explain(f"{name} accepts a typed PRNG key, got {a.short()}.",
                                fix="make one with random.key(seed) or random.wrap_key_data."))


def impl_of(kind: dtypes.KeyDtype) -> dict[str, Any]:
    """Parameters of primitives that make keys of a kind."""
    return {} if kind == dtypes.key_dtype else {"impl": kind.tag if kind.stream is None else kind}


# ---- threefry2x32: four words -> the two words of a block, the first above the second
threefry2x32_p = Primitive("threefry2x32", elementwise=True, differentiable=False, memory="fresh",
                           weight=40)
_WORD, _BLOCK = np.dtype("uint32"), np.dtype("uint64")


def _threefry_abstract(*words: ShapedArray) -> ShapedArray:
    """Two words of a key and two of a counter, of one shape."""
    if len(words) != 4 or any(w.dtype != _WORD or w.shape != words[0].shape for w in words):
        raise TypeError(explain("threefry2x32: takes four uint32 arrays of one shape, got "
                                f"{', '.join(w.short() for w in words)}."))
    return ShapedArray(words[0].shape, _BLOCK)


threefry2x32_p.abstract = _threefry_abstract
threefry2x32_p.batch = ew.batch_elementwise(threefry2x32_p, scalars=False)

# ---- random_seed: integers -> keys
random_seed_p = _key_primitive("random_seed", moves=True, memory="fresh")


def _seed_abstract(x: ShapedArray, *, impl: Any = "fry") -> ShapedArray:
    if not dtypes.is_integer(x.dtype):
        raise TypeError(explain(f"PRNG key seed must be an integer; got {x.short()}."))
    return ShapedArray(x.shape, dtypes.key_dtype_of(impl))


random_seed_p.abstract = _seed_abstract
random_seed_p.batch = batch_first(random_seed_p)

# ---- random_wrap, random_unwrap: uint32[..., 2] <-> keys
random_wrap_p, random_unwrap_p = (
    _key_primitive(name, moves=True) for name in ("random_wrap", "random_unwrap"))


def _wrap_abstract(x: ShapedArray, *, impl: Any = "fry") -> ShapedArray:
    kind = dtypes.key_dtype_of(impl)
    if x.dtype != np.dtype("uint32") or x.shape[-1:] != (kind.words,):
        raise TypeError(explain(
            f"random_wrap: key data of {kind.impl} must be uint32 with a last axis of size "
            f"{kind.words}, got {x.short()}."))
    return ShapedArray(x.shape[:-1], kind)


def _unwrap_abstract(k: ShapedArray) -> ShapedArray:
    _need_key("random_unwrap", k)
    return ShapedArray((*k.shape, k.dtype.words), np.dtype("uint32"))


random_wrap_p.abstract, random_unwrap_p.abstract = _wrap_abstract, _unwrap_abstract
random_wrap_p.batch = batch_first(random_wrap_p)
random_unwrap_p.batch = batch_first(random_unwrap_p)


def filled_key(kind: dtypes.KeyDtype, word: int = 2**32 - 1) -> Any:
    """A key of equal words: what is read outside of an array of keys."""
    return random_wrap_p.bind(np.full((kind.words,), word, np.uint32), **impl_of(kind))


# ---- random_split: key -> keys of `shape`
random_split_p = _key_primitive("random_split", memory="fresh", weight=40)


def _split_abstract(k: ShapedArray, *, shape: Shape,
                    partitionable: bool) -> ShapedArray:
    _need_key("random_split", k)
    return ShapedArray((*k.shape, *shape), k.dtype)


random_split_p.abstract = _split_abstract
random_split_p.batch = batch_first(random_split_p)

# ---- random_fold_in: keys and uint32 data of equal shapes
random_fold_in_p = _key_primitive("random_fold_in", memory="fresh")


def _fold_abstract(k: ShapedArray, data: ShapedArray) -> ShapedArray:
    _need_key("random_fold_in", k)
    if data.dtype != np.dtype("uint32"):
        raise TypeError(explain(f"random_fold_in: data must be uint32, got {data.short()}."))
    return ShapedArray(ew.broadcast_shape("random_fold_in", [k, data]), k.dtype)


random_fold_in_p.abstract = _fold_abstract
random_fold_in_p.batch = ew.batch_elementwise(random_fold_in_p)

# ---- random_bits: key -> unsigned integers of `shape`
random_bits_p = _key_primitive("random_bits", memory="fresh", weight=40)


def _bits_abstract(k: ShapedArray, *, bit_width: int, shape: Shape,
                   partitionable: bool) -> ShapedArray:
    _need_key("random_bits", k)
    if bit_width not in (8, 16, 32, 64):
        raise TypeError(f"random_bits: bit_width must be 8, 16, 32 or 64, got {bit_width}.")
    return ShapedArray((*k.shape, *shape), np.dtype(f"uint{bit_width}"))


random_bits_p.abstract = _bits_abstract
random_bits_p.batch = batch_first(random_bits_p)


# ---- keys of any stream: ours are primitives, a library's own are its functions of words
def wrapped(words: Any, kind: dtypes.KeyDtype) -> Any:
    """Keys of words, of which a library's stream may have more axes."""
    if kind.stream is not None:
        shape, own = shape_of(words), kind.stream.shape
        lead = shape[:len(shape) - len(own)]
        if dtype_of(words) != np.dtype("uint32") or (*lead, *own) != shape:
            raise TypeError(explain(
                f"Words of keys of {kind.impl} are uint32 of shape {own}, got "
                f"{aval_of(words).short()}.", fix="define_prng_impl's functions return such."))
        words = sh.reshape(words, (*lead, kind.words))
    return random_wrap_p.bind(words, **impl_of(kind))


def unwrapped(keys: Any) -> Any:
    """The words of keys."""
    stream, words = dtype_of(keys).stream, random_unwrap_p.bind(keys)
    return words if stream is None else sh.reshape(words, (*shape_of(keys), *stream.shape))


def seeded(seed: Any, kind: dtypes.KeyDtype) -> Any:
    """The key of a seed."""
    if kind.stream is None:
        return random_seed_p.bind(seed, **impl_of(kind))
    return wrapped(kind.stream.seed(seed), kind)


def split(key: Any, shape: Shape, partitionable: bool) -> Any:
    """Keys of a key."""
    kind = dtype_of(key)
    if kind.stream is None:
        return random_split_p.bind(key, shape=shape, partitionable=partitionable)
    return wrapped(kind.stream.split(unwrapped(key), shape), kind)


def folded_in(key: Any, word: Any) -> Any:
    """The key of a key and a uint32."""
    kind = dtype_of(key)
    if kind.stream is None:
        return random_fold_in_p.bind(key, word)
    return wrapped(kind.stream.fold_in(unwrapped(key), word), kind)


def bits(key: Any, bit_width: int, shape: Shape, partitionable: bool) -> Any:
    """Unsigned integers drawn from a key."""
    stream = dtype_of(key).stream
    if stream is None:
        return random_bits_p.bind(key, bit_width=bit_width, shape=shape,
                                  partitionable=partitionable)
    return stream.random_bits(unwrapped(key), bit_width, shape)
