"""Ordering functions of numpy against NumPy's own, with what differs by JAX's contract named."""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from support.harness import by_each, numpys

import calque
import calque.numpy as jnp
from calque import lax

RNG = np.random.default_rng(11)
X = RNG.standard_normal((3, 7)).astype(np.float32)
V = RNG.integers(0, 9, 20).astype(np.int32)
W = RNG.integers(3, 12, 11).astype(np.int32)
NAN = np.array([[1.0, np.nan, 3.0, 2.0], [np.nan, np.nan, np.nan, np.nan], [5.0, 4.0, 2.0, 9.0]],
               np.float32)


def same(got: Any, want: Any, close: float = 0.0) -> None:
    for g, w in zip(got if isinstance(got, tuple) else (got,),
                    want if isinstance(want, tuple) else (want,), strict=True):
        np.testing.assert_allclose(np.asarray(g), w, rtol=close, atol=close)


def test_orders() -> None:
    same(jnp.sort(X), np.sort(X))
    same(jnp.sort(X, axis=0, descending=True), -np.sort(-X, axis=0))
    same(jnp.sort(X, axis=None), np.sort(X, axis=None))
    same(jnp.argsort(V), np.argsort(V, kind="stable"))
    same(jnp.argsort(V, descending=True), np.argsort(-V, kind="stable"))
    same(jnp.argsort(V, descending=True, stable=False), np.argsort(V, kind="stable")[::-1])
    same(jnp.lexsort((V, V % 3)), np.lexsort((V, V % 3)))
    same(jnp.sort_complex(V), np.sort_complex(V))
    assert jnp.asarray(V).argsort().dtype == np.int32


@pytest.mark.parametrize("jit, places", by_each([0, 3, -1], 0.3))
def test_partition_parts(jit: Any, places: list[int]) -> None:
    parts = jit(lambda x: [(jnp.partition(x, k), jnp.argpartition(x, k)) for k in places])(X)
    for kth, (got, at) in zip(places, parts, strict=True):
        k = kth % 7
        for rows in (np.asarray(got), np.take_along_axis(X, np.asarray(at), -1)):
            same(np.sort(rows), np.sort(X))
            same(rows[:, k], np.sort(X)[:, k])
            assert (rows[:, :k] <= rows[:, k:k + 1]).all(), kth
            assert (rows[:, k:] >= rows[:, k:k + 1]).all(), kth


@pytest.mark.parametrize("method", ["linear", "lower", "higher", "midpoint", "nearest",
                                    "inverted_cdf"])
def test_quantiles(method: str) -> None:
    q = np.array([0.0, 0.13, 0.5, 0.77, 1.0], np.float32)
    # two products and a sum of f32
    same(jnp.quantile(X, q, axis=1, method=method), np.quantile(X, q, axis=1, method=method), 1e-6)
    same(jnp.percentile(X, 25.0, axis=(0, 1), keepdims=True, method=method),
         np.percentile(X, 25.0, axis=(0, 1), keepdims=True, method=method), 1e-6)


def test_quantiles_with_nan() -> None:
    same(jnp.median(X, axis=0), np.median(X, axis=0))
    same(jnp.median(NAN, axis=1), np.array([np.nan, np.nan, 4.5], np.float32))
    same(jnp.nanmedian(NAN, axis=1), np.array([2.0, np.nan, 4.5], np.float32))
    same(jnp.nanquantile(NAN, 0.25, axis=1), np.array([1.5, np.nan, 3.5], np.float32))
    w = np.array([1, 5, 0, 2], np.float32)
    same(jnp.quantile(NAN[2], np.array([0.1, 0.9], np.float32), weights=w, method="inverted_cdf"),
         np.array([4.0, 9.0], np.float32))  # weights of 2, 4, 5, 9: 0, 5, 1, 2


@pytest.mark.parametrize("side", ["left", "right"])
def test_places(side: str) -> None:
    a = np.array([0.0, 1.0, 1.0, 2.0, np.nan], np.float32)
    v = np.array([[-1.0, 1.0, 1.5], [np.nan, np.inf, -0.0]], np.float32)
    same(jnp.searchsorted(a, v, side), np.searchsorted(a, v, side))
    long = np.sort(RNG.integers(0, 500, 3000)).astype(np.int32)
    some = RNG.integers(-5, 505, 300).astype(np.int32)  # sorted together instead of compared
    same(jnp.searchsorted(long, some, side), np.searchsorted(long, some, side))


def test_bins() -> None:
    edges = np.array([0, 2, 4, 8], np.int32)
    for e in (edges, edges[::-1].copy()):
        for right in (False, True):
            same(jnp.digitize(V, e, right), np.digitize(V, e, right))
    same(jnp.bincount(V, minlength=12), np.bincount(V, minlength=12))
    same(jnp.bincount(V, X.ravel()[:20]), np.bincount(V, X.ravel()[:20]), 1e-6)
    same(jnp.histogram(X, 5, (-1, 1)), np.histogram(X, 5, (-1, 1)), 1e-6)
    same(jnp.histogram(V, edges, density=True), np.histogram(V, edges, density=True), 1e-6)
    for f in (jnp.histogram, jnp.histogram_bin_edges, jnp.histogram2d):
        with pytest.raises(ValueError, match="`bins` is -1"):
            f(*[V] * (1 + (f is jnp.histogram2d)), bins=-1)
    got, want = jnp.histogram2d(V, V % 4, [3, 2]), np.histogram2d(V, V % 4, [3, 2])
    same(tuple(got), tuple(want), 1e-6)


