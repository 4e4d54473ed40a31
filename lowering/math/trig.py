"""sin, cos, tan, asin, acos, atan, atan2 over the whole range of f32 and f64.

Range reduction x = n pi/2 + r:
- ordinary arguments: Cody & Waite (1980), pi/2 in three parts whose products with n are exact;
- huge arguments: Payne & Hanek (1983): x = M 2^e with integer M, and the window of 2/pi's bits
  that decides x mod 2 pi, multiplied in 64-bit integers.
Both are always computed and one is selected: a branch would cost the vectorization (and a whole-
tensor branch would make the program wait), while the second reduction costs about 2 ns for 16
values.  The polynomials are our own (benchmarks/minimax.py).
"""
from __future__ import annotations

import math
from itertools import pairwise

import numpy as np

from calque.lowering.emit.builder import Builder, Value
from calque.lowering.emit.dtypes import F32, F64, I32, I64, U32, U64
from calque.lowering.math.common import (
    as_index,
    bits,
    floating,
    horner,
    negative,
    round_small,
    with_sign,
)

# (sin r / r - 1) / r^2 in r^2 on |r| <= pi/4, error 2^-28 and 2^-58 (68.8 for the longer)
SIN = {
    F32: (-0.00019515687017701566, 0.008332166820764542, -0.16666655242443085),
    F64: (1.5896020796234783e-10, -2.5050745166550707e-08, 2.7557313612087384e-06,
          -0.00019841269829586639, 0.00833333333332215, -0.1666666666666663),
}
# (cos r - 1 + r^2/2) / r^4 in r^2, error 2^-33 and 2^-64
COS = {
    F32: (2.4436678359052166e-05, -0.0013887352542951703, 0.04166664555668831),
    F64: (-1.1359118248298134e-11, 2.087571339422183e-09, -2.7557314282421736e-07,
          2.4801587289250612e-05, -0.0013888888888873771, 0.041666666666666595),
}
# (atan t / t - 1) / t^2 in t^2 on |t| <= 0.55, error 2^-26 and 2^-54.6
ATAN = {
    F32: (-0.04601164162158966, 0.09839898347854614, -0.14109279215335846, 0.1998898983001709,
          -0.33333107829093933),
    F64: (0.007753428731265397, -0.023712576313372844, 0.03929958216538436, -0.05020465016601063,
          0.058328368748774444, -0.06659601502732544, 0.07691611269800688, -0.09090862952893765,
          0.11111109155004582, -0.14285714236948668, 0.1999999999938897, -0.3333333333333066),
}
# (asin t / t - 1) / t^2 in t^2 on t <= 0.55, error 2^-29.5 and 2^-55.3
ASIN = {
    F32: (0.04526250809431076, 0.008599757216870785, 0.03343825042247772, 0.04431140422821045,
          0.07501626759767532, 0.1666664034128189),
    F64: (0.04971765422026821, -0.050703387262585074, 0.044566842481991206, -0.006542436085191861,
          0.013744206929664075, 0.010820654565993232, 0.014058147848896753, 0.017344554303277804,
          0.022372644575552016, 0.030381926062862545, 0.044642857552381475, 0.07499999999541157,
          0.16666666666668462),
}
# asin and atan switch to their other form here: results stay in the binade where the errors of
# that form are below half an ulp
SWITCH = 0.55
# pi/2 in parts of 20, 20 and 24 bits (f32), of 33, 33, 33 and 53 bits (f64, fdlibm's)
HALF_PI = {
    F32: (1.5707969665527344, -6.39757672615815e-07, -1.6513995574653217e-13),
    F64: (1.57079632673412561417e+00, 6.07710050630396597660e-11, 2.02226624871116645580e-21,
          8.47842766036889956997e-32),
}
# up to here the parts times n are exact (n < 2^4 in f32, 2^20 in f64)
CODY_WAITE_LIMIT = {F32: 25.0, F64: 1.0e6}
# pi as high + low of each dtype
PI_LOW = {F32: -8.742277657347586e-08, F64: 1.2246467991473532e-16}

