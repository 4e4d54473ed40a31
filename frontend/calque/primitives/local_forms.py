"""Which operations work on pieces of arrays, for dispatch/sharded/partition.

The table of factors (primitives/factors) says which dimension of an operand is which of a result;
here is what of it holds for pieces: a dimension along which an operation runs (a sum over it aside)
is not split, and parameters that are sizes become the piece's.  What is not here works on whole
arrays.  Start reading at `form_of`.
"""
from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from calque.core.processes import ProcessGrid
from calque.core.program import Equation
from calque.core.types import Axes, Params
from calque.transforms.propagate import Dims, dealt, joined

Shapes = Sequence[tuple[int, ...]]


def _as_they_are(params: Params, ins: Shapes, outs: Shapes) -> Params:
    return params


@dataclass(frozen=True, slots=True)
class LocalForm:
    """How an operation works on pieces.

    operands, results: the factors of each dimension; sizes: of factors that share a dimension;
    reduction: what is done over processes with factors that only operands have ("sum", "max",
    "min"; None: these are not split); params: the parameters, of the pieces' shapes.
    """

    operands: Sequence[Dims]
    results: Sequence[Dims]
    sizes: dict[int, int]
    reduction: str | None = None
    params: Callable[[Params, Shapes, Shapes], Params] = _as_they_are
    unsummable: frozenset[int] = field(default_factory=frozenset)

    def dealt(self, dims: Axes, names: Sequence[Any], grid: ProcessGrid
              ) -> list[tuple[int, tuple[Any, ...]]]:
        """The axes that split a dimension, dealt out to its factors."""
        if not dims or not names:
            return []
        return dealt(dims, names, self.sizes, grid.count)

    def unsaid(self, chosen: dict[int, tuple[Any, ...]], grid: ProcessGrid) -> set[int]:
        """Factors whose axes a dimension cannot have: behind one that is not split wholly."""
        return {f for value in (*self.operands, *self.results) for dims in value for f in dims
                if chosen.get(f) and not set(chosen[f]) <= set(self._joined(dims, chosen, grid))}

    def axes(self, dims: Dims, chosen: dict[int, tuple[Any, ...]], grid: ProcessGrid
             ) -> tuple[tuple[Any, ...], ...]:
        """The axes that split each dimension of a value."""
        return tuple(self._joined(d, chosen, grid) for d in dims)

    def _joined(self, dims: Axes, chosen: dict[int, tuple[Any, ...]],
                grid: ProcessGrid) -> tuple[Any, ...]:
        return joined(dims, chosen, self.sizes, grid.count)


def form_of(e: Equation) -> LocalForm | None:
    """How an equation works on pieces; None where it takes whole arrays."""
    row = e.primitive.factors
    name = e.name
    if row is None or name in _WHOLE:
        return None
    ins, outs = [a.aval for a in e.inputs], [v.aval for v in e.outputs]
    operands, results, sizes = row(ins, outs, e.params)
    fixed = _RUNS_ALONG.get(name)
    if fixed is not None:
        along = set(fixed(e))
        operands = [[() if i in along else d for i, d in enumerate(dims)] for dims in operands]
        results = [[() if i in along else d for i, d in enumerate(dims)] for dims in results]
    reduction = _REDUCTIONS.get(name)
    if name in ("reduce_and", "reduce_or") and ins[0].dtype != np.dtype(bool):
        reduction = None
    kept = {f for dims in results for d in dims for f in d}
    lost = frozenset(f for dims in operands for d in dims for f in d if f not in kept)
    return LocalForm(operands, results, sizes, reduction, _PARAMS.get(name, _as_they_are),
                     frozenset() if reduction else lost)


# whole: the position in the array matters, or what is updated lies in several processes
_WHOLE = frozenset((
    "scatter", "scatter-add", "scatter-max", "scatter-min", "scatter-mul", "scatter-sub",
    "cholesky_update", "random_fold_in", "pvary"))
_REDUCTIONS = {"reduce_sum": "sum", "reduce_max": "max", "reduce_min": "min", "reduce_and": "min",
               "reduce_or": "max", "dot_general": "sum", "conv_general_dilated": "sum"}


def _differs(e: Equation) -> list[int]:
    """Dimensions of which an operand has another size than the result."""
    shape = e.outputs[0].aval.shape
    return [i for i, d in enumerate(shape) if any(
        a.aval.ndim == len(shape) and a.aval.shape[i] != d for a in e.inputs)]


_RUNS_ALONG: dict[str, Callable[[Equation], Sequence[int]]] = {
    **{n: lambda e: [e.params["axis"]] for n in (
        "cumsum", "cumprod", "cummax", "cummin", "cumlogsumexp")},
    "rev": lambda e: e.params["dimensions"],
    "sort": lambda e: [e.params["dimension"]],
    "fft": lambda e: range(e.inputs[0].aval.ndim - len(e.params["fft_lengths"]),
                           e.inputs[0].aval.ndim),
    "top_k": lambda e: [e.params["axis"]],
    "concatenate": lambda e: [e.params["dimension"]],
    "pad": lambda e: [i for i, c in enumerate(e.params["padding_config"]) if any(c)],
    "dynamic_update_slice": _differs}


def _sliced(p: Params, ins: Shapes, outs: Shapes) -> Params:
    """What is taken whole is the whole piece."""
    return {**p, "limit_indices": tuple(min(e, n) for e, n in zip(p["limit_indices"], ins[0]))}


def _gathered(p: Params, ins: Shapes, outs: Shapes) -> Params:
    return {**p, "slice_sizes": tuple(min(s, n) for s, n in zip(p["slice_sizes"], ins[0]))}


_PARAMS: dict[str, Callable[[Params, Shapes, Shapes], Params]] = {
    "broadcast_in_dim": lambda p, ins, outs: {**p, "shape": outs[0]},
    "reshape": lambda p, ins, outs: {**p, "new_sizes": outs[0]},
    "slice": _sliced,
    "dynamic_slice": lambda p, ins, outs: {**p, "slice_sizes": outs[0]},
    "gather": _gathered}

__all__ = ["LocalForm", "form_of"]
