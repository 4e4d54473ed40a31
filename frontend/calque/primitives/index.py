"""Indexing at traced positions: dynamic_slice and dynamic_update_slice.

Start indices are clamped so that the window lies inside the operand (XLA's rule).
"""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from calque.core import dtypes
from calque.core.avals import ShapedArray, dtype_of, shape_of
from calque.core.errors import explain
from calque.core.lists import inserted
from calque.core.primitive import Primitive, is_linear
from calque.core.types import Shape
from calque.core.zeros import instantiate, is_zero, zero_like, zeros
from calque.primitives import elementwise as ew
from calque.primitives import shape as sh
from calque.primitives.gather import (
    GatherDimensionNumbers,
    GatherScatterMode,
    ScatterDimensionNumbers,
    gather,
)
from calque.primitives.scatter import scatter, scatter_p
from calque.transforms.jvp import linear_jvp
from calque.transforms.vmap import all_to_front, to_front

dynamic_slice_p = Primitive("dynamic_slice", moves=True, kernel="view", keys=True)
dynamic_update_slice_p = Primitive("dynamic_update_slice", moves=True, memory="updates",
                                   kernel="nest", keys=True)


def dynamic_slice(x: Any, starts: Sequence[Any], sizes: Sequence[int]) -> Any:
    return dynamic_slice_p.bind(x, *starts, slice_sizes=tuple(sizes))


def dynamic_update_slice(x: Any, update: Any, starts: Sequence[Any]) -> Any:
    return dynamic_update_slice_p.bind(x, update, *starts)


def _check_starts(name: str, x: ShapedArray, starts: Sequence[ShapedArray]) -> None:
    if len(starts) != x.ndim:
        raise ValueError(explain(f"{name}: start_indices must have one entry per axis of "
                                 f"{x.short()}, got {len(starts)}."))
    for s in starts:
        if s.shape or not dtypes.is_integer(s.dtype):
            raise TypeError(explain(f"{name}: index arguments must be integers of shape (), got "
                                    f"{s.short()}."))


def _slice_abstract(x: ShapedArray, *starts: ShapedArray,
                    slice_sizes: Shape) -> ShapedArray:
    _check_starts("dynamic_slice", x, starts)
    if len(slice_sizes) != x.ndim:
        raise ValueError(explain(f"dynamic_slice: slice_sizes must have one entry per axis of "
                                 f"{x.short()}, got {slice_sizes}."))
    if any(
            not 0 <= s <= n for s, n in zip(slice_sizes, x.shape)):
        raise TypeError(explain(
            f"slice slice_sizes must be less than or equal to operand shape, got slice_sizes "
            f"{slice_sizes} for operand shape {x.shape}."))
    return ShapedArray(slice_sizes, x.dtype, x.weak_type)


def _slice_transpose(ct: Any, x: Any, *starts: Any, slice_sizes: Shape) -> list[Any]:
    blank = zeros(ShapedArray(x.aval.shape, dtype_of(ct)))
    return [dynamic_update_slice(blank, ct, starts), *[None] * len(starts)]


def _slice_batch(size: int, args: Sequence[Any], dims: Sequence[int | None], *,
                 slice_sizes: Shape) -> Any:
    if all(d is None for d in dims[1:]):
        x, d = args[0], dims[0]
        assert d is not None
        zero = ew.const(args[1], 0) if len(args) > 1 else 0
        starts = [*args[1:1 + d], zero, *args[1 + d:]]
        return dynamic_slice(x, starts, inserted(slice_sizes, d, size)), d
    vectors = _vectors(size, args[1:], dims[1:])
    n = len(slice_sizes)
    axes = tuple(range(1, n + 1))
    if dims[0] is None:
        numbers = GatherDimensionNumbers(axes, (), tuple(range(n)))
        return gather(args[0], vectors, numbers, slice_sizes, mode=GatherScatterMode.CLIP), 0
    numbers = GatherDimensionNumbers(axes, (), axes, (0,), (0,))
    x = to_front(args[0], dims[0], size)
    return gather(x, vectors, numbers, (min(1, size), *slice_sizes), mode=GatherScatterMode.CLIP), 0


def _vectors(size: int, starts: Sequence[Any], dims: Sequence[int | None]) -> Any:
    """Batches of start indices as index vectors, (size, number of axes)."""
    kind = dtypes.promote([(dtype_of(s), False) for s in starts])[0]
    columns = all_to_front(starts, dims, size)
    columns = [sh.reshape(ew.convert(c, kind), (size, 1)) for c in columns]
    return sh.concatenate(columns, 1)


dynamic_slice_p.abstract = _slice_abstract
dynamic_slice_p.jvp = linear_jvp(dynamic_slice_p)
dynamic_slice_p.transpose, dynamic_slice_p.batch = _slice_transpose, _slice_batch


def _update_abstract(x: ShapedArray, update: ShapedArray, *starts: ShapedArray) -> ShapedArray:
    ew.check_dtypes("dynamic_update_slice", ew.ANY, [x, update])
    _check_starts("dynamic_update_slice", x, starts)
    if update.ndim != x.ndim or any(u > n for u, n in zip(update.shape, x.shape)):
        raise TypeError(explain(
            f"dynamic_update_slice update shape must be smaller than operand shape, got update "
            f"shape {update.shape} for operand shape {x.shape}."))
    return ShapedArray(x.shape, x.dtype, x.weak_type and update.weak_type)


def _update_jvp(primals: Sequence[Any], tangents: Sequence[Any]) -> Any:
    out = dynamic_update_slice_p.bind(*primals)
    tx, tu = tangents[:2]
    if is_zero(tx) and is_zero(tu):
        return out, zero_like(out)
    return out, dynamic_update_slice(instantiate(tx), instantiate(tu), primals[2:])


def _update_transpose(ct: Any, x: Any, update: Any, *starts: Any) -> list[Any]:
    result: list[Any] = [None, None, *[None] * len(starts)]
    shape = shape_of(update)
    if is_linear(x):
        blank = zeros(ShapedArray(shape, dtype_of(ct)))
        result[0] = dynamic_update_slice(ct, blank, starts)
    if is_linear(update):
        result[1] = dynamic_slice(ct, starts, shape)
    return result


def _update_batch(size: int, args: Sequence[Any], dims: Sequence[int | None]) -> Any:
    if all(d is None for d in dims[2:]):
        x, update = (to_front(a, d, size) for a, d in zip(args[:2], dims[:2]))
        zero = ew.const(args[2], 0) if len(args) > 2 else 0
        return dynamic_update_slice(x, update, [zero, *args[2:]]), 0
    x, update = (to_front(a, d, size) for a, d in zip(args[:2], dims[:2]))
    axes = tuple(range(1, len(args) - 1))
    numbers = ScatterDimensionNumbers(axes, (), axes, (0,), (0,))
    return scatter(scatter_p, x, _vectors(size, args[2:], dims[2:]), update, numbers,
                   mode=GatherScatterMode.CLIP), 0


dynamic_update_slice_p.abstract, dynamic_update_slice_p.jvp = _update_abstract, _update_jvp
dynamic_update_slice_p.transpose = _update_transpose
dynamic_update_slice_p.batch = _update_batch
