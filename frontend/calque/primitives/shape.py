"""Shape primitives: they move elements and compute nothing.

reshape, transpose, broadcast_in_dim, concatenate, slice, pad, rev, squeeze, iota, dim_as_value.
"""
from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from calque.core import dtypes
from calque.core.avals import ShapedArray, dtype_of, ndim_of, shape_of
from calque.core.dimension import Dim, as_value
from calque.core.dims import as_size, check_positions, max_dim
from calque.core.errors import explain
from calque.core.lists import replaced, without
from calque.core.primitive import Primitive, is_linear, registry
from calque.core.types import Axes, Shape
from calque.core.zeros import instantiate, is_zero, zero_like
from calque.primitives import elementwise as ew
from calque.transforms.jvp import linear_jvp
from calque.transforms.vmap import all_to_front, move_axis, to_front

# ---- reshape
reshape_p = Primitive("reshape", moves=True, memory="view", kernel="view", keys=True)


def reshape(x: Any, new_sizes: Sequence[int]) -> Any:
    return reshape_p.bind(x, new_sizes=tuple(new_sizes), dimensions=None, sharding=None)


def _reshape_abstract(x: ShapedArray, *, new_sizes: Shape, dimensions: Any = None,
                      sharding: Any = None) -> ShapedArray:
    if any(d < 0 for d in new_sizes):
        raise TypeError(explain(f"reshape: new_sizes must be non-negative, got {new_sizes}."))
    if math.prod(new_sizes) != x.size:
        raise TypeError(explain(
            f"reshape total size must be unchanged, got new_sizes {new_sizes} for shape {x.shape}.",
            fix=f"choose sizes whose product is {x.size}."))
    return ShapedArray(new_sizes, x.dtype, x.weak_type)


def _reshape_batch(size: int, args: Sequence[Any], dims: Sequence[int], *,
                   new_sizes: Shape, dimensions: Any = None, sharding: Any = None) -> Any:
    return reshape(move_axis(args[0], dims[0], 0), (size, *new_sizes)), 0


reshape_p.abstract, reshape_p.batch = _reshape_abstract, _reshape_batch
reshape_p.jvp = linear_jvp(reshape_p)
reshape_p.transpose = lambda ct, x, **params: [reshape(ct, x.shape)]


