"""sharding_constraint: a value as it is, said to be spread over devices in some way; shard_alike:
two, said to be spread alike; layout_constraint: said to lie in memory in some way; and
inspect_sharding: a function is told what propagation chose.

In one process none moves anything: the first pins what transforms/propagate may choose, the second
says how a result lies that is this value (dispatch/orders.py); outside of programs it moves arrays.
"""
from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from calque.core.avals import ShapedArray, aval_of
from calque.core.errors import explain
from calque.core.formats import Layout
from calque.core.mesh import AxisType, Mesh
from calque.core.primitive import Primitive, is_linear
from calque.core.program import Program, Var
from calque.core.sharding import NamedSharding, PartitionSpec, Sharding
from calque.core.zeros import is_zero
from calque.transforms.explicit import is_explicit
from calque.transforms.vmap import batch_first, spmd_axes

sharding_constraint_p = Primitive("sharding_constraint", keys=True)


def constrain(x: Any, sharding: Sharding, source: Sharding | None = None) -> Any:
    """x, said to be spread so; source: where it is, if these are other devices, to which it is
    moved outside of programs (dispatch/sharded/shards)."""
    more = {} if source is None else {"source": source}
    return sharding_constraint_p.bind(x, sharding=sharding, **more)


def _batch(size: int, args: Sequence[Any], dims: Sequence[Any], *, sharding: Sharding,
           source: Sharding | None = None) -> Any:
    d = dims[0]
    if source is not None:
        source = aval_of(args[0]).placement or source
    if spmd_axes.get() and not isinstance(sharding, NamedSharding):
        raise ValueError(explain(
            "If you are using spmd_axis_name parameter of jax.vmap, please make sure to run your "
            "jitted function inside the mesh context manager. Only `jax.lax.with_sharding_"
            "constraint` with `jax.sharding.NamedSharding` as an input can be transformed with "
            f"spmd_axis_name. Got {type(sharding).__name__}.", fix="pass a NamedSharding."))
    if isinstance(sharding, NamedSharding):
        a = aval_of(args[0])
        spec = sharding.spec.of_rank(a.ndim - 1)
        entry: Any = spmd_axes.get() or PartitionSpec.UNCONSTRAINED
        have = a.placement.spec.of_rank(a.ndim).axes()[d] if is_explicit(a) else ()
        if sharding.explicit and (have or not spmd_axes.get()):  # as the operand is
            entry = tuple(n for n in have if n not in spec.names()) or None
        elif entry is not PartitionSpec.UNCONSTRAINED and any(n in spec.names() for n in entry):
            raise ValueError(explain(
                f"vmap spmd_axis_name {entry} cannot appear in with_sharding_constraint spec, "
                f"but got spec {sharding.spec}", fix="name another mesh axis."))
        sharding = NamedSharding(sharding.mesh, spec.update(
            partitions=(*spec[:d], entry, *spec[d:])))
        if spmd_axes.get():
            sharding.shard_shape(a.shape)
    return constrain(args[0], sharding, source), d


def _transpose(ct: Any, x: Any, *, sharding: Sharding,
               source: Sharding | None = None) -> list[Any]:
    """The cotangent is spread as the result is; over Explicit axes as the operand's type says; of
    one that was moved it goes back."""
    if source is not None:
        return [constrain(ct, source, sharding)]
    if isinstance(sharding, NamedSharding) and is_explicit(x.aval):
        sharding = x.aval.cotangent().placement
    elif isinstance(sharding, NamedSharding) and sharding.explicit:
        mesh, types = sharding.mesh, (AxisType.Auto,) * len(sharding.mesh.axis_names)
        sharding = NamedSharding(
            mesh.update(axis_types=types) if isinstance(mesh, Mesh) else
            mesh.update_axis_types(dict(zip(mesh.axis_names, types))), sharding.spec)
    return [constrain(ct, sharding)]


sharding_constraint_p.abstract = lambda x, **_: x
sharding_constraint_p.jvp = lambda primals, tangents, **params: (
    constrain(primals[0], **params),
    tangents[0] if is_zero(tangents[0]) else constrain(tangents[0], **params))
sharding_constraint_p.transpose = _transpose
sharding_constraint_p.batch = _batch


def _nothing(*avals: ShapedArray, **_: Any) -> Program:
    inputs = [Var(a) for a in avals]
    return Program(inputs, [], inputs)


sharding_constraint_p.program = _nothing

shard_alike_p = Primitive("shard_alike", multiple_results=True, keys=True)


def _alike(pair: Sequence[Any]) -> list[Any]:
    """Two tangents or cotangents; one that is zero says nothing of the other."""
    return list(pair) if any(map(is_zero, pair)) else shard_alike_p.bind(*pair)


def _alike_transpose(cts: Sequence[Any], *args: Any) -> list[Any]:
    return [ct if is_linear(x) else None for ct, x in zip(_alike(cts), args)]


shard_alike_p.abstract = lambda x, y: [x, y]
shard_alike_p.jvp = lambda primals, tangents: (shard_alike_p.bind(*primals), _alike(tangents))
shard_alike_p.transpose, shard_alike_p.batch = _alike_transpose, batch_first(shard_alike_p)
shard_alike_p.program = _nothing

layout_constraint_p = Primitive("layout_constraint", keys=True)


def _laid(x: Any, layout: Layout) -> Any:
    return layout_constraint_p.bind(x, layout=layout)


def _laid_batch(size: int, args: Sequence[Any], dims: Sequence[int], *, layout: Layout) -> Any:
    """Each element of the batch lies so: the batch's axis has the largest stride."""
    (d,) = dims
    order = (d, *[a + (a >= d) for a in layout.major_to_minor])
    return _laid(args[0], replace(layout, major_to_minor=order)), d


layout_constraint_p.abstract = lambda x, *, layout: x
layout_constraint_p.jvp = lambda primals, tangents, *, layout: (
    _laid(primals[0], layout),
    tangents[0] if is_zero(tangents[0]) else _laid(tangents[0], layout))
layout_constraint_p.transpose = lambda ct, x, *, layout: [_laid(ct, layout)]
layout_constraint_p.batch = _laid_batch
layout_constraint_p.program = _nothing

inspect_sharding_p = Primitive("inspect_sharding", multiple_results=True, differentiable=False,
                               effects=lambda params: True)
inspect_sharding_p.program = lambda x, **_: Program([Var(x)], [], [])
inspect_sharding_p.abstract = lambda x, *, callback: []
inspect_sharding_p.batch = lambda size, args, dims, *, callback: (
    inspect_sharding_p.bind(args[0], callback=callback), [])
