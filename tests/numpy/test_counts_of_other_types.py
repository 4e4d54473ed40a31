"""Counts, shapes and positions given as True or as whole floats: what JAX 0.10.2 does with them."""
from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import calque
import calque.numpy as jnp
from calque import lax

X = np.arange(6, dtype=np.float32)
SAME: list[tuple[str, Callable[[], Any], Any]] = [
    ("zeros(True)", lambda: jnp.zeros(True), np.zeros(1)),
    ("ones(False)", lambda: jnp.ones(False), np.ones(0)),
    ("full(True, 2)", lambda: jnp.full(True, 2.0), [2]),
    ("zeros_like(shape=True)", lambda: jnp.zeros_like(X, shape=True), [0]),
    ("broadcast_to(1, True)", lambda: jnp.broadcast_to(1.0, True), [1]),
    ("repeat(x, True)", lambda: jnp.repeat(X, True), X),
    ("tile(x, True)", lambda: jnp.tile(X, True), X),
    ("split(x, 2.0)", lambda: jnp.stack(jnp.split(X, 2.0)), X.reshape(2, 3)),
    ("array_split(x, 4.0)", lambda: jnp.array_split(X, 4.0)[1], [2, 3]),
    ("delete(x, True)", lambda: jnp.delete(X, True), np.delete(X, 1)),
    ("integer_pow(x, 2.0)", lambda: lax.integer_pow(X, 2.0), X ** 2),
    ("top_k(x, True)", lambda: lax.top_k(X, True)[0], [5])]


@pytest.mark.parametrize("call, wanted", [row[1:] for row in SAME], ids=[row[0] for row in SAME])
def test_taken(call: Callable[[], Any], wanted: Any) -> None:
    np.testing.assert_array_equal(call(), wanted)


@pytest.mark.parametrize("error, text, call", [
    (TypeError, "Shapes must be 1D sequences", lambda: lax.top_k(X, 2.0)),
    (TypeError, "the exponent must be a whole number, got 2.5", lambda: lax.integer_pow(X, 2.5)),
    (ValueError, "split: cannot divide into -2 sections", lambda: jnp.split(X, -2)),
    (ValueError, "k must be a scalar integer; got 1.0", lambda: jnp.eye(2, k=1.0)),
    (TypeError, "tensordot axes argument must be", lambda: jnp.tensordot(X, X, True)),
    (TypeError, "axis must be an integer, got 0.0", lambda: lax.argmax(X, 0.0, np.int32)),
    (TypeError, "exponent_bits must be an integer, got 5.0",
     lambda: lax.reduce_precision(X, 5.0, 10)),
    (ValueError, "Argument `n` to polygamma must be of integer type",
     lambda: calque.scipy.special.polygamma(1.0, X))])
def test_refused(error: type[Exception], text: str, call: Callable[[], Any]) -> None:
    with pytest.raises(error, match=re.escape(text)):
        call()


def test_rolls_by_traced_shifts_in_a_tuple() -> None:
    """With numbers between them, too (jax_galsim)."""
    table = X.reshape(2, 3)
    found = calque.jit(lambda a, b: (
        jnp.roll(table, (a, b), (0, 1)), jnp.roll(table, [-a, np.int32(2)], (0, 1)),
        jnp.roll(table, (a,), 1), jnp.roll(table, (a, b), 1)))(1, 2)
    for made, shift, axis in zip(found, ((1, 2), (-1, 2), 1, (1, 2)), ((0, 1), (0, 1), 1, 1)):
        np.testing.assert_array_equal(made, np.roll(table, shift, axis))


def test_operators_widen_as_the_promotion_says() -> None:
    """Small arrays, eagerly: values, dtypes, and no warning where a number does not fit."""
    with calque.enable_x64(True):
        big = jnp.array([2**62, 3]) * jnp.array([1, 2], jnp.float16)
    assert big.dtype == np.float16 and np.isinf(big[0]) and big[1] == 6
    pairs = [(np.int32, np.float32), (np.bool_, np.int8), (np.uint8, np.int32),
             (np.int32, jnp.bfloat16), (jnp.float16, np.float32), (np.int32, np.complex64)]
    for a, b in pairs:
        x, y = jnp.array([3, 1]).astype(a), jnp.array(2).astype(b)
        for f in (jnp.add, jnp.subtract, jnp.multiply) if a is not np.bool_ else (jnp.add,):
            for made, compiled in ((f(x, y), calque.jit(f)(x, y)), (f(y, x), calque.jit(f)(y, x))):
                assert made.aval == compiled.aval
                np.testing.assert_array_equal(made, compiled)
