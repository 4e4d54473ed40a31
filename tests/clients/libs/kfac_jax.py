"""Losses that are marked for Kronecker-factored curvature, and their gradient.

The optimizer itself fails with jax 0.10.2 (Primitive.get_bind_params gives no pair).
"""
import jax
import jax.numpy as jnp
import kfac_jax

_X = jnp.sin(jnp.arange(160.0)).reshape(16, 10)
_Y = jnp.arange(16) % 3
_PARAMS = {"a": jnp.cos(jnp.arange(80.0)).reshape(10, 8) * 0.3,
           "b": jnp.sin(jnp.arange(24.0)).reshape(8, 3) * 0.3}


def _loss(params, batch):
    x, y = batch
    logits = jnp.tanh(x @ params["a"]) @ params["b"]
    kfac_jax.register_softmax_cross_entropy_loss(logits, y)
    return -jax.nn.log_softmax(logits)[jnp.arange(16), y].mean()


_slope = jax.jit(jax.grad(_loss))


def step():
    return _slope(_PARAMS, (_X, _Y))
