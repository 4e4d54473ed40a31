"""Indexing with arrays of integers or booleans, mixed with ints, slices, None and Ellipsis.

`plan` turns such an index into a Fancy: a Plan of the slices and an index array for each of the
other axes; `read` and `update` then are one gather or scatter.  The axes of the index arrays lie
where the first one is if they are neighbours, else in front (NumPy's rule).
"""
from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from calque.core import dtypes
from calque.core.avals import aval_of, dtype_of, ndim_of, refuse_masked, shape_of
from calque.core.dims import Dim, is_far, is_static
from calque.core.errors import NonConcreteBooleanIndexError, explain
from calque.core.lists import as_tuple, inserted, without
from calque.core.primitive import Primitive
from calque.core.sharding import SingleDeviceSharding
from calque.core.trace import Tracer, at_bottom
from calque.core.types import Axes, Shape
from calque.dispatch.array import Array, from_numpy
from calque.dispatch.eager import lazy_eval
from calque.dispatch.sharded.placing import beside
from calque.lax.gather import parse_mode, python_fill
from calque.lax.index import counting_far, wrap_negative
from calque.lax.scatter import scatter_apply
from calque.lax.shape import broadcast_sizes
from calque.numpy import indexing as ix
from calque.numpy.writing import write
from calque.primitives import elementwise as ew
from calque.primitives import gather as ga
from calque.primitives import scatter as sc
from calque.primitives import shape as sh
from calque.primitives.gather import GatherScatterMode

PICKED_BYTES = 1 << 18  # results up to here are picked by NumPy, where all is at hand: no compiling


@dataclass(frozen=True, slots=True)
class Fancy:
    """What an index with arrays asks for."""

    base: ix.Plan  # the slices; axes with index arrays are whole, new axes are left out
    axes: Axes  # that have an index array
    arrays: tuple[Any, ...]  # one for each of them: NumPy's, or known later
    batch: Shape  # the arrays' common shape
    place: int  # of the batch axes in the result without new axes
    shape: Shape  # of the result
    kept: tuple[int, ...]  # places in the result of the axes that are not new
    masked: bool  # the shape depends on the values of a mask

    @property
    def rest(self) -> Shape:
        """Sizes of the axes without index arrays."""
        return without(self.base.shape, self.axes)

    @property
    def plain(self) -> tuple[int, ...]:
        """The result's shape without new axes."""
        return inserted(self.rest, self.place, *self.batch)

    @property
    def window(self) -> Shape:
        """Places of the rest axes in the result without new axes."""
        batch = range(self.place, self.place + len(self.batch))
        return tuple(i for i in range(len(self.rest) + len(self.batch)) if i not in batch)

    def sizes(self) -> Shape:
        return tuple(1 if i in self.axes else n for i, n in enumerate(self.base.shape))

    @property
    def on_host(self) -> bool:
        return all(isinstance(a, np.ndarray) for a in self.arrays)


# ---- from an index to a Fancy
def as_index(item: Any) -> Any:
    """An index array: NumPy's where its values are at hand; masks always are."""
    if isinstance(item, (list, tuple)):
        item = _from_list(item)
    if hasattr(item, "__jax_array__"):
        item = item.__jax_array__()
    if isinstance(item, (bool, int, float, complex)):
        item = np.asarray(item)
    if isinstance(item, Tracer):
        known = item.concrete()
        if known is not None and not isinstance(known, Tracer):
            item = known
    refuse_masked(item)
    if not hasattr(item, "dtype"):
        raise ix.refusal(item)
    if item.dtype == dtypes.bool_:
        if isinstance(item, Tracer):
            raise NonConcreteBooleanIndexError(explain(
                f"Array boolean indices must be concrete; got {aval_of(item).short()}",
                fix="use jnp.where(mask, x, 0), whose shape does not depend on the mask."))
        return np.asarray(item)
    if dtypes.is_key(item.dtype) or not dtypes.is_integer(item.dtype):
        raise ix.refusal(item)
    if isinstance(item, Tracer):
        return item
    if isinstance(item, Array) and (item._pending is not None or item.aval.nbytes > PICKED_BYTES
                                    or not item.is_ready()):
        return item  # (many positions are counted by the program)
    return np.asarray(item)


def _from_list(item: Any) -> Any:
    if not len(item):
        return np.zeros((0,), np.int32)
    try:
        if not _holds_arrays(item):
            return np.asarray(item)
    except ValueError:
        raise ix.refusal(item) from None
    from calque.numpy.creation import asarray
    return asarray(item)


