"""Rows that are gathered, multiplied and added up (passes/spmm), beside NumPy."""
from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import calque
import calque.numpy as jnp
from calque.experimental import sparse
from calque.lowering.kernels.native import object_of
from calque.lowering.target.targets import cpu_target

N, M, NSE = 60, 45, 4000
RNG = np.random.default_rng(11)
ROWS, COLUMNS = (RNG.integers(-2, n + 2, NSE).astype(np.int32) for n in (N, M))
VALUES = RNG.standard_normal(NSE).astype(np.float32)
INSIDE = (ROWS >= 0) & (ROWS < N) & (COLUMNS >= 0) & (COLUMNS < M)
needs_kernel = pytest.mark.skipif(object_of(cpu_target(), "spmm") is None,
                                  reason="the C kernels were not built")


def matrix(values: Any = VALUES) -> Any:
    return sparse.BCOO((jnp.asarray(values), jnp.asarray(np.stack([ROWS, COLUMNS], -1))),
                       shape=(N, M))


def dense_matrix() -> Any:
    full = np.zeros((N, M))
    np.add.at(full, (ROWS[INSIDE], COLUMNS[INSIDE]), VALUES[INSIDE])
    return full


def is_one_kernel(f: Any, *args: Any) -> bool:
    return "calque_spmm" in str(calque.jit(f).lower(*args).as_text())


PRODUCTS = {
    "rows": (lambda m, b: m @ b, (M, 20), lambda a, b: a @ b),
    "transposed": (lambda m, b: m.T @ b, (N, 20), lambda a, b: a.T @ b),
    "from the left": (lambda m, b: b @ m, (20, N), lambda a, b: b @ a),
    "vectors under vmap": (calque.vmap(lambda m, b: m @ b, in_axes=(None, 0)), (20, M),
                           lambda a, b: b @ a.T),
    "by rows": (lambda m, b: sparse.BCSR.from_bcoo(m) @ b, (M, 20), lambda a, b: a @ b)}


@needs_kernel
@pytest.mark.parametrize("name", PRODUCTS)
def test_sparse_times_dense(name: str) -> None:
    f, shape, oracle = PRODUCTS[name]
    b = RNG.standard_normal(shape).astype(np.float32)
    np.testing.assert_allclose(calque.jit(f)(matrix(), b), oracle(dense_matrix(), b), rtol=1e-4,
                               atol=2e-4)
    assert is_one_kernel(f, matrix(), b)


@needs_kernel
def test_a_graph_networks_layer_and_its_gradient() -> None:
    senders, receivers = np.clip(COLUMNS, 0, M - 1), np.clip(ROWS, 0, N - 1)

    def layer(x: Any, w: Any) -> Any:
        return jnp.zeros((N, 16), x.dtype).at[receivers].add(x[senders] * w[:, None])

    def loss(x: Any, w: Any) -> Any:
        return (layer(x, w) ** 2).sum()

    x = RNG.standard_normal((M, 16)).astype(np.float32)
    full = np.zeros((N, M))
    np.add.at(full, (receivers, senders), VALUES)
    want = full @ x
    np.testing.assert_allclose(calque.jit(layer)(x, VALUES), want, rtol=1e-4, atol=2e-4)
    assert is_one_kernel(layer, x, VALUES)
    of_x, of_w = calque.jit(calque.grad(loss, (0, 1)))(x, VALUES)
    np.testing.assert_allclose(of_x, full.T @ (2 * want), rtol=1e-3, atol=2e-2)
    np.testing.assert_allclose(of_w, (2 * want[receivers] * x[senders]).sum(1), rtol=1e-3,
                               atol=2e-2)


@needs_kernel
@pytest.mark.parametrize("mode", ["fill", "clip"])
@pytest.mark.parametrize("written", ["drop", "clip"])
def test_out_of_range(mode: str, written: str) -> None:
    def f(x: Any, rows: Any, columns: Any) -> Any:
        read = x.at[columns].get(mode=mode, wrap_negative_indices=False)
        return jnp.zeros((N, 12)).at[rows].add(read, mode=written, wrap_negative_indices=False)

    x = RNG.standard_normal((M, 12)).astype(np.float32)
    at, to = np.clip(COLUMNS, 0, M - 1), np.clip(ROWS, 0, N - 1)
    read = x[at].astype(np.float64)
    if mode == "fill":
        read[at != COLUMNS] = np.nan
    kept = (to == ROWS) | (written == "clip")
    want = np.zeros((N, 12))
    np.add.at(want, to[kept], read[kept])
    np.testing.assert_allclose(calque.jit(f)(x, ROWS, COLUMNS), want, rtol=1e-4, atol=2e-4)
    assert is_one_kernel(f, x, ROWS, COLUMNS)


def test_others_stay_as_they_are() -> None:
    """What is added to something, and rows that are products of one another."""
    senders, receivers = np.clip(COLUMNS, 0, M - 1), np.clip(ROWS, 0, N - 1)

    def to_something(x: Any, y: Any) -> Any:
        return y.at[receivers].add(x[senders])

    def of_pairs(x: Any, y: Any) -> Any:
        return jnp.zeros((N, 12)).at[receivers].add(x[senders] * y[receivers])

    x, y = (RNG.standard_normal((n, 12)).astype(np.float32) for n in (M, N))
    want = y.astype(np.float64)
    np.add.at(want, receivers, x[senders])
    np.testing.assert_allclose(calque.jit(to_something)(x, y), want, rtol=1e-4, atol=2e-4)
    want = np.zeros((N, 12))
    np.add.at(want, receivers, x[senders].astype(np.float64) * y[receivers])
    np.testing.assert_allclose(calque.jit(of_pairs)(x, y), want, rtol=1e-4, atol=2e-4)
    assert not is_one_kernel(to_something, x, y) and not is_one_kernel(of_pairs, x, y)
