"""Equations that compute the same, as one: four positions of `interp` that each are brought into
range, what is written twice, a function that several derivatives take of one point.

IREE finds them by itself, within what it fuses; kernels of ours, products and what is computed
before a loop would be computed as often as they are written.  Results stay apart, and so does what
is spread of a number for what may write into it: arrays that are updated in place start from those.
What `checkpoint` computes a second time is in a Program of its own, so it stays.
"""
from __future__ import annotations

from typing import Any

import numpy as np

from calque.core.program import Atom, Equation, Literal, Program, Var
from calque.lowering.passes.masks import with_choices

_KINDS = ("map", "view", "fold")
_NAMES = frozenset((
    "gather", "iota", "concatenate", "bitcast_convert_type", "dot_general", "conv_general_dilated",
    "argmax", "argmin", "sort", "cumsum", "cumprod", "cummax", "cummin", "cumlogsumexp", "fft",
    "cholesky", "triangular_solve"))


def merged(p: Program) -> Program:
    """p without equations that an earlier one computes, too."""
    results = {o for o in p.outputs if isinstance(o, Var)}
    apart = {a for e in p.equations if not _is_pure(e) for a in e.inputs}
    found: dict[Any, tuple[Var, ...]] = {}
    env: dict[Atom, Atom] = {}
    equations = []
    for e in p.equations:
        inputs = tuple(env.get(a, a) for a in e.inputs)
        if inputs != e.inputs:
            e = e.replace(inputs=inputs)
        key = None if not results.isdisjoint(e.outputs) or _is_spread(e) and (
            e.outputs[0] in apart) else _key(e)
        if key in found:
            env.update(zip(e.outputs, found[key]))
            continue
        if key is not None:
            found[key] = e.outputs
        equations.append(e)
    return p if len(equations) == len(p.equations) else p.replace(equations=equations)


def simplified(p: Program) -> Program:
    """p, and every Program that it holds, so merged, products with masks being choices."""
    return _within(with_choices(p))


def _within(p: Program) -> Program:
    return p.derived("same", lambda: merged(_inner(p)))


def _inner(p: Program) -> Program:
    equations = [e.with_inner(_within) for e in p.equations]
    same = all(a is b for a, b in zip(equations, p.equations))
    return p if same else p.replace(equations=equations)


def _key(e: Equation) -> Any:
    """Equal for equations that compute the same; None of what stays."""
    p = e.primitive
    if not _is_pure(e):
        return None
    return (p, *[_atom(a) for a in e.inputs], tuple(o.aval for o in e.outputs),
            frozenset(e.params_key))


def _is_spread(e: Equation) -> bool:
    return e.name == "broadcast_in_dim" and not e.inputs[0].aval.shape


def _is_pure(e: Equation) -> bool:
    """Whether an equation, and all that it calls, computes numbers and nothing else."""
    p = e.primitive
    if p.has_effects(e.params):
        return False
    if p.name == "jit":
        q: Program = e.params["jaxpr"]
        return q.derived("pure", lambda: all(map(_is_pure, q.equations)))
    return p.kernel in _KINDS or p.name in _NAMES


def _atom(a: Atom) -> Any:
    return ("literal", a.aval, np.asarray(a.value).tobytes()) if isinstance(a, Literal) else a


__all__ = ["merged", "simplified"]
