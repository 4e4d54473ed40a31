"""More of what happens along named axes: pbroadcast, ragged_all_to_all, pcast and pvary, and
with_sharding_constraint.  The rest is in parallel.py."""
from __future__ import annotations

from typing import Any

import numpy as np

from calque import tree_util
from calque.core.avals import aval_of
from calque.core.errors import explain
from calque.core.mesh import get_abstract_mesh, get_mesh
from calque.core.sharding import NamedSharding, PartitionSpec, Sharding
from calque.core.trace import at_bottom, axis_env, checked_axes
from calque.lax import grouped
from calque.lax.operands import as_operand
from calque.lax.parallel import _each, _names
from calque.primitives import collectives as co
from calque.primitives.placement import constrain


def pbroadcast(x: Any, axis_name: Any, source: int) -> Any:
    """The array that one position of a named axis has, for each array of a tree.

    Args:
      x: tree of arrays.
      axis_name: name of an axis, or several: the last moves fastest.
      source: the position.

    Returns:
      A tree like x, equal along the axis.

    Raises:
      NameError: the name is not bound.
      ValueError: there is no such position.

    Example:
      >>> import calque, calque.numpy as jnp
      >>> calque.vmap(lambda x: calque.lax.pbroadcast(x, "i", 2), axis_name="i")(jnp.arange(3.0))
      Array([2., 2., 2.], dtype=float32)
    """
    names, size = _names("pbroadcast", axis_name)
    if not -size <= source < size:
        raise ValueError(explain(f"pbroadcast: source {source} is outside the axis of size {size}.",
                                 fix=f"use 0 to {size - 1}."))
    at = np.int32(source % size)
    return _each("pbroadcast", x, lambda v: grouped.pick(grouped.gathered(v, names), at))


def ragged_all_to_all(operand: Any, output: Any, input_offsets: Any, send_sizes: Any,
                      output_offsets: Any, recv_sizes: Any, *, axis_name: Any,
                      axis_index_groups: Any = None) -> Any:
    """Each position sends a run of rows to each other; the runs may differ in length.

    Args:
      operand: array whose rows are sent.
      output: array that the rows are written into.
      input_offsets: integers, one for each position of the axis: where its run begins.
      send_sizes: integers like them: how many rows it has.
      output_offsets: integers like them: where it is put at the receiver.
      recv_sizes: integers like them: how many rows come from each position.
      axis_name: name of an axis, or several: the last moves fastest.
      axis_index_groups: None.

    Returns:
      An array like output.

    Raises:
      NameError: the name is not bound.
      ValueError: offsets or sizes are not integers of shape (size of the axis,).
      NotImplementedError: axis_index_groups is given.

    Example:
      >>> import calque, calque.numpy as jnp
      >>> def f(x, n):
      ...     return calque.lax.ragged_all_to_all(x, jnp.zeros(3), 0 * n, 2 * n, n, 2 * n,
      ...                                         axis_name="i")
      >>> calque.vmap(f, axis_name="i")(jnp.array([[5.0, 6.0]]), jnp.ones((1, 1), int))
      Array([[0., 5., 6.]], dtype=float32)
    """
    if axis_index_groups is not None:
        raise NotImplementedError(explain("ragged_all_to_all: axis_index_groups.",
                                          fix="split the axis in two."))
    names, size = _names("ragged_all_to_all", axis_name)
    rows, out = as_operand("ragged_all_to_all", operand), as_operand("ragged_all_to_all", output)
    numbers = [as_operand("ragged_all_to_all", v)
               for v in (input_offsets, send_sizes, output_offsets, recv_sizes)]
    for what, v in zip(("input_offsets", "send_sizes", "output_offsets", "recv_sizes"), numbers):
        a = aval_of(v)
        if a.shape != (size,) or a.dtype.kind not in "iu":
            raise ValueError(explain(
                f"ragged_all_to_all {what} must be integers of shape ({size},), got {a}.",
                fix="give one number for each position of the axis."))
    return grouped.ragged(rows, out, *numbers[:3], names, size)


