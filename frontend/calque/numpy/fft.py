"""numpy.fft: discrete Fourier transforms of chosen axes, and what belongs to them.

Every transform moves its axes to the end, crops or pads them to the sizes asked for, binds the
primitive for at most three axes at a time and scales.  Start reading at `_transform`.
"""
from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from calque.core.avals import ndim_of, shape_of
from calque.core.errors import explain
from calque.core.types import Axes, Shape
from calque.lax.fourier import as_input
from calque.lax.operands import canonical_axis
from calque.numpy import creation, util
from calque.numpy.frequencies import fftfreq, fftshift, ifftshift, rfftfreq
from calque.primitives import elementwise as ew
from calque.primitives import fft as pr
from calque.primitives import shape as sh
from calque.primitives.fft import FftType

_NORMS = ("backward", "ortho", "forward")


def _scale(name: str, norm: Any, inverse: bool, sizes: Sequence[int]) -> float:
    """The factor that norm asks for, beyond the 1 / n that inverses bring."""
    if norm is not None and norm not in _NORMS:
        raise ValueError(explain(
            f'Invalid norm value {norm}; should be "backward","ortho" or "forward".',
            fix=f"call {name} with one of them, or leave norm out."))
    count = max(1, math.prod(sizes))
    if norm == "ortho":
        return math.sqrt(count) if inverse else 1 / math.sqrt(count)
    if norm == "forward":
        return float(count) if inverse else 1 / count
    return 1.0


def _axes_and_sizes(name: str, kind: FftType, shape: Shape, s: Any,
                    axes: Any) -> tuple[Axes, Axes]:
    """Which axes, and the sizes of the transform (for IRFFT those of the result)."""
    sizes = None if s is None else tuple(map(operator.index, s))
    if sizes is not None and any(n <= 0 for n in sizes):
        raise ValueError(explain("Shape should be positive.",
                                 fix=f"pass sizes of at least 1 to {name}, got {sizes}."))
    if axes is None:
        first = 0 if sizes is None else len(shape) - len(sizes)
        if first < 0:
            raise ValueError(explain(
                f"{name}: input shape {shape} has fewer axes than s={sizes} has sizes.",
                fix="pass one size for each axis at most."))
        axes = tuple(range(first, len(shape)))
    else:
        if not hasattr(axes, "__len__"):
            raise TypeError(explain(f"{name}: axes of type '{type(axes).__name__}' has no len().",
                                    fix="pass a sequence of axes."))
        given, axes = axes, tuple(canonical_axis(a, len(shape)) for a in axes)
        if len(set(axes)) != len(axes):
            raise ValueError(explain(f"{name} does not support repeated axes. Got axes {given}."))
    if sizes is not None and len(sizes) != len(axes):
        raise ValueError(explain("Shape and axes have different lengths.",
                                 fix=f"pass one size for each axis to {name}."))
    if sizes is None:
        own = [shape[a] for a in axes]
        if kind is FftType.IRFFT and own:
            own[-1] = max(0, 2 * (own[-1] - 1))
        sizes = tuple(own)
    return axes, sizes


def _sized(x: Any, sizes: Sequence[int]) -> Any:
    """x with its last axes cropped or padded with zeros at their ends."""
    shape = shape_of(x)
    first = len(shape) - len(sizes)
    want = (*shape[:first], *sizes)
    if want == shape:
        return x
    x = sh.slice_(x, (0,) * len(shape), [min(a, b) for a, b in zip(shape, want)])
    config = [(0, b - a, 0) for a, b in zip(shape_of(x), want)]
    return sh.pad(x, ew.const(x, 0), config) if any(c[1] for c in config) else x


def _last(x: Any, axes: Sequence[int]) -> tuple[Any, list[int]]:
    """x with axes moved to its end, and the permutation that brings them back."""
    rank = ndim_of(x)
    order = [*[i for i in range(rank) if i not in axes], *axes]
    return sh.transpose(x, order), [int(i) for i in np.argsort(order)]


