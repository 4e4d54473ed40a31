"""Reductions of more than a core's cache holds, in two stages: of parts, then of what they give.

A kernel over rows takes a whole row at a time (passes/rows), so that the largest of a million
numbers, its position, or a logsumexp over all of an array were IREE's, which computes what is
reduced in passes of their own, and positions number by number on one thread (argmax of 1000 x 1000
4.7 to 0.3 ms).  Start reading at `with_stages`.
"""
from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from calque.core.avals import ShapedArray
from calque.core.program import Atom, Equation, Literal, Program, Var
from calque.core.types import Shape
from calque.lowering.passes import cost
from calque.lowering.passes.flat import flat
from calque.lowering.passes.replacement import Replacement
from calque.lowering.passes.rows import ROW_BYTES

LEAST, MOST = 256, 1 << 15  # elements of a part
LARGEST = 1 << 42  # bytes of what is reduced
_FOLDS = frozenset(("reduce_sum", "reduce_prod", "reduce_max", "reduce_min"))
_POSITIONS = {"argmax": "reduce_max", "argmin": "reduce_min"}


def with_stages(p: Program) -> Program:
    """p with such reductions written so, outside of loops."""
    if not any(map(_part, p.equations)):
        return p
    p = flat(p)
    parts = list(map(_part, p.equations))
    shapes = _shapes(p, parts)
    seen: dict[Atom, Atom] = {}  # what is there in parts
    equations: list[Equation] = []
    for i, (e, part) in enumerate(zip(p.equations, parts)):
        made = Replacement(e)
        if part:
            x = _as_parts(made, e.inputs[0], shapes[i], seen)
            equations += _folded(made, x, part) if e.name in _FOLDS else _placed(made, x)
        else:
            equations += _in_parts(made, shapes[i], seen) if i in shapes else [e]
    return p.replace(equations=equations)


def _shapes(p: Program, parts: Sequence[int]) -> dict[int, Shape]:
    """The shape in which reductions read their operand, by their positions, and in which
    elementwise equations are taken that only such of one shape read: between the two a reshape
    would stand, and what is computed be written to memory."""
    users: dict[Atom, set[int]] = {}
    for i, e in enumerate(p.equations):
        for a in e.inputs:
            users.setdefault(a, set()).add(i)
    results, found = set(p.outputs), dict[int, Shape]()
    for i, e in reversed(list(enumerate(p.equations))):
        if parts[i]:
            found[i] = _in_shape(e, parts[i])
        elif _is_elementwise(e) and not results & set(e.outputs):
            own = e.outputs[0].aval
            wanted = {found.get(k) for k in users.get(e.outputs[0], ())}
            shape = wanted.pop() if len(wanted) == 1 else None
            if shape is not None and shape != own.shape and math.prod(shape) == own.size:
                found[i] = shape
    return found


def _is_elementwise(e: Equation) -> bool:
    """Whether an equation can be taken in other parts of its last axis: one that computes element
    by element, or spreads what has no such axis."""
    shape = e.outputs[0].aval.shape
    if e.name == "broadcast_in_dim":
        a, axes = e.inputs[0].aval, e.params["broadcast_dimensions"]
        return not cost.is_dynamic(e) and (len(shape) - 1 not in axes or a.shape[-1] == 1)
    return e.primitive.kernel == "map" and len(e.outputs) == 1 and not cost.is_dynamic(e) and all(
        a.aval.shape in ((), shape) for a in e.inputs)


def _as_parts(made: Replacement, a: Atom, shape: Shape, seen: dict[Atom, Atom]) -> Atom:
    if a not in seen:
        seen[a] = made.reshaped(a, shape)
    return seen[a]


def _in_parts(made: Replacement, shape: Shape, seen: dict[Atom, Atom]) -> list[Equation]:
    """An elementwise equation of another shape."""
    e, last = made.e, made.e.outputs[0].aval.ndim - 1
    params = e.params
    if e.name == "broadcast_in_dim":
        a, axes = e.inputs[0], params["broadcast_dimensions"]
        if last in axes:  # (its last axis is one element)
            a, axes = made.reshaped(a, (*a.aval.shape, 1)), (*axes, last + 1)
        inputs: list[Atom] = [a]
        params = {**params, "shape": shape, "broadcast_dimensions": tuple(axes)}
    else:
        inputs = [_as_parts(made, a, shape, seen) if a.aval.shape else a for a in e.inputs]
    out = Var(e.outputs[0].aval.update(shape=shape))
    seen[e.outputs[0]] = out
    return [*made.made, e.replace(inputs=tuple(inputs), outputs=(out,), params=params)]


