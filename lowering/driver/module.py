"""Program -> MLIR module: one function `main` in StableHLO, with IREE's holes cured on the way.

Arguments that are unused or empty and results that are empty or just an argument never reach the
compiler; `Lowered` says which ones and how to put the results together.  No locations are emitted
unless asked for: the bytes are the cache key, and a moved line must not recompile.
Start reading at `lower`.
"""
from __future__ import annotations

import io
import os
import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from calque.core import monitoring, words
from calque.core.avals import ShapedArray
from calque.core.collecting import rarely
from calque.core.dims import Dim, is_static
from calque.core.errors import InconclusiveDimensionOperation, explain
from calque.core.lists import types_of
from calque.core.program import Atom, Equation, Literal, Program, Var, eliminate_dead_code
from calque.core.source import UNKNOWN
from calque.lowering.driver.boundary import (
    DEVICE,
    add_memory,
    is_stepped,
    is_worth_it,
    shared,
    together,
)
from calque.lowering.driver.refused import check_widths, undecided
from calque.lowering.emit import mlir
from calque.lowering.emit.builder import Builder, Value, soft_f16
from calque.lowering.emit.dtypes import F64, I64, signed
from calque.lowering.emit.dynamic import DynamicBuilder
from calque.lowering.emit.sizes import Sizes, dimension
from calque.lowering.kernels import native
from calque.lowering.kernels.dispatch import merge_equal
from calque.lowering.passes import bundles, cost, hazards, remainder, repeats, whole
from calque.lowering.passes.accumulate import accumulate
from calque.lowering.passes.empty import without_empty
from calque.lowering.passes.groups import grouped
from calque.lowering.passes.hoist import hoist
from calque.lowering.passes.known import with_known
from calque.lowering.passes.legalize import legalize
from calque.lowering.passes.masks import with_masks_chosen
from calque.lowering.passes.messages import combined
from calque.lowering.passes.narrow import has_small, narrowed
from calque.lowering.passes.reroll import rerolled
from calque.lowering.passes.rows import is_fold
from calque.lowering.passes.rows import refusal as fold_refusal
from calque.lowering.plan.refusal import Refusal
from calque.lowering.plan.show import Plan
from calque.lowering.plan.switches import off
from calque.lowering.rules import Context, Op, physical, rules
from calque.lowering.rules.client import emitted
from calque.lowering.rules.control import emit_at_once
from calque.lowering.target.targets import Target
from calque.runtime.call_spec import UNKNOWN_BYTES, CallSpec
from calque.runtime.dims import parse
from calque.runtime.pending import SLAB

ENTRY = "main"
UNNAMED = "calque"
PARAMETER_SCOPE = "calque"
LONGEST_CHAIN = 128  # weight of what follows one another in a loop of IREE's: 8 sines
SLACK = 2  # element operations for one multiply-add that may take longer (Context.slack)


@dataclass(frozen=True, slots=True, kw_only=True)
class LowerOptions:
    """What a Program is lowered for, beside its target.

    Attributes:
      donated: positions (consts first) of inputs whose memory may be overwritten.
      record: gives the JSON kept in the function's iree.reflection, knowing all but the module's
        bytes; a module that describes itself is made even where there is nothing to compute.
      locations: keep the user's file and line on every operation.
      name: the module's name.
      bake_consts: write the consts' values (NumPy arrays) into the module; they are no inputs then.
      archived: the name of a baked constant that is read from an archive when the module is loaded,
        None where its value is written into the module.
      output_buffers: large results are written into memory passed as extra arguments.
      transients: what lies between operations is in memory passed, too, where the host steps
        through nothing: on a CPU if it may be more than SLAB bytes, which its queue would take from
        the system for each call; on CUDA always, and results of every size are, so that a call asks
        no queue for memory (such a question waits for what the call waits for).
      in_process: the program will run in this process, where NumPy can be called.
      views: every loop from the host carries buffer views (rules/views).
      bindings: how many a dispatch is to have at most (0: as the target takes), where IREE made one
        of more than the target takes (attempts.py).
      beside: numbers computed side by side are cut into several dispatches (fusion.FusionWidth);
        where branches end in many of them, the other way may fit where this one does not.
      whole: a small program becomes one kernel of ours, where it can (cost.is_whole).
      apart: each operation of IREE's is a dispatch of its own, where IREE rejects what it fuses.
    """

    donated: Sequence[int] = ()
    record: Callable[[Lowered], str] | None = None
    locations: bool = False
    name: str = UNNAMED
    bake_consts: bool = False
    archived: Callable[[Any], str | None] = lambda value: None
    output_buffers: bool = False
    transients: bool = False
    in_process: bool = False
    views: bool = False
    whole: bool = True
    bindings: int = 0
    beside: bool = True
    apart: bool = False


