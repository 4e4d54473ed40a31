"""scipy: SciPy's functions on arrays.  Map:

  special.py     gammaln, logsumexp, erf, xlogy, ndtr, ... : thin over primitives; bessel.py,
                 exponential.py: expi;
                 faddeeva.py: wofz, erfcx, dawsn, fresnel; integrals.py: exp1, expn, sici, spence,
                 owens_t; combinatorial.py: loggamma, comb, bernoulli; hypergeometric.py,
                 oscillating.py: hyp1f1, hyp2f1;
                 harmonics.py: sph_harm_y; legendre.py: lpmn; gammas.py: gamma, ...; log_beta.py;
                 incomplete_gamma.py; incomplete_beta.py; deviance.py: densities of large
                 arguments; binomial.py: chances of counts; normal.py: ndtr, ...; boxcox.py;
                 chances.py: softmax; describe.py: what they share
  linalg.py      solve_triangular, cho_solve, lu, ...; matrices.py: expm, block_diag, toeplitz;
                 matrix_functions.py: schur, polar, sqrtm, ...; special_matrices.py: hilbert, ...
  signal.py      convolve, correlate, fftconvolve; spectral.py: csd, welch, stft, istft, detrend;
                 tapers.py: windows by name
  fft.py         dct, idct, dctn, idctn
  optimize.py    minimize; line_search.py, lbfgs.py; integrate.py: trapezoid
  ndimage.py     map_coordinates; interpolate.py: RegularGridInterpolator
  cluster/       vq: vq
  spatial/       transform: Rotation, Slerp
  sparse/        linalg: cg, bicgstab, gmres
  stats/         norm, gamma, rankdata, gaussian_kde, ...
"""
from calque.scipy import cluster as cluster
from calque.scipy import fft as fft
from calque.scipy import integrate as integrate
from calque.scipy import interpolate as interpolate
from calque.scipy import linalg as linalg
from calque.scipy import ndimage as ndimage
from calque.scipy import optimize as optimize
from calque.scipy import signal as signal
from calque.scipy import sparse as sparse
from calque.scipy import spatial as spatial
from calque.scipy import special as special
from calque.scipy import stats as stats

__all__ = ["cluster", "fft", "integrate", "interpolate", "linalg", "ndimage", "optimize", "signal",
           "sparse", "spatial", "special", "stats"]


def __dir__() -> list[str]:
    return __all__