def pcast(x: Any, axis_name: Any, *, to: str) -> Any:
    """Inside shard_map: a value that is the same along axes, as one that varies over them.

    Its transpose is psum: this is where cotangents are summed.

    Args:
      x: tree of arrays.
      axis_name: name of an axis, or several.
      to: "varying".

    Returns:
      A tree like x.

    Raises:
      ValueError: a value varies over such an axis already; `to` is something else; an axis is not
        mapped by shard_map.

    Example:
      >>> import calque, calque.numpy as jnp
      >>> from calque.sharding import Mesh, PartitionSpec as P
      >>> f = calque.shard_map(lambda x: calque.lax.pcast(x, "i", to="varying"),
      ...                      mesh=Mesh(calque.devices()[:1], ("i",)), in_specs=P(),
      ...                      out_specs=P("i"))
      >>> f(jnp.ones(2))
      Array([1., 1.], dtype=float32)
    """
    if to != "varying":
        raise ValueError(explain(f"Unsupported pcast to={to!r}.", fix="use to='varying'."))
    names = _checked_names("pcast", axis_name)

    def one(v: Any) -> Any:
        already = aval_of(v).vma & set(names)
        if already:
            raise ValueError(explain(
                f"Unsupported pcast from=varying, to='varying': {aval_of(v)} varies over "
                f"{sorted(map(str, already))} already.", fix="leave these axes out."))
        return co.pvary_p.bind(v, axes=names) if names else v

    return _each("pcast", x, one)


def pvary(x: Any, axis_name: Any) -> Any:
    """Inside shard_map: a value as one that varies over axes (an older name of pcast).

    Args:
      x: tree of arrays.
      axis_name: name of an axis, or several.

    Returns:
      A tree like x.

    Raises:
      ValueError: an axis is not mapped by shard_map.

    Example:
      >>> import calque, calque.numpy as jnp
      >>> from calque.sharding import Mesh, PartitionSpec as P
      >>> f = calque.shard_map(lambda x: calque.lax.pvary(x, "i"),
      ...                      mesh=Mesh(calque.devices()[:1], ("i",)), in_specs=P(),
      ...                      out_specs=P("i"))
      >>> f(jnp.ones(2))
      Array([1., 1.], dtype=float32)
    """
    names = _checked_names("pvary", axis_name)

    def one(v: Any) -> Any:
        new = tuple(n for n in names if n not in aval_of(v).vma)
        return co.pvary_p.bind(v, axes=new) if new else v

    return _each("pvary", x, one)


def _checked_names(what: str, axis_name: Any) -> tuple[Any, ...]:
    """Those of the names whose values a shard_map checks; ValueError for unmapped ones."""
    names = tuple(axis_name) if isinstance(axis_name, (tuple, list)) else (axis_name,)
    bound = {n for n, _ in axis_env.get()}
    for n in names:
        if n not in bound:
            raise ValueError(explain(f"{what} should be called under jax.shard_map: axis {n!r} is "
                                     "not mapped.", fix="call it inside shard_map."))
    return tuple(n for n in names if n in checked_axes.get())


