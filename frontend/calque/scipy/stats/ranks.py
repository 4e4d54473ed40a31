"""Ranks, the most frequent value, the standard error of the mean.

Equal values are a run of the sorted ones; ranks and counts follow from where runs begin and end.
"""
from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from calque import lax
from calque.core.avals import dtype_of, ndim_of, shape_of
from calque.core.errors import explain
from calque.lax.operands import canonical_axis
from calque.numpy import means, util
from calque.numpy import reductions as rd
from calque.numpy.convert import astype
from calque.numpy.join import concatenate
from calque.numpy.logic import where
from calque.numpy.nanreductions import nanstd
from calque.numpy.picking import take_along_axis
from calque.numpy.shapes import expand_dims, moveaxis
from calque.numpy.sorting import argsort, sort
from calque.primitives import elementwise as ew

__all__ = ["ModeResult", "mode", "rankdata", "sem"]


class ModeResult(NamedTuple):
    """The most frequent values and how often they occur."""
    mode: Any
    count: Any


def _policy(name: str, given: str) -> None:
    if given not in ("propagate", "omit", "raise"):
        raise ValueError(explain(f"{name}: Illegal nan_policy value {given!r}; expected one of "
                                 "'propagate', 'omit', 'raise'."))
    if given == "omit":
        raise NotImplementedError(explain("Logic for `nan_policy` of omit is not implemented",
                                          fix="remove NaN before."))
    if given == "raise":
        raise NotImplementedError(explain(
            f"In order to best JIT compile `{name}`, we cannot know whether `x` contains nans.",
            fix=f"check for NaN outside of {name}."))


def _along_last(name: str, a: Any, axis: int | None) -> tuple[Any, int]:
    """The array with the axis last, and where it was; all of it for None."""
    a = util.one_array(name, a)
    a = util.array(a)
    if axis is None or not a.ndim:
        return a.reshape(-1), 0
    axis = canonical_axis(axis, a.ndim)
    return moveaxis(a, axis, -1), axis


def _runs(values: Any, equal_nan: bool = False) -> tuple[Any, Any, Any]:
    """Of sorted values: where a run begins, and the first and last position of each one's run."""
    size = values.shape[-1]
    first = np.ones((*values.shape[:-1], 1), bool)
    other = values[..., 1:] != values[..., :-1]
    if equal_nan:  # (they come last)
        other = other & (values[..., :-1] == values[..., :-1])
    begins = concatenate([first, other], axis=-1)
    ends = concatenate([begins[..., 1:], first], axis=-1)
    here = np.broadcast_to(np.arange(size, dtype=np.int32), values.shape)
    last = values.ndim - 1
    return (begins, lax.cummax(where(begins, here, 0), last),
            lax.cummin(where(ends, here, size), last, reverse=True))


@util.planned
def rankdata(a: Any, method: str = "average", *, axis: int | None = None,
             nan_policy: str = "propagate") -> Any:
    """Ranks of values, from 1; equal ones share a rank.

    Args:
      a: array.
      method: the rank of equal values: their 'average', 'min' or 'max'; 'dense': as 'min', without
        gaps; 'ordinal': distinct, in order.
      axis: the axis of what is ranked; None for all values (the result is flat).
      nan_policy: 'propagate' alone: NaN makes all ranks along the axis NaN.

    Returns:
      An array of a float dtype, float32 and above, of a's shape or flat.

    Raises:
      NotImplementedError: another nan_policy.
      TypeError: a is not an array.
      ValueError: method is unknown, or axis is out of bounds.

    Example:
      >>> import calque.numpy as jnp
      >>> from calque.scipy import stats
      >>> stats.rankdata(jnp.array([30, 10, 10]))
      Array([3. , 1.5, 1.5], dtype=float32)
    """
    _policy("rankdata", nan_policy)
    if method not in ("average", "min", "max", "dense", "ordinal"):
        raise ValueError(explain(f"unknown method '{method}'",
                                 fix="use average, min, max, dense or ordinal."))
    rows, back = _along_last("rankdata", a, axis)
    if not rows.size:
        return moveaxis(astype(rows, _of_ranks(rows.dtype)), -1, back)
    order = argsort(rows)
    begins, first, last = _runs(take_along_axis(rows, order, -1))
    kind = _of_ranks(rows.dtype)
    ranks: dict[str, Callable[[], Any]] = {
        "min": lambda: first + 1, "max": lambda: last + 1,
        "dense": lambda: lax.cumsum(astype(begins, np.int32), rows.ndim - 1),
        "ordinal": lambda: np.broadcast_to(np.arange(1, rows.shape[-1] + 1), rows.shape),
        "average": lambda: astype(first + last, kind) / 2 + 1}
    found = astype(take_along_axis(util.array(ranks[method]()), argsort(order), -1), kind)
    missing = rd.any(rows != rows, axis=-1, keepdims=True)
    return moveaxis(where(missing, np.nan, found), -1, back)


