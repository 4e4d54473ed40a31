"""Pytrees under JAX's names, over optree: nested tuples, lists, dicts, named tuples, registered
classes; None is an empty tree.  Everything of calque that handles trees goes through here.
"""
from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Any

import optree

NAMESPACE = "calque"
_registered: set[type] = set()

PyTreeDef = optree.PyTreeSpec



def flatten(tree: Any, is_leaf: Callable[[Any], bool] | None = None) -> tuple[list[Any], Any]:
    """Leaves and structure."""
    return optree.tree_flatten(tree, is_leaf, namespace=NAMESPACE)


@dataclasses.dataclass(frozen=True)
class SequenceKey:
    """Position in a tuple or list."""

    idx: int

    def __str__(self) -> str:
        return f"[{self.idx!r}]"


@dataclasses.dataclass(frozen=True)
class DictKey:
    """Key of a dictionary."""

    key: Hashable

    def __str__(self) -> str:
        return f"[{self.key!r}]"


@dataclasses.dataclass(frozen=True)
class GetAttrKey:
    """Attribute of a named tuple or dataclass."""

    name: str

    def __str__(self) -> str:
        return f".{self.name}"


@dataclasses.dataclass(frozen=True)
class FlattenedIndexKey:
    """Position among the children of a registered node without key names."""

    key: int

    def __str__(self) -> str:
        return f"[<flat index {self.key}>]"


def _as_key(path: Sequence[Any], accessor: Any) -> tuple[Any, ...]:
    keys: list[Any] = []
    for entry in accessor:
        kind = type(entry).__name__
        if kind == "MappingEntry":
            keys.append(DictKey(entry.entry))
        elif kind in ("NamedTupleEntry", "StructSequenceEntry"):
            keys.append(GetAttrKey(entry.name if hasattr(entry, "name") else entry.field))
        elif kind in ("GetAttrEntry", "DataclassEntry"):
            keys.append(GetAttrKey(entry.name))
        elif kind == "SequenceEntry":
            keys.append(SequenceKey(entry.entry))
        elif isinstance(entry.entry, (SequenceKey, DictKey, GetAttrKey, FlattenedIndexKey)):
            keys.append(entry.entry)
        else:
            keys.append(FlattenedIndexKey(entry.entry))
    return tuple(keys)


# ---- flattening
def tree_flatten(tree: Any, is_leaf: Callable[[Any], bool] | None = None) -> tuple[list[Any], Any]:
    """(leaves, treedef) of a tree.

    Example:
      >>> leaves, treedef = tree_flatten({"b": 2, "a": (1, None)})
      >>> leaves
      [1, 2]
      >>> tree_unflatten(treedef, [10, 20])
      {'b': 20, 'a': (10, None)}
    """
    return flatten(tree, is_leaf)


def tree_unflatten(treedef: Any, leaves: Iterable[Any]) -> Any:
    """The tree of a structure with these leaves; ValueError when their number is wrong."""
    leaves = list(leaves)
    if len(leaves) != treedef.num_leaves:
        few = "Too few" if len(leaves) < treedef.num_leaves else "Too many"
        raise ValueError(f"{few} leaves for PyTreeDef; expected {treedef.num_leaves}, "
                         f"got {len(leaves)}")
    return treedef.unflatten(leaves)


def tree_leaves(tree: Any, is_leaf: Callable[[Any], bool] | None = None) -> list[Any]:
    """The leaves of a tree, in order."""
    return optree.tree_leaves(tree, is_leaf, namespace=NAMESPACE)


def tree_structure(tree: Any, is_leaf: Callable[[Any], bool] | None = None) -> Any:
    """The structure of a tree."""
    return optree.tree_structure(tree, is_leaf, namespace=NAMESPACE)


def tree_map(f: Callable[..., Any], tree: Any, *rest: Any,
             is_leaf: Callable[[Any], bool] | None = None) -> Any:
    """f applied to corresponding leaves; `rest` may have deeper trees in place of leaves.

    Example:
      >>> tree_map(lambda x, y: x + y, [1, (2, 3)], [10, (20, 30)])
      [11, (22, 33)]
    """
    leaves, treedef = flatten(tree, is_leaf)
    others = [_flatten_up_to(treedef, r, i) for i, r in enumerate(rest)]
    return treedef.unflatten([f(*xs) for xs in zip(leaves, *others)])


