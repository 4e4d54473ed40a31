"""Arrays without elements, taken out of Programs: a state space model without inputs multiplies a
matrix of (n, 0), physics without contacts concatenates none.

What they come to is known: zeros of products, the other operands of a concatenation.  Loops do not
carry them, since a kernel has no place for them (the host would step through the loop).  Where a
Program's result is such an array, it stays.
Start reading at `without_empty`.
"""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from calque.core import dtypes
from calque.core.avals import ShapedArray
from calque.core.primitive import registry
from calque.core.program import (
    Atom,
    Equation,
    Literal,
    Program,
    Var,
    eliminate_dead_code,
)

_OF_NOTHING = {"dot_general": 0, "reduce_sum": 0, "reduce_or": 0, "reduce_xor": 0,
               "reduce_prod": 1, "reduce_and": -1}


def is_empty(aval: ShapedArray) -> bool:
    """Whether a type has no elements, and a number can be spread in its place."""
    return any(isinstance(n, int) and n == 0 for n in aval.shape) and not (
        dtypes.is_key(aval.dtype) or aval.dtype == dtypes.float0)


def without_empty(p: Program) -> Program:
    """p without arrays that have no elements, at any depth; p itself where there are none."""
    return p.derived("without empty", lambda: _taken_out(p) if _has(p) else p)


def _has(p: Program) -> bool:
    return p.derived("has empty", lambda: any(
        any(is_empty(a.aval) for a in (*e.inputs, *e.outputs)) or any(map(_has, e.inner))
        for e in p.equations))


def _taken_out(p: Program) -> Program:
    env: dict[Atom, Atom] = {}
    made: list[Equation] = []
    for e in p.equations:
        e = e.reading(env).with_inner(without_empty)
        if e.primitive.has_effects(e.params):
            made.append(e)
        elif e.outputs and all(is_empty(o.aval) for o in e.outputs):
            made += [_spread(0, o, e) for o in e.outputs]
        elif e.name in _OF_NOTHING and is_empty(e.inputs[0].aval):
            made.append(_spread(_OF_NOTHING[e.name], e.outputs[0], e))
        elif e.name == "concatenate":
            full = tuple(a for a in e.inputs if not is_empty(a.aval))
            if len(full) == 1 and full[0].aval.shape == e.outputs[0].aval.shape:
                env[e.outputs[0]] = full[0]
            else:
                made.append(e.replace(inputs=full))
        elif e.name == "scan" and e.params["length"] == 0:
            start = e.inputs[e.params["num_consts"]:][:e.params["num_carry"]]
            env |= zip(e.outputs, start)
            made += [_spread(0, o, e) for o in e.outputs[len(start):]]
        elif e.name in ("scan", "while"):
            made += _loop(e)
        else:
            made.append(e)
    return eliminate_dead_code(p.replace(
        equations=made, outputs=tuple(env.get(o, o) for o in p.outputs)))


def _spread(value: int, o: Var, e: Equation) -> Equation:
    """A number in the place of what e gives o."""
    number = Literal(np.asarray(value).astype(o.aval.dtype), ShapedArray((), o.aval.dtype))
    return Equation(registry["broadcast_in_dim"], (number,), (o,), {
        "shape": o.aval.shape, "broadcast_dimensions": (), "sharding": None}, e.source, e.scope)


def _loop(e: Equation) -> list[Equation]:
    """A loop that takes, carries and gives none, and its results that are."""
    if e.name == "scan":
        body = e.params["jaxpr"]
        counts = [e.params["num_consts"], e.params["num_carry"]]
        kept = [not is_empty(v.aval) for v in body.inputs]
        outs = [not is_empty(o.aval) for o in body.outputs]
        params = {**e.params, "jaxpr": _with(body, kept, outs), "num_consts": sum(kept[:counts[0]]),
                  "num_carry": sum(kept[counts[0]:sum(counts)])}
    else:
        kept = [not is_empty(a.aval) for a in e.inputs]
        conds, bodies = e.params["cond_nconsts"], e.params["body_nconsts"]
        of_cond, of_body, carry = kept[:conds], kept[conds:conds + bodies], kept[conds + bodies:]
        outs = carry
        params = {
            **e.params, "cond_nconsts": sum(of_cond), "body_nconsts": sum(of_body),
            "cond_jaxpr": _with(e.params["cond_jaxpr"], [*of_cond, *carry], [True]),
            "body_jaxpr": _with(e.params["body_jaxpr"], [*of_body, *carry], carry)}
    if all(kept) and all(outs):
        return [e]
    loop = e.replace(params=params, inputs=_of(e.inputs, kept), outputs=_of(e.outputs, outs))
    return [loop, *[_spread(0, o, e) for o, keep in zip(e.outputs, outs) if not keep]]


def _with(p: Program, inputs: Sequence[bool], outputs: Sequence[bool]) -> Program:
    """A loop's Program with these inputs and outputs; the other inputs have no elements."""
    first = p.equations[0] if p.equations else None
    if first is None or all(inputs) and all(outputs):
        return p.replace(inputs=_of(p.inputs, inputs), outputs=_of(p.outputs, outputs))
    gone = [_spread(0, v, first) for v, keep in zip(p.inputs, inputs) if not keep]
    return eliminate_dead_code(p.replace(inputs=_of(p.inputs, inputs), equations=[
        *gone, *p.equations], outputs=_of(p.outputs, outputs)))


def _of(items: Sequence[Any], kept: Sequence[bool]) -> tuple[Any, ...]:
    return tuple(x for x, keep in zip(items, kept) if keep)


__all__ = ["is_empty", "without_empty"]
