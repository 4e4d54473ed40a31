"""Special functions, thin over the primitives: a row each where there is nothing else to do.

Start reading at `_row`; those with a body of their own follow.
"""
from __future__ import annotations

from typing import Any

import numpy as np

from calque.api.custom_derivatives import custom_jvp
from calque.core import dtypes
from calque.core.avals import dtype_of
from calque.core.errors import explain
from calque.core.primitive import Primitive
from calque.core.tables import from_row
from calque.core.types import Function
from calque.nn.normalize import logsumexp
from calque.numpy import util
from calque.numpy.arithmetic import absolute
from calque.numpy.excess import excess
from calque.numpy.logic import where
from calque.numpy.special import i0 as _i0
from calque.primitives import elementwise as ew
from calque.primitives import special as sp
from calque.scipy import chances
from calque.scipy.bessel import bessel_jn
from calque.scipy.boxcox import boxcox, boxcox1p
from calque.scipy.combinatorial import bernoulli, comb, loggamma
from calque.scipy.describe import floats as _real
from calque.scipy.exponential import expi
from calque.scipy.faddeeva import dawsn, erfcx, fresnel, wofz
from calque.scipy.gammas import beta, betaln, factorial, gamma, gammasgn, multigammaln, poch
from calque.scipy.harmonics import sph_harm_y
from calque.scipy.hypergeometric import hyp1f1, hyp2f1
from calque.scipy.incomplete_beta import incomplete_beta
from calque.scipy.incomplete_gamma import near
from calque.scipy.integrals import exp1, expn, owens_t, sici, spence
from calque.scipy.legendre import lpmn, lpmn_values
from calque.scipy.normal import log_ndtr, ndtr, ndtri


def _f(value: str) -> str:
    return f"Array({value}, dtype=float32, weak_type=True)"


def _apply(name: str, prim: Primitive, *values: Any) -> Any:
    """A primitive of promoted and broadcast operands."""
    values = tuple(util.promote_inexact(name, *values))
    return util.apply(name, prim, values, *util.joined(values))


def _apply_near(name: str, prim: Primitive, a: Any, x: Any, upper: bool) -> Any:
    a, x = util.inexact_arrays(name, a, x)
    weak = util.weak_of(a) and util.weak_of(x)
    if dtype_of(a).name not in ("float32", "float64"):
        return _apply(name, prim, a, x)
    a, x = util.broadcast_all(name, a, x)
    return util.cast(near(prim, a, x, upper), dtype_of(a), weak)


_DOC = """{sentence}

    Args:
      x: array or scalar.

    Returns:
      An array of the broadcast shape, of inexact dtype.

    Raises:
      TypeError: an argument is not an array or a number, or complex.

    Example:
      >>> from calque.scipy import special
      >>> special.{name}({given})
      {result}
    """


def _row(name: str, prim: Primitive, sentence: str, given: str, result: str) -> Function:
    """A function of one array that is one primitive."""
    def f(x: Any) -> Any:
        return _apply(name, prim, x)

    return from_row(f, __name__, name, _DOC, sentence=sentence, given=given, result=result)


gammaln = _row("gammaln", sp.lgamma_p, "log |Gamma(x)|.", "5.0", _f("3.1780539"))
digamma = _row("digamma", sp.digamma_p, "Derivative of log Gamma(x).", "1.0", _f("-0.5772157"))
erf = _row("erf", ew.erf_p, "Error function.", "1.0", _f("0.8427008"))
erfc = _row("erfc", ew.erfc_p, "1 - erf(x), exact for large x.", "1.0", _f("0.1572992"))
erfinv = _row("erfinv", ew.erf_inv_p, "Inverse of erf.", "0.5", _f("0.47693628"))
expit = _row("expit", ew.logistic_p, "1 / (1 + e**-x).", "0.0", _f("0.5"))
i0e = _row("i0e", sp.bessel_i0e_p, "e**-|x| I0(x).", "1.0", _f("0.4657596"))
i1e = _row("i1e", sp.bessel_i1e_p, "e**-|x| I1(x).", "1.0", _f("0.20791042"))


