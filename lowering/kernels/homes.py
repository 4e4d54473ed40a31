"""Where the results of loops and branches within a kernel over memory are: in the operands that
they continue, as long as nobody else reads those, so that a table which a loop within a loop fills
is not copied in each step (kernels/tensors).  Start reading at `of_loop`.
"""
from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from calque.core.program import Equation, Program, Var
from calque.lowering.emit.builder import Value
from calque.lowering.kernels import joined
from calque.lowering.kernels.indexing import Picked
from calque.lowering.kernels.joined import Joined, Part
from calque.lowering.kernels.memory import Memory

IsFree = Callable[[Equation, Memory, int], bool]  # whether an equation may overwrite an operand


def of_loop(e: Equation, args: Sequence[Part], is_free: IsFree) -> list[Memory | None]:
    """For each result of a scan or while the memory that it begins in; None: memory of its own."""
    p = e.params
    first = p["num_consts"] if e.name == "scan" else p["cond_nconsts"] + p["body_nconsts"]
    count = p["num_carry"] if e.name == "scan" else len(e.outputs)
    return [_free(e, args, first + i, is_free) if i < count else None
            for i in range(len(e.outputs))]


def of_branches(e: Equation, args: Sequence[Part], is_free: IsFree) -> list[Memory | None]:
    """For each result of a cond the memory of an operand that a branch returns, or changes."""
    found: list[Memory | None] = []
    for i, v in enumerate(e.outputs):
        begun = [_changed(p, i) for p in e.params["branches"]] if v.aval.shape else []
        returned = {k for k in begun if k is not None}
        homes = (_free(e, args, 1 + k, is_free) for k in sorted(returned))
        found.append(next((h for h in homes if h is not None and not any(
            h is other for other in found)), None))
    return found


def _changed(p: Program, i: int) -> int | None:
    """Which input a result is, but for elements that are written into it."""
    makers = {v: e for e in p.equations for v in e.outputs}
    o = p.outputs[i]
    while o in makers and makers[o].primitive.memory == "updates":
        o = makers[o].inputs[0]
    return p.inputs.index(o) if o in p.inputs else None


def carried(body: Program, first: int, count: int) -> dict[Var, Var]:
    """What a step may write over a member of the carry (inputs from `first` on), as whatever reads
    that has run by then, or is computed of the same elements in the same pass: computed value ->
    member.  What the value becomes by updates alone is written there, too.  The kernel asks again
    (`Reads.end`): it alone knows what is one pass."""
    return body.derived(("carried", first, count), lambda: _carried(body, first, count))


def _carried(body: Program, first: int, count: int) -> dict[Var, Var]:
    reads, groups = Reads(body), _groups(body)
    shown = {v for v in body.outputs if isinstance(v, Var)}
    found: dict[Var, Var] = {}
    for c, o in zip(body.inputs[first:first + count], body.outputs):
        made = reads.makers.get(o) if isinstance(o, Var) else None
        while made is not None and made.primitive.memory == "updates":
            o = made.inputs[0]
            made = reads.makers.get(o) if isinstance(o, Var) and o not in shown and (
                len(reads.uses[o]) == 1) else None
        if made is None or not isinstance(o, Var) or o in found or not c.aval.shape or (
                made.primitive.kernel != "map"):
            continue
        group = groups[reads.position[id(made)]]
        members = {i for i, g in groups.items() if g == group}
        if reads.end(c, members):
            found[o] = c
    return found


def _groups(p: Program) -> dict[int, int]:
    """Which pass computes an elementwise equation, most likely, by its position: as a kernel does
    it (tensors), where it ends with another shape, and where something else reads what it gives."""
    found: dict[int, int] = {}
    inside: set[Var] = set()
    shape, group = None, 0
    for i, e in enumerate(p.equations):
        is_map = e.primitive.kernel == "map" and bool(e.outputs[0].aval.shape)
        if inside and (e.outputs[0].aval.shape != shape if is_map else
                       not inside.isdisjoint(a for a in e.inputs if isinstance(a, Var))):
            group, inside = group + 1, set()
        if is_map:
            found[i], shape = group, e.outputs[0].aval.shape
            inside.add(e.outputs[0])
    return found


class Reads:
    """What reads the inputs of a Program, itself and as parts of it."""

    def __init__(self, p: Program) -> None:
        self.p = p
        self.makers = {v: e for e in p.equations for v in e.outputs}
        self.position = {id(e): i for i, e in enumerate(p.equations)}
        self.uses: dict[Var, list[int]] = {}
        for i, e in enumerate(p.equations):
            for a in e.inputs:
                if isinstance(a, Var):
                    self.uses.setdefault(a, []).append(i)

    def end(self, c: Var, members: Collection[int], same: bool = True) -> bool:
        """Whether elementwise equations at the positions `members`, one pass, may write over c:
        each reader runs before them, or (`same`: c lies element by element where they write) is one
        of them and reads c itself."""
        first = min(members)
        parts, waiting = {c}, [c]
        while waiting:
            part = waiting.pop()
            for i in self.uses.get(part, ()):
                e = self.p.equations[i]
                if e.primitive.kernel == "view" or e.name in ("concatenate", "pad"):
                    waiting += [v for v in e.outputs if v not in parts]  # (it moves nothing yet)
                    parts.update(e.outputs)
                elif i >= first and not (same and i in members and part is c
                                         and e.primitive.kernel == "map"):
                    return False
        return parts.isdisjoint(v for v in self.p.outputs if isinstance(v, Var))


def _free(e: Equation, args: Sequence[Part], at: int, is_free: IsFree) -> Memory | None:
    """An operand that e may overwrite, dense, with no other operand in its memory."""
    x = args[at]
    if isinstance(x, Memory) and x.is_dense() and is_free(e, x, at) and not any(
            is_of(y, x) for i, y in enumerate(args) if i != at):
        return x
    return None


def apart(moving: Sequence[tuple[Part, Memory]], owned: Sequence[object],
          temporary: Callable[[Memory | Joined], Memory]) -> list[tuple[Part, Memory]]:
    """(what is written, where), with copies of what lies in memory that is written meanwhile."""
    return [(temporary(x) if not isinstance(x, Value) and any(
        q is r for q in joined.refs(x) for r in owned) else x, m) for x, m in moving]


def is_of(s: Part | Picked, x: Memory) -> bool:
    """Whether a value lies in x's memory, or in part."""
    refs = [m.ref for m in s.arrays] if isinstance(s, Picked) else joined.refs(s)
    return any(r is x.ref for r in refs)


def is_same(s: Part | Picked, x: Memory) -> bool:
    """Whether s is x, maybe by way of other shapes, but for axes of one element."""
    def seen(m: Memory) -> list[tuple[int, int]]:
        return [(n, k) for n, k in zip(m.shape, m.strides) if n != 1]
    return isinstance(s, Memory) and s.ref is x.ref and seen(s) == seen(x) and (
        s.base is x.base or isinstance(s.base, int) and s.base == x.base)
