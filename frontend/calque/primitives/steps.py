"""The steps of a grid as a scan; what they do without each other is done for all of them at once.

Steps that only add to what they carry (or take the larger) are mapped, and a reduction over all
steps is what is left; products are summed by contracting over the steps, too.  In other scans, what
no loop kernel takes (cumsum, sort, FFT, factorizations) and does not read what is carried is mapped
before the loop: a step from the host costs 100 us.  Start reading at `scanned`.
"""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from calque.core.avals import dtype_of
from calque.core.evaluate import replay
from calque.core.lists import flagged
from calque.core.primitive import registry
from calque.core.program import Atom, Equation, Program, Var, eliminate_dead_code
from calque.primitives import elementwise as ew
from calque.primitives import shape as sh
from calque.primitives.control import scan
from calque.transforms.vmap import all_to_front, vmap_flat

LARGEST = 1 << 28  # bytes of what all steps hand on
REDUCED = {"add": "reduce_sum", "add_any": "reduce_sum", "max": "reduce_max", "min": "reduce_min"}


def scanned(body: Program, fixed: Sequence[Any], first: int, state: Sequence[Any],
            rows: Sequence[Any], length: int, cells: int) -> list[Any]:
    """The results of a body of (fixed, number of the step, state, row) -> (number, state, ys),
    which is run from step `first` on, in so many cells at once."""
    body = eliminate_dead_code(body)
    k, end = len(fixed), len(fixed) + 1 + len(state)
    sums = _sums(body, k, end, length * cells)
    if sums is not None:
        return _summed(body, sums, k, end, [*fixed], first, state, rows, length)
    early = _early(body, k, end, length * cells)
    if early:
        body, more = _moved(body, early, k, end, [*fixed], first, rows, length)
        rows = [*rows, *more]
    used = body.used()
    keep = [v in used or k <= i < end for i, v in enumerate(body.inputs)]
    body = body.replace(inputs=flagged(body.inputs, keep))
    return scan(body, flagged(fixed, keep), [np.int32(first), *state],
                flagged(rows, keep[end:]), length=length)


# ---- steps that only add to what they carry
def _user(e: Equation) -> bool:
    """Whether it is run as often as was written: it calls the user's code."""
    return (e.primitive.calls_python or e.name == "ffi_call"
            or e.primitive.has_effects(e.params))


def _sums(body: Program, k: int, end: int, times: int) -> list[tuple[str, Atom] | None] | None:
    """For each carried value (how it is joined with, what each step adds), None where it stays;
    None where a step does more than that, or where all that is added takes too much memory."""
    reads = [a for e in body.equations for a in e.inputs]
    made = {v: e for e in body.equations for v in e.outputs}
    found: list[tuple[str, Atom] | None] = []
    bytes_ = 0
    ys = body.outputs[end - k:]
    for old, new in zip(body.inputs[k + 1:end], body.outputs[1:end - k]):
        if new is old:
            found.append(None)
            continue
        e = made.get(new)  # type: ignore[arg-type]
        if e is None or e.name not in REDUCED or reads.count(old) != 1 or (
                old not in e.inputs or new in reads or new in ys or old in ys
                or sum(new is o for o in body.outputs) > 1):
            return None
        (added,) = [a for a in e.inputs if a is not old]
        if added.aval.shape != old.aval.shape:
            return None
        product = made.get(added)  # type: ignore[arg-type]
        if product is None or product.name != "dot_general":
            bytes_ += added.aval.nbytes
        found.append((e.name, added))
    if any(_user(e) for e in body.equations) or (
            bytes_ + sum(y.aval.nbytes for y in ys)) * times > LARGEST:
        return None
    return found


def _summed(body: Program, sums: Sequence[tuple[str, Atom] | None], k: int, end: int,
            fixed: list[Any], first: int, state: Sequence[Any], rows: Sequence[Any], length: int
            ) -> list[Any]:
    """What the steps leave, all of them taken at once."""
    made = {v: e for e in body.equations for v in e.outputs}
    updates = {id(made[o]) for o, s in zip(body.outputs[1:end - k], sums)  # type: ignore[index]
               if s is not None}
    ys = body.outputs[end - k:]
    wanted: list[Atom] = []
    products: list[Equation | None] = []
    for s in sums:
        if s is None:
            continue
        e = made.get(s[1])  # type: ignore[arg-type]
        product = e if s[0] in ("add", "add_any") and e is not None and (
            e.name == "dot_general") else None
        products.append(product)
        wanted += [s[1]] if product is None else product.inputs
    part = eliminate_dead_code(Program(
        body.inputs, [e for e in body.equations if id(e) not in updates], [*wanted, *ys],
        name=body.name))
    outs = _over_steps(part, [*fixed, None, *state, *rows], k, end, first, length)
    it, left = iter(outs), iter(products)
    new: list[Any] = [np.int32(first + length)]
    for old, s in zip(state, sums):
        if s is None:
            new.append(old)
            continue
        product = next(left)
        if product is not None:
            total = _contracted(next(it), next(it), product)
        else:
            total = registry[REDUCED[s[0]]].bind(next(it), axes=(0,))
        joined = registry[s[0]].bind(old, total)
        new.append(ew.convert(joined, old.dtype) if dtype_of(joined) != dtype_of(old)
                   else joined)
    return [*new, *it]


def _contracted(x: Any, y: Any, e: Equation) -> Any:
    """The sum over the steps of products of what they have each."""
    (a, b), (p, q) = e.params["dimension_numbers"]
    numbers = (((0, *[i + 1 for i in a]), (0, *[i + 1 for i in b])),
               (tuple(i + 1 for i in p), tuple(i + 1 for i in q)))
    return e.primitive.bind(x, y, **{**e.params, "dimension_numbers": numbers})


def _over_steps(part: Program, values: list[Any], k: int, end: int, first: int, length: int
                ) -> list[Any]:
    """The results of a Program for all steps, along a leading axis."""
    steps = sh.iota(np.int32, (length,))
    if first:
        steps = ew.add(steps, sh.broadcast_in_dim(np.int32(first), (length,), ()))
    values[k] = steps
    dims = [0 if i == k or i >= end else None for i in range(len(values))]
    outs, found = vmap_flat(lambda *xs: replay(part, *xs), length, values, dims, devices=False,
                            spmd=())
    return all_to_front(outs, found, length)


# ---- what leaves a loop
def _early(body: Program, k: int, end: int, times: int) -> list[Equation]:
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
        known = p.kernel and p.kernel != "expanded"
        if not (known or p.elementwise or p.higher_order or _user(e)) and times * sum(
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
    return (Program([*body.inputs, *handed], rest, body.outputs, name=body.name),
            _over_steps(part, [*fixed, None, *rows], k, k + 1, first, length))
