"""Equations that passes write in the place of another one."""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from calque.core.avals import ShapedArray
from calque.core.primitive import registry
from calque.core.program import Atom, Equation, Var
from calque.core.types import Dtype


class Replacement:
    """Equations that stand in the place of one."""

    def __init__(self, e: Equation) -> None:
        self.e, self.made = e, list[Equation]()

    def emit(self, name: str, inputs: Sequence[Atom], shape: Sequence[int], dtype: Dtype,
             /, **params: Any) -> Var:
        v = Var(ShapedArray(tuple(shape), dtype))
        self.made.append(Equation(registry[name], tuple(inputs), (v,), params, self.e.source,
                                  self.e.scope))
        return v

    def converted(self, a: Atom, dtype: Dtype) -> Atom:
        return a if a.aval.dtype == dtype else self.emit(
            "convert_element_type", [a], a.aval.shape, dtype, new_dtype=dtype, weak_type=False)

    def reshaped(self, a: Atom, shape: Sequence[int]) -> Atom:
        return a if a.aval.shape == tuple(shape) else self.emit(
            "reshape", [a], shape, a.aval.dtype,
            new_sizes=tuple(shape), dimensions=None, sharding=None)

    def cut(self, a: Atom, start: int, stop: int) -> Atom:
        """From start to stop of the last axis."""
        *lead, length = a.aval.shape
        return a if (start, stop) == (0, length) else self.emit(
            "slice", [a], (*lead, stop - start), a.aval.dtype,
            start_indices=(0,) * len(lead) + (start,), limit_indices=(*lead, stop), strides=None)

    def transposed(self, a: Atom, order: Sequence[int]) -> Atom:
        return a if list(order) == list(range(a.aval.ndim)) else self.emit(
            "transpose", [a], [a.aval.shape[i] for i in order], a.aval.dtype,
            permutation=tuple(order))

    def spread(self, a: Atom, shape: Sequence[int], places: Sequence[int]) -> Atom:
        return a if a.aval.shape == tuple(shape) else self.emit(
            "broadcast_in_dim", [a], shape, a.aval.dtype, shape=tuple(shape),
            broadcast_dimensions=tuple(places), sharding=None)

    def ending(self, a: Atom) -> list[Equation]:
        """All of them; the last gives a, in the dtype of e's result, as e does."""
        out = self.e.outputs[0]
        self.converted(a, out.aval.dtype)
        return [*self.made[:-1], self.made[-1].replace(outputs=(out,))]


__all__ = ["Replacement"]
