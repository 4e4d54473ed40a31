"""Loops and branches within a kernel over memory put their results where their operands lie
(kernels/homes): of random programs, whose carries change places and are parts of each other, no
update shows anywhere else, and tables that nested loops fill are what NumPy fills.
"""
from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from support.harness import check_loop, partly_slow
from test_loops_own_memory import arguments, program_of

import calque
import calque.numpy as jnp
from calque import lax
from calque.core.config import config

pytestmark = pytest.mark.usefixtures("loops_over_memory")
LEVELS = ("x86-64-v2", "x86-64-v3", "x86-64-v4")
RNG = np.random.default_rng(12)


@pytest.mark.parametrize("seed", partly_slow(list(range(60)), 0.2))
def test_updates_show_nowhere_else(seed: int) -> None:
    check_loop(program_of(seed), arguments(seed), f"seed {seed}")


def _stepped(branches: Callable[[Any], list[Callable[..., Any]]]) -> Callable[..., Any]:
    """A loop of branches over two arrays and what they give."""
    def f(x: Any, y: Any) -> Any:
        def step(i: Any, c: Any) -> Any:
            return lax.switch(i % 3, branches(i), *c)
        return lax.fori_loop(0, 7, step, (x, y))
    return f


BRANCHES: dict[str, Callable[[Any], list[Callable[..., Any]]]] = {
    "swapped": lambda i: [lambda x, y: (x, y), lambda x, y: (y, x),
                          lambda x, y: (x.at[i].add(y[0]), x)],
    "turned": lambda i: [lambda x, y: (x[::-1], y), lambda x, y: (x, x[::-1]),
                         lambda x, y: (y + x, y.at[1].set(x[2]))],
    "one for both": lambda i: [lambda x, y: (x, x), lambda x, y: (y, y),
                               lambda x, y: (x * 2, y + x[::-1])],
    "nobody returns": lambda i: [lambda x, y: (x + y, y - x), lambda x, y: (x[::-1] * 2, x + 1),
                                 lambda x, y: (jnp.roll(y, 1), jnp.roll(x, 2) / 2)],
    "a loop": lambda i: [lambda x, y: (x, y), lambda x, y: (lax.fori_loop(
        0, 4, lambda k, s: s.at[k + 1].add(s[k] + y[k]), x), x),
        lambda x, y: lax.fori_loop(0, 3, lambda k, s: (s[1].at[k].set(s[0][k]), s[0]), (x, y))],
}


@pytest.mark.parametrize("name", BRANCHES)
def test_branches_keep_what_others_read(name: str) -> None:
    x, y = RNG.normal(size=(2, 24)).astype(np.float32)
    check_loop(_stepped(BRANCHES[name]), [x, y], name)


def given_twice(x: Any) -> Any:
    """Carried, and read by the loop within as it was before."""
    def step(i: Any, t: Any) -> Any:
        return lax.fori_loop(0, 8, lambda j, s: s.at[j].add(t[7 - j] * 0.5 + s[(j + 3) % 8]), t)
    return lax.fori_loop(0, 5, step, x)


def kept_before(x: Any) -> Any:
    """What it was is stacked, and a part of it read behind the loop within."""
    def step(t: Any, i: Any) -> Any:
        new = lax.while_loop(lambda s: s[0] < 6, lambda s: (s[0] + 1, s[1].at[s[0]].mul(0.5)),
                             (i % 3, t))[1]
        return new, (t, new[2] + t[1], t[::2])
    return lax.scan(step, x, jnp.arange(6))


def scanned_too(x: Any) -> Any:
    """Its rows are scanned by the loop that writes them."""
    def step(i: Any, t: Any) -> Any:
        return lax.scan(lambda s, row: (s.at[3].add(row), s[2]), t, t)[0]
    return lax.fori_loop(0, 4, step, x)


@pytest.mark.parametrize("f", [given_twice, kept_before, scanned_too], ids=lambda f: f.__name__)
def test_loops_keep_what_others_read(f: Callable[..., Any]) -> None:
    check_loop(f, [RNG.normal(size=8).astype(np.float32)], f.__name__)


# ---- tables
def common(a: Any, b: Any) -> Any:
    """Lengths of the longest common subsequences of all prefixes."""
    def row(t: Any, i: Any) -> Any:
        def cell(t: Any, j: Any) -> Any:
            v = jnp.where(a[i] == b[j], t[i, j] + 1, jnp.maximum(t[i, j + 1], t[i + 1, j]))
            return t.at[i + 1, j + 1].set(v), None
        return lax.scan(cell, t, jnp.arange(b.size))[0], None
    return lax.scan(row, jnp.zeros((a.size + 1, b.size + 1), jnp.int32), jnp.arange(a.size))[0]


def sieve(n: int) -> Callable[..., Any]:
    """A branch for each number, in which a loop crosses multiples out."""
    def f(marks: Any) -> Any:
        def number(i: Any, s: Any) -> Any:
            return lax.cond(s[i], lambda s: lax.while_loop(
                lambda c: c[0] < n, lambda c: (c[0] + i, c[1].at[c[0]].set(False)),
                (i * i, s))[1], lambda s: s, s)
        return lax.fori_loop(2, int(n ** 0.5) + 1, number, marks)
    return f


def rotations(m: Any) -> Any:
    """Triangular by Givens rotations, column by column."""
    n = m.shape[0]

    def step(t: Any, r: Any) -> Any:
        j, i = t // n, n - 1 - t % n

        def rotated(r: Any) -> Any:
            p, q = r[i - 1], r[i]
            h = jnp.sqrt(p[j] ** 2 + q[j] ** 2)
            return r.at[i - 1].set((p[j] * p + q[j] * q) / h).at[i].set((p[j] * q - q[j] * p) / h)
        return lax.cond(i > j, rotated, lambda r: r, r)
    return lax.fori_loop(0, n * n, step, m)


@pytest.mark.parametrize("level", LEVELS)
def test_tables_of_nested_loops(level: str) -> None:
    a, b = RNG.integers(0, 4, size=(2, 37)).astype(np.int32)
    want = np.zeros((38, 38), np.int32)
    for i in range(37):
        for j in range(37):
            want[i + 1, j + 1] = want[i, j] + 1 if a[i] == b[j] else max(
                want[i, j + 1], want[i + 1, j])
    n = 4000
    marks = np.ones(n, bool)
    marks[:2] = False
    primes = np.array([k for k in range(2, n) if all(k % d for d in range(2, int(k ** 0.5) + 1))])
    m = RNG.normal(size=(20, 20)).astype(np.float32)
    with config.context("calque_cpu", level):
        np.testing.assert_array_equal(calque.jit(common)(a, b), want)
        np.testing.assert_array_equal(np.flatnonzero(calque.jit(sieve(n))(marks)), primes)
        r = np.asarray(calque.jit(rotations)(m))
    # 190 rotations in single precision, each off by an ulp or two of a column's norm
    close = 200 * np.finfo(np.float32).eps * np.linalg.norm(m, axis=0).max()
    np.testing.assert_allclose(r, np.triu(r), atol=close)
    np.testing.assert_allclose(r.T @ r, m.T @ m, atol=close * np.linalg.norm(m))


def test_a_table_is_not_copied_in_each_step() -> None:
    """No memory beside what goes in and comes out, where a second table would be."""
    a, b = RNG.integers(0, 4, size=(2, 90)).astype(np.int32)
    text = calque.jit(common).lower(a, b).compile().as_text()
    assert "tensor<91x91xi32>" in text and not re.search(r"tensor<\d+xi8>", text), text
