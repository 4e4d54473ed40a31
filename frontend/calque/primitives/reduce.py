"""Reductions over axes: sums, products, extrema, logical ones, and the index of an extremum.

Start reading at `_reduction`.
"""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from calque.core import dtypes
from calque.core.avals import ShapedArray, aval_of, ndim_of, shape_of
from calque.core.dims import check_positions, is_static
from calque.core.errors import explain
from calque.core.lists import replaced, without
from calque.core.primitive import Primitive, registry
from calque.core.types import Axes, Shape
from calque.core.zeros import is_zero, zero_like
from calque.primitives import elementwise as ew
from calque.primitives import shape as sh
from calque.transforms.jvp import jvp_flat, linear_jvp


def _reduction(name: str, accepts: str, *, differentiable: bool = True,
               keeps_weak: bool = True, kernel: str = "fold") -> Primitive:
    p = Primitive(name, differentiable=differentiable, kernel=kernel)

    def abstract(x: ShapedArray, *, axes: Axes, out_sharding: Any = None) -> ShapedArray:
        ew.check_dtypes(name, accepts, [x])
        if len(set(axes)) != len(axes):
            raise ValueError(f"{name}: duplicate value in 'axes' of reduction: {axes}")
        if any(not 0 <= a < x.ndim for a in axes):
            raise ValueError(explain(
                f"{name}: reduction axes {axes} contains out-of-bounds indices for {x}.",
                fix=f"use axes from 0 to {x.ndim - 1}."))
        shape = without(x.shape, axes)
        return ShapedArray(shape, x.dtype, x.weak_type and keeps_weak)

    def batch(size: int, args: Sequence[Any], dims: Sequence[int], *, axes: Axes,
              out_sharding: Any = None) -> Any:
        d = dims[0]
        moved = tuple(a + (a >= d) for a in axes)
        out = p.bind(args[0], axes=moved, out_sharding=out_sharding)
        return out, d - sum(a < d for a in moved)

    p.abstract, p.batch = abstract, batch
    return p


# ---- sum
reduce_sum_p = _reduction("reduce_sum", ew.NUMBER)


def reduce_sum(x: Any, axes: Sequence[int]) -> Any:
    return reduce_sum_p.bind(x, axes=tuple(axes), out_sharding=None) if axes else x


def _expand(x: Any, shape: Shape, axes: Axes) -> Any:
    """A reduced value spread back over the reduced axes."""
    dims = tuple(i for i in range(len(shape)) if i not in axes)
    return sh.broadcast_in_dim(x, shape, dims)


reduce_sum_p.jvp = linear_jvp(reduce_sum_p)
reduce_sum_p.transpose = lambda ct, x, *, axes, out_sharding=None: [_expand(ct, x.shape, axes)]

# ---- product: differentiated as a tree of multiplications
reduce_prod_p = _reduction("reduce_prod", ew.NUMBER)


def _prod_tree(x: Any, axes: Axes) -> Any:
    for axis in sorted(axes, reverse=True):
        while (n := shape_of(x)[axis]) > 1:
            half = (n + 1) // 2
            top = sh.slice_in_dim(x, 0, half, axis)
            rest = sh.slice_in_dim(x, half, n, axis)
            if n % 2:
                padding = [(0, int(i == axis), 0) for i in range(ndim_of(x))]
                rest = sh.pad(rest, ew.const(x, 1), padding)
            x = ew.mul(top, rest)
        if shape_of(x)[axis] == 0:
            shape = without(shape_of(x), [axis])
            x = ew.match_shape(ew.const(x, 1), shape)
        else:
            x = sh.squeeze(x, (axis,))
    return x


