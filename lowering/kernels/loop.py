"""scan and while as one dispatch of a kernel written here, in a `stream.executable` of the module.

A loop whose rows hold few numbers runs in registers, spread over workgroups (kernels/registers);
any other runs over memory (kernels/tensors), in one workgroup, or in several that take parts of its
rows where these are independent (passes/split).  Start reading at `emit_kernel`.
"""
from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import Any

from calque.core.avals import ShapedArray
from calque.core.lists import split_list
from calque.core.program import Equation, Literal, Program, Var
from calque.core.types import Params
from calque.core.words import has_transforms
from calque.lowering.emit import mlir
from calque.lowering.emit.builder import Value
from calque.lowering.emit.context import Context
from calque.lowering.kernels import memory, registers
from calque.lowering.kernels.contract import panel_width, registers_of
from calque.lowering.kernels.homes import apart, carried, is_same
from calque.lowering.kernels.joined import Part
from calque.lowering.kernels.memory import Index, Memory
from calque.lowering.kernels.native import object_of
from calque.lowering.kernels.shell import FEW, Shell
from calque.lowering.kernels.small import panelled
from calque.lowering.kernels.tensors import Emitter, Entry
from calque.lowering.kernels.values import SCALAR
from calque.lowering.passes import loops
from calque.lowering.passes.cost import equation_work as work_of
from calque.lowering.passes.panels import panels
from calque.lowering.passes.registers import plan
from calque.lowering.passes.registers import refusal as registers_refusal
from calque.lowering.passes.split import Split, part_of, rows_of, split
from calque.lowering.passes.split import refusal as split_refusal
from calque.lowering.plan.switches import off

TURNED = 256  # elements from which on an array of the carry is not copied home in each step
PADDED_GROUPS = 16  # workgroups
SPREAD_WORK = 2_000_000  # element operations from which several workgroups pay


