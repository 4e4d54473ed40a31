"""Where elements are: nonzero and its kin, indices of triangles and diagonals, raveled positions.

The number of nonzero elements depends on their values: under jit the caller says it with size.
Start reading at `nonzero`.
"""
from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from calque.core import dims, dtypes
from calque.core.avals import aval_of, dtype_of, ndim_of, refuse_masked, shape_of
from calque.core.errors import explain
from calque.core.sharding import SingleDeviceSharding
from calque.core.trace import Tracer
from calque.core.types import Function
from calque.dispatch.array import Array
from calque.dispatch.eager import lazy_eval
from calque.dispatch.sharded.placing import beside
from calque.lax.cumulative import cumsum
from calque.lax.operands import as_size, as_sizes
from calque.numpy import arithmetic as ar
from calque.numpy import rounding, ufuncs, util
from calque.numpy.arithmetic import as_truth
from calque.numpy.creation import asarray
from calque.numpy.shapes import ravel, transpose
from calque.numpy.util import concrete_value, needed
from calque.primitives import elementwise as ew
from calque.primitives import scatter as sc
from calque.primitives import shape as sh
from calque.primitives.gather import GatherScatterMode, ScatterDimensionNumbers


def nonzero(a: Any, *, size: int | None = None, fill_value: Any = None) -> tuple[Any, ...]:
    """The positions of nonzero elements, in row-major order.

    Args:
      a: array of one or more axes.
      size: the number of positions to return (static; needed under jit); those beyond are left
        out, missing ones are fill_value.
      fill_value: scalar, or one for each axis; 0 by default.

    Returns:
      One int vector for each axis.

    Raises:
      ValueError: a has no axes, or fill_value does not fit.
      ConcretizationTypeError: a is traced and size is not given.

    Example:
      >>> import calque.numpy as jnp
      >>> jnp.nonzero(jnp.array([0, 5, 0, 6]))
      (Array([1, 3], dtype=int32),)
    """
    refuse_masked(a)
    x = util.one_array("nonzero", a)
    shape = shape_of(x)
    if not shape:
        raise ValueError(explain("Calling nonzero on 0d arrays is not allowed. Use "
                                 "jnp.atleast_1d(scalar).nonzero() instead."))
    if size is None:
        value = needed("nonzero", x, "The size argument of jnp.nonzero must be statically "
                       "specified to use jnp.nonzero within JAX transformations.",
                       "pass size=, or use jnp.where(condition, x, y).")
        return tuple(_vector(x, p) for p in np.nonzero(value))
    for n in shape:
        dims.check_positions("nonzero", n, dtypes.default_dtype(int))
    count = as_size("nonzero", size)
    if count < 0:
        raise TypeError(explain(f"nonzero: size must be nonnegative, got {count}."))
    fills = _fills(fill_value, len(shape))
    value = concrete_value(x)  # type: ignore[assignment]
    if value is not None and all(isinstance(f, (int, np.integer)) for f in fills):
        return tuple(_vector(x, _filled(p, count, f))
                     for p, f in zip(np.nonzero(value), fills))
    with lazy_eval("nonzero"):
        return _traced(asarray(x), count, fills)


def _vector(x: Any, places: Any) -> Any:
    """Places in an array, on its device."""
    made = asarray(places)
    only = type(x) is Array and isinstance(x.aval.placement, SingleDeviceSharding)
    return beside(x, made) if only else made


def _fills(fill_value: Any, rank: int) -> tuple[Any, ...]:
    if fill_value is None:
        return (0,) * rank
    if isinstance(fill_value, (tuple, list)):
        if len(fill_value) != rank:
            raise ValueError(explain("fill_value must be a scalar or a tuple of length "
                                     f"{rank}; got {fill_value}"))
        return tuple(fill_value)
    if np.shape(fill_value) if not hasattr(fill_value, "aval") else shape_of(fill_value):
        raise ValueError(explain(f"fill_value must be a scalar or a tuple of length {rank}; got "
                                 f"{fill_value}"))
    return (fill_value,) * rank


def _filled(positions: Any, count: int, fill: Any) -> Any:
    out = np.full(count, fill, np.int64)
    out[:len(positions)] = positions[:count]
    return out


