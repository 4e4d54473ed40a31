"""asin, acos, atan, asinh, acosh, atanh of complex numbers.

asin and acos after Hull, Fairgrieve & Tang, "Implementing the complex arcsine and arccosine
functions using exception handling" (1997); the exceptional regions are told apart by size and
selected.  complex64 is computed in f64 where the target has it, so that f32 has none of them.
"""
from __future__ import annotations

import math

import numpy as np

from calque.lowering.emit.builder import Builder, Value
from calque.lowering.math import exp_log, trig
from calque.lowering.math.common import BIAS, negative, with_sign
from calque.lowering.math.complex_ import Pair, all_of, any_of, complexes, hypot, log_abs

_CROSSOVER = 0.6417  # Hull et al.: where acos and asin of b stop being accurate
_LOG_CROSSOVER = 1.5


def _ratio(y: Value, x: Value) -> Value:
    """y / x, and 0 where both are 0."""
    return y / x.b.select(x.eq(0.0), 1.0, x)


def _hull(re: Value, im: Value) -> tuple[Value, Value, Value]:
    """|Re asin z|, Re acos |z| (both of |re| + i|im|) and |Im|."""
    b, dtype = re.b, re.dtype
    x, y = abs(re), abs(im)
    big = 2.0 ** (BIAS[dtype] // 2 - 3)
    huge = any_of(x > big, y > big)
    u, v = b.select(huge, 0.5, x), b.select(huge, 0.5, y)
    above, below = u + 1.0, u - 1.0
    r, s = hypot(above, v), hypot(below, v)
    a = (r + s) * 0.5
    ratio = u / a
    # a - |u| - ... without cancellation
    square = v * v
    left = u <= 1.0
    sum_r = _ratio(square, r + above)
    sum_s = b.select(left, s - below, _ratio(square, s + below))
    # am1 = a - 1 >= 0
    am1 = b.select(u < 1.0, (sum_r + _ratio(square, s - below)) * 0.5, (sum_r + (s + below)) * 0.5)
    near = a <= _LOG_CROSSOVER
    imag = b.select(near, exp_log.log1p(b, am1 + b.sqrt(am1 * (a + 1.0))),
                    exp_log.log(b, a + b.sqrt(a * a - 1.0)))
    # sqrt(a^2 - u^2) for the steep part
    apx = a + u
    inner = b.sqrt(apx * (sum_r + sum_s) * 0.5)
    # v is small and u > 1: v sqrt(...) instead of the root of a square that underflows
    outer = v * b.sqrt((_ratio(apx, r + above) + _ratio(apx, s + below)) * 0.5)
    root = b.select(left, inner, outer)
    steep = ratio > _CROSSOVER
    safe = b.select(steep, 0.5, ratio)
    asin_re = b.select(steep, trig.atan2(b, u, root), trig.asin(b, safe))
    acos_re = b.select(steep, trig.atan2(b, root, u), trig.acos(b, safe))
    # tiny imaginary parts inside the unit interval: im = y / sqrt(1 - x^2)
    tiny = all_of(u < 1.0, v < 2.0 ** (-BIAS[dtype] // 3))
    flat = v / b.sqrt(b.select(u < 1.0, (1.0 - u) * (1.0 + u), 1.0))
    imag = b.select(tiny, flat, imag)
    # huge: asin z ~ arg + i log 2|z|
    imag = b.select(huge, log_abs(x, y) + math.log(2), imag)
    return (b.select(huge, trig.atan2(b, x, y), asin_re),
            b.select(huge, trig.atan2(b, y, x), acos_re), imag)


def _nan_parts(x: Value, y: Value, re: Value, im: Value) -> Pair:
    """C99 for NaN operands: an infinite part gives an infinite imaginary part, else NaN."""
    b = x.b
    nan = any_of(b.isnan(x), b.isnan(y))
    infinite = any_of(abs(x).eq(np.inf), abs(y).eq(np.inf))
    re = b.select(nan, np.nan, re)
    return re, b.select(nan, b.select(infinite, np.inf, b.like(x, np.nan)), im)


def _asin(x: Value, y: Value) -> Pair:
    b = x.b
    re, _, im = _hull(x, y)
    re, im = _nan_parts(x, y, re, im)
    re = b.select(x.eq(0.0), abs(x), re)
    return with_sign(re, x), with_sign(im, y)


@complexes(wide=True)
def asin(b: Builder, x: Value, y: Value) -> Pair:
    """Inverse sine; cuts on the real axis beyond +-1."""
    return _asin(x, y)


@complexes(wide=True)
def asinh(b: Builder, x: Value, y: Value) -> Pair:
    """Inverse hyperbolic sine: asin with the parts exchanged."""
    re, im = _asin(y, x)
    return im, re


def _acos(x: Value, y: Value) -> Pair:
    b = x.b
    _, re, im = _hull(x, y)
    re, im = _nan_parts(x, y, re, im)
    re = b.select(negative(x), math.pi - re, re)
    re = b.select(x.eq(0.0), math.pi / 2, re)
    return re, b.select(negative(y), im, -im)


@complexes(wide=True)
def acos(b: Builder, x: Value, y: Value) -> Pair:
    """Inverse cosine; cuts on the real axis beyond +-1."""
    return _acos(x, y)


@complexes(wide=True)
def acosh(b: Builder, x: Value, y: Value) -> Pair:
    """Inverse hyperbolic cosine; cut on the real axis below 1."""
    re, im = _acos(x, y)
    return abs(im), with_sign(abs(re), y)


def _atanh(x: Value, y: Value) -> Pair:
    """log((1 + z) / (1 - z)) / 2 as log1p(4x / ((1-x)^2 + y^2)) / 4 and an angle."""
    b, dtype = x.b, x.dtype
    p, q = abs(x), abs(y)
    big = 2.0 ** (BIAS[dtype] // 2 - 3)
    huge = any_of(p > big, q > big)
    u, v = b.select(huge, 0.5, p), b.select(huge, 0.5, q)
    gap = 1.0 - u
    size = gap * gap + v * v
    pole = size.eq(0.0)
    re = exp_log.log1p(b, 4.0 * u / b.select(pole, 1.0, size)) * 0.25
    re = b.select(pole, np.inf, re)
    im = trig.atan2(b, 2.0 * v, gap * (1.0 + u) - v * v) * 0.5
    # huge: Re = x / |z|^2, Im = pi/2
    top = b.select(p > q, p, q)
    small = b.select(p > q, q, p) / top
    shrink = (p / top) / (top * (1.0 + small * small))
    infinite = any_of(p.eq(np.inf), q.eq(np.inf))
    re = b.select(huge, b.select(infinite, 0.0, shrink), re)
    im = b.select(huge, math.pi / 2, im)
    nan_x, nan_y = b.isnan(x), b.isnan(y)
    re = b.select(nan_x | (nan_y & ~infinite), b.select(infinite, 0.0, b.like(x, np.nan)), re)
    im = b.select(nan_y | (nan_x & ~infinite), np.nan, im)
    re = b.select(x.eq(0.0), p, re)
    return with_sign(re, x), with_sign(im, y)


@complexes(wide=True)
def atanh(b: Builder, x: Value, y: Value) -> Pair:
    """Inverse hyperbolic tangent; cuts on the real axis beyond +-1."""
    return _atanh(x, y)


@complexes(wide=True)
def atan(b: Builder, x: Value, y: Value) -> Pair:
    """Inverse tangent: atanh with the parts exchanged."""
    re, im = _atanh(y, x)
    return im, re
