"""A Gaussian process: marginal likelihood, fit, prediction."""
import gpjax as gpx
import jax
import jax.numpy as jnp

_X = jnp.linspace(-3.0, 3.0, 40)[:, None]
_DATA = gpx.Dataset(_X, jnp.sin(2 * _X) + 0.1 * jnp.cos(9 * _X))


def _posterior(scale=1.0):
    prior = gpx.gps.Prior(kernel=gpx.kernels.Matern52(lengthscale=jnp.array(scale)),
                          mean_function=gpx.mean_functions.Zero())
    return prior * gpx.likelihoods.Gaussian()


def likelihood():
    return gpx.objectives.conjugate_mll(_posterior(), _DATA)


def prediction():
    found = _posterior().predict(jnp.array([[0.0], [1.5]]), train_data=_DATA)
    return found.mean, jnp.diag(found.covariance())


@jax.jit
def _slope(scale):
    return jax.value_and_grad(lambda s: gpx.objectives.conjugate_mll(_posterior(s), _DATA))(scale)


def step():
    return _slope(jnp.array(0.7))
