"""The incomplete gamma functions where both arguments are large and near each other.

The series and the fraction of igamma take some sqrt(a) terms there and end before.  Source: Temme's
uniform expansion (SIAM J. Math. Anal. 10, 1979; DLMF 8.12), Q = erfc(eta sqrt(a / 2)) / 2 + S.
Start reading at `near`.
"""
from __future__ import annotations

import math
from typing import Any

from calque.api.custom_derivatives import custom_jvp
from calque.core.avals import dtype_of
from calque.core.primitive import Primitive
from calque.lax import stop_gradient
from calque.numpy.logic import where
from calque.primitives import elementwise as ew
from calque.scipy.deviance import log_gamma_density

LARGE, NEAR = 1e5, 0.05  # of a, and of |x - a| / a: there S takes three rows of the expansion
# c_k(eta) of DLMF 8.12.10 in powers of eta
_ROWS = ((-1 / 3, 1 / 12, -2 / 135, 1 / 864, 1 / 2835, -139 / 777600, 1 / 25515,
          -571 / 261273600),
         (-1 / 540, -1 / 288, 1 / 378, -77 / 77760, 1 / 4860),
         (25 / 6048, -139 / 51840, 1 / 1296))


def _polynomial(coefficients: Any, x: Any) -> Any:
    total: Any = 0.0
    for c in reversed(coefficients):
        total = total * x + c
    return total


def _expansion(a: Any, x: Any, upper: bool) -> Any:
    mu = (x - a) / a  # eta^2 / 2 = mu - log(1 + mu), without the cancellation
    eta = mu * ew.sqrt(_polynomial([2 * (-1) ** k / (k + 2) for k in range(14)], mu))
    rest = ew.exp(-0.5 * a * eta * eta) * ew.rsqrt(a) / math.sqrt(2 * math.pi)
    rest = rest * _polynomial([_polynomial(row, eta) for row in _ROWS], 1 / a)
    z = eta * ew.sqrt(a * 0.5)
    return 0.5 * ew.erfc(z) + rest if upper else 0.5 * ew.erfc(-z) - rest


@custom_jvp
def _sloped(value: Any, a: Any, x: Any) -> Any:
    return value


@_sloped.defjvp
def _sloped_jvp(primals: Any, tangents: Any) -> Any:
    (value, a, x), (t, _, dx) = primals, tangents
    # NaN is inside: second derivatives are NaN, too
    inside = ~((a <= 0) | (x <= 0) | (a >= math.inf) | (x >= math.inf))
    b, y = where(inside, a, 1.0), where(inside, x, 1.0)
    density = ew.exp(log_gamma_density(b, y) - ew.log(y))
    edge = where(x == 0, where(a < 1, math.inf, where(a == 1, 1.0, 0.0)), 0.0)
    known = ew.eq(a, a) & ew.eq(x, x) & (a > 0) & (x >= 0)
    return value, t + dx * where(inside, density, where(known, edge, math.nan))


def near(primitive: Primitive, a: Any, x: Any, upper: bool) -> Any:
    """The primitive's function of floats of one shape, by the expansion where that is better."""
    given, x = x, stop_gradient(x)  # the slope by x is the density
    inside = (a >= LARGE) & (x > a * (1 - NEAR)) & (x < a * (1 + NEAR)) & (a < math.inf)
    made = _expansion(where(inside, a, LARGE), where(inside, x, LARGE), upper)
    plain = primitive.bind(where(inside, 1.0, a).astype(dtype_of(a)),
                           where(inside, 1.0, x).astype(dtype_of(a)))
    value = where(inside, made, plain)
    return -_sloped(-value, a, given) if upper else _sloped(value, a, given)


__all__ = ["near"]
