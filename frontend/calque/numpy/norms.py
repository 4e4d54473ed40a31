"""Norms of vectors and matrices, and condition numbers by them (numpy.linalg).

Start reading at `norm`.
"""
from __future__ import annotations

from typing import Any

import numpy as np

from calque.core.avals import dtype_of, ndim_of, shape_of
from calque.core.errors import explain
from calque.core.types import Axes
from calque.lax.operands import canonical_axis
from calque.numpy import util
from calque.numpy.arithmetic import power
from calque.numpy.decompositions import svdvals
from calque.numpy.reductions import max as amax
from calque.numpy.reductions import min as amin
from calque.numpy.reductions import sum as total
from calque.numpy.solvers import inv
from calque.primitives import elementwise as ew
from calque.primitives import shape as sh


def _inexact(name: str, x: Any) -> Any:
    return util.inexact_arrays(name, x)[0]


def _square(x: Any) -> Any:
    """|x|^2, real."""
    if util.is_complex(x):
        return ew.add(ew.square(ew.real(x)), ew.square(ew.imag(x)))
    return ew.mul(x, x)


@util.planned
def norm(x: Any, ord: Any = None, axis: Any = None, keepdims: bool = False) -> Any:
    """The norm of vectors or of matrices.

    Args:
      x: array.
      ord: order: see vector_norm and matrix_norm; None: the root of the sum of squares.
      axis: one axis (vectors), two axes (matrices), or None: all of x.
      keepdims: keep the axes with size 1.

    Returns:
      A real array.

    Raises:
      TypeError: x is no array.
      ValueError: ord is not known, or axis fits no norm.
      NotImplementedError: ord needs singular values and x is float16 or bfloat16.

    Example:
      >>> import calque.numpy as jnp
      >>> jnp.linalg.norm(jnp.array([3.0, 4.0]))
      Array(5., dtype=float32)
    """
    x = _inexact("jnp.linalg.norm", x)
    rank = ndim_of(x)
    if axis is None:
        if ord is None:
            return _vectors(x, 2, tuple(range(rank)), keepdims)
        axes: Axes = tuple(range(rank))
    else:
        given = axis if isinstance(axis, (tuple, list)) else (axis,)
        axes = tuple(canonical_axis(a, rank) for a in given)
        if len(set(axes)) != len(axes):
            raise ValueError(explain(f"duplicate value in 'axis': {axis}"))
    if len(axes) == 1:
        return _vectors(x, 2 if ord is None else ord, axes, keepdims)
    if len(axes) == 2:
        return _matrices(x, "fro" if ord is None else ord, axes, keepdims)
    raise ValueError(explain(
        f"Improper number of axes for norm: axis={axes}. Pass one axis to compute a vector-norm, "
        "or two axes to compute a matrix-norm."))


@util.planned
def vector_norm(x: Any, /, *, axis: Any = None, keepdims: bool = False, ord: Any = 2) -> Any:
    """(sum |x|^ord)^(1/ord) of vectors.

    Args:
      x: array.
      axis: an axis, several (taken as one), or None: all.
      keepdims: keep the axes with size 1.
      ord: a number; inf and -inf: the largest and least |x|; 0: how many are not 0.

    Returns:
      A real array; with ord 1, inf and -inf integers stay integers.

    Raises:
      TypeError: x is no array.
      ValueError: ord is not known, or an axis is out of bounds.

    Example:
      >>> import calque.numpy as jnp
      >>> jnp.linalg.vector_norm(jnp.array([3.0, -4.0]), ord=1)
      Array(7., dtype=float32)
    """
    x = util.one_array("jnp.linalg.vector_norm", x)
    if ord not in (1, np.inf, -np.inf) or dtype_of(x).kind == "b":  # these keep integers
        x = _inexact("jnp.linalg.vector_norm", x)
    rank = ndim_of(x)
    if axis is None:
        axes = tuple(range(rank))
    else:
        given = axis if isinstance(axis, (tuple, list)) else (axis,)
        axes = tuple(canonical_axis(a, rank) for a in given)
    return _vectors(x, ord, axes, keepdims)


def _vectors(x: Any, ord: Any, axes: Axes, keepdims: bool) -> Any:
    how: dict[str, Any] = {"axis": axes, "keepdims": keepdims}
    if isinstance(ord, str):
        raise ValueError(explain(f"Invalid order '{ord}' for vector norm.",
                                 fix="use a number, jnp.inf or -jnp.inf."))
    with util.lazy_eval("norm"):
        if not axes:  # a number: its absolute value, whatever the order
            x, how = sh.reshape(x, (*shape_of(x), 1)), {"axis": ndim_of(x)}
        if ord == 2:
            return ew.sqrt(total(_square(x), **how))
        size = ew.abs_(x)
        if ord == 0:
            there = ew.ne(x, ew.const(x, 0))
            return total(ew.convert(there, dtype_of(size)), **how)
        if ord == 1:
            return total(size, **how)
        if ord == np.inf:
            return amax(size, initial=0, **how)
        if ord == -np.inf:
            return amin(size, **how)
        return power(total(power(size, ord), **how), 1.0 / ord)


