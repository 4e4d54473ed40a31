"""Elementwise Programs for every shape: one compiled program for arrays of any size.

Operands of elementwise primitives have one shape or rank 0, so such a Program does not care how its
elements are arranged: `flatten` gives it one axis of unknown size, SIZE.
`lower_flat` emits any number of them as entry points of one module.  Each result is written into
memory that the caller passes behind the operands.
"""
from __future__ import annotations

import hashlib
import io
from collections.abc import Sequence
from typing import Any

from calque.core import monitoring
from calque.core.avals import ShapedArray
from calque.core.dimension import variable
from calque.core.dims import SymbolicScope
from calque.core.dtypes import is_key
from calque.core.primitive import Primitive
from calque.core.program import Atom, Equation, Literal, Program, Var
from calque.core.types import Shape
from calque.lowering.driver.module import Emitter
from calque.lowering.emit import mlir
from calque.lowering.emit.builder import Builder, Value
from calque.lowering.emit.dynamic import DynamicBuilder
from calque.lowering.emit.fusion import BINDINGS
from calque.lowering.emit.sizes import Sizes, dimension
from calque.lowering.passes.narrow import has_small, over_bytes
from calque.lowering.target.targets import Target

SIZE = variable("n", SymbolicScope())


def is_flat(p: Primitive) -> bool:
    """Whether a primitive works element by element (the result of stop_gradient is its operand:
    there is nothing to run)."""
    return p.elementwise and p.name != "stop_gradient"


def flat_aval(aval: ShapedArray, scalar: bool) -> ShapedArray:
    """The abstract value with one axis of unknown size; rank 0 if `scalar`."""
    return ShapedArray(() if scalar else (SIZE,), aval.dtype)


def flatten(p: Program) -> Program | None:
    """The Program for arrays of any size, None where it is not elementwise over one shape.

    A Program over scalars only becomes one over arrays, of one element each.
    """
    if any(not is_flat(e.primitive) and not _spreads(e) for e in p.equations):
        return None
    atoms = [*p.const_vars, *p.inputs, *p.outputs, *(v for e in p.equations for v in e.outputs)]
    full = {a.aval.shape for a in atoms} - {()}
    lifted = not full  # scalars only
    if lifted and any(_spreads(e) or all(isinstance(a, Literal) for a in _shaped(e))
                      for e in p.equations):
        return None
    if len(p.const_vars) + len(p.inputs) + len(p.outputs) > BINDINGS:
        return None
    if (len(full) > 1 or any(is_key(a.aval.dtype) or not a.aval.size for a in atoms)
            or not p.equations or not (p.inputs or p.const_vars)
            or any(isinstance(o, Literal) or (not o.aval.shape and not lifted)
                   for o in p.outputs)):
        return None
    env: dict[Var, Var] = {}

    def var(v: Var) -> Var:
        found = env.get(v)
        if found is None:
            found = env[v] = Var(flat_aval(v.aval, not lifted and v.aval.shape == ()))
        return found

    def atom(a: Atom) -> Atom:
        return a if isinstance(a, Literal) else var(a)

    inputs = [var(v) for v in (*p.const_vars, *p.inputs)]
    equations = [Equation(e.primitive, tuple(atom(a) for a in e.inputs),
                          tuple(var(v) for v in e.outputs),
                          {**e.params, "shape": (SIZE,)} if _spreads(e) else e.params,
                          e.source, e.scope)
                 for e in p.equations]
    return Program(inputs, equations, [atom(o) for o in p.outputs], name=p.name)


def _shaped(e: Equation) -> tuple[Atom, ...]:
    """The operands that give an equation its shape."""
    return e.inputs[1:] if e.name == "select_n" else e.inputs


def _spreads(e: Equation) -> bool:
    """Whether an equation gives a scalar a shape."""
    return e.name == "broadcast_in_dim" and not e.inputs[0].aval.shape


def entry_name(p: Program) -> str:
    """The name of a flat Program's entry point: the same program, the same name."""
    return "f" + hashlib.sha256(str(p).encode()).hexdigest()[:24]


class FlatBuilder(DynamicBuilder):
    """A Builder whose arrays have one axis, of SIZE."""

    emit = Builder.emit  # (each operand is computed: none is known to equal another)
    every: Any  # SIZE as tensor<1xindex>

    def measure(self, x: Value) -> None:
        """Take the size of x for all arrays."""
        self.extents = Sizes(None)
        self.extents.define(str(SIZE), dimension(x, 0), 1, 0)
        self.every = self.extents.vector((SIZE,))

    def splat(self, value: Any, shape: Shape, dtype: Any) -> Value:
        return self.broadcast(super().splat(value, (), dtype), shape, ())

    def full(self, value: Value, shape: Shape) -> Value:
        """One value everywhere: nothing is updated in place, so StableHLO's own form will do."""
        made = mlir.value("stablehlo.dynamic_broadcast_in_dim",
                          mlir.tensor_type(shape, value.dtype), [value.ir, self.every],
                          broadcast_dimensions="array<i64>")
        return Value(self, made, shape, value.dtype)


def lower_flat(programs: Sequence[tuple[str, Program]], target: Target) -> bytes:
    """A module of flat Programs, each under an entry point's name, as bytecode."""
    ir = mlir.ir()
    what = programs[0][1].name if len(programs) == 1 else "the eager pack"
    with monitoring.span(f"lower {what}", "lower", monitoring.LOWER, fun_name=f"jit({what})"), \
            mlir.context(), ir.Location.unknown():
        module = ir.Module.create()
        module.operation.attributes["sym_name"] = ir.StringAttr.get("calque_flat")
        for name, p in programs:
            _function(module, name, p, target)
        buffer = io.BytesIO()
        module.operation.write_bytecode(buffer)
    return buffer.getvalue()


def _function(module: Any, name: str, p: Program, target: Target) -> None:
    ir = mlir.ir()
    if has_small(p):
        p = over_bytes(p)

    def types(atoms: Sequence[Atom]) -> list[Any]:
        return [mlir.tensor_type(a.aval.shape, a.aval.dtype) for a in atoms]

    results = types(p.outputs)
    every = [*types(p.inputs), *results]
    index = ir.IndexType.get()
    with ir.InsertionPoint(module.body):
        func = ir.Operation.create("func.func", regions=1, attributes={
            "sym_name": ir.StringAttr.get(name),
            "function_type": ir.TypeAttr.get(ir.FunctionType.get(every, results)),
            "arg_attrs": ir.ArrayAttr.get([
                *[ir.DictAttr.get({})] * len(p.inputs),
                *[ir.DictAttr.get({"iree.abi.output": ir.IntegerAttr.get(index, i)})
                  for i in range(len(results))]])})
    block = func.regions[0].blocks.append(*every)
    with ir.InsertionPoint(block):
        emitter = Emitter(target, locations=False, in_process=True, builder=FlatBuilder)
        b = emitter.ctx.b
        assert isinstance(b, FlatBuilder)
        values = [Value(b, a, v.aval.shape, v.aval.dtype)
                  for a, v in zip(block.arguments, p.inputs)]
        storage = [Value(b, a, o.aval.shape, o.aval.dtype)
                   for a, o in zip(block.arguments[len(values):], p.outputs)]
        b.measure(next(v for v in (*values, *storage) if v.shape))
        for v in values:
            emitter.ctx.aliases.add_argument(v, protected=True)
        env = dict(zip(p.inputs, values))
        emitter.equations(p, env)
        ir.Operation.create("func.return", operands=[emitter.read(o, env).ir for o in p.outputs])
