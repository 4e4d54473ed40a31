"""pad: arrays extended at both ends of their axes, in all of NumPy's modes.

Modes that repeat elements are cut and joined from runs of positions (`_repeated`); the others
compute what they put at the ends.  Start reading at `pad`.
"""
from __future__ import annotations

from typing import Any

import numpy as np

from calque.core import dims, dtypes
from calque.core.avals import dtype_of, shape_of
from calque.core.errors import explain
from calque.core.lists import as_tuple, replaced
from calque.core.trace import Tracer
from calque.core.types import Function, Ndarray
from calque.lax.operands import as_size
from calque.numpy import means, picking, ranges, rounding, statistics, util
from calque.numpy import reductions as rd
from calque.numpy.logic import where
from calque.primitives import elementwise as ew
from calque.primitives import shape as sh

Pairs = list[tuple[Any, Any]]
_KEYWORDS = {
    "constant": {"constant_values"}, "edge": set(), "linear_ramp": {"end_values"},
    "maximum": {"stat_length"}, "mean": {"stat_length"}, "median": {"stat_length"},
    "minimum": {"stat_length"}, "reflect": {"reflect_type"}, "symmetric": {"reflect_type"},
    "wrap": set(), "empty": set()}
RUNS = 16  # pieces up to which elements are cut and joined; more are gathered


@util.planned
def pad(array: Any, pad_width: Any, mode: Any = "constant", **kwargs: Any) -> Any:
    """The array with elements put before and after along its axes.

    Args:
      array: array.
      pad_width: ints: n for every axis, (before, after) for every axis, or a pair per axis.
      mode: 'constant', 'edge', 'linear_ramp', 'maximum', 'mean', 'median', 'minimum', 'reflect',
        'symmetric', 'wrap', 'empty', or a function of (vector, pair of widths, axis, kwargs) that
        returns the vector with its ends filled.
      **kwargs: constant_values (constant), end_values (linear_ramp), stat_length (maximum, mean,
        median, minimum), reflect_type: 'even' or 'odd' (reflect, symmetric); what the function
        takes.

    Returns:
      An array of the same dtype.

    Raises:
      TypeError: array is not an array, or the widths are no integers.
      ValueError: a width is negative, an empty axis has nothing to repeat, or a keyword does not
        belong to the mode.
      NotImplementedError: the mode is unknown.

    Example:
      >>> import calque.numpy as jnp
      >>> jnp.pad(jnp.array([1, 2, 3]), (1, 2), mode="edge")
      Array([1, 1, 2, 3, 3, 3], dtype=int32)
    """
    array = util.one_array("pad", array)
    shape = shape_of(array)
    widths = _widths(pad_width, len(shape))
    if callable(mode):
        return _by_function(util.array(array), widths, mode, kwargs)
    if mode not in _KEYWORDS:
        raise NotImplementedError(explain(
            f"Unimplemented padding mode '{mode}' for np.pad.",
            fix=f"use one of {', '.join(sorted(_KEYWORDS))}."))
    unknown = set(kwargs) - _KEYWORDS[mode]
    if unknown:
        raise ValueError(explain(
            f"unsupported keyword arguments for mode '{mode}': {unknown}",
            fix=f"it takes {sorted(_KEYWORDS[mode]) or 'none'}."))
    with util.lazy_eval("pad"):
        return _padded(util.array(array), widths, mode, kwargs)


def _padded(x: Any, widths: Pairs, mode: str, kwargs: Any) -> Any:
    rank = len(widths)
    if mode == "constant":
        return _constant(x, widths, _pairs("constant_values", kwargs.get("constant_values", 0),
                                           rank))
    if mode == "empty":
        return _constant(x, widths, [(0, 0)] * rank)
    if mode == "linear_ramp":
        ends = _pairs("end_values", kwargs.get("end_values", 0), rank)
        return _along(x, widths, mode, lambda v, i, w: _ramps(v, i, w, ends[i]))
    if mode in _STATISTICS:
        lengths = _pairs("stat_length", kwargs.get("stat_length"), rank)
        return _along(x, widths, mode, lambda v, i, w: _statistic(v, i, w, mode, lengths[i]))
    kind = kwargs.get("reflect_type", "even")
    if kind not in ("even", "odd"):
        raise ValueError(explain(f"pad: reflect_type must be 'even' or 'odd', got {kind!r}."))
    if kind == "odd":
        return _along(x, widths, mode, lambda v, i, w: _odd(v, i, w, mode))
    return _along(x, widths, mode, lambda v, i, w: _repeated(v, i, w, mode))