def _some(x: Any, kind: FftType, axes: Sequence[int], sizes: Sequence[int]) -> Any:
    """The transform of any number of axes: at most three at a time, the real one with the last."""
    if not axes:
        return x
    most = pr.MOST_AXES
    if len(axes) > most:
        rest = FftType.FFT if kind in (FftType.FFT, FftType.RFFT) else FftType.IFFT
        if kind is FftType.IRFFT:
            x = _some(x, rest, axes[:-most], sizes[:-most])
            return _some(x, kind, axes[-most:], sizes[-most:])
        x = _some(x, kind, axes[-most:], sizes[-most:])
        return _some(x, rest, axes[:-most], sizes[:-most])
    x, back = _last(x, axes)
    own = list(sizes)
    if kind is FftType.IRFFT:
        own[-1] = sizes[-1] // 2 + 1
    x = pr.fft(_sized(x, own), kind, sizes)
    return sh.transpose(x, back)


def _transform(name: str, kind: FftType, a: Any, s: Any, axes: Any, norm: Any) -> Any:
    x = util.one_array(f"jax.numpy.fft.{name}", a)
    full = f"jax.numpy.fft.{name}"
    axes, sizes = _axes_and_sizes(full, kind, shape_of(x), s, axes)
    inverse = kind in (FftType.IFFT, FftType.IRFFT)
    factor = _scale(full, norm, inverse, sizes)
    with util.lazy_eval(name):
        x = as_input(x, kind)
        if not axes:
            return x
        x = _some(x, kind, axes, sizes)
        return x if factor == 1.0 else ew.mul(x, ew.const(x, factor))


def _line(name: str, kind: FftType, a: Any, n: Any, axis: Any, norm: Any) -> Any:
    """One axis."""
    if isinstance(axis, (tuple, list, range, np.ndarray)):
        raise ValueError(explain(
            f"jax.numpy.fft.{name} does not support multiple axes. Please use "
            f"jax.numpy.fft.{name}n. Got axis = {axis!r}."))
    axes = None if axis is None else (axis,)
    return _transform(name, kind, a, None if n is None else (n,), axes, norm)


def _plane(name: str, kind: FftType, a: Any, s: Any, axes: Any, norm: Any) -> Any:
    """Two axes."""
    if not hasattr(axes, "__len__"):
        raise TypeError(explain(f"{name}: axes of type '{type(axes).__name__}' has no len().",
                                fix="pass two axes."))
    if len(axes) != 2:
        raise ValueError(explain(
            f"jax.numpy.fft.{name} only supports 2 axes. Got axes = {axes!r}.",
            fix=f"use jnp.fft.{name.replace('2', 'n')}."))
    return _transform(name, kind, a, s, axes, norm)


@util.planned
def fft(a: Any, n: int | None = None, axis: int = -1, norm: str | None = None) -> Any:
    """The discrete Fourier transform along an axis: sums of a[j] exp(-2 pi i j k / n).

    Args:
      a: array.
      n: the size of the transform: the axis is cropped, or padded with zeros.
      axis: the axis.
      norm: 'backward' (the inverse is divided by n), 'ortho' (both by sqrt(n)) or 'forward'.

    Returns:
      A complex array.

    Raises:
      TypeError: a is no array.
      ValueError: the axis does not exist, n is not positive.

    Example:
      >>> import calque.numpy as jnp
      >>> jnp.fft.fft(jnp.array([1.0, 2.0]))
      Array([ 3.+0.j, -1.+0.j], dtype=complex64)
    """
    return _line("fft", FftType.FFT, a, n, axis, norm)


@util.planned
def ifft(a: Any, n: int | None = None, axis: int = -1, norm: str | None = None) -> Any:
    """The inverse of fft: sums of a[j] exp(2 pi i j k / n) / n.

    Args:
      a: array.
      n: the size of the transform: the axis is cropped, or padded with zeros.
      axis: the axis.
      norm: 'backward' (the inverse is divided by n), 'ortho' (both by sqrt(n)) or 'forward'.

    Returns:
      A complex array.

    Raises:
      TypeError: a is no array.
      ValueError: the axis does not exist, n is not positive.

    Example:
      >>> import calque.numpy as jnp
      >>> jnp.fft.ifft(jnp.array([3.0, -1.0]))
      Array([1.+0.j, 2.+0.j], dtype=complex64)
    """
    return _line("ifft", FftType.IFFT, a, n, axis, norm)


