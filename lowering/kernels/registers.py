"""Loops in registers (passes/registers): every number of a row is a value, a vector holds as many
rows as it has lanes, and a vector's loop ends when its last row is done.

Start reading at `emit`, then `_Loop`.
"""
from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from calque.core.program import Equation, inner_of
from calque.core.types import Dtype, Shape
from calque.lowering.emit import mlir
from calque.lowering.emit.builder import Value, int_array
from calque.lowering.emit.dtypes import I32
from calque.lowering.kernels import memory
from calque.lowering.kernels.memory import Index, Memory
from calque.lowering.kernels.shell import Shell
from calque.lowering.kernels.values import SCALAR, KernelBuilder
from calque.lowering.passes import loops
from calque.lowering.passes.registers import Place, Plan
from calque.lowering.passes.scalars import (
    Grid,
    Scalars,
    Symbol,
    Table,
    grid,
    is_known,
    is_table,
)

HEAVY = 30  # work of all uses of a function from which on it is written once and called: else LLVM
# takes 6 s for 400 equations, 134 of them sines
GROUPS = 64  # workgroups that rows are spread over at most
BLOCKS, WORTH = 4, 20_000  # vectors that one takes at least, or what they compute
SHARE = 1 << 14  # numbers of what is done once that are worth a workgroup
SHORT, MANY = 100, 512  # numbers of a step, rows: of such loops vectors are twice as long where
AVX2 = 32  # registers have so many bytes (shorter ones run out: at x86-64-v2 1.15 of the time)
WIDE = 8  # numbers of a row up to which rows are read and written as they lie, and sorted by lanes;
BLOCK = 8  # others in blocks of so many rows and numbers, turned round, up to
WIDEST = 64  # numbers of a row


def width(shell: Shell, plan: Plan, arrays: Sequence[Memory]) -> int:
    """Lanes: several vectors of one row's numbers hide what each waits for, where there are few."""
    wide = _wide(plan) and shell.registers.nbytes >= AVX2
    lanes = (256 if wide else 128) // max(4, *[m.dtype.itemsize for m in arrays])
    if plan.flat is None and plan.state > 1:
        lanes //= 2
    if "tables" in plan.params and any(
            m.size > WIDE * plan.rows for m in arrays[plan.params["tables"]:]):
        lanes = BLOCK  # what is turned round takes time to compile
    while lanes > plan.rows:
        lanes //= 2
    return max(1, lanes)


def _wide(plan: Plan) -> bool:
    """Whether a row's numbers wait for one another more than for registers: short steps, which end
    with those of all rows (else all wait for the last), of rows enough for all cores."""
    return (plan.flat is not None and ("length" in plan.params or plan.ends_together())
            and plan.numbers <= SHORT and plan.rows >= MANY)


