"""What is folded in float8 is computed in float32 and rounded once, whatever NumPy's kind of the
type is: of float8_e5m2 it is that of float16, of the others that of bfloat16."""
from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from numpy.lib.stride_tricks import sliding_window_view

import calque
from calque import lax
from calque.dispatch.array import current_device
from calque.lowering.compiler.compile import compile_module
from calque.lowering.target.targets import cpu_target
from calque.runtime import Buffer, CallSpec, Executable

special = pytest.importorskip("scipy.special")


DTYPES = [ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e4m3fnuz, ml_dtypes.float8_e5m2,
          ml_dtypes.float8_e5m2fnuz]


def mostly_slow(kept: Any) -> list[Any]:
    """All dtypes, one of them by default."""
    return [pytest.param(d, marks=[] if d is kept else [pytest.mark.slow]) for d in DTYPES]


def same(got: Any, want: Any, name: str) -> None:
    """Values, NaN included; signs of zeros."""
    g, w = (np.asarray(v).astype(np.float32) for v in (got, want))
    np.testing.assert_array_equal(g, w, err_msg=name)
    there = ~np.isnan(w)
    np.testing.assert_array_equal(np.signbit(g[there]), np.signbit(w[there]), err_msg=name)


@pytest.mark.parametrize("dtype", mostly_slow(ml_dtypes.float8_e5m2))
def test_folds(dtype: Any) -> None:
    rng = np.random.default_rng(0)
    x, y = (rng.standard_normal(shape).astype(dtype) for shape in ((12, 32), (32, 3)))
    wide = x.astype(float)

    @calque.jit
    def folds(x: Any, y: Any) -> list[Any]:
        zero = np.zeros((), dtype)[()]
        return [lax.dot(x, y), lax.cumsum(x, axis=1), lax.cumprod(x, axis=1),
                lax.reduce_window(x, zero, lax.add, (1, 4), (1, 1), "VALID"),
                lax.conv(x[None, None], y[None, None, :3], (1, 1), "VALID")[0, 0],
                lax.reduce_precision(x, 5, 1)]

    kernel = y[:3].astype(float)
    want = [wide @ y.astype(float), wide.cumsum(1), wide.cumprod(1),
            sliding_window_view(wide, 4, 1).sum(-1),
            np.einsum("ijkl,kl->ij", sliding_window_view(wide, (3, 3)), kernel)]
    *got, precise = folds(x, y)
    for g, w in zip(got, want, strict=True):
        np.testing.assert_array_equal(np.asarray(g).astype(float), w.astype(dtype).astype(float))
    assert precise.dtype == dtype


@pytest.mark.parametrize("dtype", mostly_slow(ml_dtypes.float8_e5m2))
def test_reductions(dtype: Any) -> None:
    x = np.random.default_rng(1).standard_normal((6, 80)).astype(dtype)
    x[1, 5] = x[3, 70] = np.nan
    wide = x.astype(np.float32)
    names = ("max", "min", "sum", "prod")

    @calque.jit
    def run(x: Any) -> Any:
        return [[getattr(lax, f"reduce_{n}")(x[:, 68:], axes) for n in names]
                for axes in ((0,), (1,), (0, 1))], [getattr(lax, f"reduce_{n}")(
                    x[:0], (0,)) for n in names]

    parts, empty = run(x)
    for axes, outs in zip((0, 1, None), parts):
        for n, got in zip(names, outs):
            same(got, getattr(wide[:, 68:], n)(axes).astype(dtype), f"{n} {axes}")
    info = ml_dtypes.finfo(dtype)
    ends = (-np.inf, np.inf) if dtype is ml_dtypes.float8_e5m2 else (info.min, info.max)
    for got, want in zip(empty, (*ends, 0, 1)):
        same(got, np.full(80, want), "of nothing")


UNARY: dict[str, Any] = {
    "neg": np.negative, "abs": np.abs, "floor": np.floor, "ceil": np.ceil, "sqrt": np.sqrt,
    "rsqrt": lambda v: 1 / np.sqrt(v), "cbrt": np.cbrt, "square": np.square, "sin": np.sin,
    "exp": np.exp, "expm1": np.expm1, "log": np.log, "log1p": np.log1p, "tanh": np.tanh,
    "erf": special.erf, "lgamma": lambda v: np.where(np.isinf(v), np.inf, special.gammaln(v)),
    "round": lambda v: np.trunc(v + np.copysign(0.5, v))}
