"""rng_bit_generator: XLA's Philox-4x32-10 and Threefry-2x32-20 (Salmon, Moraes, Dror, Shaw:
"Parallel random numbers: as easy as 1, 2, 3", SC 2011), counting as XLA does; optimization_barrier.

Start reading at `_bits`.
"""
from __future__ import annotations

import math

from calque.core.types import Dtype, Shape
from calque.lowering.emit.builder import Builder, Value
from calque.lowering.emit.dtypes import I32, U32, U64
from calque.lowering.emit.registry import Op, rule
from calque.lowering.math.region import elementwise
from calque.lowering.rules.random import threefry

_MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
_STEPS = (0x9E3779B9, 0xBB67AE85)
_ROUNDS = 10


@rule("rng_bit_generator")
def _bits(op: Op) -> list[Value]:
    """A state is a key and a counter of 64 bits each, low words first."""
    b, state, out = op.b, op.x, op.outs[1]
    words = _split(b, state) if state.dtype == U64 else state
    w = [b.index_in_dim(words, i, 0) for i in range(4)]
    made = _threefry if op["algorithm"].name == "RNG_THREE_FRY" else philox
    bits, steps = made(b, w, out.shape, out.dtype)
    low, carry = _plus(b, w[2], b.splat(steps & 0xFFFFFFFF, (), U32))
    high = w[3] + carry + (steps >> 32)
    after = b.concatenate([b.reshape(v, (1,)) for v in (w[0], w[1], low, high)], 0)
    return [_join(b, after) if state.dtype == U64 else after, bits]


def _plus(b: Builder, x: Value, y: Value) -> tuple[Value, Value]:
    """Sum of words, and the carry."""
    total = x + y
    return total, (total < x).astype(U32)


def _split(b: Builder, x: Value) -> Value:
    """uint64 as pairs of words, low ones first."""
    parts = [b.reshape(v.astype(U32), (x.shape[0], 1)) for v in (x, x >> 32)]
    return b.reshape(b.concatenate(parts, 1), (2 * x.shape[0],))


def _join(b: Builder, words: Value) -> Value:
    """Pairs of words along the last axis as uint64."""
    wide = b.reshape(words, (words.shape[0] // 2, 2)).astype(U64)
    low, high = (b.index_in_dim(wide, i, 1)
                 for i in (0, 1))
    return low | (high << 32)


def _broadcast(b: Builder, x: Value, shape: Shape) -> Value:
    return b.broadcast(x, shape, ())


def philox(b: Builder, w: list[Value], shape: Shape,
            dtype: Dtype) -> tuple[Value, int]:
    """Bits and how far the counter goes; the counter's upper half starts as the key."""
    count = math.prod(shape)
    wide = dtype == U64
    blocks = -(-count * (2 if wide else 1) // 4)
    if not count:
        return b.splat(0, shape, dtype), 0
    line = (blocks,)
    low, carry = _plus(b, _broadcast(b, w[2], line), b.iota(line, U32, 0))
    counter = [low]
    for word in (w[3], w[0], w[1]):
        value, carry = _plus(b, _broadcast(b, word, line), carry)
        counter.append(value)
    operands = [*counter, _broadcast(b, w[0], line), _broadcast(b, w[1], line)]
    made = elementwise(b, philox_rounds, [v.view(I32) for v in operands], [I32] * 4)
    columns = [b.reshape(v.view(U32), (blocks, 1)) for v in made]
    flat = b.reshape(b.concatenate(columns, 1), (4 * blocks,))
    if wide:
        flat = _join(b, flat)
    flat = b.cropped(flat, (count,))
    return b.reshape(flat.astype(dtype), shape), blocks


def philox_rounds(b: Builder, *x: Value) -> list[Value]:
    """Ten rounds on signless words: four of counter, two of key."""
    c, k = list(x[:4]), list(x[4:])
    for i in range(_ROUNDS):
        if i:
            k = [k[j] + signed_word(_STEPS[j]) for j in (0, 1)]
        high0, low0 = wide_product(b, c[0], _MULTIPLIERS[0])
        high1, low1 = wide_product(b, c[2], _MULTIPLIERS[1])
        c = [high1 ^ c[1] ^ k[0], low1, high0 ^ c[3] ^ k[1], low0]
    return c


def signed_word(word: int) -> int:
    return word - (1 << 32) if word >> 31 else word


def wide_product(b: Builder, x: Value, by: int) -> tuple[Value, Value]:
    """High and low words of x * by, through halves of 16 bits: targets may lack int64."""
    def shifted(v: Value) -> Value:
        return b.binary("shift_right_logical", *b.match(v, 16))

    mask = 0xFFFF
    x_low, x_high, low, high = x & mask, shifted(x), by & mask, by >> 16
    first = x_low * low
    second = x_high * low + shifted(first)
    third = x_low * high + (second & mask)
    return x_high * high + shifted(second) + shifted(third), x * signed_word(by)


def _threefry(b: Builder, w: list[Value], shape: Shape,
              dtype: Dtype) -> tuple[Value, int]:
    """Each counter gives two words: one number of 64 bits, or two neighbours along the first even
    axis (else the longest one), the last of which is cut off where that is odd."""
    count = math.prod(shape)
    if not count:
        return b.splat(0, shape, dtype), 0
    if dtype == U64:
        first, second = _threefry_at(b, w, shape)
        return first.astype(U64) | (second.astype(U64) << 32), count
    full = shape or (1,)
    axis = next((i for i, n in enumerate(full) if n % 2 == 0), full.index(max(full)))
    half = (*full[:axis], -(-full[axis] // 2), *full[axis + 1:])
    words = _threefry_at(b, w, half)
    stacked = b.concatenate(
        [b.reshape(v, (*half[:axis + 1], 1, *half[axis + 1:])) for v in words], axis + 1)
    whole = b.reshape(stacked, (*half[:axis], 2 * half[axis], *half[axis + 1:]))
    whole = b.cropped(whole, full)
    return b.reshape(whole.astype(dtype), shape), math.prod(half)


def _threefry_at(b: Builder, w: list[Value], shape: Shape) -> tuple[Value, Value]:
    """The two words of each counter from the state on, row-major."""
    line = (math.prod(shape),)
    low, carry = _plus(b, _broadcast(b, w[2], line), b.iota(line, U32, 0))
    high = _broadcast(b, w[3], line) + carry
    words = threefry(_broadcast(b, w[0], line), _broadcast(b, w[1], line), low, high)
    return b.reshape(words[0], shape), b.reshape(words[1], shape)


@rule("optimization_barrier")
def _barrier(op: Op) -> list[Value]:
    return [x if 0 in x.shape else op.b.barrier(x)[0] for x in op.operands]
