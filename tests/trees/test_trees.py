"""Structures of trees: how they print, compare and build dictionaries; paths of leaves."""
from __future__ import annotations

import collections
import dataclasses
import operator
import pickle
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

import calque
from calque import tree, tree_util

Point = collections.namedtuple("Point", "x y")


class Box:
    """A node with static data."""

    def __init__(self, x: Any) -> None:
        self.x = x


tree_util.register_pytree_node(Box, lambda b: ((b.x,), ("aux", 1)), lambda aux, xs: Box(*xs))


def test_paths_of_dataclasses() -> None:
    @dataclasses.dataclass
    class Layer:
        w: Any
        b: Any
        name: str

    tree_util.register_dataclass(Layer, data_fields=["w", "b"], meta_fields=["name"])
    paths = [tree_util.keystr(p) for p, _ in
             tree_util.tree_flatten_with_path({"a": [Layer(1, (2, 3), "x")]})[0]]
    assert paths == ["['a'][0].w", "['a'][0].b[0]", "['a'][0].b[1]"]


# what str(jax.tree_util.tree_structure(tree)) is in jax 0.10.2
@pytest.mark.parametrize("tree, text", [
    (1, "*"), (None, "None"), ((), "()"), ((1,), "(*,)"), ([], "[]"), ({}, "{}"),
    ({"b": 1, "a": (2, None)}, "{'a': (*, None), 'b': *}"), ({1: [2, 3]}, "{1: [*, *]}"),
    (collections.OrderedDict(z=1, a=2), "CustomNode(OrderedDict[('z', 'a')], [*, *])"),
    (collections.defaultdict(int, {"b": 1, "a": 2}),
     "CustomNode(defaultdict[(<class 'int'>, ('a', 'b'))], [*, *])"),
    (Point(1, {"z": 2}), "CustomNode(namedtuple[Point], [*, {'z': *}])"),
    (Box([1]), "CustomNode(Box[('aux', 1)], [[*]])"),
    (tree_util.Partial(print, 1, k=2),
     "CustomNode(Partial[<built-in function print>], [(*,), {'k': *}])")])
def test_structures_print_as_jaxs(tree: Any, text: str) -> None:
    assert str(tree_util.tree_structure(tree)) == f"PyTreeDef({text})"


def test_dictionaries_are_built_with_sorted_keys() -> None:
    tree = {"b": 1.0, "a": [{"z": 2.0, "y": 3.0}], "c": Box({"q": 4.0, "p": 5.0})}
    for made in (tree_util.tree_map(lambda x: x, tree), calque.jit(lambda t: t)(tree),
                 calque.grad(lambda t: sum(tree_util.tree_leaves(t)))(tree)):
        assert list(made) == ["a", "b", "c"] and list(made["a"][0]) == ["y", "z"]
        assert list(made["c"].x) == ["p", "q"]
    seen: list[list[str]] = []
    calque.jit(lambda t: seen.append(list(t)))(tree)
    assert seen == [["a", "b", "c"]]
    ordered = collections.OrderedDict(z=1, a=2)
    assert list(tree_util.tree_map(lambda x: x, ordered)) == ["z", "a"]
    made = tree_util.tree_map(lambda x: x, collections.defaultdict(list, {"b": 1, "a": 2}))
    assert list(made) == ["a", "b"] and made.default_factory is list


def test_structures_compare_and_compose() -> None:
    a = tree_util.tree_structure({"a": 1, "b": (2, 3)})
    b = tree_util.tree_structure({"b": (0, 0), "a": 0})
    assert a == b and hash(a) == hash(b) and a != tree_util.tree_structure(1)
    assert pickle.loads(pickle.dumps(a)) == a
    assert [str(c) for c in a.children()] == ["PyTreeDef(*)", "PyTreeDef((*, *))"]
    assert str(a.compose(tree_util.tree_structure([1, 2]))) == (
        "PyTreeDef({'a': [*, *], 'b': ([*, *], [*, *])})")
    assert a.node_data() == (dict, ["a", "b"]) and a.child(0).node_data() is None
    assert (a.num_leaves, a.num_nodes) == (3, 5)
    with pytest.raises(ValueError):
        a.unflatten([1])


def test_keys_that_cannot_be_sorted() -> None:
    for f in (tree_util.tree_leaves, tree_util.tree_structure, calque.jit(lambda t: 0)):
        with pytest.raises(ValueError, match="(?s)while sorting pytree dictionary keys.*Fix"):
            f({1: 1, "a": 2})


def test_a_class_that_refuses_other_leaves() -> None:
    class Strict:
        def __init__(self, x: Any) -> None:
            if not isinstance(x["b"], str):
                raise TypeError("strings only")
            self.x = x

    tree_util.register_pytree_node(Strict, lambda s: ((s.x,), None), lambda _, xs: Strict(*xs))
    made = tree_util.tree_map(lambda x: x + "!", Strict({"b": "2", "a": "1"}))
    assert made.x == {"b": "2!", "a": "1!"}


def test_prefixes_are_spread() -> None:
    spread = tree_util.tree_broadcast
    assert spread(1, {"a": 2, "b": (3, None)}) == {"a": 1, "b": (1, None)}
    assert calque.tree.broadcast((1, 2), (0, {"a": 0, "b": [0, 0]})) == (1, {"a": 2, "b": [2, 2]})
    assert spread((None,), (None,)) == (None,)
    assert spread((1, 2), (3, 4), is_leaf=lambda x: isinstance(x, tuple)) == ((1, 2), (1, 2))
    for prefix, full in (((1, 2), [3, 4]), ({"a": 1}, {"b": 1}), ((1, 2), (0,))):
        with pytest.raises(ValueError, match="pytree structure error.*no prefix"):
            spread(prefix, full)


