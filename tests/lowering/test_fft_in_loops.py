"""Transforms inside loops that are one kernel: beside NumPy's, and the same bits as outside.

A loop's kernel calls the C kernels of lowering/native/fft.c; lengths with large prime factors are
Bluestein's, odd real ones complex, axes in the middle lines across memory.
"""
from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import calque
import calque.numpy as jnp
from calque import lax
from calque.lowering.kernels import native
from calque.lowering.target.targets import parse_target

RNG = np.random.default_rng(11)
pytestmark = pytest.mark.skipif(native.object_of(parse_target("cpu:host"), "fft") is None,
                                reason="no C kernels here")
# of the largest number: rounding of log2(n) steps of additions, each half an ulp, times a few
# (Bluestein's length is four times n, and three transforms)
TOLERANCE = {"float32": 2e-6, "float64": 4e-15}


def _is_kernel(f: Any, *args: Any) -> bool:
    plan = calque.jit(f).lower(*args).plan()
    return any(e.name in ("scan", "while") and "host" not in r.family
               for r in plan.regions for e in r.equations)


def _close(found: Any, want: Any, dtype: str) -> None:
    scale = np.abs(want).max(initial=1e-30)
    np.testing.assert_allclose(np.asarray(found) / scale, want / scale, rtol=0,
                               atol=TOLERANCE[dtype])


def _numbers(shape: tuple[int, ...], dtype: str, whole: bool = True) -> Any:
    x = RNG.normal(size=shape)
    return (x + 1j * RNG.normal(size=shape) if whole else x).astype(
        np.result_type(dtype, np.complex64) if whole else dtype)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("lead", [(), (3,), (2, 5)])
