"""calque.scipy against SciPy: special functions, their derivatives, and linear algebra."""
from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
import scipy.linalg as sl
import scipy.special as ss
from support.harness import both_ways, by_each, numpys

import calque
from calque.scipy import linalg, special

R = np.random.default_rng(0)
X = np.concatenate([R.standard_normal(20) * 3, [0.0, 1.0, -1.0, 0.5]])
P = R.random(24)
A = np.abs(X) + 0.1
# functions with a body of their own; those that are one primitive have their examples
CASES: dict[str, tuple[Any, ...]] = {
    "logit": (P,), "i1": (X,), "gamma": (X[X != -1] + 0.01,), "gammasgn": (X + 0.01,),
    "betaln": (A, P), "beta": (A, P), "factorial": (A,), "poch": (A, P), "xlogy": (X, A),
    "xlog1py": (X, A), "entr": (X,), "rel_entr": (X, A), "kl_div": (A, P), "ndtr": (X,),
    "log_ndtr": (X * 8,), "ndtri": (P,), "boxcox": (A, X), "boxcox1p": (A, P)}
WIDE = ("ndtr", "log_ndtr", "ndtri", "boxcox")  # whose constants depend on the dtype


@pytest.mark.parametrize("wide, rtol, jit, names", [
    *[pytest.param(False, 1e-5, *p.values, marks=p.marks) for p in by_each(list(CASES), 0.2)],
    *[pytest.param(True, 1e-12, *p.values, marks=p.marks) for p in by_each(WIDE, 0.25)]])
def test_special(wide: bool, rtol: float, jit: Any, names: list[str]) -> None:
    """A few ulp of the primitives, times condition numbers of up to 20 (gamma, poch, boxcox)."""
    with calque.enable_x64(wide):
        kind = np.float64 if wide else np.float32
        args = [[np.asarray(a, kind) for a in CASES[n]] for n in names]
        got = jit(lambda args: [getattr(special, n)(*a) for n, a in zip(names, args)])(args)
        for name, a, out in zip(names, args, got):
            with np.errstate(all="ignore"):
                want = getattr(ss, name)(*[v.astype(np.float64) for v in a])
            np.testing.assert_allclose(np.asarray(out, np.float64), want, rtol=rtol, atol=rtol,
                                       err_msg=name)


@both_ways
def test_special_at_the_edges(jit: Any) -> None:
    p = np.array([0, 1e-30, 1e-10, 0.13, 0.14, 0.86, 0.87, 1, -1, 2, np.nan], np.float32)
    edge = np.array([0.0, 0.0, 0.0, np.inf, np.nan, -1.0], np.float32)
    other = np.array([0.0, np.nan, np.inf, 1.0, 0.0, 1.0], np.float32)
    cases = [("ndtri", (p,)), ("xlogy", (edge, other)), ("xlog1py", (edge, other)),
             ("entr", (edge,)), ("rel_entr", (edge[3:4], other[3:4])),
             ("gammasgn", (np.array([0.0, -0.0, -1.0, -1.5, np.nan], np.float32),))]
    got = jit(lambda: [getattr(special, n)(*a) for n, a in cases])()
    for (name, a), out in zip(cases, got):
        with np.errstate(all="ignore"):
            want = getattr(ss, name)(*[v.astype(np.float64) for v in a])
        np.testing.assert_allclose(out, want, rtol=1e-5, err_msg=name)
    found = jit(lambda x: special.multigammaln(x, 3))(np.float32(4))
    np.testing.assert_allclose(found, ss.multigammaln(4, 3), rtol=1e-6)
    with pytest.raises(TypeError, match="not supported"):
        special.ndtr(np.arange(3))
    with pytest.raises(NotImplementedError, match="exact"):
        special.factorial(3, exact=True)


@pytest.mark.slow
def test_bessel_jn() -> None:
    """Orders 0..v; near 0, at roots, at the largest |z|; derivatives by SciPy's."""
    z = np.array([0, 1e-30, -1e-30, 1e-5, 1.1e-4, 1e-3, 0.5, 2.404825557695773, 10, 49, -3, -12.5,
                  np.inf, np.nan])
    for kind, atol in ((np.float32, 2e-7), (np.float64, 2e-15)):
        with calque.enable_x64(True):
            x = z.astype(kind)
            for v in (0, 1, 30):
                got = np.asarray(special.bessel_jn(x, v=v))
                want = ss.jv(np.arange(v + 1)[:, None], x.astype(np.float64))
                want[:, -2:] = np.nan
                assert got.dtype == kind
                np.testing.assert_allclose(got, want, rtol=0, atol=atol)
                small = (abs(x) > 0) & (abs(x) < 0.1)  # digits of the least values, too
                np.testing.assert_allclose(got[:2, small], want[:2, small], rtol=4 * atol)

    def total(x: Any) -> Any:
        return special.bessel_jn(x, v=3).sum()

    with calque.enable_x64(True):
        for k, f in ((1, calque.grad(total)), (2, calque.grad(calque.grad(total)))):
            want = sum(ss.jvp(i, 1.5, k) for i in range(4))
            np.testing.assert_allclose(np.asarray(f(1.5)), want, rtol=1e-13)
    assert float(calque.grad(total)(0.0)) == 0.5
    assert special.bessel_jn(np.zeros((0, 3), np.float16), v=1).shape == (2, 0, 3)
    with pytest.raises(TypeError, match="must be integers"):
        special.bessel_jn(1.0, v=2.0)
    with pytest.raises(TypeError, match="must be real"):
        special.bessel_jn(1j, v=2)
    with pytest.raises(ValueError, match="not be negative"):
        special.bessel_jn(1.0, v=-1)