@util.planned
def gammainc(a: Any, x: Any) -> Any:
    """Regularized lower incomplete gamma function P(a, x).

    Args:
      a: array or scalar.
      x: array or scalar.

    Returns:
      An array of the broadcast shape, of inexact dtype.

    Raises:
      TypeError: an argument is not an array or a number, or complex.

    Example:
      >>> from calque.scipy import special
      >>> special.gammainc(1.0, 2.0)
      Array(0.86466473, dtype=float32, weak_type=True)
    """
    return _apply_near("gammainc", sp.igamma_p, a, x, False)


@util.planned
def gammaincc(a: Any, x: Any) -> Any:
    """Regularized upper incomplete gamma function 1 - P(a, x).

    Args:
      a: array or scalar.
      x: array or scalar.

    Returns:
      An array of the broadcast shape, of inexact dtype.

    Raises:
      TypeError: an argument is not an array or a number, or complex.

    Example:
      >>> from calque.scipy import special
      >>> special.gammaincc(1.0, 2.0)
      Array(0.13533528, dtype=float32, weak_type=True)
    """
    return _apply_near("gammaincc", sp.igammac_p, a, x, True)


@util.planned
def betainc(a: Any, b: Any, x: Any) -> Any:
    """Regularized incomplete beta function I_x(a, b).

    Args:
      a: array or scalar.
      b: array or scalar.
      x: array or scalar.

    Returns:
      An array of the broadcast shape, of inexact dtype.

    Raises:
      TypeError: an argument is not an array or a number, or complex.

    Example:
      >>> from calque.scipy import special
      >>> special.betainc(1.0, 2.0, 0.5)
      Array(0.75, dtype=float32, weak_type=True)
    """
    values = util.promote_inexact("betainc", *_real("betainc", a, b, x, error=ValueError))
    kind, weak = util.joined(values)
    if dtype_of(values[0]).name not in ("float32", "float64"):
        return _apply("betainc", sp.regularized_incomplete_beta_p, *values)
    a, b, x = util.broadcast_all("betainc", *(util.cast(v, kind) for v in values))
    return util.cast(incomplete_beta(a, b, x), kind, weak)


@util.planned
def polygamma(n: Any, x: Any) -> Any:
    """Derivative of order n of digamma(x).

    Args:
      n: array or scalar of integer dtype.
      x: array or scalar.

    Returns:
      An array of the broadcast shape, of inexact dtype.

    Raises:
      ValueError: n is not of integer dtype.
      TypeError: an argument is not an array or a number, or complex.

    Example:
      >>> from calque.scipy import special
      >>> special.polygamma(1, 1.0)
      Array(1.644934, dtype=float32, weak_type=True)
    """
    _real("polygamma", n, error=ValueError)
    if not dtypes.is_integer(kind := dtype_of(util.one_array("polygamma", n))):
        raise ValueError(explain(
            f"Argument `n` to polygamma must be of integer type. Got dtype {kind}.",
            fix="pass an integer, or an array of integers."))
    return _apply("polygamma", sp.polygamma_p, n, x)


# ---- Bessel functions and zeta
@util.planned
def i0(x: Any) -> Any:
    """Modified Bessel function I0(x).

    Args:
      x: array or scalar.

    Returns:
      An array of the broadcast shape, of inexact dtype.

    Raises:
      TypeError: an argument is not an array or a number, or complex.

    Example:
      >>> from calque.scipy import special
      >>> special.i0(1.0)
      Array(1.2660658, dtype=float32, weak_type=True)
    """
    return _i0(_real("i0", x)[0])


