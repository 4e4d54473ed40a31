"""Primitives of clients become calls of what they compute, before loops and costs are judged.

What such a function captures is an equation without operands, `const`, so that the rest of the
Program keeps its arguments.  One whose lowering is written in MLIR stays (rules/client).
Start reading at `expanded`.
"""
from __future__ import annotations

from typing import Any

import numpy as np

from calque.core import dtypes
from calque.core.avals import ShapedArray
from calque.core.errors import explain
from calque.core.primitive import Primitive, registry
from calque.core.program import Equation, Program
from calque.core.types import Ndarray
from calque.lowering.passes.narrow import same_byte_p

const_p = Primitive("const", memory="fresh", keys=True, client=True)


class Held:
    """An array as a parameter: equal to itself only."""

    __slots__ = ("value", "aval")

    def __init__(self, value: Any, aval: ShapedArray) -> None:
        self.value, self.aval = value, aval

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Ndarray:
        return np.asarray(self.value, dtype)


def _abstract(*, value: Held) -> ShapedArray:
    return value.aval.plain


const_p.abstract = _abstract


def closed_by_constants(p: Program) -> Program:
    """p with its consts as literals (numbers) and equations (arrays)."""
    numbers = {v: np.asarray(c) for v, c in zip(p.const_vars, p.consts)
               if not v.aval.shape and not dtypes.is_key(v.aval.dtype)}
    p = p.with_numbers(numbers) if numbers else p
    if not p.const_vars:
        return p
    held = [Equation(const_p, (), (v,), {"value": Held(c, v.aval)})
            for v, c in zip(p.const_vars, p.consts)]
    return Program(p.inputs, (*held, *p.equations), p.outputs, name=p.name)


def expanded(e: Equation) -> Equation:
    """A client's equation as a call of its Program; itself where it is lowered in MLIR."""
    prim: Any = e.primitive
    if prim is const_p or prim is same_byte_p:
        return e
    if prim.program is None:
        if prim.lowering is not None:
            return e
        raise NotImplementedError(explain(
            f"MLIR translation rule for primitive '{prim.name}' not found",
            where=str(e.source),
            fix=f"register one: mlir.register_lowering({prim.name}_p, mlir.lower_fun(function))."))
    p = prim.program(*[a.aval.plain for a in e.inputs], **e.params)
    have = [(o.aval.shape, o.aval.dtype) for o in p.outputs]
    want = [(o.aval.shape, o.aval.dtype) for o in e.outputs]
    if have != want:
        raise TypeError(explain(
            f"{prim.name}: its lowering gives {[o.aval.short() for o in p.outputs]}, its abstract "
            f"evaluation says {[o.aval.short() for o in e.outputs]}.", where=str(e.source),
            fix="let both give the same shapes and dtypes."))
    return e.replace(primitive=registry["jit"], params={
        "jaxpr": closed_by_constants(p), "name": str(prim.name)})


def is_const(e: Equation) -> bool:
    return e.primitive is const_p


__all__ = ["closed_by_constants", "const_p", "expanded", "is_const"]
