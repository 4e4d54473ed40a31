"""Incomplete gamma and beta functions: igamma, igammac, their derivative by a, betainc.

igamma(a, x) is a power series for x <= max(1, a) and one minus a continued fraction (Legendre's)
beyond, as in Cephes (Moshier 1989); the derivative by a carries the derivatives of the terms along.
betainc is the continued fraction of Didonato & Morris (1992), mirrored where it converges faster.
The loops are loops of each element: it stops when its own terms no longer count.
"""
from __future__ import annotations

import functools
import math
from collections.abc import Callable

import numpy as np

from calque.lowering.emit.builder import Builder, Value
from calque.lowering.emit.dtypes import F32, F64
from calque.lowering.math import exp_log, power
from calque.lowering.math.common import horner
from calque.lowering.math.gamma import (
    digamma_positive,
    iterate,
    lgamma_above,
    stirling_rest,
    widened,
)

_ROUNDS = 10000  # about sqrt(a) are needed where x is near a


def _by_precision(body: Callable[..., Value]) -> Callable[..., Value]:
    """Public form of body(b, *xs, eps): loops for f32 stop when its digits are there."""
    fine, coarse = (widened(functools.partial(body, eps=eps)) for eps in (2.0**-53, 2.0**-34))

    @functools.wraps(body)
    def public(b: Builder, *xs: Value) -> Value:
        return (fine if xs[0].dtype == F64 else coarse)(b, *xs)

    return public


def _epsilon(x: Value, eps: float) -> float:
    return 2.0**-24 if x.dtype == F32 else eps


def log1p_minus(t: Value) -> Value:
    """log(1 + t) - t without cancellation near 0."""
    b = t.b
    near = b.binary("and", t > -0.29, t < 0.41)
    u = b.select(near, t, 0.0)
    s = u / (u + 2.0)
    close = s * s * s * horner(s * s, exp_log.LOG[t.dtype]) - u * s
    return b.select(near, close, exp_log.log1p(b, t) - t)


def _log_minus(apart: Value, ratio: Value) -> Value:
    """log(ratio) - apart, ratio = 1 + apart: of a tiny ratio that sum would forget it."""
    b = apart.b
    far = apart < -0.29
    return b.select(far, exp_log.log(b, ratio) - apart, log1p_minus(b.select(far, 0.0, apart)))


def _weight(b: Builder, a: Value, x: Value) -> Value:
    """x^a e^-x / Gamma(a + 1): no term of its logarithm is large because a is small."""
    large = a >= 8.0
    safe = b.select(large, a, 8.0)
    bump = exp_log.exp(b, safe * _log_minus((x - safe) / safe, x / safe) - stirling_rest(safe))
    bump = bump / power.sqrt(b, safe * (2 * math.pi))
    small = b.select(large, 1.0, a)
    return b.select(large, bump, exp_log.exp(
        b, small * exp_log.log(b, x) - x - lgamma_above(small)))


def _series(b: Builder, a: Value, x: Value, slope: bool, eps: float) -> list[Value]:
    """The sum over n of x^n / ((a + 1) ... (a + n)), and its derivative by a."""
    eps = _epsilon(x, eps)
    one, zero = b.like(x, 1.0), b.like(x, 0.0)

    def go(r: Value, c: Value, s: Value, *d: Value) -> Value:
        more = c > s * eps
        return b.binary("or", more, abs(d[0]) > abs(d[1]) * eps) if slope else more

    def step(r: Value, c: Value, s: Value, *d: Value) -> list[Value]:
        r = r + 1.0
        q = x / r
        new = c * q
        if not slope:
            return [r, new, s + new]
        dc = (d[0] - c / r) * q
        return [r, new, s + new, dc, d[1] + dc]

    out = iterate(b, go, step, [a, one, one, *([zero, zero] if slope else [])], _ROUNDS)
    return [out[2], out[4]] if slope else [out[2]]


