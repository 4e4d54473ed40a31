"""Calls of kernels of the user's: an object linked into the program, or a GPU's code in it; and of
handlers of XLA's, which lie in shared libraries and are called by the host."""
from __future__ import annotations

from collections.abc import Sequence

from calque.core.dims import is_static
from calque.core.errors import explain
from calque.lowering.emit import mlir
from calque.lowering.emit.builder import Value
from calque.lowering.emit.context import Context
from calque.lowering.emit.dtypes import BOOL, I8, signed
from calque.lowering.emit.registry import Op, rule
from calque.lowering.kernels.user import is_empty, prepared
from calque.lowering.kernels.user_c import call_c
from calque.lowering.kernels.user_gpu import call_gpu
from calque.lowering.kernels.user_guard import guarded, wanted
from calque.lowering.rules.callback import call_host
from calque.runtime.handlers import Site


@rule("ffi_call")
def _ffi_call(op: Op) -> list[Value]:
    kernels, where = op["kernels"], str(op.ctx.equation.source)
    if kernels.handler is not None:
        return call_host(op, Site(
            kernels.name, kernels.handler.functions, [(a.shape, a.dtype) for a in op.outs],
            [(k, v) for k, v, _ in op["attributes"]], dict(op["aliases"])))
    platform = "cpu" if op.ctx.cpu else getattr(op.ctx.target, "backend", "").split("-")[0]
    kernel = kernels.get(platform)
    if kernel is None and op["plain"] is not None:
        return op.ctx.emit_program(op["plain"], op.operands)
    if kernel is None and not kernels.of:
        raise ValueError(explain(
            f"ffi_call: no kernel is registered as {kernels.name!r}.", where=where,
            fix="call ffi.register_ffi_target(name, ffi.Kernel(...)) before the call is traced."))
    if kernel is None:
        have = ", ".join(p for p, _ in kernels.of)
        raise NotImplementedError(explain(
            f"ffi_call: {kernels.name!r} has no kernel for {platform}; it has: {have}.",
            where=where, fix="compile for a platform that it has a kernel for, or register a "
            "function with platform='default'."))
    ins = [a.aval for a in op.ctx.equation.inputs]
    known = all(is_static(a.shape) for a in (*ins, *op.outs))
    if not known and (not op.ctx.cpu or kernel.grid is not None or op["aliases"]):
        raise NotImplementedError(explain(
            f"ffi_call: {kernels.name!r} is called with sizes that are known at the call only; "
            "kernels for CPUs without a grid and input_output_aliases take them.",
            where=where, fix="compile the function for fixed sizes."))
    b = op.b
    # of an empty array the kernel gets a pointer that it must not read
    given = [b.splat(0, (1,), I8 if a.dtype == BOOL else a.dtype) if is_empty(a.shape)
             else b.convert(x, I8) if a.dtype == BOOL else x for x, a in zip(op.operands, ins)]
    call = prepared(kernel, kernels.name, where, ins, op.outs,
                    {k: v for k, v, _ in op["attributes"]}, dict(op["aliases"]), op.ctx.cpu)
    if 0 in call.grid:  # every result is empty
        return [b.splat(0, a.shape, a.dtype) for a in op.outs]
    if known and op.ctx.cpu and op.ctx.in_process and wanted() and not op["has_side_effect"]:
        assert op.ctx.target is not None
        return call_host(op, guarded(call, op.ctx.target, [a.shape for a in op.outs]))
    for i in call.aliases:
        given[i] = _written(op.ctx, given[i], [x for j, x in enumerate(given) if j != i])
    effect = op["has_side_effect"]
    if effect:  # the host waits: IREE keeps the order of these, and leaves none of them out
        if not given and not op.ctx.cpu:
            raise NotImplementedError(explain(
                f"ffi_call: {kernels.name!r} has side effects and no argument.", where=where,
                fix="give it one: on GPUs what has none is not kept in order."))
        given = _now(given or [b.splat(0, (1,), I8)])
    made = (call_c if op.ctx.cpu else call_gpu)(op.ctx, call, given)
    if effect:
        made = _now(made)
    return [b.splat(0, a.shape, a.dtype) if is_empty(a.shape)
            else v.ne(0) if a.dtype == BOOL else v for v, a in zip(made, op.outs)]


def _now(xs: Sequence[Value]) -> list[Value]:
    """The same, computed at this place of the host's program, whether somebody needs them or not
    (stablehlo.optimization_barrier is left out where nobody does)."""
    made = []
    for x in xs:  # (one for several is rejected where one of them is an argument)
        given = x.b.bitcast(x, signed(x.dtype))
        op = mlir.ir().Operation.create("util.optimization_barrier", results=[given.ir.type],
                                        operands=[given.ir])
        kept = Value(x.b, op.results[0], x.shape, given.dtype)
        made.append(x.b.bitcast(kept, x.dtype))
    return made


def _written(ctx: Context, x: Value, others: Sequence[Value]) -> Value:
    """x, or a copy of it where somebody else may still read it."""
    if any(n != 1 for n in x.shape):
        return ctx.aliases.copy_if_shared(ctx.aliases.owned(x), others)
    one = ctx.aliases.private(ctx.b.reshape(x, (1,)))
    return ctx.b.reshape(one, x.shape)
