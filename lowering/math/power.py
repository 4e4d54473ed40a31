"""sqrt, rsqrt, cbrt, pow, pow_const, integer_pow, integer_power.

pow: f32 in f64 where the target has it (0.5 ulp); else, and for f64, log2 and exp2 in
double-double arithmetic after fdlibm's e_pow.c (Sun 2004): factors are cut to half the mantissa
so that their products are exact with and without fused multiply-add.
"""
from __future__ import annotations

import math

import numpy as np

from calque.lowering.emit.builder import Builder, Value
from calque.lowering.emit.dtypes import BF16, F16, F32, F64, I32, I64, U32, unsigned
from calque.lowering.math.common import (
    BIAS,
    MANTISSA,
    SIGNED,
    TINY,
    as_index,
    bits,
    floating,
    horner,
    integral,
    negative,
    odd,
    power_of_two,
    round_small,
    scale,
    with_sign,
)
from calque.lowering.math.convert import convert
from calque.lowering.math.exp_log import (
    EXPM1,
    clamp_keeping_nan,
    exponent_as_float,
    split_any_exponent,
    split_exponent,
)
from calque.lowering.math.region import elementwise

# (log m - 2 s) / s^3 in s^2, error 2^-43.8: enough for f32 results computed in f64
_LOG_SHORT = (0.19598712674496546, 0.2217524539034106, 0.28572129946565594, 0.39999995444279485,
              0.6666666667626262)
# 2^r on |r| <= 1/2, relative error 2^-34.4
_EXP2_SHORT = (1.5317744858145892e-05, 0.0001547106805349916, 0.0013333417138531166,
               0.00961802138383326, 0.05550410982855207, 0.24022651245579588, 0.6931471805329625,
               0.999999999956179)
# (3 atanh(s)/s - 3 - z) / z^2 in z = s^2 for s <= 3 - 2 sqrt 2, error 2^-27.5 and 2^-64.6 of z^2
_LOG_TAIL = {
    F32: (0.3514634072780609, 0.4281996190547943, 0.6000023484230042),
    F64: (0.19817235076012224, 0.19882841317251876, 0.23080235353460613, 0.27272674467877056,
          0.33333333802745885, 0.42857142855027164, 0.6000000000000363),
}
# low bits cut from a mantissa to make products of two such numbers exact
_CUT = {F32: 12, F64: 27}
# exponents beyond these overflow or underflow for every x != 1
_LARGEST_Y = {F32: 2.0**34, F64: 2.0**65}
_LARGEST_LOG2 = {F32: 160.0, F64: 1200.0}


def sqrt(b: Builder, x: Value) -> Value:
    """Square root (IREE's own: correctly rounded; of bf16 that of f32, rounded again)."""
    return _of_f32(b, x) if x.dtype == BF16 else b.sqrt(x)


@floating
def _of_f32(b: Builder, x: Value) -> Value:
    return b.sqrt(x)


@floating
def rsqrt(b: Builder, x: Value) -> Value:
    """1 / sqrt(x)."""
    return 1.0 / b.sqrt(x)


def head(x: Value) -> Value:
    """x with the low half of its mantissa cut off."""
    return (bits(x) & (-1 << _CUT[x.dtype])).view(x.dtype)


