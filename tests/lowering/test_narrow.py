"""Numbers of less than a byte and powers of two: all of them, compiled and eager, against Python's
integers, NumPy's float32 and ml_dtypes' rounding.  (Floats: tests/lowering/test_float8.py.)"""
from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import calque
from calque import lax
from calque.core import dtypes
from calque.core.primitive import registry
from calque.core.program import Program
from calque.lowering.passes.narrow import has_small, narrowed

INTEGERS = [ml_dtypes.int4, ml_dtypes.uint4, ml_dtypes.int2, ml_dtypes.uint2]
FLOATS = [d.type for d in dtypes.SMALL_FLOATS]
POWERS = ml_dtypes.float8_e8m0fnu


def mostly_slow(kinds: list[Any], *kept: Any) -> list[Any]:
    """Of some by NumPy's rules, which run what lowering writes; the rest compiled, and slow."""
    return [pytest.param(k, way, marks=[] if k in kept and way == "eager" else [pytest.mark.slow])
            for k in kinds for way in ("eager", "compiled")]


def every_of(dtype: Any) -> Any:
    """All numbers of a dtype."""
    if dtype in FLOATS:
        return np.arange(2**ml_dtypes.finfo(dtype).bits, dtype=np.uint8).view(dtype)
    info = ml_dtypes.iinfo(dtype)
    return np.arange(info.min, info.max + 1).astype(dtype)


def wrap(x: Any, dtype: Any) -> Any:
    """Integers modulo the range of a dtype."""
    info = ml_dtypes.iinfo(dtype)
    return ((np.asarray(x, np.int64) - int(info.min)) % 2**info.bits + int(info.min)).astype(dtype)


def same(got: Any, want: Any, name: str = "") -> None:
    got, want = np.asarray(got), np.asarray(want)
    assert got.dtype == want.dtype, (name, got.dtype, want.dtype)
    kind = np.float32 if dtypes.is_float(got.dtype) else np.int64 if dtypes.is_small(
        got.dtype) else got.dtype
    np.testing.assert_array_equal(got.astype(kind), want.astype(kind), err_msg=name)
    if dtypes.is_small(got.dtype) and got.dtype.type not in FLOATS:  # as bytes, too
        np.testing.assert_array_equal(got.view(np.uint8), want.view(np.uint8), err_msg=name)


def run(way: str, f: Callable[..., Any], *args: Any) -> list[Any]:
    """What a function gives compiled, or eagerly."""
    return list((calque.jit(f) if way == "compiled" else f)(*args))


def truncated(x: int, y: int) -> int:
    return -1 if y == 0 else abs(x) // abs(y) * (1 if (x < 0) == (y < 0) else -1)


def rest(x: int, y: int) -> int:
    return x if y == 0 else x - y * truncated(x, y)


def unsigned(x: int, bits: int) -> int:
    return x % 2**bits


@pytest.mark.parametrize("dtype, way", mostly_slow(INTEGERS, ml_dtypes.int4))
def test_integers(dtype: Any, way: str) -> None:
    """All pairs."""
    every = every_of(dtype)
    bits = ml_dtypes.iinfo(dtype).bits
    x, y = np.repeat(every, len(every)), np.tile(every, len(every))
    pairs = [(int(p), int(q)) for p, q in zip(x, y)]
    binary: dict[str, Callable[[int, int], int]] = {
        "add": operator.add, "sub": operator.sub, "mul": operator.mul, "div": truncated,
        "rem": rest, "max": max, "min": min, "bitwise_and": operator.and_,
        "bitwise_or": operator.or_, "bitwise_xor": operator.xor,
        "shift_left": lambda p, q: p << unsigned(q, bits),
        "shift_right_arithmetic": lambda p, q: p >> unsigned(q, bits) if dtype in (
            ml_dtypes.int4, ml_dtypes.int2) else unsigned(p, bits) >> q,
        "shift_right_logical": lambda p, q: unsigned(p, bits) >> unsigned(q, bits)}
    compared = {n: getattr(operator, n) for n in ("eq", "ne", "lt", "le", "gt", "ge")}
    unary: dict[str, Callable[[int], int]] = {
        "neg": operator.neg, "bitwise_not": operator.invert, "abs": abs,
        "sign": lambda v: (v > 0) - (v < 0), "square": lambda v: v * v,
        "population_count": lambda v: unsigned(v, bits).bit_count(),
        "clz": lambda v: bits - unsigned(v, bits).bit_length()}

    def f(v: Any, x: Any, y: Any) -> list[Any]:
        ones = [registry["abs"].bind if n == "abs" else getattr(lax, n) for n in unary]
        return [*[getattr(lax, n)(x, y) for n in (*binary, *compared)],
                *[g(v) for g in ones], lax.integer_pow(v, 3), lax.clamp(y, x, y)]

    want = [*[wrap([g(p, q) for p, q in pairs], dtype) for g in binary.values()],
            *[np.array([g(p, q) for p, q in pairs]) for g in compared.values()],
            *[wrap([g(int(v)) for v in every], dtype) for g in unary.values()],
            wrap([int(v)**3 for v in every], dtype), y]
    outs = run(way, f, every, x, y)
    for name, got, wanted in zip((*binary, *compared, *unary, "pow", "clamp"), outs, want,
                                 strict=True):
        same(got, wanted, name)


