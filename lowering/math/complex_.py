"""Functions of complex64 and complex128, right at 0, infinity, NaN and near overflow.

IREE's own forms are the textbook formulas: abs(1e30) overflows, log 0 and division by 0 give NaN.
A body gets the real and the imaginary part and returns both; for the longer ones the parts are
separate arrays while it runs, because IREE does not vectorize complex elements.  Where f32's range
or precision is too small for a formula, complex64 is computed in f64 if the target has it.
"""
from __future__ import annotations

import functools
import math
from collections.abc import Callable

import numpy as np

from calque.core.dtypes import real_dtype
from calque.lowering.emit.builder import Builder, Value
from calque.lowering.emit.dtypes import F32, F64
from calque.lowering.math import exp_log, hyperbolic, trig
from calque.lowering.math.common import (
    BIAS,
    MANTISSA,
    bits,
    negative,
    power_of_two,
    scale,
    with_sign,
)
from calque.lowering.math.power import head
from calque.lowering.math.region import elementwise

Pair = tuple[Value, Value]


def complexes(wide: bool = False, apart: bool = True
              ) -> Callable[[Callable[..., Pair]], Callable[..., Value]]:
    """Public form of a body(b, re, im, ...) -> (re, im).

    wide: complex64 is computed in f64.  apart: the parts are written to memory before and after
    the body; a body of more than some forty operations gains by being vectorized what that costs.
    """

    def decorate(body: Callable[..., Pair]) -> Callable[..., Value]:
        @functools.wraps(body)
        def public(b: Builder, *xs: Value) -> Value:
            parts = [p for x in xs for p in (b.real(x), b.imag(x))]
            parts = b.barrier(*parts) if apart else parts
            part = parts[0].dtype
            work = F64 if wide and part == F32 and b.f64_ok else part

            def in_work(inner: Builder, *vs: Value) -> list[Value]:
                out = body(inner, *[v.astype(work) for v in vs])
                return [v.astype(part) for v in out]

            out = elementwise(b, in_work, parts, [part, part])
            return b.complex(*(b.barrier(*out) if apart else out))

        public.wide = wide  # type: ignore[attr-defined]  # (rules/pairs runs the body alone)
        return public

    return decorate


def all_of(*conditions: Value) -> Value:
    return functools.reduce(lambda p, q: p & q, conditions)


def any_of(*conditions: Value) -> Value:
    return functools.reduce(lambda p, q: p | q, conditions)


def exponent_of(x: Value) -> Value:
    """floor(log2 x) of x >= 0 as i32 or i64, within the normal range; 0 gives the smallest."""
    b, dtype = x.b, x.dtype
    n = ((bits(x) >> MANTISSA[dtype]) & (2 * BIAS[dtype] + 1)) - BIAS[dtype]
    low, high = 3 - BIAS[dtype], BIAS[dtype] - 2
    return b.select(n < low, low, b.select(n > high, high, n))


def larger_smaller(x: Value, y: Value) -> Pair:
    """|x| and |y| by size (either order with NaN)."""
    b, x, y = x.b, abs(x), abs(y)
    return b.select(x > y, x, y), b.select(x > y, y, x)


def hypot(x: Value, y: Value) -> Value:
    """sqrt(x^2 + y^2) without overflow; inf if either is infinite, even beside NaN."""
    b = x.b
    if x.dtype == F32 and b.f64_ok:
        p, q = x.astype(F64), y.astype(F64)
        size = b.sqrt(p * p + q * q).astype(F32)
    else:
        large, small = larger_smaller(x, y)
        n = exponent_of(large)
        down = power_of_two(0 - n, x.dtype)
        p, q = large * down, small * down
        size = b.sqrt(p * p + q * q) * power_of_two(n, x.dtype)
    infinite = any_of(abs(x).eq(np.inf), abs(y).eq(np.inf))
    return b.select(infinite, np.inf, size)


def abs_(b: Builder, x: Value) -> Value:
    """|x|, real."""
    part = real_dtype(x.dtype)
    return elementwise(b, lambda _, re, im: hypot(re, im), [b.real(x), b.imag(x)], [part])[0]


@complexes(apart=False)
def sign(b: Builder, re: Value, im: Value) -> Pair:
    """x / |x|, and x itself at 0."""
    zero = all_of(re.eq(0.0), im.eq(0.0))
    size = b.select(zero, 1.0, hypot(re, im))
    return re / size, im / size


def _recover_infinity(x: Value, whole: Value) -> Value:
    """1 or 0 with the sign of x where `whole`: what an infinite operand counts as (C11 Annex G)."""
    b = x.b
    unit = with_sign(b.select(abs(x).eq(np.inf), 1.0, b.like(x, 0.0)), x)
    return b.select(whole, unit, x)