@dataclass(frozen=True, slots=True)
class Result:
    """Where a result comes from: computed (position), an argument (position), or empty."""

    kind: str  # "computed" | "argument" | "empty"
    position: int
    aval: ShapedArray  # physical


@dataclass(frozen=True, slots=True)
class Lowered:
    """A module and how to call it."""

    program: Program
    module: bytes | None  # None: nothing to compute
    arguments: tuple[int, ...]  # positions of the inputs (consts first) that are passed
    results: tuple[Result, ...]
    call: CallSpec
    options: tuple[str, ...]
    plan: Plan  # which ways its parts go
    callbacks: tuple[Any, ...] = ()  # Python functions that the program calls
    needs: tuple[str, ...] = ()  # what kernels of the user's ask of a device beyond the target
    left: int = -1  # operations that are IREE's beside kernels of ours; -1: more than a few

    @property
    def closed(self) -> bool:
        """Whether it is kernels of ours alone."""
        return self.left == 0


def lower(program: Program, target: Target, options: LowerOptions = LowerOptions()) -> Lowered:
    """Emit a Program for a target; its consts count as leading inputs."""
    with monitoring.span(f"lower {program.name}", "lower", monitoring.LOWER,
                         fun_name=f"jit({program.name})"), program.own_width():
        made = _lower(program, target, options)
    if "plan" in os.environ.get("CALQUE_LOG", "") and made.plan.is_worth_telling:
        print(made.plan, file=sys.stderr)
    return made


@rarely
def _lower(program: Program, target: Target, options: LowerOptions) -> Lowered:
    plain = without_empty(eliminate_dead_code(program))
    avals = [physical(o.aval) for o in plain.outputs]
    if not all([a.size for a in avals]):  # what has no elements is not computed
        plain = eliminate_dead_code(plain.replace(
            outputs=[o for o, a in zip(plain.outputs, avals) if a.size]))
    plain = hoist(with_masks_chosen(plain))
    plain = hoist(narrowed(plain)) if has_small(plain) else plain
    if target.backend == "llvm-cpu":
        plain = legalize(with_known(hoist(rerolled(plain))), *[
            native.object_of(target, source) is not None for source in ("fft", "spmm", "gemm")])
    plain = combined(plain) if off("accumulate") else accumulate(combined(plain))
    cpu = target.backend == "llvm-cpu"
    leading = () if options.bake_consts else program.const_vars
    positions = {v: i for i, v in enumerate((*leading, *program.inputs))}
    one = whole.as_whole(plain, not options.bake_consts) if cpu and options.whole else None
    why = cost.whole_refusal(plain) if cpu and options.whole and one is None else None
    paired = None
    if one is not None:
        if one is not plain:
            positions |= {v: positions[old] for v, old in zip(
                one.inputs, (*plain.const_vars, *plain.inputs))}
        plain = one
    elif why is not None and not options.bake_consts:
        paired = whole.in_pairs(plain)
    p = paired or plain
    lowered, computed = _described(program, p, plain, avals, positions, target, options, why)
    if not computed and options.record is None and not any(
            e.primitive.has_effects(e.params) for e in p.equations):
        return lowered
    if cost.host_loops(plain, cpu) > 1:
        options = replace(options, views=True)
    if one is not None and not options.bake_consts:
        parts = bundles.in_parts(plain.consts_as_inputs())
        closed = None if parts is None else _closed(
            lowered, parts, plain, positions, avals, target, options)
        if closed is not None:
            return closed
    if paired is not None:
        rest = whole.in_memory_of_pairs(plain, target)
        closed = None if rest is None else _closed(
            lowered, rest, plain, positions, avals, target, options)
        if closed is not None:
            return closed
    if one is None and cpu:
        closes = why is not None and not options.bake_consts
        forms = dict.fromkeys((plain, remainder.opened(plain), whole.over_pairs(plain, target))
                              if closes else ())
        tried = [rest for rest in forms if rest and remainder.may_close(rest, target)]
        almost = None
        for rest in tried:
            closed = _closed(lowered, rest, plain, positions, avals, target, options)
            if closed is not None and closed.closed:
                return closed
            almost = closed or almost
        if paired is None:
            if almost is not None:
                return almost
            p = grouped(plain)
            lowered, computed = _described(program, p, plain, avals, positions, target, options,
                                           why)
            if closes and plain not in tried and remainder.may_close(p, target):
                closed = _closed(lowered, plain, plain, positions, avals, target, options)
                if closed is not None:
                    return closed
    by_position = {i: v for v, i in positions.items()}
    baked = dict(zip(p.const_vars, p.consts)) if options.bake_consts else {}
    return _emit(lowered, p, [by_position[i] for i in lowered.arguments], computed, baked, target,
                 options)


