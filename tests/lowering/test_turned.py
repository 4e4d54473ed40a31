"""Transpositions that meet arrays which lie the other way."""
from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import calque
import calque.numpy as jnp
from calque import nn
from calque.lowering.passes.turned import tiled

R = np.random.default_rng(0)


def array(*shape: int, dtype: str = "float32") -> Any:
    return R.uniform(-9, 9, shape).astype(dtype)


def kernels(f: Any, *args: Any) -> list[str]:
    """The equations that are lowered, by name."""
    from calque.lowering.passes.groups import grouped
    from calque.lowering.passes.turned import Turned
    traced = calque.make_jaxpr(f)(*args).jaxpr
    return ["call of transpose" if isinstance(e.params.get("rows"), Turned) else e.name
            for e in grouped(getattr(traced, "program", traced)).equations]


@pytest.mark.parametrize("shape", [(100, 90), (91, 97), (128, 256), (300, 33), (4, 80, 70)])
@pytest.mark.parametrize("dtype", ["float32", "float64", "int8", "int32", "float16", "bool"])
def test_sums_of_both_orders(shape: tuple[int, ...], dtype: str) -> None:
    with calque.enable_x64(True):
        x, y = array(*shape, dtype=dtype), array(*shape[:-2], *shape[:-3:-1], dtype=dtype)
        turned = y.swapaxes(-1, -2)
        want = x ^ turned if dtype == "bool" else x + turned
        f = (lambda x, y: x ^ y.swapaxes(-1, -2)) if dtype == "bool" else (
            lambda x, y: x + y.swapaxes(-1, -2))
        assert "call of transpose" in kernels(f, x, y)
        np.testing.assert_array_equal(calque.jit(f)(x, y), want)


def test_a_matrix_and_its_transposition() -> None:
    x = array(130, 130)
    np.testing.assert_array_equal(calque.jit(lambda x: (x + x.T) / 2)(x), (x + x.T) / 2)
    np.testing.assert_array_equal(calque.jit(lambda x: jnp.where(x > x.T, x, x.T))(x),
                                  np.maximum(x, x.T))
    np.testing.assert_allclose(calque.jit(lambda x: x * jnp.exp(-x.T))(x / 9),
                               x / 9 * np.exp(-x.T / 9), rtol=2e-6)  # exp of float32


def test_gradients_go_through() -> None:
    x, c = array(96, 100), array(100, 96)

    def f(x: Any) -> Any:
        return jnp.sum(jnp.sin(x.T * c) * c)
    want = (np.cos(x.T.astype("f8") * c) * c.astype("f8") ** 2).T
    # |x c| < 81: rounding of the argument, times squares of up to 81
    np.testing.assert_allclose(calque.jit(calque.grad(f))(x), want, rtol=1e-4, atol=2e-3)


@pytest.mark.parametrize("name", ["alone", "with a number", "summed", "softmax", "rows", "small"])
def test_what_stays_one(name: str) -> None:
    x, y = array(120, 100), array(100, 120)
    f: Any = {"alone": lambda x, y: jnp.exp(y.T) * 2, "with a number": lambda x, y: y.T + 1,
              "summed": lambda x, y: (x * y.T).sum(1), "softmax": lambda x, y: nn.softmax(y.T),
              "rows": lambda x, y: x.reshape(4, 30, 100) + y.reshape(30, 4, 100).swapaxes(0, 1),
              "small": lambda x, y: x[:30, :40] + y[:40, :30].T}[name]
    assert "call of transpose" not in kernels(f, x, y)


def test_many_short_rows_are_turned_alone() -> None:
    x = array(5000, 40)
    assert "call of transpose" in kernels(lambda x: jnp.exp(x.T) + 1, x)
    assert "call of transpose" not in kernels(lambda x: jnp.exp(x.T) + 1, x.T.copy())
    assert "call of transpose" not in kernels(lambda x: x.T.sum(1), x)
    np.testing.assert_array_equal(calque.jit(lambda x: x.T + 1)(x), x.T + 1)


def test_a_chain_longer_than_the_stack() -> None:
    def f(x: Any, y: Any) -> Any:
        z = x.T
        for _ in range(1500):
            z = -z
        return z + y
    x, y = array(100, 90), array(90, 100)
    assert "call of transpose" in kernels(f, x, y)
    assert "call of transpose" not in kernels(lambda x: f(x, 1.0), x)
    np.testing.assert_array_equal(calque.jit(f)(x, y), x.T + y)


