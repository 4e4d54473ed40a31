"""Reductions over few numbers side by side (passes/wide), beside NumPy in double precision."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from support.harness import at_level

import calque
import calque.numpy as jnp

RNG = np.random.default_rng(11)
REDUCTIONS: dict[str, Callable[[Any, Any], Any]] = {
    "sum": lambda np, x: x.sum(), "max": lambda np, x: x.max(), "min": lambda np, x: x.min(),
    "norm": lambda np, x: np.sqrt((x * x).sum()), "mean": lambda np, x: (x + 1).mean(),
    "columns": lambda np, x: x.sum(0), "largest of columns": lambda np, x: x.max(0),
    "of what is computed": lambda np, x: (np.abs(x) * 2 - 1).min(0),
    "computed and given": lambda np, x: (lambda y: (y.sum(0), y.max(), y))(x * 3),
    "all": lambda np, x: (x > -9).all(0), "any": lambda np, x: (x > 3).any(0),
    "all of all": lambda np, x: (x > -9).all(), "counted": lambda np, x: (x > 0).sum(0),
    "chosen": lambda np, x: np.where(x > 0, x, 0).sum(0)}
SHAPES = [(40000, 3), (20000, 10), (12345, 7), (33333, 5), (4096, 16), (300, 50, 4), (7919, 9),
          (50000, 1), (3, 11000, 2)]


def check(f: Callable[[Any, Any], Any], x: Any, tolerance: float = 2e-5) -> None:
    got = calque.tree_util.tree_leaves(calque.jit(lambda x: f(jnp, x))(x))
    want = calque.tree_util.tree_leaves(f(np, x if x.dtype.kind != "f" else x.astype(float)))
    for g, w in zip(got, want, strict=True):
        assert g.shape == w.shape
        # sums of tens of thousands of numbers around 0, in single precision
        np.testing.assert_allclose(g, w, rtol=tolerance, atol=tolerance * max(
            1.0, float(np.sqrt(x.size))))


@pytest.mark.parametrize("name", REDUCTIONS)
def test_few_numbers_side_by_side(name: str) -> None:
    for shape in SHAPES[:4] if len(name) > 8 else SHAPES:
        check(REDUCTIONS[name], RNG.standard_normal(shape).astype(np.float32))


@pytest.mark.parametrize("level", ["x86-64-v2", "x86-64-v3", "x86-64-v4"])
def test_at_every_level(level: str) -> None:
    with at_level(level):
        for name in ("norm", "columns", "all", "largest of columns"):
            check(REDUCTIONS[name], RNG.standard_normal((20000, 10)).astype(np.float32))


@pytest.mark.parametrize("dtype", ["int32", "int8", "uint8", "bool", "bfloat16", "float16"])
def test_other_numbers(dtype: str) -> None:
    x = RNG.integers(0, 2 if dtype == "bool" else 100, (20000, 10)).astype(jnp.dtype(dtype))
    wide = x.astype(np.float64)
    np.testing.assert_array_equal(calque.jit(lambda x: x.max(0))(x).astype("float32"), wide.max(0))
    np.testing.assert_array_equal(calque.jit(lambda x: x.min())(x).astype("float32"), wide.min())
    if dtype in ("int32", "int8", "uint8", "bool"):
        np.testing.assert_array_equal(calque.jit(lambda x: x.sum(0))(x), wide.sum(0))
    else:  # sums of halves are taken in single precision and rounded once
        rounded = np.asarray(calque.jit(lambda x: x[:2000].mean())(x)).astype(float)
        np.testing.assert_allclose(rounded, wide[:2000].mean(), rtol=2**-7)


def test_what_is_no_number_is_found() -> None:
    x = RNG.standard_normal((20000, 10)).astype(np.float32)
    x[777, 3], x[19999, 9] = np.nan, np.inf
    for f in (lambda np, x: x.max(0), lambda np, x: x.min(), lambda np, x: x.sum(0)):
        np.testing.assert_array_equal(np.isnan(np.asarray(calque.jit(lambda x, f=f: f(jnp, x))(x))),
                                      np.isnan(f(np, x)))


def test_in_loops_and_derivatives() -> None:
    x = RNG.standard_normal((20000, 10)).astype(np.float32)
    got = calque.jit(lambda x: calque.lax.fori_loop(
        0, 3, lambda i, x: x - 0.1 * x.max(0), x))(x)
    want = x.astype(float)
    for _ in range(3):
        want = want - 0.1 * want.max(0)
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5)
    got = calque.jit(calque.grad(lambda x: (x.sum(0) ** 2).sum() / 2))(x)
    np.testing.assert_allclose(got, np.broadcast_to(x.astype(float).sum(0), x.shape), rtol=1e-3,
                               atol=1e-2)