# 2/pi in binary: the first 1280 bits as one integer
TWO_OVER_PI = int(
    "A2F9836E4E441529FC2757D1F534DDC0DB6295993C439041FE5163ABDEBBC561B7246E3A424DD2E006492EEA"
    "09D1921CFE1DEB1CB129A73EE88235F52EBB4484E99C7026B45F7E413991D639835339F49C845F8BBDF9283B"
    "1FF897FFDE05980FEF2F118B5A0A6D1F6D367ECF27CB09B74F463F669E5FEA2D7527BAC7EBE5F17B3D0739F7"
    "8A5292EA6BFB5FB11F8D5D0856033046FC7B6BABF0CFBC209AF4361D", 16)


def _constant64(like: Value, word: int) -> Value:
    return like.b.splat(np.uint64(word & (2**64 - 1)), like.shape, U64)


def _words(offset: int, count: int) -> list[int]:
    """`count` 64-bit words of 2/pi's bits behind `offset` zero bits, most significant first."""
    total = 64 * count + 64
    stream = TWO_OVER_PI >> (1280 - (total - offset)) if total - offset <= 1280 else \
        TWO_OVER_PI << (total - offset - 1280)
    return [(stream >> (total - 64 * (j + 1))) & (2**64 - 1) for j in range(count)]


def _window(words: list[Value], start: Value, count: int, levels: int) -> list[Value]:
    """words[start], ..., words[start + count - 1] for start < 2^levels, by halving selects."""
    b = start.b
    for level in reversed(range(levels)):
        step = 1 << level
        taken = (start & step).ne(0)
        reach = count + step - 1
        words = [b.select(taken, words[i + step], words[i]) if i + step < len(words) else words[i]
                 for i in range(min(reach, len(words)))]
    return words[:count]


def _funnel(words: list[Value], shift: Value) -> list[Value]:
    """The bit string moved left by shift < 64; one word less."""
    rest = shift.b.binary("subtract", _constant64(shift, 63), shift)
    return [(high << shift) | ((low >> 1) >> rest) for high, low in pairwise(words)]


def _product(x: Value, factor: float) -> tuple[Value, Value]:
    """x times a number beyond f32, and what rounding took (Dekker's product)."""
    x0 = (bits(x) & -4096).view(F32)
    x1 = x - x0
    near = np.float32(factor)
    f0 = (near.view(I32) & np.int32(-4096)).view(F32)
    f1 = float(near - f0)
    p = x * float(near)
    return p, ((x0 * float(f0) - p) + x0 * f1 + x1 * float(f0)) + x1 * f1 + x * (
        factor - float(near))


def _huge_f32(x: Value) -> tuple[Value, Value, Value]:
    """Payne-Hanek for |x| >= 16: r in [-pi/4, pi/4] in two parts, and the quadrant (i32)."""
    b, u = x.b, x.view(U32)
    m = ((u & 0x7FFFFF) | 0x800000).astype(U64)
    # x = m 2^(exponent - 150); the window begins at bit exponent - 152 of 2/pi; 21 zeros precede
    offset = ((u >> 23) & 255) - 131
    words = [_constant64(m, w) for w in _words(21, 4)]
    second = offset >= 64
    chosen = [b.select(second, later, sooner) for sooner, later in pairwise(words)]
    w1, w0 = _funnel(chosen, (offset & 63).astype(U64))
    turn = m * w1 + ((m * (w0 >> 32)) >> 32)  # the fraction of a turn, times 2^64
    quadrant = ((turn + (1 << 61)) >> 62).astype(I32)
    rest = (turn << 2).view(I64)
    if b.f64_ok:
        wide = rest.astype(F64) * (2.0**-64 * math.pi / 2)
        r = wide.astype(F32)
        tail = (wide - r.astype(F64)).astype(F32)
    else:
        rest = rest >> 1  # rounded, it must fit its integer again
        near = rest.astype(F32)
        r, tail = _product(near, 2.0**-63 * math.pi / 2)
        tail = tail + (rest - near.astype(I64)).astype(F32) * (2.0**-63 * math.pi / 2)
        total = r + tail
        r, tail = total, tail - (total - r)
    negative = x < 0.0
    return (b.select(negative, -r, r), b.select(negative, -tail, tail),
            b.select(negative, 0 - quadrant, quadrant))


