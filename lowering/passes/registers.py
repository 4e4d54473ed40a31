"""Loops that run in registers: which, and what one of their rows does.

A row is what runs by itself: an element of arrays that are all elementwise (`loops.lanes`), or
what stands at one place of a leading axis whose places do not know each other (states under vmap,
chains, a batch of small matrices); a small loop without such an axis is one row.  Of a row every
number has a register (passes/scalars), and vectors hold as many rows as they have lanes.  Start
reading at `plan`.
"""
from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from calque.core.program import Atom, Equation, Literal, Program, Var
from calque.core.types import Params, Shape
from calque.lowering.passes import loops
from calque.lowering.passes.scalars import counted, may_hang
from calque.lowering.passes.split import Axes, Refused, Rewriter, Where, rewritten
from calque.lowering.plan.refusal import Refusal
from calque.lowering.plan.switches import off

enabled = not off("registers")  # tests switch it off to see loops over memory
FEWEST = 4  # rows that are worth lanes
NUMBERS = 500  # that one row computes in a step, at most: half a millisecond to compile each
ENDING_NUMBERS = 2000  # the same with loops in it of which each row has an end of its own
SIZE = 128  # of an array of a row, at most
FLAT_NUMBERS = 20_000  # the same of elements
ALONE, ALONE_SIZE = 1000, 64  # the same where there is one row
ALONE_FUNCTIONS = 4  # and functions, where there is a form with vectors
ALONE_CHOICES = 32  # and choices in loops of its own, where memory is addressed instead


Place = tuple[int | None, ...]  # the axis for each of Plan.sizes


@dataclass(frozen=True, slots=True)
class Plan:
    """sizes: of the axes whose places are the rows; params: of the loop of one row (its Programs
    have an unused input in front for each of these axes); axes and results: where each operand and
    result has them, a scanned one without its steps, None where all rows share it; flat: the shape
    whose elements are the rows; numbers: what a row computes in a step; state: how many numbers of
    the carry differ between rows."""

    sizes: Shape
    params: Params
    axes: tuple[Place, ...]
    results: tuple[Place, ...]
    flat: Shape | None
    numbers: int
    state: int

    @property
    def rows(self) -> int:
        return math.prod(self.sizes)

    def ends_together(self) -> bool:
        """Whether all rows of a while end at once: what they share says when."""
        if "cond_jaxpr" not in self.params:
            return False
        test: Program = self.params["cond_jaxpr"]
        first = 0 if self.flat is not None else len(self.sizes)  # (inputs that nobody uses)
        own, inside = (self.params[k] - first for k in ("cond_nconsts", "body_nconsts"))
        places = [*self.axes[:own], *self.axes[own + inside:]]
        used = test.used()
        return all(axis is None for v, place in zip(test.inputs[first:], places, strict=True)
                   if v in used for axis in place)


def plan(e: Equation) -> Plan | None:
    """How a loop runs in registers; None where it does not."""
    made = _planned(e)
    return made if isinstance(made, Plan) else None


def refusal(e: Equation) -> Refusal | None:
    """Why a loop does not run in registers."""
    made = _planned(e)
    return made if isinstance(made, Refusal) else None


def _planned(e: Equation) -> Plan | Refusal:
    name, p = e.name, e.params
    if e.primitive.kernel != "loop":
        return Refusal(e, "no form")
    if not loops.is_plain(e):
        return loops.refusal(e) or Refusal(e, "no form")
    key = ("registers", enabled, *[id(v) if isinstance(v, Program) else v for v in p.values()])
    body: Program = p["jaxpr" if name == "scan" else "body_jaxpr"]
    made: tuple[Any, Plan | Refusal] = body.derived(key, lambda: (p, _plan(e)))
    return made[1]


def _plan(e: Equation) -> Plan | Refusal:
    flat = loops.lanes(e)
    found = _flat(e, flat) if flat is not None else Refusal(None, "no rows")
    if isinstance(found, Plan) or not enabled:
        return found
    why: list[Refusal] = []  # of loops with rows: what a person would change first
    found = _rows(e, 0, why) or _alone(e)
    return found if isinstance(found, Plan) else next(
        (r for r in why if r.fact != "rows meet"), why[0] if why else found)


def plan_of_rows(p: Program, sizes: Shape, places: Sequence[Place], tables: int = 0
                 ) -> Plan | None:
    """How a Program runs whose results have rows along their first axes, of these sizes, and whose
    inputs have them at `places`; the first ones, so many, are what gathers pick of.  None where
    rows meet, or one computes too much."""
    body = p
    try:
        for at in range(len(sizes)):
            axes = [*[None] * at, *[place[at] for place in places]]
            body, _ = rewritten(_Row(sizes[at]), body, axes, [at] * len(p.outputs))
    except (Refused, _Wanted):
        return None
    count = counted([(body, len(sizes) + tables)], NUMBERS, SIZE, picks=True)
    if isinstance(count, Refusal):
        return None
    rows = tuple(range(len(sizes)))
    return Plan(sizes, {"jaxpr": body, "tables": tables}, tuple(places), (rows,) * len(p.outputs),
                None, count.total, 0)


