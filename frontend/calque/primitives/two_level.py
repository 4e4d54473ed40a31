"""Collectives over mesh axes that run between processes, in two levels: over the devices of this
process, which are a batch axis as ever, and then one message.

An axis n is processes x devices.  `program` gives the body of a shard_map with each collective over
such axes written out so: names stay for the devices' part (left out where a process has one), and
messages are left for the rest.  Start reading at `program`, then at a collective such as `_gather`.
"""
from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from calque.core import dtypes, processes
from calque.core.avals import shape_of
from calque.core.evaluate import each, literal_value
from calque.core.mesh import AbstractMesh
from calque.core.primitive import Primitive
from calque.core.processes import Between, ProcessGrid
from calque.core.program import Equation, Program
from calque.core.types import Function, Params
from calque.primitives import collectives as co
from calque.primitives import elementwise as ew
from calque.primitives import index as ix
from calque.primitives import messages, shard_map
from calque.primitives import shape as sh
from calque.primitives.inner import bind_inner
from calque.transforms.stage import stage
from calque.transforms.vmap import move_axis

INT = dtypes.int32
_coordinates: dict[tuple[ProcessGrid, Any], Any] = {}


def coordinate(far: Between) -> Any:
    """This process's place along an axis, an int32 that programs capture: one program for all."""
    key = (far.grid, far.name)
    found = _coordinates.get(key)
    if found is None:
        place = far.grid.place(processes.rank())
        found = _coordinates[key] = np.array([place[far.grid.names.index(far.name)]], INT)
    return sh.reshape(found, ())


def position(axes: Sequence[Between]) -> Any:
    """This process's place along several axes, the last moving fastest."""
    out: Any = None
    for a in axes:
        at = coordinate(a)
        out = at if out is None else ew.add(ew.mul(out, np.int32(a.size)), at)
    return np.int32(0) if out is None else out


def piece(x: Any, dimension: int, axes: Sequence[Between]) -> Any:
    """This process's part of a dimension that axes split."""
    if not axes:
        return x
    shape = shape_of(x)
    size = shape[dimension] // math.prod(a.size for a in axes)
    start = ew.mul(position(axes), np.int32(size))
    zero = np.int32(0)
    return ix.dynamic_slice(x, [start if i == dimension else zero for i in range(len(shape))],
                            tuple(size if i == dimension else d for i, d in enumerate(shape)))


def joined(x: Any, dimension: int, axes: Sequence[Between]) -> Any:
    """All processes' parts of a dimension that axes split."""
    if not axes:
        return x
    every = move_axis(messages.gathered(x, tuple(axes)), 0, dimension)
    return sh.merge_axes(every, dimension)


class _Axis:
    """The two levels of an axis: `local`, the name of the devices' part (None: one device), and
    `far`, that of the processes' (None: one process)."""

    def __init__(self, name: Any, grid: ProcessGrid) -> None:
        self.count, self.size = grid.count(name), grid.local(name)
        self.local = name if self.size > 1 else None
        self.far = Between(name, grid) if self.count > 1 else None


def _only(axes: tuple[Any, ...], grid: ProcessGrid) -> tuple[_Axis, Between]:
    """The one axis, which runs between processes, and its part between them."""
    (name,) = axes
    axis = _Axis(name, grid)
    assert axis.far is not None
    return axis, axis.far


# ---- the collectives, over axes of which one runs between processes
def _reduced(prim: Primitive, op: str) -> Function:
    def run(grid: ProcessGrid, x: Any, *, axes: tuple[Any, ...]) -> Any:
        parts = [_Axis(n, grid) for n in axes]
        local = tuple(p.local for p in parts if p.local is not None)
        out = prim.bind(x, axes=local) if local else x
        return messages.reduced([out], tuple(p.far for p in parts if p.far is not None), op)[0]
    return run


def _gather(grid: ProcessGrid, x: Any, *, axes: tuple[Any, ...], dimension: int, size: int,
            tiled: bool) -> Any:
    axis, far = _only(axes, grid)
    if axis.local is not None:
        x = co.all_gather_p.bind(x, axes=axes, dimension=0, size=axis.size, tiled=False)
    x = messages.gathered(x, (far,))
    if axis.local is not None:
        x = sh.merge_axes(x, 0)
    x = move_axis(x, 0, dimension)
    return sh.merge_axes(x, dimension) if tiled else x


def _receivers(x: Any, dimension: int, axis: _Axis, tiled: bool) -> Any:
    """The receivers' digits of a dimension, (processes, devices), in front; of the devices' only
    where there are several."""
    if tiled:
        x = sh.split_axis(x, dimension, axis.count * axis.size)
    x = move_axis(x, dimension, 0)
    return x if axis.local is None else sh.split_axis(x, 0, axis.count)


def _scatter(grid: ProcessGrid, x: Any, *, axes: tuple[Any, ...], dimension: int, size: int,
             tiled: bool) -> Any:
    axis, far = _only(axes, grid)
    x = _receivers(x, dimension, axis, tiled)
    if axis.local is not None:
        x = co.psum_scatter_p.bind(x, axes=axes, dimension=1, size=axis.size, tiled=False)
    return messages.scattered(x, (far,))


