"""Indexing `x[...]`.  Here: ints, slices with any static step, Ellipsis, None, traced int scalars;
arrays of integers and booleans: calque.numpy.advanced.

`parse` turns an index into a Plan: per axis of the operand a Run (first, count, step) or a traced
position, and the shape of the result.  `take` reads, calque.numpy.at writes, both from the Plan.
"""
from __future__ import annotations

import contextvars
import operator
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from calque.core import dims, dtypes
from calque.core.avals import aval_of, dtype_of, shape_of
from calque.core.config import config
from calque.core.errors import InconclusiveDimensionOperation, explain
from calque.core.lists import as_tuple
from calque.core.trace import Tracer, at_bottom
from calque.core.types import Dtype, Shape
from calque.dispatch.array import Array
from calque.dispatch.eager import lazy_eval
from calque.lax.index import wrap_negative
from calque.lax.shape import unchanged
from calque.primitives import elementwise as ew
from calque.primitives import index as ix
from calque.primitives import shape as sh
from calque.primitives.gather import GatherDimensionNumbers, GatherScatterMode, gather

# Whether positions outside are to be seen in the Program (experimental.checkify looks for them).
watched: contextvars.ContextVar[bool] = contextvars.ContextVar("calque_watched", default=False)


@dataclass(frozen=True, slots=True)
class Run:
    """Positions first, first + step, ... (count of them) along an axis; dropped when an int."""

    first: int
    count: int
    step: int = 1
    dropped: bool = False
    outside: bool = False  # an int that was out of bounds and clamped to `first`

    @property
    def low(self) -> int:
        """The smallest position."""
        return self.first if self.step > 0 else self.first + self.step * (self.count - 1)


@dataclass(frozen=True, slots=True)
class Traced:
    """One position, known when the program runs."""

    index: Any
    size: int


@dataclass(frozen=True, slots=True)
class Plan:
    """What an index asks for."""

    axes: tuple[Run | Traced, ...]
    shape: Shape  # of the result
    kept: tuple[int, ...]  # places in the result of the axes that are not dropped

    @property
    def window(self) -> Shape:
        """The result's shape with dropped axes at size 1 and without new axes."""
        return tuple(a.count if isinstance(a, Run) else 1 for a in self.axes)

    @property
    def dropped(self) -> tuple[int, ...]:
        return tuple(i for i, a in enumerate(self.axes) if isinstance(a, Traced) or a.dropped)

    @property
    def reversed(self) -> tuple[int, ...]:
        return tuple(i for i, a in enumerate(self.axes) if isinstance(a, Run) and a.step < 0)

    @property
    def whole(self) -> bool:
        """Whether no axis has a stride."""
        return all(isinstance(a, Traced) or a.step in (1, -1) for a in self.axes)


def refusal(item: Any) -> Exception:
    """The error for what is no index."""
    if isinstance(item, str):
        return TypeError(explain(f"JAX does not support string indexing; got idx={item!r}",
                                 fix="index with integers and slices."))
    if isinstance(item, (list, tuple)):
        return TypeError(explain(
            "Using a non-tuple sequence for multidimensional indexing is not allowed; use "
            "`arr[array(seq)]` instead of `arr[seq]`.", fix="convert it with jnp.asarray."))
    if hasattr(item, "dtype") or isinstance(item, (float, complex)):
        dtype = item.dtype if hasattr(item, "dtype") else np.dtype(type(item))
        return TypeError(explain(
            f"Indexer must have integer or boolean type, got indexer with type {dtype.name} at "
            f"value {item}.", fix="convert the index with .astype(int) or int(...)."))
    return IndexError(explain(
        "only integers, slices (`:`), ellipsis (`...`), newaxis (`None`) and integer or boolean "
        f"arrays are valid indices. Got {item!r}", fix="index with integers, slices or arrays."))


_BASIC = frozenset((int, slice, type(None), type(Ellipsis)))


def is_basic(index: Any) -> bool:
    """Whether an index has no arrays of integers or booleans (scalars may be traced)."""
    if isinstance(index, list):
        raise refusal(index)
    items = as_tuple(index)
    return all(type(i) in _BASIC or integer(i) is not None or isinstance(i, slice) for i in items)


def integer(item: Any) -> Any:
    """An int when the position is known, the array when it comes later, None for other indices."""
    if isinstance(item, (bool, np.bool_)):
        return None
    if isinstance(item, (int, np.integer)):
        return int(item)
    if isinstance(item, dims.Dim):
        return item
    if isinstance(item, np.ndarray):
        return int(item) if not item.ndim and dtypes.is_integer(item.dtype) else None
    if isinstance(item, Array):
        aval = aval_of(item)
        if aval.shape or not dtypes.is_integer(aval.dtype):
            return None
        if type(item) is Array and item._pending is None and item.is_ready():
            return int(item._numpy())
        return item
    if hasattr(item, "__jax_array__"):
        return integer(item.__jax_array__())
    if hasattr(item, "__index__"):
        return operator.index(item)
    return None


