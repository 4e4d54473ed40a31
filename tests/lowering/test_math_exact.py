"""Functions with one right answer: conversions, integer arithmetic, rounding, remainders."""
from __future__ import annotations

from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest
from math_harness import BF16, F16, F32, F64, FLOATS, LONG, SIZE, Functions, info, samples, specials
from support.harness import drawn

import calque
import calque.numpy as jnp
from calque import aot
from calque.core.config import config
from calque.lowering.math import TABLE, convert, integer_pow
from calque.lowering.math.convert import POWERS, SMALL
from calque.lowering.math.power import integer_power
from calque.lowering.target.targets import TargetError

# the oracles meet NaN and overflow on purpose
pytestmark = pytest.mark.filterwarnings("ignore:.*encountered in:RuntimeWarning")

INTEGERS = [np.dtype(k) for k in ("i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8")]
U8 = np.dtype(np.uint8)
FLOAT8 = (*SMALL, POWERS)
NAMES = {d.name: d for d in (*INTEGERS, *FLOATS.values(), *FLOAT8)}


def to(dtype):
    return lambda b, x: convert(b, x, dtype)


def encode(dtype):
    return lambda b, x: convert(b, x, dtype).view(U8)


def decode(dtype):
    return lambda b, x: convert(b, x.view(dtype), F32)


def some(*kinds):
    """Functions, of which a tenth of each kind is called by default."""
    return Functions({n: f for kind in kinds for n, f in kind.items()}, first=[
        n for i, kind in enumerate(kinds) for n in drawn(list(kind), 0.1, i)[0]])


CONVERSIONS = some(
    {f"{f.name}_to_{i.name}": (to(i), [f]) for f in FLOATS.values() for i in INTEGERS},
    {f"{i.name}_to_{f.name}": (to(f), [i]) for f in FLOATS.values() for i in INTEGERS},
    {f"{f.name}_to_{g.name}": (to(g), [f])
     for f in FLOATS.values() for g in FLOATS.values() if f != g},
    {f"{f.name}_to_bool": (to(np.dtype(bool)), [f]) for f in (F16, F64, np.dtype(np.int32))},
    {f"{s.name}_to_{d.name}": (encode(d), [s])
     for d in FLOAT8 for s in (F64, F32, BF16, NAMES["int32"])},
    {f"{d.name}_to_float32": (decode(d), [U8]) for d in FLOAT8})
INTEGER_OPS = ("div", "rem", "shift_left", "shift_right_logical", "shift_right_arithmetic")
INTEGER = some(
    *[{f"{n}_{d.name}": (TABLE[n], [d, d]) for d in INTEGERS}
      for n in (*INTEGER_OPS, "max", "min")],
    {f"sign_{d.name}": (TABLE["sign"], [d]) for d in INTEGERS},
    {f"pow_{n}": (integer_power, [NAMES[n], NAMES[n]]) for n in ("int8", "int32", "uint16")},
    {f"cube_{d.name}": (lambda b, x: integer_pow(b, x, 3), [d]) for d in (NAMES["int32"], F16)})
ROUNDING = ("floor", "ceil", "round_half_even", "round_half_away", "sign", "is_finite")
BASIC = some(
    *[{f"{n}_{d.name}": (TABLE[n], [d]) for d in FLOATS.values()} for n in ROUNDING],
    *[{f"{n}_{d.name}": (TABLE[n], [d, d]) for d in FLOATS.values()}
      for n in ("nextafter", "max", "min", "rem")])


def integers(dtype, seed):
    """Ends, small numbers, shift counts, and numbers of every size."""
    rng, limits = np.random.default_rng(seed), np.iinfo(dtype)
    n = SIZE // 2
    x = rng.integers(limits.min, limits.max, n, dtype=dtype, endpoint=True)
    x >>= rng.integers(0, 8 * dtype.itemsize, n).astype(dtype)
    width = 8 * dtype.itemsize
    few = np.array([0, 1, 2, 3, 5, 7, width - 1, width, limits.max, limits.min, limits.max - 1],
                   dtype=dtype)
    return np.concatenate([few, np.zeros_like(few) - few, x])


