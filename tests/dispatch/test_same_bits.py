"""Recorded Programs, compiled as a whole, keep the bits of their steps (dispatch/same_bits)."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import calque
import calque.numpy as jnp
from calque import lax
from calque.core.evaluate import replay
from calque.dispatch.replay import planned
from calque.dispatch.same_bits import exact

X = np.linspace(0.1, 2, 8, dtype=np.float32)
KEY = calque.random.key(1)
EXACT: dict[str, Callable[[Any, Any], Any]] = {
    "a sum of a sum": lambda x, y: x + y - x, "twice, and a sum": lambda x, y: x * 2.0 + y,
    "a product of a sum": lambda x, y: (x + y) * x, "a choice": lambda x, y: lax.max(x, y) + x,
    "a function of a sum": lambda x, y: lax.exp(x + y), "integers": lambda x, y: (
        lax.convert_element_type(x * y, np.int32) * 3 + 1),
    "a quotient": lambda x, y: x / y + x, "the greatest": lambda x, y: jnp.max(x) + y}
ROUNDED: dict[str, Callable[[Any, Any], Any]] = {
    "a product and a sum": lambda x, y: x * y + x, "by 3": lambda x, y: x * 3.0 + y,
    "less a product": lambda x, y: y - x * y, "the other sign": lambda x, y: lax.neg(x * y) + x,
    "in another shape": lambda x, y: (x * y).reshape(2, 4) + 1,
    "of a square": lambda x, y: lax.square(x) + y, "a choice": lambda x, y: lax.max(x * y, y) + x,
    "a function's end": lambda x, y: lax.sin(x) + y, "its start": lambda x, y: lax.log1p(x * y),
    "two products": lambda x, y: x * y + y * y, "one product, twice": lambda x, y: (
        (x * y + 1) * (x * y + 2)), "a polynomial": lambda x, y: ((x * y + x) * y + y) * y + 1,
    "a result as well": lambda x, y: (x * y, x * y + y),
    "the same type": lambda x, y: lax.convert_element_type_p.bind(
        x * y, new_dtype=np.dtype(np.float32), weak_type=True, sharding=None) + x}
SUMS: dict[str, Callable[[Any, Any], Any]] = {
    "a total": lambda x, y: jnp.sum(x), "a product of matrices": lambda x, y: x @ y,
    "a running sum": lambda x, y: jnp.cumsum(x),
    "a loop": lambda x, y: lax.fori_loop(0, 3, lambda i, v: v * y + x, x)}


def _barriers(f: Callable[[Any, Any], Any]) -> int:
    made = exact(calque.make_jaxpr(f)(X, X + 1).jaxpr)
    assert made is not None
    return sum(e.name == "optimization_barrier" for e in made.equations)


@pytest.mark.parametrize("name", EXACT)
def test_exact(name: str) -> None:
    assert _barriers(EXACT[name]) == 0


@pytest.mark.parametrize("name", ROUNDED)
def test_products_are_rounded_before_they_are_added(name: str) -> None:
    assert 1 <= _barriers(ROUNDED[name]) <= 3


@pytest.mark.parametrize("name", SUMS)
def test_sums_are_not_exact(name: str) -> None:
    assert exact(calque.make_jaxpr(SUMS[name])(X, X + 1).jaxpr) is None


@pytest.mark.parametrize("name", [*EXACT, *ROUNDED])
def test_what_is_exact_has_the_bits_of_its_steps(name: str) -> None:
    f = {**EXACT, **ROUNDED}[name]
    program = exact(calque.make_jaxpr(f)(X, X + 1).jaxpr)
    assert program is not None
    whole = calque.jit(lambda x, y: replay(program, x, y))(X, X + 1)
    with calque.disable_jit(True):
        steps = calque.tree.leaves(f(jnp.asarray(X), jnp.asarray(X + 1)))
    for a, b in zip(whole, steps, strict=True):
        assert np.asarray(a).tobytes() == np.asarray(b).tobytes()


AGAIN: dict[str, Callable[[Any], Any]] = {
    "percentile": lambda x: jnp.percentile(x, 30.0), "interp": lambda x: jnp.interp(x, x, x[::-1]),
    "polyval": lambda x: jnp.polyval(x, x), "categorical": lambda x: calque.random.categorical(
        KEY, x, shape=(5, 8)), "gumbel": lambda x: calque.random.gumbel(KEY, (8,)),
    "linspace": lambda x: jnp.linspace(0.1, 0.7, 9), "median": jnp.median}


@pytest.mark.parametrize("name", AGAIN)
def test_calls_that_come_again_keep_their_bits(name: str) -> None:
    x = jnp.asarray(np.random.default_rng(3).uniform(0.1, 2, 8).astype(np.float32))
    made = [np.asarray(AGAIN[name](x)).tobytes() for _ in range(20)]
    assert len(set(made)) == 1


def test_known_numbers_are_computed_once_and_belong_to_nobody() -> None:
    line = np.linspace(0, 1, 7, dtype=np.float32)
    for _ in range(3):
        x = jnp.linspace(0, 1, 7)
        np.testing.assert_array_equal(x, line)
        np.testing.assert_array_equal(calque.jit(lambda x: x + 1, donate_argnums=0)(x), line + 1)
        jnp.linspace(0, 1, 7).delete()


def test_more_numbers_than_a_dispatch_has_bindings() -> None:
    """They are arguments of what is recorded; an executable for any shape takes 32 arrays."""
    @planned
    def f(x: Any) -> Any:
        for i in range(50):
            x = x * (1.01 + i) / (1.02 + i) + 0.37 * i
        return x

    for x in (X, np.linspace(0, 1, 100_000, dtype=np.float32)):
        made = [np.asarray(f(jnp.asarray(x))) for _ in range(3)]
        assert all(m.tobytes() == made[0].tobytes() for m in made)
        want = x.astype(np.float64)
        for i in range(50):
            want = want * (1.01 + i) / (1.02 + i) + 0.37 * i
        np.testing.assert_allclose(made[0], want, rtol=1e-5)
    np.testing.assert_allclose(
        calque.scipy.stats.betabinom.logpmf(jnp.array([0.0, 1.0]), 3.0, 2.0, 1.0),
        np.log([0.1, 0.2]), rtol=1e-5)