# ---- arguments
def _widths(pad_width: Any, rank: int) -> Pairs:
    if isinstance(pad_width, Tracer):
        pad_width = util.needed("pad", pad_width, "the widths make the shape.",
                                   "mark the argument that it comes from as static.")
    if _is_symbolic(pad_width):
        pairs = _pairs("pad_width", pad_width, rank)
        return [(as_size("pad", a), as_size("pad", b)) for a, b in pairs]
    try:
        values = np.asarray(pad_width)
    except ValueError:
        raise ValueError(explain(f"jnp.pad: pad_width {pad_width!r} is ragged.",
                                 fix="give one pair (before, after) per axis.")) from None
    if values.dtype.kind not in "iu" and values.size:
        raise TypeError(explain("`pad_width` must be of integral type.",
                                fix="pass ints, or pairs of them."))
    pairs = _pairs("pad_width", values, rank)
    widths = [(int(a), int(b)) for a, b in pairs]
    if any(n < 0 for w in widths for n in w):
        raise ValueError(explain("index can't contain negative values",
                                 fix="cut with a slice instead of padding by less than 0."))
    return widths


def _is_symbolic(width: Any) -> bool:
    """Whether a width, or one in it, is known at the call only."""
    if isinstance(width, (tuple, list)):
        return any(map(_is_symbolic, width))
    return isinstance(width, dims.Dim)


def _pairs(name: str, value: Any, rank: int) -> Pairs:
    """One (before, after) per axis from a scalar, a pair, or a pair per axis."""
    if value is None:
        return [(None, None)] * rank
    if isinstance(value, (tuple, list)):
        # traced scalars stand as they are
        rows = [tuple(v) if isinstance(v, (tuple, list)) or np.ndim(v) else v for v in value]
        nested = [r for r in rows if isinstance(r, tuple)]
        shape = (len(rows), len(nested[0])) if nested else (len(rows),)
        flat = [as_tuple(r) for r in rows] if nested else [tuple(rows)]
    else:
        shape = np.shape(value)
        if len(shape) == 0:
            return [(value, value)] * rank
        if len(shape) == 1:
            flat = [tuple(value[i] for i in range(shape[0]))]
        elif len(shape) == 2:
            flat = [tuple(value[i, j] for j in range(shape[1])) for i in range(shape[0])]
        else:
            flat = []
    widths = (1, 2) if len(shape) == 1 else (2,)
    if len(flat) in (1, rank) and all(len(r) in widths for r in flat):
        full = [(r[0], r[-1]) for r in flat]
        return full * rank if len(full) == 1 else full
    raise ValueError(explain(
        f"jnp.pad: {name} with nd={len(shape)} has unsupported shape {shape}. Valid shapes are "
        f"({rank}, 2), (1, 2), (2,), (1,), or ().", fix="give one pair (before, after) per axis."))


def _along(x: Any, widths: Pairs, mode: str, extend: Function) -> Any:
    for axis, width in enumerate(widths):
        if width == (0, 0):
            continue
        if shape_of(x)[axis] == 0:
            raise ValueError(explain(f"Cannot apply '{mode}' padding to empty axis",
                                     fix="use mode='constant'."))
        x = extend(x, axis, width)
    return x


# ---- modes
def _scalar(value: Any, dtype: Any, weak: bool = False) -> Any:
    value = util.one_array("pad", value)
    if shape_of(value):
        value = sh.reshape(util.array(value), ())
    return ew.convert(util.cast(value, dtype), dtype, weak)


