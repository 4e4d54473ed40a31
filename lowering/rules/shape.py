"""Shape primitives: most are one StableHLO op."""
from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from calque.core.dims import Dim, is_static, max_dim
from calque.core.dtypes import real_dtype
from calque.lowering.emit.builder import Builder, Value
from calque.lowering.emit.dtypes import I32
from calque.lowering.emit.registry import Op, rule
from calque.lowering.kernels import joins, move
from calque.lowering.math.convert import convert
from calque.lowering.passes.cost import MOST_BINDINGS

LARGE = 1 << 14  # elements from which an iota of several axes is a constant, repeated
ROW = 4096  # elements of such a constant at most


@rule("reshape", "squeeze")
def _reshape(op: Op) -> Value:
    taken = op.ctx.fusion.again.get(op.x)
    if taken is not None and not op.out.shape:
        return op.ctx.fusion.note_part(lambda: op.b.reshape(taken(), ()))
    return op.b.reshape(op.x, op.out.shape)


@rule("transpose")
def _transpose(op: Op) -> Value:
    permutation = op["permutation"]
    moved = move.exchange(op.ctx, op.x, permutation)
    if moved is not None:
        return moved
    out = op.b.transpose(op.x, permutation)
    long = [axis for axis in permutation if op.x.shape[axis] != 1]
    if is_static(op.x.shape) and long != sorted(long):
        op.ctx.aliases.add_moved(out, op.x)
    return out


@rule("broadcast_in_dim")
def _broadcast(op: Op) -> Value:
    if op.ctx.closing and op.x.ndim and math.prod(op.x.shape) == math.prod(op.out.shape):
        return op.b.reshape(op.x, op.out.shape)
    out = op.b.broadcast(op.x, op.out.shape, op["broadcast_dimensions"])
    return op.ctx.fusion.note(out, op.operands)


@rule("concatenate")
def _concatenate(op: Op) -> Value:
    axis = op["dimension"]
    parts = [x for x in op.operands if x.shape[axis]]
    moved = joins.join(op.ctx, parts, axis, op.out.shape)
    if moved is None and 2 <= len(parts) <= MOST_BINDINGS - 1:
        moved = move.concatenate(op.ctx, parts, axis)
    if moved is not None:
        return moved
    many = len(parts) > op.ctx.fusion.limit and is_static(op.out.shape)
    out = parts[0] if len(parts) == 1 else (
        op.ctx.fusion.joined(parts, axis) if many else op.b.concatenate(parts, axis))
    if out.dtype.kind in "iu" and axis == out.ndim - 1 and all(
            x.shape[axis] == 1 for x in parts):
        op.ctx.columns[out] = parts
    return out


@rule("slice")
def _slice(op: Op) -> Value:
    single = op.out.size == 1
    x = op.ctx.fusion.source(op.x) if single else op.x

    def cut() -> Value:
        return op.b.slice(x, op["start_indices"], op["limit_indices"], op["strides"])
    return op.ctx.fusion.note_part(cut) if single else cut()


@rule("pad")
def _pad(op: Op) -> Value:
    x, value = op.operands
    config = op["padding_config"]
    if 0 in x.shape:
        return op.b.broadcast(value, op.out.shape, ())
    known: Any = op.ctx.literals[value].value if value in op.ctx.literals else value
    if x.dtype.kind == "c":  # IREE cannot fill memory with 128-bit patterns (and see Builder.pad)
        real, imag = (np.real, np.imag) if value in op.ctx.literals else (op.b.real, op.b.imag)
        return op.b.complex(*[padded(op.b, part, v, config) for part, v in (
            (op.b.real(x), real(known)), (op.b.imag(x), imag(known)))])
    moved = move.pad(op.ctx, x, known, config) if value in op.ctx.literals else None
    return padded(op.b, x, known, config) if moved is None else moved


def padded(b: Builder, x: Value, value: Any, config: Sequence[tuple[Any, Any, int]]) -> Value:
    """x with padding that may be negative, which IREE has not: cropped afterwards."""
    more = [(max_dim(lo, 0), max_dim(hi, 0), i) for lo, hi, i in config]
    out = b.pad(x, value, more)
    if all(pair == most for pair, most in zip(config, more)):
        return out
    start = [max_dim(-lo, 0) for lo, _, _ in config]
    sizes = [n + lo - most + hi - last for n, (lo, hi, _), (most, last, _) in zip(
        out.shape, config, more)]
    return b.slice(out, start, [s + n for s, n in zip(start, sizes)])


def with_windows(b: Builder, x: Value, value: Any, reaches: Sequence[int]) -> Value:
    """x with room for a window along each axis whose size is known at the call only: what is
    computed of axes that are too short is cut off again."""
    config = [(0, max_dim(0, reach - n) if isinstance(n, Dim) and reach > 1 else 0, 0)
              for n, reach in zip(x.shape, reaches)]
    return b.pad(x, value, config)


@rule("rev")
def _rev(op: Op) -> Value:
    if not op["dimensions"]:
        return op.x
    moved = move.reverse(op.ctx, op.x, op["dimensions"])
    return op.b.reverse(op.x, op["dimensions"]) if moved is None else moved


@rule("iota")
def _iota(op: Op) -> Value:
    dtype = np.dtype(op["dtype"])
    shape, axis = op.out.shape, op["dimension"]
    made = real_dtype(dtype) if dtype.kind == "c" else I32 if dtype.kind == "V" else dtype
    row = is_static(shape) and math.prod(shape) > 0 and shape[axis] <= ROW and (
        op.b.keeps_reads or shape[axis] < math.prod(shape) >= LARGE)
    if row:
        # IREE sees an iota's axes as one and divides for every element (1000 x 1000: 0.33 to 0.13)
        x = op.b.constant(np.arange(shape[axis]).astype(made))
        if op.b.keeps_reads:
            (x,) = op.b.barrier(x)
        x = op.b.broadcast(x, shape, (axis,))
    else:
        x = op.b.iota(shape, made, axis)
    if dtype.kind == "c":
        x = op.b.complex(x, op.b.like(x, 0))
    elif dtype.kind == "V":
        x = convert(op.b, x, dtype)
    return x if row else op.ctx.fusion.note(x, [])


@rule("dim_as_value")
def _dim_as_value(op: Op) -> Value:
    return op.b.number(op["dim"], op.out.dtype)
