"""Products of vectors and matrices: dot, matmul, vdot, inner, outer, tensordot, vecdot, matvec,
vecmat.  All are one dot_general over promoted operands.
"""
from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from calque.core import dtypes
from calque.core.avals import dtype_of, ndim_of, shape_of
from calque.core.errors import explain
from calque.dispatch.sharded.placing import resharded
from calque.lax.contract import canonical_precision
from calque.lax.operands import canonical_axis
from calque.numpy import reductions, util
from calque.numpy.arithmetic import choose
from calque.numpy.parts import conj
from calque.primitives import contract as ct
from calque.primitives import elementwise as ew
from calque.primitives import shape as sh


def _operands(name: str, a: Any, b: Any, preferred: Any) -> tuple[Any, Any, Any, bool]:
    """Promoted operands, the result's dtype, and whether that is weak."""
    a, b = util.check_arrays(name, a, b)
    dtype, weak = util.joined((a, b))
    x, y = util.cast(a, dtype, weak), util.cast(b, dtype, weak)
    if preferred is not None:
        return x, y, util.user_dtype(name, preferred), False
    return x, y, dtype, weak


def _general(name: str, x: Any, y: Any, contract: Any, batch: Any, precision: Any, dtype: Any,
             weak: bool) -> Any:
    for i, j in zip(*contract):
        m, n = shape_of(x)[i], shape_of(y)[j]
        if type(m) is int and type(n) is int and m != n:  # JAX's words first
            sizes = [tuple(shape_of(v)[k] for k in axes) for v, axes in zip((x, y), contract)]
            raise TypeError(explain(
                f"dot_general requires contracting dimensions to have the same shape, got "
                f"{sizes[0]} and {sizes[1]}. {name} of shapes {shape_of(x)} and {shape_of(y)} sums "
                f"over axis {i} of the first, of size {m}, and axis {j} of the second, of size "
                f"{n}.", fix="transpose or slice one operand so that the contracted sizes agree."))
    out = ct.dot_general_p.bind(
        x, y, dimension_numbers=(contract, batch), precision=canonical_precision(precision),
        preferred_element_type=dtype, out_sharding=None)
    return ew.convert(out, dtype, weak) if weak else out


def _chosen(name: str, a: Any, b: Any, preferred: Any) -> Any:
    """The product of a vector of bools and one of floats: the sum of what is chosen, so that
    False chooses nothing of inf or NaN either (as XLA has it, for two vectors)."""
    a, b = util.check_arrays(name, a, b)
    if dtype_of(a) != dtypes.bool_:
        a, b = b, a
    shape = shape_of(a)
    if (dtype_of(a) != dtypes.bool_ or not dtypes.is_inexact(dtype_of(b))
            or preferred is not None or len(shape) != 1 or shape != shape_of(b)):
        return None
    b = util.array(b)
    return reductions.sum(choose(a, b, np.zeros((), dtype_of(b))[()]))


@util.planned
def dot(a: Any, b: Any, *, precision: Any = None, preferred_element_type: Any = None,
        out_sharding: Any = None) -> Any:
    """Product of arrays: inner product of vectors, matrix product, or the sum over the last axis of
    a and the second to last of b.

    Args:
      a: array.
      b: array; dtypes are promoted.
      precision: None, 'default', 'high', 'highest', a lax.Precision or a pair of them.
      preferred_element_type: the dtype of the result and of its accumulation.

    Returns:
      An array.

    Raises:
      TypeError: an argument is not an array, or the contracted sizes differ.

    Example:
      >>> import calque.numpy as jnp
      >>> jnp.dot(jnp.array([1, 2]), jnp.array([3, 4]))
      Array(11, dtype=int32)
    """
    if out_sharding is not None:
        return resharded("dot_general", out_sharding, dot, a, b, precision=precision,
                         preferred_element_type=preferred_element_type)
    with util.lazy_eval("dot"):
        chosen = _chosen("dot", a, b, preferred_element_type)
        if chosen is not None:
            return chosen
        x, y, dtype, weak = _operands("dot", a, b, preferred_element_type)
        m, n = ndim_of(x), ndim_of(y)
        if not m or not n:
            made = ew.mul(x, y) if dtype != dtypes.bool_ else ew.and_(x, y)
            return util.cast(made, dtype, weak)
        return _general("dot", x, y, ((m - 1,), (max(n - 2, 0),)), ((), ()), precision, dtype, weak)


