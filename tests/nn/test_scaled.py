"""Products of operands in few bits, against NumPy with ml_dtypes: each block by hand."""
from __future__ import annotations

import math
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import calque
import calque.numpy as jnp
from calque import nn
from calque.nn.scaled import quantized

DIMENSIONS = (((2,), (2,)), ((0,), (0,)))


def by_hand(x: Any, mode: str, factor: float) -> Any:
    """What an operand is worth after it was stored, block by block, in double precision."""
    size, kind = {"mxfp8": (32, ml_dtypes.float8_e4m3fn),
                  "nvfp4": (16, ml_dtypes.float4_e2m1fn)}[mode]
    top = float(ml_dtypes.finfo(kind).max)
    out = np.empty(x.shape)
    for i in np.ndindex(*x.shape[:-1]):
        for start in range(0, x.shape[-1], size):
            block = np.float32(x[i][start:start + size]) / np.float32(factor)
            wanted = np.abs(block).max() / np.float32(top)
            if mode == "mxfp8":
                scale = 2.0 ** max(math.ceil(math.log2(wanted)), -127) if wanted else 2.0**-127
            else:
                scale = float(np.float32(min(wanted, 448)).astype(ml_dtypes.float8_e4m3fn))
            kept = np.clip(block / np.float32(scale or 1), -top, top).astype(kind).astype(float)
            out[i][start:start + size] = kept * scale * factor
    return out


@pytest.mark.slow
@pytest.mark.parametrize("mode, factor", [("mxfp8", 1.0), ("nvfp4", 1.0), ("nvfp4", 0.5)])
def test_derivatives_of_scaled_dot_general(mode: str, factor: float) -> None:
    rng = np.random.default_rng(0)
    a, b = (np.float32(rng.normal(size=(2, n, 64)) * 2.0 ** rng.integers(-9, 9, (2, n, 1)))
            for n in (32, 64))
    a[0, 0] = 0
    scale = () if mode == "mxfp8" else (jnp.array([factor], jnp.float32),)
    configs = [nn.get_scaled_dot_general_config(mode, *scale)] * 3
    ct = rng.normal(size=(2, 32, 64)).astype(np.float32)

    @calque.jit
    def both(a: Any, b: Any) -> Any:
        out, pull = calque.vjp(
            lambda a, b: nn.scaled_dot_general(a, b, DIMENSIONS, configs=configs), a, b)
        return out, pull(jnp.asarray(ct))

    def swapped(x: Any) -> Any:
        return np.swapaxes(x, 1, 2)

    def product(x: Any, y: Any) -> Any:
        return by_hand(x, mode, factor) @ swapped(by_hand(y, mode, factor))

    out, (da, db) = both(a, b)
    for got, want in ((out, product(a, b)), (da, product(ct, swapped(b))),
                      (db, product(swapped(ct), swapped(a)))):
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-4 * np.abs(want).max())


@pytest.mark.parametrize("mode, factor", [("mxfp8", 1.0), ("nvfp4", 0.5)])
def test_axes_of_scaled_dot_general(mode: str, factor: float) -> None:
    rng = np.random.default_rng(1)
    a, b = rng.normal(size=(64, 3, 2)).astype("f4"), rng.normal(size=(5, 64)).astype("f4")
    a[:, 1] = 0
    scale = () if mode == "mxfp8" else (jnp.array([factor], jnp.float32),)
    configs = [nn.get_scaled_dot_general_config(mode, *scale)] * 3
    got = nn.scaled_dot_general(a, b, (((0,), (1,)), ((), ())), configs=configs)
    want = np.einsum("mnk,pk->mnp", by_hand(a.transpose(1, 2, 0), mode, factor),
                     by_hand(b, mode, factor))
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-4)
    plain = nn.scaled_dot_general(a, b, (((0,), (1,)), ((), ())))
    np.testing.assert_allclose(plain, np.einsum("kmn,pk->mnp", a, b), rtol=1e-4, atol=1e-4)


def test_quantized_at_the_edges() -> None:
    """Blocks of nothing, of the largest numbers, and a scale that is a power of two already."""
    x = np.zeros((4, 32), np.float32)
    x[1], x[2, 0], x[3, 5] = np.finfo(np.float32).max, 448.0, 448.5
    config = nn.get_scaled_dot_general_config("mxfp8")
    stored, scales = map(np.asarray, quantized(jnp.asarray(x), config))
    assert scales.astype(float).reshape(-1).tolist() == [2.0**-127, 2.0**120, 1.0, 2.0]
    assert stored[0].astype(float).tolist() == [0.0] * 32 and float(stored[2, 0]) == 448


def test_scaled_matmul() -> None:
    rng = np.random.default_rng(2)
    a, b = rng.integers(-3, 4, (2, 3, 8)), rng.integers(-3, 4, (2, 5, 8))
    s, t = rng.integers(1, 4, (2, 3, 2)) / 2, rng.integers(1, 4, (2, 5, 4)) / 2
    got = nn.scaled_matmul(a, b, s, t, jnp.bfloat16)
    want = np.einsum("bmk,bnk->bmn", a * s.repeat(4, -1), b * t.repeat(2, -1))
    assert got.dtype == jnp.bfloat16
    np.testing.assert_allclose(got.astype(jnp.float32), want, rtol=2.0**-8)
    with pytest.raises(ValueError, match="3-dimensional"):
        nn.scaled_matmul(a[0], b[0], s[0], t[0])
    with pytest.raises(ValueError, match="Unsupported mode: f3"):
        nn.get_scaled_dot_general_config("f3")
    with pytest.raises(ValueError, match="48 contracted elements are no blocks of 32"):
        nn.scaled_dot_general(np.ones((1, 2, 48)), np.ones((1, 2, 48)), DIMENSIONS,
                              configs=[nn.get_scaled_dot_general_config("mxfp8")] * 3)
