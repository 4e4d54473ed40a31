"""Reductions that leave NaN out: nansum, nanprod, nanmax, nanmin, nanmean, nanvar, nanstd,
nanargmax, nanargmin.  Start reading at `_without_nan`.
"""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

from calque.core import dtypes
from calque.core.avals import dtype_of, shape_of
from calque.core.errors import explain
from calque.core.types import Function
from calque.numpy import means, util
from calque.numpy import reductions as rd
from calque.numpy.arithmetic import choose, full_constant
from calque.primitives import elementwise as ew


def _without_nan(name: str, a: Any, value: Callable[[Any], Any]) -> tuple[Any, Any]:
    """(a with NaN replaced, where it is NaN); (a, None) where the dtype has none."""
    x = util.one_array(name, a)
    dtype = dtype_of(x)
    if not dtypes.is_inexact(dtype):
        return x, None
    x = util.array(x)
    nan = ew.ne(x, x)
    return choose(nan, dtype.type(value(dtype)), x), nan


@util.planned
def nansum(a: Any, axis: Any = None, dtype: Any = None, out: None = None, keepdims: bool = False,
           initial: Any = None, where: Any = None) -> Any:
    """Sum of the elements along axes, NaN left out.

    Args:
      a: array or scalar.
      axis: an axis or several; None for all.
      dtype: the dtype of the result and of the accumulation.
      out: not supported.
      keepdims: keep the reduced axes with size 1.
      initial: a scalar that the result starts from.
      where: bool array; only the elements where it holds count.

    Returns:
      An array without the reduced axes.

    Raises:
      TypeError: a is not an array (lists are not accepted).
      ValueError: an axis is out of bounds or repeated.

    Example:
      >>> import calque.numpy as jnp
      >>> jnp.nansum(jnp.array([1.0, jnp.nan, 3.0]))
      Array(4., dtype=float32)
    """
    x, _ = _without_nan("nansum", a, lambda d: 0)
    return rd.sum(x, axis, dtype, out, keepdims, initial, where)


@util.planned
def nanprod(a: Any, axis: Any = None, dtype: Any = None, out: None = None, keepdims: bool = False,
            initial: Any = None, where: Any = None) -> Any:
    """Product of the elements along axes, NaN left out.

    Args:
      a: array or scalar.
      axis: an axis or several; None for all.
      dtype: the dtype of the result and of the accumulation.
      out: not supported.
      keepdims: keep the reduced axes with size 1.
      initial: a scalar that the result starts from.
      where: bool array; only the elements where it holds count.

    Returns:
      An array without the reduced axes.

    Raises:
      TypeError: a is not an array (lists are not accepted).
      ValueError: an axis is out of bounds or repeated.

    Example:
      >>> import calque.numpy as jnp
      >>> jnp.nanprod(jnp.array([1.0, jnp.nan, 3.0]))
      Array(3., dtype=float32)
    """
    x, _ = _without_nan("nanprod", a, lambda d: 1)
    return rd.prod(x, axis, dtype, out, keepdims, initial, where)


def _extremum(name: str, reduce: Function, edge: Callable[[Any], Any], a: Any, axis: Any,
              out: Any, keepdims: Any, initial: Any, where: Any) -> Any:
    x, nan = _without_nan(name, a, edge)
    made = reduce(x, axis, out, keepdims, initial, where)
    if nan is None or initial is not None:
        return made
    return choose(rd.all(nan, axis, None, keepdims), dtype_of(made).type(float("nan")), made)


@util.planned
def nanmax(a: Any, axis: Any = None, out: None = None, keepdims: bool = False, initial: Any = None,
           where: Any = None) -> Any:
    """Largest element along axes, NaN left out.

    Args:
      a: array or scalar.
      axis: an axis or several; None for all.
      out: not supported.
      keepdims: keep the reduced axes with size 1.
      initial: a scalar that the result starts from.
      where: bool array; only the elements where it holds count.

    Returns:
      An array without the reduced axes; NaN where all elements are.

    Raises:
      TypeError: a is not an array (lists are not accepted).
      ValueError: an axis is out of bounds or repeated, or a reduced axis is empty and there is no
        initial.

    Example:
      >>> import calque.numpy as jnp
      >>> jnp.nanmax(jnp.array([1.0, jnp.nan, 3.0]))
      Array(3., dtype=float32)
    """
    return _extremum("nanmax", rd.max, rd.lowest, a, axis, out, keepdims, initial, where)


