"""The random functions: draws recorded from jax, SciPy's distributions, derivatives, bad input.

Keys and bits have tests of their own (tests/primitives/test_random.py).
"""
from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.stats
from random_calls import CALLS, LOOPS
from random_recorded import RECORDED
from support.harness import both_ways, by_each

import calque
from calque import random

F = np.float32
N = 4000
KEY = np.array([0, 7], np.uint32)


def draws(calls: dict[str, Any], key: Any, jit: Any = calque.jit) -> dict[str, Any]:
    """The results of calls of (random, key), as one program."""
    made = jit(lambda k: {n: f(random, k) for n, f in calls.items()})(key)
    return {n: np.asarray(v) for n, v in made.items()}


FORMULAS = [n for n in CALLS if n not in LOOPS]


@pytest.mark.parametrize("jit, names, stream", [
    pytest.param(*p.values, stream, marks=pytest.mark.slow if p.id == "some" and not (
        stream and names is FORMULAS) else p.marks, id=f"{part}-{stream}-{p.id}")
    for part, names in (("formulas", FORMULAS), ("loops", list(LOOPS))) for stream in (True, False)
    for p in by_each(names, 0.15 if names is FORMULAS else 0.33)])
def test_as_recorded(jit: Any, names: list[str], stream: bool,
                     monkeypatch: pytest.MonkeyPatch) -> None:
    """In the original stream (False) and today's."""
    monkeypatch.setattr(calque.config, "jax_threefry_partitionable", stream)
    made = draws({n: CALLS[n][0] for n in names}, random.key(42), jit)
    wrong = []
    for n in names:
        got, want = made[n].astype(np.float64).ravel(), np.array(RECORDED[n][stream])
        allowed = CALLS[n][1] * 2.0**-23 * (1 + np.abs(want))
        if not np.all((np.abs(got - want) <= allowed) | (got == want)):
            wrong.append(f"{n}: {got} instead of {want}")
    assert not wrong, "\n".join(wrong)


CONTINUOUS: dict[str, tuple[Any, Any]] = {
    "uniform": (lambda r, k: r.uniform(k, (N,), minval=-1, maxval=3), scipy.stats.uniform(-1, 4)),
    "normal": (lambda r, k: r.normal(k, (N,)), scipy.stats.norm),
    "exponential": (lambda r, k: r.exponential(k, (N,)), scipy.stats.expon),
    "gumbel": (lambda r, k: r.gumbel(k, (N,)), scipy.stats.gumbel_r),
    "laplace": (lambda r, k: r.laplace(k, (N,)), scipy.stats.laplace),
    "logistic": (lambda r, k: r.logistic(k, (N,)), scipy.stats.logistic),
    "cauchy": (lambda r, k: r.cauchy(k, (N,)), scipy.stats.cauchy),
    "pareto": (lambda r, k: r.pareto(k, F(2), (N,)), scipy.stats.pareto(2)),
    "maxwell": (lambda r, k: r.maxwell(k, (N,)), scipy.stats.maxwell),
    "weibull": (lambda r, k: r.weibull_min(k, F(2), F(3), (N,)),
                scipy.stats.weibull_min(3, scale=2)),
    "rayleigh": (lambda r, k: r.rayleigh(k, F(2), (N,)), scipy.stats.rayleigh(scale=2)),
    "wald": (lambda r, k: r.wald(k, F(2), (N,)), scipy.stats.invgauss(2)),
    "lognormal": (lambda r, k: r.lognormal(k, F(0.5), (N,)), scipy.stats.lognorm(0.5)),
    "triangular": (lambda r, k: r.triangular(k, F(0), F(1), F(4), (N,)),
                   scipy.stats.triang(0.25, 0, 4)),
    "truncated normal": (lambda r, k: r.truncated_normal(k, F(-1), F(2), (N,)),
                         scipy.stats.truncnorm(-1, 2))}
