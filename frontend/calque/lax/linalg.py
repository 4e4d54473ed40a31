"""lax.linalg: factorizations and the systems they solve.

Leading axes are a batch; what rests on orthogonal matrices lies in decompositions.py.
Start reading at `cholesky`.
"""
from __future__ import annotations

import operator
from typing import Any

from calque.core.avals import ndim_of, shape_of
from calque.core.dims import Dim
from calque.core.errors import explain
from calque.core.lists import inserted
from calque.dispatch.eager import lazy_eval
from calque.dispatch.replay import planned
from calque.lax.decompositions import (
    EighImplementation,
    EigImplementation,
    SvdAlgorithm,
    cholesky_update,
    eig,
    eigh,
    hessenberg,
    householder_product,
    ormqr,
    qdwh,
    qr,
    schur,
    svd,
    symmetric_product,
    tridiagonal,
    tridiagonal_solve,
)
from calque.lax.operands import as_operand
from calque.primitives import elementwise as ew
from calque.primitives import linalg as la
from calque.primitives import orthogonal as og
from calque.primitives import shape as sh
from calque.primitives import spectral as sp
from calque.primitives import tridiagonal as td


def cholesky(x: Any, *, symmetrize_input: bool = True) -> Any:
    """The lower triangular L with L L^H = x, for a positive definite matrix.

    Args:
      x: array of shape (..., n, n), float32 or wider, real or complex.
      symmetrize_input: factor (x + x^H) / 2; else the lower triangle alone is read.

    Returns:
      An array of x's shape and dtype, 0 above the diagonal; where a matrix is not positive
      definite, NaN on and below it.

    Raises:
      TypeError: x is no array, or its last two sizes differ.
      ValueError: the last two sizes differ, with symmetrize_input=False.
      NotImplementedError: x is float16 or bfloat16.

    Example:
      >>> import numpy as np
      >>> from calque import lax
      >>> lax.linalg.cholesky(np.array([[4.0, 2.0], [2.0, 5.0]], np.float32))
      Array([[2., 0.],
             [1., 2.]], dtype=float32)
    """
    x = as_operand("cholesky", x)
    shape = shape_of(x)
    if len(shape) < 2:
        raise TypeError(explain(
            f"cholesky: transpose permutation isn't a permutation of operand dimensions: x needs "
            f"two axes, got shape {shape}.", fix="pass an array of shape (..., n, n)."))
    with lazy_eval("cholesky"):
        if symmetrize_input:
            if shape[-1] != shape[-2]:
                raise TypeError(explain(
                    "cholesky: add got incompatible shapes for broadcasting: "
                    f"{shape}, {(*shape[:-2], shape[-1], shape[-2])}.",
                    fix="pass an array of shape (..., n, n)."))
            total = ew.add(x, la.adjoint(x))
            x = ew.div(total, ew.const(total, 2))
        return la.lower_part(la.cholesky(x))


@planned
def triangular_solve(a: Any, b: Any, *, left_side: bool = False, lower: bool = False,
                     transpose_a: bool = False, conjugate_a: bool = False,
                     unit_diagonal: bool = False) -> Any:
    """The x with op(a) x = b, or x op(a) = b, for a triangular matrix a.

    Args:
      a: array of shape (..., n, n); one triangle of it is read.
      b: array of shape (..., n, m), or (..., m, n) where left_side is False, of a's dtype and
        leading axes; with one axis less, one vector for each matrix.
      left_side: whether a stands left of x.
      lower: which triangle is read.
      transpose_a: op transposes a.
      conjugate_a: op conjugates a.
      unit_diagonal: the diagonal is taken as 1 and not read.

    Returns:
      An array of b's shape and dtype.  Where the diagonal holds 0 it is infinite or NaN.

    Raises:
      TypeError: an argument is no array of floats, or dtypes differ.
      ValueError: shapes do not fit.

    Example:
      >>> import numpy as np
      >>> from calque import lax
      >>> a, b = np.array([[2, 0], [1, 1]], np.float32), np.array([[2], [3]], np.float32)
      >>> lax.linalg.triangular_solve(a, b, left_side=True, lower=True)
      Array([[1.],
             [2.]], dtype=float32)
    """
    a, b = as_operand("triangular_solve", a), as_operand("triangular_solve", b, 1)
    with lazy_eval("triangular_solve"):
        shape = shape_of(b)
        vector = len(shape) == ndim_of(a) - 1
        if vector:
            axis = len(shape) if left_side else len(shape) - 1
            b = sh.reshape(b, inserted(shape, axis, 1))
        x = la.triangular_solve(
            a, b, left_side=bool(left_side), lower=bool(lower), transpose_a=bool(transpose_a),
            conjugate_a=bool(conjugate_a), unit_diagonal=bool(unit_diagonal))
        return sh.reshape(x, shape) if vector else x


