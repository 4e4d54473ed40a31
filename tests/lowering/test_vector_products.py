"""Matrices times vectors, or one row or column of a matrix, through jit: every spelling, dtype and
level, by the kernel that reads the matrix once as it lies (gemv.inc.h).  Oracle: NumPy in f64."""
from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from support.harness import at_level

import calque
import calque.numpy as jnp
from calque import aot, config, lax
from calque.lowering.kernels import gemm
from calque.lowering.target.targets import host_target, parse_target

HERE = [level for level in gemm.LEVELS if host_target().arch == "x86_64" and set(
    parse_target(f"cpu:{level}").features) <= set(host_target().features)]
pytestmark = pytest.mark.skipif(
    not all(gemm.takes(parse_target(f"cpu:{level}"), "float32") for level in HERE) or not HERE,
    reason="no C kernel of this machine's levels")

RNG = np.random.default_rng(2)
N, K = 150, 77
A, B = RNG.standard_normal((N, K)), RNG.standard_normal((5, N, K))
V, U, W = RNG.standard_normal(K), RNG.standard_normal(N), RNG.standard_normal((5, K))
# (module, matrices, vectors) -> a product, each way of writing one
SPELLINGS: dict[str, Callable[..., Any]] = {
    "A @ v": lambda np, a, b, v, u, w: a @ v, "u @ A": lambda np, a, b, v, u, w: u @ a,
    "row @ A": lambda np, a, b, v, u, w: u[None] @ a,
    "row @ A.T": lambda np, a, b, v, u, w: v[None] @ a.T,
    "A @ column": lambda np, a, b, v, u, w: a @ v[:, None],
    "A.T @ u": lambda np, a, b, v, u, w: a.T @ u,
    "part @ v": lambda np, a, b, v, u, w: a[10:140, 5:] @ v[5:],
    "every second": lambda np, a, b, v, u, w: a[:, ::2] @ v[::2],
    "tensordot": lambda np, a, b, v, u, w: np.tensordot(v, a, (0, 1)),
    "batch": lambda np, a, b, v, u, w: np.einsum("bnk,bk->bn", b, w),
    "batch, one vector": lambda np, a, b, v, u, w: b @ v,
    "two batches the other way round": lambda np, a, b, v, u, w: np.einsum(
        "pbnk,ekbp->pbne", np.stack([b, 2 * b]), np.stack([w.T, 2 * w.T], -1)[None]),
    "batch of columns": lambda np, a, b, v, u, w: b @ w[:, :, None],
    "batch inside": lambda np, a, b, v, u, w: np.einsum("bnk,kb->nb", b, w.T),
    "two axes": lambda np, a, b, v, u, w: np.einsum("bnk,bk->n", b, w)}


@pytest.fixture(params=HERE)
def level(request: pytest.FixtureRequest) -> Iterator[str]:
    with config.context("calque_cpu", request.param):
        yield request.param


def close(got: Any, want: Any, dtype: Any, terms: int) -> None:
    """Within what sums of so many products of normal numbers lose."""
    wide = {"float64": 2.0**-52, "complex128": 2.0**-52}.get(str(dtype), 2.0**-23)
    kept = {"bfloat16": 2.0**-8, "float16": 2.0**-11}.get(str(dtype), wide)
    size = np.abs(want).max()
    np.testing.assert_allclose(np.asarray(got).astype(want.dtype), want, rtol=2 * kept,
                               atol=8 * wide * terms**0.5 * size)


@pytest.mark.parametrize("dtype", ["float32", "float64", ml_dtypes.bfloat16, "float16",
                                   "complex64"], ids=str)
def test_every_spelling(dtype: Any, level: str) -> None:
    with calque.enable_x64(True):
        args = [x.astype(dtype) for x in (A, B, V, U, W)]
        wide = "c16" if np.dtype(dtype).kind == "c" else "f8"
        run = calque.jit(lambda *xs: [f(jnp, *xs) for f in SPELLINGS.values()])
        for (name, f), got in zip(SPELLINGS.items(), run(*args), strict=True):
            assert got.dtype == np.dtype(dtype), name
            close(got, f(np, *[x.astype(wide) for x in args]), np.dtype(dtype), 5 * N)


