"""Branches that write a part of a large array: the part comes out of them, and is written behind
them, in loops of every form.  Oracle: NumPy, step by step."""
from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import calque
import calque.numpy as jnp
from calque import lax
from calque.core.program import Program
from calque.lowering.passes.hoist import hoist
from calque.lowering.passes.written import LEAST, with_parts_written

N, M = 30, 200  # a buffer of 6,000 elements


def conds(p: Program) -> list[Any]:
    """The conds of a program, at any depth."""
    return [*(e for e in p.equations if e.name == "cond"),
            *(c for e in p.equations for q in e.inner for c in conds(q))]


def sizes(f: Any, *args: Any) -> list[int]:
    """Elements of the largest result of each cond that is left."""
    p = with_parts_written(hoist(calque.make_jaxpr(f)(*args).jaxpr))
    return [max(o.aval.size for o in c.outputs) for c in conds(p)]


def chain(buffer: Any, start: Any) -> Any:
    """Every draw from `start` on, a row each; every third as it was."""
    def step(i: Any, c: Any) -> Any:
        x, kept = c
        x = jnp.sin(x + i)
        return x, lax.switch(jnp.where(i < start, 0, 1 + i % 3), [
            lambda b: b, lambda b: b.at[i].set(x), lambda b: b,
            lambda b: lax.dynamic_update_slice(b, 2 * x[None] + b[i], (i + 25, 0))], kept)
    return lax.fori_loop(0, N, step, (jnp.arange(M) / M, buffer))


def oracle(buffer: Any, start: int) -> Any:
    x, kept = np.arange(M) / M, np.array(buffer, np.float64)
    for i in range(N):
        x = np.sin(x + i)
        if i >= start and i % 3 == 0:
            kept[i] = x
        elif i >= start and i % 3 == 2:
            kept[min(i + 25, N - 1)] = 2 * x + kept[i]
    return x, kept


@pytest.mark.parametrize("form", ["kernel", "host_loops"])
def test_chains_that_keep_draws(form: str, request: pytest.FixtureRequest) -> None:
    if form == "host_loops":
        request.getfixturevalue(form)
    buffer = np.random.default_rng(0).standard_normal((N, M)).astype(np.float32)
    assert all(n < LEAST for n in sizes(chain, buffer, 7))
    for start in (0, 7, N):
        for got, want in zip(calque.jit(chain)(buffer, start), oracle(buffer, start), strict=True):
            np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5)  # 30 sines in float32


@pytest.mark.parametrize("dtype", [np.int8, bool, np.float16, np.complex64, np.uint32])
def test_dtypes_and_several_buffers(dtype: Any) -> None:
    """Two of them, one read by both branches; a result that is no update stays one."""
    a = np.arange(5000).reshape(50, 100).astype(dtype)

    def f(p: Any, i: Any, a: Any, b: Any) -> Any:
        return lax.cond(p, lambda a, b: (a.at[i, :10].set(b[i, :10]), b, a[3]),
                        lambda a, b: (a, b.at[i].set(a[-i]), b[4]), a, b)
    b = a[::-1].copy()
    assert max(sizes(f, True, 3, a, b)) == 100
    for p in (True, False):
        for i in (0, 3, -2, 49):
            x, y = a.copy(), b.copy()
            if p:
                x[i, :10] = y[i, :10]
            else:
                y[i] = x[-i]
            want = x, y, a[3] if p else b[4]
            for got, w in zip(calque.jit(f)(p, i, a, b), want, strict=True):
                np.testing.assert_array_equal(got, w)


