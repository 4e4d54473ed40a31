"""eigh, eigvalsh, sytrd and gtsv against SciPy and their residuals."""
from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.linalg
from scipy.linalg.lapack import get_lapack_funcs

from tests.native.kernels import DTYPES, adjoint, call, error, matrices, real, wide

SIZES = (1, 2, 3, 4, 5, 7, 8, 17, 33, 64, 65, 130)
# |A v - v w| and |V^H V - I| of LAPACK's own drivers are 0.1 to 3 n eps |A| here; 12 for f32.
BOUND = 12.0


def hermitian(seed: int, batch: int, n: int, dtype: Any) -> np.ndarray[Any, Any]:
    x = matrices(seed, batch, n, n, dtype=dtype)
    return ((x + adjoint(x)) / 2).astype(dtype)


def eigh(a: np.ndarray[Any, Any], groups: int = 1) -> list[np.ndarray[Any, Any]]:
    batch, n, _ = a.shape
    return call("eigen", "eigh", a.dtype, [a],
                [(a.shape, a.dtype), ((batch, n), real(a.dtype)),
                 ((groups, 2 * n * n + 192 * n + 2048), a.dtype)], (batch, n), groups)[:2]


def eigvalsh(a: np.ndarray[Any, Any], groups: int = 1) -> np.ndarray[Any, Any]:
    batch, n, _ = a.shape
    return call("eigen", "eigvalsh", a.dtype, [a],
                [((batch, n), real(a.dtype)), ((groups, n * n + 16 * n), a.dtype)],
                (batch, n), groups)[0]


def check_eigh(a: np.ndarray[Any, Any], groups: int = 1) -> None:
    n = a.shape[-1]
    noise = np.triu(np.full((n, n), np.nan, a.dtype), 1)
    v, w = eigh(np.tril(a) + noise, groups)
    assert np.all(np.diff(w, axis=1) >= 0)
    v64 = wide(v)
    assert error(adjoint(v64) @ v64, np.eye(n)[None], a.dtype, n) < BOUND
    assert error(wide(a) @ v64, v64 * wide(w)[:, None, :], a.dtype, n) < BOUND
    expected = np.linalg.eigvalsh(wide(a))
    assert error(w, expected, a.dtype, n) < BOUND
    assert error(eigvalsh(np.tril(a) + noise, groups), expected, a.dtype, n) < BOUND


@pytest.mark.parametrize("dtype", DTYPES)
def test_eigh(dtype: str) -> None:
    for n in SIZES:
        check_eigh(hermitian(n, 3 if n < 60 else 1, n, dtype), groups=1 + n % 3)


