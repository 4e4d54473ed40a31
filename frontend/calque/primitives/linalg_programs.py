"""Factorizations and triangular systems as Programs of other primitives: IREE has no form of them.

One matrix at a time: small ones by a scan over columns, which becomes a kernel of ours on CPU
targets, larger ones by halves (Toledo, "Locality of reference in LU decomposition with partial
pivoting", 1997), so that most of the work is products; batches by a scan over the matrices.
Start reading at `program`, then `cholesky_columns`.  primitives/linalg.py gives them their rules.
"""
from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from calque.core import dtypes
from calque.core.avals import ShapedArray, aval_of, dtype_of, is_complex, ndim_of, shape_of
from calque.core.dims import is_static, min_dim, number
from calque.core.precision import EXACT
from calque.core.program import Program
from calque.core.types import Function
from calque.core.zeros import zeros
from calque.primitives import control
from calque.primitives import elementwise as ew
from calque.primitives import reduce as rd
from calque.primitives import shape as sh
from calque.primitives.contract import dot_general
from calque.primitives.gather import GatherDimensionNumbers, GatherScatterMode, gather
from calque.primitives.index import dynamic_slice
from calque.transforms.stage import closed, stage

STEP = 90_000  # element operations of a step, below what keeps a loop in one kernel (passes/cost)
PANEL = 800_000  # the same for lu: narrow panels run faster, but each is compiled
# Halves of larger matrices take 4 s (384 x 384) to 24 s (1,024) to compile, and run 8 and 30
# times as fast: those are one host loop.
HALVED = 512 * 256
NARROW = 4  # columns of a panel at least, whatever its height
ZERO = np.int32(0)
INT = dtypes.int32


@functools.cache
def program(name: str, avals: tuple[ShapedArray, ...], cores: tuple[int, ...],
            params: tuple[tuple[str, Any], ...]) -> Program:
    """The Program of a primitive on operands of which `cores` trailing axes are one problem."""
    one = functools.partial(ALGORITHMS[name], **dict(params))
    lead = avals[0].shape[:avals[0].ndim - cores[0]]
    plain = [ShapedArray(a.shape, a.dtype) for a in avals]
    if not lead:
        return stage(lambda *xs: one(*xs), plain, name)
    count = math.prod(lead)
    inner = [ShapedArray(a.shape[a.ndim - c:], a.dtype) for a, c in zip(avals, cores)]

    def every(*xs: Any) -> list[Any]:
        body = stage(lambda *rows: one(*rows), inner, name)
        if not count:
            return [zeros(ShapedArray((*lead, *o.shape), o.dtype)) for o in body.out_avals]
        flat = [sh.reshape(x, (count, *a.shape)) for x, a in zip(xs, inner)]
        inside, consts = closed(body)
        outs = control.scan(inside, consts, [], flat, length=count)
        return [sh.reshape(o, (*lead, *shape_of(o)[1:])) for o in outs]

    return stage(every, plain, name)


# ---- small words
def scan_of(step: Function, carry: Sequence[Any], xs: Sequence[Any],
          length: int, reverse: bool = False) -> list[Any]:
    """Results of a scan whose step takes (*carry, *rows of xs) and returns (*carry, *ys).

    They are not written out (unroll=0) but for short complex ones: a kernel is as fast and compiles
    sooner, and IREE rejects some long forms ("restricted to workgroup distributed contexts").
    """
    avals = [aval_of(c) for c in carry] + [
        ShapedArray(shape_of(x)[1:], dtype_of(x)) for x in xs]
    body, consts = closed(stage(step, avals, "step"))
    real = all(a.dtype.kind != "c" for a in avals)
    return control.scan(body, consts, carry, xs, length=length, reverse=reverse,
                        unroll=0 if real or length > 8 else 1)


def row_of(a: Any, i: Any) -> Any:
    n = shape_of(a)[1]
    return sh.reshape(dynamic_slice(a, [i, ZERO], (1, n)), (n,))


def column_of(a: Any, j: Any) -> Any:
    m = shape_of(a)[0]
    return sh.reshape(dynamic_slice(a, [ZERO, j], (m, 1)), (m,))


