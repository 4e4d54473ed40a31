"""Exponents, bounds and numbers that no integer holds: powers that they have, errors where not."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import calque
import calque.numpy as jnp
from calque import lax

LARGE = (2**31, 2**63, 2**64 - 1, 10**30, 10**30 + 1)


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32", "uint32", "int64", "uint64"])
def test_powers_of_integers_wrap_around(dtype: str) -> None:
    bits = 8 * np.dtype(dtype).itemsize
    with calque.enable_x64(bits == 64):
        x = np.array([1, 2, 3, 5, -3, 0, 127, 6]).astype(dtype)
        for y in LARGE:  # Python's pow of three arguments is exact
            want = np.array([pow(int(v), y, 1 << bits) for v in x], f"uint{bits}").view(dtype)
            for f in (lambda v, y=y: v ** y, calque.jit(lambda v, y=y: jnp.power(v, y))):
                np.testing.assert_array_equal(f(jnp.asarray(x)), want)
        with pytest.raises(TypeError, match="negative powers"):
            jnp.asarray(x) ** -2**64


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_powers_of_floats_have_the_sign_of_the_parity(dtype: str) -> None:
    with calque.enable_x64(dtype == "float64"):
        x = np.array([1, -1, 2, -2, .5, -.5, 0, np.inf, -np.inf, np.nan], dtype)
        for y in (*LARGE[1:], -2**63 - 1, -10**30):
            grows = np.abs(x) > 1 if y > 0 else np.abs(x) < 1
            want = np.where(np.abs(x) == 1, 1., np.where(grows, np.inf, 0.))
            want = np.where(np.isnan(x), x, np.copysign(want, x if y % 2 else 1.))
            for f in (lambda v, y=y: v ** y, calque.jit(lambda v, y=y: jnp.power(v, y))):
                np.testing.assert_array_equal(f(jnp.asarray(x)), want)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_whole_exponents_are_exact_wherever_they_come_from(dtype: str) -> None:
    x = np.array([-1.5, -2, 1.5, -1], np.float32).astype(jnp.dtype(dtype))
    y = np.array([2**31 - 1, 2**31 - 2, 2**31 - 1, 2**31 - 1], np.int32)
    want = [-np.inf, np.inf, np.inf, -1]
    for got in (jnp.power(x, y), jnp.power(jnp.asarray(x), jnp.asarray(y)),
                calque.jit(jnp.power)(x, y), calque.jit(lambda v: jnp.power(v, y))(x)):
        np.testing.assert_array_equal(np.asarray(got, np.float32), want)


@pytest.mark.parametrize("f", [
    lambda n: lax.fori_loop(0, n, lambda i, c: c, 1.0),
    lambda n: lax.fori_loop(0.0, 1e30, lambda i, c: c, 1.0),
    lambda n: lax.scan(lambda c, x: (c, x), 0.0, None, length=n),
    lambda n: calque.pure_callback(lambda x: x, jnp.ones(()), n),
    lambda n: calque.debug.callback(lambda x: None, n),
    lambda n: calque.make_jaxpr(lambda x: x)(n),
])
def test_other_large_numbers_are_told(f: Callable[[int], Any]) -> None:
    with pytest.raises(OverflowError, match=r"(?s)too large to convert|does not end.*Fix: "):
        f(2**64)


def test_a_value_to_pad_with_is_a_scalar() -> None:
    for config in ([(0, 0, 0)], [(1, 0, 0)]):
        with pytest.raises(ValueError, match="padding_value must be a scalar"):
            lax.pad(jnp.ones(2), jnp.ones(2), config)
