"""scipy.linalg: matrices of a pattern, functions of matrices and Sylvester's equation, against
SciPy and the equations that they solve."""
from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from support.harness import both_ways

import calque
import calque.numpy as jnp
from calque.scipy import linalg as ours

theirs = pytest.importorskip("scipy.linalg")
RNG = np.random.default_rng(0)
PLAIN = RNG.uniform(-1, 1, (5, 5)) + 2 * np.eye(5)  # eigenvalues right of 0: a root is smooth
COMPLEX = PLAIN + 1j * RNG.uniform(-1, 1, (5, 5))


@pytest.fixture(autouse=True)
def x64() -> Any:
    with calque.enable_x64(True):
        yield


def same(found: Any, expected: Any, tol: float = 1e-12) -> None:
    """In float64: within the rounding of a few hundred operations."""
    expected = np.asarray(expected)
    assert found.shape == expected.shape
    np.testing.assert_allclose(found, expected, rtol=tol, atol=tol * max(
        1, np.abs(expected).max(initial=0)))


@pytest.mark.parametrize("name, args", [
    ("circulant", ([1.0, 2, 3],)), ("circulant", ([4],)), ("companion", ([2.0, -10, 31, -30],)),
    ("companion", ([2.0, 3],)), ("fiedler", ([1, 4, 12, 45, 77],)),
    *[("fiedler_companion", (list(range(3, 3 + n)),)) for n in (2, 3, 4, 5, 6, 9)],
    *[("convolution_matrix", ([1, 2, 3], n, mode)) for n in (1, 2, 3, 5)
      for mode in ("full", "same", "valid")],
    *[("dft", (n, scale)) for n in (1, 2, 7) for scale in (None, "sqrtn", "n")],
    ("hadamard", (8,)), ("hadamard", (4, "float32")), ("hadamard", (2, complex)),
    ("hankel", ([1, 2, 3],)), ("hankel", ([1, 2, 3], [3.5, 4])), ("helmert", (5,)),
    ("helmert", (4, True)), ("helmert", (1,)), ("hilbert", (4,)),
    ("leslie", ([0.1, 2.0, 1.0], [0.2, 0.8])),
    *[(f, (n, kind)) for f in ("pascal", "invpascal") for n in (1, 6)
      for kind in ("symmetric", "lower", "upper")], ("invhilbert", (7,))])
def test_pattern(name: str, args: Any) -> None:
    given = [np.array(a) if isinstance(a, list) else a for a in args]
    same(getattr(ours, name)(*given), getattr(theirs, name)(*given))


@pytest.mark.parametrize("name", ["dft", "hilbert", "invhilbert", "pascal", "invpascal"])
def test_size_0(name: str) -> None:
    assert getattr(ours, name)(0).shape == (0, 0)


@pytest.mark.slow
def test_a_size_too_large() -> None:
    """Beyond the range of the dtype: infinity, no error."""
    assert ours.pascal(520)[-1, -1] == np.inf


def test_large_sizes() -> None:
    """Below the end of the range: exact."""
    a = ours.invhilbert(12) @ ours.hilbert(12)
    assert np.abs(np.diag(a) - 1).max() < 1  # the product of exact integers and rounded fractions
    assert float(ours.invhilbert(12)[3, 4]) == float(theirs.invhilbert(12, exact=True)[3, 4])


def test_batches_of_patterns() -> None:
    x = jnp.arange(6.0).reshape(2, 3) + 1
    for f in (ours.circulant, ours.companion, ours.fiedler, ours.fiedler_companion, ours.hankel,
              lambda v: ours.convolution_matrix(v, 2), lambda v: ours.leslie(v, v[..., :2])):
        np.testing.assert_array_equal(f(x), np.stack([f(v) for v in x]))


def test_dtypes() -> None:
    with calque.enable_x64(False):
        assert ours.hadamard(2).dtype == np.int32
        assert ours.dft(2).dtype == np.complex64
        assert ours.pascal(2).dtype == ours.helmert(2).dtype == np.float32
        assert ours.hankel(jnp.array([1]), jnp.array([1.5])).dtype == np.float32
        assert ours.companion(jnp.array([1, 2])).dtype == np.float32
        assert calque.eval_shape(ours.sqrtm, jnp.eye(2)).dtype == np.complex64


