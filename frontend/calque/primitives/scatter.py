"""The scatter family: an operand with windows at positions that an index array holds replaced by
updates, or joined with them (add, sub, mul, min, max).

Updates are applied in the order of the updates array, so that of several for one place the last one
stays (scatter) and sums have one order.  FILL_OR_DROP leaves windows out that are not inside.
Start reading at `_abstract`; the axes are those of gather (gather.py).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from calque.core.avals import ShapedArray, aval_of, dtype_of, shape_of
from calque.core.errors import explain
from calque.core.primitive import Primitive, is_linear
from calque.core.types import Params, Shape
from calque.core.zeros import add_tangents, instantiate, is_zero, zero_like, zeros
from calque.primitives import elementwise as ew
from calque.primitives import shape as sh
from calque.primitives.gather import (
    GatherDimensionNumbers,
    GatherScatterMode,
    ScatterDimensionNumbers,
    check_batching,
    check_indices,
    check_map,
    check_range,
    check_sorted_unique,
    check_unique,
    gather,
    with_batch_axis,
    with_window_axis,
)
from calque.transforms.vmap import to_front

NAMES = {
    "scatter": ew.ANY,
    "scatter-add": ew.NUMBER,
    "scatter-sub": ew.NUMBER,
    "scatter-mul": ew.NUMBER,
    "scatter-min": ew.ANY,
    "scatter-max": ew.ANY,
}
scatter_p, scatter_add_p, scatter_sub_p, scatter_mul_p, scatter_min_p, scatter_max_p = (
    Primitive(name, memory="updates", kernel="nest", moves=plain, keys=plain)
    for name in NAMES for plain in [name == "scatter"]
)
FAMILY = (scatter_p, scatter_add_p, scatter_sub_p, scatter_mul_p, scatter_min_p, scatter_max_p)
# a scatter of whole rows by their numbers, and dtypes of which a kernel joins rows as they are
ROWS = ScatterDimensionNumbers((1,), (0,), (0,))
KNOWN = frozenset(map(np.dtype, ("float32", "float64", "int32", "int64")))


def scatter(
    p: Primitive,
    x: Any,
    indices: Any,
    updates: Any,
    dimension_numbers: ScatterDimensionNumbers,
    *,
    mode: GatherScatterMode,
    indices_are_sorted: bool = False,
    unique_indices: bool = False,
    update_jaxpr: None = None,
    update_consts: tuple[()] = (),
) -> Any:
    """One of the family by its primitive."""
    return p.bind(
        x,
        indices,
        updates,
        dimension_numbers=dimension_numbers,
        indices_are_sorted=indices_are_sorted,
        unique_indices=unique_indices,
        mode=mode,
        update_jaxpr=update_jaxpr,
        update_consts=update_consts,
    )


# ---- abstract
def window_sizes(
    shape: Sequence[int], d: ScatterDimensionNumbers, updates: Sequence[int]
) -> Shape:
    """The window on each axis of the operand."""
    inserted = {*d.inserted_window_dims, *d.operand_batching_dims}
    window = iter(updates[i] for i in d.update_window_dims)
    return tuple(min(1, n) if i in inserted else next(window) for i, n in enumerate(shape))


def _check(
    x: ShapedArray, indices: ShapedArray, updates: ShapedArray, d: ScatterDimensionNumbers
) -> None:
    check_indices("scatter", indices)
    rank = indices.ndim - 1 + len(d.update_window_dims)
    if updates.ndim != rank:
        raise TypeError(explain(f"Updates tensor must be of rank {rank}; got {updates.ndim}."))
    check_sorted_unique("scatter", "update_window_dims", d.update_window_dims)
    check_range("scatter", "update_window_dims", d.update_window_dims, updates.ndim)
    check_sorted_unique("scatter", "inserted_window_dims", d.inserted_window_dims)
    check_range("scatter", "inserted_window_dims", d.inserted_window_dims, x.ndim)
    check_batching(
        "scatter",
        x,
        indices,
        ("inserted_window_dims", d.inserted_window_dims),
        d.operand_batching_dims,
        "scatter_indices_batching_dims",
        d.scatter_indices_batching_dims,
    )
    window = len(d.update_window_dims) + len(d.inserted_window_dims) + len(d.operand_batching_dims)
    if window != x.ndim:
        raise TypeError(
            explain(
                f"Scatter op has window of size {window}; doesn't match operand of rank {x.ndim}."
            )
        )
    targets = d.scatter_dims_to_operand_dims
    if len(targets) != indices.shape[-1]:
        raise TypeError(
            explain(
                f"Scatter op has {len(targets)} elements in scatter_dims_to_operand_dims and the "
                "bound of dimension "
                f"index_vector_dim={indices.ndim - 1} of indices is {indices.shape[-1]}. These two "
                "numbers must be "
                "equal"
            )
        )
    check_map("scatter_dims_to_operand_dims", " mapping", targets, x.ndim)
    check_unique("scatter", "scatter_dims_to_operand_dims", targets)
    if set(targets) & set(d.operand_batching_dims):
        raise TypeError(
            explain(
                "scatter_dims_to_operand_dims and operand_batching_dims in scatter op must be "
                f"disjoint; got: {targets} and {d.operand_batching_dims}."
            )
        )
    _check_bounds(x, indices, updates, d)


def _check_bounds(
    x: ShapedArray, indices: ShapedArray, updates: ShapedArray, d: ScatterDimensionNumbers
) -> None:
    inserted = {*d.inserted_window_dims, *d.operand_batching_dims}
    limits = [n for i, n in enumerate(x.shape) if i not in inserted]
    for axis, limit in zip(d.update_window_dims, limits):
        if updates.shape[axis] > limit:
            raise TypeError(
                explain(
                    "Bounds of the window dimensions of updates must not exceed the bounds of the "
                    "corresponding "
                    f"dimensions of operand. For dimension {axis}, updates bound is "
                    f"{updates.shape[axis]}, operand "
                    f"bound is {limit}."
                )
            )
    scattered = [i for i in range(updates.ndim) if i not in d.update_window_dims]
    for i, n in zip(scattered, indices.shape[:-1]):
        if updates.shape[i] != n:
            raise TypeError(
                explain(
                    "Bounds of the scatter dimensions of updates must be the same as the bounds of "
                    "the corresponding "
                    f"dimensions of scatter indices. For scatter dimension {i}, updates bound is "
                    f"{updates.shape[i]}, "
                    f"indices bound is {n}."
                )
            )


def _abstract_of(name: str, accepts: str) -> Any:
    short = name.partition("-")[2] or name

    def abstract(
        x: ShapedArray,
        indices: ShapedArray,
        updates: ShapedArray,
        *,
        dimension_numbers: ScatterDimensionNumbers,
        **params: Any,
    ) -> ShapedArray:
        ew.check_dtypes(short, accepts, [x])
        ew.check_dtypes("scatter", ew.ANY, [x, updates])
        _check(x, indices, updates, dimension_numbers)
        return x

    return abstract


# ---- derivatives
def _read_back(x: Any, indices: Any, updates: Any, params: Params) -> Any:
    """What x holds where the updates would go, in their shape (0 where they would be dropped)."""
    d = params["dimension_numbers"]
    shape = shape_of(x)
    if any(shape[i] == 0 for i in d.inserted_window_dims):
        return zeros(ShapedArray(shape_of(updates), dtype_of(x)))
    numbers = GatherDimensionNumbers(*d)  # (the same axes, of what is read)
    of = shape_of(updates)
    mode = params["mode"]
    if mode is GatherScatterMode.PROMISE_IN_BOUNDS:
        mode = GatherScatterMode.FILL_OR_DROP  # what scatter does to indices that break the promise
    return gather(
        x,
        indices,
        numbers,
        window_sizes(shape, d, of),
        mode=mode,
        fill_value=0,
        indices_are_sorted=params["indices_are_sorted"],
        unique_indices=params["unique_indices"],
    )


def _linear_jvp(p: Primitive) -> Any:
    """jvp of what is linear in operand and updates together."""

    def jvp(primals: Sequence[Any], tangents: Sequence[Any], **params: Any) -> Any:
        out = p.bind(*primals, **params)
        tx, _, tu = tangents
        if is_zero(tx) and is_zero(tu):
            return out, zero_like(out)
        return out, p.bind(instantiate(tx), primals[1], instantiate(tu), **params)

    return jvp


def _sum_transpose(p: Primitive) -> Any:
    def transpose(ct: Any, x: Any, indices: Any, updates: Any, **params: Any) -> list[Any]:
        back = None
        if is_linear(updates):
            back = _read_back(ct, indices, updates, params)
            back = ew.neg(back) if p is scatter_sub_p else back
        return [ct if is_linear(x) else None, None, back]

    return transpose


def _set_transpose(ct: Any, x: Any, indices: Any, updates: Any, **params: Any) -> list[Any]:
    """To the operand what was not overwritten, to the updates what was written last."""
    shape = shape_of(updates)
    result: list[Any] = [None, None, None]
    if is_linear(x):
        blank = zeros(ShapedArray(shape, dtype_of(ct)))
        result[0] = scatter_p.bind(ct, indices, blank, **params)
    if is_linear(updates):
        back = _read_back(ct, indices, updates, params)
        if not params["unique_indices"]:
            blank = zeros(aval_of(back))
            back = ew.select_n(_stays(shape_of(ct), indices, shape, params), blank, back)
        result[2] = back
    return result


def _stays(
    shape: Shape, indices: Any, updates: tuple[int, ...], params: Params
) -> Any:
    """Which elements of the updates are still there after all were written: numbers written, read "
    "back."""
    size = math.prod(updates)
    kind = np.dtype("int32" if size < 2**31 - 1 else "int64")
    numbers = sh.reshape(ew.add(sh.iota(kind, (size,)), kind.type(1)), updates)
    written = scatter_p.bind(zeros(ShapedArray(shape, kind)), indices, numbers, **params)
    return ew.eq(_read_back(written, indices, numbers, params), numbers)


