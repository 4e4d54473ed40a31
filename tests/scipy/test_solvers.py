"""scipy.sparse.linalg, scipy.optimize, scipy.fft and special.expi against SciPy and mpmath."""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import mpmath
import numpy as np
import pytest
import scipy.fft as sf
import scipy.optimize as so
from support.harness import both_ways, by_each, numpys

import calque
import calque.numpy as jnp
from calque.scipy import fft, special
from calque.scipy.optimize import minimize
from calque.scipy.sparse import linalg as sl

R = np.random.default_rng(0)


def _ei(x: float) -> float:
    with mpmath.workdps(40):
        return float(mpmath.ei(mpmath.mpf(float(x))))


@pytest.mark.parametrize("jit, kind, rtol", [
    (numpys, np.float64, 4e-15), (numpys, np.float32, 2e-6), (calque.jit, np.float64, 4e-15),
    pytest.param(calque.jit, np.float32, 2e-6, marks=pytest.mark.slow)])
def test_expi(jit: Any, kind: Any, rtol: float) -> None:
    """About the root, at both sides of every border, far out; the derivative is e^x / x."""
    x = np.array([-700, -50, -3, -1.0001, -1, -0.5, -1e-3, -1e-30, 1e-30, 1e-3, 0.18, 0.3725,
                  0.37250742, 0.373, 0.56, 1, 5, 20, 41.9, 42.1, 80, 700])
    edges = np.array([0.0, np.inf, -np.inf, np.nan])
    with calque.enable_x64(True):
        v = x.astype(kind) if kind is np.float64 else x[np.abs(x) < 80].astype(kind)
        found, slope = jit(lambda v, e: (
            special.expi(jnp.concatenate([v, e])),
            calque.vmap(calque.grad(special.expi))(v)))(v, edges.astype(kind))
    got, edge = found[:-4], found[-4:]
    np.testing.assert_allclose(got, [_ei(e) for e in v], rtol=rtol)
    wide = v.astype(np.float64)
    np.testing.assert_allclose(slope, np.exp(wide) / wide, rtol=rtol)
    np.testing.assert_array_equal(edge, [-np.inf, np.inf, 0, np.nan])
    with pytest.raises(TypeError, match="complex64 is not supported"):
        special.expi(1j)


def _transforms() -> list[tuple[str, Any, dict[str, Any]]]:
    cases: list[tuple[str, Any, dict[str, Any]]] = []
    for n in (1, 2, 5, 8):
        x = R.standard_normal((2, n)).astype(np.float32)
        for norm in (None, "ortho"):
            cases += [(name, x, {"norm": norm}) for name in ("dct", "idct")]
    x = R.standard_normal((3, 4, 5)).astype(np.float32)
    for name in ("dctn", "idctn"):
        cases += [(name, x, {"s": (2, 7), "norm": "ortho"}), (name, x, {"axes": 1, "s": (6,)})]
    cases += [(name, x, {"n": n, "axis": 1}) for name, n in (("dct", 2), ("idct", 6))]
    return cases + [(name, (x + 1j * x[::-1]).astype(np.complex64), {"norm": "ortho"})
                    for name in ("dct", "idct", "dctn", "idctn")]


@pytest.mark.parametrize("jit, cases", by_each(_transforms(), 0.1, lambda c: c[0]))
def test_cosine_transforms(jit: Any, cases: list[tuple[str, Any, dict[str, Any]]]) -> None:
    """Every length to 9, cut and filled, both norms, halves, derivatives by the transpose."""
    got = jit(lambda xs: [getattr(fft, n)(x, **k) for (n, _, k), x in zip(cases, xs)])(
        [x for _, x, _ in cases])
    for (name, v, k), out in zip(cases, got):
        np.testing.assert_allclose(out, getattr(sf, name)(v, **k), rtol=1e-5, atol=1e-5,
                                   err_msg=f"{name} {v.shape} {k}")


def test_derivatives_of_cosine_transforms() -> None:
    row = R.standard_normal(5).astype(np.float32)
    change, back = calque.jit(lambda v: (
        calque.linearize(fft.dct, v)[1](v) - fft.dct(v),
        calque.grad(lambda v: fft.dct(v) @ np.arange(5))(v)))(row)
    np.testing.assert_allclose(change, 0, atol=1e-5)
    np.testing.assert_allclose(back, sf.dct(np.eye(5)).dot(np.arange(5)), rtol=1e-4, atol=1e-4)
    assert calque.eval_shape(fft.dct, row.astype(np.float16)).dtype == np.float16


