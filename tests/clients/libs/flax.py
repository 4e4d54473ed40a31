"""Linen and NNX: a network of convolutions and attention, batch statistics, a training step."""
import jax
import jax.numpy as jnp
import optax
from flax import linen as nn
from flax import nnx

_X = jnp.sin(jnp.arange(512.0)).reshape(8, 8, 8)


class _Network(nn.Module):
    @nn.compact
    def __call__(self, x):
        x = nn.Conv(8, (3,))(x)
        x = nn.SelfAttention(2)(nn.LayerNorm()(x))
        return nn.Dense(3)(nn.relu(x).mean(1))


def linen():
    network = _Network()
    return network.apply(network.init(jax.random.key(0), _X), _X)


def statistics():
    layer = nn.BatchNorm(use_running_average=False)
    return layer.apply(layer.init(jax.random.key(0), _X), _X, mutable=["batch_stats"])


class _Model(nnx.Module):
    def __init__(self, rngs):
        self.a, self.b = nnx.Linear(8, 16, rngs=rngs), nnx.Linear(16, 3, rngs=rngs)

    def __call__(self, x):
        return self.b(nnx.relu(self.a(x)))


_model = _Model(nnx.Rngs(0))
_optimizer = nnx.Optimizer(_model, optax.sgd(0.0), wrt=nnx.Param)


@nnx.jit
def _train(model, optimizer, x):
    loss, slopes = nnx.value_and_grad(lambda m: (m(x) ** 2).mean())(model)
    optimizer.update(model, slopes)
    return loss


def step():
    return _train(_model, _optimizer, _X)
