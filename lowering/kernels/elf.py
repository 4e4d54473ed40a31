"""What an object file of the user's says of itself (ELF-64, the System V gABI)."""
from __future__ import annotations

import struct

_MACHINES = {3: "i386", 40: "arm", 62: "x86_64", 183: "aarch64", 243: "riscv64"}
_SYMTAB = 2


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
        names = _functions(code)
    except (struct.error, ValueError, IndexError):
        return "is damaged"
    if entry not in names:
        return f"defines no {entry!r} (it defines: {', '.join(sorted(names)) or 'nothing'})"
    return ""


def _functions(code: bytes) -> set[str]:
    """The global names that an object defines."""
    (table,) = struct.unpack_from("<Q", code, 40)
    size, count = struct.unpack_from("<HH", code, 58)
    sections = [struct.unpack_from("<IIQQQQIIQQ", code, table + i * size) for i in range(count)]
    names = set()
    for _, kind, _, _, offset, length, link, *_ in sections:
        if kind != _SYMTAB:
            continue
        text = sections[link][4]
        for at in range(offset, offset + length, 24):
            name, info, _, section = struct.unpack_from("<IBBH", code, at)
            if section and info >> 4 in (1, 2):  # defined, and global or weak
                end = code.index(b"\0", text + name)
                names.add(code[text + name:end].decode("utf-8", "replace"))
    return names
