"""Elementwise arithmetic with a body of its own: powers, division with remainder, rounding,
absolute values, logarithms to other bases, complex parts, bounds.
"""
from __future__ import annotations

import math
from typing import Any

import numpy as np

from calque.core import dtypes
from calque.core.avals import dtype_of, shape_of
from calque.core.errors import explain
from calque.dispatch.array import Array
from calque.lax.elementwise import RoundingMethod
from calque.lax.operands import check_fits
from calque.numpy import util
from calque.numpy.documents import f32, i32, named
from calque.numpy.ufuncs import binary
from calque.primitives import elementwise as ew
from calque.primitives import shape as sh

_SHAPE = "An array of x's shape."
_BROADCAST = "An array of the broadcast shape."


def constant(x: Any, value: Any) -> Any:
    """A scalar of x's dtype (weak when x is)."""
    return ew.const(x, value)


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
    shape = util.common_shape("where", [shape_of(v) for v in (mask, yes, no)])
    return ew.select_n(util.spread(mask, shape), util.spread(no, shape), util.spread(yes, shape))


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
    if type(y) is Array and not y.shape and dtypes.is_integer(y.dtype):
        return int(y)
    return int(y) if isinstance(y, np.integer) else y


@util.planned
def _power(name: str, x: Any, y: Any) -> Any:
    x, y = util.check_arrays(name, x, y)
    dtype, weak = util.numeric(*util.joined((x, y)))
    weak = weak and dtypes.bool_ not in (dtype_of(x), dtype_of(y))
    if isinstance(y, int) and not isinstance(y, bool):
        if util.is_cast_free(x, dtype, weak):
            return ew.integer_pow_p.bind(util.cast(x, dtype, weak), y=int(y))
        with util.lazy_eval(name):
            return ew.integer_pow_p.bind(util.cast(x, dtype, weak), y=int(y))
    if dtypes.is_integer(dtype):
        return _integer_power(name, util.cast(x, dtype, weak), util.cast(y, dtype, weak))
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
    return result


@named("Power x ** y as a float.", ["x", "y"], _BROADCAST, "jnp.float_power(2, 3)", f32("8."))
@util.planned
def float_power(x: Any, y: Any, /) -> Any:
    return binary("float_power", ew.pow_p, "inexact", x, y)


@named("Reciprocal 1 / x as a float.", ["x"], _SHAPE, "jnp.reciprocal(4)", f32("0.25"))
@util.planned
def reciprocal(x: Any, /) -> Any:
    (x,) = util.promote_inexact("reciprocal", x)
    return ew.integer_pow_p.bind(x, y=-1)


# ---- division
@named("Largest integer not above x1 / x2; integers divided by 0 give -1 or -2.", ["x1", "x2"],
       _BROADCAST, "jnp.floor_divide(-7, 2)", i32("-4"))
@util.planned
def floor_divide(x1: Any, x2: Any, /) -> Any:
    x, y = pair("floor_divide", x1, x2, "numeric")
    dtype = dtype_of(x)
    if dtype.kind == "c":
        raise TypeError(explain("floor_divide does not support complex-valued inputs",
                                fix="divide, and take the floor of the parts."))
    if dtype.kind == "u":
        return ew.div(x, y)
    if dtype.kind == "i":
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


@named("Remainder of floor division, with the sign of x2.", ["x1", "x2"], _BROADCAST,
       "jnp.remainder(-7, 3)", i32("2"))
@util.planned
def remainder(x1: Any, x2: Any, /) -> Any:
    return _remainder("remainder", x1, x2)


@named("Remainder of floor division, with the sign of x2 (as remainder).", ["x1", "x2"],
       _BROADCAST, "jnp.mod(-7, 3)", i32("2"))
@util.planned
def mod(x1: Any, x2: Any, /) -> Any:
    return _remainder("remainder", x1, x2)


def _remainder(name: str, x1: Any, x2: Any) -> Any:
    x, y = pair(name, x1, x2, "numeric")
    if dtypes.is_float(dtype_of(x)):
        return _float_remainder(x, y)
    zero = constant(x, 0)
    if dtypes.is_integer(dtype_of(x)):
        y = choose(ew.eq(y, zero), constant(x, 1), y)
    rest = ew.rem(x, y)
    if dtype_of(x).kind == "u":
        return rest
    apart = ew.ne(ew.lt(rest, zero), ew.lt(y, zero))
    return choose(ew.and_(apart, ew.ne(rest, zero)), ew.add(rest, y), rest)


@named("Remainder of truncated division, with the sign of x1.", ["x1", "x2"], _BROADCAST,
       "jnp.fmod(-7, 3)", i32("-1"))
@util.planned
def fmod(x1: Any, x2: Any, /) -> Any:
    x, y = pair("fmod", x1, x2)
    if dtypes.is_integer(dtype_of(x)):
        y = choose(ew.eq(y, constant(x, 0)), constant(x, 1), y)
    return ew.rem(x, y)


