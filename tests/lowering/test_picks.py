"""Rows that a gather picks and a group reads where they are (passes/picks), beside NumPy."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import calque
import calque.numpy as jnp
from calque import export, lax
from calque.core.config import config
from calque.core.program import Program, eliminate_dead_code
from calque.lowering.passes.groups import grouped
from calque.lowering.passes.rows import Rows
from calque.lowering.target.targets import TargetError, runnable_target

RNG = np.random.default_rng(1)


def whole(*shape: int) -> Any:
    """Small whole numbers: sums of products are exact in any order."""
    return RNG.integers(-8, 8, shape).astype(np.float32)


def inside(f: Callable[..., Any], *args: Any) -> int:
    """How many gathers are in groups around folds."""
    p: Program = calque.make_jaxpr(f)(*args).jaxpr
    return sum(q.name == "gather" for e in grouped(eliminate_dead_code(p)).equations
               if isinstance(e.params.get("rows"), Rows) for q in e.params["jaxpr"].equations)


def policy(v: Any, s: Any, q: Any) -> Any:
    """Expected values under a policy: v[s[i, j], :] @ q[j, :]."""
    def one(v: Any, s: Any, q: Any, i: Any, j: Any) -> Any:
        return jnp.sum(v[s[i, j], :] * q[j, :])
    rows = calque.vmap(one, in_axes=(None, None, None, None, 0))
    return calque.vmap(rows, in_axes=(None, None, None, 0, None))(
        v, s, q, jnp.arange(s.shape[0]), jnp.arange(s.shape[1]))


@pytest.mark.parametrize("level, dtype", [
    ("x86-64-v2", "float32"), ("x86-64-v3", "float64"), ("x86-64-v4", "bfloat16"),
    ("x86-64-v3", "int32")])
def test_expected_values_under_a_policy(level: str, dtype: str) -> None:
    with calque.enable_x64(True), config.context("calque_cpu", level):
        try:
            runnable_target()
        except TargetError as error:
            pytest.skip(str(error).splitlines()[0])
        v, q = (jnp.asarray(whole(*s)).astype(dtype) for s in ((50, 33), (20, 33)))
        s = RNG.integers(0, 50, (60, 20))
        assert inside(policy, v, s, q) == 1
        made = np.asarray(calque.jit(policy)(v, s, q)).astype(np.float64)
    both = (np.asarray(x).astype(np.float64) for x in (v, q))
    np.testing.assert_allclose(made, np.einsum("ijk,jk->ij", next(both)[s], next(both)),
                               rtol=2e-2 if dtype == "bfloat16" else 1e-6)


def test_neighbours_are_summed_over() -> None:
    x, ids = whole(70, 40), RNG.integers(0, 70, (500, 9))
    f = lambda x, ids: x[ids].sum(1)  # noqa: E731
    assert inside(f, x, ids) == 1
    np.testing.assert_array_equal(calque.jit(f)(x, ids), x[ids].sum(1))


def test_rows_that_several_sweeps_read() -> None:
    x, ids = whole(70, 40), RNG.integers(0, 70, 800)

    def f(x: Any, ids: Any) -> Any:
        y = x[ids] * 0.25
        e = jnp.exp(y - y.max(-1, keepdims=True))
        return e / e.sum(-1, keepdims=True)

    assert inside(f, x, ids) == 1
    e = np.exp(x[ids].astype(np.float64) * 0.25)
    np.testing.assert_allclose(calque.jit(f)(x, ids), e / e.sum(-1, keepdims=True), rtol=1e-5)


@pytest.mark.parametrize("mode", ["clip", "fill"])
@pytest.mark.parametrize("dtype", ["int8", "uint32", "int64"])
def test_positions_outside(mode: str, dtype: str) -> None:
    x = whole(70, 40)
    ids = RNG.integers(0 if dtype[0] == "u" else -100, 100, (500, 3)).astype(dtype)

    def f(x: Any, ids: Any) -> Any:
        return (x.at[ids].get(mode=mode, wrap_negative_indices=False) * x[:3]).sum(-1)

    with calque.enable_x64(True):
        assert inside(f, x, ids) == 1
        made = np.asarray(calque.jit(f)(x, ids))
    picked = x[np.clip(ids.astype(np.int64), 0, 69)]
    if mode == "fill":
        out = (ids.astype(np.int64) < 0) | (ids.astype(np.int64) > 69)
        picked = np.where(out[..., None], np.nan, picked)
    np.testing.assert_allclose(made, (picked * x[:3]).sum(-1))


def test_of_a_batch_each_picks_of_its_own() -> None:
    x, ids, w = whole(30, 12, 40), RNG.integers(0, 12, (30, 50)), whole(40)
    f = lambda x, ids, w: calque.vmap(lambda x, i: (x[i] * w).sum(-1))(x, ids)  # noqa: E731
    assert inside(f, x, ids, w) == 1
    np.testing.assert_array_equal(
        calque.jit(f)(x, ids, w), (np.take_along_axis(x, ids[..., None], 1) * w).sum(-1))


def test_two_positions_name_a_row() -> None:
    x, i, j = whole(6, 7, 40), RNG.integers(0, 6, 700), RNG.integers(0, 7, 700)
    f = lambda x, i, j: x[i, j].max(-1)  # noqa: E731
    assert inside(f, x, i, j) == 1
    np.testing.assert_array_equal(calque.jit(f)(x, i, j), x[i, j].max(-1))


def test_what_is_computed_is_in_memory_first() -> None:
    x, ids = whole(70, 40), RNG.integers(0, 70, 800)
    for f in (lambda x, ids: (jnp.sin(x)[ids] * 2).sum(-1),
              lambda x, ids: (x[ids] - x[ids].mean(-1, keepdims=True)).sum(0),
              lambda x, ids: lax.fori_loop(0, 3, lambda _, v: (v[ids[:70]] * x).sum(
                  -1, keepdims=True) * 1e-3 + v, x)):
        made, steps = calque.jit(f)(x, ids), None
        with calque.disable_jit():
            steps = f(jnp.asarray(x), jnp.asarray(ids))
        np.testing.assert_allclose(made, steps, rtol=1e-5, atol=1e-3)


LANES = [("x86-64-v2", "float32", 33), ("x86-64-v3", "float64", 130), ("x86-64-v4", "bfloat16", 64),
         ("x86-64-v3", "int8", 257)]


@pytest.mark.parametrize("level, dtype, n", LANES)
@pytest.mark.parametrize("mode", ["clip", "fill"])
def test_positions_of_each_lane(level: str, dtype: str, n: int, mode: str) -> None:
    """Elements of one table, and of a table for each row."""
    with calque.enable_x64(True), config.context("calque_cpu", level):
        try:
            runnable_target()
        except TargetError as error:
            pytest.skip(str(error).splitlines()[0])
        x, tables = whole(50), whole(70, 50)
        x[7] = np.nan if dtype[0] in "fb" else 7
        ids = RNG.integers(-60, 110, (70, n))
        x, tables = jnp.asarray(x).astype(dtype), jnp.asarray(tables).astype(dtype)

        def f(x: Any, tables: Any, ids: Any) -> Any:
            each = calque.vmap(lambda t, i: t.at[i].get(mode=mode, fill_value=3))(tables, ids)
            return (x.at[ids].get(mode=mode, fill_value=3) + each).max(-1), each.max(0)

        assert inside(f, x, tables, ids) >= 2
        made = calque.jit(f)(x, tables, ids)
    ids = np.where(ids < 0, ids + 50, ids)
    at, out = np.clip(ids, 0, 49), (ids < 0) | (ids > 49) if mode == "fill" else np.zeros(1, bool)
    x, tables = np.asarray(x), np.asarray(tables)
    each = np.where(out, tables.dtype.type(3), np.take_along_axis(tables, at, 1))
    with np.errstate(invalid="ignore"):  # NumPy's maximum of bfloat16 warns of each NaN
        expected = (np.where(out, x.dtype.type(3), x[at]) + each).max(-1), each.max(0)
    for result, want in zip(made, expected, strict=True):
        np.testing.assert_array_equal(np.asarray(result, np.float64), want.astype(np.float64))


def test_two_positions_of_each_lane() -> None:
    """Stay outside of such groups: IREE reads one address for both, which leaves a loop."""
    x, i, j = whole(6, 7), RNG.integers(0, 6, (90, 50)), RNG.integers(0, 7, (90, 50))
    f = lambda x, i, j: (x[i, j] * 2).sum(-1)  # noqa: E731
    assert inside(f, x, i, j) == 0
    np.testing.assert_array_equal(calque.jit(f)(x, i, j), (x[i, j] * 2).sum(-1))


@pytest.mark.parametrize("dtype, sizes", [
    ("float64", (31, 23, 10, 101)), ("float32", (9, 8, 1, 65)), ("int32", (1, 40, 3, 7))])
def test_what_is_picked_is_turned_round(dtype: str, sizes: tuple[int, ...]) -> None:
    """Orders to a stock of x with demand d, of values for each z: v[(x - d)+ + a, z] summed."""
    a, x, z, d = sizes
    v, weights = whole(a + x + d, z), whole(d)

    def f(v: Any, weights: Any) -> Any:
        def one(a: Any, x: Any) -> Any:
            at = jnp.maximum(x - jnp.arange(d), 0) + a
            return jnp.sum(v[at].T * weights, axis=1)
        return calque.vmap(calque.vmap(one, (None, 0)), (0, None))(jnp.arange(a), jnp.arange(x))

    with calque.enable_x64(True):
        v, weights = (jnp.asarray(y).astype(dtype) for y in (v, weights))
        assert inside(f, v, weights) == 1
        made = np.asarray(calque.jit(f)(v, weights))
    at = np.maximum(np.arange(x)[:, None] - np.arange(d), 0) + np.arange(a)[:, None, None]
    np.testing.assert_array_equal(made, np.einsum("axdz,d->axz", np.asarray(v)[at], weights))


def test_positions_of_lanes_read_in_several_sweeps() -> None:
    x, ids = whole(50), RNG.integers(0, 50, (300, 77))

    def f(x: Any, ids: Any) -> Any:
        y = x[ids] * 0.25
        e = jnp.exp(y - y.max(-1, keepdims=True))
        return e / e.sum(-1, keepdims=True)

    assert inside(f, x, ids) == 1
    e = np.exp(x[ids].astype(np.float64) * 0.25)
    np.testing.assert_allclose(calque.jit(f)(x, ids), e / e.sum(-1, keepdims=True), rtol=1e-5)
    for empty in (x[:0], x):
        made = calque.jit(lambda x, ids: x.at[ids].get(mode="fill").sum(-1))(empty, ids[:, :0])
        np.testing.assert_array_equal(made, np.zeros(300, np.float32))


def test_prices_by_interpolation_in_a_loop() -> None:
    """h <- c(x) + b mean_z f(g(x, z)), f between the points of a grid: Lucas's operator."""
    grid, shocks = np.linspace(0.5, 3, 120), RNG.lognormal(0, 0.1, 300)

    def step(f: Any) -> Any:
        return 0.5 + 0.9 * calque.vmap(
            lambda y: jnp.mean(jnp.interp(y ** 0.9 * shocks, grid, f)))(jnp.asarray(grid))

    with calque.enable_x64(True):
        made = calque.jit(lambda f: lax.fori_loop(0, 5, lambda i, f: step(f), f))(np.sqrt(grid))
    f = np.sqrt(grid)
    for _ in range(5):
        f = 0.5 + 0.9 * np.interp(grid[:, None] ** 0.9 * shocks, grid, f).mean(1)
    np.testing.assert_allclose(made, f, rtol=1e-12)