MADE_OF_GAMMA: dict[str, tuple[Any, Any]] = {
    "gamma 0.3": (lambda r, k: r.gamma(k, F(0.3), (N,)), scipy.stats.gamma(0.3)),
    "gamma 7": (lambda r, k: r.gamma(k, F(7), (N,)), scipy.stats.gamma(7)),
    "beta": (lambda r, k: r.beta(k, F(0.5), F(2), (N,)), scipy.stats.beta(0.5, 2)),
    "chi-square": (lambda r, k: r.chisquare(k, F(3), (N,)), scipy.stats.chi2(3)),
    "t": (lambda r, k: r.t(k, F(3), (N,)), scipy.stats.t(3)),
    "f": (lambda r, k: r.f(k, F(3), F(4), (N,)), scipy.stats.f(3, 4)),
    "generalized normal": (lambda r, k: r.generalized_normal(k, F(1.5), (N,)),
                           scipy.stats.gennorm(1.5))}


def _distances(table: dict[str, tuple[Any, Any]], jit: Any) -> None:
    """Kolmogorov-Smirnov: one wrong alarm in 1e4, but the key stays the same."""
    made = draws({n: f for n, (f, _) in table.items()}, KEY, jit)
    far = {n: p for n, (_, law) in table.items()
           if (p := scipy.stats.kstest(made[n], law.cdf).pvalue) < 1e-4}
    assert not far


@pytest.mark.parametrize("jit, names", by_each(list(CONTINUOUS), 0.2))
def test_distributions(jit: Any, names: list[str]) -> None:
    _distances({n: CONTINUOUS[n] for n in names}, jit)


@pytest.mark.slow
def test_distributions_made_of_gamma() -> None:
    _distances(MADE_OF_GAMMA, calque.jit)


@pytest.mark.slow
def test_counts() -> None:
    """Chi-square against the probabilities, rare counts put together."""
    laws = {"poisson 3": (lambda r, k: r.poisson(k, F(3), (N,)), scipy.stats.poisson(3)),
            "poisson 30": (lambda r, k: r.poisson(k, F(30), (N,)), scipy.stats.poisson(30)),
            "binomial 10": (lambda r, k: r.binomial(k, F(10), F(0.3), (N,)),
                            scipy.stats.binom(10, 0.3)),
            "binomial 200": (lambda r, k: r.binomial(k, F(200), F(0.7), (N,)),
                             scipy.stats.binom(200, 0.7)),
            "geometric": (lambda r, k: r.geometric(k, F(0.2), (N,)), scipy.stats.geom(0.2))}
    for n, (f, law) in laws.items():
        made = draws({n: f}, KEY)  # (IREE rejects some programs with four host loops)
        low, high = int(law.ppf(0.01)), int(law.ppf(0.99))
        edges = np.arange(low, high + 1)
        want = N * np.diff([0, *law.cdf(edges), 1])
        got = np.bincount(np.searchsorted(edges, made[n]), minlength=len(want))
        assert scipy.stats.chisquare(got, want).pvalue > 1e-4, n


@pytest.mark.slow
def test_gamma_of_many_keys() -> None:
    """Draws of keys by vmap are those of each key."""
    a = np.array([0.5, 3.0], F)
    keys = random.split(random.key(3), 2)
    rows = calque.vmap(lambda k: random.gamma(k, a))(keys)
    np.testing.assert_allclose(np.asarray(rows)[1], np.asarray(random.gamma(keys[1], a)), 1e-6)


@pytest.mark.slow
def test_derivatives_of_gamma() -> None:
    """By the implicit function: at a fixed probability."""
    a = np.array([0.5, 3.0], F)
    value, slope = calque.jvp(lambda a: random.gamma(KEY, a), (a,), (np.ones(2, F),))
    # d x / d a at a fixed probability, by central differences of SciPy's quantile
    x, step = np.asarray(value, np.float64), 1e-4
    p = scipy.stats.gamma(a.astype(float)).cdf(x)
    want = (scipy.stats.gamma(a + step).ppf(p) - scipy.stats.gamma(a - step).ppf(p)) / (2 * step)
    np.testing.assert_allclose(np.asarray(slope), want, 2e-3)  # differences of f32 values