def _bound(value: Any, whole: Any, position: int) -> Any:
    if value is None or isinstance(value, dims.Dim):
        return value
    if isinstance(value, Tracer) and value.concrete() is None:
        raise IndexError(explain(
            f"Slice entries must be static integers. Got {whole} at position {position}",
            fix="use lax.dynamic_slice with a static size, or mark the bound as static."))
    try:
        return operator.index(value)
    except TypeError:
        raise TypeError(explain(
            f"'{type(value).__name__}' object cannot be interpreted as an integer: Slice entries "
            f"must be static integers. Got {whole} at position {position}",
            fix="convert the bound with int(...).")) from None


def parse(index: Any, shape: Sequence[int]) -> Plan:
    """The Plan of an index into an array of a shape; TypeError, IndexError for what is none."""
    items = as_tuple(index)
    ellipses = sum(item is Ellipsis for item in items)
    if ellipses > 1:
        raise IndexError(explain("an index can only have a single ellipsis ('...')"))
    used = sum(item is not None and item is not Ellipsis for item in items)
    if used > len(shape):
        raise IndexError(explain(
            f"Too many indices: array is {len(shape)}-dimensional, but {used} were indexed"))
    fill = [slice(None)] * (len(shape) - used)
    if not ellipses:
        items = (*items, Ellipsis)
    axes: list[Run | Traced] = []
    result: list[int] = []
    kept: list[int] = []
    for position, item in enumerate(items):
        if item is None:
            result.append(1)
            continue
        for part in fill if item is Ellipsis else [item]:
            made = _axis(part, shape[len(axes)], len(axes), position)
            axes.append(made)
            if isinstance(made, Run) and not made.dropped:
                kept.append(len(result))
                result.append(made.count)
    return Plan(tuple(axes), tuple(result), tuple(kept))


def run_of(item: slice, size: int, position: int) -> Run:
    """The positions of a slice."""
    bounds = [_bound(b, item, position) for b in (item.start, item.stop, item.step)]
    if bounds[2] == 0:
        raise ValueError(explain("slice step cannot be zero"))
    return Run(*dims.slice_of(slice(*bounds), size))


def _axis(item: Any, size: int, axis: int, position: int) -> Run | Traced:
    if isinstance(item, slice):
        return run_of(item, size, position)
    if not size:
        raise IndexError(explain(f"index is out of bounds for axis {axis} with size 0"))
    i = integer(item)
    if not isinstance(i, int):
        return _known(i, size) if isinstance(i, dims.Dim) else Traced(i, size)
    if isinstance(size, dims.Dim):
        return _known(i, size)
    check_static(i, size, axis)
    wrapped = i + size if i < 0 else i
    clamped = min(max(wrapped, 0), size - 1)
    if clamped != wrapped and watched.get():
        return Traced(kind_of(size).type(i), size)
    return Run(clamped, 1, 1, True, clamped != wrapped)


def check_static(i: int, size: Any, axis: int) -> None:
    """IndexError for a known position outside, where jax_check_static_indices asks for it."""
    if config.jax_check_static_indices and not -size <= i < size:
        raise IndexError(explain(f"index {i} out of bounds for axis {axis} with size {size}",
                                 fix="use an index within, or x.at[i].get(mode=...)."))


def _known(i: Any, size: Any) -> Run | Traced:
    """A position of an axis, one of them a dimension: static where it is surely in bounds."""
    try:
        wrapped = i + size if dims.is_nonnegative(i) is False else i
        if dims.is_nonnegative(wrapped) and dims.is_nonnegative(size - 1 - wrapped):
            return Run(wrapped, 1, 1, True)
    except InconclusiveDimensionOperation:
        pass
    return Traced(dims.number(i, dtypes.int32), size)


# ---- reading
def read(x: Any, plan: Plan) -> Any:
    """The elements that a Plan asks for."""
    axes = plan.axes
    if any(isinstance(a, Traced) for a in axes):
        with lazy_eval("getitem"):
            return shaped(read_window(x, plan), plan)
    if at_bottom() and len(axes) and plan.whole and not plan.reversed and 0 not in plan.window:
        return shaped(_eager_window(x, plan), plan)
    steps = (len(plan.reversed) > 0) + (plan.window != shape_of(x))
    if steps > 1:
        with lazy_eval("getitem"):
            return shaped(read_window(x, plan), plan)
    return shaped(read_window(x, plan), plan)


