"""Order: sort, argsort, lexsort, sort_complex, partition, argpartition, searchsorted, digitize.

NaN counts as larger than all numbers, -0 equals 0, complex numbers are ordered by real, then by
imaginary part; every sort is stable.  Start reading at `sort`.
"""
from __future__ import annotations

from typing import Any

import numpy as np

from calque.core import dtypes
from calque.core.avals import aval_of, dtype_of, is_complex, ndim_of, shape_of
from calque.core.dims import is_far, is_larger
from calque.core.errors import explain
from calque.lax.operands import canonical_axis
from calque.lax.sort import top_k as lax_top_k
from calque.numpy import util
from calque.numpy.arithmetic import choose
from calque.numpy.arrange import flip
from calque.numpy.creation import asarray
from calque.numpy.cumulative import cumsum
from calque.numpy.picking import take, take_along_axis
from calque.numpy.reductions import sum as total_of
from calque.numpy.shapes import with_axis
from calque.primitives import elementwise as ew
from calque.primitives import shape as sh
from calque.primitives import sort as so

COMPARED = 1 << 18  # pairs up to which positions are counted by comparing all


def _plain(name: str, kind: Any, order: Any) -> None:
    if kind is not None:
        raise TypeError(explain(
            f"'kind' argument to {name} is not supported. Use stable=True or stable=False to "
            "specify sort stability."))
    if order is not None:
        raise TypeError(explain(f"'order' argument to {name} is not supported."))


def _on_axis(name: str, a: Any, axis: Any) -> tuple[Any, int]:
    """(array, axis counted from the front); raveled for None."""
    return with_axis(asarray(util.one_array(name, a)), axis)


@util.planned
def sort(a: Any, axis: int | None = -1, *, kind: None = None, order: None = None,
         stable: bool = True, descending: bool = False) -> Any:
    """The elements along an axis in order.

    Args:
      a: array.
      axis: the axis; None sorts the raveled array.
      kind, order: not supported.
      stable: accepted; equal elements always keep their order.
      descending: the largest (and NaN) first.

    Returns:
      An array of a's shape (raveled for axis None) and dtype.

    Raises:
      TypeError: a is no array, or kind or order is given.
      ValueError: the axis is out of bounds.

    Example:
      >>> import calque.numpy as jnp
      >>> jnp.sort(jnp.array([3, 1, 2]))
      Array([1, 2, 3], dtype=int32)
    """
    _plain("sort", kind, order)
    x, at = _on_axis("sort", a, axis)
    made = so.sort([x], at, is_stable=bool(stable))[0]
    return sh.rev(made, (at,)) if descending else made


@util.planned
def argsort(a: Any, axis: int | None = -1, *, kind: None = None, order: None = None,
            stable: bool = True, descending: bool = False, dtype: Any = None) -> Any:
    """The positions along an axis of the elements in order.

    Args:
      a: array.
      axis: the axis; None sorts the raveled array.
      kind, order: not supported.
      stable: whether equal elements of a descending order are in theirs (else the other way
        round); an ascending order is always stable.
      descending: the largest (and NaN) first.
      dtype: of the positions; the default integer unless given.

    Returns:
      An int array of a's shape (raveled for axis None).

    Raises:
      TypeError: a is no array, or kind or order is given.
      ValueError: the axis is out of bounds.

    Example:
      >>> import calque.numpy as jnp
      >>> jnp.argsort(jnp.array([3, 1, 2]))
      Array([1, 2, 0], dtype=int32)
    """
    _plain("argsort", kind, order)
    kind_of = dtypes.default_dtype(int) if dtype is None else util.user_dtype("argsort", dtype)
    x, at = _on_axis("argsort", a, axis)
    n = shape_of(x)[at]
    turned = descending and stable
    if turned:
        x = sh.rev(x, (at,))
    counted = kind_of if is_far((n,)) else dtypes.int32
    found = so.sort([x, sh.iota(counted, shape_of(x), at)], at, is_stable=bool(stable))[1]
    if turned:
        found = ew.sub(ew.const(found, n - 1), found)
    return ew.convert(sh.rev(found, (at,)) if descending else found, kind_of)


