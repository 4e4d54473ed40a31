"""lax functions that give the same elements another shape, and questions about shapes and dtypes.

They validate, canonicalize and bind one primitive; a result that equals the operand is the operand.
"""
from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from calque.core import dtypes
from calque.core.avals import aval_of, dtype_of, is_arraylike, ndim_of, shape_of
from calque.core.dims import Dim
from calque.core.errors import explain
from calque.core.trace import Tracer
from calque.core.types import Shape
from calque.dispatch import strings
from calque.dispatch.array import Array, to_array
from calque.dispatch.eager import lazy_eval
from calque.dispatch.sharded.placing import resharded
from calque.lax.operands import as_operand, as_sizes, canonical_axis
from calque.primitives import elementwise as ew
from calque.primitives import shape as sh
from calque.trees import util as tree_util


def unchanged(x: Any) -> Any:
    """A value that is handed back as it is, as an Array if it is not one."""
    return x if type(x) is Array or isinstance(x, Tracer) else to_array(x)


def reshape(operand: Any, new_sizes: Any, dimensions: Any = None, *,
            out_sharding: Any = None) -> Any:
    """The elements, in row-major order, in another shape.

    Args:
      operand: any array.
      new_sizes: the new shape, of the same total size; no -1 here (jnp.reshape takes it).
      dimensions: the order in which operand's axes are read; 0, 1, ... by default.
      out_sharding: of the result, over Explicit axes: a NamedSharding, or a PartitionSpec over
        the context's mesh.

    Returns:
      An array of shape new_sizes.

    Raises:
      TypeError: the total size changes.

    Example:
      >>> import numpy as np
      >>> from calque import lax
      >>> lax.reshape(np.arange(4), (2, 2))
      Array([[0, 1],
             [2, 3]], dtype=int32)
    """
    if out_sharding is not None:
        return resharded("reshape", out_sharding, reshape, operand, new_sizes, dimensions)
    x = as_operand("reshape", operand)
    sizes = as_sizes("reshape", new_sizes)
    a = aval_of(x)
    if dimensions is not None:
        order = tuple(map(operator.index, dimensions))
        if order != tuple(range(a.ndim)):
            with lazy_eval("reshape"):
                return reshape(transpose(x, order), sizes)
    if any(n < 0 for n in sizes):
        raise TypeError(explain(f"reshape new_sizes must all be positive, got {sizes}.",
                                fix="use jnp.reshape, which takes -1."))
    return unchanged(x) if sizes == a.shape else sh.reshape(x, sizes)


def transpose(operand: Any, permutation: Any) -> Any:
    """The axes in another order: axis i of the result is axis permutation[i] of operand.

    Args:
      operand: any array.
      permutation: the axes of operand, each once.

    Returns:
      An array with permuted axes.

    Raises:
      TypeError: permutation does not name each axis once.

    Example:
      >>> import numpy as np
      >>> from calque import lax
      >>> lax.transpose(np.array([[1, 2], [3, 4]]), (1, 0))
      Array([[1, 3],
             [2, 4]], dtype=int32)
    """
    x = as_operand("transpose", operand)
    order = tuple(map(operator.index, permutation))
    if order == tuple(range(ndim_of(x))):
        return unchanged(x)
    return sh.transpose_p.bind(x, permutation=order)


def broadcast(operand: Any, sizes: Any, *, out_sharding: Any = None) -> Any:
    """operand repeated along new leading axes.

    Args:
      operand: any array.
      sizes: sizes of the new axes.
      out_sharding: of the result, over Explicit axes: a NamedSharding, or a PartitionSpec over
        the context's mesh.

    Returns:
      An array of shape sizes + operand.shape.

    Raises:
      TypeError: sizes is no shape.

    Example:
      >>> import numpy as np
      >>> from calque import lax
      >>> lax.broadcast(np.array([1, 2]), (2,))
      Array([[1, 2],
             [1, 2]], dtype=int32)
    """
    x = as_operand("broadcast", operand)
    new = as_sizes("broadcast", sizes)
    n = ndim_of(x)
    return broadcast_in_dim(x, (*new, *shape_of(x)), range(len(new), len(new) + n),
                            out_sharding=out_sharding)


