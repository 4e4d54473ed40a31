"""How much one fused loop reads: IREE makes a dispatch of elementwise operations of any number, and
more than 32 bindings fail at load."""
from __future__ import annotations

from collections.abc import Sequence

from calque.lowering.builder import Builder, Value

FUSION_LIMIT = 16  # arrays that a fused loop reads; their number in a dispatch may be twice that


class FusionWidth:
    """What the loop that computes a value would read, for each value of a function."""

    def __init__(self, b: Builder) -> None:
        self.b = b
        self.leaves: dict[Value, frozenset[int]] = {}

    def leaves_of(self, v: Value) -> frozenset[int]:
        found = self.leaves.get(v)
        return frozenset((id(v),)) if found is None else found

    def note(self, out: Value, inputs: Sequence[Value]) -> Value:
        """Note that `out` is computed elementwise from inputs; cut the fusion when it is wide."""
        every = frozenset[int]().union(*[self.leaves_of(v) for v in inputs])
        if len(every) > FUSION_LIMIT:
            (out,) = self.b.barrier(out)
            every = frozenset((id(out),))
        self.leaves[out] = every
        return out
