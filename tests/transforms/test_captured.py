"""Rules that capture concrete arrays, under every transformation of every call and loop.

f(x) = D x, whose rules say that its derivative is C: a composition with the value P(D) x has the
derivative P(C).  Programs are interpreted by NumPy; a few are compiled.
"""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from support import oracle

import calque
import calque.numpy as jnp
from calque import lax

C, D = jnp.array([1., 2., 3.]), jnp.array([3., 5., 7.])
X, V = np.array([1., 2., .5], np.float32), np.array([.5, -1., 2.], np.float32)
ONES = np.ones(2, np.float32)


def by_jvp(c: Any) -> Any:
    f = calque.custom_jvp(lambda x: x * D)
    f.defjvp(lambda primals, tangents: (f(*primals), tangents[0] * c))
    return f


def by_vjp(c: Any) -> Any:
    f = calque.custom_vjp(lambda x: x * D)
    f.defvjp(lambda x: (f(x), c), lambda kept, g: (g * kept * c / c,))
    return f


def repeated(f: Any, n: int) -> Callable[[Any], Any]:
    return lambda x: lax.scan(lambda a, _: (f(a), None), x, None, length=n)[0]


Poly = Callable[[Any], Any]
CALLS: dict[str, tuple[Callable[[Any], Callable[[Any], Any]], Poly]] = {
    "jit": (lambda f: calque.jit(calque.jit(f)), lambda d: d),
    "scan": (lambda f: lambda x: lax.scan(lambda a, t: (f(a) * t, a), x, 2 * ONES)[0],
             lambda d: 4 * d ** 2),
    "stacked": (lambda f: lambda x: lax.scan(lambda a, t: (2 * a * t, f(a)), x, ONES)[1].sum(0),
                lambda d: 3 * d),
    "cond": (lambda f: lambda x: lax.cond(x[0] > 0, f, lambda x: x, x), lambda d: d),
    "switch": (lambda f: lambda x: lax.switch(lax.convert_element_type(x[0] > 0, np.int32),
                                              [lambda x: x, lambda x: f(f(x)), f], x),
               lambda d: d ** 2),
    "while": (lambda f: lambda x: lax.while_loop(lambda s: s[0] < 3, lambda s: (
        s[0] + 1, f(s[1])), (0, x))[1], lambda d: d ** 3),
    "fori": (lambda f: lambda x: lax.fori_loop(0, 3, lambda i, a: f(a), x), lambda d: d ** 3),
    "checkpoint": (lambda f: calque.checkpoint(lambda x: f(x) + f(f(x))), lambda d: d + d ** 2),
    "scan of scan": (lambda f: repeated(repeated(f, 2), 2), lambda d: d ** 4),
    "scan of checkpoint": (lambda f: repeated(calque.checkpoint(f), 2), lambda d: d ** 2),
    "scan of cond": (lambda f: lambda x: lax.scan(lambda a, t: (
        lax.cond(t > 0, f, lambda v: 2 * v, a), t), x, np.float32([1, -1]))[0], lambda d: 2 * d),
    "map": (lambda f: lambda x: lax.map(lambda i: f(x)[i], np.arange(3)), lambda d: d)}


def value(fun: Callable[..., Any], *args: Any) -> Any:
    (out,) = oracle.interpret(calque.make_jaxpr(fun)(*args), args)
    return out


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("make", [by_jvp, by_vjp])
@pytest.mark.parametrize("captured", [C, np.asarray(C)], ids=["Array", "ndarray"])
def test_rules_that_capture_arrays(name: str, make: Any, captured: Any) -> None:
    call, poly = CALLS[name]
    g = call(make(captured))
    c, d = (poly(np.asarray(a)) for a in (C, D))
    two = np.stack([X, 2 * X])

    def near(got: Any, want: Any) -> None:
        np.testing.assert_allclose(got, want, rtol=1e-5)

    if make is by_jvp:
        near(value(lambda x, v: calque.jvp(g, (x,), (v,))[1], X, V), c * V)
        near(value(lambda x, v: calque.vmap(lambda x: calque.jvp(g, (x,), (v,))[1])(x), two, V),
             np.stack([c * V] * 2))
        near(value(lambda x, v: calque.linearize(g, x)[1](v), X, V), c * V)
    if name == "while":
        return
    half = calque.grad(lambda x: (g(x) ** 2).sum() / 2)
    near(value(half, X), d * X * c)
    near(value(calque.grad(lambda x: half(x).sum()), X), c * c)
    near(value(calque.vmap(half), two), d * two * c)
    near(value(calque.grad(lambda x: (calque.vmap(g)(x) ** 2).sum() / 2), two), d * two * c)


def test_captured_arrays_are_arguments_of_what_is_compiled() -> None:
    f = by_jvp(C)
    g = calque.jit(calque.value_and_grad(lambda x: lax.fori_loop(0, 3, lambda i, a: f(a), x).sum()))
    assert len(g.trace(X).jaxpr.consts) == 2  # C and D: nothing is written into the program
    for _ in range(2):
        out, grad = g(X)
        np.testing.assert_allclose(out, (np.asarray(D) ** 3 * X).sum(), rtol=1e-6)
        np.testing.assert_allclose(grad, np.asarray(C) ** 3, rtol=1e-6)


def test_a_rule_may_capture_what_is_traced_outside() -> None:
    @calque.jit
    def outer(c: Any, x: Any) -> Any:
        f = by_jvp(c)
        return calque.jvp(lambda x: lax.fori_loop(0, 2, lambda i, a: f(a), x), (x,), (x,))[1]

    for k in (1.0, 2.0):
        np.testing.assert_allclose(outer(k * C, X), X * (k * np.asarray(C)) ** 2, rtol=1e-6)
