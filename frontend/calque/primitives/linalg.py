"""cholesky, triangular_solve, lu and lu_pivots_to_permutation; leading axes are a batch.

Their Programs lie in linalg_programs.py.  Derivatives: Murray, "Differentiation of the Cholesky
decomposition" (2016); Giles, "An extended collection of matrix derivative results" (2008).
Start reading at `triangular_solve`, which the others use.
"""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from calque.core import dtypes
from calque.core.avals import ShapedArray, ndim_of, shape_of
from calque.core.dims import min_dim, number
from calque.core.errors import explain
from calque.core.primitive import Primitive
from calque.core.types import Params
from calque.core.zeros import add_tangents, is_zero, zero_like
from calque.primitives import elementwise as ew
from calque.primitives import shape as sh
from calque.primitives.linalg_programs import adjoint as adjoint
from calque.primitives.linalg_programs import all_of as all_of
from calque.primitives.linalg_programs import conj as conj
from calque.primitives.linalg_programs import flip as flip
from calque.primitives.linalg_programs import product as product
from calque.primitives.linalg_programs import program
from calque.primitives.sort import take_along
from calque.transforms.vmap import batch_first, to_front

cholesky_p = Primitive("cholesky")
triangular_solve_p = Primitive("triangular_solve")
lu_p = Primitive("lu", multiple_results=True)
lu_pivots_to_permutation_p = Primitive("lu_pivots_to_permutation", differentiable=False)
INT = dtypes.int32


def cholesky(a: Any) -> Any:
    return cholesky_p.bind(a)


def triangular_solve(a: Any, b: Any, *, left_side: bool, lower: bool, transpose_a: bool = False,
                     conjugate_a: bool = False, unit_diagonal: bool = False) -> Any:
    return triangular_solve_p.bind(
        a, b, left_side=left_side, lower=lower, transpose_a=transpose_a, conjugate_a=conjugate_a,
        unit_diagonal=unit_diagonal)


def lu(a: Any) -> list[Any]:
    return lu_p.bind(a)


# ---- matrices with leading axes
def below(x: Any, k: int = 0) -> Any:
    """Mask of x's shape: row >= column + k."""
    shape = shape_of(x)
    i, j = (sh.iota(INT, shape[-2:], axis) for axis in (0, 1))
    mask = ew.ge(i, ew.add(j, ew.const(j, k)) if k else j)
    return sh.broadcast_in_dim(mask, shape, (len(shape) - 2, len(shape) - 1))


def lower_part(x: Any, k: int = 0) -> Any:
    """x where row >= column + k, else 0."""
    return ew.select_n(below(x, k), all_of(x, 0), x)


def upper_part(x: Any, k: int = 0) -> Any:
    """x where row < column + k, else 0."""
    return ew.select_n(below(x, k), x, all_of(x, 0))


def identity_like(x: Any) -> Any:
    """Ones on the diagonal, in x's shape."""
    on = ew.and_(below(x), ew.not_(below(x, 1)))
    return ew.select_n(on, all_of(x, 0), all_of(x, 1))


def check_rank(name: str, position: int, a: ShapedArray, rank: int = 2) -> None:
    if a.ndim < rank:
        raise TypeError(explain(
            f"Input {position} to {name} must have rank at least {rank}, but got shape={a.shape}"))


def check_matrix(name: str, a: ShapedArray) -> None:
    check_rank(name, 0, a)
    check_float(name, 0, a)


def check_float(name: str, position: int, a: ShapedArray, half: bool = False) -> None:
    if a.dtype.kind not in "fcV" or a.dtype.itemsize == 1:
        raise TypeError(explain(
            f"{name} does not accept dtype {a.dtype.name} at position {position}. Accepted dtypes "
            f"at position {position} are subtypes of floating, complexfloating.",
            fix="cast the operand with .astype(...)."))
    if a.dtype.itemsize == 2 and not half:
        raise NotImplementedError(explain(
            f"{name}: Unsupported dtype {a.dtype.name}.", fix="factor it in float32."))


# ---- cholesky
def _cholesky_abstract(a: ShapedArray) -> ShapedArray:
    check_rank("cholesky", 0, a)
    if a.shape[-1] != a.shape[-2]:
        raise ValueError(explain(
            f"Argument to symmetric positive definite must be a square matrix, got shape "
            f"{a.shape}: cholesky needs (..., n, n)."))
    check_float("cholesky", 0, a)
    return a


