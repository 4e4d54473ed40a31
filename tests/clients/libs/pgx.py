"""Games: states, legal moves, a batch of playouts."""
import jax
import jax.numpy as jnp
import pgx

_ENV = pgx.make("tic_tac_toe")


def tic_tac_toe():
    state = jax.jit(_ENV.step)(jax.jit(_ENV.init)(jax.random.key(0)), 4)
    return state.legal_action_mask, state.observation


def go():
    env = pgx.make("go_9x9")
    move = jax.jit(env.step)
    state = jax.jit(env.init)(jax.random.key(0))
    for action in (3, 12, 40, 41):
        state = move(state, action)
    return state.legal_action_mask, state.current_player


@jax.jit
def _play(keys):
    def move(states, key):
        logits = jnp.log(states.legal_action_mask.astype(jnp.float32))
        states = jax.vmap(_ENV.step)(states, jax.random.categorical(key, logits))
        return states, states.rewards
    return jax.lax.scan(move, jax.vmap(_ENV.init)(keys), jax.random.split(keys[0], 9))[1]


def step():
    return _play(jax.random.split(jax.random.PRNGKey(0), 32))
