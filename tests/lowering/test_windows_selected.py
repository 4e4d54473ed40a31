"""Windows that are most of an array, replaced by what is computed of them (passes/selected): one
pass that chooses, against NumPy; what stays an update."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import calque
import calque.numpy as jnp
from calque import lax
from calque.lowering.passes.selected import with_windows_selected

X = np.random.default_rng(0).normal(size=(150, 130)).astype(np.float32)
INNER = np.s_[1:-1, 1:-1]


def changed(x: Any, where: Any, value: Any) -> Any:
    x = x.copy()
    x[where] = value(x[where])
    return x


CASES: dict[str, tuple[Callable[..., Any], Any]] = {
    "interior": (lambda x: x.at[INNER].multiply(2.0), changed(X, INNER, lambda v: v * 2)),
    "a number": (lambda x: x.at[INNER].set(3.0), changed(X, INNER, lambda v: 3)),
    "rows": (lambda x: x.at[20:].add(1.0), changed(X, np.s_[20:], lambda v: v + 1)),
    "columns": (lambda x: x.at[:, 5:-7].add(1.0), changed(X, np.s_[:, 5:-7], lambda v: v + 1)),
    "computed": (lambda x: x.at[INNER].set(jnp.where(x[INNER] > 0, -x[INNER], 1.0)),
                 changed(X, INNER, lambda v: np.where(v > 0, -v, 1))),
    "another's": (lambda x: x.at[INNER].set((x * 4 + 1)[INNER]),
                  changed(X, INNER, lambda v: v * 4 + 1)),
    "twice": (lambda x: x.at[INNER].add(1.0).at[2:].multiply(3.0), changed(
        changed(X, INNER, lambda v: v + 1), np.s_[2:], lambda v: v * 3)),
    "outside of the array": (lambda x: lax.dynamic_update_slice(
        x, lax.slice(x, (10, 0), (150, 130)) + 1, (90, 0)),
        changed(X, np.s_[10:], lambda v: v + 1))}


def selects(f: Callable[..., Any], *args: Any) -> bool:
    program = with_windows_selected(calque.make_jaxpr(f)(*args).jaxpr)
    return all(e.name != "dynamic_update_slice" for e in program.equations)


@pytest.mark.parametrize("name", CASES)
def test_values(name: str) -> None:
    f, want = CASES[name]
    assert selects(f, X)
    np.testing.assert_allclose(calque.jit(f)(X), want, rtol=1e-6)


@pytest.mark.parametrize("dtype", ["int32", "uint8", "int16", "float16", ml_dtypes.bfloat16],
                         ids=str)
def test_dtypes(dtype: Any) -> None:
    x = (X * 10).astype(np.int32).astype(dtype)
    got = calque.jit(lambda x: x.at[INNER].add(1))(x)
    assert got.dtype == x.dtype
    np.testing.assert_array_equal(np.asarray(got), changed(x, INNER, lambda v: v + x.dtype.type(1)))


def test_what_is_outside_does_not_reach_the_result() -> None:
    x = X.copy()
    x[0], x[:, -1] = np.nan, np.inf
    got = calque.jit(lambda x: x.at[INNER].set(jnp.log(abs(x[INNER]))))(x)
    want = changed(x, INNER, lambda v: np.log(np.abs(v)))
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)


def test_gradients_and_batches() -> None:
    f = lambda x: (x.at[INNER].multiply(2.0) ** 2).sum()  # noqa: E731
    want = changed(2 * X, INNER, lambda v: 4 * v)
    np.testing.assert_allclose(calque.jit(calque.grad(f))(X), want, rtol=1e-6)
    many = calque.jit(calque.vmap(lambda x: x.at[INNER].add(1.0)))(np.stack([X, X + 1]))
    np.testing.assert_array_equal(many[1], changed(X + 1, INNER, lambda v: v + 1))


def test_in_given_memory() -> None:
    x = jnp.array(X)
    got = calque.jit(lambda x: x.at[INNER].add(1.0), donate_argnums=0)(x)
    np.testing.assert_array_equal(got, changed(X, INNER, lambda v: v + 1))


def test_what_stays_an_update() -> None:
    """Small arrays and windows, windows of other places, and what is computed otherwise."""
    assert not selects(lambda x: x.at[INNER].add(1.0), X[:50, :50])
    assert not selects(lambda x: x.at[:70].add(1.0), X)
    assert not selects(lambda x: x.at[INNER].set(x[2:, 2:]), X)
    assert not selects(lambda x, y: x.at[INNER].set(y), X, X[INNER])
    assert not selects(lambda x, i: lax.dynamic_update_slice(x, x[INNER], (i, 1)), X, np.int32(1))
    assert not selects(lambda x: x.at[INNER].set(jnp.cumsum(x[INNER], 0)), X)


def test_long_ways_stay_updates() -> None:
    """The pass goes no deeper than Python's stack."""
    def f(x: Any) -> Any:
        y = x[INNER]
        for _ in range(1500):
            y = y * 1.001
        return x.at[INNER].set(y)

    p = calque.make_jaxpr(f)(X).jaxpr
    assert with_windows_selected(p) is p or any(
        e.name == "dynamic_update_slice" for e in with_windows_selected(p).equations)


PADDED: dict[str, tuple[Callable[..., Any], Any]] = {
    "rows": (lambda x: jnp.pad(x[3:] * 2, ((3, 0), (0, 0))), (np.s_[3:], lambda v: v * 2, 0)),
    "inside": (lambda x: jnp.pad(jnp.sqrt(jnp.abs(x[INNER])) + 1, 1, constant_values=-1),
               (INNER, lambda v: np.sqrt(np.abs(v)) + 1, -1)),
    "numbers": (lambda x: jnp.pad(jnp.full((148, 130), 3, x.dtype), ((0, 2), (0, 0))),
                (np.s_[:-2], lambda v: 3, 0)),
    "columns": (calque.grad(lambda x: jnp.sin(x[:, 5:-7]).sum()), (np.s_[:, 5:-7], np.cos, 0))}


@pytest.mark.parametrize("name", PADDED)
def test_what_is_put_back_between_others(name: str) -> None:
    f, (where, value, around) = PADDED[name]
    program = with_windows_selected(calque.make_jaxpr(f)(X).jaxpr)
    assert all(e.name != "pad" for e in program.equations)
    want = np.full(X.shape, around, float)
    want[where] = value(X.astype(float)[where])
    np.testing.assert_allclose(calque.jit(f)(X), want, rtol=1e-6)


def test_paddings_of_other_places_stay() -> None:
    for f in (lambda x: jnp.pad(x[3:] * 2, ((0, 3), (0, 0))),  # (moved by three rows)
              lambda x: jnp.pad(x[100:] * 2, ((100, 0), (0, 0))), lambda x: jnp.pad(x, 1)):
        program = with_windows_selected(calque.make_jaxpr(f)(X).jaxpr)
        assert any(e.name == "pad" for e in program.equations)
    moved = calque.jit(lambda x: jnp.pad(x[3:] * 2, ((0, 3), (0, 0))))(X)
    np.testing.assert_allclose(moved, np.pad(X[3:] * 2, ((0, 3), (0, 0))), rtol=1e-6)
    infinite = np.where(X > 0, X, np.inf).astype(np.float32)  # (what is outside is not seen)
    got = calque.jit(lambda x: jnp.pad(x[3:] * 0, ((3, 0), (0, 0))))(infinite)
    assert not np.any(np.asarray(got)[:3])
