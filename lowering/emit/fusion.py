"""How much one fused loop reads: IREE makes a dispatch of elementwise operations of any number, and
more than 32 bindings, 16 on CUDA, fail at load."""
from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from calque.lowering.emit.builder import Builder, Value

BINDINGS = 32  # of a dispatch
NUMBERS = 12  # that are computed side by side in one: IREE makes a dispatch of all that it finds
CUDA_BINDINGS = 16


@dataclass
class _Cluster:
    """Single numbers that IREE computes in one dispatch, also those of several uses: what they
    read, and which of them something else may read."""

    reads: set[Value]
    writes: set[Value]


class FusionWidth:
    """What the loop that computes a value would read, for each value of a function.

    Numbers that are computed from different numbers IREE computes in one dispatch, too, unless
    there is a cut between them and what they are computed from.

    Attributes:
      limit: arrays that a fused loop reads; their number in a dispatch may be twice that.
      most_numbers: that one dispatch of single numbers reads and writes.
    """

    def __init__(self, b: Builder, bindings: int = BINDINGS) -> None:
        self.b = b
        self.set_bindings(bindings)
        self.leaves: dict[Value, frozenset[int]] = {}
        self.clusters: dict[Value, _Cluster] = {}  # of single numbers, and what each belongs to
        self.side_by_side: set[Value] = set()  # numbers since the last cut, but for what they read
        self.sources: dict[Value, tuple[int, Value]] = {}  # how often an element is taken, of what
        self.again: dict[Value, Callable[[], Value]] = {}  # numbers out of arrays, taken again
        self.behind: dict[Value, Value] | None = None  # what was there, behind that cut

    def set_bindings(self, bindings: int) -> None:
        """How many a dispatch is to have at most."""
        self.limit, self.most_numbers = max(bindings // 2, 2), bindings - bindings // 8
        self.most_side_by_side = max(NUMBERS * bindings // BINDINGS, 1)

    @contextmanager
    def region(self) -> Iterator[None]:
        """Within a loop or a branch: what is cut there is not known outside."""
        kept = self.behind, self.sources, self.side_by_side
        self.behind = None if self.behind is None else dict(self.behind)
        self.sources, self.side_by_side = dict(self.sources), set()
        try:
            yield
        finally:
            self.behind, self.sources, self.side_by_side = kept

    def leaves_of(self, v: Value) -> frozenset[int]:
        found = self.leaves.get(v)
        return frozenset((id(v),)) if found is None else found

    def note(self, out: Value, inputs: Sequence[Value]) -> Value:
        """Note that `out` is computed elementwise from inputs; cut the fusion when it is wide."""
        every = frozenset[int]().union(*[self.leaves_of(v) for v in inputs])
        if len(every) > self.limit:
            (out,) = self.b.barrier(out)
            every = frozenset((id(out),))
        self.leaves[out] = every
        return out

    def numbers(self, xs: Sequence[Value]) -> list[Value]:
        """xs, from which one more number is computed: behind cuts where their dispatch is full."""
        found = self._cluster(xs)
        if len(self.side_by_side) >= self.most_side_by_side:
            self.side_by_side, self.behind = set(), {}
        xs = [self._behind(x) for x in xs]
        if len(found.reads) + len(found.writes) < self.most_numbers:
            return xs
        return [self.b.barrier(x)[0] if x in self.clusters else x for x in xs]

    def _behind(self, x: Value) -> Value:
        """x, which was there before the last cut, behind it."""
        if self.behind is None or x.dtype == bool or self.leaves.get(x) == frozenset():
            return x
        found = self.behind.get(x)
        if found is None:
            # cut out here, so that something stands between the numbers before and after
            (found,) = self.b.barrier(self.again[x]() if x in self.again else x)
            self.behind[x] = self.behind[found] = found
        return found

    def source(self, x: Value) -> Value:
        """The array that one more element is taken of: one that is computed elementwise is written
        to memory where many are, else IREE would compute each element as a number."""
        found = self.sources.get(x, (0, x))
        if found[0] == self.most_side_by_side and self.leaves.get(x, frozenset()):
            found = (found[0], self.b.barrier(x)[0])
        self.sources[x] = (found[0] + 1, found[1])
        return found[1]

    def part(self, x: Value, i: int) -> Value:
        """An element of a vector."""
        return self.note_part(lambda: self.b.reshape(self.b.slice(x, [i], [i + 1]), ()))

    def note_part(self, make: Callable[[], Value]) -> Value:
        """What takes one element of an array."""
        made = make()
        self.again[made] = make
        return made

    def joined(self, xs: Sequence[Value], axis: int) -> Value:
        """xs one after another, behind a cut: few in a dispatch."""
        parts = list(xs)
        while len(parts) > 1:
            parts = [self.b.barrier(self.b.concatenate(parts[i:i + self.limit], axis))[0]
                     for i in range(0, len(parts), self.limit)]
        return parts[0]

    def join(self, xs: Sequence[Value], out: Value, single: Sequence[Value]) -> None:
        """Note that a number was computed from xs, some of which nothing else reads."""
        found = self._cluster(xs)
        found.writes.difference_update(single)
        found.writes.add(out)
        if self.behind is not None:
            self.behind[out] = out
        self.side_by_side.difference_update(single)  # (a chain is one)
        self.side_by_side.add(out)
        self.clusters.update(dict.fromkeys(found.writes, found))

    def _cluster(self, xs: Sequence[Value]) -> _Cluster:
        """All that numbers computed from xs would be computed with."""
        found = [self.clusters[x] for x in xs if x in self.clusters]
        outside = {x for x in xs if x not in self.clusters and self.leaves.get(x) != frozenset()}
        return _Cluster(outside.union(*[c.reads for c in found]),
                        set().union(*[c.writes for c in found]))
