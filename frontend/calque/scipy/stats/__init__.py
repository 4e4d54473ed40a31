"""scipy.stats: distributions, ranks and kernel density estimates under SciPy's names.  Map:

  table.py        how a row of densities becomes the functions of a distribution: start here
  continuous.py   norm, gamma, beta, t, truncnorm, ...
  exponents.py    exponentials and logarithms of them, with slopes of their own
  gamma_tails.py  logarithms of the incomplete gamma functions
  truncated.py    the logarithms of truncnorm
  discrete.py     binom, poisson, geom, ...
  vectors.py      dirichlet, multinomial, multivariate_normal
  ranks.py        rankdata, mode, sem
  kde.py          gaussian_kde
"""
from calque.scipy.stats.continuous import (
    beta,
    cauchy,
    chi2,
    expon,
    gamma,
    gennorm,
    gumbel_l,
    gumbel_r,
    laplace,
    logistic,
    norm,
    pareto,
    t,
    truncnorm,
    uniform,
    vonmises,
    wrapcauchy,
)
from calque.scipy.stats.discrete import bernoulli, betabinom, binom, geom, nbinom, poisson
from calque.scipy.stats.kde import gaussian_kde
from calque.scipy.stats.ranks import mode, rankdata, sem
from calque.scipy.stats.vectors import dirichlet, multinomial, multivariate_normal

__all__ = [
    "bernoulli", "beta", "betabinom", "binom", "cauchy", "chi2", "dirichlet", "expon", "gamma",
    "gaussian_kde", "gennorm", "geom", "gumbel_l", "gumbel_r", "laplace", "logistic", "mode",
    "multinomial", "multivariate_normal", "nbinom", "norm", "pareto", "poisson", "rankdata", "sem",
    "t", "truncnorm", "uniform", "vonmises", "wrapcauchy"]


def __dir__() -> list[str]:
    return __all__
