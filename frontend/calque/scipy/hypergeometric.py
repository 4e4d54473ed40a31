"""hyp1f1 and hyp2f1 of real arguments: Kummer's and Gauss's series where their terms fall, with the
derivatives by the parameters summed beside them; transformations bring x there.

Start reading at `_summed`.
"""
from __future__ import annotations

from typing import Any

import numpy as np

from calque import lax
from calque.api.custom_derivatives import custom_jvp
from calque.core.avals import dtype_of
from calque.numpy import reductions as rd
from calque.numpy import util
from calque.numpy.arithmetic import absolute
from calque.numpy.logic import where
from calque.primitives import elementwise as ew
from calque.primitives import special as sp
from calque.scipy.describe import constant, real, widened
from calque.scipy.gammas import gamma_sign
from calque.scipy.oscillating import oscillating, where_needed

MOST = 40000  # terms
NEAR = 0.9  # from here on 2F1 is continued about 1


def _summed(upper: tuple[Any, ...], lower: tuple[Any, ...], x: Any, first: Any = 1) -> list[Any]:
    """first times sum prod (a)_k / prod (b)_k x^k / k!, and its derivatives by each a and each b.

    term_k+1 = term_k r_k, so the derivative of term by a is term_k+1 / (a + k) more than r_k times
    the last one; written so that an a + k that is 0 does no harm.  It ends where all terms are
    nothing beside their sums twice in a row (a term can be small by an a + k near 0)."""
    count = len(upper) + len(lower)
    kind = dtype_of(x)
    zero = x * 0
    eps = constant(float(np.finfo(kind).eps) / 4, x)

    def step(state: Any) -> Any:
        k, term, slopes, total, sums, quiet = state
        n = k.astype(kind)
        ups, downs = [a + n for a in upper], [b + n for b in lower]
        bottom = (n + 1) * (downs[0] if lower else 1)
        rest = where(bottom == 0, 0, x / where(bottom == 0, 1, bottom))  # it ended before
        ratio = rest
        for a in ups:
            ratio = ratio * a
        made = []
        for i, slope in enumerate(slopes):
            if i < len(upper):
                other = rest
                for j, a in enumerate(ups):
                    other = other if i == j else other * a
                made.append(slope * ratio + term * other)
            else:
                made.append(slope * ratio - term * ratio / downs[0])
        term = term * ratio
        total = total + term
        sums = [s + m for s, m in zip(sums, made)]
        small = [absolute(t) <= eps * absolute(s) for t, s in zip([term, *made], [total, *sums])]
        done = rd.all(~ew.eq(total, total) | (absolute(total) == np.inf)
                      | _both(small))
        return k + 1, term, made, total, sums, where(done, quiet + 1, 0)

    one = zero + first
    start = (np.int32(0), one, [zero] * count, one, [zero] * count, np.int32(0))
    _, _, _, total, sums, _ = lax.while_loop(lambda s: (s[0] < MOST) & (s[5] < 2), step, start)
    return [total, *sums]


def _both(conditions: list[Any]) -> Any:
    out = conditions[0]
    for c in conditions[1:]:
        out = out & c
    return out


def _rgamma(x: Any) -> Any:
    """1 / Gamma(x), 0 at the poles."""
    pole = (x <= 0) & (ew.floor(x) == x)
    safe = where(pole, 1, x)
    odd = (safe < 0) & (ew.rem(ew.floor(safe), constant(2, x) + safe * 0) != 0)
    size = ew.exp(-sp.lgamma_p.bind(safe))
    return where(pole, 0, where(odd, -size, size))


def _whole(x: Any) -> Any:
    """Whether x is 0, -1, -2, ..."""
    return (x <= 0) & (ew.floor(x) == x)


