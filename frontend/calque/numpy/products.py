"""kron and cross; cov and corrcoef; interp and unwrap; resize and block."""
from __future__ import annotations

import math
from typing import Any

import numpy as np

from calque.core import dtypes
from calque.core.avals import dtype_of, ndim_of, shape_of
from calque.core.errors import explain
from calque.lax.operands import as_sizes
from calque.numpy import arithmetic as ar
from calque.numpy import creation, join, means, picking, rounding, util
from calque.numpy import reductions as rd
from calque.numpy.contract import dot
from calque.numpy.cumulative import cumsum
from calque.numpy.logic import where
from calque.numpy.parts import conj, imag, real
from calque.numpy.shapes import moveaxis, ravel, squeeze
from calque.numpy.sorting import argsort, searchsorted
from calque.primitives import elementwise as ew
from calque.primitives import shape as sh


# ---- products
@util.planned
def kron(a: Any, b: Any) -> Any:
    """Kronecker product: every element of a times all of b.

    Args:
      a: array.
      b: array; dtypes are promoted.

    Returns:
      An array whose sizes are the products of a's and b's (aligned at the last axis).

    Raises:
      TypeError: an argument is not an array.

    Example:
      >>> import calque.numpy as jnp
      >>> jnp.kron(jnp.array([1, 10]), jnp.array([1, 2]))
      Array([ 1,  2, 10, 20], dtype=int32)
    """
    util.check_arrays("kron", a, b)
    with util.lazy_eval("kron"):
        x, y = (util.array(v) for v in util.promote("kron", a, b))
        rank = max(ndim_of(x), ndim_of(y))
        m, n = ((1,) * (rank - ndim_of(v)) + shape_of(v) for v in (x, y))
        full = tuple(k for pair in zip(m, n) for k in pair)
        x = sh.broadcast_in_dim(sh.reshape(x, m), full, tuple(range(0, 2 * rank, 2)))
        y = sh.broadcast_in_dim(sh.reshape(y, n), full, tuple(range(1, 2 * rank, 2)))
        prim = ew.and_p if dtype_of(x) == dtypes.bool_ else ew.mul_p
        return sh.reshape(prim.bind(x, y), tuple(i * j for i, j in zip(m, n)))


@util.planned
def cross(a: Any, b: Any, axisa: int = -1, axisb: int = -1, axisc: int = -1,
          axis: int | None = None) -> Any:
    """Cross product of vectors of 3 elements; of 2 elements: the third component.

    Args:
      a: array.
      b: array; dtypes are promoted, other axes broadcast.
      axisa: axis of a's vectors.
      axisb: axis of b's vectors.
      axisc: axis of the result's vectors.
      axis: all three.

    Returns:
      An array.

    Raises:
      TypeError: an argument is not an array.
      ValueError: an axis is out of bounds, or its size is not 2 or 3.

    Example:
      >>> import calque.numpy as jnp
      >>> jnp.cross(jnp.array([1, 0, 0]), jnp.array([0, 1, 0]))
      Array([0, 0, 1], dtype=int32)
    """
    util.check_arrays("cross", a, b)
    if axis is not None:
        axisa = axisb = axisc = axis
    with util.lazy_eval("cross"):
        x, y = (util.array(v) for v in util.promote("cross", a, b))
        x, y = moveaxis(x, axisa, -1), moveaxis(y, axisb, -1)
        sizes = shape_of(x)[-1], shape_of(y)[-1]
        if any(n not in (2, 3) for n in sizes):
            raise ValueError(explain("Dimension must be either 2 or 3 for cross product",
                                     fix=f"the sizes are {sizes}."))
        first, second = ([v[..., i] for i in range(n)] for v, n in zip((x, y), sizes))
        flat = first[0] * second[1] - first[1] * second[0]
        if sizes == (2, 2):
            return flat
        none = creation.zeros((), dtype_of(x))
        f, s = ([*v, none][:3] for v in (first, second))
        parts = util.broadcast_all(
            "cross", f[1] * s[2] - f[2] * s[1], f[2] * s[0] - f[0] * s[2], flat)
        return join.stack(parts, axis=axisc)