def emit(shell: Shell, name: str, plan: Plan) -> None:
    """The loop, a scan or a while, or what is done once ("points"), of a kernel's operands."""
    operands, results, distribute = shell.operands, shell.results, shell.distribute
    shell.heavy = HEAVY
    for inner in inner_of(plan.params):
        shell.count(loops.maps(inner), lambda e: (
            1 if plan.flat is not None else e.outputs[0].aval.size))
    if _crosses(plan, operands):
        _crossed(shell, plan)
        return
    lanes = width(shell, plan, [*operands, *results])
    loop = _Loop(shell, SCALAR if lanes == 1 else KernelBuilder(lanes), name, plan, operands,
                 results)
    blocks = -(-plan.rows // lanes)
    work = plan.numbers * plan.params.get("length", 1)
    if name == "points":
        each = max(BLOCKS, SHARE // (lanes * max(1, work)))
    else:
        each = BLOCKS if work * BLOCKS < WORTH else max(1, WORTH // work)
    groups = min(GROUPS, max(1, blocks // each))
    count = -(-blocks // groups) * lanes

    def part(at: Index) -> list[Any]:
        if plan.rows % lanes:  # the last vector begins earlier, over rows that are done twice
            at = memory.computed("minsi", at, plan.rows - lanes)
        loop.rows(at)
        return []

    if groups == 1:
        memory.loop(blocks * lanes, part, step=lanes)
        return
    first = memory.times(distribute(groups), count)
    end = memory.computed("minsi", memory.add(first, count), blocks * lanes)
    memory.loop(end, part, start=first, step=lanes)


def _crosses(plan: Plan, operands: Sequence[Memory]) -> bool:
    """Whether operands of what is done once have some of several axes of rows only."""
    return len(plan.sizes) > 1 and "tables" in plan.params and any(
        0 < place.count(None) < len(place) for place in plan.axes)


def _crossed(shell: Shell, plan: Plan) -> None:
    """The rows of such: vectors run along the last axis, so that what has another one is a number
    that all lanes share, and what has the last one is read as it lies."""
    operands, results, distribute = shell.operands, shell.results, shell.distribute
    along = replace(plan, sizes=plan.sizes[-1:], axes=tuple(p[-1:] for p in plan.axes),
                    results=tuple(p[-1:] for p in plan.results))
    lanes = width(shell, along, [*operands, *results])
    b = SCALAR if lanes == 1 else KernelBuilder(lanes)
    count, n = math.prod(plan.sizes[:-1]), plan.sizes[-1]
    blocks = -(-n // lanes)
    each = max(BLOCKS, SHARE // (lanes * max(1, plan.numbers)))
    groups = min(GROUPS, max(1, count * blocks // each))

    def lines(first: Index, end: Index, start: Index, stop: Index) -> None:
        def line(i: Index) -> list[Any]:
            where = _coordinates(i, plan.sizes[:-1])
            parts = [_at(m, place, where) for m, place in (
                *zip(operands, plan.axes), *zip(results, plan.results))]
            loop = _Loop(shell, b, "points", along, parts[:len(operands)], parts[len(operands):],
                         len(plan.sizes))

            def part(at: Index) -> list[Any]:
                loop.rows(memory.computed("minsi", at, n - lanes) if n % lanes else at)
                return []

            memory.loop(stop, part, start=start, step=lanes)
            return []

        memory.loop(end, line, start=first)

    if groups == 1:
        lines(0, count, 0, blocks * lanes)
    elif count >= groups:
        group = distribute(groups)
        first, end = (memory.quotient(memory.times(i, count), groups)
                      for i in (group, memory.add(group, 1)))
        lines(first, end, 0, blocks * lanes)
    else:
        share = -(-blocks // min(groups, blocks)) * lanes
        start = memory.times(distribute(-(-blocks * lanes // share)), share)
        lines(0, count, start, memory.computed("minsi", memory.add(start, share), blocks * lanes))


def _coordinates(i: Index, sizes: Sequence[int]) -> list[Index]:
    """Where element i of a shape stands."""
    found: list[Index] = []
    for k, n in reversed(list(enumerate(sizes))):
        found.insert(0, memory.remainder(i, n) if k else i)
        i = memory.quotient(i, n)
    return found


def _at(m: Memory, place: Place, where: Sequence[Index]) -> Memory:
    """What of an operand belongs to rows at these coordinates of all axes but the last."""
    for axis, i in zip(place, where):
        if axis is not None:
            m = m.cut(axis, i, 1)
    return m


class _Registers:
    """scalars.Arithmetic on values of a KernelBuilder; `shared`: what all rows share is a number,
    as is what follows from such alone, and all rows of the outermost loop end together."""

    def __init__(self, b: KernelBuilder, shell: Shell, shared: bool = False) -> None:
        self.b, self.shell, self.shared = b, shell, shared
        self.is_within = False  # the outermost loop

    def alike(self, *xs: Value) -> tuple[KernelBuilder, list[Value]]:
        """Operands, all numbers or in all lanes."""
        if not self.shared or all(_lanes(x) == self.b.lanes for x in xs):
            return self.b, list(xs)
        if all(_lanes(x) == 1 for x in xs):
            return SCALAR, list(xs)
        return self.b, [self.in_lanes(x) for x in xs]

    def in_lanes(self, x: Value) -> Value:
        return x if _lanes(x) == self.b.lanes else self.b.to_lanes(x)

    def constant(self, value: Any, dtype: Dtype) -> Value:
        return (SCALAR if self.shared else self.b).splat(value, (), dtype)

    def leaf(self, e: Equation, xs: list[Value]) -> Value:
        b, xs = self.alike(*xs)
        return self.shell.apply(b, e, xs)

    def binary(self, how: str, x: Value, y: Value, dtype: Dtype) -> Value:
        b, (x, y) = self.alike(x, y)
        return b.binary(how, x, y)

    def fma(self, x: Value, y: Value, z: Value, dtype: Dtype) -> Value:
        b, (x, y, z) = self.alike(x, y, z)
        return b.fma(x, y, z) if dtype.kind == "f" else x * y + z

    def select(self, where: Value, x: Value, y: Value) -> Value:
        b, (where, x, y) = self.alike(where, x, y)
        return b.select(where, x, y)

    def at_least(self, x: Value, k: int) -> Value:
        return x.b.compare("GE", x, k)

    def below(self, x: Value, k: int) -> Value:
        return x.b.compare("LT", x, k)

    def convert(self, x: Value, old: Dtype, new: Dtype) -> Value:
        return x.b.convert(x, new)

    def loop(self, length: int, carry: list[Value],
             step: Callable[[list[Value]], list[Value]]) -> list[Value]:
        return self.counted(length, carry, lambda i, now: step(now))

    def counted(self, length: int, carry: list[Value],
                step: Callable[[Index, list[Value]], list[Value]]) -> list[Value]:
        carry = list(map(self.in_lanes, carry))
        dtypes = [c.dtype for c in carry]

        def body(i: Index, *raw: Any) -> list[Any]:
            return [self.in_lanes(v).ir for v in step(i, self.values(raw, dtypes))]

        return self.values(memory.loop(length, body, [c.ir for c in carry]), dtypes)

    def values(self, raw: Sequence[Any], dtypes: Sequence[Dtype]) -> list[Value]:
        return [Value(self.b, r, (), d) for r, d in zip(raw, dtypes)]

    def until(self, go: Callable[[list[Value]], Value], carry: list[Value],
              step: Callable[[list[Value]], list[Value]]) -> list[Value]:
        if self.shared and not self.is_within:
            self.is_within = True
            return self.together(go, carry, step)
        return self.b.loop(
            lambda *now: self.in_lanes(go(list(now))),
            lambda *now: list(map(self.in_lanes, step(list(now)))), [*map(self.in_lanes, carry)])

    def together(self, go: Callable[[list[Value]], Value], carry: list[Value],
                 step: Callable[[list[Value]], list[Value]]) -> list[Value]:
        """A loop that all rows end at once: no lane keeps what it has."""
        def values(raw: Sequence[Any]) -> list[Value]:
            return [Value(c.b, r, (), c.dtype) for r, c in zip(raw, carry)]

        def goes_on(*now: Any) -> list[Any]:
            return [go(values(now)).ir, *now]

        def after(*now: Any) -> list[Any]:
            return [v.ir if _lanes(v) == _lanes(c) else self.in_lanes(v).ir
                    for v, c in zip(step(values(now)), carry)]

        return values(mlir.while_loop([c.ir for c in carry], goes_on, after))


class _Loop:
    """The loop for as many rows as b has lanes."""

    def __init__(self, shell: Shell, b: KernelBuilder, name: str, plan: Plan,
                 operands: Sequence[Memory], results: Sequence[Memory], axes: int | None = None
                 ) -> None:
        self.shell, self.b, self.name, self.plan = shell, b, name, plan
        self.operands, self.results = operands, results
        self.shared = name == "while" and b.lanes > 1 and plan.ends_together()
        self.registers = _Registers(b, shell, self.shared)
        self.scalars = Scalars(self.registers, 1 << 30, plan.flat)
        self.first = [] if plan.flat is not None else [grid((), [np.int32(0)])] * (
            len(plan.sizes) if axes is None else axes)  # what split rewrites takes the first row
        self.offsets: dict[tuple[int, ...], list[Index]] = {}

    def rows(self, at: Index) -> None:
        """All steps of the rows from `at` on."""
        self.offsets.clear()
        p, axes = self.plan.params, self.plan.axes
        if self.name == "while":
            self.until(at)
            return
        if self.name == "points":
            given = [(self.const if i < p["tables"] else self.get)(m, a, at)
                     for i, (m, a) in enumerate(zip(self.operands, axes))]
            for y, m, a in zip(self.scalars.run(p["jaxpr"], [*self.first, *given]), self.results,
                               self.plan.results):
                self.put(y, m, a, at)
            return
        k = p["num_consts"] - len(self.first)
        c = k + p["num_carry"]
        consts = [*self.first, *[self.const(m, a, at) for m, a in zip(self.operands[:k], axes)]]
        init = [self.get(m, a, at) for m, a in zip(self.operands[k:c], axes[k:c])]
        n, length, body = p["num_carry"], p["length"], p["jaxpr"]
        state = self.scalars.state(init, [m.dtype for m in self.operands[k:c]])

        def step(i: Index, now: list[Symbol]) -> list[Symbol]:
            t = i if not p["reverse"] else back(length, i)
            xs = [self.get(m.row(t), a, at) for m, a in zip(self.operands[c:], axes[c:])]
            outs = self.scalars.run(body, [*consts, *state.packed(now), *xs])
            for y, m, a in zip(outs[n:], self.results[n:], self.plan.results[n:]):
                self.put(y, m.row(t), a, at)
            return state.flat(outs[:n])

        final = state.packed(self.registers.counted(length, state.flat(init), step))
        for g, m, a in zip(final, self.results, self.plan.results):
            self.put(g, m, a, at)

    def until(self, at: Index) -> None:
        p = self.plan.params
        k = p["cond_nconsts"] - len(self.first)
        consts = k + p["body_nconsts"] - len(self.first)
        loaded = [(self.const if i < consts else self.get)(m, a, at)
                  for i, (m, a) in enumerate(zip(self.operands, self.plan.axes))]
        args = [*self.first, *loaded[:k], *self.first, *loaded[k:]]
        for g, m, a in zip(self.scalars.loop_while(p, args), self.results, self.plan.results):
            self.put(g, m, a, at)

    # ---- memory
    def view(self, m: Memory, place: Place) -> tuple[Memory, tuple[int, ...], tuple[int, ...]]:
        """(numbers of a row..., rows) of m; the shape that a row has in the program; and, where no
        one stride leads from row to row, the strides of all axes of rows."""
        sizes = self.plan.sizes
        if self.plan.flat is not None:
            return m.view(sizes, (1 if m.shape else 0,)), (), ()
        rest = [i for i in range(m.ndim) if i not in place]
        steps = tuple(0 if a is None else m.strides[a] for a in place)
        shape = tuple(1 if i in place else n for i, n in enumerate(m.shape))
        rows = m.view([*[m.shape[i] for i in rest], self.plan.rows],
                      [*[m.strides[i] for i in rest], steps[-1] if steps else 0])
        regular = all(s == n * t for s, n, t in zip(steps, sizes[1:], steps[1:]))
        return rows, shape, () if regular else steps

    def const(self, m: Memory, place: Place, at: Index) -> Grid | Table:
        """An operand that is the same in all steps; a large one stays where it is."""
        _, shape, _ = self.view(m, place)
        if self.plan.flat is not None or not is_table(shape):
            return self.get(m, place, at)

        def take(starts: list[Symbol], sizes: Shape) -> Grid:
            base: Index = 0
            for i, (start, n, k) in enumerate(zip(starts, shape, sizes)):
                if i not in place:
                    base = memory.add(base, memory.times(_position(start, n - k), m.strides[i]))
            part = tuple(m.shape[i] if i in place else k for i, k in enumerate(sizes))
            return self.get(m.view(part, m.strides, base), place, at)

        def pick(starts: list[tuple[Symbol, int, int]], where: Sequence[int]) -> Value:
            known, offset = sum(i * s for i, s in zip(where, m.strides)), None
            for start, axis, last in starts:
                if is_known(start):
                    known += min(max(int(start), 0), last) * m.strides[axis]
                    continue
                lanes = self.registers.in_lanes(start)
                safe = self.b.convert(memory.clamped(lanes, last, self.b), I32) * m.strides[axis]
                offset = safe if offset is None else offset + safe
            if offset is None:
                return memory.load(self.b, m.view((), (), known), [])
            return memory.picked(self.b, m.view((), (), known), offset)

        return Table(shape, take, pick)

    def get(self, m: Memory, place: Place, at: Index) -> Grid:
        rows, shape, steps = self.view(m, place)
        inside = list(np.ndindex(*rows.shape[:-1]))
        if steps:
            each = [rows.view(rows.shape[:-1], rows.strides[:-1], k)
                    for k in self.row_offsets(steps, at)]
            return grid(shape, [memory.gathered(self.b, each, i) for i in inside])
        n = self.together(rows)
        if n:
            return grid(shape, self.sorted(rows, n, at))
        b = SCALAR if self.shared and all(axis is None for axis in place) else self.b
        return grid(shape, [memory.load(b, rows, [*i, at]) for i in inside])

    def row_offsets(self, steps: tuple[int, ...], at: Index) -> list[Index]:
        """Where the row of each lane begins."""
        if steps not in self.offsets:
            found = []
            for k in range(self.b.lanes):
                row, offset = memory.add(at, k), 0
                for n, step in zip(reversed(self.plan.sizes), reversed(steps)):
                    offset = memory.add(offset, memory.times(memory.remainder(row, n), step))
                    row = memory.quotient(row, n)
                found.append(offset)
            self.offsets[steps] = found
        return self.offsets[steps]

    def together(self, rows: Memory) -> int:
        """How many numbers of a row lie one after another, with nothing else between rows; 0 where
        they are not few or do not."""
        n = rows.strides[-1]
        inner = rows.view(rows.shape[:-1], rows.strides[:-1])
        return n if self.b.lanes > 1 and 1 < n <= WIDEST and n == inner.size and (
            inner.is_dense()) and (n <= WIDE or self.b.lanes >= BLOCK) else 0

    def sorted(self, rows: Memory, n: int, at: Index) -> list[Value]:
        """The numbers of rows, one vector each."""
        line = rows.view((rows.shape[-1] * n,), (1,))
        if n > WIDE:
            return self.from_blocks(line, n, at)
        every = memory.load(KernelBuilder(self.b.lanes * n), line, [memory.times(at, n)])
        return [_shuffled(self.b, every, every, range(k, self.b.lanes * n, n)) for k in range(n)]

    def from_blocks(self, line: Memory, n: int, at: Index) -> list[Value]:
        """The same of many: the last block begins where a whole one ends with the row."""
        few, parts = KernelBuilder(BLOCK), [list[Value]() for _ in range(n)]
        for row in range(0, self.b.lanes, BLOCK):
            for first in _blocks(n):
                turned = _turned(few, [memory.load(few, line, [memory.add(memory.times(
                    memory.add(at, row + r), n), first)]) for r in range(BLOCK)])
                for k, v in enumerate(turned):
                    if len(parts[first + k]) == row // BLOCK:
                        parts[first + k].append(v)
        return [_joined(part) for part in parts]

    def to_blocks(self, values: list[Value], line: Memory, n: int, at: Index) -> None:
        few = KernelBuilder(BLOCK)
        for row in range(0, self.b.lanes, BLOCK):
            for first in _blocks(n):
                turned = _turned(few, [_shuffled(few, v, v, range(row, row + BLOCK))
                                       for v in values[first:first + BLOCK]])
                for r, v in enumerate(turned):
                    memory.store(few, v, line, [memory.add(memory.times(
                        memory.add(at, row + r), n), first)])

    def put(self, g: Grid, m: Memory, place: Place, at: Index) -> None:
        rows, _, steps = self.view(m, place)
        values = self.scalars.symbols(g, m.dtype)
        if self.shared and any(axis is not None for axis in place):
            values = list(map(self.registers.in_lanes, values))
        n = self.together(rows)
        if n > WIDE:
            self.to_blocks(values, rows.view((rows.shape[-1] * n,), (1,)), n, at)
            return
        if n:
            lanes, every = self.b.lanes, values[0]
            for k, v in enumerate(values[1:], 1):
                every = _shuffled(KernelBuilder(lanes * (k + 1)), every, v, range(lanes * (k + 1)))
            wide = KernelBuilder(lanes * n)
            every = _shuffled(wide, every, every, [
                k * lanes + r for r in range(lanes) for k in range(n)])
            line = rows.view((rows.shape[-1] * n,), (1,))
            memory.store(wide, every, line, [memory.times(at, n)])
            return
        inside = list(np.ndindex(*rows.shape[:-1]))
        if steps:
            for k, offset in enumerate(self.row_offsets(steps, at)):
                row = rows.view(rows.shape[:-1], rows.strides[:-1], offset)
                for i, x in zip(inside, values):
                    memory.store(SCALAR, memory.lane(x, k), row, i)
            return
        for i, x in zip(inside, values):
            if self.b.lanes == 1 or rows.strides[-1] == 1:
                memory.store(self.b, x, rows, [*i, at])
                continue
            for k in range(self.b.lanes if rows.strides[-1] else 1):  # else one for all rows
                memory.store(SCALAR, x if _lanes(x) == 1 else memory.lane(x, k), rows,
                             [*i, memory.add(at, k)])


def _lanes(x: Value) -> int:
    """How many numbers a value of a kernel's is."""
    assert isinstance(x.b, KernelBuilder)
    return x.b.lanes


def _position(start: Symbol, last: int) -> Index:
    """A start that all rows share, brought to 0..last."""
    if is_known(start):
        return min(max(int(start), 0), last)
    return memory.position(memory.clamped(
        memory.lane(start, 0) if _lanes(start) > 1 else start, last))


def _blocks(n: int) -> list[int]:
    """Where the blocks of n numbers begin."""
    return [min(first, n - BLOCK) for first in range(0, n, BLOCK)]


def _turned(b: KernelBuilder, xs: list[Value]) -> list[Value]:
    """As many vectors as they have lanes, as a matrix: its transposition (J. O. Eklundh, "A fast
    computer method for matrix transposing", 1972)."""
    step = 1
    while step < b.lanes:
        made = list(xs)
        for i in range(b.lanes):
            if not i & step:
                x, y, lanes = xs[i], xs[i + step], range(b.lanes)
                made[i] = _shuffled(b, x, y, [
                    b.lanes + k - step if k & step else k for k in lanes])
                made[i + step] = _shuffled(b, x, y, [
                    b.lanes + k if k & step else k + step for k in lanes])
        xs, step = made, 2 * step
    return xs


def _joined(parts: list[Value]) -> Value:
    """Vectors of BLOCK lanes one behind another."""
    lanes = BLOCK
    while len(parts) > 1:
        lanes *= 2
        parts = [_shuffled(KernelBuilder(lanes), x, y, range(lanes))
                 for x, y in zip(parts[::2], parts[1::2])]
    return parts[0]


def _shuffled(b: KernelBuilder, x: Value, y: Value, order: Sequence[int]) -> Value:
    """Lanes of x and then y, picked."""
    made = mlir.value("vector.shuffle", b.type_of(x.dtype), [x.ir, y.ir], mask=int_array(order))
    return Value(b, made, (), x.dtype)


def back(length: int, i: Index) -> Index:
    """The position of step i of a loop that runs from the end."""
    if isinstance(i, int):
        return length - 1 - i
    return memory.computed("subi", length - 1, i)
