"""The distributions of vectors: dirichlet, multinomial, multivariate_normal."""
from __future__ import annotations

import math
from typing import Any

import numpy as np

from calque.core.errors import explain
from calque.core.types import Function
from calque.numpy import linalg as nl
from calque.numpy import reductions as rd
from calque.numpy import util
from calque.numpy.arithmetic import absolute
from calque.numpy.join import concatenate
from calque.numpy.logic import where
from calque.primitives import elementwise as ew
from calque.scipy.linalg import solve_triangular
from calque.scipy.special import gammaln, xlogy
from calque.scipy.stats.table import module, promoted

_LOG_2PI = math.log(2 * math.pi)
_DOC = """{says}: {what}.

    Args:
{args}
    Returns:
      An array of the batch's shape, of inexact dtype.

    Raises:
      TypeError: an argument is missing, or not an array or a number.
      ValueError: shapes do not fit.
{more}
    Example:
      >>> import calque.numpy as jnp
      >>> from calque.scipy.stats import {name}
      >>> {name}.{function}({given}).shape
      ()
    """


def _described(name: str, what: str, args: str, given: str, log: Function, plain: Function,
               more: str = "") -> dict[str, Function]:
    """Both functions of a distribution, with docstrings and plans."""
    made = {}
    for f, says in ((log, "Log of the density"), (plain, "Density")):
        f.__module__, f.__qualname__ = f"calque.scipy.stats.{name}", f.__name__
        f.__doc__ = _DOC.format(says=says, what=what, args=args, name=name, function=f.__name__,
                                given=given, more=more if f is log else "")
        made[f.__name__] = util.planned(f)
    return made


def _first_axis(v: Any, ndim: int) -> Any:
    """A vector along the first of ndim axes."""
    return v.reshape(v.shape[0], *[1] * (ndim - 1))


# ---- dirichlet
def _log_dirichlet(name: str, x: Any, alpha: Any) -> Any:
    x, alpha = promoted(name, x, alpha)
    if alpha.ndim != 1:
        raise ValueError(explain(f"`alpha` must be one-dimensional; got alpha.shape={alpha.shape}",
                                 fix="pass one concentration for each category."))
    size = alpha.shape[0]
    if not x.ndim or x.shape[0] not in (size, size - 1):
        raise ValueError(explain(
            "`x` must have either the same number of entries as `alpha` or one entry fewer; got "
            f"x.shape={x.shape}, alpha.shape={alpha.shape}", fix="put categories on axis 0."))
    if x.shape[0] == size - 1:
        x = concatenate([x, 1 - rd.sum(x, axis=0, keepdims=True)])
    inside = rd.all(x >= 0, axis=0) & (absolute(rd.sum(x, axis=0) - 1) < 1e-6)
    constant = gammaln(rd.sum(alpha)) - rd.sum(gammaln(alpha))
    value = constant + rd.sum(xlogy(_first_axis(alpha, x.ndim) - 1, x), axis=0)
    return where(inside, value, -np.inf)


def _dirichlet_logpdf(x: Any, alpha: Any) -> Any:
    return _log_dirichlet("dirichlet.logpdf", x, alpha)


def _dirichlet_pdf(x: Any, alpha: Any) -> Any:
    return ew.exp(_log_dirichlet("dirichlet.pdf", x, alpha))


# ---- multinomial
def _log_multinomial(name: str, x: Any, n: Any, p: Any) -> Any:
    x, n, p = promoted(name, x, n, p)
    value = gammaln(n + 1) + rd.sum(xlogy(x, p) - gammaln(x + 1), axis=-1)
    return where(rd.sum(x) == n, value, -np.inf)


def _multinomial_logpmf(x: Any, n: Any, p: Any) -> Any:
    return _log_multinomial("multinomial.logpmf", x, n, p)


def _multinomial_pmf(x: Any, n: Any, p: Any) -> Any:
    return ew.exp(_log_multinomial("multinomial.pmf", x, n, p))


# ---- multivariate_normal
def _log_normal(name: str, x: Any, mean: Any, cov: Any) -> Any:
    x, mean, cov = promoted(name, x, mean, cov)
    if not mean.ndim:
        return -((x - mean) ** 2) / cov / 2 - (_LOG_2PI + ew.log(cov)) / 2
    n = mean.shape[-1]
    if not cov.ndim:
        square = rd.sum((x - mean) ** 2 / cov, axis=-1)
        return -square / 2 - n / 2 * (_LOG_2PI + ew.log(cov))
    if cov.ndim < 2 or cov.shape[-2:] != (n, n):
        raise ValueError(explain(
            f"{name} got incompatible shapes: mean {mean.shape}, cov {cov.shape}.",
            fix="pass mean of shape (..., n) and cov of shape (..., n, n)."))
    factor = nl.cholesky(cov)
    away = x - mean
    lead = util.common_shape(name, [away.shape[:-1], cov.shape[:-2]])
    y = solve_triangular(util.spread(factor, (*lead, n, n)),
                         util.spread(away, (*lead, n))[..., None], lower=True)[..., 0]
    logs = rd.sum(ew.log(factor.diagonal(0, -2, -1)), axis=-1)
    return -rd.sum(y * y, axis=-1) / 2 - n / 2 * _LOG_2PI - logs


def _normal_logpdf(x: Any, mean: Any, cov: Any, allow_singular: None = None) -> Any:
    if allow_singular is not None:
        raise NotImplementedError(explain(
            "allow_singular argument of multivariate_normal.logpdf",
            fix="leave it out; cov must be positive definite."))
    return _log_normal("multivariate_normal.logpdf", x, mean, cov)


def _normal_pdf(x: Any, mean: Any, cov: Any) -> Any:
    return ew.exp(_log_normal("multivariate_normal.pdf", x, mean, cov))


def _named(f: Any, name: str) -> Function:
    f.__name__ = name
    return f


dirichlet = module("dirichlet", "Dirichlet distribution", _described(
    "dirichlet", "the Dirichlet distribution of chances that add up to 1",
    "      x: array of shape (k, ...) or (k - 1, ...); a last row left out is what is missing.\n"
    "      alpha: array of shape (k,), concentrations.\n",
    "jnp.array([0.25, 0.75]), jnp.array([2.0, 1.0])",
    _named(_dirichlet_logpdf, "logpdf"), _named(_dirichlet_pdf, "pdf")))

multinomial = module("multinomial", "multinomial distribution", _described(
    "multinomial", "the multinomial distribution of counts in n trials",
    "      x: array of shape (k,), counts.\n      n: number of trials.\n"
    "      p: array of shape (k,), chances.\n",
    "jnp.array([1, 2]), 3, jnp.array([0.25, 0.75])",
    _named(_multinomial_logpmf, "logpmf"), _named(_multinomial_pmf, "pmf")))

multivariate_normal = module("multivariate_normal", "multivariate normal distribution", _described(
    "multivariate_normal", "the normal distribution of vectors",
    "      x: array of shape (..., n).\n      mean: array of shape (..., n), or a scalar.\n"
    "      cov: covariance of shape (..., n, n), positive definite, or a scalar variance.\n",
    "jnp.zeros(2), jnp.zeros(2), jnp.eye(2)",
    _named(_normal_logpdf, "logpdf"), _named(_normal_pdf, "pdf"),
    "      NotImplementedError: allow_singular is given.\n"))