@util.planned
def matmul(a: Any, b: Any, *, precision: Any = None, preferred_element_type: Any = None,
           out_sharding: Any = None) -> Any:
    """Matrix product over the last two axes; leading axes broadcast, vectors are contracted.

    Args:
      a: array of shape (..., m, k), or (k,).
      b: array of shape (..., k, n), or (k,); dtypes are promoted.
      precision: None, 'default', 'high', 'highest', a lax.Precision or a pair of them.
      preferred_element_type: the dtype of the result and of its accumulation.

    Returns:
      An array of shape (..., m, n).

    Raises:
      TypeError: an argument is not an array, or the contracted sizes differ.
      ValueError: an argument is a scalar, or leading axes do not broadcast.

    Example:
      >>> import calque.numpy as jnp
      >>> jnp.matmul(jnp.ones((2, 3)), jnp.ones((3, 4))).shape
      (2, 4)
    """
    if out_sharding is not None:
        return resharded("dot_general", out_sharding, matmul, a, b, precision=precision,
                         preferred_element_type=preferred_element_type)
    a, b = util.check_arrays("matmul", a, b)
    for i, v in enumerate((a, b)):
        if not shape_of(v):
            raise ValueError(explain(
                f"matmul input operand {i} must have ndim at least 1, but it has ndim 0",
                fix="use jnp.multiply for scalars."))
    with util.lazy_eval("matmul"):
        chosen = _chosen("matmul", a, b, preferred_element_type)
        if chosen is not None:
            return chosen
        x, y, dtype, weak = _operands("matmul", a, b, preferred_element_type)
        return _matmul(x, y, precision, dtype, weak)


def _matmul(x: Any, y: Any, precision: Any, dtype: Any, weak: bool) -> Any:
    """Axes that only one operand has (or has with size > 1) are its free axes, not a batch."""
    xs, ys = shape_of(x), shape_of(y)
    x_core, y_core = min(len(xs), 2), min(len(ys), 2)
    lead_x, lead_y = xs[:len(xs) - x_core], ys[:len(ys) - y_core]
    rank = max(len(lead_x), len(lead_y))
    try:
        lead = util.common_shape("matmul", [lead_x or (1,), lead_y or (1,)]) if rank else ()
    except TypeError:
        raise ValueError(explain(
            f"Incompatible shapes for matmul arguments: {xs} and {ys}",
            fix="make the leading axes equal or 1.")) from None
    x, batch_x = _drop_ones(x, lead_x, rank)
    y, batch_y = _drop_ones(y, lead_y, rank)
    shared = [i for i in range(rank) if i in batch_x and i in batch_y]
    xr, yr = ndim_of(x), ndim_of(y)
    contract = ((xr - 1,), (yr - 1 if y_core == 1 else yr - 2,))
    batch = (tuple(batch_x.index(i) for i in shared), tuple(batch_y.index(i) for i in shared))
    out = _general("matmul", x, y, contract, batch, precision, dtype, weak)
    # the result's axes: shared, x's own leading ones, m, y's own leading ones, n
    rows = ["m"] if x_core == 2 else []
    columns = ["n"] if y_core == 2 else []
    have: list[Any] = [*shared, *[i for i in batch_x if i not in shared], *rows,
                       *[i for i in batch_y if i not in shared], *columns]
    present = sorted(i for i in have if isinstance(i, int))
    want = [*present, *rows, *columns]
    out = sh.transpose(out, [have.index(i) for i in want])
    if len(present) < rank:  # both had size 1 there
        full = (*lead, *shape_of(out)[len(present):])
        out = sh.reshape(out, full)
    return out


def _drop_ones(x: Any, own: tuple[int, ...], rank: int) -> tuple[Any, list[int]]:
    """x without leading axes of size 1, and the result axes that the others are."""
    shift = rank - len(own)
    drop = tuple(i for i, n in enumerate(own) if n == 1)
    kept = [i + shift for i, n in enumerate(own) if n != 1]
    return (sh.squeeze(x, drop) if drop else x), kept


@util.planned
def vdot(a: Any, b: Any, *, precision: Any = None, preferred_element_type: Any = None) -> Any:
    """Sum of products of all elements; a is conjugated.

    Args:
      a: array.
      b: array; dtypes are promoted.
      precision: None, 'default', 'high', 'highest', a lax.Precision or a pair of them.
      preferred_element_type: the dtype of the result and of its accumulation.

    Returns:
      A scalar.

    Raises:
      TypeError: an argument is not an array, or the contracted sizes differ.

    Example:
      >>> import calque.numpy as jnp
      >>> jnp.vdot(jnp.array([1, 2]), jnp.array([3, 4]))
      Array(11, dtype=int32)
    """
    a, b = util.check_arrays("vdot", a, b)
    with util.lazy_eval("vdot"):
        x, y, dtype, weak = _operands("vdot", a, b, preferred_element_type)
        x, y = (sh.reshape(util.array(v), (math.prod(shape_of(v)),)) for v in (x, y))
        return _general("vdot", conj(x), y, ((0,), (0,)), ((), ()), precision, dtype, weak)


