"""lax special functions, a row each."""
from __future__ import annotations

from typing import Any

from calque.core.avals import shape_of
from calque.core.errors import explain
from calque.dispatch.eager import lazy_eval
from calque.lax.elementwise import _binary, _f, _unary, spread_ones
from calque.lax.operands import as_operand
from calque.primitives import special as sp

lgamma = _unary("lgamma", sp.lgamma_p, "Elementwise log |Gamma(x)|.", "float",
                "lax.lgamma(5.0)", _f("3.1780539"))
digamma = _unary("digamma", sp.digamma_p, "Elementwise derivative of log Gamma(x).", "float",
                 "lax.digamma(1.0)", _f("-0.5772157"))
bessel_i0e = _unary("bessel_i0e", sp.bessel_i0e_p,
                    "Elementwise e^-|x| I0(x), the scaled modified Bessel function of order 0.",
                    "float", "lax.bessel_i0e(1.0)", _f("0.4657596"))
bessel_i1e = _unary("bessel_i1e", sp.bessel_i1e_p,
                    "Elementwise e^-|x| I1(x), the scaled modified Bessel function of order 1.",
                    "float", "lax.bessel_i1e(1.0)", _f("0.20791042"))
polygamma = _binary("polygamma", sp.polygamma_p,
                    "Elementwise m-th derivative of digamma(x); NaN unless m is 0, 1, 2, ...",
                    "float", "lax.polygamma(1.0, 1.0)", _f("1.644934"), ("m", "x"))
zeta = _binary("zeta", sp.zeta_p, "Elementwise Hurwitz zeta function: the sum of (q + k)^-x.",
               "float", "lax.zeta(2.0, 1.0)", _f("1.644934"), ("x", "q"))
igamma = _binary("igamma", sp.igamma_p,
                 "Elementwise regularized lower incomplete gamma function P(a, x).", "float",
                 "lax.igamma(1.0, 2.0)", _f("0.86466473"), ("a", "x"))
igammac = _binary("igammac", sp.igammac_p,
                  "Elementwise regularized upper incomplete gamma function 1 - P(a, x).", "float",
                  "lax.igammac(1.0, 2.0)", _f("0.13533528"), ("a", "x"))
igamma_grad_a = _binary("igamma_grad_a", sp.igamma_grad_a_p,
                        "Elementwise derivative of igamma(a, x) by a.", "float",
                        "lax.igamma_grad_a(1.0, 1.0)", _f("-0.4317297"), ("a", "x"))
random_gamma_grad = _binary(
    "random_gamma_grad", sp.random_gamma_grad_p,
    "Elementwise derivative by a of a sample x of the gamma distribution.", "float",
    "lax.random_gamma_grad(1.0, 1.0)", _f("1.173563"), ("a", "x"))
mulhi = _binary("mulhi", sp.mulhi_p, "Elementwise upper half of the product x * y.", "integer",
                "lax.mulhi(2**30, 8)", "Array(2, dtype=int32, weak_type=True)")


def betainc(a: Any, b: Any, x: Any) -> Any:
    """Elementwise regularized incomplete beta function I_x(a, b).

    Args:
      a: array of float dtype, positive.
      b: the same dtype; positive.
      x: the same dtype, in [0, 1].

    Returns:
      An array of the common shape; NaN outside.

    Raises:
      TypeError: an operand is not an array, or has another dtype or a shape that does not fit.

    Example:
      >>> from calque import lax
      >>> lax.betainc(1.0, 2.0, 0.5)
      Array(0.75, dtype=float32, weak_type=True)
    """
    values = [as_operand("betainc", v, i) for i, v in enumerate((a, b, x))]
    shapes = {shape_of(v) for v in values} - {()}
    if len(shapes) <= 1:
        return sp.regularized_incomplete_beta_p.bind(*values)
    if len({len(s) for s in shapes}) > 1:
        raise TypeError(explain(
            f"betainc: arrays must have the same number of dimensions, got {sorted(shapes)}."))
    with lazy_eval("betainc"):
        first, second = spread_ones("betainc", values[0], values[1])
        third, first = spread_ones("betainc", values[2], first)
        third, second = spread_ones("betainc", third, second)
        return sp.regularized_incomplete_beta_p.bind(first, second, third)


__all__ = [
    "bessel_i0e", "bessel_i1e", "betainc", "digamma", "igamma", "igamma_grad_a", "igammac",
    "lgamma", "mulhi", "polygamma", "random_gamma_grad", "zeta"]