@util.planned
def lexsort(keys: Any, axis: int = -1) -> Any:
    """The positions along an axis in the order of several keys, the last one deciding first.

    Args:
      keys: arrays of one shape, or one array whose rows they are.
      axis: the axis.

    Returns:
      An int array of the keys' shape.

    Raises:
      TypeError: there are no keys.
      ValueError: shapes differ, or the axis is out of bounds.

    Example:
      >>> import calque.numpy as jnp
      >>> jnp.lexsort((jnp.array([3, 1, 2]), jnp.array([0, 1, 0])))
      Array([2, 0, 1], dtype=int32)
    """
    values = [asarray(k) for k in util.check_arrays("lexsort", *tuple(keys))]
    if not values:
        raise TypeError(explain("need sequence of keys with len > 0 in lexsort"))
    shape = shape_of(values[0])
    if any(shape_of(v) != shape for v in values):
        raise ValueError(explain("all keys need to be the same shape"))
    kind = dtypes.default_dtype(int)
    if not shape:
        return asarray(kind.type(0))
    at = canonical_axis(axis, len(shape))
    positions = sh.iota(dtypes.int32, shape, at)
    found = so.sort([*reversed(values), positions], at, num_keys=len(values))[-1]
    return ew.convert(found, kind)


@util.planned
def sort_complex(a: Any) -> Any:
    """The elements along the last axis in order, as complex numbers.

    Args:
      a: array.

    Returns:
      A complex array of a's shape.

    Raises:
      TypeError: a is no array.
      ValueError: a has no axis.

    Example:
      >>> import calque.numpy as jnp
      >>> jnp.sort_complex(jnp.array([2.0, 1.0]))
      Array([1.+0.j, 2.+0.j], dtype=complex64)
    """
    x, at = _on_axis("sort_complex", a, -1)
    own = dtype_of(x)
    wide = own.itemsize == 8 and own.kind in "iuf"
    kind = own if own.kind == "c" else np.dtype("complex128" if wide else "complex64")
    return ew.convert(so.sort([x], at)[0], kind)


def _split(name: str, a: Any, kth: Any, axis: Any) -> tuple[Any, int, int, Any]:
    """(array, axis, kth counted from the front, the array with its order reversed)."""
    if axis is None:
        raise TypeError(explain(f"{name}: 'NoneType' object cannot be interpreted as an integer",
                                fix=f"jnp.{name}(jnp.ravel(a), kth)"))
    x, at = _on_axis(name, a, axis)
    dtype = dtype_of(x)
    if dtype.kind == "c":
        raise NotImplementedError(explain(
            f"jnp.{name} for complex dtype is not implemented.", fix="use jnp.sort."))
    if dtype == dtypes.bool_:
        raise TypeError(explain("neg does not accept dtype bool. Accepted dtypes are subtypes of "
                                "integer, floating, complexfloating.", fix="use .astype(int)."))
    k = canonical_axis(kth, shape_of(x)[at])
    return x, at, k, (ew.not_p if dtypes.is_integer(dtype) else ew.neg_p).bind(x)


@util.planned
def partition(a: Any, kth: int, axis: int = -1) -> Any:
    """The elements along an axis such that element kth is where sorting puts it, smaller ones are
    before it and larger ones behind.

    Args:
      a: array of real dtype.
      kth: the position (static); negative ones count from the end.
      axis: the axis.

    Returns:
      An array of a's shape and dtype.

    Raises:
      NotImplementedError: a is complex.
      ValueError: kth or the axis is out of bounds.

    Example:
      >>> import calque.numpy as jnp
      >>> jnp.partition(jnp.array([5, 3, 8, 1]), 1)
      Array([1, 3, 8, 5], dtype=int32)
    """
    x, at, k, mirrored = _split("partition", a, kth, axis)
    low, _ = so.top_k(mirrored, k + 1, at)
    low = (ew.not_p if dtypes.is_integer(dtype_of(x)) else ew.neg_p).bind(low)
    high, _ = so.top_k(x, shape_of(x)[at] - k - 1, at)
    return sh.concatenate([low, high], at)


