"""Elements in another order: flip, rot90, roll; triangles and diagonals of matrices."""
from __future__ import annotations

import operator
from typing import Any

import numpy as np

from calque.core import dtypes
from calque.core.avals import dtype_of, ndim_of, shape_of
from calque.core.errors import explain
from calque.lax.operands import as_size, canonical_axis
from calque.numpy import util
from calque.numpy.arithmetic import choose, constant, remainder
from calque.numpy.creation import below
from calque.numpy.reductions import sum as total
from calque.numpy.shapes import moveaxis, ravel, reshape, swapaxes
from calque.primitives import elementwise as ew
from calque.primitives import index as ix
from calque.primitives import shape as sh


@util.planned
def flip(m: Any, axis: Any = None) -> Any:
    """Elements in reverse order along axes.

    Args:
      m: array.
      axis: the axis or axes; None for all.

    Returns:
      An array of the same shape.

    Raises:
      ValueError: an axis is out of bounds.

    Example:
      >>> import calque.numpy as jnp
      >>> jnp.flip(jnp.arange(3))
      Array([2, 1, 0], dtype=int32)
    """
    x = util.one_array("flip", m)
    axes = util.axis_tuple(axis, ndim_of(x))
    return sh.rev(x, axes) if axes else util.array(x)


@util.planned
def fliplr(m: Any) -> Any:
    """Columns in reverse order.

    Args:
      m: array or scalar.

    Returns:
      An array with the same elements.

    Raises:
      TypeError: an argument is not an array or a number (lists are not accepted), or its dtype is
        not one the function is defined for.

    Example:
      >>> import calque.numpy as jnp
      >>> jnp.fliplr(jnp.array([[1, 2]]))
      Array([[2, 1]], dtype=int32)
    """
    return flip(m, 1)


@util.planned
def flipud(m: Any) -> Any:
    """Rows in reverse order.

    Args:
      m: array or scalar.

    Returns:
      An array with the same elements.

    Raises:
      TypeError: an argument is not an array or a number (lists are not accepted), or its dtype is
        not one the function is defined for.

    Example:
      >>> import calque.numpy as jnp
      >>> jnp.flipud(jnp.array([1, 2]))
      Array([2, 1], dtype=int32)
    """
    return flip(m, 0)


@util.planned
def rot90(m: Any, k: int = 1, axes: tuple[int, int] = (0, 1)) -> Any:
    """Rotated by k quarter turns in the plane of two axes, from the first to the second.

    Args:
      m: array with at least two axes.
      k: the number of quarter turns.
      axes: the plane.

    Returns:
      An array with the same elements.

    Raises:
      ValueError: m has fewer than two axes, or the axes are equal.

    Example:
      >>> import calque.numpy as jnp
      >>> jnp.rot90(jnp.array([[1, 2], [3, 4]]))
      Array([[2, 4],
             [1, 3]], dtype=int32)
    """
    x = util.one_array("rot90", m)
    rank = ndim_of(x)
    if rank < 2:
        raise ValueError(explain(
            "rot90 requires its first argument to have ndim at least two, but got first argument "
            f"of shape {shape_of(x)}, which has ndim {rank}"))
    first, second = (canonical_axis(a, rank) for a in axes)
    if first == second:
        raise ValueError(explain("Axes must be different"))
    turns = int(k) % 4
    with util.lazy_eval("rot90"):
        if turns == 0:
            return util.array(x)
        if turns == 2:
            return flip(x, (first, second))
        if turns == 1:
            return swapaxes(flip(x, second), first, second)
        return flip(swapaxes(x, first, second), second)


