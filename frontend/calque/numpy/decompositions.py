"""numpy.linalg: decompositions and what rests on singular values; public through linalg.py.

Leading axes are a batch.  Start reading at `svd`.
"""
from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from calque.core import dtypes
from calque.core.avals import ShapedArray, dtype_of, ndim_of, shape_of
from calque.core.dims import max_dim
from calque.core.errors import explain
from calque.core.types import Shape
from calque.core.zeros import zeros
from calque.lax import decompositions as lax
from calque.lax.operands import canonical_axis
from calque.numpy import util
from calque.numpy.solvers import inv, solve
from calque.primitives import elementwise as ew
from calque.primitives import linalg as la
from calque.primitives import orthogonal as og
from calque.primitives import reduce as rd
from calque.primitives import shape as sh
from calque.primitives.sort import sort, take_along


class QRResult(NamedTuple):
    """Q and R of a decomposition.

    Example:
      >>> import calque.numpy as jnp
      >>> jnp.linalg.qr(jnp.array([[3.0], [4.0]])).R
      Array([[-5.]], dtype=float32)
    """

    Q: Any
    R: Any


class EigResult(NamedTuple):
    """Eigenvalues and right eigenvectors.

    Example:
      >>> import calque.numpy as jnp
      >>> print(jnp.linalg.eig(jnp.eye(2)).eigenvalues)
      [1.+0.j 1.+0.j]
    """

    eigenvalues: Any
    eigenvectors: Any


class EighResult(NamedTuple):
    """Eigenvalues and eigenvectors of Hermitian matrices.

    Example:
      >>> import calque.numpy as jnp
      >>> jnp.linalg.eigh(jnp.eye(2)).eigenvalues
      Array([1., 1.], dtype=float32)
    """

    eigenvalues: Any
    eigenvectors: Any


class SVDResult(NamedTuple):
    """U, S and V^H of a singular value decomposition.

    Example:
      >>> import calque.numpy as jnp
      >>> jnp.linalg.svd(jnp.eye(2)).S
      Array([1., 1.], dtype=float32)
    """

    U: Any
    S: Any
    Vh: Any


@util.planned
def qr(a: Any, mode: str = "reduced") -> Any:
    """QR decomposition: a = Q R.

    Args:
      a: array of shape (..., m, n).
      mode: 'reduced' (also 'full'): Q of shape (..., m, k), k = min(m, n); 'complete': Q of shape
        (..., m, m); 'r': R alone; 'raw': the reflections and their factors, as LAPACK's geqrf.

    Returns:
      QRResult(Q, R), or R for mode 'r', or (h, tau) for mode 'raw' with h of shape (..., n, m).

    Raises:
      TypeError: a has fewer than two axes, or is no array.
      ValueError: the mode is unknown.
      NotImplementedError: a is float16 or bfloat16.

    Example:
      >>> import calque.numpy as jnp
      >>> jnp.linalg.qr(jnp.array([[3.0], [4.0]]), mode="r")
      Array([[-5.]], dtype=float32)
    """
    (a,) = util.inexact_arrays("jnp.linalg.qr", a)
    if mode == "raw":
        packed, taus = og.geqrf_p.bind(a)
        return QRResult(la.flip(packed), taus)
    if mode not in ("reduced", "full", "r", "complete"):
        raise ValueError(explain(f"Unsupported QR decomposition mode '{mode}'",
                                 fix="use 'reduced', 'complete', 'r' or 'raw'."))
    q, r = lax.qr(a, full_matrices=mode == "complete")
    return r if mode == "r" else QRResult(q, r)


def _lower(UPLO: str | None) -> bool:
    if UPLO not in (None, "L", "U"):
        raise ValueError(explain(f"UPLO must be one of None, 'L', or 'U', got {UPLO}"))
    return UPLO != "U"


@util.planned
def eigh(a: Any, UPLO: str | None = None, symmetrize_input: bool = True) -> EighResult:
    """Eigenvalues and eigenvectors of Hermitian matrices.

    Args:
      a: array of shape (..., n, n).
      UPLO: with symmetrize_input=False, which triangle is read: 'L' or 'U'.
      symmetrize_input: decompose (a + a^H) / 2.

    Returns:
      EighResult(eigenvalues, eigenvectors): ascending real numbers of shape (..., n), and the
      vectors in the columns of an array of a's shape.

    Raises:
      TypeError: a is no array, or not square.
      ValueError: UPLO is unknown.
      NotImplementedError: a is float16 or bfloat16.

    Example:
      >>> import calque.numpy as jnp
      >>> jnp.linalg.eigh(jnp.array([[2.0, 1.0], [1.0, 2.0]])).eigenvalues
      Array([1., 3.], dtype=float32)
    """
    lower = _lower(UPLO)
    (a,) = util.inexact_arrays("jnp.linalg.eigh", a)
    v, w = lax.eigh(a, lower=lower, symmetrize_input=symmetrize_input)
    return EighResult(w, v)


