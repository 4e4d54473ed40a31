"""Elementwise arithmetic with a body of its own: powers, division with remainder, absolute
values; and the constants and choices that other files are made with.
"""
from __future__ import annotations

from typing import Any

import numpy as np

from calque.core import dtypes
from calque.core.avals import dtype_of, shape_of
from calque.core.errors import explain
from calque.core.types import Dtype
from calque.core.zeros import constant as strong_constant
from calque.dispatch.array import Array, from_numpy
from calque.lax.elementwise import RoundingMethod
from calque.lax.operands import NARROW
from calque.numpy import util
from calque.numpy.ufuncs import binary
from calque.primitives import elementwise as ew


def constant(x: Any, value: Any) -> Any:
    """A scalar of x's dtype (weak when x is)."""
    return ew.const(x, value)


def typed(x: Any, value: float) -> Any:
    """A scalar of x's dtype that is not weak: what it makes of a weak x is strong, as in JAX."""
    return strong_constant(value, dtype_of(x))


def as_truth(x: Any, dtype: Any = None) -> Any:
    """x as bool: whether it differs from 0 (a number as one of dtype)."""
    if dtype_of(x) == dtypes.bool_:
        return x
    if not hasattr(x, "aval") and not np.ndim(x):  # (1e-300 is 0 in float32)
        with np.errstate(over="ignore"):
            own = np.asarray(x, dtype_of(x))
            return np.bool_(own.astype(dtype or own.dtype) != 0)
    return ew.ne(x, constant(x, 0))


def full_constant(x: Any, value: Any) -> Any:
    """A scalar of x's dtype spread over x's shape, as select_n wants its cases."""
    return ew.match_shape(ew.const(x, value), shape_of(x))


def choose(mask: Any, yes: Any, no: Any) -> Any:
    """yes where mask, else no; scalars are spread."""
    shape = util.common_shape("where", [shape_of(v) for v in (mask, yes, no)], ranks=False)
    return ew.select_n(*[util.broadcast_to(v, shape) for v in (mask, no, yes)])


def pair(name: str, x: Any, y: Any, kind: str = "same") -> tuple[Any, Any]:
    """Two promoted operands of one shape (scalars stay scalars)."""
    promote = {"same": util.promote, "numeric": util.promote_numeric,
               "inexact": util.promote_inexact}[kind]
    x, y = util.aligned(name, *promote(name, x, y))
    return x, y


# ---- powers
def power(x1: Any, x2: Any, /) -> Any:
    """Power x1 ** x2; a Python integer exponent is taken by multiplications.

    Args:
      x1: array or scalar.
      x2: array or scalar; dtypes are promoted, shapes broadcast.

    Returns:
      An array of the broadcast shape.

    Raises:
      TypeError: an integer to a negative Python power, or an argument is no array.

    Example:
      >>> import calque.numpy as jnp
      >>> jnp.power(2.0, 3)
      Array(8., dtype=float32, weak_type=True)
    """
    return _power("power", x1, _exponent(x2))


def pow(x1: Any, x2: Any, /) -> Any:
    """Power x1 ** x2; another name of power.

    Args:
      x1: array or scalar.
      x2: array or scalar; dtypes are promoted, shapes broadcast.

    Returns:
      An array of the broadcast shape.

    Raises:
      TypeError: an integer to a negative Python power, or an argument is no array.

    Example:
      >>> import calque.numpy as jnp
      >>> jnp.pow(2.0, 3)
      Array(8., dtype=float32, weak_type=True)
    """
    return _power("pow", x1, _exponent(x2))


def _exponent(y: Any) -> Any:
    """A known integer is taken as Python's, whatever its dtype: x keeps its own."""
    known = type(y) is Array and not y.shape and dtypes.is_integer(y.dtype)
    return int(y) if known or isinstance(y, np.integer) else y


