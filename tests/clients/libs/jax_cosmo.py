"""Cosmology: distances, power spectra, their derivatives."""
import jax
import jax.numpy as jnp
import jax_cosmo as jc

_cosmo = jc.Planck15()
_A = jnp.linspace(0.3, 1.0, 20)


def distances():
    return jc.background.radial_comoving_distance(_cosmo, _A)


def spectrum():
    return jnp.log(jc.power.linear_matter_power(_cosmo, jnp.logspace(-3, 0, 20)))


@jax.jit
def _slope(omega):
    def distance(omega):
        cosmo = jc.Planck15(Omega_c=omega)
        return jc.background.radial_comoving_distance(cosmo, _A).sum()
    return jax.grad(distance)(omega)


def step():
    return _slope(0.26)
