"""Rounding, signs, comparisons of size, neighbours, and remainders of floats.

Start here for what IREE does wrong or slowly in the simplest ops; where its own op is right, these
functions just emit it.
"""
from __future__ import annotations

import numpy as np

from calque.lowering.builder import Builder, Value
from calque.lowering.math.common import (
    BOOL,
    F32,
    F64,
    I64,
    MANTISSA,
    SIGNED,
    U64,
    bits,
    floating,
    power_of_two,
    with_sign,
)
from calque.lowering.math.region import BodyBuilder


@floating
def floor(b: Builder, x: Value) -> Value:
    """The largest integer <= x."""
    return b.floor(x)


@floating
def ceil(b: Builder, x: Value) -> Value:
    """The smallest integer >= x."""
    return b.unary("ceil", x)


@floating
def round_half_even(b: Builder, x: Value) -> Value:
    """The nearest integer, ties to even (IREE expands its own to slow integer code)."""
    a, magic = abs(x), 2.0 ** MANTISSA[x.dtype]
    return with_sign(b.select(a < magic, (a + magic) - magic, a), x)


@floating
def round_half_away(b: Builder, x: Value) -> Value:
    """The nearest integer, ties away from zero."""
    a = abs(x)
    whole = b.floor(a)
    return with_sign(b.select(a - whole >= 0.5, whole + 1.0, whole), x)


@floating
def _sign_float(b: Builder, x: Value) -> Value:
    one = with_sign(b.like(x, 1.0), x)
    return b.select(abs(x) > 0.0, one, x)  # +-0 and NaN as they are


def sign(b: Builder, x: Value) -> Value:
    """-1, 0, 1 of floats and integers; +-0 and NaN stay."""
    if x.dtype.kind == "i":
        return b.select(x > 0, 1, b.select(x < 0, b.like(x, -1), b.like(x, 0)))
    if x.dtype.kind in "ub":
        return b.select(x.ne(0), 1, b.like(x, 0))
    return _sign_float(b, x)


def is_finite(b: Builder, x: Value) -> Value:
    """False at infinities and NaN."""
    if x.dtype.kind in "iub":
        return b.splat(True, x.shape, BOOL)
    return abs(x) < np.inf


def maximum(b: Builder, x: Value, y: Value) -> Value:
    """The larger; NaN if either is NaN; +0 above -0; complex: by real part, then imaginary."""
    return _extreme(b, "maximum", "or", "GT", x, y)


def minimum(b: Builder, x: Value, y: Value) -> Value:
    """The smaller; NaN if either is NaN; -0 below +0; complex: by real part, then imaginary."""
    return _extreme(b, "minimum", "and", "LT", x, y)


def _extreme(b: Builder, name: str, logical: str, order: str, x: Value, y: Value) -> Value:
    if x.dtype.kind == "b":
        return b.binary(logical, x, y)
    if x.dtype.kind != "c":
        return b.binary(name, x, y)
    p, q = b.real(x), b.real(y)
    first = b.compare(order, p, q) | (p.eq(q) & b.compare(order, b.imag(x), b.imag(y)))
    return b.select(first, x, y)


def clamp(b: Builder, low: Value, x: Value, high: Value) -> Value:
    """min(max(x, low), high); NaN anywhere gives NaN."""
    return minimum(b, maximum(b, x, low), high)


@floating
def _nextafter_wide(b: Builder, x: Value, y: Value) -> Value:
    return _step(b, x, y)


def _step(b: Builder, x: Value, y: Value) -> Value:
    integer = SIGNED[x.dtype]
    width = 8 * x.dtype.itemsize
    i = x.view(integer)
    j = y.view(integer)
    largest = (1 << (width - 1)) - 1
    size_x, size_y = i & largest, j & largest
    smallest = (j & (-1 << (width - 1))) | 1
    # away from zero when |y| is larger and on the same side
    outward = b.binary("and", (i ^ j) >= 0, size_y > size_x)
    moved = i + b.select(outward, 1, b.like(i, -1))
    moved = b.select(size_x.eq(0), smallest, moved)
    moved = b.select(b.binary("or", i.eq(j), (size_x | size_y).eq(0)), j, moved)
    infinity, nan = (int(np.asarray(v, x.dtype).view(integer)) & largest  # type: ignore[call-overload]
                     for v in (np.inf, np.nan))
    either = b.binary("or", size_x > infinity, size_y > infinity)
    return b.select(either, nan, moved).view(x.dtype)


def nextafter(b: Builder, x: Value, y: Value) -> Value:
    """The next number of the dtype from x towards y (computed on representations)."""
    if x.dtype in (F32, F64):
        return _nextafter_wide(b, x, y)
    return _step(b, x, y)


@floating
def rem(b: Builder, x: Value, y: Value) -> Value:
    """x - y trunc(x / y), exact (C's fmod): sign of x; NaN for y = 0 or infinite x."""
    if x.dtype == F32 or not isinstance(b, BodyBuilder):
        return b.binary("remainder", x, y)  # right in f32; in f64 it does not link
    a, d = abs(x), abs(y)
    defined = b.binary("and", b.binary("and", a < np.inf, d > 0.0), ~b.isnan(y))
    plain = a < d
    work = b.binary("and", defined, ~plain)
    result = _long_division(b, b.select(work, a, 1.0), b.select(work, d, 1.0))
    return with_sign(b.select(defined, b.select(plain, a, result), np.nan), x)


def _long_division(b: BodyBuilder, a: Value, d: Value) -> Value:
    """a mod d of f64 a >= d > 0: the mantissas as integers, 11 quotient bits at a time."""
    one = 1 << MANTISSA[F64]

    def parts(v: Value) -> tuple[Value, Value]:
        exponent = bits(v) >> MANTISSA[F64]
        m = bits(v) & (one - 1)
        normal = exponent > 0
        return b.select(normal, m | one, m).view(U64), b.select(normal, exponent, 1)

    (m, e), (divisor, f) = parts(a), parts(d)
    m = b.binary("remainder", m, divisor)

    def step(m: Value, left: Value) -> list[Value]:
        count = b.select(left < 11, left, 11)
        return [b.binary("remainder", m << count.view(U64), divisor), left - count]

    m, _ = b.loop(lambda m, left: left > 0, step, [m, e - f])
    # m 2^(f - 1075), in two steps because 2^(f - 1075) may be below the normal range
    half = (f - 1075) >> 1
    return (m.view(I64).astype(F64) * power_of_two(half, F64)) * power_of_two(f - 1075 - half, F64)
