"""Products with vectors whose matrices have short rows, or few long ones, and of two long vectors
(passes/vectors): beside NumPy in double precision."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from support.harness import at_level

import calque
import calque.numpy as jnp
from calque.lowering.passes import vectors

RNG = np.random.default_rng(5)
FORMS: dict[str, Callable[[Any, Any, Any, Any], Any]] = {
    "rows": lambda np, x, w, v: x @ w,
    "columns": lambda np, x, w, v: x.T @ v,
    "from the left": lambda np, x, w, v: v @ x,
    "turned": lambda np, x, w, v: w @ x.T,
    "one column": lambda np, x, w, v: x @ w[:, None],
    "one row": lambda np, x, w, v: v[None] @ x,
    "einsum": lambda np, x, w, v: np.einsum("ij,j->i", x, w),
    "einsum of columns": lambda np, x, w, v: np.einsum("ij,i->j", x, v),
    "affine": lambda np, x, w, v: np.maximum(x @ w + 1 - v, 0)}


def value(*shape: int, dtype: Any = np.float32) -> Any:
    return RNG.standard_normal(shape).astype(dtype)


def check(f: Callable[..., Any], *args: Any, tolerance: float) -> None:
    got, want = calque.jit(lambda *a: f(jnp, *a))(*args), f(np, *[a.astype(float) for a in args])
    assert got.dtype == args[0].dtype and got.shape == want.shape
    # sums of as many numbers as there are rows, in another order: relative to their root
    np.testing.assert_allclose(got, want, rtol=tolerance,
                               atol=tolerance * max(1.0, float(np.abs(want).max())))


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(("rows", "short"), [
    (5000, 10), (700, 30), (3000, 2), (129, 64), (9000, 7)])
def test_short_rows(form: str, rows: int, short: int) -> None:
    check(FORMS[form], value(rows, short), value(short), value(rows), tolerance=2e-5)


def test_short_rows_of_doubles() -> None:
    with calque.enable_x64(True):
        for form in FORMS.values():
            check(form, *[value(*s, dtype=np.float64) for s in ((2000, 11), (11,), (2000,))],
                  tolerance=1e-12)


@pytest.mark.parametrize("level", ["x86-64-v2", "x86-64-v3", "x86-64-v4"])
def test_at_every_level(level: str) -> None:
    with at_level(level):
        for form in ("rows", "columns", "affine"):
            check(FORMS[form], value(3000, 10), value(10), value(3000), tolerance=2e-5)


def test_two_long_vectors() -> None:
    n = vectors.LONGEST + 4097
    x, y = value(n), value(n)
    check(lambda np, x, y: np.dot(x, y), x, y, tolerance=1e-4)  # (a million terms that cancel)
    m = x[:1025 * 1025].reshape(1025, 1025)
    check(lambda np, m: np.vdot(m, m), m, tolerance=1e-5)
    check(lambda np, m: np.einsum("ij,ij->", m, m), m, tolerance=1e-5)
    check(lambda np, m: np.einsum("ij,ji->", m, m), m, tolerance=1e-4)
    g = calque.jit(calque.grad(lambda x, y: jnp.dot(x, y)))(x, y)
    np.testing.assert_array_equal(g, y)


def test_few_long_rows() -> None:
    n = vectors.LONGEST // 3 + 5
    y, v = value(3, n), value(n)
    check(lambda np, y, v: y @ v, y, v, tolerance=1e-4)
    check(lambda np, y, v: v @ y.T, y, v, tolerance=1e-4)


def test_derivatives_of_a_linear_model() -> None:
    x, w, t = value(4000, 10), value(10), value(4000)
    loss = lambda w: ((x @ w - t) ** 2).mean()  # noqa: E731
    got = calque.jit(calque.grad(loss))(w)
    x, w, t = (a.astype(float) for a in (x, w, t))
    np.testing.assert_allclose(got, 2 * x.T @ (x @ w - t) / 4000, rtol=1e-4, atol=1e-5)


def test_numbers_that_are_none() -> None:
    """NaN and infinities stay in their rows; a zero times one of them is NaN."""
    x, w = value(2000, 10), value(10)
    x[3, 4], x[7, 0], w[9] = np.nan, np.inf, 0.0
    x[11, 9] = np.inf
    with np.errstate(invalid="ignore"):
        want = x @ w
    got = np.asarray(calque.jit(lambda x, w: x @ w)(x, w))
    np.testing.assert_array_equal(np.isnan(got), np.isnan(want))
    np.testing.assert_array_equal(np.isinf(got), np.isinf(want))
