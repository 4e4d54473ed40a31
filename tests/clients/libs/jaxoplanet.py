"""Transits of planets: orbits, limb-darkened light curves, their gradient."""
import jax
import jax.numpy as jnp
from jaxoplanet.core.kepler import kepler
from jaxoplanet.light_curves import limb_dark_light_curve
from jaxoplanet.orbits import TransitOrbit

_T = jnp.linspace(-0.1, 0.1, 100)


def _curve(radius, u=(0.3, 0.2)):
    orbit = TransitOrbit(period=3.0, duration=0.1, time_transit=0.0, impact_param=0.2,
                         radius_ratio=radius)
    return limb_dark_light_curve(orbit, jnp.array(u))(_T)


def anomalies():
    return kepler(jnp.linspace(0, 6, 50), jnp.full(50, 0.3))


def light():
    return _curve(0.1)


_slope = jax.jit(jax.grad(lambda r: _curve(r).sum()))


def step():
    return _slope(0.1)