@pytest.mark.slow
@pytest.mark.parametrize("a", [PLAIN, COMPLEX])
def test_complex_forms_of_many(a: Any) -> None:
    real = ours.schur(a)[0]
    t = ours.rsf2csf(*ours.schur(a))[0]
    many, ones = ours.rsf2csf(np.stack([real] * 2), np.eye(5))
    same(many[1], t)
    same(ones[1] @ many[1] @ ones[1].conj().T, real)


ALSO_COMPLEX = pytest.mark.parametrize("a", [PLAIN, pytest.param(COMPLEX, marks=pytest.mark.slow)])


@pytest.mark.slow
@pytest.mark.parametrize("a, output", [
    (PLAIN, "complex"), (COMPLEX, "real"), (COMPLEX, "complex")])
def test_complex_schur_forms(a: Any, output: str) -> None:
    t, z = ours.schur(a, output)
    same(z @ t @ z.conj().T, a)
    same(z @ z.conj().T, np.eye(5))
    assert np.all(np.tril(t, -1) == 0)


@both_ways
@ALSO_COMPLEX
def test_factors(a: Any, jit: Any) -> None:
    (real, z), (t, w), (h, q), only = jit(lambda a: (
        ours.schur(a), ours.rsf2csf(*ours.schur(a)), ours.hessenberg(a, calc_q=True),
        ours.hessenberg(a)))(a)
    same(z @ real @ z.conj().T, a)
    same(z @ z.conj().T, np.eye(5))
    same(w @ t @ w.conj().T, a)
    assert np.all(np.tril(t, -1) == 0)
    same(q @ h @ q.conj().T, a)
    assert np.all(np.tril(h, -2) == 0) and np.array_equal(h, only)


@both_ways
@ALSO_COMPLEX
def test_polar(a: Any, jit: Any) -> None:
    cases = [(b, side, method) for b, side in ((a, "right"), (a[:, :3], "right"), (a[:2], "left"))
             for method in ("qdwh", "svd")]
    found = jit(lambda bs: [ours.polar(b, side, method=method)
                            for b, (_, side, method) in zip(bs, cases)])([b for b, *_ in cases])
    for (u, p), (b, side, _) in zip(found, cases, strict=True):
        same(u, theirs.polar(b, side)[0])
        same(p, theirs.polar(b, side)[1])


@both_ways
@pytest.mark.parametrize("shape", [
    (5, 3), *[pytest.param(s, marks=pytest.mark.slow) for s in ((5, 5), (3, 5))]])
def test_qr(shape: tuple[int, int], jit: Any) -> None:
    a = COMPLEX[:shape[0], :shape[1]]
    k = min(shape)
    products = [(COMPLEX[:2, :shape[0]], "right"), (COMPLEX[0, :shape[0]], "right"),
                (COMPLEX[:k, :2], "left"), (COMPLEX[:k, 0], "left")]
    plain, pivoted, only, multiplied, conjugated = jit(lambda a: (
        [ours.qr(a, mode=mode) for mode in ("full", "economic")],
        [ours.qr(a, mode=mode, pivoting=True) for mode in ("full", "economic")],
        ours.qr(a, mode="r"), [ours.qr_multiply(a, *args) for args in products],
        ours.qr_multiply(a, COMPLEX[:k], "left", conjugate=True)))(a)
    for mode, (q, r), (pivoted_q, pivoted_r, p) in zip(("full", "economic"), plain, pivoted):
        same(q @ r, a)
        assert r.shape == theirs.qr(a, mode=mode)[1].shape
        same(pivoted_q @ pivoted_r, a[:, np.asarray(p)])
        assert np.array_equal(p, theirs.qr(a, pivoting=True)[2])
    assert only[0].shape == shape
    q, r = plain[1]
    for (c, mode), (found, other) in zip(products, multiplied, strict=True):
        same(found, c @ q if mode == "right" else q @ c)
        same(other, r)
    same(conjugated[0], np.conj(q) @ COMPLEX[:k])


def test_eigh_tridiagonal() -> None:
    d, e = RNG.normal(size=40), RNG.normal(size=39)
    w, v = map(np.asarray, ours.eigh_tridiagonal(d, e))
    same(w, theirs.eigh_tridiagonal(d, e, eigvals_only=True))
    same((np.diag(d) + np.diag(e, 1) + np.diag(e, -1)) @ v, v * w)
    part, columns = ours.eigh_tridiagonal(d, e, select="i", select_range=(3, 7))
    assert np.array_equal(part, w[3:8]) and np.array_equal(columns, v[:, 3:8])
    assert ours.eigh_tridiagonal(d[:1], e[:0], eigvals_only=True)[0] == d[0]
    turned = ours.eigh_tridiagonal(d + 0j, e * 1j, eigvals_only=True)
    same(turned, w)