def grid(values, *more):
    g = np.array(np.meshgrid(values, values)).reshape(2, -1).astype(values.dtype)
    return [np.concatenate([p, m])[:SIZE] for p, m in zip(g, more, strict=True)]


def floats(dtype, seed):
    """Samples without denormals, which IREE (as XLA) flushes; halves, and ends of integers."""
    ends = [s * 2.0**k for k in (7, 8, 15, 16, 31, 32, 63, 64) for s in (1, -1)]
    halves = np.arange(-300, 300) / 4
    with np.errstate(all="ignore"):
        extra = np.concatenate([ends, np.nextafter(ends, 0), halves, [65519.99, 65520, 1e5]])
        x = np.concatenate([extra.astype(dtype), samples(dtype, -1000, 1000, seed)])[:SIZE]
        small = np.abs(x.astype(F64)) < float(info(dtype).smallest_normal)
    return np.where(small & (x != 0), np.zeros_like(x), x)


def same(got, want):
    """Equal bits, any NaN equal to any other."""
    got, want = np.asarray(got), np.asarray(want)
    assert got.dtype == want.dtype, (got.dtype, want.dtype)
    if got.dtype.kind in "iub":
        return got == want
    integer = np.dtype(f"u{got.dtype.itemsize}")
    with np.errstate(all="ignore"):
        nan = np.isnan(got.astype(F64)) & np.isnan(want.astype(F64))
    return nan | (got.view(integer) == want.view(integer))


def assert_same(got, want, *xs):
    bad = np.flatnonzero(~same(got, want))[:4]
    assert not len(bad), [(tuple(x[bad] for x in xs), got[bad], want[bad])]


def saturated(x, dtype):
    """What XLA's conversion gives: the nearest end out of range, 0 for NaN."""
    limits = np.iinfo(dtype)
    result = np.zeros(x.shape, dtype)
    for i, v in enumerate(x.astype(F64)):
        if v == v:
            result[i] = max(limits.min, min(limits.max, int(v) if abs(v) < 1e30
                                            else int(np.sign(v)) * 10**30))
    return result


@pytest.mark.parametrize("name", CONVERSIONS.parameters())
def test_conversion(name):
    source, target = name.split("_to_")
    if source in {d.name for d in FLOAT8}:
        x = np.arange(2**info(NAMES[source]).bits, dtype=np.uint8)
        assert_same(CONVERSIONS(name, x), x.view(NAMES[source]).astype(F32), x)
        return
    source = NAMES[source]
    x = integers(source, 1) if source.kind in "iu" else floats(source, 1)[:8192]
    got = CONVERSIONS(name, x)
    with np.errstate(all="ignore"):
        if target == "bool":
            want = x != 0
        elif NAMES[target] in FLOAT8:
            want = x.astype(NAMES[target]).view(U8)
            if target == "float4_e2m1fn" and source.kind not in "iu":  # NaN is -0, as JAX has it
                want = np.where(np.isnan(x.astype(F32)), 8, want)
            if NAMES[target] == POWERS:  # f32's denormals may be 0 on the way
                got = np.where(np.abs(x.astype(F64)) < 2.0**-126, want, got)
            both = np.isnan(want.view(NAMES[target]).astype(F32))
            got = np.where(both & np.isnan(got.view(NAMES[target]).astype(F32)), want, got)
        elif NAMES[target].kind in "iu" and source.kind not in "iu":
            want = saturated(x, NAMES[target])
        else:
            want = x.astype(NAMES[target])
            tiny = float(info(NAMES[target]).smallest_normal)
            if target != "float16":  # f16's denormals are kept
                want = np.where(np.abs(want.astype(F64)) < tiny, want * 0, want)
    assert_same(got, want.astype(got.dtype), x)


def xla_divide(x, y):
    wide = [v.astype(object) for v in (x, y)]
    limits = np.iinfo(x.dtype)
    quotients, rests = [], []
    for p, q in zip(*wide, strict=True):
        if q == 0:
            quotient, rest = (limits.max if limits.min == 0 else -1), p
        else:
            quotient = abs(p) // abs(q) * (1 if (p < 0) == (q < 0) else -1)
            rest = p - quotient * q
            quotient = limits.min if quotient > limits.max else quotient
        quotients.append(quotient)
        rests.append(rest)
    return np.array(quotients, x.dtype), np.array(rests, x.dtype)


