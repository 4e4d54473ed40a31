"""Distributions and bijections as equinox modules."""
import equinox as eqx
import jax
import jax.numpy as jnp
from distreqx import bijectors, distributions


def densities():
    x = jnp.array([0.2, 0.6])
    return [d.log_prob(x) for d in (distributions.Normal(jnp.zeros(2), jnp.ones(2)),
                                    distributions.MultivariateNormalDiag(jnp.zeros(2),
                                                                         jnp.ones(2)))]


def samples():
    return distributions.Categorical(logits=jnp.arange(4.0)).sample(jax.random.key(0))


@eqx.filter_jit
def _slope(a, x):
    def loss(a):
        flow = distributions.Transformed(distributions.Normal(jnp.zeros(()), jnp.ones(())),
                                         bijectors.ScalarAffine(a, jnp.array(2.0)))
        return -jax.vmap(flow.log_prob)(x).mean()
    return jax.value_and_grad(loss)(a)


def step():
    return _slope(jnp.array(0.3), jnp.linspace(-1, 1, 500))
