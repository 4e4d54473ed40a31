"""The gamma function and what is made of it: its sign, beta, factorials."""
from __future__ import annotations

import math
import operator
from typing import Any

import numpy as np

from calque.api.custom_derivatives import custom_jvp
from calque.core.avals import dtype_of
from calque.core.errors import explain
from calque.numpy import reductions as rd
from calque.numpy import util
from calque.numpy.logic import where
from calque.primitives import elementwise as ew
from calque.primitives import special as sp
from calque.scipy.describe import floats as _real
from calque.scipy.log_beta import LARGE, digamma_rise, log_beta, log_ratio, pole_sign


def gamma_sign(x: Any) -> Any:
    """The sign of Gamma(x), NaN at negative integers."""
    below = ew.floor(x)
    odd = ew.ne(ew.rem(below, dtype_of(x).type(2)), dtype_of(x).type(0))
    signed = where(odd, -1.0, 1.0)
    plain = where(x == 0, where(1 / x > 0, 1.0, -1.0), where(x == below, np.nan, signed))
    return ew.convert(where(x > 0, 1.0, where(ew.eq(x, x), plain, np.nan)), dtype_of(x),
                      util.weak_of(x))


@util.planned
def gammasgn(x: Any) -> Any:
    """Sign of Gamma(x); NaN at negative integers.

    Args:
      x: array or scalar.

    Returns:
      An array of the broadcast shape, of inexact dtype.

    Raises:
      TypeError: an argument is not an array or a number, or complex.

    Example:
      >>> from calque.scipy import special
      >>> special.gammasgn(-0.5)
      Array(-1., dtype=float32)
    """
    (x,) = _real("gammasgn", x, error=ValueError)
    return util.cast(gamma_sign(x), dtype_of(x))


# Lanczos' coefficients for g = 7, n = 9 (Godfrey, 2001): 15 digits for real parts >= 0.5.
_LANCZOS = (0.99999999999980993, 676.5203681218851, -1259.1392167224028, 771.32342877765313,
            -176.61502916214059, 12.507343278686905, -0.13857109526572012, 9.9843695780195716e-6,
            1.5056327351493116e-7)


def _complex_gamma(z: Any) -> Any:
    """Lanczos (1964) right of 0.5, Euler's reflection left of it."""
    left = ew.real(z) < 0.5
    w = where(left, -z, z - 1)
    terms = [c / (w + i) for i, c in enumerate(_LANCZOS[1:], 1)]
    t = w + 7.5
    value = math.sqrt(2 * math.pi) * ew.exp((w + 0.5) * ew.log(t) - t) * sum(
        terms, start=_LANCZOS[0])
    value = where(left, math.pi / (ew.sin(math.pi * z) * value), value)
    x, y = ew.real(z), ew.imag(z)  # on the real line: poles, and no NaN beside inf
    real = ew.complex_(_real_gamma(x), y)
    pole = (y == 0) & (x <= 0) & (ew.floor(x) == x)
    real = where(pole, complex(np.nan, np.nan), real)
    return where(y == 0, real, value)


def _real_gamma(x: Any) -> Any:
    return gamma_sign(x) * ew.exp(sp.lgamma_p.bind(x))


@util.planned
def gamma(x: Any) -> Any:
    """Gamma(x), of complex x too.

    Args:
      x: array or scalar.

    Returns:
      An array of the broadcast shape, of inexact dtype.

    Raises:
      TypeError: an argument is not an array or a number, or complex.

    Example:
      >>> from calque.scipy import special
      >>> special.gamma(5.0)
      Array(24., dtype=float32)
    """
    (x,) = util.inexact_arrays("gamma", x)
    if util.is_complex(x):
        return util.cast(_complex_gamma(x), dtype_of(x))
    out = _real_gamma(x)
    return util.cast(out, dtype_of(out))


@util.planned
def betaln(a: Any, b: Any) -> Any:
    """log |B(a, b)|, B the beta function.

    Args:
      a: array or scalar.
      b: array or scalar.

    Returns:
      An array of the broadcast shape, of inexact dtype.

    Raises:
      TypeError: an argument is not an array or a number, or complex.

    Example:
      >>> from calque.scipy import special
      >>> special.betaln(2.0, 3.0)
      Array(-2.4849067, dtype=float32, weak_type=True)
    """
    x, y = util.broadcast_all("betaln", *_real("betaln", a, b))
    return util.cast(log_beta(x, y)[0], dtype_of(x), util.weak_of(x) and util.weak_of(y))