@pytest.mark.parametrize("dtype, way", mostly_slow(INTEGERS))
def test_folds_of_integers(dtype: Any, way: str) -> None:
    rng = np.random.default_rng(0)
    info = ml_dtypes.iinfo(dtype)
    wide = rng.integers(info.min, info.max + 1, (6, 40))
    x, at = wide.astype(dtype), np.array([[1], [1], [4]])
    numbers = lax.ScatterDimensionNumbers((1,), (0,), (0,))

    def f(x: Any) -> list[Any]:
        product = (((1,), (1,)), ((), ()))
        zero, least = (np.asarray(v, dtype)[()] for v in (0, int(info.min)))
        return [lax.reduce_sum(x, (1,)), lax.reduce_prod(x[:, :3], (1,)), lax.reduce_max(x, (0,)),
                lax.reduce_min(x, (0, 1)), lax.reduce_xor(x, (1,)), lax.reduce_max(x[:, :0], (1,)),
                lax.reduce_min(x[:, :0], (1,)), lax.cumsum(x, 1), lax.cumprod(x, 1, reverse=True),
                lax.cummax(x, 0), lax.argmax(x, 1, np.int32), lax.sort(x, dimension=1),
                lax.dot_general(x, x, product),
                lax.dot_general(x, x, product, preferred_element_type=np.int32),
                lax.dot_general(x, x.astype(np.int8), product, preferred_element_type=np.int32),
                lax.reduce_window(x, zero, lax.add, (1, 4), (1, 1), "VALID"),
                lax.reduce_window(x, least, lax.max, (1, 2), (1, 2), [(0, 0), (2, 2)]),
                lax.scatter_add(x, at, x[:3], numbers), lax.scatter_mul(x, at, x[:3], numbers),
                lax.top_k(x, 3)[1], lax.rev(x, (1,)), lax.pad(x, zero, [(1, 0, 0), (0, 1, 1)])]

    added, times = wide.copy(), wide.copy()
    for i, row in zip(at[:, 0], wide[:3]):
        added[i] += row
        times[i] *= row
    window = np.lib.stride_tricks.sliding_window_view
    padded = np.pad(wide, ((0, 0), (2, 2)), constant_values=info.min)
    spread = np.zeros((7, 80), int)
    spread[1:, :79:2] = wide
    want = [wide.sum(1), wide[:, :3].prod(1), wide.max(0), wide.min(), np.bitwise_xor.reduce(
        wide, 1), np.full(6, info.min), np.full(6, info.max), wide.cumsum(1),
        wide[:, ::-1].cumprod(1)[:, ::-1], np.maximum.accumulate(wide, 0), wide.argmax(1),
        np.sort(wide, 1), wide @ wide.T, wide @ wide.T, wide @ wide.T, window(wide, 4, 1).sum(-1),
        padded.reshape(6, -1, 2).max(-1), added, times, np.argsort(-wide, 1, kind="stable")[:, :3],
        wide[:, ::-1], spread]
    outs = run(way, f, x)
    for i, (got, w) in enumerate(zip(outs, want, strict=True)):
        whole = np.asarray(got).dtype == np.int32
        same(got, np.asarray(w, np.int32) if whole else wrap(w, dtype), str(i))


# ---- conversions
def converted(x: Any, to: Any) -> Any:
    """Through float32: integers wrap, floats saturate to integers, NaN is 0, or -0 in float4."""
    to = np.dtype(to)
    whole = dtypes.is_whole(x.dtype)
    wide = x.astype(np.int64 if whole else np.float64)
    with np.errstate(all="ignore"):
        if dtypes.is_integer(to):
            info = dtypes.iinfo(to)
            if whole:
                return wrap(wide, to)
            clean = np.nan_to_num(np.trunc(wide), nan=0.0, posinf=1e30, neginf=-1e30)
            return np.clip(clean, int(info.min), int(info.max)).astype(np.int64).astype(to)
        if to == np.dtype(bool):
            return wide != 0
        single = wide.astype(np.float32)
        if to.name == "float4_e2m1fn":
            single = np.where(np.isnan(single), -0.0, single)
        return single.astype(to)


