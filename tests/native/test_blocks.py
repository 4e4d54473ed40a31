"""The C kernels of matrices that are unpacked as they are read (quantized.c): every kind and level,
numbers of rows around its tiles and strips, groups, against float64."""
from __future__ import annotations

import ctypes
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from support.blocks import SIZES, numbers, random_blocks

from tests.native.kernels import MARGIN, library
from tests.native.test_products import at_levels

KINDS = (*SIZES, "bf16", "f16")
HALVES = {"bf16": np.dtype(ml_dtypes.bfloat16), "f16": np.dtype("f2")}


def matrix(kind: str, n: int, k: int) -> tuple[Any, Any]:
    """(memory, its numbers)."""
    if kind in HALVES:
        x = np.random.default_rng(n + k).standard_normal((n, k)).astype(HALVES[kind])
        x[0, :4] = (0, -0.0, 6e-8, -3e-5)  # subnormal ones of float16
        return x, x.astype("f8")
    blocks = random_blocks(kind, (n, k // SIZES[kind][0]), n + k)
    return blocks, numbers(blocks, kind)


def run(level: str, entry: str, operands: list[Any], size: int, scalars: tuple[int, ...],
        groups: int, work: int = 0) -> Any:
    """The result of an entry's calls for all groups; nothing around it is written."""
    function = getattr(library("quantized", level), f"calque_{entry}")
    function.restype = None
    given: list[Any] = []
    for x in operands:
        flat = np.concatenate([np.zeros(MARGIN, x.dtype), x.reshape(-1)])
        given += [flat, MARGIN]
    out = np.full(size + 2 * MARGIN, -9, np.float32)
    room = np.full(groups * work + 2 * MARGIN, -9, np.float32)
    given += [out, MARGIN, *([room, MARGIN] if work else [])]
    passed = [ctypes.c_int64(v) if isinstance(v, int) else ctypes.c_void_p(v.ctypes.data)
              for v in given]
    for group in range(groups):
        function(*passed, *[ctypes.c_int64(v) for v in (*scalars, group, groups)])
    for held in (out, room):
        assert np.all(held[:MARGIN] == -9) and np.all(held[-MARGIN:] == -9)
    return out[MARGIN:-MARGIN]


@at_levels
@pytest.mark.parametrize("kind", KINDS)
def test_products(level: str, kind: str) -> None:
    rng = np.random.default_rng(3)
    unit = SIZES.get(kind, (32, 0))[0]
    for m, n, k in ((1, 1, 1), (1, 33, 3), (2, 16, 1), (3, 50, 2), (4, 17, 2), (5, 15, 4),
                    (6, 31, 1), (7, 3, 2), (13, 40, 1), (17, 49, 5),
                    (2, 5, 33 if unit == 32 else 5)):
        memory, wide = matrix(kind, n, k * unit)
        x = rng.standard_normal((m, k * unit)).astype(np.float32)
        want = x.astype("f8") @ wide.T
        scale = np.abs(x.astype("f8")) @ np.abs(wide).T + 1e-30
        for entry, work in (("quantized_dot", 0), ("quantized_product", 12 * 1024)):
            got = run(level, f"{entry}_{kind}", [memory, x], m * n, (m, n, k * unit), 3, work)
            # sums of k products in float32, by vectors: some tens of roundings
            assert (np.abs(got.reshape(m, n) - want) / scale).max() < 2e-6, (entry, m, n, k)


@at_levels
@pytest.mark.parametrize("kind", KINDS)
def test_numbers(level: str, kind: str) -> None:
    unit = SIZES.get(kind, (32, 0))[0]
    memory, wide = matrix(kind, 3, 2 * unit)
    got = run(level, f"dequantize_{kind}", [memory], wide.size, (wide.size // unit,), 2)
    # a product and a sum of float32
    np.testing.assert_allclose(got.reshape(wide.shape), wide, rtol=3e-7,
                               atol=3e-7 * np.abs(wide).max())
