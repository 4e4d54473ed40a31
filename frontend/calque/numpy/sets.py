"""Sets of values: the unique family, isin, union1d, intersect1d, setdiff1d, setxor1d.

How many values a result has depends on them: under jit the caller says it with size.
Start reading at `_unique`.
"""
from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from calque.core import dtypes
from calque.core.avals import aval_of, dtype_of, shape_of
from calque.core.errors import explain
from calque.dispatch.eager import lazy_eval
from calque.lax.operands import as_size, canonical_axis
from calque.numpy import util
from calque.numpy.arithmetic import choose
from calque.numpy.creation import asarray
from calque.numpy.cumulative import cumsum
from calque.numpy.join import concatenate
from calque.numpy.picking import take
from calque.numpy.positions import nonzero
from calque.numpy.reductions import any as any_of
from calque.numpy.reductions import sum as total_of
from calque.numpy.shapes import moveaxis, ravel
from calque.numpy.sorting import COMPARED, places
from calque.numpy.util import concrete_value, needed
from calque.primitives import elementwise as ew
from calque.primitives import shape as sh
from calque.primitives import sort as so

_I32 = dtypes.int32


# ---- groups of equal rows
def _host_order(value: Any, equal_nan: bool) -> tuple[Any, Any]:
    """(positions of sorted rows, which of them begin a group) of a NumPy matrix."""
    parts = [p for c in value.T for p in ([c.real, c.imag] if c.dtype.kind == "c" else [c])]
    columns = []
    for p in parts:
        if dtypes.is_whole(p.dtype):
            columns.append([p.astype(np.int8) if dtypes.is_small(p.dtype) else p])
            continue
        wide = p.astype(np.float64)
        nan = np.isnan(wide)
        columns.append([nan, np.where(nan, 0, wide)])
    keys = [k for c in columns for k in c]
    n = len(value)
    order = np.lexsort(keys[::-1]) if keys else np.arange(n)
    rows = value[order]
    same = rows[1:] == rows[:-1]
    if equal_nan and not dtypes.is_whole(value.dtype):
        same |= (rows[1:] != rows[1:]) & (rows[:-1] != rows[:-1])
    return order, np.concatenate([np.ones(min(n, 1), bool), ~same.all(1)])


def _traced_order(x: Any, equal_nan: bool) -> tuple[Any, Any]:
    """_host_order of an array that is traced."""
    n, width = shape_of(x)
    columns = [sh.reshape(sh.slice_in_dim(x, i, i + 1, 1), (n,)) for i in range(width)]
    *columns, order = so.sort([*columns, sh.iota(_I32, (n,))], 0, num_keys=max(1, width))
    begins = sh.broadcast_in_dim(np.bool_(False), (n - 1,), ())
    for c in columns:
        x, y = sh.slice_in_dim(c, 1, n, 0), sh.slice_in_dim(c, 0, n - 1, 0)
        differ = ew.ne(x, y)
        if equal_nan and dtypes.is_inexact(dtype_of(x)):
            nans = ew.and_(ew.ne(x, x), ew.ne(y, y))
            differ = ew.and_(differ, ew.not_(nans))
        begins = ew.or_(begins, differ)
    return order, sh.concatenate([sh.broadcast_in_dim(np.bool_(True), (1,), ()), begins], 0)


class _Groups(NamedTuple):
    """Distinct rows: positions of the first of each, group of each row, sizes, how many."""

    first: Any
    inverse: Any
    counts: Any
    number: Any


