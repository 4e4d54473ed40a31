"""PyTreeDef: the structure of a tree, over optree's.

Two things are JAX's and not optree's: dictionaries are built again with sorted keys, whatever the
order of the dictionary that was taken apart; and how a structure prints.  Structures are interned,
so that equal ones are mostly the same object.  Start reading at `structure_of`.
"""
from __future__ import annotations

import collections
import dataclasses
import operator
import re
from collections.abc import Callable, Iterable
from typing import Any

import optree

from calque.core.memo import Memo
from calque.trees.nodes import NAMESPACE

_known = Memo(10_000)


class PyTreeDef:
    """The structure of a tree: what tree_unflatten needs beside the leaves.

    Example:
      >>> from calque import tree_util
      >>> tree_util.tree_structure({"b": [1, None], "a": 2})
      PyTreeDef({'a': *, 'b': [*, None]})
    """

    __slots__ = ("_spec", "unflatten", "num_leaves", "_static", "_others")

    def __init__(self, spec: Any, static: list[Any] | None = None) -> None:
        self._spec = spec
        self._static = static  # what is static of its nodes, None where that is words and classes
        self._others: list[PyTreeDef] = []  # equal ones whose static data are not the same
        self.unflatten: Callable[[Iterable[Any]], Any] = spec.unflatten
        self.num_leaves: int = spec.num_leaves

    @property
    def num_nodes(self) -> int:
        """Number of nodes, leaves included."""
        return int(self._spec.num_nodes)

    @property
    def type(self) -> Any:
        """The class of the root; None for a leaf."""
        return self._spec.type

    def children(self) -> list[PyTreeDef]:
        """The structures of the root's children."""
        return [structure_of(c) for c in self._spec.children()]

    def child(self, i: int) -> PyTreeDef:
        """The structure of one child of the root."""
        return structure_of(self._spec.child(i))

    def entries(self) -> list[Any]:
        """Keys, names or positions of the root's children."""
        return list(self._spec.entries())

    def node_data(self) -> tuple[Any, Any] | None:
        """(class of the root, what is static of it); None for a leaf."""
        if self._spec.is_leaf():
            return None
        if self.type is dict:
            return dict, self.entries()
        return self.type, None

    def flatten_up_to(self, tree: Any) -> list[Any]:
        """The subtrees of a tree at the places of this structure's leaves."""
        try:
            return self._spec.flatten_up_to(tree)
        except ValueError as error:
            raise ValueError(_as_jax_says(str(error))) from None

    def walk(self, f_node: Callable[[Any, Any], Any], f_leaf: Callable[[Any], Any] | None,
             leaves: Iterable[Any]) -> Any:
        """f_node(what it gave for the children, what is static) of each node, from the leaves on,
        and f_leaf(leaf); what the root gives."""
        left = iter(leaves)

        def visit(t: PyTreeDef) -> Any:
            if t._spec.is_leaf():
                x = next(left)
                return x if f_leaf is None else f_leaf(x)
            data = t.node_data()
            return f_node(tuple(map(visit, t.children())), data and data[1])
        return visit(self)

    def compose(self, inner: PyTreeDef) -> PyTreeDef:
        """This structure with another one in place of every leaf."""
        return structure_of(self._spec.compose(raw(inner)))

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, (PyTreeDef, optree.PyTreeSpec))
                                 and bool(self._spec == raw(other)))

    def __hash__(self) -> int:
        return hash(self._spec)

    def __reduce__(self) -> Any:
        return structure_of, (self._spec,)

    def __repr__(self) -> str:
        return f"PyTreeDef({_text(self._spec)})"


_WORDS = [
    (r"^list arity mismatch; expected: (\d+), got: (\d+);", r"List arity mismatch: \2 != \1;"),
    (r"^tuple arity mismatch; expected: (\d+), got: (\d+);", r"Tuple arity mismatch: \2 != \1;"),
    (r"^dictionary key mismatch; expected key\(s\): (\[.*?\]), got key\(s\): (\[.*?\]),.*",
     r"Dict key mismatch; expected keys: \1; present keys: \2."),
    (r"^namedtuple type mismatch; expected type: (.*), got type: (.*);",
     r"Named tuple type mismatch: expected type: \1, got type: \2;"),
    (r"^Expected an instance of dict, collections.OrderedDict, or collections.defaultdict, got",
     "Expected dict, got"),
    (r"^Expected an instance of collections.namedtuple, got", "Expected named tuple, got"),
    (r"^Expected an instance of (\w+), got", r"Expected \1, got")]


def _as_jax_says(text: str) -> str:
    """optree's words for what is no tree of a structure in those that users of JAX look for."""
    for pattern, words in _WORDS:
        text = re.sub(pattern, words, text, flags=re.S)
    return text


def raw(tree: Any) -> Any:
    """optree's structure."""
    return tree._spec if type(tree) is PyTreeDef else tree


