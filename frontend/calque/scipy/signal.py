"""Convolution and correlation of arrays with any number of axes, under SciPy's names.

A correlation is the convolution with the mirrored conjugate.  Direct sums are one
lax.conv_general_dilated, long ones can go by FFT.  Start reading at `_convolve`.
"""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from calque.core.avals import ndim_of, shape_of
from calque.core.errors import explain
from calque.lax.conv import conv_general_dilated
from calque.numpy import fft, util
from calque.numpy.parts import conj
from calque.primitives import elementwise as ew
from calque.primitives import shape as sh
from calque.scipy.spectral import csd, detrend, istft, stft, welch

__all__ = ["convolve", "convolve2d", "correlate", "correlate2d", "csd", "detrend", "fftconvolve",
           "istft", "stft", "welch"]


def __dir__() -> list[str]:
    return __all__


def _operands(name: str, in1: Any, in2: Any) -> tuple[Any, Any]:
    a, b = util.check_arrays(name, in1, in2)
    m, n = shape_of(a), shape_of(b)
    if len(m) != len(n):
        raise ValueError(explain(
            f"{name}: in1 and in2 must have the same number of dimensions, got shapes {m} and {n}.",
            fix="give the smaller one axes of size 1."))
    if 0 in (*m, *n):
        raise ValueError(explain(
            f"{name}: zero-size arrays not supported in convolutions, got shapes {m} and {n}.",
            fix="pass arrays with elements."))
    x, y = util.promote_inexact(name, a, b)
    return util.array(x), util.array(y)


def _check_mode(mode: str) -> None:
    if mode not in ("full", "same", "valid"):
        raise ValueError(explain(f"mode must be one of ['full', 'same', 'valid'], got {mode!r}.",
                                 fix="use one of these."))


def _ordered(name: str, x: Any, y: Any, mode: str) -> tuple[Any, Any]:
    """For 'valid' the larger array comes first."""
    m, n = shape_of(x), shape_of(y)
    if mode != "valid" or all(a >= b for a, b in zip(m, n)):
        return x, y
    if all(a <= b for a, b in zip(m, n)):
        return y, x
    raise ValueError(explain(
        f"{name}: one input must be smaller than the other in every dimension with mode='valid', "
        f"got shapes {m} and {n}.", fix="use mode='full' or 'same'."))


def _mirrored(y: Any) -> Any:
    return sh.rev(y, tuple(range(ndim_of(y))))


