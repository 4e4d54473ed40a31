"""The distributions of vectors: dirichlet, multinomial, multivariate_normal."""
from __future__ import annotations

import math
from types import ModuleType
from typing import Any

import numpy as np

from calque.core.errors import explain
from calque.core.types import Function
from calque.numpy import linalg as nl
from calque.numpy import reductions as rd
from calque.numpy import util
from calque.numpy.arithmetic import absolute
from calque.numpy.cumulative import cumsum
from calque.numpy.join import concatenate
from calque.numpy.logic import where
from calque.primitives import elementwise as ew
from calque.scipy.linalg import solve_triangular
from calque.scipy.special import betaln, gammaln, xlogy
from calque.scipy.stats.table import module, promoted

_LOG_2PI = math.log(2 * math.pi)


def _distribution(name: str, what: str, **functions: Function) -> ModuleType:
    """The module of a distribution, its functions under their public names and with plans."""
    for public, f in functions.items():
        f.__module__, f.__name__, f.__qualname__ = f"calque.scipy.stats.{name}", public, public
    return module(name, what, {public: util.planned(f) for public, f in functions.items()})


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
    """Log of the density: the Dirichlet distribution of chances that add up to 1.

    Args:
      x: array of shape (k, ...) or (k - 1, ...); a last row left out is what is missing.
      alpha: array of shape (k,), concentrations.

    Returns:
      An array of the batch's shape, of inexact dtype.

    Raises:
      TypeError: an argument is missing, or not an array or a number.
      ValueError: shapes do not fit.

    Example:
      >>> import calque.numpy as jnp
      >>> from calque.scipy.stats import dirichlet
      >>> dirichlet.logpdf(jnp.array([0.25, 0.75]), jnp.array([2.0, 1.0])).shape
      ()
    """
    return _log_dirichlet("dirichlet.logpdf", x, alpha)


def _dirichlet_pdf(x: Any, alpha: Any) -> Any:
    """Density: the Dirichlet distribution of chances that add up to 1.

    Args:
      x: array of shape (k, ...) or (k - 1, ...); a last row left out is what is missing.
      alpha: array of shape (k,), concentrations.

    Returns:
      An array of the batch's shape, of inexact dtype.

    Raises:
      TypeError: an argument is missing, or not an array or a number.
      ValueError: shapes do not fit.

    Example:
      >>> import calque.numpy as jnp
      >>> from calque.scipy.stats import dirichlet
      >>> dirichlet.pdf(jnp.array([0.25, 0.75]), jnp.array([2.0, 1.0])).shape
      ()
    """
    return ew.exp(_log_dirichlet("dirichlet.pdf", x, alpha))


# ---- multinomial
def _log_multinomial(name: str, x: Any, n: Any, p: Any) -> Any:
    x, n, p = promoted(name, x, n, p)
    so_far = cumsum(x, axis=-1)  # n! / prod x! as a product of binomials, which does not cancel
    choices = -ew.log1p(so_far) - betaln(so_far - x + 1, x + 1)
    value = rd.sum(xlogy(x, p) + choices, axis=-1)
    return where(rd.sum(x) == n, value, -np.inf)


def _multinomial_logpmf(x: Any, n: Any, p: Any) -> Any:
    """Log of the density: the multinomial distribution of counts in n trials.

    Args:
      x: array of shape (k,), counts.
      n: number of trials.
      p: array of shape (k,), chances.

    Returns:
      An array of the batch's shape, of inexact dtype.

    Raises:
      TypeError: an argument is missing, or not an array or a number.
      ValueError: shapes do not fit.

    Example:
      >>> import calque.numpy as jnp
      >>> from calque.scipy.stats import multinomial
      >>> multinomial.logpmf(jnp.array([1, 2]), 3, jnp.array([0.25, 0.75])).shape
      ()
    """
    return _log_multinomial("multinomial.logpmf", x, n, p)


def _multinomial_pmf(x: Any, n: Any, p: Any) -> Any:
    """Density: the multinomial distribution of counts in n trials.

    Args:
      x: array of shape (k,), counts.
      n: number of trials.
      p: array of shape (k,), chances.

    Returns:
      An array of the batch's shape, of inexact dtype.

    Raises:
      TypeError: an argument is missing, or not an array or a number.
      ValueError: shapes do not fit.

    Example:
      >>> import calque.numpy as jnp
      >>> from calque.scipy.stats import multinomial
      >>> multinomial.pmf(jnp.array([1, 2]), 3, jnp.array([0.25, 0.75])).shape
      ()
    """
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
    y = solve_triangular(util.broadcast_to(factor, (*lead, n, n)),
                         util.broadcast_to(away, (*lead, n))[..., None], lower=True)[..., 0]
    logs = rd.sum(ew.log(factor.diagonal(0, -2, -1)), axis=-1)
    return -rd.sum(y * y, axis=-1) / 2 - n / 2 * _LOG_2PI - logs


def _normal_logpdf(x: Any, mean: Any, cov: Any, allow_singular: None = None) -> Any:
    """Log of the density: the normal distribution of vectors.

    Args:
      x: array of shape (..., n).
      mean: array of shape (..., n), or a scalar.
      cov: covariance of shape (..., n, n), positive definite, or a scalar variance.

    Returns:
      An array of the batch's shape, of inexact dtype.

    Raises:
      TypeError: an argument is missing, or not an array or a number.
      ValueError: shapes do not fit.
      NotImplementedError: allow_singular is given.

    Example:
      >>> import calque.numpy as jnp
      >>> from calque.scipy.stats import multivariate_normal
      >>> multivariate_normal.logpdf(jnp.zeros(2), jnp.zeros(2), jnp.eye(2)).shape
      ()
    """
    if allow_singular is not None:
        raise NotImplementedError(explain(
            "allow_singular argument of multivariate_normal.logpdf",
            fix="leave it out; cov must be positive definite."))
    return _log_normal("multivariate_normal.logpdf", x, mean, cov)


def _normal_pdf(x: Any, mean: Any, cov: Any) -> Any:
    """Density: the normal distribution of vectors.

    Args:
      x: array of shape (..., n).
      mean: array of shape (..., n), or a scalar.
      cov: covariance of shape (..., n, n), positive definite, or a scalar variance.

    Returns:
      An array of the batch's shape, of inexact dtype.

    Raises:
      TypeError: an argument is missing, or not an array or a number.
      ValueError: shapes do not fit.

    Example:
      >>> import calque.numpy as jnp
      >>> from calque.scipy.stats import multivariate_normal
      >>> multivariate_normal.pdf(jnp.zeros(2), jnp.zeros(2), jnp.eye(2)).shape
      ()
    """
    return ew.exp(_log_normal("multivariate_normal.pdf", x, mean, cov))


dirichlet = _distribution("dirichlet", "Dirichlet distribution", logpdf=_dirichlet_logpdf,
                          pdf=_dirichlet_pdf)
multinomial = _distribution("multinomial", "multinomial distribution",
                            logpmf=_multinomial_logpmf, pmf=_multinomial_pmf)
multivariate_normal = _distribution("multivariate_normal", "multivariate normal distribution",
                                    logpdf=_normal_logpdf, pdf=_normal_pdf)
