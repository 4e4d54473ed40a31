"""Logical functions and choices: logical_and ..., where, select, isclose, allclose, array_equal."""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from calque.core import dtypes
from calque.core.avals import dtype_of, ndim_of, shape_of
from calque.core.errors import explain
from calque.core.primitive import Primitive
from calque.core.types import Function
from calque.numpy import special, util
from calque.numpy.arithmetic import as_truth, choose, constant
from calque.numpy.creation import asarray
from calque.numpy.documents import document, weak_truth
from calque.numpy.predicates import isfinite
from calque.primitives import elementwise as ew
from calque.primitives import reduce as rd


def _logical(name: str, prim: Primitive, sentence: str, result: str) -> Function:
    def f(x: Any, y: Any, /, *, out: None = None, where: None = None) -> Any:
        special._no_keywords(name, out, where)
        x, y = util.check_arrays(name, x, y)
        if dtype_of(x) == dtype_of(y) == dtypes.bool_:
            return util.apply(name, prim, (x, y), dtypes.bool_, False)
        with util.lazy_eval(name):
            both, _ = util.joined((x, y))
            made = util.apply(name, prim, (as_truth(x, both), as_truth(y, both)), dtypes.bool_,
                              False)
            return util.of_scalars(made, x, y)

    return document(f, name, sentence, ["x", "y"], "A bool array of the broadcast shape.",
                    f"jnp.{name}(1, 0)", weak_truth(result))


logical_and = _logical("logical_and", ew.and_p, "Whether x and y differ from 0.", "False")
logical_or = _logical("logical_or", ew.or_p, "Whether x or y differs from 0.", "True")
logical_xor = _logical("logical_xor", ew.xor_p, "Whether exactly one of x and y differs from 0.",
                       "True")


def logical_not(x: Any, /) -> Any:
    """Whether x is 0.

    Args:
      x: array or scalar.

    Returns:
      A bool array of x's shape.

    Raises:
      TypeError: an argument is not an array or a number (lists are not accepted), or its dtype is
        not one the function is defined for.

    Example:
      >>> import calque.numpy as jnp
      >>> jnp.logical_not(0)
      Array(True, dtype=bool, weak_type=True)
    """
    x = util.one_array("logical_not", x)
    if dtype_of(x) == dtypes.bool_:
        return ew.not_(x)
    with util.lazy_eval("logical_not"):
        return util.of_scalars(ew.eq(x, constant(x, 0)), x)


# ---- choosing
@util.planned
def where(condition: Any, x: Any = None, y: Any = None, /, *, size: Any = None,
          fill_value: Any = None) -> Any:
    """x where condition holds, y elsewhere; alone: the positions where condition holds (nonzero).

    Args:
      condition: array; values other than 0 hold.
      x: array or scalar.
      y: array or scalar; dtypes are promoted, shapes broadcast.
      size: for where(condition): the number of positions to return, as in nonzero.
      fill_value: for where(condition): what missing positions are, as in nonzero.

    Returns:
      An array of the broadcast shape and the promoted dtype; a tuple of positions for condition
      alone.

    Raises:
      TypeError: an argument is not an array.
      ValueError: size or fill_value is given along with x and y.

    Example:
      >>> import calque.numpy as jnp
      >>> jnp.where(jnp.array([True, False]), 1.0, 2.0)
      Array([1., 2.], dtype=float32, weak_type=True)
    """
    if x is None and y is None:
        from calque.numpy.positions import nonzero
        condition = util.one_array("where", condition)
        return nonzero(condition, size=size, fill_value=fill_value)
    condition, x, y = util.check_arrays("where", condition, x, y)
    if size is not None or fill_value is not None:
        raise ValueError(explain("size and fill_value arguments cannot be used in three-term "
                                 "where function."))
    dtype, weak = util.joined((x, y))
    shape = util.common_shape("where", [shape_of(v) for v in (condition, x, y)], ranks=False)
    if (dtype_of(condition) == dtypes.bool_ and shape_of(condition) in ((), shape)
            and all(util.is_cast_free(v, dtype, weak) and shape_of(v) == shape
                    for v in (x, y))):
        return ew.select_n(condition, util.cast(y, dtype, weak), util.cast(x, dtype, weak))
    with util.lazy_eval("where"):
        mask = as_truth(condition)
        x, y = (util.broadcast_to(util.cast(v, dtype, weak), shape) for v in (x, y))
        return ew.select_n(util.broadcast_nonscalar(mask, shape), y, x)


@util.planned
def select(condlist: Sequence[Any], choicelist: Sequence[Any], default: Any = 0) -> Any:
    """The choice of the first condition that holds, elementwise.

    Args:
      condlist: bool arrays.
      choicelist: as many arrays; dtypes are promoted, shapes broadcast.
      default: what is chosen where no condition holds.

    Returns:
      An array of the broadcast shape and the promoted dtype.

    Raises:
      ValueError: the lists differ in length, or are empty.

    Example:
      >>> import calque.numpy as jnp
      >>> x = jnp.arange(3)
      >>> jnp.select([x < 1, x < 2], [x, -x], 7)
      Array([ 0, -1,  7], dtype=int32)
    """
    if len(condlist) != len(choicelist):
        raise ValueError(explain(
            f"condlist must have length equal to choicelist ({len(condlist)} vs "
            f"{len(choicelist)})"))
    if not len(condlist):
        raise ValueError(explain("condlist must be non-empty"))
    conditions = util.check_arrays("select", *condlist)
    with util.lazy_eval("select"):
        *choices, result = util.promote("select", *choicelist, default)
        for condition, choice in zip(reversed(conditions), reversed(choices)):
            result = choose(as_truth(condition), choice, result)
        return result


