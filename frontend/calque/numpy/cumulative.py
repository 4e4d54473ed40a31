"""Running sums and products, differences and integrals along an axis: cumsum, cumprod, nancumsum,
nancumprod, cumulative_sum, cumulative_prod, ediff1d, gradient, trapezoid.
Start reading at `_running`.
"""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from calque.core import dtypes
from calque.core.avals import aval_of, dtype_of, ndim_of, shape_of
from calque.core.errors import explain
from calque.core.primitive import Primitive
from calque.core.sharding import ShardingTypeError
from calque.lax.operands import canonical_axis
from calque.numpy import util
from calque.numpy.arithmetic import choose
from calque.primitives import cumulative as cu
from calque.primitives import elementwise as ew
from calque.primitives import shape as sh
from calque.transforms.explicit import is_explicit


def _axis(axis: Any, ndim: int) -> int:
    if not hasattr(axis, "__index__") or isinstance(axis, (tuple, list)):
        raise TypeError(explain(f"{type(axis).__name__!r} object cannot be interpreted as an "
                                "integer", fix="pass one axis."))
    return canonical_axis(axis, ndim)


def _running(name: str, prim: Primitive, a: Any, axis: Any, dtype: Any, out: Any,
             skip_nan: bool = False) -> Any:
    util.refuse_out(name, out)
    x = util.one_array(name, a)
    own = dtype_of(x)
    if dtype is not None:
        result = util.user_dtype(name, dtype)
    else:
        result = dtypes.default_dtype(int) if own == dtypes.bool_ else own
    working = dtypes.default_dtype(int) if result == dtypes.bool_ else result
    with util.lazy_eval(name):
        if skip_nan and dtypes.is_inexact(own):
            x = util.array(x)
            empty = 0 if prim is cu.cumsum_p else 1
            x = choose(ew.ne(x, x), own.type(empty), x)
        x = util.array(x)
        if axis is None:
            if is_explicit(a := aval_of(x)) and ndim_of(x) != 1 and a.placement.spec.names():
                raise ShardingTypeError(explain(
                    f"{name} of all elements: The input should be fully replicated, got {a}.",
                    fix="name an axis, or calque.sharding.reshard it to P()."))
            x = sh.reshape(x, (int(np.prod(shape_of(x))),)) if ndim_of(x) != 1 else x
            axis = 0
        axis = _axis(axis, ndim_of(x))
        if result == dtypes.bool_:
            x = ew.convert(ew.convert(x, dtypes.bool_), working)
        y = prim.bind(ew.convert(x, working), axis=axis, reverse=False)
        return ew.convert(y, result)


@util.planned
def cumsum(a: Any, axis: Any = None, dtype: Any = None, out: None = None) -> Any:
    """Running sum along an axis.

    Args:
      a: array or scalar.
      axis: the axis; None for the flattened array.
      dtype: the dtype of the result; that of a by default (bool: the default integer).
      out: not supported.

    Returns:
      An array of a's shape (one axis when axis is None).

    Raises:
      TypeError: a is not an array (lists are not accepted).
      ValueError: the axis is out of bounds.

    Example:
      >>> import calque.numpy as jnp
      >>> jnp.cumsum(jnp.array([1, 2, 3]))
      Array([1, 3, 6], dtype=int32)
    """
    return _running("cumsum", cu.cumsum_p, a, axis, dtype, out)


@util.planned
def cumprod(a: Any, axis: Any = None, dtype: Any = None, out: None = None) -> Any:
    """Running product along an axis.

    Args:
      a: array or scalar.
      axis: the axis; None for the flattened array.
      dtype: the dtype of the result; that of a by default (bool: the default integer).
      out: not supported.

    Returns:
      An array of a's shape (one axis when axis is None).

    Raises:
      TypeError: a is not an array (lists are not accepted).
      ValueError: the axis is out of bounds.

    Example:
      >>> import calque.numpy as jnp
      >>> jnp.cumprod(jnp.array([1, 2, 3]))
      Array([1, 2, 6], dtype=int32)
    """
    return _running("cumprod", cu.cumprod_p, a, axis, dtype, out)


