"""A Program run where some integers are known: what follows from them is computed at once.

Branches that they choose are run in place, and slices at known places are static.  Loops whose
steps are dispatches of their own (each much work in all cells together) are written out where they
are short; a longer one scans what it would cut from an array that it does not change.  Ends of
loops may differ between cells (`fori_loop(0, program_id(1) + 1, ...)`).  Start at `simplified`.
"""
from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from calque.core.avals import ShapedArray, shape_of
from calque.core.evaluate import each, literal_value
from calque.core.lists import inserted, split_list
from calque.core.program import Equation, Program, Var, eliminate_dead_code
from calque.core.types import Params
from calque.primitives import elementwise as ew
from calque.primitives import shape as sh
from calque.primitives.control import scan_p
from calque.primitives.known import known_outputs, outputs, read
from calque.transforms.stage import stage

MOST_STEPS, MOST_EQUATIONS = 32, 500  # of loops that are written out
MUCH = 1_200_000  # element operations of a step that a loop kernel would not take (passes/cost)
MOST_COUNTED = 512  # steps that are looked at one by one
MOST_CELLS = 1 << 20  # whose loops are counted
Fact = tuple[Any, Any]  # a value, and what is known of it: its values in all cells, or None


def simplified(p: Program, args: Sequence[Any], facts: Sequence[Any], cells: int = 0
               ) -> list[Any]:
    """Run p's equations under the current trace.

    Args:
      facts: for each argument the values that it takes, an array that broadcasts with the others'
        (the cells in which p is run); None where they are not known.
      cells: how many cells are computed at once; 0: loops stay.
    """
    return [x for x, _ in _traced(p, list(zip(args, facts)), cells)]


def _traced(p: Program, args: Sequence[Fact], cells: int) -> list[Fact]:
    used = p.used()
    return each(p, args, lambda a: (literal_value(a), np.asarray(a.value)),
                lambda e, facts: _run(e, facts, cells, used))


def _run(e: Equation, inputs: Sequence[Fact], cells: int, used: set[Any]) -> Sequence[Fact]:
    """The results of an equation; used: what others read."""
    facts = [f for _, f in inputs]
    outs = outputs(e, facts)
    if outs is not None and all(_constant(o) for o in outs):
        return [(_number(o, v.aval), o) for o, v in zip(outs, e.outputs)]
    name, values = e.name, [x for x, _ in inputs]
    found: Sequence[Fact] | None = None
    if name == "cond" and facts[0] is not None and _constant(facts[0]):
        branches, index = e.params["branches"], int(facts[0].flat[0])
        found = _traced(branches[min(max(index, 0), len(branches) - 1)], inputs[1:], cells)
    elif name == "jit" and any(f is not None for f in facts):
        found = _traced(e.params["jaxpr"], inputs, cells)
    elif name == "scan":
        found = _scan(inputs, cells, e.params)
    elif name == "while":
        found = _while(inputs, cells, [v in used for v in e.outputs], **e.params)
    elif name == "dynamic_slice" and all(f is not None and _constant(f) for f in facts[1:]):
        found = [(_slice(e, values[0], [int(f.flat[0]) for f in facts[1:]]), None)]
    if found is not None:
        return found
    made: Any = e.primitive.bind(*values, **e.params)
    made = made if e.primitive.multiple_results else [made]
    return list(zip(made, outs if outs is not None else [None] * len(made)))


def _constant(fact: Any) -> bool:
    return fact.size > 0 and bool((fact == fact.flat[0]).all())


def _number(fact: Any, aval: Any) -> Any:
    """The one value of a fact as it is bound: with its weak type."""
    return fact.flat[0].item() if aval.weak_type else fact.flat[0]


def _slice(e: Equation, x: Any, starts: Sequence[int]) -> Any:
    sizes, shape = e.params["slice_sizes"], shape_of(x)
    first = [min(max(s, 0), n - k) for s, k, n in zip(starts, sizes, shape)]
    return sh.slice_(x, first, [f + k for f, k in zip(first, sizes)])


# ---- what loops cost
def _is_much(body: Program, cells: int) -> bool:
    return _work(body) * cells > MUCH


def _is_short(body: Program, length: int) -> bool:
    return length <= MOST_STEPS and length * _count(body) <= MOST_EQUATIONS


def _count(p: Program) -> int:
    """Equations, with those of loops in it as if they were written out."""
    return sum(1 + sum(map(_count, e.inner)) * (
        e.params["length"] if e.name == "scan" else 1) for e in p.equations)


