"""scipy: SciPy's functions on arrays.  Map:

  special.py     gammaln, logsumexp, erf, xlogy, ndtr, ... : thin over primitives; bessel.py
  linalg.py      solve_triangular, cho_solve, lu, ...; matrices.py: expm, block_diag, toeplitz
  signal.py      convolve, correlate, fftconvolve
  stats/         norm, gamma, rankdata, gaussian_kde, ...
"""
from calque.scipy import linalg as linalg
from calque.scipy import signal as signal
from calque.scipy import special as special
from calque.scipy import stats as stats

__all__ = ["linalg", "signal", "special", "stats"]


def __dir__() -> list[str]:
    return __all__
