"""truncated_normal between bounds in one tail against mpmath's quantiles of the same uniform
numbers; elsewhere the draws stay those of the formula by erf, bit for bit."""
from __future__ import annotations

from typing import Any

import mpmath
import numpy as np
import pytest

import calque
import calque.numpy as jnp
from calque import lax, random

KEY = random.key(3)
BOUNDS = [(5.5, 6), (8, 1e6), (-1e6, -8), (30, 31), (-31, -30), (9, np.inf), (-np.inf, -9),
          (12, 12.25), (1e4, 1e4 + 0.5), (8, 8.001)]


def quantile(v: float, a: float, b: float) -> float:
    """The number below which the part v of the mass between a and b > a > 0 lies."""
    with mpmath.workdps(60):
        a, b = mpmath.mpf(a), mpmath.mpf(b)
        top, low = (mpmath.erfc(x / mpmath.sqrt(2)) if x < mpmath.inf else mpmath.mpf(0)
                    for x in (a, b))
        want = mpmath.log(top - mpmath.mpf(v) * (top - low))
        start = a + min((-mpmath.log(1 - v * (1 - low / top))) / a, b - a)
        return float(mpmath.findroot(
            lambda x: mpmath.log(mpmath.erfc(x / mpmath.sqrt(2))) - want, start))


@pytest.mark.parametrize("dtype, bounds", [
    ("float32", BOUNDS[:-2]),  # (float32 has next to no numbers between the last two)
    pytest.param("float64", BOUNDS[1:], marks=pytest.mark.slow),
    pytest.param("float16", [(5.5, 6), (-6, -3)], marks=pytest.mark.slow),
    pytest.param("bfloat16", [(5.5, 6), (2, 9)], marks=pytest.mark.slow)])
def test_quantiles_of_tails(dtype: str, bounds: list[tuple[float, float]]) -> None:
    eps = float(jnp.finfo(dtype).eps)
    with calque.enable_x64(dtype == "float64"):
        lower, upper = (jnp.asarray(c, dtype)[:, None] for c in zip(*bounds))
        v, got = calque.jit(lambda low, high: (
            random.uniform(KEY, (len(bounds), 8), dtype),
            random.truncated_normal(KEY, low, high, (len(bounds), 8), dtype)))(lower, upper)
    v, got = (np.asarray(x).astype(float) for x in (v, got))
    for row, parts, (a, b) in zip(got, v, bounds):
        sign, (near, away) = (1, (a, b)) if a > 0 else (-1, (-b, -a))
        want = sign * np.array([quantile(p, near, away) for p in parts])
        assert (row > a).all() and (row < b).all()
        assert (np.abs(row - want) <= 2 * eps * near).all(), (a, b)


@pytest.mark.parametrize("dtype", ["float32", *[
    pytest.param(d, marks=pytest.mark.slow) for d in ("float16", "bfloat16", "float64")]])
def test_other_draws_are_those_of_the_formula(dtype: str) -> None:
    far = {"float16": 2.5, "bfloat16": 1.75, "float32": 4.75, "float64": 7.75}[dtype]
    bounds = [(-1, 2), (far, far + 1), (-np.inf, -far), (-30, 30), (-np.inf, np.inf), (0, 1e4),
              (-50, 0.5)]

    def formula(low: Any, high: Any) -> Any:
        root = jnp.asarray(np.sqrt(2), dtype)
        u = random.uniform(KEY, (50,), dtype, lax.erf(low / root), lax.erf(high / root))
        inf = jnp.asarray(np.inf, dtype)
        return jnp.clip(root * lax.erf_inv(u), jnp.nextafter(low, inf), jnp.nextafter(high, -inf))

    with calque.enable_x64(dtype == "float64"):
        for low, high in bounds:
            low, high = jnp.asarray(low, dtype), jnp.asarray(high, dtype)
            got, want = calque.jit(lambda low, high: (
                random.truncated_normal(KEY, low, high, (50,), dtype), formula(low, high)))(
                    low, high)
            np.testing.assert_array_equal(np.asarray(got), np.asarray(want))


def test_numbers_as_bounds_that_are_near_cost_no_tail() -> None:
    def draw(low: float) -> Any:
        return random.truncated_normal(KEY, low, 9.0)

    text = [str(t) for t in (
        calque.make_jaxpr(lambda: draw(-2.0))(), calque.make_jaxpr(lambda: draw(6.0))(),
        calque.make_jaxpr(draw)(6.0))]
    assert [t.count("expm1") > 0 for t in text] == [False, True, True]


def test_derivatives_by_far_bounds() -> None:
    with calque.enable_x64(True):
        part = float(random.uniform(KEY))
        both = calque.jit(lambda low, high: calque.vmap(calque.value_and_grad(
            lambda *bounds: random.truncated_normal(KEY, *bounds), (0, 1)))(low, high))
        bounds = np.array([(9.0, 10.0), (-12.0, -11.5), (9.0, np.inf)])
        drawn, slopes = both(*bounds.T)
        for (a, b), x, *got in zip(bounds, np.asarray(drawn), *map(np.asarray, slopes)):
            first, last = (1 - part, part) if a > 0 else (part, 1 - part)
            want = [first * np.exp((x * x - a * a) / 2), last * np.exp((x * x - b * b) / 2)]
            np.testing.assert_allclose(got, want, rtol=1e-9, atol=1e-12)
