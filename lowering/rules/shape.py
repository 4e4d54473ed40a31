"""Shape primitives: most are one StableHLO op."""
from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from calque.core.avals import ShapedArray
from calque.core.dims import Dim, is_static, max_dim
from calque.lowering.builder import Builder, Value
from calque.lowering.context import Context
from calque.lowering.kernels import move
from calque.lowering.math.convert import convert
from calque.lowering.rules.registry import rule

LARGE = 1 << 14  # elements from which an iota of several axes is a constant, repeated
ROW = 4096  # elements of such a constant at most


@rule("reshape", "squeeze")
def _reshape(ctx: Context, xs: list[Value], params: dict[str, Any],
             outs: list[ShapedArray]) -> Value:
    return ctx.b.reshape(xs[0], outs[0].shape)


@rule("transpose")
def _transpose(ctx: Context, xs: list[Value], params: dict[str, Any],
               outs: list[ShapedArray]) -> Value:
    moved = move.exchange(ctx, xs[0], params["permutation"])
    return ctx.b.transpose(xs[0], params["permutation"]) if moved is None else moved


@rule("broadcast_in_dim")
def _broadcast(ctx: Context, xs: list[Value], params: dict[str, Any],
               outs: list[ShapedArray]) -> Value:
    out = ctx.b.broadcast(xs[0], outs[0].shape, params["broadcast_dimensions"])
    return ctx.fusion.note(out, xs)


@rule("concatenate")
def _concatenate(ctx: Context, xs: list[Value], params: dict[str, Any],
                 outs: list[ShapedArray]) -> Value:
    axis = params["dimension"]
    parts = [x for x in xs if x.shape[axis]]
    moved = None if len(parts) < 2 else move.concatenate(ctx, parts, axis)
    if moved is not None:
        return moved
    out = parts[0] if len(parts) == 1 else ctx.b.concatenate(parts, axis)
    if out.dtype.kind in "iu" and axis == len(out.shape) - 1 and all(
            x.shape[axis] == 1 for x in parts):
        ctx.columns[out] = parts
    return out


@rule("slice")
def _slice(ctx: Context, xs: list[Value], params: dict[str, Any],
           outs: list[ShapedArray]) -> Value:
    return ctx.b.slice(xs[0], params["start_indices"], params["limit_indices"], params["strides"])


@rule("pad")
def _pad(ctx: Context, xs: list[Value], params: dict[str, Any],
         outs: list[ShapedArray]) -> Value:
    x, value = xs
    config = params["padding_config"]
    if 0 in x.shape:
        return ctx.b.broadcast(value, outs[0].shape, ())
    known: Any = ctx.literals[value].value if value in ctx.literals else value
    if x.dtype.kind == "c":  # IREE cannot fill memory with 128-bit patterns (and see Builder.pad)
        real, imag = (np.real, np.imag) if value in ctx.literals else (ctx.b.real, ctx.b.imag)
        return ctx.b.complex(*[padded(ctx.b, part, v, config) for part, v in (
            (ctx.b.real(x), real(known)), (ctx.b.imag(x), imag(known)))])
    moved = move.pad(ctx, x, known, config) if value in ctx.literals else None
    return padded(ctx.b, x, known, config) if moved is None else moved


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
def _rev(ctx: Context, xs: list[Value], params: dict[str, Any], outs: list[ShapedArray]) -> Value:
    if not params["dimensions"]:
        return xs[0]
    moved = move.reverse(ctx, xs[0], params["dimensions"])
    return ctx.b.reverse(xs[0], params["dimensions"]) if moved is None else moved


@rule("iota")
def _iota(ctx: Context, xs: list[Value], params: dict[str, Any], outs: list[ShapedArray]) -> Value:
    dtype = np.dtype(params["dtype"])
    shape, axis = outs[0].shape, params["dimension"]
    if dtype.kind == "c":
        part = np.dtype(f"f{dtype.itemsize // 2}")
        re = ctx.b.iota(shape, part, axis)
        out = ctx.b.complex(re, ctx.b.like(re, 0))
    elif dtype.kind == "V":
        out = convert(ctx.b, ctx.b.iota(shape, np.int32, axis), dtype)
    elif len(shape) > 1 and is_static(shape) and shape[axis] <= ROW and math.prod(shape) >= LARGE:
        # IREE sees an iota's axes as one and divides for every element (1000 x 1000: 0.33 to 0.13)
        return ctx.b.broadcast(ctx.b.constant(np.arange(shape[axis]).astype(dtype)), shape, (axis,))
    else:
        out = ctx.b.iota(shape, dtype, axis)
    return ctx.fusion.note(out, [])


@rule("dim_as_value")
def _dim_as_value(ctx: Context, xs: list[Value], params: dict[str, Any],
                  outs: list[ShapedArray]) -> Value:
    return ctx.b.number(params["dim"], outs[0].dtype)
