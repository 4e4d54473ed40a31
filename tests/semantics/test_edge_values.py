"""Values at the edges of functions' domains, outside of jit, under it, in a loop and under vmap,
at each level of the CPU; beside SciPy, NumPy or written out.  Where JAX 0.10.2 gives another value
(it hangs for binomial and gcd) the line says so.
"""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy import special as scipy_special
from support.harness import at_level

import calque
import calque.numpy as jnp
from calque import lax, random
from calque.scipy import special as sp
from calque.scipy import stats

INF, NAN = np.inf, np.nan
LEVELS = ("x86-64-v2", "x86-64-v3", "x86-64-v4")
SHAPES = np.array([INF, INF, INF, 0, 1, NAN, INF], np.float32)  # of the gamma distribution
POINTS = np.array([0.5, 3, INF, 0.5, INF, 1, 0], np.float32)
P = np.array([NAN, INF, INF, 1, 1, INF, -INF, 0, 0, 2], np.float32)
Q = np.array([1, -1, 0, -INF, NAN, NAN, -INF, 0, 2, 1], np.float32)
BIG = np.float32(np.finfo(np.float32).max)
SMALL = np.array([-128, -128, -128, -128, -127, 6, 0], np.int8)
OTHER = np.array([-127, 5, 0, 6, -128, -128, 0], np.int8)

# function, operands, what is expected
TABLE: dict[str, tuple[Callable[..., Any], tuple[Any, ...], Any]] = {
    # (of two infinities 1, as JAX; SciPy NaN)
    "gammainc": (sp.gammainc, (SHAPES, POINTS), [0, 0, 1, 1, 1, NAN, 0]),  # JAX: NaN beyond x = 1
    "gammaincc": (sp.gammaincc, (SHAPES, POINTS), [1, 1, 0, 0, 0, NAN, 1]),
    "expi": (sp.expi, (np.array([BIG, INF, -INF, 0], np.float32),), [INF, INF, -0.0, -INF]),
    "rel_entr": (sp.rel_entr, (P, Q), scipy_special.rel_entr(P, Q)),  # JAX: inf of NaN
    "kl_div": (sp.kl_div, (P, Q), scipy_special.kl_div(P, Q)),  # JAX: NaN of (inf, -1)
    "ldexp": (jnp.ldexp, (np.ones(4, np.float32),
                          np.array([0, 3, 2 ** 31, 2 ** 32 - 1], np.uint32)), [1, 8, INF, INF]),
    "gcd": (jnp.gcd, (SMALL, OTHER), np.gcd(SMALL, OTHER)),
    "lcm": (jnp.lcm, (SMALL[4:], OTHER[4:]), np.lcm(SMALL[4:], OTHER[4:]))}


def ways(f: Callable[..., Any], operands: tuple[Any, ...], level: str) -> dict[str, Any]:
    compiled = {
        "jit": calque.jit(f)(*operands),
        "loop": calque.jit(lambda *xs: lax.scan(lambda c, x: (c, f(*x)), 0, xs)[1])(*operands)}
    if level != LEVELS[0]:  # what depends on the CPU
        return compiled
    return {"outside": f(*map(jnp.asarray, operands)), **compiled,
            "vmap": calque.jit(calque.vmap(f))(*operands)}


@pytest.mark.parametrize("level", LEVELS)
def test_values(level: str) -> None:
    with at_level(level):
        def all_of(*operands: Any) -> list[Any]:
            starts = np.cumsum([0, *(len(row[1]) for row in TABLE.values())])
            return [row[0](*operands[i:i + len(row[1])]) for i, row in zip(starts, TABLE.values())]

        flat = tuple(np.resize(x, 10) for _, xs, _ in TABLE.values() for x in xs)
        for way, results in ways(all_of, flat, level).items():
            for (name, (_, _, want)), got in zip(TABLE.items(), results):
                want = np.resize(np.asarray(want, got.dtype), 10)
                # 4 ulp: what these logarithms and sums are off by elsewhere
                np.testing.assert_allclose(got, want, 4 * 2.0 ** -23, err_msg=f"{name}, {way}")


