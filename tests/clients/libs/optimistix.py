"""Roots, least squares, minima and fixed points, and gradients through them."""
import jax
import jax.numpy as jnp
import optimistix as optx


def minima():
    f = lambda x, a: ((x - a) ** 2).sum() + (x ** 4).sum()  # noqa: E731
    return [optx.minimise(f, s, jnp.zeros(3), jnp.arange(3.0)).value for s in (
        optx.BFGS(1e-5, 1e-5), optx.NonlinearCG(1e-5, 1e-5))]


def fixed_point():
    return optx.fixed_point(lambda x, a: jnp.cos(x) * a, optx.FixedPointIteration(1e-6, 1e-6),
                            jnp.array(0.5), 0.9).value


_T = jnp.linspace(0, 1, 50)


@jax.jit
def _fit(y):
    found = optx.least_squares(lambda p, y: p[0] * jnp.exp(-p[1] * _T) - y,
                               optx.LevenbergMarquardt(1e-6, 1e-6), jnp.ones(2), y)
    return found.value


@jax.jit
def _slope(a):
    return jax.grad(lambda a: optx.root_find(
        lambda x, a: x ** 3 - a, optx.Newton(1e-6, 1e-6), jnp.array(1.5), a).value)(a)


def root():
    return _slope(2.0)


def step():
    return _fit(2 * jnp.exp(-3 * _T))
