"""lax functions that join, cut, pad, reverse and repeat arrays at static positions."""
from __future__ import annotations

import operator
from typing import Any

import numpy as np

from calque.core.avals import aval_of, dtype_of, ndim_of, shape_of
from calque.core.errors import explain
from calque.core.lists import inserted, replaced
from calque.dispatch.eager import lazy_eval
from calque.dispatch.replay import planned
from calque.lax.operands import as_operand, as_size, as_sizes, canonical_axis
from calque.lax.shape import broadcast_in_dim, reshape, squeeze, unchanged
from calque.primitives import shape as sh
from calque.transforms.explicit import is_explicit


def concatenate(operands: Any, dimension: int) -> Any:
    """Arrays joined along an axis.

    Args:
      operands: arrays of one dtype and rank, whose other axes agree.
      dimension: the axis to join.

    Returns:
      One array.

    Raises:
      TypeError: shapes or dtypes do not fit.
      ValueError: there are no operands.

    Example:
      >>> import numpy as np
      >>> from calque import lax
      >>> lax.concatenate([np.array([1, 2]), np.array([3])], 0)
      Array([1, 2, 3], dtype=int32)
    """
    values = [as_operand("concatenate", x, i) for i, x in enumerate(operands)]
    if not values:
        raise ValueError(explain("concatenate requires a non-empty sequences of arrays"))
    if len(values) == 1 and ndim_of(values[0]):
        return unchanged(values[0])
    return sh.concatenate_p.bind(*values, dimension=operator.index(dimension))


def slice(operand: Any, start_indices: Any, limit_indices: Any, strides: Any = None) -> Any:
    """The elements from start (inclusive) to limit (exclusive) with a stride, on each axis.

    Args:
      operand: any array.
      start_indices: the first index for each axis.
      limit_indices: the index after the last for each axis.
      strides: positive steps; 1 by default.

    Returns:
      An array of the same rank.

    Raises:
      TypeError: an index lies outside the operand.

    Example:
      >>> import numpy as np
      >>> from calque import lax
      >>> lax.slice(np.arange(6), (1,), (6,), (2,))
      Array([1, 3, 5], dtype=int32)
    """
    x = as_operand("slice", operand)
    starts = tuple(as_size("slice", s) for s in start_indices)
    limits = tuple(as_size("slice", s) for s in limit_indices)
    steps = None if strides is None else tuple(as_size("slice", s) for s in strides)
    shape = shape_of(x)
    if len(limits) == len(shape) and any(e > n for e, n in zip(limits, shape)):
        raise TypeError(explain(
            "slice limit_indices must be less than or equal to operand shape, got limit_indices "
            f"{limits} for operand shape {shape}."))
    if (starts == (0,) * len(shape) and limits == shape and steps in (None, (1,) * len(shape))):
        return unchanged(x)
    return sh.slice_(x, starts, limits, steps)


def slice_in_dim(operand: Any, start_index: int | None, limit_index: int | None, stride: int = 1,
                 axis: int = 0) -> Any:
    """slice along one axis; negative indices count from its end.

    Args:
      operand: any array.
      start_index: the first index; None for 0.
      limit_index: the index after the last; None for the size.
      stride: a positive step.
      axis: the axis.

    Returns:
      An array of the same rank.

    Raises:
      TypeError: an index lies outside the operand.

    Example:
      >>> import numpy as np
      >>> from calque import lax
      >>> lax.slice_in_dim(np.arange(5), 1, -1)
      Array([1, 2, 3], dtype=int32)
    """
    x = as_operand("slice_in_dim", operand)
    shape = shape_of(x)
    axis = canonical_axis(axis, len(shape))
    n = shape[axis]
    start = 0 if start_index is None else as_size("slice_in_dim", start_index)
    limit = n if limit_index is None else as_size("slice_in_dim", limit_index)
    start, limit = (i + n if i < 0 else i for i in (start, limit))
    ones = (1,) * len(shape)
    steps = None if stride == 1 else replaced(
        ones, axis, as_size("slice_in_dim", stride))
    return slice(x, replaced((0,) * len(shape), axis, start), replaced(shape, axis, limit), steps)


