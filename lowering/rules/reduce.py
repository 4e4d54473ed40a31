"""Reductions.  Long sums are taken in two stages: IREE sums in one chain, which loses digits
(2e-3 off at 5M elements of f32), and pairs of stages cost nothing.
"""
from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import ml_dtypes
import numpy as np

from calque.core.avals import ShapedArray
from calque.lowering import mlir
from calque.lowering.builder import Builder, Value, int_array
from calque.lowering.rules.registry import Context, rule

Body = Callable[[Builder, list[Value]], list[Value]]
NARROW = (np.dtype("float16"), np.dtype(ml_dtypes.bfloat16))
BLOCK = 1024  # reductions longer than this are split


def emit_reduce(b: Builder, xs: Sequence[Value], inits: Sequence[Any], axes: Sequence[int],
                body: Body) -> list[Value]:
    """stablehlo.reduce of several operands with a body on scalars (accumulators, elements)."""
    ir = mlir.ir()
    kept = tuple(n for i, n in enumerate(xs[0].shape) if i not in axes)
    starts = [b.splat(v, (), x.dtype) for v, x in zip(inits, xs)]
    op = b.op("stablehlo.reduce", [*xs, *starts], [(kept, x.dtype) for x in xs],
              {"dimensions": int_array(axes)}, regions=1)
    types = [mlir.tensor_type((), x.dtype) for x in xs] * 2
    block = op.regions[0].blocks.append(*types)
    with ir.InsertionPoint(block):
        args = [Value(b, a, (), x.dtype) for a, x in zip(block.arguments, [*xs, *xs])]
        outs = body(b, args)
        ir.Operation.create("stablehlo.return", operands=[o.ir for o in outs])
    return [Value(b, r, kept, x.dtype) for r, x in zip(op.results, xs)]


def fold(name: str) -> Body:
    return lambda b, args: [b.binary(name, args[0], args[1])]


def _block(n: int) -> int:
    """A divisor of n near its square root, at most 512; 1 when there is none."""
    target = min(512, max(32, int(n ** 0.5)))
    for distance in range(target):
        for d in (target - distance, target + distance):
            if 1 < d <= 1024 and n % d == 0 and n // d > 1:
                return d
    return 1


def _adjacent(axes: Sequence[int]) -> bool:
    return list(axes) == list(range(axes[0], axes[0] + len(axes)))