@pytest.mark.parametrize("level, dtype", [
    ("x86-64-v2", "float32"), ("x86-64-v3", "float32"), ("x86-64-v4", "float32"),
    ("x86-64-v3", "int8"), ("x86-64-v4", "bfloat16"), ("x86-64-v3", "float64")])
@pytest.mark.parametrize("mode", ["fill", "clip"])
def test_loops_over_memory_read_what_is_picked(level: str, dtype: str, mode: str,
                                               loops_over_memory: None) -> None:
    """Positions of each element, of rows, of both, of a row each; picked of what the step has just
    computed, of a part of it and of an array that it updates afterwards; results, too."""
    ids, rows = RNG.integers(-3, 43, (37, 21)), RNG.integers(0, 37, (19, 2))
    start, w = np.abs(whole(40)), RNG.integers(0, 2, (37, 21)).astype(np.float32)

    def pick(np: Any, x: Any, at: Any) -> Any:
        if np is jnp:
            return x.at[at].get(mode=mode, fill_value=3, wrap_negative_indices=False)
        found = x[np.clip(at, 0, len(x) - 1)]
        return found if mode == "clip" else np.where((at >= 0) & (at < len(x)), found, 3)

    def step(np: Any, x: Any) -> tuple[Any, ...]:
        y = pick(np, x, ids) * w.astype(x.dtype) + pick(np, x + 1, (ids + 5) % 45)
        z = y[rows[:, 0]] - y[::-1][rows[:, 1], 1:-1].max(1)[:, None]
        u = y[rows[:, 0], rows[:, 1] % 21] + np.take_along_axis(z, rows[:, 1:] % 21, 1)[:, 0]
        new = x.at[3].add(1) if np is jnp else np.concatenate([x[:3], x[3:4] + 1, x[4:]])
        return new, pick(np, x, ids[:, 1]), y, z, u

    with calque.enable_x64(True), config.context("calque_cpu", level):
        try:
            runnable_target()
        except TargetError as error:
            pytest.skip(str(error).splitlines()[0])

        def run(x: Any) -> Any:
            def one(x: Any, _: Any) -> Any:
                new, *rest = step(jnp, x)
                return new, rest
            return lax.scan(one, x, None, length=20)
        x, stacked = calque.jit(run)(jnp.asarray(start, dtype))
        made = [np.asarray(v, np.float64) for v in (x, *[m[-1] for m in stacked])]
    x = start.astype(np.float64)
    for _ in range(20):
        x, *want = step(np, x)
    for got, expected in zip(made, (x, *want), strict=True):
        np.testing.assert_array_equal(got, expected)


