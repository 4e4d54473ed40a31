"""Images of galaxies: profiles, convolution, shear; the gradient of a profile."""
import jax
import jax_galsim as galsim


def images():
    galaxy = galsim.Exponential(half_light_radius=1.0, flux=10.0).shear(g1=0.1, g2=0.05)
    seen = galsim.Convolve([galaxy, galsim.Gaussian(sigma=0.8)])
    return seen.drawImage(nx=24, ny=24, scale=0.3).array


def fluxes():
    return [galsim.Gaussian(sigma=s, flux=3.0).xValue(0.3, 0.1) for s in (0.5, 1.0)]


_slope = jax.jit(jax.grad(lambda s: galsim.Gaussian(sigma=s, flux=3.0).xValue(0.3, 0.1)))


def step():
    return _slope(1.1)