def _constant(x: Any, widths: Pairs, values: Pairs) -> Any:
    dtype, weak = dtype_of(x), util.weak_of(x)
    known = [v for pair in values for v in pair]
    if all(v is known[0] for v in known[1:]) or (
            not any(hasattr(v, "aval") for v in known) and len({np.asarray(v).item()
                                                                for v in known}) == 1):
        if not known:
            return x
        return sh.pad(x, _scalar(known[0], dtype, weak), tuple((a, b, 0) for a, b in widths))
    for axis, ((before, after), pair) in enumerate(zip(widths, values)):
        for low, high, value in ((before, 0, pair[0]), (0, after, pair[1])):
            config = [(0, 0, 0)] * len(widths)
            config[axis] = (low, high, 0)
            x = sh.pad(x, _scalar(value, dtype, weak), tuple(config))
    return x


def _join(parts: list[Any], axis: int) -> Any:
    parts = [p for p in parts if shape_of(p)[axis]]
    return parts[0] if len(parts) == 1 else sh.concatenate_p.bind(*parts, dimension=axis)


def _wide(x: Any, axis: int, n: int) -> Any:
    """A slice of size 1 along the axis, n times."""
    shape = shape_of(x)
    return sh.broadcast_in_dim(x, replaced(shape, axis, n), tuple(range(len(shape))))


def _repeated(x: Any, axis: int, width: tuple[int, int], mode: str) -> Any:
    """edge, reflect, symmetric, wrap: elements of x at other positions."""
    if not dims.is_static((shape_of(x)[axis], *width)):
        return picking.take(x, _places(shape_of(x)[axis], width, mode), axis, mode="clip")
    with util.on_host("pad"):
        places = np.pad(np.arange(shape_of(x)[axis]), width, mode=mode)  # type: ignore[call-overload]
    runs = _runs(places)
    if len(runs) > RUNS:
        return picking.take(x, places, axis)
    parts = []
    for start, stop, step in runs:
        if step == 0:
            parts.append(_wide(sh.slice_in_dim(x, start, start + 1, axis), axis, stop))
        elif step == 1:
            parts.append(sh.slice_in_dim(x, start, stop + 1, axis))
        else:
            parts.append(sh.rev(sh.slice_in_dim(x, stop, start + 1, axis), (axis,)))
    return _join(parts, axis)


def _places(n: Any, width: tuple[Any, Any], mode: str) -> Any:
    """Of which positions the elements are, by the period of the mode: sizes may be symbolic."""
    at = ranges.arange(-width[0], n + width[1])
    if mode == "edge":  # (positions are clipped)
        return at
    if mode == "wrap":
        return at % n
    step, there, back = _mirrored(at, n, mode)
    return where(step % 2 == 0, there, back)


def _mirrored(at: Any, n: Any, mode: str) -> tuple[Any, Any, Any]:
    """Positions as (how often mirrored, the place in x read forwards, and read backwards)."""
    period = dims.max_dim(n - 1, 1) if mode == "reflect" else n
    there = at % period
    return at // period, there, (n - 1) - there


def _runs(places: Ndarray) -> list[tuple[int, int, int]]:
    """Maximal runs (first, last, step) with step 1 or -1; step 0: (position, count, 0)."""
    runs, i, n = [], 0, len(places)
    steps = np.diff(places)
    while i < n:
        step = int(steps[i]) if i + 1 < n else 1
        if step not in (-1, 0, 1):
            step = 1
        j = i
        while j + 1 < n and steps[j] == step:
            j += 1
        runs.append((int(places[i]), j - i + 1, 0) if step == 0 else
                    (int(places[i]), int(places[j]), step))
        i = j + 1
    return runs


