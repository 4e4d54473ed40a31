"""numpy.linalg: solvers and determinants rest on lax.linalg; leading axes are a batch.

Start reading at `solve`.  Norms lie in norms.py, decompositions in decompositions.py.
"""
from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any, NamedTuple

from calque.api.custom_derivatives import custom_jvp
from calque.core import dtypes
from calque.core.avals import dtype_of, ndim_of, shape_of
from calque.core.dims import is_static
from calque.core.errors import explain
from calque.lax.operands import canonical_axis
from calque.lax.shape import stop_gradient
from calque.numpy import arrange, contract, util
from calque.numpy.adjugate import adjugate
from calque.numpy.contract import matmul, tensordot, vecdot
from calque.numpy.decompositions import (
    EighResult,
    EigResult,
    QRResult,
    SVDResult,
    eig,
    eigh,
    eigvals,
    eigvalsh,
    lstsq,
    matrix_rank,
    pinv,
    qr,
    svd,
    svdvals,
    tensorinv,
    tensorsolve,
)
from calque.numpy.norms import cond, matrix_norm, norm, vector_norm
from calque.numpy.solvers import inv, solve, square
from calque.primitives import elementwise as ew
from calque.primitives import linalg as la
from calque.primitives import orthogonal as og
from calque.primitives import reduce as rd
from calque.primitives import shape as sh


class SlogdetResult(NamedTuple):
    """Sign and logarithm of the absolute value of determinants.

    Example:
      >>> import calque.numpy as jnp
      >>> jnp.linalg.slogdet(jnp.array([[0.0, 1.0], [1.0, 0.0]])).sign
      Array(-1., dtype=float32)
    """

    sign: Any
    logabsdet: Any


@util.planned
def cholesky(a: Any, *, upper: bool = False, symmetrize_input: bool = True) -> Any:
    """The lower triangular L with L L^H = a, or its conjugate transpose.

    Args:
      a: array of shape (..., n, n), positive definite.
      upper: return U = L^H.
      symmetrize_input: factor (a + a^H) / 2; else the lower triangle alone is read.

    Returns:
      An array of a's shape; NaN in its triangle where a is not positive definite.

    Raises:
      TypeError: a is no array, or not square.
      NotImplementedError: a is float16 or bfloat16.

    Example:
      >>> import calque.numpy as jnp
      >>> jnp.linalg.cholesky(jnp.array([[4.0, 2.0], [2.0, 5.0]]))
      Array([[2., 0.],
             [1., 2.]], dtype=float32)
    """
    from calque.lax import linalg
    with util.lazy_eval("cholesky"):
        (a,) = util.inexact_arrays("jnp.linalg.cholesky", a)
        factor = linalg.cholesky(a, symmetrize_input=symmetrize_input)
        return la.adjoint(factor) if upper else factor


def _diagonal(a: Any) -> Any:
    """The diagonals of square matrices."""
    shape = shape_of(a)
    on = la.identity_like(a)
    hit = ew.ne(on, la.all_of(on, 0))
    return rd.reduce_sum(ew.select_n(hit, la.all_of(a, 0), a), (len(shape) - 1,))


def _sign_of(pivots: Any, like: Any) -> Any:
    """1 or -1: whether the exchanges are even."""
    shape = shape_of(pivots)
    at = sh.iota(dtypes.int32, shape, len(shape) - 1)
    moved = ew.convert(ew.ne(pivots, at), dtypes.int32)
    odd = rd.reduce_sum(moved, (len(shape) - 1,))
    odd = ew.and_(odd, ew.const(odd, 1))
    return ew.convert(ew.sub(la.all_of(odd, 1), ew.mul(odd, ew.const(odd, 2))),
                      dtype_of(like))


@util.planned
def det(a: Any) -> Any:
    """The determinant.

    Args:
      a: array of shape (..., n, n).

    Returns:
      An array of shape (...).

    Raises:
      ValueError: a is not square.
      NotImplementedError: a is float16 or bfloat16, and n is more than 3.

    Notes:
      The derivative is the adjugate's, which exists at singular matrices, too; the second
      derivative beyond 3 x 3 is NaN there.

    Example:
      >>> import calque.numpy as jnp
      >>> jnp.linalg.det(jnp.array([[1.0, 2.0], [3.0, 4.0]]))
      Array(-2., dtype=float32)
    """
    with util.lazy_eval("det"):
        (a,) = util.inexact_arrays("jnp.linalg.det", a)
        shape = square("det()", a)
        if shape[-1] in (1, 2, 3):
            return _small_det(a, shape[-1])
        return _det(a)


