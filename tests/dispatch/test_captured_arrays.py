"""Many small arrays that a function captured are parts of one (dispatch/captured); the oracle is
NumPy's, or the arrays themselves."""
from __future__ import annotations

import functools
from typing import Any

import numpy as np
import pytest

import calque
import calque.numpy as jnp
from calque import lax
from calque.dispatch.captured import MOST_ARRAYS, SMALL, with_few_captured

COUNT = MOST_ARRAYS + 6
SHAPES = [(3,), (1,), (2, 2), (4, 1, 2), (SMALL,), (16, 16), (5,)] * 2


def captured(f: Any, *args: Any) -> int:
    """Arrays that the program of a call captured."""
    return len(with_few_captured(calque.make_jaxpr(f)(*args)).consts)


@pytest.mark.parametrize("dtype", ["float32", "int32", "bool", "uint8", "bfloat16", "float16",
                                   "complex64"])
def test_each_dtype_and_shape(dtype: str) -> None:
    rng = np.random.default_rng(1)
    tables = [np.asarray(jnp.asarray(rng.integers(0, 9, s)).astype(dtype)) for s in SHAPES]

    def f(x: Any) -> Any:
        return [jnp.asarray(t)[..., ::-1] for t in tables], x + 1

    made, x = calque.jit(f)(jnp.ones(2))
    for got, t in zip(made, tables, strict=True):
        assert got.dtype == t.dtype and got.shape == t.shape
        np.testing.assert_array_equal(np.asarray(got), t[..., ::-1])
    np.testing.assert_array_equal(x, [2, 2])
    assert captured(f, jnp.ones(2)) == 1


def test_a_loop_of_python_over_small_arrays() -> None:
    """Sums of products with pairs of numbers, and their gradient, mapped."""
    def f(x: Any) -> Any:
        return sum((x @ jnp.array([i, i + 1], jnp.float32)) @ x for i in range(COUNT))

    x = np.random.default_rng(0).normal(size=(3, 2, 2)).astype(np.float32)
    pairs = np.array([[i, i + 1] for i in range(COUNT)], np.float64)
    want = [sum((a.astype(np.float64) @ p) @ a for p in pairs).sum() for a in x]
    got = calque.jit(calque.vmap(lambda a: f(a).sum()))(x)
    np.testing.assert_allclose(got, want, rtol=1e-5)
    g = np.asarray(calque.jit(calque.vmap(calque.grad(lambda a: f(a).sum())))(x))
    for i, j in np.ndindex(2, 2):
        e = np.zeros((2, 2))
        e[i, j] = 1e-6
        diff = [sum((a @ p) @ a for p in pairs).sum() for a in (x[1] + e, x[1] - e)]
        np.testing.assert_allclose(g[1, i, j], (diff[0] - diff[1]) / 2e-6, rtol=1e-4)


def test_few_large_and_placed_ones_stay() -> None:
    few = [jnp.arange(4.0) + i for i in range(MOST_ARRAYS)]
    assert captured(lambda x: [x + t for t in few], 1.0) == MOST_ARRAYS
    large = [jnp.full(SMALL + 1, i, jnp.float32) for i in range(COUNT)]
    assert captured(lambda x: [x + t for t in large], 1.0) == COUNT
    device = calque.sharding.SingleDeviceSharding(calque.devices()[0])
    placed = [calque.device_put(jnp.arange(3.0) + i, device) for i in range(COUNT)]
    got = calque.jit(lambda x: [x + t for t in placed])(1.0)
    np.testing.assert_array_equal(np.stack(got), np.arange(3.0) + 1 + np.arange(COUNT)[:, None])
    keys = [calque.random.key(i) for i in range(COUNT)]
    drawn = calque.jit(lambda x: [calque.random.uniform(k) + x for k in keys])(0.0)
    np.testing.assert_array_equal(np.stack(drawn), [calque.random.uniform(k) for k in keys])


def test_results_and_donation() -> None:
    """A captured array as it is, twice; the donated argument is behind those that are left."""
    tables = [jnp.arange(3.0) * i for i in range(COUNT)]

    @functools.partial(calque.jit, donate_argnums=1)
    def f(x: Any, given: Any) -> Any:
        return [*tables, tables[0], x], given + tables[3]

    given = jnp.ones(3)
    made, total = f(2.0, given)
    assert given.is_deleted()
    for got, want in zip(made, [*tables, tables[0], 2.0], strict=True):
        np.testing.assert_array_equal(got, want)
    np.testing.assert_array_equal(total, [1, 4, 7])
    made[0] += 1
    np.testing.assert_array_equal(f(2.0, jnp.ones(3))[0][0], tables[0])


def test_in_loops_branches_and_kernels_of_their_own() -> None:
    tables = [jnp.arange(4) * i for i in range(COUNT)]

    @calque.jit
    def f(n: Any, x: Any) -> Any:
        def step(i: Any, c: Any) -> Any:
            return sum(lax.cond(i % 2 == 0, lambda t=t: c + t, lambda: c) for t in tables)

        return lax.fori_loop(0, n, step, x)

    want = np.zeros(4, np.int64)
    for i in range(3):
        want = sum(want + (i % 2 == 0) * np.arange(4) * k for k in range(COUNT))
    np.testing.assert_array_equal(f(3, jnp.zeros(4, jnp.int32)), want)


def test_arrays_that_are_not_ready_or_deleted() -> None:
    tables = [jnp.arange(4.0) @ jnp.ones((4, 3)) * i for i in range(COUNT)]
    f = calque.jit(lambda x: x + sum(tables))
    np.testing.assert_array_equal(f(1.0), 1 + 6.0 * sum(range(COUNT)) * np.ones(3))
    gone = [jnp.arange(4.0) * i for i in range(COUNT)]
    g = calque.jit(lambda x: x + sum(gone))
    gone[2].delete()
    with pytest.raises(RuntimeError, match="deleted"):
        g(1.0)


@pytest.mark.parametrize("how", ["disallow", "disallow_explicit"])
def test_guards_are_of_what_the_user_moves(how: str) -> None:
    tables, x = [jnp.arange(3.0) * i for i in range(COUNT)], jnp.ones(3)
    with calque.transfer_guard(how):
        got = calque.jit(lambda x: sum((x + t for t in tables), x))(x).block_until_ready()
    np.testing.assert_array_equal(got, 1 + COUNT + np.arange(3.0) * sum(range(COUNT)))


def test_nothing_is_an_argument() -> None:
    tables = [np.arange(3.0, dtype=np.float32) * i for i in range(COUNT)]
    f = calque.jit(lambda: (sum(map(jnp.asarray, tables)), jnp.asarray(tables[2])))
    total, one = f()
    np.testing.assert_array_equal(total, sum(tables))
    np.testing.assert_array_equal(one, tables[2])
    run = f.lower().compile()
    for _ in range(3):
        np.testing.assert_array_equal(run()[0], sum(tables))
