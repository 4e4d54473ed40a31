"""Special functions, a row each (see elementwise.py): gamma and beta functions and their incomplete
forms, zeta, Bessel functions, and the high half of integer products.

Derivatives by an order (polygamma's m, betainc's a and b, a second one by igamma's a) are
not functions of this list and raise, as in JAX.
"""
from __future__ import annotations

import functools
from typing import Any

import numpy as np

from calque.core.avals import dtype_of, shape_of
from calque.core.errors import explain
from calque.core.types import Function
from calque.core.zeros import factor
from calque.primitives import elementwise as ew
from calque.primitives.elementwise import FLOAT, INTEGER, _elementwise

_function = functools.partial(_elementwise, function=True, memory="fresh")

lgamma_p = _function("lgamma", FLOAT, (lambda t, x, o: ew.mul(t, digamma_p.bind(x)),))
digamma_p = _function("digamma", FLOAT, (
    lambda t, x, o: ew.mul(t, polygamma_p.bind(factor(x, 1), x)),))


def _refused(name: str, operand: str, kind: type[Exception] = ValueError) -> Function:
    """A partial that does not exist."""
    def partial(*args: Any) -> Any:
        raise kind(explain(f"{name} gradient with respect to {operand} is not supported.",
                           fix=f"keep {operand} constant, for example with lax.stop_gradient."))
    return partial


polygamma_p = _function("polygamma", FLOAT, (
    _refused("polygamma", "m"),
    lambda t, m, x, o: ew.mul(t, polygamma_p.bind(ew.add(m, factor(m, 1)), x))))


# B_2j / (2j)!
_BERNOULLI = (1 / 12, -1 / 720, 1 / 30240, -1 / 1209600, 1 / 47900160, -691 / 1307674368000,
              1 / 74724249600, -3617 / 10670622842880000, 43867 / 5109094217170944000)


def _zeta_by_order(t: Any, x: Any, q: Any, o: Any) -> Any:
    """Euler and Maclaurin's sum, each term differentiated by x (DLMF 25.11.5)."""
    def logs_of(v: Any) -> tuple[Any, Any]:
        log = ew.log(v)
        return log, ew.exp(ew.neg(ew.mul(x, log)))

    total = None
    for k in range(10):
        log, power = logs_of(ew.add(q, ew.const(q, k)))
        term = ew.mul(log, power)
        total = term if total is None else ew.add(total, term)
    w = ew.add(q, ew.const(q, 10))
    log, power = logs_of(w)
    above = ew.sub(x, ew.const(x, 1))
    tail = ew.add(
        ew.mul(log, ew.const(x, 0.5)),
        ew.mul(w, ew.div(ew.add(ew.mul(log, above), ew.const(x, 1)), ew.square(above))))
    factor, rate = ew.div(x, w), ew.div(ew.const(x, 1), x)
    for j, c in enumerate(_BERNOULLI):
        tail = ew.add(tail, ew.mul(ew.mul(factor, ew.const(x, c)), ew.sub(log, rate)))
        for i in (2 * j + 1, 2 * j + 2):
            above = ew.add(x, ew.const(x, i))
            factor, rate = ew.mul(factor, ew.div(above, w)), ew.add(
                rate, ew.div(ew.const(x, 1), above))
    return ew.mul(t, ew.neg(ew.add(total, ew.mul(power, tail))))


zeta_p = _function("zeta", FLOAT, (
    _zeta_by_order,
    lambda t, x, q, o: ew.mul(t, ew.mul(ew.neg(x), zeta_p.bind(ew.add(x, ew.const(x, 1)), q)))))


# ---- incomplete gamma functions
def _density(a: Any, x: Any) -> Any:
    """x^(a-1) e^-x / Gamma(a)."""
    return ew.exp(ew.sub(ew.sub(ew.mul(ew.sub(a, ew.const(a, 1)), ew.log(x)), x),
                         lgamma_p.bind(a)))


igamma_p = _function("igamma", FLOAT, (
    lambda t, a, x, o: ew.mul(t, igamma_grad_a_p.bind(a, x)),
    lambda t, a, x, o: ew.mul(t, _density(a, x))))
