"""Signatures of calls of jitted functions: keys made of the arguments' structure and avals.

`read` takes any arguments.  Flattening a tree costs optree half a microsecond a node, and a loop
calls one function with one structure again and again: `reader` writes a Python function that takes
just that structure apart (tuples, named ones, lists, dictionaries, None, registered classes whose
data is equal; leaves are Arrays, numbers and NumPy arrays, each of the type it was), with keywords
and static arguments, in a third of it.  A structure is its short form in keys (`whole_tree`).
"""
from __future__ import annotations

import inspect
import operator
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import optree

from calque.core.avals import ShapedArray
from calque.core.errors import explain
from calque.core.formats import LaidOut
from calque.core.refs import AbstractRef, Ref
from calque.dispatch.array import Array, to_array
from calque.dispatch.host_arguments import NUMBERS, ndarray, number
from calque.dispatch.laid import LaidArray, laid_type
from calque.dispatch.sharded.partial_arrays import PartialArray
from calque.dispatch.sharded.spanning import GlobalArray
from calque.dispatch.tracing import argument_path, check_arguments
from calque.trees import util as tree_util

MOST_NAMES = 200  # leaves with a name of their own; more are taken in lists, node by node
MOST_NODES = 2000  # longer functions cost more to write than they save
SAVED = 30  # calls of many leaves that take as long as writing the function does
_NAMESPACE = tree_util.NAMESPACE  # type: ignore[attr-defined]
_KINDS = optree.PyTreeKind
# the key of a signature, (structure, configuration, *avals); buffers; leaves
Read = tuple[tuple[Any, ...], list[Any], Sequence[Any]]
Reader = Callable[[tuple[Any, ...], dict[str, Any], Any], Read | None]
_LEAVES = frozenset((Array, np.ndarray, *NUMBERS))

_NUMBERS = frozenset(NUMBERS)
# what a reader's text calls the types of leaves (NumPy's names may be those of Python's)
_TYPES: dict[str, type] = {"Array": Array, "array": np.ndarray,
                           **{f"number{i}": kind for i, kind in enumerate(NUMBERS)}}
_NAMES = {kind: name for name, kind in _TYPES.items()}


def read(name: str, args: tuple[Any, ...], kwargs: dict[str, Any], config: Any) -> Read:
    """The signature of a call of `name`; TypeError for leaves that are no arrays."""
    leaves: Any
    tree: Any
    if not kwargs and all([type(x) in _LEAVES for x in args]):
        leaves, tree = args, len(args)
    elif kwargs:
        leaves, whole = optree.tree_flatten((args, kwargs), None, namespace=_NAMESPACE)
        tree = (whole,)
    else:  # half a microsecond less than with the empty dictionary
        leaves, tree = optree.tree_flatten(args, None, namespace=_NAMESPACE)
    signature: list[Any] = [tree, config]
    buffers: list[Any] = []
    checked = False
    for x in leaves:  # one loop: three comprehensions took three times as long
        if type(x) is not Array and type(x) is not GlobalArray and type(x) is not PartialArray:
            if type(x) is LaidArray:  # programs read its memory as it lies
                signature.append(laid_type(x, x.aval))
                buffers.append(x._memory)
                continue
            if not checked:  # all leaves at once
                check_arguments(name, leaves, whole_tree(tree), refs=True)
                checked = True
            if type(x) is Ref:
                signature.append(x.abstract)
                buffers.append(None)
                continue
            x = (number(x, config) if type(x) in _NUMBERS else
                 ndarray(x, config) if type(x) is np.ndarray else to_array(x))
        signature.append(x.aval)
        buffers.append(x._own or x._buffer)  # a pending array owns none yet
    return tuple(signature), buffers, leaves


