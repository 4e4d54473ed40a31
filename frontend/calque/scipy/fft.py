"""Discrete cosine transforms of type 2 and their inverses, under SciPy's names.

One FFT of the length each: of the even elements followed by the odd ones backwards, turned by a
quarter of a sample (Makhoul, "A fast cosine transform in one and two dimensions", 1980).
Start reading at `_forward`.
"""
from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from calque.core.avals import dtype_of, ndim_of, shape_of
from calque.core.errors import explain
from calque.core.lists import inserted
from calque.core.types import Ndarray
from calque.numpy import fft, util
from calque.numpy.join import concatenate
from calque.numpy.padding import pad
from calque.numpy.parts import real
from calque.primitives import elementwise as ew
from calque.primitives import shape as sh

__all__ = ["dct", "dctn", "idct", "idctn"]


def __dir__() -> list[str]:
    return __all__


def _operand(name: str, x: Any, kind: int, norm: str | None) -> Any:
    if kind != 2:
        raise NotImplementedError(explain(f"Only DCT type 2 is implemented; {name} got {kind!r}.",
                                          fix="use type=2 (or fft.rfft of the mirrored array)."))
    if norm not in (None, "backward", "ortho"):
        raise ValueError(explain(
            f"{name}: norm must be 'ortho', 'backward' or None, got {norm!r}.",
            fix="use one of these."))
    (x,) = util.inexact_arrays(name, x)
    if not shape_of(x):
        raise ValueError(explain(f"{name} takes arrays with axes, got a scalar.",
                                 fix="pass an array of one axis or more."))
    return x


def _sized(name: str, x: Any, n: Any, axis: int) -> Any:
    """x cut or filled with zeros to n elements along an axis."""
    have = shape_of(x)[axis]
    want = have if n is None else operator.index(n)
    if want < 1:
        raise ValueError(explain(f"{name}: invalid number of data points ({want}) specified.",
                                 fix="pass n of 1 or more and an array with elements."))
    if want <= have:
        return sh.slice_in_dim(x, 0, want, axis)
    widths = [(0, 0)] * ndim_of(x)
    widths[axis] = (0, want - have)
    return pad(x, widths)


def _along(values: Ndarray, axis: int, rank: int) -> Any:
    return values.reshape([-1 if d == axis else 1 for d in range(rank)])


def _turns(n: int, dtype: Any) -> Ndarray:
    """exp(-i pi k / 2n), whose real and imaginary parts are rounded once."""
    return np.exp(-0.5j * np.pi * np.arange(n) / n).astype(np.result_type(dtype, np.complex64))


def _scales(n: int, dtype: Any) -> Ndarray:
    """What a coefficient of no norm is multiplied by under norm='ortho'."""
    scales = np.full(n, np.sqrt(0.5 / n))
    scales[0] = np.sqrt(0.25 / n)
    return scales.astype(dtype)


def _wide(x: Any) -> Any:
    """Halves are transformed as float32."""
    small = dtype_of(x).itemsize < 4
    return _as_type(x, np.dtype(np.float32)) if small else x


def _as_type(x: Any, dtype: Any) -> Any:
    return x.astype(dtype) if dtype_of(x) != dtype else x


def _forward(x: Any, axis: int, norm: str | None) -> Any:
    dtype, rank = dtype_of(x), ndim_of(x)
    x = _wide(x)
    n = shape_of(x)[axis]
    even = sh.slice_in_dim(x, 0, n, axis, stride=2) if n > 1 else x
    parts = [even]
    if n > 1:
        odd = sh.slice_in_dim(x, 1, n, axis, stride=2)
        parts.append(sh.rev(odd, (axis,)))
    spectrum = fft.fft(concatenate(parts, axis), axis=axis)
    out = 2 * real(spectrum * _along(_turns(n, dtype_of(x)), axis, rank))
    if norm == "ortho":
        out = out * _along(_scales(n, dtype_of(out)), axis, rank)
    return _as_type(out, dtype)


def _backward(x: Any, axis: int, norm: str | None) -> Any:
    dtype, rank = dtype_of(x), ndim_of(x)
    x = _wide(x)
    n = shape_of(x)[axis]
    if norm == "ortho":
        x = x / _along(_scales(n, dtype_of(x)), axis, rank)
    # the spectrum at k is (x_k - i x_{n-k}) / 2 turned back, x_n being 0
    back = sh.rev(x, (axis,))
    zero = sh.slice_in_dim(x, 0, 1, axis) * 0
    mirrored = concatenate([zero, sh.slice_in_dim(back, 0, n - 1, axis)], axis) if n > 1 else zero
    turns = np.conj(_turns(n, dtype_of(x)))
    spectrum = (x - 1j * mirrored) * _along(turns / 2, axis, rank)
    mixed = real(fft.ifft(spectrum, axis=axis))
    half = (n + 1) // 2
    if n == 1:
        return _as_type(mixed, dtype)
    even = sh.slice_in_dim(mixed, 0, half, axis)
    odd = sh.rev(sh.slice_in_dim(mixed, half, n, axis), (axis,))
    if half > n - half:  # as many of both; the last odd one is cut off again
        odd = concatenate([odd, sh.slice_in_dim(even, 0, 1, axis)], axis)
    shape = list(shape_of(even))
    pairs = concatenate([sh.reshape(v, inserted(shape, axis + 1, 1))
                         for v in (even, odd)], axis + 1)
    shape[axis] *= 2
    return _as_type(sh.slice_in_dim(sh.reshape(pairs, tuple(shape)), 0, n, axis), dtype)


