"""Convolution.  IREE has good code for one form, channels last: other layouts are transposed to it,
padding and holes are filled in before, and groups become a feature group form.

Kernel gradients are convolutions with few results and large windows: one matrix product for each
result position, in the layout the operands have.  The same holds without spatial axes.  Operands
with holes (input gradients of strided convolutions) are convolved in phases: each result sees only
every second (third, ...) tap.  Where the C kernel is ahead, what windows see is an operand of a
product that lies nowhere in memory (kernels/convolve).  Start reading at `_conv`.
"""
from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any, NamedTuple

from calque.core.avals import ShapedArray
from calque.core.dims import floordiv, guess, is_static
from calque.core.dtypes import real_dtype
from calque.core.errors import InconclusiveDimensionOperation
from calque.core.program import Equation
from calque.core.types import Dtype, Params
from calque.lowering import math
from calque.lowering.emit import mlir
from calque.lowering.emit.builder import Builder, Value
from calque.lowering.emit.context import Context
from calque.lowering.emit.dtypes import BOOL, F32, F64, HALVES, I32, I64, is_narrow
from calque.lowering.emit.folding import guarded_one, kept_unsigned
from calque.lowering.emit.registry import Op, rule
from calque.lowering.kernels import gemm
from calque.lowering.kernels.convolve import Sums, convolve
from calque.lowering.kernels.cuda import convolutions, products
from calque.lowering.kernels.native import level_of
from calque.lowering.passes.epilogues import Epilogue
from calque.lowering.rules.contract import by_parts, matmul, real_dot
from calque.lowering.rules.reduce import emit_reduce, fold
from calque.lowering.rules.shape import padded, with_windows

WIDE_INPUT = 16  # input features from which on the C kernel is ahead with mask registers, too,
MANY_PLACES = 128  # where as many places share what it makes of the kernel
NARROW_INPUT = 2  # fewer input features than a vector: the window is gathered into features
CLOSING = 1 << 17  # multiply-adds up to which it is the kernel's where IREE then has nothing left,
SHARE = 8  # or one of so many of what may take longer for that (IREE's form is 1.1 to 2.4 times
SHARE_OF_DEEP, DEEP = 2, 64  # ahead), or one of so many of windows of more elements (1.5 times)
SPLIT_GROUPS = 16  # so many groups of several features are convolved one by one
WIDE_GROUP = 16  # of at least so many output features each: with fewer IREE's form is ahead
NARROW_BATCH = 2  # a batch (of a kernel gradient: its input features) too small for a product
LEAST_DEPTH = 8  # elements of a window from which on it is the C kernel's
FEW = 64  # at most so many result positions, and fewer than the window has: one product for each


class Numbers(NamedTuple):
    """Which axis is what, as in calque.primitives.conv."""

    lhs_spec: tuple[int, ...]
    rhs_spec: tuple[int, ...]
    out_spec: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Conv:
    """A convolution without its operands: the primitive's parameters, the result's shape, and the
    dtype of its sums.  Where it is channels last, groups are those of features."""

    ctx: Context
    params: Params
    shape: tuple[Any, ...]
    dtype: Dtype

    @property
    def b(self) -> Builder:
        return self.ctx.b

    @property
    def numbers(self) -> Numbers:
        return self.params["dimension_numbers"]

    @property
    def strides(self) -> Sequence[int]:
        return self.params["window_strides"]

    @property
    def dilation(self) -> Sequence[int]:
        return self.params["rhs_dilation"]

    @property
    def groups(self) -> int:
        return self.params["feature_group_count"]

    @property
    def count(self) -> int:
        """Groups of features or of the batch."""
        return max(self.groups, self.params["batch_group_count"])

    @property
    def places(self) -> list[Any]:
        """The result's spatial sizes."""
        return [self.shape[i] for i in self.numbers.out_spec[2:]]

    def by(self, dtype: Dtype) -> Conv:
        return replace(self, dtype=dtype)


