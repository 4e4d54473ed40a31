"""gehrd, schur and geev against SciPy and their residuals."""
from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.linalg
from scipy.linalg.lapack import get_lapack_funcs

from tests.native.kernels import DTYPES, adjoint, call, error, matrices, wide

SIZES = (1, 2, 3, 4, 5, 8, 17, 33, 64, 90)
# |A - Z T Z^H| and |Z^H Z - I| of LAPACK's gees are 0.5 to 3 n eps |A| here; 20 for f32.
BOUND = 20.0


def gehrd(a: np.ndarray[Any, Any], groups: int = 1) -> list[np.ndarray[Any, Any]]:
    batch, n, _ = a.shape
    return call("schur", "gehrd", a.dtype, [a],
                [(a.shape, a.dtype), ((batch, n - 1), a.dtype),
                 ((groups, n * n + 64 * n + 512), a.dtype)], (batch, n), groups)[:2]


def schur(a: np.ndarray[Any, Any], groups: int = 1) -> list[np.ndarray[Any, Any]]:
    batch, n, _ = a.shape
    return call("schur", "schur", a.dtype, [a],
                [(a.shape, a.dtype), (a.shape, a.dtype),
                 ((groups, 3 * n * n + 200 * n + 4096), a.dtype)], (batch, n), groups)[:2]


def geev(a: np.ndarray[Any, Any], groups: int = 1) -> list[np.ndarray[Any, Any]]:
    batch, n, _ = a.shape
    kind = np.result_type(a.dtype, np.complex64)
    return call("schur", "geev", a.dtype, [a],
                [((batch, n), kind), (a.shape, kind), (a.shape, kind),
                 ((groups, 5 * n * n + 240 * n + 4096), kind)], (batch, n), groups)[:3]


@pytest.mark.parametrize("dtype", DTYPES)
def test_gehrd(dtype: str) -> None:
    for n in SIZES:
        a = matrices(n, 2, n, n, dtype=dtype)
        packed, taus = gehrd(a, 1 + n % 2)
        for b in range(2):
            if n > 2:
                expected = get_lapack_funcs("gehrd", (a,))(a[b])
                if n <= 17:  # reductions of larger ones part by rounding
                    assert error(packed[b], expected[0], dtype, n) < 300 * BOUND
                    assert error(taus[b], expected[1], dtype, n) < 300 * BOUND
            h, q = np.triu(wide(packed[b]), -1), np.eye(n, dtype=wide(a).dtype)
            for i in reversed(range(n - 1)):
                v = np.zeros(n, q.dtype)
                v[i + 1], v[i + 2:] = 1, packed[b, i + 2:, i]
                q -= taus[b, i] * np.outer(v, np.conj(v) @ q)
            assert error(adjoint(q) @ q, np.eye(n), dtype, n) < BOUND
            assert error(q @ h @ adjoint(q), a[b], dtype, n) < BOUND


def check_schur(a: np.ndarray[Any, Any], groups: int = 1) -> None:
    n = a.shape[-1]
    t, z = schur(a, groups)
    for b in range(len(a)):
        z64, t64 = wide(z[b]), wide(t[b])
        assert error(adjoint(z64) @ z64, np.eye(n), a.dtype, n) < BOUND
        assert error(z64 @ t64 @ adjoint(z64), a[b], a.dtype, n) < BOUND
        if a.dtype.kind == "c":
            assert np.all(np.tril(t[b], -1) == 0)
            continue
        assert np.all(np.tril(t[b], -2) == 0)
        low = np.diag(t[b], -1) != 0
        assert not np.any(low[1:] & low[:-1])
        for i in np.flatnonzero(low):  # standardized: equal diagonals, b c < 0
            assert t[b, i, i] == t[b, i + 1, i + 1] and t[b, i, i + 1] * t[b, i + 1, i] < 0


@pytest.mark.parametrize("dtype", DTYPES)
def test_schur(dtype: str) -> None:
    for n in SIZES:
        check_schur(matrices(n, 3 if n < 60 else 1, n, n, dtype=dtype), 1 + n % 3)


