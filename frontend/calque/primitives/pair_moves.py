"""Moves (and sums) of complex numbers that lie in memory, as those of real ones with a last axis of
2: once, and without taking them apart and putting them together.

`moved` gives a move's result, or None where it moves something else.  Start reading there.
"""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from calque.core.program import Equation
from calque.core.types import Params

Operands = list[Any]
# of (the rank of the first operand, the rank of the result, parameters): those of the move of pairs
Longer = Callable[[int, int, Params], Params]


def moved(e: Equation, operands: Operands) -> Any:
    """The result of a move as pairs.  Complex operands are pairs, (..., 2), but for a number that
    fills (a pad's), which is a tuple of its parts."""
    longer = MOVES.get(e.name)
    if longer is None:
        return None
    params = longer(e.inputs[0].aval.ndim, e.outputs[0].aval.ndim, e.params)
    if e.name == "pad":
        re, im = operands[1]
        if not _is_number(re) or not _is_number(im) or np.asarray(re).tobytes() != (
                np.asarray(im).tobytes()):  # (0 mostly)
            return None
        operands = [operands[0], re]
    if e.name in ("dynamic_slice", "dynamic_update_slice"):
        starts = e.inputs[1 + (e.name == "dynamic_update_slice"):]
        operands = [*operands, (starts[0].aval.dtype if starts else np.dtype("int32")).type(0)]
    rank = e.inputs[0].aval.ndim
    if e.name == "reduce_sum" and rank - 1 in e.params["axes"] and len(e.params["axes"]) < rank:
        return None  # (each row's sum: by parts it is vectors of one, not of two)
    if e.name == "gather" and params["fill_value"] is not None:
        return None
    return e.primitive.bind(*operands, **params)


def _is_number(x: Any) -> bool:
    return isinstance(x, (np.generic, np.ndarray)) and np.ndim(x) == 0


def _gather(rank: int, out: int, p: Params) -> Params:
    d = p["dimension_numbers"]
    return {**p, "slice_sizes": (*p["slice_sizes"], 2),
            "dimension_numbers": d._replace(offset_dims=(*d.offset_dims, out))}


MOVES: dict[str, Longer] = {
    "reduce_sum": lambda rank, out, p: p,
    "reshape": lambda rank, out, p: {**p, "new_sizes": (*p["new_sizes"], 2)},
    "squeeze": lambda rank, out, p: p, "rev": lambda rank, out, p: p,
    "concatenate": lambda rank, out, p: p,
    "transpose": lambda rank, out, p: {"permutation": (*p["permutation"], rank)},
    "broadcast_in_dim": lambda rank, out, p: {
        **p, "shape": (*p["shape"], 2),
        "broadcast_dimensions": (*p["broadcast_dimensions"], out)},
    "slice": lambda rank, out, p: {
        "start_indices": (*p["start_indices"], 0), "limit_indices": (*p["limit_indices"], 2),
        "strides": None if p["strides"] is None else (*p["strides"], 1)},
    "pad": lambda rank, out, p: {"padding_config": (*p["padding_config"], (0, 0, 0))},
    "dynamic_slice": lambda rank, out, p: {**p, "slice_sizes": (*p["slice_sizes"], 2)},
    "dynamic_update_slice": lambda rank, out, p: p,
    "gather": _gather}