@pytest.mark.parametrize("a", [
    PLAIN, *[pytest.param(a, marks=pytest.mark.slow) for a in (COMPLEX, PLAIN[:1, :1])]])
@both_ways
def test_functions(a: Any, jit: Any) -> None:
    root, (found, error) = jit(lambda a: (ours.sqrtm(a), ours.funm(a, jnp.exp, disp=False)))(a)
    value, along = jit(lambda a: ours.expm_frechet(a, a.T))(a)
    only = jit(lambda a: ours.expm_frechet(a, a.T, compute_expm=False))(a)
    same(root, theirs.sqrtm(a))
    same(root @ root, a)
    same(found, theirs.expm(a), 1e-11)  # Parlett's recurrence divides by differences
    assert error < 1e-11
    expected = theirs.expm_frechet(a, a.T)
    same(value, expected[0])
    same(along, expected[1])
    assert np.array_equal(along, only)


@pytest.mark.slow
@pytest.mark.parametrize("method", ["schur", "eigen"])
@pytest.mark.parametrize("a", [PLAIN, COMPLEX])
def test_sylvester(a: Any, method: str) -> None:
    b, c = RNG.uniform(-1, 1, (3, 3)) + 3 * np.eye(3), RNG.normal(size=(5, 3))
    x = ours.solve_sylvester(a, b, c, method=method)
    assert np.iscomplexobj(x) == np.iscomplexobj(a)
    same(a @ x + x @ b, c, 1e-11)
    assert np.isnan(ours.solve_sylvester(np.eye(2), -np.eye(2), np.ones((2, 2)),
                                         method=method)).all()


@pytest.mark.parametrize("method", ["schur", pytest.param("eigen", marks=pytest.mark.slow)])
def test_sylvester_of_many(method: str) -> None:
    b = RNG.uniform(-1, 1, (3, 3)) + 3 * np.eye(3)
    stacked = np.asarray(ours.solve_sylvester(
        np.stack([PLAIN, PLAIN.T, np.eye(5)]), np.stack([b, b.T, -np.eye(3)]), np.ones((3, 5, 3)),
        method=method))
    same(PLAIN @ stacked[0] + stacked[0] @ b, np.ones((5, 3)), 1e-11)
    same(stacked[1], theirs.solve_sylvester(PLAIN.T, b.T, np.ones((5, 3))), 1e-11)
    # (SciPy's own solution of a complex A with a real B does not solve the equation)
    assert np.isnan(stacked[2]).all()


OF_ONE: dict[str, Any] = {
    "sqrtm": ours.sqrtm, "funm": lambda a: ours.funm(a, jnp.exp, disp=False),
    "schur": ours.schur, "rsf2csf": lambda a: ours.rsf2csf(*ours.schur(a)),
    "hessenberg": lambda a: ours.hessenberg(a, calc_q=True), "polar": ours.polar,
    "qr": lambda a: ours.qr(a, pivoting=True), "qr_multiply": lambda a: ours.qr_multiply(a, a),
    "expm_frechet": lambda a: ours.expm_frechet(a, a),
    "solve_sylvester": lambda a: ours.solve_sylvester(a, a, a),
    "eigh_tridiagonal": lambda a: ours.eigh_tridiagonal(jnp.diag(a), jnp.diag(a, 1)),
    "circulant": ours.circulant, "fiedler": ours.fiedler, "hankel": ours.hankel}


@pytest.mark.parametrize("names", [
    ["hessenberg", "fiedler"], *[
        pytest.param(names, marks=pytest.mark.slow) for names in (
            ["eigh_tridiagonal", "sqrtm", "schur", "qr", "expm_frechet"], list(OF_ONE)[1::2])]])
def test_jit_and_vmap(names: list[str]) -> None:
    """Of one matrix by jit, of two by vmap, as each by itself."""
    both = jnp.stack([PLAIN, PLAIN.T])

    def whole(a: Any) -> Any:
        return [OF_ONE[n](a) for n in names]

    alone = [calque.tree_util.tree_leaves(whole(a)) for a in both]
    jitted = calque.tree_util.tree_leaves(calque.jit(whole)(both[0]))
    mapped = calque.tree_util.tree_leaves(calque.jit(calque.vmap(whole))(both))
    for i, v in enumerate(jitted):
        same(v, alone[0][i])
        same(mapped[i], np.stack([a[i] for a in alone]))


