"""Every collective on every device against NumPy on the stacked parts, by pmap, shard_map and vmap.

A module is compiled for a group of cases: all collectives over one axis (or several) and dtype.
"""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from meshes import mesh_of

import calque
import calque.numpy as jnp
from calque import lax
from calque.sharding import PartitionSpec as P

Body = Callable[[Any, Any], Any]


def ring(d: int) -> list[tuple[int, int]]:
    return [(k, (k + 1) % d) for k in range(d)]


def halves(d: int) -> list[list[int]]:
    """Two groups that are not in order."""
    return [list(range(0, d, 2)), list(range(1, d, 2))[::-1]]


def by_groups(f: Callable[[Any], Any], x: Any, groups: list[list[int]]) -> Any:
    """What a stacked oracle says within groups."""
    out: list[Any] = [None] * len(x)
    for g in groups:
        for k, v in zip(g, f(x[g])):
            out[k] = v
    return np.stack(out)


def gathered(x: Any) -> Any:
    return np.broadcast_to(x, (len(x), *x.shape))


def exchanged(x: Any) -> Any:
    """all_to_all over the first axis of the parts: (sender, receiver, ...) turned round."""
    d = len(x)
    return x.reshape(d, d, -1, *x.shape[2:]).swapaxes(0, 1).reshape(x.shape)


