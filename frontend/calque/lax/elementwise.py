"""Elementwise lax functions, a row each: the public name, its primitive and its docstring.

Binary functions take equal shapes, scalars, and axes of size 1; dtypes must agree (calque.numpy
promotes).  Conversion, select and clamp stand at the end.  Start reading at `_unary`.
"""
from __future__ import annotations

import enum
from typing import Any

import numpy as np

from calque.core import dtypes
from calque.core.avals import aval_of, dtype_of, shape_of
from calque.core.errors import explain
from calque.core.primitive import Primitive
from calque.core.types import Function
from calque.dispatch.eager import lazy_eval
from calque.lax.operands import NARROW, as_operand, document, given_dtype, numpy_operand
from calque.primitives import elementwise as ew
from calque.primitives import shape as sh


def _unary(name: str, prim: Primitive, sentence: str, accepts: str, example: str, result: str,
           accuracy: bool = False) -> Function:
    """A function of one array; accuracy=True adds JAX's (ignored) keyword."""
    def plain(x: Any) -> Any:
        return prim.bind(_taken(name, as_operand(name, x)))

    def with_accuracy(x: Any, *, accuracy: Any = None) -> Any:
        return prim.bind(as_operand(name, x))

    return document(with_accuracy if accuracy else plain, name, sentence, "x", accepts,
                    "An array of x's shape.", example, result)


# what takes fewer dtypes than its primitive: the test, and what is said of them
_SOME: dict[str, tuple[Function, str]] = {
    "abs": (lambda d: not dtypes.is_unsigned(d) and d not in dtypes.SMALL_INTEGERS,
            "floating, complexfloating, signedinteger"),
    "conj": (lambda d: dtypes.is_complex(d) or d in ("float32", "float64"),
             "float32, complexfloating, float64"),
    "complex": (lambda d: d in ("float32", "float64"), "float32, float64")}


def _taken(name: str, x: Any, position: str = "") -> Any:
    """An operand, or TypeError where JAX has one."""
    if name not in _SOME or _SOME[name][0](dtype := dtype_of(x)):
        return x
    why = (NARROW if dtypes.is_integer(dtype) and dtypes.is_signed(dtype) else
           f"Accepted dtypes{position} are subtypes of {_SOME[name][1]}.")
    raise TypeError(explain(f"{name} does not accept dtype {dtype.name}{position}. {why}",
                            fix="cast the operand with .astype(...)."))


def spread_ones(name: str, x: Any, y: Any) -> tuple[Any, Any]:
    """Axes of size 1 repeated, so that both operands have one shape (rank 0 stays)."""
    a, b = shape_of(x), shape_of(y)
    if a == b or not a or not b:
        return x, y
    if len(a) != len(b):
        raise TypeError(explain(
            f"{name}: arrays must have the same number of dimensions, got {{{len(a)}, {len(b)}}}",
            fix=f"add axes with lax.expand_dims, or use jnp, which broadcasts {a} and {b}."))
    if any(m != n and 1 not in (m, n) for m, n in zip(a, b)):
        raise TypeError(explain(
            f"{name} got incompatible shapes for broadcasting: {a}, {b}.",
            fix="reshape one of them so that every axis agrees or has size 1."))
    shape = tuple(n if m == 1 else m for m, n in zip(a, b))
    axes = tuple(range(len(shape)))
    return tuple(v if shape_of(v) == shape else sh.broadcast_in_dim(v, shape, axes)
                 for v in (x, y))


def _binary(name: str, prim: Primitive, sentence: str, accepts: str, example: str, result: str,
            names: tuple[str, str] = ("x", "y"), ordered: bool = False) -> Function:
    """A function of two arrays, of complex ones only if not `ordered`."""
    first, second = names

    def call(x: Any, y: Any) -> Any:
        x, y = as_operand(name, x), as_operand(name, y, 1)
        if name in _SOME:
            x, y = (_taken(name, v, f" at position {i}") for i, v in enumerate((x, y)))
        if ordered and dtypes.is_complex(dtype_of(x)):
            raise TypeError(explain(
                f"{name} does not accept dtype {dtype_of(x)} at position 0: complex numbers "
                "have no order.", fix="compare their absolute values."))
        a, b = shape_of(x), shape_of(y)
        if a == b or not a or not b:
            return prim.bind(x, y)
        if dtype_of(x) != dtype_of(y):
            prim.rule("abstract")(aval_of(x), aval_of(y))  # raises
        with lazy_eval(name):
            return prim.bind(*spread_ones(name, x, y))

    if names == ("x", "y"):
        f: Function = call
    else:
        def f(x1: Any, x2: Any) -> Any:
            return call(x1, x2)
    return document(f, name, sentence, names, accepts, "An array of the common shape.", example,
                    result)


