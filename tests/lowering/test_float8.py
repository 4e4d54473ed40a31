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


@pytest.mark.parametrize("dtype", [
    ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e4m3fnuz, ml_dtypes.float8_e5m2,
    ml_dtypes.float8_e5m2fnuz])
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
