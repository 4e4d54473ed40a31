"""Reductions: sum, prod, max, min, all, any, mean, var, std, argmax, argmin, count_nonzero, ptp,
average.  Half-precision sums are taken in float32; small integers are summed in int32 (uint32).
Start reading at `_reduce`.
"""
from __future__ import annotations

import builtins
import math
from typing import Any

import numpy as np

from calque.core import dims, dtypes
from calque.core.avals import dtype_of, ndim_of, shape_of
from calque.core.errors import explain
from calque.core.lists import without
from calque.core.primitive import Primitive
from calque.core.types import Axes, Function, Shape
from calque.lax.operands import canonical_axis
from calque.numpy import util
from calque.numpy.arithmetic import as_truth, choose
from calque.primitives import elementwise as ew
from calque.primitives import reduce as rd
from calque.primitives import shape as sh

_HALF = (np.dtype("float16"), dtypes.bfloat16, *dtypes.FLOAT8)
_DOC = """{sentence} along axes.

    Args:
      a: array or scalar.
      axis: an axis or several; None for all.
{more}      out: not supported.
      keepdims: keep the reduced axes with size 1.
{initial}      where: bool array; only the elements where it holds count.

    Returns:
      An array without the reduced axes.

    Raises:
      TypeError: a is not an array (lists are not accepted).
      ValueError: an axis is out of bounds or repeated{empty}.

    Example:
      >>> import calque.numpy as jnp
      >>> jnp.{name}({example})
      {result}
    """
_INITIAL = "      initial: a scalar that the result starts from.\n"
_DTYPE = "      dtype: the dtype of the result and of the accumulation.\n"
_PROMOTE = ("      dtype: the dtype of the result and of the accumulation; by default small "
            "integers\n        become int32 or uint32 (int64, uint64 with x64).\n")


def _doc(name: str, sentence: str, example: str, result: str, *, more: str = "",
         initial: bool = False, empty: bool = False) -> Function:
    def decorate(f: Function) -> Function:
        f.__doc__ = _DOC.format(
            name=name, sentence=sentence, example=example, result=result, more=more,
            initial=_INITIAL if initial else "",
            empty=", or a reduced axis is empty and there is no initial" if empty else "")
        return f
    return decorate


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
    working = dtypes.float32 if result in _HALF and prim in (
        rd.reduce_sum_p, rd.reduce_prod_p) else result
    x = util.cast(x, working)
    x = masked(name, x, where, identity(working))
    shape = shape_of(x)
    axes = util.axis_tuple(axis, len(shape))
    if initial is not None:
        initial = util.one_array(name, initial)
        if shape_of(initial):
            raise ValueError(explain(
                f"initial value must be a scalar. Got array of shape {shape_of(initial)}"))
        initial = util.cast(initial, working)
    if prim in (rd.reduce_max_p, rd.reduce_min_p) and builtins.any(
            shape[a] == 0 if initial is not None else shape[a] < 1 for a in axes):
        if initial is None:
            raise _no_identity(name)
        kept = without(shape, axes)
        out = util.spread(initial, kept)
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
    if promote_integers and own.kind == "i" and own.itemsize < wide.itemsize:
        return wide
    if promote_integers and own.kind == "u" and own.itemsize < wide.itemsize:
        return np.dtype(f"u{wide.name}")
    return own


@_doc("sum", "Sum of the elements", "jnp.arange(4)", "Array(6, dtype=int32)", more=_PROMOTE,
      initial=True)
@util.planned
def sum(a: Any, axis: Any = None, dtype: Any = None, out: None = None, keepdims: bool = False,
        initial: Any = None, where: Any = None, promote_integers: bool = True) -> Any:
    util.refuse_out("sum", out)
    x = util.one_array("sum", a)
    result = _sum_dtype("sum", x, dtype, promote_integers)
    with util.lazy_eval("sum"):
        if result == dtypes.bool_:
            return any(x, axis, None, keepdims, where=where)
        return _reduce("sum", rd.reduce_sum_p, ew.add_p, x, axis, result, keepdims, initial,
                       where, lambda d: d.type(0))


@_doc("prod", "Product of the elements", "jnp.array([2, 3])", "Array(6, dtype=int32)",
      more=_PROMOTE, initial=True)
@util.planned
def prod(a: Any, axis: Any = None, dtype: Any = None, out: None = None, keepdims: bool = False,
         initial: Any = None, where: Any = None, promote_integers: bool = True) -> Any:
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
            only = util.spread(util.cast(first, dtype), kept)
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


@_doc("max", "Largest element (NaN if there is one)", "jnp.array([1, 3, 2])",
      "Array(3, dtype=int32)", initial=True, empty=True)
@util.planned
def max(a: Any, axis: Any = None, out: None = None, keepdims: bool = False, initial: Any = None,
        where: Any = None) -> Any:
    return _extremum("max", rd.reduce_max_p, ew.max_p, lowest, a, axis, out, keepdims, initial,
                     where)


@_doc("min", "Smallest element (NaN if there is one)", "jnp.array([3, 1, 2])",
      "Array(1, dtype=int32)", initial=True, empty=True)
