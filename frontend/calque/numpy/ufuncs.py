"""Elementwise functions that are one primitive over promoted operands: a row each.

`_unary` and `_binary` say how operands are promoted: "same" as they come, "numeric" (bool becomes
int), "inexact" (integers become float).  Functions with a body of their own: arithmetic.py,
special.py, logic.py.
"""
from __future__ import annotations

from typing import Any

import numpy as np

from calque.core import dtypes
from calque.core.avals import dtype_of, shape_of
from calque.core.errors import explain
from calque.core.naming import alias
from calque.core.primitive import Primitive
from calque.core.trace import Trace, current
from calque.core.tracebacks import hide_ours
from calque.core.types import Function
from calque.dispatch import shape_polymorphic
from calque.dispatch.array import Array
from calque.dispatch.eager import lazy_eval
from calque.dispatch.host_arguments import NUMPYS, eager_array
from calque.numpy import util
from calque.numpy.documents import document, f32, i32, weak_truth
from calque.numpy.quick import eager_arrays, quick
from calque.primitives import elementwise as ew

_EXACT, _NUMERIC, _INEXACT = "same", "numeric", "inexact"
_KEPT = frozenset(map(np.dtype, ("float32", "float64")))  # that no kind of promotion changes


def _kind(kind: str, dtype: Any, weak: bool) -> tuple[Any, bool]:
    if kind == _NUMERIC:
        return util.numeric(dtype, weak)
    return (util.to_inexact(dtype) if kind == _INEXACT else dtype), weak


def _unary(name: str, prim: Primitive, kind: str, sentence: str, example: str,
           result: str) -> Function:
    def f(x: Any, /) -> Any:
        if type(x) in NUMPYS:
            x = eager_array(x)
        if type(x) is Array and x.aval.dtype in _KEPT:
            done = shape_polymorphic.again(prim, x)
            return prim.bind(x) if done is None else done
        x = util.one_array(name, x)
        return util.apply(name, prim, (x,), *_kind(kind, *dtypes.dtype_and_weak(x)))

    return document(f, name, sentence, ["x"], "An array of x's shape.", example, result)


def binary(name: str, prim: Primitive, kind: str, x: Any, y: Any) -> Any:
    """prim of two promoted and broadcast operands."""
    x, y = eager_arrays(x, y)
    done = quick(prim, kind == _INEXACT, x, y)
    if done is not None:
        return done
    if kind == _EXACT and util.shared_aval(x, y) is not None:
        return prim.bind(x, y)
    x, y = util.check_arrays(name, x, y)
    return util.apply(name, prim, (x, y), *_kind(kind, *util.joined((x, y))))


def _binary(name: str, prim: Primitive, kind: str, sentence: str, example: str, result: str,
            ufunc: bool = True) -> Function:
    def with_keywords(x: Any, y: Any, /, *, out: None = None, where: None = None) -> Any:
        if out is not None or where is not None:
            what = "out" if out is not None else "where"
            raise NotImplementedError(explain(
                f"{what} argument of <jnp.ufunc {name!r}> is not supported.",
                fix="use the returned array, and jnp.where to choose."))
        return binary(name, prim, kind, x, y)

    def plain(x: Any, y: Any, /) -> Any:
        return binary(name, prim, kind, x, y)

    return document(with_keywords if ufunc else plain, name, sentence, ["x", "y"],
                    "An array of the broadcast shape.", example, result)


# ---- arithmetic
_add = _binary("add", ew.add_p, _EXACT, "Sum x + y; logical or of bools.", "jnp.add(1, 2)",
               i32("3"))
_multiply = _binary("multiply", ew.mul_p, _EXACT, "Product x * y; logical and of bools.",
                    "jnp.multiply(3, 2)", i32("6"))


def _bool_form(f: Function, number: Primitive, prim: Primitive) -> Function:
    """add and multiply of two bool arrays are or and and."""
    name = f.__name__

    def call(x: Any, y: Any, /, *, out: None = None, where: None = None) -> Any:
        if out is None and where is None:
            x, y = eager_arrays(x, y)
            done = quick(number, False, x, y)
            if done is not None:
                return done
            a = util.shared_aval(x, y)
            if a is not None and a.dtype != dtypes.bool_:
                return f(x, y)
        try:
            x, y = util.check_arrays(name, x, y)
            if dtype_of(x) == dtype_of(y) == dtypes.bool_:
                return binary(name, prim, _EXACT, x, y)
            if number is ew.mul_p and dtypes.bool_ in (dtype_of(x), dtype_of(y)):
                done = _choice(x, y) if out is where is None else None
                if done is not None:
                    return done
            return f(x, y, out=out, where=where)
        except Exception as error:
            hide_ours(error)
            raise

    call.__name__ = call.__qualname__ = name
    call.__doc__, call.__module__ = f.__doc__, f.__module__
    return call


