"""scipy.linalg: factors of matrices, functions of them and Sylvester's equation; public through
linalg.py.  Start reading at `_by_diagonals`, which functions of triangular matrices share.
"""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import calque.numpy as jnp
from calque.api.autodiff import jvp
from calque.api.batching import vmap
from calque.api.loops import fori_loop
from calque.core.avals import dtype_of, shape_of
from calque.core.errors import explain
from calque.lax import linalg as la
from calque.numpy import util
from calque.scipy.matrices import arrays, check_square, expm


def _adjoint(a: Any) -> Any:
    return jnp.conj(jnp.swapaxes(a, -1, -2))


def _inexact(name: str, a: Any) -> Any:
    util.check_arrays(name, a)
    if dtype_of(a).kind not in "fc":
        raise TypeError(explain(
            f"{name} does not accept dtype {dtype_of(a).name} at position 0. Accepted dtypes "
            "at position 0 are subtypes of floating, complexfloating.",
            fix="convert it to float32."))
    return a


# ---- factors
def schur(a: Any, output: str = "real") -> Any:
    """The Schur decomposition a = Z T Z^H.

    Args:
      a: array of shape (..., n, n), float or complex.
      output: 'real': of a real matrix T is real, with 2 x 2 blocks for pairs of complex
        eigenvalues; 'complex': T is triangular.

    Returns:
      [T, Z].

    Raises:
      TypeError: a is no array of floats or complex numbers.
      ValueError: a is not square, or output is unknown.

    Example:
      >>> import calque.numpy as jnp
      >>> from calque.scipy import linalg
      >>> linalg.schur(jnp.array([[2.0]]))[0]
      Array([[2.]], dtype=float32)
    """
    if output not in ("real", "complex"):
        raise ValueError(explain(
            f"schur: Expected 'output' to be either 'real' or 'complex', got output={output!r}."))
    a = check_square("schur", _inexact("schur", a))
    return la.schur(_complex(a) if output == "complex" else a)


def _complex(a: Any) -> Any:
    return jnp.asarray(a).astype(jnp.promote_types(dtype_of(a), np.complex64))


def rsf2csf(T: Any, Z: Any, check_finite: bool = True) -> tuple[Any, Any]:  # noqa: N803
    """The complex Schur form of a real one: 2 x 2 blocks are turned into triangles.

    Args:
      T: array of shape (..., n, n), upper triangular but for blocks, as schur gives it.
      Z: array of shape (..., n, n).
      check_finite: accepted for compatibility.

    Returns:
      (T, Z), complex; Z T Z^H is what it was.

    Raises:
      TypeError: an argument is not an array.
      ValueError: shapes differ, or T is not square.

    Example:
      >>> import calque.numpy as jnp
      >>> from calque.scipy import linalg
      >>> t, z = linalg.rsf2csf(*linalg.schur(jnp.array([[0.0, 1.0], [-1.0, 0.0]])))
      >>> jnp.abs(jnp.diag(t).imag).round(3)
      Array([1., 1.], dtype=float32)
    """
    util.check_arrays("rsf2csf", T, Z)
    shape, other = shape_of(T), shape_of(Z)
    if len(shape) < 2 or shape[-1] != shape[-2]:
        raise ValueError(explain(f"rsf2csf: Input 'T' must be square, got shape {shape}."))
    if shape[-2:] != other[-2:]:
        raise ValueError(explain(
            f"rsf2csf: Input array shapes must match: Z: {other} vs. T: {shape}"))
    lead = util.common_shape("rsf2csf", [shape[:-2], other[:-2]])
    t, z = (util.broadcast_to(_complex(v), (*lead, *shape[-2:])) for v in arrays("rsf2csf", T, Z))
    turn = _triangular
    for _ in lead:
        turn = vmap(turn)
    return turn(t, z)


