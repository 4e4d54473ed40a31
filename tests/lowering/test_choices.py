"""Choices between an array and a change of it write the change or nothing (lowering/passes/
choices): `where`, `select_n`, `cond` and `switch` over mapped predicates, in loops and outside.  By
the oracle, a loop of NumPy's over rows and steps, each is Python's `if`."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import calque
import calque.numpy as jnp
from calque import lax
from calque.core.program import Program
from calque.lowering.passes.choices import with_choices_written

N, ROWS, STEPS = 100, 5, 23
X = np.linspace(-4, 4, ROWS * N, dtype=np.float32).reshape(ROWS, N)
X[:, ::9] = -0.0
K = np.array([3, 0, 7, 12, 1], np.int32)  # what rows differ by
State = Any


def written(p: Program) -> bool:
    """Whether nothing of the arrays' size is chosen, at any depth."""
    return not any(e.name == "select_n" and e.outputs[0].aval.size >= N
                   for e in p.equations) and all(
        written(q) for e in p.equations for q in e.inner)


def compare(step: Callable[[Any, Any, Any], Any], plain: Callable[[np.ndarray, int, int], None],
            x: np.ndarray = X, is_written: bool = True) -> None:
    """A scan of the step over each row, mapped and one by one, and the same by NumPy, in place."""
    def f(x: Any, k: Any) -> Any:
        return lax.scan(lambda x, i: (step(x, i, k), None), x, jnp.arange(STEPS))[0]

    want = x.copy()
    for row, k in zip(want, K):
        for i in range(STEPS):
            plain(row, i, int(k))
    mapped = calque.jit(calque.vmap(f))
    np.testing.assert_array_equal(mapped(x, K), want)
    for row, k, expected in zip(x, K, want):
        np.testing.assert_array_equal(calque.jit(f)(row, k), expected)
    assert written(with_choices_written(mapped.trace(x, K).jaxpr)) == is_written


UPDATES: dict[str, tuple[Callable[..., Any], Callable[..., None]]] = {}


def case(f: Callable[..., Any]) -> Callable[..., Any]:
    UPDATES[f.__name__] = f()
    return f


@case
def place() -> Any:
    def plain(x: Any, i: int, k: int) -> None:
        x[(i + k) % N] = i
    return lambda x, i, k: x.at[(i + k) % N].set(i), plain


@case
def outside() -> Any:
    def plain(x: Any, i: int, k: int) -> None:
        if 7 * i < N:
            x[7 * i] = 5
    return lambda x, i, k: x.at[7 * i].set(5.0, mode="drop"), plain


@case
def window() -> Any:
    def plain(x: Any, i: int, k: int) -> None:
        at = min(k * 11, N - 4)
        x[at:at + 4] = i
    return lambda x, i, k: lax.dynamic_update_slice(x, jnp.full(4, i, x.dtype), (k * 11,)), plain


@case
def equal_places() -> Any:
    def plain(x: Any, i: int, k: int) -> None:
        x[k] = ((x[k] + np.float32(1)) + np.float32(1))
    return lambda x, i, k: x.at[jnp.stack([k, k])].add(1.0), plain


@case
def twice() -> Any:
    def plain(x: Any, i: int, k: int) -> None:
        x[i] = k
        x[k] += x[i]
    return lambda x, i, k: (y := x.at[i].set(k)).at[k].add(y[i]), plain


@case
def of_what_was_there() -> Any:
    def plain(x: Any, i: int, k: int) -> None:
        x[i], x[k] = x[k], x[i]
    return lambda x, i, k: x.at[i].set(x[k]).at[k].set(x[i]), plain


@case
def least() -> Any:
    def plain(x: Any, i: int, k: int) -> None:
        x[k] = min(x[k], np.float32(-i))
    return lambda x, i, k: x.at[k].min(-1.0 * i), plain


@case
def factor() -> Any:
    def plain(x: Any, i: int, k: int) -> None:
        x[k] *= np.float32(0.5)
    return lambda x, i, k: x.at[k].multiply(0.5), plain


@case
def difference() -> Any:
    def plain(x: Any, i: int, k: int) -> None:
        x[k] -= np.float32(i)
    return lambda x, i, k: x.at[k].subtract(1.0 * i), plain


@pytest.mark.parametrize("name", UPDATES)
def test_where(name: str) -> None:
    update, plain = UPDATES[name]

    def chosen(x: np.ndarray, i: int, k: int) -> None:
        if (i + k) % 3 == 1:
            plain(x, i, k)

    compare(lambda x, i, k: jnp.where((i + k) % 3 == 1, update(x, i, k), x), chosen)
    compare(lambda x, i, k: lax.select_n((i + k) % 3 == 1, x, update(x, i, k)), chosen)


@pytest.mark.parametrize("name", UPDATES)
def test_cond(name: str) -> None:
    update, plain = UPDATES[name]

    def chosen(x: np.ndarray, i: int, k: int) -> None:
        if i < k:
            plain(x, i, k)

    compare(lambda x, i, k: lax.cond(i < k, lambda x: update(x, i, k), lambda x: x, x), chosen)


