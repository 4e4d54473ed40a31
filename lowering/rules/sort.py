"""sort and top_k: the order is found from integers, then every operand is gathered by it.

IREE's own sort is unstable, quadratic and overwrites its operand; it is never emitted.  Each key
becomes an unsigned integer in the order wanted, so that one integer comparison is all there is to
know about a dtype.  On CPU targets a kernel of ours sorts positions (lowering/kernels/sort.py);
others count ranks (short axes) or run a bitonic network.  Start reading at `order_of`.
"""
from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from calque.core.dims import in_int32, is_static
from calque.lowering import math as lowering_math
from calque.lowering.emit.builder import Builder, Value
from calque.lowering.emit.context import Context
from calque.lowering.emit.dtypes import BOOL, F32, I32, I64, U8, U32, signed, unsigned
from calque.lowering.emit.registry import Op, rule
from calque.lowering.kernels.forms import form_of
from calque.lowering.kernels.native import emit_native
from calque.lowering.kernels.sort import FEW, GROUPS, WORTH, emit_order
from calque.lowering.rules.gather import take_rows
from calque.lowering.rules.reduce import emit_reduce, fold

SELECTED = 256  # results up to this are selected by the C kernel
RANKED = 64  # axes up to this are ranked by comparing all pairs: two dispatches, no stages


# ---- keys
def sort_keys(b: Builder, x: Value) -> list[Value]:
    """Unsigned integers in the order of sort: NaN last, -0 equal to 0; complex has two."""
    if x.dtype.kind == "c":
        return [_float_key(b, b.real(x), True), _float_key(b, b.imag(x), True)]
    return [_key(b, x, True)]


def _key(b: Builder, x: Value, canonical: bool) -> Value:
    if x.dtype == BOOL:
        return b.convert(x, U8)
    if x.dtype.kind == "u":
        return x
    if x.dtype.kind == "i":
        return x.view(unsigned(x.dtype)) ^ (1 << (8 * x.dtype.itemsize - 1))
    if x.dtype.itemsize == 1:  # formats of float8 differ in their NaNs; float32 holds all values
        return _float_key(b, lowering_math.convert(b, x, F32), canonical)
    return _float_key(b, x, canonical)


def _float_key(b: Builder, x: Value, canonical: bool) -> Value:
    """The bits, negative numbers inverted; canonical: one NaN, one zero."""
    width = 8 * x.dtype.itemsize
    bits = x.view(unsigned(x.dtype))
    sign = 1 << (width - 1)
    if canonical:
        size = bits & (sign - 1)
        infinity = int(np.array(np.inf, x.dtype).view(bits.dtype))
        bits = b.select(size.eq(0), size, bits)
        bits = b.select(size > infinity, b.like(bits, sign - 1), bits)
    return b.select((bits & sign).ne(0), ~bits, bits | sign)


# ---- the order of rows
def order_of(ctx: Context, keys: Sequence[Value], k: int) -> Value:
    """For keys (rows, n): the first k positions in ascending, stable order, int32."""
    rows, n = keys[0].shape
    if n == 1:
        return ctx.b.splat(0, (rows, 1), I32)
    if is_static((rows, n)) and len(keys) == 1 and k <= SELECTED and FEW * k <= n and form_of(
            "top_k", ctx.target, F32) == "native":
        return _selected(ctx, keys[0], k)
    if form_of("sort", ctx.target, keys[0].dtype) == "kernel":
        return emit_order(ctx, keys, k)
    order = by_rank(ctx.b, keys) if n <= RANKED else by_network(ctx.b, keys)
    return ctx.b.cropped(order, (rows, k))


