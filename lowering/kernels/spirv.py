"""What a SPIR-V module says of itself: versions, entry points, workgroups, buffers, push constants.

After the specification of SPIR-V (chapters "Physical Layout", "Instructions"); what is not looked
at is skipped.  Start reading at `read`.
"""
from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

_MAGIC = 0x07230203
_COMPUTE = 5  # the execution model GLCompute
_UNIFORM, _PUSH, _STORAGE = 2, 9, 12  # storage classes
# opcodes, and where what they read of a pointer stands
_POINTERS = {61: 3, 62: 1, 63: 1, 65: 3, 66: 3, 67: 3, 68: 3, 70: 3, 83: 3, 228: 1,
             **{op: 3 for op in (227, *range(229, 243))}}
_CALL, _FUNCTION, _END = 57, 54, 56

# number -> (name, the word of a record that asks a device for it); None: every device has it
CAPABILITIES: dict[int, tuple[str, str | None]] = {
    0: ("Matrix", None), 1: ("Shader", None), 61: ("GroupNonUniform", None),
    4441: ("VariablePointersStorageBuffer", None), 4442: ("VariablePointers", None),
    5345: ("VulkanMemoryModel", None), 9: ("Float16", "fp16"), 10: ("Float64", "fp64"),
    11: ("Int64", "int64"), 22: ("Int16", "int16"), 39: ("Int8", "int8"),
    62: ("GroupNonUniformVote", "shuffle"), 63: ("GroupNonUniformArithmetic", "arithmetic"),
    64: ("GroupNonUniformBallot", "shuffle"), 65: ("GroupNonUniformShuffle", "shuffle"),
    66: ("GroupNonUniformShuffleRelative", "shuffle"),
    4433: ("StorageBuffer16BitAccess", "b16"), 4434: ("UniformAndStorageBuffer16BitAccess", "b16"),
    4448: ("StorageBuffer8BitAccess", "b8"), 4449: ("UniformAndStorageBuffer8BitAccess", "b8"),
    6017: ("DotProductInput4x8Bit", "dp4xi8toi32"),
    6018: ("DotProductInput4x8BitPacked", "dp4xi8toi32"), 6019: ("DotProduct", "dp4xi8toi32"),
}


class NotReadable(ValueError):
    """Why bytes are no SPIR-V module, or which part of it cannot be read here."""


@dataclass(frozen=True, slots=True)
class Buffer:
    """A storage buffer: its set and binding, the numbers in it ('float32'; '' for structures), and
    whether it is declared readonly."""

    group: int
    binding: int
    element: str
    readonly: bool


@dataclass(frozen=True, slots=True)
class Member:
    """A push constant: its offset in bytes and its type, 'int32', 'uint32', 'float32', ..."""

    offset: int
    kind: str


@dataclass(frozen=True, slots=True)
class Module:
    """What a module says of one of its entries."""

    version: tuple[int, int]
    capabilities: tuple[int, ...]
    block: tuple[int, int, int]
    memory: int  # bytes of shared memory, as far as it is arrays of numbers
    buffers: tuple[Buffer, ...]
    constants: tuple[Member, ...]


@dataclass(slots=True)
class _Parts:
    """The instructions that matter, by what they define."""

    version: tuple[int, int] = (0, 0)
    entries: dict[str, tuple[int, int]] = field(default_factory=dict)  # (model, function)
    blocks: dict[int, tuple[int, ...]] = field(default_factory=dict)
    block_ids: dict[int, tuple[int, ...]] = field(default_factory=dict)
    capabilities: list[int] = field(default_factory=list)
    types: dict[int, tuple[int, ...]] = field(default_factory=dict)  # (opcode, *operands)
    constants: dict[int, tuple[int, ...]] = field(default_factory=dict)
    variables: dict[int, tuple[int, int]] = field(default_factory=dict)  # (type, storage class)
    marks: dict[tuple[int, int], tuple[int, ...]] = field(default_factory=dict)
    members: dict[tuple[int, int, int], tuple[int, ...]] = field(default_factory=dict)
    uses: dict[int, set[int]] = field(default_factory=dict)  # of a function


