"""Work on rows of few numbers (passes/points), and products of vectors of a batch as sums
(passes/vectors), beside NumPy."""
from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from support.harness import at_level

import calque
import calque.numpy as jnp
from calque import export
from calque.core.program import Program, eliminate_dead_code
from calque.lowering.passes.groups import grouped
from calque.lowering.passes.legalize import legalize
from calque.lowering.passes.registers import Plan

RNG = np.random.default_rng(11)
LEVELS = ("x86-64-v2", "x86-64-v3", "x86-64-v4")


def numbers(*shape: int, dtype: Any = np.float32) -> Any:
    return RNG.integers(-20, 20, shape).astype(dtype)


def program(f: Callable[..., Any], *args: Any) -> Program:
    p: Program = calque.make_jaxpr(f)(*args).jaxpr
    return eliminate_dead_code(p)


def points_of(f: Callable[..., Any], *args: Any) -> int:
    """How many groups of rows there are."""
    return sum(isinstance(e.params.get("rows"), Plan)
               for e in grouped(legalize(program(f, *args))).equations)


def work(x: Any, y: Any, row: Any, xp: Any) -> list[Any]:
    """Much of what is done with points, by calque.numpy or NumPy."""
    turned = xp.stack([x[..., 1] * y[..., 2] - x[..., 2] * y[..., 1], x[..., 0] + y[..., 0]], -1)
    return [x + row, x * y[..., :1], x[..., ::-1], turned, xp.concatenate([x, turned], -1),
            (x * y).sum(-1), xp.max(x - y, -1), xp.argmin(y, -1), xp.argmax(x, -1),
            xp.where(x > row, x, y).min(-1, keepdims=True), (x > 0).any(-1)]


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("dtype", ["float32", "int32"])
def test_every_level(level: str, dtype: str) -> None:
    x, y, row = (numbers(*s, dtype=dtype) for s in ((5003, 3), (5003, 3), (3,)))
    with at_level(level):
        assert points_of(lambda *a: work(*a, jnp), x, y, row) == 1
        made = calque.jit(lambda *a: work(*a, jnp))(x, y, row)
    for got, want in zip(made, work(x, y, row, np), strict=True):
        np.testing.assert_array_equal(np.asarray(got), want)


@pytest.mark.parametrize("shape, dtype", [
    ((4096, 4), "float32"), ((70, 61, 5), "float64"), ((8, 40, 17, 3), "float32"),
    ((4097, 9), "int8"), ((6000, 15), "float32"), ((1, 4999, 7), "uint8")])
def test_shapes_and_dtypes(shape: tuple[int, ...], dtype: str) -> None:
    with calque.enable_x64(True):
        x, y, row = (numbers(*s, dtype=dtype) for s in (shape, shape, shape[-1:]))
        made = calque.jit(lambda *a: work(*a, jnp))(x, y, row)
        for got, want in zip(made, work(x, y, row, np), strict=True):
            np.testing.assert_array_equal(np.asarray(got), want)


def test_first_nan_is_the_extremum() -> None:
    x = numbers(5000, 5)
    x[3, 2] = x[3, 4] = x[7, 0] = np.nan
    got = calque.jit(lambda x: (jnp.argmax(x, -1), jnp.argmin(x, -1), jnp.max(x, -1)))(x)
    for made, want in zip(got, (np.argmax(x, -1), np.argmin(x, -1), np.max(x, -1))):
        np.testing.assert_array_equal(np.asarray(made), want)


def test_matrices_of_a_batch() -> None:
    """Transpositions, traces, determinants of 3 x 3."""
    a = numbers(4500, 3, 3)

    def f(a: Any) -> Any:
        return (a + jnp.swapaxes(a, 1, 2), jnp.trace(a, axis1=1, axis2=2), jnp.linalg.det(a))

    assert points_of(f, a) > 0
    both, trace, det = calque.jit(f)(a)
    np.testing.assert_array_equal(np.asarray(both), a + np.swapaxes(a, 1, 2))
    np.testing.assert_array_equal(np.asarray(trace), np.trace(a, axis1=1, axis2=2))
    # products of three numbers up to 20, six of them, in float32
    np.testing.assert_allclose(np.asarray(det), np.linalg.det(a.astype(float)), atol=0.02)