BINARY: dict[str, Any] = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide, "rem": np.fmod,
    "pow": np.power, "atan2": np.arctan2}
COMPARISONS: dict[str, Any] = {
    "eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal, "gt": np.greater,
    "ge": np.greater_equal}


@pytest.mark.parametrize("dtype, part", [
    (ml_dtypes.float8_e4m3fn, slice(0, None, 6)), (ml_dtypes.float8_e5m2, slice(1, None, 8)),
    *[pytest.param(d, slice(None), marks=pytest.mark.slow) for d in DTYPES]])
def test_elementwise(dtype: Any, part: slice) -> None:
    """All numbers, and all pairs of them: in float32, rounded at the end."""
    every = np.arange(256, dtype=np.uint8).view(dtype)
    x, y = np.repeat(every, 256), np.tile(every, 256)
    wide, a, b = (v.astype(np.float32) for v in (every, x, y))
    unary, binary, comparisons = tables = [
        dict(list(t.items())[part]) for t in (UNARY, BINARY, COMPARISONS)]

    @calque.jit
    def run(v: Any, x: Any, y: Any) -> Any:
        one, two, pairs = ([getattr(lax, n) for n in t] for t in tables)
        return ([f(v) for f in one], [f(x, y) for f in two], [f(x, y) for f in pairs],
                lax.is_finite(v), lax.nextafter(x, y), lax.max(x, y), lax.min(x, y),
                lax.clamp(y, x, y), lax.integer_pow(v, 3))

    one, two, pairs, finite, following, larger, smaller, between, cube = run(every, x, y)
    with np.errstate(all="ignore"):
        for (name, f), got in zip(unary.items(), one, strict=True):
            same(got, f(wide.astype(float)).astype(np.float32).astype(dtype), name)
        for (name, f), got in zip(binary.items(), two, strict=True):
            same(got, f(a, b).astype(dtype), name)
        for (name, f), got in zip(comparisons.items(), pairs, strict=True):
            np.testing.assert_array_equal(got, f(a, b), err_msg=name)
        np.testing.assert_array_equal(finite, np.isfinite(wide))
        same(following, np.nextafter(x, y), "nextafter")
        for got, f in ((larger, np.maximum), (smaller, np.minimum)):  # zeros: of either sign
            np.testing.assert_array_equal(np.asarray(got).astype(np.float32), f(a, b))
        np.testing.assert_array_equal(np.asarray(between).astype(np.float32),
                                      np.where(np.isnan(a), np.nan, b))
        same(cube, (wide * wide * wide).astype(dtype), "integer_pow")


@pytest.mark.parametrize("dtype", mostly_slow(ml_dtypes.float8_e4m3fn))
def test_windows_and_updates(dtype: Any) -> None:
    """What lies outside of an array, and one window that is joined by the rule of add and so on."""
    every = np.arange(256, dtype=np.uint8).view(dtype)
    x, y = np.repeat(every, 256), np.tile(every, 256)
    a, b = x.astype(np.float32), y.astype(np.float32)
    info = ml_dtypes.finfo(dtype)
    least = -np.inf if dtype is ml_dtypes.float8_e5m2 else info.min
    joins = {lax.scatter_add: np.add, lax.scatter_mul: np.multiply, lax.scatter_max: np.maximum,
             lax.scatter_min: np.minimum}
    numbers = lax.ScatterDimensionNumbers((0,), (0,), (0,))

    @calque.jit
    def run(x: Any, y: Any, at: Any) -> Any:
        start = np.asarray(least, dtype)
        return lax.reduce_window(x[:9], start, lax.max, (2,), (2,), [(4, 4)]), [
            f(lax.reshape(x, (1, x.size)), at, y, numbers)[0] for f in joins]

    largest, parts = run(x, y, np.array([0]))
    np.testing.assert_array_equal(
        np.asarray(largest).astype(np.float32),
        np.pad(a[:9], 4, constant_values=least)[:16].reshape(-1, 2).max(1))
    with np.errstate(all="ignore"):
        for got, f in zip(parts, joins.values()):
            np.testing.assert_array_equal(
                np.asarray(got).astype(np.float32), f(a, b).astype(dtype).astype(np.float32))


