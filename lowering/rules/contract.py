"""dot_general, with IREE's holes mended: complex, bool, unsigned, half precision, empty sums."""
from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from calque.core.dims import is_static
from calque.core.dtypes import real_dtype
from calque.core.lists import other_axes
from calque.core.types import Dtype
from calque.lowering.emit import mlir
from calque.lowering.emit.builder import Builder, Value
from calque.lowering.emit.context import Context
from calque.lowering.emit.dtypes import BF16, BOOL, F32, F64, HALVES, I32, I64, summed
from calque.lowering.emit.folding import guarded_one, kept_unsigned
from calque.lowering.emit.registry import Op, rule
from calque.lowering.kernels import gemm
from calque.lowering.kernels.cuda import products
from calque.lowering.math.convert import convert
from calque.lowering.math.region import generic
from calque.lowering.rules.reduce import emit_reduce, fold
from calque.lowering.rules.window import fill


def _dims_attribute(dims: Any) -> str:
    (xc, yc), (xb, yb) = dims
    parts = [("lhs_batching_dimensions", xb), ("rhs_batching_dimensions", yb),
             ("lhs_contracting_dimensions", xc), ("rhs_contracting_dimensions", yc)]
    body = ", ".join(f"{k} = [{', '.join(map(str, v))}]" for k, v in parts)
    return f"#stablehlo.dot<{body}>"


def emit_dot(b: Builder, x: Value, y: Value, dims: Any, dtype: Dtype) -> Value:
    """One stablehlo.dot_general with accumulation in `dtype`."""
    if b.relaxed:  # of bfloat16 whose sizes 16 divides IREE makes no SPIR-V (test_spirv_forms.py)
        x, y = (v.astype(F32) if v.dtype == BF16 else v for v in (x, y))
    x, y = b.materialize(*guarded_one(x, y))
    if not is_static((*x.shape, *y.shape)):
        return _dynamic_dot(b, x, y, dims, dtype)
    x, y = kept_unsigned(x), kept_unsigned(y)
    return b.materialize(b.emit("dot_general", [x, y], gemm.shape_of_product(x, y, dims), dtype,
                          {"dot_dimension_numbers": _dims_attribute(dims)}))[0]


def _dynamic_dot(b: Builder, x: Value, y: Value, dims: Any, dtype: Dtype) -> Value:
    """One linalg.generic: of vectors IREE makes matrices, by reshapes whose sizes it asks for."""
    (xc, yc), (xb, yb) = dims
    shape = gemm.shape_of_product(x, y, dims)
    names = [f"d{i}" for i in range(len(shape))]  # batch, rows, columns; then what is summed
    rows, columns = other_axes(x.ndim, xc, xb), other_axes(y.ndim, yc, yb)
    summed = [f"k{i}" for i in range(len(xc))]
    left = {**dict(zip(xb, names)), **dict(zip(rows, names[len(xb):])), **dict(zip(xc, summed))}
    right = {**dict(zip(yb, names)), **dict(zip(columns, names[len(xb) + len(rows):])),
             **dict(zip(yc, summed))}
    maps = [[m[i] for i in range(len(m))] for m in (left, right)]
    return b.materialize(*generic(
        [*names, *summed], len(summed), [*maps, names], [x, y], [fill(b, 0, shape, dtype)],
        lambda inner, p, q, total: [total + p.astype(dtype) * q.astype(dtype)]))[0]


def _is_vecmat(ctx: Context, x: Value, y: Value, dims: Any) -> bool:
    """A long vector times a wide row-major matrix, where there is no C kernel for it: IREE's own
    tiles read it four times slower."""
    return (ctx.cpu and not gemm.takes(ctx.target, x.dtype.name)
            and is_static((*x.shape, *y.shape)) and x.ndim == 1
            and dims == (((0,), (0,)), ((), ())) and y.ndim == 2
            and min(y.shape) >= 512 and x.dtype == y.dtype
            and x.dtype in (F32, F64))


