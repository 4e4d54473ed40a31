"""Sums over devices of what each multiplied: one product whose contraction runs over devices, too.

Batched, the gradient of replicated weights is a product for each device and then their sum; an
array of as many gradients as devices would be written and read for it.  So of the Program that a
shard_map becomes, a sum over batch dimensions of a product is that product with these dimensions
contracted, and a sum of a sum is one sum.  Start reading at `merged`.
"""
from __future__ import annotations

from collections import Counter
from typing import Any

from calque.core.avals import ShapedArray
from calque.core.primitive import registry
from calque.core.program import Equation, Program, Var, eliminate_dead_code


def merged(p: Program) -> Program:
    """p with sums of products, and of sums, taken together."""
    uses = Counter(a for e in p.equations for a in e.inputs if isinstance(a, Var))
    uses.update(o for o in p.outputs if isinstance(o, Var))
    made: dict[Any, Equation] = {}
    equations: list[Equation] = []
    for e in p.equations:
        new = [e]
        if e.name == "reduce_sum":
            new = _of_sum(e, made, uses) or _of_product(e, made, uses) or new
        for n in new:
            equations.append(n)
            made.update((v, n) for v in n.outputs)
            uses.update({v: 1 for v in n.outputs if v not in uses})
    return eliminate_dead_code(p.replace(equations=equations))


def _of_sum(e: Equation, made: dict[Any, Equation], uses: Counter[Any]) -> list[Equation]:
    before = made.get(e.inputs[0])
    if before is None or before.name != "reduce_sum" or uses[e.inputs[0]] != 1:
        return []
    inner = set(before.params["axes"])
    left = [d for d in range(before.inputs[0].aval.ndim) if d not in inner]
    axes = tuple(sorted(inner | {left[d] for d in e.params["axes"]}))
    return [e.replace(inputs=before.inputs, params={**e.params, "axes": axes})]


def _of_product(e: Equation, made: dict[Any, Equation], uses: Counter[Any]) -> list[Equation]:
    """The product with its batch dimensions in the axes contracted, turned as the operand is."""
    value, axes = e.inputs[0], list(e.params["axes"])
    order = list(range(value.aval.ndim))  # dimensions of the operand as those of the product
    while (source := made.get(value)) is not None and uses[value] == 1:
        if source.name == "transpose":
            order = [source.params["permutation"][d] for d in order]
            value = source.inputs[0]
            continue
        break
    if source is None or source.name != "dot_general" or uses[value] != 1:
        return []
    (lc, rc), (lb, rb) = source.params["dimension_numbers"]
    summed = [order[d] for d in axes]
    if not summed or any(d >= len(lb) for d in summed):
        return []
    kept = [i for i in range(len(lb)) if i not in summed]
    numbers = ((*[lb[i] for i in summed], *lc), (*[rb[i] for i in summed], *rc)), (
        tuple(lb[i] for i in kept), tuple(rb[i] for i in kept))
    old = source.outputs[0].aval
    rest = [d for d in range(old.ndim) if d not in summed]
    product = Var(ShapedArray(tuple(old.shape[d] for d in rest), old.dtype, old.weak_type))
    turn = tuple(rest.index(d) for d in order if d not in summed)
    if turn == tuple(range(len(turn))):
        return [source.replace(outputs=e.outputs, params={
            **source.params, "dimension_numbers": numbers})]
    return [source.replace(outputs=(product,), params={
        **source.params, "dimension_numbers": numbers}),
        e.replace(primitive=registry["transpose"], inputs=(product,),
                  params={"permutation": turn})]


__all__ = ["merged"]
