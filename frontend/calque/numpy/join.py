"""Joining and repeating: stack, concatenate, tile, repeat, append, diff."""
from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from calque.core import dtypes
from calque.core.avals import dtype_of, ndim_of, shape_of
from calque.core.dims import Dim
from calque.core.errors import explain
from calque.core.lists import inserted, replaced
from calque.core.trace import Tracer
from calque.dispatch.sharded.placing import resharded
from calque.lax.operands import as_size, as_sizes, canonical_axis
from calque.lax.shape import unchanged
from calque.numpy import many, util
from calque.numpy.shapes import atleast_1d, atleast_2d, atleast_3d, ravel, reshaped
from calque.primitives import elementwise as ew
from calque.primitives import shape as sh


def _parts(name: str, arrays: Any, none: str) -> list[Any]:
    """The arrays to join; one array stands for its rows."""
    if hasattr(arrays, "aval") or isinstance(arrays, np.ndarray):
        if not ndim_of(arrays):
            raise ValueError(explain("Zero-dimensional arrays cannot be concatenated."))
        return list(unstack(arrays))
    values = list(util.check_arrays(name, *arrays))
    if not values:
        raise ValueError(explain(f"Need at least one array to {none}."))
    return values


def _refuse_array(name: str, what: str, value: Any) -> None:
    """TypeError for an array as the second argument."""
    if hasattr(value, "aval") or isinstance(value, np.ndarray):
        raise TypeError(explain(
            f"{name}: the second argument is the {what}, got an array.",
            fix=f"pass the arrays as one list: jnp.{name}([a, b])."))


def _join(name: str, values: Sequence[Any], axis: int, dtype: Any = None) -> Any:
    """Promoted values joined along an axis; equal ranks are required."""
    found, weak = util.joined(values)
    if dtype is not None:
        found, weak = util.user_dtype(name, dtype), False
    values = [util.cast(v, found, weak) for v in values]
    if len(values) == 1:
        return util.array(values[0])
    return sh.concatenate(values, axis)


@many.concatenate
@util.planned
def concatenate(arrays: Any, axis: int | None = 0, dtype: Any = None) -> Any:
    """Arrays joined along an axis.

    Args:
      arrays: a sequence of arrays, or one array (its rows).
      axis: the axis; None joins the flattened arrays.
      dtype: the dtype; the promoted one by default.

    Returns:
      An array.

    Raises:
      TypeError: an element is no array, or shapes differ.
      ValueError: there are none, or they have no axes.

    Example:
      >>> import calque.numpy as jnp
      >>> jnp.concatenate([jnp.arange(2), jnp.array([7])])
      Array([0, 1, 7], dtype=int32)
    """
    with util.lazy_eval("concatenate"):
        values = _parts("concatenate", arrays, "concatenate")
        if axis is None:
            return _join("concatenate", [ravel(v) for v in values], 0, dtype)
        _refuse_array("concatenate", "axis", axis)
        if not shape_of(values[0]):
            raise ValueError(explain("Zero-dimensional arrays cannot be concatenated.",
                                     fix="use jnp.stack, or jnp.array of the scalars."))
        axis = canonical_axis(axis, ndim_of(values[0]))
        return _join("concatenate", values, axis, dtype)


@util.planned
def concat(arrays: Sequence[Any], /, *, axis: int | None = 0) -> Any:
    """Arrays joined along an axis (array API name of concatenate).

    Args:
      arrays: a sequence of arrays.
      axis: the axis; None joins the flattened arrays.

    Returns:
      An array.

    Raises:
      TypeError: an element is no array, or shapes differ.

    Example:
      >>> import calque.numpy as jnp
      >>> jnp.concat([jnp.arange(2), jnp.array([7])])
      Array([0, 1, 7], dtype=int32)
    """
    return concatenate(arrays, axis)


