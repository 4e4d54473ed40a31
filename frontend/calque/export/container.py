"""JAX's container of an exported function: a flatbuffer of the module and how it is called.

The fields are those that jax.export 0.10 writes (serialization version 3); a Record holds them in
plain values.  Reading follows every offset within bounds and never more nodes than there are bytes.
Start reading at `write_record` and `read_record`; `Record` says what there is.
"""
from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import ml_dtypes
import numpy as np

from calque.core import dtypes
from calque.core.types import Function
from calque.export.errors import DeserializationError, UnsupportedOperationError
from calque.export.stream import damaged, decoded

VERSION = 3  # of the container
OLDEST, NEWEST = 9, 10  # calling convention versions

_DTYPES: dict[int, Any] = {
    **dict(enumerate(map(np.dtype, (
        "bool", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8", "c8", "c16",
        ml_dtypes.bfloat16, ml_dtypes.int4, ml_dtypes.uint4, ml_dtypes.float8_e4m3b11fnuz,
        ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e4m3fnuz, ml_dtypes.float8_e5m2,
        ml_dtypes.float8_e5m2fnuz)))),
    22: dtypes.float0, 23: np.dtype(ml_dtypes.float8_e4m3), 24: np.dtype(ml_dtypes.float8_e3m4),
    25: np.dtype(ml_dtypes.float8_e8m0fnu), 26: np.dtype(ml_dtypes.float4_e2m1fn),
    27: dtypes.key_dtype, 28: dtypes.key_dtype_of("rbg"), 29: dtypes.key_dtype_of("unsafe_rbg")}
_CODES = {d: code for code, d in _DTYPES.items()}
_LEAF, _NONE, _TUPLE, _LIST, _DICT, _CUSTOM = range(6)


@dataclass(frozen=True, slots=True)
class Node:
    """A node of a tree: what kind, its children; names of a dict's; of a custom class its name."""

    kind: int
    children: tuple[Node, ...] = ()
    names: tuple[str, ...] = ()
    name: str = ""
    data: bytes = b""


@dataclass(frozen=True, slots=True)
class Aval:
    """Sizes as text (they may be symbolic), the dtype, and the memory."""

    shape: tuple[str, ...]
    dtype: Any
    memory: int = 1  # the device's; 2: the host's, 3: any


@dataclass(frozen=True, slots=True)
class Placement:
    """A sharding: sizes, names and kinds of a mesh's axes; of each dimension the axes; the kind of
    memory."""

    sizes: tuple[int, ...]
    names: tuple[str, ...]
    kinds: tuple[int, ...]  # 1 Auto, 2 Explicit, 3 Manual
    parts: tuple[tuple[str, ...], ...]
    memory: str = "device"


@dataclass(frozen=True, slots=True)
class Record:
    """What the container holds."""

    fun_name: str
    in_tree: Node
    in_avals: tuple[Aval, ...]
    out_tree: Node
    out_avals: tuple[Aval, ...]
    platforms: tuple[str, ...]
    module: bytes
    kept: tuple[int, ...]
    uses_global_constants: bool = False
    ordered_effects: tuple[str, ...] = ()
    unordered_effects: tuple[str, ...] = ()
    disabled_checks: tuple[tuple[int, str], ...] = ()
    calling_convention_version: int = NEWEST
    nr_devices: int = 1
    in_placements: tuple[Placement | None, ...] = ()
    out_placements: tuple[Placement | None, ...] = ()
    vjp: Record | None = field(default=None, repr=False)


# ---- writing
def write_record(record: Record) -> bytearray:
    """The container's bytes."""
    import flatbuffers
    b = flatbuffers.Builder(1024 + len(record.module))
    b.Finish(_exported(b, record))
    return bytearray(b.Output())