def shifted(name, x, amount):
    width = 8 * x.dtype.itemsize
    unsigned = np.dtype(f"u{x.dtype.itemsize}")
    count = amount.view(unsigned)
    inside = count < width
    safe = np.where(inside, count, 0).astype(unsigned)
    if name == "shift_left":
        return np.where(inside, (x.view(unsigned) << safe), 0).astype(unsigned).view(x.dtype)
    if name == "shift_right_logical":
        return np.where(inside, (x.view(unsigned) >> safe), 0).astype(unsigned).view(x.dtype)
    signed = x.view(np.dtype(f"i{x.dtype.itemsize}"))
    return (signed >> np.where(inside, count, width - 1).astype(signed.dtype)).view(x.dtype)


@pytest.mark.parametrize("name", INTEGER.parameters())
def test_integer(name):
    operation, dtype = name.rsplit("_", 1)
    dtype = NAMES[dtype]
    if operation == "cube":
        x = integers(dtype, 1) if dtype.kind == "i" else np.arange(-40, 40).astype(dtype)
        assert_same(INTEGER(name, x), x * x * x, x)
        return
    if operation == "sign":
        x = integers(dtype, 1)
        assert_same(INTEGER(name, x), np.sign(x), x)
        return
    few = integers(dtype, 2)[:22]
    rest = integers(dtype, 3)[:4096]
    x, y = grid(few, rest, np.random.default_rng(4).permutation(rest))
    got = INTEGER(name, x, y)
    if operation in ("div", "rem"):
        want = xla_divide(x, y)[operation == "rem"]
    elif operation in ("max", "min"):
        want = (np.maximum if operation == "max" else np.minimum)(x, y)
    elif operation == "pow":
        modulus = 1 << 8 * dtype.itemsize
        values = [pow(int(p), int(q), modulus) if q >= 0 else
                  (1 if p == 1 or q % 2 == 0 else -1) if abs(int(p)) == 1 else 0
                  for p, q in zip(x, y, strict=True)]
        want = np.array([v % modulus for v in values], np.uint64).astype(f"u{dtype.itemsize}")
        want = want.view(dtype)
    else:
        want = shifted(operation, x, y)
    assert_same(got, want, x, y)


def half_away(x):
    return np.copysign(np.floor(np.abs(x) + LONG(0.5)), x)


@pytest.mark.parametrize("name", BASIC.parameters())
def test_basic(name):
    operation, dtype = name.rsplit("_", 1)
    dtype = NAMES[dtype]
    x = floats(dtype, 1)
    wide = x.astype(LONG) if dtype in (F32, F64) else x.astype(F64)
    with np.errstate(all="ignore"):
        if operation in ROUNDING:
            got = BASIC(name, x)
            function = {"floor": np.floor, "ceil": np.ceil, "round_half_even": np.rint,
                        "round_half_away": half_away, "is_finite": np.isfinite,
                        "sign": lambda v: np.where(np.abs(v) > 0, np.copysign(1, v), v)}
            want = function[operation](wide)
            assert_same(got, want.astype(got.dtype), x)
            return
        few = np.array([0, 1, 2.5, np.inf, np.nan, 3, float(info(dtype).max)]).astype(dtype)
        y = np.random.default_rng(4).permutation(floats(dtype, 2))
        x, y = grid(np.concatenate([few, -few]), x, y)
        got = BASIC(name, x, y)
        if operation == "nextafter":
            want = np.where(x == y, y, np.nextafter(x, y))  # NumPy's f16 gives x
        elif operation == "rem":
            want = np.fmod(x.astype(F64), y.astype(F64)).astype(dtype)
            # below the normal range 0 is right, too
            tiny = np.abs(want.astype(F64)) < float(info(dtype).smallest_normal)
            want = np.where(tiny & (got == 0), np.copysign(np.zeros_like(want), x), want)
        else:
            larger = np.where(operation == "max", x > y, x < y)
            negative = np.signbit(x.astype(F64))
            equal = np.where(negative == (operation == "min"), x, y)
            want = np.where(x == y, equal, np.where(larger, x, y))
            want = np.where(np.isnan(x.astype(F64)), x, np.where(np.isnan(y.astype(F64)), y, want))
    assert_same(got, want.astype(got.dtype), x, y)


