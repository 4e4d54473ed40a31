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