def _choice(x: Any, y: Any) -> Any:
    """x * y of a mask and numbers, where no program is made that lowering/passes/masks reads."""
    dtype, weak = util.joined((x, y))
    shape = util.common_shape("multiply", [shape_of(x), shape_of(y)])
    trace: Trace | None = current.get()
    while trace is not None:
        if trace.kind == "stage":
            return None
        trace = trace.parent
    for mask, number in ((x, y), (y, x)):
        if shape_of(mask) == shape and dtypes.chooses(dtype_of(mask), dtype):
            with lazy_eval("multiply"):
                values = [util.broadcast_to(util.cast(v, dtype, weak), shape) for v in (0, number)]
                return ew.select_n_p.bind(mask, *values)
    return None


add = _bool_form(_add, ew.add_p, ew.or_p)
multiply = _bool_form(_multiply, ew.mul_p, ew.and_p)
subtract = _binary("subtract", ew.sub_p, _EXACT, "Difference x - y.", "jnp.subtract(3, 1)",
                   i32("2"))
divide = _binary("divide", ew.div_p, _INEXACT, "Quotient x / y as a float.", "jnp.divide(1, 2)",
                 f32("0.5"), False)
true_divide = _binary("true_divide", ew.div_p, _INEXACT, "Quotient x / y as a float.",
                      "jnp.true_divide(1, 2)", f32("0.5"), False)
maximum = _binary("maximum", ew.max_p, _EXACT, "Larger of x and y; NaN if either is NaN.",
                  "jnp.maximum(1, 2)", i32("2"))
minimum = _binary("minimum", ew.min_p, _EXACT, "Smaller of x and y; NaN if either is NaN.",
                  "jnp.minimum(1, 2)", i32("1"))
nextafter = _binary("nextafter", ew.nextafter_p, _INEXACT,
                    "The next representable value after x towards y.",
                    "jnp.nextafter(1.0, 2.0)", f32("1.0000001"), False)
negative = _unary("negative", ew.neg_p, _EXACT, "Negation -x.", "jnp.negative(2)", i32("-2"))
sign = _unary("sign", ew.sign_p, _EXACT,
              "Sign: -1, 1, and 0 of the zero's own sign; z / |z| of complex numbers.",
              "jnp.sign(-2)", i32("-1"))
square = _unary("square", ew.square_p, _NUMERIC, "Square x * x.", "jnp.square(3)", i32("9"))

# ---- roots, exponentials, logarithms
sqrt = _unary("sqrt", ew.sqrt_p, _INEXACT, "Square root; NaN for negative reals.",
              "jnp.sqrt(4)", f32("2."))
cbrt = _unary("cbrt", ew.cbrt_p, _INEXACT, "Real cube root.", "jnp.cbrt(8)", f32("2."))
exp = _unary("exp", ew.exp_p, _INEXACT, "Exponential e ** x.", "jnp.exp(0)", f32("1."))
exp2 = _unary("exp2", ew.exp2_p, _INEXACT, "Exponential 2 ** x.", "jnp.exp2(3)", f32("8."))
expm1 = _unary("expm1", ew.expm1_p, _INEXACT, "exp(x) - 1, exact near 0.", "jnp.expm1(0)",
               f32("0."))
log = _unary("log", ew.log_p, _INEXACT, "Natural logarithm.", "jnp.log(1)", f32("0."))
log1p = _unary("log1p", ew.log1p_p, _INEXACT, "log(1 + x), exact near 0.", "jnp.log1p(0)",
               f32("0."))

# ---- trigonometric and hyperbolic functions
sin = _unary("sin", ew.sin_p, _INEXACT, "Sine of x in radians.", "jnp.sin(0)", f32("0."))
cos = _unary("cos", ew.cos_p, _INEXACT, "Cosine of x in radians.", "jnp.cos(0)", f32("1."))
tan = _unary("tan", ew.tan_p, _INEXACT, "Tangent of x in radians.", "jnp.tan(0)", f32("0."))
arcsin = _unary("arcsin", ew.asin_p, _INEXACT, "Arc sine in radians.", "jnp.arcsin(0)",
                       f32("0."))
arccos = _unary("arccos", ew.acos_p, _INEXACT, "Arc cosine in radians.", "jnp.arccos(1)",
                       f32("0."))
arctan = _unary("arctan", ew.atan_p, _INEXACT, "Arc tangent in radians.",
                       "jnp.arctan(0)", f32("0."))
sinh = _unary("sinh", ew.sinh_p, _INEXACT, "Hyperbolic sine.", "jnp.sinh(0)", f32("0."))
cosh = _unary("cosh", ew.cosh_p, _INEXACT, "Hyperbolic cosine.", "jnp.cosh(0)", f32("1."))
tanh = _unary("tanh", ew.tanh_p, _INEXACT, "Hyperbolic tangent.", "jnp.tanh(0)", f32("0."))
arcsinh = _unary("arcsinh", ew.asinh_p, _INEXACT, "Inverse hyperbolic sine.",
                         "jnp.arcsinh(0)", f32("0."))
arccosh = _unary("arccosh", ew.acosh_p, _INEXACT, "Inverse hyperbolic cosine.",
                         "jnp.arccosh(1)", f32("0."))
