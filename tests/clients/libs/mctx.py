"""Tree searches of MuZero and Gumbel MuZero."""
import jax
import jax.numpy as jnp
import mctx


def _recurrent(params, key, action, state):
    logits = state @ params + action[:, None] * 0.1
    return mctx.RecurrentFnOutput(reward=action.astype(jnp.float32), discount=jnp.full(8, 0.9),
                                  prior_logits=logits, value=logits.sum(-1)), state + 0.1


_PARAMS = jnp.sin(jnp.arange(12.0)).reshape(4, 3)
_ROOT = mctx.RootFnOutput(prior_logits=jnp.zeros((8, 3)), value=jnp.zeros(8),
                          embedding=jnp.cos(jnp.arange(32.0)).reshape(8, 4))


def gumbel():
    return mctx.gumbel_muzero_policy(_PARAMS, jax.random.key(0), _ROOT, _recurrent,
                                     num_simulations=16).action_weights


@jax.jit
def _search(key):
    return mctx.muzero_policy(_PARAMS, key, _ROOT, _recurrent, num_simulations=16).action_weights


def step():
    return _search(jax.random.key(0))