def test_a_transposition_is_no_argument_and_two_may_be() -> None:
    x = jnp.asarray(array(200, 150))
    f = calque.jit(lambda x: (x.T, x.T.reshape(-1), x.T.T,
                              x.T.reshape(75, 400).reshape(150, 200).T))
    a, b, c, d = f(x)
    want = np.asarray(x).copy()
    for y in (a, b):  # what is donated is overwritten
        calque.jit(lambda v: v * 0, donate_argnums=0)(y)
    np.testing.assert_array_equal(x, want)
    np.testing.assert_array_equal(c, want)
    np.testing.assert_array_equal(d, want)
    calque.jit(lambda v: v * 0, donate_argnums=0)(d)
    np.testing.assert_array_equal(x, want)
    np.testing.assert_array_equal(c, want)


def test_updates_of_what_was_transposed() -> None:
    x = array(70, 150)
    f = calque.jit(lambda x: (x.T.at[3].set(1.0), x.T.T.at[0].set(2.0), x))
    a, b, c = f(x)
    wanted_a, wanted_b = x.T.copy(), x.copy()
    wanted_a[3], wanted_b[0] = 1, 2
    np.testing.assert_array_equal(a, wanted_a)
    np.testing.assert_array_equal(b, wanted_b)
    np.testing.assert_array_equal(c, x)
    g = calque.jit(lambda x: x.T.at[3].set(1.0).T, donate_argnums=0)
    np.testing.assert_array_equal(g(jnp.asarray(x)), wanted_a.T)


PERMUTED = [
    ((300, 100), (1, 0)), ((100, 300), (1, 0)), ((33, 4000), (1, 0)), ((7, 64, 65), (0, 2, 1)),
    ((40, 50, 60), (2, 0, 1)), ((40, 50, 60), (2, 1, 0)), ((40, 50, 60), (1, 2, 0)),
    ((3, 40, 5, 50), (0, 3, 2, 1)), ((3, 40, 5, 50), (2, 3, 0, 1)),
    ((1, 90, 1, 80), (3, 0, 2, 1)), ((4, 3, 33, 35, 2), (4, 3, 0, 1, 2)),
    ((3, 2, 2, 2, 33, 34), (0, 5, 2, 1, 3, 4)), ((20000, 7), (1, 0)), ((40, 50, 60), (1, 0, 2)),
    ((16, 28, 28, 64), (0, 3, 1, 2))]


@pytest.mark.parametrize("shape, order", PERMUTED, ids=str)
@pytest.mark.parametrize("dtype", ["bool", "float16", "float32", "float64"])
def test_every_order_and_size_of_elements(shape: Any, order: Any, dtype: str) -> None:
    with calque.enable_x64(True):
        x = jnp.asarray(R.integers(0, 256, (*shape, 16)).astype(np.uint8).view(
            np.uint64)[..., 0].astype(np.float64)).astype(dtype)
        want = np.asarray(x).transpose(order)
        np.testing.assert_array_equal(calque.jit(lambda x: x.transpose(order))(x), want)


@pytest.mark.parametrize("dtype", ["int8", "uint16", "bfloat16", "int32", "int64", "complex64"])
def test_other_types(dtype: str) -> None:
    test_every_order_and_size_of_elements((5, 70, 90), (0, 2, 1), dtype)


def test_the_kernel_takes_what_it_should() -> None:
    f4, i1 = np.dtype(np.float32), np.dtype(np.int8)
    assert tiled((300, 100), f4, (1, 0)) == ([], (100, 1, 300), (300, 100, 1))
    assert tiled((40, 50, 60), f4, (2, 0, 1)) == ([], (60, 1, 2000), (2000, 60, 1))
    assert tiled((1, 200, 1, 180), f4, (3, 0, 2, 1)) == ([], (180, 1, 200), (200, 180, 1))
    assert tiled((8, 12, 40, 60), f4, (0, 3, 1, 2)) == (
        [(8, 28800, 28800)], (60, 1, 480), (480, 60, 1))
    for shape, dtype, order in [((20000, 7), f4, (1, 0)), ((100, 100), f4, (1, 0)),
                                ((40, 50, 60), f4, (1, 0, 2)), ((3000, 30), i1, (1, 0)),
                                ((300, 300), np.dtype(np.complex64), (1, 0))]:
        assert tiled(shape, dtype, order) is None
