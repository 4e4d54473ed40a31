"""Loops that Python writes out become scans again (lowering/passes/reroll), with the same values.

The oracles are the same functions in NumPy, or, for gradients and draws, the same program written
with lax.scan; tolerances are some rounding errors of float32 that grow along the steps.
"""
from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

import calque
import calque.numpy as jnp
from calque.core.program import Program
from calque.lowering.passes import reroll
from calque.lowering.passes.hoist import hoist

RNG = np.random.RandomState(0)


@pytest.fixture(autouse=True)
def same_numbers() -> None:
    """Each test draws the same, whichever ran before it."""
    RNG.seed(0)


def _array(*shape):
    return RNG.uniform(-1, 1, shape).astype(np.float32)


def _program(f, *args) -> Program:
    return reroll.rerolled(hoist(calque.jit(f).trace(*args).jaxpr.jaxpr))


def _names(f, *args) -> Counter:
    return Counter(e.name for e in _program(f, *args).equations)


def _rk4(np_, y, steps):
    def rate(y):
        return np_.stack([y[0] * (1 - y[1]), y[1] * (y[0] - 1)])

    seen = []
    for _ in range(steps):
        a = rate(y)
        b = rate(y + np_.float32(0.05) * a)
        c = rate(y + np_.float32(0.05) * b)
        d = rate(y + np_.float32(0.1) * c)
        y = y + np_.float32(0.1 / 6) * (a + 2 * b + 2 * c + d)
        seen.append(y)
    return seen, y


def test_steps_are_one_loop_and_every_state_is_a_result():
    y = np.array([1.5, 1.0], np.float32)
    assert _names(lambda y: _rk4(jnp, y, 30), y)["scan"] == 1
    seen, last = calque.jit(lambda y: _rk4(jnp, y, 30))(y)
    want, end = _rk4(np, y, 30)
    np.testing.assert_allclose(np.asarray(seen), want, rtol=2e-5)
    np.testing.assert_array_equal(last, seen[-1])
    np.testing.assert_allclose(last, end, rtol=2e-5)


def _springs(np_, x, pairs, add):
    for i, j in pairs:
        d = x[j] - x[i]
        c = np_.float32(0.1) * d / np_.sqrt((d * d).sum(-1, keepdims=True) + np_.float32(1))
        x = add(add(x, i, c), j, -c)
    return x


def _numpy_add(x, i, c):
    x = x.copy()
    np.add.at(x, i, c)
    return x


@pytest.mark.parametrize("jitted", [True, False])
def test_calls_of_gathers_and_scatters(jitted):
    """Index arrays of NumPy are one constant, however often a function turns them into arrays."""
    pairs = [(RNG.randint(0, 48, 20), RNG.randint(0, 48, 20)) for _ in range(4)]
    x = _array(48, 3)
    inner = lambda x: _springs(jnp, x, pairs, lambda x, i, c: x.at[i].add(c))  # noqa: E731
    step = calque.jit(inner) if jitted else inner

    def f(x):
        for _ in range(12):
            x = step(x)
        return x

    p = _program(f, x)
    assert [e.params["length"] for e in p.equations if e.name == "scan"] == [12]
    assert len(calque.jit(f).trace(x).jaxpr.consts) == 8 + 2  # (and two numbers)
    want = x
    for _ in range(12):
        want = _springs(np, want, pairs, _numpy_add)
    np.testing.assert_allclose(calque.jit(f)(x), want, rtol=1e-5, atol=1e-6)


def _recurrent(w, u, h, xs):
    loss = jnp.float32(0)
    for t in range(xs.shape[0]):
        h = jnp.tanh(w @ h + u @ xs[t] + jnp.roll(h, 1) * 0.1)
        loss = loss + (h * h).sum() * h.max()
    return loss


def test_gradient_of_a_recurrent_network():
    w, u, h, xs = _array(5, 5), _array(5, 3), _array(5), _array(12, 3)

    def scanned(w, u, h, xs):
        def step(c, x):
            h, loss = c
            h = jnp.tanh(w @ h + u @ x + jnp.roll(h, 1) * 0.1)
            return (h, loss + (h * h).sum() * h.max()), None
        return calque.lax.scan(step, (h, jnp.float32(0)), xs)[0][1]

    got = calque.jit(calque.grad(_recurrent, argnums=(0, 1, 2)))(w, u, h, xs)
    want = calque.jit(calque.grad(scanned, argnums=(0, 1, 2)))(w, u, h, xs)
    for a, b in zip(got, want):
        np.testing.assert_allclose(a, b, rtol=2e-5, atol=2e-5)


def test_gradient_reads_the_states_backwards():
    w, h = _array(6, 6), _array(6)

    def f(w, h):
        for _ in range(16):
            h = jnp.tanh(w @ h + jnp.roll(h, 1) * h.sum()) - h.max()
        return (h * h).sum()

    def scanned(w, h):
        h = calque.lax.fori_loop(0, 16, lambda _, h: jnp.tanh(
            w @ h + jnp.roll(h, 1) * h.sum()) - h.max(), h)
        return (h * h).sum()

    p = _program(calque.grad(f), w, h)
    assert sum(e.name == "scan" for e in p.equations) == 2
    assert {e.params["reverse"] for e in p.equations if e.name == "scan"} == {False, True}
    np.testing.assert_allclose(calque.jit(calque.grad(f))(w, h),
                               calque.jit(calque.grad(scanned))(w, h), rtol=2e-4, atol=1e-4)


