"""Sparse systems by KLU, whose factorizations are handlers in C++ called from jax."""
import jax
import jax.numpy as jnp
import klujax
import numpy as np

_DENSE = np.where(np.random.default_rng(0).random((40, 40)) < 0.1, 0.5, 0.0) + 3 * np.eye(40)
_I, _J = map(jnp.asarray, np.nonzero(_DENSE))
_A, _B = jnp.asarray(_DENSE[_I, _J]), jnp.sin(jnp.arange(40.0))


def solutions():
    return klujax.solve(_I, _J, _A, _B), klujax.dot(_I, _J, _A, _B)


def batches():
    return jax.vmap(lambda a: klujax.solve(_I, _J, a, _B))(jnp.stack([_A, 2 * _A]))


_slope = jax.jit(jax.grad(lambda a: (klujax.solve(_I, _J, a, _B) ** 2).sum()))


def step():
    return _slope(_A)
