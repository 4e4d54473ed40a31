"""with_sharding_constraint, and what it shares with jit's shardings: trees of places.

A place is a Sharding or a PartitionSpec over the context's mesh.  Start reading at
`with_sharding_constraint`.
"""
from __future__ import annotations

from typing import Any

from calque.core.avals import aval_of, shape_of
from calque.core.errors import explain
from calque.core.formats import AUTO, Format, Layout, order_of
from calque.core.lists import as_tuple
from calque.core.mesh import AbstractMesh, Mesh, get_abstract_mesh, placing_mesh, spec_mesh
from calque.core.sharding import NamedSharding, PartitionSpec, Sharding
from calque.core.trace import at_bottom
from calque.dispatch.array import Array, as_values
from calque.dispatch.sharded.placing import concrete
from calque.dispatch.sharded.shards import check_devices, check_rank, prefix_leaves
from calque.dispatch.tracing import check_arguments
from calque.primitives.placement import constrain, layout_constraint_p
from calque.transforms.explicit import is_explicit
from calque.trees import util as tree_util

__all__ = ["laid_out", "with_sharding_constraint"]


def with_sharding_constraint(x: Any, shardings: Any) -> Any:
    """A tree of arrays as it is, said to be spread over a mesh in some way.

    In one process this moves nothing: it labels the arrays, and pins what propagation may choose.

    Args:
      x: tree of arrays.
      shardings: tree prefix of x of NamedShardings, or of PartitionSpecs over the context's mesh;
        None and P.UNCONSTRAINED leave it to the compiler.

    Returns:
      A tree like x.

    Raises:
      RuntimeError: a PartitionSpec is given and no mesh is set.
      TypeError: a leaf of shardings is none of these.
      ValueError: shardings is no tree prefix, a spec is longer than an array has dimensions or
        names Explicit axes; IndivisibleError where it does not divide them.

    Example:
      >>> import calque, calque.numpy as jnp
      >>> from calque.sharding import Mesh, NamedSharding, PartitionSpec as P
      >>> where = NamedSharding(Mesh(calque.devices()[:1], ("x",)), P("x"))
      >>> calque.jit(lambda x: calque.lax.with_sharding_constraint(x, where) + 1)(jnp.ones(2))
      Array([2., 2.], dtype=float32)
    """
    leaves, tree = tree_util.flatten(x)
    check_arguments("with_sharding_constraint", leaves, tree_util.treedef_tuple(
        [tree_util.treedef_tuple([tree]), tree_util.tree_structure({})]))
    flat = prefix_leaves("with_sharding_constraint shardings", shardings, x)
    return tree.unflatten([_constrained(v, s) for v, s in zip(leaves, flat)])


def check_not_empty(argument: str, given: Any) -> None:
    """ValueError for a sharding over a mesh without axes and devices."""
    if isinstance(given, NamedSharding) and given.mesh.empty:
        raise ValueError(explain(
            f"One of {argument} leaf specifications got an empty NamedSharding: {given} which is "
            "not allowed.", fix="make its mesh with calque.make_mesh."))


def as_sharding(what: str, argument: str, given: Any, entered: bool = True) -> Any:
    """A Sharding, or None, of what is given; a PartitionSpec is over the context's mesh (entered:
    also over one of `with mesh:`)."""
    if isinstance(given, NamedSharding):
        return concrete(given)
    if given is None or isinstance(given, Sharding):
        return given
    if not isinstance(given, PartitionSpec):
        raise TypeError(explain(
            f"{argument} leaf specifications are expected to be PartitionSpec instances or None, "
            f"but got {given}", fix="pass NamedSharding(mesh, spec)."))
    mesh: Any = spec_mesh()
    if mesh.empty or not entered and isinstance(mesh, Mesh) and placing_mesh() is None:
        raise RuntimeError(explain(
            f"{what} requires a non-empty mesh in context if you are passing `PartitionSpec`s to "
            f"{argument}. You can define a context mesh via `jax.set_mesh(mesh)`.",
            fix=f"pass NamedSharding(mesh, spec) in {argument}, or call inside "
                "`with calque.set_mesh(mesh)`."))
    return NamedSharding(mesh, given)


def _asserted(x: Any, sharding: NamedSharding) -> Any:
    """Over Explicit axes only, the value: its type is to say so."""
    a = aval_of(x)
    have = a.placement.spec.of_rank(a.ndim) if is_explicit(a) else PartitionSpec().of_rank(a.ndim)
    if have != sharding.spec.of_rank(a.ndim):
        raise AssertionError(explain(
            "`with_sharding_constraint` acts as an assert when all axes of mesh are of type "
            f"`Explicit`. The array sharding: {have} did not match the sharding provided: "
            f"{sharding.spec}.", fix="use calque.sharding.reshard over Explicit axes."))
    return x


