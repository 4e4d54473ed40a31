"""Calls are inlined: IREE would inline them anyway, and the context sees through."""
from __future__ import annotations

from calque.lowering.emit.builder import Value
from calque.lowering.emit.registry import Op, rule
from calque.lowering.kernels import gemm, move
from calque.lowering.kernels.assembly import emit_assembly
from calque.lowering.kernels.attention import emit_attention
from calque.lowering.kernels.lists import emit_list
from calque.lowering.kernels.loop import emit_padded, emit_whole
from calque.lowering.kernels.points import emit_points
from calque.lowering.kernels.rows import emit_rows
from calque.lowering.kernels.spmm import emit_spmm
from calque.lowering.kernels.transpose import turn
from calque.lowering.passes.assembled import Assembly
from calque.lowering.passes.attention import Attention
from calque.lowering.passes.edges import Edges
from calque.lowering.passes.epilogues import Epilogue
from calque.lowering.passes.lists import List
from calque.lowering.passes.orders import Order
from calque.lowering.passes.registers import Plan
from calque.lowering.passes.remainder import Whole, is_spread
from calque.lowering.passes.spmm import Spmm
from calque.lowering.passes.turned import Turned
from calque.lowering.rules.conv import with_epilogue
from calque.lowering.rules.reduce import emit_reduce, fold
from calque.lowering.rules.sort import order_of


@rule("jit")
def _jit(op: Op) -> list[Value]:
    how = op.params.get("rows")  # of a group: passes/rows, passes/lists
    if isinstance(how, List):
        return emit_list(op.ctx, how, [op.operands[k] for k in how.order], op.outs,
                         op["jaxpr"].equations)
    if isinstance(how, Attention):
        return _attention(op, how)
    if isinstance(how, Order):
        return [order_of(op.ctx, op.operands, how.k)]
    if isinstance(how, Whole):
        equations = op["jaxpr"].equations
        made = emit_padded(op.ctx, equations[0], op.x, op.outs[0]) if (
            len(equations) == 1 and is_spread(equations[0])) else emit_whole(
                op.ctx, op["jaxpr"], op.operands, op.outs, "small")
        op.ctx.aliases.add_new(made)
        return made
    if isinstance(how, Edges):
        moved = move.around(op.ctx, op.x, how, op.outs[0].shape)
        return op.ctx.emit_program(op["jaxpr"], op.operands) if moved is None else [moved]
    if isinstance(how, Plan):
        return emit_points(op.ctx, op["jaxpr"], how, op.operands, op.outs)
    if isinstance(how, Spmm):
        return [emit_spmm(op.ctx, how, op.operands, op.outs[0])]
    if isinstance(how, Epilogue):
        done = with_epilogue(op.ctx, op["jaxpr"].equations[0], how, op.operands, op.outs[0])
        return op.ctx.emit_program(op["jaxpr"], op.operands) if done is None else [done]
    if isinstance(how, Turned):
        alone = turn(op.ctx, op.x, op["jaxpr"].equations[0].params["permutation"])
        if alone is not None:
            op.ctx.aliases.add_new([alone])
            return [alone]
        (alone,) = op.b.optimization_barrier(*op.ctx.emit_program(op["jaxpr"], op.operands))
        op.ctx.aliases.add_moved(alone, op.x)
        return [alone]
    if isinstance(how, Assembly):
        return [emit_assembly(op.ctx, how, op.operands, op.outs[0], op["jaxpr"].equations)]
    if how is not None:
        return emit_rows(op.ctx, op["jaxpr"], op["rows"], op.operands, op.outs)
    return op.ctx.emit_program(op["jaxpr"], op.operands)


def _attention(op: Op, how: Attention) -> list[Value]:
    if not gemm.takes(op.ctx.target, "float32"):
        return op.ctx.emit_program(op["jaxpr"], op.operands)
    equations = [q for e in op["jaxpr"].equations for q in (
        how.middle.equations if e.name == "jit" else [e])]
    made = []
    for v, out in zip(emit_attention(op.ctx, how, op.operands, op.outs, equations), op.outs):
        if v.ndim > len(out.shape):
            v = emit_reduce(op.b, [v], [0], [0], fold("add"))[0]
        made.append(v.astype(out.dtype))
    return made
