"""Quantiles: median, quantile, percentile and their nan forms.

Start reading at `_quantile`.
"""
from __future__ import annotations

import math
from typing import Any

import numpy as np

from calque.core import dtypes
from calque.core.avals import aval_of, dtype_of, ndim_of, shape_of
from calque.core.dims import number
from calque.core.errors import explain
from calque.core.types import Shape
from calque.dispatch.sharded.placing import resharded
from calque.numpy import reductions as rd
from calque.numpy import rounding, util
from calque.numpy.arithmetic import choose
from calque.numpy.creation import asarray
from calque.numpy.cumulative import cumsum
from calque.numpy.picking import take_along_axis
from calque.numpy.shapes import moveaxis
from calque.numpy.ufuncs import maximum, true_divide
from calque.primitives import elementwise as ew
from calque.primitives import shape as sh
from calque.primitives import sort as so

METHODS = ("linear", "lower", "higher", "midpoint", "nearest", "inverted_cdf")


def _checked(name: str, a: Any, q: Any, out: Any, overwrite: Any, method: str,
             weights: Any) -> tuple[Any, Any]:
    if overwrite or out is not None:
        raise ValueError(explain(
            f"jax.numpy.{name} does not support overwrite_input=True or out != None"))
    x, q = util.check_arrays(name, a, q)
    if util.is_complex(x):
        raise ValueError(explain(
            "quantile does not support complex input, as the operation is poorly defined."))
    if ndim_of(q) > 1:
        raise ValueError(explain(f"q must be have rank <= 1, got shape {shape_of(q)}"))
    if method not in METHODS:
        raise ValueError(explain("method can only be 'linear', 'lower', 'higher', 'midpoint', "
                                 "'nearest' or 'inverted_cdf'"))
    if weights is not None and method != "inverted_cdf":
        raise NotImplementedError(explain(
            f"{method} doesn't support weights. Only method 'inverted_cdf' supports weights."))
    return x, q


def _rows(x: Any, axis: Any, keepdims: bool) -> tuple[Any, tuple[int, ...]]:
    """(x with the reduced axes merged into the last one, the result's shape)."""
    shape = shape_of(x)
    axes = util.axis_tuple(axis, len(shape))
    kept = [i for i in range(len(shape)) if i not in axes]
    size = math.prod(shape[i] for i in axes)
    rows = sh.reshape(sh.transpose(x, (*kept, *sorted(axes))), (*[shape[i] for i in kept], size))
    full = tuple(1 if i in axes else n for i, n in enumerate(shape))
    return rows, full if keepdims else tuple(shape[i] for i in kept)


def _quantile(name: str, a: Any, q: Any, axis: Any, method: str, keepdims: bool, skip: bool,
              weights: Any) -> Any:
    """Quantiles of rows that are sorted: between the elements at q times (count - 1)."""
    dtype = util.to_inexact(dtype_of(a))
    q_dtype = dtype_of(q)
    if not dtypes.is_float(q_dtype):
        raise TypeError(explain(f"floor does not accept dtype {q_dtype.name}. Accepted dtypes are "
                                "subtypes of floating.", fix="pass q as a float."))
    x = util.cast(asarray(a), dtype)
    rows, shape = _rows(x, axis, keepdims)
    n, lead = shape_of(rows)[-1], shape_of(rows)[:-1]
    if not n and skip and not lead and not np.shape(q):
        raise IndexError(explain("index is out of bounds for axis 0 with size 0",
                                 fix="check the size first."))
    if not n:
        raise TypeError(explain(
            "Slice size at index 0 in gather op is out of range, must be within [0, 0 + 1), got "
            f"1: {name} of an empty axis.", fix="check the size first."))
    working = dtype if dtype.itemsize >= 4 else dtypes.float32
    q = util.cast(asarray(q), working)
    many = shape_of(q)
    q = sh.reshape(q, (aval_of(q).size,))
    nan = ew.ne(rows, rows)
    if skip:
        count = rd.sum(ew.not_(nan), -1, dtype=working, keepdims=True)
        rows = choose(nan, dtype.type(np.nan), rows)  # NaN has no derivative, as in JAX
    else:
        rows = choose(rd.any(nan, -1, keepdims=True), dtype.type(np.nan), rows)
        count = sh.broadcast_in_dim(number(n, working), (*lead, 1), ())
    grid = (*lead, aval_of(q).size)
    each = sh.broadcast_in_dim(q, grid, (len(lead),))
    if weights is not None:
        found = _weighted(rows, each, weights, shape_of(x), axis, skip)
    else:
        found = _between(so.sort([rows], len(lead))[0], each, util.broadcast_to(count, grid),
                         method)
    found = util.cast(found, dtype)
    found = sh.reshape(moveaxis(found, -1, 0), (*many, *shape))
    return util.array(found)


