"""Special functions, thin over the primitives: a row each where there is nothing else to do.

Start reading at `_row`; those with a body of their own follow.
"""
from __future__ import annotations

import math
import operator
from typing import Any

import numpy as np

from calque.api.custom_derivatives import custom_jvp
from calque.core import dtypes
from calque.core.avals import dtype_of
from calque.core.errors import explain
from calque.core.primitive import Primitive
from calque.core.types import Function
from calque.nn import normalize
from calque.nn.normalize import logsumexp
from calque.numpy import reductions as rd
from calque.numpy import util
from calque.numpy.arithmetic import absolute
from calque.numpy.creation import asarray
from calque.numpy.logic import where
from calque.numpy.special import i0 as _i0
from calque.primitives import elementwise as ew
from calque.primitives import special as sp
from calque.scipy.bessel import bessel_jn
from calque.scipy.combinatorial import bernoulli, comb, loggamma
from calque.scipy.describe import described as _described
from calque.scipy.describe import floats as _real
from calque.scipy.exponential import expi
from calque.scipy.faddeeva import dawsn, erfcx, fresnel, wofz
from calque.scipy.harmonics import sph_harm_y
from calque.scipy.hypergeometric import hyp1f1, hyp2f1
from calque.scipy.integrals import exp1, expn, owens_t, sici, spence


def _f(value: str) -> str:
    return f"Array({value}, dtype=float32, weak_type=True)"


def _apply(name: str, prim: Primitive, *values: Any) -> Any:
    """A primitive of promoted and broadcast operands."""
    values = tuple(util.promote_inexact(name, *values))
    return util.apply(name, prim, values, *util.joined(values))


def _row(name: str, prim: Primitive, sentence: str, given: str, result: str) -> Function:
    """A function of one array that is one primitive."""
    def f(x: Any) -> Any:
        return _apply(name, prim, x)

    f.__name__ = f.__qualname__ = name
    return _described(sentence, "x", given, result)(f)


gammaln = _row("gammaln", sp.lgamma_p, "log |Gamma(x)|.", "5.0", _f("3.1780539"))
digamma = _row("digamma", sp.digamma_p, "Derivative of log Gamma(x).", "1.0", _f("-0.5772157"))
erf = _row("erf", ew.erf_p, "Error function.", "1.0", _f("0.8427008"))
erfc = _row("erfc", ew.erfc_p, "1 - erf(x), exact for large x.", "1.0", _f("0.1572992"))
erfinv = _row("erfinv", ew.erf_inv_p, "Inverse of erf.", "0.5", _f("0.47693628"))
expit = _row("expit", ew.logistic_p, "1 / (1 + e**-x).", "0.0", _f("0.5"))
i0e = _row("i0e", sp.bessel_i0e_p, "e**-|x| I0(x).", "1.0", _f("0.4657596"))
i1e = _row("i1e", sp.bessel_i1e_p, "e**-|x| I1(x).", "1.0", _f("0.20791042"))


@_described("Regularized lower incomplete gamma function P(a, x).", "a x", "1.0, 2.0",
            _f("0.86466473"))
@util.planned
def gammainc(a: Any, x: Any) -> Any:
    return _apply("gammainc", sp.igamma_p, a, x)


@_described("Regularized upper incomplete gamma function 1 - P(a, x).", "a x", "1.0, 2.0",
            _f("0.13533528"))
@util.planned
def gammaincc(a: Any, x: Any) -> Any:
    return _apply("gammaincc", sp.igammac_p, a, x)


@_described("Regularized incomplete beta function I_x(a, b).", "a b x", "1.0, 2.0, 0.5",
            _f("0.75"))
@util.planned
def betainc(a: Any, b: Any, x: Any) -> Any:
    _real("betainc", a, b, x, error=ValueError)
    return _apply("betainc", sp.regularized_incomplete_beta_p, a, b, x)


