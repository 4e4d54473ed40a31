"""VHLO, StableHLO's versioned dialect: how its types and attributes are stored in MLIR's bytecode
(public definition: openxla/stablehlo, stablehlo/dialect/VhloBytecode.cpp, VhloEnums.td).

Every type and attribute starts with a code; the tables below give the rest.  `read_*` take a stream
and the file's tables (numbers of attributes and types in them), `write_*` the writer's.
Start reading at `read_attribute`; `OPS` says what operations there are.
"""
from __future__ import annotations

import math
import struct
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from calque.core import dtypes
from calque.core.types import Ndarray, Shape
from calque.export.errors import UnsupportedOperationError
from calque.export.hlo import (
    DYNAMIC,
    ELEMENTS,
    NAMES,
    Accuracy,
    Alias,
    Enum,
    Function,
    Number,
    Special,
    Tensor,
    TypeOf,
)
from calque.export.stream import Stream, damaged, signed, varint
from calque.export.vhlo_table import TABLE

Version = tuple[int, int, int]
LARGEST = 1 << 62  # elements of a tensor


class Tables(Protocol):
    """What a file's entries refer to."""

    def attribute(self, index: int) -> Any: ...
    def type(self, index: int) -> Any: ...
    def string(self, index: int) -> str: ...


class Numbers(Protocol):
    """The numbers of what an entry refers to, when writing."""

    def attribute(self, value: Any) -> int: ...
    def type(self, value: Any) -> int: ...
    def string(self, value: str) -> int: ...


# ---- operations
@dataclass(frozen=True, slots=True)
class Form:
    """One version of an operation: abs_v1, since and until when, the names of its attributes."""

    name: str
    since: Version
    until: Version | None
    attributes: tuple[str, ...]


def _version(text: str) -> Version:
    major, minor, patch = text.split(".")
    return int(major), int(minor), int(patch)


def _forms() -> dict[str, Form]:
    found = {}
    for line in TABLE.strip().replace("\n    ", " ").splitlines():
        name, versions, *attributes = line.split()
        since, until = versions.split("-")
        found[name] = Form(name, _version(since), _version(until) if until else None,
                           tuple(attributes))
    return found


OPS = _forms()


def form_for(name: str, version: Version) -> Form:
    """The form of a StableHLO operation in a version of VHLO."""
    for number in (1, 2):
        form = OPS.get(f"{name}_v{number}")
        if form and form.since <= version and (form.until is None or version <= form.until):
            return form
    raise UnsupportedOperationError(
        f"stablehlo.{name} is not in VHLO {'.'.join(map(str, version))}.\n"
        "  Fix: export for a later version.")


# ---- enumerations: kind -> (code, cases)
ENUMS: dict[str, tuple[int, dict[int, str]]] = {
    "comparison_direction": (3, dict(enumerate(("EQ", "NE", "GE", "GT", "LE", "LT")))),
    "comparison_type": (4, dict(enumerate(("NOTYPE", "FLOAT", "TOTALORDER", "SIGNED",
                                           "UNSIGNED")))),
    "api_version": (5, dict(enumerate((
        "API_VERSION_UNSPECIFIED", "API_VERSION_ORIGINAL", "API_VERSION_STATUS_RETURNING",
        "API_VERSION_STATUS_RETURNING_UNIFIED", "API_VERSION_TYPED_FFI")))),
    "fft_type": (7, dict(enumerate(("FFT", "IFFT", "RFFT", "IRFFT")))),
    "precision": (11, dict(enumerate(("DEFAULT", "HIGH", "HIGHEST")))),
    "rng_algorithm": (12, dict(enumerate(("DEFAULT", "THREE_FRY", "PHILOX")))),
    "rng_distribution": (13, {1: "UNIFORM", 2: "NORMAL"}),
    "transpose": (16, dict(enumerate(("TRANSPOSE_INVALID", "NO_TRANSPOSE", "TRANSPOSE",
                                      "ADJOINT")))),
    "result_accuracy_mode": (19, dict(enumerate(("DEFAULT", "HIGHEST", "TOLERANCE")))),
}
_ENUM_OF = {code: (kind, cases) for kind, (code, cases) in ENUMS.items()}

