"""Samples of qr, eigh, svd, pinv, tridiagonal systems and their kin (see samples.py)."""
from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from support.samples import Sample, op, row, sample
from support.samples_linalg import FACTORED

NAN, INF = np.nan, np.inf


def _apart(m: int, n: int, *lead: int) -> Callable[[Any], Any]:
    """Matrices whose singular values and columns are well apart in size."""
    def values(dtype: Any) -> Any:
        rng = np.random.default_rng(m * 100 + n)
        x = rng.uniform(-0.3, 0.3, (*lead, m, n))
        if np.dtype(dtype).kind == "c":
            x = x + 1j * rng.uniform(-0.3, 0.3, x.shape)
        return x + np.eye(m, n) * np.arange(1, n + 1)
    return values


def _matrices(*shapes: tuple[int, ...], **params: Any) -> list[Sample]:
    return [sample("x".join(map(str, s)), op(values=_apart(*s[-2:], *s[:-2])), **params)
            for s in shapes]


_EMPTY = ((0, 0), (0, 3), (3, 0))
row("geqrf", FACTORED, (
    *_matrices((4, 4), (6, 3), (3, 6), (1, 1), (1, 4), (4, 1), (2, 2, 3, 3), (70, 40), (70, 3, 3)),
    *[sample(str(s), op(*s)) for s in (*_EMPTY, (0, 3, 3))]), normwise=True)
row("geqp3", FACTORED, (
    *_matrices((4, 4), (6, 3), (3, 6), (1, 1), (2, 2, 3, 3), (40, 30)),
    *[sample(str(s), op(*s)) for s in _EMPTY]), normwise=True)


def _reflections(m: int, n: int, k: int, *lead: int) -> Sample:
    def factors(dtype: Any) -> Any:
        rng = np.random.default_rng(k)
        x = rng.uniform(0, 1, (*lead, k))
        return x + 1j * rng.uniform(0, 1, x.shape) if np.dtype(dtype).kind == "c" else x
    return sample(f"{m}x{n} of {k} {lead}", op(*lead, m, n, low=-0.3, high=0.3),
                  op(values=factors))


row("householder_product", FACTORED, (
    _reflections(4, 4, 4), _reflections(6, 3, 2), _reflections(5, 5, 0), _reflections(70, 50, 50),
    _reflections(3, 3, 2, 2, 2), _reflections(1, 1, 1), sample("empty", op(0, 0), op(0))),
    normwise=True)


def _qr(shape: tuple[int, ...], full: bool, pivoting: bool = False) -> Sample:
    return sample(f"{shape} {full=} {pivoting=}", op(values=_apart(*shape[-2:], *shape[:-2])),
                  full_matrices=full, pivoting=pivoting, use_magma=None)


def _seen_qr(xp: Any, outs: Sequence[Any]) -> list[Any]:
    """Q's further columns may turn among themselves: their projector is seen."""
    q, r, *order = outs
    k = min(q.shape[-2], r.shape[-1])
    rest = q[..., k:]
    return [q[..., :k], r, rest @ xp.swapaxes(rest.conj(), -1, -2), *order]


row("qr", FACTORED, (
    _qr((4, 4), False), _qr((5, 3), False), _qr((5, 3), True), _qr((3, 5), False),
    _qr((3, 5), True), _qr((1, 1), True), _qr((4, 1), True), _qr((2, 2, 4, 3), False),
    _qr((60, 40), False), _qr((5, 3), False, True), _qr((3, 5), True, True),
    *[sample(f"{s} {full}", op(*s), full_matrices=full, pivoting=p, use_magma=None)
      for s in (*_EMPTY, (0, 2, 2)) for full in (True, False) for p in (True, False)]),
    normwise=True, view=_seen_qr)


def _eigh(label: str, operand: Any, lower: bool = True, vectors: bool = True) -> Sample:
    return sample(label, operand, lower=lower, sort_eigenvalues=True, compute_vectors=vectors,
                  subset_by_index=None, algorithm=None)


def _seen_eigh(xp: Any, outs: Sequence[Any]) -> list[Any]:
    """exp of the matrix: vectors are free in sign and phase."""
    if len(outs) == 1:
        return list(outs)
    v, w = outs
    return [w, (v * xp.exp(0.3 * w)[..., None, :]) @ xp.swapaxes(v.conj(), -1, -2)]


def _strange(dtype: Any) -> Any:
    """Zeros, the identity, equal values, NaN, infinity; above the diagonal nothing is read."""
    made = np.zeros((6, 3, 3))
    made[1] = np.eye(3)
    made[2] = [[1, 9, 9], [1, 1, 9], [1, 1, 1]]
    made[3, 2, 0], made[4, 1, 1], made[5, 0, 2] = NAN, INF, NAN
    return made