def _held(y: int, dtype: Dtype) -> int:
    """An exponent that int64 holds in place of one that it does not, with the same powers: those of
    integers repeat after 2^62 at most (from the 64th on), those of floats are 0, 1 or infinite with
    the sign that parity gives, those of i repeat after four."""
    if -(1 << 63) <= y < 1 << 63:
        return y
    size, sign = (y, 1) if y > 0 else (-y, -1)
    if dtypes.is_integer(dtype):
        return sign * ((1 << 62) + size % (1 << 62))
    return sign * ((1 << 63) - 4 + size % 4)


@util.planned
def _power(name: str, x: Any, y: Any) -> Any:
    whole = y if type(y) is int else None  # of any size: it becomes no array
    x, y = util.check_arrays(name, x, y if whole is None else 1)
    dtype, weak = util.numeric(*util.joined((x, y)))
    weak = weak and dtypes.bool_ not in (dtype_of(x), dtype_of(y))
    if isinstance(y, int) and not isinstance(y, bool):
        y = _held(int(y) if whole is None else whole, dtype)
        if util.is_cast_free(x, dtype, weak):
            return ew.integer_pow_p.bind(util.cast(x, dtype, weak), y=y)
        with util.lazy_eval(name):
            return ew.integer_pow_p.bind(util.cast(x, dtype, weak), y=y)
    if dtypes.is_integer(dtype):
        return _integer_power(name, util.cast(x, dtype, weak), util.cast(y, dtype, weak))
    if isinstance(y, np.ndarray) and dtypes.is_integer(y.dtype):
        y = from_numpy(y)
    if hasattr(y, "aval") and dtypes.is_integer(y.dtype):  # an integer exponent is exact
        with util.lazy_eval(name):
            return ew.pow_(*util.aligned(name, util.cast(x, dtype, weak), y))
    return binary(name, ew.pow_p, "inexact", x, y)


@util.planned
def _integer_power(name: str, x: Any, y: Any) -> Any:
    """Integer powers by squaring, over the six low bits of the exponent."""
    x, y = util.broadcast_all(name, *util.promote_numeric(name, x, y))
    one, zero = constant(x, 1), constant(x, 0)
    empty = ew.and_(ew.eq(x, zero), ew.ne(y, zero))
    result = choose(empty, full_constant(x, 0), full_constant(x, 1))
    for _ in range(6):
        odd = ew.ne(ew.and_(y, one), zero)
        result = choose(odd, ew.mul(result, x), result)
        x = ew.mul(x, x)
        y = ew.shift_right_logical(y, one)
    return util.cast(result, dtype_of(result))  # (strong, as in JAX)


@util.planned
def float_power(x: Any, y: Any, /) -> Any:
    """Power x ** y as a float.

    Args:
      x: array or scalar.
      y: array or scalar; dtypes are promoted, shapes broadcast.

    Returns:
      An array of the broadcast shape.

    Raises:
      TypeError: an argument is not an array or a number (lists are not accepted), or its dtype is
        not one the function is defined for.

    Example:
      >>> import calque.numpy as jnp
      >>> jnp.float_power(2, 3)
      Array(8., dtype=float32, weak_type=True)
    """
    return binary("float_power", ew.pow_p, "inexact", x, y)


@util.planned
def reciprocal(x: Any, /) -> Any:
    """Reciprocal 1 / x as a float.

    Args:
      x: array or scalar.

    Returns:
      An array of x's shape.

    Raises:
      TypeError: an argument is not an array or a number (lists are not accepted), or its dtype is
        not one the function is defined for.

    Example:
      >>> import calque.numpy as jnp
      >>> jnp.reciprocal(4)
      Array(0.25, dtype=float32, weak_type=True)
    """
    (x,) = util.promote_inexact("reciprocal", x)
    return ew.integer_pow_p.bind(x, y=-1)


