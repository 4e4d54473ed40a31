"""The C kernels of matrices that are unpacked as they are read (quantized.c): every kind and level,
numbers of rows around its tiles and strips, groups, against float64."""
from __future__ import annotations

import ctypes
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from support.blocks import SIZES, numbers, random_blocks, rounded

from calque.lowering.kernels.quantized import FASTER
from calque.lowering.target.targets import cpu_target, parse_target
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


def entries(level: str) -> list[str]:
    """Those of rows that are rounded which this machine runs."""
    target = parse_target(f"cpu:{level}")
    faster = [w for f, w in FASTER.items() if level == "x86-64-v4" and f in cpu_target().features]
    assert target.arch
    return ["quantized_int8", *[f"quantized_int8_{w}" for w in faster]]


@at_levels
@pytest.mark.parametrize("kind", SIZES)
def test_products_of_rounded_rows(level: str, kind: str) -> None:
    """Products of integers are exact; only sums over blocks are rounded."""
    rng = np.random.default_rng(4)
    unit = SIZES[kind][0]
    for m, n, k in ((1, 1, 1), (1, 33, 3), (2, 16, 1), (3, 50, 2), (4, 17, 4), (5, 15, 5),
                    (6, 31, 7), (7, 3, 33 if unit == 32 else 5), (16, 40, 9), (3, 4, 0),
                    (4, 5, (1 << 15) // unit), (2, 3, (1 << 14) // unit)):
        memory, wide = matrix(kind, n, k * unit)
        x = rng.standard_normal((m, k * unit)).astype(np.float32)
        x *= np.exp(rng.normal(0, 3, (m, 1))).astype(np.float32)
        x[:, :32] = 0  # a block without a scale
        if k:
            x[-1, -32:] = np.arange(-16, 16) * np.float32(127 / 15)
        near = rounded(x)
        scale = np.abs(near) @ np.abs(wide).T + 1e-30
        for entry in entries(level):
            got = run(level, f"{entry}_{kind}", [memory, x], m * n, (m, n, k * unit), 3)
            # as above; integers of q4_0 and q8_0 are 8 or 128 above, which is taken off at the end
            off = np.abs(got.reshape(m, n) - near @ wide.T) / scale
            assert off.max() < 2e-6, (entry, m, n, k)


@at_levels
@pytest.mark.parametrize("kind", SIZES)
def test_rounded_rows_that_are_not_finite(level: str, kind: str) -> None:
    memory, wide = matrix(kind, 5, SIZES[kind][0])
    for bad in (np.nan, np.inf, -np.inf):
        x = np.ones((3, SIZES[kind][0]), np.float32)
        x[1, 3] = bad
        for entry in entries(level):
            got = run(level, f"{entry}_{kind}", [memory, x], 15, (3, 5, x.shape[1]), 1)
            got = got.reshape(3, 5)
            assert np.isfinite(got[[0, 2]]).all()
            assert not np.isfinite(got[1, wide[:, :32].any(1)]).any()
    x = np.full((1, SIZES[kind][0]), 1e-42, np.float32)  # too small for a scale: 0
    for entry in entries(level):
        assert not run(level, f"{entry}_{kind}", [memory, x], 5, (1, 5, x.shape[1]), 1).any()


@at_levels
@pytest.mark.parametrize("kind", KINDS)
def test_numbers(level: str, kind: str) -> None:
    unit = SIZES.get(kind, (32, 0))[0]
    memory, wide = matrix(kind, 3, 2 * unit)
    got = run(level, f"dequantize_{kind}", [memory], wide.size, (wide.size // unit,), 2)
    # a product and a sum of float32
    np.testing.assert_allclose(got.reshape(wide.shape), wide, rtol=3e-7,
                               atol=3e-7 * np.abs(wide).max())
