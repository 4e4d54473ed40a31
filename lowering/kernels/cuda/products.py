"""Matrix products on CUDA by kernels of ours: which, with what strides and in how many parts.

An operand is read where it lies: what it is a transposition of, by strides; it is copied where its
axes do not fall into a batch of two strides, rows and columns.  IREE's own form stays for cards
before compute capability 8, for float64, integers and what is small.  Start reading at `product`.
"""
from __future__ import annotations

import math
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from calque.core.dims import is_static
from calque.core.lists import other_axes
from calque.core.types import Dtype, Shape
from calque.lowering.emit import mlir
from calque.lowering.emit.builder import Value
from calque.lowering.emit.context import Context
from calque.lowering.emit.dtypes import F32, HALVES, I8
from calque.lowering.kernels.cuda import table
from calque.lowering.kernels.cuda.moves import turn
from calque.lowering.kernels.cuda.store import code
from calque.lowering.kernels.cuda.variants import Variant, launch
from calque.lowering.kernels.gemm import Dims, shape_of_product, transposed_source
from calque.lowering.target.targets import Target

LEAST = 1 << 13  # products of a product from which on it is a kernel's,
LEAST_DEPTH = 8  # numbers of a sum,
LEAST_SHARE = 1 / 16  # and the part of its tiles that is used, where there are
FEW_TILES = 1024  # more tiles than these
MOST = 2**31 - 1  # numbers of a matrix: places in it have 32 bits
SMALL = 1 << 14  # numbers of an operand from which on it is said that it has no kernel
MOST_BATCH = 65535  # CUDA's limit of a grid's second axis
# From here on rows and columns pay for turning an operand round, so that the sums run along rows
# in both: the form of TF32 that compute capability 9 has instructions for (docs/cuda_kernels.md).
LEAST_TURNED = 1536


@dataclass(frozen=True, slots=True)
class _Operand:
    """An array, and which of its axes are what in a product."""

    array: Value
    batch: Sequence[int]
    rows: Sequence[int]
    columns: Sequence[int]


@dataclass(frozen=True, slots=True)
class _Matrix:
    """An operand: its array, whether it lies transposed, how far its rows are apart, and the
    strides of a batch's outer and inner axis; `aligned`: all of that in multiples of 16 bytes."""

    array: Value
    turned: bool
    apart: int
    outer: int
    inner: int
    aligned: bool


def precision_of(pair: Any) -> str:
    """The word of table.py for dot_general's parameter: JAX's default on GPUs is TF32."""
    names = [str(getattr(p, "name", p) or "DEFAULT") for p in pair or ("DEFAULT",)]
    return "ieee" if "HIGHEST" in names else "tf32x3" if "HIGH" in names else "tf32"


def takes(target: Target | None) -> bool:
    """Whether a target's cards run the kernels: from compute capability 8 on."""
    return (target is not None and target.backend == "cuda"
            and int("".join(filter(str.isdigit, target.sm))) >= 80)