def test_one_level_of_a_tree() -> None:
    one = tree_util.flatten_one_level
    pair = collections.namedtuple("pair", "x y")
    assert one([1, [2]]) == ([1, [2]], None) and one(None) == ((), None)
    assert one((1, (2, 3))) == ((1, (2, 3)), None)
    assert one({"b": 1, "a": 2}) == ((2, 1), ("a", "b"))
    assert one(collections.OrderedDict(b=1, a=2)) == ([1, 2], ("b", "a"))
    assert one(pair(1, 2)) == ([1, 2], pair)
    with pytest.raises(ValueError, match="can't tree-flatten type: <class 'int'>"):
        one(3)
    nodes = (list, tuple, dict, type(None), pair, collections.OrderedDict)
    assert all(tree_util.is_tree_node(k) for k in nodes)
    assert not any(tree_util.is_tree_node(k) for k in (float, str, calque.Array, 3))


def test_reductions_of_leaves() -> None:
    assert tree.reduce(operator.add, [1, 2, [3]], initializer=10) == 16
    assert tree.reduce(operator.add, [], initializer=10) == 10
    assert tree.reduce(lambda a, x: [*a, x], [1, [2]], [], lambda x: x == [2]) == [1, [2]]
    with pytest.raises(TypeError):
        tree.reduce(operator.add, [1, 2], None)
    order = []

    def note(x, y):
        order.append((x, y))
        return x + y

    assert tree.reduce_associative(note, list("abcde")) == "abcde"
    assert order == [("a", "b"), ("c", "d"), ("ab", "cd"), ("abcd", "e")]
    assert tree.reduce_associative(note, [], identity="") == ""
    with pytest.raises(TypeError, match="Must specify identity"):
        tree.reduce_associative(note, [])


def test_keys_are_asked_for_only_where_wanted() -> None:
    """A call flattens its arguments each time; keys take longer than leaves."""
    asked: list[str] = []

    class Named:
        def __init__(self, x: Any) -> None:
            self.x = x

        def tree_flatten(self) -> Any:
            asked.append("leaves")
            return (self.x,), None

        def tree_flatten_with_keys(self) -> Any:
            asked.append("keys")
            return ((tree_util.GetAttrKey("x"), self.x),), None

        @classmethod
        def tree_unflatten(cls, aux: Any, children: Any) -> Any:
            return cls(*children)

    tree_util.register_pytree_with_keys_class(Named)
    structure = tree_util.tree_structure([Named(1), 2])
    assert tree_util.tree_leaves(Named(1)) == [1] and set(asked) == {"leaves"}
    assert calque.jit(lambda n: n.x + 1)(Named(1)) == 2 and set(asked) == {"leaves"}
    pairs, same = tree_util.tree_flatten_with_path([Named(1), 2])
    assert [tree_util.keystr(p) for p, _ in pairs] == ["[0].x", "[1]"] and "keys" in asked
    assert same == structure and hash(same) == hash(structure)

    def fails(x: Any) -> Any:
        raise RuntimeError("keys")

    class Broken(Named):
        tree_flatten_with_keys = fails

    tree_util.register_pytree_with_keys_class(Broken)
    with pytest.raises(RuntimeError, match="keys"):
        tree_util.tree_flatten_with_path(Broken(1))
    asked.clear()
    tree_util.tree_leaves(Named(1))  # the failure has left nothing on
    assert asked == ["leaves"]


def test_a_class_that_takes_numbers_for_what_is_static() -> None:
    """Its structure is the same whatever stands for its leaves meanwhile (distrax's classes)."""
    @tree_util.register_pytree_node_class
    class Parts:
        def __init__(self, **parts: Any) -> None:
            self.__dict__ = parts

        def tree_flatten(self) -> Any:
            leaves, tree = tree_util.tree_flatten(self.__dict__)
            data = [not isinstance(x, (bool, int, float)) for x in leaves]
            return ([x if d else None for x, d in zip(leaves, data)],
                    ([None if d else x for x, d in zip(leaves, data)], data, tree))

        @classmethod
        def tree_unflatten(cls, aux: Any, children: Any) -> Any:
            static, data, tree = aux
            return cls(**tree_util.tree_unflatten(tree, [
                x if d else s for x, s, d in zip(children, static, data)]))

    tree = Parts(inner=[Parts(x=np.ones(2, np.float32), n=3, none=None)], k=2)
    leaves, treedef = tree_util.tree_flatten(tree)
    assert len(leaves) == treedef.num_leaves == 1
    again = tree_util.tree_unflatten(treedef, leaves)
    assert again.k == 2 and again.inner[0].n == 3 and again.inner[0].x is leaves[0]
    got = calque.jit(lambda t: t.inner[0].x * t.k + t.inner[0].n)(tree)
    np.testing.assert_array_equal(got, np.full(2, 5, np.float32))


def test_trees_in_exit_handlers_that_were_there_before() -> None:
    """Those run last, when optree's own handlers would have emptied its registry."""
    program = """
import atexit
def last():
    import collections
    class P(collections.namedtuple("P", "x y")): pass
    print(calque.tree.leaves({"a": 1, "b": (2, [3, None], P(4, 5))}))
atexit.register(last)
import calque
"""
    done = subprocess.run([sys.executable, "-c", program], text=True, capture_output=True,
                          check=True)
    assert (done.stdout, done.stderr) == ("[1, 2, 3, 4, 5]\n", "")
