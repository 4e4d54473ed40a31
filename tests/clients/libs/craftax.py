"""A game as an environment: steps of Craftax Classic with symbols."""
import jax
from craftax.craftax_env import make_craftax_env_from_name

_ENV = make_craftax_env_from_name("Craftax-Classic-Symbolic-v1", auto_reset=False)
_PARAMS = _ENV.default_params
_, _STATE = jax.jit(_ENV.reset)(jax.random.key(0), _PARAMS)
_move = jax.jit(_ENV.step)


def step():
    seen, _, reward, done, _ = _move(jax.random.key(1), _STATE, 3, _PARAMS)
    return seen, reward, done
