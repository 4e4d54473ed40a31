"""What a reader of arguments takes for the same structure (dispatch/signatures.reader); the
oracle is the same call by optree alone."""
from __future__ import annotations

import collections
import dataclasses
from typing import Any, NamedTuple

import numpy as np
import pytest

import calque
import calque.numpy as jnp
from calque import tree_util
from calque.dispatch import signatures


class Pair(NamedTuple):
    x: Any
    y: Any


@tree_util.register_pytree_node_class
class Box:
    """A node of any number of children, with data beside them."""

    def __init__(self, *children: Any, data: Any = None) -> None:
        self.children, self.data = children, data

    def tree_flatten(self) -> Any:
        return self.children, self.data

    @classmethod
    def tree_unflatten(cls, data: Any, children: Any) -> Any:
        return cls(*children, data=data)


class Smaller(Box):
    """Not registered: a leaf."""


@tree_util.register_dataclass
@dataclasses.dataclass
class State:
    params: Any
    step: Any
    name: str = dataclasses.field(default="", metadata={"static": True})


ONE, TWO = jnp.ones(2), jnp.arange(3.0)
SAME: list[tuple[Any, Any]] = [
    (Box(ONE, data="a"), Box(ONE + 1, data="a")),
    (Box(Box(ONE), {"k": Box(TWO, ONE)}), Box(Box(ONE), {"k": Box(TWO, ONE)})),
    (State({"w": ONE, "b": TWO}, 3, "sgd"), State({"w": ONE, "b": TWO}, 4, "sgd")),
    (State([Pair(ONE, None)], TWO, "x"), State([Pair(ONE, None)], TWO, "x")),
    (Pair(Box(), Box(ONE)), Pair(Box(), Box(ONE))),
]
OTHER: list[tuple[Any, Any]] = [
    (Box(ONE, data="a"), Box(ONE, data="b")),
    (Box(ONE), Box(ONE, TWO)),
    (Box(ONE, TWO), Box(ONE)),
    (Box(ONE), (ONE,)),
    (Box(ONE), Pair(ONE, ONE)),
    (Box(Box(ONE)), Box(ONE)),
    (Box(None, ONE), Box(ONE, None)),
    (State(ONE, 1, "a"), State(ONE, 1, "b")),
    (State(ONE, 1, "a"), Box(ONE, 1, data="a")),
    (Pair(ONE, TWO), [ONE, TWO]),
    ({"a": ONE}, {"b": ONE}),
    ({"a": ONE}, {"a": ONE, "b": ONE}),
]
CONFIG = "config"


