"""Sums of exponentials and what is divided by them: logsumexp, softmax, standardize, one_hot.

Start reading at `shifted`: the largest element is taken out before exponentials, and no
derivative goes through it.
"""
from __future__ import annotations

import operator
import warnings
from typing import Any

import numpy as np

from calque.api.custom_derivatives import custom_jvp
from calque.core import dims, dtypes
from calque.core.avals import dtype_of, ndim_of, shape_of
from calque.core.errors import explain
from calque.core.lists import inserted
from calque.core.trace import Tracer, concretization_error
from calque.lax.make import broadcasted_iota
from calque.lax.operands import canonical_axis
from calque.lax.shape import stop_gradient
from calque.numpy import means, util
from calque.numpy import reductions as rd
from calque.numpy.arithmetic import absolute
from calque.numpy.logic import where as choose_where
from calque.primitives import elementwise as ew
from calque.primitives import shape as sh


def _largest(x: Any, axis: Any, where: Any) -> Any:
    """The maximum along axes, kept, without a derivative."""
    return stop_gradient(rd.max(x, axis, None, True, -np.inf, where))


# ---- logsumexp
def _finite(x: Any) -> Any:
    return choose_where(ew.is_finite(x), x, dtype_of(x).type(0))


def _logsumexp(name: str, a: Any, axis: Any, b: Any, keepdims: bool, where: Any) -> Any:
    """log of the absolute value of the sum of b e^a, and the sum's sign."""
    if b is None:
        (x,) = util.inexact_arrays(name, a)
    else:
        x, b = util.inexact_arrays(name, a, b)
        x, b = util.broadcast_all(name, x, b)
        x = choose_where(b != 0, x, -np.inf)
    x = ew.convert(x, dtype_of(x))  # no weak type
    if where is not None:  # what is left out has no derivative: its exponential may be inf
        x = choose_where(where, x, -np.inf)
    axes = util.axis_tuple(axis, ndim_of(x))
    real = ew.real(x) if util.is_complex(x) else x
    largest = _finite(_largest(real, axes, where))
    peak = largest if keepdims or not axes else sh.squeeze(largest, axes)
    if b is None and not util.is_complex(x):
        others = rest(x - largest, axes, keepdims, where)
        return ew.log1p(others) + peak, ew.sign(others + 1)
    terms = ew.exp(x - largest)
    if b is not None:
        terms = terms * b
    total = rd.sum(terms, axes, None, None, keepdims, None, where)
    return ew.log(absolute(total)) + peak, ew.sign(total)


@custom_jvp
def _beside_one(x: Any) -> Any:
    """e^x, of x = 0 less 1."""
    return choose_where(x == 0, 0, ew.exp(x))


_beside_one.defjvps(lambda t, out, x: t * ew.exp(x))


def rest(below: Any, axes: Any, keepdims: bool, where: Any) -> Any:
    """The sum of e^x of which the largest x is 0, less 1: what is small keeps its digits."""
    kind = dtype_of(below)
    largest = rd.sum(below == 0, axes, kind, None, keepdims, None, where)
    return rd.sum(_beside_one(below), axes, None, None, keepdims, None, where) + (largest - 1)


@util.planned
def logsumexp(a: Any, axis: Any = None, b: Any = None, keepdims: bool = False,
              return_sign: bool = False, where: Any = None) -> Any:
    """log(sum(b * e**a)) along axes, without overflow.

    Args:
      a: array or scalar; integers become floats.
      axis: an axis or several; None for all.
      b: weights, broadcast against a; a weight 0 leaves its element out.
      keepdims: keep the reduced axes with size 1.
      return_sign: also return the sum's sign; without it a negative sum gives NaN.
      where: bool array; only the elements where it holds count.

    Returns:
      An array without the reduced axes; with return_sign a pair of them.

    Raises:
      TypeError: a or b is not an array or a number.
      ValueError: an axis is out of bounds or repeated.

    Example:
      >>> import calque.numpy as jnp
      >>> from calque import nn
      >>> nn.logsumexp(jnp.array([1000.0, 1000.0]))
      Array(1000.6932, dtype=float32)
    """
    util.check_arrays("logsumexp", a)
    with util.lazy_eval("logsumexp"):
        out, sign = _logsumexp("logsumexp", a, axis, b, keepdims, where)
        if return_sign:
            return out, sign
        if util.is_complex(sign):
            return out + ew.log(sign)
        if b is not None:
            return choose_where(sign < 0, np.nan, out)
        return out


