"""Loops whose rows hold few numbers run in registers, number by number: every primitive they know,
alone and in rows; states under vmap and nested vmaps, filters, updates, branches, loops in loops;
and loops over memory that read joined arrays and update in place.  NumPy is the oracle.
"""
from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from support.harness import (
    Case,
    by_numpy,
    check_loop,
    compare,
    drawn,
    expected,
    function,
    partly_slow,
    run,
)
from support.samples import KEY, ROWS, Row, Sample
from test_kernels import KNOWN, STEPS, parts, scans

import calque
import calque.numpy as jnp
from calque import config, lax
from calque.lowering.emit.dtypes import HALVES
from calque.lowering.passes import loops, registers

pytestmark = pytest.mark.usefixtures("x64")
F = np.float32
RNG = np.random.default_rng(8)
COUNT = 5  # rows: one vector of four, and one that overlaps it


def shown(f: Any, *args: Any) -> registers.Plan | None:
    """How the only loop of a function runs in registers."""
    (loop,) = scans(f, *args)
    return registers.plan(loop)


# ---- primitives
def in_rows(row: Row, sample: Sample, dtype: Any) -> Case | None:
    """The primitive, vmapped, as the body of a scan; rows have their elements in other orders."""
    params, first = sample.parameters(dtype), row.arrays(sample, dtype)
    if any(o.dtype == KEY for o in sample.operands) or not all(
            a.size and np.dtype(a.dtype) in loops.DTYPES for a in first):
        return None
    each = [[np.roll(np.flip(a) if k % 2 else a, k) for a in first] for k in range(COUNT)]
    wants = [expected(row, params, arrays) for arrays in each]
    if any(w.dtype not in loops.DTYPES or not w.size for w in wants[0]):
        return None
    prim = function(row, sample, params)

    def f(start: Any, *stacked: Any) -> list[Any]:
        def one(start: Any, *steps: Any) -> Any:
            def body(c: Any, xs: Any) -> Any:  # (operands that the row's carry chooses)
                xs = [jnp.where(c[0] < 0, x[::-1] if x.ndim else x, x) for x in xs]
                return c + 1, prim(*xs)
            count, ys = lax.scan(body, start, list(steps))
            return [count, *[y[0] for y in ys], *[y[STEPS - 1] for y in ys]]
        return calque.vmap(one, (0, *[1] * len(stacked)))(start, *stacked)  # type: ignore

    stacked = [np.zeros((COUNT, 2)), *[np.repeat(np.stack(column)[None], STEPS, 0)
                                       for column in zip(*each)]]
    plan = shown(f, *stacked)
    if plan is None or plan.sizes[:1] != (COUNT,):
        return None
    check, n = compare([np.stack(column) for column in zip(*wants)], row), len(wants[0])

    def both(outs: list[Any]) -> str:
        if not np.all(outs[0] == STEPS):
            return f"the carry is {outs[0]}"
        return check(outs[1:1 + n]) or check(outs[1 + n:])

    return Case(f"{row.name} [{sample.label}] {dtype}", f, stacked, both)


def rows(name: str) -> list[Case]:
    row = ROWS[name]
    grid = [(s, d) for s in row.samples for d in row.dtypes
            if (s is row.samples[0] or d == row.main) and (d == row.main or d not in HALVES)]
    return [c for c in (in_rows(row, s, d) for s, d in grid) if c is not None]


DEFAULT = KNOWN[::4]


@pytest.mark.parametrize("start", [
    pytest.param(i, marks=[pytest.mark.slow] if i else []) for i in range(0, len(DEFAULT), 4)])
def test_primitives_in_rows(start: int) -> None:
    run([c for n in DEFAULT[start:start + 4] for c in drawn(rows(n), 0.1)[0]])


@pytest.mark.slow
@pytest.mark.parametrize("start", range(0, len(KNOWN), 8))
def test_all_primitives_in_rows(start: int) -> None:
    found = {n: rows(n) for n in KNOWN[start:start + 8]}
    run([c for cases in found.values() for c in cases])
    assert {n for n in found if not found[n]} <= {"pad", "while"}  # whose vmapped forms are others


@pytest.mark.parametrize("every", [False, pytest.param(True, marks=pytest.mark.slow)])
@pytest.mark.parametrize("start", partly_slow(range(0, len(KNOWN), 50), 0.3))
def test_primitives_alone(start: int, every: bool) -> None:
    """The same loops that test_kernels runs over memory."""
    first, rest = parts(KNOWN[start:start + 50], True)
    run([*first, *rest] if every else drawn(first, 0.1)[0])