@util.planned
def nancumsum(a: Any, axis: Any = None, dtype: Any = None, out: None = None) -> Any:
    """Running sum, NaN counting as 0 along an axis.

    Args:
      a: array or scalar.
      axis: the axis; None for the flattened array.
      dtype: the dtype of the result; that of a by default (bool: the default integer).
      out: not supported.

    Returns:
      An array of a's shape (one axis when axis is None).

    Raises:
      TypeError: a is not an array (lists are not accepted).
      ValueError: the axis is out of bounds.

    Example:
      >>> import calque.numpy as jnp
      >>> jnp.nancumsum(jnp.array([1.0, jnp.nan, 3.0]))
      Array([1., 1., 4.], dtype=float32)
    """
    return _running("nancumsum", cu.cumsum_p, a, axis, dtype, out, True)


@util.planned
def nancumprod(a: Any, axis: Any = None, dtype: Any = None, out: None = None) -> Any:
    """Running product, NaN counting as 1 along an axis.

    Args:
      a: array or scalar.
      axis: the axis; None for the flattened array.
      dtype: the dtype of the result; that of a by default (bool: the default integer).
      out: not supported.

    Returns:
      An array of a's shape (one axis when axis is None).

    Raises:
      TypeError: a is not an array (lists are not accepted).
      ValueError: the axis is out of bounds.

    Example:
      >>> import calque.numpy as jnp
      >>> jnp.nancumprod(jnp.array([2.0, jnp.nan, 3.0]))
      Array([2., 2., 6.], dtype=float32)
    """
    return _running("nancumprod", cu.cumprod_p, a, axis, dtype, out, True)


# ---- the array API's forms
def _with_initial(name: str, what: str, prim: Primitive, x: Any, axis: Any, dtype: Any,
                  include_initial: bool) -> Any:
    x = util.one_array(name, x)
    shape = shape_of(x)
    if not shape:
        raise ValueError(explain(
            f"The input must be non-scalar to take a cumulative {what}, however a scalar value or "
            "scalar array was given.", fix="pass an array of at least one axis."))
    if axis is None:
        if len(shape) > 1:
            raise ValueError(explain(
                f"The input array has rank {len(shape)}, however axis was not set to an explicit "
                "value. The axis argument is only optional for one-dimensional arrays.",
                fix="pass axis=."))
        axis = 0
    axis = _axis(axis, len(shape))
    own = dtype_of(x)
    if dtype is None and prim is cu.cumsum_p and dtypes.is_integer(own):
        wide = dtypes.default_dtype(int)
        if own.itemsize < wide.itemsize:
            dtype = wide if dtypes.is_signed(own) else np.dtype(f"u{wide.name}")
    with util.lazy_eval(name):
        y = _running(name, prim, x, axis, dtype, None)
        if include_initial:
            start = dtype_of(y).type(0 if prim is cu.cumsum_p else 1)
            config = [(1 if i == axis else 0, 0, 0) for i in range(len(shape))]
            y = sh.pad(y, start, config)
        return y


@util.planned
def cumulative_sum(x: Any, /, *, axis: Any = None, dtype: Any = None,
                   include_initial: bool = False) -> Any:
    """Running sum along an axis, as the array API has it.

    Args:
      x: array with at least one axis.
      axis: the axis; may be left out for one axis.
      dtype: the dtype of the result; by default small integers become the default integer.
      include_initial: put a 0 in front.

    Returns:
      An array of x's shape, one longer along the axis with include_initial.

    Raises:
      ValueError: x is a scalar, or has several axes and none is named.

    Example:
      >>> import calque.numpy as jnp
      >>> jnp.cumulative_sum(jnp.array([1, 2, 3]), include_initial=True)
      Array([0, 1, 3, 6], dtype=int32)
    """
    return _with_initial("cumulative_sum", "sum", cu.cumsum_p, x, axis, dtype, include_initial)


@util.planned
def cumulative_prod(x: Any, /, *, axis: Any = None, dtype: Any = None,
                    include_initial: bool = False) -> Any:
    """Running product along an axis, as the array API has it.

    Args:
      x: array with at least one axis.
      axis: the axis; may be left out for one axis.
      dtype: the dtype of the result; that of x by default.
      include_initial: put a 1 in front.

    Returns:
      An array of x's shape, one longer along the axis with include_initial.

    Raises:
      ValueError: x is a scalar, or has several axes and none is named.

    Example:
      >>> import calque.numpy as jnp
      >>> jnp.cumulative_prod(jnp.array([1, 2, 3]))
      Array([1, 2, 6], dtype=int32)
    """
    return _with_initial("cumulative_prod", "product", cu.cumprod_p, x, axis, dtype,
                         include_initial)


