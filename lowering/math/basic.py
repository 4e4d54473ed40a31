"""Rounding, signs, comparisons of size, neighbours, and remainders of floats.

Start here for what IREE does wrong or slowly in the simplest ops; where its own op is right, these
functions just emit it.
"""
from __future__ import annotations

import numpy as np

from calque.lowering.emit.builder import Builder, Value
from calque.lowering.emit.dtypes import BF16, BOOL, F32, F64, I32, U8, U32, U64, signed, unsigned
from calque.lowering.math.common import (
    BIAS,
    MANTISSA,
    SIGNED,
    bits,
    floating,
    power_of_two,
    with_sign,
)
from calque.lowering.math.convert import SMALL, convert
from calque.lowering.math.region import BodyBuilder, elementwise


@floating
def floor(b: Builder, x: Value) -> Value:
    """The largest integer <= x."""
    return b.floor(x)


@floating
def ceil(b: Builder, x: Value) -> Value:
    """The smallest integer >= x (LLVM's would not link in f64 before SSE4.1)."""
    return -b.floor(-x)


@floating
def round_half_even(b: Builder, x: Value) -> Value:
    """The nearest integer, ties to even (IREE expands its own to slow integer code)."""
    a, magic = abs(x), 2.0 ** MANTISSA[x.dtype]
    if b.relaxed:  # the driver would fold the two constants
        return with_sign(b.round_even(a), x)
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
    infinity, nan = (int(np.asarray(v, x.dtype).view(integer)) & largest
                     for v in (np.inf, np.nan))
    either = b.binary("or", size_x > infinity, size_y > infinity)
    return b.select(either, nan, moved).view(x.dtype)


def nextafter(b: Builder, x: Value, y: Value) -> Value:
    """The next number of the dtype from x towards y (computed on representations)."""
    if x.dtype in (F32, F64):
        return _nextafter_wide(b, x, y)
    return _step_of_bytes(b, x, y) if x.dtype.itemsize == 1 else _step(b, x, y)


def _step_of_bytes(b: Builder, x: Value, y: Value) -> Value:
    """nextafter of floats of a byte, which differ in NaN, infinity, the sign: compared as f32."""
    p, q = convert(b, x, F32), convert(b, y, F32)
    code, form = x.view(U8), SMALL.get(x.dtype)
    sign = 0 if form is None else 1 << form.sign  # (powers of two have none)
    size = code & (sign - 1) if sign else code
    outward = ((p < q) & (p >= 0.0)) | ((p > q) & (p <= 0.0))
    last = code & (0 if form is None or form.one_zero else sign)  # from the smallest, inwards
    moved = b.select(outward, code + 1, b.select(size.eq(1), last, code - 1))
    moved = b.select(p.eq(0.0), b.select(q > 0.0, b.like(code, 1), sign | 1), moved)
    nan = int(np.asarray(np.nan).astype(x.dtype).view(np.uint8))
    result = b.select(p.eq(q), y, moved.view(x.dtype))
    return b.select(b.isnan(p) | b.isnan(q), b.like(code, nan).view(x.dtype), result)


@floating
def rem(b: Builder, x: Value, y: Value) -> Value:
    """x - y trunc(x / y), exact (C's fmod): sign of x; NaN for y = 0 or infinite x."""
    if not isinstance(b, BodyBuilder) or not (b.relaxed or b.vectorizes or x.dtype == F64):
        # right in f32 on CPUs (SPIR-V's is x - y trunc(x / y), rounded); in f64 it does not link
        return b.binary("remainder", x, y)
    a, d = abs(x), abs(y)
    defined = b.binary("and", b.binary("and", a < np.inf, d > 0.0), ~b.isnan(y))
    plain = a < d
    work = b.binary("and", defined, ~plain)
    divided = _long_division if b.relaxed else _by_quotient
    result = divided(b, b.select(work, a, 1.0), b.select(work, d, 1.0))
    return with_sign(b.select(defined, b.select(plain, a, result), np.nan), x)


def _by_quotient(b: BodyBuilder, a: Value, d: Value) -> Value:
    """a mod d of a >= d > 0: of a quotient q that has digits to spare floor(a / d) is right or one
    too large, and q d is the sum of two numbers (Dekker 1971), so that a - q d is exact.  What has
    a larger quotient, or is too large or small for that, is divided digit by digit."""
    spare, most, least = (22, 100, -90) if a.dtype == F32 else (51, 990, -900)
    far = b.binary("or", b.binary("or", a >= d * 2.0 ** spare, a > 2.0 ** most),
                   ~(d >= 2.0 ** least))
    near, by = b.select(far, 1.0, a), b.select(far, 1.0, d)
    q = b.floor(near / by)
    product = q * by
    (q1, q2), (d1, d2) = _halves(q), _halves(by)
    rest = q2 * d2 - (((product - q1 * d1) - q2 * d1) - q1 * d2)  # of q d beside the product
    r = (near - product) - rest
    r = b.select(r < 0.0, r + by, r)

    def divide(r: Value, left: Value) -> list[Value]:
        return [b.select(left > 0, _long_division(b, a, d), r), left - 1]

    return b.loop(lambda _, left: left > 0, divide, [r, far.astype(I32)])[0]


def _halves(x: Value) -> tuple[Value, Value]:
    """x as the sum of two numbers of half as many digits."""
    wide = x * (2.0 ** (12 if x.dtype == F32 else 27) + 1)
    high = wide - (wide - x)
    return high, x - high


