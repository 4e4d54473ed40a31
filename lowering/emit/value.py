"""An SSA value that knows its shape and dtype and carries operators, so that a decomposition reads
like its formula.  Imports lowering.mlir.
"""
from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from calque.core.types import Dtype, Shape
from calque.lowering.emit import mlir

if TYPE_CHECKING:
    from calque.lowering.emit.builder import Builder

Scalar = bool | int | float | complex | np.generic


class Value:
    """An SSA value of one tensor type; operators emit StableHLO into its builder."""

    __slots__ = ("b", "ir", "shape", "dtype")

    def __init__(self, b: Builder, ir: Any, shape: Shape, dtype: Dtype) -> None:
        self.b, self.ir, self.shape, self.dtype = b, ir, shape, dtype

    def __repr__(self) -> str:
        return f"Value({mlir.type_text(self.shape, self.dtype)})"

    @property
    def ndim(self) -> int:
        return len(self.shape)

    def _pair(self, other: Value | Scalar) -> tuple[Value, Value]:
        return self.b.match(self, other)

    def __add__(self, o: Value | Scalar) -> Value:
        return self.b.binary("add", *self._pair(o))

    def __radd__(self, o: Scalar) -> Value:
        return self.b.binary("add", *self.b.match(o, self))

    def __sub__(self, o: Value | Scalar) -> Value:
        return self.b.binary("subtract", *self._pair(o))

    def __rsub__(self, o: Scalar) -> Value:
        return self.b.binary("subtract", *self.b.match(o, self))

    def __mul__(self, o: Value | Scalar) -> Value:
        return self.b.binary("multiply", *self._pair(o))

    def __rmul__(self, o: Scalar) -> Value:
        return self.b.binary("multiply", *self.b.match(o, self))

    def __truediv__(self, o: Value | Scalar) -> Value:
        return self.b.binary("divide", *self._pair(o))

    def __rtruediv__(self, o: Scalar) -> Value:
        return self.b.binary("divide", *self.b.match(o, self))

    def __and__(self, o: Value | Scalar) -> Value:
        return self.b.binary("and", *self._pair(o))

    def __or__(self, o: Value | Scalar) -> Value:
        return self.b.binary("or", *self._pair(o))

    def __xor__(self, o: Value | Scalar) -> Value:
        return self.b.binary("xor", *self._pair(o))

    def __lshift__(self, o: Value | Scalar) -> Value:
        return self.b.binary("shift_left", *self._pair(o))

    def __rshift__(self, o: Value | Scalar) -> Value:
        """Logical for unsigned, arithmetic for signed integers."""
        kind = "logical" if self.dtype.kind == "u" else "arithmetic"
        return self.b.binary(f"shift_right_{kind}", *self._pair(o))

    def __neg__(self) -> Value:
        return self.b.unary("negate", self)

    def __invert__(self) -> Value:
        return self.b.unary("not", self)

    def __abs__(self) -> Value:
        return self.b.abs(self)

    def __lt__(self, o: Value | Scalar) -> Value:
        return self.b.compare("LT", self, o)

    def __le__(self, o: Value | Scalar) -> Value:
        return self.b.compare("LE", self, o)

    def __gt__(self, o: Value | Scalar) -> Value:
        return self.b.compare("GT", self, o)

    def __ge__(self, o: Value | Scalar) -> Value:
        return self.b.compare("GE", self, o)

    def eq(self, o: Value | Scalar) -> Value:
        return self.b.compare("EQ", self, o)

    def ne(self, o: Value | Scalar) -> Value:
        return self.b.compare("NE", self, o)

    def astype(self, dtype: Any) -> Value:
        """StableHLO convert, as IREE does it: float to int is only safe in range (see math)."""
        return self.b.convert(self, np.dtype(dtype))

    def view(self, dtype: Any) -> Value:
        """Bitcast to a dtype of the same width."""
        return self.b.bitcast(self, np.dtype(dtype))
