"""bfloat16 rounds each result, in a jitted program as in eager operations.

Oracle: each operation in float32 by NumPy, rounded by ml_dtypes (correctly rounded: float32 has
more than twice bfloat16's digits and two, so a second rounding changes nothing; Figueroa 1995).
"""
import ml_dtypes
import numpy as np
import pytest

import calque
import calque.numpy as jnp
from calque import lax

BF16 = ml_dtypes.bfloat16
LEVELS = ("x86-64-v2", "x86-64-v3", "x86-64-v4")


def rounded(x):
    return np.asarray(x, np.float32).astype(BF16).astype(np.float32)


def chain(x, y, root, r=lambda v: v):
    """Results that are used again unrounded would differ in."""
    s = r(x + y)
    p = r(s * y)
    q = r(p / s)
    h = r(root(abs(q)))
    return s, r(s - x), r(p - s), r(r(h * h) - q)


def data(shape):
    rng = np.random.default_rng(7)
    x, y = (rng.uniform(0.5, 2, shape).astype(BF16) for _ in range(2))
    return x, y, chain(x.astype(np.float32), y.astype(np.float32), np.sqrt, rounded)


WAYS = {
    "jit": lambda f: calque.jit(f),
    "vmap": lambda f: calque.jit(calque.vmap(f)),
    "loop": lambda f: calque.jit(lambda x, y: lax.fori_loop(
        0, 2, lambda i, c: f(x, y), (jnp.zeros_like(x),) * 4)),
    "cond": lambda f: calque.jit(lambda x, y: lax.cond(
        x.ravel()[0] > 0, f, lambda x, y: (x,) * 4, x, y)),
    "with what IREE computes": lambda f: calque.jit(
        lambda x, y: (*f(x, y), jnp.cumsum(x, 0), jnp.sort(y.ravel())))}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("shape", [(1, 1), (7, 3), (33, 65), (300, 40)])
def test_each_operation_rounds(way, shape):
    x, y, want = data(shape)
    for got, w in zip(WAYS[way](lambda x, y: chain(x, y, jnp.sqrt))(x, y), want):
        np.testing.assert_array_equal(np.asarray(got).astype(np.float32), w)


@pytest.mark.parametrize("level", LEVELS)
def test_at_each_level(level, monkeypatch):
    monkeypatch.setenv("CALQUE_CPU", level)
    x, y, want = data((5, 1000))
    for got, w in zip(calque.jit(lambda x, y: chain(x, y, jnp.sqrt))(x, y), want):
        np.testing.assert_array_equal(np.asarray(got).astype(np.float32), w)


@pytest.mark.parametrize("read", [jnp.tanh, jnp.sin, jnp.exp, lax.rsqrt, jnp.log1p])
def test_functions_round_before_they_are_read(read):
    x = data((40, 50))[0]
    f = calque.jit(lambda x: (read(x), read(x) - 1))
    value, less = (np.asarray(v).astype(np.float32) for v in f(x))
    np.testing.assert_array_equal(less, rounded(value - 1))


@pytest.mark.parametrize("total", [jnp.cumsum, lambda x: x.sum(0, keepdims=True),
                                   lambda x: x @ x.T @ x, lambda x: jnp.mean(x, 1, keepdims=True)])
def test_sums_round_before_they_are_read(total):
    x = data((30, 30))[0]
    value, times = (np.asarray(v).astype(np.float32) for v in calque.jit(
        lambda x: (total(x), total(x) * jnp.bfloat16(1.25)))(x))
    np.testing.assert_array_equal(times, rounded(value * 1.25))


def test_special_values():
    x = np.array([np.nan, -np.nan, np.inf, -np.inf, 3.38e38, -3.38e38, 0.0, -0.0], BF16)
    got = calque.jit(lambda x: (x + x, x - x, x * x, x / x))(x)
    with np.errstate(all="ignore"):
        wide = x.astype(np.float32)
        want = [rounded(v) for v in (wide + wide, wide - wide, wide * wide, wide / wide)]
    for g, w in zip(got, want):
        np.testing.assert_array_equal(np.asarray(g).astype(np.float32), w)


@pytest.mark.parametrize("batch", [None, 3, 64])
@pytest.mark.parametrize("tolerance", [1e-3, 1e-6, 0.0])
def test_iterations_end_at_the_last_digit(batch, tolerance):
    """Newton's for a root: two steps that round to one number differ by 0, not by less (some
    alternate between two numbers, for ever: 50 steps)."""
    def root(x):
        def step(c):
            old, _, i = c
            new = old - (old * old - x) / (2 * old)
            return new, new - old, i + 1
        return lax.while_loop(lambda c: (abs(c[1]) > tolerance) & (c[2] < 50), step,
                              (x, jnp.ones_like(x), 0))
    x = np.linspace(1, 4, batch or 1, dtype=np.float32).astype(BF16)
    found = (calque.jit(calque.vmap(root)) if batch else calque.jit(root))(x if batch else x[0])
    for one, wide in zip(zip(*(np.atleast_1d(np.asarray(v)) for v in found)), x):
        assert tuple(map(float, one)) == iterated(float(wide), tolerance)


def iterated(x, tolerance):
    old, moved, steps = x, 1.0, 0
    while abs(moved) > tolerance and steps < 50:
        part = rounded(rounded(rounded(rounded(old * old) - x)) / rounded(2 * old))
        new = rounded(old - part)
        moved, old, steps = float(rounded(new - old)), float(new), steps + 1
    return old, moved, steps


def test_exported_text_is_plain():
    """By bits is for IREE: a module for others has the operations that the program asked for."""
    from calque import export
    text = export.export(calque.jit(lambda x: (x + x).astype(jnp.float32).astype(jnp.bfloat16)))(
        calque.ShapeDtypeStruct((4,), jnp.bfloat16)).mlir_module()
    assert "stablehlo.add" in text and "shift" not in text and "bitcast" not in text
