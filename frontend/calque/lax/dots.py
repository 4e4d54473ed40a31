"""lax contractions over groups of rows, and of scaled operands: ragged_dot, scaled_dot.

A ragged product is one dense product over groups, with masks that leave each row to its group.
Start reading at `ragged_dot_general`.
"""
from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from calque.core import dtypes
from calque.core.avals import ShapedArray, aval_of, dtype_of, ndim_of, shape_of
from calque.core.errors import explain
from calque.core.lists import other_axes
from calque.core.types import Shape
from calque.dispatch.eager import lazy_eval
from calque.dispatch.sharded.placing import resharded
from calque.lax.contract import dot_general
from calque.lax.operands import as_operand, user_dtype
from calque.lax.shape import unchanged
from calque.primitives import contract as ct
from calque.primitives import elementwise as ew
from calque.primitives import shape as sh
from calque.primitives.cumulative import cumsum_p


@dataclass(frozen=True)
class RaggedDotDimensionNumbers:
    """Which axes ragged_dot_general contracts, batches, groups.

    Args:
      dot_dimension_numbers: ((lhs contracted, rhs contracted), (lhs batch, rhs batch)) axes.
      lhs_ragged_dimensions: the one axis of lhs that is cut in groups.
      rhs_group_dimensions: the axis of rhs that holds a matrix per group, where there is one.

    Example:
      >>> from calque import lax
      >>> lax.RaggedDotDimensionNumbers((([1], [1]), ([], [])), [0], [0]).lhs_ragged_dimensions
      (0,)
    """

    dot_dimension_numbers: Any
    lhs_ragged_dimensions: Sequence[int]
    rhs_group_dimensions: Sequence[int]

    def __post_init__(self) -> None:
        dims = tuple(tuple(tuple(map(int, axes)) for axes in pair)
                     for pair in self.dot_dimension_numbers)
        object.__setattr__(self, "dot_dimension_numbers", dims)
        for name in ("lhs_ragged_dimensions", "rhs_group_dimensions"):
            object.__setattr__(self, name, tuple(map(int, getattr(self, name))))


def _fail(text: str, fix: str = "") -> Exception:
    return TypeError(explain(text, fix=fix))


def _checked(lhs: ShapedArray, rhs: ShapedArray, sizes: ShapedArray,
             numbers: RaggedDotDimensionNumbers) -> tuple[str, int, tuple[int, ...]]:
    """(mode, ragged axis, axes of lhs that group sizes may differ by)."""
    name = "ragged_dot_general"
    if not dtypes.is_integer(sizes.dtype):
        raise _fail(f"{name} requires that group_sizes.dtype is subtype of np.integer.",
                    "cast group_sizes with .astype('int32').")
    (lc, rc), (lb, rb) = numbers.dot_dimension_numbers
    ragged, groups = numbers.lhs_ragged_dimensions, numbers.rhs_group_dimensions
    if len(ragged) != 1:
        raise _fail(f"{name} expects exactly one lhs ragged dimension.")
    axis = ragged[0]
    if not 0 <= axis < lhs.ndim:
        raise _fail(f"{name} requires lhs ragged dimension numbers to be nonnegative and less than "
                    f"the number of axes of the lhs value, got {axis} for lhs of rank {lhs.ndim}.")
    ct.dot_general_p.rule("abstract")(
        lhs, rhs, dimension_numbers=numbers.dot_dimension_numbers, precision=None,
        preferred_element_type=dtypes.float32)
    mode = "contracting" if axis in lc else "batch" if axis in lb else "noncontracting"
    if mode == "noncontracting":
        if len(groups) != 1:
            raise _fail(f"{name} requires exactly one rhs group dimension when lhs ragged "
                        "dimension is noncontracting.")
        if not 0 <= groups[0] < rhs.ndim:
            raise _fail(f"{name} requires rhs group dimension numbers to be nonnegative and less "
                        f"than the number of axes of the rhs value, got {groups[0]} for rhs of "
                        f"rank {rhs.ndim}.")
        if groups[0] in (*rc, *rb):
            raise _fail(f"{name} requires rhs group dimension numbers to be distinct from "
                        "contracting and batch dimensions.")
        free = other_axes(lhs.ndim, lc, lb)
        outer = (*lb, *[a for a in free if a < axis])
    elif groups:
        raise _fail(f"{name} requires zero group dimensions in the rhs when lhs ragged dimension "
                    "is contracting or batch.")
    elif mode == "contracting":
        outer = (*lb, *lc[:lc.index(axis)])
    else:
        outer = tuple(lb[:lb.index(axis)])
    if not sizes.ndim:
        raise _fail(f"expected rank of group_sizes of at least 1, got {sizes.short()}.")
    count = sizes.shape[-1]
    want = (*[lhs.shape[a] for a in outer], count)
    if sizes.shape not in ((count,), want):
        raise _fail(f"expected group_sizes to have shape {want}, got {sizes.shape}.")
    if mode == "noncontracting" and rhs.shape[groups[0]] != count:
        raise _fail(f"expected rhs group dimension size to be {count}, got {rhs.shape[groups[0]]}.")
    return mode, axis, outer


