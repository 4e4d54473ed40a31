"""Reductions over windows.  Windows along at most two axes become the pooling forms that IREE has
fast code for (NHWC or NCHW, one of batch and channel filled with all other axes); more axes are
reduced two at a time, long windows by doubling.  Padding and dilation of the operand are done
before (IREE pads with a dispatch of its own), unsigned operands are passed as signed.

The position of a window's extremum is found with one `linalg.generic` over windows and taps; the
gradient is the same walk over the results, mirrored.  Start reading at `emit_windows`.
"""
from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any

import numpy as np

from calque.core.avals import ShapedArray
from calque.core.dims import is_static
from calque.core.dtypes import extreme
from calque.core.lists import replaced
from calque.core.types import Dtype, Params, Shape
from calque.lowering import math
from calque.lowering.emit import mlir
from calque.lowering.emit.builder import Builder, Value
from calque.lowering.emit.dtypes import BOOL, F32, I8, I32, is_narrow, signed
from calque.lowering.emit.folding import guarded
from calque.lowering.emit.registry import Op, rule
from calque.lowering.math.common import MANTISSA
from calque.lowering.math.region import BodyBuilder, elementwise, generic, scalar_type
from calque.lowering.rules import shape as shape_rules
from calque.lowering.rules.elementwise import pointwise

LONG = 32  # windows longer than this along an axis are doubled: log2 passes

Fold = Callable[[Builder, Value, Value], Value]


@dataclass(frozen=True, slots=True)
class Windows:
    """Along each axis: how many elements a window has, how far apart windows start, and how far
    apart the elements of one are."""

    sizes: Shape
    strides: Shape
    dilations: Shape

    @classmethod
    def of(cls, params: Params) -> Windows:
        return cls(params["window_dimensions"], params["window_strides"],
                   params["window_dilation"])

    @property
    def reaches(self) -> Shape:
        """From the first element of a window to its last."""
        return tuple((k - 1) * d + 1 for k, d in zip(self.sizes, self.dilations))

    def along(self, axes: Sequence[int | None]) -> Windows:
        """Windows over these axes; None: an axis of single elements."""
        return Windows(*[tuple(1 if axis is None else values[axis] for axis in axes)
                         for values in (self.sizes, self.strides, self.dilations)])


def padded(b: Builder, x: Value, value: Any, params: Params) -> Value:
    """The operand of a window reduction with its padding and holes filled in."""
    config = [(low, high, d - 1) for (low, high), d in
              zip(params["padding"], params["base_dilation"])]
    known = is_static([*x.shape, *[v for pair in params["padding"] for v in pair]])
    return b.pad(x, value, config) if known else shape_rules.padded(b, x, value, config)


def _folded(b: Builder, x: Value, name: str, identity: Any, params: Params,
            shape: Shape) -> Value:
    """name folded over the windows of an operand."""
    y = padded(b, x, identity, params)
    windows = Windows.of(params)
    y = shape_rules.with_windows(b, y, identity, windows.reaches)
    y = emit_windows(b, y, windows, name, identity)
    return y if y.shape == shape else b.cropped(y, shape)


def fill(b: Builder, value: Any, shape: Shape, dtype: Dtype) -> Value:
    """A tensor of one value, as linalg.fill: IREE makes one in each dispatch that starts from it.

    Equal constants it merges, and then several reductions accumulate into one buffer
    (tests/lowering/test_window_needs_cures.py).
    """
    inner = BodyBuilder(b.f64_ok, b.relaxed)
    scalar = inner.splat(value, (), dtype)
    empty = b.empty(shape, dtype)
    return Value(b, mlir.fill(scalar.ir, empty), shape, dtype)


def _pool(b: Builder, x: Value, windows: Windows, name: str, identity: Any) -> Value:
    """name folded over the windows of a padded operand, as one generic."""
    shape = tuple((n - reach) // s + 1
                  for n, reach, s in zip(x.shape, windows.reaches, windows.strides))

    def step(i: BodyBuilder, elements: list[Value], sums: list[Value], tap: None) -> list[Value]:
        return [i.binary(name, sums[0], elements[0])]

    start = fill(b, identity, shape, x.dtype)
    return _walk(b, [x], [start], windows, step, taps=False)[0]


