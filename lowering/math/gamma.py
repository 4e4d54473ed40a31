"""lgamma, digamma, polygamma, zeta.

f32 and narrower are computed in f64 where the target has it: then short series give every digit.
lgamma and digamma come from polynomials around 2 and around digamma's zero, recurrences to reach
them, Stirling's series beyond, and reflection for negative x; zeta is the Euler-Maclaurin sum with
ten terms, of negative q on both sides of 0.  Near lgamma's zeros at negative x digits are lost
(in XLA, too): the terms cancel.
The polynomials are interpolations at Chebyshev points (mpmath.chebyfit).
"""
from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence

import numpy as np

from calque.lowering.emit.builder import Builder, Value
from calque.lowering.emit.dtypes import BF16, F16, F32, F64, I32
from calque.lowering.math import exp_log, power
from calque.lowering.math.common import horner, integral, odd, round_small
from calque.lowering.math.region import BodyBuilder, elementwise

# lgamma(2 + z) / z on |z| <= 1/2, error 2^-63.6
_LGAMMA = (
    6.379047507619774e-08, -1.3412819758517287e-07, 2.0304806751615227e-07, -4.303558760359961e-07,
    9.578663334114758e-07, -2.0449201467015115e-06, 4.374374916915131e-06, -9.438458716242811e-06,
    2.050726741605779e-05, -4.4926351103833334e-05, 9.945750909889392e-05, -0.00022315475074520367,
    0.0005096695248853096, -0.0011927539120010226, 0.002890510330738737, -0.0073855510286681535,
    0.02058080842778457, -0.06735230105319814, 0.3224670334241132, 0.42278433509846713)
# digamma(3/2 + u) / (3/2 + u - root) on |u| <= 1/2, error 2^-55.5
_DIGAMMA = (
    -0.00017312261802727394, 0.00025968482126430747, -0.00015148586836773365,
    0.0002272331660987376, -0.0004821990530566789, 0.0007233266279287554, -0.0010376374098418604,
    0.0015566317474486838, -0.002345267632540769, 0.003519006401502276, -0.005279964873257405,
    0.007926944646403797, -0.011908218001568644, 0.0179072524394512, -0.02697579675613825,
    0.04076083381242074, -0.061922133273064534, 0.09498872445494122, -0.14840492305390884,
    0.2405424842407742, -0.4236274212814605, 0.951055876031833)
# digamma's positive zero, in two parts
_ROOT = {F32: (1.4616321325302124, 1.2438149938918909e-08),
         F64: (1.4616321449683622, 9.549995429965697e-17)}
# B_2k / (2k (2k - 1)) and B_2k / 2k, highest first: Stirling's series in 1 / x^2
_STIRLING = (-3617 / 122400, 1 / 156, -691 / 360360, 1 / 1188, -1 / 1680, 1 / 1260, -1 / 360,
             1 / 12)
_STIRLING_SLOPE = (-3617 / 8160, 1 / 12, -691 / 32760, 1 / 132, -1 / 240, 1 / 252, -1 / 120,
                   1 / 12)
# B_2k / (2k)!
_EULER_MACLAURIN = (
    1 / 12, -1 / 720, 1 / 30240, -1 / 1209600, 1 / 47900160, -691 / 1307674368000,
    1 / 74724249600, -3617 / 10670622842880000, 43867 / 5109094217170944000)
# sin(pi r) / r and cos(pi r) in r^2 for |r| <= 1/2, errors 2^-60.4 and 2^-67.1
_SINE = (7.697826768224191e-07, -2.1903497074626018e-05, 0.0004662998161898394,
         -0.007370430505916944, 0.0821458865731029, -0.5992645293189447, 2.5501640398773007,
         -5.167712780049969, 3.141592653589793)
_COSINE = (-1.34352129509532e-07, 4.300724172734847e-06, -0.00010463741681752138,
           0.0019295741872812349, -0.025806891376592964, 0.235330630357995, -1.3352627688545549,
           4.058712126416768, -4.934802200544679, 1.0)
_HALF_LOG_TWO_PI = 0.5 * math.log(2 * math.pi)
_TERMS = 10


def widened(body: Callable[..., Value]) -> Callable[..., Value]:
    """Public form of a body: in f64 where there is one, rounded once (halves by way of f32)."""

    @functools.wraps(body)
    def public(b: Builder, *xs: Value) -> Value:
        dtype = xs[0].dtype
        wide = F64 if b.f64_ok or dtype == F64 else F32

        def run(inner: Builder, *vs: Value) -> Value:
            out = body(inner, *[v.astype(wide) for v in vs])
            return out.astype(F32).astype(dtype) if dtype in (F16, BF16) else out.astype(dtype)

        return elementwise(b, run, xs, [dtype])[0]

    return public


