"""Loops read an array before they write into it (lowering/passes/reads, kernels/tensors.is_free):
what is returned is what was there.  The oracle is the same loop by NumPy on copies."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import calque
import calque.numpy as jnp
from calque import lax
from calque.lowering.passes.reads import with_reads_first

N, STEPS = 120, 17
X = np.arange(N, dtype=np.float32) / 8 - 5
Step = Callable[[Any, Any], Any]


def compare(step: Step, plain: Callable[[np.ndarray, int], Any], x: np.ndarray = X) -> None:
    """Of a scan, its results stacked; of a while, which drops them; of rows, mapped."""
    def scanned(x: Any) -> Any:
        return lax.scan(step, x, jnp.arange(STEPS))

    def waited(x: Any, n: Any) -> Any:
        return lax.while_loop(lambda c: c[0] < n, lambda c: (c[0] + 1, step(c[1], c[0])[0]), (0, x))

    def by_numpy(x: np.ndarray) -> tuple[np.ndarray, list[Any]]:
        outs = []
        for i in range(STEPS):
            x, out = plain(x.copy(), i)
            outs.append(out)
        return x, outs

    want, outs = by_numpy(x)
    got, found = calque.jit(scanned)(x)
    np.testing.assert_array_equal(got, want)
    np.testing.assert_array_equal(calque.jit(waited)(x, STEPS)[1], want)
    rows = np.stack([x, x[::-1], -x])
    mapped, each = calque.jit(calque.vmap(scanned))(rows)
    for k, row in enumerate(rows):
        np.testing.assert_array_equal(mapped[k], by_numpy(row)[0])
    for k, leaf in enumerate(calque.tree.leaves(found)):
        np.testing.assert_array_equal(leaf, np.stack([
            calque.tree.leaves(o)[k] for o in outs]))


CASES: dict[str, Callable[[], tuple[Step, Callable[..., Any]]]] = {}


def case(f: Callable[[], tuple[Step, Callable[..., Any]]]) -> Any:
    CASES[f.__name__] = f
    return f


@case
def what_was_there() -> Any:
    def plain(x: Any, i: int) -> Any:
        old = x[0], x[i], x[:4].copy()
        x[i] = x[0] = 3
        return x, old
    return lambda x, i: (x.at[i].set(3.0).at[0].set(3.0), (x[0], x[i], x[:4])), plain


@case
def most_of_what_was_there() -> Any:
    """More than a small part of it: it is copied."""
    def plain(x: Any, i: int) -> Any:
        old = x[10:100].copy()
        x[i + 9] = i
        return x, old
    return lambda x, i: (x.at[i + 9].set(i), x[10:100]), plain


@case
def all_of_what_was_there() -> Any:
    def plain(x: Any, i: int) -> Any:
        old = x.copy()
        x[i] = i
        return x, (old, old[::-1])
    return lambda x, i: (x.at[i].set(i), (x, x[::-1])), plain


@case
def an_exchange() -> Any:
    def plain(x: Any, i: int) -> Any:
        x[i], x[i + 1] = x[i + 1], x[i]
        return x, x[i]
    return lambda x, i: (y := x.at[i].set(x[i + 1]).at[i + 1].set(x[i]), y[i]), plain


@case
def states_between() -> Any:
    def plain(x: Any, i: int) -> Any:
        old = x[i + 1]
        x[i] = 1
        between = x[0], x[i + 1]
        x[i + 1] = 2
        return x, (*between, old)

    def step(x: Any, i: Any) -> Any:
        y = x.at[i].set(1.0)
        z = y.at[i + 1].set(2.0)
        return z, (y[0], y[i + 1], x[i + 1])
    return step, plain


@case
def two_from_one() -> Any:
    """Both changes start from what was there: one of them copies."""
    def plain(x: Any, i: int) -> Any:
        y, z = x.copy(), x.copy()
        y[i] = 1
        z[i + 2] = 5
        return y, (z.sum(), z[i])
    return lambda x, i: (x.at[i].set(1.0), ((z := x.at[i + 2].set(5.0)).sum(), z[i])), plain


@case
def in_other_shapes() -> Any:
    def plain(x: Any, i: int) -> Any:
        m = x.reshape(10, 12)
        old = m[1, 2]
        m[i % 10] = m[(i + 1) % 10] * np.float32(0.5)
        m[:, i % 12] += 1
        return m.reshape(-1), old

    def step(x: Any, i: Any) -> Any:
        m = x.reshape(10, 12)
        made = m.at[i % 10].set(m[(i + 1) % 10] * 0.5).at[:, i % 12].add(1.0)
        return made.reshape(-1), m[1, 2]
    return step, plain


@case
def behind_an_inner_loop() -> Any:
    def plain(x: Any, i: int) -> Any:
        old = x[3], x[i + 1]
        for k in range(3):
            x[i + k] += x[k]
        return x, old
    return lambda x, i: (
        lax.fori_loop(0, 3, lambda k, y: y.at[i + k].add(y[k]), x), (x[3], x[i + 1])), plain


@case
def behind_branches() -> Any:
    def plain(x: Any, i: int) -> Any:
        old = x[i]
        if i % 3:
            x[i] = x[i + 1] + 1
        else:
            x[i + 1] = 0.5
        return x, old
    return lambda x, i: (lax.cond(i % 3 != 0, lambda x: x.at[i].set(x[i + 1] + 1),
                                  lambda x: x.at[i + 1].set(0.5), x), x[i]), plain


@case
def of_sums() -> Any:
    def plain(x: Any, i: int) -> Any:
        old = x[:8].max() + x[-3]
        x[i] = old
        return x, (old, x[:8].max())
    return lambda x, i: (y := x.at[i].set(x[:8].max() + x[-3]),
                         (x[:8].max() + x[-3], y[:8].max())), plain


@case
def gathered() -> Any:
    places = np.array([3, 50, 3, 7])

    def plain(x: Any, i: int) -> Any:
        old = x[places + i]
        x[i:i + 4] = old[::-1]
        return x, old
    return lambda x, i: (lax.dynamic_update_slice(x, x[places + i][::-1], (i,)),
                         x[places + i]), plain


@pytest.mark.parametrize("name", CASES)
def test_what_is_read(name: str) -> None:
    compare(*CASES[name]())


def test_two_arrays_of_both_branches() -> None:
    def step(c: Any, i: Any) -> Any:
        a, b = c
        return lax.cond(i % 2 == 0, lambda a, b: (a.at[i].set(b[i] + 1), b),
                        lambda a, b: (a.at[i + 1].set(0.5), b.at[i].add(a[i])), a, b), a[i] + b[0]

    (a, b), outs = calque.jit(lambda a, b: lax.scan(step, (a, b), jnp.arange(STEPS)))(X, X + 1)
    p, q = X.copy(), X + 1
    for i in range(STEPS):
        assert outs[i] == p[i] + q[0]
        if i % 2 == 0:
            p[i] = q[i] + 1
        else:
            p[i + 1], q[i] = 0.5, q[i] + p[i]
    np.testing.assert_array_equal(a, p)
    np.testing.assert_array_equal(b, q)


def test_the_order() -> None:
    """The update stands behind what reads its operand, also through views; what needs its result,
    and what has effects, stays behind it."""
    def f(x: Any) -> Any:
        new = x.at[3].set(1.0)
        seen = x.reshape(10, 12)[1:3]
        calque.debug.callback(lambda v: None, x[5])
        return new, seen.sum(), new[4] + x[4]

    p = calque.jit(f).trace(X).jaxpr
    made = with_reads_first(p)
    names = [e.name for e in made.equations]
    at = next(i for i, e in enumerate(made.equations) if made.outputs[0] in e.outputs)
    assert sorted(names) == sorted(e.name for e in p.equations)
    assert names.index("reduce_sum") < at
    x = made.inputs[0]
    readers = [i for i, e in enumerate(made.equations) if x in e.inputs]
    assert max(readers) == at
    got = calque.jit(f)(X)
    np.testing.assert_array_equal(got[0], np.where(np.arange(N) == 3, np.float32(1), X))
    np.testing.assert_allclose(got[1:], [X[12:36].sum(), X[4] * 2], rtol=1e-6)  # (another order)


def test_what_nobody_needs_in_a_body() -> None:
    """It is not computed, and keeps no array from being written into."""
    def step(c: Any) -> Any:
        i, x = c
        y = x.at[i].add(1.0)
        jnp.sort(x)[0] + x[3]
        return i + 1, y

    made = calque.jit(lambda x: lax.while_loop(lambda c: c[0] < 9, step, (0, x))[1])
    np.testing.assert_array_equal(made(X), X + (np.arange(N) < 9))
    assert "sort" not in str(made.lower(X).plan())
