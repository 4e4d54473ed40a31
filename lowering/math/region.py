"""Writes a decomposition as the body of one `linalg.generic`, instead of many StableHLO ops.

Why: IREE fuses long chains of StableHLO ops whose values are used several times only in part
(a range reduction fell into three dispatches, with its intermediates in memory), and legalizing
fifty tensor ops costs compile time.  As one generic a function is one node: it fuses as a whole,
its constants are scalars (so the body does not depend on the shape), and fused multiply-add is
available.  `BodyBuilder` is a Builder whose values are rank 0 and whose ops are arith and math
ops, so the same decomposition runs under both; `Builder.bodies = False` keeps plain StableHLO,
for export.  Start at `elementwise`.
"""
from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from calque.core.types import Dtype, Shape
from calque.lowering.emit import mlir
from calque.lowering.emit.builder import ARITHMETIC, ROUNDED, SOFT_BF16, Builder, Value
from calque.lowering.emit.dtypes import BF16, BOOL, F16, F32
from calque.lowering.emit.folding import guarded_from_one_number

_ARITH = {  # StableHLO name -> (float op, signed op, unsigned op)
    "add": ("arith.addf", "arith.addi", "arith.addi"),
    "subtract": ("arith.subf", "arith.subi", "arith.subi"),
    "multiply": ("arith.mulf", "arith.muli", "arith.muli"),
    "divide": ("arith.divf", "arith.divsi", "arith.divui"),
    "remainder": ("arith.remf", "arith.remsi", "arith.remui"),
    "maximum": ("arith.maximumf", "arith.maxsi", "arith.maxui"),
    "minimum": ("arith.minimumf", "arith.minsi", "arith.minui"),
    "and": ("", "arith.andi", "arith.andi"),
    "or": ("", "arith.ori", "arith.ori"),
    "xor": ("", "arith.xori", "arith.xori"),
    "shift_left": ("", "arith.shli", "arith.shli"),
    "shift_right_logical": ("", "arith.shrui", "arith.shrui"),
    "shift_right_arithmetic": ("", "arith.shrsi", "arith.shrsi"),
    "select": ("arith.select",) * 3,
    "negate": ("arith.negf", "", ""),
    "abs": ("math.absf", "math.absi", ""),
    "floor": ("math.floor", "", ""),
    "ceil": ("math.ceil", "", ""),
    "round_nearest_even": ("math.roundeven", "", ""),
    "sqrt": ("math.sqrt", "", ""),
    "exponential": ("math.exp", "", ""),
    "log": ("math.log", "", ""),
    "bitcast_convert": ("arith.bitcast",) * 3,
}
_FLOAT_PREDICATES = {"EQ": 1, "GT": 2, "GE": 3, "LT": 4, "LE": 5, "NE": 13}
_SIGNED_PREDICATES = {"EQ": 0, "NE": 1, "LT": 2, "LE": 3, "GT": 4, "GE": 5}
_UNSIGNED_PREDICATES = {"EQ": 0, "NE": 1, "LT": 6, "LE": 7, "GT": 8, "GE": 9}


def _kind(dtype: Dtype) -> int:
    """Column of _ARITH: 0 float, 1 signed, 2 unsigned and bool (ml_dtypes' floats are kind V)."""
    return {"i": 1, "u": 2, "b": 2}.get(dtype.kind, 0)


def scalar_type(dtype: Dtype) -> Any:
    return mlir.ir().Type.parse(mlir.element_name(dtype).removeprefix("u"), mlir.context())


