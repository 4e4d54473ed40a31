"""Moves of what was moved the other way, sums of what is repeated, products with one
(passes/undone, known), beside NumPy in double precision."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from support.harness import at_level

import calque
import calque.numpy as jnp
from calque.lowering.passes.known import with_known
from calque.lowering.passes.undone import with_moves_undone

X = np.random.default_rng(5).standard_normal((40, 60)).astype(np.float32)
MOVES: dict[str, Callable[[Any, Any], Any]] = {
    "flip rows": lambda np, x: np.flip(x, 0), "flip": lambda np, x: x[::-1, ::-1],
    "turned": lambda np, x: x.T, "turned and flipped": lambda np, x: np.rot90(x),
    "axes": lambda np, x: np.transpose(x.reshape(5, 8, 60), (2, 0, 1)),
    "tile": lambda np, x: np.tile(x, (2, 3)), "repeat rows": lambda np, x: np.repeat(x, 3, 0),
    "repeat": lambda np, x: np.repeat(x, 2, 1), "flat": lambda np, x: x.ravel(),
    "meshgrid": lambda np, x: np.meshgrid(x[0], x[1])[0],
    "broadcast": lambda np, x: np.broadcast_to(x[:, None, :1], (40, 7, 9)),
    "every other column": lambda np, x: x[:, ::2], "every third row": lambda np, x: x[1::3],
    "a lattice": lambda np, x: x[3:30:2, 1:-3:4], "backwards": lambda np, x: x[::-2, 1:]}
SHAPES = {"every other column": (200, 101), "every third row": (200, 101), "a lattice": (200, 500),
          "backwards": (200, 101)}


def derivative(move: Callable[[Any, Any], Any], x: Any, of: Callable[[Any], Any]) -> Any:
    """That of a sum over a move's result, by where each element goes."""
    where = move(np, np.arange(x.size).reshape(x.shape)).ravel()
    made = np.zeros(x.size)
    np.add.at(made, where, of(x.astype(float).ravel()[where]))
    return made.reshape(x.shape)


@pytest.mark.parametrize("name", MOVES)
def test_derivatives(name: str) -> None:
    move, shape = MOVES[name], SHAPES.get(name, X.shape)
    x = np.random.default_rng(6).standard_normal(shape).astype(np.float32)
    for f, of in ((lambda y: (y * y).sum(), lambda x: 2 * x),
                  (lambda y: jnp.sin(y).sum(), np.cos), (lambda y: y.sum(), np.ones_like),
                  (lambda y: (jnp.exp(y) * y).sum(), lambda x: np.exp(x) * (1 + x))):
        got = calque.jit(calque.grad(lambda x, f=f: f(move(jnp, x))))(x)
        np.testing.assert_allclose(got, derivative(move, x, of), rtol=3e-6, atol=1e-6)


@pytest.mark.parametrize("level", ["x86-64-v2", "x86-64-v3"])
def test_at_every_level(level: str) -> None:
    with at_level(level):
        for name in ("flip", "tile", "every other column", "a lattice"):
            x = np.random.default_rng(6).standard_normal(SHAPES.get(name, X.shape)).astype("f")
            got = calque.jit(calque.grad(lambda x, m=MOVES[name]: (m(jnp, x) ** 2).sum()))(x)
            np.testing.assert_allclose(got, derivative(MOVES[name], x, lambda x: 2 * x), rtol=1e-6)


def names(f: Callable[..., Any], *args: Any) -> set[str]:
    program = with_moves_undone(with_known(calque.make_jaxpr(f)(*args).jaxpr))
    return {e.name for e in program.equations}


def test_what_goes() -> None:
    assert names(lambda x: jnp.flip(jnp.sin(jnp.flip(x, 1)) * 2, 1), X) == {"sin", "mul", "copy"}
    assert names(lambda x: jnp.exp(x.T).T, X) == {"exp", "copy"}
    assert names(lambda x: (jnp.exp(x.reshape(-1)) + 1).reshape(x.shape), X) == {
        "exp", "add", "copy"}
    assert "reduce_sum" not in names(lambda x: jnp.broadcast_to(x, (5, *x.shape)).sum(0) + 1, X)
    assert "mul" not in names(lambda x: jnp.sin(x * jnp.ones_like(x)), X)