@util.planned
def min(a: Any, axis: Any = None, out: None = None, keepdims: bool = False, initial: Any = None,
        where: Any = None) -> Any:
    return _extremum("min", rd.reduce_min_p, ew.min_p, highest, a, axis, out, keepdims, initial,
                     where)


@_doc("amax", "Largest element (another name of max)", "jnp.array([1, 3, 2])",
      "Array(3, dtype=int32)", initial=True, empty=True)
@util.planned
def amax(a: Any, axis: Any = None, out: None = None, keepdims: bool = False, initial: Any = None,
         where: Any = None) -> Any:
    return max(a, axis, out, keepdims, initial, where)


@_doc("amin", "Smallest element (another name of min)", "jnp.array([3, 1, 2])",
      "Array(1, dtype=int32)", initial=True, empty=True)
@util.planned
def amin(a: Any, axis: Any = None, out: None = None, keepdims: bool = False, initial: Any = None,
         where: Any = None) -> Any:
    return min(a, axis, out, keepdims, initial, where)


def _logical(name: str, prim: Primitive, join: Primitive, identity: bool, a: Any, axis: Any,
             out: Any, keepdims: Any, where: Any) -> Any:
    util.refuse_out(name, out)
    x = util.one_array(name, a)
    with util.lazy_eval(name):
        return _reduce(name, prim, join, as_truth(x), axis, dtypes.bool_, keepdims, None, where,
                       lambda d: np.bool_(identity))


@_doc("all", "Whether all elements differ from 0", "jnp.array([True, False])",
      "Array(False, dtype=bool)")
@util.planned
def all(a: Any, axis: Any = None, out: None = None, keepdims: bool = False, *,
        where: Any = None) -> Any:
    return _logical("all", rd.reduce_and_p, ew.and_p, True, a, axis, out, keepdims, where)


@_doc("any", "Whether some element differs from 0", "jnp.array([True, False])",
      "Array(True, dtype=bool)")
@util.planned
def any(a: Any, axis: Any = None, out: None = None, keepdims: bool = False, *,
        where: Any = None) -> Any:
    return _logical("any", rd.reduce_or_p, ew.or_p, False, a, axis, out, keepdims, where)


# ---- means and variances
def _count(name: str, shape: Shape, axes: Axes, where: Any, dtype: Any,
           keepdims: bool) -> Any:
    """How many elements each result is made of: a scalar, or an array when there is a mask."""
    if where is None:
        return dims.number(math.prod(shape[a] for a in axes), dtype)
    mask = util.one_array(name, where)
    mask = util.spread(as_truth(mask), shape)
    return sum(util.cast(mask, dtype), axes, dtype=dtype, keepdims=keepdims)


def _float_dtypes(name: str, x: Any, dtype: Any) -> tuple[Any, Any]:
    """(dtype of the computation, dtype of the result)."""
    result = util.to_inexact(dtype_of(x)) if dtype is None else util.user_dtype(name, dtype)
    working = util.to_inexact(result)
    return (dtypes.float32 if working in _HALF else working), result


@_doc("mean", "Arithmetic mean", "jnp.array([1, 2])", "Array(1.5, dtype=float32)", more=_DTYPE)
@util.planned
def mean(a: Any, axis: Any = None, dtype: Any = None, out: None = None, keepdims: bool = False,
         *, where: Any = None) -> Any:
    util.refuse_out("mean", out)
    x = util.one_array("mean", a)
    working, result = _float_dtypes("mean", x, dtype)
    if where is None:
        _check_axis(axis, ndim_of(x))
    with util.lazy_eval("mean"):
        return util.cast(_mean("mean", x, axis, working, keepdims, where), result)


def _check_axis(axis: Any, ndim: int) -> None:
    """mean, var and std ask for the size of an axis: IndexError, where sum has a ValueError."""
    for a in axis if isinstance(axis, (tuple, list)) else [] if axis is None else [axis]:
        if isinstance(a, (int, np.integer)) and not -ndim <= a < ndim:
            raise IndexError(explain(f"tuple index out of range: axis {a} of an array of dimension "
                                     f"{ndim}.", fix="give an axis of the array."))


def _mean(name: str, x: Any, axis: Any, working: Any, keepdims: Any, where: Any) -> Any:
    shape = shape_of(x)
    axes = util.axis_tuple(axis, len(shape))
    total = sum(util.cast(x, working), axes, dtype=working, keepdims=keepdims, where=where)
    return ew.div(total, _spread_like(
        _count(name, shape, axes, where, working, bool(keepdims)), total))


def _spread_like(x: Any, y: Any) -> Any:
    return util.spread_nonscalar(x, shape_of(y))


@_doc("var", "Variance (mean squared distance from the mean)", "jnp.array([1.0, 3.0])",
      "Array(1., dtype=float32)", more=_DTYPE)
@util.planned
def var(a: Any, axis: Any = None, dtype: Any = None, out: None = None, ddof: Any = 0,
        keepdims: bool = False, *, where: Any = None, mean: Any = None,
        correction: Any = None) -> Any:
    util.refuse_out("var", out)
    x = util.one_array("var", a)
    with util.lazy_eval("var"):
        return _var("var", x, axis, dtype, ddof, keepdims, where, mean, correction)


