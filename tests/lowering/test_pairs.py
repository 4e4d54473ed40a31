"""Loops over complex numbers as kernels on their parts (primitives/pairs): as outside of a loop,
and as NumPy's loops in complex128."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import calque
import calque.numpy as jnp
from calque import export, lax
from calque.primitives import pairs

RNG = np.random.default_rng(7)
PARTS = np.array([0.0, -0.0, 1.0, -1.0, 0.5, -2.5, 1e-30, 3e30, -1e38, np.inf, -np.inf, np.nan])
SPECIAL = np.empty((len(PARTS), len(PARTS)), np.complex64)
SPECIAL.real, SPECIAL.imag = PARTS[:, None], PARTS


def values(*shape: int) -> Any:
    return (RNG.normal(size=shape) + 1j * RNG.normal(size=shape)).astype(np.complex64)


def from_host(f: Callable[..., Any], *args: Any) -> bool:
    return "from the host" in str(calque.jit(f).lower(*args).plan())


UNARY: dict[str, Callable[[Any], Any]] = {
    **{name: getattr(jnp, name) for name in (
        "exp", "expm1", "log", "log1p", "sqrt", "sin", "cos", "tan", "sinh", "cosh", "tanh",
        "arcsin", "arccos", "arctan", "arcsinh", "arccosh", "arctanh", "sign", "conj", "square",
        "negative")},
    "rsqrt": lax.rsqrt, "logistic": calque.nn.sigmoid, "cube": lambda z: z ** 3,
    "reciprocal": lambda z: 1 / z, "inverse square": lambda z: z ** -2,
    "power": lambda z: z ** (0.5 - 1j), "parts": lambda z: lax.complex(z.imag, z.real),
    "size": lambda z: jnp.abs(z) + 0j, "finite": lambda z: jnp.isfinite(z) + 0j,
    "equal": lambda z: (z == z.T) * (1 + 2j)}


@pytest.mark.parametrize("n", [1, 2, 7, 8])
def test_products_of_all_elements(n: int) -> None:
    """Durand and Kerner's step for all roots of a polynomial, and products along either axis."""
    z, c = values(n), np.r_[1, values(n)]

    def step(np: Any, z: Any) -> Any:
        apart = z[:, None] - z + np.eye(n)
        return z - np.polyval(c, z) / np.prod(apart, 1), np.prod(apart, 0), np.prod(apart)

    def f(z: Any) -> Any:
        return lax.fori_loop(0, 3, lambda i, s: step(jnp, s[0]), step(jnp, z))

    assert not from_host(f, z)
    want = step(np, z.astype(np.complex128))
    for _ in range(3):
        want = step(np, want[0])
    for got, exact in zip(calque.jit(f)(z), want, strict=True):
        # quotients of products of up to 64 differences, four steps on
        np.testing.assert_allclose(got, exact, rtol=2e-3, atol=2e-3 * np.abs(exact).max())


def in_a_loop(f: Callable[[Any], Any], x: Any) -> Any:
    """f(x), found in a loop's last step."""
    def step(i: Any, s: Any) -> Any:
        return f(s[1]).astype(s[0].dtype), jnp.where(i < 5, s[1], s[0])

    return lax.fori_loop(0, 2, step, (jnp.zeros_like(x), x))[0]


@pytest.mark.parametrize("names", [[*UNARY][::2], [*UNARY][1::2]])
def test_functions_are_those_outside_of_loops(names: list[str]) -> None:
    z = values(12, 12)
    run = calque.jit(lambda *xs: [[in_a_loop(UNARY[n], x) for n in names] for x in xs])
    assert not from_host(lambda x: in_a_loop(UNARY[names[0]], x), z)
    plain = calque.jit(lambda *xs: [[UNARY[n](x) for n in names] for x in xs])
    for made, expected in zip(run(z, SPECIAL), plain(z, SPECIAL), strict=True):
        for name, a, b in zip(names, made, expected, strict=True):
            a, b = np.asarray(a), np.asarray(b).astype(np.complex64)
            for p, q in ((a.real, b.real), (a.imag, b.imag)):
                # the same body; products and sums may be one operation with one rounding
                np.testing.assert_allclose(p, q, rtol=2e-6, atol=1e-37, err_msg=name)


def logistic_map(np: Any, z: Any, c: Any) -> Any:
    return z * z * (0.3 + 0.1j) + c / (2.0 + z)