def test_what_only_repeats_is_left_to_its_readers() -> None:
    x = numbers(150, 3)
    f = lambda x: jnp.broadcast_to(x[:, None], (150, 150, 3))  # noqa: E731
    assert points_of(f, x) == 0
    np.testing.assert_array_equal(np.asarray(calque.jit(f)(x)), f(x))


def pairs(a: Any, b: Any, xp: Any) -> list[Any]:
    """What is computed of all pairs of rows, each of which has some of the axes."""
    low = xp.maximum(a[:, None, :2], b[None, :, :2])
    size = xp.clip(xp.minimum(a[:, None, 2:], b[:, 2:]) - low, 0, None)
    area = lambda v: (v[:, 2] - v[:, 0]) * (v[:, 3] - v[:, 1])  # noqa: E731
    union = area(a)[:, None] + area(b) - size[..., 0] * size[..., 1]
    return [union, a[:, None] - b, xp.prod(size, -1), (a[:, None] * b).max(-1),
            (a[:, None, 1:3] - a[:, 1:3])[..., ::-1], xp.argmin(a[:, None] + b, -1),
            xp.stack([a[:, None, 0] + b[:, 3], a[:, None, 1] * b[:, 2]], -1)]


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("n, m", [(37, 53), (200, 8), (3, 1000), (1, 300), (129, 130), (300, 7)])
def test_all_pairs(level: str, n: int, m: int) -> None:
    with at_level(level):
        for dtype in ("float32", "int32", "float64", "int8"):
            a, b = (RNG.integers(-4, 4, (k, 4)).astype(dtype) for k in (n, m))
            with calque.enable_x64(dtype == "float64"):
                if dtype == "float32" and min(n, m) >= 8:
                    assert points_of(lambda *v: pairs(*v, jnp), a, b) > 0
                made = calque.jit(lambda *v: pairs(*v, jnp))(a, b)
            for got, want in zip(made, pairs(a, b, np), strict=True):
                np.testing.assert_array_equal(np.asarray(got), want)


def test_pairs_of_pairs_under_vmap_in_loops_and_gradients() -> None:
    a, b = numbers(5, 40, 4), numbers(5, 30, 4)
    made = calque.jit(calque.vmap(lambda *v: pairs(*v, jnp)))(a, b)
    for i in range(5):
        for got, want in zip(made, pairs(a[i], b[i], np), strict=True):
            np.testing.assert_array_equal(np.asarray(got)[i], want)
    x, y = a[0] / 20, b[0] / 20

    def energy(x: Any, y: Any, xp: Any) -> Any:
        return (xp.abs(x[:, None] - y) * xp.maximum(x[:, None], y)).sum()

    got = calque.jit(calque.grad(lambda x: energy(x, y, jnp)))(x)
    want, eps = np.zeros(x.shape), 1e-6
    for i in np.ndindex(x.shape):
        d = np.zeros(x.shape)
        d[i] = eps
        want[i] = (energy(x + d, y.astype(float), np) - energy(x - d, y.astype(float), np)) / (
            2 * eps)
    kinks = (x[:, None] == y).any(1)  # where the derivative jumps
    np.testing.assert_allclose(np.where(kinks, 0, got), np.where(kinks, 0, want), atol=1e-3)

    def step(i: Any, x: Any) -> Any:
        return x + ((x[:, None] - x) / 8).max(1)

    want = x.astype(float)
    for _ in range(3):
        want = want + ((want[:, None] - want) / 8).max(1)
    np.testing.assert_allclose(calque.jit(lambda x: calque.lax.fori_loop(0, 3, step, x))(x), want,
                               rtol=1e-5)


