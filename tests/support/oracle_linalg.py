"""What the factorizations mean: NumPy's solvers and a plain elimination in the operand's precision.

More oracles of oracle.py, which imports this module at its end.
"""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from support.oracle import ORACLES, wide

Array = np.ndarray[Any, Any]


def each(f: Callable[..., Any], *xs: Array, cores: int = 2) -> list[Array]:
    """f of every matrix of a batch, results stacked."""
    lead = xs[0].shape[:xs[0].ndim - cores]
    if not lead:
        return list(f(*xs))
    if 0 in lead:
        made = f(*[np.ones(x.shape[len(lead):], x.dtype) for x in xs])
        return [np.zeros((*lead, *np.shape(o)), np.asarray(o).dtype) for o in made]
    outs = [f(*[x[at] for x in xs]) for at in np.ndindex(*lead)]
    return [np.stack(c).reshape(*lead, *np.shape(c[0])) for c in zip(*outs)]


def _cholesky(params: Any, a: Array) -> Array:
    def one(x: Array) -> list[Array]:
        n = x.shape[0]
        lower = np.tril(x)
        try:
            if np.isnan(lower).any():
                raise np.linalg.LinAlgError
            return [np.linalg.cholesky(lower + np.tril(lower, -1).conj().T)]
        except np.linalg.LinAlgError:
            return [np.where(np.tri(n, dtype=bool), x.dtype.type(np.nan), x.dtype.type(0))]
    return each(one, wide(a))[0]


def _triangular_solve(params: Any, a: Array, b: Array) -> Array:
    def one(a: Array, b: Array) -> list[Array]:
        a = np.tril(a) if params["lower"] else np.triu(a)
        if params["unit_diagonal"]:
            a = a - np.diag(np.diag(a)) + np.eye(len(a))
        a = a.conj() if params["conjugate_a"] else a
        a = a.T if params["transpose_a"] else a
        if params["left_side"]:
            return [np.linalg.solve(a, b)]
        return [np.linalg.solve(a.T, b.T).T]
    return each(one, wide(a), wide(b))[0]


def _lu(params: Any, a: Array) -> list[Array]:
    def one(x: Array) -> list[Array]:
        x = x.copy()
        m, n = x.shape
        order, pivots = np.arange(m), []
        for j in range(min(m, n)):
            size = np.abs(x[j:, j].real) + np.abs(x[j:, j].imag)
            p = j + int(np.argmax(size))
            pivots.append(p)
            x[[j, p]], order[[j, p]] = x[[p, j]], order[[p, j]]
            if x[j, j] != 0:
                x[j + 1:, j] /= x[j, j]
            x[j + 1:, j + 1:] -= np.outer(x[j + 1:, j], x[j, j + 1:])
        return [x, np.array(pivots, np.int32), order.astype(np.int32)]
    return each(one, wide(a))


def _permutation(params: Any, pivots: Array) -> Array:
    def one(p: Array) -> list[Array]:
        order = np.arange(params["permutation_size"], dtype=np.int32)
        for i, k in enumerate(np.clip(p, 0, len(order) - 1)):
            order[[i, k]] = order[[k, i]]
        return [order]
    return each(one, pivots, cores=1)[0]


ORACLES.update(cholesky=_cholesky, triangular_solve=_triangular_solve, lu=_lu,
               lu_pivots_to_permutation=_permutation)
