"""Calls are inlined: IREE would inline them anyway, and the context sees through."""
from __future__ import annotations

from calque.lowering.emit.builder import Value
from calque.lowering.emit.registry import Op, rule
from calque.lowering.kernels.lists import emit_list
from calque.lowering.kernels.rows import emit_rows
from calque.lowering.passes.lists import List


@rule("jit")
def _jit(op: Op) -> list[Value]:
    how = op.params.get("rows")  # of a group: passes/rows, passes/lists
    if isinstance(how, List):
        return emit_list(op.ctx, how, [op.operands[k] for k in how.order], op.outs,
                         op["jaxpr"].equations)
    if how is not None:
        return emit_rows(op.ctx, op["jaxpr"], op["rows"], op.operands, op.outs)
    return op.ctx.emit_program(op["jaxpr"], op.operands)
