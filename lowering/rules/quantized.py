"""dequantize and quantized_dot: C kernels that unpack blocks as they read them; elsewhere, what
primitives/quantized writes them in."""
from __future__ import annotations

import math

from calque.core.blocks import KINDS
from calque.core.dims import guess, is_static
from calque.lowering.emit.builder import Value
from calque.lowering.emit.registry import Op, rule
from calque.lowering.kernels import quantized
from calque.lowering.kernels.forms import form_of


@rule("dequantize", "quantized_dot")
def _quantized(op: Op) -> list[Value]:
    e, out, kind, blocks = op.ctx.equation, op.out, op["kind"], op.operands[-1]
    if form_of(e.name, op.ctx.target, out.dtype) == "native" and (
            is_static(blocks.shape) and guess(math.prod(out.shape)) > 0):
        if e.name == "dequantize":
            count = math.prod(blocks.shape) // KINDS[kind].bytes
            return [quantized.unpacked(op.ctx, blocks, kind, count, out.shape)]
        return [quantized.product(op.ctx, op.x, blocks, kind, out.shape, op["activations"])]
    assert e.primitive.program is not None, e.primitive
    p = e.primitive.program(*[a.aval for a in e.inputs], **op.params)
    return op.ctx.emit_program(p, op.operands)
