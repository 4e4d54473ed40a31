"""Polynomials as vectors of coefficients, the highest power first: polyval, polyadd, polymul,
polydiv, polyder, polyint, poly, roots, polyfit, vander.
"""
from __future__ import annotations

import operator
from typing import Any

import numpy as np

from calque.api.control import scan
from calque.api.loops import fori_loop
from calque.core import dtypes
from calque.core.avals import dtype_of, ndim_of, shape_of
from calque.core.errors import explain
from calque.numpy import arithmetic as ar
from calque.numpy import arrange, creation, join, picking, util
from calque.numpy import reductions as rd
from calque.numpy.convolve import convolve
from calque.numpy.decompositions import eigvals, lstsq
from calque.numpy.linalg import inv
from calque.numpy.logic import isclose, where
from calque.numpy.shapes import atleast_1d
from calque.numpy.sorting import argsort
from calque.primitives import elementwise as ew
from calque.primitives import shape as sh

UNROLLED = 32  # steps that are written out; more are a loop


def _arrays(name: str, *values: Any, inexact: bool = False) -> list[Any]:
    made = util.promote_inexact(name, *values) if inexact else util.promote(name, *values)
    return [ew.convert(util.array(v), dtype_of(v)) for v in made]


def _vector(name: str, x: Any) -> Any:
    shape = shape_of(x)
    if len(shape) != 1:  # (the classes are JAX's)
        kind: type[Exception] = ValueError
        if not shape:
            kind = IndexError if name in ("polyadd", "polysub") else TypeError
        raise kind(explain(f"{name}: input must be a rank-1 array, got shape {shape}.",
                           fix="" if shape else "pass a vector of one coefficient."))
    return x


def _front(x: Any, count: int) -> Any:
    """Zeros before the coefficients."""
    rest = [(0, 0, 0)] * (len(shape_of(x)) - 1)
    return sh.pad(x, dtype_of(x).type(0), ((count, 0, 0), *rest))


def _trimmed(name: str, x: Any) -> Any:
    """Without leading zeros."""
    value = util.needed(name, x, "trim_leading_zeros makes the shape depend on the values.",
                           "leave trim_leading_zeros out under jit.")
    return x[int(np.argmax(value != 0)) if value.any() else len(value):]


@util.planned
def polyval(p: Any, x: Any, *, unroll: int = 16) -> Any:
    """The polynomial with coefficients p at x, by Horner's rule.

    Args:
      p: coefficients along axis 0, the highest power first.
      x: array or scalar; broadcasts against the other axes of p.
      unroll: steps of the loop written out at a time, for more than 32 coefficients.

    Returns:
      An array.

    Raises:
      TypeError: an argument is not an array.

    Example:
      >>> import calque.numpy as jnp
      >>> jnp.polyval(jnp.array([1, 2, 3]), 2)
      Array(11, dtype=int32)
    """
    util.check_arrays("polyval", p, x)
    with util.lazy_eval("polyval"):
        p, x = _arrays("polyval", p, x)
        shape = util.common_shape("polyval", [shape_of(p)[1:], shape_of(x)])
        x = util.broadcast_to(x, shape)
        y = util.broadcast_to(dtype_of(x).type(0), shape)
        count = shape_of(p)[0]
        if count <= UNROLLED:
            for i in range(count):
                y = y * x + p[i]
            return y
        return scan(lambda y, c: (y * x + c, None), y, p, unroll=unroll)[0]


@util.planned
def polyadd(a1: Any, a2: Any) -> Any:
    """Sum of two polynomials.

    Args:
      a1: coefficients, the highest power first.
      a2: coefficients; dtypes are promoted.

    Returns:
      A vector as long as the longer one.

    Raises:
      TypeError: an argument is not an array.
      IndexError: an argument is a scalar.

    Example:
      >>> import calque.numpy as jnp
      >>> jnp.polyadd(jnp.array([1, 2, 3]), jnp.array([1, 1]))
      Array([1, 3, 4], dtype=int32)
    """
    return _sum("polyadd", a1, a2, ew.add_p)