def _work(p: Program) -> int:
    """Element operations, about."""
    total = 0
    for e in p.equations:
        times = e.params["length"] if e.name == "scan" else 1
        total += times * sum(map(_work, e.inner))
        size = sum(v.aval.size for v in e.outputs)
        if e.name == "dot_general":
            contracted = e.params["dimension_numbers"][0][0]
            size *= math.prod(e.inputs[0].aval.shape[i] for i in contracted)
        total += size
    return total


# ---- scan
def _scan(given: Sequence[Fact], cells: int, params: Params) -> list[Fact] | None:
    """None: it stays as it is."""
    body, length = params["jaxpr"], params["length"]
    if not _is_much(body, cells):
        return None
    if _is_short(body, length):
        return _written_out(given, cells, **params)
    args, params = _with_rows(given, params)
    return [(y, None) for y in scan_p.bind(*args, **params)]


def _written_out(given: Sequence[Fact], cells: int, *, jaxpr: Program, length: int, reverse: bool,
                 num_consts: int, num_carry: int, **_: Any) -> list[Fact]:
    """The steps one after the other; facts of the carry go on as long as they are known."""
    consts, carry, xs = split_list(given, num_consts, num_carry)
    stacks: list[list[Any]] = [[] for _ in jaxpr.outputs[num_carry:]]
    for step in reversed(range(length)) if reverse else range(length):
        made = _traced(jaxpr, [*consts, *carry, *[(_row(x, step), None) for x, _ in xs]], cells)
        carry = made[:num_carry]
        for stack, (y, _) in zip(stacks, made[num_carry:]):
            stack.append(y)
    return [*carry, *[(_stacked(stack[::-1] if reverse else stack, v.aval), None)
                      for stack, v in zip(stacks, jaxpr.outputs[num_carry:])]]


def _row(x: Any, i: int) -> Any:
    part = sh.slice_in_dim(x, i, i + 1, 0)
    return sh.reshape(part, shape_of(part)[1:])


def _stacked(ys: Sequence[Any], aval: ShapedArray) -> Any:
    if not ys:
        return sh.broadcast_in_dim(np.zeros((), aval.dtype)[()], (0, *aval.shape), ())
    return sh.concatenate([sh.broadcast_in_dim(
        y, (1, *aval.shape), tuple(range(1, aval.ndim + 1))) for y in ys], 0)


def _with_rows(given: Sequence[Fact], params: Params
               ) -> tuple[list[Any], dict[str, Any]]:
    """(operands, params) of a scan in which what it cuts step by step, block after block, from an
    array that stays is scanned: a step from the host then copies nothing."""
    body, length, reverse = params["jaxpr"], params["length"], params["reverse"]
    count, end = params["num_consts"], params["num_consts"] + params["num_carry"]
    args = [x for x, _ in given]
    consts = dict(zip(body.inputs[:count], args))
    cuts = [e for e in body.equations if e.name == "dynamic_slice"
            and e.inputs[0] in consts]
    if not cuts or not 0 < length <= MOST_COUNTED:
        return args, params
    env = _of_steps(body, [f for _, f in given], count, end, length)
    rows: list[Any] = []
    fresh: list[Var] = []
    gone: set[int] = set()
    for e in cuts:
        starts = [read(env, a) for a in e.inputs[1:]]
        made = None if any(s is None for s in starts) else _blocks(
            consts[e.inputs[0]], e.params["slice_sizes"],
            [np.broadcast_to(s, (length,)) for s in starts], reverse)
        if made is not None:
            rows.append(made)
            fresh.append(e.outputs[0])
            gone.add(id(e))
    body = body.replace(inputs=[*body.inputs, *fresh],
                        equations=[e for e in body.equations if id(e) not in gone])
    return [*args, *rows], {**params, "jaxpr": body}


def _of_steps(body: Program, facts: Sequence[Any], count: int, end: int, length: int
              ) -> dict[Var, Any]:
    """What is the same in all cells, of what a scan computes, in each of its steps."""
    facts = [f if f is not None and _constant(f) else None for f in facts]
    small = [i for i in range(count, end) if facts[i] is not None]
    part = eliminate_dead_code(Program(body.inputs, body.equations, [
        body.outputs[i - count] for i in small]))
    state = {i: np.asarray(facts[i].flat[0]) for i in small}
    found: dict[int, list[Any]] = {i: [] for i in small}
    for _ in range(length):
        now = [state.get(i) if count <= i < end else f for i, f in enumerate(
            [*facts[:end], *[None] * (len(body.inputs) - end)])]
        for i in small:
            found[i].append(state.get(i))
        state = {i: x for i, x in zip(small, known_outputs(part, now)) if x is not None}
    env: dict[Var, Any] = {v: f.reshape(-1)[:1] for v, f in zip(body.inputs[:count], facts)
                           if f is not None}
    env.update({body.inputs[i]: np.stack([np.reshape(x, ()) for x in xs])
                for i, xs in found.items() if all(x is not None for x in xs)})
    for e in body.equations:
        outs = outputs(e, [read(env, a) for a in e.inputs])
        if outs is not None:
            env.update(zip(e.outputs, outs))
    return env


