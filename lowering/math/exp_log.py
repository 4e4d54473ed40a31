"""exp, exp2, expm1, log, log2, log1p, logistic.

exp: x = n ln2 + r with a two-part ln2 (Cody & Waite 1980), e^r - 1 as a minimax polynomial, and
a scaling by 2^n in two steps, so that overflow and underflow happen once, at the end.
log: x = 2^k m with m in [sqrt(1/2), sqrt 2), log m = 2 atanh(s) with s = f/(2+f), f = m - 1,
arranged as in fdlibm's e_log.c (Sun 1993).  The polynomials are our own (benchmarks/minimax.py).
"""
from __future__ import annotations

import math

import numpy as np

from calque.lowering.emit.builder import Builder, Value
from calque.lowering.emit.dtypes import F32, F64, I32
from calque.lowering.math.common import (
    MANTISSA,
    TINY,
    as_index,
    bits,
    floating,
    horner,
    power_of_two,
    round_small,
    scale,
)

# (e^r - 1 - r) / r^2 on |r| <= ln2 / 2; relative error of e^r - 1: 2^-31.9 and 2^-61.5
EXPM1 = {
    F32: (0.00019915659504476935, 0.0013942011864855886, 0.008333270438015461,
          0.04166634380817413, 0.1666666716337204, 0.5),
    F64: (2.0925373926485786e-09, 2.5110156884305952e-08, 2.755723975686052e-07,
          2.7557241233207804e-06, 2.4801587364046617e-05, 0.00019841269888816657,
          0.0013888888888865093, 0.008333333333320689, 0.041666666666666706,
          0.16666666666666677, 0.5),
}
# (2 atanh(s) - 2 s) / s^3 in z = s^2, for s <= 3 - 2 sqrt 2; error 2^-36.5 and 2^-65.6 of z
LOG = {
    F32: (0.2359631508588791, 0.2853660583496094, 0.40000346302986145, 0.6666666269302368),
    F64: (0.13267121122870962, 0.13248382207205733, 0.15387167704834484, 0.18181773906750084,
          0.22222222668759997, 0.285714285689402, 0.400000000000067, 0.6666666666666666),
}
# ln 2 = high + low, where n * high is exact for every exponent n
LN2 = {F32: (0.693359375, -2.12194440e-4),
       F64: (6.93147180369123816490e-01, 1.90821492927058770002e-10)}
# Clamps for exp: e^low is below half the smallest denormal, 2 max < e^high < 2^(bias + 2.4), so
# that n = round(high / ln2) = bias + 2 still gives a finite 2^(n-2).
EXP_RANGE = {F32: (-105.0, 89.55), F64: (-746.0, 710.6)}
# below this x^2 does not count beside x
NEGLIGIBLE = {F32: 2.0**-25, F64: 2.0**-54}
_SQRT_HALF = {F32: 0x3F3504F3, F64: 0x3FE6A09E667F3BCD}  # representation of sqrt(1/2)


def clamp_keeping_nan(x: Value, low: float, high: float) -> Value:
    b = x.b
    x = b.select(x > high, high, x)
    return b.select(x < low, low, x)


def reduce_ln2(x: Value, rest: Value | None = None) -> tuple[Value, Value]:
    """n (integer) and e^r - 1 with x = n ln2 + r; x must be within EXP_RANGE.

    `rest` is what x lacks of a more precise argument x + rest.
    """
    n = round_small(x * (1 / math.log(2)))
    high, low = LN2[x.dtype]
    head, tail = x - n * high, n * low
    if rest is not None:
        tail = tail - rest
    r = head - tail
    return as_index(n), head - (tail - r * r * horner(r, EXPM1[x.dtype]))


def exp_scaled(x: Value, shift: int) -> Value:
    """2^shift e^x, without overflow of e^x itself."""
    n, m = reduce_ln2(clamp_keeping_nan(x, *EXP_RANGE[x.dtype]))
    return scale(m + 1.0, n + shift if shift else n)


@floating
def exp(b: Builder, x: Value) -> Value:
    """e^x."""
    return exp_scaled(x, 0)


@floating
def exp2(b: Builder, x: Value) -> Value:
    """2^x."""
    limit = {F32: 151.0, F64: 1076.0}[x.dtype]
    x = clamp_keeping_nan(x, -limit, limit)
    n = round_small(x)
    r = x - n
    # r ln2 to twice the precision: r has its own bits, ln2 its two parts
    high, low = LN2[x.dtype]
    head, tail = r * high, r * low
    r = head + tail
    return scale(head + (tail + r * r * horner(r, EXPM1[x.dtype])) + 1.0, as_index(n))


