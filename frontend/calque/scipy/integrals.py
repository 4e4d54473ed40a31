"""exp1, expn, sici, spence, owens_t: functions that are integrals of elementary ones.

Start reading at the public functions; each has its custom derivative beside it.
"""
from __future__ import annotations

import math
from typing import Any

import numpy as np

from calque import lax
from calque.api.custom_derivatives import custom_jvp
from calque.core import dtypes
from calque.core.avals import dtype_of
from calque.core.errors import explain
from calque.numpy import util
from calque.numpy.arithmetic import absolute
from calque.numpy.creation import asarray
from calque.numpy.logic import where
from calque.primitives import elementwise as ew
from calque.primitives import special as sp
from calque.scipy.describe import as_default, chebyshev, constant, real, widened
from calque.scipy.exponential import DEPTH, GAMMA, _negative

TERMS = 22  # of the series at 1


# ---- exponential integrals
@custom_jvp
def _exp1(x: Any) -> Any:
    inside = (x > 0) & (x < np.inf)
    value = -_negative(where(inside, x, 1), dtype_of(x))
    outside = where(x == 0, constant(np.inf, x), where(x == np.inf, constant(0, x), np.nan))
    return where(inside, value, outside)


_exp1.defjvps(lambda t, out, x: -t * (ew.exp(-x) / x))


@util.planned
def exp1(x: Any) -> Any:
    """Exponential integral E1(x), the integral of e^-t / t from x on; NaN below 0.

    Args:
      x: array or scalar.

    Returns:
      An array of the broadcast shape, of inexact dtype.

    Raises:
      TypeError: an argument is not an array or a number.
      ValueError: an argument is complex.

    Example:
      >>> from calque.scipy import special
      >>> special.exp1(1.0).round(4)
      Array(0.2194, dtype=float32)
    """
    (x,) = real("exp1", x)
    return util.cast(_exp1(widened(x)[0]), dtype_of(x))


def _fraction(n: Any, x: Any) -> Any:
    """E_n of x >= 1: DLMF 8.19.17, its even part, from DEPTH levels down."""
    def level(i: Any, below: Any) -> Any:
        k = (DEPTH - i).astype(dtype_of(x))
        return x + n + 2 * (k - 1) - k * (n + k - 1) / below

    return ew.exp(-x) / lax.fori_loop(0, DEPTH, level, x + n + 2 * DEPTH)


def _series(n: Any, x: Any) -> Any:
    """E_n of 0 < x <= 1, n = 1, 2, ...: DLMF 8.19.8."""
    total, power = x * 0, x * 0 + 1
    for k in range(TERMS):
        apart = k - n + 1
        total = total - where(apart == 0, 0, power / where(apart == 0, 1, apart))
        power = power * (-x / (k + 1))
    log = ew.log(x)
    size = ew.exp((n - 1) * log - sp.lgamma_p.bind(n))
    odd = ew.rem(n, constant(2, n) + n * 0) == 1
    return total + where(odd, size, -size) * (sp.digamma_p.bind(n) - log)


@custom_jvp
def _expn(n: Any, x: Any) -> Any:
    good = (n >= 0) & (x >= 0) & (ew.floor(n) == n)
    order = where(good & (n > 0), n, 1)
    near, far = where((x > 0) & (x <= 1), x, 1), where(good & (x > 1) & (x < np.inf), x, 1)
    value = where(x > 1, _fraction(order, far), _series(order, near))
    value = where(n == 0, ew.exp(-far) / far, value)
    small = where(x <= 1, where(x > 0, x, 1), 1)
    value = where((n == 0) & (x <= 1), ew.exp(-small) / small, value)
    value = where(x == 0, where(n > 1, 1 / where(n > 1, n - 1, 1), np.inf), value)
    return where(good, where(x == np.inf, constant(0, x), value), np.nan)


@_expn.defjvp
def _expn_jvp(primals: Any, tangents: Any) -> Any:
    (n, x), (_, t) = primals, tangents
    below = where(n == 0, ew.exp(-x) * (1 + x) / (x * x),
                  _expn(where(n == 0, 1, n) - 1, x))
    return _expn(n, x), -t * below


