"""The incomplete beta function with a slope that does not cancel, and its logarithm where it
underflows: by its density and a continued fraction (DLMF 8.17.22).

Start reading at `incomplete_beta` and `log_part`.
"""
from __future__ import annotations

import math
from typing import Any

import numpy as np

from calque.api.custom_derivatives import custom_jvp
from calque.core.avals import dtype_of
from calque.lax import stop_gradient
from calque.numpy.logic import where
from calque.primitives import elementwise as ew
from calque.primitives import special as sp
from calque.scipy.binomial import log_beta_weight

_LEVELS = 40  # of the fraction


@custom_jvp
def _sloped(value: Any, a: Any, b: Any, x: Any) -> Any:
    return value


@_sloped.defjvp
def _sloped_jvp(primals: Any, tangents: Any) -> Any:
    (value, a, b, x), (t, _, _, dx) = primals, tangents
    proper = (a > 0) & (b > 0) & (a < math.inf) & (b < math.inf)
    unknown = (a != a) | (b != b) | (x != x)  # second derivatives are NaN, too
    inside = unknown | proper & (x > 0) & (x < 1)
    p, q, y = (where(inside, v, c) for v, c in ((a, 1.0), (b, 1.0), (x, 0.5)))
    density = ew.exp(log_beta_weight(p, q, y) - ew.log(y) - ew.log1p(-y))
    at_zero = where(a < 1, math.inf, where(a == 1, b, 0.0))
    at_one = where(b < 1, math.inf, where(b == 1, a, 0.0))
    edge = where(x == 0, at_zero, where(x == 1, at_one, math.nan))
    return value, t + dx * where(inside, density, where(proper, edge, math.nan))


def incomplete_beta(a: Any, b: Any, x: Any) -> Any:
    """I_x(a, b) of floats of one shape."""
    value = sp.regularized_incomplete_beta_p.bind(a, b, stop_gradient(x))
    return _sloped(value, a, b, x)


def log_part(part: Any, rest: Any, a: Any, b: Any, x: Any) -> Any:
    """log I_x(a, b), given I_x(a, b) and 1 less it."""
    hidden = (part < float(np.finfo(dtype_of(part)).tiny) * 1e8) & (x > 0) & (x < 1)
    hidden = hidden & (x * (a + b + 2) < a + 1)
    p, q, y = (where(hidden, v, c) for v, c in ((a, 1.0), (b, 1.0), (x, 0.5)))
    below: Any = 1.0
    for m in range(_LEVELS, -1, -1):
        odd = -(p + m) * (p + q + m) * y / ((p + 2 * m) * (p + 2 * m + 1))
        below = 1 + odd / below
        if m:
            below = 1 + m * (q - m) * y / ((p + 2 * m - 1) * (p + 2 * m)) / below
    far = log_beta_weight(p, q, y) - ew.log(p) - ew.log(below)
    least = part < 0.5
    plain = where(least, ew.log(where(least & ~hidden, part, 0.5)),
                  ew.log1p(-where(least, 0.5, rest)))
    return where(hidden, far, plain)


__all__ = ["incomplete_beta", "log_part"]
