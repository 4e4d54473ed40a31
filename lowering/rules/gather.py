"""gather, as rows of the operand at linear addresses.

IREE's gather reads wherever its indices point, so they are clamped here in every mode; windows that
are not inside are replaced afterwards where the mode says so.  Start reading at `addresses`.
"""
from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from calque.core.dims import in_int32, is_larger, is_static, min_dim
from calque.core.lists import other_axes, without
from calque.core.types import Dtype, Shape
from calque.lowering.emit import mlir
from calque.lowering.emit.builder import Builder, Value
from calque.lowering.emit.context import Context
from calque.lowering.emit.dtypes import I32, I64, signed
from calque.lowering.emit.registry import Op, rule
from calque.lowering.kernels import move

WIDE = 4  # rows from here on are moved by linalg_ext.gather (by vectors; elements gain nothing)


@dataclass(frozen=True, slots=True)
class Addresses:
    """Where the windows of a gather or scatter lie in the operand seen as (rows, width)."""

    ids: Value  # (*batch, *window axes that are not whole): the rows, inside the operand
    inside: Value | None  # (*batch): whether the window was inside as it came; None: not asked
    batch: Shape
    rows: int
    width: int

    @property
    def count(self) -> int:
        return math.prod(self.ids.shape)


def columns(ctx: Context, indices: Value) -> list[Value]:
    """The entries of index vectors, one value of the batch's shape for each."""
    b, batch = ctx.b, indices.shape[:-1]
    parts = ctx.columns.get(indices)
    if parts is None:
        parts = [_column(b, indices, k) for k in range(indices.shape[-1])]
    return [b.reshape(p, batch) for p in parts]


def _column(b: Builder, x: Value, k: int) -> Value:
    return b.slice_in_dim(x, k, k + 1, x.ndim - 1) if x.shape[-1] > 1 else x


def clamped(b: Builder, index: Value, limit: int) -> Value:
    """Positions within [0, limit], in their own dtype."""
    return b.minimum(b.maximum(index, 0), min_dim(limit, int(np.iinfo(index.dtype).max)))


def addresses(ctx: Context, indices: Value, shape: Sequence[int], sizes: Sequence[int],
              targets: Sequence[int], operand_batching: Sequence[int],
              index_batching: Sequence[int], ask: bool) -> Addresses:
    """The rows of windows of `sizes` at index vectors: trailing whole axes are the rows' elements.

    targets: the axis of the operand for each entry of an index vector; batching axes go together.
    """
    b = ctx.b
    whole = [n == s and a not in operand_batching for a, (n, s) in enumerate(zip(shape, sizes))]
    lead = max((a + 1 for a, w in enumerate(whole) if not w), default=0)
    rows, width = math.prod(shape[:lead]), math.prod(shape[lead:])
    kind = I32 if in_int32(rows) else I64
    stride = {a: math.prod(shape[a + 1:lead]) for a in range(lead)}
    batch = indices.shape[:-1]
    ids: Value | None = None
    inside: Value | None = None
    for index, axis in zip(columns(ctx, indices), targets):
        safe = clamped(b, index, shape[axis] - sizes[axis])
        if ask:
            inside = _and(inside, index.eq(safe))
        if axis < lead:
            ids = _plus(ids, safe.astype(kind) * stride[axis])
    for axis, along in zip(operand_batching, index_batching):
        ids = _plus(ids, b.iota(batch, kind, along) * stride[axis])
    if ids is None:
        ids = b.splat(0, batch, kind)
    for axis in range(lead):
        if sizes[axis] != 1:
            wider = (*ids.shape, sizes[axis])
            ids = b.broadcast(ids, wider, range(ids.ndim))
            ids = ids + b.iota(wider, kind, len(wider) - 1) * stride[axis]
    return Addresses(ids, inside, batch, rows, width)


def _plus(x: Value | None, y: Value) -> Value:
    return y if x is None else x + y


def _and(x: Value | None, y: Value) -> Value:
    return y if x is None else x & y


