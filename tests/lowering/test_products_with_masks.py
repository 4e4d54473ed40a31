"""A product with bools chooses: what a mask does not name is 0, infinite and NaN too.

The oracle is NumPy's where.
"""
from __future__ import annotations

import numpy as np
import pytest

import calque as jax
import calque.numpy as jnp
from calque.core.config import config

BAD = np.array([np.nan, -np.inf, np.inf, 2.0, np.nan, -3.0])
MASK = np.array([True, False, False, True, False, False])
DTYPES = ("float16", "float32", "complex64")


def _where(mask, x):
    return np.where(mask, x, x.dtype.type(0))


def _same(got, want):
    np.testing.assert_array_equal(np.asarray(got), want)
    assert np.asarray(got).dtype == want.dtype
    if want.dtype.kind == "f":  # (an unnamed -3 is +0, not -0)
        np.testing.assert_array_equal(np.signbit(got), np.signbit(want))


@pytest.mark.parametrize("jitted", [False, True])
@pytest.mark.parametrize("dtype", DTYPES)
def test_of_a_mask_and_numbers(dtype, jitted):
    x = BAD.astype(dtype)
    run = jax.jit if jitted else lambda f: f
    _same(run(lambda p, x: p * x)(MASK, jnp.asarray(x)), _where(MASK, x))
    _same(run(lambda p, x: x * p)(jnp.asarray(MASK), jnp.asarray(x)), _where(MASK, x))
    _same(run(lambda p: p * x[1])(jnp.asarray(MASK)), _where(MASK, np.broadcast_to(x[1], (6,))))
    square = np.stack([x] * 6)
    got = run(lambda p, x: jnp.multiply(p, x))(jnp.asarray(np.eye(6, dtype=bool)), jnp.asarray(x))
    _same(got, _where(np.eye(6, dtype=bool), square))


def test_of_float64():
    before = config.jax_enable_x64
    config.update("jax_enable_x64", True)
    try:
        x = jnp.asarray(BAD)
        _same(jnp.asarray(MASK) * x, _where(MASK, BAD))
        _same(jax.jit(lambda p, x: p * x)(MASK, x), _where(MASK, BAD))
    finally:
        config.update("jax_enable_x64", before)


@pytest.mark.parametrize("size", [6, 30_000, 600_000])
def test_at_any_size(size):
    mask = np.arange(size) % 3 == 0
    got = jnp.asarray(mask) * jnp.full(size, -jnp.inf)
    _same(got, np.where(mask, np.float32(-np.inf), np.float32(0)))


def test_a_conversion_in_the_same_program():
    x = BAD.astype("float32")
    _same(jax.jit(lambda p, x: p.astype(x.dtype) * x)(MASK, x), _where(MASK, x))
    _same(jax.jit(lambda p, x: jax.lax.fori_loop(0, 3, lambda i, c: p * c, x))(MASK, x),
          _where(MASK, x))
    _same(jax.jit(lambda x: jax.lax.cond(x[3] > 0, lambda y: (y > 0) * y, lambda y: y, x))(x),
          _where(x > 0, x))
    _same(jax.jit(jax.vmap(lambda p, x: p * x))(MASK, x), _where(MASK, x))


def test_what_is_added_in_the_place_of_a_mask():
    scores = np.linspace(-1, 1, 9).reshape(3, 3).astype("float32")
    seen = np.tril(np.ones((3, 3), bool))

    def attend(scores):
        return jax.nn.softmax(scores + (jnp.asarray(seen) == 0) * -jnp.inf, axis=1)

    want = np.where(seen, np.exp(scores), 0)
    want /= want.sum(1, keepdims=True)
    for f in (attend, jax.jit(attend), lambda s: jax.vmap(attend)(s[None])[0]):
        np.testing.assert_allclose(np.asarray(f(scores)), want, rtol=1e-6)
    grad = jax.grad(lambda s: (attend(s) ** 2).sum())
    a, b = np.asarray(grad(scores)), np.asarray(jax.jit(grad)(scores))
    assert np.isfinite(a).all()
    np.testing.assert_allclose(a, b, atol=1e-6)
    step = 1e-2
    for i, j in ((1, 0), (2, 1)):
        moved = [np.array(scores), np.array(scores)]
        moved[0][i, j] += step
        moved[1][i, j] -= step
        up, down = [(np.asarray(attend(m), np.float64) ** 2).sum() for m in moved]
        assert abs((up - down) / (2 * step) - a[i, j]) < 1e-3


def test_what_is_no_mask_stays_a_product():
    x = BAD.astype("float32")
    assert np.isnan(np.asarray(jnp.asarray(MASK).astype("int32") * jnp.asarray(x))[1])
    assert np.isnan(np.asarray(jnp.array(False) * jnp.asarray(x))[0])  # (broadcast once converted)
    assert np.isnan(np.asarray(jax.jit(lambda p, x: (1 - p) * x)(MASK, x))[0])
    jaxpr = str(jax.make_jaxpr(lambda p, x: p * x)(MASK, x))
    assert "mul" in jaxpr and "select" not in jaxpr
