"""One x86-64 object file -> the shared object that IREE's embedded ELF loader takes.

What `iree-lld -shared -static` does for one object, without a process (a third of a small program's
compile): allocated sections are laid out in three segments (R, RX, RW), PC-relative relocations are
applied, absolute ones become R_X86_64_RELATIVE.  What it does not know it refuses, and IREE links.
It imports nothing of calque: the compiler's process reads it.  Start reading at `link`.
"""
from __future__ import annotations

import struct
from typing import NamedTuple

EXPORTED = "iree_hal_executable_library_query"  # the one symbol that the loader asks for
_PAGE = 0x1000
_SYMTAB, _RELA, _NOBITS = 2, 4, 8
_TLS = 0x400
_ABSOLUTE, _RELATIVE_TO_PC, _BY_TABLE = (1,), (2, 4), (9, 41, 42)  # R_X86_64_64, PC32 PLT32, GOT*


class Refused(Exception):
    """The object has something that this linker, or the short way, does not know."""


class _Section(NamedTuple):
    name: int
    kind: int
    flags: int
    address: int
    offset: int
    size: int
    link: int
    info: int
    align: int
    entry: int


class _Symbol(NamedTuple):
    name: str
    section: int
    value: int


class _Relocation(NamedTuple):
    at: int
    kind: int
    symbol: int
    addend: int


class _Object:
    """Sections, symbols and relocations of an object file."""

    def __init__(self, data: bytes) -> None:
        if data[:6] != b"\x7fELF\x02\x01" or struct.unpack_from("<HH", data, 16) != (1, 62):
            raise Refused("not an x86-64 object")
        self.data = data
        (table,) = struct.unpack_from("<Q", data, 40)
        size, count = struct.unpack_from("<HH", data, 58)
        self.sections = [_Section(*struct.unpack_from("<IIQQQQIIQQ", data, table + i * size))
                         for i in range(count)]
        self.symbols: list[_Symbol] = []
        self.relocations: dict[int, list[_Relocation]] = {}
        for s in self.sections:
            if s.kind == _SYMTAB:
                names = self.sections[s.link].offset
                for at in range(s.offset, s.offset + s.size, 24):
                    name, _, _, section, value, _ = struct.unpack_from("<IBBHQQ", data, at)
                    end = data.index(b"\0", names + name)
                    self.symbols.append(
                        _Symbol(data[names + name:end].decode(), section, value))
            elif s.kind == _RELA:
                entries = self.relocations.setdefault(s.info, [])
                for at in range(s.offset, s.offset + s.size, 24):
                    where, info, addend = struct.unpack_from("<QQq", data, at)
                    entries.append(_Relocation(where, info & 0xffffffff, info >> 32, addend))

    def reached(self, root: int) -> list[int]:
        """The sections that one needs, itself among them."""
        found: set[int] = set()
        todo = [root]
        while todo:
            section = todo.pop()
            if section in found:
                continue
            if not 0 < section < len(self.sections) or self.sections[section].flags & _TLS:
                raise Refused("a symbol without a section of its own")
            found.add(section)
            for relocation in self.relocations.get(section, ()):
                symbol = self.symbols[relocation.symbol]
                if symbol.section == 0:
                    raise Refused(f"undefined symbol {symbol.name}")
                todo.append(symbol.section)
        return sorted(found)