def test_every_branch_writes() -> None:
    """Into what the one before it left; and reads what it has not written, and what it has."""
    def plain(x: np.ndarray, i: int, k: int) -> None:
        if (i + k) % 3 == 0:
            x[i] = x[i + 1] + k
        elif (i + k) % 3 == 1:
            x[i] = k
            x[i + 1] = x[i] * 2
        else:
            old = x[k]
            x[k] = -i
            x[k + 1] = old

    def third(x: Any, i: Any, k: Any) -> Any:
        y = x.at[k].set(-1.0 * i)
        return y.at[k + 1].set(x[k])

    compare(lambda x, i, k: lax.switch(
        (i + k) % 3, [lambda x: x.at[i].set(x[i + 1] + k),
                      lambda x: (y := x.at[i].set(k)).at[i + 1].set(y[i] * 2),
                      lambda x: third(x, i, k)], x), plain)


def test_a_stack_for_each_row() -> None:
    """Pushed to, popped from; what is popped is a result, too."""
    def step(c: Any, i: Any, k: Any) -> Any:
        def push(x: Any, n: Any) -> Any:
            return x.at[n].set(1.0 * i), n + 1, -1.0

        def pop(x: Any, n: Any) -> Any:
            n = jnp.maximum(n - 1, 0)
            return x.at[n].set(0.0), n, x[n]

        x, n, out = lax.cond((i * 7 + k) % 5 < 3, push, pop, *c)
        return (x, n), out

    x, outs = calque.jit(calque.vmap(lambda k: lax.scan(
        lambda c, i: step(c, i, k), (jnp.zeros(N), 0), jnp.arange(60))))(K)
    for row, k in enumerate(K):
        stack = list[float]()
        for i in range(60):
            if (i * 7 + k) % 5 < 3:
                stack.append(float(i))
                want = -1.0
            else:
                want = stack.pop() if stack else 0.0
            assert outs[row, i] == want
        assert x[1][row] == len(stack)
        np.testing.assert_array_equal(x[0][row], stack + [0.0] * (N - len(stack)))


def test_the_number_that_chooses_comes_later() -> None:
    def plain(x: np.ndarray, i: int, k: int) -> None:
        if i * k % 5 != 2:
            x[i] = 1

    def step(x: Any, i: Any, k: Any) -> Any:
        new = x.at[i].set(1.0)
        return jnp.where(i * k % 5 == 2, x, new)

    compare(step, plain)


def test_it_stays_where_it_follows_from_the_change() -> None:
    def plain(x: np.ndarray, i: int, k: int) -> None:
        old = x[i]
        x[i] = i - k
        if x[:10].sum() <= 3:
            x[i] = old

    def step(x: Any, i: Any, k: Any) -> Any:
        new = x.at[i].set(i - k)
        return jnp.where(new[:10].sum() > 3, new, x)

    compare(step, plain, np.zeros_like(X), is_written=False)


def test_it_stays_where_the_change_is_used_anyway() -> None:
    def f(x: Any, go: Any) -> Any:
        new = x.at[3].set(1.0)
        return jnp.where(go, new, x), new.sum()

    for go in (True, False):
        got, total = calque.jit(f)(X[0], go)
        want = X[0].copy()
        want[3] = 1
        np.testing.assert_allclose(total, want.sum(), rtol=1e-5)  # (in another order)
        np.testing.assert_array_equal(got, want if go else X[0])


def test_choices_by_the_same_number_of_states_between() -> None:
    """One takes what is made of an array first, the other what is made of that."""
    def f(x: Any, y: Any, go: Any) -> Any:
        first = x.at[3].set(1.0)
        second = first.at[4].set(2.0)
        return jnp.where(go, second, x), jnp.where(go, first, y), jnp.where(go, x[4], 0.0)

    y = X[::-1].copy()
    for go in (np.array([True, False, True, True, False]), np.zeros(5, bool)):
        for got, each in zip(zip(*calque.jit(calque.vmap(f))(X, y, go)), zip(X, y, go)):
            x, other, chosen = each
            first = x.copy()
            first[3] = 1
            second = first.copy()
            second[4] = 2
            want = (second, first, x[4]) if chosen else (x, other, 0)
            for a, b in zip(got, want):
                np.testing.assert_array_equal(a, b)


def test_a_choice_of_a_choice() -> None:
    def plain(x: np.ndarray, i: int, k: int) -> None:
        if i > 2 and k > 2:
            x[i] = k
        elif i > 2:
            x[k] = i

    compare(lambda x, i, k: jnp.where(
        i > 2, jnp.where(k > 2, x.at[i].set(k), x.at[k].set(i)), x), plain)