@_described("Derivative of order n of digamma(x).", "n x", "1, 1.0", _f("1.644934"))
@util.planned
def polygamma(n: Any, x: Any) -> Any:
    _real("polygamma", n, error=ValueError)
    return _apply("polygamma", sp.polygamma_p, n, x)


# ---- gamma and its kin
@_described("Modified Bessel function I0(x).", "x", "1.0", _f("1.2660658"))
@util.planned
def i0(x: Any) -> Any:
    return _i0(_real("i0", x)[0])


@_described("Modified Bessel function I1(x).", "x", "1.0", _f("0.5651591"))
@util.planned
def i1(x: Any) -> Any:
    (x,) = _real("i1", x)
    return ew.exp(absolute(x)) * sp.bessel_i1e_p.bind(x)


def _sign(x: Any) -> Any:
    below = ew.floor(x)
    odd = ew.ne(ew.rem(below, dtype_of(x).type(2)), dtype_of(x).type(0))
    signed = where(odd, -1.0, 1.0)
    plain = where(x == 0, where(1 / x > 0, 1.0, -1.0), where(x == below, np.nan, signed))
    return ew.convert(where(x > 0, 1.0, where(ew.eq(x, x), plain, np.nan)), dtype_of(x),
                      util.weak_of(x))


@_described("Sign of Gamma(x); NaN at negative integers.", "x", "-0.5",
            "Array(-1., dtype=float32)")
@util.planned
def gammasgn(x: Any) -> Any:
    (x,) = _real("gammasgn", x, error=ValueError)
    return util.cast(_sign(x), dtype_of(x))


# Lanczos' coefficients for g = 7, n = 9 (Godfrey, 2001): 15 digits for real parts >= 0.5.
_LANCZOS = (0.99999999999980993, 676.5203681218851, -1259.1392167224028, 771.32342877765313,
            -176.61502916214059, 12.507343278686905, -0.13857109526572012, 9.9843695780195716e-6,
            1.5056327351493116e-7)


def _complex_gamma(z: Any) -> Any:
    """Lanczos (1964) right of 0.5, Euler's reflection left of it."""
    left = ew.real(z) < 0.5
    w = where(left, -z, z - 1)
    terms = [c / (w + i) for i, c in enumerate(_LANCZOS[1:], 1)]
    t = w + 7.5
    value = math.sqrt(2 * math.pi) * ew.exp((w + 0.5) * ew.log(t) - t) * sum(
        terms, start=_LANCZOS[0])
    value = where(left, math.pi / (ew.sin(math.pi * z) * value), value)
    x, y = ew.real(z), ew.imag(z)  # on the real line: poles, and no NaN beside inf
    real = ew.complex_(_real_gamma(x), y)
    pole = (y == 0) & (x <= 0) & (ew.floor(x) == x)
    real = where(pole, complex(np.nan, np.nan), real)
    return where(y == 0, real, value)


def _real_gamma(x: Any) -> Any:
    return _sign(x) * ew.exp(sp.lgamma_p.bind(x))


@_described("Gamma(x), of complex x too.", "x", "5.0", "Array(24., dtype=float32)")
@util.planned
def gamma(x: Any) -> Any:
    (x,) = util.inexact_arrays("gamma", x)
    if util.is_complex(x):
        return util.cast(_complex_gamma(x), dtype_of(x))
    out = _real_gamma(x)
    return util.cast(out, dtype_of(out))


def _betaln(a: Any, b: Any) -> Any:
    lgamma = sp.lgamma_p.bind
    a, b = util.broadcast_all("betaln", a, b)
    return lgamma(a) + lgamma(b) - lgamma(a + b)


@_described("log |B(a, b)|, B the beta function.", "a b", "2.0, 3.0", _f("-2.4849067"))
@util.planned
def betaln(a: Any, b: Any) -> Any:
    return _betaln(*_real("betaln", a, b))


@_described("Beta function Gamma(a) Gamma(b) / Gamma(a + b).", "a b", "2.0, 3.0",
            "Array(0.08333333, dtype=float32)")
