"""Quantities with units: arithmetic, functions, gradients, sparse matrices."""
import jax
import jax.numpy as jnp
import saiunit as u

_X = jnp.arange(1.0, 101.0) * u.meter


def arithmetic():
    return ((_X / (2.0 * u.second)).to_decimal(u.kmeter / u.hour)[:5],
            u.math.sum(_X).to_decimal(u.meter))


def gradient():
    return u.autograd.grad(lambda x: (x ** 2))(3.0 * u.meter).to_decimal(u.meter)


def sparse():
    matrix = u.sparse.CSR.fromdense(jnp.array([[0, 1.0], [2, 0]]) * u.meter)
    return (matrix @ jnp.ones(2)).to_decimal(u.meter)


@jax.jit
def _energy(x):
    return 0.5 * 2.0 * u.kilogram * (x / (3.0 * u.second)) ** 2


def step():
    return _energy(_X).to_decimal(u.joule)