@util.planned
def expn(n: Any, x: Any) -> Any:
    """Exponential integral E_n(x), x^(n-1) times the integral of e^-t / t^n from x on.

    Args:
      n: array or scalar: the orders, whole numbers of at least 0; the derivative by them is 0.
      x: array or scalar, real.

    Returns:
      An array of the broadcast shape and inexact dtype; NaN where n is not whole, or n or x is
      below 0.

    Raises:
      TypeError: an argument is not an array or a number.
      ValueError: an argument is complex, or shapes do not broadcast.

    Source: DLMF 8.19.8, 8.19.17.

    Example:
      >>> from calque.scipy import special
      >>> print(special.expn(2, 1.0).round(4))
      0.1485
    """
    if not (util.is_arraylike(n) and util.is_arraylike(x)):
        n, x = asarray(n), asarray(x)  # JAX takes lists here
    n, x = real("expn", n, x)
    return util.cast(_expn(*widened(n, x)), dtype_of(x))


# ---- sine and cosine integral: |x| <= 4 and beyond; our own coefficients (mpmath)
BORDER = 4.0
# Si(x) / x and (gamma + log x - Ci(x)) / x^2 by T_k(2 (x/4)^2 - 1)
_SI = (0.684217670090758, -0.2776578526973602, 0.03544140548666592, -0.0025631631447933976,
       0.00011623653904970093, -3.5904327241606043e-06, 8.023421237057102e-08,
       -1.3562997692540251e-09, 1.7944072159973677e-11, -1.9083873430871455e-13,
       1.6669989586824331e-15, -1.2173098836850304e-17)
_CIN = (0.18537250875454844, -0.058935748963644466, 0.005381896421135691,
        -0.00029860052841962137, 1.09557257532162e-05, -2.840545487734663e-07,
        5.469739948753849e-09, -8.124187461318157e-11, 9.58685931177066e-13,
        -9.20266004392351e-15, 7.325887999017895e-17)
# x f(x) and x^2 g(x), the auxiliary functions of DLMF 6.2.17 and 6.2.18, by T_k(2 (4/x)^2 - 1)
_F = (
    0.9547633884032938, -0.0410699867196166, 0.003510547451979443, -0.0005172175488768527,
    0.00010328193778536401, -2.5139407613382352e-05, 7.046299766746879e-06,
    -2.1974483848031207e-06, 7.455004638205959e-07, -2.708631114149491e-07,
    1.0420323162393677e-07, -4.208421591372028e-08, 1.7724757498225048e-08,
    -7.74422777800052e-09, 3.495140635901326e-09, -1.623758282438595e-09, 7.74252836392633e-10,
    -3.779909189916395e-10, 1.8854142277512255e-10, -9.59125670597103e-11,
    4.9682959803372925e-11, -2.617024750846083e-11, 1.4000802549479367e-11,
    -7.599391900204824e-12, 4.180924280097225e-12, -2.329503198590337e-12,
    1.3134666655998167e-12, -7.489259710313546e-13, 4.315689215187419e-13,
    -2.5119135629145015e-13, 1.4759641638298183e-13, -8.750963268359437e-14,
    5.2330394674571975e-14, -3.154964165429148e-14, 1.9169672388843447e-14,
    -1.1734494113883664e-14, 7.234422373346399e-15, -4.490588903332208e-15,
    2.805702689774273e-15, -1.7640296400927821e-15, 1.1158099579577155e-15,
    -7.098973954999842e-16, 4.541808575795019e-16, -2.9214760124646424e-16,
    1.8890059780076223e-16, -1.2275617126742522e-16)
