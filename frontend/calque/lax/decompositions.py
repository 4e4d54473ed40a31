"""lax.linalg: qr, eigh, svd and the reductions they rest on; public through lax/linalg.py.

Leading axes are a batch.  Start reading at `qr`.
"""
from __future__ import annotations

import enum
from typing import Any

from calque.core.avals import aval_of, dtype_of, is_complex, ndim_of, shape_of
from calque.core.dims import min_dim
from calque.core.errors import explain
from calque.dispatch.eager import lazy_eval
from calque.lax.operands import as_operand
from calque.primitives import elementwise as ew
from calque.primitives import linalg as la
from calque.primitives import orthogonal as og
from calque.primitives import shape as sh
from calque.primitives import spectral as sp
from calque.primitives import tridiagonal as td
from calque.primitives.reduce import reduce_sum


class EighImplementation(enum.Enum):
    """Names of algorithms that `eigh` takes; the target's form decides (docs/architecture.md).

    Example:
      >>> from calque import lax
      >>> lax.linalg.EighImplementation("jacobi").name
      'JACOBI'
    """

    QR = "qr"
    JACOBI = "jacobi"
    QDWH = "qdwh"


class SvdAlgorithm(enum.Enum):
    """Names of algorithms that `svd` takes; the target's form decides (docs/architecture.md).

    Example:
      >>> from calque import lax
      >>> lax.linalg.SvdAlgorithm.QR.value
      'QR'
    """

    DEFAULT = "default"
    QR = "QR"
    JACOBI = "Jacobi"
    POLAR = "polar"
    DIVIDE_AND_CONQUER = "divide_and_conquer"


def qr(x: Any, *, pivoting: bool = False, full_matrices: bool = True,
       use_magma: bool | None = None) -> tuple[Any, ...]:
    """QR decomposition: x = Q R, Q with orthonormal columns, R upper triangular.

    Args:
      x: array of shape (..., m, n), float32 or wider, real or complex.
      pivoting: x[:, p] = Q R with the diagonal of R falling in size.
      full_matrices: Q has m columns, else min(m, n).
      use_magma: accepted for JAX's sake.

    Returns:
      (Q, R), or (Q, R, p) with pivoting; p of shape (..., n), int32.  R's diagonal is real, its
      signs are LAPACK's.

    Raises:
      TypeError: x is no array of floats with two axes.
      NotImplementedError: x is float16 or bfloat16.

    Example:
      >>> import numpy as np
      >>> from calque import lax
      >>> q, r = lax.linalg.qr(np.array([[3.0], [4.0]], np.float32), full_matrices=False)
      >>> r
      Array([[-5.]], dtype=float32)
    """
    return tuple(og.qr_p.bind(as_operand("qr", x), full_matrices=bool(full_matrices),
                              pivoting=bool(pivoting), use_magma=use_magma))


def householder_product(a: Any, taus: Any) -> Any:
    """The product of reflections I - tau v v^H that QR decompositions give.

    Args:
      a: array of shape (..., m, n), m >= n: reflection i is column i below the diagonal, where it
        is 1.
      taus: array of shape (..., k), k <= n, of a's dtype.

    Returns:
      The first n columns of the product, an array of a's shape.

    Raises:
      TypeError: an argument is no array of floats, or dtypes differ.
      ValueError: shapes do not fit.

    Example:
      >>> import numpy as np
      >>> from calque import lax
      >>> lax.linalg.householder_product(np.array([[0.0], [1.0]], np.float32),
      ...                                np.ones(1, np.float32))
      Array([[ 0.],
             [-1.]], dtype=float32)
    """
    return og.householder_product_p.bind(as_operand("householder_product", a),
                                         as_operand("householder_product", taus, 1))


