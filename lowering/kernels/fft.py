"""Transforms by the C kernels (lowering/native/fft.c).

A long line that stands alone is the columns and then the rows of a matrix: two dispatches, the
second of which reads what the first has turned (Bailey, "FFTs in external or hierarchical memory",
1990).  A length with a large prime factor is a product of chirps and a convolution with one
(Bluestein).  A call is a dispatch here, and one from inside a kernel in kernels/fft_in_loops.
Start reading at `rows`.
"""
from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Protocol, TypeVar

import numpy as np

from calque.core.dtypes import real_dtype
from calque.core.types import Dtype, Ndarray, Shape
from calque.lowering.emit.builder import Value
from calque.lowering.emit.context import Context
from calque.lowering.kernels import fft_tables
from calque.lowering.kernels.dispatch import Spec
from calque.lowering.kernels.native import emit_native

LONG = 4096  # lines beyond do not fit the second-level cache side by side
SPLIT = 256  # lines from here on are split where there are too few to fill a vector
GROUPS = 8  # workgroups a call is spread over at most
WORTH = 8192  # elements that a workgroup should have
BESIDE = 1 << 17  # bytes of a table that is written beside the code


class Array(Protocol):
    """What a transform reads and writes: a value, or memory in a kernel."""

    @property
    def shape(self) -> Shape: ...

    @property
    def dtype(self) -> Dtype: ...


X = TypeVar("X", bound=Array)


class Calls(Protocol[X]):
    """How the C kernels are called: `groups` workgroups at most."""

    groups: int

    def call(self, entry: str, x: X, table: Ndarray, results: Sequence[Spec],
             scalars: Sequence[int], groups: int) -> list[X]: ...


class Dispatches:
    """By dispatches of a program."""

    groups = GROUPS

    def __init__(self, ctx: Context) -> None:
        self.ctx = ctx

    def call(self, entry: str, x: Value, table: Ndarray, results: Sequence[Spec],
             scalars: Sequence[int], groups: int) -> list[Value]:
        """A kernel that reads a table, which lies beside its code where it is not large: programs
        then have no constants, and may be kernels alone (compiler/stream_module)."""
        if table.nbytes <= BESIDE:
            return emit_native(self.ctx, "fft", entry, [x], results, scalars, groups,
                               tables=[table])
        return emit_native(self.ctx, "fft", entry, [x, self.ctx.b.constant(table)], results,
                           scalars, groups)


def rows(c: Calls[X], x: X, n: int, inverse: bool, real_result: bool = False) -> X:
    """Of each row of n complex numbers; x may be real, two numbers being taken as one (only of
    smooth lengths, as real results)."""
    if not fft_tables.is_smooth(n):
        return _chirp(c, x, n, inverse)
    return _smooth_rows(c, x, n, inverse, 1 / n if inverse else 1.0, real_result)


