"""convolve and correlate of arrays with one axis, by lax.conv_general_dilated."""
from __future__ import annotations

from typing import Any

import numpy as np

from calque.core import dtypes
from calque.core.avals import ndim_of, shape_of
from calque.core.errors import explain
from calque.lax.conv import conv_general_dilated
from calque.numpy import util
from calque.primitives import elementwise as ew
from calque.primitives import shape as sh


def _convolve(name: str, a: Any, v: Any, mode: str, precision: Any, preferred: Any) -> Any:
    values = util.check_arrays(name, a, v)
    if any(ndim_of(x) != 1 for x in values):
        raise ValueError(explain(f"{name}() only support 1-dimensional inputs.",
                                 fix="flatten them, or use scipy.signal.convolve."))
    if 0 in (*shape_of(values[0]), *shape_of(values[1])):
        raise ValueError(explain(
            f"{name}: inputs cannot be empty, got shapes {shape_of(values[0])} and "
            f"{shape_of(values[1])}."))
    with util.lazy_eval(name):
        if preferred is None:
            x, y = util.promote_inexact(name, *values)
        else:
            x, y = util.promote(name, *values)
        x, y = util.array(x), util.array(y)
        if util.is_complex(y) and name == "correlate":
            y = ew.conj(y)
        n, k = shape_of(x)[0], shape_of(y)[0]
        flipped = n < k
        if flipped:
            x, y, n, k = y, x, k, n
        # convolution mirrors one operand, correlation neither
        if name == "convolve":
            y = sh.rev(y, (0,))
        if mode == "valid":
            padding = (0, 0)
        elif mode == "same":
            padding = (k // 2, k - k // 2 - 1)
        elif mode == "full":
            padding = (k - 1, k - 1)
        else:
            raise ValueError(explain("mode must be one of ['full', 'same', 'valid']",
                                     where=f"got {mode!r}."))
        out = conv_general_dilated(
            sh.reshape(x, (1, 1, n)), sh.reshape(y, (1, 1, k)), (1,), [padding],
            precision=precision, preferred_element_type=preferred)
        out = sh.reshape(out, (shape_of(out)[2],))
        if flipped and name == "correlate":
            out = sh.rev(out, (0,))
        return out


@util.planned
def convolve(a: Any, v: Any, mode: str = "full", *, precision: Any = None,
             preferred_element_type: Any = None) -> Any:
    """Discrete convolution: out[i] = sum_j a[j] v[i - j].

    Args:
      a: array with one axis.
      v: array with one axis.
      mode: 'full' (all overlaps), 'same' (as long as the longer), 'valid' (full overlaps only).
      precision: accepted.
      preferred_element_type: the dtype to sum in and of the result.

    Returns:
      An array with one axis, of inexact dtype unless preferred_element_type is given.

    Raises:
      TypeError: an argument is not an array.
      ValueError: an argument is empty or has several axes, or mode is unknown.

    Example:
      >>> import calque.numpy as jnp
      >>> jnp.convolve(jnp.array([1.0, 2.0]), jnp.array([1.0, 1.0]))
      Array([1., 3., 2.], dtype=float32)
    """
    return _convolve("convolve", a, v, mode, precision, _kind(preferred_element_type))


@util.planned
def correlate(a: Any, v: Any, mode: str = "valid", *, precision: Any = None,
              preferred_element_type: Any = None) -> Any:
    """Cross-correlation: out[k] = sum_n a[n + k] conj(v[n]).

    Args:
      a: array with one axis.
      v: array with one axis.
      mode: 'valid' (full overlaps only), 'same' (as long as the longer), 'full' (all overlaps).
      precision: accepted.
      preferred_element_type: the dtype to sum in and of the result.

    Returns:
      An array with one axis, of inexact dtype unless preferred_element_type is given.

    Raises:
      TypeError: an argument is not an array.
      ValueError: an argument is empty or has several axes, or mode is unknown.

    Example:
      >>> import calque.numpy as jnp
      >>> jnp.correlate(jnp.array([1.0, 2.0, 3.0]), jnp.array([0.0, 1.0]), "full")
      Array([1., 2., 3., 0.], dtype=float32)
    """
    return _convolve("correlate", a, v, mode, precision, _kind(preferred_element_type))


def _kind(dtype: Any) -> Any:
    return None if dtype is None else dtypes.canonical(np.dtype(dtype))


__all__ = ["convolve", "correlate"]
