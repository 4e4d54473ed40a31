"""What a module's function takes and gives: numbers that lie together, memory for results, which
memory results share, and whether the host steps through it.  Imports what module.py does.
"""
from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from calque.core.program import Var
from calque.core.types import Shape
from calque.lowering.emit import mlir
from calque.lowering.emit.builder import Value
from calque.lowering.emit.fusion import NUMBERS
from calque.lowering.rules import Context
from calque.runtime.call_spec import CallSpec

OUTPUT_BYTES = 1 << 12  # results from here on are written into memory of ours (runtime/executable)


def together(ctx: Context, env: Mapping[Var, Value]) -> dict[Var, Value]:
    """Arguments that are single numbers as parts of one array, where there are many: what computes
    from them reads one array instead of each."""
    found: dict[Any, list[Var]] = {}
    for v, x in env.items():
        if not x.shape and x not in ctx.constants and x.dtype.kind in "iuf":
            found.setdefault(x.dtype, []).append(v)
    if sum(map(len, found.values())) <= NUMBERS:
        return {}
    made: dict[Var, Value] = {}
    for some in found.values():
        rows = [ctx.b.reshape(env[v], (1,)) for v in some]
        every = ctx.fusion.joined(rows, 0)
        for i, v in enumerate(some):
            made[v] = ctx.fusion.part(every, i)
    return made


def is_worth_it(call: CallSpec, shape: Shape, dtype: Any) -> bool:
    """Whether a CPU's program writes a result into memory passed: it is large, and queued."""
    return not (call.run_inline or call.must_run_inline) and (
        math.prod(shape) * dtype.itemsize >= OUTPUT_BYTES)


STEPPED = frozenset({"stablehlo.while", "stablehlo.if", "stablehlo.case", "scf.while", "scf.for",
                      "scf.if", "scf.index_switch", "func.call"})

# Where a module does not say on which device it is, IREE (3.13) does not find out for what a loop
# carries, and every step copies all of it to the device where it is: what a scan stacks, too.  (A
# device that flags give as an attribute is none that a module may name: it would not compile.)
DEVICE = "#hal.device.promise<@__device_0>"


def is_stepped(func: Any) -> bool:
    """Whether the host may step through some of a function's operations."""
    def found(block: Any) -> bool:
        return any(op.operation.name in STEPPED or any(found(b) for r in op.regions for b in r)
                   for op in block)
    return any(found(b) for r in func.regions for b in r)


def add_memory(func: Any, block: Any, ins: list[Any], outs: list[Any], written: Sequence[int],
                storage: bool) -> None:
    """One more argument for each of these results, the memory it is written to, and one for the
    memory in which the program works."""
    ir = mlir.ir()
    index = ir.IndexType.get()
    every = [*ins, *[outs[i] for i in written]]
    attributes = [*[ir.DictAttr.get({})] * len(ins),
                  *[ir.DictAttr.get({"iree.abi.output": ir.IntegerAttr.get(index, i)})
                    for i in written]]
    if storage:
        every.append(ir.Type.parse("!hal.buffer"))
        attributes.append(ir.DictAttr.get({"iree.abi.transients": ir.UnitAttr.get()}))
    for kind in every[len(ins):]:
        block.add_argument(kind, ir.Location.unknown())
    func.attributes["function_type"] = ir.TypeAttr.get(ir.FunctionType.get(every, outs))
    func.attributes["arg_attrs"] = ir.ArrayAttr.get(attributes)


def shared(ctx: Context, arguments: Sequence[Value], results: Sequence[Value]
            ) -> dict[int, tuple[int, ...]]:
    """Results whose memory may be an argument's (k) or another result's (-1 - k)."""
    owners: dict[int, list[int]] = {}
    for k, v in [*enumerate(arguments), *[(-1 - i, v) for i, v in enumerate(results)]]:
        for r in ctx.aliases.roots_of(v):
            owners.setdefault(r, []).append(k)
    found = {i: sorted({k for r in ctx.aliases.roots_of(v) for k in owners[r]} - {-1 - i})
             for i, v in enumerate(results)}
    return {i: tuple(others) for i, others in found.items() if others}