def test_specials_of_every_dtype_exist():
    assert all(len(specials(d)) > 90 for d in FLOATS.values())
    assert ml_dtypes.float8_e4m3fn(448) == 448


# ---- integers to bfloat16, at every CPU level: where there are no such instructions, LLVM calls a
# function for some forms of it that nothing supplies

def to_bfloat16(n: int) -> float:
    """An integer rounded once, to eight bits, ties to even."""
    drop = max(0, abs(n).bit_length() - 8)
    return float(round(Fraction(n, 1 << drop)) << drop)  # (round is to even)


@pytest.mark.parametrize("level", [
    "x86-64-v2", "x86-64-v3", *[pytest.param(level, marks=pytest.mark.slow)
                                for level in ("host", "x86-64-v4")]])
def test_integers_to_bfloat16(level: str) -> None:
    values = {d: np.concatenate([integers(d, 3), np.array([
        v for v in (257, 259, 2**24 + 1, 2**24 + 2**16, 2**24 + 2**16 + 1, 2**30 + 2**22 + 1,
                    2**36 + 2**28 + 1, 2**55 + 2**47, 2**55 + 2**47 + 1, 2**62 + 2**54 + 1)
        for v in (v, -v) if np.iinfo(d).min <= v <= np.iinfo(d).max], d)]) for d in INTEGERS}
    bools = np.array([True, False])
    with config.context("calque_cpu", level), calque.enable_x64(True):
        f = calque.jit(lambda bools, xs: [x.astype(BF16) for x in (bools, *xs)])
        try:
            outs = f(bools, list(values.values()))
        except TargetError as error:
            aot.compile(lambda i: i.astype(BF16), "i32[3]", targets=(f"cpu:{level}",))
            pytest.skip(str(error).splitlines()[0])
    for out, x in zip(outs, (bools, *values.values()), strict=True):
        np.testing.assert_array_equal(np.asarray(out, np.float64),
                                      [to_bfloat16(int(v)) for v in x], x.dtype.name)


def test_eager_mixtures_of_bfloat16_and_integers() -> None:
    with config.context("calque_cpu", "x86-64-v2"):
        out = calque.numpy.ones(3, BF16) + calque.numpy.arange(3)
        vander = calque.numpy.vander(calque.numpy.array([4.0], BF16), 3)
    assert out.dtype == BF16 and np.asarray(out, float).tolist() == [1, 2, 3]
    assert np.asarray(vander, float).tolist() == [[16, 4, 1]]


def test_products_with_converted_bools_keep_nan_and_infinity():
    """IREE makes selections of all of them: NaN times 0 was 0, and a gradient through a maximum of
    NaN.  The first three are choices in jax, too (jax 0.10.2 on a CPU), the others are none."""
    x = np.arange(5000, dtype=np.float32) - 3
    c = np.resize(np.array([np.nan, np.inf, -np.inf, -2.0], np.float32), x.shape)

    def products(x, c):
        b = x > 0
        return [b.astype(np.float32) * c, c * b.astype(np.float32), b * c,
                b.astype(np.int32).astype(np.float32) * c, b.astype(np.float16) * c,
                b.astype(ml_dtypes.bfloat16).astype(np.float32) * c]

    with np.errstate(invalid="ignore"):
        wants = [np.where(x > 0, c, np.float32(0))] * 3 + products(x, c)[3:]
    for out, want in zip(calque.jit(products)(x, c), wants, strict=True):
        np.testing.assert_array_equal(np.asarray(out), want)
        numbers = ~np.isnan(want)
        np.testing.assert_array_equal(np.signbit(out)[numbers], np.signbit(want)[numbers])
    x[1] = np.nan
    assert np.isnan(calque.grad(jnp.max)(x)).all()  # 0 of 0 elements
    # (of a mask: as jax's, which chooses there as well)
    np.testing.assert_array_equal(calque.jit(calque.grad(jnp.max))(x), np.zeros(5000))