@pytest.mark.parametrize("n", [1, 2, 3, 8, 12, 15, 17, 31, 37, 64, 97, 100, 256, 1000])
def test_every_length(n: int, lead: tuple[int, ...], dtype: str) -> None:
    with calque.enable_x64(dtype == "float64"):
        z, x = _numbers((2, *lead, n), dtype), _numbers((2, *lead, n), dtype, False)
        half = _numbers((2, *lead, n // 2 + 1), dtype)

        def step(c: Any, t: Any) -> Any:
            z, x, half = t
            return c + jnp.float32(1), (jnp.fft.fft(z), jnp.fft.ifft(z), jnp.fft.rfft(x),
                                        jnp.fft.irfft(half, n))

        def f(z: Any, x: Any, half: Any) -> Any:
            return lax.scan(step, jnp.float32(0), (z, x, half), unroll=False)[1]

        assert _is_kernel(f, z, x, half)
        found = calque.jit(f)(z, x, half)
        outside = calque.jit(lambda *t: step(0, t)[1])
        made = [outside(z[i], x[i], half[i]) for i in range(2)]
        wants = (np.fft.fft(z), np.fft.ifft(z), np.fft.rfft(x), np.fft.irfft(half, n))
        for k, (a, want) in enumerate(zip(found, wants, strict=True)):
            _close(a, want, dtype)
            np.testing.assert_array_equal(np.asarray(a), np.stack([m[k] for m in made]))


@pytest.mark.parametrize("rows", [0, 5, 16, 64])
@pytest.mark.parametrize("n", [32, 100, 256])
def test_a_step_of_a_wave(n: int, rows: int) -> None:
    """Schroedinger's equation by split steps: one kernel, alone and for many."""
    k = np.fft.fftfreq(n, 10 / n) * 2 * np.pi
    position = np.linspace(-5, 5, n)
    turn = np.exp(-0.5j * 0.01 * position ** 2).astype(np.complex64)
    move = np.exp(-0.5j * 0.01 * k ** 2).astype(np.complex64)
    start = _numbers((*([rows] if rows else []), n), "float32")

    def f(u: Any) -> Any:
        return lax.fori_loop(0, 20, lambda i, p: turn * jnp.fft.ifft(move * jnp.fft.fft(
            turn * p)), u)

    g = calque.vmap(f) if rows else f
    assert _is_kernel(g, start)
    want = start.astype(complex)
    for _ in range(20):
        want = turn * np.fft.ifft(move * np.fft.fft(turn * want))
    found = calque.jit(g)(start)
    # 20 steps, each of whose errors is one transform's
    np.testing.assert_allclose(found, want, rtol=0, atol=20 * 2e-6 * np.abs(want).max())
    np.testing.assert_allclose(np.linalg.norm(found), np.linalg.norm(start), rtol=1e-4)


@pytest.mark.parametrize("shape", [(8, 8), (16, 12), (5, 9), (3, 8, 16), (1, 7)])
@pytest.mark.parametrize("real", [False, True])
def test_several_axes(shape: tuple[int, ...], real: bool) -> None:
    x = _numbers((4, *shape), "float32", not real)

    def step(c: Any, t: Any) -> Any:
        if real:
            z = jnp.fft.rfftn(t)
            return c, (z, jnp.fft.irfftn(z, shape))
        return c, (jnp.fft.fftn(t), jnp.fft.ifftn(t))

    def f(x: Any) -> Any:
        return lax.scan(step, jnp.zeros(3), x)[1]

    assert _is_kernel(f, x)
    axes = tuple(range(1, x.ndim))
    there, back = calque.jit(f)(x)
    _close(there, (np.fft.rfftn if real else np.fft.fftn)(x, axes=axes), "float32")
    _close(back, x if real else np.fft.ifftn(x, axes=axes), "float32")


def test_a_while_loop_with_a_choice() -> None:
    x = _numbers((48,), "float32")

    def f(x: Any, stop: Any) -> Any:
        def body(c: Any) -> Any:
            i, z = c
            return i + 1, lax.cond(i % 2 == 0, lambda z: jnp.fft.fft(z) / 7,
                                   lambda z: jnp.fft.ifft(z[::-1]) * 7, z)
        return lax.while_loop(lambda c: c[0] < stop, body, (0, x))[1]

    assert _is_kernel(f, x, 5)
    want = x.astype(complex)
    for i in range(5):
        want = np.fft.fft(want) / 7 if i % 2 == 0 else np.fft.ifft(want[::-1]) * 7
    _close(calque.jit(f)(x, 5), want, "float32")


def test_derivatives() -> None:
    """Of a spectral step of Burgers' equation, by central differences in float64."""
    n = 24
    with calque.enable_x64(True):
        k = np.fft.rfftfreq(n, 1 / n)

        def f(u: Any) -> Any:
            def step(v: Any, _: Any) -> Any:
                u = jnp.fft.irfft(v, n)
                return v * np.exp(-0.01 * k ** 2) - 0.05j * k * jnp.fft.rfft(u * u), (u ** 3).sum()
            return lax.scan(step, jnp.fft.rfft(u), None, 6)[1].sum()

        u, along = RNG.normal(size=n), RNG.normal(size=n)
        slope = calque.jit(calque.grad(f))(u) @ along
        moved = calque.jit(lambda u: calque.jvp(f, (u,), (along,))[1])(u)
        step = 1e-5
        want = (f(u + step * along) - f(u - step * along)) / (2 * step)
        np.testing.assert_allclose(slope, want, rtol=1e-7)  # the difference's own error
        np.testing.assert_allclose(moved, want, rtol=1e-7)


def test_long_lines_stay_with_the_host() -> None:
    """Transforms that are work for both cores are dispatches of their own."""
    x = _numbers((1 << 14,), "float32")

    def f(x: Any) -> Any:
        return lax.fori_loop(0, 3, lambda i, z: jnp.fft.fft(z) / 128, x)

    assert not _is_kernel(f, x)
    want = x.astype(complex)
    for _ in range(3):
        want = np.fft.fft(want) / 128
    _close(calque.jit(f)(x), want, "float32")
