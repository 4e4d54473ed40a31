"""Loops that fall into one loop per element: all values are vectors in registers, and a vector's
loop ends when its last element is done.  Start reading at `step_through`.
"""
from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from calque.core.program import Equation, Literal, Program
from calque.lowering import mlir
from calque.lowering.builder import Value
from calque.lowering.kernels import memory
from calque.lowering.kernels.memory import Index, Memory
from calque.lowering.kernels.tensors import apply
from calque.lowering.kernels.values import KernelBuilder


def run(b: KernelBuilder, p: Program, args: Sequence[Value]) -> list[Value]:
    """The outputs of a Program of elementwise equations, every value a vector of b's lanes."""
    env: dict[Any, Value] = dict(zip(p.inputs, args, strict=True))

    def read(a: Any) -> Value:
        if isinstance(a, Literal):
            return b.splat(a.value, (), a.aval.dtype)
        return env[a]

    for e in p.equations:
        name, values = e.primitive.name, [read(a) for a in e.inputs]
        if name == "jit":
            outs = run(b, e.params["jaxpr"], values)
        elif name == "broadcast_in_dim":
            outs = values
        elif name in ("scan", "while"):
            outs = _registers(b, e, values)
        else:
            outs = [apply(b, e, values)]
        env.update(zip(e.outputs, outs, strict=True))
    return [read(o) for o in p.outputs]


def _registers(b: KernelBuilder, e: Equation, values: Sequence[Value]) -> list[Value]:
    """A loop within a loop: what it stacks has nowhere to go, so there may be none of it."""
    if e.primitive.name == "while":
        return loop_while(b, e.params, values)
    n, k = e.params["num_consts"], e.params["num_consts"] + e.params["num_carry"]
    body: Program = e.params["jaxpr"]
    return loop_for(b, e.params["length"], values[n:k], lambda i, carry: run(
        b, body, [*values[:n], *carry]))


def loop_for(b: KernelBuilder, length: int, carry: Sequence[Value],
             step: Callable[[Index, list[Value]], Sequence[Value]]) -> list[Value]:
    """A counted loop over vectors."""
    def body(i: Index, *raw: Any) -> list[Any]:
        now = [Value(b, r, (), c.dtype) for r, c in zip(raw, carry)]
        return [v.ir for v in step(i, now)]

    outs = memory.loop(length, body, [c.ir for c in carry])
    return [Value(b, r, (), c.dtype) for r, c in zip(outs, carry)]


def loop_while(b: KernelBuilder, params: dict[str, Any], values: Sequence[Value]) -> list[Value]:
    """A loop whose end the data decides; an element whose predicate is false keeps its values."""
    cond, body = params["cond_jaxpr"], params["body_jaxpr"]
    k = params["cond_nconsts"]
    n = k + params["body_nconsts"]
    return b.loop(lambda *carry: run(b, cond, [*values[:k], *carry])[0],
                  lambda *carry: run(b, body, [*values[k:n], *carry]), values[n:])


def step_through(b: KernelBuilder, e: Equation, sources: Sequence[Memory],
                 carries: Sequence[Memory], stacked: Sequence[Memory], at: Index) -> None:
    """The whole loop for the elements at..at + lanes; memories are flat, one element or row."""
    def get(m: Memory, i: Index) -> Value:
        return memory.load(b, m, [i])

    p = e.params
    if e.primitive.name == "while":
        outs = loop_while(b, p, [get(m, at) for m in sources])
    else:
        n, k = p["num_consts"], p["num_consts"] + p["num_carry"]
        consts = [get(m, at) for m in sources[:n]]
        length, body = p["length"], p["jaxpr"]

        def step(i: Index, carry: list[Value]) -> list[Value]:
            t = i if not p["reverse"] else back(length, i)
            rows = [get(_row(m, t), at) for m in sources[k:]]
            outs = run(b, body, [*consts, *carry, *rows])
            for y, m in zip(outs[len(carry):], stacked):
                put(b, y, _row(m, t), at)
            return outs[:len(carry)]

        outs = loop_for(b, length, [get(m, at) for m in sources[n:k]], step)
    for x, m in zip(outs, carries):
        put(b, x, m, at)


def put(b: KernelBuilder, x: Value, m: Memory, at: Index) -> None:
    """Store lanes; what is one number for all elements comes from the first lane."""
    if m.strides[-1] == 1 or b.lanes == 1:
        memory.store(b, x, m, [at])
        return
    ir = mlir.ir()
    from calque.lowering.kernels.values import SCALAR
    first = memory.operation("vector.extract", [SCALAR.type_of(x.dtype)], [x.ir], {
        "static_position": ir.Attribute.parse("array<i64: 0>")}).results[0]
    memory.store(SCALAR, Value(SCALAR, first, (), x.dtype), m, [at])


def _row(m: Memory, t: Index) -> Memory:
    """Row t of stacked values: shape (steps, elements)."""
    return m.view(m.shape[1:], m.strides[1:], memory.times(t, m.strides[0]))


def back(length: int, i: Index) -> Index:
    if isinstance(i, int):
        return length - 1 - i
    return memory.operation("arith.subi", [memory.index_type()],
                            [memory.index(length - 1), i]).results[0]


