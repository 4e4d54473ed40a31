"""Programs over arrays of summands (partial_arrays.py), as Programs of all summands: a value that
is unreduced over mesh axes has a leading dimension for each.

Types say what is unreduced (transforms/sums), and operations on it are linear: they are mapped over
these dimensions.  A change of the type sums them, or makes summands of what is whole; a shard_map
has them as dimensions that its axes split.  Start reading at `expanded`, then `_equation`.
"""
from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from calque.core.avals import ShapedArray, aval_of, shape_of
from calque.core.errors import explain
from calque.core.evaluate import each, literal_value, replay
from calque.core.lists import split_list
from calque.core.program import Equation, Program, eliminate_dead_code
from calque.core.sharding import NamedSharding, PartitionSpec
from calque.dispatch.sharded.partial_arrays import any_partial, memory_shape, unreduced_axes
from calque.primitives import elementwise as ew
from calque.primitives import reduce as rd
from calque.primitives import shape as sh
from calque.primitives import shard_map as sm
from calque.primitives.collectives import zeros_of
from calque.primitives.control import cond, scan
from calque.primitives.while_loop import while_loop
from calque.transforms.stage import closed, stage
from calque.transforms.vmap import move_axis, to_front, vmap_flat

Axes = tuple[Any, ...]
P = PartitionSpec


@dataclass(frozen=True, slots=True)
class Value:
    """Summands along leading dimensions, of these axes in the mesh's order."""

    x: Any
    axes: Axes
    sizes: tuple[int, ...]


def is_partial(p: Program) -> bool:
    """Whether a program, or one in it, has values that are unreduced."""
    return p.derived("partial", lambda: any(map(unreduced_axes, [
        *p.in_avals, *[v.aval for v in p.const_vars], *p.out_avals])) or any(
            any(unreduced_axes(v.aval) for v in e.outputs) or any(
                s.unreduced for s in e.params.get("in_specs", ())) or any(
                    map(is_partial, e.inner)) for e in p.equations))


def expanded(p: Program) -> Program:
    """The Program of the consts' and inputs' summands."""
    def make() -> Program:
        live = eliminate_dead_code(p.consts_as_inputs())
        return _inner(live, p.name)

    return p.derived("summands", make)


def whole(p: Program) -> Program:
    """A program for where there are no devices; TypeError where arguments or results are summands.
    """
    if not is_partial(p):
        return p
    if any_partial([*p.in_avals, *[v.aval for v in p.const_vars], *p.out_avals]):
        raise TypeError(explain(
            f"{p.name}: an artifact holds no devices, and an argument or a result is of unreduced "
            "sharding.", fix="calque.sharding.reshard it to P() inside the function."))
    return expanded(p)


def _inner(p: Program, name: str | None = None) -> Program:
    """A Program of all summands of its inputs and outputs."""
    def run(*xs: Any) -> list[Any]:
        found = _run(p, [_value(x, v.aval) for x, v in zip(xs, p.inputs)])
        return [_as_typed(v, o.aval, p.name) for v, o in zip(found, p.outputs)]

    avals = [v.aval.plain.update(shape=memory_shape(v.aval)) for v in p.inputs]
    return stage(run, avals, name or p.name)


def _value(x: Any, aval: ShapedArray) -> Value:
    axes = unreduced_axes(aval)
    return Value(x, axes, tuple(aval.placement.mesh.shape[n] for n in axes))


def _as_typed(v: Value, aval: ShapedArray, name: str) -> Any:
    """A result, whose summands its type promises."""
    wanted = unreduced_axes(aval)
    if v.axes == wanted:
        return v.x
    if not v.axes:
        mesh = aval.placement.mesh
        return _first(v.x, len(wanted), [mesh.shape[n] for n in wanted])
    raise NotImplementedError(explain(
        f"{name}: a value that is unreduced over {v.axes} is returned as {aval}.",
        fix="calque.sharding.reshard it before."))


def _run(p: Program, values: Sequence[Value]) -> list[Value]:
    return each(p, [*[Value(c, (), ()) for c in p.consts], *values],
                lambda a: Value(literal_value(a), (), ()), _equation)


def _equation(e: Equation, values: list[Value]) -> list[Value]:
    special = _SPECIAL.get(e.name)
    if special is not None:
        return special(e, values)
    inner = e.params.get("jaxpr", e.params.get("call_jaxpr"))
    if e.primitive.higher_order and isinstance(inner, Program) and any(
            map(is_partial, e.inner)) and len(inner.inputs) == len(values):
        return _run(inner, values)
    return _mapped(e, values)


