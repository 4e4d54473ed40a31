"""Matrices that a loop multiplies by in every step are laid out for its kernel before it: panels of
as many columns as a block of the product has, each with all of its rows side by side.

As they lie, a step down a column is a step over a whole row, which meets the same few lines of a
cache and a page each; and where columns are what is summed, vectors have nothing to run along.
Halves become f32, in which they are added up.  Start reading at `panels`.
"""
from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from calque.core.avals import ShapedArray
from calque.core.lists import other_axes
from calque.core.primitive import registry
from calque.core.program import Atom, Equation, Literal, Program, Var
from calque.core.types import Axes, Dtype, Shape
from calque.lowering.emit.dtypes import summed
from calque.lowering.passes.cost import WHILE_STEPS
from calque.lowering.passes.flat import flat

LEAST_BYTES = 8192  # of a matrix: a smaller one stays in the first level cache as it is
LEAST_ROWS = 256  # multiplied by it in all steps: its price is some rows' work


@dataclass(frozen=True, slots=True)
class Panels:
    """A const of a loop (its position among the operands) as (panels, depth, width): its axes in
    the order of summed ones, then columns; padded with zeros to `padded` columns."""

    source: int
    order: Axes
    depth: int
    padded: int
    width: int
    dtype: Dtype


def panels(e: Equation, width: Callable[[int, int, Dtype], int]
           ) -> tuple[Equation, list[Panels | int]]:
    """A scan or while with such consts, and what each of its operands is made of: a panelled
    operand of e, or one as it is.  width: of panels, for rows, columns and a dtype."""
    p, name = dict(e.params), "jaxpr" if e.name == "scan" else "body_jaxpr"
    count = "num_consts" if name == "jaxpr" else "body_nconsts"
    first = 0 if name == "jaxpr" else p["cond_nconsts"]
    body, n = flat(p[name]), p[count]
    steps = p["length"] if name == "jaxpr" else WHILE_STEPS
    made: dict[Panels, Var] = {}
    place = {v: first + i for i, v in enumerate(body.inputs[:n])}
    equations: list[Equation] = []
    for q in body.equations:
        plan = _plan(q, place, steps, width)
        if plan is None:
            equations.append(q)
            continue
        aval = ShapedArray((plan.padded // plan.width, plan.depth, plan.width), plan.dtype)
        equations += _multiplied(q, plan, made.setdefault(plan, Var(aval)))
    if not made:
        return e, list(range(len(e.inputs)))
    read = {a for q in equations for a in q.inputs} | set(body.outputs)
    kept = [v for v in body.inputs[:n] if v in read]
    p[name] = Program([*kept, *made.values(), *body.inputs[n:]], equations, body.outputs,
                      name=body.name)
    p[count] = len(kept) + len(made)
    sources: list[Panels | int] = [*range(first), *[place[v] for v in kept], *made,
                                   *range(first + n, len(e.inputs))]
    inputs = tuple(e.inputs[s] if isinstance(s, int) else made[s] for s in sources)
    return e.replace(inputs=inputs, params=p), sources


def _plan(q: Equation, place: dict[Var, int], steps: int,
          width: Callable[[int, int, Dtype], int]) -> Panels | None:
    """How the right operand of a product is laid out, where that is a const and worth it."""
    if q.name != "dot_general" or isinstance(q.inputs[1], Literal) or (
            q.inputs[1] not in place):
        return None
    (xc, yc), (xb, _) = q.params["dimension_numbers"]
    x, y = q.inputs[0].aval, q.inputs[1].aval
    free = other_axes(y.ndim, yc)
    depth, columns = (math.prod(y.shape[i] for i in axes) for axes in (yc, free))
    rows = x.size // max(1, depth)
    if xb or depth < 2 or columns < 2 or y.nbytes < LEAST_BYTES or rows * steps < LEAST_ROWS:
        return None
    dtype = summed(y.dtype)
    w = width(rows, columns, dtype)
    return Panels(place[q.inputs[1]], (*yc, *free), depth, -(-columns // w) * w, w, dtype)


def _multiplied(q: Equation, plan: Panels, right: Var) -> list[Equation]:
    """The product by panels, as an equation with q's results."""
    (xc, yc), _ = q.params["dimension_numbers"]
    x, (out,) = q.inputs[0], q.outputs
    lead = out.aval.shape[:x.aval.ndim - len(xc)]
    equations: list[Equation] = []

    def put(name: str, a: Atom, shape: Shape, last: Var | None = None,
            **params: Any) -> Var:
        v = last or Var(a.aval.update(shape=shape))
        equations.append(Equation(registry[name], (a,), (v,), params, q.source, q.scope))
        return v

    kept = other_axes(x.aval.ndim, xc)
    if len(xc) > 1 or xc[0] != x.aval.ndim - 1:  # summed axes last, as one
        order = (*kept, *xc)
        x = put("transpose", x, tuple(x.aval.shape[i] for i in order), permutation=order)
        x = put("reshape", x, (*lead, plan.depth), new_sizes=(*lead, plan.depth), dimensions=None,
                sharding=None)
    shape = (*lead, plan.padded // plan.width, plan.width)
    product = Var(out.aval.update(shape=shape))
    equations.append(q.replace(inputs=(x, right), outputs=(product,), params={
        **q.params, "dimension_numbers": (((len(lead),), (1,)), ((), ()))}))
    columns = math.prod(out.aval.shape[len(lead):])
    flat_shape = (*lead, plan.padded)
    v = put("reshape", product, flat_shape, None if (
        columns != plan.padded or out.aval.shape != flat_shape) else out, new_sizes=flat_shape,
        dimensions=None, sharding=None)
    if columns != plan.padded:
        cut = (*lead, columns)
        v = put("slice", v, cut, out if out.aval.shape == cut else None,
                start_indices=(0,) * len(cut), limit_indices=cut, strides=None)
    if v is not out:
        put("reshape", v, out.aval.shape, out, new_sizes=out.aval.shape, dimensions=None,
            sharding=None)
    return equations