@util.planned
def matrix_norm(x: Any, /, *, keepdims: bool = False, ord: Any = "fro") -> Any:
    """The norm of matrices, over the last two axes.

    Args:
      x: array of shape (..., m, n).
      keepdims: keep the axes with size 1.
      ord: 'fro': the root of the sum of squares; 1 and -1: the largest and least sum of |x| down
        a column; inf and -inf: along a row; 2 and -2: the largest and least singular value;
        'nuc': the sum of singular values.

    Returns:
      A real array of shape (...).

    Raises:
      TypeError: x is no array.
      ValueError: ord is not known, or x has fewer than two axes.
      NotImplementedError: ord needs singular values and x is float16 or bfloat16.

    Example:
      >>> import calque.numpy as jnp
      >>> jnp.linalg.matrix_norm(jnp.array([[1.0, -2.0], [3.0, 4.0]]), ord=1)
      Array(6., dtype=float32)
    """
    x = _inexact("jnp.linalg.matrix_norm", x)
    rank = ndim_of(x)
    return _matrices(x, ord, (canonical_axis(-2, rank), canonical_axis(-1, rank)), keepdims)


def _matrices(x: Any, ord: Any, axes: Axes, keepdims: bool) -> Any:
    row, column = axes
    if ord in (2, -2, "nuc"):
        return _by_singular_values(x, ord, axes, keepdims)
    with util.lazy_eval("norm"):
        if ord == "fro":
            return ew.sqrt(total(_square(x), axis=axes, keepdims=keepdims))
        if ord not in (1, -1, np.inf, -np.inf):
            raise ValueError(explain(f"Invalid order '{ord}' for matrix norm.",
                                     fix="use 'fro', 'nuc', 1, -1, 2, -2, jnp.inf or "
                                         "-jnp.inf."))
        along, other = (row, column) if ord in (1, -1) else (column, row)
        sums = total(ew.abs_(x), axis=along, keepdims=True)
        if ord in (1, np.inf):
            out = amax(sums, axis=other, keepdims=True, initial=0)
        else:
            out = amin(sums, axis=other, keepdims=True)
        return out if keepdims else sh.squeeze(out, axes)


def _by_singular_values(x: Any, ord: Any, axes: Axes, keepdims: bool) -> Any:
    shape, rank = shape_of(x), ndim_of(x)
    with util.lazy_eval("norm"):
        s = svdvals(sh.transpose(x, (*[i for i in range(rank) if i not in axes], *axes)))
        if ord == "nuc":
            out = total(s, axis=-1)
        else:
            out = amax(s, axis=-1, initial=0) if ord == 2 else amin(s, axis=-1)
        kept = [1 if i in axes else n for i, n in enumerate(shape)]
        return sh.reshape(out, kept) if keepdims else out


@util.planned
def cond(x: Any, p: Any = None) -> Any:
    """The condition number: the norm of x times the norm of its inverse.

    Args:
      x: array of shape (..., n, n).
      p: order of the norm as in matrix_norm; None: 2, the quotient of the largest and the least
        singular value, for which x need not be square.

    Returns:
      A real array of shape (...); infinite where x is singular.

    Raises:
      ValueError: x is empty, or not square.
      NotImplementedError: x is float16 or bfloat16.

    Example:
      >>> import calque.numpy as jnp
      >>> jnp.linalg.cond(jnp.array([[1.0, 0.0], [0.0, 4.0]]), 1)
      Array(4., dtype=float32)
    """
    x = _inexact("jnp.linalg.cond", x)
    shape = shape_of(x)
    if len(shape) < 2:
        raise ValueError(explain(
            f"jnp.linalg.cond: input array must be at least 2D; got arr.shape={shape}"))
    if 0 in shape[-2:]:
        raise ValueError(explain(
            f"jnp.linalg.cond: input array must not be empty; got arr.shape={shape}"))
    spectral = p in (None, 2, -2)
    if not spectral and shape[-1] != shape[-2]:
        raise ValueError(explain(
            f"jnp.linalg.cond: for p={p}, array must be square; got arr.shape={shape}"))
    with util.lazy_eval("cond"):
        if spectral:
            s = svdvals(x)
            largest, least = s[..., 0], s[..., -1]
            found = ew.div(least, largest) if p == -2 else ew.div(largest, least)
        else:
            found = ew.mul(matrix_norm(x, ord=p), matrix_norm(inv(x), ord=p))
        lost = ew.ne(found, found)  # NaN of a singular matrix, unless x itself has one
        given = total(ew.convert(ew.ne(x, x), dtype_of(found)), axis=(-2, -1))
        lost = ew.and_(lost, ew.eq(given, ew.const(given, 0)))
        inf = sh.broadcast_in_dim(ew.const(found, np.inf), shape_of(found), ())
        return ew.select_n(lost, found, inf)


__all__ = ["cond", "matrix_norm", "norm", "vector_norm"]
