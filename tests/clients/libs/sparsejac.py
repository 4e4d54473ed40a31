"""Jacobians that are known to be sparse, by colours of their columns and rows."""
import jax.numpy as jnp
import sparsejac
from jax.experimental import sparse

_PATTERN = sparse.BCOO.fromdense(jnp.eye(40) + jnp.eye(40, k=1))
_X = jnp.linspace(0.1, 1, 40)


def _f(x):
    return jnp.sin(x) + jnp.append(x[1:], 0.0) ** 2


_reverse = sparsejac.jacrev(_f, sparsity=_PATTERN)


def forward():
    return sparsejac.jacfwd(_f, sparsity=_PATTERN)(_X).todense()


def step():
    return _reverse(_X).todense()
