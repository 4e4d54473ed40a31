"""Solvers, implicit gradients, projections, root finding."""

import jax
import jax.numpy as jnp
import jaxopt

k = jax.random.key(0)
A = jax.random.normal(k, (10, 3))
b = A @ jnp.array([1.0, -2.0, 3.0])


def f(w, l=0.1):
    return jnp.sum((A @ w - b) ** 2) + l * jnp.sum(w**2)


for s in (
    jaxopt.GradientDescent(f, maxiter=200),
    jaxopt.LBFGS(f),
    jaxopt.BFGS(f),
    jaxopt.NonlinearCG(f),
    jaxopt.PolyakSGD(f, maxiter=20),
):
    print(type(s).__name__, s.run(jnp.zeros(3), l=0.1).params)
print("grad", jax.grad(lambda l: jaxopt.LBFGS(f).run(jnp.zeros(3), l=l).params.sum())(0.1))
print(
    "pg",
    jaxopt.ProjectedGradient(
        lambda w: jnp.sum((A @ w - b) ** 2), jaxopt.projection.projection_non_negative
    )
    .run(jnp.ones(3))
    .params,
)
print(
    "prox",
    jaxopt.ProximalGradient(lambda w: jnp.sum((A @ w - b) ** 2), jaxopt.prox.prox_lasso)
    .run(jnp.zeros(3), hyperparams_prox=1.0)
    .params,
)
print(
    "gn",
    jaxopt.GaussNewton(lambda w: A @ w - b).run(jnp.zeros(3)).params,
    jaxopt.LevenbergMarquardt(lambda w: A @ w - b).run(jnp.zeros(3)).params,
)
print(
    "fp",
    jaxopt.FixedPointIteration(lambda x, t: jnp.cos(x * t)).run(jnp.float32(1.0), 1.0).params,
    jaxopt.AndersonAcceleration(lambda x, t: jnp.cos(x * t)).run(jnp.ones(1), 1.0).params,
)
print(
    "bis",
    jaxopt.Bisection(lambda x: x**3 - x - 2, 1, 2).run().params,
    "scipy",
    jaxopt.ScipyMinimize(fun=f, method="L-BFGS-B").run(jnp.zeros(3)).params,
)
print(
    "osqp",
    jaxopt.OSQP()
    .run(params_obj=(jnp.eye(2), jnp.ones(2)), params_eq=(jnp.ones((1, 2)), jnp.ones(1)))
    .params.primal,
)
