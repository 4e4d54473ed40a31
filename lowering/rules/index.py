"""dynamic_slice and dynamic_update_slice: indices are clamped here, and the operand of an update is
copied when it may be an argument's memory (IREE updates in place).
"""
from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from calque.core.dims import in_int32, min_dim
from calque.core.types import Shape
from calque.lowering.emit.builder import Builder, Value
from calque.lowering.emit.context import Context
from calque.lowering.emit.dtypes import I32, I64
from calque.lowering.emit.registry import Op, rule
from calque.lowering.kernels import updates


def clamped(b: Builder, starts: Sequence[Value], shape: Sequence[int],
            sizes: Sequence[int]) -> list[Value]:
    """Start indices as i32 (i64 for huge axes) within [0, axis size - window size]."""
    result = []
    for s, n, k in zip(starts, shape, sizes):
        last = n - k
        if not in_int32(last) and s.dtype.itemsize < 8:
            s = s.astype(I64)
        largest = min_dim(last, int(np.iinfo(s.dtype).max))
        if s.dtype.kind == "u":
            s = b.minimum(s, largest)
        else:
            s = b.minimum(b.maximum(s, 0), largest)
        result.append(s.astype(I32 if in_int32(last) else I64))
    wide = any(r.dtype == I64 for r in result)
    return [r.astype(I64) for r in result] if wide else result


def emit_slice(b: Builder, x: Value, starts: Sequence[Value], sizes: Shape) -> Value:
    if sizes == x.shape:
        return x
    return b.dynamic_slice(x, starts, sizes)


def emit_update(ctx: Context, x: Value, update: Value, starts: Sequence[Value]) -> Value:
    """x with a window replaced; x's own memory is used only when it is surely ours."""
    if update.shape == x.shape:
        return update
    if 0 in update.shape:
        return x
    x = ctx.aliases.owned(x)
    update = ctx.aliases.copy_if_shared(update, [x])
    out = ctx.b.dynamic_update_slice(x, update, starts)
    ctx.aliases.write(out, x)
    return out


@rule("dynamic_slice")
def _dynamic_slice(op: Op) -> Value:
    x, *starts = op.operands
    sizes = op.out.shape
    starts = _with_words(op.b, x, starts)
    return emit_slice(op.b, x, clamped(op.b, starts, x.shape, sizes), sizes)


@rule("dynamic_update_slice")
def _dynamic_update_slice(op: Op) -> Value:
    x, update, *starts = op.operands
    if updates.takes(op.ctx, x, update):
        at = list(zip(op.ctx.equation.inputs[2:], starts))
        return updates.update(op.ctx, x, update, at)
    starts = _with_words(op.b, x, starts)
    return emit_update(op.ctx, x, update, clamped(op.b, starts, x.shape, update.shape))


def _with_words(b: Builder, x: Value, starts: list[Value]) -> list[Value]:
    """Keys have one axis more in memory than in their aval."""
    if len(starts) < x.ndim:
        return [*starts, b.splat(0, (), I32)]
    return starts
