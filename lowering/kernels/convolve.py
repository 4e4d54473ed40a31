"""Convolutions by the C kernel (lowering/native/gemm.c): products of what the windows see, which is
packed straight from the operand, so that it is nowhere in memory.

Element (place, tap) of that matrix lies where the place begins, plus where the tap lies in a
window: two nests of axes, in any layout.  Places are the columns of the product where each image's
features come first in the result, or where features are few; else its rows.  A bias, a residual and
a relu behind it are done as sums are written (`Sums`).  Start reading at `convolve`.
"""
from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass
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
TALL = (256, 128, 64, 32, 16)  # features of a cell
BROAD = (32, 16, 8, 4, 2)  # vectors of places of it: at most gemm.h's VECTORS
SUMS = 1 << 16  # numbers of it
FEW_PLACES = 64  # up to which the kernel is read as it lies, whatever its rows are apart
SIDE_BY_SIDE, IN_A_ROW = 24, 8  # elements of a window, places in a row from which on windows are
APART = 1024  # read as they lie, and bytes that the places are apart below which they are
PACKED_WEIGHT, PACKED_PLACE = 32, 8  # products that packing a number takes as long as,
WRITTEN, START = 16, 1 << 19  # writing a sum, beginning a cell
WORKERS = (2, 8)  # for whom a convolution is cut
MOST_GROUPS = 16
SHIFTED, ADDED_TO, RECTIFIED, AS_IT_LIES = 1, 2, 4, 8  # gemm.h's

Nest = list[tuple[int, int]]  # steps and how far apart they are, the innermost last


@dataclass(frozen=True, slots=True)
class Sums:
    """What is done to a convolution's sums as they are written: a number of each feature added,
    another array added, no negative ones."""

    shift: Value | None = None
    more: Value | None = None
    rectified: bool = False


def convolve(ctx: Context, x: Value, y: Value, numbers: Any, strides: Sequence[int],
             dilation: Sequence[int], shape: tuple[Any, ...], dtype: Dtype,
             epilogue: Sums | None = None) -> Value | None:
    """The convolution of a padded operand, of one group; None where it has more axes than a nest,
    or an epilogue and its result does not lie as it is computed.

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
    if f < last and (not lead or len(lead) == 1 and is_static((_count(lead), _count(across)))):
        second, as_is, order = True, False, list(range(len(shape)))  # as the result lies
        images, places = _count(lead), _count(across)
        across = lead + across
    else:
        across = _nest(steps)
        as_is = x.dtype == dtype and _lies_well(deep, across, dtype.itemsize)
        # (half a tile's columns; where these are not packed, less)
        second = features * dtype.itemsize <= (vector // 2 - 1 if as_is else vector)
        order = [f, *others] if second else [*others, f]
        images, places = 1, _count(across)
    if max(len(deep), len(across)) > AXES or (
            epilogue is not None and order != list(range(len(shape)))):
        return None
    k, size = _count(deep), dtype.itemsize
    y_deep, y_across = (1, k) if o == 0 else (features, 1)
    epilogue = epilogue or Sums()
    how = (epilogue.shift is not None) * SHIFTED + (epilogue.more is not None) * ADDED_TO + (
        epilogue.rectified * RECTIFIED)
    name, entry = x.dtype.name, "convolve"
    if second:
        entry = "convolve_features"
        _, rows, columns, depth = gemm.expected((1, features, images * places, k))
        lies = y_deep == 1 and x.dtype == dtype and (
            vector == 64 or columns <= FEW_PLACES or k * size % gemm.DIRECT_APART != 0)
        plan = _cells(rows, columns, depth, lies, vector, size)
        how += lies * AS_IT_LIES
        counts: tuple[Any, ...] = (images, features, places, k)
    else:
        plan = gemm.cells(*gemm.expected((1, places, features, k)), False, vector, size)
        how += as_is * AS_IT_LIES
        counts = (places, features, k)
    scalars = (*counts, *_scalars(deep), *_scalars(across), y_deep, y_across, how, plan.tall,
               plan.broad, plan.room)
    results = [(tuple(shape[a] for a in order), dtype), ((plan.groups * plan.room,), dtype)]
    operands, more = [x, y], [v for v in (epilogue.shift, epilogue.more) if v is not None]
    if more:  # (of two that it may read)
        entry, operands = f"{entry}_epilogue", [x, y, more[0], more[-1]]
    out, _ = emit_native(ctx, gemm.source_of(name), f"calque_{entry}_{gemm.SUFFIXES[name]}",
                         operands, results, scalars, plan.groups)
    return turned(ctx, out, [order.index(a) for a in range(len(shape))])


@functools.lru_cache(1 << 12)
def _cells(m: int, n: int, k: int, lies: bool, vector: int, size: int) -> gemm.Cells:
    """The plan for m features of n places: cells of which two workers, and eight, take the least
    time, where what is packed of a cell counts, too."""
    lanes = vector // size
    depth = -(-min(k, gemm.DEPTH) // gemm.STEP) * gemm.STEP
    least, found = math.inf, gemm.Cells(m, n, 0, 1, 0)
    for tall in {-(-m // -(-m // most)) for most in TALL}:
        for broad in BROAD:
            broad = min(broad * lanes, -(-n // (2 * lanes)) * 2 * lanes)
            if tall * broad > SUMS and broad > 2 * lanes:
                continue
            count = -(-m // tall) * -(-n // broad)
            cell = tall * broad * (1 + WRITTEN / k) + broad * PACKED_PLACE + (
                0 if lies else tall * PACKED_WEIGHT) + START / k
            cost = sum(-(-count // workers) * cell * workers for workers in WORKERS)
            if cost < least:
                least = cost
                groups = min(count, MOST_GROUPS)
                room = depth * 2 * lanes + tall * (broad + gemm.LINE // size) + (
                    0 if lies else tall * depth)
                found = gemm.Cells(tall, broad, 0, groups, -(-room // 16) * 16)
    return found


def _lies_well(deep: Nest, across: Nest, size: int) -> bool:
    """Whether windows are read as they lie: in runs, of places that are near each other."""
    return bool(deep and across) and is_static((*deep[-1], *across[-1])) and (
        deep[-1][1] == 1 and deep[-1][0] >= SIDE_BY_SIDE and across[-1][0] >= IN_A_ROW
        and across[-1][1] * size < APART)


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
