"""gather: windows of an operand at positions that an index array holds.

Index vectors lie along the last axis of the indices.  Positions are never read outside the operand:
CLIP (and PROMISE_IN_BOUNDS) move a window inside, FILL_OR_DROP replaces one that overhangs by
fill_value.  Start reading at `gather_shape`; scatter.py is the other direction.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from typing import Any, NamedTuple

from calque.core import dtypes
from calque.core.avals import ShapedArray, dtype_of
from calque.core.errors import explain
from calque.core.primitive import Primitive, registry
from calque.core.types import Shape
from calque.core.zeros import is_zero, zero_like, zeros
from calque.transforms.vmap import to_front


class GatherScatterMode(enum.Enum):
    """What happens to windows that are not inside the operand.

    CLIP: they are moved inside.
    FILL_OR_DROP: gather gives fill_value, scatter leaves them out.
    ONE_HOT: of take_along_axis only: FILL_OR_DROP with 0.
    PROMISE_IN_BOUNDS: the caller says that there are none (here: treated as CLIP by gather and as
      FILL_OR_DROP by scatter, so that a broken promise reads and writes no foreign memory).

    Example:
      >>> from calque import lax
      >>> lax.GatherScatterMode.from_any("clip")
      <GatherScatterMode.CLIP: 1>
    """

    CLIP = enum.auto()
    FILL_OR_DROP = enum.auto()
    PROMISE_IN_BOUNDS = enum.auto()
    ONE_HOT = enum.auto()

    @staticmethod
    def from_any(s: Any) -> GatherScatterMode:
        """A mode from its name; None is FILL_OR_DROP."""
        if isinstance(s, GatherScatterMode):
            return s
        found = _MODES.get(s) if s is None or isinstance(s, str) else None
        if found is None:
            raise ValueError(
                explain(
                    f'Unknown gather mode "{s}"',
                    fix="use 'clip', 'fill', 'drop' or 'promise_in_bounds'.",
                )
            )
        return found


_MODES = {
    None: GatherScatterMode.FILL_OR_DROP,
    "fill": GatherScatterMode.FILL_OR_DROP,
    "drop": GatherScatterMode.FILL_OR_DROP,
    "clip": GatherScatterMode.CLIP,
    "promise_in_bounds": GatherScatterMode.PROMISE_IN_BOUNDS,
    "one_hot": GatherScatterMode.ONE_HOT,
}


class GatherDimensionNumbers(NamedTuple):
    """Which axes a gather reads and where its windows go.

    offset_dims: axes of the result that are the window's (without the collapsed ones), sorted.
    collapsed_slice_dims: axes of the operand with windows of size 1 that the result drops, sorted.
    start_index_map: the axis of the operand that each entry of an index vector is a position on.
    operand_batching_dims: axes of the operand that go along with axes of the indices, sorted.
    start_indices_batching_dims: those axes of the indices.

    Example:
      >>> from calque import lax
      >>> lax.GatherDimensionNumbers(
      ...     offset_dims=(1,), collapsed_slice_dims=(0,), start_index_map=(0,)).offset_dims
      (1,)
    """

    offset_dims: tuple[int, ...]
    collapsed_slice_dims: tuple[int, ...]
    start_index_map: tuple[int, ...]
    operand_batching_dims: tuple[int, ...] = ()
    start_indices_batching_dims: tuple[int, ...] = ()


class ScatterDimensionNumbers(NamedTuple):
    """Which axes a scatter writes and where the updates' windows lie.

    update_window_dims: axes of the updates that are the window's, sorted.
    inserted_window_dims: axes of the operand with windows of size 1 that the updates lack, sorted.
    scatter_dims_to_operand_dims: the axis of the operand that each entry of an index vector is for.
    operand_batching_dims: axes of the operand that go along with axes of the indices, sorted.
    scatter_indices_batching_dims: those axes of the indices.

    Example:
      >>> from calque import lax
      >>> lax.ScatterDimensionNumbers(update_window_dims=(1,), inserted_window_dims=(0,),
      ...                             scatter_dims_to_operand_dims=(0,)).update_window_dims
      (1,)
    """

    update_window_dims: tuple[int, ...]
    inserted_window_dims: tuple[int, ...]
    scatter_dims_to_operand_dims: tuple[int, ...]
    operand_batching_dims: tuple[int, ...] = ()
    scatter_indices_batching_dims: tuple[int, ...] = ()


gather_p = Primitive("gather", moves=True, kernel="nest", keys=True)


def gather(
    x: Any,
    indices: Any,
    dimension_numbers: GatherDimensionNumbers,
    slice_sizes: Sequence[int],
    *,
    mode: GatherScatterMode,
    fill_value: Any = None,
    indices_are_sorted: bool = False,
    unique_indices: bool = False,
) -> Any:
    return gather_p.bind(
        x,
        indices,
        dimension_numbers=dimension_numbers,
        slice_sizes=tuple(slice_sizes),
        indices_are_sorted=indices_are_sorted,
        unique_indices=unique_indices,
        mode=mode,
        fill_value=fill_value,
    )


# ---- checks: shared with scatter, which says where as "gather" or "scatter"
def check_sorted_unique(op: str, name: str, dims: Sequence[int]) -> None:
    if list(dims) != sorted(dims):
        raise TypeError(explain(f"{name} in {op} op must be sorted; got {tuple(dims)}"))
    check_unique(op, name, dims)


def check_unique(op: str, name: str, dims: Sequence[int]) -> None:
    if len(set(dims)) != len(dims):
        raise TypeError(explain(f"{name} in {op} op must not repeat; got: {tuple(dims)}."))


def check_range(op: str, name: str, dims: Sequence[int], bound: int) -> None:
    for d in dims:
        if not 0 <= d < bound:
            raise TypeError(
                explain(f"Invalid {name} set in {op} op; valid range is [0, {bound}); got: {d}.")
            )


def check_map(name: str, word: str, dims: Sequence[int], bound: int) -> None:
    for i, d in enumerate(dims):
        if not 0 <= d < bound:
            raise TypeError(
                explain(f"Invalid {name}{word}; domain is [0, {bound}), got: {i}->{d}.")
            )


def check_batching(
    op: str,
    x: ShapedArray,
    indices: ShapedArray,
    collapsed: tuple[str, Sequence[int]],
    operand_dims: Sequence[int],
    index_name: str,
    index_dims: Sequence[int],
) -> None:
    """The batching dims of operand and indices: paired, of equal sizes, apart from all others."""
    name = "operand_batching_dims"
    check_sorted_unique(op, name, operand_dims)
    check_range(op, name, operand_dims, x.ndim)
    check_unique(op, index_name, index_dims)
    check_range(op, index_name, index_dims, indices.ndim)
    if len(operand_dims) != len(index_dims):
        raise TypeError(
            explain(
                f"{op.capitalize()} op requires equal numbers of {name} and {index_name}, got "
                f"{tuple(operand_dims)} and{tuple(index_dims)}."
            )
        )
    if set(operand_dims) & set(collapsed[1]):
        raise TypeError(
            explain(
                f"{collapsed[0]} and {name} in {op} op must be disjoint; got: "
                f"{tuple(collapsed[1])} and {tuple(operand_dims)}."
            )
        )
    if indices.ndim - 1 in index_dims:
        raise TypeError(
            explain(
                f"{op.capitalize()} op cannot have the index vector dimension as a batching "
                f"dimension; got {index_name}={tuple(index_dims)}."
            )
        )
    sizes = [
        tuple(a.shape[d] for d in dims) for a, dims in ((x, operand_dims), (indices, index_dims))
    ]
    if sizes[0] != sizes[1]:
        raise TypeError(
            explain(
                f"{op.capitalize()} op requires operand batching dimensions and indices batching "
                "dimensions to have "
                f"the same shape, got {sizes[0]} and {sizes[1]}."
            )
        )


def check_indices(op: str, indices: ShapedArray) -> None:
    if not dtypes.is_integer(indices.dtype):
        raise ValueError(
            explain("indices must have an integer type", fix="convert them with .astype(int).")
        )
    if not indices.ndim:
        raise TypeError(
            explain(
                f"{op.capitalize()} index leaf dimension must be within [0, rank(indices) + 1). "
                "rank(indices) is 0 "
                f"and {op} index leaf dimension is -1.",
                fix="the last axis of the indices holds index vectors.",
            )
        )


def gather_shape(
    x: ShapedArray, indices: ShapedArray, d: GatherDimensionNumbers, sizes: Sequence[int]
) -> Shape:
    """The result's shape: axes of the indices but the last, with the window's at offset_dims."""
    check_indices("gather", indices)
    _check_dimensions(x, indices, d, sizes)
    dropped = {*d.collapsed_slice_dims, *d.operand_batching_dims}
    window = iter(n for i, n in enumerate(sizes) if i not in dropped)
    batch = iter(indices.shape[:-1])
    rank = indices.ndim - 1 + len(d.offset_dims)
    return tuple(next(window) if i in d.offset_dims else next(batch) for i in range(rank))


def _check_dimensions(
    x: ShapedArray, indices: ShapedArray, d: GatherDimensionNumbers, sizes: Sequence[int]
) -> None:
    check_sorted_unique("gather", "offset_dims", d.offset_dims)
    rank = indices.ndim - 1 + len(d.offset_dims)
    for i, o in enumerate(d.offset_dims):
        if not 0 <= o < rank:
            raise TypeError(
                explain(
                    f"Offset dimension {i} in gather op is out of bounds; got {o}, but should "
                    f"have been in [0, {rank})"
                )
            )
    if len(d.start_index_map) != indices.shape[-1]:
        raise TypeError(
            explain(
                f"Gather op has {len(d.start_index_map)} elements in start_index_map and the bound "
                "of dimension "
                f"index_vector_dim={indices.ndim - 1} of indices is {indices.shape[-1]}. These two "
                "numbers must be "
                "equal."
            )
        )
    check_map("start_index_map", "", d.start_index_map, x.ndim)
    check_unique("gather", "start_index_map", d.start_index_map)
    check_sorted_unique("gather", "collapsed_slice_dims", d.collapsed_slice_dims)
    check_range("gather", "collapsed_slice_dims", d.collapsed_slice_dims, x.ndim)
    check_batching(
        "gather",
        x,
        indices,
        ("collapsed_slice_dims", d.collapsed_slice_dims),
        d.operand_batching_dims,
        "start_indices_batching_dims",
        d.start_indices_batching_dims,
    )
    if set(d.start_index_map) & set(d.operand_batching_dims):
        raise TypeError(
            explain(
                "start_index_map and operand_batching_dims in gather op must be disjoint; got: "
                f"{d.start_index_map} and {d.operand_batching_dims}."
            )
        )
    if len(sizes) != x.ndim:
        raise TypeError(
            explain(
                "Gather op must have one slice size for every input dimension; got: "
                f"len(slice_sizes)={len(sizes)}, input_shape.rank={x.ndim}"
            )
        )
    if len(sizes) != len(d.offset_dims) + len(d.collapsed_slice_dims) + len(
        d.operand_batching_dims
    ):
        raise TypeError(
            explain(
                "All components of the offset index in a gather op must either be a offset "
                "dimension or explicitly "
                f"collapsed/batching; got len(slice_sizes)={len(sizes)}, "
                f"output_slice_sizes={tuple(sizes)}, "
                f"collapsed_slice_dims={d.collapsed_slice_dims}, "
                f"operand_batching_dims={d.operand_batching_dims}."
            )
        )
    for i, (s, n) in enumerate(zip(sizes, x.shape)):
        if not 0 <= s <= n:
            raise TypeError(
                explain(
                    f"Slice size at index {i} in gather op is out of range, must be within [0, "
                    f"{n} + 1), got {s}."
                )
            )
    for i, k in enumerate(d.collapsed_slice_dims):
        if sizes[k] != 1:
            raise TypeError(
                explain(
                    f"Gather op can only collapse slice dims with bound 1, but bound is {sizes[k]} "
                    f"for index {k} at position {i}."
                )
            )
    for i, k in enumerate(d.operand_batching_dims):
        if sizes[k] > 1:
            raise TypeError(
                explain(
                    "Gather op can only have operand batching dims with bound 0/1, but bound is "
                    f"{sizes[k]} for index {k} at position {i}."
                )
            )


# ---- rules
def _abstract(
    x: ShapedArray,
    indices: ShapedArray,
    *,
    dimension_numbers: GatherDimensionNumbers,
    slice_sizes: Shape,
    **params: Any,
) -> ShapedArray:
    return ShapedArray(
        gather_shape(x, indices, dimension_numbers, slice_sizes), x.dtype, x.weak_type
    )


def _jvp(primals: Sequence[Any], tangents: Sequence[Any], **params: Any) -> Any:
    out = gather_p.bind(*primals, **params)
    if is_zero(tangents[0]):
        return out, zero_like(out)
    fill = (
        {**params, "fill_value": 0} if params["mode"] is GatherScatterMode.FILL_OR_DROP else params
    )
    return out, gather_p.bind(tangents[0], primals[1], **fill)


def _transpose(
    ct: Any,
    x: Any,
    indices: Any,
    *,
    dimension_numbers: GatherDimensionNumbers,
    mode: Any,
    indices_are_sorted: bool,
    unique_indices: bool,
    **params: Any,
) -> list[Any]:
    d = dimension_numbers
    blank = zeros(ShapedArray(x.aval.shape, dtype_of(ct)))
    # The same axes, of what is written.  Windows outside, where the caller has promised that there
    # are none, were read inside and get nothing back: as in JAX, where both are undefined.
    numbers = ScatterDimensionNumbers(*d)
    return [
        registry["scatter-add"].bind(
            blank,
            indices,
            ct,
            dimension_numbers=numbers,
            indices_are_sorted=indices_are_sorted,
            unique_indices=unique_indices,
            mode=mode,
            update_jaxpr=None,
            update_consts=(),
        ),
        None,
    ]


def shifted(dims: Sequence[int]) -> tuple[int, ...]:
    """Axes after one more in front."""
    return tuple(d + 1 for d in dims)


def with_window_axis(d: Any) -> Any:
    """The numbers for an operand with one more axis in front, which belongs to the window."""
    window, dropped, axes, batch, indices_batch = d
    return type(d)(
        (0, *shifted(window)), shifted(dropped), shifted(axes), shifted(batch), indices_batch
    )


def with_batch_axis(d: Any) -> Any:
    """The numbers for an operand and indices with one more axis in front, which go together."""
    window, dropped, axes, batch, indices_batch = d
    return type(d)(
        shifted(window),
        shifted(dropped),
        shifted(axes),
        (0, *shifted(batch)),
        (0, *shifted(indices_batch)),
    )


def _batch(
    size: int,
    args: Sequence[Any],
    dims: Sequence[int | None],
    *,
    dimension_numbers: GatherDimensionNumbers,
    slice_sizes: Shape,
    **params: Any,
) -> Any:
    (x, indices), (dx, di), d = args, dims, dimension_numbers
    if dx is None:
        numbers = d._replace(
            offset_dims=shifted(d.offset_dims),
            start_indices_batching_dims=shifted(d.start_indices_batching_dims),
        )
        return gather(x, to_front(indices, di, size), numbers, slice_sizes, **params), 0
    x = to_front(x, dx, size)
    if di is None:
        return gather(x, indices, with_window_axis(d), (size, *slice_sizes), **params), 0
    indices, sizes = to_front(indices, di, size), (min(1, size), *slice_sizes)
    return gather(x, indices, with_batch_axis(d), sizes, **params), 0


gather_p.abstract, gather_p.jvp, gather_p.transpose, gather_p.batch = (
    _abstract,
    _jvp,
    _transpose,
    _batch,
)


def default_fill(dtype: Any) -> Any:
    """What FILL_OR_DROP puts in: NaN, the smallest signed, the largest unsigned integer, True."""
    if dtypes.is_key(dtype):  # of each of its words
        return 2**32 - 1
    if dtypes.is_inexact(dtype):
        return float("nan")
    if dtype == dtypes.bool_:
        return True
    limits = dtypes.iinfo(dtype)
    return int(limits.max if dtypes.is_unsigned(dtype) else limits.min)