def _blocks(x: Any, sizes: Sequence[int], starts: Sequence[Any], reverse: bool) -> Any:
    """Windows of an array, one for each step, along a leading axis; None where they do not follow
    one another along one axis."""
    shape, length = shape_of(x), len(starts[0])
    first = [np.clip(s, 0, n - k) for s, n, k in zip(starts, shape, sizes)]
    moving = [d for d, s in enumerate(first) if not _constant(s)]
    if len(moving) != 1:
        return None
    (d,) = moving
    at = first[d][::-1] if reverse else first[d]
    if not np.array_equal(at, at[0] + np.arange(length) * sizes[d]):
        return None
    low = [int(at[0]) if i == d else int(s[0]) for i, s in enumerate(first)]
    x = sh.slice_(x, low, [f + k * (length if i == d else 1)
                           for i, (f, k) in enumerate(zip(low, sizes))])
    x = sh.reshape(x, inserted(sizes, d, length))
    return sh.transpose(x, [d, *range(d), *range(d + 1, len(sizes) + 1)])


# ---- while
def _while(given: Sequence[Fact], cells: int, used: Sequence[bool], *, cond_jaxpr: Program,
           body_jaxpr: Program, cond_nconsts: int, body_nconsts: int) -> list[Fact] | None:
    """The loop as steps of known number, in which a cell whose loop has ended keeps what it has;
    None: it stays as it is."""
    if not _is_much(body_jaxpr, cells):
        return None
    k, end = cond_nconsts, cond_nconsts + body_nconsts
    before, inside, carry = given[:k], given[k:end], given[end:]
    facts = [f for _, f in given]
    alive = _steps_of(facts[:k], facts[k:end], facts[end:], cond_jaxpr, body_jaxpr)
    if alive is None:
        return None
    # what only counts goes on: nobody looks at it once the loop has ended
    counts = [not u and f is not None for (_, f), u in zip(carry, used)]

    def step(state: Sequence[Fact], all_go: bool, before: Sequence[Fact], inside: Sequence[Fact]
             ) -> list[Fact]:
        new = _traced(body_jaxpr, [*inside, *state], cells)
        if all_go:
            return new
        ((go, _),) = _traced(cond_jaxpr, [*before, *state], cells)
        return [y if c else (_chosen(go, v.aval, y[0], x[0]), None)
                for x, y, v, c in zip(state, new, body_jaxpr.outputs, counts)]

    if _is_short(body_jaxpr, len(alive)):
        state = list(carry)
        for go in alive:
            state = step(state, bool(go.all()), before, inside)
        return state
    everywhere = all(bool(go.all()) for go in alive)

    def body(*xs: Any) -> list[Any]:
        facts = [(x, None) for x in xs]
        new = step(facts[end:], everywhere, facts[:k], facts[k:end])
        return [x for x, _ in new]

    avals = [v.aval for v in (*cond_jaxpr.inputs[:k], *body_jaxpr.inputs)]
    return _scan(given, cells, {
        "jaxpr": stage(body, avals, body_jaxpr.name), "length": len(alive), "reverse": False,
        "unroll": 1, "num_consts": end, "num_carry": len(carry)})


def _steps_of(before: Sequence[Any], inside: Sequence[Any], carry: Sequence[Any],
              cond: Program, body: Program) -> list[Any] | None:
    """For each step of a loop the cells that take it; None where they are not known, are too many,
    or where a cell would go on after its end."""
    alive: Any = np.True_
    found: list[Any] = []
    while len(found) <= MOST_COUNTED:
        (go,) = known_outputs(cond, [*before, *carry])
        if go is None or go.size > MOST_CELLS or (go & ~alive).any():
            return None
        alive = alive & go
        if not alive.any():
            return found
        found.append(alive)
        carry = known_outputs(body, [*inside, *carry])
    return None


def _chosen(go: Any, aval: ShapedArray, new: Any, old: Any) -> Any:
    if aval.shape:
        go = sh.broadcast_in_dim(go, aval.shape, ())
    return ew.select_n(go, old, new)
