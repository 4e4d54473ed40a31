"""lax.gather, lax.index_take and the record types of gather and scatter."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from calque.core import dtypes
from calque.core.avals import dtype_of, ndim_of, shape_of
from calque.core.errors import explain
from calque.dispatch.eager import lazy_eval
from calque.lax.index import wrap_negative
from calque.lax.operands import as_operand, as_sizes
from calque.primitives import elementwise as ew
from calque.primitives import gather as ga
from calque.primitives import shape as sh
from calque.primitives.gather import (
    GatherDimensionNumbers,
    GatherScatterMode,
    ScatterDimensionNumbers,
)


def parse_mode(name: str, mode: Any, default: GatherScatterMode) -> GatherScatterMode:
    """The mode of a gather or scatter; one_hot is a form of jnp indexing only."""
    parsed = default if mode is None else GatherScatterMode.from_any(mode)
    if parsed is GatherScatterMode.ONE_HOT:
        raise NotImplementedError(
            explain(
                f"{name}: mode 'one_hot' is not available.",
                fix="use 'fill' (the same values), 'clip' or 'promise_in_bounds'.",
            )
        )
    return parsed


def python_fill(fill_value: Any, dtype: Any) -> Any:
    """A fill value as a Python scalar that a Program can hold; None: the dtype's own."""
    if fill_value is None:
        return ga.default_fill(dtype)
    if type(fill_value) is int:
        if dtypes.is_inexact(dtype):
            return float(fill_value)
        dtypes.check_fits(dtypes.held(fill_value, dtype))
        return fill_value
    x = as_operand("gather", fill_value)
    if shape_of(x):
        raise ValueError(
            explain(f"gather: fill_value must be a scalar, got shape {shape_of(x)}.")
        )
    value = np.asarray(x)[()]
    if dtypes.is_key(dtype):
        return 0
    if value.dtype.kind == "V" or (dtype.kind in "fV" and value.dtype.kind != "c"):
        return float(value)
    return value.item()


def gather(
    operand: Any,
    start_indices: Any,
    dimension_numbers: GatherDimensionNumbers,
    slice_sizes: Any,
    *,
    unique_indices: bool = False,
    indices_are_sorted: bool = False,
    mode: Any = None,
    fill_value: Any = None,
) -> Any:
    """Windows of an array at positions that an index array holds (XLA's gather).

    Args:
      operand: any array.
      start_indices: integers; vectors along the last axis, one entry for each of start_index_map.
      dimension_numbers: GatherDimensionNumbers, which says what axis is what.
      slice_sizes: the window's size on each axis of the operand (static).
      unique_indices: a promise that no window occurs twice.
      indices_are_sorted: a promise that the index vectors are in ascending order.
      mode: 'clip' (windows are moved inside), 'fill' (those outside become fill_value) or
        'promise_in_bounds' (the default; positions that break the promise are clipped).
      fill_value: scalar for mode 'fill'; by default NaN, the smallest signed or the largest
        unsigned integer, or True.

    Returns:
      An array of operand's dtype: axes of the indices but the last, with the window's axes at
      offset_dims.

    Raises:
      TypeError: shapes, sizes and dimension numbers do not fit each other.
      ValueError: the indices are no integers, or the mode is unknown.

    Example:
      >>> import numpy as np
      >>> from calque import lax
      >>> rows = lax.GatherDimensionNumbers(
      ...     offset_dims=(1,), collapsed_slice_dims=(0,), start_index_map=(0,))
      >>> lax.gather(np.arange(6).reshape(3, 2), np.array([[2], [0]]), rows, (1, 2))
      Array([[4, 5],
             [0, 1]], dtype=int32)
    """
    x, indices = as_operand("gather", operand), as_operand("gather", start_indices, 1)
    parsed = parse_mode("gather", mode, GatherScatterMode.PROMISE_IN_BOUNDS)
    dtype = dtype_of(x)
    fill = python_fill(fill_value, dtype) if parsed is GatherScatterMode.FILL_OR_DROP else None
    numbers = GatherDimensionNumbers(*[tuple(map(int, dims)) for dims in dimension_numbers])
    return ga.gather(
        x,
        indices,
        numbers,
        as_sizes("gather", slice_sizes),
        mode=parsed,
        fill_value=fill,
        indices_are_sorted=bool(indices_are_sorted),
        unique_indices=bool(unique_indices),
    )


def _modulo(index: Any, size: int) -> Any:
    """index mod size, at least 0."""
    kind = dtype_of(index)
    rest = ew.rem(index, kind.type(max(1, min(size, dtypes.iinfo(kind).max))))
    return rest if dtypes.is_unsigned(kind) else wrap_negative(rest, size)


def index_take(src: Any, idxs: Any, axes: Sequence[int]) -> Any:
    """Elements of src at one index array for each of some axes: src[..., i, ..., j, ...].

    Args:
      src: any array.
      idxs: integer vectors of one length (a sequence, or an array with one row for each axis),
        taken modulo the size of their axis.
      axes: the axis for each index vector.

    Returns:
      An array with the index's axis first, then src's other axes.

    Raises:
      TypeError: indices and axes do not fit.

    Example:
      >>> import numpy as np
      >>> from calque import lax
      >>> lax.index_take(np.arange(6).reshape(3, 2), (np.array([2, 0]),), (0,))
      Array([[4, 5],
             [0, 1]], dtype=int32)
    """
    x = as_operand("index_take", src)
    shape = shape_of(x)
    with lazy_eval("index_take"):
        columns = []
        for i, axis in zip(idxs, axes, strict=True):
            index = _modulo(as_operand("index_take", i, 1), shape[axis])
            columns.append(
                sh.broadcast_in_dim(index, (*shape_of(index), 1), range(ndim_of(index)))
            )
        kind = dtypes.promote([(dtype_of(c), False) for c in columns])[0]
        columns = [ew.convert(c, kind) for c in columns]
        vectors = columns[0] if len(columns) == 1 else sh.concatenate(columns, 1)
        taken = tuple(sorted(int(a) for a in axes))
        sizes = [1 if a in taken else n for a, n in enumerate(shape)]
        numbers = GatherDimensionNumbers(
            tuple(range(1, len(shape) - len(taken) + 1)), taken, tuple(map(int, axes))
        )
        return gather(x, vectors, numbers, sizes, mode="promise_in_bounds")


__all__ = [
    "GatherDimensionNumbers",
    "GatherScatterMode",
    "ScatterDimensionNumbers",
    "gather",
    "index_take",
]
