"""geqrf, householder_product and geqp3 against LAPACK and their residuals."""
from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.linalg.lapack import get_lapack_funcs

from tests.native.kernels import DTYPES, adjoint, call, error, matrices, wide

SHAPES = [(n, n) for n in (1, 2, 3, 7, 8, 9, 17, 32, 33, 64, 65, 130)] + [
    (40, 17), (17, 40), (200, 5), (3, 70), (1, 9), (9, 1), (100, 40), (40, 100)]
# Householder QR: |A - QR| < c n eps |A| columnwise with c about 1 in practice (Higham, 19.3);
# 8 for the complex types and the sums of f32, which are not sorted.
BOUND = 8.0


def block_work(m: int, n: int) -> int:
    return 32 * m + 64 * n + 2048


def geqrf(a: np.ndarray[Any, Any], groups: int = 1) -> list[np.ndarray[Any, Any]]:
    batch, m, n = a.shape
    return call("orthogonal", "geqrf", a.dtype, [a],
                [(a.shape, a.dtype), ((batch, min(m, n)), a.dtype),
                 ((groups, block_work(m, n)), a.dtype)], a.shape, groups)[:2]


def orgqr(a: np.ndarray[Any, Any], taus: np.ndarray[Any, Any],
          groups: int = 1) -> np.ndarray[Any, Any]:
    batch, m, n = a.shape
    return call("orthogonal", "householder_product", a.dtype, [a, taus],
                [(a.shape, a.dtype), ((groups, block_work(m, n)), a.dtype)],
                (*a.shape, taus.shape[1]), groups)[0]


def geqp3(a: np.ndarray[Any, Any], groups: int = 1) -> list[np.ndarray[Any, Any]]:
    batch, m, n = a.shape
    return call("orthogonal", "geqp3", a.dtype, [a],
                [(a.shape, a.dtype), ((batch, n), np.int32), ((batch, min(m, n)), a.dtype),
                 ((groups, 3 * n), a.dtype)], a.shape, groups)[:3]


def check_qr(a: np.ndarray[Any, Any], packed: np.ndarray[Any, Any], taus: np.ndarray[Any, Any],
             groups: int = 1) -> np.ndarray[Any, Any]:
    batch, m, n = a.shape
    k = min(m, n)
    q = orgqr(np.ascontiguousarray(packed[:, :, :k]), taus, groups)
    r = np.triu(wide(packed)[:, :k])
    assert error(wide(q) @ r, a, a.dtype, max(m, n)) < BOUND
    assert error(adjoint(wide(q)) @ wide(q), np.eye(k)[None], a.dtype, max(m, n)) < BOUND
    return q


@pytest.mark.parametrize("dtype", DTYPES)
def test_geqrf(dtype: str) -> None:
    for m, n in SHAPES:
        a = matrices(m + n, 3 if m * n < 5000 else 1, m, n, dtype=dtype)
        groups = 1 + n % 3
        packed, taus = geqrf(a, groups)
        check_qr(a, packed, taus, groups)
        assert np.all(np.imag(np.einsum("bii->bi", packed[:, :min(m, n), :min(m, n)])) == 0)
        for b in range(len(a)):
            expected = get_lapack_funcs("geqrf", (a,))(a[b])
            if m < n or m > n or n < 20:  # the last columns of square ones are ill conditioned
                assert error(packed[b], expected[0], dtype, m + n) < 100 * BOUND
                assert error(taus[b], expected[1], dtype, m + n) < 100 * BOUND


@pytest.mark.parametrize("dtype", DTYPES)
def test_householder_product_of_fewer(dtype: str) -> None:
    for m, n, k in [(5, 3, 0), (5, 3, 2), (40, 40, 33), (70, 65, 40), (9, 9, 8), (100, 70, 64)]:
        a = matrices(m, 2, m, n, dtype=dtype)
        packed, taus = geqrf(a)
        q = orgqr(packed, np.ascontiguousarray(taus[:, :k]), 2)
        for b in range(2):
            if k == 0:
                np.testing.assert_array_equal(q[b], np.eye(m, n))
                continue
            name = "ungqr" if np.dtype(dtype).kind == "c" else "orgqr"
            expected = get_lapack_funcs(name, (a,))(packed[b], taus[b, :k])[0]
            assert error(q[b], expected, dtype, m) < BOUND


@pytest.mark.parametrize("dtype", DTYPES)
def test_geqrf_of_special(dtype: str) -> None:
    for m, n in [(1, 1), (5, 8), (8, 5), (40, 40)]:
        zero = np.zeros((1, m, n), dtype)
        packed, taus = geqrf(zero)
        assert np.all(packed == 0) and np.all(taus == 0)
        eye = np.eye(m, n, dtype=dtype)[None]
        packed, taus = geqrf(eye)
        np.testing.assert_array_equal(packed, eye)
        assert np.all(taus == 0)
        for scale in (1e30, 1e-30, np.finfo(dtype).tiny * 64):
            a = matrices(n, 1, m, n, dtype=dtype) * np.array(scale, dtype)
            packed, taus = geqrf(a)
            big = np.array(1 / scale, dtype)
            check_qr(a * big, packed * np.where(np.triu(np.ones((m, n))) > 0, big, 1), taus)
        for value in (np.nan, np.inf):
            bad = matrices(n, 3, m, n, dtype=dtype)
            bad[1, m // 2, 0] = value
            packed, taus = geqrf(bad, 3)
            assert np.all(np.isfinite(packed[[0, 2]])) and np.all(np.isfinite(taus[[0, 2]]))
            assert np.any(np.isnan(packed[1])) or m == n == 1


@pytest.mark.parametrize("dtype", DTYPES)
def test_geqp3(dtype: str) -> None:
    for m, n in SHAPES:
        a = matrices(m + n, 2, m, n, dtype=dtype) * np.linspace(1, 3, n)[::-1].astype(dtype)
        packed, order, taus = geqp3(a, 1 + n % 3)
        expected = get_lapack_funcs("geqp3", (a,))(a[0])
        if min(m, n) < 20:  # later ties are decided by rounding
            np.testing.assert_array_equal(order[0], expected[1] - 1)
        moved = np.take_along_axis(a, order[:, None, :], 2)
        check_qr(moved, packed, taus)
        diagonal = np.abs(np.einsum("bii->bi", packed[:, :min(m, n), :min(m, n)]))
        assert np.all(diagonal[:, 1:] <= diagonal[:, :-1] * (1 + 1e-3))


@pytest.mark.parametrize("dtype", DTYPES)
def test_geqp3_finds_the_rank(dtype: str) -> None:
    a = matrices(1, 1, 40, 6, dtype=dtype) @ matrices(2, 1, 6, 30, dtype=dtype)
    packed, order, taus = geqp3(a)
    r = np.abs(np.triu(packed[0, :30]))
    assert np.max(r[6:]) < 300 * np.finfo(dtype).eps * r[0, 0] and r[5, 5] > 1e-2 * r[0, 0]
    zero, order, taus = geqp3(np.zeros((1, 4, 3), dtype))
    assert np.all(zero == 0) and np.all(taus == 0)
    np.testing.assert_array_equal(order[0], [0, 1, 2])
    bad = matrices(3, 1, 5, 4, dtype=dtype)
    bad[0, 2, 2] = np.nan
    _, order, _ = geqp3(bad)
    np.testing.assert_array_equal(np.sort(order[0]), np.arange(4))