_WEAK = "Array({}, dtype={}, weak_type=True)"


def _f(value: str) -> str:
    return _WEAK.format(value, "float32")


def _i(value: str) -> str:
    return _WEAK.format(value, "int32")


def _b(value: str) -> str:
    return _WEAK.format(value, "bool")


# ---- arithmetic
add = _binary("add", ew.add_p, "Elementwise sum x + y.", "number", "lax.add(1.0, 2.0)", _f("3."))
sub = _binary("sub", ew.sub_p, "Elementwise difference x - y.", "number", "lax.sub(1.0, 2.0)",
              _f("-1."))
_mul = _binary("mul", ew.mul_p, "Elementwise product x * y.", "number", "lax.mul(3.0, 2.0)",
               _f("6."))


def mul(x: Any, y: Any, *, out_dtype: Any = None) -> Any:
    """Elementwise product x * y.

    Args:
      x: array of integer, float or complex dtype, or a scalar.
      y: the same dtype; a scalar or a shape that broadcasts by axes of size 1.
      out_dtype: the dtype to multiply in and of the result; that of the operands by default.

    Returns:
      An array of the common shape.

    Raises:
      TypeError: an operand is not an array, or has another dtype (lax does not promote).

    Example:
      >>> from calque import lax
      >>> lax.mul(3.0, 2.0)
      Array(6., dtype=float32, weak_type=True)
    """
    if out_dtype is None:
        return _mul(x, y)
    with lazy_eval("mul"):
        return _mul(convert_element_type(x, out_dtype), convert_element_type(y, out_dtype))


div = _binary("div", ew.div_p, "Elementwise quotient; integers are divided towards zero.",
              "number", "lax.div(-7, 2)", _i("-3"))
rem = _binary("rem", ew.rem_p, "Remainder of x / y with the sign of x.", "real", "lax.rem(-7, 2)",
              _i("-1"))
neg = _unary("neg", ew.neg_p, "Elementwise negation -x.", "number", "lax.neg(2.0)", _f("-2."))
abs = _unary("abs", ew.abs_p, "Absolute value; the modulus of complex numbers.", "number",
             "lax.abs(-2)", _i("2"))
sign = _unary("sign", ew.sign_p, "Sign: -1, 0 or 1; z / |z| of complex numbers; NaN of NaN.",
              "number", "lax.sign(-2.0)", _f("-1."))
max = _binary("max", ew.max_p, "Elementwise maximum; NaN if either is NaN.", "any",
              "lax.max(1.0, 2.0)", _f("2."))
min = _binary("min", ew.min_p, "Elementwise minimum; NaN if either is NaN.", "any",
              "lax.min(1.0, 2.0)", _f("1."))
square = _unary("square", ew.square_p, "Square x * x.", "number", "lax.square(3)", _i("9"))
nextafter = _binary("nextafter", ew.nextafter_p, "The next representable value after x1 towards "
                    "x2.", "float", "lax.nextafter(1.0, 2.0)", _f("1.0000001"), ("x1", "x2"))

# ---- powers and roots
sqrt = _unary("sqrt", ew.sqrt_p, "Square root; NaN for negative reals.", "inexact",
              "lax.sqrt(4.0)", _f("2."), True)
rsqrt = _unary("rsqrt", ew.rsqrt_p, "Reciprocal square root 1 / sqrt(x).", "inexact",
               "lax.rsqrt(4.0)", _f("0.5"), True)
cbrt = _unary("cbrt", ew.cbrt_p, "Real cube root.", "float", "lax.cbrt(8.0)", _f("2."), True)


