"""Transformed modules: layers, state, a recurrent network's gradient."""
import haiku as hk
import jax
import jax.numpy as jnp

_X = jnp.sin(jnp.arange(240.0)).reshape(10, 4, 6)


def layers():
    def f(x):
        x = hk.Conv1D(8, 3)(x)
        x = hk.MultiHeadAttention(2, 4, w_init=hk.initializers.VarianceScaling())(x, x, x)
        return hk.nets.MLP([8, 3])(hk.LayerNorm(-1, True, True)(x))
    network = hk.without_apply_rng(hk.transform(f))
    return network.apply(network.init(jax.random.PRNGKey(0), _X), _X)


def state():
    network = hk.transform_with_state(lambda x: hk.BatchNorm(True, True, 0.9)(x, True))
    params, kept = network.init(jax.random.PRNGKey(0), _X)
    return network.apply(params, kept, None, _X)


_recurrent = hk.without_apply_rng(hk.transform(
    lambda x: hk.dynamic_unroll(hk.LSTM(8), x, hk.LSTM(8).initial_state(4))[0]))
_PARAMS = _recurrent.init(jax.random.PRNGKey(0), _X)
_slope = jax.jit(jax.grad(lambda p: (_recurrent.apply(p, _X) ** 2).sum()))


def step():
    return _slope(_PARAMS)