def test_what_pairs_follow_from_is_read_elsewhere_too() -> None:
    """Parts of operands that are computed in the group again stay where others read them, and what
    follows from the group reaches no part of it."""
    a, b = numbers(40, 4), numbers(50, 4)

    def f(a: Any, b: Any, xp: Any) -> list[Any]:
        left, low = a[:, :2] + 1, b[:, 2:] * 2
        d = left[:, None] - low
        nearest = xp.abs(d).sum(-1).argmin(1)
        again = d + low[nearest][:, None]
        return [d, left, low.sum(0), nearest, again, (left * 3).T]

    made = calque.jit(lambda a, b: f(a, b, jnp))(a, b)
    for got, want in zip(made, f(a, b, np), strict=True):
        np.testing.assert_array_equal(np.asarray(got), want)


def matrices(x: Any, y: Any, xp: Any) -> list[Any]:
    outer = x[:, :, None] * y[:, None, :]
    return [outer, outer + x[:, :, None], xp.maximum(x[:, :, None], y[:, None, :]).sum(2),
            xp.swapaxes(outer, 1, 2) - y[:, :, None]]


def bools(x: Any, y: Any, xp: Any) -> list[Any]:
    return [x[:, :, None] & y[:, None, :], xp.logical_or(x[:, :, None], y[:, None, :])]


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("n, k, m", [(300, 5, 7), (129, 6, 6), (1000, 3, 3), (4099, 7, 7),
                                     (257, 9, 5), (128, 2, 7), (2000, 4, 4)])
def test_outer_products_of_a_batch(level: str, n: int, k: int, m: int) -> None:
    """Rows of up to 64 numbers, turned round in blocks."""
    with at_level(level):
        for dtype in ("float32", "int8", "float64", "int16", "bool"):
            x, y = (RNG.integers(0 if dtype == "bool" else -4, 2, s).astype(dtype)
                    for s in ((n, k), (n, m)))
            each = bools if dtype == "bool" else matrices
            with calque.enable_x64(dtype == "float64"):
                if dtype == "float32":
                    assert points_of(lambda x, y: x[:, :, None] * y[:, None, :], x, y) == 1
                made = calque.jit(functools.partial(each, xp=jnp))(x, y)
            want = each(x, y, np)
            for got, right in zip(made, want, strict=True):
                np.testing.assert_array_equal(np.asarray(got), right)


def picked(x: Any, i: Any, t: Any, xp: Any) -> list[Any]:
    p, q, r = x[t[:, 0]], x[t[:, 1]], x[t[:, 2]]
    return [x[i], x[t], q - p, xp.cross(q - p, r - p), (p + q + r) * 2, x[i][:, ::-1],
            ((p - q) ** 2).sum(-1), x[i] + x[t[:, 1]]]


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("dtype", ["float32", "int32", "int8", "float64"])
def test_picked_rows(level: str, dtype: str) -> None:
    """By positions of either sign, within what they pick of."""
    x = numbers(211, 3, dtype=dtype)
    i, t = RNG.integers(-211, 211, 3001), RNG.integers(-211, 211, (3001, 3))
    with at_level(level), calque.enable_x64(dtype == "float64"):
        if dtype == "float32":
            assert points_of(lambda *v: picked(*v, jnp), x, i, t) == 1
        made = calque.jit(lambda *v: picked(*v, jnp))(x, i, t)
    for got, want in zip(made, picked(x, i, t, np), strict=True):
        np.testing.assert_array_equal(np.asarray(got), want)


