"""The normal distribution's function, its logarithm and its quantiles: ndtr, log_ndtr, ndtri."""
from __future__ import annotations

import math
from typing import Any

import numpy as np

from calque.api.custom_derivatives import custom_jvp
from calque.core import dtypes
from calque.core.avals import dtype_of
from calque.core.errors import explain
from calque.numpy import util
from calque.numpy.creation import asarray
from calque.numpy.logic import where
from calque.primitives import elementwise as ew
from calque.scipy.faddeeva import erfcx


def _float32_or_64(x: Any) -> Any:
    x = asarray(x)
    dtype = dtype_of(x)
    if dtype not in (dtypes.float32, np.dtype("float64")):
        raise TypeError(explain(
            f"x.dtype={dtype.name} is not supported, see docstring for supported types.",
            fix="convert it with astype('float32')."))
    return x


def _ndtr(x: Any) -> Any:
    return 0.5 * ew.erfc(x * dtype_of(x).type(-math.sqrt(0.5)))


@util.planned
def ndtr(x: Any) -> Any:
    """Normal distribution function: the probability of values below x (float32, float64).

    Args:
      x: array or scalar.

    Returns:
      An array of the broadcast shape, of inexact dtype.

    Raises:
      TypeError: an argument is not an array or a number, or complex.

    Example:
      >>> from calque.scipy import special
      >>> special.ndtr(0.0)
      Array(0.5, dtype=float32)
    """
    return _ndtr(_float32_or_64(x))


@custom_jvp
def _log_ndtr(x: Any) -> Any:
    left = x < -1  # by the tail over the density there, which does not underflow
    tail = ew.log(0.5 * _tail(where(left, x, -1))) - 0.5 * x * x
    right = x > 1
    middle = ew.log(_ndtr(where(left | right, 0, x)))
    return where(right, ew.log1p(-_ndtr(where(right, -x, -1))), where(left, tail, middle))


def _tail(x: Any) -> Any:
    """2 exp(x^2 / 2) ndtr(x) of x < 0."""
    return erfcx(x * -math.sqrt(0.5))


def _hazard(x: Any, log: Any) -> Any:
    """exp(-x^2 / 2) / (sqrt(2 pi) ndtr(x))."""
    left = x < -1
    right = ew.exp(-0.5 * x * x - 0.5 * math.log(2 * math.pi) - log)
    return where(left, math.sqrt(2 / math.pi) / _tail(where(left, x, -1)), right)


_log_ndtr.defjvps(lambda t, out, x: t * _hazard(x, out))


@util.planned
def log_ndtr(x: Any, series_order: int = 3) -> Any:
    """log of the normal distribution function, without underflow.

    Args:
      x: array or scalar of dtype float32 or float64.
      series_order: accepted; no series is used.

    Returns:
      An array of x's shape.

    Raises:
      TypeError: x is not an array, or of another dtype.
      ValueError: series_order is not in 0 to 30.

    Example:
      >>> from calque.scipy import special
      >>> special.log_ndtr(-10.0)
      Array(-53.231285, dtype=float32)
    """
    if not isinstance(series_order, int):
        raise TypeError(explain("series_order must be a Python integer."))
    if not 0 <= series_order <= 30:
        raise ValueError(explain("series_order must be non-negative and at most 30."))
    with util.lazy_eval("log_ndtr"):
        return _log_ndtr(_float32_or_64(x))


# Cephes' ndtri: rational functions of p around 1/2, and of 1 / sqrt(-2 log p) in the tails
_P0 = (-5.99633501014107895267E1, 9.80010754185999661536E1, -5.66762857469070293439E1,
       1.39312609387279679503E1, -1.23916583867381258016E0)
_Q0 = (1.0, 1.95448858338141759834E0, 4.67627912898881538453E0, 8.63602421390890590575E1,
       -2.25462687854119370527E2, 2.00260212380060660359E2, -8.20372256168333339912E1,
       1.59056225126211695515E1, -1.18331621121330003142E0)
_P1 = (4.05544892305962419923E0, 3.15251094599893866154E1, 5.71628192246421288162E1,
       4.40805073893200834700E1, 1.46849561928858024014E1, 2.18663306850790267539E0,
       -1.40256079171354495875E-1, -3.50424626827848203418E-2, -8.57456785154685413611E-4)
_Q1 = (1.0, 1.57799883256466749731E1, 4.53907635128879210584E1, 4.13172038254672030440E1,
       1.50425385692907503408E1, 2.50464946208309415979E0, -1.42182922854787788574E-1,
       -3.80806407691578277194E-2, -9.33259480895457427372E-4)
_P2 = (3.23774891776946035970E0, 6.91522889068984211695E0, 3.93881025292474443415E0,
       1.33303460815807542389E0, 2.01485389549179081538E-1, 1.23716634817820021358E-2,
       3.01581553508235416007E-4, 2.65806974686737550832E-6, 6.23974539184983293730E-9)
_Q2 = (1.0, 6.02427039364742014255E0, 3.67983563856160859403E0, 1.37702099489081330271E0,
       2.16236993594496635890E-1, 1.34204006088543189037E-2, 3.28014464682127739104E-4,
       2.89247864745380683936E-6, 6.79019408009981274425E-9)


def _horner(coefficients: tuple[float, ...], x: Any) -> Any:
    made = dtype_of(x).type(coefficients[0])
    for c in coefficients[1:]:
        made = made * x + dtype_of(x).type(c)
    return made


def _quantile(p: Any) -> Any:
    tail = -math.expm1(-2)
    q = where(p > tail, 1 - p, p)
    inside = q > math.exp(-2)
    center = where(inside, q, 0.5) - 0.5
    square = center * center
    near = center + center * square * (_horner(_P0, square) / _horner(_Q0, square))
    near = near * -math.sqrt(2 * math.pi)
    z = ew.sqrt(-2 * ew.log(where(inside | (q <= 0), math.exp(-3), q)))
    inverse = 1 / z
    first = z - ew.log(z) / z
    correction = where(z >= 8.0, _horner(_P2, inverse) / _horner(_Q2, inverse),
                       _horner(_P1, inverse) / _horner(_Q1, inverse)) * inverse
    x = where(inside, near, first - correction)
    x = where(p > tail, x, -x)
    x = where(p == 0, -np.inf, where(p == 1, np.inf, x))
    return where((p < 0) | (p > 1) | ew.ne(p, p), np.nan, x)


@custom_jvp
def _ndtri(p: Any) -> Any:
    return _quantile(p)


_ndtri.defjvps(lambda t, out, p: t * ew.exp(out * out / 2) * math.sqrt(2 * math.pi))


@util.planned
def ndtri(p: Any) -> Any:
    """Quantile of the normal distribution, the inverse of ndtr (float32, float64).

    Args:
      p: array or scalar.

    Returns:
      An array of the broadcast shape, of inexact dtype.

    Raises:
      TypeError: an argument is not an array or a number, or complex.

    Example:
      >>> from calque.scipy import special
      >>> special.ndtri(0.5)
      Array(0., dtype=float32)
    """
    return _ndtri(_float32_or_64(p))


__all__ = ["log_ndtr", "ndtr", "ndtri"]