@rule("conv_general_dilated")
def _conv(op: Op) -> Value:
    (x, y), out = op.operands, op.out
    if 0 in x.shape or 0 in y.shape:
        return op.b.splat(0, out.shape, out.dtype)
    return _by_kind(Conv(op.ctx, op.params, out.shape, out.dtype), x, y)


def _by_kind(c: Conv, x: Value, y: Value) -> Value:
    """In a dtype that the code generator takes: complex by parts, others widened."""
    b, dtype = c.b, c.dtype
    if x.dtype.kind == "c" or dtype.kind == "c":
        part = c.by(real_dtype(dtype))
        return by_parts(b, math.convert(b, x, dtype), math.convert(b, y, dtype),
                        lambda u, v: emit_conv(part, u, v))
    if dtype == BOOL:
        return _integers(c.by(I32), x, y) > 0
    if dtype.kind in "iu" and x.dtype.kind in "biu":
        wide = I64 if dtype.itemsize == 8 else I32
        return _integers(c.by(wide), x, y).astype(dtype)
    if is_narrow(dtype) or dtype.kind in "iu":
        wide = F64 if x.dtype == F64 else F32
        if 0 not in c.shape:
            made = _on_cuda(c, x, y)
            if made is not None:
                return math.convert(b, made, dtype)
        if x.dtype != y.dtype or not (_is_product(c, x.dtype, y) or _takes_halves(c, x.dtype)):
            x, y = math.convert(b, x, wide), math.convert(b, y, wide)
            if is_static(c.places) and 1 < prod(c.places) <= FEW:
                (x,) = b.barrier(x)  # each place's window widened anew: more stack than there is
        return math.convert(b, emit_conv(c.by(wide), x, y), dtype)
    x, y = math.convert(b, x, dtype), math.convert(b, y, dtype)
    return emit_conv(c, x, y)


def _integers(c: Conv, x: Value, y: Value) -> Value:
    """Behind a barrier: fused, narrow unsigned operands are read as signed."""
    return emit_conv(c, *c.b.barrier(x.astype(c.dtype), y.astype(c.dtype)))


def emit_conv(c: Conv, x: Value, y: Value) -> Value:
    """Convolution of operands of one dtype."""
    b, p, dn, result, dtype = c.b, c.params, c.numbers, c.places, c.dtype
    kernel = [y.shape[i] for i in dn.rhs_spec[2:]]
    any_place = not is_static((*result, *[x.shape[i] for i in dn.lhs_spec[2:]]))
    if 0 not in c.shape and not any_place and _has_phases(p):
        return _by_phase(c, x, y)
    if 0 not in c.shape:
        made = _on_cuda(c, x, y)
        if made is not None:
            return math.convert(b, made, dtype)
    config = [(0, 0, 0)] * x.ndim
    for axis, (low, high), d in zip(dn.lhs_spec[2:], p["padding"], p["lhs_dilation"]):
        config[axis] = (low, high, d - 1)
    if 0 not in c.shape and c.ctx.closing and all(
            low == inside == 0 and high <= 0 for low, high, inside in config):
        made = _by_windows(c, x, y)  # (which end before what is cut off)
        if made is not None:
            return made
    x = padded(b, x, 0, config)
    if 0 in c.shape:
        return b.splat(0, c.shape, dtype)
    if any_place:
        if is_static(kernel):
            return _at_any_place(c, x, y)
        if not is_static(result) or prod(result) > FEW:
            raise InconclusiveDimensionOperation(
                f"windows of {tuple(kernel)} at {tuple(result)} places.")
        x, y = b.barrier(x, y)
        return (_by_columns if c.count == 1 else _by_position)(c, x, y)
    count, window = guess(prod(result)), guess(prod(kernel))
    if any(changed != (0, 0, 0) for changed in config):
        (x,) = b.barrier(x)
    if count != 1 or c.ctx.closing:
        made = _by_windows(c, x, y)
        if made is not None:
            return made
    x, y = math.convert(b, x, dtype), math.convert(b, y, dtype)
    if count == 1 or (count <= FEW and count < window):
        return _by_position(c, x, y)
    return _channels_last(c, x, y)