def _described(program: Program, p: Program, plain: Program, avals: Sequence[ShapedArray],
               positions: dict[Var, int], target: Target, options: LowerOptions,
               why: Refusal | None) -> tuple[Lowered, list[Atom]]:
    """What is known of p, as which `plain` is emitted, before it is, and what it computes."""
    baked = set(p.const_vars) if options.bake_consts else set()
    inputs = [v for v in (*p.const_vars, *p.inputs) if v not in baked]
    results, computed = _plan_results(p, avals, positions)
    used = _used(p, computed) | _measured(p, inputs)
    passed = tuple(positions[v] for v in inputs if v in used and v.aval.size != 0)
    returned = {r.position for r in results if r.kind == "argument"}  # these must stay as they are
    return Lowered(
        program, None, passed, tuple(results),
        _call_spec(plain, [physical(a.aval) for a in computed],
                   [i for i, k in enumerate(passed) if k in options.donated and k not in returned]),
        _flags(plain, target),
        plan=Plan(program.name if options.name == UNNAMED else options.name, target.name,
                  types_of(v.aval for v in inputs if v in used),
                  types_of(a.aval for a in computed), (), cost.runs_inline(plain),
                  cost.called_work(plain), cost.inline_below(plain), why)), computed


def _closed(lowered: Lowered, rest: Program, plain: Program, positions: dict[Var, int],
            avals: Sequence[ShapedArray], target: Target, options: LowerOptions) -> Lowered | None:
    """A form of `plain` as kernels of ours alone; None where it is not."""
    if rest is not plain:
        positions = {v: positions[old] for v, old in zip(
            rest.inputs, (*plain.const_vars, *plain.inputs))}
    by_position = {i: v for v, i in positions.items()}
    arguments = [by_position[i] for i in lowered.arguments]
    if not any(e.params.get("rows") is remainder.WHOLE for e in rest.equations):
        rest = grouped(rest, closing=True)
    found, outputs = _plan_results(rest, avals, positions)
    types = {r.position: r.aval for r in found if r.kind == "computed"}
    if found != list(lowered.results) or not _used(rest, outputs) & set(positions) <= set(
            arguments) or types_of(types[i] for i in range(len(outputs))) != types_of(
                physical(o.aval) for o in outputs):
        return None
    closed = _emit(lowered, rest, arguments, outputs, {}, target, options, closing=True)
    return closed if closed.left >= 0 else None


def _call_spec(p: Program, results: Sequence[ShapedArray], donated: Sequence[int]) -> CallSpec:
    """What is known of calls before anything is emitted."""
    work, between = cost.called_work(p), cost.transient_bytes(p)
    return CallSpec(
        results=[(a.shape, a.dtype) if is_static(a.shape) else None for a in results],
        run_inline=cost.runs_inline(p), must_run_inline=cost.must_run_inline(p),
        work=parse(str(work)) if isinstance(work, Dim) else None,
        inline_below=cost.inline_below(p), donated=tuple(donated),
        transient_bytes=UNKNOWN_BYTES if _is_dynamic(p) else between)