def _long_division(b: BodyBuilder, a: Value, d: Value) -> Value:
    """a mod d of a >= d > 0: the mantissas as integers, 11 quotient bits at a time (f32: 8)."""
    dtype, word = a.dtype, U64 if a.dtype == F64 else U32
    one, spare = 1 << MANTISSA[dtype], 8 * dtype.itemsize - MANTISSA[dtype] - 1

    def parts(v: Value) -> tuple[Value, Value]:
        exponent = bits(v) >> MANTISSA[dtype]
        m = bits(v) & (one - 1)
        normal = exponent > 0
        return b.select(normal, m | one, m).view(word), b.select(normal, exponent, 1)

    (m, e), (divisor, f) = parts(a), parts(d)
    m = _divided(b, m, divisor)[1]

    def step(m: Value, left: Value) -> list[Value]:
        count = b.select(left < spare, left, spare)
        return [_divided(b, m << count.view(word), divisor)[1], left - count]

    m, _ = b.loop(lambda m, left: left > 0, step, [m, e - f])
    # m 2^(f - 1075) in f64, in two steps because 2^(f - 1075) may be below the normal range
    power = f - (BIAS[dtype] + MANTISSA[dtype])
    half = power >> 1
    return (m.view(SIGNED[dtype]).astype(dtype) * power_of_two(half, dtype)) * power_of_two(
        power - half, dtype)


# ---- integers
def arithmetic(b: Builder, name: str, x: Value, y: Value) -> Value:
    """`add`, `subtract`, `multiply` or `divide` as IREE has it, where it is right; of bf16 rounded
    each time (IREE's own forms of these round what is stored only; NumPy and XLA do each)."""
    if x.dtype != BF16 or b.relaxed:  # (where b is relaxed all are by bits)
        return b.binary(name, x, y)
    return elementwise(b, lambda e, p, q: e.binary(name, p, q), [x, y], [BF16])[0]


def quotient(b: Builder, x: Value, y: Value) -> Value:
    """Floats."""
    return arithmetic(b, "divide", x, y)


def divide(b: Builder, x: Value, y: Value) -> Value:
    """Integers, towards zero; x / 0 has all bits set, the least / -1 is the least, as in XLA."""
    if not b.relaxed:
        return b.binary("divide", x, y)
    nothing, size, divisor = _magnitudes(b, x, y)
    q = _divided(b, size, divisor)[0].view(x.dtype)
    if x.dtype.kind == "i":
        q = b.select((x ^ y) < 0, -q, q)
    return b.select(nothing, ~b.like(x, 0), q)


def remainder(b: Builder, x: Value, y: Value) -> Value:
    """Integers: the sign of x; x rem 0 is x."""
    if not b.relaxed:
        return b.binary("remainder", x, y)
    nothing, size, divisor = _magnitudes(b, x, y)
    r = _divided(b, size, divisor)[1].view(x.dtype)
    if x.dtype.kind == "i":
        r = b.select(x < 0, -r, r)
    return b.select(nothing, x, r)


def _magnitudes(b: Builder, x: Value, y: Value) -> tuple[Value, Value, Value]:
    """(is y 0, |x|, |y| or 1), unsigned.

    SPIR-V leaves a division by 0 and the least number's by -1 open, and of a negative remainder
    MLIR takes the least number's sign wrongly (tests/lowering/test_vulkan_needs_cures.py).
    """
    word = unsigned(x.dtype)
    nothing = y.eq(0)
    size, divisor = ((abs(v) if x.dtype.kind == "i" else v).view(word) for v in (x, y))
    return nothing, size, b.select(nothing, 1, divisor)


def _divided(b: Builder, x: Value, y: Value) -> tuple[Value, Value]:
    """(x // y, x % y), unsigned, y > 0.

    By signed division: of vectors of one number, which IREE makes of as many as threads can take,
    it writes no unsigned one in SPIR-V (tests/lowering/test_vulkan_needs_cures.py).  Half of x has
    no sign, nor has y below half of the range; twice the quotient is short by one at most.
    """
    if not b.relaxed:
        return b.binary("divide", x, y), b.binary("remainder", x, y)
    word, narrow = signed(x.dtype), x.dtype
    if narrow.itemsize < 4:
        p, q = x.astype(U32).view(I32), y.astype(U32).view(I32)
        quotient = b.binary("divide", p, q)
        found = quotient, p - quotient * q
        return found[0].view(U32).astype(narrow), found[1].view(U32).astype(narrow)
    large = y.view(word) < 0
    divisor = b.select(large, 1, y.view(word))
    double = b.binary("divide", (x >> 1).view(word), divisor).view(narrow) << 1
    short = b.select(large, x, x - double * y) >= y
    quotient = b.select(large, 0, double) + b.select(short, b.like(x, 1), 0)
    return quotient, x - quotient * y


def leading_zeros(b: Builder, x: Value) -> Value:
    """Of an integer's bits; SPIR-V counts those of 32-bit integers only."""
    width = 8 * x.dtype.itemsize
    if not b.relaxed or width == 32:
        return b.unary("count_leading_zeros", x)
    u = x.view(unsigned(x.dtype))
    if width < 32:
        n = b.unary("count_leading_zeros", u.astype(U32)) - (32 - width)
        return n.astype(u.dtype).view(x.dtype)
    upper, lower = ((v.astype(U32)) for v in (u >> 32, u))
    n = b.select(upper.eq(0), b.unary("count_leading_zeros", lower) + 32,
                 b.unary("count_leading_zeros", upper))
    return n.astype(u.dtype).view(x.dtype)