# ---- whole loops
def rk4(y: Any) -> Any:
    def field(y: Any) -> Any:
        return jnp.stack([y[1], (1 - y[0] ** 2) * y[1] - y[0], y[2] * 0.5 - y[0]])

    def step(y: Any, _: Any) -> Any:
        k1 = field(y)
        k2 = field(y + 0.005 * k1)
        y = y + 0.01 * (k1 + 2 * k2)
        return y, (y, y[0] > 0)
    return lax.scan(step, y, None, length=210)


def kalman(zs: Any, a: Any, h: Any) -> Any:
    n, m = a.shape[0], h.shape[0]

    def step(carry: Any, z: Any) -> Any:
        x, p = carry
        x, p = a @ x, a @ p @ a.T + 0.01 * jnp.eye(n)
        s = h @ p @ h.T + 0.1 * jnp.eye(m)
        k = jnp.linalg.solve(s, h @ p).T
        x = x + k @ (z - h @ x)
        return (x, p - k @ h @ p), x
    return lax.scan(step, (jnp.zeros(n), jnp.eye(n)), zs)


def filtered(a: Any, zs: Any) -> Any:
    return calque.grad(lambda a: (kalman(zs, a, jnp.eye(2, a.shape[0]))[1] ** 2).sum())(a)


def newton(x: Any, tol: Any) -> Any:
    def go(s: Any) -> Any:
        return (jnp.abs(s[1]).max() > tol) & (s[2] < 50)

    def step(s: Any) -> Any:
        x, _, n = s
        f = jnp.stack([x[0] ** 2 + x[1] ** 2 - 4, x[0] - x[1]])
        j = jnp.stack([jnp.stack([2 * x[0], 2 * x[1]]), jnp.array([1.0, -1.0])])
        return x - jnp.linalg.solve(j, f), f, n + 1
    return lax.while_loop(go, step, (x, jnp.ones(2), 0))


def branching(x: Any, k: Any) -> Any:
    """A branch that all rows share, a loop in the loop, integers and bools in the carry."""
    def step(c: Any, i: Any) -> Any:
        x, n, b = c
        x = lax.cond(i % 3 == k, lambda x: x * 0.5 + x.max(), lambda x: x - 0.1 * x[::-1], x)
        x = lax.fori_loop(0, 30, lambda _, v: v + 0.01 * jnp.flip(v), x)
        n = lax.switch(i % 4, [lambda n: n + 1, lambda n: n * 3, lambda n: n ^ 5, lambda n: n], n)
        return (x, n, b ^ (x > 0)), (x.sum(), n)
    return lax.scan(step, (x, jnp.arange(2), x > 0), jnp.arange(60))


def shared(x: Any, table: Any, u: Any) -> Any:
    """What all rows share: a table, a step's input, zeros that are made in the body."""
    def step(c: Any, v: Any) -> Any:
        best = jnp.where(c > table[0], c, jnp.zeros_like(c))
        return c * 0.9 + v * table[1] + 0.05 * best, jnp.broadcast_to(v, c.shape) + best
    return lax.scan(step, x, u)


def matrices(x: Any) -> Any:
    def step(m: Any, _: Any) -> Any:
        low = jnp.linalg.cholesky(m @ m.T + jnp.eye(3))
        return low / (1 + jnp.abs(low)), (low.T, m.prod(0), m.min(1), jnp.pad(m, 1)[1:, ::2])
    return lax.scan(step, x, None, length=60)


def moved(x: Any, n: Any) -> Any:
    """Positions that are known when it runs: selections."""
    def step(c: Any, i: Any) -> Any:
        one = lax.dynamic_slice(c, (i % 4,), (2,))
        c = lax.dynamic_update_slice(c, one * 0.5, (i * 3 % 5 - n,))
        return c.at[i % 3].add(0.1).at[(i + n) % 7].multiply(0.9), c[i % 9]
    return lax.scan(step, x, jnp.arange(70))


def placed(x: Any, n: Any) -> Any:
    """The same, less of it, for rows."""
    def step(c: Any, i: Any) -> Any:
        one = lax.dynamic_slice(c, (i - n,), (2,))
        return lax.dynamic_update_slice(c, one * 0.5 + 1, (n - i,)), one
    return lax.scan(step, x, jnp.arange(70) % 7)


