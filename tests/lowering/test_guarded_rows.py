"""Rows of a vmapped while loop that have ended write what is there, whatever is written and how
(primitives/guarded).  The oracle is the loop of each row, in NumPy or by calque alone."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import calque
import calque.numpy as jnp
from calque import export, lax, random

N, ROWS = 40, 5
STARTS = np.array([0, 7, 39, 40, 45], np.int32)  # the last two never begin


def run(body: Callable[..., Any], *arrays: Any, starts: Any = STARTS, end: int = N) -> Any:
    """The loop of each row, mapped; and of one row after the other."""
    def f(start: Any, *xs: Any) -> Any:
        return lax.while_loop(lambda c: c[0] < end, lambda c: (c[0] + 1, *body(*c)), (start, *xs))

    mapped = calque.jit(calque.vmap(f))(starts, *arrays)
    alone = [calque.jit(f)(s, *[a[k] for a in arrays]) for k, s in enumerate(starts)]
    for k, got in enumerate(mapped):
        want = np.stack([np.asarray(row[k]) for row in alone])
        np.testing.assert_array_equal(np.asarray(got), want, err_msg=f"member {k}")
    return mapped


X = np.arange(ROWS * N, dtype=np.float32).reshape(ROWS, N) - 90
M = np.arange(ROWS * N * 3, dtype=np.float32).reshape(ROWS, N, 3)
UPDATES = {
    "set": lambda i, x: x.at[i].set(1.0),
    "drop": lambda i, x: x.at[2 * i].set(1.0, mode="drop"),
    "clip": lambda i, x: x.at[2 * i].set(1.0 * i, mode="clip"),
    "negative": lambda i, x: x.at[-i].set(5.0),
    "promise": lambda i, x: x.at[i].set(3.0, mode="promise_in_bounds"),
    "add": lambda i, x: x.at[i % 7].add(0.5),
    "subtract": lambda i, x: x.at[i % 7].subtract(0.5),
    "multiply": lambda i, x: x.at[i % 7].multiply(1.5),
    "min": lambda i, x: x.at[i].min(-5.0 * i),
    "max": lambda i, x: x.at[i].max(5.0 * i),
    "power": lambda i, x: x.at[i].power(2),
    "twice": lambda i, x: x.at[jnp.array([0, 3])].set(i).at[i].add(x[3]),
    "equal places": lambda i, x: x.at[jnp.array([4, 4, 4])].add(1.0),
    "window": lambda i, x: lax.dynamic_update_slice(x, jnp.full(6, i, x.dtype), (i,)),
    "one place": lambda i, x: lax.dynamic_update_slice(x, jnp.full(2, i, x.dtype), (3,)),
    "static": lambda i, x: x.at[3].set(i),
    "static window": lambda i, x: x.at[2:5].add(i),
    "read behind": lambda i, x: x.at[i].set(2.0).at[0].set(jnp.sum(x.at[i].set(2.0)[:3])),
    "moved": lambda i, x: jnp.roll(x.at[i].set(1.0), 1),
    "or not": lambda i, x: lax.cond(i % 3 == 0, lambda: x.at[i].set(1.0), lambda: x),
    "all": lambda i, x: x.at[:].add(1.0),
}


@pytest.mark.parametrize("name", UPDATES)
def test_each_update(name: str) -> None:
    run(lambda i, x: (UPDATES[name](i, x),), X)


@pytest.mark.parametrize("dtype", ["int32", "bool", "uint8", "bfloat16", "complex64"])
def test_each_dtype(dtype: str) -> None:
    x = jnp.asarray(X % 5).astype(dtype)
    run(lambda i, x: (x.at[i].set(jnp.asarray(i % 2).astype(dtype)),), x)
    if dtype != "bool":
        run(lambda i, x: (x.at[i % 9].add(jnp.asarray(2).astype(dtype)),), x)


def test_negative_zeros_stay() -> None:
    """What is added in rows that have ended is -0.0."""
    x = np.full((ROWS, N), -0.0, np.float32)
    got = run(lambda i, x: (x.at[i].add(0.0 * i),), x)[1]
    assert np.signbit(np.asarray(got)[3:]).all()


def test_windows_of_several_axes() -> None:
    run(lambda i, x: (x.at[i].set(jnp.arange(3.0)),), M)
    run(lambda i, x: (x.at[i, i % 3].add(7.0),), M)
    run(lambda i, x: (x.at[:, 1].set(i),), M)
    run(lambda i, x: (lax.dynamic_update_slice(x, jnp.ones((2, 2)), (i, i % 2)),), M)


def test_several_members_and_exchanged_ones() -> None:
    run(lambda i, x, y: (y.at[i].set(1.0), x.at[i].add(2.0)), X, X[::-1].copy())
    run(lambda i, x, y: (x.at[i].set(y[0]), y.at[0].add(x[i])), X, X[::-1].copy())
    run(lambda i, x, y: (x.at[i].set(1.0), x.at[i].set(1.0)), X, X.copy())


def test_keys_in_a_buffer() -> None:
    """A row's key is split in each step, and kept."""
    def body(i: Any, key: Any, kept: Any, x: Any) -> Any:
        key, draw = random.split(key)
        return key, kept.at[i].set(random.key_data(draw)), x.at[i].set(random.uniform(draw))

    def f(start: Any, key: Any, kept: Any, x: Any) -> Any:
        return lax.while_loop(lambda c: c[0] < N, lambda c: (c[0] + 1, *body(*c)),
                              (start, key, kept, x))[2:]

    keys = random.split(random.key(3), ROWS)
    kept = np.zeros((ROWS, N, 2), np.uint32)
    got = calque.jit(calque.vmap(f))(STARTS, keys, kept, X)
    for k, s in enumerate(STARTS):
        for a, b in zip(got, calque.jit(f)(s, keys[k], kept[k], X[k])):
            np.testing.assert_array_equal(np.asarray(a[k]), np.asarray(b))


