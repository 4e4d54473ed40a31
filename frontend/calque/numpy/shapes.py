"""Shapes and axes: reshape, ravel, transpose and its relatives, squeeze, expand_dims, broadcasts.
They move elements and compute nothing.
"""
from __future__ import annotations

import math
from typing import Any

import numpy as np

from calque.core.avals import dtype_of, ndim_of, shape_of
from calque.core.errors import explain
from calque.core.types import Shape
from calque.dispatch.sharded.placing import resharded
from calque.lax import shape as lx
from calque.lax.operands import as_sizes, canonical_axis
from calque.numpy import util
from calque.primitives import shape as sh


# ---- questions
def shape(a: Any) -> Shape:
    """Sizes of the axes of an array (or of nested lists).

    Args:
      a: an array, or what NumPy makes one of.

    Returns:
      A tuple of ints.

    Raises:
      ValueError: nested lists of unequal lengths.

    Example:
      >>> import calque.numpy as jnp
      >>> jnp.shape(jnp.zeros((2, 3)))
      (2, 3)
    """
    _deprecate("shape", a)
    return shape_of(a)


def _deprecate(name: str, a: Any) -> None:
    """Lists and None are no arrays: a warning, as in JAX."""
    if isinstance(a, (list, tuple)) or a is None:
        util.warn(f"{name} requires ndarray or scalar arguments, got {type(a)} at position 0. In a "
                  "future JAX release this will be an error.", DeprecationWarning)


def ndim(a: Any) -> int:
    """Number of axes of an array (or of nested lists).

    Args:
      a: an array, or what NumPy makes one of.

    Returns:
      An int.

    Raises:
      ValueError: nested lists of unequal lengths.

    Example:
      >>> import calque.numpy as jnp
      >>> jnp.ndim(jnp.zeros((2, 3)))
      2
    """
    _deprecate("ndim", a)
    return len(shape_of(a))


def size(a: Any, axis: Any = None) -> int:
    """Number of elements, of the whole array or along axes.

    Args:
      a: an array, or what NumPy makes one of.
      axis: an axis or several; None for all.

    Returns:
      An int.

    Raises:
      ValueError: an axis is out of bounds.

    Example:
      >>> import calque.numpy as jnp
      >>> jnp.size(jnp.zeros((2, 3)), axis=1)
      3
    """
    _deprecate("size", a)
    sizes = shape_of(a)
    return math.prod(sizes[i] for i in util.axis_tuple(axis, len(sizes)))


