"""Reductions: sum, prod, max, min, all, any, argmax, argmin, count_nonzero, ptp.

Half-precision sums are taken in float32; small integers are summed in int32 (uint32).
Start reading at `_reduce`.
"""
from __future__ import annotations

import builtins
import math
from typing import Any

import numpy as np

from calque.core import dtypes
from calque.core.avals import dtype_of, shape_of
from calque.core.errors import explain
from calque.core.lists import without
from calque.core.primitive import Primitive
from calque.core.types import Axes, Shape
from calque.lax.operands import canonical_axis
from calque.numpy import util
from calque.numpy.arithmetic import as_truth, choose
from calque.primitives import elementwise as ew
from calque.primitives import reduce as rd
from calque.primitives import shape as sh

HALF = (np.dtype("float16"), dtypes.bfloat16, *dtypes.SMALL_FLOATS)


def with_axes(x: Any, shape: Shape, axes: Axes) -> Any:
    """A reduced value with its reduced axes put back at size 1."""
    kept = tuple(i for i in range(len(shape)) if i not in axes)
    full = tuple(1 if i in axes else n for i, n in enumerate(shape))
    return sh.broadcast_in_dim(x, full, kept) if axes else x


def lowest(dtype: Any) -> Any:
    """The identity of max."""
    return dtype.type(dtypes.extreme(dtype, largest=False))


def highest(dtype: Any) -> Any:
    """The identity of min."""
    return dtype.type(dtypes.extreme(dtype, largest=True))


def masked(name: str, x: Any, where: Any, identity: Any) -> Any:
    """x with the identity where the mask does not hold."""
    if where is None:
        return x
    return choose(where_mask(name, where), x, identity)


def where_mask(name: str, where: Any) -> Any:
    """The argument `where`, which must be boolean."""
    mask = util.one_array(name, where)
    if dtype_of(mask) != dtypes.bool_:
        raise ValueError(explain(
            f"jnp.{name}: where must be None or a boolean array; got where.dtype="
            f"{dtype_of(mask)!r}.", fix="compare it first, for example where != 0."))
    return mask


def _no_identity(name: str) -> Exception:
    return ValueError(explain(
        f"zero-size array to reduction operation {name} which has no identity",
        fix="check the size first, or pass initial=."))


def _reduce(name: str, prim: Primitive, join: Primitive, x: Any, axis: Any, result: Any,
            keepdims: Any, initial: Any, where: Any, identity: Any) -> Any:
    """Convert, mask, reduce, join with initial, convert back."""
    working = dtypes.float32 if result in HALF and prim in (
        rd.reduce_sum_p, rd.reduce_prod_p) else result
    x = util.cast(x, working)
    x = masked(name, x, where, identity(working))
    shape = shape_of(x)
    axes = util.axis_tuple(axis, len(shape))
    if initial is not None:
        initial = util.one_array(name, initial)
        if shape_of(initial):
            raise ValueError(explain(
                f"initial value must be a scalar. Got array of shape {shape_of(initial)}",
                fix="pass a number."))
        initial = util.cast(initial, working)
    if prim in (rd.reduce_max_p, rd.reduce_min_p) and builtins.any(
            shape[a] == 0 if initial is not None else shape[a] < 1 for a in axes):
        if initial is None:
            raise _no_identity(name)
        kept = without(shape, axes)
        out = util.broadcast_to(initial, kept)
    else:
        params = {"out_sharding": None} if prim is rd.reduce_sum_p else {}
        out = prim.bind(x, axes=axes, **params) if axes else x
        if initial is not None:
            out = join.bind(initial, out)
    out = util.cast(out, result)
    return util.array(with_axes(out, shape, axes) if keepdims else out)


def _sum_dtype(name: str, x: Any, dtype: Any, promote_integers: bool = True) -> Any:
    if dtype is not None:
        return util.user_dtype(name, dtype)
    own = dtype_of(x)
    if own == dtypes.bool_:
        return dtypes.default_dtype(int)
    wide = dtypes.default_dtype(int)
    if promote_integers and dtypes.is_signed(own) and own.itemsize < wide.itemsize:
        return wide
    if promote_integers and dtypes.is_unsigned(own) and own.itemsize < wide.itemsize:
        return np.dtype(f"u{wide.name}")
    return own