@util.planned
def argpartition(a: Any, kth: int, axis: int = -1) -> Any:
    """The positions of the elements such that that of element kth is where sorting puts it.

    Args:
      a: array of real dtype.
      kth: the position (static); negative ones count from the end.
      axis: the axis.

    Returns:
      An int32 array of a's shape; the positions behind kth ascend.

    Raises:
      NotImplementedError: a is complex.
      ValueError: kth or the axis is out of bounds.

    Example:
      >>> import calque.numpy as jnp
      >>> jnp.argpartition(jnp.array([5, 3, 8, 1]), 1)
      Array([3, 1, 0, 2], dtype=int32)
    """
    x, at, k, mirrored = _split("argpartition", a, kth, axis)
    shape = shape_of(x)
    order = so.sort([ew.not_(_top_key(mirrored)), sh.iota(dtypes.int32, shape, at)],
                    at)[1]
    low = sh.slice_in_dim(order, 0, k + 1, at)
    high = so.sort([sh.slice_in_dim(order, k + 1, shape[at], at)], at)[0]
    return sh.concatenate([low, high], at)


def _top_key(x: Any) -> Any:
    """Signed or unsigned integers in the order of top_k."""
    dtype = dtype_of(x)
    if dtypes.is_integer(dtype):
        return x
    signed = np.dtype(f"i{dtype.itemsize}")
    bits = ew.bitcast_convert_type(x, new_dtype=signed)
    low = ew.const(bits, np.iinfo(signed).max)
    return ew.select_n(ew.lt(bits, ew.const(bits, 0)), bits, ew.xor(bits, low))


_METHODS = ("compare_all", "scan", "scan_unrolled", "sort")


@util.planned
def searchsorted(a: Any, v: Any, side: str = "left", sorter: Any = None, *,
                 method: str = "scan") -> Any:
    """Where values belong in a sorted vector: a[i - 1] < v <= a[i] (side 'left').

    Args:
      a: vector in ascending order (or in the order of sorter).
      v: array of values.
      side: 'left' or 'right': before or behind equal elements.
      sorter: positions that sort a.
      method: accepted: 'scan', 'scan_unrolled', 'sort' or 'compare_all'; the results are equal.

    Returns:
      An int32 array of v's shape.

    Raises:
      ValueError: a is no vector, or side or method is unknown.

    Example:
      >>> import calque.numpy as jnp
      >>> jnp.searchsorted(jnp.array([1, 2, 2, 3]), jnp.array([2, 9]))
      Array([1, 4], dtype=int32)
    """
    if side not in ("left", "right"):
        raise ValueError(explain(f"invalid argument side={side!r}, expected 'left' or 'right'"))
    if method not in _METHODS:
        raise ValueError(explain(
            f"invalid argument method={method!r}, expected one of {list(_METHODS)}"))
    util.check_arrays("searchsorted", a, v)
    if ndim_of(a) != 1:
        raise ValueError(explain("a should be 1-dimensional"))
    with util.lazy_eval("searchsorted"):
        if sorter is not None:
            a = take(asarray(a), asarray(sorter))
        x, values = (asarray(u) for u in util.promote("searchsorted", a, v))
        return places(x, values, side)


def places(x: Any, v: Any, side: str) -> Any:
    """searchsorted of operands of one dtype: pairs compared, or a search by halves."""
    n, m = aval_of(x).size, aval_of(v).size
    shape, kind = shape_of(v), dtypes.int32
    if not n or not m:
        return sh.broadcast_in_dim(kind.type(0), shape, ())
    flat = sh.reshape(v, (m,))
    if not is_larger(n * m, COMPARED) and dtype_of(x).kind != "c":
        pairs = (m, n)
        found = before(sh.broadcast_in_dim(x, pairs, (1,)), sh.broadcast_in_dim(flat, pairs, (0,)),
                       side == "right")
        return sh.reshape(total_of(ew.convert(found, kind), 1, dtype=kind), shape)
    if is_complex(x):
        return sh.reshape(_merged(x, flat, side), shape)
    at = sh.broadcast_in_dim(kind.type(0), (m,), ())
    step = 1 << (n.bit_length() - 1)
    while step:  # as many elements as `at` says are before v; try step more
        far = ew.add(at, ew.const(at, step))
        there = take(x, ew.sub(far, ew.const(at, 1)), axis=0, mode="clip")
        more = ew.and_(before(there, flat, side == "right"),
                       ew.le(far, ew.const(far, n)))
        at = ew.select_n(more, at, far)
        step //= 2
    return sh.reshape(at, shape)