row("eigh", FACTORED, (
    _eigh("normal", op(values=_apart(4, 4))), _eigh("upper", op(values=_apart(5, 5)), False),
    _eigh("values", op(values=_apart(4, 4)), True, False), _eigh("one", op(1, 1)),
    _eigh("two", op(values=_apart(2, 2))), _eigh("batch", op(values=_apart(3, 3, 2, 2))),
    _eigh("large", op(values=_apart(45, 45))), _eigh("empty", op(0, 0)),
    _eigh("empty, values", op(0, 0), True, False), _eigh("empty batch", op(0, 3, 3))),
    normwise=True, hermitian=True, view=_seen_eigh,
    factor=20.0,  # exp of eigenvalues, whose errors grow with n
    specials=(_eigh("strange", op(values=_strange)), _eigh("normal", op(values=_apart(4, 4)))))


def _svd(shape: tuple[int, ...], full: bool = False, vectors: bool = True) -> Sample:
    return sample(f"{shape} {full=} {vectors=}", op(values=_apart(*shape[-2:], *shape[:-2])),
                  full_matrices=full, compute_uv=vectors, subset_by_index=None, algorithm=None)


def _seen_svd(xp: Any, outs: Sequence[Any]) -> list[Any]:
    """U S^2 V^H, and that vectors are orthonormal: they are free in sign and phase."""
    if len(outs) == 1:
        return list(outs)
    s, u, vh = outs
    k = s.shape[-1]
    head = (u[..., :k] * (s * s)[..., None, :]) @ vh[..., :k, :]
    return [s, head, xp.swapaxes(u.conj(), -1, -2) @ u, vh @ xp.swapaxes(vh.conj(), -1, -2)]


def _ranks(dtype: Any) -> Any:
    """Zeros, the identity, rank one, NaN, infinity."""
    made = np.zeros((5, 3, 2))
    made[1] = np.eye(3, 2)
    made[2] = np.outer([1, 2, 3], [1, -1])
    made[3, 2, 0], made[4, 1, 1] = NAN, INF
    return made


row("svd", FACTORED, (
    _svd((4, 4)), _svd((5, 3)), _svd((3, 5)), _svd((4, 4), True), _svd((4, 3), False, False),
    _svd((1, 1)), _svd((1, 3)), _svd((3, 1)), _svd((2, 2, 3, 3)), _svd((40, 30)),
    *[sample(f"{s} {full} {uv}", op(*s), full_matrices=full, compute_uv=uv, subset_by_index=None,
             algorithm=None)
      for s in (*_EMPTY, (0, 2, 2)) for full in (True, False) for uv in (True, False)
      if s[-1] == s[-2] or not full]),
    normwise=True, view=_seen_svd, factor=20.0,  # as eigh
    specials=(_svd((5, 3), True), _svd((3, 5), True),  # these have no derivative
              *[sample(f"{s}", op(*s), full_matrices=True, compute_uv=True, subset_by_index=None,
                       algorithm=None) for s in _EMPTY[1:]],
              sample("ranks", op(values=_ranks), full_matrices=True, compute_uv=True,
                     subset_by_index=None, algorithm=None)))


def _pinv(label: str, values: Any, lead: tuple[int, ...] = (), hermitian: bool = False) -> Sample:
    return sample(label, op(values=values), op(values=np.full(lead, 1e-3)), hermitian=hermitian)


def _symmetric(dtype: Any) -> Any:
    x = np.asarray(_apart(4, 4)(dtype))
    return x + x.conj().T


row("pinv", FACTORED[:2], (
    _pinv("tall", _apart(5, 3)), _pinv("wide", _apart(3, 5)), _pinv("square", _apart(4, 4)),
    _pinv("batch", _apart(3, 2, 2, 2), (2, 2)),
    sample("empty batch", op(0, 3, 3), op(0), hermitian=False)),
    normwise=True, fixed=(1,), factor=20.0,  # quotients by small singular values
    specials=(_pinv("hermitian", _symmetric, (), True),
              _pinv("ranks", lambda d: _ranks(d)[:3], (3,))))


# ---- no symmetry
def _eig(label: str, operand: Any, left: bool, right: bool) -> Sample:
    return sample(label, operand, compute_left_eigenvectors=left,
                  compute_right_eigenvectors=right, enable_eigvec_derivs=True,
                  implementation=None)


def _seen_eig(xp: Any, outs: Sequence[Any]) -> list[Any]:
    """exp of the matrix by each set of vectors, which are free in sign and phase, and sums over
    the eigenvalues, whose order is free."""
    w, *vectors = outs
    if not w.size:
        return list(outs)
    sums = [xp.sum(w, -1), xp.sum(w * w, -1), xp.sum(xp.exp(0.3 * w), -1)]
    scale = xp.exp(0.3 * w)[..., None, :]
    sets = [(v, xp.linalg.inv(v)) for v in vectors[-1:]]
    sets += [(xp.linalg.inv(xp.swapaxes(v.conj(), -1, -2)), xp.swapaxes(v.conj(), -1, -2))
             for v in vectors[:-1]]
    return [*sums, *[(v * scale) @ back for v, back in sets]]


