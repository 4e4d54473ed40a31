"""Random numbers: JAX's Threefry streams and the distributions made from them.

Keys, split, fold_in, bits, uniform, randint, bernoulli, permutation and choice give JAX's numbers
bit for bit, the other distributions the same within rounding ([docs/random.md]).  The default
stream is the one the tutorials print; `jax_threefry_partitionable` selects today's.
Modules: keys.py, bits.py (uniform words to coins), continuous.py (formulas), normal_tails.py
(normal numbers between far bounds), gamma.py (rejection and what is made of it), counts.py
(Poisson, binomial), choices.py (permutations, categories, vectors, matrices).
"""
from __future__ import annotations

from calque.random.bits import bernoulli, bits, normal, rademacher, randint, uniform
from calque.random.choices import (
    categorical,
    choice,
    multivariate_normal,
    orthogonal,
    permutation,
)
from calque.random.continuous import (
    cauchy,
    double_sided_maxwell,
    exponential,
    gumbel,
    laplace,
    logistic,
    lognormal,
    maxwell,
    pareto,
    rayleigh,
    triangular,
    truncated_normal,
    wald,
    weibull_min,
)
from calque.random.counts import binomial, geometric, multinomial, poisson
from calque.random.gamma import (
    ball,
    beta,
    chisquare,
    dirichlet,
    f,
    gamma,
    generalized_normal,
    loggamma,
    t,
)
from calque.random.keys import (
    PRNGKey,
    clone,
    fold_in,
    key,
    key_data,
    key_dtype,
    key_impl,
    split,
    wrap_key_data,
)

__all__ = [
    "PRNGKey", "ball", "bernoulli", "beta", "binomial", "bits", "categorical", "cauchy",
    "chisquare", "choice", "clone", "dirichlet", "double_sided_maxwell", "exponential", "f",
    "fold_in", "gamma", "generalized_normal", "geometric", "gumbel", "key", "key_data",
    "key_dtype", "key_impl", "laplace", "loggamma", "logistic", "lognormal", "maxwell",
    "multinomial", "multivariate_normal", "normal", "orthogonal", "pareto", "permutation",
    "poisson", "rademacher", "randint", "rayleigh", "split", "t", "triangular",
    "truncated_normal", "uniform", "wald", "weibull_min", "wrap_key_data"]


def __dir__() -> list[str]:
    return __all__