def _cholesky_jvp(primals: Sequence[Any], tangents: Sequence[Any]) -> Any:
    """dL = L phi(L^-1 dA L^-H), phi: the lower triangle with half the diagonal.

    dA is taken as it is, as if it were Hermitian, like JAX: the gradient lies in both triangles,
    although one of them is read.
    """
    factor = cholesky(primals[0])
    (t,) = tangents
    if is_zero(t):
        return factor, zero_like(factor)
    t = triangular_solve(factor, t, left_side=False, lower=True, transpose_a=True,
                         conjugate_a=True)
    t = triangular_solve(factor, t, left_side=True, lower=True)
    scale = ew.sub(all_of(t, 1), ew.mul(all_of(t, 0.5), identity_like(t)))
    return factor, product(factor, ew.mul(lower_part(t), scale))


def no_derivative(p: Primitive) -> Any:
    """The jvp of a primitive of floats whose derivative nobody wrote: a zero would be wrong."""
    def refuse(primals: Sequence[Any], tangents: Sequence[Any], **params: Any) -> Any:
        raise NotImplementedError(explain(
            f"Differentiation rule for '{p.name}' not implemented.",
            fix="keep its operand constant with lax.stop_gradient, or give a rule by custom_jvp."))
    return refuse


def by_algorithm(p: Primitive, *cores: int) -> None:
    """p's Program is that of an algorithm of its name, on so many trailing axes of each operand."""
    p.program = lambda *avals, **params: program(
        p.name, avals, cores, tuple(sorted(params.items())))


cholesky_p.abstract, cholesky_p.jvp = _cholesky_abstract, _cholesky_jvp
cholesky_p.batch = batch_first(cholesky_p)
by_algorithm(cholesky_p, 2)


# ---- triangular_solve
def _solve_abstract(a: ShapedArray, b: ShapedArray, *, left_side: bool, lower: bool,
                    transpose_a: bool, conjugate_a: bool, unit_diagonal: bool) -> ShapedArray:
    for i, x in enumerate((a, b)):
        check_rank("triangular_solve", i, x)
        check_float("triangular_solve", i, x, half=True)
    if a.dtype != b.dtype:
        raise TypeError(explain(
            "lax.triangular_solve requires arguments to have the same dtypes, got "
            f"{a.dtype.name}, {b.dtype.name}.", fix="cast one of them with .astype(...)."))
    if a.shape[-1] != a.shape[-2]:
        raise ValueError(explain(
            "The first input to triangular_solve must be a square matrix. Got shape "
            f"{a.shape}."))
    common = b.shape[-2] if left_side else b.shape[-1]
    if a.shape[:-2] != b.shape[:-2] or a.shape[-1] != common:
        raise ValueError(explain(
            f"Incompatible shapes for arguments to triangular_solve: {a.shape} and {b.shape}.",
            fix="with left_side=True b is (..., n, m), else (..., m, n), for a of (..., n, n)."))
    return ShapedArray(b.shape, b.dtype, a.weak_type and b.weak_type)


def _solve_jvp(primals: Sequence[Any], tangents: Sequence[Any], *, left_side: bool, lower: bool,
               transpose_a: bool, conjugate_a: bool, unit_diagonal: bool) -> Any:
    """dx = op(a)^-1 (db - op(da) x), of da what is read of a."""
    params: Params = dict(left_side=left_side, lower=lower, transpose_a=transpose_a,
                                  conjugate_a=conjugate_a, unit_diagonal=unit_diagonal)
    a, b = primals
    ta, tb = tangents
    x = triangular_solve(a, b, **params)
    if is_zero(ta) and is_zero(tb):
        return x, zero_like(x)
    total = tb
    if not is_zero(ta):
        k = int(unit_diagonal)
        ta = lower_part(ta, k) if lower else upper_part(ta, 1 - k)
        ta = conj(ta) if conjugate_a else ta
        ta = flip(ta) if transpose_a else ta
        total = add_tangents(total, ew.neg(product(ta, x) if left_side else product(x, ta)))
    return x, triangular_solve(a, total, **params)


def _solve_transpose(ct: Any, a: Any, b: Any, *, transpose_a: bool, **params: Any) -> list[Any]:
    return [None, triangular_solve(a, ct, transpose_a=not transpose_a, **params)]


def _solve_batch(size: int, args: Sequence[Any], dims: Sequence[int | None], *, left_side: bool,
                 **params: Any) -> Any:
    (a, b), (da, _) = args, dims
    b = to_front(b, dims[1], size)
    shape = shape_of(b)
    if da is not None or len(shape) > 3:
        return triangular_solve(to_front(a, da, size), b, left_side=left_side, **params), 0
    # one matrix for all: their right sides stand side by side
    if not left_side:
        flat = sh.reshape(b, (shape[0] * shape[1], shape[2]))
        x = triangular_solve(a, flat, left_side=False, **params)
        return sh.reshape(x, shape), 0
    flat = sh.reshape(sh.transpose(b, (1, 0, 2)), (shape[1], shape[0] * shape[2]))
    x = triangular_solve(a, flat, left_side=True, **params)
    return sh.reshape(x, (shape[1], shape[0], shape[2])), 1


