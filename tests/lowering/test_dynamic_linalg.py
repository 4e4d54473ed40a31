"""Linear algebra of matrices whose sizes are known at the call only: compiled once, against NumPy
and SciPy at sizes that cross every block of the C kernels, between guard pages.

Factors whose signs are free are multiplied together again; gradients are of functions whose
gradient is known in closed form.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.linalg
from support.guard import Guarded

import calque
import calque.numpy as jnp
import calque.scipy.linalg as sl
from calque import aot, lax
from calque.errors import InconclusiveDimensionOperation
from calque.runtime.buffer import Buffer

F32 = np.float32
L = jnp.linalg
Pairs = list[tuple[Any, Any]]
Row = tuple[Callable[..., Any], Callable[..., Pairs]]


def _eye(x: Any) -> Any:
    return np.eye(x.shape[-1], dtype=x.dtype)


def _flip(x: Any) -> Any:
    return np.swapaxes(x, -1, -2).conj()


def _orthogonal(q: Any) -> tuple[Any, Any]:
    return _flip(q) @ q, np.broadcast_to(_eye(q), (*q.shape[:-2], q.shape[-1], q.shape[-1]))


def _of_svd(x: Any, found: Any) -> Pairs:
    u, s, vh = found
    k = s.shape[-1]
    return [
        ((u[..., :k] * s[..., None, :]) @ vh[..., :k, :], x),
        (s, np.linalg.svd(x, compute_uv=False)),
        _orthogonal(u),
        _orthogonal(_flip(vh)),
    ]


def _of_qr(x: Any, found: Any) -> Pairs:
    q, r = found
    return [(q @ r, x), (r, np.triu(r)), _orthogonal(q)]


def _tridiagonal(d: Any) -> Any:
    n = len(d)
    return np.diag(d + 4) + np.diag(d[1:], -1) + np.diag(-d[: n - 1], 1)


def _residual(a: Any, x: Any, b: Any) -> tuple[Any, Any]:
    return a @ x, b


# s (n, n) symmetric positive definite, a (n, n), r (m, n) of full rank, v (n,), w (n, k),
# t (b, n, n) positive definite
SQUARE: dict[str, Row] = {
    "cholesky": (
        lambda s, a, v, w, t: L.cholesky(s),
        lambda x, s, a, v, w, t: [(x, np.linalg.cholesky(s))],
    ),
    "upper": (
        lambda s, a, v, w, t: L.cholesky(t, upper=True),
        lambda x, s, a, v, w, t: [(_flip(x) @ x, t)],
    ),
    "triangular": (
        lambda s, a, v, w, t: sl.solve_triangular(s, w, lower=True),
        lambda x, s, a, v, w, t: [_residual(np.tril(s), x, w)],
    ),
    "from_right": (
        lambda s, a, v, w, t: lax.linalg.triangular_solve(
            s, w.T, left_side=False, lower=False, transpose_a=True, unit_diagonal=True
        ),
        lambda x, s, a, v, w, t: [_residual(np.triu(s, 1) + _eye(s), x.T, w)],
    ),
    "solve": (
        lambda s, a, v, w, t: L.solve(a, w),
        lambda x, s, a, v, w, t: [_residual(a, x, w)],
    ),
    "solve_vector": (
        lambda s, a, v, w, t: L.solve(a, v),
        lambda x, s, a, v, w, t: [_residual(a, x, v)],
    ),
    "solve_batch": (
        lambda s, a, v, w, t: L.solve(t, w),
        lambda x, s, a, v, w, t: [(t @ x, np.broadcast_to(w, x.shape))],
    ),
    "cho_solve": (
        lambda s, a, v, w, t: sl.cho_solve(sl.cho_factor(s), v),
        lambda x, s, a, v, w, t: [_residual(s, x, v)],
    ),
    "inv": (lambda s, a, v, w, t: L.inv(a), lambda x, s, a, v, w, t: [(x @ a, _eye(a))]),
    "det": (
        lambda s, a, v, w, t: L.det(a),
        lambda x, s, a, v, w, t: [(x, np.linalg.det(a))],
    ),
    "slogdet": (
        lambda s, a, v, w, t: L.slogdet(t),
        lambda x, s, a, v, w, t: list(zip(x, np.linalg.slogdet(t))),
    ),
    "eigh": (
        lambda s, a, v, w, t: L.eigh(s),
        lambda x, s, a, v, w, t: [
            (x[1] * x[0] @ x[1].T, s),
            (x[0], np.linalg.eigvalsh(s)),
            _orthogonal(x[1]),
        ],
    ),
    "eigvalsh": (
        lambda s, a, v, w, t: L.eigvalsh(t, UPLO="U"),
        lambda x, s, a, v, w, t: [(x, np.linalg.eigvalsh(t))],
    ),
    "eig": (
        lambda s, a, v, w, t: L.eig(a),
        lambda x, s, a, v, w, t: [(a @ x[1], x[1] * x[0])],
    ),
    "schur": (
        lambda s, a, v, w, t: lax.linalg.schur(a),
        lambda x, s, a, v, w, t: [(x[1] @ x[0] @ x[1].T, a), _orthogonal(x[1])],
    ),
    "hessenberg": (
        lambda s, a, v, w, t: jnp.triu(lax.linalg.hessenberg(a)[0], -1),
        lambda x, s, a, v, w, t: [(abs(x), abs(scipy.linalg.hessenberg(a)))],
    ),
    "tridiagonal": (
        lambda s, a, v, w, t: lax.linalg.tridiagonal_solve(v, v + 4, -v, w),
        lambda x, s, a, v, w, t: [_residual(_tridiagonal(v), x, w)],
    ),
    "expm": (
        lambda s, a, v, w, t: sl.expm(a / 4),
        lambda x, s, a, v, w, t: [(x, scipy.linalg.expm(a / 4))],
    ),
    "grad_cholesky": (
        lambda s, a, v, w, t: calque.grad(lambda s: (L.cholesky(s) ** 2).sum())(s),
        lambda x, s, a, v, w, t: [(x, _eye(s))],
    ),
    "grad_solve": (
        lambda s, a, v, w, t: calque.grad(lambda a: (L.solve(a, v)).sum())(a),
        lambda x, s, a, v, w, t: [
            (x, -np.outer(np.linalg.solve(a.T, v * 0 + 1), np.linalg.solve(a, v)))
        ],
    ),
    "grad_logdet": (
        lambda s, a, v, w, t: calque.grad(lambda a: L.slogdet(a)[1])(a),
        lambda x, s, a, v, w, t: [(x, np.linalg.inv(a).T)],
    ),
    "grad_det": (
        lambda s, a, v, w, t: calque.grad(L.det)(a),
        lambda x, s, a, v, w, t: [(x, np.linalg.det(a) * np.linalg.inv(a).T)],
    ),
    "grad_eigh": (
        lambda s, a, v, w, t: calque.grad(lambda s: (L.eigvalsh(s) ** 2).sum())(s),
        lambda x, s, a, v, w, t: [(x, 2 * s)],
    ),
    "vmap": (
        lambda s, a, v, w, t: calque.vmap(lambda u: L.solve(a, u), 1, 1)(w),
        lambda x, s, a, v, w, t: [_residual(a, x, w)],
    ),
}
TALL: dict[str, Row] = {
    "lu": (
        lambda r, c: sl.lu(r),
        lambda x, r, c: [(x[0] @ x[1] @ x[2], r), (x[1], np.tril(x[1])), (x[2], np.triu(x[2]))],
    ),
    "order": (
        lambda r, c: (
            lambda found: (
                found[2],
                lax.linalg.lu_pivots_to_permutation(found[1], r.shape[0]),
            )
        )(lax.linalg.lu(r)),
        lambda x, r, c: [(x[0], x[1])],
    ),
    "qr": (lambda r, c: L.qr(r), lambda x, r, c: _of_qr(r, x)),
    "qr_complete": (lambda r, c: L.qr(r, "complete"), lambda x, r, c: _of_qr(r, x)),
    "pivoted": (
        lambda r, c: lax.linalg.qr(r, full_matrices=False, pivoting=True),
        lambda x, r, c: [(x[0] @ x[1], r[:, x[2]]), _orthogonal(x[0])],
    ),
    "svd": (
        lambda r, c: L.svd(r, full_matrices=False),
        lambda x, r, c: _of_svd(r, x),
    ),
    "svd_full": (lambda r, c: L.svd(r), lambda x, r, c: _of_svd(r, x)),
    "svdvals": (
        lambda r, c: L.svdvals(jnp.stack([r, 2 * r])),
        lambda x, r, c: [(x, np.linalg.svd(np.stack([r, 2 * r]), compute_uv=False))],
    ),
    "pinv": (lambda r, c: L.pinv(r), lambda x, r, c: [(x, np.linalg.pinv(r))]),
    "lstsq": (
        lambda r, c: L.lstsq(r, c)[::2],
        lambda x, r, c: [
            (x[0], np.linalg.lstsq(r, c, rcond=None)[0]),
            (x[1], np.int32(min(r.shape))),
        ],
    ),
    "rank": (
        lambda r, c: L.matrix_rank(r),
        lambda x, r, c: [(x, np.int32(min(r.shape)))],
    ),
    "norm": (lambda r, c: L.norm(r, 2), lambda x, r, c: [(x, np.linalg.norm(r, 2))]),
    "grad_qr": (
        lambda r, c: calque.grad(lambda r: (L.qr(r)[1] ** 2).sum())(r),
        lambda x, r, c: [(x, 2 * r)],
    ),
    "grad_of_q": (
        lambda r, c: calque.grad(lambda r: (jnp.matmul(*L.qr(r)) ** 2).sum())(r),
        lambda x, r, c: [(x, 2 * r)],
    ),
    "grad_nuclear": (
        lambda r, c: calque.grad(lambda r: L.svdvals(r).sum())(r),
        lambda x, r, c: [(x, np.matmul(*np.linalg.svd(r, full_matrices=False)[::2]))],
    ),
    "grad_svd": (
        lambda r, c: calque.grad(lambda r: (_product(L.svd(r, full_matrices=False)) ** 2).sum())(r),
        lambda x, r, c: [(x, 2 * r)],
    ),
    "grad_lu": (
        lambda r, c: calque.grad(lambda r: (jnp.matmul(*sl.lu(r, permute_l=True)) ** 2).sum())(r),
        lambda x, r, c: [(x, 2 * r)],
    ),
}
# t (b, n, n) positive definite, r (b, m, n) of full rank: batches are spread over workgroups
BATCHES: dict[str, Row] = {
    "cholesky": (lambda t, r: L.cholesky(t), lambda x, t, r: [(x, np.linalg.cholesky(t))]),
    "inv": (lambda t, r: _inverse(t), lambda x, t, r: [(x @ t, np.broadcast_to(_eye(t), t.shape))]),
    "eigh": (
        lambda t, r: L.eigh(t),
        lambda x, t, r: [((x[1] * x[0][:, None]) @ _flip(x[1]), t), _orthogonal(x[1])],
    ),
    "eigvalsh": (
        lambda t, r: L.eigvalsh(t),
        lambda x, t, r: [(x, np.linalg.eigvalsh(t))],
    ),
    "qr": (lambda t, r: L.qr(r), lambda x, t, r: _of_qr(r, x)),
    "qr_complete": (lambda t, r: L.qr(r, "complete"), lambda x, t, r: _of_qr(r, x)),
    "svd": (lambda t, r: L.svd(r, full_matrices=False), lambda x, t, r: _of_svd(r, x)),
    "svd_full": (lambda t, r: L.svd(r), lambda x, t, r: _of_svd(r, x)),
    "svdvals": (
        lambda t, r: L.svdvals(r),
        lambda x, t, r: [(x, np.linalg.svd(r, compute_uv=False))],
    ),
    "eig": (lambda t, r: L.eig(t), lambda x, t, r: [(t @ x[1], x[1] * x[0][:, None])]),
}


def _inverse(t: Any) -> Any:
    """From the factor alone, for matrices that may have no rows."""
    factor = L.cholesky(t)
    one = jnp.zeros_like(t) + jnp.eye(t.shape[-1], dtype=t.dtype)
    half = lax.linalg.triangular_solve(factor, one, left_side=True, lower=True)
    return jnp.matmul(jnp.conj(jnp.swapaxes(half, -1, -2)), half)


SPECS = ("f32[n,n]", "f32[n,n]", "f32[n]", "f32[n,k]", "f32[b,n,n]")
SOME = ("cholesky", "solve", "eigh")
DTYPES = {"f32": "float32", "f64": "float64", "c64": "complex64", "c128": "complex128"}


def _product(found: Any) -> Any:
    u, s, vh = found
    return (u * s) @ vh


@functools.cache
def _family(which: str) -> Any:
    batches = f"{which}[b,n,n]", f"{which}[b,m,n]"
    rows, specs = (BATCHES, batches) if which in DTYPES else {
        "square": (SQUARE, SPECS),
        "some": ({k: SQUARE[k] for k in SOME}, SPECS),
        "tall": (TALL, ("f32[m,n]", "f32[m]")),
        "few": ({k: TALL[k] for k in ("qr", "svd")}, ("f32[m,n]", "f32[m]")),
    }[which]

    trees = []

    def every(*args: Any) -> list[Any]:
        outs = [ours(*args) for ours, _ in rows.values()]
        trees[:] = [calque.tree_util.tree_structure(outs)]
        return outs

    with calque.enable_x64(True):
        call = aot.load(aot.compile(every, *specs, name="family").vmfb).family
    return rows, call, trees[0]


def _check(which: str, args: list[Any], label: str) -> None:
    rows, call, tree = _family(which)
    for at_end in (False, True):
        guards = [Guarded(a, at_end) for a in args]
        outs = call(*[Buffer.alias_numpy(g.array, call.device) for g in guards])
        assert not any(g.changed() for g in guards), label
    found_in = calque.tree_util.tree_unflatten(tree, [r.numpy() for r in outs])
    for (name, (_, pairs)), found in zip(rows.items(), found_in, strict=True):
        for got, want in pairs(found, *args):
            assert got.shape == np.shape(want), (name, label, got.shape, np.shape(want))
            size = max(1.0, float(np.max(np.abs(want), initial=0)))
            # eps sqrt(n) of the largest element, times the condition (below 100) of the matrices
            np.testing.assert_allclose(
                got, want, rtol=0, atol=2e-4 * size * max(1, len(args[0])) ** 0.5,
                err_msg=f"{name} {label}")


def _spread(rng: Any, m: int, n: int) -> Any:
    """Singular values between 0.7 and 1.4: determinants neither overflow nor vanish."""
    k = min(m, n)
    u, _, vh = np.linalg.svd(rng.normal(size=(m, n)), full_matrices=False)
    return ((u * np.linspace(1.4, 0.7, k)) @ vh).astype(F32)


def _square(n: int, k: int, b: int) -> list[Any]:
    rng = np.random.default_rng([n, k, b])
    s, t = _spread(rng, n, n), np.stack([_spread(rng, n, n) for _ in range(b + 1)])[:b]
    return [
        s @ s.T, _spread(rng, n, n), rng.normal(size=n).astype(F32),
        rng.normal(size=(n, k)).astype(F32), t @ _flip(t),
    ]


def _tall(m: int, n: int) -> list[Any]:
    rng = np.random.default_rng([m, n])
    return [_spread(rng, m, n), rng.normal(size=m).astype(F32)]


def test_matrices_of_unknown_size() -> None:
    for sizes in ((1, 1, 1), (3, 2, 0), (17, 5, 3), (70, 33, 2)):
        _check("some", _square(*sizes), f"n={sizes[0]}")
    for m, n in ((1, 1), (5, 3), (3, 40), (66, 33)):
        _check("few", _tall(m, n), f"m={m}, n={n}")


@pytest.mark.slow
@pytest.mark.parametrize("n", [1, 2, 3, 4, 5, 16, 31, 32, 33, 63, 65, 100, 129, 200])
def test_square_matrices(n: int) -> None:
    _check("square", _square(n, 1 + n % 7, 1 + n % 4), f"n={n}")


SIDES = [(1, 1), (1, 3), (3, 1), (2, 2), (5, 4), (4, 7), (31, 33), (33, 32), (64, 65), (17, 130)]


@pytest.mark.slow
@pytest.mark.parametrize("m, n", [*SIDES, (130, 17), (200, 199), (100, 100)])
def test_rectangular_matrices(m: int, n: int) -> None:
    _check("tall", _tall(m, n), f"m={m}, n={n}")


@pytest.mark.slow
@pytest.mark.parametrize("dtype", DTYPES)
def test_batches_of_every_dtype(dtype: str) -> None:
    sizes = [(1, 3, 2), (2, 5, 9), (63, 4, 4), (64, 9, 5), (65, 1, 1), (130, 3, 7), (3, 70, 40)]
    for b, m, n in (*sizes, (2, 33, 65), (0, 3, 2), (3, 0, 2), (3, 2, 0), (0, 0, 0)):
        rng = np.random.default_rng([b, m, n])
        kind = np.dtype(DTYPES[dtype])
        t, r = (np.stack([_spread(rng, p, n) for _ in range(b + 1)])[:b].astype(kind)
                for p in (n, m))
        if kind.kind == "c":  # other phases of rows and columns
            t, r = (x * np.exp(1j * rng.normal(size=(*x.shape[:2], 1))).astype(kind)
                    * np.exp(1j * rng.normal(size=(x.shape[0], 1, n))).astype(kind) for x in (t, r))
        _check(dtype, [t @ _flip(t), r], f"{dtype} b={b}, m={m}, n={n}")


def test_other_targets_name_what_they_cannot() -> None:
    for function, name in ((L.cholesky, "cholesky"), (L.svdvals, "svd"), (L.qr, "geqrf")):
        with pytest.raises(InconclusiveDimensionOperation,
                           match=f"{name} of float32.*needs to know n"):
            aot.compile(function, "f32[n,n]", targets=["cuda:sm_80"])