def _triangular(t: Any, z: Any) -> tuple[Any, Any]:
    """Each element below the diagonal, the last one first, turned away by a rotation of two rows
    and columns."""
    n = t.shape[-1]
    eps = np.finfo(t.dtype).eps

    def rotate(i: Any, both: Any) -> Any:
        t, z = both
        m = n - 1 - i
        rows = jnp.stack([m - 1, m])
        a, b, c, d = t[m - 1, m - 1], t[m - 1, m], t[m, m - 1], t[m, m]
        needed = jnp.abs(c) > eps * (jnp.abs(a) + jnp.abs(d))
        half = (a - d) / 2
        root = jnp.sqrt(half * half + b * c)
        # the eigenvalue of the two that is farther from d, less d: no digits cancel
        mu = half + jnp.where((jnp.conj(half) * root).real < 0, -root, root)
        c = jnp.where(needed, c, 0)
        r = jnp.sqrt(jnp.abs(mu) ** 2 + jnp.abs(c) ** 2)
        cosine = jnp.where(needed, mu / jnp.where(r == 0, 1, r), 1)
        sine = c / jnp.where(r == 0, 1, r)
        g = jnp.stack([jnp.stack([jnp.conj(cosine), sine]), jnp.stack([-sine, cosine])])
        t = t.at[rows].set(jnp.where(jnp.arange(n) < m - 1, t[rows], g @ t[rows]))
        beside = t[:, rows]
        t = t.at[:, rows].set(jnp.where((jnp.arange(n) > m)[:, None], beside,
                                        beside @ _adjoint(g)))
        z = z.at[:, rows].set(z[:, rows] @ _adjoint(g))
        return t.at[m, m - 1].set(jnp.where(needed, 0, t[m, m - 1])), z

    return fori_loop(0, n - 1, rotate, (t, z)) if n > 1 else (t, z)


def hessenberg(a: Any, *, calc_q: bool = False, overwrite_a: bool = False,
               check_finite: bool = True) -> Any:
    """The Hessenberg form a = Q H Q^H: H is 0 below its first subdiagonal.

    Args:
      a: array of shape (..., n, n), float or complex.
      calc_q: also return Q.
      overwrite_a, check_finite: accepted for compatibility.

    Returns:
      H, or (H, Q).

    Raises:
      TypeError: a is no array of floats or complex numbers.
      ValueError: a is not square.

    Example:
      >>> import calque.numpy as jnp
      >>> from calque.scipy import linalg
      >>> linalg.hessenberg(jnp.eye(2))
      Array([[1., 0.],
             [0., 1.]], dtype=float32)
    """
    util.check_arrays("hessenberg", a)
    shape = shape_of(a)
    if len(shape) < 2 or shape[-1] != shape[-2]:
        raise ValueError(explain(
            "hessenberg: Argument to Hessenberg reduction must have shape [..., n, n], got shape "
            f"{shape}"))
    a = jnp.asarray(_inexact("hessenberg", a))
    n = shape[-1]
    if n < 2:
        return (a, jnp.broadcast_to(jnp.eye(n, dtype=a.dtype), shape)) if calc_q else a
    reduced, taus = la.hessenberg(a)
    upper = jnp.triu(reduced, -1)
    if not calc_q:
        return upper
    inner = la.householder_product(reduced[..., 1:, :-1], taus)
    q = jnp.zeros_like(a).at[..., 0, 0].set(1).at[..., 1:, 1:].set(inner)
    return upper, q


def polar(a: Any, side: str = "right", *, method: str = "qdwh", eps: float | None = None,
          max_iterations: int | None = None) -> tuple[Any, Any]:
    """The polar decomposition: a = U P ('right'), or a = P U ('left'), U with orthonormal columns
    or rows, P positive semidefinite.

    Args:
      a: array of shape (m, n); with method='svd' of shape (..., m, n).
      side: where P stands.
      method: 'qdwh' (m >= n for side='right', m < n for side='left') or 'svd'.
      eps, max_iterations: of qdwh.

    Returns:
      (U, P).

    Raises:
      NotImplementedError: qdwh and a shape that it does not take.
      TypeError: a is not an array.
      ValueError: side or method is unknown, or a is neither float nor complex.

    Example:
      >>> import calque.numpy as jnp
      >>> from calque.scipy import linalg
      >>> linalg.polar(jnp.array([[-2.0]]))[1]
      Array([[2.]], dtype=float32)
    """
    util.check_arrays("polar", a)
    if side not in ("right", "left"):
        raise ValueError(explain("polar: The argument `side` must be either 'right' or 'left'."))
    if method not in ("qdwh", "svd"):
        raise ValueError(explain(f"polar: Unknown polar decomposition method {method}.",
                                 fix="use 'qdwh' or 'svd'."))
    if dtype_of(a).kind not in "fc":
        raise ValueError(explain(f"polar: data type {dtype_of(a).name} not inexact"))
    a = jnp.asarray(a)
    if method == "svd":
        u, s, vh = jnp.linalg.svd(a, full_matrices=False)
        unitary = u @ vh
        if side == "right":
            return unitary, (_adjoint(vh) * s[..., None, :].astype(a.dtype)) @ vh
        return unitary, (u * s[..., None, :].astype(a.dtype)) @ _adjoint(u)
    m, n = a.shape[-2:]
    if (m < n) != (side == "left"):
        raise NotImplementedError(explain(
            "polar: method='qdwh' only supports mxn matrices where m < n where side='right' and "
            f"m >= n side='left', got {a.shape} with side={side!r}", fix="use method='svd'."))
    u, p, *_ = la.qdwh(a if side == "right" else _adjoint(a), eps=eps,
                       max_iterations=max_iterations)
    return (u, p) if side == "right" else (_adjoint(u), p)


