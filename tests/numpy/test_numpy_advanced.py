"""Indexing with arrays and the functions on top of it, against NumPy: eager, compiled, updates."""
from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from support.harness import both_ways, by_each, numpys

import calque
import calque.numpy as jnp
from calque.core.errors import ConcretizationTypeError, NonConcreteBooleanIndexError

X = np.arange(4 * 5 * 3 * 2, dtype=np.float32).reshape(4, 5, 3, 2)
A, B = np.array([0, 2, -1]), np.array([[1], [-2]])
MASK = X[:, :, 0, 0] % 4 == 0
INDICES: list[Any] = [
    A, (A,), (slice(None), A), (..., A % 2), (A, A), (A, 1), (0, A), (A, slice(None), A),
    (0, slice(None), A), (slice(None), A, None, 1), (slice(1, 3), A, B),
    (B, slice(None, None, 2), A), (None, A, None), (A, None, A), (..., A[:2] % 2, None),
    ([0, 2], [1, 1]), ([[0], [3]], [1, 2]),
    (slice(None, None, -1), A), (slice(None), B, slice(2, None, -1), A[:1] % 2), MASK,
    (MASK, 1), (MASK, ..., 0), (slice(None), MASK[0]), MASK[:, 0], (MASK[:, 0], slice(0, 2)),
    True, (True, 0), np.bool_(True), (None, False), (MASK[:, 0], MASK[1]),
    (slice(None), A, ..., A % 2), np.zeros(0, int), (slice(0, 2), np.zeros((0, 2), int)),
    np.zeros(4, bool), X > 50, A.astype(np.int8), (A % 4).astype(np.uint16), (A, np.int64(1))]


def grown(seed: int, count: int) -> list[Any]:
    """Random indices of every kind that NumPy accepts."""
    rng, pick = np.random.default_rng(seed), random.Random(seed)
    found: list[Any] = []
    while len(found) < count:
        shape = pick.choice([(2,), (3, 2), (1,), (2, 1, 2)])
        items: list[Any] = []
        axis = 0
        while axis < X.ndim and pick.random() < 0.85:
            n = X.shape[axis]
            kind = pick.choice(["int", "slice", "slice", "new", "array", "row", "list", "..."])
            if kind == "...":
                if not any(i is Ellipsis for i in items):
                    items.append(...)
                continue
            items.append({
                "int": lambda n=n: pick.randrange(-n, n), "new": lambda: None,
                "slice": lambda n=n: slice(pick.choice([None, 0, 1, -2]),
                                           pick.choice([None, n, -1]),
                                           pick.choice([None, 1, 2, -1, -2])),
                "array": lambda n=n, s=shape: rng.integers(-n, n, s),
                "row": lambda n=n, s=shape: rng.integers(-n, n, s[-1:]),
                "list": lambda n=n, s=shape: rng.integers(-n, n, s[-1:]).tolist()}[kind]())
            axis += kind != "new"
        try:
            _ = X[tuple(items)]
        except IndexError:
            continue
        found.append(tuple(items))
    return found


EVERY = [*INDICES, *grown(1, 40)]


def same(got: Any, want: Any, what: Any) -> None:
    assert got.shape == want.shape and np.array_equal(got, want), (what, got.shape, want.shape)


def test_eager_indices() -> None:
    x = jnp.asarray(X)
    for i in EVERY:
        same(x[i], X[i], i)


@pytest.mark.parametrize("jit, indices", by_each(EVERY, 0.1))
def test_indices_in_a_program(jit: Any, indices: list[Any]) -> None:
    for i, got in zip(indices, jit(lambda x: [x[k] for k in indices])(X)):
        same(got, X[i], i)


@pytest.mark.parametrize("jit, indices", by_each(EVERY, 0.1))
def test_traced_index_arrays(jit: Any, indices: list[Any]) -> None:
    def parted(index: Any) -> tuple[list[Any], list[Any]]:
        """The index with its integer arrays taken out."""
        arrays: list[Any] = []
        items: list[Any] = []
        for item in index if isinstance(index, tuple) else (index,):
            if isinstance(item, (list, np.ndarray)) and np.asarray(item).dtype.kind in "iu":
                arrays.append(np.asarray(item))
                item = len(arrays) - 1, "array"
            items.append(item)
        return items, arrays

    taken = [p for p in map(parted, indices) if p[1]]

    def f(x: Any, every: Any) -> Any:
        return [x[tuple(arrays[i[0]] if isinstance(i, tuple) else i for i in items)]
                for (items, _), arrays in zip(taken, every)]

    for (items, arrays), got in zip(taken, jit(f)(X, [a for _, a in taken])):
        index = tuple(arrays[i[0]] if isinstance(i, tuple) else i for i in items)
        same(got, X[index], index)


