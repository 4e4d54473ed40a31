"""minimize by L-BFGS: the oracles are SciPy's L-BFGS-B and closed forms."""
from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.optimize as so

import calque
import calque.numpy as jnp
from calque.scipy.optimize import minimize

METHOD = "l-bfgs-experimental-do-not-rely-on-this"


def rosenbrock(x: Any) -> Any:
    return jnp.sum(100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2)


def quadratic(n: int) -> tuple[Any, Any]:
    """A badly scaled convex function of n numbers and its minimum."""
    rng = np.random.default_rng(n)
    q = np.linalg.qr(rng.normal(size=(n, n)))[0]
    a, b = q * np.logspace(0, 3, n) @ q.T, rng.normal(size=n)
    return lambda x: 0.5 * x @ a @ x - b @ x, np.linalg.solve(a, b)


def test_minima_beside_scipy() -> None:
    with calque.enable_x64(True):
        start = np.array([0.5, 1.0, 0.8, 1.1, 0.0])
        fun, best = quadratic(30)
        found, other = calque.jit(lambda x: (
            minimize(rosenbrock, x, method=METHOD, options={"ftol": 0.0}),
            minimize(fun, jnp.zeros(30), method=METHOD.upper(),
                     options={"maxcor": 6, "gtol": 1e-5, "ftol": 0.0})))(start)
    wanted = so.minimize(so.rosen, start, jac=so.rosen_der, method="L-BFGS-B")
    assert bool(found.success) and int(found.status) == 0 and found.hess_inv is None
    np.testing.assert_allclose(found.x, wanted.x, atol=1e-4)
    np.testing.assert_allclose(found.fun, 0, atol=1e-9)
    assert int(found.nit) < 4 * wanted.nit and int(found.nfev) >= int(found.nit)
    assert bool(other.success) and np.abs(other.jac).max() < 1e-5
    np.testing.assert_allclose(other.x, best, atol=2e-5)


def test_complex_numbers_and_batches() -> None:
    """|z - a|^2 weighed: jac is what grad gives; rows of a batch end for themselves."""
    a, w = np.array([1, 2 - 3j, -5j], np.complex64), np.array([1, 5, 30], np.float32)
    f = lambda z: jnp.sum(w * jnp.abs(z - a) ** 2)  # noqa: E731
    found = minimize(f, jnp.zeros(3, np.complex64), method=METHOD)
    np.testing.assert_allclose(found.x, a, atol=1e-4)
    early = minimize(f, jnp.ones(3, np.complex64), method=METHOD, options={"maxiter": 1})
    np.testing.assert_allclose(early.jac, calque.grad(f)(early.x), rtol=1e-4)
    best = calque.vmap(lambda c: minimize(lambda x: jnp.sum((x - c) ** 4), jnp.zeros(2),
                                          method=METHOD, tol=1e-6).x)(jnp.arange(3.0))
    np.testing.assert_allclose(best, np.arange(3.0)[:, None] * np.ones(2), atol=0.02)


@pytest.mark.parametrize("options, status", [
    ({"maxiter": 2}, 1), ({"maxfun": 3}, 2), ({"maxgrad": 3}, 3), ({"ftol": 1e6}, 4),
    ({"gtol": 1e6}, 0), ({"maxls": 0}, 5)])
def test_why_it_ends(options: dict[str, Any], status: int) -> None:
    found = minimize(rosenbrock, jnp.array([-1.2, 1.0]), method=METHOD, options=options)
    assert int(found.status) == status and bool(found.success) == (status == 0)
    np.testing.assert_allclose(found.fun, rosenbrock(found.x), rtol=1e-5)


def test_errors() -> None:
    with pytest.raises(ValueError, match="unknown option 'maxcor'"):
        minimize(rosenbrock, jnp.zeros(2), method="BFGS", options={"maxcor": 3})
    with pytest.raises(ValueError, match="x0 must be a vector of real numbers"):
        minimize(rosenbrock, jnp.zeros(2, complex), method="BFGS")
