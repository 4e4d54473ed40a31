"""conv_general_dilated: convolution (correlation) over any number of spatial axes in any layout.

The layout is a ConvDimensionNumbers: the axes of lhs and of the result (batch, feature, spatial...)
and of rhs (output feature, input feature, spatial...).  With feature groups, group g of the output
features sees group g of the input features; with batch groups, it sees group g of the batch.  Both
transposes are convolutions again.  Start reading at `_transpose`.
"""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from calque.core.avals import ShapedArray, dtype_of, shape_of
from calque.core.errors import explain
from calque.core.lists import without
from calque.core.primitive import Primitive, is_linear
from calque.core.types import Params
from calque.core.zeros import zeros
from calque.primitives import elementwise as ew
from calque.primitives import shape as sh
from calque.primitives.window import dilated, window_count
from calque.transforms.jvp import bilinear_jvp
from calque.transforms.vmap import move_axis

Sizes = tuple[int, ...]


class ConvDimensionNumbers(NamedTuple):
    """Which axis is what: (batch, feature, spatial...), rhs (output, input feature, spatial...).

    Example:
      >>> from calque import lax
      >>> lax.ConvDimensionNumbers((0, 2, 1), (2, 1, 0), (0, 2, 1)).lhs_spec
      (0, 2, 1)
    """

    lhs_spec: Sizes
    rhs_spec: Sizes
    out_spec: Sizes


conv_general_dilated_p = Primitive("conv_general_dilated")


def conv(lhs: Any, rhs: Any, *, window_strides: Sizes, padding: Any, lhs_dilation: Sizes,
         rhs_dilation: Sizes, dimension_numbers: ConvDimensionNumbers, feature_group_count: int = 1,
         batch_group_count: int = 1, precision: Any = None, preferred: Any = None) -> Any:
    return conv_general_dilated_p.bind(
        lhs, rhs, window_strides=tuple(window_strides), padding=tuple(map(tuple, padding)),
        lhs_dilation=tuple(lhs_dilation), rhs_dilation=tuple(rhs_dilation),
        dimension_numbers=dimension_numbers, feature_group_count=feature_group_count,
        batch_group_count=batch_group_count, precision=precision,
        preferred_element_type=preferred, out_sharding=None)


def _fail(what: str, fix: str = "") -> Exception:
    return ValueError(explain(f"conv_general_dilated {what}", fix=fix))


def picked(shape: Sequence[int], spec: Sequence[int]) -> Sizes:
    return tuple(shape[i] for i in spec)


def spatial_result(lhs: Sizes, rhs: Sizes, strides: Sizes, padding: Any, lhs_dilation: Sizes,
                   rhs_dilation: Sizes) -> Sizes:
    """Sizes of the result's spatial axes."""
    out = []
    for n, k, s, (low, high), ld, rd in zip(lhs, rhs, strides, padding, lhs_dilation,
                                            rhs_dilation):
        out.append(window_count(dilated(n, ld) + low + high, dilated(k, rd), s))
    return tuple(out)


def _check(x: ShapedArray, y: ShapedArray, p: Params) -> None:
    dn, strides, padding = p["dimension_numbers"], p["window_strides"], p["padding"]
    groups, batches = p["feature_group_count"], p["batch_group_count"]
    if x.ndim != y.ndim:
        raise ValueError(explain(
            "conv_general_dilated lhs and rhs must have the same number of dimensions, but got "
            f"{x.shape} and {y.shape}.", fix="add axes of size 1."))
    for what, values in (("window_strides", strides), ("padding", padding),
                         ("lhs_dilation", p["lhs_dilation"]),
                         ("rhs_dilation", p["rhs_dilation"])):
        if len(values) != x.ndim - 2:
            raise _fail(f"window and {what} must have the same number of dimensions, but got "
                        f"{x.ndim - 2} and {len(values)}.")
        if what != "padding" and any(v < 1 for v in values):
            raise _fail(f"{what} must have every element be strictly positive, got {values}.")
    for what, count in (("feature_group_count", groups), ("batch_group_count", batches)):
        if count < 1:
            raise _fail(f"{what} must be a positive integer, got {count}.")
    batch, features = picked(x.shape, dn.lhs_spec)[:2]
    outputs, inputs = picked(y.shape, dn.rhs_spec)[:2]
    if groups > 1 and batches > 1:
        raise _fail("At most one of batch_group_count and feature_group_count may be > 1, got "
                    f"batch_group_count={batches} and feature_group_count={groups}.")
    if features % groups:
        raise _fail(f"feature_group_count must divide lhs feature dimension size, but {groups} "
                    f"does not divide {features}.")
    if features // groups != inputs:
        raise _fail("lhs feature dimension size divided by feature_group_count must equal the rhs "
                    f"input feature dimension size, but {features} // {groups} != {inputs}.",
                    "check dimension_numbers, or the shape of the kernel.")
    if outputs % groups:
        raise _fail("rhs output feature dimension size must be a multiple of feature_group_count, "
                    f"but {outputs} is not a multiple of {groups}.")
    if batch % batches:
        raise _fail("batch_group_count must divide lhs batch dimension size, but "
                    f"{batches} does not divide {batch}.")
    if outputs % batches:
        raise _fail("rhs output feature dimension size must be a multiple of batch_group_count, "
                    f"but {outputs} is not a multiple of {batches}.")
    sizes = picked(x.shape, dn.lhs_spec)[2:]
    kernel = picked(y.shape, dn.rhs_spec)[2:]
    if any(k == 0 for k in kernel):
        raise _fail(f"expects window to have positive sizes, but got a kernel of shape {y.shape}.")
    for (low, high), n, d in zip(padding, sizes, p["lhs_dilation"]):
        if dilated(n, d) + low + high < 0:
            raise ValueError(explain(
                "Negative padding is larger than the size of the corresponding dimension: got "
                f"padding={padding} for lhs_shape[2:]={sizes}"))


