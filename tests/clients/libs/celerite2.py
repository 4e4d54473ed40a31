"""Gaussian processes of celerite's kernels, whose loops are kernels in C++ called from jax."""
import celerite2.jax
import jax
import jax.numpy as jnp
from celerite2.jax import terms

_T = jnp.sort(jax.random.uniform(jax.random.key(0), (60,))) * 10


@jax.jit
def _likelihood(sigma):
    process = celerite2.jax.GaussianProcess(terms.SHOTerm(sigma=sigma, rho=2.0, tau=3.0))
    process.compute(_T, yerr=0.1)
    return process.log_likelihood(jnp.sin(_T))


def step():
    return _likelihood(1.2)
