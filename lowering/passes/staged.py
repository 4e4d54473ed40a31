"""Reductions of more than a core's cache holds, in two stages: of parts, then of what they give.

A kernel over rows takes a whole row at a time (passes/rows), so that the largest of a million
numbers, its position, or a logsumexp over all of an array were IREE's, which computes what is
reduced in passes of their own, and positions number by number on one thread (argmax of 1000 x 1000
4.7 to 0.3 ms).  A length that has no divisor is cut into parts and a rest.  Where less than a few
elements lie side by side along what is reduced or kept (groups of two features, images of three
colours), the outer axes are reduced first, and the inner ones of what that gives.  Start reading at
`with_stages`.
"""
from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from calque.core.avals import ShapedArray
from calque.core.dtypes import is_float, is_integer
from calque.core.lists import without
from calque.core.program import Atom, Equation, Literal, Program
from calque.core.types import Shape
from calque.lowering.emit.dtypes import BOOL, is_narrow
from calque.lowering.passes.flat import flat
from calque.lowering.passes.replacement import Replacement
from calque.lowering.passes.rows import ROW_BYTES, SHORTEST

LEAST, MOST = 256, 1 << 15  # elements of a part
BEFORE_A_REST = 1 << 13  # the same of a length that none of these divides
LARGEST = 1 << 42  # bytes of what is reduced
LANES = 16  # elements side by side of what is left when outer axes were reduced,
FEWER = 8  # at most one for so many,
LEAST_APART = 1 << 12  # of at least so many
_FOLDS = frozenset(("reduce_sum", "reduce_prod", "reduce_max", "reduce_min"))
_ROUNDED = frozenset(("reduce_sum", "reduce_prod"))
_POSITIONS = {"argmax": "reduce_max", "argmin": "reduce_min"}
_JOINED = {"reduce_sum": "add", "reduce_prod": "mul", "reduce_max": "max", "reduce_min": "min"}
_BEYOND = {"argmax": "gt", "argmin": "lt"}

# How an array is read: what of its last axis, from where, in which shape.
Cut = tuple[tuple[int, Shape], ...]
Pieces = dict[tuple[Atom, Cut], list[Atom]]


def with_stages(p: Program) -> Program:
    """p with such reductions written so, outside of loops."""
    if not any(_part(e) or _inner(e) for e in p.equations):
        return p
    p = flat(p)
    parts = list(map(_part, p.equations))
    cuts = _cuts(p, parts)
    seen: Pieces = {}  # what is there in parts
    equations: list[Equation] = []
    for i, (e, part) in enumerate(zip(p.equations, parts)):
        made = Replacement(e)
        if part:
            pieces = _as_parts(made, e.inputs[0], cuts[i], seen)
            equations += _folded(made, pieces, part) if e.name in _FOLDS else _placed(
                made, pieces, cuts[i])
        elif inner := _inner(e):
            equations += _outer_first(made, inner)
        else:
            equations += _in_parts(made, cuts[i], seen) if i in cuts else [e]
    return p.replace(equations=equations)


def _cuts(p: Program, parts: Sequence[int]) -> dict[int, Cut]:
    """How reductions read their operand, by their positions, and how elementwise equations are
    taken that only such of one cut read: between the two a reshape would stand, and what is
    computed be written to memory."""
    users: dict[Atom, set[int]] = {}
    for i, e in enumerate(p.equations):
        for a in e.inputs:
            users.setdefault(a, set()).add(i)
    results, found = set(p.outputs), dict[int, Cut]()
    for i, e in reversed(list(enumerate(p.equations))):
        if parts[i]:
            found[i] = _cut(e, parts[i])
        elif _is_elementwise(e) and not results & set(e.outputs):
            own = e.outputs[0].aval
            wanted = {found.get(k) for k in users.get(e.outputs[0], ())}
            cut = wanted.pop() if len(wanted) == 1 else None
            if cut is not None and cut != ((0, own.shape),) and own.size == sum(
                    math.prod(shape) for _, shape in cut):
                found[i] = cut
    return found


def _is_elementwise(e: Equation) -> bool:
    """Whether an equation can be taken in other parts of its last axis: one that computes element
    by element, or spreads what has no such axis."""
    if len(e.outputs) != 1:
        return False
    shape = e.outputs[0].aval.shape
    if e.name == "broadcast_in_dim":
        a, axes = e.inputs[0].aval, e.params["broadcast_dimensions"]
        return not e.is_dynamic and (len(shape) - 1 not in axes or a.shape[-1] == 1)
    return e.primitive.kernel == "map" and not e.is_dynamic and all(
        a.aval.shape in ((), shape) for a in e.inputs)