def _mapped(e: Equation, values: Sequence[Value]) -> list[Value]:
    """An operation on each summand."""
    first = max(values, key=lambda v: len(v.axes), default=Value(None, (), ()))

    def run(*xs: Any) -> list[Any]:
        outs = e.primitive.bind(*xs, **e.params)
        return list(outs) if e.primitive.multiple_results else [outs]

    outs = _each_summand(run, values, first.axes, first.sizes)
    return [Value(o, first.axes, first.sizes) for o in outs]


def _each_summand(f: Callable[..., list[Any]], values: Sequence[Value], axes: Axes,
                  sizes: tuple[int, ...]) -> list[Any]:
    if not axes:
        return f(*[v.x for v in values])
    dims = [0 if v.axes[:1] == axes[:1] else None for v in values]
    rest = [v if d is None else Value(v.x, v.axes[1:], v.sizes[1:]) for v, d in zip(values, dims)]

    def inner(*xs: Any) -> list[Any]:
        return _each_summand(f, [Value(x, v.axes, v.sizes) for x, v in zip(xs, rest)],
                             axes[1:], sizes[1:])

    outs, moved = vmap_flat(inner, sizes[0], [v.x for v in values], dims)
    return [to_front(o, d, sizes[0]) for o, d in zip(outs, moved)]


# ---- from one type to another
def _constrained(e: Equation, values: list[Value]) -> list[Value]:
    (v,) = values
    before, after = e.inputs[0].aval.placement, e.params["sharding"]
    wanted = after.unreduced if isinstance(after, NamedSharding) else ()
    x, axes = v.x, list(v.axes)
    gone = tuple(i for i, n in enumerate(axes) if n not in wanted)
    if gone:
        x = rd.reduce_sum(x, gone)
        axes = [n for n in axes if n in wanted]
    if tuple(axes) == wanted:
        return [Value(x, wanted, tuple(after.mesh.shape[n] for n in wanted))]
    sizes = dict(after.mesh.shape)
    new = [n for n in wanted if n not in axes]
    parts = _parts(before, after, new, e.outputs[0].aval.ndim)
    for n in reversed(new):
        at = sum(1 for m in axes if wanted.index(m) < wanted.index(n))
        axes.insert(at, n)
        x = _spread(x, at, n, len(axes) - 1, sizes, parts)
    return [Value(x, wanted, tuple(sizes[n] for n in wanted))]


def _parts(before: Any, after: NamedSharding, new: Sequence[Any], ndim: int
           ) -> tuple[tuple[Any, ...], ...]:
    """The axes that split each dimension, where devices keep their parts: all others are zero."""
    if not isinstance(before, NamedSharding) or before.mesh.shape_tuple != after.mesh.shape_tuple:
        return ()
    had, has = before.spec.of_rank(ndim).axes(), after.spec.of_rank(ndim).axes()
    kept = all(a[:len(b)] == b and set(a[len(b):]) <= set(new) for a, b in zip(had, has))
    return had if kept else ()


def _spread(x: Any, at: int, name: Any, before: int, sizes: dict[Any, int],
            parts: tuple[tuple[Any, ...], ...]) -> Any:
    """x with a dimension of summands more: each device's part of it, or all on the first."""
    d = next((i for i, axes in enumerate(parts) if name in axes), None)
    if d is None:
        return move_axis(_first(x, 1, [sizes[name]]), 0, at)
    shape, axes, count = shape_of(x), parts[d], sizes[name]
    shape = (*shape[:at], count, *shape[at:])
    spread = sh.broadcast_in_dim(x, shape, [i for i in range(len(shape)) if i != at])
    k = before + 1 + d
    slower = axes.index(name)
    each_part = shape[k] // math.prod(sizes[n] for n in axes[:slower + 1])
    place = np.arange(shape[k]) // each_part % count
    mine = np.arange(count)[:, None] == place[None]
    return ew.select_n(sh.broadcast_in_dim(mine, shape, (at, k)), zeros_of(x, shape), spread)


def _first(x: Any, count: int, sizes: Sequence[int]) -> Any:
    """x in front of zeros, along new leading dimensions."""
    shape = shape_of(x)
    x = sh.reshape(x, (*[1] * count, *shape)) if hasattr(x, "aval") or shape else (
        sh.broadcast_in_dim(x, (*[1] * count, *shape), ()))
    for i, size in enumerate(sizes):
        have = shape_of(x)
        if size > 1:
            rest = zeros_of(x, (*have[:i], size - 1, *have[i + 1:]))
            x = sh.concatenate([x, rest], i)
    return x


