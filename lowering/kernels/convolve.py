"""Convolutions by the C kernel (lowering/native/gemm.c): products of what the windows see, which is
packed straight from the operand, so that it is nowhere in memory.

Element (place, tap) of that matrix lies where the place begins, plus where the tap lies in a window:
two nests of axes, in any layout.  Places are the rows of the product where the result has its
features last, its columns otherwise.  Start reading at `convolve`.
"""
from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from calque.core.dims import is_static
from calque.lowering.builder import Value
from calque.lowering.kernels import gemm
from calque.lowering.kernels.dispatch import Dtype
from calque.lowering.kernels.native import emit_native, level_of
from calque.lowering.rules.registry import Context

AXES = 4  # gemm.c's

Nest = list[tuple[int, int]]  # steps and how far apart they are, the innermost last


def convolve(ctx: Context, x: Value, y: Value, numbers: Any, strides: Sequence[int],
             dilation: Sequence[int], shape: tuple[Any, ...], dtype: Dtype) -> Value | None:
    """The convolution of a padded operand, of one group; None where it has more axes than a nest.

    Args:
      numbers: of dimensions, as in conv_general_dilated.
      shape, dtype: the result's, dtype that of the operands too.
    """
    target = ctx.target
    if target is None or not gemm.takes(target, dtype.name) or not is_static(
            (*x.shape, *y.shape, *shape)):
        return None
    (n, c, *space), (o, i, *taps), (_, f, *spots) = (
        numbers.lhs_spec, numbers.rhs_spec, numbers.out_spec)
    b, apart, size = ctx.b, _strides(x.shape), dtype.itemsize
    if o not in (0, len(y.shape) - 1):
        order = [a for a in range(len(y.shape)) if a != o] + [o]
        y = b.transpose(y, order)
        o, i, taps = order.index(o), order.index(i), [order.index(t) for t in taps]
    seen = {i: apart[c], **{t: apart[s] * d for t, s, d in zip(taps, space, dilation)}}
    begin = {spot: apart[s] * by for spot, s, by in zip(spots, space, strides)}
    steps = [(shape[a], begin.get(a, apart[n])) for a in range(len(shape)) if a != f]
    second = f < len(shape) - 1
    lead = _nest(steps[:f] if second else [])
    deep = _nest([(y.shape[a], seen[a]) for a in range(len(y.shape)) if a != o])
    across = _nest(steps[f:] if second else steps)
    if len(lead) > 1 or max(len(deep), len(across)) > AXES:
        return None
    batch, x_batch = lead[0] if lead else (1, 0)
    k, places, features = math.prod(v for v, _ in deep), math.prod(v for v, _ in across), shape[f]
    m, n = (features, places) if second else (places, features)
    plan = gemm.cells(batch, m, n, k, False, gemm.LEVELS[level_of(target)], size)
    scalars = (batch, m, n, k, int(second), x_batch, *_scalars(deep), *_scalars(across),
               *((1, k) if o == 0 else (features, 1)), plan.tall, plan.broad, plan.room)
    made, _ = emit_native(ctx, "gemm", f"calque_convolve_{gemm.SUFFIXES[dtype.name]}", [x, y],
                          [(shape, dtype), ((plan.groups * plan.room,), dtype)], scalars,
                          plan.groups)
    return made


def _strides(shape: Sequence[int]) -> list[int]:
    return [math.prod(shape[i + 1:]) for i in range(len(shape))]


def _nest(steps: Nest) -> Nest:
    """The same places with as few axes as can be."""
    made: Nest = []
    for count, apart in steps:
        if count == 1:
            continue
        if made and made[-1][1] == apart * count:
            made[-1] = (made[-1][0] * count, apart)
        else:
            made.append((count, apart))
    return made


def _scalars(nest: Nest) -> list[int]:
    whole = [(1, 0)] * (AXES - len(nest)) + nest
    return [count for count, _ in whole] + [apart for _, apart in whole]
