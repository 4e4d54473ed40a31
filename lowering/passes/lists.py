"""The same elementwise work on many arrays, whatever their sizes, as one kernel that goes over a
list of them: an optimizer's step over a tree of parameters, casts, clips, gradients added up.

IREE makes a dispatch of each array's work, and of each shape another executable: 300 vectors take
it seconds.  A part is elementwise equations of one shape that hang together; parts whose equations
agree but for the shape are taken together, as many as a dispatch has bindings for, where none
follows from another.  Start reading at `lists`.
"""
from __future__ import annotations

import functools
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from calque.core.primitive import registry
from calque.core.program import Atom, Equation, Literal, Program, Var, param_key
from calque.core.types import Shape
from calque.lowering.passes import cost, loops, rows

LEAST = 8  # arrays from which on a list pays
MOST = 60  # equations of a part: longer ones are passes/chains's
BY_THE_WAY = 1 << 14  # elements that IREE would compute where they are read, and now writes
SPREAD = 1 << 17  # elements of a list from which on several workgroups share each array
GROUPS = 16
MOST_ELEMENTS = (1 << 31) - 1  # a size is an int32


@dataclass(frozen=True, slots=True)
class List:
    """How a list is gone over.

    Attributes:
      part: what is done with the arrays of the first place: its inputs are those of its own, then
        those that all places share (of rank 0).
      work: what decides the kernel of a part, but for sizes.
      sizes: elements of each place's arrays; shared: how many inputs are; groups: workgroups.
      order: which operand each binding is.
    """

    part: Program
    work: Hashable
    sizes: tuple[int, ...]
    shared: int
    groups: int
    order: tuple[int, ...]


@dataclass(slots=True)
class _Part:
    """Equations of one shape that hang together."""

    shape: Shape
    members: list[int] = field(default_factory=list)
    inside: int = 0
    before: int = 0
    inputs: list[Var] = field(default_factory=list)
    outputs: list[Var] = field(default_factory=list)

    @property
    def size(self) -> int:
        return loops.elements(self.shape)


def lists(finder: rows.Finder) -> None:
    """Put the finder's lists in place of their equations."""
    alike: dict[Any, list[_Part]] = {}
    for part in _parts(finder):
        key = _key(part, finder)
        if key is not None:
            alike.setdefault(key, []).append(part)
    for key, parts in alike.items():
        if len(parts) >= LEAST:
            for some in _independent(parts, finder):
                _join(some, key, finder)


def _is_member(e: Equation) -> bool:
    """Whether an equation may belong to a part."""
    shape = e.outputs[0].aval.shape if len(e.outputs) == 1 else ()
    if not shape or e.is_dynamic or not loops.is_plain(e) or (
            loops.elements(shape) > MOST_ELEMENTS):
        return False
    if e.name == "broadcast_in_dim":
        return not e.inputs[0].aval.shape
    return rows.is_elementwise(e) and all(a.aval.shape in ((), shape) for a in e.inputs)


def _parts(finder: rows.Finder) -> Iterator[_Part]:
    """The parts of a program; none where one gets long."""
    parts: dict[int, _Part] = {}
    owner: dict[int, int] = {}
    for i in sorted(finder.live, key=finder.position.__getitem__):
        e = finder.equations[i]
        if not _is_member(e) or i in finder.widened:
            continue
        shape = e.outputs[0].aval.shape
        near = {owner[j] for j in map(finder.producer.get, e.inputs) if j in owner}
        near = {k for k in near if parts[k].shape == shape}
        members = [i, *[m for k in near for m in parts[k].members]]
        if near and not finder.is_convex(members):
            near, members = set(), [i]
        if len(members) > MOST:  # this one, and what follows
            for k in near:
                parts[k].shape = ()
            continue
        for k in near:
            del parts[k]
        parts[i] = _Part(shape, members)
        owner.update(dict.fromkeys(members, i))
    yield from (p for p in parts.values() if p.shape)


