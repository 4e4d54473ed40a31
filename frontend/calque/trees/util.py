"""Pytrees under JAX's names, over optree: nested tuples, lists, dicts, named tuples, registered
classes; None is an empty tree.  Everything of calque that handles trees goes through here; keys of
paths and the registration of classes are in tree_nodes.
"""
from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from typing import Any

import optree

from calque.core.errors import explain
from calque.core.types import Function
from calque.trees.nodes import (
    NAMESPACE,
    DictKey,
    FlattenedIndexKey,
    GetAttrKey,
    KeyEntry,
    KeyPath,
    NamedKey,
    Partial,
    SequenceKey,
    by_paths,
    keystr,
    register_dataclass,
    register_pytree_node,
    register_pytree_node_class,
    register_pytree_with_keys,
    register_pytree_with_keys_class,
    register_static,
    with_keys,
)
from calque.trees.spec import PyTreeDef, check, raw, structure_of

__all__ = [
    "DictKey", "FlattenedIndexKey", "GetAttrKey", "KeyEntry", "KeyPath", "Partial", "PyTreeDef",
    "SequenceKey", "all_leaves", "default_registry", "flatten_one_level",
    "flatten_one_level_with_keys", "is_tree_node", "keystr", "register_dataclass",
    "register_pytree_node", "register_pytree_node_class", "register_pytree_with_keys",
    "register_pytree_with_keys_class", "register_static", "tree_all", "tree_broadcast",
    "tree_flatten", "tree_flatten_with_path", "tree_leaves", "tree_leaves_with_path",
    "tree_map", "tree_map_with_path", "tree_reduce", "tree_reduce_associative", "tree_structure",
    "tree_transpose", "tree_unflatten", "treedef_children", "treedef_is_leaf", "treedef_tuple"]


def __dir__() -> list[str]:
    return __all__


def flatten(tree: Any, is_leaf: Callable[[Any], bool] | None = None) -> tuple[list[Any], Any]:
    """Leaves and structure."""
    leaves, spec = optree.tree_flatten(tree, is_leaf, namespace=NAMESPACE)
    return leaves, structure_of(spec)


def _as_key(accessor: Any) -> tuple[Any, ...]:
    keys: list[Any] = []
    for entry in accessor:
        kind = type(entry).__name__
        if isinstance(entry.entry, (SequenceKey, DictKey, GetAttrKey, FlattenedIndexKey)):
            keys.append(entry.entry)  # what a registered class gave
        elif isinstance(entry.entry, NamedKey):
            keys.append(entry.entry.key)
        elif kind == "MappingEntry":
            keys.append(DictKey(entry.entry))
        elif kind in ("NamedTupleEntry", "StructSequenceEntry"):
            keys.append(GetAttrKey(entry.name if hasattr(entry, "name") else entry.field))
        elif kind in ("GetAttrEntry", "DataclassEntry"):
            keys.append(GetAttrKey(entry.name))
        elif kind == "SequenceEntry":
            keys.append(SequenceKey(entry.entry))
        else:
            keys.append(FlattenedIndexKey(entry.entry))
    return tuple(keys)


# ---- flattening
def tree_flatten(tree: Any, is_leaf: Callable[[Any], bool] | None = None) -> tuple[list[Any], Any]:
    """(leaves, treedef) of a tree.

    Args:
      tree: nested tuples, lists, dicts (by sorted keys), named tuples and registered classes;
        None is a tree without leaves.
      is_leaf: called with each subtree; where it is true the subtree is a leaf.

    Returns:
      The list of the leaves, and the structure that tree_unflatten takes.

    Raises:
      ValueError: the keys of a dict cannot be told apart, or a registered class's function returns
        something else than (children, aux).

    Example:
      >>> from calque import tree_util
      >>> leaves, treedef = tree_util.tree_flatten({"a": (1, None), "b": 2})
      >>> leaves
      [1, 2]
      >>> tree_util.tree_unflatten(treedef, [10, 20])
      {'a': (10, None), 'b': 20}
    """
    return flatten(tree, is_leaf)


def tree_unflatten(treedef: Any, leaves: Iterable[Any]) -> Any:
    """The tree of a structure with these leaves.

    Args:
      treedef: structure, from tree_flatten or tree_structure.
      leaves: as many values as the structure has leaves, in order.

    Returns:
      The tree.

    Raises:
      ValueError: the number of leaves is wrong.

    Example:
      >>> from calque import tree_util
      >>> tree_util.tree_unflatten(tree_util.tree_structure([0, (0, 0)]), "abc")
      ['a', ('b', 'c')]
    """
    leaves = list(leaves)
    if len(leaves) != treedef.num_leaves:
        few = "Too few" if len(leaves) < treedef.num_leaves else "Too many"
        raise ValueError(f"{few} leaves for PyTreeDef; expected {treedef.num_leaves}, "
                         f"got {len(leaves)}")
    return treedef.unflatten(leaves)


