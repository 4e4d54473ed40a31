"""Parts of what was joined, repeated or counted, read from where they came; programs that are made
of such alone.  NumPy is the oracle.
"""
from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from support.harness import check_loop

import calque
import calque.numpy as jnp
from calque import lax
from calque.lowering.passes.parts import direct

RNG = np.random.default_rng(6)


def normal(*shape: int) -> Any:
    return RNG.standard_normal(shape).astype(np.float32)


def grids(x: Any) -> Any:
    i, j = jnp.mgrid[0:x.shape[0], 0:x.shape[1]]
    return jnp.sin(i * j * 0.01) + x, i[:, :2] + j[:2, 3:5].sum(), j[::2, 1::3], i


def packed(x: Any, y: Any) -> Any:
    """Packed and unpacked; a slice of two parts, of the second alone, in steps."""
    s = jnp.concatenate([x, y, x * 2])
    n = x.shape[0]
    a, b = jnp.stack([x[:5], y[:5]])
    return s[:n], s[n + 1:n + 4], s[n - 2:n + 2], s[n:n + 6:2], s[-3:], a - b


def repeated(x: Any) -> Any:
    wide = jnp.broadcast_to(x[:, None, :], (x.shape[0], 6, x.shape[1]))
    return (wide[1:3, 2:, ::2], wide[2], jnp.zeros_like(x)[1:, 1:] + x[1:, :-1],
            jnp.broadcast_to(x[:, :1], x.shape)[1:, 2:4], jnp.full((4, 5), x[0, 0])[1, 2:])


def counted(x: Any) -> Any:
    n = jnp.arange(40)
    whole = lax.broadcasted_iota(jnp.uint8, (3, 300), 1)  # (that wrap)
    return n[3:9] * 2, n[5:30:4], n[::-1][2:4], whole[1:, 250:], n[:4] + x[:4], jnp.arange(
        9.0)[2::3]


CASES: dict[str, tuple[Any, list[Any]]] = {
    "grids": (grids, [normal(7, 9)]), "grids, large": (grids, [normal(40, 1000)]),
    "packed": (packed, [normal(8), normal(9)]),
    "repeated": (repeated, [normal(5, 7)]), "counted": (counted, [normal(6)]),
    "under vmap": (calque.vmap(packed), [normal(4, 8), normal(4, 9)]),
    "in a loop": (lambda x: lax.fori_loop(0, 9, lambda i, x: x + 0.1 * grids(x)[0], x),
                  [normal(20, 30)]),
    "gradient": (calque.grad(lambda x: sum((y ** 2).sum() for y in repeated(x))), [normal(5, 7)]),
}


@pytest.mark.parametrize("level", ["host", *[
    pytest.param(level, marks=pytest.mark.slow)
    for level in ("x86-64-v2", "x86-64-v3", "x86-64-v4")]])
def test_parts_are_read_where_they_came_from(level: str) -> None:
    with calque.config.context("calque_cpu", level):
        for name, (f, args) in CASES.items():
            check_loop(f, args, name)


@pytest.mark.parametrize("f, gone", [
    (lambda x: jnp.stack([x, x + 1])[1] * 2, "concatenate"),
    (lambda x: x * jnp.mgrid[0:3, 0:4][0][:, :2].sum(), "concatenate"),
    (lambda x: jnp.zeros((9, 4))[1:3, 1:] + x[:2, 1:], "slice"),
    (lambda x: jnp.arange(9)[2:4] * 2, "slice")])
def test_nothing_is_put_together_for_them(f: Any, gone: str) -> None:
    p = calque.make_jaxpr(f)(normal(3, 4)).jaxpr
    from calque.lowering.passes.flat import flat
    names = [e.name for e in direct(flat(p)).equations]
    assert gone in [e.name for e in flat(p).equations]
    assert names.count(gone) == (1 if gone == "slice" and "x" in f.__code__.co_varnames
                                 and "zeros" in f.__code__.co_names else 0)


def thin(a: Any, x: Any) -> Any:
    """One matrix of a few numbers times a long one, from either side."""
    return a @ x, x.T @ a, jnp.einsum("ij,kj->ki", a, x.T)


@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64", "complex128"])
def test_small_matrices_times_long_ones(dtype: str, x64: None) -> None:
    for n, k in ((2, 8192), (3, 5000), (4, 4099)):
        a, x = [(normal(*s) + (1j * normal(*s) if dtype[0] == "c" else 0)).astype(dtype)
                for s in ((n, n), (n, k))]
        for got, want in zip(calque.jit(thin)(a, x), (a @ x, x.T @ a, (a @ x).T)):
            assert got.dtype == want.dtype and got.shape == want.shape
            # sums of up to four products in another order
            close = 1e-5 if dtype in ("float32", "complex64") else 1e-13
            np.testing.assert_allclose(got, want, rtol=close, atol=close)


