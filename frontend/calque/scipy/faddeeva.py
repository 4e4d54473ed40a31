"""wofz, erfcx, dawsn, fresnel: the Faddeeva function w(z) = exp(-z^2) erfc(-iz) and its kin.

By the trapezoidal and the midpoint rule for w's integral, each with the residue of the pole that
the rule crosses (Al Azah and Chandler-Wilde, SIAM J. Numer. Anal. 59, 2021): 12 points leave 4e-15
of |w| in the first quadrant; elsewhere by symmetry.  Real arithmetic throughout, so that nothing
depends on how complex products round.  Start reading at `_quadrant`.
"""
from __future__ import annotations

import math
from typing import Any

import numpy as np

from calque.api.custom_derivatives import custom_jvp
from calque.core.avals import dtype_of
from calque.numpy import util
from calque.numpy.arithmetic import absolute
from calque.numpy.logic import where
from calque.primitives import elementwise as ew
from calque.scipy.describe import constant, floats, real, square, widened

POINTS = 12
STEP = math.sqrt(math.pi / POINTS)
FAR = 1e4  # from here on two terms of the asymptotic series have 1e-16
ROOT_PI = math.sqrt(math.pi)


def _sum(x: Any, y: Any, points: Any) -> tuple[Any, Any]:
    """The rule's sum 2 h i z / pi sum exp(-t^2) / (z^2 - t^2), as real and imaginary part."""
    p, q = (x - y) * (x + y), 2 * x * y
    re, im = x * 0, x * 0
    for t in points:
        away = p - constant(t * t, x)
        weight = constant(2 * STEP / math.pi * math.exp(-t * t), x) / (away * away + q * q)
        re = re + weight * (x * away + y * q)
        im = im + weight * (y * away - x * q)
    return -im, re


def _inverse(x: Any, y: Any) -> tuple[Any, Any]:
    """1 / (x + iy) of x, y >= 0, without overflow."""
    large = where(x > y, x, y)
    large = where(large == 0, 1, large)
    u, v = x / large, y / large
    norm = (u * u + v * v) * large
    return u / norm, -v / norm


def _power(x: Any, y: Any) -> tuple[Any, Any]:
    """exp(-(x + iy)^2), the squares with all their digits; 0 where they are beyond 900."""
    gone = absolute(x) > absolute(y) + 30
    x, y = where(gone, 0, x), where(gone, 0, y)
    (a, b), (c, d) = square(x), square(y)
    size = ew.exp(c - a) * ew.exp(d - b)
    size, angle = where(gone, 0, size), 2 * x * y
    return size * ew.cos(angle), -size * ew.sin(angle)


def _quadrant(x: Any, y: Any) -> tuple[Any, Any]:
    """w(x + iy) of x, y >= 0."""
    far = (x > FAR) | (y > FAR)
    near_x, near_y = where(far, 1, x), where(far, 1, y)
    ratio = near_x * constant(1 / STEP, x)
    turn = ratio - ew.floor(ratio)
    trapezoid = (near_y < near_x) & (turn >= 0.25) & (turn <= 0.75)
    alone = (near_y >= near_x) & (near_y >= math.pi / STEP)
    even = _sum(near_x, near_y, [k * STEP for k in range(1, POINTS)])
    odd = _sum(near_x, near_y, [(k + 0.5) * STEP for k in range(POINTS)])
    first = _inverse(where(trapezoid, near_x, 1), near_y)
    u = where(trapezoid, even[0] - first[1] * (STEP / math.pi), odd[0])
    v = where(trapezoid, even[1] + first[0] * (STEP / math.pi), odd[1])
    # the residue 2 exp(-z^2) s g / (1 + s g), g = exp(2 pi i z / h), s = 1 of midpoints, or -1
    s = where(trapezoid, -1, constant(1, x))
    size = ew.exp(constant(-2 * math.pi / STEP, x) * near_y)
    angle = 2 * math.pi * (turn - where(turn > 0.5, constant(1, x), 0))
    c, sine = size * ew.cos(angle), size * ew.sin(angle)
    norm = (1 + s * c) ** 2 + sine * sine
    re, im = 2 * (s * c + size * size) / norm, 2 * s * sine / norm
    e, f = _power(where(alone, 0, near_x), where(alone, 0, near_y))
    u = where(alone, u, u + re * e - im * f)
    v = where(alone, v, v + re * f + im * e)
    # |z| > FAR: i / (sqrt(pi) z) (1 + 1 / (2 z^2))
    a, b = _inverse(where(far, x, FAR), y)
    more = 1 + (a * a - b * b) / 2, a * b
    a, b = (a * more[0] - b * more[1]) / ROOT_PI, (a * more[1] + b * more[0]) / ROOT_PI
    return where(far, -b, u), where(far, a, v)


