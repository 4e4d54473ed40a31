"""Fields with named coordinates."""
import coordax as cx
import jax
import jax.numpy as jnp

_LAT = cx.LabeledAxis("lat", jnp.linspace(-80, 80, 30))
_LON = cx.LabeledAxis("lon", jnp.linspace(0, 350, 40))
_T = cx.field(jnp.sin(jnp.arange(1200.0)).reshape(30, 40), _LAT, _LON)


def mean():
    return cx.cmap(jnp.mean)(_T.untag("lon")).data


def arithmetic():
    weights = cx.field(jnp.cos(jnp.deg2rad(_LAT.ticks)), _LAT)
    return (_T * weights).order_as("lon", "lat").data


@jax.jit
def _anomaly(t):
    return t - cx.cmap(jnp.mean)(t.untag("lat", "lon"))


def step():
    return _anomaly(_T).data
