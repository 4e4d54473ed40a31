"""Low-rank adaptation of a layer, by arrays of a type of one's own."""
import equinox as eqx
import jax
import jax.numpy as jnp
import quax
from quax.examples import lora

_layer = eqx.nn.MLP(10, 12, 64, 2, key=jax.random.key(0))
_adapted = lora.loraify(_layer, rank=3, scale=0.01, key=jax.random.key(1))
_X = jax.random.normal(jax.random.key(2), (32, 10))


@eqx.filter_jit
def _forward(model, x):
    return jax.vmap(quax.quaxify(model))(x)


def gradient():
    grads = eqx.filter_grad(lambda m: (_forward(m, _X) ** 2).mean())(_adapted)
    return [jnp.abs(leaf).sum() for leaf in jax.tree.leaves(eqx.filter(grads, eqx.is_array))]


def step():
    return _forward(_adapted, _X)
