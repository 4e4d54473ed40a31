"""What may stand in a tree: the keys of paths, the registration of classes as nodes, Partial.

The public names are those of calque.tree_util.  Imports nothing of calque.
"""
from __future__ import annotations

import atexit
import contextlib
import dataclasses
import functools
import importlib
import threading
import warnings
from collections.abc import Callable, Hashable, Iterator, Sequence
from typing import Any, TypeVar


def _keep_registry() -> None:
    """Import optree, unless somebody has, without its exit handlers: they empty its registry, and
    to handlers that were there before (which run later) a dictionary would be a leaf."""
    register = atexit.register

    def without_optree(f: Any, *args: Any, **kwargs: Any) -> Any:
        of_extension = type(f).__name__ == "builtin_function_or_method" and not f.__name__
        return f if of_extension else register(f, *args, **kwargs)
    atexit.register = without_optree  # type: ignore[assignment]
    try:
        importlib.import_module("optree")
    finally:
        atexit.register = register


_keep_registry()
import optree  # noqa: E402

NAMESPACE = "calque"
_registered: set[type] = set()


# ---- paths
@dataclasses.dataclass(frozen=True)
class SequenceKey:
    """Position in a tuple or list, as an entry of a path.

    Args:
      idx: the position, from 0.

    Example:
      >>> from calque import tree_util
      >>> str(tree_util.SequenceKey(1))
      '[1]'
    """

    idx: int

    def __hash__(self) -> int:
        return hash(("SequenceKey", self.idx))

    def __str__(self) -> str:
        return f"[{self.idx!r}]"


@dataclasses.dataclass(frozen=True)
class DictKey:
    """Key of a dictionary, as an entry of a path.

    Args:
      key: the key.

    Example:
      >>> from calque import tree_util
      >>> str(tree_util.DictKey("w"))
      "['w']"
    """

    key: Hashable

    def __hash__(self) -> int:
        return hash(("DictKey", self.key))

    def __str__(self) -> str:
        return f"[{self.key!r}]"


@dataclasses.dataclass(frozen=True)
class GetAttrKey:
    """Attribute of a named tuple or dataclass, as an entry of a path.

    Args:
      name: of the attribute.

    Example:
      >>> from calque import tree_util
      >>> str(tree_util.GetAttrKey("w"))
      '.w'
    """

    name: str

    def __hash__(self) -> int:
        return hash(("GetAttrKey", self.name))

    def __str__(self) -> str:
        return f".{self.name}"


@dataclasses.dataclass(frozen=True)
class FlattenedIndexKey:
    """Position among the children of a registered node without key names, as an entry of a path.

    Args:
      key: the position, from 0.

    Example:
      >>> from calque import tree_util
      >>> str(tree_util.FlattenedIndexKey(1))
      '[<flat index 1>]'
    """

    key: int

    def __hash__(self) -> int:
        return hash(("FlattenedIndexKey", self.key))

    def __str__(self) -> str:
        return f"[<flat index {self.key}>]"


class NamedKey:
    """A key of another kind that a registered class gave, until paths show it."""

    __slots__ = ("key",)

    def __init__(self, key: Any) -> None:
        self.key = key

    def __eq__(self, other: object) -> bool:
        return isinstance(other, NamedKey) and bool(self.key == other.key)

    def __hash__(self) -> int:
        return hash(self.key)


_KEYS = (SequenceKey, DictKey, GetAttrKey, FlattenedIndexKey)


def keystr(keys: Sequence[Any], *, simple: bool = False, separator: str = "") -> str:
    """A path as text.

    Args:
      keys: a path (tuple of keys).
      simple: the names alone, without brackets, dots and quotes.
      separator: what stands between them.

    Returns:
      A str.

    Raises:
      TypeError: the path cannot be iterated over.

    Example:
      >>> from calque import tree_util
      >>> path = (tree_util.DictKey("a"), tree_util.SequenceKey(0), tree_util.GetAttrKey("x"))
      >>> tree_util.keystr(path), tree_util.keystr(path, simple=True, separator="/")
      ("['a'][0].x", 'a/0/x')
    """
    if not simple:
        return separator.join(map(str, keys))
    return separator.join(str(next(iter(vars(k).values()))) if dataclasses.is_dataclass(k)
                          else str(k) for k in keys)


