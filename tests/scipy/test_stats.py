"""calque.scipy.stats against SciPy: distributions, ranks, density estimates."""
from __future__ import annotations

from collections.abc import Sequence
from types import ModuleType
from typing import Any

import ml_dtypes
import numpy as np
import pytest
import scipy.stats as ss
from support.harness import both_ways, by_each, numpys

import calque
from calque.scipy import stats

X = np.array([-3.1, -1.2, -0.4, 0.1, 0.3, 0.5, 0.9, 1.5, 2.7, 6.0])
P = np.array([0.01, 0.2, 0.5, 0.7, 0.99])
SHAPES: dict[str, tuple[Any, ...]] = {
    "norm": (), "cauchy": (), "expon": (), "laplace": (), "logistic": (), "gumbel_l": (),
    "gumbel_r": (), "uniform": (), "pareto": (1.7,), "gamma": (2.3,), "chi2": (3.0,),
    "beta": (2.0, 3.5), "t": (4.5,), "truncnorm": (-1.5, 2.5), "gennorm": (1.5,),
    "vonmises": (2.0,), "wrapcauchy": (0.4,)}
COUNTS: dict[str, tuple[Any, ...]] = {
    "bernoulli": (0.3,), "binom": (4, 0.4), "betabinom": (4, 2.0, 1.5), "geom": (0.3,),
    "nbinom": (3.0, 0.4), "poisson": (2.5,)}


def functions(module: ModuleType) -> list[str]:
    return [n for n in module.__all__ if n != "entropy"]


def arguments(name: str, f: str) -> tuple[Any, ...]:
    if name in COUNTS:
        return (P if f == "ppf" else np.arange(-1.0, 7), *COUNTS[name])
    shapes = SHAPES[name]
    placed = () if name in ("gennorm", "vonmises", "wrapcauchy") else (0.3, 1.7)
    x = X[np.abs(X) < 3] if name == "vonmises" else X  # SciPy's is periodic by steps
    return (P if f in ("ppf", "isf") else x, *shapes, *placed)


EVERY = by_each([(n, f) for n in (*SHAPES, *COUNTS) for f in functions(getattr(stats, n))], 0.05)
NARROW = [(n, f) for n in ("gamma", "truncnorm") for f in functions(getattr(stats, n))]


@pytest.mark.parametrize("jit, calls, wide, rtol", [
    pytest.param(calque.jit, NARROW, False, 3e-5, marks=pytest.mark.slow),
    pytest.param(numpys, NARROW, False, 3e-5), *[
        pytest.param(*p.values, True, 1e-11, marks=p.marks) for p in EVERY]],
    ids=["float32", "float32-numpy", "numpy", "float64", "more"])
def test_distributions(jit: Any, calls: Sequence[Any], wide: bool, rtol: float) -> None:
    """A few ulp times the conditions of differences of logs of gamma functions, and of tails."""
    kind = np.float64 if wide else np.float32
    cases = [(n, f, [np.asarray(a, kind) for a in arguments(n, f)]) for n, f in calls]

    def program(args: Any) -> Any:
        return [getattr(getattr(stats, n), f)(*a) for (n, f, _), a in zip(cases, args)]

    with calque.enable_x64(wide):
        got = jit(program)([a for *_, a in cases])
    for (n, f, a), out in zip(cases, got):
        with np.errstate(all="ignore"):
            want = getattr(getattr(ss, n), f)(*[v.astype(np.float64) for v in a])
        assert out.dtype == kind
        np.testing.assert_allclose(out, want, rtol=rtol, atol=rtol, err_msg=f"{n}.{f}")


TAILS: list[tuple[str, str, float, tuple[float, ...]]] = [
    ("norm", "sf", 20.0, ()), ("cauchy", "sf", 1e20, ()), ("logistic", "sf", 400.0, ()),
    ("expon", "cdf", 1e-20, ()), ("gumbel_r", "sf", 80.0, ()),
    ("pareto", "cdf", 1 + 2.0 ** -50, (2.0,)), ("norm", "logcdf", -40.0, ()),
    ("norm", "isf", 1e-40, ()), ("truncnorm", "logcdf", 11.0, (10.0, 12.0)),
    ("truncnorm", "logpdf", -11.0, (-12.0, -10.0))]


@pytest.mark.parametrize("jit, a", by_each(TAILS, 0.3))
def test_tails_keep_their_digits(jit: Any, a: list[Any]) -> None:
    with calque.enable_x64(True):
        got = jit(lambda: [getattr(getattr(stats, n), f)(x, *s) for n, f, x, s in a])()
    for (n, f, x, s), out in zip(a, got):
        # the tail of log_ndtr beyond -20 has four terms of its series
        np.testing.assert_allclose(out, getattr(getattr(ss, n), f)(x, *s), rtol=1e-7, err_msg=n)