# ---- division
@util.planned
def floor_divide(x1: Any, x2: Any, /) -> Any:
    """Largest integer not above x1 / x2; integers divided by 0 give -1 or -2.

    Args:
      x1: array or scalar.
      x2: array or scalar; dtypes are promoted, shapes broadcast.

    Returns:
      An array of the broadcast shape.

    Raises:
      TypeError: an argument is not an array or a number (lists are not accepted), or its dtype is
        not one the function is defined for.

    Example:
      >>> import calque.numpy as jnp
      >>> jnp.floor_divide(-7, 2)
      Array(-4, dtype=int32, weak_type=True)
    """
    x, y = pair("floor_divide", x1, x2, "numeric")
    dtype = dtype_of(x)
    if dtype.kind == "c":
        raise TypeError(explain("floor_divide does not support complex-valued inputs",
                                fix="divide, and take the floor of the parts."))
    if dtypes.is_unsigned(dtype):
        return ew.div(x, y)
    if dtypes.is_signed(dtype):
        quotient = ew.div(x, y)
        inexact = ew.ne(ew.rem(x, y), constant(x, 0))
        apart = ew.ne(ew.sign(x), ew.sign(y))
        return choose(ew.and_(apart, inexact),
                      ew.sub(quotient, constant(quotient, 1)), quotient)
    return _float_divmod(x, y)[0]


def _float_divmod(x: Any, y: Any) -> tuple[Any, Any]:
    """Floor quotient and remainder of floats: zeros have the sign of x / y and of y."""
    zero, one = constant(x, 0), constant(x, 1)
    rest = ew.rem(x, y)
    # the quotient is x / y itself where there is no remainder: y is 0 or x is infinite
    whole = ew.or_(ew.eq(y, zero),
                   ew.eq(ew.abs_(x), constant(x, np.inf)))
    quotient = ew.div(choose(whole, x, ew.sub(x, rest)), y)
    wrong = ew.and_(ew.ne(rest, zero),
                    ew.ne(ew.sign(y), ew.sign(rest)))
    quotient = choose(wrong, ew.sub(quotient, one), quotient)
    quotient = ew.round_(quotient, rounding_method=RoundingMethod.AWAY_FROM_ZERO)
    signs = ew.mul(ew.sign(x), ew.sign(y))
    quotient = choose(ew.eq(quotient, zero), ew.mul(signs, zero), quotient)
    return quotient, _float_remainder(x, y)


def _float_remainder(x: Any, y: Any) -> Any:
    """Floor remainder of floats: that of x and a positive y, mirrored for a negative one.

    Adding +0 to a remainder of -0 makes it +0, and mirrored -0, without a branch that would cut
    off the derivative.
    """
    zero = constant(x, 0)
    mirrored = ew.lt(y, zero)
    size = choose(mirrored, ew.neg(y), y)
    rest = ew.rem(choose(mirrored, ew.neg(x), x), size)
    rest = ew.add(rest, choose(ew.lt(rest, zero), size, full_constant(x, 0)))
    return choose(mirrored, ew.neg(rest), rest)


@util.planned
def remainder(x1: Any, x2: Any, /) -> Any:
    """Remainder of floor division, with the sign of x2.

    Args:
      x1: array or scalar.
      x2: array or scalar; dtypes are promoted, shapes broadcast.

    Returns:
      An array of the broadcast shape.

    Raises:
      TypeError: an argument is not an array or a number (lists are not accepted), or its dtype is
        not one the function is defined for.

    Example:
      >>> import calque.numpy as jnp
      >>> jnp.remainder(-7, 3)
      Array(2, dtype=int32, weak_type=True)
    """
    return _remainder("remainder", x1, x2)


@util.planned
def mod(x1: Any, x2: Any, /) -> Any:
    """Remainder of floor division, with the sign of x2 (as remainder).

    Args:
      x1: array or scalar.
      x2: array or scalar; dtypes are promoted, shapes broadcast.

    Returns:
      An array of the broadcast shape.

    Raises:
      TypeError: an argument is not an array or a number (lists are not accepted), or its dtype is
        not one the function is defined for.

    Example:
      >>> import calque.numpy as jnp
      >>> jnp.mod(-7, 3)
      Array(2, dtype=int32, weak_type=True)
    """
    return _remainder("remainder", x1, x2)


