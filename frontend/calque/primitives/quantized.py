"""dequantize and quantized_dot: matrices whose rows are blocks of numbers of a few bits that share
scales, in the layouts of GGUF files (https://github.com/ggml-org/ggml, ggml-common.h).

Of a matrix only its bytes are an operand, uint8[n, bytes of a row]; what a byte means is the
parameter `kind` (core/blocks).  All arithmetic is float32's.  Start reading at `quantized_dot`.
"""
from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from calque.core.avals import ShapedArray, ndim_of, shape_of
from calque.core.blocks import GROUP, KINDS, check_activations, rounds
from calque.core.dims import guess
from calque.core.errors import explain
from calque.core.primitive import Primitive, UndefinedPrimal
from calque.core.program import Program
from calque.core.types import Dtype, Shape
from calque.core.zeros import is_zero, zero_like
from calque.primitives import elementwise as ew
from calque.primitives import shape as sh
from calque.primitives.contract import dot_general
from calque.primitives.reduce import reduce_max_p
from calque.transforms.stage import stage
from calque.transforms.vmap import batch_first, to_front

F32, U8 = np.dtype("float32"), np.dtype("uint8")

dequantize_p = Primitive("dequantize", memory="fresh", weight=4)
quantized_dot_p = Primitive("quantized_dot", memory="fresh")


def dequantize(blocks: Any, kind: str) -> Any:
    """The numbers of blocks: uint8[..., bytes] -> float32[..., numbers]."""
    return dequantize_p.bind(blocks, kind=kind)


def quantized_dot(x: Any, blocks: Any, kind: str, activations: str = "float32") -> Any:
    """x times a transposed matrix: float32[..., k], uint8[n, bytes of k] -> float32[..., n];
    `activations` 'int8': few rows (core.blocks.rounds) are rounded in each block of 32."""
    return quantized_dot_p.bind(x, blocks, kind=kind, activations=activations)


def numbers_in(count: Any, kind: str) -> Any:
    """How many numbers `count` bytes hold."""
    return count // KINDS[kind].bytes * KINDS[kind].numbers


def check(name: str, shape: Shape, dtype: Dtype, kind: str, least: int = 1) -> None:
    """Raise where these are no blocks of a kind, of `least` axes."""
    if kind not in KINDS:
        raise ValueError(explain(f"{name}: kind is {kind!r}.",
                                 fix=f"give one of {', '.join(KINDS)}."))
    if dtype != U8 or len(shape) < least or shape[-1] % KINDS[kind].bytes:
        raise TypeError(explain(
            f"{name}: {kind} of {dtype.name}{list(shape)}.",
            fix=f"give uint8 blocks, whose last axis is a multiple of {KINDS[kind].bytes}."))


# ---- the layouts, in other primitives
def _half(blocks: Any, at: int) -> Any:
    """The float16 that lies in two bytes of each block, as float32[..., 1]."""
    axis = ndim_of(blocks) - 1
    two = sh.slice_in_dim(blocks, at, at + 2, axis)
    x = ew.bitcast_convert_type(two, new_dtype=np.dtype("float16"))
    return ew.convert(sh.reshape(x, (*shape_of(x), 1)), F32)


def _bytes(blocks: Any, start: int, stop: int) -> Any:
    return sh.slice_in_dim(blocks, start, stop, ndim_of(blocks) - 1)


def _and(x: Any, mask: int) -> Any:
    return ew.and_(x, _like(x, mask))


def _right(x: Any, count: int) -> Any:
    return ew.shift_right_logical(x, _like(x, count))


def _left(x: Any, count: int) -> Any:
    return ew.shift_left(x, _like(x, count))


def _like(x: Any, value: int) -> Any:
    return sh.broadcast_in_dim(np.uint8(value), shape_of(x), ())


def _last(*xs: Any) -> Any:
    return sh.concatenate(list(xs), ndim_of(xs[0]) - 1)


def _spread(x: Any, full: Shape) -> Any:
    return sh.broadcast_in_dim(x, full, range(len(full)))


def _scaled(q: Any, scale: Any, offset: Any = None) -> Any:
    x = ew.mul(ew.convert(q, F32), _spread(scale, shape_of(q)))
    return x if offset is None else ew.add(x, _spread(offset, shape_of(q)))


def _halves(packed: Any) -> Any:
    """Numbers of 4 bits: the lower halves of all bytes, then the upper ones."""
    return _last(_and(packed, 15), _right(packed, 4))


def _q8_0(blocks: Any) -> Any:
    return _scaled(ew.bitcast_convert_type(_bytes(blocks, 2, 34), new_dtype=np.dtype("int8")),
                   _half(blocks, 0))


def _q4_0(blocks: Any) -> Any:
    scale = _half(blocks, 0)
    return _scaled(_halves(_bytes(blocks, 2, 18)), scale, ew.mul(scale, _full(scale, -8.0)))


def _q4_1(blocks: Any) -> Any:
    return _scaled(_halves(_bytes(blocks, 4, 20)), _half(blocks, 0), _half(blocks, 2))


def _q4_k(blocks: Any) -> Any:
    low, high, rest = (_bytes(blocks, i, i + 4) for i in (4, 8, 12))
    scales = _last(_and(low, 63), ew.or_(_and(rest, 15), _left(_right(low, 6), 4)))
    offsets = _last(_and(high, 63), ew.or_(_right(rest, 4), _left(_right(high, 6), 4)))
    lead = shape_of(blocks)[:-1]
    packed = sh.reshape(_bytes(blocks, 16, 144), (*lead, 4, GROUP))  # two groups in each row
    q = sh.reshape(_halves(packed), (*lead, 8, GROUP))
    scale, offset = (
        sh.reshape(ew.mul(ew.convert(x, F32), _spread(_half(blocks, at), shape_of(x))),
                   (*lead, 8, 1)) for x, at in ((scales, 0), (offsets, 2)))
    return _scaled(q, scale, ew.neg(offset))


