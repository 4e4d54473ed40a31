"""StableHLO as data: operations, values, types and attributes, without MLIR.

What `bytecode` reads and writes, `write` makes from Programs and `read` turns into Programs.  Names
are StableHLO's (`add`, `dot_general`), without dialect and version.  Attributes are plain Python
values: bool, str, tuple, dict, NumPy arrays (dense elements), None, and the classes below where the
type of a number or the kind of an enumeration matters.  Imports NumPy only.
Start reading at `Op`.
"""
from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import ml_dtypes
import numpy as np

from calque.core.types import Dtype, Shape

DYNAMIC = -(2**63)  # a size that is not known, as MLIR writes it


@dataclass(frozen=True, slots=True)
class Tensor:
    """tensor<shape x dtype>; sizes that are not known are DYNAMIC."""

    shape: Shape
    dtype: Any  # of NumPy's or ml_dtypes', or Special('index')
    bounds: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Special:
    """A type without elements of ours: token, none, index, witness, or a dtype NumPy lacks."""

    name: str
    parts: tuple[Any, ...] = ()


@dataclass(frozen=True, slots=True)
class Function:
    """The type of a function."""

    inputs: tuple[Any, ...]
    outputs: tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Enum:
    """A case of an enumeration: comparison_direction LT."""

    kind: str
    case: str


@dataclass(frozen=True, slots=True)
class Number:
    """An integer or a float of a certain type (a dtype, or Special('index'))."""

    value: int | float
    dtype: Any


@dataclass(frozen=True, slots=True)
class TypeOf:
    """A type as an attribute."""

    type: Any


@dataclass(frozen=True, slots=True)
class Alias:
    """output_operand_alias of a custom call."""

    output: tuple[int, ...]
    operand: int
    inside: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Accuracy:
    """result_accuracy: how exactly a function is computed (mode DEFAULT says nothing)."""

    atol: float
    rtol: float
    ulps: int
    mode: Any


@dataclass(frozen=True, slots=True)
class Foreign:
    """An attribute or a type of a dialect that is not read (sdy's shardings)."""

    dialect: str


class Value:
    """A typed value; identity is its name."""

    __slots__ = ("type",)

    def __init__(self, type: Any) -> None:  # noqa: A002
        self.type = type

    @property
    def shape(self) -> Shape:
        return self.type.shape

    @property
    def dtype(self) -> Dtype:
        return self.type.dtype

    def __repr__(self) -> str:
        return f"Value({type_text(self.type)})"


@dataclass(slots=True, eq=False)
class Block:
    """Operations in order; the last one returns."""

    arguments: list[Value] = field(default_factory=list)
    ops: list[Op] = field(default_factory=list)


@dataclass(slots=True, eq=False)
class Op:
    """results = name(operands) {attributes} (regions: one block each)."""

    name: str
    operands: list[Value] = field(default_factory=list)
    results: list[Value] = field(default_factory=list)
    attributes: dict[str, Any] = field(default_factory=dict)
    regions: list[Block] = field(default_factory=list)


@dataclass(slots=True, eq=False)
class Func:
    """A function: its block ends in an op `return`."""

    name: str
    body: Block
    outputs: tuple[Any, ...]
    public: bool = False
    arg_attrs: tuple[dict[str, Any], ...] = ()
    res_attrs: tuple[dict[str, Any], ...] = ()

    @property
    def type(self) -> Function:
        return Function(tuple(a.type for a in self.body.arguments), self.outputs)


@dataclass(slots=True, eq=False)
class Module:
    """Functions, and attributes of the whole."""

    name: str
    functions: list[Func]
    attributes: dict[str, Any] = field(default_factory=dict)

    def function(self, name: str) -> Func | None:
        return next((f for f in self.functions if f.name == name), None)


def walk(block: Block) -> Iterator[Op]:
    """All operations, those in regions included."""
    for op in block.ops:
        yield op
        for region in op.regions:
            yield from walk(region)


# ---- element types
ELEMENTS: dict[str, Dtype] = {
    "i1": np.dtype(bool), "i8": np.dtype("i1"), "i16": np.dtype("i2"), "i32": np.dtype("i4"),
    "i64": np.dtype("i8"), "ui8": np.dtype("u1"), "ui16": np.dtype("u2"), "ui32": np.dtype("u4"),
    "ui64": np.dtype("u8"), "f16": np.dtype("f2"), "bf16": np.dtype(ml_dtypes.bfloat16),
    "f32": np.dtype("f4"), "f64": np.dtype("f8"), "complex<f32>": np.dtype("c8"),
    "complex<f64>": np.dtype("c16"), "i4": np.dtype(ml_dtypes.int4),
    "ui4": np.dtype(ml_dtypes.uint4), "i2": np.dtype(ml_dtypes.int2),
    "ui2": np.dtype(ml_dtypes.uint2),
    "f8E4M3FN": np.dtype(ml_dtypes.float8_e4m3fn), "f8E5M2": np.dtype(ml_dtypes.float8_e5m2),
    "f8E4M3FNUZ": np.dtype(ml_dtypes.float8_e4m3fnuz),
    "f8E5M2FNUZ": np.dtype(ml_dtypes.float8_e5m2fnuz),
    "f8E4M3B11FNUZ": np.dtype(ml_dtypes.float8_e4m3b11fnuz),
    "f8E4M3": np.dtype(ml_dtypes.float8_e4m3), "f8E3M4": np.dtype(ml_dtypes.float8_e3m4),
    "f8E8M0FNU": np.dtype(ml_dtypes.float8_e8m0fnu),
    "f4E2M1FN": np.dtype(ml_dtypes.float4_e2m1fn),
    "f6E2M3FN": np.dtype(ml_dtypes.float6_e2m3fn), "f6E3M2FN": np.dtype(ml_dtypes.float6_e3m2fn),
}
NAMES: dict[Dtype, str] = {d: n for n, d in ELEMENTS.items()}


def type_text(t: Any) -> str:
    """MLIR's spelling: tensor<2x?xf32>."""
    if isinstance(t, np.dtype):
        return NAMES.get(t, str(t))
    if isinstance(t, Tensor):
        sizes = "".join("?x" if n == DYNAMIC else f"{n}x" for n in t.shape)
        bounds = ", ".join("?" if b == DYNAMIC else str(b) for b in t.bounds)
        extra = f", #stablehlo.bounds<{bounds}>" if t.bounds else ""
        return f"tensor<{sizes}{type_text(t.dtype)}{extra}>"
    if isinstance(t, Function):
        ins, outs = (", ".join(map(type_text, x)) for x in (t.inputs, t.outputs))
        return f"({ins}) -> ({outs})"
    if isinstance(t, Special):
        if t.name == "tuple":
            return f"tuple<{', '.join(map(type_text, t.parts))}>"
        return {"token": "!stablehlo.token", "index": "index", "none": "none"}.get(t.name, t.name)
    return str(t)