@util.planned
def sum(a: Any, axis: Any = None, dtype: Any = None, out: None = None, keepdims: bool = False,
        initial: Any = None, where: Any = None, promote_integers: bool = True) -> Any:
    """Sum of the elements along axes.

    Args:
      a: array or scalar.
      axis: an axis or several; None for all.
      dtype: the dtype of the result and of the accumulation; by default small integers
        become int32 or uint32 (int64, uint64 with x64).
      out: not supported.
      keepdims: keep the reduced axes with size 1.
      initial: a scalar that the result starts from.
      where: bool array; only the elements where it holds count.

    Returns:
      An array without the reduced axes.

    Raises:
      TypeError: a is not an array (lists are not accepted).
      ValueError: an axis is out of bounds or repeated.

    Example:
      >>> import calque.numpy as jnp
      >>> jnp.sum(jnp.arange(4))
      Array(6, dtype=int32)
    """
    util.refuse_out("sum", out)
    x = util.one_array("sum", a)
    result = _sum_dtype("sum", x, dtype, promote_integers)
    with util.lazy_eval("sum"):
        if result == dtypes.bool_:
            return any(x, axis, None, keepdims, where=where)
        return _reduce("sum", rd.reduce_sum_p, ew.add_p, x, axis, result, keepdims, initial,
                       where, lambda d: d.type(0))


@util.planned
def prod(a: Any, axis: Any = None, dtype: Any = None, out: None = None, keepdims: bool = False,
         initial: Any = None, where: Any = None, promote_integers: bool = True) -> Any:
    """Product of the elements along axes.

    Args:
      a: array or scalar.
      axis: an axis or several; None for all.
      dtype: the dtype of the result and of the accumulation; by default small integers
        become int32 or uint32 (int64, uint64 with x64).
      out: not supported.
      keepdims: keep the reduced axes with size 1.
      initial: a scalar that the result starts from.
      where: bool array; only the elements where it holds count.

    Returns:
      An array without the reduced axes.

    Raises:
      TypeError: a is not an array (lists are not accepted).
      ValueError: an axis is out of bounds or repeated.

    Example:
      >>> import calque.numpy as jnp
      >>> jnp.prod(jnp.array([2, 3]))
      Array(6, dtype=int32)
    """
    util.refuse_out("prod", out)
    x = util.one_array("prod", a)
    result = _sum_dtype("prod", x, dtype, promote_integers)
    with util.lazy_eval("prod"):
        if result == dtypes.bool_:
            return all(x, axis, None, keepdims, where=where)
        return _reduce("prod", rd.reduce_prod_p, ew.mul_p, x, axis, result, keepdims, initial,
                       where, lambda d: d.type(1))


def _extremum(name: str, prim: Primitive, join: Primitive, identity: Any, a: Any, axis: Any,
              out: Any, keepdims: Any, initial: Any, where: Any) -> Any:
    util.refuse_out(name, out)
    x = util.one_array(name, a)
    if where is not None and initial is None:
        raise ValueError(explain(
            f"reduction operation {name} does not have an identity, so to use a where mask one "
            "has to specify 'initial'", fix="pass initial=."))
    if util.is_complex(x):
        return _complex_extremum(name, prim, x, axis, keepdims, initial, where)
    with util.lazy_eval(name):
        return _reduce(name, prim, join, x, axis, dtype_of(x), keepdims, initial, where,
                       identity)


