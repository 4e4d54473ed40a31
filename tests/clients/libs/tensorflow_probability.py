"""TensorFlow Probability on JAX: distributions, bijectors, Hamiltonian chains, a fit."""
import jax
import jax.numpy as jnp
import tensorflow_probability.substrates.jax as tfp

_tfd, _tfb = tfp.distributions, tfp.bijectors


def densities():
    x = jnp.array([0.2, 0.5])
    return [d.log_prob(x) for d in (_tfd.Normal(0.0, 1.0), _tfd.StudentT(3.0, 0.0, 1.0),
                                    _tfd.Beta(2.0, 3.0), _tfd.LogNormal(0.0, 1.0))]


def bijectors():
    chain = _tfb.Chain([_tfb.Softplus(), _tfb.Shift(0.5), _tfb.Scale(2.0)])
    x = jnp.array([0.2, 0.5])
    return chain.forward(x), chain.inverse_log_det_jacobian(x)


def minimum():
    found = tfp.optimizer.lbfgs_minimize(
        lambda x: tfp.math.value_and_gradient(lambda x: ((x - 3.0) ** 2).sum(), x), jnp.zeros(4))
    return found.position


@jax.jit
def _chain(key):
    kernel = tfp.mcmc.HamiltonianMonteCarlo(
        lambda x: -0.5 * (x ** 2).sum(), step_size=0.3, num_leapfrog_steps=5)
    return tfp.mcmc.sample_chain(100, jnp.zeros(2), kernel=kernel, trace_fn=None, seed=key)


def step():
    x = _chain(jax.random.PRNGKey(0))
    return x[:10]