def test_wrong_cosine_transforms() -> None:
    for error, match, call in (
            (NotImplementedError, "type 2", lambda: fft.dct(np.ones(3), type=1)),
            (ValueError, "norm must be", lambda: fft.idct(np.ones(3), norm="x")),
            (ValueError, "number of data points", lambda: fft.dct(np.ones(3), n=0)),
            (ValueError, "scalar", lambda: fft.dct(1.0)),
            (ValueError, "2 sizes for 1", lambda: fft.dctn(np.ones((3, 3)), s=(1, 2), axes=0))):
        with pytest.raises(error, match=match):
            call()


@pytest.mark.parametrize("jit, chosen", [
    (numpys, range(11)), (calque.jit, (7, 9, 10)),
    pytest.param(calque.jit, (0, 1, 2, 3, 4, 5, 6, 8), marks=pytest.mark.slow)],
    ids=["numpy", "some", "more"])
def test_iterative_solvers(jit: Any, chosen: Sequence[int]) -> None:
    """Matrices and functions of trees, from elsewhere, preconditioned, complex, singular spaces."""
    a = R.standard_normal((6, 6)).astype(np.float32) + 6 * np.eye(6, dtype=np.float32)
    spd = (a @ a.T).astype(np.float32)
    b = R.standard_normal(6).astype(np.float32)
    c = (a + 1j * R.standard_normal((6, 6))).astype(np.complex64)
    hermitian = (c @ c.conj().T).astype(np.complex64)
    inverse = np.diag(1 / np.diag(a)).astype(np.float32)

    def tree(v: Any) -> Any:
        return {"x": 2 * v["x"] + v["y"][:2], "y": 3 * v["y"]}

    def every(a: Any, b: Any) -> list[Any]:
        whole = {"x": jnp.ones(2), "y": jnp.arange(3.0)}
        cases = [lambda: sl.cg(spd, b, b, M=np.diag(1 / np.diag(spd)))[0],
                 lambda: sl.gmres(a, b, M=inverse, tol=1e-6)[0],
                 lambda: sl.bicgstab(a, b, M=inverse, tol=1e-6)[0],
                 lambda: sl.gmres(lambda v: a @ v, b, b, restart=2, tol=1e-6)[0],
                 lambda: sl.cg(hermitian, b + 0j, tol=1e-6)[0],
                 lambda: sl.gmres(c, b, tol=1e-6)[0], lambda: sl.bicgstab(c, b, tol=1e-6)[0],
                 lambda: sl.gmres(jnp.eye(6), b)[0], lambda: sl.cg(spd, 0 * b)[0],
                 lambda: sl.cg(spd, b, maxiter=0)[0],
                 lambda: sl.bicgstab(tree, whole, tol=1e-6)[0]["x"]]
        return [cases[i]() for i in chosen]

    got = jit(every)(a, b)
    x = np.linalg.solve(a.astype(float), b)
    s, z = np.linalg.solve(spd.astype(float), b), np.linalg.solve(c.astype(complex), b)
    h = np.linalg.solve(hermitian.astype(complex), b)
    y = (1 - np.arange(2) / 3) / 2
    want = [s, x, x, x, h, z, z, b, 0 * b, 0 * b, y]
    for i, g in zip(chosen, got, strict=True):
        np.testing.assert_allclose(g, want[i], rtol=2e-3, atol=2e-4, err_msg=str(i))


@both_ways
def test_what_iterative_solvers_say(jit: Any) -> None:
    spd, b = np.eye(6, dtype=np.float32) * 2, R.standard_normal(6).astype(np.float32)
    known = calque.eval_shape(lambda: sl.cg(spd, b))[1]
    for start, info in ((b, 0), (b * np.float32(np.nan), -1)):
        said = jit(lambda start: sl.gmres(jnp.eye(6), b, start, maxiter=1)[1])(start)
        assert (int(said), said.dtype, known) == (info, np.int32, None)


@both_ways
@pytest.mark.parametrize("solve", [sl.gmres, sl.bicgstab])
def test_derivatives_of_solvers(solve: Any, jit: Any) -> None:
    """By the right-hand side and by what the function captures, in both modes and under vmap."""
    a = R.standard_normal((4, 4)).astype(np.float32) + 5 * np.eye(4, dtype=np.float32)
    b = R.standard_normal(4).astype(np.float32)
    weights = np.arange(4.0, dtype=np.float32)
    x = np.linalg.solve(a.astype(float), b)
    back = np.linalg.solve(a.T.astype(float), weights)

    def total(solve: Any, a: Any, b: Any) -> Any:
        return solve(lambda v: a @ v, b, tol=1e-6)[0] @ weights

    by_a, by_b, moved = jit(lambda a, b: (
        *calque.grad(total, argnums=(1, 2))(solve, a, b),
        calque.jvp(lambda b: total(solve, a, b), (b,), (b,))[1]))(a, b)
    np.testing.assert_allclose(by_b, back, rtol=1e-3, atol=1e-4)
    np.testing.assert_allclose(by_a, -np.outer(back, x), rtol=1e-3, atol=1e-4)
    np.testing.assert_allclose(moved, x @ weights, rtol=1e-3, atol=1e-4)


