"""complex_part: the real or imaginary part of a complex function, of real and imaginary parts.

The function's body (math/complex_) gives both; what only the other one needs is dead code.
"""
from __future__ import annotations

from calque.lowering.emit.builder import Builder, Value
from calque.lowering.emit.dtypes import F32, F64
from calque.lowering.math import complex_, complex_inverse
from calque.lowering.rules.elementwise import pointwise


@pointwise("complex_part")
def _part(b: Builder, *parts: Value, function: str, part: int) -> Value:
    if function == "abs":
        return complex_.hypot(*parts)
    form = getattr(complex_, function, None) or getattr(complex_inverse, function)
    dtype = parts[0].dtype
    work = F64 if form.wide and dtype == F32 and b.f64_ok else dtype
    made = form.__wrapped__(b, *[v.astype(work) for v in parts])
    return made[part].astype(dtype)