def _direct(name: str, x: Any, y: Any, mode: str, precision: Any) -> Any:
    """The sums; correlate2d's 'same' begins one element later where in2's size is even (SciPy)."""
    x, y = _ordered(name, x, y, mode)
    m, n = shape_of(x), shape_of(y)
    if not m:
        return ew.mul(x, y)
    late = name == "correlate2d"
    before = [{"full": k - 1, "same": (k - late) // 2, "valid": 0}[mode] for k in n]
    padding = [(p, k - 1 - p if mode == "same" else p) for p, k in zip(before, n)]
    out = conv_general_dilated(sh.reshape(x, (1, 1, *m)), sh.reshape(_mirrored(y), (1, 1, *n)),
                               (1,) * len(m), padding, precision=precision)
    return sh.reshape(out, shape_of(out)[2:])


def _product(name: str, x: Any, y: Any) -> Any:
    return ew.mul(*util.broadcast_all(name, x, y))


def _by_fft(name: str, x: Any, y: Any, mode: str, axes: int | Sequence[int] | None) -> Any:
    x, y = _ordered(name, x, y, mode)
    m, n = shape_of(x), shape_of(y)
    rank = len(m)
    chosen = tuple(range(rank)) if axes is None else util.axis_tuple(axes, rank)
    for d in range(rank):
        if d not in chosen and m[d] != n[d] and 1 not in (m[d], n[d]):
            raise ValueError(explain(
                f"{name}: incompatible shapes for in1 and in2: {m} and {n} differ along axis {d}, "
                "which is not transformed.", fix="name that axis in axes."))
    if not chosen:
        return _product(name, x, y)
    sizes = [m[d] + n[d] - 1 for d in chosen]
    if util.is_complex(x):
        spectra = [fft.fftn(v, sizes, chosen) for v in (x, y)]
        out = fft.ifftn(_product(name, *spectra), sizes, chosen)
    else:
        spectra = [fft.rfftn(v, sizes, chosen) for v in (x, y)]
        out = fft.irfftn(_product(name, *spectra), sizes, chosen)
    shape = list(shape_of(out))
    starts = [0] * rank
    for d in chosen:
        if mode == "same":
            starts[d], shape[d] = (n[d] - 1) // 2, m[d]
        elif mode == "valid":
            starts[d], shape[d] = n[d] - 1, m[d] - n[d] + 1
    for d in chosen:
        out = sh.slice_in_dim(out, starts[d], starts[d] + shape[d], d)
    return out


def _convolve(name: str, in1: Any, in2: Any, mode: str, method: str, precision: Any,
              correlation: bool) -> Any:
    _check_mode(mode)
    if method not in ("auto", "direct", "fft"):
        raise ValueError(explain(f"Got method={method!r}; expected 'auto', 'fft', or 'direct'.",
                                 fix="use one of these."))
    with util.lazy_eval(name):
        x, y = _operands(name, in1, in2)
        if correlation:
            y = _mirrored(conj(y))
        if method == "fft":
            return _by_fft(name, x, y, mode, None)
        return _direct(name, x, y, mode, precision)


@util.planned
def convolve(in1: Any, in2: Any, mode: str = "full", method: str = "auto",
             precision: Any = None) -> Any:
    """Convolution over all axes: out[i] = sum_j in1[j] in2[i - j].

    Args:
      in1: array.
      in2: array with as many axes.
      mode: 'full' (all overlaps), 'same' (its middle, of in1's shape), 'valid' (full overlaps).
      method: 'direct', 'fft', or 'auto' (direct).
      precision: of the products, as in lax.conv_general_dilated.

    Returns:
      An array of inexact dtype.

    Raises:
      ValueError: numbers of axes differ, an array is empty, mode or method is unknown, or with
        mode='valid' neither array is the larger one in every axis.

    Example:
      >>> import calque.numpy as jnp, calque.scipy.signal as signal
      >>> signal.convolve(jnp.ones((2, 2)), jnp.ones((2, 2)))
      Array([[1., 2., 1.],
             [2., 4., 2.],
             [1., 2., 1.]], dtype=float32)
    """
    return _convolve("convolve", in1, in2, mode, method, precision, False)


@util.planned
def correlate(in1: Any, in2: Any, mode: str = "full", method: str = "auto",
              precision: Any = None) -> Any:
    """Cross-correlation over all axes: out[i] = sum_j in1[i + j] conj(in2[j]).

    Args:
      in1: array.
      in2: array with as many axes.
      mode: 'full' (all overlaps), 'same' (its middle, of in1's shape), 'valid' (full overlaps).
      method: 'direct', 'fft', or 'auto' (direct).
      precision: of the products, as in lax.conv_general_dilated.

    Returns:
      An array of inexact dtype.

    Raises:
      ValueError: as convolve.

    Example:
      >>> import calque.numpy as jnp, calque.scipy.signal as signal
      >>> signal.correlate(jnp.array([1.0, 2.0, 3.0]), jnp.array([0.0, 1.0]), mode="valid")
      Array([2., 3.], dtype=float32)
    """
    return _convolve("correlate", in1, in2, mode, method, precision, True)


def _two_dimensional(name: str, in1: Any, in2: Any, mode: str, boundary: str, fillvalue: float,
                     precision: Any, correlation: bool) -> Any:
    if boundary != "fill" or fillvalue != 0:
        raise NotImplementedError(explain(
            f"{name}() only supports boundary='fill', fillvalue=0",
            fix="pad in1 with jnp.pad and use mode='valid'."))
    if any(ndim_of(x) != 2 for x in util.check_arrays(name, in1, in2)):
        raise ValueError(explain(f"{name}() only supports 2-dimensional inputs.",
                                 fix=f"use {name[:-2]}, which takes any number of axes."))
    return _convolve(name, in1, in2, mode, "direct", precision, correlation)


@util.planned
def convolve2d(in1: Any, in2: Any, mode: str = "full", boundary: str = "fill",
               fillvalue: float = 0, precision: Any = None) -> Any:
    """Convolution of two matrices.

    Args:
      in1: array with two axes.
      in2: array with two axes.
      mode: 'full' (all overlaps), 'same' (its middle, of in1's shape), 'valid' (full overlaps).
      boundary: 'fill'.
      fillvalue: 0.
      precision: of the products, as in lax.conv_general_dilated.

    Returns:
      An array of inexact dtype.

    Raises:
      NotImplementedError: another boundary or fillvalue (JAX has none either).
      ValueError: as convolve, or an array has not two axes.

    Example:
      >>> import calque.numpy as jnp, calque.scipy.signal as signal
      >>> signal.convolve2d(jnp.eye(2), jnp.array([[1.0, 2.0]]), mode="same")
      Array([[1., 2.],
             [0., 1.]], dtype=float32)
    """
    return _two_dimensional("convolve2d", in1, in2, mode, boundary, fillvalue, precision, False)


@util.planned
def correlate2d(in1: Any, in2: Any, mode: str = "full", boundary: str = "fill",
                fillvalue: float = 0, precision: Any = None) -> Any:
    """Cross-correlation of two matrices.

    Args:
      in1: array with two axes.
      in2: array with two axes.
      mode: 'full' (all overlaps), 'same' (its middle, of in1's shape), 'valid' (full overlaps).
      boundary: 'fill'.
      fillvalue: 0.
      precision: of the products, as in lax.conv_general_dilated.

    Returns:
      An array of inexact dtype.

    Raises:
      NotImplementedError: another boundary or fillvalue (JAX has none either).
      ValueError: as convolve, or an array has not two axes.

    Example:
      >>> import calque.numpy as jnp, calque.scipy.signal as signal
      >>> signal.correlate2d(jnp.eye(2), jnp.array([[1.0, 2.0]]), mode="valid")
      Array([[1.],
             [2.]], dtype=float32)
    """
    return _two_dimensional("correlate2d", in1, in2, mode, boundary, fillvalue, precision, True)


@util.planned
def fftconvolve(in1: Any, in2: Any, mode: str = "full", axes: Any = None) -> Any:
    """Convolution by FFT: fast for long arrays, with errors relative to the largest values.

    Args:
      in1: array.
      in2: array with as many axes.
      mode: 'full' (all overlaps), 'same' (its middle, of in1's shape), 'valid' (full overlaps).
      axes: axes to convolve over (default: all); the others are broadcast.

    Returns:
      An array of inexact dtype.

    Raises:
      ValueError: as convolve, or sizes differ along an axis that is not convolved.

    Example:
      >>> import calque.numpy as jnp, calque.scipy.signal as signal
      >>> signal.fftconvolve(jnp.ones(3), jnp.ones(2)).round(3)
      Array([1., 2., 2., 1.], dtype=float32)
    """
    _check_mode(mode)
    with util.lazy_eval("fftconvolve"):
        x, y = _operands("fftconvolve", in1, in2)
        return _by_fft("fftconvolve", x, y, mode, axes)
