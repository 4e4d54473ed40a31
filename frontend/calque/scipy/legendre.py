"""lpmn and lpmn_values: associated Legendre functions of all orders and degrees up to one.

P_l^l = (-1)^l (2l - 1)!! (1 - z^2)^(l / 2), and (l - m) P_l^m = (2l - 1) z P_{l-1}^m
- (l + m - 1) P_{l-2}^m (DLMF 14.10.3); normalized ones by the same recurrence of what they are.
Start reading at `_table`.
"""
from __future__ import annotations

import math
from typing import Any

import numpy as np

from calque.api.control import scan
from calque.core.errors import explain
from calque.core.types import Ndarray
from calque.lax import elementwise as lax
from calque.numpy.creation import asarray, zeros
from calque.numpy.join import concatenate
from calque.numpy.logic import where
from calque.numpy.shapes import moveaxis


def lpmn(m: int, n: int, z: Any) -> tuple[Any, Any]:
    """Associated Legendre functions of the first kind P_l^m(z) and their derivatives, l, m <= n.

    Args:
      m: the largest order; must be n.
      n: the largest degree.
      z: points in [-1, 1], shape (k,), float32 or float64.

    Returns:
      (values, derivatives), each of shape (m + 1, n + 1, k) and z's dtype.

    Raises:
      NotImplementedError: m is not n.
      ValueError: z has not one axis.
      TypeError: z has another dtype.

    Notes:
      Derivatives at -1 and 1 are the limits, infinite for order 1.

    Example:
      >>> import calque.numpy as jnp
      >>> from calque.scipy.special import lpmn
      >>> values, slopes = lpmn(2, 2, jnp.array([0.5]))
      >>> values[0, 2, 0], slopes[0, 2, 0]
      (Array(-0.125, dtype=float32), Array(1.5, dtype=float32))
    """
    n, z = _checked("lpmn", m, n, z)
    values = _values(n, z, False)
    return moveaxis(values, 0, 1), moveaxis(_slopes(n, z, values), 0, 1)


def lpmn_values(m: int, n: int, z: Any, is_normalized: bool) -> Any:
    """Associated Legendre functions of the first kind P_l^m(z), l, m <= n.

    Args:
      m: the largest order; must be n.
      n: the largest degree.
      z: points in [-1, 1], shape (k,), float32 or float64.
      is_normalized: times sqrt((2l + 1) / 4 pi (l - m)! / (l + m)!), as in spherical harmonics.

    Returns:
      Shape (m + 1, n + 1, k), z's dtype.

    Raises:
      NotImplementedError: m is not n.
      ValueError: z has not one axis.
      TypeError: z has another dtype.

    Example:
      >>> import calque.numpy as jnp
      >>> from calque.scipy.special import lpmn_values
      >>> lpmn_values(1, 1, jnp.array([0.5]), False)[0, 1]
      Array([0.5], dtype=float32)
    """
    n, z = _checked("lpmn_values", m, n, z)
    return moveaxis(_values(n, z, bool(is_normalized)), 0, 1)


def _checked(name: str, m: int, n: int, z: Any) -> tuple[int, Any]:
    z = asarray(z)
    if z.dtype not in (np.float32, np.float64):
        raise TypeError(explain(
            f"{name}: z.dtype={z.dtype} is not supported, see docstring for supported types.",
            fix="cast it: z.astype(jnp.float32)."))
    if z.ndim != 1:
        raise ValueError(explain(f"{name}: z must be a 1D array.", fix="pass z.ravel()."))
    if m != n:
        raise NotImplementedError(explain(
            f"{name}: Computations for m!=n are not yet supported.", fix="pass the larger twice."))
    if n < 0:
        raise ValueError(explain(f"{name}: the degree is {n}.", fix="count from 0."))
    return int(n), z


def _factors(n: int, normalized: bool) -> tuple[Ndarray, Ndarray, Ndarray]:
    """Of each degree l: what P_{l-1}^m z and P_{l-2}^m count for, by m; P_l^l over
    (1 - z^2)^(l / 2)."""
    first, second, diagonal = np.zeros((n + 1, n + 1)), np.zeros((n + 1, n + 1)), np.ones(n + 1)
    for k in range(1, n + 1):
        m = np.arange(k)
        if normalized:
            first[k, :k] = np.sqrt((4 * k * k - 1) / (k * k - m * m))
            second[k, :k] = first[k, :k] * np.sqrt(((k - 1) ** 2 - m * m) / (4 * (k - 1) ** 2 - 1))
            diagonal[k] = -math.sqrt((2 * k + 1) / (2 * k))
        else:
            first[k, :k], second[k, :k] = (2 * k - 1) / (k - m), (k + m - 1) / (k - m)
            diagonal[k] = -(2 * k - 1)
    diagonal[0] = math.sqrt(0.25 / math.pi) if normalized else 1
    return first, second, np.cumprod(diagonal)


def _table(n: int, normalized: bool, z: Any, diagonal_of: Any) -> Any:
    """By degree, order and point: what the recurrence makes of its diagonal, which is
    diagonal_of(factors, degrees)."""
    first, second, diagonal = (f.astype(z.dtype)[..., None] for f in _factors(n, normalized))

    def step(carry: Any, row: Any) -> Any:
        p1, p2 = carry
        a, b, on, value = row
        p = a * z * p1 - b * p2 + where(on, value, 0)
        return (p, p1), p

    nothing = zeros((n + 1, *z.shape), z.dtype)
    rows = (first, second, np.eye(n + 1, dtype=bool)[..., None],
            diagonal_of(diagonal, np.arange(n + 1)[:, None]))
    return scan(step, (nothing, nothing), rows)[1]


def _values(n: int, z: Any, normalized: bool) -> Any:
    s = lax.sqrt(1 - z * z)
    return _table(n, normalized, z, lambda c, degree: c * s ** degree)


def _slopes(n: int, z: Any, values: Any) -> Any:
    """2 sqrt(1 - z^2) dP_l^m/dz = (l + m)(l - m + 1) P_l^(m-1) - P_l^(m+1): of
    P_l^m / sqrt(1 - z^2), which are finite at the ends for m >= 1."""
    s = lax.sqrt(1 - z * z)
    over = _table(n, False, z, lambda c, degree: where(
        degree > 0, c * s ** np.maximum(degree - 1, 0), 0))
    degrees, orders = np.arange(n + 1)[:, None, None], np.arange(1, n + 1)[:, None]
    above = concatenate([over[:, 1:], zeros((n + 1, 1, *z.shape), z.dtype)], 1)
    below = concatenate([values[:, :1] / s, over[:, 1:]], 1)[:, :n]
    factors = ((degrees + orders) * (degrees - orders + 1)).astype(z.dtype)
    inner = where(orders <= degrees, factors * below - above[:, 1:], 0) / 2
    return concatenate([-above[:, :1], inner], 1)
