"""The steps of a grid as a scan; what they do without each other is done for all of them before it.

A loop kernel takes no cumsum, sort, FFT or factorization, and a step from the host costs 100 us.
Where such an operation does not read what is carried, it is mapped over the steps instead.
Start reading at `scanned`.
"""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from calque.core.evaluate import replay
from calque.core.program import Equation, Program, Var, eliminate_dead_code
from calque.primitives import elementwise as ew
from calque.primitives import shape as sh
from calque.primitives.control import scan
from calque.transforms.vmap import to_front, vmap_flat

LARGEST = 1 << 28  # bytes of what all steps hand on


def scanned(body: Program, fixed: Sequence[Any], first: int, state: Sequence[Any],
            rows: Sequence[Any], length: int) -> list[Any]:
    """The results of a body of (fixed, number of the step, state, row) -> (number, state, ys),
    which is run from step `first` on."""
    body = eliminate_dead_code(body)
    k, end = len(fixed), len(fixed) + 1 + len(state)
    early = _early(body, k, end, length)
    if early:
        body, more = _moved(body, early, k, end, [*fixed], first, rows, length)
        rows = [*rows, *more]
    used = {a for e in body.equations for a in e.inputs} | set(body.outputs)
    keep = [v in used or k <= i < end for i, v in enumerate(body.inputs)]
    body = body.replace(inputs=[v for v, u in zip(body.inputs, keep) if u])
    return scan(body, [x for x, u in zip(fixed, keep) if u], [np.int32(first), *state],
                [x for x, u in zip(rows, keep[end:]) if u], length=length)


def _early(body: Program, k: int, end: int, length: int) -> list[Equation]:
    """What no loop kernel takes and no carried value reaches, with all that leads to it."""
    carried: set[Any] = set(body.inputs[k + 1:end])
    made: dict[Any, Equation] = {}
    wanted: list[Equation] = []
    for e in body.equations:
        if any(a in carried for a in e.inputs) or e.primitive.has_effects(e.params):
            carried.update(e.outputs)
            continue
        made.update(dict.fromkeys(e.outputs, e))
        p = e.primitive
        users = p.calls_python or p.name == "ffi_call"  # run as often as was written
        if not (p.kernel or p.elementwise or p.higher_order or users) and length * sum(
                v.aval.nbytes for v in e.outputs) <= LARGEST:
            wanted.append(e)
    found: set[int] = set()
    while wanted:
        e = wanted.pop()
        if id(e) not in found:
            found.add(id(e))
            wanted += [made[a] for a in e.inputs if a in made]
    return [e for e in body.equations if id(e) in found]


def _moved(body: Program, early: Sequence[Equation], k: int, end: int, fixed: Sequence[Any],
           first: int, rows: Sequence[Any], length: int) -> tuple[Program, list[Any]]:
    """(the body without these equations, whose results are further rows; these rows)."""
    gone = {id(e) for e in early}
    rest = [e for e in body.equations if id(e) not in gone]
    read = {a for e in rest for a in e.inputs if isinstance(a, Var)} | {
        o for o in body.outputs if isinstance(o, Var)}
    handed = [v for e in early for v in e.outputs if v in read]
    ins = [*body.inputs[:k + 1], *body.inputs[end:]]
    part = Program(ins, early, handed, name=body.name)
    steps = sh.iota(np.int32, (length,))
    if first:
        steps = ew.add(steps, sh.broadcast_in_dim(np.int32(first), (length,), ()))
    outs, dims = vmap_flat(lambda *xs: replay(part, *xs), length, [*fixed, steps, *rows],
                           [None] * k + [0] * (1 + len(rows)), devices=False, spmd=())
    return (Program([*body.inputs, *handed], rest, body.outputs, name=body.name),
            [to_front(x, d, length) for x, d in zip(outs, dims)])
