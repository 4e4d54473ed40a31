"""spsolve: sparse systems of equations, solved by SciPy on the host (by NumPy without SciPy); with
lobpcg_standard, of eigen.py, the public module `calque.experimental.sparse.linalg`.

Derivatives are those of a linear solve: the solution is differentiated, not SciPy's steps.
"""
from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from calque.api.callbacks import pure_callback
from calque.core.errors import explain
from calque.dispatch.tracing import ShapeDtypeStruct
from calque.experimental.sparse.eigen import lobpcg_standard
from calque.experimental.sparse.methods import matmul
from calque.experimental.sparse.rows import CSR
from calque.lax.composed import Composed
from calque.lax.implicit import custom_linear_solve
from calque.numpy import asarray

__all__ = ["lobpcg_standard", "spsolve"]


def __dir__() -> list[str]:
    return __all__


def spsolve(data: Any, indices: Any, indptr: Any, b: Any, tol: float = 1e-6, reorder: int = 1
            ) -> Any:
    """The solution x of A x = b with a sparse square matrix A in CSR format.

    Args:
      data: (nse,) values of A.
      indices: (nse,) columns.
      indptr: (n + 1,) where each row starts.
      b: (n,) right-hand side.
      tol: accepted and not used: SciPy decides what is singular.
      reorder: 0: columns are eliminated in their order; otherwise SciPy reorders them.

    Returns:
      (n,) array; NaNs, if A is singular and SciPy is there.

    Raises:
      ValueError: the shapes do not fit.

    Example:
      >>> import calque.numpy as jnp
      >>> from calque.experimental.sparse import CSR
      >>> from calque.experimental.sparse.linalg import spsolve
      >>> A = CSR.fromdense(jnp.array([[2., 0.], [1., 4.]]))
      >>> spsolve(A.data, A.indices, A.indptr, jnp.array([2., 9.]))
      Array([1., 2.], dtype=float32)
    """
    data, indices, indptr, b = map(asarray, (data, indices, indptr, b))
    if b.ndim != 1 or data.ndim != 1 or indices.shape != data.shape or (
            indptr.shape != (b.shape[0] + 1,)):
        raise ValueError(explain(
            f"spsolve: data {data.shape}, indices {indices.shape}, indptr {indptr.shape}, "
            f"b {b.shape} do not fit.",
            fix="give a square CSR matrix of n rows and b of shape (n,)."))
    n = b.shape[0]
    matrix = CSR((data, indices, indptr), shape=(n, n))

    def solver(transposed: bool) -> Any:
        def on_host(*args: Any) -> np.ndarray[Any, Any]:
            return _on_host([np.asarray(a) for a in args], transposed, reorder)
        return lambda _, rhs: pure_callback(
            on_host, ShapeDtypeStruct(rhs.shape, rhs.dtype), data, indices, indptr, rhs)
    return custom_linear_solve(lambda x: matmul(matrix, x), b, solver(False),
                               transpose_solve=solver(True))


spsolve_p = Composed("spsolve", spsolve)


def _on_host(args: list[Any], transposed: bool, reorder: int) -> np.ndarray[Any, Any]:
    """The solution by SciPy, which need not be there: by NumPy's dense solver then."""
    data, indices, indptr, b = args
    try:
        from scipy import sparse  # type: ignore[import-untyped]
        from scipy.sparse import linalg  # type: ignore[import-untyped]
    except ImportError:
        full = np.zeros((len(b), len(b)), data.dtype)
        row = np.repeat(np.arange(len(b)), np.diff(indptr))
        np.add.at(full, (row, indices[:len(row)]), data[:len(row)])
        return np.linalg.solve(full.T if transposed else full, b).astype(b.dtype)
    count = int(indptr[-1])  # what follows is padding
    matrix = sparse.csr_array((data[:count], indices[:count], indptr), shape=(len(b), len(b)))
    matrix = matrix.T if transposed else matrix
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", linalg.MatrixRankWarning)
        found = linalg.spsolve(matrix, b, permc_spec="COLAMD" if reorder else "NATURAL")
    return np.asarray(found, b.dtype)