def read(code: bytes, entry: str) -> Module:
    """What a module says of an entry; NotReadable where it has none, or is damaged."""
    p = _parts(code)
    found = {name: function for name, (model, function) in p.entries.items() if model == _COMPUTE}
    if entry not in found:
        names = ", ".join(sorted(found)) or "none"
        raise NotReadable(f"has no compute shader {entry!r} (it has: {names})")
    function = found[entry]
    seen = p.variables if len(p.entries) == 1 else _reached(p, function)
    buffers: list[Buffer] = []
    constants: list[Member] = []
    for v in sorted(seen):
        kind, storage = p.variables[v]
        if storage == _PUSH:
            constants += _members(p, _pointee(p, kind))
        elif storage == _STORAGE or storage == _UNIFORM and (_pointee(p, kind), 3) in p.marks:
            buffers.append(_buffer(p, v, _pointee(p, kind)))
        elif (v, 33) in p.marks:  # Binding
            raise NotReadable(f"has a binding {p.marks[v, 33][0]} that is no storage buffer")
    memory = sum(_size(p, _pointee(p, p.variables[v][0])) for v in seen if p.variables[v][1] == 4)
    return Module(p.version, tuple(dict.fromkeys(p.capabilities)), _block(p, function), memory,
                  tuple(sorted(buffers, key=lambda b: (b.group, b.binding))),
                  tuple(sorted(constants, key=lambda m: m.offset)))


def _parts(code: bytes) -> _Parts:
    words = _words(code)
    p = _Parts(version=(words[1] >> 16 & 255, words[1] >> 8 & 255))
    inside = 0
    for op, w in _instructions(words):
        if op == 17:  # OpCapability
            p.capabilities.append(w[1])
        elif op == 15:  # OpEntryPoint
            p.entries[_text(w[3:])] = (w[1], w[2])
        elif op in (16, 331):  # OpExecutionMode, OpExecutionModeId
            if w[2] == 17:
                p.blocks[w[1]] = tuple(w[3:])
            elif w[2] == 38:
                p.block_ids[w[1]] = tuple(w[3:])
        elif op == 71:  # OpDecorate
            p.marks[w[1], w[2]] = tuple(w[3:])
        elif op == 72:  # OpMemberDecorate
            p.members[w[1], w[2], w[3]] = tuple(w[4:])
        elif 19 <= op <= 32:
            p.types[w[1]] = (op, *w[2:])
        elif op in (43, 44, 50, 51):  # constants, also those that may be specialised
            p.constants[w[2]] = tuple(w[3:])
        elif op == 59:
            p.variables.setdefault(w[2], (w[1], w[3]))
        elif op == _FUNCTION:
            inside = w[2]
            p.uses[inside] = set()
        if inside and op == _CALL:
            p.uses[inside].update(w[3:])
        elif inside and op in _POINTERS and len(w) > _POINTERS[op]:
            p.uses[inside].add(w[_POINTERS[op]])
        elif op == _END:
            inside = 0
    if inside:
        raise NotReadable("ends within a function")
    p.variables = {v: x for v, x in p.variables.items() if x[1] != 7}  # not a function's own
    return p


def _words(code: bytes) -> Sequence[int]:
    if len(code) < 20 or len(code) % 4:
        raise NotReadable("is no SPIR-V module: its length is no multiple of 4, or below 20 bytes")
    words = struct.unpack(f"<{len(code) // 4}I", code)
    if words[0] != _MAGIC:
        raise NotReadable("is no SPIR-V module: it does not begin with SPIR-V's magic number")
    return words


def _instructions(words: Sequence[int]) -> Iterator[tuple[int, Sequence[int]]]:
    at = 5
    while at < len(words):
        count, op = words[at] >> 16, words[at] & 0xFFFF
        if not count or at + count > len(words) or count < _LEAST.get(op, 1):
            raise NotReadable(f"is damaged at word {at}")
        yield op, words[at:at + count]
        at += count


