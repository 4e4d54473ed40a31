"""lax functions along an axis whose results are all prefixes: cumsum ... associative_scan."""
from __future__ import annotations

import operator
from typing import Any

from calque.core.avals import dtype_of, ndim_of, shape_of
from calque.core.errors import explain
from calque.core.primitive import Primitive
from calque.core.tables import from_row
from calque.core.types import Function
from calque.dispatch.eager import lazy_eval
from calque.lax.operands import as_operand, canonical_axis
from calque.lax.shape import unchanged
from calque.primitives import cumulative as cu
from calque.primitives import elementwise as ew
from calque.trees import util as tree_util

_DOC = """{sentence} along an axis: element i of the result is that of elements 0 to i.

    Args:
      operand: array of {accepts} dtype.
      axis: the axis (non-negative).
      reverse: from the end: that of elements i to the last.

    Returns:
      An array of operand's shape and dtype.

    Raises:
      TypeError: the dtype is not one the function is defined for.
      ValueError: the axis is negative or out of bounds.

    Example:
      >>> import numpy as np
      >>> from calque import lax
      >>> {example}
      {result}
    """


def _cumulative(prim: Primitive, sentence: str, accepts: str, example: str,
                result: str) -> Function:
    name = prim.name

    def f(operand: Any, axis: int = 0, reverse: bool = False) -> Any:
        x = as_operand(name, operand)
        return prim.bind(x, axis=operator.index(axis), reverse=bool(reverse))

    return from_row(f, "calque.lax", name, _DOC, sentence=sentence, accepts=accepts,
                    example=example, result=result)


cumsum = _cumulative(cu.cumsum_p, "Running sum", "integer, float or complex",
                     "lax.cumsum(np.array([1, 2, 3]))", "Array([1, 3, 6], dtype=int32)")
cumprod = _cumulative(cu.cumprod_p, "Running product", "integer, float or complex",
                      "lax.cumprod(np.array([1, 2, 3]))", "Array([1, 2, 6], dtype=int32)")
cummax = _cumulative(cu.cummax_p, "Running maximum", "integer, float or complex",
                     "lax.cummax(np.array([1, 3, 2]))", "Array([1, 3, 3], dtype=int32)")
cummin = _cumulative(cu.cummin_p, "Running minimum", "integer, float or complex",
                     "lax.cummin(np.array([3, 1, 2]))", "Array([3, 1, 1], dtype=int32)")
cumlogsumexp = _cumulative(
    cu.cumlogsumexp_p, "Running log of the sum of exponentials", "float or complex",
    "lax.cumlogsumexp(np.zeros(2, np.float32))", "Array([0.       , 0.6931472], dtype=float32)")


def associative_scan(fn: Function, elems: Any, reverse: bool = False,
                     axis: int = 0) -> Any:
    """All prefixes of elems under an associative function, in 2 log2(n) applications of it.

    Args:
      fn: function of two trees like elems (slices of equal length along the axis) that returns a
        tree of the same structure and shapes; fn(fn(a, b), c) must equal fn(a, fn(b, c)).
      elems: array or tree of arrays, of one size along the axis.
      reverse: scan from the end.
      axis: the axis; negative ones count from the last (without reverse).

    Returns:
      A tree like elems: element i combines elements 0 to i.

    Raises:
      TypeError: fn is not callable, or returns another structure, or axis is negative and
        reverse given.
      ValueError: the axis is out of bounds, or sizes along it differ.

    Example:
      >>> import numpy as np
      >>> from calque import lax
      >>> lax.associative_scan(lax.mul, np.array([1, 2, 3, 4]))
      Array([ 1,  2,  6, 24], dtype=int32)
    """
    if not callable(fn):
        raise TypeError(explain("lax.associative_scan: fn argument should be callable.",
                                fix="pass the function first, then the elements."))
    leaves, tree = tree_util.tree_flatten(elems)
    xs = [as_operand("associative_scan", x, i) for i, x in enumerate(leaves)]
    if not xs:
        return elems
    if reverse and axis < 0:
        raise TypeError(explain(
            f"rev dimensions must have every element be nonnegative, got ({axis},).",
            fix="associative_scan(reverse=True) takes the axis counted from the first."))
    axis = canonical_axis(axis, ndim_of(xs[0]))
    shapes = [shape_of(x) for x in xs]
    if any(len(s) <= axis or s[axis] != shapes[0][axis] for s in shapes):
        raise ValueError(explain(
            "Array inputs to associative_scan must have the same first dimension. "
            f"(saw: {shapes})", fix=f"give all leaves one size along axis {axis}."))

    def combine(a: list[Any], b: list[Any]) -> list[Any]:
        out = fn(tree.unflatten(a), tree.unflatten(b))
        values, out_tree = tree_util.tree_flatten(out)
        if len(values) != len(a):  # (of another structure it may be, as in JAX)
            raise TypeError(explain(
                f"lax.associative_scan: fn returned the structure {out_tree} for elements of "
                f"structure {tree}.", fix="return a tree like its arguments."))
        return values

    with lazy_eval("associative_scan"):
        outs = cu.associative_scan(combine, xs, bool(reverse), axis)
        if shapes[0][axis] not in (0, 1):  # (else the result is the argument, weak as it may be)
            outs = [ew.convert(x, dtype_of(x)) for x in outs]
        return tree.unflatten([unchanged(x) for x in outs])


__all__ = ["associative_scan", "cumlogsumexp", "cummax", "cummin", "cumprod", "cumsum"]