def _need_unique(params: Params) -> None:
    if not params["unique_indices"]:
        raise NotImplementedError(
            explain(
                "scatter_mul gradients are only implemented if `unique_indices=True`",
                fix="pass unique_indices=True where no index occurs twice; else multiply by exp of "
                "a scatter_add of "
                "logarithms.",
            )
        )


def _mul_jvp(primals: Sequence[Any], tangents: Sequence[Any], **params: Any) -> Any:
    x, indices, updates = primals
    out = scatter_mul_p.bind(*primals, **params)
    tx, _, tu = tangents
    total: Any = zero_like(out)
    if not is_zero(tx):
        total = scatter_mul_p.bind(tx, indices, updates, **params)
    if not is_zero(tu):
        _need_unique(params)
        spread = scatter_add_p.bind(zeros(aval_of(out).tangent().strong()), indices, tu, **params)
        total = add_tangents(total, ew.mul(x, spread))
    return out, total


def _mul_transpose(ct: Any, x: Any, indices: Any, updates: Any, **params: Any) -> list[Any]:
    if is_linear(x):
        return [scatter_mul_p.bind(ct, indices, updates, **params), None, None]
    _need_unique(params)
    return [None, None, _read_back(ew.mul(ct, x), indices, updates, params)]


def _extremum_jvp(p: Primitive) -> Any:
    """The tangent of what became the result, the mean over ties."""

    def jvp(primals: Sequence[Any], tangents: Sequence[Any], **params: Any) -> Any:
        x, indices, updates = primals
        out = p.bind(*primals, **params)
        tx, _, tu = tangents
        if is_zero(tx) and is_zero(tu):
            return out, zero_like(out)
        dtype = dtype_of(out)
        own = ew.convert(ew.eq(x, out), dtype)
        given = ew.convert(ew.eq(updates, _read_back(out, indices, updates, params)), dtype)
        count = scatter_add_p.bind(own, indices, given, **params)
        count = ew.max_(count, ew.const(count, 1))  # NaN is equal to none
        total = scatter_add_p.bind(
            ew.mul(instantiate(tx), own), indices, ew.mul(instantiate(tu), given), **params
        )
        return out, ew.div(total, count)

    return jvp


