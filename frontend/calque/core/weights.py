"""What an element of each primitive costs, an addition being 1: the one list of it.

By it a program runs at once or queued and a loop becomes a kernel or not (lowering/passes/cost);
TRANSCENDENTAL is what calque/costs.py counts as such.  tests/lowering/test_weights.py says what
is missing.  Imports nothing.
"""
from __future__ import annotations

# Written by `python benchmarks/weights.py --write`: f32, or what comes nearest.
ELEMENTWISE = {
    "abs": 1,
    "acos": 3,
    "acosh": 7,
    "add": 1,
    "add_any": 1,
    "and": 1,
    "asin": 2,
    "asinh": 7,
    "atan": 2,
    "atan2": 5,
    "atanh": 7,
    "bessel_i0e": 21,
    "bessel_i1e": 19,
    "bitcast_convert_type": 1,
    "cbrt": 5,
    "ceil": 1,
    "clamp": 1,
    "clz": 1,
    "complex": 1,
    "conj": 1,
    "convert_element_type": 1,
    "copy": 1,
    "cos": 13,
    "cosh": 3,
    "digamma": 39,
    "div": 1,
    "eq": 1,
    "erf": 6,
    "erf_inv": 20,
    "erfc": 13,
    "exp": 3,
    "exp2": 3,
    "expm1": 3,
    "floor": 1,
    "ge": 1,
    "gt": 1,
    "igamma": 800,
    "igamma_grad_a": 1700,
    "igammac": 800,
    "imag": 1,
    "integer_pow": 1,
    "is_finite": 1,
    "le": 1,
    "lgamma": 59,
    "log": 4,
    "log1p": 3,
    "logistic": 2,
    "lt": 1,
    "max": 1,
    "min": 1,
    "mul": 1,
    "mulhi": 1,
    "ne": 1,
    "neg": 1,
    "nextafter": 1,
    "not": 1,
    "or": 1,
    "polygamma": 400,
    "population_count": 1,
    "pow": 14,
    "random_gamma_grad": 1400,
    "real": 1,
    "regularized_incomplete_beta": 1000,
    "rem": 77,
    "round": 1,
    "rsqrt": 2,
    "select_n": 1,
    "shift_left": 1,
    "shift_right_arithmetic": 1,
    "shift_right_logical": 1,
    "sign": 1,
    "sin": 14,
    "sinh": 3,
    "sqrt": 1,
    "square": 1,
    "stop_gradient": 1,
    "sub": 1,
    "tan": 18,
    "tanh": 4,
    "xor": 1,
    "zeta": 320,
}

# Functions in XLA's sense, whatever they cost: a result of one is a transcendental.
TRANSCENDENTAL = frozenset((
    "acos", "acosh", "asin", "asinh", "atan", "atan2", "atanh", "bessel_i0e", "bessel_i1e",
    "cbrt", "cos", "cosh", "cumlogsumexp", "digamma", "erf", "erf_inv", "erfc", "exp", "exp2",
    "expm1", "igamma", "igamma_grad_a", "igammac", "lgamma", "log", "log1p", "logistic",
    "polygamma", "pow", "random_gamma_grad", "regularized_incomplete_beta", "rsqrt", "sin",
    "sinh", "sqrt", "tan", "tanh", "zeta"))

# What is no map of elements: of the largest operand or result.
_OTHERS = {"random_bits": 40, "random_split": 40, "sort": 16, "top_k": 4, "fft": 16}


def weight(primitive: str) -> int:
    """What one element of a primitive costs, an addition being 1."""
    return ELEMENTWISE.get(primitive) or _OTHERS.get(primitive, 1)
