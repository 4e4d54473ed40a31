"""Folds of last axes of 6 to 32 numbers, a row a lane (passes/points), beside NumPy in double
precision."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from support.harness import at_level

import calque
import calque.numpy as jnp

RNG = np.random.default_rng(5)


def _softmax(np: Any, x: Any) -> Any:
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


FOLDS: dict[str, Callable[[Any, Any], Any]] = {
    "sum": lambda np, x: x.sum(-1), "max": lambda np, x: x.max(-1),
    "prod": lambda np, x: x.prod(-1),
    "argmax": lambda np, x: np.argmax(x, -1), "argmin": lambda np, x: np.argmin(x, -1),
    "any": lambda np, x: (x > 2).any(-1), "all": lambda np, x: (x > -2).all(-1),
    "counted": lambda np, x: (x > 0).sum(-1), "var": lambda np, x: x.var(-1), "softmax": _softmax,
    "logsumexp": lambda np, x: np.log(np.exp(x - x.max(-1, keepdims=True)).sum(-1)) + x.max(-1),
    "standard": lambda np, x: (x - x.mean(-1, keepdims=True)) / x.std(-1, keepdims=True),
    "scaled": lambda np, x: (x * np.arange(x.shape[-1], dtype=x.dtype) + 1).max(-1),
    "both": lambda np, x: (_softmax(np, x), x.sum(-1), np.argmax(-x, -1), x * 2),
    "by what was largest": lambda np, x: np.where(x == x.max(-1, keepdims=True), 0, x).sum(-1)}


def check(f: Callable[[Any, Any], Any], x: Any) -> None:
    got = calque.tree_util.tree_leaves(calque.jit(lambda x: f(jnp, x))(x))
    want = calque.tree_util.tree_leaves(f(np, x.astype(float) if x.dtype.kind == "f" else x))
    for g, w in zip(got, want, strict=True):
        assert g.shape == w.shape
        # of up to 32 numbers around 0 in single precision
        np.testing.assert_allclose(g, w, rtol=2e-5, atol=2e-5)


def way(f: Callable[..., Any], *xs: Any) -> Any:
    return calque.jit(f).lower(*xs).plan().regions[0].family


@pytest.mark.parametrize("name", FOLDS)
@pytest.mark.parametrize("n, k", [(400, 6), (300, 10), (500, 16), (333, 20),
                                  (129, 33), (127, 10)])
def test_of_every_size(name: str, n: int, k: int) -> None:
    check(FOLDS[name], RNG.standard_normal((n, k)).astype(np.float32))


@pytest.mark.parametrize("level", ["x86-64-v2", "x86-64-v3", "x86-64-v4"])
def test_at_every_level(level: str) -> None:
    with at_level(level):
        for name in ("softmax", "logsumexp", "argmax", "any", "var"):
            for shape in ((2000, 10), (40, 50, 20)):
                check(FOLDS[name], RNG.standard_normal(shape).astype(np.float32))


def test_numbers_that_are_none_and_ties() -> None:
    x = RNG.integers(-3, 3, (5000, 10)).astype(np.float32)
    x[::7, 4] = np.nan
    x[::11, 9] = np.inf
    x[::13, 0] = -np.inf
    x[::17] = -np.inf
    for f in (lambda np, x: x.max(-1), lambda np, x: x.min(-1), lambda np, x: np.argmax(x, -1),
              lambda np, x: np.argmin(x, -1)):
        check(f, x)
    got = np.asarray(calque.jit(calque.nn.softmax)(x[::17]))
    assert np.isnan(got).all()


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32", "bool", "bfloat16", "float16"])
def test_other_numbers(dtype: str) -> None:
    x = RNG.integers(0, 2 if dtype == "bool" else 100, (20000, 10)).astype(jnp.dtype(dtype))
    wide = x.astype(np.float64)
    np.testing.assert_array_equal(calque.jit(lambda x: x.max(-1))(x).astype("float32"),
                                  wide.max(-1))
    np.testing.assert_array_equal(calque.jit(lambda x: jnp.argmax(x, -1))(x), wide.argmax(-1))
    # (sums below 1,000 of ten whole numbers: three digits of a bfloat16)
    np.testing.assert_allclose(calque.jit(lambda x: x.sum(-1))(x).astype("float32"), wide.sum(-1),
                               rtol=2**-8)


def test_gradients() -> None:
    x = RNG.standard_normal((1000, 10)).astype(np.float32)
    label = RNG.integers(0, 10, 1000)

    def loss(x: Any) -> Any:
        return -jnp.take_along_axis(calque.nn.log_softmax(x), label[:, None], 1).sum()

    got = calque.jit(calque.grad(loss))(x)
    # p - 1 at the label, in double precision
    want = _softmax(np, x.astype(float))
    want[np.arange(1000), label] -= 1
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)


def test_the_ways() -> None:
    ten, wide = np.ones((20000, 10), np.float32), np.ones((20000, 32), np.float32)
    assert {way(calque.nn.softmax, ten), way(lambda x: x.max(-1), ten),
            way(lambda x: jnp.argmax(x, -1), ten), way(lambda x: jnp.argmax(x, -1), wide),
            way(lambda x: (x > 0).any(-1), wide)} == {"points"}
    # full vectors along rows; rows that are few
    assert {way(calque.nn.softmax, wide), way(lambda x: x.max(-1), wide)} == {"rows"}
    assert way(lambda x: x.max(-1), np.ones((100, 10), np.float32)) != "points"
