"""Accuracy and special values of gamma, zeta, Bessel and incomplete functions, against mpmath."""
from __future__ import annotations

import mpmath
import numpy as np
import pytest
from math_harness import BF16, F32, F64, FLOATS, LONG, Functions, every, flushed, parameters, ulps
from support.oracle_special import ORACLES

from calque.lowering.math import TABLE

pytestmark = pytest.mark.filterwarnings("ignore:.*encountered in:RuntimeWarning")

SIZE = 1024
COUNT = {"igamma_grad_a": 40, "random_gamma_grad": 40}  # mpmath differentiates numerically


def _slope(a, x):
    return mpmath.diff(lambda t: mpmath.gammainc(t, 0, x, regularized=True), a)


EXACT = {
    "lgamma": lambda x: mpmath.log(abs(mpmath.gamma(x))),
    "digamma": mpmath.digamma,
    "bessel_i0e": lambda x: mpmath.besseli(0, x) * mpmath.exp(-abs(x)),
    "bessel_i1e": lambda x: mpmath.besseli(1, x) * mpmath.exp(-abs(x)),
    "polygamma": lambda m, x: mpmath.polygamma(int(m), x),
    "zeta": mpmath.zeta,
    "igamma": lambda a, x: mpmath.gammainc(a, 0, x, regularized=True),
    "igammac": lambda a, x: mpmath.gammainc(a, x, mpmath.inf, regularized=True),
    "igamma_grad_a": _slope,
    "random_gamma_grad": lambda a, x: -_slope(a, x) / (
        x ** (a - 1) * mpmath.exp(-x) / mpmath.gamma(a)),
    "regularized_incomplete_beta": lambda a, b, x: mpmath.betainc(a, b, 0, x, regularized=True),
}
ARITY = {"lgamma": 1, "digamma": 1, "bessel_i0e": 1, "bessel_i1e": 1,
         "regularized_incomplete_beta": 3}
# Largest error in ulp in f64 (f32 is computed in f64: half an ulp).  What is large is the exponent
# of x^a e^-x or q^-x, whose rounding counts as often as it is large; XLA's own errors there are
# ten times these (docs/math_accuracy.md).
TOLERANCE = {"lgamma": 8, "digamma": 8, "bessel_i0e": 6, "bessel_i1e": 6, "polygamma": 60,
             "zeta": 40, "igamma": 500, "igammac": 500, "igamma_grad_a": 500,
             "random_gamma_grad": 500, "regularized_incomplete_beta": 3000}
# by default: of those that share their code one, in one of the dtypes (f32 is computed in f64)
FIRST = {"f64": ("lgamma", "digamma", "zeta", "igamma", "random_gamma_grad"),
         "f32": ("bessel_i1e", "polygamma", "regularized_incomplete_beta")}
GROUPS = {d: Functions({n: (TABLE[n], [t] * ARITY.get(n, 2)) for n in EXACT}, size=SIZE,
                       first=FIRST[d]) for d, t in (("f32", F32), ("f64", F64))}
WITHOUT_F64 = Functions({n: (TABLE[n], [F32] * ARITY.get(n, 2)) for n in (
    "lgamma", "digamma", "bessel_i0e", "igamma", "zeta")}, size=SIZE, f64_ok=False,
                        first=("lgamma", "igamma"))
NARROW = Functions({"lgamma": (TABLE["lgamma"], [BF16])}, size=1 << 16)


