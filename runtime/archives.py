"""Files of named arrays: IREE's parameter archives (.irpa), .safetensors and .gguf.

`read` maps a file and finds the arrays in it; every number of its tables is compared with the
file's size (IREE's own reader of .irpa files ends the process at some flipped bits).  `write` makes
an archive.  Start reading at `read`.
"""
from __future__ import annotations

import contextlib
import json
import math
import mmap
import os
import struct
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import iree.runtime as rt
import ml_dtypes
import numpy as np

from calque.runtime.errors import ArtifactError, explain

Type = tuple[np.dtype[Any], tuple[int, ...]]

# Metadata of an array in an .irpa file: these words, a colon and JSON (IREE's tools write it, too).
_HEADS = (b"TENSORv0:", b"PYTORCH:")
_SAFETENSORS = {"BOOL": "bool", "I8": "int8", "I16": "int16", "I32": "int32", "I64": "int64",
                "U8": "uint8", "U16": "uint16", "U32": "uint32", "U64": "uint64", "F16": "float16",
                "BF16": "bfloat16", "F32": "float32", "F64": "float64", "C64": "complex64",
                "F8_E4M3": "float8_e4m3fn", "F8_E5M2": "float8_e5m2"}
_GGUF = {0: "float32", 1: "float16", 24: "int8", 25: "int16", 26: "int32", 27: "int64",
         28: "float64", 30: "bfloat16"}
_GGUF_BLOCKS = {2: (32, 18), 3: (32, 20), 6: (32, 22), 7: (32, 24), 8: (32, 34), 9: (32, 40),
                10: (256, 84), 11: (256, 110), 12: (256, 144), 13: (256, 176), 14: (256, 210),
                15: (256, 292), 16: (256, 66), 17: (256, 74), 18: (256, 98), 19: (256, 50),
                20: (32, 18), 21: (256, 110), 22: (256, 82), 23: (256, 136),
                29: (256, 56)}  # numbers, bytes
_GGUF_NUMBERS = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}
_NAMES = frozenset({*_SAFETENSORS.values(), "complex128", "float8_e4m3fnuz", "float8_e5m2fnuz",
                    "float8_e3m4", "float8_e4m3", "float8_e4m3b11fnuz", "float8_e8m0fnu",
                    "float4_e2m1fn", "int2", "int4", "uint2", "uint4"})
_MOST_AXES = 32


@dataclass(frozen=True, slots=True)
class Entry:
    """An array in an archive: where its bytes are, and its type where the file says it.

    Attributes:
      pattern: bytes that are repeated, of an array that is not in the file.
    """

    offset: int
    nbytes: int
    type: Type | None = None
    pattern: bytes = b""