def test_which_way_it_goes() -> None:
    """The kernel takes vectors, rows and columns; what is small stays IREE's."""
    def text(f: Any, *xs: Any) -> str:
        return str(calque.jit(f).lower(*xs).as_text())

    a = np.ones((100, 100), np.float32)
    for f in (lambda a: a @ a[0], lambda a: a[:1] @ a, lambda a: a[:1] @ a.T,
              lambda a: a @ a[:, :1]):
        assert "calque_gemv_f32" in text(f, a)
    assert "calque_gemv" not in text(lambda a: a @ a[0], a[:20, :20])
    assert "calque_gemv" not in text(lambda a: a @ a, a)


@pytest.mark.parametrize("dtype", [ml_dtypes.bfloat16, "float16", "int8"], ids=str)
def test_narrow_matrices_are_widened_as_they_are_read(dtype: Any, level: str) -> None:
    """Weights of few bytes times vectors of float32: no copy of them in float32, of sizes that
    vectors divide or not; float32's own products of the widened numbers are the oracle's, exactly
    representable."""
    suffix = {"float16": "f16", "int8": "i8"}.get(str(dtype), "bf16")
    for n, k in ((256, 128), (301, 203)):
        w = RNG.integers(-100, 100, (n, k)).astype(dtype)
        x, y = RNG.standard_normal((1, k)).astype("f4"), RNG.standard_normal(n).astype("f4")

        def f(x: Any, y: Any, w: Any) -> Any:
            wide = w.astype(jnp.float32)
            return (lax.dot_general(x, wide, (((1,), (1,)), ((), ()))), y @ wide, x @ wide.T,
                    jnp.einsum("bk,bnk->bn", jnp.stack([x[0], 2 * x[0]]),
                               jnp.stack([w, w]).astype(jnp.float32)))

        text = str(calque.jit(lambda *a: f(*a)[:3]).lower(x, y, w).as_text())
        assert f"calque_gemv_{suffix}" in text and "calque_gemv_f32" not in text
        assert "stablehlo.convert" not in text
        wide = w.astype("f8")
        for got, want in zip(calque.jit(f)(x, y, w), (
                x @ wide.T, y @ wide, x @ wide.T, np.stack([x[0], 2 * x[0]]) @ wide.T),
                strict=True):
            close(got, want, np.dtype("float32"), n)
        np.testing.assert_allclose(  # what is differentiated through it
            calque.jit(calque.grad(lambda x, y, w: f(x, y, w)[0].sum()))(x, y, w),
            wide.sum(0)[None], rtol=1e-5,
            atol=1e-3)


def test_narrow_matrices_elsewhere() -> None:
    """As constants, as results too, in loops, and memory that is given away before or after."""
    w = RNG.standard_normal((300, 203)).astype(ml_dtypes.bfloat16)
    x, m = RNG.standard_normal((1, 203)).astype("f4"), RNG.standard_normal((20, 203)).astype("f4")
    full, row = w.astype("f8"), np.zeros((1, 203), ml_dtypes.bfloat16)
    zeroed = w.copy()
    zeroed[3] = 0

    def by(w: Any) -> Any:
        return x @ w.astype(jnp.float32).T

    def before(w: Any) -> Any:
        w = lax.dynamic_update_slice(w, jnp.asarray(row), (3, 0))
        return w, by(w)

    def after(w: Any) -> Any:
        return lax.dynamic_update_slice(w, jnp.asarray(row), (3, 0)), by(w)

    for f, args, wants in (
            (lambda: [by(jnp.asarray(w))], (), [x @ full.T]),
            (lambda w: (by(w), w.astype(jnp.float32), m @ w.astype(jnp.float32).T), (w,),
             [x @ full.T, full, m @ full.T]),
            (lambda w: [lax.fori_loop(0, 5, lambda i, c: c + by(w), jnp.zeros((1, 300)))], (w,),
             [5 * (x @ full.T)]),
            (before, (jnp.asarray(w),), [zeroed.astype("f8"), x @ zeroed.astype("f8").T]),
            (after, (jnp.asarray(w),), [zeroed.astype("f8"), x @ full.T])):
        donated = (0,) if f in (before, after) else ()
        for got, want in zip(calque.jit(f, donate_argnums=donated)(*args), wants, strict=True):
            np.testing.assert_allclose(np.asarray(got).astype("f8"), want, rtol=2e-5, atol=2e-4)
    exported = aot.load(aot.compile(lambda x: x @ jnp.asarray(w).T.astype(jnp.float32),
                                    "f32[1,203]", name="f"))
    np.testing.assert_allclose(exported.f(x)[0].numpy(), x @ full.T, rtol=2e-5, atol=2e-4)
    of_any = aot.load(aot.compile(lambda x, w: x @ w.T.astype(jnp.float32), "f32[b,203]",
                                  "bf16[300,203]", name="f"))
    for given in (x, m):
        np.testing.assert_allclose(of_any.f(given, w)[0].numpy(), given @ full.T, rtol=2e-5,
                                   atol=2e-4)


