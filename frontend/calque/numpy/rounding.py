"""Rounding and bounds: floor, ceil, trunc, rint, round (halves go to even), clip."""
from __future__ import annotations

from typing import Any

import numpy as np

from calque.core import dtypes
from calque.core.avals import dtype_of
from calque.core.errors import explain
from calque.core.zeros import factor
from calque.lax.elementwise import RoundingMethod
from calque.numpy import util
from calque.numpy.arithmetic import choose, constant, pair
from calque.primitives import elementwise as ew


def _whole(name: str, x: Any, prim: Any) -> Any:
    x = util.one_array(name, x)
    dtype = dtype_of(x)
    if dtype == dtypes.bool_ or dtypes.is_integer(dtype):
        return util.array(x)
    return prim.bind(x)


def floor(x: Any, /) -> Any:
    """Largest integer not above x; integers unchanged.

    Args:
      x: array or scalar.

    Returns:
      An array of x's shape.

    Raises:
      TypeError: an argument is not an array or a number (lists are not accepted), or its dtype is
        not one the function is defined for.

    Example:
      >>> import calque.numpy as jnp
      >>> jnp.floor(1.5)
      Array(1., dtype=float32, weak_type=True)
    """
    return _whole("floor", x, ew.floor_p)


def ceil(x: Any, /) -> Any:
    """Smallest integer not below x; integers unchanged.

    Args:
      x: array or scalar.

    Returns:
      An array of x's shape.

    Raises:
      TypeError: an argument is not an array or a number (lists are not accepted), or its dtype is
        not one the function is defined for.

    Example:
      >>> import calque.numpy as jnp
      >>> jnp.ceil(1.5)
      Array(2., dtype=float32, weak_type=True)
    """
    return _whole("ceil", x, ew.ceil_p)


@util.planned
def trunc(x: Any) -> Any:
    """x without its fraction; integers unchanged.

    Args:
      x: array or scalar.

    Returns:
      An array of x's shape.

    Raises:
      TypeError: an argument is not an array or a number (lists are not accepted), or its dtype is
        not one the function is defined for.

    Example:
      >>> import calque.numpy as jnp
      >>> jnp.trunc(-1.5)
      Array(-1., dtype=float32, weak_type=True)
    """
    x = util.one_array("trunc", x)
    if not dtypes.is_inexact(dtype_of(x)):
        return util.array(x)
    return choose(ew.lt(x, constant(x, 0)), ew.ceil(x), ew.floor(x))


def _nearest(x: Any) -> Any:
    """To the nearest integer, halves to even; complex numbers by parts."""
    if util.is_complex(x):
        return ew.complex_(_nearest(ew.real(x)), _nearest(ew.imag(x)))
    return ew.round_(x, rounding_method=RoundingMethod.TO_NEAREST_EVEN)


@util.planned
def rint(x: Any, /) -> Any:
    """Nearest integer as a float, halves to even.

    Args:
      x: array or scalar.

    Returns:
      An array of x's shape.

    Raises:
      TypeError: an argument is not an array or a number (lists are not accepted), or its dtype is
        not one the function is defined for.

    Example:
      >>> import calque.numpy as jnp
      >>> jnp.rint(2.5)
      Array(2., dtype=float32, weak_type=True)
    """
    x = util.one_array("rint", x)
    if not dtypes.is_inexact(dtype_of(x)):
        return util.cast(x, dtypes.default_dtype(float))
    return _nearest(x)


@util.planned
def round(a: Any, decimals: int = 0, out: None = None) -> Any:
    """Rounded to a number of decimals, halves to even.

    Args:
      a: array or scalar.
      decimals: decimals to keep; negative for tens, hundreds, ... (static).
      out: not supported.

    Returns:
      An array of a's shape and dtype.

    Raises:
      NotImplementedError: out is given, or decimals is negative for integers.

    Example:
      >>> import calque.numpy as jnp
      >>> jnp.round(2.345, 1)
      Array(2.3, dtype=float32, weak_type=True)
    """
    util.refuse_out("round", out)
    return _round("round", a, decimals)


