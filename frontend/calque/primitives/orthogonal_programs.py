"""Orthogonal decompositions as Programs of other primitives: the forms that every target has.

Householder reflections run in a scan over columns (LAPACK's geqrf: H = I - tau v v^H, v[j] = 1, R's
diagonal real), eigenvalues of Hermitian matrices and singular values come by Jacobi rotations of
pairs of a round-robin tournament (Brent & Luk, "The solution of singular-value and symmetric
eigenvalue problems on multiprocessor arrays", 1985), which are accurate and have no shifts to go
wrong.  Start reading at `geqrf`, then `eigh`.
"""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from calque.core import dtypes
from calque.core.avals import ShapedArray, aval_of, dtype_of, is_complex, ndim_of, shape_of
from calque.core.dims import min_dim, number
from calque.core.zeros import zeros
from calque.primitives import elementwise as ew
from calque.primitives import reduce as rd
from calque.primitives import shape as sh
from calque.primitives.elementwise import add, complex_, div, mul, sub
from calque.primitives.linalg_programs import ALGORITHMS as ALGORITHMS
from calque.primitives.linalg_programs import (
    INT,
    adjoint,
    all_of,
    along,
    column_of,
    conj,
    down,
    element_of,
    filled,
    flip,
    product,
    repeat,
    scan_of,
    where,
)
from calque.primitives.sort import sort, take_along
from calque.primitives.while_loop import while_loop
from calque.transforms.stage import closed, stage

SWEEPS = 40  # of rotations at most; matrices take about log2(n) + 5


# ---- small words
def real_part(x: Any) -> Any:
    return ew.real(x) if is_complex(x) else x


def as_dtype_of(x: Any, real: Any) -> Any:
    """A real array in x's dtype."""
    return complex_(real, all_of(real, 0.0)) if is_complex(x) else real


def _over(x: Any, real: Any) -> Any:
    """x / real, by parts: two quotients, which neither overflow nor make NaN of 0 and inf."""
    if not is_complex(x):
        return div(x, real)
    return complex_(div(ew.real(x), real), div(ew.imag(x), real))


def _times(x: Any, real: Any) -> Any:
    """x real, by parts."""
    if not is_complex(x):
        return mul(x, real)
    return complex_(mul(ew.real(x), real), mul(ew.imag(x), real))


def _sum(x: Any, axis: int = 0) -> Any:
    return rd.reduce_sum_p.bind(x, axes=(axis,), out_sharding=None)


def _max(x: Any) -> Any:
    return rd.reduce_max_p.bind(x, axes=tuple(range(ndim_of(x))), out_sharding=None)


def _size2(x: Any) -> Any:
    """|x|^2."""
    if is_complex(x):
        re, im = ew.real(x), ew.imag(x)
        return add(mul(re, re), mul(im, im))
    return mul(x, x)


def places(m: int, n: int) -> tuple[Any, Any]:
    """Of each element its row and its column."""
    return sh.iota(INT, (m, n), 0), sh.iota(INT, (m, n), 1)


def halves(x: Any, h: int) -> tuple[Any, Any]:
    """The first h rows and the others."""
    return sh.slice_in_dim(x, 0, h, 0), sh.slice_in_dim(x, h, shape_of(x)[0], 0)


def with_real_diagonal(x: Any, i: Any, j: Any) -> Any:
    return where(ew.eq(i, j), as_dtype_of(x, real_part(x)), x)


def _eye(like: Any, m: int, n: int) -> Any:
    i, j = places(m, n)
    one, none = filled(like, 1, m, n), filled(like, 0, m, n)
    return where(ew.eq(i, j), one, none)


def _scale_of(x: Any) -> Any:
    """The largest |re| or |im|, or 1 where that is 0, infinite or NaN; real."""
    size = ew.abs_(real_part(x))
    if is_complex(x):
        size = ew.max_(size, ew.abs_(ew.imag(x)))
    largest = _max(size)
    usable = ew.and_(ew.gt(largest, ew.const(largest, 0)),
                     ew.is_finite(largest))
    return where(usable, largest, ew.const(largest, 1))