def test_programs_of_complex_arguments_and_counts_are_kernels_alone() -> None:
    """What counts alone follow from has no operand among the program's real arrays."""
    def f(x: Any) -> Any:
        i, j = jnp.mgrid[0:4, 0:4]
        return jnp.exp(-2j * jnp.pi * i * j / 4) @ jnp.reshape(x, (4, -1))

    x = (normal(4 * 9000) + 1j * normal(4 * 9000)).astype(np.complex64)
    text = calque.jit(f).lower(x).compile().as_text()
    assert "flow.dispatch" in text and "stablehlo.iota" not in text
    i, j = np.mgrid[0:4, 0:4]
    want = np.exp(-2j * np.pi * i * j / 4) @ x.reshape(4, -1)
    # sums of four products in single precision, of angles up to 15
    np.testing.assert_allclose(calque.jit(f)(x), want, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16", "float16", "int8", "uint64",
                                   "bool", "complex64"])
def test_what_is_written_into_zeros(dtype: str, x64: None) -> None:
    """At known places, within and (clamped) beyond; what is written is read, too."""
    def f(x: Any) -> Any:
        fresh = jnp.zeros((7, 40), x.dtype)
        inner = fresh.at[1:4, 2:-8].set(x)
        ends = lax.dynamic_update_slice(jnp.full((7, 40), 1, x.dtype), x, (9, -3))
        return inner, ends, inner[2], fresh.at[:, 3].set(x[0, :7]), fresh.at[5].set(
            inner[3]).at[0].set(inner[1]), lax.dynamic_slice(x, (1, 50), (2, 5))

    x = np.asarray(jnp.asarray(RNG.integers(0, 2, (3, 30)), dtype))
    want = [np.zeros((7, 40), x.dtype) for _ in range(4)]
    want[0][1:4, 2:-8] = x
    want[1][:] = 1
    want[1][4:, 10:] = x  # (-3 counts from the end: 37, clamped to 10)
    want[2][:, 3] = x[0, :7]
    want[3][5], want[3][0] = want[0][3], want[0][1]
    wants = [want[0], want[1], want[0][2], want[2], want[3], x[1:, 25:]]
    for got, expected in zip(calque.jit(f)(x), wants, strict=True):
        np.testing.assert_array_equal(np.asarray(got), expected)


def test_scans_of_one_step_and_short_scans_that_stay_loops() -> None:
    def one(x: Any, y: Any) -> Any:
        c, ys = lax.scan(lambda c, t: (c * t, (c + t, x)), x, y[None])
        return c, ys, lax.fori_loop(3, 4, lambda k, z: z.at[:, k].set(z[:, k - 1] * k), x)

    def chain(a: Any, b: Any) -> Any:
        e = jnp.ones((a.shape[1], a.shape[1]), a.dtype)
        return lax.scan(lambda e, ab: (jnp.einsum("xy,xsa,ysb->ab", e, *ab), e.sum()), e, (a, b))

    def rows(x: Any, i: Any) -> Any:
        return lax.fori_loop(0, 12, lambda _, r: 0.5 * r.at[i].add(r[::-1]), x)

    check_loop(one, [normal(5, 6), normal(5, 6)], "one step")
    check_loop(chain, [normal(20, 16, 2, 16) / 8, normal(20, 16, 2, 16) / 8], "products", 10)
    check_loop(rows, [normal(4000), RNG.integers(0, 4000, 4000)], "scatters", 10)
    check_loop(calque.vmap(lambda x, y: lax.scan(lambda c, t: (0.5 * c + t, c * t), x, y)),
               [normal(3000), normal(3000, 20)], "in registers")


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float8_e4m3fn", "int8", "float32"])
@pytest.mark.parametrize("part", [slice(300, None), slice(3, None, 7), slice(2049, 2060)])
def test_counts_that_a_dtype_rounds(dtype: str, part: slice) -> None:
    """Positions beyond the whole numbers of a dtype: a part of them is not a count from its first
    number on."""
    kind = jnp.dtype(dtype)
    found = calque.jit(lambda: calque.lax.iota(kind, 5000)[part])()
    want = np.arange(5000)[part].astype(np.int8 if dtype == "int8" else np.float32).astype(kind)
    np.testing.assert_array_equal(np.asarray(found).astype(float), want.astype(float))


def test_parts_of_joins_of_parts() -> None:
    """A slice of a join whose parts are slices that were replaced themselves: what these read is
    what is read (an undefined value, once)."""
    def f(x: Any) -> Any:
        i, j = jnp.mgrid[:6, :5]
        both = jnp.stack([i[1:], j[1:]])
        again = jnp.concatenate([both[0][None, :, :3], both[1][None, :, 2:]])
        return x + again[0], x * again[1], again[1][2:, 1:]

    x = np.arange(15, dtype=np.float32).reshape(5, 3)
    i, j = np.mgrid[:6, :5]
    again = np.stack([i[1:, :3], j[1:, 2:]])
    for a, b in zip(calque.jit(f)(x), (x + again[0], x * again[1], again[1][2:, 1:])):
        np.testing.assert_array_equal(a, b)