def tree_leaves(tree: Any, is_leaf: Callable[[Any], bool] | None = None) -> list[Any]:
    """The leaves of a tree, in order.

    Args:
      tree: a tree.
      is_leaf: called with each subtree; where it is true the subtree is a leaf.

    Returns:
      A list.

    Raises:
      ValueError: as tree_flatten.

    Example:
      >>> from calque import tree_util
      >>> tree_util.tree_leaves({"b": 2, "a": (1, None)})
      [1, 2]
    """
    leaves, spec = optree.tree_flatten(tree, is_leaf, namespace=NAMESPACE)
    check(spec)
    return leaves


def tree_structure(tree: Any, is_leaf: Callable[[Any], bool] | None = None) -> Any:
    """The structure of a tree.

    Args:
      tree: a tree.
      is_leaf: called with each subtree; where it is true the subtree is a leaf.

    Returns:
      A PyTreeDef; equal for trees that differ in their leaves only.

    Raises:
      ValueError: as tree_flatten.

    Example:
      >>> from calque import tree_util
      >>> tree_util.tree_structure([1, (2, 3)]) == tree_util.tree_structure([0, ("a", "b")])
      True
    """
    return structure_of(optree.tree_structure(tree, is_leaf, namespace=NAMESPACE))


def tree_map(f: Function, tree: Any, *rest: Any,
             is_leaf: Callable[[Any], bool] | None = None) -> Any:
    """f applied to corresponding leaves of one tree or of several.

    Args:
      f: function of as many leaves as there are trees.
      tree: gives the structure of the result.
      *rest: trees of that structure; they may have deeper trees in place of leaves.
      is_leaf: called with each subtree of `tree`; where it is true the subtree is a leaf.

    Returns:
      A tree of the structure of `tree`.

    Raises:
      ValueError: the structure of a tree in `rest` differs.

    Example:
      >>> from calque import tree_util
      >>> tree_util.tree_map(lambda x, y: x + y, [1, (2, 3)], [10, (20, 30)])
      [11, (22, 33)]
    """
    leaves, treedef = flatten(tree, is_leaf)
    others = [_flatten_up_to(treedef, r, i) for i, r in enumerate(rest)]
    return treedef.unflatten([f(*xs) for xs in zip(leaves, *others)])


def _flatten_up_to(treedef: Any, tree: Any, position: int) -> list[Any]:
    try:
        return treedef.flatten_up_to(tree)
    except ValueError as error:
        raise ValueError(
            f"pytree structure error: tree_map: argument {position + 2} does not have the "
            f"structure of the first: {str(error).rstrip('.')}."
            "\n  Fix: pass trees whose structures agree down to the leaves of the first.") from None


_NOTHING = object()


def tree_reduce(function: Callable[[Any, Any], Any], tree: Any, initializer: Any = _NOTHING,
                is_leaf: Callable[[Any], bool] | None = None) -> Any:
    """functools.reduce over the leaves of a tree.

    Args:
      function: of the result so far and a leaf.
      tree: a tree.
      initializer: value to start from (without one, the first leaf).
      is_leaf: called with each subtree; where it is true the subtree is a leaf.

    Returns:
      The last value of `function`.

    Raises:
      TypeError: the tree has no leaves and there is no initial value.

    Example:
      >>> from calque import tree_util
      >>> tree_util.tree_reduce(lambda total, x: total + x, {"a": 1, "b": (2, 3)}, 10)
      16
    """
    initial = () if initializer is _NOTHING else (initializer,)
    return functools.reduce(function, tree_leaves(tree, is_leaf), *initial)


