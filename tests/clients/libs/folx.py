"""Laplacians in one forward pass, as wave functions need them."""
import folx
import jax
import jax.numpy as jnp

_W = [jax.random.normal(k, s) / 4 for k, s in zip(
    jax.random.split(jax.random.key(0), 2), [(6, 16), (16, 1)])]
_X = jnp.sin(jnp.arange(30.0)).reshape(5, 6)


def _network(x):
    return (jnp.tanh(x @ _W[0]) @ _W[1]).sum()


def laplacian():
    found = folx.forward_laplacian(_network)(_X[0])
    return found.x, found.jacobian.dense_array, found.laplacian


def operators():
    return [op(_network)(_X[0]) for op in (folx.ForwardLaplacianOperator(0),
                                           folx.LoopLaplacianOperator())]


_all = jax.jit(jax.vmap(folx.ForwardLaplacianOperator(0)(_network)))


def step():
    return _all(_X)
