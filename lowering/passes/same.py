"""Equations that compute the same, as one: four positions of `interp` that each are brought into
range, what is written twice.

IREE finds them by itself, within what it fuses; kernels of ours and what is computed before a loop
would hand each on in memory.  Results stay apart, and so does what is spread of a number: arrays
that are updated in place start from those.
"""
from __future__ import annotations

from typing import Any

import numpy as np

from calque.core.program import Atom, Equation, Literal, Program, Var

_KINDS = ("map", "view", "fold")
_NAMES = frozenset(("gather", "iota", "concatenate", "bitcast_convert_type"))


def merged(p: Program) -> Program:
    """p without equations that an earlier one computes, too."""
    results = {o for o in p.outputs if isinstance(o, Var)}
    found: dict[Any, tuple[Var, ...]] = {}
    env: dict[Atom, Atom] = {}
    equations = []
    for e in p.equations:
        e = e.reading(env)
        key = _key(e) if results.isdisjoint(e.outputs) else None
        if key in found:
            env.update(zip(e.outputs, found[key]))
            continue
        if key is not None:
            found[key] = e.outputs
        equations.append(e)
    return p if len(equations) == len(p.equations) else p.replace(equations=equations)


def _key(e: Equation) -> Any:
    """Equal for equations that compute the same; None of what stays."""
    p = e.primitive
    if not (p.kernel in _KINDS or p.name in _NAMES) or p.has_effects(e.params) or (
            p.name == "broadcast_in_dim" and not e.inputs[0].aval.shape):
        return None
    return (p, *[_atom(a) for a in e.inputs], tuple(o.aval for o in e.outputs),
            frozenset(e.params_key))


def _atom(a: Atom) -> Any:
    return ("literal", a.aval, np.asarray(a.value).tobytes()) if isinstance(a, Literal) else a


__all__ = ["merged"]
