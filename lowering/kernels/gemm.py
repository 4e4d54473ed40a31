"""Matrix products by the C kernels (lowering/native/gemm.c, of integers gemm_int.c): which, and in
what pieces.

`product` sees an operand's transposition and takes it by strides, as it packs what it reads.  A
result is cut into cells, which are spread over workgroups; each has a room to pack in.  Numbers
here are benchmarks/products.py's (`--levels`, `--cells`).  Start reading at `product`.
"""
from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from calque.core.dims import is_static
from calque.core.lists import other_axes
from calque.core.program import Equation
from calque.core.types import Dtype, Shape
from calque.lowering.emit import mlir
from calque.lowering.emit.builder import Value
from calque.lowering.emit.context import Context
from calque.lowering.emit.dtypes import F32, F64, HALVES, I32, I64, WIDENED
from calque.lowering.kernels import quantized
from calque.lowering.kernels.native import emit_native, level_of, object_of
from calque.lowering.kernels.rows import turned
from calque.lowering.passes.cost import LEAST_VECTOR, has_vector_kernel
from calque.lowering.passes.vectors import LEAST_PAIRED_SIZE
from calque.lowering.plan.refusal import Refusal
from calque.lowering.plan.switches import off
from calque.lowering.target.targets import Target

SUFFIXES = {"float32": "f32", "float64": "f64", "bfloat16": "bf16", "float16": "f16",
            "int32": "i32", "int64": "i64"}
# What is multiplied two at a time, and what the processor must have for it beyond its level
PAIRED = {"bfloat16": "avx512bf16", "int8": "", "uint8": "", "int16": ""}
PAIRED_SUFFIXES = {"bfloat16": "bf16", "int8": "i8", "uint8": "u8", "int16": "i16"}
LEAST_PAIRED = 1 << 14  # products from which on it is, and rows and columns (passes/vectors)
_WIDENED = {mlir.element_name(d): d for d in WIDENED}
LEVELS = {"x86-64-v2": 16, "x86-64-v3": 32, "x86-64-v4": 64}  # where it wins: bytes of a vector
DEPTH, TALL, STEP, LINE = 256, 168, 4, 64  # gemm.c's
LEAST = 1 << 23  # products of a matrix product from which on it is the kernel's,
LEAST_FEW = 1 << 21  # of few rows by rows as they lie,
LEAST_OF_MANY = 1 << 20  # and of each of a batch
LEAST_SIZES = (32, 48, 32)  # rows (of few: 2), columns, contracted size
# With AVX-512 IREE masks what rows and columns have beyond whole tiles, and makes scalar code of
# it: 127 x 127 of float32 takes 25 times as long as the kernel, 12 x (101 x 64 x 101) 6 times.
IREE_TILE = (8, 16)  # rows, columns
LEAST_MASKED = 1 << 14  # products of a product with masks from which on it is the kernel's,
LEAST_MASKED_OF_MANY = 1 << 17  # and of each of a batch
LEAST_MASKED_SIZES = (16, 17, 8)
OPEN = (64, 1024, 1024, 1024)  # batch, rows, columns, contracted size that are planned for where
# they are known at the call only
FEW = 64  # rows up to which a row-major right operand is not packed
# Neither operand is packed while a cell's part of the right one has so many bytes: half of a second
DIRECT = 1 << 18  # level cache; for these numbers of rows, up to FEW, the second number of bytes;
DIRECT_FEW = (8, 1 << 21)
DIRECT_VECTOR, DIRECT_MANY = 32, 1 << 22  # of more rows so many, from vectors of so many bytes on;
DIRECT_APART = 1 << 11  # but not where its rows are multiples of so many bytes apart, and so in few
# sets of the cache: of more than FEW rows, or of twice as many bytes with few rows.
LEAST_DIRECT = 1 << 19  # products from which on that is the kernel's (IREE joins what follows),
LEAST_DIRECT_OF_MANY = 1 << 17  # and of each of a batch
THIN = 16  # rows and columns: fewer of a long product are one workgroup's
LEAST_DIRECT_SIZES = (8, 8)  # rows, contracted size (and columns: a panel)
WASTE = 1 << 22  # multiply-adds with columns that are not there, rather than IREE's form
# Long sums of a small result (x.T @ x of many rows) are cut in parts, which are added up behind:
LEAST_SPLIT = 3 << 19  # from so many products on,
SPLIT_RESULT, LONG = 1 << 14, 4  # of so few elements, sums so many times as long as its sides,
LEAST_PARTS, ENOUGH = 4, 16  # in so many parts at least; in no more than that of what a cache holds
CELL = 256  # rows and columns of a cell, or twice as many,
PACKED = 22  # as what a row or column of it costs to pack is that of so many products with it
WORKERS = (2, 16)  # for whom a product is cut
SMALL_CELL = 1 << 20  # products: cells are not made smaller
CELLS = 4  # at least, where they are large enough
GROUPS = 64  # workgroups at most
SHARE = 8  # groups that IREE's workers take at once where each has so many: of 25 two workers
# take 16 and 9, which is 1.2 times as slow as 32 (benchmarks/suite.py, convolution_nhwc)
ROOMS = 4 << 20  # bytes of work space of all groups from 8 on, or a part of the matrices' bytes:
ROOMS_PART = 4  # fresh pages of 7 MB cost 1024^3 6% (`--cells`), and it lies beside the results
VECTOR_GROUPS = 16
VECTOR_GROUP = 1 << 16  # bytes of a matrix that are worth a workgroup
FEW_VECTORS, FEW_TIMES = 6, 8  # vectors that a matrix is multiplied by as it is read; times as many
FEW_BYTES = 1 << 25  # rows it has at least, and bytes at most: larger ones IREE's form reads faster
# (but not of two vectors, as of complex numbers, in a program that is kernels alone)
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


