"""Convolutions by the C kernel (lowering/native/gemm.c): products of what the windows see, which is
packed straight from the operand, so that it is nowhere in memory.

Element (place, tap) of that matrix lies where the place begins, plus where the tap lies in a
window: two nests of axes, in any layout.  Places are the columns of the product where each image's
features come first in the result, or where features are few; else its rows.  Start reading at
`convolve`.
"""
from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from calque.core.dims import is_static
from calque.core.types import Dtype
from calque.lowering.emit.builder import Value
from calque.lowering.emit.context import Context
from calque.lowering.kernels import gemm
from calque.lowering.kernels.native import emit_native, level_of
from calque.lowering.kernels.rows import turned
from calque.lowering.plan.switches import off

AXES = 4  # gemm.c's
LEAST_COLUMNS = 128  # places of an image: with fewer the kernel is packed too often

Nest = list[tuple[int, int]]  # steps and how far apart they are, the innermost last


def convolve(ctx: Context, x: Value, y: Value, numbers: Any, strides: Sequence[int],
             dilation: Sequence[int], shape: tuple[Any, ...], dtype: Dtype) -> Value | None:
    """The convolution of a padded operand, of one group; None where it has more axes than a nest.

    Args:
      numbers: of dimensions, as in conv_general_dilated.
      shape, dtype: the result's; gemm.sums_of the operands'.
    """
    target, f, last = ctx.target, numbers.out_spec[1], len(shape) - 1
    if target is None or x.dtype != y.dtype or not gemm.takes(target, x.dtype.name):
        return None
    if off("convolutions"):
        return None
    y, o, taps, steps = _steps(ctx, x, y, numbers, strides, dilation, shape)
    others = [a for a in range(len(shape)) if a != f]
    vector, features = gemm.LEVELS[level_of(target)], shape[f]
    lead, across, deep = _nest(steps[:f]), _nest(steps[f:]), _nest(taps)
    if f < last and (not lead or len(lead) == 1 and is_static((_count(across),))
                     and _count(across) >= LEAST_COLUMNS):
        second, order = True, list(range(len(shape)))  # as the result lies
    else:
        second = features * dtype.itemsize <= vector  # half a tile's columns
        order = [f, *others] if second else [*others, f]
        lead, across = [], _nest(steps)
    if max(len(deep), len(across)) > AXES:
        return None
    batch, x_batch = lead[0] if lead else (1, 0)
    k, places = _count(deep), _count(across)
    m, n = (features, places) if second else (places, features)
    plan = gemm.cells(*gemm.expected((batch, m, n, k)), False, vector, dtype.itemsize)
    scalars = (batch, m, n, k, int(second), x_batch, *_scalars(deep), *_scalars(across),
               *((1, k) if o == 0 else (features, 1)), plan.tall, plan.broad, plan.room)
    name = x.dtype.name
    results = [(tuple(shape[a] for a in order), dtype), ((plan.groups * plan.room,), dtype)]
    out, _ = emit_native(ctx, gemm.source_of(name), f"calque_convolve_{gemm.SUFFIXES[name]}",
                         [x, y], results, scalars, plan.groups)
    return turned(ctx, out, [order.index(a) for a in range(len(shape))])


def _steps(ctx: Context, x: Value, y: Value, numbers: Any, strides: Sequence[int],
           dilation: Sequence[int], shape: Sequence[int]) -> tuple[Value, int, Nest, Nest]:
    """The kernel with its output features at an end, and where; steps in x along its other axes,
    and along the result's."""
    (n, c, *space), (o, i, *taps), (_, f, *spots) = (
        numbers.lhs_spec, numbers.rhs_spec, numbers.out_spec)
    apart = [math.prod(x.shape[a + 1:]) for a in range(x.ndim)]
    seen = {i: apart[c], **{t: apart[s] * d for t, s, d in zip(taps, space, dilation)}}
    begin = {spot: apart[s] * by for spot, s, by in zip(spots, space, strides)}
    rest = [a for a in range(y.ndim) if a != o]
    window = [(y.shape[a], seen[a]) for a in rest]
    if o not in (0, len(rest)):
        y, o = turned(ctx, y, [*rest, o]), len(rest)
    return y, o, window, [(shape[a], begin.get(a, apart[n])) for a in range(len(shape)) if a != f]


def _count(nest: Nest) -> int:
    return math.prod(count for count, _ in nest)


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