def _holds_arrays(item: Any) -> bool:
    """Whether an array stands in nested lists and tuples."""
    if isinstance(item, (list, tuple)):
        return any(map(_holds_arrays, item))
    return isinstance(item, (Array, Tracer))


def _entries(items: Sequence[Any], shape: Shape) -> list[Any]:
    """Slices, None and index arrays, one for each axis; a mask of several axes gives several."""
    used = 0
    found: list[Any] = []
    for item in items:
        if item is None or item is Ellipsis or isinstance(item, slice):
            found.append(item)
            used += isinstance(item, slice)
            continue
        value = ix.integer(item)
        value = as_index(item) if value is None else (
            np.asarray(value) if isinstance(value, int) else value)
        found.append(value)
        used += value.ndim if value.dtype == dtypes.bool_ else 1
    ellipses = [i for i, v in enumerate(found) if v is Ellipsis]
    if len(ellipses) > 1:
        raise IndexError(explain("an index can only have a single ellipsis ('...')"))
    if used > len(shape):
        raise IndexError(explain(
            f"Too many indices: array is {len(shape)}-dimensional, but {used} were indexed"))
    at = ellipses[0] if ellipses else len(found)
    fill = [slice(None)] * (len(shape) - used)
    if ellipses and not fill:
        return found  # an Ellipsis of no axes still parts index arrays
    return [*found[:at], *fill, *found[at + len(ellipses):]]


def _mask_positions(mask: Any, shape: Shape, axis: int, position: int) -> list[Any]:
    expected = shape[axis:axis + mask.ndim]
    if any(m not in (0, n) for m, n in zip(mask.shape, expected)):  # empty masks fit, as in JAX
        raise IndexError(explain(
            f"boolean index did not match shape of indexed array in index {position}: got "
            f"{mask.shape}, expected {list(expected)}"))
    return list(np.nonzero(mask))


def plan(index: Any, shape: Shape, wrap: bool = True) -> Fancy:
    """The Fancy of an index into an array of a shape; wrap: negatives count from the end."""
    items = as_tuple(index)
    entries = _entries(items, shape)
    runs: list[ix.Run] = []
    axes: list[int] = []
    arrays: list[Any] = []
    shapes: list[Shape] = []
    order: list[str] = []  # of the result: new, rest, array, gap
    for position, item in enumerate(entries):
        axis = len(runs)
        if item is None:
            order.append("new")
        elif item is Ellipsis:
            order.append("gap")
        elif isinstance(item, slice):
            runs.append(ix.run_of(item, shape[axis], position))
            order.append("rest")
        else:
            columns = [item]
            if item.dtype == dtypes.bool_:
                columns = _mask_positions(item, shape, axis, position) if item.ndim else []
                if not item.ndim:  # True is one more axis of size 1, False one of size 0
                    shapes.append((int(item),))
            for column in columns:
                if type(column) is np.ndarray and not column.shape and (
                        dtypes.is_integer(column.dtype)):
                    ix.check_static(int(column), shape[len(runs)], len(runs))
                if not shape[len(runs)] and column is item and not item.shape:
                    raise IndexError(explain(
                        f"index is out of bounds for axis {len(runs)} with size 0"))
                axes.append(len(runs))
                arrays.append(_counted(column, shape[len(runs)], wrap))
                shapes.append(shape_of(column))
                runs.append(ix.Run(0, shape[len(runs)]))
            order.append("array")
    masked = any(getattr(e, "dtype", None) == dtypes.bool_ and e.ndim for e in entries)
    return _placed(runs, axes, arrays, _common(shapes), order, masked)


def _placed(runs: list[ix.Run], axes: list[int], arrays: list[Any], batch: Shape,
            order: list[str], masked: bool) -> Fancy:
    places = [i for i, kind in enumerate(order) if kind == "array"]
    together = places == list(range(places[0], places[0] + len(places)))
    first = places[0] if together else 0
    place = order[:first].count("rest")
    shape: list[int] = []
    kept: list[int] = []
    rest = iter(r.count for i, r in enumerate(runs) if i not in axes)

    def add(sizes: Sequence[int], new: bool = False) -> None:
        if not new:
            kept.extend(range(len(shape), len(shape) + len(sizes)))
        shape.extend(sizes)

    for i, kind in enumerate(order):
        if i == first:
            add(batch)
        if kind in ("new", "rest"):
            add((1,) if kind == "new" else (next(rest),), kind == "new")
    window = tuple(r.count for r in runs)
    base = ix.Plan(tuple(runs), window, tuple(range(len(window))))
    return Fancy(base, tuple(axes), tuple(arrays), batch, place, tuple(shape), tuple(kept), masked)