def test_conditions() -> None:
    """NumPy's values (JAX: NaN of the zero matrix); the derivative is that of the first and the
    last singular value, also where all are equal."""
    zero, both = np.zeros((2, 2), np.float32), np.eye(2, dtype=np.float32)
    for p in (None, 2, -2):
        for f in (jnp.linalg.cond, calque.jit(jnp.linalg.cond, static_argnums=1)):
            assert [float(f(x, p)) for x in (zero, both)] == [INF, 1]
    slope = np.abs(np.asarray(calque.grad(jnp.linalg.cond)(both)))
    np.testing.assert_allclose(slope.sum(), 2, 1e-6)  # 1 in one place, -1 in another
    with pytest.raises(ValueError, match="must not be empty"):
        jnp.linalg.cond(np.zeros((0, 3), np.float32))


def test_draws_that_end() -> None:
    """binomial of -0.0, and of infinitely many trials: both loops ended for neither."""
    n = np.array([10, 10, INF, INF, INF, 0, NAN, 10], np.float32)
    p = np.array([-0.0, 1, 0, 1, 0.5, 0.5, 0.5, 2], np.float32)
    got = random.binomial(random.key(3), n, p)
    np.testing.assert_array_equal(got, [0, 10, INF, INF, INF, 0, NAN, NAN])


def test_the_limit_of_generalized_normals() -> None:
    """Of an infinite exponent they are uniform on (-1, 1) (JAX: -1 and 1)."""
    p = np.array([[1e30], [1e38], [INF]], np.float32)
    x = np.asarray(random.generalized_normal(random.key(0), p, (3, 4000)))
    # of 4000 draws the mean of x^2, 1/3, has the deviation sqrt(4 / 45 / 4000) = 0.0047
    assert np.abs(x).max() <= 1
    np.testing.assert_allclose((x * x).mean(1), 1 / 3, atol=0.024, rtol=0)


def test_what_bfloat16_is_widened_to() -> None:
    """A conversion to bfloat16 rounds although one back follows (IREE made nothing of the pair)."""
    x = np.array([255.5, -0.999, 465, 65504, 0.1, 1 / 3, NAN, INF, 3e38], np.float32)

    def both(v: Any) -> tuple[Any, ...]:
        low = v.astype(jnp.bfloat16)
        rest = v - low.astype(np.float32)  # (all of it was lost)
        return low.astype(np.float32), low.astype(np.int32), low.astype(np.float16), rest

    low = x.astype(jnp.bfloat16)
    with np.errstate(all="ignore"):
        wide = low.astype(np.float32)
        want = (wide, [256, -1, 464, 65536, 0, 0, 0, 2 ** 31 - 1, 2 ** 31 - 1],
                wide.astype(np.float16), x - wide)
    for level in LEVELS:
        with at_level(level):
            for way, results in ways(both, (x,), level).items():
                for got, expected in zip(results, want, strict=True):
                    np.testing.assert_array_equal(got, expected, err_msg=f"{level}, {way}")


def test_fill_values_of_complex_gathers() -> None:
    """Each part of a complex number has its own part of the fill value (under jit both had the
    real one)."""
    x, at = np.array([1, 2j, 3], np.complex64), np.array([0, 9, 2])
    for fill in (None, 5, 2j, 1 - 3j):
        def taken(x: Any, fill: Any = fill) -> Any:
            return x.at[at].get(mode="fill", fill_value=fill)

        want = np.array([1, NAN if fill is None else fill, 3], np.complex64)
        rows = jnp.stack([x, x])
        for got in (taken(jnp.asarray(x)), calque.jit(taken)(x),
                    calque.jit(lambda xs: lax.map(taken, xs))(rows)[1],
                    calque.jit(calque.vmap(taken))(rows)[0]):
            np.testing.assert_array_equal(got, want)


