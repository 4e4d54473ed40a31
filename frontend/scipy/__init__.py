"""scipy: SciPy's functions on arrays.  Map:

  special.py     gammaln, logsumexp, erf, xlogy, ndtr, ... : thin over primitives
  linalg.py      solve_triangular, cho_solve, lu, expm, block_diag, ...
"""
from calque.scipy import linalg as linalg
from calque.scipy import special as special

__all__ = ["linalg", "special"]


def __dir__() -> list[str]:
    return __all__