def _remainder(name: str, x1: Any, x2: Any) -> Any:
    x, y = pair(name, x1, x2, "numeric")
    if dtypes.is_float(dtype_of(x)):
        return _float_remainder(x, y)
    zero = constant(x, 0)
    if dtypes.is_integer(dtype_of(x)):
        y = choose(ew.eq(y, zero), constant(x, 1), y)
    rest = ew.rem(x, y)
    if dtypes.is_unsigned(dtype_of(x)):
        return rest
    apart = ew.ne(ew.lt(rest, zero), ew.lt(y, zero))
    return choose(ew.and_(apart, ew.ne(rest, zero)), ew.add(rest, y), rest)


@util.planned
def fmod(x1: Any, x2: Any, /) -> Any:
    """Remainder of truncated division, with the sign of x1.

    Args:
      x1: array or scalar.
      x2: array or scalar; dtypes are promoted, shapes broadcast.

    Returns:
      An array of the broadcast shape.

    Raises:
      TypeError: an argument is not an array or a number (lists are not accepted), or its dtype is
        not one the function is defined for.

    Example:
      >>> import calque.numpy as jnp
      >>> jnp.fmod(-7, 3)
      Array(-1, dtype=int32, weak_type=True)
    """
    x, y = pair("fmod", x1, x2)
    if dtypes.is_integer(dtype_of(x)):
        y = choose(ew.eq(y, constant(x, 0)), constant(x, 1), y)
    return ew.rem(x, y)


@util.planned
def divmod(x1: Any, x2: Any, /) -> tuple[Any, Any]:
    """Quotient and remainder of floor division.

    Args:
      x1: array or scalar.
      x2: array or scalar; dtypes are promoted, shapes broadcast.

    Returns:
      A pair of arrays of the broadcast shape.

    Raises:
      TypeError: an argument is not an array or a number (lists are not accepted), or its dtype is
        not one the function is defined for.

    Example:
      >>> import calque.numpy as jnp
      >>> jnp.divmod(7, 2)
      (Array(3, dtype=int32, weak_type=True), Array(1, dtype=int32, weak_type=True))
    """
    x, y = pair("divmod", x1, x2, "numeric")
    if util.is_complex(x):
        raise TypeError(explain("divmod does not support complex-valued inputs"))
    if dtypes.is_integer(dtype_of(x)):
        return floor_divide(x, y), _remainder("divmod", x, y)
    return _float_divmod(x, y)


@util.planned
def modf(x: Any, /, out: None = None) -> tuple[Any, Any]:
    """Fractional and integral part.

    Args:
      x: array or scalar.

    Returns:
      A pair of arrays of x's shape.

    Raises:
      TypeError: an argument is not an array or a number (lists are not accepted), or its dtype is
        not one the function is defined for.

    Example:
      >>> import calque.numpy as jnp
      >>> jnp.modf(1.5)
      (Array(0.5, dtype=float32, weak_type=True), Array(1., dtype=float32, weak_type=True))
    """
    util.refuse_out("modf", out)
    (x,) = util.promote_inexact("modf", x)
    whole = choose(ew.ge(x, constant(x, 0)), ew.floor(x), ew.ceil(x))
    endless = ew.eq(ew.abs_(x), constant(x, np.inf))
    return choose(endless, full_constant(x, 0), ew.sub(x, whole)), whole


# ---- signs and absolute values
def absolute(x: Any, /) -> Any:
    """Absolute value; the modulus of complex numbers.

    Args:
      x: array or scalar.

    Returns:
      An array of x's shape.

    Raises:
      TypeError: an argument is not an array or a number (lists are not accepted), or its dtype is
        not one the function is defined for.

    Example:
      >>> import calque.numpy as jnp
      >>> jnp.absolute(-2)
      Array(2, dtype=int32, weak_type=True)
    """
    return _absolute("absolute", x)


