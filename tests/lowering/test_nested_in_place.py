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


# ---- written over the carry as they are computed
def leapfrog(u: Any, v: Any, k: Any) -> Any:
    """Each is new before the other reads it: both are written where they were."""
    v = v - 0.2 * (jnp.roll(u, -1, 0) - u)
    return u - 0.2 * (v - jnp.roll(v, 1, 0)), v, v[1]


def one_pass(u: Any, v: Any, k: Any) -> Any:
    """Both of the old ones, in one pass."""
    return u + 0.1 * v, v - 0.1 * u, k * u[0]


def read_behind(u: Any, v: Any, k: Any) -> Any:
    """The old one is read elsewhere after the new one is known."""
    new = u * 0.5 + v
    total = jnp.sum(new) * 1e-3
    return new, jnp.roll(u, 3, 1) * 0.5 + total, new[2]


def folded_behind(u: Any, v: Any, k: Any) -> Any:
    """A fold computes what it folds of the old one."""
    new = u * 0.5 + v
    return new, v * 0.9 + jnp.sum(u * v, axis=1)[:, None] * 1e-2, jnp.max(new * u, axis=0)


def shifted(u: Any, v: Any, k: Any) -> Any:
    """Neighbours of the old one in the pass that computes the new one."""
    return u + 0.1 * (u[::-1] - u) + k * 1e-2, v + 0.1 * (jnp.roll(v, 1, 1) - v), u[0] + v[0]


def exchanged(u: Any, v: Any, k: Any) -> Any:
    return v * 0.5, u + 1, u[0]


def returned(u: Any, v: Any, k: Any) -> Any:
    return u * 0.5 + v, u, v[3]


def bounded(u: Any, v: Any, k: Any) -> Any:
    """Updates of what was computed; one is stacked between them."""
    new = (u - 0.1 * v).at[:, -1].set(0.5).at[2, 3].add(k)
    other = (v + 0.1 * jnp.roll(new, 1, 0)).at[0].set(new[1])
    return new, other.at[-1].mul(0.5), other[0]


def same_for_both(u: Any, v: Any, k: Any) -> Any:
    new = u * 0.5 + v * 0.25
    return new, new, new[k.astype(int)]


def picked(u: Any, v: Any, k: Any) -> Any:
    """Rows of the old one that the new one's pass picks."""
    i = (jnp.arange(u.shape[0]) * 5 + 2) % u.shape[0]
    return u * 0.5 + v[i] * 0.25 + u[i] * 0.125, v * 0.5 + k, u[i][1]


STEPS = [leapfrog, one_pass, read_behind, folded_behind, shifted, exchanged, returned, bounded,
         same_for_both, picked]


@pytest.mark.parametrize("form", ["scan", "while"])
@pytest.mark.parametrize("shape", [(40, 24), (6, 5)], ids=str)
@pytest.mark.parametrize("step", STEPS, ids=lambda f: f.__name__)
def test_carries_are_read_before_they_are_overwritten(step: Callable[..., Any],
                                                      shape: tuple[int, ...], form: str) -> None:
    def scanned(u: Any, v: Any) -> Any:
        def body(c: Any, k: Any) -> Any:
            *new, shown = step(*c, k)
            return tuple(new), shown
        return lax.scan(body, (u, v), jnp.arange(5.0, dtype=jnp.float32))

    def repeated(u: Any, v: Any) -> Any:
        return lax.while_loop(lambda c: c[0] < 5, lambda c: (
            c[0] + 1, *step(*c[1:], c[0].astype(jnp.float32))[:2]), (0, u, v))

    u, v = RNG.normal(size=(2, *shape)).astype(np.float32)
    check_loop(scanned if form == "scan" else repeated, [u, v], step.__name__)


def test_a_leapfrog_needs_no_second_memory() -> None:
    u, v = RNG.normal(size=(2, 40, 24)).astype(np.float32)
    f = calque.jit(lambda u, v: lax.fori_loop(0, 5, lambda k, c: leapfrog(*c, k)[:2], (u, v)))
    assert not re.search(r"tensor<\d+xi8>", f.lower(u, v).compile().as_text())


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
