"""Whether elements are NaN, infinite, finite, real, complex or negative: bool arrays."""
from __future__ import annotations

from typing import Any

import numpy as np

from calque.core import dtypes
from calque.core.avals import dtype_of, shape_of
from calque.core.errors import explain
from calque.numpy import util
from calque.numpy.arithmetic import constant
from calque.primitives import elementwise as ew
from calque.primitives import shape as sh


def isnan(x: Any, /) -> Any:
    """Whether x is NaN.

    Args:
      x: array or scalar.

    Returns:
      A bool array of x's shape.

    Raises:
      TypeError: an argument is not an array or a number (lists are not accepted), or its dtype is
        not one the function is defined for.

    Example:
      >>> import calque.numpy as jnp
      >>> jnp.isnan(jnp.nan)
      Array(True, dtype=bool, weak_type=True)
    """
    x = util.one_array("isnan", x)
    if not dtypes.is_inexact(dtype_of(x)):
        return _all_false(x)
    return ew.ne(x, x)


def _all_false(x: Any) -> Any:
    return sh.broadcast_in_dim(np.False_, shape_of(x), ())


@util.planned
def isinf(x: Any, /) -> Any:
    """Whether x is infinite.

    Args:
      x: array or scalar.

    Returns:
      A bool array of x's shape.

    Raises:
      TypeError: an argument is not an array or a number (lists are not accepted), or its dtype is
        not one the function is defined for.

    Example:
      >>> import calque.numpy as jnp
      >>> jnp.isinf(jnp.inf)
      Array(True, dtype=bool)
    """
    x = util.one_array("isinf", x)
    dtype = dtype_of(x)
    if dtype.kind == "c":
        return ew.or_(isinf(ew.real(x)), isinf(ew.imag(x)))
    if not dtypes.is_inexact(dtype):
        return _all_false(x)
    x = util.array(x)
    return ew.eq(ew.abs_(x), dtype.type(np.inf))


@util.planned
def isfinite(x: Any, /) -> Any:
    """Whether x is neither infinite nor NaN.

    Args:
      x: array or scalar.

    Returns:
      A bool array of x's shape.

    Raises:
      TypeError: an argument is not an array or a number (lists are not accepted), or its dtype is
        not one the function is defined for.

    Example:
      >>> import calque.numpy as jnp
      >>> jnp.isfinite(jnp.inf)
      Array(False, dtype=bool, weak_type=True)
    """
    x = util.one_array("isfinite", x)
    dtype = dtype_of(x)
    if dtype.kind == "c":
        return ew.and_(ew.is_finite(ew.real(x)),
                       ew.is_finite(ew.imag(x)))
    if not dtypes.is_inexact(dtype):
        return ew.not_(_all_false(x))
    return ew.is_finite(x)


def _signed_infinity(name: str, x: Any, value: float) -> Any:
    x = util.one_array(name, x)
    dtype = dtype_of(x)
    if dtype.kind == "c":
        raise ValueError(explain(f"{name} is not well defined for complex types",
                                 fix="test the real and imaginary parts."))
    if not dtypes.is_inexact(dtype):
        return _all_false(x)
    return ew.eq(x, dtype.type(value))


def isposinf(x: Any, /, out: None = None) -> Any:
    """Whether x is +inf.

    Args:
      x: array or scalar.

    Returns:
      A bool array of x's shape.

    Raises:
      TypeError: an argument is not an array or a number (lists are not accepted), or its dtype is
        not one the function is defined for.

    Example:
      >>> import calque.numpy as jnp
      >>> jnp.isposinf(jnp.inf)
      Array(True, dtype=bool)
    """
    util.refuse_out("isposinf", out)
    return _signed_infinity("isposinf", x, np.inf)


def isneginf(x: Any, /, out: None = None) -> Any:
    """Whether x is -inf.

    Args:
      x: array or scalar.

    Returns:
      A bool array of x's shape.

    Raises:
      TypeError: an argument is not an array or a number (lists are not accepted), or its dtype is
        not one the function is defined for.

    Example:
      >>> import calque.numpy as jnp
      >>> jnp.isneginf(-jnp.inf)
      Array(True, dtype=bool)
    """
    util.refuse_out("isneginf", out)
    return _signed_infinity("isneginf", x, -np.inf)


@util.planned
def isreal(x: Any) -> Any:
    """Whether the imaginary part is 0.

    Args:
      x: array or scalar.

    Returns:
      A bool array of x's shape.

    Raises:
      TypeError: an argument is not an array or a number (lists are not accepted), or its dtype is
        not one the function is defined for.

    Example:
      >>> import calque.numpy as jnp
      >>> jnp.isreal(1 + 0j)
      Array(True, dtype=bool, weak_type=True)
    """
    x = util.one_array("isreal", x)
    if not util.is_complex(x):
        return util.of_scalars(ew.not_(_all_false(x)), x)
    im = ew.imag(x)
    return util.of_scalars(ew.eq(im, constant(im, 0)), x)


@util.planned
def iscomplex(x: Any) -> Any:
    """Whether the imaginary part is not 0.

    Args:
      x: array or scalar.

    Returns:
      A bool array of x's shape.

    Raises:
      TypeError: an argument is not an array or a number (lists are not accepted), or its dtype is
        not one the function is defined for.

    Example:
      >>> import calque.numpy as jnp
      >>> jnp.iscomplex(1 + 0j)
      Array(False, dtype=bool, weak_type=True)
    """
    x = util.one_array("iscomplex", x)
    if not util.is_complex(x):
        return util.of_scalars(_all_false(x), x)
    im = ew.imag(x)
    return util.of_scalars(ew.ne(im, constant(im, 0)), x)


@util.planned
def signbit(x: Any, /) -> Any:
    """Whether the sign bit is set (x < 0, or -0.0, or a negative NaN).

    Args:
      x: array or scalar.

    Returns:
      A bool array of x's shape.

    Raises:
      TypeError: an argument is not an array or a number (lists are not accepted), or its dtype is
        not one the function is defined for.

    Example:
      >>> import calque.numpy as jnp
      >>> jnp.signbit(-0.0)
      Array(True, dtype=bool)
    """
    x = util.one_array("signbit", x)
    dtype = dtype_of(x)
    if dtype.kind == "c":
        raise ValueError(explain("signbit is not well defined for complex inputs",
                                 fix="take the real or the imaginary part."))
    if dtype == dtypes.bool_:
        return _all_false(x)
    if dtypes.is_integer(dtype):
        return ew.lt(util.cast(x, dtype), constant(x, 0))
    bits = ew.bitcast_convert_type(
        util.array(x), new_dtype=np.dtype(f"int{8 * dtype.itemsize}"))
    return ew.lt(bits, constant(bits, 0))


__all__ = ["iscomplex", "isfinite", "isinf", "isnan", "isneginf", "isposinf", "isreal", "signbit"]
