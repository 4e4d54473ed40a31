"""Physics for reinforcement learning: steps of an environment."""
import jax
from brax import envs

_ENV = envs.get_environment("inverted_pendulum", backend="generalized")
_reset, _move = jax.jit(_ENV.reset), jax.jit(_ENV.step)
_STATE = _reset(jax.random.PRNGKey(0))


def rollout():
    state = _STATE
    for _ in range(3):
        state = _move(state, jax.numpy.array([0.1]))
    return state.obs, state.reward


def step():
    return _move(_STATE, jax.numpy.array([0.1])).obs
