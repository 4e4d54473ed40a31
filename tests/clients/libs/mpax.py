"""Linear and quadratic programs by first-order methods, of dense and sparse matrices."""
import jax
import jax.numpy as jnp
import numpy as np
from mpax import create_lp, create_qp, r2HPDHG, raPDHG

_C, _A, _B = np.array([1.0, 2, 0.5]), np.array([[1.0, 1, 1]]), np.array([1.0])
_G, _H = np.array([[1.0, -1, 0]]), np.array([-0.5])
_L, _U = np.zeros(3), np.ones(3)
_lp = create_lp(_C, _A, _B, _G, _H, _L, _U, use_sparse_matrix=False)
_solver = r2HPDHG(eps_abs=1e-5, eps_rel=1e-5, verbose=False)


def linear():
    return _solver.optimize(_lp).primal_solution


def sparse():
    return raPDHG(eps_abs=1e-5, eps_rel=1e-5).optimize(
        create_lp(_C, _A, _B, _G, _H, _L, _U)).primal_solution


def quadratic():
    qp = create_qp(np.eye(3), _C, _A, _B, _G, _H, _L, _U, use_sparse_matrix=False)
    return raPDHG(eps_abs=1e-5, eps_rel=1e-5).optimize(qp).primal_solution


@jax.jit
def _solve(c):
    return _solver.optimize(create_lp(c, _A, _B, _G, _H, _L, _U,
                                      use_sparse_matrix=False)).primal_objective


def step():
    return _solve(jnp.asarray(_C))