def _plane(x: Any, y: Any) -> tuple[Any, Any]:
    """w of any z: w(-conj z) = conj w(z), and 2 exp(-z^2) - w(-z) below the real line."""
    u, v = _quadrant(absolute(x), absolute(y))
    v = where(x < 0, -v, v)
    below = y < 0
    e, f = _power(where(below, x, 0), where(below, y, 0))
    return where(below, 2 * e - u, u), where(below, 2 * f + v, v)


@custom_jvp
def _wofz(z: Any) -> Any:
    return ew.complex_(*_plane(ew.real(z), ew.imag(z)))


_wofz.defjvps(lambda t, out, z: t * (-2 * z * out + 2j / ROOT_PI))


@util.planned
def wofz(z: Any) -> Any:
    """The Faddeeva function w(z) = exp(-z^2) erfc(-iz).

    Args:
      z: array or scalar, real or complex.

    Returns:
      An array of z's shape, complex128 for 64-bit values, else complex64; NaN where z is infinite
      (as in JAX).

    Raises:
      TypeError: z is not an array or a number.

    Source: Al Azah and Chandler-Wilde, SIAM J. Numer. Anal. 59, 2021.

    Example:
      >>> from calque.scipy import special
      >>> print(special.wofz(1j).real.round(5))
      0.42758
    """
    (z,) = util.inexact_arrays("wofz", z)
    (z,) = widened(z)
    dtype = "complex128" if dtype_of(z) in (np.float64, np.complex128) else "complex64"
    return util.cast(_wofz(ew.convert(z, np.dtype(dtype))), np.dtype(dtype))


@custom_jvp
def _erfcx(x: Any) -> Any:
    positive = _quadrant(x * 0, where(ew.abs_(x) == np.inf, 1, absolute(x)))[0]
    a, b = square(where(x < 0, where(x > -40, x, -40), 0))
    value = where(x < 0, 2 * ew.exp(a) * ew.exp(b) - positive, positive)
    return where(x == np.inf, 0, where(x == -np.inf, np.inf, value))


_SERIES_FROM = 8.0  # here 16 terms of the asymptotic series of 1 - 2 x dawsn(x) have 4e-17


def _slope(x: Any, near: Any, sign: int) -> Any:
    """sum (sign / 2 x^2)^k (2k - 1)!! from k = 1 on where x is far, `near` elsewhere."""
    far = absolute(x) > _SERIES_FROM
    t = 1 / where(far, x, _SERIES_FROM)
    t = 0.5 * sign * t * t
    total: Any = 0.0
    for k in range(16, 0, -1):
        total = (1 + total) * (2 * k - 1) * t
    return where(far, total, near)


_erfcx.defjvps(lambda t, out, x: t * where(
    x > 0, 2 / ROOT_PI * _slope(x, ROOT_PI * x * out - 1, -1), 2 * x * out - 2 / ROOT_PI))


@util.planned
def erfcx(x: Any) -> Any:
    """The scaled complementary error function exp(x^2) erfc(x), which does not underflow.

    Args:
      x: array or scalar, real or complex.

    Returns:
      An array of x's shape and inexact dtype.

    Raises:
      TypeError: x is not an array or a number.

    Source: w(ix), see wofz.

    Example:
      >>> from calque.scipy import special
      >>> print(special.erfcx(10.0).round(5))
      0.05614
    """
    (x,) = util.inexact_arrays("erfcx", x)
    kind = dtype_of(x)
    if kind.kind == "c":
        return util.cast(_wofz(ew.complex_(-ew.imag(x), ew.real(x))), kind)
    return util.cast(_erfcx(widened(x)[0]), kind)