def emit_kernel(ctx: Context, e: Equation, xs: Sequence[Value], outs: Sequence[ShapedArray]
                ) -> list[Value]:
    """The results of a loop that cost.is_kernel allows."""
    found = plan(e)
    if found is None:
        ctx.plan.refuse(registers_refusal(e))
        level, n, m = registers_of(ctx.target), rows_of(e), _part_of(e)
        if not off("panels"):
            e, sources = panels(e, lambda rows, columns, dtype: panel_width(
                rows if not m or rows % n else rows // n * m, columns, dtype, level))
            xs = [xs[s] if isinstance(s, int) else panelled(ctx, xs[s.source], s)
                  for s in sources]
    shell = Shell(ctx, "memory" if found is None else "registers", xs, outs, _object(
        ctx, any(map(has_transforms, e.inner))))
    if found is None:
        for inner in e.inner:
            shell.count(loops.maps(inner))
    with shell.inside():
        if found is not None:
            registers.emit(shell, e.name, found)
        elif not _over_rows(shell, e):
            if work_of(e) >= SPREAD_WORK:
                ctx.plan.refuse(split_refusal(e))
            _over_memory(shell, e)
    made = shell.dispatch(ctx.entering(xs), [e])
    ctx.aliases.add_new(made)
    return made


def emit_whole(ctx: Context, p: Program, xs: Sequence[Value], outs: Sequence[ShapedArray],
               family: str = "program") -> list[Value]:
    """The outputs of a small Program (cost.is_whole, or "small" ones of remainder) as one
    dispatch."""
    shell = Shell(ctx, family, xs, outs, _object(ctx, has_transforms(p)))
    shell.count([*loops.maps(p), *loops.products(p)])
    if all(v.aval.size <= FEW for e in p.equations for v in e.outputs) and not any(
            e.primitive.kernel == "loop" for e in p.equations):
        shell.often = 2
    with shell.inside():
        emitter, entries = _inside(shell)
        wanted: dict[Any, list[Memory]] = {}
        for o, m in zip(p.outputs, shell.results):
            if m.shape and o not in p.inputs and not isinstance(o, Literal):
                wanted.setdefault(o, []).append(m)
        for o, out, m in zip(p.outputs, emitter.run(p, entries, wanted), shell.results):
            if o not in wanted:
                emitter.copy(out, m)
    return shell.dispatch(xs, p.equations)


def emit_padded(ctx: Context, e: Equation, x: Value, out: ShapedArray) -> list[Value]:
    """A large array with a number around its rows (passes/remainder), which workgroups share."""
    shell = Shell(ctx, "move", [x], [out])
    value = e.inputs[1]
    assert isinstance(value, Literal)
    with shell.inside():
        emitter = Emitter(shell, emit_loop)
        (source,), (target,) = shell.operands, shell.results
        number = SCALAR.splat(value.value, (), out.dtype)
        each = -(-source.shape[0] // min(source.shape[0], PADDED_GROUPS))
        first = memory.times(shell.distribute(-(-source.shape[0] // each)), each)

        def row(i: Index) -> list[Any]:
            to = target.row(i)
            for axis, (low, high, _) in enumerate(e.params["padding_config"][1:]):
                n = source.shape[axis + 1]
                for start, count in ((0, low), (low + n, high)):
                    if count:
                        emitter.copy(number, to.cut(axis, start, count))
                to = to.cut(axis, low, n)
            emitter.copy(source.row(i), to)
            return []

        end = memory.computed("minsi", memory.add(first, each), source.shape[0])
        memory.loop(end, row, start=first)
    return shell.dispatch(ctx.entering([x]), [e])


def _object(ctx: Context, transforms: bool) -> Path | None:
    """Of the functions in C that a kernel calls."""
    return object_of(ctx.target, "fft") if transforms else None


def _inside(shell: Shell) -> tuple[Emitter, list[Entry]]:
    """What emits into a kernel, and its operands."""
    return Emitter(shell, emit_loop), [memory.entry(m) for m in shell.operands]


# ---- over memory
def _over_memory(shell: Shell, e: Equation) -> None:
    emitter, entries = _inside(shell)
    outs = emit_loop(emitter, e, entries, shell.results)
    for out, m in zip(outs, shell.results):
        if isinstance(out, Value):
            memory.store(SCALAR, out, m, [])


def _part_of(e: Equation) -> int:
    """How many rows each workgroup takes; 0 where one does it all."""
    return part_of(e) if work_of(e) >= SPREAD_WORK and not off("workgroups") else 0


def _over_rows(shell: Shell, e: Equation) -> bool:
    """The loop in several workgroups, where its rows are independent; False where they are not."""
    n, m = rows_of(e), _part_of(e)
    parts = split(e, m) if m else None
    if not isinstance(parts, Split):
        return False
    first = memory.index(memory.times(shell.distribute(-(-n // m)), m))
    if n % m:  # the last group takes rows of the one before it, too
        first = memory.computed("minsi", first, n - m)
    row = memory.number(first)
    emitter, whole = _inside(shell)
    p, count = e.params, len(parts.carried)

    def mine(values: Sequence[Any]) -> list[Any]:
        return [x if a is None else x.cut(a, first, m) for x, a in zip(values, parts.carried)]

    def scanned(values: Sequence[Any]) -> list[Any]:
        return [x if a is None else x.cut(a + 1, first, m) for x, a in zip(values, parts.scanned)]

    if e.name == "scan":
        consts, carry, xs = split_list(whole, p["num_consts"], count)
        args = [row, *consts, *mine(carry), *scanned(xs)]
    else:
        before, inside, carry = split_list(whole, p["cond_nconsts"], p["body_nconsts"])
        args = [row, *before, row, *inside, *mine(carry)]
    stacked = [y.cut(a + 1, first, m) for y, a in zip(shell.results[count:], parts.stacked)
               if a is not None]
    form: Callable[..., list[Entry]] = _while if e.name == "while" else _scan
    targets = mine(shell.results[:count])
    homes = targets if n % m == 0 else [  # a row of two groups is carried by each, not shared
        t if a is None else shell.allocate(t.shape, t.dtype)
        for t, a in zip(targets, parts.carried)]
    outs = form(emitter, parts.params, args, [*homes, *stacked])
    for out, target in zip(outs, targets):
        if out is not target:  # (a register: the same from every group)
            emitter.copy(out, target)
    return True


def emit_loop(emitter: Emitter, e: Equation, args: Sequence[Entry], results: Sequence[Memory]
              ) -> list[Entry]:
    """A loop in a kernel, outermost or within another; a result may lie where the carry begins."""
    form: Callable[..., list[Entry]] = _while if e.name == "while" else _scan
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
        return [m if m is None or not turned else m.row(turn)
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
        moving = [(out, m) for out, m, turned in zip(outs, self.homes, self.turned)
                  if not (m is None or turned or is_same(out, m))]
        for out, m in apart(moving, self.owned(), self.emitter.temporary):
            self.emitter.copy(out, m)
        return [out.ir for out, m in zip(outs, self.homes) if m is None and isinstance(out, Value)]


def _overwritten(body: Program, k: int, homes: Sequence[Memory]) -> dict[Var, Var]:
    """What may be written over the carry, inputs from k on, where that is dense."""
    dense = {v for v, m in zip(body.inputs[k:], homes) if m.is_dense()}
    return {v: c for v, c in carried(body, k, len(homes)).items() if c in dense}


def _taking_turns(body: Program, k: int, carry: int, over: Collection[Var]) -> list[bool]:
    """Which arrays of the carry, inputs from k on, are large and made anew in each step; not those
    of `over`, which are overwritten."""
    makers = {v: e for e in body.equations for v in e.outputs}
    return [v.aval.size >= TURNED and v not in over and o in makers
            and makers[o].primitive.kernel == "map"
            for v, o in zip(body.inputs[k:k + carry], body.outputs)]


def _scan(emitter: Emitter, p: Params, args: list[Entry], results: list[Memory]
          ) -> list[Entry]:
    body: Program = p["jaxpr"]
    n, length = p["num_carry"], p["length"]
    consts, start, xs = split_list(args, p["num_consts"], n)
    over = _overwritten(body, len(consts), results[:n])
    turned = _taking_turns(body, len(consts), n, over.values())
    carry = _Carry(emitter, start, results, turned)
    ys = results[n:]

    def step(i: Index, *raw: Any) -> list[Any]:
        t = i if not p["reverse"] else registers.back(length, i)
        rows = [_row(x, t) for x in xs]
        turn = _odd(i) if any(turned) else 0
        after = carry.places(_odd(memory.add(i, 1)) if any(turned) else 0)
        where = [m.row(t) for m in ys]
        wanted: dict[Any, list[Memory]] = {}
        outputs = body.outputs[n:]
        for o, m in zip(outputs, where):
            if m.shape and o not in body.inputs and not hasattr(o, "value"):
                wanted.setdefault(o, []).append(m)
        for o, place, turns in zip(body.outputs, after, turned):
            if turns and place is not None:
                wanted.setdefault(o, []).append(place)
        outs = emitter.run(body, [*consts, *carry.entries(raw, turn), *rows], wanted,
                           carry.owned(), over)
        for o, y, m in zip(outputs, outs[n:], where):
            if o not in wanted:
                emitter.copy(y, m)
        return carry.update(outs[:n])

    final = carry.entries(memory.loop(length, step, carry.start), length % 2)
    for i, m in enumerate(results[:n]):
        if turned[i]:
            emitter.copy(final[i], m)
            final[i] = m
    return [*final, *ys]


def _odd(i: Index) -> Index:
    """i mod 2."""
    return i % 2 if isinstance(i, int) else memory.computed("andi", i, 1)


def _row(x: Entry, t: Index) -> Entry:
    assert isinstance(x, Memory)
    return memory.entry(x.row(t))


def _while(emitter: Emitter, p: Params, args: list[Entry], results: list[Memory]
           ) -> list[Entry]:
    cond_consts, consts, start = split_list(args, p["cond_nconsts"], p["body_nconsts"])
    carry = _Carry(emitter, start, results, [False] * len(results))
    body: Program = p["body_jaxpr"]
    over = _overwritten(body, len(consts), results)

    def condition(*now: Any) -> list[Any]:
        (pred,) = emitter.run(p["cond_jaxpr"], [*cond_consts, *carry.entries(now)])
        assert isinstance(pred, Value)
        return [pred.ir, *now]

    def step(*now: Any) -> list[Any]:
        return carry.update(emitter.run(body, [*consts, *carry.entries(now)],
                                        owned=carry.owned(), over=over))

    return carry.entries(mlir.while_loop(carry.start, condition, step))