@util.planned
def inner(a: Any, b: Any, *, precision: Any = None, preferred_element_type: Any = None) -> Any:
    """Sum of products over the last axes.

    Args:
      a: array.
      b: array; dtypes are promoted.
      precision: None, 'default', 'high', 'highest', a lax.Precision or a pair of them.
      preferred_element_type: the dtype of the result and of its accumulation.

    Returns:
      An array.

    Raises:
      TypeError: an argument is not an array, or the contracted sizes differ.

    Example:
      >>> import calque.numpy as jnp
      >>> jnp.inner(jnp.array([1, 2]), jnp.array([3, 4]))
      Array(11, dtype=int32)
    """
    a, b = util.check_arrays("inner", a, b)
    if not shape_of(a) or not shape_of(b):
        return dot(a, b, precision=precision, preferred_element_type=preferred_element_type)
    with util.lazy_eval("inner"):
        x, y, dtype, weak = _operands("inner", a, b, preferred_element_type)
        axes = (ndim_of(x) - 1,), (ndim_of(y) - 1,)
        return _general("inner", x, y, axes, ((), ()), precision, dtype, weak)


@util.planned
def outer(a: Any, b: Any, out: None = None) -> Any:
    """Products of every element of a with every element of b.

    Args:
      a: array, flattened.
      b: array, flattened.
      out: not supported.

    Returns:
      An array of shape (a.size, b.size).

    Raises:
      TypeError: an argument is not an array.

    Example:
      >>> import calque.numpy as jnp
      >>> jnp.outer(jnp.array([1, 2]), jnp.array([3, 4]))
      Array([[3, 4],
             [6, 8]], dtype=int32)
    """
    util.refuse_out("outer", out)
    a, b = util.check_arrays("outer", a, b)
    with util.lazy_eval("outer"):
        x, y = (util.array(v) for v in util.promote("outer", a, b))
        m, n = (math.prod(shape_of(v)) for v in (x, y))
        x, y = sh.reshape(x, (m,)), sh.reshape(y, (n,))
        prim = ew.and_p if dtype_of(x) == dtypes.bool_ else ew.mul_p
        return prim.bind(sh.broadcast_in_dim(x, (m, n), (0,)),
                         sh.broadcast_in_dim(y, (m, n), (1,)))


@util.planned
def tensordot(a: Any, b: Any, axes: Any = 2, *, precision: Any = None,
              preferred_element_type: Any = None, out_sharding: Any = None) -> Any:
    """Sum of products over pairs of axes.

    Args:
      a: array.
      b: array; dtypes are promoted.
      axes: n for the last n axes of a and the first n of b, or a pair of axes or of lists of axes.
      precision: None, 'default', 'high', 'highest', a lax.Precision or a pair of them.
      preferred_element_type: the dtype of the result and of its accumulation.

    Returns:
      An array.

    Raises:
      TypeError: an argument is not an array, or the contracted sizes differ.

    Example:
      >>> import calque.numpy as jnp
      >>> jnp.tensordot(jnp.ones((2, 3)), jnp.ones((3, 4)), 1).shape
      (2, 4)
    """
    if out_sharding is not None:
        return resharded("dot_general", out_sharding, tensordot, a, b, axes, precision=precision,
                         preferred_element_type=preferred_element_type)
    a, b = util.check_arrays("tensordot", a, b)
    m, n = ndim_of(a), ndim_of(b)
    left, right = _pairs(axes, m, n)
    with util.lazy_eval("tensordot"):
        x, y, dtype, weak = _operands("tensordot", a, b, preferred_element_type)
        return _general("tensordot", x, y, (left, right), ((), ()), precision, dtype, weak)


