"""Lowering rules, in the same files and order as frontend/calque/primitives.

registry.py holds the table and the context; importing this package fills the table.
"""
from __future__ import annotations

from calque.lowering.rules import (  # noqa: F401
    call,
    callback,
    collectives,
    contract,
    control,
    conv,
    cumulative,
    custom,
    elementwise,
    fft,
    gather,
    generator,
    index,
    linalg,
    prng,
    reduce,
    scatter,
    shape,
    sort,
    special,
    spectral,
    window,
)
from calque.lowering.rules.registry import Context, physical, rules

__all__ = ["Context", "physical", "rules"]