def test_gradients() -> None:
    x, ids, w = whole(30, 40), RNG.integers(0, 30, 400), whole(400, 40)

    def loss(x: Any) -> Any:
        return ((x[ids] * w).sum(-1) ** 2).sum()

    given = calque.jit(calque.grad(loss))(x)
    total = (x[ids] * w).sum(-1)
    expected = np.zeros_like(x)
    np.add.at(expected, ids, 2 * total[:, None] * w)
    np.testing.assert_allclose(given, expected, rtol=1e-5)


def test_between_products_rows_are_picked_before() -> None:
    """Attention whose mask is picked stays one kernel."""
    q, k, v = whole(2, 256, 32), whole(2, 256, 32), whole(2, 256, 32)
    masks, ids = RNG.integers(0, 2, (5, 256)).astype(bool), np.array([3, 0])

    def f(q: Any, k: Any, v: Any, masks: Any, ids: Any) -> Any:
        scores = jnp.einsum("bik,bjk->bij", q, k) * 0.01
        scores = jnp.where(masks[ids][:, None, :], scores, -1e30)
        e = jnp.exp(scores - scores.max(-1, keepdims=True))
        return jnp.einsum("bij,bjk->bik", e / e.sum(-1, keepdims=True), v)

    assert inside(f, q, k, v, masks, ids) == 0
    assert "computed of their rows" in str(calque.jit(f).lower(q, k, v, masks, ids).plan())