def operands(name, seed):
    rng = np.random.default_rng(seed)
    n = COUNT.get(name, 300)
    positive = np.concatenate([rng.uniform(0.01, 12, n // 2), 10 ** rng.uniform(-6, 4, n - n // 2)])
    if name == "lgamma":
        return [np.concatenate([positive, [1, 2, 1 + 1e-6, 2 - 1e-6, 0.5, 8, 2.5, 1.5]])]
    if name == "digamma":
        return [np.concatenate([positive, [1.4616, 1.4617, 1, 2, 10]])]
    if name.startswith("bessel"):
        return [np.concatenate([positive, -positive[:40]])]
    if name == "polygamma":
        return [rng.integers(0, 8, n).astype(float), positive]
    if name == "zeta":
        return [1 + 10 ** rng.uniform(-2, 1.3, n), 10 ** rng.uniform(-2, 2, n)]
    if name == "regularized_incomplete_beta":
        return [10 ** rng.uniform(-1, 2, n), 10 ** rng.uniform(-1, 2, n), rng.uniform(0, 1, n)]
    a = 10 ** rng.uniform(-2, 2, n)
    return [a, a * 10 ** rng.uniform(-1, 0.6, n)]


def exact(name, *xs):
    with mpmath.workdps(40):
        return np.array([LONG(mpmath.nstr(EXACT[name](*[mpmath.mpf(float(u)) for u in v]), 25))
                         for v in zip(*xs, strict=True)], LONG)


def worst(module, name, xs):
    got, want = module(name, *xs), exact(name, *xs)
    return np.max(np.where(flushed(got, want, *xs), 0, ulps(got, want)))


@pytest.mark.parametrize("name", GROUPS["f32"].parameters())
def test_f32_is_rounded_once(name):
    assert worst(GROUPS["f32"], name, [x.astype(F32) for x in operands(name, 1)]) <= 0.51


@pytest.mark.parametrize("name", GROUPS["f64"].parameters())
def test_f64(name):
    assert worst(GROUPS["f64"], name, operands(name, 2)) <= TOLERANCE[name]


@pytest.mark.parametrize("name", WITHOUT_F64.parameters())
def test_without_f64(name):
    # every step rounds to f32; logarithms of factors times up to 20
    assert worst(WITHOUT_F64, name, [x.astype(F32) for x in operands(name, 3)]) <= 300


def test_next_to_the_zeros_of_lgamma():
    """Where SciPy and C lose digits (1e-11), so that the samples' oracle is mpmath there."""
    x = np.concatenate([c + 10.0 ** -np.arange(2, 12) * s for c in (1, 2) for s in (-1, 1)])
    want = exact("lgamma", x)
    assert np.max(ulps(GROUPS["f64"]("lgamma", x), want)) <= 3
    assert np.max(ulps(np.asarray(ORACLES["lgamma"](None, x)), want)) <= 1


def test_negative_arguments():
    x = -np.random.default_rng(4).uniform(0, 30, 200)
    for name in ("lgamma", "digamma"):
        got, want = GROUPS["f64"](name, x), exact(name, x)
        # digits are lost near zeros: absolute error against the terms of the reflection
        assert np.max(np.abs(got - want) / (1 + np.abs(want))) < 1e-13


# where terms cancelled or series did not hold: (arguments, ulp of f64 allowed)
ODD = {
    "zeta": ([(2, -9.5), (2, -11.75), (3, -10.25), (2, -1e5 - 0.5), (4, -1e-3)], 30),
    "polygamma": ([(1, -9.5), (1, -99.5), (2, -10.25), (3, -20.25)], 30),
    "igamma": ([(12, 1e-10), (30, 1e-6), (1e-30, 0.9), (1e-10, 1e-30)], 600),
    "igammac": ([(1e-30, 1), (1e-30, 0.1), (1e-10, 0.5), (0.3, 1e-3), (0.9, 0.9)], 16),
}


def _hurwitz(s, q):
    """Of q < 0 by the sums on both sides of 0: mpmath's own takes no q beyond some -100."""
    part = q - mpmath.floor(q)
    if q > 0:
        return mpmath.zeta(s, q)
    return mpmath.zeta(s, part) + (-1) ** int(s) * (mpmath.zeta(s, 1 - part)
                                                    - mpmath.zeta(s, 1 - q))


def _polygamma(m, x):
    return (-1) ** int(m + 1) * mpmath.factorial(m) * _hurwitz(m + 1, x)


@pytest.mark.parametrize("name, dtype", parameters(GROUPS, ODD))
def test_odd_arguments(name, dtype):
    rows, allowed = ODD[name]
    xs = np.array(rows, FLOATS[dtype]).T
    f = {"zeta": _hurwitz, "polygamma": _polygamma}.get(name, EXACT[name])
    with mpmath.workdps(60):
        want = [LONG(mpmath.nstr(f(*(mpmath.mpf(float(v)) for v in row)), 25)) for row in xs.T]
    got, want = GROUPS[dtype](name, *xs), np.array(want, LONG)
    errors = np.where(flushed(got, want, *xs), 0, ulps(got, want))
    assert np.max(errors) <= (allowed if dtype == "f64" else 0.6), errors


def test_half_precision_rounds_once():
    x = every(BF16)
    positive = (x > 1e-37) & (x < 1e4)  # (f32 denormals are flushed)
    got = NARROW("lgamma", x)[positive]
    want = exact("lgamma", x[positive][::37])
    assert np.max(ulps(got[::37], want)) <= 0.51


NAN, INF = np.nan, np.inf
SPECIAL = {  # as XLA's
    "lgamma": ([0, -0.0, -1, -2, 1, 2, INF, -INF, NAN],
               [INF, INF, INF, INF, 0, 0, INF, INF, NAN]),
    "digamma": ([0, -1, -2, INF, -INF, NAN], [NAN, NAN, NAN, INF, NAN, NAN]),
    "bessel_i0e": ([0, INF, -INF, NAN], [1, 0, 0, NAN]),
    "bessel_i1e": ([0, INF, -INF, NAN], [0, 0, 0, NAN]),
}
PAIRS = {  # (of an infinite shape SciPy's: the limit, where XLA has NaN)
    "igamma": [(0, 0, NAN), (0, 1, 1), (1, 0, 0), (1, INF, 1), (INF, 1, 0), (INF, INF, 1),
               (-1, 1, NAN), (1, -1, NAN), (NAN, 1, NAN), (1, NAN, NAN)],
    "igammac": [(0, 0, NAN), (0, 1, 0), (1, 0, 1), (1, INF, 0), (INF, 1, 1), (-1, 1, NAN)],
    "igamma_grad_a": [(0, 1, NAN), (1, 0, 0), (INF, 0, 0), (1, INF, NAN), (-1, 1, NAN)],
    "zeta": [(1, 2, INF), (1, NAN, INF), (0.5, 1, NAN), (2, 0, INF), (2, -3, INF), (3, 0, NAN),
             (2.5, -1.5, NAN), (NAN, 1, NAN)],
    "polygamma": [(0.5, 1, NAN), (-1, 1, NAN), (1, 0, INF), (2, 0, NAN), (1, -1, INF),
                  (NAN, 1, NAN)],
}
BETA = [(0, 1, 0.3, 1), (1, 0, 0.3, 0), (INF, 1, 0.3, 0), (1, INF, 0.3, 1), (-1, 1, 0.3, NAN),
        (0, 0, 0.3, NAN), (2, 3, 0, 0), (2, 3, 1, 1), (2, 3, -1, NAN), (2, 3, 2, NAN),
        (2, 3, NAN, NAN), (NAN, 3, 0.5, NAN)]


PAIRS["regularized_incomplete_beta"] = BETA


@pytest.mark.parametrize("name, dtype", parameters(GROUPS, [*SPECIAL, *PAIRS]))
def test_special_values(name, dtype):
    *xs, want = (SPECIAL[name] if name in SPECIAL else np.array(PAIRS[name]).T)
    xs, want = [np.array(x, FLOATS[dtype]) for x in xs], np.array(want, FLOATS[dtype])
    np.testing.assert_array_equal(GROUPS[dtype](name, *xs), want, name)


def test_random_gamma_grad_far_out():
    a = np.array([1e-3, 50.0, 1000.0], F64)
    x = np.array([1e-9, 60.0, 1010.0], F64)
    assert worst(GROUPS["f64"], "random_gamma_grad", [a, x]) < 2000
