"""Convolution.  IREE has good code for one form, channels last: other layouts are transposed to it,
padding and holes are filled in before, and groups become a feature group form.

Kernel gradients are convolutions with few results and large windows: one matrix product for each
result position, in the layout the operands have.  The same holds without spatial axes.
Start reading at `_conv`.
"""
from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np

from calque.core.avals import ShapedArray
from calque.lowering import math
from calque.lowering.builder import Builder, Dtype, Value
from calque.lowering.rules.contract import emit_dot
from calque.lowering.rules.reduce import NARROW
from calque.lowering.rules.registry import Context, rule
from calque.lowering.rules.window import pad

FEW = 64  # at most so many result positions, and fewer than the window has: one product for each


@rule("conv_general_dilated")
def _conv(ctx: Context, xs: list[Value], params: dict[str, Any], outs: list[ShapedArray]) -> Value:
    b, (x, y), (out,) = ctx.b, xs, outs
    if 0 in x.shape or 0 in y.shape:
        return b.splat(0, out.shape, out.dtype)
    return _by_kind(b, x, y, params, out.shape, out.dtype)


def _by_kind(b: Builder, x: Value, y: Value, p: dict[str, Any], shape: tuple[int, ...],
             dtype: Dtype) -> Value:
    """In a dtype that the code generator takes: complex by parts, others widened."""
    if x.dtype.kind == "c" or dtype.kind == "c":
        part = np.dtype(f"f{dtype.itemsize // 2}")
        x, y = math.convert(b, x, dtype), math.convert(b, y, dtype)
        xr, xi, yr, yi = b.barrier(b.real(x), b.imag(x), b.real(y), b.imag(y))

        def one(u: Value, v: Value) -> Value:
            return emit_conv(b, u, v, p, shape, part)

        re, im = b.barrier(one(xr, yr) - one(xi, yi), one(xr, yi) + one(xi, yr))
        return b.complex(re, im)
    if dtype == np.dtype(bool):
        counts = _integers(b, x, y, p, shape, np.dtype(np.int32))
        return counts > 0
    if dtype.kind in "iu" and x.dtype.kind in "biu":
        wide = np.dtype(np.int64 if dtype.itemsize == 8 else np.int32)
        return _integers(b, x, y, p, shape, wide).astype(dtype)
    if dtype in NARROW or dtype.kind in "Viu":
        wide = np.dtype(np.float64 if x.dtype == np.float64 else np.float32)
        acc = emit_conv(b, math.convert(b, x, wide), math.convert(b, y, wide), p, shape, wide)
        return math.convert(b, acc, dtype)
    x, y = math.convert(b, x, dtype), math.convert(b, y, dtype)
    return emit_conv(b, x, y, p, shape, dtype)


def _integers(b: Builder, x: Value, y: Value, p: dict[str, Any], shape: tuple[int, ...],
              wide: Dtype) -> Value:
    """Behind a barrier: fused, narrow unsigned operands are read as signed (IREE_NOTES 1)."""
    x, y = b.barrier(x.astype(wide), y.astype(wide))
    return emit_conv(b, x, y, p, shape, wide)


def emit_conv(b: Builder, x: Value, y: Value, p: dict[str, Any], shape: tuple[int, ...],
              dtype: Dtype) -> Value:
    """Convolution of operands of one dtype that accumulates in it."""
    dn = p["dimension_numbers"]
    config = [(0, 0, 0)] * len(x.shape)
    for axis, (low, high), d in zip(dn.lhs_spec[2:], p["padding"], p["lhs_dilation"]):
        config[axis] = (low, high, d - 1)
    x = pad(b, x, 0, config)
    result = [shape[i] for i in dn.out_spec[2:]]
    kernel = [y.shape[i] for i in dn.rhs_spec[2:]]
    if 0 in shape:
        return b.splat(0, shape, dtype)
    count, window = int(np.prod(result)), int(np.prod(kernel))
    if any(c != (0, 0, 0) for c in config):
        (x,) = b.barrier(x)
    if count == 1 or (count <= FEW and count < window):
        return _by_position(b, x, y, p, shape, dtype)
    return _channels_last(b, x, y, p, shape, dtype)


