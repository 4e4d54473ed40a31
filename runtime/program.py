"""What is in a compiled module, read without IREE: a file may be damaged, or from anywhere.

IREE's loader follows much that it reads without a look (in 3.13 a callee's number, say, and all of
an ELF file), and a module with a changed byte can end the process.  `read_program` looks at every
offset and number that the loader follows, and gives the texts that the functions carry; it raises
Damaged for all else.  A module is a ZIP's local header (or none), a FlatBuffer (schema below, as in
IREE's bytecode_module_def.fbs) with its length before it, and read-only data at multiples of 64.
C++ has the same in cpp/src/artifact/program.cc.  Start reading at `read_program`.
"""
from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from calque.runtime import bytecode, elf
from calque.runtime.flatbuffer import Damaged, Schema, read

ALIGNMENT = 64  # of read-only data
_ZIP = b"PK\x03\x04"
_IDENTIFIER = b"IREE"
_SCHEMA: Schema = {
    "Attribute": ("string", "string"),
    "Type": ("string",),
    "Signature": ("string", "[Attribute]"),
    "Dependency": ("string", 4, 4),
    "Import": ("string", "Signature", 4),
    "Export": ("string", 4),
    "Uncompressed": (),
    "ReadOnly": (1, "Uncompressed", "[1]", 8, 8),
    "Writable": (4,),
    "State": (4, 4),
    "Module": ("string", 4, 4, "[Attribute]", "[Type]", "[Dependency]", "[Import]", "[Export]",
               "[Signature]", "[ReadOnly]", "[Writable]", "State", "[20]", 4, "[1]", "Sources"),
    "Sources": ("[1]", "[?]", "[Places]"),
    "Places": ("string", "[8]"),
    "?": ("CallSite", "Line", "Fused", "Named"),
    "CallSite": (4, 4),
    "Line": ("string", 4, 4),
    "Fused": ("string", "[4]"),
    "Named": ("string", 4),
}
_REGISTERS = 0x4000  # that a function may have of a kind, fewer than
_MOST_STATE = 1 << 24  # bytes of a module's variables
_DEEPEST_SOURCE = 4096  # locations within each other


@dataclass(frozen=True, slots=True)
class Program:
    """What a module says of itself.

    Attributes:
      functions: of each exported function the attributes that it carries, as they are written.
      depends_on: the modules that it calls.
    """

    functions: Mapping[str, Mapping[str, str]]
    depends_on: tuple[str, ...]