def _groups(name: str, x: Any, size: int | None, equal_nan: bool) -> _Groups:
    """The groups of a matrix's rows; those beyond the last one repeat the first, with count 0."""
    value = concrete_value(x)
    if size is None:
        value = needed(name, x, f"The error arose for the first argument of jnp.{name}(). To make "
                       f"jnp.{name}() compatible with JIT and other transforms, you can specify a "
                       "concrete value for the size argument.", "pass size=.")
    n = shape_of(x)[0]
    if value is not None:
        order, begins = _host_order(value, equal_nan)
        starts = np.flatnonzero(begins)
        number = len(starts)
        wanted = number if size is None else size
        inverse = np.zeros(n, np.int32)
        inverse[order] = np.cumsum(begins) - 1
        counts = np.zeros(wanted, np.int32)
        counts[:number] = np.diff([*starts, n])[:wanted]
        at = np.zeros(wanted, np.int64)
        at[:number] = starts[:wanted]
        kind = dtypes.default_dtype(int)
        first = order[at].astype(np.int32) if n else at.astype(np.int32)
        return _Groups(asarray(first), asarray(inverse.astype(kind)), asarray(counts.astype(kind)),
                       np.int32(number))
    return _traced_groups(x, size, equal_nan)


def _traced_groups(x: Any, size: Any, equal_nan: bool) -> _Groups:
    n = shape_of(x)[0]
    order, begins = _traced_order(x, equal_nan)
    number = total_of(begins, dtype=_I32)
    group = ew.sub(cumsum(ew.convert(begins, _I32), dtype=_I32), np.int32(1))
    inverse = so.sort([order, group], 0)[1]
    (starts,) = nonzero(begins, size=size + 1, fill_value=n)
    starts = ew.convert(starts, _I32)
    low, high = sh.slice_in_dim(starts, 0, size, 0), sh.slice_in_dim(starts, 1, size + 1, 0)
    at = choose(ew.ge(low, ew.const(low, n)), np.int32(0), low)
    kind = dtypes.default_dtype(int)
    return _Groups(take(order, at, axis=0, mode="clip"), ew.convert(inverse, kind),
                   ew.convert(ew.sub(high, low), kind), number)


def _filled(values: Any, number: Any, fill_value: Any) -> Any:
    """values with those beyond `number` replaced."""
    if fill_value is None:
        return values
    shape = shape_of(values)
    fill = util.broadcast_to(util.cast(asarray(fill_value), dtype_of(values)), shape)
    index = sh.iota(_I32, shape, 0)
    return choose(ew.lt(index, asarray(number)), values, fill)


def _size(name: str, size: Any) -> int | None:
    if size is None:
        return None
    count = as_size(name, size)
    if count < 0:
        raise TypeError(explain(
            f"{name}: shape must have every element be nonnegative, got ({count},)."))
    return count


def unique(ar: Any, return_index: bool = False, return_inverse: bool = False,
           return_counts: bool = False, axis: int | None = None, *, equal_nan: bool = True,
           size: int | None = None, fill_value: Any = None, sorted: bool = True) -> Any:
    """The different elements (or slices along an axis), in order.

    Args:
      ar: array.
      return_index: also return where each occurs first.
      return_inverse: also return which one each element is.
      return_counts: also return how often each occurs.
      axis: compare slices along this axis; None: elements of the raveled array.
      equal_nan: whether NaN equals NaN.
      size: the number of results (static; needed under jit).
      fill_value: what missing ones are; the smallest element unless given.
      sorted: accepted; the result is always in order.

    Returns:
      An array, or a tuple (values, index, inverse, counts) of what was asked for.

    Raises:
      ValueError: the axis is out of bounds, or ar is empty, size is not 0 and there is no
        fill_value.
      ConcretizationTypeError: ar is traced and size is not given.

    Example:
      >>> import calque.numpy as jnp
      >>> jnp.unique(jnp.array([3, 1, 3]), return_counts=True)
      (Array([1, 3], dtype=int32), Array([1, 2], dtype=int32))
    """
    values, groups, shape = _unique("unique", ar, axis, equal_nan, size, fill_value)
    asked = [values]
    if return_index:
        asked.append(ew.convert(groups.first, dtypes.default_dtype(int)))
    if return_inverse:
        asked.append(sh.reshape(groups.inverse, shape))
    if return_counts:
        asked.append(groups.counts)
    return asked[0] if len(asked) == 1 else tuple(asked)


