"""Joins of what is computed (passes/assembled), and every second to fourth element of rows
(kernels/memory), against NumPy."""
import numpy as np
import pytest

import calque
import calque.numpy as jnp

RNG = np.random.RandomState(5)
OPS = [(lambda x: x * 2, lambda x: x * 2), (lambda x: x + 1, lambda x: x + 1),
       (lambda x: x, lambda x: x), (lambda x: jnp.full_like(x, 3), lambda x: np.full_like(x, 3))]


def kernels(f, *args):
    first = str(calque.jit(f).lower(*args).plan()).split("\n", 1)[0]
    assert "IREE" not in first, first
    return int(first.split("cpu: ")[1].split()[0])


@pytest.mark.parametrize("dtype", ["float32", "int8", "float16", "int32"])
@pytest.mark.parametrize("axis, shapes", [
    (0, [(20_000,), (1,), (777,)]),
    (0, [(1, 300), (148, 300), (2, 300)]),
    (1, [(130, 1), (130, 150), (130, 7)]),
    (1, [(130, 64), (130, 64)]),
    (1, [(7, 16, 33), (7, 5, 33), (7, 64, 33)]),
    (2, [(5, 40, 100), (5, 40, 3), (5, 40, 1)]),
    (0, [(1, 1, 20_000), (2, 1, 20_000)]),
])
def test_joins(axis, shapes, dtype):
    xs = [(RNG.rand(*s) * 20).astype(dtype) for s in shapes]
    for first in range(len(OPS)):
        ops = [OPS[(first + k) % len(OPS)] for k in range(len(xs))]
        got = calque.jit(lambda *xs, ops=ops: jnp.concatenate(
            [f(x) for (f, _), x in zip(ops, xs)], axis))(*xs)
        want = np.concatenate([g(x) for (_, g), x in zip(ops, xs)], axis)
        np.testing.assert_array_equal(got, want)


def test_one_kernel_computes_and_joins():
    x, y = RNG.rand(2, 200, 300).astype(np.float32)
    cases = [
        (lambda x, y: jnp.concatenate([x * 2, y + 1]), np.concatenate([x * 2, y + 1]), 1),
        (lambda x, y: jnp.stack([10 * (y - x), x * y - x]), np.stack([10 * (y - x), x * y - x]), 1),
        (lambda x, y: jnp.gradient(x, axis=0), np.gradient(x, axis=0), 2),
        (lambda x, y: jnp.concatenate([x[:, ::2] + x[:, 1::2], x[:, ::2] - x[:, 1::2]], 1),
         np.concatenate([x[:, ::2] + x[:, 1::2], x[:, ::2] - x[:, 1::2]], 1), 1),
    ]
    for f, want, count in cases:
        np.testing.assert_allclose(calque.jit(f)(x, y), want, rtol=1e-6, atol=1e-6)
        assert kernels(f, x, y) <= count


def test_what_else_reads_a_part():
    x, y = RNG.rand(2, 200, 300).astype(np.float32)

    def f(x, y):
        a = x * 2
        return jnp.concatenate([a, y + 1, a]), a, jnp.concatenate([a[:, ::2]] * 2, 1), a.sum()

    whole, a, twice, total = calque.jit(f)(x, y)
    np.testing.assert_array_equal(a, x * 2)
    np.testing.assert_array_equal(whole, np.concatenate([x * 2, y + 1, x * 2]))
    np.testing.assert_array_equal(twice, np.concatenate([(x * 2)[:, ::2]] * 2, 1))
    np.testing.assert_allclose(total, (x * 2).sum(dtype=np.float64), rtol=1e-6)


def test_joins_of_what_kernels_do_not_know():
    keys = calque.random.split(calque.random.key(0), 20_000)
    words = np.asarray(calque.random.key_data(keys))
    joined = calque.jit(lambda k: jnp.concatenate([k, k[:1], k[5:7]]))(keys)
    np.testing.assert_array_equal(calque.random.key_data(joined),
                                  np.concatenate([words, words[:1], words[5:7]]))
    for dtype in ("float8_e4m3fn", "int4", "complex64"):
        x = (np.arange(20_000) % 7).astype(jnp.dtype(dtype))
        for parts in (lambda x: [x, x[:1], x[5:7]], lambda x: [x[::2], x[1::2]]):
            got = calque.jit(lambda x, parts=parts: jnp.concatenate(parts(x)))(x)
            np.testing.assert_array_equal(np.asarray(got), np.concatenate(parts(x)))


@pytest.mark.parametrize("dtype", ["float32", "int8", "bool", "bfloat16", "int32"])
@pytest.mark.parametrize("step", [2, 3, 4, 5])
def test_every_so_many_elements(step, dtype):
    for n in (37, 64, 100, 1023):
        x = np.asarray(jnp.asarray(RNG.rand(20_000 // n, n) * 50).astype(dtype))
        for first in (0, 1):
            want = x[:, first::step]
            cut, flat, computed = calque.jit(lambda x, first=first: (
                x[:, first::step], x.reshape(-1)[first::step],
                (x[:, first::step] == x[:1, :1]).sum(1)))(x)
            np.testing.assert_array_equal(np.asarray(cut), want)
            np.testing.assert_array_equal(np.asarray(flat), x.reshape(-1)[first::step])
            np.testing.assert_array_equal(computed, (want == x[:1, :1]).sum(1))