def check_geev(a: np.ndarray[Any, Any], groups: int = 1) -> None:
    n = a.shape[-1]
    w, left, right = geev(a, groups)
    for b in range(len(a)):
        w64, l64, r64 = wide(w[b]), wide(left[b]), wide(right[b])
        norm = np.linalg.norm(wide(a[b]))
        for residual in (wide(a[b]) @ r64 - r64 * w64, adjoint(l64) @ wide(a[b]) - w64[:, None]
                         * adjoint(l64)):
            assert np.max(np.abs(residual)) <= BOUND * n * np.finfo(a.dtype).eps * norm
        for v in (l64, r64):
            np.testing.assert_allclose(np.linalg.norm(v, axis=0), 1, atol=8 * np.finfo(a.dtype).eps)
            largest = np.abs(v) > 0.999 * np.max(np.abs(v), axis=0)  # ties are decided by rounding
            assert np.all(np.any(largest & (v.imag == 0), axis=0))
        if a.dtype.kind != "c":
            assert np.all(left[b][:, w[b].imag == 0].imag == 0)
            np.testing.assert_array_equal(np.sort_complex(w[b]), np.sort_complex(np.conj(w[b])))


@pytest.mark.parametrize("dtype", DTYPES)
def test_geev(dtype: str) -> None:
    for n in SIZES:
        a = matrices(n, 3 if n < 60 else 1, n, n, dtype=dtype)
        check_geev(a, 1 + n % 3)
        if n < 20:
            w = geev(a)[0]
            for b in range(len(a)):
                expected = np.linalg.eigvals(wide(a[b]))
                gap = np.min(np.abs(w[b][:, None] - expected), axis=1)
                # conditions of these eigenvalues are below 100
                assert np.max(gap) < 100 * n * np.finfo(dtype).eps * np.linalg.norm(a[b])


@pytest.mark.parametrize("dtype", DTYPES)
def test_of_special(dtype: str) -> None:
    for n in (1, 2, 3, 6, 20, 40):
        t, z = schur(np.zeros((1, n, n), dtype))
        assert np.all(t == 0)
        np.testing.assert_array_equal(z[0], np.eye(n))
        special = [np.eye(n), np.ones((n, n)), np.eye(n, k=1), np.eye(n, k=-1),
                   np.roll(np.eye(n), 1, 0), np.tril(np.ones((n, n))), np.triu(np.ones((n, n))),
                   scipy.linalg.companion(np.arange(1, n + 2)) if n > 1 else np.eye(1),
                   np.diag(np.arange(n, 0, -1)), np.eye(n, k=1) - np.eye(n, k=-1)]
        for a in special:
            check_schur(a.astype(dtype)[None])
            check_geev(a.astype(dtype)[None])
        scales = 10.0 ** np.linspace(-6, 6, n)
        badly = (matrices(n, 1, n, n, dtype=dtype) * scales / scales[:, None]).astype(dtype)
        w = geev(badly)[0][0]
        expected = np.linalg.eigvals(wide(badly[0]))
        gap = np.min(np.abs(w[:, None] - expected), axis=1)  # balanced, it is an ordinary matrix
        assert np.max(gap) < 1000 * n * np.finfo(dtype).eps * np.max(np.abs(expected))
        for scale in (1e30, 1e-30):
            a = (matrices(n, 1, n, n, dtype=dtype) * np.array(scale, dtype)).astype(dtype)
            t, z = schur(a)
            z64 = wide(z)
            assert error(z64 @ wide(t) @ adjoint(z64), a, dtype, n) < BOUND
        for value in (np.nan, np.inf, -np.inf):
            bad = matrices(n, 3, n, n, dtype=dtype)
            bad[1, n - 1, n // 2] = value
            for x in (*schur(bad, 2), *geev(bad, 3)):
                assert np.all(np.isnan(x[1])) and np.all(np.isfinite(x[[0, 2]]))
            gehrd(bad)
