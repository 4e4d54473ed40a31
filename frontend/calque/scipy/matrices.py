"""scipy.linalg: a function of a matrix, and special ones; public through linalg.py."""
from __future__ import annotations

import math
from typing import Any

import numpy as np

from calque.api.control import cond
from calque.api.loops import fori_loop
from calque.core.avals import dtype_of, ndim_of, shape_of
from calque.core.errors import explain
from calque.numpy import arrange, creation, join, picking, util
from calque.numpy import linalg as nl
from calque.numpy import reductions as rd
from calque.numpy.arithmetic import absolute
from calque.numpy.contract import matmul
from calque.numpy.logic import where
from calque.numpy.parts import conj
from calque.primitives import elementwise as ew
from calque.primitives import shape as sh


def arrays(name: str, *values: Any) -> list[Any]:
    return [ew.convert(util.array(v), dtype_of(v))
            for v in util.promote_inexact(name, *values)]


def check_square(name: str, a: Any) -> Any:
    shape = shape_of(a)
    if len(shape) < 2 or shape[-1] != shape[-2]:
        raise ValueError(explain(f"{name}: expected a square matrix, got shape {shape}."))
    return a


# numerator of the Pade approximants of e**x, and the norms up to which they are exact (Higham 2005)
_PADE = {4: ((17297280.0, 8648640.0, 1995840.0, 277200.0, 25200.0, 1512.0, 56.0, 1.0),
             3.925724783138660),
         8: ((64764752532480000.0, 32382376266240000.0, 7771770303897600.0, 1187353796428800.0,
              129060195264000.0, 10559470521600.0, 670442572800.0, 33522128640.0, 1323241920.0,
              40840800.0, 960960.0, 16380.0, 182.0, 1.0), 5.371920351148152)}


@util.planned
def expm(A: Any, *, upper_triangular: bool = False, max_squarings: int = 16) -> Any:  # noqa: N803
    """e**A of square matrices, by scaling, a Pade approximant and squaring.

    Args:
      A: array of shape (..., n, n).
      upper_triangular: A is upper triangular (a solver may make use of it).
      max_squarings: matrices that need more give NaN.

    Returns:
      An array of A's shape.

    Raises:
      TypeError: A is not an array, or one of halves.
      ValueError: A is not square.

    Example:
      >>> import calque.numpy as jnp
      >>> from calque.scipy import linalg
      >>> linalg.expm(jnp.zeros((2, 2)))
      Array([[1., 0.],
             [0., 1.]], dtype=float32)
    """
    util.check_arrays("expm", A)
    with util.lazy_eval("expm"):
        (a,) = arrays("expm", A)
        check_square("expm", a)
        if dtype_of(a).itemsize < 4:
            raise TypeError(explain(f"expm: A.dtype={dtype_of(a).name} is not supported.",
                                    fix="convert A to float32."))
        n = shape_of(a)[-1]
        if not n:
            return a
        real = dtype_of(ew.real(a) if util.is_complex(a) else a)
        coefficients, limit = _PADE[8 if real.itemsize > 4 else 4]
        norm = rd.max(rd.sum(absolute(a), axis=-2), axis=-1)
        wanted = ew.ceil(ew.log(norm / limit) * (1 / math.log(2)))
        needed = where(norm > limit, wanted, 0)
        needed = where(ew.eq(needed, needed), needed, max_squarings + 1)
        times = where(needed > max_squarings, max_squarings, needed)
        scale = ew.exp2(-times)
        r = _pade(a * scale[..., None, None], coefficients, n)

        def square(i: Any, r: Any) -> Any:
            return where((i < times)[..., None, None], matmul(r, r, precision="highest"), r)

        # a known number of steps, so that there is a gradient; those that none needs are left out
        # by branches for one, one, two, four, eight of them, each within the one before: a branch
        # waits for its predicate
        last = rd.max(times)

        def steps(r: Any, begin: int, end: int) -> Any:
            if begin >= max_squarings:
                return r
            return cond(begin < last, lambda r: steps(
                fori_loop(begin, end, square, r), end, min(2 * end, max_squarings)), lambda r: r, r)

        r = steps(r, 0, 1)
        return where((needed > max_squarings)[..., None, None], np.nan, r)


