"""Rows of few numbers in registers (passes/points), as one dispatch."""
from __future__ import annotations

from collections.abc import Sequence

from calque.core.avals import ShapedArray
from calque.core.program import Program
from calque.lowering.emit.builder import Value
from calque.lowering.emit.context import Context
from calque.lowering.kernels import registers
from calque.lowering.kernels.shell import Shell
from calque.lowering.passes.registers import Plan


def emit_points(ctx: Context, p: Program, plan: Plan, xs: Sequence[Value],
                outs: Sequence[ShapedArray]) -> list[Value]:
    """The outputs of a group; equal groups share a kernel."""
    key = "points", p.key(), plan.sizes, plan.axes, tuple((x.shape, x.dtype) for x in xs)
    shell = ctx.sources.get(key)
    if shell is None:
        ctx.sources[key] = shell = Shell(ctx, "points", xs, outs)
        with shell.inside():
            registers.emit(shell, "points", plan)
        shell.close()
    made = shell.call(ctx.entering(xs), p.equations)
    ctx.aliases.add_new(made)
    return made


__all__ = ["emit_points"]
