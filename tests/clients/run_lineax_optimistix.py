"""Linear solvers with gradients, root finding, least squares, minimization."""

import jax
import jax.numpy as jnp
import lineax as lx
import optimistix as optx

k = jax.random.key(0)
A = jax.random.normal(k, (4, 4)) + 4 * jnp.eye(4)
b = jnp.arange(4.0)
for s in (lx.LU(), lx.QR(), lx.SVD(), lx.AutoLinearSolver(well_posed=True)):
    print(type(s).__name__, lx.linear_solve(lx.MatrixLinearOperator(A), b, s).value)
P = A @ A.T
op = lx.MatrixLinearOperator(P, lx.positive_semidefinite_tag)
for s in (
    lx.CG(1e-6, 1e-6),
    lx.Cholesky(),
):
    print(type(s).__name__, lx.linear_solve(op, b, s).value)
for s in (lx.GMRES(1e-4, 1e-4, restart=4),):
    print(type(s).__name__, lx.linear_solve(lx.MatrixLinearOperator(A), b, s).value)
print("grad", jax.grad(lambda A: lx.linear_solve(lx.MatrixLinearOperator(A), b).value.sum())(A)[0])
print("vmap", jax.vmap(lambda b: lx.linear_solve(op, b, lx.CG(1e-6, 1e-6)).value)(jnp.eye(4))[0])


def f(y, a):
    return jnp.tanh(y) - a * y + 0.5


for s in (optx.Newton(1e-5, 1e-5), optx.Chord(1e-5, 1e-5), optx.Bisection(1e-5, 1e-5)):
    o = dict(options=dict(lower=-5.0, upper=5.0)) if isinstance(s, optx.Bisection) else {}
    print(type(s).__name__, optx.root_find(f, s, jnp.float32(1.0), 2.0, **o).value)
print(
    "rgrad",
    jax.grad(lambda a: optx.root_find(f, optx.Newton(1e-5, 1e-5), jnp.float32(1.0), a).value)(2.0),
)


def rosen(y, a):
    return (10 * (y[1] - y[0] ** 2), 1 - y[0])


for s in (
    optx.LevenbergMarquardt(1e-5, 1e-5),
    optx.GaussNewton(1e-5, 1e-5),
    optx.Dogleg(1e-5, 1e-5),
):
    print(type(s).__name__, optx.least_squares(rosen, s, jnp.array([-1.2, 1.0]), None).value)


def fn(y, a):
    return jnp.sum((y - a) ** 2) + jnp.sum(y**4)


for s in (
    optx.BFGS(1e-5, 1e-5),
    optx.NelderMead(1e-5, 1e-5),
    optx.GradientDescent(0.1, 1e-5, 1e-5),
    optx.NonlinearCG(1e-5, 1e-5),
):
    print(type(s).__name__, optx.minimise(fn, s, jnp.ones(2), 2.0, max_steps=1000).value)
print(
    "fp",
    optx.fixed_point(
        lambda y, a: jnp.cos(y), optx.FixedPointIteration(1e-5, 1e-5), jnp.float32(1.0)
    ).value,
)
