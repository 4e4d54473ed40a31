"""prefix_attention: a C kernel that reads the keys that are seen; elsewhere, what
primitives/attention writes it in."""
from __future__ import annotations

import struct

from calque.core.dims import is_static
from calque.lowering.emit.builder import Value
from calque.lowering.emit.registry import Op, rule
from calque.lowering.kernels import cached, forms


@rule("prefix_attention")
def _prefix_attention(op: Op) -> list[Value]:
    e, ctx = op.ctx.equation, op.ctx
    if forms.form_of(e.name, ctx.target, op.out.dtype) == "native" and all(
            is_static(x.shape) for x in op.operands) and cached.takes(
            op.operands, op["orders"]):
        (scale,) = struct.unpack("<i", struct.pack("<f", op["scale"]))
        q, k, v, counts = op.operands
        return [cached.prefix_attention(ctx, q, k, v, counts, scale, op["orders"],
                                        op.out.shape)]
    assert e.primitive.program is not None, e.primitive
    p = e.primitive.program(*[a.aval for a in e.inputs], **op.params)
    return ctx.emit_program(p, op.operands)
