"""Differences that are explained: the fuzzer counts them apart (see fuzz_api.py).

Each row: kinds of finding, what the line or the detail matches, and why it is no failure.
"""
from __future__ import annotations

import re
from typing import Any

KNOWN: list[tuple[str, str, str]] = [
    ("jax-accepts", r"Unsupported dtype (b?float16)",
     "JAX refuses linear algebra in half precision as well, but when it lowers"),
    ("jax-refuses", r"jnp.interp.*not inexact", "JAX 0.10.2: interp(period=) asks np.finfo of bfloat16"),
    ("jax-value", r"bessel_jn", "JAX gives NaN for negative arguments; J_n is even or odd"),
    ("jax-value", r"lax\.reduce\(.*1[,)].*lax\.(add|mul|max|min)",
     "XLA drops the initial value of a reduction over axes of size 1"),
    ("jax-value", r"(inf|nan|e\+38|e\+308).*jnp\.fft\.", "transforms of infinities: NaN or infinity, by "
     "the order of the additions"),
    ("value", r"(inf|nan|e\+38|e\+308|2147483647|0000\.0).*cumprod|cumprod.*(inf|nan)",
     "running products near overflow: infinity, 0 or NaN by the order of the products"),
    ("mode-error", "ragged_dot vmap over any dim but 0|Differentiation rule for 'nextafter'|JAX: TypeError: log "
     "does not accept dtype int", "JAX 0.10.2 has not written the rule"),
    ("jax-refuses", "One input must be smaller than the other", "SciPy takes such operands, calque as well"),
    ("jax-value", r"zeta\(.*inf|inf.*zeta\(", "JAX: zeta of infinity is NaN"),
    ("jax-value", r"(gammainc|gammaincc|igamma).*", "JAX gives NaN where an argument is near the largest float"),
]


def known(finding: dict[str, Any]) -> str:
    """Why a finding is no failure, or ''."""
    text = f"{finding['line']}\n{finding['detail']}"
    for kinds, pattern, why in KNOWN:
        if re.search(kinds, finding["kind"]) and re.search(pattern, text, re.S):
            return why
    return ""
