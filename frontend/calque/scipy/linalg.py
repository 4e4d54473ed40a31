"""Linear algebra under SciPy's names: triangular systems, Cholesky and LU factors and what they
solve, expm, block_diag, toeplitz.  The work is done by calque.numpy.linalg and calque.lax.linalg.
"""
from __future__ import annotations

from typing import Any

import numpy as np

from calque.core import dtypes
from calque.core.avals import dtype_of, ndim_of, shape_of
from calque.core.dims import min_dim
from calque.core.errors import explain
from calque.lax import linalg as la
from calque.lax.implicit import custom_linear_solve
from calque.numpy import arrange, creation, picking, util
from calque.numpy import decompositions as dc
from calque.numpy import linalg as nl
from calque.numpy.contract import matmul
from calque.numpy.parts import conj
from calque.numpy.shapes import swapaxes
from calque.primitives import elementwise as ew
from calque.primitives import shape as sh
from calque.scipy.matrices import arrays, block_diag, check_square, expm, toeplitz
from calque.scipy.matrix_functions import (
    eigh_tridiagonal,
    expm_frechet,
    funm,
    hessenberg,
    polar,
    qr,
    qr_multiply,
    rsf2csf,
    schur,
    solve_sylvester,
    sqrtm,
)
from calque.scipy.special_matrices import (
    circulant,
    companion,
    convolution_matrix,
    dft,
    fiedler,
    fiedler_companion,
    hadamard,
    hankel,
    helmert,
    hilbert,
    invhilbert,
    invpascal,
    leslie,
    pascal,
)


def _columns(name: str, a: Any, b: Any, each: bool = True) -> tuple[Any, Any, bool]:
    """Leading axes broadcast; a vector b gets an axis, and so does one, with `each`, that is a
    vector for each matrix: of one axis less (as in JAX, where only jnp.linalg.solve wants one
    vector)."""
    vector = ndim_of(b) == 1 or (
        each and ndim_of(b) == ndim_of(a) - 1 and shape_of(b)[-1] == shape_of(a)[-1])
    if vector:
        b = sh.reshape(b, (*shape_of(b), 1))
    if ndim_of(b) < 2 or shape_of(b)[-2] != shape_of(a)[-1]:
        raise ValueError(explain(
            f"{name}: incompatible shapes {shape_of(a)} and {shape_of(b)}.",
            fix="b needs as many rows as a has columns."))
    lead = util.common_shape(name, [shape_of(a)[:-2], shape_of(b)[:-2]])
    return (util.broadcast_to(a, (*lead, *shape_of(a)[-2:])),
            util.broadcast_to(b, (*lead, *shape_of(b)[-2:])), vector)


def _dropped(x: Any, vector: bool) -> Any:
    return sh.squeeze(x, (ndim_of(x) - 1,)) if vector else x


# ---- triangular systems
@util.planned
def solve_triangular(a: Any, b: Any, trans: int | str = 0, lower: bool = False,
                     unit_diagonal: bool = False, overwrite_b: bool = False, debug: Any = None,
                     check_finite: bool = True) -> Any:
    """The x with op(a) x = b, for a triangular matrix a.

    Args:
      a: array of shape (..., n, n); one triangle of it is read.
      b: array of shape (..., n, m), or (n,), or (..., n) with one axis less than the matrices.
      trans: op is 0 or 'N': a itself, 1 or 'T': transposed, 2 or 'C': transposed and conjugated.
      lower: which triangle is read.
      unit_diagonal: the diagonal is taken as 1 and not read.
      overwrite_b, debug, check_finite: accepted for compatibility.

    Returns:
      An array of b's shape.

    Raises:
      TypeError: an argument is not an array.
      ValueError: shapes do not fit, or trans is unknown.

    Example:
      >>> import calque.numpy as jnp
      >>> from calque.scipy import linalg
      >>> linalg.solve_triangular(jnp.array([[2.0, 0.0], [1.0, 1.0]]), jnp.array([2.0, 3.0]),
      ...                         lower=True)
      Array([1., 2.], dtype=float32)
    """
    kinds = {0: 0, "N": 0, 1: 1, "T": 1, 2: 2, "C": 2}
    if trans not in kinds:
        raise ValueError(explain(f"Invalid 'trans' argument. Got {trans}",
                                 fix="use 0, 1, 2, 'N', 'T' or 'C'."))
    util.check_arrays("solve_triangular", a, b)
    with util.lazy_eval("solve_triangular"):
        a, b = arrays("solve_triangular", a, b)
        a, b, vector = _columns("solve_triangular", check_square("solve_triangular", a), b)
        x = la.triangular_solve(a, b, left_side=True, lower=lower, transpose_a=kinds[trans] > 0,
                                conjugate_a=kinds[trans] == 2, unit_diagonal=unit_diagonal)
        return _dropped(x, vector)


