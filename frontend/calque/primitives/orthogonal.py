"""qr, eigh and svd with what they are made of; leading axes are a batch.

Their Programs lie in orthogonal_programs.py.  Derivatives: Giles, "An extended collection of matrix
derivative results" (2008); Walter & Lehmann, "Algorithmic differentiation of linear algebra
functions" (2010), for qr of every shape; Wan & Zhang, "Automatic differentiation for complex valued
SVD" (2019).  Start reading at `_qr_jvp`.
"""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from calque.core.avals import ShapedArray, is_complex, ndim_of, shape_of
from calque.core.dims import guess, is_static, min_dim, number
from calque.core.dtypes import real_dtype
from calque.core.errors import explain
from calque.core.primitive import Primitive
from calque.core.program import Program
from calque.core.zeros import is_zero, zero_like, zeros
from calque.primitives import elementwise as ew
from calque.primitives import orthogonal_programs as programs
from calque.primitives import shape as sh
from calque.primitives.elementwise import add, div, mul, sub
from calque.primitives.linalg import (
    INT,
    adjoint,
    all_of,
    by_algorithm,
    check_float,
    check_matrix,
    check_rank,
    conj,
    cut,
    flip,
    identity_like,
    lower_part,
    no_derivative,
    padded,
    product,
    solved,
    triangular_solve,
    upper_part,
)
from calque.primitives.reduce import reduce_max_p, reduce_sum
from calque.primitives.sort import take_along
from calque.transforms.stage import stage
from calque.transforms.vmap import batch_first

geqrf_p = Primitive("geqrf", multiple_results=True, differentiable=False)
geqp3_p = Primitive("geqp3", multiple_results=True, differentiable=False)
householder_product_p = Primitive("householder_product", differentiable=False)
qr_p = Primitive("qr", multiple_results=True)
eigh_p = Primitive("eigh", multiple_results=True)
svd_p = Primitive("svd", multiple_results=True)
pinv_p = Primitive("pinv")


def square(name: str, a: ShapedArray, message: str) -> None:
    """Raise unless a is floating and square; `message` ends with the shape."""
    check_rank(name, 0, a)
    if a.shape[-1] != a.shape[-2]:
        raise ValueError(explain(f"{message} {a.shape}", fix="pass square matrices."))
    check_float(name, 0, a)


# ---- Householder reflections
def _geqrf_abstract(a: ShapedArray) -> list[ShapedArray]:
    check_matrix("geqrf", a)
    return [a, ShapedArray((*a.shape[:-2], min_dim(*a.shape[-2:])), a.dtype)]


def _geqp3_abstract(a: ShapedArray) -> list[ShapedArray]:
    packed, taus = _geqrf_abstract(a)
    return [packed, ShapedArray((*a.shape[:-2], a.shape[-1]), INT), taus]


def _product_abstract(a: ShapedArray, taus: ShapedArray) -> ShapedArray:
    check_rank("householder_product", 0, a)
    check_rank("householder_product", 1, taus, 1)
    for i, x in enumerate((a, taus)):
        check_float("householder_product", i, x)
    if a.dtype != taus.dtype:
        raise TypeError(explain(
            "lax.householder_product requires arguments to have the same dtypes, got "
            f"{a.dtype.name}, {taus.dtype.name}.", fix="cast one of them with .astype(...)."))
    m, n = a.shape[-2:]
    if m < n:
        raise ValueError(explain(
            "The first argument to householder_product must have at least as many rows as "
            f"columns, got shape {(m, n)}", fix="pass the tall matrix of reflections of geqrf."))
    if taus.shape[-1] > min_dim(m, n):
        raise ValueError(explain(
            "The second argument to householder_product must not have more rows than the minimum "
            "of the first argument's rows and columns.",
            fix=f"pass at most {min_dim(m, n)} factors."))
    if taus.shape[:-1] != a.shape[:-2]:
        raise ValueError(explain(
            "householder_product: the arguments need the same leading axes, got shapes "
            f"{a.shape} and {taus.shape}.", fix="broadcast one of them."))
    return a


