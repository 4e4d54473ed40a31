"""Pixels of the sphere: angles, vectors, interpolation."""
import jax
import jax.numpy as jnp
import jax_healpy as hp

_THETA, _PHI = jnp.linspace(0.1, 3.0, 100), jnp.linspace(0.0, 6.0, 100)


def pixels():
    p = hp.ang2pix(16, _THETA, _PHI)
    return p, hp.pix2ang(16, p), hp.pix2vec(16, p)


def orders():
    return hp.ring2nest(8, jnp.arange(100)), hp.nest2ring(8, jnp.arange(100))


_angles = jax.jit(lambda t, p: hp.pix2ang(64, hp.ang2pix(64, t, p)))


def step():
    return _angles(_THETA, _PHI)
