"""Derivatives of vmapped cond and switch: a branch that a row does not take has no part in them,
however steep it is there; in every nesting, against the derivative of a loop over the rows.
"""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from support.harness import numpys

import calque
import calque.numpy as jnp
from calque import lax

X = np.array([0.0, 4.0, 0.0, 1.0], np.float32)
I = np.array([0, 1, 2, -7], np.int32)  # clamped, too
W = np.array([0.0, 2.0], np.float32)


def steep(x: Any) -> Any:
    return jnp.sqrt(x)


BRANCHES = [lambda x: 3 * x, steep, lambda x: 2 * x * x]
POISON: dict[str, Callable[..., Any]] = {  # of a row's index, its value, and what all rows share
    "switch": lambda i, x, w: lax.switch(i, BRANCHES, x),
    "cond": lambda i, x, w: lax.cond(i == 1, steep, lambda x: 3 * x, x),
    "shared": lambda i, x, w: lax.switch(
        i, [lambda x, w: x * w.sum(), lambda x, w: x + w[1], lambda x, w: jnp.sqrt(w).sum() * x],
        x, w),
    "closed over": lambda i, x, w: lax.cond(i == 1, lambda: jnp.log(x) * w[1], lambda: x + w[1]),
    "nested": lambda i, x, w: lax.cond(
        i == 1, lambda x: x, lambda x: lax.cond(x > 0.5, lambda x: jnp.sqrt(x - 0.5),
                                                lambda x: x * x, x), x),
    "in scan": lambda i, x, w: lax.scan(
        lambda c, _: (lax.cond(i == 1, steep, lambda c: c * 2, c), None), x, None, length=2)[0],
    "scan in it": lambda i, x, w: lax.cond(i == 1, lambda x: lax.scan(
        lambda c, _: (jnp.sqrt(c), None), x, None, length=2)[0], lambda x: 3 * x, x),
    "jit in it": lambda i, x, w: lax.cond(i == 1, calque.jit(steep), lambda x: 3 * x, x),
    "checkpoint": lambda i, x, w: calque.checkpoint(
        lambda x: lax.cond(i == 1, steep, lambda x: 3 * x, x))(x),
    "pytree": lambda i, x, w: sum(lax.cond(
        i == 1, lambda t: (jnp.sqrt(t["a"]), t["n"]), lambda t: (t["a"], t["n"] + 1),
        {"a": x, "n": i}))}


def rows(f: Callable[..., Any], x: Any, w: Any) -> Any:
    return calque.vmap(f, (0, 0, None))(I, x, w)


def loop(f: Callable[..., Any], x: Any, w: Any) -> Any:
    return jnp.stack([f(jnp.int32(i), v, w) for i, v in zip(I, x)])


WAYS: dict[str, Callable[..., Any]] = {
    "grad": lambda g: calque.grad(lambda x, w: g(x, w).sum(), (0, 1)),
    "jit of grad": lambda g: calque.jit(calque.grad(lambda x, w: g(x, w).sum(), (0, 1))),
    "grad of jit": lambda g: calque.grad(calque.jit(lambda x, w: g(x, w).sum()), (0, 1)),
    "jacrev": lambda g: calque.jacrev(g), "jacfwd": lambda g: calque.jacfwd(g, (0, 1)),
    "jvp": lambda g: lambda x, w: calque.jvp(g, (x, w), (jnp.ones(4), jnp.ones(2))),
    "linearize": lambda g: lambda x, w: calque.linearize(g, x, w)[1](jnp.ones(4), jnp.ones(2))}


def _compare(name: str, way: str, run: Callable[..., Any]) -> None:
    f = POISON[name]
    got = calque.tree.leaves(run(WAYS[way](lambda x, w: rows(f, x, w)))(X, W))
    want = calque.tree.leaves(numpys(WAYS[way](lambda x, w: loop(f, x, w)))(X, W))
    for a, b in zip(got, want, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-6, err_msg=name)
    if name != "shared":  # (of which one row takes the steep branch: its derivative is infinite)
        assert all(np.isfinite(a).all() for a in got)


@pytest.mark.parametrize("name", POISON)
def test_rows_have_the_derivatives_of_a_loop(name: str) -> None:
    for way in WAYS:
        _compare(name, way, numpys)


@pytest.mark.parametrize("way", ["grad", pytest.param("jvp", marks=pytest.mark.slow),
                                 pytest.param("linearize", marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", ["cond", *[pytest.param(n, marks=pytest.mark.slow)
                                            for n in POISON if n != "cond"]])
def test_and_outside_jit(name: str, way: str) -> None:
    _compare(name, way, lambda f: f)


@pytest.mark.parametrize("outer", [numpys, pytest.param(lambda f: f, marks=pytest.mark.slow),
                                   pytest.param(calque.jit, marks=pytest.mark.slow)])
def test_nestings_of_vmap_and_derivatives(outer: Any) -> None:
    norm = lambda v: jnp.sqrt((v * v).sum())  # noqa: E731
    many = lambda v: calque.vmap(lambda i, v: lax.switch(  # noqa: E731
        i, [lambda v: v.sum(), norm], v))(jnp.array([0, 0]), jnp.stack([v, v])).sum()
    np.testing.assert_array_equal(outer(calque.vmap(calque.grad(many)))(jnp.zeros((2, 2))),
                                  [[2, 2], [2, 2]])
    two = lambda x: calque.vmap(lambda r: calque.vmap(  # noqa: E731
        lambda i, v: POISON["cond"](i, v, None))(I, r))(jnp.stack([x, x])).sum()
    np.testing.assert_array_equal(outer(calque.grad(two))(X), [6, 0.5, 6, 6])
    second = lambda x: calque.hessian(  # noqa: E731
        lambda x: rows(POISON["switch"], x, W).sum())(x)
    np.testing.assert_allclose(np.diag(outer(second)(X)), [0, -1 / 32, 4, 0], rtol=1e-6)


def test_piecewise_and_named_axes() -> None:
    f = lambda x: jnp.piecewise(x, [x > 0.5], [jnp.sqrt, lambda x: 3 * x]).sum()  # noqa: E731
    np.testing.assert_array_equal(numpys(calque.grad(f))(X), [3, 0.25, 3, 0.5])
    g = lambda x: calque.vmap(lambda i, x: lax.cond(  # noqa: E731
        i == 1, lambda x: jnp.sqrt(x) + lax.psum(x, "n"), lambda x: 3 * x, x),
        axis_name="n")(I, x).sum()
    np.testing.assert_array_equal(numpys(calque.grad(g))(X + 4), [
        4, 1 + 0.5 / np.float32(8) ** 0.5, 4, 4])  # all rows are in the sum of one


def test_nothing_is_added_where_nothing_is_differentiated() -> None:
    text = str(calque.make_jaxpr(lambda x: rows(POISON["switch"], x, W))(X))
    assert text.count("select_n") == 1, text
