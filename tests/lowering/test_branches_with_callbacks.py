"""A branch that calls Python, at any depth, runs only when it is taken: what it calls may raise.

The calls expected are those of JAX 0.10.2, in its order.
"""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import calque
import calque.numpy as jnp
from calque import lax

CALLED: list[str] = []
X = np.arange(3, dtype=np.float32)


def says(tag: str, value: int = 0) -> Callable[[Any], Any]:
    def noted(x: Any) -> Any:
        CALLED.append(tag)
        return np.asarray(x) + np.float32(value)
    return lambda x: calque.pure_callback(noted, calque.ShapeDtypeStruct(x.shape, x.dtype), x,
                                          vmap_method="sequential")


A, B = says("a", 1), says("b", 2)


def choose(f: Any, g: Any) -> Callable[[Any], Any]:
    return lambda x: lax.cond(x[0] > 0, f, g, x)


def custom(f: Any) -> Any:
    g = calque.custom_jvp(f)
    g.defjvp(lambda primals, tangents: (g(*primals), tangents[0]))
    return g


# what is run, the calls, and what they add to x
CASES: dict[str, tuple[Callable[[Any], Any], str, int]] = {
    "cond": (choose(A, B), "b", 2),
    "one branch": (choose(A, lambda x: x), "", 0),
    "in a branch of a branch": (choose(lambda x: lax.cond(x[1] > 0, A, B, x), B), "b", 2),
    "in calls": (choose(calque.jit(custom(calque.checkpoint(A))), lambda x: x), "", 0),
    "in a scan": (choose(lambda x: lax.scan(lambda c, t: (A(c), t), x, x)[0], lambda x: x), "", 0),
    "switch": (lambda x: lax.switch(x[0].astype(int) + 1, [A, B, lambda x: x], x), "b", 2),
    "in a scan written out": (lambda x: lax.scan(lambda c, t: (
        lax.cond(t > 1, A, lambda v: v + 1, c), t), x, x)[0], "a", 3),
    "in a loop": (lambda x: lax.fori_loop(0, 400, lambda i, v: lax.cond(
        i > 397, A, lambda v: v, v), x), "aa", 2),
    "in a while": (lambda x: lax.while_loop(lambda s: s[0] < 5, lambda s: (
        s[0] + 1, lax.cond(s[0] > 3, A, B, s[1])), (0, x))[1], "bbbba", 9),
    "a loop of no steps": (lambda x: lax.while_loop(lambda s: s[0] > 5, lambda s: (
        s[0] + 1, s[1] + A(x)), (0, x))[1], "", 0),
    "mapped": (lambda x: calque.vmap(lambda t: lax.cond(x[0] > 0, A, B, t))(
        jnp.stack([x, x])), "bb", 2),
    "mapped predicate": (lambda x: calque.vmap(choose(A, B))(jnp.stack([x, x + 1])), "aabb", 2)}


# (each of these is beside another of its kind)
SLOW = ("one branch", "in a scan", "in a scan written out", "in a loop", "in calls", "mapped")


@pytest.mark.parametrize("name", [
    pytest.param(n, marks=[pytest.mark.slow] if n in SLOW else []) for n in CASES])
def test_only_the_branch_taken_calls_python(name: str) -> None:
    f, want, added = CASES[name]
    CALLED.clear()
    got = np.asarray(calque.jit(f)(X))
    assert "".join(sorted(CALLED) if name == "mapped predicate" else CALLED) == want
    np.testing.assert_array_equal(got.reshape(-1, 3)[0], X + added)


def test_what_raises_in_a_branch_not_taken_does_not() -> None:
    def boom(x: Any) -> Any:
        raise ValueError("not here")

    def checked(x: Any) -> Any:
        shape = calque.ShapeDtypeStruct(x.shape, x.dtype)
        return lax.cond(x[0] > 0, lambda x: calque.pure_callback(boom, shape, x), lambda x: x, x)

    np.testing.assert_array_equal(checked(jnp.asarray(X)), X)  # eager
    np.testing.assert_array_equal(calque.jit(checked)(X), X)
    with pytest.raises(ValueError, match="not here"):
        calque.jit(checked)(X + 1)


def test_branches_after_each_other_on_queued_arrays() -> None:
    """What one gives is read by the next: IREE's own form of a branch (stablehlo.case) gave wrong
    values here in half of the calls, or failed."""
    def choose(m: Any, p: Any, q: Any) -> Any:
        if m is np:
            return p + q if p[0] > q[1] else p
        return lax.cond(p[0] > q[1], lambda p, q: p + q, lambda p, q: p, p, q)

    def joined(m: Any, x: Any, y: Any) -> Any:
        return np.concatenate([y[1:8], x[7:]]) if m is np else x.at[:7].set(y[1:8])

    def f(m: Any, x: Any) -> Any:
        double = x + x
        less, twice = x * 3 - double, x * 3 - x
        more = less * 3 - double
        y = choose(m, more, less)
        z = choose(m, x, y)
        return less, twice, more, joined(m, x, z)
    run, rng = calque.jit(lambda x: f(jnp, x)), np.random.default_rng(0)
    for _ in range(12):
        x = rng.integers(-9, 9, 400_000).astype(np.int32)
        for got, want in zip(run(x), f(np, x)):
            np.testing.assert_array_equal(got, want)
