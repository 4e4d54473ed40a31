"""lax.fft: discrete Fourier transforms of the last axes.  calque.numpy.fft rests on it."""
from __future__ import annotations

from typing import Any

import numpy as np

from calque.core import dtypes
from calque.core.avals import dtype_of
from calque.core.errors import explain
from calque.dispatch.eager import lazy_eval
from calque.lax.operands import as_operand, as_size
from calque.lax.shape import unchanged
from calque.primitives import elementwise as ew
from calque.primitives.fft import FftType
from calque.primitives.fft import fft as transform


def as_fft_type(kind: Any) -> FftType:
    """A member of FftType, or one by its name in any case."""
    if isinstance(kind, FftType):
        return kind
    if not isinstance(kind, str):
        raise TypeError(explain(f"Unknown FFT type value '{kind}'",
                                fix="use lax.FftType.FFT, IFFT, RFFT or IRFFT, or its name."))
    try:
        return FftType[kind.upper()]
    except KeyError:
        raise ValueError(explain(f"Unknown FFT type '{kind}'",
                                 fix="use 'FFT', 'IFFT', 'RFFT' or 'IRFFT'.")) from None


def as_input(x: Any, kind: FftType) -> Any:
    """x in the dtype that the transform takes: float for RFFT, else complex."""
    dtype = dtype_of(x)
    if kind is FftType.RFFT:
        if dtype.kind == "c":
            raise ValueError(explain("only real valued inputs supported for rfft",
                                     fix="use fft, or pass x.real."))
        if dtypes.is_inexact(dtype):
            return unchanged(x)
        return ew.convert(x, np.dtype("f8" if dtype.itemsize == 8 else "f4"))
    if dtype.kind == "c":
        return unchanged(x)
    return ew.convert(x, np.dtype("c16" if dtype.itemsize == 8 else "c8"))


def fft(x: Any, fft_type: Any, fft_lengths: Any) -> Any:
    """The discrete Fourier transform over the last axes.

    X[k] = sum over j of x[j] exp(-2 pi i j k / n); IFFT has the other sign, and divides by n.

    Args:
      x: array; the last len(fft_lengths) axes are transformed.
      fft_type: FftType.FFT, IFFT, RFFT (real to n // 2 + 1 complex elements along the last axis)
        or IRFFT (back), or its name.
      fft_lengths: sizes of the transformed axes, at most three; for IRFFT those of the result.

    Returns:
      A complex array, for IRFFT a real one.

    Raises:
      TypeError: fft_type is no FftType.
      ValueError: a size does not fit, fft_type is unknown, or RFFT is asked of complex numbers.

    Example:
      >>> import numpy as np
      >>> from calque import lax
      >>> lax.fft(np.array([1, 2, 3, 4], np.float32), lax.FftType.RFFT, (4,))
      Array([10.+0.j, -2.+2.j, -2.+0.j], dtype=complex64)
    """
    kind = as_fft_type(fft_type)
    if not hasattr(fft_lengths, "__len__"):
        raise TypeError(explain(
            f"fft: fft_lengths of type '{type(fft_lengths).__name__}' has no len().",
            fix="pass a tuple of sizes, one for each transformed axis."))
    lengths = tuple(as_size("fft", n) for n in fft_lengths)
    x = as_operand("fft", x)
    with lazy_eval("fft"):
        made = as_input(x, kind)
        return transform(made, kind, lengths) if lengths else made


__all__ = ["FftType", "fft"]