# ---- types
_ELEMENT_CODES = {
    "i1": 0, "bf16": 2, "f16": 3, "f32": 4, "f64": 5, "f8E3M4": 36, "f8E4M3": 35, "f8E4M3FN": 6,
    "f8E5M2": 7, "i2": 31, "i4": 10, "i8": 11, "i16": 12, "i32": 13, "i64": 14, "ui2": 32,
    "ui4": 15, "ui8": 16, "ui16": 17, "ui32": 18, "ui64": 19, "f4E2M1FN": 37, "f6E2M3FN": 38,
    "f6E3M2FN": 39,
    "f8E4M3FNUZ": 27, "f8E5M2FNUZ": 28, "f8E4M3B11FNUZ": 29, "f8E8M0FNU": 40}
_SPECIAL_CODES = {"index": 9, "token": 22, "witness": 26, "none": 33, "tf32": 34}
_ELEMENT_OF = {code: ELEMENTS[name] for name, code in _ELEMENT_CODES.items()}
_SPECIAL_OF = {code: name for name, code in _SPECIAL_CODES.items()}
_COMPLEX, _FUNCTION, _TENSOR, _TENSOR_ENCODED, _TUPLE, _UNRANKED, _BUFFER, _FUTURE = (
    1, 8, 20, 21, 23, 25, 41, 42)


def read_type(s: Stream, t: Tables) -> Any:
    code = s.varint()
    if code in _ELEMENT_OF:
        return _ELEMENT_OF[code]
    if code in _SPECIAL_OF:
        return Special(_SPECIAL_OF[code])
    if code == _COMPLEX:
        part = t.type(s.varint())
        # (NumPy takes whatever has a dtype for that dtype when it compares)
        if not isinstance(part, np.dtype) or part not in (np.dtype("f4"), np.dtype("f8")):
            raise damaged("a complex type of no float")
        return np.dtype(f"c{2 * part.itemsize}")
    if code in (_TENSOR, _TENSOR_ENCODED):
        bounds = t.attribute(s.varint()) if code == _TENSOR_ENCODED else ()
        return _tensor(s.sizes(), t.type(s.varint()), bounds)
    if code == _FUNCTION:
        return Function(_types(s, t), _types(s, t))
    if code in (_TUPLE, _FUTURE):
        return Special("tuple" if code == _TUPLE else "future", _types(s, t))
    if code == _UNRANKED:
        return Special("unranked", (t.type(s.varint()),))
    if code == _BUFFER:
        s.sizes()
        return Special("buffer", (t.type(s.varint()),))
    if code in (24, 30):
        raise UnsupportedOperationError(
            "Quantized types are not supported.\n  Fix: export the function with plain types.")
    raise damaged(f"there is no type with code {code}")


def _types(s: Stream, t: Tables) -> tuple[Any, ...]:
    return tuple(t.type(s.varint()) for _ in range(s.count()))


def _tensor(shape: Shape, dtype: Any, bounds: Any) -> Any:
    if not isinstance(dtype, np.dtype):
        if dtype == Special("index"):  # layouts of custom calls
            return Tensor(shape, np.dtype("i8"))
        if isinstance(dtype, Special):
            return Special("tensor", (dtype,))
        raise damaged("a tensor of no element type")
    if any(n < 0 and n != DYNAMIC for n in shape):
        raise damaged("a negative size")
    count = 1
    for n in shape:
        count *= max(n, 1)
        if count > LARGEST:
            raise damaged("a tensor larger than any memory")
    return Tensor(shape, dtype, bounds if isinstance(bounds, tuple) and len(bounds) == len(shape)
                  and all(isinstance(b, int) for b in bounds) else ())


