"""Elements in another order: flip, rot90, roll; triangles of matrices: tril, triu."""
from __future__ import annotations

from typing import Any

import numpy as np

from calque.core.errors import explain
from calque.lax.operands import as_size, canonical_axis
from calque.numpy import util
from calque.numpy.arithmetic import choose, constant
from calque.numpy.creation import below
from calque.numpy.documents import named
from calque.numpy.shapes import ravel, reshape, swapaxes
from calque.primitives import shape as sh

_MOVED = "An array with the same elements."


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
    (x,) = util.check_arrays("flip", m)
    axes = util.axis_tuple(axis, len(util.shape_of(x)))
    return sh.rev(x, axes) if axes else util.array(x)


@named("Columns in reverse order.", ["m"], _MOVED, "jnp.fliplr(jnp.array([[1, 2]]))",
       "Array([[2, 1]], dtype=int32)")
def fliplr(m: Any) -> Any:
    return flip(m, 1)


@named("Rows in reverse order.", ["m"], _MOVED, "jnp.flipud(jnp.array([1, 2]))",
       "Array([2, 1], dtype=int32)")
def flipud(m: Any) -> Any:
    return flip(m, 0)


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
    (x,) = util.check_arrays("rot90", m)
    rank = len(util.shape_of(x))
    if rank < 2:
        raise ValueError(explain(
            "rot90 requires its first argument to have ndim at least two, but got first argument "
            f"of shape {util.shape_of(x)}, which has ndim {rank}"))
    first, second = (canonical_axis(a, rank) for a in axes)
    if first == second:
        raise ValueError(explain("Axes must be different"))
    turns = int(k) % 4
    with util.fused("rot90"):
        if turns == 0:
            return util.array(x)
        if turns == 2:
            return flip(x, (first, second))
        if turns == 1:
            return swapaxes(flip(x, second), first, second)
        return flip(swapaxes(x, first, second), second)


def roll(a: Any, shift: Any, axis: Any = None) -> Any:
    """Elements shifted along axes; those that leave enter at the other end.

    Args:
      a: array.
      shift: how far (static integers), one for each axis.
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
    (x,) = util.check_arrays("roll", a)
    if axis is None:
        with util.fused("roll"):
            line = roll(ravel(x), shift, 0)
            return reshape(line, util.shape_of(x))
    own = util.shape_of(x)
    axes = (axis,) if hasattr(axis, "__index__") else tuple(axis)
    shifts = np.asarray([as_size("roll", s) for s in np.atleast_1d(_static(shift))])
    pairs = np.broadcast(shifts, np.asarray([canonical_axis(i, len(own)) for i in axes]))
    with util.fused("roll"):
        for distance, i in pairs:
            n = own[i]
            if n and distance % n:
                cut = n - int(distance) % n
                x = sh.concatenate([sh.slice_in_dim(x, cut, n, int(i)),
                                    sh.slice_in_dim(x, 0, cut, int(i))], int(i))
        return util.array(x)


def _static(shift: Any) -> Any:
    """Shifts as NumPy values; a traced one is told to be static."""
    if hasattr(shift, "aval"):
        known = shift.concrete()
        if known is None:
            return [as_size("roll", shift)]
        return known._numpy()
    return shift


# ---- triangles and diagonals
def _triangle(name: str, m: Any, k: int, lower: bool) -> Any:
    (x,) = util.check_arrays(name, m)
    own = util.shape_of(x)
    if len(own) < 2:
        raise ValueError(explain(f"Argument to jax.numpy.{name} must be at least 2D"))
    with util.fused(name):
        x = util.array(x)
        mask = below(own[-2], own[-1], int(k) if lower else int(k) - 1)
        mask = util.spread(mask, own)
        zero = constant(x, 0) if util.dtype_of(x) != np.bool_ else np.False_
        return choose(mask, x, zero) if lower else choose(mask, zero, x)


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


__all__ = ["flip", "fliplr", "flipud", "roll", "rot90", "tril", "triu"]