def tree_reduce_associative(operation: Callable[[Any, Any], Any], tree: Any, *,
                            identity: Any = _NOTHING,
                            is_leaf: Callable[[Any], bool] | None = None) -> Any:
    """The leaves of a tree combined by pairs, in log2(leaves) rounds.

    Args:
      operation: associative function of two leaves.
      tree: a tree.
      identity: what a tree without leaves gives.
      is_leaf: called with each subtree; where it is true the subtree is a leaf.

    Returns:
      The one value that is left.

    Raises:
      TypeError: the tree has no leaves and there is no identity.

    Example:
      >>> from calque import tree_util
      >>> tree_util.tree_reduce_associative(lambda x, y: x + y, {"a": 1, "b": (2, 3)})
      6
    """
    values = tree_leaves(tree, is_leaf)
    if not values:
        if identity is _NOTHING:
            raise TypeError(explain("Must specify identity for parallel reduction of empty tree.",
                                    fix="pass identity=, the result for no leaves."))
        return identity
    while len(values) > 1:
        pairs = [operation(x, y) for x, y in zip(values[::2], values[1::2])]
        values = [*pairs, *values[len(pairs) * 2:]]
    return values[0]


def tree_all(tree: Any, *, is_leaf: Callable[[Any], bool] | None = None) -> bool:
    """Whether all leaves of a tree are true.

    Args:
      tree: a tree whose leaves have a truth value.
      is_leaf: called with each subtree; where it is true the subtree is a leaf.

    Returns:
      A bool; True for a tree without leaves.

    Raises:
      ValueError: a leaf is an array of several elements.

    Example:
      >>> from calque import tree_util
      >>> tree_util.tree_all([True, (1, 0)])
      False
    """
    return all(tree_leaves(tree, is_leaf))


def all_leaves(iterable: Iterable[Any], is_leaf: Callable[[Any], bool] | None = None) -> bool:
    """Whether every element is a leaf (no element is itself a tree).

    Args:
      iterable: the values.
      is_leaf: called with each value; where it is true the value is a leaf.

    Returns:
      A bool.

    Raises:
      TypeError: the argument cannot be iterated over.

    Example:
      >>> from calque import tree_util
      >>> tree_util.all_leaves([1, 2.5]), tree_util.all_leaves([1, (2, 3)])
      (True, False)
    """
    return bool(optree.all_leaves(iterable, is_leaf, namespace=NAMESPACE))


def treedef_is_leaf(treedef: Any) -> bool:
    """Whether the structure is a single leaf.

    Args:
      treedef: a structure.

    Returns:
      A bool.

    Raises:
      AttributeError: the argument is not a PyTreeDef.

    Example:
      >>> from calque import tree_util
      >>> tree_util.treedef_is_leaf(tree_util.tree_structure(7))
      True
    """
    return treedef.num_nodes == 1 and treedef.num_leaves == 1


def treedef_children(treedef: Any) -> list[Any]:
    """The structures of the root's children.

    Args:
      treedef: a structure.

    Returns:
      A list of PyTreeDefs, empty for a leaf.

    Raises:
      AttributeError: the argument is not a PyTreeDef.

    Example:
      >>> from calque import tree_util
      >>> [t.num_leaves for t in tree_util.treedef_children(tree_util.tree_structure([1, (2, 3)]))]
      [1, 2]
    """
    return list(structure_of(treedef).children())


def treedef_tuple(treedefs: Iterable[Any]) -> Any:
    """The structure of a tuple of trees with these structures.

    Args:
      treedefs: PyTreeDefs.

    Returns:
      A PyTreeDef.

    Raises:
      TypeError: an element is not a PyTreeDef.

    Example:
      >>> from calque import tree_util
      >>> leaf, pair = tree_util.tree_structure(1), tree_util.tree_structure([1, 2])
      >>> tree_util.tree_unflatten(tree_util.treedef_tuple([leaf, pair]), "abc")
      ('a', ['b', 'c'])
    """
    made = optree.treespec_tuple([raw(t) for t in treedefs], namespace=NAMESPACE)
    return structure_of(made)


def tree_transpose(outer_treedef: Any, inner_treedef: Any | None, pytree_to_transpose: Any) -> Any:
    """A tree of trees turned inside out.

    Args:
      outer_treedef: structure of the outside.
      inner_treedef: structure of each tree at the outer one's leaves; None: that of the first.
      pytree_to_transpose: the tree of trees.

    Returns:
      A tree of the inner structure whose leaves are trees of the outer one.

    Raises:
      TypeError: the tree has another number of leaves than the two structures together.

    Example:
      >>> from calque import tree_util
      >>> outer = tree_util.tree_structure([0, 0])
      >>> inner = tree_util.tree_structure({"a": 0, "b": 0})
      >>> tree_util.tree_transpose(outer, inner, [{"a": 1, "b": 2}, {"a": 3, "b": 4}])
      {'a': [1, 3], 'b': [2, 4]}
    """
    leaves, treedef = flatten(pytree_to_transpose)
    if inner_treedef is None:
        inner_treedef = tree_structure(outer_treedef.flatten_up_to(pytree_to_transpose)[0])
    n, m = outer_treedef.num_leaves, inner_treedef.num_leaves
    if treedef.num_leaves != n * m:
        raise TypeError(f"Mismatch: outer and inner structures have {n} x {m} leaves, the tree "
                        f"has {treedef.num_leaves}.")
    inner = [outer_treedef.unflatten([leaves[i * m + j] for i in range(n)]) for j in range(m)]
    return inner_treedef.unflatten(inner)


