"""Collectives within groups of an axis, and moves over several axes at once: compositions.

Every position gets what all positions have (`all_gather`, which costs nothing where devices share
memory) and picks the members of its group.  Start reading at `members`.
"""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from calque.core import dtypes
from calque.core.avals import dtype_of, ndim_of, shape_of
from calque.core.errors import explain
from calque.core.lists import replaced, without
from calque.core.trace import axis_env, axis_places
from calque.primitives import collectives as co
from calque.primitives import elementwise as ew
from calque.primitives import index as ix
from calque.primitives import reduce as rd
from calque.primitives import shape as sh
from calque.primitives.gather import GatherDimensionNumbers, GatherScatterMode, gather
from calque.transforms.vmap import move_axis

Names = tuple[Any, ...]
Groups = tuple[tuple[int, ...], ...]


def checked(what: str, groups: Any, size: int, equal: bool) -> Groups:
    """Groups that cover the axis; ValueError where they do not."""
    found = tuple(tuple(map(int, g)) for g in groups)
    if sorted(i for g in found for i in g) != list(range(size)):
        raise ValueError(explain(
            f"{what}: axis_index_groups must cover all indices exactly once, got {found} for an "
            f"axis of size {size}.", fix=f"put each of 0 to {size - 1} in one group."))
    if equal and len({len(g) for g in found}) != 1:
        raise ValueError(explain(
            f"{what}: axis_index_groups must all be the same size, got {found}.",
            fix="make the groups equal."))
    return found


def in_order(names: Names) -> Names:
    """Names in the order in which they are bound."""
    bound = [n for n, _ in axis_env.get()]
    return tuple(sorted(names, key=bound.index))


def position(names: Names) -> Any:
    """The position along axes, the last moving fastest."""
    out: Any = None
    placed = dict(axis_places.get())
    for name in names:
        at = placed[name] if name in placed else co.axis_index_p.bind(axes=(name,))
        out = at if out is None else ew.add(ew.mul(out, np.int32(co.size_of(name))), at)
    return out


def gathered(x: Any, names: Names) -> Any:
    """What all positions have, along a new leading axis; the last name moves fastest."""
    for name in reversed(names):
        x = co.all_gather_p.bind(x, axes=(name,), dimension=0, size=co.size_of(name), tiled=False)
    shape = shape_of(x)
    count = len(names)
    return sh.reshape(x, (int(np.prod(shape[:count])), *shape[count:]))


def pick(x: Any, index: Any, axis: int = 0) -> Any:
    """x at a traced position of an axis, without it."""
    shape = shape_of(x)
    starts = [index if i == axis else np.int32(0) for i in range(len(shape))]
    sizes = replaced(shape, axis, 1)
    part = ix.dynamic_slice(x, starts, sizes)
    return sh.reshape(part, without(shape, [axis]))


def rows(x: Any, at: Any) -> Any:
    """Rows of x at traced positions."""
    shape = shape_of(x)
    numbers = GatherDimensionNumbers(tuple(range(1, len(shape))), (0,), (0,))
    return gather(x, sh.reshape(at, (*shape_of(at), 1)), numbers, (1, *shape[1:]),
                  mode=GatherScatterMode.PROMISE_IN_BOUNDS)


def _table(groups: Groups, size: int) -> tuple[Any, Any]:
    """For every position: its group's members (-1 behind the last), and its place among them."""
    longest = max(len(g) for g in groups)
    table, place = np.full((size, longest), -1, np.int32), np.zeros(size, np.int32)
    for g in groups:
        for k, i in enumerate(g):
            table[i, :len(g)], place[i] = g, k
    return table, place


def members(x: Any, names: Names, groups: Groups, fill: Any = None) -> Any:
    """What the members of a position's group have, along a new leading axis."""
    every = gathered(x, names)
    table, _ = _table(groups, shape_of(every)[0])
    mine = pick(table, position(names))
    found = rows(every, ew.max_(mine, ew.match_shape(np.int32(0), shape_of(mine))))
    if (table < 0).any():
        shape = shape_of(found)
        there = sh.broadcast_in_dim(ew.ge(mine, ew.match_shape(
            np.int32(0), shape_of(mine))), shape, (0,))
        found = ew.select_n(there, ew.match_shape(ew.const(found, fill), shape), found)
    return found


def place(names: Names, groups: Groups) -> Any:
    """A position's place in its group."""
    return pick(_table(groups, sum(map(len, groups)))[1], position(names))


