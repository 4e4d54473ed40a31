"""Quadratic programs, and gradients through their solutions."""
import jax
import jax.numpy as jnp
import qpax

_Q = jnp.diag(jnp.arange(1.0, 6.0))
_G = jnp.concatenate([jnp.eye(5), -jnp.eye(5)])
_h, _A, _b = jnp.ones(10), jnp.ones((1, 5)), jnp.ones(1)


def solution():
    return qpax.solve_qp(_Q, jnp.ones(5), _A, _b, _G, _h)[0]


_slope = jax.jit(jax.grad(lambda q: (qpax.solve_qp_primal(
    _Q, q, _A, _b, _G, _h) ** 2).sum()))


def step():
    return _slope(jnp.ones(5))
