"""Irreducible representations: products, harmonics, a linear layer and its gradient."""
import e3nn_jax as e3nn
import jax
import jax.numpy as jnp

_X = e3nn.normal("8x0e+8x1o", jax.random.key(0), (16,))


def harmonics():
    return e3nn.spherical_harmonics("1o+2e", jnp.array([1.0, 2.0, 3.0]), True).array


def product():
    return e3nn.tensor_product(_X, _X).array.sum(-1)


def clebsch_gordan():
    return e3nn.clebsch_gordan(1, 1, 2)


_layer = e3nn.flax.Linear("4x0e+4x1o")
_weights = _layer.init(jax.random.key(1), _X)


@jax.jit
def _slope(w):
    return jax.grad(lambda w: (e3nn.norm(_layer.apply(w, _X)).array ** 2).sum())(w)


def step():
    return _slope(_weights)
