"""scan and while as one dispatch of a kernel written here, in a `stream.executable` of the module.

A loop whose rows hold few numbers runs in registers, spread over workgroups (kernels/registers);
any other runs over memory (kernels/tensors), in one workgroup, or in several that take parts of its
rows where these are independent (passes/split).  Start reading at `emit_kernel`.
"""
from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from calque.core.avals import ShapedArray
from calque.core.program import Equation, Literal, Program
from calque.lowering import mlir
from calque.lowering.builder import Builder, Dtype, Value
from calque.lowering.kernels import joined, memory, registers
from calque.lowering.kernels.contract import panel_width, registers_of
from calque.lowering.kernels.dispatch import dispatch
from calque.lowering.kernels.joined import Part
from calque.lowering.kernels.memory import Index, Memory
from calque.lowering.kernels.tensors import Emitter, Entry
from calque.lowering.kernels.values import SCALAR
from calque.lowering.passes import loops
from calque.lowering.passes.cost import MOST_BINDINGS
from calque.lowering.passes.cost import equation_work as work_of
from calque.lowering.passes.panels import Panels, panels
from calque.lowering.passes.registers import plan
from calque.lowering.passes.split import part_of, rows_of, split
from calque.lowering.rules.registry import Context

STACK = 16 * 1024  # bytes of scratch kept on the stack (IREE allows 32768)
TURNED = 256  # elements from which on an array of the carry is not copied home in each step
SPREAD_WORK = 2_000_000  # element operations from which several workgroups pay