def _common(shapes: list[Shape]) -> tuple[int, ...]:
    try:
        if not all(map(is_static, shapes)):
            return broadcast_sizes(shapes)
        return np.broadcast_shapes(*shapes)
    except ValueError:
        raise ValueError(explain(
            f"Incompatible shapes for broadcasting: shapes={shapes}",
            fix="index arrays broadcast against each other; jnp.ix_ makes an outer index.")
        ) from None


def _counted(column: Any, size: int, wrap: bool) -> Any:
    """Positions counted from the front; on the host those outside become -1 or size."""
    kind = ix.kind_of(size)
    if isinstance(column, np.ndarray) and dtypes.is_small(column.dtype):
        column = column.astype(np.int8)  # (int4: NumPy's functions know none)
    if isinstance(column, np.ndarray) and isinstance(size, Dim):
        least, most = np.iinfo(np.int32).min, np.iinfo(np.int32).max
        column = np.clip(column, least if column.dtype.kind == "i" else 0, most).astype(np.int32)
        column = from_numpy(column)
    if isinstance(column, np.ndarray):
        if wrap and column.dtype.kind == "i":
            column = np.where(column < 0, column.astype(np.int64) + size, column)
        if not (ix.watched.get() and column.size):
            column = np.clip(column, -1 if column.dtype.kind == "i" else 0, size)
        # as an Array it stays int64 where it becomes an argument of a program
        return from_numpy(column.astype(kind)) if is_far((size,)) else column.astype(kind)
    column = ix.widened(column, size)
    wrap = wrap and not dtypes.is_unsigned(dtype_of(column))
    return wrap_negative(column, size) if wrap else column


def vectors(fancy: Fancy) -> Any:
    """The index vectors: (*batch, number of axes)."""
    batch = fancy.batch
    if fancy.on_host:
        columns = [np.broadcast_to(a, batch) for a in fancy.arrays]
        return np.stack(columns, -1) if columns else np.zeros((*batch, 0), np.int32)
    kind = dtypes.promote([(dtype_of(a), False) for a in fancy.arrays], strict=False)[0]
    made = []
    for a in fancy.arrays:
        a = ew.convert(a, kind) if dtype_of(a) != kind else a
        rank = ndim_of(a)
        dims = tuple(range(len(batch) - rank, len(batch)))
        made.append(sh.broadcast_in_dim(a, (*batch, 1), dims))
    return made[0] if len(made) == 1 else sh.concatenate(made, len(batch))


# ---- reading
def take(x: Any, index: Any) -> Any:
    """x[index], whatever the index."""
    shape = shape_of(x)
    if is_far(shape):
        return _take_far(x, index)
    return ix.read(x, ix.parse(index, shape)) if ix.is_basic(index) else read(x, plan(index, shape))


@counting_far
def _take_far(x: Any, index: Any) -> Any:
    dtypes.check_fits(index)
    shape = shape_of(x)
    return ix.read(x, ix.parse(index, shape)) if ix.is_basic(index) else read(x, plan(index, shape))


def read(x: Any, fancy: Fancy, mode: Any = None, fill_value: Any = None, are_sorted: bool = False,
         unique: bool = False) -> Any:
    """The elements that a Fancy asks for."""
    parsed = parse_mode("gather", mode, GatherScatterMode.PROMISE_IN_BOUNDS)
    aval = aval_of(x)
    if 0 in fancy.shape:  # (indices of an empty axis, too: nothing is read)
        from calque.core.zeros import zeros
        if dtypes.is_key(aval.dtype):
            return sh.reshape(sh.slice_(sh.reshape(x, (aval.size,)), (0,), (0,)), fancy.shape)
        made = ew.convert(zeros(aval.update(shape=fancy.shape)), aval.dtype, aval.weak_type)
        only = type(x) is Array and isinstance(aval.placement, SingleDeviceSharding)
        return beside(x, made) if only else made
    fills = parsed is GatherScatterMode.FILL_OR_DROP
    picked = None if fills else _picked(x, fancy)
    if picked is not None:
        return picked
    numbers = ga.GatherDimensionNumbers(fancy.window, tuple(sorted(fancy.axes)), fancy.axes)
    with lazy_eval("getitem"):
        part = ix.read(x, fancy.base)
        out = ga.gather(part, vectors(fancy), numbers, fancy.sizes(), mode=parsed,
                        fill_value=python_fill(fill_value, aval.dtype) if fills else None,
                        indices_are_sorted=are_sorted, unique_indices=unique)
        return _with_new_axes(out, fancy)