def element_of(v: Any, i: Any) -> Any:
    return sh.reshape(dynamic_slice(v, [i], (1,)), ())


def down(v: Any, n: int) -> Any:
    """v[i] at [i, j], for n columns."""
    (m,) = shape_of(v)
    return sh.broadcast_in_dim(v, (m, n), (0,))


def along(v: Any, m: int) -> Any:
    """v[j] at [i, j], for m rows."""
    (n,) = shape_of(v)
    return sh.broadcast_in_dim(v, (m, n), (1,))


def repeat(v: Any, *shape: int) -> Any:
    """A scalar at all places."""
    return sh.broadcast_in_dim(v, shape, ())


def filled(like: Any, value: complex, *shape: int) -> Any:
    """One value of like's dtype at all places."""
    return repeat(ew.const(like, value), *shape)


def all_of(x: Any, value: complex) -> Any:
    """An array like x that holds one value."""
    return filled(x, value, *shape_of(x))


def product(x: Any, y: Any, transposed: bool = False) -> Any:
    """x y, or x^T y, over the last two axes; leading axes are equal."""
    rank = ndim_of(x)
    lead = tuple(range(rank - 2))
    return dot_general(x, y, (((rank - 2 if transposed else rank - 1,), (rank - 2,)), (lead, lead)),
                       EXACT)


def conj(x: Any) -> Any:
    return ew.conj(x) if is_complex(x) else x


def flip(x: Any) -> Any:
    """The transpose of matrices."""
    rank = ndim_of(x)
    return sh.transpose(x, (*range(rank - 2), rank - 1, rank - 2))


def adjoint(x: Any) -> Any:
    return conj(flip(x))


def where(mask: Any, x: Any, y: Any) -> Any:
    return ew.select_n(mask, y, x)


def size_of(x: Any) -> Any:
    """|re| + |im|, as LAPACK compares pivots."""
    if not is_complex(x):
        return ew.abs_(x)
    return ew.add(ew.abs_(ew.real(x)), ew.abs_(ew.imag(x)))


def _part(a: Any, rows: tuple[int, int], columns: tuple[int, int]) -> Any:
    return sh.slice_(a, (rows[0], columns[0]), (rows[1], columns[1]))


def _joined(top_left: Any, top_right: Any, low_left: Any, low_right: Any) -> Any:
    return sh.concatenate([sh.concatenate([top_left, top_right], 1),
                           sh.concatenate([low_left, low_right], 1)], 0)


def _half(n: int) -> int:
    """Where to cut n: near the middle, at a whole number of vectors where there are many."""
    return n // 2 if n < 64 else -(-n // 64) * 32


# ---- cholesky
def cholesky(a: Any) -> list[Any]:
    """L with L L^H = a, of which the lower triangle is read; NaN where a is not positive."""
    shape = shape_of(a)
    n = shape[0]
    if not n:
        return [a]
    factor = _cholesky(a)
    i, j = (sh.iota(INT, shape, k) for k in (0, 1))
    real = ew.real(factor) if is_complex(a) else factor
    positive = ew.gt(real, ew.const(real, 0))
    off = ew.ne(i, j)
    good = rd.reduce_and_p.bind(ew.or_(positive, off), axes=(0, 1), out_sharding=None)
    bad = where(ew.ge(i, j), filled(a, np.nan, *shape), factor)
    return [where(repeat(good, *shape), factor, bad)]


def _cholesky(a: Any) -> Any:
    n = shape_of(a)[0]
    if 6 * n * n <= STEP:
        return _cholesky_columns(a)
    h = _half(n)
    first = _cholesky(_part(a, (0, h), (0, h)))
    below = flip(_solve(flip(conj(first)), flip(_part(a, (h, n), (0, h))), True, False))
    rest = ew.sub(_part(a, (h, n), (h, n)), product(below, flip(conj(below))))
    corner = filled(a, 0, h, n - h)
    return _joined(first, corner, below, _cholesky(rest))


