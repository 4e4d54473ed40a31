"""Quantum circuits by contraction: an energy, its gradient, vectorized over parameters."""
import jax
import jax.numpy as jnp
import tensorcircuit as tc

_K = tc.set_backend("jax")
_N = 4


def _energy(theta):
    c = tc.Circuit(_N)
    for i in range(_N):
        c.rx(i, theta=theta[i])
    for i in range(_N - 1):
        c.cnot(i, i + 1)
        c.rz(i + 1, theta=theta[_N + i])
    return sum(_K.real(c.expectation_ps(z=[i, i + 1])) for i in range(_N - 1)) + _K.real(
        c.expectation_ps(x=[0]))


_T = jnp.linspace(0.1, 1, 2 * _N)


def energies():
    return _energy(_T), _K.vmap(_energy)(jnp.stack([_T, 2 * _T]))


def states():
    c = tc.Circuit(3)
    c.H(0)
    c.cnot(0, 1)
    c.ry(2, theta=0.3)
    return c.state(), c.amplitude("011")


_step = jax.jit(jax.value_and_grad(_energy))


def step():
    return _step(_T)
