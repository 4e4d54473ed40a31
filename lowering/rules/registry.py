"""The table of lowering rules and the context they emit in.

A rule is `f(ctx, inputs, params, outs) -> Value | list[Value]`: inputs are Values, outs the avals of
the results (keys already turned into uint32 words).  Start reading at `Context`.
"""
from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from calque.core import dtypes
from calque.core.avals import ShapedArray
from calque.core.program import Literal, Program
from calque.lowering.builder import Builder, Value

Rule = Callable[["Context", list[Value], dict[str, Any], list[ShapedArray]], Any]
rules: dict[str, Rule] = {}

FUSION_LIMIT = 16  # IREE refuses a dispatch with more than 32 bindings at load


def rule(*names: str) -> Callable[[Rule], Rule]:
    """Register a lowering rule under these primitive names."""
    def register(f: Rule) -> Rule:
        for name in names:
            assert name not in rules, name
            rules[name] = f
        return f
    return register


class Context:
    """State of one function's emission.

    `fresh` holds the values that surely own their memory: an in-place operation may write them.
    Anything else may be (a view of) an argument, which IREE would overwrite (IREE_NOTES 1), so
    in-place rules call `owned` first.  `leaves` counts what one fused loop would read.
    """

    def __init__(self, b: Builder, f64_ok: bool = True) -> None:
        self.b = b
        self.f64_ok = f64_ok
        self.fresh: set[Value] = set()
        self.leaves: dict[Value, frozenset[int]] = {}
        self.literals: dict[Value, Literal] = {}  # values that are constants of the Program
        self.emit_program: Callable[[Program, Sequence[Value]], list[Value]]

    def leaves_of(self, v: Value) -> frozenset[int]:
        found = self.leaves.get(v)
        return frozenset((id(v),)) if found is None else found

    def fused(self, out: Value, inputs: Sequence[Value]) -> Value:
        """Note that `out` is computed elementwise from inputs; cut the fusion when it is wide."""
        every = frozenset[int]().union(*[self.leaves_of(v) for v in inputs])
        if len(every) > FUSION_LIMIT:
            (out,) = self.b.barrier(out)
            every = frozenset((id(out),))
        self.leaves[out] = every
        return out

    def owned(self, x: Value) -> Value:
        """x, or a copy when x may be the memory of an argument.

        The copy is a concatenation of two slices: what simpler forms say, IREE folds away.
        """
        if x in self.fresh:
            return x
        axis = next((i for i, n in enumerate(x.shape) if n > 1), None)
        assert axis is not None, "an operand of one element is replaced, never written"
        half = x.shape[axis] // 2
        zero = [0] * len(x.shape)
        limit, start = list(x.shape), list(zero)
        limit[axis] = start[axis] = half
        copy = self.b.concatenate(
            [self.b.slice(x, zero, limit), self.b.slice(x, start, x.shape)], axis)
        self.fresh.add(copy)
        return copy


def physical(a: ShapedArray) -> ShapedArray:
    """The aval of what a value is in memory: keys are two uint32 words."""
    if dtypes.is_key(a.dtype):
        return ShapedArray((*a.shape, 2), np.dtype("uint32"))
    return a
