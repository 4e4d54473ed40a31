"""Stochastic traces of linear operators."""
import equinox as eqx
import jax
import jax.numpy as jnp
import lineax as lx
import traceax as tx

_A = jnp.sin(jnp.arange(2500.0)).reshape(50, 50)
_OPERATOR = lx.MatrixLinearOperator(_A @ _A.T / 50 + jnp.eye(50))


def estimators():
    return [e.estimate(jax.random.key(0), _OPERATOR, k=10)[0] for e in (
        tx.HutchinsonEstimator(), tx.HutchPlusPlusEstimator(), tx.XTraceEstimator())]


_estimate = eqx.filter_jit(lambda key: tx.HutchPlusPlusEstimator().estimate(
    key, _OPERATOR, k=20)[0])


def step():
    return _estimate(jax.random.key(1))
