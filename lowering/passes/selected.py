"""A large window of an array replaced by what is computed of it, as a choice between old and new.

`x.at[1:-1, 1:-1].multiply(2)` computes an array of the window's size, and then copies x with the
window in the place of its own part: three passes over memory.  Where the window is most of x, and
what is written follows element by element from windows of the same place, it is computed for all of
x and chosen where the window is: one pass.  So is what is put back between zeros, as derivatives of
slices are (those of `x[1:] ** 2` of 1000 x 1000 180 to 104 us).  Start reading at
`with_windows_selected`.
"""
from __future__ import annotations

import math
from collections import Counter

import numpy as np

from calque.core.avals import ShapedArray
from calque.core.dtypes import is_float, is_integer
from calque.core.program import Atom, Equation, Literal, Program, eliminate_dead_code
from calque.core.types import Shape
from calque.lowering.emit.dtypes import BOOL, I32
from calque.lowering.passes import loops
from calque.lowering.passes.replacement import Replacement
from calque.lowering.plan.switches import off

LEAST = 1 << 14  # elements of the array
SHARE = 3, 4  # of them that the window has, or more
DEEPEST = 100  # operations one after the other


def with_windows_selected(p: Program) -> Program:
    """p with such updates written so, outside of loops."""
    if not loops.enabled or off("moves") or not any(map(_starts, p.equations)):
        return p
    makers: dict[Atom, Equation] = {v: e for e in p.equations for v in e.outputs}
    uses = Counter(a for e in p.equations for a in e.inputs) + Counter(p.outputs)
    equations: list[Equation] = []
    for e in p.equations:
        starts = _starts(e)
        made = Replacement(e)
        new = None if starts is None else _widened(_new(e), e, starts, made, makers, uses)
        equations += [e] if starts is None or new is None else _chosen(made, starts, new)
    return eliminate_dead_code(p.replace(equations=equations))


def _new(e: Equation) -> Atom:
    """What an equation puts into the window."""
    return e.inputs[e.name != "pad"]


def _starts(e: Equation) -> Shape | None:
    """Where the window begins, of an update or a padding that may be written so."""
    if e.name not in ("dynamic_update_slice", "pad") or e.is_dynamic:
        return None
    x, new = e.outputs[0].aval, _new(e).aval
    large = SHARE[0] * x.size <= SHARE[1] * new.size < SHARE[1] * x.size and x.size >= LEAST
    if not large or not (is_float(x.dtype) or is_integer(x.dtype)):
        return None
    if e.name == "pad":
        low, high, inside = zip(*e.params["padding_config"])
        return None if min(*low, *high) < 0 or any(inside) else tuple(low)
    begins = [int(a.value) for a in e.inputs[2:] if isinstance(a, Literal)]
    return None if len(begins) < x.ndim else tuple(min(max(at, 0), n - w) for at, n, w in zip(
        begins, x.shape, new.shape, strict=True))


def _widened(a: Atom, e: Equation, starts: Shape, made: Replacement, makers: dict[Atom, Equation],
             uses: Counter[Atom], depth: int = 0) -> Atom | None:
    """What of x's shape has a in the window; None where that is not computed element by element, or
    by a long way."""
    if a.aval.shape == ():
        return a
    maker, shape = makers.get(a), e.outputs[0].aval.shape
    if maker is None or a.aval.shape != _new(e).aval.shape:
        return None
    if maker.name == "slice":
        source, steps = maker.inputs[0], maker.params["strides"]
        same = tuple(maker.params["start_indices"]) == starts and source.aval.shape == shape
        return source if same and (steps is None or set(steps) == {1}) else None
    if maker.name == "broadcast_in_dim":
        number = maker.inputs[0]
        return made.spread(number, shape, ()) if number.aval.shape == () else None
    if maker.primitive.kernel != "map" or len(maker.outputs) != 1 or uses[a] != 1 or (
            maker.is_dynamic) or depth > DEEPEST:
        return None
    inputs = [_widened(x, e, starts, made, makers, uses, depth + 1) for x in maker.inputs]
    if any(x is None for x in inputs):
        return None
    return made.emit(maker.name, [x for x in inputs if x is not None], shape,
                     maker.outputs[0].aval.dtype, **maker.params)


def _chosen(made: Replacement, starts: Shape, new: Atom) -> list[Equation]:
    e, window = made.e, _new(made.e).aval.shape
    shape = e.outputs[0].aval.shape
    x = made.spread(e.inputs[1], shape, ()) if e.name == "pad" else e.inputs[0]
    inside: Atom | None = None
    for axis, (start, width, n) in enumerate(zip(starts, window, shape)):
        if width == n:
            continue
        at = made.emit("iota", [], (n,), I32, dtype=I32, shape=(n,), dimension=0, sharding=None)
        along: Atom | None = None
        for name, bound in (("ge", start), ("lt", start + width)):
            if bound in (0, n):
                continue
            here = made.emit(name, [at, Literal(np.int32(bound), ShapedArray((), I32))], (n,), BOOL)
            along = here if along is None else made.emit("and", [along, here], (n,), BOOL)
        assert along is not None
        all_along = made.spread(along, shape, (axis,))
        inside = all_along if inside is None else made.emit(
            "and", [inside, all_along], shape, BOOL)
    assert inside is not None and math.prod(window) < math.prod(shape)
    return made.ending(made.emit("select_n", [inside, x, new], shape, x.aval.dtype))


__all__ = ["with_windows_selected"]