@pytest.mark.slow
def test_derivatives_of_loggamma() -> None:
    """Those of gamma, by the value, in reverse too."""
    a = np.array([0.5, 3.0], F)
    value, slope = calque.jvp(lambda a: random.gamma(KEY, a), (a,), (np.ones(2, F),))
    pulled = calque.grad(lambda a: random.loggamma(KEY, a).sum())(a)
    np.testing.assert_allclose(np.asarray(pulled), np.asarray(slope) / np.asarray(value), 1e-4)


@pytest.mark.slow
def test_loops_carry_keys() -> None:
    def step(key: Any, lam: Any) -> Any:
        key, sub = random.split(key)
        return key, random.poisson(sub, lam, (3,))

    rows, alone = calque.jit(lambda key, lam: (
        calque.lax.scan(step, key, lam)[1], random.poisson(random.split(key)[1], lam[0], (3,))))(
            random.key(1), np.array([1, 20], F))
    np.testing.assert_array_equal(np.asarray(rows)[0], np.asarray(alone))


@both_ways
def test_edges(jit: Any) -> None:
    k = random.key(0)
    special = np.array([-1, 0, np.nan, np.inf], F)
    gammas, words, out = jit(lambda k, special, low: (
        random.gamma(k, special), random.randint(k, (64,), -2**31, 2**31 - 1),
        random.truncated_normal(k, low, np.nextafter(F(1), F(2)), (3,))))(k, special, F(1))
    np.testing.assert_array_equal(gammas, [np.nan, 0, np.nan, np.inf])
    assert random.gamma(k, np.ones((0, 2), F)).shape == (0, 2)
    assert random.permutation(k, -3).shape == random.choice(k, 0, (0,)).shape == (0,)
    assert random.randint(k, (0, 2), 0, 5).shape == (0, 2)
    words, out = np.asarray(words), np.asarray(out)
    assert words.min() < -2**30 and words.max() > 2**30
    assert ((out >= 1) & (out < 1.0000003)).all()


K = KEY
BAD: list[tuple[type[Exception], str, Any]] = [
    (TypeError, "randint only accepts integer dtypes, got float32",
     lambda r: r.randint(K, (2,), 0, 10, F)),
    (ValueError, "Incompatible shapes for broadcasting: shapes=[(2,), (3,), ()]",
     lambda r: r.randint(K, (2,), np.arange(3), 5)),
    (TypeError, "must have a floating dtype, got int32", lambda r: r.bernoulli(K, 2)),
    (ValueError, "got mode='mid', expected 'high' or 'low'",
     lambda r: r.bernoulli(K, 0.5, mode="mid")),
    (TypeError, "x must be an integer or at least 1-dimensional", lambda r: r.permutation(K, 3.5)),
    (TypeError, "permutation requires ndarray or scalar arguments, got <class 'list'>",
     lambda r: r.permutation(K, [1, 2])),
    (ValueError, "axis 2 is out of bounds for array of dimension 2",
     lambda r: r.permutation(K, np.ones((2, 3)), axis=2)),
    (ValueError, "Cannot take a larger sample", lambda r: r.choice(K, 5, (6,), replace=False)),
    (ValueError, "a must be greater than 0 unless no samples are taken",
     lambda r: r.choice(K, 0, (6,))),
    (ValueError, "p must be None or a 1D vector", lambda r: r.choice(K, 5, (2,), p=np.ones(4))),
    (TypeError, "must be a sequence, got 3", lambda r: r.choice(K, 5, 3)),
    (IndexError, "index 2 is out of bounds", lambda r: r.categorical(K, np.ones((3, 4), F), 2)),
    (ValueError, "cannot exceed number of categories (3)",
     lambda r: r.categorical(K, np.ones(3, F), shape=(5,), replace=False)),
    (ValueError, "valid mode for gumbel", lambda r: r.gumbel(K, (2,), mode="x")),
    (ValueError, "dtype argument to `exponential` must be a float dtype, got int32",
     lambda r: r.exponential(K, (2,), int)),
    (ValueError, "dtype argument to `geometric` must be an int dtype",
     lambda r: r.geometric(K, 0.5, dtype=F)),
    (ValueError, "dirichlet requires alpha.ndim >= 1", lambda r: r.dirichlet(K, 1.0)),
    (ValueError, "requires cov.shape == (..., n, n) for n=3",
     lambda r: r.multivariate_normal(K, np.ones(3, F), np.eye(2, dtype=F))),
    (ValueError, "method must be one of",
     lambda r: r.multivariate_normal(K, np.ones(3, F), np.eye(3, dtype=F), method="lu")),
    (TypeError, "Shapes must be 1D sequences", lambda r: r.normal(K, (2.5,))),
    (ValueError, "negative dimensions", lambda r: r.split(K, -1)),
    (TypeError, "unexpected PRNG key type", lambda r: r.gamma(3, 1.0)),
    (ValueError, "minval of shape (3,) does not broadcast to the shape ()",
     lambda r: r.uniform(K, (), minval=np.zeros(3, F))),
    (ValueError, "maxval of shape (1, 3) does not broadcast to the shape (3,)",
     lambda r: r.uniform(K, (3,), maxval=np.ones((1, 3), F))),
    (OverflowError, "Python int too large to convert to C long", lambda r: r.PRNGKey(2**63)),
    (OverflowError, "does not fit 64 bits", lambda r: r.key(-2**63 - 1)),
    (ValueError, "both `impl` and `dtype`",
     lambda r: r.key(0, impl="threefry2x32", dtype="threefry2x32")),
    (ValueError, "accepts a single key", lambda r: r.gamma(np.zeros((3, 2), np.uint32), 1.0))]


