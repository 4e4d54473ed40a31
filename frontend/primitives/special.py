"""Special functions, a row each (see elementwise.py): gamma and beta functions and their incomplete
forms, zeta, Bessel functions, and the high half of integer products.

Derivatives by an order (polygamma's m, zeta's x, betainc's a and b, a second one by igamma's a) are
not functions of this list and raise, as in JAX.
"""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from calque.core.avals import aval_of
from calque.core.errors import explain
from calque.primitives import elementwise as ew
from calque.primitives.elementwise import FLOAT, INTEGER, _elementwise

lgamma_p = _elementwise("lgamma", FLOAT, (lambda t, x, o: ew.mul(t, digamma_p.bind(x)),))
digamma_p = _elementwise("digamma", FLOAT, (
    lambda t, x, o: ew.mul(t, polygamma_p.bind(ew.const(x, 1), x)),))


def _refused(name: str, operand: str, kind: type[Exception] = ValueError) -> Callable[..., Any]:
    """A partial that does not exist."""
    def partial(*args: Any) -> Any:
        raise kind(explain(f"{name} gradient with respect to {operand} is not supported.",
                           fix=f"keep {operand} constant, for example with lax.stop_gradient."))
    return partial


polygamma_p = _elementwise("polygamma", FLOAT, (
    _refused("polygamma", "m"),
    lambda t, m, x, o: ew.mul(t, polygamma_p.bind(ew.add(m, ew.const(m, 1)), x))))
zeta_p = _elementwise("zeta", FLOAT, (
    _refused("zeta", "x", NotImplementedError),
    lambda t, x, q, o: ew.mul(t, ew.mul(ew.neg(x), zeta_p.bind(ew.add(x, ew.const(x, 1)), q)))))


# ---- incomplete gamma functions
def _density(a: Any, x: Any) -> Any:
    """x^(a-1) e^-x / Gamma(a)."""
    return ew.exp(ew.sub(ew.sub(ew.mul(ew.sub(a, ew.const(a, 1)), ew.log(x)), x),
                         lgamma_p.bind(a)))


igamma_p = _elementwise("igamma", FLOAT, (
    lambda t, a, x, o: ew.mul(t, igamma_grad_a_p.bind(a, x)),
    lambda t, a, x, o: ew.mul(t, _density(a, x))))
igammac_p = _elementwise("igammac", FLOAT, (
    lambda t, a, x, o: ew.neg(ew.mul(t, igamma_grad_a_p.bind(a, x))),
    lambda t, a, x, o: ew.neg(ew.mul(t, _density(a, x)))))
igamma_grad_a_p = _elementwise("igamma_grad_a", FLOAT, (
    _refused("igamma_grad_a", "a", NotImplementedError),
    _refused("igamma_grad_a", "x", NotImplementedError)))
random_gamma_grad_p = _elementwise("random_gamma_grad", FLOAT, (
    _refused("random_gamma_grad", "a", NotImplementedError),
    _refused("random_gamma_grad", "x", NotImplementedError)))


# ---- incomplete beta function
def _beta_partial(t: Any, a: Any, b: Any, x: Any, o: Any) -> Any:
    one = ew.const(x, 1)
    log_beta = ew.sub(ew.add(lgamma_p.bind(a), lgamma_p.bind(b)), lgamma_p.bind(ew.add(a, b)))
    log_rest = ew.log_p.bind(ew.sub(ew.match_shape(one, aval_of(x).shape), x))
    power = ew.add(ew.mul(ew.sub(b, one), log_rest), ew.mul(ew.sub(a, one), ew.log(x)))
    return ew.mul(ew.exp(ew.sub(power, log_beta)), t)


regularized_incomplete_beta_p = _elementwise("regularized_incomplete_beta", FLOAT, (
    _refused("Betainc", "a and b"), _refused("Betainc", "a and b"), _beta_partial))


# ---- Bessel functions
def _i1e_partial(t: Any, x: Any, o: Any) -> Any:
    """i0e - (sign x + 1/x) i1e, and 1/2 near 0."""
    eps = float(np.finfo(aval_of(x).dtype).eps) if aval_of(x).dtype.kind == "f" else 2.0**-7
    shape = aval_of(x).shape
    tiny = ew.match_shape(ew.const(x, eps), shape)
    far = ew.gt_p.bind(ew.abs_(x), tiny)
    safe = ew.select_n(far, tiny, x)
    slope = ew.sub(bessel_i0e_p.bind(safe),
                   ew.mul(o, ew.add(ew.sign(safe), ew.integer_pow(safe, -1))))
    half = ew.match_shape(ew.const(x, 0.5), shape)
    return ew.mul(t, ew.select_n(far, half, slope))


bessel_i0e_p = _elementwise("bessel_i0e", FLOAT, (
    lambda t, x, o: ew.mul(t, ew.sub(bessel_i1e_p.bind(x), ew.mul(ew.sign(x), o))),))
bessel_i1e_p = _elementwise("bessel_i1e", FLOAT, (_i1e_partial,))

# ---- integers
mulhi_p = _elementwise("mulhi", INTEGER, arity=2)