# ---- Cholesky
@util.planned
def cholesky(a: Any, lower: bool = False, overwrite_a: bool = False,
             check_finite: bool = True) -> Any:
    """The triangular factor of a positive definite matrix: a = R^H R, or a = L L^H.

    Args:
      a: array of shape (..., n, n).
      lower: return L instead of R.
      overwrite_a, check_finite: accepted for compatibility.

    Returns:
      An array of a's shape; NaN where a is not positive definite.

    Raises:
      TypeError: a is not an array.
      ValueError: a is not square.

    Example:
      >>> import calque.numpy as jnp
      >>> from calque.scipy import linalg
      >>> linalg.cholesky(jnp.array([[4.0, 2.0], [2.0, 5.0]]))
      Array([[2., 1.],
             [0., 2.]], dtype=float32)
    """
    util.check_arrays("cholesky", a)
    with util.lazy_eval("cholesky"):
        (a,) = arrays("cholesky", a)
        check_square("cholesky", a)
        factor = la.cholesky(a if lower else conj(swapaxes(a, -1, -2)), symmetrize_input=False)
        return factor if lower else conj(swapaxes(factor, -1, -2))


@util.planned
def cho_factor(a: Any, lower: bool = False, overwrite_a: bool = False,
               check_finite: bool = True) -> tuple[Any, bool]:
    """The Cholesky factor for cho_solve.

    Args:
      a: array of shape (..., n, n).
      lower: which factor.
      overwrite_a, check_finite: accepted for compatibility.

    Returns:
      (factor, lower).

    Raises:
      TypeError: a is not an array.
      ValueError: a is not square.

    Example:
      >>> import calque.numpy as jnp
      >>> from calque.scipy import linalg
      >>> linalg.cho_factor(jnp.array([[4.0]]))
      (Array([[2.]], dtype=float32), False)
    """
    return cholesky(a, lower), lower


@util.planned
def cho_solve(c_and_lower: tuple[Any, bool], b: Any, overwrite_b: bool = False,
              check_finite: bool = True) -> Any:
    """The x with a x = b, from the factor of a.

    Args:
      c_and_lower: what cho_factor returns.
      b: array of shape (..., n, m), or (n,), or (..., n) with one axis less than the matrices.
      overwrite_b, check_finite: accepted for compatibility.

    Returns:
      An array of b's shape.

    Raises:
      TypeError: an argument is not an array.
      ValueError: shapes do not fit.

    Example:
      >>> import calque.numpy as jnp
      >>> from calque.scipy import linalg
      >>> linalg.cho_solve((jnp.array([[2.0]]), True), jnp.array([8.0]))
      Array([2.], dtype=float32)
    """
    c, lower = c_and_lower
    util.check_arrays("cho_solve", c, b)
    with util.lazy_eval("cho_solve"):
        c, b = arrays("cho_solve", c, b)
        c, b, vector = _columns("cho_solve", check_square("cho_solve", c), b)
        for step in ((False, True) if lower else (True, False)):
            b = la.triangular_solve(c, b, left_side=True, lower=lower, transpose_a=step,
                                    conjugate_a=step)
        return _dropped(b, vector)


# ---- LU
@util.planned
def lu_factor(a: Any, overwrite_a: bool = False, check_finite: bool = True) -> tuple[Any, Any]:
    """The LU factors for lu_solve.

    Args:
      a: array of shape (..., n, n).
      overwrite_a, check_finite: accepted for compatibility.

    Returns:
      (both factors in one matrix, pivots).

    Raises:
      TypeError: a is not an array.

    Example:
      >>> import calque.numpy as jnp
      >>> from calque.scipy import linalg
      >>> linalg.lu_factor(jnp.array([[2.0]]))
      (Array([[2.]], dtype=float32), Array([0], dtype=int32))
    """
    util.check_arrays("lu_factor", a)
    with util.lazy_eval("lu_factor"):
        (a,) = arrays("lu_factor", a)
        factors, pivots, _ = la.lu(a)
        return factors, pivots