def pow(x: Any, y: Any) -> Any:
    """Elementwise power x ** y.

    Args:
      x: array of float or complex dtype, or a scalar.
      y: the same dtype as x, or an integer dtype.

    Returns:
      An array of the common shape and x's dtype.

    Raises:
      TypeError: x is an integer array, or the float dtypes differ.

    Example:
      >>> from calque import lax
      >>> lax.pow(2.0, 3.0)
      Array(8., dtype=float32, weak_type=True)
    """
    x, y = as_operand("pow", x), as_operand("pow", y, 1)
    a, b = aval_of(x), aval_of(y)
    if not dtypes.is_inexact(a.dtype):
        raise TypeError(explain(
            f"pow does not accept dtype {a.dtype.name} at position 0. Accepted dtypes at position "
            "0 are subtypes of floating, complexfloating.",
            fix="use lax.integer_pow or jnp.power for integers."))
    if a.dtype != b.dtype and not dtypes.is_integer(b.dtype):
        raise TypeError(explain(
            "the first argument to pow must have an inexact dtype (float or complex), and the "
            "second argument must have an inexact or integer dtype, and two inexact dtypes must "
            f"match, but got {a.dtype.name} and {b.dtype.name} respectively.",
            fix="cast one of them, or use jnp.power."))
    if a.shape == b.shape or not a.shape or not b.shape:
        return ew.pow_(x, y)
    with lazy_eval("pow"):
        return ew.pow_(*spread_ones("pow", x, y))


def integer_pow(x: Any, y: int) -> Any:
    """Elementwise power x ** y for a whole number y.

    Args:
      x: array of integer, float or complex dtype, or a scalar.
      y: exponent; negative only for floats.

    Returns:
      An array of x's shape and dtype.

    Raises:
      TypeError: x is an integer array and y is negative, or y is no integer.

    Example:
      >>> from calque import lax
      >>> lax.integer_pow(2.0, 3)
      Array(8., dtype=float32, weak_type=True)
    """
    is_whole = getattr(y, "is_integer", None)
    if is_whole is not None and is_whole() and -2**31 < y < 2**31:  # 2.0, as in JAX
        y = int(y)
    if not hasattr(y, "__index__"):
        raise TypeError(explain(f"integer_pow: the exponent must be a whole number, got {y!r}.",
                                fix="use lax.pow for other exponents."))
    return ew.integer_pow_p.bind(as_operand("integer_pow", x), y=int(y.__index__()))


def reciprocal(x: Any) -> Any:
    """Elementwise reciprocal 1 / x.

    Args:
      x: array of float or complex dtype, or a scalar.

    Returns:
      An array of x's shape and dtype.

    Raises:
      TypeError: x is not an array.

    Example:
      >>> from calque import lax
      >>> lax.reciprocal(4.0)
      Array(0.25, dtype=float32, weak_type=True)
    """
    return integer_pow(x, -1)


# ---- exponentials and logarithms
exp = _unary("exp", ew.exp_p, "Exponential e ** x.", "inexact", "lax.exp(0.0)", _f("1."), True)
exp2 = _unary("exp2", ew.exp2_p, "Exponential 2 ** x.", "inexact", "lax.exp2(3.0)", _f("8."),
              True)
expm1 = _unary("expm1", ew.expm1_p, "exp(x) - 1, exact near 0.", "inexact", "lax.expm1(0.0)",
               _f("0."), True)
log = _unary("log", ew.log_p, "Natural logarithm.", "inexact", "lax.log(1.0)", _f("0."), True)
log1p = _unary("log1p", ew.log1p_p, "log(1 + x), exact near 0.", "inexact", "lax.log1p(0.0)",
               _f("0."), True)
logistic = _unary("logistic", ew.logistic_p, "Logistic function 1 / (1 + exp(-x)).", "inexact",
                  "lax.logistic(0.0)", _f("0.5"), True)
erf = _unary("erf", ew.erf_p, "Error function 2/sqrt(pi) * integral of exp(-t*t) from 0 to x.",
             "float", "lax.erf(0.0)", _f("0."))
erfc = _unary("erfc", ew.erfc_p, "Complementary error function 1 - erf(x).", "float",
              "lax.erfc(0.0)", _f("1."))
erf_inv = _unary("erf_inv", ew.erf_inv_p, "Inverse of erf on (-1, 1).", "float",
                 "lax.erf_inv(0.0)", _f("0."))

# ---- trigonometric and hyperbolic functions
sin = _unary("sin", ew.sin_p, "Sine of x in radians.", "inexact", "lax.sin(0.0)", _f("0."), True)
cos = _unary("cos", ew.cos_p, "Cosine of x in radians.", "inexact", "lax.cos(0.0)", _f("1."),
             True)
tan = _unary("tan", ew.tan_p, "Tangent of x in radians.", "inexact", "lax.tan(0.0)", _f("0."),
             True)