def _between(rows: Any, q: Any, count: Any, method: str) -> Any:
    last = count - 1
    if method == "inverted_cdf":
        return _at(rows, rounding.clip(ew.ceil(q * count - 1), 0, last), q)
    index = q * last
    low = ew.floor(index)
    part = index - low
    low_at, high_at = (rounding.clip(i, 0, last) for i in (low, ew.ceil(index)))
    if method == "lower":
        return _at(rows, low_at, q)
    if method == "higher":
        return _at(rows, high_at, q)
    if method == "nearest":
        return _at(rows, choose(ew.le(part, ew.const(part, 0.5)), low_at, high_at), q)
    x, y = _at(rows, low_at, q), _at(rows, high_at, q)
    if method == "midpoint":
        return (x + y) * 0.5
    return x * (1 - part) + y * part


def _at(rows: Any, index: Any, q: Any) -> Any:
    """Elements of sorted rows, as wide as q; none of a row without elements, or for a NaN q."""
    bad = ew.ne(index, index)
    positions = ew.convert(choose(bad, dtype_of(index).type(0), maximum(index, 0)),
                           dtypes.int32)
    found = util.cast(take_along_axis(rows, positions, -1, mode="clip"), dtype_of(q))
    return choose(bad, dtype_of(q).type(np.nan), found)


def _weighted(rows: Any, q: Any, weights: Any, shape: Shape, axis: Any,
              skip: bool) -> Any:
    """The first element at which the running weight reaches q times the whole one."""
    w = util.one_array("quantile", weights)
    w = asarray(w)
    if shape_of(w) != shape:
        axes = util.axis_tuple(axis, len(shape))
        if axis is None or shape_of(w) != tuple(shape[i] for i in axes):
            raise ValueError(explain(
                f"quantile: weights of shape {shape_of(w)} do not go with an array of shape "
                f"{shape} and axis={axis}.", fix="pass one weight for each element."))
        w = sh.broadcast_in_dim(w, shape, axes)
    w, _ = _rows(util.cast(w, dtype_of(q)), axis, False)
    if skip:
        w = choose(ew.ne(rows, rows), dtype_of(w).type(0), w)
    at = ndim_of(rows) - 1
    ordered, w = so.sort([rows, w], at)
    running = cumsum(w, -1)
    total = sh.slice_in_dim(running, shape_of(rows)[-1] - 1, shape_of(rows)[-1], at)
    wide = (*shape_of(q), shape_of(rows)[-1])
    reached = ew.lt(
        sh.broadcast_in_dim(running, wide, (*range(at), at + 1)),
        sh.broadcast_in_dim(util.array(q * total), wide, tuple(range(at + 1))))
    index = rd.sum(reached, -1, dtype=dtypes.int32)
    return take_along_axis(ordered, index, -1, mode="clip")


def _entry(name: str, a: Any, q: Any, axis: Any, out: Any, overwrite: Any, method: str,
           keepdims: Any, weights: Any, percent: bool = False) -> Any:
    x, q = _checked(name.removeprefix("nan"), a, q, out, overwrite, method, weights)
    with util.lazy_eval(name):
        if percent:
            q = util.array(true_divide(q, 100))
        return _quantile(name, x, q, axis, method, bool(keepdims), name.startswith("nan"), weights)


@util.planned
def quantile(a: Any, q: Any, axis: Any = None, out: None = None, overwrite_input: bool = False,
             method: str = "linear", keepdims: bool = False, *, weights: Any = None) -> Any:
    """Element that a share q of the elements lies below.

    Args:
      a: real array.
      q: the shares, from 0 to 1: a scalar or a vector of floats.
      axis: an axis or several; None for all.
      out, overwrite_input: not supported.
      method: what lies between two elements: 'linear', 'lower', 'higher', 'midpoint', 'nearest' or
        'inverted_cdf'.
      keepdims: keep the reduced axes with size 1.
      weights: array like a, or a vector along one axis; of method 'inverted_cdf' only.

    Returns:
      A float array without the reduced axes, behind that of a vector q; NaN where an element is.

    Raises:
      TypeError: a is not an array, q is an integer, or a reduced axis is empty.
      ValueError: a is complex, q has several axes, or the method is unknown.

    Example:
      >>> import calque.numpy as jnp
      >>> jnp.quantile(jnp.array([1.0, 2.0, 4.0]), 0.75)
      Array(3., dtype=float32)
    """
    return _entry("quantile", a, q, axis, out, overwrite_input, method, keepdims, weights)


@util.planned
def nanquantile(a: Any, q: Any, axis: Any = None, out: None = None, overwrite_input: bool = False,
                method: str = "linear", keepdims: bool = False, *, weights: Any = None) -> Any:
    """Element that a share q of the elements lies below, NaN left out.

    Args:
      a: real array.
      q: the shares, from 0 to 1: a scalar or a vector of floats.
      axis: an axis or several; None for all.
      out, overwrite_input: not supported.
      method: what lies between two elements: 'linear', 'lower', 'higher', 'midpoint', 'nearest' or
        'inverted_cdf'.
      keepdims: keep the reduced axes with size 1.
      weights: array like a, or a vector along one axis; of method 'inverted_cdf' only.

    Returns:
      A float array without the reduced axes, behind that of a vector q, of the elements that are
      not NaN.

    Raises:
      TypeError: a is not an array, q is an integer, or a reduced axis is empty.
      ValueError: a is complex, q has several axes, or the method is unknown.

    Example:
      >>> import calque.numpy as jnp
      >>> jnp.nanquantile(jnp.array([1.0, 2.0, 4.0]), 0.75)
      Array(3., dtype=float32)
    """
    return _entry("nanquantile", a, q, axis, out, overwrite_input, method, keepdims, weights)


