"""One test per cure: it fails when IREE's own form has become right, and the cure can go.

All plain forms are compiled in one module; what does not compile or load has a module of its own.
"""
from __future__ import annotations

import numpy as np
import pytest
from math_harness import CLONG, F32, F64, LONG, Functions, complex_array, flushed, samples, ulps

from calque.lowering.compiler.compile import CompileError
from calque.lowering.emit.dtypes import BF16
from calque.lowering.math.region import elementwise

# the oracles meet NaN and overflow on purpose
pytestmark = pytest.mark.filterwarnings("ignore:.*encountered in:RuntimeWarning")

SIZE = 1 << 13
C64, C128 = np.dtype(np.complex64), np.dtype(np.complex128)
I32, U8, F16 = np.dtype(np.int32), np.dtype(np.uint8), np.dtype(np.float16)


def op(name):
    return lambda b, *xs: b.emit(name, xs, xs[0].shape, xs[0].dtype)


def body(name):
    """An op of the math dialect that StableHLO has no name for."""
    return lambda b, x: elementwise(b, lambda inner, v: inner._make(name, [v], v.dtype), [x],
                                    [x.dtype])[0]


PLAIN = Functions({
    **{n: (op(n), [F32]) for n in ("exponential", "tanh", "sine", "cosine", "tan", "logistic")},
    "expm1": (op("exponential_minus_one"), [F32]),
    "expm1_f64": (op("exponential_minus_one"), [F64]), "log1p_f64": (op("log_plus_one"), [F64]),
    "power": (op("power"), [F32, F32]), "power_f64": (op("power"), [F64, F64]),
    "atan2": (op("atan2"), [F32, F32]), "log_c64": (op("log"), [C64]),
    "abs_c64": (lambda b, x: abs(x), [C64]), "divide_c64": (op("divide"), [C64, C64]),
    "asin": (body("math.asin"), [F32]),
    "to_i32": (lambda b, x: x.astype(I32), [F32]),
    "to_u8": (lambda b, x: x.astype(U8), [F32]),
    "f64_to_f16": (lambda b, x: x.astype(F16), [F64]),
    "by_bf16": (lambda b, x: elementwise(b, lambda e, v: e._make("arith.truncf", [v], BF16).astype(
        F32), [x], [F32])[0], [F32]),
}, size=SIZE)


def worst(name, oracle, *xs):
    got, want = PLAIN(name, *xs), oracle(*[x.astype(LONG) for x in xs])
    return np.max(np.where(flushed(got, want, *xs), 0, ulps(got, want)))


def wide(low=-100, high=100, dtype=F32):
    return samples(dtype, low, high, 1, SIZE)


def test_iree_still_needs_exp():
    """exp in lowering/math/exp_log.py: IREE's is 2 ulps off."""
    assert worst("exponential", np.exp, wide(-110, 89)) > 2


def test_iree_still_needs_tanh():
    """tanh in lowering/math/hyperbolic.py."""
    assert worst("tanh", np.tanh, wide(-10, 10)) > 2.3


@pytest.mark.parametrize(("name", "oracle"),
                         [("sine", np.sin), ("cosine", np.cos), ("tan", np.tan)])
def test_iree_still_needs_range_reduction(name, oracle):
    """sin, cos and tan in lowering/math/trig.py."""
    assert worst(name, oracle, wide()) > 4


def test_iree_still_needs_expm1_and_log1p():
    """expm1 and log1p in lowering/math/exp_log.py."""
    assert worst("expm1", np.expm1, wide(-20, 89)) > 2
    assert worst("expm1_f64", np.expm1, wide(-20, 89, F64)) > 1e6
    assert worst("log1p_f64", np.log1p, wide(-20, 89, F64)) > 1e6


@pytest.mark.parametrize(("name", "dtype"), [("power", F32), ("power_f64", F64)])
def test_iree_still_needs_pow(name, dtype):
    """pow in lowering/math/power.py."""
    x = np.array([0, 1, -2, -0.0, 3.7, 0.1], dtype)
    y = np.array([0, np.inf, 3, -3, 55.5, -30], dtype)
    assert worst(name, np.power, x, y) > 4


def test_iree_still_needs_atan2():
    """atan2 in lowering/math/trig.py."""
    zero = np.array([0.0, -0.0, 0.0, -0.0], F32)
    other = np.array([0.0, 0.0, -0.0, -1.0], F32)
    got, want = PLAIN("atan2", zero, other), np.arctan2(zero, other)
    assert not np.array_equal(got, want) or worst("atan2", np.arctan2, wide(), wide()[::-1]) > 4


def test_iree_still_needs_asin():
    """asin in lowering/math/trig.py."""
    assert worst("asin", np.arcsin, wide(-1, 1)) > 2


def test_iree_still_needs_complex_forms():
    """lowering/math/complex_.py: IREE's overflow."""
    big = complex_array(np.array([1e30, 0], F32), np.array([1e30, 0], F32))
    wrong = [PLAIN("abs_c64", big), PLAIN("log_c64", big), PLAIN("divide_c64", big, big)]
    right = [np.abs(big), np.log(big.astype(CLONG)).astype(C64), np.array([1, np.nan])]
    assert not any(np.allclose(w, r, equal_nan=True) for w, r in zip(wrong, right, strict=True))


def test_iree_still_needs_saturating_conversions():
    """lowering/math/convert.py: IREE's floats do not saturate."""
    x = np.array([1e30, -1e30, np.nan, -5, 300], F32)
    wanted = {"to_i32": [2**31 - 1, -2**31, 0, -5, 300], "to_u8": [255, 0, 0, 0, 255]}
    for name, want in wanted.items():
        assert not np.array_equal(PLAIN(name, x), want)


def test_iree_still_needs_one_rounding_from_f64_to_f16():
    """lowering/math/convert.py: IREE rounds twice, by way of f32."""
    x = np.array([1 + 2.0**-11 + 2.0**-30, 3e-7])
    assert not np.array_equal(PLAIN("f64_to_f16", x), x.astype(F16))


def test_iree_still_needs_roundings_to_bf16_by_bits():
    """Builder.bfloat16 in lowering/emit/builder.py: IREE makes nothing of f32 to bf16 to f32."""
    x = np.full(SIZE, 1.001, F32)
    assert np.array_equal(PLAIN("by_bf16", x), x)


@pytest.mark.parametrize("name", ["sine", "tanh", "cbrt", "atan2", "remainder"])
def test_iree_still_cannot_link_f64(name):
    """lowering/math: the libm functions are not there."""
    count = 2 if name in ("atan2", "remainder") else 1
    module = Functions({"f": (op(name), [F64] * count)}, size=8)
    with pytest.raises((CompileError, RuntimeError)):
        module("f", *[np.ones(8)] * count)