def link(data: bytes, query: str) -> bytes:
    """The shared object of an object file, in which EXPORTED is the function `query`.

    Raises:
      Refused: the object needs what is not known here (a symbol from elsewhere, a relocation).
    """
    source = _Object(data)
    root = next((s for s in source.symbols if s.name == query and s.section), None)
    if root is None:
        raise Refused(f"no function {query}")
    live = source.reached(root.section)
    pending = [(section, r) for section in live for r in source.relocations.get(section, ())]
    slots = list(dict.fromkeys(r.symbol for _, r in pending if r.kind in _BY_TABLE))
    for _, r in pending:
        if r.kind not in (*_ABSOLUTE, *_RELATIVE_TO_PC, *_BY_TABLE):
            raise Refused(f"relocation {r.kind}")
    count = len(slots) + sum(r.kind in _ABSOLUTE for _, r in pending)
    # The loader's tables come first, in the readable segment: their sizes are known beforehand.
    names = b"\0" + EXPORTED.encode() + b"\0"
    symbols_at = 64 + 56 * 4
    hash_at = symbols_at + 48
    names_at = hash_at + 24
    fixes_at = names_at + (len(names) + 7) // 8 * 8
    at = fixes_at + 24 * count
    place: dict[int, int] = {}
    segments: list[tuple[int, int]] = []
    start = 0
    for group in range(3):
        if group:  # the same offset in the file as in memory: simple, at the price of zeros
            start = at = -(-at // _PAGE) * _PAGE
        for i in live:
            section = source.sections[i]
            if (1 if section.flags & 4 else 2 if section.flags & 1 else 0) == group:
                place[i] = at = -(-at // max(1, section.align)) * max(1, section.align)
                at += section.size
        if group == 2:
            table_at = -(-at // 16) * 16
            dynamic_at = table_at + 8 * len(slots)
            at = dynamic_at + 16 * 9
        segments.append((start, at - start))
    out = bytearray(at)
    for i, where in place.items():
        section = source.sections[i]
        if section.kind != _NOBITS:
            out[where:where + section.size] = data[section.offset:section.offset + section.size]
    fixes = _relocate(out, source, pending, place, slots, table_at)
    for n, (where, value) in enumerate(fixes):
        struct.pack_into("<QQq", out, fixes_at + 24 * n, where, 8, value)
    struct.pack_into("<IBBHQQ", out, symbols_at + 24, 1, 0x12, 0, 7,
                     place[root.section] + root.value, 0)
    struct.pack_into("<IIIIII", out, hash_at, 1, 2, 1, 0, 0, 0)
    out[names_at:names_at + len(names)] = names
    entries = ((4, hash_at), (5, names_at), (6, symbols_at), (10, len(names)), (11, 24),
               (7, fixes_at), (8, 24 * len(fixes)), (9, 24), (0, 0))
    for n, entry in enumerate(entries):
        struct.pack_into("<QQ", out, dynamic_at + 16 * n, *entry)
    struct.pack_into("<16sHHIQQQIHHHHHH", out, 0, b"\x7fELF\x02\x01\x01" + b"\0" * 9, 3, 62, 1, 0,
                     64, len(out), 0, 64, 56, 4, 64, 1, 0)
    for n, ((begin, size), flags) in enumerate(zip(segments, (4, 5, 6))):
        struct.pack_into("<IIQQQQQQ", out, 64 + 56 * n, 1, flags, begin, begin, begin, size, size,
                         _PAGE)
    struct.pack_into("<IIQQQQQQ", out, 64 + 56 * 3, 2, 6, dynamic_at, dynamic_at, dynamic_at, 144,
                     144, 8)
    return bytes(out) + bytes(64)  # the loader wants a table of sections: one empty one


def _relocate(out: bytearray, source: _Object, pending: list[tuple[int, _Relocation]],
              place: dict[int, int], slots: list[int], table_at: int) -> list[tuple[int, int]]:
    """Apply relocations; those that the loader has to: (where, value)."""
    def value(symbol: int) -> int:
        return place[source.symbols[symbol].section] + source.symbols[symbol].value

    fixes = [(table_at + 8 * n, value(symbol)) for n, symbol in enumerate(slots)]
    for section, r in pending:
        where = place[section] + r.at
        if r.kind in _ABSOLUTE:
            fixes.append((where, value(r.symbol) + r.addend))
            continue
        aim = table_at + 8 * slots.index(r.symbol) if r.kind in _BY_TABLE else value(r.symbol)
        struct.pack_into("<i", out, where, aim + r.addend - where)
    for where, target in fixes:
        struct.pack_into("<q", out, where, target)
    return fixes
