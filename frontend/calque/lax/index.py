"""lax slices and updates at traced positions.

Start indices below 0 count from the end (unless allow_negative_indices=False); then the window is
clamped into the operand.
"""
from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np

from calque.core import dtypes
from calque.core.avals import aval_of, dtype_of, ndim_of, shape_of
from calque.core.config import config
from calque.core.dims import Dim, is_far, min_dim, number
from calque.core.errors import explain
from calque.core.lists import replaced
from calque.core.trace import Tracer
from calque.core.types import Shape
from calque.dispatch.eager import lazy_eval
from calque.lax.operands import as_operand, as_size, as_sizes, canonical_axis
from calque.lax.shape import expand_dims, squeeze
from calque.primitives import elementwise as ew
from calque.primitives import index as ix
from calque.transforms.vmap import BatchTracer

F = TypeVar("F", bound=Callable[..., Any])


def counting_far(f: F) -> F:
    """f(x, ...), whose positions are int64, also without x64, where int32 does not count so far."""
    @functools.wraps(f)
    def wrapped(x: Any, *args: Any, **kwargs: Any) -> Any:
        if not is_far(getattr(x, "shape", ())):
            return f(x, *args, **kwargs)
        with config.context("jax_enable_x64", True):
            return f(x, *args, **kwargs)
    return wrapped  # type: ignore[return-value]


def _start(name: str, index: Any, size: int, negative: bool) -> Any:
    """One start index; concrete ones are Python-side int32 (or wider) scalars."""
    x = as_operand(name, index)
    a = aval_of(x)
    if isinstance(x, BatchTracer) and not dtypes.is_integer(a.dtype):
        raise ValueError(explain("indices must have an integer type",
                                 fix=f"convert the indices of {name} with .astype(int)."))
    if a.shape or not dtypes.is_integer(a.dtype):
        raise TypeError(explain(
            f"{name}: index arguments must be integers of shape (), got {a.short()}.",
            fix="pass one integer scalar for each axis."))
    if isinstance(x, Tracer) or hasattr(x, "aval"):
        return wrap_negative(x, size) if negative and not dtypes.is_unsigned(a.dtype) else x
    value = int(x)
    kind = np.int32 if isinstance(size, Dim) or -2**31 <= size < 2**31 else np.int64
    if value.bit_length() > 31 and a.dtype == np.int32 and kind is np.int32:
        value = int(np.int64(value).astype(np.int32))  # wraps, as any conversion does
    if negative and value < 0:
        value += size
    limits = np.iinfo(kind)
    return kind(min(max(value, limits.min), limits.max))


def wrap_negative(index: Any, size: int) -> Any:
    """A traced index, counted from the end where it is negative."""
    if dtypes.is_small(dtype_of(index)):
        index = ew.convert(index, dtypes.int32)
    dtype = dtype_of(index)
    zero, shift = dtype.type(0), number(min_dim(size, int(np.iinfo(dtype).max)), dtype)
    return ew.select_n(ew.lt(index, zero), index, ew.add(index, shift))


def _starts(name: str, indices: Any, shape: Shape, negative: Any) -> list[Any]:
    """The start indices of a sequence or an integer vector."""
    if hasattr(indices, "shape") and len(indices.shape) == 1:
        indices = [indices[i] for i in range(indices.shape[0])]
    elif not isinstance(indices, (list, tuple)):
        indices = list(indices)
    if len(indices) != len(shape):
        raise ValueError(explain(
            f"{name}: start_indices must have one entry per axis of the operand, got "
            f"{len(indices)} for shape {shape}.", fix="pass 0 for the axes that are kept whole."))
    kinds = {dtype_of(as_operand(name, i)) for i in indices}
    if len(kinds) > 1 and all(map(dtypes.is_integer, kinds)):
        raise TypeError(explain(
            f"index arguments to {name} must be integers of the same type, got "
            + ", ".join(dtype_of(as_operand(name, i)).name for i in indices),
            fix="convert them to one integer type."))
    if is_far(shape):
        indices = [ew.convert(i, np.dtype(np.int64)) if hasattr(i, "aval") else i for i in indices]
    elif any(_is_narrow(i, n) for i, n in zip(indices, shape)):
        indices = [ew.convert(i, dtypes.int32) if hasattr(i, "aval") else i for i in indices]
    flags = [negative] * len(shape) if isinstance(negative, bool) else list(negative)
    traced = {dtype_of(i) for i in indices if hasattr(i, "aval")}
    starts = [_start(name, i, n, f) for i, n, f in zip(indices, shape, flags)]
    if len(traced) == 1:  # one index dtype for all, as the primitives print
        kind = traced.pop()
        starts = [kind.type(s) if isinstance(s, np.generic) and 0 <= s <= np.iinfo(kind).max else s  # type: ignore[operator]
                  for s in starts]
    return starts


