"""What an object file says of itself (ELF-64, the System V gABI).

It imports the standard library only: lowering/native/build.py loads it by its path.
"""
from __future__ import annotations

import struct

_MACHINES = {3: "i386", 40: "arm", 62: "x86_64", 183: "aarch64", 243: "riscv64"}
_SYMTAB, _RELA, _ALLOCATED = 2, 4, 2
_ADDRESSES = (10, 11)  # R_X86_64_32, R_X86_64_32S


def problem(code: bytes, arch: str, entry: str = "", kind: int = 1) -> str:
    """Why an object cannot be linked for an architecture ('' if it can), to follow its name.

    entry: a function that it has to define.  kind: 1 of objects, 3 of shared libraries (e_type).
    """
    if code[:4] != b"\x7fELF":
        return "is no ELF object file"
    if len(code) < 64 or code[4:6] != b"\x02\x01":
        return "is no object of 64 bits, little-endian"
    found, machine = struct.unpack_from("<HH", code, 16)
    if found != kind:
        return "is no relocatable object (a shared library, or an executable)" if kind == 1 \
            else "is no shared library"
    if _MACHINES.get(machine, "") != arch:
        return f"is code for {_MACHINES.get(machine, f'machine {machine}')}, not for {arch}"
    try:
        names, _, absolute = _read(code)
    except (struct.error, ValueError, IndexError):
        return "is damaged"
    if arch == "x86_64" and absolute:
        return "is not position-independent"
    if entry and entry not in names:
        return f"defines no {entry!r} (it defines: {', '.join(sorted(names)) or 'nothing'})"
    return ""


def missing(code: bytes) -> list[str]:
    """The names that an object (of which `problem` says nothing) uses and does not define."""
    return sorted(_read(code)[1] - {"", "_GLOBAL_OFFSET_TABLE_"})


def _read(code: bytes) -> tuple[set[str], set[str], bool]:
    """The global names that an object defines and those that it lacks; whether it holds addresses
    of 32 bits (x86-64)."""
    (table,) = struct.unpack_from("<Q", code, 40)
    size, count = struct.unpack_from("<HH", code, 58)
    sections = [struct.unpack_from("<IIQQQQIIQQ", code, table + i * size) for i in range(count)]
    names: set[str] = set()
    lacking: set[str] = set()
    absolute = False
    for _, kind, _, _, offset, length, link, info, *_ in sections:
        if kind == _SYMTAB:
            text = sections[link][4]
            for at in range(offset, offset + length, 24):
                name, about, _, section = struct.unpack_from("<IBBH", code, at)
                if about >> 4 in (1, 2):  # global or weak
                    end = code.index(b"\0", text + name)
                    word = code[text + name:end].decode("utf-8", "replace")
                    (names if section else lacking).add(word)
        elif kind == _RELA and sections[info][2] & _ALLOCATED:
            for at in range(offset, offset + length, 24):
                absolute |= struct.unpack_from("<Q", code, at + 8)[0] & 0xFFFFFFFF in _ADDRESSES
    return names, lacking, absolute
