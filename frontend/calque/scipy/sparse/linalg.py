"""Iterative solvers of linear systems under SciPy's names: vectors are trees of arrays, matrices
functions; derivatives are those of the solution, whatever the steps were.  Map:

  vectors.py   trees as vectors, the arguments' checks      gmres.py   gmres

Start reading at `cg`.
"""
from __future__ import annotations

from typing import Any

import calque.numpy as jnp
from calque.api import loops
from calque.scipy.sparse.gmres import gmres
from calque.scipy.sparse.vectors import Function, dot, minus, plus, solved, squared, times
from calque.trees import util as tree_util

__all__ = ["bicgstab", "cg", "gmres"]


def __dir__() -> list[str]:
    return __all__


def _limit(b: Any, tol: Any, atol: Any) -> Any:
    """The squared norm that a residual has to reach."""
    return jnp.maximum(jnp.asarray(tol) ** 2 * squared(b), jnp.asarray(atol) ** 2)


def _cg(a: Function, b: Any, x0: Any, m: Function, *, tol: Any, atol: Any, maxiter: Any) -> Any:
    limit = _limit(b, tol, atol)

    def going(state: Any) -> Any:
        _, r, gamma, _, k = state
        return (squared(r) > limit) & (k < maxiter)

    def step(state: Any) -> Any:
        x, r, gamma, p, k = state
        ap = a(p)
        alpha = gamma / dot(p, ap)
        x, r = plus(x, times(alpha, p)), minus(r, times(alpha, ap))
        z = m(r)
        new = dot(r, z).astype(gamma.dtype)
        return x, r, new, plus(z, times(new / gamma, p)), k + 1

    r = minus(b, a(x0))
    z = m(r)
    return loops.while_loop(going, step, (x0, r, dot(r, z), z, 0))[0]


def _bicgstab(a: Function, b: Any, x0: Any, m: Function, *, tol: Any, atol: Any,
              maxiter: Any) -> Any:
    limit = _limit(b, tol, atol)

    def going(state: Any) -> Any:
        r, k = state[1], state[-1]
        return (squared(r) > limit) & (k < maxiter) & (k >= 0)

    def step(state: Any) -> Any:
        x, r, shadow, alpha, omega, rho, p, q, k = state
        new = dot(shadow, r)
        beta = new / rho * alpha / omega
        p = plus(r, times(beta, minus(p, times(omega, q))))
        ph = m(p)
        q = a(ph)
        alpha = new / dot(shadow, q)
        s = minus(r, times(alpha, q))
        early = squared(s) < limit
        sh = m(s)
        t = a(sh)
        omega = dot(t, s) / dot(t, t)
        half = plus(x, times(alpha, ph))
        x = _chosen(early, half, plus(half, times(omega, sh)))
        r = _chosen(early, s, minus(s, times(omega, t)))
        k = jnp.where((omega == 0) | (alpha == 0), -11, k + 1)  # broken down
        k = jnp.where(new == 0, -10, k)
        return x, r, shadow, alpha, omega, new, p, q, k

    r = minus(b, a(x0))
    one = dot(r, r) * 0 + 1
    start = (x0, r, r, one, one, one, r, r, 0)
    return loops.while_loop(going, step, start)[0]


def _chosen(which: Any, x: Any, y: Any) -> Any:
    return tree_util.tree_map(lambda u, v: jnp.where(which, u, v), x, y)


def cg(A: Any, b: Any, x0: Any = None, *, tol: Any = 1e-5, atol: Any = 0.0,  # noqa: N803
       maxiter: int | None = None, M: Any = None) -> tuple[Any, None]:  # noqa: N803
    """The x with A x = b by conjugate gradients; A is Hermitian and positive definite.

    Args:
      A: function of a tree like b that returns one, or a square matrix.
      b: array, or tree of arrays.
      x0: where to start, like b. None: zeros.
      tol, atol: the residual's norm ends below max(tol * norm(b), atol).
      maxiter: most steps. None: ten times the number of elements.
      M: preconditioner, an approximate inverse of A: a function or a matrix.

    Returns:
      (x, None).

    Raises:
      TypeError: A or M is neither function nor array.
      ValueError: a matrix is not square; x0 is not like b.

    Notes:
      Derivatives by b and by what A captures solve another system with A. In reverse mode, too.

    Source: Y. Saad, Iterative Methods for Sparse Linear Systems, algorithm 9.1.

    Example:
      >>> import calque.numpy as jnp
      >>> from calque.scipy.sparse.linalg import cg
      >>> x, _ = cg(lambda v: jnp.array([4.0, 2.0]) * v, jnp.array([8.0, 8.0]))
      >>> print(x.round(4))
      [2. 4.]
    """
    return solved("cg", _cg, A, b, x0, M, tol=tol, atol=atol, maxiter=maxiter, symmetric=True)


def bicgstab(A: Any, b: Any, x0: Any = None, *, tol: Any = 1e-5, atol: Any = 0.0,  # noqa: N803
             maxiter: int | None = None, M: Any = None) -> tuple[Any, None]:  # noqa: N803
    """The x with A x = b by the stabilized biconjugate gradient method; A is any.

    Args:
      A: function of a tree like b that returns one, or a square matrix.
      b: array, or tree of arrays.
      x0: where to start, like b. None: zeros.
      tol, atol: the residual's norm ends below max(tol * norm(b), atol).
      maxiter: most steps. None: ten times the number of elements.
      M: preconditioner, an approximate inverse of A: a function or a matrix.

    Returns:
      (x, None); x is the last one where the method breaks down.

    Raises:
      TypeError, ValueError: as cg.

    Source: H. A. van der Vorst, SIAM J. Sci. Stat. Comput. 13(2), 1992.

    Example:
      >>> import calque.numpy as jnp
      >>> from calque.scipy.sparse.linalg import bicgstab
      >>> x, _ = bicgstab(jnp.array([[2.0, 1.0], [0.0, 4.0]]), jnp.array([4.0, 8.0]))
      >>> print(x.round(4))
      [1. 2.]
    """
    return solved("bicgstab", _bicgstab, A, b, x0, M, tol=tol, atol=atol, maxiter=maxiter,
                  symmetric=False)
