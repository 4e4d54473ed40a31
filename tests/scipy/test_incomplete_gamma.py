"""gammainc and gammaincc where both arguments are large and near each other, against the normal
distribution that they approach and each other; mpmath's where it takes no time."""
from __future__ import annotations

import mpmath
import numpy as np
import pytest
import scipy.special

import calque
from calque.scipy import special, stats

T = np.array([-8, -3, -1, -0.1, 0, 0.1, 1, 3, 8.0])


@pytest.mark.parametrize("a", [1e5, 3e5, 1e6])
def test_against_mpmath(a: float) -> None:
    with calque.enable_x64(True), mpmath.workdps(40):
        for t in (-8, -1, 0, 3):
            x = a + t * a ** 0.5
            want = float(mpmath.gammainc(mpmath.mpf(a), 0, mpmath.mpf(x), regularized=True))
            np.testing.assert_allclose(float(special.gammainc(a, x)), want, rtol=1e-11)
            np.testing.assert_allclose(float(special.gammaincc(a, x)), 1 - want, rtol=1e-11)


@pytest.mark.parametrize("a", [1e8, 1e10, 1e15])
def test_near_a_it_is_normal(a: float) -> None:
    """By the first terms of the expansion: DLMF 8.11.11 to a**-1."""
    with calque.enable_x64(True):
        x = a + T * a ** 0.5
        t = (x - a) / a ** 0.5  # as it is rounded
        phi = np.exp(-t * t / 2) / np.sqrt(2 * np.pi)
        want = scipy.special.ndtr(t) + phi * (t * t - 1) / -3 / a ** 0.5
        got = np.asarray(special.gammainc(a, x))
        np.testing.assert_allclose(got, want, atol=3 / a)
        np.testing.assert_allclose(got + np.asarray(special.gammaincc(a, x)), 1, rtol=1e-15)
        half = float(special.gammainc(a, a))
        assert abs(half - 0.5 - 1 / (3 * np.sqrt(2 * np.pi * a))) < 1e-15 + 1 / a ** 1.5


def test_what_is_made_of_it() -> None:
    with calque.enable_x64(True):
        np.testing.assert_allclose(float(stats.poisson.cdf(1e8, 1e8)), scipy.special.pdtr(1e8, 1e8),
                                   rtol=1e-9)
        np.testing.assert_allclose(float(stats.chi2.sf(2e8, 2e8)), scipy.special.chdtrc(2e8, 2e8),
                                   rtol=1e-9)
        slope = calque.grad(special.gammainc, (0, 1))(1e8, 1e8)
        density = 1 / np.sqrt(2 * np.pi * 1e8)
        np.testing.assert_allclose([float(s) for s in slope], [-density, density], rtol=1e-7)
    assert float(special.gammainc(np.float32(1e8), np.float32(1e8))) == pytest.approx(0.50001, 1e-4)
