"""Samples of fft (see samples.py)."""
from __future__ import annotations

from typing import Any

import numpy as np

from calque.lax import FftType
from support.samples import C64, C128, F32, F64, Sample, op, row, sample

_DEFAULT = "complex64"  # of samples that run in one dtype


def _of(kind: str, *shape: int, axes: int = 1, last: int | None = None) -> Sample:
    """A transform of the last axes; `last`: how many real numbers IRFFT makes."""
    lengths = shape[len(shape) - axes:]
    if last is not None:
        lengths = (*lengths[:-1], last)
    dtype = "f4" if kind == "RFFT" else _DEFAULT
    return sample(f"{kind} {shape} to {lengths}", op(*shape, dtype=dtype),
                  fft_type=FftType[kind], fft_lengths=lengths)


def _first(dtype: Any) -> dict[str, Any]:
    """Real operands get RFFT, complex ones FFT."""
    kind = FftType.FFT if np.dtype(dtype).kind == "c" else FftType.RFFT
    return {"fft_type": kind, "fft_lengths": (6,)}


def _back(dtype: Any) -> dict[str, Any]:
    kind = FftType.IFFT if np.dtype(dtype).kind == "c" else FftType.RFFT
    return {"fft_type": kind, "fft_lengths": (3, 5)}


# lengths: 1, primes, powers, mixed, one with a large prime factor (134 = 2 x 67)
row("fft", (F32, F64, C64, C128), (
    Sample("normal", (op(2, 6),), _first),
    *[_of(kind, 3, n) for n in (1, 2, 5, 64, 100, 128, 134) for kind in ("FFT", "RFFT")],
    _of("IFFT", 12), _of("IFFT", 67), _of("FFT", 20, 7), _of("FFT", 1000),
    *[_of("IRFFT", 2, n // 2 + 1, last=n) for n in (1, 2, 3, 8, 9, 100, 134, 201)],
    _of("FFT", 2, 3, 4, axes=2), _of("IFFT", 2, 3, 4, axes=3), _of("FFT", 18, 18, axes=2),
    _of("RFFT", 2, 3, 4, axes=3), _of("RFFT", 20, 5, axes=2),
    _of("IRFFT", 2, 3, 4, axes=3, last=6), _of("IRFFT", 3, 4, axes=2, last=7),
    _of("FFT", 0, 3), _of("FFT", 3, 0), _of("RFFT", 0, 3), _of("IRFFT", 0, 3, last=4),
    _of("IRFFT", 2, 0, last=0), _of("IRFFT", 2, 1, last=0)),
    linear=(0,), normwise=True,
    specials=(Sample("planes", (op(2, 3, 5),), _back),))


def _along(kind: str, axis: int, *shape: int, n: int | None = None) -> Sample:
    """Of parts, along one axis."""
    parts = [op(*shape) for _ in range(1 + (kind != "RFFT"))]
    return sample(f"{kind} {shape} along {axis}", *parts, kind=kind, axis=axis,
                  n=shape[axis] if n is None else n)


row("fft_axis", (F32, F64), (
    *[_along(kind, 1, 3, n) for n in (2, 5, 64, 134) for kind in ("FFT", "RFFT", "IFFT")],
    *[_along("FFT", a, 3, 8, 9) for a in (0, 1, 2)], _along("RFFT", 0, 1), _along("FFT", 1, 0, 3),
    *[_along("IRFFT", 1, 2, n // 2 + 1, n=n) for n in (1, 2, 3, 8, 134)]), normwise=True)
