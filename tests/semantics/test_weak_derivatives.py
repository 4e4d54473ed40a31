"""Which derivatives are weak, as JAX 0.10.2 leaves them: of a weak scalar nearly all, of a weak
array those whose rules hold no number of their own.  Nothing is compiled."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import calque
import calque.numpy as jnp
from calque import lax, nn

# their rules multiply by a number of the result's dtype, which is strong beside an array
STRONG: dict[str, Callable[[Any], Any]] = {
    "square": jnp.square, "x**2": lambda x: x ** 2, "x**3": lambda x: x ** 3,
    "x**-1": lambda x: x ** -1, "reciprocal": jnp.reciprocal, "sqrt": jnp.sqrt,
    "rsqrt": lax.rsqrt, "cbrt": jnp.cbrt, "exp2": jnp.exp2, "tan": jnp.tan, "asin": jnp.arcsin,
    "acos": jnp.arccos, "atan": jnp.arctan, "erf": lax.erf, "erfc": lax.erfc,
    "erf_inv": lax.erf_inv, "digamma": lax.digamma}
WEAK: dict[str, Callable[[Any], Any]] = {
    "sin": jnp.sin, "cos": jnp.cos, "exp": jnp.exp, "log": jnp.log, "log1p": jnp.log1p,
    "expm1": jnp.expm1, "sinh": jnp.sinh, "cosh": jnp.cosh, "tanh": jnp.tanh, "asinh": jnp.arcsinh,
    "atanh": jnp.arctanh, "abs": jnp.abs, "logistic": lax.logistic, "lgamma": lax.lgamma,
    "relu": nn.relu, "silu": nn.silu, "softplus": nn.softplus, "log_sigmoid": nn.log_sigmoid,
    "mish": nn.mish, "logaddexp": lambda x: jnp.logaddexp(x, 0.0)}


def weak(f: Callable[..., Any], *xs: Any) -> bool:
    return bool(calque.eval_shape(f, *xs).weak_type)


def derivatives(f: Callable[[Any], Any], made: Callable[[Any], Any]) -> list[bool]:
    """Of x made from a Python float: whether the tangent of f, its cotangent and the gradient of
    its sum by the float are weak."""
    return [weak(lambda x: calque.jvp(f, (made(x),), (made(x),))[1], 0.5),
            weak(lambda x: calque.vjp(f, made(x))[1](f(made(x)))[0], 0.5)]


def row(x: Any) -> Any:
    return jnp.broadcast_to(x, (3,))


@pytest.mark.parametrize("name", [*STRONG, *WEAK])
def test_of_weak_operands(name: str) -> None:
    f = STRONG.get(name) or WEAK[name]
    assert derivatives(f, lambda x: x) == [True, True]
    assert derivatives(f, row) == [name in WEAK] * 2
    assert weak(calque.grad(f), 0.5)
    assert weak(calque.grad(lambda x: f(row(x)).sum()), 0.5) == (name in WEAK)
    assert not weak(calque.grad(f), jnp.float32(0.5))


@pytest.mark.parametrize("name", ["log2", "log10", "nan_to_num"])
def test_results_that_are_strong(name: str) -> None:
    f = getattr(jnp, name)
    assert not weak(f, 2.0) and not weak(lambda x: calque.jvp(f, (x,), (x,))[1], 2.0)


def test_powers() -> None:
    """The derivative by the base is strong; that by the exponent as a tangent only."""
    def base(x: Any) -> Any:
        return jnp.power(x, 2.5)

    def exponent(y: Any) -> Any:
        return jnp.power(2.0, y)

    assert weak(base, 2.0) and not weak(calque.grad(base), 2.0)
    assert not weak(lambda y: calque.jvp(exponent, (y,), (y,))[1], 2.0)
    assert weak(calque.grad(exponent), 2.0)
    assert not weak(lambda y: jnp.power(2, y), 3) and not weak(lambda x: jnp.ldexp(x, 3), 1.0)


def test_tangents_keep_the_type_of_their_rules() -> None:
    """A tangent of a strong result is weak where it is that of a weak operand, unchanged."""
    strong = jnp.float32(1)
    assert weak(lambda x: calque.jvp(lambda x: lax.add(x, strong), (x,), (x,))[1], 1.0)
    assert not weak(lambda x: lax.add(x, strong), 1.0)


def test_a_weak_tangent_of_a_strong_argument() -> None:
    strong = jnp.ones((2, 3))
    for t in (jnp.full((2, 3), 0.5), jnp.full((2, 3), 0.5) * 1.0):
        assert t.weak_type
        for f in (jnp.sum, jnp.negative, jnp.cumsum, jnp.abs, lambda x: x @ x.T):
            assert not calque.jvp(f, (strong,), (t,))[1].weak_type
    assert not calque.jvp(jnp.sin, (jnp.float32(0),), (2.0,))[1].weak_type
