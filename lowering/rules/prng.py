"""PRNG keys: seeds, splits, folds and bits of every implementation JAX has.

threefry2x32 counts in one of two ways (rules/random); philox2x32, philox4x32 and threefry4x32 take
the position of a number, row-major, as their counter (Salmon, Moraes, Dror, Shaw: "Parallel random
numbers: as easy as 1, 2, 3", SC 2011); rbg and unsafe_rbg draw from XLA's generator
(rules/generator), where a batch of keys draws from the first one's state.  A key is uint32[..., n].
Start reading at `_bits`.
"""
from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from calque.core.dtypes import is_key
from calque.core.types import Shape
from calque.lowering.emit.builder import Builder, Value
from calque.lowering.emit.context import Context
from calque.lowering.emit.dtypes import I32, U32
from calque.lowering.emit.registry import Op, rule, rules
from calque.lowering.math.region import elementwise
from calque.lowering.rules import elementwise as _elementwise  # noqa: F401  eq and ne are there
from calque.lowering.rules import generator, random
from calque.lowering.rules.reduce import emit_reduce, fold

_PARITY = 0x1BD11BDA
_ROTATIONS = ((10, 26), (11, 21), (13, 27), (23, 5), (6, 20), (17, 11), (25, 10), (18, 20))
_MULTIPLIER, _STEP = 0xD256D193, 0x9E3779B9
_XORED = {"phx2": ((0,), (1,)), "phx4": ((0,), (1,)), "fry4": ((0, 2), (1, 3))}  # high, low word


def _kind(ctx: Context) -> str:
    e = ctx.equation
    kinds = [a.aval.dtype for a in (*e.inputs, *e.outputs) if is_key(a.aval.dtype)]
    return str(kinds[0].tag)


@rule("random_bits")
def _bits(op: Op) -> Value:
    b, (keys,), kind, width = op.b, op.operands, _kind(op.ctx), op["bit_width"]
    dtype = np.dtype(f"uint{width}")
    if kind == "fry":
        return random.bits_of(b, keys, width, op["shape"], op["partitionable"])
    if kind in ("rbg", "urbg"):
        return _drawn(b, keys, op.out.shape, dtype)
    high, low = random.counts64(b, keys.shape[:-1], op["shape"])
    zero, key = b.like(low, 0), random.words_of(b, keys, op["shape"])
    counter = [high, low] if kind == "phx2" else [high, low, zero, zero]
    words = _rounds(kind, counter, key)
    if width == 64:
        high, low = (_xor([words[i] for i in part]).astype(dtype) for part in _XORED[kind])
        return (high << 32) | low
    mixed = _xor(words)
    return mixed if width == 32 else (mixed & ((1 << width) - 1)).astype(dtype)


@rule("random_split")
def _split(op: Op) -> Value:
    b, (keys,), kind, shape = op.b, op.operands, _kind(op.ctx), op["shape"]
    if kind == "fry":
        return random.split_of(b, keys, shape, op["partitionable"])
    batch = keys.shape[:-1]
    if kind == "rbg":
        halves = b.reshape(keys, (*batch, 2, 2))
        made = random.split_of(b, halves, shape, op["partitionable"])
        n = len(batch)
        order = [*range(n), *range(n + 1, n + 1 + len(shape)), n, n + 1 + len(shape)]
        return b.reshape(b.transpose(made, order), (*batch, *shape, 4))
    if kind == "urbg":
        count = math.prod(shape)
        rows = _drawn(b, keys, (*batch, 10 * count, 4), U32)
        zero = [0] * rows.ndim
        tenth = b.slice(rows, zero, rows.shape, [*[1] * len(batch), 10, 1])
        return b.reshape(tenth, (*batch, *shape, 4))
    return _new_keys(b, kind, keys, shape, *random.counts64(b, batch, shape))


