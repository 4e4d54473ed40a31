"""Differences that are explained: the fuzzer counts them apart (see fuzz_api.py).

Each row: kinds of finding, what the line or the detail matches, and why it is no failure.
"""
from __future__ import annotations

import re
from typing import Any

KNOWN: list[tuple[str, str, str]] = [
    ("jax-accepts",
     "Unsupported dtype (b?float16)",
     "JAX refuses linear algebra in half precision as well, but when it lowers"),
    ("jax-refuses",
     "jnp.interp.*not inexact",
     "JAX 0.10.2: interp(period=) asks np.finfo of bfloat16"),
    ("jax-value|mode-value",
     "bessel_jn",
     "JAX gives NaN for negative arguments; J_n is even or odd"),
    ("jax-value",
     r"lax\.reduce\(.*1[,)].*lax\.(add|mul|max|min)",
     "XLA drops the initial value of a reduction over axes of size 1"),
    ("jax-value",
     r"(inf|nan|e\+38|e\+308).*jnp\.fft\.",
     "transforms of infinities: NaN or infinity, by the order of the additions"),
    ("jax-value|mode-value",
     r"(inf|nan|e\+38|e\+308|2147483647|0000\.0).*prod[(,]|(prod|multiply.reduce).*(inf|nan)",
     "running products near overflow: infinity, 0 or NaN by the order of the products"),
    ("mode-error",
     "calque: NoneType.*JAX: (NotImplementedError|ValueError|TypeError): .*(NYI|not "
     "implemented|JVP|Differentiation rule|log does not accept dtype int)",
     "JAX 0.10.2 has not written the rule"),
    ("mode-error",
     "random_gamma_grad gradient with respect to|igamma_grad_a gradient",
     "both refuse, JAX with the error of the loop inside"),
    ("jax-refuses",
     "lognormal.*bfloat16|lognormal.*float16|expm.*bfloat16 is not "
     "supported|unpackbits.*modulo by zero|vander.*out of bounds for uint|TypeError: "
     "A.dtype=b?float16|jnp.put.*out of bounds for int8",
     "JAX 0.10.2 fails for this dtype or size"),
    ("error-class",
     "JAX: AssertionError",
     "an assertion of JAX's; a ValueError with a text here"),
    ("mode-error",
     "calque: ValueError: Reverse-mode.*JAX: NotImplementedError: scatter_apply",
     "both refuse"),
    ("jax-refuses",
     "is not supported by dot_general on CPU",
     "a limit of XLA's CPU code"),
    ("jax-value|mode-value",
     "jnp.spacing.*-inf instead",
     "JAX: the spacing of the largest number is infinite; NumPy's is not"),
    ("jax-value|mode-value",
     "polygamma",
     "JAX: NaN for bfloat16"),
    ("jax-value",
     r"jnp.poly\(.*",
     "JAX: products with NaN in every coefficient"),
    ("jax-refuses",
     "One input must be smaller than the other",
     "SciPy takes such operands, calque as well"),
    ("jax-value|mode-value",
     r"zeta\(.*inf|inf.*zeta\(",
     "JAX: zeta of infinity is NaN"),
    ("jax-value|mode-value",
     "(gammainc|gammaincc|igamma).*|e[+]308.*betainc",
     "JAX gives NaN where an argument is near the largest float"),
    ("mode-error",
     "lax.reduce.*calque: NoneType.*JAX: NotImplementedError: $",
     "JAX 0.10.2 has not written the rule (vmap over a reduction's initial value)"),
    ("jax-value|mode-value",
     "(nonzero|argwhere).*fill_value.*instead of",
     "JAX: where there are no elements at all, fill_value is not looked at"),
    ("jax-value|mode-value",
     r"(inf|nan|e\+38|e\+308).*(solve|inv|det)\(",
     "systems with infinities: NaN or infinity, by the order of the operations"),
    ("jax-value|mode-value",
     r"(inf|e\+38|e\+308).*boxcox\(",
     "XLA divides by a number near the largest as a product with 0, its flushed reciprocal"),
    ("jax-value|mode-value",
     "True.*jnp.take.*'wrap'",
     "JAX: bool positions modulo a size are all 0"),
    ("jax-refuses",
     r"AttributeError: module 'jax\.[a-z.]+' has no attribute",
     "a name of ours that JAX 0.10.2 does not have"),
    ("jax-value|mode-value",
     r"(betaln|special\.beta|betainc)\(",
     "JAX: NaN of numbers near the largest, and at poles; SciPy's values here"),
    ("jax-value|mode-value",
     r"nan.*approx_m(in|ax)_k\(",
     "JAX's order of NaN depends on how many are taken"),
    ("jax-value|mode-value",
     r"(inf|nan|e\+38|e\+308).*solve_triangular\(",
     "the interpreter on NumPy solves as a whole system; calque and JAX row by row"),
    ("jax-value|mode-value",
     r"nan.*setxor1d\(",
     "NaN differs from itself: where fewer are asked for than there are, which are left"),
]


def known(finding: dict[str, Any]) -> str:
    """Why a finding is no failure, or ''."""
    text = f"{finding['line']}\n{finding['detail']}"
    for kinds, pattern, why in KNOWN:
        if re.search(kinds, finding["kind"]) and re.search(pattern, text, re.S):
            return why
    return ""