def takes(target: Target | None, dtype: str) -> bool:
    """Whether products of a dtype have the kernel on a target."""
    return (dtype in SUFFIXES and level_of(target) in LEVELS
            and object_of(target, source_of(dtype)) is not None)


def source_of(dtype: str) -> str:
    """The C source of the products of a dtype."""
    return "gemm_int" if dtype in ("int32", "int64") else "gemm"


def sums_of(dtype: Dtype) -> Dtype:
    """What products of a dtype are added up in: float32 for narrower floats."""
    return dtype if dtype in (F64, I32, I64) else F32


def refusal(batch: int, m: int, n: int, k: int, row_major: bool, masked: bool = False,
            e: Equation | None = None) -> Refusal | None:
    """Why IREE's own form of a product is ahead; `masked`: that form has masks."""
    if masked:
        least = LEAST_MASKED_OF_MANY if batch > 1 else LEAST_MASKED
        if m * n * k >= least and all(map(int.__ge__, (m, n, k), LEAST_MASKED_SIZES)):
            return None
    rows, columns, depth = LEAST_SIZES
    few = row_major and m <= FEW
    least = LEAST_OF_MANY if batch > 1 else LEAST_FEW if few else LEAST
    if m * n * k < least:
        return Refusal(e, "small product", m * n * k, least)
    for size, limit in ((m, 2 if few else rows), (n, columns), (k, depth)):
        if size < limit:
            return Refusal(e, "thin product", size, limit)
    return None


def has_masks(target: Target, m: int, n: int) -> bool:
    """Whether IREE's form of a product of m rows and n columns has masks that cost."""
    return "avx512f" in target.features and bool(m % IREE_TILE[0] or n % IREE_TILE[1])


def is_ours(target: Target, m: int, n: int, k: int, dtype: str) -> bool:
    """Whether dot_general of operands of a dtype is the kernel's, as far as sizes tell."""
    part = {"complex64": "float32", "complex128": "float64"}.get(dtype, dtype)
    return takes(target, part) and refusal(1, m, n, k, False, has_masks(target, m, n)) is None


