"""What fft means: sums over all elements, from exact angles, in double precision.

More oracles of oracle.py, which imports this module at its end.
"""
from __future__ import annotations

from typing import Any

import numpy as np

from calque.lax import FftType
from support.oracle import oracle, wide

Array = np.ndarray[Any, Any]


def _axis(x: Array, axis: int, sign: int) -> Array:
    """The sums along one axis, angles reduced in integers; of quarters of a turn exactly (the
    rounding of pi would be all of an imaginary part that is 0)."""
    n = x.shape[axis]
    k = np.arange(n)
    steps = np.outer(k, k) % max(n, 1)
    quarters = np.array([1, sign * 1j, -1, sign * -1j])[4 * steps // max(n, 1) % 4]
    matrix = np.where(4 * steps % max(n, 1) == 0, quarters,
                      np.exp(sign * 2j * np.pi * steps / max(n, 1)))
    return np.moveaxis(np.tensordot(x, matrix, ([axis], [0])), -1, axis)


@oracle("fft")
def _fft(params: Any, x: Array) -> Array:
    kind, lengths = params["fft_type"].name, params["fft_lengths"]
    x = wide(x).astype(np.complex128)
    axes = range(x.ndim - len(lengths), x.ndim)
    sign = 1 if kind in ("IFFT", "IRFFT") else -1
    if kind == "IRFFT":
        for axis in axes[:-1]:
            x = _axis(x, axis, sign)
        n = lengths[-1]
        k = np.arange(n) if n else np.arange(0)
        mirrored = np.minimum(k, n - k)
        full = np.where(k <= n - k, x[..., mirrored], x[..., mirrored].conj())
        # what the first element, and the middle one, have of imaginary parts does not count
        full = np.where((k == 0) | (2 * k == n), full.real, full)
        x = _axis(full, x.ndim - 1, sign).real
    else:
        for axis in axes:
            x = _axis(x, axis, sign)
        if kind == "RFFT":
            x = x[..., :lengths[-1] // 2 + 1]
    return x / np.prod(lengths) if sign > 0 else x


@oracle("fft_axis")
def _fft_axis(params: Any, *parts: Array) -> list[Array]:
    kind, axis, n = params["kind"], params["axis"], params["n"]
    whole = wide(parts[0]) if kind == "RFFT" else wide(parts[0]) + 1j * wide(parts[1])
    last = np.moveaxis(whole, axis, -1)
    found = np.moveaxis(_fft({"fft_type": FftType[kind], "fft_lengths": (n,)}, last), -1, axis)
    return [found] if kind == "IRFFT" else [found.real, found.imag]