def _plan_results(p: Program, avals: Sequence[ShapedArray], positions: dict[Var, int]
                  ) -> tuple[list[Result], list[Atom]]:
    """Where results of these types come from, those with elements being p's; what is computed."""
    results: list[Result] = []
    computed: list[Atom] = []
    seen: dict[Var, int] = {}
    outputs = iter(p.outputs)
    for aval in avals:
        if not aval.size:
            results.append(Result("empty", -1, aval))
            continue
        o = next(outputs)
        if isinstance(o, Var) and o in positions:
            results.append(Result("argument", positions[o], aval))
        elif isinstance(o, Var) and o in seen:
            results.append(Result("computed", seen[o], aval))
        else:
            if isinstance(o, Var):
                seen[o] = len(computed)
            results.append(Result("computed", len(computed), aval))
            computed.append(o)
    return results, computed


def _used(p: Program, computed: Sequence[Atom]) -> set[Var]:
    used = {a for e in p.equations for a in e.inputs if isinstance(a, Var)}
    return used | {a for a in computed if isinstance(a, Var)}


def _measured(p: Program, inputs: Sequence[Var]) -> set[Var]:
    """Inputs that say what a dimension is."""
    return {v for v, *_ in _sources(inputs).values()} if any(
        isinstance(d, Dim) for v in inputs for d in v.aval.shape) else set()


def _is_dynamic(p: Program) -> bool:
    """Whether a size, at any depth, is known at the call only."""
    return any(e.is_dynamic or any(map(_is_dynamic, e.inner)) for e in p.equations)


def _sources(inputs: Sequence[Var]) -> dict[str, tuple[Var, int, int, int]]:
    """Variable -> (input, axis, factor, offset): the size there is factor * variable + offset."""
    found: dict[str, tuple[Var, int, int, int]] = {}
    for v in sorted(inputs, key=lambda v: 0 in v.aval.shape):
        for axis, d in enumerate(v.aval.shape):
            term = d.linear() if isinstance(d, Dim) else None
            if term is not None and (term[0] not in found or term[1:] == (1, 0) and
                                     found[term[0]][2:] != (1, 0)):
                found[term[0]] = (v, axis, term[1], term[2])
    return found


def _flags(p: Program, target: Target) -> tuple[str, ...]:
    from calque.lowering.kernels import gemm
    return () if target.backend != "llvm-cpu" else cost.matmul_flags(
        p, lambda m, n, k, dtype: gemm.is_ours(target, m, n, k, dtype))


