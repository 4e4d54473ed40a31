"""cond, scan and while.

A cond whose branches are cheap computes all of them and selects: a real branch makes the program
wait for its predicate on the host.  A scan that is short is unrolled; others are a counted
stablehlo.while, whose stacked outputs are written into fresh buffers.
"""
from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from calque.core.avals import ShapedArray
from calque.core.lists import split_list
from calque.core.primitive import registry
from calque.core.program import Program
from calque.lowering.emit import mlir
from calque.lowering.emit.builder import Builder, Value
from calque.lowering.emit.context import Context, physical
from calque.lowering.emit.dtypes import F32, I32
from calque.lowering.emit.registry import Op, rule
from calque.lowering.kernels import emit_kernel, emit_whole
from calque.lowering.kernels.forms import form_of
from calque.lowering.passes.cost import (
    calls_python,
    is_cheap,
    is_stepped,
    is_unrolled,
    refusal,
    writes_in_place,
)
from calque.lowering.passes.loops import DTYPES
from calque.lowering.plan.refusal import Refusal
from calque.lowering.rules import views
from calque.lowering.rules.index import emit_slice, emit_update
from calque.lowering.rules.reduce import emit_reduce, fold


@rule("cond")
def _cond(op: Op) -> list[Value]:
    index, *operands = op.operands
    branches: tuple[Program, ...] = op["branches"]
    if len(branches) == 1:
        return op.ctx.emit_program(branches[0], operands)
    op.ctx.aliases.shared.update(operands)
    fixed = views.is_possible(op.outs)
    # Of unknown sizes inside a loop always: a branch in a loop in IREE may fail when it runs
    # ("indirect buffer reference slot 0 is out of range").
    # But never what calls Python: a branch that is not taken may raise.
    if all(is_cheap(p) for p in branches) or (
            op.ctx.loops and not fixed and not any(calls_python(p) for p in branches)):
        results = [op.ctx.emit_program(p, operands) for p in branches]
        return _selects(op.ctx, index, [list(cases) for cases in zip(*results)])
    with op.ctx.plan.within("host branch", op.ctx.equation):
        return _branch(op, index, operands, branches, fixed)


def _branch(op: Op, index: Value, operands: list[Value], branches: Sequence[Program],
            fixed: bool) -> list[Value]:
    """The branch that the host takes; `fixed`: all sizes of results are known."""
    # With two of IREE's own branches in a program, memory was freed or used again too early on
    # local-task (tests/lowering/test_branches_with_callbacks.py: "transient buffer has not been
    # committed", or wrong values).
    if fixed:
        op.ctx.aliases.protect(*operands)
        return views.branch(op.ctx, index, len(branches),
                            lambda i: op.ctx.emit_program(branches[i], operands),
                            [(a.shape, a.dtype) for a in op.outs])
    return _case(op.ctx, index, operands, branches, op.outs)


