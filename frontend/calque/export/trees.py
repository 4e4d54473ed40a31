"""Trees of arguments and results in the container, and the registration of classes for it.

Start reading at `node_of` and `tree_of`.
"""
from __future__ import annotations

import collections
import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import optree

from calque.core.errors import explain
from calque.export.container import Node
from calque.export.errors import DeserializationError
from calque.trees.nodes import NAMESPACE
from calque.trees.spec import raw, structure_of

LEAF, NONE, TUPLE, LIST, DICT, CUSTOM = range(6)


@dataclass(frozen=True, slots=True)
class _Class:
    """How nodes of a class are written and built again."""

    kind: type
    name: str
    write: Callable[[Any], bytes]  # of what is static of a node
    build: Callable[[bytes, tuple[Any, ...]], Any] | None  # None: what is static is read back
    read: Callable[[bytes], Any] | None = None


_by_type: dict[type, _Class] = {}
_by_name: dict[str, _Class] = {}


def _register(made: _Class) -> None:
    old = _by_type.get(made.kind)
    if old is not None:
        raise ValueError(explain(
            f"Duplicate serialization registration for type `{made.kind}`. Previous registration "
            f"was with serialized_name `{old.name}`.", fix="register each class once."))
    if made.name in _by_name:
        raise ValueError(explain(
            f"Duplicate serialization registration for serialized_name `{made.name}`. Previous "
            f"registration was for type `{_by_name[made.name].kind}`.",
            fix="give each class a name of its own."))
    _by_type[made.kind] = _by_name[made.name] = made


def register_pytree_node_serialization(
        nodetype: type, *, serialized_name: str, serialize_auxdata: Callable[[Any], bytes],
        deserialize_auxdata: Callable[[bytes], Any],
        from_children: Callable[[Any, Any], Any] | None = None) -> type:
    """Let nodes of a registered class be arguments and results of exported functions.

    Args:
      nodetype: a class known to tree_util.register_pytree_node.
      serialized_name: names the class in the bytes; the same when they are read.
      serialize_auxdata: bytes of what is static of a node.
      deserialize_auxdata: the inverse.
      from_children: (static data, children) -> node; default: the class's own unflatten function.

    Returns:
      nodetype.

    Raises:
      ValueError: the class or the name is registered already, or the class is no tree node.

    Example:
      >>> import calque
      >>> from calque import export
      >>> class Pair:
      ...     def __init__(self, a, b):
      ...         self.a, self.b = a, b
      >>> calque.tree_util.register_pytree_node(
      ...     Pair, lambda p: ((p.a, p.b), None), lambda _, children: Pair(*children))
      >>> _ = export.register_pytree_node_serialization(
      ...     Pair, serialized_name="docs.Pair", serialize_auxdata=lambda aux: b"",
      ...     deserialize_auxdata=lambda raw: None)
      >>> e = export.export(calque.jit(lambda p: p.a + p.b))(Pair(1.0, 2.0))
      >>> export.deserialize(e.serialize()).in_tree == e.in_tree
      True
    """
    registered = optree.register_pytree_node.get(nodetype, namespace=NAMESPACE)
    if from_children is None and (  # (a namedtuple is a node without being registered)
            registered is None or registered.type is not nodetype):
        raise ValueError(explain(
            "If `from_children` is not present, you must call first "
            f"`jax.tree_util.register_pytree_node` for `{nodetype}`",
            fix="register the class, or pass from_children."))

    def build(raw: bytes, children: tuple[Any, ...]) -> Any:
        assert from_children is not None
        return from_children(deserialize_auxdata(raw), children)

    _register(_Class(nodetype, serialized_name, lambda static: bytes(serialize_auxdata(static)),
                     build if from_children else None, deserialize_auxdata))
    return nodetype


