"""Sizes that are known at the call only, as index values of the program: a `Dim` becomes arithmetic
on the sizes of arguments, once, at the function's start.  Imports lowering.value and core.dims.
"""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from calque.core.dims import Dim
from calque.core.errors import InconclusiveDimensionOperation, explain
from calque.lowering.emit import mlir
from calque.lowering.emit.value import Value

_OPS = {
    "add": "arith.addi",
    "mul": "arith.muli",
    "floordiv": "arith.floordivsi",
    "max": "arith.maxsi",
    "min": "arith.minsi",
}


class Sizes:
    """The dimensions of one function as index values; all stand at its start."""

    def __init__(self, anchor: Any) -> None:
        self.anchor = anchor  # an operation: what is computed goes before it
        self.known: dict[Any, Any] = {}  # int or Dim or (op, values) -> ir.Value

    def define(self, name: str, size: Any, factor: int, offset: int) -> None:
        """A variable of which size = factor * variable + offset is an argument's (checked at the
        call)."""
        if offset:
            size = self._op("add", size, self.of(-offset))
        self.known[name] = size if factor == 1 else self._op("floordiv", size, self.of(factor))

    def of(self, d: Any) -> Any:
        """The index value of a size."""
        found = self.known.get(d)
        if found is None:
            found = self.known[d] = d.compute(self._variable, self.of, self._op) if isinstance(
                d, Dim) else self._constant(int(d))
        return found

    def _variable(self, name: str) -> Any:
        if name not in self.known:
            raise InconclusiveDimensionOperation(explain(
                f"Encountered dimension variable '{name}' that is not appearing in the shapes of "
                "the function arguments.",
                fix="dimensions come from the shapes of arguments: give one such an axis."))
        return self.known[name]

    def _constant(self, n: int) -> Any:
        ir = mlir.ir()
        with ir.InsertionPoint(self.anchor):
            return mlir.number(n, ir.IndexType.get())

    def _op(self, name: str, x: Any, y: Any) -> Any:
        if name == "mod":
            whole = self._op("mul", self._op("floordiv", x, y), y)
            return self._op("add", x, self._op("mul", whole, self.of(-1)))
        key = (name, x, y)
        found = self.known.get(key)
        if found is None:
            ir = mlir.ir()
            with ir.InsertionPoint(self.anchor):
                found = self.known[key] = mlir.value(_OPS[name], ir.IndexType.get(), [x, y])
        return found

    # ---- what operations take
    def dynamic(self, shape: Sequence[Any]) -> list[Any]:
        """The sizes of a shape that are operands."""
        return [self.of(d) for d in shape if isinstance(d, Dim)]

    def vector(self, shape: Sequence[Any]) -> Any:
        """All sizes of a shape as a tensor<nxindex>."""
        kind = mlir.ir().Type.parse(f"tensor<{len(shape)}xindex>", mlir.context())
        return mlir.value("tensor.from_elements", kind, [self.of(d) for d in shape])


def dimension(x: Value, axis: int) -> Any:
    """The size of an axis of a value."""
    if x.dtype.kind == "u":  # unsigned types exist in StableHLO only
        x = x.view(np.dtype(f"i{x.dtype.itemsize}"))
    index = mlir.ir().IndexType.get()
    return mlir.value("tensor.dim", index, [x.ir, mlir.number(axis, index)])
