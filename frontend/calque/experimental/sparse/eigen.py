"""lobpcg_standard: the largest eigenvalues of a large symmetric matrix, from products with it.

Knyazev, "Toward the optimal preconditioned eigensolver" (SIAM J. Sci. Comput. 23, 2001), without a
preconditioner.  Each step looks for the best vectors in the span of the present ones, their
residuals and the last step's directions; an orthonormal basis of these three blocks is made anew by
a QR factorization, which also fills in for directions that vanish (Duersch, Shao, Yang, Gu, "A
robust and efficient implementation of LOBPCG", 2018, says what goes wrong without that).
"""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import calque.numpy as jnp
from calque.api.loops import while_loop
from calque.core.errors import explain
from calque.dispatch.staging import eval_shape

__all__ = ["lobpcg_standard"]


def lobpcg_standard(A: Any, X: Any, m: int = 100,  # noqa: N803 (the literature's names)
                    tol: float | None = None) -> tuple[Any, Any, Any]:
    """The k largest eigenvalues of a symmetric matrix, and vectors of them.

    Args:
      A: an (n, n) array, or a function that gives A @ V for an (n, j) array V.
      X: (n, k) array: vectors to start from, 0 < 5 k < n.
      m: the most steps.
      tol: a pair is done when |A u - theta u| <= 10 n tol (theta + |A u|); the dtype's eps if None.

    Returns:
      (theta, U, i): k eigenvalues, largest first; (n, k) orthonormal vectors; the number of steps.

    Raises:
      ValueError: shapes or dtypes do not go together.

    Example:
      >>> import calque.numpy as jnp
      >>> from calque.experimental.sparse.linalg import lobpcg_standard
      >>> A = jnp.diag(jnp.arange(1.0, 13.0))
      >>> theta, U, i = lobpcg_standard(A, jnp.ones((12, 2)).at[0, 1].set(2.0))
      >>> [round(float(t), 3) for t in theta]
      [12.0, 11.0]
    """
    start = jnp.asarray(X)
    apply = A if callable(A) else _product(jnp.asarray(A))
    _check(A, apply, start)
    limit = float(jnp.finfo(start.dtype).eps) if tol is None else tol
    n, k = start.shape

    def go_on(state: Any) -> Any:
        return (state[0] < m) & ~state[-1]

    def step(state: Any) -> Any:
        i, vectors, product, directions, theta, _ = state
        basis = _basis(vectors, directions, product - vectors * theta)
        products = apply(basis)  # the step's only one: those of what is in the basis follow
        theta, chosen = _largest(basis.T @ products, k)
        vectors, product = basis @ chosen, products @ chosen
        moved = basis @ chosen.at[:k].set(0)
        size = jnp.linalg.norm(product - vectors * theta, axis=0)
        done = jnp.all(size <= 10 * n * limit * (theta + jnp.linalg.norm(product, axis=0)))
        return i + 1, vectors, product, moved, theta, done & (limit > 0)

    first = jnp.linalg.qr(start)[0]
    products = apply(first)
    theta, chosen = _largest(first.T @ products, k)
    state = (jnp.int32(0), first @ chosen, products @ chosen, jnp.zeros_like(first), theta,
             jnp.bool_(False))
    i, vectors, _, _, theta, _ = while_loop(go_on, step, state)
    return theta, vectors, i


def _product(a: Any) -> Callable[[Any], Any]:
    return lambda v: jnp.matmul(a, v, precision="highest")


def _basis(*blocks: Any) -> Any:
    """Orthonormal columns that span the blocks; where a column vanishes, another direction."""
    sizes = [jnp.linalg.norm(b, axis=0) for b in blocks]
    scaled = [b / jnp.where(s > 0, s, 1) for b, s in zip(blocks, sizes)]
    return jnp.linalg.qr(jnp.concatenate(scaled, 1))[0]


def _largest(small: Any, k: int) -> tuple[Any, Any]:
    """The k largest eigenvalues of a small symmetric matrix, and the vectors."""
    values, vectors = jnp.linalg.eigh((small + small.T) / 2)
    return values[::-1][:k], vectors[:, ::-1][:, :k]


def _check(a: Any, apply: Callable[[Any], Any], start: Any) -> None:
    if start.ndim != 2:
        raise ValueError(explain(f"lobpcg: X must be a matrix, got shape {start.shape}."))
    n, k = start.shape
    if not k:
        raise ValueError(explain(f"lobpcg: expected search dim > 0 (was {k})."))
    if not callable(a) and np.shape(a) != (n, n):
        raise ValueError(explain(f"lobpcg: A must be {(n, n)}, got {np.shape(a)}.",
                                 fix="X has one row for each row of A."))
    if k * 5 >= n:
        raise ValueError(explain(
            f"lobpcg: expected search dim * 5 < matrix dim (was {k * 5}, {n}).",
            fix="use jnp.linalg.eigh for a matrix of this size."))
    made = eval_shape(apply, start)
    if made.dtype != start.dtype:
        raise ValueError(explain(
            f"lobpcg: A, X must have same dtypes (were {made.dtype}, {start.dtype}).",
            fix="convert one of them."))
    if made.shape != start.shape:
        raise ValueError(explain(
            f"lobpcg: A must be {(n, n)}, got a product of shape {made.shape} with X."))
