"""Window functions of signal processing: bartlett, blackman, hamming, hanning, kaiser."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from calque.core import dtypes
from calque.core.errors import explain
from calque.core.tables import from_row
from calque.lax.operands import as_size
from calque.numpy import creation, util
from calque.numpy.special import i0
from calque.primitives import elementwise as ew

_DOC = """{sentence} of M points.

    Args:
      M: number of points.

    Returns:
      A vector of the default float dtype; 1 for M = 1.

    Raises:
      TypeError: M is no integer.

    Example:
      >>> import calque.numpy as jnp
      >>> jnp.{name}(4)
      {result}
    """


def _count(name: str, points: Any) -> int:
    if isinstance(points, float) and points.is_integer():
        points = int(points)
    if isinstance(points, float):
        raise TypeError(explain(f"{name}: M must be an integer, got {points!r}."))
    return max(as_size(name, points), 0)


def _window(name: str, sentence: str, f: Callable[[int], Any], result: str) -> Callable[[int], Any]:
    """A window without parameters: computed on the host in float64, then rounded."""
    def window(M: int) -> Any:  # noqa: N803 (NumPy's name)
        count = _count(name, M)
        with util.on_host(name):
            return creation.asarray(f(count), dtypes.default_dtype(float))

    return from_row(window, "calque.numpy", name, _DOC, sentence=sentence, result=result)


bartlett = _window("bartlett", "Triangle that is 0 at both ends", np.bartlett,
                   "Array([0.       , 0.6666667, 0.6666667, 0.       ], dtype=float32)")
blackman = _window("blackman", "Blackman's window, a sum of three cosines", np.blackman,
                   "Array([-1.3877788e-17,  6.3000000e-01,  6.3000000e-01, -1.3877788e-17],"
                   "\n            dtype=float32)")
hamming = _window("hamming", "Hamming's window, a raised cosine", np.hamming,
                  "Array([0.08, 0.77, 0.77, 0.08], dtype=float32)")
hanning = _window("hanning", "Hann's window, a raised cosine that is 0 at both ends", np.hanning,
                  "Array([0.  , 0.75, 0.75, 0.  ], dtype=float32)")


@util.planned
def kaiser(M: int, beta: Any) -> Any:  # noqa: N803 (NumPy's name)
    """Kaiser's window I0(beta sqrt(1 - (2n / (M - 1) - 1)**2)) / I0(beta) of M points.

    Args:
      M: number of points.
      beta: shape, a scalar: 0 is a rectangle.

    Returns:
      A vector of the default float dtype; 1 for M = 1.

    Raises:
      TypeError: M is no integer, or beta not a number.

    Example:
      >>> import calque.numpy as jnp
      >>> jnp.kaiser(3, 2.0)
      Array([0.43867627, 1.        , 0.43867627], dtype=float32)
    """
    count = _count("kaiser", M)
    dtype = dtypes.default_dtype(float)
    beta = util.one_array("kaiser", beta)
    if count <= 1:
        return creation.ones(count, dtype)
    half = (count - 1) / 2
    with util.on_host("kaiser"):
        shape = np.sqrt(np.clip(1 - ((np.arange(count) - half) / half) ** 2, 0, None)).astype(dtype)
    with util.lazy_eval("kaiser"):
        beta = util.array(util.cast(beta, dtype))
        return i0(ew.mul(util.array(shape), beta)) / i0(beta)


__all__ = ["bartlett", "blackman", "hamming", "hanning", "kaiser"]
