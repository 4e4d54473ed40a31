"""tridiagonal, hessenberg and tridiagonal_solve as Programs of other primitives.

Reductions are LAPACK's sytrd and gehrd without blocks, systems are its gtsv (partial pivoting).
Start reading at `_reduced`.
"""
from __future__ import annotations

from typing import Any

import numpy as np

from calque.core.avals import ShapedArray, dtype_of, shape_of
from calque.core.zeros import zeros
from calque.primitives import elementwise as ew
from calque.primitives import reduce as rd
from calque.primitives import shape as sh
from calque.primitives.elementwise import div, mul, sub
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
    product,
    repeat,
    scan_of,
    size_of,
    where,
)
from calque.primitives.orthogonal_programs import (
    as_dtype_of,
    diagonal,
    places,
    real_part,
    reflected,
    reflection,
    stored,
    with_real_diagonal,
)


def _reduced(a: Any) -> tuple[Any, Any]:
    """(H^H a H below and on the subdiagonal replaced by the reflections, their factors)."""
    n = shape_of(a)[0]

    def step(rest: Any, j: Any) -> list[Any]:
        i, below = sh.iota(INT, (n,)), ew.add(j, np.int32(1))
        column = column_of(rest, j)
        v, tau, beta = reflection(column, i, below)
        made = reflected(rest, v, tau, adjoint=True)
        right = down(sh.reshape(product(made, sh.reshape(v, (n, 1))), (n,)), n)
        made = sub(made, mul(repeat(tau, n, n), mul(right, along(conj(v), n))))
        kept = stored(column, v, beta, i, below)
        t, here = sh.iota(INT, (n, n), 1), repeat(j, n, n)
        earlier = where(ew.eq(t, here), down(kept, n), rest)
        return [where(ew.gt(t, here), made, earlier), tau]

    made, taus = scan_of(step, [a], [sh.iota(INT, (n - 1,))], n - 1)
    return made, taus


def hessenberg(a: Any) -> list[Any]:
    n = shape_of(a)[0]
    if n < 2:
        return [a, zeros(ShapedArray((0,), dtype_of(a)))]
    return list(_reduced(a))


def tridiagonal(a: Any, *, lower: bool) -> list[Any]:
    """(a with the reflections in its triangle, diagonal, off-diagonal, factors)."""
    n = shape_of(a)[0]
    if not lower:  # the same, seen from the other corner
        packed, d, e, taus = tridiagonal(sh.rev(a, (0, 1)), lower=True)
        return [sh.rev(packed, (0, 1)), *[sh.rev(x, (0,)) for x in (d, e, taus)]]
    i, j = places(n, n)
    full = where(ew.ge(i, j), a, adjoint(a))
    full = with_real_diagonal(full, i, j)
    if n < 2:
        none = zeros(ShapedArray((0,), dtype_of(a)))
        return [full, real_part(diagonal(full)), real_part(none), none]
    made, taus = _reduced(full)
    packed = where(ew.ge(i, j), made, a)
    packed = with_real_diagonal(packed, i, j)
    e = real_part(diagonal(sh.slice_(made, (1, 0), (n, n - 1))))
    return [packed, real_part(diagonal(made)), e, taus]


def tridiagonal_solve(dl: Any, d: Any, du: Any, b: Any, *, perturb_singular: bool) -> list[Any]:
    """x of T x = b: rows are eliminated downwards, exchanged where that gives the larger pivot."""
    n, m = shape_of(b)
    if not n or not m:
        return [b]
    none = all_of(sh.slice_in_dim(d, 0, 1, 0), 0)
    above = sh.concatenate([sh.slice_in_dim(du, 0, n - 1, 0), none], 0)
    # the last row eliminates against one of zeros behind it
    lower = sh.concatenate([sh.slice_in_dim(dl, 1, n, 0), none], 0)
    nexts = [sh.concatenate([sh.slice_in_dim(x, 1, n, 0), none], 0) for x in (d, above)]
    rows = sh.concatenate([sh.slice_in_dim(b, 1, n, 0), all_of(sh.slice_in_dim(b, 0, 1, 0), 0)], 0)
    least = _least(dl, d, du) if perturb_singular else None

    def eliminate(p: Any, q: Any, row: Any, low: Any, d1: Any, u1: Any, row1: Any) -> list[Any]:
        swap = ew.gt(size_of(low), size_of(p))
        pivot = where(swap, low, p)
        if least is not None:
            tiny = ew.lt(ew.abs_(pivot), least)
            pivot = where(tiny, as_dtype_of(pivot, least), pivot)
        safe = where(ew.eq(pivot, ew.const(pivot, 0)), ew.const(pivot, 1), pivot)
        factor = div(where(swap, p, low), safe)
        wide = repeat(factor, m)
        zero = ew.const(p, 0)
        out = [pivot, where(swap, d1, q), where(swap, u1, zero),
               where(repeat(swap, m), row1, row)]
        carry = [where(swap, sub(q, mul(factor, d1)), sub(d1, mul(factor, q))),
                 where(swap, ew.neg(mul(factor, u1)), u1),
                 where(repeat(swap, m), sub(row, mul(wide, row1)), sub(row1, mul(wide, row)))]
        return [*carry, *out]

    def scalar(v: Any) -> Any:
        return sh.reshape(sh.slice_in_dim(v, 0, 1, 0), shape_of(v)[1:])

    start = [scalar(d), scalar(above), scalar(b)]
    *_, p, q, r, y = scan_of(eliminate, start, [lower, *nexts, rows], n)

    def substitute(x1: Any, x2: Any, p: Any, q: Any, r: Any, row: Any) -> list[Any]:
        rest = sub(sub(row, mul(repeat(q, m), x1)), mul(repeat(r, m), x2))
        x = div(rest, repeat(p, m))
        return [x, x1, x]

    blank = all_of(scalar(b), 0)
    return [scan_of(substitute, [blank, blank], [p, q, r, y], n, reverse=True)[2]]


def cholesky_update(r: Any, w: Any) -> list[Any]:
    """Each row of R takes up what w has in its column, by a rotation."""
    n = shape_of(w)[0]
    if not n:
        return [r]

    def rotate(w: Any, k: Any, row: Any) -> list[Any]:
        a, b = element_of(row, k), element_of(w, k)
        scale = ew.max_(ew.abs_(a), ew.abs_(b))
        safe = where(ew.gt(scale, ew.const(scale, 0)), scale, ew.const(scale, 1))
        x, y = div(a, safe), div(b, safe)
        size = ew.sqrt(ew.add(mul(x, x), mul(y, y)))
        size = where(ew.gt(size, ew.const(size, 0)), size, ew.const(size, 1))
        c, s = repeat(div(x, size), n), repeat(div(y, size), n)
        made = ew.add(mul(c, row), mul(s, w))
        return [sub(mul(c, w), mul(s, row)), made]

    return [scan_of(rotate, [w], [sh.iota(INT, (n,)), r], n)[1]]


def _least(dl: Any, d: Any, du: Any) -> Any:
    """The pivot that stands for a smaller one: eps times the largest entry."""
    largest = [rd.reduce_max_p.bind(size_of(x), axes=(0,), out_sharding=None) for x in (dl, d, du)]
    size = ew.max_(ew.max_(largest[0], largest[1]), largest[2])
    info = np.finfo(dtype_of(size))
    return ew.max_(mul(size, ew.const(size, float(info.eps))),
                   ew.const(size, float(info.tiny)))


ALGORITHMS.update(cholesky_update=cholesky_update, hessenberg=hessenberg, tridiagonal=tridiagonal,
                  tridiagonal_solve=tridiagonal_solve)
