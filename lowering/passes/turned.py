"""Transpositions that are computed alone, by a kernel of ours where that takes them.

IREE makes one dispatch of `x + y.T`, which walks over y by columns, an element at a time unless its
vectors fit the shape (3.13; 1000 x 1000 takes 365 us, transposed first and then added 155).  What
computes of y.T only, or sums up what it computes, stays one with it (but for many short rows), and
so do products, which read y as it lies.  Start reading at `with_transpositions_alone`.
"""
from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from calque.core.dims import is_static
from calque.core.dtypes import is_key
from calque.core.primitive import registry
from calque.core.program import Atom, Equation, Literal, Program, Var
from calque.core.types import Dtype
from calque.lowering.plan.switches import off

LEAST = 1 << 13  # elements
SHORT, TALL = 256, 16  # elements of a short row; how many times as many rows are many
LARGE = 1 << 16  # bytes from which on the kernel pays
TILE = {1: 32, 2: 32, 4: 16, 8: 8}  # elements of a side, by their bytes (transpose.c)
OUTER = 3  # axes beside the two

Axis = tuple[int, int, int]  # size, how far apart in the operand, and in the result


@dataclass(frozen=True, slots=True)
class Turned:
    """A call that is a transposition, with which nothing is fused."""


def with_transpositions_alone(p: Program, closing: bool = False) -> Program:
    """p with a call for each such transposition; `closing`: IREE is to get nothing, so those alone
    that the kernel takes."""
    if not any(map(_turns_rows, p.equations)):
        return p
    readers: defaultdict[Atom, list[Equation]] = defaultdict(list)
    for e in p.equations:
        for a in {*e.inputs}:
            readers[a].append(e)
    makers: dict[Atom, Equation] = {v: e for e in p.equations for v in e.outputs}
    results = set(p.outputs)
    equations = list(p.equations)
    for k, e in enumerate(equations):
        if not _turns_rows(e) or closing and tiled(
                e.inputs[0].aval.shape, e.inputs[0].aval.dtype, e.params["permutation"]) is None:
            continue
        x, out = e.inputs[0], e.outputs[0]
        if not isinstance(x, Var):
            continue
        given = x not in makers or makers[x].primitive.kernel != "map"
        whole = out in results and not readers[out] or _is_tall(e) and any(
            r.primitive.kernel == "map" for r in readers[out])
        if _meets_another(out, readers) or given and whole:
            equations[k] = Equation(registry["jit"], (x,), (out,), {
                "jaxpr": Program([x], [e], (out,), name="transpose"), "name": "transpose",
                "rows": Turned()}, e.source, e.scope)
    return p.replace(equations=equations)


def _turns_rows(e: Equation) -> bool:
    """Whether an equation transposes an array so that what was a row is one no more."""
    if e.name != "transpose" or not is_static(e.inputs[0].aval.shape) or (
            e.outputs[0].aval.size < LEAST or is_key(e.outputs[0].aval.dtype)):
        return False
    long = [axis for axis in e.params["permutation"] if e.inputs[0].aval.shape[axis] != 1]
    return long[-1] != max(long)


def _is_tall(e: Equation) -> bool:
    """Whether the operand is many short rows, which the kernel takes: IREE's loop over them takes
    from 0.15 to 1.1 ms for 20,000 of 100, by where they lie."""
    x = e.inputs[0].aval
    found = tiled(x.shape, x.dtype, e.params["permutation"])
    return found is not None and found[1][0] <= SHORT and found[2][0] >= TALL * found[1][0]


def _meets_another(v: Var, readers: defaultdict[Atom, list[Equation]]) -> bool:
    """Whether something computes element by element of v, or of what is computed of v alone, and of
    another array of its size, and is not only summed up."""
    reached, waiting = {v}, [v]
    while waiting:  # (a chain may be longer than Python's stack)
        at = waiting.pop()
        for e in readers[at]:
            if e.primitive.kernel != "map" or len(e.outputs) != 1:
                continue
            out = e.outputs[0]
            if any(a is not at and not isinstance(a, Literal) and a.aval.shape == at.aval.shape
                   for a in e.inputs):
                if not readers[out] or not all(r.name.startswith("reduce_") for r in readers[out]):
                    return True
            elif out not in reached:
                reached.add(out)
                waiting.append(out)
    return False


def tiled(sizes: Sequence[int], dtype: Dtype, permutation: Sequence[int]
          ) -> tuple[list[Axis], Axis, Axis] | None:
    """The outer axes, the operand's last one and the result's last one, of a transposition that the
    kernel takes; None of others."""
    size = dtype.itemsize
    if not is_static(sizes) or size not in TILE or dtype.kind == "c" or off("moves") or (
            math.prod(sizes) * size < LARGE):
        return None
    apart = [math.prod(sizes[i + 1:]) for i in range(len(sizes))]
    shape = [sizes[i] for i in permutation]
    axes: list[Axis] = []
    for k, i in enumerate(permutation):
        here = sizes[i], apart[i], math.prod(shape[k + 1:])
        if here[0] == 1:
            continue
        if axes and axes[-1][1] == here[0] * here[1]:  # one axis in both
            axes[-1] = axes[-1][0] * here[0], here[1], here[2]
        else:
            axes.append(here)
    last = next((a for a in axes if a[1] == 1), None)
    if last is None or last is axes[-1] or len(axes) > OUTER + 2 or min(
            last[0], axes[-1][0]) < TILE[size]:
        return None
    return [a for a in axes[:-1] if a is not last], last, axes[-1]