def structure_of(spec: Any) -> PyTreeDef:
    """The PyTreeDef of a structure of optree's."""
    if type(spec) is PyTreeDef:
        return spec
    try:
        found = _known.get(spec)
    except Exception:  # static data that cannot be hashed, or compared (arrays)
        return PyTreeDef(_sorted(spec))
    if found is None:
        return _known.keep(spec, PyTreeDef(_sorted(spec), _static_of(spec)))
    if found._static is None:
        return found
    static = [node[2] for node in spec.__getstate__()[0] if node[2] is not None]
    if _all_same(found._static, static):
        return found
    for known in found._others:
        if _all_same(known._static, static):
            return known
    made = PyTreeDef(_sorted(spec), static)
    found._others = [*found._others[-8:], made]
    return made


def check(spec: Any) -> None:
    """ValueError for a structure whose dictionaries have keys that cannot be ordered."""
    try:
        known = _known.get(spec) is not None
    except Exception:  # as above
        known = False
    if not known:
        structure_of(spec)


def _static_of(spec: Any) -> list[Any] | None:
    """What is static of the nodes of a structure; None where equal structures have the same."""
    data = [node[2] for node in spec.__getstate__()[0] if node[2] is not None]
    plain = all(isinstance(d, type) or type(d) is list and all(type(k) is str for k in d)
                for d in data)
    return None if plain else data


def _all_same(a: Any, b: Any) -> bool:
    return len(a) == len(b) and (all(map(operator.is_, a, b)) or all(map(_same, a, b)))


def _same(a: Any, b: Any) -> bool:
    """Whether equal static data are the same: 1 is not True, 0.0 not -0.0, 'a' no subclass's."""
    if a is b:
        return True
    kind = type(a)
    if kind is not type(b):
        return False
    if kind is tuple or kind is list:
        return _all_same(a, b)
    if kind is dict:
        return _same(list(a.items()), list(b.items()))
    if kind is float or kind is complex:
        return repr(a) == repr(b)
    if dataclasses.is_dataclass(kind):
        return all(_same(getattr(a, f.name, None), getattr(b, f.name, None))
                   for f in dataclasses.fields(kind))
    return True


def _sorted(spec: Any) -> Any:
    """The structure whose dictionaries have their keys in order."""
    def node(x: Any) -> Any:
        if type(x) not in (dict, collections.defaultdict):
            return x
        try:
            items = sorted(x.items(), key=lambda pair: pair[0])
        except TypeError:
            raise KeysError from None
        return (collections.defaultdict(x.default_factory, items)
                if isinstance(x, collections.defaultdict) else dict(items))

    if not _has_dictionary(spec):
        return spec
    try:
        # (as JAX does: a class may take numbers for what is static of it: distrax's)
        made = spec.traverse([object() for _ in range(spec.num_leaves)], node)
    except KeysError:
        raise ValueError(
            "Comparator raised exception while sorting pytree dictionary keys.\n"
            "  Fix: use keys of one type, for example strings.") from None
    except Exception:  # a class that refuses these leaves: its tree keeps the order it has
        return spec
    found = optree.tree_structure(made, namespace=NAMESPACE)
    return found if found.num_leaves == spec.num_leaves else spec


def _has_dictionary(spec: Any) -> bool:
    return spec.type in (dict, collections.defaultdict) or any(
        _has_dictionary(c) for c in spec.children())


class KeysError(Exception):
    """Keys of a dictionary that cannot be ordered."""


def _text(spec: Any) -> str:
    if spec.is_leaf():
        return "*"
    kind, parts = spec.type, [_text(c) for c in spec.children()]
    if kind is type(None):
        return "None"
    if kind is tuple:
        return f"({', '.join(parts)}{',' * (len(parts) == 1)})"
    inside = ", ".join(parts)
    if kind is list:
        return f"[{inside}]"
    if kind is dict:
        return f"{{{', '.join(f'{k!r}: {p}' for k, p in zip(spec.entries(), parts))}}}"
    return f"CustomNode({kind_text(spec)}, [{inside}])"


def kind_text(spec: Any) -> str:
    """The class of a node and what is static of it."""
    kind, keys = spec.type, tuple(spec.entries())
    if kind is collections.OrderedDict:
        return f"OrderedDict[{keys}]"
    if kind is collections.defaultdict:
        factory = spec.one_level().unflatten([0] * len(keys)).default_factory
        return f"defaultdict[({factory!r}, {keys})]"
    if issubclass(kind, tuple) and hasattr(kind, "_fields"):
        return f"namedtuple[{kind.__name__}]"
    found = re.match(r"PyTreeSpec\(CustomTreeNode\((.*), \[[*, ]*\]\)", repr(spec.one_level()),
                     re.S)
    if not found:
        return kind.__name__
    static = re.fullmatch(r"(\w+)\[(['\"])(.*)\2\]", found[1], re.S)  # words are shown as they are
    return f"{static[1]}[{static[3]}]" if static else found[1]