def _exported(b: Any, r: Record) -> int:
    vjp = None if r.vjp is None else _exported(b, r.vjp)
    every = [*r.in_avals, *r.out_avals]
    unique = list(dict.fromkeys(every))
    number = {a: i for i, a in enumerate(unique)}
    ins = r.in_placements or (None,) * len(r.in_avals)
    outs = r.out_placements or (None,) * len(r.out_avals)
    places = list(dict.fromkeys(p for p in (*ins, *outs) if p is not None))
    order: dict[Placement | None, int] = {None: 0}
    order.update((p, i) for i, p in enumerate(places, 1))
    parts: dict[int, int] = {
        1: b.CreateString(r.fun_name), 2: _tree(b, r.in_tree),
        3: _offsets(b, [_aval(b, a) for a in r.in_avals]), 4: _tree(b, r.out_tree),
        5: _offsets(b, [_aval(b, a) for a in r.out_avals]),
        7: _offsets(b, [_table(b, {}, 1) for _ in r.in_avals]),
        8: _offsets(b, [_table(b, {}, 1) for _ in r.out_avals]),
        9: _offsets(b, [b.CreateString(p) for p in r.platforms]),
        10: _offsets(b, [_table(b, {0: b.CreateString(e)}, 1) for e in r.ordered_effects]),
        11: _offsets(b, [_table(b, {0: b.CreateString(e)}, 1) for e in r.unordered_effects]),
        12: _offsets(b, [_check(b, *c) for c in r.disabled_checks]),
        13: b.CreateByteVector(r.module),
        15: _numbers(b, r.kept, 2),
        19: _offsets(b, [_aval(b, a) for a in unique]),
        20: _offsets(b, [_mesh(b, p, r.platforms[0]) for p in dict.fromkeys(
            replace(p, parts=(), memory="") for p in places)]),
        21: _offsets(b, [_placement(b, p, r.platforms[0]) for p in places]),
        22: _numbers(b, [number[a] for a in r.in_avals], 4),
        23: _numbers(b, [number[a] for a in r.out_avals], 4),
        24: _numbers(b, [order[p] for p in ins], 4), 25: _numbers(b, [order[p] for p in outs], 4)}
    if vjp is not None:
        parts[17] = vjp
    return _table(b, parts, 26, [
        (0, b.PrependUint16Slot, VERSION), (14, b.PrependUint16Slot, r.calling_convention_version),
        (16, b.PrependBoolSlot, r.uses_global_constants), (18, b.PrependUint32Slot, r.nr_devices)])


def _table(b: Any, offsets: dict[int, int], size: int,
           scalars: Sequence[tuple[int, Function, Any]] = ()) -> int:
    b.StartObject(size)
    for slot, offset in offsets.items():
        b.PrependUOffsetTRelativeSlot(slot, offset, 0)
    for slot, put, value in scalars:
        put(slot, value, 0)
    return int(b.EndObject())


def _offsets(b: Any, offsets: Sequence[int]) -> int:
    b.StartVector(4, len(offsets), 4)
    for offset in reversed(offsets):
        b.PrependUOffsetTRelative(offset)
    return int(b.EndVector())


def _numbers(b: Any, values: Sequence[int], size: int) -> int:
    b.StartVector(size, len(values), size)
    put = b.PrependUint16 if size == 2 else b.PrependUint32
    for v in reversed(values):
        put(v)
    return int(b.EndVector())


def _aval(b: Any, a: Aval) -> int:
    if a.dtype not in _CODES:
        raise UnsupportedOperationError(
            f"JAX's container has no arrays of {a.dtype}.\n  Fix: pass random.key_data(key).")
    shape = _offsets(b, [b.CreateString(n) for n in a.shape])
    return _table(b, {1: shape}, 4, [(2, b.PrependUint8Slot, _CODES[a.dtype]),
                                     (3, b.PrependUint8Slot, a.memory)])


def _mesh(b: Any, p: Placement, platform: str) -> int:
    device = _table(b, {0: b.CreateString(platform), 2: b.CreateString(platform)}, 3)
    return _table(b, {0: _numbers(b, p.sizes, 4),
                      1: _offsets(b, [b.CreateString(n) for n in p.names]),
                      2: b.CreateByteVector(bytes(p.kinds)), 3: device}, 4)


def _placement(b: Any, p: Placement, platform: str) -> int:
    parts = [_table(b, {0: _offsets(b, [b.CreateString(a) for a in axes])}, 1) for axes in p.parts]
    spec = _table(b, {0: _offsets(b, parts), 1: _offsets(b, []), 2: _offsets(b, [])}, 3)
    return _table(b, {0: _mesh(b, p, platform), 1: spec, 2: b.CreateString(p.memory)}, 3)