@util.planned
def beta(a: Any, b: Any) -> Any:
    a, b = _real("beta", a, b, error=ValueError)
    out = _sign(a) * _sign(b) * _sign(a + b) * ew.exp(_betaln(a, b))
    return ew.convert(out, dtype_of(out))


@util.planned
def factorial(n: Any, exact: bool = False) -> Any:
    """n! = Gamma(n + 1); 0 for negative n.

    Args:
      n: array or scalar.
      exact: not supported.

    Returns:
      An array of inexact dtype.

    Raises:
      NotImplementedError: exact is asked for.
      TypeError: n is not an array or a number.

    Example:
      >>> from calque.scipy import special
      >>> special.factorial(3.0).round()
      Array(6., dtype=float32, weak_type=True)
    """
    if exact:
        raise NotImplementedError(explain("factorial with exact=True", fix="use math.factorial."))
    with util.lazy_eval("factorial"):
        (n,) = _real("factorial", n)
        return where(n < 0, 0, ew.exp(sp.lgamma_p.bind(n + 1)))


@_described("Gamma(z + m) / Gamma(z), the rising factorial.", "z m", "2.0, 3.0",
            "Array(24., dtype=float32)")
@util.planned
def poch(z: Any, m: Any) -> Any:
    z, m = util.broadcast_all("poch", *_real("poch", z, m, error=ValueError))
    ratio = ew.exp(sp.lgamma_p.bind(z + m) - sp.lgamma_p.bind(z))
    out = where(m == 0, 1, _sign(z + m) * _sign(z) * ratio)
    return ew.convert(out, dtype_of(out))


@util.planned
def multigammaln(a: Any, d: int) -> Any:
    """log of the multivariate gamma function of dimension d.

    Args:
      a: array or scalar.
      d: dimension, a Python int.

    Returns:
      An array of a's shape.

    Raises:
      TypeError: a is not an array or a number, or d no integer.

    Example:
      >>> from calque.scipy import special
      >>> special.multigammaln(3.0, 2)
      Array(1.550195, dtype=float32)
    """
    d = int(d) if isinstance(d, float) and d.is_integer() else operator.index(d)  # type: ignore[attr-defined]
    with util.lazy_eval("multigammaln"):
        (a,) = _real("multigammaln", a)
        halves = np.arange(d).astype(dtype_of(a)) / 2
        terms = sp.lgamma_p.bind(a[..., None] - halves)
        constant = d * (d - 1) / 4 * math.log(math.pi)
        return rd.sum(terms, axis=-1) + dtype_of(a).type(constant)


@util.planned
def zeta(x: Any, q: Any = None) -> Any:
    """Hurwitz zeta function: the sum of (q + k)**-x; Riemann's for q = 1.

    Args:
      x: array or scalar.
      q: array or scalar; 1 by default.

    Returns:
      An array of the broadcast shape.

    Raises:
      TypeError: an argument is not an array or a number.

    Example:
      >>> from calque.scipy import special
      >>> special.zeta(2.0, 1.0)
      Array(1.644934, dtype=float32, weak_type=True)
    """
    values = tuple(util.promote_inexact("zeta", x, 1.0 if q is None else q))
    return util.apply("zeta", sp.zeta_p, values, *util.joined(values))


# ---- entropies
@custom_jvp
def _xlogy(x: Any, y: Any) -> Any:
    return where((x == 0) & ew.eq(y, y), 0, x * ew.log(y))  # NaN stays


@custom_jvp
def _xlog1py(x: Any, y: Any) -> Any:
    return where((x == 0) & ew.eq(y, y), 0, x * ew.log1p(y))


@custom_jvp
def _entr(x: Any) -> Any:
    return where(x < 0, -np.inf, -_xlogy(x, x))


_xlogy.defjvps(lambda t, out, x, y: t * ew.log(y), lambda t, out, x, y: t * (x / y))
_xlog1py.defjvps(lambda t, out, x, y: t * ew.log1p(y),
                 lambda t, out, x, y: t * (x / (1 + y)))
_entr.defjvps(lambda t, out, x: -t * (ew.log(x) + 1))