@pytest.mark.parametrize("dtype", [np.complex64, np.complex128])
@pytest.mark.parametrize("shape", [(), (5,), (7, 33), (300, 40)])
def test_elements(shape: tuple[int, ...], dtype: Any) -> None:
    with calque.enable_x64(True):
        c = (values(*shape) * 0.3).astype(dtype)

        def f(c: Any) -> Any:
            return lax.fori_loop(0, 20, lambda i, z: logistic_map(jnp, z, c), c)

        assert not from_host(f, c)
        made = np.asarray(calque.jit(f)(c))
    assert made.dtype == dtype
    want = c.astype(np.complex128)
    for _ in range(20):
        want = logistic_map(np, want, c.astype(np.complex128))
    np.testing.assert_allclose(made, want, rtol=1e-4 if dtype == np.complex64 else 1e-12)


def test_a_state_equation() -> None:
    h = values(8, 8)
    h, psi = (h + h.conj().T) / 2, np.eye(8, dtype=np.complex64)[0]

    def run(np: Any, h: Any, psi: Any, scan: Any) -> Any:
        def step(p: Any, _: Any) -> Any:
            k = -1j * (h @ (p - 0.005j * (h @ p)))
            p = p + 0.01 * k
            return p, (np.abs(p) ** 2, p)
        return scan(step, psi, None, length=50)

    def numpy_scan(step: Any, p: Any, _: Any, length: int) -> Any:
        rows = []
        for _ in range(length):
            p, row = step(p, None)
            rows.append(row)
        return p, [np.stack(r) for r in zip(*rows)]

    f = lambda h, psi: run(jnp, h, psi, lax.scan)  # noqa: E731
    assert not from_host(f, h, psi)
    for a, b in zip(calque.tree.leaves(calque.jit(f)(h, psi)), calque.tree.leaves(
            run(np, h.astype(complex), psi.astype(complex), numpy_scan)), strict=True):
        np.testing.assert_allclose(a, b, rtol=2e-4, atol=1e-5)


def test_branches_loops_within_and_moves() -> None:
    x = values(9, 6)

    def f(np_: Any, x: Any, fori: Any, cond: Any, put: Any) -> Any:
        def step(i: Any, z: Any) -> Any:
            row = z[i % 9] * (1 - 0.5j)
            z = put(z, (i + 1) % 9, np_.conj(row) + z.sum(0) * 0.01)
            z = fori(0, 3, lambda j, w: w * (0.9 + 0.1j) + np_.roll(w, 1, 0) * 0.05, z)
            return cond(np_.abs(z[0, 0]) > 0.3, lambda z: z * 1j, lambda z: z.real + 0j * z.imag, z)
        return fori(0, 8, step, x)

    def numpy_fori(a: int, b: int, step: Any, x: Any) -> Any:
        for i in range(a, b):
            x = step(i, x)
        return x

    def numpy_put(z: Any, i: int, row: Any) -> Any:
        z = z.copy()
        z[i] = row
        return z

    run = lambda x: f(jnp, x, lax.fori_loop, lax.cond,  # noqa: E731
                      lambda z, i, row: z.at[i].set(row))
    assert not from_host(run, x)
    np.testing.assert_allclose(calque.jit(run)(x), f(
        np, x.astype(complex), numpy_fori, lambda p, t, e, z: t(z) if p else e(z), numpy_put),
        rtol=1e-4, atol=1e-5)


def test_draws_and_complex_numbers_in_one_loop() -> None:
    def f(key: Any, z: Any) -> Any:
        def step(s: Any, _: Any) -> Any:
            key, z = s
            key, k = calque.random.split(key)
            z = z * jnp.exp(1j * calque.random.uniform(k, z.shape))
            return (key, z), z[0]
        return lax.scan(step, (key, z), None, length=10)

    key, z = calque.random.key(3), values(4)
    assert not from_host(f, key, z)
    (_, made), _ = calque.jit(f)(key, z)
    want = z.astype(complex)
    for _ in range(10):
        key, k = calque.random.split(key)
        want = want * np.exp(1j * np.asarray(calque.random.uniform(k, z.shape), float))
    np.testing.assert_allclose(made, want, rtol=1e-5)


