"""Protocol buffers, written: the four functions that traces and memory profiles need.

A message is the concatenation of its fields; a field is its number with a kind, and its value
(protobuf.dev, "Encoding").  Imports nothing of calque.
"""
from __future__ import annotations

import struct

_MASK = (1 << 64) - 1


def varint(value: int) -> bytes:
    """An integer, seven bits a byte, the lowest first; a negative one as 64 bits."""
    value &= _MASK
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


def integer(field: int, value: int) -> bytes:
    """A field of an integer, bool or enum."""
    return varint(field << 3) + varint(value)


def fixed(field: int, value: int) -> bytes:
    """A field of 64 bits as they are."""
    return varint(field << 3 | 1) + struct.pack("<Q", value)


def real(field: int, value: float) -> bytes:
    """A field of a double."""
    return varint(field << 3 | 1) + struct.pack("<d", value)


def data(field: int, value: bytes | str) -> bytes:
    """A field of bytes, text, a message or packed integers."""
    raw = value.encode("utf-8", "replace") if isinstance(value, str) else value
    return varint(field << 3 | 2) + varint(len(raw)) + raw