def _complex_extremum(name: str, prim: Primitive, x: Any, axis: Any, keepdims: Any,
                      initial: Any, where: Any) -> Any:
    """Complex numbers are ordered by real part, then by imaginary part."""
    dtype = dtype_of(x)
    with util.lazy_eval(name):
        x = util.array(x)
        edge = lowest if prim is rd.reduce_max_p else highest
        real = dtypes.real_dtype(dtype)
        x = masked(name, x, where, edge(dtype))
        shape = shape_of(x)
        axes = util.axis_tuple(axis, len(shape))
        if initial is not None and builtins.any(shape[i] == 0 for i in axes):
            first = util.one_array(name, initial)
            kept = without(shape, axes)
            only = util.broadcast_to(util.cast(first, dtype), kept)
            return with_axes(only, shape, axes) if keepdims else util.array(only)
        if initial is None and builtins.any(shape[i] < 1 for i in axes):
            raise _no_identity(name)
        re, im = ew.real(x), ew.imag(x)
        top = prim.bind(re, axes=axes)
        full = sh.broadcast_in_dim(with_axes(top, shape, axes), shape, range(len(shape)))
        bound = ew.match_shape(edge(real), shape)
        nan = ew.or_(ew.ne(im, im), ew.ne(re, re))
        rest = prim.bind(choose(ew.or_(ew.eq(re, full), nan), im, bound), axes=axes)
        made = ew.complex_(top, rest)
        if initial is not None:
            initial = util.one_array(name, initial)
            first = ew.match_shape(util.cast(initial, dtype), shape_of(made))
            join = ew.max_p if prim is rd.reduce_max_p else ew.min_p
            made = join.bind(first, made)
        return with_axes(made, shape, axes) if keepdims else made


@util.planned
def max(a: Any, axis: Any = None, out: None = None, keepdims: bool = False, initial: Any = None,
        where: Any = None) -> Any:
    """Largest element (NaN if there is one) along axes.

    Args:
      a: array or scalar.
      axis: an axis or several; None for all.
      out: not supported.
      keepdims: keep the reduced axes with size 1.
      initial: a scalar that the result starts from.
      where: bool array; only the elements where it holds count.

    Returns:
      An array without the reduced axes.

    Raises:
      TypeError: a is not an array (lists are not accepted).
      ValueError: an axis is out of bounds or repeated, or a reduced axis is empty and there is no
        initial.

    Example:
      >>> import calque.numpy as jnp
      >>> jnp.max(jnp.array([1, 3, 2]))
      Array(3, dtype=int32)
    """
    return _extremum("max", rd.reduce_max_p, ew.max_p, lowest, a, axis, out, keepdims, initial,
                     where)


@util.planned
def min(a: Any, axis: Any = None, out: None = None, keepdims: bool = False, initial: Any = None,
        where: Any = None) -> Any:
    """Smallest element (NaN if there is one) along axes.

    Args:
      a: array or scalar.
      axis: an axis or several; None for all.
      out: not supported.
      keepdims: keep the reduced axes with size 1.
      initial: a scalar that the result starts from.
      where: bool array; only the elements where it holds count.

    Returns:
      An array without the reduced axes.

    Raises:
      TypeError: a is not an array (lists are not accepted).
      ValueError: an axis is out of bounds or repeated, or a reduced axis is empty and there is no
        initial.

    Example:
      >>> import calque.numpy as jnp
      >>> jnp.min(jnp.array([3, 1, 2]))
      Array(1, dtype=int32)
    """
    return _extremum("min", rd.reduce_min_p, ew.min_p, highest, a, axis, out, keepdims, initial,
                     where)


@util.planned
def amax(a: Any, axis: Any = None, out: None = None, keepdims: bool = False, initial: Any = None,
         where: Any = None) -> Any:
    """Largest element (another name of max) along axes.

    Args:
      a: array or scalar.
      axis: an axis or several; None for all.
      out: not supported.
      keepdims: keep the reduced axes with size 1.
      initial: a scalar that the result starts from.
      where: bool array; only the elements where it holds count.

    Returns:
      An array without the reduced axes.

    Raises:
      TypeError: a is not an array (lists are not accepted).
      ValueError: an axis is out of bounds or repeated, or a reduced axis is empty and there is no
        initial.

    Example:
      >>> import calque.numpy as jnp
      >>> jnp.amax(jnp.array([1, 3, 2]))
      Array(3, dtype=int32)
    """
    return max(a, axis, out, keepdims, initial, where)