def test_what_stays() -> None:
    assert "rev" in names(lambda x: jnp.flip(jnp.flip(x, 0), 1), X)
    assert "rev" in names(lambda x: jnp.flip(jnp.flip(x, 0) * x, 0), X)
    assert "transpose" in names(lambda x: jnp.transpose(jnp.transpose(
        x.reshape(4, 10, 60), (1, 2, 0)), (1, 2, 0)), X)
    assert "reduce_sum" in names(lambda x: (jnp.broadcast_to(x, (5, *x.shape)) * jnp.arange(
        5.)[:, None, None]).sum(0), X)
    assert "reduce_sum" in names(lambda x: jnp.broadcast_to(x, (5, *x.shape)).sum(1), X)


def test_values_of_what_stays() -> None:
    wide = X.astype(float)
    for f in (lambda np, x: np.flip(np.flip(x, 0) * x, 0),
              lambda np, x: np.transpose(np.transpose(x.reshape(4, 10, 60), (1, 2, 0)), (1, 2, 0)),
              lambda np, x: np.broadcast_to(x, (5, *x.shape)).sum(1),
              lambda np, x: np.broadcast_to(x[:, :1], x.shape).sum(0)):
        got = calque.jit(lambda x, f=f: f(jnp, x))(X)
        np.testing.assert_allclose(got, f(np, wide), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32", "float16", "bfloat16", "bool",
                                   "complex64"])
def test_repeated_numbers(dtype: str) -> None:
    x = (np.arange(-50, 50) % (2 if dtype == "bool" else 128)).astype(jnp.dtype(dtype))
    for n in (1, 7, 300):
        sums, largest, both = calque.jit(lambda x, n=n: (
            jnp.broadcast_to(x, (n, 100)).sum(0, dtype=x.dtype),
            jnp.broadcast_to(jnp.real(x)[:, None], (100, n)).max(1),
            jnp.broadcast_to(x, (n, 100)).all(0)))(x)
        if dtype in ("float16", "bfloat16"):  # sums in single precision, rounded once
            want = (np.float32(n) * x.astype(np.float32)).astype(x.dtype)
        else:
            want = np.broadcast_to(x, (n, 100)).sum(0, dtype=x.dtype)
        np.testing.assert_array_equal(sums, want)
        np.testing.assert_array_equal(largest, x.real)
        np.testing.assert_array_equal(both, x != 0)


def test_numbers_that_are_none() -> None:
    x = np.array([np.nan, np.inf, -np.inf, -0.0, 1e-30, 3e38], np.float32)
    np.testing.assert_array_equal(calque.jit(lambda x: jnp.negative(x * jnp.ones_like(x)))(x), -x)
    got = calque.jit(lambda x: jnp.repeat(x, 3).reshape(6, 3).sum(1))(x)
    with np.errstate(over="ignore"):
        np.testing.assert_array_equal(got, (3 * x.astype(float)).astype(np.float32))
    got = calque.jit(calque.grad(lambda x: (jnp.sqrt(x[::2]) * 0).sum()))(x)
    assert not np.any(np.asarray(got)[1::2])  # (what was not read has no derivative)
    y = np.tile(np.float32([0, -1]), 1 << 14)
    got = calque.jit(calque.grad(lambda y: jnp.sqrt(y[::2] + 4).sum()))(y)
    np.testing.assert_array_equal(got, np.tile(np.float32([0.25, 0]), 1 << 14))


def test_in_loops_and_of_both() -> None:
    f = calque.jit(lambda x: calque.lax.fori_loop(0, 4, lambda i, x: jnp.flip(
        jnp.flip(x, 0) * 0.5, 0) + 1, x))
    want = X.astype(float)
    for _ in range(4):
        want = want * 0.5 + 1
    np.testing.assert_allclose(f(X), want, rtol=1e-5)
    value, slope = calque.jit(calque.value_and_grad(lambda x: jnp.tanh(jnp.flip(x, 1)).sum()))(X)
    np.testing.assert_allclose(value, np.tanh(X.astype(float)).sum(), rtol=1e-4)
    np.testing.assert_allclose(slope, 1 - np.tanh(X.astype(float)) ** 2, rtol=1e-5, atol=1e-6)
    given, back = calque.jit(lambda x: (lambda y: (y, jnp.flip(y, 1)))(jnp.flip(x, 1)))(X)
    np.testing.assert_array_equal(given, X[:, ::-1])
    np.testing.assert_array_equal(back, X)