@util.planned
def nanmin(a: Any, axis: Any = None, out: None = None, keepdims: bool = False, initial: Any = None,
           where: Any = None) -> Any:
    """Smallest element along axes, NaN left out.

    Args:
      a: array or scalar.
      axis: an axis or several; None for all.
      out: not supported.
      keepdims: keep the reduced axes with size 1.
      initial: a scalar that the result starts from.
      where: bool array; only the elements where it holds count.

    Returns:
      An array without the reduced axes; NaN where all elements are.

    Raises:
      TypeError: a is not an array (lists are not accepted).
      ValueError: an axis is out of bounds or repeated, or a reduced axis is empty and there is no
        initial.

    Example:
      >>> import calque.numpy as jnp
      >>> jnp.nanmin(jnp.array([1.0, jnp.nan, 3.0]))
      Array(1., dtype=float32)
    """
    return _extremum("nanmin", rd.min, rd.highest, a, axis, out, keepdims, initial, where)


def _kept(name: str, x: Any, where: Any) -> Any:
    """Where an element counts: not NaN, and where the mask holds."""
    good = ew.eq(x, x)
    if where is None:
        return good
    return ew.and_(good, util.broadcast_to(rd.where_mask(name, where), shape_of(x)))


@util.planned
def nanmean(a: Any, axis: Any = None, dtype: Any = None, out: None = None, keepdims: bool = False,
            where: Any = None) -> Any:
    """Arithmetic mean along axes, NaN left out.

    Args:
      a: array or scalar.
      axis: an axis or several; None for all.
      dtype: the dtype of the result and of the accumulation.
      out: not supported.
      keepdims: keep the reduced axes with size 1.
      where: bool array; only the elements where it holds count.

    Returns:
      An array without the reduced axes; NaN where no element is left.

    Raises:
      TypeError: a is not an array (lists are not accepted).
      ValueError: an axis is out of bounds or repeated.

    Example:
      >>> import calque.numpy as jnp
      >>> jnp.nanmean(jnp.array([1.0, jnp.nan, 3.0]))
      Array(2., dtype=float32)
    """
    util.refuse_out("nanmean", out)
    x = util.one_array("nanmean", a)
    if not dtypes.is_inexact(dtype_of(x)):
        return means.mean(x, axis, dtype, None, keepdims, where=where)
    x = util.array(x)
    return means.mean(x, axis, dtype, None, keepdims, where=_kept("nanmean", x, where))


def _nanvar(name: str, a: Any, axis: Any, dtype: Any, ddof: Any, keepdims: Any, where: Any,
            mean: Any) -> Any:
    x = util.one_array(name, a)
    if not dtypes.is_inexact(dtype_of(x)):
        return means.var(x, axis, dtype, None, ddof, keepdims, where=where, mean=mean)
    x = util.array(x)
    kept = _kept(name, x, where)
    x = choose(ew.eq(x, x), x, full_constant(x, 0))  # or derivatives would be 0 * NaN
    return means.var(x, axis, dtype, None, ddof, keepdims, where=kept, mean=mean)


@util.planned
def nanvar(a: Any, axis: Any = None, dtype: Any = None, out: None = None, ddof: Any = 0,
           keepdims: bool = False, where: Any = None, mean: Any = None) -> Any:
    """Variance along axes, NaN left out.

    Args:
      a: array or scalar.
      axis: an axis or several; None for all.
      dtype: the dtype of the result and of the accumulation.
      out: not supported.
      keepdims: keep the reduced axes with size 1.
      ddof: subtracted from the count.
      where: bool array; only the elements where it holds count.
      mean: the mean, if known.

    Returns:
      An array without the reduced axes; NaN where no element is left.

    Raises:
      TypeError: a is not an array (lists are not accepted).
      ValueError: an axis is out of bounds or repeated.

    Example:
      >>> import calque.numpy as jnp
      >>> jnp.nanvar(jnp.array([1.0, jnp.nan, 3.0]))
      Array(1., dtype=float32)
    """
    util.refuse_out("nanvar", out)
    return _nanvar("nanvar", a, axis, dtype, ddof, keepdims, where, mean)