_G = (
    0.8841994524524334, -0.10005788518210433, 0.012620432620807134, -0.0023462168947058176,
    0.000551332382934603, -0.00015195038861323185, 4.7073797699758375e-05,
    -1.5961270265510487e-05, 5.8179485492273865e-06, -2.2508864416686086e-06,
    9.156512743606252e-07, -3.888480555539212e-07, 1.7141948800246919e-07,
    -7.809375500314394e-08, 3.6631597833534293e-08, -1.7638490416884897e-08,
    8.69617841053991e-09, -4.380464863692854e-09, 2.2502675038852148e-09,
    -1.1770001575850032e-09, 6.259545254121074e-10, -3.380666786792257e-10,
    1.8521945455689298e-10, -1.0284402466034851e-10, 5.782395348455685e-11,
    -3.2895679509076376e-11, 1.8922183673164776e-11, -1.0998473138591866e-11,
    6.456164584098906e-12, -3.825356633175376e-12, 2.286744820499592e-12,
    -1.3785489839059938e-12, 8.37743008950462e-13, -5.130059350320718e-13,
    3.1645200256038867e-13, -1.965752940399094e-13, 1.2292979353986148e-13,
    -7.737004152531348e-14, 4.899641313369616e-14, -3.121239601602938e-14,
    1.9996937193069067e-14, -1.2881950320484485e-14, 8.342480598388096e-15,
    -5.430288109637453e-15, 3.552120171399312e-15, -2.3346205180342323e-15,
    1.5414816381567078e-15, -1.0223145958929221e-15, 6.809009278866383e-16,
    -4.553632694766174e-16, 3.0570973739492983e-16, -2.0596692526923944e-16,
    1.3918442577170058e-16)


def _cisi(x: Any) -> tuple[Any, Any]:
    """Si and Ci of x >= 0."""
    small = x <= BORDER
    near = where(small, x, 1)
    ratio = near / BORDER
    t = 2 * ratio * ratio - 1
    si = near * chebyshev(_SI, t)
    log = ew.log(near)
    ci = (log + GAMMA) - near * near * chebyshev(_CIN, t)
    far = where(small | (x == np.inf), BORDER, x)
    inverse = 1 / far
    ratio = BORDER * inverse
    t = 2 * ratio * ratio - 1
    f, g = chebyshev(_F, t) * inverse, chebyshev(_G, t) * inverse * inverse
    sine, cosine = ew.sin(far), ew.cos(far)
    si = where(small, si, math.pi / 2 - f * cosine - g * sine)
    ci = where(small, ci, f * sine - g * cosine)
    return where(x == np.inf, math.pi / 2, si), where(x == np.inf, 0, ci)


@custom_jvp
def _sici(x: Any) -> tuple[Any, Any]:
    si, ci = _cisi(absolute(x))
    return (where(x == 0, x, where(x < 0, -si, si)),
            where(x == -np.inf, np.nan, where(ew.eq(x, x), ci, np.nan)))


@_sici.defjvp
def _sici_jvp(primals: Any, tangents: Any) -> Any:
    (x,), (t,) = primals, tangents
    safe = where(x == 0, 1, x)
    return _sici(x), (t * where(x == 0, 1, ew.sin(safe) / safe), t * (ew.cos(x) / x))


@util.planned
def sici(x: Any) -> tuple[Any, Any]:
    """Sine integral Si(x) and cosine integral Ci(|x|).

    Args:
      x: array or scalar.

    Returns:
      Two arrays of x's shape and inexact dtype: Si and Ci (-inf at 0).

    Raises:
      TypeError: an argument is not an array or a number.
      ValueError: an argument is complex.

    Example:
      >>> from calque.scipy import special
      >>> special.sici(1.0)[0].round(5)
      Array(0.94608, dtype=float32)
    """
    (x,) = util.promote_inexact("sici", x)
    kind = dtype_of(x)
    if kind.kind == "c":
        raise ValueError(explain(f"Argument `x` to sici must be real-valued. Got dtype {kind}.",
                                 fix="pass a real array: x.real."))
    si, ci = _sici(widened(util.array(x))[0])
    return util.cast(si, kind), util.cast(ci, kind)


# ---- Spence's function
# B_2k / (2k + 1)!: the dilogarithm as a series in -log(1 - z) (Lewin 1981, 1.52)
_BERNOULLI = (1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6, -3617 / 510,
              43867 / 798)
_DEBYE = tuple(b / math.factorial(2 * k + 3) for k, b in enumerate(_BERNOULLI))


@custom_jvp
def _spence(x: Any) -> Any:
    good = (x > 0) & (x < np.inf)
    x1 = where(good, x, 1)
    inner = where(x1 > 2, 1 / x1, x1)
    left = inner < 0.5
    u = -ew.log(where(left, 1 - inner, inner))
    square, total = u * u, u * 0
    for c in reversed(_DEBYE):
        total = (total + constant(c, u)) * square
    value = u - square / 4 + u * total
    log = ew.log(x1)
    inner_log = where(x1 > 2, -log, log)
    value = where(left, math.pi ** 2 / 6 - inner_log * ew.log1p(-where(left, inner, 0))
                  - value, value)
    value = where(x1 > 2, -log * log / 2 - value, where(x1 == 1, 0, value))
    return where(good, value, where(x == 0, constant(math.pi ** 2 / 6, x),
                                    where(x == np.inf, constant(-np.inf, x), np.nan)))


