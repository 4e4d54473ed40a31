"""tree_util under its short names: calque.tree.map, leaves, structure, ..."""
from calque.tree_util import tree_all as all  # noqa: A004
from calque.tree_util import tree_broadcast as broadcast
from calque.tree_util import tree_flatten as flatten
from calque.tree_util import tree_flatten_with_path as flatten_with_path
from calque.tree_util import tree_leaves as leaves
from calque.tree_util import tree_leaves_with_path as leaves_with_path
from calque.tree_util import tree_map as map  # noqa: A004
from calque.tree_util import tree_map_with_path as map_with_path
from calque.tree_util import tree_reduce as reduce
from calque.tree_util import tree_reduce_associative as reduce_associative
from calque.tree_util import tree_structure as structure
from calque.tree_util import tree_transpose as transpose
from calque.tree_util import tree_unflatten as unflatten

__all__ = ["all", "broadcast", "flatten", "flatten_with_path", "leaves", "leaves_with_path",
           "map", "map_with_path", "reduce", "reduce_associative", "structure", "transpose",
           "unflatten"]


def __dir__() -> list[str]:
    return __all__
