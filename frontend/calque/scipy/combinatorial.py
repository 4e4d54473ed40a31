"""loggamma (of complex numbers, too), comb, bernoulli.

log Gamma of complex z: Stirling's series where Re z or |Im z| is large, brought there by the
recurrence (Hare 1997), Euler's reflection on the left, Taylor's series at the zeros 1 and 2.
Start reading at `_loggamma`.
"""
from __future__ import annotations

import functools
import math
import operator
from fractions import Fraction
from typing import Any

import numpy as np

from calque.api.custom_derivatives import custom_jvp
from calque.core import dtypes
from calque.core.avals import dtype_of
from calque.core.dtypes import default_dtype
from calque.core.errors import explain
from calque.numpy import util
from calque.numpy.arithmetic import absolute
from calque.numpy.creation import asarray
from calque.numpy.logic import where
from calque.primitives import elementwise as ew
from calque.primitives import special as sp
from calque.scipy.describe import constant
from calque.scipy.exponential import GAMMA
from calque.scipy.log_beta import digamma_rise

SHIFT = 8  # from Re z = SHIFT on, and from |Im z| = SHIFT on, Stirling's series has 1e-16


@functools.cache
def _bernoulli(n: int) -> tuple[Fraction, ...]:
    """B_0 ... B_n, exact: sum of binomial(m + 1, k) B_k over k <= m is 0."""
    found = [Fraction(1)]
    for m in range(1, n + 1):
        found.append(Fraction(0) if m > 1 and m % 2 else
                     -sum((math.comb(m + 1, k) * found[k] for k in range(m)), Fraction(0))
                     / (m + 1))
    return tuple(found)


_EVEN = [float(b) for b in _bernoulli(22)[2::2]]
# zeta(k) - 1 of k = 2 ... 34: Euler and Maclaurin's sum
_ZETA = [sum(float(j) ** -k for j in range(60, 1, -1))
         + 60.5 ** (1 - k) / (k - 1) - k * 60.5 ** (-1 - k) / 24
         + 7 * k * (k + 1) * (k + 2) * 60.5 ** (-3 - k) / 5760 for k in range(2, 35)]


def _taylor(w: Any) -> Any:
    """log Gamma(2 + w) of |w| <= 0.8 (DLMF 5.7.3)."""
    total = w * 0
    for i in range(len(_ZETA) - 1, -1, -1):
        total = (total + (-1) ** i * _ZETA[i] / (i + 2)) * w
    return (total + (1 - GAMMA)) * w


def _stirling(z: Any, value: bool) -> Any:
    """log Gamma(z), or its derivative, for large z (DLMF 5.11.1, 5.11.2)."""
    inverse = 1 / z
    square, total = inverse * inverse, z * 0
    for k in range(len(_EVEN), 0, -1):
        c = _EVEN[k - 1] / (2 * k * ((2 * k - 1) if value else 1))
        total = total * square + c
    log = ew.log(z)
    if value:
        return (z - 0.5) * log - z + (math.log(2 * math.pi) / 2) + total * inverse
    return log - inverse / 2 - total * square


def _right(z: Any, value: bool) -> Any:
    """log Gamma or digamma of Re z >= 0.5, Im z >= 0.

    The product z (z + 1) ... is collected; its logarithm is the sum of theirs, up to whole turns:
    one for each time that the imaginary part falls below 0."""
    x, y = ew.real(z), ew.imag(z)
    close = (x < SHIFT) & (y < SHIFT)
    w = where(close, z, SHIFT)
    far = where(close, z + SHIFT, z)
    if not value:
        total = sum((1 / (w + k) for k in range(1, SHIFT)), start=1 / w)
        return _stirling(far, False) - where(close, total, 0)
    product, turns, up = w, y * 0, ew.imag(w) >= 0
    for k in range(1, SHIFT):
        product = product * (w + k)
        now = ew.imag(product) >= 0
        turns = turns + where(up & ~now, constant(1, y), 0)
        up = now
    log = ew.log(product) + ew.complex_(y * 0, 2 * math.pi * turns)
    found = _stirling(far, True) - where(close, log, 0)
    one, two = absolute(z - 1) < 0.5, absolute(z - 2) < 0.8
    small = where(one, z - 1, where(two, z - 2, 0))
    near = _taylor(small)
    return where(one, near - ew.log1p(where(one, small, 0)), where(two, near, found))