def ormqr(a: Any, taus: Any, c: Any, *, left: bool = True, transpose: bool = False) -> Any:
    """Q c or c Q for the unitary matrix Q of all m rows that reflections make.

    Args:
      a: array of shape (..., m, n), as in `householder_product`.
      taus: array of shape (..., k).
      c: array of shape (..., m, p), or (..., p, m) with left=False.
      left: whether Q stands left of c.
      transpose: take Q^H.

    Returns:
      An array of c's shape and dtype.

    Raises:
      TypeError: an argument is no array of floats, or dtypes differ.
      ValueError: shapes do not fit.

    Example:
      >>> import numpy as np
      >>> from calque import lax
      >>> a, taus = np.array([[0.0], [1.0]], np.float32), np.ones(1, np.float32)
      >>> lax.linalg.ormqr(a, taus, np.eye(2, dtype=np.float32))
      Array([[ 0., -1.],
             [-1.,  0.]], dtype=float32)
    """
    a, taus, c = (as_operand("ormqr", x, i) for i, x in enumerate((a, taus, c)))
    for i, x in enumerate((a, taus, c)):
        la.check_rank("ormqr", i, aval_of(x), 1 if i == 1 else 2)
    m, side = shape_of(a)[-2], shape_of(c)[-2 if left else -1]
    if m != side:
        raise ValueError(explain(
            f"ormqr with left={bool(left)} expects c to have the same number of "
            f"{'rows' if left else 'columns'} as the Householder matrix a. Got a shape "
            f"{shape_of(a)} and c shape {shape_of(c)}.",
            fix="pass left=False to multiply from the right."))
    with lazy_eval("ormqr"):
        k = shape_of(taus)[-1]
        whole = la.padded(la.cut(a, m, min_dim(min_dim(k, m), shape_of(a)[-1])), m, m)
        q = og.householder_product_p.bind(whole, taus)
        q = la.adjoint(q) if transpose else q
        return la.product(q, c) if left else la.product(c, q)


def eigh(x: Any, *, lower: bool = True, symmetrize_input: bool = True,
         sort_eigenvalues: bool = True, subset_by_index: tuple[int, int] | None = None,
         implementation: EighImplementation | None = None) -> tuple[Any, Any]:
    """Eigenvectors and eigenvalues of Hermitian matrices: x = V diag(w) V^H.

    Args:
      x: array of shape (..., n, n), float32 or wider, real or complex.
      lower: with symmetrize_input=False, which triangle is read.
      symmetrize_input: decompose (x + x^H) / 2.
      sort_eigenvalues: ascending order; it is kept in any case.
      subset_by_index: None or (0, n).
      implementation: accepted for JAX's sake.

    Returns:
      (V, w): V of x's shape, eigenvectors in its columns; w of shape (..., n), real.  NaN where x
      holds NaN or infinities.

    Raises:
      TypeError: x is no array of floats, or not square.
      ValueError: not square, with symmetrize_input=False.
      NotImplementedError: x is float16 or bfloat16, or a part of the eigenvalues is asked for.

    Example:
      >>> import numpy as np
      >>> from calque import lax
      >>> lax.linalg.eigh(np.array([[2.0, 1.0], [1.0, 2.0]], np.float32))[1]
      Array([1., 3.], dtype=float32)
    """
    x = _hermitian("eigh", x, symmetrize_input)
    _whole("eigh", subset_by_index, shape_of(x)[-1])
    with lazy_eval("eigh"):
        v, w = og.eigh_p.bind(symmetrized(x) if symmetrize_input else x, lower=bool(lower),
                              sort_eigenvalues=bool(sort_eigenvalues), compute_vectors=True,
                              subset_by_index=subset_by_index, algorithm=implementation)
        return v, w


def eigenvalues(x: Any, *, lower: bool, symmetrize_input: bool) -> Any:
    """The ascending eigenvalues alone, for numpy.linalg."""
    x = _hermitian("eigh", x, symmetrize_input)
    with lazy_eval("eigh"):
        (w,) = og.eigh_p.bind(symmetrized(x) if symmetrize_input else x, lower=lower,
                              sort_eigenvalues=True, compute_vectors=False,
                              subset_by_index=None, algorithm=None)
        return w


def symmetrized(x: Any) -> Any:
    """(x + x^H) / 2."""
    total = ew.add(x, la.adjoint(x))
    return ew.div(total, ew.const(total, 2))


def _hermitian(name: str, x: Any, symmetrize: bool) -> Any:
    """x as an operand; square where it is added to its transpose."""
    x = as_operand(name, x)
    shape = shape_of(x)
    if len(shape) < 2:
        raise TypeError(explain(
            f"eigh: transpose permutation isn't a permutation of operand dimensions: x needs two "
            f"axes, got shape {shape}.", fix="pass an array of shape (..., n, n)."))
    if symmetrize and shape[-1] != shape[-2]:
        raise TypeError(explain(
            f"{name}: add got incompatible shapes for broadcasting: "
            f"{shape}, {(*shape[:-2], shape[-1], shape[-2])}.",
            fix="pass an array of shape (..., n, n)."))
    return x


def _whole(name: str, subset: Any, n: int) -> None:
    if subset is not None and tuple(subset) != (0, n):
        raise NotImplementedError(explain(
            f"{name}: subset_by_index not supported on CPU and GPU",
            fix=f"leave it out and take a part of the result, or pass (0, {n})."))