@custom_jvp
def _dawsn(x: Any) -> Any:
    size = absolute(x)
    infinite, small = size == np.inf, size < 0.5
    value = _quadrant(where(infinite | small, 1, size), x * 0)[1] * (ROOT_PI / 2)
    near, total = where(small, x, 0), x * 0
    for k in range(15, 0, -1):  # sum (-2 x^2)^k / (2k + 1)!!
        total = (1 + total) * (near * near) * constant(-2 / (2 * k + 1), x)
    value = where(small, near * (1 + total), where(x < 0, -value, value))
    return where(infinite, 1 / x, value)


_dawsn.defjvps(lambda t, out, x: -t * _slope(x, 2 * x * out - 1, 1))


@util.planned
def dawsn(x: Any) -> Any:
    """Dawson's integral exp(-x^2) times the integral of exp(t^2) from 0 to x.

    Args:
      x: array or scalar.

    Returns:
      An array of the broadcast shape, of inexact dtype.

    Raises:
      TypeError: an argument is not an array or a number.
      ValueError: an argument is complex.

    Example:
      >>> from calque.scipy import special
      >>> special.dawsn(1.0).round(4)
      Array(0.5381, dtype=float32)
    """
    (x,) = real("dawsn", x)
    return util.cast(_dawsn(widened(x)[0]), dtype_of(x))


# ---- Fresnel's integrals
SMALL = 1.2  # below, their power series
TERMS = 14


def _angle(x: Any) -> Any:
    """pi x^2 / 2 less whole turns, x >= 0."""
    high, low = square(x)
    four = constant(4, x)
    rest = ew.rem(ew.rem(high, four) + ew.rem(low, four), four)
    return constant(math.pi / 2, x) * rest


def _series(x: Any, first: int) -> Any:
    """sum (-1)^n (pi/2)^k x^(2k+1) / (k! (2k+1)), k = 2n + first (DLMF 7.6.4, 7.6.6)."""
    square_of, total = x * x, x * 0
    for n in range(TERMS, -1, -1):
        k = 2 * n + first
        c = (-1) ** n * (math.pi / 2) ** k / (math.factorial(k) * (2 * k + 1))
        total = total * (square_of * square_of) + constant(c, x)
    return x * total * (square_of if first else 1)


@custom_jvp
def _fresnel(x: Any) -> tuple[Any, Any]:
    size = absolute(x)
    small = size < SMALL
    near, far = where(small, x, 0), where(small, SMALL, where(size < 1e15, size, 1e15))
    side = far * constant(ROOT_PI / 2, x)
    u, v = _quadrant(side, side)
    angle = _angle(far)
    c, s = ew.cos(angle), ew.sin(angle)
    re, im = 1 - (c * u - s * v), -(c * v + s * u)  # 1 - exp(i pi x^2 / 2) w(zeta)
    sign = where(x < 0, constant(-0.5, x), 0.5)
    kept = where(ew.eq(x, x), constant(0, x), np.nan)
    return (where(small, _series(near, 1), sign * (re + im)) + kept,
            where(small, _series(near, 0), sign * (re - im)) + kept)


@_fresnel.defjvp
def _fresnel_jvp(primals: Any, tangents: Any) -> Any:
    (x,), (t,) = primals, tangents
    size = absolute(x)  # all large numbers are even, and x^2 / 4 whole
    angle = _angle(where((size > 1e15) & (size < np.inf), constant(1e15, x), size))
    return _fresnel(x), (t * ew.sin(angle), t * ew.cos(angle))


@util.planned
def fresnel(x: Any) -> tuple[Any, Any]:
    """Fresnel's integrals S and C of sin(pi t^2 / 2) and cos(pi t^2 / 2) from 0 to x.

    Args:
      x: array or scalar.

    Returns:
      Two arrays of x's shape and inexact dtype: S and C.

    Raises:
      TypeError: an argument is not an array or a number.
      NotImplementedError: an argument is complex.

    Example:
      >>> from calque.scipy import special
      >>> special.fresnel(1.0)[0].round(5)
      Array(0.43826, dtype=float32)
    """
    (x,) = floats("fresnel", x, error=NotImplementedError)
    s, c = _fresnel(widened(x)[0])
    return util.cast(s, dtype_of(x)), util.cast(c, dtype_of(x))
