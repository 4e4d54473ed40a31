"""The scatter family, as rows of the operand at linear addresses (lowering/rules/gather.py).

IREE's scatter writes wherever its indices point and into its operand, which may be the caller's
array.  One window is a dynamic_slice, the join and a dynamic_update_slice; several are a loop of
ours on the CPU (lowering/kernels/scatter.py), elsewhere a scatter whose bad rows change nothing.
"""
from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from calque.core.avals import ShapedArray
from calque.core.dims import bounds, in_int32, is_nonnegative, is_static
from calque.core.dtypes import extreme, real_dtype
from calque.core.errors import InconclusiveDimensionOperation
from calque.core.lists import other_axes
from calque.core.types import Dtype
from calque.lowering.emit import mlir
from calque.lowering.emit.builder import Builder, Value
from calque.lowering.emit.context import Context
from calque.lowering.emit.dtypes import BOOL, F32, I8, I32, I64, is_narrow, signed
from calque.lowering.emit.registry import Op, rule, rules
from calque.lowering.kernels.scatter import scatter_rows
from calque.lowering.math.convert import convert
from calque.lowering.passes.scalars import is_of_rows
from calque.lowering.rules.gather import Addresses, addresses, clamped, columns
from calque.lowering.rules.index import emit_slice, emit_update

NAMES = {"scatter": "set", "scatter-add": "add", "scatter-sub": "sub", "scatter-mul": "mul",
         "scatter-min": "min", "scatter-max": "max"}


@rule(*NAMES)
def _scatter(op: Op) -> Value:
    if 0 in op.operands[2].shape:
        return op.x
    out = _scattered(op, NAMES[op.ctx.equation.name])
    aliases = op.ctx.aliases
    if out not in aliases.roots:
        aliases.roots[out] = aliases.roots_of(op.x) | {id(out)}
    return out


def _scattered(op: Op, how: str) -> Value:
    ctx, (x, indices, updates), d = op.ctx, op.operands, op["dimension_numbers"]
    if ctx.cpu and is_of_rows(x, indices, op.params):
        x = ctx.aliases.copy_if_shared(x, (updates, indices))
        ids = ctx.b.reshape(indices, indices.shape[:1])
        return _loop(ctx, how, x, Addresses(ids, None, ids.shape, *x.shape), updates)
    inserted = {*d.inserted_window_dims, *d.operand_batching_dims}
    window = iter(updates.shape[i] for i in d.update_window_dims)
    sizes = tuple(1 if a in inserted else next(window) for a in range(x.ndim))
    ask, reads = op["mode"].name != "CLIP", (updates, indices)
    targets = d.scatter_dims_to_operand_dims
    first = other_axes(updates.ndim, d.update_window_dims)
    one = math.prod(indices.shape[:-1]) == 1 and _fits(ctx, x, sizes, targets)
    if one:
        updates = ctx.aliases.copy_if_shared(updates, [x])
    updates = ctx.b.transpose(updates, [*first, *d.update_window_dims])
    if one:
        return _one_window(ctx, how, x, indices, ctx.b.reshape(updates, sizes), targets, ask)
    # the updates may be a view of the operand: IREE gives both one memory, and a window would be
    # read after it was written (tests/lowering/test_scatter.py)
    x = ctx.aliases.copy_if_shared(x, reads)
    at = addresses(ctx, indices, x.shape, sizes, targets, d.operand_batching_dims,
                   d.scatter_indices_batching_dims, ask)
    if at.inside is not None:
        inside = ctx.b.broadcast(at.inside, at.ids.shape, range(len(at.batch)))
        at = replace(at, ids=ctx.b.select(inside, at.ids, -1))
    at = replace(at, ids=ctx.b.reshape(at.ids, (at.count,)))
    updates = ctx.b.reshape(updates, (at.count, at.width))
    many = _loop if ctx.cpu else _portable
    if not (ctx.cpu or is_static((at.rows, at.count, at.width))):
        raise InconclusiveDimensionOperation(f"windows of {at.width} elements.")
    return ctx.b.reshape(many(ctx, how, x, at, updates), x.shape)


# ---- one window
def _fits(ctx: Context, x: Value, sizes: Sequence[Any], targets: Sequence[int]) -> bool:
    """Whether a window can lie inside: an axis whose size is known at the call only may be empty
    (the loop drops a window then; other targets have no loop for such sizes, and the call needs an
    element)."""
    limits = [x.shape[a] - sizes[a] for a in targets]
    return all(bounds(n, 0)[0] >= 0 or (not ctx.cpu and bool(is_nonnegative(n))) for n in limits)


def _one_window(ctx: Context, how: str, x: Value, indices: Value, new: Value,
                targets: Sequence[int], ask: bool) -> Value:
    b, sizes = ctx.b, new.shape
    limits = [x.shape[a] - sizes[a] for a in targets]
    kind = I32 if all(map(in_int32, limits)) else I64
    starts = [b.splat(0, (), kind) for _ in x.shape]
    inside: Value | None = None
    for index, axis, limit in zip(columns(ctx, indices), targets, limits):
        index = b.reshape(index, ())
        safe = clamped(b, index, limit)
        one = index.eq(safe)
        starts[axis] = safe.astype(kind)
        inside = one if inside is None else inside & one
    if how != "set" or (ask and inside is not None):
        old = emit_slice(b, x, starts, sizes)
        if how != "set":
            new = rules[how](Op([old, new], {}, [ShapedArray(sizes, x.dtype)], ctx))
        if ask and inside is not None:
            new = b.select(inside, new, old)
    return emit_update(ctx, x, new, starts)