@_doc("std", "Standard deviation (square root of the variance)", "jnp.array([1.0, 3.0])",
      "Array(1., dtype=float32)", more=_DTYPE)
@util.planned
def std(a: Any, axis: Any = None, dtype: Any = None, out: None = None, ddof: Any = 0,
        keepdims: bool = False, *, where: Any = None, mean: Any = None,
        correction: Any = None) -> Any:
    util.refuse_out("std", out)
    x = util.one_array("std", a)
    if dtype is not None and not dtypes.is_inexact(util.user_dtype("std", dtype)):
        raise ValueError(explain(f"dtype argument to jnp.std must be inexact; got {dtype}"))
    with util.lazy_eval("std"):
        return ew.sqrt(_var("std", x, axis, dtype, ddof, keepdims, where, mean,
                            correction))


def _var(name: str, x: Any, axis: Any, dtype: Any, ddof: Any, keepdims: Any, where: Any,
         mean: Any, correction: Any) -> Any:
    if correction is not None:
        if not isinstance(ddof, int) or ddof != 0:
            raise ValueError(explain("ddof and correction can't be provided simultaneously."))
        ddof = correction
    if (dtype is not None and util.is_complex(x)
            and not dtypes.is_complex(util.user_dtype(name, dtype))):
        raise ValueError(explain(
            f"jax.numpy.{name} does not yet support real dtype parameters when computing the "
            "variance of an array of complex values.", fix="leave dtype out."))
    working, result = _float_dtypes(name, x, dtype)
    if where is None:
        _check_axis(axis, ndim_of(x))
    if working.kind == "c" and not util.is_complex(x):
        working = dtypes.real_dtype(working)
    shape = shape_of(x)
    axes = util.axis_tuple(axis, len(shape))
    x = util.cast(x, working)
    if mean is None:
        center = _mean(name, x, axes, working, True, where)
    else:
        center = util.one_array(name, mean)
        center = util.cast(center, working)
    apart = ew.sub(*util.aligned(name, x, center))
    if working.kind == "c":
        re, im = ew.real(apart), ew.imag(apart)
        apart = ew.add(ew.square(re), ew.square(im))
        working = dtypes.real_dtype(working)
        result = dtypes.real_dtype(result) if dtype is None else result
    else:
        apart = ew.square(apart)
    count = _count(name, shape, axes, where, working, bool(keepdims))
    total = sum(apart, axes, dtype=working, keepdims=keepdims, where=where)
    less = util.one_array(name, ddof)
    left = ew.sub(*util.aligned("var", count, util.cast(less, working)))
    good = ew.gt(left, working.type(0))
    made = ew.div(total, _spread_like(left, total))
    made = choose(good, made, working.type(np.nan))
    return util.cast(made, result if dtypes.is_inexact(result) else working)


@util.planned
def average(a: Any, axis: Any = None, weights: Any = None, returned: bool = False,
            keepdims: bool = False) -> Any:
    """Weighted mean sum(a * weights) / sum(weights).

    Args:
      a: array or scalar.
      axis: an axis or several; None for all.
      weights: array of a's shape, or a vector along axis; equal weights by default.
      returned: also return the sum of the weights.
      keepdims: keep the reduced axes with size 1.

    Returns:
      An array without the reduced axes; with returned a pair.

    Raises:
      ValueError: shapes differ and no axis is given.
      TypeError: an argument is not an array.

    Example:
      >>> import calque.numpy as jnp
      >>> jnp.average(jnp.array([1.0, 3.0]), weights=jnp.array([3.0, 1.0]))
      Array(1.5, dtype=float32)
    """
    x = util.one_array("average", a)
    with util.lazy_eval("average"):
        shape = shape_of(x)
        axes = util.axis_tuple(axis, len(shape))
        if weights is None:
            made = mean(x, axes, keepdims=keepdims)
            total = util.spread(dims.number(math.prod(shape[i] for i in axes),
                                            dtype_of(made)), shape_of(made))
            return (made, util.array(total)) if returned else made
        x, w = util.inexact_arrays("average", x, weights)
        if shape_of(w) != shape:
            if axis is None:
                raise ValueError(explain(
                    "Axis must be specified when shapes of a and weights differ."))
            if ndim_of(w) != len(axes):
                raise ValueError(explain(
                    f"Shape of weights {shape_of(w)} must be consistent with shape of a "
                    f"{shape} along the given axes."))
            if shape_of(w) != tuple(shape[i] for i in axes):
                raise ValueError(explain("Length of weights not compatible with specified axis."))
            order = sorted(range(len(axes)), key=lambda i: axes[i])
            w = sh.broadcast_in_dim(sh.transpose(w, order), shape, sorted(axes))
        total = sum(w, axes, keepdims=keepdims)
        made = ew.div(sum(ew.mul(x, w), axes, keepdims=keepdims), total)
        return (made, total) if returned else made


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


__all__ = ["all", "amax", "amin", "any", "argmax", "argmin", "average", "count_nonzero", "max",
           "mean", "min", "prod", "ptp", "std", "sum", "var"]