def _pairs(axes: Any, m: int, n: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    if hasattr(axes, "__index__") and not isinstance(axes, (tuple, list, bool)):
        count = operator.index(axes)
        if count > min(m, n):
            raise TypeError(explain(
                f"Number of tensordot axes (axes {count}) exceeds input ranks ({m} and {n})"))
        return tuple(range(m - count, m)), tuple(range(max(count, 0)))
    if isinstance(axes, (tuple, list)) and len(axes) == 2:
        left, right = axes
        if hasattr(left, "__index__") and hasattr(right, "__index__"):
            left, right = (left,), (right,)
        if isinstance(left, Sequence) and isinstance(right, Sequence):
            if len(left) != len(right):
                raise TypeError(explain(
                    "tensordot requires axes lists to have equal length, got "
                    f"{left} and {right}."))
            return (tuple(canonical_axis(i, m) for i in left),
                    tuple(canonical_axis(i, n) for i in right))
    raise TypeError(explain("tensordot axes argument must be an int, a pair of ints, or a pair of "
                            "lists/tuples of ints."))


@util.planned
def vecdot(x1: Any, x2: Any, /, *, axis: int = -1, precision: Any = None,
           preferred_element_type: Any = None) -> Any:
    """Sum of products along one axis; x1 is conjugated, the other axes broadcast.

    Args:
      x1: array.
      x2: array; dtypes are promoted.
      axis: the axis.
      precision: None, 'default', 'high', 'highest', a lax.Precision or a pair of them.
      preferred_element_type: the dtype of the result and of its accumulation.

    Returns:
      An array.

    Raises:
      TypeError: an argument is not an array, or the contracted sizes differ.
      ValueError: an argument is a scalar, or sizes along axis differ.

    Example:
      >>> import calque.numpy as jnp
      >>> jnp.vecdot(jnp.ones((2, 3)), jnp.ones((2, 3)))
      Array([3., 3.], dtype=float32)
    """
    x1, x2 = util.check_arrays("vecdot", x1, x2)
    shapes = shape_of(x1), shape_of(x2)
    if not shapes[0] or not shapes[1]:
        raise ValueError(explain(
            f"vector arguments must be at least 1D; got shapes {shapes[0]} and {shapes[1]}"))
    places = [canonical_axis(axis, len(s)) for s in shapes]
    if shapes[0][places[0]] != shapes[1][places[1]]:
        raise ValueError(explain(
            f"axes must match; got shapes {shapes[0]} and {shapes[1]} with axis={axis}"))
    with util.lazy_eval("vecdot"):
        x, y, dtype, weak = _operands("vecdot", x1, x2, preferred_element_type)
        x, y = _last(conj(x), places[0]), _last(util.array(y), places[1])
        row = sh.reshape(x, (*shape_of(x)[:-1], 1, shape_of(x)[-1]))
        column = sh.reshape(y, (*shape_of(y), 1))
        out = _matmul(row, column, precision, dtype, weak)
        return sh.reshape(out, shape_of(out)[:-2])


def _last(x: Any, axis: int) -> Any:
    rank = ndim_of(x)
    return sh.transpose(x, [*[i for i in range(rank) if i != axis], axis])


def _core(name: str, x: Any, rank: int, what: str) -> None:
    if ndim_of(x) < rank:
        raise ValueError(explain(
            f"{name}: input with shape {shape_of(x)} does not have enough dimensions for all "
            f"core dimensions {what}"))


@util.planned
def matvec(x1: Any, x2: Any, /) -> Any:
    """Matrices times vectors; leading axes broadcast.

    Args:
      x1: array of shape (..., m, n).
      x2: array of shape (..., n).

    Returns:
      An array of shape (..., m).

    Raises:
      ValueError: shapes do not fit.

    Example:
      >>> import calque.numpy as jnp
      >>> jnp.matvec(jnp.ones((2, 3)), jnp.ones(3))
      Array([3., 3.], dtype=float32)
    """
    x1, x2 = util.check_arrays("matvec", x1, x2)
    _core("matvec", x1, 2, "('n', 'm')")
    _core("matvec", x2, 1, "('m',)")
    if shape_of(x1)[-1] != shape_of(x2)[-1]:
        raise ValueError(explain(
            f"matvec: sizes differ: {shape_of(x1)} and {shape_of(x2)}"))
    with util.lazy_eval("matvec"):
        x, y, dtype, weak = _operands("matvec", x1, x2, None)
        out = _matmul(x, sh.reshape(util.array(y), (*shape_of(y), 1)), None, dtype, weak)
        return sh.reshape(out, shape_of(out)[:-1])


@util.planned
def vecmat(x1: Any, x2: Any, /) -> Any:
    """Vectors (conjugated) times matrices; leading axes broadcast.

    Args:
      x1: array of shape (..., m).
      x2: array of shape (..., m, n).

    Returns:
      An array of shape (..., n).

    Raises:
      ValueError: shapes do not fit.

    Example:
      >>> import calque.numpy as jnp
      >>> jnp.vecmat(jnp.ones(2), jnp.ones((2, 3)))
      Array([2., 2., 2.], dtype=float32)
    """
    x1, x2 = util.check_arrays("vecmat", x1, x2)
    _core("vecmat", x1, 1, "('n',)")
    _core("vecmat", x2, 2, "('n', 'm')")
    if shape_of(x1)[-1] != shape_of(x2)[-2]:
        raise ValueError(explain(
            f"vecmat: sizes differ: {shape_of(x1)} and {shape_of(x2)}"))
    with util.lazy_eval("vecmat"):
        x, y, dtype, weak = _operands("vecmat", x1, x2, None)
        x = conj(x)
        row = sh.reshape(x, (*shape_of(x)[:-1], 1, shape_of(x)[-1]))
        out = _matmul(row, y, None, dtype, weak)
        own = shape_of(out)
        return sh.reshape(out, (*own[:-2], own[-1]))


__all__ = ["dot", "inner", "matmul", "matvec", "outer", "tensordot", "vdot", "vecdot", "vecmat"]
