"""What functions of scipy.special and distributions of scipy.stats are, in mpmath, and where the
survey of special_functions.py looks at them: decades of both signs, halves, negative integers,
neighbours of 1 and of the other argument.  All points are float32 numbers, so that one exact value
serves both precisions.  Start reading at `FUNCTIONS`.
"""
from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Sequence
from typing import Any

import mpmath as mp
import numpy as np

Points = Sequence[float]
LARGE = 10 ** 5  # of exponents: what is beyond is 0 or inf in any precision

_TENS = [10.0 ** k for k in range(-30, 31)]
POSITIVE = [*_TENS, 0.25, 0.5, 0.75, 1 - 2.0 ** -20, 1 + 2.0 ** -20, 0.99, 1.01, 1.4616321, 1.5, 2,
            2.5, 3, 4.5, 5, 7, 8, 9.5, 12, 15.5, 20, 26, 30, 33.5, 35, 50, 80, 88, 120, 170.5, 300,
            700, 1500]
NEGATIVE = [-x for x in POSITIVE] + [-4.0, -6, -9, -171, -3.5, -5.5, -11.5, -20.5, -99.5]
REAL = [*NEGATIVE, *POSITIVE]
CHANCE = [*(10.0 ** -k for k in range(1, 31)), 0.5, 0.25, 0.75, 0.6, 0.9, 0.99, 0.999,
          1 - 1e-5, 1 - 2.0 ** -20, 1 - 2.0 ** -24]
ANGLE = [0.0, 1e-30, 1e-10, 1e-5, 1e-3, 0.1, 0.5, 1, 1.5707964, 2, 3, 3.1415927, 4, 5, 6, 6.28318]
# of several arguments: fewer of each
SIZES = [1e-30, 1e-20, 1e-10, 1e-5, 1e-3, 0.1, 0.5, 0.9, 1, 1.5, 2, 3.5, 7.5, 12, 30, 100, 1e3, 1e4,
         1e6, 1e8, 1e10, 1e15, 1e20, 1e30]
SIGNED = [*SIZES, *(-x for x in SIZES)]
MODEST = [1e-10, 1e-5, 1e-3, 0.1, 0.5, 1, 1.5, 2, 3.5, 7.5, 12, 30, 100, 1e3, 1e4]
SHAPES = [1e-3, 0.1, 0.5, 1, 2, 3.5, 12, 100, 1e4]
COUNTS = [0, 1, 2, 3, 5, 10, 30, 100, 1e3, 1e4, 1e6]
PARTS = [1e-30, 1e-10, 1e-5, 1e-3, 0.1, 0.3, 0.5, 0.7, 0.9, 0.999, 1 - 2.0 ** -20]


