"""Elementwise mathematical functions as compositions that IREE compiles right and fast.

IREE's own transcendental functions lose digits, miss special values or do not link (docs and
tests: tests/lowering/test_math*.py say which, and notice when one is mended).  Every function here
is `f(b: Builder, x: Value, ...) -> Value`, of x's shape and dtype unless it says otherwise, emitted
at the builder's insertion point; f16 and bf16 are computed in f32 and rounded once.

    table.py       TABLE: name -> function that takes any dtype (what lowering rules use)
    region.py      one linalg.generic per function instead of fifty StableHLO ops: start here
    common.py      shared pieces: Horner, exact rounding, powers of two, the f16/bf16 wrapper
    exp_log.py     exp exp2 expm1 log log2 log1p logistic
    trig.py        sin cos tan asin acos atan atan2, Cody-Waite and Payne-Hanek reductions
    hyperbolic.py  sinh cosh tanh asinh acosh atanh
    power.py       sqrt rsqrt cbrt pow pow_const integer_pow integer_power
    special.py     erf erfc erf_inv
    gamma.py       lgamma digamma polygamma zeta
    incomplete.py  igamma igammac igamma_grad_a random_gamma_grad betainc
    bessel.py      bessel_i0e bessel_i1e
    complex_.py, complex_inverse.py   the same functions of complex64 and complex128
    basic.py       arithmetic, floor ceil round sign rem maximum minimum clamp nextafter is_finite
    convert.py     conversions between all dtypes
"""
from calque.lowering.math.basic import arithmetic, clamp, is_finite, maximum, minimum, nextafter
from calque.lowering.math.convert import convert
from calque.lowering.math.power import integer_pow, pow_const
from calque.lowering.math.table import TABLE

__all__ = ["TABLE", "arithmetic", "clamp", "convert", "integer_pow", "is_finite", "maximum",
           "minimum", "nextafter", "pow_const"]
