"""Branches that write a part of an array, or leave it: the part comes out of the branch, and is
written behind it.

A `cond` gives a new array, so that one that writes a row of a large buffer, in one of its branches,
copies the buffer each time: chains that keep every draw took the square of their length.  Where
each branch gives an operand itself or a dynamic_update_slice of it, all of one shape, the branches
give the update and its place instead (that which leaves the operand: what stands there), and one
update behind them is in place.  Start reading at `with_parts_written`.
"""
from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from calque.core.avals import ShapedArray
from calque.core.dims import is_static
from calque.core.primitive import registry
from calque.core.program import Atom, Equation, Literal, Program, Var, eliminate_dead_code

LEAST, WORTH = 4096, 4  # elements of an array at least, and times its part that it is large


def with_parts_written(p: Program) -> Program:
    """p with such branches, at any depth."""
    return p if "cond" not in p.names() else p.derived(
        "parts written", lambda: _with_parts_written(p))


def _with_parts_written(p: Program) -> Program:
    equations: list[Equation] = []
    for e in p.equations:
        e = e.with_inner(with_parts_written)
        equations += _apart(e) if e.name == "cond" else [e]
    return p if tuple(equations) == p.equations else p.replace(equations=equations)


def _apart(e: Equation) -> list[Equation]:
    """A cond, and the updates of what its branches write."""
    branches: Sequence[Program] = e.params["branches"]
    updates = [_updates(branches, k) for k in range(len(e.outputs))]
    if not any(updates):
        return [e]
    outputs, written = list[Var](), list[Equation]()
    results: list[list[Atom]] = [[] for _ in branches]
    more: list[list[Equation]] = [[] for _ in branches]
    for k, (o, found) in enumerate(zip(e.outputs, updates)):
        if found is None:
            outputs.append(o)
            for to, q in zip(results, branches):
                to.append(q.outputs[k])
            continue
        index, made = found
        sample = next(u for u in made if u is not None)
        given = [Var(a.aval) for a in sample.inputs[1:]]
        outputs += given
        written.append(sample.replace(inputs=(e.inputs[1 + index], *given), outputs=(o,),
                                      source=e.source, scope=e.scope))
        for to, extra, q, u in zip(results, more, branches, made):
            if u is not None:
                to += u.inputs[1:]
                continue
            zeros = [Literal(np.zeros((), v.aval.dtype)[()], ShapedArray((), v.aval.dtype))
                     for v in given[1:]]
            there = Var(given[0].aval)
            extra.append(Equation(registry["dynamic_slice"], (q.inputs[index], *zeros), (there,), {
                "slice_sizes": given[0].aval.shape}, e.source, e.scope))
            to += [there, *zeros]
    changed = tuple(eliminate_dead_code(q.replace(equations=[*q.equations, *extra], outputs=to))
                    for q, extra, to in zip(branches, more, results))
    return [e.replace(outputs=tuple(outputs), params={**e.params, "branches": changed}), *written]


def _updates(branches: Sequence[Program], k: int) -> tuple[int, list[Equation | None]] | None:
    """Which operand result k is, or an update of it: the update in each branch, None where there is
    none; None where it is something else, or too small to be worth it."""
    found: list[Equation | None] = []
    where = set[int]()
    for q in branches:
        o = q.outputs[k]
        made = next((e for e in q.equations if o in e.outputs), None)
        if made is not None and (made.name != "dynamic_update_slice" or any(
                o in e.inputs for e in q.equations) or q.outputs.count(o) > 1):
            return None
        x = o if made is None else made.inputs[0]
        if not isinstance(x, Var) or x not in q.inputs:
            return None
        where.add(q.inputs.index(x))
        found.append(made)
    sizes = {tuple((a.aval.shape, a.aval.dtype) for a in u.inputs[1:]) for u in found if u}
    if len(where) != 1 or len(sizes) != 1:
        return None
    (index,), aval = where, branches[0].out_avals[k]
    part = next(u for u in found if u).inputs[1].aval.shape
    if not (is_static(aval.shape) and is_static(part)) or (
            math.prod(aval.shape) < max(LEAST, WORTH * math.prod(part))):
        return None
    return index, found
