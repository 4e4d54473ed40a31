"""Differences from JAX that are explained: tests/fuzz_compose.py counts them apart.

Each row: what the program's text matches, what the detail matches, and why it is no failure.
"""
from __future__ import annotations

import re

KNOWN: list[tuple[str, str, str]] = [
    ("", r"instead of JAX's \('.*', '(bool|int|float|complex)', False\)$",
     "JAX gives a Python number that a loop only passes on as it is; here it is a weak array"),
    (r"jnp\.full(_like)?\(", "calque: OverflowError.*JAX: fine",
     "JAX fills with another number where an integer is beyond the dtype"),
    (r"jnp\.clip", "u?int(8|16)",
     "a bound that the dtype does not hold is its end; JAX takes it modulo the dtype's range"),
    (r"jnp\.nan_to_num", "calque: fine.*JAX: TypeError",
     "what replaces NaN is not looked at where integers have none"),
    (r"jax\.grad\(jnp\.sin\)", "calque: TypeError.*JAX: OverflowError", "both refuse"),
    (r"jax\.(jvp|vjp|linearize)", "calque: (ValueError|TypeError).*JAX: (ValueError|TypeError)",
     "both refuse: the shape or the dtype is looked at first"),
    (r"lax\.convert_element_type\(V", "calque: fine.*JAX: TypeError: .*not 'complex'",
     "JAX drops the imaginary part of arrays, and refuses complex numbers of Python's"),
    (r"longdouble", "calque: TypeError.*JAX: (ValueError|fine)|JAX: TypeError",
     "float128 is no dtype here, wherever it comes"),
    (r"jnp\.isnan", r"'bool', False\) instead of JAX's \(array\(False\), 'bool', True",
     "isnan of an integer is a weak bool in JAX"),
    (r"lax\.integer_pow", "calque: TypeError.*JAX: fine", "JAX takes what equals an integer"),
    (r"lax\.(full|full_like)|jnp\.full_like", "int|bool",
     "JAX converts what fills integers as C does, or saturates; masks are lost"),
    (r"jax\.eval_shape.*dtype\.name", "calque: AttributeError|object has no attribute 'dtype'",
     "a tree has no dtype"),
    (r"lax\.scan.*2\*\*", "instead of JAX's", "JAX passes NumPy's 64-bit scalars on as they are"),
    (r"5e-324|1e-46", "", "a denormal number: XLA flushes some, and knows a predicate's value"),
    (r"(inf|nan).*", r"np\.(float64|complex128)\(nan.*instead of np\.(float64|complex128)\(0",
     "XLA multiplies bools by selecting; infinity times 0 is NaN"),
    (r"lax\.(cond|switch)\(V", "calque: OverflowError.*JAX: fine",
     "an integer beyond the dtype chooses a branch in JAX"),
    (r"\*\* V|V \*\*|jnp\.power", "calque: OverflowError.*JAX: fine",
     "JAX takes Python integers beyond the dtype as exponents of floats"),
    (r"jnp\.pad|jnp\.dot", "calque: (fine|ValueError).*JAX: (fine|OverflowError|TypeError)",
     "arguments that nothing depends on are not looked at; other errors"),
    (r"(<|>=) ?[VA]\)", "bytearray", "JAX compares bytes with arrays by Python"),
    (r"2\*\*|10\*\*", "calque: [A-Z][a-z]+Error .*JAX: [A-Z][a-z]+Error ",
     "both refuse: the integer's size or something else is looked at first"),
    (r"jnp\.result_type", "", "JAX takes a subclass of int or float for a strong type here"),
    (r"datetime64", "calque: TypeError.*JAX: ValueError", "both refuse"),
    (r"jax\.jacrev.*allow_int", "", "JAX's own Jacobian of float0 is of integers, or fails"),
    (r"lax\.scan.*, Z\)", "JAX: ValueError .*Unknown NumPy dtype",
     "scan over float0 fails in JAX's runtime"),
    (r"lax\.scan", "JAX: IndexError .*tuple index out of range",
     "scan over a scalar: an error of JAX's internals; a ValueError with a text here"),
]


def known(told: str, detail: str) -> str:
    """Why a difference is no failure, or ''."""
    for program, text, why in KNOWN:
        if re.search(program, told, re.S) and re.search(text, detail, re.S):
            return why
    return ""
