"""What the special functions are: SciPy's, and mpmath's where SciPy has none (see oracle.py)."""
from __future__ import annotations

from typing import Any

import mpmath
import numpy as np
import scipy.special

from support.oracle import ORACLES, oracle, wide


def _lgamma(x: Any) -> Any:
    """SciPy's, but log |Gamma| at -inf is inf, as in C and in JAX, and next to its zeros 1 and 2,
    of which SciPy and C lose digits (1e-11 of the value at 1 + 1e-5), mpmath's."""
    value = np.asarray(np.where(x == -np.inf, np.inf, scipy.special.gammaln(x)))
    for i in np.argwhere((np.abs(x - 1) < 0.1) | (np.abs(x - 2) < 0.1)):
        value[tuple(i)] = float(mpmath.loggamma(mpmath.mpf(float(x[tuple(i)]))))
    return value


def _digamma(x: Any) -> Any:
    """SciPy's, but the pole at 0 has no value, as those below it and as in JAX."""
    return np.where(x == 0, np.nan, scipy.special.digamma(x))


def _zeta(x: Any, q: Any) -> Any:
    """SciPy's, but at the poles 0, -1, ... of q only what does not change its sign there has a
    value, as in JAX."""
    pole = (q <= 0) & (q == np.floor(q))
    return np.where(pole, np.where((x % 2 == 0) | (x == 1), np.inf, np.nan),
                    scipy.special.zeta(x, q))


def _polygamma(m: Any, x: Any) -> Any:
    """SciPy's of whole orders from 0 on; of others NaN, as in JAX."""
    whole = (m >= 0) & (m == np.floor(m))
    return np.where(whole, scipy.special.polygamma(np.where(whole, m, 0).astype(int), x), np.nan)


for _name, _f in {
        "lgamma": _lgamma, "digamma": _digamma,
        "bessel_i0e": scipy.special.i0e, "bessel_i1e": scipy.special.i1e,
        "igamma": scipy.special.gammainc, "igammac": scipy.special.gammaincc,
        "regularized_incomplete_beta": scipy.special.betainc, "zeta": _zeta,
        "polygamma": _polygamma}.items():
    ORACLES[_name] = lambda params, *xs, f=_f: np.asarray(f(*[wide(x) for x in xs]))


def lower_gamma_slope(a: float, x: float) -> Any:
    """d/da of the regularized lower incomplete gamma function."""
    with mpmath.workdps(40):
        return mpmath.diff(lambda t: mpmath.gammainc(t, 0, x, regularized=True), mpmath.mpf(a))


def _elements(f: Any, *xs: Any) -> Any:
    xs = np.broadcast_arrays(*[wide(x) for x in xs])
    return np.array([float(f(*v)) for v in zip(*[x.ravel() for x in xs])]).reshape(xs[0].shape)


@oracle("igamma_grad_a")
def _grad_a(params: Any, a: Any, x: Any) -> Any:
    return _elements(lambda a, x: lower_gamma_slope(float(a), float(x)), a, x)


@oracle("random_gamma_grad")
def _sample_grad(params: Any, a: Any, x: Any) -> Any:
    def one(a: Any, x: Any) -> Any:
        a, x = float(a), float(x)
        with mpmath.workdps(40):
            density = mpmath.mpf(x) ** (a - 1) * mpmath.exp(-x) / mpmath.gamma(a)
            return -lower_gamma_slope(a, x) / density
    return _elements(one, a, x)


@oracle("mulhi")
def _mulhi(params: Any, x: Any, y: Any) -> Any:
    bits, dtype = 8 * x.dtype.itemsize, x.dtype
    x, y = np.broadcast_arrays(x, y)
    made = [(int(p) * int(q)) >> bits for p, q in zip(x.ravel(), y.ravel())]
    return np.array(made, dtype).reshape(x.shape)
