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
from calque.lowering.builder import Value
from calque.lowering.kernels import gemm
from calque.lowering.kernels.dispatch import Dtype
from calque.lowering.kernels.native import emit_native, level_of
from calque.lowering.rules.registry import Context

AXES = 4  # gemm.c's
LEAST_COLUMNS = 128  # places of an image: with fewer the kernel is packed too often

Nest = list[tuple[int, int]]  # steps and how far apart they are, the innermost last


def convolve(ctx: Context, x: Value, y: Value, numbers: Any, strides: Sequence[int],
             dilation: Sequence[int], shape: tuple[Any, ...], dtype: Dtype) -> Value | None:
    """The convolution of a padded operand, of one group; None where it has more axes than a nest.

    Args:
      numbers: of dimensions, as in conv_general_dilated.
      shape, dtype: the result's; f64 of f64, f32 of what is narrower.
    """
    target = ctx.target
    if target is None or x.dtype != y.dtype or not gemm.takes(target, x.dtype.name):
        return None
    if not is_static(x.shape):
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
    others = [a for a in range(len(shape)) if a != f]
    steps = [(shape[a], begin.get(a, apart[n])) for a in others]
    columns = 2 * gemm.LEVELS[level_of(target)] // dtype.itemsize
    features, k = shape[f], math.prod(n for a, n in enumerate(y.shape) if a != o)
    deep = _nest([(y.shape[a], seen[a]) for a in range(len(y.shape)) if a != o])
    lead, across = _nest(steps[:f]), _nest(steps[f:])
    after = math.prod(count for count, _ in across)
    second = features <= columns // 2
    if f == len(shape) - 1 or second or len(lead) > 1 or (lead and after < LEAST_COLUMNS):
        lead, across = [], _nest(steps)
        made = (features, *[shape[a] for a in others]) if second else (
            *[shape[a] for a in others], features)
        order = [f, *others] if second else [*others, f]
    else:
        second, made, order = True, shape, list(range(len(shape)))
    if max(len(deep), len(across)) > AXES:
        return None
    batch, x_batch = lead[0] if lead else (1, 0)
    places = math.prod(count for count, _ in across)
    m, n = (features, places) if second else (places, features)
    plan = gemm.cells(batch, m, n, k, False, gemm.LEVELS[level_of(target)], size)
    scalars = (batch, m, n, k, int(second), x_batch, *_scalars(deep), *_scalars(across),
               *((1, k) if o == 0 else (features, 1)), plan.tall, plan.broad, plan.room)
    out, _ = emit_native(ctx, "gemm", f"calque_convolve_{gemm.SUFFIXES[x.dtype.name]}", [x, y],
                         [(made, dtype), ((plan.groups * plan.room,), dtype)], scalars,
                         plan.groups)
    return b.transpose(out, [order.index(a) for a in range(len(shape))])


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
