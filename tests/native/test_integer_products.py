"""The C kernels of integer products (gemm_int.c): every entry and level, sizes around blocks and
vectors, any strides, against NumPy's integers, which wrap alike: results are equal."""
from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from calque.lowering.kernels import gemm
from tests.native.kernels import call
from tests.native.test_products import at_levels

every = pytest.mark.parametrize("dtype", [np.dtype("i4"), np.dtype("i8")], ids=str)


def operand(rng: Any, dtype: Any, batch: int, rows: int, columns: int, turned: bool, apart: int
            ) -> tuple[Any, list[int], Any]:
    """Memory, strides of batch, row and column, and the matrices; numbers of all bits."""
    limits = np.iinfo(dtype)
    lines, length = (columns, rows) if turned else (rows, columns)
    memory = rng.integers(limits.min, limits.max, (batch, lines, length * apart), dtype=dtype)
    row, column = (1, length * apart) if turned else (length * apart, 1)
    seen = memory[:, :, :length]
    return memory, [lines * length * apart, row, column], (
        np.swapaxes(seen, 1, 2) if turned else seen)


@every
@at_levels
def test_packed_and_direct(dtype: Any, level: str) -> None:
    rng = np.random.default_rng(7)
    vector, size = gemm.LEVELS[level], dtype.itemsize
    for seed in range(80):
        batch, m, n, k = (int(rng.integers(1, most + 1)) for most in (3, 40, 70, 40))
        k += 256 * (seed % 9 == 0)
        turned = bool(seed % 2), bool(seed // 2 % 2)
        a, of_a, x = operand(rng, dtype, batch, m, k, turned[0], int(rng.integers(1, 3)))
        b, of_b, y = operand(rng, dtype, batch, k, n, turned[1], int(rng.integers(1, 3)))
        tall, broad, few = int(rng.integers(1, 41)), int(rng.integers(1, 41)), 64 * (seed % 3 == 0)
        groups = int(rng.integers(1, 5))
        room = gemm.room_of(min(tall, m), min(broad, n), k, few, vector, size)
        c, _ = call("gemm_int", "gemm", dtype, [a, b],
                    [((batch, m, n), dtype), ((groups * room,), dtype)],
                    [batch, m, n, k, 1, *of_a, *of_b, tall, broad, few, room], groups, level)
        np.testing.assert_array_equal(c, x @ y, err_msg=str((level, batch, m, n, k, turned)))
        broad = 2 * vector // size * int(rng.integers(1, 4))
        while n > broad and 0 < n % broad < 2 * vector // size:
            broad += 2 * vector // size
        c, = call("gemm_int", "direct", dtype, [a, b], [((batch, m, n), dtype)],
                  [batch, m, n, k, 1, *of_a, *of_b, tall, broad], groups, level)
        np.testing.assert_array_equal(c, x @ y, err_msg=str((level, batch, m, n, k, turned)))


@every
@at_levels
def test_parts_of_sums(dtype: Any, level: str) -> None:
    rng = np.random.default_rng(8)
    for split, k in ((3, 700), (5, 1300)):
        a, of_a, x = operand(rng, dtype, 2, 9, k, True, 1)
        b, of_b, y = operand(rng, dtype, 2, k, 33, False, 1)
        room = gemm.room_of(9, 33, k, 0, gemm.LEVELS[level], dtype.itemsize)
        parts, _ = call("gemm_int", "gemm", dtype, [a, b],
                        [((2, split, 9, 33), dtype), ((2 * room,), dtype)],
                        [2, 9, 33, k, split, *of_a, *of_b, 9, 33, 0, room], 2, level)
        c, = call("gemm_int", "add", dtype, [parts], [((2, 9, 33), dtype)], [2, 9 * 33, split], 2,
                  level)
        np.testing.assert_array_equal(c, x @ y)


@every
@at_levels
def test_vectors(dtype: Any, level: str) -> None:
    rng = np.random.default_rng(9)
    for seed in range(60):
        batch, n, k = (int(rng.integers(1, most + 1)) for most in (3, 90, 90))
        turned, apart, groups = bool(seed % 2), int(rng.integers(1, 3)), int(rng.integers(1, 4))
        a, of_a, x = operand(rng, dtype, batch, n, k, turned, apart)
        v, _, u = operand(rng, dtype, batch, k, 1, True, 1)
        y, = call("gemm_int", "gemv", dtype, [a, v], [((batch, n), dtype)],
                  [batch, n, k, *of_a, k], groups, level)
        np.testing.assert_array_equal(y, (x @ u)[..., 0], err_msg=str((level, batch, n, k, turned)))
        if not turned:
            m = int(rng.integers(2, 7))
            v, of_v, u = operand(rng, dtype, batch, m, k, False, 1)
            y, = call("gemm_int", "few", dtype, [a, v], [((batch, n, m), dtype)],
                      [batch, n, m, k, of_a[0], of_a[1], of_v[0], of_v[1], m, 1], groups, level)
            np.testing.assert_array_equal(y, x @ np.swapaxes(u, 1, 2))