@util.planned
def logmeanexp(x: Any, axis: Any = None, where: Any = None, keepdims: bool = False) -> Any:
    """log(mean(e**x)) along axes, without overflow.

    Args:
      x: array or scalar; integers become floats.
      axis: an axis or several; None for all.
      where: bool array; only the elements where it holds count.
      keepdims: keep the reduced axes with size 1.

    Returns:
      An array of x's shape without the axes.

    Raises:
      TypeError: x is not an array or a number (lists are not accepted).

    Example:
      >>> import calque.numpy as jnp
      >>> from calque import nn
      >>> nn.logmeanexp(jnp.array([-1.0, 0.0, 2.0]))
      Array(1.0712337, dtype=float32)
    """
    x = util.one_array("logmeanexp", x)
    total = logsumexp(x, axis, None, keepdims, False, where)
    shape = shape_of(x)
    axes = util.axis_tuple(axis, len(shape))
    if where is None:
        count = dtype_of(total).type(np.prod([shape[i] for i in axes], dtype=float))
        return total - ew.log(count)
    mask = util.broadcast_to(rd.where_mask("logmeanexp", where), shape)
    count = rd.sum(mask, axes, dtype_of(total), None, keepdims)
    return total - ew.log(count)


# ---- softmax
def shifted(x: Any, axis: Any, where: Any) -> Any:
    """x minus its maximum; elements left out are -inf."""
    largest = _largest(x, axis, where)
    if where is not None:
        x = choose_where(where, x, -np.inf)
    return x - largest


def _exponentials(x: Any, axis: Any, where: Any) -> Any:
    terms = ew.exp(shifted(x, axis, where))
    out = terms / rd.sum(terms, axis, None, None, True, None, where)
    return out if where is None else choose_where(where, out, 0)


def _softmax_function(axis: Any) -> Any:
    """softmax whose derivative is written with its result."""
    @custom_jvp
    def softmax(x: Any) -> Any:
        return _exponentials(x, axis, None)

    softmax.defjvps(lambda t, out, x: out * (t - rd.sum(out * t, axis, keepdims=True)))
    return softmax


def inexact(name: str, x: Any) -> Any:
    x = util.one_array(name, x)
    if dtype_of(x) == dtypes.bool_:
        raise TypeError(explain(
            f"sub does not accept dtype bool: {name} of a bool array.",
            fix="convert it with x.astype(float)."))
    return util.inexact_arrays(name, x)[0]


@util.planned
def softmax(x: Any, axis: Any = -1, where: Any = None) -> Any:
    """e**x / sum(e**x) along axes.

    Args:
      x: array or scalar; integers become floats.
      axis: an axis or several; None for all.
      where: bool array; only the elements where it holds count.

    Returns:
      An array of x's shape.

    Raises:
      TypeError: x is not an array or a number (lists are not accepted).
      ValueError: an axis is out of bounds.

    Example:
      >>> import calque.numpy as jnp
      >>> from calque import nn
      >>> nn.softmax(jnp.array([-1.0, 0.0, 2.0]))
      Array([0.04201007, 0.1141952 , 0.8437947 ], dtype=float32)
    """
    x = inexact("softmax", x)
    axis = util.axis_tuple(axis, ndim_of(x))
    if where is not None:
        where = rd.where_mask("softmax", where)
    if where is None:
        return _softmax_function(axis)(x)
    return _exponentials(x, axis, where)


@util.planned
def log_softmax(x: Any, axis: Any = -1, where: Any = None) -> Any:
    """log(softmax(x)) along axes, without underflow.

    Args:
      x: array or scalar; integers become floats.
      axis: an axis or several; None for all.
      where: bool array; only the elements where it holds count.

    Returns:
      An array of x's shape.

    Raises:
      TypeError: x is not an array or a number (lists are not accepted).
      ValueError: an axis is out of bounds.

    Example:
      >>> import calque.numpy as jnp
      >>> from calque import nn
      >>> nn.log_softmax(jnp.array([-1.0, 0.0, 2.0]))
      Array([-3.169846  , -2.169846  , -0.16984604], dtype=float32)
    """
    x = inexact("log_softmax", x)
    axis = util.axis_tuple(axis, ndim_of(x))
    if where is not None:
        where = rd.where_mask("log_softmax", where)
    below = shifted(x, axis, where)
    total = rd.sum(ew.exp(below), axis, None, None, True, None, where)
    out = below - ew.log(total)
    return out if where is None else choose_where(where, out, -np.inf)


