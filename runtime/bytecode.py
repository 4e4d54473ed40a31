"""The code that IREE's virtual machine runs for a module, walked once: does it stay inside?

IREE's verifier looks at blocks, lists and lengths, but not at single registers, types, the number
of a function that is called, nor whether a call gives as many values as its callee takes (3.13).
`check` walks the same instructions, whose layouts are in bytecode.json (for C++, too), and looks at
those; Damaged where something is wrong.  A version that is not ours is left alone: IREE refuses it
by its number.

Layouts, a letter a field: i a register, l two of them, r one of references; v a list of registers,
b of pairs of them; w 4 bytes, d 8 bytes, s a text; t a type, f a function, g the place of a float64
variable; c a table of places in the code, each with pairs.
"""
from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from calque.runtime.flatbuffer import Damaged

_TABLES: dict[str, Any] = json.loads(Path(__file__).with_name("bytecode.json").read_text("ascii"))
_VERSION: int = _TABLES["version"]
LAYOUTS: list[dict[int, str]] = [
    {code: layout for layout, codes in _TABLES[name].items() for code in codes}
    for name in ("core", "f32", "f64")]
PREFIXES = {_TABLES["prefixes"][name]: i for i, name in ((1, "f32"), (2, "f64"))}
_RETURN: int = _TABLES["return"]
_IMPORT = 1 << 31  # in a function's number: it is one of another module
_NUMBER = 0x3fff  # of a register of references; the bits above say what it is


@dataclass(frozen=True, slots=True)
class Function:
    """Where a function's code is, and how many registers it has of numbers and of references."""

    start: int
    size: int
    numbers: int
    references: int


@dataclass(frozen=True, slots=True)
class Code:
    """A module's code; the types of its functions and of those that it imports ("0rr_r"); how many
    types of references it names, and the bytes of its variables."""

    version: int
    data: memoryview | bytes
    functions: Sequence[Function]
    signatures: Sequence[bytes]
    imports: Sequence[bytes]
    types: int
    variables: int


def is_known(version: int) -> bool:
    """Whether the layouts are those of a module's version."""
    return version >> 16 == _VERSION >> 16


def check(code: Code) -> None:
    """Damaged where a function's code leads outside."""
    if not is_known(code.version):
        return
    counts = [_counts(s) for s in code.signatures], [_counts(s) for s in code.imports]
    for function, (_, gives) in zip(code.functions, counts[0], strict=True):
        if function.start + function.size > len(code.data):
            raise Damaged(f"a function's code is {function.size} bytes at {function.start} of "
                          f"{len(code.data)}")
        walk = _Walk(code, function, gives, counts)
        while walk.at < function.size - 1:
            walk.step()


def _counts(signature: bytes) -> tuple[int, int]:
    """How many values a function takes and gives; -1 where it takes any number."""
    taken, _, given = signature[1:].partition(b"_")
    if signature[:1] not in (b"", b"0") or not set(taken) <= set(b"vrifIFCD") or not set(
            given) <= set(b"vrifIF"):
        raise Damaged(f"{signature!r} is no type of a function")
    return -1 if b"C" in taken else len(taken) - taken.count(b"v"), len(given) - given.count(b"v")


def _rounded(count: int) -> int:
    """To a power of two, as IREE makes room for registers."""
    return 1 << max(count - 1, 0).bit_length()


class _Walk:
    def __init__(self, code: Code, function: Function, gives: int,
                 counts: tuple[list[tuple[int, int]], list[tuple[int, int]]]) -> None:
        self.code = code
        self.data = code.data[function.start:function.start + function.size]
        self.numbers = _rounded(function.numbers)
        self.references = _rounded(function.references)
        self.gives = gives
        self.known, self.imports = counts
        self.at = 0

    def skip(self, size: int) -> int:
        """Where the next so many bytes begin."""
        start = self.at
        self.at += size
        if self.at > len(self.data):
            raise Damaged("an instruction is cut")
        return start

    def take(self, size: int) -> int:
        start = self.skip(size)
        return int.from_bytes(self.data[start:self.at], "little")

    def items(self, size: int) -> int:
        """Passes a list of elements of so many bytes: how many there are."""
        self.at += self.at % 2
        count = self.take(2)
        self.skip(count * size)
        return count

    def register(self, kind: str) -> None:
        number = self.take(2)
        if (number & _NUMBER) >= self.references if kind == "r" else (
                number + (kind == "l") >= self.numbers):
            raise Damaged(f"register {number} is used, which is none of its function's")

    def step(self) -> None:
        opcode, table = self.take(1), 0
        if opcode in PREFIXES:
            table, opcode = PREFIXES[opcode], self.take(1)
        layout = LAYOUTS[table].get(opcode)
        if layout is None:
            raise Damaged(f"there is no instruction {opcode}")
        callee = None
        lists: list[int] = []
        for field in layout:
            if field in "ilr":
                self.register(field)
            elif field == "f":
                callee = self.take(4)
            elif field == "v":
                lists.append(self.items(2))
            else:
                self.pass_over(field)
        if callee is not None:
            self.check_call(callee, lists)
        elif not table and opcode == _RETURN and lists[0] != self.gives:
            raise Damaged(f"a function gives {lists[0]} values instead of {self.gives}")

    def pass_over(self, field: str) -> None:
        """A field that is no register."""
        if field == "b":
            self.items(4)
        elif field == "s":
            self.skip(self.take(2))
        elif field == "c":
            for _ in range(self.take(2)):
                self.skip(4)
                self.items(4)
        elif field == "t":
            if self.take(4) >= self.code.types:
                raise Damaged("a type is used that there is not")
        elif field == "g":
            if self.take(4) + 8 > self.code.variables:
                raise Damaged("a variable is used that there is not")
        else:
            self.skip(8 if field == "d" else 4)

    def check_call(self, callee: int, lists: Sequence[int]) -> None:
        known = self.imports if callee & _IMPORT else self.known
        callee &= ~_IMPORT
        if callee >= len(known):
            raise Damaged(f"function {callee} of {len(known)} is called")
        if not lists:  # asked for only
            return
        taken, given = known[callee]
        if lists[-1] != given or taken not in (-1, lists[0]):
            raise Damaged(f"function {callee} is called with {lists[0]} values for {lists[-1]}")
