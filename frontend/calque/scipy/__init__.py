"""scipy: SciPy's functions on arrays.  Map:

  special.py     gammaln, logsumexp, erf, xlogy, ndtr, ... : thin over primitives; bessel.py,
                 exponential.py: expi
  linalg.py      solve_triangular, cho_solve, lu, ...; matrices.py: expm, block_diag, toeplitz;
                 matrix_functions.py: schur, polar, sqrtm, ...; special_matrices.py: hilbert, ...
  signal.py      convolve, correlate, fftconvolve
  fft.py         dct, idct, dctn, idctn
  optimize.py    minimize; line_search.py; integrate.py: trapezoid
  sparse/        linalg: cg, bicgstab, gmres
  stats/         norm, gamma, rankdata, gaussian_kde, ...
"""
from calque.scipy import fft as fft
from calque.scipy import integrate as integrate
from calque.scipy import linalg as linalg
from calque.scipy import optimize as optimize
from calque.scipy import signal as signal
from calque.scipy import sparse as sparse
from calque.scipy import special as special
from calque.scipy import stats as stats

__all__ = ["fft", "integrate", "linalg", "optimize", "signal", "sparse", "special", "stats"]


def __dir__() -> list[str]:
    return __all__
