"""Triangular systems of a batch that share their matrix: one system with more right sides.

A matrix that is repeated for each of a batch (`multivariate_normal.logpdf` of many points, vmap
over right sides) would be written so often and read again for every vector.  Start reading at
`with_shared_solves`.
"""
from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from calque.core.primitive import registry
from calque.core.program import Atom, Equation, Program, Var
from calque.core.types import Shape
from calque.lowering.passes import cost


def with_shared_solves(p: Program) -> Program:
    """p with such systems as one, at any depth, but for loops that are kernels."""
    return p if "triangular_solve" not in p.names() else p.derived(
        "shared solves", lambda: _with_shared_solves(p))


def _with_shared_solves(p: Program) -> Program:
    makers: dict[Atom, Equation] = {}
    equations: list[Equation] = []
    for e in p.equations:
        if e.name == "broadcast_in_dim":
            makers[e.outputs[0]] = e
        matrix = _repeated(e, makers) if e.name == "triangular_solve" else None
        if matrix is not None:
            equations += _as_one(e, matrix)
        else:
            equations.append(e if cost.is_kernel(e) else e.with_inner(with_shared_solves))
    return p if tuple(equations) == p.equations else p.replace(equations=equations)


def _repeated(e: Equation, makers: dict[Atom, Equation]) -> Atom | None:
    """The matrix that a batch of systems shares; None where each has its own."""
    made = makers.get(e.inputs[0])
    ndim = e.inputs[0].aval.ndim
    if made is None or ndim < 3 or e.is_dynamic or (
            tuple(made.params["broadcast_dimensions"]) != (ndim - 2, ndim - 1)
            or made.inputs[0].aval.shape != e.inputs[0].aval.shape[-2:]):
        return None
    return made.inputs[0]


def _as_one(e: Equation, matrix: Atom) -> list[Equation]:
    x, out = e.inputs[1], e.outputs[0]
    lead, n, m = x.aval.shape[:-2], *x.aval.shape[-2:]
    last = len(lead)
    left = e.params["left_side"]
    made = list[Equation]()

    def emit(name: str, x: Atom, shape: Sequence[int], params: dict[str, Any], to: Var | None = None
             ) -> Var:
        v = Var(x.aval.update(shape=tuple(shape))) if to is None else to
        inputs = (matrix, x) if name == e.name else (x,)
        made.append(Equation(registry[name], inputs, (v,), params, e.source, e.scope))
        return v

    def reshaped(x: Atom, shape: Shape, to: Var | None = None) -> Var:
        return emit("reshape", x, shape, {
            "new_sizes": shape, "dimensions": None, "sharding": None}, to)

    if left:  # columns of all systems side by side
        turned = (last, *range(last), last + 1)
        x = emit("transpose", x, (n, *lead, m), {"permutation": turned})
        flat = (n, math.prod(lead) * m)
    else:
        flat = (math.prod(lead) * n, m)
    x = emit(e.name, reshaped(x, flat), flat, e.params)
    if left:
        back = tuple(turned.index(i) for i in range(last + 2))
        emit("transpose", reshaped(x, (n, *lead, m)), out.aval.shape, {"permutation": back}, out)
    else:
        reshaped(x, out.aval.shape, out)
    return made