UPDATES: dict[str, Callable[[Any, Any, Any], None]] = {
    "set": lambda x, i, v: x.__setitem__(i, v), "add": np.add.at, "subtract": np.subtract.at,
    "multiply": np.multiply.at, "min": np.minimum.at, "max": np.maximum.at}


@pytest.mark.parametrize("jit, few", [
    (numpys, {}), (calque.jit, {
        "set": 14, "add": 27, "subtract": 60, "multiply": 60, "min": 44, "max": 60}),
    pytest.param(calque.jit, {}, marks=pytest.mark.slow)], ids=["numpy", "some", "all"])
def test_updates(jit: Any, few: dict[str, int]) -> None:
    rng = np.random.default_rng(2)
    values = [rng.integers(1, 9, X[i].shape).astype(np.float32) for i in EVERY]

    def f(x: Any, every: Any) -> Any:
        return {n: [getattr(x.at[i], n)(v) for i, v in list(zip(EVERY, every))[::few.get(n, 1)]]
                for n in UPDATES}

    for name, rows in jit(f)(X, values).items():
        for got, (i, v) in zip(rows, list(zip(EVERY, values))[::few.get(name, 1)]):
            want = X.copy()
            if not (isinstance(i, bool) and name != "set"):
                UPDATES[name](want, i, v)
                same(got, want, (name, i))


def test_scalars_and_other_updates() -> None:
    x = jnp.arange(1.0, 5.0)
    i = np.array([1, 1, 3])
    assert x.at[i].divide(2).tolist() == [1, 0.5, 3, 2]
    assert x.at[i].power(2).tolist() == [1, 16, 3, 16]
    assert x.at[i].apply(lambda v: v * 2 + 1).tolist() == [1, 11, 3, 9]
    assert calque.jit(lambda x, i: x.at[i].apply(lambda v: v * 2))(x, i).tolist() == [1, 8, 3, 8]
    assert x.at[x > 2].set(0).tolist() == [1, 2, 0, 0]
    assert x.at[jnp.array([True, False, True, False])].add(10).tolist() == [11, 2, 13, 4]
    with pytest.raises(TypeError, match="func must return a scalar of dtype float32"):
        x.at[i].apply(lambda v: v.astype(int))


def test_modes_outside() -> None:
    x, i = jnp.arange(4.0), np.array([5, -1, -6, 1])
    for j in (i, jnp.asarray(i)):
        assert x[j].tolist() == [3, 3, 0, 1]
        assert np.array_equal(x.at[j].get(mode="fill"), [np.nan, 3, np.nan, 1], equal_nan=True)
        assert x.at[j].get(mode="fill", fill_value=7).tolist() == [7, 3, 7, 1]
        assert x.at[j].get(mode="clip", wrap_negative_indices=False).tolist() == [3, 0, 0, 1]
        assert x.at[j].set(9).tolist() == [0, 9, 2, 9]
        assert x.at[j].set(9, mode="clip").tolist() == [9, 9, 2, 9]
        assert x.at[j].set(9, wrap_negative_indices=False).tolist() == [0, 9, 2, 3]
        assert x.at[j].add(1, mode="promise_in_bounds").tolist() == [0, 2, 2, 4]
    f = calque.jit(lambda x, i: (x[i], x.at[i].get(mode="fill", fill_value=-1), x.at[i].add(1)))
    a, b, c = f(np.arange(4), i)
    assert (a.tolist(), b.tolist(), c.tolist()) == ([3, 3, 0, 1], [-1, 3, -1, 1], [0, 2, 2, 4])
    assert jnp.arange(3).at[np.array([4])].get(mode="fill").tolist() == [-2**31]
    assert jnp.zeros((0, 3)).at[np.array([0])].set(1).shape == (0, 3)