def _of_ranks(dtype: Any) -> Any:
    """The dtype of ranks: halves of numbers above 1,024 do not fit in 16 bits."""
    found = util.to_inexact(dtype)
    return np.dtype(np.float32) if found.itemsize < 4 else found


@util.planned
def mode(a: Any, axis: int | None = 0, nan_policy: str = "propagate", keepdims: bool = False
         ) -> ModeResult:
    """The most frequent value, the least of equally frequent ones.

    Args:
      a: array.
      axis: an axis; None for all values.
      nan_policy: 'propagate' alone: each NaN is a value of its own.
      keepdims: leave the axis with size 1.

    Returns:
      ModeResult(mode, count): arrays without the axis; count is of dtype int32.

    Raises:
      NotImplementedError: another nan_policy.
      TypeError: a is not an array.
      ValueError: axis is out of bounds.

    Example:
      >>> import calque.numpy as jnp
      >>> from calque.scipy import stats
      >>> stats.mode(jnp.array([3, 1, 1]))
      ModeResult(mode=Array(1, dtype=int32), count=Array(2, dtype=int32))
    """
    _policy("mode", nan_policy)
    rows, back = _along_last("mode", a, axis)
    if not rows.shape[-1]:
        kind = util.to_inexact(rows.dtype)
        value = util.array(np.full(rows.shape[:-1], np.nan, kind))
        count = util.array(np.zeros(rows.shape[:-1], kind))
    elif not shape_of(a):
        value, count = rows[0], util.array(np.int32(1))
    else:
        rows = sort(rows)
        _, first, last = _runs(rows, equal_nan=True)
        counts = last - first + 1
        best = rd.argmax(counts, axis=-1, keepdims=True)
        value = take_along_axis(rows, best, -1)[..., 0]
        count = take_along_axis(counts, best, -1)[..., 0]
    if keepdims:
        lost = tuple(range(ndim_of(a))) if axis is None else back
        value, count = expand_dims(value, lost), expand_dims(count, lost)
    if dtype_of(count).kind == "i":
        count = count.astype(int)
    return ModeResult(value, count)


@util.planned
def sem(a: Any, axis: int | None = 0, ddof: int = 1, nan_policy: str = "propagate", *,
        keepdims: bool = False) -> Any:
    """Standard error of the mean, std(a) / sqrt(n).

    Args:
      a: array.
      axis: an axis; None for all values.
      ddof: what is subtracted from n in the variance.
      nan_policy: 'propagate', or 'omit' to leave NaN out.
      keepdims: leave the axis with size 1.

    Returns:
      An array of a float dtype without the axis.

    Raises:
      TypeError: a is not an array.
      ValueError: another nan_policy, or axis is out of bounds.

    Example:
      >>> import calque.numpy as jnp
      >>> from calque.scipy import stats
      >>> stats.sem(jnp.array([1.0, 3.0, 5.0, 7.0])).round(3)
      Array(1.291, dtype=float32)
    """
    if nan_policy not in ("propagate", "omit"):
        raise ValueError(explain(f"{nan_policy} is not supported", fix="use propagate or omit."))
    (a,) = util.inexact_arrays("sem", a)
    if axis is None:
        a, keep = a.reshape(-1), tuple(range(a.ndim))
    else:
        keep = (canonical_axis(axis, a.ndim),)
    axis = 0 if axis is None else keep[0]
    if nan_policy == "omit":
        n = astype(rd.sum(a == a, axis=axis), a.dtype)
        out = nanstd(a, axis=axis, ddof=ddof) / ew.sqrt(n)
    else:
        out = means.std(a, axis=axis, ddof=ddof) / math.sqrt(a.shape[axis])
    return expand_dims(out, keep) if keepdims else out