def _odd(x: Any, axis: int, width: tuple[int, int], mode: str) -> Any:
    """reflect, symmetric with reflect_type='odd': point reflections 2 * edge - x."""
    before, after = width
    if not dims.is_static((shape_of(x)[axis], *width)):
        return _odd_by_period(x, axis, width, mode)
    if shape_of(x)[axis] == 1 and mode == "reflect":
        return _repeated(x, axis, width, "edge")
    skip = 1 if mode == "reflect" else 0
    while before or after:  # one reflection adds at most the present size
        n = shape_of(x)[axis]
        a, b = min(before, n - skip), min(after, n - skip)
        parts = [x]
        if a:
            first = _wide(sh.slice_in_dim(x, 0, 1, axis), axis, a)
            mirrored = sh.rev(sh.slice_in_dim(x, skip, skip + a, axis), (axis,))
            parts.insert(0, first * 2 - mirrored)
        if b:
            last = _wide(sh.slice_in_dim(x, n - 1, n, axis), axis, b)
            mirrored = sh.rev(sh.slice_in_dim(x, n - skip - b, n - skip, axis), (axis,))
            parts.append(last * 2 - mirrored)
        x = _join(parts, axis)
        before, after = before - a, after - b
    return x


def _odd_by_period(x: Any, axis: int, width: tuple[Any, Any], mode: str) -> Any:
    """The same for symbolic sizes: each period is the last one, mirrored at its end."""
    n = shape_of(x)[axis]
    at = ranges.arange(-width[0], n + width[1])
    step, there, back = _mirrored(at, n, mode)
    first, last = (sh.slice_in_dim(x, i, i + 1, axis) for i in (0, n - 1))
    column = replaced((1,) * len(shape_of(x)), axis, shape_of(at)[0])
    k, even = sh.reshape(step, column).astype(dtype_of(x)), sh.reshape(step % 2 == 0, column)
    forwards = picking.take(x, there, axis, mode="clip") + k * (last - first)
    backwards = (k + 1) * last - (k - 1) * first - picking.take(x, back, axis, mode="clip")
    return util.cast(where(even, forwards, backwards), dtype_of(x))


def _ramps(x: Any, axis: int, width: tuple[int, int], ends: tuple[Any, Any]) -> Any:
    n, dtype = shape_of(x)[axis], dtype_of(x)

    def ramp(count: int, value: Any, edge: int) -> Any:
        last = sh.squeeze(sh.slice_in_dim(x, edge, edge + 1, axis), (axis,))
        return ranges.linspace(_scalar(value, dtype), last, count, endpoint=False, dtype=dtype,
                               axis=axis)

    parts = [x]
    if width[0]:
        parts.insert(0, ramp(width[0], ends[0], 0))
    if width[1]:
        parts.append(sh.rev(ramp(width[1], ends[1], n - 1), (axis,)))
    return _join(parts, axis)


_STATISTICS: dict[str, Function] = {
    "maximum": rd.max, "minimum": rd.min, "mean": means.mean, "median": statistics.median}


def _statistic(x: Any, axis: int, width: tuple[int, int], mode: str,
               lengths: tuple[Any, Any]) -> Any:
    n, dtype = shape_of(x)[axis], dtype_of(x)

    def value(length: Any, at_end: bool) -> Any:
        if length is None:
            length = n
        length = dims.min_dim(as_size("pad", length), n)
        if length <= 0:
            raise ValueError(explain(
                f"stat_length of {length} yields no value for padding",
                fix="give a stat_length of at least 1."))
        part = sh.slice_in_dim(x, n - length if at_end else 0, n if at_end else length, axis)
        made = _STATISTICS[mode](part, axis=axis, keepdims=True)
        if dtypes.is_integer(dtype) and mode in ("mean", "median"):
            made = rounding.round(made)
        return util.cast(made, dtype)

    parts = [x]
    if width[0]:
        parts.insert(0, _wide(value(lengths[0], False), axis, width[0]))
    if width[1]:
        parts.append(_wide(value(lengths[1], True), axis, width[1]))
    return _join(parts, axis)


def _by_function(x: Any, widths: Pairs, f: Function, kwargs: Any) -> Any:
    from calque.numpy.apply import apply_along_axis
    x = _constant(x, widths, [(0, 0)] * len(widths))
    for axis, width in enumerate(widths):
        x = apply_along_axis(f, axis, x, width, axis, kwargs)
    return util.array(ew.convert(x, dtype_of(x)))


__all__ = ["pad"]
