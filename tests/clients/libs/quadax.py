"""Quadrature: adaptive, Romberg, tanh-sinh, and the gradient of an integral."""
import jax
import jax.numpy as jnp
import quadax


def rules():
    f = lambda x: jnp.exp(-x ** 2)  # noqa: E731
    ends = jnp.array([0.0, 1.0])
    return [rule(f, ends)[0] for rule in (quadax.quadgk, quadax.quadcc, quadax.quadts,
                                          quadax.romberg, quadax.rombergts)]


def infinite():
    return quadax.quadgk(lambda x: jnp.exp(-x ** 2), jnp.array([-jnp.inf, jnp.inf]))[0]


def sampled():
    x = jnp.linspace(0, 1, 101)
    return quadax.simpson(x ** 2, x=x), quadax.trapezoid(x ** 2, x=x)


_slope = jax.jit(jax.grad(lambda a: quadax.quadgk(lambda x: jnp.cos(a * x),
                                                  jnp.array([0.0, 1.0]))[0]))


def step():
    return _slope(2.0)