def _cholesky_columns(a: Any) -> Any:
    """Column by column; rows of `rest` are columns of what is left of a."""
    n = shape_of(a)[0]

    def step(rest: Any, j: Any) -> list[Any]:
        i = sh.iota(INT, (n,))
        column = row_of(rest, j)
        pivot = element_of(column, j)
        if is_complex(a):
            pivot = ew.complex_(ew.real(pivot), ew.const(ew.real(pivot), 0))
        root = ew.sqrt(pivot)
        column = where(ew.ge(i, j), ew.div(column, root), filled(a, 0, n))
        column = where(ew.eq(i, j), repeat(root, n), column)
        outer = ew.mul(down(conj(column), n), along(column, n))
        return [ew.sub(rest, outer), column]

    _, columns = scan_of(step, [flip(a)], [sh.iota(INT, (n,))], n)
    return flip(columns)


# ---- triangular_solve
def triangular_solve(a: Any, b: Any, *, left_side: bool, lower: bool, transpose_a: bool,
                     conjugate_a: bool, unit_diagonal: bool) -> list[Any]:
    """x with op(a) x = b, or x op(a) = b."""
    if not aval_of(b).size:
        return [b]
    dtype = dtype_of(b)
    narrow = dtype.itemsize == 2
    if narrow:
        a, b = (ew.convert(x, dtypes.float32) for x in (a, b))
    a = conj(a) if conjugate_a else a
    # rows of `columns` are columns of the matrix that stands left of x (or of x^T)
    flipped = transpose_a == left_side
    columns = a if flipped else flip(a)
    x = _solve(columns, b if left_side else flip(b), lower != flipped, unit_diagonal)
    x = x if left_side else flip(x)
    return [ew.convert(x, dtype) if narrow else x]


def _solve(columns: Any, b: Any, lower: bool, unit: bool) -> Any:
    (n, m) = shape_of(b)
    if n <= NARROW or 4 * n * m <= STEP:
        return _solve_rows(columns, b, lower, unit)
    h = _half(n)
    top, low = _part(b, (0, h), (0, m)), _part(b, (h, n), (0, m))
    corner = _part(columns, (0, h), (0, h)), _part(columns, (h, n), (h, n))
    if lower:
        top = _solve(corner[0], top, lower, unit)
        low = ew.sub(low, product(_part(columns, (0, h), (h, n)), top, True))
        low = _solve(corner[1], low, lower, unit)
    else:
        low = _solve(corner[1], low, lower, unit)
        top = ew.sub(top, product(_part(columns, (h, n), (0, h)), low, True))
        top = _solve(corner[0], top, lower, unit)
    return sh.concatenate([top, low], 0)


def _solve_rows(columns: Any, b: Any, lower: bool, unit: bool) -> Any:
    """Each row of x, once found, is taken out of b."""
    n, m = shape_of(b)

    def step(rest: Any, j: Any, column: Any) -> list[Any]:
        row = row_of(rest, j)
        if not unit:
            row = ew.div(row, repeat(element_of(column, j), m))
        return [ew.sub(rest, ew.mul(down(column, m), along(row, n))), row]

    positions = sh.iota(INT, (n,))
    return scan_of(step, [b], [positions, columns], n, reverse=not lower)[1]


# ---- lu
def lu(a: Any) -> list[Any]:
    """(L below the diagonal and U, rows exchanged at each step, the order of a's rows)."""
    m, n = shape_of(a)
    if not min_dim(m, n):
        return [a, zeros(ShapedArray((0,), INT)), sh.iota(INT, (m,))]
    return list(_lu(a))


def _lu(a: Any) -> tuple[Any, Any, Any]:
    m, n = shape_of(a)
    if not is_static((m, n)) or n <= NARROW or 24 * m * n <= PANEL or m * n > HALVED:
        return _lu_columns(a)
    h = min(m, _half(n))
    left, pivots, order = _lu(_part(a, (0, m), (0, h)))
    first, last = sh.slice_(order, (0,), (h,)), sh.slice_(order, (h,), (m,))
    right, corner = _part(a, (0, m), (h, n)), _part(left, (0, h), (0, h))
    top = _solve(flip(corner), _taken(right, first), True, True)
    if h == m:
        return sh.concatenate([left, top], 1), pivots, order
    below = _part(left, (h, m), (0, h))
    rest = ew.sub(_taken(right, last), product(below, top))
    rest, more, second = _lu(rest)
    whole = _joined(corner, top, _taken(below, second), rest)
    offset = repeat(np.int32(h), *shape_of(more))
    tail = _taken(sh.reshape(last, (m - h, 1)), second)
    order = sh.concatenate([first, sh.reshape(tail, (m - h,))], 0)
    return whole, sh.concatenate([pivots, ew.add(more, offset)], 0), order