def _reduce_f32(x: Value) -> tuple[Value, Value, Value]:
    """r in [-pi/4, pi/4], what it leaves, and the quadrant modulo 4; NaN at infinity."""
    b = x.b
    n = round_small(x * (2 / math.pi))
    p1, p2, p3 = HALF_PI[F32]
    sum_, error = two_sum(x - n * p1, -(n * p2))
    t = n * p3 - error
    r = sum_ - t
    tail = (sum_ - r) - t
    huge_r, huge_tail, huge_quadrant = _huge_f32(x)
    # huge and finite: one unsigned comparison of representations
    limit = int(np.float32(CODY_WAITE_LIMIT[F32]).view(I32))
    huge = ((bits(x) & 0x7FFFFFFF) - limit).view(U32) < 0x7F800000 - limit
    return (b.select(huge, huge_r, r), b.select(huge, huge_tail, tail),
            b.select(huge, huge_quadrant, as_index(n)))


def _product64(x: Value, y: Value) -> tuple[Value, Value]:
    """High and low words of the 128-bit product of two u64, by 32-bit halves."""
    low_mask = 0xFFFFFFFF
    xl, xh, yl, yh = x & low_mask, x >> 32, y & low_mask, y >> 32
    ll, lh, hl, hh = xl * yl, xl * yh, xh * yl, xh * yh
    middle = lh + (ll >> 32)
    carry = (middle & low_mask) + hl
    return hh + (middle >> 32) + (carry >> 32), x * y


def two_sum(x: Value, y: Value) -> tuple[Value, Value]:
    """x + y and its rounding error (Knuth)."""
    s = x + y
    t = s - x
    return s, (x - (s - t)) + (y - t)


def _huge_f64(x: Value) -> tuple[Value, Value, Value]:
    """Payne-Hanek for |x| >= 2^19: r in two parts, and the quadrant (i64)."""
    b, u = x.b, x.view(U64)
    m = (u & ((1 << 52) - 1)) | (1 << 52)
    exponent = (u >> 52) & 2047
    # x = m 2^(exponent - 1075); the window begins at bit exponent - 1077 of 2/pi; 35 zeros precede
    offset = exponent - (1077 - 35)
    index = offset >> 6
    words = _window([_constant64(x, w) for w in _words(35, 19)], index, 4, 4)
    w2, w1, w0 = _funnel(words, offset & 63)
    high1, low1 = _product64(m, w1)
    high0, _ = _product64(m, w0)
    low = low1 + high0
    high = m * w2 + high1 + (low < low1).astype(U64)
    quadrant = ((high + (1 << 61)) >> 62).view(I64)
    top = ((high << 2) | (low >> 62)).view(I64)
    low = low << 2
    # the signed 128-bit fraction of a quadrant as a sum of exact 32-bit pieces
    r, error = two_sum((top >> 32).astype(F64) * 2.0**-32,
                        (top & 0xFFFFFFFF).astype(F64) * 2.0**-64)
    pieces = (low >> 32).view(I64).astype(F64) * 2.0**-96
    r, error2 = two_sum(r, pieces)
    error = error + error2 + (low & 0xFFFFFFFF).view(I64).astype(F64) * 2.0**-128
    # times pi/2 in two parts: split r so that the leading product is exact
    r, error = two_sum(r, error)
    head = (bits(r) & (-1 << 27)).view(F64)
    p1 = 1.57079631090164184570  # pi/2 to 26 bits
    p2 = 1.58932547735281966916e-08  # the rest
    lead = head * p1
    tail = head * p2 + ((r - head) + error) * (math.pi / 2)
    y0 = lead + tail
    y1 = tail - (y0 - lead)
    negate = x < 0.0
    return (b.select(negate, -y0, y0), b.select(negate, -y1, y1),
            b.select(negate, 0 - quadrant, quadrant))