def _by_windows(c: Conv, x: Value, y: Value) -> Value | None:
    """By the C kernel, of a padded operand."""
    return convolve(c.ctx, x, y, c.numbers, c.strides, c.dilation, c.shape, c.dtype) if (
        _is_product(c, x.dtype, y)) else None


def with_epilogue(ctx: Context, e: Equation, how: Epilogue, xs: Sequence[Value],
                  out: ShapedArray) -> Value | None:
    """A convolution, whose operand is padded, with what is done to its result (passes/epilogues);
    None where it is not the C kernel's."""
    p, (shift, more) = e.params, (None if k < 0 else xs[k] for k in (how.shift, how.more))
    return convolve(ctx, xs[how.x], xs[how.y], p["dimension_numbers"], p["window_strides"],
                    p["rhs_dilation"], out.shape, out.dtype, Sums(shift, more, how.rectified))


def _takes_halves(c: Conv, dtype: Dtype) -> bool:
    return dtype in HALVES and products.takes(c.ctx.target)


def _on_cuda(c: Conv, x: Value, y: Value) -> Value | None:
    """By a kernel of ours; None where IREE's form stays."""
    b, dn = c.b, c.numbers
    out = c.dtype if c.dtype == F32 or c.dtype == x.dtype else F32
    made = convolutions.convolve(c.ctx, x, y, dn, c.params, c.shape, out,
                                 products.precision_of(c.params.get("precision")))
    if made is None:
        return None
    if made.ndim > x.ndim:
        (made,) = emit_reduce(b, [made], [0], [0], fold("add"))
    return _laid_out(b, made, dn.out_spec)