def _unique(name: str, ar: Any, axis: Any, equal_nan: bool, size: Any,
            fill_value: Any) -> tuple[Any, _Groups, tuple[int, ...]]:
    """(values, groups, shape of the inverse)."""
    x = util.one_array(name, ar)
    count = _size(name, size)
    with lazy_eval(name):
        x = asarray(x)
        shape, dtype = shape_of(x), dtype_of(x)
        if dtype.kind == "c":  # a number with a NaN part is NaN, whatever the other part
            x = choose(ew.ne(x, x), dtype.type(np.nan), x)
        if axis is None:
            x, at = ravel(x), 0
        else:
            at = canonical_axis(axis, len(shape))
            shape = (shape[at],)
        moved = moveaxis(x, at, 0)
        n, *rest = shape_of(moved)
        if not aval_of(moved).size and count and fill_value is None:
            raise ValueError(explain(
                f"jnp.{name}: for zero-sized input with nonzero size argument, fill_value must be "
                "specified"))
        rows = sh.reshape(moved, (n, int(np.prod(rest, dtype=np.int64))))
        if not n:
            empty = sh.broadcast_in_dim(np.int32(0), (count or 0,), ())
            kind = dtypes.default_dtype(int)
            counts = ew.convert(empty, kind)
            blank = sh.broadcast_in_dim(ew.const(x, 0), (count or 0, *rest), ())
            values = _filled(blank, np.int32(0), fill_value)
            inverse = sh.broadcast_in_dim(kind.type(0), (0,), ())
            return moveaxis(values, 0, at), _Groups(empty, inverse, counts, np.int32(0)), shape
        groups = _groups(name, rows, count, equal_nan)
        values = take(moved, groups.first, axis=0, mode="clip")
        values = _filled(values, groups.number, fill_value)
        return moveaxis(values, 0, at), groups, shape


class _UniqueAllResult(NamedTuple):
    values: Any
    indices: Any
    inverse_indices: Any
    counts: Any


class _UniqueCountsResult(NamedTuple):
    values: Any
    counts: Any


class _UniqueInverseResult(NamedTuple):
    values: Any
    inverse_indices: Any


def unique_all(x: Any, /, *, size: int | None = None, fill_value: Any = None) -> Any:
    """The different elements, where each occurs first, which one each element is, and counts.

    Args:
      x: array; every NaN counts as different.
      size: the number of results (static; needed under jit).
      fill_value: what missing ones are.

    Returns:
      A named tuple (values, indices, inverse_indices, counts).

    Raises:
      ConcretizationTypeError: x is traced and size is not given.

    Example:
      >>> import calque.numpy as jnp
      >>> jnp.unique_all(jnp.array([3, 1, 3])).counts
      Array([1, 2], dtype=int32)
    """
    return _UniqueAllResult(*unique(x, True, True, True, equal_nan=False, size=size,
                                    fill_value=fill_value))


def unique_counts(x: Any, /, *, size: int | None = None, fill_value: Any = None) -> Any:
    """The different elements and how often each occurs.

    Args:
      x: array; every NaN counts as different.
      size: the number of results (static; needed under jit).
      fill_value: what missing ones are.

    Returns:
      A named tuple (values, counts).

    Raises:
      ConcretizationTypeError: x is traced and size is not given.

    Example:
      >>> import calque.numpy as jnp
      >>> jnp.unique_counts(jnp.array([3, 1, 3])).counts
      Array([1, 2], dtype=int32)
    """
    return _UniqueCountsResult(*unique(x, return_counts=True, equal_nan=False, size=size,
                                       fill_value=fill_value))


def unique_inverse(x: Any, /, *, size: int | None = None, fill_value: Any = None) -> Any:
    """The different elements and which one each element is.

    Args:
      x: array; every NaN counts as different.
      size: the number of results (static; needed under jit).
      fill_value: what missing ones are.

    Returns:
      A named tuple (values, inverse_indices).

    Raises:
      ConcretizationTypeError: x is traced and size is not given.

    Example:
      >>> import calque.numpy as jnp
      >>> jnp.unique_inverse(jnp.array([3, 1, 3])).inverse_indices
      Array([1, 0, 1], dtype=int32)
    """
    return _UniqueInverseResult(*unique(x, return_inverse=True, equal_nan=False, size=size,
                                        fill_value=fill_value))