def test_bad_indices() -> None:
    x = jnp.asarray(X)
    for index, kind, text in [
            ((A, np.arange(2)), ValueError, r"shapes=\[\(3,\), \(2,\)\]"),
            (np.ones(3, bool), IndexError, r"got \(3,\), expected \[4\]"),
            (np.array([0.5]), TypeError, "got indexer with type float64"),
            ((A, ..., A, ...), IndexError, "single ellipsis"),
            ((A, 0, 0, 0, 0), IndexError, "Too many indices"),
            (([0, "a"],), TypeError, "Indexer|string")]:
        for read in (lambda i: x[i], lambda i: x.at[i].set(0)):
            with pytest.raises(kind, match=text):
                read(index)
    with pytest.raises(NonConcreteBooleanIndexError, match=r"got bool\[4,5\]"):
        calque.jit(lambda x, m: x[m])(x, MASK)
    with pytest.raises(ValueError, match="Incompatible shapes|Cannot broadcast"):
        x.at[A].set(jnp.ones(7))


def test_derivatives_and_batches() -> None:
    x = np.arange(6.0, dtype=np.float32)
    i = np.array([1, 1, 4])

    def f(x: Any, v: Any) -> Any:
        return (x.at[i].set(v) ** 2).sum() + (x[i] * v).sum()

    g, h = calque.grad(f, (0, 1))(x, x[:3])
    assert g.tolist() == [0, 1, 4, 6, 2, 10] and h.tolist() == [1, 3, 8]
    j = np.array([[0, 1], [1, -1], [2, 2], [0, 4]])
    rows = calque.vmap(lambda r, j: r[j])(X[:, :, 0, 0], j)
    same(rows, X[np.arange(4)[:, None], j, 0, 0], "vmap")
    assert calque.jacfwd(lambda x: x[i])(x).shape == (3, 6)


# ---- functions
def check(name: str, *args: Any, **kwargs: Any) -> None:
    """The function of calque against NumPy's, eager and compiled."""
    want = getattr(np, name)(*args, **kwargs)
    mine = [jnp.asarray(a) if isinstance(a, np.ndarray) else a for a in args]
    for got in (getattr(jnp, name)(*mine, **kwargs),):
        for g, w in zip(got, want) if isinstance(want, tuple) else [(got, want)]:
            assert g.shape == w.shape and np.array_equal(g, w), name


def test_functions_as_in_numpy() -> None:
    y = X[:, :, 0, 0]
    check("take", y, A)
    check("take", y, B, axis=1)
    check("take", y, np.array([7, -9]), axis=0, mode="wrap")
    check("take", y, np.array([7, -9]), axis=0, mode="clip")
    check("take_along_axis", y, np.argsort(-y, 1), 1)
    check("take_along_axis", y, np.array([[1], [0], [2], [3]]), 1)
    check("take_along_axis", y, np.array([[1, 0, 2, 3, 1]]), 0)
    check("take_along_axis", y[:1], np.array([[1, 2], [3, 4], [0, 0]]), 1)
    check("choose", np.array([0, 1, 1]), [np.arange(3), np.arange(3) + 10])
    check("choose", np.array([0, 7, -2]), [np.arange(3), np.arange(3) + 10], mode="wrap")
    check("compress", np.array([True, False, True]), y, axis=1)
    check("compress", np.array([0, 1, 1]), y)
    check("extract", y > 40, y)
    check("nonzero", y > 40)
    check("flatnonzero", y > 40)
    check("argwhere", y > 40)
    check("where", y > 40)
    check("ix_", np.array([0, 2]), np.array([1, 3]))
    check("unravel_index", np.array([1, 7, 19]), (4, 5))
    check("ravel_multi_index", (np.array([0, 3]), np.array([1, 4])), (4, 5))
    check("ravel_multi_index", (np.array([0, 5]), np.array([1, 7])), (4, 5), mode="wrap", order="F")
    check("tril_indices", 3, 1, 4)
    check("triu_indices", 4, -1)
    check("diag_indices", 3, 3)
    check("mask_indices", 3, np.triu)
    check("piecewise", np.arange(6.0), [np.arange(6) < 2, np.arange(6) > 3], [-1, 5, 9])