def split_axis(x: Any, axis: int, parts: int) -> Any:
    """An axis as two: of this many parts, and of what each part holds."""
    shape = shape_of(x)
    return reshape(x, replaced(shape, axis, parts, shape[axis] // parts))


def merge_axes(x: Any, axis: int) -> Any:
    """An axis and the next one as one."""
    shape = shape_of(x)
    return reshape(x, (*shape[:axis], shape[axis] * shape[axis + 1], *shape[axis + 2:]))


# ---- transpose
transpose_p = Primitive("transpose", moves=True, memory="view", kernel="view", keys=True)


def transpose(x: Any, permutation: Sequence[int]) -> Any:
    if tuple(permutation) == tuple(range(len(permutation))):
        return x
    return transpose_p.bind(x, permutation=tuple(permutation))


def _transpose_abstract(x: ShapedArray, *, permutation: Axes) -> ShapedArray:
    if sorted(permutation) != list(range(x.ndim)):
        raise TypeError(explain(
            f"transpose permutation isn't a permutation of operand dimensions, got permutation "
            f"{permutation} for operand shape {x.shape}.",
            fix=f"name each of the axes 0 to {x.ndim - 1} once."))
    return ShapedArray([x.shape[i] for i in permutation], x.dtype, x.weak_type)


def _transpose_batch(size: int, args: Sequence[Any], dims: Sequence[int], *,
                     permutation: Axes) -> Any:
    d = dims[0]
    return transpose(args[0], (d, *[i + (i >= d) for i in permutation])), 0


transpose_p.abstract, transpose_p.batch = _transpose_abstract, _transpose_batch
transpose_p.jvp = linear_jvp(transpose_p)
transpose_p.transpose = lambda ct, x, *, permutation: [
    transpose(ct, tuple(map(int, np.argsort(permutation))))]

# ---- broadcast_in_dim
broadcast_in_dim_p = Primitive("broadcast_in_dim", moves=True, memory="view", kernel="view",
                               keys=True)


def broadcast_in_dim(x: Any, shape: Sequence[int], broadcast_dimensions: Sequence[int]) -> Any:
    shape, dims = tuple(shape), tuple(broadcast_dimensions)
    if hasattr(x, "aval") and shape_of(x) == shape and dims == tuple(range(len(shape))):
        return x
    return broadcast_in_dim_p.bind(x, shape=shape, broadcast_dimensions=dims, sharding=None)


def columns_of(x: Any, shape: Shape) -> Any:
    """x at all places along a last axis."""
    return broadcast_in_dim(x, shape, range(len(shape) - 1))


def _broadcast_abstract(x: ShapedArray, *, shape: Shape,
                        broadcast_dimensions: Axes,
                        sharding: Any = None) -> ShapedArray:
    dims = broadcast_dimensions
    if len(dims) != x.ndim:
        raise TypeError(explain(
            f"broadcast_in_dim broadcast_dimensions must have length equal to operand ndim; got "
            f"broadcast_dimensions {dims} for operand ndim {x.ndim}."))
    if any(not 0 <= d < len(shape) for d in dims) or list(dims) != sorted(set(dims)):
        raise TypeError(explain(
            f"broadcast_in_dim broadcast_dimensions must be strictly increasing axes of the result "
            f"shape {shape}, got {dims}."))
    if any(d < 0 for d in shape):
        raise TypeError(explain(f"broadcast_in_dim: shape must be non-negative, got {shape}."))
    if any(n not in (1, shape[d]) for n, d in zip(x.shape, dims)):
        raise TypeError(explain(
            f"broadcast_in_dim operand dimension sizes must either be 1, or be equal to their "
            f"corresponding dimensions in the target broadcast shape; got operand of shape "
            f"{x.shape}, target broadcast shape {shape}, broadcast_dimensions {dims}."))
    return ShapedArray(shape, x.dtype, x.weak_type)


def _broadcast_transpose(ct: Any, x: Any, *, shape: Shape,
                         broadcast_dimensions: Axes, sharding: Any = None) -> list[Any]:
    new = tuple(i for i in range(len(shape)) if i not in broadcast_dimensions)
    spread = tuple(d for n, d in zip(x.shape, broadcast_dimensions) if n == 1 and shape[d] != 1)
    axes = tuple(sorted(new + spread))
    if axes:
        ct = registry["reduce_sum"].bind(ct, axes=axes, out_sharding=None)
    return [reshape(ct, x.shape) if spread else ct]


def _broadcast_batch(size: int, args: Sequence[Any], dims: Sequence[int], *,
                     shape: Shape, broadcast_dimensions: Axes,
                     sharding: Any = None) -> Any:
    x = move_axis(args[0], dims[0], 0)
    moved = (0, *[d + 1 for d in broadcast_dimensions])
    return broadcast_in_dim(x, (size, *shape), moved), 0


broadcast_in_dim_p.abstract, broadcast_in_dim_p.batch = _broadcast_abstract, _broadcast_batch
broadcast_in_dim_p.jvp = linear_jvp(broadcast_in_dim_p)
broadcast_in_dim_p.transpose = _broadcast_transpose

# ---- concatenate
concatenate_p = Primitive("concatenate", moves=True, kernel="nest", keys=True)


def concatenate(xs: Sequence[Any], dimension: int) -> Any:
    return concatenate_p.bind(*xs, dimension=dimension)


def _concatenate_abstract(*xs: ShapedArray, dimension: int) -> ShapedArray:
    if not xs:
        raise TypeError("concatenate expects at least one operand, got 0.")
    first = xs[0]
    if any(x.ndim != first.ndim for x in xs) or not first.ndim:
        raise TypeError(explain(
            f"Cannot concatenate arrays with different numbers of dimensions: got "
            f"{', '.join(str(x.shape) for x in xs)}.", fix="add axes so that all ranks agree."))
    if not 0 <= dimension < first.ndim:
        raise TypeError(f"concatenate dimension out of bounds: dimension {dimension} for shapes "
                        f"{', '.join(str(x.shape) for x in xs)}.")
    rest = [without(x.shape, [dimension]) for x in xs]
    if any(r != rest[0] for r in rest):
        raise TypeError(explain(
            f"Cannot concatenate arrays with shapes that differ in dimensions other than the one "
            f"being concatenated: concatenating along dimension {dimension} for shapes "
            f"{', '.join(str(x.shape) for x in xs)}."))
    if any(x.dtype != first.dtype for x in xs):
        raise TypeError(explain(
            f"lax.concatenate requires arguments to have the same dtypes, got "
            f"{', '.join(x.dtype.name for x in xs)}.", fix="cast, or use jnp.concatenate."))
    size = sum(x.shape[dimension] for x in xs)
    shape = replaced(first.shape, dimension, size)
    return ShapedArray(shape, first.dtype, all(x.weak_type for x in xs))


def _concatenate_jvp(primals: Sequence[Any], tangents: Sequence[Any], *, dimension: int) -> Any:
    out = concatenate(primals, dimension)
    if all(is_zero(t) for t in tangents):
        return out, zero_like(out)
    return out, concatenate([instantiate(t) for t in tangents], dimension)


def _concatenate_transpose(ct: Any, *xs: Any, dimension: int) -> list[Any]:
    result, start = [], 0
    for x in xs:
        size = shape_of(x)[dimension]
        result.append(slice_in_dim(ct, start, start + size, dimension) if is_linear(x) else None)
        start += size
    return result


def _concatenate_batch(size: int, args: Sequence[Any], dims: Sequence[int | None], *,
                       dimension: int) -> Any:
    moved = all_to_front(args, dims, size)
    return concatenate(moved, dimension + 1), 0


concatenate_p.abstract, concatenate_p.jvp = _concatenate_abstract, _concatenate_jvp
concatenate_p.transpose, concatenate_p.batch = _concatenate_transpose, _concatenate_batch

# ---- slice
slice_p = Primitive("slice", moves=True, memory="view", kernel="view", keys=True)


def slice_(x: Any, start: Sequence[int], limit: Sequence[int],
           strides: Sequence[int] | None = None) -> Any:
    return slice_p.bind(x, start_indices=tuple(start), limit_indices=tuple(limit),
                        strides=None if strides is None else tuple(strides))


def slice_in_dim(x: Any, start: int, limit: int, axis: int, stride: int = 1) -> Any:
    shape = shape_of(x)
    starts, limits = [0] * len(shape), list(shape)
    starts[axis], limits[axis] = start, limit
    if stride == 1:
        return slice_(x, starts, limits)
    return slice_(x, starts, limits, [stride if i == axis else 1 for i in range(len(shape))])


def _slice_abstract(x: ShapedArray, *, start_indices: tuple[int, ...],
                    limit_indices: tuple[int, ...], strides: Any) -> ShapedArray:
    strides = strides or (1,) * x.ndim
    lengths = {len(start_indices), len(limit_indices), len(strides)}
    if lengths != {x.ndim} and x.ndim:
        raise TypeError(explain(
            f"slice: start_indices, limit_indices and strides must have one entry per axis of "
            f"{x.short()}, got {start_indices}, {limit_indices}, {strides}."))
    for s, e, t, n in zip(start_indices, limit_indices, strides, x.shape):
        if not 0 <= s <= n or not 0 <= e <= n or s > e:
            raise TypeError(explain(
                f"slice start_indices must be >= 0 and limit_indices between start and the operand "
                f"shape; got start_indices {start_indices}, limit_indices {limit_indices} for "
                f"operand shape {x.shape}."))
        if t <= 0:
            raise TypeError(f"slice strides must be positive, got {strides}")
    shape = [-(-(e - s) // t) for s, e, t in zip(start_indices, limit_indices, strides)]
    return ShapedArray(shape, x.dtype, x.weak_type)


def _slice_transpose(ct: Any, x: Any, *, start_indices: Any, limit_indices: Any,
                     strides: Any) -> list[Any]:
    n = len(x.shape)
    strides = strides or (1,) * n
    padding = []
    for s, t, size, out in zip(start_indices, strides, x.shape, shape_of(ct)):
        covered = s + (t * (out - 1) + 1 if out else 0)
        padding.append((s, size - covered, t - 1) if out else (s, size - s, t - 1))
    zero = np.zeros((), dtype_of(ct))[()]  # not weak, as in JAX: neither is the result
    return [pad(ct, zero, padding)]


def _slice_batch(size: int, args: Sequence[Any], dims: Sequence[int], *, start_indices: Any,
                 limit_indices: Any, strides: Any) -> Any:
    d = dims[0]

    def insert(values: Sequence[int], v: int) -> list[int]:
        return [*values[:d], v, *values[d:]]

    return slice_(args[0], insert(start_indices, 0), insert(limit_indices, size),
                  None if strides is None else insert(strides, 1)), d


slice_p.abstract, slice_p.batch = _slice_abstract, _slice_batch
slice_p.jvp = linear_jvp(slice_p)
slice_p.transpose = _slice_transpose

# ---- pad (low, high, interior per axis; negative low and high crop)
pad_p = Primitive("pad", moves=True, memory="folds", kernel="nest")


def pad(x: Any, value: Any, padding_config: Sequence[tuple[int, int, int]]) -> Any:
    config = tuple(tuple(as_size(v) for v in p) for p in padding_config)
    return pad_p.bind(x, value, padding_config=config)


def padded_size(n: int, low: int, high: int, interior: int) -> int:
    return low + high + n + (interior * max_dim(0, n - 1) if interior else 0)


def _pad_abstract(x: ShapedArray, value: ShapedArray, *, padding_config: Any) -> ShapedArray:
    ew.check_dtypes("pad", ew.ANY, [x, value])
    if value.shape:
        raise ValueError(f"padding_value must be a scalar; got shape {value.shape}")
    if len(padding_config) != x.ndim:
        raise ValueError(f"length of padding_config must equal the number of axes of operand, got "
                        f"padding_config {padding_config} for operand shape {x.shape}")
    if any(i < 0 for _, _, i in padding_config):
        raise TypeError(f"interior padding in padding_config must be nonnegative, got "
                        f"padding_config {padding_config}")
    shape = [padded_size(n, *p) for n, p in zip(x.shape, padding_config)]
    if any(d < 0 for d in shape):
        raise TypeError(explain(
            f"Dimension size after padding is not at least 0, got result dimension {shape}, for "
            f"padding_config {padding_config} operand shape {x.shape}."))
    return ShapedArray(shape, x.dtype, x.weak_type and value.weak_type)


def _pad_jvp(primals: Sequence[Any], tangents: Sequence[Any], *, padding_config: Any) -> Any:
    out = pad_p.bind(*primals, padding_config=padding_config)
    t, tv = tangents
    if is_zero(t) and is_zero(tv):
        return out, zero_like(out)
    t = instantiate(zero_like(primals[0]) if is_zero(t) else t)
    tv = ew.const(t, 0) if is_zero(tv) else tv
    return out, pad(t, tv, padding_config)


def _pad_transpose(ct: Any, x: Any, value: Any, *, padding_config: Any) -> list[Any]:
    def back(ct: Any, shape: Shape) -> Any:
        if all(isinstance(n, int) and n >= 0 for lo, hi, _ in padding_config for n in (lo, hi)):
            starts, ends, inside = zip(*padding_config) if shape else ((), (), ())
            return slice_(ct, starts, [n - hi for n, hi in zip(shape_of(ct), ends)],
                          [i + 1 for i in inside])
        uncropped = pad(ct, ew.const(ct, 0), [(-lo, -hi, 0) for lo, hi, _ in padding_config])
        steps = [i + 1 for _, _, i in padding_config]
        return slice_(uncropped, [0] * len(shape), shape_of(uncropped), steps)

    if is_linear(x):
        t = back(ct, x.shape)
    result: list[Any] = [t if is_linear(x) else None, None]
    if is_linear(value):
        every = registry["reduce_sum"].bind(ct, axes=tuple(range(ndim_of(ct))),
                                            out_sharding=None) if ndim_of(ct) else ct
        shape = shape_of(x)
        own = back(ct, shape)
        inside = registry["reduce_sum"].bind(own, axes=tuple(range(len(shape))),
                                             out_sharding=None) if shape else own
        result[1] = ew.sub(every, inside)
    return result


def _pad_batch(size: int, args: Sequence[Any], dims: Sequence[int | None], *,
               padding_config: Any) -> Any:
    x, value = args
    moved = to_front(x, dims[0], size)
    config = ((0, 0, 0), *padding_config)
    if dims[1] is None:
        return pad(moved, value, config), 0
    # a batch of padding values: pad a mask, then choose
    mask = pad(ew.match_shape(np.True_, shape_of(moved)), np.False_, config)
    inner = pad(moved, ew.const(moved, 0), config)
    fill = broadcast_in_dim(value, shape_of(inner), (0,))
    return ew.select_n(mask, fill, inner), 0


pad_p.abstract, pad_p.jvp = _pad_abstract, _pad_jvp
pad_p.transpose, pad_p.batch = _pad_transpose, _pad_batch

# ---- rev
rev_p = Primitive("rev", moves=True, memory="view", kernel="view", keys=True)


def rev(x: Any, dimensions: Sequence[int]) -> Any:
    return rev_p.bind(x, dimensions=tuple(dimensions))


def _rev_abstract(x: ShapedArray, *, dimensions: Axes) -> ShapedArray:
    if len(set(dimensions)) != len(dimensions):
        raise ValueError(f"rev dimensions must be unique, got {dimensions}.")
    if any(not 0 <= d < x.ndim for d in dimensions):
        raise TypeError(explain(f"rev dimensions must all be less than operand ndim, got "
                                f"dimensions {dimensions} for operand ndim {x.ndim}."))
    return x


rev_p.abstract = _rev_abstract
rev_p.jvp = linear_jvp(rev_p)
rev_p.transpose = lambda ct, x, *, dimensions: [rev(ct, dimensions)]
rev_p.batch = lambda size, a, d, *, dimensions: (
    rev(a[0], [i + (i >= d[0]) for i in dimensions]), d[0])

# ---- squeeze
squeeze_p = Primitive("squeeze", moves=True, memory="view", kernel="view", keys=True)


def squeeze(x: Any, dimensions: Sequence[int]) -> Any:
    return squeeze_p.bind(x, dimensions=tuple(dimensions)) if dimensions else x


def _squeeze_abstract(x: ShapedArray, *, dimensions: Axes) -> ShapedArray:
    if any(x.shape[d] != 1 for d in dimensions):
        raise ValueError(explain(
            f"cannot select an axis to squeeze out which has size not equal to one, got "
            f"shape={x.shape} and dimensions={dimensions}"))
    shape = [n for i, n in enumerate(x.shape) if i not in dimensions]
    return ShapedArray(shape, x.dtype, x.weak_type)


def _squeeze_batch(size: int, args: Sequence[Any], dims: Sequence[int], *,
                   dimensions: Axes) -> Any:
    d = dims[0]
    moved = [i + (i >= d) for i in dimensions]
    return squeeze(args[0], moved), d - sum(i < d for i in moved)


squeeze_p.abstract, squeeze_p.batch = _squeeze_abstract, _squeeze_batch
squeeze_p.jvp = linear_jvp(squeeze_p)
squeeze_p.transpose = lambda ct, x, *, dimensions: [reshape(ct, x.shape)]

# ---- iota
iota_p = Primitive("iota", differentiable=False, moves=True, memory="fresh", kernel="nest")


def _iota_abstract(*, dtype: Any, shape: Shape, dimension: int,
                   sharding: Any = None) -> ShapedArray:
    if not dtypes.is_integer(dtype) and not dtypes.is_inexact(dtype):
        raise TypeError(explain(f"iota does not accept dtype {dtype}. Accepted dtypes: numbers."))
    if not 0 <= dimension < len(shape):
        raise ValueError(f"iota dimension must be between 0 and len(shape), got {dimension} for "
                         f"shape {shape}")
    check_positions("iota", shape[dimension], dtype)
    return ShapedArray(shape, dtype)


def iota(dtype: Any, shape: Sequence[int], dimension: int = 0) -> Any:
    return iota_p.bind(dtype=np.dtype(dtype), shape=tuple(shape), dimension=dimension,
                       sharding=None)


def _no_operands(size: int, args: Sequence[Any], dims: Sequence[Any], **params: Any) -> Any:
    raise AssertionError("iota has no operands to batch")


iota_p.abstract = _iota_abstract
iota_p.batch = _no_operands

# ---- dim_as_value: a dimension that is known at the call only, as an integer
dim_as_value_p = Primitive("dim_as_value", differentiable=False, moves=True)
dim_as_value_p.abstract = lambda *, dim: dim.aval
dim_as_value_p.batch = _no_operands


def _value_of(d: Dim, dtype: Any) -> Any:
    value = dim_as_value_p.bind(dim=d)
    return value if dtype is None else registry["convert_element_type"].bind(
        value, new_dtype=np.dtype(dtype), weak_type=False, sharding=None)


as_value[0] = _value_of
