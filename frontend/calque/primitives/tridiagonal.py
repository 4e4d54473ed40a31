"""tridiagonal, hessenberg, tridiagonal_solve, cholesky_update; leading axes are a batch.

Their Programs lie in tridiagonal_programs.py.  Start reading at `_solve_jvp`.
"""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from calque.core.avals import ShapedArray, dtype_of, ndim_of, shape_of
from calque.core.dims import max_dim
from calque.core.dtypes import real_dtype
from calque.core.errors import explain
from calque.core.primitive import Primitive
from calque.core.zeros import add_tangents, is_zero, zero_like, zeros
from calque.primitives import elementwise as ew
from calque.primitives import shape as sh
from calque.primitives import tridiagonal_programs as programs
from calque.primitives.elementwise import mul
from calque.primitives.linalg import (
    by_algorithm,
    check_float,
    check_rank,
    no_derivative,
)
from calque.primitives.orthogonal import square
from calque.transforms.vmap import batch_first

tridiagonal_p = Primitive("tridiagonal", multiple_results=True, differentiable=False)
hessenberg_p = Primitive("hessenberg", multiple_results=True, differentiable=False)
tridiagonal_solve_p = Primitive("tridiagonal_solve")
cholesky_update_p = Primitive("cholesky_update", differentiable=False)
for _p in (tridiagonal_p, hessenberg_p, cholesky_update_p):
    _p.jvp = no_derivative(_p)


# ---- reductions of square matrices
def _tridiagonal_abstract(a: ShapedArray, *, lower: bool) -> list[ShapedArray]:
    square("tridiagonal", a, "The input to tridiagonal must be a square matrix. Got shape")
    lead, n = a.shape[:-2], a.shape[-1]
    if not n:
        raise ValueError(explain(
            f"The input to tridiagonal must be a square matrix. Got shape {a.shape}.",
            fix="pass matrices of at least one row."))
    real = real_dtype(a.dtype)
    return [a, ShapedArray((*lead, n), real), ShapedArray((*lead, n - 1), real),
            ShapedArray((*lead, n - 1), a.dtype)]


def _hessenberg_abstract(a: ShapedArray) -> list[ShapedArray]:
    square("hessenberg", a,
           "Argument to Hessenberg reduction must have shape [..., n, n], got shape")
    return [a, ShapedArray((*a.shape[:-2], max_dim(0, a.shape[-1] - 1)), a.dtype)]


tridiagonal_p.abstract, tridiagonal_p.batch = _tridiagonal_abstract, batch_first(tridiagonal_p)
by_algorithm(tridiagonal_p, 2)
hessenberg_p.abstract, hessenberg_p.batch = _hessenberg_abstract, batch_first(hessenberg_p)
by_algorithm(hessenberg_p, 2)


# ---- tridiagonal systems: (dl, d, du, b) -> x
def tridiagonal_solve(dl: Any, d: Any, du: Any, b: Any, *, perturb_singular: bool = False) -> Any:
    return tridiagonal_solve_p.bind(dl, d, du, b, perturb_singular=perturb_singular)