def expm1_quarter(x: Value) -> Value:
    """(e^x - 1) / 4, which overflows two binades later than e^x."""
    n, m = reduce_ln2(clamp_keeping_nan(x, -50.0, EXP_RANGE[x.dtype][1]))
    s = power_of_two(n - 2, x.dtype)
    return s * m + (s - 0.25)


@floating
def expm1(b: Builder, x: Value) -> Value:
    """e^x - 1, accurate near 0."""
    return b.select(abs(x) < NEGLIGIBLE[x.dtype], x, expm1_quarter(x) * 4.0)


def split_exponent(x: Value) -> tuple[Value, Value]:
    """k (integer) and m with x = 2^k m, m in [sqrt(1/2), sqrt 2); x normal and positive."""
    dtype, i = x.dtype, bits(x)
    above = i - _SQRT_HALF[dtype]
    k = above >> MANTISSA[dtype]
    return k, (i - (k << MANTISSA[dtype])).view(dtype)


def split_any_exponent(x: Value) -> tuple[Value, Value]:
    """The same of a positive x that may be denormal."""
    b, dtype = x.b, x.dtype
    small = x < TINY[dtype]
    lift = MANTISSA[dtype] + 1
    k, m = split_exponent(b.select(small, x * 2.0**lift, x))
    return b.select(small, k - lift, k), m


def log_reduced(m: Value, k: Value, correction: Value | float) -> Value:
    """k ln2 + log(m) + correction, for m near 1 and a small correction."""
    dtype = m.dtype
    high, low = LN2[dtype]
    f = m - 1.0
    s = f / (f + 2.0)
    z = s * s
    half_square = f * f * 0.5
    tail = s * (half_square + z * horner(z, LOG[dtype])) + (k * low + correction)
    return k * high - ((half_square - tail) - f)


def exponent_as_float(k: Value, dtype: np.dtype) -> Value:
    return k.astype(I32).astype(dtype)  # i64 to f64 has no vector form before AVX-512


def log_positive(x: Value) -> Value:
    """log of a positive finite x, denormals included."""
    k, m = split_any_exponent(x)
    return log_reduced(m, exponent_as_float(k, x.dtype), 0.0)


def log_specials(x: Value, result: Value) -> Value:
    """-inf at 0, NaN below, inf and NaN as they are."""
    b = x.b
    result = b.select(x.eq(0.0), -np.inf, result)
    result = b.select(x < 0.0, np.nan, result)
    return b.select(abs(x) < np.inf, result, b.select(x < 0.0, np.nan, x))


@floating
def log(b: Builder, x: Value) -> Value:
    """Natural logarithm."""
    # IREE's own: 0.86 ulp, special values right; its fused multiply-adds are calls of a function
    # each where the CPU has none, as those that convert f16 by bits (100,000 numbers 4.6 to 0.2 ms)
    if x.dtype == F32 and not b.soft_f16:
        return b.log(x)
    return log_specials(x, log_positive(x))


@floating
def log2(b: Builder, x: Value) -> Value:
    """Logarithm to base 2; exact at powers of two."""
    k, m = split_any_exponent(x)
    n, zero = exponent_as_float(k, x.dtype), b.like(x, 0.0)
    return log_specials(x, n + log_reduced(m, zero, 0.0) * (1 / math.log(2)))


@floating
def log1p(b: Builder, x: Value) -> Value:
    """log(1 + x), accurate near 0."""
    dtype = x.dtype
    u = x + 1.0
    # what the rounding of 1 + x lost, relative to u
    lost = b.select(x < 1.0, x - (u - 1.0), 1.0 - (u - x)) / u
    k, m = split_exponent(u)
    result = log_reduced(m, exponent_as_float(k, dtype), lost)
    result = b.select(abs(x) < NEGLIGIBLE[dtype], x, result)
    return b.select(abs(x) < np.inf, log_specials(u, result), log_specials(u, x))


@floating
def logistic(b: Builder, x: Value) -> Value:
    """1 / (1 + e^-x)."""
    low, high = {F32: -85.0, F64: -706.0}[x.dtype], EXP_RANGE[x.dtype][1]
    n, m = reduce_ln2(clamp_keeping_nan(-x, low, high))
    s = power_of_two(n - 2, x.dtype)
    return 0.25 / ((s + 0.25) + s * m)  # 1 + 2^n is exact: one rounding less than 1 + e^-x
