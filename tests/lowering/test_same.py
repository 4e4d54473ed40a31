"""Equations that compute the same are one (passes/same), beside NumPy."""
from __future__ import annotations

from typing import Any

import numpy as np

import calque
import calque.numpy as jnp
from calque import lax
from calque.core.program import Program
from calque.lowering.passes.flat import flat
from calque.lowering.passes.hoist import hoist
from calque.lowering.passes.same import merged, merged_within


def names(f: Any, *args: Any) -> list[str]:
    p: Program = calque.make_jaxpr(f)(*args).jaxpr
    return [e.name for e in merged(flat(p)).equations]


X = np.linspace(-2, 3, 40, dtype=np.float32)


def test_what_is_written_twice_is_computed_once() -> None:
    f = lambda x: jnp.sin(x) * jnp.cos(jnp.sin(x)) + jnp.sin(x)  # noqa: E731
    assert names(f, X).count("sin") == 1
    np.testing.assert_allclose(calque.jit(f)(X), f(X), rtol=1e-6)
    nested = lambda x: calque.jit(jnp.sin)(x) + calque.jit(jnp.sin)(x)  # noqa: E731
    assert names(nested, X).count("sin") == 1


def test_what_differs_stays_apart() -> None:
    f = lambda x: (x * 0.0 + x * -0.0, x.sum(0) + x[:, None].sum((0, 1)),  # noqa: E731
                   x.astype(jnp.int32) + x.astype(jnp.int8))
    found = names(f, X)
    assert found.count("mul") == 2 and found.count("reduce_sum") == 2
    assert found.count("convert_element_type") >= 2


def test_results_and_spread_numbers_stay_apart() -> None:
    """Both may be written over: by a donation, by an update in place."""
    f = lambda x: (x + 1, x + 1, jnp.zeros(5).at[0].set(x[0]), jnp.zeros(5).at[1].set(x[1]))  # noqa: E731
    assert names(f, X).count("add") == 2 and names(f, X).count("broadcast_in_dim") >= 2
    one, two, first, second = calque.jit(f)(X)
    np.testing.assert_array_equal(one, two)
    np.testing.assert_array_equal(first, [X[0], 0, 0, 0, 0])
    np.testing.assert_array_equal(second, [0, X[1], 0, 0, 0])


def test_products_and_calls_of_the_same_are_one() -> None:
    """Several derivatives at one point write the function as often: a program of products alone
    that each read one another grows eightfold."""
    w = np.random.default_rng(0).normal(size=(6, 6)).astype(np.float32) / 3

    def f(x: Any) -> Any:
        y = calque.jit(lambda v: jnp.tanh(v @ w + jnp.ones(6)))(x)
        z = calque.jit(lambda v: jnp.tanh(v @ w + jnp.ones(6)))(x)
        return (y @ w) * (z @ w) + 2.0 * (y @ w)

    x = X[:6]
    found = names(f, x)
    assert found.count("dot_general") == 2 and found.count("tanh") == 1
    y = np.tanh(x.astype(np.float64) @ w + 1) @ w
    np.testing.assert_allclose(calque.jit(f)(x), y * y + 2 * y, rtol=1e-5)


def test_in_loops_too() -> None:
    w = np.random.default_rng(0).normal(size=(6, 6)).astype(np.float32) / 3
    p = calque.make_jaxpr(lambda x: lax.fori_loop(
        0, 3, lambda i, c: jnp.tanh(c @ w) * jnp.tanh(c @ w), x))(X[:6]).jaxpr
    loop = merged_within(p).equations[-1]
    assert [e.name for q in loop.inner for e in q.equations].count("dot_general") == 1


def test_calls_that_do_more_stay_apart() -> None:
    seen: list[float] = []

    def told(x: Any) -> Any:
        calque.debug.callback(lambda v: seen.append(float(v)), x[0])
        return x + 1

    p = calque.make_jaxpr(lambda x: calque.jit(told)(x) * calque.jit(told)(x))(X).jaxpr
    assert [e.name for e in merged(p).equations].count("jit") == 2


def test_what_checkpoint_computes_again_stays() -> None:
    w = np.eye(6, dtype=np.float32)
    f = calque.checkpoint(lambda x: jnp.sin(jnp.sin(x @ w) @ w).sum())
    p = calque.make_jaxpr(calque.grad(f))(X[:6]).jaxpr

    def products(p: Program) -> int:
        return sum((e.name == "dot_general") + sum(map(products, e.inner)) for e in p.equations)

    assert products(merged_within(p)) == products(p)
    np.testing.assert_allclose(
        calque.jit(calque.grad(f))(X[:6]), np.cos(np.sin(X[:6])) * np.cos(X[:6]), rtol=1e-5)


def test_draws_and_calls_of_python_stay() -> None:
    seen: list[float] = []

    def f(x: Any) -> Any:
        for _ in range(2):
            calque.debug.callback(lambda v: seen.append(float(v)), x[0])
        return x * 2

    calque.jit(f)(X).block_until_ready()
    calque.effects_barrier()
    assert seen == [X[0]] * 2


def test_one_array_leaves_a_loop() -> None:
    grid = np.linspace(-2, 3, 9, dtype=np.float32)

    def f(v: Any) -> Any:
        return lax.fori_loop(0, 4, lambda i, v: 0.5 * jnp.interp(X, grid, v[:9]), v)

    p: Program = hoist(flat(calque.make_jaxpr(f)(X).jaxpr))
    (loop,) = [e for e in p.equations if e.name in ("scan", "while")]
    assert len(set(loop.inputs)) == len(loop.inputs)
    want = X
    for _ in range(4):
        want = 0.5 * np.interp(X, grid, want[:9])
    np.testing.assert_allclose(calque.jit(f)(X), want, rtol=1e-5, atol=1e-6)