def _selected(ctx: Context, key: Value, k: int) -> Value:
    """The first k of many by one pass of the C kernel."""
    rows, n = key.shape
    if key.dtype.itemsize < 4:
        key = key.astype(U32)
    groups = max(1, min(GROUPS, rows, rows * n // WORTH))
    (order,) = emit_native(ctx, "select", f"calque_select_u{8 * key.dtype.itemsize}", [key],
                           [((rows, k), I32)], (rows, n, k), groups)
    return order


def _before(b: Builder, xs: Sequence[Value], ys: Sequence[Value]) -> Value:
    """xs < ys, the first of them being decisive."""
    result = xs[-1] < ys[-1]
    for x, y in zip(reversed(xs[:-1]), reversed(ys[:-1])):
        result = (x < y) | (x.eq(y) & result)
    return result


def by_rank(b: Builder, keys: Sequence[Value]) -> Value:
    """Position i goes to place (number of elements before it): all pairs are compared."""
    rows, n = keys[0].shape
    pairs, kind = (rows, n, n), I32
    each = [*[b.broadcast(k, pairs, (0, 1)) for k in keys], b.iota(pairs, kind, 1)]
    other = [*[b.broadcast(k, pairs, (0, 2)) for k in keys], b.iota(pairs, kind, 2)]
    rank = _sum_last(b, b.convert(_before(b, other, each), kind))
    (rank,) = b.barrier(rank)
    here = b.broadcast(rank, pairs, (0, 2)).eq(b.iota(pairs, kind, 1))
    return _sum_last(b, b.select(here, b.iota(pairs, kind, 2), b.splat(0, pairs, kind)))


def _sum_last(b: Builder, x: Value) -> Value:
    (out,) = emit_reduce(b, [x], [0], [x.ndim - 1], fold("add"))
    return out


def by_network(b: Builder, keys: Sequence[Value]) -> Value:
    """Bitonic stages of (keys, position); positions make all elements different, so that any
    network is stable.  Padding has the largest key and later positions.  Each stage is written to
    memory: barriers take signed integers only."""
    rows, n = keys[0].shape
    size = 1 << (n - 1).bit_length()
    columns = [b.transpose(_in_signed_order(_padded(b, k, size)), (1, 0)) for k in keys]
    state = [*columns, b.iota((size, rows), I32, 0)]
    block = 2
    while block <= size:
        step = block // 2
        while step:
            state = b.barrier(*_stage(b, state, block, step))
            step //= 2
        block *= 2
    return b.transpose(b.cropped(state[-1], (n, rows)), (1, 0))


def _in_signed_order(x: Value) -> Value:
    """Unsigned keys as signed ones in the same order."""
    return (x ^ (1 << (8 * x.dtype.itemsize - 1))).view(signed(x.dtype))


def _padded(b: Builder, x: Value, size: int) -> Value:
    rows, n = x.shape
    if n == size:
        return x
    return b.concatenate([x, b.splat(np.iinfo(x.dtype).max, (rows, size - n), x.dtype)], 1)


def _stage(b: Builder, state: Sequence[Value], block: int, step: int) -> list[Value]:
    """Elements `step` apart exchanged where they are not in the order of their block."""
    size, rows = state[0].shape
    groups, width = size // (2 * step), step * rows
    low, high = [], []
    for x in state:
        whole = b.reshape(x, (groups, 2, width))
        low.append(b.index_in_dim(whole, 0, 1))
        high.append(b.index_in_dim(whole, 1, 1))
    wrong = _before(b, high, low)
    if block < size:  # every other block descends
        down = (b.iota((groups, width), I32, 0) * (2 * step)) & block
        wrong = wrong ^ down.ne(0)
    outs = []
    for x, y in zip(low, high):
        parts = [b.reshape(b.select(wrong, p, q), (groups, 1, width)) for p, q in ((y, x), (x, y))]
        outs.append(b.reshape(b.concatenate(parts, 1), (size, rows)))
    return outs


# ---- rules
class _Rows:
    """An operand's elements along an axis as rows (outer * inner, n), and back."""

    def __init__(self, b: Builder, shape: Sequence[int], axis: int) -> None:
        self.b, self.axis, self.shape = b, axis, tuple(shape)
        rank = len(self.shape)
        self.order = [i for i in range(rank) if i != axis] + [axis]
        self.n = self.shape[axis]
        self.count = math.prod(self.shape[:axis] + self.shape[axis + 1:])

    def split(self, x: Value) -> Value:
        return self.b.reshape(self.b.transpose(x, self.order), (self.count, self.n))

    def join(self, x: Value) -> Value:
        width = x.shape[1]
        full = tuple(self.shape[i] for i in self.order[:-1]) + (width,)
        back = [self.order.index(i) for i in range(len(self.order))]
        return self.b.transpose(self.b.reshape(x, full), back)


def _picked(ctx: Context, x: Value, order: Value) -> Value:
    """Rows of x at positions of order: (rows, n) at (rows, k)."""
    b, (rows, n), (_, k) = ctx.b, x.shape, order.shape
    kind = I32 if in_int32(rows * n) else I64
    ids = order.astype(kind)
    if rows != 1:
        ids = ids + b.iota((rows, k), kind, 0) * b.number(n, kind)
    if x.dtype.kind == "c":
        return b.complex(_picked(ctx, b.real(x), order), _picked(ctx, b.imag(x), order))
    flat = take_rows(ctx, b.reshape(x, (rows * n, 1)), b.reshape(ids, (rows * k,)))
    return b.reshape(flat, (rows, k))


@rule("sort")
def _sort(op: Op) -> list[Value]:
    b, axis = op.b, op["dimension"]
    if 0 in op.x.shape or op.x.shape[axis] == 1:
        return list(op.operands)
    rows = _Rows(b, op.x.shape, axis)
    keys = [rows.split(k) for x in op.operands[:op["num_keys"]] for k in sort_keys(b, x)]
    order = order_of(op.ctx, keys, rows.n)
    return [rows.join(_picked(op.ctx, rows.split(x), order)) for x in op.operands]


@rule("top_k")
def _top_k(op: Op) -> list[Value]:
    b, x = op.b, op.x
    k, axis = op["k"], op["axis"]
    if 0 in op.out.shape:
        return [b.splat(0, o.shape, o.dtype) for o in op.outs]
    rows = _Rows(b, x.shape, axis)
    order = order_of(op.ctx, [~rows.split(_key(b, x, False))], k)
    return [rows.join(_picked(op.ctx, rows.split(x), order)), rows.join(order)]