@pytest.mark.parametrize("dtype", DTYPES)
def test_eigh_of_special(dtype: str) -> None:
    for n in (1, 2, 5, 20, 40):
        v, w = eigh(np.zeros((2, n, n), dtype), 2)
        np.testing.assert_array_equal(v, np.broadcast_to(np.eye(n), v.shape))
        assert np.all(w == 0)
        check_eigh(np.eye(n, dtype=dtype)[None])
        check_eigh(np.diag(np.arange(n, 0, -1)).astype(dtype)[None])
        check_eigh(np.ones((1, n, n), dtype))
        check_eigh((np.eye(n, k=1) + np.eye(n, k=-1)).astype(dtype)[None])
        # graded: eigenvalues over many orders of magnitude
        steps = 10.0 ** -np.arange(n)[:, None]
        check_eigh((hermitian(n, 1, n, dtype) * np.maximum(steps, 1e-15)
                    * np.maximum(steps.T, 1e-15)).astype(dtype))
        for scale in (1e30, 1e-18, 1e-30):
            a = hermitian(n, 1, n, dtype)
            v, w = eigh((a * np.array(scale, dtype)).astype(dtype))
            expected = np.linalg.eigvalsh(wide(a))
            assert error(wide(w) / scale, expected, dtype, n) < BOUND
            assert error(adjoint(wide(v)) @ wide(v), np.eye(n)[None], dtype, n) < BOUND
            assert error(wide(a) @ wide(v), wide(v) * wide(w)[:, None, :] / scale, dtype, n) < BOUND
        for value in (np.nan, np.inf, -np.inf):
            bad = hermitian(n, 3, n, dtype)
            bad[1, n - 1, n // 2] = value
            v, w = eigh(bad, 2)
            assert np.all(np.isnan(v[1])) and np.all(np.isnan(w[1]))
            assert np.all(np.isfinite(v[[0, 2]])) and np.all(np.isfinite(w[[0, 2]]))
            assert np.all(np.isnan(eigvalsh(bad)[1]))


@pytest.mark.parametrize("dtype", DTYPES)
def test_eigh_reads_the_real_part_of_the_diagonal(dtype: str) -> None:
    if np.dtype(dtype).kind == "c":
        a = hermitian(5, 1, 9, dtype)
        b = (a + 2j * np.eye(9)).astype(dtype)
        np.testing.assert_array_equal(eigh(a)[1], eigh(b)[1])


@pytest.mark.parametrize("lower", [True, False])
@pytest.mark.parametrize("dtype", DTYPES)
def test_sytrd(dtype: str, lower: bool) -> None:
    for n in (1, 2, 3, 6, 17, 40, 64):
        a = matrices(n, 2, n, n, dtype=dtype)
        r = real(dtype)
        packed, d, e, taus, _ = call(
            "eigen", "sytrd", dtype, [a],
            [(a.shape, dtype), ((2, n), r), ((2, n - 1), r), ((2, n - 1), dtype),
             ((2, n * n + 16 * n), dtype)], (2, n, lower), 2)
        name = "hetrd" if np.dtype(dtype).kind == "c" else "sytrd"
        for b in range(2):
            expected = get_lapack_funcs(name, (a,))(a[b], lower=lower)
            mine = (packed[b], d[b], e[b], taus[b])
            off = np.triu(np.ones((n, n)), 1) if lower else np.tril(np.ones((n, n)), -1)
            np.testing.assert_array_equal(packed[b][off > 0], a[b][off > 0])
            if n <= 17:  # reductions of larger ones part by rounding
                gap = [error(x, y, dtype, n) for x, y in zip(mine, expected[:4], strict=True)]
                assert max(gap) < 300 * BOUND
            tri = np.diag(wide(d[b])) + np.diag(wide(e[b]), 1) + np.diag(wide(e[b]), -1)
            half = np.tril(wide(a[b]), -1) if lower else np.triu(wide(a[b]), 1)
            full = half + np.conj(half.T) + np.diag(np.real(np.diag(wide(a[b]))))
            # the eigenvalues are those of the matrix
            assert error(np.linalg.eigvalsh(tri), np.linalg.eigvalsh(full), dtype, n) < BOUND


def gtsv(dl: np.ndarray[Any, Any], d: np.ndarray[Any, Any], du: np.ndarray[Any, Any],
         b: np.ndarray[Any, Any], groups: int = 1) -> np.ndarray[Any, Any]:
    batch, n, m = b.shape
    return call("eigen", "gtsv", b.dtype, [dl, d, du, b],
                [(b.shape, b.dtype), ((groups, 3 * n), b.dtype)], (batch, n, m), groups)[0]


@pytest.mark.parametrize("dtype", DTYPES)
def test_gtsv(dtype: str) -> None:
    for n, m in [(1, 1), (2, 3), (3, 1), (7, 2), (40, 9), (130, 1)]:
        dl, d, du = (matrices(n + k, 3, n, dtype=dtype) for k in range(3))
        dl[:, 0] = du[:, n - 1] = np.nan  # not read
        b = matrices(n, 3, n, m, dtype=dtype)
        x = gtsv(dl, d, du, b, 2)
        for i in range(3):
            full = np.diag(d[i]) + np.diag(dl[i, 1:], -1) + np.diag(du[i, :-1], 1)
            # partial pivoting is backward stable: |b - A x| < c eps |A| |x|
            scale = np.max(np.abs(full)) * np.max(np.abs(x[i]))
            assert np.max(np.abs(wide(full) @ wide(x[i]) - b[i])) < 30 * np.finfo(dtype).eps * scale
            if n > 1:
                expected = get_lapack_funcs("gtsv", (b,))(dl[i, 1:], d[i], du[i, :-1], b[i])[3]
                condition = np.linalg.cond(wide(full))
                assert error(x[i], expected, dtype, 1) < 10 * condition
    ones, zero = np.ones((1, 4), dtype), np.zeros((1, 4), dtype)
    assert np.all(np.isnan(gtsv(zero, zero, zero, np.ones((1, 4, 2), dtype))))
    singular = ones.copy()
    singular[0, 3] = 0
    assert np.all(np.isnan(gtsv(zero, singular, zero, np.ones((1, 4, 2), dtype))))


def test_eigenvalues_of_known_matrices() -> None:
    n = 50  # the second difference: 2 - 2 cos(k pi / (n + 1))
    a = (2 * np.eye(n) - np.eye(n, k=1) - np.eye(n, k=-1))[None]
    expected = 2 - 2 * np.cos(np.arange(1, n + 1) * np.pi / (n + 1))
    assert error(eigvalsh(a)[0], expected, np.float64, n) < BOUND
    # Wilkinson's W21+: pairs that agree to 14 digits
    w = (np.diag(np.abs(np.arange(-10, 11))) + np.eye(21, k=1) + np.eye(21, k=-1))[None]
    check_eigh(w.astype(np.float64))
    check_eigh(scipy.linalg.hilbert(30)[None])