def _upper(z: Any, value: bool) -> Any:
    """log Gamma or digamma of Im z >= 0."""
    x, y = ew.real(z), ew.imag(z)
    left = x < 0.5
    other = ew.complex_(where(left, 1 - x, x), y)  # the conjugate of 1 - z
    found = _right(other, value)
    # sin(pi z) = i/2 exp(-i pi z) (1 - exp(2 pi i z)), continuous in the upper half plane
    safe_x, safe_y = where(left, x, 0.25), where(left, y, 0)
    size = ew.exp(-2 * math.pi * safe_y)
    half = math.pi * (safe_x - ew.floor(safe_x + 0.5))
    sine, cosine = ew.sin(half), ew.cos(half)
    re = 2 * size * sine * sine - ew.expm1(-2 * math.pi * safe_y)
    im = -2 * size * sine * cosine
    mirrored = ew.conj(found)
    if value:
        log = ew.log(ew.complex_(re, im))
        line = ew.complex_(math.pi * safe_y, math.pi * (0.5 - safe_x))
        return where(left, math.log(2 * math.pi) - (log + line) - mirrored, found)
    # pi cot(pi z) = -i pi (1 + g) / (1 - g), g = exp(2 pi i z)
    turn = size * (1 - 2 * sine * sine)
    ratio = ew.complex_(1 + turn, -im) / ew.complex_(re, im)
    return where(left, mirrored + ratio * (1j * math.pi), found)


def _complex(z: Any, value: bool) -> Any:
    x, y = ew.real(z), ew.imag(z)
    found = _upper(ew.complex_(x, absolute(y)), value)
    found = where(y < 0, ew.conj(found), found)
    pole = (y == 0) & (x <= 0) & (ew.floor(x) == x)
    return where(pole, complex(np.nan, np.nan), found)


@custom_jvp
def _loggamma(z: Any) -> Any:
    return _complex(z, True)


@_loggamma.defjvp
def _loggamma_jvp(primals: Any, tangents: Any) -> Any:
    (z,), (t,) = primals, tangents
    return _loggamma(z), t * _complex(z, False)


@custom_jvp
def _real_loggamma(x: Any) -> Any:
    outside = x <= 0  # (not of NaN, which lgamma keeps)
    return where(outside, constant(np.nan, x), sp.lgamma_p.bind(where(outside, constant(1, x), x)))


@_real_loggamma.defjvp
def _real_loggamma_jvp(primals: Any, tangents: Any) -> Any:
    (x,), (t,) = primals, tangents
    outside = x <= 0
    slope = sp.digamma_p.bind(where(outside, constant(1, x), x))
    return _real_loggamma(x), t * where(outside, constant(np.nan, x), slope)


@util.planned
def loggamma(x: Any) -> Any:
    """The logarithm of Gamma, continuous but for a cut along the negative real line.

    Args:
      x: array or scalar, real or complex.

    Returns:
      An array of x's shape and inexact dtype.  Of real x it is gammaln(x) for x > 0, NaN elsewhere;
      of complex x NaN at the poles 0, -1, -2, ...  On the cut the sign of the imaginary part does
      not count: it is the value above the line.

    Raises:
      TypeError: x is not an array or a number.

    Source: Hare, Computing the principal branch of log-Gamma, J. Algorithms 25, 1997.

    Example:
      >>> from calque.scipy import special
      >>> print(special.loggamma(5.0).round(4))
      3.1781
    """
    (x,) = util.promote_inexact("loggamma", x)
    kind = dtype_of(x)
    if kind.kind == "c":
        return util.cast(_loggamma(util.array(x)), kind)
    x = util.array(x)
    return util.weak_if_scalars(_real_loggamma(x), x)


