"""Special functions and distributions at large and odd arguments against mpmath, with what one
rounding of an argument makes left out (docs/scripts/special_survey.py, which this runs)."""
from __future__ import annotations

import pathlib
import sys
from collections.abc import Iterator
from typing import Any

import mpmath
import numpy as np
import pytest

import calque
from calque.scipy import special, stats

SCRIPTS = pathlib.Path(__file__).parents[2] / "docs" / "scripts"
PAGE = SCRIPTS.parent / "special_functions.md"
# where the value or a slope was 0, NaN, inf, or had few digits right
VALUES: dict[str, list[tuple[float, ...]]] = {
    "special.kl_div": [(1.0000001, 1.0), (1e15 + 1e9, 1e15)],
    "special.poch": [(1e6, 3.0), (1e10, 2.5)], "special.log_ndtr": [(5.0,), (-1e15,)],
    "special.comb": [(1e6, 1.0)], "special.boxcox": [(1e-5, 1.5), (1e-5, 1e-20), (1e18, 2.0)],
    "special.erfcx": [(1e6,)], "special.dawsn": [(1e5,)], "special.i0e": [(1e6,)],
    "special.i1e": [(-1e6,)], "special.gammainc": [(1e4, 1e4), (12.0, 1e-10)],
    "special.gammaincc": [(1e-30, 1.0), (1e-10, 0.1)], "special.digamma": [(-9.5,), (-99.5,)],
    "special.expit": [(20.0,), (50.0,)], "special.softmax/2": [(30.0, -1e-3), (-1e-5, -30.0)],
    "special.log_softmax/2": [(30.0, -1e-3), (-1e-5, -30.0)],
    "special.logsumexp/2": [(-30.0, -1e-20), (-1e-5, -12.0)],
    "special.hyp1f1": [(100.0, 0.1, -100.0), (30.0, 0.5, -50.0)],
    "stats.binom.logpmf": [(1e3, 1e6, 1e-3)], "stats.binom.pmf": [(2.0, 1e4, 1e-30)],
    "stats.nbinom.logpmf": [(1e6, 0.1, 0.5), (1e4, 1e4, 0.5), (0.0, 1e-3, 0.7)],
    "stats.betabinom.logpmf": [(1e3, 1e6, 0.1, 2.0), (3.0, 5.0, 1e4, 1e4)],
    "stats.poisson.pmf": [(2.0, 1e-20)], "stats.poisson.entropy": [(15.5,), (26.0,)],
    "stats.gamma.logpdf": [(1e6, 1e6)], "stats.gamma.logsf": [(100.0, 1.0)],
    "stats.gamma.logcdf": [(1e-30, 2.0)], "stats.poisson.logpmf": [(1e6, 1e6)],
    "stats.cauchy.logpdf": [(1e30,)], "stats.cauchy.ppf": [(1e-8,), (1e-15,)],
    "stats.cauchy.logcdf": [(1e15,)], "stats.t.logpdf": [(1e30, 0.1)],
    "stats.vonmises.logpdf": [(1e-5, 1e12)], "stats.wrapcauchy.logpdf": [(1e-10, 0.9999)],
    "stats.pareto.logcdf": [(1e20, 0.5)],
    "stats.beta.sf": [(1e-30, 1e-3, 12.0)], "stats.expon.cdf": [(20.0,)],
    "stats.logistic.logpdf": [(1e-8,)], "stats.logistic.cdf": [(20.0,)],
    "stats.gumbel_r.pdf": [(-100.0,), (1e-8,)], "stats.gumbel_l.logcdf": [(-300.0,)],
    "stats.gumbel_r.logsf": [(300.0,)], "stats.gennorm.pdf": [(1e30, 3.5)],
    "stats.truncnorm.logpdf": [(200.0, 100.0, 1e4), (-30.5, -1e4, -30.0)],
    "stats.truncnorm.logcdf": [(8.01, 3.0, 1e4), (200.0, 100.0, 1e4)]}
BOUND = 64  # eps: sums of a few logarithms, and their exponentials


@pytest.fixture
def scripts(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Any, Any, Any]]:
    monkeypatch.syspath_prepend(SCRIPTS)
    import special_exact
    import special_survey
    import special_values
    yield special_exact, special_survey, special_values


HEAVY = ("gamma", "beta", "gennorm", "truncnorm", "hyp1f1", "nbinom", "poisson.pmf",
         "binom.pmf")  # what compiles for a second each
LIGHT = [n for n in VALUES if not any(h in n for h in HEAVY)]