def test_a_loop_within_that_waits_for_what_was_written() -> None:
    """In rows that have ended it would wait for ever, did they not write."""
    def body(i: Any, x: Any) -> Any:
        x = x.at[0].set(0.0)
        return (lax.while_loop(lambda y: y[0] != 0, lambda y: y * 2, x),)

    x = np.ones((ROWS, N), np.float32)
    run(body, x)


def test_two_maps() -> None:
    def f(start: Any, x: Any) -> Any:
        return lax.while_loop(lambda c: c[0] < N, lambda c: (c[0] + 1, c[1].at[c[0]].add(1.0)),
                              (start, x))[1]

    starts = np.arange(6, dtype=np.int32).reshape(2, 3) * 9
    x = np.zeros((2, 3, N), np.float32)
    want = np.where(np.arange(N) >= starts[..., None], 1, 0)
    np.testing.assert_array_equal(calque.jit(calque.vmap(calque.vmap(f)))(starts, x), want)


def test_a_loop_from_the_host() -> None:
    """Steps that are products are no kernel."""
    w = jnp.asarray(np.linspace(-1, 1, 200 * 200, dtype=np.float32).reshape(200, 200) / 40)

    def f(start: Any, x: Any, kept: Any) -> Any:
        return lax.while_loop(lambda c: c[0] < 5, lambda c: (
            c[0] + 1, jnp.tanh(w @ c[1]), c[2].at[c[0]].set(c[1][0])), (start, x, kept))

    starts = np.array([0, 3, 5, 9], np.int32)
    x = np.random.default_rng(0).normal(size=(4, 200, 64)).astype(np.float32)
    got = calque.jit(calque.vmap(f))(starts, x, np.zeros((4, 5, 64), np.float32))
    for k, start in enumerate(starts):
        y, kept = x[k].astype(np.float64), np.zeros((5, 64))
        for i in range(start, 5):
            kept[i] = y[0]
            y = np.tanh(np.asarray(w, np.float64) @ y)
        # sums of 200 products of float32
        np.testing.assert_allclose(np.asarray(got[1])[k], y, atol=2e-5)
        np.testing.assert_allclose(np.asarray(got[2])[k], kept, atol=2e-5)