@both_ways
def test_derivatives_of_special(jit: Any) -> None:
    """Rules of their own, against central differences in float64."""
    h = 1e-6
    names = ["entr", "logit", "ndtr", "log_ndtr", "ndtri"]
    with calque.enable_x64(True):
        x = np.array([0.2, 0.7])

        def run(x: Any) -> list[Any]:
            fs = [getattr(special, n) for n in names]
            return [(calque.vmap(calque.grad(f))(x), (f(x + h) - f(x - h)) / (2 * h)) for f in fs]

        for name, (exact, about) in zip(names, jit(run)(x)):
            np.testing.assert_allclose(exact, about, rtol=1e-7, err_msg=name)
        dx, dy = jit(calque.grad(special.xlogy, (0, 1)))(0.0, 2.0)
        assert float(dx) == pytest.approx(np.log(2)) and float(dy) == 0


@pytest.mark.parametrize("jit, chosen", [
    (numpys, range(24)), (calque.jit, (0, 2, 6, 11, 14, 22)), pytest.param(calque.jit, (
        1, 3, 4, 5, 7, 8, 9, 10, 12, 13, 15, 16, 17, 18, 19, 20, 21, 23), marks=pytest.mark.slow)])
def test_linalg(jit: Any, chosen: Sequence[int]) -> None:
    a = R.standard_normal((4, 4)).astype(np.float32)
    b, c = R.standard_normal((4, 3)).astype(np.float32), R.standard_normal(4).astype(np.float32)
    s = a @ a.T + 4 * np.eye(4, dtype=np.float32)
    z = (a + 1j * a.T).astype(np.complex64)
    cases: list[Callable[[Any], Any]] = [
        lambda m: m.solve_triangular(a, b), lambda m: m.solve_triangular(a, c, lower=True),
        lambda m: m.solve_triangular(a, b, trans="T", unit_diagonal=True),
        lambda m: m.solve_triangular(z, b.astype(np.complex64), trans=2),
        lambda m: m.cholesky(s), lambda m: m.cholesky(s, lower=True),
        lambda m: m.cho_solve(m.cho_factor(s), b),
        lambda m: m.cho_solve(m.cho_factor(s, lower=True), c), lambda m: m.lu(a)[0],
        lambda m: m.lu(a)[2], lambda m: m.lu(b, permute_l=True)[0],
        lambda m: m.lu_solve(m.lu_factor(a), b), lambda m: m.lu_solve(m.lu_factor(z), c, trans=2),
        lambda m: m.solve(s, b, assume_a="pos"), lambda m: m.solve(a, c), lambda m: m.inv(s),
        lambda m: m.det(a), lambda m: m.svd(b, compute_uv=False),
        lambda m: m.eigh(s, eigvals_only=True), lambda m: m.expm(a), lambda m: m.expm(z * 3),
        lambda m: m.expm(a * 1e-3), lambda m: m.block_diag(b, c, 2),
        lambda m: m.toeplitz(c, b[:, 0])]
    for i, out in zip(chosen, jit(lambda: [cases[j](linalg) for j in chosen])()):
        want = cases[i](sl)
        # conditions of a few hundred; expm squares up to 8 times
        np.testing.assert_allclose(out, want, rtol=2e-3, atol=2e-4 * np.abs(want).max(),
                                   err_msg=str(i))
    with pytest.raises(ValueError, match="trans"):
        linalg.solve_triangular(a, b, trans="X")


def test_a_vector_for_each_matrix() -> None:
    """b with one axis less than the matrices is a batch of vectors, as in JAX, square or not."""
    a = R.standard_normal((3, 3, 3)).astype(np.float32)
    s = a @ np.swapaxes(a, 1, 2) + 3 * np.eye(3, dtype=np.float32)
    b = R.standard_normal((3, 3)).astype(np.float32)
    low = np.linalg.cholesky(s)

    def run() -> list[Any]:
        return [linalg.solve_triangular(low, b, lower=True), linalg.cho_solve((low, True), b),
                linalg.lu_solve(linalg.lu_factor(s), b), linalg.solve(s, b, assume_a="pos"),
                linalg.cho_solve((low[:2], True), b[:1]), linalg.solve(s, b)]

    each = [np.linalg.solve(m, v) for m, v in zip(s, b)]
    wants = [[np.linalg.solve(m, v) for m, v in zip(low, b)], each, each, each,
             [np.linalg.solve(m, b[0]) for m in s[:2]], np.linalg.solve(s, b[None])]
    for out, want in zip(numpys(run)(), wants):
        np.testing.assert_allclose(out, want, rtol=1e-4, atol=1e-5)
    assert linalg.solve_triangular(low, b[:, :2], lower=True).shape == (3, 3, 2)
    with pytest.raises(TypeError, match="incompatible shapes"):
        linalg.solve_triangular(low[:2], b)


@both_ways
def test_exponentials_beyond_the_range(jit: Any) -> None:
    a = R.standard_normal((4, 4)).astype(np.float32)
    assert np.isnan(np.asarray(jit(linalg.expm)(a * 1e9))).all()
