"""RegularGridInterpolator: values between the points of a rectangular grid."""
from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np

from calque.core.avals import HasAval, dtype_of, ndim_of, shape_of
from calque.core.errors import explain
from calque.numpy import util
from calque.numpy.creation import asarray
from calque.numpy.join import stack
from calque.numpy.logic import where
from calque.numpy.sorting import searchsorted

__all__ = ["RegularGridInterpolator"]


def __dir__() -> list[str]:
    return __all__


def _check_method(method: str) -> None:
    if method not in ("linear", "nearest"):
        raise ValueError(explain(f"method {method!r} is not defined",
                                 fix="use 'linear' or 'nearest'."))


class RegularGridInterpolator:
    """Interpolates values that are given on a rectangular grid.

    Args:
      points: for each axis of the grid its coordinates, an increasing array of shape (n_i,).
      values: array of shape (n_1, ..., n_k, ...).
      method: 'linear' or 'nearest' (of two equally near the lower).
      bounds_error: not supported.
      fill_value: the value outside of the grid; None to continue it.

    Raises:
      NotImplementedError: bounds_error is asked for.
      TypeError: values is no array.
      ValueError: method is another one, sizes differ, or fill_value does not fit values' dtype.

    Example:
      >>> import calque.numpy as jnp
      >>> from calque.scipy.interpolate import RegularGridInterpolator
      >>> f = RegularGridInterpolator((jnp.array([0, 1]),), jnp.array([2.0, 4.0]))
      >>> f(jnp.array([[0.25], [2.0]]))
      Array([2.5, nan], dtype=float32)
    """

    def __init__(self, points: Sequence[Any], values: Any, method: str = "linear",
                 bounds_error: bool = False, fill_value: Any = np.nan) -> None:
        _check_method(method)
        if bounds_error:
            raise NotImplementedError(explain("`bounds_error` takes no effect under JIT",
                                              fix="leave it out; outside is fill_value."))
        util.check_arrays("RegularGridInterpolator", values)
        (values,) = util.promote_inexact("RegularGridInterpolator", values)
        self.method, self.bounds_error, self.fill_value = method, bounds_error, fill_value
        self.values = util.array(values)
        shape = shape_of(values)
        if len(points) > len(shape):
            raise ValueError(explain(f"there are {len(points)} point arrays, but values has "
                                     f"{len(shape)} dimensions", fix="pass one for each axis."))
        kind = fill_value.dtype if isinstance(fill_value, HasAval) else np.asarray(fill_value).dtype
        if fill_value is not None and not np.can_cast(kind, dtype_of(values), "same_kind"):
            raise ValueError(explain("fill_value must be either 'None' or of a type compatible "
                                     "with values", fix="pass a number of values' dtype."))
        self.grid = tuple(asarray(p) for p in points)
        for i, (p, n) in enumerate(zip(self.grid, shape)):
            if ndim_of(p) != 1 or shape_of(p)[0] != n:
                raise ValueError(explain(
                    f"points[{i}] has shape {shape_of(p)}: a should be 1-dimensional, of "
                    f"{n} coordinates", fix="pass one coordinate for each value of the axis."))

    def __call__(self, xi: Any, method: str | None = None) -> Any:
        """The values at points.

        Args:
          xi: array of shape (..., k), or a tuple of k arrays.
          method: instead of the interpolator's.

        Returns:
          An array of shape (..., the rest of values' shape).

        Raises:
          ValueError: method is another one, or points have not k coordinates.
        """
        method = self.method if method is None else method
        _check_method(method)
        k = len(self.grid)
        if isinstance(xi, tuple):
            xi = stack(util.broadcast_all("RegularGridInterpolator", *util.promote_inexact(
                "RegularGridInterpolator", *xi)), axis=-1)
        util.check_arrays("RegularGridInterpolator", xi)
        xi = util.inexact_arrays("RegularGridInterpolator", xi)[0]
        if ndim_of(xi) == 1:
            xi = xi[:, None] if k == 1 else xi[None]
        if shape_of(xi)[-1] != k:
            raise ValueError(explain(
                f"the requested sample points xi have dimension {shape_of(xi)[-1]}, but this "
                f"RegularGridInterpolator has dimension {k}", fix=f"pass shape (..., {k})."))
        with util.lazy_eval("RegularGridInterpolator"):
            return self._values_at([xi[..., i] for i in range(k)], method)

    def _values_at(self, places: list[Any], method: str) -> Any:
        shape = shape_of(places[0])
        tail = (1,) * (ndim_of(self.values) - len(places))
        sides, outside, unknown = [], places[0] != places[0], places[0] != places[0]
        for x, p in zip(places, self.grid):
            n = shape_of(p)[0]
            x, p = util.promote_inexact("RegularGridInterpolator", x, p)
            outside, unknown = outside | (x < p[0]) | (x > p[-1]), unknown | (x != x)
            if n == 1:
                lower, part = searchsorted(p, x) * 0, x * 0
                sides.append([(lower, 1 - part)])
                continue
            lower = (searchsorted(p, x) - 1).clip(0, n - 2)
            part = (x - p[lower]) / (p[lower + 1] - p[lower])
            if method == "nearest":
                sides.append([(where(part <= 0.5, lower, lower + 1), None)])
            else:
                sides.append([(lower, 1 - part), (lower + 1, part)])
        total: Any = None
        for corner in itertools.product(*sides):
            found = self.values[tuple(i for i, _ in corner)]
            for _, w in corner:
                found = found if w is None else found * w.reshape(*shape, *tail)
            total = found if total is None else total + found
        total = util.cast(total, dtype_of(self.values))
        if self.fill_value is not None:
            total = where(outside.reshape(*shape, *tail), self.fill_value, total)
        return where(unknown.reshape(*shape, *tail), np.nan, total)