def _emit(lowered: Lowered, p: Program, arguments: Sequence[Var], outputs: Sequence[Atom],
          baked: Mapping[Var, Any], target: Target, options: LowerOptions,
          closing: bool = False) -> Lowered:
    """With the module, and with what is known of calls once it is emitted; `closing`: IREE is to
    get nothing (passes/remainder)."""
    ir, call = mlir.ir(), lowered.call
    with mlir.context(), ir.Location.unknown():
        module = ir.Module.create()
        module.operation.attributes["sym_name"] = ir.StringAttr.get(options.name)
        ins = [mlir.tensor_type(a.shape, a.dtype) for a in (physical(v.aval) for v in arguments)]
        outs = [mlir.tensor_type(a.shape, a.dtype) for a in (physical(o.aval) for o in outputs)]
        with ir.InsertionPoint(module.body):
            func = ir.Operation.create("func.func", regions=1, attributes={
                "sym_name": ir.StringAttr.get(ENTRY),
                "function_type": ir.TypeAttr.get(ir.FunctionType.get(ins, outs))})
        block = func.regions[0].blocks.append(*ins)
        with ir.InsertionPoint(block):
            emitter = Emitter(target, options.locations, options.in_process,
                              DynamicBuilder if _is_dynamic(p) else Builder)
            ctx = emitter.ctx
            ctx.module, ctx.entry, ctx.views = module, block, options.views
            ctx.apart = options.apart
            ctx.closing, ctx.slack = closing, cost.work(p) // SLACK if closing else 0
            ctx.stepped = cost.is_stepped(p, target.backend == "llvm-cpu")
            ctx.b.keeps_reads = options.views
            if options.bindings:
                ctx.fusion.set_bindings(options.bindings)
            if closing:  # nothing is fused
                ctx.fusion.set_bindings(1 << 30)
            if not options.beside or closing:
                ctx.fusion.most_side_by_side = 1 << 30
            values = [Value(ctx.b, a, physical(v.aval).shape, physical(v.aval).dtype)
                      for a, v in zip(block.arguments, arguments)]
            for i, v in enumerate(values):
                ctx.aliases.add_argument(v, protected=i not in call.donated)
            env = dict(zip(arguments, values))
            for const, c in baked.items():
                if const.aval.size:
                    key = options.archived(c)
                    env[const] = emitter.constant(c) if key is None else emitter.parameter(key, c)
            emitter.measure(arguments, values)
            results = None
            if ctx.cpu and options.whole and lowered.plan.whole is None and not closing:
                results = emit_at_once(ctx, Program(tuple(env), p.equations, tuple(outputs)),
                                       list(env.values()))
                p = p if results is not None else grouped(p)
            if results is None:
                env.update(together(ctx, env))
                emitter.equations(p, env, repeats.numbers(p) if (
                    ctx.cpu and not off("repeats")) else repeats.NOTHING)
                results = [emitter.read(o, env) for o in outputs]
            ir.Operation.create("func.return", operands=[r.ir for r in results])
        stepped = is_stepped(func)
        if stepped and target.device_has_name:
            module.operation.attributes["stream.affinity"] = ir.Attribute.parse(DEVICE)
        aliases = shared(ctx, values, results)
        # Where calls are to take nothing from the queue, a result that may be an argument's memory
        # is copied out of it, but for one that is to be donated.
        all_given = options.transients and target.asks_no_queue
        kept = {i for i in aliases if not all_given or any(
            ctx.aliases.roots_of(results[i]) & ctx.aliases.roots_of(values[k])
            for k in call.donated)}
        written = tuple(i for i, r in enumerate(results)
                        if options.output_buffers and i not in kept and is_static(r.shape)
                        and not ctx.imported & ctx.aliases.roots_of(r)
                        and (all_given or is_worth_it(call, r.shape, r.dtype)))
        # (A CPU's queue keeps what is not larger than a piece of its pool.)
        storage = options.transients and (target.asks_no_queue or call.transient_bytes > SLAB) and (
            not (_is_dynamic(p) or ctx.callbacks or stepped or call.must_run_inline))
        if written or storage:
            add_memory(func, block, ins, outs, written, storage)
        mlir.erase_unread(block)
        merge_equal(module)
        lowered = replace(
            lowered, left=mlir.others(block), call=replace(
                call, may_alias={i: others for i, others in aliases.items() if i not in written},
                output_buffers=written, transients=storage),
            options=(*lowered.options, *sorted(ctx.options)), callbacks=tuple(ctx.callbacks),
            needs=tuple(sorted(ctx.needs)),
            plan=replace(lowered.plan, regions=ctx.plan.regions))
        if options.record is not None:  # last: emission notes what it takes for granted of sizes
            func.attributes["iree.reflection"] = ir.DictAttr.get(
                {"calque.signature": ir.StringAttr.get(options.record(lowered))})
        buffer = io.BytesIO()
        module.operation.write_bytecode(buffer)
    return replace(lowered, module=buffer.getvalue())


