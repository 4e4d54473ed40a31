"""Long elementwise stretches of a program, each to be one kernel (kernels/rows, without folds).

IREE unrolls what one loop computes and copies a function's body at each use: 30 ms of compile time
for a sine, and more than in proportion where a loop is long.  In a kernel of ours a function that
is used often is written once and called.  A stretch has one shape; it grows in the order of the
program, as long as nothing that it reads follows from it by way of something else.
"""
from __future__ import annotations

from collections.abc import Iterable, Iterator

from calque.core.program import Equation, Var
from calque.core.types import Shape
from calque.lowering.passes import rows

SHORTEST = 40  # weight of what IREE compiles in good time: 3 sines, 10 tanh
MOST = 50_000  # equations of a stretch
MOST_NUMBERS = 100  # of one element each, that a stretch reads
LANES = 16  # elements side by side from which on a row is a loop of its own


def chains(finder: rows.Finder) -> Iterator[rows.Group]:
    """The stretches of a program, each when it cannot grow any more."""
    growing: dict[tuple[int, ...], _Chain] = {}
    for i in sorted(finder.live, key=finder.position.__getitem__):
        e = finder.equations[i]
        if e.primitive.has_effects(e.params):
            yield from _ended(growing.values(), finder)
            growing.clear()
        if not rows.is_elementwise(e):
            continue
        shape = tuple(n for n in e.outputs[0].aval.shape if n > 1)
        chain = growing.get(shape)
        if chain is not None and not chain.may_take(i, finder):
            yield from _ended([chain], finder)
            chain = None
        if chain is None:
            chain = growing[shape] = _Chain(shape)
        chain.take(i, e, finder)
    yield from _ended(growing.values(), finder)


def _ended(chains: Iterable[_Chain], finder: rows.Finder) -> Iterator[rows.Group]:
    for chain in chains:
        if chain.weight <= SHORTEST:
            continue
        for members in chain.parts(finder):
            group = chain.group(members, finder)
            if group is not None:
                yield group


class _Chain:
    """Equations that make arrays of one shape, none of which follows from another by way of what
    is not among them."""

    def __init__(self, shape: Shape) -> None:
        self.shape, self.members, self.inside, self.weight = shape, list[int](), 0, 0
        self.arrays: set[Var] = set()  # that it reads or writes, as far as one can tell
        self.numbers: set[Var] = set()  # of one element, that it reads

    def may_take(self, i: int, finder: rows.Finder) -> bool:
        if (len(self.members) >= MOST or len(self.arrays) > rows.MOST_ARRAYS
                or len(self.numbers) >= MOST_NUMBERS):
            return False
        for a in finder.equations[i].inputs:
            j = finder.producer.get(a, -1)
            if j >= 0 and not self.inside >> j & 1 and finder.before[j] & self.inside:
                return False
        return True

    def take(self, i: int, e: Equation, finder: rows.Finder) -> None:
        self.members.append(i)
        self.inside |= 1 << i
        self.weight += rows.price(e.primitive)
        for a in e.inputs:
            if isinstance(a, Var) and not self.inside >> finder.producer.get(a, i + 1) & 1:
                j = _repeated(a, finder)
                source = a if j is None else finder.equations[j].inputs[0]
                if isinstance(source, Var):
                    (self.arrays if source.aval.size > 1 else self.numbers).add(source)
        v = e.outputs[0]
        if v in finder.results or any(not self.is_alike(finder.equations[u])
                                      for u in finder.users.get(v, ())):
            self.arrays.add(v)

    def is_alike(self, e: Equation) -> bool:
        return rows.is_elementwise(e) and self.shape == tuple(
            n for n in e.outputs[0].aval.shape if n > 1)

    def parts(self, finder: rows.Finder) -> Iterator[list[int]]:
        """The members, those that hang together."""
        above = {i: i for i in self.members}

        def top(i: int) -> int:
            while above[i] != i:
                above[i] = i = above[above[i]]
            return i

        for i in self.members:
            for a in finder.equations[i].inputs:
                j = finder.producer.get(a, -1)
                if j in above:
                    above[top(j)] = top(i)
        found: dict[int, list[int]] = {}
        for i in self.members:
            found.setdefault(top(i), []).append(i)
        return iter(found.values())

    def group(self, members: list[int], finder: rows.Finder) -> rows.Group | None:
        """A stretch as a group, where it is long."""
        group = rows.Group(self.shape, frozenset(), members[0])
        for i in members:
            e = finder.equations[i]
            found = group.infer(e)
            if found is None:
                return None
            group.members[i] = e, found
            group.take(e, found)
        for a in finder.operands(group):
            self.see_through(group, a, finder)
        weight = sum(rows.price(e.primitive) for e, _ in group.members.values())
        arrays = len(finder.outputs(group)) + sum(v.aval.size > 1 for v in finder.operands(group))
        if weight <= SHORTEST or arrays > 2 * rows.MOST_ARRAYS or not finder.is_convex(members):
            return None
        return group

    def see_through(self, group: rows.Group, a: Var, finder: rows.Finder) -> None:
        """Read what an operand repeats, and not the operand; nothing of one that counts."""
        j = _repeated(a, finder)
        if j is None and a in finder.producer and a not in finder.results and (
                finder.equations[finder.producer[a]].name == "iota"):
            j = finder.producer[a]
        if j is None:
            return
        found = finder.found(group, j)
        if found is not None and finder.is_convex({*group.members, j}):
            e = finder.equations[j]
            group.members[j] = e, found
            group.take(e, found)


def _repeated(a: Var, finder: rows.Finder) -> int | None:
    """The equation that makes an array of a number, or of a smaller one where lanes are full (along
    a short axis an array in memory is read in vectors, as if it had one axis)."""
    j = finder.producer.get(a, -1)
    e = finder.equations[j] if j >= 0 else None
    if e is None or e.name != "broadcast_in_dim" or a in finder.results:
        return None
    size, sizes = e.inputs[0].aval.size, [n for n in a.aval.shape if n > 1]
    return j if size < a.aval.size and (size == 1 or sizes[-1] >= LANES) else None
