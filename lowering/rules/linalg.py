"""Factorizations and triangular systems: the Programs that their primitives give."""
from __future__ import annotations

from typing import Any

from calque.core.avals import ShapedArray
from calque.lowering.builder import Value
from calque.lowering.rules.registry import Context, rule


@rule("cholesky", "triangular_solve", "lu", "lu_pivots_to_permutation")
def _program(ctx: Context, xs: list[Value], params: dict[str, Any],
             outs: list[ShapedArray]) -> list[Value]:
    e = ctx.equation
    assert e.primitive.program is not None, e.primitive
    return ctx.emit_program(e.primitive.program(*[a.aval for a in e.inputs], **params), xs)