def _fraction(b: Builder, a: Value, x: Value, slope: bool, eps: float) -> list[Value]:
    """Gamma(a, x) e^x / x^a by its continued fraction, and its derivative by a.

    Steed's form (Thompson & Barnett 1986): the convergents' differences are products, each from the
    last, so that they shrink to nothing and no difference of near numbers is taken.
    """
    eps = _epsilon(x, eps) / 8  # of a slow fraction the terms left out are several times the last
    n, apart = b.like(x, 1.0), x - a
    d = 1.0 / (apart + 1.0)
    values = [n, d, d, d]  # the denominator's inverse, the last difference, the sum
    if slope:
        values += [d * d] * 3

    def go(n: Value, d: Value, delta: Value, total: Value, *by_a: Value) -> Value:
        more = abs(delta) > total * eps
        return b.binary("or", more, abs(by_a[1]) > abs(by_a[2]) * eps) if slope else more

    def step(n: Value, d: Value, delta: Value, total: Value, *by_a: Value) -> list[Value]:
        top = n * (n - a)
        new_d = 1.0 / (apart + (2.0 * n + 1.0) - top * d)
        ratio = top * d * new_d
        new = [n + 1.0, new_d, ratio * delta, total + ratio * delta]
        if slope:
            dd, ddelta, dtotal = by_a
            new_dd = new_d * new_d * (1.0 - n * d + top * dd)
            dratio = top * (dd * new_d + d * new_dd) - n * d * new_d
            ddelta = dratio * delta + ratio * ddelta
            new += [new_dd, ddelta, dtotal + ddelta]
        return new

    out = iterate(b, go, step, values, _ROUNDS)
    return [out[3], out[6]] if slope else [out[3]]


def _places(b: Builder, a: Value, x: Value) -> tuple[Value, Value, Value, Value, Value]:
    """(whether by the fraction, a and x for the series, a and x for the fraction)."""
    ordinary = b.binary("and", b.binary("and", a > 0.0, x > 0.0),
                        b.binary("and", a < np.inf, x < np.inf))
    beyond = b.binary("and", ordinary, b.binary("and", x > 1.0, x > a))
    inside = b.binary("and", ordinary, ~beyond)
    return (beyond, b.select(inside, a, 1.0), b.select(inside, x, 0.5),
            b.select(beyond, a, 1.0), b.select(beyond, x, 2.0))


def _complement(b: Builder, a: Value, x: Value, eps: float) -> Value:
    """Q(a, x) of a, x <= 1, of which both 1 - P and Gamma's pole would lose the digits: with
    w = x^a / Gamma(a + 1) it is 1 - w - a w sum (-x)^n / (n! (a + n)) (DLMF 8.7.1)."""
    eps, zero = _epsilon(x, eps), b.like(x, 0.0)

    def step(n: Value, power: Value, _: Value, total: Value) -> list[Value]:
        n = n + 1.0
        power = -power * (x / n)
        term = power / (a + n)
        return [n, power, term, total + term]

    total = iterate(b, lambda n, power, term, total: abs(term) > abs(total) * eps, step,
                    [zero, b.like(x, 1.0), b.like(x, 1.0), zero], 40)[3]
    log = a * exp_log.log(b, x) - lgamma_above(a)
    return -exp_log.expm1(b, log) - exp_log.exp(b, log) * (a * total)