triangular_solve_p.abstract, triangular_solve_p.jvp = _solve_abstract, _solve_jvp
triangular_solve_p.transpose, triangular_solve_p.batch = _solve_transpose, _solve_batch
by_algorithm(triangular_solve_p, 2, 2)


# ---- lu: (factors, pivots, permutation)
def _lu_abstract(a: ShapedArray) -> list[ShapedArray]:
    check_matrix("lu", a)
    lead, (m, n) = a.shape[:-2], a.shape[-2:]
    return [a, ShapedArray((*lead, min_dim(m, n)), INT), ShapedArray((*lead, m), INT)]


def _lu_jvp(primals: Sequence[Any], tangents: Sequence[Any]) -> Any:
    """With T = L^-1 P dA U^-1: dL = L tril(T, -1), dU = triu(T) U (L and U made square)."""
    factors, pivots, order = lu(primals[0])
    (t,) = tangents
    none = [zero_like(x) for x in (pivots, order)]
    if is_zero(t):
        return [factors, pivots, order], [zero_like(factors), *none]
    shape = shape_of(factors)
    rank, (m, n) = len(shape), shape[-2:]
    rows = sh.broadcast_in_dim(order, shape, tuple(range(rank - 1)))
    t = take_along(t, rows, rank - 2)
    k = min_dim(m, n)
    lower = padded(lower_part(cut(factors, m, k), 1), m, m)
    lower = ew.add(lower, identity_like(lower))
    upper = padded(upper_part(cut(factors, k, n), 1), n, n)
    upper = ew.add(upper, _identity_from(upper, k))
    t = triangular_solve(lower, t, left_side=True, lower=True, unit_diagonal=True)
    t = triangular_solve(upper, t, left_side=False, lower=False)
    out = ew.add(product(lower, lower_part(t, 1)), product(upper_part(t, 1), upper))
    return [factors, pivots, order], [out, *none]


def solved(v: Any, b: Any) -> Any:
    """v^-1 b."""
    factors, _, order = lu(v)
    shape = shape_of(b)
    rows = sh.columns_of(order, shape)
    b = take_along(b, rows, len(shape) - 2)
    b = triangular_solve(factors, b, left_side=True, lower=True, unit_diagonal=True)
    return triangular_solve(factors, b, left_side=True, lower=False)


def cut(x: Any, m: int, n: int) -> Any:
    lead = shape_of(x)[:-2]
    return sh.slice_(x, (0,) * (len(lead) + 2), (*lead, m, n))


def padded(x: Any, m: int, n: int) -> Any:
    lead, (rows, columns) = shape_of(x)[:-2], shape_of(x)[-2:]
    if (rows, columns) == (m, n):
        return x
    return sh.pad(x, ew.const(x, 0), [*[(0, 0, 0)] * len(lead), (0, m - rows, 0),
                                      (0, n - columns, 0)])


def _identity_from(x: Any, k: int) -> Any:
    """Ones on the diagonal from row k on."""
    rank = ndim_of(x)
    row = sh.iota(INT, shape_of(x), rank - 2)
    first = sh.broadcast_in_dim(number(k, INT), shape_of(x), ())
    late = ew.ge(row, first)
    return ew.select_n(late, all_of(x, 0), identity_like(x))


lu_p.abstract, lu_p.jvp, lu_p.batch = _lu_abstract, _lu_jvp, batch_first(lu_p)
by_algorithm(lu_p, 2)


# ---- lu_pivots_to_permutation
def _permutation_abstract(pivots: ShapedArray, *, permutation_size: int) -> ShapedArray:
    check_rank("lu_pivots_to_permutation", 0, pivots, 1)
    if pivots.dtype != INT:
        raise TypeError(explain(
            f"lu_pivots_to_permutation does not accept dtype {pivots.dtype.name} at position 0. "
            "Accepted dtypes at position 0 are subtypes of int32.",
            fix="cast the pivots with .astype('int32')."))
    if permutation_size < pivots.shape[-1]:
        raise ValueError(explain(
            f"Output permutation size {permutation_size} has to exceed the trailing dimension of "
            f"the pivots. Got pivots size {pivots.shape[-1]}"))
    return ShapedArray((*pivots.shape[:-1], permutation_size), INT)


lu_pivots_to_permutation_p.abstract = _permutation_abstract
lu_pivots_to_permutation_p.batch = batch_first(lu_pivots_to_permutation_p)
by_algorithm(lu_pivots_to_permutation_p, 1)