def _full(x: Any, value: float) -> Any:
    return sh.broadcast_in_dim(np.float32(value), shape_of(x), ())


_FORMS = {"q8_0": _q8_0, "q4_0": _q4_0, "q4_1": _q4_1, "q4_k": _q4_k}


def _numbers(blocks: Any, kind: str) -> Any:
    *lead, size = shape_of(blocks)
    x = _FORMS[kind](sh.reshape(blocks, (*lead, size // KINDS[kind].bytes, KINDS[kind].bytes)))
    return sh.reshape(x, (*lead, numbers_in(size, kind)))


# ---- rules
def _dequantize_abstract(blocks: ShapedArray, *, kind: str) -> ShapedArray:
    check("dequantize", blocks.shape, blocks.dtype, kind)
    return ShapedArray((*blocks.shape[:-1], numbers_in(blocks.shape[-1], kind)), F32)


@functools.cache
def _dequantize_program(blocks: ShapedArray, *, kind: str) -> Program:
    return stage(lambda x: [_numbers(x, kind)], [blocks], "dequantize")


def _dequantize_jvp(primals: Sequence[Any], tangents: Sequence[Any], **params: Any) -> Any:
    out = dequantize_p.bind(*primals, **params)
    return out, zero_like(out)  # (of bytes)


dequantize_p.abstract, dequantize_p.jvp = _dequantize_abstract, _dequantize_jvp
dequantize_p.batch, dequantize_p.program = batch_first(dequantize_p), _dequantize_program


def _rounded(x: Any) -> Any:
    """float32[..., k], rounded to integers of 8 bits times a scale in each block: the largest
    number is 127 of it.  Blocks with NaN or infinity are NaN."""
    *lead, k = shape_of(x)
    x = sh.reshape(x, (*lead, k // GROUP, GROUP))
    most = reduce_max_p.bind(ew.abs_(x), axes=(len(lead) + 1,), out_sharding=None)
    most = sh.reshape(most, (*lead, k // GROUP, 1))
    most = ew.select_n(ew.le(most, _full(most, 2.0**-120)), most, _full(most, 0.0))
    by = ew.select_n(ew.eq(most, _full(most, 0.0)), ew.div(_full(most, 127.0), most),
                     _full(most, 0.0))
    near = ew.round_(ew.mul(x, _spread(by, shape_of(x))), rounding_method=1)  # ties to even
    made = ew.mul(near, _spread(ew.div(most, _full(most, 127.0)), shape_of(x)))
    return sh.reshape(made, (*lead, k))


def _dot_abstract(x: ShapedArray, blocks: ShapedArray, *, kind: str, activations: str
                  ) -> ShapedArray:
    check("quantized_dot", blocks.shape, blocks.dtype, kind)
    check_activations("quantized_dot", activations)
    if x.dtype != F32 or not x.ndim or blocks.ndim != 2 or (
            numbers_in(blocks.shape[-1], kind) != x.shape[-1]):
        raise TypeError(explain(
            f"quantized_dot of {x.dtype.name}{list(x.shape)} and {kind} of "
            f"{blocks.dtype.name}{list(blocks.shape)}, rows of "
            f"{numbers_in(blocks.shape[-1], kind)} numbers.",
            fix="give float32[..., k] and uint8[n, bytes of k]."))
    return ShapedArray((*x.shape[:-1], blocks.shape[0]), F32)


def _product(x: Any, weights: Any) -> Any:
    return dot_general(x, weights, (((ndim_of(x) - 1,), (ndim_of(weights) - 1,)), ((), ())))


@functools.cache
def _dot_program(x: ShapedArray, blocks: ShapedArray, *, kind: str, activations: str) -> Program:
    given = _rounded if rounds(guess(math.prod(x.shape[:-1])), x.shape[-1], activations) else (
        lambda x: x)
    return stage(lambda x, w: [_product(given(x), dequantize(w, kind))], [x, blocks],
                 "quantized_dot")


def _dot_jvp(primals: Sequence[Any], tangents: Sequence[Any], **params: Any) -> Any:
    out, t = quantized_dot_p.bind(*primals, **params), tangents[0]
    return out, zero_like(out) if is_zero(t) else quantized_dot(  # (of what is not rounded)
        t, primals[1], params["kind"])


def _dot_transpose(ct: Any, x: UndefinedPrimal, blocks: Any, *, kind: str, activations: str
                   ) -> list[Any]:
    return [dot_general(ct, dequantize(blocks, kind), (((ndim_of(ct) - 1,), (0,)), ((), ()))), None]


def _dot_batch(size: int, args: Sequence[Any], dims: Sequence[int | None], *, kind: str,
               activations: str) -> Any:
    (x, blocks), (dx, dw) = args, dims
    if dw is None:
        return quantized_dot(to_front(x, dx, size), blocks, kind, activations), 0
    weights = dequantize(to_front(blocks, dw, size), kind)
    if dx is None:
        out = _product(x, sh.merge_axes(weights, 0))
        return sh.split_axis(out, ndim_of(out) - 1, size), ndim_of(out) - 1
    x = to_front(x, dx, size)
    return dot_general(x, weights, (((ndim_of(x) - 1,), (2,)), ((0,), (0,)))), 0


quantized_dot_p.abstract, quantized_dot_p.jvp = _dot_abstract, _dot_jvp
quantized_dot_p.transpose, quantized_dot_p.batch = _dot_transpose, _dot_batch
quantized_dot_p.program = _dot_program
