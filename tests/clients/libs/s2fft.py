"""Transforms on the sphere, of waves and of Wigner's functions."""
import jax
import jax.numpy as jnp
import s2fft

_L = 16
_F = jnp.sin(jnp.arange(float(_L * (2 * _L - 1)))).reshape(_L, 2 * _L - 1)


def forward():
    return s2fft.forward_jax(_F.astype(complex), _L, reality=False)


def back():
    flm = s2fft.forward_jax(_F.astype(complex), _L)
    return s2fft.inverse_jax(flm, _L)


_transform = jax.jit(lambda f: s2fft.forward_jax(f, _L))


def step():
    return _transform(_F.astype(complex))
