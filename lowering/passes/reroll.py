"""Steps of a loop that Python wrote out, as a loop again: fifty calls of one function, fifty steps
of a simulation or of its gradient.

What is written out is planned, emitted and compiled step by step: ten calls of a function with
sixteen gathers and scatters of 576 x 3 took 7 s, as a loop they take what one call takes.  Copies
are equations that follow one another in the same order, each copy reading what is before all of
them and what the copy before it made.  It pays where the loop is a kernel of ours of little work:
of more the copies are dispatches that many workgroups share.  Start reading at `rerolled`.
"""
from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from calque.core.avals import ShapedArray
from calque.core.primitive import registry
from calque.core.program import Atom, Equation, Literal, Program, Var, literal_key
from calque.lowering.passes import cost, legalize, loops
from calque.lowering.passes.flat import flat
from calque.lowering.plan.switches import off

COPIES = 4  # steps from which on it pays
SAVED = 40  # equations that are left out, at least
MOST = 20_000  # equations of a Program that is looked at
PERIODS = 24  # lengths of a step that are tried
TRIED = 50  # equations that a step may begin with, at least
LOOPS = 8  # of one Program
STEP_WORK, PASS_WORK = 30_000, 16_000  # element operations of a step, or for each pass over arrays
MOST_WORK = 300_000
STACKED = 1 << 16  # elements that are copied to lie side by side for the steps


def rerolled(p: Program) -> Program:
    """p with its written out loops as scans; p itself where there are none."""
    return p.derived(("rerolled", loops.enabled), lambda: _rerolled(p))


def _rerolled(p: Program) -> Program:
    if not loops.enabled or off("reroll") or not SAVED < cost.written(p) <= MOST:
        return p
    made, stacks = flat(p), dict[Var, tuple[Var, int]]()
    first = made
    for _ in range(LOOPS):
        found = _best(made, stacks)
        if found is None:
            break
        made = found
    return p if made is first else made


def _best(p: Program, stacks: dict[Var, tuple[Var, int]]) -> Program | None:
    """p with the loop that leaves out most.  Calls of a function that does the same to four arrays
    are a loop of calls, not one of steps whose arrays are copied to lie side by side."""
    for start, end, period in _runs(p):
        found = _with_loop(p, start, end, period, stacks)
        if found is None:
            continue
        if found.cycle > 1 and COPIES * found.cycle * period <= end - start:
            longer = _with_loop(p, start, end, found.cycle * period, stacks)
            return found.program if longer is None else longer.program
        return found.program
    return None


# ---- where equations repeat
def _runs(p: Program) -> Iterator[tuple[int, int, int]]:
    """(first equation, end, length of a step) of runs that repeat themselves, longest first."""
    ids: dict[Any, int] = {}
    h = np.array([ids.setdefault(_key(e), len(ids)) for e in p.equations])
    if len(h) <= SAVED or COPIES * len(ids) > 3 * len(h):  # (few are alike)
        return
    found = []
    for period in _periods(h):
        same = np.flatnonzero(np.diff(np.concatenate(
            ([0], (h[:-period] == h[period:]).astype(np.int8), [0]))))
        for start, end in zip(same[::2], same[1::2]):
            if end - start >= max(SAVED, (COPIES - 1) * period):
                found.append((int(start), int(end) + period, period))
    yield from sorted(found, key=lambda run: (run[0] - run[1] + run[2], run[2]))[:PERIODS]


def _periods(h: np.ndarray) -> list[int]:
    """Distances at which the same few equations come again, those first that do so often."""
    counts: Counter[int] = Counter()
    last: dict[Any, int] = {}
    ids = h.tolist()
    for i, gram in enumerate(zip(ids, ids[1:], ids[2:], ids[3:])):
        if gram in last:
            counts[i - last[gram]] += 1
        last[gram] = i
    return [d for d, _ in counts.most_common(PERIODS)]


def _key(e: Equation) -> Hashable:
    """Equal for equations that do the same with other operands."""
    if e.is_dynamic or e.primitive.has_effects(e.params):
        return object()
    return (e.name, e.params_key,
            *[(isinstance(a, Literal), a.aval.shape, a.aval.dtype) for a in e.inputs],
            *[(v.aval.shape, v.aval.dtype) for v in e.outputs])


