"""What jax.tree_util says and refuses, as jax 0.10.2 was seen to: keys, Partials, messages."""
from __future__ import annotations

import dataclasses
import functools
from typing import Any

import numpy as np
import pytest

import calque
import calque.numpy as jnp
from calque import tree_util
from calque.flatten_util import ravel_pytree


@tree_util.register_pytree_with_keys_class
class Named:
    def __init__(self, x: Any, y: Any) -> None:
        self.x, self.y = x, y

    def tree_flatten_with_keys(self) -> Any:
        return (("x", self.x), (tree_util.GetAttrKey("y"), self.y)), "static"

    @classmethod
    def tree_unflatten(cls, _: Any, children: Any) -> Named:
        return cls(*children)


def test_keys_of_a_class_are_shown_as_they_are() -> None:
    tree = [Named(12, {"a": Named(1, ())}), 5]
    paths, structure = tree_util.tree_flatten_with_path(tree)
    assert [(tree_util.keystr(p), leaf) for p, leaf in paths] == [
        ("[0]x", 12), ("[0].y['a']x", 1), ("[1]", 5)]
    assert paths[0][0] == (tree_util.SequenceKey(0), "x")
    assert tree_util.flatten_one_level_with_keys(Named(1, 1))[0] == (
        ("x", 1), (tree_util.GetAttrKey("y"), 1))
    assert structure == tree_util.tree_structure([Named(0, {"a": Named(0, ())}), 0])
    assert hash(structure) == hash(tree_util.tree_structure([Named(0, {"a": Named(0, ())}), 0]))
    assert "Named[static], [*, " in str(structure)
    keys = [tree_util.SequenceKey(1), tree_util.DictKey(1), tree_util.FlattenedIndexKey(1)]
    assert len(set(keys)) == len({hash(k) for k in keys}) == 3


def test_partials_of_partials() -> None:
    def f(*args: Any) -> Any:
        return args
    inner = functools.partial(f, 1)
    p, q = tree_util.Partial(inner, 2), tree_util.Partial(inner, 3)
    assert p.args == (2,) and p(4) == (1, 2, 4) and tree_util.tree_leaves(p) == [2]
    assert p.func == inner and inner == p.func == q.func and hash(p.func) == hash(q.func)
    assert tree_util.tree_structure(p) == tree_util.tree_structure(q)
    assert calque.jit(lambda p: p(4))(p) == (1, 2, 4)
    assert tree_util.tree_leaves(tree_util.Partial(tree_util.Partial(f, 1), 2)) == [1, 2]


def test_walks() -> None:
    leaves, structure = tree_util.tree_flatten({"b": [2, 3], "a": 1, "c": None})
    found = structure.walk(lambda parts, static: (static, parts), lambda x: -x, leaves)
    assert found == (["a", "b", "c"], (-1, (None, (-2, -3)), (None, ())))
    assert structure.walk(lambda parts, _: sum(parts), None, leaves) == 6


@pytest.mark.parametrize(("prefix", "tree", "text"), [
    ([1, 2], [7], r"^List arity mismatch: 1 != 2; list: \[7\]"),
    ((1,), (7, 8), r"^Tuple arity mismatch: 2 != 1; tuple: \(7, 8\)"),
    ({"a": 1}, {"b": 7}, r"^Dict key mismatch; expected keys: \['a'\]; present keys: \['b'\]"),
    ([[1]], [(7,)], r"^Expected list, got \(7,\)"), ({"a": 1}, [7], r"^Expected dict, got \[7\]"),
    ([(1,)], [{"a": 7}], r"^Expected tuple, got \{'a': 7\}")])
def test_what_is_no_prefix(prefix: Any, tree: Any, text: str) -> None:
    with pytest.raises(ValueError, match=text):
        tree_util.tree_structure(prefix).flatten_up_to(tree)


@pytest.mark.parametrize(("found", "text"), [
    ((7, 7), r"tuple where 'children' is iterable, got \(7, 7\)"), ("hello", "tuple, got 'hello'"),
    ((2, 3, 4), r"tuple, got \(2, 3, 4\)")])
def test_classes_that_are_taken_apart_wrongly(found: Any, text: str) -> None:
    class Wrong:
        pass
    tree_util.register_pytree_node(Wrong, lambda x: found, lambda aux, children: Wrong())
    with pytest.raises(ValueError, match=rf"should return a \(children, aux_data\) {text}"):
        tree_util.tree_flatten(Wrong())