def unique_values(x: Any, /, *, size: int | None = None, fill_value: Any = None) -> Any:
    """The different elements.

    Args:
      x: array; every NaN counts as different.
      size: the number of results (static; needed under jit).
      fill_value: what missing ones are.

    Returns:
      An array.

    Raises:
      ConcretizationTypeError: x is traced and size is not given.

    Example:
      >>> import calque.numpy as jnp
      >>> jnp.unique_values(jnp.array([3, 1, 3]))
      Array([1, 3], dtype=int32)
    """
    return unique(x, equal_nan=False, size=size, fill_value=fill_value)


# ---- membership and combinations of two sets
@util.planned
def isin(element: Any, test_elements: Any, assume_unique: bool = False, invert: bool = False, *,
         method: str = "auto") -> Any:
    """Which elements are among others; NaN is not.

    Args:
      element: array.
      test_elements: array of the others.
      assume_unique: accepted.
      invert: which ones are not among them.
      method: accepted: 'auto', 'compare_all', 'binary_search' or 'sort'; the results are equal.

    Returns:
      A bool array of element's shape.

    Raises:
      ValueError: the method is unknown.

    Example:
      >>> import calque.numpy as jnp
      >>> jnp.isin(jnp.array([1, 2, 3]), jnp.array([3, 1]))
      Array([ True, False,  True], dtype=bool)
    """
    if method not in ("auto", "compare_all", "binary_search", "sort"):
        raise ValueError(explain(
            f"method={method!r} is not implemented; options are 'compare_all', 'binary_search', "
            "'sort', and 'auto'"))
    util.check_arrays("isin", element, test_elements)
    with lazy_eval("isin"):
        x, y = (asarray(v) for v in util.promote("isin", element, test_elements))
        found = _member(x, ravel(y))
        return util.array(ew.not_(found) if invert else found)


def _member(x: Any, y: Any) -> Any:
    shape, m, n = shape_of(x), aval_of(x).size, aval_of(y).size
    if not m or not n:
        return sh.broadcast_in_dim(np.bool_(False), shape, ())
    flat = sh.reshape(x, (m,))
    if m * n <= COMPARED:
        equal = ew.eq(sh.broadcast_in_dim(flat, (m, n), (0,)),
                      sh.broadcast_in_dim(y, (m, n), (1,)))
        return sh.reshape(any_of(equal, 1), shape)
    y = so.sort([y], 0)[0]
    found = take(y, places(y, flat, "left"), axis=0, mode="clip")
    return sh.reshape(ew.eq(found, flat), shape)


def _pair(name: str, ar1: Any, ar2: Any, size: Any) -> tuple[Any, Any]:
    """Both as vectors of one dtype, with values where no size is given."""
    x, y = util.check_arrays(name, ar1, ar2)
    if size is None:
        for v in (x, y):
            needed(name, v, f"The error arose in {name}()", "pass size=.")
    return tuple(ravel(asarray(v)) for v in util.promote(name, x, y))


