"""Arrays of few numbers side by side moved and mapped: flipped, cropped, rolled, turned, cut into
patches, and with numbers for each column or row.  Oracle: NumPy's indexing.
"""
from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import calque
import calque.numpy as jnp
from calque import lax

RNG = np.random.default_rng(11)
LEVELS = ["x86-64-v2", "x86-64-v3", "x86-64-v4"]


def numbers(shape, dtype="f4"):
    """Whole numbers, whose sums and products are exact, fused or not."""
    dtype = np.dtype(dtype)
    if dtype.kind == "b":
        return RNG.random(shape) < 0.5
    if dtype.kind in "iu":
        return RNG.integers(0, 100, shape).astype(dtype)
    return RNG.integers(-50, 50, shape).astype(dtype)


def images(n, dtype="f4", height=33, width=35):
    return numbers((9, height, width, n), dtype)


def same(f, *arguments):
    """f under jit gives what it gives with NumPy's arrays."""
    np.testing.assert_array_equal(calque.jit(f)(*arguments), f(*arguments))


@pytest.mark.parametrize("n", [1, 3, 4, 7, 12, 16, 17])
def test_rows_of_any_length(n):
    """The tile of rows, the vector of one row, and blocks of 16 and more."""
    x, column, row = images(n), numbers(n), numbers((35, 1))
    same(lambda x: x[:, :, ::-1], x)
    same(lambda x: x[:, ::-1, ::-1] + x, x)
    same(lambda x, c: (x - c) * c, x, column)
    same(lambda x, r: x[:, :, ::-1] * r, x, row)
    same(lambda x, r, c: x[::-1] * r + x * c, x, row, column)
    same(lambda x: x.transpose(0, 2, 1, 3)[:, ::-1], x)
    same(lambda x: x[:, 3:29:2, 1:30], x)
    same(lambda x: x[..., -1:] * x[:, :, ::-1] - x[:, :, ::-1, :1], x)  # a number of each row


@pytest.mark.parametrize("dtype", ["u1", "i1", "?", "i2", "f2", ml_dtypes.bfloat16, "i4", "f8"])
def test_dtypes(dtype):
    x, chosen = images(3, dtype), numbers((9, 1, 1, 1), "?")
    with calque.enable_x64(np.dtype(dtype).itemsize == 8):
        same(lambda x: x[:, :, ::-1], x)
        same(lambda x: x[..., ::-1], x)
        made = calque.jit(lambda c, x: jnp.where(c, x[:, :, ::-1], x))(chosen, x)
        np.testing.assert_array_equal(made, np.where(chosen, x[:, :, ::-1], x))
        made = calque.jit(lambda x: x.astype("f4") * 0.5)(x)
        np.testing.assert_array_equal(made, x.astype("f4") * np.float32(0.5))


@pytest.mark.parametrize("rows", [1, 2, 15, 17, 49, 65])
def test_numbers_of_rows(rows):
    """Tiles whose last one begins earlier, and blocks of them."""
    x = numbers((40, rows, 3))
    same(lambda x: x[:, ::-1] + x, x)
    same(lambda x: x[::-1, ::-1], x)


