"""Vulkan, run on any Vulkan device (Debian: apt-get install mesa-vulkan-drivers libvulkan1 gives
lavapipe), or with CALQUE_TEST_GPU=cuda on NVIDIA's.  Not part of the default run:
`pytest -m vulkan`.
"""
from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import calque
import calque.numpy as jnp
from calque import lax, random

pytestmark = pytest.mark.vulkan


@pytest.fixture
def device(gpu: Any) -> Iterator[Any]:
    """On CUDA products of float32 are exact only where asked (docs/cuda_kernels.md)."""
    exact = calque.default_matmul_precision("highest" if gpu.platform != "vulkan" else None)
    with exact:
        yield gpu


ULPS = 3.0  # two forms are reordered by the driver, which costs up to one more than on the CPU


@pytest.mark.parametrize("name", ["sin", "cos", "tan", "exp", "tanh", "arctan", "sinh", "expm1",
                                  "cbrt", "arcsin", "log", "sqrt"])
def test_functions_are_accurate(device, name: str) -> None:
    wide = np.concatenate([np.linspace(-20, 20, 2001), [1e3, 1e5, 1e6, 3e7, 1e20, 3e38]])
    points = {"exp": np.linspace(-20, 20, 2001), "sinh": np.linspace(-5, 5, 2001),
              "expm1": np.linspace(-2, 5, 2001), "arcsin": np.linspace(-0.999, 0.999, 2001),
              "log": np.linspace(1e-3, 50, 2001), "sqrt": np.linspace(0, 50, 2001)}
    x = points.get(name, wide).astype(np.float32)
    got = np.asarray(calque.jit(getattr(jnp, name))(calque.device_put(x, device)))
    want = getattr(np, name)(x.astype(np.float64))
    assert np.nanmax(np.abs(got - want) / np.spacing(np.abs(want).astype(np.float32))) <= ULPS


def test_a_program_of_everything(device) -> None:
    def f(x):
        return (jnp.sum(x), x @ x, x.reshape(2, -1).max(axis=1), random.bits(random.key(3), (4,)),
                x.at[3].set(2.0), jnp.where(x > 3, x, -x).astype(jnp.int32))

    x = np.arange(16, dtype=np.float32)
    there = [np.asarray(v) for v in calque.jit(f)(calque.device_put(x, device))]
    here = [np.asarray(v) for v in calque.jit(f)(x)]
    for a, b in zip(there, here):
        np.testing.assert_array_equal(a, b)


def test_gradients(device) -> None:
    x = calque.device_put(np.linspace(0.1, 1, 8).astype(np.float32), device)
    g = calque.jit(calque.grad(lambda x: (jnp.sin(x) * x).sum()))(x)
    v = np.linspace(0.1, 1, 8)
    np.testing.assert_allclose(g, np.sin(v) + v * np.cos(v), rtol=1e-5)
    assert g.devices() == {device}


def test_transforms(device) -> None:
    """The portable form: dense factors, chirps, real ones; bits by hand-made wide products."""
    rng = np.random.default_rng(0)
    for n in (60, 67, 1000):
        x = rng.standard_normal((2, n)).astype(np.float32)
        y, z = calque.jit(lambda x: (jnp.fft.fft(x), jnp.fft.irfft(jnp.fft.rfft(x), x.shape[1])))(
            calque.device_put(x, device))
        want = np.fft.fft(x.astype(np.float64))
        # drivers may reorder and fuse: twice what the CPU's form is held to
        assert np.abs(np.asarray(y) - want).max() <= 1e-6 * np.abs(want).max()
        assert np.abs(np.asarray(z) - x).max() <= 1e-6 * np.abs(x).max() * np.sqrt(n)
    state = np.array([1, 2, 0xFFFFFFFF, 0xFFFFFFFF], np.uint32)
    there = calque.jit(lambda s: lax.rng_bit_generator(s, (10,)))(calque.device_put(state, device))
    for a, b in zip(there, lax.rng_bit_generator(state, (10,))):
        np.testing.assert_array_equal(np.asarray(a), np.asarray(b))


