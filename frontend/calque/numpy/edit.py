"""Arrays with slices left out or put in: delete, insert, trim_zeros."""
from __future__ import annotations

from typing import Any

import numpy as np

from calque.core import dtypes
from calque.core.avals import aval_of, dtype_of, ndim_of, shape_of
from calque.core.errors import explain
from calque.dispatch.eager import lazy_eval
from calque.lax.index import wrap_negative
from calque.lax.operands import canonical_axis
from calque.numpy import rounding, util
from calque.numpy.advanced import take
from calque.numpy.at import At
from calque.numpy.creation import asarray
from calque.numpy.indexing import widened
from calque.numpy.shapes import ravel, with_axis
from calque.numpy.util import concrete_value, needed
from calque.primitives import elementwise as ew
from calque.primitives import reduce as rd
from calque.primitives import shape as sh
from calque.transforms.vmap import move_axis

RUNS = 8  # positions one after another: of so many parts at most, slices are joined


def _on_axis(x: Any, index: Any, axis: int) -> Any:
    before = (slice(None),) * axis
    if isinstance(index, np.ndarray) and index.size:
        cuts = np.flatnonzero(np.diff(index) != 1) + 1
        if len(cuts) < RUNS:
            parts = [take(x, (*before, slice(int(run[0]), int(run[-1]) + 1)))
                     for run in np.split(index, cuts)]
            return sh.concatenate(parts, axis) if len(parts) > 1 else parts[0]
    return take(x, (*before, index))


def delete(arr: Any, obj: Any, axis: Any = None, *, assume_unique_indices: bool = False) -> Any:
    """arr without the slices at obj.

    Args:
      arr: array.
      obj: slice, integer, integer array or bool mask along the axis (concrete).
      axis: the axis; None works on the raveled array.
      assume_unique_indices: a promise that obj holds no position twice; then it may be traced.

    Returns:
      An array of arr's dtype.

    Raises:
      ValueError: obj has the wrong dtype or shape.
      IndexError: a position is outside.
      ConcretizationTypeError: obj is traced.

    Example:
      >>> import calque.numpy as jnp
      >>> jnp.delete(jnp.array([5, 6, 7]), 1)
      Array([5, 7], dtype=int32)
    """
    x = util.one_array("delete", arr)
    x = asarray(x)
    x, axis = with_axis(x, axis)
    n = shape_of(x)[axis]
    if isinstance(obj, slice):
        return _on_axis(x, np.delete(np.arange(n), obj), axis)
    where = util.one_array("delete", int(obj) if isinstance(obj, bool) else obj, 1)
    kind = dtype_of(where)
    if kind != dtypes.bool_ and not dtypes.is_integer(kind):
        raise ValueError(explain(f"np.delete(arr, obj): got obj.dtype={kind.name}; must be integer "
                                 "or bool."))
    if assume_unique_indices and concrete_value(where) is None and kind != dtypes.bool_:
        return _delete_traced(x, where, axis, n)
    at = needed("delete", where, "'obj' array argument of jnp.delete()",
                "pass assume_unique_indices=True if no position occurs twice.")
    if at.dtype == bool:
        if at.shape != (n,):
            raise ValueError(explain(
                "np.delete(arr, obj): for boolean indices, obj must be one-dimensional with length "
                "matching specified axis."))
        return _on_axis(x, np.flatnonzero(~at), axis)
    if not at.ndim:
        at = np.asarray(canonical_axis(int(at), n))
    wrong = at[(at < -n) | (at >= n)]
    if wrong.size:
        raise IndexError(explain(f"index {wrong.flat[0]} is out of bounds for axis {axis} with "
                                 f"size {n}"))
    return _on_axis(x, np.delete(np.arange(n), at.ravel()), axis)


def _delete_traced(x: Any, where: Any, axis: int, n: int) -> Any:
    """Distinct traced positions: the rest are those that a mask leaves."""
    from calque.numpy.positions import flatnonzero
    with lazy_eval("delete"):
        keep = At(sh.broadcast_in_dim(np.True_, (n,), ()))[ravel(where)].set(False)
        rest = flatnonzero(keep, size=max(0, n - aval_of(where).size))
        return _on_axis(x, rest, axis)


