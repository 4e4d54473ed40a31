"""log((x + y)! / (x! y!) p^x (1 - p)^y) of real x and y, where its terms are large, too: what the
binomial distribution and its relatives are made of.

Source: Loader, Fast and accurate computation of binomial probabilities (2000).  Start reading at
`log_binomial`.
"""
from __future__ import annotations

import math
from typing import Any

import numpy as np

from calque.api.custom_derivatives import custom_jvp
from calque.core.avals import dtype_of
from calque.numpy.arithmetic import absolute
from calque.numpy.excess import excess
from calque.numpy.logic import where
from calque.primitives import elementwise as ew
from calque.primitives import special as sp
from calque.scipy.log_beta import LARGE, digamma_rise, log_ratio, remainder

_FEW = 16  # trials, of which the product is taken


def _times_log(x: Any, log: Any) -> Any:
    return where(x == 0, 0, x * log)


def _surplus(a: Any, apart: Any, log: Any) -> Any:
    """a (m - log(1 + m)) of m = apart / a, given the logarithm."""
    m = apart / a
    near = absolute(m) <= 0.5
    return where(near, a * excess(where(near, m, 0)), apart - a * log)


def _both_large(x: Any, y: Any, p: Any) -> Any:
    total = x + y
    apart = total * p - x
    by_x = _surplus(x, apart, ew.log(total / x) + ew.log(p))
    by_y = _surplus(y, -apart, ew.log(total / y) + ew.log1p(-p))
    rest = remainder(total) - remainder(x) - remainder(y)
    return rest - 0.5 * ew.log(2 * math.pi * x * (y / total)) - by_x - by_y


def _one_large(few: Any, many: Any, p: Any, log_p: Any, log_rest: Any) -> Any:
    """few < 8 <= many; log_p belongs to the few, log_rest to the many."""
    base = many + 1
    lost = base * p < float(np.finfo(dtype_of(p)).tiny) * 4  # the product underflows
    log = where(lost, ew.log(base) + log_p, ew.log(where(lost, 1, base * p)))
    # of -log_ratio(few, base) all but few log(base)
    rest = log_ratio(few, base) + few * ew.log(base)
    return _times_log(few, log) - rest + many * log_rest - sp.lgamma_p.bind(few + 1)


def _both_small(x: Any, y: Any, log_p: Any, log_rest: Any) -> Any:
    lgamma = sp.lgamma_p.bind
    choose = where((x == 0) | (y == 0), 0, lgamma(x + y + 1) - lgamma(x + 1) - lgamma(y + 1))
    return choose + _times_log(x, log_p) + _times_log(y, log_rest)


@custom_jvp
def log_binomial(x: Any, y: Any, p: Any) -> Any:
    """Of x, y >= 0 and 0 <= p <= 1, arrays of one shape."""
    log_p, log_rest = ew.log(p), ew.log1p(-p)
    first, second = x >= LARGE, y >= LARGE
    both = first & second
    large = _both_large(where(both, x, LARGE), where(both, y, LARGE), p)
    few, many = where(first, y, x), where(first, x, y)
    one = (first | second) & ~both
    some = _one_large(where(one, few, 0), where(one, many, LARGE), where(first, 1 - p, p),
                      where(first, log_rest, log_p), where(first, log_p, log_rest))
    small = _both_small(where(one | both, 0, x), where(one | both, 0, y), log_p, log_rest)
    return where(both, large, where(one, some, small))


def log_beta_weight(a: Any, b: Any, x: Any) -> Any:
    """log(x^a (1 - x)^b / B(a, b)) of a, b > 0 and 0 <= x <= 1."""
    less, most = where(a < b, a, b), where(a < b, b, a)
    return log_binomial(a, b, x) + (ew.log(less) - ew.log1p(less / most))


def _quotient(x: Any, p: Any) -> Any:
    return where(x == 0, 0, x / p)


log_binomial.defjvps(
    lambda t, out, x, y, p: t * (digamma_rise(x + 1, y) + ew.log(p)),
    lambda t, out, x, y, p: t * (digamma_rise(y + 1, x) + ew.log1p(-p)),
    lambda t, out, x, y, p: t * (_quotient(x, p) - _quotient(y, 1 - p)))


def log_failures(k: Any, n: Any, p: Any) -> Any:
    """log of the chance of k failures before the n-th success."""
    return log_binomial(n, k, p) + (ew.log(n) - ew.log(n + k))


def _log_gamma_ratio(a: Any, b: Any) -> Any:
    """log(Gamma(b) / Gamma(a + b)) of all a, b > 0."""
    steps = int(LARGE)
    return log_ratio(a, b + steps) + sum(ew.log1p(a / (b + j)) for j in range(steps))


def _none_of_all(n: Any, a: Any, b: Any) -> Any:
    """log of the chance of no success in n trials: the product of (b + j) / (a + b + j)."""
    few = n <= _FEW
    total: Any = 0.0
    for j in range(_FEW):
        above = b + j
        far = a > above
        log = where(far, ew.log(where(far, above / (a + above), 1)),
                    ew.log1p(-where(far, 0, a / (a + above))))
        total = total + where(n > j, log, 0)
    less = where(a < n, a, n)  # the product is symmetric in a and n
    most = where(few, 1, where(a < n, n, a))
    many = _log_gamma_ratio(less, b + most) - _log_gamma_ratio(less, b)
    return where(few, total, many)


@custom_jvp
def log_beta_binomial(k: Any, n: Any, a: Any, b: Any) -> Any:
    """Of whole 0 <= k <= n: (k failures before a successes) times (n - k before b) over (n before
    a + b), each at the chance of success where n is the mean."""
    p = (a + b) / (a + b + n)
    value = (log_failures(k, a, p) + log_failures(n - k, b, p)) - log_failures(n, a + b, p)
    none, edge = k == 0, (k == 0) | (k == n)
    edges = _none_of_all(where(edge, n, 0), where(none, a, b), where(none, b, a))
    return where(edge, edges, value)


def _mixed_rise(a: Any, k: Any, b: Any, m: Any) -> Any:
    """digamma(a + k) - digamma(a) - digamma(a + b + k + m) + digamma(a + b), of which those are
    paired that are next to each other."""
    by_count = digamma_rise(a, k), digamma_rise(a + b, k + m)
    by_shape = digamma_rise(a, b), digamma_rise(a + k, b + m)
    largest = [where(one > two, one, two) for one, two in (by_count, by_shape)]
    return where(largest[0] < largest[1], by_count[0] - by_count[1], by_shape[0] - by_shape[1])


log_beta_binomial.defjvps(
    None, lambda t, out, k, n, a, b: t * _mixed_rise(n - k + 1, k, b - 1, a),
    lambda t, out, k, n, a, b: t * _mixed_rise(a, k, b, n - k),
    lambda t, out, k, n, a, b: t * _mixed_rise(b, n - k, a, k))


__all__ = ["log_beta_binomial", "log_beta_weight", "log_binomial", "log_failures"]
