"""A large window of an array replaced by what is computed of it, as a choice between old and new.

`x.at[1:-1, 1:-1].multiply(2)` computes an array of the window's size, and then copies x with the
window in the place of its own part: three passes over memory.  Where the window is most of x, and
what is written follows element by element from windows of the same place, it is computed for all of
x and chosen where the window is: one pass.  So is what is put back between zeros, as derivatives of
slices are (`x[:, ::2]`), where that is cheap or most of the array.  Start reading at
`with_windows_selected`.
"""
from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass

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
PADDED = 1, 4  # or that lie apart between zeros,
CHEAP = 2  # computed by equations of such weight
DEEPEST = 100  # operations one after the other


@dataclass(frozen=True, slots=True)
class _Window:
    """Places starts, starts + steps, ... of an array of a shape, so many along each axis."""

    starts: Shape
    steps: Shape
    widths: Shape
    shape: Shape
    most: int  # weight of what computes an element

    @classmethod
    def of(cls, e: Equation) -> _Window | None:
        """What an equation replaces, where that may be written so."""
        if e.name not in ("dynamic_update_slice", "pad") or e.is_dynamic:
            return None
        out, kind = e.outputs[0].aval, e.outputs[0].aval.dtype
        if out.size < LEAST or not (is_float(kind) or is_integer(kind)):
            return None
        if e.name == "pad":
            low, high, inside = zip(*e.params["padding_config"])
            new, steps, most = e.inputs[0].aval, tuple(n + 1 for n in inside), 1 << 30
            if min(*low, *high) < 0 or not isinstance(e.inputs[1], Literal):
                return None
            if SHARE[0] * out.size > SHARE[1] * new.size:
                most = CHEAP
            share, starts = PADDED if max(steps) > 1 else SHARE, tuple(low)
        else:
            begins = [int(a.value) for a in e.inputs[2:] if isinstance(a, Literal)]
            new, steps, most, share = e.inputs[1].aval, (1,) * out.ndim, 1 << 30, SHARE
            if len(begins) < out.ndim:
                return None
            starts = tuple(min(max(at, 0), n - w) for at, n, w in zip(
                begins, out.shape, new.shape, strict=True))
        large = share[0] * out.size <= share[1] * new.size < share[1] * out.size
        return cls(starts, steps, new.shape, out.shape, most) if large else None

    def sees(self, e: Equation) -> bool:
        """Whether a slice is of these places."""
        return e.inputs[0].aval.shape == self.shape and (
            e.params["start_indices"] == self.starts and (
                e.params["strides"] or (1,) * len(self.steps)) == self.steps)


def with_windows_selected(p: Program) -> Program:
    """p with such updates written so, outside of loops."""
    if not loops.enabled or off("moves") or p.names().isdisjoint(("dynamic_update_slice", "pad")):
        return p
    makers: dict[Atom, Equation] = {v: e for e in p.equations for v in e.outputs}
    uses = Counter(a for e in p.equations for a in e.inputs) + Counter(p.outputs)
    equations: list[Equation] = []
    for e in p.equations:
        window, made = _Window.of(e), Replacement(e)
        new = None if window is None else _widened(
            e.inputs[e.name != "pad"], window, made, makers, uses)
        equations += [e] if window is None or new is None else _chosen(made, window, new)
    same = len(equations) == len(p.equations)
    return p if same else eliminate_dead_code(p.replace(equations=equations))


def _widened(a: Atom, window: _Window, made: Replacement, makers: dict[Atom, Equation],
             uses: Counter[Atom], depth: int = 0) -> Atom | None:
    """What of the array's shape has a in the window; None where that is not computed element by
    element, or by a long way."""
    if a.aval.shape == ():
        return a
    maker = makers.get(a)
    if maker is None or a.aval.shape != window.widths:
        return None
    if maker.name == "slice":
        return maker.inputs[0] if window.sees(maker) else None
    if maker.name == "broadcast_in_dim":
        number = maker.inputs[0]
        return made.spread(number, window.shape, ()) if number.aval.shape == () else None
    if maker.primitive.kernel != "map" or len(maker.outputs) != 1 or uses[a] != 1 or (
            maker.is_dynamic) or depth > DEEPEST or maker.weight > window.most:
        return None
    inputs = [_widened(x, window, made, makers, uses, depth + 1) for x in maker.inputs]
    if any(x is None for x in inputs):
        return None
    return made.emit(maker.name, [x for x in inputs if x is not None], window.shape,
                     maker.outputs[0].aval.dtype, **maker.params)


def _chosen(made: Replacement, window: _Window, new: Atom) -> list[Equation]:
    shape, old = window.shape, made.e.inputs[made.e.name == "pad"]
    inside: Atom | None = None

    def number(n: int) -> Literal:
        return Literal(np.int32(n), ShapedArray((), I32))

    for axis, (start, step, width, n) in enumerate(zip(
            window.starts, window.steps, window.widths, shape)):
        if width == n:
            continue
        at = made.emit("iota", [], (n,), I32, dtype=I32, shape=(n,), dimension=0, sharding=None)
        end = start + (width - 1) * step + 1
        tests: list[tuple[str, Atom, int]] = [
            ("ge", at, start), ("lt", at, n if n - end < step - 1 else end)]
        if step > 1:
            off_by: Atom = at if not start % step else made.emit(
                "add", [at, number(step - start % step)], (n,), I32)
            tests.append(("eq", made.emit("rem", [off_by, number(step)], (n,), I32), 0))
        along: Atom | None = None
        for name, x, bound in tests:
            if (name, bound) in (("ge", 0), ("lt", n)):
                continue
            here = made.emit(name, [x, number(bound)], (n,), BOOL)
            along = here if along is None else made.emit("and", [along, here], (n,), BOOL)
        assert along is not None
        all_along = made.spread(along, shape, (axis,))
        inside = all_along if inside is None else made.emit(
            "and", [inside, all_along], shape, BOOL)
    assert inside is not None and math.prod(window.widths) < math.prod(shape)
    both = [made.spread(a, shape, ()) for a in (old, new)]
    return made.ending(made.emit("select_n", [inside, *both], shape, new.aval.dtype))


__all__ = ["with_windows_selected"]