# ---- equations with programs inside
def _checkpoint(e: Equation, values: list[Value]) -> list[Value]:
    inner = e.params["jaxpr"]
    found: list[Value] = []

    def run(*xs: Any) -> list[Any]:
        found[:] = _run(inner, [Value(x, v.axes, v.sizes) for x, v in zip(xs, values)])
        return [o.x for o in found]

    made, consts = closed(stage(run, [aval_of(v.x).plain for v in values], inner.name))
    outs = e.primitive.bind(*consts, *[v.x for v in values], **{**e.params, "jaxpr": made})
    return [Value(o, v.axes, v.sizes) for o, v in zip(outs, found)]


def _typed(outs: Sequence[Any], e: Equation) -> list[Value]:
    return [_value(o, v.aval) for o, v in zip(outs, e.outputs)]


def _scan(e: Equation, values: list[Value]) -> list[Value]:
    p = e.params
    consts, start, scanned = split_list(values, p["num_consts"], p["num_carry"])
    init = [_as_typed(v, o.aval, "scan") for v, o in zip(start, e.outputs)]
    xs = [move_axis(v.x, len(v.axes), 0) for v in scanned]
    outs = scan(_inner(p["jaxpr"]), [v.x for v in consts], init, xs, length=p["length"],
                reverse=p["reverse"], unroll=p["unroll"])
    n = len(start)
    rows = [move_axis(o, 0, len(unreduced_axes(v.aval)))
            for o, v in zip(outs[n:], e.outputs[n:])]
    return _typed([*outs[:n], *rows], e)


def _while(e: Equation, values: list[Value]) -> list[Value]:
    p = e.params
    before, inside, start = split_list(values, p["cond_nconsts"], p["body_nconsts"])
    init = [_as_typed(v, o.aval, "while_loop") for v, o in zip(start, e.outputs)]
    outs = while_loop(_inner(p["cond_jaxpr"]), [v.x for v in before], _inner(p["body_jaxpr"]),
                      [v.x for v in inside], init)
    return _typed(outs, e)


def _cond(e: Equation, values: list[Value]) -> list[Value]:
    outs = cond(values[0].x, [v.x for v in values[1:]],
                [_inner(b) for b in e.params["branches"]])
    return _typed(outs, e)


def _shard_map(e: Equation, values: list[Value]) -> list[Value]:
    """Summands are parts of a leading dimension of size 1 on each device."""
    p = e.params
    mesh, body = p["mesh"], sm.unmarked(p["jaxpr"])
    ins = [_leading(mesh, s) for s in p["in_specs"]]
    outs = [_leading(mesh, s) for s in p["out_specs"]]

    def run(*xs: Any) -> list[Any]:
        parts = [sh.reshape(x, shape_of(x)[len(axes):]) if axes else x
                 for x, axes in zip(xs, ins)]
        return [sh.reshape(o, (*[1] * len(axes), *shape_of(o))) if axes else o
                for o, axes in zip(replay(body, *parts), outs)]

    avals = [a.update(shape=(*[1] * len(axes), *a.shape))
             for a, axes in zip(body.in_avals, ins)]
    with sm.inside(mesh, p["newly_manual_axes"], False):
        made = stage(run, avals, body.name)
    found = sm.bind(made, [v.x for v in values], mesh=mesh, check_vma=False,
                    in_specs=tuple(P(*axes, *s.partitions) for axes, s in zip(ins, p["in_specs"])),
                    out_specs=tuple(P(*axes, *s.partitions)
                                    for axes, s in zip(outs, p["out_specs"])),
                    newly_manual_axes=p["newly_manual_axes"])
    return [Value(o, axes, tuple(mesh.shape[n] for n in axes)) for o, axes in zip(found, outs)]


def _leading(mesh: Any, spec: PartitionSpec) -> Axes:
    return tuple(n for n in mesh.axis_names if n in spec.unreduced)


def _told(e: Equation, values: list[Value]) -> list[Value]:
    e.params["callback"](e.inputs[0].aval.placement)
    return []


_SPECIAL: dict[str, Callable[[Equation, list[Value]], list[Value]]] = {
    "sharding_constraint": _constrained, "checkpoint": _checkpoint, "scan": _scan,
    "while": _while, "cond": _cond, "shard_map": _shard_map, "inspect_sharding": _told}

__all__ = ["expanded", "is_partial", "whole"]