@many.stack
@util.planned
def stack(arrays: Any, axis: int = 0, out: None = None, dtype: Any = None) -> Any:
    """Arrays of one shape joined along a new axis.

    Args:
      arrays: a sequence of arrays, or one array (its rows).
      axis: where the new axis stands.
      out: not supported.
      dtype: the dtype; the promoted one by default.

    Returns:
      An array with one more axis.

    Raises:
      TypeError: an element is no array.
      ValueError: there are none, or shapes differ.

    Example:
      >>> import calque.numpy as jnp
      >>> jnp.stack([jnp.arange(2), jnp.arange(2)], axis=1)
      Array([[0, 0],
             [1, 1]], dtype=int32)
    """
    _refuse_array("stack", "axis", axis)
    util.refuse_out("stack", out)
    with util.lazy_eval("stack"):
        values = _parts("stack", arrays, "stack")
        shapes = [shape_of(v) for v in values]
        if any(s != shapes[0] for s in shapes):
            what = ("different numbers of dimensions" if len({len(s) for s in shapes}) > 1
                    else "different shapes")
            raise ValueError(explain(
                f"Cannot stack arrays with {what}: got {', '.join(map(str, shapes))}."))
        axis = canonical_axis(axis, len(shapes[0]) + 1)
        full = inserted(shapes[0], axis, 1)
        kept = tuple(i for i in range(len(full)) if i != axis)
        return _join("stack", [sh.broadcast_in_dim(v, full, kept) for v in values], axis, dtype)


@util.planned
def unstack(x: Any, /, *, axis: int = 0) -> tuple[Any, ...]:
    """The slices along an axis, each without that axis.

    Args:
      x: array with at least one axis.
      axis: the axis.

    Returns:
      A tuple of arrays.

    Raises:
      ValueError: x is a scalar, or the axis out of bounds.

    Example:
      >>> import calque.numpy as jnp
      >>> jnp.unstack(jnp.arange(2))
      (Array(0, dtype=int32), Array(1, dtype=int32))
    """
    x = util.one_array("unstack", x)
    rank = ndim_of(x)
    if not rank:
        raise ValueError(explain("Unstack requires arrays with rank > 0, however a scalar array "
                                 "was passed."))
    axis = canonical_axis(axis, rank)
    if isinstance(x, np.ndarray):
        x = unchanged(x)
    with util.lazy_eval("unstack"):
        return tuple(sh.squeeze(sh.slice_in_dim(x, i, i + 1, axis), (axis,))
                     for i in range(shape_of(x)[axis]))


def _stacked(name: str, tup: Any, raised: Any, axis: int, dtype: Any) -> Any:
    with util.lazy_eval(name):
        values = _parts(name, tup, "concatenate")
        return _join(name, [raised(v) for v in values], axis, dtype)


@many.vstack
@util.planned
def vstack(tup: Any, dtype: Any = None) -> Any:
    """Arrays joined along the first axis; vectors become rows.

    Args:
      tup: a sequence of arrays.
      dtype: the dtype; the promoted one by default.

    Returns:
      An array with at least two axes.

    Raises:
      TypeError: an element is no array, or shapes differ.

    Example:
      >>> import calque.numpy as jnp
      >>> jnp.vstack([jnp.arange(2), jnp.arange(2)])
      Array([[0, 1],
             [0, 1]], dtype=int32)
    """
    _refuse_array("vstack", "dtype", dtype)
    return _stacked("vstack", tup, atleast_2d, 0, dtype)


@many.hstack
@util.planned
def hstack(tup: Any, dtype: Any = None) -> Any:
    """Arrays joined along the second axis; vectors along their only one.

    Args:
      tup: a sequence of arrays.
      dtype: the dtype; the promoted one by default.

    Returns:
      An array.

    Raises:
      TypeError: an element is no array, or shapes differ.

    Example:
      >>> import calque.numpy as jnp
      >>> jnp.hstack([jnp.arange(2), 7])
      Array([0, 1, 7], dtype=int32)
    """
    _refuse_array("hstack", "dtype", dtype)
    with util.lazy_eval("hstack"):
        values = [atleast_1d(v) for v in _parts("hstack", tup, "concatenate")]
        return _join("hstack", values, 0 if ndim_of(values[0]) == 1 else 1, dtype)


@util.planned
def dstack(tup: Any, dtype: Any = None) -> Any:
    """Arrays joined along the third axis.

    Args:
      tup: a sequence of arrays.
      dtype: the dtype; the promoted one by default.

    Returns:
      An array with at least three axes.

    Raises:
      TypeError: an element is no array, or shapes differ.

    Example:
      >>> import calque.numpy as jnp
      >>> jnp.dstack([jnp.arange(2), jnp.arange(2)]).shape
      (1, 2, 2)
    """
    _refuse_array("dstack", "dtype", dtype)
    return _stacked("dstack", tup, atleast_3d, 2, dtype)


