"""Sorts of unsigned keys as kernels: what primitives/outside leaves of a sort, of which the
positions alone are read, is a call that says so (params "rows").  Start at `with_orders`.
"""
from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from calque.core.avals import ShapedArray
from calque.core.primitive import registry
from calque.core.program import Atom, Equation, Program, Var, eliminate_dead_code

INT = np.dtype("int32")


@dataclass(frozen=True, slots=True)
class Order:
    """Marks a call that gives the first k positions of rows of keys in ascending order."""

    k: int


def with_orders(p: Program) -> Program:
    """p with sorts, and top_k, of rows of unsigned keys as calls of a kernel."""
    if p.names().isdisjoint(("sort", "top_k")) or not any(map(is_of_keys, p.equations)):
        return p
    made: dict[Atom, Equation] = {v: e for e in p.equations for v in e.outputs}
    read = {a for e in p.equations for a in e.inputs} | set(p.outputs)
    return eliminate_dead_code(p.replace(equations=[
        q for e in p.equations for q in _as_call(e, made, read)]))


def is_of_keys(e: Equation) -> bool:
    """Whether an equation sorts positions by rows of unsigned keys, or finds the greatest."""
    if e.name not in ("sort", "top_k"):
        return False
    *keys, last = [a.aval for a in e.inputs]
    if e.name == "top_k":
        return bool(e.params["axis"] == 1 and last.ndim == 2 and last.dtype.kind == "u")
    return bool(keys) and last.ndim == 2 and last.dtype == INT and all(
        a.dtype.kind == "u" for a in keys) and (
            e.params["dimension"], e.params["num_keys"]) == (1, len(keys))


def _as_call(e: Equation, made: dict[Atom, Equation], read: set[Atom]) -> list[Equation]:
    if not is_of_keys(e) or any(v in read for v in e.outputs[:-1]):
        return [e]
    first = e.inputs[0].aval
    if e.name == "top_k":
        falling = Var(first)
        return [Equation(registry["not"], e.inputs, (falling,), {}, e.source, e.scope),
                _call([falling], first.shape, e.params["k"], e.outputs[1], e)]
    *keys, at = e.inputs
    count = made.get(at)
    if count is None or count.name != "iota" or count.params["dimension"] != 1:
        return [e]
    return [_call(keys, first.shape, first.shape[1], e.outputs[-1], e)]


def _call(keys: Sequence[Atom], shape: Sequence[int], k: int, out: Var, e: Equation) -> Equation:
    """The call, with a Program that says what it gives."""
    inputs = [Var(a.aval) for a in keys]
    positions = ShapedArray(tuple(shape), INT)
    at, order = Var(positions), Var(positions)
    steps: list[Any] = [
        Equation(registry["iota"], (), (at,), {"dtype": INT, "shape": tuple(shape), "dimension": 1,
                                                "sharding": None}),
        Equation(registry["sort"], (*inputs, at), (*[Var(a.aval) for a in keys], order), {
            "dimension": 1, "is_stable": True, "num_keys": len(inputs)})]
    if k < shape[1]:
        cut = Var(out.aval)
        steps.append(Equation(registry["slice"], (order,), (cut,), {
            "start_indices": (0, 0), "limit_indices": (shape[0], k), "strides": None}))
        order = cut
    inner = Program(inputs, steps, [order], name="order")
    return Equation(registry["jit"], tuple(keys), (out,), {
        "jaxpr": inner, "name": "order", "rows": Order(k)}, e.source, e.scope)


__all__ = ["Order", "is_of_keys", "with_orders"]
