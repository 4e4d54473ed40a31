"""Loops and branches from the host, within each other, over 1 to 40 arrays (rules/views)."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import calque
import calque.numpy as jnp
from calque import lax, random
from calque.lowering.compiler.compile import CompileError
from calque.lowering.rules import control

pytestmark = pytest.mark.usefixtures("host_loops")

Arrays = list[Any]


def inner(c: Arrays) -> Arrays:
    return lax.fori_loop(0, 3, lambda i, c: [jnp.cos(x) + 0.1 * i for x in c], c)


def grown(c: Arrays) -> Arrays:
    return lax.while_loop(lambda c: c[0].sum() < 50, lambda c: [x * 1.5 + 1 for x in c], c)


def long(c: Arrays) -> Arrays:
    """Too long to be written out."""
    return lax.fori_loop(0, 60, lambda i, c: [0.9 * x + c[0] / (i + 2) for x in c], c)


PROGRAMS: dict[str, Callable[[Arrays], Any]] = {
    "loop in a loop": lambda c: lax.fori_loop(
        0, 4, lambda i, c: long([x * 0.5 + c[0] for x in c]), c),
    "while in a branch in a while": lambda c: lax.while_loop(
        lambda s: s[0] < 5, lambda s: (s[0] + 1, lax.cond(
            s[0] % 2 == 0, grown, lambda c: [x - 1 for x in c], s[1])), (0, c)),
    "scan in a scan": lambda c: lax.scan(lambda c, t: lax.scan(
        lambda d, u: ([x * 0.5 + u * t for x in d], d[0]), c, jnp.arange(30.0)),
        c, jnp.linspace(0, 1, 40)),
    "switch in a loop": lambda c: lax.fori_loop(0, 7, lambda i, c: lax.switch(
        i % 3, [grown, inner, lambda c: [jnp.flip(x) for x in c]], c), c),
    "updates": lambda c: lax.fori_loop(0, 3, lambda i, c: lax.fori_loop(0, 40, lambda j, c: [
        x.at[j % 3].set(i + x[(j + 1) % 3]) for x in c], c), c),
    "one array twice": lambda c: lax.fori_loop(0, 3, lambda i, c: long(c)[::-1], c + c),
    # what went in is what comes out: no step is taken, and both are written into afterwards
    "no steps": lambda c: (lambda b: (lambda r: [
        [x.at[0].set(9) for x in b], [x.at[1].set(8) for x in r], r, b])(
            lax.while_loop(lambda c: c[0].sum() > 1e9, long, b)))([x + 1 for x in c]),
    "of arguments": lambda c: (lambda r: [
        [x.at[0].set(9) for x in c], [x.at[1].set(8) for x in r], r])(
            lax.while_loop(lambda c: c[0].sum() > 1e9, long, c)),
    # a branch that is not taken would never end
    "endless elsewhere": lambda c: lax.fori_loop(0, 3, lambda i, c: lax.cond(
        i < 5, lambda c: [x + 1 for x in c],
        lambda c: lax.while_loop(lambda c: c[0][0] < 1e30, lambda c: c, c), c), c)}


@pytest.mark.parametrize("count, stride", [
    (2, 4), *[pytest.param(n, 1, marks=pytest.mark.slow) for n in (1, 5, 60)]])
def test_loops_in_loops(count: int, stride: int) -> None:
    """As steps in Python give."""
    arrays = [np.arange(3, dtype=np.float32) * (i + 1) / count for i in range(count)]
    for name, f in list(PROGRAMS.items())[::stride]:
        got = calque.jit(f)(arrays)
        with calque.disable_jit():
            want = f([jnp.array(a) for a in arrays])
        for x, y in zip(*map(calque.tree.leaves, (got, want)), strict=True):
            # 240 steps, in another order of products
            np.testing.assert_allclose(x, y, rtol=1e-5, atol=1e-6, err_msg=name)


@pytest.mark.parametrize("names", [
    "?E", *[pytest.param(n, marks=pytest.mark.slow) for n in ("q?12f", "bBHe", "qdFE")]])
def test_dtypes_and_empty_arrays(names: str, x64: None) -> None:
    kinds = [np.dtype({"1": "i4", "2": "u4", "E": ml_dtypes.bfloat16}.get(n, n)) for n in names]
    arrays = [(np.array([0, 1, 1, 0, 1]).astype(kind), np.zeros((0, 3), kind)) for kind in kinds]

    def turned(c: Any) -> Any:
        return lax.fori_loop(0, 61, lambda _, c: (c[0][::-1], c[1]), c)

    def f(x: Any, empty: Any) -> Any:
        every = lax.fori_loop(0, 60, lambda _, c: turned(c), (x, empty))
        last = lax.fori_loop(0, 3, lambda i, c: lax.cond(i > 1, turned, lambda c: c, c), (x, empty))
        return every, last

    found = calque.jit(lambda arrays: [f(*both) for both in arrays])(arrays)
    for (x, _), ((even, none), (odd, nothing)) in zip(arrays, found, strict=True):
        np.testing.assert_array_equal(even, x)
        np.testing.assert_array_equal(odd, x[::-1])
        assert none.shape == nothing.shape == (0, 3) and none.dtype == nothing.dtype == x.dtype


def test_keys_and_predicates_with_rows() -> None:
    """A while under vmap, and PRNG keys that are carried."""
    def steps(x: Any) -> Any:
        return lax.while_loop(lambda x: x < 10, lambda x: lax.fori_loop(
            0, 61, lambda _, x: x + 0.05, x), x)

    def drawn(key: Any) -> Any:
        def step(_: Any, c: Any) -> Any:
            key, total = c
            key, one = random.split(key)
            return key, total + lax.fori_loop(
                0, 61, lambda i, t: t + random.normal(random.fold_in(one, i), (3,)), total)
        return lax.fori_loop(0, 3, step, (key, jnp.zeros(3)))

    x = np.array([0.0, 9.5, 20.0, 5.0], np.float32)
    want = [12.2, 12.55, 20.0, 11.1]  # 61 steps of 0.05 at a time, until 10 is reached
    np.testing.assert_allclose(calque.jit(calque.vmap(steps))(x), want, rtol=1e-5)
    with calque.disable_jit():
        key, total = drawn(random.key(0))
    again, sums = calque.jit(drawn)(random.key(0))
    np.testing.assert_array_equal(random.key_data(again), random.key_data(key))
    np.testing.assert_allclose(sums, total, rtol=1e-5, atol=1e-5)


def test_what_a_loop_gives_is_not_its_argument() -> None:
    """A result that no step changed does not share a donated argument's memory, nor another's."""
    def f(x: Any) -> Any:
        return lax.while_loop(lambda c: c[0][0] > 1e9, lambda c: tuple(long(list(c))), (x, x))

    x = jnp.arange(5.0)
    first, second = calque.jit(f)(x)
    changed = calque.jit(lambda a: a.at[0].set(7), donate_argnums=0)(first)
    np.testing.assert_array_equal(second, np.arange(5.0))
    np.testing.assert_array_equal(x, np.arange(5.0))
    np.testing.assert_array_equal(changed, [7, 1, 2, 3, 4])


COUNT = 2


def rejected(c: Arrays) -> Any:
    """One loop from the host: "circular dependency"."""
    b = [x + 1 for x in c]
    r = lax.while_loop(lambda c: c[0].sum() > 1e9, inner, b)
    return [x.at[0].set(9) for x in b] + [x.at[1].set(8) for x in r] + r + b


def test_a_program_that_iree_rejects_is_written_another_way() -> None:
    """attempts.compile_lowered tries views."""
    arrays = [np.arange(3, dtype=np.float32) * i for i in range(COUNT)]
    got = calque.jit(rejected)(arrays)
    for i, a in enumerate(arrays):
        np.testing.assert_array_equal(got[i], [9, *(a + 1)[1:]])
        np.testing.assert_array_equal(got[COUNT + i], [(a + 1)[0], 8, (a + 1)[2]])
        np.testing.assert_array_equal(got[2 * COUNT + i], a + 1)
        np.testing.assert_array_equal(got[3 * COUNT + i], a + 1)


def test_numbers_of_one_dispatch() -> None:
    """Forty numbers computed of each other, all results (FusionWidth.most_numbers)."""
    def f(start: Any, numbers: Any) -> Any:
        found = [start]
        for a in numbers:
            found.append(jnp.tanh(found[-1] * a) + found[len(found) // 2])
        return found

    numbers = list(np.random.default_rng(0).normal(size=40).astype(np.float32))
    want = [np.float32(0.5)]
    for a in numbers:
        want.append(np.tanh(want[-1] * a) + want[len(want) // 2])
    # some two hundred roundings
    np.testing.assert_allclose(calque.jit(f)(np.float32(0.5), numbers), want, rtol=1e-4)


def test_iree_still_fails_on_loops_over_arrays(monkeypatch: pytest.MonkeyPatch) -> None:
    """rules/views: loops and branches from the host carry buffer views."""
    monkeypatch.setattr(control.views, "is_possible", lambda values: False)
    with pytest.raises(CompileError, match="circular dependency"):
        calque.jit(rejected)([np.arange(3, dtype=np.float32) * i for i in range(COUNT)])
