"""Triangular systems of a batch that share their matrix (passes/shared), beside NumPy."""
from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import calque
import calque.numpy as jnp
from calque import lax
from calque.core.program import Program, eliminate_dead_code
from calque.lowering.passes.legalize import legalize
from calque.scipy.stats import multivariate_normal

RNG = np.random.default_rng(5)


def systems(f: Any, *args: Any) -> list[tuple[int, ...]]:
    """The shapes of matrices of triangular systems."""
    p: Program = calque.make_jaxpr(f)(*args).jaxpr
    return [e.inputs[0].aval.shape for e in legalize(eliminate_dead_code(p)).equations
            if e.name == "triangular_solve"]


@pytest.mark.parametrize("lead", [(40,), (3, 5), (1,)])
@pytest.mark.parametrize("left", [True, False])
@pytest.mark.parametrize("dtype", ["float32", "complex64"])
def test_one_matrix(lead: tuple[int, ...], left: bool, dtype: str) -> None:
    n, m = 6, 2
    a = np.tril(RNG.standard_normal((n, n)) + 4 * np.eye(n)).astype(dtype)
    b = RNG.standard_normal((*lead, n, m) if left else (*lead, m, n)).astype(dtype)

    def f(a: Any, b: Any) -> Any:
        return lax.linalg.triangular_solve(jnp.broadcast_to(a, (*lead, n, n)), b, left_side=left,
                                           lower=True, transpose_a=True)

    assert systems(f, a, b) == [(n, n)]
    want = np.linalg.solve(a.T, b) if left else np.swapaxes(
        np.linalg.solve(a, np.swapaxes(b, -1, -2)), -1, -2)
    # six steps of single precision, of a matrix whose condition is below 10
    np.testing.assert_allclose(np.asarray(calque.jit(f)(a, b)), want, rtol=1e-4, atol=1e-5)


def test_a_matrix_each() -> None:
    a = (np.tril(RNG.standard_normal((7, 4, 4))) + 4 * np.eye(4)).astype("f4")
    b = RNG.standard_normal((7, 4, 1)).astype("f4")
    f = lambda a, b: lax.linalg.triangular_solve(a, b, left_side=True, lower=True)  # noqa: E731
    assert systems(f, a, b) == [(7, 4, 4)]
    np.testing.assert_allclose(np.asarray(calque.jit(f)(a, b)), np.linalg.solve(a, b), rtol=1e-4,
                               atol=1e-5)


def test_densities_of_many_points() -> None:
    a = RNG.standard_normal((4, 4))
    cov, x = a @ a.T + 4 * np.eye(4), RNG.standard_normal((300, 4))

    def f(x: Any, cov: Any) -> Any:
        return multivariate_normal.logpdf(x, jnp.zeros(4), cov)

    given = x.astype("f4"), cov.astype("f4")
    assert systems(f, *given) == [(4, 4)]
    want = -0.5 * (np.einsum("bi,ij,bj->b", x, np.linalg.inv(cov), x)
                   + np.linalg.slogdet(cov)[1] + 4 * np.log(2 * np.pi))
    np.testing.assert_allclose(np.asarray(calque.jit(f)(*given)), want, rtol=1e-4)
    points, matrix = calque.jit(calque.grad(lambda *a: f(*a).sum(), (0, 1)))(*given)
    inverse = np.linalg.inv(cov)
    np.testing.assert_allclose(np.asarray(points), -x @ inverse, rtol=1e-3, atol=1e-4)
    wanted = 0.5 * (inverse @ x.T @ x @ inverse - 300 * inverse)
    made = np.asarray(matrix)
    np.testing.assert_allclose((made + made.T) / 2, wanted, rtol=2e-3, atol=2e-2)
