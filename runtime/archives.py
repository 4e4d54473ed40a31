"""Files of named arrays: IREE's parameter archives (.irpa), .safetensors and .gguf.

IREE finds the bytes in all three, mapped; of dtypes and shapes it knows nothing.  `read` adds what
the file says of them, `write` makes an archive.  Start reading at `read`.
"""
from __future__ import annotations

import contextlib
import json
import math
import os
import struct
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import iree.runtime as rt
import ml_dtypes
import numpy as np

from calque.runtime.errors import ArtifactError, clean, explain

SUFFIXES = (".irpa", ".safetensors", ".gguf")

Type = tuple[np.dtype[Any], tuple[int, ...]]

# Metadata of an array in an .irpa file: these words, a colon and JSON (IREE's tools write it, too).
_HEADS = (b"TENSORv0:", b"PYTORCH:")
_SAFETENSORS = {"BOOL": "bool", "I8": "int8", "I16": "int16", "I32": "int32", "I64": "int64",
                "U8": "uint8", "U16": "uint16", "U32": "uint32", "U64": "uint64", "F16": "float16",
                "BF16": "bfloat16", "F32": "float32", "F64": "float64", "C64": "complex64",
                "F8_E4M3": "float8_e4m3fn", "F8_E5M2": "float8_e5m2"}
_GGUF = {0: "float32", 1: "float16", 24: "int8", 25: "int16", 26: "int32", 27: "int64",
         28: "float64", 30: "bfloat16"}
_GGUF_NUMBERS = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}
_MOST_HEADER = 1 << 27  # bytes of a header, or entries of a list in one


