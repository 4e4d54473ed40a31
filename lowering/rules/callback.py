"""Callbacks are VM imports `py.call<N>`: functions of the module that the runtime fills in.

Memory goes over in plain types (complex numbers in two parts); runtime/callbacks joins them.
"""
from __future__ import annotations

from typing import Any

import numpy as np

from calque.core.lists import types_of
from calque.core.types import Dtype
from calque.lowering.emit import mlir
from calque.lowering.emit.builder import Builder, Value
from calque.lowering.emit.dtypes import BF16, BOOL, I16, I32
from calque.lowering.emit.registry import Op, rule


def carriers(dtype: Dtype) -> list[Dtype]:
    """The dtypes in which a value crosses: no unsigned, bool, complex or 8-bit float types."""
    if dtype.kind == "c":
        return [np.dtype(f"f{dtype.itemsize // 2}")] * 2
    if dtype.kind in "ub" or dtype.kind == "V" and dtype != BF16:
        return [np.dtype(f"i{dtype.itemsize}")]
    return [I16] if dtype == BF16 else [dtype]


def _out(b: Builder, x: Value) -> list[Value]:
    if x.dtype.kind == "c":
        return [b.real(x), b.imag(x)]
    (to,) = carriers(x.dtype)
    return [b.convert(x, to) if x.dtype == BOOL else b.bitcast(x, to)]


def _back(b: Builder, parts: list[Value], dtype: Dtype) -> Value:
    if dtype.kind == "c":
        return b.complex(*parts)
    return parts[0].ne(0) if dtype == BOOL else b.bitcast(parts[0], dtype)


@rule("pure_callback", "io_callback", "debug_callback")
def _callback(op: Op) -> list[Value]:
    return call_host(op, op["callback"])


def call_host(op: Op, function: Any) -> list[Value]:
    """Results of function([arrays]) -> [arrays], called by the program on its caller's thread."""
    ir, ctx, b, outs = mlir.ir(), op.ctx, op.b, op.outs
    given = [a.aval for a in ctx.equation.inputs]
    ctx.plan.kernel("callback", getattr(function, "__name__", ""), (), types_of(given),
                    types_of(outs))
    operands = [x for x, a in zip(op.operands, given) if a.size]
    if not any(ctx.fusion.leaves_of(x) for x in operands):
        # a call of constants IREE makes after those of what is computed, which come later in the
        # program (tests/api/test_callbacks.py)
        operands = [ctx.unknown(x) for x in operands]
    operands = [p for x in operands for p in _out(b, x)]
    specs = [(o.shape, d) for o in outs if o.size for d in carriers(o.dtype)]
    # of a call without results the program waits for a fence on the host, and IREE may move that
    # before the call, which would signal it (tests/lowering/test_async.py): it gives a number
    specs = specs or [((), I32)]
    name = f"py.call{len(ctx.callbacks)}"
    ctx.callbacks.append((function, tuple((a.shape, a.dtype) for a in given),
                          tuple((o.shape, o.dtype) for o in outs)))
    kind = ir.FunctionType.get([v.ir.type for v in operands],
                               [mlir.tensor_type(s, d) for s, d in specs])
    with ir.InsertionPoint.at_block_begin(ctx.module.body):
        ir.Operation.create("func.func", regions=1, attributes={
            "sym_name": ir.StringAttr.get(name), "function_type": ir.TypeAttr.get(kind),
            "sym_visibility": ir.StringAttr.get("private")})
    call = ir.Operation.create("func.call", results=list(kind.results),
                               operands=[v.ir for v in operands],
                               attributes={"callee": ir.FlatSymbolRefAttr.get(name)})
    parts = iter([Value(b, r, *s) for r, s in zip(call.results, specs)])
    return [_back(b, [next(parts) for _ in carriers(o.dtype)], o.dtype) if o.size
            else b.splat(0, o.shape, o.dtype) for o in outs]