def test_edges() -> None:
    """Rows picked that are results, one row, donated, nothing an argument, unknown sizes."""
    x, ids = whole(70, 40), RNG.permutation(70)

    def f(x: Any, ids: Any) -> Any:
        y = x[ids]
        return y - y.max(-1, keepdims=True)

    want = x[ids] - x[ids].max(-1, keepdims=True)
    for _ in range(3):
        given = jnp.asarray(x) + 0
        made = calque.jit(f, donate_argnums=0)(given, ids)
        np.testing.assert_array_equal(made, want)
    np.testing.assert_array_equal(calque.jit(lambda: f(jnp.asarray(x), jnp.asarray(ids)))(), want)
    np.testing.assert_array_equal(calque.jit(f)(x[:1], ids[:1] * 0), x[:1] - x[:1].max())
    rows, total, same = calque.jit(lambda x, ids: (x[ids], x[ids].sum(-1), x))(x, ids)
    for made, expected in ((rows, x[ids]), (total, x[ids].sum(-1)), (same, x)):
        np.testing.assert_array_equal(made, expected)
    count, picked = export.symbolic_shape("b, c")
    e = export.export(calque.jit(f))(calque.ShapeDtypeStruct((count, 40), "float32"),
                                     calque.ShapeDtypeStruct((picked,), "int32"))
    np.testing.assert_array_equal(e.call(x, ids.astype(np.int32)), want)