def test_derivatives() -> None:
    """Of a bounded loop, by finite differences of NumPy's."""
    def f(x: Any, start: Any) -> Any:
        return lax.fori_loop(0, 6, lambda i, c: lax.cond(
            i >= start, lambda: c.at[i].multiply(x[0]), lambda: c), x)

    starts = np.array([0, 3, 6])
    x = np.linspace(0.5, 2, 3 * 8).reshape(3, 8).astype(np.float32)
    got = calque.jit(calque.vmap(calque.jacfwd(f)))(x, starts)

    def plain(x: np.ndarray, start: int) -> np.ndarray:
        c = x.copy()
        for i in range(start, 6):
            c[i] *= x[0]
        return c

    for k, start in enumerate(starts):
        for j in range(8):
            e = np.eye(8)[j] * 1e-6
            at = x[k].astype(np.float64)
            want = (plain(at + e, start) - plain(at - e, start)) / 2e-6
            np.testing.assert_allclose(np.asarray(got)[k, :, j], want, rtol=1e-4, atol=1e-5)


def test_one_element_no_row_and_many_members() -> None:
    run(lambda i, x: (x.at[0].add(2.0),), X[:1, :1], starts=STARTS[:1])
    assert calque.jit(calque.vmap(lambda s, x: lax.while_loop(
        lambda c: c[0] < 3, lambda c: (c[0] + 1, c[1].at[c[0]].set(1.0)), (s, x))[1]))(
            np.zeros(0, np.int32), np.zeros((0, N), np.float32)).shape == (0, N)
    run(lambda i, *xs: [x.at[(i + k) % N].set(k) for k, x in enumerate(xs)],
        *[X + k for k in range(25)])


def test_rows_of_unknown_number() -> None:
    def f(start: Any, x: Any) -> Any:
        return lax.while_loop(lambda c: c[0] < 6, lambda c: (c[0] + 1, c[1].at[c[0]].add(2.0)),
                              (start, x))[1]

    (b,) = export.symbolic_shape("b")
    made = export.export(calque.jit(calque.vmap(f)))(
        calque.ShapeDtypeStruct((b,), jnp.int32), calque.ShapeDtypeStruct((b, 9), jnp.float32))
    for starts in ([3], [0, 5, 6, 7]):
        want = 2.0 * ((np.arange(9) >= np.array(starts)[:, None]) & (np.arange(9) < 6))
        got = made.call(jnp.array(starts, jnp.int32), jnp.zeros((len(starts), 9)))
        np.testing.assert_array_equal(got, want)


def test_what_is_written_is_read_elsewhere_or_given_away() -> None:
    """The argument is used after the loop, and by the caller; or it is donated."""
    def f(start: Any, x: Any) -> Any:
        return lax.while_loop(lambda c: c[0] < N, lambda c: (c[0] + 1, c[1].at[c[0]].set(1.0)),
                              (start, x))[1]

    want = np.where(np.arange(N) >= STARTS[:, None], 1, X)
    x = jnp.asarray(X)
    made, after = calque.jit(lambda s, x: (calque.vmap(f)(s, x), x + 1))(STARTS, x)
    np.testing.assert_array_equal(made, want)
    np.testing.assert_array_equal(after, X + 1)
    np.testing.assert_array_equal(x, X)
    np.testing.assert_array_equal(calque.jit(calque.vmap(f), donate_argnums=1)(STARTS, x), want)
    assert x.is_deleted()


def test_a_choice_of_the_whole_array_is_gone() -> None:
    """A step's work does not grow with what it writes into."""
    def works(n: int) -> int:
        f = calque.vmap(lambda s, x: lax.while_loop(
            lambda c: c[0] < 9, lambda c: (c[0] + 1, c[1].at[c[0]].set(1.0)), (s, x)))
        plan = calque.jit(f).lower(jnp.zeros(4, jnp.int32), jnp.zeros((4, n))).plan()
        (number,) = [line for line in str(plan).splitlines() if "element operations" in line]
        return int(number.split("about ")[1].split()[0].replace(",", ""))

    assert works(100_000) == works(10_000)
