"""Box and Cox's power transform and its derivatives, which keep their digits for powers near 0 and
where the power itself over- or underflows.  Start reading at `_value`.
"""
from __future__ import annotations

import math
from typing import Any

from calque.api.custom_derivatives import custom_jvp
from calque.core.types import Function
from calque.numpy import util
from calque.numpy.arithmetic import absolute
from calque.numpy.logic import where
from calque.primitives import elementwise as ew

_BIG = 60.0  # of the exponent: from here on -1 is not seen


def _value(log: Any, power: Any) -> Any:
    u = power * log
    none = (power == 0) | (absolute(u) < 1e-20)  # (the product may underflow)
    big = u > _BIG  # by one exponential: the power may overflow where the quotient does not
    size = ew.exp(u - ew.log(where(big, absolute(power), 1)))
    plain = ew.expm1(where(big, 1, u)) / where(none, 1, power)
    return where(none, log, where(big, where(power < 0, -size, size), plain))


def _by_power(log: Any, power: Any, out: Any) -> Any:
    """(e^u u - e^u + 1) / power^2, u = power log: a series in u near 0."""
    u = power * log
    near, big = absolute(u) < 0.5, u > _BIG
    few = where(near, u, 0)
    series: Any = 0.0
    for k in range(14, -1, -1):
        series = series * few + (k + 1) / math.factorial(k + 2)
    by = where(near, 1, power)
    far = ((u - 1) * ew.exp(where(near | big, 1, u)) + 1) / by / by
    return where(near, log * log * series, where(big, out * ((u - 1) / by), far))


def _transform(log_of: Function) -> Any:
    """A transform of x by the logarithm of x, or of 1 + x."""
    made = custom_jvp(lambda x, power: _value(log_of(x), power))

    @made.defjvp
    def jvp(primals: Any, tangents: Any) -> Any:
        (x, power), (dx, d_power) = primals, tangents
        out, log = made(x, power), log_of(x)
        slope = ew.exp(where(power == 1, 0, (power - 1) * log))
        return out, dx * slope + d_power * _by_power(log, power, out)

    return made


_plain, _shifted = _transform(ew.log), _transform(ew.log1p)


@util.planned
def boxcox(x: Any, lmbda: Any) -> Any:
    """The power x**lmbda, moved and stretched so that every power is 0 at x = 1 with slope 1 there:
    less 1, divided by lmbda.  The power 0 is then the logarithm.

    Args:
      x: array or scalar, positive.
      lmbda: array or scalar, the power.

    Returns:
      An array of the broadcast shape, of inexact dtype.

    Raises:
      TypeError: an argument is not an array or a number, or complex.

    Example:
      >>> from calque.scipy import special
      >>> special.boxcox(2.0, 2.0)
      Array(1.5, dtype=float32, weak_type=True)
    """
    return _plain(*util.broadcast_all("boxcox", *util.inexact_arrays("boxcox", x, lmbda)))


@util.planned
def boxcox1p(x: Any, lmbda: Any) -> Any:
    """The power transform of 1 + x, which is never formed: a small x keeps its digits.

    Args:
      x: array or scalar, above -1.
      lmbda: array or scalar, the power.

    Returns:
      An array of the broadcast shape, of inexact dtype.

    Raises:
      TypeError: an argument is not an array or a number, or complex.

    Example:
      >>> from calque.scipy import special
      >>> special.boxcox1p(1.0, 2.0)
      Array(1.5, dtype=float32, weak_type=True)
    """
    return _shifted(*util.broadcast_all("boxcox1p", *util.inexact_arrays("boxcox1p", x, lmbda)))


__all__ = ["boxcox", "boxcox1p"]
