"""Products around a group of rows as one dispatch (passes/attention): calls of the C kernel of
products, and between them the code of kernels/rows, block by block.

A workgroup takes strips: runs of rows of one matrix of the batch.  Of a strip it packs once what
all its rows are multiplied by.  Then for a block of rows, whose part of each square is scratch that
stays in a core's cache: the scores, the rows, and the products of them, which write rows of a
result or add to one that the strip has for itself.  Start reading at `emit_attention`.
"""
from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from calque.core.avals import ShapedArray
from calque.core.program import Atom, Equation
from calque.core.types import Axes, Dtype
from calque.lowering.emit import mlir
from calque.lowering.emit.builder import Value
from calque.lowering.emit.context import Context
from calque.lowering.emit.dtypes import F32, F64
from calque.lowering.kernels import gemm, memory
from calque.lowering.kernels.memory import Index, Memory
from calque.lowering.kernels.native import level_of, object_of
from calque.lowering.kernels.rows import Kernel, indices_of
from calque.lowering.kernels.shell import Shell
from calque.lowering.passes.attention import ALONE, SUMMED, Attention, Product

BLOCK = 1 << 19  # bytes of the squares' parts of a block of rows: a core's cache
ROWS = (16, 128)  # of a block
STRIP = 128  # rows that packing pays for
STRIPS = 32  # for several workers
PARTS = 8  # the same where each strip adds to a result of its own
GROUPS = (8, 64)  # workgroups: each has scratch, whose pages are fresh,
GROUP_WORK = 1 << 28  # and is worth so many multiply-adds
SCRATCH, FEWEST = 1 << 27, 4  # bytes of all scratch, but for so few workgroups


def emit_attention(ctx: Context, how: Attention, xs: Sequence[Value], outs: Sequence[ShapedArray],
                   equations: Sequence[Equation]) -> list[Value]:
    """The outputs of a region, in the type of their sums; of what strips add up, one for each of
    them along a leading axis."""
    return _Emitter(ctx, how, xs, outs).emit(equations)