@util.planned
def eigvalsh(a: Any, UPLO: str | None = "L", *, symmetrize_input: bool = True) -> Any:
    """Eigenvalues of Hermitian matrices, ascending.

    Args:
      a: array of shape (..., n, n).
      UPLO: with symmetrize_input=False, which triangle is read: 'L' or 'U'.
      symmetrize_input: take (a + a^H) / 2.

    Returns:
      A real array of shape (..., n).

    Raises:
      TypeError: a is no array, or not square.
      ValueError: UPLO is unknown.
      NotImplementedError: a is float16 or bfloat16.

    Example:
      >>> import calque.numpy as jnp
      >>> jnp.linalg.eigvalsh(jnp.array([[2.0, 1.0], [1.0, 2.0]]))
      Array([1., 3.], dtype=float32)
    """
    lower = _lower(UPLO)
    (a,) = util.inexact_arrays("jnp.linalg.eigvalsh", a)
    return lax.eigenvalues(a, lower=lower, symmetrize_input=symmetrize_input)


@util.planned
def eig(a: Any) -> EigResult:
    """Eigenvalues and right eigenvectors of matrices without symmetry.

    Args:
      a: array of shape (..., n, n).

    Returns:
      EigResult(eigenvalues, eigenvectors): complex, of shape (..., n) and (..., n, n), vectors in
      columns.

    Raises:
      TypeError: a has fewer than two axes, or is no array.
      ValueError: a is not square.
      NotImplementedError: a is float16 or bfloat16, or the target is no CPU.

    Example:
      >>> import calque.numpy as jnp
      >>> print(jnp.linalg.eig(jnp.array([[0.0, 1.0], [-1.0, 0.0]])).eigenvalues)
      [0.+1.j 0.-1.j]
    """
    (a,) = util.inexact_arrays("jnp.linalg.eig", a)
    w, v = lax.eig(a, compute_left_eigenvectors=False)
    return EigResult(w, v)


@util.planned
def eigvals(a: Any) -> Any:
    """Eigenvalues of matrices without symmetry.

    Args:
      a: array of shape (..., n, n).

    Returns:
      A complex array of shape (..., n).

    Raises:
      TypeError: a has fewer than two axes, or is no array.
      ValueError: a is not square.
      NotImplementedError: a is float16 or bfloat16, or the target is no CPU.

    Example:
      >>> import calque.numpy as jnp
      >>> print(jnp.linalg.eigvals(jnp.array([[2.0, 1.0], [0.0, 3.0]])))
      [2.+0.j 3.+0.j]
    """
    (a,) = util.inexact_arrays("jnp.linalg.eigvals", a)
    return lax.eig(a, compute_left_eigenvectors=False, compute_right_eigenvectors=False)[0]


@util.planned
def svd(a: Any, full_matrices: bool = True, compute_uv: bool = True, hermitian: bool = False,
        subset_by_index: tuple[int, int] | None = None) -> Any:
    """Singular value decomposition: a = U diag(S) V^H.

    Args:
      a: array of shape (..., m, n).
      full_matrices: U and V^H are square, else they have k = min(m, n) columns and rows.
      compute_uv: return the vectors too.
      hermitian: a is Hermitian; its eigenvalues are taken.
      subset_by_index: None or (0, k).

    Returns:
      SVDResult(U, S, Vh), or S alone; S of shape (..., k), real and descending.

    Raises:
      TypeError: a has fewer than two axes, or is no array.
      ValueError: full_matrices together with subset_by_index.
      NotImplementedError: a is float16 or bfloat16.

    Example:
      >>> import calque.numpy as jnp
      >>> jnp.linalg.svd(jnp.array([[3.0, 0.0], [0.0, 4.0]]), compute_uv=False)
      Array([4., 3.], dtype=float32)
    """
    (a,) = util.inexact_arrays("jnp.linalg.svd", a)
    if hermitian:
        return _hermitian_svd(a, compute_uv)
    found = lax.svd(a, full_matrices=full_matrices, compute_uv=compute_uv,
                    subset_by_index=subset_by_index)
    return SVDResult(*found) if compute_uv else found