# ---- standardize
@util.planned
def standardize(x: Any, axis: Any = -1, mean: Any = None, variance: Any = None,
                epsilon: Any = 1e-5, where: Any = None, *, algorithm: str = "fast") -> Any:
    """(x - mean) / sqrt(variance + epsilon) along axes.

    Args:
      x: array or scalar; integers become floats.
      axis: an axis or several; None for all.
      mean: the mean, if known.
      variance: the variance, if known.
      epsilon: keeps the denominator from 0.
      where: bool array; only the elements where it holds count.
      algorithm: 'fast' (mean of squares minus square of mean) or 'stable' (mean of squared
        differences).

    Returns:
      An array of x's shape.

    Raises:
      TypeError: x is not an array or a number (lists are not accepted).
      ValueError: an axis is out of bounds, or the algorithm is unknown.

    Example:
      >>> import calque.numpy as jnp
      >>> from calque import nn
      >>> nn.standardize(jnp.array([-1.0, 0.0, 2.0]))
      Array([-1.0690416, -0.2672604,  1.3363019], dtype=float32)
    """
    if algorithm not in ("fast", "stable"):
        raise ValueError(explain(
            f"Unknown algorithm {algorithm!r}. Expected 'fast' or 'stable'."))
    (x,) = util.inexact_arrays("standardize", x)
    if util.is_complex(x) and variance is None and algorithm == "fast":
        raise ValueError(explain("standardize: Complex values have no ordering: no variance is 0 "
                                 "or more.", fix="use algorithm='stable'."))
    if mean is None:
        mean = means.mean(x, axis, None, None, True, where=where)
    if variance is None:
        if algorithm == "stable":
            variance = means.mean(ew.square(x - mean), axis, None, None, True, where=where)
        else:  # rounding may leave a small negative number
            squares = means.mean(ew.square(x), axis, None, None, True, where=where)
            variance = squares - _squared(mean)
            variance = ew.max_(dtype_of(variance).type(0), variance)
    return (x - mean) * ew.rsqrt(util.array(variance + epsilon))


def _squared(x: Any) -> Any:
    x = util.one_array("standardize", x)
    return ew.square(util.array(x))


# ---- one_hot
@util.planned
def one_hot(x: Any, num_classes: int, *, dtype: Any = None, axis: int = -1) -> Any:
    """Rows of an identity matrix: 1 at the position x, 0 elsewhere.

    Args:
      x: array, scalar or nested list of positions; outside [0, num_classes) the row is all 0.
      num_classes: length of the new axis.
      dtype: of the result; float32 (float64 with x64) by default.
      axis: where the new axis goes.

    Returns:
      An array with one axis more than x.

    Raises:
      TypeError: num_classes is no integer.
      ValueError: axis is out of bounds for the result.

    Example:
      >>> import calque.numpy as jnp
      >>> from calque import nn
      >>> nn.one_hot(jnp.array([0, 2]), 3)
      Array([[1., 0., 0.],
             [0., 0., 1.]], dtype=float32)
    """
    from calque.numpy.creation import asarray
    if isinstance(num_classes, Tracer) and num_classes.concrete() is None:
        raise concretization_error(
            num_classes, "The error arose in jax.nn.one_hot argument `num_classes`: it is a traced "
            "value.", "mark it as static.")
    try:
        size = dims.as_size(num_classes) if dims.is_symbolic_dim(num_classes) else (
            operator.index(num_classes))
    except TypeError as error:
        if hasattr(num_classes, "aval") and isinstance(error, TypeError) and type(
                error) is not TypeError:
            raise
        raise TypeError(explain(
            "Only integer scalar arrays can be converted to a scalar index: one_hot got "
            f"num_classes={num_classes!r}.", fix="pass a Python int.")) from None
    kind = dtypes.default_dtype(float) if dtype is None else util.user_dtype("one_hot", dtype)
    with util.lazy_eval("one_hot"):
        x = util.array(asarray(x))
        if not dtypes.is_integer(dtype_of(x)):
            warnings.warn(f"jax.nn.one_hot input should be integer-typed; got dtype="
                          f"{dtype_of(x).name}", DeprecationWarning, stacklevel=2)
        shape = shape_of(x)
        axis = canonical_axis(axis, len(shape) + 1)
        full = inserted(shape, axis, size)
        others = tuple(i for i in range(len(full)) if i != axis)
        where = dtype_of(x)
        if where == dtypes.bool_:
            raise TypeError(explain(
                "iota does not accept dtype bool: one_hot of a bool array.",
                fix="convert it with x.astype(int)."))
        positions = broadcasted_iota(where, full, axis)
        x = sh.broadcast_in_dim(ew.convert(x, where), full, others)
        return ew.convert(ew.eq(x, positions), kind)


__all__ = ["log_softmax", "logmeanexp", "logsumexp", "one_hot", "softmax", "standardize"]
