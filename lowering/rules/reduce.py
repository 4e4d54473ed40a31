"""Reductions.  Long sums are taken in two stages: IREE sums in one chain, which loses digits
(2e-3 off at 5M elements of f32), and pairs of stages cost nothing.
"""
from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from calque.core.dims import Dim, floordiv, is_static
from calque.core.dtypes import extreme, real_dtype
from calque.core.lists import without
from calque.core.types import Dtype
from calque.lowering.emit import mlir
from calque.lowering.emit.builder import Builder, Value, int_array
from calque.lowering.emit.context import Context
from calque.lowering.emit.dtypes import BOOL, F16, F32, I8, I32, I64, is_narrow
from calque.lowering.emit.folding import computes_positions, guarded
from calque.lowering.emit.registry import Op, rule
from calque.lowering.math.convert import convert
from calque.lowering.math.region import BodyBuilder, elementwise

Body = Callable[[Builder, list[Value]], list[Value]]
BLOCK = 1024  # reductions longer than this are split


def emit_reduce(b: Builder, xs: Sequence[Value], inits: Sequence[Any], axes: Sequence[int],
                body: Body) -> list[Value]:
    """stablehlo.reduce of several operands with a body on scalars (accumulators, elements)."""
    if len(xs) == 1:  # (of several operands at once IREE makes no vectors)
        xs = [guarded(xs[0])]
        if b.relaxed and computes_positions(xs[0]):  # IREE would keep vectors of indices in shared
            xs = b.barrier(*xs)  # memory, which SPIR-V has not (tests/lowering/test_spirv_forms.py)
    kept = without(xs[0].shape, axes)
    starts = [b.splat(v, (), x.dtype) for v, x in zip(inits, xs)]
    op = b.op("stablehlo.reduce", [*xs, *starts], [(kept, x.dtype) for x in xs],
              {"dimensions": int_array(axes)}, regions=1)
    types = [mlir.tensor_type((), x.dtype) for x in xs] * 2
    mlir.fill_region(op.regions[0], types, "stablehlo.return", lambda *raw: [
        v.ir for v in body(b, [Value(b, a, (), x.dtype) for a, x in zip(raw, [*xs, *xs])])])
    return b.materialize(*[Value(b, r, kept, x.dtype) for r, x in zip(op.results, xs)])


def fold(name: str) -> Body:
    return lambda b, args: [b.binary(name, args[0], args[1])]


