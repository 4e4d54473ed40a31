"""erf, erfc, erf_inv.

erf near 0 is x + x P(x^2); elsewhere erfc x = e^(-x^2) P(t) / (1 + 2x) with t = (x - k)/(x + k)
(Shepherd & Laframboise 1981) and x^2 split so that e^(-x^2) keeps its digits.  erf_inv starts from
polynomials in w = -log(1 - x^2) (Giles 2012) and, in f64, takes one step of Halley's rule.
The polynomials are our own (benchmarks/minimax.py).
"""
from __future__ import annotations

import math

import numpy as np

from calque.lowering.emit.builder import Builder, Value
from calque.lowering.emit.dtypes import F32, F64
from calque.lowering.math import exp_log
from calque.lowering.math.common import floating, horner, scale, with_sign
from calque.lowering.math.power import head

# erf(x) / x - 1 in x^2 on |x| <= 0.9, error 2^-31.6 and 2^-66.6
_ERF = {
    F32: (8.533056097803637e-05, -0.0008180642616935074, 0.005204330198466778,
          -0.026860712096095085, 0.11283718794584274, -0.37612634897232056, 0.12837916612625122),
    F64: (6.49275268006164e-11, -1.16514659336529e-09, 1.4723301096031168e-08,
          -1.635864642147025e-07, 1.646169471741928e-06, -1.492563350492834e-05,
          0.00012055332517603455, -0.0008548327014873832, 0.005223977625340387,
          -0.026866170645124057, 0.112837916709551, -0.37612638903183754, 0.1283791670955126),
}
# (1 + 2x) e^(x^2) erfc(x) in t = (x - k) / (x + k) for x >= 0.48, relative error 2^-33 and 2^-67
_ERFC_CENTRE = {F32: 2.0, F64: 3.75}
_ERFC = {
    F32: (9.132336708717048e-05, 0.0001965458650374785, -0.00041585866711102426,
          -0.0014517303789034486, 0.0012596388114616275, 0.008721575140953064,
          -0.00803231168538332, -0.05421990156173706, 0.16405117511749268, -0.1660304069519043,
          -0.09276382625102997, 1.2769783735275269),
    F64: (6.639673996620901e-10, 4.1421405102523015e-10, -6.246147990858128e-09,
          -4.190022390942203e-09, 4.0824076790642126e-08, 2.411999652074251e-08,
          -2.611898986023823e-07, -5.8174824090637846e-08, 1.7535469881754195e-06,
          -9.7287713336739e-07, -1.1445116222606478e-05, 2.2383916547015617e-05,
          5.164943208434669e-05, -0.0002901539793331161, 0.00029371358938967663,
          0.001755625832291631, -0.009746579546879072, 0.028362277421539798, -0.05869339859060633,
          0.09230432116019645, -0.10880393014170507, 0.08227673849015109, 0.0035854154854636526,
          -0.14024059858554702, 1.2375126308378275),
}
_NEAR = 0.9
# beyond this erfc is 0 (with a margin): e^(-x^2) underflows
_ERFC_END = {F32: 11.0, F64: 28.0}

# erf_inv(x) / x: in w - 2.5 for w < 5, in sqrt(w) - 3 to w = 17, in sqrt(w) - 4 to w = 38;
# relative error 2^-26.7, 2^-24.7, 2^-18.9
_INV_CENTRE = (-8.59099817468835e-09, 2.3184589032876022e-08, 4.6339017279464847e-07,
               -3.462118451578833e-06, -4.950510357266893e-06, 0.0002183422297184769,
               -0.001252763719551141, -0.004177384177271506, 0.2466402960975332, 1.501409358836895)
_INV_MIDDLE = (0.00010550298171601703, -0.00029699348233094846, -4.477608915350426e-05,
               0.0014694412523293054, -0.0036022064202530977, 0.005693084379135982,
               -0.007636508438038325, 0.009444527421536002, 1.0016749253955604, 2.8329768155647232)