def broadcast_in_dim(operand: Any, shape: Any, broadcast_dimensions: Any, *,
                     out_sharding: Any = None) -> Any:
    """operand spread over a shape: its axis i becomes axis broadcast_dimensions[i].

    Args:
      operand: any array.
      shape: the result's shape; axes of operand have its size or 1.
      broadcast_dimensions: different axes of the result, one for each axis of operand.

    Returns:
      An array of the shape.

    Raises:
      TypeError: sizes or axes do not fit.

    Example:
      >>> import numpy as np
      >>> from calque import lax
      >>> lax.broadcast_in_dim(np.array([1, 2]), (2, 2), (0,))
      Array([[1, 1],
             [2, 2]], dtype=int32)
    """
    if out_sharding is not None:
        return resharded("broadcast_in_dim", out_sharding, broadcast_in_dim, operand, shape,
                         broadcast_dimensions)
    x = as_operand("broadcast_in_dim", operand)
    sizes = as_sizes("broadcast_in_dim", shape)
    dims = tuple(map(operator.index, broadcast_dimensions))
    if sizes == shape_of(x) and dims == tuple(range(len(sizes))):
        return unchanged(x)
    order = sorted(range(len(dims)), key=dims.__getitem__)
    if order == list(range(len(dims))) or len(set(dims)) != len(dims) or (
            len(dims) != ndim_of(x)):
        return sh.broadcast_in_dim_p.bind(x, shape=sizes, broadcast_dimensions=dims, sharding=None)
    with lazy_eval("broadcast_in_dim"):
        return sh.broadcast_in_dim(sh.transpose(x, order), sizes, sorted(dims))


def broadcast_to_rank(x: Any, rank: int) -> Any:
    """x with leading axes of size 1 up to a rank.

    Args:
      x: any array.
      rank: the number of axes wanted.

    Returns:
      An array with `rank` axes.

    Raises:
      ValueError: x has more axes already.

    Example:
      >>> import numpy as np
      >>> from calque import lax
      >>> lax.broadcast_to_rank(np.zeros(3), 2).shape
      (1, 3)
    """
    x = as_operand("broadcast_to_rank", x)
    n = ndim_of(x)
    if n > rank:
        raise ValueError(explain(f"broadcast_to_rank: array of rank {n} exceeds rank {rank}."))
    return expand_dims(x, range(rank - n))


def expand_dims(array: Any, dimensions: Any) -> Any:
    """array with axes of size 1 inserted.

    Args:
      array: any array.
      dimensions: the new axes, as positions in the result.

    Returns:
      An array with len(dimensions) more axes.

    Raises:
      ValueError: a dimension is out of bounds or repeated.

    Example:
      >>> import numpy as np
      >>> from calque import lax
      >>> lax.expand_dims(np.zeros(3), (0, -1)).shape
      (1, 3, 1)
    """
    x = as_operand("expand_dims", array)
    given = [operator.index(d) for d in dimensions]
    rank = ndim_of(x) + len(given)
    axes = {canonical_axis(d, rank) for d in given}
    if len(axes) != len(given):
        raise ValueError(explain(f"repeated axis in lax.expand_dims: {tuple(given)}"))
    if not axes:
        return unchanged(x)
    kept = [i for i in range(rank) if i not in axes]
    shape = [1] * rank
    for i, n in zip(kept, shape_of(x)):
        shape[i] = n
    return sh.broadcast_in_dim_p.bind(x, shape=tuple(shape), broadcast_dimensions=tuple(kept),
                                      sharding=None)


def squeeze(array: Any, dimensions: Any) -> Any:
    """array without some axes of size 1.

    Args:
      array: any array.
      dimensions: the axes to drop.

    Returns:
      An array with len(dimensions) fewer axes.

    Raises:
      ValueError: an axis is out of bounds, repeated, or not of size 1.

    Example:
      >>> import numpy as np
      >>> from calque import lax
      >>> lax.squeeze(np.zeros((1, 3)), (0,)).shape
      (3,)
    """
    x = as_operand("squeeze", array)
    a = aval_of(x)
    axes = tuple(canonical_axis(d, a.ndim) for d in dimensions)
    if len(set(axes)) != len(axes):
        raise ValueError(explain(f"dimensions are not unique: {tuple(dimensions)}"))
    return sh.squeeze_p.bind(x, dimensions=tuple(sorted(axes))) if axes else unchanged(x)