@_spence.defjvp
def _spence_jvp(primals: Any, tangents: Any) -> Any:
    (x,), (t,) = primals, tangents
    one = x == 1
    return _spence(x), t * where(one, -1, ew.log(x) / (1 - where(one, 0, x)))


@util.planned
def spence(x: Any) -> Any:
    """Spence's function, the dilogarithm Li2(1 - x): the integral of log(t) / (1 - t) from 1 to x.

    Args:
      x: array or scalar of dtype float32 or float64.

    Returns:
      An array of x's shape and dtype; NaN below 0.

    Raises:
      TypeError: x is not an array, or of another dtype.

    Source: Lewin, Polylogarithms and Associated Functions, 1981.

    Example:
      >>> from calque.scipy import special
      >>> print(special.spence(0.0).round(4))
      1.6449
    """
    x = asarray(x)
    if dtype_of(x) not in (dtypes.float32, np.dtype("float64")):
        raise TypeError(explain(
            f"x.dtype={dtype_of(x).name} is not supported, see docstring for supported types.",
            fix="convert it with astype('float32')."))
    return util.cast(_spence(x), dtype_of(x))


# ---- Owen's T
_NODES, _WEIGHTS = (v[20:] for v in np.polynomial.legendre.leggauss(40))
REACH = 8.7  # exp(-REACH^2 / 2) is nothing beside 1


@custom_jvp
def _owens(h: Any, a: Any) -> Any:
    """Of |a| <= 1 by 40 points of Gauss's rule over where the integrand is; else T(h, a) + T(a h,
    1 / a) is known (Patefield and Tandy 2000, 2.3)."""
    high, slope = absolute(h), absolute(a)
    high = where(high < 1e4, high, 1e4)  # T is 0 long before
    big = slope > 1
    other = where(high == 0, 0, high * where(big, slope, 1))
    other = where(other < 1e4, other, 1e4)
    h1, a1 = where(big, other, high), where(big, 1 / where(big, slope, 1), slope)
    scale = where(h1 * a1 > REACH, REACH / where(h1 > 0, h1, 1), a1)
    square = h1 * h1 / 2
    total = h1 * 0
    for node, weight in zip(_NODES, _WEIGHTS):
        x = scale * constant(node, h)
        total = total + constant(weight, h) * ew.exp(-square * x * x) / (1 + x * x)
    value = total * scale * ew.exp(-square) / (2 * math.pi)
    root = math.sqrt(0.5)
    one, two = ew.erfc(high * root) / 2, ew.erfc(other * root) / 2
    low = ew.erf(high * root) * ew.erf(other * root)
    whole = where(high < 0.67, (1 - low) / 4, (one + two) / 2 - one * two)
    value = where(big, whole - value, value)
    value = where(a == 0, a * 0, where(a < 0, -value, value))
    return where(ew.eq(h, h) & ew.eq(a, a), value, np.nan)


_owens.defjvps(
    lambda t, out, h, a: t * (ew.exp(-h * h / 2) * ew.erf(a * h * math.sqrt(0.5))
                              * (-1 / math.sqrt(8 * math.pi))),
    lambda t, out, h, a: t * (ew.exp(-h * h * (1 + a * a) / 2)
                              / (2 * math.pi * (1 + a * a))))


@util.planned
def owens_t(h: Any, a: Any) -> Any:
    """Owen's T: the integral of exp(-h^2 (1 + x^2) / 2) / (1 + x^2) / (2 pi) from 0 to a.

    Args:
      h: array or scalar.
      a: array or scalar.

    Returns:
      An array of the broadcast shape, float32, or float64 under jax_enable_x64.

    Raises:
      TypeError: an argument is not an array or a number.
      ValueError: an argument is complex.

    Example:
      >>> from calque.scipy import special
      >>> special.owens_t(1.0, 2.0).round(4)
      Array(0.0785, dtype=float32)
    """
    h, a = map(as_default, widened(*real("owens_t", h, a)))
    return util.cast(_owens(h, a), dtype_of(h))
