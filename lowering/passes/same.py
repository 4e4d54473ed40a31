"""Equations that compute the same, as one: four positions of `interp` that each are brought into
range, what is written twice, a function that several derivatives take of one point.

IREE finds them by itself, within what it fuses; kernels of ours, products and what is computed
before a loop would be computed as often as they are written.  Results stay apart, and so does what
is spread of a number, though what reads it is one: kernels make it on the way, and arrays that are
updated in place start from it.  What `checkpoint` computes a second time is in a Program of its
own, so it stays.
"""
from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from calque.core.program import Atom, Equation, Literal, Program, Var, eliminate_dead_code

_KINDS = ("map", "view", "fold")
_NAMES = frozenset((
    "gather", "iota", "concatenate", "bitcast_convert_type", "dot_general", "conv_general_dilated",
    "argmax", "argmin", "sort", "cumsum", "cumprod", "cummax", "cummin", "cumlogsumexp", "fft",
    "cholesky", "triangular_solve"))


def merged(p: Program) -> Program:
    """p without equations that an earlier one computes, too."""
    results = {o for o in p.outputs if isinstance(o, Var)}
    found: dict[Any, tuple[Var, ...]] = {}
    env: dict[Atom, Atom] = {}
    spread: dict[Atom, Any] = {}
    equations = []
    for e in p.equations:
        e = e.reading(env)
        key = _key(e, spread) if results.isdisjoint(e.outputs) else None
        if key is not None and e.name == "broadcast_in_dim" and not e.inputs[0].aval.shape:
            spread[e.outputs[0]], key = key, None
        if key in found:
            env.update(zip(e.outputs, found[key]))
            continue
        if key is not None:
            found[key] = e.outputs
        equations.append(e)
    return p if len(equations) == len(p.equations) else eliminate_dead_code(
        p.replace(equations=equations))


def merged_within(p: Program) -> Program:
    """p, and every Program that it holds, so merged."""
    def write() -> Program:
        equations = [e.with_inner(merged_within) for e in p.equations]
        same = all(a is b for a, b in zip(equations, p.equations))
        return merged(p if same else p.replace(equations=equations))

    return p.derived("same", write)


def _key(e: Equation, spread: Mapping[Atom, Any]) -> Any:
    """Equal for equations that compute the same; None of what stays."""
    if not _is_pure(e):
        return None
    return (e.primitive, *[spread.get(a) or _atom(a) for a in e.inputs],
            tuple(o.aval for o in e.outputs),
            frozenset(e.params_key))


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


__all__ = ["merged", "merged_within"]