def _mask(sizes: Any, shape: Shape, axis: int, outer: tuple[int, ...]) -> Any:
    """(*shape, groups): whether an element's index along axis lies in a group."""
    count, rank = shape_of(sizes)[-1], len(shape)
    full = (*shape, count)
    lead = outer if ndim_of(sizes) > 1 else ()
    axes = (*lead, rank)
    order = [int(i) for i in np.argsort(axes)]
    ends = cumsum_p.bind(sizes, axis=len(lead), reverse=False)
    starts = ew.sub(ends, sizes)
    starts, ends = (sh.broadcast_in_dim(sh.transpose(v, order), full, sorted(axes))
                    for v in (starts, ends))
    at = sh.iota(dtype_of(sizes), full, axis)
    return ew.and_(ew.le(starts, at), ew.lt(at, ends))


def _by_group(x: Any, mask: Any) -> Any:
    """x with an axis of groups behind, 0 where the mask is."""
    shape = shape_of(mask)
    wide = sh.columns_of(x, shape)
    zero = sh.broadcast_in_dim(np.zeros((), dtype_of(x)), shape, ())
    return ew.select_n(mask, zero, wide)


def ragged_dot_general(lhs: Any, rhs: Any, group_sizes: Any,
                       ragged_dot_dimension_numbers: RaggedDotDimensionNumbers,
                       precision: Any = None, preferred_element_type: Any = None,
                       group_offset: Any = None, out_sharding: Any = None) -> Any:
    """Products of consecutive groups of rows, each with its own matrix.

    Three modes, by the kind of lhs's ragged axis: free, each group of rows is multiplied by its own
    matrix of rhs; contracted, each group gives a product of its own; batch, as dot_general.
    Rows behind the last group give 0.

    Args:
      lhs: array.
      rhs: array of the same dtype.
      group_sizes: integers, (groups,) or with leading axes: lhs's batch axes and those of its kind
        before the ragged one.
      ragged_dot_dimension_numbers: the axes.
      precision: None, a string, a Precision or a pair of them.
      preferred_element_type: the dtype of the result and its accumulation; lhs's by default.
      out_sharding: of the result, over Explicit axes: a NamedSharding, or a PartitionSpec over
        the context's mesh.

    Returns:
      dot_general's result; for a contracted ragged axis with an axis of groups in front.

    Raises:
      TypeError: sizes, axes or dtypes do not fit.
      NotImplementedError: group_offset is given.

    Example:
      >>> import numpy as np
      >>> from calque import lax
      >>> numbers = lax.RaggedDotDimensionNumbers((([0], [0]), ([], [])), [0], [])
      >>> x = np.ones((3, 1), np.float32)
      >>> lax.ragged_dot_general(x, x, np.array([1, 2]), numbers).ravel()
      Array([1., 2.], dtype=float32)
    """
    name = "ragged_dot_general"
    if out_sharding is not None:
        return resharded(name, out_sharding, ragged_dot_general, lhs, rhs, group_sizes,
                         ragged_dot_dimension_numbers, precision, preferred_element_type,
                         group_offset)
    if group_offset is not None:
        raise NotImplementedError(explain(f"{name}: group_offset is not supported.",
                                          fix="slice group_sizes, and rhs along its groups."))
    x, y, sizes = (unchanged(as_operand(name, v, i)) for i, v in
                   enumerate((lhs, rhs, group_sizes)))
    numbers = ragged_dot_dimension_numbers
    with lazy_eval(name):
        mode, axis, outer = _checked(aval_of(x), aval_of(y), aval_of(sizes), numbers)
        if dtype_of(x) != dtype_of(y):
            kind = dtypes.promote([dtypes.dtype_and_weak(v) for v in (x, y)])[0]
            x, y = ew.convert(x, kind), ew.convert(y, kind)
        (lc, rc), (lb, rb) = numbers.dot_dimension_numbers
        rank, other = ndim_of(x), ndim_of(y)
        dims: Any = ((lc, rc), (lb, rb))
        if mode == "noncontracting":
            x = _by_group(x, _mask(sizes, shape_of(x), axis, outer))
            dims = (((*lc, rank), (*rc, numbers.rhs_group_dimensions[0])), (lb, rb))
        elif mode == "contracting":
            pairs = {**dict(zip(lc, rc)), **dict(zip(lb, rb))}
            mirrored = tuple(pairs[a] for a in outer)
            y = _by_group(y, _mask(sizes, shape_of(y), pairs[axis], mirrored))
            x = _by_group(x, _mask(sizes, shape_of(x), axis, outer))
            dims = ((lc, rc), ((rank, *lb), (other, *rb)))
        return dot_general(x, y, dims, precision, preferred_element_type)