def _reduce_f64(x: Value) -> tuple[Value, Value, Value]:
    """r as y0 + y1 in [-pi/4, pi/4], and the quadrant modulo 4; NaN at infinity."""
    b = x.b
    n = round_small(x * (2 / math.pi))
    p1, p2, p3, p4 = HALF_PI[F64]
    r, e = two_sum(x - n * p1, -(n * p2))
    t = n * p3 - e
    y0 = r - t
    y1 = ((r - y0) - t) - n * p4
    huge0, huge1, huge_quadrant = _huge_f64(x)
    size = abs(x)
    huge = b.binary("and", size > CODY_WAITE_LIMIT[F64], size < np.inf)
    return (b.select(huge, huge0, y0), b.select(huge, huge1, y1),
            b.select(huge, huge_quadrant, as_index(n)))


def sin_cos_quadrant(x: Value, exact: bool = False
                     ) -> tuple[tuple[Value, Value], tuple[Value, Value], Value]:
    """sin r and cos r, each as an unrounded sum of a leading term and a rest; the quadrant of x.

    exact: what rounding r took enters in f32, too (a quotient of the two shows it).
    """
    if x.dtype == F32:
        r, tail, quadrant = _reduce_f32(x)
        z = r * r
        half = z * 0.5
        w = 1.0 - half
        p, q = r * (z * horner(z, SIN[F32])), z * (z * horner(z, COS[F32]))
        if exact:
            p, q = p + tail, q - r * tail
        return (r, p), (w, ((1.0 - w) - half) + q), quadrant
    y0, y1, quadrant = _reduce_f64(x)
    z = y0 * y0
    cube = y0 * z
    # fdlibm's k_sin and k_cos: the tail y1 enters to first order
    p = horner(z, SIN[F64][:-1])
    sine = y0, cube * SIN[F64][-1] + (y1 - z * (y1 * 0.5 - cube * p))
    half = z * 0.5
    w = 1.0 - half
    cosine = w, ((1.0 - w) - half) + (z * (z * horner(z, COS[F64])) - y0 * y1)
    return sine, cosine, quadrant


def _by_quadrant(x: Value, shift: int) -> Value:
    """sin(x + shift pi/2)."""
    b = x.b
    sine, cosine, quadrant = sin_cos_quadrant(x)
    if shift:
        quadrant = quadrant + shift
    value = b.select((quadrant & 1).ne(0), cosine[0] + cosine[1], sine[0] + sine[1])
    flip = (quadrant & 2) << (8 * x.dtype.itemsize - 2)
    return (bits(value) ^ flip).view(x.dtype)


@floating
def sin(b: Builder, x: Value) -> Value:
    """sin x."""
    return b.select(x.eq(0.0), x, _by_quadrant(x, 0))


@floating
def cos(b: Builder, x: Value) -> Value:
    """cos x."""
    return _by_quadrant(x, 1)


@floating
def tan(b: Builder, x: Value) -> Value:
    """tan x."""
    (s0, s1), (c0, c1), quadrant = sin_cos_quadrant(x, exact=True)
    odd = (quadrant & 1).ne(0)
    top, top_rest = b.select(odd, -c0, s0), b.select(odd, -c1, s1)
    low, low_rest = b.select(odd, s0, c0), b.select(odd, s1, c1)
    sum_top, sum_low = top + top_rest, low + low_rest
    value = sum_top / sum_low
    # what the two sums lost, to first order
    lost_top, lost_low = (top - sum_top) + top_rest, (low - sum_low) + low_rest
    value = value + (lost_top - value * lost_low) / sum_low
    return b.select(x.eq(0.0), x, value)


