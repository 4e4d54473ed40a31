"""scipy.linalg: matrices of a pattern, out of vectors or of a size alone; public through linalg.py.

What depends on a size only is computed exactly, with Python's integers or NumPy's float64, and
rounded once.
"""
from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from calque.core.avals import dtype_of, shape_of
from calque.core.dims import is_static
from calque.core.dtypes import canonical, default_dtype
from calque.core.errors import explain
from calque.numpy import creation, join, picking, util
from calque.numpy.arithmetic import absolute
from calque.primitives import elementwise as ew
from calque.primitives import shape as sh

_LARGEST = int(np.finfo(np.float64).max)
_KINDS = ("symmetric", "lower", "upper")


def _vector(name: str, *values: Any, inexact: bool = False, least: int = 0) -> list[Any]:
    """Arrays of one dtype whose last axis is the vector; a scalar is a vector of one."""
    util.check_arrays(name, *values)
    made = [util.array(v) for v in (
        util.promote_inexact if inexact else util.promote)(name, *values)]
    made = [ew.convert(v, dtype_of(v)) for v in made]
    made = [v if shape_of(v) else sh.reshape(v, (1,)) for v in made]
    for v in made:
        if not is_static(shape_of(v)):
            raise ValueError(explain(f"{name}: sizes must be known, got {shape_of(v)}."))
    if shape_of(made[0])[-1] < least:
        raise ValueError(explain(
            f"{name}: The length of `{'f' if name == 'leslie' else 'a'}` along the last axis must "
            f"be at least {least}; got shape {shape_of(made[0])}.",
            fix="give a longer vector."))
    return made


def _placed(values: Sequence[Any], places: Any) -> Any:
    """The matrix whose element i, j is number places[i, j] of vectors one behind the other."""
    lead = util.common_shape("concatenate", [shape_of(v)[:-1] for v in values])
    line = join.concatenate([util.broadcast_to(v, (*lead, shape_of(v)[-1])) for v in values],
                            axis=-1)
    return picking.take(line, np.asarray(places, np.int32), axis=-1)


def _numbers(like: Any, *values: float) -> Any:
    return creation.asarray(np.array(values, dtype_of(like)))


def _size(name: str, n: Any, least: int, error: type[Exception] = ValueError,
          what: str = "n must be a positive integer") -> int:
    n = operator.index(n)
    if n < least:
        raise error(explain(f"{name}: {what}; got {n}."))
    return n


def _exact(rows: Sequence[Sequence[int]], n: int) -> Any:
    """Integers as floats of the default dtype."""
    dtype = default_dtype(float)
    values = [[float(v) if abs(v) < _LARGEST else math.inf * (1 if v > 0 else -1) for v in row]
              for row in rows]
    with np.errstate(over="ignore"):
        return creation.asarray(np.array(values, np.float64).reshape(n, n).astype(dtype))


# ---- out of vectors
@util.planned
def circulant(c: Any) -> Any:
    """The matrix whose columns are c, turned on by one each time.

    Args:
      c: first column; array of shape (..., n).

    Returns:
      An array of shape (..., n, n) and c's dtype.

    Raises:
      TypeError: c is not an array.

    Example:
      >>> import calque.numpy as jnp
      >>> from calque.scipy import linalg
      >>> linalg.circulant(jnp.array([1, 2, 3]))
      Array([[1, 3, 2],
             [2, 1, 3],
             [3, 2, 1]], dtype=int32)
    """
    with util.lazy_eval("circulant"):
        (column,) = _vector("circulant", c)
        i = np.arange(shape_of(column)[-1])
        return _placed([column], (i[:, None] - i) % max(1, len(i)))


@util.planned
def companion(a: Any) -> Any:
    """The companion matrix of a polynomial: its eigenvalues are the roots.

    Args:
      a: coefficients, the highest power first; array of shape (..., n), n at least 2.

    Returns:
      An array of shape (..., n - 1, n - 1), of inexact dtype.

    Raises:
      TypeError: a is not an array.
      ValueError: a has fewer than two coefficients.

    Example:
      >>> import calque.numpy as jnp
      >>> from calque.scipy import linalg
      >>> linalg.companion(jnp.array([1.0, -10.0, 31.0, -30.0]))
      Array([[ 10., -31.,  30.],
             [  1.,   0.,   0.],
             [  0.,   1.,   0.]], dtype=float32)
    """
    with util.lazy_eval("companion"):
        (a,) = _vector("companion", a, inexact=True, least=2)
        row = -a[..., 1:] / a[..., :1]
        n = shape_of(row)[-1]
        return _placed([row, _numbers(row, 0, 1)],
                       np.vstack([np.arange(n), n + np.eye(n, dtype=int)[:-1]]))


