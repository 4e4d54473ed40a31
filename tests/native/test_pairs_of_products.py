"""The C kernel that multiplies numbers of 8 and 16 bits two at a time (gemm_pairs.inc.h): any
strides, sizes around its blocks, against NumPy: integers exactly, bfloat16 within float32's
rounding."""
from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from calque.lowering.kernels import gemm
from calque.lowering.target.targets import host_target
from tests.native.kernels import call
from tests.native.test_integer_products import operand as integers
from tests.native.test_products import at_levels
from tests.native.test_products import operand as floats

SMALL = [np.dtype(name) for name in ("i1", "u1", "i2")]
BFLOAT16 = np.dtype(ml_dtypes.bfloat16)
SIZES = [(1, 1, 1, 1), (2, 15, 33, 7), (1, 14, 32, 8), (1, 29, 31, 513), (3, 5, 70, 12),
         (1, 171, 64, 9), (1, 20, 40, 1025), (1, 16, 16, 511)]


def drawn() -> list[tuple[int, int, int, int]]:
    rng = np.random.default_rng(5)
    return [*SIZES, *[tuple(int(rng.integers(1, most + 1)) for most in (3, 40, 70, 40))
                      for _ in range(30)]]


def product(family: str, dtype: Any, sums: Any, a: Any, of_a: Any, b: Any, of_b: Any, size: Any,
            seed: int, level: str) -> Any:
    batch, m, n, k = size
    rng = np.random.default_rng(seed)
    tall, broad, groups = (int(rng.integers(1, most)) for most in (200, 90, 4))
    room = gemm.room_of(min(tall, m), min(broad, n), -(-k // 2), 0, gemm.LEVELS[level], 4)
    c, _ = call(family, "pairs", dtype, [a, b], [((batch, m, n), sums), ((groups * room,), sums)],
                [batch, m, n, k, *of_a, *of_b, tall, broad, room], groups, level)
    return c


@pytest.mark.parametrize("dtype", SMALL, ids=str)
@at_levels
def test_integers(dtype: Any, level: str) -> None:
    for seed, size in enumerate(drawn()):
        batch, m, n, k = size
        rng = np.random.default_rng(seed)
        a, of_a, x = integers(rng, dtype, batch, m, k, bool(seed % 2), 1 + seed % 3)
        b, of_b, y = integers(rng, dtype, batch, k, n, bool(seed // 2 % 2), 1 + seed % 2)
        got = product("gemm_int", dtype, np.int32, a, of_a, b, of_b, size, seed, level)
        with np.errstate(over="ignore"):  # (sums wrap)
            want = x.astype("i8") @ y.astype("i8")
        np.testing.assert_array_equal(got, want.astype("i4"), str((level, size)))


@at_levels
def test_the_least_of_16_bits(level: str) -> None:
    """Two of its squares are 2^31, which wraps."""
    x = np.full((16, 16), -1 << 15, np.int16)
    got = product("gemm_int", x.dtype, np.int32, x, [256, 16, 1], x, [256, 16, 1], (1, 16, 16, 16),
                  0, level)
    assert np.all(got == np.int64((16 << 30) & 0xffffffff).astype(np.int32))


@pytest.mark.parametrize("turned", ["", "x", "y", "xy"])
def test_bfloat16(turned: str) -> None:
    if "avx512bf16" not in host_target().features:
        pytest.skip("this processor has no instruction for it")
    for seed, size in enumerate(drawn()):
        batch, m, n, k = size
        rng = np.random.default_rng(seed)
        a, of_a, x = floats(rng, BFLOAT16, batch, m, k, "x" in turned, 1 + seed % 3)
        b, of_b, y = floats(rng, BFLOAT16, batch, k, n, "y" in turned, 1 + seed % 3)
        got = product("gemm", BFLOAT16, np.float32, a, of_a, b, of_b, size, seed, "x86-64-v4")
        x, y = x.astype("f8"), y.astype("f8")
        bound = np.finfo(np.float32).eps * (k + 4) ** 0.5
        assert np.all(np.abs(got - x @ y) <= bound * (np.abs(x) @ np.abs(y))), size
