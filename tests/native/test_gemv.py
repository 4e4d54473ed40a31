"""The C kernel of matrices times vectors (gemv.inc.h): every dtype and level, sizes around its
vectors, rows and strips, both orientations, strides, batches and groups, against float64."""
from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.native.kernels import call
from tests.native.test_products import DTYPES, at_levels, drive

every = pytest.mark.parametrize("dtype", [*DTYPES, np.dtype("i1")], ids=str)


def close(dtype: Any, level: str, batch: int, n: int, k: int, turned: bool, apart: int = 1,
          groups: int = 1, shared: bool = False) -> None:
    """One call; `turned`: columns lie in memory, `apart` times further than they must; one vector
    for all of the batch where `shared`."""
    rng = np.random.default_rng(n * 1000 + k)
    sums = np.dtype("f8" if dtype == np.float64 else "f4")
    rows, columns = (k, n) if turned else (n, k)
    memory = rng.standard_normal((batch, rows, columns * apart))
    memory = (20 * memory if dtype == np.int8 else memory).astype(dtype)
    matrix = memory[:, :, :columns].astype("f8")
    matrix = np.swapaxes(matrix, 1, 2) if turned else matrix
    x = rng.standard_normal((1 if shared else batch, k)).astype(sums)
    step = columns * apart
    strides = [rows * step, *((1, step) if turned else (step, 1)), 0 if shared else k]
    y, = call("gemm", "gemv", dtype, [memory, x], [((batch, n), sums)], [batch, n, k, *strides],
              groups, level)
    vector = x.astype("f8")[:, :, None]
    want, size = (matrix @ vector)[..., 0], (np.abs(matrix) @ np.abs(vector))[..., 0]
    bound = float(np.finfo(sums).eps) * (k + 4) ** 0.5
    assert np.all(np.abs(y - want) <= bound * size), (dtype, level, batch, n, k, turned, apart)


@every
@at_levels
def test_sizes_around_vectors_and_rows(dtype: Any, level: str) -> None:
    for turned in (False, True):
        for n in (1, 3, 4, 5, 15, 16, 17, 33, 70):
            for k in (1, 2, 3, 4, 7, 8, 9, 16, 31, 33, 64, 67):
                close(dtype, level, 1, n, k, turned)


@every
@at_levels
def test_strides_batches_and_groups(dtype: Any, level: str) -> None:
    for turned in (False, True):
        for batch, n, k, apart, groups, shared in (
                (3, 40, 21, 2, 1, False), (2, 65, 19, 1, 4, True), (5, 7, 50, 3, 3, False),
                (1, 200, 37, 1, 16, False), (4, 1, 9, 1, 2, True), (1, 3, 5, 1, 7, False)):
            close(dtype, level, batch, n, k, turned, apart, groups, shared)


@every
@at_levels
def test_long_ones(dtype: Any, level: str) -> None:
    """Beyond a strip of sums, and many terms."""
    for turned in (False, True):
        close(dtype, level, 1, 5000, 30, turned, groups=3)
        close(dtype, level, 1, 21, 20_000, turned, groups=2)


@pytest.mark.parametrize("dtype", ["f4", "f8"])
@at_levels
def test_a_few_vectors(dtype: Any, level: str) -> None:
    """gemm_few.inc.h: rows with gaps between them, both orders of the result."""
    for seed, (batch, n, m, k, apart, groups) in enumerate((
            (1, 40, 2, 64, 0, 1), (1, 17, 3, 70, 3, 2), (2, 33, 4, 33, 0, 3), (3, 16, 5, 7, 1, 1),
            (1, 700, 6, 130, 0, 4), (2, 5, 7, 200, 9, 2), (1, 1, 9, 31, 0, 1))):
        rng = np.random.default_rng(seed)
        a, x = (rng.standard_normal((batch, r, k + apart)).astype(dtype) for r in (n, m))
        a[0, n // 2, 0] = np.inf  # stays in its row
        row = k + apart
        for turned in (False, True):
            y, = call("gemm", "few", np.dtype(dtype), [a, x], [
                ((batch, n, m) if turned else (batch, m, n), np.dtype(dtype))],
                [batch, n, m, k, n * row, row, m * row, row, *((m, 1) if turned else (1, n))],
                groups, level)
            y = y if turned else np.swapaxes(y, 1, 2)
            u, v = a[:, :, :k].astype("f8"), np.swapaxes(x[:, :, :k].astype("f8"), 1, 2)
            with np.errstate(invalid="ignore"):
                want, size = u @ v, np.abs(u) @ np.abs(v)
            finite = np.isfinite(want)
            assert np.array_equal(finite, np.isfinite(y))
            bound = float(np.finfo(dtype).eps) * (k + 4) ** 0.5
            assert np.all(np.abs(y[finite] - want[finite]) <= bound * size[finite])


@at_levels
def test_what_is_not_finite_stays_in_its_row(level: str) -> None:
    for turned in (False, True):
        a, x = np.ones((37, 21), "f4"), np.ones(21, "f4")
        a[3, 20], a[36, 0], a[5, 7], a[6, 1] = np.nan, np.inf, -np.inf, np.inf
        a[6, 2] = -np.inf
        memory = a.T.copy() if turned else a
        y, = call("gemm", "gemv", "f4", [memory, x], [((37,), "f4")],
                  [1, 37, 21, 0, *((1, 37) if turned else (21, 1)), 0], 2, level)
        with np.errstate(invalid="ignore"):
            np.testing.assert_array_equal(y, a @ x)


@pytest.mark.slow
def test_under_sanitizers(tmp_path: Path) -> None:
    """Exact buffers: nothing outside them, no undefined arithmetic (cases: gemv_driver.c)."""
    drive("gemv_driver.c", tmp_path)
