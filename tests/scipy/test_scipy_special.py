"""The rest of scipy.special against SciPy in double precision and mpmath: wide ranges, edges,
dtypes, derivatives, refusals."""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import mpmath
import numpy as np
import pytest
from scipy import special as oracle
from scipy import stats as stats_oracle
from support.harness import both_ways, by_each, numpys

import calque
import calque.numpy as jnp
from calque.scipy import special, stats

INF, NAN = np.inf, np.nan


def _wide(n: int = 400) -> np.ndarray[Any, Any]:
    rng = np.random.default_rng(0)
    return np.concatenate([rng.uniform(0, 9, n), 10 ** rng.uniform(-8, 2, n),
                           10 ** rng.uniform(2, 6, n // 4)])


def _signed(x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    return x * np.where(np.arange(x.size) % 3, 1, -1)


def _near(got: Any, want: Any, eps: float, bound: float, absolute: float = 0.0) -> None:
    """Within bound eps of the value, or absolute eps of 1."""
    got, want = np.asarray(got), np.asarray(want)
    wide = np.complex128 if want.dtype.kind == "c" else np.float64
    inside = (np.abs(want) < 1e37) & (np.abs(want) > 1e-36)
    error = np.abs(got.astype(wide) - want)[inside]
    allowed = eps * (bound * np.abs(want[inside]) + absolute)
    worst = float((error / allowed).max())
    assert worst <= 1, worst
    np.testing.assert_array_equal(np.isnan(got), np.isnan(want))


def _mp(f: Any, *columns: Any) -> np.ndarray[Any, Any]:
    with mpmath.workdps(30):
        return np.array([float(f(*(mpmath.mpf(float(v)) for v in row))) for row in zip(*columns)])


# bounds in eps: float64 and float32; the worst that was found is in docs/special_functions.md
ONE_REAL = ("dawsn", "erfcx", "exp1", "spence", "fresnel", "sici")


@pytest.mark.parametrize("kind, jit, names", [
    *[pytest.param("float64", *p.values, marks=p.marks) for p in by_each(ONE_REAL, 0.15)],
    pytest.param("float32", calque.jit, ONE_REAL, marks=pytest.mark.slow)])
def test_functions_of_one_real_argument(kind: str, jit: Any, names: Sequence[str],
                                        x64: None) -> None:
    eps = float(np.finfo(kind).eps)
    x = _wide().astype(kind)
    s = _signed(x)
    given = {n: x if n in ("exp1", "spence") else s for n in names}
    if "erfcx" in names:
        given["erfcx"] = np.where(s < -8, -s, s)
    found = jit(lambda g: {n: getattr(special, n)(g[n]) for n in names})(given)
    wide = {n: v.astype(np.float64) for n, v in given.items()}
    some = slice(None, None, 5)  # (SciPy's dawsn has 50 eps)
    if "dawsn" in names:
        _near(np.asarray(found["dawsn"])[some], _mp(
            lambda x: mpmath.exp(-x * x) * mpmath.erfi(x) * mpmath.sqrt(mpmath.pi) / 2, s[some]),
            eps, 12)
    for name, bound in (("erfcx", 40), ("exp1", 8), ("spence", 20)):
        if name in names:
            _near(found[name], getattr(oracle, name)(wide[name]), eps, bound)
    if "fresnel" in names:
        small = np.abs(s) < 30  # SciPy's own phase is lost beyond
        for got, want in zip(found["fresnel"], oracle.fresnel(wide["fresnel"])):
            _near(np.asarray(got)[small], want[small], eps, 8 if kind == "float32" else 64)
    if "sici" in names:
        si, ci = found["sici"]
        _near(si, oracle.sici(wide["sici"])[0], eps, 8)
        exact = _mp(mpmath.ci, np.abs(s[some]))
        _near(np.asarray(ci)[some], exact, eps, 8, 8)  # it has zeros


SEVERAL = ("expn", "owens_t", "comb")


@pytest.mark.parametrize("kind, jit, names", [
    *[pytest.param("float64", *p.values, marks=p.marks) for p in by_each(SEVERAL, 0.3)],
    pytest.param("float32", calque.jit, SEVERAL, marks=pytest.mark.slow)])
def test_functions_of_several_arguments(kind: str, jit: Any, names: Sequence[str],
                                        x64: None) -> None:
    eps, rng, n = float(np.finfo(kind).eps), np.random.default_rng(1), 600
    order = rng.integers(0, 60, n).astype(kind)
    x = np.concatenate([rng.uniform(0, 9, n - 100), 10 ** rng.uniform(-5, 1.5, 100)]).astype(kind)
    h = (3 * rng.standard_normal(n)).astype(kind)
    a = (rng.standard_normal(n) * 10 ** rng.uniform(-2, 2, n)).astype(kind)
    many = np.floor(rng.uniform(0, 50, n)).astype(kind)
    few = np.floor(many * rng.random(n)).astype(kind)
    given = {"expn": (order, x), "owens_t": (h, a), "comb": (many, few)}
    bounds = {"expn": (50,), "owens_t": (100, 1), "comb": (400,)}
    found = jit(lambda given: {n: getattr(special, n)(*given[n]) for n in names})(given)
    for n in names:
        p, q = (v.astype(np.float64) for v in given[n])
        _near(found[n], getattr(oracle, n)(p.astype(int) if n == "expn" else p, q), eps,
              *bounds[n])


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["float32", "float64"])
def test_hypergeometric_functions(kind: str, x64: None) -> None:
    eps, rng, n = float(np.finfo(kind).eps), np.random.default_rng(1), 80
    p, q, r = rng.uniform(0.1, 8, (3, n)).astype(kind)
    x, u = rng.uniform(0, 30, n).astype(kind), rng.uniform(0, 0.95, n).astype(kind)
    cases = [(special.hyp1f1, mpmath.hyp1f1, (p, q, x), 60, 0),
             (special.hyp1f1, mpmath.hyp1f1, (p, p + q, -x), 400, 0),
             (special.hyp2f1, mpmath.hyp2f1, (p, q, r, u), 2000, 0),
             (special.hyp2f1, mpmath.hyp2f1, (p, q, r, -4 * u), 2000, 50)]  # it has zeros
    found = calque.jit(lambda given: [f(*v) for (f, *_), v in zip(cases, given)])(
        [c[2] for c in cases])
    for got, (_, exact, given, bound, absolute) in zip(found, cases):
        _near(got, _mp(exact, *given), eps, bound, absolute)


@pytest.mark.parametrize("kind, chosen", [
    ("complex128", (0,)), pytest.param("complex128", (1, 2), marks=pytest.mark.slow),
    pytest.param("complex64", (0, 1, 2), marks=pytest.mark.slow)])
def test_functions_of_complex_arguments(kind: str, chosen: tuple[int, ...], x64: None) -> None:
    eps, rng, n = float(np.finfo(kind).eps), np.random.default_rng(2), 600
    z = (np.concatenate([rng.uniform(-9, 9, n), 10 ** rng.uniform(-3, 5, n)])
         + 1j * np.concatenate([rng.uniform(-4, 9, n), 10 ** rng.uniform(-3, 5, n)])).astype(kind)
    g = np.concatenate([rng.uniform(-12, 12, n) + 1j * rng.uniform(-12, 12, n),
                        1.5 + 0.4 * rng.standard_normal(n) + 0.4j * rng.standard_normal(n)])
    g = g.astype(kind)
    found = calque.jit(lambda z, g: [
        (lambda: special.wofz(z), lambda: special.erfcx(-1j * z), lambda: special.loggamma(g))[i]()
        for i in chosen])(z, g)
    want = oracle.wofz(z.astype(np.complex128))
    for i, got in zip(chosen, found, strict=True):
        if i == 2:
            _near(got, oracle.loggamma(g.astype(np.complex128)), eps, 200, 60)
        else:  # below the real line the phase of exp(-z^2) has eps |z|^2
            _near(got, want, eps, 60 if kind == "complex64" else 120)


@pytest.mark.parametrize("jit, names", by_each(ONE_REAL, 0.3))
def test_edges_of_real_functions(jit: Any, names: list[str]) -> None:
    x = np.array([0.0, -0.0, INF, -INF, NAN, 1e-30, -1e-30, 1e20, -1.0], np.float32)
    half = np.pi / 2
    want: dict[str, Any] = {
        "dawsn": [0, -0.0, 0, -0.0, NAN, 1e-30, -1e-30, 5e-21, -0.5380795],
        "erfcx": [1, 1, 0, INF, NAN, 1, 1, 5.641896e-21, 5.00898],
        "exp1": [INF, INF, 0, NAN, NAN, 68.500337, NAN, 0, NAN],
        "spence": [1.644934, 1.644934, -INF, NAN, NAN, 1.644934, NAN, -1062.0244, NAN],
        "fresnel": ([0, 0, 0.5, -0.5, NAN, 0, 0, 0.5, -0.43825915],
                    [0, 0, 0.5, -0.5, NAN, 1e-30, -1e-30, 0.5, -0.7798934]),
        "sici": ([0, 0, half, -half, NAN, 1e-30, -1e-30, half, -0.9460831],
                 [-INF, -INF, 0, NAN, NAN, -68.500336, -68.500336])}
    made = jit(lambda x: {n: getattr(special, n)(x) for n in names})(x)
    for name in names:
        pair = name in ("fresnel", "sici")
        for i, (found, values) in enumerate(zip(made[name], want[name]) if pair else [
                (made[name], want[name])]):
            found = np.asarray(found)[:len(values)]
            np.testing.assert_allclose(found, np.float32(values), rtol=3e-7, err_msg=f"{name} {i}",
                                       atol=1e-38 if (name, i) == ("fresnel", 0) else 0)
        if name == "dawsn":
            np.testing.assert_array_equal(np.signbit(made[name][:4]), [False, True, False, True])


@both_ways
def test_edges_of_orders_and_parameters(jit: Any) -> None:
    f = np.float32
    expn, owens_t, comb = map(jit, (special.expn, special.owens_t, special.comb))
    repeated = jit(lambda n, k: special.comb(n, k, repetition=True))
    n = np.array([0, 1, 2, 0, 3, 60, 1, -1, 2.5, 2, 2, 5000], f)
    x = np.array([0, 0, 0, 1, 1e4, 0.5, -1, 1, 1, NAN, INF, 2], f)
    np.testing.assert_allclose(expn(n, x), f([
        INF, INF, 1, 0.36787945, 0, 0.01019233, NAN, NAN, NAN, NAN, 0, 2.706164e-5]),
        rtol=1e-6)
    h = np.array([0, 0, 1, -1, 1, INF, NAN, 1, 50, 0], f)
    a = np.array([1, -1, INF, 2, 0, 1, 1, NAN, 1, INF], f)
    np.testing.assert_allclose(owens_t(h, a), f([
        0.125, -0.125, 0.07932763, 0.0784682, 0, 0, NAN, NAN, 0, 0.25]), rtol=3e-7)
    np.testing.assert_allclose(
        comb(f([5, -1, 5, 5, 0, 10, 1e3, NAN]), f([2, 2, -1, 6, 0, 3, 500, 1])),
        [10, 0, 0, 0, 1, 120, INF, 0])
    np.testing.assert_allclose(repeated(f([5, 0, 0, 10]), f([2, 1, 0, 3])), [15, 0, 1, 220])


# rows of arguments and the value
EDGES = {
    "hyp1f1": [(1, 2, -150, 1 / 150), (-2, 3, 1.5, 0.1875), (2, -3, 1, INF), (0, 0, 1, 1),
               (-2, -3, 1, 11 / 6), (2, 2, 3, np.exp(3)), (1, 2, INF, INF), (1, 2, -INF, 0),
               (1, 2, 0, 1), (NAN, 1, 1, NAN), (5, 2, -30, -6.7281e-11)],
    "hyp2f1": [(1, 2, 3, 0, 1), (1, 2, 4, 1, 3), (1, 2, 3, 1, INF), (-2, 2, 3, 5, 6.8333333),
               (-1, 2, -3, 0.5, 4 / 3), (1, 2, -3, 0.5, INF), (0, 2, 3, 0.5, 1), (1, 2, 3, 2, INF),
               (1, 1, 2, -10, np.log(11) / 10), (2, 1, 2, 0.25, 4 / 3), (1, 2, 3, NAN, NAN),
               (0.5, 0.5, 1.5, -3, np.arcsinh(np.sqrt(3)) / np.sqrt(3)), (-4, 2, 3, 1, 1 / 15)]}


@pytest.mark.parametrize("name, jit", [
    ("hyp1f1", calque.jit), pytest.param("hyp2f1", calque.jit, marks=pytest.mark.slow),
    ("hyp1f1", numpys), ("hyp2f1", numpys)])
def test_edges_of_hypergeometric_functions(name: str, jit: Any) -> None:
    # where the last parameter is no natural number, loops run to their end: a minute in NumPy
    rows = [r for r in EDGES[name] if jit is calque.jit or r[-3] > 0]
    *given, want = (np.float32(c) for c in zip(*rows))
    rtol, atol = (3e-5, 0) if name == "hyp1f1" else (2e-6, 3e-7)  # (cancels)
    np.testing.assert_allclose(jit(getattr(special, name))(*given), want, rtol=rtol, atol=atol)


@pytest.mark.slow
def test_poles_and_the_cut_of_loggamma() -> None:
    z = np.array([1, complex(-2.5, 0.0), complex(-2.5, -0.0), -30j, 100 - 1e-3j, -2, 0],
                 np.complex64)
    found, real = map(np.asarray, calque.jit(lambda *every: [special.loggamma(v) for v in every])(
        z, np.float32([0, -1.5, 1e-30, INF])))
    np.testing.assert_allclose(found[:5], [0, -0.05624372 - 9.424778j, -0.05624372 - 9.424778j,
                                           -47.905552 - 71.24775j, 359.13422 - 0.00460016j],
                               rtol=3e-6)
    assert np.isnan(found[5:].real).all() and np.isnan(found[5:].imag).all()
    np.testing.assert_allclose(real, [NAN, NAN, 69.07755, INF], rtol=1e-6)


def test_bernoulli_numbers() -> None:
    np.testing.assert_allclose(special.bernoulli(20), oracle.bernoulli(20), rtol=1e-6, atol=1e-7)
    assert special.bernoulli(0).shape == (1,) and special.bernoulli(np.int32(3)).shape == (4,)
    assert special.bernoulli(100)[-1] == -INF
    with pytest.raises(ValueError, match="n must be a non-negative integer"):
        special.bernoulli(-1)
    with pytest.raises(TypeError, match="integer"):
        special.bernoulli(2.5)  # type: ignore[arg-type]


def _harmonic(n: int, m: int, theta: float, phi: float) -> Any:
    """Y_n^m by the powers of cos theta (DLMF 14.7.10 and 14.30.1), with 40 digits."""
    with mpmath.workdps(40):
        k, x = abs(m), mpmath.cos(theta)
        total = sum((-1) ** j * mpmath.binomial(n, j) * mpmath.binomial(2 * n - 2 * j, n)
                    * mpmath.ff(n - 2 * j, k) * x ** (n - 2 * j - k)
                    for j in range((n - k) // 2 + 1)) / mpmath.mpf(2) ** n
        size = mpmath.sqrt((2 * n + 1) / (4 * mpmath.pi)
                           * mpmath.factorial(n - k) / mpmath.factorial(n + k))
        value = (-1) ** k * mpmath.sin(theta) ** k * size * total
        value *= mpmath.expj(k * phi)
        return complex((-1) ** k * mpmath.conj(value) if m < 0 else value)


@both_ways
def test_spherical_harmonics(x64: None, jit: Any) -> None:
    rng = np.random.default_rng(0)
    n = rng.integers(0, 30, 300)
    m = np.array([rng.integers(-k, k + 1) for k in n])
    theta, phi = rng.uniform(0, np.pi, 300), rng.uniform(0, 6.28, 300)
    theta[:2] = 0, np.pi
    want = [_harmonic(*map(int, row[:2]), *map(float, row[2:])) for row in zip(n, m, theta, phi)]
    # the rounding of cos theta alone moves Y by up to n (n + 1) / 4 eps (SciPy is off by 55 eps)
    found = jit(lambda *angles: special.sph_harm_y(n, m, *angles, n_max=30))(theta, phi)
    np.testing.assert_allclose(found, want, rtol=0, atol=1e-14)
    clipped = special.sph_harm_y(np.array([3]), np.array([1]), theta[3:4], phi[3:4], n_max=2)
    np.testing.assert_allclose(clipped, oracle.sph_harm_y(2, 1, theta[3:4], phi[3:4]), rtol=1e-13)
    slope = jit(lambda theta: calque.jvp(
        lambda t: special.sph_harm_y(n, m, t, phi, n_max=30), (theta,), (np.ones(300),))[1])(theta)
    want = oracle.sph_harm_y(n, m, theta, phi, diff_n=1)[1][..., 0]
    np.testing.assert_allclose(slope, want, rtol=1e-11, atol=1e-11)


def test_dtypes_shapes_and_scalars() -> None:
    for name in ("dawsn", "erfcx", "exp1", "fresnel", "sici", "loggamma"):
        f = getattr(special, name)
        for kind, out in (("bfloat16", "bfloat16"), ("bool", "float32")):
            got = calque.eval_shape(f, jnp.asarray([1, 1], kind))
            assert all(v.dtype == out and v.shape == (2,) for v in calque.tree.leaves(got)), name
        empty = calque.tree.leaves(calque.eval_shape(f, jnp.zeros(0)))
        assert all(v.shape == (0,) for v in empty), name
    halves = jnp.ones(2, "float16")
    made = calque.eval_shape(lambda: (
        special.wofz(halves), special.owens_t(halves, 1.0),
        special.hyp2f1(jnp.ones((2, 1)), jnp.ones(3), 2.0, 0.5), special.expn([1.0], [2.0]),
        special.hyp1f1([1.0], [1.0], [0.5])))
    assert made[0].dtype == "complex64" and made[1].dtype == "float32"
    assert [v.shape for v in made[2:]] == [(2, 3), (1,), (1,)]
    assert special.comb(5, 2) == 10 and special.comb(5, 2).weak_type


DERIVATIVES = {  # columns of arguments
    "dawsn": ([1.0, 0.0, -3.0],), "erfcx": ([-0.7, 0.0, 4.0],), "exp1": ([1.5, 0.3],),
    "spence": ([0.5, 1.0, 3.0],), "owens_t": ([1.0, -2.0], [2.0, 0.4]), "loggamma": ([2.5, 0.3],),
    "comb": ([7.3, 40.0], [2.4, 3.7]), "hyp1f1": ([1.2, 1.2], [2.3, 2.3], [0.5, -4.0])}


def _slopes(jit: Any, name: str, columns: Any) -> None:
    f, g = getattr(special, name), getattr(oracle, name)
    columns = [np.asarray(c) for c in columns]
    found = jit(calque.grad(lambda *v: f(*v).sum(), tuple(range(len(columns)))))(*columns)
    for i, slope in enumerate(found):
        h = 1e-5 * np.where(columns[i] == 0, 1, np.abs(columns[i]))
        up, down = ([c + s * h if i == j else c for j, c in enumerate(columns)] for s in (1, -1))
        np.testing.assert_allclose(slope, (g(*up) - g(*down)) / (2 * h), rtol=1e-6, atol=1e-9,
                                   err_msg=f"{name} {i}")


@pytest.mark.parametrize("jit, names", by_each(list(DERIVATIVES), 0.25))
def test_derivatives_are_the_slopes(jit: Any, names: list[str], x64: None) -> None:
    for name in names:
        _slopes(jit, name, DERIVATIVES[name])


@both_ways
def test_derivatives_of_hyp2f1(jit: Any, x64: None) -> None:
    _slopes(jit, "hyp2f1", ([1.1] * 3, [0.7] * 3, [2.33] * 3, [0.5, -3.0, 0.96]))


@both_ways
def test_derivative_of_expn(x64: None, jit: Any) -> None:
    n, x = np.array([0.0, 1.0, 2.0, 7.0]), np.array([1.5, 0.4, 1.5, 3.0])
    by_n, by_x = jit(calque.grad(lambda n, x: special.expn(n, x).sum(), (0, 1)))(n, x)
    np.testing.assert_array_equal(by_n, np.zeros(4))
    np.testing.assert_allclose(by_x, [-np.exp(-1.5) * 2.5 / 2.25, *-oracle.expn([0, 1, 6], x[1:])],
                               rtol=1e-13)


@pytest.mark.slow
def test_derivatives_of_pairs_and_complex_functions(x64: None) -> None:
    z = np.array([0.5 + 0.3j, -1.2 - 0.4j, 3.0 + 2.0j])
    h = 1e-6
    for name in ("wofz", "erfcx", "loggamma"):
        slope = calque.vmap(calque.grad(getattr(special, name), holomorphic=True))(z)
        f = getattr(oracle, name)
        np.testing.assert_allclose(slope, (f(z + h) - f(z - h)) / (2 * h), rtol=1e-8)
    for name, want in (("fresnel", [np.sin(np.pi / 8), np.cos(np.pi / 8)]),
                       ("sici", [np.sin(0.5) / 0.5, np.cos(0.5) / 0.5])):
        np.testing.assert_allclose(calque.jacfwd(getattr(special, name))(0.5), want, rtol=1e-14)


@pytest.mark.parametrize("call, error, text", [
    (lambda: special.dawsn(1j), ValueError, "dawsn does not support complex"),
    (lambda: special.exp1(1j), ValueError, "exp1 does not support complex"),
    (lambda: special.fresnel(1j), NotImplementedError, "fresnel does not support complex"),
    (lambda: special.sici(1j), ValueError, "must be real-valued"),
    (lambda: special.hyp2f1(1.0, 1.0, 1.0, 1j), ValueError, "hyp2f1 does not support complex"),
    (lambda: special.comb(1j, 1), TypeError, "lgamma does not accept dtype complex"),
    (lambda: special.spence(jnp.ones(2, "float16")), TypeError, "float16 is not supported"),
    (lambda: special.wofz([1.0]), TypeError, "requires ndarray or scalar"),
    (lambda: special.hyp1f1(jnp.ones(2), jnp.ones(3), 1.0), (TypeError, ValueError), "ncompatible"),
    (lambda: special.sph_harm_y(3, 1, 0.5, 0.4), TypeError, "unsized object"),
    (lambda: special.sph_harm_y(np.array([1]), np.array([0]), np.ones(1), np.ones(1), diff_n=1),
     NotImplementedError, "diff_n"),
    (lambda: calque.jit(special.sph_harm_y)(np.array([1]), np.array([0]), np.ones(1), np.ones(1)),
     calque.errors.ConcretizationTypeError, "n_max"),
])
def test_what_is_refused(call: Any, error: Any, text: str) -> None:
    with pytest.raises(error, match=text) as caught:
        call()
    assert str(caught.value)


@pytest.mark.parametrize("jit", [False, True])
def test_inverse_of_erfc(jit: bool) -> None:
    f = calque.jit(special.erfcinv) if jit else special.erfcinv
    # no zeros of the result: 1 is beside, where SciPy's own value of a rounded y is exact, too
    y = np.concatenate([10.0 ** np.arange(-35, 0), np.linspace(0.1, 1.9, 19) + 0.01,
                        2 - 10.0 ** np.arange(-6, 0)]).astype(np.float32)
    want = oracle.erfcinv(y.astype(np.float64))
    # 8 roundings of float32, in ndtri's polynomials and around them
    np.testing.assert_allclose(f(y), want, rtol=8 * 2.0 ** -23)
    with np.errstate(all="ignore"):
        edges = np.array([0, 1, 2, 3, -1, NAN], np.float32)
        np.testing.assert_array_equal(f(edges), oracle.erfcinv(edges))
    assert f(jnp.float16(0.5)).dtype == jnp.float16 and f(1).dtype == jnp.float32
    with pytest.raises((TypeError, ValueError)):
        f(1j)
    slope = calque.grad(special.erfcinv)(0.5)
    np.testing.assert_allclose(slope, -np.sqrt(np.pi) / 2 * np.exp(oracle.erfcinv(0.5) ** 2),
                               rtol=1e-5)  # float32 throughout


def test_float32_of_some_is_float64_under_x64():
    """JAX gives these in the dtype of Python's floats, computed so."""
    q = np.array([0.1, 0.75], np.float32)
    for x64, dtype in ((False, np.float32), (True, np.float64)):
        with calque.enable_x64(x64):
            tolerance = 4 * np.finfo(dtype).eps if x64 else 5e-7  # (some units of 2^-24)
            for found, want in (
                    (stats.norm.ppf(q), stats_oracle.norm.ppf(q.astype(np.float64))),
                    (stats.norm.isf(q, q, q), stats_oracle.norm.isf(*[q.astype(np.float64)] * 3)),
                    (special.owens_t(q, 2 * q), oracle.owens_t(q.astype(np.float64), 2.0 * q))):
                assert found.dtype == dtype
                np.testing.assert_allclose(found, want, rtol=tolerance)
        assert stats.norm.cdf(q).dtype == np.float32