NAN_SLOPES: dict[str, tuple[Callable[..., Any], tuple[float, ...]]] = {
    "betaln": (sp.betaln, (NAN, 2)), "beta of a pole": (sp.beta, (NAN, 0)),
    "loggamma": (sp.loggamma, (NAN,)), "loggamma of -1.5": (sp.loggamma, (-1.5,)),
    "gammainc": (calque.grad(lambda x: sp.gammainc(np.float32(2), x)), (NAN,)),
    "betainc": (calque.grad(lambda x: sp.betainc(np.float32(2), np.float32(3), x)), (NAN,)),
    "cumlogsumexp": (lambda x: lax.cumlogsumexp(jnp.stack([x, x * NAN]))[1], (1,))}


def test_slopes_where_the_value_is_not_a_number() -> None:
    """They are NaN, by jvp and by vjp, outside of jit and under it (they were 0)."""
    for name, (f, at) in NAN_SLOPES.items():
        xs = tuple(map(np.float32, at))
        every = tuple(range(len(xs)))
        found = [calque.grad(f, every)(*xs), calque.jit(calque.grad(f, every))(*xs),
                 calque.jvp(f, xs, tuple(np.float32(1) for _ in xs))]
        assert np.isnan([float(v) for row in found for v in row]).all(), name


def test_slopes_at_the_edges() -> None:
    """Fresnel's integrals of large numbers, all of them even; NaN of an array of nothing else."""
    x = np.array([3e38, -3e38, 1e15, 1.8e19, 4], np.float32)
    s, c = (calque.vmap(calque.grad(lambda x, i=i: sp.fresnel(x)[i]))(x) for i in (0, 1))
    np.testing.assert_array_equal([s, c], [[0] * 5, [1] * 5])
    for f in (jnp.nanmedian, lambda x: jnp.nanquantile(x, np.float32(0.5))):
        np.testing.assert_array_equal(calque.grad(f)(np.array([NAN, NAN], np.float32)), [0, 0])


def test_windows_with_steps_that_are_longer() -> None:
    """What lies behind the last window is read by none: IREE rejected their derivatives."""
    x = np.array([[3, 1, 0, 2, 2], [0, 2, 5, 1, 4], [9, 9, 9, 9, 9], [9, 9, 9, 9, 9]], np.float32)
    for op, start, want, place in ((lax.max, -INF, [[3, 4]], [[1, 0, 0, 0, 0], [0, 0, 0, 0, 1]]),
                                   (lax.min, INF, [[0, 1]], [[0, 0, 0, 0, 0], [1, 0, 0, 1, 0]])):
        def pool(x: Any, op: Any = op, start: Any = np.float32(start)) -> Any:
            return lax.reduce_window(x, start, op, (2, 2), (3, 3), "VALID")

        for run in (lambda f: f, calque.jit):
            np.testing.assert_array_equal(run(pool)(x), want)
            value, slope = run(lambda x: calque.jvp(pool, (x,), (x,)))(x)
            np.testing.assert_array_equal([value, slope], [want, want])
            slope = run(calque.grad(lambda x: pool(x).sum()))(x)
            np.testing.assert_array_equal(slope, np.r_[place, np.zeros((2, 5))])


# distribution, function, x, shape parameter, what is expected (SciPy's, or the limit)
DISTRIBUTIONS: tuple[tuple[str, str, list[float], list[float] | None, list[float]], ...] = (
    ("cauchy", "logpdf", [INF, -INF], None, [-INF, -INF]),  # (here NaN)
    ("cauchy", "pdf", [INF, -INF], None, [0, 0]),
    ("cauchy", "ppf", [0, -0.0, 0.25, 0.75, 1, 1.5], None, [-INF, -INF, -1, 1, INF, NAN]),
    ("cauchy", "isf", [0, -0.0, 0.25, 0.75, 1, -1], None, [INF, INF, 1, -1, -INF, NAN]),
    ("gumbel_l", "logpdf", [INF, -INF, 100], None, [-INF, -INF, -INF]),  # (inf; JAX: NaN)
    ("gumbel_r", "logpdf", [-INF, INF, -100], None, [-INF, -INF, -INF]),
    ("poisson", "logpmf", [INF, INF], [0.5, 2], [-INF, -INF]),
    ("poisson", "entropy", [NAN, 0], None, [NAN, 0]),  # (2.91, the entropy of 80)
    ("gamma", "logpdf", [0.5, INF], [INF, 2], [-INF, -INF]),
    ("gamma", "logcdf", [0.5, INF], [INF, 2], [-INF, 0]),
    ("chi2", "logpdf", [0.5, INF], [INF, 2], [-INF, -INF]),
    ("t", "logpdf", [0, INF], [INF, INF], [-0.5 * np.log(2 * np.pi), -INF]),  # (NaN, as JAX)
    ("vonmises", "pdf", [0, -3], [0, 0], [0.5 / np.pi, 0.5 / np.pi]))  # (NaN, as JAX)