def _slow(dtype: str, names: list[str], parts: int) -> list[Any]:
    """With slopes, some names to a program: one of all would compile for ten minutes."""
    return [pytest.param(dtype, names[i::parts], True, marks=pytest.mark.slow)
            for i in range(parts)]


@pytest.mark.parametrize("dtype, names, slopes", [
    ("float32", LIGHT, False), *_slow("float32", LIGHT, 3),
    *_slow("float32", sorted(set(VALUES) - set(LIGHT)), 4), *_slow("float64", list(VALUES), 8)])
def test_what_was_gross(dtype: str, names: list[str], slopes: bool, scripts: Any) -> None:
    exact, survey, values = scripts
    rows = {f.name: f for f in exact.FUNCTIONS if f.name in names}
    assert rows.keys() == set(names)
    given = {n: [np.array(c, "float32").astype(dtype) for c in zip(*VALUES[n])] for n in rows}

    def program(given: Any) -> Any:
        made = {}
        for name, f in rows.items():
            call = values.called(calque.scipy, calque.numpy, name)
            made[name] = [call(*given[name])]
            if slopes:
                made[name] += calque.grad(lambda *a, call=call: call(*a).sum(), f.by)(*given[name])
        return made

    with calque.enable_x64(dtype == "float64"):
        found = calque.jit(program)(given)
    for name, f in rows.items():
        true = survey.exact(f, np.array(VALUES[name], np.float32))
        for k, got in enumerate(found[name]):
            errors = survey.errors(np.asarray(got), true[:, k], dtype)
            assert not (errors > BOUND).any(), (name, k, VALUES[name], got, true[:, k], errors)
        assert np.isfinite(true[:, 0, 0]).all(), name


def test_slopes_far_below_one() -> None:
    """Of what is next to 1, as mpmath has them (chances: e^-x of the other one)."""
    def first(f: Any) -> Any:
        return lambda x: f(calque.numpy.stack([x, x * 0]))[0]

    x = np.float32([20, 30, 60])
    found = calque.jit(lambda x: [calque.vmap(calque.grad(f))(x) for f in (
        special.expit, first(special.softmax), first(special.log_softmax), special.digamma)])(
            np.float32([*x, -9.5]))
    chances = 1 / (1 + np.exp(x.astype(float)))
    for f in found[:3]:
        np.testing.assert_allclose(f[:3], chances * (1 - chances) if f is not found[2] else chances,
                                   rtol=1e-6)
    np.testing.assert_allclose(found[3][3], 9.769687445030232, rtol=1e-6)


@pytest.mark.slow
def test_infinities_and_the_ends_of_supports() -> None:
    inf = np.inf
    got = calque.jit(lambda: [
        stats.truncnorm.logcdf(8.0, 8.0, 9.0), stats.truncnorm.cdf(8.0, 8.0, 9.0),
        stats.truncnorm.sf(9.0, 8.0, inf), stats.truncnorm.cdf(inf, 8.0, inf),
        stats.truncnorm.logcdf(-inf, -inf, -8.0), special.log_ndtr(-inf), special.log_ndtr(inf),
        stats.cauchy.ppf(0.0), special.kl_div(0.0, 2.0), special.kl_div(1.0, 0.0),
        special.kl_div(0.0, 0.0)])()
    with mpmath.workdps(60):
        part = mpmath.erfc(9 / mpmath.sqrt(2)) / mpmath.erfc(8 / mpmath.sqrt(2))
    want = [-inf, 0, float(part), 1, -inf, -inf, 0, -inf, 2, inf, 0]
    np.testing.assert_allclose([float(g) for g in got], want, rtol=4e-6)


def _cells() -> dict[str, list[str]]:
    rows = PAGE.read_text().split("<!-- table: docs/scripts/special_survey.py -->")[1]
    return {r.split("|")[1].strip(" `"): [c.strip() for c in r.split("|")[2:-1]]
            for r in rows.splitlines() if r.startswith("| `")}


@pytest.mark.slow
@pytest.mark.parametrize("chunk", range(6))
def test_the_page_is_kept(chunk: int, scripts: Any) -> None:
    """No function is worse than the page says, but for what other hosts round otherwise."""
    exact, survey, _ = scripts
    names, page = survey.COLUMNS, _cells()
    found = survey.measured(exact.FUNCTIONS[chunk::6], {"calque": sys.executable})
    for name, cells in found.items():
        for column, now, then in zip(names, cells[1:], page[name][1:]):
            if now and then and then != "no number" and column[0] == "calque":
                assert now != "no number", (name, column)
                assert float(now) <= max(8.0, 3 * float(then)), (name, column, now, then)
