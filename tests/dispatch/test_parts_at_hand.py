"""x[index] of values at hand, without a program: the same as the ordinary way, and as NumPy."""
from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import calque
import calque.numpy as jnp
from calque.dispatch.numpy_rules import part_of
from calque.numpy.advanced import take

SHAPES: list[tuple[int, ...]] = [(), (1,), (5,), (3, 4), (2, 3, 4), (0, 3), (3, 0)]


def drawn_item(rng: np.random.Generator) -> Any:
    position = int(rng.integers(-6, 6))
    step = int(rng.choice([-2, -1, 1, 2]))
    items: list[Any] = [
        position, np.int64(position), np.int32(position), jnp.int32(position), None, True,
        slice(None, None, step), slice(position, int(rng.integers(-6, 6))),
        slice(None, position, step), jnp.array([0, 1]), np.array(0)]
    return items[rng.integers(0, len(items))]


def drawn_index(rng: np.random.Generator, rank: int) -> Any:
    items = [drawn_item(rng) for _ in range(rng.integers(0, rank + 2))]
    if rng.integers(0, 4) == 0:
        items.insert(int(rng.integers(0, len(items) + 1)), Ellipsis)
    return items[0] if len(items) == 1 and rng.integers(0, 2) else tuple(items)


def outcome(f: Any, *args: Any) -> Any:
    try:
        return f(*args)
    except (IndexError, TypeError, ValueError, NotImplementedError) as error:
        return type(error)


@pytest.mark.parametrize("dtype", ["float32", "int8", "bool", "bfloat16", "complex64"])
@pytest.mark.parametrize("shape", SHAPES)
def test_the_same_as_the_ordinary_way(shape: tuple[int, ...], dtype: str) -> None:
    rng = np.random.default_rng([len(shape), sum(shape), ord(dtype[0])])
    value = rng.integers(0, 2, shape).astype(jnp.dtype(dtype))
    for x in (jnp.asarray(value), calque.jit(lambda a: a)(value)):
        for _ in range(60):
            index = drawn_index(rng, len(shape))
            want, got = outcome(take, x, index), outcome(lambda a, i: a[i], x, index)
            if isinstance(want, type) or isinstance(got, type):
                assert want == got, (shape, index, want, got)
                continue
            assert got.aval == want.aval, (index, got.aval, want.aval)
            np.testing.assert_array_equal(np.asarray(got), np.asarray(want), str(index))


def test_which_indices_are_taken() -> None:
    x = jnp.arange(12.0).reshape(3, 4)
    i = jnp.int32(1)
    for index, want in (
            (0, True), (-1, True), (i, True), ((i, slice(1, 3)), True), ((Ellipsis, 2), True),
            (slice(0, 2), True), (np.int64(2), True), ((None, 1), True), (3, False), (-4, False),
            (jnp.int32(7), False), (True, False), (jnp.array([0, 1]), False), (slice(None), False),
            (x[0] > 1, False), ("a", False), (jnp.float32(1), False)):
        assert (part_of(x, index) is not None) == want, index
    assert part_of(calque.device_put(x, calque.devices()[0]), 0) is None  # (where it was put stays)
    with calque.debug_nans(True):
        assert part_of(x, 0) is None


def test_out_of_bounds_is_clamped_as_ever() -> None:
    x = jnp.arange(3.0)
    assert float(x[7]) == 2 and float(x[-9]) == 0 and float(x[jnp.int32(5)]) == 2


def test_parts_are_of_their_own() -> None:
    x = jnp.arange(20_000.0) + 0
    row, part = x[7], x[5:9]
    assert part.unsafe_buffer_pointer() != x.unsafe_buffer_pointer() + 20
    y = calque.jit(lambda a: a * 0, donate_argnums=0)(x)
    assert float(row) == 7 and list(np.asarray(part)) == [5, 6, 7, 8] and float(y[3]) == 0
    with pytest.raises(RuntimeError, match="has been deleted"):
        x[0]


def test_weak_types_keys_and_iteration() -> None:
    assert jnp.full((3,), 2.0)[0].weak_type and not jnp.zeros(3)[0].weak_type
    keys = calque.random.split(calque.random.key(3), 4)
    words = np.asarray(calque.random.key_data(keys))
    for i, key in enumerate(keys):
        assert key.shape == () and key.dtype == keys.dtype
        np.testing.assert_array_equal(calque.random.key_data(key), words[i])
    np.testing.assert_array_equal(calque.random.key_data(keys[1:3]), words[1:3])
    a, b = calque.random.split(calque.random.PRNGKey(0))
    np.testing.assert_array_equal(jnp.stack([a, b]), calque.random.split(calque.random.PRNGKey(0)))
    assert [int(v) for v in reversed(jnp.arange(4))] == [3, 2, 1, 0]


def test_under_transformations_positions_are_traced() -> None:
    x = jnp.arange(4.0)
    assert float(calque.jit(lambda i: x[i])(2)) == 2
    np.testing.assert_array_equal(calque.vmap(lambda i: x[i])(jnp.arange(3)), np.arange(3))
    np.testing.assert_array_equal(calque.grad(lambda a: a[1] * a[2])(x), [0, 2, 1, 0])


def test_a_value_on_its_way_is_not_waited_for() -> None:
    x = calque.jit(lambda a: jnp.sort(a @ a, axis=None))(jnp.ones((400, 400)))
    assert float(x[0]) == 400 and float(x[-1]) == 400


@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize("mode", ["clip", "fill", "wrap", None])
def test_take_along_one_axis(axis: int, mode: str | None) -> None:
    value = np.random.default_rng(0).normal(size=(3, 4, 5)).astype(np.float32)
    for index in (np.array([0, 2, 1]), np.array([[0, -1], [7, 2]]), np.int32(1), np.zeros(0, int)):
        got = np.asarray(jnp.take(value, jnp.asarray(index), axis=axis, mode=mode))
        n = value.shape[axis]
        inside = (index >= -n) & (index < n)
        wrapped = np.where(index < 0, index + n, index)
        if mode == "wrap":
            want = np.take(value, index, axis=axis, mode="wrap")
        elif mode == "clip":
            want = np.take(value, np.clip(index, 0, n - 1), axis=axis)
        else:
            want = np.take(value, np.clip(wrapped, 0, n - 1), axis=axis)
            there = inside.reshape(*(1,) * axis, *np.shape(index), *(1,) * (2 - axis))
            want = np.where(there, want, np.nan)
        np.testing.assert_array_equal(got, want, str((index, axis, mode)))