def forced(y: Any, u: Any, w: Any, first: Any) -> Any:
    """Tables that stay in memory, read where the step says, outside them, too."""
    def body(i: Any, y: Any) -> Any:
        near = lax.dynamic_slice(w, (i - first, i % 3), (2, 1)).sum()
        return y + 0.01 * (u[i] - u[2 * i - 7] * jnp.abs(y)) + near
    return lax.fori_loop(0, 90, body, y)


def sought(x: Any, table: Any) -> Any:
    """A table in a loop whose end the data decides, and in its condition."""
    return lax.while_loop(lambda s: s[0] < lax.dynamic_slice(table, (s[1],), (1,))[0],
                          lambda s: (s[0] + table[s[1] + 1] * 0.1, s[1] + 1), (x, 0))


V = calque.vmap
FORCE = [RNG.standard_normal(80), RNG.standard_normal((80, 3))]
WHOLE: dict[str, tuple[Any, list[Any], tuple[int, ...]]] = {
    **{f"rk4 of {n}": (V(rk4), [RNG.standard_normal((n, 3)).astype(F)], (n,))
       for n in (4, 16, 33)},
    "rk4 alone": (rk4, [RNG.standard_normal(3)], ()),
    "rk4 under two vmaps": (V(V(rk4)), [RNG.standard_normal((5, 7, 3))], (5, 7)),
    "kalman": (kalman, [RNG.standard_normal((90, 2)), np.eye(4) * 0.9, RNG.standard_normal((2, 4))],
               ()),
    "kalman of 9": (V(kalman, (0, None, None)), [
        RNG.standard_normal((9, 60, 2)).astype(F), np.eye(3, dtype=F) * F(0.9),
        RNG.standard_normal((2, 3)).astype(F)], (9,)),
    "kalman of 6 models": (V(kalman, (None, 0, None)), [
        RNG.standard_normal((60, 2)), RNG.standard_normal((6, 3, 3)) / 4,
        RNG.standard_normal((2, 3))], (6,)),
    "newton of 21": (V(newton, (0, None)), [
        np.abs(RNG.standard_normal((21, 2))) + np.array([1.0, 3.0]), 1e-9], (21,)),
    "branching of 6": (V(branching, (0, None)), [RNG.standard_normal((6, 2)), 1], (6,)),
    "shared by 18": (V(shared, (0, None, None)), [
        RNG.standard_normal((18, 2)), RNG.standard_normal((2, 2)), RNG.standard_normal(300)],
        (18, 2)),
    "a step's row of 5": (V(shared, (0, 0, 1)), [
        RNG.standard_normal((5, 2)), RNG.standard_normal((5, 2, 2)),
        RNG.standard_normal((300, 5))], (5,)),
    "shared under two vmaps": (V(V(shared, (0, 0, None)), (0, None, 0)), [
        RNG.standard_normal((3, 5, 2)).repeat(2, 0), RNG.standard_normal((5, 2, 2)),
        RNG.standard_normal((6, 300))], (6, 5, 2)),
    "matrices of 4": (V(matrices), [RNG.standard_normal((4, 3, 3))], (4,)),
    "matrices alone": (matrices, [RNG.standard_normal((3, 3))], ()),
    "moved": (moved, [RNG.standard_normal(9), 1], ()),
    "forced": (forced, [RNG.standard_normal(2), *FORCE, 3], ()),
    "forced of 37": (V(forced, (0, None, None, None)), [RNG.standard_normal((37, 2)), *FORCE, 0],
                     (37, 2)),
    "each its force": (V(forced, (0, 0, None, None)), [
        RNG.standard_normal((6, 2)).astype(F), RNG.standard_normal((6, 80)).astype(F),
        FORCE[1].astype(F), 1], (6, 2)),
    "sought": (sought, [0.5, np.linspace(9, 0, 50)], ()),
    "newton of 3 x 5": (V(V(newton, (0, None)), (0, None)), [
        np.abs(RNG.standard_normal((5, 3, 2))) + np.array([1.0, 3.0]), 1e-9], (5, 3)),
    "placed of 17": (V(placed, (0, None)), [RNG.standard_normal((17, 9)).astype(F), 2], (17,)),
}


@pytest.mark.parametrize("level, share", [
    ("host", 0.12), *[pytest.param(level, share, marks=pytest.mark.slow) for level, share in (
        ("host", 1), ("x86-64-v2", 0.2), ("x86-64-v3", 0.2))]])