def every(f: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda x: np.broadcast_to(f(x), x.shape)


# name -> (body(x, axis), oracle of the stacked parts); parts are (8, 4)
CASES: dict[str, tuple[Body, Callable[[Any], Any]]] = {
    "psum": (lambda x, n: lax.psum(x, n), every(lambda x: x.sum(0))),
    "pmax": (lambda x, n: lax.pmax(x, n), every(lambda x: x.max(0))),
    "pmin": (lambda x, n: lax.pmin(x, n), every(lambda x: x.min(0))),
    "psum of a number": (lambda x, n: x * lax.psum(1, n), lambda x: x * len(x)),
    "axis_size": (lambda x, n: x * lax.axis_size(n), lambda x: x * len(x)),
    "axis_index": (lambda x, n: x * lax.axis_index(n).astype(x.dtype),
                   lambda x: x * np.arange(len(x)).astype(x.dtype)[:, None, None]),
    "ppermute": (lambda x, n: lax.ppermute(x, n, ring(lax.axis_size(n))),
                 lambda x: np.roll(x, 1, 0)),
    "ppermute to one": (lambda x, n: lax.ppermute(x, n, [(0, lax.axis_size(n) - 1)]),
                        lambda x: np.concatenate([0 * x[1:], x[:1]])),
    "pshuffle": (lambda x, n: lax.pshuffle(x, n, list(range(lax.axis_size(n)))[::-1]),
                 lambda x: x[::-1]),
    "all_gather": (lambda x, n: lax.all_gather(x, n), gathered),
    "all_gather axis": (lambda x, n: lax.all_gather(x, n, axis=1),
                        lambda x: gathered(x).swapaxes(1, 2)),
    "all_gather tiled": (lambda x, n: lax.all_gather(x, n, axis=1, tiled=True),
                         lambda x: np.broadcast_to(np.concatenate(list(x), 1), (
                             len(x), x.shape[1], len(x) * x.shape[2]))),
    "psum_scatter": (lambda x, n: lax.psum_scatter(x, n, tiled=True),
                     lambda x: np.stack(np.split(x.sum(0).astype(x.dtype), len(x)))),
    "all_to_all": (lambda x, n: lax.all_to_all(x, n, 0, 0, tiled=True), exchanged),
    "all_to_all axes": (lambda x, n: lax.all_to_all(x, n, 0, 1, tiled=True),
                        lambda x: np.concatenate(
                            np.split(exchanged(x), len(x), 1), 2) if len(x) > 1 else x),
    "pbroadcast": (lambda x, n: lax.pbroadcast(x, n, 0), every(lambda x: x[0]))}
FLOATS: dict[str, tuple[Body, Callable[[Any], Any]]] = {
    "pmean": (lambda x, n: lax.pmean(x, n), every(lambda x: x.mean(0)))}
GROUPED: dict[str, tuple[Body, Callable[[Any], Any]]] = {
    "psum": (lambda x, g: lax.psum(x, "i", axis_index_groups=g), CASES["psum"][1]),
    "pmax": (lambda x, g: lax.pmax(x, "i", axis_index_groups=g), CASES["pmax"][1]),
    "all_gather": (lambda x, g: lax.all_gather(x, "i", axis_index_groups=g), gathered),
    "psum_scatter": (lambda x, g: lax.psum_scatter(x, "i", axis_index_groups=g, tiled=True),
                     CASES["psum_scatter"][1]),
    "all_to_all": (lambda x, g: lax.all_to_all(x, "i", 0, 0, axis_index_groups=g, tiled=True),
                   exchanged)}


def parts(d: int, dtype: Any) -> np.ndarray[Any, Any]:
    """Small whole numbers: sums are exact in every dtype."""
    x = np.random.default_rng(d).integers(0, 5, (d, 8, 4))
    return x.astype(dtype)


def run(context: str, bodies: dict[str, Any], x: Any, axis: Any, sizes: dict[str, int]) -> Any:
    """All bodies in one program; results stacked by device."""
    def body(v: Any) -> dict[str, Any]:
        return {name: f(v, axis) for name, (f, _) in bodies.items()}

    if context == "pmap":
        return calque.pmap(body, axis_name=axis)(x)
    if context == "vmap":
        return calque.jit(calque.vmap(body, axis_name=axis))(x)
    names = tuple(sizes)
    spec = P(names)

    def own(v: Any) -> dict[str, Any]:
        return {k: o[None] for k, o in body(v[0]).items()}

    mapped = calque.shard_map(own, mesh=mesh_of(**sizes), in_specs=spec, out_specs=spec,
                              check_vma=context != "unchecked")
    if context == "vmap of it":
        out = calque.jit(calque.vmap(mapped))(np.stack([x, x[::-1]]))
        return {k: o[0] for k, o in out.items()}
    return (calque.jit(mapped) if context == "jit" else mapped)(x)


def compare(got: Any, bodies: dict[str, Any], x: Any, oracle_of: Any = None) -> None:
    for name, (_, oracle) in bodies.items():
        want = oracle(x) if oracle_of is None else oracle_of(oracle)
        np.testing.assert_array_equal(np.asarray(got[name]).astype(want.dtype), want, name)


@pytest.mark.parametrize("context, d, dtype", [
    ("pmap", 8, np.float32), ("pmap", 8, np.int32), ("pmap", 8, ml_dtypes.bfloat16),
    ("pmap", 2, np.complex64), ("pmap", 1, np.float32), ("shard_map", 8, np.float32),
    ("unchecked", 4, np.uint8), ("jit", 8, np.float16), ("vmap of it", 2, np.float32),
    ("vmap", 4, np.float32),
    *[pytest.param(c, d, t, marks=pytest.mark.slow) for c in (
        "pmap", "shard_map", "unchecked", "jit", "vmap of it", "vmap") for d in (1, 2, 4, 8)
      for t in (np.float32, np.float16, ml_dtypes.bfloat16, np.int8, np.uint32, np.complex64)]])
def test_collectives(context: str, d: int, dtype: Any) -> None:
    bodies = {k: v for k, v in CASES.items()
              if not (k in ("pmax", "pmin") and dtype == np.complex64)}
    if np.dtype(dtype).kind != "u" and np.dtype(dtype).kind != "i":
        bodies |= FLOATS
    x = parts(d, dtype)
    compare(run(context, bodies, x, "i", {"i": d}), bodies, x)


@pytest.mark.parametrize("sizes, axes", [
    *[pytest.param(*p, marks=pytest.mark.slow) for p in (
        ({"a": 2, "b": 2}, ("a", "b")), ({"a": 2, "b": 2}, ("b", "a")))],
    ({"a": 2, "b": 2, "c": 2}, ("c", "a", "b")), ({"a": 1, "b": 4}, ("b", "a"))])
def test_collectives_over_several_axes(sizes: dict[str, int], axes: tuple[str, ...]) -> None:
    """The last name moves fastest (of ppermute the mesh's order counts, as in JAX)."""
    d = int(np.prod(list(sizes.values())))
    x = parts(d, np.float32)
    order = np.arange(d).reshape(tuple(sizes.values())).transpose(
        [list(sizes).index(n) for n in axes]).reshape(-1)
    bodies = {k: v for k, v in CASES.items() if not k.startswith(("ppermute", "pshuffle"))}
    got = run("shard_map", bodies, x, axes, sizes)

    def turned(oracle: Any) -> Any:
        out = oracle(x[order])
        return out[np.argsort(order)]

    compare(got, bodies, x, turned)
    moves = {k: v for k, v in CASES.items() if k.startswith("ppermute")}
    compare(run("shard_map", moves, x, axes, sizes), moves, x)


@pytest.mark.parametrize("sizes", [
    {"a": 2, "b": 4}, pytest.param({"a": 4, "b": 2}, marks=pytest.mark.slow)])
def test_collectives_over_one_of_two_axes(sizes: dict[str, int]) -> None:
    x = parts(8, np.float32)
    grid = x.reshape(*sizes.values(), 8, 4)
    for axis in sizes:
        got = run("shard_map", CASES, x, axis, sizes)
        lines = grid if axis == "b" else grid.swapaxes(0, 1)

        def along(oracle: Any, axis: str = axis, lines: Any = lines) -> Any:
            out = np.stack([oracle(line) for line in lines])
            out = out if axis == "b" else out.swapaxes(0, 1)
            return out.reshape(8, *out.shape[2:])

        compare(got, CASES, x, along)


@pytest.mark.parametrize("context", ["pmap", pytest.param("vmap", marks=pytest.mark.slow)])
def test_groups(context: str) -> None:
    d, x = 8, parts(8, np.float32)
    groups = halves(d)
    bodies = {k: (lambda v, n, f=f: f(v, groups), o) for k, (f, o) in GROUPED.items()}
    got = run(context, bodies, x, "i", {"i": d})
    compare(got, bodies, x, lambda oracle: by_groups(oracle, x, groups))
    uneven = [[0], [1, 2, 5], [3, 4, 6, 7]]
    some = {k: (lambda v, n, f=f: f(v, uneven), o) for k, (f, o) in GROUPED.items()
            if k in ("psum", "pmax")}
    compare(run(context, some, x, "i", {"i": d}), some, x,
            lambda oracle: by_groups(oracle, x, uneven))


LINEAR = ("psum", "ppermute", "ppermute to one", "all_gather tiled", "psum_scatter",
          "all_to_all axes", "pbroadcast")


@pytest.mark.parametrize("linear", [
    LINEAR[::3], pytest.param(LINEAR, marks=pytest.mark.slow)], ids=["some", "all"])
def test_gradients_are_those_of_vmap(linear: tuple[str, ...]) -> None:
    """In pmap, as in vmap, psum transposes to psum."""

    def loss(x: Any, mapped: Any) -> Any:
        def body(v: Any) -> Any:
            return {k: CASES[k][0](jnp.sin(v), "i") for k in linear} | {
                k + " in groups": f(v * v, halves(8)) for k, (f, _) in GROUPED.items()
                if k != "pmax" and (linear is LINEAR or k == "psum")}
        out = mapped(body, axis_name="i")(x)
        return sum((jnp.cos(o) * o).sum() for o in out.values())

    x = np.random.default_rng(0).random((8, 8, 4), np.float32)
    got = calque.jit(calque.grad(lambda v: loss(v, calque.pmap)))(x)
    want = calque.jit(calque.grad(lambda v: loss(v, calque.vmap)))(x)
    np.testing.assert_allclose(got, want, rtol=2e-5, atol=2e-5)


def test_keys_and_trees_move() -> None:
    keys = calque.random.split(calque.random.key(0), 4)
    words = np.asarray(calque.random.key_data(keys))

    def body(k: Any) -> Any:
        there = lax.ppermute({"k": k}, "i", ring(4))["k"]
        return calque.random.key_data(there), calque.random.key_data(lax.all_gather(k, "i"))

    moved, every_ = calque.pmap(body, axis_name="i")(keys)
    np.testing.assert_array_equal(moved, np.roll(words, 1, 0))
    np.testing.assert_array_equal(every_, np.broadcast_to(words, (4, 4, 2)))


def test_ragged_all_to_all() -> None:
    """Position k sends k + 1 rows to each other."""
    d, rows = 3, 4
    x = np.arange(d * d * rows, dtype=np.float32).reshape(d, d * rows)
    starts = np.tile(np.arange(d) * rows, (d, 1))
    sizes = np.tile(np.arange(1, d + 1)[:, None], (1, d))
    targets = np.tile((np.cumsum(range(1, d + 1)) - range(1, d + 1))[:, None], (1, d))
    want = np.full((d, 8), -1, np.float32)
    for s in range(d):
        for r in range(d):
            n = sizes[s, r]
            want[r, targets[s, r]:targets[s, r] + n] = x[s, starts[s, r]:starts[s, r] + n]
    got = calque.pmap(lambda *a: lax.ragged_all_to_all(
        a[0], jnp.full(8, -1.0), *a[1:], axis_name="i"), axis_name="i")(
        x, starts, sizes, targets, sizes.T)
    np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("call, kind, words", [
    (lambda x: lax.psum(x, "q"), NameError, "unbound axis name: q"),
    (lambda x: lax.psum(x, "i", axis_index_groups=[[0], [2]]), ValueError,
     "must cover all indices exactly once"),
    (lambda x: lax.all_gather(x, "i", axis_index_groups=[[0], [1, 2, 3]]), ValueError,
     "must all be the same size"),
    (lambda x: lax.ppermute(x, "i", [(0, 1), (2, 1)]), ValueError, "must be unique"),
    (lambda x: lax.all_to_all(x, "i", 0, 0), ValueError, "size of the split axis to equal"),
    (lambda x: lax.pbroadcast(x, "i", 9), ValueError, "outside the axis of size 4")])
def test_bad_collectives(call: Any, kind: Any, words: str) -> None:
    with pytest.raises(kind, match=words):
        calque.pmap(call, axis_name="i")(np.ones((4, 3), np.float32))