def ragged_dot(lhs: Any, rhs: Any, group_sizes: Any, precision: Any = None,
               preferred_element_type: Any = None, group_offset: Any = None,
               out_sharding: Any = None) -> Any:
    """Consecutive groups of rows, each times a matrix of its own.

    Args:
      lhs: array of shape (m, k).
      rhs: array of shape (groups, k, n), of the same dtype.
      group_sizes: integers of shape (groups,): how many rows belong to each.
      precision: None, a string, a Precision or a pair of them.
      preferred_element_type: the dtype of the result; lhs's by default.
      out_sharding: of the result, over Explicit axes: a NamedSharding, or a PartitionSpec over
        the context's mesh.

    Returns:
      An array of shape (m, n); rows behind the last group are 0.

    Raises:
      TypeError: sizes or dtypes do not fit.
      NotImplementedError: group_offset is given.

    Example:
      >>> import numpy as np
      >>> from calque import lax
      >>> x, y = np.ones((3, 1), np.float32), np.array([[[1.0]], [[5.0]]], np.float32)
      >>> lax.ragged_dot(x, y, np.array([1, 2])).ravel()
      Array([1., 5., 5.], dtype=float32)
    """
    return ragged_dot_general(
        lhs, rhs, group_sizes, RaggedDotDimensionNumbers((([1], [1]), ([], [])), [0], [0]),
        precision, preferred_element_type, group_offset, out_sharding)


def scaled_dot(lhs: Any, rhs: Any, *, lhs_scale: Any = None, rhs_scale: Any = None,
               dimension_numbers: Any = None, preferred_element_type: Any = None) -> Any:
    """(lhs * lhs_scale) times (rhs * rhs_scale), each scale for a run of contracted elements.

    Args:
      lhs: matrix or batch of matrices, (..., m, k).
      rhs: (..., k, n).
      lhs_scale: factors whose contracted axis divides lhs's; other axes are equal.
      rhs_scale: the same for rhs.
      dimension_numbers: as in dot_general; by default those of matmul.
      preferred_element_type: bfloat16 (the default) or float32.

    Returns:
      The product, in preferred_element_type.

    Raises:
      TypeError: sizes do not fit.

    Example:
      >>> import numpy as np
      >>> from calque import lax
      >>> x = np.ones((2, 4), np.float32)
      >>> lax.scaled_dot(x, x.T, lhs_scale=np.full((2, 2), 2, np.float32),
      ...                preferred_element_type=np.float32)
      Array([[8., 8.],
             [8., 8.]], dtype=float32)
    """
    x, y = unchanged(as_operand("scaled_dot", lhs)), unchanged(as_operand("scaled_dot", rhs, 1))
    rank = ndim_of(x)
    if dimension_numbers is None:
        if rank not in (2, 3):
            raise _fail(f"scaled_dot: dimension_numbers must be given for rank {rank}.")
        batch = ((0,), (0,)) if rank == 3 else ((), ())
        dimension_numbers = (((rank - 1,), (rank - 2,)), batch)
    dtype = user_dtype("scaled_dot", "bfloat16" if preferred_element_type is None
                       else preferred_element_type)
    with lazy_eval("scaled_dot"):
        parts = [_scaled(v, s, axes) for v, s, axes in
                 zip((x, y), (lhs_scale, rhs_scale), dimension_numbers[0])]
        out = dot_general(*parts, dimension_numbers, None, dtypes.float32)  # type: ignore[call-arg]
        return ew.convert(out, dtype)


def _scaled(x: Any, scale: Any, contracted: Sequence[int]) -> Any:
    """x in float32, times its scale."""
    x = ew.convert(x, dtypes.float32)
    if scale is None:
        return x
    factor = ew.convert(unchanged(as_operand("scaled_dot", scale)), dtypes.float32)
    shape, own = shape_of(x), shape_of(factor)
    fits = len(own) == len(shape) and all(
        (s and n % s == 0) if i in contracted else n == s
        for i, (n, s) in enumerate(zip(shape, own)))
    if not fits:
        raise _fail(f"scaled_dot: scale of shape {own} does not fit an operand of shape {shape}.",
                    "its contracted axis divides the operand's, the others are equal.")
    spread = tuple(v for n, s in zip(shape, own) for v in (s, n // s if s else 1))
    wide = sh.broadcast_in_dim(factor, spread, tuple(range(0, 2 * len(own), 2)))
    return ew.mul(x, sh.reshape(wide, shape))


__all__ = ["RaggedDotDimensionNumbers", "ragged_dot", "ragged_dot_general", "scaled_dot"]