def index_in_dim(operand: Any, index: int, axis: int = 0, keepdims: bool = True) -> Any:
    """One index along an axis.

    Args:
      operand: any array.
      index: the index; negative counts from the end.
      axis: the axis.
      keepdims: keep the axis with size 1.

    Returns:
      An array with that axis of size 1, or without it.

    Raises:
      IndexError: the index lies outside the axis.

    Example:
      >>> import numpy as np
      >>> from calque import lax
      >>> lax.index_in_dim(np.arange(5), -1)
      Array([4], dtype=int32)
    """
    x = as_operand("index_in_dim", operand)
    shape = shape_of(x)
    axis = canonical_axis(axis, len(shape))
    i = as_size("index_in_dim", index)
    if not -shape[axis] <= i < shape[axis]:
        raise IndexError(explain(
            f"index {i} is out of bounds for axis {axis} with size {shape[axis]}"))
    i %= shape[axis]
    with lazy_eval("index_in_dim"):
        part = slice_in_dim(x, i, i + 1, 1, axis)
        return part if keepdims else squeeze(part, (axis,))


@planned
def split(operand: Any, sizes: Any, axis: int = 0) -> list[Any]:
    """Consecutive parts along an axis.

    Args:
      operand: any array.
      sizes: sizes of the parts; their sum is the axis's size.
      axis: the axis.

    Returns:
      A list of arrays.

    Raises:
      ValueError: the sizes do not sum up to the axis's size.

    Example:
      >>> import numpy as np
      >>> from calque import lax
      >>> lax.split(np.arange(3), (1, 2))
      [Array([0], dtype=int32), Array([1, 2], dtype=int32)]
    """
    x = as_operand("split", operand)
    shape = shape_of(x)
    axis = canonical_axis(axis, len(shape))
    parts = as_sizes("split", sizes)
    if sum(parts) != shape[axis] or any(p < 0 for p in parts):
        raise ValueError(explain(
            f"Sum of sizes {parts} must be equal to dimension {axis} of the operand shape {shape}",
            fix=f"choose sizes that sum up to {shape[axis]}."))
    ends = np.cumsum(parts).tolist()
    with lazy_eval("split"):
        return [slice_in_dim(x, e - p, e, 1, axis) for p, e in zip(parts, ends)]


def pad(operand: Any, padding_value: Any, padding_config: Any) -> Any:
    """operand with padding before, after and between its elements; negative padding crops.

    Args:
      operand: any array.
      padding_value: a scalar of operand's dtype.
      padding_config: (low, high, interior) for each axis.

    Returns:
      An array of the same rank.

    Raises:
      TypeError: dtypes or the configuration do not fit.
      ValueError: an axis would get a negative size.

    Example:
      >>> import numpy as np
      >>> from calque import lax
      >>> lax.pad(np.array([1, 2]), np.int32(0), [(1, 0, 1)])
      Array([0, 1, 0, 2], dtype=int32)
    """
    x, value = as_operand("pad", operand), as_operand("pad", padding_value, 1)
    a, b = aval_of(x), aval_of(value)
    if a.dtype != b.dtype:
        raise TypeError(explain(
            f"pad operand and padding_value must be same dtype: got {a.dtype.name} and "
            f"{b.dtype.name}.", fix="cast the padding value to the operand's dtype."))
    config = tuple(tuple(as_size("pad", v) for v in axis) for axis in padding_config)
    if any(interior < 0 for _, _, interior in config):
        raise ValueError(explain(
            f"interior padding in padding_config must be nonnegative, got {config}."))
    if len(config) == a.ndim:
        shape = tuple(sh.padded_size(n, *c) for n, c in zip(a.shape, config))
        if any(n < 0 for n in shape):
            raise ValueError(explain(
                f"Dimension size after padding is not at least 0, got result shape {shape}, for "
                f"padding_config {config} and operand shape {a.shape}.",
                fix="crop less than the axis has elements."))
    if len(config) == a.ndim and not b.ndim and not any(any(c) for c in config):
        return unchanged(x)
    return sh.pad_p.bind(x, value, padding_config=config)


def rev(operand: Any, dimensions: Any) -> Any:
    """operand with some axes reversed.

    Args:
      operand: any array.
      dimensions: the axes to reverse.

    Returns:
      An array of the same shape.

    Raises:
      TypeError: a dimension is no axis of operand.

    Example:
      >>> import numpy as np
      >>> from calque import lax
      >>> lax.rev(np.array([1, 2]), (0,))
      Array([2, 1], dtype=int32)
    """
    x = as_operand("rev", operand)
    axes = tuple(map(operator.index, dimensions))
    return sh.rev_p.bind(x, dimensions=axes) if axes else unchanged(x)