arctanh = _unary("arctanh", ew.atanh_p, _INEXACT, "Inverse hyperbolic tangent.",
                         "jnp.arctanh(0)", f32("0."))

# ---- comparison
equal = _binary("equal", ew.eq_p, _EXACT, "x == y.", "jnp.equal(1, 1)", weak_truth("True"))
not_equal = _binary("not_equal", ew.ne_p, _EXACT, "x != y.", "jnp.not_equal(1, 1)",
                    weak_truth("False"))


def _ordered(name: str, prim: Primitive, sign_text: str, result: str) -> Function:
    """A comparison; complex numbers are ordered by real part, then imaginary part."""
    def f(x: Any, y: Any, /, *, out: None = None, where: None = None) -> Any:
        x, y = eager_arrays(x, y)
        done = quick(prim, False, x, y)
        if done is not None:
            return done
        a = util.shared_aval(x, y)
        if a is not None and a.dtype.kind != "c":
            return prim.bind(x, y)
        x, y = util.check_arrays(name, x, y)
        if util.joined((x, y))[0].kind == "c":
            return _complex_order(name, prim, x, y)
        return binary(name, prim, _EXACT, x, y)

    return document(f, name, f"x {sign_text} y; complex numbers by real, then imaginary part.",
                    ["x", "y"], "A bool array of the broadcast shape.", f"jnp.{name}(1, 2)",
                    weak_truth(result))


@util.planned
def _complex_order(name: str, prim: Primitive, x: Any, y: Any) -> Any:
    x, y = util.broadcast_all(name, *util.promote(name, x, y))
    rx, ry = ew.real(x), ew.real(y)
    return ew.select_n(ew.eq(rx, ry), prim.bind(rx, ry),
                       prim.bind(ew.imag(x), ew.imag(y)))


greater = _ordered("greater", ew.gt_p, ">", "False")
greater_equal = _ordered("greater_equal", ew.ge_p, ">=", "False")
less = _ordered("less", ew.lt_p, "<", "True")
less_equal = _ordered("less_equal", ew.le_p, "<=", "True")

# ---- bits
bitwise_and = _binary("bitwise_and", ew.and_p, _EXACT, "Bitwise (logical for bool) and.",
                      "jnp.bitwise_and(6, 3)", i32("2"))
bitwise_or = _binary("bitwise_or", ew.or_p, _EXACT, "Bitwise (logical for bool) or.",
                     "jnp.bitwise_or(6, 3)", i32("7"))
bitwise_xor = _binary("bitwise_xor", ew.xor_p, _EXACT, "Bitwise (logical) exclusive or.",
                      "jnp.bitwise_xor(6, 3)", i32("5"))
invert = _unary("invert", ew.not_p, _EXACT, "Bitwise (logical for bool) complement.",
                "jnp.invert(0)", i32("-1"))
bitwise_not, bitwise_invert = (alias(invert, n) for n in ("bitwise_not", "bitwise_invert"))
left_shift = _binary(
    "left_shift", ew.shift_left_p, _NUMERIC, "x * 2**y by shifting bits.", "jnp.left_shift(1, 3)",
    i32("8"), False)


def right_shift(x1: Any, x2: Any, /) -> Any:
    """x1 shifted right by x2 bits: signed integers are filled with the sign, unsigned with zeros.

    Args:
      x1: integer array.
      x2: integer array.

    Returns:
      An array of the broadcast shape.

    Raises:
      TypeError: an argument is not an integer array.

    Example:
      >>> import calque.numpy as jnp
      >>> jnp.right_shift(-8, 1)
      Array(-4, dtype=int32, weak_type=True)
    """
    x1, x2 = util.check_arrays("right_shift", x1, x2)
    dtype, _ = util.joined((x1, x2))
    prim = ew.shift_right_logical_p if dtypes.is_unsigned(dtype) else ew.shift_right_arithmetic_p
    return binary("right_shift", prim, _NUMERIC, x1, x2)


bitwise_right_shift = alias(right_shift, "bitwise_right_shift")
bitwise_left_shift = alias(left_shift, "bitwise_left_shift")
acos, acosh = alias(arccos, "acos"), alias(arccosh, "acosh")
asin, asinh = alias(arcsin, "asin"), alias(arcsinh, "asinh")
atan, atanh = alias(arctan, "atan"), alias(arctanh, "atanh")

__all__ = [
    "acos", "acosh", "add", "arccos", "arccosh", "arcsin", "arcsinh", "arctan", "arctanh", "asin",
    "asinh", "atan", "atanh", "bitwise_and", "bitwise_invert",
    "bitwise_left_shift", "bitwise_not", "bitwise_or", "bitwise_right_shift", "bitwise_xor",
    "cbrt", "cos", "cosh", "divide", "equal", "exp", "exp2", "expm1", "greater", "greater_equal",
    "invert", "left_shift", "less", "less_equal", "log", "log1p", "maximum", "minimum",
    "multiply", "negative", "nextafter", "not_equal", "right_shift", "sign", "sin", "sinh",
    "sqrt", "square", "subtract", "tan", "tanh", "true_divide"]