@functools.cache
def _block(n: int, lanes: int) -> int:
    """A divisor of n near its square root, at most 1024; vectors fill it where they can."""
    target = min(512, max(32, int(n ** 0.5)))
    fits = [d for d in range(2, min(n, 1025)) if n % d == 0]
    whole = [d for d in fits if d % lanes == 0 and d >= target // 2]
    return min(whole or fits, key=lambda d: abs(d - target), default=1)


def _adjacent(axes: Sequence[int]) -> bool:
    return list(axes) == list(range(axes[0], axes[0] + len(axes)))


def _lanes(dtype: Dtype) -> int:
    return max(1, 64 // dtype.itemsize)


def _streams(shape: Sequence[int], axes: Sequence[int]) -> int:
    """How many contiguous parts of a large array to lay over each other before the rest of leading
    axes is reduced: 16 parallel streams are read at the memory's pace (4096 x 4096 along axis 0:
    8.2 to 3.3 ms), rows one after another are not.  1 when it does not pay."""
    if not axes or not _adjacent(axes) or math.prod(shape[:axes[0]]) != 1:
        return 1
    if math.prod(shape[axes[-1] + 1:]) < 8 or math.prod(shape) < 1 << 18:
        return 1
    count = math.prod(shape[a] for a in axes)
    fits = [k for k in (16, 15, 20, 12, 10, 24, 25, 8, 9, 32, 18, 14, 11, 13) if count % k == 0]
    return fits[0] if fits and count >= 256 else 1


def _part(shape: Sequence[int], axes: Sequence[int], lanes: int) -> int:
    """Of rows whose length vectors do not divide: the largest part of a vector that does.  Rows of
    1000 are reduced as 125 of 8, then 8 (1000 x 1000 f32: 0.35 to 0.10 ms).  1: it does not pay."""
    if list(axes) != [len(shape) - 1] or math.prod(shape) < 1 << 16:
        return 1
    n = shape[-1]
    fits = [v for v in (lanes, lanes // 2, lanes // 4) if v > 2 and n % v == 0]
    return fits[0] if fits and fits[0] < lanes and 4 * lanes <= n <= BLOCK * fits[0] else 1


def _cuts(shape: Sequence[int], axes: Sequence[int], lanes: int) -> list[int]:
    """Where to cut rows that parts of vectors do not divide either: what is left over is short
    (1000 x 999 f32: 0.35 to 0.10 ms).  Nothing when it does not pay."""
    if list(axes) != [len(shape) - 1] or math.prod(shape) < 1 << 16:
        return []
    n = shape[-1]
    if n % max(4, lanes // 4) == 0 or n < 4 * lanes:  # (_part, _block)
        return []
    if n == math.prod(shape):
        return [n // 512 * 512] if n > 4096 else []
    return [*range(BLOCK, n, BLOCK), n // lanes * lanes] if n <= 16 * BLOCK else []


def _cut(b: Builder, x: Value, axes: Sequence[int]) -> list[Value]:
    if not is_static(x.shape):
        return [x]
    ends = [*_cuts(x.shape, axes, _lanes(x.dtype)), x.shape[-1] if x.shape else 0]
    if len(ends) == 1:
        return [x]
    return [b.slice_in_dim(x, start, end, x.ndim - 1) for start, end in zip([0, *ends], ends)]


def _staged(b: Builder, x: Value, axes: list[int], start: Any,
            body: Body) -> tuple[Value, list[int]]:
    """The first stages of a reduction that is slow in one; what is left and the axes to reduce."""
    if not is_static(x.shape):
        return x, axes
    parts = _streams(x.shape, axes)
    if parts > 1:
        count = math.prod(x.shape[a] for a in axes)
        x = b.reshape(x, (parts, count // parts, *x.shape[axes[-1] + 1:]))
        return emit_reduce(b, [x], [start], [0], body)[0], [0]
    v = _part(x.shape, axes, _lanes(x.dtype))
    if v > 1:
        x = b.reshape(x, (*x.shape[:-1], x.shape[-1] // v, v))
        x = emit_reduce(b, [x], [start], [x.ndim - 2], body)[0]
    return x, axes


def on_cuda(ctx: Context) -> bool:
    return ctx.target is not None and ctx.target.backend == "cuda"


def _by_blocks(b: Builder, x: Value, axes: list[int], start: Any, body: Body) -> Value:
    """A reduction on CUDA: a block of threads a row, a thread a column, in stages where these are
    too few for the card, or one would sum too many (compiler/gpu_configuration.py cuts rows)."""
    if not axes or 0 in x.shape:
        return emit_reduce(b, [x], [start], axes, body)[0]
    if x.dtype.kind in "iu" and x.dtype.itemsize == 8:
        (x,) = b.barrier(x)  # widened on the way, "failed to distribute"
    first = axes[-1]  # what is last and side by side with it
    while first - 1 in axes:
        first -= 1
    group = [a for a in axes if a >= first]
    count = math.prod(x.shape[first:axes[-1] + 1])
    lead, after = math.prod(x.shape[:first]), math.prod(x.shape[axes[-1] + 1:])
    part = _row_part(lead, count) if after == 1 else _column_part(lead, count, after)
    if part == count:
        (x,) = emit_reduce(b, [x], [start], group, body)
    elif count % part:  # after == 1: whole parts, and what is left
        flat = b.reshape(x, (*x.shape[:first], count))
        whole = count // part * part
        found = [_by_blocks(b, b.slice_in_dim(flat, i, j, first), [first], start, body)
                 for i, j in ((0, whole), (whole, count))]
        x = body(b, found)[0]
    else:
        x = b.reshape(x, (*x.shape[:first], count // part, part, *x.shape[axes[-1] + 1:]))
        (x,) = emit_reduce(b, [x], [start], [first + 1], body)
        return _by_blocks(b, x, [*[a for a in axes if a < first], first], start, body)
    return _by_blocks(b, x, [a for a in axes if a < first], start, body)


_ROW, _ROWS, _CHAIN, _THREADS = 4096, 1024, 1024, 1 << 16


def _row_part(rows: int, n: int) -> int:
    """Into what parts rows of n numbers are cut: n itself, or about 4096."""
    if n <= 2 * _ROW or rows >= _ROWS and n <= 16 * _ROW:
        return n
    fits = [d for d in range(_ROW // 4, 2 * _ROW + 1, 4) if n % d == 0]
    fits = [d for d in fits if d % 128 == 0] or fits
    return min(fits, key=lambda d: abs(d - _ROW), default=_ROW)


def _column_part(lead: int, n: int, columns: int) -> int:
    """How many numbers of a column a thread sums: fewer where there are few columns, a divisor."""
    threads = lead * columns / 4
    wanted = max(n / _CHAIN, min(n / 16, _THREADS / threads))
    if wanted <= 1.5:
        return n
    fits = [d for d in range(2, min(n, 4096) + 1) if n % d == 0]  # (numbers of parts)
    return n // min(fits, key=lambda d: abs(math.log(d / wanted)), default=1)


def emit_sum(ctx: Context, x: Value, axes: Sequence[int], name: str = "add",
             identity: Any = 0) -> Value:
    """Sum (or another fold) over axes: in blocks when long, in f32 for half precision."""
    if x.dtype.kind == "c":
        return _complex_sum(ctx, x, sorted(axes), name)
    if is_narrow(x.dtype):
        return convert(ctx.b, emit_sum(ctx, convert(ctx.b, x, F32), axes, name, identity), x.dtype)
    if not is_static(x.shape):
        return _sum_of_any(ctx.b, x, sorted(axes), name, identity)
    x, last = _no_contraction(ctx, x), x.ndim - 1
    if len(axes) > 1 and last in axes and x.shape[-1] >= 256 and hasattr(x.ir.owner, "name"):
        # what is computed is summed on the way where the axes stay apart: taken as one, it would be
        # written to memory first (sum(a * a), 1000 x 1000: 0.21 to 0.11 ms)
        x = emit_sum(ctx, x, [last], name, identity)
        return emit_sum(ctx, x, [a for a in axes if a != last], name, identity)
    kept = without(x.shape, axes)
    if on_cuda(ctx):
        if name == "add" and mlir.made_by(x.ir.owner) == "stablehlo.negate":
            # (IREE sums by blocks what it adds, and of this it would make a subtraction)
            x = Value(ctx.b, x.ir.owner.operands[0], x.shape, x.dtype)
            made = emit_sum(ctx, x, axes)
            return ctx.b.like(made, 0) - made  # (0, where a negation would give -0)
        return ctx.b.reshape(_by_blocks(ctx.b, x, sorted(axes), identity, fold(name)), kept)
    found = [_sum_stages(ctx.b, part, sorted(axes), identity, fold(name))
             for part in _cut(ctx.b, x, axes)]
    return functools.reduce(lambda x, y: ctx.b.binary(name, x, y),
                            [ctx.b.reshape(f, kept) for f in found])


def _sum_of_any(b: Builder, x: Value, axes: list[int], name: str, identity: Any) -> Value:
    """The same where sizes are known at the call only: axis by axis from the last one, long ones by
    blocks and what is left over (1000 x 1000 f32: 0.86 to 0.23 ms; error of 5e6: 2e-5 to 1e-6)."""
    def one(v: Value, axis: int) -> Value:
        return emit_reduce(b, [v], [identity], [axis], fold(name))[0]

    while len(axes) > 1:
        x = one(x, axes.pop())
    if not axes:
        return x
    (axis,) = axes
    n = x.shape[axis]
    if x.dtype.kind != "f" or not isinstance(n, Dim):
        return one(x, axis)
    lead, rest = x.shape[:axis], x.shape[axis + 1:]
    whole = floordiv(n, BLOCK)
    if isinstance(whole, int) and whole == 0:  # a constraint says that there is no whole block
        return one(x, axis)
    blocks = b.slice_in_dim(x, 0, whole * BLOCK, axis)
    sums = one(b.reshape(blocks, (*lead, whole, BLOCK, *rest)), axis + 1)
    return b.binary(name, one(sums, axis), one(b.slice_in_dim(x, whole * BLOCK, n, axis), axis))


def _sum_stages(b: Builder, x: Value, axes: list[int], identity: Any, body: Body) -> Value:
    staged, rest = _staged(b, x, axes, identity, body)
    if staged is not x:
        return _sum_stages(b, staged, rest, identity, body)
    count = math.prod(x.shape[a] for a in axes)
    block = _block(count, _lanes(x.dtype)) if count > BLOCK and _adjacent(axes) else 1
    if block > 1 and x.dtype.kind == "f":
        first, after = axes[0], x.shape[axes[-1] + 1:]
        x = b.reshape(x, (*x.shape[:first], count // block, block, *after))
        x, blocks = _staged(b, x, [first + 1], identity, body)
        (x,) = emit_reduce(b, [x], [identity], blocks, body)
        return _sum_stages(b, x, [first], identity, body)  # they may be many themselves
    while len(axes) > 1 and _is_product(x):
        (x,) = emit_reduce(b, [x], [identity], [axes.pop()], body)
    return emit_reduce(b, [x], [identity], axes, body)[0]


def _no_contraction(ctx: Context, x: Value) -> Value:
    """Sums of products of whole arrays are bound by memory, but IREE tiles them as contractions
    (sum(a * b, 1), 1000 x 1000: 0.39 to 0.14 ms): copysign(p, p), which is p, hides the product
    from it and costs nothing."""
    op = x.ir.owner
    if mlir.made_by(op) != "stablehlo.multiply" or x.dtype.kind != "f" or not ctx.cpu:
        return x
    if any(mlir.made_by(o.owner) == "stablehlo.broadcast_in_dim" for o in op.operands):
        return x

    def product(b: Builder, p: Value, q: Value) -> Value:
        made = p * q
        if not isinstance(b, BodyBuilder):
            return made  # (for export)
        return b._make("math.copysign", [made, made], x.dtype)

    operands = [Value(ctx.b, o, x.shape, x.dtype) for o in op.operands]
    return elementwise(ctx.b, product, operands, [x.dtype])[0]


def _is_product(x: Value) -> bool:
    """Sums over two axes of products with a spread operand become vector.contract operations that
    IREE rejects ("invalid accumulator/result vector shape"): those are taken axis by axis."""
    owner = x.ir.owner
    return mlir.made_by(owner) in ("stablehlo.multiply", "stablehlo.and")


def _parts(ctx: Context, x: Value) -> tuple[Value, Value]:
    """Real and imaginary parts: on GPUs in memory, for IREE's compiler dies where a block of
    threads takes rows of complex numbers apart (tests/lowering/test_cuda_machine.py)."""
    re, im = _apart(ctx, ctx.b.real(x), ctx.b.imag(x))
    return re, im


def _apart(ctx: Context, *xs: Value) -> list[Value]:
    return list(xs) if ctx.cpu else ctx.b.barrier(*xs)


def _complex_sum(ctx: Context, x: Value, axes: Sequence[int], name: str) -> Value:
    """In two real parts: a product of two or three complex numbers fused with a division came out
    wrong from IREE."""
    b = ctx.b
    re, im = _parts(ctx, x)
    if name == "add":
        return b.complex(emit_sum(ctx, re, axes), emit_sum(ctx, im, axes))
    assert name == "multiply", name

    def body(b: Builder, v: list[Value]) -> list[Value]:
        (r0, i0), (r1, i1) = v[:2], v[2:]
        return [r0 * r1 - i0 * i1, r0 * i1 + i0 * r1]

    return b.complex(*_apart(ctx, *emit_reduce(b, [re, im], [1, 0], axes, body)))


@rule("reduce_sum")
def _sum(op: Op) -> Value:
    return emit_sum(op.ctx, op.x, op["axes"])


@rule("reduce_prod")
def _prod(op: Op) -> Value:
    return emit_sum(op.ctx, op.x, op["axes"], "multiply", 1)


def _extremum(name: str, direction: str, largest: bool) -> None:
    @rule(f"reduce_{name}")
    def emit(op: Op) -> Value:
        x = op.x
        if x.dtype.kind == "c":
            return _complex_extremum(op.ctx, x, op["axes"], direction, largest)
        if x.dtype == BOOL:
            return _truth(op.ctx, x, op["axes"], name)
        if x.dtype.kind == "i" and not op.ctx.cpu:
            return _extremum_of_signed(op.ctx, x, op["axes"], f"{name}imum")
        if x.dtype == F16 and op.ctx.cpu:  # element by element otherwise (1M: 1.3 ms to 0.1)
            x = x.astype(F32)
        init, body = extreme(x.dtype, largest), fold(f"{name}imum")
        if on_cuda(op.ctx) and is_static(x.shape):
            out = op.b.reshape(_by_blocks(op.b, x, sorted(op["axes"]), init, body), op.out.shape)
            return convert(op.b, out, op.out.dtype)
        found = []
        for part in _cut(op.b, x, op["axes"]):
            part, axes = _staged(op.b, part, sorted(op["axes"]), init, body)
            (out,) = emit_reduce(op.b, [part], [init], axes, body)
            found.append(op.b.reshape(out, op.out.shape))
        return convert(op.b, functools.reduce(lambda p, q: body(op.b, [p, q])[0], found),
                       op.out.dtype)


def _truth(ctx: Context, x: Value, axes: Sequence[int], name: str) -> Value:
    """Any (max) or all (min) of bools, as bytes: IREE folds bits singly (1e6: 0.9 to 0.1 ms)."""
    if not ctx.cpu:
        return _extremum_of_signed(ctx, x.astype(I8), axes, f"{name}imum").ne(0)
    found = emit_reduce(ctx.b, [x.astype(I8)], [int(name == "min")], axes,
                        fold(f"{name}imum"))[0]
    return found.ne(0)


def _extremum_of_signed(ctx: Context, x: Value, axes: Sequence[int], name: str) -> Value:
    """The largest or smallest of signed integers on a GPU, by unsigned ones in the same order:
    where blocks of threads take rows, IREE starts maxima of signed integers from 0 and minima from
    -1 (tests/lowering/test_cuda_machine.py)."""
    b, unsigned = ctx.b, np.dtype(f"u{x.dtype.name}")
    top = np.array(1 << (8 * x.dtype.itemsize - 1), unsigned)
    y = x.view(unsigned)
    y = y ^ b.like(y, top)
    init, body = extreme(unsigned, name == "minimum"), fold(name)
    if on_cuda(ctx) and is_static(x.shape):
        y = b.reshape(_by_blocks(b, y, sorted(axes), init, body), without(x.shape, axes))
    else:
        (y,) = emit_reduce(b, [y], [init], axes, body)
    return (y ^ b.like(y, top)).view(x.dtype)


_extremum("max", "GT", False)
_extremum("min", "LT", True)


def _complex_extremum(ctx: Context, x: Value, axes: Sequence[int], direction: str,
                      largest: bool) -> Value:
    """Lexicographic by real part, then imaginary; NaN wins."""
    b = ctx.b
    bound = extreme(real_dtype(x.dtype), largest)

    def body(b: Builder, a: list[Value]) -> list[Value]:
        (r0, i0), (r1, i1) = a[:2], a[2:]
        take = b.compare(direction, r0, r1) | (r0.eq(r1) & b.compare(direction, i0, i1))
        nan0, nan1 = b.isnan(r0) | b.isnan(i0), b.isnan(r1) | b.isnan(i1)
        take = nan0 | (take & ~nan1)
        return [b.select(take, r0, r1), b.select(take, i0, i1)]

    below = 0.0 if any(x.shape[a] == 0 for a in axes) else bound  # of nothing: -inf + 0j
    re, im = _apart(ctx, *emit_reduce(b, list(_parts(ctx, x)), [bound, below], axes, body))
    return b.complex(re, im)


def _logical(name: str, start: Any) -> None:
    @rule(f"reduce_{name}")
    def emit(op: Op) -> Value:
        x = op.x
        if x.dtype == BOOL and name != "xor":
            return _truth(op.ctx, x, op["axes"], "max" if name == "or" else "min")
        init = start if x.dtype == BOOL else (
            np.array(-1).astype(x.dtype) if start else 0)
        return emit_reduce(op.b, [x], [init], op["axes"], fold(name))[0]


_logical("and", True)
_logical("or", False)
_logical("xor", False)


def _arg(name: str, direction: str, largest: bool) -> None:
    @rule(name)
    def emit(op: Op) -> Value:
        b, x = op.b, op.x
        (axis,) = op["axes"]
        index_dtype = np.dtype(op["index_dtype"])
        if x.dtype == BOOL:
            x = x.astype(I8)
        elif is_narrow(x.dtype):
            x = convert(b, x, F32)
        where = I32 if index_dtype.itemsize <= 4 else I64
        positions = b.iota(x.shape, where, axis)
        init = extreme(x.dtype, largest)
        # an index above all others loses every tie
        far = np.iinfo(where).max
        if on_cuda(op.ctx) and is_static(x.shape):  # folds of two results have no block a row there
            word = "minimum" if largest else "maximum"
            best = (_extremum_of_signed(op.ctx, x, [axis], word) if x.dtype.kind == "i"
                    else _by_blocks(b, x, [axis], init, fold(word)))
            kept = [i for i in range(x.ndim) if i != axis]
            (best,) = b.barrier(b.reshape(best, without(x.shape, [axis])))
            here = x.eq(b.broadcast(best, x.shape, kept))
            if x.dtype.kind == "f":
                here = here | b.isnan(x)  # the first NaN wins
            return _extremum_of_signed(op.ctx, b.select(here, positions, b.like(positions, far)),
                                       [axis], "minimum").astype(index_dtype)

        def body(b: Builder, a: list[Value]) -> list[Value]:
            (v0, i0), (v1, i1) = a[:2], a[2:]
            better = b.compare(direction, v0, v1)
            tie = v0.eq(v1)
            if x.dtype.kind == "f":
                nan0, nan1 = b.isnan(v0), b.isnan(v1)
                better = (better & ~nan1) | (nan0 & ~nan1)
                tie = tie | (nan0 & nan1)
            take = better | (tie & (i0 < i1))
            return [b.select(take, v0, v1), b.select(take, i0, i1)]

        out = emit_reduce(b, [x, positions], [init, far], [axis], body)[1]
        # IREE moves a transpose of one result into the two-result reduction and miscounts
        (out,) = b.barrier(out)
        return out.astype(index_dtype)


_arg("argmax", "GT", False)
_arg("argmin", "LT", True)