@util.planned
def beta(a: Any, b: Any) -> Any:
    """Beta function Gamma(a) Gamma(b) / Gamma(a + b).

    Args:
      a: array or scalar.
      b: array or scalar.

    Returns:
      An array of the broadcast shape, of inexact dtype.

    Raises:
      TypeError: an argument is not an array or a number, or complex.

    Example:
      >>> from calque.scipy import special
      >>> special.beta(2.0, 3.0)
      Array(0.08333333, dtype=float32)
    """
    a, b = util.broadcast_all("beta", *_real("beta", a, b, error=ValueError))
    size, pole = log_beta(a, b)
    plain = gamma_sign(where(pole, 1.0, a)) * gamma_sign(where(pole, 1.0, b)) * gamma_sign(where(
        pole, 1.0, a + b))
    size = ew.exp(size)
    sign = where(pole, where(size < np.inf, pole_sign(a, b), 1.0), plain)
    out = where(size == 0, 0.0, sign * size)
    return ew.convert(out, dtype_of(a))


@util.planned
def factorial(n: Any, exact: bool = False) -> Any:
    """n! = Gamma(n + 1); 0 for negative n.

    Args:
      n: array or scalar.
      exact: not supported.

    Returns:
      An array of inexact dtype.

    Raises:
      NotImplementedError: exact is asked for.
      TypeError: n is not an array or a number.

    Example:
      >>> from calque.scipy import special
      >>> special.factorial(3.0).round()
      Array(6., dtype=float32, weak_type=True)
    """
    if exact:
        raise NotImplementedError(explain("factorial with exact=True", fix="use math.factorial."))
    with util.lazy_eval("factorial"):
        (n,) = _real("factorial", n)
        return where(n < 0, 0, ew.exp(sp.lgamma_p.bind(n + 1)))


@custom_jvp
def _poch(z: Any, m: Any) -> Any:
    lgamma = sp.lgamma_p.bind
    large = (z >= LARGE) & (m > 0)  # there the logarithms of gamma cancel
    x, y = where(large, 1.0, z), where(large, 1.0, m)
    log = lgamma(x + y) - lgamma(x)
    log = where(large, -log_ratio(where(large, m, 1.0), where(large, z, 10.0)), log)
    return where(m == 0, 1, gamma_sign(z + m) * gamma_sign(z) * ew.exp(log))


@_poch.defjvp
def _poch_jvp(primals: Any, tangents: Any) -> Any:
    (z, m), (dz, dm) = primals, tangents
    out, psi = _poch(z, m), sp.digamma_p.bind
    rise = (z > 0) & (m > 0)
    by_z = where(rise, digamma_rise(where(rise, z, 1.0), where(rise, m, 1.0)), psi(z + m) - psi(z))
    return out, out * (dz * by_z + dm * psi(z + m))


@util.planned
def poch(z: Any, m: Any) -> Any:
    """Gamma(z + m) / Gamma(z), the rising factorial.

    Args:
      z: array or scalar.
      m: array or scalar.

    Returns:
      An array of the broadcast shape, of inexact dtype.

    Raises:
      TypeError: an argument is not an array or a number, or complex.

    Example:
      >>> from calque.scipy import special
      >>> special.poch(2.0, 3.0)
      Array(24., dtype=float32)
    """
    z, m = util.broadcast_all("poch", *_real("poch", z, m, error=ValueError))
    out = _poch(z, m)
    return ew.convert(out, dtype_of(out))


@util.planned
def multigammaln(a: Any, d: int) -> Any:
    """log of the multivariate gamma function of dimension d.

    Args:
      a: array or scalar.
      d: dimension, a Python int.

    Returns:
      An array of a's shape.

    Raises:
      TypeError: a is not an array or a number, or d no integer.

    Example:
      >>> from calque.scipy import special
      >>> special.multigammaln(3.0, 2)
      Array(1.550195, dtype=float32)
    """
    d = int(d) if isinstance(d, float) and d.is_integer() else operator.index(d)  # type: ignore[attr-defined]
    with util.lazy_eval("multigammaln"):
        (a,) = _real("multigammaln", a)
        halves = np.arange(d).astype(dtype_of(a)) / 2
        terms = sp.lgamma_p.bind(a[..., None] - halves)
        constant = d * (d - 1) / 4 * math.log(math.pi)
        return rd.sum(terms, axis=-1) + dtype_of(a).type(constant)


__all__ = ["beta", "betaln", "factorial", "gamma", "gamma_sign", "gammasgn", "multigammaln", "poch"]