@named("Quotient and remainder of floor division.", ["x1", "x2"],
       "A pair of arrays of the broadcast shape.", "jnp.divmod(7, 2)",
       f"({i32('3')}, {i32('1')})")
@util.planned
def divmod(x1: Any, x2: Any, /) -> tuple[Any, Any]:
    x, y = pair("divmod", x1, x2, "numeric")
    if util.is_complex(x):
        raise TypeError(explain("divmod does not support complex-valued inputs"))
    if dtypes.is_integer(dtype_of(x)):
        return floor_divide(x, y), _remainder("divmod", x, y)
    return _float_divmod(x, y)


@named("Fractional and integral part.", ["x"], "A pair of arrays of x's shape.",
       "jnp.modf(1.5)", f"({f32('0.5')}, {f32('1.')})")
@util.planned
def modf(x: Any, /, out: None = None) -> tuple[Any, Any]:
    util.refuse_out("modf", out)
    (x,) = util.promote_inexact("modf", x)
    whole = choose(ew.ge(x, constant(x, 0)), ew.floor(x), ew.ceil(x))
    endless = ew.eq(ew.abs_(x), constant(x, np.inf))
    return choose(endless, full_constant(x, 0), ew.sub(x, whole)), whole


# ---- signs and absolute values
@named("Absolute value; the modulus of complex numbers.", ["x"], _SHAPE, "jnp.absolute(-2)",
       i32("2"))
def absolute(x: Any, /) -> Any:
    return _absolute("absolute", x)


@named("Absolute value; another name of absolute.", ["x"], _SHAPE, "jnp.abs(-2)", i32("2"))
def abs(x: Any, /) -> Any:
    return _absolute("abs", x)


def _absolute(name: str, x: Any) -> Any:
    x = util.one_array(name, x)
    dtype = dtype_of(x)
    return util.array(x) if dtype == dtypes.bool_ or dtype.kind == "u" else ew.abs_(x)


@named("Absolute value of a real array as a float.", ["x"], _SHAPE, "jnp.fabs(-2)", f32("2."))
@util.planned
def fabs(x: Any, /) -> Any:
    if util.is_complex(util.one_array("fabs", x)):
        raise TypeError(explain("ufunc 'fabs' does not support complex dtypes",
                                fix="use jnp.abs."))
    (x,) = util.promote_inexact("fabs", x)
    return ew.abs_(x)


@named("x itself.", ["x"], _SHAPE, "jnp.positive(2)", i32("2"))
def positive(x: Any, /) -> Any:
    return util.array(util.one_array("positive", x))


@named("Larger of x1 and x2, the number where one is NaN.", ["x1", "x2"], _BROADCAST,
       "jnp.fmax(1.0, jnp.nan)", f32("1."))
@util.planned
def fmax(x1: Any, x2: Any) -> Any:
    x, y = pair("fmax", x1, x2)
    return choose(ew.or_(ew.gt(x, y), ew.ne(y, y)), x, y)


@named("Smaller of x1 and x2, the number where one is NaN.", ["x1", "x2"], _BROADCAST,
       "jnp.fmin(1.0, jnp.nan)", f32("1."))
@util.planned
def fmin(x1: Any, x2: Any) -> Any:
    x, y = pair("fmin", x1, x2)
    return choose(ew.or_(ew.lt(x, y), ew.ne(y, y)), x, y)


# ---- rounding
def _whole(name: str, x: Any, prim: Any) -> Any:
    x = util.one_array(name, x)
    dtype = dtype_of(x)
    if dtype == dtypes.bool_ or dtypes.is_integer(dtype):
        return util.array(x)
    return prim.bind(x)


@named("Largest integer not above x; integers unchanged.", ["x"], _SHAPE, "jnp.floor(1.5)",
       f32("1."))
def floor(x: Any, /) -> Any:
    return _whole("floor", x, ew.floor_p)


@named("Smallest integer not below x; integers unchanged.", ["x"], _SHAPE, "jnp.ceil(1.5)",
       f32("2."))
def ceil(x: Any, /) -> Any:
    return _whole("ceil", x, ew.ceil_p)


@named("x without its fraction; integers unchanged.", ["x"], _SHAPE, "jnp.trunc(-1.5)",
       f32("-1."))
@util.planned
def trunc(x: Any) -> Any:
    x = util.one_array("trunc", x)
    if not dtypes.is_inexact(dtype_of(x)):
        return util.array(x)
    return choose(ew.lt(x, constant(x, 0)), ew.ceil(x), ew.floor(x))


