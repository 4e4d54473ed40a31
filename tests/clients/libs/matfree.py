"""Traces and functions of matrices that are known by products only."""
import jax
import jax.numpy as jnp
from matfree import decomp, funm, stochtrace

_A = jnp.sin(jnp.arange(900.0)).reshape(30, 30)
_S = _A @ _A.T / 30 + jnp.eye(30)


def tridiagonal():
    return decomp.tridiag_sym(6)(lambda v: _S @ v, jnp.ones(30) / 30 ** 0.5)[1]


@jax.jit
def _trace(key):
    sampler = stochtrace.sampler_rademacher(jnp.ones(30), num=64)
    return stochtrace.estimator(stochtrace.integrand_trace(), sampler=sampler)(
        lambda v: _S @ v, key)


def log_determinant():
    integrand = funm.integrand_funm_sym_logdet(decomp.tridiag_sym(8))
    sampler = stochtrace.sampler_normal(jnp.ones(30), num=16)
    return stochtrace.estimator(integrand, sampler=sampler)(lambda v: _S @ v, jax.random.key(0))


def step():
    return _trace(jax.random.key(0))
