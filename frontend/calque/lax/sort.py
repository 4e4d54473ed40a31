"""lax functions that order elements: sort, sort_key_val, top_k, approx_max_k, approx_min_k."""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from calque.core import dtypes
from calque.core.avals import aval_of, ndim_of
from calque.core.errors import explain
from calque.dispatch.eager import lazy_eval
from calque.lax.operands import as_operand, as_size, canonical_axis
from calque.primitives import elementwise as ew
from calque.primitives import sort as so


def _array(name: str, x: Any, position: int = 0) -> Any:
    if not hasattr(x, "shape"):
        raise AttributeError(explain(
            f"{name}: '{type(x).__name__}' object has no attribute 'shape'.",
            fix="pass an array, or a sequence of arrays."))
    return as_operand(name, x, position)


def sort(operand: Any, dimension: int = -1, is_stable: bool = True, num_keys: int = 1) -> Any:
    """The elements along an axis in ascending order; several arrays are ordered together.

    NaN comes last, -0 equals 0, complex numbers are ordered by real, then by imaginary part.

    Args:
      operand: an array, or a sequence of arrays of one shape.
      dimension: the axis; negative ones count from the last.
      is_stable: accepted; equal elements always keep their order.
      num_keys: how many of the arrays decide, the first one first.

    Returns:
      An array, or a tuple of arrays, of the operands' shapes and dtypes.

    Raises:
      AttributeError: the operand is no array.
      TypeError: there is no operand, or shapes differ.
      ValueError: the axis is out of bounds, or num_keys is not between 1 and their number.

    Example:
      >>> import numpy as np
      >>> from calque import lax
      >>> lax.sort((np.array([3, 1, 2]), np.array([5, 6, 7])))
      (Array([1, 2, 3], dtype=int32), Array([6, 7, 5], dtype=int32))
    """
    if isinstance(operand, Sequence):
        if not operand:
            raise TypeError(explain("Sort requires at least one operand"))
        xs = [_array("sort", x, i) for i, x in enumerate(operand)]
        if not 1 <= num_keys <= len(xs):
            raise ValueError(explain(
                f"num_keys={num_keys} must be between 1 and len(operand)={len(xs)}"))
        axis = canonical_axis(dimension, ndim_of(xs[0]))
        return tuple(so.sort(xs, axis, num_keys=int(num_keys), is_stable=bool(is_stable)))
    if num_keys != 1:
        raise ValueError(explain(f"num_keys={num_keys} must equal 1 for a single operand."))
    x = _array("sort", operand)
    axis = canonical_axis(dimension, ndim_of(x))
    return so.sort([x], axis, is_stable=bool(is_stable))[0]


def sort_key_val(keys: Any, values: Any, dimension: int = -1, is_stable: bool = True) -> Any:
    """Keys in ascending order along an axis, and values in the order of the keys.

    Args:
      keys: array.
      values: array of the same shape.
      dimension: the axis; negative ones count from the last.
      is_stable: accepted; equal keys always keep their order.

    Returns:
      (keys, values), sorted.

    Raises:
      TypeError: the shapes differ.
      ValueError: the axis is out of bounds.

    Example:
      >>> import numpy as np
      >>> from calque import lax
      >>> lax.sort_key_val(np.array([3, 1, 2]), np.array([5, 6, 7]))
      (Array([1, 2, 3], dtype=int32), Array([6, 7, 5], dtype=int32))
    """
    return sort((keys, values), dimension, is_stable, 1)


def top_k(operand: Any, k: int, *, axis: int = -1) -> list[Any]:
    """The k largest elements along an axis, the largest first, and their positions.

    NaN counts as larger than all others; of equal elements the one of lower position comes first.

    Args:
      operand: array of bool, integer or float dtype.
      k: how many (static).
      axis: the axis; negative ones count from the last.

    Returns:
      [values, positions]: arrays with k elements along the axis; positions are int32.

    Raises:
      ValueError: k is negative or larger than the axis, the axis is out of bounds, or the operand
        is complex.

    Example:
      >>> import numpy as np
      >>> from calque import lax
      >>> lax.top_k(np.array([3, 1, 2]), 2)
      [Array([3, 2], dtype=int32), Array([0, 2], dtype=int32)]
    """
    x = as_operand("top_k", operand)
    if k < 0:
        raise ValueError(explain(f"k argument to top_k must be nonnegative, got {k}"))
    return so.top_k(x, as_size("top_k", k), canonical_axis(axis, ndim_of(x)))


def _approx(name: str, operand: Any, k: int, dimension: int, negate: bool) -> list[Any]:
    x = as_operand(name, operand)
    aval = aval_of(x)
    if not dtypes.is_float(aval.dtype):
        raise ValueError(explain("operand must be a floating type",
                                 fix="use lax.top_k, or convert it with .astype(float)."))
    if k < 0:
        raise ValueError(explain(f"k must be positive and in range, got {k}"))
    axis = canonical_axis(dimension, aval.ndim)
    if k > aval.shape[axis]:
        raise ValueError(explain(
            f"k must be smaller than the size of reduction_dim {axis}, got {k} and "
            f"{aval.shape[axis]}"))
    with lazy_eval(name):
        if not negate:
            return so.top_k(x, as_size(name, k), axis)
        values, positions = so.top_k(ew.neg(x), as_size(name, k), axis)
        return [ew.neg(values), positions]


def approx_max_k(operand: Any, k: int, reduction_dimension: int = -1, recall_target: float = 0.95,
                 reduction_input_size_override: int = -1,
                 aggregate_to_topk: bool = True) -> list[Any]:
    """The k largest elements along an axis and their positions, exactly.

    Args:
      operand: array of float dtype.
      k: how many (static).
      reduction_dimension: the axis; negative ones count from the last.
      recall_target: accepted; the results are exact.
      reduction_input_size_override: accepted.
      aggregate_to_topk: accepted; exactly k are returned.

    Returns:
      [values, positions]: arrays with k elements along the axis; positions are int32.

    Raises:
      ValueError: the operand is no float array, or k or the axis is out of bounds.

    Example:
      >>> import numpy as np
      >>> from calque import lax
      >>> lax.approx_max_k(np.array([3.0, 1.0, 2.0]), 2)
      [Array([3., 2.], dtype=float32), Array([0, 2], dtype=int32)]
    """
    return _approx("approx_max_k", operand, k, reduction_dimension, False)


def approx_min_k(operand: Any, k: int, reduction_dimension: int = -1, recall_target: float = 0.95,
                 reduction_input_size_override: int = -1,
                 aggregate_to_topk: bool = True) -> list[Any]:
    """The k smallest elements along an axis and their positions, exactly.

    Args:
      operand: array of float dtype.
      k: how many (static).
      reduction_dimension: the axis; negative ones count from the last.
      recall_target: accepted; the results are exact.
      reduction_input_size_override: accepted.
      aggregate_to_topk: accepted; exactly k are returned.

    Returns:
      [values, positions]: arrays with k elements along the axis; positions are int32.

    Raises:
      ValueError: the operand is no float array, or k or the axis is out of bounds.

    Example:
      >>> import numpy as np
      >>> from calque import lax
      >>> lax.approx_min_k(np.array([3.0, 1.0, 2.0]), 2)
      [Array([1., 2.], dtype=float32), Array([1, 2], dtype=int32)]
    """
    return _approx("approx_min_k", operand, k, reduction_dimension, True)


__all__ = ["approx_max_k", "approx_min_k", "sort", "sort_key_val", "top_k"]