def abs(x: Any, /) -> Any:
    """Absolute value; another name of absolute.

    Args:
      x: array or scalar.

    Returns:
      An array of x's shape.

    Raises:
      TypeError: an argument is not an array or a number (lists are not accepted), or its dtype is
        not one the function is defined for.

    Example:
      >>> import calque.numpy as jnp
      >>> jnp.abs(-2)
      Array(2, dtype=int32, weak_type=True)
    """
    return _absolute("abs", x)


def _absolute(name: str, x: Any) -> Any:
    x = util.one_array(name, x)
    dtype = dtype_of(x)
    if dtypes.is_small(dtype) and dtypes.is_signed(dtype):
        raise TypeError(explain(f"abs does not accept dtype {dtype.name}. {NARROW}",
                                fix="convert to int8 first."))
    return util.array(x) if dtype == dtypes.bool_ or dtypes.is_unsigned(dtype) else ew.abs_(x)


@util.planned
def fabs(x: Any, /) -> Any:
    """Absolute value of a real array as a float.

    Args:
      x: array or scalar.

    Returns:
      An array of x's shape.

    Raises:
      TypeError: an argument is not an array or a number (lists are not accepted), or its dtype is
        not one the function is defined for.

    Example:
      >>> import calque.numpy as jnp
      >>> jnp.fabs(-2)
      Array(2., dtype=float32, weak_type=True)
    """
    if util.is_complex(util.one_array("fabs", x)):
        raise TypeError(explain("ufunc 'fabs' does not support complex dtypes",
                                fix="use jnp.abs."))
    (x,) = util.promote_inexact("fabs", x)
    return ew.abs_(x)


def positive(x: Any, /) -> Any:
    """x itself.

    Args:
      x: array or scalar.

    Returns:
      An array of x's shape.

    Raises:
      TypeError: an argument is not an array or a number (lists are not accepted), or its dtype is
        not one the function is defined for.

    Example:
      >>> import calque.numpy as jnp
      >>> jnp.positive(2)
      Array(2, dtype=int32, weak_type=True)
    """
    return util.array(util.one_array("positive", x))


@util.planned
def fmax(x1: Any, x2: Any) -> Any:
    """Larger of x1 and x2, the number where one is NaN.

    Args:
      x1: array or scalar.
      x2: array or scalar; dtypes are promoted, shapes broadcast.

    Returns:
      An array of the broadcast shape.

    Raises:
      TypeError: an argument is not an array or a number (lists are not accepted), or its dtype is
        not one the function is defined for.

    Example:
      >>> import calque.numpy as jnp
      >>> jnp.fmax(1.0, jnp.nan)
      Array(1., dtype=float32, weak_type=True)
    """
    x, y = pair("fmax", x1, x2)
    return choose(ew.or_(ew.gt(x, y), ew.ne(y, y)), x, y)


@util.planned
def fmin(x1: Any, x2: Any) -> Any:
    """Smaller of x1 and x2, the number where one is NaN.

    Args:
      x1: array or scalar.
      x2: array or scalar; dtypes are promoted, shapes broadcast.

    Returns:
      An array of the broadcast shape.

    Raises:
      TypeError: an argument is not an array or a number (lists are not accepted), or its dtype is
        not one the function is defined for.

    Example:
      >>> import calque.numpy as jnp
      >>> jnp.fmin(1.0, jnp.nan)
      Array(1., dtype=float32, weak_type=True)
    """
    x, y = pair("fmin", x1, x2)
    return choose(ew.or_(ew.lt(x, y), ew.ne(y, y)), x, y)


__all__ = [
    "abs", "absolute", "divmod", "fabs", "float_power", "floor_divide", "fmax", "fmin", "fmod",
    "mod", "modf", "positive", "pow", "power", "reciprocal", "remainder"]