def collapse(operand: Any, start_dimension: int, stop_dimension: int | None = None) -> Any:
    """Neighbouring axes [start, stop) merged into one.

    Args:
      operand: any array.
      start_dimension: the first axis to merge.
      stop_dimension: the axis after the last; the number of axes by default.

    Returns:
      An array with those axes as one.

    Raises:
      ValueError: the range of axes is not valid.

    Example:
      >>> import numpy as np
      >>> from calque import lax
      >>> lax.collapse(np.zeros((2, 3, 4)), 1).shape
      (2, 12)
    """
    x = as_operand("collapse", operand)
    shape = shape_of(x)
    lo, hi, _ = slice(start_dimension, stop_dimension).indices(len(shape))
    if hi < lo:
        raise ValueError(explain(
            f"Invalid dimension range passed to collapse: {shape}[{start_dimension}:"
            f"{stop_dimension}]"))
    return reshape(x, (*shape[:lo], math.prod(shape[lo:hi]), *shape[hi:]))


# ---- gradients, shapes
def stop_gradient(x: Any) -> Any:
    """x, whose derivatives are zero.

    Args:
      x: an array, or a tree of arrays.

    Returns:
      The same tree.

    Raises:
      TypeError: a leaf is not an array.

    Example:
      >>> import calque
      >>> from calque import lax
      >>> calque.grad(lambda x: x * lax.stop_gradient(x))(3.0)
      Array(3., dtype=float32, weak_type=True)
    """
    def stop(leaf: Any) -> Any:
        if not is_arraylike(leaf):
            raise TypeError(explain(
                f"Argument '{leaf}' of type {type(leaf)} is not a valid JAX type"))
        strings.refuse(leaf)
        dtype = dtype_of(leaf)
        if dtypes.is_key(dtype) or not dtypes.is_inexact(dtype):
            return leaf
        return ew.stop_gradient(leaf)

    return tree_util.tree_map(stop, x)


def broadcast_shapes(*shapes: Sequence[int]) -> Shape:
    """The shape that shapes broadcast to by NumPy's rules.

    Args:
      *shapes: shapes (tuples of ints, or ints).

    Returns:
      The common shape.

    Raises:
      ValueError: the shapes do not broadcast.

    Example:
      >>> from calque import lax
      >>> lax.broadcast_shapes((2, 1), (3,))
      (2, 3)
    """
    sizes = [as_sizes("broadcast_shapes", s) for s in shapes]
    for s in sizes:
        if any(not isinstance(n, Dim) and n < 0 for n in s):
            raise TypeError(explain(
                "Only non-negative indices are allowed when broadcasting static shapes, but got "
                f"shape {s}."))
    return broadcast_sizes(sizes)


def broadcast_sizes(shapes: Sequence[Shape]) -> Shape:
    """The common shape of shapes."""
    rank = max((len(s) for s in shapes), default=0)
    result = []
    for axis in range(-rank, 0):
        found = {s[axis] for s in shapes if len(s) >= -axis} - {1}
        if len(found) > 1:
            raise ValueError(explain(
                f"Incompatible shapes for broadcasting: shapes={list(shapes)}",
                fix="make every axis, counted from the last, equal or 1."))
        result.append(found.pop() if found else 1)
    return tuple(result)


def shape_as_value(shape: Any) -> Any:
    """A shape as an array of integers.

    Args:
      shape: sizes.

    Returns:
      A NumPy int32 array of shape (len(shape),); an Array for the empty shape.

    Raises:
      TypeError: shape is no shape.

    Example:
      >>> from calque import lax
      >>> lax.shape_as_value((2, 3))
      array([2, 3], dtype=int32)
    """
    sizes = np.asarray(as_sizes("shape_as_value", shape), np.int32)
    return sizes if sizes.size else to_array(sizes)


def dtype(x: Any) -> Any:
    """The dtype that x has as an array.

    Args:
      x: an array, a scalar or a dtype.

    Returns:
      A NumPy dtype.

    Raises:
      TypeError: x has no dtype.

    Example:
      >>> from calque import lax
      >>> lax.dtype(1.0)
      dtype('float32')
    """
    return dtypes.dtype_and_weak(x)[0]


__all__ = [
    "broadcast", "broadcast_in_dim", "broadcast_shapes", "broadcast_to_rank", "collapse", "dtype",
    "expand_dims", "reshape", "shape_as_value", "squeeze", "stop_gradient", "transpose"]
