"""cholesky, lu and triangular_solve against SciPy and their residuals."""
from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.linalg

from tests.native.kernels import DTYPES, adjoint, call, epsilon, error, matrices, wide

SIZES = (1, 2, 3, 7, 8, 15, 16, 17, 33, 64, 65, 130)
# Backward error bounds are n eps times a growth that is about 1 for random matrices; 4 allows for
# the complex product (2 sqrt 2 eps, Higham, "Accuracy and Stability", 3.6).
BOUND = 4.0


def definite(seed: int, batch: int, n: int, dtype: Any) -> np.ndarray[Any, Any]:
    x = matrices(seed, batch, n, n, dtype=dtype)
    return x @ adjoint(x) / n + np.eye(n, dtype=dtype)


def cholesky(a: np.ndarray[Any, Any], groups: int = 1) -> np.ndarray[Any, Any]:
    return call("factor", "cholesky", a.dtype, [a], [(a.shape, a.dtype)], a.shape[:2], groups)[0]


@pytest.mark.parametrize("dtype", DTYPES)
def test_cholesky(dtype: str) -> None:
    for n in SIZES:
        batch = 3 if n < 60 else 1
        a = definite(n, batch, n, dtype)
        noise = np.triu(np.full((n, n), np.nan, a.dtype), 1)
        factor = cholesky(np.tril(a) + noise, groups=1 + n % 3)
        assert np.all(np.triu(factor, 1) == 0)
        assert error(factor @ adjoint(factor), a, dtype, n) < BOUND
        expected = np.linalg.cholesky(wide(a))
        assert error(factor, expected, dtype, n) < 4 * BOUND  # the condition number is below 6
        assert np.all(np.imag(np.einsum("bii->bi", factor)) == 0)