@util.planned
def i1(x: Any) -> Any:
    """Modified Bessel function I1(x).

    Args:
      x: array or scalar.

    Returns:
      An array of the broadcast shape, of inexact dtype.

    Raises:
      TypeError: an argument is not an array or a number, or complex.

    Example:
      >>> from calque.scipy import special
      >>> special.i1(1.0)
      Array(0.5651591, dtype=float32, weak_type=True)
    """
    (x,) = _real("i1", x)
    return ew.exp(absolute(x)) * sp.bessel_i1e_p.bind(x)


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


@util.planned
def xlogy(x: Any, y: Any) -> Any:
    """x log(y), 0 for x = 0.

    Args:
      x: array or scalar.
      y: array or scalar.

    Returns:
      An array of the broadcast shape, of inexact dtype.

    Raises:
      TypeError: an argument is not an array or a number, or complex.

    Example:
      >>> from calque.scipy import special
      >>> special.xlogy(2.0, 3.0)
      Array(2.1972246, dtype=float32, weak_type=True)
    """
    return _xlogy(*_pair("xlogy", x, y))


@util.planned
def xlog1py(x: Any, y: Any) -> Any:
    """x log(1 + y), 0 for x = 0.

    Args:
      x: array or scalar.
      y: array or scalar.

    Returns:
      An array of the broadcast shape, of inexact dtype.

    Raises:
      TypeError: an argument is not an array or a number, or complex.

    Example:
      >>> from calque.scipy import special
      >>> special.xlog1py(2.0, 3.0)
      Array(2.7725887, dtype=float32, weak_type=True)
    """
    return _xlog1py(*_pair("xlog1py", x, y))


@util.planned
def entr(x: Any) -> Any:
    """-x log(x), 0 at 0, -inf below.

    Args:
      x: array or scalar.

    Returns:
      An array of the broadcast shape, of inexact dtype.

    Raises:
      TypeError: an argument is not an array or a number, or complex.

    Example:
      >>> from calque.scipy import special
      >>> special.entr(0.5)
      Array(0.3465736, dtype=float32, weak_type=True)
    """
    return _entr(*_real("entr", x, error=ValueError))


@custom_jvp
def _relative(p: Any, q: Any) -> Any:
    return p * (ew.log(p) - ew.log(q))


_relative.defjvps(  # not p/p + ...: infinite p have an infinite slope
    lambda t, out, p, q: t * (ew.log(p) - ew.log(q) + 1),
    lambda t, out, p, q: -t * (p / q))


def _outside(p: Any, q: Any) -> Any:
    """Infinity where p and q are numbers, else NaN."""
    return where(ew.ne(p, p) | ew.ne(q, q), np.nan, np.inf)


@util.planned
def rel_entr(p: Any, q: Any) -> Any:
    """x log(x / y): a term of the relative entropy; inf where it has no value.

    Args:
      p: array or scalar.
      q: array or scalar.

    Returns:
      An array of the broadcast shape, of inexact dtype.

    Raises:
      TypeError: an argument is not an array or a number, or complex.

    Example:
      >>> from calque.scipy import special
      >>> special.rel_entr(2.0, 1.0)
      Array(1.3862944, dtype=float32, weak_type=True)
    """
    given = p, q = _real("rel_entr", p, q, error=ValueError)
    p, q = util.broadcast_all("rel_entr", p, q)
    both, none = (p > 0) & (q > 0), (p == 0) & (q >= 0)
    safe_p, safe_q = where(both, p, 1), where(both, q, 1)
    return util.weak_if_scalars(
        where(both, _relative(safe_p, safe_q), where(none, 0, _outside(p, q))), *given)


@custom_jvp
def _divergence(p: Any, q: Any) -> Any:
    """p log(p / q) - p + q, near p = q by m - log(1 + m), m = (q - p) / p."""
    m = (q - p) / p
    near = absolute(m) < 0.5
    return where(near, p * excess(where(near, m, 0)), p * (ew.log(p) - ew.log(q)) + (q - p))


_divergence.defjvps(lambda t, out, p, q: -t * _log_quotient(q, p),
                    lambda t, out, p, q: t * ((q - p) / q))


