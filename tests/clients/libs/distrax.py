"""Distributions, a normalizing flow, a hidden Markov model."""
import distrax
import jax
import jax.numpy as jnp


def densities():
    x = jnp.array([0.3, 0.7])
    return (distrax.MultivariateNormalDiag(jnp.zeros(2), jnp.ones(2)).log_prob(x),
            distrax.Beta(2.0, 3.0).log_prob(x), distrax.Gamma(2.0, 3.0).entropy(),
            distrax.Categorical(logits=jnp.arange(3.0)).sample(seed=jax.random.key(0),
                                                               sample_shape=(5,)))


def divergence():
    return distrax.Normal(0.0, 1.0).kl_divergence(distrax.Normal(1.0, 2.0))


def markov():
    model = distrax.HMM(distrax.Categorical(probs=jnp.array([0.5, 0.5])),
                        distrax.Categorical(probs=jnp.array([[0.9, 0.1], [0.2, 0.8]])),
                        distrax.Normal(jnp.array([0.0, 2.0]), jnp.ones(2)))
    return model.forward_backward(jnp.array([0.1, 1.9, 2.2, 0.0]))[2:]


def _flow(shift):
    layers = [distrax.ScalarAffine(shift, log_scale=jnp.array(0.3)), distrax.Tanh()]
    return distrax.Transformed(distrax.Normal(0.0, 1.0), distrax.Chain(layers[::-1]))


@jax.jit
def _slope(shift, x):
    return jax.grad(lambda s: -_flow(s).log_prob(x).mean())(shift)


def step():
    return _slope(jnp.array(0.2), jnp.linspace(-0.9, 0.9, 1000))
