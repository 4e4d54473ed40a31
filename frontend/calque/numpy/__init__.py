"""numpy: NumPy's functions on arrays, with JAX's promotion of dtypes.  Map:

  util.py        check, promote, broadcast, fuse: what every function does first
  types.py       dtypes and scalar types, iinfo, finfo, result_type, constants
  creation.py    array, asarray, zeros, ones, full, eye, ...
  ranges.py      arange, linspace, meshgrid, indices, ...
  ufuncs.py      elementwise functions that are one primitive: tables
  arithmetic.py  power, division with remainder, absolute values
  rounding.py    floor, ceil, round, clip, ...
  parts.py       real, imag, conj, angle, degrees, log2, log10
  predicates.py  isnan, isinf, isfinite, isreal, signbit, ...
  special.py     hypot, logaddexp, sinc, copysign, ...; excess.py: m - log(1 + m)
  logic.py       logical_and, where, select, isclose, array_equal, ...
  reductions.py  sum, max, argmax, ...
  means.py       mean, average, var, std
  cumulative.py  cumsum, cumprod, ediff1d, gradient, trapezoid
  nanreductions.py  nansum, nanmax, nanmean, ...
  shapes.py      reshape, transpose, squeeze, broadcast_to, ...
  arrange.py     flip, roll, rot90, tril, triu
  join.py        concatenate, stack, tile, repeat, diff
split.py       split, array_split, vsplit, ...
  convert.py     astype, view
  padding.py     pad
  apply.py       vectorize, apply_along_axis, fromfunction
  ufunc.py       ufunc, frompyfunc; .reduce, .at, ... of add and its kin
  poly.py        polyval, polyfit, roots, vander, ...
  products.py    kron, cross, cov, interp, unwrap, resize, block
  integers.py    gcd, lcm, frexp, spacing, packbits, unpackbits
  windows.py     bartlett, blackman, hamming, hanning, kaiser
  files.py       save, load, array_repr, printoptions, ...
  convolve.py    convolve, correlate
  contract.py    dot, matmul, tensordot, ...
  einsum.py      einsum, einsum_path
  fft.py         (numpy.fft) fft, ifft, rfft, ...; frequencies.py: fftfreq, fftshift
  linalg.py      (numpy.linalg) solve, inv, det, cholesky, ...
  norms.py       (numpy.linalg) norm, vector_norm, matrix_norm, cond; adjugate.py: det's derivative
  exchange.py    from_dlpack, frombuffer
  indexing.py    x[...]
  advanced.py    x[...] with arrays of integers or booleans
  computed_slices.py  x[ds(start, size)]
  picking.py     take, put, choose, compress, piecewise, ...
  positions.py   nonzero, argwhere, ix_, tril_indices, unravel_index, ...
  sorting.py     sort, argsort, partition, searchsorted, ...
  statistics.py  median, quantile, percentile, ...
  histograms.py  bincount, histogram, ...
  sets.py        unique, isin, union1d, ...
  edit.py        delete, insert, trim_zeros
  tricks.py      mgrid, ogrid, r_, c_, s_
  protocols.py   memory, devices and the Array API: tobytes, addressable_shards, ...
  at.py          x.at[...].set(...); writing.py writes windows
  methods.py     the operators and methods of arrays
  staged.py      jnp.sin.lower, ...: the stages of functions that JAX jits
many.py        many arrays joined by NumPy
quick.py       operators on concrete arrays, by what promotion said before
decompositions.py  (numpy.linalg) qr, svd, eigh, eig, pinv, ...; solvers.py: solve, inv
documents.py   docstrings of the ufuncs
"""
import types as _types

from calque.dispatch.array import Array as ndarray  # noqa: F401
from calque.numpy import fft as fft
from calque.numpy import linalg as linalg
from calque.numpy import methods as _methods  # noqa: F401 (installs them)
from calque.numpy.apply import *  # noqa: F403
from calque.numpy.arithmetic import *  # noqa: F403
from calque.numpy.arrange import *  # noqa: F403
from calque.numpy.contract import *  # noqa: F403
from calque.numpy.convert import *  # noqa: F403
from calque.numpy.convolve import *  # noqa: F403
from calque.numpy.creation import *  # noqa: F403
from calque.numpy.cumulative import *  # noqa: F403
from calque.numpy.edit import *  # noqa: F403
from calque.numpy.einsum import *  # noqa: F403
from calque.numpy.exchange import *  # noqa: F403
from calque.numpy.files import *  # noqa: F403
from calque.numpy.histograms import *  # noqa: F403
from calque.numpy.integers import *  # noqa: F403
from calque.numpy.join import *  # noqa: F403
from calque.numpy.logic import *  # noqa: F403
from calque.numpy.means import *  # noqa: F403
from calque.numpy.nanreductions import *  # noqa: F403
from calque.numpy.padding import *  # noqa: F403
from calque.numpy.parts import *  # noqa: F403
from calque.numpy.picking import *  # noqa: F403
from calque.numpy.poly import *  # noqa: F403
from calque.numpy.positions import *  # noqa: F403
from calque.numpy.predicates import *  # noqa: F403
from calque.numpy.products import *  # noqa: F403
from calque.numpy.protocols import __array_api_version__, __array_namespace_info__  # noqa: F401
from calque.numpy.ranges import *  # noqa: F403
from calque.numpy.reductions import *  # noqa: F403
from calque.numpy.rounding import *  # noqa: F403
from calque.numpy.sets import *  # noqa: F403
from calque.numpy.shapes import *  # noqa: F403
from calque.numpy.sorting import *  # noqa: F403
from calque.numpy.special import *  # noqa: F403
from calque.numpy.split import *  # noqa: F403
from calque.numpy.staged import with_stages as _with_stages
from calque.numpy.statistics import *  # noqa: F403
from calque.numpy.tricks import *  # noqa: F403
from calque.numpy.types import *  # noqa: F403
from calque.numpy.ufuncs import *  # noqa: F403
from calque.numpy.windows import *  # noqa: F403

# isort: split
from calque.numpy.ufunc import *  # noqa: F403  # in place of the functions that it has the methods of

__all__ = sorted(n for n, v in globals().items()
                 if not n.startswith("_") and not isinstance(v, _types.ModuleType))
for _public in map(globals().get, __all__):  # where users look for them
    if isinstance(_public, _types.FunctionType | type) and _public.__module__.startswith(__name__):
        _public.__module__ = __name__
        if isinstance(_public, _types.FunctionType):
            _with_stages(_public)


def __dir__() -> list[str]:
    return [*__all__, "fft", "linalg"]
