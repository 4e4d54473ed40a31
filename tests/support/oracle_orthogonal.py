"""Orthogonal decompositions by NumPy and SciPy (LAPACK) in double precision.

More oracles of oracle.py, which imports this module at its end.
"""
from __future__ import annotations

from typing import Any

import numpy as np
import scipy.linalg
from scipy.linalg import lapack

from support.oracle import ORACLES, wide
from support.oracle_linalg import each

Array = np.ndarray[Any, Any]


def _lapack(name: str, x: Array) -> Any:
    return getattr(lapack, ("z" if x.dtype.kind == "c" else "d") + name)


def _geqrf(params: Any, a: Array) -> list[Array]:
    def one(x: Array) -> list[Array]:
        if not x.size:
            return [x, np.zeros(0, x.dtype)]
        packed, taus, _, _ = _lapack("geqrf", x)(x)
        return [packed, taus]
    return each(one, wide(a))


def _geqp3(params: Any, a: Array) -> list[Array]:
    def one(x: Array) -> list[Array]:
        if not x.size:
            return [x, np.arange(x.shape[1], dtype=np.int32), np.zeros(0, x.dtype)]
        packed, order, taus, _, _ = _lapack("geqp3", x)(x)
        return [packed, (order - 1).astype(np.int32), taus]
    return each(one, wide(a))


def _householder_product(params: Any, a: Array, taus: Array) -> Array:
    """The product of the reflections, one by one."""
    a, taus = wide(a), wide(taus)
    m, n = a.shape[-2:]
    q = np.zeros((*a.shape[:-2], m, m), a.dtype) + np.eye(m)
    for i in range(taus.shape[-1]):
        v = np.where(np.arange(m) > i, a[..., :, i], 0) + (np.arange(m) == i)
        tau = taus[..., i, None, None]
        q = q @ (np.eye(m) - tau * v[..., :, None] * v[..., None, :].conj())
    return q[..., :n]


def _qr(params: Any, a: Array) -> list[Array]:
    full, pivoting = params["full_matrices"], params["pivoting"]

    def one(x: Array) -> list[Array]:
        m, n = x.shape
        if not x.size:
            k = m if full else 0
            outs = [np.eye(m, k, dtype=x.dtype), np.zeros((k, n), x.dtype)]
            return [*outs, np.arange(n, dtype=np.int32)] if pivoting else outs
        q, r, *p = scipy.linalg.qr(x, mode="full" if full else "economic", pivoting=pivoting)
        return [q, r, *[i.astype(np.int32) for i in p]]
    return each(one, wide(a))


def _eigh(params: Any, a: Array) -> list[Array]:
    def one(x: Array) -> list[Array]:
        read = np.tril(x) if params["lower"] else np.triu(x)
        if np.isfinite(read).all():
            w, v = np.linalg.eigh(x, "L" if params["lower"] else "U")
        else:
            v, w = np.full_like(x, np.nan), np.full(len(x), np.nan)
        return [v, w] if params["compute_vectors"] else [w]
    return each(one, wide(a))


def _svd(params: Any, a: Array) -> list[Array]:
    def one(x: Array) -> list[Array]:
        m, n = x.shape
        k = min(m, n)
        rows, columns = (m, n) if params["full_matrices"] else (k, k)
        if not np.isfinite(x).all():
            u, s, vh = (np.full(shape, np.nan) for shape in ((m, rows), (k,), (columns, n)))
        else:
            u, s, vh = np.linalg.svd(x, full_matrices=params["full_matrices"])
        return [s, u, vh] if params["compute_uv"] else [s]
    return each(one, wide(a))


def _pinv(params: Any, a: Array, rtol: Array) -> Array:
    return np.linalg.pinv(wide(a), wide(rtol), hermitian=params["hermitian"])


def _eig(params: Any, a: Array) -> list[Array]:
    left, right = params["compute_left_eigenvectors"], params["compute_right_eigenvectors"]

    def one(x: Array) -> list[Array]:
        n = len(x)
        if not n or not np.isfinite(x).all():
            w, u, v = (np.full(s, np.nan + 0j) for s in ((n,), (n, n), (n, n)))
        else:
            w, u, v = scipy.linalg.eig(x, left=True, right=True)
        return [w + 0j, *([u + 0j] if left else []), *([v + 0j] if right else [])]
    return each(one, wide(a))


def _schur(params: Any, a: Array) -> list[Array]:
    def one(x: Array) -> list[Array]:
        t, z = scipy.linalg.schur(x) if x.size else (x, x)
        return [t, z] if params["compute_schur_vectors"] else [t]
    return each(one, wide(a))


def _tridiagonal(params: Any, a: Array) -> list[Array]:
    def one(x: Array) -> list[Array]:
        name = "hetrd" if x.dtype.kind == "c" else "sytrd"
        packed, d, e, taus, _ = _lapack(name, x)(x, lower=int(params["lower"]))
        return [packed, d, e, taus]
    return each(one, wide(a))


def _hessenberg(params: Any, a: Array) -> list[Array]:
    def one(x: Array) -> list[Array]:
        if len(x) < 2:
            return [x, np.zeros(0, x.dtype)]
        packed, taus, _ = _lapack("gehrd", x)(x)
        return [packed, taus]
    return each(one, wide(a))


def _tridiagonal_solve(params: Any, dl: Array, d: Array, du: Array, b: Array) -> Array:
    dl, d, du, b = (wide(x) for x in (dl, d, du, b))
    n = d.shape[-1]
    if not b.size:
        return b
    eye = np.eye(n)
    below, above = np.roll(dl, -1, -1) * (np.arange(n) < n - 1), du
    full = (d[..., None] * eye + above[..., None] * np.eye(n, k=1)
            + np.eye(n, k=-1) * np.moveaxis(below[..., None], -1, -2))
    return np.linalg.solve(full, b)


def _cholesky_update(params: Any, r: Array, w: Array) -> Array:
    r, w = wide(r), wide(w)
    total = np.swapaxes(r, -1, -2) @ r + w[..., :, None] * w[..., None, :]
    return np.swapaxes(np.linalg.cholesky(total), -1, -2)


ORACLES.update(
    geqrf=_geqrf, geqp3=_geqp3, householder_product=_householder_product, qr=_qr, eigh=_eigh,
    svd=_svd, pinv=_pinv, eig=_eig, schur=_schur, tridiagonal=_tridiagonal,
    hessenberg=_hessenberg, tridiagonal_solve=_tridiagonal_solve,
    cholesky_update=_cholesky_update)
