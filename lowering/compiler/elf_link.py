"""x86-64 object files -> the shared object that IREE's embedded ELF loader takes.

What `iree-lld -shared -static --gc-sections` does, without a process: the sections that are needed
are laid out in three segments (R, RX, RW), PC-relative relocations are applied, absolute ones
become R_X86_64_RELATIVE.  The C library's functions are ours (LIBRARY).  What it does not know it
refuses, and IREE links.
It imports nothing of calque: the compiler's process reads it.  Start reading at `link`.
"""
from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from typing import NamedTuple

EXPORTED = "iree_hal_executable_library_query"  # the one symbol that the loader asks for
_PAGE = 0x1000
_LARGEST = 1 << 26  # bytes of a program: zeros, too, are written out
_SYMTAB, _RELA, _NOBITS = 2, 4, 8
_TLS = 0x400
_GLOBAL, _INDIRECT = 1, 10  # a symbol's binding; its type: what it means is found out at load
_ABSOLUTE, _RELATIVE_TO_PC, _BY_TABLE = (1,), (2, 4), (9, 41, 42)  # R_X86_64_64, PC32 PLT32, GOT*
_CODE = 6  # a section's flags: in memory, executable

# What native/library.S is in machine code.
_MEMMOVE = bytes.fromhex(
    "4889f84883fa100f82c50000000f106416f00f102e4883fa200f86aa0000004889f94829f14839d17255488d4c17"
    "f04883ea40722c0f10060f104e100f1056200f105e300f11070f114f100f1157200f115f304883c6404883c74048"
    "83ea4073d44883c2307e140f10060f11074883c6104883c7104883ea107fec0f1121c34883ea40722c0f10441630"
    "0f104c16200f105416100f101c160f114417300f114c17200f115417100f111c174883ea4073d44883c2307e0e0f"
    "1004160f1104174883ea107ff20f1128c30f112f0f116417f0c383fa08733783fa04732385d2741e0fb60e440fb6"
    "4416ff4c8d4c17ffd1ea440fb6141644881417880f458801c38b0e448b4416fc890f44894417fcc3488b0e4c8b44"
    "16f848890f4c894417f8c3")
_MEMSET = bytes.fromhex(
    "4889f8400fb6f648b90101010101010101480faff14883fa10724166480f6ec6660f6cc00f114417f04883ea4072"
    "190f11070f1147100f1147200f1147304883c7404883ea4073e74883c2307e0d0f11074883c7104883ea107ff3c3"
    "83fa08731f83fa04731385d274f140883740887417ffd1ea40883417c38937897417fcc348893748897417f8c3")
_FMODF = bytes.fromhex(
    "f30f114c24fcd94424fcf30f114424fcd94424fcd9f8dfe0f6c40475f7ddd9d95c24fcf30f104424fcc3")

# What stands for functions of a C library.  IREE gives every program a memcpy that moves a byte at
# a time, and a memset and a memmove of its kind, for LLVM to compile once more: they are dropped.
LIBRARY = {"memcpy": _MEMMOVE, "memmove": _MEMMOVE, "memset": _MEMSET, "fmodf": _FMODF}


class Refused(Exception):
    """The objects have something that this linker, or the shortcut, does not know."""


class _Section(NamedTuple):
    flags: int
    size: int
    align: int
    content: bytes  # (none of what is zeros at first)


class _Symbol(NamedTuple):
    name: str
    info: int
    section: int  # -1: it lies in another file, or in no section
    value: int


class _Relocation(NamedTuple):
    at: int
    kind: int
    symbol: _Symbol
    addend: int


