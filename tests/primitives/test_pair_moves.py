"""Moves of complex arrays in memory as one move of pairs (primitives/pair_moves): beside NumPy,
small, odd and large, in both widths, at every level, alone and among what is computed."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from support.harness import at_level

import calque
import calque.numpy as jnp
from calque import lax

MOVES: dict[str, Callable[[Any, Any, Any], Any]] = {
    "reshape": lambda np, z, w: z.reshape(-1)[:-1],
    "transpose": lambda np, z, w: z.T,
    "three axes": lambda np, z, w: np.transpose(np.stack([z, w, z]), (2, 0, 1)),
    "rev": lambda np, z, w: z[::-1, ::-1],
    "strided": lambda np, z, w: z[1::2, ::3],
    "concatenate": lambda np, z, w: np.concatenate([z, w, z], 1),
    "stack": lambda np, z, w: np.stack([z, w], -1),
    "with a number": lambda np, z, w: np.concatenate([z, np.full_like(z[:1], 2 - 1j)]),
    "roll": lambda np, z, w: np.roll(z, (2, -3), (0, 1)),
    "fftshift": lambda np, z, w: np.fft.fftshift(z),
    "pad": lambda np, z, w: np.pad(z, ((1, 2), (3, 0))),
    "pad with a number": lambda np, z, w: np.pad(z, 1, constant_values=1 + 2j),
    "pad with a real one": lambda np, z, w: np.pad(z, 1, constant_values=3),
    "spread": lambda np, z, w: np.broadcast_to(z[:, None], (z.shape[0], 3, z.shape[1])),
    "rows": lambda np, z, w: z[np.array([2, 0, -1, 1])],
    "columns": lambda np, z, w: z[:, np.array([[2, 0], [1, 1]])],
    "elements": lambda np, z, w: z[np.array([2, 0]), np.array([1, 2])],
    "differences": lambda np, z, w: (np.diff(z), np.diff(z, axis=0), z[1:] + z[:-1] - z[1:]),
    "from a row": lambda np, z, w: (z - w[0], w[:, :1] - z, -z),
    "product": lambda np, z, w: (np.vdot(z, w), np.inner(z[0], w[0])),
    "stencil": lambda np, z, w: z[2:, 1:-1] + z[:-2, 1:-1] - 2 * z[1:-1, 1:-1],
    "products of parts": lambda np, z, w: (z[0] * w[1], z[:, :2] * w[:, 1:3], z[::2] * w[::2],
                                          z[np.array([1, 0])] * 2, np.cross(z[:, :3], w[:, :3])),
    "squeezed": lambda np, z, w: z[1],
    "element": lambda np, z, w: z[1, 2],
    "sum": lambda np, z, w: z.sum(),
    "sum of columns": lambda np, z, w: z.sum(0),
    "sum of rows": lambda np, z, w: z.sum(1),
    "sums of three axes": lambda np, z, w: np.stack([z, w]).sum((0, 2)),
    "twice": lambda np, z, w: (z, z.T, z.T[::-1]),
    "computed": lambda np, z, w: np.concatenate([z * w, z], 0).T * 2,
    "moved, then computed": lambda np, z, w: z[::-1] * w.conj() + z.T.reshape(z.shape),
    "taken apart": lambda np, z, w: (z.T.real, np.roll(w, 1).imag),
    "chosen": lambda np, z, w: np.where(z.real > 0, z[::-1], w),
    "padded transform": lambda np, z, w: np.fft.fft(np.pad(z, ((0, 0), (0, 5))))[:, ::2]}
SIZES = {"little": (3, 4), "odd": (37, 53), "large": (310, 201)}


def values(shape: tuple[int, int], dtype: str) -> list[Any]:
    rng = np.random.default_rng(shape[0])
    return [(rng.standard_normal(shape) + 1j * rng.standard_normal(shape)).astype(dtype)
            for _ in range(2)]


def check(f: Callable[..., Any], *args: Any, wide: bool = False) -> None:
    got = calque.tree_util.tree_leaves(calque.jit(lambda *a: f(jnp, *a))(*args))
    want = calque.tree_util.tree_leaves(f(np, *[a.astype(complex) for a in args]))
    size = max(np.abs(w).max(initial=1) for w in want)
    for g, w in zip(got, want, strict=True):
        # sums and transforms of up to 60,000 numbers in single precision; moves are exact
        np.testing.assert_allclose(g, w, atol=(1e-12 if wide else 1e-5) * size)


@pytest.mark.parametrize("name", MOVES)
def test_moves(name: str) -> None:
    for shape in SIZES.values():
        check(MOVES[name], *values(shape, "complex64"))


@pytest.mark.parametrize("name", MOVES)
def test_moves_of_wide_ones(name: str) -> None:
    with calque.enable_x64(True):
        check(MOVES[name], *values(SIZES["odd"], "complex128"), wide=True)


@pytest.mark.parametrize("level", ["x86-64-v2", "x86-64-v3", "x86-64-v4"])
def test_at_every_level(level: str) -> None:
    with at_level(level):
        for name in ("transpose", "stack", "pad", "rows", "sum", "computed"):
            for shape in (SIZES["odd"], SIZES["large"]):
                check(MOVES[name], *values(shape, "complex64"))


def test_windows_at_places_known_at_the_call() -> None:
    z, w = values((37, 53), "complex64")
    for i, j in ((0, 0), (5, 7), (36, 52), (-3, 60)):
        a, b = min(max(i + 37 * (i < 0), 0), 37 - 4), min(max(j + 53 * (j < 0), 0), 53 - 9)
        got = calque.jit(lambda z, i, j: lax.dynamic_slice(z, (i, j), (4, 9)))(z, i, j)
        np.testing.assert_array_equal(got, z[a:a + 4, b:b + 9])
        got = calque.jit(lambda z, w, i, j: lax.dynamic_update_slice(z, w[:4, :9], (i, j)))(
            z, w, i, j)
        want = z.copy()
        want[a:a + 4, b:b + 9] = w[:4, :9]
        np.testing.assert_array_equal(got, want)
    got = calque.jit(lambda z: z.at[1].set(1j).at[:, 2].set(0))(z)
    want = z.copy()
    want[1], want[:, 2] = 1j, 0
    np.testing.assert_array_equal(got, want)


def test_positions_outside_are_filled() -> None:
    z, _ = values((37, 53), "complex64")
    places = np.array([3, 60, -2])
    got = calque.jit(lambda z: jnp.take(z, places, axis=0, mode="fill", fill_value=2 - 3j))(z)
    np.testing.assert_array_equal(got, [z[3], np.full(53, 2 - 3j), z[-2]])
    got = calque.jit(lambda z: jnp.take(z, places, axis=1))(z)
    assert np.isnan(np.asarray(got)[:, 1]).all()
    np.testing.assert_array_equal(got[:, ::2], z[:, [3, -2]])


def test_bits_are_kept() -> None:
    """Signs of zero, infinities and NaN beside a number."""
    z = np.array([[complex(-0.0, 0.0), complex(np.nan, -0.0)],
                  [complex(np.inf, np.nan), complex(1.0, -np.inf)]], np.complex64)
    for f in (lambda z: z.T[::-1], lambda z: jnp.concatenate([z, z]).reshape(2, 4),
              lambda z: jnp.pad(z, 1)[1:3, 1:3], lambda z: z[jnp.array([1, 0])]):
        got, want = calque.jit(f)(z), np.asarray(calque.jit(
            lambda re, im, f=f: (f(re), f(im)))(z.real, z.imag))
        np.testing.assert_array_equal(np.signbit(np.asarray(got).real), np.signbit(want[0]))
        np.testing.assert_array_equal(np.signbit(np.asarray(got).imag), np.signbit(want[1]))
        np.testing.assert_array_equal(np.asarray(got).real, want[0])
        np.testing.assert_array_equal(np.asarray(got).imag, want[1])


def test_derivatives_of_moves() -> None:
    """Of |sum(w * move(z))|^2, by the real and imaginary parts, beside finite differences."""
    z, w = values((5, 6), "complex64")
    for f in (lambda z: jnp.roll(z, 2).T, lambda z: jnp.pad(z, 1)[:5], lambda z: z[::-1][:, ::2],
              lambda z: jnp.stack([z, z * 2])[1, jnp.array([2, 2, 0])]):
        def loss(z: Any, f: Any = f) -> Any:
            made = f(z)
            return jnp.abs((made * jnp.resize(w, made.shape)).sum()) ** 2
        got = np.asarray(calque.jit(calque.grad(loss))(z))
        step, d = 1e-2, np.zeros_like(z)
        d[2, 3] = 1
        real = (loss(z + step * d) - loss(z - step * d)) / (2 * step)
        imag = (loss(z + 1j * step * d) - loss(z - 1j * step * d)) / (2 * step)
        np.testing.assert_allclose(got[2, 3], real - 1j * imag, rtol=2e-3, atol=2e-3)
