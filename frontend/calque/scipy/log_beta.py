"""log |B(a, b)| for all arguments: where one is large, lgamma(a) + lgamma(b) - lgamma(a + b)
cancels, and Stirling's series of the difference is summed instead.

Source: DiDonato and Morris, Algorithm 708 (ACM TOMS 18, 1992), functions BETALN, ALGDIV and BCORR.
Start reading at `log_beta`.
"""
from __future__ import annotations

import math
from typing import Any

import numpy as np

from calque.api.custom_derivatives import custom_jvp
from calque.core.avals import shape_of
from calque.numpy.logic import where
from calque.primitives import elementwise as ew
from calque.primitives import special as sp

# Of log Gamma(x) - (x - 1/2) log x + x - log(2 pi) / 2, in 1/x, 1/x^3, ...
_SERIES = (0.833333333333333e-01, -0.277777777760991e-02, 0.793650666825390e-03,
           -0.595202931351870e-03, 0.837308034031215e-03, -0.165322962780713e-02)
LARGE = 8.0  # from here on the series has 14 digits


def _fold(terms: Any, t: Any) -> Any:
    total: Any = 0.0
    for c in reversed(list(terms)):
        total = total * t + c
    return total


def remainder(x: Any) -> Any:
    """log Gamma(x) - (x - 1/2) log x + x - log(2 pi) / 2 of x >= 8."""
    return _fold(_SERIES, (1 / x) * (1 / x)) / x


def _remainder(a: Any, b: Any) -> Any:
    """del(b) - del(a + b) of the series, as one that does not cancel: a + b, b >= 8."""
    h = a / b
    x = 1 / (1 + h)
    sums, power = [], 1.0  # (1 - x^n) / (1 - x) for odd n
    total: Any = 0.0
    for _ in _SERIES:
        total = total + power
        sums.append(total)
        total = total + power * x
        power = power * x * x
    t = (1 / b) * (1 / b)
    return _fold((c * s for c, s in zip(_SERIES, sums)), t) * (h / (1 + h)) / b


def log_ratio(a: Any, b: Any) -> Any:
    """log(Gamma(b) / Gamma(a + b)) for b >= 8."""
    spread = (b + (a - 0.5)) * ew.log1p(a / b)
    return _remainder(a, b) - spread - a * (ew.log(b) - 1)


def _both(a: Any, b: Any) -> Any:
    """log B(a, b) for large a <= b."""
    h = a / b
    own = remainder(a)
    part = (a - 0.5) * (ew.log1p(h) - ew.log(h)) + b * ew.log1p(h)
    return own + _remainder(a, b) + (0.5 * math.log(2 * math.pi) - 0.5 * ew.log(b)) - part


# Of log x - 1/(2 x) - digamma(x), in 1/x^2, 1/x^4, ... (DLMF 5.11.2): B_2k / 2k
_DIGAMMA = (1 / 12, -1 / 120, 1 / 252, -1 / 240, 1 / 132, -691 / 32760, 1 / 12)
_SHIFT = 10  # from here on the series has all digits


def digamma_rise(a: Any, b: Any) -> Any:
    """digamma(a + b) - digamma(a) of a, b > 0: all terms have one sign, where b is small too."""
    rise: Any = 0.0
    for k in range(_SHIFT):
        rise = rise + b / (a + (b + k)) / (a + k)
    low, high = 1 / (a + _SHIFT), 1 / (a + (b + _SHIFT))
    part = b * high * low  # 1 / low^2 - 1 / high^2 is part (low + high)
    powers, power, total = 0.0, 1.0, 0.0
    p, q = low * low, high * high
    for c in _DIGAMMA:
        powers = powers * p + power  # of p^k - q^k = (p - q) (p^(k - 1) + ... + q^(k - 1))
        total = total + c * powers
        power = power * q
    return rise + ew.log1p(b * low) + part * (0.5 + (low + high) * total)


def _slope(a: Any, b: Any) -> Any:
    """The derivative of log |B(a, b)| by a."""
    positive = (a > 0) & (b > 0)
    psi = sp.digamma_p.bind
    x, y = where(positive, 1.0, a), where(positive, 1.0, b)
    rise = digamma_rise(where(positive, a, 1.0), where(positive, b, 1.0))
    return where(positive, -rise, psi(x) - psi(x + y))


@custom_jvp
def _general(a: Any, b: Any) -> Any:
    """log |B(a, b)| where neither is 0, a negative integer or infinite."""
    swap = a > b
    least, most = where(swap, b, a), where(swap, a, b)
    large = (most >= LARGE) & (least + most >= LARGE)
    both = least >= LARGE
    # what a branch does not take it sees as harmless numbers
    x, y = where(large, 1.0, least), where(large, 1.0, most)
    lgamma = sp.lgamma_p.bind
    first = lgamma(where(both, 1.0, least))  # of the other two
    small = first + lgamma(y) - lgamma(x + y)
    x, y = where(large & ~both, least, 1.0), where(large & ~both, most, 10.0)
    one = first + log_ratio(x, y)
    x, y = where(both, least, 10.0), where(both, most, 10.0)
    return where(both, _both(x, y), where(large, one, small))


_general.defjvps(lambda t, out, a, b: t * _slope(a, b), lambda t, out, a, b: t * _slope(b, a))


def _pole(a: Any) -> Any:
    return (a <= 0) & (ew.floor(a) == a)


def log_beta(a: Any, b: Any) -> tuple[Any, Any]:
    """(log |B(a, b)|, whether one of them is 0 or a negative integer: then its sign is that of
    (-1)^(the other one), where B is finite)."""
    pole = _pole(a) | _pole(b)
    first = _pole(a)
    n, m = where(first, a, b), where(first, b, a)  # B(-n, m) = (-1)^m B(1 + n - m, m)
    finite = pole & (ew.floor(m) == m) & (1 - n - m > 0) & (m > 0)
    endless = ew.eq(a, _like(a, np.inf)) | ew.eq(b, _like(b, np.inf))
    unknown = (a != a) | (b != b)  # NaN goes through, so that derivatives are NaN, too
    plain = unknown | ~pole & ~endless
    x = where(plain, a, where(finite, 1 - n - m, 1.0))
    y = where(plain, b, where(finite, m, 1.0))
    value = _general(x, y)
    value = where(pole & ~finite & ~unknown, np.inf,
                  where(endless & ~pole & ~unknown, -np.inf, value))
    return value, pole


def _like(x: Any, value: float) -> Any:
    return ew.match_shape(ew.const(x, value), shape_of(x))


def pole_sign(a: Any, b: Any) -> Any:
    """The sign of B(a, b) where one of them is 0 or a negative integer."""
    m = where(_pole(a), b, a)
    odd = ew.floor(m * 0.5) * 2 != m
    return where(odd, -1.0, 1.0)


__all__ = ["LARGE", "digamma_rise", "log_beta", "log_ratio", "pole_sign",
           "remainder"]
