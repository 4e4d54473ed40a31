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
from calque.core.program import Equation, Literal, Program, Var
from calque.core.types import Shape
from calque.lowering.passes import cost, loops, rows
from calque.lowering.passes.legalize import in_forms
from calque.lowering.passes.places import MATRIX, SHARED, SHORT, Inner, has_rows, member_places
from calque.lowering.passes.registers import plan_of_rows

LEAST = 128  # rows
LONG = 32  # numbers side by side that are added up, or compared, at most
REPEATED = 3  # numbers side by side that are worth it where an array is only repeated along them,
OUTER = 7  # and where rows are matrices
MOST = 200  # equations
MOST_NUMBERS = 300  # that a row computes in them
_FOLDS = frozenset(("reduce_sum", "reduce_prod", "reduce_max", "reduce_min", "reduce_and",
                    "reduce_or", "argmax", "argmin"))
_SHORT_FORMS = _FOLDS | {"broadcast_in_dim", "slice", "rev", "concatenate", "gather"}
Fit = dict[Any, bool]  # whether equations of one form do the same for each row
_WRITTEN = frozenset(("argmax", "argmin"))  # in others
_VIEWS = frozenset(("squeeze", "reshape", "transpose"))
_REPEATS = _VIEWS | {"broadcast_in_dim"}
_MOVES = _REPEATS | {"slice", "rev", "concatenate"}  # compute nothing


def points(finder: rows.Finder, folds: bool = False) -> None:
    """Put calls in the place of such equations; `folds`: of those around folds of a last axis that
    vectors along it would leave half empty (softmax of 200,000 x 10: 1.4 to 0.6 ms)."""
    tried = set[int]()
    fit: Fit = {}
    lead_of = _lead_of_fold if folds else _lead
    leads = {i: found for i in finder.live if (found := lead_of(finder.equations[i])) is not None}
    # the most rows first: what all pairs follow from becomes part of them
    for i in sorted(leads, key=lambda i: (-math.prod(leads[i][0]), finder.position[i])):
        if i not in finder.live or i in tried:
            continue
        lead, most = leads[i]
        members = _grown(finder, i, lead, most, fit)
        tried.update(members)
        if members:
            _join(finder, members, lead, most,
                  folds and finder.equations[i].inputs[0].aval.shape[-1] >= SHORT)


def _lead(e: Equation) -> tuple[Shape, int] | None:
    """The axes of rows of an equation that works along a short last axis, and how many numbers a
    row has at most; None of others."""
    if e.name not in _SHORT_FORMS or len(e.outputs) != 1 or e.is_dynamic:
        return None
    arrays = e.outputs if e.name == "gather" else (*e.inputs, *e.outputs)
    wide = max((a.aval for a in arrays), key=lambda a: a.size)
    for most in (SHORT, MATRIX):
        end, inner = wide.ndim, 1
        while end and inner * wide.shape[end - 1] <= most:
            end -= 1
            inner *= wide.shape[end]
        lead = wide.shape[:end]
        matrix = wide.ndim - end > 1 and wide.shape[-1] <= OUTER
        if inner == 1 or wide.shape[-1] >= SHORT or math.prod(lead) < LEAST or (
                e.name == "broadcast_in_dim" and not (
                    (wide.shape[-1] <= REPEATED or matrix)
                    and 1 < e.inputs[0].aval.size < wide.size)) or (
                        most == MATRIX and not (matrix and e.name == "broadcast_in_dim")):
            continue
        if _is_member(e, lead, most):
            return lead, most
    return None


def _lead_of_fold(e: Equation) -> tuple[Shape, int] | None:
    """The same of a fold of a last axis of rows.SHORTEST to LONG numbers."""
    if e.name not in _FOLDS or e.is_dynamic:
        return None
    x = e.inputs[0].aval
    lead = x.shape[:-1]
    if tuple(e.params["axes"]) != (x.ndim - 1,) or not rows.SHORTEST <= x.shape[-1] <= LONG or (
            math.prod(lead) < LEAST) or not _is_member(e, lead, LONG):
        return None
    return lead, LONG


def _has_form(e: Equation) -> bool:
    return rows.is_elementwise(e) or e.name in _SHORT_FORMS or e.name in _VIEWS


def _is_member(e: Equation, lead: Shape, most: int) -> bool:
    """Whether an equation does the same for each row."""
    if e.is_dynamic or not (loops.is_plain(e) or e.name in _WRITTEN) or not all(
            has_rows(v, lead, most) for v in e.outputs):
        return False
    places = member_places(e, lead, most)
    if places is None:
        return False
    given = {a: q for a, q in zip(e.inputs, places) if isinstance(a, Var)}
    return plan_of_rows(_written([e], list(given), list(e.outputs)), lead, list(given.values()),
                        int(e.name == "gather")) is not None


def _near(finder: rows.Finder, i: int, lead: Shape, most: int) -> set[int]:
    """The neighbours of an equation, and what reads the same rows."""
    near = set(finder.neighbours(i))
    for a in finder.equations[i].inputs:
        if isinstance(a, Var) and has_rows(a, lead, most):
            near |= finder.users[a]
    return near


