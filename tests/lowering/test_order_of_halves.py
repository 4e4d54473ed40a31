"""Largest and least numbers of float16 and bfloat16, which kernels find by integers of their order
(kernels/folds.Order): every bit pattern, NaN of both signs, over rows, columns and all."""
from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import calque

HALVES = (np.float16, ml_dtypes.bfloat16)


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    with np.errstate(invalid="ignore"):  # (signalling NaN among the patterns)
        yield


def both(x: Any, axis: int | None) -> Any:
    return x.max(axis), x.min(axis)


def check(x: np.ndarray[Any, Any], axis: int | None) -> None:
    want = x.astype(np.float64)
    for got, at in zip(calque.jit(both, static_argnums=1)(x, axis),
                       (want.max(axis), want.min(axis))):
        assert got.dtype == x.dtype
        np.testing.assert_array_equal(np.asarray(got).astype(np.float64), at)


@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize("axis", (None, 0, 1))
def test_every_pattern(dtype: Any, axis: int | None) -> None:
    """Rows and columns with NaN and without."""
    x = np.arange(1 << 16, dtype=np.uint16).view(dtype)
    check(np.random.default_rng(0).permutation(x).reshape(64, 1024), axis)
    numbers = x[~np.isnan(x)]
    check(np.sort(numbers)[:numbers.size // 301 * 301].reshape(301, -1), axis)


@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize("sign", (1, -1))
def test_one_nan(dtype: Any, sign: int) -> None:
    """Of more than a core's cache holds, and where all other numbers are negative."""
    x = -np.abs(np.random.default_rng(1).normal(size=(700, 1001))).astype(dtype)
    check(x, None)
    check(-x, None)
    x[350, 7] = dtype(sign * np.nan)
    check(x, None)
    check(x, 1)


@pytest.mark.parametrize("dtype", HALVES)
def test_infinities(dtype: Any) -> None:
    for value in (np.inf, -np.inf):
        check(np.full((40, 70), value, dtype), 0)
        check(np.full((40, 70), value, dtype), 1)


@pytest.mark.parametrize("dtype", HALVES)
def test_computed(dtype: Any) -> None:
    """What is reduced is rounded to halves first, as it is where it is a result."""
    x = np.random.default_rng(2).normal(size=(900, 701)).astype(dtype)
    (got,) = calque.jit(lambda x: (abs(x * 3).max(1),))(x)
    want = np.abs(x.astype(np.float32) * 3).astype(dtype).max(1)
    np.testing.assert_array_equal(np.asarray(got).astype(np.float32), want.astype(np.float32))


@pytest.mark.parametrize("find", ("argmax", "argmin"))
def test_positions_in_bfloat16(find: str) -> None:
    """In two stages, as of other floats; a NaN is the extremum, its first place counts."""
    x = np.random.default_rng(3).normal(size=(800, 900)).astype(ml_dtypes.bfloat16)
    at = calque.jit(lambda x: getattr(calque.numpy, find)(x))
    assert int(at(x)) == getattr(np, find)(x.astype(np.float32))
    x[500, 17] = x[600, 3] = np.nan
    assert int(at(x)) == 500 * 900 + 17
