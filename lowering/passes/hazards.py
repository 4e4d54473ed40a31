"""Updates in place whose operand is read elsewhere, by something that may run later.

IREE keeps no copy then, and what reads the operand sees the new values (tests/lowering/
test_safety.py).  Such an update copies its operand first; one whose other readers all flow into it
(x[i] = f(x[i])) needs no copy.  Start reading at `copying`.
"""
from __future__ import annotations

from calque.core.program import Atom, Equation, Program, Var

MANY = 3000  # equations from which on updates of shared operands always copy


def is_update(e: Equation) -> bool:
    """Whether an equation writes into the memory of its first operand."""
    return e.primitive.memory == "updates"


def updated(e: Equation) -> tuple[int, ...]:
    """The operands into whose memory an equation writes."""
    if e.name == "ffi_call":
        return tuple(i for i, _ in e.params["aliases"])
    return (0,) if is_update(e) and e.inputs else ()


def copying(p: Program) -> frozenset[int]:
    """Positions of the equations that must copy what they update."""
    return p.derived("copying", lambda: _copying(p))


def _copying(p: Program) -> frozenset[int]:
    if not any(map(updated, p.equations)):
        return frozenset()
    uses: dict[Atom, list[int]] = {}
    producer: dict[Atom, int] = {}
    for i, e in enumerate(p.equations):
        for a in e.inputs:
            uses.setdefault(a, []).append(i)
        producer.update((v, i) for v in e.outputs)
    outputs = set(p.outputs)
    found = set()
    written = [(i, e, at) for i, e in enumerate(p.equations) for at in updated(e)]
    for i, e, at in written:
        x = e.inputs[at]
        if not isinstance(x, Var):
            continue
        group, path = [x], {i}
        while (j := producer.get(group[-1], -1)) >= 0 and p.equations[j].primitive.memory == "view":
            source = p.equations[j].inputs[0]
            if not isinstance(source, Var):
                break
            path.add(j)
            group.append(source)
        others = {j for v in group for j in uses[v] if j not in path}
        kept = x in (*e.inputs[:at], *e.inputs[at + 1:]) or any(v in outputs for v in group)
        if kept or others and (len(p.equations) > MANY or not _before(
                p, i, others, uses, producer, outputs)):
            found.add(i)
    return frozenset(found)


def _before(p: Program, i: int, others: set[int], uses: dict[Atom, list[int]],
            producer: dict[Atom, int], outputs: set[Atom]) -> bool:
    """Whether all that follows from the readers flows into equation i and nowhere else."""
    ancestors: set[int] = set()
    waiting = [i]
    while waiting:
        for a in p.equations[waiting.pop()].inputs:
            j = producer.get(a, -1)
            if j >= 0 and j not in ancestors:
                ancestors.add(j)
                waiting.append(j)
    seen: set[int] = set()
    waiting = list(others)
    while waiting:
        j = waiting.pop()
        if j == i or j in seen:
            continue
        seen.add(j)
        if j not in ancestors or any(v in outputs for v in p.equations[j].outputs):
            return False
        for v in p.equations[j].outputs:
            waiting += uses.get(v, [])
    return True
