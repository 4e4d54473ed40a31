"""dot_product_attention in its plain form: two products and a softmax in float32 between them."""
from __future__ import annotations

import math
from typing import Any

import numpy as np

from calque.core import dtypes
from calque.core.avals import dtype_of, ndim_of, shape_of
from calque.core.errors import explain
from calque.core.types import Axes, Shape
from calque.lax.make import broadcasted_iota
from calque.nn.normalize import logsumexp, softmax
from calque.numpy import util
from calque.numpy.einsum import einsum
from calque.numpy.logic import where
from calque.primitives import elementwise as ew
from calque.primitives import shape as sh
from calque.primitives.attention import prefix_attention

FEW = 16  # queries for which a cache is read as far as they see it


@util.planned
def dot_product_attention(
        query: Any, key: Any, value: Any, bias: Any = None, mask: Any = None, *,
        scale: float | None = None, is_causal: bool = False, query_seq_lengths: Any = None,
        key_value_seq_lengths: Any = None, local_window_size: Any = None,
        implementation: str | None = None, return_residual: bool = False) -> Any:
    """softmax(query key^T scale + bias) value for every head.

    Sizes: B batch, T queries, S keys, N heads, K heads of key and value (N is a multiple of K;
    each of them serves N / K heads of the query), H size of a head.

    Args:
      query: array of shape (B, T, N, H), or (T, N, H).
      key: array of shape (B, S, K, H), or (S, K, H).
      value: array of key's shape and dtype.
      bias: array that broadcasts to (B, N, T, S), added to the scores.
      mask: bool array that broadcasts to (B, N, T, S); where it is False there is no attention.
      scale: of the scores; 1 / sqrt(H) by default.
      is_causal: a query does not see later keys.
      query_seq_lengths: int array of shape (B,); later queries give 0.
      key_value_seq_lengths: int array of shape (B,); later keys are not seen.
      local_window_size: how many keys to the left and to the right are seen (a pair or one number).
      implementation: None or 'xla'.
      return_residual: also return the logsumexp of the scores.

    Returns:
      An array of query's shape and dtype; with return_residual also one of shape (B, T, N).

    Raises:
      ValueError: ranks, shapes or dtypes do not fit, or the implementation is unknown.
      RuntimeError: implementation is 'cudnn'.

    Example:
      >>> import calque.numpy as jnp
      >>> from calque import nn
      >>> x = jnp.ones((1, 4, 2, 8))
      >>> nn.dot_product_attention(x, x, x, is_causal=True).shape
      (1, 4, 2, 8)
    """
    if implementation not in (None, "xla"):
        if implementation == "cudnn":
            raise RuntimeError(explain("cuDNN is not detected.", fix="use implementation='xla'."))
        raise ValueError(explain(f"Unsupported implementation option: {implementation}"))
    window = _window(local_window_size)
    with util.lazy_eval("dot_product_attention"):
        query, key, value = (util.array(v) for v in util.check_arrays(
            "dot_product_attention", query, key, value))
        shape = shape_of(query)
        if len(shape) == 3:
            query, key, value = (_batched(v) for v in (query, key, value))
            bias, mask = (None if v is None else _raised(v) for v in (bias, mask))
        _check(query, key, value, mask)
        plain = bias is None and mask is None and not is_causal and window is None
        if plain and query_seq_lengths is None and not return_residual and _sees_a_prefix(
                query, scale, key_value_seq_lengths):
            return sh.reshape(_prefix(query, key, value, scale, key_value_seq_lengths), shape)
        out, residual = _attend(query, key, value, bias, mask, scale, is_causal,
                                query_seq_lengths, key_value_seq_lengths, window)
        out = sh.reshape(out, shape)
        if not return_residual:
            return out
        return out, sh.reshape(residual, shape[:-1])


def _batched(x: Any) -> Any:
    return sh.reshape(x, (1, *shape_of(x)))


def _raised(x: Any) -> Any:
    """A mask or bias of the unbatched form, with its batch axis."""
    x = util.one_array("dot_product_attention", x)
    x = util.array(x)
    return _batched(x) if ndim_of(x) == 3 else x


def _window(size: Any) -> tuple[int, int] | None:
    if size is None:
        return None
    if hasattr(size, "__index__"):
        return (int(size), int(size))
    left, right = size
    return int(left), int(right)


def _check(query: Any, key: Any, value: Any, mask: Any) -> None:
    q, k, v = (shape_of(x) for x in (query, key, value))
    if len(q) != 4 or len(k) != 4:
        raise ValueError(explain(
            f"dot_product_attention: query and key must have 3 or 4 axes, got shapes {q} and {k}."))
    if k != v:
        raise ValueError(explain(f"value shape should be {list(k)}: but got {v}"))
    if (q[0], q[3]) != (k[0], k[3]):
        raise ValueError(explain(
            f"query shape should be [{k[0]}, -1, -1, {k[3]}]: but got {q}"))
    if not k[2] or q[2] % k[2]:
        raise ValueError(explain("The number of query heads must be a multiple of key/value heads, "
                                 f"but got {q[2]} vs {k[2]}"))
    for name, x in (("key", key), ("value", value)):
        if dtype_of(x) != dtype_of(query):
            raise ValueError(explain(f"{name} dtype should be {dtype_of(query).name}, but got "
                                     f"{dtype_of(x).name}"))
    if mask is not None and dtype_of(mask) != dtypes.bool_:
        raise ValueError(explain(
            f"mask dtype should be bool, but got {dtype_of(mask).name}"))