def qr(a: Any, overwrite_a: bool = False, lwork: Any = None, mode: str = "full",
       pivoting: bool = False, check_finite: bool = True) -> tuple[Any, ...]:
    """The QR decomposition a = Q R, or of a with its columns in another order.

    Args:
      a: array of shape (..., m, n).
      overwrite_a, lwork, check_finite: accepted for compatibility.
      mode: 'full' (Q is square), 'economic', or 'r' (R alone).
      pivoting: columns are put in the order of their size: a[:, P] = Q R.

    Returns:
      (Q, R) or (R,), and P with pivoting.

    Raises:
      TypeError: a is not an array.
      ValueError: mode is unknown.

    Example:
      >>> import calque.numpy as jnp
      >>> from calque.scipy import linalg
      >>> linalg.qr(jnp.array([[0.0, 3.0]]), mode="r", pivoting=True)
      (Array([[3., 0.]], dtype=float32), Array([1, 0], dtype=int32))
    """
    if mode not in ("full", "r", "economic"):
        raise ValueError(explain(f"qr: Unsupported QR decomposition mode {mode!r}",
                                 fix="use 'full', 'economic' or 'r'."))
    util.check_arrays("qr", a)
    (a,) = arrays("qr", a)
    found = la.qr(a, pivoting=pivoting, full_matrices=mode != "economic")
    return tuple(found[1:]) if mode == "r" else tuple(found)


def qr_multiply(a: Any, c: Any, mode: str = "right", pivoting: bool = False,
                conjugate: bool = False, overwrite_a: bool = False, overwrite_c: bool = False
                ) -> tuple[Any, ...]:
    """The product of Q of a QR decomposition with a matrix, and R.

    Args:
      a: array of shape (..., m, n); k is the smaller of both.
      c: array of shape (..., p, m) ('right'), or (..., k, p) ('left'); or a vector.
      mode: 'right': c Q, 'left': Q c.
      pivoting: as in qr.
      conjugate: take the conjugate of Q.
      overwrite_a, overwrite_c: accepted for compatibility.

    Returns:
      (c Q or Q c, R), and P with pivoting.

    Raises:
      TypeError: an argument is not an array.
      ValueError: mode is unknown, or shapes do not fit.

    Example:
      >>> import calque.numpy as jnp
      >>> from calque.scipy import linalg
      >>> linalg.qr_multiply(jnp.array([[2.0]]), jnp.array([3.0]))[1]
      Array([[2.]], dtype=float32)
    """
    if mode not in ("right", "left"):
        raise ValueError(explain(f"qr_multiply: mode must be 'right' or 'left', got {mode!r}"))
    util.check_arrays("qr_multiply", a, c)
    a, c = arrays("qr_multiply", a, c)
    q, *rest = la.qr(a, pivoting=pivoting, full_matrices=False)
    rows = shape_of(q)[-1 if mode == "left" else -2]
    shape = shape_of(c)
    if not shape or shape[-1 if mode == "right" or len(shape) == 1 else -2] != rows:
        raise ValueError(explain(
            f"qr_multiply: c of shape {shape} does not fit a of shape {shape_of(a)} with "
            f"mode={mode!r}.", fix=f"c needs {rows} {'columns' if mode == 'right' else 'rows'}."))
    q = jnp.conj(q) if conjugate else q
    return (c @ q if mode == "right" else q @ c, *rest)