@functools.lru_cache(1 << 12)
def cells(batch: int, m: int, n: int, k: int, row_major: bool, bytes_of_vector: int,
          size: int, known: bool = True) -> Cells:
    """The plan for batch products of m x k by k x n whose sums have `size` bytes; `row_major`: b's
    rows lie in memory as they are; not `known`: there may be fewer rows, or more."""
    if row_major and m <= FEW:
        cuts = [(m, min(n, max(256, min(512, STRIP // (size * m)))))]
    else:
        cuts = [_spread(batch, m, n, k, tall, broad)
                for tall in (CELL, 2 * CELL) for broad in (CELL, 2 * CELL)]
    if not known:  # few rows are cut by columns
        cuts = [(CELL, min(n, CELL))]
    columns = 2 * bytes_of_vector // size
    few = FEW if row_major else 0
    plans = []
    for tall, broad in cuts:
        broad = min(_whole(broad, columns), _whole(n, columns))
        room = room_of(tall, broad, k, few, bytes_of_vector, size)
        if not known:
            room = max(room, room_of(FEW, broad, k, few, bytes_of_vector, size))
        count = batch * _parts(m, tall) * _parts(n, broad)
        rooms = max(ROOMS, batch * (m * k + k * n + m * n) * size // ROOMS_PART) // (room * size)
        work = max(1, batch * m * n * k // SMALL_CELL)  # as many groups as are worth it
        groups = _groups(count, min(GROUPS, work, max(8, rooms)))
        plans.append(Cells(tall, broad, few, groups, room))
    return min(plans, key=lambda plan: _cost(batch, m, n, plan))


def direct(plan: Cells, n: int, k: int, a_row: int, b_row: int, bytes_of_vector: int, size: int
           ) -> Cells | None:
    """The plan with both operands read as they lie, where that is faster than packing: numbers of
    `size` bytes, a's rows (or columns) `a_row` of them apart, b's rows `b_row`."""
    columns = 2 * bytes_of_vector // size
    broad = plan.broad
    while 0 < n % broad < columns < n:  # no cell is narrower than a panel
        broad += columns
    few, bytes_of_b = plan.tall <= FEW, k * min(n, broad) * size
    tall, apart = plan.tall, DIRECT_APART * 2 if few and bytes_of_b > DIRECT else DIRECT_APART
    if n < columns or (b_row * size % apart == 0 and (bytes_of_b > DIRECT or not few)):
        return None
    if bytes_of_b > DIRECT and few and not (
            plan.tall >= DIRECT_FEW[0] and bytes_of_b <= DIRECT_FEW[1]):
        return None
    if bytes_of_b > DIRECT and not few:
        if bytes_of_vector < DIRECT_VECTOR or bytes_of_b > DIRECT_MANY or a_row * size % apart == 0:
            return None
        tall = _part(tall, TALL)  # (a's part of a block is read again for each panel of b)
    return replace(plan, tall=tall, broad=broad, few=0, room=0)


def split_of(batch: int, m: int, n: int, k: int, bytes_of_vector: int, size: int) -> int:
    """Into how many parts the sums of a product are cut; 1: they stay whole.  What a part reads of
    b stays in a core's cache, and is more than what it writes; of less than a panel of columns a
    part is one block (gemm_tile.h: less_than_a_panel)."""
    if batch * m * n * k < LEAST_SPLIT or m * n > SPLIT_RESULT or k < LONG * max(m, n):
        return 1
    if n < 2 * bytes_of_vector // size:
        most = DEPTH
    else:
        most = min(DIRECT // (n * size), max(DEPTH, batch * k // ENOUGH))
    split = _parts(k, max(DEPTH, most))
    return split if split >= LEAST_PARTS and k // split * (m + n) >= 2 * m * n else 1


def expected(sizes: Sequence[Any]) -> tuple[int, int, int, int]:
    """Batch, rows, columns and contracted size to plan for."""
    batch, m, n, k = (size if is_static((size,)) else OPEN[i] for i, size in enumerate(sizes))
    return batch, m, n, k


def _spread(batch: int, m: int, n: int, k: int, tall: int, broad: int) -> tuple[int, int]:
    """Rows and columns of cells of tall x broad at most: smaller where there are few cells."""
    tall, broad = _part(m, tall), _part(n, broad)
    while (batch * _parts(m, tall) * _parts(n, broad) < CELLS
           and tall * broad * k >= 2 * SMALL_CELL):
        if tall > broad:
            tall = _part(m, tall // 2)
        else:
            broad = _part(n, broad // 2)
    return tall, broad


def _groups(count: int, most: int) -> int:
    """How many groups take `count` cells: up to `most`, with equal parts."""
    groups = _parts(count, _parts(count, most))
    uneven = min(groups % (2 * SHARE), -groups % (2 * SHARE))  # between two workers
    if groups >= 2 * SHARE and uneven * SHARE > groups:
        groups = 1 << int(math.log2(min(count, most)))
    return groups


def _cost(batch: int, m: int, n: int, plan: Cells) -> float:
    """What a plan costs two workers and sixteen: the largest part that one of them gets."""
    count = batch * _parts(m, plan.tall) * _parts(n, plan.broad)
    cell = plan.tall * plan.broad * (1 + PACKED / plan.tall + PACKED / plan.broad)
    return cell * sum(workers * max(_parts(plan.groups, workers) * count / plan.groups,
                                    _parts(count, plan.groups)) for workers in WORKERS)


def room_of(tall: int, broad: int, k: int, few: int, bytes_of_vector: int, size: int) -> int:
    """Numbers of work space for a cell: blocks of both operands, packed; or sums of few rows."""
    columns = 2 * bytes_of_vector // size
    depth = _whole(_part(k, DEPTH), STEP)
    panels = _parts(broad, columns) * (depth * columns + LINE // size)
    sums = tall * broad + _whole(min(k, DEPTH), STEP) * tall if tall <= few else 0
    return _whole(max(depth * min(tall, TALL) + panels, sums), LINE // size)


def _parts(n: int, most: int) -> int:
    return -(-n // most)


def _part(n: int, most: int) -> int:
    """The largest of the nearly equal parts of n, none above `most`."""
    return _parts(n, _parts(n, most))


def _whole(n: int, unit: int) -> int:
    return _parts(n, unit) * unit


def shape_of_product(x: Value, y: Value, dims: Dims) -> Shape:
    """Batch, rows of x, columns of y."""
    (xc, yc), (xb, yb) = dims
    return (*[x.shape[i] for i in (*xb, *other_axes(x.ndim, xc, xb))],
            *[y.shape[i] for i in other_axes(y.ndim, yc, yb)])


def vector_product(ctx: Context, x: Value, y: Value, dims: Dims, sums: Dtype) -> Value | None:
    """dot_general where one operand is a vector, or a row or a column, of each batch: the other is
    read once, as it lies; None where it is small, or neither rows nor columns lie in memory."""
    (xc, yc), (xb, yb) = dims
    xf, yf = other_axes(x.ndim, xc, xb), other_axes(y.ndim, yc, yb)
    m, n = math.prod(x.shape[i] for i in xf), math.prod(y.shape[i] for i in yf)
    if 1 not in (m, n):
        return None
    shape = shape_of_product(x, y, dims)
    if n != 1:
        x, y, (xb, yb), (xc, yc), xf, m = y, x, (yb, xb), (yc, xc), yf, n
    batch, k = (math.prod(x.shape[i] for i in axes) for axes in (xb, xc))
    if not has_vector_kernel(m, k):
        return None
    a, strides = _operand(ctx, narrow_source(x), (xb, xf, xc))
    a = narrow_source(a)
    if 1 not in strides[1:]:
        return None
    if y.dtype != sums:
        y = ctx.b.convert(y, sums)
    v, (v_batch, v_step, _) = _operand(ctx, y, (yb, yc, other_axes(y.ndim, yc, yb)))
    if v_step != 1:
        v, v_batch = turned(ctx, y, [*yb, *yc, *other_axes(y.ndim, yc, yb)]), k
    part = LINE if strides[2] == 1 else 4 * LINE  # of a group's sums; or of what it reads of a row
    groups = max(1, min(VECTOR_GROUPS, batch * m * k * a.dtype.itemsize // VECTOR_GROUP,
                        batch * max(1, m * sums.itemsize // part)))
    scalars = (batch, m, k, *strides, v_batch)
    suffix = SUFFIXES.get(a.dtype.name, "i8")
    return emit_native(ctx, source_of(sums.name), f"calque_gemv_{suffix}", [a, v],
                       [(shape, sums)], scalars, groups)[0]


def few_product(ctx: Context, x: Value, y: Value, dims: Dims, sums: Dtype) -> Value | None:
    """dot_general where one operand has a few rows or columns, and the other, which is read once,
    rows along the contracted axis; None of others."""
    (xc, yc), (xb, yb) = dims
    if x.dtype != sums:
        return None
    sides = [(x, (xb, other_axes(x.ndim, xc, xb), xc)), (y, (yb, other_axes(y.ndim, yc, yb), yc))]
    batch, rows, k = (math.prod(x.shape[i] for i in axes) for axes in sides[0][1])
    columns = math.prod(y.shape[i] for i in sides[1][1][1])
    m, n = min(rows, columns), max(rows, columns)
    if not 2 <= m <= FEW_VECTORS or n < FEW_TIMES * m or not has_vector_kernel(n, k) or (
            n * k * sums.itemsize > FEW_BYTES and not (ctx.closing and m == 2)):
        return None
    (matrix, of_matrix), (few, of_few) = sides if rows == n else reversed(sides)
    a, (a_batch, a_row, a_column) = _operand(ctx, matrix, of_matrix)
    if a_column != 1:
        return None
    v, (v_batch, v_row, v_column) = _operand(ctx, few, of_few)
    if v_column != 1:
        v, v_batch, v_row = turned(ctx, few, [i for axes in of_few for i in axes]), m * k, k
    size = sums.itemsize
    groups = max(1, min(GROUPS, batch * n * k * size // VECTOR_GROUP, batch * n // LINE))
    scalars = (batch, n, m, k, a_batch, a_row, v_batch, v_row, *((m, 1) if rows == n else (1, n)))
    return emit_native(ctx, source_of(sums.name), f"calque_few_{SUFFIXES[x.dtype.name]}", [a, v],
                       [(shape_of_product(x, y, dims), sums)], scalars, groups)[0]


def narrow_product(ctx: Context, x: Value, y: Value, dims: Dims) -> Value | None:
    """dot_general of float32 with a matrix that is a conversion of halves, whose rows lie along the
    contracted axis: they are widened as they are read; None of others."""
    (xc, yc), (xb, _) = dims
    if x.dtype != F32 or xb or y.ndim != 2 or tuple(xc) != (x.ndim - 1,):
        return None
    source, places = transposed_source(narrow_source(y))
    source = narrow_source(source)
    if source.dtype not in HALVES or places[1] != yc[0] or (
            x.shape[-1] % quantized.GROUP or math.prod(source.shape) < LEAST_VECTOR):
        return None
    return quantized.product(ctx, x, source, SUFFIXES[source.dtype.name],
                             shape_of_product(x, y, dims))


def pair_product(ctx: Context, x: Value, y: Value, dims: Dims) -> Value | None:
    """dot_general of operands of 8 or 16 bits, two products at a time (native/gemm_pairs.inc.h),
    with sums of 32 bits; None where that is not ahead, or there is no instruction for it."""
    (xc, yc), (xb, yb), target = *dims, ctx.target
    needed = PAIRED.get(x.dtype.name)
    if needed is None or x.dtype != y.dtype or target is None or off("products") or (
            target.arch != "x86_64" or not takes(target, "int32" if not needed else "float32")
            or needed not in ("", *target.features)):
        return None
    xf, yf = other_axes(x.ndim, xc, xb), other_axes(y.ndim, yc, yb)
    batch, m, k = (math.prod(x.shape[i] for i in axes) for axes in (xb, xf, xc))
    n = math.prod(y.shape[i] for i in yf)
    if not is_static((batch, m, n, k)) or m * n * k < LEAST_PAIRED or min(m, n) < LEAST_PAIRED_SIZE:
        return None
    a, of_a = _operand(ctx, x, (xb, xf, xc))
    b, of_b = _operand(ctx, y, (yb, yc, yf))
    sums = F32 if needed else I32
    plan = cells(batch, m, n, _parts(k, 2), False, LEVELS[level_of(target)], sums.itemsize)
    return emit_native(
        ctx, "gemm" if needed else "gemm_int", f"calque_pairs_{PAIRED_SUFFIXES[x.dtype.name]}",
        [a, b], [(shape_of_product(x, y, dims), sums), ((plan.groups * plan.room,), sums)],
        (batch, m, n, k, *of_a, *of_b, plan.tall, plan.broad, plan.room), plan.groups)[0]


def product(ctx: Context, x: Value, y: Value, dims: Dims, dtype: Dtype) -> Value | None:
    """dot_general of operands of one dtype, with sums of `dtype`; None where IREE's form stays."""
    (xc, yc), (xb, yb), target = *dims, ctx.target
    sums, e, source = sums_of(x.dtype), ctx.equation, source_of(x.dtype.name)
    if target is None or target.backend != "llvm-cpu":
        return None
    if x.dtype != y.dtype or dtype != sums or not takes(target, x.dtype.name):
        ctx.plan.refuse(Refusal(e, "no kernel in C" if object_of(target, source) is None else
                                "product of types"))
        return None
    xf, yf = other_axes(x.ndim, xc, xb), other_axes(y.ndim, yc, yb)
    batch, m, k = (math.prod(x.shape[i] for i in axes) for axes in (xb, xf, xc))
    n = math.prod(y.shape[i] for i in yf)
    sizes = (batch, m, n, k)
    known = is_static(sizes)
    made = vector_product(ctx, x, y, dims, sums) if known and not off("vectors") else None
    if made is None and known and not off("vectors"):
        made = few_product(ctx, x, y, dims, sums)
    if made is None and known and not off("halves"):
        made = narrow_product(ctx, x, y, dims)
    if made is None:
        made = pair_product(ctx, x, y, dims)
    if made is not None:
        return made
    vector, size = LEVELS[level_of(target)], sums.itemsize
    split = split_of(*sizes, vector, size) if known and not off("products") else 1
    if split > 1:
        return _in_parts(ctx, x, y, dims, sums, sizes, split)
    count, rows, columns, depth = expected(sizes)
    b, (b_batch, b_row, b_column) = _operand(ctx, y, (yb, yc, yf))
    a, of_a = _operand(ctx, x, (xb, xf, xc))
    (a_batch, a_row, a_column), as_is = of_a, None
    if known and x.dtype == sums and not off("direct"):
        if b_column == 1 and m * n * k >= LEAST_MASKED:
            as_is = direct(cells(*sizes, True, vector, size), n, k, max(of_a[1:]), b_row, vector,
                           size)
        if as_is is None and ctx.closing and m * n * k < LEAST_DIRECT:
            as_is = replace(cells(*sizes, True, vector, size), few=0, room=0)
    least = LEAST_DIRECT_OF_MANY if count > 1 else LEAST_DIRECT
    lies_well = as_is is not None and m * n * k >= least and all(
        map(int.__ge__, (m, k), LEAST_DIRECT_SIZES))
    slack = ctx.slack if known and min(m, n) >= THIN else ctx.slack // 8
    closes = ctx.closing and known and m * n * k < max(LEAST_DIRECT, slack) and (
        m * k * (-n % (2 * vector // size)) < WASTE)
    why = Refusal(e, "switched off") if off("products") else None if lies_well or closes else (
        refusal(count, rows if is_static((m,)) else FEW, columns, depth, b_column == 1,
                known and has_masks(target, m, n), e))
    if why is not None:
        ctx.plan.refuse(why)
        return None
    shape = shape_of_product(x, y, dims)
    if as_is is not None and 1 in (a_row, a_column):
        return emit_native(
            ctx, source, f"calque_direct_{SUFFIXES[x.dtype.name]}", [a, b], [(shape, sums)],
            (batch, m, n, k, 1, a_batch, a_row, a_column, b_batch, b_row, b_column, as_is.tall,
             as_is.broad), as_is.groups)[0]
    plan = cells(count, rows, columns, depth, b_column == 1, vector, size, is_static((m,)))
    scalars = (batch, m, n, k, 1, a_batch, a_row, a_column, b_batch, b_row, b_column, plan.tall,
               plan.broad, plan.few, plan.room)
    results = [(shape, sums), ((plan.groups * plan.room,), sums)]
    made, _ = emit_native(ctx, source, f"calque_gemm_{SUFFIXES[x.dtype.name]}", [a, b], results,
                          scalars, plan.groups)
    return made


def _in_parts(ctx: Context, x: Value, y: Value, dims: Dims, sums: Dtype, sizes: Sequence[int],
              split: int) -> Value:
    """A product whose sums are cut, in parts that do not depend on who computes them: results are
    the same every time."""
    (xc, yc), (xb, yb) = dims
    batch, m, n, k = sizes
    a, of_a = _operand(ctx, x, (xb, other_axes(x.ndim, xc, xb), xc))
    b, of_b = _operand(ctx, y, (yb, yc, other_axes(y.ndim, yc, yb)))
    vector, size, each = LEVELS[level_of(ctx.target)], sums.itemsize, _parts(k, split)
    plan = cells(batch * split, m, n, each, of_b[2] == 1, vector, size)
    as_is = None
    if x.dtype == sums and 1 in of_a[1:] and of_b[2] == 1:
        as_is = replace(plan, few=0, room=0) if n < 2 * vector // size else direct(
            plan, n, each, max(of_a[1:]), of_b[1], vector, size)
    plan = plan if as_is is None else as_is
    scalars = (batch, m, n, k, split, *of_a, *of_b, plan.tall, plan.broad)
    name, result = SUFFIXES[x.dtype.name], ((batch, split, m, n), sums)
    source = source_of(x.dtype.name)
    if as_is is not None:
        (made,) = emit_native(ctx, source, f"calque_direct_{name}", [a, b], [result], scalars,
                              plan.groups)
    else:
        made, _ = emit_native(ctx, source, f"calque_gemm_{name}", [a, b], [
            result, ((plan.groups * plan.room,), sums)], (*scalars, plan.few, plan.room),
            plan.groups)
    groups = max(1, min(VECTOR_GROUPS, batch * split * m * n * size // VECTOR_GROUP))
    return emit_native(ctx, source, f"calque_add_{SUFFIXES[sums.name]}", [made],
                       [(shape_of_product(x, y, dims), sums)], (batch, m * n, split), groups)[0]


def _operand(ctx: Context, x: Value, groups: Sequence[Sequence[int]]
             ) -> tuple[Value, tuple[int, ...]]:
    """x, or what it is a transposition of, and the strides of three groups of its axes; a copy
    where the axes of a group do not lie side by side."""
    source, order = transposed_source(x)
    strides = [1] * x.ndim
    for i in range(x.ndim - 2, -1, -1):
        strides[i] = strides[i + 1] * source.shape[i + 1]
    where = {axis: strides[place] for place, axis in enumerate(order)}  # of x's axes
    found = []
    for axes in groups:
        axes = [i for i in axes if x.shape[i] != 1]
        if any(where[i] != where[j] * x.shape[j] for i, j in zip(axes, axes[1:])):
            moved = turned(ctx, x, [i for g in groups for i in g])
            sizes = [math.prod(x.shape[i] for i in g) for g in groups]
            return moved, (sizes[1] * sizes[2], sizes[2], 1)
        found.append(where[axes[-1]] if axes else 1)
    return source, tuple(found)


def narrow_source(x: Value) -> Value:
    """What x is a conversion of, where a matrix of that type is widened as it is read; else x."""
    owner = x.ir.owner
    if mlir.made_by(owner) != "stablehlo.convert" or x.dtype != F32:
        return x
    source = owner.operands[0]
    dtype = _WIDENED.get(str(source.type.element_type))
    return x if dtype is None else Value(x.b, source, x.shape, dtype)


def transposed_source(x: Value) -> tuple[Value, list[int]]:
    """What x is a transposition of, and x's axis at each place of it."""
    owner, axes = x.ir.owner, list(range(x.ndim))
    if mlir.made_by(owner) != "stablehlo.transpose":
        return x, axes
    permutation = list(owner.attributes["permutation"])
    shape = [0] * len(axes)
    for i, place in enumerate(permutation):
        shape[place] = x.shape[i]
    source, places = transposed_source(Value(x.b, owner.operands[0], tuple(shape), x.dtype))
    return source, [permutation.index(place) for place in places]