class Emitter:
    """Emits the equations of Programs into the current block."""

    def __init__(self, target: Target, locations: bool, in_process: bool,
                 builder: type[Builder] = Builder) -> None:
        f64_ok = not target.lacks(F64)
        soft_f16.set(target.arch == "x86_64" and "f16c" not in target.features)
        made = builder(f64_ok, relaxed=target.backend == "vulkan-spirv")
        self.ctx = Context(made, target, in_process)
        self.ctx.emit_program = self.program
        self.locations = locations
        self.scope: tuple[str, ...] = ()  # around the Program at work
        self.narrow = not f64_ok or target.lacks(I64)
        self.parameters: list[Any] = []
        self.chains: dict[Value, int] = {}  # weight of what one loop computes up to a value

    def measure(self, inputs: Sequence[Var], values: Sequence[Value]) -> None:
        """Take the sizes that are known at the call only from arguments."""
        ir, b = mlir.ir(), self.ctx.b
        index = ir.IndexType.get()
        found = [(name, dimension(values[list(inputs).index(v)], axis), factor, offset)
                 for name, (v, axis, factor, offset) in _sources(inputs).items()]
        anchor = ir.Operation.create("arith.constant", results=[index], attributes={
            "value": ir.IntegerAttr.get(index, 0)}) if found else None
        b.extents = Sizes(anchor)
        for row in found:
            b.extents.define(*row)

    def constant(self, value: Any) -> Value:
        """A captured array, written out."""
        made = self.ctx.b.constant(np.asarray(value))
        self.ctx.constants.add(made)
        return made

    def parameter(self, key: str, value: Any) -> Value:
        """A captured array that the module reads from an archive when it is loaded."""
        ir, b = mlir.ir(), self.ctx.b
        kind = mlir.tensor_type(value.shape, signed(value.dtype))
        symbol = f"parameter{len(self.parameters)}"
        with ir.InsertionPoint.at_block_begin(self.ctx.module.body):
            self.parameters.append(ir.Operation.create("util.global", attributes={
                "sym_name": ir.StringAttr.get(symbol),
                "sym_visibility": ir.StringAttr.get("private"),
                "type": ir.TypeAttr.get(kind),
                "initial_value": ir.Attribute.parse(
                    f'#stream.parameter.named<"{PARAMETER_SCOPE}"::{mlir.quoted(key)}> : {kind}')}))
        loaded = ir.Operation.create("util.global.load", results=[kind], attributes={
            "global": ir.FlatSymbolRefAttr.get(symbol)})
        made = Value(b, loaded.results[0], tuple(value.shape), signed(value.dtype))
        self.ctx.aliases.add_argument(made, protected=True)  # nobody may write to it
        return made.view(value.dtype)

    def program(self, p: Program, args: Sequence[Value]) -> list[Value]:
        env, uses = dict(zip(p.inputs, args)), _uses(p)
        self.ctx.aliases.shared.update(a for v, a in env.items() if uses[v] > 1)
        self.equations(p, env)
        return [self.read(o, env) for o in p.outputs]

    def read(self, atom: Atom, env: dict[Var, Value]) -> Value:
        if isinstance(atom, Literal):
            kind = physical(atom.aval).dtype
            value = self.ctx.b.splat(atom.value if kind == atom.aval.dtype else 0, (), kind)
            self.ctx.constants.add(value)
            self.ctx.literals[value] = atom
            self.ctx.fusion.leaves[value] = frozenset()  # constants are not read from memory
            return value
        if atom not in env:  # an empty argument: it is not passed
            a = physical(atom.aval)
            assert not a.size, atom
            env[atom] = self.ctx.b.splat(0, a.shape, a.dtype)
        return env[atom]

    def equations(self, p: Program, env: dict[Var, Value],
                  given: repeats.Given = repeats.NOTHING) -> None:
        copying, uses = hazards.copying(p), _uses(p)
        for i, e in enumerate(p.equations):
            if e.primitive.program is not None or e.inner:
                # what a called Program updates may be read here later
                self.ctx.aliases.elsewhere.update(env[a] for a in e.inputs
                                          if isinstance(a, Var) and a in env and uses[a] > 1)
            self.ctx.aliases.copying = i in copying
            if i in given.cuts:
                self.cut(p, i, env)
            if self.locations:
                with self._location(e):
                    outer, self.scope = self.scope, (*self.scope, *e.scope)
                    outs = self.equation(e, env, uses, given.operands.get(i))
                    self.scope = outer
            else:
                outs = self.equation(e, env, uses, given.operands.get(i))
            env.update(zip(e.outputs, self.ctx.kept_apart(outs) if self.ctx.apart else outs))

    def cut(self, p: Program, at: int, env: dict[Var, Value]) -> None:
        """Put what equations before `at` compute for those from there on behind fusion cuts."""
        needed = {a for e in p.equations[at:] for a in e.inputs if isinstance(a, Var)}
        for v in (v for e in p.equations[:at] for v in e.outputs if v in needed):
            old = env[v]
            if old not in self.ctx.constants and 0 not in old.shape:
                (env[v],) = self.ctx.b.barrier(old)
                self.ctx.aliases.renew(old, env[v])

    def equation(self, e: Equation, env: dict[Var, Value], uses: Counter[Var],
                 given: int | None = None) -> list[Value]:
        """The results of an equation; `given`: the operand that is a number known at run time."""
        avals = [physical(v.aval) for v in e.outputs]
        if self.narrow:
            check_widths(e, self.ctx.target)
        if avals and not any(a.size != 0 for a in avals) and not e.primitive.has_effects(e.params):
            return [self.ctx.b.splat(0, a.shape, a.dtype) for a in avals]
        params = e.params
        ins = [a.aval for a in e.inputs]
        if words.has_keys(ins) or words.has_keys([v.aval for v in e.outputs]):
            params = words.physical_params(e.name, params, ins,
                                          [v.aval for v in e.outputs])
        rule = rules.get(e.name) or emitted(e.primitive)
        if rule is None:
            raise NotImplementedError(explain(
                f"{e.name}: no lowering rule for this primitive.",
                where=str(e.source), fix="add one to lowering/rules/."))
        values = [self.read(a, env) for a in e.inputs]
        literal = None if given is None else e.inputs[given]
        if given is not None and isinstance(literal, Literal) and (
                values[1 - given] not in self.ctx.constants):
            values[given] = self.ctx.b.given(literal.value, avals[0].shape, avals[0].dtype)
            self.ctx.fusion.leaves[values[given]] = frozenset()
        number = bool(avals) and avals[0].shape == () and (
            e.primitive.elementwise or e.name == "reduce_sum" and ins[0].size == 1)
        if number:
            values = self.ctx.fusion.numbers(values)
        self.ctx.equation = self.ctx.plan.at = e
        told = self.ctx.plan.count
        try:
            out = rule(Op(values, params, avals, self.ctx))
        except InconclusiveDimensionOperation as error:
            if getattr(error, "located", False):
                raise
            raise undecided(e, error) from error
        if self.ctx.plan.count == told and not e.inner:
            if self.ctx.cpu and is_fold(e.primitive):
                self.ctx.plan.refuse(fold_refusal(e))
            if not self.ctx.closing:  # (an array filled, or seen in another shape)
                self.ctx.plan.left(e)
        outs: list[Value] = self.bounded(e, values, out if isinstance(out, list) else [out])
        self.ctx.note(e.primitive, values, outs, hazards.updated(e))
        if number:
            self.ctx.fusion.join(values, outs[0], [
                v for v, a in zip(values, e.inputs) if isinstance(a, Var) and uses[a] == 1])
        for v, a in zip(outs, avals):
            assert (v.shape, v.dtype) == (a.shape, a.dtype), (e.primitive, v, a)
        return outs

    def bounded(self, e: Equation, values: list[Value], outs: list[Value]) -> list[Value]:
        """The results, behind a cut where a chain of operations gets long: IREE would make one loop
        of all of it, and the time to compile that grows with the square of its length."""
        before = max((self.chains.get(v, 0) for v in values), default=0)
        chain = before + e.weight
        if chain > LONGEST_CHAIN and before and not self.ctx.closing and not all(
                v in self.ctx.constants for v in values):
            outs = [v if v.dtype == bool or v in values else self.ctx.b.barrier(v)[0]
                    for v in outs]
            chain = 0
        self.chains.update(dict.fromkeys(outs, chain))
        return outs

    def _location(self, e: Equation) -> Any:
        ir = mlir.ir()
        name = "/".join((*self.scope, *e.scope, e.name))
        if e.source is UNKNOWN:
            return ir.Location.name(name)
        return ir.Location.name(name, ir.Location.file(e.source.file, e.source.line, 0))


def _uses(p: Program) -> Counter[Var]:
    """How often each value is read."""
    def count() -> Counter[Var]:
        return Counter(a for atoms in (*[e.inputs for e in p.equations], p.outputs)
                       for a in atoms if isinstance(a, Var))
    return p.derived("uses", count)


def module_text(source: bytes, debug: bool = False) -> str:
    """The bytes of a module as MLIR text."""
    ir = mlir.ir()
    with mlir.context():
        module = ir.Module.parse(source)
        return str(module.operation.get_asm(enable_debug_info=debug, large_elements_limit=32))
