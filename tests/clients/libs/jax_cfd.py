"""Incompressible flow on staggered grids and in Fourier space."""
import jax
import jax.numpy as jnp
import jax_cfd.base as cfd
from jax_cfd import spectral

_GRID = cfd.grids.Grid((32, 32), domain=((0, 2 * jnp.pi), (0, 2 * jnp.pi)))
_START = cfd.initial_conditions.filtered_velocity_field(jax.random.key(0), _GRID, 1.0, 4)
_solve = cfd.equations.semi_implicit_navier_stokes(
    density=1.0, viscosity=1e-2, dt=0.01, grid=_GRID)


def velocities():
    found = jax.jit(cfd.funcutils.repeated(_solve, 5))(_START)
    return [v.data for v in found]


def vorticity():
    return cfd.finite_differences.curl_2d(_START).data


def fourier():
    equation = spectral.equations.NavierStokes2D(1e-2, _GRID, smooth=True)
    f = spectral.time_stepping.crank_nicolson_rk4(equation, 0.01)
    omega = jnp.fft.rfftn(cfd.finite_differences.curl_2d(_START).data)
    return jnp.fft.irfftn(jax.jit(cfd.funcutils.repeated(f, 5))(omega))


_step = jax.jit(_solve)


def step():
    return [v.data for v in _step(_START)]
