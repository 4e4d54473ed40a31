"""fft: discrete Fourier transforms of the last one to three axes, complex or real.

RFFT and IRFFT treat the last axis as real: it has n // 2 + 1 complex elements for n real ones.
Every kind is linear; cotangents of real transforms follow JAX's convention (no conjugation).
Start reading at `_transpose`.
"""
from __future__ import annotations

import enum
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from calque.core import dtypes
from calque.core.avals import ShapedArray, dtype_of, ndim_of, shape_of
from calque.core.errors import explain
from calque.core.primitive import Primitive
from calque.core.types import Shape
from calque.primitives import elementwise as ew
from calque.primitives import shape as sh
from calque.transforms.jvp import linear_jvp
from calque.transforms.vmap import to_front

MOST_AXES = 3


class FftType(enum.IntEnum):
    """Which transform: of complex numbers, its inverse, of real ones, its inverse.

    Example:
      >>> from calque import lax
      >>> lax.FftType["RFFT"] is lax.FftType.RFFT
      True
    """

    FFT = 0
    IFFT = 1
    RFFT = 2
    IRFFT = 3


fft_p = Primitive("fft", weight=16)


def fft(x: Any, kind: FftType, lengths: Sequence[int]) -> Any:
    return fft_p.bind(x, fft_type=kind, fft_lengths=tuple(lengths))


def _abstract(x: ShapedArray, *, fft_type: FftType, fft_lengths: Shape) -> ShapedArray:
    real = fft_type is FftType.RFFT
    name, count = fft_type.name, len(fft_lengths)
    accepted = ("float32", "float64") if real else ("complex64", "complex128")
    if x.dtype.name not in accepted:
        raise (ValueError if real else TypeError)(explain(
            f"{name} input must be {accepted[0]} or {accepted[1]}, got {x.dtype.name}",
            fix="cast it with .astype(...)."))
    if not 1 <= count <= MOST_AXES:
        raise ValueError(explain(f"fft: rank must be between 1 and {MOST_AXES}, but got {count}.",
                                 fix="transform the other axes by a second call."))
    if x.ndim < count:
        raise ValueError(explain(
            f"{name} input shape {x.shape} must have at least as many input dimensions as "
            f"fft_lengths {fft_lengths}."))
    lead, own = x.shape[:-count], x.shape[-count:]
    if fft_type is FftType.IRFFT:
        half = fft_lengths[-1] // 2 + 1
        if own[:-1] != fft_lengths[:-1]:
            raise ValueError(explain(
                f"{name} input shape {x.shape} minor dimensions must be equal to all except the "
                f"last fft_length, got fft_lengths={fft_lengths}"))
        if fft_lengths[-1] < 0 or (own[-1] != half and fft_lengths[-1]):
            raise ValueError(explain(
                f"IRFFT requires innermost dimension to be compatible with fft_length[-1]/2+1. "
                f"Got: {own[-1]} but fft_length is {fft_lengths[-1]}.",
                fix=f"pass {half} elements along the last axis."))
        return ShapedArray((*lead, *fft_lengths), np.dtype(f"f{x.dtype.itemsize // 2}"))
    if own != fft_lengths:
        raise ValueError(explain(
            f"{name} input shape {x.shape} minor dimensions must be equal to fft_lengths "
            f"{fft_lengths}"))
    if not real:
        return ShapedArray(x.shape, x.dtype)
    if not own[-1]:
        raise ValueError(explain(f"RFFT needs at least one element along the last axis, got "
                                 f"shape {x.shape}."))
    return ShapedArray((*x.shape[:-1], own[-1] // 2 + 1), np.dtype(f"c{2 * x.dtype.itemsize}"))


def _transpose(ct: Any, x: Any, *, fft_type: FftType, fft_lengths: Shape) -> list[Any]:
    """The matrix of a complex transform is symmetric.

    RFFT is the complex one of (x, 0) with the rest cut off; IRFFT takes each element but the first
    and, for even n, the last one twice.
    """
    if fft_type in (FftType.FFT, FftType.IFFT):
        return [fft(ct, fft_type, fft_lengths)]
    n = fft_lengths[-1]
    if fft_type is FftType.RFFT:
        missing = n - shape_of(ct)[-1]
        config = [(0, 0, 0)] * (ndim_of(ct) - 1) + [(0, missing, 0)]
        return [ew.real(fft(sh.pad(ct, ew.const(ct, 0), config), FftType.FFT, fft_lengths))]
    if not n:  # nothing was computed of whatever there was
        from calque.core.zeros import zeros
        return [zeros(x.aval)]
    half = fft(ct, FftType.RFFT, fft_lengths)
    shape = shape_of(half)
    at = sh.iota(dtypes.int32, (shape[-1],), 0)
    single = ew.eq(at, ew.const(at, 0))
    if n % 2 == 0:
        single = ew.or_(single, ew.eq(at, ew.const(at, n // 2)))
    once = 1 / math.prod(fft_lengths)
    size = dtype_of(ct)
    ones = sh.broadcast_in_dim(np.array(once, size), (shape[-1],), ())
    weight = ew.select_n(single, ew.add(ones, ones), ones)
    weight = ew.convert(weight, dtype_of(half))
    weight = sh.broadcast_in_dim(weight, shape, (len(shape) - 1,))
    return [ew.conj(ew.mul(half, weight))]


def _batch(size: int, args: Sequence[Any], dims: Sequence[int], **params: Any) -> Any:
    return fft_p.bind(to_front(args[0], dims[0], size), **params), 0


fft_p.abstract, fft_p.jvp = _abstract, linear_jvp(fft_p)
fft_p.transpose, fft_p.batch = _transpose, _batch
