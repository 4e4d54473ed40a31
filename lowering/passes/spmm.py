"""Rows that are gathered, multiplied by a number each and added to other rows, as one kernel: a
sparse matrix times a dense one, a layer of a graph network, the gradient of either.

As three operations the gathered rows are written to memory twice (10,000 x 10,000 with 500,000
nonzeros times 32 columns: 64 MiB, of 2.5 that are read).  Start reading at `with_rows_added`.
"""
from __future__ import annotations

import operator
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from calque.core.primitive import registry
from calque.core.program import Atom, Equation, Literal, Program, Var, eliminate_dead_code
from calque.core.types import Axes
from calque.lowering.emit.dtypes import F32, F64, I32
from calque.lowering.passes import cost
from calque.lowering.passes.flat import flat
from calque.lowering.plan.switches import off

NARROWEST = 4  # numbers of a row
LEAST = 1 << 15  # numbers of all gathered rows: less is one kernel's with what is around it
Makers = Mapping[Atom, Equation]
_SAME = ("reshape", "squeeze", "broadcast_in_dim")


@dataclass(frozen=True, slots=True)
class Spmm:
    """How the kernel is called: which operands are the dense matrix, the arrays that hold numbers
    of rows and of columns, and the factors (where there are any); offset and step of the row's
    numbers and of the column's in these, whether rows have factors, whether indices are clipped,
    and what a row out of range reads as."""

    operands: tuple[int, ...]
    rows: tuple[int, int]
    columns: tuple[int, int]
    weighted: bool
    clips: bool
    clips_rows: bool
    fill: float


def with_rows_added(p: Program) -> Program:
    """p with calls in the place of such scatters, at any depth, but for loops that are kernels."""
    if off("sparse") or "scatter-add" not in p.names() or not _holds(p):
        return p
    return p.derived("rows added", lambda: _with_rows_added(p))


def _holds(p: Program) -> bool:
    return any(_is_sum_of_rows(e) or any(map(_holds, e.inner)) for e in p.equations)


def _is_sum_of_rows(e: Equation) -> bool:
    """Whether it adds whole rows of enough numbers."""
    if e.name != "scatter-add" or e.is_dynamic:
        return False
    (x, at, updates), d = (a.aval for a in e.inputs), e.params["dimension_numbers"]
    k = _axis(d.scatter_dims_to_operand_dims)
    return (k is not None and x.ndim == updates.ndim == 2 and x.dtype in (F32, F64)
            and updates.dtype == x.dtype and at.dtype == I32 and at.shape == (updates.shape[k], 1)
            and x.shape[1 - k] == updates.shape[1 - k] >= NARROWEST and updates.size >= LEAST
            and tuple(d.update_window_dims) == (1 - k,) and tuple(d.inserted_window_dims) == (k,)
            and x.shape[k] > 0)


def _axis(axes: Axes) -> int | None:
    """The axis that indices go along; None where there are several."""
    return axes[0] if tuple(axes) in ((0,), (1,)) else None


def _with_rows_added(p: Program) -> Program:
    whole = flat(p)
    makers: dict[Atom, Equation] = {v: e for e in whole.equations for v in e.outputs}
    equations: list[Equation] = []
    for e in whole.equations:
        equations += _calls(e, makers) if _is_sum_of_rows(e) else [
            e if cost.is_kernel(e) else e.with_inner(with_rows_added)]
    same = len(equations) == len(whole.equations) and all(map(
        operator.is_, equations, whole.equations))
    return p if same else eliminate_dead_code(whole.replace(equations=equations))