def _hermitian_svd(a: Any, compute_uv: bool) -> Any:
    """Eigenvectors in the order of |w|, falling; U takes the sign of w."""
    with util.lazy_eval("svd"):
        if not compute_uv:
            w = ew.abs_(lax.eigenvalues(a, lower=True, symmetrize_input=True))
            rank = ndim_of(w)
            return sh.rev(sort([w], rank - 1)[0], (rank - 1,))
        v, w = lax.eigh(a)
        shape = shape_of(w)
        axis = len(shape) - 1
        size = ew.abs_(w)
        _, order = sort([ew.neg(size), sh.iota(la.INT, shape, axis)], axis)
        s, w = take_along(size, order, axis), take_along(w, order, axis)
        columns = sh.broadcast_in_dim(order, shape_of(v), (*range(axis), axis + 1))
        v = take_along(v, columns, axis + 1)
        one = la.all_of(w, 1)
        sign = ew.select_n(ew.lt(w, la.all_of(w, 0)), one, ew.neg(one))
        return SVDResult(og.scaled_columns(v, sign), s, la.adjoint(v))


@util.planned
def svdvals(x: Any, /) -> Any:
    """Singular values, descending.

    Args:
      x: array of shape (..., m, n).

    Returns:
      A real array of shape (..., min(m, n)).

    Raises:
      TypeError: x has fewer than two axes, or is no array.
      NotImplementedError: x is float16 or bfloat16.

    Example:
      >>> import calque.numpy as jnp
      >>> jnp.linalg.svdvals(jnp.array([[3.0, 0.0], [0.0, 4.0]]))
      Array([4., 3.], dtype=float32)
    """
    return svd(x, compute_uv=False)


def _tolerance(rtol: Any, like: Any, default: Any) -> Any:
    """The relative tolerance as an array of like's real dtype."""
    if rtol is None and isinstance(default, float):
        return ew.const(like, default)
    rtol = default if rtol is None else rtol  # (of sizes that are known at the call only)
    rtol = util.one_array("rtol", rtol)
    return ew.convert(util.array(rtol), dtype_of(like))


def _beside(x: Any, shape: Shape) -> Any:
    """A number per matrix, spread over its singular values."""
    lead = shape_of(x)
    return sh.columns_of(util.broadcast_to(x, shape[:-1]) if lead != shape[:-1] else x, shape)


@util.planned
def matrix_rank(M: Any, rtol: Any = None, *, hermitian: bool = False, tol: Any = None) -> Any:
    """The number of singular values above a tolerance.

    Args:
      M: array of shape (..., m, n); vectors have rank 1 unless they are 0.
      rtol: tolerance, times the largest singular value; default max(m, n) eps.
      hermitian: M is Hermitian.
      tol: the old name of rtol.

    Returns:
      An integer array of shape (...).

    Raises:
      TypeError: M is no array.
      ValueError: both rtol and tol are given.
      NotImplementedError: M is float16 or bfloat16.

    Example:
      >>> import calque.numpy as jnp
      >>> jnp.linalg.matrix_rank(jnp.array([[1.0, 2.0], [2.0, 4.0]]))
      Array(1, dtype=int32)
    """
    if rtol is not None and tol is not None:
        raise ValueError(explain("matrix_rank: only one of tol or rtol may be specified."))
    rtol = tol if rtol is None else rtol
    whole = dtypes.default_dtype(int)
    with util.lazy_eval("matrix_rank"):
        (a,) = util.inexact_arrays("jnp.linalg.matrix_rank", M)
        shape = shape_of(a)
        if len(shape) < 2:
            there = ew.ne(a, la.all_of(a, 0))
            some = rd.reduce_or_p.bind(there, axes=tuple(range(len(shape))), out_sharding=None)
            return ew.convert(some, whole)
        s = svd(a, full_matrices=False, compute_uv=False, hermitian=hermitian)
        axis = len(shape) - 2
        if 0 in shape[-2:]:
            return zeros(ShapedArray(shape[:-2], whole))
        eps = float(np.finfo(dtype_of(s)).eps)
        most = rd.reduce_max_p.bind(s, axes=(axis,), out_sharding=None)
        least = _tolerance(rtol, s, max_dim(*shape[-2:]) * eps)
        bound = ew.mul(util.broadcast_to(least, shape[:-2]), most)
        above = ew.gt(s, _beside(bound, shape_of(s)))
        return rd.reduce_sum(ew.convert(above, whole), (axis,))