# ---- Householder reflections
def geqrf(a: Any) -> list[Any]:
    """(R on and above the diagonal and the reflections below it, their factors tau)."""
    m, n = shape_of(a)
    k = min_dim(m, n)
    if not k:
        return [a, zeros(ShapedArray((0,), dtype_of(a)))]

    return scan_of(eliminated, [a], [sh.iota(INT, (k,))], k)


def eliminated(rest: Any, j: Any) -> list[Any]:
    """[rest with column j brought to R's, its reflection stored below, and applied to the columns
    behind it; the reflection's factor]."""
    m, n = shape_of(rest)
    i = sh.iota(INT, (m,))
    column = column_of(rest, j)
    v, tau, beta = reflection(column, i, j)
    reduced = reflected(rest, v, tau, adjoint=True)
    kept = stored(column, v, beta, i, j)
    t, here = sh.iota(INT, (m, n), 1), repeat(j, m, n)
    return [where(ew.gt(t, here), reduced, where(ew.eq(t, here), down(kept, n), rest)), tau]


def reflected(x: Any, v: Any, tau: Any, adjoint: bool = False) -> Any:
    """(I - tau v v^H) x, or with conj(tau)."""
    m, n = shape_of(x)
    applied = product(sh.reshape(conj(v), (1, m)), x)
    factor = mul(down(v, n), along(sh.reshape(applied, (n,)), m))
    return sub(x, mul(repeat(conj(tau) if adjoint else tau, m, n), factor))


def stored(column: Any, v: Any, beta: Any, i: Any, j: Any) -> Any:
    """A column with beta at j and the reflection v below."""
    (m,) = shape_of(column)
    at = repeat(j, m)
    return where(ew.gt(i, at), v, where(ew.eq(i, at), repeat(beta, m), column))


def reflection(column: Any, i: Any, j: Any) -> tuple[Any, Any, Any]:
    """(v, tau, beta) with (I - conj(tau) v v^H) column = beta e_j from element j on (larfg).

    v is 0 before j and 1 at j; tau is 0 where nothing stands below and column[j] is real.
    """
    (m,) = shape_of(column)
    at = repeat(j, m)
    below = where(ew.gt(i, at), column, all_of(column, 0))
    alpha = element_of(column, j)
    scale = _scale_of(where(ew.ge(i, at), column, all_of(column, 0)))
    small = _over(below, repeat(scale, m))
    head = _over(alpha, scale)
    tail = _sum(_size2(small))
    norm = mul(scale, ew.sqrt(add(_size2(head), tail)))
    real = real_part(alpha)
    beta = where(ew.ge(real, ew.const(real, 0)), ew.neg(norm), norm)
    none = ew.eq(tail, ew.const(tail, 0))
    if is_complex(column):
        imag = ew.imag(alpha)
        none = ew.and_(none, ew.eq(imag, ew.const(imag, 0)))
    beta = where(none, real, beta)
    safe = where(none, ew.const(beta, 1), beta)
    full = as_dtype_of(alpha, beta)
    tau = _over(sub(full, alpha), safe)
    divisor = where(none, ew.const(alpha, 1), sub(alpha, full))
    v = div(below, repeat(divisor, m))
    v = where(ew.eq(i, at), all_of(v, 1), v)
    return v, where(none, all_of(tau, 0), tau), full


def householder_product(a: Any, taus: Any) -> list[Any]:
    """The first columns of H_1 H_2 ... for the reflections below a's diagonal."""
    m, n = shape_of(a)
    (k,) = shape_of(taus)
    if not m or not n:
        return [a]

    def step(q: Any, j: Any, tau: Any) -> list[Any]:
        i = sh.iota(INT, (m,))
        column, at = column_of(a, j), repeat(j, m)
        v = where(ew.gt(i, at), column, all_of(column, 0))
        v = where(ew.eq(i, at), all_of(v, 1), v)
        return [reflected(q, v, tau)]

    start = _eye(a, m, n)
    return scan_of(step, [start], [sh.iota(INT, (k,)), taus], k, reverse=True) if k else [start]