def reader(args: tuple[Any, ...], kwargs: dict[str, Any], key: Any,
           static: tuple[Sequence[int], Sequence[str]] = ((), ()), calls: int = SAVED
           ) -> Reader | None:
    """A function that reads arguments structured like these, and says None to others; None where
    the structure has nodes of other kinds, or writing it costs more than so many calls save.  key:
    what stands for it in keys; static: positions and names of arguments that are no leaves, whose
    values are in the key.

    It is made of text, and what reaches the text is ours: words of the grammar below, x0, x1, ...,
    and numbers of children.  Types, keys of dicts and whatever else is a user's are bound as
    names in the namespace; their reprs are never written (tests/dispatch/test_jit.py tries)."""
    if tree_util.tree_structure((args, kwargs)).num_leaves > MOST_NAMES and (
            calls < SAVED or not kwargs and all([type(x) in _LEAVES for x in args])):
        return None
    made = _Source(args, kwargs, *static)
    if not made.plain:
        return None
    if made.named:
        avals = "".join(f"{x}.aval, " for x in made.arrays)
        buffers = ", ".join(f"{x}._own or {x}._buffer" for x in made.arrays)
        leaves = f"({''.join(f'{x}, ' for x in made.leaves)})"
    else:
        avals = "*[x.aval for x in arrays]"
        buffers, leaves = "x._own or x._buffer for x in arrays", "leaves"
    text = "\n".join([
        "def read(args, kwargs, config):", "    leaves = []" * (not made.named), "    try:",
        *[f"        {x}" for x in made.lines],
        "    except Exception:", "        return None",  # (what is a user's is asked once more)
        *[f"    {x}" for x in made.checks()],
        f"    return ((key, config, {made.static}{avals}), [{buffers}], {leaves})"])
    names = {"key": key, "number": number, "ndarray": ndarray, "kinds": {Array}, **_TYPES,
             **made.names}
    exec(compile(text, "<calque: arguments>", "exec"), names)
    return names["read"]