KeyEntry = TypeVar("KeyEntry", bound=Hashable)
KeyPath = tuple[KeyEntry, ...]


class _Wanted(threading.local):
    """Whether keys are asked for: most flatten leaves alone, at every call of a jitted function,
    and keys take longer than those."""

    keys = False


_wanted = _Wanted()


@contextlib.contextmanager
def with_keys() -> Iterator[None]:
    """While it lasts, nodes give keys."""
    before, _wanted.keys = _wanted.keys, True
    try:
        yield
    finally:
        _wanted.keys = before


# ---- registration
def _check_new(nodetype: type) -> None:
    if nodetype in _registered:
        raise ValueError(f"Duplicate custom PyTreeDef type registration for {nodetype}.")
    _registered.add(nodetype)


def register_pytree_node(nodetype: type, flatten_func: Callable[[Any], tuple[Any, Any]],
                         unflatten_func: Callable[[Any, Any], Any],
                         flatten_with_keys_func: Callable[[Any], Any] | None = None) -> None:
    """Make the instances of a class nodes of trees.

    Args:
      nodetype: the class.
      flatten_func: of an instance; returns (children, aux), children being trees and aux hashable.
      unflatten_func: of (aux, children); returns an instance.
      flatten_with_keys_func: of an instance; returns ([(key, child), ...], aux), for paths.

    Returns:
      None.

    Raises:
      ValueError: the class is registered already.

    Example:
      >>> from calque import tree_util
      >>> class Pair:
      ...     def __init__(self, x, y):
      ...         self.x, self.y = x, y
      >>> tree_util.register_pytree_node(
      ...     Pair, lambda p: ((p.x, p.y), None), lambda aux, children: Pair(*children))
      >>> tree_util.tree_map(lambda v: v + 1, Pair(1, 2)).y
      3
    """
    _check_new(nodetype)

    def flatten_node(x: Any) -> Any:
        found = flatten_func(x)
        try:
            children, aux = found
            children = tuple(children)
        except (TypeError, ValueError):
            raise _wrong_pair(found) from None
        if flatten_with_keys_func is not None and _wanted.keys:
            pairs, _ = flatten_with_keys_func(x)
            return children, aux, tuple(k if isinstance(k, _KEYS) else NamedKey(k)
                                        for k, _ in pairs)
        return children, aux

    with warnings.catch_warnings():  # that a named tuple is a node otherwise: it was asked for
        warnings.filterwarnings("ignore", "PyTree type .* is a subclass of")
        optree.register_pytree_node(nodetype, flatten_node, unflatten_func, namespace=NAMESPACE)


def _wrong_pair(found: Any) -> ValueError:
    """The error for what a flatten function returned."""
    of_two = isinstance(found, tuple) and len(found) == 2
    return ValueError(
        "The to_iterable function for a custom PyTree node should return a (children, aux_data) "
        f"tuple{' where ' + repr('children') + ' is iterable' if of_two else ''}, got {found!r}\n"
        "  Fix: return a tuple of the children, and what is static.")


def register_pytree_with_keys(nodetype: type, flatten_with_keys: Callable[[Any], Any],
                              unflatten_func: Callable[[Any, Any], Any],
                              flatten_func: Callable[[Any], Any] | None = None) -> None:
    """register_pytree_node with names for the children.

    Args:
      nodetype: the class.
      flatten_with_keys: of an instance; returns ([(key, child), ...], aux).
      unflatten_func: of (aux, children); returns an instance.
      flatten_func: of an instance; returns (children, aux). Default: flatten_with_keys' children.

    Returns:
      None.

    Raises:
      ValueError: the class is registered already.

    Example:
      >>> from calque import tree_util
      >>> class Box:
      ...     def __init__(self, x):
      ...         self.x = x
      >>> tree_util.register_pytree_with_keys(
      ...     Box, lambda b: ([(tree_util.GetAttrKey("x"), b.x)], None),
      ...     lambda aux, children: Box(*children))
      >>> tree_util.tree_leaves_with_path(Box(7))
      [((GetAttrKey(name='x'),), 7)]
    """
    def plain(x: Any) -> Any:
        pairs, aux = flatten_with_keys(x)
        return tuple(c for _, c in pairs), aux
    register_pytree_node(nodetype, flatten_func or plain, unflatten_func, flatten_with_keys)


