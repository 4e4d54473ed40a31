"""Threefry: the published test vectors, and both streams of JAX where jax is installed."""
from __future__ import annotations

import os
from typing import Any

import numpy as np
import pytest
from support.oracle import evaluate, threefry2x32


# Random123's known answers (kat_vectors of the authors' distribution): key, counter, result
@pytest.mark.parametrize("key, counter, want", [
    ((0, 0), (0, 0), (0x6B200159, 0x99BA4EFE)),
    ((0xFFFFFFFF, 0xFFFFFFFF), (0xFFFFFFFF, 0xFFFFFFFF), (0x1CB996FC, 0xBB002BE7)),
    ((0x13198A2E, 0x03707344), (0x243F6A88, 0x85A308D3), (0xC4923A9C, 0x483DF7A0))])
def test_published_vectors(key: Any, counter: Any, want: Any) -> None:
    packed = np.uint64(key[0] << 32 | key[1])
    x = [np.array([c], np.uint32) for c in counter]
    assert tuple(int(v[0]) for v in threefry2x32(packed, *x)) == want


class _Aval:
    def __init__(self, shape: tuple[int, ...], dtype: Any) -> None:
        self.shape, self.dtype = shape, np.dtype(dtype)


@pytest.mark.parametrize("new", [False, True])
def test_the_oracle_counts_as_jax(new: bool) -> None:
    os.environ.setdefault("JAX_PLATFORMS", "cpu")
    jax = pytest.importorskip("jax", exc_type=ImportError)
    with jax.enable_x64(True), jax.threefry_partitionable(new):
        key = jax.random.key(-7)
        mine = evaluate("random_seed", [_Aval((), "u8")], {}, np.int64(-7))[0]
        for width in (8, 16, 32, 64):
            for shape in ((), (1,), (5,), (3, 5)):
                want = np.asarray(jax.random.bits(key, shape, f"uint{width}"))
                got = evaluate("random_bits", [_Aval(shape, f"u{width // 8}")],
                               {"shape": shape, "bit_width": width, "partitionable": new}, mine)
                np.testing.assert_array_equal(got[0], want)
        for shape in ((2,), (3,), (2, 3)):
            want = np.asarray(jax.random.key_data(jax.random.split(key, shape)), np.uint64)
            got = evaluate("random_split", [_Aval(shape, "u8")],
                           {"shape": shape, "partitionable": new}, mine)[0]
            np.testing.assert_array_equal(got, want[..., 0] << np.uint64(32) | want[..., 1])
        want = np.asarray(jax.random.key_data(jax.random.fold_in(key, 11)), np.uint64)
        got = evaluate("random_fold_in", [_Aval((), "u8")], {}, mine, np.uint32(11))[0]
        assert int(got) == int(want[0]) << 32 | int(want[1])
