"""Calls with rules of their own: what they compute is their Program."""
from __future__ import annotations

from typing import Any

from calque.core.avals import ShapedArray
from calque.core.errors import explain
from calque.lowering.builder import Value
from calque.lowering.context import Context
from calque.lowering.rules.registry import rule


@rule("custom_jvp_call", "custom_vjp_call", "custom_vmap_call")
def _call(ctx: Context, xs: list[Value], params: dict[str, Any],
          outs: list[ShapedArray]) -> list[Value]:
    return ctx.emit_program(params["fun"], xs)


@rule("custom_lin")
def _linear(ctx: Context, xs: list[Value], params: dict[str, Any],
            outs: list[ShapedArray]) -> list[Value]:
    raise TypeError(explain(
        "can't apply forward-mode differentiation (jvp) to a custom_vjp function.",
        where=str(ctx.equation.source),
        fix="use reverse mode (grad, vjp), or give the function a custom_jvp rule instead."))


@rule("checkpoint")
def _checkpoint(ctx: Context, xs: list[Value], params: dict[str, Any],
                outs: list[ShapedArray]) -> list[Value]:
    """The second computation reads its operands behind a cut, so that it stays a second one."""
    if params["differentiated"] and params["prevent_cse"]:
        cut = [ctx.b.barrier(x)[0] if x not in ctx.constants and x.shape else x for x in xs]
        for new, old in zip(cut, xs):
            ctx.aliases.roots[new] = ctx.aliases.roots_of(old)
        xs = cut
    return ctx.emit_program(params["jaxpr"], xs)


@rule("name")
def _name(ctx: Context, xs: list[Value], params: dict[str, Any],
          outs: list[ShapedArray]) -> Value:
    return xs[0]


@rule("custom_linear_solve")
def _linear_solve(ctx: Context, xs: list[Value], params: dict[str, Any],
                  outs: list[ShapedArray]) -> list[Value]:
    first = sum(params["counts"][:2])
    end, start = sum(params["counts"]), first + params["counts"][2]
    return ctx.emit_program(params["solve"], [*xs[first:start], *xs[end:]])