def _with_new_axes(out: Any, fancy: Fancy) -> Any:
    if len(fancy.kept) == len(fancy.shape):
        return out
    return sh.broadcast_in_dim(out, fancy.shape, fancy.kept)


def _picked(x: Any, fancy: Fancy) -> Any:
    """The elements by NumPy, if everything is at hand and they are few."""
    if not (type(x) is Array and at_bottom() and fancy.on_host) or x._pending is not None:
        return None
    if 0 in x.shape:
        return None
    size = 0 if fancy.masked else math.prod(fancy.shape) * x.itemsize  # (each count would compile)
    if dtypes.is_key(x.dtype) or size > PICKED_BYTES or x.aval.placement is not None:
        return None
    buffer = x._buffer
    if not (buffer.device.is_host and buffer.is_ready()):
        return None
    value = buffer.numpy()[tuple(slice(a.first, _stop(a), a.step) for a in fancy.base.axes)]  # type: ignore[arg-type, misc, union-attr]
    rest = [i for i in range(value.ndim) if i not in fancy.axes]
    inside = [np.clip(a, 0, value.shape[axis] - 1) for a, axis in zip(fancy.arrays, fancy.axes)]
    found = value.transpose([*fancy.axes, *rest])[tuple(np.broadcast_to(a, fancy.batch)
                                                        for a in inside)]
    if not inside:
        found = np.broadcast_to(value, (*fancy.batch, *value.shape))
    n = len(fancy.batch)
    found = np.moveaxis(found, range(n), range(fancy.place, fancy.place + n))
    return from_numpy(np.array(found).reshape(fancy.shape), x.weak_type)


def _stop(a: ix.Run) -> int | None:
    end = a.first + a.count * a.step
    return None if end < 0 else end


# ---- writing
def whole_mask(x: Any, index: Any) -> Any:
    """The mask if an index is one of the leading axes, as an array of x's shape; else None."""
    if isinstance(index, tuple) or not hasattr(index, "dtype") or index.dtype != dtypes.bool_:
        return None
    mask = as_index(index)
    shape = shape_of(x)
    if not mask.ndim or mask.shape != shape[:mask.ndim]:
        return None
    return sh.broadcast_in_dim(mask, shape, range(mask.ndim))


def update(x: Any, fancy: Fancy, values: Any, p: Primitive, mode: Any = None,
           are_sorted: bool = False, unique: bool = False) -> Any:
    """x with the elements of a Fancy joined with values (of x's dtype and the result's shape)."""
    parsed = parse_mode("scatter", mode, GatherScatterMode.FILL_OR_DROP)

    def changed(part: Any, numbers: ga.ScatterDimensionNumbers) -> Any:
        new = sh.reshape(values, fancy.plain) if len(fancy.kept) < len(fancy.shape) else values
        return sc.scatter(p, part, vectors(fancy), new, numbers, mode=parsed,
                          indices_are_sorted=are_sorted, unique_indices=unique)

    return _with_part(x, fancy, changed)


def _with_part(x: Any, fancy: Fancy, changed: Callable[[Any, ga.ScatterDimensionNumbers], Any]
               ) -> Any:
    """x with the part that a Fancy's slices pick changed by a scatter of these numbers."""
    if 0 in fancy.shape or 0 in shape_of(x):
        return ix.unchanged(x)
    made = changed(ix.read(x, fancy.base), ga.ScatterDimensionNumbers(
        fancy.window, tuple(sorted(fancy.axes)), fancy.axes))
    whole = fancy.base.window == shape_of(x) and not fancy.base.reversed
    return made if whole else write(x, fancy.base, made, None, GatherScatterMode.CLIP)


def apply(x: Any, fancy: Fancy, func: Any, mode: Any, are_sorted: bool, unique: bool) -> Any:
    """x with func applied to the elements of a Fancy, once for each time they are named."""
    return _with_part(x, fancy, lambda part, numbers: scatter_apply(
        part, vectors(fancy), func, numbers, update_shape=fancy.plain,
        indices_are_sorted=are_sorted, unique_indices=unique, mode=mode))


__all__ = ["Fancy", "apply", "plan", "read", "take", "update", "vectors"]
