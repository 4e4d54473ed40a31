"""The table of lowering rules and the context they emit in.

A rule is `f(ctx, inputs, params, outs) -> Value | list[Value]`: inputs are Values, outs the avals
of the results (keys already turned into uint32 words).  Start reading at `Context`.
"""
from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from calque.core import dtypes
from calque.core.avals import ShapedArray
from calque.core.dims import Dim, guess
from calque.core.primitive import Primitive
from calque.core.program import Equation, Literal, Program
from calque.lowering import folding, mlir
from calque.lowering.builder import Builder, Value
from calque.lowering.targets import Target

Rule = Callable[["Context", list[Value], dict[str, Any], list[ShapedArray]], Any]
rules: dict[str, Rule] = {}

FUSION_LIMIT = 16  # IREE refuses a dispatch with more than 32 bindings at load

CONSTANT_BYTES = 1 << 26  # larger ones are computed when the program runs, not when it is loaded


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

    `roots` holds, for each value, the memory it may be (a view of): arguments and earlier values.
    An in-place operation on what may be an argument copies first (`owned`), since IREE would
    overwrite the caller's array (docs/iree.md).  `leaves` counts what one fused loop would read.
    """

    joined: Callable[..., Value | None]  # kernels/move.concatenate, which sets it

    def __init__(self, b: Builder, target: Target | None = None, in_process: bool = False) -> None:
        self.b = b
        self.target = target
        self.in_process = in_process  # the program runs in a process that runs Python
        self.loops = 0  # how many rolled loops the insertion point is in
        self.regions = 0  # how many rolled loops and branches
        self.cpu = target is not None and target.backend == "llvm-cpu"
        self.roots: dict[Value, frozenset[int]] = {}
        self.parts: dict[Value, frozenset[int]] = {}  # as roots, but also of views of a part
        self.protected: set[int] = set()  # roots that are arguments and must stay as they are
        self.fixed: list[Any] = []  # the same, as MLIR's values
        self.copies = 0  # made by `private`
        self.made: dict[frozenset[int], int] = {}  # copies by whose memory they are of
        self.kernels = 0  # of our own, in this module
        self.functions = 0  # that its kernels call
        self.options: set[str] = set()  # more flags for the compiler
        self.callbacks: list[Any] = []  # (function, operand specs, result specs)
        self.module: Any = None
        self.entry: Any = None  # the function's block
        self._zero: Value | None = None
        self.equation: Equation  # the one whose rule runs
        self.carries: set[Value] = set()  # what steps of loops that write in place start from
        self.shared: set[Value] = set()  # used more than once
        self.copying = False  # the equation's update copies its operand (passes/hazards)
        self.elsewhere: set[Value] = set()  # operands of calls that are read outside them too
        self.constants: set[Value] = set()
        # results that one more operation may undo: the memory that is then the result's
        self.steps: dict[Value, frozenset[int]] = {}
        self.columns: dict[Value, list[Value]] = {}  # of index vectors: what they are joined from
        self.leaves: dict[Value, frozenset[int]] = {}
        self.moves: dict[Value, Any] = {}  # what kernels/move made, from where and which parts
        self.literals: dict[Value, Literal] = {}  # values that are constants of the Program
        self.emit_program: Callable[[Program, Sequence[Value]], list[Value]]

    # ---- whose memory
    def add_argument(self, v: Value, protected: bool) -> None:
        self.roots[v] = frozenset((id(v),))
        if protected:
            self.protected.add(id(v))
            self.fixed.append(v.ir)

    def roots_of(self, v: Value) -> frozenset[int]:
        found = self.roots.get(v)
        if found is None:
            found = self.roots[v] = frozenset((id(v),))
        return found

    def is_protected(self, v: Value) -> bool:
        return not self.protected.isdisjoint(self.roots_of(v))

    def parts_of(self, v: Value) -> frozenset[int]:
        """Whose memory a value may be a part of."""
        found = self.parts.get(v)
        return frozenset((id(v),)) if found is None else found

    def note(self, p: Primitive, inputs: Sequence[Value], outs: Sequence[Value]) -> None:
        """Record what the results of an equation may be views of."""
        folds, name = p.memory == "folds", p.name
        if inputs and all(v in self.constants for v in inputs) and name not in ("scan", "cond"):
            self.constants.update(outs)
            if any(guess(_nbytes(v)) > CONSTANT_BYTES for v in outs):  # it would not fit in memory
                self.options.add("--iree-opt-const-expr-hoisting=false")
        for out in outs:
            data = [v for v in inputs if v not in self.constants]
            new = p.memory == "fresh" or folds and not self._foldable(name, inputs, data)
            if folds and self._is_step(inputs, data):
                self.steps[out] = self.roots_of(data[0]) | self.steps.get(data[0], frozenset())
            if not new and out not in inputs:
                self.parts[out] = frozenset((id(out),)).union(
                    *[self.parts_of(v) | self.steps.get(v, frozenset()) for v in data])
            if out in self.roots or out in inputs:
                continue  # the rule knows better, or passes an operand on
            size = _nbytes(out)  # (sizes that are known at the call only may be any)
            if new:
                self.roots[out] = frozenset((id(out),))
                continue
            same = [self.roots_of(v) | self.steps.get(v, frozenset())
                    for v in data if _nbytes(v) == size or isinstance(size, Dim)
                    or isinstance(_nbytes(v), Dim)]
            self.roots[out] = frozenset((id(out),)).union(*same)

    def _foldable(self, name: str, inputs: Sequence[Value], data: Sequence[Value]) -> bool:
        """Whether x op y may be rewritten to x: y is an identity, or equal to x."""
        if len(set(data)) != 1:  # none: the operands are constants
            return False
        if len(data) == len(inputs):
            return name in ("max", "min", "and", "or")
        known = [self.literals[v].value for v in inputs if v in self.literals]
        if len(known) < len(inputs) - len(data):
            return True  # a constant array: it may hold identities
        return data[0] in self.steps or any(
            v in _IDENTITIES.get(name, ()) or not np.isfinite(v) or v in _extremes(v)
            for v in known)

    def _is_step(self, inputs: Sequence[Value], data: Sequence[Value]) -> bool:
        """Whether another such operation may undo this one, and IREE fold both away: integers
        beside constants, floats beside -1."""
        known = [self.literals[v].value for v in inputs if v in self.literals]
        return len(set(data)) == 1 and bool(known) and (
            data[0].dtype.kind in "iu" or -1 in known)

    def owned(self, x: Value) -> Value:
        """x, or a copy when x may be the memory of an argument, or is read elsewhere later."""
        unsafe = self.is_protected(x) or self.copying or x in self.elsewhere
        return self.copy(x) if unsafe and any(n != 1 for n in x.shape) else x

    def apart(self, x: Value, reads: Sequence[Value]) -> Value:
        """x, or a copy when what its writer reads may lie in the same memory."""
        mine = self.parts_of(x)
        if all(mine.isdisjoint(self.parts_of(v)) for v in reads) or all(n == 1 for n in x.shape):
            return x
        return self.copy(x)

    def copy(self, x: Value) -> Value:
        """A concatenation of two slices: what simpler forms say, IREE folds away.

        It merges equal copies, and then both updates write into one: each copy of a value is cut at
        a place of its own.
        """
        axis = next((i for i, n in enumerate(x.shape) if not isinstance(n, Dim) and n > 1),
                    next((i for i, n in enumerate(x.shape) if isinstance(n, Dim)), None))
        assert axis is not None, "an operand of one element is replaced, never written"
        source = self.roots_of(x)
        made = self.made[source] = self.made.get(source, -1) + 1
        whole, n = x, x.shape[axis]
        if not isinstance(n, Dim) and made >= n - 1:  # no places left on this axis
            n, axis = math.prod(x.shape), 0
            if not isinstance(n, Dim) and made >= n - 1:
                return self.private(x)
            whole = self.b.reshape(x, (n,))
        at = n // (made + 2) if isinstance(n, Dim) else (n // 2 + made - 1) % (n - 1) + 1
        zero = [0] * len(whole.shape)
        limit, start = list(whole.shape), list(zero)
        limit[axis] = start[axis] = at
        parts = [self.b.slice(whole, zero, limit), self.b.slice(whole, start, whole.shape)]
        moved = Context.joined(self, parts, axis)
        joined = self.b.concatenate(parts, axis) if moved is None else moved
        copy = self.b.reshape(joined, x.shape)
        self.roots[copy] = frozenset((id(copy),))
        return copy

    def private(self, x: Value) -> Value:
        """A copy of x that nothing else uses, for loops that write into it.

        IREE merges equal copies, so each gets a tail of its own length, cut off again behind a
        barrier.  The carry of an outer loop is its own copy where nothing else uses it (and copies
        at both levels are often more than IREE's usage analysis can solve).
        """
        if x in self.carries and x not in self.shared:
            return x
        self.copies += 1
        tail = self.b.splat(0, (self.copies, *x.shape[1:]), x.dtype)
        (joined,) = self.b.optimization_barrier(self.b.concatenate([x, tail], 0))
        copy = self.b.slice(joined, [0] * len(x.shape), x.shape)
        self.roots[copy] = frozenset((id(copy),))
        return copy

    def opaque(self, x: Value) -> Value:
        """x, if it is a constant as what a dispatch makes.

        A constant that enters a host loop or leaves a branch, and is used elsewhere too, IREE makes
        in one place of its choice, which may come later ("circular dependency", "does not dominate
        this use": tests/lowering/test_refusals.py).
        """
        return self._from_zero(x) if x in self.constants else x

    def reads(self, old: Value, new: Value) -> Value:
        """What a carry of a host loop becomes: IREE's compiler dies where nothing in the body reads
        what it was (a crash, or no end of memory; tests/lowering/test_refusals.py)."""
        if new is old or any(True for _ in old.ir.uses) or 0 in old.shape:
            return new
        never = self.b.compare("NE", self._unknown_zero(), self.b.splat(0, (), np.uint32))
        return self.b.select(never, old, new)

    def entering(self, xs: Sequence[Value]) -> list[Value]:
        """Operands of a kernel of ours: opaque within loops and branches."""
        return [self.opaque(x) for x in xs] if self.regions else list(xs)

    def _from_zero(self, x: Value) -> Value:
        return x if 0 in x.shape else folding.with_zero(x, self._unknown_zero())

    def _unknown_zero(self) -> Value:
        """0 as a uint32 that IREE does not know, out of memory of a size that nothing else has."""
        if self._zero is None:
            with mlir.ir().InsertionPoint.at_block_begin(self.entry):
                (hidden,) = self.b.optimization_barrier(self.b.splat(0, (977,), np.int32))
                self._zero = self.b.reshape(self.b.slice(hidden, [0], [1]), ()).view(np.uint32)
        return self._zero

    # ---- how wide a fusion is
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


_IDENTITIES = {"add": (0,), "add_any": (0,), "sub": (0,), "mul": (1,), "div": (1,), "pow": (1,),
               "and": (-1, True), "or": (0, False), "xor": (0, False), "shift_left": (0,),
               "shift_right_arithmetic": (0,), "shift_right_logical": (0,)}


def _extremes(value: Any) -> tuple[int, ...]:
    dtype = np.asarray(value).dtype
    return (np.iinfo(dtype).min, np.iinfo(dtype).max) if dtype.kind in "iu" else ()


def _nbytes(v: Value) -> Any:
    return math.prod(v.shape) * int(v.dtype.itemsize)


def physical(a: ShapedArray) -> ShapedArray:
    """The aval of what a value is in memory: keys are a few uint32 words."""
    if dtypes.is_key(a.dtype):
        return ShapedArray((*a.shape, a.dtype.words), np.dtype("uint32"))
    return a