# ---- one loop
class _Looped(NamedTuple):
    """A Program with a scan, and after how many steps the arrays come again that it copies."""

    program: Program
    cycle: int


@dataclass(slots=True)
class _Step:
    """What a step reads and gives: consts, values that the step before made (with what the first
    step has for them), values of its own for each step, and results that others read."""

    consts: dict[Var, Var] = field(default_factory=dict)
    carry: dict[tuple[int, int, Any], tuple[Var, Atom]] = field(default_factory=dict)
    scanned: dict[Any, tuple[Var, list[Atom]]] = field(default_factory=dict)
    stacked: dict[tuple[int, int], list[int]] = field(default_factory=dict)


def _with_loop(p: Program, start: int, end: int, period: int,
               stacks: dict[Var, tuple[Var, int]]) -> _Looped | None:
    """p with a run as a scan; None where its steps do not fit together, or it does not pay.
    `stacks`: values that are a step's of a scan, and which."""
    made = {v: (i, k) for i, e in enumerate(p.equations) for k, v in enumerate(e.outputs)}
    if guess_work(p.replace(equations=p.equations[start:start + period], outputs=[])) > MOST_WORK:
        return None
    first = _rotation(p, start, end, period, made)
    if first is None:
        return None
    count = (end - first) // period
    if count < COPIES or (count - 1) * period < SAVED:
        return None
    copies = [p.equations[first + t * period:first + (t + 1) * period] for t in range(count)]
    if _is_map(copies[0]) or any(cost.is_short(v.aval.shape) for e in copies[0]
                                 for v in e.outputs):
        return None  # passes/chains, passes/lists; pairs of points are passes/components' and rows'
    found = _read(copies, first, made)
    if found is None:
        return None
    step, equations = found
    last = first + count * period
    finals = _left(p, step, first, last, period, made)
    outputs: list[Atom] = [equations[k].outputs[o] for k, o, _ in step.carry]
    outputs += [equations[k].outputs[o] for k, o in step.stacked]
    body = Program([*step.consts.values(), *[v for v, _ in step.carry.values()],
                    *[v for v, _ in step.scanned.values()]], equations, outputs, name="step")
    if guess_work(body) > min(MOST_WORK, max(STEP_WORK, PASS_WORK * loops.passes(body))):
        return None
    return _looped(p, body, step, first, last, count, period, finals, stacks)


def guess_work(p: Program) -> int:
    """Element operations of a step."""
    return int(cost.step_work(p))


def _is_map(equations: Sequence[Equation]) -> bool:
    """Whether it is elementwise work on arrays of one shape."""
    shapes = {v.aval.shape for e in equations for v in e.outputs if v.aval.size > 1}
    return len(shapes) <= 1 and all(
        loops.is_map(e) or e.name == "broadcast_in_dim" for e in equations)