# ---- where values are
def _is_place(x: Any) -> bool:
    return x is None or isinstance(x, (Sharding, PartitionSpec))


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
      ValueError: shardings is no tree prefix, a spec is longer than an array has dimensions or names
        Explicit axes; IndivisibleError where it does not divide them.

    Example:
      >>> import calque, calque.numpy as jnp
      >>> from calque.sharding import Mesh, NamedSharding, PartitionSpec as P
      >>> where = NamedSharding(Mesh(calque.devices()[:1], ("x",)), P("x"))
      >>> calque.jit(lambda x: calque.lax.with_sharding_constraint(x, where) + 1)(jnp.ones(2))
      Array([2., 2.], dtype=float32)
    """
    leaves, tree = tree_util.flatten(x)
    flat = prefix_leaves("with_sharding_constraint shardings", shardings, x)
    return tree.unflatten([_constrained(v, s) for v, s in zip(leaves, flat)])


def prefix_leaves(what: str, given: Any, values: Any) -> list[Any]:
    """What a tree prefix of places says of each leaf."""
    found: list[Any] = []

    def expand(prefix: Any, part: Any) -> None:
        if _is_place(prefix):
            found.extend([prefix] * len(tree_util.tree_leaves(part)))
            return
        nodes, prefix_tree = tree_util.flatten(prefix, is_leaf=_is_place)
        if tree_util.treedef_is_leaf(prefix_tree):
            raise TypeError(explain(
                f"{what.split()[-1]} leaf specifications are expected to be PartitionSpec "
                f"instances or None, but got {prefix}", fix="pass NamedSharding(mesh, spec)."))
        try:
            parts = prefix_tree.flatten_up_to(part)
        except (ValueError, TypeError) as error:
            raise ValueError(explain(
                f"{what} specification must be a tree prefix of the corresponding value; pytree "
                f"structure error: {error}",
                fix="give one sharding for the whole value, or one for each part in its "
                    "structure.")) from error
        for n, p in zip(nodes, parts):
            expand(n, p)

    expand(given, values)
    return found


def as_sharding(what: str, argument: str, given: Any) -> Any:
    """A Sharding of what is given; a PartitionSpec is over the context's mesh."""
    if not isinstance(given, PartitionSpec):
        return given
    mesh: Any = get_mesh()
    if mesh.empty:
        mesh = get_abstract_mesh()
    if mesh.empty:
        raise RuntimeError(explain(
            f"{what} requires a non-empty mesh in context if you are passing `PartitionSpec`s to "
            f"{argument}. You can define a context mesh via `jax.set_mesh(mesh)`.",
            fix=f"pass NamedSharding(mesh, spec) in {argument}, or call inside "
                "`with calque.set_mesh(mesh)`."))
    return NamedSharding(mesh, given)


def check_rank(what: str, shape: tuple[int, ...], sharding: Any) -> None:
    if isinstance(sharding, NamedSharding) and len(sharding.spec) > len(shape):
        raise ValueError(explain(
            f"{what} is incompatible with its sharding annotation {sharding!r}: Sharding "
            f"{sharding!r} is only valid for values of rank at least {len(sharding.spec)}, but was "
            f"applied to a value of rank {len(shape)}.", fix="shorten the spec."))


def _constrained(v: Any, given: Any) -> Any:
    sharding = as_sharding("with_sharding_constraint", "shardings", given)
    if sharding is None:
        return v
    x = as_operand("with_sharding_constraint", v)
    shape = aval_of(x).shape
    check_rank("One of with_sharding_constraint arguments", shape, sharding)
    if isinstance(sharding, NamedSharding):
        manual = set(get_abstract_mesh().manual_axes)
        explicit = set(sharding.mesh.explicit_axes) & set(sharding.spec.names())
        if explicit:
            raise ValueError(explain(
                "The spec of NamedSharding passed to with_sharding_constraint can only refer to "
                f"Auto axes of the mesh. Got spec={sharding.spec} and mesh={sharding.mesh!s}.",
                fix="use calque.sharding.reshard over Explicit axes."))
        if manual & set(sharding.spec.names()):
            raise ValueError(explain(
                f"with_sharding_constraint: {sharding.spec} names axes that shard_map maps: "
                f"{sorted(map(str, manual))}.", fix="name the other axes."))
        if at_bottom():
            sharding.shard_shape(shape)
    return constrain(x, sharding)


__all__ = ["pbroadcast", "pcast", "pvary", "ragged_all_to_all", "with_sharding_constraint"]
