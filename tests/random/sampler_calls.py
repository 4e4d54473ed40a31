"""Draws of every sampler in every dtype: test_samplers.py makes them with calque.

Run with JAX 0.10.2, this file records what they give there:
python tests/random/sampler_calls.py
"""
from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

FLOATS = ("float16", "bfloat16", "float32", "float64")
DATA = Path(__file__).parent / "data" / "samplers.npz"
N = (24,)
_A = np.array([0.3, 0.6, 1.0, 3.0, 50.0, 2.0])
_P = np.array([0.2, 0.3, 0.5])
_ROW = np.array([1.0, 0.5, 2.0, 4.0])
Call = Callable[[Any, Any, Any], Any]

# name -> call of (random module, key, dtype)
SAMPLERS: dict[str, Call] = {
    "uniform": lambda r, k, d: r.uniform(k, N, d),
    "uniform of bounds": lambda r, k, d: r.uniform(k, N, d, -3, 5),
    "normal": lambda r, k, d: r.normal(k, N, d),
    "truncated_normal": lambda r, k, d: r.truncated_normal(k, -1, 2, N, d),
    "exponential": lambda r, k, d: r.exponential(k, N, d),
    "gumbel": lambda r, k, d: r.gumbel(k, N, d),
    "gumbel high": lambda r, k, d: r.gumbel(k, N, d, mode="high"),
    "laplace": lambda r, k, d: r.laplace(k, N, d),
    "logistic": lambda r, k, d: r.logistic(k, N, d),
    "cauchy": lambda r, k, d: r.cauchy(k, N, d),
    "maxwell": lambda r, k, d: r.maxwell(k, N, d),
    "double_sided_maxwell": lambda r, k, d: r.double_sided_maxwell(k, 1, 2, N, d),
    "pareto": lambda r, k, d: r.pareto(k, 2, N, d),
    "rayleigh": lambda r, k, d: r.rayleigh(k, 2, N, d),
    "weibull_min": lambda r, k, d: r.weibull_min(k, 2, 3, N, d),
    "wald": lambda r, k, d: r.wald(k, 2, N, d),
    "lognormal": lambda r, k, d: r.lognormal(k, 0.5, N, d),
    "triangular": lambda r, k, d: r.triangular(k, 0, 1, 3, N, d),
    "gamma": lambda r, k, d: r.gamma(k, _A.astype(d), (4, 6), d),
    "loggamma": lambda r, k, d: r.loggamma(k, _A.astype(d), (4, 6), d),
    "beta": lambda r, k, d: r.beta(
        k, _A.astype(d), _A[::-1].astype(d), (4, 6), d),
    "dirichlet": lambda r, k, d: r.dirichlet(k, _ROW.astype(d), (6,), d),
    "chisquare": lambda r, k, d: r.chisquare(k, _A.astype(d), (4, 6), d),
    "t": lambda r, k, d: r.t(k, _A.astype(d), (4, 6), d),
    "f": lambda r, k, d: r.f(
        k, _A.astype(d), _A[::-1].astype(d), None, d),
    "generalized_normal": lambda r, k, d: r.generalized_normal(k, 2.0, N, d),
    "ball": lambda r, k, d: r.ball(k, 3, 2, (8,), d),
    "binomial": lambda r, k, d: r.binomial(
        k, np.array([5, 20, 300]), np.array([.3, .6, .9]), (8, 3), d),
    "multinomial": lambda r, k, d: r.multinomial(k, 20, _P, shape=(8, 3), dtype=d),
    "multivariate_normal": lambda r, k, d: r.multivariate_normal(
        k, np.arange(2).astype(d), np.array([[2, 1], [1, 2]]).astype(d), (12,), d),
    "orthogonal": lambda r, k, d: r.orthogonal(k, 3, (2,), d),
    "rademacher": lambda r, k, d: r.rademacher(k, N, d),
    "bernoulli": lambda r, k, d: r.bernoulli(k, np.asarray(0.3).astype(d), N),
    "bernoulli high": lambda r, k, d: r.bernoulli(k, np.asarray(0.3).astype(d), N, "high"),
    "geometric": lambda r, k, d: r.geometric(k, np.asarray(0.3).astype(d), N),
    "poisson": lambda r, k, d: r.poisson(k, _A.astype(d), (4, 6)),
    "categorical": lambda r, k, d: r.categorical(k, np.log(_P).astype(d), shape=N),
    "categorical without replacement": lambda r, k, d: r.categorical(
        k, np.log(_P).astype(d), shape=(2,), replace=False),
    "choice": lambda r, k, d: r.choice(k, _A.astype(d), N),
    "choice with p": lambda r, k, d: r.choice(k, 3, N, p=_P.astype(d)),
    "choice with p, without replacement": lambda r, k, d: r.choice(k, 3, (2,), False,
                                                                   _P.astype(d)),
    "permutation": lambda r, k, d: r.permutation(k, _A.astype(d)),
    "normal complex64": lambda r, k, d: r.normal(k, N, "complex64" if d != "float64"
                                                 else "complex128"),
}


def dtype_of(name: str) -> np.dtype[Any]:
    import ml_dtypes

    return np.dtype(getattr(ml_dtypes, name, name))


def words(x: Any) -> np.ndarray[Any, Any]:
    """Values as they are, halves in float32."""
    x = np.asarray(x)
    return x.astype(np.float32) if x.dtype.itemsize == 2 else x


def main() -> None:
    import jax

    jax.config.update("jax_threefry_partitionable", False)
    recorded = {}
    for dtype in FLOATS:
        jax.config.update("jax_enable_x64", dtype == "float64")
        for name, f in SAMPLERS.items():
            recorded[f"{name}/{dtype}"] = words(f(jax.random, jax.random.key(7), dtype_of(dtype)))
    np.savez_compressed(DATA, **recorded)


if __name__ == "__main__":
    main()
