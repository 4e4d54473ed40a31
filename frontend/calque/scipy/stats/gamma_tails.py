"""Logarithms of the incomplete gamma functions, where they themselves underflow too: by the density
and a series below the mean (DLMF 8.11.4), a continued fraction above it (DLMF 8.9.2).

Start reading at `log_lower`.
"""
from __future__ import annotations

from typing import Any

import numpy as np

from calque.core.avals import dtype_of
from calque.numpy.logic import where
from calque.primitives import elementwise as ew
from calque.scipy.deviance import log_gamma_density
from calque.scipy.special import gammainc, gammaincc

_TERMS, _LEVELS = 60, 40  # leave 1e-5 of the logarithm where x is next to a = 1e4, else all digits


def _chosen(part: Any, rest: Any, far: Any, hidden: Any) -> Any:
    """log of a probability: of itself, of the contrary near 1, or what is given."""
    least = part < 0.5
    plain = where(least, ew.log(where(least & ~hidden, part, 0.5)),
                  ew.log1p(-where(least, 0.5, rest)))
    return where(hidden, far, plain)


def _hidden(part: Any) -> Any:
    return part < float(np.finfo(dtype_of(part)).tiny) * 1e8


def log_lower(a: Any, x: Any) -> Any:
    """log P(a, x)."""
    part, rest = gammainc(a, x), gammaincc(a, x)
    hidden = _hidden(part) & (x > 0) & (x < a) & (a < np.inf)
    b, y = where(hidden, a, 2.0), where(hidden, x, 1.0)
    total: Any = 1.0
    for k in range(_TERMS, 0, -1):
        total = 1 + total * (y / (b + k))
    far = log_gamma_density(b, y) - ew.log(b) + ew.log(total)
    return _chosen(part, rest, far, hidden)


def log_upper(a: Any, x: Any) -> Any:
    """log Q(a, x)."""
    rest, part = gammainc(a, x), gammaincc(a, x)
    hidden = _hidden(part) & (x > a) & (x < np.inf)
    b, y = where(hidden, a, 1.0), where(hidden, x, 2.0)
    below = y - b + (2 * _LEVELS + 1)
    for k in range(_LEVELS, 0, -1):
        below = y - b + (2 * k - 1) + (b - k) / below * k
    return _chosen(part, rest, log_gamma_density(b, y) - ew.log(below), hidden)


__all__ = ["log_lower", "log_upper"]