def _exchange(grid: ProcessGrid, x: Any, *, axes: tuple[Any, ...], split_axis: int,
              concat_axis: int, size: int, tiled: bool) -> Any:
    axis, far = _only(axes, grid)
    x = _receivers(x, split_axis, axis, tiled)
    x = messages.exchanged(x, (far,))
    if axis.local is not None:
        x = sh.merge_axes(co.all_to_all_p.bind(
            x, axes=axes, split_axis=1, concat_axis=1, size=axis.size, tiled=False), 0)
    x = move_axis(x, 0, concat_axis)
    return sh.merge_axes(x, concat_axis) if tiled else x


def _permute(grid: ProcessGrid, x: Any, *, axes: tuple[Any, ...],
             perm: tuple[tuple[int, int], ...]) -> Any:
    axis, far = _only(axes, grid)
    return messages.permuted(x, axis.local, far, perm)


def _index(grid: ProcessGrid, *, axes: tuple[Any, ...]) -> Any:
    axis, far = _only(axes, grid)
    first = coordinate(far)
    if axis.local is None:
        return first
    return ew.add(ew.mul(first, np.int32(axis.size)), co.axis_index_p.bind(axes=axes))


_LEVELS: dict[Primitive, Function] = {
    co.psum_p: _reduced(co.psum_p, "sum"), co.psum_invariant_p: _reduced(co.psum_p, "sum"),
    co.pmax_p: _reduced(co.pmax_p, "max"), co.pmin_p: _reduced(co.pmin_p, "min"),
    co.all_gather_p: _gather, co.psum_scatter_p: _scatter, co.all_to_all_p: _exchange,
    co.ppermute_p: _permute, co.axis_index_p: _index}


# ---- whole bodies
def needed(p: Program, grid: ProcessGrid) -> bool:
    """Whether a program, or one that it holds, runs over an axis between processes."""
    spread = set(grid.process_axes)
    return bool(p.derived(("between", grid), lambda: any(
        spread & set(e.params.get("axes", ())) if e.primitive in _LEVELS
        else e.name == "shard_map" or any(needed(q, grid) for q in e.inner)
        for e in p.equations)))


def program(p: Program, grid: ProcessGrid) -> Program:
    """p with its collectives in two levels; it may capture this process's place."""
    if not needed(p, grid):
        return p
    return p.derived(("two levels", grid), lambda: stage(
        lambda *xs: _run(p, grid, xs), p.in_avals, p.name))


def _run(p: Program, grid: ProcessGrid, args: Sequence[Any]) -> list[Any]:
    def run(e: Equation, values: list[Any]) -> Sequence[Any]:
        out = _equation(e, grid, values)
        return out if e.primitive.multiple_results else [out]

    return each(p, [*p.consts, *args], literal_value, run)


def _equation(e: Equation, grid: ProcessGrid, args: list[Any]) -> Any:
    two = _LEVELS.get(e.primitive)
    if two is not None and set(grid.process_axes) & set(e.params["axes"]):
        return two(grid, *args, **e.params)
    if e.name == "shard_map":
        return mapped(e.params, grid, args, whole=True)
    if any(needed(q, grid) for q in e.inner):
        return bind_inner(e.primitive, args, e.params, lambda q: program(q, grid))
    return e.primitive.bind(*args, **e.params)


def mapped(params: Params, grid: ProcessGrid, args: Sequence[Any], whole: bool = False
           ) -> list[Any]:
    """A shard_map on this process's devices: over a mesh of theirs, the rest by messages.

    whole: operands and results are whole along the axes that it maps, in every process (it stands
    inside another one); else they are this process's pieces.
    """
    manual = params["newly_manual_axes"]
    ins = list(args)
    if whole:
        ins = [_cut(x, s, grid) for x, s in zip(ins, params["in_specs"])]
    mesh = AbstractMesh(grid.locals, grid.names)
    body = program(shard_map.unmarked(params["jaxpr"]), grid)
    outs = shard_map.bind(body, ins, mesh=mesh, in_specs=params["in_specs"],
                          out_specs=params["out_specs"], check_vma=False,
                          newly_manual_axes=manual)
    return [_uncut(o, s, grid) for o, s in zip(outs, params["out_specs"])] if whole else outs


def _far(spec: Any, grid: ProcessGrid) -> list[list[Between]]:
    axes = processes.between(spec.axes(), grid, f"shard_map with {spec}")
    return [[Between(n, grid) for n in mine] for mine in axes]


def _cut(x: Any, spec: Any, grid: ProcessGrid) -> Any:
    for d, axes in enumerate(_far(spec, grid)):
        x = piece(x, d, axes)
    return x


def _uncut(x: Any, spec: Any, grid: ProcessGrid) -> Any:
    for d, axes in enumerate(_far(spec, grid)):
        x = joined(x, d, axes)
    return x


__all__ = ["joined", "mapped", "piece", "program"]