def take_rows(ctx: Context, x: Value, ids: Value) -> Value:
    """x[ids] for x (rows, width) and ids (count,) that are inside."""
    moved = move.pick(ctx, x, ids)
    if moved is not None:
        return moved
    b, width, count = ctx.b, x.shape[1], ids.shape[0]
    x = b.materialize_slice(x)
    kind = signed(x.dtype)
    data = x.view(kind)  # StableHLO's unsigned types enter neither linalg nor linalg_ext
    target = Value(b, b.empty((count, width), kind), (count, width), kind)
    if _is_moved(ctx, width, x.dtype):
        op = b.op("iree_linalg_ext.gather", [data, ids, target], [((count, width), kind)], {
            "dimension_map": "array<i64: 0>", "operandSegmentSizes": "array<i32: 1, 1, 1>"})
        # with what reads it in one dispatch it may need more stack than IREE allows, or not compile
        # (tests/lowering/test_refusals.py)
        (rows,) = b.barrier(Value(b, op.results[0], (count, width), kind))
        return rows.view(x.dtype)
    ids = b.materialize_reduced(ids)
    return ctx.fusion.note(_elements(data, ids, target).view(x.dtype), [x, ids])


def _is_moved(ctx: Context, width: Any, dtype: Dtype) -> bool:
    """Whether rows are moved by linalg_ext.gather.  For AArch64 IREE compiles it where rows are
    whole vectors only ("large vector sizes": tests/lowering/test_refusals.py)."""
    if not ctx.cpu or dtype.kind not in "iuf" or dtype.itemsize == 1:
        return False
    if ctx.target is not None and ctx.target.arch == "aarch64" and not (
            is_static((width,)) and width * dtype.itemsize % 16 == 0):
        return False
    return is_larger(width, WIDE - 1)


def _elements(data: Value, ids: Value, target: Value) -> Value:
    """Element by element, in a generic of our own: stablehlo.gather becomes torch_index_select,
    which IREE cannot legalize before some conversions (tests/lowering/test_refusals.py)."""
    index = mlir.ir().IndexType.get()

    def element(place: Any, old: Any) -> list[Any]:
        row = mlir.value("arith.index_cast", index, [place])
        column = mlir.value("linalg.index", index, dim="1 : i64")
        return [mlir.value("tensor.extract", old.type, [data.ir, row, column])]

    (made,) = mlir.generic(["d0", "d1"], 0, [["d0"], ["d0", "d1"]], [ids.ir], [target.ir], element)
    return Value(data.b, made, target.shape, target.dtype)


@rule("gather")
def _gather(op: Op) -> Value:
    b, (x, indices) = op.b, op.operands
    d, sizes, out = op["dimension_numbers"], op["slice_sizes"], op.out
    ask = op["mode"].name == "FILL_OR_DROP"
    fill = 0 if op["fill_value"] is None else op["fill_value"]
    at = addresses(op.ctx, indices, x.shape, sizes, d.start_index_map, d.operand_batching_dims,
                   d.start_indices_batching_dims, ask)
    dropped = {*d.collapsed_slice_dims, *d.operand_batching_dims}
    window = without(sizes, dropped)
    if not d.operand_batching_dims and all(x.shape[a] == sizes[a] for a in d.start_index_map):
        # one place only: as positions that fold to zeros IREE may not compile it (test_refusals.py)
        only = b.reshape(b.cropped(x, sizes), window)
        lead = len(at.batch)
        found = b.broadcast(only, (*at.batch, *window), range(lead, lead + len(window)))
    else:
        rows, ids = b.reshape(x, (at.rows, at.width)), b.reshape(at.ids, (at.count,))
        moved = None
        if at.inside is not None and at.inside.shape == at.ids.shape:
            moved = move.pick(op.ctx, rows, ids, b.reshape(at.inside, ids.shape), fill)
        if moved is not None:
            at = replace(at, inside=None)
        found = take_rows(op.ctx, rows, ids) if moved is None else moved
        found = b.reshape(found, (*at.batch, *window))
    places = other_axes(out.ndim, d.offset_dims)
    order = [len(places) + d.offset_dims.index(i) if i in d.offset_dims else places.index(i)
             for i in range(out.ndim)]
    found = b.transpose(found, order)
    if at.inside is None:
        return found
    mask = b.broadcast(at.inside, out.shape, places)
    picked = b.select(mask, found, b.splat(fill, out.shape, out.dtype))
    return op.ctx.fusion.note(picked, [found, indices])