class _Source:
    """Lines that take `args` and `kwargs` apart into x0, x1, ... in the order of the leaves; many
    of them into the list `leaves`."""

    def __init__(self, args: tuple[Any, ...], kwargs: dict[str, Any], positions: Sequence[int],
                 fixed: Sequence[str]) -> None:
        self.lines = [f"if len(args) != {len(args)} or len(kwargs) != {len(kwargs)}: return None"]
        self.names: dict[str, Any] = {}  # keys of dictionaries, types
        self.leaves: list[str] = []
        self.kinds: list[type] = []
        self.nodes = 0
        by_place, by_name = [], []
        self.plain = True
        self.named = len(optree.tree_leaves((args, kwargs), namespace=_NAMESPACE)) <= MOST_NAMES
        for i, value in enumerate(args):
            if i in positions:
                by_place.append(f"({i}, type(args[{i}]), args[{i}])")
            else:
                self.argument(value, f"args[{i}]")
        for k in sorted(kwargs):
            name = self.bound(k)
            if k in fixed:
                by_name.append(f"({name}, type(kwargs[{name}]), kwargs[{name}])")
                self.lines.append(f"kwargs[{name}]")
            else:
                self.argument(kwargs[k], f"kwargs[{name}]")
        self.static = ""
        if positions or fixed:
            self.static = f"(({''.join(f'{x}, ' for x in by_place)}), " \
                          f"({''.join(f'{x}, ' for x in by_name)})), "
        self.plain = self.plain and bool(self.leaves) and self.nodes <= MOST_NODES
        self.arrays = [x if kind is Array else f"m{x}"
                       for x, kind in zip(self.leaves, self.kinds)]

    def checks(self) -> list[str]:
        """Lines that say None to leaves of other types, and make arrays of what is none."""
        asked: dict[str, list[str]] = {}
        made = []
        if not self.named:
            others = [(i, kind) for i, kind in enumerate(self.kinds) if kind is not Array]
            made.append("arrays = list(leaves)" if others else "arrays = leaves")
            for i, kind in others:
                made += [f"x = arrays[{i}]", f"if type(x) is not {_NAMES[kind]}: return None",
                         *_converted("x", f"arrays[{i}]", kind)]
            return [*made, "if set(map(type, arrays)) != kinds: return None"]
        for x, kind in zip(self.leaves, self.kinds):
            asked.setdefault(_NAMES[kind], []).append(x)
            if kind is not Array:
                made += _converted(x, f"m{x}", kind)
        tests = [" is ".join([kind, *[f"type({x})" for x in some]]) for kind, some in asked.items()]
        return [f"if not ({' and '.join(tests)}): return None", *made]

    def bound(self, value: Any) -> str:
        name = f"k{len(self.names)}"
        self.names[name] = value
        return name

    def argument(self, value: Any, here: str) -> None:
        leaves, tree = optree.tree_flatten(value, None, namespace=_NAMESPACE)
        first = len(self.leaves)
        self.leaves += [f"x{first + i}" for i in range(len(leaves))]
        self.kinds += [type(x) for x in leaves]
        if not all(type(x) in _LEAVES for x in leaves):
            self.plain = False
        if tree.kind == _KINDS.LEAF:
            self.lines.append(f"x{first} = {here}")
            self.take([f"x{first}"])
        elif self.plain:
            self.nodes += 1
            name = f"n{self.nodes}"
            self.lines.append(f"{name} = {here}")
            self.plain = self.node(tree, value, name, first)

    def take(self, names: Sequence[str]) -> None:
        """A line that puts these into the list, where the leaves go there."""
        if names and not self.named:
            self.lines.append(f"leaves += ({', '.join(names)},)")

    def node(self, tree: Any, value: Any, here: str, first: int) -> bool:
        """Lines for a node whose leaves begin at x{first}; False where it is of another kind."""
        if tree.kind == _KINDS.NONE:
            self.lines.append(f"if {here} is not None: return None")
            return True
        if tree.kind not in (_KINDS.TUPLE, _KINDS.LIST, _KINDS.DICT, _KINDS.NAMEDTUPLE,
                             _KINDS.CUSTOM):
            return False
        children = tree.children()
        places: list[str] = []
        leaves: list[str] = []  # those since the last node
        inner: list[tuple[list[str], tuple[Any, ...]]] = []  # (leaves before, node)
        self.lines.append(f"if type({here}) is not {self.bound(tree.type)}: return None")
        if tree.kind == _KINDS.CUSTOM:
            flatten = optree.register_pytree_node.get(tree.type, namespace=_NAMESPACE).flatten_func
            parts, data, *_ = flatten(value)
            values, known = list(parts), self.bound(data)
            self.lines += [f"{here}, data, *_ = {self.bound(flatten)}({here})",
                           f"if data is not {known} and not data == {known}: return None"]
        else:
            values = [value[k] for k in tree.entries()] if tree.kind == _KINDS.DICT else list(value)
        size = f"if len({here}) != {len(children)}: return None"
        iterator = tree.kind == _KINDS.CUSTOM and type(parts) not in (list, tuple)
        of_leaves = tree.num_leaves == tree.num_nodes - 1 > 1
        if of_leaves and not self.named and not iterator:
            if tree.kind == _KINDS.DICT:
                taken = f"{self.bound(operator.itemgetter(*tree.entries()))}({here})"
            else:
                taken = here
            self.lines += [size, f"leaves += {taken}"]
            return True
        for child, inside in zip(children, values, strict=True):
            if child.kind == _KINDS.LEAF:
                places.append(f"x{first}")
                leaves.append(places[-1])
            else:
                self.nodes += 1
                places.append(f"n{self.nodes}")
                inner.append((leaves, (child, inside, places[-1], first)))
                leaves = []
            first += child.num_leaves
        if tree.kind == _KINDS.DICT:
            self.lines.append(size)
            for place, k in zip(places, tree.entries()):
                self.lines.append(f"{place} = {here}[{self.bound(k)}]")
        else:  # (of another length: a ValueError)
            self.lines.append(f"[{', '.join(places)}] = {here}")
        for before, part in inner:
            self.take(before)
            if not self.node(*part):
                return False
        self.take(leaves)
        return True


def _converted(x: str, to: str, kind: type) -> list[str]:
    """Lines that make an array of a leaf of another type."""
    if kind is np.ndarray:
        return [f"if {x}.dtype.kind not in 'biufc': return None", f"{to} = ndarray({x}, config)"]
    return [f"{to} = number({x}, config)"]