geqrf_p.abstract, geqrf_p.batch = _geqrf_abstract, batch_first(geqrf_p)
by_algorithm(geqrf_p, 2)
geqp3_p.abstract, geqp3_p.batch = _geqp3_abstract, batch_first(geqp3_p)
by_algorithm(geqp3_p, 2)
householder_product_p.abstract = _product_abstract
for _p in (geqrf_p, geqp3_p, householder_product_p):
    _p.jvp = no_derivative(_p)
by_algorithm(householder_product_p, 2, 1)
householder_product_p.batch = batch_first(householder_product_p)


# ---- qr
def _qr_abstract(a: ShapedArray, *, full_matrices: bool, pivoting: bool,
                 use_magma: Any = None) -> list[ShapedArray]:
    check_matrix("qr", a)
    lead, (m, n) = a.shape[:-2], a.shape[-2:]
    k = m if full_matrices else min_dim(m, n)
    outs = [ShapedArray((*lead, m, k), a.dtype), ShapedArray((*lead, k, n), a.dtype)]
    return [*outs, ShapedArray((*lead, n), INT)] if pivoting else outs


def _qr_program(a: ShapedArray, *, full_matrices: bool, pivoting: bool,
                use_magma: Any = None) -> Program:
    m, n = a.shape[-2:]
    k = m if full_matrices else min_dim(m, n)

    def qr(x: Any) -> list[Any]:
        if pivoting:
            packed, order, taus = geqp3_p.bind(x)
        else:
            packed, taus = geqrf_p.bind(x)
        if not m or not n:
            q = zeros(ShapedArray((*a.shape[:-2], m, k), a.dtype))
            outs = [add(q, identity_like(q)) if m and k else q, cut(packed, min_dim(m, k), n)]
        else:
            q = householder_product_p.bind(padded(cut(packed, m, min_dim(k, n)), m, k), taus)
            outs = [q, upper_part(cut(packed, k, n), 1)]
        return [*outs, order] if pivoting else outs

    return stage(qr, [ShapedArray(a.shape, a.dtype)], "qr")


def _qr_jvp(primals: Sequence[Any], tangents: Sequence[Any], *, full_matrices: bool,
            pivoting: bool, use_magma: Any = None) -> Any:
    """dQ = Q W and dR = Q^H dA - W R with W skew-Hermitian, W's lower part from dA R1^-1.

    R1 is the square part of R.
    """
    (a,), (t,) = primals, tangents
    outs = qr_p.bind(a, full_matrices=full_matrices, pivoting=pivoting, use_magma=use_magma)
    if is_zero(t):
        return outs, [zero_like(o) for o in outs]
    q, r, *order = outs
    m, n = shape_of(a)[-2:]
    k = min_dim(m, n)
    if pivoting:
        rows = sh.broadcast_in_dim(order[0], shape_of(a),
                                   (*range(ndim_of(a) - 2), ndim_of(a) - 1))
        t = take_along(t, rows, ndim_of(a) - 1)
    head = cut(t, m, k)
    moved = triangular_solve(cut(r, k, k), head, left_side=False, lower=False)  # dA R1^-1
    inside = product(adjoint(q), moved)
    skew = lower_part(inside, 1)  # rows of Q's columns, k columns
    corner = cut(skew, k, k)
    if is_complex(a):  # R's diagonal stays real
        imag = ew.imag(cut(inside, k, k))
        diagonal = ew.complex_(all_of(imag, 0), imag)
        corner = add(corner, mul(diagonal, identity_like(diagonal)))
        whole = sub(corner, adjoint(lower_part(corner, 1)))
    else:
        whole = sub(corner, flip(corner))
    more = shape_of(q)[-1] - k
    if more:
        below = _lowest(skew, more)
        top = sh.concatenate([whole, ew.neg(adjoint(below))], ndim_of(a) - 1)
        first = product(q, sh.concatenate([whole, below], ndim_of(a) - 2))
        low = sh.concatenate([below, _turn(q, first, k, more)], ndim_of(a) - 1)
        whole = sh.concatenate([top, low], ndim_of(a) - 2)
    dq = product(q, whole)
    if m != shape_of(q)[-1]:  # what of dA R1^-1 lies outside Q's range
        dq = add(dq, sub(moved, product(q, inside)))
    dr = upper_part(sub(product(adjoint(q), t), product(whole, r)), 1)
    return outs, [dq, dr, *[zero_like(o) for o in order]]