@util.planned
def around(a: Any, decimals: int = 0, out: None = None) -> Any:
    """Rounded to a number of decimals, halves to even; another name of round.

    Args:
      a: array or scalar.
      decimals: decimals to keep (static).
      out: not supported.

    Returns:
      An array of a's shape and dtype.

    Raises:
      NotImplementedError: out is given, or decimals is negative for integers.

    Example:
      >>> import calque.numpy as jnp
      >>> jnp.around(2.5)
      Array(2., dtype=float32, weak_type=True)
    """
    util.refuse_out("around", out)
    return _round("around", a, decimals)


def _round(name: str, a: Any, decimals: Any) -> Any:
    x = util.one_array(name, a)
    try:
        places = int(decimals.__index__())
    except AttributeError:
        raise TypeError(explain(f"{name}: decimals must be an integer, got {decimals!r}.")
                        ) from None
    dtype = dtype_of(x)
    if dtypes.is_integer(dtype):
        if places < 0:
            raise NotImplementedError(explain(
                "integer np.round not implemented for decimals < 0",
                fix="convert to float first."))
        return util.array(x)
    if dtype == dtypes.bool_:
        raise ValueError(explain(f"{name}: data type bool not inexact",
                                 fix="convert to a number first."))
    if not places and dtype.kind != "c":
        return _nearest(x)
    with util.lazy_eval(name):
        if not places:
            return _nearest(x)
        if dtype.kind == "c":  # by parts: products of complex numbers mix them where one is NaN
            return ew.complex_(_round(name, ew.real(x), places), _round(name, ew.imag(x), places))
        half = dtype in (np.dtype("float16"), dtypes.bfloat16)
        wide = util.cast(x, dtypes.float32) if half else x
        scale = factor(wide, 10.0 ** places)
        made = ew.div(_nearest(ew.mul(wide, scale)), scale)
        return util.cast(made, dtype, util.weak_of(x)) if half else made


@util.planned
def clip(arr: Any = None, /, min: Any = None, max: Any = None) -> Any:
    """Values limited to [min, max].

    Args:
      arr: real array or scalar.
      min: lower bound, array or scalar; None for none.
      max: upper bound, array or scalar; None for none.

    Returns:
      An array of the broadcast shape and the promoted dtype.

    Raises:
      ValueError: a value is complex, or arr is missing.

    Example:
      >>> import calque.numpy as jnp
      >>> jnp.clip(5, 0, 3)
      Array(3, dtype=int32, weak_type=True)
    """
    if arr is None:
        raise ValueError(explain("At most one of arr and min or max may be None: no input was "
                                 "provided to the clip function."))
    bounds = [b for b in (min, max) if b is not None]
    for bound in bounds:
        dtypes.check_fits(bound)
    values = util.check_arrays("clip", arr, *bounds)
    if any(util.is_complex(v) for v in values):
        raise ValueError(explain(
            "Clip received a complex value either through the input or the min/max keywords. "
            "Complex values have no ordering and cannot be clipped.",
            fix="clip jnp.real(x) and jnp.imag(x)."))
    return _clip(values[0], *[None if b is None else util.one_array("clip", b)
                              for b in (min, max)])


@util.planned
def _clip(x: Any, low: Any, high: Any) -> Any:
    dtype, weak = util.joined([v for v in (x, low, high) if v is not None])
    low, high = (_into_range(b, dtype) for b in (low, high))
    x = util.cast(x, dtype, weak)
    if low is not None:
        x = ew.max_(*pair("clip", util.cast(low, dtype, weak), x))
    if high is not None:
        x = ew.min_(*pair("clip", util.cast(high, dtype, weak), x))
    return util.array(x)


def _into_range(bound: Any, dtype: Any) -> Any:
    """A Python int bound that the integer dtype cannot hold, moved to its end."""
    if type(bound) is int and dtypes.is_integer(dtype):
        limits = dtypes.iinfo(dtype)
        return dtype.type(limits.min if bound < limits.min else
                          limits.max if bound > limits.max else bound)
    return bound


__all__ = ["around", "ceil", "clip", "floor", "rint", "round", "trunc"]