def geqp3(a: Any) -> list[Any]:
    """geqrf of a's columns in the order in which what is left of them is largest, and the order."""
    m, n = shape_of(a)
    k = min_dim(m, n)
    order = sh.iota(INT, (n,))
    if not k:
        return [a, order, zeros(ShapedArray((0,), dtype_of(a)))]

    def step(rest: Any, order: Any, j: Any) -> list[Any]:
        t = sh.iota(INT, (n,))
        live = ew.ge(sh.iota(INT, (m, n), 0), repeat(j, m, n))
        left = where(live, rest, all_of(rest, 0))
        scale = _scale_of(left)
        sizes = _sum(_size2(_over(left, repeat(scale, m, n))))
        open_ = ew.ge(t, repeat(j, n))
        sizes = where(open_, sizes, all_of(sizes, -1))
        best = where(ew.eq(sizes, repeat(_max(sizes), n)), t, all_of(t, n))
        p = ew.min_(rd.reduce_min_p.bind(best, axes=(0,), out_sharding=None), number(n - 1, INT))
        p = where(ew.ge(p, j), p, j)
        moved = where(ew.eq(t, repeat(p, n)), repeat(j, n), t)
        moved = where(ew.eq(t, repeat(j, n)), repeat(p, n), moved)
        rest = take_along(rest, along(moved, m), 1)
        order = take_along(order, moved, 0)
        made, tau = eliminated(rest, j)
        return [made, order, tau]

    made, order, taus = scan_of(step, [a, order], [sh.iota(INT, (k,))], k)
    return [made, order, taus]


# ---- Jacobi rotations
def _joined(xs: Sequence[Any]) -> Any:
    xs = [x for x in xs if shape_of(x)[0]]
    return sh.concatenate(xs, 0) if len(xs) > 1 else xs[0]


def _next_round(x: Any) -> Any:
    """Rows of a round-robin tournament move on: row k plays row k + n/2, row 0 stays."""
    n = shape_of(x)[0]
    h = n // 2

    def part(low: int, high: int) -> Any:
        return sh.slice_in_dim(x, low, max(low, high), 0)
    if h == 1:
        return x
    return _joined([part(0, 1), part(h, h + 1), part(1, h - 1), part(h + 1, n), part(h - 1, h)])


def _rotation(app: Any, aqq: Any, apq: Any, small: Any) -> tuple[Any, Any]:
    """(c, s) with c real: rows p <- c p - s q, q <- conj(s) p + c q make apq vanish.

    Nothing is rotated where |apq| <= small.
    """
    size = ew.sqrt(_size2(apq))
    done = ew.not_(ew.gt(size, small))
    safe = where(done, all_of(size, 1), size)
    half = div(sub(aqq, app), mul(all_of(safe, 2), safe))
    root = ew.sqrt(add(all_of(half, 1), mul(half, half)))
    sign = where(ew.ge(half, all_of(half, 0)), all_of(half, 1), all_of(half, -1))
    t = div(sign, add(ew.abs_(half), root))
    c = div(all_of(t, 1), ew.sqrt(add(all_of(t, 1), mul(t, t))))
    s = mul(t, c)
    c, s = where(done, all_of(c, 1), c), where(done, all_of(s, 0), s)
    return c, _times(_over(apq, safe), s)


def _rotated(x: Any, c: Any, s: Any) -> Any:
    n, m = shape_of(x)
    h = n // 2
    top, low = halves(x, h)
    cosine, sine = down(c, m), down(s, m)
    return sh.concatenate([sub(_times(top, cosine), mul(sine, low)),
                           add(mul(conj(sine), top), _times(low, cosine))], 0)


def diagonal(a: Any) -> Any:
    n = shape_of(a)[0]
    return _sum(where(ew.eq(sh.iota(INT, (n, n), 0), sh.iota(INT, (n, n), 1)), a, all_of(a, 0)))


