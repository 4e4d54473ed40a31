"""sharding_constraint: a value as it is, said to be spread over devices in some way; and
inspect_sharding: a function is told what propagation chose.

In one process neither moves anything: the first pins what transforms/propagate may choose.
"""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from calque.core.avals import ShapedArray
from calque.core.primitive import Primitive
from calque.core.program import Program, Var
from calque.core.sharding import NamedSharding, PartitionSpec, Sharding
from calque.core.zeros import is_zero

sharding_constraint_p = Primitive("sharding_constraint")


def constrain(x: Any, sharding: Sharding) -> Any:
    return sharding_constraint_p.bind(x, sharding=sharding)


def _batch(size: int, args: Sequence[Any], dims: Sequence[Any], *, sharding: Sharding) -> Any:
    d = dims[0]
    if isinstance(sharding, NamedSharding) and d < len(sharding.spec):
        spec = sharding.spec
        sharding = NamedSharding(sharding.mesh, PartitionSpec(
            *spec[:d], PartitionSpec.UNCONSTRAINED, *spec[d:]))
    return constrain(args[0], sharding), d


sharding_constraint_p.abstract = lambda x, *, sharding: x
sharding_constraint_p.jvp = lambda primals, tangents, *, sharding: (
    constrain(primals[0], sharding),
    tangents[0] if is_zero(tangents[0]) else constrain(tangents[0], sharding))
sharding_constraint_p.transpose = lambda ct, x, *, sharding: [constrain(ct, sharding)]
sharding_constraint_p.batch = _batch


def _nothing(*avals: ShapedArray, **_: Any) -> Program:
    inputs = [Var(a) for a in avals]
    return Program(inputs, [], inputs)


sharding_constraint_p.program = _nothing

inspect_sharding_p = Primitive("inspect_sharding", multiple_results=True, differentiable=False,
                               effects=lambda params: True)
inspect_sharding_p.program = lambda x, **_: Program([Var(x)], [], [])
inspect_sharding_p.abstract = lambda x, *, callback: []
inspect_sharding_p.batch = lambda size, args, dims, *, callback: (
    inspect_sharding_p.bind(args[0], callback=callback), [])