def tree_broadcast(prefix_tree: Any, full_tree: Any,
                   is_leaf: Callable[[Any], bool] | None = None) -> Any:
    """A tree with the structure of another whose leaves are those of a prefix of it, repeated.

    Args:
      prefix_tree: a tree that agrees with full_tree down to its own leaves.
      full_tree: gives the structure.
      is_leaf: where it holds, a subtree of prefix_tree counts as a leaf.

    Returns:
      A tree of full_tree's structure.

    Raises:
      ValueError: prefix_tree is no prefix of full_tree.

    Example:
      >>> from calque import tree_util
      >>> tree_util.tree_broadcast((1, 2), (0, {"a": 0, "b": 0}))
      (1, {'a': 2, 'b': 2})
    """
    return tree_structure(full_tree).unflatten(prefix_leaves(
        prefix_tree, full_tree, is_leaf, lambda error:
        f"pytree structure error: tree_broadcast: the first tree is no prefix of the second: "
        f"{str(error).rstrip('.')}.\n"
        f"  Fix: pass trees that agree down to the leaves of the first."))


def prefix_leaves(prefix: Any, tree: Any, is_leaf: Callable[[Any], bool] | None,
                  message: Callable[[Exception], str]) -> list[Any]:
    """For each leaf of a tree, the leaf of a prefix of it; message: of the ValueError for what is
    no prefix."""
    leaves, treedef = flatten(prefix, is_leaf)
    try:
        parts = treedef.flatten_up_to(tree)
    except (ValueError, TypeError) as error:
        raise ValueError(message(error)) from error
    return [x for x, part in zip(leaves, parts) for _ in tree_leaves(part)]


def is_tree_node(kind: Any) -> bool:
    """Whether values of a class are nodes of trees (not leaves).

    Args:
      kind: a class.

    Returns:
      A bool; False for what is no class.

    Raises:
      Nothing.

    Example:
      >>> from calque import tree_util
      >>> tree_util.is_tree_node(list), tree_util.is_tree_node(float)
      (True, False)
    """
    return isinstance(kind, type) and (
        optree.register_pytree_node.get(kind, namespace=NAMESPACE) is not None
        or kind is type(None) or optree.is_namedtuple_class(kind))


def flatten_one_level(tree: Any) -> tuple[Any, Any]:
    """The children of a node, and what is static of it.

    Args:
      tree: a list, tuple, dictionary or another node.

    Returns:
      (children, keys of a dictionary, class of a named tuple, static data of a registered class,
      None for others).

    Raises:
      ValueError: the value is a leaf.

    Example:
      >>> from calque import tree_util
      >>> tree_util.flatten_one_level({"b": 1, "a": 2})
      ((2, 1), ('a', 'b'))
    """
    kind = type(tree)
    if not is_tree_node(kind):
        raise ValueError(f"can't tree-flatten type: {kind}.\n  Fix: pass a list, tuple, "
                         "dictionary or another node of a tree.")
    if tree is None:
        return (), None
    if kind is dict:
        keys = tuple(tree_structure(tree).entries())
        return tuple(tree[k] for k in keys), keys
    if kind is list or kind is tuple:
        return tree, None
    if optree.is_namedtuple_class(kind):
        return list(tree), kind
    children, data, *_ = optree.register_pytree_node.get(
        kind, namespace=NAMESPACE).flatten_func(tree)
    if isinstance(tree, dict) and not isinstance(data, tuple):
        data = tuple(tree)
    return list(children), data


def flatten_one_level_with_keys(tree: Any) -> tuple[Any, Any]:
    """The children of a node with their keys, and what is static of it.

    Args:
      tree: a list, tuple, dictionary or another node.

    Returns:
      (pairs of key and child, what is static of it, as flatten_one_level gives it).

    Raises:
      ValueError: the value is a leaf.

    Example:
      >>> from calque import tree_util
      >>> tree_util.flatten_one_level_with_keys({"b": 1})
      (((DictKey(key='b'), 1),), ('b',))
    """
    children, data = flatten_one_level(tree)
    paths = tree_flatten_with_path(tree, is_leaf=lambda x: x is not tree)[0]
    if len(paths) == len(children):
        return tuple((path[0], c) for (path, _), c in zip(paths, children)), data
    keys = {id(leaf): path[0] for path, leaf in paths}
    return tuple((keys.get(id(c), SequenceKey(i)), c) for i, c in enumerate(children)), data


