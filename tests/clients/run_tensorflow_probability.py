"""Distributions, bijectors, Hamiltonian Monte Carlo, L-BFGS of TensorFlow Probability on JAX."""

import jax
import jax.numpy as jnp
import tensorflow_probability.substrates.jax as tfp

tfd, tfb = tfp.distributions, tfp.bijectors
key = jax.random.PRNGKey(0)
print("normal", tfd.Normal(0.0, 1.0).log_prob(jnp.arange(3.0)))
print("multivariate", tfd.MultivariateNormalTriL(jnp.zeros(2), jnp.eye(2) * 2).sample(3, seed=key))
mixture = tfd.MixtureSameFamily(tfd.Categorical(probs=[0.3, 0.7]),
                                tfd.Normal([0.0, 3.0], [1.0, 0.5]))
print("mixture", mixture.log_prob(1.5))
print("bijectors", tfb.Chain([tfb.Exp(), tfb.Shift(1.0)]).forward(jnp.ones(2)))


@jax.jit
def chain(key):
    kernel = tfp.mcmc.HamiltonianMonteCarlo(lambda x: -0.5 * jnp.sum(x**2), step_size=0.3,
                                            num_leapfrog_steps=4)
    return tfp.mcmc.sample_chain(100, current_state=jnp.zeros(3), kernel=kernel, trace_fn=None,
                                 seed=key)


print("hmc", chain(key).mean(0))
found = tfp.optimizer.lbfgs_minimize(
    lambda x: tfp.math.value_and_gradient(lambda x: jnp.sum((x - 3) ** 2), x),
    initial_position=jnp.zeros(4))
print("lbfgs", found.position)
