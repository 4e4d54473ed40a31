"""Which equations of a Program follow from which, while groups of them become one.

Sets of equations are bits of whole numbers, so that a question costs one operation however long
the Program is.  Start reading at `Graph.is_convex`, then `Graph.contract`.
"""
from __future__ import annotations

import heapq
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from calque.core.program import Atom, Equation


def bits(mask: int) -> list[int]:
    """The numbers of a set, rising."""
    if not mask:
        return []
    octets = np.frombuffer(mask.to_bytes(-(-mask.bit_length() // 8), "little"), np.uint8)
    found: list[int] = np.flatnonzero(np.unpackbits(octets, bitorder="little")).tolist()
    return found


class Span(NamedTuple):
    """Of some equations: what they follow from, what follows from them, they, and the first and the
    last place."""

    before: int
    after: int
    inside: int
    first: int
    last: int

    def joined(self, other: Span) -> Span:
        return Span(self.before | other.before, self.after | other.after,
                    self.inside | other.inside, min(self.first, other.first),
                    max(self.last, other.last))


class Graph:
    """Equations by number, those that `contract` makes behind the others; `producer` and `users`
    of what a variable holds are equations that are not within another."""

    def __init__(self, equations: Sequence[Equation]) -> None:
        self.equations = list(equations)
        self.producer: dict[Atom, int] = {v: i for i, e in enumerate(equations) for v in e.outputs}
        self.users: dict[Atom, set[int]] = {}
        self.position = list(range(len(equations)))  # where an equation stood
        self.live, self.alive = set(self.position), (1 << len(equations)) - 1  # not within another
        self.before: list[int] = []  # what it follows from
        self.after = [0] * len(equations)  # what follows from it
        self.effects = [i for i, e in enumerate(equations) if e.primitive.has_effects(e.params)]
        for i, e in enumerate(equations):
            for a in e.inputs:
                self.users.setdefault(a, set()).add(i)
            self.before.append(self._from(e))
        for i in reversed(range(len(equations))):
            self.after[i] = self._to(equations[i])

    def _from(self, e: Equation) -> int:
        found = 0
        for a in e.inputs:
            if a in self.producer:
                i = self.producer[a]
                found |= self.before[i] | 1 << i
        return found

    def _to(self, e: Equation) -> int:
        found = 0
        for v in e.outputs:
            for u in self.users.get(v, ()):
                found |= self.after[u] | 1 << u
        return found

    def is_convex(self, members: Iterable[int]) -> bool:
        """Whether no path leaves the members and comes back, and no effect stands among them."""
        return not self.between(self.span(members))

    def span(self, members: Iterable[int]) -> Span:
        """Of equations."""
        before = after = inside = 0
        first, last = len(self.position), -1
        for i in members:
            before |= self.before[i]
            after |= self.after[i]
            inside |= 1 << i
            first, last = min(first, self.position[i]), max(last, self.position[i])
        return Span(before, after, inside, first, last)

    def between(self, s: Span) -> int:
        """The equations of paths that leave a span and come back, and effects among it."""
        found = s.before & s.after & self.alive & ~s.inside
        for i in self.effects:
            if s.first < i < s.last:
                found |= 1 << i
        return found

    def contract(self, members: Sequence[int], one: Equation, again: Sequence[int]) -> None:
        """Put one equation for convex members; those of `again` are computed behind it as well."""
        before = after = 0
        for i in members:
            before |= self.before[i]
            after |= self.after[i]
            self.live.remove(i)
            for a in self.equations[i].inputs:
                self.users[a].discard(i)
        outside = ~sum(1 << i for i in members)
        self.alive &= outside
        self._add(one, self.position[members[0]], before & outside, after & outside)
        for i in again:
            self._add(self.equations[i], self.position[i], 0, 0)

    def _add(self, e: Equation, position: int, before: int, after: int) -> None:
        """One more equation, which follows from these and those follow from."""
        i = len(self.equations)
        self.equations.append(e)
        self.position.append(position)
        self.live.add(i)
        for a in e.inputs:
            self.users.setdefault(a, set()).add(i)
        for v in e.outputs:
            self.producer[v] = i
        before |= self._from(e)
        after |= self._to(e)
        self.before.append(before)
        self.after.append(after)
        for j in bits(after & self.alive):
            self.before[j] |= before | 1 << i
        for j in bits(before & self.alive):
            self.after[j] |= after | 1 << i
        self.alive |= 1 << i

    def ordered(self) -> list[Equation]:
        """The equations that are left, each behind what it reads, else where they stood."""
        missing = {i: {self.producer[a] for a in self.equations[i].inputs if a in self.producer}
                   for i in self.live}
        waiting: dict[int, list[int]] = {}
        for i, needs in missing.items():
            for j in needs:
                waiting.setdefault(j, []).append(i)
        ready = [(self.position[i], i) for i, needs in missing.items() if not needs]
        heapq.heapify(ready)
        found = []
        while ready:
            _, j = heapq.heappop(ready)
            found.append(self.equations[j])
            for i in waiting.get(j, ()):
                missing[i].discard(j)
                if not missing[i]:
                    heapq.heappush(ready, (self.position[i], i))
        assert len(found) == len(self.live), "a cycle"
        return found
