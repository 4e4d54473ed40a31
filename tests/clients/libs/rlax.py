"""Returns and losses of reinforcement learning."""
import jax
import jax.numpy as jnp
import rlax

_R, _D, _V = jnp.sin(jnp.arange(20.0)), jnp.full(20, 0.9), jnp.cos(jnp.arange(20.0))


def returns():
    return (rlax.lambda_returns(_R, _D, _V, 0.8), rlax.n_step_bootstrapped_returns(_R, _D, _V, 3),
            rlax.vtrace(_V, _V, _R, _D, jnp.ones(20)))


def distributional():
    atoms = jnp.linspace(-1, 1, 11)
    return rlax.categorical_l2_project(atoms * 0.5, jnp.ones(11) / 11, atoms)


_loss = jax.vmap(rlax.q_learning)


@jax.jit
def _slope(q):
    def loss(q):
        errors = _loss(q, jnp.arange(64) % 4, jnp.ones(64), jnp.full(64, 0.9), q[::-1])
        return rlax.huber_loss(errors).mean()
    return jax.grad(loss)(q)


def step():
    return _slope(jnp.sin(jnp.arange(256.0)).reshape(64, 4))
