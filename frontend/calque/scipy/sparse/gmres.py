"""gmres: the generalized minimal residual method with restarts.

An orthonormal basis of the Krylov space is built by the Arnoldi process with Gram-Schmidt twice;
the small least squares problem is solved by QR.  Start reading at `_cycle`.
"""
from __future__ import annotations

import functools
from typing import Any

import numpy as np

import calque.numpy as jnp
from calque.api import loops
from calque.core.errors import explain
from calque.extras.flatten_util import ravel_pytree
from calque.lax.linalg import qr, triangular_solve
from calque.scipy.sparse.vectors import Function, norm, solved
from calque.trees import util as tree_util

_product = functools.partial(jnp.matmul, precision="highest")
METHODS = ("batched", "incremental")


def _cycle(a: Function, b: Any, x: Any, restart: int) -> Any:
    """x after one restart's steps; all are flat vectors."""
    n, kind = b.shape[0], b.dtype
    r = b - a(x)
    beta = jnp.linalg.norm(r)
    safe = jnp.where(beta > 0, beta, 1)
    basis = jnp.zeros((restart + 1, n), kind).at[0].set(r / safe)
    h = jnp.zeros((restart, restart + 1), kind)  # row k: column k of the Hessenberg matrix
    tiny = 10 * float(jnp.finfo(kind).eps)

    def step(k: Any, carry: Any) -> Any:
        basis, h = carry
        w = a(basis[k])
        size = jnp.linalg.norm(w)
        column = _product(jnp.conj(basis), w)
        w = w - _product(column, basis)
        again = _product(jnp.conj(basis), w)
        w = w - _product(again, basis)
        length = jnp.linalg.norm(w)
        fresh = length > tiny * size  # else the space is whole
        basis = basis.at[k + 1].set(jnp.where(fresh, w / jnp.where(fresh, length, 1), 0))
        below = jnp.where(fresh, length, 0).astype(kind)
        column = jnp.where(jnp.arange(restart + 1) == k + 1, below, column + again)
        return basis, h.at[k].set(column)

    basis, h = loops.fori_loop(0, restart, step, (basis, h))
    right = jnp.zeros(restart + 1, kind).at[0].set(beta.astype(kind))
    q, upper = qr(h.T, full_matrices=False)
    diagonal = jnp.abs(upper * jnp.eye(restart, dtype=kind)).max(axis=1)
    empty = diagonal <= tiny * diagonal.max()  # directions beyond the whole space
    upper = jnp.where(empty[:, None] | empty[None, :], jnp.eye(restart, dtype=kind), upper)
    y = triangular_solve(upper, _product(jnp.conj(q).T, right)[:, None], left_side=True)[:, 0]
    return x + _product(jnp.where(empty, 0, y), basis[:-1])


def _gmres(a: Function, b: Any, x0: Any, m: Function, *, tol: Any, atol: Any, maxiter: Any,
           restart: int) -> Any:
    flat_b, whole = ravel_pytree(b)
    flat_x, _ = ravel_pytree(x0)

    def preconditioned(v: Any) -> Any:
        return ravel_pytree(m(a(whole(v))))[0]

    right = ravel_pytree(m(whole(flat_b)))[0]
    # of the preconditioned residual, in the proportion in which M changes b
    limit = jnp.maximum(jnp.asarray(tol) * norm(flat_b), jnp.asarray(atol))
    limit = limit * jnp.linalg.norm(right) / jnp.where(norm(flat_b) > 0, norm(flat_b), 1)

    def going(state: Any) -> Any:
        x, k, left = state
        return (k < maxiter) & (left > limit)

    def step(state: Any) -> Any:
        x, k, _ = state
        x = _cycle(preconditioned, right, x, restart)
        return x, k + 1, jnp.linalg.norm(right - preconditioned(x))

    start = (flat_x, 0, jnp.linalg.norm(right - preconditioned(flat_x)))
    return whole(loops.while_loop(going, step, start)[0])


def gmres(A: Any, b: Any, x0: Any = None, *, tol: Any = 1e-5, atol: Any = 0.0,  # noqa: N803
          restart: int = 20, maxiter: int | None = None, M: Any = None,  # noqa: N803
          solve_method: str = "batched") -> tuple[Any, Any]:
    """The x with A x = b by the generalized minimal residual method; A is any.

    Args:
      A: function of a tree like b that returns one, or a square matrix.
      b: array, or tree of arrays of one dtype.
      x0: where to start, like b. None: zeros.
      tol, atol: the (preconditioned) residual's norm ends below max(tol * norm(b), atol).
      restart: most vectors of the basis before the method starts again.
      maxiter: most restarts. None: ten times the number of elements.
      M: preconditioner, an approximate inverse of A, applied from the left: function or matrix.
      solve_method: "batched" or "incremental"; both take all steps between restarts here.

    Returns:
      (x, info); info is an int32: 0, or -1 where x has NaN.

    Raises:
      TypeError, ValueError: as cg; solve_method is another.

    Source: Y. Saad, M. H. Schultz, SIAM J. Sci. Stat. Comput. 7(3), 1986.

    Example:
      >>> import calque.numpy as jnp
      >>> from calque.scipy.sparse.linalg import gmres
      >>> x, _ = gmres(jnp.array([[2.0, 1.0], [0.0, 4.0]]), jnp.array([4.0, 8.0]))
      >>> print(x.round(4))
      [1. 2.]
    """
    if solve_method not in METHODS:
        raise ValueError(explain(f"gmres: invalid solve_method {solve_method!r}, must be either "
                                 "'incremental' or 'batched'.", fix="use one of these."))
    size = sum(int(jnp.size(x)) for x in tree_util.tree_leaves(b))
    x, _ = solved("gmres", _gmres, A, b, x0, M, tol=tol, atol=atol, maxiter=maxiter,
                  symmetric=False, restart=max(min(restart, size), 1))
    odd: list[Any] = [np.False_, *[jnp.isnan(leaf).any() for leaf in tree_util.tree_leaves(x)]]
    return x, jnp.where(functools.reduce(jnp.logical_or, odd), -1, 0)