def emit_sum(ctx: Context, x: Value, axes: Sequence[int], name: str = "add",
             identity: Any = 0) -> Value:
    """Sum (or another fold) over axes: in blocks when long, in f32 for half precision."""
    b = ctx.b
    axes = sorted(axes)
    if x.dtype.kind == "c":
        return _complex_sum(ctx, x, axes, name)
    narrow = x.dtype in NARROW
    if narrow:
        x, out_dtype = x.astype(np.float32), x.dtype
    count = int(np.prod([x.shape[a] for a in axes]))
    block = _block(count) if count > BLOCK and x.dtype.kind in "fc" and _adjacent(axes) else 1
    if block > 1:
        first = axes[0]
        rest = x.shape[axes[-1] + 1:]
        x = b.reshape(x, (*x.shape[:first], count // block, block, *rest))
        (x,) = emit_reduce(b, [x], [identity], [first + 1], fold(name))
        axes = [first]
        out = emit_sum(ctx, x, axes, name, identity)  # the partial sums may be many themselves
        return out.astype(out_dtype) if narrow else out
    while len(axes) > 1 and _is_product(x):
        (x,) = emit_reduce(b, [x], [identity], [axes.pop()], fold(name))
    (out,) = emit_reduce(b, [x], [identity], axes, fold(name))
    return out.astype(out_dtype) if narrow else out


def _is_product(x: Value) -> bool:
    """Sums over two axes of products with a spread operand become vector.contract operations that
    IREE rejects ("invalid accumulator/result vector shape"): those are taken axis by axis."""
    owner = x.ir.owner
    return getattr(owner, "name", "") in ("stablehlo.multiply", "stablehlo.and")


def _complex_sum(ctx: Context, x: Value, axes: Sequence[int], name: str) -> Value:
    """In two real parts: a product of two or three complex numbers fused with a division came out
    wrong from IREE."""
    b = ctx.b
    re, im = b.real(x), b.imag(x)
    if name == "add":
        return b.complex(emit_sum(ctx, re, axes), emit_sum(ctx, im, axes))
    assert name == "multiply", name

    def body(b: Builder, v: list[Value]) -> list[Value]:
        (r0, i0), (r1, i1) = v[:2], v[2:]
        return [r0 * r1 - i0 * i1, r0 * i1 + i0 * r1]

    return b.complex(*emit_reduce(b, [re, im], [1, 0], axes, body))


@rule("reduce_sum")
def _sum(ctx: Context, xs: list[Value], params: dict[str, Any], outs: list[ShapedArray]) -> Value:
    return emit_sum(ctx, xs[0], params["axes"])


@rule("reduce_prod")
def _prod(ctx: Context, xs: list[Value], params: dict[str, Any], outs: list[ShapedArray]) -> Value:
    return emit_sum(ctx, xs[0], params["axes"], "multiply", 1)


def extreme(dtype: np.dtype[Any], largest: bool) -> Any:
    """The identity of min (largest) or max (not largest)."""
    if dtype == np.dtype(bool):
        return largest
    if dtype.kind in "iu":
        info = np.iinfo(dtype)
        return info.max if largest else info.min
    if dtype.kind == "f" or dtype == np.dtype(ml_dtypes.bfloat16):
        return np.inf if largest else -np.inf
    info = ml_dtypes.finfo(dtype)
    return info.max if largest else info.min


def _extremum(name: str, direction: str, largest: bool) -> None:
    @rule(f"reduce_{name}")
    def emit(ctx: Context, xs: list[Value], params: dict[str, Any],
             outs: list[ShapedArray]) -> Value:
        (x,) = xs
        if x.dtype.kind == "c":
            return _complex_extremum(ctx, x, params["axes"], direction, largest)
        if x.dtype == np.dtype(bool):
            how = "or" if name == "max" else "and"
            return emit_reduce(ctx.b, [x], [largest], params["axes"], fold(how))[0]
        init = extreme(x.dtype, largest)
        return emit_reduce(ctx.b, [x], [init], params["axes"], fold(f"{name}imum"))[0]


_extremum("max", "GT", False)
_extremum("min", "LT", True)


def _complex_extremum(ctx: Context, x: Value, axes: Sequence[int], direction: str,
                      largest: bool) -> Value:
    """Lexicographic by real part, then imaginary; NaN wins."""
    b = ctx.b
    bound = extreme(np.dtype(f"f{x.dtype.itemsize // 2}"), largest)

    def body(b: Builder, a: list[Value]) -> list[Value]:
        (r0, i0), (r1, i1) = a[:2], a[2:]
        take = b.compare(direction, r0, r1) | (r0.eq(r1) & b.compare(direction, i0, i1))
        nan0, nan1 = b.isnan(r0) | b.isnan(i0), b.isnan(r1) | b.isnan(i1)
        take = nan0 | (take & ~nan1)
        return [b.select(take, r0, r1), b.select(take, i0, i1)]

    re, im = emit_reduce(b, [b.real(x), b.imag(x)], [bound, bound], axes, body)
    return b.complex(re, im)


def _logical(name: str, start: Any) -> None:
    @rule(f"reduce_{name}")
    def emit(ctx: Context, xs: list[Value], params: dict[str, Any],
             outs: list[ShapedArray]) -> Value:
        x = xs[0]
        init = start if x.dtype == np.dtype(bool) else (
            np.array(-1).astype(x.dtype) if start else 0)
        return emit_reduce(ctx.b, [x], [init], params["axes"], fold(name))[0]


_logical("and", True)
_logical("or", False)
_logical("xor", False)


def _arg(name: str, direction: str, largest: bool) -> None:
    @rule(name)
    def emit(ctx: Context, xs: list[Value], params: dict[str, Any],
             outs: list[ShapedArray]) -> Value:
        b, x = ctx.b, xs[0]
        (axis,) = params["axes"]
        index_dtype = np.dtype(params["index_dtype"])
        if x.dtype == np.dtype(bool):
            x = x.astype(np.int8)
        elif x.dtype in NARROW or x.dtype.kind == "V":
            x = x.astype(np.float32)
        where = np.dtype(np.int32) if index_dtype.itemsize <= 4 else np.dtype(np.int64)
        positions = b.iota(x.shape, where, axis)
        init = extreme(x.dtype, largest)
        # an index above all others loses every tie
        far = np.iinfo(where).max

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