def _flatten_up_to(treedef: Any, tree: Any, position: int) -> list[Any]:
    try:
        return treedef.flatten_up_to(tree)  # type: ignore[no-any-return]
    except ValueError as error:
        raise ValueError(
            f"tree_map: argument {position + 2} does not have the structure of the first: {error}."
            "\n  Fix: pass trees whose structures agree down to the leaves of the first.") from None


def tree_reduce(function: Callable[[Any, Any], Any], tree: Any, *initial: Any,
                is_leaf: Callable[[Any], bool] | None = None) -> Any:
    """functools.reduce over the leaves."""
    return functools.reduce(function, tree_leaves(tree, is_leaf), *initial)


def tree_all(tree: Any, *, is_leaf: Callable[[Any], bool] | None = None) -> bool:
    """Whether all leaves are true."""
    return all(tree_leaves(tree, is_leaf))


def all_leaves(iterable: Iterable[Any], is_leaf: Callable[[Any], bool] | None = None) -> bool:
    """Whether every element is a leaf (no element is itself a tree)."""
    return bool(optree.all_leaves(iterable, is_leaf, namespace=NAMESPACE))


def treedef_is_leaf(treedef: Any) -> bool:
    """Whether the structure is a single leaf."""
    return treedef.num_nodes == 1 and treedef.num_leaves == 1


def treedef_children(treedef: Any) -> list[Any]:
    """The structures of the root's children."""
    return list(treedef.children())


def treedef_tuple(treedefs: Iterable[Any]) -> Any:
    """The structure of a tuple of trees with these structures."""
    return optree.treespec_tuple(list(treedefs), namespace=NAMESPACE)


def tree_transpose(outer_treedef: Any, inner_treedef: Any | None, pytree_to_transpose: Any) -> Any:
    """A tree of trees turned inside out."""
    leaves, treedef = flatten(pytree_to_transpose)
    if inner_treedef is None:
        inner_treedef = tree_structure(outer_treedef.flatten_up_to(pytree_to_transpose)[0])
    n, m = outer_treedef.num_leaves, inner_treedef.num_leaves
    if treedef.num_leaves != n * m:
        raise TypeError(f"Mismatch: outer and inner structures have {n} x {m} leaves, the tree "
                        f"has {treedef.num_leaves}.")
    inner = [outer_treedef.unflatten([leaves[i * m + j] for i in range(n)]) for j in range(m)]
    return inner_treedef.unflatten(inner)


# ---- paths
def tree_flatten_with_path(tree: Any, is_leaf: Callable[[Any], bool] | None = None
                           ) -> tuple[list[tuple[tuple[Any, ...], Any]], Any]:
    """([(path, leaf), ...], treedef)."""
    accessors, leaves, treedef = optree.tree_flatten_with_accessor(
        tree, is_leaf, namespace=NAMESPACE)
    return [(_as_key((), a), x) for a, x in zip(accessors, leaves)], treedef


def tree_leaves_with_path(tree: Any, is_leaf: Callable[[Any], bool] | None = None
                          ) -> list[tuple[tuple[Any, ...], Any]]:
    """[(path, leaf), ...]."""
    return tree_flatten_with_path(tree, is_leaf)[0]


def tree_map_with_path(f: Callable[..., Any], tree: Any, *rest: Any,
                       is_leaf: Callable[[Any], bool] | None = None) -> Any:
    """tree_map of f(path, leaf, ...)."""
    pairs, treedef = tree_flatten_with_path(tree, is_leaf)
    others = [_flatten_up_to(treedef, r, i) for i, r in enumerate(rest)]
    return treedef.unflatten([f(p, x, *ys) for (p, x), *ys in zip(pairs, *others)])


def keystr(keys: Sequence[Any], *, simple: bool = False, separator: str = "") -> str:
    """A path as text: ['a'][0].x, or a/0/x with simple=True, separator='/'."""
    if not simple:
        return separator.join(map(str, keys))
    return separator.join(str(next(iter(vars(k).values()))) if dataclasses.is_dataclass(k)
                          else str(k) for k in keys)


# ---- registration
def _check_new(nodetype: type) -> None:
    if nodetype in _registered:
        raise ValueError(f"Duplicate custom PyTreeDef type registration for {nodetype}.")
    _registered.add(nodetype)


