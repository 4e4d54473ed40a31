"""Loops over memory: reductions of what is computed where it is folded, positions counted without
memory, and what all rows of a constant give computed by each workgroup for its own rows.

The oracle is the same step in NumPy, a row at a time.
"""
from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import calque
import calque.numpy as jnp
from calque import lax
from calque.lowering.plan.show import Plan

RNG = np.random.default_rng(5)


def _plan(f: Any, *args: Any) -> Plan:
    return calque.jit(f).lower(*args).plan()


def _loops(plan: Plan) -> list[str]:
    return [line for line in str(plan).splitlines() if "loop" in line and line[2:3].isdigit()]


@pytest.mark.parametrize("rows", [1, 3, 8, 16, 64])
@pytest.mark.parametrize("states", [1, 5, 8, 17])
def test_best_ways(rows: int, states: int) -> None:
    """Viterbi's steps: the largest of every way and where it came from, the first of equals."""
    moves = np.round(RNG.normal(size=(rows, states, states)), 1).astype(np.float32)
    seen = np.round(RNG.normal(size=(rows, 20, states)), 1).astype(np.float32)

    def row(moves: Any, seen: Any) -> Any:
        def step(score: Any, x: Any) -> Any:
            ways = score[:, None] + moves
            return ways.max(0) + x, (jnp.argmax(ways, 0), jnp.argmin(ways, 1))
        return lax.scan(step, jnp.zeros(states), seen)

    score, (forth, least) = calque.jit(calque.vmap(row))(moves, seen)
    for i in range(rows):
        now = np.zeros(states, np.float32)
        for t in range(20):
            ways = now[:, None] + moves[i]
            np.testing.assert_array_equal(forth[i, t], ways.argmax(0))
            np.testing.assert_array_equal(least[i, t], ways.argmin(1))
            now = ways.max(0) + seen[i, t]
        np.testing.assert_array_equal(score[i], now)  # sums of the same numbers, in the same order


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "int8", "uint16", "bool"])
@pytest.mark.parametrize("axes", [0, 1, 2, (0, 2), (1, 2), (0, 1, 2)])
@pytest.mark.parametrize("shape", [(3, 5, 8), (2, 3, 19), (9, 2, 7), (4, 4, 33)])
def test_folds_of_what_is_computed(dtype: str, axes: Any, shape: tuple[int, ...]) -> None:
    x = RNG.integers(0, 2 if dtype == "bool" else 5, shape).astype(dtype)
    y = RNG.integers(0, 2 if dtype == "bool" else 5, shape[1:]).astype(dtype)

    def steps(np_: Any, x: Any, y: Any, n: int) -> Any:
        counted = (x <= y).sum(axes)
        if dtype == "bool":
            return counted, (x ^ y).any(axes), (x | y).all(axes)
        return counted, (x * y).max(axes), (x + y).min(axes), (x * x).sum(axes)

    with calque.enable_x64(dtype == "float64"):
        def loop(x: Any, y: Any) -> Any:
            def step(i: Any, c: Any) -> Any:
                x, y, _ = c
                return jnp.roll(x, 1, -1), y, steps(jnp, x, y, i)
            start = calque.tree.map(jnp.zeros_like, steps(jnp, jnp.asarray(x), jnp.asarray(y), 0))
            return lax.fori_loop(0, 4, step, (x, y, start))[2]

        found = calque.jit(loop)(x, y)
        assert _loops(_plan(loop, x, y))
        want = steps(np, np.roll(x, 3, -1), y, 0)
        for a, b in zip(found, want, strict=True):
            np.testing.assert_array_equal(np.asarray(a), np.asarray(b).astype(a.dtype))


def test_a_table_of_comparisons_takes_no_memory() -> None:
    """128 x 128 comparisons of each row are counted as they are made."""
    def f(x: Any, at: Any) -> Any:
        def step(c: Any, x: Any) -> Any:
            return c * 0.5 + x, (x[:, None, :] < at[None, :, None] + c[:, None, :1]).sum(-1)
        return lax.scan(step, jnp.zeros((16, 128)), x)

    x = RNG.random((30, 16, 128), dtype=np.float32)
    at = np.linspace(-1, 1, 128, dtype=np.float32)
    plan = _plan(f, x, at)
    assert _loops(plan)
    (kept,) = [sum(np.prod(w[0]) for w in r.writes if str(w[1]) == "int8")
               for r in plan.regions if any(e.name == "scan" for e in r.equations)]
    assert kept < 16 * 128 * 128  # bytes: of a table of bools
    now = np.zeros((16, 128), np.float32)
    counts = calque.jit(f)(x, at)[1]
    for t in range(30):
        np.testing.assert_array_equal(
            counts[t], (x[t][:, None, :] < (at[None, :, None] + now[:, None, :1])).sum(-1))
        now = now * np.float32(0.5) + x[t]


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32", "float32", "bfloat16", "complex64"])
@pytest.mark.parametrize("axis", [0, 1, 2])
def test_positions_counted_in_a_loop(dtype: str, axis: int) -> None:
    shape = (5, 9, 21)

    def f(x: Any) -> Any:
        return lax.fori_loop(0, 3, lambda i, c: c + lax.broadcasted_iota(
            jnp.dtype(dtype), shape, axis) * i.astype(dtype), x)

    with calque.enable_x64(False):
        x = jnp.ones(shape, dtype)
        one = np.arange(shape[axis]).reshape([-1 if i == axis else 1 for i in range(3)])
        want = np.broadcast_to(1 + 3 * one, shape)  # 0 + 1 + 2 of each: exact in every dtype here
        np.testing.assert_array_equal(np.asarray(calque.jit(f)(x)).astype(complex), want)