def iterate(b: Builder, go: Callable[..., Value], step: Callable[..., Sequence[Value]],
            start: Sequence[Value], rounds: int) -> list[Value]:
    """step the values while go(*values), at most `rounds` times (without bodies: 60, written out;
    a builder with an `iterate` of its own does that)."""
    if hasattr(b, "iterate"):
        return b.iterate(go, step, start, rounds)
    if isinstance(b, BodyBuilder):
        first = b.splat(0, (), I32)

        def more(n: Value, *vs: Value) -> Value:
            return b.binary("and", n < rounds, go(*vs))

        return b.loop(more, lambda n, *vs: [n + 1, *step(*vs)], [first, *start])[1:]
    values = list(start)
    for _ in range(60):
        running = go(*values)
        values = [b.select(running, new, old) for new, old in zip(step(*values), values)]
    return values


def away_from_integer(x: Value) -> Value:
    """x minus the nearest integer, exactly."""
    b = x.b
    small = abs(x) < 2.0**21 if x.dtype == F32 else abs(x) < 2.0**50
    return b.select(small, x - round_small(b.select(small, x, 0.0)), 0.0 * x)


def stirling_rest(y: Value) -> Value:
    """lgamma(y) - ((y - 1/2) log y - y + log(2 pi) / 2) for y >= 8."""
    return horner(1.0 / (y * y), _STIRLING) / y


def lgamma_positive(y: Value) -> Value:
    """lgamma of y >= 0."""
    b = y.b
    low, first, shifted, far = y < 0.5, y < 1.5, y >= 2.5, y >= 8.0
    t, product = b.select(far, 3.0, y), b.like(y, 1.0)
    for _ in range(6):
        above = t >= 2.5
        t = b.select(above, t - 1.0, t)
        product = b.select(above, product * t, product)
    z = b.select(low, y, b.select(first, y - 1.0, t - 2.0))
    poly = z * horner(z, _LGAMMA)
    near_one = exp_log.log1p(b, b.select(first, z, 0.0))
    argument = b.select(far, y, b.select(low, y, product))
    logarithm = exp_log.log(b, argument)
    value = poly + b.select(shifted, logarithm, b.select(low, -logarithm, 0.0))
    value = b.select(first, value - near_one, value)
    safe = b.select(far, y, 8.0)
    # (y - 1/2) log y - y: written so that it overflows only where the result does
    stirling = (safe - 0.5) * (logarithm - 1.0) + (_HALF_LOG_TWO_PI - 0.5 + stirling_rest(safe))
    stirling = b.select(y.eq(np.inf), np.inf, stirling)
    return b.select(far, stirling, b.select(y.ne(y), y, value))


def lgamma_above(y: Value) -> Value:
    """lgamma(1 + y) of y >= 0, with the digits of a small y."""
    b = y.b
    low, mid = y < 0.5, y < 1.5
    z = b.select(low, y, b.select(mid, y - 1.0, 0.0))
    near = z * horner(z, _LGAMMA) - b.select(low, exp_log.log1p(b, b.select(low, y, 0.0)), 0.0)
    return b.select(mid, near, lgamma_positive(b.select(mid, 1.0, 1.0 + y)))


def lgamma_body(b: Builder, x: Value) -> Value:
    reflected = x < 0.0
    y = lgamma_positive(b.select(reflected, 1.0 - x, x))
    r = away_from_integer(x)
    sine = abs(r) * horner(r * r, _SINE)
    mirrored = exp_log.log(b, math.pi / sine) - y
    mirrored = b.select(sine > 0.0, mirrored, np.inf)
    return b.select(reflected, mirrored, y)


@widened
def lgamma(b: Builder, x: Value) -> Value:
    """log |Gamma(x)|; infinite at 0 and negative integers."""
    return lgamma_body(b, x)


