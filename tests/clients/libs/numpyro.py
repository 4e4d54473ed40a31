"""Models: densities, a variational fit, chains of NUTS by their statistics."""
import jax
import jax.numpy as jnp
import numpyro
import numpyro.distributions as dist
from numpyro.infer import MCMC, NUTS, SVI, Trace_ELBO
from numpyro.infer.autoguide import AutoNormal

_X = jnp.linspace(-1, 1, 50)
_Y = 2 * _X + 0.3 * jnp.sin(20 * _X)


def _model(x, y=None):
    w = numpyro.sample("w", dist.Normal(0, 3))
    b = numpyro.sample("b", dist.Normal(0, 3))
    s = numpyro.sample("s", dist.HalfNormal(1))
    numpyro.sample("y", dist.Normal(w * x + b, s), obs=y)


def density():
    return numpyro.infer.util.log_density(_model, (_X, _Y), {}, {"w": 1.0, "b": 0.5, "s": 0.7})[0]


def mean_of_w_within_a_tenth():
    chain = MCMC(NUTS(_model), num_warmup=200, num_samples=300, progress_bar=False)
    chain.run(jax.random.key(0), _X, _Y)
    return abs(chain.get_samples()["w"].mean() - 2.0) < 0.1


_svi = SVI(_model, AutoNormal(_model), numpyro.optim.Adam(0.01), Trace_ELBO())
_STATE = _svi.init(jax.random.key(1), _X, _Y)
_update = jax.jit(_svi.update)


def step():
    return _update(_STATE, _X, _Y)[1]
