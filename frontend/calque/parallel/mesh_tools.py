"""Meshes made for users: make_mesh; over Explicit axes reshard, auto_axes and explicit_axes."""
from __future__ import annotations

import contextlib
import functools
import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from calque.core.avals import shape_of
from calque.core.errors import explain
from calque.core.lists import as_tuple
from calque.core.mesh import (
    AxisType,
    Mesh,
    get_abstract_mesh,
    get_mesh,
    set_mesh,
    use_abstract_mesh,
)
from calque.core.naming import wraps
from calque.core.sharding import NamedSharding, PartitionSpec
from calque.core.trace import at_bottom
from calque.core.types import Function
from calque.dispatch.array import Array, as_values
from calque.dispatch.devices import devices as all_devices
from calque.dispatch.sharded.placing import named
from calque.dispatch.sharded.shards import check_divides, device_put, prefix_leaves
from calque.primitives.placement import constrain
from calque.trees import util as tree_util

__all__ = ["auto_axes", "explicit_axes", "make_mesh", "reshard"]


def make_mesh(axis_shapes: Sequence[int], axis_names: Sequence[Any], axis_types: Any = None, *,
              devices: Sequence[Any] | None = None) -> Mesh:
    """A mesh of the first devices.

    Args:
      axis_shapes: sizes of the axes.
      axis_names: their names.
      axis_types: an AxisType for each axis; None: Explicit.
      devices: which ones; None: the default backend's.

    Returns:
      A Mesh.

    Raises:
      ValueError: there are fewer devices, or not as many names as sizes.

    Example:
      >>> import calque
      >>> calque.make_mesh((1,), ("x",))
      Mesh(axis_sizes=(1,), axis_names=('x',), axis_types=(Explicit,))
    """
    found = list(all_devices() if devices is None else devices)
    shape = tuple(map(int, axis_shapes))
    count = math.prod(shape)
    if count > len(found):
        raise ValueError(explain(
            f"Number of devices {len(found)} must be >= the product of mesh_shape {shape}",
            fix="set jax_num_cpu_devices before the first use of devices, or make the mesh "
                "smaller."))
    if devices is not None and count != len(found):
        raise ValueError(explain(
            f"Number of devices {len(found)} must equal the product of mesh_shape {shape}",
            fix="pass as many devices as the mesh has places."))
    grid = np.empty(count, object)
    grid[:] = found[:count]
    names = (axis_names,) if isinstance(axis_names, str) else tuple(axis_names)
    return Mesh(grid.reshape(shape), names,
                (AxisType.Explicit,) * len(names) if axis_types is None else axis_types)


def reshard(xs: Any, out_shardings: Any) -> Any:
    """A tree of arrays spread in another way over a mesh with Explicit axes.

    Args:
      xs: tree of arrays.
      out_shardings: tree prefix of NamedShardings, or of PartitionSpecs over the context's mesh.

    Returns:
      A tree like xs.

    Raises:
      ValueError: a PartitionSpec is given and no mesh is set; a sharding does not fit an array.
      TypeError: a leaf of out_shardings is none of these.

    Example:
      >>> import calque, calque.numpy as jnp
      >>> from calque.sharding import NamedSharding, PartitionSpec as P, reshard
      >>> mesh = calque.make_mesh((1,), ("x",))
      >>> reshard(jnp.ones(2), NamedSharding(mesh, P("x"))).sharding.spec
      P('x',)
    """
    leaves, tree = tree_util.flatten(xs)
    flat = prefix_leaves("reshard out_shardings", out_shardings, xs)
    made = []
    for x, s in zip(leaves, flat):
        s = named("reshard", s)
        if s.mesh.empty:
            raise ValueError(explain(
                "Reshard should only be used with out_shardings which are non-None and have a "
                f"non-empty mesh. Got sharding {s}.", fix="make its mesh with calque.make_mesh."))
        if autos := [n for n in s.spec.names() if n in s.mesh.auto_axes]:
            raise ValueError(explain(
                "PartitionSpec passed to reshard cannot contain axis names that are of type Auto. "
                f"Got PartitionSpec: {s.spec} with axis name: {autos[0]}.",
                fix="use calque.device_put or lax.with_sharding_constraint over Auto axes."))
        check_divides("reshard", shape_of(x), s)
        if not at_bottom() and not s.spec.has_sums and (
                set(s.mesh.auto_axes) == set(s.mesh.axis_names)):  # it can say nothing of these
            s = s.update(spec=PartitionSpec(*[PartitionSpec.UNCONSTRAINED] * len(shape_of(x))))
        if s.explicit:
            s = s.update(spec=s.spec.of_rank(len(shape_of(x))))
        made.append(device_put(x, s) if isinstance(x, Array) else constrain(x, s))
    return tree.unflatten(made)