class _Layout:
    """How a region is cut into strips and blocks, and where its arrays lie.

    An operand is the array that it is a transposition of, and the place of each of its axes in it.
    """

    def __init__(self, ctx: Context, how: Attention, xs: Sequence[Value],
                 outs: Sequence[ShapedArray]) -> None:
        self.how, self.outs = how, outs
        self.every = (*how.scores, *how.products)
        *leads, self.m, self.n = how.rows.sizes
        self.leads, self.row, self.column = leads, len(leads), len(leads) + 1  # axes of the space
        self.sources, self.steps, self.sizes = list[Value](), list[list[int]](), list[list[int]]()
        for k, x in enumerate(xs):
            source, order = x, list(range(x.ndim))
            if k not in how.inputs:
                source, order = gemm.transposed_source(x)
            steps = memory.row_major(source.shape)
            self.sources.append(source)
            self.steps.append([steps[order.index(i)] for i in range(x.ndim)])
            self.sizes.append(list(x.shape))
        count = math.prod(leads)
        adds = any(self.adds(p) for p in how.products)
        most = -(-PARTS // count) if adds else min(-(-STRIPS // count), self.m // STRIP)
        self.tall = -(-self.m // max(1, min(most, self.m // ROWS[0])))  # rows of a strip
        self.parts = -(-self.m // self.tall)  # strips of a matrix
        self.strips = count * self.parts
        self.read = list(dict.fromkeys(p.middle for p in how.products))  # outputs of the middle
        self.squares = [*[how.middle.inputs[p.middle].aval.dtype for p in how.scores],
                        *[how.middle.outputs[k].aval.dtype for k in self.read]]
        line = gemm.LINE // min(d.itemsize for d in self.squares)
        self.pitch = -(-self.n // line) * line + line  # rows are no power of two apart
        row = self.pitch * sum(d.itemsize for d in self.squares)
        self.block = min(self.tall, max(ROWS[0], min(ROWS[1], BLOCK // row)))  # rows
        vectors = 2 * gemm.LEVELS[level_of(ctx.target)]
        self.panel = {F32: vectors // 4, F64: vectors // 8}  # columns
        self.rooms = [self.room(p) for p in self.every]
        self.work = max(map(self.work_of, self.every))

    def adds(self, p: Product) -> bool:
        """Whether blocks add to a product's result: it sums along the rows."""
        return p.result >= 0 and self.row not in p.axes

    def along(self, p: Product) -> list[int]:
        """The axes before the rows that such a product sums along, too."""
        return [a for a in range(self.row) if a not in p.axes]

    def spec(self, k: int, out: ShapedArray) -> ShapedArray:
        """A result in memory: one for all strips that add to it."""
        p = next((p for p in self.how.products if p.result == k), None)
        if p is None:
            return out
        count = self.parts * math.prod(self.leads[a] for a in self.along(p))
        return ShapedArray((count, *out.shape) if self.adds(p) else out.shape, self.sums(p))

    def sums(self, p: Product) -> Dtype:
        """The type of a product's sums."""
        return F64 if self.sources[max(p.left, p.right)].dtype == F64 else F32

    def size(self, p: Product, axis: int) -> int:
        """How many elements an axis has that is none of the space."""
        for k, axes in ((p.left, p.left_axes), (p.right, p.right_axes)):
            if k >= 0 and axis in axes:
                return self.sizes[k][axes.index(axis)]
        return 1

    # ---- scratch
    def packed(self, p: Product) -> tuple[int, int]:
        """Most rows and columns of the operand of a product that is packed."""
        if p.result < 0:
            return self.size(p, SUMMED), self.n
        turned, deep = self.result_step(p) != 1, self.block if self.adds(p) else self.n
        other = self.n if self.adds(p) else self.block
        return deep, other if turned else self.size(p, ALONE)

    def room(self, p: Product) -> int:
        """Numbers of what calque_pack makes of that (PACKED in native/gemm.inc.h, a block)."""
        (k, columns), dtype = self.packed(p), self.sums(p)
        blocks = -(-k // gemm.DEPTH)
        deepest = -(-k // blocks)
        steps = -(-deepest // gemm.STEP)
        panel = steps * gemm.STEP * self.panel[dtype] + gemm.LINE // dtype.itemsize
        return blocks * -(-columns // self.panel[dtype]) * panel

    def work_of(self, p: Product) -> int:
        """Numbers of what calque_packed packs of the other operand at a time."""
        rows = max(self.block, self.size(p, ALONE), self.n if self.adds(p) else 0)
        depth = -(-min(self.packed(p)[0], gemm.DEPTH) // gemm.STEP) * gemm.STEP
        return min(rows, gemm.TALL) * depth

    def groups(self) -> int:
        """Workgroups."""
        scratch = self.block * self.pitch * sum(d.itemsize for d in self.squares) + sum(
            n * self.sums(p).itemsize for n, p in zip(self.rooms, self.every))
        deep = sum(self.size(p, ALONE if p.result >= 0 else SUMMED) for p in self.every)
        work = math.prod(self.how.rows.sizes) * deep // GROUP_WORK
        return min(self.strips, max(GROUPS[0], min(GROUPS[1], work)),
                   max(FEWEST, SCRATCH // scratch))

    # ---- where arrays lie
    def strides(self, k: int, axes: Axes) -> dict[int, int]:
        """How far apart neighbours along each axis lie in an input."""
        return {a: s for a, s in zip(axes, self.steps[k]) if a != -1}

    def result_strides(self, p: Product) -> dict[int, int]:
        steps = memory.row_major(self.outs[p.result].shape)
        return {a: s for a, s in zip(p.axes, steps) if a != -1}

    def result_step(self, p: Product) -> int:
        """How far apart neighbours along a result's own axis lie."""
        return self.result_strides(p).get(ALONE, 1)

    def base(self, strides: dict[int, int], lead: Sequence[Index], row: Index = 0) -> Index:
        """Where a row of the matrix of a strip begins."""
        at = memory.times(row, strides.get(self.row, 0))
        for axis, i in enumerate(lead):
            at = memory.add(at, memory.times(i, strides.get(axis, 0)))
        return at

    def outer(self, p: Product) -> tuple[int, dict[int, int]]:
        """Of a product with the middle the other operand, and its strides."""
        k, axes = (p.right, p.right_axes) if p.left < 0 else (p.left, p.left_axes)
        return k, self.strides(k, axes)

    def sides(self, p: Product) -> list[tuple[int, dict[int, int]]]:
        """Of a score the operand with its rows, and that with its columns."""
        both = [(p.left, p.left_axes), (p.right, p.right_axes)]
        if self.column in p.left_axes:
            both.reverse()
        return [(k, self.strides(k, axes)) for k, axes in both]


class _Emitter(_Layout):
    def __init__(self, ctx: Context, how: Attention, xs: Sequence[Value],
                 outs: Sequence[ShapedArray]) -> None:
        super().__init__(ctx, how, xs, outs)
        self.ctx = ctx
        results = [self.spec(k, o) for k, o in enumerate(outs)]
        self.shell = Shell(ctx, "attention", self.sources, results, object_of(ctx.target, "gemm"))

    def emit(self, equations: Sequence[Equation]) -> list[Value]:
        shell, how = self.shell, self.how
        each = -(-self.strips // self.groups())

        def strip(i: Index) -> list[Any]:
            self.strip(i)
            return []

        with shell.inside():
            first = memory.times(shell.distribute(-(-self.strips // each)), each)
            self.packs = {p: shell.allocate((n,), self.sums(p))
                          for n, p in zip(self.rooms, self.every)}
            self.works = {d: shell.allocate((self.work,), d)
                          for d in dict.fromkeys(map(self.sums, self.every))}
            size = (self.block * self.pitch,)
            self.scores = {p.middle: shell.allocate(size, how.middle.inputs[p.middle].aval.dtype)
                           for p in how.scores}
            self.given = {k: shell.allocate(size, how.middle.outputs[k].aval.dtype)
                          for k in self.read}
            end = memory.computed("minsi", memory.add(first, each), self.strips)
            memory.loop(end, strip, start=first)
        made = shell.dispatch(self.ctx.entering(self.sources), equations)
        self.ctx.aliases.add_new(made)
        return made

    def strip(self, i: Index) -> None:
        lead = memory.quotient(i, self.parts)
        self.part = memory.remainder(i, self.parts)
        self.lead = indices_of(lead, self.leads)
        self.start = memory.times(self.part, self.tall)
        end = memory.computed("minsi", memory.add(self.start, self.tall), self.m)
        for p in self.how.scores:
            k, s = self.sides(p)[1]
            self.pack(p, self.shell.operands[k], self.base(s, self.lead), self.size(p, SUMMED),
                      self.n, s.get(SUMMED, 1), s[self.column])
        for p in self.how.products:
            if not self.adds(p) and self.result_step(p) == 1:
                k, s = self.outer(p)
                self.pack(p, self.shell.operands[k], self.base(s, self.lead), self.n,
                          self.size(p, ALONE), s[self.column], s.get(ALONE, 1))

        def block(r: Index) -> list[Any]:
            count = memory.computed("minsi", memory.computed("subi", end, r), self.block)
            self.rows(lead, r, count)
            return []

        memory.loop(end, block, start=self.start, step=self.block)

    def rows(self, lead: Index, r: Index, count: Index) -> None:
        """One block of rows."""
        how, shell = self.how, self.shell
        for p in how.scores:
            k, s = self.sides(p)[0]
            self.multiply(p, shell.operands[k], self.base(s, self.lead, r), self.scores[p.middle],
                          0, count, self.n, self.size(p, SUMMED), s[self.row], s.get(SUMMED, 1),
                          self.pitch)
        first = memory.add(memory.times(lead, self.m), r)
        back = memory.computed("subi", 0, memory.times(first, self.pitch))

        def whole(m: Memory, a: Atom) -> Memory:  # what a block has of a square, as that
            steps = iter(memory.row_major((*self.leads, self.m, self.pitch)))
            shape = a.aval.shape
            return m.view(shape, [next(steps) if n > 1 else 0 for n in shape], back)

        Kernel(shell, how.middle, how.rows,
               [whole(self.scores[j], v) if k < 0 else shell.operands[k]
                for j, (k, v) in enumerate(zip(how.inputs, how.middle.inputs))],
               [whole(self.given[j], v) if k < 0 else shell.results[k]
                for j, (k, v) in enumerate(zip(how.outputs, how.middle.outputs))],
               (first, memory.add(first, count))).emit()
        for p in how.products:
            (self.add if self.adds(p) else self.write)(p, r, count)

    def write(self, p: Product, r: Index, count: Index) -> None:
        """Rows of a result, which may be its columns."""
        (k, s), result, given = self.outer(p), self.result_strides(p), self.given[p.middle]
        out, at = self.shell.results[p.result], self.base(result, self.lead, r)
        step, size, n = self.result_step(p), self.size(p, ALONE), self.n
        if step == 1:
            self.multiply(p, given, 0, out, at, count, size, n, self.pitch, 1, result[self.row])
        else:
            self.pack(p, given, 0, n, count, 1, self.pitch)
            self.multiply(p, self.shell.operands[k], self.base(s, self.lead), out, at, size, count,
                          n, s.get(ALONE, 1), s[self.column], step)

    def add(self, p: Product, r: Index, count: Index) -> None:
        """What a block adds to the result of its strip."""
        (k, s), result, given = self.outer(p), self.result_strides(p), self.given[p.middle]
        number, size, n = self.part, self.size(p, ALONE), self.n
        for axis in self.along(p):
            number = memory.add(memory.times(number, self.leads[axis]), self.lead[axis])
        out, other = self.shell.results[p.result], self.shell.operands[k]
        at = memory.add(self.base(result, self.lead),
                        memory.times(number, math.prod(self.outs[p.result].shape)))
        begin, step = self.base(s, self.lead, r), self.result_step(p)
        more = mlir.value("arith.index_castui", memory.index_type(), [mlir.value(
            "arith.cmpi", mlir.ir().IntegerType.get_signless(1),
            [memory.index(r), memory.index(self.start)], predicate="1 : i64")])  # not the first
        if step == 1:
            self.pack(p, other, begin, count, size, s[self.row], s.get(ALONE, 1))
            self.multiply(p, given, 0, out, at, n, size, count, 1, self.pitch,
                          result[self.column], more)
        else:
            self.pack(p, given, 0, count, n, self.pitch, 1)
            self.multiply(p, other, begin, out, at, size, n, count, s.get(ALONE, 1), s[self.row],
                          step, more)

    # ---- calls of native/gemm.c
    def pack(self, p: Product, m: Memory, at: Index, depth: Index, columns: Index, row: int,
             column: int) -> None:
        self.call("calque_pack", m.dtype, [(m, at), (self.packs[p], 0)],
                  [depth, columns, row, column])

    def multiply(self, p: Product, a: Memory, a_at: Index, c: Memory, c_at: Index, rows: Index,
                 columns: Index, depth: Index, a_row: int, a_column: int, c_row: int,
                 add: Index = 0) -> None:
        self.call("calque_packed", a.dtype, [
            (a, a_at), (self.packs[p], 0), (c, c_at), (self.works[self.sums(p)], 0)],
                  [rows, columns, depth, a_row, a_column, c_row, add])

    def call(self, entry: str, dtype: Dtype, arrays: Sequence[tuple[Memory, Index]],
             scalars: Sequence[Index]) -> None:
        i64 = mlir.ir().IntegerType.get_signless(64)
        given = [v for m, at in arrays for v in self.shell.pointer(m, at)]
        given += [mlir.value("arith.index_cast", i64, [memory.index(s)]) for s in scalars]
        self.shell.call_c(f"{entry}_{gemm.SUFFIXES[dtype.name]}", given)