def _pair(name: str, x: Any, y: Any) -> list[Any]:
    """Both as arrays of one shape and dtype, float or complex."""
    return util.broadcast_all(name, *util.inexact_arrays(name, x, y))


@_described("x log(y), 0 for x = 0.", "x y", "2.0, 3.0", _f("2.1972246"))
@util.planned
def xlogy(x: Any, y: Any) -> Any:
    return _xlogy(*_pair("xlogy", x, y))


@_described("x log(1 + y), 0 for x = 0.", "x y", "2.0, 3.0", _f("2.7725887"))
@util.planned
def xlog1py(x: Any, y: Any) -> Any:
    return _xlog1py(*_pair("xlog1py", x, y))


@_described("-x log(x), 0 at 0, -inf below.", "x", "0.5", _f("0.3465736"))
@util.planned
def entr(x: Any) -> Any:
    return _entr(*_real("entr", x, error=ValueError))


@custom_jvp
def _relative(p: Any, q: Any) -> Any:
    return p * (ew.log(p) - ew.log(q))


_relative.defjvps(  # not p/p + ...: infinite p have an infinite slope
    lambda t, out, p, q: t * (ew.log(p) - ew.log(q) + 1),
    lambda t, out, p, q: -t * (p / q))


@_described("x log(x / y): a term of the relative entropy; inf where it has no value.", "p q",
            "2.0, 1.0", _f("1.3862944"))
@util.planned
def rel_entr(p: Any, q: Any) -> Any:
    given = p, q = _real("rel_entr", p, q, error=ValueError)
    p, q = util.broadcast_all("rel_entr", p, q)
    both, none = (p > 0) & (q > 0), (p == 0) & (q >= 0)
    safe_p, safe_q = where(both, p, 1), where(both, q, 1)
    return util.settled(where(both, _relative(safe_p, safe_q), where(none, 0, np.inf)), *given)


@_described("x log(x / y) - x + y: a term of the Kullback-Leibler divergence.", "p q",
            "2.0, 1.0", _f("0.38629436"))
@util.planned
def kl_div(p: Any, q: Any) -> Any:
    p, q = _real("kl_div", p, q, error=ValueError)
    return rel_entr(p, q) - p + q


@custom_jvp
def _logit(x: Any) -> Any:
    return ew.log(x / (1 - x))


_logit.defjvps(lambda t, out, x: t / (x * (1 - x)))


@_described("log(x / (1 - x)), the inverse of expit.", "x", "0.5", _f("0."))
@util.planned
def logit(x: Any) -> Any:
    (x,) = util.inexact_arrays("logit", x)
    return util.settled(_logit(x), x)


def softmax(x: Any, /, *, axis: Any = None) -> Any:
    """e**x / sum(e**x) along axes.

    Args:
      x: array or scalar.
      axis: an axis or several; None for all.

    Returns:
      An array of x's shape.

    Raises:
      TypeError: x is not an array.
      ValueError: an axis is out of bounds.

    Example:
      >>> import calque.numpy as jnp
      >>> from calque.scipy import special
      >>> special.softmax(jnp.array([1.0, 1.0]))
      Array([0.5, 0.5], dtype=float32)
    """
    return normalize.softmax(x, axis)


def log_softmax(x: Any, /, *, axis: Any = None) -> Any:
    """log(softmax(x)) along axes, without underflow.

    Args:
      x: array or scalar.
      axis: an axis or several; None for all.

    Returns:
      An array of x's shape.

    Raises:
      TypeError: x is not an array.
      ValueError: an axis is out of bounds.

    Example:
      >>> import calque.numpy as jnp
      >>> from calque.scipy import special
      >>> special.log_softmax(jnp.array([1.0, 1.0]))
      Array([-0.6931472, -0.6931472], dtype=float32)
    """
    return normalize.log_softmax(x, axis)