def _chosen(values: Any, mask: Any, size: Any, fill_value: Any, *more: Any) -> list[Any]:
    """values (and more, with fills of their own) where the mask holds: size of them, or all."""
    if size is None:
        (at,) = nonzero(mask)
        return [take(v, at, axis=0) for v in (values, *[m for m, _ in more])]
    (at,) = nonzero(mask, size=size)
    number = total_of(mask, dtype=_I32)
    if size:  # without a fill_value, missing ones are the first one found
        first = sh.broadcast_in_dim(sh.slice_in_dim(at, 0, 1, 0), (size,), (0,))
        at = choose(ew.lt(sh.iota(_I32, (size,)), asarray(number)), at, util.array(first))
    pairs = ((values, fill_value), *more)
    if not aval_of(values).size:
        blank = [sh.broadcast_in_dim(ew.const(v, 0), (size,), ()) for v, _ in pairs]
        return [_filled(b, np.int32(0), f) for b, (_, f) in zip(blank, pairs)]
    found = [take(v, at, axis=0, mode="clip") for v, _ in pairs]
    if fill_value is None:  # nor is there a first one: zeros
        some = ew.gt(number, ew.const(number, 0))
        found[0] = choose(util.array(sh.broadcast_in_dim(some, (size,), ())), found[0],
                          ew.const(found[0], 0))
    return [_filled(v, number, f) for v, (_, f) in zip(found, pairs)]


def _strong_if_sized(values: Any, size: Any) -> Any:
    """values; those that are filled up to a size are not weak."""
    return values if size is None else util.cast(values, dtype_of(values))


def union1d(ar1: Any, ar2: Any, *, size: int | None = None, fill_value: Any = None) -> Any:
    """The different elements of two arrays together, in order.

    Args:
      ar1, ar2: arrays.
      size: the number of results (static; needed under jit).
      fill_value: what missing ones are; the smallest element unless given.

    Returns:
      A vector of the promoted dtype.

    Raises:
      ConcretizationTypeError: an argument is traced and size is not given.

    Example:
      >>> import calque.numpy as jnp
      >>> jnp.union1d(jnp.array([3, 1]), jnp.array([2, 3]))
      Array([1, 2, 3], dtype=int32)
    """
    x, y = _pair("union1d", ar1, ar2, size)
    return unique(concatenate([x, y]), size=size, fill_value=fill_value)


def setdiff1d(ar1: Any, ar2: Any, assume_unique: bool = False, *, size: int | None = None,
              fill_value: Any = None) -> Any:
    """The different elements of ar1 that are not in ar2, in order.

    Args:
      ar1, ar2: arrays.
      assume_unique: take ar1 as it is: neither sorted nor made unique.
      size: the number of results (static; needed under jit).
      fill_value: what missing ones are; 0 by default.

    Returns:
      A vector of ar1's dtype.

    Raises:
      ConcretizationTypeError: an argument is traced and size is not given.

    Example:
      >>> import calque.numpy as jnp
      >>> jnp.setdiff1d(jnp.array([3, 1, 2]), jnp.array([2]))
      Array([1, 3], dtype=int32)
    """
    _pair("setdiff1d", ar1, ar2, size)
    count = _size("setdiff1d", size)
    x = ravel(asarray(ar1))
    valid = None
    if not assume_unique:
        x, valid = _distinct(x, count)
    outside = isin(x, ar2, invert=True)
    if valid is not None:
        outside = ew.and_(outside, valid)
    made = _chosen(x, outside, count, 0 if fill_value is None else fill_value)[0]
    return util.cast(made, dtype_of(x), aval_of(x).weak_type)


def _distinct(x: Any, size: Any) -> tuple[Any, Any]:
    """(distinct values in order, which of them are): as many as elements where a size is given."""
    if not aval_of(x).size:
        return x, sh.broadcast_in_dim(np.bool_(True), (0,), ())
    values, counts = unique(x, return_counts=True,
                            size=None if size is None else aval_of(x).size)
    return values, ew.gt(counts, ew.const(counts, 0))