def _check(b: Any, kind: int, target: str) -> int:
    return _table(b, {1: b.CreateString(target)} if target else {}, 2,
                  [(0, b.PrependUint8Slot, kind)])


def _tree(b: Any, node: Node) -> int:
    parts = {}
    if node.children:
        parts[1] = _offsets(b, [_tree(b, c) for c in node.children])
    if node.kind == _DICT:
        parts[2] = _offsets(b, [b.CreateString(n) for n in node.names])
    if node.kind == _CUSTOM:
        parts[3] = b.CreateString(node.name)
        parts[4] = b.CreateByteVector(node.data)
    return _table(b, parts, 5, [(0, b.PrependUint8Slot, node.kind)])


# ---- reading
def read_record(data: bytes) -> Record:
    """The fields of a container.

    Raises:
      DeserializationError: the bytes are no container, or damaged.
      UnsupportedOperationError: a version that is not known here.
    """
    try:
        reader = _Reader(bytes(data))
        return reader.exported(reader.root())
    except RecursionError:
        raise damaged("trees are nested too deeply") from None


@dataclass(frozen=True, slots=True)
class _Fields:
    """Where the fields of a table lie; 0: absent."""

    places: tuple[int, ...]

    def __getitem__(self, slot: int) -> int:
        return self.places[slot] if slot < len(self.places) else 0