igammac_p = _function("igammac", FLOAT, (
    lambda t, a, x, o: ew.neg(ew.mul(t, igamma_grad_a_p.bind(a, x))),
    lambda t, a, x, o: ew.neg(ew.mul(t, _density(a, x)))))
igamma_grad_a_p = _function("igamma_grad_a", FLOAT, (
    _refused("igamma_grad_a", "a", NotImplementedError),
    _refused("igamma_grad_a", "x", NotImplementedError)))
random_gamma_grad_p = _function("random_gamma_grad", FLOAT, (
    _refused("random_gamma_grad", "a", NotImplementedError),
    _refused("random_gamma_grad", "x", NotImplementedError)))


# ---- incomplete beta function
def _beta_partial(t: Any, a: Any, b: Any, x: Any, o: Any) -> Any:
    one = ew.const(x, 1)
    log_beta = ew.sub(ew.add(lgamma_p.bind(a), lgamma_p.bind(b)), lgamma_p.bind(ew.add(a, b)))
    log_rest = ew.log(ew.sub(ew.match_shape(one, shape_of(x)), x))
    power = ew.add(ew.mul(ew.sub(b, one), log_rest), ew.mul(ew.sub(a, one), ew.log(x)))
    return ew.mul(ew.exp(ew.sub(power, log_beta)), t)


regularized_incomplete_beta_p = _function("regularized_incomplete_beta", FLOAT, (
    _refused("Betainc", "a and b"), _refused("Betainc", "a and b"), _beta_partial))


# ---- Bessel functions
def _i1e_partial(t: Any, x: Any, o: Any) -> Any:
    """i0e - (sign x + 1/x) i1e, and 1/2 near 0."""
    eps = float(np.finfo(dtype_of(x)).eps) if dtype_of(x).kind == "f" else 2.0**-7
    shape = shape_of(x)
    tiny = ew.match_shape(ew.const(x, eps), shape)
    far = ew.gt(ew.abs_(x), tiny)
    safe = ew.select_n(far, tiny, x)
    slope = ew.sub(bessel_i0e_p.bind(safe),
                   ew.mul(o, ew.add(ew.sign(safe), ew.integer_pow(safe, -1))))
    half = ew.match_shape(ew.const(x, 0.5), shape)
    return ew.mul(t, _falling(x, o, 1, ew.select_n(far, half, slope)))


def _falling(x: Any, o: Any, order: int, near: Any) -> Any:
    """The slope of e^-|x| I(|x|) = sum a_k / |x|^(k + 1/2) by its series where x is far (DLMF
    10.40.1), and what is given elsewhere: there two functions that are nearly the same cancel."""
    shape, start = shape_of(x), 30.0 if dtype_of(x).itemsize == 8 else 16.0
    limit = ew.match_shape(ew.const(x, start), shape)
    far = ew.gt(ew.abs_(x), limit)
    safe = ew.select_n(far, limit, x)
    t, a = ew.div(ew.match_shape(ew.const(x, 1), shape), ew.abs_(safe)), [1.0]
    for k in range(1, 17):
        a.append(a[-1] * ((2 * k - 1) ** 2 - 4 * order ** 2) / (8 * k))
    sums = []
    for weights in (a, [(2 * k + 1) * c for k, c in enumerate(a)]):
        total = ew.match_shape(ew.const(x, weights[-1]), shape)
        for c in reversed(weights[:-1]):
            total = ew.add(ew.mul(total, t), ew.match_shape(ew.const(x, c), shape))
        sums.append(total)
    slope = ew.div(ew.mul(ew.mul(o, ew.const(x, -0.5)), ew.div(sums[1], sums[0])), safe)
    return ew.select_n(far, near, slope)


bessel_i0e_p = _function("bessel_i0e", FLOAT, (
    lambda t, x, o: ew.mul(t, _falling(x, o, 0, ew.sub(
        bessel_i1e_p.bind(x), ew.mul(ew.sign(x), o)))),))
bessel_i1e_p = _function("bessel_i1e", FLOAT, (_i1e_partial,))

# ---- integers
mulhi_p = _elementwise("mulhi", INTEGER, arity=2)
