"""The last axis of an array exchanged with another one, by lowering/native/transpose.c."""
from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from calque.lowering.emit.builder import Value
from calque.lowering.emit.context import Context
from calque.lowering.kernels.move import GROUPS
from calque.lowering.kernels.native import emit_native, object_of
from calque.lowering.passes.turned import OUTER, tiled

WORTH = 1 << 17  # bytes that a workgroup should have


def turn(ctx: Context, x: Value, permutation: Sequence[int]) -> Value | None:
    """x transposed; None where the kernel does not take it, or is not there."""
    found = tiled(x.shape, x.dtype, permutation)
    if found is None or not ctx.cpu or ctx.module is None or ctx.regions or object_of(
            ctx.target, "transpose") is None:
        return None
    outer, (rows, _, y_apart), (columns, x_apart, _) = found
    outer = [(1, 0, 0)] * (OUTER - len(outer)) + outer
    scalars: list[Any] = [*sum(outer, ()), rows, columns, x_apart, y_apart]
    size = x.dtype.itemsize
    return emit_native(ctx, "transpose", f"calque_transpose_{8 * size}", [x],
                       [(tuple(x.shape[i] for i in permutation), x.dtype)], scalars,
                       max(1, min(GROUPS, math.prod(x.shape) * size // WORTH)))[0]