def auto_axes(f: Function | None = None, /, *, axes: Any = None,
              out_sharding: Any = None) -> Function:
    """A function inside which Explicit mesh axes are the compiler's (Auto).

    Args:
      f: function of trees of arrays; without it a decorator is returned.
      axes: a name or a tuple of names; None: all axes of the mesh.
      out_sharding: tree prefix of the results of NamedShardings, or of PartitionSpecs over the
        context's mesh: their types outside. It may be given when the function is called.

    Returns:
      A function like f that also takes out_sharding.

    Raises:
      TypeError: out_sharding is not given.
      ValueError: no mesh is set, or an axis is not of it.

    Example:
      >>> import calque, calque.numpy as jnp
      >>> from calque.sharding import PartitionSpec as P, auto_axes, reshard
      >>> with calque.set_mesh(calque.make_mesh((1,), ("x",))):
      ...     v = reshard(jnp.ones((2, 2)), P("x"))
      ...     calque.typeof(auto_axes(lambda v: v.T @ v, out_sharding=P(None, "x"))(v))
      float32[2,2@x]
    """
    if f is None:
        return functools.partial(auto_axes, axes=axes, out_sharding=out_sharding)
    fun = f

    @wraps(fun)
    def wrapper(*args: Any, out_sharding: Any = out_sharding, **kwargs: Any) -> Any:
        if out_sharding is None:
            raise TypeError(explain("auto_axes: Missing required keyword argument: 'out_sharding'",
                                    fix="auto_axes(f, out_sharding=P(...))."))
        mesh = _context_mesh("auto_axes", out_sharding)
        if mesh is None:  # there are no axes
            return fun(*args, **kwargs)
        inner = _switched("auto_axes", mesh, axes, AxisType.Auto)
        leaves, tree = tree_util.flatten((args, kwargs))
        args, kwargs = tree.unflatten([_typed_over(x, inner) for x in leaves])
        with _inside(inner):
            out = fun(*args, **kwargs)
        outs, out_tree = tree_util.flatten(out)
        places = prefix_leaves("auto_axes out_sharding", out_sharding, out)
        return out_tree.unflatten([_over(o, p, mesh) for o, p in zip(outs, places)])

    return wrapper


def explicit_axes(f: Function | None = None, /, *, axes: Any = None,
                  in_sharding: Any = None) -> Function:
    """A function inside which Auto mesh axes are part of arrays' types (Explicit).

    Args:
      f: function of trees of arrays; without it a decorator is returned.
      axes: a name or a tuple of names; None: all axes of the mesh.
      in_sharding: tree prefix of the positional arguments of NamedShardings, or of PartitionSpecs
        over the context's mesh: their types inside. It may be given when the function is called.

    Returns:
      A function like f that also takes in_sharding.

    Raises:
      TypeError: in_sharding is not given.
      ValueError: no mesh is set, or an axis is not of it.

    Example:
      >>> import calque, calque.numpy as jnp
      >>> from calque.sharding import AxisType, PartitionSpec as P, explicit_axes
      >>> mesh = calque.make_mesh((1,), ("x",), axis_types=(AxisType.Auto,))
      >>> def show(v):
      ...     print(calque.typeof(v))
      ...     return 2 * v
      >>> with calque.set_mesh(mesh):
      ...     explicit_axes(show, in_sharding=P("x"))(jnp.ones(2))
      float32[2@x]
      Array([2., 2.], dtype=float32)
    """
    if f is None:
        return functools.partial(explicit_axes, axes=axes, in_sharding=in_sharding)
    fun = f

    @wraps(fun)
    def wrapper(*args: Any, in_sharding: Any = in_sharding) -> Any:
        if in_sharding is None:
            raise TypeError(explain(
                "explicit_axes: Missing required keyword argument: 'in_sharding'",
                fix="explicit_axes(f, in_sharding=P(...))."))
        mesh = _context_mesh("explicit_axes", in_sharding)
        inner = _switched("explicit_axes", mesh, axes, AxisType.Explicit)
        leaves, tree = tree_util.flatten(args)
        places = prefix_leaves("explicit_axes in_sharding", in_sharding, args)
        args = tree.unflatten([_over(x, p, inner) for x, p in zip(leaves, places)])
        with _inside(inner):
            out = fun(*args)
        return tree_util.tree_map(lambda o: _typed_over(o, mesh, labels=True), out)

    return wrapper


