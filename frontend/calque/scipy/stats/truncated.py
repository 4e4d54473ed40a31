"""The truncated normal distribution, without cancellation where its bounds lie in one tail.

The mass between two bounds is kept as exp(-near^2 / 2) exp(rest), near being the bound next to 0:
squares of far numbers are then subtracted as products.  Start reading at `_mass`.
"""
from __future__ import annotations

import math
from typing import Any

import numpy as np

from calque.numpy.logic import where
from calque.primitives import elementwise as ew
from calque.scipy.faddeeva import erfcx
from calque.scipy.normal import ndtr

_ROOT_2, _HALF_LOG_2PI = math.sqrt(2), 0.5 * math.log(2 * math.pi)
_TAIL = 1.0  # from here on a tail is told by its logarithm, nearer by differences of erf


def _log_mills(x: Any) -> Any:
    """log(Q(x) / phi(x)) of x >= 0."""
    return ew.log(erfcx(x * (1 / _ROOT_2))) + 0.5 * math.log(math.pi / 2)


def _log_rest(x: Any) -> Any:
    """log(1 - exp(-x)) of x > 0."""
    small = x < math.log(2)
    return where(small, ew.log(-ew.expm1(-where(small, x, 0.5))),
                 ew.log1p(-ew.exp(-where(small, 1, x))))


def _mass(a: Any, b: Any) -> tuple[Any, Any]:
    """(near, rest) of the mass between a and b."""
    right = a > 0
    low, high = where(right, a, -b), where(right, b, -a)  # on the right side of 0
    tail = low >= _TAIL
    near = where(tail, low, 1.0)
    alone = ~tail | ((high - low) * near > 200)  # what lies beyond is not seen
    away = where(alone, near + 1, high)
    gap = 0.5 * (away - near) * (away + near) + _log_mills(near) - _log_mills(away)
    beyond = _log_mills(near) - _HALF_LOG_2PI + where(alone, 0, _log_rest(where(alone, 1, gap)))
    x, y = where(tail, -1.0, a), where(tail, 1.0, b)
    outer = ndtr(x) + ndtr(-y)
    most = outer < 0.5
    inside = 0.5 * (ew.erf(y * (1 / _ROOT_2)) - ew.erf(x * (1 / _ROOT_2)))
    plain = where(most, ew.log1p(-where(most, outer, 0)), ew.log(where(most, 1, inside)))
    return where(tail, low, 0.0), where(tail, beyond, plain)


def log_density(z: Any, a: Any, b: Any) -> Any:
    near, rest = _mass(a, b)
    return -0.5 * (z - near) * (z + near) - _HALF_LOG_2PI - rest


def _log_part(z: Any, a: Any, b: Any) -> Any:
    """log of the part of the mass between a and b that lies below z."""
    (near, rest), (whole_near, whole) = _mass(a, z), _mass(a, b)
    return rest - whole - 0.5 * (near - whole_near) * (near + whole_near)


def log_below(z: Any, a: Any, b: Any) -> Any:
    """log of the distribution function: by what lies above where that is the less."""
    inside = (z > a) & (z < b)
    middle = where(a > -np.inf, where(b < np.inf, 0.5 * a + 0.5 * b, a + 1),
                   where(b < np.inf, b - 1, 0))
    x = where(inside, z, middle)
    below, above = _log_part(x, a, b), _log_part(-x, -b, -a)
    most = below > -math.log(2)
    value = where(most, ew.log1p(-ew.exp(where(most, above, -1))), below)
    return where(inside, value, where(z <= a, -np.inf, where(z >= b, 0.0, np.nan)))


__all__ = ["log_below", "log_density"]
