"""lax functions that make arrays: full, full_like, empty, iota, broadcasted_iota."""
from __future__ import annotations

from typing import Any

import numpy as np

from calque.core import dtypes
from calque.core.avals import aval_of, dtype_of, shape_of, varying_of
from calque.core.errors import explain
from calque.core.trace import Tracer
from calque.core.types import Shape
from calque.dispatch.eager import lazy_eval
from calque.dispatch.sharded.placing import beside, made_on
from calque.dispatch.tracing import ShapeDtypeStruct
from calque.lax.elementwise import convert
from calque.lax.operands import as_operand, as_sizes, given_dtype, user_dtype
from calque.primitives import shape as sh
from calque.primitives.collectives import pvary_p


def full(shape: Any, fill_value: Any, dtype: Any = None, *, sharding: Any = None) -> Any:
    """An array with every element equal to fill_value.

    Args:
      shape: sizes of the axes.
      fill_value: a scalar.
      dtype: the dtype; that of fill_value (weakly typed if that is) by default.
      sharding: where the array is put: a Sharding.

    Returns:
      An array of the shape and dtype.

    Raises:
      TypeError: fill_value is not a scalar.

    Example:
      >>> from calque import lax
      >>> lax.full((2,), 7.0, "float32")
      Array([7., 7.], dtype=float32)
    """
    sizes = as_sizes("full", shape)
    wanted = None if dtype is None else user_dtype("full", dtype)
    value = as_operand("full", fill_value if wanted is None else dtypes.filling(
        fill_value, wanted), 1)
    a = aval_of(value)
    if a.shape:
        raise TypeError(explain(
            f"full must be called with scalar fill_value, got fill_value.shape {a.shape}.",
            fix="use jnp.broadcast_to(fill_value, shape)."))
    weak = dtype is None and a.weak_type
    wanted = a.dtype if wanted is None else wanted
    if any(n < 0 for n in sizes):
        raise TypeError(explain(f"full: shape must be non-negative, got {sizes}."))
    return made_on("full", sharding, None, lambda: spread_scalar(value, sizes, wanted, weak), sizes)


def spread_scalar(value: Any, sizes: Shape, dtype: Any, weak: bool = False) -> Any:
    """A scalar as an array of a shape; NumPy and Python scalars are converted on the host."""
    if not hasattr(value, "aval"):
        value = host_scalar(value, dtype, weak)
    elif dtype_of(value) != dtype or aval_of(value).weak_type != weak:
        with lazy_eval("full"):
            return sh.broadcast_in_dim(convert(value, dtype, weak), sizes, ())
    if not sizes and hasattr(value, "aval"):
        return value
    return sh.broadcast_in_dim_p.bind(value, shape=sizes, broadcast_dimensions=(), sharding=None)


def host_scalar(value: Any, dtype: Any, weak: bool) -> Any:
    """A Python or NumPy scalar as a scalar of a dtype (a Python one when weak)."""
    if isinstance(value, (np.ndarray, np.generic)):
        value = value[()]  # type: ignore[index]
        if value.dtype == dtype and not weak:
            return value
    elif weak and dtypes.scalar_info(value) == (dtype, True):
        return value
    if dtype == np.bool_:
        return np.bool_(value != 0)
    if dtype.kind != "c" and isinstance(value, complex) and not isinstance(value, np.generic):
        raise TypeError(explain(
            f"full: the complex number {value} is no value of dtype {dtype.name}.",
            fix="use its .real, or a complex dtype."))
    if isinstance(value, int) and dtypes.is_integer(dtype):
        value = np.uint64(value % 2**64)  # integers wrap around, as in JAX
    made = dtypes.converted(value if isinstance(value, np.generic) else np.asarray(value), dtype)
    return made.item() if weak else made


def full_like(x: Any, fill_value: Any, dtype: Any = None, shape: Any = None,
              sharding: Any = None) -> Any:
    """An array like x with every element equal to fill_value.

    Args:
      x: an array, or anything with shape and dtype.
      fill_value: a scalar.
      dtype: the dtype; x's by default.
      shape: the shape; x's by default.
      sharding: where the array is put: a Sharding.

    Returns:
      An array of the shape and dtype.

    Raises:
      TypeError: fill_value is not a scalar.

    Example:
      >>> import numpy as np
      >>> from calque import lax
      >>> lax.full_like(np.zeros(2, "int32"), 7)
      Array([7, 7], dtype=int32)
    """
    sizes = tuple(np.shape(x)) if shape is None else as_sizes("full_like", shape)
    found, weak = dtypes.dtype_and_weak(x)
    if dtype is not None:
        found, weak = dtypes.canonical(dtype), False
    value = as_operand("full_like", dtypes.filling(fill_value, found), 1)
    if shape_of(value):
        raise TypeError(explain(
            f"full must be called with scalar fill_value, got fill_value.shape "
            f"{shape_of(value)}.", fix="use jnp.full_like, which broadcasts."))
    made = made_on("full_like", sharding, None,
                   lambda: spread_scalar(value, sizes, found, weak), sizes)
    return varying_as(x, beside(x, made) if sharding is None else made)


def varying_as(x: Any, made: Any) -> Any:
    """Inside shard_map: a new array that varies over the axes that x varies over."""
    more = varying_of(aval_of(x).vma) - aval_of(made).vma if (
        isinstance(x, (Tracer, ShapeDtypeStruct))) else None
    return pvary_p.bind(made, axes=tuple(sorted(more, key=str))) if more else made


def empty(shape: Any, dtype: Any, *, out_sharding: Any = None) -> Any:
    """An array of zeros whose values do not matter.

    Args:
      shape: sizes of the axes.
      dtype: the dtype.
      out_sharding: where the array is put: a Sharding.

    Returns:
      An array of the shape and dtype.

    Raises:
      TypeError: shape or dtype is not valid.

    Example:
      >>> from calque import lax
      >>> lax.empty((2,), "float32").shape
      (2,)
    """
    return full(shape, 0, dtype, sharding=out_sharding)


def iota(dtype: Any, size: int) -> Any:
    """0, 1, ..., size - 1.

    Args:
      dtype: an integer, float or complex dtype.
      size: the number of elements.

    Returns:
      An array of shape (size,).

    Raises:
      TypeError: dtype is no number's.

    Example:
      >>> from calque import lax
      >>> lax.iota("int32", 3)
      Array([0, 1, 2], dtype=int32)
    """
    return broadcasted_iota(dtype, (size,), 0)


def broadcasted_iota(dtype: Any, shape: Any, dimension: int, *, out_sharding: Any = None) -> Any:
    """The index along one axis, at every position of a shape.

    Args:
      dtype: an integer, float or complex dtype.
      shape: sizes of the axes.
      dimension: the axis that is counted.
      out_sharding: of the result, over Explicit axes: a NamedSharding, or a PartitionSpec over
        the context's mesh.

    Returns:
      An array of the shape and dtype.

    Raises:
      ValueError: dimension is no axis of shape.

    Example:
      >>> from calque import lax
      >>> lax.broadcasted_iota("int32", (2, 2), 0)
      Array([[0, 0],
             [1, 1]], dtype=int32)
    """
    if out_sharding is not None:
        return made_on("broadcasted_iota", None, out_sharding,
                       lambda: broadcasted_iota(dtype, shape, dimension))
    sizes = as_sizes("iota", shape)
    return sh.iota_p.bind(dtype=given_dtype("iota", dtype), shape=sizes, dimension=int(dimension),
                          sharding=None)


__all__ = ["broadcasted_iota", "empty", "full", "full_like", "iota"]