def _log_quotient(q: Any, p: Any) -> Any:
    """log(q / p), with its digits near 0."""
    m = (q - p) / p
    near = absolute(m) < 0.5
    return where(near, ew.log1p(where(near, m, 0)), ew.log(q) - ew.log(p))


@util.planned
def kl_div(p: Any, q: Any) -> Any:
    """x log(x / y) - x + y: a term of the Kullback-Leibler divergence.

    Args:
      p: array or scalar.
      q: array or scalar.

    Returns:
      An array of the broadcast shape, of inexact dtype.

    Raises:
      TypeError: an argument is not an array or a number, or complex.

    Example:
      >>> from calque.scipy import special
      >>> special.kl_div(2.0, 1.0)
      Array(0.38629436, dtype=float32, weak_type=True)
    """
    given = p, q = _real("kl_div", p, q, error=ValueError)
    p, q = util.broadcast_all("kl_div", p, q)
    none = (p == 0) & (q >= 0)
    both = (p > 0) & (q > 0)
    value = _divergence(where(both, p, 1), where(both, q, 1))
    rest = where((p == np.inf) | (q == -np.inf), np.inf, q - p)  # (infinities would meet)
    return util.weak_if_scalars(where(both, value, where(none, 0, _outside(p, q)) + rest), *given)


@custom_jvp
def _logit(x: Any) -> Any:
    return ew.log(x / (1 - x))


_logit.defjvps(lambda t, out, x: t / (x * (1 - x)))


@util.planned
def logit(x: Any) -> Any:
    """log(x / (1 - x)), the inverse of expit.

    Args:
      x: array or scalar.

    Returns:
      An array of the broadcast shape, of inexact dtype.

    Raises:
      TypeError: an argument is not an array or a number, or complex.

    Example:
      >>> from calque.scipy import special
      >>> special.logit(0.5)
      Array(0., dtype=float32, weak_type=True)
    """
    (x,) = util.inexact_arrays("logit", x)
    return util.weak_if_scalars(_logit(x), x)


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
    return chances.softmax(x, axis)


def erfcinv(y: Any) -> Any:
    """Inverse of erfc, exact for small y.  (JAX has it since 0.12.)

    Args:
      y: array or scalar of real dtype.

    Returns:
      An array of y's shape: NaN outside of 0 to 2.

    Raises:
      TypeError: y is complex.

    Example:
      >>> from calque.scipy import special
      >>> special.erfcinv(0.5)
      Array(0.4769363, dtype=float32)
    """
    (x,) = util.promote_inexact("erfcinv", *_real("erfcinv", y))
    found = ndtri((ew.convert(x, np.dtype("f4")) if dtype_of(x).itemsize < 4 else x) * 0.5)
    return ew.convert(0.0 - found * 0.5 ** 0.5, dtype_of(x))


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
    return chances.log_softmax(x, axis)


__all__ = [
    "bernoulli", "bessel_jn", "beta", "betainc", "betaln", "boxcox", "boxcox1p", "comb",
    "dawsn", "digamma", "entr", "erf", "erfc", "erfcinv", "erfcx", "erfinv", "exp1", "expi",
    "expit", "expn", "factorial", "fresnel", "gamma", "gammainc", "gammaincc", "gammaln",
    "gammasgn",
    "hyp1f1", "hyp2f1", "i0", "i0e", "i1", "i1e", "kl_div", "log_ndtr", "log_softmax",
    "loggamma", "logit", "logsumexp", "lpmn", "lpmn_values", "multigammaln", "ndtr", "ndtri",
    "owens_t", "poch", "polygamma", "rel_entr", "sici", "softmax", "spence", "sph_harm_y", "wofz",
    "xlog1py", "xlogy", "zeta"]
for _name in __all__:  # where users look for them
    if globals()[_name].__module__.startswith("calque.scipy"):
        globals()[_name].__module__ = __name__


def __dir__() -> list[str]:
    return __all__
