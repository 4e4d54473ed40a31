"""What an object file of the user's says of itself (ELF-64, the System V gABI)."""
from __future__ import annotations

import struct

_MACHINES = {3: "i386", 40: "arm", 62: "x86_64", 183: "aarch64", 243: "riscv64"}
_SYMTAB, _RELA, _ALLOCATED = 2, 4, 2
_ADDRESSES = (10, 11)  # R_X86_64_32, R_X86_64_32S


def problem(code: bytes, arch: str, entry: str) -> str:
    """Why an object cannot be linked for an architecture ('' if it can), to follow its name."""
    if code[:4] != b"\x7fELF":
        return "is no ELF object file"
    if len(code) < 64 or code[4:6] != b"\x02\x01":
        return "is no object of 64 bits, little-endian"
    kind, machine = struct.unpack_from("<HH", code, 16)
    if kind != 1:
        return "is no relocatable object (a shared library, or an executable)"
    if _MACHINES.get(machine, "") != arch:
        return f"is code for {_MACHINES.get(machine, f'machine {machine}')}, not for {arch}"
    try:
        names, absolute = _read(code)
    except (struct.error, ValueError, IndexError):
        return "is damaged"
    if arch == "x86_64" and absolute:
        return "is not position-independent"
    if entry not in names:
        return f"defines no {entry!r} (it defines: {', '.join(sorted(names)) or 'nothing'})"
    return ""


def _read(code: bytes) -> tuple[set[str], bool]:
    """The global names that an object defines; whether it holds addresses of 32 bits (x86-64)."""
    (table,) = struct.unpack_from("<Q", code, 40)
    size, count = struct.unpack_from("<HH", code, 58)
    sections = [struct.unpack_from("<IIQQQQIIQQ", code, table + i * size) for i in range(count)]
    names, absolute = set(), False
    for _, kind, _, _, offset, length, link, info, *_ in sections:
        if kind == _SYMTAB:
            text = sections[link][4]
            for at in range(offset, offset + length, 24):
                name, about, _, section = struct.unpack_from("<IBBH", code, at)
                if section and about >> 4 in (1, 2):  # defined, and global or weak
                    end = code.index(b"\0", text + name)
                    names.add(code[text + name:end].decode("utf-8", "replace"))
        elif kind == _RELA and sections[info][2] & _ALLOCATED:
            for at in range(offset, offset + length, 24):
                absolute |= struct.unpack_from("<Q", code, at + 8)[0] & 0xFFFFFFFF in _ADDRESSES
    return names, absolute