# ---- combinations
FEW = 20  # of at most so many, a product of quotients


@custom_jvp
def _comb(n: Any, k: Any) -> Any:
    good = (n >= 0) & (k >= 0) & (k <= n)
    n1, k1 = where(good, n, 1), where(good, k, 0)
    least = where(n1 - k1 < k1, n1 - k1, k1)
    lgamma = sp.lgamma_p.bind
    many = ew.exp(lgamma(n1 + 1) - lgamma(k1 + 1) - lgamma(n1 - k1 + 1))
    few = n1 * 0 + 1
    for i in range(1, FEW + 1):  # each quotient of whole numbers is a whole number
        few = where(least >= i, few * (n1 - least + i) / i, few)
    value = where((least <= FEW) & (ew.floor(least) == least), few, many)
    value = where(good, value, 0)
    return where(ew.eq(n, n) & ew.eq(k, k), value, where(good, np.nan, 0))


@_comb.defjvp
def _comb_jvp(primals: Any, tangents: Any) -> Any:
    (n, k), (dn, dk) = primals, tangents
    out = _comb(n, k)
    good = out != 0
    psi = sp.digamma_p.bind
    n, k = where(good, n, 1), where(good, k, 1)
    some = k > 0
    by_n = where(some, digamma_rise(n - k + 1, where(some, k, 1)), 0)
    return out, out * (dn * by_n + dk * (psi(n - k + 1) - psi(k + 1)))


@util.planned
def _planned(n: Any, k: Any, repetition: bool) -> Any:
    made = util.inexact_arrays("comb", n, k)
    if util.is_complex(made[0]):
        raise TypeError(explain("comb: lgamma does not accept dtype "
                                f"{dtype_of(made[0])}.", fix="pass real arrays: x.real."))
    kind = dtype_of(made[0])
    given = n, k = util.broadcast_all("comb", *made)
    n, k = (ew.convert(v, dtypes.float32 if kind.itemsize < 4 else kind) for v in given)
    if repetition:
        nothing = n == 0
        value = _comb(where(nothing, k, n + k - 1), k)
        value = where(nothing & (k != 0), 0, value)
    else:
        value = _comb(n, k)
    return util.weak_if_scalars(util.cast(value, kind), *given)


def comb(N: Any, k: Any, *, repetition: bool = False) -> Any:
    """In how many ways k of N things can be chosen: N! / (k! (N - k)!).

    Args:
      N: array or scalar: number of things.
      k: array or scalar: number of things taken.
      repetition: whether a thing may be taken more than once.

    Returns:
      An array of the broadcast shape, of inexact dtype; 0 where N < 0, k < 0 or k > N.

    Raises:
      TypeError: an argument is not an array or a number, is complex, or shapes do not broadcast.

    Example:
      >>> from calque.scipy import special
      >>> special.comb(5, 2)
      Array(10., dtype=float32, weak_type=True)
    """
    return _planned(N, k, bool(repetition))


def bernoulli(n: int) -> Any:
    """Bernoulli's numbers B_0 ... B_n, with B_1 = -1/2.

    Args:
      n: the last index, an integer that is known when the function is called.

    Returns:
      An array of shape (n + 1,), of the default float dtype; inf beyond its range.

    Raises:
      ConcretizationTypeError: n is traced.
      TypeError: n is not an integer.
      ValueError: n is negative.

    Example:
      >>> from calque.scipy import special
      >>> special.bernoulli(2)
      Array([ 1.        , -0.5       ,  0.16666667], dtype=float32)
    """
    n = operator.index(n)
    if n < 0:
        raise ValueError(explain("n must be a non-negative integer.", fix="pass n >= 0."))
    values = []
    for b in _bernoulli(n):
        try:
            values.append(float(b))
        except OverflowError:
            values.append(math.copysign(math.inf, b))
    with np.errstate(over="ignore"):
        return asarray(np.asarray(values).astype(default_dtype(float)))