def _solve_abstract(dl: ShapedArray, d: ShapedArray, du: ShapedArray, b: ShapedArray, *,
                    perturb_singular: bool) -> ShapedArray:
    for i, (x, rank) in enumerate(((dl, 1), (d, 1), (du, 1), (b, 2))):
        check_rank("tridiagonal_solve", i, x, rank)
        check_float("tridiagonal_solve", i, x)
    if len({x.dtype for x in (dl, d, du, b)}) > 1:
        raise TypeError(explain(
            "tridiagonal_solve requires arguments to have the same dtypes, got "
            f"{', '.join(x.dtype.name for x in (dl, d, du, b))}.",
            fix="cast them with .astype(...)."))
    if dl.shape != d.shape or du.shape != d.shape:
        raise TypeError(explain(
            "tridiagonal_solve requires that all diagonal arguments have the same shape.",
            fix=f"got {dl.shape}, {d.shape} and {du.shape}; dl[0] and du[n - 1] are not read."))
    if b.shape[:-2] != d.shape[:-1]:
        raise TypeError(explain(
            "All inputs to tridiagonal_solve must have the same number of batch dimensions, but "
            f"got shapes {d.shape} and {b.shape}.", fix="broadcast one of them."))
    if b.shape[-2] != d.shape[-1]:
        raise TypeError(explain(
            "tridiagonal_solve requires that the leading ndim-1 dimensions of b equal the "
            f"dimensions of the diagonal arguments, got {b.shape} and {d.shape}.",
            fix="pass b of shape (..., n, m) for diagonals of shape (..., n)."))
    return ShapedArray(b.shape, b.dtype)


def _moved(x: Any, by: int) -> Any:
    """Row i + by at i (by is 1 or -1), 0 where there is none."""
    shape = shape_of(x)
    axis = len(shape) - 2
    none = zeros(ShapedArray((*shape[:axis], 1, shape[-1]), dtype_of(x)))
    kept = sh.slice_in_dim(x, max(by, 0), shape[axis] + min(by, 0), axis)
    return sh.concatenate([kept, none] if by > 0 else [none, kept], axis)


def _solve_jvp(primals: Sequence[Any], tangents: Sequence[Any], *, perturb_singular: bool) -> Any:
    """dx = T^-1 (db - dT x)."""
    x = tridiagonal_solve(*primals, perturb_singular=perturb_singular)
    if all(is_zero(t) for t in tangents):
        return x, zero_like(x)
    *diagonals, total = tangents
    for t, by in zip(diagonals, (-1, 0, 1)):
        if not is_zero(t) and shape_of(x)[-2]:
            part = mul(sh.columns_of(t, shape_of(x)), x if not by else _moved(x, by))
            total = add_tangents(total, ew.neg(part))
    if is_zero(total):
        return x, total
    return x, tridiagonal_solve(*primals[:3], total, perturb_singular=perturb_singular)  # type: ignore[misc]


def _solve_transpose(ct: Any, dl: Any, d: Any, du: Any, b: Any, *, perturb_singular: bool
                     ) -> list[Any]:
    """T^T has du, moved down, below its diagonal and dl, moved up, above."""
    n = shape_of(d)[-1]
    rank = ndim_of(d)

    def column(v: Any) -> Any:
        return sh.reshape(v, (*shape_of(v), 1))

    def row(v: Any) -> Any:
        return sh.reshape(v, shape_of(v)[:rank])

    low, high = (row(_moved(column(v), by)) if n else v for v, by in ((du, -1), (dl, 1)))
    return [None, None, None,
            tridiagonal_solve(low, d, high, ct, perturb_singular=perturb_singular)]


tridiagonal_solve_p.abstract, tridiagonal_solve_p.jvp = _solve_abstract, _solve_jvp
tridiagonal_solve_p.transpose = _solve_transpose
tridiagonal_solve_p.batch = batch_first(tridiagonal_solve_p)
by_algorithm(tridiagonal_solve_p, 1, 1, 1, 2)


# ---- cholesky_update: (R, w) -> R1
def _update_abstract(r: ShapedArray, w: ShapedArray) -> ShapedArray:
    for i, x in enumerate((r, w)):
        check_float("cholesky_update", i, x)
    if r.dtype != w.dtype:
        raise TypeError(explain(
            "lax.cholesky_update requires arguments to have the same dtypes, got "
            f"{r.dtype.name}, {w.dtype.name}.", fix="cast one of them with .astype(...)."))
    return r


cholesky_update_p.abstract = _update_abstract
cholesky_update_p.batch = batch_first(cholesky_update_p)
by_algorithm(cholesky_update_p, 2, 1)
assert programs.ALGORITHMS
