"""Many arrays joined by one kernel, or by several that write into one result.  Oracle: NumPy."""
from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import calque
import calque.numpy as jnp

RNG = np.random.default_rng(5)


def numbers(shape, dtype="f4"):
    return RNG.integers(0, 100, shape).astype(dtype)


def plan(f, *arguments):
    return str(calque.jit(f).lower(*arguments).plan())


@pytest.mark.parametrize("count", [8, 28, 29, 57, 100])
def test_stacks(count):
    xs = [numbers((7, 23)) for _ in range(count)]
    f = calque.jit(lambda xs: (jnp.stack(xs), jnp.stack(xs, 1), jnp.concatenate(xs, 1)))
    for made, want in zip(f(xs), (np.stack(xs), np.stack(xs, 1), np.concatenate(xs, 1))):
        np.testing.assert_array_equal(made, want)


@pytest.mark.parametrize("dtype", ["u1", "?", "f2", ml_dtypes.bfloat16, "i4", "f8"])
def test_parameters_as_a_vector(dtype):
    """Of sizes from four numbers to many, which workgroups share."""
    shapes = [(100, 64), (64,), (64, 64), (5,), (3, 3, 4, 16), (16,), (4,), (300, 101), (31, 2)]
    xs = [numbers(s, dtype) for s in shapes]
    with calque.enable_x64(dtype == "f8"):
        made = calque.jit(lambda xs: jnp.concatenate([x.ravel() for x in xs]))(xs)
    np.testing.assert_array_equal(made, np.concatenate([x.ravel() for x in xs]))


def test_what_is_computed_and_what_follows():
    """Operands that are not arguments, one array twice, and a result that is read on."""
    xs = [numbers((50, 11 + i)) for i in range(12)]

    def f(xs, np_):
        made = np_.concatenate([2 * x for x in xs] + [xs[0], xs[0]], 1)
        return made, made.sum(0), made[::-1]

    for made, want in zip(calque.jit(lambda xs: f(xs, jnp))(xs), f(xs, np)):
        np.testing.assert_array_equal(made, want)


def test_arguments_stay_as_they_are():
    xs = [jnp.asarray(numbers((40, 40))) for _ in range(40)]
    kept = [np.asarray(x).copy() for x in xs]
    f = calque.jit(jnp.stack)
    first, second = f(xs), f(xs)
    np.testing.assert_array_equal(first, np.stack(kept))
    np.testing.assert_array_equal(second, np.stack(kept))
    for x, want in zip(xs, kept):
        np.testing.assert_array_equal(x, want)


@pytest.mark.parametrize("level", ["x86-64-v2", "x86-64-v3", "x86-64-v4"])
def test_levels(level, monkeypatch):
    monkeypatch.setenv("CALQUE_CPU", level)
    xs = [numbers((9, 5 + i)) for i in range(33)]
    np.testing.assert_array_equal(calque.jit(lambda xs: jnp.concatenate(xs, 1))(xs),
                                  np.concatenate(xs, 1))


def test_gradients():
    """Of a sum of a stack, weighted: a part of the weights each."""
    xs, weight = [numbers((30, 8)) for _ in range(31)], numbers((31, 30, 8))
    found = calque.jit(calque.grad(lambda xs: (jnp.stack(xs) * weight).sum()))(xs)
    np.testing.assert_array_equal(np.stack(found), weight)


def test_a_plan_says_so():
    text = plan(jnp.stack, [numbers(1000) for _ in range(50)])
    assert "IREE" not in text and text.count("copy of parts") == 2