# ---- statistics of pairs
@util.planned
def cov(m: Any, y: Any = None, rowvar: bool = True, bias: bool = False, ddof: int | None = None,
        fweights: Any = None, aweights: Any = None, dtype: Any = None) -> Any:
    """Covariance matrix of variables.

    Args:
      m: a variable (vector), or several (matrix).
      y: more variables of the same number of observations.
      rowvar: variables are rows (True) or columns.
      bias: divide by the number of observations instead of one less.
      ddof: subtracted from the number of observations; overrides bias.
      fweights: int vector: how often each observation was made.
      aweights: vector: how much each observation counts.
      dtype: of the result.

    Returns:
      A matrix; a scalar of one variable.

    Raises:
      TypeError: an argument is not an array, or fweights are no integers.
      ValueError: m or y has more than two axes, weights do not fit, dtype is no float or complex
        dtype, or ddof is no integer.

    Example:
      >>> import calque.numpy as jnp
      >>> jnp.cov(jnp.array([[1.0, 2.0, 3.0], [3.0, 2.0, 1.0]]))
      Array([[ 1., -1.],
             [-1.,  1.]], dtype=float32)
    """
    values = util.check_arrays("cov", m, *(() if y is None else (y,)))
    for name, v in zip("my", values):
        if ndim_of(v) > 2:
            raise ValueError(explain(f"{name} has more than 2 dimensions",
                                     fix="reshape it to variables by observations."))
    if dtype is not None and not dtypes.is_inexact(util.user_dtype("cov", dtype)):
        raise ValueError(explain(
            f"cov: dtype must be a subclass of float or complex; got dtype={dtype!r}"))
    if ddof is not None and int(ddof) != ddof:
        raise ValueError(explain("ddof must be integer", fix=f"not {ddof!r}."))
    if ddof is None:
        ddof = 0 if bias else 1
    with util.lazy_eval("cov"):
        kind = util.to_inexact(util.joined(values)[0]) if dtype is None else (
            util.user_dtype("cov", dtype))
        x, *more = (_variables(ew.convert(util.array(v), kind), rowvar) for v in values)
        if not shape_of(x)[0]:
            return creation.zeros((0, 0), kind)
        x = join.concatenate([x, *more]) if more else x
        weights = _weights(shape_of(x)[1], fweights, aweights)
        mean, total = means.average(x, axis=1, weights=weights, returned=True)
        total = total[0]
        if weights is None:
            observed = shape_of(x)[1]
            total = observed - ddof if observed else np.nan
        elif ddof == 0:
            pass
        elif aweights is None:
            total = total - ddof
        else:
            a = util.one_array("cov", aweights)
            total = total - ddof * rd.sum(weights * a) / total
        x = x - mean[:, None]
        scaled = x if weights is None else x * weights
        return squeeze(real(dot(x, conj(scaled).T)) / total if kind.kind != "c"
                       else dot(x, conj(scaled).T) / total)


def _variables(x: Any, rowvar: bool) -> Any:
    shape = shape_of(x)
    if len(shape) < 2:
        return sh.reshape(x, (1, math.prod(shape)))
    return x if rowvar or shape[0] == 1 else x.T


def _weights(count: int, fweights: Any, aweights: Any) -> Any:
    made = None
    for name, w in (("fweights", fweights), ("aweights", aweights)):
        if w is None:
            continue
        w = util.one_array("cov", w)
        if name == "fweights" and not dtypes.is_integer(dtype_of(w)):
            raise TypeError(explain("fweights must be integer."))
        if ndim_of(w) > 1:
            raise ValueError(explain(f"cannot handle multidimensional {name}"))
        if shape_of(w) != (count,):
            raise ValueError(explain(f"incompatible numbers of samples and {name}"))
        w = ar.abs(util.array(w))
        made = w if made is None else made * w
    return made


@util.planned
def corrcoef(x: Any, y: Any = None, rowvar: bool = True, dtype: Any = None) -> Any:
    """Correlation coefficients of variables.

    Args:
      x: a variable (vector), or several (matrix).
      y: more variables of the same number of observations.
      rowvar: variables are rows (True) or columns.
      dtype: of the result.

    Returns:
      A matrix; a scalar of one variable.

    Raises:
      TypeError: an argument is not an array.
      ValueError: x or y has more than two axes.

    Example:
      >>> import calque.numpy as jnp
      >>> jnp.corrcoef(jnp.array([[1.0, 2.0, 3.0], [3.0, 2.0, 1.0]]))
      Array([[ 1., -1.],
             [-1.,  1.]], dtype=float32)
    """
    c = cov(x, y, rowvar, dtype=dtype)
    with util.lazy_eval("corrcoef"):
        if not shape_of(c):
            return c / c
        deviations = ew.sqrt(real(c.diagonal()))
        c = c / deviations[:, None] / deviations[None, :]
        if util.is_complex(c):
            return ew.complex_(rounding.clip(real(c), -1, 1), rounding.clip(imag(c), -1, 1))
        return rounding.clip(c, -1, 1)


