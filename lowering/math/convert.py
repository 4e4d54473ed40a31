"""Conversions between all dtypes, with XLA's results.

IREE's own integer-to-float and float-to-float conversions are right (f32 denormals are flushed,
as XLA does).  Ours: float to integer saturates with NaN -> 0 (IREE: undefined); f64 to f16 and bf16
and integers to bf16 round once and keep f16's denormals (IREE: twice, through f32, and flushes);
floats of a byte by integer operations, on their bytes (passes/narrow leaves no other use of them);
bool is x != 0; complex loses its imaginary part, as in lax.
"""
from __future__ import annotations

from dataclasses import dataclass

import ml_dtypes
import numpy as np

from calque.core.dtypes import SMALL_FLOATS, real_dtype
from calque.core.types import Dtype
from calque.lowering.emit import mlir
from calque.lowering.emit.builder import Builder, Value
from calque.lowering.emit.dtypes import BF16, BOOL, F16, F32, F64, I32, I64, U8, U16, U32
from calque.lowering.math.region import elementwise


@dataclass(frozen=True, slots=True)
class Small:
    """A float of a byte: mantissa bits, exponent bias, codes (without sign) of max, infinity, NaN;
    the bit of the sign."""

    mantissa: int
    bias: int
    largest: int
    infinity: int | None  # None: overflow gives NaN, or the largest where there is none
    nan: int | None
    one_zero: bool = False  # "uz": no -0, NaN is the code 0x80
    sign: int = 7


SMALL = {
    np.dtype(ml_dtypes.float8_e3m4): Small(4, 3, 0x6F, 0x70, 0x78),
    np.dtype(ml_dtypes.float8_e4m3): Small(3, 7, 0x77, 0x78, 0x7C),
    np.dtype(ml_dtypes.float8_e4m3b11fnuz): Small(3, 11, 0x7F, None, 0x80, True),
    np.dtype(ml_dtypes.float8_e4m3fn): Small(3, 7, 0x7E, None, 0x7F),
    np.dtype(ml_dtypes.float8_e5m2): Small(2, 15, 0x7B, 0x7C, 0x7E),
    np.dtype(ml_dtypes.float8_e4m3fnuz): Small(3, 8, 0x7F, None, 0x80, True),
    np.dtype(ml_dtypes.float8_e5m2fnuz): Small(2, 16, 0x7F, None, 0x80, True),
    np.dtype(ml_dtypes.float4_e2m1fn): Small(1, 1, 0x7, None, None, sign=3),
}
POWERS = np.dtype(ml_dtypes.float8_e8m0fnu)  # powers of two: an exponent, without sign and zero


def is_float(dtype: Dtype) -> bool:
    """f16, bf16, f32, f64 or a float of a byte."""
    return dtype in (F16, BF16, F32, F64) or dtype in SMALL_FLOATS


def convert(b: Builder, x: Value, dtype: Dtype) -> Value:
    """x as dtype, rounded to nearest even or truncated, saturating for integers."""
    source, dtype = x.dtype, np.dtype(dtype)
    if source == dtype:
        return x
    if source.kind == "c":
        return _from_complex(b, x, dtype)
    if dtype.kind == "c":
        part = real_dtype(dtype)
        re = convert(b, x, part)
        return b.complex(re, b.like(re, 0.0))
    if source in SMALL_FLOATS:
        return convert(b, _decode(b, x), dtype)
    if dtype in SMALL_FLOATS:
        return _encode(b, _to_f32_for_rounding(b, x), dtype)
    if dtype == BOOL:
        return x.ne(0)
    bit = _converted_bool(x)
    if bit is not None and is_float(dtype):
        # of products with a converted bool IREE makes selections: infinity times 0 would be 0
        return b.select(bit, b.splat(1, x.shape, dtype), b.splat(0, x.shape, dtype))
    if is_float(source) and dtype.kind in "iu":
        return _to_integer(b, x, dtype)
    if dtype == BF16 and source.kind in "biu":  # (bools: within regions)
        return _upper_half(_few_bits(x).astype(F32))
    if source == F64 and dtype in (F16, BF16):
        return elementwise(b, lambda _, v: _round_to_odd(v).astype(dtype), [x], [dtype])[0]
    if dtype == BF16 and b.bodies and not b.relaxed:  # (where b is relaxed all are by bits)
        return elementwise(b, lambda _, v: v.astype(BF16), [x], [BF16])[0]
    return x.astype(dtype)


def _converted_bool(x: Value) -> Value | None:
    """The bools whose numbers x is; None where it is something else."""
    v = x.ir
    if not mlir.is_tensor(v):  # an element within a region: IREE's pattern is not for these
        return None
    while str(v.type.element_type) != "i1":
        if mlir.made_by(v.owner) != "stablehlo.convert":
            return None
        v = v.owner.operands[0]
    return Value(x.b, v, x.shape, BOOL)


def _from_complex(b: Builder, x: Value, dtype: Dtype) -> Value:
    if dtype.kind != "c":
        return convert(b, b.real(x), dtype)
    part = real_dtype(dtype)
    return b.complex(convert(b, b.real(x), part), convert(b, b.imag(x), part))


def _to_integer(b: Builder, x: Value, dtype: Dtype) -> Value:
    """Truncation; out of range gives the nearest end, NaN gives 0."""
    if x.dtype in (F16, BF16):
        x = x.astype(F32)
    info = np.iinfo(dtype)
    low, high = float(np.asarray(info.min, x.dtype)), float(np.asarray(info.max, x.dtype))
    representable = int(high) <= info.max
    inside = high if representable else float(np.nextafter(
        np.asarray(high, x.dtype), np.asarray(0, x.dtype)))
    clean = b.select(b.isnan(x), 0.0, x)
    clean = b.select(clean > inside, inside, b.select(clean < low, low, clean))
    result = clean.astype(dtype)
    return result if representable else b.select(x >= high, info.max, result)


