"""Where a tree is no prefix of another, in words: what errors about places and axes show."""
from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from calque.trees import util as tree_util


def _found(name: str, prefix: Any, full: Any, is_leaf: Callable[[Any], bool] | None,
           path: tuple[Any, ...]) -> Iterator[str]:
    kind = type(prefix)
    if is_leaf is not None and is_leaf(prefix) or not tree_util.is_tree_node(kind):
        return
    where = f"at key path\n    {name}{tree_util.keystr(path)}\nAt that key path, the prefix pytree"
    if kind is not type(full):
        yield (f"different types {where} {name} has a subtree of type\n    {kind}\n"
               "but at the same key path the full pytree has a subtree of different type\n"
               f"    {type(full) if tree_util.is_tree_node(type(full)) else 'leaf'}.")
        return
    (mine, data), (theirs, other) = map(tree_util.flatten_one_level_with_keys, (prefix, full))
    if len(mine) != len(theirs):
        yield (f"different lengths of {kind.__name__} {where} {name} has a subtree of type "
               f"{kind.__name__} of length {len(mine)}, but the full pytree has a subtree of the "
               f"same type but of length {len(theirs)}.")
    elif data != other:
        yield (f"different pytree metadata {where} {name} has a subtree of type\n    {kind}\n"
               f"with metadata\n    {data}\nbut at the same key path the full pytree has a subtree "
               f"of the same type but with metadata\n    {other}.")
    else:
        for (key, a), (_, b) in zip(mine, theirs):
            yield from _found(name, a, b, is_leaf, (*path, key))


def mismatches(name: str, prefix: Any, full: Any, is_leaf: Callable[[Any], bool] | None = None
               ) -> str:
    """What of a tree is no prefix of another, with its key paths."""
    found = list(_found(name, prefix, full, is_leaf, ()))
    told = "\n\n".join(f"pytree structure error: {text}" for text in found)
    return f"Mismatch details ({len(found)} found):\n\n{told}"


def differences(a: Any, b: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, str, str, str]]:
    """Where the structures of two trees differ: (path, what a is, what b is, what differs)."""
    nodes = [tree_util.is_tree_node(type(x)) for x in (a, b)]
    if not any(nodes):
        return
    if not all(nodes) or type(a) is not type(b):
        mine, theirs = (f"a {type(x)}" if n else "a pytree leaf" for x, n in zip((a, b), nodes))
        yield path, mine, theirs, "their Python types differ"
        return
    (left, data), (right, other) = map(tree_util.flatten_one_level_with_keys, (a, b))
    if len(left) != len(right):
        sizes = len(left), len(right)
        if type(a) in (tuple, list):
            mine, theirs = (f"a {type(a).__name__} of length {n}" for n in sizes)
            yield path, mine, theirs, "the lengths do not match"
            return
        mine, theirs = (f"a {type(a)} with {n} child{'ren' * (n != 1)}" for n in sizes)
        keys = ", with the symmetric difference of key sets: " + str(
            set(a) ^ set(b)) if isinstance(a, dict) else ""
        yield path, mine, theirs, f"the numbers of children do not match{keys}"
    elif data != other:
        kind = f"a {type(a)} with pytree metadata"
        yield path, f"{kind} {data}", f"{kind} {other}", "the pytree node metadata does not match"
    else:
        for (key, x), (_, y) in zip(left, right):
            yield from differences(x, y, (*path, key))