@pytest.mark.parametrize("f, slope", [
    (lambda np, x: np.pad(x, 2) ** 2, lambda x: 2 * x),
    (lambda np, x: np.pad(x, ((0, 1), (3, 0))) ** 3, lambda x: 3 * x * x),
    (lambda np, x: np.concatenate([x, 2 * x], 0) ** 2, lambda x: 10 * x),
    (lambda np, x: np.stack([x, 2 * x, x * x], 1) ** 2, lambda x: 10 * x + 4 * x**3),
    (lambda np, x: np.exp(np.concatenate([x[:, 5:], x[:, :5]], 1)), np.exp),
    (lambda np, x: np.pad(x, 1)[1:-1, 1:-1] * np.pad(x * x, 1)[1:-1, 1:-1], lambda x: 3 * x * x),
])
def test_parts_of_what_is_padded_or_joined(f: Any, slope: Any) -> None:
    value, got = calque.jit(calque.value_and_grad(lambda x: f(jnp, x).sum()))(X)
    np.testing.assert_allclose(value, f(np, X.astype(float)).sum(), rtol=1e-4, atol=1e-3)
    np.testing.assert_allclose(got, slope(X.astype(float)), rtol=1e-5, atol=1e-5)


def test_slices_that_go() -> None:
    assert names(lambda x: (jnp.pad(x, 2) * 3)[2:-2, 2:-2] + 1, X) == {"mul", "add"}
    assert "concatenate" not in names(
        lambda x: (jnp.concatenate([x, x + 1], 0) * 3)[len(X):] + 1, X)
    assert "slice" in names(lambda x: (jnp.concatenate([x, x + 1], 0) * 3)[5:-5] + 1, X)
    assert "pad" in names(lambda x: (jnp.pad(x, 2) * 3)[1:-2, 2:-2] + 1, X)
    # what is not moved stays whole: its slices would be computed beside it
    assert "pad" in names(lambda x: (lambda y: (jnp.pad(x, 2) * y)[2:-2, 2:-2] + y.sum())(
        jnp.sin(jnp.arange((x.shape[0] + 4.) * (x.shape[1] + 4)).reshape(
            x.shape[0] + 4, x.shape[1] + 4))), X)


@pytest.mark.parametrize("config", [((1, 2, 1), (2, 0, 2)), ((-1, 2, 0), (0, -1, 1)),
                                    ((0, 0, 3), (1, 1, 0)), ((0, 0, 0), (-2, -1, 0))])
@pytest.mark.parametrize("shape", [(5, 4), (2, 3), (0, 4)])
def test_derivatives_of_paddings(config: Any, shape: tuple[int, int]) -> None:
    where = calque.lax.pad(np.arange(1, 1 + shape[0] * shape[1]).reshape(shape), 0, config)
    weight = np.random.default_rng(8).standard_normal(where.shape).astype(np.float32)
    got, inside = calque.grad(lambda x, v: (calque.lax.pad(x, v, config) * weight).sum(), (0, 1))(
        np.ones(shape, np.float32), 0.5)
    want = np.zeros(1 + shape[0] * shape[1])
    np.add.at(want, np.asarray(where).ravel(), weight.ravel())
    np.testing.assert_allclose(got, want[1:].reshape(shape), rtol=1e-6)
    np.testing.assert_allclose(inside, want[0], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("dtype", ["float32", "int8", "bool", "bfloat16", "complex64"])
@pytest.mark.parametrize("shape, axes", [((1, 5000), 0), ((300, 1), 1), ((1, 1), (0, 1)), ((1,), 0),
                                         ((5, 1, 7), 1)])
def test_folds_of_one_element(shape: tuple[int, ...], axes: Any, dtype: str) -> None:
    x = np.random.default_rng(9).integers(-5, 5, shape).astype(jnp.dtype(dtype))
    functions = [jnp.sum, jnp.prod, jnp.any, jnp.all]
    if dtype != "complex64":
        functions += [jnp.max, jnp.min, *[jnp.argmax, jnp.argmin] * isinstance(axes, int)]
    for f in functions:
        got, eager = calque.jit(lambda x, f=f: f(x, axis=axes))(x), f(x, axis=axes)
        want = getattr(np, f.__name__)(x, axis=axes)
        assert (got.dtype, got.shape) == (eager.dtype, want.shape)
        np.testing.assert_array_equal(got, want)
    assert not names(lambda x: jnp.max(x, axes) if dtype != "complex64" else x, x) & {
        "reduce_max", "argmax"}


def test_folds_of_one_element_of_none() -> None:
    assert calque.jit(lambda x: jnp.argmax(x, 0))(np.float32([[np.nan, 1]])).tolist() == [0, 0]
    assert calque.jit(lambda x: x.sum(1))(np.ones((0, 1), np.float32)).shape == (0,)
