"""Gradients of solvers of Hermitian systems, whose transpose is the conjugate: the oracle is
differences of NumPy's solution along a direction, sum(w * df) = sum(pullback(w) * direction)."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import calque
import calque.numpy as jnp
from calque.scipy import linalg
from calque.scipy.sparse.linalg import bicgstab, cg, gmres


def hermitian(m: Any) -> Any:
    return m @ m.T.conj() + 0.5 * np.eye(3)


SOLVERS: dict[str, Callable[[Any, Any], Any]] = {
    "pos": lambda a, b: linalg.solve(a, b, assume_a="pos"),
    "her": lambda a, b: linalg.solve(a, b, assume_a="her"),
    "cho_solve": lambda a, b: linalg.cho_solve(linalg.cho_factor(a), b),
    "cg": lambda a, b: cg(lambda x: a @ x, b, tol=1e-12)[0],
    "bicgstab": lambda a, b: bicgstab(lambda x: a @ x, b, tol=1e-12)[0],
    "gmres": lambda a, b: gmres(lambda x: a @ x, b, tol=1e-12)[0]}


@pytest.mark.parametrize("kind", [pytest.param(float, marks=pytest.mark.slow), complex])
def test_pullbacks(kind: type) -> None:
    rng = np.random.default_rng(0)

    def draw(*shape: int) -> Any:
        x = rng.normal(size=shape)
        return x + 1j * rng.normal(size=shape) if kind is complex else x

    m, b, dm, db, w, step = draw(3, 3), draw(3), draw(3, 3), draw(3), draw(3), 1e-5
    ahead, behind = [np.linalg.solve(hermitian(m + s * dm), b + s * db) for s in (step, -step)]
    wanted = np.sum(w * (ahead - behind) / (2 * step)).real

    def pulled(m: Any, b: Any) -> list[Any]:
        return [calque.vjp(lambda m, b, f=f: f(hermitian(m), b), m, b)[1](w)
                for f in SOLVERS.values()]

    with calque.enable_x64(True):
        for name, (gm, gb) in zip(SOLVERS, calque.jit(pulled)(m, b)):
            found = (jnp.sum(gm * dm) + jnp.sum(gb * db)).real
            np.testing.assert_allclose(found, wanted, rtol=1e-7, err_msg=name)


def test_operators_with_matmul_and_weak_types() -> None:
    class Operator:
        shape = (3, 3)

        def __matmul__(self, x: Any) -> Any:
            return 2 * x

    for solver in (cg, bicgstab, gmres):
        np.testing.assert_allclose(solver(Operator(), jnp.arange(9.0).reshape(3, 3))[0],
                                   np.arange(9.0).reshape(3, 3) / 2, rtol=1e-6)
        assert solver(lambda x: x, 1.0)[0].weak_type
        assert not solver(lambda x: x, jnp.ones(2))[0].weak_type
    with pytest.raises(TypeError, match="linear operator must be either a function or ndarray"):
        cg([[1]], jnp.zeros(1))


def test_custom_linear_solve_checks_shapes() -> None:
    same = lambda f, x: x  # noqa: E731
    for what, matvec, solve, back in (
            ("solve", same, lambda f, x: jnp.ones(2), same),
            ("transpose_solve", same, same, lambda f, x: jnp.ones(2)),
            ("matvec", lambda _, x: x * jnp.ones(2), same, same)):
        with pytest.raises(ValueError, match=rf"^{what}\(\) output shapes must match b"):
            calque.lax.custom_linear_solve(lambda x, f=matvec: f(None, x), 1.0, solve, back)