HARD = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 0.4, 0.5, 0.75, 1.5, 2.5, 3.5, 7.5, 8, -8.5,
                 -9, 15.5, 16, 100, -100, 240, 248, 448, 465, 1e5, -1e5, 1e10, 1e-3, 1e-9, 1e-38,
                 2.0**-126, 1e38, 3e38], np.float32)


@pytest.mark.parametrize("dtype, way", mostly_slow(
    [*INTEGERS, *FLOATS], ml_dtypes.float8_e4m3, ml_dtypes.float4_e2m1fn))
def test_conversions(dtype: Any, way: str) -> None:
    """All numbers to all dtypes, and hard numbers of others."""
    others = ["bool", "int8", "uint8", "int32", "float16", "bfloat16", "float32",
              ml_dtypes.int4, ml_dtypes.uint2, ml_dtypes.float8_e5m2, ml_dtypes.float8_e3m4,
              ml_dtypes.float4_e2m1fn, POWERS]
    every = every_of(dtype)
    with np.errstate(all="ignore"):
        given = [HARD, HARD.astype(np.float16), HARD.astype(ml_dtypes.bfloat16),
                 np.arange(-300, 300, 7, np.int32), np.arange(256).astype(np.uint8),
                 np.array([False, True])]

    def f(every: Any, *given: Any) -> list[Any]:
        return [*[lax.convert_element_type(every, d) for d in others],
                *[lax.convert_element_type(v, dtype) for v in given]]

    # (powers of two reach down to where compiled programs have no numbers: not for their sign)
    want = [*[converted(every, d) for d in others], *[converted(v, dtype) for v in given]]
    outs = run(way, f, every, *given)
    for i, (got, w) in enumerate(zip(outs, want, strict=True)):
        same(got, w, str(i))


@pytest.mark.parametrize("way", [pytest.param("eager", marks=pytest.mark.slow), "compiled"])
def test_bits(way: str) -> None:
    """Parts of wider numbers, the first in the lowest bits, and the reverse."""
    words = np.random.default_rng(0).integers(0, 2**32, 5, np.uint32)
    cast = lax.bitcast_convert_type

    def f(words: Any) -> list[Any]:
        nibbles = cast(words, ml_dtypes.int4)
        halves = cast(words, np.int16)
        return [nibbles, cast(words, ml_dtypes.uint2), cast(nibbles, np.uint32),
                cast(cast(halves, ml_dtypes.float4_e2m1fn), np.int16),
                cast(nibbles, ml_dtypes.uint4), cast(nibbles, ml_dtypes.uint2),
                cast(cast(words, ml_dtypes.float8_e3m4), np.int8), cast(words, np.int8),
                cast(cast(words, ml_dtypes.float8_e3m4), np.uint32)]

    parts = words[:, None] >> np.arange(0, 32, 4, dtype=np.uint32) & 15
    pairs = words[:, None] >> np.arange(0, 32, 2, dtype=np.uint32) & 3
    signed = np.where(parts > 7, parts.astype(int) - 16, parts).astype(ml_dtypes.int4)
    octets = words.view(np.int8).reshape(5, 4)
    want = [signed, pairs.astype(ml_dtypes.uint2), words, words.view(np.int16).reshape(5, 2),
            parts.astype(ml_dtypes.uint4), pairs.reshape(5, 8, 2).astype(ml_dtypes.uint2), octets,
            octets, words]
    outs = run(way, f, words)
    for i, (got, w) in enumerate(zip(outs, want, strict=True)):
        same(got, w, str(i))
    with pytest.raises(ValueError, match=r"from int4 of size 4 bits to int8 of size 8 bits, but 3"):
        cast(np.zeros(3, ml_dtypes.int4), np.int8)