@custom_jvp
def _det(a: Any) -> Any:
    """By a factorization."""
    factors, pivots, _ = la.lu(a)
    product = rd.reduce_prod_p.bind(_diagonal(factors), axes=(ndim_of(a) - 2,), out_sharding=None)
    return ew.mul(product, _sign_of(pivots, product))


@_det.defjvp
def _det_jvp(primals: Any, tangents: Any) -> Any:
    (a,), (t,) = primals, tangents
    if not is_static(shape_of(a)):  # (of sizes known at the call only: of regular matrices)
        value, at = _det(a), tuple(range(ndim_of(a) - 2))
        turned = sh.broadcast_in_dim(value, shape_of(a), at)
        moved = ew.mul(ew.mul(_transposed(inv(a)), turned), t)
    else:
        moved = ew.mul(_transposed(adjugate(a)), t)
    return _det(a), rd.reduce_sum(moved, (ndim_of(a) - 2, ndim_of(a) - 1))


def _transposed(a: Any) -> Any:
    axes = list(range(ndim_of(a)))
    return sh.transpose(a, (*axes[:-2], axes[-1], axes[-2]))


def _small_det(a: Any, n: int) -> Any:
    """Written out: its derivative exists at singular matrices too."""
    shape = shape_of(a)

    def at(i: int, j: int) -> Any:
        low, high = [0] * len(shape), list(shape)
        low[-2:], high[-2:] = [i, j], [i + 1, j + 1]
        return sh.reshape(sh.slice_(a, low, high), shape[:-2])

    def minor(i: int, j: int, k: int, m: int) -> Any:
        return ew.sub(ew.mul(at(i, k), at(j, m)), ew.mul(at(i, m), at(j, k)))

    if n == 1:
        return at(0, 0)
    if n == 2:
        return minor(0, 1, 0, 1)
    terms = [ew.mul(at(0, 0), minor(1, 2, 1, 2)), ew.mul(at(0, 1), minor(1, 2, 0, 2)),
             ew.mul(at(0, 2), minor(1, 2, 0, 1))]
    return ew.add(ew.sub(terms[0], terms[1]), terms[2])


@util.planned
def slogdet(a: Any, *, method: str | None = None) -> SlogdetResult:
    """Sign of the determinant and logarithm of its absolute value.

    Args:
      a: array of shape (..., n, n).
      method: None or 'lu', or 'qr' for real matrices.

    Returns:
      SlogdetResult(sign, logabsdet), each of shape (...); 0 and -inf for singular matrices.

    Raises:
      ValueError: a is not square, or method is unknown.
      NotImplementedError: a is float16 or bfloat16, or complex with method 'qr'.

    Example:
      >>> import calque.numpy as jnp
      >>> jnp.linalg.slogdet(jnp.eye(2)).logabsdet
      Array(0., dtype=float32)
    """
    if method not in (None, "lu", "qr"):
        raise ValueError(explain(f"Unknown slogdet method '{method}'. Supported methods are 'lu' "
                                 "(`None`), and 'qr'."))
    with util.lazy_eval("slogdet"):
        (a,) = util.inexact_arrays("jnp.linalg.slogdet", a)
        shape = square("slogdet()", a)
        last = len(shape) - 2
        if method == "qr":
            if util.is_complex(a):
                raise NotImplementedError(explain(
                    "slogdet method='qr' not implemented for complex inputs",
                    fix="leave method out."))
            # the sign from the reflections, which have no derivative, the size from R, which has
            _, taus = og.geqrf_p.bind(stop_gradient(a))
            _, factors = og.qr_p.bind(a, full_matrices=False, pivoting=False, use_magma=None)
            turns = ew.select_n(ew.eq(taus, la.all_of(taus, 0)), la.all_of(taus, -1),
                                la.all_of(taus, 1))  # each reflection turns the sign
            turned = rd.reduce_prod_p.bind(turns, axes=(last,), out_sharding=None)
        else:
            factors, pivots, _ = la.lu(a)
            turned = _sign_of(pivots, a)
        diagonal = _diagonal(factors)
        size = ew.abs_(diagonal)
        if util.is_complex(a):
            safe = ew.select_n(ew.eq(size, la.all_of(size, 0)), size, la.all_of(size, 1))
            signs = ew.div(diagonal, ew.complex_(safe, la.all_of(safe, 0)))
        else:
            signs = ew.sign(diagonal)
        sign = rd.reduce_prod_p.bind(signs, axes=(last,), out_sharding=None)
        sign = ew.mul(sign, turned)
        return SlogdetResult(sign, rd.reduce_sum(ew.log(size), (last,)))