def register_pytree_node_class(cls: type) -> type:
    """Class decorator: instances are nodes, by the class's tree_flatten and tree_unflatten.

    Args:
      cls: a class with tree_flatten(self), which returns (children, aux), and the class method
        tree_unflatten(cls, aux, children).

    Returns:
      The class.

    Raises:
      ValueError: the class is registered already.

    Example:
      >>> from calque import tree_util
      >>> @tree_util.register_pytree_node_class
      ... class Point:
      ...     def __init__(self, x, y):
      ...         self.x, self.y = x, y
      ...     def tree_flatten(self):
      ...         return (self.x, self.y), None
      ...     @classmethod
      ...     def tree_unflatten(cls, aux, children):
      ...         return cls(*children)
      >>> tree_util.tree_leaves(Point(1, 2))
      [1, 2]
    """
    register_pytree_node(cls, lambda x: x.tree_flatten(), cls.tree_unflatten)  # type: ignore
    return cls


def register_pytree_with_keys_class(cls: type) -> type:
    """Class decorator: instances are nodes with named children.

    Args:
      cls: a class with tree_flatten_with_keys(self), which returns ([(key, child), ...], aux), and
        the class method tree_unflatten(cls, aux, children).

    Returns:
      The class.

    Raises:
      ValueError: the class is registered already.

    Example:
      >>> from calque import tree_util
      >>> @tree_util.register_pytree_with_keys_class
      ... class Named:
      ...     def __init__(self, x):
      ...         self.x = x
      ...     def tree_flatten_with_keys(self):
      ...         return [(tree_util.GetAttrKey("x"), self.x)], None
      ...     @classmethod
      ...     def tree_unflatten(cls, aux, children):
      ...         return cls(*children)
      >>> tree_util.tree_leaves_with_path(Named(7))
      [((GetAttrKey(name='x'),), 7)]
    """
    flat = (lambda x: x.tree_flatten()) if hasattr(cls, "tree_flatten") else None
    register_pytree_with_keys(cls, lambda x: x.tree_flatten_with_keys(),
                              cls.tree_unflatten, flat)  # type: ignore[attr-defined]
    return cls


def register_dataclass(nodetype: Any = None, data_fields: Sequence[str] | None = None,
                       meta_fields: Sequence[str] | None = None,
                       drop_fields: Sequence[str] = ()) -> Any:
    """Make a dataclass a node: data fields are children, meta fields are static.

    Args:
      nodetype: the class; None: a decorator is returned.
      data_fields: names of the fields with leaves.
      meta_fields: names of the static fields (hashable values). Without the two lists, fields with
        metadata dict(static=True) are static, the others data.
      drop_fields: names of fields that are left out.

    Returns:
      The class.

    Raises:
      TypeError: the fields are not given and the class is not a dataclass, or one list is given.
      ValueError: the class is registered already; of a dataclass, a field is missing, twice there
        or none.

    Example:
      >>> import dataclasses
      >>> from calque import tree_util
      >>> @tree_util.register_dataclass
      ... @dataclasses.dataclass
      ... class Layer:
      ...     w: float
      ...     name: str = dataclasses.field(metadata=dict(static=True))
      >>> tree_util.tree_map(lambda v: 2 * v, Layer(1.5, "dense")) == Layer(3.0, "dense")
      True
    """
    if nodetype is None:
        return functools.partial(register_dataclass, data_fields=data_fields,
                                 meta_fields=meta_fields, drop_fields=drop_fields)
    data, meta = _fields(nodetype, data_fields, meta_fields, drop_fields)

    def flat(x: Any) -> Any:
        return tuple(getattr(x, n) for n in data), tuple(getattr(x, n) for n in meta)

    def with_keys(x: Any) -> Any:
        return [(GetAttrKey(n), getattr(x, n)) for n in data], None

    def back(aux: Any, children: Any) -> Any:
        return nodetype(**dict(zip(data, children)), **dict(zip(meta, aux)))

    register_pytree_node(nodetype, flat, back, with_keys)
    return nodetype