def _is_narrow(index: Any, size: Any) -> bool:
    """Whether a traced index may count from the end of an axis that its dtype cannot say the size
    of (XLA wraps that size around)."""
    return hasattr(index, "aval") and index.aval.dtype.kind == "i" and (
        index.aval.dtype.itemsize < 4 and isinstance(size, int)
        and size > np.iinfo(index.aval.dtype).max)


def _along(name: str, index: Any, axis: int, rank: int) -> list[Any]:
    """Starts that are 0 but on one axis, all of the index's dtype."""
    zero = dtype_of(as_operand(name, index)).type(0)
    return [index if i == axis else zero for i in range(rank)]


@counting_far
def dynamic_slice(operand: Any, start_indices: Any, slice_sizes: Any, *,
                  allow_negative_indices: bool | Sequence[bool] = True) -> Any:
    """A window of static size at a traced position.

    Args:
      operand: any array.
      start_indices: one integer scalar for each axis, or an integer vector.
      slice_sizes: the window's shape (static).
      allow_negative_indices: whether negative starts count from the end.

    Returns:
      An array of shape slice_sizes; the window is moved into the operand where it overhangs.

    Raises:
      TypeError: the window is larger than the operand, or an index is not an integer scalar.

    Example:
      >>> import numpy as np
      >>> from calque import lax
      >>> lax.dynamic_slice(np.arange(5), (1,), (2,))
      Array([1, 2], dtype=int32)
    """
    x = as_operand("dynamic_slice", operand)
    sizes = as_sizes("dynamic_slice", slice_sizes)
    with lazy_eval("dynamic_slice"):
        starts = _starts("dynamic_slice", start_indices, shape_of(x), allow_negative_indices)
        return ix.dynamic_slice(x, starts, sizes) if sizes else x


def dynamic_slice_in_dim(operand: Any, start_index: Any, slice_size: int, axis: int = 0, *,
                         allow_negative_indices: bool = True) -> Any:
    """dynamic_slice along one axis.

    Args:
      operand: any array.
      start_index: an integer scalar.
      slice_size: the window's size (static).
      axis: the axis.
      allow_negative_indices: whether a negative start counts from the end.

    Returns:
      An array of the same rank.

    Raises:
      TypeError: the window is larger than the axis.

    Example:
      >>> import numpy as np
      >>> from calque import lax
      >>> lax.dynamic_slice_in_dim(np.arange(5), 3, 2)
      Array([3, 4], dtype=int32)
    """
    x = as_operand("dynamic_slice_in_dim", operand)
    shape = shape_of(x)
    axis = canonical_axis(axis, len(shape))
    starts = _along("dynamic_slice_in_dim", start_index, axis, len(shape))
    sizes = replaced(shape, axis, as_size("dynamic_slice_in_dim", slice_size))
    return dynamic_slice(x, starts, sizes, allow_negative_indices=allow_negative_indices)


@counting_far
def dynamic_index_in_dim(operand: Any, index: Any, axis: int = 0, keepdims: bool = True, *,
                         allow_negative_indices: bool = True) -> Any:
    """One traced index along an axis.

    Args:
      operand: any array.
      index: an integer scalar.
      axis: the axis.
      keepdims: keep the axis with size 1.
      allow_negative_indices: whether a negative index counts from the end.

    Returns:
      An array with that axis of size 1, or without it.

    Raises:
      TypeError: the index is not an integer scalar.

    Example:
      >>> import numpy as np
      >>> from calque import lax
      >>> lax.dynamic_index_in_dim(np.arange(5), 3, keepdims=False)
      Array(3, dtype=int32)
    """
    dtypes.check_fits(index)
    with lazy_eval("dynamic_index_in_dim"):
        part = dynamic_slice_in_dim(operand, index, 1, axis,
                                    allow_negative_indices=allow_negative_indices)
        return part if keepdims else squeeze(part, (axis,))