def _sweeps(step: Any, state: Sequence[Any], rounds: int) -> list[Any]:
    """step(*state) -> (*state, largest rotation), `rounds` times a sweep, until none is made."""
    count, avals = np.int32(0), [aval_of(s) for s in state]
    real = dtypes.real_dtype(avals[0].dtype)
    flag = ShapedArray((), real)

    def again(i: Any, left: Any, *_: Any) -> list[Any]:
        few = ew.lt(i, np.int32(SWEEPS))
        return [ew.and_(few, ew.gt(left, ew.const(left, 0)))]

    def sweep(i: Any, _: Any, *state: Any) -> list[Any]:
        def one(*xs: Any) -> list[Any]:
            *rest, left, _ = xs
            *rest, moved = step(*rest)
            return [*rest, ew.max_(left, moved)]
        start = sh.broadcast_in_dim(real.type(0), (), ())
        outs = scan_of(one, [*state, start], [sh.iota(INT, (rounds,))], rounds)
        return [add(i, np.int32(1)), outs[-1], *outs[:-1]]

    every = [ShapedArray((), INT), flag, *[ShapedArray(a.shape, a.dtype) for a in avals]]
    (cond, cond_consts), (body, consts) = (closed(stage(f, every, "sweep"))
                                           for f in (again, sweep))
    return list(while_loop(cond, cond_consts, body, consts,
                           [count, real.type(1), *state])[2:])


def _eigh_of_two(full: Any) -> tuple[Any, Any]:
    """(vectors, ascending values) of a real symmetric matrix of two rows, without a loop.

    Formulas and signs are those of LAPACK's dlaev2, as its QL iteration uses them: the vector of
    the larger |value| is turned from e1, and stands second where that value is positive.
    """
    a, b, c = (sh.reshape(sh.slice_(full, (i, j), (i + 1, j + 1)), ())
               for i, j in ((0, 0), (1, 0), (1, 1)))
    none, one = all_of(a, 0), all_of(a, 1)
    total, apart, twice = add(a, c), sub(a, c), add(b, b)
    eps = float(np.finfo(dtype_of(a)).eps)
    alone = ew.le(ew.abs_(b), mul(ew.sqrt(mul(ew.abs_(a), ew.abs_(c))), all_of(a, eps)))
    root = ew.sqrt(add(mul(apart, apart), mul(twice, twice)))
    first_is_most = ew.ge(apart, none)
    positive = ew.ge(total, none)
    signed = where(first_is_most, root, ew.neg(root))
    far = div(add(total, where(positive, root, ew.neg(root))), all_of(a, 2))  # the larger |value|
    safe = where(ew.eq(far, none), one, far)
    larger = ew.gt(ew.abs_(a), ew.abs_(c))
    most, least = where(larger, a, c), where(larger, c, a)
    near = sub(mul(div(most, safe), least), mul(div(b, safe), b))
    tall = add(apart, signed)
    steep = ew.gt(ew.abs_(tall), ew.abs_(twice))
    ratio = ew.neg(where(steep, div(twice, where(steep, tall, one)),
                         div(tall, where(ew.eq(twice, none), one, twice))))
    short = div(one, ew.sqrt(add(one, mul(ratio, ratio))))
    long = mul(ratio, short)
    x, y = where(steep, long, short), where(steep, short, long)
    turned = ew.eq(positive, first_is_most)
    x, y = where(turned, ew.neg(y), x), where(turned, x, y)
    # far's vector is (x, y), near's (-y, x); of a diagonal matrix they are e1 and e2
    x, y = where(alone, one, x), where(alone, none, y)
    far, near = where(alone, a, far), where(alone, c, near)
    swapped = ew.gt(far, near)
    columns = [(where(swapped, ew.neg(y), x), where(swapped, x, y)),
               (where(swapped, x, ew.neg(y)), where(swapped, y, x))]
    vectors = sh.concatenate([sh.reshape(columns[k][i], (1,)) for i in (0, 1) for k in (0, 1)], 0)
    values = [where(swapped, near, far), where(swapped, far, near)]
    return (sh.reshape(vectors, (2, 2)),
            sh.concatenate([sh.reshape(v, (1,)) for v in values], 0))


def _even(a: Any, columns: bool = True) -> Any:
    """A matrix with a row (and a column) of zeros more where its rows are odd in number."""
    odd = shape_of(a)[0] % 2
    return sh.pad(a, ew.const(a, 0), [(0, 1, 0), (0, int(columns), 0)]) if odd else a


def _moved_max(s: Any) -> Any:
    return _max(ew.abs_(real_part(s)) if not is_complex(s) else ew.sqrt(_size2(s)))


