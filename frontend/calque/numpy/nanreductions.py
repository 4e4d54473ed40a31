"""Reductions that leave NaN out: nansum, nanprod, nanmax, nanmin, nanmean, nanvar, nanstd,
nanargmax, nanargmin.  Start reading at `_without_nan`.
"""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

from calque.core import dtypes
from calque.core.avals import dtype_of, shape_of
from calque.core.errors import explain
from calque.core.types import Function
from calque.numpy import reductions as rd
from calque.numpy import util
from calque.numpy.arithmetic import choose, full_constant
from calque.primitives import elementwise as ew

_DOC = """{sentence} along axes, NaN left out.

    Args:
      a: array or scalar.
      axis: an axis or several; None for all.
{more}      out: not supported.
      keepdims: keep the reduced axes with size 1.
{rest}
    Returns:
      An array without the reduced axes{empty}.

    Raises:
      TypeError: a is not an array (lists are not accepted).
      ValueError: an axis is out of bounds or repeated{raises}.

    Example:
      >>> import calque.numpy as jnp
      >>> jnp.{name}(jnp.array([1.0, jnp.nan, 3.0]))
      {result}
    """
_WHERE = "      where: bool array; only the elements where it holds count.\n"
_INITIAL = "      initial: a scalar that the result starts from.\n"
_DDOF = "      ddof: subtracted from the count.\n"
_MEAN = "      mean: the mean, if known.\n"
_DTYPE = "      dtype: the dtype of the result and of the accumulation.\n"


def _doc(sentence: str, result: str, more: str = "", rest: str = _WHERE, empty: str = "",
         raises: str = "") -> Function:
    def decorate(f: Function) -> Function:
        f.__doc__ = _DOC.format(sentence=sentence, result=result, more=more, rest=rest,
                                empty=empty, raises=raises, name=f.__name__)
        return f
    return decorate


def _without_nan(name: str, a: Any, value: Callable[[Any], Any]) -> tuple[Any, Any]:
    """(a with NaN replaced, where it is NaN); (a, None) where the dtype has none."""
    x = util.one_array(name, a)
    dtype = dtype_of(x)
    if not dtypes.is_inexact(dtype):
        return x, None
    x = util.array(x)
    nan = ew.ne(x, x)
    return choose(nan, dtype.type(value(dtype)), x), nan


@_doc("Sum of the elements", "Array(4., dtype=float32)", _DTYPE, _INITIAL + _WHERE)
@util.planned
def nansum(a: Any, axis: Any = None, dtype: Any = None, out: None = None, keepdims: bool = False,
           initial: Any = None, where: Any = None) -> Any:
    x, _ = _without_nan("nansum", a, lambda d: 0)
    return rd.sum(x, axis, dtype, out, keepdims, initial, where)


@_doc("Product of the elements", "Array(3., dtype=float32)", _DTYPE, _INITIAL + _WHERE)
@util.planned
def nanprod(a: Any, axis: Any = None, dtype: Any = None, out: None = None, keepdims: bool = False,
            initial: Any = None, where: Any = None) -> Any:
    x, _ = _without_nan("nanprod", a, lambda d: 1)
    return rd.prod(x, axis, dtype, out, keepdims, initial, where)


def _extremum(name: str, reduce: Function, edge: Callable[[Any], Any], a: Any, axis: Any,
              out: Any, keepdims: Any, initial: Any, where: Any) -> Any:
    x, nan = _without_nan(name, a, edge)
    made = reduce(x, axis, out, keepdims, initial, where)
    if nan is None or initial is not None:
        return made
    return choose(rd.all(nan, axis, None, keepdims), dtype_of(made).type(float("nan")), made)


@_doc("Largest element", "Array(3., dtype=float32)", "", _INITIAL + _WHERE,
      "; NaN where all elements are", ", or a reduced axis is empty and there is no initial")
@util.planned
def nanmax(a: Any, axis: Any = None, out: None = None, keepdims: bool = False, initial: Any = None,
           where: Any = None) -> Any:
    return _extremum("nanmax", rd.max, rd.lowest, a, axis, out, keepdims, initial, where)


@_doc("Smallest element", "Array(1., dtype=float32)", "", _INITIAL + _WHERE,
      "; NaN where all elements are", ", or a reduced axis is empty and there is no initial")