def test_derivatives_loops_and_batches(level: str) -> None:
    """A power iteration's value and slope, by hand; a vmap over vectors multiplies matrices."""
    a, v = (A[:, :N // 2].T @ A[:, :N // 2] / N).astype(np.float32), V[:N // 2].astype(np.float32)

    def last(a: Any, v: Any) -> Any:
        return lax.fori_loop(0, 5, lambda i, x: jnp.tanh(a @ x), v).sum()

    def by_hand(a: Any, v: Any) -> tuple[Any, Any]:
        xs = [v]
        for _ in range(5):
            xs.append(np.tanh(a @ xs[-1]))
        slope, back = np.zeros_like(a), np.ones_like(v)
        for x, y in zip(xs[-2::-1], xs[:0:-1]):
            back = back * (1 - y * y)
            slope += np.outer(back, x)
            back = a.T @ back
        return xs[-1].sum(), slope

    value, slope = calque.jit(calque.value_and_grad(last))(a, v)
    want, want_slope = by_hand(a.astype("f8"), v.astype("f8"))
    np.testing.assert_allclose(value, want, rtol=1e-5)
    np.testing.assert_allclose(slope, want_slope, rtol=1e-4, atol=1e-5 * np.abs(want_slope).max())
    vs = RNG.standard_normal((3, N // 2)).astype(np.float32)
    got = calque.jit(calque.vmap(lambda x: a @ x))(vs)
    np.testing.assert_allclose(got, vs @ a.T, rtol=1e-4, atol=1e-5)


def test_what_is_converted_of_a_transposition(x64: None, level: str) -> None:
    """Converted as it lies, and read transposed."""
    rng = np.random.default_rng(5)
    x, w = rng.standard_normal((1, 96)), rng.standard_normal((300, 96))
    k, u = rng.integers(-99, 99, (70, 96)), rng.integers(-99, 99, (300, 96))
    f = calque.jit(lambda x, w, h, k, u: (
        x @ w.T, x @ h.T.astype("float32"), k @ u.T, (w.T.astype("float64") @ w, w.T.sum())))
    args = (x, w.astype("float32"), w.astype("float16"), k.astype("int16"), u.astype("int8"))
    one, half, whole, (square, total) = f(*args)
    x, w, h, k, u = (a.astype("f8") for a in args)
    for got, want in ((one, x @ w.T), (half, x @ h.T), (square, w.T @ w)):
        np.testing.assert_allclose(got, want, rtol=1e-12, atol=1e-12)  # in float64
    np.testing.assert_array_equal(whole, (k @ u.T).astype("i8").astype("int16"))
    np.testing.assert_allclose(total, w.sum(), rtol=1e-4)  # of 28,800 in float32
    assert "IREE" not in str(calque.jit(lambda x, w: x @ w.T).lower(*args[:2]).plan())


@pytest.mark.parametrize("level", [None, "x86-64-v2", "x86-64-v3"])
def test_integers_of_few_bits_times_a_vector(level: str | None) -> None:
    with at_level(level) if level else contextlib.nullcontext():
        for dtype in ("int8", "uint8", "int16", "uint16"):
            info = np.iinfo(dtype)
            x = RNG.integers(info.min, info.max + 1, (150, 133)).astype(dtype)
            v, u = x[3].copy(), x[:, 5].copy()
            wide = x.astype(np.int64)
            got = calque.jit(lambda x, v, u: (x @ v, u @ x, v @ x.T, jnp.dot(
                x, v, preferred_element_type="int32"), x.T @ u))(x, v, u)
            of_rows, of_columns = wide @ v, u.astype(np.int64) @ wide
            for g, w in zip(got, (of_rows, of_columns, of_rows, of_rows.astype(np.int32),
                                  of_columns), strict=True):
                np.testing.assert_array_equal(g, w.astype(g.dtype))  # (what is above wraps round)