def _as_parts(made: Replacement, a: Atom, cut: Cut, seen: Pieces) -> list[Atom]:
    if (a, cut) not in seen:
        lead, length = a.aval.shape[:-1], a.aval.shape[-1]
        seen[a, cut] = []
        for start, shape in cut:
            size = length if len(cut) == 1 else math.prod(shape[len(lead):])
            seen[a, cut].append(made.reshaped(made.cut(a, start, start + size), shape))
    return seen[a, cut]


def _in_parts(made: Replacement, cut: Cut, seen: Pieces) -> list[Equation]:
    """An elementwise equation of other shapes."""
    e = made.e
    ndim = e.outputs[0].aval.ndim
    of_parts = [_as_parts(made, a, cut, seen) if a.aval.shape and e.name != "broadcast_in_dim"
                else [a] * len(cut) for a in e.inputs]
    pieces = seen[e.outputs[0], cut] = []
    for k, (_, shape) in enumerate(cut):
        inputs, params = [x[k] for x in of_parts], e.params
        if e.name == "broadcast_in_dim":
            axes = tuple(params["broadcast_dimensions"])
            if ndim - 1 in axes and len(shape) > ndim:  # (its last axis is one element)
                axes = (*axes, ndim)
                inputs = [made.reshaped(inputs[0], (*inputs[0].aval.shape, 1))]
            params = {**params, "shape": shape, "broadcast_dimensions": axes}
        pieces.append(made.emit(e.name, inputs, shape, e.outputs[0].aval.dtype, **params))
    return made.made


def _inner(e: Equation) -> tuple[int, ...]:
    """The axes of a reduction that are reduced last, because few elements lie side by side up to
    the next one that is reduced (or kept); none where it is one reduction."""
    if e.name not in _FOLDS or e.is_dynamic:
        return ()
    x, folded = e.inputs[0].aval, {i for i in e.params["axes"] if e.inputs[0].aval.shape[i] > 1}
    if x.size < LEAST_APART or x.dtype.kind not in "fi" or x.dtype.itemsize < 4:
        return ()
    real = [i for i in range(x.ndim) if x.shape[i] > 1]
    side, along = real[-1] in folded, 1
    for i in reversed(real):
        if (i in folded) != side:
            break
        along *= x.shape[i]
    block = 1
    for k in reversed(range(len(real))):
        block *= x.shape[real[k]]
        inner = tuple(i for i in real[k:] if i in folded)
        if block >= LANES:
            outer = folded - set(inner)
            fewer = math.prod(x.shape[i] for i in outer)
            return inner if along < SHORTEST and fewer >= FEWER and real[k - 1] in outer else ()
    return ()


def _outer_first(made: Replacement, inner: tuple[int, ...]) -> list[Equation]:
    e = made.e
    x, where = e.inputs[0], {"out_sharding": None} if "out_sharding" in e.params else {}
    axes = tuple(sorted(e.params["axes"]))
    outer = tuple(i for i in axes if i not in inner)
    left = without(x.aval.shape, outer)
    rest = made.emit(e.name, [x], left, x.aval.dtype, axes=outer, **where)
    last = tuple(i - sum(o < i for o in outer) for i in inner)
    return made.ending(made.emit(e.name, [rest], e.outputs[0].aval.shape, x.aval.dtype, axes=last,
                                 **where))


def _part(e: Equation) -> int:
    """How many of the last elements that are reduced make a part; 0: it stays one reduction."""
    if e.name not in _FOLDS and e.name not in _POSITIONS or e.is_dynamic:
        return 0
    x, axes = e.inputs[0].aval, sorted(e.params["axes"])
    if axes != list(range(x.ndim - len(axes), x.ndim)) or not (
            is_float(x.dtype) or is_integer(x.dtype)) or (
            is_narrow(x.dtype) and e.name in _ROUNDED):
        return 0  # (what is rounded between stages is rounded twice)
    sizes = [x.shape[i] for i in axes]
    if not ROW_BYTES < math.prod(sizes) * x.dtype.itemsize <= LARGEST:
        return 0  # (of more the error is IREE's and the runtime's)
    inner = [math.prod(sizes[i:]) for i in range(1, len(sizes))]
    fits = [n for n in inner if LEAST <= n <= MOST]
    if fits:
        return fits[0]
    return (_divisor(sizes[-1]) or BEFORE_A_REST) if sizes[-1] > MOST else 0