def _smooth_rows(c: Calls[X], x: X, n: int, inverse: bool, whole: float,
                 real_result: bool = False) -> X:
    """Rows of a smooth length, times `whole`."""
    parts = 2 if x.dtype.kind != "c" else 1
    count = math.prod(x.shape) // (n * parts)
    lanes = 64 // real_dtype(x.dtype).itemsize
    if n <= LONG and (count >= lanes // 2 or n < SPLIT):
        return _lines(c, x, (1, n, count), (0, 1, n), (0, 1, n), inverse, whole, 0,
                      real_result, (count, n))
    p, q = fft_tables.halves(n)
    turned = _lines(c, x, (count, p, q), (n, q, 1), (n, q, 1), inverse, 1.0, n, False,
                    (count, n))
    return _lines(c, turned, (count, q, p), (n, 1, q), (n, p, 1), inverse, whole, 0,
                  real_result, (count, n))


def has_axis(n: int, inner: int, dtype: Dtype) -> bool:
    """Whether lines that lie across `inner` columns are taken where they are."""
    return fft_tables.is_smooth(n) and n <= LONG and inner >= 32 // real_dtype(dtype).itemsize


def axis(c: Calls[X], x: X, inverse: bool) -> X:
    """Along the middle axis of (outer, n, inner)."""
    outer, n, inner = x.shape
    strides = (n * inner, inner, 1)
    return _lines(c, x, (outer, n, inner), strides, strides, inverse,
                  1 / n if inverse else 1.0, 0, False, x.shape)


def real_rows(c: Calls[X], x: X) -> X:
    """Rows of 2 m real numbers to m + 1 complex ones; m is smooth."""
    count, m = x.shape[0], x.shape[1] // 2
    made = rows(c, x, m, False)
    return _pairs(c, made, count, m, False)


def rows_to_real(c: Calls[X], x: X) -> X:
    """The inverse of real_rows."""
    count, m = x.shape[0], x.shape[1] - 1
    return rows(c, _pairs(c, x, count, m, True), m, True, True)


def _pairs(c: Calls[X], x: X, count: int, m: int, back: bool) -> X:
    """From m complex elements to the m + 1 of twice as many real ones, or back."""
    table = fft_tables.real_table(m)
    return _call(c, "real", x, table, (count, m if back else m + 1), (count, m, int(back)))


def _chirp(c: Calls[X], x: X, n: int, inverse: bool) -> X:
    """Rows of any length n."""
    count = math.prod(x.shape) // n
    m = fft_tables.padded(2 * n - 1)
    chirp, kernel = (fft_tables.interleaved(t.real, t.imag) for t in fft_tables.chirp(n, m))
    x = _call(c, "times", x, chirp, (count, m), (count, n, n, m, int(inverse)))
    x = _smooth_rows(c, x, m, inverse, 1.0)
    x = _call(c, "times", x, kernel, (count, m), (count, m, m, m, int(inverse)))
    x = _smooth_rows(c, x, m, not inverse, 1.0)
    scale = 1 / n if inverse else 1.0
    return _call(c, "times", x, chirp * scale, (count, n), (count, n, m, n, int(inverse)))


def _call(c: Calls[X], entry: str, x: X, table: Ndarray,
          shape: tuple[int, int], scalars: tuple[int, ...]) -> X:
    """One of the kernels that run over elements."""
    real = real_dtype(x.dtype)
    suffix = "c64" if real.itemsize == 4 else "c128"
    groups = max(1, min(c.groups, math.prod(shape) // WORTH))
    return c.call(f"calque_fft_{entry}_{suffix}", x, table.astype(real), [(shape, x.dtype)],
                  scalars, groups)[0]


def _lines(c: Calls[X], x: X, sizes: tuple[int, int, int], read: tuple[int, int, int],
           written: tuple[int, int, int], inverse: bool, scale: float, whole: int,
           real_result: bool, shape: Shape) -> X:
    """One call: (outer, n, lanes) lines, with the strides of outer, elements and lanes."""
    outer, n, lanes = sizes
    real = real_dtype(x.dtype)
    table = fft_tables.line_table(n, scale, lanes if whole else 0, whole)
    width = 64 // real.itemsize
    blocks = outer * -(-lanes // width)
    groups = max(1, min(c.groups, blocks, outer * n * lanes // WORTH))
    dtype = real if real_result else np.dtype(f"c{2 * real.itemsize}")
    result = (*shape[:-1], 2 * shape[-1]) if real_result else shape
    work = groups * (4 * n + 8) * width
    scalars = [1 if x.dtype.kind != "c" else 2, 1 if real_result else 2, *sizes, *read, *written,
               fft_tables.packed(fft_tables.passes(n)), int(whole > 0), int(inverse)]
    suffix = "c64" if real.itemsize == 4 else "c128"
    return c.call(f"calque_fft_{suffix}", x, table.astype(real),
                  [(result, dtype), ((work,), real)], scalars, groups)[0]