@util.planned
def pinv(a: Any, rtol: Any = None, hermitian: bool = False, *, rcond: Any = None) -> Any:
    """The pseudoinverse (Moore and Penrose).

    Args:
      a: array of shape (..., m, n).
      rtol: singular values up to rtol times the largest count as 0; default 10 max(m, n) eps.
      hermitian: a is Hermitian.
      rcond: the old name of rtol.

    Returns:
      An array of shape (..., n, m).  Its derivative holds where the rank does not change.

    Raises:
      TypeError: a is no array.
      ValueError: a has fewer than two axes, or both rtol and rcond are given.
      NotImplementedError: a is float16 or bfloat16.

    Example:
      >>> import calque.numpy as jnp
      >>> jnp.linalg.pinv(jnp.array([[2.0, 0.0], [0.0, 0.0]]))
      Array([[0.5, 0. ],
             [0. , 0. ]], dtype=float32)
    """
    if rtol is not None and rcond is not None:
        raise ValueError(explain("pinv: only one of rtol and rcond may be specified."))
    rtol = rcond if rtol is None else rtol
    with util.lazy_eval("pinv"):
        (a,) = util.inexact_arrays("jnp.linalg.pinv", a)
        if hermitian:
            a = lax.symmetrized(a)
        shape = shape_of(a)
        if len(shape) < 2:
            raise ValueError(explain(
                f"pinv: not enough values to unpack (expected 2, got {len(shape)}): a needs two "
                f"axes, got shape {shape}.", fix="pass an array of shape (..., m, n)."))
        m, n = shape[-2:]
        if not m or not n:
            return zeros(ShapedArray((*shape[:-2], n, m), dtype_of(a)))
        if rtol is None:
            rtol = 10.0 * max_dim(m, n) * float(np.finfo(dtype_of(a)).eps)
        return og.pinv_p.bind(a, util.broadcast_to(_real_scalar(rtol, a), shape[:-2]),
                              hermitian=bool(hermitian))


def _real_scalar(value: Any, like: Any) -> Any:
    value = util.one_array("rtol", value)
    return ew.convert(util.array(value), dtypes.real_dtype(dtype_of(like)))


@util.planned
def lstsq(a: Any, b: Any, rcond: float | None = None, *, numpy_resid: bool = False
          ) -> tuple[Any, Any, Any, Any]:
    """The x of least norm that makes the norm of a x - b least.

    Args:
      a: array of shape (m, n).
      b: array of shape (m,) or (m, k).
      rcond: singular values below rcond times the largest count as 0; default eps max(m, n).
      numpy_resid: residuals as NumPy gives them: empty unless a has full rank and m > n.

    Returns:
      (x, residuals, rank, s): x of shape (n,) or (n, k), sums of squares of b - a x of shape (k,)
      (or (1,)), the rank of a, and its singular values.

    Raises:
      TypeError: a has not two axes, or b has more.
      ValueError: a and b have not the same number of rows.
      NotImplementedError: float16 or bfloat16.

    Example:
      >>> import calque.numpy as jnp
      >>> x, *_ = jnp.linalg.lstsq(jnp.array([[1.0], [1.0]]), jnp.array([1.0, 3.0]))
      >>> print(x.round(3))
      [2.]
    """
    a, b = util.inexact_arrays("jnp.linalg.lstsq", a, b)
    shape, given = shape_of(a), shape_of(b)
    if given[:1] != shape[:1]:
        raise ValueError(explain(
            f"Leading dimensions of input arrays must match, got shapes {shape} and {given}."))
    if len(shape) != 2:
        raise TypeError(explain(
            f"{len(shape)}-dimensional array given. Array must be two-dimensional"))
    if len(given) not in (1, 2):
        raise TypeError(explain(
            f"{len(given)}-dimensional array given. Array must be one or two-dimensional"))
    m, n = shape
    whole = dtypes.default_dtype(int)
    real = dtypes.real_dtype(dtype_of(a))
    with util.lazy_eval("lstsq"):
        vector = len(given) == 1
        if vector:
            b = sh.reshape(b, (*given, 1))
        if not m or not n:
            s, rank = (zeros(ShapedArray(*x)) for x in (((0,), dtype_of(a)), ((), whole)))
            x = zeros(ShapedArray((n, *shape_of(b)[1:]), dtype_of(a)))
        else:
            u, s, vh = lax.svd(a, full_matrices=False)
            bound = float(np.finfo(real).eps) * max_dim(m, n)
            first = sh.reshape(sh.slice_in_dim(s, 0, 1, 0), ())
            least = ew.mul(_tolerance(rcond, s, bound), first)
            mask = ew.and_(
                ew.ge(s, sh.broadcast_in_dim(least, shape_of(s), ())),
                ew.gt(s, la.all_of(s, 0)))
            rank = rd.reduce_sum(ew.convert(mask, whole), (0,))
            one = la.all_of(s, 1)
            inverse = ew.select_n(mask, la.all_of(s, 0), ew.div(one, ew.select_n(mask, one, s)))
            v = og.scaled_columns(la.adjoint(vh), inverse)
            x = la.product(v, la.product(la.adjoint(u), b))
        residual = _residuals(a, b, x)
        if vector:
            x = sh.reshape(x, (n,))
    if numpy_resid and (m <= n or int(rank) < n):
        residual = zeros(ShapedArray((0,), dtypes.default_dtype(float)))
    return x, residual, rank, s