@rule("random_fold_in")
def _fold_in(op: Op) -> Value:
    b, (keys, data), kind = op.b, op.operands, _kind(op.ctx)
    batch, words = op.out.shape[:-1], keys.shape[-1]
    if keys.shape[:-1] != batch:
        keys = b.broadcast(keys, (*batch, words), [len(batch)])
    if kind == "urbg":
        folded = _joined(b, [b.like(data, 0), data] * 2)
        rows = _drawn(b, folded, (*data.shape, 10, 4), U32)
        last = b.index_in_dim(rows, 9, data.ndim)
        return keys ^ (last if data.shape == batch else b.broadcast(
            last, (*batch, 4), [len(batch)]))
    if data.shape != batch:
        data = b.broadcast(data, batch, ())
    if kind in ("fry", "rbg"):
        keys = b.reshape(keys, (*batch, words // 2, 2))
        data = b.broadcast(data, (*batch, words // 2), range(len(batch)))
        return b.reshape(random.fold_of(b, keys, b.like(data, 0), data), (*batch, words))
    return _new_keys(b, kind, keys, (), b.like(data, 0), data)


@rule("random_seed")
def _seed(op: Op) -> Value:
    b, (x,), kind = op.b, op.operands, _kind(op.ctx)
    high, low = random.seed_words(x)
    if kind == "fry":
        return _joined(b, [high, low])
    if kind in ("rbg", "urbg"):
        return _joined(b, [high, low, high, low])
    zero, words = b.like(low, 0), op.out.shape[-1]
    counter = {"phx2": [high, low], "phx4": [high, low, zero, zero], "fry4": [zero] * 4}[kind]
    key = {"phx2": [zero], "phx4": [zero, zero], "fry4": [high, low, zero, zero]}[kind]
    return _joined(b, _rounds(kind, counter, key)[:words])


@rule("random_wrap", "random_unwrap")
def _pass(op: Op) -> Value:
    return op.x


def _of_keys(name: str, plain: Any) -> Any:
    """eq and ne, for keys of all their words."""
    def emit(op: Op) -> Value:
        lead, b, equal = len(op.out.shape), op.b, name == "eq"
        wide = max((x.shape for x in op.operands), key=len)
        if len(wide) == lead:
            return plain(op)
        x, y = (v if v.shape == wide else b.broadcast(v, wide, [lead]) for v in op.operands)
        return emit_reduce(b, [x.eq(y) if equal else x.ne(y)], [equal], [lead],
                           fold("and" if equal else "or"))[0]

    return emit


rules.update((name, _of_keys(name, rules[name])) for name in ("eq", "ne"))


# ---- XLA's generator
def _drawn(b: Builder, keys: Value, shape: Shape, dtype: Any) -> Value:
    """Bits from the first key's state."""
    if not math.prod(keys.shape) or not math.prod(shape):
        return b.splat(0, shape, np.dtype(dtype))
    flat = b.reshape(keys, (math.prod(keys.shape),))
    words = [b.index_in_dim(flat, i, 0) for i in range(4)]
    return generator.philox(b, words, shape, np.dtype(dtype))[0]


# ---- counters
def _new_keys(b: Builder, kind: str, keys: Value, extra: Sequence[int], high: Value, low: Value
              ) -> Value:
    """Keys of the first words of a block for each count."""
    zero = b.like(low, 0)
    counter = [high, low] if kind == "phx2" else [zero, zero, high, low]
    made = _rounds(kind, counter, random.words_of(b, keys, extra))
    return _joined(b, made[:keys.shape[-1]])


def _rounds(kind: str, counter: list[Value], key: list[Value]) -> list[Value]:
    rounds = {"phx2": _philox2, "phx4": generator.philox_rounds, "fry4": _threefry4}[kind]
    operands = [v.view(I32) for v in (*counter, *key)]
    made = elementwise(counter[0].b, rounds, operands, [I32] * len(counter))
    return [v.view(U32) for v in made]


def _joined(b: Builder, words: Sequence[Value]) -> Value:
    """Words as a last axis."""
    parts = [b.reshape(w, (*w.shape, 1)) for w in words]
    return parts[0] if len(parts) == 1 else b.concatenate(parts, len(parts[0].shape) - 1)


def _xor(words: Sequence[Value]) -> Value:
    made = words[0]
    for w in words[1:]:
        made = made ^ w
    return made


def _philox2(b: Builder, *x: Value) -> list[Value]:
    """Ten rounds on signless words: two of counter, one of key."""
    c0, c1, k = x
    for i in range(10):
        if i:
            k = k + generator.signed_word(_STEP)
        high, low = generator.wide_product(b, c0, _MULTIPLIER)
        c0, c1 = high ^ k ^ c1, low
    return [c0, c1]


def _threefry4(b: Builder, *x: Value) -> list[Value]:
    """Twenty rounds on signless words: four of counter, four of key."""
    keys = [*x[4:], x[4] ^ x[5] ^ x[6] ^ x[7] ^ _PARITY]
    c = [v + k for v, k in zip(x[:4], keys)]
    for i in range(20):
        for (p, q), r in zip(((0, 1), (2, 3)) if i % 2 == 0 else ((0, 3), (2, 1)),
                             _ROTATIONS[i % 8]):
            c[p] = c[p] + c[q]
            turned = (c[q] << r) | b.binary("shift_right_logical", *b.match(c[q], 32 - r))
            c[q] = turned ^ c[p]
        if i % 4 == 3:
            j = i // 4 + 1
            c = [v + keys[(j + k) % 5] for k, v in enumerate(c)]
            c[3] = c[3] + j
    return c