class Archive:
    """A mapped file and the arrays in it, by name."""

    def __init__(self, memory: Any, entries: Mapping[str, Entry]) -> None:
        self.memory, self.entries = memory, entries

    def bytes(self, name: str) -> Any:
        """The bytes of an array; nothing of a mapped one is read."""
        e = self.entries[name]
        if e.pattern:
            return e.pattern * (e.nbytes // len(e.pattern))
        return memoryview(self.memory)[e.offset:e.offset + e.nbytes]

    def index(self, names: Mapping[str, Any]) -> Any:
        """IREE's index of some of them."""
        made, handle = rt.ParameterIndex(), rt.FileHandle.wrap_memory(self.memory)
        for name in names:
            e = self.entries[name]
            if e.pattern:
                made.add_splat(name, np.frombuffer(e.pattern, np.uint8), e.nbytes)
            else:
                made.add_from_file_handle(name, handle, e.nbytes, e.offset)
        return made


def dtype_of(name: str) -> np.dtype[Any]:
    """The dtype of a name; ml_dtypes' names included."""
    return np.dtype(getattr(ml_dtypes, name, None) or name)


def nbytes_of(of: Type) -> int:
    """Bytes of an array."""
    return math.prod(of[1]) * of[0].itemsize


def read(path: Path, where: str, cure: str = "") -> Archive:
    """An archive, mapped; ArtifactError if it cannot be read."""
    if path.suffix not in _READERS:
        raise ArtifactError(explain(f"{path} is no parameter archive.", where,
                                    f"give a file that ends in {', '.join(_READERS)}."))
    if not path.is_file():
        raise ArtifactError(explain(f"there is no archive {path}.", where,
                                    cure or "check the path."))
    try:
        with path.open("rb") as file:
            memory = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        entries = _READERS[path.suffix](_Cursor(memory))
        for name, e in entries.items():
            if not e.pattern and not 0 <= e.offset <= e.offset + e.nbytes <= len(memory):
                raise _Odd(f"{name} is outside the file")
        return Archive(memory, entries)
    except (OSError, ValueError, KeyError, TypeError, OverflowError, RecursionError) as error:
        text = str(error) if isinstance(error, OSError | _Odd) else repr(error)
        raise ArtifactError(explain(f"{path} cannot be read: {text}.", where,
                                    "copy it again, or write it again.")) from error


class _Odd(ValueError):
    """A file that is not what its name says."""


class _Cursor:
    """A place in a file's bytes."""

    def __init__(self, memory: Any, at: int = 0) -> None:
        self.memory, self.at = memory, at

    def take(self, count: int) -> bytes:
        """The next bytes."""
        start, self.at = self.at, self.at + count
        if not 0 <= start <= self.at <= len(self.memory):
            raise _Odd("its tables end behind the file")
        return bytes(self.memory[start:self.at])

    def skip(self, count: int) -> None:
        """Step over bytes."""
        self.at += count
        if not 0 <= self.at <= len(self.memory):
            raise _Odd("its tables end behind the file")

    def numbers(self, code: str) -> Any:
        """The next numbers, little-endian, as struct writes their types."""
        return struct.unpack("<" + code, self.take(struct.calcsize("<" + code)))

    def number(self, code: str) -> int:
        """The next number."""
        return int(self.numbers(code)[0])

    def text(self) -> bytes:
        """The next bytes, whose count stands before them."""
        return self.take(self.number("Q"))


def _type(dtype: Any, shape: Any) -> Type:
    """A type as JSON says it."""
    if not isinstance(shape, list) or len(shape) > _MOST_AXES or not all(
            type(d) is int and d >= 0 for d in shape):
        raise _Odd(f"an array has the shape {str(shape)[:100]}")
    if dtype not in _NAMES:
        raise _Odd(f"{str(dtype)[:100]} is no type that a device has")
    return dtype_of(dtype), tuple(shape)


# ---- .irpa
def _of_irpa(cursor: _Cursor) -> dict[str, Entry]:
    """Headers that follow each other, each with a table, names and data of its own; what they say
    of places counts from the header on."""
    made: dict[str, Entry] = {}
    base = rows = 0
    while True:
        head = _Cursor(cursor.memory, base)
        magic, major, _, size, following, _ = head.numbers("4sHHQQQ")
        if magic != b"IRPA" or major != 0 or size < 88:
            raise _Odd("it is no parameter archive of version 0")
        count, table, length, names, _, data, room = head.numbers("7Q")
        rows += count
        if rows > len(cursor.memory) // 60:
            raise _Odd("its tables are longer than the file")
        made |= _of_table(_Cursor(cursor.memory, base + table), count, base + table + length,
                          base + names, base + data, room)
        if not following:
            return made
        base += following  # (ever further: it ends)


def _of_table(row: _Cursor, count: int, end: int, names: int, data: int, room: int
              ) -> dict[str, Entry]:
    made = {}
    for _ in range(count):
        start = row.at
        size, kind, _, name, name_size, said, said_size, _ = row.numbers("QI6Q")
        if size < 60 or start + size > end:
            raise _Odd("an entry is longer than the table")
        key = _Cursor(row.memory, names + name).take(name_size).decode()
        known = _of_metadata(_Cursor(row.memory, names + said).take(said_size))
        if kind == 1:
            nbytes, pattern, used = row.numbers("Q16sB")
            if used not in (1, 2, 4, 8, 16) or nbytes % used:
                raise _Odd(f"{key} repeats {used} bytes")
            made[key] = Entry(0, nbytes, known, pattern[:used])
        elif kind == 2:
            offset, nbytes = row.numbers("QQ")
            if offset + nbytes > room:
                raise _Odd(f"{key} is outside the file")
            made[key] = Entry(data + offset, nbytes, known)
        elif kind != 0:
            raise _Odd(f"it has an entry of kind {kind}")
        row.at = start + -(-size // 16) * 16
    return made


def _of_metadata(data: bytes) -> Type | None:
    """What an .irpa file says of an array; None where it says nothing that we know."""
    for head in _HEADS:
        if data.startswith(head):
            with contextlib.suppress(ValueError, KeyError, TypeError, RecursionError):
                said = json.loads(data[len(head):])
                return _type(said["dtype"], said["shape"])
    return None


# ---- .safetensors, .gguf
def _of_safetensors(cursor: _Cursor) -> dict[str, Entry]:
    header = json.loads(cursor.text())
    if not isinstance(header, dict):
        raise _Odd("its header is no dictionary")
    made = {}
    for name, said in header.items():
        if name == "__metadata__":
            continue
        known = (_type(_SAFETENSORS[said["dtype"]], said["shape"])
                 if said["dtype"] in _SAFETENSORS else None)
        start, end = said["data_offsets"]
        if not (type(start) is type(end) is int and 0 <= start <= end) or (
                known is not None and nbytes_of(known) != end - start):
            raise _Odd(f"{name} lies at {start} to {end}")
        made[name] = Entry(cursor.at + start, end - start, known)
    return made


def _of_gguf(cursor: _Cursor) -> dict[str, Entry]:
    """Arrays in blocks (Q8_0 and others) have no dtype here: they are bytes."""
    magic, version, arrays, keys = cursor.numbers("4sIQQ")
    if magic != b"GGUF" or version not in (2, 3):
        raise _Odd("it is no GGUF file of version 2 or 3")
    alignment = 32
    for _ in range(keys):
        key, kind = cursor.text(), cursor.number("I")
        start = cursor.at
        _skip_value(cursor, kind)
        if key == b"general.alignment":
            alignment = _Cursor(cursor.memory, start).number("I") if kind == 4 else 0
            if not alignment:  # (IREE divides by it)
                raise _Odd("its arrays are aligned to nothing")
    rows = []
    for _ in range(arrays):
        name, rank = cursor.text().decode(), cursor.number("I")
        if rank > _MOST_AXES:
            raise _Odd(f"{name} has {rank} axes")
        shape = cursor.numbers(f"{rank}Q")[::-1]  # the fastest comes first
        rows.append((name, shape, *cursor.numbers("IQ")))
    begin = -(-cursor.at // alignment) * alignment
    made = {}
    for name, shape, kind, offset in rows:
        if kind in _GGUF:
            known = dtype_of(_GGUF[kind]), shape
            made[name] = Entry(begin + offset, nbytes_of(known), known)
        elif kind in _GGUF_BLOCKS:
            numbers, size = _GGUF_BLOCKS[kind]
            made[name] = Entry(begin + offset, math.prod(shape) // numbers * size)
        else:
            raise _Odd(f"{name} is of a type {kind} that is not known")
    return made


def _skip_value(cursor: _Cursor, kind: int) -> None:
    """Step over one value of a GGUF file's settings."""
    if kind in _GGUF_NUMBERS:
        cursor.skip(_GGUF_NUMBERS[kind])
    elif kind == 8:
        cursor.skip(cursor.number("Q"))
    elif kind == 9:
        inner, count = cursor.numbers("IQ")
        if inner in _GGUF_NUMBERS:
            cursor.skip(_GGUF_NUMBERS[inner] * count)
        elif inner == 8:
            for _ in range(count):  # (each takes 8 bytes: the file ends some time)
                cursor.skip(cursor.number("Q"))
        else:
            raise _Odd(f"it has a list of values of kind {inner}")
    else:
        raise _Odd(f"it has a value of kind {kind}")


_READERS: dict[str, Callable[[_Cursor], dict[str, Entry]]] = {
    ".irpa": _of_irpa, ".safetensors": _of_safetensors, ".gguf": _of_gguf}
SUFFIXES = tuple(_READERS)


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
            file.write(_flat(np.asarray(arrays[name])).data)