def _part(e: Equation) -> int:
    """How many of the last elements that are reduced make a part; 0: it stays one reduction."""
    if e.name not in _FOLDS and e.name not in _POSITIONS or cost.is_dynamic(e):
        return 0
    x, axes = e.inputs[0].aval, sorted(e.params["axes"])
    if axes != list(range(x.ndim - len(axes), x.ndim)) or x.dtype.kind not in "fiu" or (
            x.dtype.itemsize < 4 and x.dtype.kind == "f" and e.name in _FOLDS):
        return 0  # (what is rounded between stages is rounded twice)
    sizes = [x.shape[i] for i in axes]
    if not ROW_BYTES < math.prod(sizes) * x.dtype.itemsize <= LARGEST:
        return 0  # (of more the error is IREE's and the runtime's)
    inner = [math.prod(sizes[i:]) for i in range(1, len(sizes))]
    fits = [n for n in inner if LEAST <= n <= MOST]
    if fits:
        return fits[0]
    return _divisor(sizes[-1]) if sizes[-1] > MOST else 0


def _in_shape(e: Equation, part: int) -> Shape:
    """The shape in which the operand is read: its own where last axes make a part, else with its
    last axis cut."""
    shape = e.inputs[0].aval.shape
    return shape if shape[-1] <= part else (*shape[:-1], shape[-1] // part, part)


@lru_cache(4096)
def _divisor(n: int) -> int:
    """The best length of parts of n elements: of those that are whole vectors the longest."""
    for step in (16, 1):
        for d in range(MOST, LEAST - 1, -step):
            if n % d == 0:
                return d
    return 0


def _folded(made: Replacement, x: Atom, part: int) -> list[Equation]:
    e, shape, dtype = made.e, x.aval.shape, x.aval.dtype
    where = {"out_sharding": None} if "out_sharding" in e.params else {}
    kept = e.outputs[0].aval.shape
    last = next(k for k in range(1, len(shape)) if math.prod(shape[-k:]) == part)
    first = made.emit(e.name, [x], shape[:-last], dtype, axes=tuple(
        range(len(shape) - last, len(shape))), **where)
    return made.ending(made.emit(e.name, [first], kept, dtype, axes=tuple(
        range(len(kept), len(shape) - last)), **where))


def _placed(made: Replacement, x: Atom) -> list[Equation]:
    """The first part with the extremum of all, and the extremum's place in it; NaN is one."""
    e, (*kept, count, part) = made.e, x.aval.shape
    along = len(kept)
    kind = np.dtype(e.params["index_dtype"])
    wide = kind if kind.itemsize >= 4 else np.dtype(np.int32)
    shape = (*kept, count)
    inside = made.emit(e.name, [x], shape, wide, axes=(along + 1,), index_dtype=wide)
    best = made.emit(_POSITIONS[e.name], [x], shape, x.aval.dtype, axes=(along + 1,),
                     out_sharding=None)
    which = made.emit(e.name, [best], kept, wide, axes=(along,), index_dtype=wide)
    numbers = made.emit("iota", [], shape, wide, dtype=wide, shape=shape, dimension=along,
                        sharding=None)
    chosen = made.emit("eq", [numbers, made.spread(which, shape, range(along))], shape,
                       np.dtype(bool))
    zeros = made.spread(_number(0, wide), shape, ())
    picked = made.emit("select_n", [chosen, zeros, inside], shape, wide)
    place = made.emit("reduce_sum", [picked], kept, wide, axes=(along,), out_sharding=None)
    start = made.emit("mul", [which, made.spread(_number(part, wide), kept, ())], kept, wide)
    return made.ending(made.emit("add", [start, place], kept, wide))


def _number(value: int, dtype: np.dtype) -> Literal:
    return Literal(dtype.type(value), ShapedArray((), dtype))


__all__ = ["with_stages"]
