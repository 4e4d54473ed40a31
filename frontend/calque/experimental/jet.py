"""jet: derivatives of any order along a curve, in one pass (Taylor mode).

What is done to each operation is in experimental/series.  Start reading at `jet`.
"""
from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from calque.core.avals import aval_of, is_arraylike
from calque.core.errors import explain
from calque.core.naming import name_of
from calque.core.types import Function
from calque.dispatch.array import as_values
from calque.dispatch.eager import lazy_eval
from calque.dispatch.tracing import check_callable, trace_to_program
from calque.experimental import series as rules
from calque.experimental.series import Series
from calque.numpy import asarray
from calque.trees import util as tree_util

__all__ = ["fact", "jet", "zero_series"]


class ZeroSeries:
    """A list of terms that are all zero: zero_series, in the place of one."""

    def __repr__(self) -> str:
        return "zero_series"


zero_series = ZeroSeries()


def fact(n: int) -> float:
    """n!, by which a derivative of order n differs from a coefficient of t^n.

    Args:
      n: an integer, not negative.

    Returns:
      A float.

    Raises:
      ValueError: n is negative.

    Example:
      >>> from calque.experimental.jet import fact
      >>> fact(4)
      24.0
    """
    return float(math.factorial(n))


def jet(fun: Function, primals: Sequence[Any], series: Sequence[Any],
        factorial_scaled: bool = True, **_: Any) -> tuple[Any, Any]:
    """The derivatives of fun(h(t)) at t = 0, from those of the curve h (Taylor mode).

    The cost grows with the square of the order; nested jvp's grows exponentially.

    Args:
      fun: function of arrays; it returns an array or a tree of them.
      primals: tuple or list of its arguments, h(0).
      series: for each of them a list of as many arrays of its shape, its derivatives of order 1, 2,
        and so on along the curve; zero_series: all zero.
      factorial_scaled: False: series are coefficients of t, t^2, ..., derivatives divided by k!.

    Returns:
      fun(*primals), and a tree of the same structure with a list of derivatives for each array.
      Of what is no real or complex number they are zeros.

    Raises:
      ValueError: series have different lengths; a primal is no array.

    Example:
      >>> import calque.numpy as jnp
      >>> from calque.experimental.jet import jet
      >>> jet(lambda x: x ** 3, (2.0,), ([1.0, 0.0, 0.0],))[1]
      [Array(12., dtype=float32), Array(12., dtype=float32), Array(6., dtype=float32)]
    """
    check_callable(fun)
    lengths = [None if isinstance(s, ZeroSeries) else len(s) for s in series]
    orders = set(lengths) - {None} or {0}
    if len(orders) != 1 or len(primals) != len(series):
        raise ValueError(explain(
            "jet terms have inconsistent lengths for different arguments: "
            f"{len(primals)} primals with {lengths} terms.",
            fix="give one list of terms for each argument, all of one length."))
    for i, x in enumerate(primals):
        if not is_arraylike(x):
            raise ValueError(explain(
                f"jet: primal value at position {i} is not an array, but a {type(x).__name__}.",
                fix="take trees apart: one argument for each array."))
    order = orders.pop() or 0
    tree = tree_util.tree_structure((tuple(primals), {}))
    with lazy_eval("jet"):
        values = as_values(primals)
        program, out_tree = trace_to_program(fun, tree, [aval_of(x) for x in values],
                                             name_of(fun), "jet")
        outs = rules.run(program, [_taken(x, s, factorial_scaled)
                                   for x, s in zip(values, series)], order)
        found = [as_values(_given(o, order, factorial_scaled)) for o in outs]
        return (out_tree.unflatten(as_values([o.first for o in outs])),
                out_tree.unflatten(found))


def _taken(x: Any, terms: Sequence[Any], factorial_scaled: bool) -> Series:
    """An argument's series; what is no real or complex number has none."""
    if isinstance(terms, ZeroSeries) or not terms or not rules.smooth(x):
        return Series(x)
    dtype = aval_of(x).dtype
    return Series(x, tuple(
        rules.scaled(asarray(term).astype(dtype), 1 / fact(k) if factorial_scaled else 1)
        for k, term in enumerate(terms, 1)))


def _given(s: Series, order: int, factorial_scaled: bool) -> list[Any]:
    """The terms of a result."""
    terms = rules.full(s, order).rest or ()
    return [rules.scaled(term, fact(k) if factorial_scaled else 1)
            for k, term in enumerate(terms, 1)]
