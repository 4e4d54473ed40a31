"""A Program that gives, compiled as a whole, the bits that its equations give one at a time.

Compiled as a whole, sums are taken in another order, and a product that is added becomes one
operation with one rounding (FMA), as in XLA: a result that was computed step by step would change
in its last bit when the Program takes over.  `exact` puts an optimization_barrier between such a
product and what adds it, and gives None where there is a sum.
"""
from __future__ import annotations

import math
from typing import Any

import numpy as np

from calque.core.program import Atom, Equation, Literal, Program, Var
from calque.primitives.generator import optimization_barrier_p

# results that are a part of their operands, or chosen of them
_MOVES = frozenset((
    "reshape", "broadcast_in_dim", "transpose", "squeeze", "slice", "rev", "concatenate", "gather",
    "dynamic_slice", "sort", "top_k", "select_n", "neg", "copy", "pad",
    "stop_gradient", "max", "min", "abs", "clamp", "reduce_max", "reduce_min", "real", "imag"))
# elementwise operations that end in no product
_ROUNDED = frozenset(("add", "sub", "div", "sqrt", "floor", "ceil", "round", "sign",
                      "convert_element_type", "bitcast_convert_type", "nextafter"))
# those that do not begin with a sum of an operand
_NO_SUMS = frozenset(("mul", "div", "sqrt", "floor", "ceil", "round", "sign", "exp", "log", "eq",
                      "ne", "lt", "le", "gt", "ge", "is_finite", "convert_element_type",
                      "bitcast_convert_type", "square", "integer_pow", "nextafter"))


def exact(p: Program) -> Program | None:
    """p with the bits of one equation after the other, also when all of it is compiled; or None."""
    products: set[Var] = set()  # what may be a product that is not rounded yet
    known: dict[Var, Any] = {v: np.asarray(c) for v, c in zip(p.const_vars, p.consts)
                             if not v.aval.shape and _is_float(v)}
    rounded: dict[Atom, Var] = {}  # products behind a barrier
    equations: list[Equation] = []
    for e in p.equations:
        inputs = [rounded.get(a, a) if isinstance(a, Var) else a for a in e.inputs]
        changed = e.replace(inputs=tuple(inputs))
        if not _follow(changed, products, known):
            held = [a for a in dict.fromkeys(inputs) if isinstance(a, Var) and a in products]
            for a in held:
                rounded[a] = Var(a.aval)
                equations.append(Equation(optimization_barrier_p, (a,), (rounded[a],), {},
                                          e.source, e.scope))
            changed = e.replace(inputs=tuple(
                rounded.get(a, a) if isinstance(a, Var) else a for a in inputs))
            if not held or not _follow(changed, products, known):
                return None
        equations.append(changed)
    return Program(p.inputs, equations, p.outputs, p.const_vars, p.consts, p.name)


def _follow(e: Equation, products: set[Var], known: dict[Var, Any]) -> bool:
    """Whether an equation is exact; its products and known numbers are noted then."""
    if e.primitive.higher_order:
        return False
    if not any(map(_is_float, e.outputs)):
        return True
    values = [a.value if isinstance(a, Literal) else known.get(a) for a in e.inputs]
    held = any(isinstance(a, Var) and a in products for a in e.inputs)
    if e.name == "sub" and not e.outputs[0].aval.shape and None not in values:
        first, second = map(np.asarray, values)
        known[e.outputs[0]] = (first - second).astype(e.outputs[0].aval.dtype)
        return True
    converted = e.name == "convert_element_type" and (
        e.inputs[0].aval.dtype == e.outputs[0].aval.dtype)  # (weak types alone)
    if e.name in _MOVES or converted:
        if held:
            products.update(e.outputs)
        return True
    if held and e.name not in _NO_SUMS:
        return False
    if e.name in _ROUNDED:
        return True
    if not e.primitive.elementwise or e.outputs[0].aval.dtype.kind == "c":
        return False
    if e.name != "mul" or not any(map(_is_power_of_two, values)):
        products.update(e.outputs)
    return True


def _is_float(a: Atom) -> bool:
    return getattr(a.aval.dtype, "kind", "") in ("f", "c", "V")


def _is_power_of_two(value: Any) -> bool:
    if value is None or np.ndim(value):
        return False
    number = abs(float(value))
    return 0 < number < math.inf and math.frexp(number)[0] == 0.5
