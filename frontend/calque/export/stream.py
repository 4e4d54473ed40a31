"""Bytes with a position, and MLIR's numbers in them (llvm.org: MLIR Bytecode Format).

Variable-length integers: the count of trailing zero bits of the first byte is how many bytes
follow.  Every read is checked against the end.  Start reading at `Stream`.
"""
from __future__ import annotations

from calque.core.types import Shape
from calque.export.errors import DeserializationError

_MASK = (1 << 64) - 1


class Stream:
    """Reads from data[position:end]."""

    __slots__ = ("data", "position", "end")

    def __init__(self, data: bytes, position: int = 0, end: int | None = None) -> None:
        self.data, self.position = data, position
        self.end = len(data) if end is None else end

    @property
    def left(self) -> int:
        return self.end - self.position

    def take(self, count: int) -> bytes:
        if count > self.left:
            raise truncated()
        start, self.position = self.position, self.position + count
        return self.data[start:self.position]

    def part(self, count: int) -> Stream:
        """The next bytes as a stream of their own."""
        if count > self.left:
            raise truncated()
        start, self.position = self.position, self.position + count
        return Stream(self.data, start, self.position)

    def byte(self) -> int:
        position = self.position
        if position >= self.end:
            raise truncated()
        self.position = position + 1
        return self.data[position]

    def varint(self) -> int:
        first = self.byte()
        if first & 1:
            return first >> 1
        if first == 0:
            return int.from_bytes(self.take(8), "little")
        more = (first & -first).bit_length() - 1
        return int.from_bytes(bytes((first,)) + self.take(more), "little") >> (more + 1)

    def flagged(self) -> tuple[int, bool]:
        """A number with a flag in its lowest bit."""
        n = self.varint()
        return n >> 1, bool(n & 1)

    def signed(self) -> int:
        n = self.varint()
        return (n >> 1) ^ -(n & 1)

    def sizes(self) -> Shape:
        return tuple(self.signed() for _ in range(self.count()))

    def count(self) -> int:
        """How many things follow; each takes a byte at least."""
        n = self.varint()
        if n > self.left:
            raise truncated()
        return n

    def text(self) -> str:
        """A string up to its zero byte."""
        stop = self.data.find(b"\0", self.position, self.end)
        if stop < 0:
            raise truncated()
        raw, self.position = self.data[self.position:stop], stop + 1
        return decoded(raw)


def decoded(raw: bytes) -> str:
    try:
        return raw.decode()
    except UnicodeDecodeError:
        raise damaged("a name is no UTF-8 text") from None


def truncated() -> DeserializationError:
    return damaged("it ends too early")


def damaged(what: str) -> DeserializationError:
    return DeserializationError(
        f"The bytes are not an exported function, or are damaged: {what}.\n"
        "  Fix: give all bytes that Exported.serialize() returned, unchanged.")


# ---- writing
def varint(n: int) -> bytes:
    """The shortest form of an unsigned number below 2^64."""
    for more in range(8):
        if n < 1 << (7 * (more + 1)):
            return ((n << (more + 1)) | (1 << more)).to_bytes(more + 1, "little")
    return b"\0" + n.to_bytes(8, "little")


def signed(n: int) -> bytes:
    return varint(((n << 1) ^ (n >> 63)) & _MASK)