def reduced(kind: str, x: Any, names: Names, groups: Groups) -> Any:
    """psum, pmax or pmin within groups."""
    dtype = dtype_of(x)
    if kind == "psum":
        return rd.reduce_sum(members(x, names, groups, 0), (0,))
    low = kind == "pmax"
    if dtype == np.dtype(bool):
        fill: Any = not low
    elif dtypes.is_integer(dtype):
        fill = dtypes.iinfo(dtype).min if low else dtypes.iinfo(dtype).max
    else:
        fill = -np.inf if low else np.inf
    prim = rd.reduce_max_p if low else rd.reduce_min_p
    return prim.bind(members(x, names, groups, fill), axes=(0,), out_sharding=None)


def scattered(x: Any, names: Names, groups: Groups, dimension: int, tiled: bool) -> Any:
    """psum_scatter within groups."""
    total = reduced("psum", x, names, groups)
    return _part(total, place(names, groups), dimension, len(groups[0]), tiled)


def _part(x: Any, at: Any, dimension: int, count: int, tiled: bool) -> Any:
    """Of `count` parts along a dimension the one at a position."""
    if tiled:
        x = sh.split_axis(x, dimension, count)
    return pick(x, at, dimension)


def joined(x: Any, dimension: int, tiled: bool) -> Any:
    """A leading axis moved to a dimension, and there joined with it (tiled)."""
    x = move_axis(x, 0, dimension)
    if tiled:
        x = sh.merge_axes(x, dimension)
    return x


def exchanged(x: Any, names: Names, groups: Groups, split: int, concat: int, tiled: bool) -> Any:
    """all_to_all within groups."""
    got = members(x, names, groups)
    return joined(_part(got, place(names, groups), split + 1, len(groups[0]), tiled), concat,
                  tiled)


def permuted(x: Any, names: Names, perm: Sequence[tuple[int, int]], size: int) -> Any:
    """ppermute over several axes."""
    sources = np.full(size, -1, np.int32)
    for source, target in perm:
        sources[target] = source
    mine = pick(sources, position(names))
    got = pick(gathered(x, names), ew.max_(mine, np.int32(0)))
    if (sources >= 0).all():
        return got
    shape = shape_of(got)
    there = ew.match_shape(ew.ge(mine, np.int32(0)), shape)
    return ew.select_n(there, co.zeros_of(got, shape), got)


# ---- several axes, one after the other
def exchanged_over(x: Any, names: Names, split: int, concat: int, tiled: bool) -> Any:
    """all_to_all over several axes: of the split dimension each takes its digit."""
    sizes = [co.size_of(n) for n in names]
    shape = shape_of(x)
    total = int(np.prod(sizes))
    rest = (shape[split] // total,) if tiled else ()
    x = sh.reshape(x, (*shape[:split], *sizes, *rest, *shape[split + 1:]))
    for k, (name, size) in enumerate(zip(names, sizes)):
        x = co.all_to_all_p.bind(x, axes=(name,), split_axis=split + k, concat_axis=split + k,
                                 size=size, tiled=False)
    # the digits are now those of the senders: they go where the parts are joined
    count, ndim = len(names), ndim_of(x)
    order = [i for i in range(ndim) if not split <= i < split + count]
    x = sh.transpose(x, [*range(split, split + count), *order])
    x = sh.reshape(x, (total, *[shape_of(x)[count + i] for i in range(ndim - count)]))
    return joined(x, concat, tiled)


def ragged(sent: Any, out: Any, starts: Any, sizes: Any, targets: Any, names: Names, size: int
           ) -> Any:
    """ragged_all_to_all: every sender's run, where it says that it goes."""
    every = gathered(sent, names)
    me = position(names)
    runs = [pick(gathered(v, names), me, 1) for v in (starts, sizes, targets)]
    shape, length = shape_of(out), shape_of(sent)[0]
    line, zero = sh.iota(dtypes.int32, (shape[0],)), ew.match_shape(np.int32(0), (shape[0],))
    for sender in range(size):
        start, count, target = (ew.match_shape(ew.convert(
            pick(v, np.int32(sender)), dtypes.int32), (shape[0],)) for v in runs)
        at = ew.sub(line, target)
        there = ew.and_(ew.ge(at, zero), ew.lt(at, count))
        source = ew.clamp(np.int32(0), ew.add(at, start), np.int32(max(length - 1, 0)))
        got = rows(pick(every, np.int32(sender)), source)
        out = ew.select_n(sh.broadcast_in_dim(there, shape, (0,)), out, got)
    return out
