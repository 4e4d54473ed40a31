"""Inverse problems: operators, their adjoints, ADMM and proximal steps."""
import jax
import jax.numpy as jnp
from scico import functional, linop, loss, optimize

_X = jnp.zeros((16, 16)).at[4:12, 4:12].set(1.0)
_A = linop.CircularConvolve(jnp.ones((3, 3)) / 9, input_shape=(16, 16))
_Y = _A(_X)


def adjoint():
    return _A.T(_Y), linop.FiniteDifference((16, 16))(_X)


def admm():
    solver = optimize.admm.ADMM(
        f=loss.SquaredL2Loss(y=_Y, A=_A), g_list=[0.01 * functional.L1Norm()],
        C_list=[linop.Identity((16, 16))], rho_list=[0.1], x0=jnp.zeros((16, 16)), maxiter=5,
        subproblem_solver=optimize.admm.LinearSubproblemSolver())
    return solver.solve()


_prox = jax.jit(lambda v: functional.L21Norm().prox(v, 0.1) + functional.L1Norm().prox(v, 0.1))


def step():
    return _prox(_Y)