# ---- few results: a product for each
def _by_position(b: Builder, x: Value, y: Value, p: dict[str, Any], shape: tuple[int, ...],
                 dtype: Dtype) -> Value:
    dn = p["dimension_numbers"]
    groups, batches = p["feature_group_count"], p["batch_group_count"]
    count = max(groups, batches)
    n, c, *space = dn.lhs_spec
    o, i, *taps = dn.rhs_spec
    kernel = [y.shape[t] for t in taps]
    result = [shape[a] for a in dn.out_spec[2:]]
    grouped, split_y = c if groups > 1 else n, _grouped(b, y, o, count)

    parts = []
    for at in itertools.product(*map(range, result)):
        start, limit, step = [0] * len(x.shape), list(x.shape), [1] * len(x.shape)
        for a, place, s, k, d in zip(space, at, p["window_strides"], kernel, p["rhs_dilation"]):
            start[a], step[a] = place * s, d
            limit[a] = place * s + (k - 1) * d + 1
        piece = _grouped(b, b.slice(x, start, limit, step), grouped, count)

        def inner(axis: int, by: int) -> int:  # behind the axis of groups
            return axis + (axis >= by) if count > 1 else axis

        left = [inner(c, grouped), *[inner(a, grouped) for a in space]]
        right = [inner(i, o), *[inner(t, o) for t in taps]]
        batch = (([grouped], [o]) if count > 1 else ([], []))
        dims = ((left, right), batch)
        free_x, free_y = piece.shape[inner(n, grouped)], split_y.shape[inner(o, o)]
        lead = (count,) if count > 1 else ()
        parts.append(emit_dot(b, piece, split_y, dims, (*lead, free_x, free_y), dtype))
    # each: (groups,) batch, output feature
    flat = []
    for part in parts:
        if count > 1:  # groups are the major part of the output features
            part = b.transpose(part, (1, 0, 2))
        flat.append(b.reshape(part, (part.shape[0], 1, shape[dn.out_spec[1]])))
    whole = b.concatenate(flat, 1) if len(flat) > 1 else flat[0]
    whole = b.reshape(whole, (shape[dn.out_spec[0]], *result, shape[dn.out_spec[1]]))
    return _laid_out(b, whole, dn.out_spec)


def _grouped(b: Builder, x: Value, axis: int, count: int) -> Value:
    """An axis as (count, rest)."""
    if count == 1:
        return x
    s = x.shape
    return b.reshape(x, (*s[:axis], count, s[axis] // count, *s[axis + 1:]))


def _laid_out(b: Builder, whole: Value, spec: Sequence[int]) -> Value:
    """(batch, spatial..., feature) in the axis order of out_spec."""
    order = [0] * len(spec)
    rank = len(spec)
    order[spec[0]], order[spec[1]] = 0, rank - 1
    for place, axis in enumerate(spec[2:]):
        order[axis] = place + 1
    return b.transpose(whole, order)


# ---- channels last
def _channels_last(b: Builder, x: Value, y: Value, p: dict[str, Any], shape: tuple[int, ...],
                   dtype: Dtype) -> Value:
    dn = p["dimension_numbers"]
    groups, batches = p["feature_group_count"], p["batch_group_count"]
    (n, c, *space), (o, i, *taps) = dn.lhs_spec, dn.rhs_spec
    last_x = b.transpose(x, (n, *space, c))
    last_y = b.transpose(y, (*taps, i, o))
    if batches > 1:  # groups of the batch become groups of features
        size, *rest, features = last_x.shape
        apart = b.reshape(last_x, (batches, size // batches, *rest, features))
        rank = len(apart.shape)
        apart = b.transpose(apart, (*range(1, rank - 1), 0, rank - 1))
        last_x, groups = b.reshape(apart, (size // batches, *rest, batches * features)), batches
    if last_x is not x:
        (last_x,) = b.barrier(last_x)
    rank = len(space)
    result = tuple(shape[a] for a in dn.out_spec)
    full = (result[0], *result[2:], result[1])
    out = _convolution(b, last_x, last_y, full, p["window_strides"], p["rhs_dilation"], groups,
                       rank, dtype)
    if any(a != e for a, e in zip(dn.out_spec, (0, rank + 1, *range(1, rank + 1)))):
        (out,) = b.barrier(out)
    return _laid_out(b, out, dn.out_spec)


def _convolution(b: Builder, x: Value, y: Value, shape: tuple[int, ...], strides: Sequence[int],
                 dilation: Sequence[int], groups: int, rank: int, dtype: Dtype) -> Value:
    """stablehlo.convolution of (batch, spatial..., feature) with (spatial..., input, output)."""
    space = ", ".join(map(str, range(rank)))
    numbers = (f"#stablehlo.conv<[b, {space}, f]x[{space}, i, o]->[b, {space}, f]>")
    return b.emit("convolution", [x, y], shape, dtype, {
        "window_strides": _array(strides), "rhs_dilation": _array(dilation),
        "lhs_dilation": _array([1] * rank),
        "padding": f"dense<0> : tensor<{rank}x2xi64>",
        "window_reversal": f"array<i1: {', '.join(['false'] * rank)}>",
        "dimension_numbers": numbers, "feature_group_count": f"{groups} : i64",
        "batch_group_count": "1 : i64",
        "precision_config": "[#stablehlo<precision DEFAULT>, #stablehlo<precision DEFAULT>]"})


def _array(values: Sequence[int]) -> str:
    return f"array<i64: {', '.join(str(int(v)) for v in values)}>"