def _abstract(x: ShapedArray, y: ShapedArray, **p: Any) -> ShapedArray:
    preferred = p["preferred_element_type"]
    if x.dtype != y.dtype:
        names = f"{x.dtype.name}, {y.dtype.name}"
        raise TypeError(explain(
            f"lax.conv_general_dilated requires arguments to have the same dtypes, got {names}.",
            fix="cast one of them with .astype(...)."))
    ew.check_dtypes("conv_general_dilated", ew.ANY, [x, y])
    _check(x, y, p)
    dtype = x.dtype if preferred is None else np.dtype(preferred)
    dn = p["dimension_numbers"]
    shape = [0] * x.ndim
    inner = spatial_result(picked(x.shape, dn.lhs_spec)[2:], picked(y.shape, dn.rhs_spec)[2:],
                           p["window_strides"], p["padding"], p["lhs_dilation"],
                           p["rhs_dilation"])
    sizes = (x.shape[dn.lhs_spec[0]] // p["batch_group_count"], y.shape[dn.rhs_spec[0]], *inner)
    for i, n in zip(dn.out_spec, sizes):
        shape[i] = n
    weak = x.weak_type and y.weak_type and preferred is None
    return ShapedArray(tuple(shape), dtype, weak)


# ---- transposes
def _merge(x: Any, source: int, axis: int) -> Any:
    """Axis `source` put in front of `axis` (counted without it) and merged with it."""
    return sh.merge_axes(move_axis(x, source, axis), axis)


def _transpose(ct: Any, x: Any, y: Any, **p: Any) -> list[Any]:
    if is_linear(x):
        return [_pull_lhs(ct, x.aval, y, p), None]
    return [None, _pull_rhs(ct, x, y.aval, p)]


def _like(ct: Any, aval: ShapedArray, other: Any) -> tuple[Any, Any]:
    """ct in the operands' dtype, and the preferred dtype that gives aval's."""
    kind = dtype_of(other)
    return ew.convert(ct, kind), aval.dtype if aval.dtype != kind else None


def _pull_lhs(ct: Any, x: ShapedArray, y: Any, p: Params) -> Any:
    """ct convolved with the mirrored kernel, input and output features exchanged."""
    dn, groups, batches = p["dimension_numbers"], p["feature_group_count"], p["batch_group_count"]
    ct, preferred = _like(ct, x, y)
    kernel = y
    o, i, *space = dn.rhs_spec
    if space:
        kernel = sh.rev(kernel, tuple(space))
    count = max(groups, batches)
    if count > 1:  # the group of an output feature becomes that of the input feature
        split = sh.split_axis(kernel, o, count)
        kernel = _merge(split, o, i)
    sizes, k = picked(x.shape, dn.lhs_spec)[2:], picked(shape_of(y), dn.rhs_spec)[2:]
    outs = picked(shape_of(ct), dn.out_spec)[2:]
    padding = []
    for n, m, out, s, (low, _), ld, rd in zip(
            sizes, k, outs, p["window_strides"], p["padding"], p["lhs_dilation"],
            p["rhs_dilation"]):
        reach = dilated(m, rd)
        before = reach - low - 1
        padding.append((before, dilated(n, ld) + reach - 1 - dilated(out, s) - before))
    out = conv(ct, kernel, window_strides=p["lhs_dilation"], padding=padding,
               lhs_dilation=p["window_strides"], rhs_dilation=p["rhs_dilation"],
               dimension_numbers=ConvDimensionNumbers(dn.out_spec, (i, o, *space), dn.lhs_spec),
               feature_group_count=count, precision=p["precision"], preferred=preferred)
    if batches > 1:
        n, f, *_ = dn.lhs_spec
        out = _merge(sh.split_axis(out, f, batches), f, n)
    return out


def _pull_rhs(ct: Any, x: Any, y: ShapedArray, p: Params) -> Any:
    """lhs convolved with ct, batch and features exchanged, strides and dilation exchanged."""
    dn, groups, batches = p["dimension_numbers"], p["feature_group_count"], p["batch_group_count"]
    ct, preferred = _like(ct, y, x)

    def swapped(spec: Sizes) -> Sizes:
        return (spec[1], spec[0], *spec[2:])

    sizes, k = picked(shape_of(x), dn.lhs_spec)[2:], picked(y.shape, dn.rhs_spec)[2:]
    outs = picked(shape_of(ct), dn.out_spec)[2:]
    padding = []
    for n, m, out, s, (low, _), ld, rd in zip(
            sizes, k, outs, p["window_strides"], p["padding"], p["lhs_dilation"],
            p["rhs_dilation"]):
        padding.append((low, dilated(m, rd) - 1 + dilated(out, s) - dilated(n, ld) - low))
    if 0 in outs or 0 in sizes:
        return zeros(ShapedArray(y.shape, y.dtype))
    return conv(x, ct, window_strides=p["rhs_dilation"], padding=padding,
                lhs_dilation=p["lhs_dilation"], rhs_dilation=p["window_strides"],
                dimension_numbers=ConvDimensionNumbers(
                    swapped(dn.lhs_spec), swapped(dn.out_spec), swapped(dn.rhs_spec)),
                feature_group_count=batches, batch_group_count=groups,
                precision=p["precision"], preferred=preferred)


# ---- batching: the mapped axis becomes a part of batch, output features, or groups
def _batch(size: int, args: Sequence[Any], dims: Sequence[int | None], **p: Any) -> Any:
    (x, y), (dx, dy) = args, dims
    dn, groups, batches = p["dimension_numbers"], p["feature_group_count"], p["batch_group_count"]
    bind = conv_general_dilated_p.bind
    (n, c, *_), (o, _i, *_), (on, oc, *_) = dn
    if size == 0:
        shapes = [shape_of(v) if d is None else without(shape_of(v), [d])
                  for v, d in zip(args, dims)]
        out = _abstract(*[ShapedArray(s, dtype_of(v)) for s, v in zip(shapes, args)], **p)
        return ew.match_shape(np.zeros((), out.dtype), (0, *out.shape)), 0
    if dx is not None and dy is not None:
        kernel = _merge(y, dy, o)
        if batches > 1:
            out = bind(_merge(x, dx, n), kernel, **{**p, "batch_group_count": batches * size})
        else:
            out = bind(_merge(x, dx, c), kernel, **{**p, "feature_group_count": groups * size})
        return sh.split_axis(out, oc, size), oc
    if dx is not None:
        if batches > 1:  # (groups, size, rest): the groups stay the major part
            split = sh.split_axis(move_axis(x, dx, 0), n + 1, batches)  # size, ..., groups, rest
            x = _merge(_merge(split, 0, n + 1), n, n)
        else:
            x = _merge(x, dx, n)
        return sh.split_axis(bind(x, y, **p), on, size), on
    assert dy is not None
    count = max(groups, batches)
    split = sh.split_axis(move_axis(y, dy, 0), o + 1, count)
    out = bind(x, _merge(_merge(split, 0, o + 1), o, o), **p)
    # output features: (groups, size, rest)
    s = shape_of(out)
    apart = sh.reshape(out, (*s[:oc], count, size, s[oc] // (count * size), *s[oc + 1:]))
    return _merge(apart, oc, oc + 1), oc


conv_general_dilated_p.abstract = _abstract
conv_general_dilated_p.jvp = bilinear_jvp(conv_general_dilated_p)
conv_general_dilated_p.transpose, conv_general_dilated_p.batch = _transpose, _batch

__all__ = ["ConvDimensionNumbers", "conv", "conv_general_dilated_p"]