# ---- batching
def _batch_of(p: Primitive) -> Any:
    def batch(
        size: int,
        args: Sequence[Any],
        dims: Sequence[int | None],
        *,
        dimension_numbers: ScatterDimensionNumbers,
        **params: Any,
    ) -> Any:
        x, indices, updates = args
        x, updates = to_front(x, dims[0], size), to_front(updates, dims[2], size)
        if dims[1] is None:  # one more axis of the window, whole
            numbers = with_window_axis(dimension_numbers)
        else:
            indices = to_front(indices, dims[1], size)
            numbers = with_batch_axis(dimension_numbers)
        return scatter(p, x, indices, updates, numbers, **params), 0

    return batch


for _p in FAMILY:
    _p.abstract, _p.batch = _abstract_of(_p.name, NAMES[_p.name]), _batch_of(_p)
for _p in (scatter_p, scatter_add_p, scatter_sub_p):
    _p.jvp = _linear_jvp(_p)
for _p in (scatter_add_p, scatter_sub_p):
    _p.transpose = _sum_transpose(_p)
for _p in (scatter_min_p, scatter_max_p):
    _p.jvp = _extremum_jvp(_p)
scatter_p.transpose = _set_transpose
scatter_mul_p.jvp, scatter_mul_p.transpose = _mul_jvp, _mul_transpose