asin = _unary("asin", ew.asin_p, "Arc sine in radians, in [-pi/2, pi/2].", "inexact",
              "lax.asin(0.0)", _f("0."))
acos = _unary("acos", ew.acos_p, "Arc cosine in radians, in [0, pi].", "inexact",
              "lax.acos(1.0)", _f("0."))
atan = _unary("atan", ew.atan_p, "Arc tangent in radians, in [-pi/2, pi/2].", "inexact",
              "lax.atan(0.0)", _f("0."))
atan2 = _binary("atan2", ew.atan2_p, "Angle of the point (y, x) in radians, in [-pi, pi].",
                "float", "lax.atan2(0.0, 1.0)", _f("0."))
sinh = _unary("sinh", ew.sinh_p, "Hyperbolic sine.", "inexact", "lax.sinh(0.0)", _f("0."))
cosh = _unary("cosh", ew.cosh_p, "Hyperbolic cosine.", "inexact", "lax.cosh(0.0)", _f("1."))
tanh = _unary("tanh", ew.tanh_p, "Hyperbolic tangent.", "inexact", "lax.tanh(0.0)", _f("0."),
              True)
asinh = _unary("asinh", ew.asinh_p, "Inverse hyperbolic sine.", "inexact", "lax.asinh(0.0)",
               _f("0."))
acosh = _unary("acosh", ew.acosh_p, "Inverse hyperbolic cosine; NaN below 1.", "inexact",
               "lax.acosh(1.0)", _f("0."))
atanh = _unary("atanh", ew.atanh_p, "Inverse hyperbolic tangent; NaN outside [-1, 1].",
               "inexact", "lax.atanh(0.0)", _f("0."))

# ---- rounding and tests
floor = _unary("floor", ew.floor_p, "Largest integer not above x.", "float", "lax.floor(1.5)",
               _f("1."))
ceil = _unary("ceil", ew.ceil_p, "Smallest integer not below x.", "float", "lax.ceil(1.5)",
              _f("2."))
is_finite = _unary("is_finite", ew.is_finite_p, "Whether x is neither infinite nor NaN.",
                   "float", "lax.is_finite(1.0)", _b("True"))


class RoundingMethod(enum.IntEnum):
    """How `round` treats numbers half-way between two integers.

    Example:
      >>> from calque import lax
      >>> lax.round(2.5, lax.RoundingMethod.TO_NEAREST_EVEN)
      Array(2., dtype=float32, weak_type=True)
    """

    AWAY_FROM_ZERO = 0
    TO_NEAREST_EVEN = 1


def round(x: Any, rounding_method: RoundingMethod = RoundingMethod.AWAY_FROM_ZERO) -> Any:
    """Round to the nearest integer.

    Args:
      x: array of float dtype, or a scalar.
      rounding_method: what becomes of halves (RoundingMethod).

    Returns:
      An array of x's shape and dtype.

    Raises:
      TypeError: x is not a float array.

    Example:
      >>> from calque import lax
      >>> lax.round(2.5)
      Array(3., dtype=float32, weak_type=True)
    """
    return ew.round_(as_operand("round", x), rounding_method=RoundingMethod(rounding_method))


# ---- comparison
eq = _binary("eq", ew.eq_p, "x == y, elementwise.", "any", "lax.eq(1, 1)", _b("True"))
ne = _binary("ne", ew.ne_p, "x != y, elementwise.", "any", "lax.ne(1, 1)", _b("False"))
lt = _binary("lt", ew.lt_p, "x < y, elementwise.", "real", "lax.lt(1, 2)",
             _b("True"), ordered=True)
le = _binary("le", ew.le_p, "x <= y, elementwise.", "real", "lax.le(1, 2)",
             _b("True"), ordered=True)
gt = _binary("gt", ew.gt_p, "x > y, elementwise.", "real", "lax.gt(1, 2)",
             _b("False"), ordered=True)
ge = _binary("ge", ew.ge_p, "x >= y, elementwise.", "real", "lax.ge(1, 2)",
             _b("False"), ordered=True)

# ---- bits
bitwise_and = _binary("bitwise_and", ew.and_p, "Bitwise (logical for bool) and.", "bits",
                      "lax.bitwise_and(6, 3)", _i("2"))
bitwise_or = _binary("bitwise_or", ew.or_p, "Bitwise (logical for bool) or.", "bits",
                     "lax.bitwise_or(6, 3)", _i("7"))
