"""Bodies of loops that are no kernels, and branches, are cut as programs are outside of them: their
groups (passes/groups) are kernels of ours, and what every step finds anew is found before the loop,
also by way of values too large to keep (passes/hoist).  Oracle: the loop in NumPy, float64."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import calque
import calque.numpy as jnp
from calque import lax
from calque.core.program import Program, eliminate_dead_code, inner_of
from calque.lowering.passes import hoist as hoisting
from calque.lowering.passes.groups import grouped
from calque.lowering.passes.hoist import hoist

RNG = np.random.default_rng(5)
A, B = 110, 91  # no multiples of a vector; a step is work for several cores
R = RNG.uniform(-1, 1, (A, B, A)).astype(np.float32)
X = RNG.uniform(-1, 1, (A, B)).astype(np.float32)


def step(np: Any, x: Any, r: Any) -> Any:
    """Of value iteration: the reduced array is spread over the next step's."""
    return np.max(r + 0.75 * x.T[None], axis=2)


def lead(np: Any, x: Any, r: Any) -> Any:
    return np.sum(np.exp(r - x[:, :, None]), axis=2) * 0.005


def by_fori(n: int, f: Callable[..., Any]) -> Callable[..., Any]:
    return lambda x, r: lax.fori_loop(0, n, lambda i, x: f(jnp, x, r), x)


def by_while(n: int, f: Callable[..., Any]) -> Callable[..., Any]:
    return lambda x, r: lax.while_loop(
        lambda c: (c[0] < n) & (jnp.max(jnp.abs(c[1])) < 1e6),
        lambda c: (c[0] + 1, f(jnp, c[1], r)), (0, x))[1]


def by_scan(n: int, f: Callable[..., Any]) -> Callable[..., Any]:
    def run(x: Any, r: Any) -> Any:
        def one(x: Any, _: Any) -> tuple[Any, Any]:
            y = f(jnp, x, r)
            return y, y[3]
        return lax.scan(one, x, None, length=n)
    return run


def within(p: Program) -> int:
    """How many groups stand in the Programs that a Program's equations hold."""
    return sum("rows" in e.params for q in p.equations if "rows" not in q.params
               for inner in inner_of(q.params) for e in inner.equations)


def planned(f: Callable[..., Any], *args: Any) -> Program:
    return grouped(hoist(eliminate_dead_code(calque.make_jaxpr(f)(*args).jaxpr)))


# (a condition has a group of its own; sums of rows that stay apart are a kernel with their loop)
@pytest.mark.parametrize("way, f, groups", [
    (by_fori, step, 1), (by_scan, step, 1), (by_while, step, 2), (by_scan, lead, 1),
    (by_while, lead, 2), (by_fori, lead, 0)])
def test_bodies(way: Callable[..., Any], f: Callable[..., Any], groups: int) -> None:
    want = X.astype(np.float64)
    rows = []
    for _ in range(30):
        want = f(np, want, R.astype(np.float64))
        rows.append(want[3])
    run = way(30, f)
    assert within(planned(run, X, R)) == groups
    out = calque.jit(run)(X, R)
    out, stack = out if isinstance(out, tuple) else (out, None)
    # 30 steps of float32, each of which shrinks what the last one rounded
    np.testing.assert_allclose(out, want, rtol=2e-5, atol=2e-6)
    if stack is not None:
        np.testing.assert_allclose(stack, np.stack(rows), rtol=2e-5, atol=2e-6)


def test_loops_in_loops_and_branches() -> None:
    """A group three levels down, taken and not taken, beside a carry that is written in place."""
    def f(x: Any, r: Any, log: Any) -> Any:
        def outer(i: Any, c: Any) -> Any:
            def inner(j: Any, x: Any) -> Any:
                return lax.cond((i + j) % 2 == 0, lambda x: step(jnp, x, r), lambda x: x + 1, x)
            x, log = c
            x = lax.fori_loop(0, 9, inner, x)
            return x, log.at[i % 4, :].set(x[0])
        return lax.fori_loop(0, 11, outer, (x, log))

    want, log = X.astype(np.float64), np.zeros((4, B))
    for i in range(11):
        for j in range(9):
            want = step(np, want, R.astype(np.float64)) if (i + j) % 2 == 0 else want + 1
        log[i % 4] = want[0]
    out, written = calque.jit(f)(X, R, np.zeros((4, B), np.float32))
    np.testing.assert_allclose(out, want, rtol=2e-5)
    np.testing.assert_allclose(written, log, rtol=2e-5)


def test_derivatives_and_batches() -> None:
    """Reverse mode through steps with sums against finite differences; a vmap against a loop."""
    r = R[:, :, :40]

    def total(x: Any) -> Any:
        return jnp.sum(by_fori(5, lead)(x, r)**2)

    with calque.enable_x64(True):
        x = X.astype(np.float64)
        slope = calque.jit(calque.grad(total))(x)
        at, h = (7, 11), 1e-4
        ends = [x.copy(), x.copy()]
        ends[0][at] += h
        ends[1][at] -= h
        up, down = (float(calque.jit(total)(e)) for e in ends)
        # (a total of some 50, rounded to 1e-14, over 2e-4)
        np.testing.assert_allclose(slope[at], (up - down) / (2 * h), rtol=1e-5)
    xs = np.stack([X, X + 1, -X])
    every = calque.jit(calque.vmap(by_fori(6, step), (0, None)))(xs, R)
    for got, x in zip(every, xs):
        want = x.astype(np.float64)
        for _ in range(6):
            want = step(np, want, R.astype(np.float64))
        np.testing.assert_allclose(got, want, rtol=2e-5, atol=2e-6)


