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
    return int(first.rsplit(": ", 1)[1].split()[0])


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


def test_edges_of_joins():
    """Views that others read, parts without elements, numbers, one row, loops, vmap, gradients."""
    x, y = RNG.rand(2, 200, 300).astype(np.float32)

    def shared(x, y):
        cut = x[5:]
        return jnp.concatenate([y * 2, cut]), cut + 1, x

    for got, want in zip(calque.jit(shared)(x, y), (
            np.concatenate([y * 2, x[5:]]), x[5:] + 1, x)):
        np.testing.assert_array_equal(got, want)

    def turned(x):
        for _ in range(3):
            x = np.concatenate([x[1:] * 2, x[:1] + 1])
        return x

    cases = [
        (lambda x: jnp.concatenate([x * 2, x[:0], jnp.zeros((0, 300)), x + 1]),
         np.concatenate([x * 2, x + 1])),
        (lambda x: jnp.concatenate([jnp.zeros((200, 1)), x * 2, jnp.ones((200, 2))], 1),
         np.concatenate([np.zeros((200, 1)), x * 2, np.ones((200, 2))], 1)),
        (lambda x: jnp.stack([x.reshape(1, -1) * 2, x.reshape(1, -1)]),
         np.stack([x.reshape(1, -1) * 2, x.reshape(1, -1)])),
        (lambda x: calque.lax.fori_loop(
            0, 3, lambda _, c: jnp.concatenate([c[1:] * 2, c[:1] + 1]), x), turned(x)),
        (calque.vmap(lambda r: jnp.concatenate([r[:1] * 0, jnp.diff(r)])),
         np.concatenate([x[:, :1] * 0, np.diff(x)], 1)),
        (calque.grad(lambda x: (jnp.concatenate([x * 2, x[::-1]]) ** 2).sum()), 10 * x),
        (lambda x: jnp.concatenate([jnp.ones((100, 300)) * 2, jnp.zeros((1, 300))]),
         np.concatenate([np.full((100, 300), 2), np.zeros((1, 300))])),
    ]
    for f, want in cases:
        np.testing.assert_allclose(calque.jit(f)(x), want, rtol=1e-6)


def test_of_sizes_known_at_the_call():
    from calque import export
    made = export.export(calque.jit(lambda x: (
        jnp.argmax(x), jnp.concatenate([x * 2, x + 1]), x.at[3].set(0), (x % 0.25).sum())))(
        calque.ShapeDtypeStruct(export.symbolic_shape("n"), np.float32))
    for n in (7, 40_000, 600_000):
        x = RNG.rand(n).astype(np.float32)
        place, joined, updated, total = made.call(x)
        assert place == x.argmax()
        np.testing.assert_array_equal(joined, np.concatenate([x * 2, x + 1]))
        np.testing.assert_array_equal(updated, np.where(np.arange(n) == 3, 0, x))
        np.testing.assert_allclose(total, np.fmod(x, 0.25).sum(dtype=np.float64), rtol=1e-5)


@pytest.mark.parametrize("n", [3, 1000, 20_000, 1_000_000])
def test_joins_of_what_follows_from_numbers(n):
    """Nothing of it lies in memory: a number seen in other shapes, positions (`linspace`)."""
    got = calque.jit(lambda: jnp.linspace(-1, 3, n))()
    np.testing.assert_allclose(got, np.linspace(-1, 3, n), rtol=0, atol=5e-7)  # 2 ulp of 3
    got = calque.jit(lambda a, b: jnp.linspace(a, b, n))(-1.0, 3.0)
    np.testing.assert_allclose(got, np.linspace(-1, 3, n), rtol=0, atol=5e-7)
    made = calque.jit(lambda x: jnp.concatenate([
        jnp.broadcast_to(jnp.reshape(3.0, (1,)), (n,)) * x, jnp.expand_dims(2.0, 0)]))
    x = RNG.rand(n).astype("f")
    np.testing.assert_array_equal(made(x), np.append(3 * x, np.float32(2)))