class EigImplementation(enum.Enum):
    """Names of libraries that `eig` takes; the target's form decides (docs/architecture.md).

    Example:
      >>> from calque import lax
      >>> lax.linalg.EigImplementation("lapack").name
      'LAPACK'
    """

    CUSOLVER = "cusolver"
    MAGMA = "magma"
    LAPACK = "lapack"


def eig(x: Any, *, compute_left_eigenvectors: bool = True,
        compute_right_eigenvectors: bool = True, enable_eigvec_derivs: bool = False,
        implementation: EigImplementation | None = None, use_magma: bool | None = None
        ) -> list[Any]:
    """Eigenvalues and eigenvectors of matrices without symmetry.

    Args:
      x: array of shape (..., n, n), float32 or wider, real or complex.
      compute_left_eigenvectors: return the vectors u with u^H x = w u^H.
      compute_right_eigenvectors: return the vectors v with x v = w v.
      enable_eigvec_derivs: allow derivatives of vectors, which hold where eigenvalues differ and
        what is computed does not depend on the length and the phase of vectors.
      implementation, use_magma: accepted for JAX's sake.

    Returns:
      [w], followed by the left and the right vectors that were asked for, in columns of length 1
      whose largest element is real; all complex.  NaN where x holds NaN or infinities.

    Raises:
      TypeError: x is no array of floats with two axes.
      ValueError: x is not square.
      NotImplementedError: x is float16 or bfloat16, or the target is no CPU.

    Example:
      >>> import numpy as np
      >>> from calque import lax
      >>> w, v = lax.linalg.eig(np.array([[0.0, 1.0], [-1.0, 0.0]], np.float32),
      ...                       compute_left_eigenvectors=False)
      >>> print(w)
      [0.+1.j 0.-1.j]
    """
    return list(sp.eig_p.bind(
        as_operand("eig", x), compute_left_eigenvectors=bool(compute_left_eigenvectors),
        compute_right_eigenvectors=bool(compute_right_eigenvectors),
        enable_eigvec_derivs=bool(enable_eigvec_derivs), implementation=implementation))


def schur(x: Any, *, compute_schur_vectors: bool = True, sort_eig_vals: bool = False,
          select_callable: Any = None) -> list[Any]:
    """Schur decomposition: x = Z T Z^H.

    Args:
      x: array of shape (..., n, n), float32 or wider, real or complex.
      compute_schur_vectors: return Z too.
      sort_eig_vals: False.
      select_callable: accepted for JAX's sake.

    Returns:
      [T, Z] or [T], of x's shape and dtype: T upper triangular, for real x with blocks of two rows
      on the diagonal where eigenvalues are complex; Z unitary.

    Raises:
      TypeError: x is no array of floats with two axes.
      ValueError: x is not square.
      NotImplementedError: x is float16 or bfloat16, sort_eig_vals is set, or the target has no
        C kernels.

    Example:
      >>> import numpy as np
      >>> from calque import lax
      >>> t, z = lax.linalg.schur(np.array([[2.0, 1.0], [0.0, 3.0]], np.float32))
      >>> print(np.diag(t))
      [2. 3.]
    """
    return list(sp.schur_p.bind(
        as_operand("schur", x), compute_schur_vectors=bool(compute_schur_vectors),
        sort_eig_vals=bool(sort_eig_vals), select_callable=select_callable))


def svd(x: Any, *, full_matrices: bool = True, compute_uv: bool = True,
        subset_by_index: tuple[int, int] | None = None,
        algorithm: SvdAlgorithm | None = None) -> Any:
    """Singular value decomposition: x = U diag(s) V^H.

    Args:
      x: array of shape (..., m, n), float32 or wider, real or complex.
      full_matrices: U and V^H are square, else they have min(m, n) columns and rows.
      compute_uv: return the vectors too.
      subset_by_index: None or (0, min(m, n)).
      algorithm: accepted for JAX's sake.

    Returns:
      (U, s, V^H), or s alone; s of shape (..., min(m, n)), real and descending.  NaN where x holds
      NaN or infinities.

    Raises:
      TypeError: x is no array of floats with two axes.
      ValueError: full_matrices together with subset_by_index.
      NotImplementedError: x is float16 or bfloat16, or a part of the values is asked for.

    Example:
      >>> import numpy as np
      >>> from calque import lax
      >>> lax.linalg.svd(np.array([[3.0, 0.0], [0.0, 4.0]], np.float32), compute_uv=False)
      Array([4., 3.], dtype=float32)
    """
    x = as_operand("svd", x)
    la.check_rank("svd", 0, aval_of(x))
    if subset_by_index is not None:
        if full_matrices and compute_uv:
            raise ValueError(explain("full_matrices and subset_by_index cannot both be set",
                                     fix="pass full_matrices=False."))
        _whole("svd", subset_by_index, min_dim(*shape_of(x)[-2:]))
    outs = og.svd_p.bind(x, full_matrices=bool(full_matrices), compute_uv=bool(compute_uv),
                         subset_by_index=subset_by_index, algorithm=algorithm)
    if not compute_uv:
        return outs[0]
    s, u, vh = outs
    return u, s, vh


