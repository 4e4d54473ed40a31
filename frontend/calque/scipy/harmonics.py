"""sph_harm_y: spherical harmonics, by the recurrence of Legendre functions in the degree.

P_m^m is a product; P_n^m = alpha (cos theta P_{n-1}^m - beta P_{n-2}^m), each normalized, so that
no factorial overflows (Holmes and Featherstone, J. Geodesy 76, 2002).  Each element of the
arguments starts at its own m and stops at its own n.
"""
from __future__ import annotations

import math
import operator
from typing import Any

from calque import lax
from calque.api.custom_derivatives import custom_jvp
from calque.core import dtypes
from calque.core.avals import dtype_of, shape_of
from calque.core.errors import explain
from calque.numpy import util
from calque.numpy.arithmetic import absolute
from calque.numpy.logic import where
from calque.primitives import elementwise as ew


def _legendre(n: Any, m: Any, theta: Any, n_max: int) -> Any:
    """The normalized P_n^m(cos theta), m >= 0, with Condon and Shortley's sign."""
    kind = dtype_of(theta)
    z, s = ew.cos(theta), absolute(ew.sin(theta))  # (as JAX outside of [0, pi])
    zero = z * 0

    def step(i: Any, carry: Any) -> Any:
        start, before, here, found = carry
        l = i.astype(kind)
        # P_l^l of l = m: the last start times -sqrt((2 l + 1) / (2 l)) sin theta
        grown = -start * s * ew.sqrt((2 * l + 1) / where(l > 0, 2 * l, 1))
        start = where((l <= m) & (l > 0), grown, start)
        gap = where(l > m, l * l - m * m, 1)
        alpha = ew.sqrt((4 * l * l - 1) / gap)
        last = (l - 1) * (l - 1)
        beta = ew.sqrt(where(l > m + 1, last - m * m, 0) / (4 * last - 1))
        made = where(l == m, start, where(l > m, alpha * (z * here - beta * before), 0))
        return start, here, made, where(l == n, made, found)

    first = zero + 1 / math.sqrt(4 * math.pi)
    return lax.fori_loop(0, n_max + 1, step, (first, zero, zero, zero))[3]


def _polar(n: Any, m: Any, theta: Any, n_max: int) -> Any:
    """_legendre with its derivative by theta, which is half of a difference of neighbours in m."""
    f = custom_jvp(lambda theta: _legendre(n, m, theta, n_max))

    @f.defjvp
    def _jvp(primals: Any, tangents: Any) -> Any:
        (theta,) = primals
        above = ew.sqrt(where(m < n, (n - m) * (n + m + 1), 0)) * _polar(
            n, where(m < n, m + 1, n), theta, n_max)
        below = ew.sqrt((n + m) * (n - m + 1)) * _polar(n, absolute(m - 1), theta, n_max)
        below = where(m == 0, -below, below)  # P^-1 = -P^1
        slope = where(ew.sin(theta) < 0, below - above, above - below) / 2
        return _polar(n, m, theta, n_max), slope * tangents[0]

    return f(theta)


@util.planned
def _harmonics(n: Any, m: Any, theta: Any, phi: Any, n_max: int) -> Any:
    kind = dtype_of(theta)
    n, m = (ew.convert(v, kind) for v in (n, m))
    n = where(n > n_max, n_max, n)
    order = absolute(m)
    size = _polar(n, order, theta, n_max)
    odd = ew.rem(order, order * 0 + 2) == 1
    size = where((m < 0) & odd, -size, size)  # Y of -m is (-1)^m conj Y of m
    return ew.complex_(size * ew.cos(m * phi), size * ew.sin(m * phi))


def sph_harm_y(n: Any, m: Any, theta: Any, phi: Any, diff_n: int | None = None,
               n_max: int | None = None) -> Any:
    """Spherical harmonics Y_n^m(theta, phi), orthonormal on the sphere.

    Args:
      n: array of integers with one axis: degrees, n >= 0.
      m: array of integers: orders, |m| <= n.
      theta: array of floats: angles from the pole, in [0, pi].
      phi: array of floats: angles around it.
      diff_n: not supported.
      n_max: the largest degree, an int; of larger n it is the degree.  By default max(n), which
        must be known: under jit it must be given.

    Returns:
      An array of n's shape (size 1 is broadcast), complex128 of float64 angles, else complex64.

    Raises:
      ConcretizationTypeError: n is traced and n_max is not given.
      NotImplementedError: diff_n is given.
      TypeError: n or m are no arrays of integers, or angles are complex.
      ValueError: shapes do not broadcast, or there are two axes or more.

    Source: Holmes and Featherstone, J. Geodesy 76, 2002.

    Example:
      >>> import calque.numpy as jnp
      >>> from calque.scipy import special
      >>> n, m = jnp.array([1]), jnp.array([0])
      >>> special.sph_harm_y(n, m, jnp.array([0.0]), jnp.array([0.0])).real.round(4)
      Array([0.4886], dtype=float32)
    """
    if diff_n is not None:
        raise NotImplementedError(explain(
            "The 'diff_n' argument to jax.scipy.special.sph_harm_y is not supported.",
            fix="leave it out; derivatives are calque.jvp's."))
    n, m, theta, phi = (util.array(v) for v in util.check_arrays("sph_harm_y", n, m, theta, phi))
    if not shape_of(n):
        raise TypeError(explain("sph_harm_y: n must have one axis: len() of unsized object",
                                fix="pass n as an array: n[None]."))
    for name, v in (("n", n), ("m", m)):
        if dtype_of(v).kind not in "iu":
            raise TypeError(explain(f"sph_harm_y: {name} must have integer or boolean type, got "
                                    f"{dtype_of(v)}.", fix=f"use {name}.astype('int32')."))
    theta, phi = util.promote_inexact("sph_harm_y", theta, phi)
    if util.is_complex(theta):
        raise TypeError(explain("sph_harm_y does not accept complex angles.",
                                fix="pass real angles."))
    if dtype_of(theta).itemsize < 4:
        theta, phi = (ew.convert(v, dtypes.float32) for v in (theta, phi))
    shape = util.common_shape("sph_harm_y", [shape_of(v) for v in (n, m, theta, phi)])
    if len(shape) != 1:
        raise ValueError(explain(f"sph_harm_y: arguments must have one axis, got shape {shape}.",
                                 fix="flatten them, and reshape the result."))
    if n_max is None:
        n_max = _largest(n)
    n, m, theta, phi = (util.broadcast_to(v, shape) for v in (n, m, theta, phi))
    return _harmonics(n, m, theta, phi, operator.index(n_max))


def _largest(n: Any) -> int:
    values = util.needed("sph_harm_y", n, "the `n_max` argument must be given, n is traced.",
                         "pass n_max, the largest degree.")
    return int(values.max(initial=0))
