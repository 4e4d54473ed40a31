"""Lowering rules; importing this package fills the table.

emit/registry.py holds the table and what a rule is given (`Op`).  A primitive of
calque/primitives has its rule in the file of the same name: attention.py, call.py
(with while: control.py; loops within each other: views.py), callback.py,
collectives.py, contract.py, control.py, conv.py, cumulative.py, custom.py,
elementwise.py, ffi.py, fft.py, gather.py, generator.py, index.py, linalg.py (with orthogonal and
tridiagonal), messages.py, pairs.py (parts of complex functions),
quantized.py, random.py (threefry; prng.py: keys), reduce.py, scatter.py, shape.py,
sort.py, special.py, spectral.py, window.py; client.py: those of libraries and users.
"""
from __future__ import annotations

from calque.lowering.emit.context import Context, physical
from calque.lowering.emit.registry import Op, rules
from calque.lowering.rules import (  # noqa: F401
    attention,
    call,
    callback,
    client,
    collectives,
    contract,
    control,
    conv,
    cumulative,
    custom,
    elementwise,
    ffi,
    fft,
    gather,
    generator,
    index,
    linalg,
    messages,
    pairs,
    prng,
    quantized,
    reduce,
    scatter,
    shape,
    sort,
    special,
    spectral,
    window,
)

__all__ = ["Context", "Op", "physical", "rules"]