def _key(part: _Part, finder: rows.Finder) -> Any:
    """What a part does, but for its shape; None where a kernel does not pay.  Fills in the rest of
    the part."""
    part.members.sort(key=finder.position.__getitem__)
    mine, numbers, found = set(part.members), dict[Atom, int](), list[Any]()
    for i in part.members:
        e = finder.equations[i]
        part.inside |= 1 << i
        refs: list[Any] = []
        for a in e.inputs:
            if isinstance(a, Literal):
                refs.append((a.aval.dtype, param_key(a.value), repr(a.value)))
                continue
            if a not in numbers:
                numbers[a] = len(numbers)
                part.inputs.append(a)
            refs.append((numbers[a], a.aval.dtype, bool(a.aval.shape)))
        (out,) = e.outputs
        numbers[out] = len(numbers)
        leaves = out in finder.results or any(u not in mine for u in finder.users.get(out, ()))
        if leaves:
            part.outputs.append(out)
        params = () if e.name == "broadcast_in_dim" else e.params_key
        found.append((e.name, params, out.aval.dtype, tuple(refs), leaves))
    if not any(v.aval.shape for v in part.inputs) or not all(
            v.aval.size <= BY_THE_WAY or finder.is_at_hand(v) for v in part.inputs):
        return None
    if not any(v in finder.results or any(
            not rows.sees(finder.equations[u].primitive) for u in finder.users.get(v, ())
            if u not in mine) for v in part.outputs):
        return None  # IREE computes it where it is summed
    return tuple(found)


def _independent(parts: Sequence[_Part], finder: rows.Finder) -> Iterator[list[_Part]]:
    """Parts of one list each: as many as fit, of similar sizes, none of which follows
    from another."""
    shared = _shared(parts)
    own = len(parts[0].inputs) - len(shared) + len(parts[0].outputs)  # bindings of a place
    most = (cost.MOST_BINDINGS - len(shared)) // own
    if most:  # lists of one length have one executable
        most = -(-len(parts) // -(-len(parts) // most))
    waiting = sorted(parts, key=lambda p: p.size)
    while len(waiting) >= 2 and most >= 2:
        for p in waiting:  # (what is one equation now has made more follow from each other)
            p.before = functools.reduce(int.__or__, map(finder.before.__getitem__, p.members))
            p.before &= ~p.inside
        some, inside, after, left = list[_Part](), 0, 0, list[_Part]()
        for p in waiting:
            if len(some) < most and not p.before & inside and not after & p.inside:
                some.append(p)
                inside |= p.inside
                after |= p.before
            else:
                left.append(p)
        if len(some) < 2:
            return
        yield some
        waiting = left


def _shared(parts: Sequence[_Part]) -> list[int]:
    """Which inputs, of rank 0, are the same for all parts."""
    return [k for k, v in enumerate(parts[0].inputs)
            if not v.aval.shape and all(p.inputs[k] is v for p in parts)]


def _join(parts: Sequence[_Part], work: Hashable, finder: rows.Finder) -> None:
    """One equation for the parts of a list."""
    members = sorted((i for p in parts for i in p.members), key=finder.position.__getitem__)
    if not finder.is_convex(members):  # (an effect stands among them)
        return
    shared = _shared(parts)
    common = [parts[0].inputs[k] for k in shared]

    def own(p: _Part) -> list[Var]:
        return [v for k, v in enumerate(p.inputs) if k not in shared]

    first = parts[0]
    one = Program([*own(first), *common], [finder.equations[i] for i in first.members],
                  first.outputs, name="part")
    sizes = tuple(p.size for p in parts)
    inputs = [*[v for p in parts for v in own(p)], *common]
    outputs = [v for p in parts for v in p.outputs]
    given = list(dict.fromkeys(inputs))
    how = List(one, (work, tuple(shared)), sizes, len(shared),
               GROUPS if sum(sizes) >= SPREAD else 1, tuple(map(given.index, inputs)))
    inner = Program(given, [finder.equations[i] for i in members], outputs, name="list")
    e = finder.equations[members[0]]
    finder.contract(members, Equation(registry["jit"], tuple(given), tuple(outputs), {
        "jaxpr": inner, "name": "list", "rows": how}, e.source, e.scope), [])
