"""State-space models: Kalman filters and smoothers, in sequence and in parallel."""
import jax
import jax.numpy as jnp
from cuthbertlib.kalman import filtering, smoothing

_M, _P = jnp.array([0.1, -0.2]), jnp.eye(2) * 0.5
_F, _Q = jnp.array([[1.0, 0.1], [0.0, 0.95]]), jnp.eye(2) * 0.1
_H, _R = jnp.array([[1.0, 0.0]]), jnp.eye(1) * 0.3


def prediction():
    return filtering.predict(_M, _P, _F, jnp.zeros(2), _Q)


def update():
    return filtering.update(_M, _P, _H, jnp.zeros(1), _R, jnp.array([0.4]))


def smooth():
    return smoothing.update(_M, _P, _M * 0.9, _P * 0.8, _F, jnp.zeros(2), _Q)


@jax.jit
def _filter(ys):
    def one(state, y):
        m, p = filtering.predict(*state, _F, jnp.zeros(2), _Q)
        (m, p), _ = filtering.update(m, p, _H, jnp.zeros(1), _R, y)
        return (m, p), m
    return jax.lax.scan(one, (_M, _P), ys)


def step():
    return _filter(jnp.sin(jnp.arange(30.0))[:, None])
