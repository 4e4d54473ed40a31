"""numpyro: eight schools by NUTS, a regression by variational inference.

Nothing here is calque's: `python -m calque.compat` runs it, and plain Python with jax.
Lines that begin with #> are what jax 0.10.2 prints;
tests/clients/tutorials.py (`make clients`) compares.
"""
import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
from numpyro.infer import MCMC, NUTS, SVI, Predictive, Trace_ELBO, log_likelihood
from numpyro.infer.autoguide import AutoNormal
from numpyro.infer.reparam import LocScaleReparam

# ---- the effects of coaching in eight schools (Rubin 1981), and their errors
effects = np.array([28.0, 8.0, -3.0, 7.0, -1.0, 1.0, 18.0, 12.0])
errors = np.array([15.0, 10.0, 16.0, 11.0, 9.0, 11.0, 10.0, 18.0])


def schools(errors, effects=None):
    """A normal of the schools' true effects, whose centre and width are not known."""
    centre = numpyro.sample("centre", dist.Normal(0, 5))
    width = numpyro.sample("width", dist.HalfCauchy(5))
    with numpyro.plate("school", 8):
        with numpyro.handlers.reparam(config={"true": LocScaleReparam(0)}):
            true = numpyro.sample("true", dist.Normal(centre, width))
        numpyro.sample("seen", dist.Normal(true, errors), obs=effects)


chain = MCMC(NUTS(schools, target_accept_prob=0.9), num_warmup=500, num_samples=2000,
             progress_bar=False)
chain.run(jax.random.key(0), errors, effects=effects)
samples = chain.get_samples()
print({name: values.shape for name, values in sorted(samples.items())})
#> {'centre': (2000,), 'true': (2000, 8), 'true_decentered': (2000, 8), 'width': (2000,)}
# the posterior's mean centre is 4.4, its deviation 3.3 (long chains; Gelman et al., BDA3, 5.5)
centre = samples["centre"]
print(abs(float(centre.mean()) - 4.4) < 0.6, abs(float(centre.std()) - 3.3) < 0.5)
#> True True
print(int(chain.get_extra_fields()["diverging"].sum()) < 20)
#> True
print(log_likelihood(schools, samples, errors, effects=effects)["seen"].shape)
#> (2000, 8)
drawn = Predictive(schools, samples)(jax.random.key(1), errors)["seen"]
print(drawn.shape, abs(float(drawn.mean()) - 4.4) < 1.5)
#> (2000, 8) True

# ---- a line with outliers: Student's errors, by a normal guide
random = np.random.default_rng(0)
x = np.linspace(-2, 2, 100, dtype=np.float32)
y = (1.5 * x + 0.5 + 0.2 * random.standard_t(2, 100)).astype(np.float32)


def line(x, y=None):
    """A slope, an offset, a scale; errors with long tails."""
    slope = numpyro.sample("slope", dist.Normal(0, 3))
    offset = numpyro.sample("offset", dist.Normal(0, 3))
    scale = numpyro.sample("scale", dist.HalfNormal(1))
    with numpyro.plate("point", len(x)):
        numpyro.sample("y", dist.StudentT(2, offset + slope * x, scale), obs=y)


guide = AutoNormal(line)
found = SVI(line, guide, numpyro.optim.Adam(0.02), Trace_ELBO()).run(
    jax.random.key(2), 1500, x, y, progress_bar=False)
print(found.losses.shape, float(found.losses[-1]) < float(found.losses[0]))
#> (1500,) True
median = guide.median(found.params)
print({name: round(float(value), 1) for name, value in sorted(median.items())})
#> {'offset': 0.5, 'scale': 0.2, 'slope': 1.5}

# ---- distributions by themselves
mixture = dist.MixtureSameFamily(dist.Categorical(jnp.array([0.3, 0.7])),
                                 dist.Normal(jnp.array([-2.0, 1.0]), jnp.array([0.5, 1.0])))
print(mixture.log_prob(jnp.array([-2.0, 0.0, 1.0])).round(4))
#> [-1.4168999 -1.7751    -1.2756   ]
print(dist.kl_divergence(dist.Normal(0.0, 1.0), dist.Normal(1.0, 2.0)).round(4))
#> 0.44309998
print(dist.LKJCholesky(3, 2.0).sample(jax.random.key(3)).shape)
#> (3, 3)
