"""Elements k apart as rows of k numbers (passes/phases), beside NumPy in double precision."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from support.harness import at_level

import calque
import calque.numpy as jnp
from calque import aot

RNG = np.random.default_rng(3)


def spread(n: int, where: Any, values: Any) -> Any:
    """The derivative of what takes elements: values where they were, zeros elsewhere."""
    out = np.zeros((*values.shape[:-1], n))
    out[..., where] += values
    return out


def rotated(np: Any, x: Any) -> Any:
    """Pairs turned by a right angle, as rotary positions do."""
    pairs = np.stack([-x[..., 1::2], x[..., ::2]], -1)
    return pairs.reshape(x.shape)


@pytest.mark.parametrize("k, n", [(2, 400), (3, 333), (4, 512), (8, 160), (9, 270), (2, 401),
                                  (5, 7)])
def test_derivatives_of_strided_slices(k: int, n: int) -> None:
    x = RNG.standard_normal((100, n)).astype(np.float32)
    for start in range(min(k, n)):
        got = calque.jit(calque.grad(lambda x, start=start: (x[:, start::k] ** 3).sum()))(x)
        want = spread(n, slice(start, None, k), 3 * x[:, start::k].astype(float) ** 2)
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)


def products(x: Any) -> Any:
    return (x[:, ::2] * x[:, 1::2]).sum() + (x[:, ::2] ** 2).sum()


def d_products(x: Any) -> Any:
    even, odd = x[:, ::2], x[:, 1::2]
    return spread(x.shape[1], slice(0, None, 2), odd + 2 * even) + spread(
        x.shape[1], slice(1, None, 2), even)


def d_rotated(x: Any) -> Any:
    """Of sum(rotated(x) * x * x): with pairs (a, b), -b a^2 + a b^2."""
    a, b = x[..., ::2], x[..., 1::2]
    return np.stack([b * b - 2 * a * b, 2 * a * b - a * a], -1).reshape(x.shape)


CASES: dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any]]] = {
    "products": (calque.grad(products), d_products),
    "turned": (lambda x: rotated(jnp, x) * x + 1, lambda x: rotated(np, x) * x + 1),
    "turned and cosines": (lambda x: x * jnp.cos(x) + rotated(jnp, x) * jnp.sin(x),
                           lambda x: x * np.cos(x) + rotated(np, x) * np.sin(x)),
    "derivative of turned": (calque.grad(lambda x: (rotated(jnp, x) * x * x).sum()), d_rotated),
    "of twos and fours": (
        calque.grad(lambda x: (x[:, ::2] ** 2).sum() + (x[:, 3::4] ** 3).sum()),
        lambda x: spread(x.shape[1], slice(0, None, 2), 2 * x[:, ::2]) + spread(
            x.shape[1], slice(3, None, 4), 3 * x[:, 3::4] ** 2)),
    "rows": (calque.grad(lambda x: (x[1::2] ** 2).sum() + (x[::2] * x[1::2]).sum()),
             lambda x: spread(x.shape[0], slice(1, None, 2), 2 * x[1::2].T + x[::2].T).T + spread(
                 x.shape[0], slice(0, None, 2), x[1::2].T).T),
    "both axes": (calque.grad(lambda x: (x[::2, 1::3] ** 2).sum()),
                  lambda x: np.where((np.arange(x.shape[0]) % 2 == 0)[:, None] & (
                      np.arange(x.shape[1]) % 3 == 1), 2 * x, 0)),
    "backwards": (calque.grad(lambda x: (x[:, ::-2] ** 2).sum()),
                  lambda x: spread(x.shape[1], slice(None, None, -2), 2 * x[:, ::-2])),
    "and what is given": (lambda x: (x[:, ::2] + 1, jnp.stack([x[:, ::2], x[:, 1::2]], -1)),
                          lambda x: (x[:, ::2] + 1, x.reshape(len(x), -1, 2))),
    "interleaved": (lambda x: jnp.stack([x, 2 * x], -1).reshape(len(x), -1) * 3,
                    lambda x: np.stack([x, 2 * x], -1).reshape(len(x), -1) * 3),
    "undone": (lambda x: jnp.stack([x[:, ::2], x[:, 1::2]], -1).reshape(x.shape),
               lambda x: x),
    "of chosen": (lambda x: rotated(jnp, jnp.where(x > 0, x, 0.5 * x)) > x,
                  lambda x: rotated(np, np.where(x > 0, x, 0.5 * x)) > x),
}


def check(name: str, x: Any, jit: Any = calque.jit) -> None:
    f, oracle = CASES[name]
    got, want = jit(f)(x), oracle(x.astype(float))
    for g, w in zip(calque.tree.leaves(got), calque.tree.leaves(want), strict=True):
        np.testing.assert_allclose(g, w, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("shape", [(120, 240), (8, 12), (1000, 48)])
def test_beside_numpy(name: str, shape: tuple[int, int]) -> None:
    check(name, RNG.standard_normal(shape).astype(np.float32))


@pytest.mark.parametrize("level", ["x86-64-v2", "x86-64-v3", "x86-64-v4"])
def test_at_every_level(level: str) -> None:
    with at_level(level):
        for name in ("products", "turned and cosines", "derivative of turned", "both axes"):
            check(name, RNG.standard_normal((120, 240)).astype(np.float32))


def test_in_loops_and_mapped() -> None:
    x = RNG.standard_normal((16, 40, 60)).astype(np.float32)

    def steps(x: Any) -> Any:
        return calque.lax.scan(lambda c, y: (rotated(jnp, c) * 0.5 + y, c[:, ::2].sum()), x[0], x)

    carry, sums = x[0].astype(float), []
    for y in x:
        sums.append(carry[:, ::2].sum())
        carry = rotated(np, carry) * 0.5 + y
    got, given = calque.jit(steps)(x)
    np.testing.assert_allclose(got, carry, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(given, sums, rtol=1e-4, atol=1e-3)
    mapped = calque.jit(calque.vmap(calque.grad(products)))(x)
    np.testing.assert_allclose(mapped, [d_products(y.astype(float)) for y in x], rtol=1e-5,
                               atol=1e-5)


@pytest.mark.parametrize("dtype", ["float64", "bfloat16", "float16", "int32", "complex64", "bool"])
def test_other_numbers(dtype: str) -> None:
    with calque.enable_x64(dtype == "float64"):
        x = (RNG.integers(0, 2, (90, 200)) if dtype == "bool" else
             RNG.integers(-8, 8, (90, 200))).astype(jnp.dtype(dtype))
        f = calque.jit(lambda x: jnp.stack([x[:, 1::2], x[:, ::2]], -1).reshape(x.shape))
        np.testing.assert_array_equal(f(x), x.reshape(90, 100, 2)[..., ::-1].reshape(90, 200))
        if dtype not in ("int32", "bool", "complex64"):
            got = calque.jit(calque.grad(lambda x: products(x).astype(dtype)))(x)
            np.testing.assert_array_equal(np.asarray(got).astype(float),
                                          d_products(x.astype(float)))


def test_beside_callbacks_and_sizes_known_at_the_call() -> None:
    x, told = RNG.standard_normal((100, 200)).astype(np.float32), []

    def f(x: Any) -> Any:
        calque.debug.callback(lambda s: told.append(float(s)), x[:, ::2].sum())
        return rotated(jnp, x)

    np.testing.assert_array_equal(calque.block_until_ready(calque.jit(f)(x)), rotated(np, x))
    calque.effects_barrier()
    np.testing.assert_allclose(told, [x[:, ::2].sum(dtype=float)], rtol=1e-5, atol=1e-3)
    spec = calque.ShapeDtypeStruct(calque.export.symbolic_shape("b, 200"), np.float32)
    for g, want in ((calque.grad(products), d_products(x.astype(float))),
                    (lambda x: rotated(jnp, x), rotated(np, x))):
        (got,) = aot.load(aot.compile(g, spec, name="made").vmfb).made(x)
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5)


def test_the_ways() -> None:
    x = np.ones((1000, 1000), np.float32)
    for f in (CASES["products"][0], CASES["derivative of turned"][0], CASES["turned"][0]):
        assert [r.family for r in calque.jit(f).lower(x).plan().regions] == ["points"]