def _taken(a: Any, order: Any) -> Any:
    """Rows of a matrix in an order."""
    (m,), n = shape_of(order), shape_of(a)[1]
    numbers = GatherDimensionNumbers((1,), (0,), (0,))
    return gather(a, sh.reshape(order, (m, 1)), numbers, (1, n),
                  mode=GatherScatterMode.PROMISE_IN_BOUNDS)


def _lu_columns(a: Any) -> tuple[Any, Any, Any]:
    """Column by column: exchange rows, divide by the pivot, subtract the outer product."""
    m, n = shape = shape_of(a)

    def step(rest: Any, order: Any, j: Any) -> list[Any]:
        rows, i, t = sh.iota(INT, (m,)), sh.iota(INT, shape, 0), sh.iota(INT, shape, 1)
        column = column_of(rest, j)
        p = _pivot(column, rows, j)
        here, there = row_of(rest, j), row_of(rest, p)
        swapped = where(ew.eq(i, j), along(there, m), where(
            ew.eq(i, p), along(here, m), rest))
        column = where(ew.eq(rows, p), repeat(element_of(column, j), m), column)
        pivot = element_of(there, j)
        safe = where(ew.eq(pivot, ew.const(pivot, 0)), ew.const(pivot, 1), pivot)
        factors = down(ew.div(column, repeat(safe, m)), n)
        reduced = ew.sub(swapped, ew.mul(factors, along(there, m)))
        below = ew.gt(i, j)
        made = where(ew.and_(below, ew.gt(t, j)), reduced, where(
            ew.and_(below, ew.eq(t, j)), factors, swapped))
        return [made, _exchanged(order, rows, j, p), p]

    k = min_dim(m, n)
    made, order, pivots = scan_of(step, [a, sh.iota(INT, (m,))], [sh.iota(INT, (k,))], k)
    return made, pivots, order


def _pivot(column: Any, rows: Any, j: Any) -> Any:
    """The first row from j on with the largest |re| + |im|, as LAPACK's; NaN only at j itself."""
    size = size_of(column)
    (m,) = shape_of(size)
    none = filled(size, -1, m)
    lost = where(ew.eq(rows, j), filled(size, np.inf, m), none)
    size = where(ew.eq(size, size), size, lost)
    size = where(ew.ge(rows, j), size, none)
    best = repeat(rd.reduce_max_p.bind(size, axes=(0,), out_sharding=None), m)
    first = where(ew.eq(size, best), rows, repeat(number(m - 1, INT), m))
    return rd.reduce_min_p.bind(first, axes=(0,), out_sharding=None)


def _exchanged(order: Any, rows: Any, j: Any, p: Any) -> Any:
    """A vector with the elements at j and p exchanged."""
    (m,) = shape_of(order)
    at_j, at_p = (repeat(element_of(order, i), m) for i in (j, p))
    return where(ew.eq(rows, j), at_p, where(ew.eq(rows, p), at_j, order))


# ---- lu_pivots_to_permutation
def lu_pivots_to_permutation(pivots: Any, *, permutation_size: int) -> list[Any]:
    """The order of rows after the exchanges of row i with row pivots[i], one after the other."""
    n = permutation_size
    (k,) = shape_of(pivots)
    order = sh.iota(INT, (n,))
    if not n or not k:
        return [order]

    def step(order: Any, i: Any, p: Any) -> list[Any]:
        safe = ew.clamp(ZERO, p, number(n - 1, INT))
        return [_exchanged(order, sh.iota(INT, (n,)), i, safe)]

    return scan_of(step, [order], [sh.iota(INT, (k,)), pivots], k)


ALGORITHMS: dict[str, Callable[..., list[Any]]] = {
    "cholesky": cholesky, "triangular_solve": triangular_solve, "lu": lu,
    "lu_pivots_to_permutation": lu_pivots_to_permutation}