@dataclasses.dataclass
class Function:
    """name: path below scipy and, where it gives several, which; exact: of mpf numbers, None where
    there is no value; slopes: the arguments by which it is differentiated; near: the arguments that
    are next to each other in more points; count: of how many rows at most."""

    name: str
    exact: Callable[..., Any]
    sets: tuple[Points, ...]
    slopes: tuple[int, ...] | None = None
    near: tuple[int, int] | None = None
    count: int = 260

    def points(self) -> np.ndarray:
        """The rows of arguments, as float32 numbers."""
        rows = list(itertools.product(*self.sets))
        if len(rows) > self.count:
            chosen = np.random.default_rng(0).choice(len(rows), self.count, replace=False)
            rows = [rows[i] for i in sorted(chosen)]
        if self.near is not None:
            first, second = self.near
            for value, part in itertools.product(self.sets[second], (1 - 1e-3, 1, 1 + 1e-6, 1.1)):
                row = list(rows[len(rows) // 2])
                row[first], row[second] = value * part, value
                rows.append(tuple(row))
        return np.unique(np.array(rows, np.float32), axis=0)

    @property
    def by(self) -> tuple[int, ...]:
        return tuple(range(len(self.sets))) if self.slopes is None else self.slopes


# ---- pieces
def exp(x: Any) -> Any:
    return mp.mpf(0) if x < -LARGE else mp.inf if x > LARGE else mp.exp(x)


def log_gamma(x: Any) -> Any:
    return mp.re(mp.loggamma(x))


def whole(x: Any) -> bool:
    return bool(mp.isint(x))


def gamma(x: Any) -> Any:
    if x <= 0 and whole(x):
        return None
    return exp(log_gamma(x)) * (1 if x > 0 or mp.floor(x) % 2 == 0 else -1)


def lower(a: Any, x: Any) -> Any:
    return _incomplete(a, x, False)


def upper(a: Any, x: Any) -> Any:
    return _incomplete(a, x, True)


def _incomplete(a: Any, x: Any, above: bool) -> Any:
    if a <= 0 or x < 0 or (max(a, x) > 1e7 and not (x > 100 * a or x < a / 100)):
        return None
    if x > 100 * a + 1e4:  # beyond all digits
        return mp.mpf(0 if above else 1)
    if x < a / 100 and a > 1e4:
        return mp.mpf(1 if above else 0)
    if above:
        return mp.gammainc(a, x, mp.inf, regularized=True)
    return mp.gammainc(a, 0, x, regularized=True)


def log_beta(a: Any, b: Any) -> Any:
    return log_gamma(a) + log_gamma(b) - log_gamma(a + b)


def beta_part(a: Any, b: Any, x: Any) -> Any:
    if min(a, b) <= 0 or not 0 <= x <= 1 or max(a, b) > 2e4:
        return None
    return mp.betainc(a, b, 0, x, regularized=True)


def _betainc_upper(a: Any, b: Any, x: Any) -> Any:
    return beta_part(b, a, 1 - x)


def normal(x: Any) -> Any:
    return mp.erfc(-x / mp.sqrt(2)) / 2


def xlogy(x: Any, y: Any) -> Any:
    return mp.mpf(0) if x == 0 else x * mp.log(y)


def owens(h: Any, a: Any) -> Any:
    h = abs(h)
    if h > 100:
        return None
    end = abs(a) if h == 0 else min(abs(a), 25 / h)
    if end > 1e4:
        return None
    with mp.workdps(30):
        total = mp.quad(lambda x: mp.exp(-h * h * (1 + x * x) / 2) / (1 + x * x),
                        [0, *(10 ** mp.mpf(k) for k in range(-3, 5) if 10.0 ** k < end), end])
    return mp.sign(a) * total / (2 * mp.pi)


def _box(log: Any, power: Any) -> Any:
    if log * power < -LARGE:
        return -1 / power
    return (mp.expm1(log * power) if log * power < LARGE else mp.inf) / power


def _binomial(n: Any, k: Any) -> Any:
    if not 0 <= k <= n:
        return None
    return exp(-mp.log(n + 1) - log_beta(n - k + 1, k + 1))


_S = "special."
SPECIAL = [
    Function(_S + "gammaln", lambda x: None if x <= 0 and whole(x) else log_gamma(x), (REAL,)),
    Function(_S + "digamma", lambda x: None if x <= 0 and whole(x) else mp.digamma(x), (REAL,)),
    Function(_S + "gamma", gamma, (REAL,)),
    Function(_S + "factorial", lambda x: gamma(x + 1) if x >= 0 else None, (REAL,)),
    Function(_S + "loggamma", lambda x: log_gamma(x) if x > 0 else None, (REAL,)),
    Function(_S + "erf", mp.erf, (REAL,)),
    Function(_S + "erfc", mp.erfc, (REAL,)),
    Function(_S + "erfinv", mp.erfinv, ([*CHANCE, *(-x for x in CHANCE)],)),
    Function(_S + "erfcx", lambda x: exp(x * x) * mp.erfc(x) if x < 301 else mp.fsum(
        mp.fac2(2 * k - 1) / (-2 * x * x) ** k for k in range(25)) / (mp.sqrt(mp.pi) * x),
        (REAL,)),
    Function(_S + "dawsn", lambda x: mp.sqrt(mp.pi) / 2 * mp.exp(-x * x) * mp.erfi(x)
             if abs(x) < 100 else (1 + 1 / (2 * x * x) + 3 / (4 * x ** 4) + 15 / (8 * x ** 6)
                                   + 105 / (16 * x ** 8)) / (2 * x), (REAL,)),
    Function(_S + "expit", lambda x: 1 / (1 + exp(-x)), (REAL,)),
    Function(_S + "logit", lambda x: mp.log(x) - mp.log1p(-x), (CHANCE,)),
    Function(_S + "ndtr", normal, (REAL,)),
    Function(_S + "log_ndtr", lambda x: mp.log(normal(x)) if x < 0 else mp.log1p(-normal(-x)),
             (REAL,)),
    Function(_S + "ndtri", lambda p: mp.sqrt(2) * mp.erfinv(2 * p - 1), (CHANCE,)),
    Function(_S + "i0", lambda x: mp.besseli(0, x) if abs(x) < LARGE else mp.inf, (REAL,)),
    Function(_S + "i1", lambda x: mp.besseli(1, x) if abs(x) < LARGE else mp.sign(x) * mp.inf,
             (REAL,)),
    Function(_S + "i0e", lambda x: _scaled_bessel(0, x), (REAL,)),
    Function(_S + "i1e", lambda x: _scaled_bessel(1, x), (REAL,)),
    Function(_S + "expi", lambda x: mp.ei(x) if abs(x) < LARGE else exp(x), (REAL,)),
    Function(_S + "exp1", lambda x: mp.e1(x) if x < LARGE else mp.mpf(0), (POSITIVE,)),
    Function(_S + "sici/0", mp.si, (REAL,)),
    Function(_S + "sici/1", mp.ci, (POSITIVE,)),
    Function(_S + "fresnel/0", mp.fresnels, ([x for x in REAL if abs(x) < 1e10],)),
    Function(_S + "fresnel/1", mp.fresnelc, ([x for x in REAL if abs(x) < 1e10],)),
    Function(_S + "spence", lambda x: mp.re(mp.polylog(2, 1 - x)) if x < 1e10 else None,
             (POSITIVE,)),
    Function(_S + "entr", lambda x: -x * mp.log(x), (POSITIVE,)),
    Function(_S + "multigammaln/3", lambda a: mp.mpf(3) / 2 * mp.log(mp.pi) + sum(
        log_gamma(a - mp.mpf(j) / 2) for j in range(3)) if a > 1 else None, (POSITIVE,)),
    Function(_S + "betaln", log_beta, (SIZES, SIZES), near=(0, 1)),
    Function(_S + "beta", lambda a, b: exp(log_beta(a, b)), (SIZES, SIZES), near=(0, 1)),
    Function(_S + "gammainc", lower, (SIZES, SIZES), (1,), (1, 0)),
    Function(_S + "gammaincc", upper, (SIZES, SIZES), (1,), (1, 0)),
    Function(_S + "betainc", beta_part, (MODEST, MODEST, PARTS), (2,)),
    Function(_S + "polygamma", lambda n, x: (-1) ** int(n + 1) * mp.factorial(n) * mp.zeta(
        n + 1, x) if n else mp.digamma(x), ([0, 1, 2, 3, 5, 12, 30], SIZES), (1,)),
    Function(_S + "zeta", lambda x, q: mp.zeta(x, q) if x <= 1e3 and not (x < 1.1 and q > 1e3) else
             None, ([1 + 1e-6, 1.1, 1.5, 2, 3, 5.5, 12, 30, 100], SIZES), (1,)),
    Function(_S + "xlogy", xlogy, (SIGNED, SIZES)),
    Function(_S + "xlog1py", lambda x, y: x * mp.log1p(y) if y > -1 else None, (SIGNED, SIGNED)),
    Function(_S + "rel_entr", lambda p, q: p * mp.log(p / q), (SIZES, SIZES), near=(0, 1)),
    Function(_S + "kl_div", lambda p, q: p * mp.log(p / q) - p + q, (SIZES, SIZES), near=(0, 1)),
    Function(_S + "boxcox", lambda x, p: _box(mp.log(x), p), (SIZES, SIGNED)),
    Function(_S + "boxcox1p", lambda x, p: _box(mp.log1p(x), p), (SIZES, SIGNED)),
    Function(_S + "poch", lambda z, m: exp(log_gamma(z + m) - log_gamma(z)), (SIZES, SIZES)),
    Function(_S + "comb", _binomial, (COUNTS, COUNTS), near=(1, 0)),
    Function(_S + "expn", lambda n, x: mp.expint(n, x) if x < LARGE else mp.mpf(0),
             ([0, 1, 2, 3, 10, 50, 1000], SIZES), (1,)),
    Function(_S + "owens_t", owens, ([-8.0, -1, 1e-10, 0.01, 0.5, 1, 3, 8, 30],
                                     [-1.0, 1e-10, 0.01, 0.5, 1, 2, 100, 1e4]), (), count=60),
    Function(_S + "hyp1f1", mp.hyp1f1, (SHAPES[:-1], SHAPES[:-1], [
        -1e3, -100.0, -10, -1, -1e-3, 1e-10, 0.1, 1, 5, 50, 300]), (2,), count=200),
    Function(_S + "hyp2f1", mp.hyp2f1, (SHAPES[:6], SHAPES[:6], SHAPES[:6], [
        -10.0, -1, -1e-3, 1e-10, 0.1, 0.5, 0.9, 0.99]), (3,), count=120),
    Function(_S + "bessel_jn/2", lambda x: mp.besselj(2, x), (
        [x for x in REAL if 1e-6 <= abs(x) <= 50],)),
    Function(_S + "logsumexp/2", lambda a, b: max(a, b) + mp.log1p(exp(-abs(a - b))),
             (SIGNED, SIGNED), near=(0, 1)),
    Function(_S + "softmax/2", lambda a, b: 1 / (1 + exp(b - a)), (SIGNED, SIGNED), near=(0, 1)),
    Function(_S + "log_softmax/2", lambda a, b: -mp.log1p(exp(b - a)) if b - a < 1e4 else a - b,
             (SIGNED, SIGNED), near=(0, 1)),
]


def _scaled_bessel(n: int, x: Any) -> Any:
    if abs(x) > 1e6:  # two terms of the asymptotic series
        return mp.sign(x) ** n / mp.sqrt(2 * mp.pi * abs(x)) * (1 - (4 * n - 1) / (8 * abs(x)))
    return mp.besseli(n, x) * mp.exp(-abs(x))


# ---- distributions: log of the density, probabilities below and above, quantiles of both
def _laws(name: str, shapes: tuple[Points, ...], points: Points, density: Any, below: Any = None,
          above: Any = None, ppf: Any = None, isf: Any = None,
          slopes: tuple[int, ...] | None = None,
          only: str = "", count: int = 200, near: tuple[int, int] | None = None) -> list[Function]:
    def log_of(p: Any, rest: Any) -> Any:
        def value(*a: Any) -> Any:
            part = p(*a)
            if part is None or part == 0:
                return None
            return mp.log(part) if part < 0.5 else mp.log1p(-rest(*a))
        return value

    def plain(*a: Any) -> Any:
        value = density(*a)
        return None if value is None else exp(value)

    made = {"logpdf": density, "pdf": plain}
    if below is not None:
        made.update(cdf=below)
    if above is not None:
        made.update(sf=above, logcdf=log_of(below, above), logsf=log_of(above, below))
    given = [Function(f"stats.{name}.{each}", f, (points, *shapes), None if each.endswith("pdf")
                      else slopes, near, count)
             for each, f in made.items() if not only or each in only.split()]
    for each, f in (("ppf", ppf), ("isf", isf)):
        if f is not None:
            given.append(Function(f"stats.{name}.{each}", f, (CHANCE, *shapes), count=count))
    return given


def _within(low: float, high: float, f: Any) -> Any:
    return lambda x, *a: f(x, *a) if low <= x <= high else None


def _norm(z: Any) -> Any:
    return -z * z / 2 - mp.log(2 * mp.pi) / 2


def _gamma_density(z: Any, a: Any) -> Any:
    return (a - 1) * mp.log(z) - z - log_gamma(a)


def _student(z: Any, df: Any) -> Any:
    return -log_beta(mp.mpf(0.5), df / 2) - mp.log(df) / 2 - (df + 1) / 2 * mp.log1p(z * z / df)


def _mass(a: Any, b: Any) -> Any:
    return normal(b) - normal(a) if a < 0 else normal(-a) - normal(-b)


def _cut(f: Any) -> Any:
    return lambda z, a, b: f(z, a, b) if a < b and a < z < b else None


def _cut_density(z: Any, a: Any, b: Any) -> Any:
    return _norm(z) - mp.log(_mass(a, b))


def _von_mises(x: Any, kappa: Any) -> Any:
    return kappa * (mp.cos(x) - 1) - mp.log(2 * mp.pi * _scaled_bessel(0, kappa))


def _wrapped(x: Any, c: Any) -> Any:
    if not 0 <= x <= 2 * mp.pi:
        return None
    return mp.log((1 - c * c) / (2 * mp.pi * (1 + c * c - 2 * c * mp.cos(x))))


def _generalized(x: Any, b: Any) -> Any:
    return mp.log(b / 2) - log_gamma(1 / b) - abs(x) ** b


def _generalized_below(x: Any, b: Any) -> Any:
    part = upper(1 / b, abs(x) ** b)
    return None if part is None else part / 2 if x < 0 else 1 - part / 2


BOUNDS = [-1e4, -100.0, -30, -8, -1, 0.5, 3, 8, 30, 100, 1e4]
CONTINUOUS = [
    *_laws("norm", (), REAL, _norm, normal, lambda z: normal(-z),
           lambda q: mp.sqrt(2) * mp.erfinv(2 * q - 1),
           lambda q: -mp.sqrt(2) * mp.erfinv(2 * q - 1)),
    *_laws("cauchy", (), REAL, lambda z: -mp.log(mp.pi * (1 + z * z)),
           lambda z: mp.atan2(1, -z) / mp.pi, lambda z: mp.atan2(1, z) / mp.pi,
           lambda q: -mp.cot(mp.pi * q), lambda q: mp.cot(mp.pi * q)),
    *_laws("expon", (), POSITIVE, lambda z: -z, lambda z: -mp.expm1(-z) if z < LARGE else mp.mpf(1),
           lambda z: exp(-z), lambda q: -mp.log1p(-q)),
    *_laws("laplace", (), REAL, lambda z: -abs(z) - mp.log(2),
           lambda z: exp(z) / 2 if z < 0 else 1 - exp(-z) / 2),
    *_laws("logistic", (), REAL, lambda z: -abs(z) - 2 * mp.log1p(exp(-abs(z))),
           lambda z: 1 / (1 + exp(-z)), lambda z: 1 / (1 + exp(z)),
           lambda q: mp.log(q) - mp.log1p(-q), lambda q: mp.log1p(-q) - mp.log(q),
           only="logpdf pdf cdf sf"),
    *_laws("gumbel_r", (), REAL, lambda z: -z - exp(-z), lambda z: exp(-exp(-z)),
           lambda z: -mp.expm1(-exp(-z)) if z > -10 else 1 - exp(-exp(-z)),
           lambda q: -mp.log(-mp.log(q))),
    *_laws("gumbel_l", (), REAL, lambda z: z - exp(z),
           lambda z: -mp.expm1(-exp(z)) if z < 10 else 1 - exp(-exp(z)), lambda z: exp(-exp(z)),
           lambda q: mp.log(-mp.log1p(-q))),
    *_laws("pareto", (SHAPES,), [1 + 2.0 ** -20, 1.01, 1.5, 2, 10, 1e3, 1e6, 1e10, 1e20, 1e30],
           lambda z, b: mp.log(b) - (b + 1) * mp.log(z), lambda z, b: 1 - exp(-b * mp.log(z)),
           lambda z, b: exp(-b * mp.log(z)), lambda q, b: exp(-mp.log1p(-q) / b)),
    *_laws("gamma", (SHAPES,), SIZES, _gamma_density, lambda z, a: lower(a, z),
           lambda z, a: upper(a, z), slopes=(0,)),
    *_laws("chi2", (SHAPES,), SIZES, lambda z, df: _gamma_density(z / 2, df / 2) - mp.log(2),
           lambda z, df: lower(df / 2, z / 2), lambda z, df: upper(df / 2, z / 2), slopes=(0,)),
    *_laws("beta", (SHAPES, SHAPES), PARTS, lambda z, a, b: (a - 1) * mp.log(z) + (
        b - 1) * mp.log1p(-z) - log_beta(a, b), lambda z, a, b: beta_part(a, b, z),
        lambda z, a, b: _betainc_upper(a, b, z), slopes=(0,), count=120),
    *_laws("t", (MODEST,), SIGNED, _student),
    *_laws("gennorm", ([0.1, 0.5, 1, 1.5, 2, 3.5, 12, 100],), SIGNED, _generalized,
           _generalized_below, slopes=(0,)),
    *_laws("vonmises", (SIZES,), ANGLE, _von_mises),
    *_laws("wrapcauchy", (PARTS,), ANGLE, _wrapped),
    *_laws("truncnorm", (BOUNDS, BOUNDS), [-120.0, -30.5, -8.5, -8.01, -1.5, -1e-10, 0.1, 1, 4,
           8.01, 9, 30.5, 31, 200, 10001], _cut(_cut_density),
           _cut(lambda z, a, b: _mass(a, z) / _mass(a, b)),
           _cut(lambda z, a, b: _mass(z, b) / _mass(a, b)), count=400),
]


def _counts(name: str, sets: tuple[Points, ...], log: Any, slopes: tuple[int, ...]
            ) -> list[Function]:
    def plain(*a: Any) -> Any:
        value = log(*a)
        return None if value is None else exp(value)

    return [Function(f"stats.{name}.logpmf", log, sets, slopes),
            Function(f"stats.{name}.pmf", plain, sets, slopes)]


def _choose(n: Any, k: Any) -> Any:
    return -mp.log(n + 1) - log_beta(n - k + 1, k + 1)


def _binom(k: Any, n: Any, p: Any) -> Any:
    return _choose(n, k) + xlogy(k, p) + xlogy(n - k, 1 - p) if k <= n else None


def _betabinom(k: Any, n: Any, a: Any, b: Any) -> Any:
    return _choose(n, k) + log_beta(k + a, n - k + b) - log_beta(a, b) if k <= n else None


def _entropy(mu: Any) -> Any:
    if mu > 1e3:
        return None
    end = int(mu + 40 * mp.sqrt(mu) + 80)
    with mp.workdps(50):
        terms = [mp.exp(k * mp.log(mu) - mu - mp.loggamma(k + 1)) * mp.loggamma(k + 1)
                 for k in range(end)]
    return mu * (1 - mp.log(mu)) + mp.fsum(terms)


DISCRETE = [
    *_counts("binom", (COUNTS, COUNTS[1:], PARTS), _binom, (2,)),
    *_counts("betabinom", (COUNTS, COUNTS[1:], SHAPES, SHAPES), _betabinom, (2, 3)),
    *_counts("geom", (COUNTS[1:], PARTS), lambda k, p: xlogy(k - 1, 1 - p) + mp.log(p), (1,)),
    *_counts("nbinom", (COUNTS, SHAPES, PARTS), lambda k, n, p: log_gamma(k + n) - log_gamma(n)
             - log_gamma(k + 1) + n * mp.log(p) + xlogy(k, 1 - p), (1, 2)),
    *_counts("poisson", (COUNTS, SIZES), lambda k, mu: xlogy(k, mu) - log_gamma(k + 1) - mu, (1,)),
    Function("stats.poisson.cdf", lambda k, mu: upper(k + 1, mu), (COUNTS, SIZES), (1,)),
    Function("stats.poisson.entropy", _entropy, ([x for x in POSITIVE if 1e-10 < x < 1e3],)),
]

FUNCTIONS = [*SPECIAL, *CONTINUOUS, *DISCRETE]