def _atan_ratio(y: Value, x: Value) -> tuple[Value, Value, Value]:
    """atan(y / x) of y, x >= 0 as high + low + t; one division, no quotient rounded twice."""
    b, dtype = y.b, y.dtype
    steep = y > x * (1 + math.sqrt(2))
    middle = y > x * SWITCH
    numerator = b.select(steep, -x, b.select(middle, y - x, y))
    denominator = b.select(steep, y, b.select(middle, y + x, x))
    t = numerator / b.select(denominator.eq(0.0), 1.0, denominator)
    z = t * t
    t = t + t * (z * horner(z, ATAN[dtype]))
    quarter = float(np.asarray(math.pi / 4, dtype))
    high = b.select(steep, 2 * quarter, b.select(middle, quarter, b.like(y, 0.0)))
    rest = PI_LOW[dtype]
    low = b.select(steep, rest / 2, b.select(middle, rest / 4, b.like(y, 0.0)))
    return high, low, t


@floating
def atan(b: Builder, x: Value) -> Value:
    """atan x."""
    high, low, t = _atan_ratio(abs(x), b.like(x, 1.0))
    return with_sign(abs(high + (t + low)), x)


@floating
def atan2(b: Builder, y: Value, x: Value) -> Value:
    """The angle of the point (x, y) in (-pi, pi]; signed zeros and infinities as in C99."""
    dtype = x.dtype
    ay, ax = abs(y), abs(x)
    both = b.binary("and", ay.eq(np.inf), ax.eq(np.inf))
    ay, ax = b.select(both, 1.0, ay), b.select(both, 1.0, ax)
    large = float(np.ldexp(1.0, 126 if dtype == F32 else 1022))
    shrink = b.select(b.binary("or", ay > large, ax > large), 0.25, b.like(x, 1.0))
    high, low, t = _atan_ratio(ay * shrink, ax * shrink)
    left = negative(x)
    pi = float(np.asarray(math.pi, dtype))
    high = b.select(left, pi - high, high)
    low = b.select(left, PI_LOW[dtype] - low, low)
    angle = high + (b.select(left, -t, t) + low)
    angle = b.select(b.binary("or", b.isnan(x), b.isnan(y)), np.nan, abs(angle))
    return with_sign(angle, y)


@floating
def asin(b: Builder, x: Value) -> Value:
    """asin x; NaN outside [-1, 1]."""
    dtype, a = x.dtype, abs(x)
    outer = a > SWITCH
    z = b.select(outer, (1.0 - a) * 0.5, a * a)
    s = b.select(outer, b.sqrt(z), a)
    p = s + s * (z * horner(z, ASIN[dtype]))
    half_pi = float(np.asarray(math.pi / 2, dtype))
    result = b.select(outer, half_pi - (2.0 * p - PI_LOW[dtype] / 2), p)
    return with_sign(result, x)


@floating
def acos(b: Builder, x: Value) -> Value:
    """acos x; NaN outside [-1, 1]."""
    dtype, a = x.dtype, abs(x)
    outer = a > SWITCH
    z = b.select(outer, (1.0 - a) * 0.5, a * a)
    s = b.select(outer, b.sqrt(z), x)
    correction = s * (z * horner(z, ASIN[dtype]))
    half_pi, low = float(np.asarray(math.pi / 2, dtype)), PI_LOW[dtype] / 2
    inner = half_pi - (x - (low - correction))
    right = 2.0 * (s + correction)
    left = 2.0 * half_pi - (2.0 * (s + correction) - 2.0 * low)
    return b.select(outer, b.select(x < 0.0, left, right), inner)
