"""Linear systems: solvers, operators, gradients."""
import jax
import jax.numpy as jnp
import lineax as lx

_A = jnp.sin(jnp.arange(400.0)).reshape(20, 20)
_S = _A @ _A.T / 20 + jnp.eye(20)
_B = jnp.cos(jnp.arange(20.0))


def solvers():
    operator = lx.MatrixLinearOperator(_S, lx.positive_semidefinite_tag)
    return [lx.linear_solve(operator, _B, s).value for s in (
        lx.LU(), lx.QR(), lx.SVD(), lx.Cholesky(), lx.CG(1e-6, 1e-6), lx.GMRES(1e-5, 1e-5))]


def tridiagonal():
    operator = lx.TridiagonalLinearOperator(jnp.full(20, 3.0), jnp.ones(19), jnp.ones(19))
    return lx.linear_solve(operator, _B).value


@jax.jit
def _slope(a):
    return jax.grad(lambda a: (lx.linear_solve(lx.MatrixLinearOperator(a), _B).value ** 2).sum())(a)


def step():
    return _slope(_S)
