"""Matrix products by the C kernel (lowering/native/gemm.c): which, and in what pieces.

`product` sees an operand's transposition and takes it by strides, as it packs what it reads.  A
result is cut into cells, which are spread over workgroups; each has a room to pack in.  Numbers
here are benchmarks/products.py's (`--levels`, `--cells`).  Start reading at `product`.
"""
from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from calque.core.dims import is_static
from calque.lowering.builder import Value
from calque.lowering.kernels.dispatch import Dtype
from calque.lowering.kernels.native import emit_native, level_of, object_of
from calque.lowering.rules.registry import Context
from calque.lowering.targets import Target

SUFFIXES = {"float32": "f32", "float64": "f64", "bfloat16": "bf16", "float16": "f16"}
LEVELS = {"x86-64-v2": 16, "x86-64-v3": 32, "x86-64-v4": 64}  # where it wins: bytes of a vector
DEPTH, TALL, STEP, LINE = 256, 168, 4, 64  # gemm.c's
LEAST = 64 ** 3  # products of a matrix product, from which on it is the kernel's
LEAST_SIZES = (2, 8, 16)  # rows, columns, contracted size
FEW = 64  # rows up to which a row-major right operand is not packed
CELL = 256  # rows and columns of a cell where there are enough of them
SMALL_CELL = 1 << 22  # products: cells are not made smaller
CELLS = 4  # at least, where they are large enough
GROUPS = 64  # workgroups at most
ROOMS = 8 << 20  # bytes of work space of all groups, from 8 groups on
STRIP = 32 << 10  # bytes of sums of few rows: a first level cache

Dims = tuple[tuple[Sequence[int], Sequence[int]], tuple[Sequence[int], Sequence[int]]]


@dataclass(frozen=True, slots=True)
class Cells:
    """How a product is cut: cells of tall x broad, `groups` of them at a time, each with `room`
    numbers of work space; results of up to `few` rows stream b."""

    tall: int
    broad: int
    few: int
    groups: int
    room: int


def takes(target: Target | None, dtype: Dtype) -> bool:
    """Whether products of a dtype have the kernel on a target."""
    return (dtype.name in SUFFIXES and level_of(target) in LEVELS
            and object_of(target, "gemm") is not None)


def wins(batch: int, m: int, n: int, k: int) -> bool:
    """Whether IREE's own form is behind it."""
    rows, columns, depth = LEAST_SIZES
    return batch * m * n * k >= LEAST and m >= rows and n >= columns and k >= depth


def cells(batch: int, m: int, n: int, k: int, row_major: bool, bytes_of_vector: int,
          size: int) -> Cells:
    """The plan for batch products of m x k by k x n whose sums have `size` bytes; `row_major`: b's
    rows lie in memory as they are."""
    columns = 2 * bytes_of_vector // size
    depth = _whole(_part(k, DEPTH), STEP)
    if row_major and m <= FEW:
        tall = m
        broad = min(n, max(256, min(512, STRIP // (size * m))))
    else:
        limit = CELL if batch * _parts(m, CELL) * _parts(n, CELL) <= GROUPS else 2 * CELL
        tall, broad = _part(m, limit), _part(n, limit)
        while (batch * _parts(m, tall) * _parts(n, broad) < CELLS
               and tall * broad * k >= 2 * SMALL_CELL):
            if tall > broad:
                tall = _part(m, tall // 2)
            else:
                broad = _part(n, broad // 2)
    broad = min(_whole(broad, columns), _whole(n, columns))
    count = batch * _parts(m, tall) * _parts(n, broad)
    panels = broad // columns * (depth * columns + LINE // size)
    room = max(depth * _part(tall, TALL) + panels, tall * broad + DEPTH * tall
               if row_major and m <= FEW else 0)
    room = _whole(room, LINE // size)
    work = max(1, batch * m * n * k // (SMALL_CELL // 4))  # as many groups as are worth it
    groups = min(count, GROUPS, work, max(8, ROOMS // (room * size)))
    return Cells(tall, broad, FEW if row_major else 0, groups, room)


def _parts(n: int, most: int) -> int:
    return -(-n // most)


def _part(n: int, most: int) -> int:
    """The largest of the nearly equal parts of n, none above `most`."""
    return _parts(n, _parts(n, most))


def _whole(n: int, unit: int) -> int:
    return _parts(n, unit) * unit


def product(ctx: Context, x: Value, y: Value, dims: Dims, shape: tuple[int, ...],
            dtype: Dtype) -> Value | None:
    """dot_general of operands of one dtype, with sums of `dtype`; None where IREE's form stays."""
    (xc, yc), (xb, yb) = dims
    sums = np.dtype("float64" if x.dtype == np.float64 else "float32")
    if x.dtype != y.dtype or dtype != sums or not takes(ctx.target, x.dtype):
        return None
    if not is_static((*x.shape, *y.shape)):
        return None
    xf = [i for i in range(len(x.shape)) if i not in (*xc, *xb)]
    yf = [i for i in range(len(y.shape)) if i not in (*yc, *yb)]
    batch, m, k = (math.prod(x.shape[i] for i in axes) for axes in (xb, xf, xc))
    n = math.prod(y.shape[i] for i in yf)
    if not wins(batch, m, n, k):
        return None
    a, (a_batch, a_row, a_column) = _operand(ctx, x, (xb, xf, xc))
    b, (b_batch, b_row, b_column) = _operand(ctx, y, (yb, yc, yf))
    plan = cells(batch, m, n, k, b_column == 1, LEVELS[level_of(ctx.target)], sums.itemsize)
    scalars = (batch, m, n, k, a_batch, a_row, a_column, b_batch, b_row, b_column, plan.tall,
               plan.broad, plan.few, plan.room)
    made, _ = emit_native(ctx, "gemm", f"calque_gemm_{SUFFIXES[x.dtype.name]}", [a, b],
                          [(shape, sums), ((plan.groups * plan.room,), sums)], scalars,
                          plan.groups)
    return made


def _operand(ctx: Context, x: Value, groups: Sequence[Sequence[int]]
             ) -> tuple[Value, tuple[int, ...]]:
    """x, or what it is a transposition of, and the strides of three groups of its axes; a copy
    where the axes of a group do not lie side by side."""
    source, order = _source(x)
    strides = [1] * len(x.shape)
    for i in range(len(x.shape) - 2, -1, -1):
        strides[i] = strides[i + 1] * source.shape[i + 1]
    where = {axis: strides[place] for place, axis in enumerate(order)}  # of x's axes
    found = []
    for axes in groups:
        axes = [i for i in axes if x.shape[i] != 1]
        if any(where[i] != where[j] * x.shape[j] for i, j in zip(axes, axes[1:])):
            moved = ctx.b.transpose(x, [i for g in groups for i in g])
            sizes = [math.prod(x.shape[i] for i in g) for g in groups]
            return moved, (sizes[1] * sizes[2], sizes[2], 1)
        found.append(where[axes[-1]] if axes else 1)
    return source, tuple(found)


def _source(x: Value) -> tuple[Value, list[int]]:
    """What x is a transposition of, and x's axis at each place of it."""
    owner, axes = x.ir.owner, list(range(len(x.shape)))
    if getattr(owner, "name", "") != "stablehlo.transpose":
        return x, axes
    permutation = list(owner.attributes["permutation"])
    shape = [0] * len(axes)
    for i, place in enumerate(permutation):
        shape[place] = x.shape[i]
    return (Value(x.b, owner.operands[0], tuple(shape), x.dtype),
            [permutation.index(place) for place in axes])