def eigh(a: Any, *, lower: bool, sort_eigenvalues: bool, compute_vectors: bool,
         subset_by_index: Any = None, algorithm: Any = None) -> list[Any]:
    """(eigenvectors as columns, ascending eigenvalues) of the matrix with a's triangle."""
    n = shape_of(a)[0]
    real = dtypes.real_dtype(dtype_of(a))
    if not n:
        w = zeros(ShapedArray((0,), real))
        return [a, w] if compute_vectors else [w]
    i, j = places(n, n)
    a = a if lower else adjoint(a)
    full = where(ew.ge(i, j), a, adjoint(a))
    full = with_real_diagonal(full, i, j)
    scale = _scale_of(full)
    work = _over(full, repeat(scale, n, n))
    if n == 2 and not is_complex(a):
        vectors, w = _eigh_of_two(work)
        return _ended(work, vectors, mul(w, repeat(scale, n)), compute_vectors)
    work = _even(work)
    size = shape_of(work)[0]
    h, eps = size // 2, float(np.finfo(real).eps)

    def step(work: Any, vectors: Any) -> list[Any]:
        d = real_part(diagonal(work))
        app, aqq = halves(d, h)
        apq = diagonal(sh.slice_(work, (0, h), (h, size)))
        least = mul(all_of(app, eps), ew.sqrt(ew.abs_(mul(app, aqq))))
        floor = all_of(app, eps * eps)
        c, s = _rotation(app, aqq, apq, ew.max_(least, floor))
        # rows by J^H, then columns by J: the rows of the conjugate transpose
        work = adjoint(_rotated(adjoint(_rotated(work, c, s)), c, s))
        work = _next_round(flip(_next_round(flip(work))))
        return [work, _next_round(_rotated(vectors, c, s)), _moved_max(s)]

    vectors = _eye(a, size, size)
    if size > 1:
        work, vectors = _sweeps(step, [work, vectors], size - 1)
    w = real_part(diagonal(work))
    vectors = adjoint(vectors)  # rows of J^H are columns of J
    if n != size:  # the row that was added stays itself: its vector is the last unit vector
        last = _size2(sh.reshape(sh.slice_in_dim(vectors, n, size, 0), (size,)))
        w = where(ew.gt(last, all_of(last, 0.5)), all_of(w, np.inf), w)
        vectors = sh.slice_in_dim(vectors, 0, n, 0)
    (_, order) = sort([w, sh.iota(INT, (size,))], 0)
    order = sh.slice_in_dim(order, 0, n, 0)
    w = mul(take_along(w, order, 0), repeat(scale, n))
    return _ended(work, take_along(vectors, along(order, n), 1), w, compute_vectors)


def _ended(work: Any, vectors: Any, w: Any, compute_vectors: bool) -> list[Any]:
    """What `eigh` returns: NaN where what it worked on is not finite."""
    n = shape_of(w)[0]
    bad = ew.not_(ew.is_finite(_sum(_sum(ew.abs_(real_part(work))))))
    w = where(repeat(bad, n), repeat(ew.const(w, np.nan), n), w)
    lost = repeat(bad, n, n)
    return [where(lost, all_of(vectors, np.nan), vectors), w] if compute_vectors else [w]


