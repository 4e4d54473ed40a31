"""Calls are inlined: IREE would inline them anyway, and the context sees through."""
from __future__ import annotations

from typing import Any

from calque.core.avals import ShapedArray
from calque.lowering.builder import Value
from calque.lowering.context import Context
from calque.lowering.kernels.rows import emit_rows
from calque.lowering.rules.registry import rule


@rule("jit")
def _jit(ctx: Context, xs: list[Value], params: dict[str, Any],
         outs: list[ShapedArray]) -> list[Value]:
    if "rows" in params:  # a group of passes/rows
        return emit_rows(ctx, params["jaxpr"], params["rows"], xs, outs)
    return ctx.emit_program(params["jaxpr"], xs)
