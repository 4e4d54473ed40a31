"""Convolutions on CUDA by kernels of ours: products of what the windows see, which lies nowhere.

Along one or two axes, of one group, channels last: other layouts are moved first.  What has few
results and large windows (the gradient of a window) is summed over all places, in parts.
Start reading at `convolve`.
"""
from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from calque.core.dims import is_static
from calque.core.types import Dtype, Shape
from calque.lowering.emit import mlir
from calque.lowering.emit.builder import Value
from calque.lowering.emit.context import Context
from calque.lowering.emit.dtypes import F32, HALVES
from calque.lowering.kernels.cuda import products, table
from calque.lowering.kernels.cuda.store import code
from calque.lowering.kernels.cuda.variants import Variant, launch

LEAST = 1 << 14  # products from which on it is a kernel's
MOST = 2**31 - 1  # numbers of an array: places in it have 32 bits
FEW = 64  # results of a window that is larger: its gradient


def convolve(ctx: Context, x: Value, y: Value, numbers: Any, params: Any, shape: Shape, out: Dtype,
             precision: str) -> Value | None:
    """A convolution as (batch, spatial..., features); or parts of its sums in float32, along one
    more axis in front; None where IREE's form stays.

    Args:
      numbers, params: of conv_general_dilated; shape: the result's, laid out as numbers say.
    """
    rank = len(numbers.lhs_spec) - 2
    if (not products.takes(ctx.target) or rank not in (1, 2) or x.dtype != y.dtype
            or x.dtype not in (F32, *HALVES) or out not in (F32, x.dtype)
            or set(params["lhs_dilation"]) != {1} or not is_static((*x.shape, *y.shape, *shape))
            or max(params["feature_group_count"], params["batch_group_count"]) != 1
            or max(math.prod(s) for s in (x.shape, y.shape, shape)) > MOST):
        return None
    (n, f, *space), (o, i, *taps) = numbers.lhs_spec, numbers.rhs_spec
    places = [shape[a] for a in numbers.out_spec[2:]]
    kernel = [y.shape[t] for t in taps]
    if math.prod(shape) * math.prod(kernel) * y.shape[i] < LEAST:
        return None
    weights = math.prod(places) <= FEW and math.prod(places) < math.prod(kernel)
    if x.dtype != F32:
        precision = "tf32"
    elif precision == "tf32x3":
        precision = "ieee"
    flat = [1] * (2 - rank)  # one axis is a row of two
    y, turned = (y, False) if weights else _unreversed(y, taps)
    low = [*[0] * (2 - rank), *[p[0] for p in params["padding"]]]
    steps, apart = [*flat, *params["window_strides"]], [*flat, *params["rhs_dilation"]]
    if weights:
        x, y = (_moved(ctx, x, (f, *space, n)), _moved(ctx, y, (i, *taps, o)))
        sizes = (x.shape[0], *flat, *x.shape[1:], *flat, *kernel, y.shape[-1], *flat, *places)
        steps, apart = apart, steps
    else:
        x, y = (_moved(ctx, x, (n, *space, f)), _moved(ctx, y, (*taps, i, o)))
        sizes = (x.shape[0], *flat, *x.shape[1:], *flat, *places, y.shape[-1], *flat, *kernel)
    if turned:  # taps are met from the last one on
        low = [p - (t - 1) * d for p, t, d in zip(low, [*flat, *kernel], apart)]
        apart = [-d for d in apart]
    words = (*sizes, *steps, *low, *apart)
    if weights:
        return _weights(ctx, x, y, words, places, precision)
    return _results(ctx, x, y, words, places, out, precision)


def _unreversed(y: Value, taps: Sequence[int]) -> tuple[Value, bool]:
    """What y is the reverse of along all taps (the window of an input's gradient), if it is."""
    owner = y.ir.owner
    if (mlir.made_by(owner) != "stablehlo.reverse"
            or sorted(map(int, owner.attributes["dimensions"])) != sorted(taps)):
        return y, False
    return Value(y.b, owner.operands[0], y.shape, y.dtype), True


def _moved(ctx: Context, x: Value, order: Sequence[int]) -> Value:
    if list(order) == list(range(x.ndim)):
        return x
    (made,) = ctx.b.barrier(ctx.b.transpose(x, order))
    return made


def _results(ctx: Context, x: Value, y: Value, words: Sequence[int], places: Sequence[int],
             out: Dtype, precision: str) -> Value:
    count, k = x.shape[0], y.shape[-1]
    rows = count * math.prod(places)
    aligned = _aligned(x, y)
    columns = 128 if k > 64 and aligned else 64 if k > 32 else 32
    down = 128 if aligned else 64
    if -(-rows // down) * -(-k // columns) < table.PROCESSORS or columns == 128 and down < 128:
        down, columns = 64, min(columns, 64)
    if down == 64 and columns == 32 and aligned:
        columns = 64
    variants = []
    for sm in (90, 80):
        kernel = table.Convolution(x.dtype.name, out.name, precision, False, down, columns,
                                   aligned, sm)
        if kernel in _EVERY:
            grid = (-(-rows // down) * -(-k // columns), 1, 1)
            variants.append(Variant(code(kernel.name), grid, 9 if sm == 90 else 0))
    results: list[tuple[Shape, Dtype]] = [((count, *places, k), out)]
    return launch(ctx, "convolve", variants, [x, y], results, words)[0]


def _weights(ctx: Context, x: Value, g: Value, words: Sequence[int], places: Sequence[int],
             precision: str) -> Value:
    """(parts, batch, places..., features): sums of all that the window meets."""
    c, k = x.shape[-1], g.shape[-1]
    rows, total = math.prod(places) * c, math.prod(g.shape[:-1])
    aligned = _aligned(x, g)
    down = 128 if aligned and rows > 64 else 64
    tiles = -(-rows // down) * -(-k // 64)
    parts = max(1, min(2 * table.PROCESSORS // tiles, total // 512, 64))
    span = -(-total // parts // table.UNIT) * table.UNIT
    parts = -(-total // span)
    kernel = table.Convolution(x.dtype.name, "float32", precision, True, down, 64, aligned)
    results: list[tuple[Shape, Dtype]] = [((parts, *places, c, k), F32)]
    (made,) = launch(ctx, "weights", [Variant(code(kernel.name), (tiles, 1, parts))], [x, g],
                     results, (*words, span))
    rank = len(places)
    return ctx.b.transpose(made, (0, rank + 1, *range(1, rank + 1), rank + 2))


def _aligned(x: Value, y: Value) -> bool:
    unit = 16 // x.dtype.itemsize
    return (x.shape[-1] % unit == 0 and y.shape[-1] % unit == 0
            and products.starts_aligned(x) and products.starts_aligned(y))


_EVERY = frozenset(table.convolutions())
