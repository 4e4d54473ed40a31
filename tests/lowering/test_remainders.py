"""Remainders of floats in kernels, against NumPy's, which are C's: exact."""
import numpy as np
import pytest

import calque
import calque.numpy as jnp
from calque import lax

RNG = np.random.RandomState(3)
N = 20_000


def cases(dtype):
    """(x, y): of one size, of quotients up to the largest, whole numbers, what divides, edges."""
    far = np.float64(10) ** RNG.uniform(-5, 5, (2, N)) * RNG.randn(2, N)
    yield far
    info, word = np.finfo(dtype), np.dtype(f"u{np.dtype(dtype).itemsize}")
    any_bits = RNG.randint(0, np.iinfo(word).max, (2, N), dtype=word).view(dtype)
    yield np.where(np.abs(any_bits) < info.tiny, 1, any_bits)  # denormals are zero here
    yield RNG.randint(-50, 50, N), RNG.randint(-7, 7, N)
    yield far[0], far[0] / RNG.randint(1, 1000, N)
    yield RNG.rand(N) * 100, np.full(N, 2 * np.pi)
    yield np.full(N, info.max), RNG.rand(N) * 1e-30
    edges = [np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, -1.5, info.max, info.tiny, -info.tiny]
    grid = np.array(np.meshgrid(edges, edges)).reshape(2, -1)
    yield np.resize(grid[0], N), np.resize(grid[1], N)


def is_normal(x):
    return ~(np.abs(x) < np.finfo(x.dtype).tiny) | (x == 0)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_remainders_are_exact(dtype):
    with calque.enable_x64(dtype == "float64"), np.errstate(all="ignore"):
        f = calque.jit(lambda x, y: (jnp.fmod(x, y), jnp.remainder(x, y), lax.rem(x, y)))
        step = calque.jit(lambda x, y: lax.fori_loop(0, 3, lambda _, v: jnp.fmod(v, y), x))
        for x, y in cases(dtype):
            x, y = np.asarray(x).astype(dtype), np.asarray(y).astype(dtype)
            want = np.fmod(x, y)
            floor = np.remainder(x, y)
            normal = is_normal(want) & is_normal(floor)  # others are flushed
            truncated, floored, same = map(np.asarray, f(x, y))
            for got in (truncated, same, np.asarray(step(x, y))):
                np.testing.assert_array_equal(got[normal], want[normal])
                sign = np.signbit(got) == np.signbit(want)
                assert (sign | np.isnan(want))[normal].all()
            np.testing.assert_array_equal(floored[normal], floor[normal])
