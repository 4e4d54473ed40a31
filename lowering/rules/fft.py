"""fft, axis by axis.  IREE's own stablehlo.fft (powers of two in f32 alone) is never emitted.

Real transforms of even length run as complex ones of half the length.  Lines along an axis are
taken by the C kernel where it is linked (kernels/fft.py), else by StableHLO: products with small
dense matrices, factor by factor (Stockham's order: no shuffling at the end).  Lengths with large
prime factors are Bluestein's chirps.  Tables: lowering/kernels/fft_tables.py.  Start reading at
`_fft`.
"""
from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from calque.core.types import Dtype, Shape
from calque.lowering.emit.builder import Builder, Value
from calque.lowering.emit.context import Context
from calque.lowering.emit.dtypes import I32
from calque.lowering.emit.registry import Op, rule
from calque.lowering.kernels import fft as kernel
from calque.lowering.kernels import fft_tables
from calque.lowering.kernels.forms import form_of
from calque.lowering.rules.contract import emit_dot

RADIX = 64  # the largest dense matrix
TABLE = 4096  # twiddles beyond are products from two small tables
Pair = tuple[Value, Value]  # real and imaginary part


@rule("fft")
def _fft(op: Op) -> Value:
    b, x, out = op.b, op.x, op.out
    if 0 in out.shape:
        return b.splat(0, out.shape, out.dtype)
    kind, lengths = op["fft_type"].name, op["fft_lengths"]
    first = out.ndim - len(lengths)
    inverse = kind in ("IFFT", "IRFFT")
    if kind == "RFFT":
        x = _real(op.ctx, x)
    elif kind == "FFT" or kind == "IFFT":
        x = _axis(op.ctx, x, x.ndim - 1, inverse)
    for axis in reversed(range(first, x.ndim - 1)):
        x = _axis(op.ctx, x, axis, inverse)
    return _back_to_real(op.ctx, x, out.shape[-1]) if kind == "IRFFT" else x


@rule("fft_axis")
def _parts(op: Op) -> list[Value]:
    """One axis of it, of real and imaginary parts: where a loop with such has no kernel."""
    b, kind = op.b, op["kind"]
    if kind == "RFFT":
        z = _real(op.ctx, op.x)
    else:
        z = b.complex(*op.operands)
        if kind == "IRFFT":
            return [_back_to_real(op.ctx, z, op["n"])]
        z = _axis(op.ctx, z, op["axis"], kind == "IFFT")
    return [b.real(z), b.imag(z)]


def _takes(ctx: Context, dtype: Dtype) -> bool:
    """Whether the target's form of fft is the C kernels."""
    return form_of("fft", ctx.target, dtype) == "native" and not ctx.equation.is_dynamic


