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
