"""Matrices turned round on CUDA, a tile at a time through shared memory.

Start reading at `turn`.
"""
from __future__ import annotations

from calque.core.types import Dtype, Shape
from calque.lowering.emit.builder import Value
from calque.lowering.emit.context import Context
from calque.lowering.kernels.cuda import table
from calque.lowering.kernels.cuda.store import code
from calque.lowering.kernels.cuda.variants import Variant, launch


def turn(ctx: Context, x: Value, rows: int, columns: int, apart: int, batch: int = 1,
         shape: Shape | None = None) -> Value:
    """Matrices of rows x columns, whose rows lie `apart`, as columns x rows."""
    size = x.dtype.itemsize
    aligned = not any(n * size % 16 for n in (rows, columns, apart))
    kernel = table.Turn(size, aligned)
    found = code(kernel.name)
    tile = table.TURNED
    grid = (-(-rows // tile) * -(-columns // tile), batch, 1)
    results: list[tuple[Shape, Dtype]] = [(shape or (columns, rows), x.dtype)]
    return launch(ctx, "turn", [Variant(found, grid)], [x], results, (rows, columns, apart))[0]