def eigh_tridiagonal(d: Any, e: Any, *, eigvals_only: bool = False, select: str = "a",
                     select_range: tuple[float, float] | None = None, tol: float | None = None,
                     key: Any = None) -> Any:
    """Eigenvalues, in order, and eigenvectors of a symmetric tridiagonal matrix, as eigh's of the
    whole matrix.

    Args:
      d: diagonal; array of shape (n,).
      e: what stands above it, its conjugate below; array of shape (n - 1,).
      eigvals_only: leave the eigenvectors out.
      select: 'a': all, 'i': those whose numbers are within select_range.
      select_range: the first and the last number.
      tol, key: accepted for compatibility (eigenvalues are as exact as eigh's).

    Returns:
      (eigenvalues, eigenvectors as columns), or the eigenvalues.

    Raises:
      NotImplementedError: select='v'.
      TypeError: dtypes other than float32, float64 and their complex ones, or lengths that do not
        fit.
      ValueError: select is unknown, or select_range is missing or empty.

    Example:
      >>> import calque.numpy as jnp
      >>> from calque.scipy import linalg
      >>> linalg.eigh_tridiagonal(jnp.array([1.0, 1.0]), jnp.array([0.0]), eigvals_only=True)
      Array([1., 1.], dtype=float32)
    """
    util.check_arrays("eigh_tridiagonal", d, e)
    if select not in ("a", "i", "v"):
        raise ValueError(explain(
            "eigh_tridiagonal: select must have a value in {'a', 'i', 'v'}."))
    if select == "v":
        raise NotImplementedError(explain(
            "eigh_tridiagonal(..., select='v') is not implemented"))
    d, e = jnp.asarray(d), jnp.asarray(e)
    if d.dtype != e.dtype or d.dtype.name not in ("float32", "float64", "complex64", "complex128"):
        raise TypeError(explain(
            "eigh_tridiagonal: Only float32 and float64 inputs are supported as inputs to "
            f"jax.scipy.linalg.eigh_tridiagonal, got {d.dtype.name} and {e.dtype.name}"))
    n = d.size
    if d.ndim != 1 or e.shape != (max(0, n - 1),):
        raise TypeError(explain(
            "eigh_tridiagonal got incompatible shapes for broadcasting: "
            f"{d.shape}, {e.shape}.", fix="e needs one element less than d."))
    chosen = slice(None)
    if select == "i":
        if select_range is None:
            raise ValueError(explain(
                "eigh_tridiagonal: for select='i', select_range must be specified."))
        first, last = (int(i) for i in select_range)
        if not 0 <= first <= last < n:
            raise ValueError(explain(
                f"eigh_tridiagonal: Got empty index range in select_range={select_range}.",
                fix=f"give the first and the last of {n}."))
        chosen = slice(first, last + 1)
    matrix = jnp.diag(d.real.astype(d.dtype)) + jnp.diag(e, 1) + jnp.diag(jnp.conj(e), -1)
    if eigvals_only:
        return jnp.linalg.eigvalsh(matrix, symmetrize_input=False)[chosen]
    w, v = jnp.linalg.eigh(matrix, symmetrize_input=False)
    return w[chosen], v[:, chosen]


# ---- functions of matrices
def _by_diagonals(diagonal: Any, step: Callable[[Any], Any], divisor: Any) -> Any:
    """An upper triangular matrix of which each superdiagonal follows from those before it.

    Args:
      diagonal: (n,).
      step: of the matrix so far, 0 elsewhere: what the next superdiagonal is divided from.
      divisor: (n, n).
    """
    n = diagonal.shape[-1]
    places = np.arange(n) - np.arange(n)[:, None]

    def add(p: Any, f: Any) -> Any:
        due = jnp.where(jnp.asarray(places) == p, step(f), 0)
        return f + due / jnp.where(due == 0, 1, divisor)

    return fori_loop(1, n, add, jnp.diag(diagonal)) if n > 1 else jnp.diag(diagonal)


def _matrix(name: str, a: Any) -> Any:
    """One square matrix, of inexact dtype."""
    util.check_arrays(name, a)
    shape = shape_of(a)
    if len(shape) != 2 or shape[0] != shape[1]:
        raise ValueError(explain(f"{name}: expected square array_like input, got shape {shape}.",
                                 fix="use vmap for several matrices."))
    return arrays(name, a)[0]


