"""Whiles whose rows all end at once keep no masks: what rows share is one number (kernels/
registers.together).  The oracle is NumPy's loop."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import calque
import calque.numpy as jnp
from calque import lax
from calque.core.program import Program
from calque.lowering.passes import registers

State = tuple[Any, ...]


def run(test: Callable[..., Any], step: Callable[..., State], start: State,
        plain: Callable[..., State], together: bool = True, tolerance: float = 0) -> None:
    made = calque.jit(lambda *c: lax.while_loop(lambda c: test(*c), lambda c: step(*c), c))
    want = tuple(np.asarray(v) for v in start)
    while test(*want):
        want = tuple(np.asarray(v, w.dtype) for v, w in zip(plain(*want), want))
    for got, expected in zip(made(*start), want):
        np.testing.assert_allclose(got, expected, rtol=tolerance, atol=0)
    plans = [registers.plan(e) for e in loops(made.trace(*start).jaxpr)]
    assert [p is not None and p.ends_together() for p in plans][:1] == [together]


def loops(p: Program) -> list[Any]:
    return [e for e in p.equations if e.name == "while"] + [
        f for e in p.equations for q in e.inner for f in loops(q)]


@pytest.mark.parametrize("n", [1, 3, 4, 15, 16, 17, 31, 33, 64, 100, 257, 1000, 5000])
def test_sizes(n: int) -> None:
    x = np.linspace(-1, 1, n, dtype=np.float32)
    run(lambda i, x: i < 9, lambda i, x: (i + 1, x * 0.5 + i), (np.int32(0), x),
        lambda i, x: (i + 1, x * np.float32(0.5) + np.float32(i)))


@pytest.mark.parametrize("dtype", ["float16", "float64", "int8", "int64", "uint32", "bool"])
def test_dtypes(dtype: str) -> None:
    """The counter's differ from the array's; a number becomes one of the array's."""
    with calque.enable_x64():
        x = (np.arange(70) % 7).astype(dtype)
        flip = dtype == "bool"
        run(lambda i, x: i < 5,
            lambda i, x: (i + 2, x ^ (i > 2) if flip else x + i.astype(dtype)), (np.int64(-3), x),
            lambda i, x: (i + 2, x ^ (i > 2) if flip else x + i.astype(dtype)))


def test_rank_two_and_arrays_that_rows_share() -> None:
    x = np.linspace(0, 1, 24 * 35, dtype=np.float32).reshape(24, 35)
    run(lambda i, x, s: (i < 7) & (s > 0.01), lambda i, x, s: (i + 1, jnp.minimum(x + s, 3), s / 2),
        (np.int32(0), x, np.float32(2)),
        lambda i, x, s: (i + 1, np.minimum(x + s, np.float32(3)), s / np.float32(2)))


def test_numbers_go_into_arrays() -> None:
    """A member becomes a number in all places, and choices are by what all share or by rows."""
    x = np.linspace(-2, 2, 100, dtype=np.float32)

    def step(i: Any, x: Any, y: Any) -> State:
        return (i + 1, jnp.where(i % 2 == 0, x * 2, jnp.where(x > 0, y, x)),
                jnp.full_like(y, 3) + 0 * i)

    def plain(i: Any, x: Any, y: Any) -> State:
        return (i + 1, x * 2 if i % 2 == 0 else np.where(x > 0, y, x), np.full_like(y, 3))

    run(lambda i, x, y: i < 6, step, (np.int32(0), x, x + 1), plain)


def test_no_step() -> None:
    x = np.arange(40, dtype=np.float32)
    run(lambda i, x: i < 0, lambda i, x: (i + 1, x + 1), (np.int32(0), x), lambda i, x: (i, x))


def test_loops_within() -> None:
    """One with an end for each row, one of so many steps."""
    x = np.linspace(1, 50, 67, dtype=np.float32)

    def step(i: Any, x: Any) -> State:
        y = lax.while_loop(lambda y: jnp.any(y > 10), lambda y: jnp.where(y > 10, y / 2, y), x)
        return i + 1, lax.fori_loop(0, 3, lambda k, y: y + k * i, y)

    def plain(i: Any, x: Any) -> State:
        x = x.copy()
        while (x > 10).any():
            x[x > 10] /= 2
        for k in range(3):
            x = x + np.float32(k * i)
        return i + 1, x

    made = calque.jit(calque.vmap(lambda i, x: lax.while_loop(
        lambda c: c[0] < 4, lambda c: step(*c), (i, x)), in_axes=(None, 0)))
    i, want = 0, x
    while i < 4:
        i, want = plain(i, want)
    np.testing.assert_array_equal(made(0, x)[1], want)


def test_bounds_of_the_call() -> None:
    x = np.linspace(0, 1, 333, dtype=np.float32)
    made = calque.jit(lambda x, a, n: lax.fori_loop(a, n, lambda i, x: jnp.sin(x) + 0.25 * i, x))
    for first, end in ((0, 5), (3, 3), (4, 2), (-2, 3)):
        want = x.astype(np.float64)
        for i in range(first, end):
            want = np.sin(want) + 0.25 * i
        # float32's rounding of up to five steps
        np.testing.assert_allclose(made(x, first, end), want, rtol=0, atol=5e-7)


def test_an_end_that_rows_decide_stays_theirs() -> None:
    x = np.linspace(0.1, 30, 45, dtype=np.float32)
    made = calque.jit(calque.vmap(lambda x: lax.while_loop(lambda x: x > 1, lambda x: x / 2, x)))
    want = x.copy()
    while (want > 1).any():
        want[want > 1] /= 2
    np.testing.assert_array_equal(made(x), want)


def test_tables_are_looked_up_by_number_and_by_row() -> None:
    """A place that all rows share, and one of their own."""
    table = np.sin(np.arange(1000)).astype(np.float32)
    at, known = np.arange(50, dtype=np.int32), jnp.asarray(table)

    def f(i: Any, at: Any, x: Any) -> Any:
        return lax.while_loop(lambda c: c[0] < 20, lambda c: (
            c[0] + 1, (c[1] * 7 + c[0]) % 1000, c[2] + known[c[0] * 3] * known[c[1]]),
            (i, at, x))

    got = calque.jit(calque.vmap(f, in_axes=(None, 0, 0)))(0, at, np.zeros(50, np.float32))
    want, place = np.zeros(50), at.copy()
    for i in range(20):
        want += table[i * 3].astype(np.float64) * table[place]
        place = (place * 7 + i) % 1000
    np.testing.assert_array_equal(got[1], place)
    np.testing.assert_allclose(got[2], want, rtol=1e-5, atol=1e-5)  # sums of 20 in float32


def test_positions_are_made_before_loops() -> None:
    """`arange` in a body, as all else runs in registers."""
    x = np.linspace(0, 1, 600, dtype=np.float32).reshape(20, 30)
    made = calque.jit(lambda x, n: lax.fori_loop(0, n, lambda i, x: x + jnp.where(
        lax.broadcasted_iota(jnp.int32, (20, 30), 1) == i, 1.0, 0.5), x))
    want = x.copy()
    for i in range(11):
        want += np.where(np.arange(30) == i, np.float32(1), np.float32(0.5))
    np.testing.assert_array_equal(made(x, 11), want)
    assert "loop in registers" in str(made.lower(x, 11).plan())
