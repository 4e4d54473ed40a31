"""A convolution of an operand with holes (transposed convolutions, input gradients of strided ones)
as several of one without: result q * h + r along an axis with holes of h sees only the taps that
meet no hole, which are the same for all q.  Start reading at `by_phase`.
"""
from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

from calque.core.avals import dtype_of, shape_of
from calque.core.types import Params
from calque.primitives import shape as sh
from calque.primitives.conv import conv_general_dilated_p, spatial_result

MOST = 64  # phases


def has_phases(p: Params) -> bool:
    """Whether an axis has holes and every one that has is stepped through one by one."""
    holes = [(s, d) for h, s, d in zip(p["lhs_dilation"], p["window_strides"],
                                       p["rhs_dilation"]) if h > 1]
    return bool(holes) and all(v == (1, 1) for v in holes) and math.prod(p["lhs_dilation"]) <= MOST


def by_phase(x: Any, y: Any, params: Params) -> Any:
    """The convolution; params: of the primitive, without groups."""
    dn, holes = params["dimension_numbers"], params["lhs_dilation"]
    zero = dtype_of(x).type(0)
    places = spatial_result(
        tuple(shape_of(x)[i] for i in dn.lhs_spec[2:]),
        tuple(shape_of(y)[i] for i in dn.rhs_spec[2:]), params["window_strides"],
        params["padding"], holes, params["rhs_dilation"])
    counts = [-(-n // h) for n, h in zip(places, holes)]
    rank = len(holes)
    plain = {**params, "padding": ((0, 0),) * rank, "lhs_dilation": (1,) * rank}
    part = [0] * len(shape_of(x))
    part[dn.out_spec[0]], part[dn.out_spec[1]] = (
        shape_of(x)[dn.lhs_spec[0]], shape_of(y)[dn.rhs_spec[0]])
    for axis, m in zip(dn.out_spec[2:], counts):
        part[axis] = m
    parts = []
    for phase in itertools.product(*map(range, holes)):
        first, step = [0] * len(shape_of(y)), [1] * len(shape_of(y))
        padding = list[tuple[int, int]]()
        for axis, tap, r, h, m, (low, high) in zip(dn.lhs_spec[2:], dn.rhs_spec[2:], phase, holes,
                                                   counts, params["padding"]):
            if h == 1:
                padding.append((low, high))
                continue
            unseen = (low - r) % h
            first[tap], step[tap] = min(unseen, shape_of(y)[tap]), h
            size, before = -(-(shape_of(y)[tap] - first[tap]) // h), (low - r - unseen) // h
            padding.append((before, m + size - 1 - shape_of(x)[axis] - before))
        kernel = sh.slice_(y, first, list(shape_of(y)), step)
        if 0 in shape_of(kernel):
            parts.append(sh.broadcast_in_dim(zero, part, ()))
        else:
            parts.append(conv_general_dilated_p.bind(
                around(x, zero, dn.lhs_spec[2:], padding), kernel, **plain))
    return _interleaved(parts, part, dn.out_spec[2:], holes, places)


def around(x: Any, zero: Any, axes: Sequence[int], padding: Sequence[tuple[int, int]]) -> Any:
    """x with a number around it, and without what is beyond negative sizes."""
    shape = shape_of(x)
    start, limit = [0] * len(shape), list(shape)
    config = [(0, 0, 0)] * len(shape)
    for axis, (low, high) in zip(axes, padding):
        start[axis], limit[axis] = max(0, -low), shape[axis] - max(0, -high)
        config[axis] = max(0, low), max(0, high), 0
    if limit != list(shape) or any(start):
        x = sh.slice_(x, start, limit)
    return sh.pad(x, zero, config) if any(map(any, config)) else x


def _interleaved(parts: Sequence[Any], part: Sequence[int], axes: Sequence[int],
                 holes: Sequence[int], places: Sequence[int]) -> Any:
    """The parts of all phases, of which each is the minor part of an index, as one array."""
    rank = len(holes)
    whole = sh.concatenate([sh.reshape(v, (1, *part)) for v in parts], 0)
    whole = sh.reshape(whole, (*holes, *part))
    order, sizes, limit = list[int](), list[int](), list(part)
    for axis, n in enumerate(part):
        order.append(rank + axis)
        sizes.append(n)
        if axis in axes:
            place = axes.index(axis)
            order.append(place)
            sizes[-1] *= holes[place]
            limit[axis] = places[place]
    whole = sh.reshape(sh.transpose(whole, order), sizes)
    return whole if limit == sizes else sh.slice_(whole, [0] * len(sizes), limit)