def wins(batch: int, m: int, n: int, k: int) -> bool:
    """Whether IREE's own form, a thread a number of the result, is behind a kernel."""
    tiles = batch * -(-m // 16) * -(-n // 64)
    used = batch * m * n / (tiles * 16 * 64)
    return (batch * m * n * k >= LEAST and k >= LEAST_DEPTH and m * n > 1
            and (used >= LEAST_SHARE or tiles <= FEW_TILES))


def product(ctx: Context, x: Value, y: Value, dims: Dims, out: Dtype, precision: str
            ) -> Value | None:
    """dot_general with sums in float32, as `out`; or parts of the sums in float32, along one more
    axis in front, to be added in order; None where IREE's form stays."""
    (xc, yc), (xb, yb) = dims
    reason = _left(ctx.target, x, y, out)
    if reason:
        _say(x, y, reason)
        return None
    if x.dtype != F32:
        precision = "tf32"  # (of halves it says nothing)
    xf, yf = other_axes(x.ndim, xc, xb), other_axes(y.ndim, yc, yb)
    batch, m, k = (math.prod(x.shape[i] for i in axes) for axes in (xb, xf, xc))
    n = math.prod(y.shape[i] for i in yf)
    if not wins(batch, m, n, k):
        return None
    if batch > MOST_BATCH or max(m * k, k * n, m * n) > MOST:
        _say(x, y, f"a kernel takes batches up to {MOST_BATCH} and matrices of fewer than 2**31")
        return None
    shape = shape_of_product(x, y, dims)
    if n == 1:  # a vector is the left one: rows of a tile are fewer than its columns
        x, y, m, n = y, x, n, m
        xc, yc, xb, yb, xf, yf = yc, xc, yb, xb, yf, xf
    a, b, inner = _operands(ctx, _Operand(x, xb, xf, xc), _Operand(y, yb, yc, yf))
    if precision == "tf32" and x.dtype == F32 and batch == 1 and min(m, n) >= LEAST_TURNED:
        a = _turned(ctx, a, k, m) if a.turned else a
        b = b if b.turned else _turned(ctx, b, k, n)
    return _emit(ctx, a, b, (batch, m, n, k), inner, shape, out, precision)


def _left(target: Target | None, x: Value, y: Value, out: Dtype) -> str:
    """Why a product has no kernel, whatever its sizes; nothing where it may have one."""
    if not takes(target):
        return "kernels run from compute capability 8.0 on"
    if not is_static((*x.shape, *y.shape)):
        return "its sizes are known at the call only"
    if x.dtype != y.dtype or x.dtype not in (F32, *HALVES) or out not in (F32, x.dtype):
        return "kernels are for float32, float16 and bfloat16"
    return ""


def _say(x: Value, y: Value, reason: str) -> None:
    """CALQUE_LOG=compile names what leaves the fast way; small products are not meant."""
    if "compile" in os.environ.get("CALQUE_LOG", "") and (
            not is_static((*x.shape, *y.shape)) or math.prod(x.shape) >= SMALL):
        print(f"calque: a product of {x.dtype.name}{list(x.shape)} and {list(y.shape)} is IREE's "
              f"own form on CUDA: {reason}", file=sys.stderr)


def _emit(ctx: Context, a: _Matrix, b: _Matrix, sizes: tuple[int, int, int, int], inner: int,
          shape: Shape, out: Dtype, precision: str) -> Value:
    batch, m, n, k = sizes
    dtype, size = a.array.dtype.name, a.array.dtype.itemsize
    family = table.PRODUCTS[dtype, precision]
    layout = "nt"[a.turned] + "nt"[b.turned]
    of_row = 16 // size
    aligned = a.aligned and b.aligned and not (
        n % of_row or k % of_row or a.turned and m % of_row)
    common = family.tiles if aligned else family.odd
    best, newer = table.plan(common, batch, m, n, k, size), None
    if aligned and family.hopper and layout in family.hopper_layouts:
        newer = table.plan(family.hopper, batch, m, n, k, size)
        if newer.time < best.time:
            best = table.plan(common, batch, m, n, k, size, newer.parts)
        else:
            newer = None
    parts, made = best.parts, out if best.parts == 1 else F32
    plans = [(newer, 90)] if newer else []
    plans.append((best, 80))
    variants, scratch = [], 0
    for plan, sm in plans:
        tile = plan.tile
        found = code(table.Product(dtype, made.name, precision, layout, tile, aligned, sm).name)
        grid = (-(-m // tile.rows) * -(-n // tile.columns), batch, parts)
        scratch = max(scratch, found.scratch * math.prod(grid))
        variants.append(Variant(found, grid, 9 if sm == 90 else 0))
    numbers = (m, n, k, best.span, a.apart, b.apart, inner, a.outer, a.inner, b.outer, b.inner)
    results: list[tuple[Shape, Dtype]] = [((parts, *shape) if parts > 1 else shape, made)]
    if aligned and table.has_space(family, layout):
        results.append(((max(scratch, 256),), I8))
    return launch(ctx, "product", variants, [a.array, b.array], results, numbers)[0]


def _operands(ctx: Context, x: _Operand, y: _Operand) -> tuple[_Matrix, _Matrix, int]:
    """Both operands, and how many matrices the inner axis of the batch has."""
    for _ in range(3):
        inner, strides = _batch(x, y)
        if strides is None:
            x, y = _copied(ctx, x), _copied(ctx, y)
            continue
        a, b = _matrix(x, strides[0]), _matrix(y, strides[1])
        if a is not None and b is not None and not (a.turned and b.turned):
            return a, b, inner
        x = _copied(ctx, x) if a is None else x
        y = _copied(ctx, y) if b is None or a is not None else y
    raise AssertionError("copies lie as they are multiplied")


def _strides(x: Value) -> tuple[Value, list[int]]:
    """What x is a transposition of, and in it the stride of each of x's axes."""
    source, order = transposed_source(x)
    strides, at = [0] * x.ndim, 1
    for place in range(x.ndim - 1, -1, -1):
        strides[order[place]] = at
        at *= source.shape[place]
    return source, strides


def _batch(x: _Operand, y: _Operand
           ) -> tuple[int, tuple[tuple[int, int], tuple[int, int]] | None]:
    """How many matrices the inner axis of a batch has, and (outer, inner) strides of both operands;
    None where the batch has more than two strides."""
    (_, p), (_, q) = _strides(x.array), _strides(y.array)
    joined: list[list[int]] = []  # size, stride in x, stride in y
    for i, j in zip(x.batch, y.batch):
        size = x.array.shape[i]
        if size == 1:
            continue
        if joined and (joined[-1][1], joined[-1][2]) == (size * p[i], size * q[j]):
            joined[-1] = [joined[-1][0] * size, p[i], q[j]]
        else:
            joined.append([size, p[i], q[j]])
    if len(joined) > 2:
        return 1, None
    if len(joined) < 2:
        _, s, t = joined[0] if joined else (1, 0, 0)
        return 1, ((s, 0), (t, 0))
    (_, s, t), (inner, u, v) = joined
    return inner, ((s, u), (t, v))


def _matrix(x: _Operand, strides: tuple[int, int]) -> _Matrix | None:
    """An operand as it lies; None where its rows or columns have no one stride, or neither of them
    lies in one piece."""
    source, found = _strides(x.array)
    down, along = (_joined(x.array, axes, found) for axes in (x.rows, x.columns))
    if down is None or along is None:
        return None
    m, n = (math.prod(x.array.shape[i] for i in axes) for axes in (x.rows, x.columns))
    if n == 1 or along == 1 and (m == 1 or down >= n):
        if n == 1 and m > 1 and down != 1:
            return None
        return _as_matrix(source, False, n if m == 1 or n == 1 else down, *strides)
    if m == 1 or down == 1 and along >= m:
        return None if m == 1 and along != 1 else _as_matrix(source, True, along, *strides)
    return None


def _joined(x: Value, axes: Sequence[int], strides: Sequence[int]) -> int | None:
    """The stride of several axes as one; None where they have none."""
    axes = [i for i in axes if x.shape[i] != 1]
    if any(strides[i] != strides[j] * x.shape[j] for i, j in zip(axes, axes[1:])):
        return None
    return strides[axes[-1]] if axes else 1


def _as_matrix(array: Value, turned: bool, apart: int, outer: int, inner: int) -> _Matrix:
    unit = 16 // array.dtype.itemsize
    aligned = starts_aligned(array) and not any(n % unit for n in (apart, outer, inner))
    return _Matrix(array, turned, apart, outer, inner, aligned)


def starts_aligned(x: Value) -> bool:
    """Whether an array's memory starts at a multiple of 16 bytes: a slice may be a piece of what
    it was cut from."""
    owner = x.ir.owner
    while True:
        kind = mlir.made_by(owner)
        if kind == "stablehlo.slice":
            return False
        if kind not in ("stablehlo.reshape", "stablehlo.bitcast_convert"):
            return True
        owner = owner.operands[0].owner


def _copied(ctx: Context, x: _Operand) -> _Operand:
    """An operand moved to (batch, rows, columns)."""
    groups = (x.batch, x.rows, x.columns)
    (made,) = ctx.b.barrier(ctx.b.transpose(x.array, [i for g in groups for i in g]))
    at, places = 0, []
    for g in groups:
        places.append(tuple(range(at, at + len(g))))
        at += len(g)
    return _Operand(made, *places)


def _turned(ctx: Context, x: _Matrix, rows: int, columns: int) -> _Matrix:
    """A matrix that lies as rows x columns, turned round."""
    return _as_matrix(turn(ctx, x.array, rows, columns, x.apart), not x.turned, rows, 0, 0)