def register_namedtuple_serialization(nodetype: type, *, serialized_name: str) -> type:
    """Let a namedtuple be an argument or a result of exported functions.

    Args:
      nodetype: a class made by collections.namedtuple or typing.NamedTuple.
      serialized_name: names the class in the bytes.

    Returns:
      nodetype, so that this serves as a decorator.

    Raises:
      ValueError: nodetype is no namedtuple, or the class or the name is registered already.

    Example:
      >>> import collections
      >>> import calque
      >>> from calque import export
      >>> Point = export.register_namedtuple_serialization(
      ...     collections.namedtuple("Point", "x y"), serialized_name="docs.Point")
      >>> e = export.export(calque.jit(lambda x: Point(x, -x)))(1.0)
      >>> export.deserialize(e.serialize()).out_tree == e.out_tree
      True
    """
    if not (isinstance(nodetype, type) and issubclass(nodetype, tuple)
            and hasattr(nodetype, "_fields")):
        raise ValueError(explain(
            "Use `calque.export.register_pytree_node_serialization` for types other than "
            "`collections.namedtuple`."))
    fields = list(nodetype._fields)

    def build(raw: bytes, children: tuple[Any, ...]) -> Any:
        if json.loads(raw.decode() or "[]") != fields:
            raise ValueError(f"{nodetype.__name__} has fields {fields} now")
        return nodetype(*children)

    _register(_Class(nodetype, serialized_name, lambda _: json.dumps(fields).encode(), build))
    return nodetype


def _ordered(raw: bytes, children: tuple[Any, ...]) -> Any:
    return collections.OrderedDict(zip(json.loads(raw.decode()), children, strict=True))


_register(_Class(collections.OrderedDict, "collections.OrderedDict",
                 lambda keys: json.dumps(keys).encode(), _ordered))


# ---- structures
def node_of(tree: Any) -> Node:
    """A structure for the container.

    Raises:
      ValueError: it has a class that is not registered.
      TypeError: a dictionary's key is no string.
    """
    kind = tree.type
    if kind is None:
        return Node(LEAF)
    if kind is type(None):
        return Node(NONE)
    children = tuple(node_of(c) for c in tree.children())
    if kind is tuple:
        return Node(TUPLE, children)
    if kind is list:
        return Node(LIST, children)
    if kind is dict:
        for key in tree.entries():
            if not isinstance(key, str):
                raise TypeError(explain(
                    "Serialization is supported only for dictionaries with string keys. Found key "
                    f"{key!r} of type {type(key)}.", fix="use strings as keys."))
        return Node(DICT, children, tuple(tree.entries()))
    known = _by_type.get(kind)
    if known is None:
        raise ValueError(explain(
            f"Cannot serialize PyTreeDef containing an unregistered type `{kind}`. Use "
            "`export.register_pytree_node_serialization` or "
            "`export.register_namedtuple_serialization`."))
    static = raw(tree).__getstate__()[0][-1][2]  # (a node is not built: it may look at
    return Node(CUSTOM, children, name=known.name, data=known.write(static))  # its children)


def tree_of(node: Node) -> Any:
    """The structure that a node of the container says."""
    return structure_of(_spec(node))


def _spec(node: Node) -> Any:
    """optree's structure: built from those of its children, so that no class sees leaves."""
    children = tuple(map(_spec, node.children))
    if node.kind == LEAF:
        return optree.treespec_leaf(namespace=NAMESPACE)
    if node.kind == NONE:
        return optree.treespec_none(namespace=NAMESPACE)
    if node.kind == TUPLE:
        return _collected(children)
    if node.kind == LIST:
        return _collected(list(children))
    if node.kind == DICT:
        return _collected(dict(zip(node.names, children, strict=True)))
    known = _by_name.get(node.name)
    if known is None:
        raise ValueError(explain(
            f"Cannot deserialize a PyTreeDef containing an unregistered type `{node.name}`. Use "
            "`export.register_pytree_node_serialization` or "
            "`export.register_namedtuple_serialization`."))
    try:
        if known.build is None:
            assert known.read is not None
            return _node(known.kind, known.read(node.data), children)
        return _collected(known.build(node.data, children))
    except Exception as error:
        raise DeserializationError(explain(
            f"A node of class {known.kind.__name__} ({node.name}) cannot be built: {error}.",
            fix="use the class as it was when the function was exported.")) from error


def _collected(tree: Any) -> Any:
    return optree.treespec_from_collection(tree, namespace=NAMESPACE)


def _node(kind: type, static: Any, children: tuple[Any, ...]) -> Any:
    """A registered class's structure from its children's: its rows, and one of its own."""
    rows = [row for child in children for row in child.__getstate__()[0]]
    own = (0, len(children), static, None, kind, sum(c.num_leaves for c in children), len(rows) + 1,
           None)
    made = optree.PyTreeSpec.__new__(optree.PyTreeSpec)
    made.__setstate__(((*rows, own), False, NAMESPACE))
    return made