@util.planned
def rfft(a: Any, n: int | None = None, axis: int = -1, norm: str | None = None) -> Any:
    """fft of real numbers: the half that is not redundant.

    Args:
      a: array of real numbers.
      n: the size of the transform: the axis is cropped, or padded with zeros.
      axis: the axis.
      norm: 'backward' (the inverse is divided by n), 'ortho' (both by sqrt(n)) or 'forward'.

    Returns:
      A complex array with n // 2 + 1 elements along the axis.

    Raises:
      TypeError: a is no array.
      ValueError: the axis does not exist, n is not positive, or a is complex.

    Example:
      >>> import calque.numpy as jnp
      >>> jnp.fft.rfft(jnp.array([1.0, 2.0, 3.0, 4.0]))
      Array([10.+0.j, -2.+2.j, -2.+0.j], dtype=complex64)
    """
    return _line("rfft", FftType.RFFT, a, n, axis, norm)


@util.planned
def irfft(a: Any, n: int | None = None, axis: int = -1, norm: str | None = None) -> Any:
    """The inverse of rfft.

    Args:
      a: array of n // 2 + 1 elements along the axis, half of a Hermitian sequence.
      n: the size of the result; 2 (m - 1) for m elements by default.
      axis: the axis.
      norm: 'backward' (the inverse is divided by n), 'ortho' (both by sqrt(n)) or 'forward'.

    Returns:
      A real array.

    Raises:
      TypeError: a is no array.
      ValueError: the axis does not exist, n is not positive.

    Example:
      >>> import calque.numpy as jnp
      >>> jnp.fft.irfft(jnp.array([3.0, -1.0]))
      Array([1., 2.], dtype=float32)
    """
    return _line("irfft", FftType.IRFFT, a, n, axis, norm)


@util.planned
def hfft(a: Any, n: int | None = None, axis: int = -1, norm: str | None = None) -> Any:
    """fft of a Hermitian sequence, which is real.

    Args:
      a: array of n // 2 + 1 elements along the axis, half of a Hermitian sequence.
      n: the size of the result; 2 (m - 1) for m elements by default.
      axis: the axis.
      norm: 'backward' (the inverse is divided by n), 'ortho' (both by sqrt(n)) or 'forward'.

    Returns:
      A real array.

    Raises:
      TypeError: a is no array.
      ValueError: the axis does not exist, n is not positive.

    Example:
      >>> import calque.numpy as jnp
      >>> jnp.fft.hfft(jnp.array([1.0, 2.0]))
      Array([ 3., -1.], dtype=float32)
    """
    swapped = _swapped("hfft", norm)
    with util.lazy_eval("hfft"):
        x = util.one_array("conjugate", a)
        x = ew.conj(x) if util.is_complex(x) else x
        return _line("hfft", FftType.IRFFT, x, n, axis, swapped)


@util.planned
def ihfft(a: Any, n: int | None = None, axis: int = -1, norm: str | None = None) -> Any:
    """The inverse of hfft: half of a Hermitian sequence.

    Args:
      a: array of real numbers.
      n: the size of the transform: the axis is cropped, or padded with zeros.
      axis: the axis.
      norm: 'backward' (the inverse is divided by n), 'ortho' (both by sqrt(n)) or 'forward'.

    Returns:
      A complex array with n // 2 + 1 elements along the axis.

    Raises:
      TypeError: a is no array.
      ValueError: the axis does not exist, n is not positive, or a is complex.

    Example:
      >>> import calque.numpy as jnp
      >>> jnp.fft.ihfft(jnp.array([5.0, -3.0]))
      Array([1.-0.j, 4.-0.j], dtype=complex64)
    """
    swapped = _swapped("ihfft", norm)
    with util.lazy_eval("ihfft"):
        x = creation.asarray(a)
        return ew.conj(_line("ihfft", FftType.RFFT, x, n, axis, swapped))