def insert(arr: Any, obj: Any, values: Any, axis: Any = None) -> Any:
    """arr with values put in before the positions obj.

    Args:
      arr: array.
      obj: slice, integer or integer vector: positions in arr; those outside are clipped.
      values: array or scalar that broadcasts to the slices put in.
      axis: the axis; None works on the raveled array.

    Returns:
      An array of arr's dtype.

    Raises:
      ValueError: obj is no integer or has more than one axis.

    Example:
      >>> import calque.numpy as jnp
      >>> jnp.insert(jnp.array([5, 6, 7]), 1, 9)
      Array([5, 9, 6, 7], dtype=int32)
    """
    dtypes.check_fits(obj)
    x, v = util.check_arrays("insert", arr, 0 if isinstance(obj, slice) else obj, values)[::2]
    x, v = asarray(x), asarray(v)
    x, axis = with_axis(x, axis)
    shape = shape_of(x)
    n = shape[axis]
    at = np.arange(*obj.indices(n)) if isinstance(obj, slice) else _value_of(obj)
    if ndim_of(at) > 1:
        raise ValueError(explain("jnp.insert(): obj must be a slice, a one-dimensional array, or a "
                                 f"scalar; got {obj}"))
    if not dtypes.is_integer(dtype_of(at)):
        raise ValueError(explain(f"jnp.insert(): index array must be integer typed; got {obj}"))
    with lazy_eval("insert"):
        rank = len(shape)
        v = sh.reshape(v, (1,) * max(0, rank - ndim_of(v)) + shape_of(v))
        if not ndim_of(at):
            v = move_axis(v, 0, axis)
        count = max(aval_of(at).size, shape_of(v)[axis]) if aval_of(at).size else 0
        places = _places(at, n, count)
        target = tuple(count if d == axis else s for d, s in enumerate(shape))
        v = util.broadcast_to(util.cast(v, dtype_of(x)), target)
        return _merged(x, v, places, axis, n + count)


def _value_of(obj: Any) -> Any:
    """An index array's value where it is at hand."""
    value = concrete_value(obj)
    return asarray(obj) if value is None else value


def _places(at: Any, n: int, count: int) -> Any:
    """Where in the result the inserted slices go: after those put in before them."""
    if isinstance(at, np.ndarray):
        at = np.broadcast_to(at.ravel(), (count,)).astype(np.int64)
        at = np.clip(np.where(at < 0, at + n, at), 0, n)
        order = np.argsort(at, kind="stable")
        places = np.array(at)
        places[order] += np.arange(count)
        return places
    at = util.broadcast_to(ravel(widened(at, n + count)), (count,))
    at = rounding.clip(wrap_negative(at, n), 0, n)
    shape = (count, count)
    own = sh.broadcast_in_dim(at, shape, (0,))
    other = sh.broadcast_in_dim(at, shape, (1,))
    earlier = np.tri(count, k=-1, dtype=bool)
    before = ew.or_(ew.lt(other, own),
                    ew.and_(ew.eq(other, own), earlier))
    return ew.add(at, rd.reduce_sum(ew.convert(before, dtype_of(at)), (1,)))


def _merged(x: Any, values: Any, places: Any, axis: int, total: int) -> Any:
    """x and values along the axis, values at places."""
    from calque.numpy.positions import flatnonzero
    blank = sh.broadcast_in_dim(np.True_, (total,), ())
    n = shape_of(x)[axis]
    joined = sh.concatenate([x, values], axis)
    if isinstance(places, np.ndarray):
        return _on_axis(joined, np.argsort(np.concatenate([
            np.delete(np.arange(total), places), places])), axis)
    rest = flatnonzero(At(blank)[places].set(False), size=n)
    index = sh.concatenate([asarray(rest).astype("int32"), asarray(places).astype("int32")], 0)
    source = At(sh.broadcast_in_dim(np.int32(0), (total,), ()))[index].set(
        np.arange(total, dtype=np.int32), unique_indices=True)
    return _on_axis(joined, source, axis)


def trim_zeros(filt: Any, trim: str = "fb", axis: Any = None) -> Any:
    """filt without the zeros at its ends.

    Args:
      filt: array.
      trim: 'f' for the front, 'b' for the back, 'fb' for both.
      axis: the axes that are trimmed; all by default.

    Returns:
      A part of filt.

    Raises:
      ConcretizationTypeError: filt is traced (the shape depends on its values).

    Example:
      >>> import calque.numpy as jnp
      >>> jnp.trim_zeros(jnp.array([0, 0, 5, 0]))
      Array([5], dtype=int32)
    """
    x = util.one_array("trim_zeros", filt)
    value = needed("trim_zeros", x, "Error arose in the `filt` argument of trim_zeros()",
                   "call it outside of jit.")
    axes = util.axis_tuple(axis, value.ndim)
    found = np.argwhere(value)
    index = []
    for d in range(value.ndim):
        first, last = 0, value.shape[d]
        if d in axes and not len(found):
            last = 0
        elif d in axes:
            first = int(found[:, d].min()) if "f" in trim.lower() else 0
            last = int(found[:, d].max()) + 1 if "b" in trim.lower() else last
        index.append(slice(first, last))
    return take(asarray(x), tuple(index))


__all__ = ["delete", "insert", "trim_zeros"]