def test_changed_copies() -> None:
    y = X[:, :, 0, 0].copy()
    for name, args in (("put", (np.array([0, -1, 7]), np.array([1.0, 2.0]))),
                       ("place", (y > 40, np.array([1, 2, 3], np.float32))),
                       ("fill_diagonal", (np.array([1.0, 2.0]),)),
                       ("put_along_axis", (np.argmax(y, 1)[:, None], 9.0, 1))):
        want = y.copy()
        getattr(np, name)(want, *args)
        same(getattr(jnp, name)(jnp.asarray(y), *args, inplace=False), want, name)
        with pytest.raises(ValueError, match="cannot modify arrays in-place"):
            getattr(jnp, name)(jnp.asarray(y), *args)


SIZED: list[tuple[Callable[[Any], Any], Any]] = [
    (lambda x: jnp.nonzero(x, size=4, fill_value=-1), ([0, 1, 1, -1], [1, 0, 2, -1])),
    (lambda x: jnp.nonzero(x, size=2), ([0, 1], [1, 0])),
    (lambda x: jnp.flatnonzero(x, size=5), [1, 3, 5, 0, 0]),
    (lambda x: jnp.argwhere(x, size=4, fill_value=(7, 8)), [[0, 1], [1, 0], [1, 2], [7, 8]]),
    (lambda x: jnp.where(x > 3, size=3), ([1, 1, 0], [0, 2, 0])),
    (lambda x: jnp.extract(x > 3, x, size=3, fill_value=9), [4, 5, 9]),
    (lambda x: jnp.compress(x[0] > 0, x, axis=1, size=2, fill_value=6), [[3, 6], [0, 6]])]


@pytest.mark.parametrize("jit, cases", by_each(SIZED, 0.25))
def test_sizes_under_jit(jit: Any, cases: list[tuple[Callable[[Any], Any], Any]]) -> None:
    x = np.array([[0, 3, 0], [4, 0, 5]])
    for got, (_, want) in zip(jit(lambda x: [c[0](x) for c in cases])(x), cases, strict=True):
        assert calque.tree.map(lambda v: v.tolist(), got) == want


def test_sizes_are_asked_for_under_jit() -> None:
    x = np.array([[0, 3, 0], [4, 0, 5]])
    for g in (jnp.nonzero, jnp.where, jnp.argwhere, jnp.flatnonzero):
        with pytest.raises(ConcretizationTypeError, match="size argument of jnp.nonzero must be"):
            calque.jit(g)(x)
    with pytest.raises(ConcretizationTypeError, match="mode='wrap'"):
        calque.jit(lambda a: jnp.choose(a, [1, 2]))(np.array([0]))


def test_errors_of_functions() -> None:
    x = jnp.arange(6).reshape(2, 3)
    cases: list[tuple[Callable[[], Any], type[Exception], str]] = [
        (lambda: jnp.take(x, jnp.array([0.5])), ValueError, "indices must have an integer type"),
        (lambda: jnp.take(x, [0]), TypeError, "take requires ndarray or scalar arguments"),
        (lambda: jnp.take(x, 0, mode="foo"), ValueError, "Invalid mode 'foo' for np.take"),
        (lambda: jnp.take(jnp.zeros(0), jnp.array([0])), IndexError, "from an empty axis"),
        (lambda: jnp.take_along_axis(x, jnp.array([0]), 1), ValueError, "1 vs. 2"),
        (lambda: jnp.take_along_axis(x, jnp.zeros((3, 1), int), 1), ValueError, "Incompatible"),
        (lambda: jnp.nonzero(1.0), ValueError, "Calling nonzero on 0d arrays"),
        (lambda: jnp.nonzero(x, size=1, fill_value=(1,)), ValueError, "tuple of length 2"),
        (lambda: jnp.choose(jnp.array([2]), [1, 2]), ValueError, "invalid entry in choice array"),
        (lambda: jnp.compress(jnp.ones(4), x, axis=0), ValueError, "out of bounds"),
        (lambda: jnp.ix_(x), ValueError, "must be 1-dimensional"),
        (lambda: jnp.piecewise(x, [x > 1, x > 2], [1]), ValueError, "either 2 or 3 functions"),
        (lambda: jnp.ravel_multi_index((9,), (3,)), ValueError, "invalid entry in coordinates"),
        (lambda: jnp.ravel_multi_index((1,), (3,), mode="fill"), ValueError, "invalid mode='fill'"),
        (lambda: jnp.tril_indices_from(jnp.ones(3)), ValueError, "Only 2-D inputs"),
        (lambda: jnp.diag_indices_from(x), ValueError, "must be of equal length"),
        (lambda: jnp.place(x, x > 1, jnp.zeros(0), inplace=False), ValueError, "empty array")]
    for f, kind, text in cases:
        with pytest.raises(kind, match=text):
            f()


