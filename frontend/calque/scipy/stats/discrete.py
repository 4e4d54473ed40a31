"""The distributions on integers: a row each of log probabilities of k."""
from __future__ import annotations

import math
from typing import Any

import numpy as np

from calque.core.avals import dtype_of
from calque.numpy import reductions as rd
from calque.numpy import util
from calque.numpy.logic import where
from calque.primitives import elementwise as ew
from calque.scipy.binomial import log_beta_binomial, log_binomial, log_failures
from calque.scipy.deviance import log_gamma_density
from calque.scipy.log_beta import LARGE
from calque.scipy.special import gammaincc, gammaln, xlog1py, xlogy
from calque.scipy.stats.table import counts

# of the entropy, by the size of a number: terms, and the mean up to which they are summed
_SUMMED = {4: (70, 20.0), 8: (140, 60.0)}
# in 1/mu, 1/mu^2, ... of what the normal distribution's entropy is more
_BEYOND = (1 / 12, 1 / 24, 19 / 360, 9 / 80, 863 / 2520, 1375 / 1008, 33953 / 5040, 57281 / 1440)


def _bernoulli_cdf(k: Any, p: Any) -> Any:
    possible = (p >= 0) & (p <= 1)
    value = where(k < 0, 0, where(k < 1, 1 - p, 1))
    return where(possible & ew.eq(k, k), value, np.nan)


def _bernoulli_ppf(q: Any, p: Any) -> Any:
    possible = (q >= 0) & (q <= 1) & (p >= 0) & (p <= 1)
    value = where(possible, where(q <= 1 - p, 0.0, 1.0), np.nan)
    return util.cast(value, dtype_of(q))


def _poisson_cdf(k: Any, mu: Any, loc: Any) -> Any:
    k = k - loc
    below = k < 0
    return where(below, 0, gammaincc(ew.floor(where(below, 0, k)) + 1, mu))


def _poisson_entropy(mu: Any, loc: Any) -> Any:
    """The mean of -log of the chance: a sum, or its series in 1 / mu for large means."""
    mu = mu + 0 * loc
    kind = dtype_of(mu)
    terms, limit = _SUMMED[max(kind.itemsize, 4)]
    near, far = where(mu > limit, limit, mu), where(mu > limit, mu, limit)
    near = where(near >= 0, near, np.nan)
    k, column = np.arange(terms).astype(kind), near[..., None]
    k, column = util.broadcast_all("entropy", k, column)
    logs = _log_poisson(k, column)
    none = logs < -1e4
    logs = where(none, 0, logs)
    direct = 0 - rd.sum(where(none, 0, ew.exp(logs) * logs), axis=-1)
    series: Any = 0.0
    for c in reversed(_BEYOND):
        series = (series + c) / far
    series = 0.5 * ew.log(2 * math.pi * math.e * far) - series
    return where(mu > limit, series, direct)


def _log_poisson(k: Any, mu: Any) -> Any:
    """Near k = mu the terms cancel where they are large."""
    large = (k >= LARGE) & (mu > 0)
    n = where(large, k, LARGE)
    near = log_gamma_density(n, where(large, mu, LARGE)) - ew.log(n)
    k, mu = where(large, 1.0, k), where(large, 1.0, mu)
    return where(large, near, xlogy(k, mu) - gammaln(k + 1) - mu)


bernoulli = counts(
    "bernoulli", "Bernoulli distribution, 1 with probability p", "p",
    lambda k, p: xlogy(k, p) + xlog1py(1 - k, -p), lambda k, p: (k >= 0) & (k <= 1), (0.3,),
    cdf=(("k", "p"), {}, _bernoulli_cdf), ppf=(("q", "p"), {}, _bernoulli_ppf))

binom = counts(
    "binom", "binomial distribution, successes among n trials", "n p",
    lambda k, n, p: log_binomial(k, n - k, p),
    lambda k, n, p: (k >= 0) & (k <= n), (3.0, 0.3))

betabinom = counts(
    "betabinom", "beta-binomial distribution, n trials of a chance drawn from beta(a, b)", "n a b",
    lambda k, n, a, b: log_beta_binomial(ew.floor(k), n, a, b),
    lambda k, n, a, b: (k >= 0) & (k <= n), (3.0, 2.0, 1.0))

geom = counts(
    "geom", "geometric distribution, trials up to the first success", "p",
    lambda k, p: xlog1py(k - 1, -p) + ew.log(p), lambda k, p: k > 0, (0.3,))

nbinom = counts(
    "nbinom", "negative binomial distribution, failures before the n-th success", "n p",
    log_failures, lambda k, n, p: k >= 0, (3.0, 0.3))

poisson = counts(
    "poisson", "Poisson distribution of mean mu", "mu",
    _log_poisson,
    lambda k, mu: (k >= 0) & (k == ew.floor(k)) & (k < np.inf), (2.0,),
    cdf=(("k", "mu"), {"loc": 0}, _poisson_cdf), entropy=(("mu",), {"loc": 0}, _poisson_entropy))