@util.planned
def roll(a: Any, shift: Any, axis: Any = None) -> Any:
    """Elements shifted along axes; those that leave enter at the other end.

    Args:
      a: array.
      shift: how far, a number or one for each axis; may be traced.
      axis: the axis or axes; None rolls the flattened array.

    Returns:
      An array of the same shape.

    Raises:
      ValueError: an axis is out of bounds.

    Example:
      >>> import calque.numpy as jnp
      >>> jnp.roll(jnp.arange(3), 1)
      Array([2, 0, 1], dtype=int32)
    """
    x = util.one_array("roll", a)
    if axis is None:
        with util.lazy_eval("roll"):
            line = roll(ravel(x), shift, 0)
            return reshape(line, shape_of(x))
    own = shape_of(x)
    axes = (axis,) if hasattr(axis, "__index__") else tuple(axis)
    if hasattr(shift, "__jax_array__"):
        shift = shift.__jax_array__()
    if isinstance(shift, (tuple, list)) and any(map(_is_traced, shift)):
        shift = sh.concatenate([ew.convert(ravel(util.array(s)), dtypes.int32) for s in shift], 0)
    if _is_traced(shift):
        return _roll_traced(x, shift, [canonical_axis(i, len(own)) for i in axes])
    shifts = np.atleast_1d(_static(shift)).astype(np.int64)  # floats, too: towards 0
    pairs = np.broadcast(shifts, np.asarray([canonical_axis(i, len(own)) for i in axes]))
    with util.lazy_eval("roll"):
        for distance, i in pairs:
            n = own[i]
            if n and distance % n:
                cut = n - int(distance) % n
                x = sh.concatenate([sh.slice_in_dim(x, cut, n, int(i)),
                                    sh.slice_in_dim(x, 0, cut, int(i))], int(i))
        return util.array(x)


def _is_traced(shift: Any) -> bool:
    return hasattr(shift, "aval") and shift.concrete() is None


def _static(shift: Any) -> Any:
    """Shifts as NumPy values."""
    return shift.concrete()._numpy() if hasattr(shift, "aval") else shift