@pytest.mark.parametrize("level", LEVELS)
def test_positions_outside(level: str) -> None:
    """Clamped, filled, of every type of integer, of two entries, for each of a batch, and of few
    rows, which are numbers of the program."""
    x, i = numbers(50, 3), RNG.integers(-200, 200, 1000)
    inside = np.where(i < 0, i + 50, i)
    clipped = np.clip(inside, 0, 49)
    with at_level(level):
        for mode, want in (("clip", x[np.clip(i, 0, 49)]),
                           ("fill", np.where(((inside >= 0) & (inside < 50))[:, None],
                                             x[clipped], np.nan))):
            got = calque.jit(lambda x, i, mode=mode: jnp.take(x, i, axis=0, mode=mode))(x, i)
            np.testing.assert_array_equal(np.asarray(got), want)
        for kind in ("uint8", "int8", "uint32", "int16"):
            j = RNG.integers(0, 50, 700).astype(kind)
            np.testing.assert_array_equal(calque.jit(lambda x, i: x[i])(x, j), x[j])
        image, row, column = numbers(20, 30, 4), RNG.integers(0, 20, 999), RNG.integers(0, 30, 999)
        np.testing.assert_array_equal(
            calque.jit(lambda x, i, j: x[i, j] * 2)(image, row, column), image[row, column] * 2)
        many, of = numbers(6, 40, 3), RNG.integers(0, 40, (6, 200))
        np.testing.assert_array_equal(calque.jit(calque.vmap(lambda x, i: x[i] + 1))(many, of),
                                      np.stack([x[i] + 1 for x, i in zip(many, of)]))
        palette = numbers(5, 3)
        np.testing.assert_array_equal(
            calque.jit(lambda x, i: x[i])(palette, np.clip(i, 0, 4)), palette[np.clip(i, 0, 4)])


def test_rows_picked_of_what_is_computed() -> None:
    """Before the group, and of its own results."""
    x, i = numbers(400, 3), RNG.integers(0, 400, 400)

    def f(x: Any, i: Any) -> list[Any]:
        y = x * 2 + 1
        z = y[i] - x
        return [z, z[i] + z, (y + z)[i[::-1]]]

    for got, want in zip(calque.jit(f)(x, i), f(x, i), strict=True):
        np.testing.assert_array_equal(np.asarray(got), want)


def test_without_arguments_one_row_and_unknown_sizes() -> None:
    x, y = numbers(500, 3), numbers(500, 3)
    got = calque.jit(lambda: jnp.cross(jnp.asarray(x), jnp.asarray(y)))()
    np.testing.assert_array_equal(np.asarray(got), np.cross(x, y))
    f = lambda x, y: (jnp.cross(x, y), jnp.einsum("bi,bi->b", x, y))  # noqa: E731
    shape = calque.ShapeDtypeStruct((*export.symbolic_shape("b"), 3), np.float32)
    exported = export.export(calque.jit(f))(shape, shape)
    for n in (1, 2, 129, 500):
        for made in (calque.jit(f)(x[:n], y[:n]), exported.call(x[:n], y[:n])):
            np.testing.assert_array_equal(np.asarray(made[0]), np.cross(x[:n], y[:n]))
            np.testing.assert_array_equal(np.asarray(made[1]), (x[:n] * y[:n]).sum(1))


def test_what_is_updated_beside() -> None:
    """Rows are read as they were before an update in place, in donated arrays and in carries."""
    x, v = numbers(500, 3), numbers(500, 3)
    f = calque.jit(lambda x, v: (x.at[0].set(v[0]), x[:, ::-1] * 2 + v), donate_argnums=0)
    written, turned = f(jnp.asarray(x), v)
    np.testing.assert_array_equal(np.asarray(turned), x[:, ::-1] * 2 + v)
    np.testing.assert_array_equal(np.asarray(written), np.concatenate([v[:1], x[1:]]))

    def step(i: Any, carry: Any) -> Any:
        x, v, count = carry
        turned = x[:, ::-1] * 2
        return x.at[i].add(v[i]) - turned, v, count + 1

    got = calque.jit(lambda x, v: calque.lax.fori_loop(0, 3, step, (x, v, 0)))(x, v)
    want = x
    for i in range(3):
        turned = want[:, ::-1] * 2
        want = want.copy()
        want[i] += v[i]
        want = want - turned
    np.testing.assert_array_equal(np.asarray(got[0]), want)
    assert got[2] == 3