def read_program(part: bytes) -> Program:
    """What a module says, all of whose structure has been looked at; Damaged otherwise."""
    data = memoryview(part)
    start, end = _place(data)
    module = read(data[start:end], _SCHEMA, "Module", _IDENTIFIER)
    (name, _, _, _, types, dependencies, imports, exports, signatures, constants, _, state,
     *_, sources) = module
    _text(name, "the module")
    for (full_name,) in types or ():
        _text(full_name, "a type")
    for full_name, signature, _ in imports or ():
        text = _text(full_name, "a function that it calls")
        if signature is None:
            raise Damaged(f"the function {text} that it calls has no type")
    signatures = signatures or ()
    functions: dict[str, Mapping[str, str]] = {}
    attributes: dict[int, Mapping[str, str]] = {}  # of each function once
    for local_name, number in exports or ():
        exported, ordinal = _text(local_name, "a function"), number or 0
        if exported in functions or ordinal >= len(signatures):
            raise Damaged(f"the function {exported} is there twice, or nowhere")
        if ordinal not in attributes:
            attributes[ordinal] = _attributes(signatures[ordinal][1])
        functions[exported] = attributes[ordinal]
    size, references = (n or 0 for n in state or (0, 0))
    if size > _MOST_STATE or references > _MOST_STATE // 16:
        raise Damaged(f"its variables take {size} bytes and {references} references")
    bytecode.check(_code(module))
    _check_sources(*sources or (None, None, None))
    _check_constants(data, (end + ALIGNMENT - 1) // ALIGNMENT * ALIGNMENT, constants or ())
    return Program(functions, tuple(_text(d[0], "a module that it calls")
                                    for d in dependencies or ()))


def read_code(data: memoryview) -> bytecode.Code:
    """The code of a module, as a part of its bytes; Damaged where it has none."""
    start, end = _place(data)
    return _code(read(data[start:end], _SCHEMA, "Module", _IDENTIFIER))


def _code(module: Sequence[Any]) -> bytecode.Code:
    types, _, imports, _, signatures, _, _, state, descriptors, version, code = module[4:15]
    return bytecode.Code(
        version or 0, code or b"", _descriptors(descriptors or b"", len(signatures or ())),
        [bytes(s[0] or b"") for s in signatures or ()],
        [bytes(i[1][0] or b"") for i in imports or ()], len(types or ()), (state or (0,))[0] or 0)


def _place(data: memoryview) -> tuple[int, int]:
    """Where the FlatBuffer begins and ends."""
    start = 0
    if data[:4] == _ZIP:
        if len(data) < 30:
            raise Damaged("its header is cut")
        start = 30 + sum(struct.unpack_from("<HH", data, 26))
    if start + 4 > len(data):
        raise Damaged("its header is longer than it")
    (size,) = struct.unpack_from("<I", data, start)
    start += 4
    if not 8 <= size <= len(data) - start:
        raise Damaged(f"its tables take {size} bytes of {len(data) - start}")
    return start, start + size


def _text(value: memoryview | None, of: str) -> str:
    """A name, which is there."""
    if not value:
        raise Damaged(f"{of} has no name")
    return _decoded(value)


def _decoded(value: memoryview | bytes) -> str:
    try:
        return str(value, "utf-8")
    except UnicodeDecodeError:
        raise Damaged("a text is not UTF-8") from None


def _attributes(given: Sequence[tuple[Any, Any]] | None) -> Mapping[str, str]:
    """Of two attributes of one name the first counts, as in IREE."""
    made: dict[str, str] = {}
    for key, value in given or ():
        made.setdefault(_text(key, "an attribute"), _decoded(value or b""))
    return made


def _descriptors(table: memoryview | bytes, count: int) -> list[bytecode.Function]:
    """Where the code of each function is, and how much it works with."""
    if len(table) != 20 * count:
        raise Damaged(f"{count} functions have {len(table) // 20} descriptions")
    made = []
    for row in struct.iter_unpack("<iiIhhhh", table):
        start, size, _, _, blocks, numbers, references = row
        if start < 0 or size <= 0 or blocks <= 0 or not (
                0 <= numbers < 2 * _REGISTERS and 0 <= references < _REGISTERS):
            raise Damaged(f"a function is described by {row}")
        made.append(bytecode.Function(start, size, numbers, references))
    return made


def _check_constants(data: memoryview, start: int, constants: Sequence[tuple[Any, ...]]) -> None:
    """Read-only data are inside the file; those that are native code can be loaded."""
    for compressed, _, embedded, offset, size in constants:
        if (compressed or 0) > 1:
            raise Damaged("its data are written in an unknown way")
        if embedded is None:
            first = start + (offset or 0)
            if first + (size or 0) > len(data):
                raise Damaged(f"{size} bytes at {first} of {len(data)} are to be read")
            embedded = data[first:first + (size or 0)]
        if embedded[:4] == elf.MAGIC:
            elf.check(embedded)


def _check_sources(_: Any, locations: Sequence[tuple[int, Any]] | None,
                   functions: Sequence[tuple[Any, Any]] | None) -> None:
    """Source locations are made of earlier ones: IREE writes them, where a call fails, by calling
    itself for each."""
    depth = [1] * len(locations or ())
    for i, (kind, fields) in enumerate(locations or ()):
        inner: Sequence[int] = ()
        if kind == 1:
            inner = [n or 0 for n in fields]
        elif kind == 3 and fields[1] is not None:
            inner = memoryview(fields[1]).cast("i")
        elif kind == 4 and fields[1] is not None:
            inner = fields[1:]
        for k in inner:
            if not 0 <= k < i:
                raise Damaged(f"source location {i} is made of {k}")
            depth[i] = max(depth[i], depth[k] + 1)
        if depth[i] > _DEEPEST_SOURCE:
            raise Damaged(f"source location {i} is made of {depth[i]}")
    for _, places in functions or ():
        for _, k in struct.iter_unpack("<ii", places or b""):
            if not 0 <= k < len(depth):
                raise Damaged(f"source location {k} of {len(depth)} is named")