_INV_FAR = (-2.1621910700573677e-06, 2.0163214983552736e-05, -6.246477595616086e-05,
            7.706352021411368e-05, -7.054815362202491e-05, 0.00027922229753956675,
            -0.0008996705808658006, 0.0012815865000067367, 1.009499382317401, 3.839782157662116)


def _erf_near(x: Value) -> Value:
    return x + x * horner(x * x, _ERF[x.dtype])


def _erfc_far(a: Value, precise: bool = False) -> Value:
    """erfc of a >= 0.48; `precise`: the factors of e^(-a^2) in f64."""
    b, dtype = a.b, a.dtype
    a = b.select(a > _ERFC_END[dtype], _ERFC_END[dtype], a)
    centre = _ERFC_CENTRE[dtype]
    # a^2 = h^2 + (a - h)(a + h), with h^2 exact
    h = head(a)
    n, m = exp_log.reduce_ln2(-(h * h), (h - a) * (h + a))
    if precise and dtype == F32 and b.f64_ok:
        t = (a - centre) / (a + centre)
        coefficients = _ERFC[dtype]
        start, wide = horner(t, coefficients[:-3]).astype(F64), t.astype(F64)
        value = start
        for c in coefficients[-3:]:
            value = value * wide + c
        value = (value + value * m.astype(F64)).astype(F32)
        return scale(value / (2.0 * a + 1.0), n)
    t = (a - centre) / (a + centre)
    value = horner(t, _ERFC[dtype]) / (2.0 * a + 1.0)
    return scale(value + value * m, n)


@floating
def erf(b: Builder, x: Value) -> Value:
    """2/sqrt(pi) times the integral of e^(-t^2) from 0 to x."""
    a = abs(x)
    near = a < _NEAR
    far = 1.0 - _erfc_far(b.select(near, 1.0, a))
    return b.select(near, _erf_near(x), with_sign(far, x))


@floating
def erfc(b: Builder, x: Value) -> Value:
    """1 - erf x, accurate for large x."""
    a = abs(x)
    is_near = a < 0.5
    far = _erfc_far(b.select(is_near, 1.0, a), precise=True)
    near = 1.0 - _erf_near(b.select(is_near, x, 0.0))
    return b.select(is_near, near, b.select(x < 0.0, 2.0 - far, far))


def _inverse_start(w: Value, far: bool) -> Value:
    b = w.b
    root = b.sqrt(w)
    centre = horner(w - 2.5, _INV_CENTRE)
    middle = horner(root - 3.0, _INV_MIDDLE)
    if not far:  # of f32: 1 - x^2 >= 2^-24, w < 17
        return b.select(w < 5.0, centre, middle)
    end = horner(root - 4.0, _INV_FAR)
    return b.select(w < 5.0, centre, b.select(w < 17.0, middle, end))


@floating
def erf_inv(b: Builder, x: Value) -> Value:
    """The y with erf y = x; infinite at +-1, NaN beyond."""
    a = abs(x)
    inside = a < 1.0
    a = b.select(inside, a, 0.5)
    if x.dtype == F32 and b.f64_ok:  # the rounding of w and of the polynomial would be seen
        wide = a.astype(F64)
        w = -exp_log.log_positive(1.0 - wide * wide)
        y = (wide * _inverse_start(w, far=False)).astype(F32)
    else:
        w = -(exp_log.log1p(b, -a) + exp_log.log1p(b, a))
        y = a * _inverse_start(w, far=x.dtype == F64)
    if x.dtype == F64:
        # Halley's rule on erf y - a, or on erfc y - (1 - a) where that keeps more digits
        error = b.select(a < 0.5, erf(b, y) - a, (1.0 - a) - erfc(b, y))
        step = error * exp_log.exp(b, y * y) * (math.sqrt(math.pi) / 2)
        y = y - step / (1.0 + y * step)
        # near 0 the function is linear to f64's precision, and `error` would be denormal
        y = b.select(abs(x) < 2.0**-30, abs(x) * (math.sqrt(math.pi) / 2), y)
    y = b.select(inside, y, b.select(abs(x).eq(1.0), np.inf, b.like(x, np.nan)))
    return with_sign(abs(y), x)
