"""Programs of complex arrays and transforms as kernels alone (primitives/pairs.program_over_pairs,
passes/whole.over_pairs): beside NumPy in complex128, at every level, and that IREE gets nothing."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from support.harness import at_level

import calque
import calque.numpy as jnp
from calque.lowering.kernels.forms import missing_objects
from calque.lowering.target.targets import parse_target

pytestmark = pytest.mark.skipif(bool(missing_objects(parse_target("cpu:x86-64-v3"))),
                                reason="no kernels in C here")
LEVELS = ["x86-64-v2", "x86-64-v3", "x86-64-v4"]


def values(*shape: int) -> Any:
    rng = np.random.default_rng(len(shape) + sum(shape))
    return (rng.standard_normal(shape) + 1j * rng.standard_normal(shape)).astype(np.complex64)


WEIGHTS = np.exp(-np.arange(256) / 50).astype(np.float32)
K = values(128, 128)


def spectrum(np: Any, x: Any) -> Any:
    return np.log(np.abs(np.fft.rfft(x * WEIGHTS)) ** 2 + 1)


def filtered(np: Any, x: Any) -> Any:
    return np.fft.ifft(np.fft.fft(x) * WEIGHTS).real


def correlated(np: Any, x: Any) -> Any:
    a = np.fft.rfft(x)
    return np.fft.irfft(a * np.conj(a))


def called_twice(np: Any, x: Any) -> Any:
    """Transforms within a function that is jitted itself."""
    def turned(x: Any) -> Any:
        return np.fft.fft(x * 2) * 1j
    g = calque.jit(turned) if np is jnp else turned
    return np.abs(g(x) + g(x + 1))


def arithmetic(np: Any, x: Any) -> Any:
    return x * K + 1j, x / K, np.abs(x), np.conj(x), np.where(x.real > 0, x, -x)


def given_back(np: Any, x: Any) -> Any:
    """A result that is the argument, one that is a view of it."""
    y = x * 2j
    return x, y, y[::-1].reshape(-1), np.conj(y).T


def functions(np: Any, x: Any) -> Any:
    return np.exp(1j * x.imag) * x, np.angle(x * K), np.sqrt(x)


def little(np: Any, x: Any) -> Any:
    """One kernel (passes/whole.in_memory_of_pairs); sizes of one among it."""
    return 1 / (x * x + 2), np.exp(x[:1]), x.sum(), (x.real > 0).sum()


PROGRAMS: dict[str, tuple[Callable[[Any, Any], Any], Any, bool]] = {  # closed?
    "spectrum": (spectrum, values(60, 256).real, True),
    "filtered": (filtered, values(60, 256), True),
    "correlated": (correlated, values(9, 512).real, True),
    "arithmetic": (arithmetic, values(128, 128), True),
    "given back": (given_back, values(90, 128), False),
    "functions": (functions, values(128, 128), True),
    "little": (little, values(7), True),
    "called twice": (called_twice, values(50, 128), True),
    "odd sizes": (lambda np, x: np.fft.fftn(x * 2, axes=(0, 1, 2)) / x, values(3, 7, 13), False),
    "a large prime": (lambda np, x: np.fft.fft(x + 1j), values(20, 251), True)}


def leaves(x: Any) -> list[Any]:
    return list(x) if isinstance(x, tuple) else [x]


@pytest.mark.parametrize("name, level", [(name, level) for name in PROGRAMS for level in LEVELS if (
    level == LEVELS[1] or name in ("spectrum", "filtered", "arithmetic", "little"))])
def test_programs(name: str, level: str) -> None:
    f, x, closed = PROGRAMS[name]
    with at_level(level):
        made = calque.jit(lambda x: f(jnp, x))
        plan = str(made.lower(x).plan())
        found = made(x)
    wide = np.complex128 if x.dtype.kind == "c" else np.float64
    for r, w in zip(leaves(found), leaves(f(np, x.astype(wide))), strict=True):
        r, w = np.asarray(r), np.asarray(w)
        assert r.shape == w.shape
        # of sums of some hundred rounded terms, and quotients by numbers down to 0.01
        np.testing.assert_allclose(r, w, rtol=2e-5, atol=2e-5 * max(1, np.abs(w).max(initial=0)))
    assert not closed or "IREE" not in plan, plan


@pytest.mark.parametrize("level", LEVELS)
def test_double_precision(level: str) -> None:
    x = values(30, 250).astype(np.complex128)
    with calque.enable_x64(True), at_level(level):
        found = calque.jit(lambda x: jnp.fft.ifft(jnp.fft.fft(x) * x.conj()))(x)
    # eps times the square root of the terms, twice
    np.testing.assert_allclose(found, np.fft.ifft(np.fft.fft(x) * x.conj()), atol=1e-12)


@pytest.mark.parametrize("shape", [(), (1,), (0,), (0, 3), (1, 1), (5, 1)])
def test_few_numbers(shape: tuple[int, ...]) -> None:
    x = values(*shape) if shape else np.complex64(0.3 - 0.4j)
    found = calque.jit(lambda x: (x * x, jnp.exp(x), x.real))(x)
    for r, w in zip(found, (x * x, np.exp(x), np.real(x))):
        np.testing.assert_allclose(r, w, rtol=1e-6)  # a few roundings of float32


def test_infinities_are_numpys() -> None:
    """A product is four real ones, as NumPy's: infinity times (1 + 0i) has NaN in it."""
    parts = np.array([0.0, -0.0, 1.0, -2.5, 3e30, np.inf, -np.inf, np.nan])
    one = np.empty((8, 8), np.complex64)
    one.real, one.imag = parts[:, None], parts
    x, y = np.tile(one, (8, 8)), np.repeat(np.repeat(one, 8, 0), 8, 1)
    found = np.asarray(calque.jit(lambda x, y: x * y)(x, y))
    with np.errstate(all="ignore"):
        wanted = x * y
    # (sums that cancel: with one rounding or with two)
    np.testing.assert_allclose(found.real, wanted.real, rtol=1e-6)
    np.testing.assert_allclose(found.imag, wanted.imag, rtol=1e-6)