@util.planned
def lu_solve(lu_and_piv: tuple[Any, Any], b: Any, trans: int = 0, overwrite_b: bool = False,
             check_finite: bool = True) -> Any:
    """The x with op(a) x = b, from the factors of a.

    Args:
      lu_and_piv: what lu_factor returns.
      b: array of shape (..., n, m), or (n,), or (..., n) with one axis less than the matrices.
      trans: op is 0: a itself, 1: transposed, 2: transposed and conjugated.
      overwrite_b, check_finite: accepted for compatibility.

    Returns:
      An array of b's shape.

    Raises:
      TypeError: an argument is not an array.
      ValueError: shapes do not fit, or trans is unknown.

    Example:
      >>> import calque.numpy as jnp
      >>> from calque.scipy import linalg
      >>> linalg.lu_solve(linalg.lu_factor(jnp.array([[2.0]])), jnp.array([4.0]))
      Array([2.], dtype=float32)
    """
    factors, pivots = lu_and_piv
    util.check_arrays("lu_solve", factors, pivots, b)
    if trans not in (0, 1, 2):
        raise ValueError(explain(f"'trans' value must be 0, 1, or 2, got {trans}"))
    with util.lazy_eval("lu_solve"):
        factors, b = arrays("lu_solve", factors, b)
        factors, b, vector = _columns("lu_solve", check_square("lu_solve", factors), b)
        lead, n = shape_of(b)[:-2], shape_of(b)[-2]
        order = la.lu_pivots_to_permutation(util.array(pivots), n)
        order = util.broadcast_to(order, (*lead, n))
        solve = la.triangular_solve
        if trans == 0:
            b = _rows(b, order)
            b = solve(factors, b, left_side=True, lower=True, unit_diagonal=True)
            b = solve(factors, b, left_side=True, lower=False)
        else:
            how = {"left_side": True, "transpose_a": True, "conjugate_a": trans == 2}
            b = solve(factors, b, lower=False, **how)
            b = solve(factors, b, lower=True, unit_diagonal=True, **how)
            b = _rows(b, _inverse(order))
        return _dropped(b, vector)


def _rows(b: Any, order: Any) -> Any:
    """The rows of b in another order, in every matrix."""
    shape = shape_of(b)
    places = sh.columns_of(order, shape)
    return picking.take_along_axis(b, places, axis=-2)


def _inverse(order: Any) -> Any:
    from calque.numpy.sorting import argsort
    return argsort(order, axis=-1)


@util.planned
def lu(a: Any, permute_l: bool = False, overwrite_a: bool = False, check_finite: bool = True
       ) -> tuple[Any, ...]:
    """The factors a = P L U.

    Args:
      a: array of shape (..., m, n).
      permute_l: return P L instead of P and L.
      overwrite_a, check_finite: accepted for compatibility.

    Returns:
      (P, L, U), or (P L, U).

    Raises:
      TypeError: a is not an array.

    Example:
      >>> import calque.numpy as jnp
      >>> from calque.scipy import linalg
      >>> p, l, u = linalg.lu(jnp.array([[1.0, 2.0], [2.0, 2.0]]))
      >>> u
      Array([[2., 2.],
             [0., 1.]], dtype=float32)
    """
    util.check_arrays("lu", a)
    with util.lazy_eval("lu"):
        (a,) = arrays("lu", a)
        factors, _, order = la.lu(a)
        m, n = shape_of(a)[-2:]
        k, kind = min_dim(m, n), dtype_of(factors)
        real = np.empty(0, kind).real.dtype
        moved = order[..., None, :] == sh.iota(dtypes.int32, (m, 1), 0)
        permutation = ew.convert(moved, real)
        low = arrange.tril(factors, -1)[..., :, :k] + creation.eye(m, k, dtype=kind)
        high = arrange.triu(factors)[..., :k, :]
        if permute_l:
            return matmul(ew.convert(permutation, kind), low, precision="highest"), high
        return permutation, low, high


# ---- under SciPy's signatures
@util.planned
def solve(a: Any, b: Any, lower: bool = False, overwrite_a: bool = False,
          overwrite_b: bool = False, debug: bool = False, check_finite: bool = True,
          assume_a: str = "gen") -> Any:
    """The x with a x = b.

    Args:
      a: array of shape (..., n, n).
      b: array of shape (n,) or (..., n, m); with assume_a='pos' also (..., n) with one axis less
        than a.
      lower: with assume_a='pos': which triangle is read.
      overwrite_a, overwrite_b, debug, check_finite: accepted for compatibility.
      assume_a: 'gen', 'sym', 'her', or 'pos' (positive definite: solved by Cholesky).

    Returns:
      An array of b's shape.

    Raises:
      TypeError: an argument is not an array.
      ValueError: shapes do not fit, or assume_a is unknown.

    Example:
      >>> import calque.numpy as jnp
      >>> from calque.scipy import linalg
      >>> linalg.solve(jnp.array([[2.0]]), jnp.array([4.0]))
      Array([2.], dtype=float32)
    """
    if assume_a not in ("gen", "sym", "her", "pos"):
        raise ValueError(explain(f"Expected assume_a to be one of ['gen', 'sym', 'her', 'pos']; "
                                 f"got {assume_a!r}"))
    util.check_arrays("solve", a, b)
    with util.lazy_eval("solve"):
        a, b = arrays("solve", a, b)
        check_square("solve", a)
        a, b, vector = _columns("solve", a, b, assume_a == "pos")
        if assume_a != "pos":
            return _dropped(nl.solve(a, b), vector)
        # by the whole of a, so that the derivative does not depend on the triangle that is read
        factor = la.cholesky(a if lower else conj(swapaxes(a, -1, -2)), symmetrize_input=False)
        x = custom_linear_solve(  # (the transpose of a Hermitian matrix is its conjugate)
            lambda x: matmul(a, x, precision="highest"), b,
            lambda _, b: cho_solve((factor, True), b),
            lambda _, b: conj(cho_solve((factor, True), conj(b))), symmetric=a.dtype.kind != "c")
        return _dropped(x, vector)