def _roll_traced(x: Any, shift: Any, axes: list[int]) -> Any:
    """Each axis twice, from a position that is computed."""
    own = shape_of(x)
    if ndim_of(shift) > 1:
        raise ValueError(explain(
            "'shift' and 'axis' arguments to roll must be scalars or 1D arrays"))
    with util.lazy_eval("roll"):
        shifts = ew.convert(ravel(shift), dtypes.int32)
        count = shape_of(shifts)[0]
        (count,) = np.broadcast_shapes((count,), (len(axes),))  # (ValueError where they differ)
        shifts, axes = util.broadcast_to(shifts, (count,)), axes * (count // len(axes) or 1)
        for k, i in enumerate(axes):
            distance = sh.reshape(sh.slice_in_dim(shifts, k, k + 1, 0), ())
            n = own[i]
            if n:
                size = np.int32(n)
                start = ew.sub(size, remainder(distance, size))
                starts = [start if d == i else np.int32(0) for d in range(len(own))]
                x = ix.dynamic_slice(sh.concatenate([x, x], int(i)), starts, own)
        return util.array(x)


# ---- triangles and diagonals
def _triangle(name: str, m: Any, k: int, lower: bool) -> Any:
    x = util.one_array(name, m)
    own = shape_of(x)
    if len(own) < 2:
        raise ValueError(explain(f"Argument to jax.numpy.{name} must be at least 2D"))
    with util.lazy_eval(name):
        x = util.array(x)
        k = as_size(name, k)
        mask = below(own[-2], own[-1], k if lower else k - 1)
        mask = util.broadcast_to(mask, own)
        zero = constant(x, 0) if dtype_of(x) != np.bool_ else np.False_
        return choose(mask, x, zero) if lower else choose(mask, zero, x)


@util.planned
def tril(m: Any, k: int = 0) -> Any:
    """The elements on and below a diagonal, 0 above.

    Args:
      m: array with at least two axes.
      k: the diagonal.

    Returns:
      An array of m's shape.

    Raises:
      ValueError: m has fewer than two axes.

    Example:
      >>> import calque.numpy as jnp
      >>> jnp.tril(jnp.ones((2, 2)))
      Array([[1., 0.],
             [1., 1.]], dtype=float32)
    """
    return _triangle("tril", m, k, True)


@util.planned
def triu(m: Any, k: int = 0) -> Any:
    """The elements on and above a diagonal, 0 below.

    Args:
      m: array with at least two axes.
      k: the diagonal.

    Returns:
      An array of m's shape.

    Raises:
      ValueError: m has fewer than two axes.

    Example:
      >>> import calque.numpy as jnp
      >>> jnp.triu(jnp.ones((2, 2)))
      Array([[1., 1.],
             [0., 1.]], dtype=float32)
    """
    return _triangle("triu", m, k, False)


# ---- diagonals
@util.planned
def diagonal(a: Any, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Any:
    """A diagonal in the plane of two axes; it becomes the last axis.

    Args:
      a: array with at least two axes.
      offset: which diagonal: 0 the main one, positive above, negative below.
      axis1: the rows.
      axis2: the columns.

    Returns:
      An array with one axis fewer.

    Raises:
      ValueError: a has fewer than two axes, or the axes are equal.

    Example:
      >>> import calque.numpy as jnp
      >>> jnp.diagonal(jnp.array([[1, 2], [3, 4]]))
      Array([1, 4], dtype=int32)
    """
    x = util.one_array("diagonal", a)
    rank = ndim_of(x)
    if rank < 2:
        raise ValueError(explain("diagonal requires an array of at least two dimensions."))
    rows, columns = canonical_axis(axis1, rank), canonical_axis(axis2, rank)
    if rows == columns:
        raise ValueError(explain("axis1 and axis2 cannot be the same"))
    with util.lazy_eval("diagonal"):
        return _diagonal(moveaxis(x, (rows, columns), (-2, -1)), operator.index(offset))


def _diagonal(x: Any, k: int) -> Any:
    """The diagonal of the last two axes: every (n + 1)-th element of the flattened matrix."""
    *lead, m, n = shape_of(x)
    first = k if k >= 0 else -k * n
    count = max(0, min(m, n - k) if k >= 0 else min(m + k, n))
    x = reshape(x, (*lead, m * n))
    if not count:
        return sh.slice_in_dim(x, 0, 0, len(lead))
    return sh.slice_in_dim(x, first, first + (count - 1) * (n + 1) + 1, len(lead), n + 1)


@util.planned
def diag(v: Any, k: int = 0) -> Any:
    """The matrix with a vector on its diagonal, or the diagonal of a matrix.

    Args:
      v: a vector or a matrix.
      k: which diagonal.

    Returns:
      A matrix or a vector.

    Raises:
      ValueError: v has neither one nor two axes.

    Example:
      >>> import calque.numpy as jnp
      >>> jnp.diag(jnp.array([1, 2]))
      Array([[1, 0],
             [0, 2]], dtype=int32)
    """
    x = util.one_array("diag", v)
    rank = ndim_of(x)
    if rank == 2:
        return diagonal(x, k)
    if rank != 1:
        raise ValueError(explain("diag input must be 1d or 2d"))
    with util.lazy_eval("diag"):
        (n,), k = shape_of(x), operator.index(k)
        size = n + abs(k)
        full = sh.broadcast_in_dim(x, (n, n), (0,))
        row, column = (sh.iota(dtypes.int32, (n, n), i) for i in (0, 1))
        zero = constant(x, 0) if dtype_of(x) != np.bool_ else np.False_
        made = choose(ew.eq(row, column), full, zero)
        above, left = max(-k, 0), max(k, 0)
        return made if size == n else sh.pad(made, zero, ((above, size - n - above, 0),
                                                          (left, size - n - left, 0)))


@util.planned
def diagflat(v: Any, k: int = 0) -> Any:
    """The matrix with the elements of an array on its diagonal.

    Args:
      v: array, flattened.
      k: which diagonal.

    Returns:
      A matrix.

    Raises:
      TypeError: v is no array.

    Example:
      >>> import calque.numpy as jnp
      >>> jnp.diagflat(jnp.ones((2, 2))).shape
      (4, 4)
    """
    x = util.one_array("diagflat", v)
    with util.lazy_eval("diagflat"):
        return diag(util.cast(ravel(x), dtype_of(x)), k)


@util.planned
def trace(a: Any, offset: int = 0, axis1: int = 0, axis2: int = 1, dtype: Any = None,
          out: None = None) -> Any:
    """Sum of a diagonal in the plane of two axes.

    Args:
      a: array with at least two axes.
      offset: which diagonal.
      axis1: the rows.
      axis2: the columns.
      dtype: the dtype of the result.
      out: not supported.

    Returns:
      An array with two axes fewer.

    Raises:
      ValueError: a has fewer than two axes.

    Example:
      >>> import calque.numpy as jnp
      >>> jnp.trace(jnp.array([[1, 2], [3, 4]]))
      Array(5, dtype=int32)
    """
    util.refuse_out("trace", out)
    x = util.one_array("trace", a)
    with util.lazy_eval("trace"):
        return total(diagonal(x, offset, axis1, axis2), axis=-1, dtype=dtype)


__all__ = ["diag", "diagflat", "diagonal", "flip", "fliplr", "flipud", "roll", "rot90", "trace",
           "tril", "triu"]