def _carry(e: Equation) -> list[Any]:
    p = e.params
    if e.name == "while":
        return list(p["body_jaxpr"].in_avals[p["body_nconsts"]:])
    return list(p["jaxpr"].in_avals[p["num_consts"]:p["num_consts"] + p["num_carry"]])


def _scanned(e: Equation) -> list[Any]:
    p = e.params
    return list(p["jaxpr"].in_avals[p["num_consts"] + p["num_carry"]:]) if e.name == "scan" else []


def _bodies(params: Params) -> list[tuple[Program, int]]:
    """The Programs of a loop, and how many constants each has."""
    return [(params[k], params[n]) for k, n in (
        ("jaxpr", "num_consts"), ("cond_jaxpr", "cond_nconsts"), ("body_jaxpr", "body_nconsts"))
        if k in params]


def _one_end(params: Params) -> bool:
    """Whether a row has one predicate, if any."""
    return "cond_jaxpr" not in params or params["cond_jaxpr"].out_avals[0].size == 1


def _flat(e: Equation, shape: Shape) -> Plan | Refusal:
    per_step = [(a.aval.shape[1:] if stacked else a.aval.shape) for a, stacked in loops.parts(e)]
    axes: list[Place] = [(0 if s else None,) for s in per_step]
    n = len(e.inputs)
    count = counted(_bodies(e.params), FLAT_NUMBERS, 1, shape)
    if isinstance(count, Refusal):
        return count
    return Plan((math.prod(shape),), e.params, tuple(axes[:n]), tuple(axes[n:]), shape,
                count.total, sum(bool(a.shape) for a in _carry(e)))


def _alone(e: Equation) -> Plan | Refusal:
    if not _one_end(e.params):
        return Refusal(e, "predicate of rows")
    count = counted(_bodies(e.params), ALONE, ALONE_SIZE)
    if isinstance(count, Refusal):
        return count
    if loops.has_kernel_form(e):
        if count.functions > ALONE_FUNCTIONS:
            return Refusal(None, "functions", count.functions, ALONE_FUNCTIONS)
        if count.choices > ALONE_CHOICES:
            return Refusal(None, "choices", count.choices, ALONE_CHOICES)
    return Plan((), e.params, ((),) * len(e.inputs), ((),) * len(e.outputs), None, count.total, 0)


# ---- rows along an axis
class _Wanted(Exception):
    """Input `index` of a Program is to have its rows at `axis`."""

    def __init__(self, index: int, axis: int) -> None:
        self.index, self.axis = index, axis


class _Asked(_Wanted):
    """The same of an operand of an equation."""


class _Row(Rewriter):
    """A Program for one row.  What all rows share is not cut: an input is asked for by the row, and
    what is computed is computed for the row."""

    ends = None  # a row has an end of its own

    def __init__(self, n: int) -> None:
        super().__init__(n, 1)
        self.indices: dict[Atom, int] = {}

    def input(self, v: Var, axis: int | None) -> Var:
        if axis is None:
            self.indices[v] = len(self.env)
        return super().input(v, axis)

    def equation(self, e: Equation) -> None:
        given = [self.read(a) for a in e.inputs]
        while True:
            try:
                self.rewrite(e, given)
                return
            except _Asked as w:
                given[w.index] = self.with_axis(*given[w.index], w.axis)

    def rewrite(self, e: Equation, given: list[tuple[Atom, int | None]]) -> None:
        if e.primitive.program is not None and any(a is not None for _, a in given):
            self.decomposition(e, given)
            return
        super().rewrite(e, given)

    def decomposition(self, e: Equation, given: list[tuple[Atom, int | None]]) -> None:
        """Of matrices in a batch, of which an axis is the rows."""
        inputs, axis = [], next(a for _, a in given if a is not None)
        for x, has in given:
            if axis >= x.aval.ndim - 2:
                raise Refused
            inputs.append(self.with_axis(x, has, axis)[0])
        self.emit(e, inputs, [axis] * len(e.outputs))

    def inner(self, p: Program, axes: Axes, wanted: Axes | None, where: Where
              ) -> tuple[Program, list[int | None]]:
        try:
            return rewritten(_Row(self.n), p, axes, wanted)
        except _Asked:
            raise
        except _Wanted as w:
            index, more = where(w.index)
            raise _Asked(index, w.axis + more) from None

    def with_axis(self, x: Atom, has: int | None, axis: int | None) -> tuple[Atom, int | None]:
        if has == axis:
            return x, axis
        if has is not None or axis is None or isinstance(x, Literal):
            raise Refused
        if x in self.indices:
            raise _Wanted(self.indices[x], axis)
        if (x, axis) not in self.cuts:
            self.cuts[x, axis] = self.anew(x, axis)
        return self.cuts[x, axis], axis

    def by_form(self, e: Equation, axis: int) -> Var:
        raise Refused


