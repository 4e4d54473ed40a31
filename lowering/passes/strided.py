"""Views of arrays in memory: parts, transpositions, other orders and shapes, as strides.

A kernel reads through them (kernels/rows), so that what is cut out of an array, reshaped and turned
round is moved once.  Start reading at `after`.
"""
from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from calque.core.program import Atom, Equation
from calque.core.types import Shape

CLOSE = 4  # how far apart elements lie at most that are read by whole vectors (kernels/memory)
NAMES = frozenset(("slice", "transpose", "reshape", "squeeze", "rev"))


class Layout(NamedTuple):
    """Element [i, j] lies at base + i * strides[0] + j * strides[1]."""

    shape: Shape
    strides: Shape
    base: int = 0


def dense(shape: Sequence[int]) -> Layout:
    """Of an array in row-major order."""
    strides, step = [], 1
    for n in reversed(shape):
        strides.append(step)
        step *= n
    return Layout(tuple(shape), tuple(reversed(strides)))


def after(e: Equation, x: Layout) -> Layout | None:
    """What an equation makes of its operand's layout; None where it has to be moved for that."""
    shape = e.outputs[0].aval.shape
    if e.name == "transpose":
        order = e.params["permutation"]
        return Layout(shape, tuple(x.strides[i] for i in order), x.base)
    if e.name == "slice":
        starts, steps = e.params["start_indices"], e.params["strides"] or (1,) * len(shape)
        return Layout(shape, tuple(s * k for s, k in zip(x.strides, steps)),
                      x.base + sum(s * i for s, i in zip(x.strides, starts)))
    if e.name == "rev":
        turned = set(e.params["dimensions"])
        return Layout(shape, tuple(-s if i in turned else s for i, s in enumerate(x.strides)),
                      x.base + sum((shape[i] - 1) * x.strides[i] for i in turned))
    strides = reshaped(x.shape, x.strides, shape)
    return None if strides is None else Layout(shape, strides, x.base)


def through(e: Equation, x: Layout, views: Sequence[Equation]) -> dict[Atom, Layout] | None:
    """The layouts that an equation gives to its result, of an operand's, and views to what they see
    of that; None where one of them is no view then."""
    found: dict[Atom, Layout] = {}
    waiting = [(e, x)]
    while waiting:
        e, x = waiting.pop()
        seen = after(e, x)
        if seen is None:
            return None
        found[e.outputs[0]] = seen
        waiting += [(v, seen) for v in views if v.inputs[0] is e.outputs[0]]
    return found


def reshaped(shape: Shape, strides: Shape, new: Shape) -> Shape | None:
    """The strides of another shape; None where axes that become one do not lie side by side."""
    old = [(n, s) for n, s in zip(shape, strides) if n != 1]
    found = [0] * len(new)
    i = j = 0
    while i < len(old):
        size, end = old[i][0], i + 1
        axes: list[int] = []
        made = 1
        while made != size or not axes:
            if made < size or not axes:
                while j < len(new) and new[j] == 1:
                    j += 1
                axes.append(j)
                made *= new[j]
                j += 1
            else:
                if old[end - 1][1] != old[end][1] * old[end][0]:
                    return None
                size *= old[end][0]
                end += 1
        step = old[end - 1][1]
        for axis in reversed(axes):
            found[axis] = step
            step *= new[axis]
        i = end
    return tuple(found)


__all__ = ["CLOSE", "NAMES", "Layout", "after", "dense", "reshaped", "through"]
