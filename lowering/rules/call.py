"""Calls are inlined: IREE would inline them anyway, and the context sees through."""
from __future__ import annotations

from calque.lowering.builder import Value
from calque.lowering.kernels.rows import emit_rows
from calque.lowering.rules.registry import Op, rule


@rule("jit")
def _jit(op: Op) -> list[Value]:
    if "rows" in op.params:  # a group of passes/rows
        return emit_rows(op.ctx, op["jaxpr"], op["rows"], op.operands, op.outs)
    return op.ctx.emit_program(op["jaxpr"], op.operands)