def test_arguments_stay_as_they_are() -> None:
    """Memory of arguments is read through views only; a donated one may be written."""
    x = jnp.asarray(values(128, 128))
    before = np.asarray(x).copy()
    f = calque.jit(lambda x: (x * 2j, jnp.fft.fft(x) * K))
    for _ in range(3):
        f(x)
    np.testing.assert_array_equal(x, before)
    (given,) = [jnp.asarray(before)]
    made = calque.jit(lambda x: x * 2j + K, donate_argnums=0)(given)
    np.testing.assert_allclose(made, before * 2j + K, rtol=1e-6)


def test_large_tables_are_constants() -> None:
    """Tables beyond kernels/fft.BESIDE, which no kernel's code has beside it."""
    x = values(2, 2 ** 15)
    np.testing.assert_allclose(calque.jit(lambda x: jnp.fft.fft(x) * 2)(x), np.fft.fft(
        x.astype(np.complex128)) * 2, atol=2e-3)  # 2e-7 of some 600, times a log of the length


@pytest.mark.parametrize("shape", [(1,), (4,), (5, 7), (300, 257)])
def test_an_argument_is_as_it_was_where_a_part_of_it_is_replaced(shape: tuple[int, ...]) -> None:
    """The memory of arguments is viewed as pairs: what writes in place copies them, or they are
    donated; with NumPy's arrays, with Arrays, twice."""
    z = values(*shape)

    def f(z: Any) -> Any:
        return z.at[0].set(1j), z.at[-1].multiply(2), z, z.sum(), jnp.fft.fft(z).at[0].set(0)
    first, last, spectrum = z.copy(), z.copy(), np.fft.fft(z.astype(complex))
    first[0], spectrum[0] = 1j, 0
    last[-1] *= 2
    for donated in ((), (0,)):
        g = calque.jit(f, donate_argnums=donated)
        for kind in (np.asarray, jnp.asarray):
            given = kind(z)
            for _ in range(2):
                found = g(jnp.array(given) if donated else given)
                for got, wanted in zip(found, (first, last, z)):
                    np.testing.assert_array_equal(got, wanted)
                # (sums of up to 77,100 numbers, along lines of 257, in float32)
                np.testing.assert_allclose(found[3], z.sum(dtype=complex), rtol=1e-4, atol=1e-3)
                np.testing.assert_allclose(found[4], spectrum, rtol=1e-4, atol=1e-3)
            np.testing.assert_array_equal(given, values(*shape))


PRODUCTS = [  # a matrix in memory on either side, along its rows or across, of batches, and none
    ("ij,j->i", (120, 90), (90,)), ("i,ij->j", (120,), (120, 90)), ("ij,i->j", (120, 90), (120,)),
    ("j,ij->i", (90,), (120, 90)), ("ij,jk->ik", (120, 90), (90, 3)),
    ("kj,ij->ki", (3, 90), (120, 90)), ("ki,ij->kj", (3, 120), (120, 90)),
    ("ij,ki->jk", (120, 90), (3, 120)), ("bij,bj->bi", (4, 60, 40), (4, 40)),
    ("bij,bi->bj", (4, 60, 40), (4, 60)), ("bi,bij->bj", (4, 60), (4, 60, 40)),
    ("abc,cb->a", (20, 30, 15), (15, 30)), ("abc,b->ac", (20, 30, 15), (30,)),
    ("b,abc->ac", (30,), (20, 30, 15)), ("de,abcd->eabc", (4, 2), (9, 10, 20, 4)),
    ("ij,jk->ik", (64, 64), (64, 64))]