def _vecmat(b: Builder, x: Value, y: Value) -> Value:
    """linalg.vecmat with tiles of our choice (benchmarks/run.py --only matmul).

    Eight rows at a time are added to a strip of the result that stays in the first-level cache,
    so that memory is read in long runs; IREE goes down all rows for 16 columns at a time.
    """
    ir = mlir.ir()
    n, size = y.shape[1], x.dtype.itemsize
    lanes = 256 // size
    strip = min(8192 // size, -(-n // (2 * lanes)) * lanes)  # a strip for each of two cores
    tiles = (f"#iree_cpu.lowering_config<distribution = [{strip}, 0], cache_reduction = [0, 8], "
             f"vector_common_parallel = [{lanes}, 0], vector_reduction = [0, 8]>")
    x, y = guarded_one(x, y)
    zero = b.splat(0, (n,), x.dtype)

    def element(p: Any, q: Any, total: Any) -> list[Any]:
        kind = total.type
        return [mlir.value("arith.addf", kind, [total, mlir.value("arith.mulf", kind, [p, q])])]

    (out,) = mlir.linalg("vecmat", [x.ir, y.ir], [zero.ir], element)
    out.owner.attributes["compilation_info"] = ir.Attribute.parse(
        f"#iree_codegen.compilation_info<lowering_config = {tiles}, translation_info = "
        "#iree_codegen.translation_info<pipeline = #iree_cpu.pipeline<DoubleTilingExpert>>>")
    return Value(b, out, (n,), x.dtype)


def _numbers(b: Builder, x: Value, dtype: Dtype) -> Value:
    """Bools as numbers: of their conversion IREE makes an operand of bytes within its products,
    and refuses vectors' (tests/semantics/test_edge_values.py)."""
    return convert(b, x, dtype) if x.dtype == BOOL else x


@rule("dot_general")
def _dot(op: Op) -> Value:
    b, (x, y), out = op.b, op.operands, op.out
    dims, dtype = op["dimension_numbers"], out.dtype
    precision = products.precision_of(op["precision"])
    (xc, _), _ = dims
    if math.prod(x.shape[i] for i in xc) == 0:  # IREE divides by the contracted size
        result = b.splat(0, out.shape, dtype)
    elif is_static((*x.shape, *y.shape)) and math.prod(x.shape[i] for i in xc) == 1:
        result = _outer(b, x, y, dims, dtype)
    elif dtype.kind == "c":
        part = real_dtype(dtype)
        result = by_parts(b, x.astype(dtype), y.astype(dtype),
                          lambda p, q: real_dot(op.ctx, p, q, dims, part, precision))
    elif dtype == BOOL:
        result = _integer_dot(op.ctx, x, y, dims, I32) > 0
    elif dtype.kind in "iu":
        result = _integer_dot(op.ctx, x, y, dims, dtype)
    elif dtype in HALVES:
        x, y = _numbers(b, x, dtype), _numbers(b, y, dtype)
        wide = x.dtype if x.dtype in HALVES and x.dtype == y.dtype else F32
        result = real_dot(op.ctx, x.astype(wide), y.astype(wide), dims, F32, precision, dtype)
    else:
        x, y = _numbers(b, x, dtype), _numbers(b, y, dtype)
        if not (x.dtype == y.dtype and x.dtype in HALVES):
            x, y = x.astype(dtype), y.astype(dtype)
        if _is_vecmat(op.ctx, x, y, dims):
            result = _vecmat(b, x, y)
        else:
            result = real_dot(op.ctx, x, y, dims, dtype, precision)
    return result


def real_dot(ctx: Context, x: Value, y: Value, dims: Any, dtype: Dtype,
             precision: str = "ieee", out: Dtype | None = None) -> Value:
    """By the C kernel where it is ahead, or one for CUDA, else IREE's; sums have `dtype`, the
    result `out` (the same by default).  `precision`: what float32 is on CUDA (kernels/cuda)."""
    out = dtype if out is None else out
    if ctx.target is not None and ctx.target.backend == "cuda":
        made = products.product(ctx, x, y, dims, out, precision)
        if made is not None:
            if made.ndim > len(gemm.shape_of_product(x, y, dims)):  # parts of the sums
                made = emit_reduce(ctx.b, [made], [0], [0], fold("add"))[0]
            return made.astype(out)
    made = gemm.product(ctx, x, y, dims, dtype)
    return (emit_dot(ctx.b, x, y, dims, dtype) if made is None else made).astype(out)


def matmul(ctx: Context, x: Value, y: Value, dtype: Dtype) -> Value:
    """The product of the last axis of x with the first of y."""
    return real_dot(ctx, x, y, (((x.ndim - 1,), (0,)), ((), ())), dtype)


def by_parts(b: Builder, x: Value, y: Value, product: Callable[[Value, Value], Value]) -> Value:
    """A product of complex numbers by four of their real and imaginary parts."""
    xr, xi, yr, yi = b.barrier(b.real(x), b.imag(x), b.real(y), b.imag(y))
    re, im = b.barrier(product(xr, yr) - product(xi, yi), product(xr, yi) + product(xi, yr))
    return b.complex(re, im)


def _outer(b: Builder, x: Value, y: Value, dims: Any, dtype: Dtype) -> Value:
    """A sum of one product each is no contraction.

    Of complex numbers of one element, both from one array, IREE took the imaginary part for the
    real one; a [1, 1] of halves it refused beside others (tests/lowering/test_refusals.py).
    """
    (xc, yc), (xb, yb) = dims
    xf, yf = other_axes(x.ndim, xc, xb), other_axes(y.ndim, yc, yb)
    batch, left = list(range(len(xb))), len(xb) + len(xf)
    shape = gemm.shape_of_product(x, y, dims)
    wide = summed(dtype)

    def broadcast(v: Value, axes: Sequence[int], contracted: Sequence[int],
               places: Sequence[int]) -> Value:
        v = b.transpose(v, [*axes, *contracted])
        v = b.reshape(v, v.shape[:len(axes)])
        v = v.ne(0) if dtype == BOOL else v.astype(wide)
        return b.broadcast(v, shape, tuple(places))

    p = broadcast(x, [*xb, *xf], xc, range(left))
    q = broadcast(y, [*yb, *yf], yc, [*batch, *range(left, len(shape))])
    if dtype == BOOL:
        return p & q
    if dtype.kind != "c":
        return (p * q).astype(dtype)
    (s, t), (u, v) = (b.real(p), b.imag(p)), (b.real(q), b.imag(q))
    return b.complex(s * u - t * v, s * v + t * u)


def _integer_dot(ctx: Context, x: Value, y: Value, dims: Any, dtype: Dtype) -> Value:
    """Converted operands are kept apart from IREE's form: fused, it reads the narrow ones as signed
    whatever they are (docs/iree.md)."""
    wide = I64 if dtype.itemsize == 8 else I32
    made = gemm.pair_product(ctx, x, y, dims) if wide == I32 else None
    if made is not None:
        return made.astype(dtype)
    x, y = x.astype(wide), y.astype(wide)
    if ctx.target is None or ctx.target.backend != "cuda":
        made = gemm.product(ctx, x, y, dims, wide)
    if made is None:
        x, y = ctx.b.barrier(x, y)
        made = emit_dot(ctx.b, x, y, dims, wide)
    return made.astype(dtype)  # the low bits are right whatever the sign