@pytest.mark.parametrize("dtype", DTYPES)
def test_cholesky_only_of_the_definite(dtype: str) -> None:
    for n in (1, 3, 20, 40):
        for at in sorted({0, n // 2, n - 1}):
            for value in (0.0, -1.0, np.nan, -np.inf):
                a = definite(n, 3, n, dtype)
                a[1, at, at] = value
                factor = cholesky(a, groups=2)
                low = np.tril(np.ones((n, n), bool))
                assert np.all(np.isnan(factor[1][low])) and np.all(factor[1][~low] == 0)
                assert np.all(np.isfinite(factor[[0, 2]]))
    if np.dtype(dtype).kind == "c":  # the diagonal's imaginary part does not count
        a = definite(5, 1, 20, dtype)
        b = a + 3j * np.eye(20, dtype=dtype)
        np.testing.assert_array_equal(cholesky(a), cholesky(b.astype(dtype)))


@pytest.mark.parametrize("dtype", DTYPES)
def test_cholesky_of_huge_and_tiny(dtype: str) -> None:
    for scale in (1e30, 1e-30):
        a = definite(7, 1, 33, dtype) * np.array(scale, dtype)
        factor = wide(cholesky(a))
        assert error(factor @ adjoint(factor), a, dtype, 33) < BOUND


def lu(a: np.ndarray[Any, Any], groups: int = 1) -> list[np.ndarray[Any, Any]]:
    batch, m, n = a.shape
    return call("factor", "lu", a.dtype, [a],
                [(a.shape, a.dtype), ((batch, min(m, n)), np.int32), ((batch, m), np.int32)],
                a.shape, groups)


def check_lu(a: np.ndarray[Any, Any], groups: int = 1) -> None:
    batch, m, n = a.shape
    k = min(m, n)
    factors, pivots, order = lu(a, groups)
    for b in range(batch):
        lower = np.tril(wide(factors[b])[:, :k], -1) + np.eye(m, k)
        upper = np.triu(wide(factors[b])[:k])
        growth = max(1.0, float(np.max(np.abs(upper)) / max(np.max(np.abs(a[b])), 1e-37)))
        assert error(lower @ upper, a[b][order[b]], a.dtype, max(m, n)) < BOUND * growth
        permutation = np.arange(m)
        for i, j in enumerate(pivots[b]):
            permutation[[i, j]] = permutation[[j, i]]
        np.testing.assert_array_equal(permutation, order[b])


@pytest.mark.parametrize("dtype", DTYPES)
def test_lu(dtype: str) -> None:
    for m, n in [(n, n) for n in SIZES] + [(40, 17), (17, 40), (130, 5), (3, 70), (1, 9), (9, 1)]:
        a = matrices(m + n, 3 if m * n < 5000 else 1, m, n, dtype=dtype)
        check_lu(a, groups=1 + n % 3)
        expected = scipy.linalg.lapack.get_lapack_funcs("getrf", (a[0],))(a[0])
        factors, pivots, _ = lu(a)
        np.testing.assert_array_equal(pivots[0], expected[1])
        # pivots agree, so the factors differ by rounding times the condition of leading blocks
        assert np.max(np.abs(factors[0] - expected[0])) < 1e4 * epsilon(dtype)


@pytest.mark.parametrize("dtype", DTYPES)
def test_lu_of_singular_and_special(dtype: str) -> None:
    getrf = scipy.linalg.lapack.get_lapack_funcs("getrf", dtype=np.dtype(dtype))
    for n in (1, 5, 8, 20, 40):
        zero = np.zeros((1, n, n), dtype)
        factors, pivots, order = lu(zero)
        assert np.all(factors == 0) and np.all(pivots[0] == np.arange(n))
        np.testing.assert_array_equal(order[0], np.arange(n))
        low = matrices(n, 2, n, n, dtype=dtype)
        low[:, :, n // 2] = 0
        check_lu(low)
        ones = np.ones((1, n, n), dtype)
        np.testing.assert_array_equal(lu(ones)[0][0], getrf(ones[0])[0])
        for scale in (1e30, 1e-30):
            check_lu(matrices(n, 1, n, n, dtype=dtype) * np.array(scale, dtype))
        for value in (np.nan, np.inf):
            bad = matrices(n, 3, n, n, dtype=dtype)
            bad[1, n // 2, n // 3] = value
            factors, pivots, order = lu(bad)
            assert np.all(np.isfinite(factors[[0, 2]]))
            assert np.all((pivots >= 0) & (pivots < n))
            np.testing.assert_array_equal(np.sort(order[1]), np.arange(n))


def test_a_nan_is_a_pivot_only_where_it_comes_first() -> None:
    a = np.array([[[np.nan, 1], [5, 1]], [[1, 1], [np.nan, 1]]])
    np.testing.assert_array_equal(lu(a)[1], [[0, 1], [0, 1]])


def solve(a: np.ndarray[Any, Any], b: np.ndarray[Any, Any], left: bool, lower: bool,
          transpose: bool, conjugate: bool, unit: bool, groups: int = 1) -> np.ndarray[Any, Any]:
    n, m = a.shape[-1], b.shape[-1] if left else b.shape[-2]
    return call("factor", "triangular_solve", a.dtype, [a, b], [(b.shape, b.dtype)],
                (len(a), n, m, left, lower, transpose, conjugate, unit), groups)[0]


@pytest.mark.parametrize("dtype", DTYPES)
def test_triangular_solve(dtype: str) -> None:
    for case in range(192):
        left, lower, transpose, conjugate, unit = (bool(case >> bit & 1) for bit in range(5))
        n = (1, 3, 16, 17, 40, 65, 200)[case % 7]
        m = (1, 2, 5, 16, 33, 40, 70, 1, 1)[case % 9]
        a = matrices(case, 2, n, n, dtype=dtype) / n + 2 * np.eye(n, dtype=dtype)
        mask = np.tril(np.ones((n, n))) if lower else np.triu(np.ones((n, n)))
        if unit:
            mask = mask * (1 - np.eye(n))
        b = matrices(case + 1, 2, *((n, m) if left else (m, n)), dtype=dtype)
        x = solve(np.where(mask, a, np.nan).astype(dtype), b, left, lower, transpose, conjugate,
                  unit, groups=1 + case % 2)
        op = np.where(mask, wide(a), 0) + (np.eye(n) if unit else 0)
        op = np.conj(op) if conjugate else op
        op = np.swapaxes(op, -1, -2) if transpose else op
        product = op @ wide(x) if left else wide(x) @ op
        # forward substitution is backward stable; |op| |x| is below 8 |b| here
        assert error(product, b, dtype, n) < 8 * BOUND, (n, m, left, lower, transpose, unit)


@pytest.mark.parametrize("dtype", DTYPES)
def test_triangular_solve_divides_where_inverses_overflow(dtype: str) -> None:
    tiny = np.finfo(dtype).tiny
    a = np.diag(np.array([1, tiny * 2, 1 / tiny / 8], dtype))[None]
    b = np.array([[[3], [tiny * 4], [1 / tiny / 4]]], dtype)
    x = solve(a, b, True, True, False, False, False)
    np.testing.assert_array_equal(x[0, :, 0], np.array([3, 2, 2], dtype))
    singular = np.zeros((1, 2, 2), dtype)
    x = solve(singular, np.ones((1, 2, 1), dtype), True, True, False, False, False)
    assert not np.any(np.isfinite(x))
