"""sinh, cosh, tanh and their inverses, from expm1 and log1p as in fdlibm (Sun 1993)."""
from __future__ import annotations

import math

import numpy as np

from calque.lowering.emit.builder import Builder, Value
from calque.lowering.math.common import floating, with_sign
from calque.lowering.math.exp_log import NEGLIGIBLE, exp_scaled, expm1_quarter, log1p


@floating
def sinh(b: Builder, x: Value) -> Value:
    """(e^x - e^-x) / 2."""
    a = abs(x)
    quarter = expm1_quarter(a)
    # t = e^a - 1 = 4 quarter; sinh a = (t + t/(t+1)) / 2, and t - t^2 / (2 (t+1)) near 0
    q = quarter / (quarter + 0.25)
    near = quarter * 4.0 - 2.0 * quarter * q
    result = b.select(a < 1.0, near, 2.0 * (quarter + q * 0.25))
    return with_sign(b.select(a < NEGLIGIBLE[x.dtype], a, result), x)


@floating
def cosh(b: Builder, x: Value) -> Value:
    """(e^x + e^-x) / 2."""
    quarter = exp_scaled(abs(x), -2)  # e^x / 4 overflows two binades later than e^x
    return 2.0 * (quarter + 0.0625 / quarter)


@floating
def tanh(b: Builder, x: Value) -> Value:
    """sinh x / cosh x."""
    a = abs(x)
    # with t = e^(2a) - 1: 1 - 2/(t+2); near 0, with t = e^(-2a) - 1: -t/(t+2)
    near = a < 0.55
    capped = b.select(a > 22.0, 22.0, a)
    half = 2.0 * expm1_quarter(capped * b.select(near, -2.0, b.like(x, 2.0)))
    q = b.select(near, -half, 1.0) / (half + 1.0)
    result = b.select(near, q, 1.0 - q)
    return with_sign(b.select(a < NEGLIGIBLE[x.dtype], a, result), x)


# beyond this a + sqrt(a^2 +- 1) is 2a in either precision, and a^2 might overflow
_LARGE = 2.0**60


def _log1p_doubled(large: Value, a: Value, v: Value) -> Value:
    """log1p(v), or log(2a) where a is large."""
    b = a.b
    return log1p(b, b.select(large, a, v)) + b.select(large, math.log(2), b.like(a, 0.0))


@floating
def asinh(b: Builder, x: Value) -> Value:
    """log(x + sqrt(x^2 + 1))."""
    a = abs(x)
    large = a > _LARGE
    square = a * a
    v = a + square / (b.sqrt(square + 1.0) + 1.0)
    return with_sign(_log1p_doubled(large, a, v), x)


@floating
def acosh(b: Builder, x: Value) -> Value:
    """log(x + sqrt(x^2 - 1)); NaN below 1."""
    t = x - 1.0
    result = _log1p_doubled(x > _LARGE, x, t + b.sqrt(2.0 * t + t * t))
    return b.select(x < 1.0, np.nan, result)


@floating
def atanh(b: Builder, x: Value) -> Value:
    """log((1 + x) / (1 - x)) / 2; infinite at +-1, NaN beyond."""
    a = abs(x)
    double = a + a
    v = b.select(a < 0.5, double + double * a / (1.0 - a), double / (1.0 - a))
    result = log1p(b, v) * 0.5
    return with_sign(b.select(a > 1.0, np.nan, result), x)