def _cut(e: Equation, part: int) -> Cut:
    """How the operand is read: as it is where last axes make a part, else with its last axis cut,
    and what is left of it."""
    *lead, length = e.inputs[0].aval.shape
    if length <= part:
        return ((0, (*lead, length)),)
    count, rest = divmod(length, part)
    whole: Cut = ((0, (*lead, count, part)),)
    return (*whole, (count * part, (*lead, rest))) if rest else whole


@lru_cache(4096)
def _divisor(n: int) -> int:
    """The best length of parts of n elements: of those that are whole vectors the longest."""
    for step in (16, 1):
        for d in range(MOST, LEAST - 1, -step):
            if n % d == 0:
                return d
    return 0


def _folded(made: Replacement, pieces: Sequence[Atom], part: int) -> list[Equation]:
    e, (x, *rest) = made.e, pieces
    shape, dtype, kept = x.aval.shape, x.aval.dtype, e.outputs[0].aval.shape
    where = {"out_sharding": None} if "out_sharding" in e.params else {}

    def fold(x: Atom, left: Shape) -> Atom:
        return made.emit(e.name, [x], left, dtype, axes=tuple(range(len(left), x.aval.ndim)),
                         **where)
    last = next(k for k in range(1, len(shape)) if math.prod(shape[-k:]) == part)
    total = fold(fold(x, shape[:-last]), kept)
    for r in rest:
        total = made.emit(_JOINED[e.name], [total, fold(r, kept)], kept, dtype)
    return made.ending(total)


def _placed(made: Replacement, pieces: Sequence[Atom], cut: Cut) -> list[Equation]:
    """The first part with the extremum of all, and the extremum's place in it; NaN is one."""
    e, (x, *rest) = made.e, pieces
    *kept, count, part = x.aval.shape
    along = len(kept)
    kind = np.dtype(e.params["index_dtype"])
    wide = kind if kind.itemsize >= 4 else np.dtype(np.int32)
    shape = (*kept, count)
    inside, best = _first(made, x, wide)
    which, most = _first(made, best, wide)
    numbers = made.emit("iota", [], shape, wide, dtype=wide, shape=shape, dimension=along,
                        sharding=None)
    chosen = made.emit("eq", [numbers, made.spread(which, shape, range(along))], shape, BOOL)
    zeros = made.spread(_number(0, wide), shape, ())
    picked = made.emit("select_n", [chosen, zeros, inside], shape, wide)
    place = made.emit("reduce_sum", [picked], kept, wide, axes=(along,), out_sharding=None)
    start = made.emit("mul", [which, made.spread(_number(part, wide), kept, ())], kept, wide)
    place = made.emit("add", [start, place], kept, wide)
    for (begin, _), r in zip(cut[1:], rest):
        behind, other = _first(made, r, wide)
        there = made.emit("add", [behind, made.spread(_number(begin, wide), kept, ())], kept, wide)
        place = made.emit("select_n", [_is_beyond(made, other, most), place, there], kept, wide)
    return made.ending(place)


def _first(made: Replacement, x: Atom, wide: np.dtype) -> tuple[Atom, Atom]:
    """The place of the extremum along the last axis, and the extremum."""
    shape, axes = x.aval.shape[:-1], (x.aval.ndim - 1,)
    return (made.emit(made.e.name, [x], shape, wide, axes=axes, index_dtype=wide),
            made.emit(_POSITIONS[made.e.name], [x], shape, x.aval.dtype, axes=axes,
                      out_sharding=None))


def _is_beyond(made: Replacement, x: Atom, y: Atom) -> Atom:
    """Whether x, which comes later, is the extremum of the two."""
    shape = x.aval.shape
    beyond = made.emit(_BEYOND[made.e.name], [x, y], shape, BOOL)
    if not is_float(x.aval.dtype):
        return beyond
    nan, number = (made.emit(name, [v, v], shape, BOOL) for name, v in (("ne", x), ("eq", y)))
    return made.emit("or", [beyond, made.emit("and", [nan, number], shape, BOOL)], shape, BOOL)


def _number(value: int, dtype: np.dtype) -> Literal:
    return Literal(dtype.type(value), ShapedArray((), dtype))


__all__ = ["with_stages"]
