"""Parts of BCOO arrays: slices, reversed ones, gather.

What a slice leaves out becomes padding; where fewer places are left than elements are stored,
duplicates are summed and the storage shrinks.  Start reading at `_window`.
"""
from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from calque.core.errors import explain
from calque.dispatch.replay import planned
from calque.experimental.sparse.array import BCOO, _summed, batched, in_range, masked, parts, whole
from calque.experimental.sparse.shapes import bcoo_squeeze, bcoo_transpose, bcoo_update_layout
from calque.lax import GatherDimensionNumbers, GatherScatterMode, clamp, rev
from calque.lax import dynamic_slice as dense_dynamic_slice
from calque.lax import slice as dense_slice
from calque.numpy import asarray, where


@planned
def bcoo_slice(mat: BCOO, *, start_indices: Sequence[int], limit_indices: Sequence[int],
               strides: Sequence[int] | None = None) -> BCOO:
    """A part of an array, by where it starts and stops in each dimension.

    Args:
      mat: a BCOO array.
      start_indices: where it starts.
      limit_indices: where it stops.
      strides: steps; None: 1.

    Returns:
      A BCOO array.

    Raises:
      ValueError: the bounds do not fit the shape.

    Example:
      >>> from calque.experimental import sparse
      >>> sparse.bcoo_slice(sparse.eye(3), start_indices=(0, 1), limit_indices=(3, 3)).todense()
      Array([[0., 0.],
             [1., 0.],
             [0., 1.]], dtype=float32)
    """
    start, limit = tuple(map(int, start_indices)), tuple(map(int, limit_indices))
    step = (1,) * mat.ndim if strides is None else tuple(map(int, strides))
    if not len(start) == len(limit) == len(step) == mat.ndim or any(
            not 0 <= a <= z <= n or k < 1 for a, z, k, n in zip(start, limit, step, mat.shape)):
        raise ValueError(explain(
            f"bcoo_slice: start_indices={start}, limit_indices={limit}, strides={strides} do not "
            f"fit the shape {mat.shape}.",
            fix="give one of each for every dimension: 0 <= start <= limit <= size, stride > 0."))
    sizes = [-(-(z - a) // k) for a, z, k in zip(start, limit, step)]
    b, s = mat.n_batch, mat.n_batch + mat.n_sparse
    data, indices = whole(mat)
    data = dense_slice(data, (*start[:b], 0, *start[s:]), (*limit[:b], mat.nse, *limit[s:]),
                       (*step[:b], 1, *step[s:]))
    indices = dense_slice(indices, (*start[:b], 0, 0),
                          (*limit[:b], mat.nse, mat.n_sparse), (*step[:b], 1, 1))
    return _window(mat, data, indices, start[b:s], limit[b:s], step[b:s], sizes)


def _window(mat: BCOO, data: Any, indices: Any, start: Sequence[Any], limit: Sequence[Any],
            step: Sequence[int], shape: Sequence[int]) -> BCOO:
    """The elements whose sparse indices lie in a window; data and indices are cut already."""
    b = mat.n_batch
    sizes = tuple(shape[b:b + mat.n_sparse])
    unchanged = all(isinstance(a, int) and a == 0 and k == 1 for a, k in zip(start, step)) and (
        sizes == parts(mat)[1])
    if unchanged:
        return BCOO((data, indices), shape=shape, indices_sorted=mat.indices_sorted,
                    unique_indices=mat.unique_indices)
    first, last, steps = (asarray(v, indices.dtype) for v in (start, limit, step))
    inside = in_range(indices, parts(mat)[1]) & (
        (indices >= first) & (indices < last) & ((indices - first) % steps == 0)).all(-1)
    indices = where(inside[..., None], (indices - first) // steps, asarray(sizes, indices.dtype))
    made = BCOO((masked(data, inside), indices), shape=shape, unique_indices=mat.unique_indices)
    most = math.prod(sizes)
    return _summed(made, most, False) if most < mat.nse else made


@planned
def bcoo_dynamic_slice(mat: BCOO, start_indices: Sequence[Any], slice_sizes: Sequence[int]) -> BCOO:
    """A part of an array that starts where values say; starts are clamped so that it fits.

    Args:
      mat: a BCOO array.
      start_indices: one integer for each dimension, possibly traced.
      slice_sizes: the shape of the part.

    Returns:
      A BCOO array.

    Raises:
      ValueError: the sizes do not fit the shape.

    Example:
      >>> from calque.experimental import sparse
      >>> sparse.bcoo_dynamic_slice(sparse.eye(3), (1, 1), (2, 2)).todense()
      Array([[1., 0.],
             [0., 1.]], dtype=float32)
    """
    sizes = tuple(map(int, slice_sizes))
    starts = [asarray(v) for v in start_indices]
    if len(starts) != mat.ndim or len(sizes) != mat.ndim or any(
            not 0 <= n <= m for n, m in zip(sizes, mat.shape)):
        raise ValueError(explain(
            f"bcoo_dynamic_slice: {len(starts)} starts and sizes {sizes} do not fit the shape "
            f"{mat.shape}.", fix="give one of each for every dimension, sizes within the shape."))
    data, indices = whole(mat)
    b, s = mat.n_batch, mat.n_batch + mat.n_sparse
    starts = [where(v < 0, v + m, v) for v, m in zip(starts, mat.shape)]
    starts = [clamp(asarray(0, indices.dtype), v.astype(indices.dtype),
                    asarray(m - n, indices.dtype)) for v, n, m in zip(starts, sizes, mat.shape)]
    zero = asarray(0, indices.dtype)
    data = dense_dynamic_slice(data, [*starts[:b], zero, *starts[s:]],
                               (*sizes[:b], mat.nse, *sizes[s:]))
    indices = dense_dynamic_slice(indices, [*starts[:b], zero, zero],
                                  (*sizes[:b], mat.nse, mat.n_sparse))
    if sizes[b:s] == parts(mat)[1]:
        return BCOO((data, indices), shape=sizes, indices_sorted=mat.indices_sorted,
                    unique_indices=mat.unique_indices)
    limits = [a + n for a, n in zip(starts[b:s], sizes[b:s])]
    return _window(mat, data, indices, starts[b:s], limits, (1,) * (s - b), sizes)


@planned
def bcoo_rev(operand: BCOO, dimensions: Sequence[int]) -> BCOO:
    """The array with the order of elements reversed along dimensions.

    Args:
      operand: a BCOO array.
      dimensions: which ones.

    Returns:
      A BCOO array.

    Raises:
      Nothing.

    Example:
      >>> from calque.experimental import sparse
      >>> sparse.bcoo_rev(sparse.eye(2), [0]).todense()
      Array([[0., 1.],
             [1., 0.]], dtype=float32)
    """
    b, s = operand.n_batch, operand.n_batch + operand.n_sparse
    data, indices = whole(operand)
    axes = {int(d) % operand.ndim for d in dimensions}
    batch = [d for d in sorted(axes) if d < b]
    dense = [d - s + b + 1 for d in sorted(axes) if d >= s]
    data, indices = rev(data, [*batch, *dense]), rev(indices, batch)
    sizes = parts(operand)[1]
    turned = np.array([b + k in axes for k in range(len(sizes))], bool)
    if turned.any():
        size = asarray(sizes, indices.dtype)
        inside = in_range(indices, sizes)[..., None]
        indices = where(inside & turned, size - 1 - indices, indices)
    return BCOO((data, indices), shape=operand.shape, unique_indices=operand.unique_indices)


@planned
def bcoo_gather(operand: BCOO, start_indices: Any, dimension_numbers: GatherDimensionNumbers,
                slice_sizes: Sequence[int], *, unique_indices: bool = False,
                indices_are_sorted: bool = False, mode: Any = None,
                fill_value: Any = None) -> BCOO:
    """lax.gather of a BCOO array: one slice for each row of indices.

    Args:
      operand: a BCOO array.
      start_indices: [*batch, n] integers.
      dimension_numbers: as lax.gather has them; without batching dimensions.
      slice_sizes: the size of each slice.
      unique_indices: accepted and not used.
      indices_are_sorted: accepted and not used.
      mode: "clip" or "promise_in_bounds" clamp indices; "fill" gives zeros.
      fill_value: 0 or None.

    Returns:
      A BCOO array with batch dimensions for those of start_indices, if they come first.

    Raises:
      NotImplementedError: fill_value is not 0, or dimensions are batched.

    Example:
      >>> import calque.numpy as jnp
      >>> from calque.experimental import sparse
      >>> sparse.eye(3)[jnp.array([2, 0])].todense()
      Array([[0., 0., 1.],
             [1., 0., 0.]], dtype=float32)
    """
    numbers, start = dimension_numbers, asarray(start_indices)
    n_index = start.ndim - 1
    offsets = list(numbers.offset_dims)
    leading = sorted(offsets) == list(range(n_index, n_index + len(offsets)))
    if getattr(numbers, "operand_batching_dims", ()) or fill_value not in (None, 0):
        raise NotImplementedError(explain(
            f"bcoo_gather: dimension_numbers={numbers} of a BCOO array with "
            f"fill_value={fill_value}.", fix="gather from todense()."))
    if not leading:
        operand = bcoo_update_layout(operand, n_batch=0)
    at = list(numbers.start_index_map)
    how = GatherScatterMode.from_any(mode)
    fill = how == GatherScatterMode.FILL_OR_DROP
    limits = [operand.shape[d] - slice_sizes[d] for d in at]

    def one(index: Any) -> BCOO:
        whole_start: list[Any] = [0] * operand.ndim
        for k, d in enumerate(at):
            whole_start[d] = clamp(0, index[k], limits[k])
        part = bcoo_dynamic_slice(operand, whole_start, slice_sizes)
        if fill:
            there = ((index >= 0) & (index <= asarray(limits, index.dtype))).all()
            part = part.with_data(where(there, part.data, 0 * part.data))
        return bcoo_squeeze(part, dimensions=numbers.collapsed_slice_dims)
    made: BCOO = batched(one, n_index)(start)
    return made if leading else _offsets_first(made, offsets, n_index)


def _offsets_first(mat: BCOO, offsets: Sequence[int], n_index: int) -> BCOO:
    """Index dimensions where the result of gather has them: all dimensions are sparse."""
    flat = bcoo_update_layout(mat, n_batch=0)
    if mat.n_dense:
        flat = bcoo_update_layout(flat, n_dense=0)
    rest = iter(range(n_index, mat.ndim))
    index = iter(range(n_index))
    order = [next(rest) if d in offsets else next(index) for d in range(mat.ndim)]
    return bcoo_transpose(flat, permutation=order)