class BodyBuilder(Builder):
    """Emits arith and math ops on scalars; integers are signless, the Value knows the sign."""

    vectorizes = False  # whether a loop within a body is one of vectors

    def __init__(self, f64_ok: bool, relaxed: bool = False) -> None:
        super().__init__(f64_ok, bodies=False, relaxed=relaxed)

    def type_of(self, dtype: Dtype) -> Any:
        """The MLIR type of a value of this dtype."""
        return scalar_type(dtype)

    def _make(self, name: str, operands: Sequence[Value], dtype: Dtype,
              attributes: dict[str, str] | None = None) -> Value:
        made = mlir.value(name, self.type_of(dtype), [v.ir for v in operands],
                          **(attributes or {}))
        return Value(self, made, (), dtype)

    def emit(self, name: str, operands: Sequence[Value], shape: Shape, dtype: Dtype,
             attributes: dict[str, str] | None = None) -> Value:
        assert shape == ()
        if self.soft_f16 and dtype == F16 and name in ROUNDED:
            return self._widened(name, operands, shape)
        if dtype == BF16 and name in (SOFT_BF16 if self.relaxed else ARITHMETIC):
            # (IREE's own forms are marked as `contract`: they round what is stored only)
            return self._by_bits(name, operands, shape)
        return self._make(_ARITH[name][_kind(operands[-1].dtype)], operands, dtype)

    def splat(self, value: Any, shape: Shape, dtype: Any) -> Value:
        dtype = np.dtype(dtype)
        a = np.asarray(value).astype(dtype)
        bits = int(a.view(f"u{dtype.itemsize}"))
        if dtype.kind == "b":
            text = "true" if a else "false"
        else:
            text = f"0x{bits:X} : {self.type_of(dtype)}"
        return self._make("arith.constant", [], dtype, {"value": text})

    def compare(self, direction: str, x: Value | Any, y: Value | Any) -> Value:
        x, y = self.match(x, y)
        table = (_FLOAT_PREDICATES, _SIGNED_PREDICATES, _UNSIGNED_PREDICATES)[_kind(x.dtype)]
        name = "arith.cmpf" if _kind(x.dtype) == 0 else "arith.cmpi"
        return self._make(name, [x, y], BOOL, {
            "predicate": f"{table[direction]} : i64"})

    def unary(self, name: str, x: Value) -> Value:
        if name == "not":
            ones = True if x.dtype == bool else -1
            return self.binary("xor", x, self.splat(np.array(ones).astype(x.dtype), (), x.dtype))
        if name == "negate" and _kind(x.dtype):
            return self.binary("subtract", self.splat(0, (), x.dtype), x)
        return self.emit(name, [x], (), x.dtype)

    def convert(self, x: Value, dtype: Dtype) -> Value:
        if x.dtype == dtype:
            return x
        if dtype == BF16 and (self.relaxed or x.dtype in (F16, F32)):
            return self.bfloat16(x)
        if self.soft_f16 and dtype == F16:
            return self.float16(x)
        source, target = _kind(x.dtype), _kind(dtype)
        if source == 0 and target == 0:
            name = "arith.extf" if dtype.itemsize > x.dtype.itemsize else "arith.truncf"
        elif source == 0:
            name = "arith.fptosi" if target == 1 else "arith.fptoui"
        elif target == 0:
            name = "arith.sitofp" if source == 1 else "arith.uitofp"
        elif dtype.itemsize > x.dtype.itemsize or x.dtype == bool:
            name = "arith.extsi" if source == 1 else "arith.extui"
        elif dtype.itemsize < x.dtype.itemsize:
            name = "arith.trunci"
        else:
            return Value(self, x.ir, (), dtype)
        return self._make(name, [x], dtype)

    def bitcast(self, x: Value, dtype: Dtype) -> Value:
        if _kind(x.dtype) and _kind(dtype):
            return Value(self, x.ir, (), dtype)
        return super().bitcast(x, dtype)

    def loop(self, condition: Callable[..., Value], step: Callable[..., Sequence[Value]],
             start: Sequence[Value]) -> list[Value]:
        """scf.while: step the values while condition(*values) (such a body is not vectorized)."""
        def values(raw: Sequence[Any]) -> list[Value]:
            return [Value(self, r, (), v.dtype) for r, v in zip(raw, start, strict=True)]

        return values(mlir.while_loop(
            [v.ir for v in start], lambda *now: [condition(*values(now)).ir, *now],
            lambda *now: [v.ir for v in step(*values(now))]))

    def fma(self, x: Value, y: Value, z: Value) -> Value:
        """x*y + z, rounded once."""
        return self._make("math.fma", [x, y, z], x.dtype)


def elementwise(b: Builder, body: Callable[..., Value | Sequence[Value]], operands: Sequence[Value],
                results: Sequence[Dtype]) -> list[Value]:
    """body(builder, *operands) as one linalg.generic over operands of one shape.

    Operands and results must be floats (StableHLO's unsigned types do not enter linalg).
    """
    if isinstance(b, BodyBuilder) or not b.bodies:
        out = body(b, *operands)
        return [out] if isinstance(out, Value) else list(out)
    if len(results) > 1:
        operands = guarded_from_one_number(operands)
    shape = operands[0].shape
    axes = [f"d{i}" for i in range(len(shape))]
    outs = [Value(b, b.empty(shape, d), shape, d) for d in results]

    def element(inner: BodyBuilder, *values: Value) -> list[Value]:
        out = body(inner, *values[:len(operands)])
        out = [out] if isinstance(out, Value) else list(out)
        assert [o.dtype for o in out] == list(results), (out, results)
        return out

    return generic(axes, 0, [axes] * (len(operands) + len(outs)), operands, outs, element)


def generic(axes: Sequence[str], summed: int, maps: Sequence[Sequence[str]],
            operands: Sequence[Value], outs: Sequence[Value],
            body: Callable[..., Sequence[Value]]) -> list[Value]:
    """mlir.generic of Values, whose body gets a builder and a scalar of each operand and out."""
    b, every = outs[0].b, [*operands, *outs]
    inner = BodyBuilder(b.f64_ok, b.relaxed)

    def elements(*arguments: Any) -> list[Any]:
        return [v.ir for v in body(inner, *[Value(inner, a, (), v.dtype)
                                            for a, v in zip(arguments, every)])]

    made = mlir.generic(axes, summed, maps, [v.ir for v in operands], [v.ir for v in outs],
                        elements)
    return [Value(b, r, v.shape, v.dtype) for r, v in zip(made, outs)]
