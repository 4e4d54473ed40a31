"""Means and variances: mean, average, var, std.  Half precision is computed in float32.
Start reading at `_mean` and `_var`.
"""
from __future__ import annotations

import math
from typing import Any

import numpy as np

from calque.core import dims, dtypes
from calque.core.avals import dtype_of, ndim_of, shape_of
from calque.core.errors import explain
from calque.core.types import Axes, Shape
from calque.numpy import util
from calque.numpy.arithmetic import as_truth, choose
from calque.numpy.reductions import HALF, sum
from calque.primitives import elementwise as ew
from calque.primitives import shape as sh


def _count(name: str, shape: Shape, axes: Axes, where: Any, dtype: Any,
           keepdims: bool) -> Any:
    """How many elements each result is made of: a scalar, or an array when there is a mask."""
    if where is None:
        return dims.number(math.prod(shape[a] for a in axes), dtype)
    mask = util.one_array(name, where)
    mask = util.broadcast_to(as_truth(mask), shape)
    return sum(util.cast(mask, dtype), axes, dtype=dtype, keepdims=keepdims)


def _float_dtypes(name: str, x: Any, dtype: Any) -> tuple[Any, Any]:
    """(dtype of the computation, dtype of the result)."""
    result = util.to_inexact(dtype_of(x)) if dtype is None else util.user_dtype(name, dtype)
    working = util.to_inexact(result)
    return (dtypes.float32 if working in HALF else working), result


@util.planned
def mean(a: Any, axis: Any = None, dtype: Any = None, out: None = None, keepdims: bool = False,
         *, where: Any = None) -> Any:
    """Arithmetic mean along axes.

    Args:
      a: array or scalar.
      axis: an axis or several; None for all.
      dtype: the dtype of the result and of the accumulation.
      out: not supported.
      keepdims: keep the reduced axes with size 1.
      where: bool array; only the elements where it holds count.

    Returns:
      An array without the reduced axes.

    Raises:
      TypeError: a is not an array (lists are not accepted).
      ValueError: an axis is out of bounds or repeated.

    Example:
      >>> import calque.numpy as jnp
      >>> jnp.mean(jnp.array([1, 2]))
      Array(1.5, dtype=float32)
    """
    util.refuse_out("mean", out)
    x = util.one_array("mean", a)
    working, result = _float_dtypes("mean", x, dtype)
    if where is None:
        _check_axis(axis, ndim_of(x))
    with util.lazy_eval("mean"):
        return util.cast(_mean("mean", x, axis, working, keepdims, where), result)


def _check_axis(axis: Any, ndim: int) -> None:
    """mean, var and std ask for the size of an axis: IndexError, where sum has a ValueError."""
    for a in axis if isinstance(axis, (tuple, list)) else [] if axis is None else [axis]:
        if isinstance(a, (int, np.integer)) and not -ndim <= a < ndim:
            raise IndexError(explain(f"tuple index out of range: axis {a} of an array of dimension "
                                     f"{ndim}.", fix="give an axis of the array."))


def _mean(name: str, x: Any, axis: Any, working: Any, keepdims: Any, where: Any) -> Any:
    shape = shape_of(x)
    axes = util.axis_tuple(axis, len(shape))
    total = sum(util.cast(x, working), axes, dtype=working, keepdims=keepdims, where=where)
    return ew.div(total, _spread_like(
        _count(name, shape, axes, where, working, bool(keepdims)), total))


def _spread_like(x: Any, y: Any) -> Any:
    return util.broadcast_nonscalar(x, shape_of(y))


@util.planned
def var(a: Any, axis: Any = None, dtype: Any = None, out: None = None, ddof: Any = 0,
        keepdims: bool = False, *, where: Any = None, mean: Any = None,
        correction: Any = None) -> Any:
    """Variance (mean squared distance from the mean) along axes.

    Args:
      a: array or scalar.
      axis: an axis or several; None for all.
      dtype: the dtype of the result and of the accumulation.
      out: not supported.
      keepdims: keep the reduced axes with size 1.
      where: bool array; only the elements where it holds count.

    Returns:
      An array without the reduced axes.

    Raises:
      TypeError: a is not an array (lists are not accepted).
      ValueError: an axis is out of bounds or repeated.

    Example:
      >>> import calque.numpy as jnp
      >>> jnp.var(jnp.array([1.0, 3.0]))
      Array(1., dtype=float32)
    """
    util.refuse_out("var", out)
    x = util.one_array("var", a)
    with util.lazy_eval("var"):
        return _var("var", x, axis, dtype, ddof, keepdims, where, mean, correction)


