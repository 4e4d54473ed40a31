"""Scalars and vectors in a kernel: the Builder under which the rules of elementwise primitives and
the forms of lowering/math emit arith and math ops on vector<lanes x T>.

Integers follow XLA where arith leaves things undefined: x / 0 is -1 (all ones), x % 0 is x, the
smallest integer over -1 wraps, and a shift by the width or more gives 0 (or the sign).
"""
from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from calque.core.types import Dtype, Shape
from calque.lowering.emit import mlir
from calque.lowering.emit.builder import Value
from calque.lowering.emit.dtypes import BF16, BOOL, F16, F32, unsigned
from calque.lowering.math.region import BodyBuilder


def scalar_text(dtype: Dtype) -> str:
    """The signless MLIR name of an element: uint32 -> i32."""
    return mlir.element_name(dtype).removeprefix("u")


class KernelBuilder(BodyBuilder):
    """A BodyBuilder of `lanes` elements at a time (1: scalars)."""

    vectorizes = True

    def __init__(self, lanes: int = 1) -> None:
        super().__init__(f64_ok=True)
        self.lanes = lanes

    def type_of(self, dtype: Dtype) -> Any:
        text = scalar_text(dtype)
        if self.lanes > 1:
            text = f"vector<{self.lanes}x{text}>"
        return mlir.ir().Type.parse(text, mlir.context())

    def splat(self, value: Any, shape: Shape, dtype: Any) -> Value:
        assert shape == ()
        if self.lanes == 1:
            return super().splat(value, shape, dtype)
        dtype = np.dtype(dtype)
        a = np.asarray(value).astype(dtype)
        bits = f"0x{int(a.view(f'u{dtype.itemsize}')):X}"
        text = ("true" if a else "false") if dtype.kind == "b" else bits
        if dtype.kind in "iu":  # hexadecimal digits of a dense integer would be raw bytes
            text = str(int(a.view(f"i{dtype.itemsize}")))
        return self._make("arith.constant", [], dtype,
                          {"value": f"dense<{text}> : {self.type_of(dtype)}"})

    def convert(self, x: Value, dtype: Dtype) -> Value:
        if x.dtype != dtype and {x.dtype, dtype} == {F16, BF16}:  # of one width: neither way
            x = super().convert(x, F32)
        return super().convert(x, dtype)

    def to_lanes(self, x: Value) -> Value:
        """A scalar in all lanes."""
        if self.lanes == 1:
            return Value(self, x.ir, (), x.dtype)
        return self._make("vector.broadcast", [x], x.dtype)

    def emit(self, name: str, operands: Sequence[Value], shape: Shape, dtype: Dtype,
             attributes: dict[str, str] | None = None) -> Value:
        kind = operands[-1].dtype.kind
        if kind in "iu" and name in ("divide", "remainder"):
            return self._divided(name, *operands)
        if kind in "iu" and name.startswith("shift_"):
            return self._shifted(name, *operands)
        if name in ("maximum", "minimum") and dtype == F16 and self.lanes > 1 and (
                not self.soft_f16):
            # IREE widens such vectors element by element ("requires the same shape")
            wide = [self.convert(x, F32) for x in operands]
            return self.convert(super().emit(name, wide, shape, F32, attributes), dtype)
        if name in ("popcnt", "count_leading_zeros"):
            return self._make("math.ctpop" if name == "popcnt" else "math.ctlz", operands, dtype)
        return super().emit(name, operands, shape, dtype, attributes)

    def _divided(self, name: str, x: Value, y: Value) -> Value:
        zero = y.eq(0)
        unsafe, one = zero, self.like(y, 1)
        if x.dtype.kind == "i":
            least = np.iinfo(x.dtype).min
            overflow = x.eq(least) & y.eq(-1)
            unsafe = zero | overflow
        out = super().emit(name, [x, self.select(unsafe, one, y)], (), x.dtype)
        if name == "divide":  # least / 1 is least already, which is what least / -1 wraps to
            return self.select(zero, self.like(x, -1 if x.dtype.kind == "i" else
                                               np.iinfo(x.dtype).max), out)
        return self.select(zero, x, out)  # x % 1 is 0, as least % -1 is

    def _shifted(self, name: str, x: Value, y: Value) -> Value:
        bits = 8 * x.dtype.itemsize
        within = self.compare("LT", Value(self, y.ir, (), unsigned(y.dtype)), bits)
        if name == "shift_right_arithmetic":
            return super().emit(name, [x, self.select(within, y, self.like(y, bits - 1))], (),
                                x.dtype)
        out = super().emit(name, [x, self.select(within, y, self.like(y, 0))], (), x.dtype)
        return self.select(within, out, self.like(x, 0))

    def loop(self, condition: Callable[..., Value], step: Callable[..., Sequence[Value]],
             start: Sequence[Value]) -> list[Value]:
        """scf.while until no lane goes on; a lane that is done keeps its values."""
        if self.lanes == 1:
            return super().loop(condition, step, start)

        def values(raw: Sequence[Any]) -> list[Value]:
            return [Value(self, r, (), v.dtype) for r, v in zip(raw, start)]

        def some_go(*now: Any) -> list[Any]:
            go = condition(*values(now))
            return [self.horizontal("or", go).ir, go.ir, *now]

        def next_values(mask: Any, *now: Any) -> list[Any]:
            go, old = Value(self, mask, (), BOOL), values(now)
            return [self.select(go, n, o).ir for n, o in zip(step(*old), old)]

        kinds = [self.type_of(BOOL), *[v.ir.type for v in start]]
        return values(mlir.while_loop([v.ir for v in start], some_go, next_values, kinds)[1:])

    def horizontal(self, kind: str, x: Value) -> Value:
        """All lanes folded into a scalar (`kind` as vector.reduction spells it)."""
        if self.lanes == 1:
            return x
        made = mlir.value("vector.reduction", SCALAR.type_of(x.dtype), [x.ir],
                          kind=f"#vector.kind<{kind}>")
        return Value(SCALAR, made, (), x.dtype)


SCALAR = KernelBuilder(1)