def _prod_jvp(primals: Sequence[Any], tangents: Sequence[Any], *, axes: Axes,
              out_sharding: Any = None) -> Any:
    shape = shape_of(primals[0])
    if is_static([shape[i] for i in axes]):
        outs, ts = jvp_flat(lambda x: [_prod_tree(x, axes)], primals, tangents)
        return outs[0], ts[0]
    (x,), (t,) = primals, tangents
    for axis in sorted(axes, reverse=True):
        t = reduce_sum(ew.mul(t, _product_of_others(x, axis)), (axis,))
        x = reduce_prod_p.bind(x, axes=(axis,), out_sharding=None)
    return x, t


def _product_of_others(x: Any, axis: int) -> Any:
    """At each element of an axis, the product of all others: of those before and those behind."""
    shape, running = shape_of(x), registry["cumprod"]
    one = ew.match_shape(ew.const(x, 1), replaced(shape, axis, 1))
    before = running.bind(sh.concatenate([one, x], axis), axis=axis, reverse=False)
    behind = running.bind(sh.concatenate([x, one], axis), axis=axis, reverse=True)
    n = shape[axis]
    return ew.mul(sh.slice_in_dim(before, 0, n, axis), sh.slice_in_dim(behind, 1, n + 1, axis))


reduce_prod_p.jvp = _prod_jvp

# ---- max, min: the tangent of the chosen element, the mean over ties
reduce_max_p = _reduction("reduce_max", ew.ANY)
reduce_min_p = _reduction("reduce_min", ew.ANY)


def _chooser_jvp(p: Primitive) -> Any:
    def jvp(primals: Sequence[Any], tangents: Sequence[Any], *, axes: Axes,
            out_sharding: Any = None) -> Any:
        (x,), (t,) = primals, tangents
        out = p.bind(x, axes=axes, out_sharding=None)
        if is_zero(t):
            return out, zero_like(out)
        aval = aval_of(x)
        chosen = ew.convert(ew.eq(x, _expand(out, aval.shape, axes)), aval.dtype)
        count = reduce_sum(chosen, axes)
        return out, ew.div(reduce_sum(ew.mul(t, chosen), axes), count)
    return jvp


reduce_max_p.jvp, reduce_min_p.jvp = _chooser_jvp(reduce_max_p), _chooser_jvp(reduce_min_p)

# ---- logical
reduce_and_p = _reduction("reduce_and", ew.BITS, differentiable=False, keeps_weak=False)
reduce_or_p = _reduction("reduce_or", ew.BITS, differentiable=False, keeps_weak=False)
reduce_xor_p = _reduction("reduce_xor", ew.BITS, differentiable=False, keeps_weak=False,
                          kernel="")


# ---- argmax, argmin: NaN counts as the extremum, the first of equals wins
def _arg_reduction(name: str) -> Primitive:
    p = Primitive(name, differentiable=False, memory="fresh")

    def abstract(x: ShapedArray, *, axes: Axes, index_dtype: Any) -> ShapedArray:
        (axis,) = axes
        if not 0 <= axis < x.ndim:
            raise ValueError(f"Invalid axis {axis} for operand shape {x.shape} in {name}")
        if x.shape[axis] < 1:
            raise ValueError(explain(
                f"attempt to get {name} of an empty sequence (axis {axis} of {x.short()}).",
                fix="check the size first."))
        if not dtypes.is_integer(np.dtype(index_dtype)):
            raise TypeError(f"{name}: index_dtype must be an integer dtype, got {index_dtype}")
        ew.check_dtypes(name, "real" if x.dtype != dtypes.bool_ else ew.ANY, [x])
        check_positions(name, x.shape[axis], index_dtype)
        return ShapedArray(without(x.shape, [axis]), index_dtype)

    def batch(size: int, args: Sequence[Any], dims: Sequence[int], *, axes: Axes,
              index_dtype: Any) -> Any:
        (d,), (axis,) = dims, axes
        moved = axis + (axis >= d)
        return p.bind(args[0], axes=(moved,), index_dtype=index_dtype), d - (moved < d)

    p.abstract, p.batch = abstract, batch
    return p


argmax_p, argmin_p = _arg_reduction("argmax"), _arg_reduction("argmin")