@floating
def cbrt(b: Builder, x: Value) -> Value:
    """Cube root: exponent / 3, Halley's steps, the last on a rounded iterate (FreeBSD s_cbrt.c)."""
    dtype, a = x.dtype, abs(x)
    small = a < TINY[dtype]
    lift = 24 if dtype == F32 else 54
    i = bits(b.select(small, a * 2.0**lift, a))
    # a = 2^(3 third) m with m in [1, 16); the factor is a little above 1/3
    exponent = ((i >> MANTISSA[dtype]) - BIAS[dtype]).astype(I32)
    third = ((exponent * 21846) >> 16).astype(i.dtype)
    m = i - ((third * 3) << MANTISSA[dtype])
    a_third = b.select(small, third - lift // 3, third)
    if dtype == F32:
        t = ((m.view(U32) / 3).view(I32) + 709958130).view(F32)
    else:  # the upper word alone: 64-bit division has no vector form
        upper = (m >> 32).astype(U32) / 3
        t = ((upper.astype(I64) + 715094163) << 32).view(F64)
    m = m.view(dtype)
    for _ in range(1 if dtype == F32 else 2):
        cube = t * t * t
        t = t * ((m + m + cube) / (m + cube + cube))
    t = head(t)
    r = m / (t * t)
    t = (t + t * ((r - t) / (t + t + r))) * power_of_two(a_third, dtype)
    t = b.select(b.binary("and", a > 0.0, a < np.inf), t, a)  # 0, inf, NaN
    return with_sign(t, x)


def _log2_exp2_in_f64(a: Value, y: Value) -> Value:
    """a^y of f32 a > 0 by f64 arithmetic of just enough digits."""
    k, m = split_exponent(a.astype(F64))
    f = m - 1.0
    s = f / (f + 2.0)
    z = s * s
    log_m = s * (horner(z, _LOG_SHORT) * z + 2.0)
    y = clamp_keeping_nan(y, -_LARGEST_Y[F32], _LARGEST_Y[F32])  # f32, or f64 for large integers
    t = y.astype(F64) * (k.astype(I32).astype(F64) + log_m * (1 / math.log(2)))
    t = clamp_keeping_nan(t, -200.0, 200.0)
    n = round_small(t)
    return (horner(t - n, _EXP2_SHORT) * power_of_two(as_index(n), F64)).astype(F32)


def _log2_twofold(a: Value) -> tuple[Value, Value]:
    """log2(a) of a > 0 as high + low; high has half a mantissa."""
    dtype = a.dtype
    exponent, m = split_any_exponent(a)
    k = exponent_as_float(exponent, dtype)
    f = m - 1.0
    # s = f / (2 + f) as s0 + s1
    d = f + 2.0
    d_lost = (2.0 - d) + f
    inverse = 1.0 / d
    s = f * inverse
    s0 = head(s)
    d0 = head(d)
    d1 = d - d0
    s1 = (((f - s0 * d0) - s0 * d1) - s0 * d_lost) * inverse
    # log m = 2/3 s (3 + s^2 + ...)
    z = s * s
    square = s0 * s0
    r = z * z * horner(z, _LOG_TAIL[dtype]) + s1 * (s0 + s)
    t0 = head(square + 3.0 + r)
    t1 = r - ((t0 - 3.0) - square)
    u = s0 * t0
    v = s1 * t0 + t1 * s
    p0 = head(u + v)
    p1 = v - (p0 - u)
    # times 2 / (3 ln 2), plus k
    factor = 2 / (3 * math.log(2))
    if dtype == F32:
        factor0 = float((np.float32(factor).view(I32) & (-1 << 12)).view(F32))
        factor1 = factor - factor0
    else:
        factor0, factor1 = 9.61796700954437255859e-01, -7.02846165095275826516e-09  # fdlibm's cp
    z0 = factor0 * p0
    z1 = factor1 * p0 + p1 * factor
    high = head((z0 + z1) + k)
    return high, z1 - ((high - k) - z0)


def _pow_twofold(a: Value, y: Value) -> Value:
    """a^y of a > 0 by double-double arithmetic."""
    b, dtype = a.b, a.dtype
    high, low = _log2_twofold(a)
    y = clamp_keeping_nan(y, -_LARGEST_Y[dtype], _LARGEST_Y[dtype])
    y0 = head(y)
    p1 = (y - y0) * high + y * low
    p0 = y0 * high
    limit = _LARGEST_LOG2[dtype]
    z = p0 + p1
    outside = abs(z) > limit
    p1 = b.select(outside, 0.0, p1)
    p0 = b.select(outside, with_sign(b.like(z, limit), z), p0)
    n = round_small(p0 + p1)
    p0 = p0 - n
    # 2^(p0 + p1) = e^z with z + w = (p0 + p1) ln2
    t = head(p0 + p1)
    rest = p1 - (t - p0)
    ln2_0 = float(np.asarray(math.log(2), dtype))
    cut = np.asarray(ln2_0, dtype)
    mask = np.asarray(-1 << _CUT[dtype], I32 if dtype == F32 else I64)
    ln2_0 = float((cut.view(mask.dtype) & mask).view(dtype))
    ln2_1 = _LN2_BELOW[dtype]
    u = t * ln2_0
    v = rest * math.log(2) + t * ln2_1
    z = u + v
    w = v - (z - u)
    value = 1.0 + (z + (w + z * w + z * z * horner(z, EXPM1[dtype])))
    return scale(value, as_index(n))


def _ln2_below(dtype: np.dtype) -> float:
    """ln 2 minus its head, from 120 bits of ln 2."""
    ln2 = 0xB17217F7D1CF79ABC9E3B39803F2F6  # times 2^120
    kept = 24 - 12 if dtype == F32 else 53 - 27
    return math.ldexp(ln2 & ((1 << (120 - kept)) - 1), -120)


_LN2_BELOW = {F32: _ln2_below(F32), F64: _ln2_below(F64)}


def _pow(b: Builder, x: Value, y: Value) -> Value:
    a = abs(x)
    wide = x.dtype == F32 and b.f64_ok
    result = _log2_exp2_in_f64(a, y) if wide else _pow_twofold(a, y)
    grows = y > 0.0
    inf = b.like(x, np.inf)
    result = b.select(a.eq(0.0), b.select(grows, 0.0, inf), result)
    result = b.select(a.eq(np.inf), b.select(grows, inf, 0.0), result)
    # for negative x only integers y count; all |y| >= 2^mantissa are even integers
    whole = integral(y)
    flips = b.binary("and", whole, odd(y))
    undefined = b.binary("and", b.binary("and", x < 0.0, a < np.inf), ~whole)
    result = b.select(undefined, np.nan, result)
    result = b.select(b.binary("and", flips, negative(x)), -result, result)
    result = b.select(b.binary("or", b.isnan(x), b.isnan(y)), np.nan, result)
    return b.select(b.binary("or", y.eq(0.0), x.eq(1.0)), 1.0, result)


@floating
def pow(b: Builder, x: Value, y: Value) -> Value:
    """x^y with C99's special cases: x^0 = 1^y = 1 even for NaN, (-1)^+-inf = 1."""
    return _pow(b, x, y)


def pow_to_integer(b: Builder, x: Value, y: Value) -> Value:
    """x^y of a float x and integers y: pow, with the parity of y even where y is not a float."""
    if x.dtype == F32 and b.f64_ok:
        result = elementwise(b, _pow, [abs(x), y.astype(F64)], [F32])[0]
    else:
        result = pow(b, abs(x), convert(b, y, x.dtype))
    return b.select((x.view(SIGNED[x.dtype]) < 0) & (y & 1).ne(0), -result, result)


def _root_for_pow(x: Value) -> Value:
    """x^(1/2) as pow has it: +0 at -0, +inf at -inf."""
    b = x.b
    return b.select(x.eq(-np.inf), np.inf, abs(b.sqrt(x)))


_SHORTCUTS = {
    0.0: lambda x: x.b.like(x, 1.0),
    0.5: _root_for_pow,
    1.0: lambda x: x,
    1.5: lambda x: abs(x) * _root_for_pow(x),
    2.0: lambda x: x * x,
    2.5: lambda x: x * x * _root_for_pow(x),
    3.0: lambda x: x * x * x,
    4.0: lambda x: (x * x) * (x * x),
    -0.5: lambda x: 1.0 / _root_for_pow(x),
    -1.0: lambda x: 1.0 / x,
    -1.5: lambda x: (1.0 / abs(x)) / _root_for_pow(x),
    -2.0: lambda x: (1.0 / x) * (1.0 / x),
}


def pow_const(b: Builder, x: Value, y: float) -> Value:
    """x^y for a constant y, with pow's special cases; square roots and products where they do."""
    shortcut = _SHORTCUTS.get(float(y))
    if shortcut is None:
        return pow(b, x, b.like(x, y))
    return floating(lambda _, v: shortcut(v))(b, x)  # type: ignore[no-untyped-call]


def integer_pow(b: Builder, x: Value, n: int) -> Value:
    """x^n for a constant integer n by squaring, 1 / x^-n for n < 0; any numeric dtype."""
    if n == 0:
        return b.like(x, 1)

    def body(_: Builder, v: Value) -> Value:
        result, square, rest = None, v, abs(n)
        while rest:
            if rest & 1:
                result = square if result is None else result * square
            rest >>= 1
            if rest:
                square = square * square
        assert result is not None
        return 1.0 / result if n < 0 else result

    if x.dtype in (F16, BF16, F32, F64):
        return floating(body)(b, x)
    return body(b, x)


def integer_power(b: Builder, x: Value, y: Value) -> Value:
    """x^y of integers, wrapping; for y < 0 the truncated 1 / x^-y, and 0 at x = 0.

    As jnp.power where that is right: it reads only six bits of y.
    """
    signed = y.dtype.kind == "i"
    size = abs(y).view(unsigned(y.dtype)) if signed else y
    result, square = b.like(x, 1), x
    count = 8 * y.dtype.itemsize
    for i in range(count):
        taken = ((size >> i) & 1).ne(0) if i else (size & 1).ne(0)
        result = b.select(taken, result * square, result)
        if i + 1 < count:
            square = square * square
    if not signed:
        return result
    unit = abs(x).eq(1) if x.dtype.kind == "i" else x.eq(1)
    return b.select(b.binary("and", y < 0, ~unit), 0, result)
