"""Differential equations: solutions, dense output, gradients."""
import diffrax
import jax
import jax.numpy as jnp


def _field(t, y, a):
    return jnp.stack([a * y[0] - y[0] * y[1], y[0] * y[1] - y[1]])


def _solve(a, solver=None, **more):
    return diffrax.diffeqsolve(
        diffrax.ODETerm(_field), solver or diffrax.Tsit5(), 0.0, 5.0, 0.05, jnp.array([1.5, 0.5]),
        args=a, stepsize_controller=diffrax.PIDController(rtol=1e-4, atol=1e-5), **more)


def solvers():
    return [_solve(1.1, s).ys for s in (diffrax.Dopri5(), diffrax.Heun(), diffrax.Kvaerno5())]


def implicit():
    """Newton's method on complex states, in a loop: -y from [1 + 1j, 2 - 1j] for a time of one."""
    solver = diffrax.Kvaerno3(root_finder=diffrax.VeryChord(rtol=1e-3, atol=1e-6))
    return diffrax.diffeqsolve(
        diffrax.ODETerm(lambda t, y, args: -y), solver, 0.0, 1.0, 0.01,
        jnp.array([1 + 1j, 2 - 1j], jnp.complex64),
        stepsize_controller=diffrax.PIDController(rtol=1e-3, atol=1e-6)).ys


def dense():
    return _solve(1.1, saveat=diffrax.SaveAt(dense=True)).evaluate(2.5)


def stochastic():
    path = diffrax.VirtualBrownianTree(0.0, 1.0, tol=1e-2, shape=(), key=jax.random.key(0))
    terms = diffrax.MultiTerm(diffrax.ODETerm(lambda t, y, args: -y),
                              diffrax.ControlTerm(lambda t, y, args: 0.1, path))
    return diffrax.diffeqsolve(terms, diffrax.Euler(), 0.0, 1.0, 0.05, 1.0).ys


_slope = jax.jit(jax.grad(lambda a: _solve(a).ys.sum()))


def step():
    return _slope(1.1)