# ---- differences
@util.planned
def ediff1d(ary: Any, to_end: Any = None, to_begin: Any = None) -> Any:
    """Differences of neighbours of the flattened array, with values put around them.

    Args:
      ary: array or scalar.
      to_end: values to put behind, cast to ary's dtype.
      to_begin: values to put in front, cast to ary's dtype.

    Returns:
      An array with one axis.

    Raises:
      TypeError: an argument is not an array, or ary is bool.

    Example:
      >>> import calque.numpy as jnp
      >>> jnp.ediff1d(jnp.array([1, 2, 4]), to_end=9)
      Array([1, 2, 9], dtype=int32)
    """
    given = [v for v in (ary, to_end, to_begin) if v is not None]
    util.check_arrays("ediff1d", *given)
    with util.lazy_eval("ediff1d"):
        x = _flat(util.one_array("ediff1d", ary))
        n = shape_of(x)[0]
        parts = [ew.sub(sh.slice_in_dim(x, min(1, n), n, 0),
                        sh.slice_in_dim(x, 0, max(0, n - 1), 0))]
        if to_begin is not None:
            parts.insert(0, _flat(ew.convert(util.array(util.one_array("ediff1d", to_begin)),
                                             dtype_of(x))))
        if to_end is not None:
            parts.append(_flat(ew.convert(util.array(util.one_array("ediff1d", to_end)),
                                          dtype_of(x))))
        return sh.concatenate(parts, 0) if len(parts) > 1 else parts[0]


def _flat(x: Any) -> Any:
    x = util.array(x)
    return sh.reshape(x, (int(np.prod(shape_of(x))),))


@util.planned
def gradient(f: Any, *varargs: Any, axis: Any = None, edge_order: Any = None) -> Any:
    """Derivative along axes by central differences, one-sided at the ends.

    Args:
      f: array.
      *varargs: spacing: nothing (1), one number for all axes, or one number or array of
        coordinates for each axis.
      axis: an axis or several; None for all.
      edge_order: not supported (the ends are of first order).

    Returns:
      An array of f's shape, or a list of them, one for each axis.

    Raises:
      TypeError: the number of spacings does not fit.
      ValueError: an axis has fewer than 2 elements, or coordinates do not fit.

    Example:
      >>> import calque.numpy as jnp
      >>> jnp.gradient(jnp.array([1.0, 2.0, 4.0]))
      Array([1. , 1.5, 2. ], dtype=float32)
    """
    if edge_order is not None:
        raise NotImplementedError(explain(
            "The 'edge_order' argument to jnp.gradient is not supported.",
            fix="leave it out; the ends are differences of first order."))
    util.check_arrays("gradient", f, *varargs)
    with util.lazy_eval("gradient"):
        x, *spacing = util.promote_inexact("gradient", f, *varargs)
        x = util.array(x)
        shape = shape_of(x)
        if axis is None:
            axes = tuple(range(len(shape)))
        else:
            given = axis if isinstance(axis, (tuple, list)) else (axis,)
            axes = tuple(canonical_axis(i, len(shape)) for i in given)
        for i in axes:
            if shape[i] < 2:
                raise ValueError(explain(
                    "Shape of array too small to calculate a numerical gradient, at least 2 "
                    "elements are required.", where=f"axis {i} of {shape}."))
        steps = _steps(spacing, axes, shape, axis)
        outs = [_slope(x, i, h) for i, h in zip(axes, steps)]
        return outs[0] if len(axes) == 1 else outs


def _steps(spacing: Sequence[Any], axes: Sequence[int], shape: Sequence[int],
           axis: Any) -> list[Any]:
    """One spacing for each axis: a scalar, or the coordinates."""
    if not spacing:
        return [None] * len(axes)
    if len(spacing) == 1 and not shape_of(spacing[0]):
        return [spacing[0]] * len(axes)
    if len(spacing) != len(axes):
        raise TypeError(explain(
            f"Invalid number of spacing arguments {len(spacing)} for axis={axis}",
            fix="pass none, one number, or one for each axis."))
    for h, i in zip(spacing, axes):
        if ndim_of(h) > 1:
            raise ValueError(explain("Spacing arrays must be 1D arrays or scalars."))
        if shape_of(h) and shape_of(h)[0] != shape[i]:
            raise ValueError(explain(
                "Spacing arrays must have the same length as the dimension along which the "
                "gradient is calculated.", where=f"axis {i} has {shape[i]} elements."))
    return list(spacing)