def test_what_stays_as_it_is() -> None:
    """Small buffers, large parts, other operands, updates that the branch reads again or of other
    sizes; and what is written outside of the array is dropped."""
    x = np.ones((50, 100), np.float32)

    def of(write: Any, leave: Any = lambda b, c: b) -> Any:
        return lambda p, i, b, c: lax.cond(p, write(i), leave, b, c)
    row = np.full(100, 2, np.float32)
    for f in (of(lambda i: lambda b, c: b.at[:30].set(3)),
              of(lambda i: lambda b, c: b.at[i].set(row), lambda b, c: c),
              of(lambda i: lambda b, c: b.at[i].set(row) + b.at[i].set(row).sum()),
              of(lambda i: lambda b, c: b.at[i].set(row), lambda b, c: b.at[1, :3].set(4))):
        assert max(sizes(f, True, 1, x, x)) == 5000
    small = of(lambda i: lambda b, c: b.at[i].set(1))
    assert max(sizes(small, True, 1, x[:2], x[:2])) == 200
    f = calque.jit(of(lambda i: lambda b, c: b.at[i].set(row)))
    for i, p in ((50, True), (-51, True), (1, False)):
        np.testing.assert_array_equal(f(p, i, x, x), x)
    x[-1] = 2
    np.testing.assert_array_equal(f(True, -1, np.ones_like(x), x), x)


def test_callbacks_in_branches_are_kept() -> None:
    seen: list[int] = []

    def f(p: Any, b: Any) -> Any:
        def write(b: Any) -> Any:
            calque.debug.callback(lambda n: seen.append(int(n)), b[0, 0])
            return b.at[1].set(5)
        return lax.cond(p, write, lambda b: b, b)
    b = np.arange(6000).reshape(60, 100)
    assert calque.jit(f)(True, b)[1, 0] == 5
    np.testing.assert_array_equal(calque.jit(f)(False, b), b)
    calque.effects_barrier()
    assert seen == [0]


@pytest.mark.parametrize("form", ["kernel", "host_loops"])
def test_what_is_read_after_it_was_written(form: str, request: pytest.FixtureRequest) -> None:
    """The array itself, twice written, and the argument, which is nobody's to change; carries of
    many arrays; from NumPy and as an Array, with nothing that is an argument, and given away."""
    if form == "host_loops":
        request.getfixturevalue(form)
    start = np.random.default_rng(1).standard_normal((3, 40, 150)).astype(np.float32)

    def f(n: Any, *buffers: Any) -> Any:
        def step(i: Any, c: Any) -> Any:
            bs, total = c
            old = bs[0]
            both = lax.cond(i % 3 == 0, lambda b: (b.at[i].set(1.0 * i), b.at[i + 1].set(-1.0)),
                            lambda b: (b, b.at[0].set(2.0)), old)
            third = lax.cond(i > 2, lambda b: b.at[i, :2].set(both[1][i, :2]), lambda b: b, bs[2])
            return (both[0], both[1], third), total + old[i].sum() + old[0, 0]
        return lax.fori_loop(0, n, step, (buffers, 0.0))

    def oracle(n: int, *buffers: Any) -> Any:
        a, b, c = (x.astype(np.float64) for x in buffers)
        total = 0.0
        for i in range(n):
            total += a[i].sum() + a[0, 0]
            first, second = a.copy(), a.copy()
            if i % 3 == 0:
                first[i], second[i + 1] = i, -1
            else:
                second[0] = 2
            if i > 2:
                c[i, :2] = second[i, :2]
            a, b = first, second
        return a, b, c, total
    arrays = [jnp.asarray(x) for x in start]
    want = oracle(30, *start)
    for call in (lambda: calque.jit(f)(30, *start), lambda: calque.jit(f)(30, *arrays),
                 lambda: calque.jit(lambda: f(30, *start))(),
                 lambda: calque.jit(f, donate_argnums=(1, 2, 3))(30, *map(jnp.array, start))):
        bs, total = call()
        for got, w in zip((*bs, total), want, strict=True):
            np.testing.assert_allclose(got, w, rtol=1e-5, atol=1e-3)  # sums of 4,500 in float32
    for x, y in zip(arrays, start, strict=True):
        np.testing.assert_array_equal(x, y)