# ---- 1F1
def _kummer(a: Any, b: Any, x: Any) -> list[Any]:
    """M(a, b, x), and its derivatives by a and b; M(a, b, x) = e^x M(b - a, b, -x) for x < 0."""
    below = (x < 0) & ~(_whole(a) & (a > b))
    cap = constant(170.0 if dtype_of(x).itemsize == 4 else 1400.0, x)
    size, first = where(below, -x, x), where(below, b - a, a)
    waves = where_needed(first, b, size, cap) & ~_falls(a, b, x)
    *continued, log = oscillating(where(waves, first, -1), where(waves, b, 1),
                                  where(waves, size, 1))
    scale = ew.exp(where(waves, log - where(below, size, 0), 0))
    size = where(size > cap, cap, size)
    factor = where(below, ew.exp(-0.5 * size), 1)  # half of it first: the sum may overflow
    summed = _summed((where(waves, 0, first),), (b,), where(waves, 0, size), factor)
    value, by_a, by_b = (where(waves, c * scale, s * factor) for c, s in zip(continued, summed))
    return [value, where(below, -by_a, by_a), where(below, by_b + by_a, by_b)]


def _falls(a: Any, b: Any, x: Any) -> Any:
    """Whether the asymptotic series has all digits: of a large -x."""
    cap = constant(160.0 if dtype_of(x).itemsize == 4 else 1300.0, x)
    return (x < -cap) & ((b >= a) | (a * absolute(a - b + 1) < -x))


def _far(a: Any, b: Any, size: Any) -> Any:
    """M(a, b, -size) of large size (DLMF 13.7.1), as many terms as fall."""
    term, total, falls = a * 0 + 1, a * 0 + 1, size > 0
    for k in range(30):
        after = term * ((a + k) / (k + 1)) * ((a - b + 1 + k) / size)
        falls = falls & ((absolute(after) <= absolute(term)) | (k < b - a - 1))  # (a rise before)
        term = where(falls, after, term)
        total = total + where(falls, after, 0)
    lgamma, rest = sp.lgamma_p.bind, b - a
    pole = _whole(rest)
    rest = where(pole, 1, rest)
    size = ew.exp(lgamma(b) - lgamma(rest) - a * ew.log(size))
    return where(pole, 0, total * size * gamma_sign(b) * gamma_sign(rest))


def _value(a: Any, b: Any, x: Any) -> Any:
    value = where((a == 0) | (x == 0), 1, _kummer(a, b, x)[0])
    far = _falls(a, b, x) & (a != 0)
    value = where(far, _far(a, where(far, b, 1), where(far, -x, 1e4)), value)
    value = where((a == b) & (a != 0), ew.exp(x), value)
    pole = _whole(b) & ~(_whole(a) & (a > b)) & (a != 0)
    known = ew.eq(a, a) & ew.eq(b, b) & ew.eq(x, x)
    return where(known, where(pole, np.inf, value), np.nan)


@custom_jvp
def _hyp1f1(a: Any, b: Any, x: Any) -> Any:
    return _value(a, b, x)


@_hyp1f1.defjvp
def _hyp1f1_jvp(primals: Any, tangents: Any) -> Any:
    a, b, x = primals
    _, by_a, by_b = _kummer(a, b, x)
    by_x = a / b * _hyp1f1(a + 1, b + 1, x)
    return _hyp1f1(a, b, x), tangents[0] * by_a + tangents[1] * by_b + tangents[2] * by_x


@util.planned
def hyp1f1(a: Any, b: Any, x: Any) -> Any:
    """Kummer's function 1F1(a; b; x) of real arguments (DLMF 13.2.2); 1 where a is 0.

    Args:
      a: array or scalar.
      b: array or scalar.
      x: array or scalar.

    Returns:
      An array of the broadcast shape, of inexact dtype.

    Raises:
      TypeError: an argument is not an array or a number.
      ValueError: an argument is complex.

    Example:
      >>> from calque.scipy import special
      >>> special.hyp1f1(1.0, 2.0, 0.5).round(4)
      Array(1.2974, dtype=float32)
    """
    a, b, x = _reals("hyp1f1", a, b, x)
    return util.cast(_hyp1f1(*widened(a, b, x)), dtype_of(x))


def _reals(name: str, *values: Any) -> list[Any]:
    """As describe.real; lists are taken, too, as JAX takes them here."""
    return real(name, *[v if util.is_arraylike(v) else util.array(np.asarray(v)) for v in values])


# ---- 2F1
@custom_jvp
def _series(a: Any, b: Any, c: Any, x: Any) -> Any:
    """F(a, b; c; x) where its terms fall."""
    return _summed((a, b), (c,), x)[0]


