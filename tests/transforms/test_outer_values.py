"""Functions with rules of their own that close over values of an outer vmap, in functions and
rules: the results are those of a loop over the rows, in which nothing is traced."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import calque
import calque.numpy as jnp

Z, Y = np.arange(1., 4., dtype=np.float32), np.float32(1.5)


def by_jvp(z: Any, y: Any) -> Any:
    @calque.custom_jvp
    def g(y: Any) -> Any:
        return z * jnp.sin(y)
    g.defjvp(lambda p, t: (z * jnp.sin(p[0]), 10 * z * p[0] * t[0]))
    return g(y)


def by_vjp(z: Any, y: Any) -> Any:
    @calque.custom_vjp
    def g(y: Any) -> Any:
        return z * jnp.sin(y)
    g.defvjp(lambda y: (z * jnp.sin(y), y), lambda y, c: (10 * z * y * c,))
    return g(y)


def within(rule: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """A function with a rule, in the closure of another one, with jit between."""
    def f(z: Any, y: Any) -> Any:
        @calque.custom_jvp
        def g(v: Any) -> Any:
            return calque.jit(lambda w: rule(z, w) + z * v)(v)
        g.defjvp(lambda p, t: (g(*p), calque.jvp(lambda v: rule(z, v) + z * v, p, t)[1]))
        return g(y)
    return f


def looped(f: Callable[[Any], Any]) -> Any:
    return np.stack([f(z) for z in Z])


FUNCTIONS = {"jvp": by_jvp, "vjp": by_vjp, "jvp in jvp": within(by_jvp)}


@pytest.mark.parametrize("f", FUNCTIONS.values(), ids=FUNCTIONS)
def test_values_of_a_vmap_in_closures(f: Callable[[Any, Any], Any]) -> None:
    rows = calque.vmap(lambda z: f(z, Y))
    want = looped(lambda z: f(z, Y))
    for got in (rows(Z), calque.jit(rows)(Z), calque.vmap(lambda z: f(z, z))(Z) * 0 + rows(Z)):
        np.testing.assert_allclose(got, want, rtol=1e-6)
    slopes = calque.vmap(calque.grad(lambda y, z: f(z, y)), (None, 0))(Y, Z)
    np.testing.assert_allclose(slopes, looped(lambda z: calque.grad(lambda y: f(z, y))(Y)),
                               rtol=1e-6)
    two = calque.vmap(lambda a: calque.vmap(lambda z: f(a * z, Y))(Z))(np.float32([1, 2]))
    np.testing.assert_allclose(two, np.stack([want, looped(lambda z: f(2 * z, Y))]), rtol=1e-6)


@pytest.mark.parametrize("f", [by_jvp, within(by_jvp)], ids=["jvp", "jvp in jvp"])
def test_a_vmap_within_a_derivative(f: Callable[[Any, Any], Any]) -> None:
    def total(y: Any) -> Any:
        return calque.vmap(lambda z: f(z, y) ** 2)(Z).sum()

    def row_by_row(y: Any) -> Any:
        return sum(f(z, y) ** 2 for z in Z)
    want = calque.jvp(row_by_row, (Y,), (np.float32(1),))
    np.testing.assert_allclose(calque.jvp(total, (Y,), (np.float32(1),)), want, rtol=1e-5)
    np.testing.assert_allclose(calque.grad(total)(Y), want[1], rtol=1e-5)
    np.testing.assert_allclose(calque.jit(calque.grad(total))(Y), want[1], rtol=1e-5)
    np.testing.assert_allclose(calque.grad(calque.grad(total))(Y),
                               calque.grad(calque.grad(row_by_row))(Y), rtol=1e-5)


def test_results_that_do_not_depend_on_a_row_stay_unmapped() -> None:
    f = calque.custom_jvp(jnp.sin)
    f.defjvp(lambda p, t: (f(*p), 2 * t[0]))
    assert calque.vmap(lambda z: f(Y), out_axes=None, axis_size=3, in_axes=0)(Z).shape == ()
    assert calque.vmap(lambda z: calque.grad(f)(1.), out_axes=None)(Z) == 2


def test_a_key_of_each_row() -> None:
    def draw(key: Any) -> Any:
        @calque.custom_jvp
        def f(a: Any) -> Any:
            return a * calque.random.uniform(key)
        f.defjvp(lambda p, t: (f(*p), 3 * t[0]))
        return f(2.)
    keys = calque.random.split(calque.random.key(0), 3)
    np.testing.assert_allclose(calque.vmap(draw)(keys), [draw(k) for k in keys], rtol=1e-6)


def test_custom_vmap_closes_over_differentiated_and_mapped_values() -> None:
    def f(z: Any, y: Any) -> Any:
        g = calque.custom_batching.custom_vmap(lambda y: z * y)
        g.def_vmap(lambda size, batched, y: (z * y + 100, batched[0]))
        return g(y)
    assert calque.jvp(lambda z: f(z, 2.), (3.,), (1.,)) == (6, 2)
    assert calque.grad(lambda z: f(z, 2.))(3.) == 2
    np.testing.assert_array_equal(calque.vmap(lambda z: f(z, 2.))(Z), 2 * Z)


def test_derivatives_of_custom_vmap_are_of_its_rule() -> None:
    f = calque.custom_batching.custom_vmap(jnp.sin)
    seen: list[Any] = []

    @f.def_vmap
    def rule(size: int, batched: Any, xs: Any) -> Any:
        seen.append(batched)
        return jnp.cos(xs), batched[0]
    ones = np.ones_like(Z)
    got = calque.vmap(lambda x, t: calque.jvp(f, [x], [t]))(Z, ones)
    np.testing.assert_allclose(got, [np.cos(Z), -np.sin(Z)], rtol=1e-5)
    seen.clear()
    np.testing.assert_allclose(calque.jacfwd(f)(Z), np.diag(-np.sin(Z)), rtol=1e-5, atol=1e-7)
    assert seen == [[False]]  # tangents are batched, the primal is not


def test_rules_are_set_through_what_holds_the_function() -> None:
    f = calque.custom_vjp(calque.custom_batching.custom_vmap(jnp.sin))
    f.defvjp(lambda x: (f(x), None), lambda _, c: (7 * c,))
    f.def_vmap(lambda size, batched, xs: (jnp.cos(xs), True))
    np.testing.assert_allclose(calque.vmap(f)(Z), np.cos(Z), rtol=1e-6)
    assert calque.grad(f)(1.) == 7
    with pytest.raises(AttributeError, match="'custom_vjp' object has no attribute 'def_else'"):
        print(f.def_else)


def test_solvers_of_a_root_close_over_differentiated_values() -> None:
    b = np.float32([1, 2])

    def solved(a: Any) -> Any:
        lower = jnp.linalg.inv(a)  # (as a factorisation would be)
        return calque.lax.custom_root(
            lambda x: a @ x - b, b, lambda f, x: lower @ b,
            lambda g, y: calque.lax.custom_linear_solve(g, y, lambda f, v: lower @ v,
                                                        symmetric=True))
    a, da = np.float32([[3, 1], [1, 2]]), np.ones((2, 2), np.float32)
    inverse = np.linalg.inv(a.astype(np.float64))
    first = -inverse @ da @ inverse @ b
    np.testing.assert_allclose(calque.jvp(solved, (a,), (da,))[1], first, rtol=1e-4)
    second = calque.jvp(lambda a: calque.jvp(solved, (a,), (da,))[1], (a,), (da,))[1]
    np.testing.assert_allclose(second, -2 * inverse @ da @ first, rtol=1e-4)
    np.testing.assert_allclose(calque.grad(lambda a: (solved(a) * b).sum())(a),
                               -np.outer(inverse.T @ b, inverse @ b), rtol=1e-4)


def test_solvers_of_a_root_give_its_structure() -> None:
    for solve, tangent in ((lambda f, x: (x, x), lambda g, y: y),
                           (lambda f, x: x, lambda g, y: (y, y))):
        with pytest.raises(TypeError, match="solve.. output pytree structure must match"):
            calque.lax.custom_root(lambda x: x, 0., solve, tangent)
