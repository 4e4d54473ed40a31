"""Traces and functions of matrices that are known by products only."""
import jax
import jax.numpy as jnp
from matfree import decomp, funm

_A = jnp.sin(jnp.arange(900.0)).reshape(30, 30)
_S = _A @ _A.T / 30 + jnp.eye(30)


def tridiagonal():
    return decomp.tridiag_sym(6)(lambda v: _S @ v, jnp.ones(30) / 30 ** 0.5)[1]


def exponential():
    apply = funm.funm_lanczos_sym(funm.dense_funm_sym_eigh(jnp.exp), decomp.tridiag_sym(8))
    return apply(lambda v: _S @ v, jnp.ones(30))


_factor = jax.jit(lambda s: decomp.tridiag_sym(10)(lambda v: s @ v, jnp.ones(30) / 30 ** 0.5)[1])


def step():
    return _factor(_S)