def _few_bits(x: Value) -> Value:
    """Integers as ones that f32 holds exactly and bf16 rounds alike: large ones rounded to odd."""
    if x.dtype == BOOL or x.dtype.itemsize < 4:
        return x
    steps = ((24, 8),) if x.dtype.itemsize == 4 else ((24, 12), (36, 26), (50, 40))
    for size, drop in steps:  # 2**size and above: what is left has 10 to 24 bits
        top = x >> size
        small = top.eq(0) if x.dtype.kind == "u" else top.eq(0) | top.eq(-1)
        low = (1 << drop) - 1
        sticky = x.b.select((x & low).eq(0), 0, x.b.like(x, 1 << drop))
        x = x.b.select(small, x, (x & ~low if x.dtype.kind == "i" else (x >> drop) << drop)
                       | sticky)
    return x


def _upper_half(x: Value) -> Value:
    """f32 without NaN to bf16 by its bits, to nearest even.

    MLIR makes one step of integer to f32 to bf16, and LLVM of that a call of __truncsfbf2 where the
    CPU has no bf16, which nothing supplies (tests/lowering/test_compile.py).
    """
    u = x.view(U32)
    return ((u + 0x7FFF + ((u >> 16) & 1)) >> 16).astype(U16).view(BF16)


def _round_to_odd(x: Value) -> Value:
    """f64 to f32 so that a second rounding, to at most 22 bits, is that of x (Boldo 2008)."""
    i = x.view(I64)
    low = (1 << 29) - 1
    sticky = x.b.select((i & low).eq(0), 0, x.b.like(i, 1 << 29))
    return ((i & ~low) | sticky).view(F64).astype(F32)


def _to_f32_for_rounding(b: Builder, x: Value) -> Value:
    if x.dtype == F64:
        return elementwise(b, lambda _, v: _round_to_odd(v), [x], [F32])[0]
    return x.astype(F32)


def _encode(b: Builder, x: Value, dtype: Dtype) -> Value:
    """f32 to a float of a byte by its bits, to nearest even."""
    if dtype == POWERS:
        return _exponent(b, x.view(U32)).astype(U8).view(dtype)
    form = SMALL[dtype]
    u = x.view(U32)
    sign = (u >> (31 - form.sign)) & (1 << form.sign)
    size = u & 0x7FFFFFFF
    drop = 23 - form.mantissa
    # normal: add just under half, plus the bit that makes ties even; then move the bias
    even = (size >> drop) & 1
    rebias = (127 - form.bias) << form.mantissa
    normal = ((size + ((1 << (drop - 1)) - 1) + even) >> drop) - rebias
    # below the smallest normal: adding 2^k leaves the rounded multiple of the denormal in the
    # low bits of the sum
    anchor = np.float32(2.0 ** (1 - form.bias - form.mantissa + 23))
    denormal = (size.view(F32) + float(anchor)).view(U32) - int(anchor.view(U32))
    smallest = int(np.float32(2.0 ** (1 - form.bias)).view(U32))
    code = b.select(size < smallest, denormal, normal)
    over = form.infinity if form.infinity is not None else (
        form.largest if form.nan is None else form.nan)
    # the encoded normal number exceeds the largest code exactly on overflow (size is not tiny)
    beyond = b.binary("and", size >= smallest, normal > form.largest)
    code = b.select(beyond, over, code)
    none = size > 0x7F800000
    if form.nan is None:  # -0: JAX's choice
        code = b.select(none, 1 << form.sign, code | sign)
    elif form.one_zero:
        code = b.select(none, form.nan, code)
        plain = b.binary("or", code.eq(0), code.eq(0x80))
        code = b.select(plain, code, code | sign)
    else:
        code = b.select(none, form.nan, code) | sign
    return code.astype(U8).view(dtype)


def _exponent(b: Builder, u: Value) -> Value:
    """The exponents of f32 by their bits, halves rounded up; 255 where it is no positive number."""
    half = b.select(u < 0x00800000, b.like(u, 0x003FFFFF), 0x00400000)
    code = (u + half) >> 23
    return b.select(b.binary("or", u.eq(0), u >= 0x7F800000), 255, code)


def _decode(b: Builder, x: Value) -> Value:
    """A float of a byte to f32 by its bits, exactly."""
    code = x.view(U8).astype(U32)
    if x.dtype == POWERS:
        value = b.select(code.eq(0), b.like(code, 0x00400000), code << 23)
        return b.select(code.eq(255), 0x7FC00000, value).view(F32)
    form = SMALL[x.dtype]
    top = 1 << form.sign
    sign, size = (code & top) << (31 - form.sign), code & (top - 1)
    normal = ((size << (23 - form.mantissa)) + ((127 - form.bias) << 23)).view(F32)
    denormal = size.view(I32).astype(F32) * 2.0 ** (1 - form.bias - form.mantissa)
    value = b.select(size < (1 << form.mantissa), denormal, normal)
    if form.one_zero:
        value = b.select(code.eq(form.nan or 0), np.nan, value)
    elif form.nan is not None:
        if form.infinity is not None:
            value = b.select(size.eq(form.infinity), np.inf, value)
        first_nan = form.nan if form.infinity is None else form.infinity + 1
        value = b.select(size >= first_nan, np.nan, value)
    return (value.view(U32) | sign).view(F32)
