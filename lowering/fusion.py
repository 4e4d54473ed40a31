"""How much one fused loop reads: IREE makes a dispatch of elementwise operations of any number, and
more than 32 bindings, 16 on CUDA, fail at load."""
from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from calque.lowering.builder import Builder, Value

BINDINGS = 32  # of a dispatch
CUDA_BINDINGS = 16


@dataclass
class _Cluster:
    """Single numbers that IREE computes in one dispatch, also those of several uses: what they
    read, and which of them something else may read."""

    reads: set[Value]
    writes: set[Value]


class FusionWidth:
    """What the loop that computes a value would read, for each value of a function.

    Attributes:
      limit: arrays that a fused loop reads; their number in a dispatch may be twice that.
      most_numbers: that one dispatch of single numbers reads and writes.
    """

    def __init__(self, b: Builder, bindings: int = BINDINGS) -> None:
        self.b = b
        self.limit, self.most_numbers = bindings // 2, bindings - bindings // 8
        self.leaves: dict[Value, frozenset[int]] = {}
        self.clusters: dict[Value, _Cluster] = {}  # of single numbers, and what each belongs to

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
        if len(found.reads) + len(found.writes) < self.most_numbers:
            return list(xs)
        return [self.b.barrier(x)[0] if x in self.clusters else x for x in xs]

    def join(self, xs: Sequence[Value], out: Value, single: Sequence[Value]) -> None:
        """Note that a number was computed from xs, some of which nothing else reads."""
        found = self._cluster(xs)
        found.writes.difference_update(single)
        found.writes.add(out)
        self.clusters.update(dict.fromkeys(found.writes, found))

    def _cluster(self, xs: Sequence[Value]) -> _Cluster:
        """All that numbers computed from xs would be computed with."""
        found = [self.clusters[x] for x in xs if x in self.clusters]
        outside = {x for x in xs if x not in self.clusters and self.leaves.get(x) != frozenset()}
        return _Cluster(outside.union(*[c.reads for c in found]),
                        set().union(*[c.writes for c in found]))