@util.planned
def polysub(a1: Any, a2: Any) -> Any:
    """Difference of two polynomials.

    Args:
      a1: coefficients, the highest power first.
      a2: coefficients; dtypes are promoted.

    Returns:
      A vector as long as the longer one.

    Raises:
      TypeError: an argument is not an array.
      IndexError: an argument is a scalar.

    Example:
      >>> import calque.numpy as jnp
      >>> jnp.polysub(jnp.array([1, 2, 3]), jnp.array([1, 1]))
      Array([1, 1, 2], dtype=int32)
    """
    return _sum("polysub", a1, a2, ew.sub_p)


def _sum(name: str, a1: Any, a2: Any, prim: Any) -> Any:
    util.check_arrays(name, a1, a2)
    with util.lazy_eval(name):
        x, y = _arrays(name, a1, a2)
        for v in (x, y):
            if not shape_of(v):
                _vector(name, v)
        n = max(shape_of(x)[0], shape_of(y)[0])
        whole = shape_of(x if shape_of(x)[0] == n else y)  # the other one is broadcast to its rows
        x, y = (util.broadcast_to(v, (shape_of(v)[0], *whole[1:])) for v in (x, y))
        return prim.bind(*[_front(v, n - shape_of(v)[0]) for v in (x, y)])


@util.planned
def polymul(a1: Any, a2: Any, *, trim_leading_zeros: bool = False) -> Any:
    """Product of two polynomials.

    Args:
      a1: coefficients, the highest power first.
      a2: coefficients; dtypes are promoted.
      trim_leading_zeros: drop zeros in front of the factors first; not under jit.

    Returns:
      A vector of inexact dtype.

    Raises:
      TypeError: an argument is not an array, or a scalar.
      ConcretizationTypeError: trim_leading_zeros of traced arrays.

    Example:
      >>> import calque.numpy as jnp
      >>> jnp.polymul(jnp.array([1, 2]), jnp.array([1, 1]))
      Array([1., 3., 2.], dtype=float32)
    """
    util.check_arrays("polymul", a1, a2)
    x, y = (_vector("polymul", v) for v in _arrays("polymul", a1, a2, inexact=True))
    if trim_leading_zeros:
        x, y = (_trimmed("polymul", v) for v in (x, y))
    x, y = (creation.zeros(1, dtype_of(v)) if not shape_of(v)[0] else v
            for v in (x, y))
    return convolve(x, y)


@util.planned
def polydiv(u: Any, v: Any, *, trim_leading_zeros: bool = False) -> tuple[Any, Any]:
    """Quotient and remainder of two polynomials.

    Args:
      u: coefficients of the dividend, the highest power first.
      v: coefficients of the divisor.
      trim_leading_zeros: drop zeros in front of the remainder; not under jit.

    Returns:
      Two vectors of inexact dtype: the quotient, and the remainder with u's length.

    Raises:
      TypeError: an argument is not an array, or a scalar.
      ConcretizationTypeError: trim_leading_zeros of traced arrays.

    Example:
      >>> import calque.numpy as jnp
      >>> jnp.polydiv(jnp.array([1.0, 3.0, 2.0]), jnp.array([1.0, 1.0]))
      (Array([1., 2.], dtype=float32), Array([0., 0., 0.], dtype=float32))
    """
    util.check_arrays("polydiv", u, v)
    with util.lazy_eval("polydiv"):
        x, y = (_vector("polydiv", a) for a in _arrays("polydiv", u, v, inexact=True))
        m, n = shape_of(x)[0], shape_of(y)[0]
        steps = m - n + 1

        def step(k: Any, pair: Any) -> Any:
            quotient, rest = pair
            d = rest[k] / y[0]
            quotient = quotient.at[k].set(d)
            rest = rest.at[k + np.arange(1, n)].add(-d * y[1:])
            return quotient, rest.at[k].set(0)

        if 0 < steps <= UNROLLED:
            quotient, rest = _written_out(x, y, steps)
        else:
            made = creation.zeros(max(steps, 1), dtype_of(x)), x
            quotient, rest = fori_loop(0, max(steps, 0), step, made)
    return quotient, _trimmed("polydiv", rest) if trim_leading_zeros else rest


