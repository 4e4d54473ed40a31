"""Samplers at parameters where the usual formulas cancel, over- or underflow: no NaN, and the
distribution's own quantiles (Kolmogorov and Smirnov's distance of 4,000 draws).  JAX has NaN, 0,
inf or other deviations at all of them."""
from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.special
import scipy.stats

import calque
from calque import random

COUNT = 4000
LIMIT = 0.04  # of the distance: 1 in 10^5 of right samplers is beyond


def _wald(mean: float) -> Any:
    def cdf(x: Any) -> Any:
        root = np.sqrt(1 / x)
        return scipy.special.ndtr(root * (x / mean - 1)) + np.exp(
            2 / mean + scipy.special.log_ndtr(-root * (x / mean + 1)))
    return cdf


def _triangular(low: float, mode: float, high: float) -> Any:
    return scipy.stats.triang((mode - low) / (high - low), low, high - low).cdf


# name, parameters, cdf, what is looked at; of float32
QUICK = [
    ("wald", (1e6,), _wald(1e6)), ("wald", (1e20,), _wald(1e20)), ("wald", (1e-30,), None),
    ("triangular", (-1e30, 0.0, 1e30), _triangular(-1, 0, 1)),
    ("triangular", (0.0, 1e-30, 3e-30), _triangular(0, 1, 3)),
    ("weibull_min", (1e30, 1e-2), lambda x: -np.expm1(-np.exp(1e-2 * (np.log(x) - np.log(1e30))))),
]
SLOW = [
    ("poisson", (1e8,), lambda k: scipy.special.pdtr(k, 1e8)),
    ("poisson", (2e9,), lambda k: scipy.special.pdtr(k, 2e9)),
    ("binomial", (1e9, 0.5), scipy.stats.binom(1e9, 0.5).cdf),
    ("binomial", (1e15, 1e-10), scipy.stats.binom(1e15, float(np.float32(1e-10))).cdf),
    ("generalized_normal", (1e6,), lambda x: (1 + x) / 2),
    ("f", (1e-3, 1e-3), None), ("t", (1e-2,), None),
]


def _drawn(rows: Any) -> list[np.ndarray]:
    def draw(name: str, given: Any) -> Any:
        key = random.PRNGKey(5)
        if name == "generalized_normal":
            return random.generalized_normal(key, given[0], (COUNT,))
        return getattr(random, name)(key, *given, shape=(COUNT,))

    given = [tuple(np.float32(v) for v in row[1]) for row in rows]
    found = calque.jit(lambda given: [draw(r[0], g) for r, g in zip(rows, given)])(given)
    return [np.asarray(f, np.float64) for f in found]


def _distance(drawn: np.ndarray, cdf: Any) -> float:
    x = np.sort(drawn)
    below = cdf(x)
    step = np.arange(COUNT + 1) / COUNT
    return float(max(np.max(below - step[1:]), np.max(step[:-1] - below)))


def _check(rows: Any) -> None:
    for (name, given, cdf), drawn in zip(rows, _drawn(rows), strict=True):
        assert not np.isnan(drawn).any(), (name, given)
        if name == "triangular":
            drawn = drawn / abs(given[0] or given[1])
        if cdf is not None:
            drawn = np.clip(drawn, None, float(np.finfo("float32").max))
            if name == "weibull_min":
                drawn = np.clip(drawn, float(np.finfo("float32").tiny), None)
                within = (drawn > drawn.min()) & (drawn < drawn.max())
                share = np.diff(cdf(np.array([drawn.min(), drawn.max()])))[0]
                assert abs(within.mean() - share) < LIMIT, (name, given, within.mean(), share)
            else:
                assert _distance(drawn, cdf) < LIMIT, (name, given, _distance(drawn, cdf))


def test_transformations() -> None:
    _check(QUICK)
    tiny = _drawn(QUICK)[2]
    assert (np.abs(tiny / 1e-30 - 1) < 1e-5).all()


@pytest.mark.slow
def test_rejections_and_logarithms() -> None:
    _check(SLOW)
    many = [r for r in SLOW if r[0] in ("poisson", "binomial")]
    for (_, given, _), drawn in zip(many, _drawn(many), strict=True):
        mean = given[0] * (given[1] if len(given) > 1 else 1)
        deviation = np.sqrt(mean * (1 - given[1] if len(given) > 1 else 1))
        assert abs(drawn.std() / deviation - 1) < 0.05, given
        assert np.abs((drawn - mean) / deviation).max() < 6, given


@pytest.mark.slow
def test_quotients_of_what_underflows() -> None:
    """f of 1e-3 and 1e-3 degrees is as often below 1 as above, t of 1e-2 as far out as it is."""
    f, t = _drawn([r for r in SLOW if r[0] in ("f", "t")])
    assert abs((f < 1).mean() - 0.5) < LIMIT
    for bound in (1e10, 1e30):
        # the tail of t: that of (df / g)^(1/2) |z| of a gamma g below 2 x, g^(df / 2) / Gamma
        beyond = 2 * scipy.stats.t(1e-2).sf(bound)
        assert abs((np.abs(t) > bound).mean() - beyond) < LIMIT, bound
    slope = calque.grad(lambda df: calque.numpy.log(abs(random.t(random.PRNGKey(0), df, (200,)))
                                                    ).sum())(np.float32(0.1))
    assert np.isfinite(slope) and slope < 0
