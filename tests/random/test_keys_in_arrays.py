"""Typed keys as elements of arrays: what lies outside of one, empty ones, keys in callbacks."""
from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import calque
import calque.numpy as jnp

IMPLS = ["threefry2x32", "rbg"]
both_ways = pytest.mark.parametrize("jit", [lambda f: f, calque.jit], ids=["eager", "jit"])
OUTSIDE = 2**32 - 1  # each word of a key that is read outside, as JAX 0.10.2 has it


@both_ways
@pytest.mark.parametrize("impl", IMPLS)
@pytest.mark.parametrize("read", [
    lambda k: k.at[np.array([1, 9])].get(mode="fill"), lambda k: jnp.take(k, np.array([1, 9])),
    lambda k: jnp.stack([k[1], k.at[9].get(mode="fill")])], ids=["get", "take", "one"])
def test_keys_outside(jit: Any, impl: str, read: Any) -> None:
    keys = calque.random.split(calque.random.key(0, impl=impl), 3)
    words = np.asarray(calque.random.key_data(keys))
    got = calque.random.key_data(jit(read)(keys))
    np.testing.assert_array_equal(got, [words[1], np.full_like(words[1], OUTSIDE)])


@both_ways
@pytest.mark.parametrize("impl", IMPLS)
def test_arrays_of_no_keys_yet(jit: Any, impl: str) -> None:
    key = calque.random.key(0, impl=impl)
    for made in (jit(lambda: jnp.empty((2,), key.dtype))(), jnp.zeros((2,), key.dtype)):
        assert made.dtype == key.dtype and not calque.random.key_data(made).any()


def test_words_are_wrapped_by_a_dtype() -> None:
    key = calque.random.key(3, impl="rbg")
    words = calque.random.key_data(key)
    assert calque.random.wrap_key_data(words, dtype=key.dtype) == key
    with pytest.raises(ValueError, match="Cannot specify both `impl` and `dtype`"):
        calque.random.wrap_key_data(words, impl="rbg", dtype=key.dtype)


@both_ways
def test_keys_are_printed(jit: Any, capsys: pytest.CaptureFixture[str]) -> None:
    jit(lambda k: calque.debug.print("{k} {}", 1.5, k=k))(calque.random.key(0, impl="rbg"))
    calque.effects_barrier()
    assert capsys.readouterr().out == "Array((), dtype=key<rbg>) overlaying:\n[0 0 0 0] 1.5\n"