def _traced(x: Any, count: int, fills: Sequence[Any]) -> tuple[Any, ...]:
    """The k-th nonzero element writes its position to place k; places of none keep the fill."""
    shape, kind = shape_of(x), dtypes.default_dtype(int)
    total = math.prod(shape)
    fills = tuple(util.cast(util.one_array("nonzero", f), kind) for f in fills)
    blanks = [util.broadcast_to(asarray(f), (count,)) for f in fills]
    if not total or not count:
        return tuple(blanks)
    mask = ravel(as_truth(x))
    number = cumsum(ew.convert(mask, kind), 0)
    place = ew.select_n(mask, sh.broadcast_in_dim(dims.number(count, kind), (total,), ()),
                        ew.sub(number, kind.type(1)))
    numbers = ScatterDimensionNumbers((), (0,), (0,))
    flat = sh.iota(kind, (total,))
    stride = total
    found = []
    for n, blank in zip(shape, blanks):
        stride //= n
        along = ew.rem(ew.div(flat, dims.number(stride, kind)), dims.number(n, kind))
        found.append(sc.scatter(sc.scatter_p, blank, sh.reshape(place, (total, 1)), along, numbers,
                                mode=GatherScatterMode.FILL_OR_DROP, unique_indices=True))
    return tuple(found)


def flatnonzero(a: Any, *, size: int | None = None, fill_value: Any = None) -> Any:
    """The positions of nonzero elements of the raveled array.

    Args:
      a: array.
      size: the number of positions to return (static; needed under jit).
      fill_value: scalar for missing ones; 0 by default.

    Returns:
      An int vector.

    Raises:
      ConcretizationTypeError: a is traced and size is not given.

    Example:
      >>> import calque.numpy as jnp
      >>> jnp.flatnonzero(jnp.array([[0, 5], [6, 0]]))
      Array([1, 2], dtype=int32)
    """
    x = util.one_array("flatnonzero", a)
    return nonzero(ravel(asarray(x)), size=size, fill_value=fill_value)[0]


def argwhere(a: Any, *, size: int | None = None, fill_value: Any = None) -> Any:
    """The positions of nonzero elements as rows.

    Args:
      a: array.
      size: the number of rows to return (static; needed under jit).
      fill_value: scalar, or one for each axis, for missing rows; 0 by default.

    Returns:
      An int array (number of nonzero elements, number of axes).

    Raises:
      ConcretizationTypeError: a is traced and size is not given.

    Example:
      >>> import calque.numpy as jnp
      >>> jnp.argwhere(jnp.array([[0, 5], [6, 0]]))
      Array([[0, 1],
             [1, 0]], dtype=int32)
    """
    x = util.one_array("argwhere", a)
    x = asarray(x)
    shape = shape_of(x)
    found = nonzero(x if shape else sh.reshape(x, (1,)), size=size, fill_value=fill_value)
    with lazy_eval("argwhere"):
        rows = sh.concatenate([sh.reshape(f, (1, aval_of(f).size)) for f in found], 0)
        columns = transpose(rows)
        return columns if shape else sh.slice_(columns, (0, 0), (shape_of(columns)[0], 0))


# ---- indices for other functions
def ix_(*args: Any) -> tuple[Any, ...]:
    """Vectors as an open mesh: x[ix_(rows, columns)] is the block of these rows and columns.

    Args:
      args: integer vectors.

    Returns:
      One array for each vector, along its own axis.

    Raises:
      ValueError: an argument is no vector.

    Example:
      >>> import calque.numpy as jnp
      >>> jnp.arange(9).reshape(3, 3)[jnp.ix_(jnp.array([0, 2]), jnp.array([1, 2]))]
      Array([[1, 2],
             [7, 8]], dtype=int32)
    """
    values = util.check_arrays("ix_", *args)
    n = len(values)
    made = []
    for k, v in enumerate(values):
        v = asarray(v)
        if ndim_of(v) != 1:
            raise ValueError(explain("Arguments to jax.numpy.ix_ must be 1-dimensional, got shape "
                                     f"{shape_of(v)}"))
        if dtype_of(v) == dtypes.bool_:
            raise NotImplementedError(explain(
                "Boolean arguments to jax.numpy.ix_ are not implemented",
                fix="pass jnp.flatnonzero(mask)."))
        if not aval_of(v).size:
            v = ew.convert(v, dtypes.default_dtype(int))
        made.append(sh.reshape(v, tuple(aval_of(v).size if i == k else 1 for i in range(n))))
    return tuple(made)


