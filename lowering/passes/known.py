"""Whole numbers that are known: what follows from literals alone is computed here.

`x % 97` asks whether 97 is 0 and below 0.  Asked when the program runs, its divisor would be a
number that is not known when it is compiled, and the division no multiplication.  What is sliced
at places that are known is a slice, and what is written there into zeros is padded.  An array of
one number stays one wherever it is moved: so are derivatives of sums.  What is multiplied by one,
as derivatives are, or added up along an axis of one element, is what it was.  Start reading at
`with_known`.
"""
from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from calque.core.avals import ShapedArray
from calque.core.primitive import registry
from calque.core.program import Atom, Equation, Literal, Program, Var
from calque.lowering.passes.scalars import KNOWN

_FOLDS = ("reduce_sum", "reduce_prod", "reduce_max", "reduce_min", "reduce_and", "reduce_or",
          "argmax", "argmin")
_MOVES = frozenset(("reshape", "squeeze", "transpose", "rev", "slice", "broadcast_in_dim", "copy",
                    "dynamic_slice", "concatenate", "pad"))


def with_known(p: Program) -> Program:
    """p without such equations, at any depth."""
    return p.derived("known", lambda: _with_known(p))


def _with_known(p: Program) -> Program:
    known: dict[Atom, Atom] = {}
    fills: dict[Atom, Atom] = {}  # arrays of one number
    results = set[Atom](p.outputs)
    equations = []
    for e in p.equations:
        if any(a in known for a in e.inputs):
            e = e.reading(known)
        value = None if results & set(e.outputs) else _value(e) or _unchanged(e, fills)
        if value is None:
            made = _static(e) or _moved(e, fills) or _padded(e, fills) or e.with_inner(with_known)
            if made.name == "broadcast_in_dim" and not made.inputs[0].aval.shape:
                fills[made.outputs[0]] = made.inputs[0]
            equations.append(made)
        else:
            known[e.outputs[0]] = value
    same = len(equations) == len(p.equations) and all(
        a is b for a, b in zip(equations, p.equations))
    return p if same else p.replace(equations=equations)


def _static(e: Equation) -> Equation | None:
    """A slice at known places, which groups read where it lies, of a dynamic one, and of a padding
    that only takes away (derivatives of paddings); the element, or its place, of a fold of one."""
    if e.name == "pad" and not e.is_dynamic and all(
            max(low, high, inside) <= 0 for low, high, inside in e.params["padding_config"]):
        config, sizes = e.params["padding_config"], e.inputs[0].aval.shape
        return Equation(registry["slice"], e.inputs[:1], e.outputs, {
            "start_indices": tuple(-low for low, _, _ in config), "strides": None,
            "limit_indices": tuple(n + high for n, (_, high, _) in zip(sizes, config))},
            e.source, e.scope)
    if e.name in _FOLDS and not e.is_dynamic and all(
            e.inputs[0].aval.shape[i] == 1 for i in e.params["axes"]):
        (out,) = e.outputs
        if e.name in _FOLDS[:6]:
            return Equation(registry["reshape"], e.inputs, e.outputs, {
                "new_sizes": out.aval.shape, "dimensions": None, "sharding": None},
                e.source, e.scope)
        zero = Literal(np.zeros((), out.aval.dtype)[()], ShapedArray((), out.aval.dtype))
        return Equation(registry["broadcast_in_dim"], (zero,), e.outputs, {
            "shape": out.aval.shape, "broadcast_dimensions": (), "sharding": None},
            e.source, e.scope)
    first = _places(e, 1, e.params["slice_sizes"]) if e.name == "dynamic_slice" else None
    if first is None:
        return None
    return Equation(registry["slice"], e.inputs[:1], e.outputs, {
        "start_indices": first, "strides": None,
        "limit_indices": tuple(i + k for i, k in zip(first, e.params["slice_sizes"]))},
        e.source, e.scope)


def _moved(e: Equation, fills: Mapping[Atom, Atom]) -> Equation | None:
    """What moves an array of one number makes one of it."""
    if e.name not in _MOVES or e.is_dynamic or e.inputs[0] not in fills:
        return None
    number = fills[e.inputs[0]]
    others = e.inputs[1:] if e.name in ("concatenate", "pad") else ()
    if not all(_is_same(number, fills.get(a, a)) for a in others) or e.outputs[0].aval.shape == ():
        return None
    return Equation(registry["broadcast_in_dim"], (number,), e.outputs, {
        "shape": e.outputs[0].aval.shape, "broadcast_dimensions": (), "sharding": None},
        e.source, e.scope)


def _unchanged(e: Equation, fills: Mapping[Atom, Atom]) -> Atom | None:
    """The operand that a product with one, or a quotient by it, is (of complex numbers, infinite
    parts become NaN), or that a slice takes all of."""
    out = e.outputs[0].aval if e.outputs else None
    if e.name == "slice" and not e.is_dynamic and out is not None:
        (a,) = e.inputs
        return a if a.aval.shape == out.shape and isinstance(a, Var) else None
    if e.name not in ("mul", "div") or out is None or out.dtype.kind not in "fiuV":
        return None
    for x, one in (e.inputs, e.inputs[::-1])[:2 if e.name == "mul" else 1]:
        number = fills.get(one, one)
        if isinstance(x, Var) and isinstance(number, Literal) and np.shape(number.value) == () and (
                number.value == 1) and (x.aval.shape, x.aval.dtype) == (out.shape, out.dtype):
            return x
    return None


def _is_same(a: Atom, b: Atom) -> bool:
    return a is b or isinstance(a, Literal) and isinstance(b, Literal) and (
        a.aval.dtype == b.aval.dtype and np.shape(b.value) == ()
        and np.asarray(a.value).tobytes() == np.asarray(b.value).tobytes())


def _padded(e: Equation, fills: Mapping[Atom, Atom]) -> Equation | None:
    """What is written into an array of one number, at known places, padded with it."""
    if e.name != "dynamic_update_slice" or not isinstance(fills.get(e.inputs[0]), Literal):
        return None
    (x, update), sizes = e.inputs[:2], e.inputs[1].aval.shape
    first = _places(e, 2, sizes)
    if first is None or not update.aval.size or not isinstance(update, Var):
        return None
    return Equation(registry["pad"], (update, fills[x]), e.outputs, {"padding_config": tuple(
        (i, n - i - k, 0) for i, n, k in zip(first, x.aval.shape, sizes))}, e.source, e.scope)


def _places(e: Equation, first: int, sizes: Sequence[int]) -> tuple[int, ...] | None:
    """Where a window begins, if that is known."""
    starts = [a for a in e.inputs[first:] if isinstance(a, Literal)]
    shape = e.inputs[0].aval.shape
    if len(starts) != len(shape) or not all(isinstance(n, int) for n in (*shape, *sizes)):
        return None
    return tuple(min(max(int(a.value), 0), n - k) for a, n, k in zip(starts, shape, sizes))


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