def test_in_a_loop_from_the_host() -> None:
    x, y = numbers(5000, 3), numbers(5000, 3)

    def f(x: Any, y: Any) -> Any:
        return calque.lax.fori_loop(0, 3, lambda i, x: jnp.cross(x, y) / 20, x)

    want = x.astype(float)
    for _ in range(3):
        want = np.cross(want, y) / 20
    np.testing.assert_allclose(np.asarray(calque.jit(f)(x, y)), want, rtol=1e-4, atol=1e-3)


# ---- products of vectors of a batch
PRODUCTS = [
    ("bi,bi->b", (700, 9), (700, 9)), ("ib,ib->b", (9, 700), (9, 700)),
    ("bi,ib->b", (700, 9), (9, 700)), ("bij,bj->bi", (300, 5, 7), (300, 7)),
    ("bj,bij->bi", (300, 7), (300, 5, 7)), ("bij,bi->bj", (300, 5, 7), (300, 5)),
    ("bcij,cbj->bci", (10, 20, 5, 7), (20, 10, 7)), ("ij,ji->", (70, 80), (80, 70)),
    ("bijk,bkj->bi", (100, 3, 6, 7), (100, 7, 6)), ("bxi,bi->bx", (700, 1, 9), (700, 9)),
    ("bij,bjk->bik", (2800, 3, 2), (2800, 2, 4)), ("bji,bjk->bik", (2800, 2, 4), (2800, 2, 3)),
    ("ibj,jkb->bik", (3, 2800, 2), (2, 4, 2800)),
    ("bijk,bljk->bil", (2800, 3, 2, 2), (2800, 4, 2, 2))]


@pytest.mark.parametrize("spec, x, y", PRODUCTS)
def test_products_as_sums(spec: str, x: tuple[int, ...], y: tuple[int, ...]) -> None:
    for dtype, out in (("float32", None), ("bfloat16", "float32"), ("int8", "int32"),
                       ("complex64", None), ("bool", None)):
        a, b = numbers(*x, dtype=bool if dtype == "bool" else np.int8), numbers(*y, dtype=np.int8)
        a, b = jnp.asarray(a).astype(dtype), jnp.asarray(b).astype(dtype)

        f = functools.partial(jnp.einsum, spec, preferred_element_type=out)
        names = [e.name for e in legalize(program(f, a, b)).equations]
        assert "dot_general" not in names
        whole = [np.asarray(v).astype(np.complex64 if dtype == "complex64" else np.int64)
                 for v in (a, b)]
        want = np.einsum(spec, *whole)  # (whole numbers below 2**24: exact in float32)
        got = np.asarray(calque.jit(f)(a, b))
        np.testing.assert_array_equal(got, want > 0 if dtype == "bool" else want)


@pytest.mark.parametrize("spec, x, y", [
    ("bij,bj->bi", (40, 64, 64), (40, 64)), ("i,i->", (9000,), (9000,)),
    ("ij,ij->", (70, 80), (70, 80)), ("bij,bjk->bik", (300, 6, 6), (300, 6, 6)),
    ("bi,bi->b", (20, 9), (20, 9)), ("bij,bjk->bik", (700, 3, 2), (700, 2, 4))])
def test_products_that_stay(spec: str, x: tuple[int, ...], y: tuple[int, ...]) -> None:
    """Matrices for the kernel in C, one product, small work."""
    p = legalize(program(lambda a, b: jnp.einsum(spec, a, b), numbers(*x), numbers(*y)))
    assert "dot_general" in [e.name for e in p.equations]


def test_rows_multiplied_in_a_loop() -> None:
    x, y = numbers(300, 16) / 40, numbers(300, 16) / 40

    def f(x: Any, y: Any) -> Any:
        return calque.lax.fori_loop(
            0, 4, lambda i, x: x + jnp.einsum("bi,bi->b", x, y)[:, None], x)

    want = x.astype(float)
    for _ in range(4):
        want = want + np.einsum("bi,bi->b", want, y)[:, None]
    np.testing.assert_allclose(np.asarray(calque.jit(f)(x, y)), want, rtol=1e-4, atol=1e-3)