bitwise_xor = _binary("bitwise_xor", ew.xor_p, "Bitwise (logical for bool) exclusive or.",
                      "bits", "lax.bitwise_xor(6, 3)", _i("5"))
bitwise_not = _unary("bitwise_not", ew.not_p, "Bitwise (logical for bool) complement.", "bits",
                     "lax.bitwise_not(0)", _i("-1"))
shift_left = _binary("shift_left", ew.shift_left_p, "x << y; 0 when y is not below the width.",
                     "integer", "lax.shift_left(1, 3)", _i("8"))
shift_right_arithmetic = _binary(
    "shift_right_arithmetic", ew.shift_right_arithmetic_p, "x >> y, filled with the sign bit.",
    "integer", "lax.shift_right_arithmetic(-8, 1)", _i("-4"))
shift_right_logical = _binary(
    "shift_right_logical", ew.shift_right_logical_p, "x >> y, filled with zeros.", "integer",
    "lax.shift_right_logical(8, 1)", _i("4"))
population_count = _unary("population_count", ew.population_count_p, "Number of bits that are 1.",
                          "integer", "lax.population_count(7)", _i("3"))
clz = _unary("clz", ew.clz_p, "Number of leading zero bits.", "integer", "lax.clz(1)", _i("31"))

# ---- complex numbers
real = _unary("real", ew.real_p, "Real part.", "complex", "lax.real(1 + 2j)", _f("1."))
imag = _unary("imag", ew.imag_p, "Imaginary part.", "complex", "lax.imag(1 + 2j)", _f("2."))
conj = _unary("conj", ew.conj_p, "Complex conjugate; a real array becomes complex.", "inexact",
              "lax.conj(1 + 2j)", "Array(1.-2.j, dtype=complex64, weak_type=True)")
complex = _binary("complex", ew.complex_p, "The complex numbers x + iy.", "float",
                  "lax.complex(1.0, 2.0)", "Array(1.+2.j, dtype=complex64, weak_type=True)")


# ---- conversion
def convert_element_type(operand: Any, new_dtype: Any) -> Any:
    """Elementwise conversion to another dtype; floats become integers by truncation.

    Args:
      operand: array of any dtype, or a scalar.
      new_dtype: a dtype, or a Python scalar type.

    Returns:
      An array of operand's shape and the new dtype, not weakly typed.

    Raises:
      TypeError: operand is not an array, or new_dtype no dtype.
      ValueError: exactly one of the dtypes is that of PRNG keys.

    Example:
      >>> from calque import lax
      >>> lax.convert_element_type(1.5, "int32")
      Array(1, dtype=int32)
    """
    dtype = given_dtype("convert_element_type", new_dtype)
    if type(operand) is int:
        operand = float(operand) if dtypes.is_inexact(dtype) else dtypes.wrapped(operand, dtype)
    elif isinstance(operand, np.generic):  # (an array is cut first)
        operand = numpy_operand("convert_element_type", operand, dtype)
    x = as_operand("convert_element_type", operand)
    own = dtype_of(x)
    if dtypes.is_key(own) != dtypes.is_key(dtype):
        raise ValueError(explain(
            f"Cannot convert_element_type from {own.name} to {dtype.name}",
            fix="use random.key_data to read a key's words, random.wrap_key_data to make a key."))
    return convert(x, dtype)


def convert(x: Any, dtype: Any, weak: bool = False) -> Any:
    """x as a dtype; complex numbers lose their imaginary part, unchanged arrays are returned."""
    return ew.convert(x, dtype, weak)


def bitcast_convert_type(operand: Any, new_dtype: Any) -> Any:
    """The bits of operand read as another dtype.

    Args:
      operand: array of any real dtype; with a wider new dtype its last axis holds the parts.
      new_dtype: the dtype of the result.

    Returns:
      An array of the new dtype; a narrower dtype adds a last axis.

    Raises:
      TypeError: a complex or bool dtype is involved.
      ValueError: the last axis does not hold one element's parts, or keys are involved.

    Example:
      >>> import numpy as np
      >>> from calque import lax
      >>> lax.bitcast_convert_type(np.float32(1), "int32")
      Array(1065353216, dtype=int32)
    """
    x = as_operand("bitcast_convert_type", operand)
    for kind in (dtype_of(x), new_dtype):
        if dtypes.is_key(kind):
            raise ValueError(explain(
                f"bitcast_convert_type: unexpected input: dtype={kind}.",
                fix="use random.key_data and random.wrap_key_data."))
    dtype = given_dtype("bitcast_convert_type", new_dtype)
    if dtype_of(x) == dtype:
        return convert(x, dtype, aval_of(x).weak_type)
    return ew.bitcast_convert_type(x, new_dtype=dtype)


