"""lax.scatter and its family: arrays with windows at given positions replaced by updates or joined
with them.

Updates are applied in the order of the updates array; windows that are not inside the operand are
left out (mode='clip' moves them inside).  Start reading at `_bind`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from calque.api.loops import while_loop
from calque.core.avals import aval_of, shape_of
from calque.core.errors import explain
from calque.core.primitive import Primitive
from calque.core.tables import from_row
from calque.core.trace import Tracer
from calque.core.types import Function
from calque.dispatch.eager import lazy_eval
from calque.lax.gather import parse_mode
from calque.lax.operands import as_operand, as_sizes
from calque.primitives import elementwise as ew
from calque.primitives import reduce as rd
from calque.primitives import scatter as sc
from calque.primitives import shape as sh
from calque.primitives.custom import without_derivative
from calque.primitives.gather import GatherScatterMode, ScatterDimensionNumbers
from calque.transforms.vmap import vmap_flat


def _numbers(d: ScatterDimensionNumbers) -> ScatterDimensionNumbers:
    return ScatterDimensionNumbers(*[tuple(map(int, dims)) for dims in d])


def _bind(
    name: str,
    p: Primitive,
    operand: Any,
    indices: Any,
    updates: Any,
    d: ScatterDimensionNumbers,
    are_sorted: bool,
    unique: bool,
    mode: Any,
) -> Any:
    x, i, u = (as_operand(name, v, k) for k, v in enumerate((operand, indices, updates)))
    parsed = parse_mode(name, mode, GatherScatterMode.FILL_OR_DROP)
    return sc.scatter(
        p,
        x,
        i,
        u,
        _numbers(d),
        mode=parsed,
        indices_are_sorted=bool(are_sorted),
        unique_indices=bool(unique),
    )


_DOCUMENT = """{sentence}

    Args:
      operand: {accepts}.
      scatter_indices: integers; vectors along the last axis, one entry for each of
        scatter_dims_to_operand_dims.
      updates: array of operand's dtype: a window for each index vector, with its axes at
        update_window_dims.
      dimension_numbers: ScatterDimensionNumbers, which says what axis is what.
      indices_are_sorted: a promise that the index vectors are in ascending order.
      unique_indices: a promise that no element is written twice.
      mode: 'drop' (the default: windows that are not inside are left out), 'clip' (they are moved
        inside) or 'promise_in_bounds' (those that break the promise are left out).

    Returns:
      An array of operand's shape and dtype.

    Raises:
      TypeError: shapes, dtypes and dimension numbers do not fit each other.
      ValueError: the indices are no integers, or the mode is unknown.

    Notes:
      {notes}

    Example:
      >>> import numpy as np
      >>> from calque import lax
      >>> rows = lax.ScatterDimensionNumbers(
      ...     update_window_dims=(), inserted_window_dims=(0,), scatter_dims_to_operand_dims=(0,))
      >>> x, i = np.array([3, 3, 3]), np.array([[0], [2], [2]])
      >>> lax.{name}(x, i, np.array([1, 5, 2]), rows)
      Array({result}, dtype=int32)
    """


def _function(
    name: str, p: Primitive, sentence: str, accepts: str, result: str, notes: str
) -> Function:
    def f(
        operand: Any,
        scatter_indices: Any,
        updates: Any,
        dimension_numbers: ScatterDimensionNumbers,
        *,
        indices_are_sorted: bool = False,
        unique_indices: bool = False,
        mode: Any = None,
    ) -> Any:
        return _bind(
            name,
            p,
            operand,
            scatter_indices,
            updates,
            dimension_numbers,
            indices_are_sorted,
            unique_indices,
            mode,
        )

    return from_row(f, "calque.lax", name, _DOCUMENT, sentence=sentence, accepts=accepts,
                    result=result, notes=notes)


_NUMBERS = "array of integer, float or complex dtype"
_SUM = "Updates for one element are added in their order; half precision is summed in f32."
_EXTREMUM = "NaN wins; complex numbers are ordered by real part, then by imaginary part."
scatter = _function(
    "scatter",
    sc.scatter_p,
    "operand with windows replaced by updates.",
    "any array",
    "[1, 3, 2]",
    "Of several updates for one element the last one stays.",
)
scatter_add = _function(
    "scatter_add",
    sc.scatter_add_p,
    "operand with updates added to windows of it.",
    _NUMBERS,
    "[ 4,  3, 10]",
    _SUM,
)
scatter_sub = _function(
    "scatter_sub",
    sc.scatter_sub_p,
    "operand with updates subtracted from windows of it.",
    _NUMBERS,
    "[ 2,  3, -4]",
    _SUM,
)
scatter_mul = _function(
    "scatter_mul",
    sc.scatter_mul_p,
    "operand with windows of it multiplied by updates.",
    _NUMBERS,
    "[ 3,  3, 30]",
    "The derivative with respect to updates needs unique_indices=True.",
)
scatter_min = _function(
    "scatter_min",
    sc.scatter_min_p,
    "operand with windows of it limited from above by updates.",
    "any array",
    "[1, 3, 2]",
    _EXTREMUM,
)
scatter_max = _function(
    "scatter_max",
    sc.scatter_max_p,
    "operand with windows of it limited from below by updates.",
    "any array",
    "[3, 3, 5]",
    _EXTREMUM,
)


def scatter_apply(
    operand: Any,
    scatter_indices: Any,
    func: Callable[[Any], Any],
    dimension_numbers: ScatterDimensionNumbers,
    *,
    update_shape: Any = (),
    indices_are_sorted: bool = False,
    unique_indices: bool = False,
    mode: Any = None,
) -> Any:
    """operand with func applied to the elements of windows, once for each time an element is named.

    Args:
      operand: any array.
      scatter_indices: integers; vectors along the last axis.
      func: function of one scalar that returns a scalar of the same dtype.
      dimension_numbers: ScatterDimensionNumbers, which says what axis is what.
      update_shape: the shape that updates would have (static).
      indices_are_sorted: a promise that the index vectors are in ascending order.
      unique_indices: a promise that no element is named twice.
      mode: as in scatter.

    Returns:
      An array of operand's shape and dtype.

    Raises:
      TypeError: func changes the dtype or the shape, or the dimension numbers do not fit.
      NotImplementedError: (by derivatives) there is no rule.

    Example:
      >>> import numpy as np
      >>> from calque import lax
      >>> rows = lax.ScatterDimensionNumbers(
      ...     update_window_dims=(), inserted_window_dims=(0,), scatter_dims_to_operand_dims=(0,))
      >>> lax.scatter_apply(np.array([1, 2, 3]), np.array([[0], [2], [2]]), lambda v: v * 10, rows,
      ...                   update_shape=(3,))
      Array([ 10,   2, 300], dtype=int32)
    """
    x = as_operand("scatter_apply", operand)
    if isinstance(x, Tracer):
        (x,) = without_derivative(x, _no_jvp)
    shape = shape_of(x)
    ones = np.ones(as_sizes("scatter_apply", update_shape), np.int32)
    with lazy_eval("scatter_apply"):
        blank = sh.broadcast_in_dim(np.int32(0), shape, ())
        counts = scatter_add(
            blank,
            scatter_indices,
            ones,
            dimension_numbers,
            unique_indices=unique_indices,
            indices_are_sorted=indices_are_sorted,
            mode=mode,
        )
        one_round = _rounds_are_one(scatter_indices, unique_indices, ones.size)

        def step(y: Any, k: Any) -> Any:
            return ew.select_n(ew.gt(counts, k), y, _mapped(func, y))

        if one_round:
            return step(x, np.int32(0))
        axes = tuple(range(len(shape)))
        most = (
            rd.reduce_max_p.bind(counts, axes=axes, out_sharding=None)
            if axes and 0 not in shape
            else counts
        )
        if 0 in shape:
            return step(x, np.int32(0))
        return while_loop(
            lambda c: ew.lt(c[0], most),
            lambda c: (ew.add(c[0], np.int32(1)), step(c[1], c[0])),
            (np.int32(0), x),
        )[1]


def _no_jvp(*_: Any) -> Any:
    raise NotImplementedError(
        explain(
            "scatter_apply JVP not implemented",
            fix="gather the elements, apply the function and scatter the results.",
        )
    )


def _rounds_are_one(indices: Any, unique: bool, size: int) -> bool:
    """Whether no element can be named twice."""
    if unique or size <= 1:
        return True
    if isinstance(indices, Tracer) or hasattr(indices, "aval"):
        return False
    if not np.shape(indices)[-1]:
        return math.prod(np.shape(indices)[:-1]) <= 1
    vectors = np.asarray(indices).reshape(-1, np.shape(indices)[-1])
    return len(np.unique(vectors, axis=0)) == len(vectors) == size and bool((vectors >= 0).all())


def _mapped(func: Callable[[Any], Any], x: Any) -> Any:
    """func of every element."""
    aval = aval_of(x)
    flat = sh.reshape(x, (aval.size,))
    (out,), (axis,) = vmap_flat(
        lambda v: [as_operand("scatter_apply", func(v))], aval.size, [flat], [0]
    )
    made = aval_of(out)
    if made.ndim != (axis is not None) or made.dtype != aval.dtype:
        raise TypeError(
            explain(
                f"scatter_apply: func must return a scalar of dtype {aval.dtype.name}, got "
                f"{made.short()}.",
                fix="return one element of the operand's dtype for each element.",
            )
        )
    if axis is None:
        return sh.broadcast_in_dim(out, aval.shape, ())
    return sh.reshape(out, aval.shape)


__all__ = [
    "scatter",
    "scatter_add",
    "scatter_apply",
    "scatter_max",
    "scatter_min",
    "scatter_mul",
    "scatter_sub",
]