@_series.defjvp
def _series_jvp(primals: Any, tangents: Any) -> Any:
    a, b, c, x = primals
    value, *slopes = _summed((a, b), (c,), x)
    slopes.append(a * b / c * _series(a + 1, b + 1, c + 1, x))
    return value, sum((t * s for t, s in zip(tangents, slopes)), start=x * 0)


def _gauss(a: Any, b: Any, c: Any, x: Any) -> Any:
    """F(a, b; c; x) of x in [0, 1): by x, or about 1 (DLMF 15.8.4) unless c - a - b is nearly
    whole, where the two halves cancel."""
    excess = c - a - b
    apart = absolute(excess - ew.floor(excess + 0.5))
    ends = _whole(a) | _whole(b)
    about = (x > NEAR) & (apart > 0.01) & ~ends
    # Euler's transformation (15.8.1) where it makes terms fall faster, or end
    euler = ~about & ~ends & (_whole(c - a) | _whole(c - b)
                              | (excess < 0) & (c - a > 0) & (c - b > 0))
    power = ew.pow_(where(euler | about, 1 - x, 1), excess)
    near = _series(where(euler, c - a, a), where(euler, c - b, b),
                   where(about, 1 - excess, c), where(about, 1 - x, x))
    second = _series(where(about, c - a, 0), where(about, c - b, 0),
                     where(about, 1 + excess, 1), where(about, 1 - x, 0))
    safe = where(about, excess, 0.5)
    gamma_c = 1 / _rgamma(where(about, c, 1))
    one = gamma_c * _rgamma(c - a) * _rgamma(c - b) / _rgamma(safe) * near
    two = gamma_c * _rgamma(a) * _rgamma(b) / _rgamma(-safe) * power * second
    return where(about, one + two, power * near)


def _hyp2f1(a: Any, b: Any, c: Any, x: Any) -> Any:
    ends = _whole(a) | _whole(b)
    stops = _whole(a) & (a > c) | _whole(b) & (b > c)  # before c + k is 0
    pole = _whole(c) & ~stops
    inside = ~pole & ((x < 1) | ends)
    a1, b1, c1 = where(inside, a, 0), where(inside, b, 0), where(inside, c, 1)
    x1 = where(inside, x, 0)
    # Pfaff's transformation (15.8.1) of x < 0, unless the series ends
    turned = (x1 < 0) & ~ends
    power = ew.pow_(where(turned, 1 - x1, 1), -a1)
    value = power * _gauss(a1, where(turned, c1 - b1, b1), c1,
                           where(turned, x1 / (x1 - 1), where(x1 > -np.inf, x1, 0)))
    excess = c - a - b
    at_one = (x == 1) & (excess > 0) & ~pole & ~ends
    g, h = where(at_one, c, 1), where(at_one, excess, 1)
    summed = 1 / (_rgamma(g) * _rgamma(h)) * _rgamma(c - a) * _rgamma(c - b)
    value = where(inside, value, where(at_one, summed, np.inf))
    value = where((a == 0) | (b == 0) | (x == 0), 1, value)
    known = ew.eq(a, a) & ew.eq(b, b) & ew.eq(c, c) & ew.eq(x, x)
    return where(known, value, np.nan)


@util.planned
def hyp2f1(a: Any, b: Any, c: Any, x: Any) -> Any:
    """Gauss's function 2F1(a, b; c; x) of real arguments (DLMF 15.2.1); inf if it diverges.

    Args:
      a: array or scalar.
      b: array or scalar.
      c: array or scalar.
      x: array or scalar.

    Returns:
      An array of the broadcast shape, of inexact dtype.

    Raises:
      TypeError: an argument is not an array or a number.
      ValueError: an argument is complex.

    Example:
      >>> from calque.scipy import special
      >>> special.hyp2f1(1.0, 2.0, 3.0, 0.5).round(4)
      Array(1.5452, dtype=float32)
    """
    a, b, c, x = _reals("hyp2f1", a, b, c, x)
    return util.cast(_hyp2f1(*widened(a, b, c, x)), dtype_of(x))