def _pair(b: Builder, a: Value, x: Value, eps: float) -> tuple[Value, Value]:
    """(P, Q) with P + Q = 1, each without cancellation where it is the smaller."""
    beyond, a0, x0, a1, x1 = _places(b, a, x)
    weight = _weight(b, b.select(beyond, a1, a0), b.select(beyond, x1, x0))
    (s,) = _series(b, a0, x0, False, eps)
    (f,) = _fraction(b, a1, x1, False, eps)
    lower, upper = weight * s, weight * a1 * f
    p = b.select(beyond, 1.0 - upper, lower)
    corner = b.binary("and", a0 < 1.0, x0 <= 1.0)  # (elsewhere a0 is 1)
    small = _complement(b, b.select(corner, a0, 0.5), b.select(corner, x0, 0.5), eps)
    q = b.select(beyond, upper, b.select(corner, small, 1.0 - lower))
    # x = 0, a = 0, infinities
    none = b.binary("or", b.binary("and", x.eq(0.0), a > 0.0),
                    b.binary("and", a.eq(np.inf), b.binary("and", x > 0.0, x < np.inf)))
    every = b.binary("or", b.binary("and", x.eq(np.inf), a >= 0.0),
                     b.binary("and", a.eq(0.0), x > 0.0))
    invalid = b.binary("or", b.binary("or", ~(a >= 0.0), ~(x >= 0.0)),
                       b.binary("and", a.eq(0.0), x.eq(0.0)))
    p = b.select(none, 0.0, b.select(every, 1.0, p))
    q = b.select(none, 1.0, b.select(every, 0.0, q))
    return b.select(invalid, np.nan, p), b.select(invalid, np.nan, q)


@_by_precision
def igamma(b: Builder, a: Value, x: Value, *, eps: float) -> Value:
    """The regularized lower incomplete gamma function P(a, x)."""
    return _pair(b, a, x, eps)[0]


@_by_precision
def igammac(b: Builder, a: Value, x: Value, *, eps: float) -> Value:
    """The regularized upper incomplete gamma function Q(a, x) = 1 - P(a, x)."""
    return _pair(b, a, x, eps)[1]


def _slope(b: Builder, a: Value, x: Value, sampling: bool, eps: float) -> Value:
    """dP/da; or, for a sample x of the gamma distribution, dx/da = -(dP/da) / (dP/dx)."""
    beyond, a0, x0, a1, x1 = _places(b, a, x)
    s, ds = _series(b, a0, x0, True, eps)
    f, df = _fraction(b, a1, x1, True, eps)
    ordinary_a = b.select(beyond, a1, a0)
    psi = digamma_positive(ordinary_a + 1.0)
    log_x = exp_log.log(b, b.select(beyond, x1, x0))
    inner = ds + s * (log_x - psi)
    outer = df + f * (log_x - (psi - 1.0 / ordinary_a))
    if sampling:
        value = b.select(beyond, outer * x1, -inner * (x0 / a0))
    else:
        weight = _weight(b, ordinary_a, b.select(beyond, x1, x0))
        value = weight * b.select(beyond, -outer * a1, inner)
    value = b.select(x.eq(0.0), 0.0, value)
    valid = b.binary("and", b.binary("and", a > 0.0, x >= 0.0),
                     b.binary("and", x < np.inf,
                              b.binary("or", a < np.inf, x.eq(0.0))))
    return b.select(valid, value, np.nan)


@_by_precision
def igamma_grad_a(b: Builder, a: Value, x: Value, *, eps: float) -> Value:
    """The derivative of igamma by a."""
    return _slope(b, a, x, False, eps)


@_by_precision
def random_gamma_grad(b: Builder, a: Value, x: Value, *, eps: float) -> Value:
    """The derivative by a of a sample x of the gamma distribution, at a fixed quantile."""
    return _slope(b, a, x, True, eps)


# ---- beta
def _beta_fraction(b: Builder, a: Value, c: Value, x: Value, eps: float) -> Value:
    """The continued fraction of betainc(a, c, x) by Lentz' method (Thompson & Barnett's form)."""
    eps, tiny = _epsilon(x, eps), 1e-30
    one = b.like(x, 1.0)

    def away(v: Value) -> Value:
        return b.select(abs(v) < tiny, tiny, v)

    d = 1.0 / away(1.0 - (a + c) * x / (a + 1.0))

    def step(m: Value, up: Value, d: Value, h: Value, _: Value) -> list[Value]:
        m = m + 1.0
        even = m * (c - m) * x / ((a - 1.0 + 2.0 * m) * (a + 2.0 * m))
        d = 1.0 / away(even * d + 1.0)
        up = away(even / up + 1.0)
        h = h * (d * up)
        odd = -(a + m) * (a + c + m) * x / ((a + 2.0 * m) * (a + 1.0 + 2.0 * m))
        d = 1.0 / away(odd * d + 1.0)
        up = away(odd / up + 1.0)
        change = d * up
        return [m, up, d, h * change, abs(change - 1.0)]

    return iterate(b, lambda m, up, d, h, change: change > eps, step,
                   [b.like(x, 0.0), one, d, d, one], _ROUNDS)[3]