def _attend(query: Any, key: Any, value: Any, bias: Any, mask: Any, scale: Any, is_causal: bool,
            query_lengths: Any, key_lengths: Any, window: Any) -> tuple[Any, Any]:
    batch, targets, heads, size = shape_of(query)
    _, sources, groups, _ = shape_of(key)
    dtype = dtype_of(query)
    working = dtype if dtype.itemsize > 4 else dtypes.float32
    shared = heads // groups
    query = sh.reshape(query, (batch, targets, groups, shared, size))
    scores = einsum("btkgh,bskh->bkgts", query, key, preferred_element_type=working)
    scores = scores * working.type(1 / math.sqrt(size) if scale is None else scale)
    full = (batch, groups, shared, targets, sources)
    if bias is not None:
        scores = scores + _by_group(bias, full)
    seen = _seen(full, is_causal, query_lengths, key_lengths, window)
    if mask is not None:
        masked = _by_group(mask, full)
        seen = masked if seen is None else ew.and_(util.broadcast_to(seen, full), masked)
    if seen is not None:
        # a large finite number: a row without any key stays a mean and no NaN
        lowest = working.type(-0.7 * float(np.finfo(working).max))
        scores = where(seen, scores, lowest)
    weights = ew.convert(softmax(scores, axis=-1), dtype)
    out = einsum("bkgts,bskh->btkgh", weights, value, preferred_element_type=dtype)
    out = sh.reshape(out, (batch, targets, heads, size))
    if query_lengths is not None:
        alive = _below((batch, targets), query_lengths)
        out = out * ew.convert(sh.reshape(alive, (batch, targets, 1, 1)), dtype)
    residual = logsumexp(scores, axis=-1)
    residual = sh.transpose(residual, (0, 3, 1, 2))
    return out, ew.convert(sh.reshape(residual, (batch, targets, heads)), dtype)


def _sees_a_prefix(query: Any, scale: Any, key_lengths: Any) -> bool:
    """Whether few queries of float32 see the first keys only: the others then aren't read."""
    targets = shape_of(query)[1]
    return (key_lengths is not None and dtype_of(query) == dtypes.float32
            and isinstance(scale, float | int | None) and isinstance(targets, int)
            and targets <= FEW)


def _prefix(query: Any, key: Any, value: Any, scale: Any, lengths: Any) -> Any:
    batch, targets, _, size = shape_of(query)
    counts = sh.broadcast_in_dim(_lengths(batch, lengths), (batch, targets), (0,))
    q, k, v = (sh.transpose(x, (0, 2, 1, 3)) for x in (query, key, value))
    scale = 1 / math.sqrt(size) if scale is None else scale
    return sh.transpose(prefix_attention(q, k, v, counts, scale), (0, 2, 1, 3))


def _by_group(x: Any, full: Shape) -> Any:
    """A mask or bias over (B, N, T, S) as one over (B, K, N / K, T, S)."""
    x = util.one_array("dot_product_attention", x)
    batch, groups, shared, targets, sources = full
    heads = groups * shared
    own = shape_of(x)
    own = (1,) * (4 - len(own)) + own
    if len(own) != 4 or any(n not in (1, m) for n, m in zip(
            own, (batch, heads, targets, sources))):
        raise TypeError(explain(
            "add got incompatible shapes for broadcasting: "
            f"{(batch, heads, targets, sources)}, {own}.",
            fix="give the bias or mask four axes, each of that size or of size 1."))
    split = (groups, shared) if own[1] > 1 else (1, 1)
    return util.broadcast_nonscalar(
        sh.reshape(util.array(x), (own[0], *split, own[2], own[3])), full)


def _below(shape: tuple[int, int], lengths: Any) -> Any:
    """Positions before the lengths, (B, n)."""
    ends = sh.broadcast_in_dim(_lengths(shape[0], lengths), shape, (0,))
    return ew.lt(broadcasted_iota(dtypes.int32, shape, 1), ends)


def _lengths(batch: Any, lengths: Any) -> Any:
    """int32 (B,)."""
    lengths = util.one_array("dot_product_attention", lengths)
    lengths = ew.convert(util.array(lengths), dtypes.int32)
    if shape_of(lengths) not in ((), (1,), (batch,)):
        raise ValueError(explain(
            f"dot_product_attention: sequence lengths must have shape ({batch},), got "
            f"{shape_of(lengths)}."))
    return util.broadcast_to(lengths, (batch,))


def _seen(full: Shape, is_causal: bool, query_lengths: Any, key_lengths: Any,
          window: Any) -> Any:
    """Which keys a query sees by position: a bool array of the scores' shape, or None."""
    batch, _, _, targets, sources = full
    found = None

    def both(x: Any, axes: Axes) -> Any:
        x = sh.broadcast_in_dim(x, full, axes)
        return x if found is None else ew.and_(found, x)

    rows = broadcasted_iota(dtypes.int32, (targets, sources), 0)
    columns = broadcasted_iota(dtypes.int32, (targets, sources), 1)
    if is_causal:
        found = both(rows >= columns, (3, 4))
    if window is not None:
        left, right = window
        found = both(ew.and_(rows <= columns + left, rows >= columns - right), (3, 4))
    if query_lengths is not None:
        found = both(_below((batch, targets), query_lengths), (0, 3))
    if key_lengths is not None:
        found = both(_below((batch, sources), key_lengths), (0, 4))
    return found


__all__ = ["dot_product_attention"]