@pytest.fixture(params=[200, 0], ids=["names", "lists"], autouse=True)
def leaves_with_names(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Few leaves have a name each in a reader's text, many are put into a list."""
    monkeypatch.setattr(signatures, "MOST_NAMES", request.param)


def made(value: Any) -> signatures.Reader:
    key = signatures.read("f", (value,), {}, CONFIG)[0]
    reader = signatures.reader((value,), {}, key[0])
    assert reader is not None
    return reader


@pytest.mark.parametrize("old, new", SAME)
def test_the_same_structure_is_read(old: Any, new: Any) -> None:
    read = made(old)((new,), {}, CONFIG)
    want = signatures.read("f", (new,), {}, CONFIG)
    assert read is not None and read[0] == want[0] and hash(read[0]) == hash(want[0])
    assert len(read[2]) == len(want[2]) and all(a is b for a, b in zip(read[2], want[2]))


@pytest.mark.parametrize("old, new", OTHER)
def test_another_structure_is_not(old: Any, new: Any) -> None:
    assert made(old)((new,), {}, CONFIG) is None


def test_data_that_cannot_be_compared_is_left_to_the_caller() -> None:
    """Arrays compare element by element; a comparison may raise."""
    class Strange:
        def __eq__(self, other: object) -> bool:
            raise RuntimeError("not me")

        def __hash__(self) -> int:
            return 1

    strange = Strange()
    read = made(Box(ONE, data=strange))
    assert read((Box(ONE, data=strange),), {}, CONFIG) is not None
    assert read((Box(ONE, data=Strange()),), {}, CONFIG) is None


def test_a_class_that_raises_is_asked_once_more() -> None:
    fails = []

    @tree_util.register_pytree_node_class
    class Moody:
        def __init__(self, x: Any) -> None:
            self.x = x

        def tree_flatten(self) -> Any:
            if fails:
                raise ValueError(fails[0])
            return (self.x,), None

        @classmethod
        def tree_unflatten(cls, data: Any, children: Any) -> Any:
            return cls(*children)

    f = calque.jit(lambda m: m.x + 1)
    for _ in range(6):
        np.testing.assert_array_equal(f(Moody(ONE)), [2, 2])
    fails.append("today not")
    with pytest.raises(ValueError, match="today not"):
        f(Moody(ONE))


def test_jitted_functions_see_each_difference() -> None:
    """Called often enough to have a reader, then with others in between."""
    f = calque.jit(lambda b: b.children[0] * {"two": 2, "three": 3}.get(b.data, 1))
    for _ in range(3):
        for data, want in (("two", 2), ("three", 3), (None, 1), ("two", 2)):
            for _ in range(3):
                np.testing.assert_array_equal(f(Box(ONE, data=data)), [want, want])
    state = State({"w": ONE}, jnp.int32(0), "s")
    step = calque.jit(lambda s: State({"w": s.params["w"] * 2}, s.step + 1, s.name))
    for _ in range(8):
        state = step(state)
    assert state.step == 8 and state.name == "s"
    np.testing.assert_array_equal(state.params["w"], [256, 256])


def test_ordered_dictionaries_have_no_reader() -> None:
    value = collections.OrderedDict(a=ONE)
    key = signatures.read("f", (value,), {}, CONFIG)[0]
    assert signatures.reader((value,), {}, key[0]) is None


def test_a_subclass_of_a_node_is_no_node() -> None:
    assert made(Box(ONE))((Smaller(ONE),), {}, CONFIG) is None


def test_compiled_functions_learn_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also of structures without a reader, and wrong calls are refused as before."""
    asked = []
    real = signatures.reader
    monkeypatch.setattr(signatures, "reader", lambda *a, **k: (asked.append(a), real(*a, **k))[1])
    for value, other in ((collections.OrderedDict(a=ONE), collections.OrderedDict(b=ONE)),
                         ([ONE] * 300, [ONE] * 299), (Box(ONE, data=1), Box(ONE, data=2))):
        run = calque.jit(lambda v: sum(tree_util.tree_leaves(v))).lower(value).compile()
        asked.clear()
        for _ in range(4):
            np.testing.assert_array_equal(run(value), len(tree_util.tree_leaves(value)) * ONE)
            with pytest.raises(TypeError, match="input pytree"):
                run(other)
        assert len(asked) == 1
    run = calque.jit(lambda x, y: x + y).lower(ONE, 1.0).compile()
    for y in (1.0, 2.5, -1.0):
        np.testing.assert_array_equal(run(ONE, y), np.ones(2) + y)
    with pytest.raises(TypeError, match="compiled with"):
        run(TWO, 1.0)
    gone = jnp.ones(2)
    gone.delete()
    with pytest.raises(RuntimeError, match="deleted"):
        run(gone, 1.0)
    with calque.debug_nans(True), pytest.raises(FloatingPointError):
        run(ONE * np.nan, 1.0)


# ---- random structures
def tree(rng: np.random.Generator, depth: int) -> Any:
    """A random tree of arrays, numbers and NumPy's arrays."""
    kind = rng.integers(9) if depth else 8
    some = [tree(rng, depth - 1) for _ in range(rng.integers(5) if depth else 0)]
    match kind:
        case 0 | 1:
            return some
        case 2:
            return tuple(some)
        case 3 | 4:
            return dict(zip(rng.permutation(list("abcdefgh")).tolist(), some))
        case 5:
            return Pair(tree(rng, depth - 1), some)
        case 6:
            return Box(*some, data=int(rng.integers(2)))
        case 7:
            return None
    leaf = rng.integers(12)
    return (2.5 if leaf == 0 else np.ones(2) if leaf == 1 else True if leaf == 2 else
            jnp.arange(int(leaf)))


def changed(rng: np.random.Generator, value: Any) -> Any:
    """The same tree with one of its nodes, or leaves, made another."""
    if isinstance(value, (list, tuple)) and not isinstance(value, Pair) and value:
        i = int(rng.integers(len(value) + 1))
        if i == len(value):
            return value[:-1] if rng.integers(2) else type(value)((*value, ONE))
        return type(value)(changed(rng, x) if i == k else x for k, x in enumerate(value))
    if isinstance(value, dict) and value:
        key = list(value)[rng.integers(len(value))]
        rest = {k: v for k, v in value.items() if k != key}
        return rest if rng.integers(3) == 0 else {**rest, key: changed(rng, value[key])}
    if isinstance(value, Pair):
        return Pair(changed(rng, value.x), value.y) if rng.integers(2) else (value.x, value.y)
    return [None, (), ONE, [ONE], 1.0, {}, Box(ONE), np.zeros(1)][rng.integers(8)]


@pytest.mark.parametrize("seed", range(40))
def test_random_structures_are_read_or_left(seed: int) -> None:
    """A reader gives what optree's way gives, or nothing: of its own structure always."""
    rng = np.random.default_rng(seed)
    value: Any = ()
    while len(tree_util.tree_leaves(value)) < 2:
        value = tuple(tree(rng, 4) for _ in range(rng.integers(1, 4)))
    if all(tree_util.treedef_is_leaf(tree_util.tree_structure(x)) for x in value):
        value = (value,)
    kwargs = {"more": tree(rng, 2)} if rng.integers(2) else {}
    key = signatures.read("f", value, kwargs, CONFIG)[0]
    reader = signatures.reader(value, kwargs, key[0])
    assert reader is not None
    for others in (value, *[changed(rng, value) for _ in range(12)]):
        args = others if isinstance(others, tuple) else (others,)
        want, read = signatures.read("f", args, kwargs, CONFIG), reader(args, kwargs, CONFIG)
        assert read is not None or others is not value
        if read is not None:
            assert read[0] == want[0] and len(read[1]) == len(want[1])
            assert all(a is b for a, b in zip(read[2], want[2], strict=True))
            assert all(a.shape == b.shape for a, b in zip(read[1], want[1]))


def test_steps_of_many_leaves_in_a_row() -> None:
    """Donated or not, with a number beside them: long enough for a reader, and then another
    structure; the oracle is NumPy."""
    params = {f"layer{i}": {"w": jnp.full(3, i, jnp.float32), "b": jnp.float32(i)}
              for i in range(130)}
    for donated in ((), (0,)):
        step = calque.jit(lambda p, rate: tree_util.tree_map(lambda x: x - rate, p),
                          donate_argnums=donated)
        state = tree_util.tree_map(jnp.copy, params)
        for _ in range(34):
            state = step(state, 0.5)
        calque.block_until_ready([state, {"n": (1, None)}])
        for i in range(130):
            np.testing.assert_array_equal(state[f"layer{i}"]["w"], np.full(3, i - 17.0))
            assert state[f"layer{i}"]["b"] == i - 17
        del state["layer7"]["b"]
        np.testing.assert_array_equal(step(state, 1.0)["layer7"]["w"], np.full(3, 7 - 18.0))


def test_waiting_finds_what_was_deleted_and_what_failed() -> None:
    """At any depth of a tree of lists, dictionaries and other nodes."""
    for at in range(4):
        gone = jnp.ones(2) + 1
        gone.delete()
        for tree_of in (lambda x: [[ONE, x]], lambda x: {"a": {"b": (x,)}}, lambda x: Box([x]),
                        lambda x: (Pair(1, x), ONE)):
            with pytest.raises(RuntimeError, match="deleted"):
                calque.block_until_ready([ONE] * at + [tree_of(gone)])
    endless: list[Any] = [ONE]
    endless.append(endless)
    with pytest.raises(RecursionError):
        calque.block_until_ready(endless)