@util.planned
def fiedler_companion(a: Any) -> Any:
    """Fiedler's companion matrix of a polynomial: five diagonals, the roots its eigenvalues.

    Args:
      a: coefficients, the highest power first; array of shape (..., n).

    Returns:
      An array of shape (..., n - 1, n - 1), of inexact dtype.

    Raises:
      TypeError: a is not an array.

    Source:
      Fiedler, A note on companion matrices, 2003.

    Example:
      >>> import calque.numpy as jnp
      >>> from calque.scipy import linalg
      >>> linalg.fiedler_companion(jnp.array([1.0, 2.0, 3.0, 4.0]))
      Array([[-2., -3.,  1.],
             [ 1.,  0.,  0.],
             [ 0., -4.,  0.]], dtype=float32)
    """
    with util.lazy_eval("fiedler_companion"):
        (a,) = _vector("fiedler_companion", a, inexact=True, least=1)
        row = -a[..., 1:] / a[..., :1]
        n = shape_of(row)[-1]
        zero, one = n, n + 1
        places = np.full((n, n), zero)
        if n:
            places[0, 0] = 0
        if n > 1:
            places[1, 0] = one
        for k in range(1, n):  # number k stands above the diagonal, of even rows, or below
            places[(k - 1, k) if k % 2 else (k, k - 1)] = k
            if k + 1 < n:
                places[(k - 1, k + 1) if k % 2 else (k + 1, k - 1)] = one
        return _placed([row, _numbers(row, 0, 1)], places)


