"""Gaussian processes: likelihoods, their gradients, predictions, quasiseparable kernels."""
import jax
import jax.numpy as jnp
import tinygp

_X = jnp.linspace(0, 1, 100)
_Y = jnp.sin(7 * _X)


def quasiseparable():
    kernel = tinygp.kernels.quasisep.Matern32(0.3)
    return tinygp.GaussianProcess(kernel, _X, diag=0.1).log_probability(_Y)


def prediction():
    process = tinygp.GaussianProcess(tinygp.kernels.ExpSquared(0.2), _X, diag=0.1)
    found = process.condition(_Y, jnp.array([0.25, 0.5])).gp
    return found.loc, found.variance


def transform():
    kernel = tinygp.transforms.Cholesky.from_parameters(
        jnp.ones(2), jnp.array([0.5]), tinygp.kernels.Matern52())
    points = jnp.stack([_X[:20], _Y[:20]], -1)
    return tinygp.GaussianProcess(kernel, points, diag=0.1).log_probability(_Y[:20])


@jax.jit
def _slope(log_scale):
    def loss(s):
        kernel = tinygp.kernels.Matern32(jnp.exp(s))
        return -tinygp.GaussianProcess(kernel, _X, diag=0.1).log_probability(_Y)
    return jax.value_and_grad(loss)(log_scale)


def step():
    return _slope(-1.0)