@pytest.mark.parametrize("level", LEVELS)
def test_matrices_that_are_read_as_they_lie(level: str) -> None:
    args = [(values(*a), values(*b)) for _, a, b in PRODUCTS]
    with at_level(level):
        plain = calque.jit(lambda xs: [jnp.einsum(s, *x) for (s, *_), x in zip(PRODUCTS, xs)])(args)
        used = calque.jit(lambda xs: [
            1j * jnp.einsum(s, *x) + 1 for (s, *_), x in zip(PRODUCTS, xs)])(args)
    for (s, *_), x, found, more in zip(PRODUCTS, args, plain, used, strict=True):
        want = np.einsum(s, *[v.astype(np.complex128) for v in x])
        # of sums of up to 450 products of normal numbers in float32
        np.testing.assert_allclose(found, want, rtol=2e-5, atol=2e-5 * np.abs(want).max())
        np.testing.assert_allclose(more, 1j * want + 1, rtol=2e-5, atol=2e-5 * np.abs(want).max())


def test_a_matrix_is_read_once() -> None:
    a, v = values(200, 200), values(200)
    for f in (lambda a, v: a @ v, lambda a, v: v @ a):
        plan = str(calque.jit(f).lower(a, v).plan())
        assert "IREE" not in plan and plan.count("product in C") == 1, plan


def test_parts_that_cancel_and_smallest_numbers() -> None:
    """z^2 where the parts are equal and their sum overflows, and e^z whose imaginary part is small
    and normal: eagerly, compiled and in kernels."""
    big = np.finfo(np.float32).max
    z = np.array([complex(big, big), complex(big, -big), complex(-big, big), complex(3e38, 3e38),
                  complex(1e-30, 1e-30), complex(-0.0, 0.0)], np.complex64)
    wide = np.float64([0.0] * 6), 2 * z.real.astype(np.float64) * z.imag
    tiny = np.finfo(np.float32).tiny
    w = np.array([complex(x, y) for x in (0.0, 0.3, 0.69, 0.7, 2.0, 3.5, -0.0)
                  for y in (tiny, -tiny, 2 * tiny)], np.complex64)
    for n in (1, 20000):  # (the second is a kernel's)
        for f in (jnp.square, calque.jit(jnp.square)):
            got = np.asarray(f(jnp.array(np.tile(z, n))))
            with np.errstate(all="ignore"):
                np.testing.assert_array_equal(got.real, np.tile(wide[0].astype(np.float32), n))
                np.testing.assert_array_equal(got.imag[:4], wide[1].astype(np.float32)[:4])
        for f, exact in ((jnp.exp, np.exp), (jnp.expm1, np.expm1)):
            want = np.tile(exact(w.astype(np.complex128)).imag, n)
            for g in (f, calque.jit(f)):
                np.testing.assert_allclose(np.asarray(g(jnp.array(np.tile(w, n)))).imag, want,
                                           rtol=3e-7)


def test_exponentials_overflow_where_they_do() -> None:
    """e^x sin y beside mpmath, with the smallest y and x to the largest number."""
    mpmath = pytest.importorskip("mpmath")
    x = np.float32([80, 88.7, 89, 100, 150, 174, 175, 176, 177, 200, 1e10, 3.4e38, -100, -1e10])
    y = np.float32([np.finfo(np.float32).tiny, 1e-37, 1e-30, 1e-10, 0.3, 3.1415927, 1e5])
    z = (x[:, None] + 1j * y).astype(np.complex64)
    for name, half in (("exp", 1), ("expm1", 1), ("sinh", 2)):
        got = np.asarray(calque.jit(getattr(jnp, name))(jnp.array(z))).imag
        for i, j in np.ndindex(z.shape):
            size = mpmath.exp(mpmath.mpf(float(max(min(x[i], 1e4), -1e4)) if half == 1 else
                                         float(min(abs(x[i]), 1e4)))) / half
            want = size * mpmath.sin(mpmath.mpf(float(y[j])))
            if abs(want) > mpmath.mpf(2) ** 128:
                assert np.isinf(got[i, j]) and np.sign(got[i, j]) == mpmath.sign(want)
            elif abs(want) < mpmath.mpf(2) ** -126:  # denormal: 0 or near it
                assert abs(got[i, j]) < 1.2e-38
            else:
                assert abs(got[i, j] - want) < 4e-7 * abs(want)