@dataclass(frozen=True, slots=True)
class Entry:
    """An array in an archive: its bytes, and its type where the file says it."""

    nbytes: int
    type: Type | None
    stored: Any  # IREE's ParameterIndexEntry

    def bytes(self) -> Any:
        """The bytes, mapped; nothing is read."""
        if self.stored.is_file:
            return self.stored.file_view
        pattern = self.stored.splat_pattern
        return pattern * (self.nbytes // max(1, len(pattern)))


def dtype_of(name: str) -> np.dtype[Any]:
    """The dtype of a name; ml_dtypes' names included."""
    return np.dtype(getattr(ml_dtypes, name, None) or name)


def read(path: Path, where: str, cure: str = "") -> tuple[Any, dict[str, Entry]]:
    """(IREE's index, what is in it by name) of an archive; ArtifactError if it cannot be read."""
    if path.suffix not in SUFFIXES:
        raise ArtifactError(explain(f"{path} is no parameter archive.", where,
                                    f"give a file that ends in {', '.join(SUFFIXES)}."))
    if not path.is_file():
        raise ArtifactError(explain(f"there is no archive {path}.", where,
                                    cure or "check the path."))
    index = rt.ParameterIndex()
    try:
        types = _TYPES[path.suffix](path)
        index.load(str(path))
        return index, {name: Entry(e.length, types.get(name) or _of_metadata(e.metadata), e)
                       for name, e in index.items()}
    except Exception as error:  # IREE maps its status codes to many classes
        raise ArtifactError(explain(f"{path} cannot be read: {clean(error)}.", where,
                                    "copy it again, or write it again.")) from error


def _of_metadata(data: bytes) -> Type | None:
    """What an .irpa file says of an array; None where it says nothing that we know."""
    for head in _HEADS:
        if data.startswith(head):
            with contextlib.suppress(ValueError, KeyError, TypeError, RecursionError):
                said = json.loads(data[len(head):])
                return dtype_of(said["dtype"]), tuple(int(d) for d in said["shape"])
    return None


class _Odd(ValueError):
    """A header that is not one."""


def _take(file: BinaryIO, count: int) -> bytes:
    if not 0 <= count <= _MOST_HEADER:
        raise _Odd(f"a part of its header has {count} bytes")
    data = file.read(count)
    if len(data) != count:
        raise _Odd("the file ends within its header")
    return data


def _number(file: BinaryIO, code: str) -> int:
    (value,) = struct.unpack("<" + code, _take(file, struct.calcsize(code)))
    return int(value)


def _of_safetensors(path: Path) -> dict[str, Type]:
    with path.open("rb") as file:
        header = json.loads(_take(file, _number(file, "Q")))
    if not isinstance(header, dict):
        raise _Odd("its header is no dictionary")
    made = {}
    for name, entry in header.items():
        if name == "__metadata__":
            continue
        if entry["dtype"] in _SAFETENSORS:
            made[name] = dtype_of(_SAFETENSORS[entry["dtype"]]), tuple(map(int, entry["shape"]))
    return made


def _of_gguf(path: Path) -> dict[str, Type]:
    """Types of a GGUF file's arrays; those in blocks (Q8_0 and others) have no dtype here."""
    made = {}
    with path.open("rb") as file:
        if _take(file, 4) != b"GGUF" or _number(file, "I") not in (2, 3):
            raise _Odd("it is no GGUF file of version 2 or 3")
        arrays, keys = _number(file, "Q"), _number(file, "Q")
        for _ in range(keys):
            _take(file, _number(file, "Q"))
            _skip_value(file, _number(file, "I"))
        for _ in range(arrays):
            name = _take(file, _number(file, "Q")).decode()
            rank = _number(file, "I")
            if rank > 32:
                raise _Odd(f"{name} has {rank} axes")
            shape = tuple(_number(file, "Q") for _ in range(rank))[::-1]  # the fastest comes first
            kind = _number(file, "I")
            _number(file, "Q")
            if kind in _GGUF:
                made[name] = dtype_of(_GGUF[kind]), shape
    return made


def _skip_value(file: BinaryIO, kind: int) -> None:
    """Read over one value of a GGUF file's settings."""
    if kind in _GGUF_NUMBERS:
        _take(file, _GGUF_NUMBERS[kind])
    elif kind == 8:
        _take(file, _number(file, "Q"))
    elif kind == 9:
        inner, count = _number(file, "I"), _number(file, "Q")
        if inner in _GGUF_NUMBERS:
            _take(file, _GGUF_NUMBERS[inner] * count)
        elif inner == 8 and count <= _MOST_HEADER:
            for _ in range(count):
                _take(file, _number(file, "Q"))
        else:
            raise _Odd(f"it has a list of {count} values of kind {inner}")
    else:
        raise _Odd(f"it has a value of kind {kind}")


_TYPES = {".irpa": lambda path: {}, ".safetensors": _of_safetensors, ".gguf": _of_gguf}


# ---- writing
def index_of(arrays: Mapping[str, np.ndarray[Any, Any]]) -> Any:
    """IREE's index of arrays in memory, which it reads where they are."""
    index = rt.ParameterIndex()
    for name in sorted(arrays):
        value = np.asarray(arrays[name])
        said = json.dumps({"type": "Tensor", "dtype": value.dtype.name, "shape": value.shape},
                          sort_keys=True)
        index.add_buffer(name, _flat(value), metadata=f"TENSORv0:{said}")
    return index


def _flat(value: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    return np.ascontiguousarray(value).reshape(-1).view(np.uint8)


def write(path: Path, arrays: Mapping[str, np.ndarray[Any, Any]]) -> None:
    """Write an archive (.irpa, or .safetensors): the same arrays give the same bytes."""
    if path.suffix not in (".irpa", ".safetensors"):
        raise ArtifactError(explain(f"{path} cannot be written: its name says no format.", "",
                                    "give a name that ends in .irpa or .safetensors."))
    with _replacing(path) as made:
        if path.suffix == ".irpa":
            index_of(arrays).create_archive_file(str(made))
        else:
            _write_safetensors(made, arrays)


@contextlib.contextmanager
def _replacing(path: Path) -> Iterator[Path]:
    """A file to write, which then takes the place of `path` at once: who has mapped the old one
    keeps it.  With the mode that new files have here (IREE's is 0640)."""
    with tempfile.TemporaryDirectory(prefix=f".{path.name}.", dir=path.parent) as folder:
        made = Path(folder) / path.name
        made.touch()
        yield made
        os.replace(made, path)


def _write_safetensors(path: Path, arrays: Mapping[str, np.ndarray[Any, Any]]) -> None:
    names = {v: k for k, v in _SAFETENSORS.items()}
    header, end = {}, 0
    # largest elements first, so that each lies at a multiple of its size
    order = sorted(arrays, key=lambda name: (-arrays[name].dtype.itemsize, name))
    for name in order:
        value = arrays[name]
        if value.dtype.name not in names:
            raise ArtifactError(explain(f"{name} is {value.dtype}, which .safetensors has not.",
                                        str(path), "write an .irpa file."))
        header[name] = {"dtype": names[value.dtype.name], "shape": list(value.shape),
                        "data_offsets": [end, end + value.nbytes]}
        end += value.nbytes
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 64 + 56)  # the data begin at a multiple of 64
    with path.open("wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for name in order:
            file.write(_flat(np.asarray(arrays[name])))


def nbytes_of(of: Type) -> int:
    """Bytes of an array."""
    return math.prod(of[1]) * of[0].itemsize
