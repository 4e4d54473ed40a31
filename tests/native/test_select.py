"""The selection of the least keys: against NumPy's stable sort, in the orders that are hardest."""
from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
import pytest

from tests.native.kernels import MARGIN, library

ORDERS = {
    "random": lambda rng, shape, most: rng.integers(0, most, shape, np.uint64),
    "falling": lambda rng, shape, most: np.sort(
        rng.integers(0, most, shape, np.uint64), -1)[..., ::-1],
    "rising": lambda rng, shape, most: np.sort(rng.integers(0, most, shape, np.uint64), -1),
    "ties": lambda rng, shape, most: rng.integers(0, 3, shape, np.uint64),
    "largest": lambda rng, shape, most: np.full(shape, most, np.uint64),
}


def select(keys: Any, k: int, groups: int) -> Any:
    rows, n = keys.shape
    function = getattr(library("select"), f"calque_select_u{8 * keys.itemsize}")
    function.restype = None
    given = np.full(keys.size + 2 * MARGIN, 0, keys.dtype)
    given[MARGIN:-MARGIN] = keys.reshape(-1)
    out = np.full(rows * k + 2 * MARGIN, -9, np.int32)
    for group in range(groups):
        function(ctypes.c_void_p(given.ctypes.data), ctypes.c_int64(MARGIN),
                 ctypes.c_void_p(out.ctypes.data), ctypes.c_int64(MARGIN),
                 *[ctypes.c_int64(v) for v in (rows, n, k, group, groups)])
    assert np.all(out[:MARGIN] == -9) and np.all(out[-MARGIN:] == -9)
    return out[MARGIN:-MARGIN].reshape(rows, k)


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("dtype", ["u4", "u8"])
def test_positions(order: str, dtype: str) -> None:
    rng = np.random.default_rng(5)
    most = np.iinfo(dtype).max
    for rows, n, k in ((1, 1, 1), (3, 7, 7), (2, 64, 5), (2, 1023, 256), (1, 1024, 8),
                       (3, 1025, 1), (2, 5000, 100), (1, 20_011, 256),
                       (4, 300, 10), (2, 4097, 16), (2, 4097, 17), (3, 9_999, 2), (2, 700, 256)):
        keys = ORDERS[order](rng, (rows, n), most).astype(dtype)
        want = np.argsort(keys, -1, kind="stable")[:, :k]
        np.testing.assert_array_equal(select(np.ascontiguousarray(keys), k, min(rows, 2)), want)
