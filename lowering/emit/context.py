"""The state of one function's emission: what lowering rules see.  Start reading at `Context`."""
from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from calque.core import dtypes
from calque.core.avals import ShapedArray
from calque.core.dims import guess
from calque.core.primitive import Primitive
from calque.core.program import Equation, Literal, Program
from calque.lowering.emit import folding, mlir
from calque.lowering.emit.aliasing import AliasAnalysis, nbytes
from calque.lowering.emit.builder import Builder, Value
from calque.lowering.emit.dtypes import BOOL, I32, U32
from calque.lowering.emit.fusion import BINDINGS, CUDA_BINDINGS, FusionWidth
from calque.lowering.plan.record import Recorder
from calque.lowering.target.targets import Target

CONSTANT_BYTES = 1 << 26  # larger ones are computed when the program runs, not when it is loaded


class Context:
    """Where a function is written and for what, the equation at hand, and what is known of values;
    `aliases` says whose memory a value may be, `fusion` how much a fused loop reads."""

    def __init__(self, b: Builder, target: Target | None = None, in_process: bool = False) -> None:
        self.b = b
        self.target = target
        self.cpu = target is not None and target.backend == "llvm-cpu"
        self.in_process = in_process  # the program runs in a process that runs Python
        self.emit_program: Callable[[Program, Sequence[Value]], list[Value]]
        # where
        self.module: Any = None
        self.entry: Any = None  # the function's block
        self.equation: Equation  # the one whose rule runs
        self.views = False  # whether every loop from the host carries views (rules/views)
        self.apart = False  # whether nothing is fused
        self.loops = 0  # how many rolled loops the insertion point is in
        self.regions = 0  # how many rolled loops and branches
        # what the module gets beside the function
        self.kernels = 0  # of our own
        self.functions = 0  # that its kernels call
        self.options: set[str] = set()  # more flags for the compiler
        self.needs: frozenset[str] = frozenset()  # of a device beyond the target: user_gpu.py
        self.sources: dict[Any, Any] = {}  # executables that are called again, by what decides them
        self.callbacks: list[Any] = []  # (function, operand specs, result specs)
        self.closing = False  # whether IREE is to get nothing (passes/remainder),
        self.slack = 0  # and multiply-adds of a product that may be slower for that
        self.stepped = False  # whether loops or branches run from the host
        self.imported: set[int] = set()  # roots of values whose memory the runtime made
        self.plan = Recorder()  # which ways were taken
        # values
        self.constants: set[Value] = set()
        self.literals: dict[Value, Literal] = {}  # values that are constants of the Program
        self.columns: dict[Value, list[Value]] = {}  # of index vectors: what they are joined from
        self.moves: dict[Value, Any] = {}  # what kernels/move made, from where and which parts
        self.aliases = AliasAnalysis(self)
        cuda = target is not None and target.backend == "cuda"
        self.fusion = FusionWidth(b, CUDA_BINDINGS if cuda else BINDINGS)
        self._zero: Value | None = None
        self._words: dict[int, Any] = {}  # int32 constants that kernels are given

    def note(self, p: Primitive, inputs: Sequence[Value], outs: Sequence[Value],
             written: Sequence[int] = ()) -> None:
        """Record what is known of the results of an equation, which wrote into some operands."""
        if inputs and all(v in self.constants for v in inputs) and p.name not in ("scan", "cond"):
            self.constants.update(outs)
            if any(guess(nbytes(v)) > CONSTANT_BYTES for v in outs):  # it would not fit in memory
                self.options.add("--iree-opt-const-expr-hoisting=false")
        self.aliases.note(p, inputs, outs, written)

    @contextmanager
    def inside(self, loop: bool) -> Iterator[None]:
        """While the insertion point is in a rolled loop, or in a branch."""
        self.loops += loop
        self.regions += 1
        with self.fusion.region():
            yield
        self.loops -= loop
        self.regions -= 1

    # ---- constants that IREE must not know
    def opaque(self, x: Value) -> Value:
        """x, if it is a constant as what a dispatch makes.

        A constant that enters a host loop or leaves a branch, and is used elsewhere too, IREE makes
        in one place of its choice, which may come later ("circular dependency", "does not dominate
        this use": tests/lowering/test_refusals.py).
        """
        return self._from_zero(x) if x in self.constants else x

    def unknown(self, x: Value) -> Value:
        """x, if no argument reaches it as what a dispatch makes."""
        return x if self.fusion.leaves_of(x) else self._from_zero(x)

    def reads(self, old: Value, new: Value, always: bool = False) -> Value:
        """What a carry of a host loop becomes: IREE's compiler dies where nothing in the body reads
        what it was (a crash, or no end of memory; tests/lowering/test_refusals.py)."""
        if new is old or 0 in old.shape or not always and any(True for _ in old.ir.uses):
            return new
        never = self.b.compare("NE", self._unknown_zero(), self.b.splat(0, (), U32))
        return self.b.select(never, old, new)

    def entering(self, xs: Sequence[Value]) -> list[Value]:
        """Operands of a kernel of ours: opaque within loops and branches."""
        return [self.opaque(x) for x in xs] if self.regions else list(xs)

    def kept_apart(self, outs: Sequence[Value]) -> list[Value]:
        """Results of an equation, written to memory."""
        made = []
        for old in outs:
            new = old if old in self.constants or 0 in old.shape else self.b.barrier(old)[0]
            if new is not old:
                self.aliases.renew(old, new)
            made.append(new)
        return made

    def word(self, n: int) -> Any:
        """An int32 that a kernel is given, written once in a function (a product is given 15)."""
        if n not in self._words:
            with mlir.ir().InsertionPoint.at_block_begin(self.entry):
                self._words[n] = mlir.number(n, mlir.ir().IntegerType.get_signless(32))
        return self._words[n]

    def _from_zero(self, x: Value) -> Value:
        return x if 0 in x.shape else folding.with_zero(x, self._unknown_zero())

    def _unknown_zero(self) -> Value:
        """0 as a uint32 that IREE does not know, out of memory of a size that nothing else has."""
        if self._zero is None:
            with mlir.ir().InsertionPoint.at_block_begin(self.entry):
                (hidden,) = self.b.optimization_barrier(self.b.splat(0, (977,), I32))
                self._zero = self.b.reshape(self.b.slice(hidden, [0], [1]), ()).view(U32)
        return self._zero


def physical(a: ShapedArray) -> ShapedArray:
    """The aval of what a value is in memory: keys are a few uint32 words; float0, of which there is
    one value, is False."""
    if dtypes.is_key(a.dtype):
        return ShapedArray((*a.shape, a.dtype.words), U32)
    if a.dtype == dtypes.float0:
        return ShapedArray(a.shape, BOOL)
    return a
