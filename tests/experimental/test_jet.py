"""jet: the oracles are nested jvp along the curve, and Taylor's series that are known."""
from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from support.harness import both_ways, numpys

import calque
import calque.numpy as jnp
from calque import lax
from calque.core.primitive import registry
from calque.experimental.jet import fact, jet, zero_series
from calque.experimental.series import CALLS, LINEAR, RULES
from calque.scipy import special

ORDER = 4


def nested(f: Callable[..., Any], curves: list[list[Any]]) -> list[Any]:
    """The derivatives of f along curves, given as derivatives, by jvp of jvp of ..."""
    def along(t: Any) -> Any:
        return f(*[c[0] + t * _horner(c[1:], t, 1) for c in curves])

    found = []
    for _ in range(ORDER):
        along = (lambda g: lambda t: calque.jvp(g, (t,), (np.float64(1),))[1])(along)
        found.append(along)
    return list(numpys(lambda t: [g(t) for g in found])(np.float64(0)))


def _horner(terms: list[Any], t: Any, k: int) -> Any:
    scaled = terms[0] / math.factorial(k)
    return scaled if len(terms) == 1 else scaled + t * _horner(terms[1:], t, k + 1)


def draw(*shape: int, low: float = 0.3, high: float = 0.9, seed: int = 0) -> list[Any]:
    """A curve of positive values: ORDER + 1 derivatives."""
    rng = np.random.default_rng(seed)
    return [rng.uniform(low, high, shape), *[rng.normal(size=shape) for _ in range(ORDER)]]


def a_scan(x: Any) -> Any:
    carry, stacked = lax.scan(lambda c, row: ((jnp.sin(c[0]) * row, c[1] + 1), c[0]), (x[0], 0), x)
    return carry[0] + stacked


# groups of functions that share a compile: all of one (n,) argument
GROUPS: dict[str, list[Callable[[Any], Any]]] = {
    "functions": [jnp.exp, jnp.log, jnp.sin, jnp.tanh, jnp.sqrt, jnp.arctan, special.erf,
                  calque.nn.sigmoid, jnp.log1p, jnp.expm1, lambda x: 2 / x, jnp.abs],
    "powers": [lambda x: x ** 3, lambda x: x ** 2.5, lambda x: x ** -2, lambda x: x ** x,
               lambda x: jnp.arctan2(x, x * x), lambda x: x / jnp.cos(x), lax.rsqrt],
    "arrays": [lambda x: x[::-1] * x, lambda x: jnp.outer(x, x) @ x, jnp.cumsum, jnp.cumprod,
               lambda x: jnp.max(x) * x, jnp.sort, lambda x: x.at[1].set(x[0] * x[1]),
               lambda x: jnp.where(x > 0.6, x * x, x), lambda x: jnp.concatenate([x, x * x]),
               lambda x: jnp.convolve(x, x), lambda x: jnp.fft.fft(x * x).real,
               lambda x: jnp.linalg.norm(x), lambda x: jnp.clip(x, 0.4, 0.6) * x],
    "control": [a_scan, lambda x: lax.fori_loop(0, 3, lambda i, c: c * x + i, x),
                lambda x: lax.while_loop(lambda c: jnp.all(c < 3), lambda c: c + c * x, x),
                lambda x: lax.cond(x[0] > 0, lambda v: jnp.sin(v) * v, jnp.cos, x),
                lambda x: calque.jit(lambda v: v * v)(x), calque.nn.softplus,
                lambda x: calque.checkpoint(lambda v: jnp.sin(v) * v)(x),
                lambda x: calque.vmap(lambda v: v * x[0])(x),
                lambda x: calque.grad(lambda v: jnp.sum(v ** 3))(x)]}


@both_ways
@pytest.mark.parametrize("group", GROUPS)
def test_terms_are_nested_derivatives(group: str, jit: Callable[..., Any]) -> None:
    with calque.enable_x64(True):
        curve = draw(3)
        both = lambda x: [f(x) for f in GROUPS[group]]  # noqa: E731
        value, terms = jit(lambda x, s: jet(both, (x,), (s,)))(curve[0], curve[1:])
        for given, direct in zip(value, numpys(both)(curve[0])):
            np.testing.assert_allclose(given, direct, rtol=1e-12)
        for k, wanted in enumerate(nested(both, [curve])):
            for i, w in enumerate(wanted):
                np.testing.assert_allclose(terms[i][k], w, rtol=1e-9, atol=1e-9,
                                           err_msg=f"{group} {i}, order {k + 1}")


def test_two_arguments_and_constants() -> None:
    with calque.enable_x64(True):
        x, y, m = draw(2), draw(2, seed=1), draw(2, 2, seed=2)
        f = lambda x, y, m: (x * y, x / y, x ** y, m @ x, jnp.vdot(x, y))  # noqa: E731
        _, terms = jet(f, (x[0], y[0], m[0]), (x[1:], y[1:], m[1:]))
        for k, wanted in enumerate(nested(f, [x, y, m])):
            for i, w in enumerate(wanted):
                np.testing.assert_allclose(terms[i][k], w, rtol=1e-9, err_msg=f"{i}, {k + 1}")
        _, (first, *rest) = jet(lambda x, y: x * y, (x[0], y[0]), (x[1:], zero_series))
        np.testing.assert_allclose([first, *rest], [d * y[0] for d in x[1:]])


def test_known_series_of_high_order() -> None:
    """exp along t: all derivatives are e; 1/(1-t): k!; the tangent numbers."""
    order = 9
    along = ([1.0] + [0.0] * (order - 1),)
    with calque.enable_x64(True):
        np.testing.assert_allclose(jet(jnp.exp, (1.0,), along)[1], [math.e] * order, rtol=1e-12)
        np.testing.assert_allclose(jet(lambda t: 1 / (1 - t), (0.0,), along)[1],
                                   [fact(k) for k in range(1, order + 1)], rtol=1e-12)
        np.testing.assert_allclose(jet(jnp.tan, (0.0,), along)[1],
                                   [1, 0, 2, 0, 16, 0, 272, 0, 7936], atol=1e-9)
        _, plain = jet(jnp.exp, (0.0,), along, factorial_scaled=False)
        np.testing.assert_allclose(plain, [1 / fact(k) for k in range(1, order + 1)], rtol=1e-12)


def test_what_has_no_derivative_has_zeros() -> None:
    value, terms = jet(lambda x, n: (x.astype(int), jnp.floor(x), 3.0, n * 2, x * n),
                       (1.5, 2), ([1.0, 2.0], [5.0, 6.0]))
    assert [float(v) for v in value] == [1, 1, 3, 4, 3]
    assert [[float(t) for t in row] for row in terms] == [[0, 0]] * 4 + [[2, 4]]


def test_errors() -> None:
    with pytest.raises(ValueError, match="jet terms have inconsistent lengths"):
        jet(lambda x, y: x, (1.0, 2.0), ([1.0], [1.0, 2.0]))
    with pytest.raises(ValueError, match="primal value at position 0 is not an array"):
        jet(lambda x: x["a"], ({"a": 1.0},), ([{"a": 1.0}],))


def test_rules_are_of_primitives() -> None:
    assert (set(LINEAR) | set(RULES) | CALLS) <= set(registry)