def _rows(e: Equation, at: int, why: list[Refusal]) -> Plan | None:
    """The plan with rows along axes `at`, at + 1, ... of the carry, or of what is scanned where the
    carry has no axes; as many as know no other.  `why`: takes what was in the way."""
    sizes = {a.shape[at] for a in _carry(e) if a.ndim > at} - {1}
    if not sizes and not at:
        sizes = {a.shape[0] for a in _scanned(e) if a.ndim} - {1}
    for n in sorted(sizes, reverse=True):
        found = _along(e, at, int(n), why) if n >= FEWEST or at else None
        if found is None:
            continue
        params, axes, results = found
        inner = _rows(e.replace(params=params), at + 1, why)
        if inner is not None:
            return Plan((int(n), *inner.sizes), inner.params, _paired(axes, inner.axes),
                        _paired(results, inner.results), None, inner.numbers, inner.state)
        made = _made(int(n), params, axes, results)
        if isinstance(made, Plan):
            return made
        why.append(made)
    return None


def _paired(first: Sequence[int | None], others: Sequence[Place]) -> tuple[Place, ...]:
    return tuple((a, *p) for a, p in zip(first, others, strict=True))


Axis = int | None


def _along(e: Equation, at: int, n: int, why: list[Refusal]
           ) -> tuple[dict[str, Any], list[Axis], list[Axis]] | None:
    """The loop of one row along an axis of size n of the carry (where it has it), and the axes of
    operands and results."""
    p, name = e.params, e.name
    k = p["num_consts"] if name == "scan" else p["body_nconsts"]
    body: Program = p["jaxpr" if name == "scan" else "body_jaxpr"]
    c = len(_carry(e))
    axes = _carry_axes(body, n, at, k, c, why)
    if axes is None:
        return None
    if name == "scan":
        made, outs = rewritten(_Row(n), body, axes, axes[k:k + c])
        return {**p, "jaxpr": made, "num_consts": k + 1}, axes[at:], outs
    kc = p["cond_nconsts"]
    heads = _carry_axes(p["cond_jaxpr"], n, at, kc, 0, why, axes[k:])
    if heads is None or heads[kc:] != axes[k:]:
        return None
    test, (pred,) = rewritten(_Row(n), p["cond_jaxpr"], heads, None)
    made, _ = rewritten(_Row(n), body, axes, axes[k:])
    if pred not in (None, at):
        return None
    params = {**p, "cond_jaxpr": test, "body_jaxpr": made, "cond_nconsts": kc + 1,
              "body_nconsts": k + 1}
    return params, [*heads[at:kc], *axes[at:]], axes[k:]


def _carry_axes(p: Program, n: int, at: int, k: int, c: int, why: list[Refusal],
                given: Sequence[Axis] = ()) -> list[Axis] | None:
    """Axes of p's inputs with which it can be rewritten; those of the carry, c from k on, are its
    outputs', too.  What has an axis of size n in the carry's place is taken for rows, as vmap
    makes them; where that fails, only what the body uses so."""
    def has(shape: Sequence[int]) -> Axis:
        return next((i for i in range(at, -1, -1) if len(shape) > i and shape[i] == n), None)

    for guessed in (True, False):
        axes = [(at if a.shape[at:at + 1] == (n,) else None) if k <= i < k + c else
                has(a.shape) if guessed else None for i, a in enumerate(p.in_avals)]
        if given:
            axes[k:] = given
        if _settle(p, axes, n, k, c, why):
            return axes
    return None


def _settle(p: Program, axes: list[int | None], n: int, k: int, c: int, why: list[Refusal]
            ) -> bool:
    """Bring axes of inputs to where p can be rewritten and its carry keeps its axes; False where
    there is no such way."""
    while True:
        try:
            _, outs = rewritten(_Row(n), p, axes, None)
            for i, (has, out) in enumerate(zip(axes[k:k + c], outs)):
                if has is None and out is not None:
                    axes[k + i] = out
                    break
            else:
                rewritten(_Row(n), p, axes, axes[k:k + c])
                return True
        except _Wanted as w:
            if axes[w.index] is not None:
                return False
            axes[w.index] = w.axis
        except Refused as error:
            why.append(error.why)
            return False


def _made(n: int, params: Params, axes: Sequence[Axis], results: Sequence[Axis]
          ) -> Plan | Refusal:
    bodies = _bodies(params)
    most = ENDING_NUMBERS if any(may_hang(p) for p, _ in bodies) else NUMBERS
    count = counted(bodies, most, SIZE) if _one_end(params) else Refusal(
        None, "predicate of rows")
    if isinstance(count, Refusal):
        return count
    body = params.get("jaxpr", params.get("body_jaxpr"))
    assert body is not None
    state = sum(v.aval.size for v, a in zip(body.outputs, results) if a is not None)
    return Plan((n,), params, tuple((a,) for a in axes), tuple((a,) for a in results), None,
                count.total, state)
