"""Optimal transport: Sinkhorn, its gradient, Gromov-Wasserstein, soft sorting."""
import jax
import jax.numpy as jnp
from ott.geometry import pointcloud
from ott.problems.linear import linear_problem
from ott.problems.quadratic import quadratic_problem
from ott.solvers.linear import sinkhorn
from ott.solvers.quadratic import gromov_wasserstein
from ott.tools import soft_sort

_X = jax.random.normal(jax.random.key(0), (40, 3))
_Y = jax.random.normal(jax.random.key(1), (50, 3)) + 1


def gromov():
    solver = gromov_wasserstein.GromovWasserstein(
        sinkhorn.Sinkhorn(), epsilon=1.0, max_iterations=5)
    found = solver(quadratic_problem.QuadraticProblem(
        pointcloud.PointCloud(_X), pointcloud.PointCloud(_Y)))
    return found.reg_gw_cost


def sort():
    x = jnp.array([3.0, 1.0, 2.0])
    return soft_sort.sort(x), soft_sort.ranks(x)


@jax.jit
def _slope(x):
    def cost(x):
        problem = linear_problem.LinearProblem(pointcloud.PointCloud(x, _Y, epsilon=0.5))
        return sinkhorn.Sinkhorn()(problem).reg_ot_cost
    return jax.value_and_grad(cost)(x)


def step():
    return _slope(_X)
