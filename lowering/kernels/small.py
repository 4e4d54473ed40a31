"""Small moves around kernels of ours: as StableHLO, or a kernel where IREE is to get nothing.

Start reading at `made`.
"""
from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from calque.core.avals import ShapedArray
from calque.core.primitive import registry
from calque.core.program import Equation, Literal, Program, Var
from calque.core.types import Dtype, Shape
from calque.lowering.emit.builder import Value
from calque.lowering.emit.context import Context
from calque.lowering.passes.panels import Panels
from calque.lowering.passes.remainder import WHOLE


class Steps:
    """The equations of a Program, one after the other."""

    def __init__(self, xs: Sequence[Value]) -> None:
        self.inputs = [Var(ShapedArray(x.shape, x.dtype)) for x in xs]
        self.equations: list[Equation] = []

    def put(self, name: str, xs: Sequence[Var | Literal], shape: Sequence[int], dtype: Dtype,
            **params: Any) -> Var:
        """The result of one more."""
        made = Var(ShapedArray(tuple(shape), dtype))
        self.equations.append(Equation(registry[name], tuple(xs), (made,), params))
        return made

    def reshaped(self, x: Var, shape: Shape) -> Var:
        return self.put("reshape", [x], shape, x.aval.dtype, new_sizes=tuple(shape),
                        dimensions=None, sharding=None)


def made(ctx: Context, xs: Sequence[Value], steps: Steps, results: Sequence[Var]) -> list[Value]:
    """The results of equations on xs, as one kernel."""
    inner = Program(steps.inputs, steps.equations, list(results), name="whole")
    outs = tuple(Var(v.aval) for v in results)
    inputs = [Var(v.aval) for v in steps.inputs]
    call = Equation(registry["jit"], tuple(inputs), outs, {
        "jaxpr": inner, "name": "whole", "rows": WHOLE})
    return ctx.emit_program(Program(inputs, [call], list(outs)), xs)


def joined(ctx: Context, xs: Sequence[Value]) -> Value:
    """The elements of xs one after another."""
    if len(xs) == 1:
        return xs[0]
    if not ctx.closing:
        return ctx.b.concatenate([ctx.b.reshape(x, (math.prod(x.shape),)) for x in xs], 0)
    steps = Steps(xs)
    sizes = [math.prod(x.shape) for x in xs]
    rows = [steps.reshaped(v, (n,)) for v, n in zip(steps.inputs, sizes)]
    return made(ctx, xs, steps, [steps.put("concatenate", rows, (sum(sizes),), xs[0].dtype,
                                           dimension=0)])[0]


def apart(ctx: Context, x: Value, shapes: Sequence[Shape]) -> list[Value]:
    """The arrays of these shapes that x has the elements of."""
    if len(shapes) == 1:
        return [x]
    ends = [0]
    for shape in shapes:
        ends.append(ends[-1] + math.prod(shape))
    if not ctx.closing:
        return [ctx.b.reshape(ctx.b.slice(x, [a], [b]), shape)
                for shape, a, b in zip(shapes, ends, ends[1:])]
    steps = Steps([x])
    return made(ctx, [x], steps, [steps.reshaped(steps.put(
        "slice", steps.inputs, (b - a,), x.dtype, start_indices=(a,), limit_indices=(b,),
        strides=None), shape) for shape, a, b in zip(shapes, ends, ends[1:])])


def panelled(ctx: Context, x: Value, p: Panels) -> Value:
    """A matrix as a loop reads it (passes/panels)."""
    count = math.prod(x.shape) // p.depth
    grid = (p.depth, p.padded // p.width, p.width)
    if not ctx.closing:
        b = ctx.b
        x = b.convert(b.reshape(b.transpose(x, p.order), (p.depth, count)), p.dtype)
        x = b.pad(x, 0, [(0, 0, 0), (0, p.padded - count, 0)])
        return b.transpose(b.reshape(x, grid), (1, 0, 2))
    steps = Steps([x])
    (v,) = steps.inputs
    if p.order != tuple(range(x.ndim)):
        v = steps.put("transpose", [v], [x.shape[i] for i in p.order], x.dtype, permutation=p.order)
    if x.dtype != p.dtype:
        v = steps.put("convert_element_type", [v], v.aval.shape, p.dtype, new_dtype=p.dtype,
                      weak_type=False, sharding=None)
    v = steps.reshaped(v, (p.depth, count))
    if p.padded != count:
        zero = Literal(p.dtype.type(0), ShapedArray((), p.dtype))
        v = steps.put("pad", [v, zero], (p.depth, p.padded), p.dtype,
                      padding_config=((0, 0, 0), (0, p.padded - count, 0)))
    v = steps.reshaped(v, grid)
    order = (1, 0, 2)
    return made(ctx, [x], steps, [steps.put("transpose", [v], [grid[i] for i in order], p.dtype,
                                            permutation=order)])[0]