def _written_out(x: Any, y: Any, steps: int) -> tuple[Any, Any]:
    """Long division, a coefficient of the quotient at a time, without updates of arrays."""
    quotient, rest, tail = [], x, y[1:]
    zero = dtype_of(x).type(0)
    for k in range(steps):
        d = rest[k] / y[0]
        quotient.append(d)
        term = sh.pad(d * tail, zero, ((k + 1, steps - 1 - k, 0),))
        rest = where(np.arange(shape_of(x)[0]) == k, zero, rest - term)
    return join.stack(quotient), rest


@util.planned
def polyder(p: Any, m: int = 1) -> Any:
    """Derivative of order m of a polynomial.

    Args:
      p: coefficients, the highest power first.
      m: order, at least 0.

    Returns:
      A vector of inexact dtype, m shorter than p.

    Raises:
      TypeError: p is not an array, or a scalar, or m no integer.
      ValueError: m is negative.

    Example:
      >>> import calque.numpy as jnp
      >>> jnp.polyder(jnp.array([1.0, 2.0, 3.0]))
      Array([2., 2.], dtype=float32)
    """
    util.check_arrays("polyder", p)
    m = operator.index(m)
    if m < 0:
        raise ValueError(explain("Order of derivative must be positive"))
    (x,) = _arrays("polyder", p, inexact=True)
    x = _vector("polyder", x)
    n = shape_of(x)[0]
    powers = np.arange(n - 1, m - 1, -1)
    factors = np.prod([powers - i for i in range(m)], axis=0) if m else np.ones(n)
    kept = x[:max(n - m, 0)]
    return ew.mul(kept, np.asarray(factors, dtype_of(x))[:shape_of(kept)[0]])


@util.planned
def polyint(p: Any, m: int = 1, k: Any = None) -> Any:
    """Antiderivative of order m of a polynomial.

    Args:
      p: coefficients, the highest power first.
      m: order, at least 0.
      k: constants of integration: a scalar or m of them; 0 by default.

    Returns:
      A vector of inexact dtype, m longer than p.

    Raises:
      TypeError: p or k is not an array, or p is a scalar, or m no integer.
      ValueError: m is negative, or k has another length.

    Example:
      >>> import calque.numpy as jnp
      >>> jnp.polyint(jnp.array([2.0, 2.0]))
      Array([1., 2., 0.], dtype=float32)
    """
    m = operator.index(m)
    if m < 0:
        raise ValueError(explain("Order of integral must be positive (see polyder)"))
    x, constants = _arrays("polyint", p, 0 if k is None else k, inexact=True)
    x = _vector("polyint", x)
    constants = atleast_1d(constants)
    if shape_of(constants)[0] == 1:
        constants = util.broadcast_to(constants, (m,))
    if shape_of(constants) != (m,):
        raise ValueError(explain("k must be a scalar or a rank-1 array of length 1 or m.",
                                 fix=f"give {m} constants."))
    n = shape_of(x)[0]
    powers = np.arange(n + m - 1, -1, -1, dtype=np.float64)
    factors = np.prod([np.maximum(powers - i, 1) for i in range(m)], axis=0) if m else 1.0
    with util.lazy_eval("polyint"):
        joined = join.concatenate([x, constants])
        divisors = np.broadcast_to(np.asarray(factors, dtype_of(x)), (n + m,)).copy()
        return ew.div(joined, divisors)