_LEAST = {15: 4, 16: 3, 331: 3, 17: 2, 71: 3, 72: 4, 43: 4, 44: 3, 50: 4, 51: 3, 59: 4, 54: 5,
          **dict.fromkeys(range(19, 33), 2), 21: 4, 22: 3, 23: 4, 28: 4, 29: 3, 32: 4}


def _text(words: Sequence[int]) -> str:
    return struct.pack(f"<{len(words)}I", *words).split(b"\0")[0].decode("utf-8", "replace")


def _reached(p: _Parts, function: int) -> set[int]:
    """The variables that a function and those it calls read or write."""
    waiting, seen = [function], {function}
    while waiting:
        new = p.uses.get(waiting.pop(), set()) - seen
        seen |= new
        waiting += new
    return {v for v in p.variables if v in seen}


def _type(p: _Parts, kind: int) -> tuple[int, ...]:
    if kind not in p.types:
        raise NotReadable("uses a type that it does not define")
    return p.types[kind]


def _pointee(p: _Parts, kind: int) -> int:
    op, *rest = _type(p, kind)
    if op != 32:
        raise NotReadable("has a variable whose type is no pointer")
    return rest[1]


def _number(p: _Parts, kind: int) -> str:
    op, *rest = _type(p, kind)
    if op == 21:
        return f"{'' if rest[1] else 'u'}int{rest[0]}"
    return f"float{rest[0]}" if op == 22 else ""


def _constant(p: _Parts, number: int) -> int:
    if number not in p.constants or not p.constants[number]:
        raise NotReadable("has a size that is no constant")
    return p.constants[number][0]


def _size(p: _Parts, kind: int) -> int:
    op, *rest = _type(p, kind)
    if op in (21, 22):
        return rest[0] // 8
    if op in (23, 24):
        return _size(p, rest[0]) * rest[1]
    if op == 28:
        return _size(p, rest[0]) * _constant(p, rest[1])
    return sum(_size(p, t) for t in rest) if op == 30 else 0


def _members(p: _Parts, kind: int) -> Iterator[Member]:
    op, *types = _type(p, kind)
    for i, t in enumerate(types if op == 30 else ()):
        name = _number(p, t)
        if name not in ("int32", "uint32", "float32", "int64", "uint64", "float64"):
            raise NotReadable(f"has a push constant (member {i}) that is no number of 32 or 64 "
                              "bits")
        yield Member(p.members.get((kind, i, 35), (0,))[0], name)


def _buffer(p: _Parts, v: int, kind: int) -> Buffer:
    op, *members = _type(p, kind)
    if op != 30 or not members:
        raise NotReadable("has a storage buffer that is no block")
    inner = _type(p, members[-1])
    element = ""
    if len(members) == 1 and inner[0] in (28, 29):
        inside = _type(p, inner[1])
        element = _number(p, inside[1] if inside[0] == 23 else inner[1])
    readonly = (v, 24) in p.marks or all((kind, i, 24) in p.members for i in range(len(members)))
    return Buffer(p.marks.get((v, 34), (0,))[0], p.marks.get((v, 33), (0,))[0], element, readonly)


def _block(p: _Parts, function: int) -> tuple[int, int, int]:
    sizes: Any = p.blocks.get(function)
    named = [v for (v, mark), what in p.marks.items() if mark == 11 and what == (25,)]
    if named and named[0] in p.constants:  # the built-in WorkgroupSize goes first
        sizes = [_constant(p, c) for c in p.constants[named[0]]]
    elif sizes is None and function in p.block_ids:
        sizes = [_constant(p, c) for c in p.block_ids[function]]
    if sizes is None or len(sizes) != 3:
        raise NotReadable("does not say the size of its workgroups (LocalSize)")
    return (sizes[0], sizes[1], sizes[2])
