"""Many arrays joined outside of transformations (numpy/many): as NumPy, with the general errors."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import calque
import calque.numpy as jnp
from calque import lax

JOINS: dict[str, Callable[..., Any]] = {
    "stack": np.stack, "concatenate": np.concatenate, "vstack": np.vstack, "hstack": np.hstack}


@pytest.mark.parametrize("name", JOINS)
@pytest.mark.parametrize("shape", [(3,), (2, 3), (0, 3), (1, 1, 2)])
@pytest.mark.parametrize("dtype", ["float32", "int8", "bool", "bfloat16", "complex64"])
def test_as_numpy(name: str, shape: tuple[int, ...], dtype: str) -> None:
    parts = [jnp.asarray(np.arange(np.prod(shape)).reshape(shape) + i).astype(dtype)
             for i in range(40)]
    expected = JOINS[name]([np.asarray(p) for p in parts])
    for given in (parts, tuple(parts)):
        made = getattr(jnp, name)(given)
        assert made.dtype == parts[0].dtype and not made.weak_type
        np.testing.assert_array_equal(np.asarray(made), expected)


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_axes(axis: int) -> None:
    rows = [jnp.full((2, 3), i) for i in range(33)]
    plain = [np.asarray(r) for r in rows]
    np.testing.assert_array_equal(jnp.stack(rows, axis), np.stack(plain, axis))
    np.testing.assert_array_equal(jnp.stack(rows, axis=axis), np.stack(plain, axis))
    np.testing.assert_array_equal(jnp.concatenate(rows, axis), np.concatenate(plain, axis))


def test_arrays_of_arrays_larger_than_what_numpy_has_at_hand() -> None:
    rows = [jnp.full((100, 10), float(i)) for i in range(100)]
    np.testing.assert_array_equal(jnp.array(rows), np.stack([np.asarray(r) for r in rows]))
    mixed = [*rows, jnp.ones((100, 10), int)]
    assert jnp.array(mixed).shape == (101, 100, 10) and jnp.array(mixed).dtype == np.float32
    assert jnp.stack(mixed).dtype == np.float32


def test_results_that_are_not_ready_are_waited_for() -> None:
    step = calque.jit(lambda x: lax.fori_loop(0, 50, lambda i, v: jnp.sin(v @ v) + 0.5, x))
    x = jnp.asarray(np.random.default_rng(0).uniform(size=(64, 64)).astype(np.float32))
    states = [x]
    for _ in range(35):
        states.append(step(states[-1]))
    whole = np.asarray(jnp.stack(states))
    for i, s in enumerate(states):
        np.testing.assert_array_equal(whole[i], np.asarray(s))


def test_errors_are_the_general_ones() -> None:
    rows = [jnp.ones(3)] * 40
    with pytest.raises(ValueError, match="Cannot stack arrays with different shapes"):
        jnp.stack([*rows, jnp.ones(4)])
    with pytest.raises(ValueError, match="axis 5 is out of bounds"):
        jnp.stack(rows, 5)
    with pytest.raises(ValueError, match="Zero-dimensional arrays cannot be concatenated"):
        jnp.concatenate([jnp.float32(1)] * 40)
    gone = jnp.ones(3) + 1
    gone.delete()
    with pytest.raises(RuntimeError, match="deleted"):
        jnp.stack([*rows, gone])


def test_what_is_joined_is_no_transfer() -> None:
    rows = [jnp.full(3, i) for i in range(40)]
    with calque.transfer_guard("disallow"):
        for some in (rows, rows[:3]):
            for join in (jnp.stack, jnp.concatenate, jnp.array):
                assert join(some).size == 3 * len(some)
        with pytest.raises(RuntimeError, match="Disallowed host-to-device transfer"):
            jnp.array([*rows, np.ones(3, np.float32)])


def test_transformations_see_the_operands() -> None:
    def f(x: Any) -> Any:
        return (jnp.stack([x * i for i in range(40)]) ** 2).sum()
    np.testing.assert_allclose(calque.grad(f)(2.0), 2 * 2.0 * sum(i * i for i in range(40)))
    assert calque.vmap(lambda x: jnp.stack([x] * 40))(jnp.arange(3.0)).shape == (3, 40)
    np.testing.assert_array_equal(
        calque.jit(lambda x: jnp.concatenate([x] * 40))(jnp.arange(2)), np.tile([0, 1], 40))