def divide(a: Value, b_: Value, c: Value, d: Value) -> Pair:
    """(a + ib) / (c + id), scaled by powers of two, with Annex G's infinities."""
    b, dtype = a.b, a.dtype
    over, under = larger_smaller(a, b_)[0], larger_smaller(c, d)[0]
    n, m = exponent_of(over), exponent_of(under)
    up, down = power_of_two(0 - n, dtype), power_of_two(0 - m, dtype)
    p, q, r, s = a * up, b_ * up, c * down, d * down
    size = r * r + s * s
    re, im = scale((p * r + q * s) / size, n - m), scale((q * r - p * s) / size, n - m)

    by_zero = all_of(c.eq(0.0), d.eq(0.0), ~all_of(b.isnan(a), b.isnan(b_)))
    inf = with_sign(b.like(c, np.inf), c)
    finite_top = all_of(abs(a) < np.inf, abs(b_) < np.inf)
    finite_low = all_of(abs(c) < np.inf, abs(d) < np.inf)
    infinite_top = any_of(abs(a).eq(np.inf), abs(b_).eq(np.inf))
    infinite_low = any_of(abs(c).eq(np.inf), abs(d).eq(np.inf))
    top = all_of(infinite_top, finite_low)
    low = all_of(infinite_low, finite_top)
    special = top | low
    a1, b1 = _recover_infinity(a, top), _recover_infinity(b_, top)
    c1, d1 = _recover_infinity(c, low), _recover_infinity(d, low)
    # inf * or 0 *: the sign of the exact numerator decides
    factor = b.select(top, np.inf, b.like(a, 0.0))
    re = b.select(by_zero, inf * a, b.select(special, factor * (a1 * c1 + b1 * d1), re))
    im = b.select(by_zero, inf * b_, b.select(special, factor * (b1 * c1 - a1 * d1), im))
    return re, im


@complexes(apart=False)
def div(b: Builder, a: Value, b_: Value, c: Value, d: Value) -> Pair:
    """Quotient."""
    return divide(a, b_, c, d)


def scaled_exp(x: Value) -> tuple[Value, Value]:
    """(v, n) with e^x = v 2^n, for n 2^n never overflowing in two steps; e^x v' stays finite.  v is
    above 1: its product with the smallest normal number is no denormal; at the end it overflows."""
    low, high = 2 * (1 - BIAS[x.dtype]) * math.log(2), (2 * BIAS[x.dtype] + 1) * math.log(2)
    n, m = exp_log.reduce_ln2(exp_log.clamp_keeping_nan(x, low, high))
    return 2.0 * (m + 1.0), n - 1


def _sin_cos(y: Value) -> Pair:
    b = y.b
    return trig.sin(b, y), trig.cos(b, y)


@complexes()
def exp(b: Builder, x: Value, y: Value) -> Pair:
    """e^x (cos y + i sin y)."""
    v, n = scaled_exp(x)
    s, c = _sin_cos(y)
    vanishes, grows = x.eq(-np.inf), x.eq(np.inf)
    odd = ~(abs(y) < np.inf)  # infinite or NaN
    re = b.select(vanishes & odd, 0.0, b.select(grows & odd, np.inf, scale(v * c, n)))
    im = b.select(vanishes & odd, 0.0, scale(v * s, n))
    return re, b.select(y.eq(0.0), y, im)


def exp2(b: Builder, z: Value) -> Value:
    """2^z as e^(z log 2)."""
    return exp(b, z * math.log(2.0))


@complexes()
def expm1(b: Builder, x: Value, y: Value) -> Pair:
    """e^z - 1: expm1(x) cos y - 2 sin^2(y/2), e^x sin y."""
    v, n = scaled_exp(x)
    s, c = _sin_cos(y)
    half = trig.sin(b, y * 0.5)
    small = x < 1.0
    near = exp_log.expm1(b, b.select(small, x, 1.0)) * c - 2.0 * (half * half)
    re = b.select(small, near, scale(v * c, n) - 1.0)
    # an infinite real part beside an infinite or NaN angle, as exp has it
    vanishes, grows = x.eq(-np.inf), x.eq(np.inf)
    odd = ~(abs(y) < np.inf)
    re = b.select(vanishes & odd, -1.0, b.select(grows & odd, np.inf, re))
    im = b.select(vanishes & odd, 0.0, scale(v * s, n))
    return re, b.select(y.eq(0.0), y, im)


def _two_product(x: Value, y: Value) -> Pair:
    """x y and its rounding error (Dekker)."""
    p = x * y
    x0, y0 = head(x), head(y)
    x1, y1 = x - x0, y - y0
    return p, ((x0 * y0 - p) + x0 * y1 + x1 * y0) + x1 * y1