def _lost(dtype: Any) -> Any:
    made = np.stack([np.diag([1.0, 2.0])] * 3)
    made[1, 0, 1], made[2, 0, 1] = NAN, INF
    return made


row("eig", FACTORED, (
    _eig("both", op(values=_apart(4, 4)), True, True),
    _eig("right", op(values=_apart(5, 5)), False, True),
    _eig("values", op(values=_apart(4, 4)), False, False), _eig("one", op(1, 1), True, True),
    _eig("batch", op(values=_apart(3, 3, 2, 2)), False, True),
    _eig("large", op(values=_apart(30, 30)), True, True), _eig("empty", op(0, 0), True, True),
    _eig("empty batch", op(0, 3, 3), False, True)),
    normwise=True, view=_seen_eig, factor=20.0,  # as eigh, and the condition of the vectors
    specials=(_eig("lost", op(values=_lost), False, False),))


def _schur(label: str, operand: Any, vectors: bool = True) -> Sample:
    return sample(label, operand, compute_schur_vectors=vectors, sort_eig_vals=False,
                  select_callable=None)


def _seen_schur(xp: Any, outs: Sequence[Any]) -> list[Any]:
    """Z T Z^H, that Z is unitary, that T is triangular but for blocks of two."""
    t = outs[0]
    low = xp.tril(t, -1 if t.dtype.kind == "c" else -2)
    if len(outs) == 1:
        return [low]
    z = outs[1]
    back = xp.swapaxes(z.conj(), -1, -2)
    return [z @ t @ back, back @ z, low]


row("schur", FACTORED, (
    _schur("normal", op(4, 4)), _schur("form", op(5, 5), False), _schur("one", op(1, 1)),
    _schur("two", op(2, 2)), _schur("batch", op(2, 2, 3, 3)), _schur("large", op(40, 40)),
    _schur("defective", op(values=np.eye(4) + np.eye(4, k=1))), _schur("empty", op(0, 0)),
    _schur("empty batch", op(0, 3, 3))), normwise=True, view=_seen_schur, factor=20.0)


# ---- tridiagonal forms and systems
row("tridiagonal", FACTORED, (
    *[sample(f"{s} {lower}", op(values=_apart(*s[-2:], *s[:-2])), lower=lower)
      for s in ((4, 4), (1, 1), (2, 2), (2, 3, 3), (9, 9)) for lower in (True, False)],
    sample("empty batch", op(0, 3, 3), lower=True)), normwise=True)
row("hessenberg", FACTORED, (
    *_matrices((4, 4), (1, 1), (2, 2), (2, 3, 3), (8, 8)),
    sample("empty", op(0, 0)), sample("empty batch", op(0, 3, 3))), normwise=True)


def _system(n: int, m: int, *lead: int, perturb: bool = False) -> Sample:
    def diagonal(dtype: Any) -> Any:
        rng = np.random.default_rng(n)
        x = rng.uniform(2.5, 4, (*lead, n))
        return x + 1j * rng.uniform(-1, 1, x.shape) if np.dtype(dtype).kind == "c" else x
    return sample(f"{lead} {n} {m} {perturb=}", op(*lead, n, low=-1, high=1), op(values=diagonal),
                  op(*lead, n, low=-1, high=1), op(*lead, n, m), perturb_singular=perturb)


def _exchanged(n: int) -> Sample:
    """Small diagonals: rows are exchanged at nearly every step."""
    return sample(f"exchanges {n}", op(n, low=1, high=2), op(n, low=-0.1, high=0.1),
                  op(n, low=1, high=2), op(n, 2), perturb_singular=False)


row("tridiagonal_solve", FACTORED, (
    _system(4, 2), _system(1, 3), _system(2, 1), _system(50, 3), _system(3, 2, 2, 2),
    _exchanged(6), _system(4, 2, perturb=True), _system(3, 0),
    sample("empty", *[op(0)] * 3, op(0, 2), perturb_singular=False),
    sample("empty batch", *[op(0, 3)] * 3, op(0, 3, 2), perturb_singular=False)),
    linear=(3,), normwise=True)


def _upper(n: int) -> Callable[[Any], Any]:
    def values(dtype: Any) -> Any:
        return np.triu(np.random.default_rng(n).uniform(0.1, 0.5, (n, n))) + np.eye(n)
    return values


row("cholesky_update", FACTORED[:2], (
    *[sample(str(n), op(values=_upper(n)), op(n)) for n in (4, 1, 30)],
    sample("empty", op(0, 0), op(0))), normwise=True)