def _turn(q: Any, t: Any, k: Any, more: Any) -> Any:
    """Q2^H dQ2 of the further columns Q2, which reflections make, from t = dQ1.

    I - Q = V T V^H with V unit lower trapezoidal, hence Q2 = E2 + (E1 - Q1) H with the identity's
    columns E and (I - Q11)^H H = Q21^H.  A reflection that is none makes I - Q11 singular: 0 then.
    """
    m = shape_of(q)[-2]
    first = cut(q, m, k)
    corner = cut(q, k, k)
    inner = adjoint(sub(identity_like(corner), corner))
    h = solved(inner, adjoint(_lowest(first, more)))
    rank = ndim_of(h)
    fine = ew.is_finite(reduce_max_p.bind(
        ew.abs_(h), axes=(rank - 2, rank - 1), out_sharding=None))
    inner, h = (ew.select_n(_spread(fine, x), other, x)
                for x, other in ((inner, identity_like(inner)), (h, all_of(h, 0))))
    dh = solved(inner, add(adjoint(_lowest(t, more)), product(adjoint(cut(t, k, k)), h)))
    dq = sub(product(sub(identity_like(first), first), dh), product(t, h))
    turn = product(conj(_lowest(flip(q), more)), dq)
    return ew.select_n(_spread(fine, turn), all_of(turn, 0), turn)


def _spread(mask: Any, x: Any) -> Any:
    """One truth for each matrix of x."""
    return sh.broadcast_in_dim(mask, shape_of(x), tuple(range(ndim_of(x) - 2)))


def _lowest(x: Any, rows: int) -> Any:
    """The last rows of a matrix."""
    shape = shape_of(x)
    start = (*[0] * (len(shape) - 2), shape[-2] - rows, 0)
    return sh.slice_(x, start, shape)


qr_p.abstract, qr_p.jvp, qr_p.batch = _qr_abstract, _qr_jvp, batch_first(qr_p)
qr_p.program = _qr_program


# ---- eigh: (vectors, values)
def _eigh_abstract(a: ShapedArray, *, lower: bool, sort_eigenvalues: bool,
                   compute_vectors: bool, subset_by_index: Any, algorithm: Any
                   ) -> list[ShapedArray]:
    square("eigh", a, "Argument to symmetric eigendecomposition must have shape [..., n, n], "
                      "got shape")
    w = ShapedArray(a.shape[:-1], real_dtype(a.dtype))
    return [a, w] if compute_vectors else [w]


def _eigh_jvp(primals: Sequence[Any], tangents: Sequence[Any], *, compute_vectors: bool,
              **params: Any) -> Any:
    """dw = diag(P), dV = V (F o P) with P = V^H dA V, F[i, j] = 1 / (w[j] - w[i]).

    dA is taken as it is, as if it were Hermitian, whichever triangle is read (as in JAX).
    """
    (t,) = tangents
    if is_zero(t):
        outs = eigh_p.bind(*primals, compute_vectors=compute_vectors, **params)
        return outs, [zero_like(x) for x in outs]
    v, w = eigh_p.bind(*primals, compute_vectors=True, **params)
    inner = product(adjoint(v), product(t, v))
    if not compute_vectors:
        return [w], [real_diagonal(inner)]
    dv = product(v, mul(inner, _complexed(_gaps(w), v)))
    return [v, w], [dv, real_diagonal(inner)]


