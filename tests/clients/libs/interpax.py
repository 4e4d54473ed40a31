"""Interpolation in one to three dimensions, and its gradient."""
import interpax
import jax
import jax.numpy as jnp

_X = jnp.linspace(0, 1, 20)
_F = jnp.sin(5 * _X)
_Q = jnp.linspace(0.01, 0.99, 1000)


def methods():
    return [interpax.interp1d(_Q[::50], _X, _F, method=m) for m in (
        "nearest", "linear", "cubic", "cubic2", "catmull-rom", "monotonic", "akima")]


def planes():
    f = _F[:, None] * _F
    return interpax.interp2d(_Q[::50], _Q[::-50], _X, _X, f, method="cubic")


def solids():
    f = _F[:, None, None] * _F[:, None] * _F
    return interpax.interp3d(_Q[::50], _Q[::-50], _Q[::50], _X, _X, _X, f, method="cubic2")


_slope = jax.jit(jax.grad(lambda f, q: (interpax.interp1d(q, _X, f, method="cubic2") ** 3).sum()))


def step():
    return _slope(_F, _Q)
