"""TABLE: JAX's primitive name -> f(b, *operands), for operands of any dtype.

The functions of one name differ by the kind of dtype: float, complex, signed or unsigned integer.
"""
from __future__ import annotations

from collections.abc import Callable

from calque.lowering.emit.builder import Builder, Value
from calque.lowering.math import (
    basic,
    bessel,
    complex_,
    complex_inverse,
    exp_log,
    gamma,
    hyperbolic,
    incomplete,
    power,
    special,
    trig,
)
from calque.lowering.math.convert import convert

Function = Callable[..., Value]


def _native(name: str) -> Function:
    """IREE's own form, where it is right (integers: x / 0, overflow and wide shifts as in XLA)."""

    def function(b: Builder, *xs: Value) -> Value:
        return b.emit(name, xs, xs[0].shape, xs[0].dtype)

    return function


def _magnitude(b: Builder, x: Value) -> Value:
    """|x| of integers; unsigned ones are their own."""
    return abs(x)


def _pow(b: Builder, x: Value, y: Value) -> Value:
    """x^y; y may be an integer beside a float or complex x."""
    if x.dtype.kind in "iub":
        return power.integer_power(b, x, y)
    if x.dtype.kind == "c":
        return complex_.pow(b, x, convert(b, y, x.dtype))
    return (power.pow_to_integer if y.dtype.kind in "iu" else power.pow)(b, x, y)


def by_kind(name: str, floats: Function, complexes: Function | None = None,
            integers: Function | None = None) -> Function:
    """One function that picks its form by the kind of its last operand's dtype."""

    def function(b: Builder, *xs: Value) -> Value:
        kind = xs[-1].dtype.kind
        form = complexes if kind == "c" else integers if kind in "iub" else floats
        if form is None:
            raise TypeError(f"{name}: no form for dtype {xs[-1].dtype}.")
        return form(b, *xs)

    function.__name__, function.__doc__ = name, floats.__doc__
    return function


TABLE: dict[str, Function] = {
    "exp": by_kind("exp", exp_log.exp, complex_.exp),
    "exp2": by_kind("exp2", exp_log.exp2, complex_.exp2),
    "expm1": by_kind("expm1", exp_log.expm1, complex_.expm1),
    "log": by_kind("log", exp_log.log, complex_.log),
    "log2": by_kind("log2", exp_log.log2),
    "log1p": by_kind("log1p", exp_log.log1p, complex_.log1p),
    "logistic": by_kind("logistic", exp_log.logistic, complex_.logistic),
    "sqrt": by_kind("sqrt", power.sqrt, complex_.sqrt),
    "rsqrt": by_kind("rsqrt", power.rsqrt, complex_.rsqrt),
    "cbrt": by_kind("cbrt", power.cbrt),
    "sin": by_kind("sin", trig.sin, complex_.sin),
    "cos": by_kind("cos", trig.cos, complex_.cos),
    "tan": by_kind("tan", trig.tan, complex_.tan),
    "asin": by_kind("asin", trig.asin, complex_inverse.asin),
    "acos": by_kind("acos", trig.acos, complex_inverse.acos),
    "atan": by_kind("atan", trig.atan, complex_inverse.atan),
    "atan2": by_kind("atan2", trig.atan2),
    "sinh": by_kind("sinh", hyperbolic.sinh, complex_.sinh),
    "cosh": by_kind("cosh", hyperbolic.cosh, complex_.cosh),
    "tanh": by_kind("tanh", hyperbolic.tanh, complex_.tanh),
    "asinh": by_kind("asinh", hyperbolic.asinh, complex_inverse.asinh),
    "acosh": by_kind("acosh", hyperbolic.acosh, complex_inverse.acosh),
    "atanh": by_kind("atanh", hyperbolic.atanh, complex_inverse.atanh),
    "abs": by_kind("abs", _native("abs"), complex_.abs_, _magnitude),
    "pow": _pow,
    "div": by_kind("div", basic.quotient, complex_.div, integers=basic.divide),
    "rem": by_kind("rem", basic.rem, integers=basic.remainder),
    "erf": by_kind("erf", special.erf),
    "erfc": by_kind("erfc", special.erfc),
    "erf_inv": by_kind("erf_inv", special.erf_inv),
    "lgamma": gamma.lgamma,
    "digamma": gamma.digamma,
    "polygamma": gamma.polygamma,
    "zeta": gamma.zeta,
    "igamma": incomplete.igamma,
    "igammac": incomplete.igammac,
    "igamma_grad_a": incomplete.igamma_grad_a,
    "random_gamma_grad": incomplete.random_gamma_grad,
    "regularized_incomplete_beta": incomplete.betainc,
    "bessel_i0e": bessel.bessel_i0e,
    "bessel_i1e": bessel.bessel_i1e,
    "floor": basic.floor,
    "ceil": basic.ceil,
    "round_half_even": basic.round_half_even,
    "round_half_away": basic.round_half_away,
    "sign": by_kind("sign", basic.sign, complex_.sign, basic.sign),
    "nextafter": basic.nextafter,
    "is_finite": basic.is_finite,
    "max": basic.maximum,
    "min": basic.minimum,
    "clamp": basic.clamp,
    "clz": basic.leading_zeros,
    "shift_left": _native("shift_left"),
    "shift_right_logical": _native("shift_right_logical"),
    "shift_right_arithmetic": _native("shift_right_arithmetic"),
}
