"""svd and svdvals against NumPy in double precision and their residuals."""
from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.linalg

from tests.native.kernels import DTYPES, adjoint, call, error, matrices, real, wide

SHAPES = [(n, n) for n in (1, 2, 3, 4, 7, 8, 17, 33, 64, 65, 130)] + [
    (40, 17), (17, 40), (20, 16), (16, 20), (200, 5), (3, 70), (1, 9), (9, 1), (33, 32), (2, 3)]
# |A - U S V^H|, |U^H U - I| and |V^H V - I| of gesdd are 0.1 to 3 n eps here; 12 for f32.
BOUND = 12.0


def svd(a: np.ndarray[Any, Any], full: bool = False,
        groups: int = 1) -> list[np.ndarray[Any, Any]]:
    batch, m, n = a.shape
    p, k = max(m, n), min(m, n)
    c = p if full else k
    work = p * (2 * k + 208) + 2 * k * (k + 80) + p * c + 4096
    return call("singular", "svd", a.dtype, [a],
                [((batch, m, m if full else k), a.dtype), ((batch, k), real(a.dtype)),
                 ((batch, n if full else k, n), a.dtype), ((groups, work), a.dtype)],
                (batch, m, n, full), groups)[:3]


def svdvals(a: np.ndarray[Any, Any], groups: int = 1) -> np.ndarray[Any, Any]:
    batch, m, n = a.shape
    p, k = max(m, n), min(m, n)
    return call("singular", "svdvals", a.dtype, [a],
                [((batch, k), real(a.dtype)), ((groups, p * (2 * k + 208) + 4096), a.dtype)],
                (batch, m, n), groups)[0]


def check(a: np.ndarray[Any, Any], groups: int = 1) -> None:
    batch, m, n = a.shape
    k, size = min(m, n), max(m, n)
    expected = np.linalg.svd(wide(a), compute_uv=False)
    for full in (False, True):
        u, s, vh = svd(a, full, groups)
        assert np.all(np.diff(s, axis=1) <= 0) and np.all(s >= 0)
        u64, v64 = wide(u), adjoint(wide(vh))
        for x in (u64, v64):
            assert error(adjoint(x) @ x, np.eye(x.shape[-1])[None], a.dtype, size) < BOUND
        product = (u64[:, :, :k] * wide(s)[:, None, :]) @ adjoint(v64[:, :, :k])
        assert error(product, a, a.dtype, size) < BOUND * max(1, np.sqrt(k))  # of |A|_2, not max
        assert error(s, expected, a.dtype, size) < BOUND
    assert error(svdvals(a, groups), expected, a.dtype, size) < BOUND


@pytest.mark.parametrize("dtype", DTYPES)
def test_svd(dtype: str) -> None:
    for m, n in SHAPES:
        check(matrices(m + n, 3 if m * n < 2000 else 1, m, n, dtype=dtype), groups=1 + n % 3)


@pytest.mark.parametrize("dtype", DTYPES)
def test_svd_of_special(dtype: str) -> None:
    for m, n in [(1, 1), (2, 2), (5, 5), (20, 12), (12, 40), (40, 40)]:
        k = min(m, n)
        u, s, vh = svd(np.zeros((1, m, n), dtype), True)
        assert np.all(s == 0)
        assert error(adjoint(u) @ u, np.eye(m)[None], dtype, m) < BOUND
        check(np.eye(m, n, dtype=dtype)[None])
        check(np.ones((1, m, n), dtype))
        check((np.eye(m, n, k=1) * np.arange(n)).astype(dtype)[None])
        rank = max(1, k // 3)
        check(matrices(1, 1, m, rank, dtype=dtype) @ matrices(2, 1, rank, n, dtype=dtype))
        steps = 10.0 ** -np.minimum(np.arange(n), 12)
        check((matrices(m, 1, m, n, dtype=dtype) * steps).astype(dtype))
        for scale in (1e30, 1e-30):
            a = matrices(n, 1, m, n, dtype=dtype)
            u, s, vh = svd((a * np.array(scale, dtype)).astype(dtype))
            expected = np.linalg.svd(wide(a), compute_uv=False)
            assert error(wide(s) / scale, expected, dtype, max(m, n)) < BOUND
            assert error(adjoint(wide(u)) @ wide(u), np.eye(k)[None], dtype, m) < BOUND
        for value in (np.nan, np.inf, -np.inf):
            bad = matrices(n, 3, m, n, dtype=dtype)
            bad[1, m - 1, n // 2] = value
            for x in (*svd(bad, True, 2), svdvals(bad)):
                assert np.all(np.isnan(x[1])) and np.all(np.isfinite(x[[0, 2]]))


def test_small_singular_values_keep_their_digits() -> None:
    # Demmel and Kahan: those of a bidiagonal matrix are found to relative accuracy
    d, e = 10.0 ** -np.arange(12), 10.0 ** -(np.arange(11) + 0.5)
    a = np.diag(d) + np.diag(e, 1)
    s = svdvals(a[None])[0]
    import mpmath
    with mpmath.workdps(60):
        expected = sorted((float(x) for x in mpmath.svd_r(mpmath.matrix(a), compute_uv=False)),
                          reverse=True)
    np.testing.assert_allclose(s, expected, rtol=1e-13)
    check(scipy.linalg.hilbert(30)[None])