def _beta_weight(b: Builder, p: Value, q: Value, y: Value) -> Value:
    """y^p (1 - y)^q / B(p, q); where both are large, relative to the largest value, at
    p / (p + q): there the logarithms cancel."""
    both = b.binary("and", p >= 8.0, q >= 8.0)
    c, d = b.select(both, p, 8.0), b.select(both, q, 8.0)
    apart = y * (c + d) - c
    log = c * _log_minus(apart / c, y * ((c + d) / c))
    log = log + d * _log_minus(-apart / d, (1.0 - y) * ((c + d) / d))
    log = log + (stirling_rest(c + d) - stirling_rest(c) - stirling_rest(d))
    large = exp_log.exp(b, log) * power.sqrt(b, c * (d / (c + d)) * (1 / (2 * math.pi)))
    # one large at most: no term of the logarithm is large because the other is small
    least, most = b.select(p < q, p, q), b.select(p < q, q, p)
    far = most >= 8.0
    m = b.select(far, most, 8.0)
    ratio = (m + (least - 0.5)) * exp_log.log1p(b, least / m) + least * (exp_log.log(b, m) - 1.0)
    ratio = ratio + (stirling_rest(m + least) - stirling_rest(m))
    other = b.select(far, 1.0, most)
    near = lgamma_above(other + least) - lgamma_above(other)
    log = p * exp_log.log(b, y) + q * exp_log.log1p(b, -y) - lgamma_above(least)
    plain = exp_log.exp(b, log + b.select(far, ratio, near)) * least
    plain = b.select(far, plain, plain * (other / (other + least)))
    return b.select(both, large, plain)


@_by_precision
def betainc(b: Builder, a: Value, c: Value, x: Value, *, eps: float) -> Value:
    """The regularized incomplete beta function I_x(a, c)."""
    inside = b.binary("and", b.binary("and", x > 0.0, x < 1.0), b.binary(
        "and", b.binary("and", a > 0.0, c > 0.0),
        b.binary("and", a < np.inf, c < np.inf)))
    p, q, y = (b.select(inside, v, k) for v, k in ((a, 1.0), (c, 1.0), (x, 0.25)))
    rest = 1.0 - y
    mirrored = y > (p + 1.0) / (p + q + 2.0)
    first, second = b.select(mirrored, q, p), b.select(mirrored, p, q)
    point = b.select(mirrored, rest, y)
    weight = _beta_weight(b, p, q, y)
    part = weight * _beta_fraction(b, first, second, point, eps) / first
    value = b.select(mirrored, 1.0 - part, part)
    # the limits: all weight at 0 (a = 0 or c infinite) or at 1
    at_zero = b.binary("or", a.eq(0.0), c.eq(np.inf))
    limit = b.select(at_zero, b.like(x, 1.0), b.like(x, 0.0))
    edge = b.binary("or", at_zero, b.binary("or", c.eq(0.0), a.eq(np.inf)))
    value = b.select(edge, limit, value)
    value = b.select(x.eq(0.0), 0.0, b.select(x.eq(1.0), 1.0, value))
    both = b.binary("or", b.binary("and", a.eq(0.0), c.eq(0.0)),
                    b.binary("and", a.eq(np.inf), c.eq(np.inf)))
    domain = b.binary("and", b.binary("and", a >= 0.0, c >= 0.0),
                      b.binary("and", x >= 0.0, x <= 1.0))
    return b.select(b.binary("and", domain, ~both), value, np.nan)
