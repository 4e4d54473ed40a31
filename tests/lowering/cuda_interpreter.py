"""Runs the kernels for CUDA on the CPU, by Triton's interpreter, against NumPy in float64.

    TRITON_INTERPRET=1 python tests/lowering/cuda_interpreter.py lowering/kernels/cuda

Needs triton and no GPU.  test_cuda_kernels.py starts it (slow).
"""
from __future__ import annotations

import itertools
import sys
from typing import Any

import ml_dtypes
import numpy as np
import triton.runtime.jit as jit

KINDS = {"float32": "fp32", "float16": "fp16", "int32": "i32", "int16": "i16", "int8": "i8",
         "int64": "i64"}
# Sums of 65 products of numbers below 1, in another order than NumPy's: a few eps (of float16's
# operands none is lost: products of 11 bits are exact in float32)
BOUND = 2e-6


class Storage:
    def __init__(self, array: Any) -> None:
        self.array = array

    def data_ptr(self) -> Any:
        return self.array.ctypes.data

    def cpu(self) -> Storage:
        return Storage(self.array)

    def copy_(self, other: Storage) -> None:
        if other.array is not self.array:
            self.array[...] = other.array


class Tensor:
    """As much of torch's tensors as the interpreter asks for, over an array of NumPy's."""

    def __init__(self, array: Any) -> None:
        self.array, self.dtype = array, KINDS[array.dtype.name]

    def data_ptr(self) -> Any:
        return self.array.ctypes.data

    def untyped_storage(self) -> Storage:
        return Storage(self.array)

    def new_empty(self, size: Any, device: Any) -> Tensor:
        return Tensor(self.array)

    def set_(self, storage: Storage, *_: Any) -> None:
        self.array = storage.array

    def storage_offset(self) -> int:
        return 0

    def size(self) -> Any:
        return self.array.shape

    def stride(self) -> Any:
        return ()


def run(kernel: Any, grid: Any, *args: Any, **constants: Any) -> None:
    kernel[grid](*[Tensor(a) if isinstance(a, np.ndarray) else a for a in args], **constants)


def compare(name: str, got: Any, want: Any) -> None:
    """Equal where not finite, else within BOUND of the largest."""
    got, want = np.asarray(got, np.float64), np.asarray(want, np.float64)
    there = np.isfinite(want)
    assert np.array_equal(np.isfinite(got), there), f"{name}: other places are finite"
    assert np.array_equal(np.isnan(got), np.isnan(want)), f"{name}: NaN elsewhere"
    assert np.array_equal(got[~there & ~np.isnan(want)], want[~there & ~np.isnan(want)]), name
    scale = np.abs(want[there]).max(initial=1e-30)
    error = np.abs(got[there] - want[there]).max(initial=0) / scale
    print(f"{name}: {error:.1e}", flush=True)
    assert error < BOUND, name


