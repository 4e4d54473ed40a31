"""Solvers of partial differential equations in Fourier space: roll-outs, a Jacobian."""
import exponax as ex
import jax
import jax.numpy as jnp

_X = jnp.linspace(0, 1, 64, endpoint=False)
_U = jnp.sin(2 * jnp.pi * _X)[None]
_burgers = ex.stepper.Burgers(1, 1.0, 64, 0.001, diffusivity=0.01)


def burgers():
    return ex.rollout(_burgers, 50, include_init=True)(_U)


def diffusion():
    grid = ex.make_grid(2, 1.0, 32)
    u = jnp.sin(2 * jnp.pi * grid[:1]) * jnp.cos(2 * jnp.pi * grid[1:])
    return ex.repeat(ex.stepper.Diffusion(2, 1.0, 32, 0.001, diffusivity=0.1), 10)(u)


def jacobian():
    return jax.jacfwd(_burgers)(_U)


_step = jax.jit(ex.repeat(ex.stepper.KuramotoSivashinskyConservative(1, 30.0, 64, 0.05), 20))


def step():
    return _step(_U)
