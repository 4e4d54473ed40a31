"""Environments of planning: resets, steps, a rollout."""
import jax
import jumanji

_ENV = jumanji.make("Snake-v1")


def snake():
    state, seen = jax.jit(_ENV.reset)(jax.random.key(0))
    state, seen = jax.jit(_ENV.step)(state, 1)
    return seen.reward, seen.observation.grid.sum()


def knapsack():
    env = jumanji.make("Knapsack-v1")
    state, _ = jax.jit(env.reset)(jax.random.key(0))
    total = 0.0
    for action in (3, 1, 4):
        state, seen = jax.jit(env.step)(state, action)
        total += seen.reward
    return total


@jax.jit
def _rollout(key):
    def move(state, action):
        state, seen = _ENV.step(state, action)
        return state, seen.reward
    state, _ = _ENV.reset(key)
    return jax.lax.scan(move, state, jax.numpy.arange(50) % 4)[1]


def step():
    return _rollout(jax.random.key(1))
