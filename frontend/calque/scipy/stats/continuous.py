"""The continuous distributions: a row each of functions of the standard variable z.

Where a tail would lose its digits in 1 - cdf, the row gives both.  Start reading at `norm`.
"""
from __future__ import annotations

import math
from typing import Any

from calque.lax import stop_gradient
from calque.numpy.arithmetic import absolute
from calque.numpy.logic import where
from calque.primitives import elementwise as ew
from calque.scipy.describe import as_default
from calque.scipy.deviance import log_gamma_density
from calque.scipy.incomplete_beta import log_part
from calque.scipy.log_beta import LARGE
from calque.scipy.special import (
    betainc,
    betaln,
    gammainc,
    gammaincc,
    gammaln,
    i0e,
    log_ndtr,
    logit,
    ndtr,
    ndtri,
    xlog1py,
    xlogy,
)
from calque.scipy.stats.exponents import (
    expm1,
    gumbel_density,
    gumbel_part,
    gumbel_rest,
    log1p_square,
    log_gumbel,
    log_gumbel_rest,
    log_logistic,
)
from calque.scipy.stats.gamma_tails import log_lower, log_upper
from calque.scipy.stats.table import distribution
from calque.scipy.stats.truncated import log_below, log_density

_log, _log1p, _exp = (p.bind for p in (ew.log_p, ew.log1p_p, ew.exp_p))
_HALF_LOG_2PI = 0.5 * math.log(2 * math.pi)
_ALL = "cdf logcdf logpdf logsf pdf sf"


def _positive(*shapes: Any) -> tuple[float, None]:
    return 0.0, None


def _log_normal(z: Any, *_: Any) -> Any:
    return -(z * z) / 2 - _HALF_LOG_2PI


norm = distribution("norm", "normal distribution of mean loc and deviation scale", "",
                    _ALL + " isf ppf", {
    "logpdf": _log_normal, "cdf": ndtr, "sf": lambda z: ndtr(-z), "logcdf": log_ndtr,
    "logsf": lambda z: log_ndtr(-z),
    "ppf": lambda q: ndtri(as_default(q)), "isf": lambda q: -ndtri(as_default(q))})


def _cotangent(q: Any) -> Any:
    """cot(pi q) of 0 <= q <= 1: about 1/2 by the tangent, of what is exact."""
    above = q > 0.5
    side = where(above, 1 - q, absolute(q))  # (of -0 the size)
    near = side < 0.25
    found = where(near, 1 / ew.tan(math.pi * where(near, side, 0.25)),
                  ew.tan(math.pi * (0.5 - where(near, 0.5, side))))
    return where(above, -found, found)


cauchy = distribution("cauchy", "Cauchy distribution, 1 / (pi (1 + z**2))", "", _ALL + " isf ppf", {
    "logpdf": lambda z: -math.log(math.pi) - log1p_square(z, _with_one(z)[0]),
    "cdf": lambda z: ew.atan2(*_with_one(-z)) / math.pi,
    "sf": lambda z: ew.atan2(*_with_one(z)) / math.pi,
    "ppf": lambda q: -_cotangent(q), "isf": lambda q: _cotangent(q)})


def _with_one(z: Any) -> tuple[Any, Any]:
    return where(ew.eq(z, z), 1, z), z


expon = distribution("expon", "exponential distribution, e**-z for z >= 0", "", _ALL + " ppf", {
    "logpdf": lambda z: -z, "cdf": lambda z: -expm1(-z), "sf": lambda z: _exp(-z),
    "logsf": lambda z: -z, "ppf": lambda q: -_log1p(-q)}, _positive)

laplace = distribution("laplace", "Laplace distribution, e**-|z| / 2", "", "cdf logpdf pdf", {
    "logpdf": lambda z: -absolute(z) - math.log(2),
    "cdf": lambda z: where(z < 0, _exp(-absolute(z)) / 2, 1 - _exp(-absolute(z)) / 2)})