# ---- choosing
def select_n(which: Any, *cases: Any) -> Any:
    """Choose elementwise among cases: case number `which`.

    Args:
      which: bool array (False takes the first case, True the second) or int32 array; a scalar, or
        of the cases' shape.
      cases: arrays of one shape and dtype.

    Returns:
      An array of the cases' shape and dtype.

    Raises:
      TypeError: shapes or dtypes differ, or there are too many cases for a bool.

    Example:
      >>> import numpy as np
      >>> from calque import lax
      >>> lax.select_n(np.array([True, False]), np.array([1, 2]), np.array([10, 20]))
      Array([10,  2], dtype=int32)
    """
    values = [as_operand("select_n", c, i + 1) for i, c in enumerate(cases)]
    which = as_operand("select_n", which)
    shapes = [shape_of(v) for v in values]
    if any(s != shapes[0] for s in shapes):
        raise TypeError(explain(
            f"select cases must have the same shapes, got [{', '.join(map(str, shapes))}].",
            fix="broadcast them, or use jnp.where."))
    kinds = [dtype_of(v).name for v in values]
    if any(k != kinds[0] for k in kinds):
        raise TypeError(explain(
            f"select cases must have the same dtypes, got [{', '.join(kinds)}].",
            fix="cast them, or use jnp.where."))
    kind = dtype_of(which)
    if kind != dtypes.bool_ and not dtypes.is_integer(kind):
        raise TypeError(explain(
            f"select `which` must be boolean or integer type, got {kind.name}.",
            fix="compare it first, for example which > 0."))
    if dtypes.is_integer(kind) and kind != dtypes.int32:
        which = convert(which, dtypes.int32)
    return ew.select_n(which, *values)


def select(pred: Any, on_true: Any, on_false: Any) -> Any:
    """on_true where pred holds, on_false elsewhere.

    Args:
      pred: bool array, a scalar or of the cases' shape.
      on_true: array of any dtype.
      on_false: array of the same shape and dtype.

    Returns:
      An array of the cases' shape and dtype.

    Raises:
      TypeError: shapes or dtypes differ.

    Example:
      >>> import numpy as np
      >>> from calque import lax
      >>> lax.select(np.array([True, False]), np.array([1, 2]), np.array([10, 20]))
      Array([ 1, 20], dtype=int32)
    """
    return select_n(pred, on_false, on_true)


def clamp(min: Any, x: Any, max: Any) -> Any:
    """x limited to [min, max], elementwise.

    Args:
      min: lower bound, a scalar or of x's shape.
      x: array of any real dtype.
      max: upper bound, a scalar or of x's shape.

    Returns:
      An array of x's shape and dtype.

    Raises:
      TypeError: shapes or dtypes differ.

    Example:
      >>> from calque import lax
      >>> lax.clamp(0.0, 1.5, 1.0)
      Array(1., dtype=float32, weak_type=True)
    """
    values = [as_operand("clamp", v, i) for i, v in enumerate((min, x, max))]
    return ew.clamp(*values)


__all__ = [
    "RoundingMethod", "abs", "acos", "acosh", "add", "asin", "asinh", "atan", "atan2", "atanh",
    "bitcast_convert_type", "bitwise_and", "bitwise_not", "bitwise_or", "bitwise_xor", "cbrt",
    "ceil", "clamp", "clz", "complex", "conj", "convert_element_type", "cos", "cosh", "div", "eq",
    "erf", "erf_inv", "erfc", "exp", "exp2", "expm1", "floor", "ge", "gt", "imag", "integer_pow",
    "is_finite", "le", "log", "log1p", "logistic", "lt", "max", "min", "mul", "ne", "neg",
    "nextafter", "population_count", "pow", "real", "reciprocal", "rem", "round", "rsqrt",
    "select", "select_n", "shift_left", "shift_right_arithmetic", "shift_right_logical", "sign",
    "sin", "sinh", "sqrt", "square", "sub", "tan", "tanh"]