def _gaps(w: Any) -> Any:
    """1 / (w[j] - w[i]), 0 on the diagonal."""
    across, down = _matrix_of(w, -1), _matrix_of(w, -2)
    eye = identity_like(across)
    return sub(div(all_of(eye, 1), add(eye, sub(across, down))), eye)


def _matrix_of(w: Any, axis: int) -> Any:
    """w along the columns (axis -1) or the rows (axis -2) of square matrices."""
    shape = shape_of(w)
    rank = len(shape)
    return sh.broadcast_in_dim(w, (*shape, shape[-1]), (*range(rank - 1), rank + 1 + axis))


def scaled_columns(v: Any, w: Any) -> Any:
    """v diag(w) for real w."""
    return mul(v, _complexed(sh.broadcast_in_dim(w, shape_of(v), (
        *range(ndim_of(w) - 1), ndim_of(v) - 1)), v))


def symmetric_from_lower(a: Any) -> Any:
    """The symmetric matrix with a's lower triangle."""
    low = lower_part(a)
    return add(low, flip(lower_part(a, 1)))


def _complexed(x: Any, like: Any) -> Any:
    """A real array in like's dtype."""
    return ew.complex_(x, all_of(x, 0)) if is_complex(like) else x


def real_diagonal(a: Any) -> Any:
    """The real part of the diagonal of matrices."""
    a = ew.real(a) if is_complex(a) else a
    return reduce_sum(mul(a, identity_like(a)), (ndim_of(a) - 1,))


eigh_p.abstract, eigh_p.jvp, eigh_p.batch = _eigh_abstract, _eigh_jvp, batch_first(eigh_p)
by_algorithm(eigh_p, 2)


# ---- svd: (values, left vectors, right vectors)
def _svd_abstract(a: ShapedArray, *, full_matrices: bool, compute_uv: bool, subset_by_index: Any,
                  algorithm: Any = None) -> list[ShapedArray]:
    check_matrix("svd", a)
    lead, (m, n) = a.shape[:-2], a.shape[-2:]
    k = min_dim(m, n)
    s = ShapedArray((*lead, k), real_dtype(a.dtype))
    u, v = (m, m if full_matrices else k), (n if full_matrices else k, n)
    return [s, *[ShapedArray((*lead, *x), a.dtype) for x in (u, v)]] if compute_uv else [s]


def _svd_jvp(primals: Sequence[Any], tangents: Sequence[Any], *, full_matrices: bool,
             compute_uv: bool, **params: Any) -> Any:
    """With P = U^H dA V: ds = diag(P), dU = U (F o (P S + S P^H)), dV = V (F o (S P + P^H S))."""
    (a,), (t,) = primals, tangents
    m, n = shape_of(a)[-2:]
    k = min_dim(m, n)
    if is_zero(t):
        outs = svd_p.bind(a, full_matrices=full_matrices, compute_uv=compute_uv, **params)
        return outs, [zero_like(o) for o in outs]
    if compute_uv and full_matrices and m != n:
        raise NotImplementedError(explain(
            "Singular value decomposition JVP not implemented for full matrices",
            fix="pass full_matrices=False: vectors outside the range of a have no derivative."))
    s, u, vh = svd_p.bind(a, full_matrices=False, compute_uv=True, **params)
    v = adjoint(vh)
    inner = product(adjoint(u), product(t, v))
    ds = real_diagonal(inner)
    if not compute_uv:
        return [s], [ds]
    across, down = (_complexed(_matrix_of(s, k), u) for k in (-1, -2))
    square_ = mul(s, s)
    gaps = _complexed(_gaps(square_), u)
    right = mul(inner, across)
    left = mul(down, inner)
    turn = mul(gaps, add(right, adjoint(right)))
    if is_complex(a):
        half = mul(sub(inner, adjoint(inner)), div(all_of(across, 0.5), across))
        turn = add(turn, mul(half, identity_like(half)))
    du = product(u, turn)
    dv = product(v, mul(gaps, add(left, adjoint(left))))
    if m != k:
        du = add(du, _outside(u, product(t, v), s, m, k))
    if n != k:
        dv = add(dv, _outside(v, product(adjoint(t), u), s, n, k))
    return [s, u, vh], [ds, du, adjoint(dv)]