@util.planned
def poly(seq_of_zeros: Any) -> Any:
    """The polynomial with given zeros and leading coefficient 1; of a matrix: its characteristic
    polynomial.

    Args:
      seq_of_zeros: vector, or square matrix.

    Returns:
      A vector of inexact dtype, one longer than the number of zeros.

    Raises:
      TypeError: the argument is not an array.
      ValueError: it is neither a vector nor a square matrix.

    Example:
      >>> import calque.numpy as jnp
      >>> jnp.poly(jnp.array([1.0, 2.0]))
      Array([ 1., -3.,  2.], dtype=float32)
    """
    util.check_arrays("poly", seq_of_zeros)
    (x,) = _arrays("poly", seq_of_zeros, inexact=True)
    x = atleast_1d(x)
    shape = shape_of(x)
    if len(shape) == 2 and shape[0] == shape[1] and shape[0]:
        x = eigvals(x)
    elif len(shape) != 1:
        raise ValueError(explain("input must be 1d or non-empty square 2d array.",
                                 fix=f"the shape is {shape}."))
    n = shape_of(x)[0]
    one = dtype_of(x).type(1)
    if not n:
        return util.array(util.broadcast_to(one, ()))
    with util.lazy_eval("poly"):
        if n <= UNROLLED:
            made = util.broadcast_to(one, (1,))
            for i in range(n):
                made = _front(made, 0)
                made = sh.pad(made, one * 0, ((0, 1, 0),)) - (
                    x[i] * _front(made, 1))
            return made
        made = _front(util.broadcast_to(one, (1,)), 0)
        made = sh.pad(made, one * 0, ((0, n, 0),))
        return fori_loop(0, n, lambda i, c: c - x[i] * arrange.roll(c, 1), made)


def roots(p: Any, *, strip_zeros: bool = True) -> Any:
    """The zeros of a polynomial: eigenvalues of its companion matrix.

    Args:
      p: coefficients, the highest power first.
      strip_zeros: take zeros at both ends out first, so that the result is as short as the degree;
        not under jit.  False: the result has len(p) - 1 elements, NaN at its end for zeros in
        front.

    Returns:
      A complex vector.

    Raises:
      TypeError: p is not an array.
      ValueError: p is no vector.
      ConcretizationTypeError: strip_zeros=True of a traced array.

    Example:
      >>> import calque.numpy as jnp
      >>> jnp.roots(jnp.array([1.0, -3.0, 2.0])).real
      Array([2., 1.], dtype=float32)
    """
    util.check_arrays("roots", p)
    (x,) = _arrays("roots", p, inexact=True)
    x = atleast_1d(x)
    if ndim_of(x) != 1:
        raise ValueError(explain("Input must be a rank-1 array.",
                                 fix=f"the shape is {shape_of(x)}."))
    n = shape_of(x)[0]
    kind = dtypes.complex_dtype(dtype_of(x))
    if n < 2:
        return creation.zeros(0, kind)
    if not strip_zeros:
        return _roots_between(x, n, kind)
    value = util.needed(
        "roots", x, "the number of zeros at the ends makes the shape.",
        "pass strip_zeros=False: jnp.roots(p, strip_zeros=False).")
    places = np.flatnonzero(value)
    if not len(places):
        return creation.zeros(0, kind)
    first, last = int(places[0]), int(places[-1])
    made = _companion(x[first:last + 1], last - first, kind)
    return join.concatenate([creation.zeros(n - 1 - last, kind), made])


def _companion(x: Any, degree: int, kind: Any) -> Any:
    if not degree:
        return creation.zeros(0, kind)
    rows = creation.eye(degree, k=-1, dtype=dtype_of(x))
    return eigvals(rows.at[0].set(-x[1:] / x[0]))


def _roots_between(x: Any, n: int, kind: Any) -> Any:
    """Roots with leading zeros of unknown number: they are rolled to the end, and give NaN."""
    zero = x == 0
    lead = where(rd.all(zero), n - 1, rd.argmin(zero))
    moved = _companion(picking.take(x, (np.arange(n) + lead) % n), n - 1, kind)
    order = argsort(isclose(moved, 0), stable=True)
    return where(np.arange(n - 1) < n - 1 - lead, picking.take(moved, order),
                 kind.type(complex(np.nan, np.nan)))


