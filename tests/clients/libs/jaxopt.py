"""Optimizers with implicit derivatives."""
import jax
import jax.numpy as jnp
import jaxopt

_X = jnp.sin(jnp.arange(150.0)).reshape(50, 3)
_Y = _X @ jnp.array([1.0, -2.0, 0.5])


def _ridge(w, l2):
    return ((_X @ w - _Y) ** 2).mean() + l2 * (w ** 2).sum()


def solvers():
    return [s(_ridge).run(jnp.zeros(3), l2=0.1).params for s in (
        jaxopt.LBFGS, jaxopt.BFGS, jaxopt.GradientDescent)]


def projected():
    solver = jaxopt.ProjectedGradient(lambda w: _ridge(w, 0.1),
                                      jaxopt.projection.projection_simplex)
    return solver.run(jnp.ones(3) / 3).params


@jax.jit
def _slope(l2):
    def outer(l2):
        w = jaxopt.LBFGS(_ridge, maxiter=20, implicit_diff=True).run(jnp.zeros(3), l2=l2).params
        return (w ** 2).sum()
    return jax.grad(outer)(l2)


def step():
    return _slope(0.1)