def _outside(u: Any, moved: Any, s: Any, rows: Any, columns: Any) -> Any:
    """What of `moved` lies outside u's range, over the singular values: 0 where u is square."""
    rest = sub(moved, product(u, product(adjoint(u), moved)))
    shape = shape_of(rest)
    rank = len(shape)
    below = sh.broadcast_in_dim(_complexed(s, u), shape, (*range(rank - 2), rank - 1))
    if is_static((rows, columns)):
        return div(rest, below)
    tall = ew.gt(number(rows, INT), number(columns, INT))
    tall = sh.broadcast_in_dim(tall, shape, ())
    return div(ew.select_n(tall, all_of(rest, 0), rest), ew.select_n(tall, all_of(rest, 1), below))


svd_p.abstract, svd_p.jvp, svd_p.batch = _svd_abstract, _svd_jvp, batch_first(svd_p)
by_algorithm(svd_p, 2)


# ---- pinv: (a, relative tolerance of each matrix)
def _pinv_abstract(a: ShapedArray, rtol: ShapedArray, *, hermitian: bool) -> ShapedArray:
    check_matrix("pinv", a)
    return ShapedArray((*a.shape[:-2], a.shape[-1], a.shape[-2]), a.dtype)


def _pinv_program(a: ShapedArray, rtol: ShapedArray, *, hermitian: bool) -> Program:
    def pinv(x: Any, rtol: Any) -> list[Any]:
        if hermitian:
            total = add(x, adjoint(x))
            v, w = eigh_p.bind(div(total, ew.const(total, 2)), lower=True, sort_eigenvalues=True,
                               compute_vectors=True, subset_by_index=None, algorithm=None)
            s, u, v = w, v, v
        else:
            s, u, vh = svd_p.bind(x, full_matrices=False, compute_uv=True, subset_by_index=None,
                                  algorithm=None)
            v = adjoint(vh)
        shape = shape_of(s)
        size = ew.abs_(s)
        most = reduce_max_p.bind(size, axes=(len(shape) - 1,), out_sharding=None)
        least = sh.columns_of(mul(rtol, most), shape)
        kept = ew.gt(size, least)
        one = all_of(s, 1)
        lost = ew.ne(size, size)  # NaN stays
        kept = ew.or_(kept, lost)
        inverse = ew.select_n(kept, all_of(s, 0), div(one, ew.select_n(kept, one, s)))
        return [product(scaled_columns(v, inverse), adjoint(u))]

    plain = [ShapedArray(x.shape, x.dtype) for x in (a, rtol)]
    return stage(pinv, plain, "pinv")


def _pinv_jvp(primals: Sequence[Any], tangents: Sequence[Any], *, hermitian: bool) -> Any:
    """Golub and Pereyra (1973): dP = -P dA P + P P^H dA^H (I - A P) + (I - P A) dA^H P^H P."""
    (a, rtol), (t, _) = primals, tangents
    p = pinv_p.bind(a, rtol, hermitian=hermitian)
    if is_zero(t):
        return p, zero_like(p)
    *_, m, n = map(guess, shape_of(a))

    def triple(x: Any, y: Any, z: Any) -> Any:
        """Of p's shape: no product between is larger than the smaller square."""
        return product(product(x, y), z) if n <= m else product(x, product(y, z))

    ph, th = adjoint(p), adjoint(t)
    left, right = triple(p, ph, th), triple(th, ph, p)
    moved = sub(add(left, right), add(triple(left, a, p), triple(p, a, right)))
    return p, sub(moved, triple(p, t, p))


pinv_p.abstract, pinv_p.jvp, pinv_p.program = _pinv_abstract, _pinv_jvp, _pinv_program
pinv_p.batch = batch_first(pinv_p)
assert programs.ALGORITHMS