def _calls(e: Equation, makers: Makers) -> list[Equation]:
    """The call in the place of a scatter, of columns between two transpositions; the scatter where
    what it adds is not such rows."""
    start, at, updates = e.inputs
    (axis,) = e.params["dimension_numbers"].scatter_dims_to_operand_dims
    used, weights, product = list[Equation](), None, makers.get(updates)
    while (maker := makers.get(start)) is not None and maker.name == "broadcast_in_dim":
        used.append(maker)
        (start,) = maker.inputs
    if product is None or not (isinstance(start, Literal) and np.all(start.value == 0)):
        return [e]
    pick = product
    if product.name == "mul":
        used.append(product)
        for a, b in (product.inputs, product.inputs[::-1]):
            spread = makers.get(b)
            if (maker := makers.get(a)) is not None and maker.name == "gather" and (
                    spread is not None and _is_of_rows(spread, axis)):
                pick, weights = maker, spread.inputs[0]
                used.append(spread)
                break
    if pick.name != "gather" or not _picks_rows(pick, axis):
        return [e]
    dense, of = pick.inputs
    rows, row_step, views = _numbers(at, makers)
    columns, column_step, more = _numbers(of, makers)
    given = [dense, rows, columns, *([] if weights is None else [weights])]
    mode = pick.params["mode"].name
    fill = pick.params["fill_value"]
    fill = np.nan if fill is None else float(fill)
    if not all(isinstance(a, Var) for a in given) or (
            mode == "FILL_OR_DROP" and not np.isnan(fill) and np.float32(fill) != fill):
        return [e]
    members = _ordered([*views, *more, *used, pick, e], makers)
    out, before, after = e.outputs[0], list[Equation](), list[Equation]()
    if axis:  # what is beside the rows comes last
        turned, result = _turned(dense), _turned(out)
        before, after = [_transpose(dense, turned, e)], [_transpose(result, out, e)]
        members = [_transpose(turned, dense, e), *members, _transpose(out, result, e)]
        given[0], out = turned, result
    inputs = list(dict.fromkeys(a for a in given if isinstance(a, Var)))
    places: dict[Atom, int] = {v: k for k, v in enumerate(inputs)}
    how = Spmm(tuple(places[a] for a in given), row_step, column_step, weights is not None,
               mode != "FILL_OR_DROP", e.params["mode"].name == "CLIP",
               fill if mode == "FILL_OR_DROP" else 0.0)
    return [*before, Equation(registry["jit"], tuple(inputs), (out,), {
        "jaxpr": Program(inputs, members, (out,), name="spmm"), "name": "spmm", "rows": how,
        }, e.source, e.scope), *after]


def _turned(a: Atom) -> Var:
    return Var(a.aval.update(shape=a.aval.shape[::-1]))


def _transpose(a: Atom, made: Atom, e: Equation) -> Equation:
    assert isinstance(made, Var)
    return Equation(registry["transpose"], (a,), (made,), {"permutation": (1, 0)}, e.source,
                    e.scope)


def _ordered(members: list[Equation], makers: Makers) -> list[Equation]:
    """Equations, each behind what it reads, none twice."""
    own, found = {id(e) for e in members}, list[Equation]()

    def put(e: Equation) -> None:
        if any(e is k for k in found):
            return
        for a in e.inputs:
            if a in makers and id(makers[a]) in own:
                put(makers[a])
        found.append(e)
    for e in members:
        put(e)
    return found


def _is_of_rows(e: Equation, axis: int) -> bool:
    """Whether it repeats a number along each row (column, where axis is 1)."""
    out = e.outputs[0].aval
    if e.name != "broadcast_in_dim" or out.ndim != 2:
        return False
    a, axes = e.inputs[0].aval, e.params["broadcast_dimensions"]
    return a.size == out.shape[axis] and [
        k for k, n in zip(axes, a.shape) if n > 1] in ([axis], [])


def _picks_rows(e: Equation, axis: int) -> bool:
    (x, at), d = (a.aval for a in e.inputs), e.params["dimension_numbers"]
    sizes = tuple(1 if k == axis else n for k, n in enumerate(x.shape))
    return (x.ndim == 2 and at.ndim == 2 and at.shape[1] == 1 and at.dtype == I32
            and tuple(d.offset_dims) == (1 - axis,) and tuple(d.collapsed_slice_dims) == (axis,)
            and tuple(d.start_index_map) == (axis,) and x.shape[axis] > 0
            and tuple(e.params["slice_sizes"]) == sizes)


def _numbers(a: Atom, makers: Makers) -> tuple[Atom, tuple[int, int], list[Equation]]:
    """The array that holds numbers of rows, where they lie in it, and the views between."""
    views = list[Equation]()
    while (e := makers.get(a)) is not None and e.name in _SAME and (
            e.inputs[0].aval.size == a.aval.size):
        views.append(e)
        a = e.inputs[0]
    if e is not None and e.name == "slice" and e.inputs[0].aval.ndim == 2 and (
            a.aval.shape[1] == 1 and e.inputs[0].aval.shape[0] == a.aval.shape[0]):
        views.append(e)
        return e.inputs[0], (e.params["start_indices"][1], e.inputs[0].aval.shape[1]), views
    return a, (0, 1), views
