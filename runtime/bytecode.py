"""The code that IREE's virtual machine runs for a module, walked once: does it stay inside?

IREE's verifier looks at registers, blocks and lengths, but not at the number of a function that is
called, nor whether a call gives as many values as its callee takes (3.13).  `check` walks the same
instructions, whose layouts are in bytecode.json (for C++, too), and looks at those; Damaged where
something is wrong.  A version that is not ours is left alone: IREE refuses it by its number.

Layouts, a letter a field: r a register, w 4 bytes, d 8 bytes, g the place of a float64 variable,
f a function, p a place in the code, v a list of registers, b pairs of registers, s a text, t a
table of places with pairs.
"""
from __future__ import annotations

import json
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from calque.runtime.flatbuffer import Damaged

_TABLES: dict[str, Any] = json.loads(Path(__file__).with_name("bytecode.json").read_text("ascii"))
VERSION: int = _TABLES["version"]
_LAYOUTS: list[dict[int, str]] = [
    {code: layout for layout, codes in _TABLES[name].items() for code in codes}
    for name in ("core", "f32", "f64")]
_PREFIXES = {_TABLES["prefixes"][name]: i for i, name in ((1, "f32"), (2, "f64"))}
_RETURN: int = _TABLES["return"]
_IMPORT = 1 << 31  # in a function's number: it is one of another module
_WIDTHS = {"r": 2, "w": 4, "d": 8, "g": 4, "f": 4, "p": 4}


@dataclass(frozen=True, slots=True)
class Function:
    """Where a function's code is, and how many blocks it has."""

    start: int
    size: int
    blocks: int


@dataclass(frozen=True, slots=True)
class Code:
    """A module's code: of each function its place and its type ("0rr_r"), of imports the type."""

    version: int
    data: memoryview | bytes
    functions: Sequence[Function]
    types: Sequence[bytes]
    imports: Sequence[bytes]
    variables: int


def check(code: Code) -> None:
    """Damaged where a function's code leads outside."""
    if code.version >> 16 != VERSION >> 16:
        return
    for function, written in zip(code.functions, code.types, strict=True):
        if function.start + function.size > len(code.data):
            raise Damaged(f"a function's code is {function.size} bytes at {function.start} of "
                          f"{len(code.data)}")
        walk = _Walk(code, code.data[function.start:function.start + function.size],
                     _counts(written)[1])
        while walk.at < function.size - 1:
            walk.step()


def _counts(written: bytes) -> tuple[int, int]:
    """How many values a function of a type takes and gives; -1 where the number is not fixed."""
    if not written:
        return 0, 0
    taken, _, given = written[1:].partition(b"_")
    if written[:1] != b"0" or not set(taken + given) <= set(b"vrifIFCD"):
        raise Damaged(f"{written!r} is no type of a function")
    return tuple(  # type: ignore[return-value]
        -1 if b"C" in part else len(part) - part.count(b"v") for part in (taken, given))


class _Walk:
    def __init__(self, code: Code, data: memoryview | bytes, gives: int) -> None:
        self.code = code
        self.data = data
        self.gives = gives
        self.at = 0

    def take(self, size: int) -> int:
        """The number of so many bytes that comes next."""
        end = self.at + size
        if end > len(self.data):
            raise Damaged("an instruction is cut")
        made = int.from_bytes(self.data[self.at:end], "little")
        self.at = end
        return made

    def skip(self, size: int) -> None:
        self.at += size
        if self.at > len(self.data):
            raise Damaged("an instruction is cut")

    def items(self, size: int) -> int:
        """Passes a list of elements of so many bytes: how many there are."""
        self.at += self.at % 2
        count = self.take(2)
        self.skip(count * size)
        return count

    def step(self) -> None:
        opcode, table = self.take(1), 0
        if opcode in _PREFIXES:
            table, opcode = _PREFIXES[opcode], self.take(1)
        layout = _LAYOUTS[table].get(opcode)
        if layout is None:
            raise Damaged(f"there is no instruction {opcode}")
        callee, lists = None, []
        for field in layout:
            if field == "f":
                callee = self.take(4)
            elif field == "g":
                if self.take(4) + 8 > self.code.variables:
                    raise Damaged("a variable is outside")
            elif field == "v":
                lists.append(self.items(2))
            elif field == "b":
                self.items(4)
            elif field == "s":
                self.skip(self.take(2))
            elif field == "t":
                for _ in range(self.take(2)):
                    self.skip(4)
                    self.items(4)
            else:
                self.skip(_WIDTHS[field])
        if callee is not None:
            self.check_call(callee, lists)
        elif not table and opcode == _RETURN and lists[0] != self.gives:
            raise Damaged(f"a function gives {lists[0]} values instead of {self.gives}")

    def check_call(self, callee: int, lists: Sequence[int]) -> None:
        types = self.code.imports if callee & _IMPORT else self.code.types
        callee &= ~_IMPORT
        if callee >= len(types):
            raise Damaged(f"function {callee} of {len(types)} is called")
        if not lists:  # asked for only
            return
        taken, given = _counts(types[callee])
        if taken >= 0 and (lists[0], lists[-1]) != (taken, given):
            raise Damaged(f"function {callee} is called with {lists[0]} values for {lists[-1]}")
