"""Updates of arrays in loops over memory that are computed where they belong, carries that no step
changes, and loops over both.  NumPy, equation by equation, is the oracle.
"""
from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from support.harness import check_loop

import calque
import calque.numpy as jnp
from calque import lax
from calque.core.program import Program
from calque.lowering.passes.hoist import hoist

RNG = np.random.default_rng(5)


def normal(*shape: int, dtype: Any = np.float32) -> Any:
    return RNG.standard_normal(shape).astype(dtype)


def two_arrays(a: Any, b: Any) -> Any:
    """Each is written from the other's neighbours: nothing lies in between."""
    def step(_: Any, c: Any) -> Any:
        a, b = c
        b = b.at[1:-1, 1:-1].set(0.2 * (a[1:-1, 1:-1] + a[:-2, 1:-1] + a[1:-1, 2:]))
        return a.at[1:-1, 1:-1].set(0.3 * (b[2:, 1:-1] - b[1:-1, :-2])), b
    return lax.fori_loop(0, 30, step, (a, b))


def same_place(e: Any, h: Any) -> Any:
    """What is written is read where it is written, and elsewhere in other arrays."""
    def step(t: Any, c: Any) -> Any:
        e, h = c
        e = e.at[0].set(t * 0.1)
        e = e.at[1:].set(e[1:] - 0.1 * (h[1:] - h[:-1]))
        return e, h.at[:-1, :-1].set(h[:-1, :-1] - 0.1 * (e[1:, :-1] - e[:-1, 1:]))
    return lax.fori_loop(0, 20, step, (e, h))


def row_by_row(a: Any) -> Any:
    """A row from itself and its neighbours, at a computed place."""
    def step(i: Any, a: Any) -> Any:
        a = a.at[i, 1:-1].set(a[i, 1:-1] * 0.5 + a[i - 1, 1:-1] + a[i + 1, 1:-1])
        return a.at[i, 1:-1].set(jnp.tanh(a[i, 1:-1]))
    return lax.fori_loop(1, a.shape[0] - 1, step, a)


def shifted(a: Any) -> Any:
    """Elements that are written are read for others: the old ones count."""
    def step(i: Any, a: Any) -> Any:
        a = a.at[i, 1:-1].set(0.5 * (a[i, :-2] + a[i, 2:]))
        a = a.at[1:, 2].set(a[:-1, 2] * 0.9)
        return a.at[i].set(a[i, ::-1] * 0.99)
    return lax.fori_loop(0, a.shape[0], step, a)


def read_again(a: Any) -> Any:
    """The old array is read after the update, or is a result as well."""
    def step(a: Any, k: Any) -> Any:
        b = a.at[2:5].set(a[3:6] + k)
        c = b.at[:, 1].set(a[:, 0] * 2)
        return c - a * 0.5, (b, a[0])
    return lax.scan(step, a, jnp.arange(40.0, dtype=a.dtype))


def columns(p: Any, u: Any) -> Any:
    """Along columns, forward and back."""
    n = p.shape[1]

    def forward(j: Any, p: Any) -> Any:
        return p.at[1:-1, j].set(0.3 * p[1:-1, j - 1] - u[:-2, j] * 0.1)

    def back(j: Any, p: Any) -> Any:
        k = n - 2 - j
        return p.at[k % 5, 1:-1].set(p[1:-1, k][:n - 2] * 0.1 + p[(k + 1) % 5, 1:-1])
    return lax.fori_loop(0, n - 2, back, lax.fori_loop(1, n, forward, p))


def one_number(x: Any) -> Any:
    """What is written into is one number, repeated; bounds that no place reaches."""
    def step(i: Any, c: Any) -> Any:
        x, _ = c
        fresh = jnp.zeros_like(x).at[1:-1].set(x[:-2] + x[2:] * 0.3)
        moved = lax.dynamic_update_slice(x, fresh[3:9] * 2, (i * 4 - 9,))
        return moved * 0.5 + fresh * 0.1, fresh
    return lax.fori_loop(0, 20, step, (x, x))


def integers(x: Any, seen: Any) -> Any:
    def step(i: Any, c: Any) -> Any:
        x, seen = c
        x = x.at[1:].set(x[1:] ^ (x[:-1] << 1))
        return x, seen.at[:-1].set(seen[1:] | (x[1:] > 3))
    return lax.fori_loop(0, 30, step, (x, seen))