def svd(a: Any, *, full_matrices: bool, compute_uv: bool, subset_by_index: Any = None,
        algorithm: Any = None) -> list[Any]:
    """(descending singular values, left vectors as columns, right ones as rows)."""
    m, n = shape_of(a)
    real = dtypes.real_dtype(dtype_of(a))
    if not m or not n:
        s = zeros(ShapedArray((0,), real))
        u, v = (m, m if full_matrices else 0), (n if full_matrices else 0, n)
        return [s, _eye(zeros(ShapedArray((), dtype_of(a))), *u),
                _eye(zeros(ShapedArray((), dtype_of(a))), *v)] if compute_uv else [s]
    if m < n:
        outs = svd(adjoint(a), full_matrices=full_matrices, compute_uv=compute_uv)
        return [outs[0], adjoint(outs[2]), adjoint(outs[1])] if compute_uv else outs
    scale = _scale_of(a)
    packed, taus = geqrf(_over(a, repeat(scale, m, n)))
    i, j = places(n, n)
    top = sh.slice_in_dim(packed, 0, n, 0)
    upper = where(ew.le(i, j), top, all_of(top, 0))
    # rows of `work` are conjugated columns of X = R^H (lower triangular), which converge sooner
    work = _even(upper, columns=False)
    size = shape_of(work)[0]
    vectors = _eye(upper, size, size)
    h, eps = size // 2, float(np.finfo(real).eps)

    def step(work: Any, vectors: Any) -> list[Any]:
        top, low = halves(work, h)
        app, aqq = _sum(_size2(top), 1), _sum(_size2(low), 1)
        apq = _sum(mul(top, conj(low)), 1)
        small = mul(all_of(app, eps * np.sqrt(n)), mul(ew.sqrt(app), ew.sqrt(aqq)))
        c, s = _rotation(app, aqq, apq, small)
        return [_next_round(_rotated(work, c, s)), _next_round(_rotated(vectors, c, s)),
                _moved_max(s)]

    if size > 1:
        work, vectors = _sweeps(step, [work, vectors], size - 1)
    # work = J^H R and vectors = J^H, so R = J work and A = Q J diag(s) (work / s)
    s = ew.sqrt(_sum(_size2(work), 1))
    missing = all_of(s, 0)
    if n != size:
        mark = _size2(sh.reshape(sh.slice_in_dim(vectors, n, size, 1), (size,)))
        missing = where(ew.gt(mark, all_of(mark, 0.5)), all_of(mark, 1), all_of(mark, 0))
    key = where(ew.gt(missing, all_of(missing, 0)), all_of(s, np.inf), ew.neg(s))
    (_, order) = sort([key, sh.iota(INT, (size,))], 0)
    order = sh.slice_in_dim(order, 0, n, 0)
    s = take_along(s, order, 0)
    bad = ew.not_(ew.is_finite(_sum(s)))
    values = where(repeat(bad, n), all_of(s, np.nan), mul(s, repeat(scale, n)))
    if not compute_uv:
        return [values]
    vectors = take_along(vectors, down(order, size), 0)
    left = adjoint(sh.slice_in_dim(vectors, 0, n, 1))  # columns of J
    right = take_along(work, down(order, n), 0)
    safe = where(ew.gt(s, all_of(s, 0)), s, all_of(s, 1))
    vh = _orthonormal_rows(_over(right, down(safe, n)))
    k = m if full_matrices else n
    wide = left if k == n else _joined_square(left, k)
    square = packed if m == n or not full_matrices else sh.pad(
        packed, ew.const(packed, 0), [(0, 0, 0), (0, m - n, 0)])
    (q,) = householder_product(square, taus)
    u = product(q, wide)
    nan = [(x, sh.broadcast_in_dim(bad, shape_of(x), ())) for x in (u, vh)]
    return [values, *[where(b, all_of(x, np.nan), x) for x, b in nan]]


def _joined_square(x: Any, k: int) -> Any:
    """x in the corner of the identity of size k."""
    n = shape_of(x)[0]
    padded = sh.pad(x, ew.const(x, 0), [(0, k - n, 0), (0, k - n, 0)])
    i, j = places(k, k)
    beyond = ew.and_(ew.eq(i, j), ew.ge(i, ew.const(i, n)))
    return where(beyond, all_of(padded, 1), padded)


def _orthonormal_rows(x: Any) -> Any:
    """Rows that are orthonormal or 0, the latter replaced by what completes the former."""
    n = shape_of(x)[0]
    packed, taus = geqrf(adjoint(x))
    (q,) = householder_product(packed, taus)
    d = real_part(diagonal(packed))  # R's diagonal: the sign of each column of q
    sign = where(ew.lt(d, all_of(d, 0)), all_of(d, -1), all_of(d, 1))
    there = ew.gt(_sum(_size2(x), 1), all_of(d, 0.5))
    rows = _times(adjoint(q), down(sign, n))
    return where(sh.broadcast_in_dim(there, (n, n), (0,)), x, rows)


ALGORITHMS.update(geqrf=geqrf, geqp3=geqp3, householder_product=householder_product, eigh=eigh,
                  svd=svd)