@util.planned
def column_stack(tup: Any) -> Any:
    """Arrays joined along the second axis; vectors become columns.

    Args:
      tup: a sequence of vectors and matrices.

    Returns:
      A matrix.

    Raises:
      TypeError: an element is no array, or shapes differ.

    Example:
      >>> import calque.numpy as jnp
      >>> jnp.column_stack([jnp.arange(2), jnp.arange(2)])
      Array([[0, 0],
             [1, 1]], dtype=int32)
    """
    def column(v: Any) -> Any:
        own = shape_of(v)
        return v if len(own) > 1 else reshaped(v, (own[0] if own else 1, 1))

    return _stacked("column_stack", tup, column, 1, None)


@util.planned
def append(arr: Any, values: Any, axis: int | None = None) -> Any:
    """arr with values behind it.

    Args:
      arr: array.
      values: array.
      axis: the axis to join; None joins the flattened arrays.

    Returns:
      An array.

    Raises:
      TypeError: shapes do not fit.

    Example:
      >>> import calque.numpy as jnp
      >>> jnp.append(jnp.arange(2), 7)
      Array([0, 1, 7], dtype=int32)
    """
    return concatenate([*util.check_arrays("append", arr, values)], axis)


# ---- repeating
@util.planned
def tile(A: Any, reps: Any) -> Any:
    """An array repeated as a whole along axes.

    Args:
      A: array or scalar.
      reps: one count for each axis, aligned at the last (static).

    Returns:
      An array.

    Raises:
      TypeError: reps are no ints.

    Example:
      >>> import calque.numpy as jnp
      >>> jnp.tile(jnp.arange(2), 2)
      Array([0, 1, 0, 1], dtype=int32)
    """
    x = util.one_array("tile", A)
    counts = as_sizes("tile", reps)
    if any(c < 0 for c in counts):
        raise ValueError(explain(f"tile: reps must be nonnegative, got {counts}."))
    own = shape_of(x)
    rank = max(len(own), len(counts))
    counts = (1,) * (rank - len(counts)) + counts
    sizes = (1,) * (rank - len(own)) + own
    result = tuple(c * n for c, n in zip(counts, sizes))
    if result == own:
        return util.array(x)
    spread = tuple(v for pair in zip(counts, sizes) for v in pair)
    places = tuple(2 * i + 1 for i in range(rank - len(own), rank))
    with util.lazy_eval("tile"):
        return sh.reshape(sh.broadcast_in_dim(x, spread, places), result)


@util.planned
def repeat(a: Any, repeats: Any, axis: int | None = None, *,
           total_repeat_length: int | None = None, out_sharding: Any = None) -> Any:
    """Each element repeated along an axis.

    Args:
      a: array or scalar.
      repeats: the count, an int; or a count for every element along the axis.
      axis: the axis; None repeats the elements of the flattened array.
      total_repeat_length: the length of the result along axis (cut, or filled up with the last
        element); needed for traced counts.
      out_sharding: of the result, over Explicit axes: a NamedSharding, or a PartitionSpec over
        the context's mesh.

    Returns:
      An array.

    Raises:
      ConcretizationTypeError: traced counts without total_repeat_length.
      ValueError: there are not as many counts as elements.

    Example:
      >>> import calque.numpy as jnp
      >>> jnp.repeat(jnp.arange(2), 2)
      Array([0, 0, 1, 1], dtype=int32)
    """
    if out_sharding is not None:
        return resharded("jnp.repeat", out_sharding, repeat, a, repeats, axis,
                         total_repeat_length=total_repeat_length)
    x = util.one_array("repeat", a)
    count = repeats if isinstance(repeats, Dim) else None
    repeats = util.one_array("repeat", repeats, 1)
    if axis is not None and not shape_of(x):  # (JAX: a scalar has any axis)
        x, axis = sh.reshape(x, (1,)), 0
    own = shape_of(x)
    if axis is not None:
        axis = canonical_axis(axis, len(own))
    length = math.prod(own) if axis is None else own[axis]
    if count is not None:
        if total_repeat_length is not None:
            raise ValueError(explain(
                "jnp.repeat with a non-constant `repeats` is supported only without "
                "total_repeat_length, which the symbolic size gives.", fix="leave it out."))
        return _repeat_all(x, count, axis)
    known = None if isinstance(repeats, Tracer) else np.asarray(repeats)
    if known is None and total_repeat_length is None:
        as_size("repeat", repeats)  # says that the shape would depend on a traced value
    if known is None or known.size != 1 or total_repeat_length not in (
            None, length * int(known.reshape(-1)[0])):
        return _repeat_each(x, repeats, known, axis, length, total_repeat_length)
    return _repeat_all(x, as_size("repeat", known.reshape(-1)[0].item()), axis)