def _linear(step: Any, x: Any, axis: int, norm: str | None) -> Any:
    """A step of x; of complex numbers, of each part."""
    if not util.is_complex(x):
        return step(x, axis, norm)
    parts = [step(part.bind(x), axis, norm) for part in (ew.real_p, ew.imag_p)]
    return ew.complex_(*parts)


def _one(name: str, step: Any, x: Any, kind: int, n: Any, axis: Any, norm: str | None) -> Any:
    x = _operand(name, x, kind, norm)
    (d,) = util.axis_tuple(axis, ndim_of(x))
    return _linear(step, _sized(name, x, n, d), d, norm)


def _many(name: str, step: Any, x: Any, kind: int, s: Any, axes: Any, norm: str | None) -> Any:
    x = _operand(name, x, kind, norm)
    rank = ndim_of(x)
    if axes is None:
        if s is not None and len(s) > rank:
            raise ValueError(explain(
                f"{name}: s must have at most x.ndim ({rank}) elements, got {len(s)}.",
                fix="give a size for each axis, or fewer, of the last ones."))
        chosen = tuple(range(rank))[0 if s is None else rank - len(s):]
    else:
        chosen = util.axis_tuple(axes, rank)
    if s is not None and len(s) != len(chosen):
        raise ValueError(explain(
            f"{name}: s has {len(s)} sizes for {len(chosen)} axes.",
            fix="give one size per transformed axis."))
    for i, d in enumerate(chosen):
        x = _linear(step, _sized(name, x, None if s is None else s[i], d), d, norm)
    return x


@util.planned
def dct(x: Any, type: int = 2, n: int | None = None, axis: int = -1,
        norm: str | None = None) -> Any:
    """Discrete cosine transform y_k = 2 sum_j x_j cos(pi k (2j + 1) / 2n) along an axis.

    Args:
      x: array of floats or complex numbers (others become floats).
      type: 2, the only one.
      n: elements along the axis to transform; x is cut or filled with zeros. None: all.
      axis: to transform.
      norm: "ortho" makes the transform orthonormal; None, "backward": as above.

    Returns:
      Array of x's dtype, with n elements along the axis.

    Raises:
      NotImplementedError: another type (as in JAX).
      ValueError: n below 1, an axis that x lacks, another norm.

    Source: J. Makhoul, IEEE Trans. ASSP 28(1), 1980.

    Example:
      >>> import calque.numpy as jnp
      >>> from calque.scipy.fft import dct
      >>> print(dct(jnp.array([1.0, 2.0, 3.0])).round(3) + 0.0)
      [12.    -3.464  0.   ]
    """
    return _one("dct", _forward, x, type, n, axis, norm)


@util.planned
def idct(x: Any, type: int = 2, n: int | None = None, axis: int = -1,
         norm: str | None = None) -> Any:
    """The inverse of dct along an axis.

    Args:
      x: array of floats or complex numbers: coefficients.
      type: 2, the only one.
      n: coefficients to use; x is cut or filled with zeros. None: all.
      axis: to transform.
      norm: as dct was given.

    Returns:
      Array of x's dtype, with n elements along the axis.

    Raises:
      NotImplementedError, ValueError: as dct.

    Source: J. Makhoul, IEEE Trans. ASSP 28(1), 1980.

    Example:
      >>> import calque.numpy as jnp
      >>> from calque.scipy.fft import dct, idct
      >>> print(idct(dct(jnp.array([1.0, 2.0, 4.0]))).round(4))
      [1. 2. 4.]
    """
    return _one("idct", _backward, x, type, n, axis, norm)


@util.planned
def dctn(x: Any, type: int = 2, s: Sequence[int] | None = None,
         axes: int | Sequence[int] | None = None, norm: str | None = None) -> Any:
    """dct along several axes.

    Args:
      x: array of floats or complex numbers.
      type: 2, the only one.
      s: elements to transform along each axis.
      axes: to transform. None: the last len(s), or all.
      norm: as for dct.

    Returns:
      Array of x's dtype.

    Raises:
      NotImplementedError, ValueError: as dct; s and axes differ in length.

    Source: J. Makhoul, IEEE Trans. ASSP 28(1), 1980.

    Example:
      >>> import calque.numpy as jnp
      >>> from calque.scipy.fft import dctn
      >>> print(dctn(jnp.ones((2, 2))))
      [[16.  0.]
       [ 0.  0.]]
    """
    return _many("dctn", _forward, x, type, s, axes, norm)


@util.planned
def idctn(x: Any, type: int = 2, s: Sequence[int] | None = None,
          axes: int | Sequence[int] | None = None, norm: str | None = None) -> Any:
    """The inverse of dctn.

    Args:
      x: array of floats or complex numbers: coefficients.
      type: 2, the only one.
      s: coefficients to use along each axis.
      axes: to transform. None: the last len(s), or all.
      norm: as dctn was given.

    Returns:
      Array of x's dtype.

    Raises:
      NotImplementedError, ValueError: as dctn.

    Source: J. Makhoul, IEEE Trans. ASSP 28(1), 1980.

    Example:
      >>> import calque.numpy as jnp
      >>> from calque.scipy.fft import idctn
      >>> print(idctn(jnp.array([[16.0, 0.0], [0.0, 0.0]])))
      [[1. 1.]
       [1. 1.]]
    """
    return _many("idctn", _backward, x, type, s, axes, norm)
