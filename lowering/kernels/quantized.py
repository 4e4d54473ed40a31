"""Products with matrices that are unpacked as they are read: blocks of a few bits, and halves.

The kernels are lowering/native/quantized.c.  Start reading at `product`.
"""
from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from calque.core.blocks import FEW_ROWS, rounds
from calque.core.dims import guess
from calque.core.types import Dtype, Shape
from calque.lowering.emit.builder import Value
from calque.lowering.emit.context import Context
from calque.lowering.emit.dtypes import F32
from calque.lowering.kernels.native import emit_native

FEW = FEW_ROWS  # that are multiplied while blocks are unpacked; of more, strips of the matrix are
FASTER = {"avx512vnni": "vnni"}  # entries for what a CPU may have beyond its level
GROUPS, WORTH = 64, 1 << 16  # workgroups at most; bytes of a matrix that are worth one
GROUP = 32  # numbers, of which rows are multiples
LINE = 16  # floats of a cache's line, which one workgroup writes
WORK = 12 * 1024  # STRIP x DEPTH of the C kernel


def product(ctx: Context, x: Value, matrix: Value, kind: str, shape: Shape,
            activations: str = "float32") -> Value:
    """x (..., k) of float32 times the transpose of a matrix of n rows; `shape`: the result's."""
    rows, n, k = math.prod(x.shape[:-1]), matrix.shape[0], x.shape[-1]
    few, entry = guess(rows) <= FEW, "quantized_product"
    if rounds(guess(rows), k, activations):
        assert ctx.target is not None
        entry = "quantized_int8" + "".join(
            f"_{word}" for feature, word in FASTER.items() if feature in ctx.target.features)
    elif few:
        entry = "quantized_dot"
    return _call(ctx, entry, kind, [matrix, x], shape, (rows, n, k), -(-n // LINE),
                 1 + guess(rows) // FEW, 0 if few else WORK)


def unpacked(ctx: Context, matrix: Value, kind: str, count: int, shape: Shape) -> Value:
    """The numbers of `count` blocks."""
    return _call(ctx, "dequantize", kind, [matrix], shape, (count,), count)


def _call(ctx: Context, entry: str, kind: str, operands: Sequence[Value], shape: Shape,
          scalars: Sequence[Any], parts: int, times: int = 1, work: int = 0) -> Value:
    """`parts` that may be split, of a matrix that is read so often."""
    size = math.prod(operands[0].shape) * operands[0].dtype.itemsize
    groups = max(1, min(GROUPS, times * size // WORTH, parts))
    groups = 1 << groups.bit_length() - 1  # (of 5 equal ones two cores have 3 and 2)
    results: list[tuple[Shape, Dtype]] = [(shape, F32)]
    if work:
        results.append(((groups * work,), F32))
    return emit_native(ctx, "quantized", f"calque_{entry}_{kind}", operands, results, scalars,
                       groups)[0]