@counting_far
def dynamic_update_slice(operand: Any, update: Any, start_indices: Any, *,
                         allow_negative_indices: bool | Sequence[bool] = True) -> Any:
    """operand with a window at a traced position replaced.

    Args:
      operand: any array.
      update: array of the same dtype and rank, nowhere larger.
      start_indices: one integer scalar for each axis, or an integer vector.
      allow_negative_indices: whether negative starts count from the end.

    Returns:
      An array of operand's shape; the window is moved into the operand where it overhangs.

    Raises:
      TypeError: shapes, dtypes or indices do not fit.

    Example:
      >>> import numpy as np
      >>> from calque import lax
      >>> lax.dynamic_update_slice(np.zeros(4, "int32"), np.array([7, 8]), (1,))
      Array([0, 7, 8, 0], dtype=int32)
    """
    x = as_operand("dynamic_update_slice", operand)
    new = as_operand("dynamic_update_slice", update, 1)
    a, b = aval_of(x), aval_of(new)
    if a.ndim != b.ndim:
        raise TypeError(explain(
            "dynamic_update_slice update must have the same rank as operand, got update shape "
            f"{b.shape} for operand shape {a.shape}.", fix="add axes to the update."))
    with lazy_eval("dynamic_update_slice"):
        starts = _starts("dynamic_update_slice", start_indices, a.shape, allow_negative_indices)
        return ix.dynamic_update_slice(x, new, starts)


def dynamic_update_slice_in_dim(operand: Any, update: Any, start_index: Any, axis: int, *,
                                allow_negative_indices: bool = True) -> Any:
    """dynamic_update_slice along one axis.

    Args:
      operand: any array.
      update: array of the same dtype and rank, or a scalar.
      start_index: an integer scalar.
      axis: the axis.
      allow_negative_indices: whether a negative start counts from the end.

    Returns:
      An array of operand's shape.

    Raises:
      TypeError: shapes or dtypes do not fit.

    Example:
      >>> import numpy as np
      >>> from calque import lax
      >>> lax.dynamic_update_slice_in_dim(np.zeros(4, "int32"), np.array([7, 8]), 1, 0)
      Array([0, 7, 8, 0], dtype=int32)
    """
    x = as_operand("dynamic_update_slice_in_dim", operand)
    ndim = ndim_of(x)
    axis = canonical_axis(axis, ndim)
    starts = _along("dynamic_update_slice_in_dim", start_index, axis, ndim)
    return dynamic_update_slice(x, update, starts, allow_negative_indices=allow_negative_indices)


def dynamic_update_index_in_dim(operand: Any, update: Any, index: Any, axis: int, *,
                                allow_negative_indices: bool = True) -> Any:
    """operand with one index along an axis replaced.

    Args:
      operand: any array.
      update: array without that axis, or with size 1 there; same dtype.
      index: an integer scalar.
      axis: the axis.
      allow_negative_indices: whether a negative index counts from the end.

    Returns:
      An array of operand's shape.

    Raises:
      TypeError: shapes or dtypes do not fit.

    Example:
      >>> import numpy as np
      >>> from calque import lax
      >>> lax.dynamic_update_index_in_dim(np.zeros(3, "int32"), np.int32(7), 1, 0)
      Array([0, 7, 0], dtype=int32)
    """
    dtypes.check_fits(index)
    x = as_operand("dynamic_update_index_in_dim", operand)
    new = as_operand("dynamic_update_index_in_dim", update, 1)
    axis = canonical_axis(axis, ndim_of(x))
    with lazy_eval("dynamic_update_index_in_dim"):
        if ndim_of(new) != ndim_of(x):
            new = expand_dims(new, (axis,))
        return dynamic_update_slice_in_dim(x, new, index, axis,
                                           allow_negative_indices=allow_negative_indices)


__all__ = ["dynamic_index_in_dim", "dynamic_slice", "dynamic_slice_in_dim",
           "dynamic_update_index_in_dim", "dynamic_update_slice", "dynamic_update_slice_in_dim"]