def _residuals(a: Any, b: Any, x: Any) -> Any:
    """Sums of squares of b - a x, one per column."""
    m, n = shape_of(a)
    if not m:
        return zeros(ShapedArray(shape_of(b)[1:], dtypes.real_dtype(dtype_of(a))))
    off = ew.sub(b, la.product(a, x)) if n else b
    size = ew.square(off)
    if util.is_complex(off):
        size = ew.add(ew.square(ew.real(off)), ew.square(ew.imag(off)))
    return rd.reduce_sum(size, (0,))


@util.planned
def tensorinv(a: Any, ind: int = 2) -> Any:
    """The inverse with regard to a contraction of the first `ind` axes with the rest.

    Args:
      a: array with prod(shape[:ind]) == prod(shape[ind:]).
      ind: how many axes count as rows.

    Returns:
      An array of shape shape[ind:] + shape[:ind].

    Raises:
      ValueError: ind is not positive, or the sizes differ.

    Example:
      >>> import calque.numpy as jnp
      >>> jnp.linalg.tensorinv(jnp.eye(6).reshape(2, 3, 6)).shape
      (6, 2, 3)
    """
    (a,) = util.inexact_arrays("jnp.linalg.tensorinv", a)
    shape = shape_of(a)
    if ind <= 0:
        raise ValueError(explain(f"ind must be a positive integer; got ind={ind}"))
    rows, columns = shape[:ind], shape[ind:]
    if math.prod(rows) != math.prod(columns):
        raise ValueError(explain(
            "tensorinv is only possible when the product of the first `ind` dimensions equals "
            f"that of the remaining dimensions. got a.shape={shape} with ind={ind}."))
    with util.lazy_eval("tensorinv"):
        made = inv(sh.reshape(a, (math.prod(rows), math.prod(columns))))
        return sh.reshape(made, (*columns, *rows))


@util.planned
def tensorsolve(a: Any, b: Any, axes: Sequence[int] | None = None) -> Any:
    """The x with tensordot(a, x, x.ndim) == b.

    Args:
      a: array of shape b.shape + x.shape, with as many rows as columns.
      b: array.
      axes: axes of a that are moved to its end first.

    Returns:
      An array of a's last sizes.

    Raises:
      ValueError: the sizes do not fit.

    Example:
      >>> import calque.numpy as jnp
      >>> jnp.linalg.tensorsolve(jnp.eye(4).reshape(2, 2, 4), jnp.ones((2, 2)))
      Array([1., 1., 1., 1.], dtype=float32)
    """
    a, b = util.inexact_arrays("jnp.linalg.tensorsolve", a, b)
    rank = ndim_of(a)
    if axes is not None:
        moved = [canonical_axis(x, rank) for x in axes]
        a = sh.transpose(a, (*[i for i in range(rank) if i not in moved], *moved))
    shape, given = shape_of(a), shape_of(b)
    out = shape[len(given):]
    if math.prod(shape[:len(given)]) != math.prod(out):
        raise ValueError(explain(
            "Input arrays must have prod(a.shape[:b.ndim]) == prod(a.shape[b.ndim:]); got "
            f"a.shape={shape}, b.ndim={len(given)}."))
    with util.lazy_eval("tensorsolve"):
        n = math.prod(out)
        x = solve(sh.reshape(a, (n, n)), sh.reshape(b, (n,)))
        return sh.reshape(x, out)


__all__ = [
    "EigResult", "EighResult", "QRResult", "SVDResult", "eig", "eigh", "eigvals", "eigvalsh",
    "lstsq", "matrix_rank", "pinv", "qr", "svd", "svdvals", "tensorinv", "tensorsolve"]