@util.planned
def polyfit(x: Any, y: Any, deg: int, rcond: float | None = None, full: bool = False,
            w: Any = None, cov: Any = False) -> Any:
    """The polynomial of degree deg that is nearest to points in the least squares sense.

    Args:
      x: vector of places.
      y: vector of values, or a matrix with a column per polynomial.
      deg: degree.
      rcond: singular values below rcond times the largest count as 0; len(x) * eps by default.
      full: also return residuals, rank, singular values and rcond.
      w: weights of the values.
      cov: also return the covariance matrix of the coefficients; 'unscaled' leaves out the
        residuals' scale.

    Returns:
      The coefficients, the highest power first, or a tuple of them and what was asked for.

    Raises:
      TypeError: an argument is not an array, or has the wrong number of axes or elements.
      ValueError: deg is negative, or too large for cov.

    Example:
      >>> import calque.numpy as jnp
      >>> x = jnp.arange(4.0)
      >>> jnp.polyfit(x, 2 * x + 1, 1).round(3)
      Array([2., 1.], dtype=float32)
    """
    util.check_arrays("polyfit", x, y)
    x, y = _arrays("polyfit", x, y, inexact=True)
    deg = operator.index(deg)
    (points, *more), rows = shape_of(x) or (0, 0), shape_of(y)
    if deg < 0:
        raise ValueError(explain("expected deg >= 0"))
    for wrong, text in ((bool(more), "expected 1D vector for x"),
                        (points == 0, "expected non-empty vector for x"),
                        (len(rows) not in (1, 2), "expected 1D or 2D array for y"),
                        (rows[:1] != (points,), "expected x and y to have same length")):
        if wrong:
            raise TypeError(explain(text))
    order = deg + 1
    if rcond is None:
        rcond = points * float(dtypes.finfo(dtype_of(x)).eps)
    lhs, rhs = vander(x, order), y
    if w is not None:
        w, _ = _arrays("polyfit", w, x, inexact=True)
        if ndim_of(w) != 1:
            raise TypeError(explain("expected a 1-d array for weights"))
        if shape_of(w) != (points,):
            raise TypeError(explain("expected w and y to have the same length"))
        lhs = lhs * w[:, None]
        rhs = rhs * (w if len(rows) == 1 else w[:, None])
    scale = ew.sqrt(rd.sum(ew.mul(lhs, lhs), axis=0))
    lhs = lhs / scale[None, :]
    found, residuals, rank, s = lstsq(lhs, rhs, rcond)
    found = found / (scale if len(rows) == 1 else scale[:, None])
    if full:
        return found, residuals, rank, s, creation.asarray(rcond)
    if not cov:
        return found
    base = inv(lhs.T @ lhs) / (scale[:, None] * scale[None, :])
    factor: Any = 1
    if cov != "unscaled":
        if points <= order:
            raise ValueError(explain("the number of data points must exceed order to scale the "
                                     "covariance matrix"))
        factor = residuals / (points - order)
        factor = factor[0] if len(rows) == 1 else factor
    if len(rows) == 1:
        return found, base * factor
    return found, base[:, :, None] * factor


@util.planned
def vander(x: Any, N: int | None = None, increasing: bool = False) -> Any:  # noqa: N803
    """The matrix of powers of x, a column each.

    Args:
      x: vector.
      N: number of columns; as many as x has elements by default.
      increasing: powers from 0 on instead of down to 0.

    Returns:
      An array of shape (len(x), N).

    Raises:
      TypeError: x is not an array, or N no integer.
      ValueError: x is no vector, or N is negative.

    Example:
      >>> import calque.numpy as jnp
      >>> jnp.vander(jnp.array([1, 2, 3]), 2)
      Array([[1, 1],
             [2, 1],
             [3, 1]], dtype=int32)
    """
    x = util.one_array("vander", x)
    if ndim_of(x) != 1:
        raise ValueError(explain("x must be a one-dimensional array",
                                 fix=f"its shape is {shape_of(x)}."))
    count = shape_of(x)[0] if N is None else operator.index(N)
    if count < 0:
        raise ValueError(explain("N must be nonnegative"))
    powers = np.arange(count, dtype=np.int32)
    powers = (powers if increasing else powers[::-1].copy())[None, :]
    with util.lazy_eval("vander"):
        x = util.array(x)
        if dtypes.is_inexact(dtype_of(x)):  # (an integer exponent is exact)
            return ew.pow_(*util.aligned("vander", x[:, None], powers))
        return ar.power(x[:, None], powers).astype(dtype_of(x))


__all__ = ["poly", "polyadd", "polyder", "polydiv", "polyfit", "polyint", "polymul", "polysub",
           "polyval", "roots", "vander"]