def _merged(x: Any, v: Any, side: str) -> Any:
    """Both sorted together: how many of x come before each of v."""
    n, m, kind = aval_of(x).size, aval_of(v).size, dtypes.int32
    first = side == "left"
    joined = sh.concatenate([v, x] if first else [x, v], 0)
    order = so.sort([joined, sh.iota(kind, (n + m,))], 0)[1]
    is_x = (ew.ge_p if first else ew.lt_p).bind(order, ew.const(order, m if first else n))
    counts = cumsum(ew.convert(is_x, kind), dtype=kind)
    back = so.sort([order, counts], 0)[1]
    start = 0 if first else n
    return sh.slice_in_dim(back, start, start + m, 0)


def before(x: Any, y: Any, equal: bool) -> Any:
    """x < y (or <=) in the order of sort: NaN is larger than all others and equal to itself."""
    result = (ew.le_p if equal else ew.lt_p).bind(x, y)
    if not dtypes.is_inexact(dtype_of(x)):
        return result
    nan = ew.ne(y, y)
    if not equal:
        nan = ew.and_(nan, ew.eq(x, x))
    return ew.or_(result, nan)


@util.planned
def digitize(x: Any, bins: Any, right: bool = False, *, method: str | None = None) -> Any:
    """The bin that each value lies in: bins[i - 1] <= x < bins[i] for ascending bins.

    Args:
      x: array.
      bins: vector in ascending or descending order.
      right: whether bins hold their right edge instead of the left one.
      method: accepted; see searchsorted.

    Returns:
      An int32 array of x's shape; 0 and the number of bins are outside.

    Raises:
      ValueError: bins is no vector.

    Example:
      >>> import calque.numpy as jnp
      >>> jnp.digitize(jnp.array([0.5, 2.5]), jnp.array([0.0, 1.0, 2.0]))
      Array([1, 3], dtype=int32)
    """
    util.check_arrays("digitize", x, bins)
    shape = shape_of(bins)
    if len(shape) != 1:
        raise ValueError(explain(
            f"digitize: bins must be a 1-dimensional array; got bins of shape {shape}"))
    values, edges = (asarray(u) for u in util.promote("digitize", x, bins))
    n = shape[0]
    if not n:
        return sh.broadcast_in_dim(np.int32(0), shape_of(values), ())
    side = "left" if right else "right"
    first, last = (sh.reshape(sh.slice_in_dim(edges, i, i + 1, 0), ()) for i in (0, n - 1))
    up = places(edges, values, side)
    down = places(flip(edges), values, side)
    return choose(ew.ge(last, first), up, ew.sub(ew.const(down, n), down))


@util.planned
def top_k(a: Any, k: int, /, *, axis: int = -1, mode: str = "largest", sorted: bool = True  # noqa: A002
          ) -> tuple[Any, Any]:
    """The k largest or smallest elements along an axis, and their positions.

    NaN counts as larger than all others; of equal elements the one of lower position comes first.
    (JAX has it since 0.12.)

    Args:
      a: array of bool, integer or float dtype.
      k: how many (static), at most the axis' size.
      axis: the axis; negative ones count from the last.
      mode: 'largest' or 'smallest'.
      sorted: accepted; they are in order, the largest or the smallest first.

    Returns:
      (values, positions): arrays with k elements along the axis; positions are int32.

    Raises:
      ValueError: the mode is unknown, the dtype complex, k negative or larger than the axis.

    Example:
      >>> import calque.numpy as jnp
      >>> jnp.top_k(jnp.array([3, 1, 2]), 2, mode="smallest")
      (Array([1, 2], dtype=int32), Array([1, 2], dtype=int32))
    """
    x = util.one_array("top_k", a)
    if is_complex(x):
        raise ValueError(explain("top_k is not compatible with complex inputs.",
                                 fix="order by abs(x), or by the real part."))
    if mode not in ("largest", "smallest"):
        raise ValueError(explain(f"mode must be 'largest' or 'smallest', got {mode!r}"))
    axis = canonical_axis(axis, ndim_of(x))
    if mode == "largest":
        values, at = lax_top_k(x, k, axis=axis)
        return values, at
    size = shape_of(x)[axis]
    if not 0 <= k <= size:
        raise ValueError(explain(f"top_k: k must be between 0 and {size}, got {k}.",
                                 fix="ask for as many as there are."))
    with util.lazy_eval("top_k"):
        at = sh.slice_in_dim(argsort(x, axis), 0, k, axis)
        return take_along_axis(x, at, axis), at


__all__ = ["argpartition", "argsort", "digitize", "lexsort", "partition", "searchsorted", "sort",
           "sort_complex", "top_k"]
