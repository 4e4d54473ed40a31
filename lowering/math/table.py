"""TABLE: JAX's primitive name -> f(b, *operands), for operands of any dtype.

The functions of one name differ by the kind of dtype: float, complex, signed or unsigned integer.
"""
from __future__ import annotations

from collections.abc import Callable

from calque.lowering.builder import Builder, Value
from calque.lowering.math import basic, exp_log, hyperbolic, integer, power, trig

Function = Callable[..., Value]


def _native(name: str) -> Function:
    def function(b: Builder, *xs: Value) -> Value:
        return b.emit(name, xs, xs[0].shape, xs[0].dtype)

    return function


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
    "exp": by_kind("exp", exp_log.exp),
    "exp2": by_kind("exp2", exp_log.exp2),
    "expm1": by_kind("expm1", exp_log.expm1),
    "log": by_kind("log", exp_log.log),
    "log2": by_kind("log2", exp_log.log2),
    "log1p": by_kind("log1p", exp_log.log1p),
    "logistic": by_kind("logistic", exp_log.logistic),
    "sqrt": by_kind("sqrt", power.sqrt),
    "rsqrt": by_kind("rsqrt", power.rsqrt),
    "cbrt": by_kind("cbrt", power.cbrt),
    "sin": by_kind("sin", trig.sin),
    "cos": by_kind("cos", trig.cos),
    "tan": by_kind("tan", trig.tan),
    "asin": by_kind("asin", trig.asin),
    "acos": by_kind("acos", trig.acos),
    "atan": by_kind("atan", trig.atan),
    "atan2": by_kind("atan2", trig.atan2),
    "sinh": by_kind("sinh", hyperbolic.sinh),
    "cosh": by_kind("cosh", hyperbolic.cosh),
    "tanh": by_kind("tanh", hyperbolic.tanh),
    "asinh": by_kind("asinh", hyperbolic.asinh),
    "acosh": by_kind("acosh", hyperbolic.acosh),
    "atanh": by_kind("atanh", hyperbolic.atanh),
    "pow": by_kind("pow", power.pow, integers=power.integer_power),
    "div": by_kind("div", _native("divide"), integers=integer.div),
    "rem": by_kind("rem", _native("remainder"), integers=integer.rem),
    "floor": basic.floor,
    "ceil": basic.ceil,
    "round_half_even": basic.round_half_even,
    "round_half_away": basic.round_half_away,
    "sign": basic.sign,
    "nextafter": basic.nextafter,
    "is_finite": basic.is_finite,
    "max": basic.maximum,
    "min": basic.minimum,
    "clamp": basic.clamp,
    "shift_left": integer.shift_left,
    "shift_right_logical": integer.shift_right_logical,
    "shift_right_arithmetic": integer.shift_right_arithmetic,
}