@both_ways
def test_edits_at_traced_positions(jit: Any) -> None:
    a = np.array([0, 1, 0, 2])
    insert, delete = jit(lambda a, i, j: (
        jnp.insert(a, i, 5), jnp.delete(a, j, assume_unique_indices=True)))(
            a, np.array([2, 1]), np.array([2, 0]))
    assert insert.tolist() == np.insert(a, [2, 1], 5).tolist()
    assert delete.tolist() == [1, 2]


def test_edits_and_tricks() -> None:
    a, x = np.array([0, 1, 0, 2]), X[:3, :4, 0, 0]
    for name, args in [
            ("insert", (a, -1, 7)), ("insert", (a, np.array([2, 2, 0]), np.array([7, 8, 9]))),
            ("insert", (a, 2, np.array([7, 8]))), ("insert", (a, slice(0, 2), 9)),
            ("insert", (x, 1, np.array([7, 8, 9]), 1)), ("insert", (x, np.array([1]), 5.0, 0)),
            ("insert", (x, np.array([], int), 5.0, 1)), ("delete", (a, -1)),
            ("delete", (a, np.array([0, -1, 0]))), ("delete", (x, 1, 0)),
            ("delete", (a, slice(None, None, -2))), ("delete", (a, a > 0)), ("trim_zeros", (a,))]:
        check(name, *args)
    for name, key in [("mgrid", np.s_[0:3, 0:2]), ("mgrid", np.s_[0:1:3j]),
                      ("r_", (1, a, np.s_[5:7])),
                      ("r_", ("0,2", a, a)), ("r_", ("-1", a, a)), ("c_", (a, a)),
                      ("r_", ("1,3,1", a, a)), ("c_", (np.s_[1:5], a))]:
        want, got = getattr(np, name)[key], getattr(jnp, name)[key]
        assert got.shape == want.shape and np.allclose(got, want), (name, key)
    for g, w in zip(jnp.ogrid[0:3, 0:2], np.ogrid[0:3, 0:2]):
        same(g, w, "ogrid")
    assert jnp.s_[1:2, ...] == np.s_[1:2, ...] and jnp.index_exp[1] == (1,)
    for f, kind, text in [
            (lambda: jnp.delete(a, 9), ValueError, "out of bounds"),
            (lambda: jnp.delete(a, np.array([9])), IndexError, "index 9 is out of bounds"),
            (lambda: jnp.delete(a, 1.5), ValueError, "must be integer or bool"),
            (lambda: calque.jit(jnp.delete)(a, 1), ConcretizationTypeError, "'obj' array argument"),
            (lambda: calque.jit(jnp.trim_zeros)(a), ConcretizationTypeError, "`filt` argument"),
            (lambda: jnp.insert(a, 1.5, 2), ValueError, "must be integer typed"),
            (lambda: jnp.r_["a", 1], ValueError, "could not understand directive 'a'")]:
        with pytest.raises(kind, match=text):
            f()


@pytest.mark.parametrize("axis", [None, 0, 1])
def test_positions_known_when_traced(axis: int | None) -> None:
    """Of few runs slices are joined, of many rows are picked."""
    m = np.arange(60.0, dtype=np.float32).reshape(6, 10)
    n = m.size if axis is None else m.shape[axis]
    for obj in (0, 3, -1, np.array([1, 4]), np.array([5, 1, 1]), slice(1, 5, 2), slice(0, 0),
                np.arange(0, n, 2), np.array([], int)):
        for name, values in (("delete", ()), ("insert", (7.5,))):
            want = getattr(np, name)(m, obj, *values, axis=axis)
            edit = lambda x, f=getattr(jnp, name), v=values, obj=obj: f(x, obj, *v, axis)  # noqa: E731
            for made in (edit(m), calque.jit(edit)(m)):
                np.testing.assert_array_equal(made, want, f"{name} {obj}")
    gone = calque.jit(lambda x: jnp.delete(x, np.arange(n) % 3 == 0, axis))(m)
    np.testing.assert_array_equal(gone, np.delete(m, np.arange(n) % 3 == 0, axis))