def _eager_window(x: Any, plan: Plan) -> Any:
    """Positions are arguments of the program, so that x[0], x[1], ... share one."""
    if plan.window == shape_of(x):
        return x
    kind = kind_of(*shape_of(x))
    starts = [kind.type(a.low) if isinstance(a, Run) else a for a in plan.axes]
    return ix.dynamic_slice(x, starts, plan.window)


def read_window(x: Any, plan: Plan) -> Any:
    """The window in the order of the index: traced axes first, then static slices, then flips."""
    x = cut_traced(x, plan)
    axes = [Run(0, 1) if isinstance(a, Traced) else a for a in plan.axes]
    for d, (a, n) in enumerate(zip(axes, shape_of(x))):
        if not dims.is_static((a.first, a.count, a.step)) and not _surely_within(a, n):
            x, axes[d] = _picked(x, d, a), Run(0, a.count)
    full = [(0, n) for n in shape_of(x)]
    strides = [abs(a.step) if isinstance(a.count, dims.Dim) or a.count > 1 else 1 for a in axes]
    bounds = [(a.low, a.low + t * (a.count - 1) + 1) if a.count else (0, 0)
              for a, t in zip(axes, strides)]
    if bounds != full or set(strides) - {1}:
        x = sh.slice_(x, *zip(*bounds), strides if set(strides) - {1} else None)  # type: ignore[call-arg]
    return sh.rev(x, plan.reversed) if plan.reversed else x


def _surely_within(a: Run, size: Any) -> bool:
    """Whether the positions are those of a static slice, whatever the symbolic sizes are."""
    if isinstance(a.step, dims.Dim):
        return False
    end = a.low + abs(a.step) * (a.count - 1) + 1
    return all(dims.is_nonnegative(v) is True for v in (a.low, size - end, end - a.low))


def _picked(x: Any, axis: int, a: Run) -> Any:
    """The positions of a run along an axis, lowest first, one by one: there may be none."""
    def number(d: Any) -> Any:
        return ew.match_shape(dims.number(d, dtypes.int32), (a.count,))

    step = -a.step if a.step < 0 else a.step
    at = ew.add(number(a.low), ew.mul(number(step), sh.iota(dtypes.int32, (a.count,))))
    others = tuple(d for d in range(len(shape_of(x))) if d != axis)
    return gather(
        x, sh.broadcast_in_dim(at, (a.count, 1), (0,)),
        GatherDimensionNumbers(others, (axis,), (axis,)),
        [1 if d == axis else n for d, n in enumerate(shape_of(x))],
        mode=GatherScatterMode.CLIP)


def is_traced(plan: Plan) -> bool:
    """Whether the position along some axis is traced."""
    return any(isinstance(a, Traced) for a in plan.axes)


def cut_traced(x: Any, plan: Plan) -> Any:
    """x with its traced axes cut to the one position."""
    if not is_traced(plan):
        return x
    sizes = [1 if isinstance(a, Traced) else n for a, n in zip(plan.axes, shape_of(x))]
    return ix.dynamic_slice(x, traced_starts(plan), sizes)


def traced_starts(plan: Plan) -> list[Any]:
    """Start indices: the traced positions, counted from the front; 0 elsewhere."""
    starts = []
    sizes = [a.size for a in plan.axes if isinstance(a, Traced)]
    for a in plan.axes:
        if isinstance(a, Traced):
            unsigned = dtypes.is_unsigned(dtype_of(a.index))
            starts.append(a.index if unsigned else wrap_negative(widened(a.index, *sizes), a.size))
        else:
            starts.append(None)
    kind = next(dtype_of(s) for s in starts if s is not None)
    return [kind.type(0) if s is None else s for s in starts]


def kind_of(*sizes: Any) -> Dtype:
    """The dtype of positions along axes: int32, or int64 where that does not count so far."""
    return np.dtype(np.int64) if dims.is_far(sizes) else dtypes.int32


def widened(index: Any, *sizes: Any) -> Any:
    """An index of at least the dtype of positions along axes of these sizes."""
    aval = aval_of(index)
    kind = kind_of(*sizes)
    wide = kind if aval.dtype.itemsize < kind.itemsize else aval.dtype
    return ew.convert(index, wide, aval.weak_type)


def shaped(window: Any, plan: Plan) -> Any:
    """A window without its dropped axes and with the new ones."""
    if plan.dropped:
        window = sh.squeeze(window, plan.dropped)
    if shape_of(window) == plan.shape and len(plan.kept) == len(plan.shape):
        return window
    return sh.broadcast_in_dim(window, plan.shape, plan.kept)


__all__ = ["Plan", "Run", "Traced", "integer", "is_basic", "kind_of", "parse", "read", "refusal",
           "run_of", "unchanged", "widened"]