class _Objects:
    """Sections, symbols and relocations of object files, numbered through, and LIBRARY's functions:
    for those of the first file, which is IREE's, and for what no file has."""

    def __init__(self, files: Sequence[bytes]) -> None:
        self.sections: list[_Section] = []
        self.symbols: list[_Symbol] = []
        self._relocations: dict[int, tuple[bytes, int]] = {}  # entries, the file's first symbol
        for data in files:
            self._read(data)
            if data is files[0]:
                dropped = {symbol.name: symbol.section for symbol in self.symbols
                           if symbol.name in LIBRARY and symbol.section >= 0 == symbol.value}
        self.named: dict[str, _Symbol] = {}
        for symbol in self.symbols:
            if symbol.info >> 4 and symbol.section >= 0:
                other = self.named.get(symbol.name)
                if other is not None and symbol.info >> 4 == other.info >> 4 == _GLOBAL:
                    raise Refused(f"two symbols {symbol.name}")
                if other is None or symbol.info >> 4 == _GLOBAL:  # (weak ones give way)
                    self.named[symbol.name] = symbol
        self._instead: dict[int, int] = {}  # sections
        for name, code in LIBRARY.items():
            ours = len(self.sections)
            self.sections.append(_Section(_CODE, len(code), 16, code))
            self.named.setdefault(name, _Symbol(name, _GLOBAL << 4, ours, 0))
            if name in dropped:
                self._instead[dropped[name]] = ours

    def _read(self, data: bytes) -> None:
        if data[:6] != b"\x7fELF\x02\x01" or struct.unpack_from("<HH", data, 16) != (1, 62):
            raise Refused("not an x86-64 object")
        (table,) = struct.unpack_from("<Q", data, 40)
        size, count = struct.unpack_from("<HH", data, 58)
        headers = [struct.unpack_from("<IIQQQQIIQQ", data, table + i * size) for i in range(count)]
        contents = [b"" if kind == _NOBITS else data[offset:offset + length]
                    for _, kind, _, _, offset, length, *_ in headers]
        first, known = len(self.sections), len(self.symbols)
        for (_, kind, flags, _, _, length, link, info, align, _), content in zip(headers, contents):
            self.sections.append(_Section(flags, length, max(1, align), content))
            if kind == _SYMTAB:
                for name, what, _, section, value, _ in struct.iter_unpack("<IBBHQQ", content):
                    text = contents[link][name:contents[link].index(b"\0", name)].decode()
                    where = first + section if 0 < section < count else -1
                    self.symbols.append(_Symbol(text, what, where, value))
            elif kind == _RELA:
                self._relocations[first + info] = content, known

    def relocations(self, section: int) -> Iterator[_Relocation]:
        entries, known = self._relocations.get(section, (b"", 0))
        for at, info, addend in struct.iter_unpack("<QQq", entries):
            symbol = self.symbols[known + (info >> 32)]
            if symbol.section < 0 or symbol.info >> 4:
                if symbol.name not in self.named:
                    raise Refused(f"undefined symbol {symbol.name}")
                symbol = self.named[symbol.name]
            if symbol.info & 15 == _INDIRECT:
                raise Refused(f"indirect function {symbol.name}")
            if symbol.section in self._instead:
                symbol = symbol._replace(section=self._instead[symbol.section])
            yield _Relocation(at, info & 0xffffffff, symbol, addend)

    def reached(self, root: int) -> list[tuple[int, list[_Relocation]]]:
        """The sections that one needs, itself among them, with their relocations."""
        found: dict[int, list[_Relocation]] = {}
        todo = [root]
        while todo:
            section = todo.pop()
            if section in found:
                continue
            if self.sections[section].flags & _TLS or self.sections[section].align > _PAGE:
                raise Refused("a symbol of each thread's own, or of large alignment")
            found[section] = list(self.relocations(section))
            todo += [r.symbol.section for r in found[section]]
        return sorted(found.items())


def link(files: Sequence[bytes], query: str) -> bytes:
    """The shared object of object files, in which EXPORTED is the function `query`.

    Raises:
      Refused: they need what is not known here (a symbol from elsewhere, a relocation).
    """
    source = _Objects(files)
    root = source.named.get(query)
    if root is None:
        raise Refused(f"no function {query}")
    live = source.reached(root.section)
    if sum(source.sections[section].size for section, _ in live) > _LARGEST:
        raise Refused("it is large")
    pending = [(section, r) for section, found in live for r in found]
    slots = {symbol: n for n, symbol in enumerate(dict.fromkeys(
        r.symbol for _, r in pending if r.kind in _BY_TABLE))}
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
        for i, _ in live:
            section = source.sections[i]
            if (1 if section.flags & 4 else 2 if section.flags & 1 else 0) == group:
                place[i] = at = -(-at // section.align) * section.align
                at += section.size
        if group == 2:
            table_at = -(-at // 16) * 16
            dynamic_at = table_at + 8 * len(slots)
            at = dynamic_at + 16 * 9
        segments.append((start, at - start))
    out = bytearray(at)
    for i, where in place.items():
        content = source.sections[i].content
        out[where:where + len(content)] = content
    fixes = _relocate(out, pending, place, slots, table_at)
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


def _relocate(out: bytearray, pending: list[tuple[int, _Relocation]], place: dict[int, int],
              slots: dict[_Symbol, int], table_at: int) -> list[tuple[int, int]]:
    """Apply relocations; those that the loader has to: (where, value)."""
    def value(symbol: _Symbol) -> int:
        return place[symbol.section] + symbol.value

    fixes = [(table_at + 8 * n, value(symbol)) for symbol, n in slots.items()]
    for section, r in pending:
        where = place[section] + r.at
        if r.kind in _ABSOLUTE:
            fixes.append((where, value(r.symbol) + r.addend))
            continue
        aim = table_at + 8 * slots[r.symbol] if r.kind in _BY_TABLE else value(r.symbol)
        struct.pack_into("<i", out, where, aim + r.addend - where)
    for where, target in fixes:
        struct.pack_into("<q", out, where, target)
    return fixes
