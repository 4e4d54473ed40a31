"""complex_part: the real or imaginary part of a complex function, of real and imaginary parts.

The function's body (math/complex_) gives both; what only the other one needs is dead code.
as_pairs: complex numbers read as pairs of real ones, or back.
"""
from __future__ import annotations

from calque.lowering.emit import mlir
from calque.lowering.emit.builder import Builder, Value
from calque.lowering.emit.dtypes import F32, F64
from calque.lowering.emit.registry import Op, rule
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


@rule("as_pairs")
def _as_pairs(op: Op) -> Value:
    b, x, out = op.b, op.x, op.out
    if op.ctx.closing:  # StableHLO has no such view; compiler/stream_module and IREE know this one
        made = mlir.value("flow.tensor.bitcast", mlir.tensor_type(out.shape, out.dtype), [x.ir],
                          operandSegmentSizes=mlir.ir().Attribute.parse("array<i32: 1, 0, 0>"))
        return Value(b, made, out.shape, out.dtype)
    if x.dtype.kind == "c":
        parts = [b.reshape(v, (*x.shape, 1)) for v in (b.real(x), b.imag(x))]
        return b.concatenate(parts, len(x.shape))
    return b.complex(*[b.index_in_dim(x, k, len(out.shape)) for k in (0, 1)])