def test_places_whose_rows_are_not_known() -> None:
    """The number of each place that is written is looked up."""
    go, at = np.array([True, False, True, False, True]), np.array([4, 9, 4, 2, 99])
    made = calque.jit(lambda x, go, at: jnp.where(
        go[:, None], x.at[jnp.arange(ROWS), at].set(7.0), x))
    want = X.copy()
    want[go, at[go]] = 7
    np.testing.assert_array_equal(made(X, go, at), want)
    assert written(with_choices_written(made.trace(X, go, at).jaxpr))
    mask = np.arange(N) % 3 == 0
    want = X.copy()
    want[0, at[mask[at]]] = 7
    np.testing.assert_array_equal(calque.jit(lambda x, mask, at: jnp.where(
        mask, x.at[at].set(7.0), x))(X[0], mask, at), want[0])


def test_nothing_is_waited_for_in_other_rows() -> None:
    """A branch that follows links until they end, in an array that another branch writes circles
    into."""
    links = np.tile(np.minimum(np.arange(N) + 1, N - 1).astype(np.int32), (ROWS, 1))

    def follow(x: Any) -> Any:
        end = lax.while_loop(lambda p: x[p] != p, lambda p: x[p], 0)
        return x.at[0].set(jnp.minimum(end, 50))

    got = calque.jit(calque.vmap(lambda x, k: lax.cond(
        k > 2, lambda x: x.at[N - 1].set(0), follow, x)))(links, K)
    want = links.copy()
    want[K > 2, N - 1], want[K <= 2, 0] = 0, 50
    np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint32", "int64", "float16", "bfloat16",
                                   "float64", "complex64"])
def test_dtypes(dtype: str) -> None:
    with calque.enable_x64():
        x = jnp.asarray(np.arange(ROWS * N).reshape(ROWS, N) % 5).astype(dtype)
        change = "max" if dtype == "bool" else "add"
        got = calque.jit(calque.vmap(lambda x, k: jnp.where(
            k > 2, getattr(x.at[k].set(x[1]).at[5], change)(x[k]), x)))(x, K)
        want = np.array(x)
        for row, k in zip(want, K):
            if k > 2:
                there = row[k]
                row[k] = row[1]
                row[5] = row[5] | there if dtype == "bool" else row[5] + there
        np.testing.assert_array_equal(np.asarray(got), want)


def test_nothing_and_signs_stay() -> None:
    """Rows that are not written keep -0.0, infinities and NaN, whatever the operation is."""
    x = np.tile(np.float32([-0.0, np.inf, np.nan, 0.0]), (ROWS, N // 4))
    for change in ("add", "subtract", "multiply", "min", "max", "set"):
        got = np.asarray(calque.jit(calque.vmap(lambda x, k: jnp.where(  # noqa: B023
            k > 100, getattr(x.at[jnp.arange(4)], change)(2.0), x)))(x, K))  # noqa: B023
        np.testing.assert_array_equal(got.view(np.int32), x.view(np.int32), err_msg=change)


def test_derivatives() -> None:
    """Of a scan whose branches write: beside finite differences."""
    def f(x: Any, k: Any) -> Any:
        def step(x: Any, i: Any) -> Any:
            return lax.cond((i + k) % 2 == 0, lambda x: x.at[i].set(jnp.sin(x[i + 1]) * x[k]),
                            lambda x: x, x), x[i]
        x, seen = lax.scan(step, x, jnp.arange(10))
        return (x ** 2).sum() + (seen ** 3).sum()

    with calque.enable_x64():
        x = np.random.default_rng(0).normal(size=(ROWS, N))
        got = calque.jit(calque.vmap(calque.grad(f)))(x, K)
        way = np.random.default_rng(1).normal(size=(ROWS, N))
        h = 1e-6
        both = [calque.vmap(f)(jnp.asarray(x + s * h * way), K) for s in (1, -1)]
        np.testing.assert_allclose((np.asarray(got) * way).sum(1), np.asarray(
            both[0] - both[1]) / (2 * h), rtol=1e-6)  # h^2, and 1e-16 / h


def test_effects_keep_their_order() -> None:
    seen = list[int]()

    def f(x: Any, k: Any) -> Any:
        calque.debug.callback(lambda v: seen.append(int(v)), k, ordered=True)
        new = x.at[k].set(1.0)
        calque.debug.callback(lambda v: seen.append(int(v)), k + 1, ordered=True)
        go = calque.pure_callback(lambda k: k > 2, calque.ShapeDtypeStruct((), bool), k)
        return jnp.where(go, new, x)

    for k in (1, 5):
        want = X[0].copy()
        want[k] = 1
        np.testing.assert_array_equal(calque.jit(f)(X[0], k), want if k > 2 else X[0])
    calque.effects_barrier()
    assert seen == [1, 2, 5, 6]


def test_its_operand_may_be_used_later() -> None:
    def f(x: Any, go: Any) -> Any:
        return jnp.where(go, x.at[2].set(9.0), x), x * 2, x[2]

    for go in (True, False):
        got, double, old = calque.jit(f)(X[0], go)
        np.testing.assert_array_equal(double, X[0] * 2)
        assert got[2] == (9 if go else X[0, 2])
        assert old == X[0, 2]
