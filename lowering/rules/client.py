"""Primitives of clients whose lowering is written in MLIR, and the arrays that others captured.

Start reading at `emitted`.
"""
from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from calque.core.avals import ShapedArray
from calque.core.errors import explain
from calque.core.primitive import Primitive
from calque.core.program import Program
from calque.core.types import Function
from calque.lowering.emit import mlir
from calque.lowering.emit.builder import Value
from calque.lowering.emit.context import Context
from calque.lowering.emit.registry import Op, Rule
from calque.lowering.passes.clients import closed_by_constants, const_p
from calque.lowering.passes.narrow import same_byte_p


@dataclass(frozen=True)
class LoweringParameters:
    """What a program is lowered for, as a client's rule is told.

    Attributes:
      for_export: whether it becomes a portable module (calque.export).
      hoist_constants_as_args: False: a rule's constants are the program's.
      export_ignore_forward_compatibility: False: modules are of an early version of StableHLO.

    Example:
      >>> from calque.lowering.rules.client import LoweringParameters
      >>> LoweringParameters().for_export
      False
    """

    for_export: bool = False
    hoist_constants_as_args: bool = False
    export_ignore_forward_compatibility: bool = False


class LoweringContext:
    """What a client's lowering rule gets: the types of operands and results, and the module.

    Attributes:
      avals_in, avals_out: ShapedArrays; primitive: whose rule runs; module: the MLIR module;
      lowering_parameters: what it is lowered for.

    Example:
      >>> from calque.interpreters import mlir
      >>> sorted(n for n in dir(mlir.LoweringRuleContext) if n.startswith("e"))
      ['emit']
    """

    lowering_parameters = LoweringParameters()

    def __init__(self, ctx: Context) -> None:
        self._ctx = ctx
        self.primitive = ctx.equation.primitive
        self.avals_in = [a.aval for a in ctx.equation.inputs]
        self.avals_out = [v.aval for v in ctx.equation.outputs]
        self.module = ctx.module
        self.platforms: tuple[str, ...] = ("cpu",) if ctx.cpu else ("cuda", "vulkan")

    @property
    def module_context(self) -> LoweringContext:
        """Itself: there is one context."""
        return self

    @property
    def add_keepalive(self) -> Any:
        """A function of what is to live as long as the program, which does nothing: what a program
        calls, it holds (equinox's noinline)."""
        return lambda held: None

    @property
    def context(self) -> Any:
        """MLIR's context."""
        return mlir.context()

    def emit(self, p: Program, operands: Sequence[Any]) -> list[Any]:
        """The MLIR values of a Program on MLIR values."""
        values = [_value(self._ctx, v, a) for v, a in zip(operands, p.in_avals)]
        for v in values:  # (whose memory it is, MLIR's values do not say)
            self._ctx.aliases.add_argument(v, protected=True)
        return [v.ir for v in self._ctx.emit_program(closed_by_constants(p), values)]

    @property
    def source(self) -> Any:
        """The user's line."""
        return self._ctx.equation.source

    def call(self, function: Any, operands: Sequence[Any], results: Sequence[Any]) -> list[Any]:
        """The MLIR values of a call of a func.func, which becomes part of the module."""
        ir, ctx = mlir.ir(), self._ctx
        ctx.functions += 1
        name = f"text_{ctx.functions}"
        given = [_value(ctx, v, a) for v, a in zip(operands, self.avals_in)]
        if re.search(r"\b(dynamic_update_slice|scatter)\b", str(function)):  # IREE writes in place
            given = [ctx.aliases.copy(v) if any(n != 1 for n in v.shape) else v for v in given]
        with ir.InsertionPoint.at_block_begin(ctx.module.body):
            made = function.clone()
        made.attributes["sym_name"] = ir.StringAttr.get(name)
        made.attributes["sym_visibility"] = ir.StringAttr.get("private")
        return list(ir.Operation.create(
            "func.call", results=list(results), operands=[v.ir for v in given],
            attributes={"callee": ir.FlatSymbolRefAttr.get(name)}).results)


def _value(ctx: Context, v: Any, aval: ShapedArray) -> Value:
    made = getattr(v, "result", v)  # an operation stands for its result
    return Value(ctx.b, made, tuple(aval.shape), np.dtype(aval.dtype))


def checked_types(prim: Primitive, made: Sequence[Any], outs: Sequence[ShapedArray],
                  where: str) -> None:
    """TypeError where a rule made values of other types than the abstract evaluation says."""
    want = [mlir.tensor_type(a.shape, a.dtype) for a in outs]
    if list(made) != want:
        raise TypeError(explain(
            f"{prim.name}: its lowering made values of types {', '.join(map(str, made)) or 'none'}"
            f", its abstract evaluation says {', '.join(map(str, want))}.", where=where,
            fix="let both give the same types."))


def emitted(prim: Primitive) -> Rule | None:
    """The rule of a client's primitive; None where it has none."""
    if not prim.client:
        return None
    rule: Function | None = getattr(prim, "lowering", None)

    def constant(op: Op) -> Value:
        made = op.b.constant(np.asarray(op["value"]).reshape(op.out.shape))
        op.ctx.constants.add(made)
        return made

    def run(op: Op) -> list[Value]:
        assert rule is not None
        with mlir.context(), mlir.ir().Location.unknown():
            made = rule(LoweringContext(op.ctx), *[x.ir for x in op.operands], **op.params)
        made = list(made) if isinstance(made, (list, tuple)) else [made]
        checked_types(prim, [getattr(v, "result", v).type for v in made], op.outs,
                      str(op.ctx.equation.source))
        return [_value(op.ctx, v, a) for v, a in zip(made, op.outs)]

    if prim is const_p:
        return constant
    if prim is same_byte_p:
        return lambda op: op.b.bitcast(op.x, op.out.dtype)
    return None if rule is None else run