class PyTreeRegistry:
    """Which classes are nodes, as an object.

    Example:
      >>> from calque import tree_util
      >>> tree_util.default_registry.flatten_one_level([1, (2, 3)])
      ([1, (2, 3)], None)
    """

    def flatten_one_level(self, tree: Any) -> tuple[Any, Any] | None:
        """(children, what is static); None for a leaf."""
        return flatten_one_level(tree) if is_tree_node(type(tree)) else None

    def flatten_one_level_with_keys(self, tree: Any) -> tuple[Any, Any] | None:
        """(pairs of key and child, what is static); None for a leaf."""
        return flatten_one_level_with_keys(tree) if is_tree_node(type(tree)) else None

    def flatten(self, tree: Any, leaf_predicate: Any = None) -> tuple[list[Any], Any]:
        """(leaves, structure)."""
        return flatten(tree, leaf_predicate)


default_registry = PyTreeRegistry()


# ---- paths
def tree_flatten_with_path(tree: Any, is_leaf: Callable[..., bool] | None = None,
                           is_leaf_takes_path: bool = False
                           ) -> tuple[list[tuple[tuple[Any, ...], Any]], Any]:
    """([(path, leaf), ...], treedef) of a tree.

    Args:
      tree: a tree.
      is_leaf: called with each subtree; where it is true the subtree is a leaf.
      is_leaf_takes_path: it is called with its path and the subtree.

    Returns:
      The list of pairs (a path is a tuple of SequenceKey, DictKey, GetAttrKey or
      FlattenedIndexKey), and the structure.

    Raises:
      ValueError: as tree_flatten.

    Example:
      >>> from calque import tree_util
      >>> tree_util.tree_flatten_with_path({"a": [5]})[0]
      [((DictKey(key='a'), SequenceKey(idx=0)), 5)]
    """
    if is_leaf_takes_path and is_leaf is not None:
        is_leaf = by_paths(tree, is_leaf, default_registry.flatten_one_level_with_keys)
    with with_keys():
        accessors, leaves, treedef = optree.tree_flatten_with_accessor(
            tree, is_leaf, namespace=NAMESPACE)
    return [(_as_key(a), x) for a, x in zip(accessors, leaves)], structure_of(treedef)


def tree_leaves_with_path(tree: Any, is_leaf: Callable[..., bool] | None = None,
                          is_leaf_takes_path: bool = False) -> list[tuple[tuple[Any, ...], Any]]:
    """[(path, leaf), ...] of a tree.

    Args:
      tree: a tree.
      is_leaf, is_leaf_takes_path: as for tree_flatten_with_path.

    Returns:
      A list of pairs; a path is a tuple of keys.

    Raises:
      ValueError: as tree_flatten.

    Example:
      >>> from calque import tree_util
      >>> for path, leaf in tree_util.tree_leaves_with_path({"a": [5, 6]}):
      ...     print(tree_util.keystr(path), leaf)
      ['a'][0] 5
      ['a'][1] 6
    """
    return tree_flatten_with_path(tree, is_leaf, is_leaf_takes_path)[0]


def tree_map_with_path(f: Function, tree: Any, *rest: Any,
                       is_leaf: Callable[..., bool] | None = None,
                       is_leaf_takes_path: bool = False) -> Any:
    """tree_map of a function that is also given the leaf's path.

    Args:
      f: function of a path and as many leaves as there are trees.
      tree: gives the structure of the result.
      *rest: trees of that structure; they may have deeper trees in place of leaves.
      is_leaf, is_leaf_takes_path: as for tree_flatten_with_path, of `tree`.

    Returns:
      A tree of the structure of `tree`.

    Raises:
      ValueError: the structure of a tree in `rest` differs.

    Example:
      >>> from calque import tree_util
      >>> tree_util.tree_map_with_path(lambda p, x: tree_util.keystr(p) + f"={x}", {"a": [5]})
      {'a': ["['a'][0]=5"]}
    """
    pairs, treedef = tree_flatten_with_path(tree, is_leaf, is_leaf_takes_path)
    others = [_flatten_up_to(treedef, r, i) for i, r in enumerate(rest)]
    return treedef.unflatten([f(p, x, *ys) for (p, x), *ys in zip(pairs, *others)])
