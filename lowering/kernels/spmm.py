"""Rows that are gathered, multiplied and added up (passes/spmm), by lowering/native/spmm.c."""
from __future__ import annotations

import struct
from collections.abc import Sequence

from calque.core.avals import ShapedArray
from calque.lowering.emit.builder import Value
from calque.lowering.emit.context import Context
from calque.lowering.kernels.native import NATIVE_DTYPES, emit_native
from calque.lowering.passes.spmm import Spmm

STRIP, STRIPS = 64, 4  # bytes of the columns that a workgroup takes at least, and workgroups
SHARED = 1 << 18  # multiply-adds that are worth sharing: each workgroup reads all indices


def emit_spmm(ctx: Context, how: Spmm, xs: Sequence[Value], out: ShapedArray) -> Value:
    """The sums."""
    dense, rows, columns, *weights = [xs[k] for k in how.operands]
    (height, width), depth = out.shape, dense.shape[0]
    count = rows.shape[0]
    least = STRIP // out.dtype.itemsize
    strips = min(STRIPS, -(-width // least)) if count * width >= SHARED else 1
    panel = -(-width // (strips * least)) * least
    (fill,) = struct.unpack("<i", struct.pack("<f", how.fill))
    scalars = (count, height, depth, width, *how.rows, *how.columns, int(how.weighted),
               int(how.clips), int(how.clips_rows), fill, panel)
    return emit_native(ctx, "spmm", f"calque_spmm_{NATIVE_DTYPES[out.dtype.name]}",
                       [*(weights or [dense]), rows, columns, dense], [(out.shape, out.dtype)],
                       scalars, -(-width // panel))[0]
