"""ELF files as IREE's loader takes them: is every place that it reads or writes inside?

The code that llvm-cpu makes is a shared object of 64 bits without imports.  IREE's loader copies
its segments, follows its dynamic section, applies relocations, and calls the one symbol that it
exports; it looks at none of the offsets there ("you're loading untrusted code", its source says).
`check` raises Damaged where one is outside; the instructions, and where relocated pointers within
a segment lead, are the program's own.  C++ has the same in cpp/src/artifact/elf.cc.
"""
from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass

from calque.runtime.flatbuffer import Damaged

MAGIC = b"\x7fELF"
# of machines (ELF's e_machine): the types of relocations that IREE's loader knows for 64 bits, of
# those the ones that add an address to where the file is loaded
_RELOCATIONS = {62: ({1, 2, 5, 6, 7, 8, 10, 11}, 8), 183: ({257, 1025, 1026, 1027}, 1027),
                243: ({2, 3, 5}, 3)}
_LOAD, _DYNAMIC, _RELRO = 1, 2, 0x6474e552
_EXECUTE, _WRITE, _READ = 1, 2, 4
_MOST_ALIGNMENT, _MOST_MEMORY = 1 << 24, 1 << 32
# tags of the dynamic section
_TEXTS, _SYMBOLS, _RELA, _RELA_SIZE, _TEXTS_SIZE, _HASH = 5, 6, 7, 8, 10, 4
_RELA_ENTRY, _JUMPS, _JUMPS_SIZE, _JUMPS_TYPE = 9, 23, 2, 20
_INIT, _INIT_ARRAY, _INIT_ARRAY_SIZE, _REL = 12, 25, 27, 17


@dataclass(frozen=True, slots=True)
class _Segment:
    kind: int
    flags: int
    offset: int
    address: int
    stored: int  # bytes in the file
    size: int  # bytes in memory

    def has(self, address: int, size: int) -> bool:
        return self.address <= address and address + size <= self.address + self.size


class _File:
    """The segments of a file, and what they hold at an address."""

    def __init__(self, data: memoryview, segments: Sequence[_Segment]) -> None:
        self.data = data
        self.segments = segments
        self.loaded = [s for s in segments if s.kind == _LOAD]

    def segment(self, address: int, size: int, what: str) -> _Segment:
        for s in self.loaded:
            if s.has(address, size):
                return s
        raise Damaged(f"the native code has {what} at {address}, outside")

    def stored(self, address: int, size: int, what: str) -> memoryview:
        """Bytes that the file holds for an address."""
        s = self.segment(address, size, what)
        start = address - s.address
        if start + size > s.stored:
            raise Damaged(f"the native code has {what} at {address}, which is not written")
        return self.data[s.offset + start:s.offset + start + size]


def check(data: memoryview) -> None:
    """Damaged where IREE's loader would leave the file, or the memory it is loaded to."""
    if len(data) < 64 or data[4] != 2 or data[5] != 1:
        raise Damaged("the native code is cut, or for no machine of 64 bits")
    kind, machine, version = struct.unpack_from("<HHI", data, 16)
    if machine not in _RELOCATIONS:
        return  # IREE's loader looks no further, on the machines that it is built for
    starts, sections = struct.unpack_from("<QQ", data, 32)
    size, row, rows, section, count = struct.unpack_from("<5H", data, 52)
    if (kind, version, size, row, section) != (3, 1, 64, 56, 64) or not rows or not count:
        raise Damaged("the native code's header is not one of a shared object")
    if (not 0 < starts <= len(data) - 56 * rows or starts % 8
            or not 0 < sections <= len(data) - 64 * count):
        raise Damaged("the native code's tables are outside")
    file = _File(data, [_segment(data, starts + 56 * i) for i in range(rows)])
    _check_segments(file)
    _check_dynamic(file, *_RELOCATIONS[machine])


def _segment(data: memoryview, at: int) -> _Segment:
    (kind, flags, offset, address, _, stored, size, alignment) = struct.unpack_from(
        "<IIQQQQQQ", data, at)
    if kind == _LOAD and (alignment & (alignment - 1) or not 0 < alignment <= _MOST_ALIGNMENT
                          or (offset - address) % alignment or not flags & _READ):
        raise Damaged(f"a segment of the native code cannot be loaded to {address}")
    return _Segment(kind, flags, offset, address, stored, size)


