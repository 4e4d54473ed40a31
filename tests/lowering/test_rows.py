"""Loops over independent rows in several workgroups (passes/split, kernels/loop._over_rows): the
same bits as in one, the interpreter's values, and nothing where rows know each other.
"""
from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from support.oracle import interpret

import calque
import calque.numpy as jnp
from calque import lax
from calque.lowering.kernels import loop

pytestmark = pytest.mark.usefixtures("loops_over_memory")
RNG = np.random.default_rng(0)


def normal(*shape: int) -> Any:
    return (RNG.normal(size=shape) * 0.1).astype(np.float32)  # small: loops contract


@pytest.fixture(autouse=True)
def groups(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """How many workgroups each loop got; loops of any size are spread."""
    found: list[int] = []
    original = loop._over_rows

    def spy(shell: Any, e: Any) -> bool:
        done = original(shell, e)
        found.append(shell.groups)
        return done

    monkeypatch.setattr(loop, "_over_rows", spy)
    monkeypatch.setattr(loop, "SPREAD_WORK", 0)
    yield found


def recurrent(w: Any, h: Any, xs: Any) -> Any:
    return lax.scan(lambda h, x: (jnp.tanh(h @ w + x),) * 2, h, xs)


def counted(w: Any, h: Any, xs: Any) -> Any:
    """A counter beside the rows, a transposed weight, a captured array with all rows."""
    bias = jnp.arange(float(len(h)))[:, None] / 12

    def step(c: Any, x: Any) -> Any:
        return (jnp.tanh(c[0] @ w.T + x + bias) * (c[1] < 300), c[1] + 1), c[0].sum(-1)
    return lax.scan(step, (h, 0), xs, reverse=True)


def chains(a: Any, x: Any) -> Any:
    def step(x: Any, _: Any) -> Any:
        x = x - 0.1 * (a @ x)
        return x / (1e-3 + jnp.sqrt((x * x).sum())), (x[0], x[::-1][:2])
    return lax.scan(step, x, None, length=210)


def nested(w: Any, h: Any, xs: Any) -> Any:
    def outer(h: Any, x: Any) -> Any:
        inner = lax.fori_loop(0, 3, lambda i, v: jnp.tanh(v @ w) + x * 0.1 * i, h)
        _, sums = lax.scan(lambda c, row: (c + row, c.min()), h[0] * 0, inner.T[:, :10])
        h = lax.cond(x.sum() > 0, lambda a: a * 0.5, lambda a: jnp.flip(a, 1), inner)
        padded = jnp.pad(h, ((0, 0), (1, 2)))[:, ::2]
        moved = lax.dynamic_update_slice(padded, h[:, :1], (0, 2))
        return h, (moved, jnp.concatenate([h, inner], 1).max(1), sums * 0 + x[0, 0])
    return lax.scan(outer, h, xs)


def counted_loop(w: Any, h: Any) -> Any:
    return lax.while_loop(lambda c: c[0] < 203, lambda c: (
        c[0] + 1, jnp.tanh(jnp.einsum("ij,jk->ik", c[1], w) + w[:16, :1])), (0, h))


def pairs(x: Any) -> Any:
    """Rows at the last axis of products, reshapes that keep them."""
    def step(x: Any, _: Any) -> Any:
        y = (x.reshape(8, 2, 3).transpose(1, 2, 0) * 0.9).transpose(2, 0, 1)
        z = jnp.einsum("nij,nkj->nik", y, y)
        return jnp.tanh(0.5 * x + z.sum((1, 2))[:, None]), (jnp.squeeze(z[:, :1, :1], (1, 2)), z)
    return lax.scan(step, x, None, length=201)


CASES = [
    pytest.param("recurrent", recurrent, (normal(32, 32), normal(8, 32), normal(201, 8, 32)), 2,
                 marks=pytest.mark.slow),
    pytest.param("square", recurrent, (normal(12, 12), normal(12, 12), normal(201, 12, 12)), 3,
                 marks=pytest.mark.slow),
    pytest.param("counted", counted, (normal(16, 16), normal(12, 16), normal(201, 12, 16)), 3,
                 marks=pytest.mark.slow),
    ("rows of two groups", counted, (normal(16, 16), normal(13, 16), normal(201, 13, 16)), 3),
    ("scanned rows know each other", lambda h, xs: lax.scan(
        lambda h, x: (h * 0.5 + x.sum(0), x), h, xs), (normal(9, 9), normal(201, 9, 9)), 2),
    pytest.param("chains", calque.vmap(chains), (normal(24, 6, 6), normal(24, 6)), 6,
                 marks=pytest.mark.slow),
    ("one matrix", calque.vmap(chains, (None, 0)), (normal(6, 6), normal(32, 6)), 8),
    ("while", counted_loop, (normal(20, 20), normal(16, 20)), 4),
    ("pairs", pairs, (normal(8, 6),), 2)]


@pytest.mark.parametrize("name, f, args, count", CASES)
def test_rows(name: str, f: Any, args: Any, count: int, groups: list[int],
              monkeypatch: pytest.MonkeyPatch) -> None:
    spread = [np.asarray(v) for v in calque.tree.leaves(calque.jit(f)(*args))]
    assert set(groups) == {count}
    monkeypatch.setattr(loop, "SPREAD_WORK", 10**12)
    calque.clear_caches()
    alone = [np.asarray(v) for v in calque.tree.leaves(calque.jit(f)(*args))]
    assert set(groups) == {count, 1}
    program = calque.make_jaxpr(f)(*args)
    wants = interpret(program.jaxpr, args)
    for s, a, w in zip(spread, alone, wants, strict=True):
        assert s.tobytes() == a.tobytes()
        # contractions towards 0 keep errors of a step at some 10 eps
        np.testing.assert_allclose(s, w, rtol=0, atol=2e-5)


def mixed(form: Any) -> Any:
    return lambda h: lax.scan(lambda h, _: (jnp.tanh(form(h)), h[:, 0]), h, None, length=201)


XS = normal(201, 3)
TOGETHER = {
    "a sum over rows": mixed(lambda h: h - h.mean(0)),
    "rows change places": mixed(lambda h: h[::-1]),
    "rows are contracted": mixed(lambda h: h.T @ h),
    "rows move": mixed(lambda h: jnp.concatenate([h[4:], h[:4]])),
    "all need the first": mixed(lambda h: h * h[:1]),
    "rows become columns": mixed(lambda h: h.T),
    "outputs without rows": lambda h: lax.scan(lambda h, x: (h * 0.5, x), h, XS),
    "a sum in the carry": lambda h: lax.scan(
        lambda c, _: ((c[0] * 0.5, c[0].sum()), c[0]), (h, 0.0), None, length=201),
    "too few rows for two groups": lambda h: mixed(lambda h: h * 0.5 + h[:, :1])(h[:7, :7]),
    "any over rows": lambda h: lax.while_loop(
        lambda h: (h > 1e-3).any(), lambda h: h * 0.9, h)}


def test_rows_that_know_each_other_stay_together(groups: list[int]) -> None:
    h = normal(12, 12)
    program = calque.make_jaxpr(lambda h: [f(h) for f in TOGETHER.values()])(h)
    outs = calque.jit(lambda h: [f(h) for f in TOGETHER.values()])(h)
    assert set(groups) == {1} and len(groups) >= len(TOGETHER)
    for o, w in zip(calque.tree.leaves(outs), interpret(program.jaxpr, [h]), strict=True):
        np.testing.assert_allclose(np.asarray(o), w, rtol=0, atol=2e-5)


@pytest.mark.slow
def test_nests_and_gradients() -> None:
    args = (normal(10, 10), normal(20, 10), normal(60, 20, 10))
    for f in (nested, calque.grad(lambda *a: sum(y.sum() for y in calque.tree.leaves(
            recurrent(*a))), (0, 1, 2))):
        program = calque.make_jaxpr(f)(*args)
        wants = interpret(program.jaxpr, args)
        for o, w in zip(calque.tree.leaves(calque.jit(f)(*args)), wants, strict=True):
            np.testing.assert_allclose(np.asarray(o), w, rtol=1e-4, atol=1e-4)  # sums of 60 steps