@util.planned
def std(a: Any, axis: Any = None, dtype: Any = None, out: None = None, ddof: Any = 0,
        keepdims: bool = False, *, where: Any = None, mean: Any = None,
        correction: Any = None) -> Any:
    """Standard deviation (square root of the variance) along axes.

    Args:
      a: array or scalar.
      axis: an axis or several; None for all.
      dtype: the dtype of the result and of the accumulation.
      out: not supported.
      keepdims: keep the reduced axes with size 1.
      where: bool array; only the elements where it holds count.

    Returns:
      An array without the reduced axes.

    Raises:
      TypeError: a is not an array (lists are not accepted).
      ValueError: an axis is out of bounds or repeated.

    Example:
      >>> import calque.numpy as jnp
      >>> jnp.std(jnp.array([1.0, 3.0]))
      Array(1., dtype=float32)
    """
    util.refuse_out("std", out)
    x = util.one_array("std", a)
    if dtype is not None and not dtypes.is_inexact(util.user_dtype("std", dtype)):
        raise ValueError(explain(f"dtype argument to jnp.std must be inexact; got {dtype}"))
    with util.lazy_eval("std"):
        return ew.sqrt(_var("std", x, axis, dtype, ddof, keepdims, where, mean,
                            correction))


def _var(name: str, x: Any, axis: Any, dtype: Any, ddof: Any, keepdims: Any, where: Any,
         mean: Any, correction: Any) -> Any:
    if correction is not None:
        if not isinstance(ddof, int) or ddof != 0:
            raise ValueError(explain("ddof and correction can't be provided simultaneously."))
        ddof = correction
    if (dtype is not None and util.is_complex(x)
            and not dtypes.is_complex(util.user_dtype(name, dtype))):
        raise ValueError(explain(
            f"jax.numpy.{name} does not yet support real dtype parameters when computing the "
            "variance of an array of complex values.", fix="leave dtype out."))
    working, result = _float_dtypes(name, x, dtype)
    if where is None:
        _check_axis(axis, ndim_of(x))
    if working.kind == "c" and not util.is_complex(x):
        working = dtypes.real_dtype(working)
    shape = shape_of(x)
    axes = util.axis_tuple(axis, len(shape))
    x = util.cast(x, working)
    if mean is None:
        center = _mean(name, x, axes, working, True, where)
    else:
        center = util.one_array(name, mean)
        center = util.cast(center, working)
    apart = ew.sub(*util.aligned(name, x, center))
    if working.kind == "c":
        re, im = ew.real(apart), ew.imag(apart)
        apart = ew.add(ew.square(re), ew.square(im))
        working = dtypes.real_dtype(working)
        result = dtypes.real_dtype(result) if dtype is None else result
    else:
        apart = ew.square(apart)
    count = _count(name, shape, axes, where, working, bool(keepdims))
    total = sum(apart, axes, dtype=working, keepdims=keepdims, where=where)
    less = util.one_array(name, ddof)
    left = ew.sub(*util.aligned("var", count, util.cast(less, working)))
    good = ew.gt(left, working.type(0))
    made = ew.div(total, _spread_like(left, total))
    made = choose(good, made, working.type(np.nan))
    return util.cast(made, result if dtypes.is_inexact(result) else working)


@util.planned
def average(a: Any, axis: Any = None, weights: Any = None, returned: bool = False,
            keepdims: bool = False) -> Any:
    """Weighted mean sum(a * weights) / sum(weights).

    Args:
      a: array or scalar.
      axis: an axis or several; None for all.
      weights: array of a's shape, or a vector along axis; equal weights by default.
      returned: also return the sum of the weights.
      keepdims: keep the reduced axes with size 1.

    Returns:
      An array without the reduced axes; with returned a pair.

    Raises:
      ValueError: shapes differ and no axis is given.
      TypeError: an argument is not an array.

    Example:
      >>> import calque.numpy as jnp
      >>> jnp.average(jnp.array([1.0, 3.0]), weights=jnp.array([3.0, 1.0]))
      Array(1.5, dtype=float32)
    """
    x = util.one_array("average", a)
    with util.lazy_eval("average"):
        shape = shape_of(x)
        axes = util.axis_tuple(axis, len(shape))
        if weights is None:
            made = mean(x, axes, keepdims=keepdims)
            total = util.broadcast_to(dims.number(math.prod(shape[i] for i in axes),
                                            dtype_of(made)), shape_of(made))
            return (made, util.array(total)) if returned else made
        x, w = util.inexact_arrays("average", x, weights)
        if shape_of(w) != shape:
            if axis is None:
                raise ValueError(explain(
                    "Axis must be specified when shapes of a and weights differ."))
            if ndim_of(w) != len(axes):
                raise ValueError(explain(
                    f"Shape of weights {shape_of(w)} must be consistent with shape of a "
                    f"{shape} along the given axes."))
            if shape_of(w) != tuple(shape[i] for i in axes):
                raise ValueError(explain("Length of weights not compatible with specified axis."))
            order = sorted(range(len(axes)), key=lambda i: axes[i])
            w = sh.broadcast_in_dim(sh.transpose(w, order), shape, sorted(axes))
        total = sum(w, axes, keepdims=keepdims)
        made = ew.div(sum(ew.mul(x, w), axes, keepdims=keepdims), total)
        return (made, total) if returned else made


__all__ = ["average", "mean", "std", "var"]
