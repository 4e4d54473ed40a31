"""Equations without results (callbacks for their effects) beside everything else: every pass over a
Program meets them, and so does every family that claims equations."""
from __future__ import annotations

import pathlib
import re
import sys
from typing import Any

import numpy as np
import pytest

import calque
import calque.numpy as jnp
from calque import lax

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "benchmarks"))
import sweep


def watched(f: Any) -> Any:
    """f with a callback that has no results before it and one after it."""
    def g(*args: Any) -> Any:
        calque.debug.callback(lambda *values: None, *args)
        out = f(*args)
        calque.debug.callback(lambda *values: None, *calque.tree.leaves(out))
        return out
    return g


@pytest.mark.parametrize("mode,n,m", [
    ("jit", 1000, 1000), ("grad", 1000, 1000), ("grad", 40, 7),
    pytest.param("loop", 40, 7, marks=pytest.mark.slow),
    pytest.param("vmap", 1000, 1000, marks=pytest.mark.slow)])
def test_every_expression_has_a_plan(mode: str, n: int, m: int) -> None:
    library, planned = sweep.Library("calque"), 0
    arrays = sweep.arrays(n, m)
    for expression in sweep.EXPRESSIONS:
        given = {k: v for k, v in arrays.items() if re.search(rf"\b{k}\b", expression)}
        if "h" in given:
            given["h"] = given["h"].astype(jnp.bfloat16)
        f = eval(f"lambda {', '.join(given)}: {expression}", dict(library.names))
        values = [jnp.asarray(v) for v in given.values()]
        if mode == "vmap":
            values = [jnp.stack([v, v]) for v in values]
        try:
            traced = getattr(library, f"of_{mode}")(watched(f), values).trace(*values)
        except (LookupError, NotImplementedError, ValueError):
            continue  # it has no derivative, or there are too few elements
        try:
            traced.lower().plan()
        except Exception as error:
            raise AssertionError(f"{mode} of {expression} at {n} x {m}") from error
        planned += 1
    assert planned > 150


def test_values_and_what_is_seen() -> None:
    """Derivatives of slices (paddings that are summed) with a callback in their midst."""
    seen: list[Any] = []

    def energy(x: Any) -> Any:
        d = x[1:] - x[:-1]
        calque.debug.callback(lambda v: seen.append(np.asarray(v)), d)
        return (d * d).sum()

    x = np.random.default_rng(0).normal(size=300).astype(np.float32)
    got = calque.jit(calque.grad(energy))(x)
    calque.effects_barrier()
    d = np.diff(x.astype(np.float64))
    want = 2 * (np.pad(d, (1, 0)) - np.pad(d, (0, 1)))
    np.testing.assert_allclose(got, want, atol=1e-5)  # differences of two float32s of some 1
    np.testing.assert_allclose(seen[0], d, atol=1e-6)

    def body(c: Any, _: Any) -> Any:
        c = jnp.pad(c[1:], (0, 1)) + jnp.pad(c[:-1], (1, 0))
        calque.debug.callback(lambda v: seen.append(float(v)), c[0])
        return c * 0.5, c.sum()

    seen.clear()
    out, sums = calque.jit(lambda c: lax.scan(body, c, None, length=3))(jnp.arange(8.0))
    calque.effects_barrier()
    c, wanted, firsts = np.arange(8.0), [], []
    for _ in range(3):
        c = np.pad(c[1:], (0, 1)) + np.pad(c[:-1], (1, 0))
        wanted.append(c.sum())
        firsts.append(c[0])
        c = c * 0.5
    np.testing.assert_allclose(out, c, rtol=1e-6)
    np.testing.assert_allclose(sums, wanted, rtol=1e-6)
    assert seen == firsts


@pytest.mark.parametrize("carried", ["sum", "whole", "complex"])
def test_a_carry_that_is_made_of_constants_before_the_loop(carried: str) -> None:
    """IREE gave its memory back before its last reader had read it: a race, lost in half of the
    calls."""
    e = np.eye(37, dtype=np.float32)

    def step(x: Any, c: Any) -> Any:
        made = jnp.eye(37) if carried != "complex" else jnp.eye(37) + 0j
        calque.debug.callback(lambda v: None, x + jnp.abs(c).sum())
        calque.debug.callback(lambda v: None, made)
        return made.sum() * 0.5 if carried == "sum" else made

    first = jnp.float32(0) if carried == "sum" else jnp.zeros(
        (37, 37), complex if carried == "complex" else float)
    run = calque.jit(lambda x: lax.fori_loop(0, 50, lambda i, c: step(x, c), first))
    for _ in range(20):
        np.testing.assert_array_equal(run(jnp.ones((37, 37))),
                                      e.sum() * 0.5 if carried == "sum" else e)