def lu(x: Any) -> tuple[Any, Any, Any]:
    """LU decomposition with exchanges of rows: x[permutation] = L U.

    Args:
      x: array of shape (..., m, n), float32 or wider, real or complex.

    Returns:
      (lu, pivots, permutation): lu of x's shape holds U on and above the diagonal and L, whose
      diagonal is 1, below; pivots of shape (..., min(m, n)), int32: row i was exchanged with row
      pivots[i]; permutation of shape (..., m), int32.

    Raises:
      TypeError: x is no array of floats with two axes.
      NotImplementedError: x is float16 or bfloat16.

    Example:
      >>> import numpy as np
      >>> from calque import lax
      >>> lax.linalg.lu(np.array([[1, 2], [4, 4]], np.float32))[0]
      Array([[4.  , 4.  ],
             [0.25, 1.  ]], dtype=float32)
    """
    factors, pivots, permutation = la.lu(as_operand("lu", x))
    return factors, pivots, permutation


def lu_pivots_to_permutation(pivots: Any, permutation_size: int) -> Any:
    """The order of rows after exchanging row i with row pivots[i], for i = 0, 1, ...

    Args:
      pivots: int32 array of shape (..., k).
      permutation_size: number of rows, at least k.

    Returns:
      An int32 array of shape (..., permutation_size).

    Raises:
      TypeError: pivots are no int32 array with an axis.
      ValueError: permutation_size is less than k.

    Example:
      >>> import numpy as np
      >>> from calque import lax
      >>> lax.linalg.lu_pivots_to_permutation(np.array([1, 2, 2], np.int32), 4)
      Array([1, 2, 0, 3], dtype=int32)
    """
    if not isinstance(permutation_size, Dim):
        permutation_size = operator.index(permutation_size)
    return la.lu_pivots_to_permutation_p.bind(
        as_operand("lu_pivots_to_permutation", pivots), permutation_size=permutation_size)


cholesky_p = la.cholesky_p
triangular_solve_p = la.triangular_solve_p
lu_p = la.lu_p
lu_pivots_to_permutation_p = la.lu_pivots_to_permutation_p
qr_p, householder_product_p = og.qr_p, og.householder_product_p
eigh_p, svd_p = og.eigh_p, og.svd_p
eig_p, schur_p = sp.eig_p, sp.schur_p
tridiagonal_p, hessenberg_p = td.tridiagonal_p, td.hessenberg_p
tridiagonal_solve_p, cholesky_update_p = td.tridiagonal_solve_p, td.cholesky_update_p

__all__ = [
    "EigImplementation", "EighImplementation", "SvdAlgorithm", "cholesky", "cholesky_p",
    "cholesky_update", "cholesky_update_p", "eig", "eig_p", "eigh", "eigh_p", "hessenberg",
    "hessenberg_p", "householder_product", "householder_product_p", "lu", "lu_p",
    "lu_pivots_to_permutation", "lu_pivots_to_permutation_p", "ormqr", "qdwh", "qr", "qr_p",
    "schur", "schur_p", "svd", "svd_p", "symmetric_product", "triangular_solve",
    "triangular_solve_p", "tridiagonal", "tridiagonal_p", "tridiagonal_solve",
    "tridiagonal_solve_p"]


def __dir__() -> list[str]:
    return __all__