logistic = distribution("logistic", "logistic distribution", "", "cdf isf logpdf pdf ppf sf", {
    "logpdf": log_logistic, "cdf": ew.logistic, "sf": lambda z: ew.logistic(-z), "ppf": logit,
    "isf": lambda q: -logit(q)}, q="x")

gumbel_r = distribution("gumbel_r", "Gumbel distribution of largest values", "", _ALL + " ppf", {
    "logpdf": lambda z: log_gumbel(-z), "pdf": lambda z: gumbel_density(-z),
    "logcdf": lambda z: -_exp(-z), "cdf": lambda z: gumbel_part(-z),
    "sf": lambda z: gumbel_rest(-z), "logsf": lambda z: log_gumbel_rest(-z),
    "ppf": lambda q: -_log(-_log(q))}, q="p")

gumbel_l = distribution("gumbel_l", "Gumbel distribution of least values", "", _ALL + " ppf", {
    "logpdf": log_gumbel, "pdf": gumbel_density, "logsf": lambda z: -_exp(z),
    "sf": gumbel_part, "cdf": gumbel_rest, "logcdf": log_gumbel_rest,
    "ppf": lambda q: _log(-_log1p(-q))}, q="p")

uniform = distribution("uniform", "uniform distribution from loc to loc + scale", "",
                       "cdf logpdf pdf ppf", {
    "logpdf": lambda z: 0 * z, "cdf": lambda z: z, "ppf": lambda q: q}, lambda: (0.0, 1.0))

pareto = distribution("pareto", "Pareto distribution, b z**-(b + 1) for z >= 1", "b",
                      _ALL + " ppf", {
    "logpdf": lambda z, b: _log(b) - (b + 1) * _log(z), "logsf": lambda z, b: -b * _log(z),
    "sf": lambda z, b: _exp(-b * _log(z)), "cdf": lambda z, b: -expm1(-b * _log(z)),
    "ppf": lambda q, b: _exp(-_log1p(-q) / b)}, lambda b: (1.0, None), (2.0,))


def _log_gamma(z: Any, a: Any) -> Any:
    """Near z = a the terms cancel where they are large; -inf where one of them is infinite."""
    endless = (a >= math.inf) | (z >= math.inf)
    large = (a >= LARGE) & (z > 0) & ~endless
    near = log_gamma_density(where(large, a, LARGE), where(large, z, LARGE)) - _log(
        where(large, z, 1.0))
    a, z = where(large | endless, 1.0, a), where(large, 1.0, z)
    return where(endless, -math.inf, where(large, near, xlogy(a - 1, z) - z - gammaln(a)))


gamma = distribution("gamma", "gamma distribution of shape a", "a", _ALL, {
    "logpdf": _log_gamma,
    "cdf": lambda z, a: gammainc(a, z), "sf": lambda z, a: gammaincc(a, z),
    "logcdf": lambda z, a: log_lower(a, z), "logsf": lambda z, a: log_upper(a, z)},
    _positive, (2.0,), valid=lambda a: a > 0)

chi2 = distribution("chi2", "chi-squared distribution of df degrees of freedom", "df", _ALL, {
    "logpdf": lambda z, df: _log_gamma(z / 2, df / 2) - math.log(2),
    "cdf": lambda z, df: gammainc(df / 2, z / 2), "sf": lambda z, df: gammaincc(df / 2, z / 2),
    "logcdf": lambda z, df: log_lower(df / 2, z / 2),
    "logsf": lambda z, df: log_upper(df / 2, z / 2)},
    _positive, (3.0,), valid=lambda df: df > 0)


def _beta_above(z: Any, a: Any, b: Any) -> Any:
    """I_(1 - z)(b, a); of small z, which 1 - z forgets, 1 - I_z(a, b)."""
    below = betainc(a, b, z)
    small = (z < 0.1) & (below < 0.99)
    return where(small, 1 - below, betainc(b, a, 1 - where(small, 0.5, z)))