def tridiagonal(a: Any, *, lower: bool = True) -> tuple[Any, Any, Any, Any]:
    """Reduction of Hermitian matrices to real tridiagonal ones: a = Q T Q^H.

    Args:
      a: array of shape (..., n, n), n >= 1, of which one triangle is read.
      lower: which triangle.

    Returns:
      (packed, d, e, taus): T's diagonal d of shape (..., n) and off-diagonal e of shape
      (..., n - 1), both real; the reflections of Q below (above) the subdiagonal of `packed`, their
      factors in taus of shape (..., n - 1).  LAPACK's sytrd and hetrd say how Q is made of them.

    Raises:
      TypeError: a is no array of floats with two axes.
      ValueError: a is not square, or empty.
      NotImplementedError: a is float16 or bfloat16.

    Example:
      >>> import numpy as np
      >>> from calque import lax
      >>> lax.linalg.tridiagonal(np.array([[2.0, 1.0], [1.0, 3.0]], np.float32))[1]
      Array([2., 3.], dtype=float32)
    """
    packed, d, e, taus = td.tridiagonal_p.bind(as_operand("tridiagonal", a), lower=bool(lower))
    return packed, d, e, taus


def hessenberg(a: Any) -> tuple[Any, Any]:
    """Reduction to upper Hessenberg form: a = Q H Q^H.

    Args:
      a: array of shape (..., n, n), float32 or wider, real or complex.

    Returns:
      (packed, taus): H on and above the subdiagonal of `packed`, the reflections of Q below it,
      their factors in taus of shape (..., n - 1).

    Raises:
      TypeError: a is no array of floats with two axes.
      ValueError: a is not square.
      NotImplementedError: a is float16 or bfloat16.

    Example:
      >>> import numpy as np
      >>> from calque import lax
      >>> lax.linalg.hessenberg(np.eye(3, dtype=np.float32))[1]
      Array([0., 0.], dtype=float32)
    """
    packed, taus = td.hessenberg_p.bind(as_operand("hessenberg", a))
    return packed, taus


def tridiagonal_solve(dl: Any, d: Any, du: Any, b: Any, *, perturb_singular: bool = False) -> Any:
    """The solution of tridiagonal systems, by elimination with exchanges of rows.

    Args:
      dl: array of shape (..., n), below the diagonal: dl[i] stands in row i; dl[0] is not read.
      d: array of shape (..., n), the diagonal.
      du: array of shape (..., n), above the diagonal; du[n - 1] is not read.
      b: array of shape (..., n, m), right sides.
      perturb_singular: pivots that are nearly 0 are replaced by small numbers, so that singular
        systems have a finite result.

    Returns:
      An array of b's shape and dtype; NaN or infinite where the system is singular.

    Raises:
      TypeError: shapes do not fit, or an argument is no array of floats.
      NotImplementedError: float16 or bfloat16.

    Example:
      >>> import numpy as np
      >>> from calque import lax
      >>> one = np.ones(2, np.float32)
      >>> lax.linalg.tridiagonal_solve(one, 2 * one, one, np.array([[4.0], [5.0]], np.float32))
      Array([[1.],
             [2.]], dtype=float32)
    """
    xs = [as_operand("tridiagonal_solve", x, i) for i, x in enumerate((dl, d, du, b))]
    return td.tridiagonal_solve(*xs, perturb_singular=bool(perturb_singular))