def _rotation(p: Program, start: int, end: int, period: int,
              made: dict[Var, tuple[int, int]]) -> int | None:
    """The equation at which steps begin, so that each reads of the one before alone, and least."""
    uses, sources, outs = list[int](), list[int](), list[int]()
    for i in range(start, end):
        for a in p.equations[i].inputs:
            j, k = made.get(a, (-1, 0)) if isinstance(a, Var) else (-1, 0)
            if j >= start:
                uses.append(i)
                sources.append(j)
                outs.append(k)
    use, source, out = np.array(uses), np.array(sources), np.array(outs)
    best, least = None, 1 << 30
    tried = max(TRIED, MOST // max(1, len(uses)) * TRIED)
    for first in range(start, min(start + min(period, tried), end - COPIES * period + 1)):
        last = first + (end - first) // period * period
        inside = (source >= first) & (use < last)
        apart = (use[inside] - first) // period - (source[inside] - first) // period
        if apart.size and apart.max() > 1:
            continue
        crossing = apart == 1
        carried = len(set(zip((source[inside][crossing] - first) % period, out[inside][crossing])))
        if carried < least:
            best, least = first, carried
    return best


def _read(copies: Sequence[Sequence[Equation]], first: int, made: dict[Var, tuple[int, int]]
          ) -> tuple[_Step, list[Equation]] | None:
    """What the steps read, and the equations of one; None where copies differ."""
    period, count = len(copies[0]), len(copies)
    step, equations = _Step(), list[Equation]()
    for k in range(period):
        inputs: list[Atom] = []
        for at in range(len(copies[0][k].inputs)):
            atoms = [c[k].inputs[at] for c in copies]
            given = _operand(atoms, step, equations, first, period, count, made)
            if given is None:
                return None
            inputs.append(given)
        e = copies[0][k]
        equations.append(e.replace(inputs=tuple(inputs),
                                   outputs=tuple(_plain(v.aval) for v in e.outputs)))
    return step, equations


def _plain(a: ShapedArray) -> Var:
    return Var(ShapedArray(a.shape, a.dtype))


def _operand(atoms: Sequence[Atom], step: _Step, equations: Sequence[Equation], first: int,
             period: int, count: int, made: dict[Var, tuple[int, int]]) -> Atom | None:
    """What the steps read at one place, as one step has it."""
    a = atoms[0]
    if isinstance(a, Literal):
        if len({literal_key(x) for x in atoms if isinstance(x, Literal)}) == 1:
            return a
        key: Any = tuple(literal_key(x) for x in atoms if isinstance(x, Literal))
        return step.scanned.setdefault(key, (_plain(a.aval), list(atoms)))[0]
    places = [made.get(x, (-1, 0)) if isinstance(x, Var) else (-1, 0) for x in atoms]
    inside = [j >= first for j, _ in places]
    if not any(inside):
        if all(x is a for x in atoms):
            return step.consts.setdefault(a, _plain(a.aval))
        key = tuple(map(id, atoms))
        return step.scanned.setdefault(key, (_plain(a.aval), list(atoms)))[0]
    if not all(inside[1:]):
        return None
    own = [((j - first) // period, (j - first) % period, k) for j, k in places[1:]]
    if len({place[1:] for place in own}) != 1:
        return None
    _, at, k = own[0]
    if all(t == i for i, (t, _, _) in enumerate(own, 1)):  # its own
        return equations[at].outputs[k] if inside[0] and places[0] == (first + at, k) else None
    if inside[0] or any(t != i for i, (t, _, _) in enumerate(own)):
        return None
    start: Any = a if isinstance(a, Var) else literal_key(a)
    return step.carry.setdefault((at, k, start), (_plain(a.aval), a))[0]


def _left(p: Program, step: _Step, first: int, last: int, period: int,
          made: dict[Var, tuple[int, int]]) -> dict[Var, tuple[int, int, int]]:
    """What equations behind the steps, and results, read of them: (step, equation, output); notes
    in `step` what is stacked for it."""
    read = {a for e in p.equations[last:] for a in e.inputs if isinstance(a, Var)}
    read |= {o for o in p.outputs if isinstance(o, Var)}
    found: dict[Var, tuple[int, int, int]] = {}
    ends = {(at, k) for at, k, _ in step.carry}
    for v in read:
        j, k = made.get(v, (-1, 0))
        if first <= j < last:
            t, at = divmod(j - first, period)
            found[v] = t, at, k
            if j < last - period or (at, k) not in ends:
                step.stacked.setdefault((at, k), []).append(t)
    return found


def _looped(p: Program, body: Program, step: _Step, first: int, last: int, count: int, period: int,
            finals: dict[Var, tuple[int, int, int]], stacks: dict[Var, tuple[Var, int]]
            ) -> _Looped | None:
    """p with the scan of these steps, where that is a kernel and what is stacked is little."""
    source, scope = p.equations[first].source, p.equations[first].scope
    around: list[Equation] = []

    def put(name: str, xs: Sequence[Atom], shape: Sequence[int], dtype: Any, /,
            **params: Any) -> Var:
        out = Var(ShapedArray(tuple(shape), dtype))
        around.append(Equation(registry[name], tuple(xs), (out,), params, source, scope))
        return out

    backwards = any(_range(atoms, stacks) == -1 for _, atoms in step.scanned.values())
    copied = sum(v.aval.size * count for v, atoms in step.scanned.values()
                 if not _range(atoms, stacks))
    shown = sum(body.outputs[len(step.carry) + i].aval.size * count
                for i in range(len(step.stacked)))
    if copied > STACKED or shown > 4 * STACKED or 4 * copied > count * guess_work(body):
        return None
    xs = [_side_by_side(atoms[::-1] if backwards else atoms, stacks, put)
          for _, atoms in step.scanned.values()]
    outs = [Var(v.aval) for v, _ in step.carry.values()]
    rows = [Var(ShapedArray((count, *o.aval.shape), o.aval.dtype))
            for o in body.outputs[len(outs):]]
    scan = Equation(registry["scan"], (
        *step.consts, *[a for _, a in step.carry.values()], *xs), (*outs, *rows), {
            "jaxpr": body, "length": count, "reverse": backwards, "unroll": 0,
            "num_consts": len(step.consts), "num_carry": len(outs)}, source, scope)
    if not _is_kernel(scan):
        return None
    before = [*around, scan]
    around.clear()
    env: dict[Atom, Atom] = {}
    ends = {(at, k): v for (at, k, _), v in zip(step.carry, outs)}
    stacked = dict(zip(step.stacked, rows))
    for v, (t, at, k) in finals.items():
        if t == count - 1 and (at, k) in ends:
            env[v] = ends[at, k]
            continue
        row, shape = stacked[at, k], v.aval.shape
        i = count - 1 - t if backwards else t
        one = put("slice", [row], (1, *shape), v.aval.dtype, start_indices=(
            i, *[0] * len(shape)), limit_indices=(i + 1, *shape), strides=None)
        env[v] = out = put("reshape", [one], shape, v.aval.dtype, new_sizes=tuple(shape),
                           dimensions=None, sharding=None)
        stacks[out] = row, i
    rest = [e.reading(env) for e in p.equations[last:]]
    return _Looped(p.replace(equations=[*p.equations[:first], *before, *around, *rest],
                             outputs=[env.get(o, o) for o in p.outputs]),
                   math.lcm(*[_cycle(key) for key in step.scanned]))


def _cycle(key: Sequence[Any]) -> int:
    """After how many steps the values of steps come again; 1 where they do not."""
    return next((m for m in range(1, len(key) // COPIES + 1) if key[m:] == key[:-m]), 1)


def _range(atoms: Sequence[Atom], stacks: dict[Var, tuple[Var, int]]) -> int:
    """1 where values are those of a scan's steps one after another, -1 where in reverse, else 0."""
    found = [stacks.get(a) if isinstance(a, Var) else None for a in atoms]
    places = [f[1] for f in found if f is not None]
    if len(places) < len(atoms) or len({f[0] for f in found if f is not None}) > 1:
        return 0
    apart = set(np.diff(places).tolist())
    return int(apart.pop()) if apart in ({1}, {-1}) else 0


def _side_by_side(atoms: Sequence[Atom], stacks: dict[Var, tuple[Var, int]], put: Any) -> Var:
    """The values of the steps as one array."""
    aval, n = atoms[0].aval, len(atoms)
    shape = aval.shape
    way = _range(atoms, stacks)
    if way:
        first, last = atoms[0], atoms[-1]
        assert isinstance(first, Var) and isinstance(last, Var)
        rows, i = stacks[first]
        low = min(i, stacks[last][1])
        if n != rows.aval.shape[0]:
            rows = put("slice", [rows], (n, *shape), aval.dtype, start_indices=(
                low, *[0] * len(shape)), limit_indices=(low + n, *shape), strides=None)
        return rows if way == 1 else put("rev", [rows], (n, *shape), aval.dtype, dimensions=(0,))
    parts = [put("broadcast_in_dim", [a], (1, *shape), aval.dtype, shape=(1, *shape),
                 broadcast_dimensions=tuple(range(1, 1 + len(shape))), sharding=None)
             for a in atoms]
    return put("concatenate", parts, (n, *shape), aval.dtype, dimension=0)


def _is_kernel(e: Equation) -> bool:
    """Whether a loop is a kernel, on words of its keys, too."""
    ins = list(dict.fromkeys(a for a in e.inputs if isinstance(a, Var)))
    made = legalize.with_loops(Program(ins, [e], e.outputs))
    return any(q.name == "scan" for q in made.equations) and all(
        cost.is_kernel(q) for q in made.equations if q.primitive.kernel == "loop")


__all__ = ["rerolled"]