def test_solvers_of_many_sides() -> None:
    a = R.standard_normal((4, 4)).astype(np.float32) + 5 * np.eye(4, dtype=np.float32)
    rows = calque.jit(calque.vmap(lambda b: sl.cg(a @ a.T, b, tol=1e-6)[0]))(np.eye(4, dtype="f4"))
    np.testing.assert_allclose(rows, np.linalg.inv((a @ a.T).astype(float)), rtol=1e-3, atol=1e-4)


def test_wrong_systems() -> None:
    for error, match, call in (
            (TypeError, "must be either a function or ndarray", lambda: sl.cg("A", np.ones(3))),
            (ValueError, "square matrix", lambda: sl.cg(np.ones((2, 3)), np.ones(3))),
            (ValueError, "matching shapes", lambda: sl.cg(np.eye(3), np.ones(3), np.ones(2))),
            (ValueError, "tree structure", lambda: sl.cg(np.eye(3), np.ones(3), [np.ones(3)])),
            (ValueError, "solve_method", lambda: sl.gmres(np.eye(3), np.ones(3),
                                                          solve_method="x"))):
        with pytest.raises(error, match=match):
            call()


@pytest.mark.parametrize("jit, chosen", by_each(range(6), 0.3))
def test_minimize(jit: Any, chosen: list[int], x64: None) -> None:
    """The minima that SciPy finds, in about its number of steps; inside jit, batched."""
    def rosenbrock(x: Any) -> Any:
        return jnp.sum(100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2)

    def himmelblau(x: Any) -> Any:
        return (x[0] ** 2 + x[1] - 11) ** 2 + (x[0] + x[1] ** 2 - 7) ** 2

    def quartic(x: Any, a: Any) -> Any:
        return jnp.sum((x - a) ** 4 + (x - a) ** 2)

    calls = [
        lambda: minimize(rosenbrock, jnp.array([-1.2, 1.0, 0.8]), method="BFGS"),
        lambda: minimize(himmelblau, jnp.ones(2), method="bfgs"),
        lambda: minimize(quartic, jnp.zeros(3), (3.0,), method="BFGS", tol=1e-8),
        lambda: minimize(himmelblau, jnp.ones(2), method="BFGS", options={"maxiter": 2}),
        lambda: minimize(lambda x: x[0], jnp.zeros(1), method="BFGS", options={"maxiter": 3}),
        lambda: calque.vmap(lambda a: minimize(
            lambda x: jnp.sum((x - a) ** 2), jnp.zeros(2), method="BFGS").x)(jnp.arange(3.0))]
    found = dict(zip(chosen, jit(lambda: [calls[i]() for i in chosen])()))
    for i, (f, x0) in enumerate(((rosenbrock, [-1.2, 1.0, 0.8]), (himmelblau, [1.0, 1.0]))):
        if i not in found:
            continue
        want = so.minimize(lambda x, f=f: float(f(jnp.asarray(x))), x0, method="BFGS")
        got = found[i]
        assert bool(got.success) and int(got.status) == 0
        np.testing.assert_allclose(got.x, want.x, atol=1e-4)
        assert int(got.nit) < 2 * want.nit and int(got.nfev) < 200
        assert float(jnp.abs(got.jac).max()) < 1e-5
    if 2 in found:
        np.testing.assert_allclose(found[2].x, 3.0, atol=1e-7)
    if 4 in found:
        assert not bool(found[4].success)
    if 3 in found:
        assert not bool(found[3].success) and int(found[3].status) == 1 and int(found[3].nit) == 2
    if 5 in found:
        np.testing.assert_allclose(found[5], np.arange(3)[:, None] * np.ones((1, 2)), atol=1e-6)


def test_wrong_minimize() -> None:
    f = jnp.sum
    for error, match, call in (
            (ValueError, "not recognized", lambda: minimize(f, np.ones(2), method="x")),
            (TypeError, "must be a tuple", lambda: minimize(f, np.ones(2), 3, method="BFGS")),
            (ValueError, "vector of real", lambda: minimize(f, np.ones((2, 2)), method="BFGS")),
            (ValueError, "unknown option", lambda: minimize(f, np.ones(2), method="BFGS",
                                                            options={"x": 1}))):
        with pytest.raises(error, match=match):
            call()