# ---- structures in keys
_FLAT_TREES: dict[int, Any] = {}


def flat_tree(count: int) -> Any:
    """The structure of `count` positional arguments without structure."""
    found = _FLAT_TREES.get(count)
    if found is None:
        found = _FLAT_TREES[count] = tree_util.tree_structure(((0,) * count, {}))
    return found


_NO_KEYWORDS = tree_util.tree_structure({})


def whole_tree(tree: Any) -> Any:
    """The structure of (args, kwargs) from its short form in signatures: flat positional arguments
    are their number, other positional arguments their structure, keywords come in a 1-tuple."""
    if isinstance(tree, int):
        return flat_tree(tree)
    if isinstance(tree, tuple):
        return tree[0]
    return tree_util.treedef_tuple([tree, _NO_KEYWORDS])


def short_tree(tree: Any, keywords: bool) -> Any:
    """The short form of a structure of (args, kwargs)."""
    if keywords:
        return (tree,)
    return tree.num_leaves if tree == flat_tree(tree.num_leaves) else tree.children()[0]


# ---- what a signature has that others have not
_TYPED = (ShapedArray, AbstractRef, LaidOut)  # what stands for arguments


def distance(a: tuple[Any, ...], b: tuple[Any, ...]) -> int:
    """How much two signatures differ: a number to compare."""
    return int(abs(len(a) - len(b)) * 100 + sum(_apart(x, y) for x, y in zip(a, b)))


def _apart(x: Any, y: Any) -> int:
    """How much two parts of signatures differ; of arrays shape, dtype and weak type count apart."""
    if x is y or x == y:
        return 0
    if not (isinstance(x, ShapedArray) and isinstance(y, ShapedArray)):
        return 4
    return (x.shape != y.shape) + (len(x.shape) != len(y.shape)) + (x.dtype != y.dtype) + (
        x.weak_type != y.weak_type)


def differences(old: tuple[Any, ...], new: tuple[Any, ...]) -> list[str]:
    """In words, what of a new signature was not seen before."""
    found = []
    if old[0] != new[0]:
        return [f"the structure of the arguments is new: {whole_tree(new[0])}"]
    if old[1] != new[1]:
        found.append("the configuration changed")
    for i, (a, b) in enumerate(zip(old[2:], new[2:])):
        if a is b or a == b:
            continue
        if isinstance(b, _TYPED):
            where = argument_path(whole_tree(new[0]), i - sum(
                not isinstance(v, _TYPED) for v in new[2:2 + i]))
            found.append(f"{where} was {getattr(a, 'short', lambda a=a: a)()}, is {b.short()}"
                         + (" (weak)" if b.weak_type else ""))
        else:
            found.append(f"static values {b} are new")
    return found


def incomparable(name: str, static: bool, error: Exception) -> ValueError:
    """The error for arguments that cannot be compared with those of calls before; static: some are
    static arguments, else what is static of a node is meant."""
    said = f"{type(error).__name__}: {error}"
    if static:
        return ValueError(explain(
            "static arguments should be comparable using __eq__. The following error was raised "
            f"when comparing those of {name}: {said}",
            fix="give their class an __eq__ that returns True or False."))
    return ValueError(explain(
        "Exception raised while checking equality of metadata fields of pytree. "
        f"{name} got nodes that cannot be compared: {said}",
        fix="make arrays data fields, not static ones."))


_called: dict[Any, int] = {}  # code of functions -> how often a jit of it was called first


def first_call(fun: Any) -> str:
    """What is said of the first call of a jitted function: where jit is called anew for the same
    function, in a loop say, that too."""
    fun = inspect.unwrap(fun)
    code = getattr(fun, "__code__", None)
    if code is None:
        return "first call"
    count = _called[code] = _called.get(code, 0) + 1
    if count == 1:
        return "first call"
    return (f"first call, of the jit number {count} of the function at "
            f"{Path(code.co_filename).name}:{code.co_firstlineno}: call jit once, outside "
            "of the loop, and keep what it gives")