def test_unique() -> None:
    every = {"return_index": True, "return_inverse": True, "return_counts": True}
    same(jnp.unique(V, **every), np.unique(V, **every))
    table = np.stack([V % 2, V % 3], 1)
    same(jnp.unique(table, axis=0, **every), np.unique(table, axis=0, **every))


@pytest.mark.parametrize("jit, names", by_each(
    ("union1d", "setdiff1d", "intersect1d", "setxor1d"), 0.25))
def test_sets(jit: Any, names: list[str]) -> None:
    sized = jit(lambda v, w: [(getattr(jnp, n)(v, w, size=31, fill_value=-1),
                               getattr(jnp, n)(v, w, size=31)) for n in names])(V, W)
    for name, (full, unfilled) in zip(names, sized, strict=True):
        want = getattr(np, name)(V, W)
        same(getattr(jnp, name)(V, W), want)
        same(full, np.concatenate([want, np.full(31 - want.size, -1)]))
        rest = 0 if name == "setdiff1d" else want[0]  # without a fill_value
        same(unfilled, np.concatenate([want, np.full(31 - want.size, rest)]))
    same(jnp.isin(V, W), np.isin(V, W))
    same(jnp.intersect1d(V, W, return_indices=True), np.intersect1d(V, W, return_indices=True))


@pytest.mark.parametrize("jit, which", [
    (numpys, range(6)), (calque.jit, (3,)),
    pytest.param(calque.jit, (0, 1, 2, 4, 5), marks=pytest.mark.slow)],
    ids=["numpy", "some", "more"])
def test_unique_under_jit_equals_outside(jit: Any, which: Sequence[int]) -> None:
    every = {"return_index": True, "return_inverse": True, "return_counts": True}
    arrays = (V, NAN, np.array([0.0, -0.0, 1.0], np.float32))

    def unique(*arrays: Any) -> Any:
        return [jnp.unique(arrays[i // 2], size=9, equal_nan=i % 2 == 0, **every) for i in which]

    for got, want in zip(jit(unique)(*arrays), unique(*arrays), strict=True):
        same(got, tuple(np.asarray(r) for r in want))


@pytest.mark.parametrize("error, text, f", [
    (TypeError, "at least one operand", lambda: lax.sort(())),
    (TypeError, "equal shapes", lambda: lax.sort((X, V))),
    (ValueError, "num_keys=3", lambda: lax.sort((X, X), num_keys=3)),
    (ValueError, "out of bounds", lambda: lax.sort(X, dimension=2)),
    (ValueError, "no larger than size", lambda: lax.top_k(X, 8)),
    (ValueError, "nonnegative", lambda: lax.top_k(X, -1)),
    (ValueError, "complex", lambda: lax.top_k(X.astype(np.complex64), 1)),
    (ValueError, "floating", lambda: lax.approx_max_k(V, 1)),
    (TypeError, "'kind'", lambda: jnp.sort(X, kind="mergesort")),
    (ValueError, "invalid argument side", lambda: jnp.searchsorted(V, 1, "middle")),
    (ValueError, "method can only be", lambda: jnp.quantile(X, 0.5, method="cubic")),
    (ValueError, "complex", lambda: jnp.median(X.astype(np.complex64))),
    (calque.errors.ConcretizationTypeError, "size", lambda: calque.jit(jnp.unique)(V)),
    (calque.errors.ConcretizationTypeError, "length", lambda: calque.jit(jnp.bincount)(V)),
    (TypeError, "integer type", lambda: jnp.bincount(X[0]))])
def test_refusals(error: Any, text: str, f: Any) -> None:
    with pytest.raises(error, match=text):
        f()


def test_greatest_and_smallest_with_positions() -> None:
    for a, axis in ((X, -1), (X, 0), (V, -1), (NAN, 1), (X > 0, 0), (np.zeros((2, 0)), 0)):
        order = np.argsort(a, axis, kind="stable")  # (NaN last, equal ones in their order)
        for k in (0, 1, min(2, a.shape[axis])):
            values, at = jnp.top_k(a, k, axis=axis, mode="smallest")
            want = order.take(range(k), axis)
            same((values, at), (np.take_along_axis(a, want, axis), want))
            values, at = jnp.top_k(a, k, axis=axis)
            largest = np.sort(a, axis).take(range(a.shape[axis] - k, a.shape[axis]), axis)
            same((values, np.take_along_axis(a, np.asarray(at), axis)),
                 (np.flip(largest, axis), np.flip(largest, axis)))
    got = calque.jit(lambda x: calque.grad(lambda x: jnp.top_k(x, 2, mode="smallest")[0].sum())(x))
    same(got(np.array([3.0, 1.0, 2.0], np.float32)), np.array([0, 1, 1]))
    for bad in (lambda: jnp.top_k(X, 2, mode="middle"), lambda: jnp.top_k(X, 8, mode="smallest"),
                lambda: jnp.top_k(X * 1j, 2)):
        with pytest.raises(ValueError):
            bad()


def test_smallest_and_largest() -> None:
    for axis in (None, 0, (0, 1)):
        same(jnp.minmax(X, axis), (X.min(axis), X.max(axis)))
    same(jnp.minmax(X, 1, keepdims=True), (X.min(1, keepdims=True), X.max(1, keepdims=True)))
    same(jnp.minmax(V, initial=(100, -100), where=V > 4), (V[V > 4].min(), V[V > 4].max()))
    with pytest.raises(ValueError):
        jnp.minmax(X, where=X > 0)
