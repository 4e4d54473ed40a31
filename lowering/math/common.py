"""What every decomposition shares: dtypes, Horner's rule, exact rounding, powers of two, and the
wrapper that turns a body for f32 and f64 into a public function of f16, bf16, f32 and f64.
"""
from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from calque.core.types import Dtype
from calque.lowering.emit.builder import Builder, Value
from calque.lowering.emit.dtypes import BF16, F16, F32, F64, I16, I32, I64
from calque.lowering.math.region import elementwise

# mantissa bits, exponent bias, smallest normal number
MANTISSA = {F32: 23, F64: 52}
BIAS = {F32: 127, F64: 1023}
TINY = {F32: 2.0**-126, F64: 2.0**-1022}
SIGNED = {F16: I16, BF16: I16, F32: I32, F64: I64}
# 1.5 * 2^mantissa: adding it leaves the integer part, rounded to even, in the low bits.
# (IREE expands roundeven to some twenty integer ops.)
MAGIC = {F32: 1.5 * 2.0**23, F64: 1.5 * 2.0**52}


def floating(body: Callable[..., Value]) -> Callable[..., Value]:
    """Public form of a body(b, *xs) -> Value for f32 and f64 of one dtype.

    f16 and bf16 are computed in f32 and rounded once at the end.
    """

    @functools.wraps(body)
    def public(b: Builder, *xs: Value) -> Value:
        dtype = xs[0].dtype

        def widened(inner: Builder, *vs: Value) -> Value:
            if dtype in (F16, BF16):
                return narrow(body(inner, *[widen(v) for v in vs]), dtype)
            return body(inner, *vs)

        return elementwise(b, widened, xs, [dtype])[0]

    return public


def widen(x: Value) -> Value:
    """f16 or bf16 to f32, exactly."""
    return x.astype(F32)


def narrow(x: Value, dtype: Dtype) -> Value:
    """f32 to f16 or bf16, to nearest even."""
    return x.astype(dtype)


def horner(x: Value, coefficients: Sequence[float]) -> Value:
    """Polynomial in x, highest coefficient first."""
    result = x.b.like(x, coefficients[0])
    for c in coefficients[1:]:
        result = result * x + c
    return result


def round_small(x: Value) -> Value:
    """Nearest integer, ties to even, for |x| < 2^22 (f32) or 2^51 (f64)."""
    if x.b.relaxed:  # the driver would fold the two constants
        return x.b.round_even(x)
    return (x + MAGIC[x.dtype]) - MAGIC[x.dtype]


def integral(x: Value) -> Value:
    """Whether x is an integer or infinite.

    Of floor(x) == x LLVM makes trunc(x) == x, which CPUs before SSE4.1 lack, and nobody supplies it
    (tests/lowering/test_symbols.py).
    """
    return x.b.floor(x) >= x


def odd(x: Value) -> Value:
    """Whether an integral x is odd (large ones are even)."""
    return ~integral(x * 0.5)


def bits(x: Value) -> Value:
    """The representation as a signed integer."""
    return x.view(SIGNED[x.dtype])


def negative(x: Value) -> Value:
    """True where the sign bit is set (-0 and negative NaN included)."""
    return bits(x) < 0


def with_sign(magnitude: Value, sign: Value) -> Value:
    """magnitude (>= 0 or NaN) with the sign bit of `sign` (copysign)."""
    width = 8 * sign.dtype.itemsize
    return (bits(magnitude) | (bits(sign) & (-1 << (width - 1)))).view(magnitude.dtype)


def power_of_two(n: Value, dtype: Dtype) -> Value:
    """2^n for an integer n in the normal range of dtype (n is i32 or i64 as wide as dtype)."""
    return ((n + BIAS[dtype]) << MANTISSA[dtype]).view(dtype)


def scale(x: Value, n: Value) -> Value:
    """x * 2^n for |n| up to twice the exponent range, rounded once where x is O(1)."""
    half = n >> 1
    return x * power_of_two(half, x.dtype) * power_of_two(n - half, x.dtype)


def as_index(n: Value) -> Value:
    """An integral float |n| < 2^22 (2^51) as the signed integer of its width, without cvt."""
    if n.b.relaxed:
        return n.astype(SIGNED[n.dtype])
    magic = MAGIC[n.dtype]
    offset: Any = np.asarray(magic, n.dtype).view(SIGNED[n.dtype])
    return bits(n + magic) - int(offset)
