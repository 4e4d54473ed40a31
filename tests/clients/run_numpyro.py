"""NUTS, SVI, predictions, distributions."""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
from numpyro.infer import MCMC, NUTS, SVI, Predictive, Trace_ELBO, autoguide, log_likelihood

x = jnp.linspace(-1, 1, 30)
y = 1.5 * x + 0.3 + 0.2 * jax.random.normal(jax.random.PRNGKey(9), (30,))


def model(x, y=None):
    a = numpyro.sample("a", dist.Normal(0, 1))
    b = numpyro.sample("b", dist.Normal(0, 1))
    s = numpyro.sample("s", dist.HalfNormal(1.0))
    with numpyro.plate("n", x.shape[0]):
        numpyro.sample("y", dist.Normal(a + b * x, s), obs=y)


m = MCMC(NUTS(model), num_warmup=100, num_samples=100, progress_bar=False)
m.run(jax.random.PRNGKey(0), x, y)
s = m.get_samples()
print("nuts", {k: (round(float(v.mean()), 4), round(float(v.std()), 4)) for k, v in s.items()})
g = autoguide.AutoNormal(model)
svi = SVI(model, g, numpyro.optim.Adam(0.05), Trace_ELBO())
r = svi.run(jax.random.PRNGKey(1), 200, x, y, progress_bar=False)
print("svi", float(r.losses[-1]), {k: round(float(v), 4) for k, v in g.median(r.params).items()})
print("pred", float(Predictive(model, s)(jax.random.PRNGKey(2), x)["y"].mean()))
print("ll", float(log_likelihood(model, s, x, y)["y"].mean()))
for d, v in (
    (dist.Gamma(2.0, 3.0), 0.5),
    (dist.Beta(2.0, 3.0), 0.5),
    (dist.StudentT(3.0), 0.5),
    (dist.Poisson(2.0), 3),
    (dist.Dirichlet(jnp.ones(3)), jnp.array([0.2, 0.3, 0.5])),
    (dist.MultivariateNormal(jnp.zeros(2), jnp.eye(2)), jnp.ones(2)),
    (dist.LKJ(3, 1.0), None),
    (dist.VonMises(0.0, 2.0), 0.5),
    (dist.NegativeBinomial2(3.0, 2.0), 2),
):
    z = d.sample(jax.random.PRNGKey(3))
    print(type(d).__name__, np.asarray(z).ravel()[:2], float(d.log_prob(z if v is None else v)))
