"""Which axes of arrays are those of rows of few numbers (passes/points), from results to operands,
and the program of a group of them.

All rows of a group lie along the axes `lead` of its results.  An operand may have some of these
axes only, at any place (boxes of two lists, beside one another in all pairs): its `Place` names its
axis for each of them, None where it has none.  What such operands follow cheaply from is computed
in the group, for each row again, so that it reads what is in memory.  Start reading at `Inner`.
"""
from __future__ import annotations

import math
from collections.abc import Collection

from calque.core.lists import other_axes
from calque.core.program import Atom, Equation, Literal, Var
from calque.core.types import Shape
from calque.lowering.passes import picks, rows
from calque.lowering.passes.registers import Place

SHORT = 16  # numbers of a row in one array, at most,
MATRIX = 64  # where they are matrices with short rows;
SHARED = 64  # elements of what all rows share, at most
AGAIN = 40  # equations that are computed for each row again
CHEAP = 1  # price of one
_VIEWS = frozenset(("broadcast_in_dim", "reshape", "squeeze", "slice", "rev", "concatenate",
                    "transpose"))


def operand_places(e: Equation, made: Place, lead: Shape) -> list[Place] | None:
    """Where the operands have the rows that a result has at `made`; None where they meet."""
    name, p, out = e.name, e.params, e.outputs[0].aval.shape
    shapes = [a.aval.shape for a in e.inputs]
    none = (None,) * len(lead)

    def each(axis: int) -> int | None:
        """Of the first operand, for an axis of the result; -1: rows meet."""
        if name == "broadcast_in_dim":
            to = list(p["broadcast_dimensions"])
            k = to.index(axis) if axis in to else None
            return k if k is not None and shapes[0][k] == out[axis] else None
        if name == "reshape":
            before = math.prod(out[:axis])
            return next((i for i, n in enumerate(shapes[0]) if n == out[axis] and math.prod(
                shapes[0][:i]) == before), -1)
        if name == "squeeze":
            return other_axes(len(shapes[0]), p["dimensions"])[axis]
        if name == "transpose":
            return int(p["permutation"][axis])
        if name == "slice":
            whole = shapes[0][axis] == out[axis] and not (p["strides"] and p["strides"][axis] != 1)
            return axis if whole else -1
        if name == "rev":
            return -1 if axis in p["dimensions"] else axis
        if name == "concatenate":
            return -1 if axis == p["dimension"] else axis
        if e.primitive.kernel == "fold":
            return other_axes(len(shapes[0]), p["axes"])[axis]
        return axis if rows.is_elementwise(e) else -1

    if name == "gather":
        return _of_pick(e, made, lead)
    found = tuple(None if axis is None else each(axis) for axis in made)
    return None if -1 in found else [found if shape else none for shape in shapes]


def _of_pick(e: Equation, made: Place, lead: Shape) -> list[Place] | None:
    """Of what rows are picked of, which lanes share, and of the positions."""
    d = e.params["dimension_numbers"]
    if not picks.is_picked(e) or made != tuple(range(len(lead))) or any(
            i < len(lead) for i in d.offset_dims):
        return None
    batch = dict(zip(d.start_indices_batching_dims, d.operand_batching_dims))
    return None if len(lead) - 1 in batch else [tuple(batch.get(i) for i in made), made]


def row_size(shape: Shape, place: Place) -> int:
    """How many numbers of an array belong to a row."""
    return math.prod(n for i, n in enumerate(shape) if i not in place)


class Inner:
    """The equations of a group's rows: `inputs` are (value, its place, the variable within), those
    first of which gathers pick; `again` the equations outside that are computed within, too."""

    def __init__(self, finder: rows.Finder, members: Collection[int], lead: Shape, most: int
                 ) -> None:
        self.finder, self.lead, self.most = finder, lead, most
        self.inside = set(members)
        self.full: Place = tuple(range(len(lead)))
        self.none: Place = (None,) * len(lead)
        self.tables: list[tuple[Var, Place, Var]] = []
        self.arrays: list[tuple[Var, Place, Var]] = []
        self.again = set[int]()
        self.equations: list[Equation] = []
        self.done: dict[tuple[Var, Place, bool], Var] = {}
        self.named = {v for i in members for v in finder.equations[i].outputs}
        self.made = set(self.named)

    @property
    def inputs(self) -> list[tuple[Var, Place, Var]]:
        return [*self.tables, *self.arrays]

    def put(self, e: Equation) -> None:
        """A member."""
        places = member_places(e, self.lead, self.most)
        assert places is not None
        self.equations.append(e.replace(inputs=tuple(
            self.read(a, place, e.name == "gather" and i == 0)
            for i, (a, place) in enumerate(zip(e.inputs, places)))))

    def read(self, a: Atom, place: Place, whole: bool = False) -> Atom:
        """A value within; `whole`: rows are picked of it."""
        if isinstance(a, Literal) or a in self.made and place == self.full:
            return a
        key = a, place, whole
        if key not in self.done:
            partial = not whole and place not in (self.full, self.none)
            made = self.computed(a, place) if partial else None
            self.done[key] = self.given(a, place, whole) if made is None else made
        return self.done[key]

    def given(self, a: Var, place: Place, whole: bool) -> Var:
        v = Var(a.aval) if a in self.named else a
        self.named.add(v)
        (self.tables if whole else self.arrays).append((a, place, v))
        return v

    def computed(self, a: Var, place: Place) -> Var | None:
        """The same from its operands, where that is cheap."""
        i = self.finder.producer.get(a, -1)
        if i not in self.finder.live or i in self.finder.widened or len(self.again) >= AGAIN:
            return None
        e = self.finder.equations[i]
        cheap = e.name in _VIEWS or rows.is_elementwise(e) and rows.price(e.primitive) <= CHEAP
        places = operand_places(e, place, self.lead) if cheap and len(e.outputs) == 1 else None
        if places is None or not all(row_size(b.aval.shape, q) <= self.most
                                     for b, q in zip(e.inputs, places)):
            return None
        inputs = tuple(self.read(b, q) for b, q in zip(e.inputs, places))
        out = Var(a.aval)
        self.equations.append(e.replace(inputs=inputs, outputs=(out,)))
        self.again.add(i)
        return out


def has_rows(a: Atom, lead: Shape, most: int = SHORT) -> bool:
    """Whether an array has rows along its first axes, of so many numbers at most."""
    shape = a.aval.shape
    return shape[:len(lead)] == lead and math.prod(shape[len(lead):]) <= most


LANES = 8  # rows side by side, at least, where operands have some of the axes only


def member_places(e: Equation, lead: Shape, most: int) -> list[Place] | None:
    """Where the operands of an equation have the rows of its results; None where they have not."""
    full, none = tuple(range(len(lead))), (None,) * len(lead)
    if e.name not in ("broadcast_in_dim", "gather"):
        found: list[Place] = [full if has_rows(a, lead, most) else none for a in e.inputs]
        return found if all(q == full or a.aval.size <= SHARED
                            for a, q in zip(e.inputs, found)) else None
    places = operand_places(e, full, lead)
    if places is None:
        return None
    if e.name == "gather":
        return places if has_rows(e.inputs[1], lead, most) and (
            places[0] == none or lead[-1] >= LANES) else None
    (place,), a = places, e.inputs[0].aval
    if place == none:
        return places if a.size <= SHARED else None
    return places if row_size(a.shape, place) <= most and (
        place == full or lead[-1] >= LANES) else None


__all__ = ["Inner", "has_rows", "member_places"]