def write_type(value: Any, n: Numbers) -> bytes:
    if isinstance(value, np.dtype):
        if value.kind == "c":
            return varint(_COMPLEX) + varint(n.type(np.dtype(f"f{value.itemsize // 2}")))
        return varint(_ELEMENT_CODES[NAMES[value]])
    if isinstance(value, Tensor):
        head = varint(_TENSOR)
        if value.bounds:
            head = varint(_TENSOR_ENCODED) + varint(n.attribute(Bounds(value.bounds)))
        return (head + varint(len(value.shape)) + b"".join(map(signed, value.shape))
                + varint(n.type(value.dtype)))
    if isinstance(value, Function):
        return varint(_FUNCTION) + b"".join(
            varint(len(ts)) + b"".join(varint(n.type(x)) for x in ts)
            for ts in (value.inputs, value.outputs))
    if isinstance(value, Special) and value.name == "tuple":
        return (varint(_TUPLE) + varint(len(value.parts))
                + b"".join(varint(n.type(x)) for x in value.parts))
    return varint(_SPECIAL_CODES[value.name])


# ---- attributes
@dataclass(frozen=True, slots=True)
class Bounds:
    """type_extensions: the bounds of sizes that are not known."""

    sizes: Shape


@dataclass(frozen=True, slots=True)
class Dense:
    """A dense array that can be a key of a table."""

    type: Tensor
    data: bytes


def read_attribute(s: Stream, t: Tables) -> Any:
    code = s.varint()
    if code == 1:
        return tuple(t.attribute(s.varint()) for _ in range(s.count()))
    if code == 2:
        return _one_of(s.varint(), {0: False, 1: True})
    if code in _ENUM_OF:
        kind, cases = _ENUM_OF[code]
        return Enum(kind, _one_of(s.varint(), cases))
    if code == 6:
        return dictionary(s, t)
    if code == 8:
        return _float(s, t.type(s.varint()))
    if code == 9:
        return _integer(s, t.type(s.varint()))
    if code == 10:
        return Alias(s.sizes(), s.signed(), s.sizes())
    if code == 14:
        return t.string(s.varint())
    if code == 15:
        return _dense(t.type(s.varint()), s.take(s.count()))
    if code == 17:
        return TypeOf(t.type(s.varint()))
    if code == 18:
        return s.sizes()
    if code == 20:
        atol, rtol = (_double(s) for _ in range(2))
        return Accuracy(atol, rtol, s.signed(), t.attribute(s.varint()))
    if 21 <= code <= 25:
        raise UnsupportedOperationError(
            "Meshes of several devices are not supported.\n"
            "  Fix: export the function for one device.")
    raise damaged(f"there is no attribute with code {code}")


def _one_of(n: int, cases: dict[int, Any]) -> Any:
    if n not in cases:
        raise damaged(f"{n} is no case of an enumeration")
    return cases[n]


def dictionary(s: Stream, t: Tables) -> dict[str, Any]:
    """Attributes by their names."""
    found = {}
    for _ in range(s.count()):
        key = t.attribute(s.varint())
        if not isinstance(key, str):
            raise damaged("a key of a dictionary is no string")
        found[key] = t.attribute(s.varint())
    return found


def _double(s: Stream) -> float:
    return float(struct.unpack("<d", (s.signed() & (2**64 - 1)).to_bytes(8, "little"))[0])


def _float(s: Stream, dtype: Any) -> Number:
    if not isinstance(dtype, np.dtype) or not dtypes.is_float(dtype):
        raise damaged("a float of no float type")
    bits = s.byte() if dtype.itemsize == 1 else s.signed() & (2**(8 * dtype.itemsize) - 1)
    raw = np.frombuffer(bits.to_bytes(dtype.itemsize, "little"), dtype)
    return Number(float(raw[0]), dtype)


def _integer(s: Stream, dtype: Any) -> Number:
    if dtype == Special("index"):
        return Number(s.signed(), dtype)
    if not isinstance(dtype, np.dtype) or not dtypes.is_integer(dtype):
        raise damaged("an integer of no integer type")
    bits = 8 * dtype.itemsize
    n = (s.byte() if bits == 8 else s.signed()) & (2**bits - 1)
    return Number(n - 2**bits if dtypes.is_signed(dtype) and n >> (bits - 1) else n, dtype)


