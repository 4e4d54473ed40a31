"""Updates behind what else reads their operand: `new = x.at[i].set(v)` before `x[0]`, which a loop
carries and gives, copies all of x in each step, where a kernel that reads first writes in place.

The order is the only thing that changes; what a view shows, a kernel that writes copies before it
does (kernels/tensors).  Start reading at `with_reads_first`.
"""
from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Iterator

from calque.core.program import Atom, Equation, Program, Var
from calque.lowering.passes import hazards
from calque.lowering.passes.choices import LEAST, UPDATES

Uses = defaultdict[Atom, list[int]]


def with_reads_first(p: Program) -> Program:
    """p so ordered, at any depth."""
    if UPDATES.isdisjoint(p.names()):
        return p
    return p.derived("reads first", lambda: _with_reads_first(p))


def _with_reads_first(p: Program) -> Program:
    equations = [e.with_inner(with_reads_first) for e in p.equations]
    made = p if tuple(equations) == p.equations else p.replace(equations=equations)
    if len(equations) > hazards.MANY:
        return made
    uses: Uses = defaultdict(list)
    for i, e in enumerate(equations):
        for a in dict.fromkeys(e.inputs):
            uses[a].append(i)
    waits = list(_waits(equations, uses))
    order = _sorted(equations, waits) if waits else None
    return made if order is None else made.replace(equations=[equations[i] for i in order])


def _waits(equations: list[Equation], uses: Uses) -> Iterator[tuple[int, int]]:
    """(an equation, the update that had better come behind it)."""
    for i, e in enumerate(equations):
        later = {j for x in _changed(e) for j in _readers(equations, uses, x) if j > i
                 and not equations[j].primitive.has_effects(equations[j].params)}
        if later:
            after = set[Atom](e.outputs)
            for j in range(i + 1, max(later) + 1):
                if not after.isdisjoint(equations[j].inputs):
                    after.update(equations[j].outputs)
                    later.discard(j)
        yield from ((j, i) for j in later)


def _changed(e: Equation) -> list[Var]:
    """The large arrays that an equation may write into: an update, or a loop or branch of such."""
    if e.is_dynamic or e.primitive.has_effects(e.params):
        return []
    given: tuple[Atom, ...] = ()
    if e.name in UPDATES:
        given = e.inputs[:1]
    elif e.name in ("scan", "while", "cond") and not UPDATES.isdisjoint(
            name for q in e.inner for name in q.names()):
        sizes = {(v.aval.shape, v.aval.dtype) for v in e.outputs}
        given = tuple(a for a in e.inputs if (a.aval.shape, a.aval.dtype) in sizes)
    return [a for a in dict.fromkeys(given) if isinstance(a, Var) and a.aval.size >= LEAST]


def _readers(equations: list[Equation], uses: Uses, x: Var) -> Iterator[int]:
    """What reads a value or a view of it, but to change it."""
    waiting, seen = [x], {x}
    while waiting:
        a = waiting.pop()
        for j in uses[a]:
            e = equations[j]
            if not (e.name in UPDATES and e.inputs[0] is a):
                yield j
            if e.primitive.kernel == "view":
                waiting += [v for v in e.outputs if v not in seen]
                seen.update(e.outputs)


def _sorted(equations: list[Equation], waits: list[tuple[int, int]]) -> list[int] | None:
    """Equations behind what they wait for, else in their order; None where that goes round."""
    before = [set[int]() for _ in equations]
    maker = {v: i for i, e in enumerate(equations) for v in e.outputs}
    effects = [i for i, e in enumerate(equations) if e.primitive.has_effects(e.params)]
    for i, e in enumerate(equations):
        before[i].update([maker[a] for a in e.inputs if a in maker])
    for j, i in (*waits, *zip(effects, effects[1:])):
        before[i].add(j)
    behind: defaultdict[int, list[int]] = defaultdict(list)
    for i, needs in enumerate(before):
        for j in needs:
            behind[j].append(i)
    ready = [i for i, needs in enumerate(before) if not needs]
    found = list[int]()
    while ready:
        found.append(i := heapq.heappop(ready))
        for k in behind[i]:
            before[k].discard(i)
            if not before[k]:
                heapq.heappush(ready, k)
    return found if len(found) == len(equations) else None


__all__ = ["with_reads_first"]
