"""What gather and the scatter family mean, element by element: StableHLO's specification with
JAX's modes.

More oracles of oracle.py, which imports this module at its end.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from support.oracle import ORACLES, wide

Array = np.ndarray[Any, Any]


def _starts(
    shape: Sequence[int],
    indices: Array,
    at: tuple[int, ...],
    sizes: Sequence[int],
    targets: Sequence[int],
    batching: Sequence[tuple[int, int]],
    mode: str,
) -> list[int] | None:
    """Where a window begins on each axis; None: it is not inside and the mode wants it to be."""
    start = [0] * len(shape)
    for k, axis in enumerate(targets):
        start[axis] = int(indices[(*at, k)])
    for axis, along in batching:
        start[axis] = at[along]
    last = [n - s for n, s in zip(shape, sizes)]
    if all(0 <= s <= m for s, m in zip(start, last)):
        return start
    if mode != "clip":
        return None
    return [min(max(s, 0), m) for s, m in zip(start, last)]


def _windows(
    sizes: Sequence[int], dropped: set[int]
) -> Iterator[tuple[tuple[int, ...], tuple[int, ...]]]:
    """(offsets on every axis of the operand, those that the window keeps)."""
    for w in itertools.product(*[range(s) for s in sizes]):
        yield w, tuple(o for a, o in enumerate(w) if a not in dropped)


def _merged(
    rank: int, window_axes: Sequence[int], window: Sequence[int], batch: Sequence[int]
) -> tuple[int, ...]:
    w, b = iter(window), iter(batch)
    return tuple(next(w) if i in window_axes else next(b) for i in range(rank))


def gather(params: Any, x: Array, indices: Array) -> Array:
    d, sizes = params["dimension_numbers"], params["slice_sizes"]
    mode = {"CLIP": "clip", "FILL_OR_DROP": "fill", "PROMISE_IN_BOUNDS": "clip"}[
        params["mode"].name
    ]
    dropped = {*d.collapsed_slice_dims, *d.operand_batching_dims}
    batch = indices.shape[:-1]
    rank = len(batch) + len(d.offset_dims)
    kept = [s for a, s in enumerate(sizes) if a not in dropped]
    out = np.zeros(_merged(rank, d.offset_dims, kept, batch), x.dtype)
    for at in np.ndindex(*batch):
        start = _starts(
            x.shape,
            indices,
            at,
            sizes,
            d.start_index_map,
            list(zip(d.operand_batching_dims, d.start_indices_batching_dims)),
            mode,
        )
        for offset, window in _windows(sizes, dropped):
            place = _merged(rank, d.offset_dims, window, at)
            if start is None:
                out[place] = params["fill_value"]
            else:
                out[place] = x[tuple(s + o for s, o in zip(start, offset))]
    return out


def scatter(join: Callable[[Any, Any], Any]) -> Callable[..., Array]:
    """The scatter that joins (old, new)."""

    def run(params: Any, x: Array, indices: Array, updates: Array) -> Array:
        d = params["dimension_numbers"]
        mode = "clip" if params["mode"].name == "CLIP" else "drop"
        dropped = {*d.inserted_window_dims, *d.operand_batching_dims}
        window = iter(updates.shape[i] for i in d.update_window_dims)
        sizes = [1 if a in dropped else next(window) for a in range(x.ndim)]
        out = wide(x).copy()  # floats are joined in double precision and rounded once
        updates = wide(updates)
        for at in np.ndindex(*indices.shape[:-1]):
            start = _starts(
                x.shape,
                indices,
                at,
                sizes,
                d.scatter_dims_to_operand_dims,
                list(zip(d.operand_batching_dims, d.scatter_indices_batching_dims)),
                mode,
            )
            if start is None:
                continue
            for offset, w in _windows(sizes, dropped):
                place = tuple(s + o for s, o in zip(start, offset))
                with np.errstate(all="ignore"):
                    out[place] = join(
                        out[place], updates[_merged(updates.ndim, d.update_window_dims, w, at)]
                    )
        return out

    return run


ORACLES["gather"] = gather
ORACLES["scatter"] = scatter(lambda old, new: new)
ORACLES["scatter-add"] = scatter(lambda old, new: old + new)
ORACLES["scatter-sub"] = scatter(lambda old, new: old - new)
ORACLES["scatter-mul"] = scatter(lambda old, new: old * new)
ORACLES["scatter-min"] = scatter(np.minimum)
ORACLES["scatter-max"] = scatter(np.maximum)