@util.planned
def unravel_index(indices: Any, shape: Any) -> tuple[Any, ...]:
    """Positions in a raveled array as positions on each axis.

    Args:
      indices: integer array; negative ones count from the end, those outside are clipped.
      shape: the array's shape (static).

    Returns:
      One array of the indices' shape for each axis.

    Raises:
      TypeError: indices is no array.

    Example:
      >>> import calque.numpy as jnp
      >>> jnp.unravel_index(jnp.array([1, 5]), (2, 3))
      (Array([0, 1], dtype=int32), Array([1, 2], dtype=int32))
    """
    i = util.one_array("unravel_index", indices)
    i = asarray(i)
    if any(isinstance(n, Tracer) for n in (shape if isinstance(shape, (tuple, list)) else [shape])):
        return _unraveled(i, [ew.convert(asarray(n), dtype_of(i)) for n in shape])
    sizes = as_sizes("unravel_index", shape)
    total = math.prod(sizes)
    if not total:
        i = rounding.clip(i, 0, 0)
    else:
        i = rounding.clip(i, -total, total - 1)
        i = ar.choose(ew.lt(i, ew.const(i, 0)), ew.add(i, ew.const(i, total)), i)
    found = []
    for n in reversed(sizes):
        i, rest = ar.divmod(i, max(n, 1))
        found.append(rest)
    return tuple(reversed(found))


def _unraveled(i: Any, sizes: Sequence[Any]) -> tuple[Any, ...]:
    """The same for sizes that are traced."""
    total: Any = 1
    for n in sizes:
        total = ufuncs.multiply(total, n)
    i = rounding.clip(i, ufuncs.negative(total), ufuncs.maximum(ufuncs.subtract(total, 1), 0))
    i = ar.choose(ew.lt(i, ew.const(i, 0)), ufuncs.add(i, total), i)
    found = []
    for n in reversed(sizes):
        i, rest = ar.divmod(i, ufuncs.maximum(n, 1))
        found.append(rest)
    return tuple(reversed(found))


@util.planned
def ravel_multi_index(multi_index: Sequence[Any], dims: Sequence[int], mode: str = "raise",
                      order: str = "C", *, dtype: Any = None) -> Any:
    """Positions on each axis as positions in the raveled array.

    Args:
      multi_index: one integer array for each axis; shapes broadcast.
      dims: the array's shape (static).
      mode: 'raise' (an entry outside is an error; not under jit), 'wrap', 'clip', or 'ignore':
        entries are not looked at.
      order: 'C' (the last axis runs fastest) or 'F' (the first one).
      dtype: of the result; by default the promoted one.

    Returns:
      An integer array of the broadcast shape.

    Raises:
      ValueError: an entry is outside, no integer, or mode or order is unknown.

    Example:
      >>> import calque.numpy as jnp
      >>> jnp.ravel_multi_index((jnp.array([0, 1]), jnp.array([1, 2])), (2, 3))
      Array([1, 5], dtype=int32)
    """
    if len(multi_index) != len(dims):
        raise AssertionError(f"len(multi_index)={len(multi_index)} != len(dims)={len(dims)}")
    sizes = tuple(as_size("ravel_multi_index", d) for d in dims)
    values = list(util.check_arrays("ravel_multi_index", *multi_index))
    for v in values:
        if not dtypes.is_integer(dtype_of(v)):
            raise ValueError(explain(f"dtype={dtype_of(v)!r} is not an integer type.",
                                     fix="convert it with .astype(int)."))
    if order not in ("C", "F"):
        raise ValueError(explain(f"order={order!r} not understood. Must be 'C' or 'F'"))
    if mode not in ("raise", "wrap", "clip", "ignore"):
        raise ValueError(explain(f"invalid mode={mode!r}. Expected 'raise', 'wrap', 'clip', or "
                                 "'ignore'."))
    if mode == "raise":
        for v, n in zip(values, sizes):
            at = needed("ravel_multi_index", v, "The error occurred because ravel_multi_index was "
                        "jit-compiled with mode='raise'.", "use mode='wrap' or mode='clip'.")
            if ((at < 0) | (at >= n)).any():
                raise ValueError(explain("invalid entry in coordinates array"))
    with lazy_eval("ravel_multi_index"):
        if mode == "clip":
            values = [rounding.clip(asarray(v), 0, n - 1) for v, n in zip(values, sizes)]
        elif mode == "wrap":
            values = [ar.remainder(asarray(v), n) for v, n in zip(values, sizes)]
        if dtype is not None:
            values = [util.cast(asarray(v), util.user_dtype("ravel_multi_index", dtype))
                      for v in values]
        pairs = list(zip(values, sizes))
        total: Any = None
        for v, n in pairs if order == "C" else pairs[::-1]:
            total = asarray(v) if total is None else total * n + v
        return asarray(0) if total is None else total


