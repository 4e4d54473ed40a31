"""lax reductions over axes, a row each, and the index of an extremum."""
from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from calque.core import dtypes
from calque.core.avals import ShapedArray, aval_of, ndim_of, shape_of
from calque.core.config import config
from calque.core.errors import explain
from calque.core.primitive import Primitive
from calque.core.tables import from_row
from calque.core.types import Function
from calque.dispatch.sharded.placing import resharded
from calque.lax.operands import as_axis, as_operand, user_dtype
from calque.lax.shape import unchanged
from calque.primitives import reduce as rd

_DOC = """{sentence} over axes.

    Args:
      operand: array of {accepts} dtype.
      axes: the axes to reduce (non-negative, each once).

    Returns:
      An array of operand's dtype without those axes.

    Raises:
      ValueError: an axis is out of bounds or repeated.

    Example:
      >>> import numpy as np
      >>> from calque import lax
      >>> {example}
      {result}
    """


def _reduction(name: str, prim: Primitive, sentence: str, accepts: str, example: str,
               result: str, sharded: bool = False) -> Function:
    with_sharding = {"out_sharding": None} if prim is rd.reduce_sum_p else {}

    def reduce(operand: Any, axes: Any) -> Any:
        x = as_operand(name, operand)
        axes = tuple(map(operator.index, axes))
        if prim is rd.reduce_sum_p and not config.jax_allow_f16_reductions:
            _refuse_halves(aval_of(x), axes)
        if not axes:
            rd_abstract(x, axes=(), **with_sharding)
            return unchanged(x)
        return prim.bind(x, axes=axes, **with_sharding)

    def rd_abstract(x: Any, **params: Any) -> None:
        prim.rule("abstract")(aval_of(x), **params)

    def reduce_sharded(operand: Any, axes: Any, *, out_sharding: Any = None) -> Any:
        if out_sharding is not None:
            return resharded(name, out_sharding, reduce, operand, axes)
        return reduce(operand, axes)

    f: Function = reduce_sharded if sharded else reduce
    return from_row(f, "calque.lax", name, _DOC, sentence=sentence, accepts=accepts,
                    example=example, result=result)


def _refuse_halves(aval: ShapedArray, axes: Sequence[int]) -> None:
    if aval.dtype in (np.float16, dtypes.bfloat16) and any(aval.shape[a] != 1 for a in axes):
        raise ValueError(explain(
            f"reduce_sum on operand {aval.short()} is not allowed when "
            "jax_allow_f16_reductions=False.", fix="add up in float32: x.astype('float32')."))


reduce_sum = _reduction("reduce_sum", rd.reduce_sum_p, "Sum", "number",
                        "lax.reduce_sum(np.array([1, 2, 3]), (0,))", "Array(6, dtype=int32)", True)
reduce_prod = _reduction("reduce_prod", rd.reduce_prod_p, "Product", "number",
                         "lax.reduce_prod(np.array([1, 2, 3]), (0,))", "Array(6, dtype=int32)")
reduce_max = _reduction("reduce_max", rd.reduce_max_p, "Maximum (NaN if there is one)", "any",
                        "lax.reduce_max(np.array([1, 3, 2]), (0,))", "Array(3, dtype=int32)")
reduce_min = _reduction("reduce_min", rd.reduce_min_p, "Minimum (NaN if there is one)", "any",
                        "lax.reduce_min(np.array([1, 3, 2]), (0,))", "Array(1, dtype=int32)")
reduce_and = _reduction("reduce_and", rd.reduce_and_p, "Bitwise (logical) and", "bool or integer",
                        "lax.reduce_and(np.array([True, False]), (0,))",
                        "Array(False, dtype=bool)")
reduce_or = _reduction("reduce_or", rd.reduce_or_p, "Bitwise (logical) or", "bool or integer",
                       "lax.reduce_or(np.array([True, False]), (0,))", "Array(True, dtype=bool)")
reduce_xor = _reduction("reduce_xor", rd.reduce_xor_p, "Bitwise (logical) exclusive or",
                        "bool or integer", "lax.reduce_xor(np.array([6, 3]), (0,))",
                        "Array(5, dtype=int32)")


def _arg(name: str, prim: Primitive, operand: Any, axis: Any, index_dtype: Any) -> Any:
    x = as_operand(name, operand)
    axis, ndim = as_axis(axis), ndim_of(x)
    if not 0 <= axis < ndim:
        raise ValueError(explain(f"Invalid axis {axis} for operand shape {shape_of(x)}",
                                 fix=f"{name} takes axes from 0 to {ndim - 1}."))
    return prim.bind(x, axes=(axis,), index_dtype=user_dtype(name, index_dtype))


def argmax(operand: Any, axis: int, index_dtype: Any) -> Any:
    """Index of the maximum along an axis: the first of equals; NaN counts as the maximum.

    Args:
      operand: array of real dtype.
      axis: the axis (non-negative).
      index_dtype: the integer dtype of the result.

    Returns:
      An array without that axis.

    Raises:
      ValueError: the axis is out of bounds or empty.

    Example:
      >>> import numpy as np
      >>> from calque import lax
      >>> lax.argmax(np.array([1, 3, 2]), 0, "int32")
      Array(1, dtype=int32)
    """
    return _arg("argmax", rd.argmax_p, operand, axis, index_dtype)


def argmin(operand: Any, axis: int, index_dtype: Any) -> Any:
    """Index of the minimum along an axis: the first of equals; NaN counts as the minimum.

    Args:
      operand: array of real dtype.
      axis: the axis (non-negative).
      index_dtype: the integer dtype of the result.

    Returns:
      An array without that axis.

    Raises:
      ValueError: the axis is out of bounds or empty.

    Example:
      >>> import numpy as np
      >>> from calque import lax
      >>> lax.argmin(np.array([3, 1, 2]), 0, "int32")
      Array(1, dtype=int32)
    """
    return _arg("argmin", rd.argmin_p, operand, axis, index_dtype)


__all__ = ["argmax", "argmin", "reduce_and", "reduce_max", "reduce_min", "reduce_or",
           "reduce_prod", "reduce_sum", "reduce_xor"]
