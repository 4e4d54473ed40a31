"""beta and betaln over decades of their arguments against mpmath, at poles against SciPy; with them
the distributions that are made of them, and derivatives by both arguments."""
from __future__ import annotations

from typing import Any

import mpmath
import numpy as np
import pytest
import scipy.special
import scipy.stats

import calque
import calque.numpy as jnp
from calque.scipy import special, stats

DECADES = [1e-30, 1e-10, 1e-3, 0.5, 1, 2, 3, 7.5, 8, 12.5, 100, 1e4, 1e6, 1e10, 1e15, 1e30]


def exact(a: Any, b: Any) -> float:
    with mpmath.workdps(60):
        x, y = mpmath.mpf(float(a)), mpmath.mpf(float(b))
        return float(mpmath.re(mpmath.loggamma(x) + mpmath.loggamma(y) - mpmath.loggamma(x + y)))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_betaln_over_decades(dtype: str) -> None:
    a, b = (v.ravel() for v in np.meshgrid(*[np.array(DECADES, dtype)] * 2))
    with calque.enable_x64(dtype == "float64"):
        got = np.asarray(special.betaln(a, b))
    want = np.array([exact(x, y) for x, y in zip(a, b)])
    # what is left is the rounding of the two lgamma that are added where both are small
    scale = np.maximum(np.abs(want), 1)
    assert (np.abs(got - want) <= 16 * np.finfo(dtype).eps * scale).all(), (
        a[np.argmax(np.abs(got - want) / scale)], b[np.argmax(np.abs(got - want) / scale)])
    np.testing.assert_array_equal(got, got.reshape(16, 16).T.ravel())  # symmetric


def test_negative_integers_and_infinities() -> None:
    pairs = [(-1.0, 1.0), (-3.0, 2.0), (-1.0, 2.0), (0.0, 1.0), (np.inf, 1.0), (2.0, -5.0),
             (-2.0, 2.0), (-4.0, 3.0), (-0.5, 1.5), (-2.5, 7.0), (np.nan, 1.0), (0.0, np.inf)]
    a, b = (np.array(v, np.float32) for v in zip(*pairs))
    np.testing.assert_allclose(special.beta(a, b), scipy.special.beta(
        a.astype(float), b.astype(float)), rtol=2e-6)
    np.testing.assert_allclose(special.betaln(a, b), scipy.special.betaln(
        a.astype(float), b.astype(float)), rtol=2e-6, atol=1e-6)
    with calque.enable_x64(True):  # SciPy has 9 digits here
        with mpmath.workdps(40):
            want = float(mpmath.gamma(-0.5) * mpmath.gammaprod([1e6], [1e6 - 0.5]))
        np.testing.assert_allclose(float(special.beta(-0.5, 1e6)), want, rtol=1e-13)


def test_distributions_with_one_large_argument() -> None:
    with calque.enable_x64(True):
        for got, want in [
                (stats.beta.logpdf(0.5e-15, 3.0, 1e15), scipy.stats.beta.logpdf(0.5e-15, 3, 1e15)),
                (stats.betabinom.logpmf(3.0, 10.0, 2.0, 1e12), None),
                (stats.t.logpdf(1.5, 1e10), scipy.stats.norm.logpdf(1.5)),
                (stats.binom.logpmf(2.0, 1e15, 1e-15), scipy.stats.poisson.logpmf(2, 1)),
                (stats.multinomial.logpmf(jnp.array([1.0, 1e12]), 1e12 + 1, jnp.array(
                    [1e-12, 1.0])), np.log(1 + 1e-12))]:
            assert np.isfinite(float(got))
            if want is not None:
                np.testing.assert_allclose(float(got), want, rtol=1e-7, atol=1e-13)


def test_derivatives() -> None:
    with calque.enable_x64(True):
        for a, b in [(3.0, 1e6), (0.5, 20.0), (12.0, 12.0), (9.0, 400.0), (2.0, 3.0), (1e4, 1e8)]:
            with mpmath.workdps(50):
                both = mpmath.digamma(mpmath.mpf(a) + b)
                want = [float(mpmath.digamma(a) - both), float(mpmath.digamma(b) - both)]
                second = float(mpmath.polygamma(1, a) - mpmath.polygamma(1, mpmath.mpf(a) + b))
            got = calque.grad(special.betaln, (0, 1))(a, b)
            np.testing.assert_allclose([float(g) for g in got], want, rtol=1e-7)
            twice = calque.grad(calque.grad(special.betaln))(a, b)
            np.testing.assert_allclose(float(twice), second, rtol=1e-6)
    other = jnp.array([0.5, 9.0, 1e6])
    got = calque.grad(lambda a: special.betaln(a, other).sum())(jnp.array([0.5, 20.0, 3.0]))
    assert np.isfinite(got).all()


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_derivatives_over_decades(dtype: str) -> None:
    a, b = (v.ravel() for v in np.meshgrid(*[np.array([*DECADES, 1e20, 1e37], dtype)] * 2))
    with calque.enable_x64(dtype == "float64"):
        got = calque.jit(calque.grad(lambda a, b: special.betaln(a, b).sum(), (0, 1)))(a, b)
    with mpmath.workdps(120):
        want = [[float(mpmath.digamma(mpmath.mpf(float(x))) - mpmath.digamma(
            mpmath.mpf(float(x)) + float(y))) for x, y in pairs]
            for pairs in (zip(a, b), zip(b, a))]
    info = np.finfo(dtype)
    # each of ten terms may be subnormal, and 0 then
    np.testing.assert_allclose(got, want, rtol=16 * float(info.eps), atol=16 * float(info.tiny))