def _nearest(x: Any) -> Any:
    """To the nearest integer, halves to even; complex numbers by parts."""
    if util.is_complex(x):
        return ew.complex_(_nearest(ew.real(x)), _nearest(ew.imag(x)))
    return ew.round_(x, rounding_method=RoundingMethod.TO_NEAREST_EVEN)


@named("Nearest integer as a float, halves to even.", ["x"], _SHAPE, "jnp.rint(2.5)", f32("2."))
@util.planned
def rint(x: Any, /) -> Any:
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
        half = dtype in (np.dtype("float16"), dtypes.bfloat16)
        wide = util.cast(x, dtypes.float32) if half else x
        factor = constant(wide, 10.0 ** places)
        made = ew.div(_nearest(ew.mul(wide, factor)), factor)
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
        check_fits(bound)
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
        limits = np.iinfo(dtype)
        return dtype.type(limits.min if bound < limits.min else
                          limits.max if bound > limits.max else bound)
    return bound


# ---- logarithms to other bases, angles in degrees
@named("Logarithm to base 2.", ["x"], _SHAPE, "jnp.log2(8)", f32("3."))
@util.planned
def log2(x: Any, /) -> Any:
    (x,) = util.promote_inexact("log2", x)
    return _each_part(ew.div_p, ew.log(x), math.log(2.0))


@named("Logarithm to base 10.", ["x"], _SHAPE, "jnp.log10(100)", f32("2."))
@util.planned
def log10(x: Any, /) -> Any:
    (x,) = util.promote_inexact("log10", x)
    return _each_part(ew.mul_p, ew.log(x), 1.0 / math.log(10.0))


def _each_part(op: Any, x: Any, by: float) -> Any:
    """x by a real number; complex x part by part, since infinity times 0i would be NaN."""
    if not util.is_complex(x):
        return op.bind(x, constant(x, by))
    re, im = ew.real(x), ew.imag(x)
    return ew.complex_(op.bind(re, constant(re, by)), op.bind(im, constant(im, by)))


@named("Radians as degrees.", ["x"], _SHAPE, "jnp.degrees(0)", f32("0."))
@util.planned
def degrees(x: Any, /) -> Any:
    (x,) = util.promote_inexact("degrees", x)
    return util.settled(ew.mul(x, constant(x, 180.0 / math.pi)), x)


@named("Degrees as radians.", ["x"], _SHAPE, "jnp.radians(0)", f32("0."))
@util.planned
def radians(x: Any, /) -> Any:
    (x,) = util.promote_inexact("radians", x)
    return util.settled(ew.mul(x, constant(x, math.pi / 180.0)), x)


rad2deg, deg2rad = degrees, radians


# ---- complex numbers
@named("Real part; real arrays unchanged.", ["x"], _SHAPE, "jnp.real(1 + 2j)", f32("1."))
def real(x: Any, /) -> Any:
    x = util.one_array("real", x)
    return ew.real(x) if util.is_complex(x) else util.array(x)


@named("Imaginary part; 0 for real arrays.", ["x"], _SHAPE, "jnp.imag(1 + 2j)", f32("2."))
def imag(x: Any, /) -> Any:
    x = util.one_array("imag", x)
    if util.is_complex(x):
        return ew.imag(x)
    return sh.broadcast_in_dim(constant(x, 0), shape_of(x), ())


@named("Complex conjugate; real arrays unchanged.", ["x"], _SHAPE, "jnp.conj(1 + 2j)",
       "Array(1.-2.j, dtype=complex64, weak_type=True)")
def conj(x: Any, /) -> Any:
    x = util.one_array("conjugate", x)
    return ew.conj(x) if util.is_complex(x) else util.array(x)


conjugate = conj


@named("Angle of complex numbers in radians, or degrees with deg=True.", ["z"],
       "A float array of z's shape.", "jnp.angle(1j)", f32("1.5707964"))
@util.planned
def angle(z: Any, deg: bool = False) -> Any:
    z = util.one_array("angle", z)
    dtype, weak, scalar = dtype_of(z), util.weak_of(z), not shape_of(z)
    if dtype.kind == "c":
        z = util.cast(util.array(z), dtype, weak)
        re, im = ew.real(z), ew.imag(z)
    else:
        if scalar or not dtypes.is_inexact(dtype):  # (JAX: those of any dtype)
            dtype, weak = dtypes.default_dtype(float), False
        re = util.cast(z, dtype, weak)
        im = full_constant(re, 0)
    made = ew.atan2(im, re)
    return degrees(made) if deg else made


__all__ = [
    "abs", "absolute", "angle", "around", "ceil", "clip", "conj", "conjugate", "deg2rad",
    "degrees", "divmod", "fabs", "float_power", "floor", "floor_divide", "fmax", "fmin", "fmod",
    "imag", "log10", "log2", "mod", "modf", "positive", "pow", "power", "rad2deg", "radians",
    "real", "reciprocal", "remainder", "rint", "round", "trunc"]
