"""Moves (and sums) of complex numbers that lie in memory, as those of real ones with a last axis of
2: once, and without taking them apart and putting them together.  What they add and subtract of
them before that lies so, too: a stencil of shifted slices is one loop over the memory.

`moved` gives a move's result, or None where it moves something else.  Start reading there.
"""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from calque.core.program import Equation
from calque.core.types import Params

Operands = list[Any]
Longer = Callable[[Equation], Params]  # the parameters of the move of pairs
SUMS = ("add", "add_any", "sub", "neg")


def moved(e: Equation, operands: Operands) -> Any:
    """The result of a move as pairs.  Complex operands are pairs, (..., 2), but for a number that
    fills (a pad's), which is a tuple of its parts."""
    if e.name not in MOVES or not _pays(e):
        return None
    if e.name == "pad":
        re, im = operands[1]
        if not _is_number(re) or not _is_number(im) or np.asarray(re).tobytes() != (
                np.asarray(im).tobytes()):  # (0 mostly)
            return None
        operands = [operands[0], re]
    if e.name in ("dynamic_slice", "dynamic_update_slice"):
        starts = e.inputs[1 + (e.name == "dynamic_update_slice"):]
        operands = [*operands, (starts[0].aval.dtype if starts else np.dtype("int32")).type(0)]
    return e.primitive.bind(*operands, **MOVES[e.name](e))


def _pays(e: Equation) -> bool:
    """Whether pairs are moved as they are, and in vectors."""
    x, out, p = e.inputs[0].aval, e.outputs[0].aval, e.params
    if e.name == "reduce_sum":  # (each row's sum: by parts it is vectors of one, not of two)
        return x.ndim - 1 not in p["axes"] or len(p["axes"]) == x.ndim
    if e.name == "broadcast_in_dim":  # (each number beside itself: rows of two are no vectors)
        return x.ndim > 0 and p["broadcast_dimensions"][-1] == out.ndim - 1 and (
            x.shape[-1] == out.shape[-1])
    if e.name == "gather":
        return p["fill_value"] is None
    return e.name not in SUMS or all(a.aval.shape == out.shape for a in e.inputs)


def _is_number(x: Any) -> bool:
    return isinstance(x, (np.generic, np.ndarray)) and np.ndim(x) == 0


def _with(name: str, *more: int) -> Longer:
    """One parameter, a tuple by axes, is longer."""
    return lambda e: {**e.params, name: (*e.params[name], *more)}


def _slice(e: Equation) -> Params:
    p = e.params
    return {"start_indices": (*p["start_indices"], 0), "limit_indices": (*p["limit_indices"], 2),
            "strides": None if p["strides"] is None else (*p["strides"], 1)}


def _gather(e: Equation) -> Params:
    d = e.params["dimension_numbers"]
    return {**e.params, "slice_sizes": (*e.params["slice_sizes"], 2), "dimension_numbers":
            d._replace(offset_dims=(*d.offset_dims, e.outputs[0].aval.ndim))}


MOVES: dict[str, Longer] = {
    **dict.fromkeys((*SUMS, "squeeze", "rev", "concatenate", "reduce_sum", "dynamic_update_slice"),
                    lambda e: e.params),
    "reshape": _with("new_sizes", 2), "dynamic_slice": _with("slice_sizes", 2),
    "transpose": lambda e: {"permutation": (*e.params["permutation"], e.inputs[0].aval.ndim)},
    "broadcast_in_dim": lambda e: {
        **e.params, "shape": (*e.params["shape"], 2), "broadcast_dimensions": (
            *e.params["broadcast_dimensions"], e.outputs[0].aval.ndim)},
    "slice": _slice, "gather": _gather,
    "pad": lambda e: {"padding_config": (*e.params["padding_config"], (0, 0, 0))}}
