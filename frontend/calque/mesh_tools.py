"""Meshes made for users: make_mesh, and reshard over Explicit axes."""
from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from calque import tree_util
from calque.array import Array
from calque.constraints import prefix_leaves
from calque.core.errors import explain
from calque.core.mesh import AxisType, Mesh, get_mesh
from calque.core.sharding import NamedSharding, PartitionSpec
from calque.devices import devices as all_devices
from calque.primitives.placement import constrain
from calque.shards import device_put

__all__ = ["make_mesh", "reshard"]


def make_mesh(axis_shapes: Sequence[int], axis_names: Sequence[Any], *,
              devices: Sequence[Any] | None = None, axis_types: Any = None) -> Mesh:
    """A mesh of the first devices.

    Args:
      axis_shapes: sizes of the axes.
      axis_names: their names.
      devices: which ones; None: the default backend's.
      axis_types: an AxisType for each axis; None: Explicit.

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
    shape = tuple(int(s) for s in axis_shapes)
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
        if isinstance(s, PartitionSpec):
            if get_mesh().empty:
                raise ValueError(explain(
                    "Using PartitionSpec when you are not under a mesh context is not allowed. "
                    "Please pass a NamedSharding instance or enter into a mesh context via "
                    f"`jax.set_mesh`. Got {s}", fix="pass NamedSharding(mesh, spec)."))
            s = NamedSharding(get_mesh(), s)
        made.append(device_put(x, s) if type(x) is Array else constrain(x, s))
    return tree.unflatten(made)