def test_distributions_at_the_edges() -> None:
    def all_of(given: list[tuple[Any, ...]]) -> list[Any]:
        return [getattr(getattr(stats, row[0]), row[1])(*xs)
                for row, xs in zip(DISTRIBUTIONS, given)]

    given = [tuple(np.array(v, np.float32) for v in row[2:4] if v is not None)
             for row in DISTRIBUTIONS]
    for results in (all_of(given), calque.jit(all_of)(given)):
        for row, got in zip(DISTRIBUTIONS, results, strict=True):
            np.testing.assert_allclose(got, row[4], 4 * 2.0 ** -23, err_msg=" ".join(row[:2]))


def test_complex_numbers_with_one_part_infinite() -> None:
    """Real powers of infinity, as C99's exp(w log z) gives them; roundings go by parts."""
    z = jnp.asarray(np.array([INF, complex(INF, -0.0), 4], np.complex64))
    r = np.array([complex(NAN, 0.25), complex(INF, 1.26), 2.25 - 0.37j], np.complex64)
    want = np.array([complex(NAN, 0.2), complex(INF, 1.3), 2.2 - 0.4j], np.complex64)
    for run in (lambda f: f, calque.jit):
        np.testing.assert_allclose(run(lambda z: z ** 2.5)(z), [INF, INF, 32], 1e-6)
        np.testing.assert_array_equal(run(lambda r: jnp.round(r, 1))(r), want)


def test_products_of_other_types_than_their_results() -> None:
    """A row of bools times a matrix of them, as floats (the compiler rejected it), and floats
    whose sums are asked for as integers: rounded after they are added."""
    row, x = np.array([True, False, True]), np.array([[1, 0], [1, 1], [1, 0]], bool)

    def product(p: Any, q: Any, kind: Any) -> Any:
        return lax.dot_general(p, q, (((0,), (0,)), ((), ())), preferred_element_type=kind)

    halves = np.array([0.5, 0.75, 100], np.float32)
    for run in (lambda f: f, calque.jit):
        for kind in (np.float32, jnp.bfloat16, np.int32):
            got = run(lambda p, q, kind=kind: product(p, q, kind))(row, x)
            assert got.dtype == kind
            np.testing.assert_array_equal(got.astype(np.float32), [2, 0])
        got = run(lambda p, q: product(p, q, np.int8))(halves, halves)
        np.testing.assert_array_equal(got, np.int8(127))  # of 10000.8
        got = run(lambda p, q: product(p, q, np.int32))(halves, halves)
        np.testing.assert_array_equal(got, np.int32(10000))


def test_unwrap_of_small_integers() -> None:
    """Differences do not wrap around (NumPy's do); the result is a float, also of nothing."""
    for x in ([127, -128, 3], []):
        got = jnp.unwrap(np.array(x, np.int8))
        assert got.dtype == np.float32
        np.testing.assert_allclose(got, np.unwrap(np.array(x, np.float64)), 1e-6)


def test_wofz_far_below_the_real_line() -> None:
    z = np.array([1e30 - 1j, -1e30 - 3j, 50 - 2j], np.complex64)
    want = scipy_special.wofz(z.astype(np.complex128))
    for run in (lambda f: f, calque.jit):
        np.testing.assert_allclose(run(sp.wofz)(z), want, 4 * 2.0 ** -23)