def test_whole_loops(level: str, share: float) -> None:
    names = drawn(list(WHOLE), share, len(level))[0]
    with config.context("calque_cpu", level):
        for name in names:
            f, args, sizes = WHOLE[name]
            plan = shown(f, *args)
            assert plan is not None and plan.sizes == sizes, (name, plan and plan.sizes)
            check_loop(f, args, name)


def test_rows_with_ends_of_their_own_and_few_of_them() -> None:
    """Three are too few for lanes: they go on together, as one row with all their numbers."""
    f = calque.vmap(newton, (0, None))
    x = np.abs(RNG.standard_normal((3, 2))) + np.array([1.0, 3.0])
    plan = shown(f, x, 1e-9)
    assert plan is not None and plan.sizes == ()
    got = calque.jit(f)(x, 1e-9)[0]
    np.testing.assert_allclose(got, np.full((3, 2), np.sqrt(2)), rtol=1e-9)


def test_derivatives_of_a_filter() -> None:
    """Central differences are the oracle."""
    a, zs = np.eye(3) * 0.8, RNG.standard_normal((40, 2))
    g = np.asarray(calque.jit(filtered)(a, zs))
    (_, backward) = [registers.plan(e) for e in scans(filtered, a, zs)]
    assert backward is not None

    def loss(a: Any) -> float:
        return float(by_numpy(lambda a: (kalman(zs, a, jnp.eye(2, 3))[1] ** 2).sum(), [a])[0])

    u, h = np.cos(np.arange(9.0)).reshape(3, 3), 1e-6
    slope = (loss(a + h * u) - loss(a - h * u)) / (2 * h)
    assert float(np.sum(g * u)) == pytest.approx(slope, rel=1e-6)  # h^2 and rounding / h


def test_a_captured_array_is_handed_on() -> None:
    """A constant of a loop that stays in memory, as what the loop carries, at once or within."""
    w = RNG.standard_normal(36).astype(np.float32)

    def f(w: Any, c: Any) -> Any:
        _, last = lax.while_loop(lambda s: s[0] < 70, lambda s: (s[0] + 1, w), (0, c))
        total, _ = lax.fori_loop(0, 70, lambda i, s: (s[0] + s[1][i % 36], lax.fori_loop(
            0, 3, lambda _, v: w, s[1])), (0.0, c))
        return last, total

    last, total = calque.jit(f)(w, w * 0)
    np.testing.assert_array_equal(last, w)
    want = sum(float(w[i % 36]) for i in range(1, 70))
    np.testing.assert_allclose(total, want, rtol=1e-5, atol=1e-5)  # 70 additions


@pytest.mark.parametrize("count", [3, 40])
def test_a_function_that_is_used_often_is_called(count: int) -> None:
    """Sines one after another in a step: few in place, many by a call; both as NumPy's."""
    x = np.linspace(-2, 2, 37).astype(np.float32)

    def f(x: Any) -> Any:
        def step(c: Any, _: Any) -> Any:
            for i in range(count):
                c = jnp.sin(c * 1.5 + i) if i % 2 else jnp.exp(-c * c)
            return c, None
        return lax.scan(step, x, None, 30)[0]

    want = x.astype(float)
    for _ in range(30):
        for i in range(count):
            want = np.sin(want * 1.5 + i) if i % 2 else np.exp(-want * want)
    # each step draws values together (|derivative| < 1 on the way): no more than a step's rounding
    np.testing.assert_allclose(calque.jit(f)(x), want, rtol=2e-5, atol=2e-6)


def test_long_chains_of_what_all_rows_share() -> None:
    """700 operations behind each other on a constant of all rows, which the search for their parts
    once followed to the end of Python's stack."""
    w = np.linspace(0, 1, 16 * 40).reshape(16, 40).astype(np.float32)

    def f(x: Any, w: Any) -> Any:
        def step(c: Any, k: Any) -> Any:
            y = w + k
            for i in range(700):
                y = y * 0.999 if i % 2 else y + 0.001
            return c * 0.5 + y, None
        return lax.scan(step, x, np.arange(20, dtype=np.float32))[0]

    want = np.zeros((16, 40))
    for k in range(20):
        y = w.astype(float) + k
        for i in range(700):
            y = y * 0.999 if i % 2 else y + 0.001
        want = want * 0.5 + y
    # 700 roundings, half an ulp each, of which most cancel
    np.testing.assert_allclose(calque.jit(f)(np.zeros_like(w), w), want, rtol=2e-5)