def _swapped(name: str, norm: Any) -> Any:
    """The norm of the transform that goes the other way."""
    _scale(f"jax.numpy.fft.{name}", norm, False, ())
    return {"forward": "backward", "ortho": "ortho"}.get(norm, "forward")


@util.planned
def fft2(a: Any, s: Sequence[int] | None = None, axes: Sequence[int] = (-2, -1),
         norm: str | None = None) -> Any:
    """fft along two axes.

    Args:
      a: array.
      s: sizes of the transform: axes are cropped, or padded with zeros.
      axes: the two axes.
      norm: 'backward' (the inverse is divided by the sizes), 'ortho' (both by their roots) or
        'forward'.

    Returns:
      A complex array.

    Raises:
      TypeError: a is no array.
      ValueError: an axis does not exist or is repeated, a size is not positive.

    Example:
      >>> import calque.numpy as jnp
      >>> jnp.fft.fft2(jnp.ones((2, 2)))
      Array([[4.+0.j, 0.+0.j],
             [0.+0.j, 0.+0.j]], dtype=complex64)
    """
    return _plane("fft2", FftType.FFT, a, s, axes, norm)


@util.planned
def ifft2(a: Any, s: Sequence[int] | None = None, axes: Sequence[int] = (-2, -1),
          norm: str | None = None) -> Any:
    """ifft along two axes.

    Args:
      a: array.
      s: sizes of the transform: axes are cropped, or padded with zeros.
      axes: the two axes.
      norm: 'backward' (the inverse is divided by the sizes), 'ortho' (both by their roots) or
        'forward'.

    Returns:
      A complex array.

    Raises:
      TypeError: a is no array.
      ValueError: an axis does not exist or is repeated, a size is not positive.

    Example:
      >>> import calque.numpy as jnp
      >>> jnp.fft.ifft2(jnp.ones((2, 2)))
      Array([[1.+0.j, 0.+0.j],
             [0.+0.j, 0.+0.j]], dtype=complex64)
    """
    return _plane("ifft2", FftType.IFFT, a, s, axes, norm)


@util.planned
def rfft2(a: Any, s: Sequence[int] | None = None, axes: Sequence[int] = (-2, -1),
          norm: str | None = None) -> Any:
    """rfft along the last of two axes, fft along the other.

    Args:
      a: array of real numbers.
      s: sizes of the transform: axes are cropped, or padded with zeros.
      axes: the two axes.
      norm: 'backward' (the inverse is divided by the sizes), 'ortho' (both by their roots) or
        'forward'.

    Returns:
      A complex array with n // 2 + 1 elements along the last of the axes.

    Raises:
      TypeError: a is no array.
      ValueError: an axis does not exist or is repeated, a size is not positive, or a is complex.

    Example:
      >>> import calque.numpy as jnp
      >>> jnp.fft.rfft2(jnp.ones((2, 2)))
      Array([[4.+0.j, 0.+0.j],
             [0.+0.j, 0.+0.j]], dtype=complex64)
    """
    return _plane("rfft2", FftType.RFFT, a, s, axes, norm)


@util.planned
def irfft2(a: Any, s: Sequence[int] | None = None, axes: Sequence[int] = (-2, -1),
           norm: str | None = None) -> Any:
    """The inverse of rfft2.

    Args:
      a: array.
      s: sizes of the result; the last is 2 (m - 1) for m elements by default.
      axes: the two axes.
      norm: 'backward' (the inverse is divided by the sizes), 'ortho' (both by their roots) or
        'forward'.

    Returns:
      A real array.

    Raises:
      TypeError: a is no array.
      ValueError: an axis does not exist or is repeated, a size is not positive.

    Example:
      >>> import calque.numpy as jnp
      >>> jnp.fft.irfft2(jnp.ones((2, 2)))
      Array([[1., 0.],
             [0., 0.]], dtype=float32)
    """
    return _plane("irfft2", FftType.IRFFT, a, s, axes, norm)