def sqrtm(A: Any, blocksize: int = 1) -> Any:  # noqa: N803
    """The principal square root of a matrix: R R = A.

    Args:
      A: array of shape (n, n).
      blocksize: 1.

    Returns:
      A complex array of A's shape.

    Raises:
      NotImplementedError: another blocksize.
      TypeError: A is not an array.
      ValueError: A is not one square matrix.

    Source:
      Bjorck and Hammarling, A Schur method for the square root of a matrix, 1983.

    Example:
      >>> import calque.numpy as jnp
      >>> from calque.scipy import linalg
      >>> linalg.sqrtm(jnp.array([[4.0]]))
      Array([[2.+0.j]], dtype=complex64)
    """
    if blocksize > 1:
        raise NotImplementedError(explain("sqrtm: Blocked version is not implemented yet.",
                                          fix="leave blocksize out."))
    t, z = la.schur(_complex(_matrix("sqrtm", A)))
    root = jnp.sqrt(jnp.diag(t))
    r = _by_diagonals(root, lambda r: t - r @ r, root[:, None] + root)
    return z @ r @ _adjoint(z)


def funm(A: Any, func: Callable[[Any], Any], disp: bool = True) -> Any:  # noqa: N803
    """A function of a matrix, by its Schur form and Parlett's recurrence.

    Args:
      A: array of shape (n, n); its eigenvalues should differ.
      func: of an array of eigenvalues, element by element.
      disp: False: also return an estimate of the relative error.

    Returns:
      A complex array of A's shape, or (array, error).

    Raises:
      TypeError: A is not an array.
      ValueError: A is not one square matrix.

    Source:
      Golub and Van Loan, Matrix Computations, section 9.1.

    Example:
      >>> import calque.numpy as jnp
      >>> from calque.scipy import linalg
      >>> linalg.funm(jnp.array([[2.0]]), jnp.square)
      Array([[4.+0.j]], dtype=complex64)
    """
    t, z = la.schur(_complex(_matrix("funm", A)))
    w = jnp.diag(t)
    gap = w - w[:, None]
    f = _by_diagonals(func(w).astype(t.dtype), lambda f: t @ f - f @ t,
                      jnp.where(gap == 0, 1, gap))
    out = z @ f @ _adjoint(z)
    if disp:
        return out
    if not out.size:
        return out, jnp.zeros((), t.real.dtype)
    eps = jnp.finfo(t.dtype).eps
    n = t.shape[0]
    off = np.triu(np.ones((n, n), bool), 1)
    least = jnp.min(jnp.where(off & (gap != 0), jnp.abs(gap), jnp.abs(t[0, 0])))
    least = jnp.where(least == 0, eps, least)
    error = jnp.clip(eps / least * jnp.linalg.norm(jnp.triu(t, 1), 1), eps, 1)
    return out, jnp.where(jnp.isfinite(f).all(), error, jnp.inf)


def expm_frechet(A: Any, E: Any, *, method: str | None = None,  # noqa: N803
                 compute_expm: bool = True) -> Any:
    """The derivative of e**A along a matrix E.

    Args:
      A: array of shape (..., n, n).
      E: array of A's shape and dtype.
      method: accepted for compatibility.
      compute_expm: also return e**A.

    Returns:
      (e**A, the derivative), or the derivative.

    Raises:
      TypeError: an argument is no array of floats or complex numbers, or dtypes differ.
      ValueError: A is not square, or E has another shape.

    Example:
      >>> import calque.numpy as jnp
      >>> from calque.scipy import linalg
      >>> linalg.expm_frechet(jnp.zeros((1, 1)), jnp.ones((1, 1)), compute_expm=False)
      Array([[1.]], dtype=float32)
    """
    util.check_arrays("expm_frechet", A, E)
    shape, other = shape_of(A), shape_of(E)
    if len(shape) < 2 or shape[-1] != shape[-2]:
        raise ValueError(explain("expm_frechet: expected A to be a (batched) square matrix, got "
                                 f"A.shape={shape}."))
    if shape != other:
        raise ValueError(explain("expm_frechet: expected A and E to be the same shape, got "
                                 f"A.shape={shape} E.shape={other}"))
    value, along = jvp(expm, (jnp.asarray(_inexact("expm_frechet", A)),), (jnp.asarray(E),))
    return (value, along) if compute_expm else along


