"""Modules: layers, filtered transformations, a training step."""
import equinox as eqx
import jax
import jax.numpy as jnp

_model = eqx.nn.MLP(4, 3, 32, 2, key=jax.random.key(0))
_X = jnp.sin(jnp.arange(80.0)).reshape(20, 4)


def layers():
    key, x = jax.random.key(1), jnp.sin(jnp.arange(128.0)).reshape(2, 8, 8)
    attention = eqx.nn.MultiheadAttention(2, 8, key=key)
    cell = eqx.nn.GRUCell(8, 5, key=key)
    return (eqx.nn.Conv2d(2, 3, 3, key=key)(x), attention(x[0], x[0], x[0]),
            cell(x[0, 0], jnp.zeros(5)), eqx.nn.LayerNorm(8)(x[0, 0]))


def shapes():
    return eqx.filter_eval_shape(jax.vmap(_model), _X).shape


def errors():
    f = eqx.filter_jit(lambda x: eqx.error_if(x, x < 0, "negative"))
    try:
        jax.block_until_ready(f(jnp.array(-1.0)))
    except Exception as error:
        return int("negative" in str(error))
    return 0


@eqx.filter_jit
def _slope(model, x):
    return eqx.filter_value_and_grad(lambda m: (jax.vmap(m)(x) ** 2).mean())(model)


def step():
    loss, slopes = _slope(_model, _X)
    return loss, [leaf.sum() for leaf in jax.tree.leaves(eqx.filter(slopes, eqx.is_array))]
