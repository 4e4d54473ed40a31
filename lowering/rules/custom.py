"""Calls with rules of their own: what they compute is their Program."""
from __future__ import annotations

from calque.core.errors import explain
from calque.lowering.emit.builder import Value
from calque.lowering.emit.registry import Op, rule


@rule("custom_jvp_call", "custom_vjp_call", "custom_vmap_call")
def _call(op: Op) -> list[Value]:
    return op.ctx.emit_program(op["call_jaxpr"], op.operands)


@rule("custom_lin")
def _linear(op: Op) -> list[Value]:
    raise TypeError(explain(
        "can't apply forward-mode differentiation (jvp) to a custom_vjp function.",
        where=str(op.ctx.equation.source),
        fix="use reverse mode (grad, vjp), or give the function a custom_jvp rule instead."))


@rule("checkpoint")
def _checkpoint(op: Op) -> list[Value]:
    """The second computation reads its operands behind a cut, so that it stays a second one."""
    ctx, xs = op.ctx, op.operands
    if op["differentiated"] and op["prevent_cse"]:
        cut = [ctx.b.barrier(x)[0] if x not in ctx.constants and x.shape else x for x in xs]
        for new, old in zip(cut, xs):
            ctx.aliases.roots[new] = ctx.aliases.roots_of(old)
        xs = cut
    return ctx.emit_program(op["jaxpr"], xs)


@rule("name")
def _name(op: Op) -> Value:
    return op.x


@rule("custom_linear_solve")
def _linear_solve(op: Op) -> list[Value]:
    first = sum(op["counts"][:2])
    end, start = sum(op["counts"]), first + op["counts"][2]
    return op.ctx.emit_program(op["solve"], [*op.operands[first:start], *op.operands[end:]])