@util.planned
def percentile(a: Any, q: Any, axis: Any = None, out: None = None, overwrite_input: bool = False,
               method: str = "linear", keepdims: bool = False, *, weights: Any = None,
               out_sharding: Any = None) -> Any:
    """Element that q percent of the elements lie below.

    Args:
      a: real array.
      q: from 0 to 100: a scalar or a vector of floats.
      axis: an axis or several; None for all.
      out, overwrite_input: not supported.
      method: what lies between two elements: 'linear', 'lower', 'higher', 'midpoint', 'nearest' or
        'inverted_cdf'.
      keepdims: keep the reduced axes with size 1.
      weights: array like a, or a vector along one axis; of method 'inverted_cdf' only.
      out_sharding: of the result, over Explicit axes.

    Returns:
      A float array without the reduced axes, behind that of a vector q; NaN where an element is.

    Raises:
      TypeError: a is not an array, q is an integer, or a reduced axis is empty.
      ValueError: a is complex, q has several axes, or the method is unknown.

    Example:
      >>> import calque.numpy as jnp
      >>> jnp.percentile(jnp.array([1.0, 2.0, 4.0]), 75)
      Array(3., dtype=float32)
    """
    if out_sharding is not None:
        return resharded("jnp.percentile", out_sharding, percentile, a, q, axis, out,
                         overwrite_input, method, keepdims, weights=weights)
    return _entry("percentile", a, q, axis, out, overwrite_input, method, keepdims, weights, True)


@util.planned
def nanpercentile(a: Any, q: Any, axis: Any = None, out: None = None,
                  overwrite_input: bool = False, method: str = "linear", keepdims: bool = False, *,
                  weights: Any = None) -> Any:
    """Element that q percent of the elements lie below, NaN left out.

    Args:
      a: real array.
      q: from 0 to 100: a scalar or a vector of floats.
      axis: an axis or several; None for all.
      out, overwrite_input: not supported.
      method: what lies between two elements: 'linear', 'lower', 'higher', 'midpoint', 'nearest' or
        'inverted_cdf'.
      keepdims: keep the reduced axes with size 1.
      weights: array like a, or a vector along one axis; of method 'inverted_cdf' only.

    Returns:
      A float array without the reduced axes, behind that of a vector q, of the elements that are
      not NaN.

    Raises:
      TypeError: a is not an array, q is an integer, or a reduced axis is empty.
      ValueError: a is complex, q has several axes, or the method is unknown.

    Example:
      >>> import calque.numpy as jnp
      >>> jnp.nanpercentile(jnp.array([1.0, 2.0, 4.0]), 75)
      Array(3., dtype=float32)
    """
    return _entry("nanpercentile", a, q, axis, out, overwrite_input, method, keepdims, weights,
                  True)


@util.planned
def median(a: Any, axis: Any = None, out: None = None, overwrite_input: bool = False,
           keepdims: bool = False) -> Any:
    """Middle element of the sorted ones (the mean of the two middle ones).

    Args:
      a: real array.
      axis: an axis or several; None for all.
      out, overwrite_input: not supported.
      keepdims: keep the reduced axes with size 1.

    Returns:
      A float array without the reduced axes; NaN where an element is.

    Raises:
      TypeError: a is not an array, q is an integer, or a reduced axis is empty.
      ValueError: a is complex, q has several axes, or the method is unknown.

    Example:
      >>> import calque.numpy as jnp
      >>> jnp.median(jnp.array([1.0, 2.0, 4.0]))
      Array(2., dtype=float32)
    """
    return _entry("median", a, 0.5, axis, out, overwrite_input, "midpoint", keepdims, None)


@util.planned
def nanmedian(a: Any, axis: Any = None, out: None = None, overwrite_input: bool = False,
              keepdims: bool = False) -> Any:
    """Middle element of the sorted ones, NaN left out.

    Args:
      a: real array.
      axis: an axis or several; None for all.
      out, overwrite_input: not supported.
      keepdims: keep the reduced axes with size 1.

    Returns:
      A float array without the reduced axes, of the elements that are not NaN.

    Raises:
      TypeError: a is not an array, q is an integer, or a reduced axis is empty.
      ValueError: a is complex, q has several axes, or the method is unknown.

    Example:
      >>> import calque.numpy as jnp
      >>> jnp.nanmedian(jnp.array([1.0, 2.0, 4.0]))
      Array(2., dtype=float32)
    """
    return _entry("nanmedian", a, 0.5, axis, out, overwrite_input, "midpoint", keepdims, None)


__all__ = ["median", "nanmedian", "nanpercentile", "nanquantile", "percentile", "quantile"]
