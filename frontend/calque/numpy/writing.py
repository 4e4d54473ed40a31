"""The window of a Plan (numpy/indexing.py) replaced by values, or joined with them.

A contiguous window is written by dynamic_update_slice; a strided one is spread by pad and chosen by
a mask; a traced position is written where it lies inside, else nothing changes.  Start reading at
`write`.
"""
from __future__ import annotations

from typing import Any

import numpy as np

from calque.core import dims, dtypes
from calque.core.avals import aval_of, dtype_of, is_complex, shape_of
from calque.numpy import arithmetic as ar
from calque.numpy import util
from calque.numpy.indexing import (
    Plan,
    Run,
    Traced,
    cut_traced,
    is_traced,
    kind_of,
    read_window,
    traced_starts,
)
from calque.numpy.shapes import broadcast_to
from calque.primitives import elementwise as ew
from calque.primitives import index as ix
from calque.primitives import shape as sh
from calque.primitives.gather import GatherScatterMode

_CLIPPED = (GatherScatterMode.CLIP, GatherScatterMode.PROMISE_IN_BOUNDS)


def inside_of(plan: Plan) -> Any:
    """Whether all int positions lie inside: None (surely), False (surely not), or traced."""
    if any(isinstance(a, Run) and a.outside for a in plan.axes):
        return False
    result = None
    for a, start in zip(plan.axes, traced_starts(plan) if is_traced(plan) else ()):
        if isinstance(a, Traced):
            kind = dtype_of(start)
            size = dims.min_dim(a.size, int(dtypes.iinfo(kind).max))
            good = ew.lt(start, dims.number(size, kind))
            if dtypes.is_signed(kind):
                good = ew.and_(good, ew.ge(start, kind.type(0)))
            result = good if result is None else ew.and_(result, good)
    return result


def write(x: Any, plan: Plan, values: Any, join: Any, mode: Any) -> Any:
    """x with the window of a Plan replaced by values, or by join(window, values)."""
    aval = aval_of(x)
    inside = None if mode in _CLIPPED else inside_of(plan)
    values = cast_update(values, aval)
    if 0 in plan.window:  # as in JAX, whatever the shape of the values
        return util.array(x)
    target = broadcast_to(values, plan.shape)
    if inside is False:
        return util.array(x)
    target = _as_window(target, plan)
    part = cut_traced(x, plan)
    if join is not None:
        target = join(_positions(part, plan), target)
        target = util.cast(target, aval.dtype, aval.weak_type)
    made = _place(part, plan, target)
    if inside is not None:
        made = ar.choose(inside, made, part)
    if not is_traced(plan):
        return made
    return ix.dynamic_update_slice(x, made, traced_starts(plan))


def joined_dtype(x: Any, values: Any) -> Any:
    return dtypes.promote([dtypes.dtype_and_weak(x), dtypes.dtype_and_weak(values)])[0]


def warn_of_cast(values: Any, aval: Any) -> None:
    own, weak = dtype_of(values), aval_of(values).weak_type
    if dtypes.promote([(aval.dtype, aval.weak_type), (own, weak)])[0] != aval.dtype:
        util.warn("scatter inputs have incompatible types: cannot safely cast value from "
                  f"dtype={own.name} to dtype={aval.dtype.name}. In future JAX releases this will "
                  "result in an error.", FutureWarning)


def cast_update(values: Any, aval: Any) -> Any:
    warn_of_cast(values, aval)
    return narrow(values, aval)


def narrow(values: Any, aval: Any) -> Any:
    if is_complex(values) and aval.dtype.kind != "c":
        values = ew.real(values)
    return util.cast(values, aval.dtype, aval.weak_type)


def _static(plan: Plan) -> Plan:
    """The Plan within the cut part."""
    axes = tuple(Run(0, 1, 1, True) if isinstance(a, Traced) else a for a in plan.axes)
    return Plan(axes, plan.shape, plan.kept)


def _positions(part: Any, plan: Plan) -> Any:
    """The elements of the part that change, in memory order."""
    axes = tuple(Run(a.low, a.count, abs(a.step)) for a in _static(plan).axes
                 if isinstance(a, Run))
    whole = Plan(axes, tuple(a.count for a in axes), tuple(range(len(axes))))
    return read_window(part, whole)


def _as_window(values: Any, plan: Plan) -> Any:
    """Values of the result's shape as a window in memory order."""
    if shape_of(values) != plan.window:
        values = sh.reshape(values, plan.window)
    return sh.rev(values, plan.reversed) if plan.reversed else values


def _place(part: Any, plan: Plan, window: Any) -> Any:
    """part with the window written into it."""
    axes = [a for a in _static(plan).axes if isinstance(a, Run)]
    shape = shape_of(part)
    if shape_of(window) == shape:
        return window
    if all(abs(a.step) == 1 or a.count == 1 for a in axes):
        kind = kind_of(*shape)
        return ix.dynamic_update_slice(part, window, [dims.number(a.low, kind) for a in axes])
    config = []
    for a, n in zip(axes, shape):
        step = 1 if a.count == 1 else abs(a.step)
        config.append((a.low, n - a.low - step * (a.count - 1) - 1, step - 1))
    zero = ew.const(window, 0) if dtype_of(window) != dtypes.bool_ else np.False_
    mask = sh.pad(ew.match_shape(np.True_, shape_of(window)), np.False_, config)
    return ew.select_n(mask, part, sh.pad(window, zero, config))