def _pair(found: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(asarray(f) for f in found)


def tril_indices(n: int, k: int = 0, m: int | None = None) -> tuple[Any, Any]:
    """The positions of the lower triangle of an (n, m) matrix.

    Args:
      n: rows.
      k: diagonal that the triangle goes up to; positive ones are above the main one.
      m: columns; n by default.

    Returns:
      Two int vectors: rows and columns.

    Raises:
      TypeError: a size is no integer.

    Example:
      >>> import calque.numpy as jnp
      >>> jnp.tril_indices(2)
      (Array([0, 1, 1], dtype=int32), Array([0, 0, 1], dtype=int32))
    """
    sizes = [as_size("tril_indices", v) for v in (n, k, n if m is None else m)]
    if not dims.is_static(sizes):
        return _triangle(False, *sizes)
    with util.on_host("tril_indices"):
        return _pair(np.tril_indices(*sizes))


def _triangle(upper: bool, n: Any, k: Any, m: Any) -> tuple[Any, Any]:
    """The positions of a triangle where sizes are symbolic: up to the diagonal k, or from it on."""
    rows, columns, last = (m, n, -k) if upper else (n, m, k)  # upper: of the transposed, lower
    first = dims.min_dim(dims.max_dim(-last, 0), rows)  # the rows below have some
    full = dims.max_dim(dims.min_dim(columns - last, rows), first)  # from here on they have all
    count = dims.floordiv((full - first) * (first + full + 2 * last + 1), 2) + (
        rows - full) * columns
    i, j = sh.iota(dtypes.int32, (n, m), 0), sh.iota(dtypes.int32, (n, m), 1)
    diagonal = i + dims.number(k, dtypes.int32)
    found = nonzero(j >= diagonal if upper else j <= diagonal, size=dims.max_dim(count, 0))
    return found[0], found[1]


def triu_indices(n: int, k: int = 0, m: int | None = None) -> tuple[Any, Any]:
    """The positions of the upper triangle of an (n, m) matrix.

    Args:
      n: rows.
      k: diagonal that the triangle begins at; positive ones are above the main one.
      m: columns; n by default.

    Returns:
      Two int vectors: rows and columns.

    Raises:
      TypeError: a size is no integer.

    Example:
      >>> import calque.numpy as jnp
      >>> jnp.triu_indices(2)
      (Array([0, 0, 1], dtype=int32), Array([0, 1, 1], dtype=int32))
    """
    sizes = [as_size("triu_indices", v) for v in (n, k, n if m is None else m)]
    if not dims.is_static(sizes):
        return _triangle(True, *sizes)
    with util.on_host("triu_indices"):
        return _pair(np.triu_indices(*sizes))


def _matrix_shape(arr: Any) -> tuple[int, int]:
    shape = tuple(shape_of(arr))
    if len(shape) != 2:
        raise ValueError(explain("Only 2-D inputs are accepted",
                                 fix=f"got an array of shape {shape}."))
    return shape


def tril_indices_from(arr: Any, k: int = 0) -> tuple[Any, Any]:
    """The positions of the lower triangle of a matrix.

    Args:
      arr: a matrix (its shape is all that matters).
      k: diagonal that the triangle goes up to.

    Returns:
      Two int vectors: rows and columns.

    Raises:
      ValueError: arr is no matrix.

    Example:
      >>> import calque.numpy as jnp
      >>> jnp.tril_indices_from(jnp.zeros((2, 2)))
      (Array([0, 1, 1], dtype=int32), Array([0, 0, 1], dtype=int32))
    """
    n, m = _matrix_shape(arr)
    return tril_indices(n, k, m)


def triu_indices_from(arr: Any, k: int = 0) -> tuple[Any, Any]:
    """The positions of the upper triangle of a matrix.

    Args:
      arr: a matrix (its shape is all that matters).
      k: diagonal that the triangle begins at.

    Returns:
      Two int vectors: rows and columns.

    Raises:
      ValueError: arr is no matrix.

    Example:
      >>> import calque.numpy as jnp
      >>> jnp.triu_indices_from(jnp.zeros((2, 2)))
      (Array([0, 0, 1], dtype=int32), Array([0, 1, 1], dtype=int32))
    """
    n, m = _matrix_shape(arr)
    return triu_indices(n, k, m)


def mask_indices(n: int, mask_func: Function, k: int = 0, *,
                 size: int | None = None) -> tuple[Any, Any]:
    """The positions where mask_func(ones((n, n)), k) is not zero.

    Args:
      n: rows and columns.
      mask_func: such as jnp.triu.
      k: passed on to mask_func.
      size: the number of positions to return (static; needed under jit).

    Returns:
      Two int vectors: rows and columns.

    Raises:
      TypeError: n is no integer.

    Example:
      >>> import calque.numpy as jnp
      >>> jnp.mask_indices(2, jnp.triu)
      (Array([0, 0, 1], dtype=int32), Array([0, 1, 1], dtype=int32))
    """
    from calque.numpy.creation import ones
    n = as_size("mask_indices", n)
    rows, columns = nonzero(mask_func(ones((n, n)), k), size=size)
    return rows, columns


def diag_indices(n: int, ndim: int = 2) -> tuple[Any, ...]:
    """The positions of the main diagonal of an array of n along each of ndim axes.

    Args:
      n: the size of the axes.
      ndim: their number.

    Returns:
      ndim int vectors.

    Raises:
      ValueError: a size is negative.

    Example:
      >>> import calque.numpy as jnp
      >>> jnp.diag_indices(2)
      (Array([0, 1], dtype=int32), Array([0, 1], dtype=int32))
    """
    n, ndim = as_size("diag_indices", n), as_size("diag_indices", ndim)
    for name, v in (("n", n), ("ndim", ndim)):
        if v < 0:
            raise ValueError(explain(f"{name} argument to diag_indices must be nonnegative, got "
                                     f"{v}"))
    with util.on_host("diag_indices"):
        return _pair((np.arange(n),) * ndim)


def diag_indices_from(arr: Any) -> tuple[Any, ...]:
    """The positions of the main diagonal of an array whose axes are equal.

    Args:
      arr: array of 2 or more axes.

    Returns:
      One int vector for each axis.

    Raises:
      ValueError: the axes differ, or there is only one.

    Example:
      >>> import calque.numpy as jnp
      >>> jnp.diag_indices_from(jnp.zeros((2, 2)))
      (Array([0, 1], dtype=int32), Array([0, 1], dtype=int32))
    """
    x = util.one_array("diag_indices_from", arr)
    shape = shape_of(x)
    if len(shape) < 2:
        raise ValueError(explain("input array must be at least 2-d"))
    if len(set(shape)) > 1:
        raise ValueError(explain("All dimensions of input must be of equal length"))
    return diag_indices(shape[0], len(shape))


__all__ = ["argwhere", "diag_indices", "diag_indices_from", "flatnonzero", "ix_", "mask_indices",
           "nonzero", "ravel_multi_index", "tril_indices", "tril_indices_from", "triu_indices",
           "triu_indices_from", "unravel_index"]
