"""Blocks of numbers of a few bits, as GGUF files have them, byte by byte: an oracle of dequantize,
and blocks to give it."""
from __future__ import annotations

from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
SIZES = {"q8_0": (32, 34), "q4_0": (32, 18), "q4_1": (32, 20), "q4_k": (256, 144)}
SCALES = {"q8_0": 1, "q4_0": 1, "q4_1": 2, "q4_k": 2}  # float16 at a block's beginning


def random_blocks(kind: str, shape: tuple[int, ...], seed: int = 0) -> Array:
    """uint8[*shape[:-1], bytes of shape[-1] blocks]: any bits, behind scales of either sign."""
    rng = np.random.default_rng(seed)
    bits = rng.integers(0, 256, (*shape, SIZES[kind][1]), np.uint8)
    scales = rng.normal(0, 0.05, (*shape, SCALES[kind])).astype(np.float16)
    flat = scales.reshape(-1)
    flat[:3] = (0, 6e-8, 5e-5)[:flat.size]  # none, and subnormal ones
    bits[..., :2 * SCALES[kind]] = scales.view(np.uint8)
    return bits.reshape(*shape[:-1], shape[-1] * SIZES[kind][1])


def numbers(blocks: Array, kind: str) -> Array:
    """float64[..., numbers]."""
    many, size = SIZES[kind]
    out = np.empty((blocks.size // size, many))
    for row, block in zip(out, blocks.reshape(-1, size)):
        row[:] = _of_one(block, kind)
    return out.reshape(*blocks.shape[:-1], blocks.shape[-1] // size * many)


def _of_one(block: Array, kind: str) -> list[float]:
    scales = [float(s) for s in block[:2 * SCALES[kind]].view(np.float16)]
    rest = [int(b) for b in block[2 * SCALES[kind]:]]
    if kind == "q8_0":
        return [scales[0] * (b - 256 if b > 127 else b) for b in rest]
    if kind != "q4_k":
        numbers = [b % 16 for b in rest] + [b // 16 for b in rest]
        if kind == "q4_0":
            return [scales[0] * (q - 8) for q in numbers]
        return [scales[0] * q + scales[1] for q in numbers]
    found = []
    for group in range(8):
        if group < 4:
            scale, least = rest[group] % 64, rest[group + 4] % 64
        else:
            scale = rest[group + 4] % 16 + rest[group - 4] // 64 * 16
            least = rest[group + 4] // 16 + rest[group] // 64 * 16
        packed = rest[12 + 32 * (group // 2):][:32]
        found += [scales[0] * scale * (b // 16 if group % 2 else b % 16) - scales[1] * least
                  for b in packed]
    return found


def rounded(x: Array) -> Array:
    """What rows are rounded to for products of integers: float64 of integers times the scale of
    their block of 32, in float32's arithmetic."""
    block = np.asarray(x, np.float32).reshape(*x.shape[:-1], x.shape[-1] // 32, 32)
    most = np.abs(block).max(-1, keepdims=True)
    most = np.where(most <= np.float32(2.0**-120), np.float32(0), most)
    by = np.divide(np.float32(127), most, out=np.zeros_like(most), where=most != 0)
    return (np.rint(block * by).astype("f8") * (most / np.float32(127))).reshape(x.shape)