beta = distribution("beta", "beta distribution of shapes a and b, on 0 to 1", "a b", _ALL, {
    "logpdf": lambda z, a, b: xlogy(a - 1, z) + xlog1py(b - 1, -z) - betaln(a, b),
    "cdf": lambda z, a, b: betainc(a, b, z), "sf": _beta_above,
    "logcdf": lambda z, a, b: log_part(betainc(a, b, z), _beta_above(z, a, b), a, b, z),
    "logsf": lambda z, a, b: log_part(_beta_above(z, a, b), betainc(a, b, z), b, a, 1 - z)},
    lambda a, b: (0.0, 1.0), (2.0, 3.0), valid=lambda a, b: (a > 0) & (b > 0))


def _log_student(z: Any, df: Any) -> Any:
    """That of the normal distribution where df is infinite."""
    endless = df >= math.inf
    df = where(endless, 1.0, df)
    found = -betaln(0.5, df / 2) - _log(df) / 2 - (df + 1) / 2 * log1p_square(z, df)
    return where(endless, _log_normal(z), found)


t = distribution("t", "Student's t distribution of df degrees of freedom", "df", "logpdf pdf", {
    "logpdf": _log_student}, example=(3.0,))


def _power(x: Any, beta: Any) -> Any:
    return absolute(x) ** beta


def _log_generalized(x: Any, beta: Any) -> Any:
    return _log(beta / 2) - gammaln(1 / beta) - _power(x, beta)


def _generalized(x: Any, beta: Any) -> Any:
    hidden = _power(stop_gradient(x), stop_gradient(beta)) > 1e4  # 0, and so are its slopes
    value = _exp(_log_generalized(where(hidden, 1.0, x), beta))
    return where(hidden, 0.0, value)


def _generalized_below(x: Any, beta: Any) -> Any:
    hidden = _power(stop_gradient(x), stop_gradient(beta)) > 1e4
    size = _power(where(hidden, 1.0, x), beta)
    tail, part = gammaincc(1 / beta, size) / 2, gammainc(1 / beta, size) / 2
    return where(hidden, where(x < 0, 0.0, 1.0), where(x < 0, tail, 0.5 + part))


gennorm = distribution("gennorm", "generalized normal distribution, e**-|x|**beta", "beta",
                       "cdf logpdf pdf", {
    "logpdf": _log_generalized, "pdf": _generalized,
    "cdf": _generalized_below},
    example=(1.5,), scaled=False)


def _half_sine(x: Any) -> Any:
    """sin(x / 2)^2, which is (1 - cos x) / 2."""
    sine = ew.sin(0.5 * x)
    return sine * sine


vonmises = distribution("vonmises", "von Mises distribution of an angle x in radians", "kappa",
                        "logpdf pdf", {
    "logpdf": lambda x, kappa: -2 * kappa * _half_sine(x) - _log(2 * math.pi * i0e(kappa))},
    example=(2.0,), scaled=False, valid=lambda kappa: kappa >= 0)

wrapcauchy = distribution("wrapcauchy", "wrapped Cauchy distribution of an angle x of 0 to 2 pi",
                          "c", "logpdf pdf", {
    "logpdf": lambda x, c: _log((1 - c) / (2 * math.pi)) + _log1p(c) - _log(
        (1 - c) * (1 - c) + 4 * c * _half_sine(x))},
    lambda c: (0.0, 2 * math.pi), (0.5,), scaled=False, valid=lambda c: (c > 0) & (c < 1))


truncnorm = distribution("truncnorm", "normal distribution between loc + scale a and loc + scale b",
                         "a b", _ALL, {
    "logpdf": log_density, "logcdf": log_below, "cdf": lambda z, a, b: _exp(log_below(z, a, b)),
    "logsf": lambda z, a, b: log_below(-z, -b, -a),
    "sf": lambda z, a, b: _exp(log_below(-z, -b, -a))},
    lambda a, b: (a, b), (-1.0, 2.0), valid=lambda a, b: a < b)
