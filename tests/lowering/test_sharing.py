"""Results that are an argument's memory, because IREE folds what computes them away: they are known
(CallSpec.may_alias), so that donating one never changes the other."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import calque
import calque.numpy as jnp
from calque import lax
from calque.lowering.driver.module import lower
from calque.lowering.passes import remainder
from calque.lowering.target.targets import cpu_target

N = 70 * 1024  # IREE computes these: arrays of other sizes are a kernel of ours (passes/uneven)
INTEGERS: dict[str, Callable[[Any], Any]] = {
    "+5-5": lambda x: (x + 5) - 5, "^5^5": lambda x: (x ^ 5) ^ 5,
    "+5+7-12": lambda x: x + 5 + 7 - 12,
    "*-1*-1": lambda x: x * -1 * -1, "*3/3 modulo 2**32": lambda x: x * 3 * np.int32(-1431655765),
    "(+5)*1-5": lambda x: (x + 5) * 1 - 5, "|0": lambda x: x | 0, "&-1": lambda x: x & -1,
    "~~": lambda x: ~~x, "--": lambda x: jnp.negative(-x), "<<0": lambda x: x << 0,
    "+0": lambda x: x + 0,
    "*1": lambda x: x * 1, "max least": lambda x: jnp.maximum(x, -(2**31)),
    "min(x, x)": lambda x: jnp.minimum(x, x)}
FLOATS: dict[str, Callable[[Any], Any]] = {
    "--": lambda x: jnp.negative(-x), "/1": lambda x: x / 1, "*1": lambda x: x * 1,
    "**1": lambda x: x**1,
    "*-1*-1": lambda x: x * -1 * -1, "max -inf": lambda x: jnp.maximum(x, -np.inf),
    "-0": lambda x: x - 0.0, "+(-0)": lambda x: x + np.float32(-0.0)}
NEW: dict[str, Callable[[Any], Any]] = {
    "+1": lambda x: x + 1, "*2+1": lambda x: x * 2 + 1, "*-1": lambda x: x * -1,
    "/2": lambda x: x / 2, "x+x": lambda x: x + x}


def shares(f: Callable[..., list[Any]], xs: list[Any]) -> list[bool]:
    """Which results are the argument at their place."""
    return [y._buffer.view.get_buffer().ref == x._buffer.view.get_buffer().ref
            for x, y in zip(xs, calque.jit(f)(*xs), strict=True)]


def may_alias(f: Callable[..., Any], *xs: Any) -> dict[int, list[int]]:
    """Results that may share memory, with the arguments whose memory it may be."""
    lowered = lower(calque.make_jaxpr(f)(*xs), cpu_target())
    return {i: [lowered.arguments[k] for k in others if k >= 0]
            for i, others in lowered.call.may_alias.items()}


@pytest.mark.parametrize("together", [True, pytest.param(False, marks=pytest.mark.slow)],
                         ids=["one program", "alone"])
@pytest.mark.parametrize("cases, x", [(INTEGERS, np.arange(N, dtype=np.int32)),
                                      (FLOATS, np.ones(N, np.float32))], ids=["integers", "floats"])
def test_shared_memory_is_known(cases: Any, x: Any, together: bool,
                                monkeypatch: pytest.MonkeyPatch) -> None:
    # (kernels of ours share nothing)
    monkeypatch.setattr(remainder, "may_close", lambda regions, target: False)
    found = {}
    for names in ([list(cases)] if together else [[n] for n in cases]):
        def f(*xs: Any, names: list[str] = names) -> list[Any]:
            return [cases[n](x) for n, x in zip(names, xs)]
        xs = [jnp.asarray(x.copy()) for _ in names]
        shared, known = shares(f, xs), may_alias(f, *xs)
        found |= {n: (s, i in known.get(i, ())) for i, (n, s) in enumerate(zip(names, shared))}
    assert all(known for shared, known in found.values() if shared), found
    assert any(shared for shared, _ in found.values())


def test_new_memory_is_not_looked_at() -> None:
    """Each candidate costs a comparison a call."""
    assert not any(may_alias(f, jnp.ones(N)) for f in NEW.values())
    assert not may_alias(lambda x: x + 1, jnp.arange(N))


def test_donating_one_leaves_the_other() -> None:
    x = jnp.arange(N)
    y = calque.jit(lambda x: (x + 5) - 5)(x)
    calque.jit(lambda y: y.at[0].set(77), donate_argnums=0)(y).block_until_ready()
    assert int(x[0]) == 0 and int(x[1]) == 1
    y = calque.jit(lambda x: (x ^ 5) ^ 5)(x)
    calque.jit(lambda x: x.at[0].set(78), donate_argnums=0)(x).block_until_ready()
    assert int(y[0]) == 0


def test_updates_that_read_what_they_write() -> None:
    """scatter of values that fold to a view of the operand."""
    x = jnp.arange(N)
    got = calque.jit(lambda x: x.at[jnp.arange(N)[::-1]].set((x + 5) - 5))(x)
    np.testing.assert_array_equal(np.asarray(got), np.arange(N)[::-1])


def test_arithmetic_on_constants_alone() -> None:
    """It has no operand whose memory it could be."""
    def f(x: Any) -> Any:
        two = lax.mul(lax.add(np.float32(1), np.float32(0)), np.float32(2))
        return x + two, lax.sub(lax.add(lax.full((3,), 5), 5), 5)

    x = jnp.ones(3)
    got, five = calque.jit(f)(x)
    assert got.tolist() == [3.0, 3.0, 3.0] and five.tolist() == [5, 5, 5]


def loop(x: Any, k: int = 300) -> Any:
    return lax.fori_loop(0, k, lambda i, c: c * 0.5 + 1, x)


def other(x: Any, k: int = 300) -> Any:
    return lax.fori_loop(0, k, lambda i, c: 1 + c * 0.5, x)


# loops that do the same in other words, which IREE may make one, and what writes into their results
EQUAL: dict[str, Callable[[Any], Any]] = {
    "first": lambda x: (loop(x).at[0].set(-5.0), other(x)),
    "second": lambda x: (other(x), loop(x).at[0].set(-5.0)),
    "both": lambda x: (loop(x).at[0].set(-5.0), other(x).at[1].set(-7.0)),
    "at a position": lambda x: (lax.dynamic_update_slice(
        loop(x), jnp.full(2, 9.0), (jnp.int32(x[0]),)), other(x), other(x).sum()),
    "of no steps": lambda x: (x, loop(x, 0).at[0].set(1.0), other(x, 0)),
    "one after the other": lambda x: (other(loop(x)).at[0].set(1.0), loop(other(x))),
}


@pytest.mark.parametrize("name", EQUAL)
@pytest.mark.parametrize("n", [8, pytest.param(5000, marks=pytest.mark.slow)])
def test_equal_loops(name: str, n: int) -> None:
    f, x = EQUAL[name], np.arange(n, dtype=np.float32) % 7 / 10
    with calque.disable_jit():
        want = [np.asarray(v) for v in calque.tree.leaves(f(jnp.asarray(x)))]
    give = calque.jit(lambda y: y * 0 - 7, donate_argnums=0)
    for which in range(len(want)):
        results = calque.tree.leaves(calque.jit(f)(jnp.asarray(x)))
        give(results[which]).block_until_ready()
        for i, (got, w) in enumerate(zip(results, want, strict=True)):
            if i != which:  # the same roundings, but for fused multiply-adds
                np.testing.assert_allclose(got, w, rtol=1e-6)
