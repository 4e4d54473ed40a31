"""gather and the scatter family by NumPy, with the modes and orders of our compiled forms."""
from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np

from calque.core import dtypes
from calque.core.types import Axes
from calque.dispatch.numpy_rules.elementwise import BF16, COMPLEX, FLOATS, INTEGERS
from calque.primitives.gather import GatherScatterMode, default_fill
from calque.primitives.scatter import window_sizes

Value = np.ndarray[Any, Any]


def _places(shape: Sequence[int], indices: Value, sizes: Sequence[int], targets: Sequence[int],
            batching: Sequence[int], along: Sequence[int]) -> tuple[list[Value], Value]:
    """The index of every element on each axis of the operand, shapes that broadcast to (*batch,
    *sizes), moved inside; and which windows were inside as they came."""
    batch, rank = indices.shape[:-1], len(shape)
    starts: list[Value] = [np.zeros((1,) * len(batch), np.int64)] * rank
    inside = np.ones(batch, bool)
    for k, axis in enumerate(targets):
        index = indices[..., k]
        limit = min(shape[axis] - sizes[axis], np.iinfo(index.dtype).max)
        safe = np.minimum(np.maximum(index, 0), limit)  # (np.clip takes ten times as long)
        inside &= index == safe
        starts[axis] = safe.astype(np.int64)
    for axis, place in zip(batching, along):
        starts[axis] = np.arange(shape[axis]).reshape(
            [-1 if i == place else 1 for i in range(len(batch))])
    ones = (1,) * rank
    return [s.reshape(*s.shape, *ones) + np.arange(sizes[a]).reshape(
        *ones[:a], sizes[a], *ones[a + 1:]) for a, s in enumerate(starts)], inside


def _gather(out: Any, x: Value, indices: Value, *, dimension_numbers: Any, slice_sizes: Any,
            mode: Any, fill_value: Any, **params: Any) -> Any:
    d = dimension_numbers
    if not x.size or not out.size:
        return None
    batch = indices.ndim - 1
    if d.start_index_map == d.collapsed_slice_dims and len(d.start_index_map) == 1 and (
            not d.operand_batching_dims):
        (axis,) = d.start_index_map
        if all(s == n for a, (s, n) in enumerate(zip(slice_sizes, x.shape)) if a != axis):
            made = _taken(x, indices[..., 0], axis, mode)
            if made is not None:
                order = _line_order(tuple(d.offset_dims), axis, batch, made.ndim)
                return made if order is None else made.transpose(order)
    places, inside = _places(x.shape, indices, slice_sizes, d.start_index_map,
                             d.operand_batching_dims, d.start_indices_batching_dims)
    made = x[tuple(places)]
    made = np.broadcast_to(made, (*indices.shape[:-1], *slice_sizes))
    if mode is GatherScatterMode.FILL_OR_DROP and not inside.all():
        fill = default_fill(out.dtype) if fill_value is None else fill_value
        there = inside.reshape(*inside.shape, *(1,) * x.ndim)
        if dtypes.is_key(out.dtype):  # an element holds all words of a key
            words = np.full(x.dtype.itemsize // 4, fill, np.uint32)
            made = np.where(there, made, words.view(x.dtype)[0])
        else:
            made = np.where(there, made, np.asarray(fill).astype(x.dtype))
    gone = {*d.collapsed_slice_dims, *d.operand_batching_dims}
    made = made.squeeze(tuple(batch + a for a in gone))
    return made.transpose(_order(d.offset_dims, range(batch), range(batch, made.ndim)))


def _taken(x: Value, index: Value, axis: int, mode: Any) -> Value | None:
    """The lines at the indices; None where some are outside and such lines are filled."""
    if index.dtype.itemsize == 4:
        try:
            return x.take(index.view(np.uint32), axis)  # (of a negative one: beyond the end)
        except IndexError:
            pass
    safe = np.minimum(np.maximum(index, 0), min(x.shape[axis] - 1, np.iinfo(index.dtype).max))
    if mode is GatherScatterMode.FILL_OR_DROP and not (index == safe).all():
        return None
    return x.take(safe, axis)


@functools.lru_cache(4096)
def _line_order(offsets: Axes, axis: int, batch: int, rank: int) -> list[int] | None:
    """`_order` of lines whose batch axes lie where the axis was; None where nothing moves."""
    order = _order(offsets, [*range(axis, axis + batch)],
                   [i for i in range(rank) if not axis <= i < axis + batch])
    return None if order == [*range(rank)] else order


def _order(offsets: Sequence[int], batch: Sequence[int], window: Sequence[int]) -> list[int]:
    """The permutation that brings axes of the window to their places in the result."""
    of_batch, of_window = iter(batch), iter(window)
    return [next(of_window if i in offsets else of_batch)
            for i in range(len(batch) + len(window))]


_JOIN = {"scatter-add": np.add, "scatter-sub": np.subtract, "scatter-mul": np.multiply,
         "scatter-min": np.minimum, "scatter-max": np.maximum}


def _scatter(name: str) -> Any:
    def rule(out: Any, x: Value, indices: Value, updates: Value, *, dimension_numbers: Any,
             mode: Any, **params: Any) -> Any:
        d = dimension_numbers
        if not x.size or not updates.size or not _takes(name, x.dtype):
            return None
        sizes = window_sizes(x.shape, d, updates.shape)
        first = [i for i in range(updates.ndim) if i not in d.update_window_dims]
        new = updates.transpose(*first, *d.update_window_dims)
        places, inside = _places(x.shape, indices, sizes, d.scatter_dims_to_operand_dims,
                                 d.operand_batching_dims, d.scatter_indices_batching_dims)
        batch = indices.shape[:-1]
        at = np.zeros((1,) * (len(batch) + x.ndim), np.int64)
        for place, n in zip(places, x.shape):
            at = at * n + place
        at = np.broadcast_to(at, (*batch, *sizes)).reshape(-1)
        new = new.reshape(-1)
        if mode is not GatherScatterMode.CLIP:
            kept = np.broadcast_to(inside.reshape(*batch, *(1,) * x.ndim), (*batch, *sizes))
            at, new = at[kept.reshape(-1)], new[kept.reshape(-1)]
        narrow = x.dtype in (np.float16, BF16) and name != "scatter"  # joined in f32, rounded once
        made = (x.astype(np.float32) if narrow else x.copy()).reshape(-1)
        if name == "scatter":
            made[at] = new
        else:
            _JOIN[name].at(made, at, new.astype(made.dtype))
        return made.astype(x.dtype, copy=False).reshape(x.shape)

    return rule


def _takes(name: str, dtype: Any) -> bool:
    """Whether NumPy joins values of a dtype as our loops do (signed zeros, complex products)."""
    if name == "scatter":
        return True
    if name in ("scatter-min", "scatter-max"):
        return dtype in INTEGERS
    return dtype in INTEGERS | FLOATS or (dtype in COMPLEX and name != "scatter-mul")


RULES: dict[str, Any] = {"gather": _gather, "scatter": _scatter("scatter"),
                         **{name: _scatter(name) for name in _JOIN}}