@util.planned
def nanmin(a: Any, axis: Any = None, out: None = None, keepdims: bool = False, initial: Any = None,
           where: Any = None) -> Any:
    return _extremum("nanmin", rd.min, rd.highest, a, axis, out, keepdims, initial, where)


def _kept(name: str, x: Any, where: Any) -> Any:
    """Where an element counts: not NaN, and where the mask holds."""
    good = ew.eq(x, x)
    if where is None:
        return good
    return ew.and_(good, util.spread(rd.where_mask(name, where), shape_of(x)))


@_doc("Arithmetic mean", "Array(2., dtype=float32)", _DTYPE, empty="; NaN where no element is left")
@util.planned
def nanmean(a: Any, axis: Any = None, dtype: Any = None, out: None = None, keepdims: bool = False,
            where: Any = None) -> Any:
    util.refuse_out("nanmean", out)
    x = util.one_array("nanmean", a)
    if not dtypes.is_inexact(dtype_of(x)):
        return rd.mean(x, axis, dtype, None, keepdims, where=where)
    x = util.array(x)
    return rd.mean(x, axis, dtype, None, keepdims, where=_kept("nanmean", x, where))


def _nanvar(name: str, a: Any, axis: Any, dtype: Any, ddof: Any, keepdims: Any, where: Any,
            mean: Any) -> Any:
    x = util.one_array(name, a)
    if not dtypes.is_inexact(dtype_of(x)):
        return rd.var(x, axis, dtype, None, ddof, keepdims, where=where, mean=mean)
    x = util.array(x)
    kept = _kept(name, x, where)
    x = choose(ew.eq(x, x), x, full_constant(x, 0))  # or derivatives would be 0 * NaN
    return rd.var(x, axis, dtype, None, ddof, keepdims, where=kept, mean=mean)


@_doc("Variance", "Array(1., dtype=float32)",
      _DTYPE, _DDOF + _WHERE + _MEAN,
      "; NaN where no element is left")
@util.planned
def nanvar(a: Any, axis: Any = None, dtype: Any = None, out: None = None, ddof: Any = 0,
           keepdims: bool = False, where: Any = None, mean: Any = None) -> Any:
    util.refuse_out("nanvar", out)
    return _nanvar("nanvar", a, axis, dtype, ddof, keepdims, where, mean)


@_doc("Standard deviation", "Array(1., dtype=float32)",
      _DTYPE, _DDOF + _WHERE + _MEAN,
      "; NaN where no element is left")
@util.planned
def nanstd(a: Any, axis: Any = None, dtype: Any = None, out: None = None, ddof: Any = 0,
           keepdims: bool = False, where: Any = None, mean: Any = None) -> Any:
    util.refuse_out("nanstd", out)
    return ew.sqrt(_nanvar("nanstd", a, axis, dtype, ddof, keepdims, where, mean))


def _index(name: str, find: Function, edge: Callable[[Any], Any], a: Any, axis: Any,
           out: Any, keepdims: Any) -> Any:
    util.refuse_out(name, out)
    x = util.one_array(name, a)
    if util.is_complex(x):
        raise TypeError(explain(f"{name} does not accept dtype {dtype_of(x).name}: complex "
                                "numbers have no order.", fix="take their absolute values."))
    x, nan = _without_nan(name, x, edge)
    made = find(x, axis, None, keepdims)
    if nan is None:
        return made
    return choose(rd.all(nan, axis, None, bool(keepdims)), dtype_of(made).type(-1), made)


@_doc("Index of the largest element", "Array(2, dtype=int32)", "", "",
      "; -1 where all elements are NaN", ", or the axis is empty")
@util.planned
def nanargmax(a: Any, axis: Any = None, out: None = None, keepdims: Any = None) -> Any:
    return _index("nanargmax", rd.argmax, rd.lowest, a, axis, out, keepdims)


@_doc("Index of the smallest element", "Array(0, dtype=int32)", "", "",
      "; -1 where all elements are NaN", ", or the axis is empty")
@util.planned
def nanargmin(a: Any, axis: Any = None, out: None = None, keepdims: Any = None) -> Any:
    return _index("nanargmin", rd.argmin, rd.highest, a, axis, out, keepdims)


__all__ = ["nanargmax", "nanargmin", "nanmax", "nanmean", "nanmin", "nanprod", "nanstd", "nansum",
           "nanvar"]