def register_pytree_node(nodetype: type, flatten_func: Callable[[Any], tuple[Any, Any]],
                         unflatten_func: Callable[[Any, Any], Any],
                         flatten_with_keys_func: Callable[[Any], Any] | None = None) -> None:
    """Make instances of a class nodes: flatten_func(x) -> (children, aux),
    unflatten_func(aux, children) -> x."""
    _check_new(nodetype)

    def flatten_node(x: Any) -> Any:
        children, aux = flatten_func(x)
        if flatten_with_keys_func is not None:
            pairs, _ = flatten_with_keys_func(x)
            return tuple(children), aux, tuple(k for k, _ in pairs)
        return tuple(children), aux

    optree.register_pytree_node(nodetype, flatten_node, unflatten_func, namespace=NAMESPACE)


def register_pytree_with_keys(nodetype: type, flatten_with_keys: Callable[[Any], Any],
                              unflatten_func: Callable[[Any, Any], Any],
                              flatten_func: Callable[[Any], Any] | None = None) -> None:
    """register_pytree_node with named children: flatten_with_keys(x) -> ([(key, child)], aux)."""
    def plain(x: Any) -> Any:
        pairs, aux = flatten_with_keys(x)
        return tuple(c for _, c in pairs), aux
    register_pytree_node(nodetype, flatten_func or plain, unflatten_func, flatten_with_keys)


def register_pytree_node_class(cls: type) -> type:
    """Class decorator: uses the class's tree_flatten() and tree_unflatten(aux, children)."""
    register_pytree_node(cls, lambda x: x.tree_flatten(), cls.tree_unflatten)  # type: ignore
    return cls


def register_pytree_with_keys_class(cls: type) -> type:
    """Class decorator: uses tree_flatten_with_keys() and tree_unflatten(aux, children)."""
    flat = (lambda x: x.tree_flatten()) if hasattr(cls, "tree_flatten") else None
    register_pytree_with_keys(cls, lambda x: x.tree_flatten_with_keys(),
                              cls.tree_unflatten, flat)  # type: ignore[attr-defined]
    return cls


def register_dataclass(nodetype: Any = None, data_fields: Sequence[str] | None = None,
                       meta_fields: Sequence[str] | None = None,
                       drop_fields: Sequence[str] = ()) -> Any:
    """Make a dataclass a node: data fields are children, meta fields are static.

    Without the lists, fields with metadata dict(static=True) are static, the others data.
    """
    if nodetype is None:
        return functools.partial(register_dataclass, data_fields=data_fields,
                                 meta_fields=meta_fields, drop_fields=drop_fields)
    if data_fields is None or meta_fields is None:
        if not dataclasses.is_dataclass(nodetype):
            raise TypeError("register_dataclass: data_fields and meta_fields are required when "
                            f"{nodetype} is not a dataclass.")
        init = [f for f in dataclasses.fields(nodetype) if f.init and f.name not in drop_fields]
        meta_fields = [f.name for f in init if f.metadata.get("static", False)]
        data_fields = [f.name for f in init if not f.metadata.get("static", False)]
    data, meta = tuple(data_fields), tuple(meta_fields)

    def flat(x: Any) -> Any:
        return tuple(getattr(x, n) for n in data), tuple(getattr(x, n) for n in meta)

    def with_keys(x: Any) -> Any:
        return [(GetAttrKey(n), getattr(x, n)) for n in data], None

    def back(aux: Any, children: Any) -> Any:
        return nodetype(**dict(zip(data, children)), **dict(zip(meta, aux)))

    register_pytree_node(nodetype, flat, back, with_keys)
    return nodetype


def register_static(cls: type) -> type:
    """Class decorator: instances are static (hashed and compared, no leaves)."""
    register_pytree_node(cls, lambda x: ((), x), lambda aux, children: aux)
    return cls


class Partial(functools.partial):  # type: ignore[type-arg]
    """functools.partial that is a tree: the function is static, its arguments are leaves.

    Example:
      >>> tree_leaves(Partial(max, 3, default=4))
      [3, 4]
    """


register_pytree_node(
    Partial, lambda p: ((p.args, p.keywords), p.func),
    lambda func, children: Partial(func, *children[0], **children[1]))


def build_tree(treedef: Any, xs: Any) -> Any:
    """Fill a structure from a nested sequence of the same shape."""
    return treedef.unflatten(tree_leaves(xs))


__all__ = [n for n in dir() if n.startswith(("tree", "register_", "treedef_"))] + [
    "DictKey", "FlattenedIndexKey", "GetAttrKey", "Partial", "PyTreeDef", "SequenceKey",
    "all_leaves", "build_tree", "keystr"]

