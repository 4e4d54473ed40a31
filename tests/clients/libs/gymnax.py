"""Environments of classic control, and a batch of rollouts."""
import gymnax
import jax


def _rollouts(name, keys):
    env, params = gymnax.make(name)

    def one(key):
        _, state = env.reset(key, params)

        def move(state, key):
            seen, state, reward, done = env.step(
                key, state, env.action_space(params).sample(key), params)[:4]
            return state, (seen.sum(), reward, done)
        return jax.lax.scan(move, state, jax.random.split(key, 50))[1]
    return jax.vmap(one)(keys)


_KEYS = jax.random.split(jax.random.key(0), 16)


def pendulum():
    return _rollouts("Pendulum-v1", _KEYS)[1]


def mountain_car():
    return _rollouts("MountainCar-v0", _KEYS)[0]


def breakout():
    return _rollouts("Breakout-MinAtar", _KEYS)[1:]


_cart_pole = jax.jit(lambda keys: _rollouts("CartPole-v1", keys))


def step():
    return _cart_pole(_KEYS)
