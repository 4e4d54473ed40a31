"""Rows that are gathered, multiplied by a number each and added to other rows, as one kernel: a
sparse matrix times a dense one, a layer of a graph network, the gradient of either.

As three operations the gathered rows are written to memory twice (10,000 x 10,000 with 500,000
nonzeros times 32 columns: 64 MiB, of 2.5 that are read).  Start reading at `with_rows_added`.
"""
from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from calque.core.primitive import registry
from calque.core.program import Atom, Equation, Literal, Program, Var, eliminate_dead_code, inner_of
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
    """How the kernel is called: offset and step of the row's numbers and of the column's in the
    arrays that hold them, whether rows have factors, whether indices are clipped, and what a row
    out of range reads as."""

    rows: tuple[int, int]
    columns: tuple[int, int]
    weighted: bool
    clips: bool
    clips_rows: bool
    fill: float


def with_rows_added(p: Program) -> Program:
    """p with calls in the place of such scatters, at any depth, but for loops that are kernels."""
    if off("sparse") or not _holds(p):
        return p
    return p.derived("rows added", lambda: _with_rows_added(p))


def _holds(p: Program) -> bool:
    return any(_is_sum_of_rows(e) or any(map(_holds, inner_of(e.params))) for e in p.equations)


def _is_sum_of_rows(e: Equation) -> bool:
    """Whether it adds whole rows of enough numbers."""
    if e.name != "scatter-add" or cost.is_dynamic(e):
        return False
    (x, at, updates), d = (a.aval for a in e.inputs), e.params["dimension_numbers"]
    return (x.ndim == updates.ndim == 2 and x.dtype in (F32, F64) and updates.dtype == x.dtype
            and at.shape == (updates.shape[0], 1) and at.dtype == I32
            and x.shape[1] == updates.shape[1] >= NARROWEST and updates.size >= LEAST
            and tuple(d.update_window_dims) == (1,) and tuple(d.inserted_window_dims) == (0,)
            and tuple(d.scatter_dims_to_operand_dims) == (0,) and x.shape[0] > 0)


def _with_rows_added(p: Program) -> Program:
    whole = flat(p)
    makers: dict[Atom, Equation] = {v: e for e in whole.equations for v in e.outputs}
    equations = [_call(e, makers) if _is_sum_of_rows(e) else
                 e if cost.is_kernel(e) else e.with_inner(with_rows_added)
                 for e in whole.equations]
    same = all(a is b for a, b in zip(equations, whole.equations))
    return p if same else eliminate_dead_code(whole.replace(equations=equations))


def _call(e: Equation, makers: Makers) -> Equation:
    """The call in the place of a scatter; the scatter where what it adds is not such rows."""
    start, at, updates = e.inputs
    zeros, product = makers.get(start), makers.get(updates)
    if zeros is None or zeros.name != "broadcast_in_dim" or product is None or not (
            isinstance(zeros.inputs[0], Literal) and np.all(zeros.inputs[0].value == 0)):
        return e
    used, weights = [zeros], None
    pick = product
    if product.name == "mul":
        used.append(product)
        for a, b in (product.inputs, product.inputs[::-1]):
            spread = makers.get(b)
            if (maker := makers.get(a)) is not None and maker.name == "gather" and (
                    spread is not None and _is_of_rows(spread)):
                pick, weights = maker, spread.inputs[0]
                used.append(spread)
                break
    if pick.name != "gather" or not _picks_rows(pick):
        return e
    dense, of = pick.inputs
    rows, row_step, views = _numbers(at, makers)
    columns, column_step, more = _numbers(of, makers)
    given = [dense, rows, columns, *([] if weights is None else [weights])]
    mode = pick.params["mode"].name
    fill = pick.params["fill_value"]
    fill = np.nan if fill is None else float(fill)
    if not all(isinstance(a, Var) for a in given) or (
            mode == "FILL_OR_DROP" and not np.isnan(fill) and np.float32(fill) != fill):
        return e
    inputs = list(dict.fromkeys(a for a in given if isinstance(a, Var)))
    inner = Program(inputs, _ordered([*views, *more, *used, pick, e], makers), e.outputs,
                    name="spmm")
    how = Spmm(row_step, column_step, weights is not None, mode != "FILL_OR_DROP",
               e.params["mode"].name == "CLIP", fill if mode == "FILL_OR_DROP" else 0.0)
    return Equation(registry["jit"], tuple(inputs), e.outputs, {
        "jaxpr": inner, "name": "spmm", "rows": how,
        "places": tuple(inputs.index(a) for a in given)}, e.source, e.scope)


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


def _is_of_rows(e: Equation) -> bool:
    """Whether it repeats a number along each row."""
    (a,), out = e.inputs, e.outputs[0].aval
    return e.name == "broadcast_in_dim" and out.ndim == 2 and a.aval.size == out.shape[0] and (
        tuple(e.params["broadcast_dimensions"])[:1] == (0,))


def _picks_rows(e: Equation) -> bool:
    (x, at), d = (a.aval for a in e.inputs), e.params["dimension_numbers"]
    return (x.ndim == 2 and at.ndim == 2 and at.shape[1] == 1 and at.dtype == I32
            and tuple(d.offset_dims) == (1,) and tuple(d.collapsed_slice_dims) == (0,)
            and tuple(d.start_index_map) == (0,) and x.shape[0] > 0
            and tuple(e.params["slice_sizes"]) == (1, x.shape[1]))


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