def _dense(t: Any, raw: bytes) -> Ndarray:
    """Elements from their bytes; one element for all is spread without memory."""
    if not isinstance(t, Tensor) or DYNAMIC in t.shape:
        raise damaged("a constant of no fixed shape")
    count = math.prod(t.shape)
    if t.dtype == np.dtype(bool):
        return _booleans(t, raw, count)
    size = t.dtype.itemsize
    if len(raw) == count * size:
        return np.frombuffer(raw, t.dtype).reshape(t.shape)
    if len(raw) == size and count:
        return np.broadcast_to(np.frombuffer(raw, t.dtype)[0], t.shape)
    raise damaged(f"{len(raw)} bytes for {count} elements of {t.dtype}")


def _booleans(t: Tensor, raw: bytes, count: int) -> Ndarray:
    """Packed by eight; one byte of ones for all true."""
    if len(raw) == 1 and raw[0] in (0, 0xFF) and count:
        return np.broadcast_to(np.bool_(raw[0] == 0xFF), t.shape)
    if len(raw) == -(-count // 8):
        packed = np.frombuffer(raw, np.uint8)
        flags = np.unpackbits(packed, count=count, bitorder="little")
        return np.asarray(flags.astype(bool).reshape(t.shape))
    if len(raw) == count:
        return np.asarray((np.frombuffer(raw, np.uint8) != 0).reshape(t.shape))
    raise damaged(f"{len(raw)} bytes for {count} booleans")


def dense_key(a: Ndarray) -> Dense:
    """An array as it is stored: one element where all are the same bits."""
    a = np.asarray(a)
    kind, size = Tensor(a.shape, a.dtype), a.dtype.itemsize
    if a.size and a.ndim and all(s == 0 for s, n in zip(a.strides, a.shape) if n > 1):
        first = a[(0,) * a.ndim].tobytes()
        same, raw = True, first
    else:
        raw = a.tobytes()
        first = raw[:size]
        same = a.size > 1 and raw == first * a.size
    if a.dtype == np.dtype(bool):
        if a.size and (same or a.size == 1):
            return Dense(kind, b"\xff" if first != b"\0" else b"\0")
        return Dense(kind, np.packbits(a.reshape(-1), bitorder="little").tobytes())
    return Dense(kind, first if same else raw)


def write_attribute(value: Any, n: Numbers) -> bytes:
    if isinstance(value, bool):
        return varint(2) + varint(int(value))
    if isinstance(value, tuple):
        return varint(1) + varint(len(value)) + b"".join(varint(n.attribute(v)) for v in value)
    if isinstance(value, Enum):
        code, cases = ENUMS[value.kind]
        number = next(k for k, case in cases.items() if case == value.case)
        return varint(code) + varint(number)
    if isinstance(value, str):
        return varint(14) + varint(n.string(value))
    if isinstance(value, Dense):
        return varint(15) + varint(n.type(value.type)) + varint(len(value.data)) + value.data
    if isinstance(value, TypeOf):
        return varint(17) + varint(n.type(value.type))
    if isinstance(value, Bounds):
        return varint(18) + varint(len(value.sizes)) + b"".join(map(signed, value.sizes))
    if isinstance(value, Dictionary):
        return varint(6) + varint(len(value.items)) + b"".join(
            varint(n.attribute(k)) + varint(n.attribute(v)) for k, v in value.items)
    if isinstance(value, Number):
        return _write_number(value, n)
    raise TypeError(f"no attribute of VHLO: {value!r}")


@dataclass(frozen=True, slots=True)
class Dictionary:
    """A dictionary that can be a key of a table."""

    items: tuple[tuple[str, Any], ...]


def _write_number(value: Number, n: Numbers) -> bytes:
    dtype = value.dtype
    if isinstance(dtype, np.dtype) and dtypes.is_float(dtype):
        raw = np.asarray(value.value, dtype).tobytes()
        bits = raw if dtype.itemsize == 1 else signed(int.from_bytes(raw, "little"))
        return varint(8) + varint(n.type(dtype)) + bits
    size = dtype.itemsize if isinstance(dtype, np.dtype) else 8
    number = int(value.value) & (2**(8 * size) - 1)
    return (varint(9) + varint(n.type(dtype))
            + (bytes((number,)) if size == 1 else signed(number)))