# ---- one-dimensional interpolation
@util.planned
def interp(x: Any, xp: Any, fp: Any, left: Any = None, right: Any = None,
           period: Any = None) -> Any:
    """Piecewise linear interpolation through the points (xp, fp).

    Args:
      x: where to interpolate.
      xp: vector of increasing places.
      fp: vector of values.
      left: value for x < xp[0] (fp[0] by default); 'extrapolate': go on in a straight line.
      right: value for x > xp[-1] (fp[-1] by default), or 'extrapolate'.
      period: x and xp count modulo this; left and right are not used.

    Returns:
      An array of x's shape.

    Raises:
      TypeError: an argument is not an array.
      ValueError: xp and fp are no vectors of one length, or period is 0.

    Example:
      >>> import calque.numpy as jnp
      >>> jnp.interp(1.5, jnp.array([1.0, 2.0]), jnp.array([10.0, 20.0]))
      Array(15., dtype=float32)
    """
    util.check_arrays("interp", x, xp, fp)
    if shape_of(xp) != shape_of(fp) or ndim_of(xp) != 1:
        raise ValueError(explain("xp and fp must be one-dimensional arrays of equal size",
                                 fix=f"they have shapes {shape_of(xp)} and "
                                     f"{shape_of(fp)}."))
    for end in (left, right):
        if isinstance(end, str) and end != "extrapolate":
            raise ValueError(explain("the only valid string value of `left` and `right` is "
                                     f"'extrapolate', but got: {end!r}"))
    with util.lazy_eval("interp"):
        x, xp = util.inexact_arrays("interp", x, xp)
        (fp,) = util.inexact_arrays("interp", fp)
        if util.is_complex(xp):
            raise ValueError(explain("jnp.interp: complex x values not supported."))
        if period is not None:
            if shape_of(period):
                raise ValueError(explain(
                    f"period must be a scalar; got an array of shape {shape_of(period)}"))
            if not hasattr(period, "aval") and period == 0:
                raise ValueError(explain("period must be a non-zero value; got 0"))
            x, xp, fp = _periodic(x, xp, fp, ar.abs(period))
            left = right = "extrapolate"  # never needed: the points reach beyond
        n = shape_of(xp)[0]
        if n == 0:
            if not shape_of(x):
                raise IndexError(explain("index is out of bounds for axis 0 with size 0: "
                                         "array of sample points is empty"))
            raise TypeError(explain("Slice size at index 0 in gather op is out of range, must be "
                                    "within [0, 0 + 1), got 1: array of sample points is empty"))
        above = rounding.clip(searchsorted(xp, x, side="right"), 1, max(n - 1, 1))
        last = rounding.clip(above, 0, n - 1)
        x0, y0 = (picking.take(v, above - 1) for v in (xp, fp))
        dx, dy = (picking.take(v, last) - u for v, u in ((xp, x0), (fp, y0)))
        tiny = np.spacing(dtypes.finfo(dtype_of(xp)).eps)
        equal = ar.abs(dx) <= tiny
        out = where(equal, y0, y0 + (x - x0) / where(equal, 1, dx) * dy)
        if left != "extrapolate" if isinstance(left, str) else True:
            out = where(x < xp[0], fp[0] if left is None else left, out)
        if right != "extrapolate" if isinstance(right, str) else True:
            out = where(x > xp[-1], fp[-1] if right is None else right, out)
        return out


def _periodic(x: Any, xp: Any, fp: Any, period: Any) -> tuple[Any, Any, Any]:
    """The points of one period in order, and one more at either end."""
    x, xp = ar.remainder(x, period), ar.remainder(xp, period)
    order = argsort(xp)
    xp, fp = picking.take(xp, order), picking.take(fp, order)
    return (x, join.concatenate([xp[-1:] - period, xp, xp[:1] + period]),
            join.concatenate([fp[-1:], fp, fp[:1]]))