def _is_product(c: Conv, dtype: Dtype, y: Value) -> bool:
    """Whether the C kernel multiplies what the windows see: IREE's own form is behind it where
    vectors have no mask registers, and everywhere along one axis, along three, for few or many
    input features and for uneven widths (benchmarks/suite.py --only convolution, at each level)."""
    dn, shape, target = c.numbers, c.shape, c.ctx.target
    taps, (o, i) = [y.shape[t] for t in dn.rhs_spec[2:]], dn.rhs_spec[:2]
    known = is_static(shape)
    if c.count > 1 or not is_static(y.shape) or not gemm.takes(target, dtype.name):
        return False
    window, along, last = prod(taps), sum(t > 1 for t in taps), len(shape) - 1
    closes = c.ctx.closing and known and prod(shape) * window * y.shape[i] <= max(
        CLOSING, c.ctx.slack // (SHARE if window * y.shape[i] < DEEP else SHARE_OF_DEEP))
    if (o, dn.out_spec[1]) == (last, last) and (  # rows as they lie: a product of matrices
            window == 1 and (not closes or set(c.strides) == {1})
            or window > 1 and known and prod(shape[:-1]) <= gemm.FEW and not closes):
        return False
    if window * y.shape[i] < LEAST_DEPTH:
        return closes and window > 1
    if dn.out_spec[1] < last and known:  # (IREE's form has it last)
        return True
    return (level_of(target) != "x86-64-v4" or along != 2 or not known or closes
            or (y.shape[i] <= NARROW_INPUT and window <= FEW)
            or y.shape[i] >= WIDE_INPUT and prod(shape) // y.shape[o] >= MANY_PLACES
            or _is_uneven(shape[dn.out_spec[-1]]))


def _is_uneven(width: int) -> bool:
    """Whether IREE finds no tile along the result's last axis: it takes a divisor, and needs four
    results side by side (widths of 11, 13, 17, 19, 31 took four times as long as 12 or 14, those
    of 22 and 26 two and a half; with 9 and 27 it was half of that)."""
    return not any(width % tile == 0 for tile in range(4, 9))


# ---- places that are known at the call only
def _at_any_place(c: Conv, x: Value, y: Value) -> Value:
    """A padded operand without holes under a kernel of known size."""
    b, dn, shape = c.b, c.numbers, c.shape
    reaches = [1] * x.ndim
    for axis, tap, d in zip(dn.lhs_spec[2:], dn.rhs_spec[2:], c.dilation):
        reaches[axis] = (y.shape[tap] - 1) * d + 1
    x = with_windows(b, x, 0, reaches)
    made = list(c.shape)
    for axis, place, s in zip(dn.lhs_spec[2:], dn.out_spec[2:], c.strides):
        made[place] = floordiv(x.shape[axis] - reaches[axis], s) + 1
    x, y = b.barrier(x, y)
    c = replace(c, shape=tuple(made))
    out = convolve(c.ctx, x, y, dn, c.strides, c.dilation, c.shape, c.dtype) if (
        _is_product(c, x.dtype, y)) else None
    if out is None:
        out = _channels_last(c, math.convert(b, x, c.dtype), math.convert(b, y, c.dtype))
    return b.cropped(out, shape)


def _by_columns(c: Conv, x: Value, y: Value) -> Value:
    """Few results of a window of any size (the gradient of a kernel): one product, over all that
    the window holds, of what each of its elements sees."""
    b, dn, places = c.b, c.numbers, c.places
    (n, f, *space), (o, i, *taps) = dn.lhs_spec, dn.rhs_spec
    moved, kernel = b.transpose(x, (f, *space, n)), b.transpose(y, (i, *taps, o))
    window = kernel.shape[:-1]
    (every,) = b.barrier(_columns(b, moved, places, kernel.shape, c.dilation, c.strides))
    rows, width = prod(window), prod(places) * x.shape[n]
    out = real_dot(c.ctx, b.reshape(every, (rows, width)), b.reshape(kernel, (rows, y.shape[o])),
                   (((0,), (0,)), ((), ())), c.dtype)
    rank = len(places)
    whole = b.reshape(out, (*places, x.shape[n], y.shape[o]))
    return _laid_out(b, b.transpose(whole, (rank, *range(rank), rank + 1)), dn.out_spec)


# ---- operands with holes
def _has_phases(p: Params) -> bool:
    """Whether an axis has holes and every one that has is stepped through one by one."""
    holes = [(s, d) for h, s, d in zip(p["lhs_dilation"], p["window_strides"],
                                       p["rhs_dilation"]) if h > 1]
    return bool(holes) and all(v == (1, 1) for v in holes) and prod(
        p["lhs_dilation"]) <= FEW


def _by_phase(c: Conv, x: Value, y: Value) -> Value:
    """Results q * h + r see the taps t = t0 + h u that meet no hole: a convolution for each r."""
    b, p, dn, shape = c.b, c.params, c.numbers, c.shape
    holes, taps = p["lhs_dilation"], dn.rhs_spec[2:]
    rank = len(holes)
    counts = [-(-n // h) for n, h in zip(c.places, holes)]
    part_shape = list(shape)
    for axis, m in zip(dn.out_spec[2:], counts):
        part_shape[axis] = m
    parts = []
    for phase in itertools.product(*map(range, holes)):
        start, limit, step = [0] * y.ndim, list(y.shape), [1] * y.ndim
        padding: list[tuple[int, int]] = []
        for axis, tap, r, h, m, (low, high) in zip(dn.lhs_spec[2:], taps, phase, holes, counts,
                                                   p["padding"]):
            if h == 1:
                padding.append((low, high))
                continue
            first = (low - r) % h
            start[tap], step[tap] = min(first, y.shape[tap]), h
            size, before = -(-(y.shape[tap] - start[tap]) // h), (low - r - first) // h
            padding.append((before, m + size - 1 - x.shape[axis] - before))
        kernel = b.slice(y, start, limit, step)
        if 0 in kernel.shape:
            parts.append(b.splat(0, tuple(part_shape), c.dtype))
            continue
        (kernel,) = b.barrier(kernel)  # fused, the convolution has no fast code
        plain = {**p, "padding": padding, "lhs_dilation": (1,) * rank}
        parts.append(emit_conv(replace(c, params=plain, shape=tuple(part_shape)), x, kernel))
    # interleaved: the phase of an axis is the minor part of its index
    whole = b.concatenate([b.reshape(v, (1, *part_shape)) for v in parts], 0)
    whole = b.reshape(whole, (*holes, *part_shape))
    order, sizes = [], []
    for axis in range(len(shape)):
        order.append(rank + axis)
        sizes.append(part_shape[axis])
        if axis in dn.out_spec[2:]:
            place = dn.out_spec[2:].index(axis)
            order.append(place)
            sizes[-1] *= holes[place]
    whole = b.reshape(b.transpose(whole, order), tuple(sizes))
    return b.cropped(whole, shape)


# ---- few results: a product for each
def _by_position(c: Conv, x: Value, y: Value) -> Value:
    b, dn, shape, count, result = c.b, c.numbers, c.shape, c.count, c.places
    (n, f, *space), (o, i, *taps) = dn.lhs_spec, dn.rhs_spec
    kernel = [y.shape[t] for t in taps]
    grouped, split_y = f if c.groups > 1 else n, _grouped(b, y, o, count)

    pieces = []
    for at in itertools.product(*map(range, result)):
        start, limit, step = [0] * x.ndim, list(x.shape), [1] * x.ndim
        for a, place, s, k, d in zip(space, at, c.strides, kernel, c.dilation):
            start[a], step[a] = place * s, d
            limit[a] = place * s + (k - 1) * d + 1
        pieces.append(_grouped(b, b.slice(x, start, limit, step), grouped, count))

    def inner(axis: int, by: int) -> int:  # behind the axis of groups
        return axis + (axis >= by) if count > 1 else axis

    left = [inner(f, grouped), *[inner(a, grouped) for a in space]]
    right = [inner(i, o), *[inner(t, o) for t in taps]]
    dims = ((left, right), ([grouped], [o]) if count > 1 else ([], []))
    free_x, free_y = pieces[0].shape[inner(n, grouped)], split_y.shape[inner(o, o)]
    if count == 1 and len(pieces) > 1 and free_x <= NARROW_BATCH:  # one product of all
        (every,) = b.barrier(b.concatenate(pieces, n))
        product = real_dot(c.ctx, every, split_y, dims, c.dtype)
        whole = b.reshape(product, (*result, free_x, free_y))
        rank = len(result)
        whole = b.transpose(whole, (rank, *range(rank), rank + 1))
        return _laid_out(b, whole, dn.out_spec)
    parts = [real_dot(c.ctx, piece, split_y, dims, c.dtype) for piece in pieces]
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
def _channels_last(c: Conv, x: Value, y: Value) -> Value:
    b, dn, groups = c.b, c.numbers, c.count
    (n, f, *space), (o, i, *taps) = dn.lhs_spec, dn.rhs_spec
    last_x, last_y = _in_order(b, x, (n, *space, f)), _in_order(b, y, (*taps, i, o))
    if groups > c.groups:  # groups of the batch become groups of features
        size, *rest, features = last_x.shape
        apart = b.reshape(last_x, (groups, size // groups, *rest, features))
        rank = apart.ndim
        apart = b.transpose(apart, (*range(1, rank - 1), 0, rank - 1))
        last_x = b.reshape(apart, (size // groups, *rest, groups * features))
    # IREE folds a transposed operand into the convolution, and then has no fast code for it
    last_x, last_y = (v if v is given or _is_reshaped(v, given) else b.barrier(v)[0]
                      for v, given in ((last_x, x), (last_y, y)))
    rank = len(space)
    last = (0, rank + 1, *range(1, rank + 1))
    params = {"dimension_numbers": Numbers(last, (rank + 1, rank, *range(rank)), last),
              "padding": [(0, 0)] * rank, "lhs_dilation": [1] * rank, "window_strides": c.strides,
              "rhs_dilation": c.dilation, "feature_group_count": groups, "batch_group_count": 1,
              "precision": c.params.get("precision")}
    batch, features, *places = (c.shape[a] for a in dn.out_spec)
    out = _grouped_convolution(replace(c, params=params, shape=(batch, *places, features)),
                               last_x, last_y)
    if any(a != e for a, e in zip(dn.out_spec, last)):
        (out,) = b.barrier(out)
    return _laid_out(b, out, dn.out_spec)


def _in_order(b: Builder, x: Value, order: Sequence[int]) -> Value:
    """Axes in another order; where only such of one element change places, in another shape."""
    long = [i for i in order if x.shape[i] != 1]
    return b.reshape(x, tuple(x.shape[i] for i in order)) if (
        long == sorted(long)) else b.transpose(x, order)


def _is_reshaped(x: Value, given: Value) -> bool:
    op = x.ir.owner
    return mlir.made_by(op) == "stablehlo.reshape" and op.operands[0] == given.ir


def _grouped_convolution(c: Conv, x: Value, y: Value) -> Value:
    """Channels last, in the form that is fastest for its groups and features."""
    features = y.shape[-2]
    if not is_static(c.shape[1:-1]):
        return _of_columns(c, x, y)
    if 1 < c.groups <= SPLIT_GROUPS and features > 1:
        return _by_group(c, x, y)
    if c.groups == 1 and (_is_few(c, y) or (
            features <= NARROW_INPUT and prod(y.shape[:-2]) <= FEW)):
        return _gathered(c, x, y)
    long = [k for k in y.shape[:-2] if k > 1]
    if c.groups == 1 and len(long) <= 1 and sum(long) <= FEW:  # no fast code for one axis
        return _by_tap(c, x, y)
    return _convolution(c, x, y)


def _by_group(c: Conv, x: Value, y: Value) -> Value:
    """A convolution for each group."""
    b, rank, features, size = c.b, len(c.strides), y.shape[-2], c.shape[-1] // c.groups
    one = replace(c, params={**c.params, "feature_group_count": 1}, shape=(*c.shape[:-1], size))
    parts = []
    for g in range(c.groups):
        part = [b.slice_in_dim(v, g * k, (g + 1) * k, rank + 1)
                for v, k in ((x, features), (y, size))]
        parts.append((emit_conv if size >= WIDE_GROUP else _convolution)(one, *b.barrier(*part)))
    return b.concatenate(parts, rank + 1)


def _is_few(c: Conv, y: Value) -> bool:
    """Whether so few places see windows that the C kernel reads the convolution's as it lies."""
    along = sum(k > 1 for k in y.shape[:-2])
    return (is_static(c.shape) and gemm.takes(c.ctx.target, c.dtype.name)
            and prod(c.shape[:-1]) <= gemm.FEW and prod(y.shape[:-1]) >= gemm.LEAST_SIZES[2]
            and (along <= 1 or level_of(c.ctx.target) != "x86-64-v4"))


def _by_tap(c: Conv, x: Value, y: Value) -> Value:
    """The sum of a product for each tap."""
    b, total, taps = c.b, None, y.shape[:-2]
    for tap in itertools.product(*map(range, taps)):
        seen = _under(c, x, tap)
        kernel = y if prod(taps) == 1 else b.slice(
            y, [*tap, 0, 0], [*[t + 1 for t in tap], *y.shape[-2:]])
        part = matmul(c.ctx, seen, b.reshape(kernel, y.shape[-2:]), c.dtype)
        total = part if total is None else total + part
    assert total is not None
    return total


def _columns(b: Builder, x: Value, taps: Sequence[int], shape: Sequence[Any],
             strides: Sequence[int], dilation: Sequence[int]) -> Value:
    """What of x (batch, spatial..., features) each place sees: (batch, places..., taps...,
    features), by one generic."""
    rank = len(taps)
    whole = (shape[0], *shape[1:-1], *taps, x.shape[-1])
    reach = [(m - 1) * s + (k - 1) * d + 1
             for m, s, k, d in zip(shape[1:-1], strides, taps, dilation)]
    x = b.cropped(x, (x.shape[0], *reach, x.shape[-1]))
    every = [f"d{i}" for i in range(len(whole))]
    seen = [f"d{1 + i} * {s} + d{1 + rank + i} * {d}"
            for i, (s, d) in enumerate(zip(strides, dilation))]
    (made,) = mlir.generic(every, 0, [[every[0], *seen, every[-1]], every], [x.ir],
                           [b.empty(whole, x.dtype)], lambda element, _: [element])
    return Value(b, made, whole, x.dtype)


def _of_columns(c: Conv, x: Value, y: Value) -> Value:
    """One product of what each place sees with the kernel; of single features their sums."""
    b, shape, groups = c.b, c.shape, c.groups
    taps, (inputs, outputs) = y.shape[:-2], y.shape[-2:]
    rows, window = prod(shape[:-1]), prod(taps)
    alone = window == 1 and set(c.strides) == {1}
    (every,) = b.barrier(x if alone else _columns(b, x, taps, shape, c.strides, c.dilation))
    if groups == 1:
        flat = b.reshape(every, (rows, window * inputs))
        kernel = b.reshape(y, (window * inputs, outputs))
        return b.reshape(matmul(c.ctx, flat, kernel, c.dtype), shape)
    own = outputs // groups
    if inputs == 1:
        whole = (rows, window, groups, own)
        flat = b.broadcast(b.reshape(every, whole[:3]), whole, (0, 1, 2))
        kernel = b.broadcast(b.reshape(y, whole[1:]), whole, (1, 2, 3))
        return b.reshape(emit_reduce(b, [flat * kernel], [0], [1], fold("add"))[0], shape)
    flat = b.reshape(every, (rows, window, groups, inputs))
    kernel = b.reshape(y, (window, inputs, groups, own))
    out = real_dot(c.ctx, flat, kernel, (((1, 3), (0, 1)), ((2,), (2,))), c.dtype)
    return b.reshape(b.transpose(out, (1, 0, 2)), shape)


def _under(c: Conv, x: Value, tap: Sequence[int]) -> Value:
    """What of x (batch, spatial..., features) a tap sees."""
    start = [0, *[t * d for t, d in zip(tap, c.dilation)], 0]
    limit = [x.shape[0], *[f + (m - 1) * s + 1 for f, m, s in zip(
        start[1:-1], c.shape[1:-1], c.strides)], x.shape[-1]]
    steps = [1, *c.strides, 1]
    whole = not any(start) and limit == list(x.shape) and set(steps) == {1}
    return x if whole else c.b.slice(x, start, limit, steps)


def _gathered(c: Conv, x: Value, y: Value) -> Value:
    """The elements under all taps side by side, then one product."""
    b, taps = c.b, y.shape[:-2]
    pieces = [_under(c, x, tap) for tap in itertools.product(*map(range, taps))]
    every = pieces[0]
    if len(pieces) > 1 or every is not x:
        (every,) = b.barrier(b.concatenate(pieces, len(taps) + 1))
    rows = prod(c.shape[:-1])
    flat = b.reshape(every, (rows, every.shape[-1]))
    kernel = b.reshape(y, (every.shape[-1], y.shape[-1]))
    return b.reshape(matmul(c.ctx, flat, kernel, c.dtype), c.shape)


def _convolution(c: Conv, x: Value, y: Value) -> Value:
    """stablehlo.convolution of (batch, spatial..., feature) with (spatial..., input, output)."""
    x, y = (kept_unsigned(v) for v in guarded_one(x, y))
    rank = len(c.strides)
    space = ", ".join(map(str, range(rank)))
    return c.b.materialize(c.b.emit("convolution", [x, y], c.shape, c.dtype, {
        "window_strides": _array(c.strides), "rhs_dilation": _array(c.dilation),
        "lhs_dilation": _array([1] * rank),
        "padding": f"dense<0> : tensor<{rank}x2xi64>",
        "window_reversal": f"array<i1: {', '.join(['false'] * rank)}>",
        "dimension_numbers": f"#stablehlo.conv<[b, {space}, f]x[{space}, i, o]->[b, {space}, f]>",
        "feature_group_count": f"{c.groups} : i64",
        "batch_group_count": "1 : i64",
        "precision_config": "[#stablehlo<precision DEFAULT>, #stablehlo<precision DEFAULT>]"}))[0]


def _array(values: Sequence[int]) -> str:
    return f"array<i64: {', '.join(str(int(v)) for v in values)}>"