# ---- the normal distribution
def _float32_or_64(x: Any) -> Any:
    x = asarray(x)
    dtype = dtype_of(x)
    if dtype not in (dtypes.float32, np.dtype("float64")):
        raise TypeError(explain(
            f"x.dtype={dtype.name} is not supported, see docstring for supported types.",
            fix="convert it with astype('float32')."))
    return x


def _ndtr(x: Any) -> Any:
    y = x * dtype_of(x).type(math.sqrt(0.5))
    # each form where it keeps its digits
    far = absolute(y) >= math.sqrt(0.5)
    tail = 0.5 * ew.erfc(absolute(y))
    return where(far, where(y > 0, 1 - tail, tail), 0.5 + 0.5 * ew.erf(y))


@_described("Normal distribution function: the probability of values below x (float32, float64).",
            "x", "0.0", "Array(0.5, dtype=float32)")
@util.planned
def ndtr(x: Any) -> Any:
    return _ndtr(_float32_or_64(x))


@custom_jvp
def _log_ndtr(x: Any) -> Any:
    wide = dtype_of(x).itemsize > 4
    low, high = (-20.0, 8.0) if wide else (-10.0, 5.0)
    middle = ew.log(_ndtr(where(x < low, low, x)))
    # x << 0: the asymptotic series of the tail (Abramowitz and Stegun 26.2.12)
    far = where(x < low, x, low)
    square, term, series = far * far, 1.0, 1.0
    for k in range(1, 4):
        term = -term * (2 * k - 1) / square
        series = series + term
    tail = (-square / 2 - ew.log(-far) - 0.5 * math.log(2 * math.pi)
            + ew.log(series))
    return where(x > high, -_ndtr(-x), where(x < low, tail, middle))  # (the middle has NaN)


_log_ndtr.defjvps(lambda t, out, x: t * ew.exp(
    -x * x / 2 - 0.5 * math.log(2 * math.pi) - out))


@util.planned
def log_ndtr(x: Any, series_order: int = 3) -> Any:
    """log of the normal distribution function, without underflow.

    Args:
      x: array or scalar of dtype float32 or float64.
      series_order: accepted; three terms are used where x is far below 0.

    Returns:
      An array of x's shape.

    Raises:
      TypeError: x is not an array, or of another dtype.
      ValueError: series_order is not in 0 to 30.

    Example:
      >>> from calque.scipy import special
      >>> special.log_ndtr(-30.0)
      Array(-454.32123, dtype=float32)
    """
    if not isinstance(series_order, int):
        raise TypeError(explain("series_order must be a Python integer."))
    if not 0 <= series_order <= 30:
        raise ValueError(explain("series_order must be non-negative and at most 30."))
    with util.lazy_eval("log_ndtr"):
        return _log_ndtr(_float32_or_64(x))


# Cephes' ndtri: rational functions of p around 1/2, and of 1 / sqrt(-2 log p) in the tails
_P0 = (-5.99633501014107895267E1, 9.80010754185999661536E1, -5.66762857469070293439E1,
       1.39312609387279679503E1, -1.23916583867381258016E0)
_Q0 = (1.0, 1.95448858338141759834E0, 4.67627912898881538453E0, 8.63602421390890590575E1,
       -2.25462687854119370527E2, 2.00260212380060660359E2, -8.20372256168333339912E1,
       1.59056225126211695515E1, -1.18331621121330003142E0)
_P1 = (4.05544892305962419923E0, 3.15251094599893866154E1, 5.71628192246421288162E1,
       4.40805073893200834700E1, 1.46849561928858024014E1, 2.18663306850790267539E0,
       -1.40256079171354495875E-1, -3.50424626827848203418E-2, -8.57456785154685413611E-4)
_Q1 = (1.0, 1.57799883256466749731E1, 4.53907635128879210584E1, 4.13172038254672030440E1,
       1.50425385692907503408E1, 2.50464946208309415979E0, -1.42182922854787788574E-1,
       -3.80806407691578277194E-2, -9.33259480895457427372E-4)