def intersect1d(ar1: Any, ar2: Any, assume_unique: bool = False, return_indices: bool = False, *,
                size: int | None = None, fill_value: Any = None) -> Any:
    """The different elements that are in both arrays, in order.

    Args:
      ar1, ar2: arrays.
      assume_unique: accepted.
      return_indices: also return where each occurs first in ar1 and in ar2.
      size: the number of results (static; needed under jit).
      fill_value: what missing ones are; the smallest common element unless given.

    Returns:
      A vector of the promoted dtype, or (vector, positions in ar1, positions in ar2).

    Raises:
      ConcretizationTypeError: an argument is traced and size is not given.

    Example:
      >>> import calque.numpy as jnp
      >>> jnp.intersect1d(jnp.array([3, 1, 2]), jnp.array([2, 3]))
      Array([2, 3], dtype=int32)
    """
    x, y = _pair("intersect1d", ar1, ar2, size)
    count = _size("intersect1d", size)
    n, m = aval_of(x).size, aval_of(y).size
    kind = dtypes.default_dtype(int)
    if not n or not m:
        values, none = sh.slice_in_dim(x, 0, 0, 0), np.zeros(0, kind)
        first = second = asarray(none)
        mask = sh.broadcast_in_dim(np.bool_(False), (0,), ())
    else:
        values, first, counts = unique(x, True, return_counts=True,
                                       size=None if size is None else n)
        mask = ew.and_(isin(values, y), ew.gt(counts, ew.const(counts, 0)))
        with lazy_eval("intersect1d"):
            ordered, at = so.sort([y, sh.iota(_I32, (m,))], 0)
            second = take(at, places(ordered, values, "left"), axis=0, mode="clip")
            second = util.array(ew.convert(second, kind))
    if assume_unique and size is None:
        first, second = ew.convert(first, _I32), ew.convert(second, _I32)
    found = _chosen(values, mask, count, fill_value, (first, n), (second, m))
    found[0] = _strong_if_sized(found[0], count)
    return tuple(found) if return_indices else found[0]


def _lonely(x: Any, size: Any, fill_value: Any) -> Any:
    """The elements that occur once, in order."""
    n = aval_of(x).size
    with lazy_eval("setxor1d"):
        (ordered,) = so.sort([x], 0)
        end = sh.broadcast_in_dim(np.bool_(True), (min(n, 1),), ())
        differ = ew.ne(sh.slice_in_dim(ordered, min(n, 1), n, 0),
                       sh.slice_in_dim(ordered, 0, max(n - 1, 0), 0))
        lonely = ew.and_(sh.concatenate([end, differ], 0), sh.concatenate([differ, end], 0))
        ordered, lonely = util.array(ordered), util.array(lonely)
    return _strong_if_sized(_chosen(ordered, lonely, size, fill_value)[0], size)


def setxor1d(ar1: Any, ar2: Any, assume_unique: bool = False, *, size: int | None = None,
             fill_value: Any = None) -> Any:
    """The different elements that are in one of two arrays only, in order.

    Args:
      ar1, ar2: arrays.
      assume_unique: each array has no element twice (one that has is left out).
      size: the number of results (static; needed under jit).
      fill_value: what missing ones are; the smallest element found unless given.

    Returns:
      A vector of the promoted dtype.

    Raises:
      ConcretizationTypeError: an argument is traced and size is not given.

    Example:
      >>> import calque.numpy as jnp
      >>> jnp.setxor1d(jnp.array([3, 1, 2]), jnp.array([2, 4]))
      Array([1, 3, 4], dtype=int32)
    """
    x, y = _pair("setxor1d", ar1, ar2, size)
    count = _size("setxor1d", size)
    if assume_unique:
        return _lonely(concatenate([x, y]), count, fill_value)
    (u, known_u), (v, known_v) = _distinct(x, size), _distinct(y, size)
    every = concatenate([u, v])
    valid = concatenate([known_u, known_v])
    if not aval_of(every).size:
        return _chosen(every, valid, count, fill_value)[0]
    with lazy_eval("setxor1d"):
        both = ew.and_(_member(every, x), _member(every, y))
        keep = ew.and_(valid, ew.not_(both))
        dropped, every = so.sort([ew.not_(keep), every], 0, num_keys=2)
        keep, every = util.array(ew.not_(dropped)), util.array(every)
    return _strong_if_sized(_chosen(every, keep, count, fill_value)[0], count)


__all__ = ["intersect1d", "isin", "setdiff1d", "setxor1d", "union1d", "unique", "unique_all",
           "unique_counts", "unique_inverse", "unique_values"]
