"""Axes exchanged in long runs: the kernel against NumPy, and when it is left to IREE."""
from __future__ import annotations

import numpy as np
import pytest

import calque
import calque.numpy as jnp

CASES = [  # shape, order
    ((8, 8, 4096), (1, 0, 2)), ((3, 16, 2048), (1, 0, 2)), ((16, 3, 1, 2048), (1, 2, 0, 3)),
    ((2, 3, 4, 5000), (2, 0, 1, 3)), ((65, 70, 1024), (1, 0, 2)), ((4, 8, 2048), (0, 1, 2))]


@pytest.mark.parametrize("dtype", [
    "float32", "int8", pytest.param("complex64", marks=pytest.mark.slow)])
def test_exchange(dtype: str) -> None:
    xs = [np.arange(np.prod(shape)).reshape(shape).astype(dtype) for shape, _ in CASES]
    outs = calque.jit(lambda xs: [jnp.transpose(v, o) for v, (_, o) in zip(xs, CASES)])(xs)
    for x, (shape, order), out in zip(xs, CASES, outs, strict=True):
        np.testing.assert_array_equal(out, x.transpose(order), str(shape))


def test_only_what_is_there_already() -> None:
    x = np.ones((8, 8, 4096), np.float32)
    moved = calque.jit(lambda v: jnp.transpose(v, (1, 0, 2))).lower(x).as_text()
    computed = calque.jit(lambda v: jnp.transpose(jnp.sin(v), (1, 0, 2))).lower(x).as_text()
    assert "exchange_1" in moved and "exchange_1" not in computed
