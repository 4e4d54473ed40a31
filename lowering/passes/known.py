"""Whole numbers that are known: what follows from literals alone is computed here.

`x % 97` asks whether 97 is 0 and below 0.  Asked when the program runs, its divisor would be a
number that is not known when it is compiled, and the division no multiplication.  Start reading at
`with_known`.
"""
from __future__ import annotations

from typing import Any

import numpy as np

from calque.core.program import Atom, Equation, Literal, Program, Var
from calque.lowering.passes.scalars import KNOWN


def with_known(p: Program) -> Program:
    """p without such equations, at any depth."""
    return p.derived("known", lambda: _with_known(p))


def _with_known(p: Program) -> Program:
    known: dict[Atom, Literal] = {}
    results = set[Atom](p.outputs)
    equations = []
    for e in p.equations:
        if any(a in known for a in e.inputs):
            e = e.replace(inputs=tuple(known.get(a, a) for a in e.inputs))
        value = None if results & set(e.outputs) else _value(e)
        if value is None:
            equations.append(e.with_inner(with_known))
        else:
            known[e.outputs[0]] = value
    same = len(equations) == len(p.equations) and all(
        a is b for a, b in zip(equations, p.equations))
    return p if same else p.replace(equations=equations)


def _value(e: Equation) -> Literal | None:
    """The result of an equation on literal whole numbers and bools."""
    if len(e.outputs) != 1 or not e.inputs or e.outputs[0].aval.shape or any(
            isinstance(a, Var) or a.aval.shape for a in e.inputs) or any(
            a.aval.dtype.kind not in "biu" for a in (*e.inputs, *e.outputs)):
        return None
    kind = e.outputs[0].aval.dtype
    given: list[Any] = [np.asarray(a.value, a.aval.dtype)[()] for a in e.inputs
                        if isinstance(a, Literal)]
    if e.name == "select_n":
        made = given[1 + int(given[0])]
    elif e.name in KNOWN:
        with np.errstate(all="ignore"):
            made = KNOWN[e.name](*given)
    else:
        return None
    return Literal(kind.type(made), e.outputs[0].aval)


__all__ = ["with_known"]
