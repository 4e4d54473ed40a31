"""Threefry-2x32 with its 20 rounds written out (Salmon, Moraes, Dror, Shaw: "Parallel random
numbers: as easy as 1, 2, 3", SC 2011), and JAX's two ways of counting; the rules are in rules/prng.

Keys are uint32[..., 2].  A loop or a private function for the rounds meets IREE's "circular
dependency", and written out it fuses with what makes the counts.
"""
from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from calque.core.dims import Dim, bounds
from calque.core.types import Shape
from calque.lowering.emit.builder import Builder, Value
from calque.lowering.emit.dtypes import I32, U32, U64
from calque.lowering.math.region import elementwise
from calque.lowering.rules.elementwise import pointwise

_ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))
_PARITY = 0x1BD11BDA


def _rounds(b: Builder, k0: Value, k1: Value, x0: Value, x1: Value) -> list[Value]:
    """The 20 rounds on signless words."""
    keys = (k0, k1, k0 ^ k1 ^ _PARITY)
    x0, x1 = x0 + keys[0], x1 + keys[1]
    for i in range(5):
        for r in _ROTATIONS[i % 2]:
            x0 = x0 + x1
            x1 = ((x1 << r) | b.binary("shift_right_logical", *b.match(x1, 32 - r))) ^ x0
        x0 = x0 + keys[(i + 1) % 3]
        x1 = x1 + keys[(i + 2) % 3] + (i + 1)
    return [x0, x1]


def threefry(k0: Value, k1: Value, x0: Value, x1: Value) -> tuple[Value, Value]:
    """Two words of counter under a two-word key; all operands uint32 of one shape.

    One linalg.generic with two results: as StableHLO ops IREE computes all rounds once for each
    word that is used.
    """
    words = [v.view(I32) for v in (k0, k1, x0, x1)]
    y0, y1 = elementwise(k0.b, _rounds, words, [I32, I32])
    return y0.view(U32), y1.view(U32)


@pointwise("threefry2x32")
def _block(b: Builder, k0: Value, k1: Value, x0: Value, x1: Value) -> Value:
    y0, y1 = threefry(k0, k1, x0, x1)
    return (y0.astype(U64) << 32) | y1.astype(U64)


def words_of(b: Builder, keys: Value, extra: Sequence[int]) -> list[Value]:
    """The words of each key, spread over trailing axes `extra`."""
    batch = keys.shape[:-1]
    result = []
    for i in range(keys.shape[-1]):
        word = b.index_in_dim(keys, i, len(batch))
        result.append(b.broadcast(word, (*batch, *extra), range(len(batch))))
    return result


def counts64(b: Builder, batch: Sequence[int], shape: Sequence[int]) -> tuple[Value, Value]:
    """High and low words of the row-major position within `shape`."""
    full = (*batch, *shape)
    size = math.prod(shape)
    wide = U64 if bounds(size, 1)[1] > 2**32 else U32
    low = b.splat(0, full, wide)
    stride = 1
    for axis in range(len(shape) - 1, -1, -1):
        if shape[axis] != 1:
            low = low + b.iota(full, wide, len(batch) + axis) * stride
        stride *= shape[axis]
    if wide == U32:
        return b.splat(0, full, U32), low
    return (low >> 32).astype(U32), low.astype(U32)


def _flat_bits(b: Builder, keys: Value, count: int) -> Value:
    """The original stream: counts 0..count-1 are cut in two halves, each a word of the counter."""
    batch = keys.shape[:-1]
    half = (count + 1) // 2
    k0, k1 = words_of(b, keys, (half,))
    axis = len(batch)
    low = b.iota((*batch, half), U32, axis)
    high = low + half
    if isinstance(count, Dim) or count % 2:  # the padded last count is 0
        high = b.select(high < count, high, b.like(high, 0))
    y0, y1 = threefry(k0, k1, low, high)
    if isinstance(count, Dim):  # it may be odd
        return b.cropped(b.concatenate([y0, y1], axis), (*batch, count))
    if count % 2:
        y1 = b.cropped(y1, (*batch, half - 1))
    return b.concatenate([y0, y1], axis) if y1.shape[axis] else y0


def _partitionable_bits(b: Builder, keys: Value, shape: Sequence[int]) -> tuple[Value, Value]:
    batch = keys.shape[:-1]
    hi, lo = counts64(b, batch, shape)
    k0, k1 = words_of(b, keys, shape)
    return threefry(k0, k1, hi, lo)


def _flat_bits_of_width(b: Builder, keys: Value, width: int, size: int) -> Value:
    """`size` numbers of 8, 16, 32 or 64 bits of the original stream, in one flat axis."""
    batch = keys.shape[:-1]
    axis = len(batch)
    words = -(-width * size // 32)
    bits = _flat_bits(b, keys, words)
    if width == 32:
        return bits
    if width == 64:
        high = b.slice_in_dim(bits, 0, words // 2, axis).astype(U64)
        low = b.slice_in_dim(bits, words // 2, words, axis).astype(U64)
        return (high << 32) | low
    per = 32 // width
    spread = b.broadcast(bits, (*batch, words, per), range(axis + 1))
    shift = b.iota((*batch, words, per), U32, axis + 1) * width
    parts = (spread >> shift) & ((1 << width) - 1)
    flat = b.reshape(parts, (*batch, words * per)).astype(np.dtype(f"uint{width}"))
    return b.cropped(flat, (*batch, size))


def bits_of(b: Builder, keys: Value, width: int, shape: Shape, partitionable: bool
            ) -> Value:
    """Random bits of `shape` for each key."""
    dtype = np.dtype(f"uint{width}")
    if not partitionable:
        flat = _flat_bits_of_width(b, keys, width, math.prod(shape))
        return b.reshape(flat, (*keys.shape[:-1], *shape))
    hi, lo = _partitionable_bits(b, keys, shape)
    if width == 64:
        return (hi.astype(U64) << 32) | lo.astype(U64)
    mixed = hi ^ lo
    return mixed if width == 32 else (mixed & ((1 << width) - 1)).astype(dtype)


def split_of(b: Builder, keys: Value, shape: Shape, partitionable: bool) -> Value:
    """Keys of `shape` for each key."""
    if partitionable:
        return _pair(b, *_partitionable_bits(b, keys, shape))
    flat = _flat_bits(b, keys, 2 * math.prod(shape))
    return b.reshape(flat, (*keys.shape[:-1], *shape, 2))


def fold_of(b: Builder, keys: Value, high: Value, low: Value) -> Value:
    """A key from each key and a number of 64 bits."""
    k0, k1 = words_of(b, keys, ())
    return _pair(b, *threefry(k0, k1, high, low))


def _pair(b: Builder, *words: Value) -> Value:
    parts = [b.reshape(v, (*v.shape, 1)) for v in words]
    return b.concatenate(parts, len(parts[0].shape) - 1)


def seed_words(x: Value) -> tuple[Value, Value]:
    """The high and low words of seeds; 32-bit seeds have a high word of 0."""
    if x.dtype.itemsize == 8:
        wide = x.astype(U64) if x.dtype.kind == "i" else x
        return (wide >> 32).astype(U32), (wide & 0xFFFFFFFF).astype(U32)
    low = x.astype(I32).astype(U32) if x.dtype.kind == "i" else x.astype(U32)
    return x.b.like(low, 0), low