def digamma_positive(y: Value) -> Value:
    """digamma of y > 0."""
    b = y.b
    low, far = y < 1.0, y >= 10.0
    t, total = b.select(far, 2.0, b.select(low, y + 1.0, y)), b.select(low, -1.0 / y, 0.0)
    for _ in range(8):
        above = t > 2.0
        t = b.select(above, t - 1.0, t)
        total = b.select(above, total + 1.0 / t, total)
    root, rest = _ROOT[y.dtype]
    value = total + ((t - root) - rest) * horner(t - 1.5, _DIGAMMA)
    safe = b.select(far, y, 10.0)
    inverse = 1.0 / safe
    square = inverse * inverse
    series = exp_log.log(b, safe) - (0.5 * inverse + square * horner(square, _STIRLING_SLOPE))
    return b.select(far, series, b.select(y.ne(y), y, value))


def digamma_body(b: Builder, x: Value) -> Value:
    reflected = x < 0.0
    y = digamma_positive(b.select(reflected, 1.0 - x, x))
    r = away_from_integer(x)
    square = r * r
    mirrored = y - math.pi * (horner(square, _COSINE) / (r * horner(square, _SINE)))
    value = b.select(reflected, mirrored, y)
    pole = b.binary("and", x <= 0.0, r.eq(0.0))
    return b.select(b.binary("or", pole, x.eq(-np.inf)), np.nan, value)


@widened
def digamma(b: Builder, x: Value) -> Value:
    """The derivative of lgamma; NaN at 0 and negative integers."""
    return digamma_body(b, x)


def _zeta_tail(x: Value, v: Value, power: Value) -> Value:
    """The sum over k >= 0 of (v + k)^-x for v >= 10 and power = v^-x (Euler and Maclaurin's)."""
    tail, factor = v / (x - 1.0) + 0.5, x
    inverse = 1.0 / v
    for j, c in enumerate(_EULER_MACLAURIN):
        factor = factor * inverse
        tail = tail + factor * c
        factor = factor * (x + float(2 * j + 1)) * ((x + float(2 * j + 2)) * inverse)
    return v.b.select(power.eq(0.0), 0.0, power * tail)


def _zeta_below(x: Value, q: Value, steps: Value) -> Value:
    """The sum of |q + k|^-x over those `steps` whole k for which q + k is negative."""
    b = x.b
    total = b.like(x, 0.0)
    for j in range(1, _TERMS + 1):
        size = (float(j) - steps) - q
        term = exp_log.exp(b, -x * exp_log.log(b, b.select(steps >= float(j), size, 1.0)))
        total = total + b.select(steps >= float(j), term, 0.0)
    more = steps > float(_TERMS)
    low, high = (_TERMS + 1.0 - steps) - q, 1.0 - q
    ends = [b.select(more, v, 10.0) for v in (low, high)]
    tails = [_zeta_tail(x, v, exp_log.exp(b, -x * exp_log.log(b, v))) for v in ends]
    return total + b.select(more, tails[0] - tails[1], 0.0)


def zeta_body(b: Builder, x: Value, q: Value) -> Value:
    whole, flips = integral(x), odd(x)
    below = q < 0.0
    floor = b.floor(b.select(below, q, 0.0))
    v = b.select(below, q - floor, q)  # what is above 0 is summed from here on
    total = power.pow(b, v, -x)
    for i in range(1, _TERMS):
        total = total + exp_log.exp(b, -x * exp_log.log(b, v + float(i)))
    v = v + float(_TERMS)
    total = total + _zeta_tail(x, v, exp_log.exp(b, -x * exp_log.log(b, v)))
    rest = _zeta_below(x, q, -floor)
    total = b.select(below, total + b.select(flips, -rest, rest), total)
    total = b.select(b.binary("and", below, ~whole), np.nan, total)
    pole = b.binary("and", q <= 0.0, integral(q))
    even = b.binary("and", whole, ~flips)
    total = b.select(x < 1.0, np.nan, total)
    total = b.select(pole, b.select(even, np.inf, b.like(x, np.nan)), total)
    return b.select(x.eq(1.0), np.inf, total)


@widened
def zeta(b: Builder, x: Value, q: Value) -> Value:
    """Hurwitz' zeta: the sum over k >= 0 of (q + k)^-x, x > 1."""
    return zeta_body(b, x, q)


@widened
def polygamma(b: Builder, m: Value, x: Value) -> Value:
    """The m-th derivative of digamma."""
    known = b.binary("and", integral(m), m >= 0.0)
    order = b.select(known, m, 1.0)
    size = exp_log.exp(b, lgamma_positive(order + 1.0)) * zeta_body(b, order + 1.0, x)
    value = b.select(odd(order), size, -size)
    value = b.select(m.eq(0.0), digamma_body(b, x), value)
    return b.select(b.binary("and", known, abs(m) < np.inf), value, np.nan)
