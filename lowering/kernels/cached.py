"""Attention to what a cache holds of keys and values: lowering/native/attention.c.

Start reading at `prefix_attention`.
"""
from __future__ import annotations

import math
from collections.abc import Sequence

from calque.core.types import Shape
from calque.lowering.emit.builder import Value
from calque.lowering.emit.context import Context
from calque.lowering.emit.dtypes import F32
from calque.lowering.kernels import memory
from calque.lowering.kernels.gemm import transposed_source
from calque.lowering.kernels.native import emit_native

VECTOR, DEEPEST = 16, 256  # numbers of the widest vector; of a query, and of a value
GROUPS = 64  # workgroups at most


def takes(xs: Sequence[Value]) -> bool:
    """Whether the kernel does: depth and width are whole vectors, and there is something."""
    q, _, v = xs[:3]
    return math.prod(q.shape) > 0 and all(
        0 < n <= DEEPEST and n % VECTOR == 0 for n in (q.shape[3], v.shape[3]))


def prefix_attention(ctx: Context, q: Value, k: Value, v: Value, counts: Value, scale: int,
                     shape: Shape) -> Value:
    """The result, of keys and values as they lie (transposed, where their rows are whole)."""
    (batch, heads, queries, depth), (_, kv, room, width) = q.shape, v.shape
    sources, steps = [], []
    for x in (k, v):
        source, order = transposed_source(x)
        rows = memory.row_major(source.shape)
        if rows[order.index(3)] != 1:
            source, order, rows = x, [0, 1, 2, 3], memory.row_major(x.shape)
        sources.append(source)
        steps += [rows[order.index(i)] for i in range(3)]
    scalars = (batch, heads, heads // kv, queries, room, depth, width, *steps, scale)
    return emit_native(ctx, "attention", "calque_prefix_attention", [q, *sources, counts],
                       [(shape, F32)], scalars, max(1, min(GROUPS, batch * kv)))[0]