@pytest.mark.parametrize("shape", [(70001,), (65, 1031)])
@pytest.mark.parametrize("dtype", ["f4", "u1", "f8"])
def test_last_axis_reversed(shape, dtype):
    x = numbers(shape, dtype)
    with calque.enable_x64(dtype == "f8"):
        same(lambda x: x[..., ::-1], x)
        same(lambda x: x[..., ::-1] + x, x)
        same(lambda x: x[::-1], x)
        same(lambda x: x[..., ::-3] + x[..., ::3][..., ::-1], x[..., :shape[-1] // 3 * 3 + 1])


@pytest.mark.parametrize("n", [1, 3, 16])
@pytest.mark.parametrize("mode", ["clip", "fill"])
def test_windows_at_computed_places(n, mode):
    """One window of each image, partly outside; alone and with what reads it."""
    x = images(n)
    at = RNG.integers(-6, 12, (9, 2)).astype("i4")

    def crop(image, start):
        return lax.gather(
            image, start, lax.GatherDimensionNumbers((0, 1, 2), (), (0, 1)), (28, 27, n), mode=mode)

    want = np.zeros((9, 28, 27, n), "f4")
    for i, (a, b) in enumerate(at):
        inside = 0 <= a <= 33 - 28 and 0 <= b <= 35 - 27
        a, b = np.clip(a, 0, 33 - 28), np.clip(b, 0, 35 - 27)
        want[i] = x[i, a:a + 28, b:b + 27]
        if mode == "fill" and not inside:
            want[i] = np.nan
    np.testing.assert_array_equal(calque.jit(calque.vmap(crop))(x, at), want)
    made = calque.jit(lambda x, at: calque.vmap(crop)(x, at)[:, :, ::-1] * 2)(x, at)
    np.testing.assert_array_equal(made, want[:, :, ::-1] * 2)


def test_windows_of_one_array():
    """Overlapping rows of a signal, and blocks of a table, at positions that are computed."""
    signal, table = numbers(50_000), numbers((5_000, 8))
    at = RNG.integers(-50, 50_100, 900).astype("i4")
    made = calque.jit(lambda x, at: calque.vmap(
        lambda i: lax.dynamic_slice(x, (i,), (128,)))(at + 1))(signal, at)
    # (a start below zero counts from the end, as JAX's dynamic_slice has it, and is clamped then)
    start = np.where(at + 1 < 0, at + 1 + 50_000, at + 1).clip(0, 50_000 - 128)
    np.testing.assert_array_equal(made, signal[start[:, None] + np.arange(128)])
    at = RNG.integers(0, 4_984, 700).astype("i4")
    made = calque.jit(calque.vmap(lambda i: lax.dynamic_slice(table, (i, 0), (16, 8))))(at)
    np.testing.assert_array_equal(made, table[at[:, None] + np.arange(16)])


@pytest.mark.parametrize("n", [1, 2, 3, 5])
def test_joined(n):
    """What is rolled, and arrays beside each other, in narrow rows."""
    x = images(n, height=64)
    for shift in (1, 3, -2):
        made = calque.jit(lambda x, shift=shift: jnp.roll(x, shift, axis=2))(x)
        np.testing.assert_array_equal(made, np.roll(x, shift, axis=2))
    made = calque.jit(lambda a, b: jnp.concatenate([a, b], -1))(x, x[..., :1])
    np.testing.assert_array_equal(made, np.concatenate([x, x[..., :1]], -1))


def test_patches_and_quarter_turns():
    x = images(3, height=32, width=32)
    same(lambda x: x.reshape(9, 8, 4, 8, 4, 3).transpose(0, 1, 3, 2, 4, 5).reshape(9, 64, 48), x)
    made = calque.jit(lambda x: jnp.rot90(x, axes=(1, 2)))(x)
    np.testing.assert_array_equal(made, np.rot90(x, axes=(1, 2)))


def test_derivatives():
    """The gradient of what is cropped and flipped lands where it came from."""
    x, at = images(3), np.asarray([[i % 5, i % 7] for i in range(9)], "i4")
    weight = numbers((9, 28, 27, 3))

    def loss(x):
        crop = calque.vmap(lambda image, s: lax.dynamic_slice(image, (*s, 0), (28, 27, 3)))(x, at)
        return (crop[:, :, ::-1] * weight).sum()

    want = np.zeros_like(x)
    for i, (a, b) in enumerate(at):
        want[i, a:a + 28, b:b + 27] += weight[i, :, ::-1]
    np.testing.assert_array_equal(calque.jit(calque.grad(loss))(x), want)


@pytest.mark.parametrize("level", LEVELS)
def test_levels(level, monkeypatch):
    monkeypatch.setenv("CALQUE_CPU", level)
    x, column = images(3), numbers(3)
    same(lambda x, c: (x[:, :, ::-1] - c) * c + x, x, column)
    same(lambda x: x[..., ::-1], images(3, "u1"))
    same(lambda x: x[::-1] + x, numbers(70001))