def _selects(ctx: Context, index: Value, every: list[list[Value]]) -> list[Value]:
    """A choice among each of `every`.  IREE makes one dispatch of numbers that follow each other,
    which takes all that they are chosen among: of many there is a cut after every few."""
    most = max(ctx.fusion.limit // (len(every[0]) + 1), 1) if every else 1
    chosen: list[Value] = []
    for i, cases in enumerate(every):
        chosen.append(_select(ctx.b, index, cases))
        if i % most == most - 1 and not chosen[-1].shape:
            (chosen[-1],) = ctx.b.barrier(chosen[-1])
    return chosen


def _select(b: Builder, index: Value, cases: list[Value]) -> Value:
    result = cases[-1]
    for i in range(len(cases) - 2, -1, -1):
        take = index <= i if i == 0 else index.eq(i)
        result = b.select(b.broadcast(take, result.shape, ()), cases[i], result)
    return result


def _case(ctx: Context, index: Value, operands: list[Value], branches: Sequence[Program],
          outs: list[ShapedArray]) -> list[Value]:
    ir = mlir.ir()
    specs = [(a.shape, a.dtype) for a in outs]
    op = ctx.b.op("stablehlo.case", [index], specs, regions=len(branches))
    roots = [frozenset[int]()] * len(outs)
    for region, program in zip(op.regions, branches):
        block = region.blocks.append()
        with ir.InsertionPoint(block):
            with ctx.inside(loop=False):
                results = [ctx.opaque(r) for r in ctx.emit_program(program, operands)]
            ir.Operation.create("stablehlo.return", operands=[r.ir for r in results])
        roots = [r | ctx.aliases.roots_of(v) for r, v in zip(roots, results)]
    results = [ctx.b.tied(Value(ctx.b, r, *spec)) for r, spec in zip(op.results, specs)]
    for r, found in zip(results, roots):
        ctx.aliases.roots[r] = found | {id(r)}
    return results


@rule("scan")
def _scan(op: Op) -> list[Value]:
    body: Program = op["jaxpr"]
    n_carry, length = op["num_carry"], op["length"]
    consts, carry, stacked = split_list(op.operands, op["num_consts"], n_carry)
    why = _refusal(op.ctx)
    if why is None:
        return emit_kernel(op.ctx, op.ctx.equation, op.operands, op.outs)
    op.ctx.aliases.shared.update(consts)
    loop = _Loop(op.ctx, body, consts, stacked, n_carry, length, op["reverse"])
    if is_unrolled(op.params):
        return loop.unrolled(carry)
    loop.views = _by_views(op.ctx, [body], [*carry, *op.outs])
    if loop.in_place:
        # IREE's loop writes into its initial values even if they are used after it
        carry = [_private(op.ctx, c) for c in carry]
    op.ctx.plan.refuse(why)
    with op.ctx.plan.within("host loop", op.ctx.equation):
        return loop.rolled(carry, op.outs[n_carry:])


def _private(ctx: Context, v: Value) -> Value:
    return ctx.aliases.private(v) if v.ndim else v


class _Loop:
    """One scan being emitted."""

    def __init__(self, ctx: Context, body: Program, consts: Sequence[Value],
                 xs: Sequence[Value], n_carry: int, length: int, reverse: bool) -> None:
        self.ctx, self.body, self.consts, self.xs = ctx, body, consts, xs
        self.n_carry, self.length, self.reverse = n_carry, length, reverse
        self.views = False  # what is carried is buffer views
        self.in_place = writes_in_place(body)  # what it carries is its own

    def unrolled(self, carry: Sequence[Value]) -> list[Value]:
        b = self.ctx.b
        rows: list[list[Value]] = []
        order = range(self.length)
        for i in reversed(order) if self.reverse else order:
            sliced = [self._row(x, i) for x in self.xs]
            outs = self.ctx.emit_program(self.body, [*self.consts, *carry, *sliced])
            carry = outs[:self.n_carry]
            rows.append([b.reshape(y, (1, *y.shape)) for y in outs[self.n_carry:]])
        if self.reverse:
            rows.reverse()
        ys = [_joined(b, list(column)) for column in zip(*rows)] if rows else [
            b.splat(0, (0, *a.shape), a.dtype)
            for a in map(physical, self.body.out_avals[self.n_carry:])]
        return [*carry, *ys]

    def _row(self, x: Value, i: int) -> Value:
        return self._first(self.ctx.b.slice_in_dim(x, i, i + 1, 0), x)

    def _first(self, rows: Value, x: Value) -> Value:
        """The only row of a cut of x; it is x's own memory when x has one row."""
        row = self.ctx.b.reshape(rows, rows.shape[1:])
        self.ctx.note(registry["slice"], [x], [row])
        return row

    def rolled(self, carry: Sequence[Value], ys: Sequence[ShapedArray]) -> list[Value]:
        b = self.ctx.b
        made = [b.splat(0, y.shape, y.dtype) for y in ys]
        self.ctx.constants.update(made)
        made = [self.ctx.opaque(v) for v in made]
        if len(made) > 1 or self.views:  # IREE makes equal ones one, and writes into it: this
            made = [_private(self.ctx, v) for v in made]  # loop's, or one within it starts from
        state = [*[self.ctx.opaque(v) for v in carry], *made]
        if self.views:
            self.ctx.aliases.protect(*self.consts, *self.xs)
            return views.counted(self.ctx, self.length, state, self._step,
                                 0 if self.in_place else self.n_carry)
        out = emit_while(self.ctx, [b.splat(0, (), I32), *state], slice(1, 1 + self.n_carry),
                         lambda values: values[0] < self.length,
                         lambda values: [values[0] + 1, *self._step(values[0], values[1:])],
                         self.in_place)
        return out[1:]

    def _step(self, i: Value, state: list[Value]) -> list[Value]:
        ctx, b = self.ctx, self.ctx.b
        carry, buffers = state[:self.n_carry], state[self.n_carry:]
        at = b.number(self.length - 1, I32) - i if self.reverse else i
        rows = [self._first(emit_slice(b, x, [at, *_zeros(b, x)], (1, *x.shape[1:])), x)
                for x in self.xs]
        outs = ctx.emit_program(self.body, [*self.consts, *carry, *rows])
        written = []
        for buffer, y in zip(buffers, outs[self.n_carry:]):
            row = b.reshape(y, (1, *y.shape))
            written.append(emit_update(ctx, buffer, row, [at, *_zeros(b, buffer)]))
        carry = outs[:self.n_carry]
        if self.in_place:
            carry = apart(ctx, carry, (*self.consts, *self.xs))
        return [*carry, *written]


def _is_made_in(block: Any, v: Value) -> bool:
    """Whether a block makes a value, or is given it."""
    operation = getattr(v.ir.owner, "operation", None)  # (the block itself owns its arguments)
    return bool((v.ir.owner if operation is None else operation.block) == block)


def emit_while(ctx: Context, state: list[Value], carried: slice,
               go: Callable[[list[Value]], Value], step: Callable[[list[Value]], list[Value]],
               in_place: bool) -> list[Value]:
    """A stablehlo.while; `carried` are the members of the state that may be views of what enters.

    in_place: the body writes into what it carries, which is copies of its own.
    """
    b, ir = ctx.b, mlir.ir()
    specs = [(v.shape, v.dtype) for v in state]
    op = b.op("stablehlo.while", state, specs, regions=2)
    types = [v.ir.type for v in state]
    condition = op.regions[0].blocks.append(*types)
    with ir.InsertionPoint(condition):
        values = [b.tied(Value(b, a, *s)) for a, s in zip(condition.arguments, specs)]
        ir.Operation.create("stablehlo.return", operands=[go(values).ir])
    block = op.regions[1].blocks.append(*types)
    with ir.InsertionPoint(block):
        values = [b.tied(Value(b, a, *s)) for a, s in zip(block.arguments, specs)]
        roots = frozenset[int]().union(*[ctx.aliases.roots_of(c) for c in state[carried]])
        for v in values[carried]:
            ctx.aliases.roots[v] = roots | {id(v)}
        if in_place:
            ctx.aliases.carries.update(values[carried])
        with ctx.inside(loop=True):
            # (what is made before the loop IREE gives back before the last reader has read it)
            results = [ctx.reads(old, new, not _is_made_in(block, new))
                       for old, new in zip(values, step(values), strict=True)]
        roots = roots.union(*[ctx.aliases.roots_of(r) for r in results])
        ir.Operation.create("stablehlo.return", operands=[r.ir for r in results])
    out = [b.tied(Value(b, r, *s)) for r, s in zip(op.results, specs)]
    for v in out[carried]:
        ctx.aliases.roots[v] = roots | {id(v)}
    return out


def _by_views(ctx: Context, programs: Sequence[Program], values: Sequence[Any]) -> bool:
    """Whether a loop of these programs and arrays is IREE's undoing: one within a loop or a branch,
    or with one in it."""
    return views.is_possible(values) and (
        ctx.views or ctx.regions > 0 or any(is_stepped(p, _has_kernel(ctx)) for p in programs))


def apart(ctx: Context, values: Sequence[Value], outside: Sequence[Value]) -> list[Value]:
    """Carries for the next step of a loop that writes into them: each in memory of its own, which
    nothing outside the loop shares."""
    taken, made = ctx.aliases.protected.union(*[ctx.aliases.roots_of(v) for v in outside]), []
    for v in values:
        if v.ndim:
            mine = ctx.aliases.roots_of(v) | ctx.aliases.parts_of(v)
            if not taken.isdisjoint(mine):
                v = ctx.aliases.private(v)
                mine = ctx.aliases.roots_of(v)
            taken = taken | mine
        made.append(v)
    return made


def _has_kernel(ctx: Context) -> bool:
    return form_of("scan", ctx.target, F32) == "kernel"


def _refusal(ctx: Context) -> Refusal | None:
    """Why the loop at hand is no kernel."""
    return refusal(ctx.equation) if _has_kernel(ctx) else Refusal(ctx.equation, "device")


@rule("while")
def _while(op: Op) -> list[Value]:
    """The predicate is computed at the end of the body: IREE's compiler dies on a carry that the
    condition reads and the body does not."""
    why = _refusal(op.ctx)
    if why is None:
        return emit_kernel(op.ctx, op.ctx.equation, op.operands, op.outs)
    op.ctx.plan.refuse(why)
    with op.ctx.plan.within("host loop", op.ctx.equation):
        return _stepped_while(op)


def _stepped_while(op: Op) -> list[Value]:
    b, cond, body = op.b, op["cond_jaxpr"], op["body_jaxpr"]
    cond_consts, body_consts, carry = split_list(
        op.operands, op["cond_nconsts"], op["body_nconsts"])
    consts = [*cond_consts, *body_consts]
    op.ctx.aliases.shared.update(consts)
    by_views = _by_views(op.ctx, [cond, body], carry)
    in_place = writes_in_place(body)
    if in_place:
        carry = [_private(op.ctx, c) for c in carry]
    carry = [op.ctx.opaque(c) for c in carry]

    def head(carry: Sequence[Value]) -> list[Value]:
        (pred,) = op.ctx.emit_program(cond, [*cond_consts, *carry])
        if not pred.shape:
            return [pred]
        (some,) = emit_reduce(b, [pred], [False], range(pred.ndim), fold("or"))
        return [some, pred]

    go, *rows = [op.ctx.opaque(v) for v in head(carry)]

    def step(state: list[Value]) -> tuple[Value, list[Value]]:
        """The state begins with the rows that go on, where the predicate has rows."""
        old = state[len(rows):]
        new = op.ctx.emit_program(body, [*body_consts, *old])
        if rows:
            new = [b.select(b.broadcast(state[0], o.shape, range(len(state[0].shape))), v, o)
                   for v, o in zip(new, old)]
        if in_place:
            new = apart(op.ctx, new, consts)
        go, *more = head(new)
        return go, [*more, *new]

    def both(values: list[Value]) -> list[Value]:
        go, state = step(values[1:])
        return [values[0] & go, *state]

    if by_views:
        op.ctx.aliases.protect(*consts)
        return views.conditional(op.ctx, go, [*rows, *carry], step,
                                 len(rows) if in_place else None)[len(rows):]
    out = emit_while(op.ctx, [go, *rows, *carry], slice(1 + len(rows), None), lambda v: v[0], both,
                     in_place)
    return out[1 + len(rows):]


def emit_at_once(ctx: Context, p: Program, xs: Sequence[Value]) -> list[Value] | None:
    """The outputs of a program that cost.whole_refusal lets be one kernel of ours; None where it
    is not one after all."""
    values = (*p.inputs, *p.outputs)
    if not _has_kernel(ctx) or not p.equations or any(
            v.aval.dtype not in DTYPES or not v.aval.size for v in values):
        return None
    return emit_whole(ctx, p, xs, [physical(o.aval) for o in p.outputs])


def _zeros(b: Builder, x: Value) -> list[Value]:
    return [b.splat(0, (), I32)] * (x.ndim - 1)


def _joined(b: Builder, rows: list[Value]) -> Value:
    return rows[0] if len(rows) == 1 else b.concatenate(rows, 0)