def test_numbers_and_arrays_of_their_own_are_scanned():
    a, rows = _array(4, 4), [_array(4) for _ in range(12)]

    def f(np_, a, x, rows):
        seen = []
        for i, row in enumerate(rows):
            x = np_.cos(a @ x) * np_.float32(0.1 * i) + row - x.sum()
            x = np_.where(x > np_.float32(0.2), x, x[::-1])
            x = x + row * x.max()
            seen.append(x.min())
        return x, seen

    assert _names(lambda a, x, rows: f(jnp, a, x, rows), a, rows[0], rows)["scan"] == 1
    got = calque.jit(lambda a, x, rows: f(jnp, a, x, rows))(a, rows[0], rows)
    want = f(np, a, rows[0], rows)
    np.testing.assert_allclose(got[0], want[0], rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(np.asarray(got[1]), want[1], rtol=1e-4, atol=1e-5)


def test_draws_of_keys_that_are_split():
    key = calque.random.key(3)

    def step(key, x):
        key, a, b = calque.random.split(key, 3)
        return key, x * 0.5 + calque.random.normal(a, (3,)) * calque.random.uniform(b, (3,)).sum()

    def f(key, x):
        for _ in range(10):
            key, x = step(key, x)
        return key, x

    def scanned(key, x):
        return calque.lax.fori_loop(0, 10, lambda _, c: step(*c), (key, x))

    got, want = calque.jit(f)(key, jnp.zeros(3)), calque.jit(scanned)(key, jnp.zeros(3))
    np.testing.assert_array_equal(calque.random.key_data(got[0]), calque.random.key_data(want[0]))
    np.testing.assert_allclose(got[1], want[1], rtol=1e-5, atol=1e-6)


def test_a_step_that_reads_the_two_before():
    x, y = np.float32(0.3), np.float32(0.5)

    def f(np_, x, y):
        for _ in range(20):
            x, y = y, np_.cos(x) * np_.float32(0.5) + np_.sin(y) * np_.float32(0.25)
            y = y + np_.stack([x, y]).sum() * np_.float32(0.125)
        return x, y

    np.testing.assert_allclose(calque.jit(lambda x, y: f(jnp, x, y))(x, y), f(np, x, y), rtol=1e-5)


def test_what_differs_is_left():
    """Steps with other parameters or shapes, few steps, elementwise chains and effects."""
    x = _array(40)

    def shrinking(x):
        for _ in range(20):
            x = jnp.tanh(x[1:] * x.sum()) + x[:-1]
        return x

    def two(x):
        for _ in range(2):
            x = jnp.tanh(x * x.sum()) + x[::-1]
        return x

    def chain(x):
        for _ in range(60):
            x = jnp.sin(x) * 0.5
        return x

    def told(x):
        for _ in range(20):
            x = jnp.tanh(x * x.sum()) + x[::-1]
            calque.debug.callback(lambda v: None, x[0])
        return x

    for f in (shrinking, two, chain, told):
        assert _names(f, x)["scan"] == 0, f


def test_work_for_many_cores_is_left():
    w, x = _array(300, 300), _array(300, 300)

    def f(w, x):
        for _ in range(12):
            x = jnp.tanh(x @ w) + x[::-1] * x.sum() - x.max() + x[:, ::-1] * x.mean()
        return x

    assert _names(f, w, x)["scan"] == 0


def test_pairs_of_points_are_left():
    """passes/components and rows do them faster than a loop over memory."""
    def f(x, v):
        for _ in range(20):
            d = x[:, None] - x
            v = v - 0.01 * (d / ((d * d).sum(-1) + 1)[..., None]).sum(1)
            x = x + 0.01 * v
        return x, v

    few, many = (_array(10, 3),) * 2, (_array(45, 3),) * 2
    assert _names(f, *few)["scan"] == 1
    assert _names(f, *many)["scan"] == 0


def test_donated_and_returned_arguments_stay_what_they_are():
    x = _array(6)

    def f(x):
        y = x
        for _ in range(12):
            y = jnp.tanh(y * y.sum()) + y[::-1] * 0.5 - y.max() * 0.1
        return x + 1, y

    want = x
    for _ in range(12):
        want = (np.tanh(want * want.sum()) + want[::-1] * np.float32(0.5)
                - want.max() * np.float32(0.1))
    got = calque.jit(f, donate_argnums=0)(jnp.asarray(x))
    np.testing.assert_array_equal(got[0], x + 1)
    np.testing.assert_allclose(got[1], want, rtol=1e-4, atol=1e-5)


def test_equal_small_arrays_are_captured_once_and_others_apart():
    i, j = np.array([1, 2, 3]), np.array([3, 2, 1])
    x = _array(5)
    p = calque.make_jaxpr(lambda x: x[i] + x[i] * x[j] + x[np.array([1, 2, 3])])(x)
    assert len(p.consts) == 2
    np.testing.assert_allclose(
        calque.jit(lambda x: x[i] + x[i] * x[j] + x[np.array([1, 2, 3])])(x),
        x[i] + x[i] * x[j] + x[[1, 2, 3]], rtol=1e-6)
    k = np.array([1.0, 2.0], np.float32)

    def changed(y):  # a value is what it was when it was read
        first = y + jnp.asarray(k)
        k[0] = 5
        return first * jnp.asarray(k)

    np.testing.assert_array_equal(calque.jit(changed)(np.ones(2, np.float32)), [10, 6])
