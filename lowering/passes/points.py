"""Rows of few numbers (points, colours, quaternions, small matrices of a batch) as one kernel in
registers.

Along a last axis of 3 no vector is full: what repeats a smaller array along it, cuts it, joins it
or adds it up takes 2 to 16 times as long element by element as it should.  Such equations around
one another become a call whose rows run as those of a loop in registers do (passes/registers): a
vector holds a number of as many rows as it has lanes, and rows are read and written as they lie.
Start reading at `points`.
"""
from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from calque.core.primitive import registry
from calque.core.program import Atom, Equation, Literal, Program, Var, param_key
from calque.core.types import Shape
from calque.lowering.passes import cost, loops, rows
from calque.lowering.passes.legalize import in_forms
from calque.lowering.passes.registers import Plan, plan_of_rows

LEAST = 128  # rows
SHORT = 16  # numbers of a row in one array, at most, or elements of what all rows share
SHARED = 64
REPEATED = 3  # numbers side by side that are worth it where an array is only repeated along them
MOST = 200  # equations
MOST_NUMBERS = 300  # that a row computes in them
_SHORT_FORMS = frozenset((
    "broadcast_in_dim", "slice", "rev", "concatenate", "reduce_sum", "reduce_prod", "reduce_max",
    "reduce_min", "reduce_and", "reduce_or", "argmax", "argmin"))
Fit = dict[Any, bool]  # whether equations of one form do the same for each row
_WRITTEN = frozenset(("argmax", "argmin"))  # in others
_VIEWS = frozenset(("squeeze", "reshape", "transpose"))
_REPEATS = _VIEWS | {"broadcast_in_dim"}
_MOVES = _REPEATS | {"slice", "rev", "concatenate"}  # compute nothing


def points(finder: rows.Finder) -> None:
    """Put calls in the place of such equations."""
    tried = set[int]()
    fit: Fit = {}
    for i in sorted(finder.live, key=finder.position.__getitem__):
        if i not in finder.live or i in tried:
            continue
        e = finder.equations[i]
        lead = _lead(e)
        if lead is None:
            continue
        members = _grown(finder, i, lead, fit)
        tried.update(members)
        if members:
            _join(finder, members, lead)


def _lead(e: Equation) -> Shape | None:
    """The axes of rows of an equation that works along a short last axis; None of others."""
    if e.name not in _SHORT_FORMS or len(e.outputs) != 1 or cost.is_dynamic(e):
        return None
    wide = max((a.aval for a in (*e.inputs, *e.outputs)), key=lambda a: a.size)
    end, inner = wide.ndim, 1
    while end and inner * wide.shape[end - 1] <= SHORT:
        end -= 1
        inner *= wide.shape[end]
    lead = wide.shape[:end]
    if inner == 1 or wide.shape[-1] >= SHORT or math.prod(lead) < LEAST or (
            e.name == "broadcast_in_dim" and (
                wide.shape[-1] > REPEATED or not 1 < e.inputs[0].aval.size < wide.size)):
        return None
    return lead if _is_member(e, lead) else None


def _has_rows(a: Atom, lead: Shape) -> bool:
    shape = a.aval.shape
    return shape[:len(lead)] == lead and math.prod(shape[len(lead):]) <= SHORT


def _has_form(e: Equation) -> bool:
    return rows.is_elementwise(e) or e.name in _SHORT_FORMS or e.name in _VIEWS


def _is_member(e: Equation, lead: Shape) -> bool:
    """Whether an equation does the same for each row."""
    if cost.is_dynamic(e) or not (loops.is_plain(e) or e.name in _WRITTEN) or not all(
            _has_rows(v, lead) for v in e.outputs):
        return False
    return all(_has_rows(a, lead) or a.aval.size <= SHARED for a in e.inputs) and (
        _planned(_written([e], list(dict.fromkeys(a for a in e.inputs if isinstance(a, Var))),
                          list(e.outputs)), lead) is not None)


def _near(finder: rows.Finder, i: int, lead: Shape) -> set[int]:
    """The neighbours of an equation, and what reads the same rows."""
    near = set(finder.neighbours(i))
    for a in finder.equations[i].inputs:
        if isinstance(a, Var) and _has_rows(a, lead):
            near |= finder.users[a]
    return near


def _written(equations: Sequence[Equation], given: Sequence[Var], outputs: Sequence[Var]
             ) -> Program:
    return Program(given, [q for e in equations for q in (
        e.name in _WRITTEN and in_forms(e) or [e])], outputs, name="points")


def _planned(p: Program, lead: Shape) -> Plan | None:
    return plan_of_rows(p, lead, [_has_rows(a, lead) for a in p.inputs])


def _grown(finder: rows.Finder, seed: int, lead: Shape, fit: Fit) -> list[int]:
    """A seed and what is around it, in order; `fit` is filled in."""
    members, later, span = {seed}, set[int](), finder.span((seed,))
    waiting, numbers = _near(finder, seed, lead), 0
    while waiting and len(members) < MOST and numbers < MOST_NUMBERS:
        i = min(waiting, key=finder.position.__getitem__)
        waiting.discard(i)
        if i in members or i not in finder.live or i in finder.widened:
            continue
        e = finder.equations[i]
        if not _has_form(e):
            continue
        form = (lead, e.name, tuple((k, param_key(v)) for k, v in e.params.items()),
                tuple((a.aval.shape, a.aval.dtype, isinstance(a, Literal)) for a in e.inputs))
        if form not in fit:
            fit[form] = _is_member(e, lead)
        if not fit[form]:
            continue
        more = span.joined(finder.span((i,)))
        if finder.between(more):
            later.add(i)
            continue
        members.add(i)
        span = more
        if e.name not in _MOVES:
            numbers += max(a.aval.size for a in (*e.inputs, *e.outputs)) // math.prod(lead)
        waiting |= later | _near(finder, i, lead)
        later.clear()
    return sorted(members, key=finder.position.__getitem__)


def _join(finder: rows.Finder, members: list[int], lead: Shape) -> None:
    equations = [finder.equations[i] for i in members]
    made = {v for e in equations for v in e.outputs}
    given = list(dict.fromkeys(
        a for e in equations for a in e.inputs if isinstance(a, Var) and a not in made))
    inside = set(members)
    # what only repeats something is not written: who reads it has it again
    again = [i for i in members if finder.equations[i].name == "broadcast_in_dim" and not (
        finder.results & set(finder.equations[i].outputs)) and any(
            finder.users.get(v, set()) - inside for v in finder.equations[i].outputs)]
    read = {a for i in again for a in finder.equations[i].inputs}
    outputs = [v for i, e in zip(members, equations) for v in e.outputs if v in finder.results
               or v in read or i not in again and finder.users.get(v, set()) - inside]
    large = [v for v in given if v.aval.size > SHARED]
    if len(given) + len(outputs) > cost.MOST_BINDINGS or not large or not outputs or not all(
            map(finder.is_at_hand, large)) or {e.name for e in equations} <= _REPEATS:
        return
    inner = _written(equations, given, outputs)
    plan = _planned(inner, lead)
    if plan is None:
        return
    e = equations[0]
    finder.contract(members, Equation(registry["jit"], tuple(given), tuple(outputs), {
        "jaxpr": inner, "name": "points", "rows": plan}, e.source, e.scope), again)


__all__ = ["points"]