@both_ways
def test_derivatives_are_finite_beyond_the_support(jit: Any) -> None:
    x = np.array([-1.0, 0.5, 7.0], np.float32)

    def total(x: Any) -> Any:
        return sum(calque.numpy.sum(getattr(stats, n).pdf(x, *SHAPES[n]))
                   for n in ("gamma", "beta", "pareto", "truncnorm", "expon"))

    assert np.isfinite(jit(calque.grad(total))(x)).all()
    assert float(jit(calque.grad(stats.norm.logcdf))(0.0)) == pytest.approx(0.79788456)


@both_ways
def test_what_is_no_parameter_gives_nan(jit: Any) -> None:
    one = np.float32(0.5)
    assert np.isnan(jit(lambda: [
        stats.gamma.logpdf(one, -1.0), stats.truncnorm.cdf(one, 2.0, 1.0), stats.norm.ppf(1.5),
        stats.uniform.ppf(-1.0), stats.vonmises.pdf(one, -1.0), stats.bernoulli.cdf(0, 1.5),
        stats.norm.pdf(np.nan)])()).all()


def test_calls() -> None:
    assert stats.norm.pdf(0.5).weak_type and not stats.norm.pdf(np.float32(1)).weak_type
    assert stats.norm.pdf(1).dtype == np.float32
    assert float(stats.norm.cdf(x=1.0, scale=2.0, loc=1.0)) == 0.5
    import calque.scipy.stats.norm as module
    assert module is stats.norm
    with pytest.raises(TypeError, match=r"gamma\.pdf: missing a required argument: 'a'"):
        stats.gamma.pdf(1.0)
    with pytest.raises(TypeError, match="requires ndarray or scalar"):
        stats.norm.pdf([1.0])
    with pytest.raises(ValueError, match="complex"):
        stats.norm.pdf(1j)


@both_ways
def test_vectors(jit: Any) -> None:
    r = np.random.default_rng(0)
    x, mean = r.standard_normal((5, 3)), r.standard_normal(3)
    cov = np.eye(3) + 0.3
    p = np.array([0.2, 0.3, 0.5])
    with calque.enable_x64(True):
        normal, made = jit(lambda x, mean, cov, p: (
            stats.multivariate_normal.logpdf(x, mean, cov), [
                stats.multivariate_normal.pdf(x[0], mean, 2.0),
                stats.dirichlet.logpdf(p, np.array([1.5, 2, 3])),
                stats.dirichlet.pdf(p[:2], np.array([1.5, 2, 3])),
                stats.multinomial.pmf(np.array([1, 2, 0]), 3, p),
                stats.multinomial.logpmf(np.array([1, 2, 1]), 3, p),
                stats.poisson.entropy(7.5), stats.poisson.entropy(60.0)]))(x, mean, cov, p)
    np.testing.assert_allclose(normal, ss.multivariate_normal.logpdf(x, mean, cov), rtol=1e-12)
    np.testing.assert_allclose(made, [
        ss.multivariate_normal.pdf(x[0], mean, 2.0), ss.dirichlet.logpdf(p, [1.5, 2, 3]),
        ss.dirichlet.pdf(p[:2], [1.5, 2, 3]), ss.multinomial.pmf([1, 2, 0], 3, p),
        ss.multinomial.logpmf([1, 2, 1], 3, p), ss.poisson.entropy(7.5),
        ss.poisson.entropy(60.0)],
        rtol=1e-7)
    for bad, text in ((lambda: stats.multivariate_normal.pdf(x, mean, np.eye(2)), "incompatible"),
                      (lambda: stats.dirichlet.pdf(p, np.eye(3)), "one-dimensional"),
                      (lambda: stats.dirichlet.pdf(p, np.ones(5)), "one entry fewer")):
        with pytest.raises(ValueError, match=text):
            bad()
    with pytest.raises(NotImplementedError, match="allow_singular"):
        stats.multivariate_normal.logpdf(x, mean, cov, True)


