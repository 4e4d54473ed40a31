"""Which memory a value may be a view of, and copies where an update would write into another's.

IREE overwrites an array that nothing of its own reads any more, the caller's too (docs/iree.md),
and folds operations away, so that a result may be its operand. For each value the analysis holds a
set of roots: an argument, or what an equation made, whose memory it may be. An update asks for
`owned` or `copy_if_shared` and gets a copy where that set says so; what is not known counts as
shared. IREE merges what is computed twice, in other words too (x * x and x ** 2): computed arrays
of one size count as one where a part is written into the other.
Start reading at `AliasAnalysis.note`.
"""
from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from calque.core.dims import Dim
from calque.core.primitive import Primitive
from calque.core.program import Literal
from calque.lowering.emit.builder import Value

if TYPE_CHECKING:
    from calque.lowering.emit.context import Context

Roots = frozenset[int]  # ids of the values whose memory it is


class AliasAnalysis:
    """What one function's values may share memory with."""

    # joins operands by a kernel of ours where that pays: kernels/move sets it
    joined: Callable[[Context, Sequence[Value], int], Value | None]

    def __init__(self, ctx: Context) -> None:
        self.ctx, self.b = ctx, ctx.b
        self.constants: set[Value] = ctx.constants
        self.literals: dict[Value, Literal] = ctx.literals
        self.roots: dict[Value, Roots] = {}
        self.parts: dict[Value, Roots] = {}  # as roots, but also of views of a part
        # results that one more operation may undo: the memory that is then the result's
        self.steps: dict[Value, Roots] = {}
        self.moved: dict[Value, Roots] = {}  # the same, of one more transposition
        self.protected: set[int] = set()  # roots that are arguments and must stay as they are
        self.fixed: list[Any] = []  # the same, as MLIR's values
        self.shared: set[Value] = set()  # used more than once
        self.carries: set[Value] = set()  # what steps of loops that write in place start from
        self.elsewhere: set[Value] = set()  # operands of calls that are read outside them too
        self.copying = False  # the equation's update copies its operand (passes/hazards)
        self.copies = 0  # made by `private`
        self.made: dict[Any, int] = {}  # how many copies of a shape there are
        self.known: set[int] = set()  # roots that no equal computation gives: arguments, copies
        self.computed: dict[int, int | Dim] = {}  # bytes of what equations made, by its id

    def add_argument(self, v: Value, protected: bool) -> None:
        self.roots[v] = frozenset((id(v),))
        self.known.add(id(v))
        if protected:
            self.protected.add(id(v))
            self.fixed.append(v.ir)

    def protect(self, *values: Value) -> None:
        """Keep what holds these as it is from here on: what IREE does not see reads it."""
        for v in values:
            self.protected |= self.roots_of(v) | self.parts_of(v)

    def roots_of(self, v: Value) -> Roots:
        found = self.roots.get(v)
        if found is None:
            found = self.roots[v] = frozenset((id(v),))
        return found

    def is_protected(self, v: Value) -> bool:
        return not self.protected.isdisjoint(self.roots_of(v))

    def parts_of(self, v: Value) -> Roots:
        """Whose memory a value may be a part of."""
        found = self.parts.get(v)
        return frozenset((id(v),)) if found is None else found

    def note(self, p: Primitive, inputs: Sequence[Value], outs: Sequence[Value],
             written: Sequence[int] = ()) -> None:
        """Record what the results of an equation may be views of."""
        folds, name = p.memory == "folds", p.name
        for out in outs:
            self.computed[id(out)] = nbytes(out)
            data = [v for v in inputs if v not in self.constants]
            new = p.memory == "fresh" and not written or (
                folds and not self._foldable(name, inputs, data))
            if folds and self._is_step(inputs, data):
                self.steps[out] = self.roots_of(data[0]) | self.steps.get(data[0], frozenset())
            if not new and out not in inputs:
                whole = [inputs[i] for i in written] or data  # (what is written is copied)
                if any(v in self.moved for v in whole) and out not in self.moved:
                    self.moved[out] = frozenset().union(*[
                        self.moved.get(v, frozenset()) for v in whole])
                self.parts[out] = frozenset((id(out),)).union(
                    *[self.parts_of(v) | self.steps.get(v, frozenset()) for v in whole])
            if out in self.roots or out in inputs:
                continue  # the rule knows better, or passes an operand on
            size = nbytes(out)  # (sizes that are known at the call only may be any)
            if new:
                self.roots[out] = frozenset((id(out),))
                continue
            same = [self.roots_of(v) | self.steps.get(v, frozenset())
                    for v in data if nbytes(v) == size or isinstance(size, Dim)
                    or isinstance(nbytes(v), Dim)]
            self.roots[out] = frozenset((id(out),)).union(*same)

    def add_new(self, values: Sequence[Value]) -> None:
        """Note what a kernel of ours made: memory of its own, whatever it read."""
        for v in values:
            self.roots[v] = frozenset((id(v),))

    def add_moved(self, v: Value, x: Value) -> None:
        """Note that `v` has the elements of x in another order: memory of its own, but one more
        such operation may give x's back, as IREE folds both away."""
        moved = self.moved.get(x, frozenset())
        self.roots[v] = frozenset((id(v),)) | moved
        self.moved[v] = self.roots_of(x) | moved

    def renew(self, old: Value, new: Value) -> None:
        """Take `new` for what `old` was: the same memory."""
        self.computed[id(new)] = nbytes(new)
        self.roots[new], self.parts[new] = self.roots_of(old), self.parts_of(old)
        for undone in (self.steps, self.moved):
            if old in undone:
                undone[new] = undone[old]
        for known in (self.shared, self.carries, self.elsewhere):
            if old in known:
                known.add(new)

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
        """x, or a copy when x may be the memory of an argument, or is read elsewhere later.

        Beside a loop from the host also what an equation computed: IREE makes equal computations
        one, and writes into it before the loop that carries the other (test_loops_own_memory.py).
        """
        if x.dtype.kind == "c":  # two updates of equal complex constants write into one memory
            x = self.ctx.unknown(x)  # (tests/lowering/test_safety.py)
        return x if self.is_owned(x) or all(n == 1 for n in x.shape) else self.copy(x)

    def is_owned(self, x: Value) -> bool:
        """Whether x may be overwritten."""
        return not (self.is_protected(x) or self.copying or x in self.elsewhere or (
            self.ctx.stepped and not self.ctx.regions and self.known.isdisjoint(self.roots_of(x))))

    def write(self, out: Value, x: Value) -> None:
        """Note that an update made `out` in the memory of x."""
        self.roots[out] = self.roots_of(x) | {id(out)}

    def copy_if_shared(self, x: Value, reads: Sequence[Value]) -> Value:
        """x, or a copy when what its writer reads may lie in the same memory."""
        mine = self.parts_of(x)
        sizes = self._sizes(mine)
        shared = any(not mine.isdisjoint(self.parts_of(v)) or sizes & self._sizes(self.parts_of(v))
                     for v in reads)
        return self.copy(x) if shared and any(n != 1 for n in x.shape) else x

    def _sizes(self, parts: Roots) -> set[int | Dim]:
        """How large the computed arrays among them are."""
        return {self.computed[i] for i in parts if i in self.computed}

    def copy(self, x: Value) -> Value:
        """A concatenation of two slices: what simpler forms say, IREE folds away.

        It merges equal copies, of equal computations too, and then both updates write into one:
        each copy of a shape is cut at a place of its own.
        """
        axis = next((i for i, n in enumerate(x.shape) if not isinstance(n, Dim) and n > 1),
                    next((i for i, n in enumerate(x.shape) if isinstance(n, Dim)), None))
        assert axis is not None, "an operand of one element is replaced, never written"
        made = self.made[x.shape] = self.made.get(x.shape, -1) + 1
        whole, n = x, x.shape[axis]
        if not isinstance(n, Dim) and made >= n - 1:  # no places left on this axis
            n, axis = math.prod(x.shape), 0
            if not isinstance(n, Dim) and made >= n - 1:
                return self.private(x)
            whole = self.b.reshape(x, (n,))
        at = n // (made + 2) if isinstance(n, Dim) else (n // 2 + made - 1) % (n - 1) + 1
        parts = [self.b.slice_in_dim(whole, 0, at, axis),
                 self.b.slice_in_dim(whole, at, whole.shape[axis], axis)]
        moved = AliasAnalysis.joined(self.ctx, parts, axis)
        joined = self.b.concatenate(parts, axis) if moved is None else moved
        copy = self.b.reshape(joined, x.shape)
        self.roots[copy] = frozenset((id(copy),))
        self.known.add(id(copy))
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
        copy = self.b.cropped(joined, x.shape)
        self.roots[copy] = frozenset((id(copy),))
        self.known.add(id(copy))
        return copy


_IDENTITIES = {"add": (0,), "add_any": (0,), "sub": (0,), "mul": (1,), "div": (1,), "pow": (1,),
               "and": (-1, True), "or": (0, False), "xor": (0, False), "shift_left": (0,),
               "shift_right_arithmetic": (0,), "shift_right_logical": (0,)}


def _extremes(value: Any) -> tuple[int, ...]:
    dtype = np.asarray(value).dtype
    return (np.iinfo(dtype).min, np.iinfo(dtype).max) if dtype.kind in "iu" else ()


def nbytes(v: Value) -> Any:
    """Bytes of a value (a Dim where they depend on sizes)."""
    return math.prod(v.shape) * int(v.dtype.itemsize)