SIZES = ((70, 50), (64, 64), (200, 300))
FUSED = {  # reductions and products with consumers of more axes: IREE spreads the two over threads
    # in different ways, unless they are apart (Builder.materialize)
    "softmax of rows": lambda m, x: m.exp(x) / m.exp(x).sum(1)[:, None],
    "softmax of columns": lambda m, x: m.exp(x) / m.exp(x).sum(0),
    "centred": lambda m, x: x - x.sum(0),
    "a reflection": lambda m, x: x - x[:, :1] * (x[:, 0] @ x),
    "of rows": lambda m, x: x - (x @ x[0])[:, None] * x[0],
    "where largest": lambda m, x: m.where(x == x.max(0), 1.0, x),
    "running": lambda m, x: m.cumsum(x, 0) - x.sum(0),
    "both": lambda m, x: (x * x[0]) @ x.T + (x @ x.T).max(0),
}


@pytest.mark.parametrize("shape", SIZES)
def test_reductions_and_what_follows(device, shape: tuple[int, int]) -> None:
    x = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    outs = calque.jit(lambda x: [f(jnp, x) for f in FUSED.values()])(calque.device_put(x, device))
    for (name, f), got in zip(FUSED.items(), outs):
        want = f(np, x.astype(np.float64))
        # sums of up to 300 terms of size 1, each rounded
        assert np.abs(np.asarray(got) - want).max() <= 1e-5 * np.abs(want).max(), name


def test_products_of_what_was_gathered(device) -> None:
    """Both operands computed from one value that nobody else reads (found by eigh in float64)."""
    rng = np.random.default_rng(0)
    with calque.enable_x64(True):
        a = rng.standard_normal((4, 4))
        a = a + a.T

        def f(a):
            w, v = jnp.linalg.eigh(a)
            return (v * jnp.exp(0.3 * w)) @ v.T

        w, v = np.linalg.eigh(a)
        got = np.asarray(calque.jit(f)(calque.device_put(a, device)))
    np.testing.assert_allclose(got, (v * np.exp(0.3 * w)) @ v.T, atol=1e-13)  # 50 eps, 40 rotations


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_windows_of_halves(device, dtype: str) -> None:
    x = np.arange(30, dtype=np.float32).reshape(5, 6) / 8  # (their sums are exact)
    given = calque.device_put(x.astype(dtype), device)
    got = calque.jit(lambda x: lax.reduce_window(x, jnp.zeros((), dtype), lax.add, (2, 3), (1, 1),
                                                 "VALID"))(given)
    want = sum(x[i:4 + i, j:4 + j] for i in range(2) for j in range(3))
    np.testing.assert_allclose(np.asarray(got, np.float32), want, rtol=2**-8)


def test_eager_operations_where_the_array_is(device) -> None:
    """A number, an index and what nobody placed go to the array that was placed."""
    x = np.arange(60000, dtype=np.float32).reshape(300, 200)
    v, ones = calque.device_put(x, device), jnp.ones((300, 200))
    assert ones.devices() == {calque.devices("cpu")[0]}
    for got, want in ((v[:3], x[:3]), (v + 1.5, x + 1.5), (ones + v, x + 1), (2 * v, 2 * x),
                      (v[jnp.array([1, 2])], x[[1, 2]]), (v[jnp.int32(3)], x[3]),
                      (jnp.where(v > 3, v, 0.0), np.where(x > 3, x, 0)),
                      (v.at[0].set(1.0), np.concatenate([ones[:1], x[1:]]))):
        assert got.devices() == {device}
        np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("n", [16, 64, 100])
def test_products_of_bfloat16(device, n: int) -> None:
    rng = np.random.default_rng(0)
    x, y = (rng.integers(-8, 9, (n, n)).astype(np.float32) for _ in range(2))  # (exact sums)
    got = calque.jit(lambda x, y: jnp.matmul(x, y, preferred_element_type=jnp.float32))(
        *[calque.device_put(v.astype(jnp.bfloat16), device) for v in (x, y)])
    np.testing.assert_array_equal(got, x @ y)


def test_reductions_of_triangles(device) -> None:
    x = np.arange(64 * 64, dtype=np.float32).reshape(64, 64) % 7  # (exact sums)
    got = calque.jit(lambda x: (jnp.tril(x).sum(), jnp.tril(x).max(1), jnp.tril(x).sum(1)))(
        calque.device_put(x, device))
    for a, b in zip(got, (np.tril(x).sum(), np.tril(x).max(1), np.tril(x).sum(1))):
        np.testing.assert_array_equal(a, b)
