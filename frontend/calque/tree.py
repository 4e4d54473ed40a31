"""tree_util under its short names: calque.tree.map, leaves, structure, ..."""
import dataclasses
from typing import Any

from calque.trees.util import tree_all as all  # noqa: A004
from calque.trees.util import tree_broadcast as broadcast
from calque.trees.util import tree_flatten as flatten
from calque.trees.util import tree_flatten_with_path as flatten_with_path
from calque.trees.util import tree_leaves as leaves
from calque.trees.util import tree_leaves_with_path as leaves_with_path
from calque.trees.util import tree_map as map  # noqa: A004
from calque.trees.util import tree_map_with_path as map_with_path
from calque.trees.util import tree_reduce as reduce
from calque.trees.util import tree_reduce_associative as reduce_associative
from calque.trees.util import tree_structure as structure
from calque.trees.util import tree_transpose as transpose
from calque.trees.util import tree_unflatten as unflatten

__all__ = ["all", "broadcast", "flatten", "flatten_with_path", "leaves", "leaves_with_path",
           "map", "map_with_path", "reduce", "reduce_associative", "static", "structure",
           "transpose", "unflatten"]


def static(**kwargs: Any) -> Any:
    """A static field of a dataclass that register_dataclass makes a node.

    Args:
      **kwargs: as of dataclasses.field.

    Returns:
      A field.

    Raises:
      TypeError: dataclasses.field has no such argument.

    Example:
      >>> import dataclasses, calque
      >>> @calque.tree_util.register_dataclass
      ... @dataclasses.dataclass
      ... class Layer:
      ...     w: float
      ...     name: str = calque.tree.static(default="dense")
      >>> calque.tree.leaves(Layer(1.5))
      [1.5]
    """
    metadata = {"static": True, **(kwargs.pop("metadata", None) or {})}
    return dataclasses.field(**kwargs, metadata=metadata)


def __dir__() -> list[str]:
    return __all__