def _check_segments(file: _File) -> None:
    """They are in the file, in the order of their addresses, and none is over another."""
    end = written = 0
    for s in file.loaded:
        if (s.offset + s.stored > len(file.data) or s.stored > s.size or s.address < end
                or s.offset < written or s.address + s.size > _MOST_MEMORY):
            raise Damaged(f"{s.size} bytes of the native code at {s.address} are outside")
        if s.flags & _EXECUTE and (s.flags & _WRITE or s.stored < s.size):
            raise Damaged("native code is to be writable, or not all of it is there")
        end, written = s.address + s.size, s.offset + s.stored
    for s in file.segments:
        if s.kind == _RELRO and s.size:
            file.segment(s.address, min(s.size, 1), "constants")
            if s.address + s.size > end + (1 << 16):  # of a page, whatever its size
                raise Damaged("the native code's constants are outside")


def _check_dynamic(file: _File, types: set[int], relative: int) -> None:
    """The tables that the dynamic section names: texts, symbols, relocations, initializers."""
    found = next((s for s in file.segments if s.kind == _DYNAMIC), None)
    if found is None or found.stored < 16:
        raise Damaged("the native code has no dynamic section")
    rows = file.stored(found.address, found.stored // 16 * 16, "a dynamic section")
    tags = dict(struct.iter_unpack("<QQ", rows))  # the last of a tag counts
    if _REL in tags or any(tag not in tags for tag in (_TEXTS, _TEXTS_SIZE, _SYMBOLS, _HASH)):
        raise Damaged("the native code's dynamic section is not one of a shared object")
    (_, count) = struct.unpack("<II", file.stored(tags[_HASH], 8, "a table of names"))
    texts = file.stored(tags[_TEXTS], tags[_TEXTS_SIZE], "texts")
    if not len(texts) or texts[-1]:
        raise Damaged("the native code's texts have no end")
    symbols = file.stored(tags[_SYMBOLS], 24 * count, "symbols")
    fixed = [(found.address, len(rows)), (tags[_TEXTS], len(texts)), (tags[_SYMBOLS], len(symbols))]
    tables = []
    for at, size, entry in ((_RELA, _RELA_SIZE, _RELA_ENTRY), (_JUMPS, _JUMPS_SIZE, _JUMPS_TYPE)):
        if {at, size, entry} & tags.keys():
            if not {at, size, entry} <= tags.keys() or (
                    not tags[size] or tags[size] % 24):
                raise Damaged("the native code has half a table of relocations")
            tables.append(file.stored(tags[at], tags[size], "relocations"))
            fixed.append((tags[at], len(tables[-1])))
    values = _check_symbols(file, symbols, texts)
    for table in tables:
        _check_relocations(file, table, values, types, relative, fixed)
    if tags.get(_INIT) or tags.get(_INIT_ARRAY_SIZE) or tags.get(_INIT_ARRAY):
        raise Damaged("the native code is to be run when it is loaded, which IREE's is not")


def _check_symbols(file: _File, symbols: memoryview, texts: memoryview) -> list[int]:
    """The symbols' addresses.  IREE calls one of them: all but the first are of this file."""
    values = []
    for i, (name, _, _, section, value, _) in enumerate(struct.iter_unpack("<IBBHQQ", symbols)):
        if name >= len(texts):
            raise Damaged("a symbol of the native code has no name")
        if i and section and not file.segment(value, 1, "a symbol").flags & _EXECUTE:
            raise Damaged("a symbol of the native code is no code")
        values.append(value)
    return values


def _check_relocations(file: _File, table: memoryview, values: Sequence[int], types: set[int],
                       relative: int, fixed: Sequence[tuple[int, int]]) -> None:
    """What is written is in a segment for that, and none of the tables; it points to a segment."""
    places = [s for s in file.loaded if s.flags & _WRITE]
    last: _Segment | None = None
    for where, how, added in struct.iter_unpack("<QQq", table):
        kind, symbol = how & 0xffffffff, how >> 32
        if not (where or how or added):
            continue
        if kind not in types or symbol >= max(len(values), 1):
            raise Damaged(f"the native code has relocations of type {kind}")
        if last is None or not last.has(where, 8):
            last = next((s for s in places if s.has(where, 8)), None)
        if last is None or any(a < where + 8 and where < a + n for a, n in fixed):
            raise Damaged(f"the native code is to be changed at {where}")
        if kind == relative and (where % 8 or not any(s.has(added, 0) for s in file.loaded)):
            raise Damaged(f"the native code points from {where} to {added}, outside")
