"""Points taken apart into coordinates (passes/components): the same results, where it pays only."""
from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from support.oracle import interpret

import calque
import calque.numpy as jnp
from calque import lax
from calque.core.config import config
from calque.core.dtypes import bfloat16
from calque.lowering.passes import components
from calque.lowering.passes.components import split_components
from calque.lowering.passes.flat import flat
from calque.lowering.target.targets import TargetError, runnable_target

RNG = np.random.default_rng(0)


def pairs(x: Any, y: Any) -> Any:
    return x[:, None] - y[None]


def nearest(x: Any, y: Any) -> Any:
    return jnp.argmin((pairs(x, y) ** 2).sum(-1), axis=1)


def forces(x: Any, m: Any) -> Any:
    d = pairs(x, x)
    r = (d * d).sum(-1) + jnp.asarray(0.125, x.dtype)
    return (d * (m / r)[..., None]).sum(1)


def energy(x: Any) -> Any:
    r = (pairs(x, x) ** 2).sum(-1) + jnp.asarray(0.5, x.dtype)
    return (1 / r - jnp.sqrt(r)).sum()


def inside(x: Any, y: Any) -> Any:
    near = jnp.abs(pairs(x, y)) < 0.5
    return jnp.all(near, -1).sum(1), jnp.any(near, axis=(1, 2))


def folds(x: Any, y: Any) -> Any:
    """Every fold over the last axis, alone and with another; views, numbers, a row for all."""
    d = jnp.where(pairs(x, y) > 0.25, 2.0, pairs(x, y).astype(x.dtype)) * y[0] + x[0, 0]
    turned = jnp.transpose(d, (1, 0, 2)).reshape(len(y), 1, *d.shape[::2])
    return (d.max(-1).min(0), d.min(-1).max(1), d.prod(-1).sum(0), d.sum((0, 2)), d.max((1, 2)),
            turned.squeeze(1).sum(0), jnp.broadcast_to(y[0], d.shape).sum((0, 1)),
            jnp.isnan(d).all(-1).any(1))


def made_apart(f: Any, *args: Any) -> bool:
    p = flat(calque.make_jaxpr(f)(*args).jaxpr)
    return split_components(p) is not p


def test_where_it_pays() -> None:
    x, big = jnp.ones((200, 3)), jnp.ones((20_000, 3))
    assert made_apart(nearest, x, x) and made_apart(forces, x, jnp.ones(200))
    assert made_apart(calque.grad(energy), x)
    assert made_apart(calque.vmap(nearest), jnp.ones((4, 200, 2)), jnp.ones((4, 200, 2)))
    assert not made_apart(lambda x: x / (x * x).sum(-1, keepdims=True), big)  # cut and joined
    assert not made_apart(lambda x: (pairs(x, x) ** 2).sum(-1), x)  # no fold of what is large
    assert not made_apart(lambda x: jnp.cumsum((pairs(x, x) ** 2).sum(-1), 1).sum(1), x)
    assert not made_apart(nearest, x[:20], x[:20])
    assert not made_apart(nearest, jnp.ones((200, 5)), jnp.ones((200, 5)))
    assert not made_apart(lambda x: pairs(x, x), x)


@pytest.mark.parametrize("level, stride", [
    ("x86-64-v3", 5), *[pytest.param(level, 1, marks=pytest.mark.slow)
                        for level in ("x86-64-v2", "x86-64-v3")]])
def test_values(level: str, stride: int, x64: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(components, "LEAST", 16)
    monkeypatch.setattr(components, "RATIO", 0)
    calque.clear_caches()
    floats = [RNG.normal(size=s).astype(d) for s, d in [
        ((9, 2), np.float32), ((17, 3), np.float64), ((5, 4), np.float32), ((11, 3), np.float16),
        ((7, 2), bfloat16), ((6, 3), np.float32)]]
    floats[-1][:4, 0] = [np.nan, np.inf, -np.inf, -0.0]
    whole = [RNG.integers(-100, 100, s).astype(d) for s, d in [
        ((8, 3), np.int32), ((13, 2), np.int8), ((5, 4), np.uint16)]]
    points = floats[0]
    floats, whole = floats[stride - 1::stride], whole[::stride]

    def every(floats: Any, whole: Any) -> Any:
        out = [(nearest(x, x[::-1]), forces(x, x[:, 0]), inside(x, x + 1), folds(x, 1 - x),
                calque.grad(lambda x: energy(x).astype(np.float32))(x)) for x in floats]
        ints = [(nearest(n, n[1:]), folds(n, n[1:])) for n in whole]
        batch = calque.vmap(nearest)(jnp.stack([points] * 3), jnp.stack([points[::-1]] * 3))
        return out, ints, batch

    jaxpr = calque.make_jaxpr(every)(floats, whole).jaxpr
    assert split_components(flat(jaxpr)) is not flat(jaxpr)
    with config.context("calque_cpu", level):
        try:
            runnable_target()
        except TargetError as error:
            pytest.skip(str(error).splitlines()[0])
        got = calque.tree.leaves(calque.jit(every)(floats, whole))
    with np.errstate(all="ignore"):
        want = interpret(jaxpr, [*floats, *whole])
    # sums of at most 17 * 17 terms, of which some cancel; halves are rounded at each operation
    near = {"float16": 0.06, "bfloat16": 0.5, "float32": 2e-4, "float64": 1e-12}
    for g, w in zip(got, want, strict=True):
        g, w, name = np.asarray(g), np.asarray(w), np.asarray(w).dtype.name
        assert g.dtype == w.dtype and g.shape == w.shape
        if name not in near:
            np.testing.assert_array_equal(g, w)
            continue
        g, w = g.astype(np.float64), w.astype(np.float64)
        scale = max(1.0, np.abs(w[np.isfinite(w)]).max(initial=0))
        np.testing.assert_allclose(g, w, rtol=0, atol=near[name] * scale)


def test_loops_and_nested_calls() -> None:
    def f(x: Any, m: Any) -> Any:
        return lax.fori_loop(0, 3, lambda i, x: x + 1e-3 * calque.jit(forces)(x, m), x)
    x, m = RNG.normal(size=(150, 3)), RNG.uniform(size=150)
    want = x.copy()
    for _ in range(3):
        d = want[:, None] - want[None]
        want = want + 1e-3 * (d * (m / ((d * d).sum(-1) + 0.125))[..., None]).sum(1)
    got = calque.jit(f)(x.astype(np.float32), m.astype(np.float32))
    np.testing.assert_allclose(np.asarray(got), want, rtol=1e-4, atol=1e-5)