def _check_alike(x: Any, mesh: AbstractMesh) -> None:
    """What is said over a mesh without devices is of an array that is spread over one like it."""
    if not isinstance(x, Array):
        raise ValueError(explain(
            "Target sharding contains a `jax.sharding.AbstractMesh` which requires the input "
            f"passed should be a `jax.Array`. Got {type(x)} with shape {aval_of(x).short()}",
            fix="calque.device_put it over a Mesh first."))
    if not isinstance(x.sharding, NamedSharding):
        raise TypeError(explain(
            "The sharding on the input must be a `NamedSharding` since the target sharding has an "
            f"`AbstractMesh` in it. Got sharding type {type(x.sharding)} for shape "
            f"{x.aval.short()}", fix="calque.device_put it over a Mesh first."))
    if x.sharding.mesh.shape_tuple != mesh.shape_tuple:
        raise ValueError(explain(
            f"Mesh shape of the input {x.sharding.mesh.shape_tuple} does not match the mesh shape "
            f"of the target sharding {mesh.shape_tuple} for shape {x.aval.short()}",
            fix="name the axes of the mesh that the array is spread over."))


def _formatted(v: Any, given: Format) -> Any:
    """Spread and laid out as a Format says."""
    if given.layout is AUTO:
        raise TypeError(explain(
            f"with_sharding_constraint: the layout of a value is said, or left out; got {given}.",
            fix="Layout.AUTO is for jit's in_shardings and out_shardings."))
    x = _constrained(v, given.sharding)
    return laid_out("with_sharding_constraint", x, given.layout) if isinstance(
        given.layout, Layout) else x


def laid_out(what: str, v: Any, layout: Layout) -> Any:
    """A value that is said to lie so; an array that does."""
    (x,) = as_values([v])
    order_of(what, layout, shape_of(x))
    return layout_constraint_p.bind(x, layout=layout)


def _constrained(v: Any, given: Any) -> Any:
    if isinstance(given, Format):
        return _formatted(v, given)
    sharding = as_sharding("with_sharding_constraint", "shardings", given)
    if sharding is None:
        raise ValueError(explain(
            "One of with_sharding_constraint arguments got sharding None which is not allowed.",
            fix="pass a Sharding, or leave the leaf out."))
    check_not_empty("shardings", sharding)
    (x,) = as_values([v])
    shape = shape_of(x)
    check_rank("One of with_sharding_constraint arguments", shape, sharding)
    if isinstance(sharding, NamedSharding):
        if isinstance(sharding.mesh, Mesh):
            check_devices(sharding)
        elif at_bottom():
            _check_alike(v, sharding.mesh)
        manual = set(get_abstract_mesh().manual_axes)
        if set(sharding.mesh.explicit_axes) == set(sharding.mesh.axis_names) and not manual:
            return _asserted(x, sharding)
        explicit = set(sharding.mesh.explicit_axes) & set(sharding.spec.names())
        if explicit:
            raise ValueError(explain(
                "The spec of NamedSharding passed to with_sharding_constraint can only refer to "
                f"Auto axes of the mesh. Got spec={sharding.spec} and mesh={sharding.mesh!s}.",
                fix="use calque.sharding.reshard over Explicit axes."))
        if manual & set(sharding.spec.names()):
            raise ValueError(explain(
                f"with_sharding_constraint: spec {sharding.spec} contains a manual axes "
                f"{sorted(map(str, manual))} of mesh {sharding.mesh!s}, which shard_map maps.",
                fix="name the other axes."))
        if sharding.mesh.explicit_axes and not manual:
            sharding = _beside_types(x, sharding)
        if at_bottom():
            sharding.shard_shape(shape)
    return constrain(x, sharding)


def _beside_types(x: Any, sharding: NamedSharding) -> NamedSharding:
    """What is said over Auto axes, and what the value's type says over Explicit ones, which stays:
    these are the outer ones of a dimension."""
    a = aval_of(x)
    if not is_explicit(a):
        return sharding
    merged: list[Any] = []
    for have, said in zip(a.placement.spec.of_rank(a.ndim), sharding.spec.of_rank(a.ndim)):
        typed = tuple(n for n in as_tuple(have) if n in sharding.mesh.explicit_axes)
        free = () if said is PartitionSpec.UNCONSTRAINED else as_tuple(said)
        names = (*typed, *[n for n in free if n is not None])
        merged.append(said if not typed else names[0] if len(names) == 1 else names)
    return sharding.update(spec=a.placement.spec.update(partitions=merged))
