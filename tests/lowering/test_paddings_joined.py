"""Sums of padded arrays as joined sums of parts (passes/padded); NumPy as the oracle."""
from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from support.harness import at_level

import calque
import calque.numpy as jnp
from calque import lax
from calque.lowering.passes import padded

X = np.random.default_rng(3).standard_normal((150, 130)).astype(np.float32)


def pad(np: Any, x: Any, axis: int, low: int, high: int) -> Any:
    widths = [(0, 0)] * x.ndim
    widths[axis] = (low, high)
    return np.pad(x, widths)


def differences(np: Any, x: Any, axis: int) -> Any:
    """What the derivative of a sum of squared differences is."""
    d = 2 * np.diff(x, axis=axis)
    return pad(np, -d, axis, 0, 1) + pad(np, d, axis, 1, 0)


PROGRAMS: dict[str, Callable[[Any, Any], Any]] = {
    "rows": lambda np, x: differences(np, x, 0),
    "columns": lambda np, x: differences(np, x, 1),
    "both": lambda np, x: differences(np, x, 0) + differences(np, x, 1),
    "both at once": lambda np, x: (lambda d, e: (((pad(np, -d, 0, 0, 1) + pad(np, e, 1, 1, 0))
                                                 + pad(np, d, 0, 1, 0)) - pad(np, e, 1, 0, 1)))(
        np.diff(x, axis=0), np.diff(x, axis=1)),
    "three at once": lambda np, x: (lambda y: sum(
        pad(np, np.diff(y, axis=k), k, 1, 0) - pad(np, np.diff(y, axis=k) ** 2, k, 0, 1)
        for k in range(3)))(x.reshape(10, 15, 130)),
    "many": lambda np, x: (pad(np, x[2:], 0, 0, 2) - pad(np, x[1:-1] * 3, 0, 1, 1)
                           + pad(np, x[:-2], 0, 2, 0) + x),
    "subtracted": lambda np, x: x - pad(np, np.abs(x[5:]), 0, 5, 0),
    "needed again": lambda np, x: (lambda d: (
        pad(np, d, 0, 1, 0) + x, d * 2, pad(np, d, 0, 0, 1)))(np.diff(x, axis=0)),
    "apart": lambda np, x: pad(np, x[:60], 0, 0, 90) + pad(np, x[100:], 0, 100, 0),
    "a padding twice": lambda np, x: (lambda p: p + p)(pad(np, x[1:], 0, 1, 0)),
    "given back": lambda np, x: (lambda p: (p + x, p))(pad(np, x[1:] * 2, 0, 1, 0)),
    "three axes": lambda np, x: (lambda y: (
        pad(np, y[:, 1:], 1, 0, 1) + pad(np, y[:, :-1], 1, 1, 0)))(x.reshape(15, 10, 130)),
    "within": lambda np, x: (pad(np, x[1:] + pad(np, x[2:], 0, 0, 1), 0, 1, 0) + x)}


def check(f: Callable[[Any, Any], Any], x: Any, tolerance: float = 1e-6) -> None:
    got = calque.tree_util.tree_leaves(calque.jit(lambda x: f(jnp, x))(x))
    for g, w in zip(got, calque.tree_util.tree_leaves(f(np, x)), strict=True):
        assert g.dtype == w.dtype
        np.testing.assert_allclose(np.asarray(g, float), np.asarray(w, float),
                                   rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("name", PROGRAMS)
def test_sums_of_paddings(name: str) -> None:
    check(PROGRAMS[name], X)
    check(PROGRAMS[name], (X * 50).astype(np.int32))


@pytest.mark.parametrize("level", ["x86-64-v2", "x86-64-v3", "x86-64-v4"])
def test_at_every_level(level: str) -> None:
    with at_level(level):
        for name in ("rows", "columns", "many", "three axes"):
            check(PROGRAMS[name], X)


def test_they_are_written_so() -> None:
    """One kernel writes the result, after one for the edges: no padding is left."""
    for name in ("rows", "columns", "many"):
        f = PROGRAMS[name]
        text = str(calque.jit(lambda x, f=f: f(jnp, x)).lower(X).plan())
        assert not re.search(r"\bpad\b", text) and "concatenate" in text, text


@pytest.mark.parametrize("seed", range(24))
def test_random_sums(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of paddings along one axis or several, of what is computed and used elsewhere."""
    monkeypatch.setattr(padded, "LEAST", 1)
    rng = np.random.default_rng(seed)
    shape = tuple(int(n) for n in rng.integers(3, 9, rng.integers(1, 4)))
    axis = int(rng.integers(len(shape)))
    plan = [(int(rng.integers(4)), *(int(n) for n in rng.integers(0, shape[axis] // 2, 2)),
             int(rng.integers(3)), axis if rng.integers(5) else int(rng.integers(len(shape))))
            for _ in range(rng.integers(2, 6))]

    def f(np: Any, x: Any) -> Any:
        total, others = None, []
        for kind, low, high, sign, k in plan:
            low, high = min(low, x.shape[k] // 2 - 1), min(high, x.shape[k] // 2 - 1)
            low, high = max(low, 0), max(high, 0)
            cut = tuple(slice(high, x.shape[k] - low) if i == k else slice(None)
                        for i in range(x.ndim))
            part = x[cut] * 2 if kind else x[cut]
            if kind == 2:
                part = np.where(part > 0, part, -part)
                others.append(part)
            term = x if kind == 3 else pad(np, part, k, low, high)
            total = term if total is None else total - term if sign else total + term
        return (total, total * 2, *others)

    check(f, rng.standard_normal(shape).astype(np.float32))
    got, want = calque.jit(calque.grad(lambda x: (f(jnp, x)[0] ** 2).sum() / 2))(
        jnp.ones(shape)), calque.grad(lambda x: (f(jnp, x)[0] ** 2).sum() / 2)(jnp.ones(shape))
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5)


def test_bits_are_those_of_the_sum() -> None:
    """Zero plus minus zero is zero, and what is not a number stays so."""
    x = np.full((200, 100), -0.0, np.float32)
    x[3], x[150, 7] = np.nan, np.inf
    for f in (lambda np, x: pad(np, x[1:], 0, 1, 0) + pad(np, x[:-1], 0, 0, 1),
              lambda np, x: x + pad(np, -x[1:], 0, 1, 0),
              lambda np, x: pad(np, x[1:], 0, 1, 0) - x):
        with np.errstate(invalid="ignore"):
            got, want = np.asarray(calque.jit(lambda x, f=f: f(jnp, x))(x)), f(np, x)
        np.testing.assert_array_equal(got, want)
        finite = ~np.isnan(want)
        np.testing.assert_array_equal(np.signbit(got)[finite], np.signbit(want)[finite])


def test_in_loops_and_branches() -> None:
    """Steps that descend along a total variation, over arrays that no kernel of loops takes."""
    x = np.random.default_rng(0).standard_normal((700, 300)).astype(np.float32)

    def steps(np: Any, x: Any) -> Any:
        for _ in range(3):
            x = x - 0.1 * (differences(np, x, 0) + differences(np, x, 1))
        return x
    got = calque.jit(lambda x: lax.fori_loop(0, 3, lambda i, x: x - 0.1 * (
        differences(jnp, x, 0) + differences(jnp, x, 1)), x))(x)
    np.testing.assert_allclose(got, steps(np, x), rtol=1e-4, atol=1e-5)
    got = calque.jit(lambda p, x: lax.cond(p, lambda x: differences(jnp, x, 0), lambda x: x, x))(
        True, x)
    np.testing.assert_allclose(got, differences(np, x, 0), rtol=1e-5, atol=1e-6)