def tile(operand: Any, reps: Any) -> Any:
    """operand repeated reps[i] times along axis i.

    Args:
      operand: any array.
      reps: one count for each axis.

    Returns:
      An array of the same rank.

    Raises:
      ValueError: reps has another length than operand has axes.

    Example:
      >>> import numpy as np
      >>> from calque import lax
      >>> lax.tile(np.array([1, 2]), (2,))
      Array([1, 2, 1, 2], dtype=int32)
    """
    x = as_operand("tile", operand)
    shape = shape_of(x)
    counts = as_sizes("tile", reps)
    if len(counts) != len(shape):
        raise ValueError(explain(f"tile requires one count per axis, got {counts} for {shape}."))
    if all(c == 1 for c in counts):
        return unchanged(x)
    spread = [n for pair in zip(counts, shape) for n in pair]
    with lazy_eval("tile"):
        wide = broadcast_in_dim(x, spread, range(1, 2 * len(shape), 2))
        return reshape(wide, [c * n for c, n in zip(counts, shape)])


def stack(operands: Any, axis: int = 0) -> Any:
    """Arrays of one shape joined along a new axis.

    Args:
      operands: arrays of one dtype and shape.
      axis: where the new axis stands in the result.

    Returns:
      One array, of rank one more.

    Raises:
      TypeError: dtypes differ.
      ValueError: shapes differ, or the axis is none of the result's.
      IndexError: there are no operands.

    Example:
      >>> import numpy as np
      >>> from calque import lax
      >>> lax.stack([np.array([1, 2]), np.array([3, 4])], 1)
      Array([[1, 3],
             [2, 4]], dtype=int32)
    """
    values = [as_operand("stack", x, i) for i, x in enumerate(operands)]
    if not values:
        raise IndexError(explain("stack: list index out of range: there are no operands."))
    shapes = [shape_of(x) for x in values]
    if len(set(shapes)) > 1:
        raise ValueError(explain("All input arrays must have the same shape. Got "
                                 f"{', '.join(map(str, shapes))}."))
    kinds = [dtype_of(x).name for x in values]
    if len(set(kinds)) > 1:
        raise TypeError(explain("lax.stack requires arguments to have the same dtypes, got "
                                f"{', '.join(kinds)}.", fix="cast them with .astype(...)."))
    at = canonical_axis(axis, len(shapes[0]) + 1)
    wide = inserted(shapes[0], at, 1)
    with lazy_eval("stack"):
        return concatenate([reshape(x, wide) for x in values], at)


def unstack(x: Any, axis: int = 0) -> tuple[Any, ...]:
    """The parts of an array along an axis, which they lack.

    Args:
      x: array.
      axis: the axis.

    Returns:
      A tuple of arrays.

    Raises:
      TypeError: x is no array.
      ValueError: x has no such axis.

    Example:
      >>> import numpy as np
      >>> from calque import lax
      >>> lax.unstack(np.array([[1, 2], [3, 4]]))
      (Array([1, 2], dtype=int32), Array([3, 4], dtype=int32))
    """
    x = as_operand("unstack", x)
    shape = shape_of(x)
    at = canonical_axis(axis, len(shape))
    with lazy_eval("unstack"):
        return tuple(index_in_dim(x, i, at, keepdims=False) for i in range(shape[at]))


def broadcast_like(arr: Any, like_arr: Any) -> Any:
    """arr broadcast to the shape of another array.

    Args:
      arr: array or number.
      like_arr: array with the shape.

    Returns:
      An array of like_arr's shape and arr's dtype.

    Raises:
      TypeError: one is no array.
      ValueError: the shapes do not fit.

    Example:
      >>> import numpy as np
      >>> from calque import lax
      >>> lax.broadcast_like(np.array([1, 2]), np.zeros((2, 2)))
      Array([[1, 2],
             [1, 2]], dtype=int32)
    """
    x, like = as_operand("broadcast_like", arr), as_operand("broadcast_like", like_arr, 1)
    own, shape = shape_of(x), shape_of(like)
    first = len(shape) - len(own)
    if first < 0 or any(n not in (1, m) for n, m in zip(own, shape[first:])):
        raise ValueError(explain(
            f"Incompatible types for broadcasting: input type={aval_of(x).short()} and requested "
            f"type={aval_of(like).short()}", fix="reshape the input first."))
    kind = aval_of(like)
    if not is_explicit(kind):
        return broadcast_in_dim(x, shape, range(first, len(shape)))
    wanted, mine = kind.placement.spec.of_rank(len(shape)).axes(), aval_of(x)
    if is_explicit(mine) and any(
            axes and axes != wanted[first + i]
            for i, axes in enumerate(mine.placement.spec.of_rank(mine.ndim).axes())):
        raise ValueError(explain(
            f"Incompatible types for broadcasting: input type={mine.short()} and requested "
            f"type={kind.short()}", fix="calque.sharding.reshard the input first."))
    return broadcast_in_dim(x, shape, range(first, len(shape)), out_sharding=kind.placement)


__all__ = ["broadcast_like", "concatenate", "index_in_dim", "pad", "rev", "slice", "slice_in_dim",
           "split", "stack", "tile", "unstack"]
