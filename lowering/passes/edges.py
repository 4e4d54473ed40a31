"""Arrays with edges around them (`pad` of modes reflect, symmetric, wrap and edge), as one copy.

Slices, reversals, repetitions and joins of one array along each axis say of every place along the
axis from which place of the array it comes.  IREE makes two passes over an image of it, on one
thread; a kernel copies rows (kernels/move).  Start reading at `edges`.
"""
from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from calque.core.primitive import registry
from calque.core.program import Atom, Equation, Program, Var
from calque.core.types import Ndarray
from calque.lowering.passes import loops, rows

LEAST_ROWS, MOST_ROWS = 8, 1 << 16
MOST_RUNS = 16  # of a row
LONG = 16  # numbers that are copied by vectors
LEAST_BYTES = 1 << 16  # of the result
LONGEST = 1 << 20  # places along an axis that are written down
Map = tuple[Atom, list[Ndarray]]  # an array, and of each axis the places in it


@dataclass(frozen=True, slots=True)
class Edges:
    """A copy by rows: for each row of the result the number of the array's; runs (to, from, count,
    step) of elements along a row, `inner` numbers each; how many elements rows of both have."""

    source: tuple[int, ...]
    runs: tuple[tuple[int, int, int, int], ...]
    inner: int
    width: int
    wide: int


def edges(finder: rows.Finder) -> None:
    """Put calls in the place of what joins parts of one array, where that is more than slices."""
    joins = [i for i in finder.live if finder.equations[i].name == "concatenate"]
    for i in sorted(joins, key=finder.position.__getitem__, reverse=True):
        if i not in finder.live or finder.equations[i].is_dynamic:
            continue
        used = set[int]()
        e = finder.equations[i]
        (out,) = e.outputs
        if out.aval.ndim < 2 or (come := _map_of(finder, out, used)) is None:
            continue
        root, places = come
        names = [finder.equations[k].name for k in used]
        if not isinstance(root, Var) or out.aval.nbytes < LEAST_BYTES or not loops.is_plain(e) or (
                names.count("concatenate") < 2 and not {"rev", "broadcast_in_dim"} & set(names)
                ) or not finder.is_at_hand(root):
            continue
        how = _copy(root.aval.shape, places)
        inside = {i}
        for k in sorted(used - {i}, key=finder.position.__getitem__, reverse=True):
            made = set(finder.equations[k].outputs)
            if not made & finder.results and all(finder.users.get(v, set()) <= inside
                                                 for v in made):
                inside.add(k)
        members = sorted(inside, key=finder.position.__getitem__)
        if how is None or used != inside:
            continue
        inner = Program([root], [finder.equations[k] for k in members], [out], name="edges")
        finder.contract(members, Equation(registry["jit"], (root,), (out,), {
            "jaxpr": inner, "name": "edges", "rows": how}, e.source, e.scope), [])


def _map_of(finder: rows.Finder, v: Atom, used: set[int]) -> Map | None:
    """Where the elements of a value come from; None: an axis is too long for that."""
    if max(v.aval.shape, default=0) > LONGEST:
        return None
    i = finder.producer.get(v, -1)
    own: Map = v, [np.arange(n) for n in v.aval.shape]
    if i not in finder.live:
        return own
    e, found = finder.equations[i], set[int]()
    p = e.params
    if e.name == "concatenate":
        parts = [come for a in e.inputs if (come := _map_of(finder, a, found)) is not None]
        if len(parts) < len(e.inputs):
            return None
        (root, first), axis = parts[0], p["dimension"]
        if not all(r is root and all(k == axis or np.array_equal(x, y) for k, (x, y) in enumerate(
                zip(q, first))) for r, q in parts):
            return own
        places = list(first)
        places[axis] = np.concatenate([q[axis] for _, q in parts])
        used |= found | {i}
        return root, places
    if e.name not in ("slice", "rev") and (e.name != "broadcast_in_dim"
                                           or e.inputs[0].aval.ndim != v.aval.ndim):
        return own
    if (come := _map_of(finder, e.inputs[0], found)) is None:
        return None
    root, places = come
    if e.name == "slice":
        places = [x[low:high:step] for x, low, high, step in zip(
            places, p["start_indices"], p["limit_indices"], p["strides"] or [1] * len(places))]
    elif e.name == "rev":
        places = [x[::-1] if k in p["dimensions"] else x for k, x in enumerate(places)]
    else:
        places = [np.broadcast_to(x, n) for x, n in zip(places, v.aval.shape)]
    used |= found | {i}
    return root, places


def _copy(shape: tuple[int, ...], places: list[Ndarray]) -> Edges | None:
    moved = [k for k, (x, n) in enumerate(zip(places, shape))
             if not np.array_equal(x, np.arange(n))]
    if not moved or len(shape) != len(places):
        return None
    axis = moved[-1]
    inner = math.prod(shape[axis + 1:])
    of_lines = axis + (inner >= LONG)  # rows of what is not moved are lines themselves
    lines = np.zeros((), np.int64)
    for x, n in zip(places[:of_lines], shape):
        lines = lines[..., None] * n + x
    if not LEAST_ROWS <= lines.size <= MOST_ROWS:
        return None
    numbers = tuple(map(int, lines.reshape(-1)))
    if of_lines > axis:
        return Edges(numbers, ((0, 0, 1, 1),), inner, inner, inner)
    runs = _runs(places[axis])
    longest = max((k for _, _, k, step in runs if step == 1 or k == 1), default=0)
    if len(runs) > MOST_RUNS or longest * inner < LONG:
        return None
    return Edges(numbers, runs, inner, shape[axis] * inner, len(places[axis]) * inner)


def _runs(places: Ndarray) -> tuple[tuple[int, int, int, int], ...]:
    """(to, from, count, step) of places that are one step apart, back or on, or the same."""
    found, at = list[tuple[int, int, int, int]](), 0
    while at < len(places):
        step = int(places[at + 1] - places[at]) if at + 1 < len(places) else 1
        step, end = (step if abs(step) <= 1 else 1), at + 1
        while end < len(places) and places[end] - places[end - 1] == step:
            end += 1
        found.append((at, int(places[at]), end - at, step))
        at = end
    return tuple(found)


__all__ = ["Edges", "edges"]