@pytest.mark.parametrize("dtype", mostly_slow(ml_dtypes.float8_e4m3fn))
def test_products_and_joins(dtype: Any) -> None:
    """All pairs: in dots of one and of two terms, an outer product, and updates of many rows."""
    every = np.arange(256, dtype=np.uint8).view(dtype)
    x, y = np.repeat(every, 256), np.tile(every, 256)
    a, b, e = (v.astype(np.float32) for v in (x, y, every))
    terms = [np.stack([np.where(np.isnan(v.astype(np.float32)), 0, v).astype(dtype),
                       np.full(v.shape, 0, dtype)], 1) for v in (x, y)]
    rows = (((1,), (1,)), ((0,), (0,)))
    numbers = lax.ScatterDimensionNumbers((), (0,), (0,))

    @calque.jit
    def run(x: Any, y: Any, every: Any, terms: Any, at: Any) -> Any:
        return (lax.dot_general(x[:, None], y[:, None], rows),
                lax.dot_general(every[:, None], every[None], (((1,), (0,)), ((), ()))),
                lax.dot_general(*terms, rows, preferred_element_type=np.float32),
                lax.scatter_mul(x, at, y, numbers), lax.scatter_add(x, at, y, numbers))

    one, outer, two, product, total = run(x, y, every, terms, np.arange(len(x))[:, None])
    with np.errstate(all="ignore"):
        for got, want in ((one, a * b), (outer, e[:, None] * e), (product, a * b), (total, a + b)):
            np.testing.assert_array_equal(np.asarray(got).astype(np.float32),
                                          want.astype(dtype).astype(np.float32))
        p, q = (t.astype(np.float32) for t in terms)
        np.testing.assert_array_equal(two, (p * q).sum(1))


@pytest.mark.slow
@pytest.mark.parametrize("dtype", DTYPES)
def test_constants_and_carries(dtype: Any) -> None:
    """Nothing is an argument; a loop carries many arrays."""
    numbers = np.linspace(-1, 1, 12).astype(dtype)
    carried = [(numbers.astype(np.float32) * (i + 1) / 8).astype(dtype) for i in range(8)]

    def step(carry: Any, _: Any) -> Any:
        return tuple(lax.sin(v) * v + numbers for v in carry), None

    def rounded(v: Any) -> Any:
        return v.astype(dtype).astype(np.float32)

    given = calque.jit(lambda *c: lax.scan(step, c, None, length=5)[0])(*carried)
    made = calque.jit(lambda: lax.scan(step, tuple(carried), None, length=5)[0])()
    for got, same_again, start in zip(given, made, carried):
        v = start.astype(np.float32)
        for _ in range(5):
            v = rounded(rounded(rounded(np.sin(v)) * v) + numbers.astype(np.float32))
        np.testing.assert_array_equal(np.asarray(got).astype(np.float32), v)
        np.testing.assert_array_equal(np.asarray(same_again).astype(np.float32), v)


def test_iree_still_rounds_products_of_float8_to_zero() -> None:
    """in_float32 in lowering/rules/elementwise.py."""
    text = """
      func.func @main(%x: tensor<64xf8E5M2>, %y: tensor<64xf8E5M2>) -> tensor<64xf32> {
        %r = stablehlo.multiply %x, %y : tensor<64xf8E5M2>
        %f = stablehlo.convert %r : (tensor<64xf8E5M2>) -> tensor<64xf32>
        return %f : tensor<64xf32>
      }"""
    device = current_device()
    program = Executable(compile_module(text, cpu_target()), device, CallSpec(run_inline=True))
    x, y = (np.full(64, v, ml_dtypes.float8_e5m2) for v in (2.0**-16, 3.5))
    (out,) = program([Buffer.from_numpy(v, device) for v in (x, y)])
    want = (x.astype(np.float32) * y.astype(np.float32)).astype(x.dtype).astype(np.float32)
    assert (out.numpy() != want).any(), "IREE rounds float8 now: in_float32 may go"
