"""numpy.fft: what belongs to transforms: the frequencies of their elements, and shifts.

Start reading at `_frequencies`.
"""
from __future__ import annotations

import operator
from typing import Any

import numpy as np

from calque.core.avals import shape_of
from calque.core.errors import explain
from calque.core.trace import Tracer
from calque.dispatch.array import Array
from calque.dispatch.sharded.placing import made_on
from calque.numpy import creation, util
from calque.numpy.arrange import roll
from calque.primitives import elementwise as ew
from calque.primitives import shape as sh


def _frequencies(name: str, k: Any, n: int, d: Any, dtype: Any, device: Any) -> Any:
    """k / (n d)."""
    if isinstance(d, (list, tuple)) or np.ndim(d):
        raise ValueError(explain(
            f"The d argument of jax.numpy.fft.{name} only takes a single value. Got d = {d!r}."))
    kind = util.user_dtype(name, float if dtype is None else dtype)
    if isinstance(d, (Tracer, Array)):
        with util.lazy_eval(name):
            step = ew.mul(util.cast(d, kind), np.asarray(n, kind))
            steps = sh.broadcast_in_dim(step, k.shape, ())
            return made_on(name, device, None,
                           lambda: ew.div(util.array(k.astype(kind)), steps), k.shape)
    with np.errstate(all="ignore"):
        return creation.asarray((k / (n * np.float64(d))).astype(kind), device=device)


def _size(name: str, n: Any) -> int:
    if isinstance(n, (list, tuple)):
        raise ValueError(explain(
            f"The n argument of jax.numpy.fft.{name} only takes an int. Got n = {n!r}.",
            fix="pass the size of one axis."))
    return operator.index(n)


def fftfreq(n: int, d: Any = 1.0, *, dtype: Any = None, device: Any = None) -> Any:
    """The frequencies of fft's elements: 0, 1, ..., then the negative ones, over n d.

    Args:
      n: size of the transform.
      d: distance of samples.
      dtype: dtype of the result; the default float dtype by default.
      device: None, or the device.

    Returns:
      An array of n elements.

    Raises:
      ValueError: n or d is no single value.

    Example:
      >>> import calque.numpy as jnp
      >>> jnp.fft.fftfreq(4)
      Array([ 0.  ,  0.25, -0.5 , -0.25], dtype=float32)
    """
    n = _size("fftfreq", n)
    with util.on_host("fftfreq"):
        k = np.arange(n)
    return _frequencies("fftfreq", np.where(k < -(-n // 2), k, k - n), n, d, dtype, device)


def rfftfreq(n: int, d: Any = 1.0, *, dtype: Any = None, device: Any = None) -> Any:
    """The frequencies of rfft's elements: 0, 1, ..., n // 2, over n d.

    Args:
      n: size of the transform.
      d: distance of samples.
      dtype: dtype of the result; the default float dtype by default.
      device: None, or the device.

    Returns:
      An array of n // 2 + 1 elements.

    Raises:
      ValueError: n or d is no single value.

    Example:
      >>> import calque.numpy as jnp
      >>> jnp.fft.rfftfreq(4)
      Array([0.  , 0.25, 0.5 ], dtype=float32)
    """
    n = _size("rfftfreq", n)
    with util.on_host("rfftfreq"):
        k = np.arange(n // 2 + 1)
    return _frequencies("rfftfreq", k, n, d, dtype, device)


def _shifted(name: str, x: Any, axes: Any, back: bool) -> Any:
    x = util.array(util.one_array(name, x))
    shape = shape_of(x)
    if axes is None:
        axes = tuple(range(len(shape)))
    elif hasattr(axes, "__index__"):
        axes = (axes,)
    axes = tuple(axes)
    if any(not -len(shape) <= operator.index(a) < len(shape) for a in axes):
        raise IndexError(explain(f"{name}: axes {axes} are not all axes of shape {shape}: tuple "
                                 "index out of range."))
    by = [-(shape[a] // 2) if back else shape[a] // 2 for a in axes]
    return roll(x, by, axes) if axes else x


def fftshift(x: Any, axes: Any = None) -> Any:
    """x with the element of frequency 0 moved to the middle.

    Args:
      x: array.
      axes: an axis or axes; all by default.

    Returns:
      An array of x's shape.

    Raises:
      TypeError: x is no array.
      IndexError: an axis does not exist.

    Example:
      >>> import calque.numpy as jnp
      >>> jnp.fft.fftshift(jnp.arange(4))
      Array([2, 3, 0, 1], dtype=int32)
    """
    return _shifted("fftshift", x, axes, False)


def ifftshift(x: Any, axes: Any = None) -> Any:
    """The inverse of fftshift (they differ for odd sizes).

    Args:
      x: array.
      axes: an axis or axes; all by default.

    Returns:
      An array of x's shape.

    Raises:
      TypeError: x is no array.
      IndexError: an axis does not exist.

    Example:
      >>> import calque.numpy as jnp
      >>> jnp.fft.ifftshift(jnp.arange(3))
      Array([1, 2, 0], dtype=int32)
    """
    return _shifted("ifftshift", x, axes, True)
