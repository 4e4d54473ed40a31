"""Moving elements by NumPy: shape primitives, slices, padding, sorting."""
from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np

from calque.core.types import Shape
from calque.dispatch.numpy_rules.elementwise import BF16, BOOL, FLOATS, INTEGERS

Value = np.ndarray[Any, Any]
_ALL, _BACKWARDS = slice(None), slice(None, None, -1)


def _spread(rank: int, sizes: Sequence[int], axes: Sequence[int]) -> list[int]:
    full = [1] * rank
    for n, a in zip(sizes, axes):
        full[a] = n
    return full


def _reshape(out: Any, x: Value, **params: Any) -> Any:
    return x.reshape(out.shape) if params.get("dimensions") is None else None


def _squeeze(out: Any, x: Value, *, dimensions: Any) -> Any:
    return x.reshape(out.shape)


def _transpose(out: Any, x: Value, *, permutation: Any) -> Any:
    return x.transpose(permutation)


def _broadcast_in_dim(out: Any, x: Value, *, shape: Any, broadcast_dimensions: Any,
                      sharding: Any = None) -> Any:
    return _filled(x.reshape(_spread(len(shape), x.shape, broadcast_dimensions)), out.shape)


def _filled(x: Value, shape: Any) -> Value:
    """x broadcast, as a copy: of so little it takes a fifth of what `np.broadcast_to` does."""
    if x.shape == shape:
        return x
    made = np.empty(shape, x.dtype)
    made[...] = x
    return made


def _concatenate(out: Any, *xs: Value, dimension: int) -> Any:
    return np.concatenate(xs, dimension)


def _slice(out: Any, x: Value, *, start_indices: Any, limit_indices: Any, strides: Any) -> Any:
    # a copy: a view would keep all of x alive
    return x[_parts(start_indices, limit_indices, strides)].copy()


@functools.lru_cache(4096)
def _parts(starts: Shape, limits: Shape, strides: Shape | None) -> tuple[slice, ...]:
    return tuple(map(slice, starts, limits, strides or (1,) * len(starts)))


def _dynamic_slice(out: Any, x: Value, *starts: Value, slice_sizes: Any) -> Any:
    return x[window(x, starts, slice_sizes)].copy()


def window(x: Value, starts: Sequence[Value], sizes: Sequence[int]) -> tuple[slice, ...]:
    """Where dynamic_slice reads: the window moved inside."""
    at = [min(max(int(s), 0), n - k) for s, n, k in zip(starts, x.shape, sizes)]
    return tuple(slice(s, s + k) for s, k in zip(at, sizes))


def _dynamic_update_slice(out: Any, x: Value, update: Value, *starts: Value) -> Any:
    made = x.copy()
    made[window(x, starts, update.shape)] = update
    return made


def _rev(out: Any, x: Value, *, dimensions: Any) -> Any:
    return x[tuple([_BACKWARDS if a in dimensions else _ALL for a in range(x.ndim)])]


def _iota(out: Any, *, dtype: Any, shape: Any, dimension: int, sharding: Any = None) -> Any:
    line = np.arange(shape[dimension]).astype(out.dtype)
    return _filled(line.reshape(_spread(len(shape), line.shape, [dimension])), out.shape)


def _pad(out: Any, x: Value, value: Value, *, padding_config: Any) -> Any:
    made = np.full(out.shape, value)
    from_, to = [], []
    for n, (low, _, inner), size in zip(x.shape, padding_config, out.shape):
        step = inner + 1
        first = max(0, -(low // step))  # the first element that lands at 0 or above
        last = min(n, -((low - size) // step))  # and the first that lands beyond the end
        if last <= first:
            return made
        from_.append(slice(first, last))
        to.append(slice(low + first * step, low + (last - 1) * step + 1, step))
    made[tuple(to)] = x[tuple(from_)]
    return made


def _sort(out: Any, *xs: Value, dimension: int, is_stable: bool, num_keys: int) -> Any:
    keys = [x.astype(np.float32) if x.dtype == BF16 else x for x in xs[:num_keys]]
    if any(k.dtype not in FLOATS | INTEGERS | BOOL for k in keys):
        return None
    if num_keys == 1:
        order = np.argsort(keys[0], dimension, kind="stable")
    else:
        order = np.lexsort(keys[::-1], dimension)
    return [np.take_along_axis(x, order, dimension) for x in xs]


RULES: dict[str, Any] = {
    "reshape": _reshape, "squeeze": _squeeze, "transpose": _transpose, "concatenate": _concatenate,
    "broadcast_in_dim": _broadcast_in_dim, "slice": _slice, "dynamic_slice": _dynamic_slice,
    "dynamic_update_slice": _dynamic_update_slice, "rev": _rev, "iota": _iota, "pad": _pad,
    "sort": _sort}
