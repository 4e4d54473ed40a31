"""numpy.linalg and lax.linalg against NumPy; their messages; derivatives by differences."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from support.harness import both_ways, by_each

import calque
import calque.numpy as jnp
from calque import lax

pytestmark = pytest.mark.usefixtures("x64")
RNG = np.random.default_rng(3)
A = RNG.standard_normal((4, 4)) + 3 * np.eye(4)
BATCH = RNG.standard_normal((2, 3, 5, 5)) + 4 * np.eye(5)
COMPLEX = RNG.standard_normal((3, 3)) + 1j * RNG.standard_normal((3, 3)) + 3 * np.eye(3)
LARGE = RNG.standard_normal((140, 140)) + 12 * np.eye(140)
V = RNG.standard_normal(4)
CLOSE = 1e-11  # residuals of well conditioned systems in f64: some hundred roundings of 1e-16

VALUES: list[tuple[str, Callable[[Any], Any]]] = [
    *[(f"{f} {i}", lambda m, f=f, x=x: getattr(m.linalg, f)(x))
      for f in ("inv", "det", "slogdet") for i, x in enumerate((A, BATCH, COMPLEX, LARGE))],
    *[(f"small det {n}", lambda m, n=n: m.linalg.det(A[:n, :n])) for n in (0, 1, 2, 3)],
    ("solve vector", lambda m: m.linalg.solve(A, V)),
    ("solve matrix", lambda m: m.linalg.solve(BATCH, np.ones((3, 5, 2)))),
    ("solve one for all", lambda m: m.linalg.solve(A, np.ones((3, 4, 2)))),
    ("solve vector for all", lambda m: m.linalg.solve(BATCH, np.arange(5.0))),
    ("solve nothing", lambda m: m.linalg.solve(np.ones((0, 0)), np.ones((0, 2)))),
    ("cholesky", lambda m: m.linalg.cholesky(A @ A.T)),
    ("cholesky upper", lambda m: m.linalg.cholesky(COMPLEX @ COMPLEX.conj().T, upper=True)),
    *[(f"power {n}", lambda m, n=n: m.linalg.matrix_power(A, n)) for n in (-3, 0, 1, 2, 7)],
    ("integer power", lambda m: m.linalg.matrix_power(np.array([[1, 2], [3, 4]]), 5)),
    *[(f"matrix norm {p}", lambda m, p=p: m.linalg.norm(BATCH, p, (-2, -1)))
      for p in (None, "fro", 1, -1, np.inf, -np.inf)],
    *[(f"vector norm {p}", lambda m, p=p: m.linalg.norm(COMPLEX, p, 0))
      for p in (None, 0, 1, 2, 3.5, -1, np.inf, -np.inf)],
    ("norm of all", lambda m: m.linalg.norm(BATCH)),
    ("norm kept", lambda m: m.linalg.norm(BATCH, 1, (0, 2), True)),
    ("vector_norm", lambda m: m.linalg.vector_norm(BATCH, axis=(0, 3), ord=3)),
    ("matrix_norm", lambda m: m.linalg.matrix_norm(BATCH, ord=1, keepdims=True)),
    *[(f"cond {p}", lambda m, p=p: m.linalg.cond(A, p)) for p in ("fro", 1, np.inf, -1)],
    ("multi_dot", lambda m: m.linalg.multi_dot([V, A, np.ones((4, 9)), np.ones((9, 2))])),
    ("cross", lambda m: m.linalg.cross(BATCH[..., :3, 0], np.arange(3.0))),
    ("outer", lambda m: m.linalg.outer(V, V)),
    ("trace", lambda m: m.linalg.trace(BATCH, offset=1)),
    ("diagonal", lambda m: m.linalg.diagonal(BATCH, offset=-1)),
    ("matrix_transpose", lambda m: m.linalg.matrix_transpose(BATCH)),
    ("vecdot", lambda m: m.linalg.vecdot(COMPLEX, COMPLEX)),
    ("matmul", lambda m: m.linalg.matmul(A, V)),
    ("tensordot", lambda m: m.linalg.tensordot(A, A, axes=1))]


def kind(case: tuple[str, Any]) -> str:
    """A word; factorizations are long to compile."""
    return "factors" if case[0].startswith(("inv", "slogdet", "cond", "solve", "power")) else (
        case[0].split()[0][:6])


@pytest.mark.parametrize("jit, cases", by_each(VALUES, 0.1, kind))
def test_values_equal_numpys(jit: Any, cases: list[tuple[str, Callable[[Any], Any]]]) -> None:
    def every() -> list[Any]:
        return [tuple(calque.tree_util.tree_leaves(f(jnp))) for _, f in cases]

    wrong = []
    for (name, f), outs in zip(cases, jit(every)()):
        want = f(np)
        wants = want if isinstance(want, tuple) else (want,)
        for o, w in zip(outs, wants, strict=True):
            g, w = np.asarray(o), np.asarray(w)
            if g.shape != w.shape or not np.allclose(g, w, CLOSE, CLOSE):
                wrong.append(f"{name}: {g} instead of {w}")
    assert not wrong, "\n".join(wrong)


@both_ways
@pytest.mark.parametrize("f", [
    jnp.linalg.inv, jnp.linalg.det, lambda a: jnp.linalg.solve(a, V),
    lambda a: jnp.linalg.slogdet(a).logabsdet, lambda a: jnp.linalg.cholesky(a @ a.T)])
def test_derivatives_by_differences(f: Any, jit: Any) -> None:
    u, step = np.random.default_rng(1).standard_normal((4, 4)), 1e-6
    _, tangent = jit(lambda a, u: calque.jvp(f, (a,), (u,)))(A, u)
    want = (np.asarray(jit(f)(A + step * u)) - np.asarray(jit(f)(A - step * u))) / (2 * step)
    np.testing.assert_allclose(np.asarray(tangent), want, 1e-6, 1e-7)  # step^2 and 1e-16 / step


def test_where_factorizations_fail_there_is_nan_or_inf() -> None:
    factor, log, det, cond = calque.jit(lambda a, zero, zeros, ones: (
        jnp.linalg.cholesky(a), jnp.linalg.slogdet(zero).logabsdet, jnp.linalg.det(zeros),
        jnp.linalg.cond(ones, 1)))(
            np.array([[1.0, 2], [2, 1]]), np.zeros((2, 2)), np.zeros((5, 5)), np.ones((2, 2)))
    assert np.isnan(factor[1, 1]) and np.isinf(log) and det == 0 and np.isinf(cond)


ERRORS: list[tuple[Callable[[], Any], type[Exception], str]] = [
    (lambda: jnp.linalg.solve(A, np.ones(3)), ValueError, "inconsistent size for core dimension"),
    (lambda: jnp.linalg.solve(V, V), ValueError, "at least two dimensional"),
    (lambda: jnp.linalg.inv(V), ValueError, "must have shape"),
    (lambda: jnp.linalg.matrix_power(A, 1.5), TypeError, "exponent must be an integer"),
    (lambda: jnp.linalg.norm(A, "x"), ValueError, "Invalid order 'x' for matrix norm"),
    (lambda: jnp.linalg.norm(V, "fro"), ValueError, "Invalid order 'fro' for vector norm"),
    (lambda: jnp.linalg.norm(A.astype("f2"), 2), NotImplementedError, "Unsupported dtype"),
    (lambda: jnp.linalg.norm(BATCH, 1), ValueError, "Improper number of axes"),
    (lambda: jnp.linalg.inv(A.astype("f2")), NotImplementedError, "Unsupported dtype float16"),
    (lambda: lax.linalg.cholesky(np.ones((2, 3))), TypeError, "incompatible shapes"),
    (lambda: lax.linalg.lu(np.ones((2, 2), int)), TypeError, "does not accept dtype int64"),
    (lambda: lax.linalg.triangular_solve(A, np.ones((3, 2)), left_side=True), ValueError,
     "Incompatible shapes for arguments to triangular_solve"),
    (lambda: lax.linalg.lu_pivots_to_permutation(np.array([1, 2], "i4"), 1), ValueError,
     "has to exceed the trailing dimension")]


@pytest.mark.parametrize("case", ERRORS)
def test_messages(case: Any) -> None:
    f, kind, text = case
    with pytest.raises(kind, match=text):
        f()


# ---- derivatives of determinants of singular matrices
def cofactors(a):
    n = len(a)
    return np.array([[(-1) ** (i + j) * np.linalg.det(np.delete(np.delete(a, i, 0), j, 1))
                      for j in range(n)] for i in range(n)])


def test_the_gradient_of_det_is_that_of_the_adjugate() -> None:
    rng = np.random.default_rng(3)
    with calque.enable_x64(True):
        g = calque.jit(calque.grad(lambda a: jnp.linalg.det(a).sum()))
        for n in (4, 6):
            whole = rng.normal(size=(n, n))
            last, first, row, even = (whole.copy() for _ in range(4))
            last[:, -1] = last[:, 0] + last[:, 1]
            first[:, 0] = row[1] = 0
            even[:] = rng.integers(-2, 3, (n, n))
            even[:, 1] = 2 * even[:, 0]
            every = np.stack([whole, last, first, row, even, np.diag(np.arange(n)),
                              np.diag(np.arange(n)[::-1]), np.zeros((n, n)),
                              np.diag(np.maximum(np.arange(n) - 1, 0))])
            want = np.stack([cofactors(a) for a in every])
            np.testing.assert_allclose(g(every), want, atol=1e-11)
        holomorphic = calque.grad(jnp.linalg.det, holomorphic=True)
        c = whole[:4, :4] + 1j * rng.normal(size=(4, 4))
        np.testing.assert_allclose(holomorphic(c), (np.linalg.det(c) * np.linalg.inv(c)).T,
                                   rtol=1e-9)
        twice = calque.hessian(lambda x: jnp.linalg.det(jnp.eye(4) * x + 0.1))(1.3)
        np.testing.assert_allclose(float(twice), 12 * 1.3 ** 2 + 6 * 0.4 * 1.3, rtol=1e-10)


@pytest.mark.parametrize("shape", [(20_000, 2), (2, 20_000)])
def test_derivatives_of_pinv_make_nothing_of_the_longer_square(shape: tuple[int, int]) -> None:
    """Which would be 3 GB; both ways of joining the products, against differences."""
    a, t = RNG.standard_normal((2, *shape))
    _, moved = calque.jvp(jnp.linalg.pinv, (a,), (t,))
    step = 1e-6
    there, back = (np.linalg.pinv(a + s * t) for s in (step, -step))
    # of central differences: 1e-12 of truncation, 1e-16 / 1e-6 of rounding, of entries of 1e-4
    np.testing.assert_allclose(moved, (there - back) / (2 * step), rtol=0, atol=1e-11)


@pytest.mark.parametrize("ord", ["inf", "-inf", "abc"])
def test_orders_of_norms_that_are_no_numbers(ord: str) -> None:
    for x, what in ((V, "vector"), (A, "matrix")):
        with pytest.raises(ValueError, match=f"Invalid order '{ord}' for {what} norm"):
            jnp.linalg.norm(x, ord)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_eigenvectors_of_two_rows_are_lapacks(dtype: str, x64: None) -> None:
    """A closed form in batches: LAPACK's values, vectors and signs; nan where a matrix holds it."""
    draw = np.random.RandomState(0)
    a = draw.randn(300, 2, 2)
    a[100:] = draw.randint(-2, 3, (200, 2, 2))  # (diagonal, singular, equal on the diagonal)
    a[200:] *= 10.0 ** draw.randint(-30, 30, (100, 1, 1))
    a = (a + a.transpose(0, 2, 1)).astype(dtype)
    w, v = (np.asarray(x) for x in calque.jit(jnp.linalg.eigh)(a))
    known = np.linalg.eigh(a)
    size = np.maximum(np.abs(a).max((1, 2)), np.finfo(dtype).tiny)
    eps = float(np.finfo(dtype).eps)
    assert np.abs((w - known[0]) / size[:, None]).max() < 8 * eps
    assert (np.abs(v - known[1]).max((1, 2)) < 100 * eps).mean() > 0.99  # (but of near multiples)
    assert np.abs((a @ v - v * w[:, None]) / size[:, None, None]).max() < 8 * eps
    assert np.isnan(np.asarray(jnp.linalg.eigh(jnp.array([[1, np.nan], [np.nan, 1]]))[1])).all()