def inv(a: Any, overwrite_a: bool = False, check_finite: bool = True) -> Any:
    """The inverse of a matrix.

    Args:
      a: array of shape (..., n, n).
      overwrite_a, check_finite: accepted for compatibility.

    Returns:
      An array of a's shape.

    Raises:
      TypeError: a is not an array.
      ValueError: a is not square.

    Example:
      >>> import calque.numpy as jnp
      >>> from calque.scipy import linalg
      >>> linalg.inv(jnp.array([[2.0]]))
      Array([[0.5]], dtype=float32)
    """
    return nl.inv(a)


def det(a: Any, overwrite_a: bool = False, check_finite: bool = True) -> Any:
    """The determinant of a matrix.

    Args:
      a: array of shape (..., n, n).
      overwrite_a, check_finite: accepted for compatibility.

    Returns:
      An array of the leading axes.

    Raises:
      TypeError: a is not an array.
      ValueError: a is not square.

    Example:
      >>> import calque.numpy as jnp
      >>> from calque.scipy import linalg
      >>> linalg.det(jnp.array([[2.0]]))
      Array(2., dtype=float32)
    """
    return nl.det(a)


def svd(a: Any, full_matrices: bool = True, compute_uv: bool = True, overwrite_a: bool = False,
        check_finite: bool = True, lapack_driver: str = "gesdd") -> Any:
    """The singular value decomposition a = U diag(s) V^H.

    Args:
      a: array of shape (..., m, n).
      full_matrices: U and V are square.
      compute_uv: also return U and V^H.
      overwrite_a, check_finite, lapack_driver: accepted for compatibility.

    Returns:
      (U, s, V^H), or s.

    Raises:
      TypeError: a is not an array.

    Example:
      >>> import calque.numpy as jnp
      >>> from calque.scipy import linalg
      >>> linalg.svd(jnp.array([[2.0]]), compute_uv=False)
      Array([2.], dtype=float32)
    """
    made = dc.svd(a, full_matrices, compute_uv)
    return tuple(made) if compute_uv else made


def eigh(a: Any, b: Any = None, lower: bool = True, eigvals_only: bool = False,
         overwrite_a: bool = False, overwrite_b: bool = False, turbo: bool = True,
         eigvals: None = None, type: int = 1, check_finite: bool = True) -> Any:
    """Eigenvalues, in order, and eigenvectors of a symmetric or Hermitian matrix.

    Args:
      a: array of shape (..., n, n).
      b: not supported.
      lower: which triangle is read.
      eigvals_only: leave the eigenvectors out.
      overwrite_a, overwrite_b, turbo, check_finite: accepted for compatibility.
      eigvals: not supported.
      type: 1.

    Returns:
      (eigenvalues, eigenvectors as columns), or the eigenvalues.

    Raises:
      NotImplementedError: b, eigvals or another type is asked for.
      TypeError: a is not an array.

    Example:
      >>> import calque.numpy as jnp
      >>> from calque.scipy import linalg
      >>> linalg.eigh(jnp.array([[2.0]]), eigvals_only=True)
      Array([2.], dtype=float32)
    """
    for given, text in ((b is not None, "Only the b=None case of eigh is implemented"),
                        (type != 1, "Only the type=1 case of eigh is implemented."),
                        (eigvals is not None, "Only the eigvals=None case of eigh is "
                                              "implemented.")):
        if given:
            raise NotImplementedError(explain(text))
    side = "L" if lower else "U"
    if eigvals_only:
        return dc.eigvalsh(a, side)
    return tuple(dc.eigh(a, side))


__all__ = ["block_diag", "cho_factor", "cho_solve", "cholesky", "circulant", "companion",
           "convolution_matrix", "det", "dft", "eigh", "eigh_tridiagonal", "expm", "expm_frechet",
           "fiedler", "fiedler_companion", "funm", "hadamard", "hankel", "helmert", "hessenberg",
           "hilbert", "inv", "invhilbert", "invpascal", "leslie", "lu", "lu_factor", "lu_solve",
           "pascal", "polar", "qr", "qr_multiply", "rsf2csf", "schur", "solve", "solve_sylvester",
           "solve_triangular", "sqrtm", "svd", "toeplitz"]


def __dir__() -> list[str]:
    return __all__