@util.planned
def convolution_matrix(a: Any, n: int, mode: str = "full") -> Any:
    """The matrix whose product with a vector of n elements is its convolution with a.

    Args:
      a: array of shape (..., m).
      n: size of the vector.
      mode: 'full', 'same' or 'valid', as in numpy.convolve.

    Returns:
      An array of shape (..., rows, n): m + n - 1 rows, max(m, n), or |m - n| + 1.

    Raises:
      TypeError: a is not an array, or n no integer.
      ValueError: n is not positive, or mode is unknown.

    Example:
      >>> import calque.numpy as jnp
      >>> from calque.scipy import linalg
      >>> linalg.convolution_matrix(jnp.array([1, 2]), 3, "same")
      Array([[1, 0, 0],
             [2, 1, 0],
             [0, 2, 1]], dtype=int32)
    """
    n = _size("convolution_matrix", n, 1)
    if mode not in ("full", "valid", "same"):
        raise ValueError(explain(
            f"convolution_matrix: mode must be one of 'full', 'valid', 'same'; got {mode!r}."))
    with util.lazy_eval("convolution_matrix"):
        (a,) = _vector("convolution_matrix", a, least=1)
        m = shape_of(a)[-1]
        less = 0 if mode == "full" else min(m, n) - 1  # rows that are left out
        before, after = (less // 2, less - less // 2) if mode == "same" else (less, less)
        at = np.arange(before, m + n - 1 - after)[:, None] - np.arange(n)
        return _placed([a, _numbers(a, 0)], np.where((at >= 0) & (at < m), at, m))


@util.planned
def fiedler(a: Any) -> Any:
    """The symmetric matrix of distances |a_i - a_j|.

    Args:
      a: array of shape (..., n).

    Returns:
      An array of shape (..., n, n).

    Raises:
      TypeError: a is not an array.

    Example:
      >>> import calque.numpy as jnp
      >>> from calque.scipy import linalg
      >>> linalg.fiedler(jnp.array([1, 4, 6]))
      Array([[0, 3, 5],
             [3, 0, 2],
             [5, 2, 0]], dtype=int32)
    """
    with util.lazy_eval("fiedler"):
        (a,) = _vector("fiedler", a)
        return absolute(a[..., :, None] - a[..., None, :])


@util.planned
def hankel(c: Any, r: Any = None) -> Any:
    """The matrix with constant diagonals from the right to the left.

    Args:
      c: first column; array of shape (..., m).
      r: last row (its first element is not used); 0 by default.

    Returns:
      An array of shape (..., m, n).

    Raises:
      TypeError: an argument is not an array.
      ValueError: an argument is a scalar.

    Example:
      >>> import calque.numpy as jnp
      >>> from calque.scipy import linalg
      >>> linalg.hankel(jnp.array([1, 2, 3]), jnp.array([3, 8]))
      Array([[1, 2],
             [2, 3],
             [3, 8]], dtype=int32)
    """
    given = (c,) if r is None else (c, r)
    util.check_arrays("hankel", *given)
    for name, v in zip("cr", given):
        if not shape_of(v):
            raise ValueError(explain(
                f"hankel: {name} must be at least 1-dimensional, got a scalar."))
    with util.lazy_eval("hankel"):
        made = _vector("hankel", *given)
        column = made[0]
        row = made[1] if len(made) > 1 else creation.zeros_like(column)
        at = np.arange(shape_of(column)[-1])[:, None] + np.arange(shape_of(row)[-1])
        return _placed([column, row[..., 1:]], at)


@util.planned
def leslie(f: Any, s: Any) -> Any:
    """The Leslie matrix of a population: fecundity in the first row, survival below the diagonal.

    Args:
      f: fecundity; array of shape (..., n), n at least 2.
      s: survival; array of shape (..., n - 1).

    Returns:
      An array of shape (..., n, n).

    Raises:
      TypeError: an argument is not an array.
      ValueError: sizes do not fit.

    Example:
      >>> import calque.numpy as jnp
      >>> from calque.scipy import linalg
      >>> linalg.leslie(jnp.array([1.0, 2.0]), jnp.array([0.5]))
      Array([[1. , 2. ],
             [0.5, 0. ]], dtype=float32)
    """
    with util.lazy_eval("leslie"):
        f, s = _vector("leslie", f, s, least=2)
        n = shape_of(f)[-1]
        if shape_of(s)[-1] != n - 1:
            raise ValueError(explain(
                "leslie: Incorrect lengths for f and s. The length of s along the last axis must "
                f"be one less than the length of f; got f shape {shape_of(f)} and s shape "
                f"{shape_of(s)}."))
        places = np.full((n, n), 2 * n - 1)
        places[0] = np.arange(n)
        places[np.arange(1, n), np.arange(n - 1)] = n + np.arange(n - 1)
        return _placed([f, s, _numbers(f, 0)], places)


# ---- of a size
def dft(n: int, scale: str | None = None, *, dtype: Any = None) -> Any:
    """The matrix of the discrete Fourier transform: e**(-2 pi i j k / n).

    Args:
      n: size.
      scale: None, 'sqrtn' (divided by the root of n) or 'n' (by n).
      dtype: a complex dtype; the default one otherwise.

    Returns:
      An array of shape (n, n).

    Raises:
      TypeError: n is no integer.
      ValueError: scale is unknown, or dtype not complex.

    Example:
      >>> from calque.scipy import linalg
      >>> linalg.dft(2).real
      Array([[ 1.,  1.],
             [ 1., -1.]], dtype=float32)
    """
    if scale not in (None, "sqrtn", "n"):
        raise ValueError(explain(f"dft: scale must be None, 'sqrtn', or 'n'; got {scale!r}."))
    kind = canonical(np.dtype(np.complex128) if dtype is None else np.dtype(dtype))
    if kind.kind != "c":
        raise ValueError(explain(
            f"dft: dtype must be a complex floating-point type; got {kind.name}."))
    i = np.arange(max(0, operator.index(n)))
    turns = i[:, None] * i % max(1, len(i)) / max(1, len(i))
    divisor = {None: 1.0, "sqrtn": math.sqrt(max(1, len(i))), "n": max(1, len(i))}[scale]
    return creation.asarray((np.exp(-2j * np.pi * turns) / divisor).astype(kind))


def hadamard(n: int, dtype: Any = int) -> Any:
    """Sylvester's matrix of orthogonal rows of 1 and -1.

    Args:
      n: size, a power of 2.
      dtype: of the result; int by default.

    Returns:
      An array of shape (n, n).

    Raises:
      TypeError: n is no integer, or dtype is bool.
      ValueError: n is no power of 2.

    Example:
      >>> from calque.scipy import linalg
      >>> linalg.hadamard(2)
      Array([[ 1,  1],
             [ 1, -1]], dtype=int32)
    """
    n = operator.index(n)
    if n < 1 or n & (n - 1):
        raise ValueError(explain(f"hadamard: n must be a positive power of 2; got {n}."))
    kind = default_dtype(int) if dtype is int else canonical(np.dtype(dtype))
    if kind.kind == "b":
        raise TypeError(explain("hadamard: -1 is no bool.", fix="use dtype=int."))
    out: Any = np.ones((1, 1))
    while len(out) < n:
        out = np.block([[out, out], [out, -out]])
    return creation.asarray(out.astype(kind))


def helmert(n: int, full: bool = False) -> Any:
    """Helmert's matrix: orthonormal rows, each a contrast of one element with those before it.

    Args:
      n: size.
      full: with the first row, whose elements are equal.

    Returns:
      An array of shape (n - 1, n), or (n, n).

    Raises:
      TypeError: n is no integer.
      ValueError: n is not positive.

    Example:
      >>> from calque.scipy import linalg
      >>> linalg.helmert(2)
      Array([[ 0.70710677, -0.70710677]], dtype=float32)
    """
    n = _size("helmert", n, 1)
    k = np.arange(1, n)[:, None]
    out = np.tril(np.ones((n, n)), -1)[1:] - np.eye(n)[1:] * k
    out = np.vstack([np.full((1, n), n**-0.5), out / np.sqrt(k * (k + 1))])
    return creation.asarray(out[0 if full else 1:].astype(default_dtype(float)))


def hilbert(n: int) -> Any:
    """The Hilbert matrix 1 / (i + j + 1).

    Args:
      n: size.

    Returns:
      An array of shape (n, n), of the default float dtype.

    Raises:
      TypeError: n is no integer, or negative.

    Example:
      >>> from calque.scipy import linalg
      >>> linalg.hilbert(2)
      Array([[1.        , 0.5       ],
             [0.5       , 0.33333334]], dtype=float32)
    """
    n = _size("hilbert", n, 0, TypeError, "n must be nonnegative")
    i = np.arange(n)
    return creation.asarray((1 / (i[:, None] + i + 1)).astype(default_dtype(float)))


def invhilbert(n: int) -> Any:
    """The inverse of the Hilbert matrix: integers, as floats.

    Args:
      n: size.

    Returns:
      An array of shape (n, n), of the default float dtype.

    Raises:
      TypeError: n is no integer, or negative.

    Source:
      Choi, Tricks or treats with the Hilbert matrix, 1983.

    Example:
      >>> from calque.scipy import linalg
      >>> linalg.invhilbert(2)
      Array([[ 4., -6.],
             [-6., 12.]], dtype=float32)
    """
    n = _size("invhilbert", n, 0, TypeError, "n must be nonnegative")
    c = math.comb
    return _exact([[(-1) ** (i + j) * (i + j + 1) * c(n + i, n - j - 1) * c(n + j, n - i - 1)
                    * c(i + j, i) ** 2 for j in range(n)] for i in range(n)], n)


def _kind(name: str, kind: str | None) -> str:
    kind = "symmetric" if kind is None else kind
    if kind not in _KINDS:
        raise ValueError(explain(
            f"{name}: Expected kind to be one of: {list(_KINDS)}; got {kind}"))
    return kind


def pascal(n: int, kind: str | None = None) -> Any:
    """Pascal's matrix of binomial coefficients.

    Args:
      n: size.
      kind: 'symmetric' (the default): (i + j over i); 'lower': (i over j); 'upper', its transpose.

    Returns:
      An array of shape (n, n), of the default float dtype.

    Raises:
      TypeError: n is no integer.
      ValueError: kind is unknown.

    Example:
      >>> from calque.scipy import linalg
      >>> linalg.pascal(3)
      Array([[1., 1., 1.],
             [1., 2., 3.],
             [1., 3., 6.]], dtype=float32)
    """
    kind, n = _kind("pascal", kind), max(0, operator.index(n))
    if kind == "symmetric":
        return _exact([[math.comb(i + j, i) for j in range(n)] for i in range(n)], n)
    lower = [[math.comb(i, j) for j in range(n)] for i in range(n)]
    return _exact(lower if kind == "lower" else list(zip(*lower)), n)


def invpascal(n: int, kind: str | None = None) -> Any:
    """The inverse of Pascal's matrix: integers, as floats.

    Args:
      n: size.
      kind: of the matrix: 'symmetric' (the default), 'lower' or 'upper'.

    Returns:
      An array of shape (n, n), of the default float dtype.

    Raises:
      TypeError: n is no integer.
      ValueError: kind is unknown.

    Example:
      >>> from calque.scipy import linalg
      >>> linalg.invpascal(2)
      Array([[ 2., -1.],
             [-1.,  1.]], dtype=float32)
    """
    kind, n = _kind("invpascal", kind), max(0, operator.index(n))
    lower = [[(-1) ** (i - j) * math.comb(i, j) for j in range(n)] for i in range(n)]
    upper = [list(column) for column in zip(*lower)]
    if kind == "symmetric":  # (L L^T)^-1
        return _exact([[sum(map(operator.mul, upper[i], upper[j])) for j in range(n)]
                       for i in range(n)], n)
    return _exact(lower if kind == "lower" else upper, n)