def test_bounds_of_one_number_and_rank_beside_no_shape() -> None:
    """As in JAX, the result has the bounds' shape (which flashbax counts on under vmap)."""
    low, high = np.full((4, 1), 2.0, F), np.full((4, 1, 1), 5.0, F)
    keys = random.split(KEY, 4)
    of_rank_two = calque.jit(lambda *bounds: calque.vmap(random.uniform, (0, None, None, 0, 0))(
        keys, (), np.float32, *bounds))(low, high)
    assert of_rank_two.shape == (4, 1, 1)
    np.testing.assert_allclose(of_rank_two.ravel(), [
        2 + 3 * random.uniform(k) for k in keys], rtol=1e-6)


@pytest.mark.parametrize("error, text, call", BAD, ids=[text for _, text, _ in BAD])
def test_bad_input(error: type[Exception], text: str, call: Any) -> None:
    with pytest.raises(error) as caught:
        call(random)
    assert text in str(caught.value)


def test_gumbel_numbers_of_64_bits() -> None:
    key, n = random.key(3), 20000
    high, low = (np.asarray(w).astype(float) for w in random.bits(key, (2, n), np.uint32))
    # in double precision: of u below 1/2 53 bits say enough, above it of 1 - u
    u, rest = (high * 2.0**32 + low) / 2.0**64, ((2.0**32 - 1 - high) * 2.0**32 + 2.0**32 - low
                                                 ) / 2.0**64
    want = -np.log(-np.where(u < 0.5, np.log1p(-np.minimum(u, 0.75)), np.log(rest)))
    # logarithms of a logarithm in single precision: two roundings of each
    np.testing.assert_allclose(random.gumbel(key, (n,), mode="highest"), want, rtol=2e-6, atol=5e-7)
    drawn = random.categorical(key, np.zeros(5, np.float32), shape=(n // 5,), mode="highest")
    np.testing.assert_allclose(np.bincount(drawn, minlength=5) / (n // 5), 0.2, atol=0.03)
    calque.config.update("jax_high_dynamic_range_gumbel", True)
    try:
        by_default = random.gumbel(key, (9,))
    finally:
        calque.config.update("jax_high_dynamic_range_gumbel", False)
    np.testing.assert_array_equal(by_default, random.gumbel(key, (9,), mode="high"))
    with pytest.raises(ValueError, match="valid mode for gumbel got: lowest"):
        random.gumbel(key, (3,), mode="lowest")


def test_a_traced_number_is_not_permuted() -> None:
    with pytest.raises(calque.errors.ConcretizationTypeError, match="permutation: x is a number"):
        calque.jit(random.permutation)(random.key(0), 10)