@util.planned
def amin(a: Any, axis: Any = None, out: None = None, keepdims: bool = False, initial: Any = None,
         where: Any = None) -> Any:
    """Smallest element (another name of min) along axes.

    Args:
      a: array or scalar.
      axis: an axis or several; None for all.
      out: not supported.
      keepdims: keep the reduced axes with size 1.
      initial: a scalar that the result starts from.
      where: bool array; only the elements where it holds count.

    Returns:
      An array without the reduced axes.

    Raises:
      TypeError: a is not an array (lists are not accepted).
      ValueError: an axis is out of bounds or repeated, or a reduced axis is empty and there is no
        initial.

    Example:
      >>> import calque.numpy as jnp
      >>> jnp.amin(jnp.array([3, 1, 2]))
      Array(1, dtype=int32)
    """
    return min(a, axis, out, keepdims, initial, where)


def _logical(name: str, prim: Primitive, join: Primitive, identity: bool, a: Any, axis: Any,
             out: Any, keepdims: Any, where: Any) -> Any:
    util.refuse_out(name, out)
    x = util.one_array(name, a)
    with util.lazy_eval(name):
        return _reduce(name, prim, join, as_truth(x), axis, dtypes.bool_, keepdims, None, where,
                       lambda d: np.bool_(identity))


@util.planned
def all(a: Any, axis: Any = None, out: None = None, keepdims: bool = False, *,
        where: Any = None) -> Any:
    """Whether all elements differ from 0 along axes.

    Args:
      a: array or scalar.
      axis: an axis or several; None for all.
      out: not supported.
      keepdims: keep the reduced axes with size 1.
      where: bool array; only the elements where it holds count.

    Returns:
      An array without the reduced axes.

    Raises:
      TypeError: a is not an array (lists are not accepted).
      ValueError: an axis is out of bounds or repeated.

    Example:
      >>> import calque.numpy as jnp
      >>> jnp.all(jnp.array([True, False]))
      Array(False, dtype=bool)
    """
    return _logical("all", rd.reduce_and_p, ew.and_p, True, a, axis, out, keepdims, where)


@util.planned
def any(a: Any, axis: Any = None, out: None = None, keepdims: bool = False, *,
        where: Any = None) -> Any:
    """Whether some element differs from 0 along axes.

    Args:
      a: array or scalar.
      axis: an axis or several; None for all.
      out: not supported.
      keepdims: keep the reduced axes with size 1.
      where: bool array; only the elements where it holds count.

    Returns:
      An array without the reduced axes.

    Raises:
      TypeError: a is not an array (lists are not accepted).
      ValueError: an axis is out of bounds or repeated.

    Example:
      >>> import calque.numpy as jnp
      >>> jnp.any(jnp.array([True, False]))
      Array(True, dtype=bool)
    """
    return _logical("any", rd.reduce_or_p, ew.or_p, False, a, axis, out, keepdims, where)


# ---- positions and counts
def _arg(name: str, prim: Primitive, a: Any, axis: Any, out: Any, keepdims: Any) -> Any:
    util.refuse_out(name, out)
    x = util.one_array(name, a)
    shape = shape_of(x)
    if axis is not None and not hasattr(axis, "__index__"):
        raise TypeError(explain(f"{name}: '{type(axis).__name__}' object cannot be interpreted as "
                                "an integer.", fix="pass one axis, or None for all."))
    if axis is not None:
        if not -len(shape) <= int(axis) < len(shape):
            raise IndexError(explain(
                f"{name}: axis {int(axis)} is out of bounds: tuple index out of range for shape "
                f"{shape}."))
        place = canonical_axis(axis, len(shape))
        empty = shape[place] == 0
    else:
        empty = 0 in shape
    if empty:
        raise ValueError(explain(f"attempt to get {name} of an empty sequence",
                                 fix="check the size first."))
    index = dtypes.default_dtype(int)
    with util.lazy_eval(name):
        if axis is None:
            line = sh.reshape(util.array(x), (math.prod(shape),))
            made = prim.bind(line, axes=(0,), index_dtype=index)
            return with_axes(made, shape, tuple(range(len(shape)))) if keepdims else made
        made = prim.bind(util.array(x), axes=(place,), index_dtype=index)
        return with_axes(made, shape, (place,)) if keepdims else made