def _interpolated(h: Any, g: Any, e: Any) -> Any:
    return lax.fori_loop(0, 10, lambda i, h: calque.vmap(
        lambda y: jnp.mean(jnp.interp(y * e, g, h)))(g), h)


def test_what_is_too_large_to_keep_moves_with_what_reads_it(
        monkeypatch: pytest.MonkeyPatch) -> None:
    """The points of an interpolation are found once, though every pair is compared for them."""
    g = np.linspace(0.5, 3, 50, dtype=np.float32)
    e = RNG.lognormal(0, 0.1, 30).astype(np.float32)
    want = np.sqrt(g).astype(np.float64)
    for _ in range(10):
        want = np.interp(g[:, None] * e, g, want).mean(1)
    monkeypatch.setattr(hoisting, "LARGEST", 50 * 30)  # the pairs are 50 times as many
    p = hoist(calque.make_jaxpr(_interpolated)(np.sqrt(g), g, e).jaxpr)
    (loop,) = [q for q in p.equations if q.name == "scan"]
    inside = [v.aval.size for q in loop.params["jaxpr"].equations for v in q.outputs]
    assert max(inside) <= 50 * 30
    assert any(v.aval.size == 50 * 30 * 50 for q in p.equations for v in q.outputs)
    # 10 means of 30 values in float32
    np.testing.assert_allclose(calque.jit(_interpolated)(np.sqrt(g), g, e), want, rtol=1e-5)


def test_what_is_too_large_to_keep_and_read_inside_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hoisting, "LARGEST", 100)

    def f(x: Any, a: Any) -> Any:
        return lax.fori_loop(0, 40, lambda i, x: x * 0.5 + jnp.sin(a[:, None] * a)[3], x)

    a = RNG.normal(size=20)
    p = hoist(calque.make_jaxpr(lambda x, a: lax.fori_loop(
        0, 40, lambda i, x: x * 0.5 + jnp.sin(a[:, None] * a) @ x, x))(a, a).jaxpr)
    (loop,) = [q for q in p.equations if q.name == "scan"]
    assert any(v.aval.size == 400 for q in loop.params["jaxpr"].equations for v in q.outputs)
    want = a.copy()
    for _ in range(40):
        want = want * 0.5 + np.sin(a[:, None] * a)[3]
    np.testing.assert_allclose(calque.jit(f)(a.astype(np.float32), a.astype(np.float32)), want,
                               rtol=1e-5, atol=1e-6)


def test_loops_of_solvers() -> None:
    """What custom_linear_solve holds is a call when it is compiled: its loops are cut, too."""
    m = 4 * np.eye(A, dtype=np.float32) + np.exp(-np.square(np.arange(A)[:, None] - np.arange(A)))
    m = m.astype(np.float32)

    def f(r: Any, b: Any) -> Any:
        def operator(v: Any) -> Any:
            e = jnp.exp(r - r.max(2, keepdims=True))
            return m @ v + (e / e.sum(2, keepdims=True)).mean((1, 2)) * v
        return calque.scipy.sparse.linalg.cg(operator, b, tol=1e-6)[0]

    p = planned(f, R, X[:, 0])
    assert not any(e.name == "custom_linear_solve" for e in p.equations)
    assert sum("rows" in e.params for e in p.equations) + within(p)
    e = np.exp(R.astype(np.float64) - R.max(2, keepdims=True))
    whole = m + np.diag((e / e.sum(2, keepdims=True)).mean((1, 2)))
    np.testing.assert_allclose(calque.jit(f)(R, X[:, 0]), np.linalg.solve(whole, X[:, 0]),
                               rtol=1e-4, atol=1e-5)


def test_second_computations_are_cut_and_stay() -> None:
    def f(x: Any) -> Any:
        e = jnp.exp(x - x.max(-1, keepdims=True))
        return jnp.sin(e / e.sum(-1, keepdims=True))

    def loss(way: Any) -> Any:
        return lambda x: (way(f)(x) ** 2).sum()

    p = planned(calque.grad(loss(calque.checkpoint)), X)
    (again,) = [e for e in p.equations if e.name == "checkpoint"]
    assert any("rows" in e.params for e in again.params["jaxpr"].equations)
    plain, kept = (np.asarray(calque.jit(calque.grad(loss(w)))(X))
                   for w in (lambda f: f, calque.checkpoint))
    np.testing.assert_allclose(kept, plain, rtol=1e-5, atol=1e-7)
    forward = planned(loss(calque.checkpoint), X)  # nothing is computed twice: a call
    assert not any(e.name == "checkpoint" for e in forward.equations)


def test_what_is_repeated_in_every_step_is_not_kept() -> None:
    """Rows spread over a loop's space cost memory before it and nothing in it."""
    def f(x: Any, q: Any) -> Any:
        return lax.fori_loop(
            0, 5, lambda i, x: (x[:, :, None] * jnp.exp(q)[None, None]).sum(2) * 0.01, x)

    q = R[0, 0]
    p = hoist(eliminate_dead_code(calque.make_jaxpr(f)(X, q).jaxpr))
    assert max(v.aval.size for e in p.equations for v in e.outputs) <= X.size
    assert any(e.name == "exp" for e in p.equations)  # and what is computed of them is found once
    want = X.astype(np.float64)
    for _ in range(5):
        want = want * np.exp(q.astype(np.float64)).sum() * 0.01
    np.testing.assert_allclose(calque.jit(f)(X, q), want, rtol=1e-5)