def _slope(x: Any, axis: int, h: Any) -> Any:
    n, shape = shape_of(x)[axis], shape_of(x)

    def cut(start: int, stop: int) -> Any:
        return sh.slice_in_dim(x, start, stop, axis)

    def coordinates(v: Any) -> Any:
        wide = [1] * len(shape)
        wide[axis] = shape_of(v)[0]
        return sh.reshape(v, wide)

    first, last = ew.sub(cut(1, 2), cut(0, 1)), ew.sub(cut(n - 1, n), cut(n - 2, n - 1))
    parts = [first, last]
    if h is not None and shape_of(h):
        gaps = ew.sub(sh.slice_in_dim(h, 1, n, 0), sh.slice_in_dim(h, 0, n - 1, 0))

        def over(v: Any, gap: Any) -> Any:
            return ew.div(v, util.broadcast_to(coordinates(gap), shape_of(v)))

        parts = [over(first, sh.slice_in_dim(gaps, 0, 1, 0)),
                 over(last, sh.slice_in_dim(gaps, n - 2, n - 1, 0))]
        if n > 2:
            left, right = (sh.slice_in_dim(gaps, i, n - 2 + i, 0) for i in (0, 1))
            both = ew.add(left, right)
            a = ew.div(ew.neg(right), ew.mul(left, both))
            b = ew.div(ew.sub(right, left), ew.mul(left, right))
            c = ew.div(left, ew.mul(right, both))
            terms = [ew.mul(util.broadcast_to(coordinates(k), shape_of(v)), v) for k, v in
                     ((a, cut(0, n - 2)), (b, cut(1, n - 1)), (c, cut(2, n)))]
            parts.insert(1, ew.add(ew.add(terms[0], terms[1]), terms[2]))
        return sh.concatenate(parts, axis)
    if n > 2:
        parts.insert(1, ew.mul(ew.sub(cut(2, n), cut(0, n - 2)), ew.const(x, 0.5)))
    out = sh.concatenate(parts, axis)
    return out if h is None else ew.div(out, util.broadcast_nonscalar(h, shape))


@util.planned
def trapezoid(y: Any, x: Any = None, dx: Any = 1.0, axis: int = -1) -> Any:
    """Integral along an axis by the trapezoidal rule.

    Args:
      y: array of values.
      x: coordinates along the axis, of y's shape or with one axis; equal steps when left out.
      dx: the step when x is left out.
      axis: the axis.

    Returns:
      An array of inexact dtype without the axis.

    Raises:
      TypeError: an argument is not an array.
      ValueError: the axis is out of bounds.

    Example:
      >>> import calque.numpy as jnp
      >>> jnp.trapezoid(jnp.array([1.0, 2.0, 3.0]))
      Array(4., dtype=float32)
    """
    from calque.numpy.reductions import sum as total
    values = util.check_arrays("trapezoid", y, dx if x is None else x)
    with util.lazy_eval("trapezoid"):
        if x is None:  # the integrand alone decides what integers become
            values = (*util.promote_inexact("trapezoid", values[0]), values[1])
        y, step = util.promote_inexact("trapezoid", *values)
        y = util.array(y)
        axis = canonical_axis(axis, ndim_of(y))
        rank, n = ndim_of(y), shape_of(y)[axis]
        if not n and x is None:
            raise IndexError(explain(f"index is out of bounds for axis {axis} with size 0",
                                     fix="check the size first."))

        def pairs(v: Any, start: int, at: int = axis) -> Any:
            size = shape_of(v)[at]
            return sh.slice_in_dim(v, min(start, size), max(0, size - 1 + start), at)

        if x is not None:
            step = util.array(step)
            more = ndim_of(step)  # axes are aligned at the end
            at = axis - rank + more if more > 1 else 0
            step = ew.sub(pairs(step, 1, at), pairs(step, 0, at))
            if ndim_of(step) == 1:
                step = sh.reshape(step, [shape_of(step)[0] if i == axis else 1
                                         for i in range(rank)])
        sums = ew.add(pairs(y, 1), pairs(y, 0)) if n else y
        shape = util.common_shape("trapezoid", [shape_of(step), shape_of(sums)])
        area = ew.mul(util.broadcast_nonscalar(step, shape), util.broadcast_to(sums, shape))
        out = total(area, axis=axis - rank)
        return ew.mul(out, ew.const(out, 0.5))


__all__ = ["cumprod", "cumsum", "cumulative_prod", "cumulative_sum", "ediff1d", "gradient",
           "nancumprod", "nancumsum", "trapezoid"]