@util.planned
def argmax(a: Any, axis: int | None = None, out: None = None,
           keepdims: bool | None = None) -> Any:
    """Position of the largest element: the first of equals; NaN counts as the largest.

    Args:
      a: real array.
      axis: the axis; None for the flattened array.
      out: not supported.
      keepdims: keep the axis with size 1.

    Returns:
      An int32 array (int64 with x64).

    Raises:
      ValueError: the axis is empty or out of bounds.

    Example:
      >>> import calque.numpy as jnp
      >>> jnp.argmax(jnp.array([1, 3, 2]))
      Array(1, dtype=int32)
    """
    return _arg("argmax", rd.argmax_p, a, axis, out, keepdims)


@util.planned
def argmin(a: Any, axis: int | None = None, out: None = None,
           keepdims: bool | None = None) -> Any:
    """Position of the smallest element: the first of equals; NaN counts as the smallest.

    Args:
      a: real array.
      axis: the axis; None for the flattened array.
      out: not supported.
      keepdims: keep the axis with size 1.

    Returns:
      An int32 array (int64 with x64).

    Raises:
      ValueError: the axis is empty or out of bounds.

    Example:
      >>> import calque.numpy as jnp
      >>> jnp.argmin(jnp.array([3, 1, 2]))
      Array(1, dtype=int32)
    """
    return _arg("argmin", rd.argmin_p, a, axis, out, keepdims)


@util.planned
def count_nonzero(a: Any, axis: Any = None, keepdims: bool = False) -> Any:
    """Number of elements that differ from 0.

    Args:
      a: array or scalar.
      axis: an axis or several; None for all.
      keepdims: keep the reduced axes with size 1.

    Returns:
      An int32 array (int64 with x64).

    Raises:
      TypeError: a is not an array.

    Example:
      >>> import calque.numpy as jnp
      >>> jnp.count_nonzero(jnp.array([0, 3, 2]))
      Array(2, dtype=int32)
    """
    x = util.one_array("count_nonzero", a)
    with util.lazy_eval("count_nonzero"):
        return sum(as_truth(x), axis, dtype=dtypes.default_dtype(int), keepdims=keepdims)


@util.planned
def ptp(a: Any, axis: Any = None, out: None = None, keepdims: bool = False) -> Any:
    """Largest minus smallest element.

    Args:
      a: array or scalar.
      axis: an axis or several; None for all.
      out: not supported.
      keepdims: keep the reduced axes with size 1.

    Returns:
      An array without the reduced axes.

    Raises:
      ValueError: a reduced axis is empty.

    Example:
      >>> import calque.numpy as jnp
      >>> jnp.ptp(jnp.array([1, 3, 2]))
      Array(2, dtype=int32)
    """
    util.refuse_out("ptp", out)
    x = util.one_array("ptp", a)
    with util.lazy_eval("ptp"):
        return ew.sub(max(x, axis, keepdims=keepdims), min(x, axis, keepdims=keepdims))


@util.planned
def minmax(a: Any, axis: Any = None, out: None = None, keepdims: bool = False, initial: Any = None,
           where: Any = None) -> tuple[Any, Any]:
    """Smallest and largest element along axes.  (JAX has it since 0.12.)

    Args:
      a: array or scalar.
      axis: an axis or several; None for all.
      out: not supported.
      keepdims: keep the reduced axes with size 1.
      initial: a number that both start from, or a pair of them.
      where: which elements count; initial must be given then.

    Returns:
      (smallest, largest): arrays without the reduced axes.

    Raises:
      ValueError: a reduced axis is empty, or where is given, without initial.

    Example:
      >>> import calque.numpy as jnp
      >>> jnp.minmax(jnp.array([1, 3, 2]))
      (Array(1, dtype=int32), Array(3, dtype=int32))
    """
    first, last = initial if isinstance(initial, tuple) else (initial, initial)
    return (min(a, axis, out, keepdims, first, where), max(a, axis, out, keepdims, last, where))


__all__ = [
    "all", "amax", "amin", "any", "argmax", "argmin", "count_nonzero", "max", "min", "minmax",
    "prod", "ptp", "sum"]