@util.planned
def matrix_power(a: Any, n: int) -> Any:
    """a a ... a, n times; the inverse's power for negative n.

    Args:
      a: array of shape (..., m, m).
      n: integer.

    Returns:
      An array of a's shape.

    Raises:
      TypeError: n is no integer, or a is not square.

    Example:
      >>> import calque.numpy as jnp
      >>> jnp.linalg.matrix_power(jnp.array([[1, 1], [0, 1]]), 3)
      Array([[1, 3],
             [0, 1]], dtype=int32)
    """
    try:
        n = operator.index(n)
    except TypeError:
        raise TypeError(explain(f"exponent must be an integer, got {n}")) from None
    with util.lazy_eval("matrix_power"):
        a = util.array(util.one_array("jnp.linalg.matrix_power", a))
        shape = shape_of(a)
        if len(shape) < 2:
            raise TypeError(explain(
                f"{len(shape)}-dimensional array given. Array must be at least two-dimensional"))
        if shape[-1] != shape[-2]:
            raise TypeError(explain("Last 2 dimensions of the array must be square"))
        if not n:
            return la.identity_like(a)
        base, n = (inv(a), -n) if n < 0 else (a, n)
        result = None
        while n:
            if n & 1:
                result = base if result is None else la.product(result, base)
            n >>= 1
            base = la.product(base, base) if n else base
        return result


@util.planned
def multi_dot(arrays: Sequence[Any], *, precision: Any = None) -> Any:
    """The product of matrices in the order that needs the fewest operations.

    Args:
      arrays: two or more matrices; the first and the last may be vectors.
      precision: as in jnp.dot.

    Returns:
      An array.

    Raises:
      ValueError: there is no array, or one has another rank.
      TypeError: sizes differ.

    Example:
      >>> import calque.numpy as jnp
      >>> jnp.linalg.multi_dot([jnp.ones((2, 3)), jnp.ones((3, 4)), jnp.ones(4)])
      Array([12., 12.], dtype=float32)
    """
    values = [util.array(x) for x in util.check_arrays("jnp.linalg.multi_dot", *arrays)]
    if not values:
        raise ValueError(explain("multi_dot requires at least one array"))
    shapes = [shape_of(x) for x in values]
    ends = (0, len(shapes) - 1)
    if any(len(s) != 2 and not (i in ends and len(s) == 1) for i, s in enumerate(shapes)):
        raise ValueError(explain(
            "multi_dot: input arrays must all be two-dimensional, except for the first and last "
            f"array which may be 1 or 2 dimensional. Got array shapes {shapes}"))
    first = [1] if len(shapes[0]) == 1 else [shapes[0][0]]
    sizes = first + [s[-1] if len(s) == 2 or i == 0 else 1 for i, s in enumerate(shapes)]
    with util.lazy_eval("multi_dot"):
        return _chain(values, _best_cuts(sizes), 0, len(values) - 1, precision)


def _best_cuts(sizes: Sequence[int]) -> dict[tuple[int, int], int]:
    """Where to cut each run of matrices (dynamic programming over runs)."""
    n = len(sizes) - 1
    cost = {(i, i): 0 for i in range(n)}
    cuts = {}
    for length in range(1, n):
        for i in range(n - length):
            j = i + length
            cost[i, j], cuts[i, j] = min(
                (cost[i, k] + cost[k + 1, j] + sizes[i] * sizes[k + 1] * sizes[j + 1], k)
                for k in range(i, j))
    return cuts


def _chain(values: Sequence[Any], cuts: Any, i: int, j: int, precision: Any) -> Any:
    if i == j:
        return values[i]
    k = cuts[i, j]
    return contract.dot(_chain(values, cuts, i, k, precision),
                        _chain(values, cuts, k + 1, j, precision), precision=precision)