UPDATES: dict[str, tuple[Any, list[Any]]] = {
    **{f"two arrays {dtype} {n}": (two_arrays, [normal(n, n + 3, dtype=dtype) for _ in "ab"])
       for dtype, n in (("float32", 21), ("float64", 18), ("float32", 40))},
    **{f"same place {dtype}": (same_place, [normal(20, 23, dtype=dtype) for _ in "ab"])
       for dtype in ("float32", "float64")},
    "same place under vmap": (calque.vmap(same_place), [normal(6, 20, 23), normal(6, 20, 23)]),
    **{f"row by row {dtype}": (row_by_row, [normal(30, 37, dtype=dtype)])
       for dtype in ("float32", "float64")},
    "shifted": (shifted, [normal(24, 40)]),
    "read again": (read_again, [normal(9, 33)]),
    "columns": (columns, [normal(30, 30), normal(30, 30)]),
    "one number": (one_number, [normal(70)]),
    "integers": (integers, [RNG.integers(0, 9, 300).astype(np.int32), normal(300) > 0]),
    "gradient": (calque.grad(lambda a, b: (two_arrays(a, b)[0] ** 2).sum()),
                 [normal(20, 20), normal(20, 20)]),
}
LEVELS = ["host", *[pytest.param(level, marks=pytest.mark.slow)
                    for level in ("x86-64-v2", "x86-64-v3", "x86-64-v4")]]


@pytest.mark.parametrize("level", LEVELS)
def test_updates_are_computed_where_they_belong(level: str, x64: None) -> None:
    with calque.config.context("calque_cpu", level):
        for name, (f, args) in UPDATES.items():
            check_loop(f, args, name, 10)  # (dozens of steps)


def matrix_by_rows(m: Any, x: Any, b: Any) -> Any:
    """A triangular system whose matrix every step hands on."""
    def step(i: Any, c: Any) -> Any:
        m, x, b = c
        known = jnp.where(jnp.arange(x.shape[0]) < i, m[i] * x, 0).sum()
        return m, x.at[i].set((b[i] - known) / m[i, i]), b
    return lax.fori_loop(0, x.shape[0], step, (m, x, b))


def nested(a: Any, k: Any) -> Any:
    """Handed on by an inner loop, and so by the outer one; results of both, and a number that the
    end reads."""
    def outer(i: Any, c: Any) -> Any:
        a, s, k = c

        def inner(j: Any, d: Any) -> Any:
            a, s = d
            return a, s + a[i % 5, j] * k
        a, s = lax.fori_loop(0, a.shape[1], inner, (a, s))
        return a, s * 0.5, k
    return lax.fori_loop(0, 7, outer, (a, a.sum() * 0, k))


def until(x: Any, most: Any) -> Any:
    """The end is among what does not change; so is one carry that is another's beginning."""
    def step(c: Any) -> Any:
        x, y, most, n = c
        return x * 1.1 + y.sum(), y, most, n + 1
    return lax.while_loop(lambda c: (c[0].sum() < c[2]) & (c[3] < 50), step, (x, x, most, 0))


def stacked(x: Any, y: Any) -> Any:
    """Nothing is carried in the end, and what is stacked reads it."""
    return lax.scan(lambda c, t: (c, c * t + y), x, jnp.arange(8.0, dtype=x.dtype))


CARRIES: dict[str, tuple[Any, list[Any]]] = {
    "matrix by rows": (matrix_by_rows, [
        normal(30, 30, dtype="float64") + 9 * np.eye(30), np.zeros(30), normal(30, dtype="f8")]),
    "matrix by rows under vmap": (calque.vmap(matrix_by_rows, (None, 0, 0)), [
        normal(9, 9) + 9 * np.eye(9, dtype="f"), normal(4, 9) * 0, normal(4, 9)]),
    "nested": (nested, [normal(5, 40), np.float32(0.3)]),
    "nested under vmap": (calque.vmap(nested), [normal(6, 5, 40), normal(6)]),
    "until": (until, [np.abs(normal(20)), np.float32(900)]),
    "until under vmap": (calque.vmap(until), [
        np.abs(normal(5, 20)), np.float32([900, 30, 5, 9, 1e4])]),
    "stacked": (stacked, [normal(20), normal(20)]),
    "no step": (lambda x: lax.fori_loop(0, 0, lambda i, c: (c[0], c[1] + c[0]), (x, x)),
                [normal(7)]),
    "gradient": (calque.grad(lambda m, x, b: (matrix_by_rows(m, x, b)[1] ** 2).sum(), (0, 2)), [
        normal(9, 9) + 9 * np.eye(9, dtype="f"), normal(9) * 0, normal(9)]),
}


@pytest.mark.parametrize("level", LEVELS)
def test_carries_that_no_step_changes(level: str, x64: None) -> None:
    with calque.config.context("calque_cpu", level):
        for name, (f, args) in CARRIES.items():
            check_loop(f, args, name, 10)  # (dozens of steps)


@pytest.mark.parametrize("f, carried", [
    (matrix_by_rows, 2), (nested, 2), (stacked, 0)], ids=["matrix by rows", "nested", "stacked"])
def test_they_are_consts(f: Any, carried: int) -> None:
    args = {matrix_by_rows: [normal(9, 9), normal(9), normal(9)], nested: [
        normal(5, 4), np.float32(1)], stacked: [normal(3), normal(3)]}[f]
    p: Program = hoist(calque.make_jaxpr(f)(*args).jaxpr)
    (loop,) = [e for e in p.equations if e.name == "scan"]
    assert loop.params["num_carry"] == carried
    inner = [e for e in loop.params["jaxpr"].equations if e.name == "scan"]
    assert all(e.params["num_carry"] == 2 for e in inner)