@util.planned
def nanstd(a: Any, axis: Any = None, dtype: Any = None, out: None = None, ddof: Any = 0,
           keepdims: bool = False, where: Any = None, mean: Any = None) -> Any:
    """Standard deviation along axes, NaN left out.

    Args:
      a: array or scalar.
      axis: an axis or several; None for all.
      dtype: the dtype of the result and of the accumulation.
      out: not supported.
      keepdims: keep the reduced axes with size 1.
      ddof: subtracted from the count.
      where: bool array; only the elements where it holds count.
      mean: the mean, if known.

    Returns:
      An array without the reduced axes; NaN where no element is left.

    Raises:
      TypeError: a is not an array (lists are not accepted).
      ValueError: an axis is out of bounds or repeated.

    Example:
      >>> import calque.numpy as jnp
      >>> jnp.nanstd(jnp.array([1.0, jnp.nan, 3.0]))
      Array(1., dtype=float32)
    """
    util.refuse_out("nanstd", out)
    return ew.sqrt(_nanvar("nanstd", a, axis, dtype, ddof, keepdims, where, mean))


def _index(name: str, find: Function, edge: Callable[[Any], Any], a: Any, axis: Any,
           out: Any, keepdims: Any) -> Any:
    util.refuse_out(name, out)
    x = util.one_array(name, a)
    if util.is_complex(x):
        raise TypeError(explain(f"{name} does not accept dtype {dtype_of(x).name}: complex "
                                "numbers have no order.", fix="take their absolute values."))
    x, nan = _without_nan(name, x, edge)
    made = find(x, axis, None, keepdims)
    if nan is None:
        return made
    return choose(rd.all(nan, axis, None, bool(keepdims)), dtype_of(made).type(-1), made)


@util.planned
def nanargmax(a: Any, axis: Any = None, out: None = None, keepdims: Any = None) -> Any:
    """Index of the largest element along axes, NaN left out.

    Args:
      a: array or scalar.
      axis: an axis or several; None for all.
      out: not supported.
      keepdims: keep the reduced axes with size 1.

    Returns:
      An array without the reduced axes; -1 where all elements are NaN.

    Raises:
      TypeError: a is not an array (lists are not accepted).
      ValueError: an axis is out of bounds or repeated, or the axis is empty.

    Example:
      >>> import calque.numpy as jnp
      >>> jnp.nanargmax(jnp.array([1.0, jnp.nan, 3.0]))
      Array(2, dtype=int32)
    """
    return _index("nanargmax", rd.argmax, rd.lowest, a, axis, out, keepdims)


@util.planned
def nanargmin(a: Any, axis: Any = None, out: None = None, keepdims: Any = None) -> Any:
    """Index of the smallest element along axes, NaN left out.

    Args:
      a: array or scalar.
      axis: an axis or several; None for all.
      out: not supported.
      keepdims: keep the reduced axes with size 1.

    Returns:
      An array without the reduced axes; -1 where all elements are NaN.

    Raises:
      TypeError: a is not an array (lists are not accepted).
      ValueError: an axis is out of bounds or repeated, or the axis is empty.

    Example:
      >>> import calque.numpy as jnp
      >>> jnp.nanargmin(jnp.array([1.0, jnp.nan, 3.0]))
      Array(0, dtype=int32)
    """
    return _index("nanargmin", rd.argmin, rd.highest, a, axis, out, keepdims)


__all__ = ["nanargmax", "nanargmin", "nanmax", "nanmean", "nanmin", "nanprod", "nanstd", "nansum",
           "nanvar"]