@util.planned
def unwrap(p: Any, discont: Any = None, axis: int = -1, period: Any = 2 * math.pi) -> Any:
    """Jumps of more than half a period are taken back by whole periods.

    Args:
      p: array.
      discont: the least jump that is taken back; half a period by default.
      axis: the axis.
      period: of the values.

    Returns:
      An array.

    Raises:
      TypeError: p is not an array.
      ValueError: p is complex, or the axis is out of bounds.

    Example:
      >>> import calque.numpy as jnp
      >>> jnp.unwrap(jnp.array([0, 1, 2, -1, 0]), period=4)
      Array([0, 1, 2, 3, 4], dtype=int32)
    """
    p = util.one_array("unwrap", p)
    if util.is_complex(p):
        raise ValueError(explain("jnp.unwrap does not support complex inputs.",
                                 fix="unwrap the angle: jnp.unwrap(jnp.angle(p))."))
    with util.lazy_eval("unwrap"):
        p = util.array(p)
        whole = isinstance(period, (int, np.integer)) and dtypes.is_integer(dtype_of(p))
        if not whole:  # before differences are taken, which would wrap
            p = util.cast(p, util.to_inexact(dtype_of(p)), util.weak_of(p))
        if not shape_of(p) or not shape_of(p)[axis]:
            return p
        high = period // 2 if whole else period / 2
        ambiguous = period % 2 == 0 if whole else True
        jump = join.diff(p, axis=axis)
        inside = ar.remainder(jump + high, period) - high
        if ambiguous:
            inside = where((inside == -high) & (jump > 0), high, inside)
        limit = period / 2 if discont is None else discont
        back = where(ar.abs(jump) < limit, 0, inside - jump)
        moved = moveaxis(p, axis, 0)
        rest = moved[1:] + cumsum(moveaxis(back, axis, 0), axis=0)
        return moveaxis(join.concatenate([moved[:1].astype(dtype_of(rest)), rest]), 0, axis)


# ---- shapes
@util.planned
def resize(a: Any, new_shape: Any) -> Any:
    """The elements of a in another shape, repeated from the start where there are too few.

    Args:
      a: array.
      new_shape: sizes of the axes.

    Returns:
      An array of the shape; of zeros if a is empty.

    Raises:
      TypeError: a is not an array, or the shape is none.
      ValueError: a size is negative.

    Example:
      >>> import calque.numpy as jnp
      >>> jnp.resize(jnp.array([1, 2, 3]), (2, 2))
      Array([[1, 2],
             [3, 1]], dtype=int32)
    """
    a = util.one_array("resize", a)
    sizes = as_sizes("resize", new_shape)
    if any(n < 0 for n in sizes):
        raise ValueError(explain("all elements of `new_shape` must be non-negative"))
    total, own = math.prod(sizes), math.prod(shape_of(a))
    with util.lazy_eval("resize"):
        x = ravel(util.array(a))
        if not own or not total:
            return creation.zeros(sizes, dtype_of(x))
        if total > own:
            x = join.tile(x, -(-total // own))
        return sh.reshape(x[:total], sizes)


@util.planned
def block(arrays: Any) -> Any:
    """One array of blocks: innermost lists are joined along the last axis, the next along the one
    before, and so on.

    Args:
      arrays: array, or nested lists of arrays of one depth.

    Returns:
      An array of the promoted dtype.

    Raises:
      TypeError: a block is not an array.
      ValueError: a list is empty, depths differ, or sizes do not fit.

    Example:
      >>> import calque.numpy as jnp
      >>> a = jnp.ones((1, 1), int)
      >>> jnp.block([[a, 2 * a], [3 * a, 4 * a]])
      Array([[1, 2],
             [3, 4]], dtype=int32)
    """
    with util.lazy_eval("block"):
        return _block(arrays)[0]


def _block(x: Any) -> tuple[Any, int]:
    """(joined array, 1 + depth of the lists)."""
    if isinstance(x, tuple):
        raise ValueError(explain(f"jax.numpy.block does not allow tuples, got {x}",
                                 fix="use lists."))
    if not isinstance(x, list):
        x = util.one_array("block", x)
        return util.array(x), 1
    if not x:
        raise ValueError(explain("jax.numpy.block does not allow empty list arguments"))
    parts, depths = zip(*map(_block, x))
    if len(set(depths)) > 1:
        raise ValueError(explain("Mismatched list depths in jax.numpy.block"))
    rank = max(depths[0], *(ndim_of(p) for p in parts))
    parts = [sh.reshape(p, (1,) * (rank - ndim_of(p)) + shape_of(p))  # type: ignore[assignment]
             for p in parts]
    return join.concatenate(parts, axis=-depths[0]), depths[0] + 1


__all__ = ["block", "corrcoef", "cov", "cross", "interp", "kron", "resize", "unwrap"]
