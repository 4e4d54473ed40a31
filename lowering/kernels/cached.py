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
from calque.lowering.kernels.native import emit_native

VECTOR, DEEPEST = 16, 256  # numbers of the widest vector; of a query, and of a value
GROUPS = 64  # workgroups at most


def takes(xs: Sequence[Value], orders: Sequence[Sequence[int]]) -> bool:
    """Whether the kernel does: depth and width are whole vectors, whose numbers lie side by side,
    and there is something."""
    q, k, v = xs[:3]
    return math.prod(q.shape) > 0 and all(order[3] == 3 for order in orders) and all(
        0 < n <= DEEPEST and n % VECTOR == 0 for n in (k.shape[3], v.shape[3]))


def prefix_attention(ctx: Context, q: Value, k: Value, v: Value, counts: Value, scale: int,
                     orders: Sequence[Sequence[int]], shape: Shape) -> Value:
    """The result, of keys and values as they lie."""
    (batch, heads, queries, depth), width = q.shape, shape[3]
    kv, room = (k.shape[orders[0][i]] for i in (1, 2))
    steps = [memory.row_major(x.shape)[order[i]] for x, order in zip((k, v), orders)
             for i in range(3)]
    scalars = (batch, heads, heads // kv, queries, room, depth, width, *steps, scale)
    return emit_native(ctx, "attention", "calque_prefix_attention", [q, k, v, counts],
                       [(shape, F32)], scalars, max(1, min(GROUPS, batch * kv)))[0]