def _axis(ctx: Context, x: Value, axis: int, inverse: bool) -> Value:
    """The complex transform along one axis."""
    b, shape = ctx.b, x.shape
    n = shape[axis]
    if n == 1:
        return x
    last = len(shape) - 1
    native = _takes(ctx, x.dtype)
    inner = _size(shape[axis + 1:])
    if native and axis == last:
        return b.reshape(kernel.rows(kernel.Dispatches(ctx), x, n, inverse), shape)
    if native and kernel.has_axis(n, inner, x.dtype):
        flat = b.reshape(x, (_size(shape[:axis]), n, inner))
        return b.reshape(kernel.axis(kernel.Dispatches(ctx), flat, inverse), shape)
    order = [*[i for i in range(last + 1) if i != axis], axis]
    moved = b.transpose(x, order)
    if native:
        made = kernel.rows(kernel.Dispatches(ctx), moved, n, inverse)
        return b.transpose(b.reshape(made, moved.shape), [int(i) for i in np.argsort(order)])
    rows = b.reshape(moved, (-(-_size(shape) // n), n))
    pair = b.barrier(b.real(rows), b.imag(rows))
    re, im = transform(ctx, (pair[0], pair[1]), inverse)
    made = b.complex(*b.barrier(re, im))
    return b.transpose(b.reshape(made, moved.shape), [int(i) for i in np.argsort(order)])


def _size(shape: Shape) -> Any:
    return prod(shape)


def _rows(b: Builder, x: Value) -> Value:
    return b.reshape(x, (_size(x.shape) // x.shape[-1], x.shape[-1]))


# ---- real transforms along the last axis
def _real(ctx: Context, x: Value) -> Value:
    """n real numbers to n // 2 + 1 complex ones."""
    b, n = ctx.b, x.shape[-1]
    shape = (*x.shape[:-1], n // 2 + 1)
    x = _rows(b, x)
    if n % 2:
        re, im = transform(ctx, (x, b.like(x, 0)), False) if n > 1 else (x, b.like(x, 0))
        half = [_columns(b, part, 0, n // 2 + 1) for part in b.barrier(re, im)]
        return b.reshape(b.complex(*half), shape)
    m = n // 2
    if _takes(ctx, x.dtype) and fft_tables.is_smooth(m):
        return b.reshape(kernel.real_rows(kernel.Dispatches(ctx), x), shape)
    z = b.reshape(x, (x.shape[0], m, 2))
    pair = transform(ctx, (b.index_in_dim(z, 0, 2), b.index_in_dim(z, 1, 2)), False)
    return b.reshape(_unpacked(b, (pair[0], pair[1])), shape)


def _columns(b: Builder, x: Value, start: int, stop: int) -> Value:
    return b.slice_in_dim(x, start, stop, 1)


def _reversed(b: Builder, x: Value) -> Value:
    return b.reverse(x, [1])


def _unpacked(b: Builder, z: Pair) -> Value:
    """With z the transform of x[2j] + i x[2j + 1]: that of x.

    X[k] = (z[k] + conj z[m-k]) / 2 + exp(-2 pi i k / n) (z[k] - conj z[m-k]) / 2i."""
    m = z[0].shape[1]
    re, im = b.barrier(*[b.concatenate([p, _columns(b, p, 0, 1)], 1) for p in z])
    back_re, back_im = _reversed(b, re), _reversed(b, im)
    even = ((re + back_re) * 0.5, (im - back_im) * 0.5)
    odd = ((im + back_im) * 0.5, (back_re - re) * 0.5)
    w = _row_table(b, fft_tables.roots(2 * m, np.arange(m + 1)), re)
    turned = _times(odd, w)
    return b.complex(*b.barrier(even[0] + turned[0], even[1] + turned[1]))


def _back_to_real(ctx: Context, x: Value, n: int) -> Value:
    """n // 2 + 1 complex numbers to n real ones; imaginary parts that must be 0 are not read."""
    b = ctx.b
    shape = (*x.shape[:-1], n)
    x = _rows(b, x)
    count, m = x.shape[0], n // 2
    if n % 2 == 0 and _takes(ctx, x.dtype) and fft_tables.is_smooth(m):
        return b.reshape(kernel.rows_to_real(kernel.Dispatches(ctx), x), shape)
    re, im = b.barrier(b.real(x), b.imag(x))
    if n == 1:
        return b.reshape(re, shape)
    zero = b.splat(0, (count, 1), re.dtype)
    if n % 2:
        up_re, up_im = (_columns(b, p, 1, m + 1) for p in (re, im))
        full = (b.concatenate([_columns(b, re, 0, 1), up_re, _reversed(b, up_re)], 1),
                b.concatenate([zero, up_im, -_reversed(b, up_im)], 1))
        parts = b.barrier(*full)
        out, _ = transform(ctx, (parts[0], parts[1]), True)
        return b.reshape(out, shape)
    # by a mask: IREE lets a slice of a concatenation run beside what writes it (see the test
    # test_slices_of_concatenations_still_race)
    at = b.iota(im.shape, I32, 1)
    (im,) = b.barrier(b.select(at.eq(0) | at.eq(m), b.like(im, 0), im))
    packed = _packed(b, re, im)
    even, odd = transform(ctx, packed, True)
    pairs = [b.reshape(p, (count, m, 1)) for p in b.barrier(even, odd)]
    return b.reshape(b.concatenate(pairs, 2), shape)


def _packed(b: Builder, re: Value, im: Value) -> Pair:
    """The inverse of _unpacked: (X[k] + conj X[m-k] + i exp(2 pi i k / n) (X[k] - conj X[m-k]))
    / 2."""
    m = re.shape[1] - 1
    back_re, back_im = (_columns(b, _reversed(b, p), 0, m) for p in (re, im))
    re, im = _columns(b, re, 0, m), _columns(b, im, 0, m)
    even = ((re + back_re) * 0.5, (im - back_im) * 0.5)
    odd = ((re - back_re) * 0.5, (im + back_im) * 0.5)
    c, s = fft_tables.roots(2 * m, np.arange(m))
    turned = _times(odd, _row_table(b, (s, c), re))  # i conj(w) = s + i c for w = c + i s
    parts = b.barrier(even[0] + turned[0], even[1] + turned[1])
    return parts[0], parts[1]


# ---- complex transforms of rows
def transform(ctx: Context, x: Pair, inverse: bool) -> Pair:
    """Of (rows, n); the inverse exchanges the parts before and after."""
    b, n = ctx.b, x[0].shape[1]
    if n == 1:
        return x
    if _takes(ctx, x[0].dtype):
        made = kernel.rows(kernel.Dispatches(ctx), b.complex(*x), n, inverse)
        return b.real(made), b.imag(made)
    if inverse:
        im, re = transform(ctx, (x[1], x[0]), False)
        return re * (1 / n), im * (1 / n)
    parts = fft_tables.radices(n, RADIX)
    if parts is None:
        return _chirp(ctx, x)
    return _factors(b, x, parts)


def _times(x: Pair, y: Pair) -> Pair:
    return x[0] * y[0] - x[1] * y[1], x[0] * y[1] + x[1] * y[0]


def _row_table(b: Builder, table: Any, like: Value) -> Pair:
    """A table along the last axis, for every row."""
    re, im = (b.broadcast(b.constant(np.asarray(t).astype(like.dtype)), like.shape,
                          (like.ndim - 1,)) for t in table)
    return re, im


def _factors(b: Builder, x: Pair, radices: tuple[int, ...]) -> Pair:
    """The state is (rows, elements still to transform, done): the next factor r of the elements
    (r, m) becomes the slowest digit of what is done."""
    rows, n = x[0].shape
    done, left = 1, n
    for r in radices:
        m = left // r
        re, im = (b.reshape(p, (rows, r, m * done)) for p in x)
        c, s = (b.constant(t.astype(re.dtype)) for t in _matrix(r))

        def dot(p: Value, q: Value, r: int = r, width: int = m * done) -> Value:
            return emit_dot(b, p, q, (((1,), (0,)), ((), ())), p.dtype)

        y: Pair = (dot(re, c) - dot(im, s), dot(re, s) + dot(im, c))
        shape = (rows, m, done, r)
        y = b.reshape(y[0], shape), b.reshape(y[1], shape)
        if m > 1:
            for axes, table in _twiddles(m, r):
                w = [b.broadcast(b.constant(t.astype(re.dtype)), (m, r), axes)
                     if t.shape == (m, r) else _broadcast(b, t.astype(re.dtype), m, r, axes)
                     for t in table]
                y = _times(y, (b.broadcast(w[0], shape, (1, 3)), b.broadcast(w[1], shape, (1, 3))))
        parts = b.barrier(*[b.transpose(p, (0, 1, 3, 2)) for p in y])
        x = parts[0], parts[1]
        done, left = done * r, m
    return b.reshape(x[0], (rows, n)), b.reshape(x[1], (rows, n))


def _matrix(r: int) -> Any:
    """exp(-2 pi i j k / r), by j and k."""
    j = np.arange(r)
    return fft_tables.roots(r, np.outer(j, j))


def _twiddles(m: int, r: int) -> list[Any]:
    """exp(-2 pi i j k / (m r)) by j < m and k < r: (axes of (m, r), table), factors of it.

    Large ones: j = high * step + low."""
    j, k = np.arange(m), np.arange(r)
    step = 64
    if m * r <= TABLE or m % step:
        return [((0, 1), fft_tables.roots(m * r, np.outer(j, k)))]
    return [("high", fft_tables.roots(m * r, np.outer(j[::step], k))),
            ("low", fft_tables.roots(m * r, np.outer(j[:step], k)))]


def _broadcast(b: Builder, t: Any, m: int, r: int, which: str) -> Value:
    """A table of high or low digits of j as one by j and k."""
    high = m // 64
    wide = b.broadcast(b.constant(t), (high, 64, r), (0, 2) if which == "high" else (1, 2))
    return b.reshape(wide, (m, r))


def _chirp(ctx: Context, x: Pair) -> Pair:
    """Bluestein: j k = (j^2 + k^2 - (k - j)^2) / 2 makes of it a convolution with a chirp."""
    b = ctx.b
    rows, n = x[0].shape
    m = fft_tables.padded(2 * n - 1)
    chirp, kernel = fft_tables.chirp(n, m)
    a = _row_table(b, (chirp.real, chirp.imag), x[0])
    zeros = b.splat(0, (rows, m - n), x[0].dtype)
    padded = b.barrier(*[b.concatenate([p, zeros], 1) for p in b.barrier(*_times(x, a))])
    y = transform(ctx, (padded[0], padded[1]), False)
    z = _times(y, _row_table(b, (kernel.real, kernel.imag), y[0]))
    im, re = transform(ctx, (z[1], z[0]), False)  # the inverse; the kernel is over m already
    out = b.barrier(*_times((_columns(b, re, 0, n), _columns(b, im, 0, n)), a))
    return out[0], out[1]