def test_what_is_counted_is_written_over() -> None:
    """The positions are one row of memory, seen as many: an update of one place is one number's."""
    def f(k: Any) -> Any:
        def step(i: Any, c: Any) -> Any:
            table = lax.broadcasted_iota(jnp.int32, (4, 16), 1)
            return c + table.at[k, i].set(100) + table.T.at[i, k].add(7).T
        return lax.fori_loop(0, 5, step, jnp.zeros((4, 16), jnp.int32))

    want = np.zeros((4, 16), np.int32)
    for i in range(5):
        one, other = (np.tile(np.arange(16, dtype=np.int32), (4, 1)) for _ in range(2))
        one[2, i] = 100
        other[2, i] += 7
        want += one + other
    np.testing.assert_array_equal(calque.jit(f)(2), want)


@pytest.mark.parametrize("rows", [8, 16, 61, 64])
def test_constants_of_all_rows_are_computed_in_parts(rows: int) -> None:
    """Words of all rows, from which a step picks by its number: no row of the carry enters, and a
    workgroup computes what its own rows need; weights whose size is the rows' are read whole."""
    words = RNG.integers(0, 9, (rows, 40)).astype(np.int32)
    weights = RNG.integers(-2, 3, (rows, rows)).astype(np.float32)
    start = RNG.integers(0, 5, (rows, 64)).astype(np.float32)

    def f(words: Any, weights: Any, x: Any) -> Any:
        def step(x: Any, k: Any) -> Any:
            at = jnp.clip(k - jnp.arange(64), 0, 39)
            picked = words[:, at]
            doubled = (words * 2 + 1)[:, :16].sum(1, keepdims=True)
            mixed = (weights + 1.0)[:, :8].sum(0)[:, None] if rows == 8 else 0.0
            x = jnp.maximum(x + jnp.where(picked > 4, 1.0, -1.0), 0) + doubled % 3 + mixed
            return x, x.max(1)
        return lax.scan(step, x, jnp.arange(50))

    last, tops = calque.jit(f)(words, weights, start)
    now = start.copy()
    for k in range(50):
        at = np.clip(k - np.arange(64), 0, 39)
        doubled = (words * 2 + 1)[:, :16].sum(1, keepdims=True)
        mixed = (weights + 1)[:, :8].sum(0)[:, None] if rows == 8 else 0
        now = np.maximum(now + np.where(words[:, at] > 4, 1, -1), 0) + doubled % 3 + mixed
        np.testing.assert_array_equal(tops[k], now.max(1))  # small integers: exact
    np.testing.assert_array_equal(last, now)


@pytest.mark.parametrize("rows", [1, 16, 64])
def test_particles_resampled(rows: int) -> None:
    """Weights summed up and searched, in a loop, for every row: as outside of one."""
    weights = RNG.random((rows, 12, 128), dtype=np.float32)
    draws = RNG.random((rows, 12), dtype=np.float32)

    def one(c: Any, turn: Any) -> Any:
        w, u = turn
        at = (jnp.arange(128) + u) / 128
        found = jnp.clip(jnp.searchsorted(jnp.cumsum(w / w.sum()), at), 0, 127)
        return jnp.take(c, found), found

    def f(weights: Any, draws: Any) -> Any:
        return calque.vmap(lambda w, u: lax.scan(one, jnp.arange(128.0), (w, u)))(weights, draws)

    last, found = calque.jit(f)(weights, draws)
    for i in range(rows):
        c = np.arange(128.0)
        for t in range(12):
            c = c[np.asarray(found[i, t])]
            total = np.cumsum(weights[i, t].astype(float) / weights[i, t].astype(float).sum())
            at = (np.arange(128) + draws[i, t].astype(float)) / 128
            off = np.asarray(found[i, t]) - np.clip(np.searchsorted(total, at), 0, 127)
            # float32 sums of 128 part from float64's by 1e-6: a place beside it, where two meet
            assert np.abs(off).max() <= 1 and np.abs(off).sum() <= 1
        np.testing.assert_array_equal(last[i], c)


@pytest.mark.parametrize("rows", [256, 300])
def test_large_carries_in_many_parts(rows: int) -> None:
    """Two megabytes of boards: more workgroups than eight, each with all steps of its part."""
    start = RNG.integers(0, 2, (rows, 41, 43)).astype(np.int32)

    def f(x: Any) -> Any:
        def step(x: Any, _: Any) -> Any:
            near = jnp.roll(x, 1, 1) + jnp.roll(x, -1, 1) + jnp.roll(x, 1, 2) + jnp.roll(x, -1, 2)
            x = ((near + x) % 3 > 1).astype(jnp.int32)
            return x, x.sum((1, 2))
        return lax.scan(step, x, None, 40)

    (groups,) = [r.groups for r in _plan(f, start).regions
                 if any(e.name == "scan" for e in r.equations)]
    assert groups > 8
    last, counts = calque.jit(f)(start)
    now = start
    for t in range(40):
        near = sum(np.roll(now, k, axis) for k in (1, -1) for axis in (1, 2))
        now = ((near + now) % 3 > 1).astype(np.int32)
        np.testing.assert_array_equal(counts[t], now.sum((1, 2)))
    np.testing.assert_array_equal(last, now)
