"""Arrays joined of what is computed: each part written to its place by the kernel that computes it.

What kernels compute and then join is written to memory, read and written once more (of a gradient
of 1000 x 1000, whose first and last row are differences of another kind, three times as much time).
Where elementwise groups compute parts that nobody else reads, they and the join are one kernel, and
what is in memory is copied to its place.  Start reading at `assemble`.
"""
from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from calque.core.primitive import registry
from calque.core.program import Equation, Program, Var
from calque.core.types import Shape
from calque.lowering.passes import cost, loops, strided
from calque.lowering.passes.rows import Finder, Rows, numbered

LEAST = 1 << 14  # elements of a result
NARROW, MOST_NARROW = 4, 1 << 12  # elements side by side of a part, and of all where these are few


@dataclass(frozen=True, slots=True)
class Piece:
    """What a group computes, of which operands of the call, and where its outputs go: the first
    place along the joined axis, and the shape there."""

    program: Program
    rows: Rows
    inputs: tuple[int, ...]
    places: tuple[tuple[int, Shape], ...]


@dataclass(frozen=True, slots=True)
class Assembly:
    """The parts of a result that is joined along an axis."""

    axis: int
    pieces: tuple[Piece, ...]

    def key(self) -> tuple[object, ...]:
        return self.axis, *[(p.program.key(), p.rows, p.inputs, p.places) for p in self.pieces]


def assemble(finder: Finder) -> None:
    """Put one call for each join of what groups compute."""
    for i in sorted(finder.live):
        e = finder.equations[i]
        out = e.outputs[0].aval
        if e.name == "concatenate" and not e.is_dynamic and (
                out.size >= LEAST and out.dtype in loops.DTYPES):
            _assemble(finder, i, e)


def _assemble(finder: Finder, i: int, e: Equation) -> None:
    axis, at = e.params["dimension"], 0
    parts: dict[int, dict[Var, tuple[int, Shape]]] = {}  # of groups, by what they compute
    moved: list[tuple[Equation, tuple[int, Shape]]] = []  # what is in memory, or a number
    members, views = {i}, set[int]()
    inner = math.prod(e.outputs[0].aval.shape[axis + 1:])
    narrow = False
    for a in e.inputs:
        shape = a.aval.shape
        if not isinstance(a, Var) or shape[axis] * inner < NARROW and a.aval.size > MOST_NARROW:
            return
        narrow |= shape[axis] * inner < NARROW
        v, seen = _source(finder, a, i)
        j = finder.producer.get(v, -1)
        if j in finder.live and _is_elementwise_group(finder.equations[j]) and (
                v not in finder.results and finder.users[v] <= members | seen
                and v not in parts.get(j, ()) and _agree(v.aval.shape, shape)):
            parts.setdefault(j, {})[v] = at, shape
            members |= seen
        else:
            k = finder.producer.get(a, -1)
            view = finder.equations[k] if k in finder.live else None
            if view is None or not _is_moved(view):
                view = Equation(registry["reshape"], (a,), (Var(a.aval),), {
                    "new_sizes": shape, "dimensions": None, "sharding": None})
            else:
                views.add(k)
                if a not in finder.results and finder.users[a] == {i}:
                    members.add(k)
            moved.append((view, (at, shape)))
        at += shape[axis]
    for j, found in parts.items():  # all that a group computes, or it stays what it is
        if set(found) != set(finder.equations[j].outputs):
            return
        members.add(j)
    read = [a for q, _ in moved for a in q.inputs if isinstance(a, Var)]
    inputs = list(dict.fromkeys([a for j in parts for a in finder.equations[j].inputs
                                 if isinstance(a, Var)] + read))
    if not (parts or narrow) or not inputs or len(inputs) >= cost.MOST_BINDINGS - 1 or any(
            finder.producer.get(a) in members for a in inputs):  # (joined twice)
        return
    pieces = []
    for j, found in parts.items():
        group = finder.equations[j]
        pieces.append(Piece(
            group.params["jaxpr"], group.params["rows"],
            tuple(inputs.index(a) for a in group.inputs if isinstance(a, Var)),
            tuple(found[v] for v in group.outputs)))
    pieces += [_copy(q, inputs, place) for q, place in moved]
    ordered = sorted(members, key=finder.position.__getitem__)
    inside = sorted(members | views, key=finder.position.__getitem__)  # (others read views, too)
    whole = Program(inputs, [finder.equations[k] for k in inside], e.outputs, name="assembled")
    finder.contract(ordered, Equation(registry["jit"], tuple(inputs), e.outputs, {
        "jaxpr": whole, "name": "assembled", "rows": Assembly(axis, tuple(pieces))}, e.source,
        e.scope), [])


def _is_moved(e: Equation) -> bool:
    """Whether an equation is a view of what is in memory, or an array of one number."""
    if e.name == "broadcast_in_dim":
        return not isinstance(e.inputs[0], Var)
    return e.name in strided.NAMES and isinstance(e.inputs[0], Var) and strided.after(
        e, strided.dense(e.inputs[0].aval.shape)) is not None


def _source(finder: Finder, v: Var, user: int) -> tuple[Var, set[int]]:
    """What a value is but for axes of one element, and the equations between that only `user`
    needs."""
    between = set[int]()
    while True:
        k = finder.producer.get(v, -1)
        e = finder.equations[k] if k in finder.live else None
        if e is None or e.name not in ("reshape", "squeeze", "broadcast_in_dim") or (
                not isinstance(e.inputs[0], Var) or v in finder.results
                or e.inputs[0].aval.size != v.aval.size
                or finder.users[v] - between - {user}):
            return v, between
        between.add(k)
        v = e.inputs[0]


def _agree(shape: Shape, other: Shape) -> bool:
    return [n for n in shape if n > 1] == [n for n in other if n > 1]


def _is_elementwise_group(e: Equation) -> bool:
    rows = e.params.get("rows")
    return isinstance(rows, Rows) and not rows.folded and all(
        isinstance(a, Var) for a in e.inputs)


def _copy(e: Equation, inputs: Sequence[Var], place: tuple[int, Shape]) -> Piece:
    """A part that is a view of what is in memory, or one number."""
    shape = e.outputs[0].aval.shape
    sizes, (a,) = tuple(n for n in shape if n > 1), e.inputs
    views = frozenset((0,)) if isinstance(a, Var) else frozenset[int]()
    given = [v for v in (a,) if isinstance(v, Var)]
    return Piece(Program(given, [e], list(e.outputs)),
                 Rows(sizes, frozenset(), (((),),), (numbered(shape),), views),
                 tuple(map(inputs.index, given)), (place,))


__all__ = ["Assembly", "Piece", "assemble"]
