"""Calls of the random functions whose draws were recorded from jax (random_recorded.py).

name -> (call of (random module, key), units in the last place of 1 + |value|; 0: every bit).
"""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

F = np.float32
_A = np.array([0.05, 0.6, 1.0, 3.0, 50.0], F)
_LOGITS = np.log(np.array([[0.1, 0.2, 0.3, 0.4], [0.7, 0.1, 0.1, 0.1]], F))
Call = Callable[[Any, Any], Any]
CALLS: dict[str, tuple[Call, int]] = {
    "randint": (lambda r, k: r.randint(k, (6,), -3, 10), 0),
    "randint to the largest": (lambda r, k: r.randint(k, (6,), 0, 2**31 - 1), 0),
    "randint, empty": (lambda r, k: r.randint(k, (2,), 5, 2), 0),
    "randint int8": (lambda r, k: r.randint(k, (6,), -128, 300, "int8"), 0),
    "randint uint8": (lambda r, k: r.randint(k, (6,), -5, 5, "uint8"), 0),
    "randint uint32": (lambda r, k: r.randint(k, (6,), 0, 3000000, "uint32"), 0),
    "randint, arrays": (lambda r, k: r.randint(k, (2, 3), np.arange(3), 9), 0),
    "bernoulli": (lambda r, k: r.bernoulli(k, F(0.3), (9,)), 0),
    "bernoulli, high": (lambda r, k: r.bernoulli(k, F(0.3), (9,), "high"), 0),
    "rademacher": (lambda r, k: r.rademacher(k, (9,)), 0),
    "permutation": (lambda r, k: r.permutation(k, 10), 0),
    "permutation, long": (lambda r, k: r.permutation(k, 3000)[:9], 0),
    "permutation of rows": (
        lambda r, k: r.permutation(k, np.arange(12).reshape(4, 3)), 0),
    "permutation, independent": (
        lambda r, k: r.permutation(k, np.arange(12).reshape(3, 4), 1, independent=True), 0),
    "choice": (lambda r, k: r.choice(k, 5, (9,)), 0),
    "choice with p": (lambda r, k: r.choice(k, 4, (9,), p=np.array([1, 2, 3, 4], F) / 10), 0),
    "choice without replacement": (lambda r, k: r.choice(k, 9, (2, 3), replace=False), 0),
    "choice with p, without replacement": (
        lambda r, k: r.choice(k, 4, (3,), False, np.array([1, 2, 3, 4], F) / 10), 0),
    "choice of columns": (
        lambda r, k: r.choice(k, np.arange(12).reshape(3, 4), (2,), axis=1), 0),
    "categorical": (lambda r, k: r.categorical(k, _LOGITS, shape=(4, 2)), 0),
    "categorical without replacement": (
        lambda r, k: r.categorical(k, _LOGITS, shape=(3, 2), replace=False), 0),
    "gumbel": (lambda r, k: r.gumbel(k, (4,)), 4),
    "gumbel, high": (lambda r, k: r.gumbel(k, (4,), mode="high"), 4),
    "exponential": (lambda r, k: r.exponential(k, (4,)), 4),
    "truncated normal": (lambda r, k: r.truncated_normal(k, -1, _A), 8),
    "laplace": (lambda r, k: r.laplace(k, (4,)), 4),
    "logistic": (lambda r, k: r.logistic(k, (4,)), 4),
    "cauchy": (lambda r, k: r.cauchy(k, (4,)), 8),
    "pareto": (lambda r, k: r.pareto(k, 2.0, (4,)), 4),
    "maxwell": (lambda r, k: r.maxwell(k, (4,)), 8),
    "double-sided maxwell": (lambda r, k: r.double_sided_maxwell(k, _A, 2.0, (1,)), 8),
    "weibull": (lambda r, k: r.weibull_min(k, 2.0, 3.0, (4,)), 4),
    "rayleigh": (lambda r, k: r.rayleigh(k, _A), 4),
    "wald": (lambda r, k: r.wald(k, np.array([1, 2], F)), 16),
    "lognormal": (lambda r, k: r.lognormal(k, 0.5, (4,)), 8),
    "triangular": (lambda r, k: r.triangular(k, 0.0, 1.0, 2.0, (4,)), 4),
    "geometric": (lambda r, k: r.geometric(k, F(0.2), (6,)), 0),
    "multivariate normal": (lambda r, k: r.multivariate_normal(
        k, np.ones(2, F), np.array([[2, 1], [1, 2]], F), (2,)), 16),
    "orthogonal": (lambda r, k: r.orthogonal(k, 2, m=3), 32),
}
# loops of rejection: equal in all but the rarest draws, for the comparisons inside hang by digits
LOOPS: dict[str, tuple[Call, int]] = {
    "gamma": (lambda r, k: r.gamma(k, _A), 16),
    "loggamma": (lambda r, k: r.loggamma(k, _A), 32),
    "dirichlet": (lambda r, k: r.dirichlet(k, _A), 16),
    "poisson": (lambda r, k: r.poisson(k, np.array([0, 0.5, 3, 9, 12, 40, 1000], F)), 0),
    "binomial": (lambda r, k: r.binomial(
        k, np.array([0, 5, 100, 100, 1000], F), np.array([0.5, 0.7, 0.05, 0.5, 0.9], F)), 0),
    "multinomial": (lambda r, k: r.multinomial(k, F(20), np.array([0.2, 0.3, 0.5], F)), 0),
    "ball": (lambda r, k: r.ball(k, 3), 32),
    "t": (lambda r, k: r.t(k, _A, (5,)), 32),
    "f": (lambda r, k: r.f(k, F(3), F(4), (2,)), 32),
}
CALLS.update(LOOPS)