def symmetric_product(a_matrix: Any, c_matrix: Any, *, alpha: float = 1.0, beta: float = 0.0,
                      symmetrize_output: bool = False) -> Any:
    """alpha a a^T + beta c, for symmetric c.

    Args:
      a_matrix: array of shape (..., n, k), real.
      c_matrix: array of shape (..., n, n), of the same dtype.
      alpha: factor of the product.
      beta: factor of c_matrix.
      symmetrize_output: make the result exactly symmetric from its lower triangle.

    Returns:
      An array of c_matrix's shape.

    Raises:
      TypeError: an argument is no real array of floats, or dtypes differ.
      ValueError: shapes do not fit.

    Example:
      >>> import numpy as np
      >>> from calque import lax
      >>> a = np.array([[1.0], [2.0]], np.float32)
      >>> lax.linalg.symmetric_product(a, np.zeros((2, 2), np.float32))
      Array([[1., 2.],
             [2., 4.]], dtype=float32)
    """
    a, c = as_operand("symmetric_product", a_matrix), as_operand("symmetric_product", c_matrix, 1)
    for i, x in enumerate((a, c)):
        la.check_rank("symmetric_product", i, aval_of(x))
        _check_real("symmetric_product", i, x)
    n = shape_of(a)[-2]
    if shape_of(c) != (*shape_of(a)[:-2], n, n):
        raise ValueError(explain(
            "symmetric_update expects c_matrix of shape (..., n, n) for a_matrix of shape "
            f"(..., n, k). Got shapes {shape_of(a)} and {shape_of(c)}."))
    with lazy_eval("symmetric_product"):
        out = la.product(a, la.flip(a))
        out = ew.add(ew.mul(ew.const(out, alpha), out), ew.mul(ew.const(c, beta), c))
        return og.symmetric_from_lower(out) if symmetrize_output else out


def cholesky_update(r_matrix: Any, w_vector: Any) -> Any:
    """The upper triangular R1 with R1^T R1 = R^T R + w w^T.

    Args:
      r_matrix: array of shape (n, n), real, upper triangular.
      w_vector: array of shape (n,), of the same dtype.

    Returns:
      An array of r_matrix's shape.

    Raises:
      TypeError: an argument is no real array of floats, or dtypes differ.
      ValueError: shapes do not fit.

    Example:
      >>> import numpy as np
      >>> from calque import lax
      >>> lax.linalg.cholesky_update(np.array([[3.0]], np.float32), np.array([4.0], np.float32))
      Array([[5.]], dtype=float32)
    """
    r, w = as_operand("cholesky_update", r_matrix), as_operand("cholesky_update", w_vector, 1)
    for i, x in enumerate((r, w)):
        _check_real("cholesky_update", i, x)
    n = shape_of(w)[-1] if ndim_of(w) else -1
    if ndim_of(w) != 1 or shape_of(r) != (n, n):
        raise ValueError(explain(
            "Rank-1 update to Cholesky decomposition takes a square matrix and a vector of the "
            f"same size as input. Got shapes {shape_of(r)} and {shape_of(w)} instead"))
    return td.cholesky_update_p.bind(r, w)


def _check_real(name: str, position: int, x: Any) -> None:
    la.check_float(name, position, aval_of(x), half=True)
    if is_complex(x):
        raise TypeError(explain(
            f"{name} does not accept dtype {dtype_of(x).name} at position {position}. "
            f"Accepted dtypes at position {position} are subtypes of floating.",
            fix="use real matrices."))


def qdwh(x: Any, *, is_hermitian: bool = False, max_iterations: int | None = None,
         eps: float | None = None, dynamic_shape: tuple[int, int] | None = None
         ) -> tuple[Any, Any, Any, Any]:
    """Polar decomposition x = U H, from the singular value decomposition.

    Args:
      x: array of shape (m, n), m >= n.
      is_hermitian, max_iterations, eps: accepted for JAX's sake.
      dynamic_shape: None.

    Returns:
      (U, H, iterations, converged): U with orthonormal columns, H Hermitian and positive
      semidefinite, of x's dtype; iterations 0; converged is whether the result is finite.

    Raises:
      TypeError: x is no array of floats with two axes.
      ValueError: x has fewer rows than columns.
      NotImplementedError: dynamic_shape is given.

    Example:
      >>> import numpy as np
      >>> from calque import lax
      >>> lax.linalg.qdwh(np.array([[-2.0]], np.float32))[1]
      Array([[2.]], dtype=float32)
    """
    x = as_operand("qdwh", x)
    la.check_rank("qdwh", 0, aval_of(x))
    if shape_of(x)[-2] < shape_of(x)[-1]:
        raise ValueError(explain(
            f"The input matrix of shape M x N must have M >= N, got shape {shape_of(x)}.",
            fix="decompose the conjugate transpose."))
    if dynamic_shape is not None:
        raise NotImplementedError(explain("qdwh: dynamic_shape is not supported.",
                                          fix="slice x to its shape."))
    with lazy_eval("qdwh"):
        s, u, vh = og.svd_p.bind(x, full_matrices=False, compute_uv=True, subset_by_index=None,
                                 algorithm=None)
        v = la.adjoint(vh)
        h = la.product(og.scaled_columns(v, s), vh)
        done = ew.is_finite(reduce_sum(s, tuple(range(ndim_of(s)))))
        return la.product(u, vh), h, sh.reshape(sh.iota(la.INT, (1,)), ()), done