def _context_mesh(name: str, given: Any) -> Any:
    """The mesh of the context, else that of a NamedSharding."""
    if not get_mesh().empty:
        return get_mesh()
    if not get_abstract_mesh().empty:
        return get_abstract_mesh()
    leaves = tree_util.tree_leaves(given)
    for s in leaves:
        if isinstance(s, NamedSharding):
            return s.mesh
    if name == "auto_axes" and not any(s.names() for s in leaves):
        return None
    raise ValueError(explain(
        f"{name}: The context mesh cannot be empty. Use `jax.set_mesh(mesh)` to enter into a mesh "
        "context", fix="call inside `with calque.set_mesh(mesh)`, or pass NamedShardings."))


def _switched(name: str, mesh: Any, axes: Any, kind: AxisType) -> Any:
    """The mesh with other types of some axes; those that shard_map maps stay."""
    if get_abstract_mesh().manual_axes and kind is AxisType.Auto and (
            axes is None or set(as_tuple(axes)) & set(get_abstract_mesh().manual_axes)):
        raise NotImplementedError(explain(
            f"{name}: Going from `Manual` AxisType to `Auto` or `Explicit` is not allowed.",
            fix="name the other axes (axes=), or call it outside of shard_map."))
    chosen = mesh.axis_names if axes is None else (axes,) if isinstance(axes, str) else tuple(axes)
    for n in chosen:
        if n not in mesh.axis_names:
            raise ValueError(explain(f"{name}: {n!r} is no axis of {mesh!s}.",
                                     fix="use the names of the mesh."))
    types = tuple(kind if n in chosen and t is not AxisType.Manual else t
                  for n, t in zip(mesh.axis_names, mesh.axis_types))
    return mesh.update(axis_types=types) if isinstance(mesh, Mesh) else (
        mesh.update_axis_types(dict(zip(mesh.axis_names, types))))


@contextlib.contextmanager
def _inside(mesh: Any) -> Iterator[None]:
    """A block in which a mesh with other types is the context's."""
    manual = set(get_abstract_mesh().manual_axes)
    with contextlib.ExitStack() as stack:
        if isinstance(mesh, Mesh):
            stack.enter_context(set_mesh(mesh))
        if manual or not isinstance(mesh, Mesh):
            types = {n: AxisType.Manual if n in manual else t
                     for n, t in zip(mesh.axis_names, mesh.axis_types)}
            stack.enter_context(use_abstract_mesh(mesh.abstract_mesh.update_axis_types(types)))
        yield


def _over(x: Any, place: Any, mesh: Any) -> Any:
    """A value with the type that a place says, over a mesh."""
    if place is None:
        return x
    spec = named("auto_axes", place).spec if not isinstance(place, PartitionSpec) else place
    (x,) = as_values([x])
    shape = shape_of(x)
    check_divides("reshard", shape, NamedSharding(mesh, spec))
    return constrain(x, NamedSharding(mesh, spec.of_rank(len(shape))))


def _typed_over(x: Any, mesh: Any, labels: bool = False) -> Any:
    """A value with its type over a mesh with other types of axes; labels: Auto axes stay in it."""
    have = getattr(getattr(x, "aval", None), "placement", None)
    if not isinstance(have, NamedSharding) or not have.explicit:
        return x
    kept = set(mesh.explicit_axes)
    axes = have.spec.of_rank(x.ndim).axes()
    if kept and not labels:
        axes = tuple(tuple(n for n in mine if n in kept) for mine in axes)
    return constrain(x, NamedSharding(mesh, PartitionSpec(*[mine or None for mine in axes])))
