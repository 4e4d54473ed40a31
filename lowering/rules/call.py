"""Calls are inlined: IREE would inline them anyway, and the context sees through."""
from __future__ import annotations

from calque.lowering.builder import Value
from calque.lowering.kernels.lists import emit_list
from calque.lowering.kernels.rows import emit_rows
from calque.lowering.rules.registry import Op, rule


@rule("jit")
def _jit(op: Op) -> list[Value]:
    if "rows" in op.params:  # a group of passes/rows
        return emit_rows(op.ctx, op["jaxpr"], op["rows"], op.operands, op.outs)
    if "list" in op.params:  # one of passes/lists
        return emit_list(op.ctx, op["list"], [op.operands[k] for k in op["order"]], op.outs,
                         op["jaxpr"].equations)
    return op.ctx.emit_program(op["jaxpr"], op.operands)