# ---- many rows, by our own loop
def _loop(ctx: Context, how: str, x: Value, at: Addresses, updates: Value) -> Value:
    """Every dtype as one that the loop knows; the operand as memory that is ours."""
    b, dtype, rows = ctx.b, x.dtype, (at.rows, at.width)
    if dtype.kind == "c":
        pairs = how in ("mul", "min", "max")
        data = _as_pairs(b, b.reshape(x, rows))
        out = scatter_rows(ctx, data, at.ids, _as_pairs(b, updates), how, pairs=pairs)
        return _from_pairs(b, out)
    if is_narrow(dtype) and how != "set":  # joined in f32, rounded once
        data, wide = convert(b, b.reshape(x, rows), F32), convert(b, updates, F32)
        return convert(b, scatter_rows(ctx, data, at.ids, wide, how), dtype)
    limit = None
    if math.prod(x.shape) == 1:  # two rows, the second one never written: memory of our own
        x, limit = b.concatenate([b.reshape(x, (1, 1))] * 2, 0), 1
        rows = (2, 1)
    else:
        x = ctx.aliases.owned(x)
    data, updates = _as_known(b, b.reshape(x, rows)), _as_known(b, updates)
    out = scatter_rows(ctx, data, at.ids, updates, how, limit=limit, unsigned=dtype.kind in "bu")
    if limit is not None:
        out = b.cropped(out, (1, 1))
    return out.ne(0) if dtype == BOOL else out.view(dtype)


def _as_known(b: Builder, x: Value) -> Value:
    """The same bits as signed integers; f32 and f64 stay, booleans become bytes."""
    if x.dtype == BOOL:
        return x.astype(I8)
    if is_narrow(x.dtype):
        return x.view(np.dtype(f"i{x.dtype.itemsize}"))
    return x.view(signed(x.dtype))


def _as_pairs(b: Builder, x: Value) -> Value:
    """Complex (n, width) as floats (n, 2 width)."""
    n, width = x.shape
    parts = [b.reshape(f(x), (n, width, 1)) for f in (b.real, b.imag)]
    return b.reshape(b.concatenate(parts, 2), (n, 2 * width))


def _from_pairs(b: Builder, x: Value) -> Value:
    n, width = x.shape[0], x.shape[1] // 2
    x = b.reshape(x, (n, width, 2))
    re, im = (b.index_in_dim(x, i, 2) for i in (0, 1))
    return b.complex(re, im)


# ---- many rows, in StableHLO
def _portable(ctx: Context, how: str, x: Value, at: Addresses, updates: Value) -> Value:
    """Rows outside are joined as identities to row 0; a set sends them to one row more."""
    b, dtype = ctx.b, x.dtype
    if is_narrow(dtype) and how != "set":
        out = _portable(ctx, how, convert(b, x, F32), at, convert(b, updates, F32))
        return convert(b, out, dtype)
    if how == "sub":
        how, updates = "add", -updates
    if how == "set" or math.prod(x.shape) == 1:
        data = b.reshape(x, (at.rows, at.width))
        data = b.concatenate([data, b.splat(0, (1, at.width), dtype)], 0)
        ids = b.select(at.ids < 0, b.like(at.ids, at.rows), at.ids)
        out = _emit(b, how, data, ids, updates)
        return b.cropped(out, (at.rows, at.width))
    data = b.reshape(ctx.aliases.owned(x), (at.rows, at.width))
    bad = b.broadcast(at.ids < 0, updates.shape, (0,))
    updates = b.select(bad, b.splat(_identity(how, dtype), updates.shape, dtype), updates)
    return _emit(b, how, data, b.maximum(at.ids, 0), updates)


def _identity(how: str, dtype: Dtype) -> Any:
    if how == "add":
        return -0.0 if dtype.kind in "fc" else 0
    if how == "mul":
        return 1
    return extreme(real_dtype(dtype), how == "min")


def _emit(b: Builder, how: str, data: Value, ids: Value, updates: Value) -> Value:
    # for CUDA, IREE compiles no scatter with a widening of its updates in it
    # (tests/lowering/test_cuda_needs_cures.py)
    (updates,) = b.barrier(updates)
    made = b.op("stablehlo.scatter", [data, b.reshape(ids, (*ids.shape, 1)), updates],
                [(data.shape, data.dtype)], {
        "scatter_dimension_numbers": "#stablehlo.scatter<update_window_dims = [1], "
                                     "inserted_window_dims = [0], "
                                     "scatter_dims_to_operand_dims = [0], index_vector_dim = 1>",
        "indices_are_sorted": "false", "unique_indices": "false"}, regions=1)
    mlir.fill_region(
        made.regions[0], [mlir.tensor_type((), data.dtype)] * 2, "stablehlo.return",
        lambda *raw: [_joined(b, how, *[Value(b, a, (), data.dtype) for a in raw]).ir])
    return Value(b, made.results[0], data.shape, data.dtype)


def _joined(b: Builder, how: str, old: Value, new: Value) -> Value:
    if how == "set":
        return new
    if how in ("add", "mul"):
        return b.binary({"add": "add", "mul": "multiply"}[how], old, new)
    if old.dtype == BOOL:
        return b.binary("and" if how == "min" else "or", old, new)
    if old.dtype.kind != "c":
        return b.binary(f"{how}imum", old, new)
    order = "LT" if how == "min" else "GT"
    (r0, i0), (r1, i1) = ((b.real(v), b.imag(v)) for v in (old, new))
    nan = b.isnan(r1) | b.isnan(i1)
    better = b.compare(order, r1, r0) | (r1.eq(r0) & b.compare(order, i1, i0)) | nan
    return b.select(better & ~(b.isnan(r0) | b.isnan(i0)), new, old)
