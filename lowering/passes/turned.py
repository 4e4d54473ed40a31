"""Transpositions that are computed alone, because what reads them reads other arrays as they lie.

IREE makes one dispatch of `x + y.T`, which walks over y by columns, an element at a time unless its
vectors fit the shape (3.13; 1000 x 1000 takes 365 us, transposed first and then added 155).  Alone
it transposes in blocks.  (Kernels of ours walk as they are told: this is of what is left to it.)
What computes of y.T only, or sums up what it computes, stays one.
Start reading at `with_transpositions_alone`.
"""
from __future__ import annotations

from collections import defaultdict

from calque.core.avals import ShapedArray
from calque.core.dims import is_static
from calque.core.primitive import registry
from calque.core.program import Atom, Equation, Literal, Program, Var

LEAST = 1 << 13  # elements


def with_transpositions_alone(p: Program) -> Program:
    """p with a barrier behind each such transposition."""
    if not any(map(_turns_rows, p.equations)):
        return p
    readers: defaultdict[Atom, list[Equation]] = defaultdict(list)
    for e in p.equations:
        for a in {*e.inputs}:
            readers[a].append(e)
    equations: list[Equation] = []
    for e in p.equations:
        if not _turns_rows(e) or not _meets_another(e.outputs[0], readers):
            equations.append(e)
            continue
        out = e.outputs[0]
        moved = Var(ShapedArray(out.aval.shape, out.aval.dtype))
        equations += [e.replace(outputs=(moved,)),
                      Equation(registry["optimization_barrier"], (moved,), (out,), {}, e.source,
                               e.scope)]
    return p.replace(equations=equations)


def _turns_rows(e: Equation) -> bool:
    """Whether an equation transposes an array so that what was a row is one no more."""
    if e.name != "transpose" or not is_static(e.inputs[0].aval.shape) or (
            e.outputs[0].aval.size < LEAST):
        return False
    long = [axis for axis in e.params["permutation"] if e.inputs[0].aval.shape[axis] != 1]
    return long[-1] != max(long)


def _meets_another(v: Var, readers: defaultdict[Atom, list[Equation]]) -> bool:
    """Whether something computes element by element of v and of another array of its size, and is
    not only summed up."""
    for e in readers[v]:
        if e.primitive.kernel != "map" or len(e.outputs) != 1:
            continue
        out = e.outputs[0]
        if any(a is not v and not isinstance(a, Literal) and a.aval.shape == v.aval.shape
               for a in e.inputs):
            if not readers[out] or not all(r.name.startswith("reduce_") for r in readers[out]):
                return True
        elif _meets_another(out, readers):
            return True
    return False
