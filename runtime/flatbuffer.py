"""FlatBuffers read without trust: every offset is looked at before it is followed.

A schema names of each table the fields in their order: a number is the bytes of a scalar, "string",
"T" a table, "[T]" a vector of tables, "[n]" a vector of elements of n bytes that are aligned to
four at most, "[?]" one of tables whose kinds (1: the first of the schema's "?") are in the field
before.  `read` gives a table as the tuple of its fields (absent: None), whatever the bytes
say, or raises Damaged; what it reads is no more than a few times the bytes that there are, also
where offsets share what they point to.  C++ has the same in cpp/src/artifact/flatbuffer.cc.
"""
from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Any

Schema = Mapping[str, tuple[int | str, ...]]
_SCALARS = {1: struct.Struct("<B"), 2: struct.Struct("<H"), 4: struct.Struct("<I"),
            8: struct.Struct("<Q")}
_SIGNED = struct.Struct("<i")
_SHARED = 4  # times that a byte may be read, on average
_TABLE = 32  # what a table is taken for, in bytes


class Damaged(ValueError):
    """What is wrong with bytes that were to be read; the callers say where they stand."""


class _Reader:
    def __init__(self, data: memoryview, schema: Schema) -> None:
        self.data = data
        self.schema = schema
        self.left = _SHARED * len(data)

    def number(self, at: int, size: int) -> int:
        if at < 0 or at + size > len(self.data):
            raise Damaged(f"an offset points to {at} of {len(self.data)} bytes")
        if (at + 4) % size:  # its own length is before it, and aligned
            raise Damaged(f"a number of {size} bytes at {at}")
        return int(_SCALARS[size].unpack_from(self.data, at)[0])

    def target(self, at: int) -> int:
        return at + self.number(at, 4)

    def spend(self, count: int) -> None:
        self.left -= count
        if self.left < 0:
            raise Damaged("its offsets read the same bytes again and again")

    def elements(self, at: int, size: int) -> tuple[int, int]:
        """(where they begin, how many) of a vector's elements of so many bytes."""
        count = self.number(at, 4)
        if count * size > len(self.data) - at - 4:
            raise Damaged(f"{count} elements at {at} of {len(self.data)} bytes")
        self.spend(4 + count * size)
        return at + 4, count

    def field(self, at: int, kind: int | str, before: Any) -> Any:
        if isinstance(kind, int):
            return self.number(at, kind)
        at = self.target(at)
        if kind == "string":
            start, count = self.elements(at, 1)
            if start + count >= len(self.data) or self.data[start + count]:
                raise Damaged(f"the text at {at} has no end")
            return self.data[start:start + count]
        if kind[0] != "[":
            return self.table(at, kind)
        if kind[1].isdigit():
            size = int(kind[1:-1])
            start, count = self.elements(at, size)
            return self.data[start:start + count * size]
        start, count = self.elements(at, 4)
        if kind == "[?]":
            if count != len(before or b""):
                raise Damaged(f"{count} tables at {at} have {len(before or b'')} kinds")
            return [self.chosen(start + 4 * i, before[i]) for i in range(count)]
        return [self.table(self.target(start + 4 * i), kind[1:-1]) for i in range(count)]

    def chosen(self, at: int, kind: int) -> tuple[Any, ...]:
        """(kind, the table of that kind)."""
        kinds = self.schema["?"]
        if kind > len(kinds):
            raise Damaged(f"a table at {at} is of kind {kind}")
        return kind, self.table(self.target(at), str(kinds[kind - 1])) if kind else ()

    def table(self, at: int, name: str) -> tuple[Any, ...]:
        self.spend(_TABLE)
        self.number(at, 4)  # is it there?
        offsets = at - int(_SIGNED.unpack_from(self.data, at)[0])
        count, size = self.number(offsets, 2), self.number(offsets + 2, 2)
        if count < 4 or count % 2 or offsets + count > len(self.data):
            raise Damaged(f"the fields of the table at {at} are outside")
        if size < 4 or at + size > len(self.data):
            raise Damaged(f"the table at {at} of {size} bytes is outside")
        made: list[Any] = []
        for i, kind in enumerate(self.schema[name]):
            place = self.number(offsets + 4 + 2 * i, 2) if 4 + 2 * i < count else 0
            width = kind if isinstance(kind, int) else 4
            if place and not 4 <= place <= size - width:
                raise Damaged(f"field {i} of the table at {at} is outside")
            made.append(self.field(at + place, kind, made and made[-1]) if place else None)
        return tuple(made)


def read(data: memoryview, schema: Schema, root: str, identifier: bytes) -> tuple[Any, ...]:
    """The root table of a buffer, with all that it points to; Damaged where it cannot be read."""
    if data[4:8] != identifier:
        raise Damaged(f"it does not begin with {identifier.decode()}")
    reader = _Reader(data, schema)
    return reader.table(reader.target(0), root)