@util.planned
def fftn(a: Any, s: Sequence[int] | None = None, axes: Sequence[int] | None = None,
         norm: str | None = None) -> Any:
    """fft along several axes.

    Args:
      a: array.
      s: sizes of the transform: axes are cropped, or padded with zeros.
      axes: the axes; the last len(s), or all, by default.
      norm: 'backward' (the inverse is divided by the sizes), 'ortho' (both by their roots) or
        'forward'.

    Returns:
      A complex array.

    Raises:
      TypeError: a is no array.
      ValueError: an axis does not exist or is repeated, a size is not positive.

    Example:
      >>> import calque.numpy as jnp
      >>> jnp.fft.fftn(jnp.ones((2, 2)))
      Array([[4.+0.j, 0.+0.j],
             [0.+0.j, 0.+0.j]], dtype=complex64)
    """
    return _transform("fftn", FftType.FFT, a, s, axes, norm)


@util.planned
def ifftn(a: Any, s: Sequence[int] | None = None, axes: Sequence[int] | None = None,
          norm: str | None = None) -> Any:
    """ifft along several axes.

    Args:
      a: array.
      s: sizes of the transform: axes are cropped, or padded with zeros.
      axes: the axes; the last len(s), or all, by default.
      norm: 'backward' (the inverse is divided by the sizes), 'ortho' (both by their roots) or
        'forward'.

    Returns:
      A complex array.

    Raises:
      TypeError: a is no array.
      ValueError: an axis does not exist or is repeated, a size is not positive.

    Example:
      >>> import calque.numpy as jnp
      >>> jnp.fft.ifftn(jnp.ones((2, 2)))
      Array([[1.+0.j, 0.+0.j],
             [0.+0.j, 0.+0.j]], dtype=complex64)
    """
    return _transform("ifftn", FftType.IFFT, a, s, axes, norm)


@util.planned
def rfftn(a: Any, s: Sequence[int] | None = None, axes: Sequence[int] | None = None,
          norm: str | None = None) -> Any:
    """rfft along the last of several axes, fft along the others.

    Args:
      a: array of real numbers.
      s: sizes of the transform: axes are cropped, or padded with zeros.
      axes: the axes; the last len(s), or all, by default.
      norm: 'backward' (the inverse is divided by the sizes), 'ortho' (both by their roots) or
        'forward'.

    Returns:
      A complex array with n // 2 + 1 elements along the last of the axes.

    Raises:
      TypeError: a is no array.
      ValueError: an axis does not exist or is repeated, a size is not positive, or a is complex.

    Example:
      >>> import calque.numpy as jnp
      >>> jnp.fft.rfftn(jnp.ones((2, 2)))
      Array([[4.+0.j, 0.+0.j],
             [0.+0.j, 0.+0.j]], dtype=complex64)
    """
    return _transform("rfftn", FftType.RFFT, a, s, axes, norm)


@util.planned
def irfftn(a: Any, s: Sequence[int] | None = None, axes: Sequence[int] | None = None,
           norm: str | None = None) -> Any:
    """The inverse of rfftn.

    Args:
      a: array.
      s: sizes of the result; the last is 2 (m - 1) for m elements by default.
      axes: the axes; the last len(s), or all, by default.
      norm: 'backward' (the inverse is divided by the sizes), 'ortho' (both by their roots) or
        'forward'.

    Returns:
      A real array.

    Raises:
      TypeError: a is no array.
      ValueError: an axis does not exist or is repeated, a size is not positive.

    Example:
      >>> import calque.numpy as jnp
      >>> jnp.fft.irfftn(jnp.ones((2, 2)))
      Array([[1., 0.],
             [0., 0.]], dtype=float32)
    """
    return _transform("irfftn", FftType.IRFFT, a, s, axes, norm)


__all__ = ["fft", "fft2", "fftfreq", "fftn", "fftshift", "hfft", "ifft", "ifft2", "ifftn",
           "ifftshift", "ihfft", "irfft", "irfft2", "irfftn", "rfft", "rfft2", "rfftfreq",
           "rfftn"]


def __dir__() -> list[str]:
    return __all__