def _fields(nodetype: Any, data_fields: Sequence[str] | None, meta_fields: Sequence[str] | None,
            drop_fields: Sequence[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Names of the fields with leaves and of the static ones."""
    if (data_fields is None) != (meta_fields is None):
        raise TypeError(
            "register_dataclass: data_fields and meta_fields must both be specified when either is "
            f"specified. Got data_fields={data_fields} meta_fields={meta_fields}.\n"
            "  Fix: give both, or neither.")
    known = dataclasses.is_dataclass(nodetype)
    init = [f for f in dataclasses.fields(nodetype) if f.init] if known else []
    if data_fields is None or meta_fields is None:
        if not known:
            raise TypeError(
                "register_dataclass: data_fields and meta_fields are required when nodetype is not "
                f"a dataclass. Got nodetype={nodetype}\n  Fix: name the fields.")
        init = [f for f in init if f.name not in drop_fields]
        return (tuple(f.name for f in init if not f.metadata.get("static", False)),
                tuple(f.name for f in init if f.metadata.get("static", False)))
    data, meta = tuple(data_fields), tuple(meta_fields)
    if both := set(data) & set(meta):
        raise ValueError("register_dataclass: data_fields and meta_fields must not overlap. "
                         f"Overlapping fields: {both}.\n  Fix: name each field once.")
    if known and (missing := {f.name for f in init} - {*data, *meta, *drop_fields}):
        raise ValueError(_WRONG_FIELDS.format(
            f"Missing fields: {missing}", "add them to drop_fields to leave them out."))
    if known and (more := {*data, *meta} - {f.name for f in init}):
        raise ValueError(_WRONG_FIELDS.format(
            f"Unexpected fields: {more}", "name fields of the class only."))
    return data, meta


_WRONG_FIELDS = ("register_dataclass: data_fields and meta_fields must include all dataclass "
                 "fields with init=True and only them. {}.\n  Fix: {}")


def register_static(cls: type) -> type:
    """Class decorator: instances are static, without leaves.

    Args:
      cls: a class whose instances can be hashed and compared.

    Returns:
      The class.

    Raises:
      ValueError: the class is registered already.

    Example:
      >>> from calque import tree_util
      >>> @tree_util.register_static
      ... class Mode(str):
      ...     pass
      >>> tree_util.tree_leaves((1, Mode("fast")))
      [1]
    """
    register_pytree_node(cls, lambda x: ((), x), lambda aux, children: aux)
    return cls


class Partial(functools.partial):  # type: ignore[type-arg]
    """functools.partial that is a tree: the function is static, its arguments are leaves.

    Args:
      func: the function.
      *args, **keywords: its first and its named arguments (trees).

    Example:
      >>> from calque import tree_util
      >>> tree_util.tree_leaves(tree_util.Partial(max, 3, default=4))
      [3, 4]
    """

    def __new__(cls, func: Any, /, *args: Any, **keywords: Any) -> Partial:
        return super().__new__(cls, _Whole(func) if type(func) is functools.partial else func,
                               *args, **keywords)


class _Whole:
    """A functools.partial as the function of a Partial, whose arguments stay its own."""

    __slots__ = ("fun",)

    def __init__(self, fun: Callable[..., Any]) -> None:
        self.fun = fun

    def __call__(self, *args: Any, **keywords: Any) -> Any:
        return self.fun(*args, **keywords)

    def __eq__(self, other: object) -> bool:
        return self.fun == (other.fun if isinstance(other, _Whole) else other)

    def __hash__(self) -> int:
        return hash(self.fun)

    def __repr__(self) -> str:
        return repr(self.fun)


register_pytree_node(
    Partial, lambda p: ((p.args, p.keywords), p.func),
    lambda func, children: Partial(func, *children[0], **children[1]))


def by_paths(tree: Any, is_leaf: Callable[..., bool], children: Callable[[Any], Any]
             ) -> Callable[[Any], bool]:
    """is_leaf(path, subtree) as a function of subtrees, for a walk of this tree from its root on;
    children: the pairs of key and child of a node, in a tuple with what is static, or None."""
    marks: list[bool] = []

    def walk(node: Any, path: tuple[Any, ...]) -> None:
        marks.append(bool(is_leaf(path, node)))
        if not marks[-1]:
            for key, child in (children(node) or ((), None))[0]:
                walk(child, (*path, key))
    walk(tree, ())
    left = iter(marks)
    return lambda _: next(left)
