"""Samplers: steps of NUTS and HMC, a chain."""
import blackjax
import jax
import jax.numpy as jnp


def _density(x):
    return -0.5 * (x ** 2 / jnp.arange(1.0, 5.0)).sum()


_kernel = blackjax.nuts(_density, step_size=0.5, inverse_mass_matrix=jnp.ones(4))
_STATE = _kernel.init(jnp.ones(4))


def nuts():
    return _kernel.step(jax.random.key(0), _STATE)[0].position


def hamiltonian():
    kernel = blackjax.hmc(_density, 0.3, jnp.ones(4), 10)
    return kernel.step(jax.random.key(0), kernel.init(jnp.ones(4)))[0].position


@jax.jit
def _chain(key):
    def move(state, key):
        state, _ = _kernel.step(key, state)
        return state, state.position
    return jax.lax.scan(move, _STATE, jax.random.split(key, 50))[1]


def step():
    return _chain(jax.random.key(0))[:5]