def parts(n: int, by: int) -> int:
    return -(-n // by)


def products(kernels: Any, rng: Any) -> None:
    for (batch, m, n, k), layout, count, special in (
            ((1, 40, 24, 65), "nn", 1, None), ((1, 40, 24, 65), "nt", 1, None),
            ((1, 40, 24, 65), "tn", 1, None), ((3, 17, 33, 64), "nn", 1, None),
            ((1, 1, 5, 7), "nn", 1, None), ((1, 16, 16, 300), "nt", 3, None),
            ((1, 33, 20, 40), "nn", 1, np.nan), ((1, 33, 20, 40), "tn", 1, np.inf)):
        a, b = (rng.random(s, np.float32) * 2 - 1 for s in ((batch, m, k), (batch, k, n)))
        if special is not None:
            a[0, 3, 5] = special
        x = np.ascontiguousarray(a.swapaxes(1, 2)) if layout[0] == "t" else a
        y = np.ascontiguousarray(b.swapaxes(1, 2)) if layout[1] == "t" else b
        span = parts(parts(k, count), 128) * 128
        made = parts(k, span)
        c = np.full((made, batch, m, n), np.nan, np.float32)
        run(kernels.matmul, (parts(m, 16) * parts(n, 16), batch, made), x, y, c, m, n, k, span,
            m if layout[0] == "t" else k, k if layout[1] == "t" else n, 1, m * k, 0, k * n, 0,
            TA=layout[0] == "t", TB=layout[1] == "t", BM=16, BN=16, BK=32, PRECISION="ieee")
        with np.errstate(invalid="ignore"):
            want = a.astype(np.float64) @ b.astype(np.float64)
        compare(f"matmul {layout} {batch, m, n, k} {special or ''}", c.sum(0), want)
    # a batch of two strides: q, k of (b, n, h, d), products over d for each b and h
    q, k = (rng.random((2, 20, 3, 32), np.float32) for _ in range(2))
    c = np.full((1, 6, 20, 20), np.nan, np.float32)
    run(kernels.matmul, (4, 6, 1), q, k, c, 20, 20, 32, 128, 96, 96, 3, 20 * 96, 32, 20 * 96, 32,
        TA=False, TB=True, BM=16, BN=16, BK=32, PRECISION="ieee")
    compare("matmul, two strides", c.reshape(2, 3, 20, 20),
            np.einsum("bqhd,bkhd->bhqk", *(v.astype(np.float64) for v in (q, k))))
    h = (rng.random((24, 48)) - 0.5).astype(np.float16)
    c = np.full((1, 1, 24, 24), np.nan, np.float32)
    run(kernels.matmul, (4, 1, 1), h, h, c, 24, 24, 48, 128, 48, 48, 1, 0, 0, 0, 0, TA=False,
        TB=True, BM=16, BN=16, BK=16, PRECISION="tf32")
    compare("matmul of float16", c[0, 0], h.astype(np.float64) @ h.astype(np.float64).T)
    for layout in ("nn", "nt"):
        a, b = (rng.random(s, np.float32) for s in ((36, 64), (64, 20)))
        y = np.ascontiguousarray(b.T) if layout == "nt" else b
        c = np.full((1, 1, 36, 20), np.nan, np.float32)
        run(kernels.matmul_tma, (3 * 2, 1, 1), a, y, c, 36, 20, 64, 128, 64, y.shape[1], 1, 0, 0,
            0, 0, TA=False, TB=layout == "nt", BM=16, BN=16, BK=32, PRECISION="ieee")
        compare(f"matmul_tma {layout}", c[0, 0], a.astype(np.float64) @ b.astype(np.float64))


def turns(kernels: Any, rng: Any) -> None:
    for dtype, (count, m, n) in itertools.product(
            (np.int8, np.int16, np.int32, np.int64), ((1, 64, 64), (2, 37, 70), (1, 1, 5))):
        x = rng.integers(-100, 100, (count, m, n)).astype(dtype)
        y = np.zeros((count, n, m), dtype)
        run(kernels.turn, (parts(m, 32) * parts(n, 32), count, 1), x, y, m, n, n, B=32)
        assert np.array_equal(y, x.swapaxes(1, 2)), ("turn", dtype, m, n)
    print("turn: equal")


def convolution(x: Any, w: Any, steps: Any, low: Any, apart: Any, places: Any) -> Any:
    """What `convolve` says, window by window, in float64."""
    (n, h, wide, _), (r, s, _, k) = x.shape, w.shape
    y = np.zeros((n, *places, k))
    for (i, j), (p, q) in itertools.product(np.ndindex(*places), np.ndindex(r, s)):
        a = i * steps[0] - low[0] + p * apart[0]
        b = j * steps[1] - low[1] + q * apart[1]
        if 0 <= a < h and 0 <= b < wide:
            y[:, i, j] += x[:, a, b].astype(np.float64) @ w[p, q].astype(np.float64)
    return y


def convolutions(kernels: Any, rng: Any) -> None:
    for (n, h, wide, c, k), (r, s), steps, low, apart, places in (
            ((2, 7, 6, 20, 24), (3, 3), (1, 1), (1, 1), (1, 1), (7, 6)),
            ((2, 9, 8, 3, 5), (3, 2), (2, 1), (1, 0), (1, 2), (5, 6)),
            ((1, 5, 5, 4, 8), (1, 1), (1, 1), (0, 0), (1, 1), (5, 5)),
            ((1, 1, 30, 6, 7), (1, 5), (1, 3), (0, 2), (1, 1), (1, 10)),
            ((1, 8, 8, 4, 4), (3, 3), (1, 1), (-1, -1), (1, 1), (4, 4)),  # cropped
            ((1, 6, 6, 4, 4), (3, 3), (1, 1), (-1, -1), (-1, -1), (6, 6))):  # from the last tap
        x, w = rng.random((n, h, wide, c), np.float32), rng.random((r, s, c, k), np.float32)
        y = np.full((n, *places, k), np.nan, np.float32)
        words = (n, h, wide, c, *places, k, r, s, *steps, *low, *apart)
        run(kernels.convolve, (parts(y.size // k, 16) * parts(k, 16),), x, w, y, *words, BM=16,
            BN=16, BK=16, PRECISION="ieee")
        compare(f"convolve {words}", y, convolution(x, w, steps, low, apart, places))
        g = rng.random(y.shape, np.float32)
        total = n * places[0] * places[1]
        count = 2 if total > 128 else 1
        span = parts(parts(total, count), 128) * 128
        made = parts(total, span)
        d = np.full((made, r, s, c, k), np.nan, np.float32)
        run(kernels.convolve_weights, (parts(r * s * c, 16) * parts(k, 16), 1, made), x, g, d,
            *words, span, BM=16, BN=16, BK=16, PRECISION="ieee")
        want = np.zeros((r, s, c, k))
        for p, q in np.ndindex(r, s):
            one = np.zeros((r, s, 1, 1))
            one[p, q] = 1
            for channel in range(c):
                seen = convolution(x[..., channel:channel + 1], one, steps, low, apart, places)
                want[p, q, channel] = np.einsum("nijo,nijk->k", seen, g.astype(np.float64))
        compare(f"convolve_weights {words}", d.sum(0), want)


def main(folder: str) -> None:
    usual = jit.mangle_type
    jit.mangle_type = lambda arg, *rest: (
        "*" + arg.dtype if isinstance(arg, Tensor) else usual(arg, *rest))
    assert ml_dtypes
    sys.path.insert(0, folder)
    import triton_kernels
    rng = np.random.default_rng(0)
    for check in (products, turns, convolutions):
        check(triton_kernels, rng)


if __name__ == "__main__":
    main(sys.argv[1])