# ---- reshape
def sizes_for(x: Any, wanted: Any) -> Shape:
    """A new shape with -1 resolved, checked against the size of x."""
    own = shape_of(x)
    total = math.prod(own)
    new = as_sizes("reshape", wanted)
    open_axes = [i for i, n in enumerate(new) if n == -1]
    if len(open_axes) > 1:
        raise TypeError(explain(
            f"can only specify one unknown axis size with a `-1` value, got {new}",
            fix="write the other sizes out."))
    if open_axes:
        rest = math.prod(n for n in new if n != -1)
        if not rest:
            raise ZeroDivisionError(explain(
                f"cannot reshape array of shape {own} into shape {new}: the size of the -1 axis "
                "would be a division by zero.", fix="write the size out."))
        if total % rest:
            raise TypeError(explain(
                f"cannot reshape array of shape {own} (size {total}) into shape {new} because the "
                f"product of specified axis sizes ({rest}) does not evenly divide {total}",
                fix=f"choose sizes whose product divides {total}."))
        return tuple(total // rest if n == -1 else n for n in new)
    if math.prod(new) != total or any(n < 0 for n in new):
        raise TypeError(explain(
            f"cannot reshape array of shape {own} (size {total}) into shape {new} (size "
            f"{math.prod(new)})", fix=f"choose sizes whose product is {total}."))
    return new


def reshape(a: Any, shape: Any, order: str = "C", *, copy: bool | None = None,
            out_sharding: Any = None) -> Any:
    """The elements in another shape.

    Args:
      a: array or scalar.
      shape: the new shape; one size may be -1, which is computed.
      order: 'C' reads and writes by rows, 'F' by columns.
      copy: True or None (False cannot be promised).
      out_sharding: of the result, over Explicit axes: a NamedSharding, or a PartitionSpec over
        the context's mesh.

    Returns:
      An array of the shape; of a NumPy array NumPy's view, under jit too, as in JAX.

    Raises:
      TypeError: the sizes do not fit.

    Example:
      >>> import calque.numpy as jnp
      >>> jnp.reshape(jnp.arange(4), (2, -1))
      Array([[0, 1],
             [2, 3]], dtype=int32)
    """
    if isinstance(a, (np.ndarray, np.generic)) and out_sharding is None:
        sizes = as_sizes("reshape", shape)
        if all(type(n) is int for n in sizes):  # not symbolic
            try:
                made = np.reshape(a, sizes, order)  # type: ignore[call-overload]
            except ValueError as error:  # (NumPy's arrays are NumPy's, in JAX too)
                raise ValueError(explain(
                    str(error), fix="give sizes whose product is the number of elements.")
                    ) from None
            return made.copy() if copy else made
    return reshaped(a, shape, order, copy=copy, out_sharding=out_sharding)


def reshaped(a: Any, shape: Any, order: str = "C", *, copy: bool | None = None,
             out_sharding: Any = None) -> Any:
    """reshape for our own functions: an Array of a NumPy array."""
    x = util.one_array("reshape", a)
    if out_sharding is not None:
        return resharded("reshape", out_sharding, reshaped, a, shape, order, copy=copy)
    if copy is False:
        raise NotImplementedError(explain("reshape: copy=False is not supported.",
                                          fix="leave copy out."))
    new = sizes_for(x, shape)
    if order == "C":
        return util.array(x) if new == shape_of(x) else sh.reshape(x, new)
    if order != "F":
        kind = NotImplementedError if order == "A" else ValueError
        raise kind(explain(f"np.reshape order={order} is not implemented.",
                           fix="use 'C' or 'F'."))
    with util.lazy_eval("reshape"):
        rank = ndim_of(x)
        turned = sh.transpose(x, tuple(reversed(range(rank)))) if rank > 1 else x
        made = sh.reshape(turned, new[::-1])
        return sh.transpose(made, tuple(reversed(range(len(new)))))


def with_axis(x: Any, axis: Any) -> tuple[Any, int]:
    """(x, the axis counted from the front); x flattened for None."""
    return (ravel(x), 0) if axis is None else (x, canonical_axis(axis, ndim_of(x)))


def ravel(a: Any, order: str = "C", *, out_sharding: Any = None) -> Any:
    """The elements in one axis.

    Args:
      a: array or scalar.
      order: 'C' reads by rows, 'F' by columns.

    Returns:
      A vector.

    Raises:
      NotImplementedError: another order.

    Example:
      >>> import calque.numpy as jnp
      >>> jnp.ravel(jnp.zeros((2, 3))).shape
      (6,)
    """
    x = util.one_array("ravel", a)
    if order == "K":
        raise NotImplementedError(explain("Ravel not implemented for order='K'.",
                                          fix="use 'C' or 'F'."))
    return reshaped(x, (math.prod(shape_of(x)),), order, out_sharding=out_sharding)


# ---- axes
def transpose(a: Any, axes: Any = None) -> Any:
    """The axes in another order, reversed by default.

    Args:
      a: array or scalar.
      axes: axis i of the result is axis axes[i] of a.

    Returns:
      An array with permuted axes.

    Raises:
      TypeError: axes does not name each axis once.
      ValueError: an axis is out of bounds.

    Example:
      >>> import calque.numpy as jnp
      >>> jnp.transpose(jnp.zeros((2, 3))).shape
      (3, 2)
    """
    x = util.one_array("transpose", a)
    rank = ndim_of(x)
    order = tuple(reversed(range(rank))) if axes is None else tuple(
        canonical_axis(i, rank) for i in axes)
    return lx.transpose(x, order)


def permute_dims(a: Any, /, axes: Any) -> Any:
    """The axes in another order (array API name of transpose).

    Args:
      a: array or scalar.
      axes: array or scalar; dtypes are promoted, shapes broadcast.

    Returns:
      An array with the same elements.

    Raises:
      TypeError: an argument is not an array or a number (lists are not accepted), or its dtype is
        not one the function is defined for.

    Example:
      >>> import calque.numpy as jnp
      >>> jnp.permute_dims(jnp.zeros((2, 3)), (1, 0)).shape
      (3, 2)
    """
    return transpose(a, axes)


def matrix_transpose(x: Any, /) -> Any:
    """The last two axes exchanged.

    Args:
      x: array with at least two axes.

    Returns:
      An array of shape (..., n, m).

    Raises:
      ValueError: x has fewer than two axes.

    Example:
      >>> import calque.numpy as jnp
      >>> jnp.matrix_transpose(jnp.zeros((5, 2, 3))).shape
      (5, 3, 2)
    """
    x = util.one_array("matrix_transpose", x)
    rank = ndim_of(x)
    if rank < 2:
        raise ValueError(explain(
            f"x must be at least two-dimensional for matrix_transpose; got ndim={rank}"))
    return lx.transpose(x, (*range(rank - 2), rank - 1, rank - 2))


def moveaxis(a: Any, source: Any, destination: Any) -> Any:
    """Some axes moved, the others in order.

    Args:
      a: array.
      source: the axis or axes to move.
      destination: where they go.

    Returns:
      An array with permuted axes.

    Raises:
      ValueError: axes are out of bounds, or their numbers differ.

    Example:
      >>> import calque.numpy as jnp
      >>> jnp.moveaxis(jnp.zeros((2, 3, 4)), 0, -1).shape
      (3, 4, 2)
    """
    x = util.one_array("moveaxis", a)
    rank = ndim_of(x)
    starts, ends = ([canonical_axis(i, rank) for i in (v if isinstance(v, (tuple, list, range))
                                                       else (v,))]
                    for v in (source, destination))
    if len(starts) != len(ends):
        raise ValueError(explain(
            f"Inconsistent number of elements: {len(starts)} vs {len(ends)}"))
    order = [i for i in range(rank) if i not in starts]
    for end, start in sorted(zip(ends, starts)):
        order.insert(end, start)
    return lx.transpose(x, order)


def swapaxes(a: Any, axis1: int, axis2: int) -> Any:
    """Two axes exchanged.

    Args:
      a: array.
      axis1: an axis.
      axis2: an axis.

    Returns:
      An array with permuted axes.

    Raises:
      ValueError: an axis is out of bounds.

    Example:
      >>> import calque.numpy as jnp
      >>> jnp.swapaxes(jnp.zeros((2, 3, 4)), 0, 2).shape
      (4, 3, 2)
    """
    x = util.one_array("swapaxes", a)
    rank = ndim_of(x)
    i, j = canonical_axis(axis1, rank), canonical_axis(axis2, rank)
    order = list(range(rank))
    order[i], order[j] = order[j], order[i]
    return lx.transpose(x, order)


def rollaxis(a: Any, axis: int, start: int = 0) -> Any:
    """An axis moved to lie before another one.

    Args:
      a: array.
      axis: the axis to move.
      start: the axis it is put before.

    Returns:
      An array with permuted axes.

    Raises:
      ValueError: an axis is out of bounds.

    Example:
      >>> import calque.numpy as jnp
      >>> jnp.rollaxis(jnp.zeros((2, 3, 4)), 2).shape
      (4, 2, 3)
    """
    x = util.one_array("rollaxis", a)
    rank = ndim_of(x)
    axis = canonical_axis(axis, rank)
    start = canonical_axis(start, rank + 1) if start >= 0 else start + rank
    return moveaxis(x, axis, start - (axis < start))


def squeeze(a: Any, axis: Any = None) -> Any:
    """Without axes of size 1.

    Args:
      a: array.
      axis: the axis or axes to drop; None for all of size 1.

    Returns:
      An array with fewer axes.

    Raises:
      ValueError: an axis is out of bounds, repeated, or not of size 1.

    Example:
      >>> import calque.numpy as jnp
      >>> jnp.squeeze(jnp.zeros((1, 3, 1))).shape
      (3,)
    """
    x = util.one_array("squeeze", a)
    if axis is None:
        axes: Any = [i for i, n in enumerate(shape_of(x)) if n == 1]
    else:
        axes = (axis,) if hasattr(axis, "__index__") else tuple(axis)
    return lx.squeeze(x, axes)


def expand_dims(a: Any, axis: Any) -> Any:
    """With axes of size 1 inserted.

    Args:
      a: array or scalar.
      axis: the new axis or axes, as positions in the result.

    Returns:
      An array with more axes.

    Raises:
      ValueError: an axis is out of bounds or repeated.

    Example:
      >>> import calque.numpy as jnp
      >>> jnp.expand_dims(jnp.zeros(3), 0).shape
      (1, 3)
    """
    x = util.one_array("expand_dims", a)
    return lx.expand_dims(x, (axis,) if hasattr(axis, "__index__") else tuple(axis))


def _atleast(name: str, arrays: Any, raised: Any) -> Any:
    values = [raised(x) for x in util.check_arrays(name, *arrays)]
    return values[0] if len(values) == 1 else values


def atleast_1d(*arys: Any) -> Any:
    """Arrays with at least one axis.

    Args:
      *arys: array or scalar.

    Returns:
      An array, or a list of them.

    Raises:
      TypeError: an argument is not an array or a number (lists are not accepted), or its dtype is
        not one the function is defined for.

    Example:
      >>> import calque.numpy as jnp
      >>> jnp.atleast_1d(1.0).shape
      (1,)
    """
    return _atleast("atleast_1d", arys, lambda x: _raise(x, [(), (0,)]))


def atleast_2d(*arys: Any) -> Any:
    """Arrays with at least two axes.

    Args:
      *arys: array or scalar.

    Returns:
      An array, or a list of them.

    Raises:
      TypeError: an argument is not an array or a number (lists are not accepted), or its dtype is
        not one the function is defined for.

    Example:
      >>> import calque.numpy as jnp
      >>> jnp.atleast_2d(jnp.zeros(3)).shape
      (1, 3)
    """
    return _atleast("atleast_2d", arys, lambda x: _raise(x, [(), (1,), (0, 1)]))


def atleast_3d(*arys: Any) -> Any:
    """Arrays with at least three axes.

    Args:
      *arys: array or scalar.

    Returns:
      An array, or a list of them.

    Raises:
      TypeError: an argument is not an array or a number (lists are not accepted), or its dtype is
        not one the function is defined for.

    Example:
      >>> import calque.numpy as jnp
      >>> jnp.atleast_3d(jnp.zeros(3)).shape
      (1, 3, 1)
    """
    return _atleast("atleast_3d", arys, lambda x: _raise(x, [(), (1,), (0, 1), (0, 1, 2)]))


def _raise(x: Any, places: list[tuple[int, ...]]) -> Any:
    """x with its axes at the places of the table's row for its rank."""
    own, rank = shape_of(x), len(places) - 1
    if len(own) >= rank:
        return util.array(x)
    full = [1] * rank
    for place, n in zip(places[len(own)], own):
        full[place] = n
    return sh.broadcast_in_dim(x, tuple(full), places[len(own)])


# ---- broadcasting
def broadcast_to(array: Any, shape: Any, *, out_sharding: Any = None) -> Any:
    """An array repeated to a shape by NumPy's rules.

    Args:
      array: array or scalar.
      shape: the shape wanted.
      out_sharding: of the result, over Explicit axes: a NamedSharding, or a PartitionSpec over
        the context's mesh.

    Returns:
      An array of the shape.

    Raises:
      ValueError: the shapes do not fit.

    Example:
      >>> import calque.numpy as jnp
      >>> jnp.broadcast_to(jnp.arange(2), (2, 2))
      Array([[0, 1],
             [0, 1]], dtype=int32)
    """
    x = util.one_array("broadcast_to", array)
    if out_sharding is not None:
        return resharded("jnp.broadcast_to", out_sharding, broadcast_to, array, shape)
    new, own = as_sizes("broadcast_to", shape), shape_of(x)
    if new == own:
        return util.array(x)
    if len(new) < len(own):
        raise ValueError(explain(
            f"Cannot broadcast to shape with fewer dimensions: arr_shape={own} shape={new}",
            fix="name a shape with as many dimensions, or reshape the array."))
    if any(n not in (1, m) for n, m in zip(own[::-1], new[::-1])):
        name = dtype_of(x).name
        raise ValueError(explain(
            f"Incompatible shapes for broadcasting: {own} and requested shape {new} of {name}.",
            fix="make every axis, counted from the last, equal or 1."))
    return util.broadcast_to(x, new)


def broadcast_arrays(*args: Any) -> list[Any]:
    """Arrays repeated to their common shape.

    Args:
      *args: arrays or scalars.

    Returns:
      A list of arrays.

    Raises:
      ValueError: the shapes do not broadcast.

    Example:
      >>> import calque.numpy as jnp
      >>> [x.shape for x in jnp.broadcast_arrays(jnp.zeros(3), jnp.zeros((2, 1)))]
      [(2, 3), (2, 3)]
    """
    values = util.check_arrays("broadcast_arrays", *args)
    full = lx.broadcast_sizes([shape_of(v) for v in values])
    with util.lazy_eval("broadcast_arrays"):
        return [util.array(util.broadcast_to(v, full)) for v in values]


def broadcast_shapes(*shapes: Any) -> Shape:
    """The shape that shapes broadcast to.

    Args:
      *shapes: array or scalar.

    Returns:
      A tuple of ints.

    Raises:
      TypeError: an argument is not an array or a number (lists are not accepted), or its dtype is
        not one the function is defined for.

    Example:
      >>> import calque.numpy as jnp
      >>> jnp.broadcast_shapes((2, 1), (3,))
      (2, 3)
    """
    return lx.broadcast_shapes(*shapes)


__all__ = [
    "atleast_1d", "atleast_2d", "atleast_3d", "broadcast_arrays", "broadcast_shapes",
    "broadcast_to", "expand_dims", "matrix_transpose", "moveaxis", "ndim", "permute_dims", "ravel",
    "reshape", "rollaxis", "shape", "size", "squeeze", "swapaxes", "transpose"]