@pytest.mark.slow
@pytest.mark.parametrize("way", ["eager", "compiled"])
def test_powers_of_two(way: str) -> None:
    """All, and pairs whose products float32 has as normal numbers."""
    every = every_of(POWERS)
    some = np.concatenate([every[64:191:2], every[-1:]])
    x, y = np.repeat(some, len(some)), np.tile(some, len(some))
    a, b, e = (v.astype(np.float32) for v in (x, y, every))

    def f(every: Any, x: Any, y: Any) -> list[Any]:
        return [x + y, x * y, x - y, lax.max(x, y), x < y, lax.div(x, y), -every,
                lax.sqrt(every[1:]), lax.sort(every[::-1]), lax.reduce_max(every[:-1], (0,)),
                every[3:5], lax.nextafter(every[:-2], every[1:-1])]

    with np.errstate(all="ignore"):
        want = [*[v.astype(POWERS) for v in (a + b, a * b, a - b, np.maximum(a, b))], a < b,
                (a / b).astype(POWERS), (-e).astype(POWERS), np.sqrt(e[1:]).astype(POWERS),
                every, every[-2], every[3:5], every[1:-1]]
        outs = run(way, f, every, x, y)
        for i, (got, w) in enumerate(zip(outs, want, strict=True)):
            same(got, w, str(i))


# ---- programs
@pytest.mark.parametrize("dtype, way", mostly_slow(
    [ml_dtypes.int4, ml_dtypes.float8_e4m3, ml_dtypes.float4_e2m1fn], ml_dtypes.int4))
def test_programs(dtype: Any, way: str) -> None:
    """Loops, branches, calls, callbacks, and what is filled in."""
    x = np.array([1, 2, 3, -4, 0, 2], np.int8).astype(dtype)
    places = np.array([0, 9])
    double: Any = calque.jit(lambda v: v + v)

    @calque.custom_jvp
    def custom(v: Any) -> Any:
        return v * v

    custom.defjvp(lambda primals, tangents: (primals[0], tangents[0]))

    def f(x: Any, i: Any) -> list[Any]:
        last, every = lax.scan(lambda c, v: (c + v, c), x[0], x)
        looped = lax.fori_loop(0, 3, lambda i, v: v.at[i].set(v[i] + 1), x)
        until = lax.while_loop(lambda v: v[0] < 3, lambda v: v + 1, x)
        called = calque.pure_callback(lambda v: np.asarray(v), x, x)
        return [last, every, looped, until, lax.cond(i[0] == 0, lambda v: -v, lambda v: v, x),
                double(x), custom(x), called, calque.vmap(lambda v: v * 2)(x), i * 2,
                calque.numpy.take(x, i, mode="fill"), calque.numpy.where(x > 1, x, 0)]

    v = x.astype(np.float32)
    sums = [v[0]]
    for n in v:
        sums.append(np.asarray(sums[-1] + n).astype(dtype).astype(np.float32))
    steps = v.copy()
    steps[:3] += 1
    least = np.full(1, -8 if dtype is ml_dtypes.int4 else np.nan)
    want = [np.asarray(sums[-1]), np.array(sums[:-1]), steps, v + 2, -v, v + v, v * v, v, v * 2,
            places * 2, np.concatenate([v[:1], least]), np.where(v > 1, v, 0)]

    def made(w: Any) -> Any:
        return w.astype(np.int32) if w.dtype == np.int64 else wrap(
            w, dtype) if dtype is ml_dtypes.int4 else converted(w.astype(np.float32), dtype)

    outs = run(way, f, x, places.astype(np.int32))
    for k, (got, w) in enumerate(zip(outs, want, strict=True)):
        same(got, made(w), str(k))


def test_bytes_beyond_the_range_are_read_as_their_low_bits() -> None:
    """As ml_dtypes reads them (whose -1 of int4 is 15 or 255)."""
    odd = np.arange(256, dtype=np.uint8)
    for dtype in (ml_dtypes.int4, ml_dtypes.uint2):
        x = odd.view(dtype)
        got, kept = calque.jit(lambda v: (v.astype(np.float32), v[::-1]))(x)
        np.testing.assert_array_equal(got, x.astype(np.float32))
        same(kept, np.asarray(x[::-1].astype(np.float32)).astype(dtype))


def test_only_conversions_and_callbacks_see_them() -> None:
    def f(x: Any, y: Any) -> Any:
        def step(c: Any, v: Any) -> Any:
            return c + v * c, calque.pure_callback(lambda w: w, v, v)
        return lax.scan(step, x[0], x), lax.dot(y, y), lax.sort(y)

    p = calque.make_jaxpr(f)(np.ones(3, ml_dtypes.int4), np.ones(3, ml_dtypes.float8_e4m3))
    assert has_small(p.jaxpr)

    def check(p: Program) -> None:
        for e in p.equations:
            if any(dtypes.is_small(a.aval.dtype) for a in (*e.inputs, *e.outputs)):
                assert e.name in ("same_byte", "convert_element_type", "pure_callback"), e
            for inner in e.inner:
                check(inner)

    check(narrowed(p.jaxpr))