def test_ranks() -> None:
    x = np.array([[3, 1, 2, 2.0], [1, 1, 5, 0], [1, 7, 2, 2]], np.float32)
    for method in ("average", "min", "max", "dense", "ordinal"):
        for axis in (None, 0, -1):
            np.testing.assert_array_equal(stats.rankdata(x, method, axis=axis),
                                          ss.rankdata(x, method, axis=axis))
    for axis in (0, 1, None):
        for got, want in zip(stats.mode(x, axis, keepdims=True), ss.mode(x, axis, keepdims=True)):
            np.testing.assert_array_equal(got, want)
        np.testing.assert_allclose(stats.sem(x, axis), ss.sem(x, axis), rtol=1e-6)
    holes = np.array([[1, np.nan, 2, 2, 1], [np.nan, 3, 3, np.nan, np.nan]], np.float32)
    for axis in (0, 1, None):  # NaN are one value
        for got, want in zip(stats.mode(holes, axis), ss.mode(holes, axis)):
            np.testing.assert_array_equal(got, want)
    for f in (stats.beta.pdf, stats.gamma.logpdf, stats.expon.logpdf):
        shapes = {stats.beta.pdf: (2.0, 3.0), stats.gamma.logpdf: (2.0,)}.get(f, ())
        assert np.isnan(f(np.float32([-0.5, 0.5, 2]), *shapes, 0.0, np.float32([-1, 0, -1]))).all()
    assert stats.rankdata(np.zeros((0, 2, 3)), axis=1).shape == (0, 2, 3)
    for dtype in (np.float16, ml_dtypes.bfloat16):  # which have no 1024.5, no 2001
        many = np.repeat(np.arange(1200), 2).astype(dtype)
        np.testing.assert_array_equal(stats.rankdata(many), ss.rankdata(many.astype(float)))
    assert not stats.bernoulli.ppf(np.float32(0.5), np.float32(0.3)).weak_type
    gap = np.array([1, 2, np.nan, 4], np.float32)
    assert np.isnan(stats.rankdata(gap)).all()
    np.testing.assert_allclose(stats.sem(gap, nan_policy="omit"),
                               ss.sem(gap, nan_policy="omit").astype(float), rtol=1e-6)
    assert stats.sem(x, None, keepdims=True).shape == (1, 1)
    with pytest.raises(ValueError, match="unknown method"):
        stats.rankdata(x, "best")
    with pytest.raises(NotImplementedError, match="omit"):
        stats.mode(x, nan_policy="omit")


@both_ways
@pytest.mark.parametrize("some", [slice(1), slice(1, 2)], ids=["line", "plane"])
def test_gaussian_kde(some: slice, jit: Any) -> None:
    r = np.random.default_rng(1)
    every = ((r.standard_normal(8), None), (r.standard_normal((2, 9)), r.random(9)))
    rules = ("scott", "silverman", 0.4)

    def run(data: Any, points: Any, weights: Any) -> Any:
        """All in one program."""
        kdes = [stats.gaussian_kde(data, rule, weights) for rule in rules]
        last, d = kdes[-1], kdes[-1].d
        return last, [k.logpdf(points) for k in kdes], last(points), last.integrate_kde(last), (
            last.integrate_gaussian(np.ones(d), np.eye(d)),
            last.resample(calque.random.key(0), (20,)),
            last.integrate_box_1d(-1, 0.5) if d == 1 else None)

    for data, weights in every[some]:
        points = r.standard_normal((*data.shape[:-1], 5))
        with calque.enable_x64(True):
            ours, logs, values, both, (gaussian, drawn, box) = jit(run)(
                data, points, weights)
            for rule, log in zip(rules, logs):
                theirs = ss.gaussian_kde(data, rule, weights)
                np.testing.assert_allclose(log, theirs.logpdf(points), rtol=1e-9)
            np.testing.assert_allclose(values, theirs(points), rtol=1e-9)
            np.testing.assert_allclose(ours.covariance, theirs.covariance, rtol=1e-12)
            np.testing.assert_allclose(both, theirs.integrate_kde(theirs))
            d = ours.d
            np.testing.assert_allclose(gaussian, theirs.integrate_gaussian(np.ones(d), np.eye(d)))
            assert drawn.shape == (d, 20) and np.isfinite(drawn).all()
            if d == 1:
                np.testing.assert_allclose(box, theirs.integrate_box_1d(-1, 0.5))
        assert len(calque.tree_util.tree_leaves(ours)) == 5
    with pytest.raises(ValueError, match="multiple elements"):
        stats.gaussian_kde(np.ones(1))
    with pytest.raises(ValueError, match="of length n"):
        stats.gaussian_kde(np.ones(3), weights=np.ones(2))
    with pytest.raises(ValueError, match="bw_method"):
        stats.gaussian_kde(np.ones(3), "best")
    with pytest.raises(NotImplementedError, match="1D"):
        ours.integrate_box([0], [1])
    with pytest.raises(NotImplementedError, match="bandwidth"):
        ours.set_bandwidth(0.2)