class _Reader:
    def __init__(self, data: bytes) -> None:
        self.data, self.left = data, len(data)

    def number(self, position: int, form: str = "<I") -> int:
        if position < 0 or position + struct.calcsize(form) > len(self.data):
            raise damaged("it ends too early")
        return int(struct.unpack_from(form, self.data, position)[0])

    def root(self) -> int:
        return self.number(0)

    def table(self, position: int) -> _Fields:
        self.left -= 4  # a table has four bytes at least
        if self.left < 0:
            raise damaged("parts of it are shared")
        places = position - self.number(position, "<i")
        size = self.number(places, "<H")
        if size < 4 or size % 2 or places + size > len(self.data):
            raise damaged("a table without fields")
        offsets = (self.number(places + 4 + 2 * i, "<H") for i in range((size - 4) // 2))
        return _Fields(tuple(position + o if o else 0 for o in offsets))

    def vector(self, place: int, size: int) -> tuple[int, int]:
        """Position and length of a vector; an absent one is empty."""
        if not place:
            return 0, 0
        start = place + self.number(place)
        count = self.number(start)
        if start + 4 + count * size > len(self.data):
            raise damaged("it ends too early")
        return start + 4, count

    def bytes(self, place: int) -> bytes:
        start, count = self.vector(place, 1)
        return self.data[start:start + count]

    def text(self, place: int) -> str:
        return decoded(self.bytes(place))

    def texts(self, place: int) -> tuple[str, ...]:
        start, count = self.vector(place, 4)
        return tuple(self.text(start + 4 * i) for i in range(count))

    def tables(self, place: int) -> list[_Fields]:
        start, count = self.vector(place, 4)
        return [self.table(start + 4 * i + self.number(start + 4 * i)) for i in range(count)]

    def numbers(self, place: int, form: str) -> tuple[int, ...]:
        size = struct.calcsize(form)
        start, count = self.vector(place, size)
        return tuple(self.number(start + size * i, form) for i in range(count))

    def byte(self, place: int) -> int:
        return self.number(place, "<B") if place else 0

    # ---- what the fields mean
    def exported(self, position: int) -> Record:
        f = self.table(position)
        version = self.number(f[0], "<H") if f[0] else 0
        if not f[0] or not f[13] or not f[2] or not f[4]:
            raise damaged("fields are missing")
        if version not in (2, VERSION):
            raise UnsupportedOperationError(
                f"The container is of version {version}; read are 2 and {VERSION}.\n"
                "  Fix: export the function with a version of JAX nearer to 0.10.")
        convention = self.number(f[14], "<H") if f[14] else 0
        if not OLDEST <= convention <= NEWEST:
            raise UnsupportedOperationError(
                f"The calling convention is of version {convention}; supported are {OLDEST} to "
                f"{NEWEST}.\n  Fix: export the function with a version of JAX nearer to 0.10.")
        devices = self.number(f[18]) if f[18] else self.number(f[6], "<H") if f[6] else 1
        r = Record(
            self.text(f[1]), self.tree(f[2] + self.number(f[2])), self.avals(f, 3, 22),
            self.tree(f[4] + self.number(f[4])), self.avals(f, 5, 23), self.texts(f[9]),
            self.bytes(f[13]), self.numbers(f[15], "<H"), bool(self.byte(f[16])),
            tuple(self.text(e[0]) for e in self.tables(f[10])),
            tuple(self.text(e[0]) for e in self.tables(f[11])),
            tuple((self.byte(c[0]), self.text(c[1])) for c in self.tables(f[12])),
            convention, devices, self.placements(f, 24), self.placements(f, 25))
        _check_record(r)
        if f[17]:
            r = replace(r, vjp=self.exported(f[17] + self.number(f[17])))
        return r

    def avals(self, f: _Fields, plain: int, indexed: int) -> tuple[Aval, ...]:
        if f[plain]:
            return tuple(self.aval(a) for a in self.tables(f[plain]))
        known = [self.aval(a) for a in self.tables(f[19])]
        found = self.numbers(f[indexed], "<I")
        if any(i >= len(known) for i in found):
            raise damaged("a type that is not there")
        return tuple(known[i] for i in found)

    def placements(self, f: _Fields, indexed: int) -> tuple[Placement | None, ...]:
        known = [None, *(self.placement(t) for t in self.tables(f[21]))]
        found = self.numbers(f[indexed], "<I")
        if any(i >= len(known) for i in found):
            raise damaged("a sharding that is not there")
        return tuple(known[i] for i in found)

    def placement(self, t: _Fields) -> Placement:
        if not t[0] or not t[1]:
            raise damaged("a sharding without a mesh or a spec")
        mesh, spec = (self.table(t[i] + self.number(t[i])) for i in (0, 1))
        return Placement(self.numbers(mesh[0], "<I"), self.texts(mesh[1]),
                         tuple(self.bytes(mesh[2])),
                         tuple(self.texts(part[0]) for part in self.tables(spec[0])),
                         self.text(t[2]) if t[2] else "device")

    def aval(self, a: _Fields) -> Aval:
        code = self.byte(a[2])
        if self.byte(a[0]) or code not in _DTYPES:
            raise UnsupportedOperationError(
                f"An argument or result has a type (kind {self.byte(a[0])}, dtype {code}) that is "
                "not supported.\n  Fix: export the function with plain arrays.")
        return Aval(self.texts(a[1]), _DTYPES[code], self.byte(a[3]) or 1)

    def tree(self, position: int) -> Node:
        f = self.table(position)
        kind = self.byte(f[0])
        start, count = self.vector(f[1], 4)
        children = tuple(self.tree(p + self.number(p))
                         for p in range(start, start + 4 * count, 4))
        node = Node(kind, children, self.texts(f[2]), self.text(f[3]), self.bytes(f[4]))
        if kind > _CUSTOM or kind < _TUPLE and children:
            raise damaged("a tree of an unknown kind")
        if kind == _DICT and (len(node.names) != len(children)
                              or len(set(node.names)) != len(children)):
            raise damaged("a dictionary whose keys do not fit")
        return node


def _check_record(r: Record) -> None:
    leaves = [sum(1 for _ in _leaves(t)) for t in (r.in_tree, r.out_tree)]
    if leaves != [len(r.in_avals), len(r.out_avals)]:
        raise damaged("trees and types do not go together")
    if list(r.kept) != sorted(set(r.kept)) or any(k >= len(r.in_avals) for k in r.kept):
        raise damaged("arguments that are not there")
    if not r.platforms:
        raise damaged("it is for no platform")
    if any(kind > 2 for kind, _ in r.disabled_checks):
        raise damaged("a check that is not known")


def _leaves(node: Node) -> Any:
    if node.kind == _LEAF:
        yield node
    for c in node.children:
        yield from _leaves(c)


__all__ = ["Aval", "DeserializationError", "Node", "Record", "read_record", "write_record"]
