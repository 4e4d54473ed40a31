"""Optics: a telescope's point spread function and its gradient by the aberrations."""
import dLux as dl
import dLux.utils as dlu
import jax

_X = dlu.pixel_coords(64, 1.0)
_APERTURE = dlu.circle(_X, 0.5)


def _spread(coefficient):
    layers = [("aperture", dl.layers.TransmissiveLayer(_APERTURE, normalise=True)),
              ("phase", dl.layers.Optic(phase=coefficient * _X[0] ** 2 * 50))]
    optics = dl.AngularOpticalSystem(64, 1.0, layers, 32, 0.05, 1)
    return optics.propagate_mono(1e-6)


def image():
    return _spread(0.1) * 1e3


_slope = jax.jit(jax.grad(lambda c: (_spread(c) ** 2).sum() * 1e3))


def step():
    return _slope(0.1)
