"""Exponentials and logarithms of distributions whose slopes have a form of their own: the general
one is 1 less something near 1, or 0 times inf.

Start reading at `expm1`.
"""
from __future__ import annotations

import math
from typing import Any

from calque.api.custom_derivatives import custom_jvp
from calque.numpy.arithmetic import absolute
from calque.numpy.logic import where
from calque.primitives import elementwise as ew

_MOST, _LEAST = 20.0, -40.0  # exp(-e^20) is 0; e^-40 is nothing beside 1


@custom_jvp
def expm1(x: Any) -> Any:
    return ew.expm1(x)


expm1.defjvps(lambda t, out, x: t * ew.exp(x))  # not 1 + out


def _over(x: Any, scale: Any) -> Any:
    """x^2 / scale, at most 1e18: then 1 is nothing beside it."""
    root = absolute(x) / ew.sqrt(scale)
    return where(root > 1e9, 1e18, root * where(root > 1e9, 1, root))


@custom_jvp
def log1p_square(x: Any, scale: Any) -> Any:
    """log(1 + x^2 / scale), where x^2 overflows too."""
    root = absolute(x) / ew.sqrt(scale)
    far = root > 1e9
    return where(far, 2 * ew.log(where(far, absolute(x), 1)) - ew.log(where(far, scale, 1)),
                 ew.log1p(_over(x, scale)))


def _by_x(x: Any, scale: Any) -> Any:
    far = absolute(x) > ew.sqrt(scale)
    safe = where(far, x, 1)
    return 2 * where(far, 1 / (scale / safe + safe), (x / scale) / (1 + _over(x, scale)))


log1p_square.defjvps(
    lambda t, out, x, scale: t * _by_x(x, scale),
    lambda t, out, x, scale: -t * (_over(x, scale) / (1 + _over(x, scale)) / scale))


# ---- logistic
@custom_jvp
def log_logistic(x: Any) -> Any:
    return -absolute(x) - 2 * ew.log1p(ew.exp(-absolute(x)))


log_logistic.defjvps(lambda t, out, x: -t * ew.tanh(0.5 * x))


# ---- Gumbel: e = exp(u)
def _capped(u: Any) -> Any:
    return where(u > _MOST, _MOST, u)


@custom_jvp
def log_gumbel(u: Any) -> Any:
    """u - e, where u is infinite, too."""
    return where(u > 60, 0, u) - ew.exp(u)


log_gumbel.defjvps(lambda t, out, u: -t * ew.expm1(u))


@custom_jvp
def gumbel_density(u: Any) -> Any:
    """exp(u - e)."""
    u = _capped(u)
    return ew.exp(u - ew.exp(u))


gumbel_density.defjvps(lambda t, out, u: -t * (out * ew.expm1(_capped(u))))


@custom_jvp
def gumbel_part(u: Any) -> Any:
    """exp(-e)."""
    return ew.exp(-ew.exp(u))


gumbel_part.defjvps(lambda t, out, u: -t * gumbel_density(u))


@custom_jvp
def gumbel_rest(u: Any) -> Any:
    """1 - exp(-e)."""
    return -ew.expm1(-ew.exp(u))


gumbel_rest.defjvps(lambda t, out, u: t * gumbel_density(u))


@custom_jvp
def log_gumbel_rest(u: Any) -> Any:
    """log(1 - exp(-e))."""
    below = u < _LEAST
    e = ew.exp(where(below, 0, _capped(u)))
    small = e < math.log(2)
    value = where(small, ew.log(-ew.expm1(-where(small, e, 0.5))),
                  ew.log1p(-ew.exp(-where(small, 1, e))))
    return where(below, u, value)


def _log_rest_slope(u: Any) -> Any:
    below = u < _LEAST
    return where(below, 1, gumbel_density(u) / gumbel_rest(where(below, 0, u)))


log_gumbel_rest.defjvps(lambda t, out, u: t * _log_rest_slope(u))


__all__ = ["expm1", "gumbel_density", "gumbel_part", "gumbel_rest", "log1p_square",
           "log_gumbel", "log_gumbel_rest", "log_logistic"]
