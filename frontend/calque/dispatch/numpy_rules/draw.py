"""Random bits by NumPy: threefry-2x32 (Salmon, Moraes, Dror, Shaw: "Parallel random numbers: as
easy as 1, 2, 3", SC 2011) and JAX's two ways of counting.  Keys are uint64: word 0 is the low one.
"""
from __future__ import annotations

import math
from typing import Any

import numpy as np

Value = np.ndarray[Any, Any]
U32, U64 = np.uint32, np.uint64
FEW = 8  # counters up to here are taken one by one
_MASK = 0xFFFFFFFF
_ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))


def threefry(k0: Value, k1: Value, x0: Value, x1: Value) -> tuple[Value, Value]:
    """The 20 rounds, on uint32 that broadcast."""
    values = np.broadcast_arrays(k0, k1, x0, x1)
    if values[0].size <= FEW:
        words = [_block(*w) for w in zip(*[v.ravel().tolist() for v in values])]
        first, second = np.array(words, U32).reshape(-1, 2).T
        return first.reshape(values[0].shape), second.reshape(values[0].shape)
    keys = (k0, k1, k0 ^ k1 ^ U32(0x1BD11BDA))
    x0, x1 = x0 + keys[0], x1 + keys[1]
    for i in range(5):
        for r in _ROTATIONS[i % 2]:
            x0 = x0 + x1
            x1 = ((x1 << U32(r)) | (x1 >> U32(32 - r))) ^ x0
        x0 = x0 + keys[(i + 1) % 3]
        x1 = x1 + keys[(i + 2) % 3] + U32(i + 1)
    return x0, x1


def _block(k0: int, k1: int, x0: int, x1: int) -> tuple[int, int]:
    """The same on one counter, as Python's integers: 5 us, where 100 calls of NumPy take 60."""
    keys = (k0, k1, k0 ^ k1 ^ 0x1BD11BDA)
    x0, x1 = (x0 + k0) & _MASK, (x1 + k1) & _MASK
    for i in range(5):
        for r in _ROTATIONS[i % 2]:
            x0 = (x0 + x1) & _MASK
            x1 = ((x1 << r | x1 >> (32 - r)) & _MASK) ^ x0
        x0 = (x0 + keys[(i + 1) % 3]) & _MASK
        x1 = (x1 + keys[(i + 2) % 3] + i + 1) & _MASK
    return x0, x1


def _words(keys: Value) -> tuple[Value, Value]:
    """The two words of each key, with an axis for counts behind."""
    keys = keys[..., None]
    return keys.astype(U32), (keys >> U64(32)).astype(U32)


def _flat(keys: Value, count: int) -> Value:
    """The original stream: counts 0..count-1 cut in two halves, each a word of the counter."""
    half = (count + 1) // 2
    low = np.arange(half, dtype=U32)
    high = low + U32(half)
    if count % 2:
        high[-1] = 0
    y0, y1 = threefry(*_words(keys), low, high)
    return np.concatenate([y0, y1[..., :count - half]], -1)


def _counted(keys: Value, count: int) -> tuple[Value, Value]:
    """Today's stream: the position of each number is its counter."""
    return threefry(*_words(keys), np.zeros(count, U32), np.arange(count, dtype=U32))


def _bits(out: Any, keys: Value, *, bit_width: int, shape: Any, partitionable: bool) -> Any:
    count, dtype = math.prod(shape), np.dtype(f"uint{bit_width}")
    if partitionable:
        high, low = _counted(keys, count)
        if bit_width == 64:
            made = (high.astype(U64) << U64(32)) | low
        else:
            made = (high ^ low).astype(dtype)
    else:
        words = _flat(keys, -(-bit_width * count // 32))
        if bit_width == 64:
            made = (words[..., :count].astype(U64) << U64(32)) | words[..., count:]
        else:
            made = np.ascontiguousarray(words).view(dtype)[..., :count]
    return made.reshape(out.shape)


def _split(out: Any, keys: Value, *, shape: Any, partitionable: bool) -> Any:
    count = math.prod(shape)
    if partitionable:
        high, low = _counted(keys, count)
        return (high | (low.astype(U64) << U64(32))).reshape(out.shape)
    return np.ascontiguousarray(_flat(keys, 2 * count)).view(U64).reshape(out.shape)


def _fold_in(out: Any, keys: Value, data: Value) -> Any:
    y0, y1 = threefry(keys.astype(U32), (keys >> U64(32)).astype(U32), np.zeros((), U32),
                      data.astype(U32))
    return (y0 | (y1.astype(U64) << U64(32))).reshape(out.shape)


def _seed(out: Any, x: Value, *, impl: str = "fry") -> Any:
    """Word 0 is the high word of the seed, 0 for seeds of 32 bits."""
    if impl != "fry":
        return None
    if x.dtype.itemsize == 8:
        wide = x.astype(U64)
        return (wide >> U64(32)) | (wide << U64(32))
    return x.astype(np.int64).astype(U32).astype(U64) << U64(32)


def _wrap(out: Any, words: Value, *, impl: str = "fry") -> Any:
    return None if impl != "fry" else np.ascontiguousarray(words).view(U64)[..., 0]


def _unwrap(out: Any, keys: Value) -> Any:
    return np.array(keys, order="C")[..., None].view(U32)


RULES: dict[str, Any] = {"random_bits": _bits, "random_split": _split, "random_fold_in": _fold_in,
         "random_seed": _seed, "random_wrap": _wrap, "random_unwrap": _unwrap}
