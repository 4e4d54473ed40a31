"""prefix_attention: softmax(q k^T) v of a few queries, which see the first keys of a cache.

As operations over the whole cache (`_attended`), all of it is read at each call; a kernel reads
what is seen.  Start reading at `prefix_attention`.
"""
from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np

from calque.core.avals import ShapedArray, shape_of
from calque.core.errors import explain
from calque.core.primitive import Primitive
from calque.core.program import Program
from calque.primitives import elementwise as ew
from calque.primitives import shape as sh
from calque.primitives.contract import dot_general
from calque.primitives.reduce import reduce_max_p, reduce_sum
from calque.transforms.jvp import jvp_flat
from calque.transforms.stage import stage
from calque.transforms.vmap import all_to_front

F32, I32 = np.dtype("float32"), np.dtype("int32")
Orders = tuple[tuple[int, ...], tuple[int, ...]]  # of the axes of keys and values, as they lie
PLAIN: Orders = ((0, 1, 2, 3), (0, 1, 2, 3))
LOWEST = np.float32(-0.7 * float(np.finfo(np.float32).max))  # a score of what is not seen

prefix_attention_p = Primitive("prefix_attention", memory="fresh")


def prefix_attention(q: Any, k: Any, v: Any, counts: Any, scale: float) -> Any:
    """softmax(scale q k^T) v over the first keys of each query.

    Args:
      q: float32[batch, heads, queries, depth].
      k: float32[batch, kv_heads, room, depth]; heads that follow one another share keys.
      v: float32[batch, kv_heads, room, width].
      counts: int32[batch, queries], how many keys each query sees; one that sees none gets the mean
        of all values.
      scale: of the scores.

    Returns:
      float32[batch, heads, queries, width].
    """
    return prefix_attention_p.bind(q, k, v, counts, scale=float(scale), orders=PLAIN)


def _by_heads(k: Any, v: Any, orders: Orders) -> list[Any]:
    """Keys and values with their axes in the order of `prefix_attention`."""
    return [x if order == PLAIN[0] else sh.transpose(x, order)
            for x, order in zip((k, v), orders, strict=True)]


def _attended(q: Any, k: Any, v: Any, counts: Any, scale: float, orders: Orders) -> Any:
    """The same in other primitives."""
    k, v = _by_heads(k, v, orders)
    (b, heads, t, d), (_, kv, room, _), width = shape_of(q), shape_of(k), shape_of(v)[3]
    shared = heads // kv
    by = ((3,), (3,)), ((0, 1), (0, 1))
    scores = dot_general(sh.reshape(q, (b, kv, shared * t, d)), k, by)
    full = (b, kv, shared, t, room)
    scores = ew.mul(sh.reshape(scores, full), np.float32(scale))
    places = sh.iota(I32, full, 4)
    seen = ew.lt(places, sh.broadcast_in_dim(counts, full, (0, 3)))
    scores = ew.select_n(seen, sh.broadcast_in_dim(LOWEST, full, ()), scores)
    most = reduce_max_p.bind(scores, axes=(4,), out_sharding=None)
    weights = ew.exp(ew.sub(scores, sh.broadcast_in_dim(most, full, (0, 1, 2, 3))))
    norm = sh.broadcast_in_dim(reduce_sum(weights, axes=(4,)), full, (0, 1, 2, 3))
    weights = sh.reshape(ew.div(weights, norm), (b, kv, shared * t, room))
    mixed = dot_general(weights, v, (((3,), (2,)), ((0, 1), (0, 1))))
    return sh.reshape(mixed, (b, heads, t, width))


def _abstract(q: ShapedArray, k: ShapedArray, v: ShapedArray, counts: ShapedArray, *, scale: float,
              orders: Orders) -> ShapedArray:
    if k.ndim == v.ndim == 4:
        k, v = (x.update(shape=tuple(x.shape[i] for i in order))
                for x, order in zip((k, v), orders, strict=True))
    shapes = q.shape, k.shape, v.shape
    if any(len(s) != 4 for s in shapes) or {q.dtype, k.dtype, v.dtype} != {F32} or (
            counts.dtype != I32 or counts.shape != (q.shape[0], q.shape[2])) or (
            q.shape[0], q.shape[3]) != (k.shape[0], k.shape[3]) or (
            k.shape[:3] != v.shape[:3]) or not k.shape[1] or not k.shape[2] or (
            q.shape[1] % k.shape[1]):
        raise TypeError(explain(
            f"prefix_attention of {q}, {k}, {v}, {counts}.",
            fix="give float32 (batch, heads, queries, depth), (batch, kv_heads, room, depth), "
                "(batch, kv_heads, room, width) and int32 (batch, queries)."))
    return ShapedArray((*q.shape[:3], v.shape[3]), F32)


@functools.cache
def _program(q: ShapedArray, k: ShapedArray, v: ShapedArray, counts: ShapedArray, *, scale: float,
             orders: Orders) -> Program:
    return stage(lambda q, k, v, n: [_attended(q, k, v, n, scale, orders)], [q, k, v, counts],
                 "prefix_attention")


def _jvp(primals: Sequence[Any], tangents: Sequence[Any], *, scale: float, orders: Orders) -> Any:
    counts = primals[3]
    (out,), (tangent,) = jvp_flat(lambda q, k, v: [_attended(q, k, v, counts, scale, orders)],
                                  primals[:3], tangents[:3])
    return out, tangent


def _batch(size: int, args: Sequence[Any], dims: Sequence[int | None], *, scale: float,
           orders: Orders) -> Any:
    """Another axis of the batch, which comes first."""
    args = list(all_to_front(args, dims, size))
    for i, order in enumerate(orders, 1):
        if order[0]:
            args[i] = sh.transpose(args[i], (0, *[k + 1 for k in order]))
    orders = tuple(PLAIN[0] if order[0] else order for order in orders)  # type: ignore[assignment]
    out = prefix_attention_p.bind(*[sh.merge_axes(x, 0) for x in args], scale=scale, orders=orders)
    return sh.reshape(out, (*shape_of(args[0])[:2], *shape_of(out)[1:])), 0


prefix_attention_p.abstract, prefix_attention_p.program = _abstract, _program
prefix_attention_p.jvp, prefix_attention_p.batch = _jvp, _batch