@pytest.mark.parametrize("name", list(OF_ONE))
def test_no_elements(name: str) -> None:
    for v in calque.tree_util.tree_leaves(OF_ONE[name](jnp.zeros((0, 0)))):
        assert v.size == 0 or name == "funm"


@pytest.mark.parametrize("call, error, text", [
    (lambda: ours.companion(jnp.ones(1)), ValueError, "must be at least 2"),
    (lambda: ours.convolution_matrix(jnp.ones(2), 0), ValueError, "n must be a positive integer"),
    (lambda: ours.convolution_matrix(jnp.ones(2), 2, "x"), ValueError, "mode must be one of"),
    (lambda: ours.dft(2, "x"), ValueError, "scale must be None, 'sqrtn', or 'n'"),
    (lambda: ours.dft(2, dtype="float32"), ValueError, "complex floating-point"),
    (lambda: ours.hadamard(6), ValueError, "positive power of 2"),
    (lambda: ours.hankel(jnp.array(1)), ValueError, "at least 1-dimensional"),
    (lambda: ours.helmert(0), ValueError, "positive integer"),
    (lambda: ours.pascal(2, "x"), ValueError, "Expected kind"),
    (lambda: ours.leslie(jnp.ones(2), jnp.ones(2)), ValueError, "Incorrect lengths"),
    (lambda: ours.schur(jnp.eye(2), "x"), ValueError, "Expected 'output'"),
    (lambda: ours.schur(jnp.eye(2, dtype=int)), TypeError, "does not accept dtype"),
    (lambda: ours.hessenberg(jnp.ones((2, 3))), ValueError, "must have shape"),
    (lambda: ours.polar(jnp.eye(2), "x"), ValueError, "argument `side`"),
    (lambda: ours.polar(jnp.eye(2), "left"), NotImplementedError, "only supports mxn"),
    (lambda: ours.qr(jnp.eye(2), mode="raw"), ValueError, "Unsupported QR"),
    (lambda: ours.qr_multiply(jnp.eye(2), jnp.ones(3)), ValueError, "does not fit"),
    (lambda: ours.sqrtm(jnp.ones((2, 3))), ValueError, "square"),
    (lambda: ours.sqrtm(jnp.eye(2), 2), NotImplementedError, "Blocked version"),
    (lambda: ours.funm(jnp.ones(3), jnp.exp), ValueError, "expected square"),
    (lambda: ours.expm_frechet(jnp.eye(2), jnp.eye(3)), ValueError, "same shape"),
    (lambda: ours.eigh_tridiagonal(jnp.ones(2), jnp.ones(1), select="v"), NotImplementedError,
     "not implemented"),
    (lambda: ours.eigh_tridiagonal(jnp.ones(2), jnp.ones(2)), TypeError, "incompatible shapes"),
    (lambda: ours.rsf2csf(jnp.eye(2), jnp.eye(3)), ValueError, "shapes must match"),
    (lambda: ours.solve_sylvester(jnp.eye(2), jnp.eye(2), jnp.ones((3, 2))), ValueError,
     "Incompatible shapes"),
    (lambda: ours.solve_sylvester(jnp.eye(2), jnp.eye(2), jnp.eye(2), method="x"), ValueError,
     "Unrecognized method")])
def test_refused(call: Any, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text.replace("(", r"\(")):
        call()


@pytest.mark.parametrize("method", ["schur", "eigen"])
@pytest.mark.parametrize("a, b, c", [((3, 3), (4, 2, 2), (3, 2)), ((4, 3, 3), (2, 2), (3, 2)),
                                     ((3, 3), (2, 2), (4, 3, 2)),
                                     ((2, 1, 3, 3), (5, 2, 2), (3, 2))])
def test_sylvester_of_batches_that_are_broadcast(a: Any, b: Any, c: Any, method: str) -> None:
    A, B, C = (RNG.standard_normal(s) for s in (a, b, c))  # noqa: N806
    x = np.asarray(ours.solve_sylvester(A, B, C, method=method))
    assert x.shape == (*np.broadcast_shapes(a[:-2], b[:-2], c[:-2]), 3, 2)
    same(A @ x + x @ B, np.broadcast_to(C, x.shape), 1e-10)