def _doubled(b: Builder, x: Value, axis: int, k: int, d: int, fold: Fold) -> Value:
    """All windows of k elements along an axis, d apart, from windows of k // 2."""
    if k == 1:
        return x
    half = _doubled(b, x, axis, k // 2, d, fold)
    n = x.shape[axis] - (k - 1) * d

    def cut(v: Value, start: int) -> Value:
        return b.slice_in_dim(v, start, start + n, axis)

    out = fold(b, cut(half, 0), cut(half, (k // 2) * d))
    if k % 2:
        out = fold(b, out, cut(x, (k - 1) * d))
    return b.barrier(out)[0] if k > 8 else out


def emit_windows(b: Builder, x: Value, windows: Windows, name: str, identity: Any) -> Value:
    """name folded over the windows of a padded operand."""
    rank = x.ndim
    for axis, (k, d) in enumerate(zip(windows.sizes, windows.dilations)):
        if k > LONG:
            x = _doubled(b, x, axis, k, d, lambda b, p, q: b.binary(name, p, q))
            windows = replace(windows, sizes=replaced(windows.sizes, axis, 1))
    for axis, (k, s) in enumerate(zip(windows.sizes, windows.strides)):
        if k == 1 and s > 1:
            x = b.slice(x, [0] * rank, x.shape, replaced([1] * rank, axis, s))
            windows = replace(windows, strides=replaced(windows.strides, axis, 1))
    moving = [i for i in range(rank) if windows.sizes[i] > 1]
    if moving and moving[-1] == rank - 1 and windows.strides[-1] == 1:
        # channels first: rows are folded as vectors, then within themselves
        for axis in moving[:-1]:
            x = _pool_pair(b, x, [axis], windows, name, identity)
        return _within_rows(b, x, windows.sizes[-1], windows.dilations[-1], name)
    while moving:
        pair, moving = moving[-2:], moving[:-2]
        x = _pool_pair(b, x, pair, windows, name, identity)
    return x


def _within_rows(b: Builder, x: Value, k: int, d: int, name: str) -> Value:
    """Windows with stride 1 along the last axis: whole rows, shifted, are folded."""
    n = x.shape[-1] - (k - 1) * d
    total = None
    (x,) = b.barrier(x)
    for t in range(k):
        part = b.slice_in_dim(x, t * d, t * d + n, x.ndim - 1)
        total = part if total is None else b.binary(name, total, part)
    assert total is not None
    return total


def _pool_pair(b: Builder, x: Value, pair: Sequence[int], windows: Windows, name: str,
               identity: Any) -> Value:
    """Windows along one or two axes: the others are gathered into batch and channel."""
    rank, first, last = x.ndim, pair[0], pair[-1]
    between = list(range(first + 1, last))
    order = [i for i in range(first) if i not in pair] + between + list(pair) + list(
        range(last + 1, rank))
    moved = b.transpose(x, order)
    outer, inner = len(order) - len(pair) - (rank - last - 1), rank - last - 1
    lead, tail = moved.shape[:outer], moved.shape[rank - inner:]
    spatial = moved.shape[outer:rank - inner]
    if len(pair) == 1:  # an axis of size 1 in front
        spatial = (1, *spatial)
    before, behind = prod(lead), prod(tail)
    if behind != 1:
        flat, at = b.reshape(moved, (before, *spatial, behind)), 1
    else:
        flat, at = b.reshape(moved, (1, before, *spatial)), 2
    axes = [*[None] * (at + 2 - len(pair)), *pair, *[None] * (2 - at)]
    out = _pool(b, flat, windows.along(axes), name, identity)
    sizes = out.shape[at:at + 2][-len(pair):]
    out = b.reshape(out, (*lead, *sizes, *tail))
    return b.transpose(out, [int(i) for i in np.argsort(order)])


# ---- sum, max, min
@rule("reduce_window_sum")
def _window_sum(op: Op) -> Value:
    return emit_window_sum(op.b, op.x, op.params, op.out)


def emit_window_sum(b: Builder, x: Value, params: Params, out: ShapedArray) -> Value:
    dtype = x.dtype
    if dtype.kind == "c":
        return b.complex(*[emit_window_sum(b, part, params, out)
                           for part in (b.real(x), b.imag(x))])
    if not x.shape:
        return x
    if is_narrow(dtype):
        x = math.convert(b, x, F32)
    elif dtype.kind == "u":
        x = x.view(signed(dtype))
    if 0 in x.shape:
        return b.splat(0, out.shape, dtype)
    y = _folded(b, x, "add", 0, params, out.shape)
    return y.view(dtype) if dtype.kind == "u" else math.convert(b, y, dtype)


def _ordered(b: Builder, x: Value) -> Value:
    """An operand in a signed or float dtype of the same order."""
    if x.dtype == BOOL:
        return x.astype(I8)
    if x.dtype.kind == "u":
        top = np.array(1 << (8 * x.dtype.itemsize - 1)).astype(x.dtype)
        return (x ^ b.like(x, top)).view(signed(x.dtype))
    return math.convert(b, x, F32) if x.dtype.kind == "V" else x


def _unsigned(b: Builder, x: Value, dtype: Dtype) -> Value:
    if dtype == BOOL:
        return x > 0
    if dtype.kind == "u":
        top = np.array(1 << (8 * dtype.itemsize - 1)).astype(dtype)
        back = x.view(dtype)
        return back ^ b.like(back, top)
    return math.convert(b, x, dtype)


def _window_extremum(name: str, largest: bool) -> None:
    @rule(f"reduce_window_{name}")
    def emit(op: Op) -> Value:
        b, x = op.b, op.x
        if not x.shape:
            return x
        if 0 in x.shape:
            return b.splat(extreme(x.dtype, largest), op.out.shape, x.dtype)
        identity = extreme(_comparable(x.dtype), largest)
        y = _folded(b, _ordered(b, x), f"{name}imum", identity, op.params, op.out.shape)
        return _unsigned(b, y, x.dtype)


def _comparable(dtype: Dtype) -> Dtype:
    if dtype == BOOL:
        return I8
    return F32 if dtype.kind == "V" else signed(dtype)


_window_extremum("max", False)
_window_extremum("min", True)


def _tap_number(b: BodyBuilder, rank: int, sizes: Sequence[int],
                moving: Sequence[int]) -> Value:
    """The row-major number of the tap, from the indices of the loops over taps."""
    tap, kind = b.splat(0, (), I32), I32
    for place, i in enumerate(moving):
        index = mlir.value("linalg.index", mlir.ir().IndexType.get(), dim=f"{rank + place} : i64")
        cast = mlir.value("arith.index_cast", scalar_type(kind), [index])
        tap = tap * sizes[i] + Value(b, cast, (), kind)
    return tap


# ---- where the extremum of each window is
Walk = Callable[[BodyBuilder, list[Value], list[Value], Any], Sequence[Value]]


def _walk(b: Builder, operands: Sequence[Value], starts: Sequence[Value], windows: Windows,
          step: Walk, fixed: Sequence[Value] = (), taps: bool = True) -> list[Value]:
    """One generic over windows and their taps: step(builder, elements, accumulators, tap).

    elements: of each operand the one under the tap, of each of `fixed` the one of the window;
    tap: its row-major number, when `taps`.
    """
    # what no window reads is cut off: fused with what makes it, IREE infers other sizes
    # (tests/lowering/test_window_needs_cures.py), and refuses steps that are longer than windows
    read = tuple((o - 1) * s + reach
                 for o, reach, s in zip(starts[0].shape, windows.reaches, windows.strides))
    if 0 not in starts[0].shape:
        operands = [v if v.shape == read else b.cropped(v, read) for v in operands]
    if len(starts) == 1:
        operands = [guarded(v) for v in operands]
    operands = b.materialize(*operands)
    rank, n = len(windows.sizes), len(operands) + len(fixed)
    moving = [i for i in range(rank) if windows.sizes[i] > 1] or [rank - 1]
    write, window = [f"d{i}" for i in range(rank)], [f"k{i}" for i in moving]
    at = [f"d{i} * {s}" + (f" + k{i} * {d}" if i in moving else "")
            for i, (s, d) in enumerate(zip(windows.strides, windows.dilations))]
    sizes, dtype = tuple(windows.sizes[i] for i in moving), operands[0].dtype
    shape_only = Value(b, mlir.value("tensor.empty", mlir.tensor_type(sizes, dtype)), sizes, dtype)
    maps = [at] * len(operands) + [write] * len(fixed) + [window] + [write] * len(starts)

    def body(inner: BodyBuilder, *values: Value) -> Sequence[Value]:
        tap = _tap_number(inner, rank, windows.sizes, moving) if taps else None
        return step(inner, list(values[:n]), list(values[n + 1:]), tap)

    return b.materialize(*generic([*write, *window], len(moving), maps,
                            [*operands, *fixed, shape_only], starts, body))


def _chosen(b: Builder, x: Value, params: Params, shape: Shape) -> Value:
    """For each window the tap (row-major) of the first element that no other beats."""
    largest = params["select_prim"].name == "ge"
    edge = extreme(_comparable(x.dtype), not largest)
    y = padded(b, _ordered(b, x), edge, params)
    starts = [fill(b, edge, shape, y.dtype), fill(b, -1, shape, I32)]

    def step(i: BodyBuilder, elements: list[Value], best: list[Value], tap: Value) -> list[Value]:
        stays = i.compare("GE" if largest else "LE", best[0], elements[0]) & (best[1] >= 0)
        return [i.select(stays, best[0], elements[0]), i.select(stays, best[1], tap)]

    y, *_ = b.barrier(y)
    found = _walk(b, [y], starts, Windows.of(params), step)
    return b.barrier(found[1])[0]


def _parts(f: Callable[..., Value], b: Builder, x: Value, *rest: Any) -> Value:
    """f of real and imaginary parts, f32 for halves, signed for unsigned."""
    if x.dtype.kind == "c":
        return b.complex(f(b, b.real(x), *rest), f(b, b.imag(x), *rest))
    if is_narrow(x.dtype):
        return math.convert(b, f(b, math.convert(b, x, F32), *rest), x.dtype)
    if x.dtype.kind == "u":
        return f(b, x.view(signed(x.dtype)), *rest).view(x.dtype)
    return f(b, x, *rest)


def _full(params: Params) -> dict[str, Any]:
    ones = (1,) * len(params["window_dimensions"])
    return {"base_dilation": ones, "window_dilation": ones, **params}


@rule("select_and_gather_add")
def _gather(op: Op) -> Value:
    b, (t, x) = op.b, op.operands
    params, shape = _full(op.params), op.out.shape
    if not x.shape:
        return t
    if 0 in x.shape:
        return b.splat(0, shape, t.dtype)
    chosen = _chosen(b, x, params, shape)

    def gathered(b: Builder, t: Value) -> Value:
        (y,) = b.barrier(padded(b, t, 0, params))

        def step(i: BodyBuilder, elements: list[Value], sums: list[Value],
                 tap: Value) -> list[Value]:
            return [i.select(elements[1].eq(tap), elements[0], sums[0])]

        return _walk(b, [y], [fill(b, 0, shape, y.dtype)], Windows.of(params), step, [chosen])[0]

    return _parts(gathered, b, t)


@rule("select_and_scatter_add")
def _scatter(op: Op) -> Value:
    b, (source, x) = op.b, op.operands
    params = _full(op.params)
    if 0 in source.shape or 0 in x.shape:
        return b.splat(0, x.shape, source.dtype)
    if not x.shape:
        return source
    chosen = _chosen(b, x, params, source.shape)
    windows, config = Windows.of(params), []
    for n, out, reach, s, base, (low, _) in zip(
            x.shape, source.shape, windows.reaches, windows.strides, params["base_dilation"],
            params["padding"]):
        before = reach - 1 - low
        config.append((before, (n - 1) * base + reach - before - (out - 1) * s - 1, s - 1))
    taps, mirrored = prod(windows.sizes), replace(windows, strides=params["base_dilation"])

    pad = Builder.pad if is_static(
        [*x.shape, *[v for c in config for v in c]]) else shape_rules.padded

    def scattered(b: Builder, source: Value) -> Value:
        y, where = b.barrier(pad(b, source, 0, config), pad(b, chosen, -1, config))

        def step(i: BodyBuilder, elements: list[Value], sums: list[Value],
                 tap: Value) -> list[Value]:
            hit = elements[1].eq(i.splat(taps - 1, (), I32) - tap)  # taps run backwards here
            return [sums[0] + i.select(hit, elements[0], i.splat(0, (), elements[0].dtype))]

        return _walk(b, [y, where], [fill(b, 0, x.shape, y.dtype)], mirrored, step)[0]

    return _parts(scattered, b, source)


# ---- reduce_precision
@pointwise("reduce_precision")
def _reduce_precision(b: Builder, x: Value, *, exponent_bits: int, mantissa_bits: int) -> Value:
    """Rounded to nearest even at a mantissa bit; beyond the exponent range infinite or zero."""
    dtype = x.dtype
    if is_narrow(dtype):
        wide = math.convert(b, x, F32)
        return math.convert(b, _reduce_precision_body(b, wide, exponent_bits, mantissa_bits),
                            dtype)
    return _reduce_precision_body(b, x, exponent_bits, mantissa_bits)


def _reduce_precision_body(b: Builder, x: Value, exponent_bits: int, mantissa_bits: int) -> Value:
    own = MANTISSA[x.dtype]
    width = 8 * x.dtype.itemsize
    own_exponent = width - 1 - own

    def body(b: Builder, x: Value) -> Value:
        integer = np.dtype(f"i{x.dtype.itemsize}")
        i = x.view(integer)
        sign, size = i & (-1 << (width - 1)), i & ((1 << (width - 1)) - 1)
        if mantissa_bits < own:
            drop = own - mantissa_bits
            odd = (size >> drop) & 1
            size = (size + ((1 << (drop - 1)) - 1) + odd) & (-1 << drop)
        if exponent_bits < own_exponent:
            bias, own_bias = (1 << (exponent_bits - 1)) - 1, (1 << (own_exponent - 1)) - 1
            exponent = size >> own
            infinity = ((1 << own_exponent) - 1) << own
            size = b.select(exponent > own_bias + bias, infinity, size)
            size = b.select(exponent <= own_bias - bias, b.like(size, 0), size)
        return b.select(x.ne(x), x, (size | sign).view(x.dtype))

    return elementwise(b, body, [x], [x.dtype])[0]
