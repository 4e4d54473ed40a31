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

    def write(p: Program) -> None:
        for e in p.equations:
            inputs = tuple(env.get(a, a) for a in e.inputs)
            if e.name == "jit" and "rows" not in e.params:
                inner: Program = e.params["jaxpr"]
                env.update(zip(inner.inputs, inputs))
                write(inner)
                env.update({v: env.get(o, o) for v, o in zip(e.outputs, inner.outputs)})
                continue
            fresh = tuple(Var(v.aval) for v in e.outputs)
            env.update(zip(e.outputs, fresh))
            equations.append(e.replace(inputs=inputs, outputs=fresh))

    write(p)
    return p.replace(equations=equations, outputs=[env.get(o, o) for o in p.outputs])