_P2 = (3.23774891776946035970E0, 6.91522889068984211695E0, 3.93881025292474443415E0,
       1.33303460815807542389E0, 2.01485389549179081538E-1, 1.23716634817820021358E-2,
       3.01581553508235416007E-4, 2.65806974686737550832E-6, 6.23974539184983293730E-9)
_Q2 = (1.0, 6.02427039364742014255E0, 3.67983563856160859403E0, 1.37702099489081330271E0,
       2.16236993594496635890E-1, 1.34204006088543189037E-2, 3.28014464682127739104E-4,
       2.89247864745380683936E-6, 6.79019408009981274425E-9)


def _horner(coefficients: tuple[float, ...], x: Any) -> Any:
    made = dtype_of(x).type(coefficients[0])
    for c in coefficients[1:]:
        made = made * x + dtype_of(x).type(c)
    return made


def _quantile(p: Any) -> Any:
    tail = -math.expm1(-2)
    q = where(p > tail, 1 - p, p)
    inside = q > math.exp(-2)
    center = where(inside, q, 0.5) - 0.5
    square = center * center
    near = center + center * square * (_horner(_P0, square) / _horner(_Q0, square))
    near = near * -math.sqrt(2 * math.pi)
    z = ew.sqrt(-2 * ew.log(where(inside | (q <= 0), math.exp(-3), q)))
    inverse = 1 / z
    first = z - ew.log(z) / z
    correction = where(z >= 8.0, _horner(_P2, inverse) / _horner(_Q2, inverse),
                       _horner(_P1, inverse) / _horner(_Q1, inverse)) * inverse
    x = where(inside, near, first - correction)
    x = where(p > tail, x, -x)
    x = where(p == 0, -np.inf, where(p == 1, np.inf, x))
    return where((p < 0) | (p > 1) | ew.ne(p, p), np.nan, x)


@custom_jvp
def _ndtri(p: Any) -> Any:
    return _quantile(p)


_ndtri.defjvps(lambda t, out, p: t * ew.exp(out * out / 2) * math.sqrt(2 * math.pi))


@_described("Quantile of the normal distribution, the inverse of ndtr (float32, float64).", "p",
            "0.5", "Array(0., dtype=float32)")
@util.planned
def ndtri(p: Any) -> Any:
    return _ndtri(_float32_or_64(p))


# ---- powers
@_described("(x**lmbda - 1) / lmbda; log(x) for lmbda = 0.", "x lmbda", "2.0, 2.0", _f("1.5"))
@util.planned
def boxcox(x: Any, lmbda: Any) -> Any:
    x, lmbda = _pair("boxcox", x, lmbda)
    return _boxcox(ew.log(x), lmbda)


@_described("boxcox(1 + x, lmbda), exact near 0.", "x lmbda", "1.0, 2.0", _f("1.5"))
@util.planned
def boxcox1p(x: Any, lmbda: Any) -> Any:
    x, lmbda = _pair("boxcox1p", x, lmbda)
    return _boxcox(ew.log1p(x), lmbda)


def _boxcox(log: Any, lmbda: Any) -> Any:
    none = lmbda == 0
    return where(none, log, ew.expm1(lmbda * log) / where(none, 1, lmbda))


__all__ = [
    "bernoulli", "bessel_jn", "beta", "betainc", "betaln", "boxcox", "boxcox1p", "comb",
    "dawsn", "digamma", "entr", "erf", "erfc", "erfcx", "erfinv", "exp1", "expi", "expit",
    "expn", "factorial", "fresnel", "gamma", "gammainc", "gammaincc", "gammaln", "gammasgn",
    "hyp1f1", "hyp2f1", "i0", "i0e", "i1", "i1e", "kl_div", "log_ndtr", "log_softmax",
    "loggamma", "logit", "logsumexp", "multigammaln", "ndtr", "ndtri", "owens_t", "poch",
    "polygamma", "rel_entr", "sici", "softmax", "spence", "sph_harm_y", "wofz", "xlog1py",
    "xlogy", "zeta"]


def __dir__() -> list[str]:
    return __all__