# ---- equations
def solve_sylvester(A: Any, B: Any, C: Any, *, method: str = "schur",  # noqa: N803
                    tol: float = 1e-8) -> Any:
    """The X with A X + X B = C.

    Args:
      A: array of shape (..., m, m).
      B: array of shape (..., n, n).
      C: array of shape (..., m, n).
      method: 'schur', or 'eigen' (A and B have bases of eigenvectors).
      tol: where an eigenvalue of A and one of -B are closer, there is no solution: NaN.

    Returns:
      An array of C's shape; real where all arguments are.

    Raises:
      TypeError: an argument is not an array.
      ValueError: shapes do not fit, or method is unknown.

    Source:
      Bartels and Stewart, Solution of the matrix equation AX + XB = C, 1972.

    Example:
      >>> import calque.numpy as jnp
      >>> from calque.scipy import linalg
      >>> linalg.solve_sylvester(jnp.eye(1), jnp.eye(1), jnp.array([[4.0]]))
      Array([[2.]], dtype=float32)
    """
    if method not in ("schur", "eigen"):
        raise ValueError(explain(
            f"solve_sylvester: Unrecognized method {method}. The two valid methods are either "
            '"schur" or "eigen".'))
    util.check_arrays("solve_sylvester", A, B, C)
    shapes = [shape_of(v) for v in (A, B, C)]
    (a, b, c) = arrays("solve_sylvester", A, B, C)
    if any(len(s) < 2 for s in shapes) or shapes[0][-1] != shapes[0][-2] or (
            shapes[1][-1] != shapes[1][-2]) or shapes[2][-2:] != (shapes[0][-1], shapes[1][-1]):
        raise ValueError(explain(
            f"solve_sylvester: Incompatible shapes for Sylvester equation: A: {shapes[0]}, "
            f"B: {shapes[1]}, C: {shapes[2]}", fix="C needs A's rows and B's columns."))
    if not c.size:
        return c
    lead = np.broadcast_shapes(*[s[:-2] for s in shapes])
    c = jnp.broadcast_to(c, (*lead, *shapes[2][-2:]))
    solve = _sylvester_by_schur if method == "schur" else _sylvester_by_eigenvectors
    x, sums = solve(_complex(a), _complex(b), _complex(c))
    x = jnp.where((jnp.abs(sums) < tol).any((-2, -1), keepdims=True),
                  jnp.nan * (1 + 1j), x)
    return x if c.dtype.kind == "c" else x.real


def _sylvester_by_schur(a: Any, b: Any, c: Any) -> tuple[Any, Any]:
    """Column after column of R Y + Y S = F, R and S triangular; and the sums of eigenvalues."""
    (r, u), (s, v) = la.schur(a), la.schur(b)
    f = _adjoint(u) @ c @ v
    n = s.shape[-1]
    one = jnp.eye(r.shape[-1], dtype=r.dtype)

    def column(k: Any, y: Any) -> Any:
        left = jnp.take(f, k, axis=-1) - (y @ jnp.take(s, k, axis=-1)[..., None])[..., 0]
        own = jnp.take(jnp.diagonal(s, axis1=-2, axis2=-1), k, axis=-1)
        moved = jnp.broadcast_to(r + own[..., None, None] * one, (*f.shape[:-2], *one.shape))
        solved = la.triangular_solve(moved, left[..., None], left_side=True)
        return y + jnp.where(jnp.arange(n) == k, solved, 0)

    y = fori_loop(0, n, column, jnp.zeros_like(f))
    sums = jnp.diagonal(r, axis1=-2, axis2=-1)[..., :, None] + jnp.diagonal(
        s, axis1=-2, axis2=-1)[..., None, :]
    return u @ y @ _adjoint(v), sums


def _sylvester_by_eigenvectors(a: Any, b: Any, c: Any) -> tuple[Any, Any]:
    (p, v), (q, w) = jnp.linalg.eig(a), jnp.linalg.eig(b)
    sums = p[..., :, None] + q[..., None, :]
    inner = jnp.linalg.solve(v, c @ w) / sums
    return v @ jnp.swapaxes(jnp.linalg.solve(jnp.swapaxes(w, -1, -2),
                                             jnp.swapaxes(inner, -1, -2)), -1, -2), sums