def _written(equations: Sequence[Equation], given: Sequence[Var], outputs: Sequence[Var]
             ) -> Program:
    return Program(given, [q for e in equations for q in (
        e.name in _WRITTEN and in_forms(e) or [e])], outputs, name="points")


def _fits(finder: rows.Finder, i: int, lead: Shape, most: int, fit: Fit) -> bool:
    """Whether an equation does the same for each row; `fit` is filled in, by number and by form."""
    found = fit.get((lead, most, i))
    if found is None:
        e = finder.equations[i]
        found = _has_form(e)
        if found:
            form = (lead, most, e.name, e.params_key,
                    tuple((a.aval.shape, a.aval.dtype, isinstance(a, Literal)) for a in e.inputs))
            if form not in fit:
                fit[form] = _is_member(e, lead, most)
            found = fit[form]
        fit[lead, most, i] = found
    return found


def _grown(finder: rows.Finder, seed: int, lead: Shape, most: int, fit: Fit
           ) -> list[int]:
    """A seed and what is around it, in order; `fit` is filled in."""
    members, span = {seed}, finder.span((seed,))
    # what has to come before an equation; which wait for one of it (asked again when all has come)
    later: dict[int, int] = {}
    waits: dict[int, list[int]] = {}
    waiting, numbers = _near(finder, seed, lead, most), 0
    whole, made = _picked_of(finder.equations[seed]), set(finder.equations[seed].outputs)
    while waiting and len(members) < MOST and numbers < MOST_NUMBERS:
        i = min(waiting, key=finder.position.__getitem__)
        waiting.discard(i)
        if i in members or i not in finder.live or i in finder.widened or not _fits(
                finder, i, lead, most, fit):
            continue
        more = span.joined(finder.span((i,)))
        missing = finder.between(more)
        if missing:
            later[i] = missing
            waits.setdefault(missing.bit_length(), []).append(i)
            continue
        e = finder.equations[i]
        if made & _picked_of(e) or whole & set(e.outputs):  # it has to be in memory before
            continue
        members.add(i)
        span = more
        made.update(e.outputs)
        whole |= _picked_of(e)
        if e.name not in _MOVES:
            numbers += max(a.aval.size for a in (*e.inputs, *e.outputs)) // math.prod(lead)
        waiting |= {j for j in _near(finder, i, lead, most)
                    if j not in members and j not in later}
        for j in waits.pop(i + 1, ()):
            missing = later[j] & ~span.inside
            if missing:
                waits.setdefault(missing.bit_length(), []).append(j)
            else:
                del later[j]
                waiting.add(j)
    return sorted(members, key=finder.position.__getitem__)


def _picked_of(e: Equation) -> set[Var]:
    """What an equation picks rows of."""
    return {a for a in e.inputs[:1] if isinstance(a, Var)} if e.name == "gather" else set()


def _join(finder: rows.Finder, members: list[int], lead: Shape, most: int, full: bool) -> None:
    """full: vectors along rows are, so that only what gives numbers of rows, and more than a sum or
    the largest, is ahead here (64 us for 75 of a softmax of 5,000 x 32, 69 for 25 of argmax)."""
    equations = [finder.equations[i] for i in members]
    inner = Inner(finder, members, lead, most)
    for e in equations:
        inner.put(e)
    inside = set(members)
    # what only repeats something is not written: who reads it has it again
    again = [i for i in members if finder.equations[i].name == "broadcast_in_dim" and not (
        finder.results & set(finder.equations[i].outputs)) and any(
            finder.users.get(v, set()) - inside for v in finder.equations[i].outputs)]
    read = {a for i in again for a in finder.equations[i].inputs}
    outputs = [v for i, e in zip(members, equations) for v in e.outputs if v in finder.results
               or v in read or i not in again and finder.users.get(v, set()) - inside]
    large = [v for v, place, _ in inner.arrays if v.aval.size > SHARED]
    if full and (any(v.aval.size > math.prod(lead) for v in outputs)
                 or len(members) == 1 and equations[0].name not in _WRITTEN):
        return
    if len(inner.inputs) + len(outputs) > cost.MOST_BINDINGS or not outputs or not (
            large or inner.tables) or not all(
            finder.is_at_hand(v) for v in large if has_rows(v, lead, most)) or {
                e.name for e in equations} <= _REPEATS:
        return
    program = _written(inner.equations, [v for _, _, v in inner.inputs], outputs)
    plan = plan_of_rows(program, lead, [q for _, q, _ in inner.inputs], len(inner.tables))
    if plan is None:
        return
    e = equations[0]
    for i in sorted(inner.again, key=finder.position.__getitem__, reverse=True):
        made = set(finder.equations[i].outputs)  # what nobody else reads
        if not made & finder.results and not made & read and all(
                finder.users.get(v, set()) <= inside for v in made):
            inside.add(i)
    finder.contract(sorted(inside, key=finder.position.__getitem__), Equation(
        registry["jit"], tuple(v for v, _, _ in inner.inputs), tuple(outputs), {
            "jaxpr": program, "name": "points", "rows": plan}, e.source, e.scope), again)


__all__ = ["points"]
