"""lpmn and lpmn_values against derivatives of NumPy's Legendre polynomials (Rodrigues)."""
from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from numpy.polynomial.legendre import Legendre

import calque
import calque.numpy as jnp
from calque.scipy.special import lpmn, lpmn_values

Z = np.array([-0.9, -0.2, 0.0, 0.4, 0.99])


def by_hand(n: int, m: int, z: Any) -> Any:
    return (-1) ** m * (1 - z * z) ** (m / 2) * Legendre.basis(n).deriv(m)(z) if m else \
        Legendre.basis(n)(z)


def test_values_and_derivatives() -> None:
    n = 6
    values, slopes = lpmn(n, n, jnp.asarray(Z, jnp.float32))
    normalized = lpmn_values(n, n, jnp.asarray(Z, jnp.float32), True)
    h = 1e-6
    for degree in range(n + 1):
        for order in range(n + 1):
            want = by_hand(degree, order, Z) if order <= degree else 0 * Z
            slope = (by_hand(degree, order, Z + h) - by_hand(degree, order, Z - h)) / (2 * h)
            slope = slope if order <= degree else 0 * Z
            factor = math.sqrt((2 * degree + 1) / (4 * math.pi) * math.factorial(degree - order)
                               / math.factorial(degree + order)) if order <= degree else 0
            scale = 1e-5 * max(1, np.abs(want).max())
            np.testing.assert_allclose(values[order, degree], want, rtol=1e-4, atol=scale)
            np.testing.assert_allclose(normalized[order, degree], want * factor, rtol=1e-4,
                                       atol=1e-5)
            np.testing.assert_allclose(slopes[order, degree], slope, rtol=1e-3,
                                       atol=1e-4 * max(1, np.abs(slope).max()))


def test_ends() -> None:
    """The limits: of order 0 what Legendre's equation says, of order 1 infinite."""
    _, slopes = lpmn(3, 3, jnp.array([-1.0, 1.0]))
    np.testing.assert_allclose(slopes[0].T, [[0, 1, -3, 6], [0, 1, 3, 6]])
    np.testing.assert_array_equal(slopes[1, 1:].T, [[-np.inf, np.inf, -np.inf], [np.inf] * 3])
    np.testing.assert_allclose(slopes[2, 2:].T, [[6, -30], [-6, -30]])


@pytest.mark.parametrize("bad, error, text", [
    (lambda: lpmn(2, 3, jnp.ones(2)), NotImplementedError, "m!=n"),
    (lambda: lpmn(2, 2, jnp.ones((2, 2))), ValueError, "1D"),
    (lambda: lpmn_values(2, 2, jnp.arange(2), True), TypeError, "z.dtype=int32"),
    (lambda: lpmn_values(-1, -1, jnp.ones(2), True), ValueError, "degree is -1")])
def test_errors(bad: Any, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        bad()


def test_traced() -> None:
    got = calque.jit(lambda z: lpmn(0, 0, z))(jnp.array([0.3]))
    assert [g.tolist() for g in got] == [[[[1.0]]], [[[0.0]]]]