@util.planned
def cross(x1: Any, x2: Any, /, *, axis: int = -1) -> Any:
    """The cross product of vectors of three elements.

    Args:
      x1: array with 3 elements along axis.
      x2: array with 3 elements along axis; the other axes broadcast.
      axis: the axis of the vectors.

    Returns:
      An array of the broadcast shape.

    Raises:
      ValueError: the axis has another size.

    Example:
      >>> import calque.numpy as jnp
      >>> jnp.linalg.cross(jnp.array([1, 0, 0]), jnp.array([0, 1, 0]))
      Array([0, 0, 1], dtype=int32)
    """
    x1, x2 = util.check_arrays("jnp.linalg.cross", x1, x2)
    shapes = [shape_of(x) for x in (x1, x2)]
    sizes = [s[canonical_axis(axis, len(s))] for s in shapes]
    if sizes != [3, 3]:
        raise ValueError(explain(
            "Both input arrays must be (arrays of) 3-dimensional vectors, but they have "
            f"x1.shape[axis]={sizes[0]} and x2.shape[axis]={sizes[1]}"))
    with util.lazy_eval("cross"):
        x1, x2 = util.promote("cross", x1, x2)
        x, y = util.broadcast_all("cross", x1, x2)
        shape = shape_of(x)
        along = canonical_axis(axis, len(shape))

        def turned(v: Any, k: int) -> Any:
            parts = [sh.slice_in_dim(v, (i + k) % 3, (i + k) % 3 + 1, along) for i in range(3)]
            return sh.concatenate(parts, along)

        return ew.sub(ew.mul(turned(x, 1), turned(y, 2)), ew.mul(turned(x, 2), turned(y, 1)))


@util.planned
def outer(x1: Any, x2: Any, /) -> Any:
    """Products of every element of one vector with every element of another.

    Args:
      x1: array of shape (m,).
      x2: array of shape (n,).

    Returns:
      An array of shape (m, n).

    Raises:
      ValueError: an argument is no vector.

    Example:
      >>> import calque.numpy as jnp
      >>> jnp.linalg.outer(jnp.array([1, 2]), jnp.array([3, 4]))
      Array([[3, 4],
             [6, 8]], dtype=int32)
    """
    x1, x2 = util.check_arrays("jnp.linalg.outer", x1, x2)
    ranks = [ndim_of(x) for x in (x1, x2)]
    if ranks != [1, 1]:
        raise ValueError(explain("Input arrays must be one-dimensional, but they are "
                                 f"x1.ndim={ranks[0]} x2.ndim={ranks[1]}"))
    return contract.outer(x1, x2)


@util.planned
def trace(x: Any, /, *, offset: int = 0, dtype: Any = None) -> Any:
    """Sum of the diagonal of the last two axes.

    Args:
      x: array of shape (..., m, n).
      offset: which diagonal.
      dtype: dtype of the result.

    Returns:
      An array of shape (...).

    Raises:
      ValueError: x has fewer than two axes.

    Example:
      >>> import calque.numpy as jnp
      >>> jnp.linalg.trace(jnp.ones((3, 2, 2)))
      Array([2., 2., 2.], dtype=float32)
    """
    return arrange.trace(x, offset=offset, axis1=-2, axis2=-1, dtype=dtype)


@util.planned
def diagonal(x: Any, /, *, offset: int = 0) -> Any:
    """A diagonal of the last two axes.

    Args:
      x: array of shape (..., m, n).
      offset: which diagonal.

    Returns:
      An array of shape (..., k).

    Raises:
      ValueError: x has fewer than two axes.

    Example:
      >>> import calque.numpy as jnp
      >>> jnp.linalg.diagonal(jnp.array([[1, 2], [3, 4]]))
      Array([1, 4], dtype=int32)
    """
    return arrange.diagonal(x, offset=offset, axis1=-2, axis2=-1)


def matrix_transpose(x: Any, /) -> Any:
    """The last two axes exchanged.

    Args:
      x: array of shape (..., m, n).

    Returns:
      An array of shape (..., n, m).

    Raises:
      ValueError: x has fewer than two axes.

    Example:
      >>> import calque.numpy as jnp
      >>> jnp.linalg.matrix_transpose(jnp.ones((2, 3))).shape
      (3, 2)
    """
    x = util.array(util.one_array("jnp.linalg.matrix_transpose", x))
    if ndim_of(x) < 2:
        raise ValueError(explain(
            f"matrix_transpose requires at least 2 dimensions; got shape {shape_of(x)}"))
    return la.flip(x)


__all__ = [
    "EigResult", "EighResult", "QRResult", "SVDResult", "SlogdetResult", "cholesky", "cond",
    "cross", "det", "diagonal", "eig", "eigh", "eigvals", "eigvalsh", "inv", "lstsq", "matmul",
    "matrix_norm", "matrix_power", "matrix_rank", "matrix_transpose", "multi_dot", "norm",
    "outer", "pinv", "qr", "slogdet", "solve", "svd", "svdvals", "tensordot", "tensorinv",
    "tensorsolve", "trace", "vecdot", "vector_norm"]


def __dir__() -> list[str]:
    return __all__
