"""Densities whose logarithms are small beside their terms: x^a e^-x / Gamma(a) of large a.

Source: Loader, Fast and accurate computation of binomial probabilities (2000).  Start reading at
`log_gamma_density`.
"""
from __future__ import annotations

import math
from typing import Any

from calque.numpy.arithmetic import absolute
from calque.numpy.excess import excess
from calque.numpy.logic import where
from calque.primitives import elementwise as ew
from calque.primitives import special as sp
from calque.scipy.log_beta import LARGE, remainder


def deviance(a: Any, x: Any) -> Any:
    """a ((x - a) / a - log(x / a)) of a, x > 0."""
    m = (x - a) / a
    near = absolute(m) <= 0.5
    return where(near, a * excess(where(near, m, 0)), (x - a) - a * (ew.log(x) - ew.log(a)))


def log_gamma_density(a: Any, x: Any) -> Any:
    """a log x - x - log Gamma(a) of a, x > 0."""
    large = a >= LARGE
    b = where(large, a, LARGE)
    y = where(large, x, LARGE)
    by_parts = 0.5 * ew.log(b) - 0.5 * math.log(2 * math.pi) - remainder(b) - deviance(b, y)
    c = where(large, 1.0, a)
    return where(large, by_parts, c * ew.log(where(large, 1.0, x)) - where(large, 0.0, x)
                 - sp.lgamma_p.bind(c))


__all__ = ["deviance", "log_gamma_density"]
