"""shard_alike: two trees of arrays that are spread over devices alike."""
from __future__ import annotations

from typing import Any

from calque.core.avals import shape_of
from calque.core.errors import explain
from calque.dispatch.array import as_values
from calque.dispatch.tracing import check_arguments
from calque.primitives.placement import shard_alike_p
from calque.trees import util as tree_util


def shard_alike(x: Any, y: Any) -> tuple[Any, Any]:
    """Two trees of arrays as they are, said to be spread over devices alike: how the one is split
    the other is, where nothing else says it.

    Args:
      x: tree of arrays.
      y: tree of the same structure and shapes.

    Returns:
      (x, y).

    Raises:
      ValueError: they differ in structure or in a shape.
      TypeError: a leaf is no array.

    Example:
      >>> import calque, calque.numpy as jnp
      >>> from calque.experimental.shard_alike import shard_alike
      >>> from calque.sharding import Mesh, NamedSharding, PartitionSpec as P
      >>> where = NamedSharding(Mesh(calque.devices()[:1], ("x",)), P("x"))
      >>> x = calque.device_put(jnp.ones(2), where)
      >>> shard_alike(x, jnp.zeros(2))[1].sharding == where
      True
    """
    leaves, tree = tree_util.flatten(x)
    others, other_tree = tree_util.flatten(y)
    if tree != other_tree:
        raise ValueError(explain(
            f"Trees should be equal. Got x_tree: {tree}, y_tree: {other_tree}",
            fix="pass trees of one structure."))
    check_arguments("shard_alike", [*leaves, *others], tree_util.tree_structure(((x, y), {})))
    for a, b in zip(leaves, others):
        if shape_of(a) != shape_of(b):
            raise ValueError(explain(
                "The leaves shapes of `x` and `y` should match. Got `x` leaf shape: "
                f"{shape_of(a)} and `y` leaf shape: {shape_of(b)}.",
                fix="pass arrays of one shape."))
    pairs = [shard_alike_p.bind(*as_values(pair)) for pair in zip(leaves, others)]
    return tree.unflatten([a for a, _ in pairs]), tree.unflatten([b for _, b in pairs])


__all__ = ["shard_alike"]


def __dir__() -> list[str]:
    return __all__
