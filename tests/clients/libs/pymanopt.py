"""Optimization on manifolds by gradients of jax: an eigenvector, a subspace."""
import jax
import jax.numpy as jnp
import numpy as np
import pymanopt
from pymanopt.manifolds import Grassmann, Sphere
from pymanopt.optimizers import ConjugateGradient, TrustRegions

_A = np.cov(np.random.default_rng(0).normal(size=(8, 50)) * np.arange(1, 9)[:, None])


def eigenvector():
    @pymanopt.function.jax(Sphere(8))
    def cost(x):
        return -x @ jnp.asarray(_A) @ x
    found = TrustRegions(verbosity=0).run(pymanopt.Problem(Sphere(8), cost),
                                          initial_point=np.ones(8) / 8 ** 0.5)
    return abs(found.point)


def subspace():
    @pymanopt.function.jax(Grassmann(8, 2))
    def cost(x):
        return -jnp.trace(x.T @ jnp.asarray(_A) @ x)
    found = ConjugateGradient(verbosity=0).run(pymanopt.Problem(Grassmann(8, 2), cost),
                                               initial_point=np.eye(8)[:, :2])
    return found.cost


@pymanopt.function.jax(Sphere(8))
def _cost(x):
    return -x @ jnp.asarray(_A) @ x


_gradient = _cost.get_gradient_operator()


def step():
    return jax.numpy.asarray(_gradient(np.ones(8) / 8 ** 0.5))