# ---- closeness and equality
@util.planned
def isclose(a: Any, b: Any, rtol: Any = 1e-05, atol: Any = 1e-08,
            equal_nan: bool = False) -> Any:
    """Whether |a - b| <= atol + rtol * |b|, elementwise.

    Args:
      a: array or scalar.
      b: array or scalar; dtypes are promoted, shapes broadcast.

    Returns:
      A bool array of the broadcast shape.

    Raises:
      TypeError: an argument is not an array or a number (lists are not accepted), or its dtype is
        not one the function is defined for.

    Example:
      >>> import calque.numpy as jnp
      >>> jnp.isclose(1.0, 1.0 + 1e-7)
      Array(True, dtype=bool)
    """
    x, y = util.promote("isclose", a, b)
    dtype = dtype_of(x)
    if dtypes.is_key(dtype):  # keys are equal or not
        return ew.eq(*util.broadcast_all("isclose", x, y))
    if dtype == dtypes.bool_:
        x, y = util.promote_numeric("isclose", x, y)
        dtype = dtype_of(x)
    if dtypes.is_integer(dtype):
        dtype = dtypes.default_dtype(float)
        x, y = util.cast(x, dtype), util.cast(y, dtype)
    x, y = util.broadcast_all("isclose", util.array(x), util.array(y))
    real = dtypes.real_dtype(dtype)
    rtol, atol = (util.cast(v, real) for v in util.check_arrays("isclose", rtol, atol))
    share = ew.mul(*util.aligned("isclose", rtol, ew.abs_(y)))
    bound = ew.add(*util.aligned("isclose", atol, share))
    near = ew.le(*util.aligned("isclose", ew.abs_(ew.sub(x, y)), bound))
    out = ew.or_(ew.eq(x, y), ew.and_(isfinite(y), near))
    if equal_nan:
        both = ew.and_(ew.ne(x, x), ew.ne(y, y))
        out = ew.or_(out, both)
    return out


def _every(x: Any) -> Any:
    axes = tuple(range(ndim_of(x)))
    return rd.reduce_and_p.bind(x, axes=axes) if axes else util.cast(x, dtypes.bool_)


@util.planned
def allclose(a: Any, b: Any, rtol: Any = 1e-05, atol: Any = 1e-08,
             equal_nan: bool = False) -> Any:
    """Whether all elements of a and b are close (see isclose).

    Args:
      a: array or scalar.
      b: array or scalar; dtypes are promoted, shapes broadcast.

    Returns:
      A bool scalar.

    Raises:
      TypeError: an argument is not an array or a number (lists are not accepted), or its dtype is
        not one the function is defined for.

    Example:
      >>> import calque.numpy as jnp
      >>> jnp.allclose(1.0, 1.0 + 1e-7)
      Array(True, dtype=bool)
    """
    x, y = util.check_arrays("allclose", a, b)
    return _every(isclose(x, y, rtol, atol, equal_nan))


@util.planned
def array_equal(a1: Any, a2: Any, equal_nan: bool = False) -> Any:
    """Whether a1 and a2 have equal shapes and elements.

    Args:
      a1: array or scalar.
      a2: array or scalar; dtypes are promoted, shapes broadcast.

    Returns:
      A bool scalar.

    Raises:
      TypeError: an argument is not an array or a number (lists are not accepted), or its dtype is
        not one the function is defined for.

    Example:
      >>> import calque.numpy as jnp
      >>> jnp.array_equal(1, 1)
      Array(True, dtype=bool)
    """
    x, y = asarray(a1), asarray(a2)
    if shape_of(x) != shape_of(y):
        return util.array(np.False_)
    x, y = util.promote("array_equal", x, y)
    same = ew.eq(x, y)
    if equal_nan and dtypes.is_inexact(dtype_of(x)):
        same = ew.or_(same, ew.and_(ew.ne(x, x), ew.ne(y, y)))
    return _every(same)


@util.planned
def array_equiv(a1: Any, a2: Any) -> Any:
    """Whether a1 and a2 are equal after broadcasting.

    Args:
      a1: array or scalar.
      a2: array or scalar; dtypes are promoted, shapes broadcast.

    Returns:
      A bool scalar.

    Raises:
      TypeError: an argument is not an array or a number (lists are not accepted), or its dtype is
        not one the function is defined for.

    Example:
      >>> import calque.numpy as jnp
      >>> jnp.array_equiv(1, 1)
      Array(True, dtype=bool)
    """
    x, y = util.promote("array_equiv", asarray(a1), asarray(a2))
    try:
        shape = util.common_shape("array_equiv", [shape_of(x), shape_of(y)], ranks=False)
        x, y = util.broadcast_to(x, shape), util.broadcast_to(y, shape)
    except (TypeError, ValueError):
        return util.array(np.False_)
    return _every(ew.eq(x, y))


__all__ = ["allclose", "array_equal", "array_equiv", "isclose", "logical_and", "logical_not",
           "logical_or", "logical_xor", "select", "where"]