def _repeat_all(x: Any, count: Any, axis: int | None) -> Any:
    """As many of each element."""
    with util.lazy_eval("repeat"):
        if axis is None:
            x, axis = ravel(x), 0
        own = shape_of(x)
        axis = canonical_axis(axis, len(own))
        if count < 0:
            raise TypeError(explain(f"repeat: repeats must be nonnegative, got {count}."))
        wide = inserted(own, axis + 1, count)
        places = tuple(i for i in range(len(wide)) if i != axis + 1)
        result = replaced(own, axis, own[axis] * count)
        return sh.reshape(sh.broadcast_in_dim(x, wide, places), result)


def _repeat_each(x: Any, repeats: Any, known: Any, axis: int | None, length: int,
                 total: int | None) -> Any:
    """Counts of their own for the elements; the last one fills the result up to total."""
    from calque.numpy.picking import take
    shape = shape_of(repeats)
    if len(shape) > 1 or shape not in ((), (1,), (length,)):
        raise ValueError(explain(
            f"repeat: repeats must be scalar or one-dimensional with length {length} or 1, got "
            f"shape {shape}.", fix="give one count for every element along the axis."))
    total = None if total is None else as_size("repeat", total)
    if known is not None:
        with util.on_host("repeat"):
            places = np.repeat(np.arange(length, dtype=np.int32), known)
            if total is not None:
                places = np.pad(places[:total], (0, max(total - len(places), 0)),
                                constant_values=max(length - 1, 0))
        return take(x, places, axis)
    from calque.numpy.cumulative import cumsum
    from calque.numpy.sorting import searchsorted
    with util.lazy_eval("repeat"):
        ends = cumsum(util.broadcast_to(unchanged(repeats), (length,)))
        with util.on_host("repeat"):
            order = np.arange(total, dtype=np.int32)  # type: ignore[arg-type]
        found = searchsorted(ends, order, side="right")
        return take(unchanged(x), found, axis, mode="clip")


@util.planned
def diff(a: Any, n: int = 1, axis: int = -1, prepend: Any = None, append: Any = None) -> Any:
    """Differences of neighbours along an axis.

    Args:
      a: array.
      n: how often to take them.
      axis: the axis.
      prepend: values put in front of a first.
      append: values put behind a first.

    Returns:
      An array whose axis is n shorter.

    Raises:
      ValueError: n is negative, or a is a scalar.

    Example:
      >>> import calque.numpy as jnp
      >>> jnp.diff(jnp.array([1, 4, 9]))
      Array([3, 5], dtype=int32)
    """
    x = util.one_array("diff", a)
    if n == 0:
        return util.array(x)
    if n < 0:
        raise ValueError(explain(f"order must be non-negative but got {n}"))
    own = shape_of(x)
    if not own:
        raise ValueError(explain("diff requires input that is at least one dimensional; got a "
                                 "scalar"))
    axis = canonical_axis(axis, len(own))
    with util.lazy_eval("diff"):
        edge = replaced(own, axis, 1)
        parts = []
        for part in (prepend, x, append):
            if part is None:
                continue
            part = util.one_array("diff", part)
            parts.append(part if shape_of(part) else util.broadcast_to(part, edge))
        x = _join("diff", parts, axis)
        for _ in range(operator.index(n)):
            size = shape_of(x)[axis]
            last = sh.slice_in_dim(x, min(1, size), size, axis)
            first = sh.slice_in_dim(x, 0, max(size - 1, 0), axis)
            prim = ew.ne_p if dtype_of(x) == dtypes.bool_ else ew.sub_p
            x = prim.bind(last, first)
        return x


__all__ = ["append", "column_stack", "concat", "concatenate", "diff", "dstack", "hstack", "repeat",
           "stack", "tile", "unstack", "vstack"]