def test_derivatives_and_batches() -> None:
    lam, u = (0.9 * np.exp(1j * np.linspace(0, 2, 5))).astype(np.complex64), RNG.normal(
        size=(20, 5)).astype(np.float32)

    def loss(lam: Any, u: Any) -> Any:
        def step(h: Any, v: Any) -> Any:
            h = lam * h + v
            return h, (h * (1 + 1j)).real
        return (lax.scan(step, jnp.zeros(5, lam.dtype), u)[1] ** 2).sum()

    g = calque.grad(loss)
    assert not from_host(g, lam, u)
    made = np.asarray(calque.jit(g)(lam, u))

    def plain(lam: Any) -> Any:
        h, total = np.zeros(5, complex), 0.0
        for v in u.astype(float):
            h = lam * h + v
            total += (((h * (1 + 1j)).real) ** 2).sum()
        return total

    for k in range(5):  # df/dre - i df/dim
        d = np.eye(5)[k] * 1e-6
        z = lam.astype(complex)
        want = (plain(z + d) - plain(z - d)) / 2e-6 - 1j * (
            plain(z + 1j * d) - plain(z - 1j * d)) / 2e-6
        np.testing.assert_allclose(made[k], want, rtol=1e-3, atol=1e-3)
    many = np.stack([u, u * 2, -u])
    batch = calque.jit(calque.vmap(loss, (None, 0)))(lam, many)
    np.testing.assert_allclose(batch, [plain(lam.astype(complex)) * s for s in (1, 4, 1)],
                               rtol=1e-4)


def test_what_has_no_parts_steps_from_the_host() -> None:
    x = values(5000)  # (of more than 4,096 a transform is dispatches)

    def f(x: Any) -> Any:
        return lax.fori_loop(0, 3, lambda i, z: jnp.fft.fft(z) * 0.01, x)

    want = x.astype(complex)
    for _ in range(3):
        want = np.fft.fft(want) * 0.01
    np.testing.assert_allclose(calque.jit(f)(x), want, rtol=1e-4, atol=1e-4)
    (e,) = [e for e in calque.make_jaxpr(f)(x).jaxpr.equations if e.name == "scan"]
    assert pairs.loop_in_pairs(e) is None


def test_parts_that_are_numbers_take_the_shape() -> None:
    """complex(x, 1) of an array and a number, moved about in a loop."""
    x = np.arange(24, dtype=np.float32).reshape(2, 3, 4)

    def step(c: Any, row: Any) -> Any:
        z, w = lax.complex(row, jnp.float32(1)), lax.complex(jnp.float32(2), row)
        return c + z.sum(), (z.reshape(-1), w.T, z[::-1] * w, jnp.concatenate([z, w]))

    total, (flat, turned, mixed, joined) = calque.jit(
        lambda x: lax.scan(step, jnp.complex64(0), x))(x)
    z, w = x + 1j, 2 + 1j * x
    np.testing.assert_array_equal(total, z.sum())
    np.testing.assert_array_equal(flat, z.reshape(2, -1))
    np.testing.assert_array_equal(turned, w.transpose(0, 2, 1))
    np.testing.assert_array_equal(mixed, z[:, ::-1] * w)
    np.testing.assert_array_equal(joined, np.concatenate([z, w], 1))


def test_edges() -> None:
    """Nothing is an argument, donated, several results, empty, one element, unknown sizes."""
    def f(z: Any) -> Any:
        return lax.fori_loop(0, 5, lambda i, w: w * (0.5 + 0.5j) + 1, z)

    z = values(6)
    want = z.astype(complex)
    for _ in range(5):
        want = want * (0.5 + 0.5j) + 1
    close = {"rtol": 1e-5, "atol": 1e-6}
    np.testing.assert_allclose(calque.jit(lambda: f(jnp.asarray(z)))(), want, **close)
    given = jnp.asarray(z) + 0
    np.testing.assert_allclose(calque.jit(f, donate_argnums=0)(given), want, **close)
    assert given.is_deleted()
    twice = calque.jit(lambda z: (f(z), f(z), z))(z)
    for made, expected in zip(twice, (want, want, z), strict=True):
        np.testing.assert_allclose(made, expected, **close)
    assert calque.jit(f)(z[:0]).shape == (0,)
    np.testing.assert_allclose(calque.jit(f)(z[:1]), want[:1], **close)
    (size,) = export.symbolic_shape("b")
    e = export.export(calque.jit(f))(calque.ShapeDtypeStruct((size,), "complex64"))
    for n in (6, 1):
        np.testing.assert_allclose(e.call(z[:n]), want[:n], **close)