def emit_kernel(ctx: Context, e: Equation, xs: Sequence[Value], outs: Sequence[ShapedArray]
                ) -> list[Value]:
    """The results of a loop that cost.is_kernel allows."""
    found = plan(e)
    if found is None:
        level, n, m = registers_of(ctx.target), rows_of(e), _part_of(e)
        e, sources = panels(e, lambda rows, columns, dtype: panel_width(
            rows if not m or rows % n else rows // n * m, columns, dtype, level))
        xs = [xs[s] if isinstance(s, int) else _panelled(ctx.b, xs[s.source], s) for s in sources]
    shell = _Shell(ctx, xs, outs)
    with shell.inside():
        if found is not None:
            registers.emit(shell.spread, e, found, shell.operands, shell.results)
        elif not _over_rows(shell, e):
            _over_memory(shell, e)
    return shell.dispatch(ctx.entering(xs))


def _panelled(b: Builder, x: Value, p: Panels) -> Value:
    x = b.transpose(x, p.order)
    x = b.convert(b.reshape(x, (p.depth, _size(x.shape) // p.depth)), p.dtype)
    x = b.pad(x, 0, [(0, 0, 0), (0, p.padded - x.shape[1], 0)])
    return b.transpose(b.reshape(x, (p.depth, p.padded // p.width, p.width)), (1, 0, 2))


def emit_whole(ctx: Context, p: Program, xs: Sequence[Value], outs: Sequence[ShapedArray]
               ) -> list[Value]:
    """The outputs of a small Program (cost.is_whole) as one dispatch."""
    shell = _Shell(ctx, xs, outs)
    with shell.inside():
        emitter = Emitter(shell.allocate, emit_loop, shell.registers)
        entries = [memory.load(SCALAR, m, []) if not m.shape else m for m in shell.operands]
        wanted: dict[Any, list[Memory]] = {}
        for o, m in zip(p.outputs, shell.results):
            if m.shape and o not in p.inputs and not isinstance(o, Literal):
                wanted.setdefault(o, []).append(m)
        for o, out, m in zip(p.outputs, emitter.run(p, entries, wanted), shell.results):
            if o not in wanted:
                emitter.copy(out, m)
    return shell.dispatch(xs)


Spec = tuple[tuple[int, ...], Dtype]


def _size(shape: Sequence[int]) -> int:
    return int(np.prod(shape, dtype=np.int64))


def bundles(operands: Sequence[Spec], results: Sequence[Spec], most: int
            ) -> tuple[list[list[int]], list[list[int]]]:
    """Which operands and which results lie together in one binding, so that there are at most
    `most`: of one dtype, small ones first; one that is alone keeps its shape."""
    every = [*[(False, i, s) for i, s in enumerate(operands)],
             *[(True, i, s) for i, s in enumerate(results)]]
    every.sort(key=lambda v: _size(v[2][0]) * v[2][1].itemsize)
    alone, joined = {(r, i) for r, i, _ in every}, dict[tuple[bool, Dtype], list[int]]()
    for r, i, (_, dtype) in every:
        if len(alone) + len(joined) <= most:
            break
        alone.remove((r, i))
        joined.setdefault((r, dtype), []).append(i)
    groups = [sorted(g) for g in joined.values()]
    found = [sorted([*[[i] for q, i in alone if q == r],
                     *[g for (q, _), g in zip(joined, groups) if q == r]]) for r in (False, True)]
    return found[0], found[1]


class _Shell:
    """One executable with one function: operands, results and scratch as bindings.

    A dispatch has few bindings: where there are more arrays, small ones share one.
    """

    def __init__(self, ctx: Context, xs: Sequence[Value], outs: Sequence[ShapedArray]) -> None:
        ir = mlir.ir()
        self.ctx, self.outs = ctx, [(o.shape, o.dtype) for o in outs]
        self.registers = registers_of(ctx.target)
        ctx.kernels += 1
        self.name = f"loop_{ctx.kernels}"
        self.groups = 1
        with ir.InsertionPoint.at_block_begin(ctx.module.body):
            self.executable = ir.Operation.parse(
                f"stream.executable private @{self.name} {{ builtin.module {{ }} }}")
            ir.InsertionPoint.current.insert(self.executable)
        self.exports = self.executable.regions[0].blocks[0]
        self.module = self.exports.operations[0]
        self.binding = ir.Type.parse("!stream.binding", mlir.context())
        self.specs = [(x.shape, x.dtype) for x in xs]
        self.taken, self.given = bundles(self.specs, self.outs, MOST_BINDINGS - 1)  # (and scratch)
        count = len(self.taken) + len(self.given)
        with ir.InsertionPoint(self.module.regions[0].blocks[0]):
            self.function = ir.Operation.create("func.func", regions=1, attributes={
                "sym_name": ir.StringAttr.get(self.name), "function_type": self.type_of(count)})
        self.block = self.function.regions[0].blocks.append(
            *[self.binding] * count, arg_locs=[ir.Location.unknown()] * count)
        self.stack, self.scratch, self.scratch_binding = 0, 0, None
        self.each: Any = None  # bytes of scratch of one workgroup, where there are several
        with ir.InsertionPoint(self.block):
            self.mark = memory.operation("arith.constant", [memory.index_type()], [], {
                "value": ir.Attribute.parse("0 : index")})
        self.operands = self.bound(0, self.taken, self.specs)
        self.results = self.bound(len(self.taken), self.given, self.outs)

    def type_of(self, count: int) -> Any:
        ir = mlir.ir()
        return ir.TypeAttr.get(ir.FunctionType.get([self.binding] * count, []))

    def inside(self) -> Any:
        return mlir.ir().InsertionPoint(self.block)

    def spread(self, groups: int) -> Index:
        """Several workgroups, with scratch of their own; the number of this one."""
        self.groups = groups
        ir = mlir.ir()
        with ir.InsertionPoint(self.mark):
            group = memory.operation("stream.dispatch.workgroup.id", [memory.index_type()], [], {
                "dimension": ir.Attribute.parse("0 : index")}).results[0]
            self.each = memory.operation("arith.constant", [memory.index_type()], [], {
                "value": ir.Attribute.parse("0 : index")})  # known when the function is closed
            self.own = memory.operation("arith.muli", [memory.index_type()], [
                group, self.each.results[0]]).results[0]
        return group

    def subspan(self, binding: Any, offset: Index, shape: tuple[int, ...], dtype: Dtype) -> Memory:
        ir, size = mlir.ir(), max(1, int(np.prod(shape, dtype=np.int64)))
        with ir.InsertionPoint(self.mark):
            ref = memory.operation(
                "stream.binding.subspan", [memory.memref_type(size, dtype)],
                [binding, memory.index(offset)]).results[0]
        return Memory(ref, 0, shape, memory.row_major(shape), dtype)

    def bound(self, first: int, groups: list[list[int]], specs: list[Spec]) -> list[Memory]:
        """The memory of each of `specs`, whose groups are the bindings from `first` on."""
        found: dict[int, Memory] = {}
        for k, group in enumerate(groups):
            sizes = [_size(specs[i][0]) for i in group]
            whole = self.subspan(self.block.arguments[first + k], 0,
                                 _together(group, specs)[0], specs[group[0]][1])
            for i, at in zip(group, itertools.accumulate(sizes, initial=0)):
                shape = specs[i][0]
                found[i] = whole.view(shape, memory.row_major(shape), at)
        return [found[i] for i in range(len(specs))]

    def allocate(self, shape: tuple[int, ...], dtype: Dtype) -> Memory:
        """Scratch: on the stack while that lasts, where LLVM can turn it into registers."""
        ir, size = mlir.ir(), max(1, int(np.prod(shape, dtype=np.int64)))
        nbytes = -(-size * dtype.itemsize // 64) * 64
        if self.stack + nbytes <= STACK:
            self.stack += nbytes
            with ir.InsertionPoint(self.mark):
                ref = memory.operation("memref.alloca", [memory.memref_type(size, dtype)], [], {
                    "operandSegmentSizes": ir.Attribute.parse("array<i32: 0, 0>"),
                    "alignment": ir.Attribute.parse("64 : i64")}).results[0]
            return Memory(ref, 0, shape, memory.row_major(shape), dtype)
        if self.scratch_binding is None:
            self.scratch_binding = self.block.add_argument(self.binding, ir.Location.unknown())
        with ir.InsertionPoint(self.mark):
            offset = self.scratch if self.each is None else memory.add(self.own, self.scratch)
        made = self.subspan(self.scratch_binding, offset, shape, dtype)
        self.scratch += nbytes
        return made

    def dispatch(self, xs: Sequence[Value]) -> list[Value]:
        """Close the function and call it from the program."""
        ir = mlir.ir()
        with self.inside():
            memory.operation("func.return", [], [])
        if self.each is not None:
            self.each.attributes["value"] = ir.Attribute.parse(f"{self.scratch} : index")
        nbytes = self.scratch * self.groups
        specs = [*[_together(g, self.outs) for g in self.given],
                 *([((nbytes,), np.dtype("i1"))] if nbytes else [])]
        self.function.attributes["function_type"] = self.type_of(len(self.taken) + len(specs))
        with ir.InsertionPoint.at_block_begin(self.exports):
            export = ir.Operation.create("stream.executable.export", regions=1, attributes={
                "sym_name": ir.StringAttr.get(self.name),
                "sym_visibility": ir.StringAttr.get("public"),
                "function_ref": ir.FlatSymbolRefAttr.get(self.name)})
            with ir.InsertionPoint(export.regions[0].blocks.append()):
                sizes = [memory.index(self.groups), memory.index(1), memory.index(1)]
                memory.operation("stream.return", [], sizes)
        b = self.ctx.b
        operands = [_joined(b, [xs[i] for i in g]) for g in self.taken]
        made = dispatch(b, self.name, operands, specs)
        found: dict[int, Value] = {}
        for group, v in zip(self.given, made):
            if len(group) == 1:
                found[group[0]] = v
                continue
            at = 0
            for i in group:
                shape = self.outs[i][0]
                found[i] = b.reshape(b.slice(v, [at], [at + _size(shape)]), shape)
                at += _size(shape)
        return [found[i] for i in range(len(self.outs))]


def _together(group: list[int], specs: Sequence[Spec]) -> Spec:
    """The array that holds those of a group."""
    if len(group) == 1:
        return specs[group[0]]
    return (sum(_size(specs[i][0]) for i in group),), specs[group[0]][1]


def _joined(b: Builder, xs: list[Value]) -> Value:
    return xs[0] if len(xs) == 1 else b.concatenate(
        [b.reshape(x, (_size(x.shape),)) for x in xs], 0)


# ---- over memory
def _over_memory(shell: _Shell, e: Equation) -> None:
    emitter = Emitter(shell.allocate, emit_loop, shell.registers)
    entries = [memory.load(SCALAR, m, []) if not m.shape else m for m in shell.operands]
    outs = emit_loop(emitter, e, entries, shell.results)
    for out, m in zip(outs, shell.results):
        if isinstance(out, Value):
            memory.store(SCALAR, out, m, [])


def _part_of(e: Equation) -> int:
    """How many rows each workgroup takes; 0 where one does it all."""
    return part_of(e) if work_of(e) >= SPREAD_WORK else 0


def _over_rows(shell: _Shell, e: Equation) -> bool:
    """The loop in several workgroups, where its rows are independent; False where they are not."""
    n, m = rows_of(e), _part_of(e)
    parts = split(e, m) if m else None
    if parts is None:
        return False
    first = memory.index(memory.times(shell.spread(-(-n // m)), m))
    if n % m:  # the last group takes rows of the one before it, too
        first = memory.operation("arith.minsi", [memory.index_type()], [
            first, memory.index(n - m)]).results[0]
    row = Value(SCALAR, memory.operation("arith.index_cast", [SCALAR.type_of(np.dtype("i4"))],
                                         [first]).results[0], (), np.dtype("i4"))
    emitter = Emitter(shell.allocate, emit_loop, shell.registers)
    whole = [memory.load(SCALAR, x, []) if not x.shape else x for x in shell.operands]
    p, count = e.params, len(parts.carried)

    def mine(values: Sequence[Any]) -> list[Any]:
        return [x if a is None else x.cut(a, first, m) for x, a in zip(values, parts.carried)]

    def scanned(values: Sequence[Any]) -> list[Any]:
        return [x if a is None else x.cut(a + 1, first, m) for x, a in zip(values, parts.scanned)]

    if e.primitive.name == "scan":
        k = p["num_consts"]
        args = [row, *whole[:k], *mine(whole[k:k + count]), *scanned(whole[k + count:])]
    else:
        k = p["cond_nconsts"]
        n_consts = k + p["body_nconsts"]
        args = [row, *whole[:k], row, *whole[k:n_consts], *mine(whole[n_consts:])]
    stacked = [y.cut(a + 1, first, m) for y, a in zip(shell.results[count:], parts.stacked)
               if a is not None]
    form: Callable[..., list[Entry]] = _while if e.primitive.name == "while" else _scan
    targets = mine(shell.results[:count])
    homes = targets if n % m == 0 else [  # a row of two groups is carried by each, not shared
        t if a is None else shell.allocate(t.shape, t.dtype)
        for t, a in zip(targets, parts.carried)]
    outs = form(emitter, parts.params, args, [*homes, *stacked])
    for out, target in zip(outs, targets):
        if out is not target:  # (a register: the same from every group)
            emitter.copy(out, target)
    return True


def emit_loop(emitter: Emitter, e: Equation, args: Sequence[Entry],
              results: Sequence[Memory] | None) -> list[Entry]:
    """A loop in a kernel, outermost (results given) or within another."""
    if results is None:
        results = [emitter.allocate(v.aval.shape, v.aval.dtype) for v in e.outputs]
    form: Callable[..., list[Entry]] = _while if e.primitive.name == "while" else _scan
    return form(emitter, e.params, list(args), list(results))


class _Carry:
    """The carry of a loop: rank-0 members in registers, arrays in memory of their own.

    Of large arrays (`turned`) there are two, which take turns: a step reads one and writes the
    other, so that nothing is copied.
    """

    def __init__(self, emitter: Emitter, init: Sequence[Entry], homes: Sequence[Memory],
                 turned: Sequence[bool]) -> None:
        self.emitter, self.turned = emitter, turned
        self.homes: list[Memory | None] = [
            None if isinstance(x, Value) else
            emitter.allocate((2, *m.shape), m.dtype) if turn else m
            for x, m, turn in zip(init, homes, turned)]
        self.dtypes = [x.dtype for x in init]
        self.start = [x.ir for x in init if isinstance(x, Value)]
        for x, m in zip(init, self.places(0)):
            if m is not None and x is not m:
                emitter.copy(x, m)

    def places(self, turn: Index) -> list[Memory | None]:
        """Where arrays lie in an even or odd step."""
        return [m if m is None or not turned else
                m.view(m.shape[1:], m.strides[1:], memory.times(turn, m.strides[0]))
                for m, turned in zip(self.homes, self.turned)]

    def entries(self, raw: Sequence[Any], turn: Index = 0) -> list[Entry]:
        scalars = iter(raw)
        return [Value(SCALAR, next(scalars), (), d) if m is None else m
                for m, d in zip(self.places(turn), self.dtypes)]

    def owned(self) -> list[Any]:
        return [m.ref for m, turned in zip(self.homes, self.turned)
                if m is not None and not turned]

    def update(self, outs: Sequence[Part]) -> list[Any]:
        """Write the new arrays home, where they do not take turns; the new registers."""
        refs = self.owned()
        moving: list[tuple[Part, Memory]] = []
        for out, m, turned in zip(outs, self.homes, self.turned):
            if m is None or out is m or turned:
                continue
            if not isinstance(out, Value) and any(q is r for q in joined.refs(out) for r in refs):
                out = self.emitter.temporary(out)  # it is (part of) a carry that changes now
            moving.append((out, m))
        for out, m in moving:
            self.emitter.copy(out, m)
        return [out.ir for out, m in zip(outs, self.homes) if m is None and isinstance(out, Value)]


def _taking_turns(body: Program, k: int, carry: int) -> list[bool]:
    """Which arrays of the carry, inputs from k on, are large and made anew in each step."""
    makers = {v: e for e in body.equations for v in e.outputs}
    return [v.aval.size >= TURNED and o in makers and makers[o].primitive.name in loops.ELEMENTWISE
            for v, o in zip(body.inputs[k:k + carry], body.outputs)]


def _scan(emitter: Emitter, p: dict[str, Any], args: list[Entry], results: list[Memory]
          ) -> list[Entry]:
    body: Program = p["jaxpr"]
    n, k, length = p["num_consts"], p["num_consts"] + p["num_carry"], p["length"]
    consts, xs = args[:n], args[k:]
    turned = _taking_turns(body, n, p["num_carry"])
    carry = _Carry(emitter, args[n:k], results, turned)
    ys = results[p["num_carry"]:]

    def step(i: Index, *raw: Any) -> list[Any]:
        t = i if not p["reverse"] else registers.back(length, i)
        rows = [_row(x, t) for x in xs]
        turn = _odd(i) if any(turned) else 0
        after = carry.places(_odd(memory.add(i, 1)) if any(turned) else 0)
        where = [m.view(m.shape[1:], m.strides[1:], memory.times(t, m.strides[0])) for m in ys]
        wanted: dict[Any, list[Memory]] = {}
        outputs = body.outputs[p["num_carry"]:]
        for o, m in zip(outputs, where):
            if m.shape and o not in body.inputs and not hasattr(o, "value"):
                wanted.setdefault(o, []).append(m)
        for o, place, turns in zip(body.outputs, after, turned):
            if turns and place is not None:
                wanted.setdefault(o, []).append(place)
        outs = emitter.run(body, [*consts, *carry.entries(raw, turn), *rows], wanted,
                           carry.owned())
        for o, y, m in zip(outputs, outs[p["num_carry"]:], where):
            if o not in wanted:
                emitter.copy(y, m)
        return carry.update(outs[:p["num_carry"]])

    final = carry.entries(memory.loop(length, step, carry.start), length % 2)
    for i, m in enumerate(results[:p["num_carry"]]):
        if turned[i]:
            emitter.copy(final[i], m)
            final[i] = m
    return [*final, *ys]


def _odd(i: Index) -> Index:
    """i mod 2."""
    return i % 2 if isinstance(i, int) else memory.operation(
        "arith.andi", [memory.index_type()], [i, memory.index(1)]).results[0]


def _row(x: Entry, t: Index) -> Entry:
    assert isinstance(x, Memory)
    row = x.view(x.shape[1:], x.strides[1:], memory.times(t, x.strides[0]))
    return row if row.shape else memory.load(SCALAR, row, [])


def _while(emitter: Emitter, p: dict[str, Any], args: list[Entry], results: list[Memory]
           ) -> list[Entry]:
    ir = mlir.ir()
    k = p["cond_nconsts"]
    n = k + p["body_nconsts"]
    carry = _Carry(emitter, args[n:], results, [False] * len(results))
    types = [r.type for r in carry.start]
    op = memory.operation("scf.while", types, carry.start, regions=2)
    places = [ir.Location.current] * len(types)
    before = op.regions[0].blocks.append(*types, arg_locs=places)
    with ir.InsertionPoint(before):
        (pred,) = emitter.run(p["cond_jaxpr"], [*args[:k], *carry.entries(before.arguments)])
        assert isinstance(pred, Value)
        memory.operation("scf.condition", [], [pred.ir, *before.arguments])
    after = op.regions[1].blocks.append(*types, arg_locs=places)
    with ir.InsertionPoint(after):
        outs = emitter.run(p["body_jaxpr"], [*args[k:n], *carry.entries(after.arguments)],
                           owned=carry.owned())
        memory.operation("scf.yield", [], carry.update(outs))
    return carry.entries(list(op.results))