def _sum_exactly(terms: list[Value]) -> Value:
    """The sum of a few terms, as if computed in twice the precision."""
    total, error = terms[0], None
    for t in terms[1:]:
        total, e = trig.two_sum(total, t)
        error = e if error is None else error + e
    assert error is not None
    return total + error


def log_abs(x: Value, y: Value) -> Value:
    """log |x + iy|: no overflow, and no cancellation near |z| = 1."""
    b, dtype = x.b, x.dtype
    large, small = larger_smaller(x, y)
    # where a square that counts would overflow or be denormal, scale by a power of two
    huge = large > 2.0 ** (BIAS[dtype] // 2)
    tiny = large < 2.0 ** -((BIAS[dtype] - MANTISSA[dtype]) // 2 - 2)
    power = 4 * BIAS[dtype] // 5
    one, zero = b.like(x, 1.0), b.like(x, 0.0)
    lift = b.select(huge, 2.0**-power, b.select(tiny, 2.0**power, one))
    shift = b.select(huge, power * math.log(2), b.select(tiny, -power * math.log(2), zero))
    p, q = large * lift, small * lift
    far = exp_log.log(b, p * p + q * q) * 0.5 + shift
    near_one = all_of(large > 0.5, large < 2.0)
    u = b.select(near_one, large, 1.0)
    v = b.select(near_one, small, 0.0)
    square, rest = _two_product(u, u)
    square_v, rest_v = _two_product(v, v)
    near = exp_log.log1p(b, _sum_exactly([square - 1.0, square_v, rest, rest_v])) * 0.5
    result = b.select(near_one, near, far)
    return b.select(any_of(abs(x).eq(np.inf), abs(y).eq(np.inf)), np.inf, result)


@complexes()
def log(b: Builder, x: Value, y: Value) -> Pair:
    """log |z| + i arg z."""
    return log_abs(x, y), trig.atan2(b, y, x)


@complexes()
def log1p(b: Builder, x: Value, y: Value) -> Pair:
    """log(1 + z), accurate near 0."""
    near = all_of(abs(x) < 0.5, abs(y) < 1.0)
    u, v = b.select(near, x, 0.0), b.select(near, y, 0.0)
    square, rest = _two_product(u, u)
    square_v, rest_v = _two_product(v, v)
    close = exp_log.log1p(b, _sum_exactly([2.0 * u, square_v, square, rest_v, rest])) * 0.5
    shifted = x + 1.0
    return b.select(near, close, log_abs(shifted, y)), trig.atan2(b, y, shifted)


def square_root(x: Value, y: Value) -> Pair:
    """sqrt(x + iy) with the cut on the negative real axis (C99 csqrt)."""
    b, dtype = x.b, x.dtype
    n = exponent_of(larger_smaller(x, y)[0])
    half = n >> 1
    even = half << 1
    down = power_of_two(0 - even, dtype)
    p, q = abs(x) * down, abs(y) * down
    t = b.sqrt((p + b.sqrt(p * p + q * q)) * 0.5)
    t = t * power_of_two(half, dtype)
    other = abs(y) / b.select(t.eq(0.0), 1.0, 2.0 * t)
    left = negative(x)
    re, im = b.select(left, other, t), b.select(left, t, other)
    # infinities: y first
    re = b.select(abs(x).eq(np.inf), b.select(left, b.select(b.isnan(y), np.nan, b.like(x, 0.0)),
                                              np.inf), re)
    im = b.select(abs(x).eq(np.inf), b.select(left, np.inf, b.select(b.isnan(y), np.nan,
                                                                     b.like(x, 0.0))), im)
    tall = abs(y).eq(np.inf)
    re, im = b.select(tall, np.inf, re), b.select(tall, np.inf, im)
    nan = b.isnan(y) & ~abs(x).eq(np.inf)
    return b.select(nan, np.nan, re), with_sign(b.select(nan, np.nan, im), y)


@complexes(apart=False)
def sqrt(b: Builder, x: Value, y: Value) -> Pair:
    """Principal square root."""
    return square_root(x, y)


@complexes()
def rsqrt(b: Builder, x: Value, y: Value) -> Pair:
    """1 / sqrt(z)."""
    re, im = square_root(x, y)
    return divide(b.like(x, 1.0), b.like(x, 0.0), re, im)


def _sinh_cosh(x: Value) -> tuple[Value, Value, Value]:
    """(s, c, n) with sinh x = s 2^n, cosh x = c 2^n; n = 0 for |x| <= 20."""
    b, a = x.b, abs(x)
    large = a > 20.0
    v, n = scaled_exp(a)
    inner = b.select(large, 20.0, a)
    n = b.select(large, n - 1, 0)
    s = b.select(large, v, abs(hyperbolic.sinh(b, inner)))
    return with_sign(s, x), b.select(large, v, hyperbolic.cosh(b, inner)), n


def _sinh(x: Value, y: Value) -> Pair:
    b = x.b
    s, c = _sin_cos(y)
    sh, ch, n = _sinh_cosh(x)
    odd = ~(abs(y) < np.inf)
    whole = abs(x).eq(np.inf)
    re = b.select(x.eq(0.0), b.select(odd, x, x * c), scale(sh * c, n))
    im = b.select(y.eq(0.0), y, scale(ch * s, n))
    return b.select(whole & odd, x, re), im


def _cosh(x: Value, y: Value) -> Pair:
    b = x.b
    s, c = _sin_cos(y)
    sh, ch, n = _sinh_cosh(x)
    odd = ~(abs(y) < np.inf)
    whole = abs(x).eq(np.inf)
    zero = x.eq(0.0) | y.eq(0.0)
    signed_zero = with_sign(b.like(x, 0.0), x) * with_sign(b.like(s, 1.0), s)
    im = b.select(zero, signed_zero, scale(sh * s, n))
    return b.select(whole & odd, np.inf, scale(ch * c, n)), im


@complexes()
def sinh(b: Builder, x: Value, y: Value) -> Pair:
    """sinh x cos y + i cosh x sin y."""
    return _sinh(x, y)


@complexes()
def cosh(b: Builder, x: Value, y: Value) -> Pair:
    """cosh x cos y + i sinh x sin y."""
    return _cosh(x, y)


@complexes()
def sin(b: Builder, x: Value, y: Value) -> Pair:
    """-i sinh(iz)."""
    re, im = _sinh(-y, x)
    return im, -re


@complexes()
def cos(b: Builder, x: Value, y: Value) -> Pair:
    """cosh(iz)."""
    return _cosh(-y, x)


def _tanh(x: Value, y: Value) -> Pair:
    """(sinh x cosh x + i sin y cos y) / (sinh^2 x + cos^2 y): no cancellation."""
    b = x.b
    s, c = _sin_cos(y)
    large = abs(x) > 20.0
    inner = b.select(large, 0.0, x)
    sh, ch = hyperbolic.sinh(b, inner), hyperbolic.cosh(b, inner)
    size = sh * sh + c * c
    re, im = sh * ch / size, s * c / size
    # beyond: 1 and 4 sin y cos y e^(-2|x|)
    decay = exp_log.exp(b, abs(x) * -2.0)
    finite = abs(y) < np.inf
    far = b.select(finite, 4.0 * s * c, 0.0) * decay
    re = b.select(large, with_sign(b.like(x, 1.0), x), re)
    re = b.select(x.eq(0.0), x, re)
    nan = ~finite & (abs(x) < np.inf) & ~x.eq(0.0)
    im = b.select(y.eq(0.0), y, b.select(large, far, im))
    return b.select(nan, np.nan, re), b.select(nan, np.nan, im)


@complexes()
def tanh(b: Builder, x: Value, y: Value) -> Pair:
    """sinh z / cosh z."""
    return _tanh(x, y)


@complexes()
def tan(b: Builder, x: Value, y: Value) -> Pair:
    """-i tanh(iz)."""
    re, im = _tanh(-y, x)
    return im, -re


@complexes()
def logistic(b: Builder, x: Value, y: Value) -> Pair:
    """1 / (1 + e^-z)."""
    v, n = scaled_exp(-x)
    s, c = _sin_cos(y)
    one, zero = b.like(x, 1.0), b.like(x, 0.0)
    return divide(one, zero, scale(v * c, n) + 1.0, b.select(y.eq(0.0), -y, -scale(v * s, n)))


@complexes(wide=True)
def pow(b: Builder, x: Value, y: Value, u: Value, v: Value) -> Pair:
    """e^(w log z) with z^0 = 1, and 0^w = 0 for Re w > 0."""
    size, angle = log_abs(x, y), trig.atan2(b, y, x)
    zero = x.eq(0.0) & y.eq(0.0)
    size = b.select(zero, 0.0, size)
    turn = b.select(v.eq(0.0) & b.isinf(size), v, size * v)  # real powers of infinity
    growth, phase = size * u - angle * v, turn + angle * u
    e, n = scaled_exp(growth)
    s, c = _sin_cos(phase)
    re, im = scale(e * c, n), scale(e * s, n)
    im = b.select(phase.eq(0.0), phase, im)
    at_zero = b.select(u > 0.0, 0.0, b.select(u < 0.0, np.inf, b.like(x, np.nan)))
    re, im = b.select(zero, at_zero, re), b.select(zero, b.select(u > 0.0, 0.0, b.like(x, np.nan)),
                                                   im)
    one = u.eq(0.0) & v.eq(0.0)
    return b.select(one, 1.0, re), b.select(one, 0.0, im)
