"""Grid worlds: resets, steps, rules, a batch of rollouts."""
import jax
import jax.numpy as jnp
import xminigrid

_env, _params = xminigrid.make("MiniGrid-EmptyRandom-8x8")
_doors, _door_params = xminigrid.make("MiniGrid-DoorKey-6x6")


def reset():
    return _env.reset(_params, jax.random.key(0)).observation


def rules():
    env, params = xminigrid.make("XLand-MiniGrid-R1-9x9")
    start = env.reset(params, jax.random.key(1))
    return env.step(params, start, jnp.asarray(0)).observation


@jax.jit
def _rollouts(keys):
    def one(key):
        def body(timestep, action):
            new = _doors.step(_door_params, timestep, action)
            return new, new.reward
        start = _doors.reset(_door_params, key)
        last, rewards = jax.lax.scan(body, start, jax.random.randint(key, (20,), 0, 6))
        return last.observation, rewards
    return jax.vmap(one)(keys)


def step():
    return _rollouts(jax.random.split(jax.random.key(2), 8))
