"""Arrays joined of what is computed (passes/assembled) as one dispatch, in which each group writes
through a view of the result.
"""
from __future__ import annotations

import math
from collections.abc import Sequence

from calque.core.avals import ShapedArray
from calque.core.program import Equation
from calque.lowering.emit.builder import Value
from calque.lowering.emit.context import Context
from calque.lowering.kernels.rows import GROUPS, WORTH, Kernel
from calque.lowering.kernels.shell import Shell
from calque.lowering.passes import cost
from calque.lowering.passes.assembled import Assembly


def emit_assembly(ctx: Context, how: Assembly, xs: Sequence[Value], out: ShapedArray,
                  equations: Sequence[Equation]) -> Value:
    """A result whose parts groups compute, each in its place."""
    key = "assembly", how.key(), tuple((x.shape, x.dtype) for x in xs), out.shape
    shell = ctx.sources.get(key)
    if shell is None:
        ctx.sources[key] = shell = Shell(ctx, "chain", xs, [out])
        with shell.inside():
            work = sum(cost.work(p.program) for p in how.pieces)
            groups = max(1, min(GROUPS, max(work, math.prod(out.shape)) // WORTH))
            among = shell.distribute(groups), groups
            (whole,) = shell.results
            for p in how.pieces:
                results = []
                for v, (start, shape) in zip(p.program.outputs, p.places):
                    part = whole.cut(how.axis, start, shape[how.axis]).reshaped(v.aval.shape)
                    assert part is not None, (shape, v.aval.shape)
                    results.append(part)
                Kernel(shell, p.program, p.rows, [shell.operands[i] for i in p.inputs], results,
                       among=among).emit()
        shell.close()
    made = shell.call(ctx.entering(xs), equations)
    ctx.aliases.add_new(made)
    return made[0]


__all__ = ["emit_assembly"]
