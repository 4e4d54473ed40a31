"""What PTX says of itself: version, architecture, entries and their parameters.

After NVIDIA's "PTX ISA" ("Directives").  Start reading at `read`.
"""
from __future__ import annotations

import math
import re
from dataclasses import dataclass

_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.S)
_VERSION = re.compile(r"^\s*\.version\s+(\d+)\.(\d+)", re.M)
_TARGET = re.compile(r"^\s*\.target\s+(sm_\d+[af]?)", re.M)
_ENTRY = re.compile(r"\.entry\s+([\w$]+)\s*(?:\(([^)]*)\))?([^{;]*)\{")
_PARAMETER = re.compile(r"\.param\s+(?:\.align\s+\d+\s+)?\.(\w+)(?:\s+\.ptr\b(?:\s+\.align\s+\d+|"
                        r"\s+\.(?:const|global|local|shared))*)?\s+[\w$]+(\s*\[\s*\d+\s*\])?")
_THREADS = re.compile(r"\.(maxntid|reqntid)\s+([\d\s,]+)")
_SHARED = re.compile(r"\.shared\s+(?:\.align\s+\d+\s+)?\.[a-z](\d+)\s+[\w$]+"
                     r"((?:\s*\[\s*\d+\s*\])+|(?=\s*[;,=]))")


class NotReadable(ValueError):
    """Why a text is no PTX, or has not the entry."""


@dataclass(frozen=True, slots=True)
class Entry:
    """What PTX says of one of its entries.

    Attributes:
      version: of the language; sm: 'sm_80', the oldest architecture that takes it (a suffix: only).
      parameters: 'u64', 'f32', ...; 'array' for structures.
      most: the threads of a block at most, exact: on each axis just these; () where it says none.
      shared: bytes of shared memory that are known.
    """

    version: tuple[int, int]
    sm: str
    parameters: tuple[str, ...]
    most: tuple[int, ...]
    exact: bool
    shared: int


def is_ptx(source: str) -> bool:
    """Whether a text is PTX: CUDA C has no such directive."""
    return _VERSION.search(_COMMENT.sub(" ", source)) is not None


def read(source: str, entry: str) -> Entry:
    """What PTX says of an entry; NotReadable where it has none."""
    text = _COMMENT.sub(" ", source)
    version, target = _VERSION.search(text), _TARGET.search(text)
    if version is None or target is None:
        raise NotReadable("has no .version and .target")
    found = {m[1]: m for m in _ENTRY.finditer(text)}
    if entry not in found:
        raise NotReadable(f"has no entry {entry!r} (it has: {', '.join(sorted(found)) or 'none'})")
    head = found[entry]
    parameters = tuple("array" if m[2] else m[1] for m in _PARAMETER.finditer(head[2] or ""))
    threads = _THREADS.search(head[3])
    shared = sum(int(m[1]) // 8 * math.prod(int(n) for n in re.findall(r"\d+", m[2]))
                 for m in _SHARED.finditer(text))
    return Entry((int(version[1]), int(version[2])), target[1], parameters,
                 tuple(int(n) for n in re.findall(r"\d+", threads[2])) if threads else (),
                 bool(threads) and threads is not None and threads[1] == "reqntid", shared)
