"""expi: the exponential integral, by its series about its root, a continued fraction and its
asymptotic series.

Of x > 0 Ei(x) = log(x / r) + sum((x^k - r^k) / (k k!)), r being the root, where both parts have the
sign of x - r: digits are kept near r, too (DLMF 6.6.1).  Of x < 0 it is -E1(-x) (DLMF 6.9.1).
Start reading at `_expi`.
"""
from __future__ import annotations

from typing import Any

import numpy as np

from calque import lax
from calque.api.custom_derivatives import custom_jvp
from calque.core.avals import dtype_of
from calque.core.errors import explain
from calque.numpy import util
from calque.numpy.logic import where
from calque.primitives import elementwise as ew

ROOT = 0.3725074107813666  # of Ei, as a double
ROOT_REST = 1.314018341e-17  # what it lacks
GAMMA = 0.5772156649015329  # Euler's
LARGE = 42.0  # from here on the asymptotic series has 1e-17
TERMS = 140  # of the series at LARGE
DEPTH = 100  # of the continued fraction at 1; 1e-16 is left
ASYMPTOTIC = 40
BEYOND = 1e4  # where e^x is infinite in every dtype


def _positive(x: Any, kind: Any) -> Any:
    """Ei of 0 < x <= LARGE."""
    root = kind.type(ROOT)
    rest = kind.type(ROOT - float(root) + ROOT_REST)
    apart = (x - root) - rest
    near = absolute(apart) < root / 2
    start = where(near, ew.log1p(where(near, apart, 0) / root), ew.log(x / root))

    def term(k: Any, carry: Any) -> Any:
        """q = (x^k - r^k) / (x - r) and r^k, both over k!"""
        q, power, total = carry
        k = k.astype(kind)
        q, power = (x * q + power) / k, power * root / k
        return q, power, total + q / k

    zero = x * 0
    _, _, total = lax.fori_loop(1, TERMS, term, (zero, zero + 1, zero))
    return start + apart * total


def _asymptotic(x: Any) -> Any:
    """Ei of x > LARGE: e^x / x (1 + 1/x + 2/x^2 + ...), the power in halves against overflow."""
    inverse = 1 / x
    total = inverse * 0 + 1
    for k in range(ASYMPTOTIC, 0, -1):
        total = 1 + total * (k * inverse)
    half = ew.exp(x / 2)
    return half * (total * inverse) * half


def _negative(z: Any, kind: Any) -> Any:
    """-E1(z) of z > 0."""
    small = z <= 1
    near = where(small, z, 1)
    far = where(small, 1, z)

    def level(i: Any, below: Any) -> Any:
        k = (DEPTH - i).astype(kind)
        return far + 2 * k - 1 - k * k / below

    fraction = lax.fori_loop(0, DEPTH, level, far + 2 * DEPTH + 1)
    return where(small, ew.log(near) + GAMMA + _powers(near, kind),
                 -ew.exp(-far) / fraction)


def _powers(z: Any, kind: Any) -> Any:
    """sum((-z)^k / (k k!)), k from 1, of z <= 1."""
    total = z * 0
    for k in range(20, 0, -1):
        total = z * (kind.type((-1.0) ** k / (k * _factorial(k))) + total)
    return total


def _factorial(k: int) -> float:
    return float(np.prod(np.arange(1, k + 1, dtype=np.float64)))


def absolute(x: Any) -> Any:
    return ew.abs_(x)


@custom_jvp
def _expi(x: Any) -> Any:
    kind = dtype_of(x)
    inside = (x > 0) & (x <= LARGE)
    value = where(inside, _positive(where(inside, x, 1), kind),
                  where(x > LARGE, _asymptotic(where(x > LARGE, x, LARGE)),
                        _negative(where(x < 0, -x, 1), kind)))
    # (of the largest x, 1 / x is a denormal, flushed to 0, and the series NaN)
    value = where(x == 0, -np.inf, where(x > BEYOND, np.inf, value))
    return where(x == -np.inf, -0.0, where(ew.ne(x, x), np.nan, value))


_expi.defjvps(lambda t, out, x: t * (ew.exp(x) / x))


@util.planned
def _planned(x: Any) -> Any:
    return _expi(x)


def expi(x: Any) -> Any:
    """The exponential integral Ei(x), the principal value of the integral of e^t / t up to x.

    Args:
      x: array of float16, bfloat16, float32 or float64 (integers become floats).

    Returns:
      Array of x's shape: -inf at 0, -0 at -inf; of x < 0 it is -E1(-x).

    Raises:
      TypeError: x is complex or no array.

    Source: DLMF 6.2, 6.6, 6.9, 6.12.

    Example:
      >>> from calque.scipy.special import expi
      >>> print(expi(1.0).round(4))
      1.8951
    """
    (x,) = util.promote_inexact("expi", x)
    if util.is_complex(x):
        raise TypeError(explain(f"expi: dtype {dtype_of(x)} is not supported.",
                                fix="pass a real array: x.real."))
    return _planned(util.array(x))