@pytest.mark.parametrize(("fields", "error", "text"), [
    ((["x"], []), ValueError, r"Missing fields: \{'y'\}"),
    ((["x", "y"], ["z"]), ValueError, r"Unexpected fields: \{'z'\}"),
    ((["x", "y"], ["y"]), ValueError, r"Overlapping fields: \{'y'\}"),
    ((["x"], None), TypeError, "must both be specified when either is"),
    ((None, ["y"]), TypeError, "must both be specified when either is")])
def test_fields_of_dataclasses(fields: Any, error: type[Exception], text: str) -> None:
    @dataclasses.dataclass
    class Point:
        x: int
        y: int
        z: float = dataclasses.field(init=False)
    if "Unexpected" in text:
        fields = (["x", "y"], ["w", "z"][1:])
    with pytest.raises(error, match=text):
        tree_util.register_dataclass(Point, *fields)
    tree_util.register_dataclass(Point, ["x"], [], drop_fields=["y"])


def test_arrays_as_static_fields() -> None:
    @tree_util.register_dataclass
    @dataclasses.dataclass
    class Tree:
        x: Any = calque.tree.static()
    f = calque.jit(lambda t: 1)
    f(Tree(np.arange(4)))
    for _ in range(4):  # (the call that writes a reader of the structure, too)
        with pytest.raises(ValueError, match="Exception raised while checking equality of metad"):
            f(Tree(np.arange(4)))
    assert tree_util.tree_leaves(tree_util.tree_map(lambda x: x, (Tree(np.arange(4)), 1))) == [1]


def test_unravelling() -> None:
    seen: list[int] = []

    def run(flat: Any, unravel: Any) -> Any:
        seen.append(1)
        return unravel(flat + 1)
    jitted = calque.jit(run, static_argnums=1)
    for k in range(2):
        flat, unravel = ravel_pytree((jnp.full(2, k), jnp.full(1, 2 * k)))
        assert jitted(flat, unravel)[1] == 2 * k + 1
    assert len(seen) == 1
    assert ravel_pytree(jnp.arange(3.0))[1](jnp.arange(3)).dtype == jnp.int32
    with pytest.raises(TypeError, match="given array of dtype int32, but expected dtype float32"):
        ravel_pytree((jnp.arange(3), jnp.arange(2.0)))[1](jnp.arange(5))


class Word(str):
    """Equal to the str."""


@tree_util.register_pytree_node_class
class Held:
    def __init__(self, x: Any, static: Any) -> None:
        self.x, self.static = x, static

    def tree_flatten(self) -> Any:
        return (self.x,), self.static

    @classmethod
    def tree_unflatten(cls, static: Any, children: Any) -> Held:
        return cls(*children, static)


@dataclasses.dataclass(frozen=True)
class Options:
    rate: Any


@pytest.mark.parametrize("first", [0, 1])
@pytest.mark.parametrize(("one", "other"), [
    (1, True), (1, 1.0), (0.0, -0.0), ("a", Word("a")), ((1, "x"), (True, "x")),
    (Options(1), Options(1.0)), (2j, complex(-0.0, 2)), ([1], [1.0])])
def test_equal_static_data_are_not_the_same(one: Any, other: Any, first: int) -> None:
    """What is static of a node was that of an equal tree that came before: 1 for True, 0.0 for
    -0.0, which a function then computed with."""
    if type(one) is list:
        one, other = map(tuple, (one, other))
    values = [one, other] if first == 0 else [other, one]
    for v in (*values, *values):
        seen: list[Any] = []
        held = Held(jnp.ones(2), v)
        found = [tree_util.tree_map(lambda x: x, {"k": [held]})["k"][0],
                 calque.jit(lambda h, seen=seen: seen.append(h.static) or h)(held),
                 calque.vmap(lambda h: h)(held),
                 calque.vjp(lambda h: h.x, held)[1](jnp.ones(2))[0]]
        for static in (*[f.static for f in found], *seen):
            assert type(static) is type(v) and repr(static) == repr(v)
    assert tree_util.tree_structure(Held(1, one)) == tree_util.tree_structure(Held(1, other))
