"""A Program with what it calls (jit) written out, for passes that look at all equations of a loop.
"""
from __future__ import annotations

from calque.core.program import Atom, Equation, Program, Var


def flat(p: Program) -> Program:
    """p with what it calls written out, but for what is one kernel already."""
    if not any(e.name == "jit" and "rows" not in e.params for e in p.equations):
        return p
    return p.derived("flat", lambda: _flat(p))


def _flat(p: Program) -> Program:
    equations: list[Equation] = []
    env: dict[Atom, Atom] = {}
    made = set[Var]()  # what a function is called for again gets other names

    def write(p: Program) -> None:
        for e in p.equations:
            e = e.reading(env)
            if e.name == "jit" and "rows" not in e.params:
                inner: Program = e.params["jaxpr"]
                env.update(zip(inner.inputs, e.inputs))
                write(inner)
                env.update({v: env.get(o, o) for v, o in zip(e.outputs, inner.outputs)})
                continue
            if not made.isdisjoint(e.outputs):
                fresh = tuple(Var(v.aval) for v in e.outputs)
                env.update(zip(e.outputs, fresh))
                e = e.replace(outputs=fresh)
            made.update(e.outputs)
            equations.append(e)

    write(p)
    return p.replace(equations=equations, outputs=[env.get(o, o) for o in p.outputs])
