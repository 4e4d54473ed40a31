"""The high half of integer products; the forms of special functions lie in lowering/math."""
from __future__ import annotations

import numpy as np

from calque.lowering.emit.builder import Builder, Value
from calque.lowering.emit.dtypes import U64
from calque.lowering.rules.elementwise import pointwise


@pointwise("mulhi")
def mulhi(b: Builder, x: Value, y: Value) -> Value:
    """The upper half of the product in twice the width."""
    bits = 8 * x.dtype.itemsize
    if bits < 64:
        wide = np.dtype(f"{x.dtype.kind}8")
        product = x.astype(wide) * y.astype(wide)
        return (product >> bits).astype(x.dtype)
    unsigned = U64
    high = _mulhi_unsigned(x.view(unsigned), y.view(unsigned)).view(x.dtype)
    if x.dtype.kind == "u":
        return high
    # as unsigned numbers, negative ones are too large by 2^64
    zero = b.like(x, 0)
    return high - b.select(x < 0, y, zero) - b.select(y < 0, x, zero)


def _mulhi_unsigned(x: Value, y: Value) -> Value:
    """By halves: the partial products, carries added up."""
    low = (1 << 32) - 1
    x0, x1, y0, y1 = x & low, x >> 32, y & low, y >> 32
    first = x1 * y0 + ((x0 * y0) >> 32)
    second = x0 * y1 + (first & low)
    return x1 * y1 + (first >> 32) + (second >> 32)
