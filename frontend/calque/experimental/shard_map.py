"""shard_map by its older name and arguments."""
from __future__ import annotations

from typing import Any

from calque.core.types import Function
from calque.parallel.mapping import Infer
from calque.parallel.mapping import shard_map as _shard_map

__all__ = ["shard_map"]


def shard_map(f: Function, mesh: Any, in_specs: Any = Infer, out_specs: Any = None,
              check_rep: bool = True, auto: Any = frozenset()) -> Function:
    """calque.shard_map with the arguments of older programs.

    Args:
      f: function of parts of arrays.
      mesh: a Mesh.
      in_specs: tree prefix of the positional arguments of PartitionSpecs.
      out_specs: tree prefix of f's results.
      check_rep: the older name of check_vma.
      auto: the axes that are not mapped.

    Returns:
      A function of whole arrays.

    Raises:
      As calque.shard_map.

    Example:
      >>> import calque, calque.numpy as jnp
      >>> from calque.experimental.shard_map import shard_map
      >>> from calque.sharding import Mesh, PartitionSpec as P
      >>> mesh = Mesh(calque.devices()[:1], ("i",))
      >>> shard_map(lambda x: 2 * x, mesh, in_specs=P("i"), out_specs=P("i"))(jnp.ones(2))
      Array([2., 2.], dtype=float32)
    """
    return _shard_map(f, mesh=mesh, in_specs=in_specs, out_specs=out_specs, check_vma=check_rep,
                      axis_names=frozenset(mesh.axis_names) - frozenset(auto))