def _pade(a: Any, c: tuple[float, ...], n: int) -> Any:
    """(V - U)^-1 (V + U), U the odd and V the even powers."""
    one = creation.eye(n, dtype=dtype_of(a))
    square = matmul(a, a, precision="highest")
    odd, even, power = c[1] * one, c[0] * one, one
    for k in range(2, len(c), 2):
        power = matmul(power, square, precision="highest") if k > 2 else square
        even = even + c[k] * power
        if k + 1 < len(c):
            odd = odd + c[k + 1] * power
    odd = matmul(a, odd, precision="highest")
    return nl.solve(even - odd, even + odd)


@util.planned
def block_diag(*arrs: Any) -> Any:
    """A matrix with the arguments along its diagonal, 0 elsewhere.

    Args:
      *arrs: matrices, vectors (as rows) or scalars.

    Returns:
      A matrix of the promoted dtype.

    Raises:
      TypeError: an argument is not an array.
      ValueError: an argument has more than two axes.

    Example:
      >>> import calque.numpy as jnp
      >>> from calque.scipy import linalg
      >>> linalg.block_diag(jnp.array([1, 2]), 3)
      Array([[1, 2, 0],
             [0, 0, 3]], dtype=int32)
    """
    if not arrs:
        return creation.zeros((1, 0))
    util.check_arrays("block_diag", *arrs)
    wrong = [i for i, a in enumerate(arrs) if ndim_of(a) > 2]
    if wrong:
        raise ValueError(explain("Arguments to jax.scipy.linalg.block_diag must have at most 2 "
                                 f"dimensions, got {shape_of(arrs[wrong[0]])} at argument "
                                 f"{wrong[0]}."))
    with util.lazy_eval("block_diag"):
        parts = [ew.convert(util.array(v), dtype_of(v))
                 for v in util.promote("block_diag", *arrs)]
        parts = [sh.reshape(p, (1,) * (2 - ndim_of(p)) + shape_of(p))
                 for p in parts]
        width, at, rows = sum(shape_of(p)[1] for p in parts), 0, []
        for p in parts:
            own = shape_of(p)[1]
            rows.append(sh.pad(p, dtype_of(p).type(0), (
                (0, 0, 0), (at, width - at - own, 0))))
            at += own
        return join.concatenate(rows)


@util.planned
def toeplitz(c: Any, r: Any = None) -> Any:
    """The matrix with constant diagonals.

    Args:
      c: first column; array of shape (..., m).
      r: first row (its first element is not used); conj(c) by default.

    Returns:
      An array of shape (..., m, n).

    Raises:
      TypeError: an argument is not an array.

    Example:
      >>> import calque.numpy as jnp
      >>> from calque.scipy import linalg
      >>> linalg.toeplitz(jnp.array([1, 2]), jnp.array([1, 5]))
      Array([[1, 5],
             [2, 1]], dtype=int32)
    """
    given = (c,) if r is None else (c, r)
    util.check_arrays("toeplitz", *given)
    with util.lazy_eval("toeplitz"):
        values = [util.array(v) for v in util.promote("toeplitz", *given)]
        first = [v if shape_of(v) else sh.reshape(v, (1,)) for v in values]
        column, row = first[0], conj(first[0]) if r is None else first[1]
        m, n = shape_of(column)[-1], shape_of(row)[-1]
        lead = util.common_shape("toeplitz", [shape_of(column)[:-1],
                                              shape_of(row)[:-1]])
        column, row = util.broadcast_to(column, (*lead, m)), util.broadcast_to(row, (*lead, n))
        line = join.concatenate([arrange.flip(column, -1), row[..., 1:]], axis=-1)
        places = np.arange(m)[::-1, None] + np.arange(n)[None, :]
        return picking.take(line, places.astype(np.int32), axis=-1)
