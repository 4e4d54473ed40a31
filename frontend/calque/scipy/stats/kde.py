"""gaussian_kde: a density estimated by a normal distribution around each point of a data set."""
from __future__ import annotations

import math
from typing import Any

from calque import lax, random
from calque.core.avals import shape_of
from calque.core.errors import explain
from calque.nn.normalize import logsumexp
from calque.numpy import linalg as nl
from calque.numpy import reductions as rd
from calque.numpy import util
from calque.numpy.contract import dot
from calque.numpy.creation import ones
from calque.numpy.products import cov as covariance_of
from calque.primitives import elementwise as ew
from calque.scipy.linalg import solve_triangular
from calque.scipy.special import ndtr
from calque.trees.util import register_pytree_node_class

__all__ = ["gaussian_kde"]


@register_pytree_node_class
class gaussian_kde:
    """Kernel density estimate with normal kernels; a tree of its arrays.

    Args:
      dataset: array of shape (n,) or (d, n): n points of d numbers.
      bw_method: bandwidth: 'scott' (default), 'silverman', a scalar, or a function of the estimate.
      weights: array of shape (n,); equal by default.

    Raises:
      NotImplementedError: dataset is complex.
      TypeError: dataset is not an array.
      ValueError: dataset has one element, or bw_method or weights do not fit.

    Example:
      >>> import calque.numpy as jnp
      >>> from calque.scipy import stats
      >>> kde = stats.gaussian_kde(jnp.array([1.0, 2.0, 4.0]))
      >>> kde.evaluate(jnp.array([2.0])).round(4)
      Array([0.2149], dtype=float32)
    """

    neff: Any
    dataset: Any
    weights: Any
    covariance: Any
    inv_cov: Any

    def __init__(self, dataset: Any, bw_method: Any = None, weights: Any = None) -> None:
        util.check_arrays("gaussian_kde", dataset)
        (dataset,) = util.inexact_arrays("gaussian_kde", dataset)
        if dataset.dtype.kind == "c":
            raise NotImplementedError(explain("gaussian_kde does not support complex data",
                                              fix="estimate real and imaginary parts as 2 rows."))
        if dataset.ndim < 2:
            dataset = dataset.reshape(1, -1)
        if dataset.ndim != 2:
            raise ValueError(explain(f"`dataset` must have shape (d, n), got {dataset.shape}."))
        if dataset.size <= 1:
            raise ValueError(explain("`dataset` input should have multiple elements.",
                                     fix="pass an array of shape (n,) or (d, n)."))
        d, n = dataset.shape
        if weights is None:
            weights = ones(n, dataset.dtype) / n
        else:
            dataset, weights = util.inexact_arrays("gaussian_kde", dataset, weights)
            if weights.ndim != 1:
                raise ValueError(explain("`weights` input should be one-dimensional."))
            if weights.shape[0] != n:
                raise ValueError(explain("`weights` input should be of length n",
                                         fix=f"pass {n} weights."))
            weights = weights / rd.sum(weights)
        self.dataset, self.weights = dataset, weights
        self.neff = 1 / rd.sum(weights * weights)
        factor = self._factor(bw_method)
        around = covariance_of(dataset, rowvar=True, bias=False, aweights=weights).reshape(d, d)
        self.covariance = around * factor * factor
        self.inv_cov = nl.inv(around) / (factor * factor)

    def _factor(self, method: Any) -> Any:
        d = self.d
        if method is None or isinstance(method, str) and method == "scott":
            return self.neff ** (-1.0 / (d + 4))
        if isinstance(method, str) and method == "silverman":
            return (self.neff * (d + 2) / 4.0) ** (-1.0 / (d + 4))
        if util.is_arraylike(method) and not shape_of(method):
            return method
        if callable(method):
            return method(self)
        raise ValueError(explain("`bw_method` should be 'scott', 'silverman', a scalar, or a "
                                 "callable.", fix="leave it out for Scott's rule."))

    @property
    def d(self) -> int:
        """How many numbers a point has."""
        return int(self.dataset.shape[0])

    @property
    def n(self) -> int:
        """How many points there are."""
        return int(self.dataset.shape[1])

    # ---- as a tree
    def tree_flatten(self) -> tuple[tuple[Any, ...], None]:
        """The arrays, and nothing else."""
        return (self.neff, self.dataset, self.weights, self.covariance, self.inv_cov), None

    @classmethod
    def tree_unflatten(cls, aux_data: None, children: Any) -> gaussian_kde:
        """The estimate of given arrays."""
        del aux_data
        made = object.__new__(cls)
        made.neff, made.dataset, made.weights, made.covariance, made.inv_cov = children
        return made

    def __repr__(self) -> str:
        return (f"gaussian_kde(neff={self.neff!r}, dataset={self.dataset!r}, "
                f"weights={self.weights!r}, covariance={self.covariance!r}, "
                f"inv_cov={self.inv_cov!r})")

    # ---- densities
    def _points(self, points: Any) -> Any:
        """As an array of shape (d, m)."""
        util.check_arrays("gaussian_kde", points)
        points = util.array(util.promote_inexact("gaussian_kde", points, self.dataset)[0])
        if points.ndim < 2:
            points = points.reshape(self.d, 1) if points.shape == (self.d,) and self.d > 1 else (
                points.reshape(1, -1))
        if points.shape[0] != self.d:
            raise ValueError(explain(
                f"points have dimension {points.shape[0]}, dataset has dimension {self.d}",
                fix=f"pass an array of shape ({self.d}, m)."))
        return points

    def logpdf(self, x: Any) -> Any:
        """Log of the density at points of shape (d, m), or (m,) for d = 1."""
        points = self._points(x)
        white = nl.cholesky(self.inv_cov).T
        near, far = dot(white, self.dataset, precision="highest"), dot(
            white, points, precision="highest")
        square = rd.sum((near[:, :, None] - far[:, None, :]) ** 2, axis=0)
        log = rd.sum(ew.log(white.diagonal())) - self.d / 2 * math.log(2 * math.pi)
        return logsumexp(log - square / 2, axis=0, b=self.weights[:, None])

    def evaluate(self, points: Any) -> Any:
        """Density at points of shape (d, m), or (m,) for d = 1."""
        return ew.exp(self.logpdf(points))

    __call__ = evaluate

    def pdf(self, x: Any) -> Any:
        """Density at points of shape (d, m), or (m,) for d = 1."""
        return self.evaluate(x)

    # ---- integrals
    def _against(self, points: Any, cov: Any) -> Any:
        """The normal density of covariance self.covariance + cov, around 0, at (d, m) points."""
        chol = nl.cholesky(self.covariance + cov)
        y = solve_triangular(chol, points, lower=True)
        log = rd.sum(ew.log(chol.diagonal())) + self.d / 2 * math.log(2 * math.pi)
        return ew.exp(-rd.sum(y * y, axis=0) / 2 - log)

    def integrate_gaussian(self, mean: Any, cov: Any) -> Any:
        """The integral of the estimate times a normal density."""
        mean, cov = util.inexact_arrays("gaussian_kde", mean, cov)
        mean = mean.reshape(-1) if mean.ndim < 1 else mean
        cov = cov.reshape(1, 1) if cov.ndim < 2 and cov.size == 1 else cov
        if mean.shape != (self.d,):
            raise ValueError(explain(f"mean does not have dimension {self.d}"))
        if cov.shape != (self.d, self.d):
            raise ValueError(explain(f"covariance does not have dimension {self.d}"))
        return rd.sum(self._against(self.dataset - mean[:, None], cov) * self.weights)

    def integrate_box_1d(self, low: Any, high: Any) -> Any:
        """The probability of values from low to high, for d = 1."""
        if self.d != 1:
            raise ValueError(explain("integrate_box_1d() only handles 1D pdfs"))
        low, high = util.promote_inexact("gaussian_kde", low, high)
        if shape_of(low) or shape_of(high):
            raise ValueError(explain("the limits of integration in integrate_box_1d must be "
                                     "scalars", fix="use calque.vmap for many of them."))
        sigma = ew.sqrt(self.covariance[0, 0])
        return rd.sum(self.weights * (ndtr((high - self.dataset[0]) / sigma)
                                      - ndtr((low - self.dataset[0]) / sigma)))

    def integrate_kde(self, other: gaussian_kde) -> Any:
        """The integral of the product of two estimates."""
        if other.d != self.d:
            raise ValueError(explain("KDEs are not the same dimensionality"))
        away = self.dataset[:, :, None] - other.dataset[:, None, :]
        values = self._against(away.reshape(self.d, -1), other.covariance)
        return dot(self.weights, dot(
            values.reshape(self.n, other.n), other.weights, precision="highest"),
                   precision="highest")

    def integrate_box(self, low_bounds: Any, high_bounds: Any, maxpts: Any = None) -> Any:
        """Not supported, as in JAX: NotImplementedError."""
        raise NotImplementedError(explain(
            "only 1D box integrations are supported; use `integrate_box_1d`"))

    def set_bandwidth(self, bw_method: Any = None) -> None:
        """Not supported, as in JAX: NotImplementedError."""
        raise NotImplementedError(explain(
            "dynamically changing the bandwidth method is not supported",
            fix="make another gaussian_kde."))

    def resample(self, key: Any, shape: Any = ()) -> Any:
        """Points drawn from the estimate: an array of shape (d, *shape)."""
        which, around = random.split(key)
        index = random.choice(which, self.n, shape=shape, p=self.weights)
        eps = random.multivariate_normal(around, lax.full((self.d,), 0, self.covariance.dtype),
                                         self.covariance, shape=shape, dtype=self.dataset.dtype)
        axes = (eps.ndim - 1, *range(eps.ndim - 1))
        return self.dataset[:, index] + eps.transpose(axes)
