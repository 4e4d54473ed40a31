"""Index arrays of several dtypes are one index: no promotion of the user's."""
from __future__ import annotations

import numpy as np
import pytest

import calque
import calque.numpy as jnp


@pytest.mark.parametrize("known", [np.int32, np.int64, np.uint8])
def test_known_and_traced_positions_under_strict_promotion(known: type) -> None:
    x = np.arange(12.0).reshape(3, 4)
    rows, columns = np.array([0, 2, 1], known), np.array([3, 0, -1])
    with calque.enable_x64(True), calque.numpy_dtype_promotion("strict"):
        got = calque.jit(lambda x, c: x.at[rows, c].get(mode="fill"))(jnp.asarray(x), columns)
        summed = calque.jit(lambda x, c: x.at[rows, c].add(1.0))(jnp.asarray(x), columns)
        # known before the call, beside positions of 64 bits
        folded = calque.jit(lambda x, c: x[jnp.arange(3) % 3, c + 0])(jnp.asarray(x), columns)
    np.testing.assert_array_equal(got, x[rows, columns])
    want = x.copy()
    np.add.at(want, (rows, columns), 1.0)
    np.testing.assert_array_equal(summed, want)
    np.testing.assert_array_equal(folded, x[np.arange(3), columns])
