"""bessel_jn: Bessel functions of the first kind of integer orders, by Miller's backward recurrence.

J_{k-1} = 2k/z J_k - J_{k+1} is stable downwards from any start far above the orders wanted; the
factor that is left over follows from J_0 + 2 J_2 + 2 J_4 + ... = 1 (Abramowitz and Stegun 9.12).
"""
from __future__ import annotations

import math
import operator
from typing import Any

import numpy as np

from calque import lax
from calque.api.custom_derivatives import custom_jvp
from calque.core.errors import explain
from calque.numpy import util
from calque.numpy.arithmetic import absolute
from calque.numpy.join import concatenate
from calque.numpy.logic import where
from calque.numpy.predicates import isfinite

TINY = 1e-4  # below, two terms of the series are exact to 1e-17
LARGE, SCALE = 1e10, 1e-10
MORE = 50  # steps above |z| and the orders: 1e-17 is left of the start


def _orders(z: Any, v: int, n: int) -> Any:
    """J_0(z) ... J_v(z) from n steps, z of float32 or float64: (v + 1, *z.shape)."""
    small = absolute(z) < TINY
    safe = where(small, 1, z)
    index = np.arange(v + 1).reshape(-1, *[1] * z.ndim)

    def step(carry: Any, k: Any) -> Any:
        """From J_{k+1}, J_k to J_{k-1}, up to a factor; all of it is scaled down as it grows."""
        above, here, total, found = carry
        below = (2 * k / safe) * here - above
        total = total + below * where(k == 1, 1, 2 * (k % 2))
        found = where(index == k - 1, below, found)
        scale = where(absolute(below) > LARGE, SCALE, 1)
        return (here * scale, below * scale, total * scale, found * scale), None

    zero = safe * 0
    start = (zero, zero + SCALE, zero, zero + np.zeros(index.shape, z.dtype))
    (*_, total, found), _ = lax.scan(step, start, np.arange(n, 0, -1).astype(z.dtype))
    found = found / total
    half = np.asarray([1 / math.factorial(min(k, 170)) for k in range(v + 1)])
    near = (z / 2) ** index * half.reshape(index.shape).astype(z.dtype) * (
        1 - (z / 2) ** 2 / (index + 1).astype(z.dtype))
    return where(isfinite(z), where(small, near, found), np.nan)


@util.planned
def _jn(z: Any, v: int, n: int) -> Any:
    return _orders(z, v, n)


def bessel_jn(z: Any, *, v: int, n_iter: int = 50) -> Any:
    """Bessel functions of the first kind J_0(z) ... J_v(z) of real argument.

    Args:
      z: array or scalar, real; float16 and bfloat16 are computed in float32.
      v: the highest order, an integer.
      n_iter: the largest |z| that all digits are wanted for; beyond, they get lost.

    Returns:
      An array of shape (v + 1, *z.shape) of z's dtype; NaN where z is not finite.

    Raises:
      TypeError: v is not an integer, or z is not real.
      ValueError: v or n_iter is negative.

    Example:
      >>> from calque.scipy import special
      >>> special.bessel_jn(1.0, v=1).round(4)
      Array([0.7652, 0.4401], dtype=float32)
    """
    name = "bessel_jn"
    try:
        order, steps = operator.index(v), operator.index(n_iter)
    except TypeError:
        raise TypeError(explain(f"{name}: v and n_iter must be integers, got {v!r} and {n_iter!r}.",
                                fix="pass the highest order as an int.")) from None
    if order < 0 or steps < 0:
        raise ValueError(explain(f"{name}: v and n_iter must not be negative, got {v} and "
                                 f"{n_iter}.", fix="pass v >= 0; J_-v = (-1)**v J_v."))
    x = util.inexact_arrays(name, z)[0]
    kind = x.dtype
    if kind.kind == "c":
        raise TypeError(explain(f"{name}: z must be real, got {kind.name}.",
                                fix="pass a real array."))
    wide = x if kind.itemsize > 2 else x.astype(np.float32)
    return _with_derivative(wide, order, steps + order + MORE).astype(kind)


def _with_derivative(z: Any, v: int, n: int) -> Any:
    f = custom_jvp(lambda z: _jn(z, v, n))

    @f.defjvp
    def _jvp(primals: Any, tangents: Any) -> Any:
        """J_k' = (J_{k-1} - J_{k+1}) / 2, J_{-1} = -J_1."""
        orders = _with_derivative(primals[0], v + 1, n)
        before = concatenate([-orders[1:2], orders[:v]]) if v else -orders[1:2]
        return orders[:v + 1], (before - orders[1:]) / 2 * tangents[0]

    return f(z)
