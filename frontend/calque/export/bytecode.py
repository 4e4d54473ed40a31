"""Reads MLIR bytecode of VHLO operations (a StableHLO portable artifact) into hlo.Module.

The format is public: mlir.llvm.org/docs/BytecodeFormat.  Only what such artifacts hold is read:
builtin.module, vhlo.* and, to be passed over, operations and attributes of other dialects (sdy).
Everything is checked: sections, numbers, counts, the names of operations and attributes, uses of
values before they are defined.  Whatever is wrong with the bytes is a DeserializationError.
Start reading at `read_module`.
"""
from __future__ import annotations

import re
from typing import Any

from calque.export import vhlo
from calque.export.errors import DeserializationError, UnsupportedOperationError
from calque.export.hlo import Block, Foreign, Func, Function, Module, Op, TypeOf, Value
from calque.export.stream import Stream, damaged, decoded

MAGIC = b"ML\xefR"
NEWEST = (1, 20, 0)  # of VHLO, that we know the operations of
STRINGS, DIALECTS, ATTRIBUTES, OFFSETS, IR, PROPERTIES = 0, 1, 2, 3, 4, 8
_SEGMENT_LIMIT = 200  # how deep regions may be nested


def read_module(data: bytes) -> Module:
    """The module of a portable artifact.

    Raises:
      DeserializationError: the bytes are not one, or damaged.
      UnsupportedOperationError: it is of a version, or has operations, that are not known here.
    """
    try:
        return _Reader(bytes(data)).module()
    except RecursionError:
        raise damaged("attributes or regions are nested too deeply") from None
    except (AttributeError, TypeError, KeyError, IndexError, OverflowError) as error:
        raise damaged(f"its parts do not fit together ({error!r})") from error


def version_of(producer: str) -> vhlo.Version:
    found = re.fullmatch(r"StableHLO_v(\d+)\.(\d+)\.(\d+)", producer)
    if found is None:
        raise DeserializationError(
            f"The module was written by {producer[:80]!r}, not as a portable StableHLO artifact.\n"
            "  Fix: serialize it with jax.export, calque.export or serialize_portable_artifact.")
    return int(found[1]), int(found[2]), int(found[3])


class _Reader:
    def __init__(self, data: bytes) -> None:
        s = Stream(data)
        if s.take(min(4, s.left)) != MAGIC:
            raise damaged("the module is no MLIR bytecode")
        self.format = s.varint()
        self.producer = s.text()
        self.version = version_of(self.producer)
        if not 4 <= self.format <= 6 or self.version < (0, 14, 0) or self.version > NEWEST:
            raise UnsupportedOperationError(
                f"The module is {self.producer} in bytecode version {self.format}; read are "
                f"StableHLO 0.14 to {'.'.join(map(str, NEWEST))}, bytecode 4 to 6.\n"
                "  Fix: export it with a version of JAX nearer to this one.")
        sections = _sections(s)
        for need in (STRINGS, DIALECTS, ATTRIBUTES, OFFSETS, IR):
            if need not in sections:
                raise damaged(f"section {need} is missing")
        self.strings = _strings(sections[STRINGS])
        self.dialects: list[str] = []
        self.names: list[tuple[str, str]] = []  # operations: (dialect, name)
        self._dialects(sections[DIALECTS])
        self.entries: list[list[tuple[str, bool, Stream]]] = [[], []]  # attributes, types
        self._offsets(sections[OFFSETS], sections[ATTRIBUTES])
        self.known: list[dict[int, Any]] = [{}, {}]
        self.ir = sections[IR]
        self.properties = _properties(sections[PROPERTIES]) if PROPERTIES in sections else []

    # ---- tables
    def string(self, index: int) -> str:
        if index >= len(self.strings):
            raise damaged("a string that is not there")
        return self.strings[index]

    def _dialects(self, s: Stream) -> None:
        for _ in range(s.count()):
            index, versioned = s.flagged()
            self.dialects.append(self.string(index))
            if versioned:
                _section(s)
        total = s.varint()
        while s.left:
            dialect = self._dialect(s.varint())
            for _ in range(s.count()):
                index = s.flagged()[0] if self.format >= 5 else s.varint()
                self.names.append((dialect, self.string(index)))
        if total != len(self.names):
            raise damaged("the number of operations is wrong")

    def _dialect(self, index: int) -> str:
        if index >= len(self.dialects):
            raise damaged("a dialect that is not there")
        return self.dialects[index]

    def _offsets(self, s: Stream, data: Stream) -> None:
        count = [s.varint(), s.varint()]
        for kind in (0, 1):
            while len(self.entries[kind]) < count[kind]:
                dialect = self._dialect(s.varint())
                for _ in range(s.count()):
                    size, encoded = s.flagged()
                    self.entries[kind].append((dialect, encoded, data.part(size)))
            if len(self.entries[kind]) != count[kind]:
                raise damaged("the number of attributes is wrong")

    def attribute(self, index: int) -> Any:
        return self._entry(0, index)

    def type(self, index: int) -> Any:
        return self._entry(1, index)

    def _entry(self, kind: int, index: int) -> Any:
        known = self.known[kind]
        if index in known:
            if known[index] is _BUSY:
                raise damaged("an attribute that contains itself")
            return known[index]
        if index >= len(self.entries[kind]):
            raise damaged("an attribute or type that is not there")
        dialect, encoded, entry = self.entries[kind][index]
        known[index] = _BUSY
        s = Stream(entry.data, entry.position, entry.end)
        if dialect == "vhlo" and encoded:
            made = (vhlo.read_attribute, vhlo.read_type)[kind](s, self)
        elif dialect == "builtin" and encoded and kind == 0:
            made = self._builtin(s)
        else:
            made = Foreign(dialect)
        known[index] = made
        return made

    def _builtin(self, s: Stream) -> Any:
        """Of MLIR's own attributes those that a module may have; others are passed over."""
        code = s.varint()
        if code == 0:
            return tuple(self.attribute(s.varint()) for _ in range(s.count()))
        if code == 1:
            return vhlo.dictionary(s, self)
        return self.string(s.varint()) if code == 2 else Foreign("builtin")

    # ---- operations
    def module(self) -> Module:
        s = self.ir
        count, has_arguments = s.flagged()
        if count != 1 or has_arguments:
            raise damaged("it is not one module")
        holder = Block()
        self._op(s, holder, [], 0)
        op = holder.ops[0]
        if op.name != "builtin.module":
            raise damaged(f"its outermost operation is {op.name}")
        functions = [self._function(f) for f in op.regions[0].ops if f.name == "func"] \
            if op.regions else []
        name = op.attributes.pop("sym_name", "")
        return Module(name if isinstance(name, str) else "", functions, op.attributes)

    def _function(self, op: Op) -> Func:
        a = op.attributes
        kind = a["function_type"]
        if (not isinstance(a["sym_name"], str) or not isinstance(kind, TypeOf)
                or not isinstance(kind.type, Function) or len(op.regions) != 1):
            raise damaged("a function without name, type or body")
        body = op.regions[0]
        if tuple(v.type for v in body.arguments) != kind.type.inputs:
            raise damaged("a function's arguments are not of its type")
        if (not body.ops or body.ops[-1].name != "return"
                or tuple(v.type for v in body.ops[-1].operands) != kind.type.outputs):
            raise damaged("a function's results are not of its type")
        return Func(a["sym_name"], body, kind.type.outputs, a["sym_visibility"] == "public",
                    _dictionaries(a["arg_attrs"]), _dictionaries(a["res_attrs"]))

    def _op(self, s: Stream, block: Block, values: list[Value | None], depth: int) -> None:
        index = s.varint()
        if index >= len(self.names):
            raise damaged("an operation that is not there")
        dialect, name = self.names[index]
        mask = s.byte()
        s.varint()  # location
        attributes: dict[str, Any] = {}
        if mask & 1:
            found = self.attribute(s.varint())
            if isinstance(found, dict):
                attributes.update(found)
        properties = s.varint() if mask & 0x40 else None
        attributes.update(self._attributes(dialect, name, attributes, properties))
        types = [self.type(s.varint()) for _ in range(s.count())] if mask & 2 else []
        operands = [_defined(values, s.varint()) for _ in range(s.count())] if mask & 4 else []
        if mask & 8:
            raise damaged("a jump between blocks")
        if mask & 0x20:
            _skip_orders(s, len(types))
        op = Op(_plain(dialect, name), operands, [Value(t) for t in types], attributes)
        self._define(values, op.results)
        if mask & 0x10:
            self._regions(s, op, values, depth)
        block.ops.append(op)

    def _attributes(self, dialect: str, name: str, given: dict[str, Any],
                    properties: int | None) -> dict[str, Any]:
        if dialect == "builtin" and name == "module":
            return self._module_properties(properties)
        if dialect != "vhlo":
            return {}
        form = vhlo.OPS.get(name)
        if form is None:
            raise UnsupportedOperationError(
                f"vhlo.{name} is not an operation of StableHLO "
                f"{'.'.join(map(str, NEWEST))} or before.\n  Fix: update calque.")
        if properties is None:
            missing = [a for a in form.attributes if a not in given]
            if missing:
                raise damaged(f"{name} has no {missing[0]}")
            return {}
        s = self._property(properties)
        found = {a: self.attribute(s.varint()) for a in form.attributes}
        if s.left:
            raise damaged(f"{name} has attributes too many")
        return found

    def _property(self, index: int) -> Stream:
        if index >= len(self.properties):
            raise damaged("properties that are not there")
        p = self.properties[index]
        return Stream(p.data, p.position, p.end)

    def _module_properties(self, index: int | None) -> dict[str, Any]:
        if index is None:
            return {}
        s, found = self._property(index), {}
        for key in ("sym_name", "sym_visibility"):
            number, present = s.flagged()
            if present:
                found[key] = self.attribute(number)
        return found

    def _regions(self, s: Stream, op: Op, values: list[Value | None], depth: int) -> None:
        if depth > _SEGMENT_LIMIT:
            raise damaged("regions are nested too deeply")
        count, isolated = s.flagged()
        if count > s.left:
            raise damaged("regions too many")
        inner = s
        if isolated:  # all of them in one section, their values counted from 0
            number, inner = _section(s)
            if number != IR:
                raise damaged("a region without operations")
        for _ in range(count):
            if isolated:
                op.regions.append(self._region(inner, [], depth))
            else:
                start = len(values)
                op.regions.append(self._region(inner, values, depth))
                del values[start:]

    def _region(self, s: Stream, values: list[Value | None], depth: int) -> Block:
        blocks = s.varint()
        if blocks == 0:
            return Block()
        if blocks != 1:
            raise damaged("a region of several blocks")
        total = s.varint()
        if total > s.left:
            raise damaged("values too many")
        first = len(values)
        values.extend([None] * total)
        self.next = first
        block = Block()
        count, has_arguments = s.flagged()
        if has_arguments:
            for _ in range(s.count()):
                index, located = s.flagged() if self.format >= 4 else (s.varint(), True)
                if located:
                    s.varint()
                block.arguments.append(Value(self.type(index)))
            if s.byte():
                _skip_orders(s, len(block.arguments))
        if count > s.left:
            raise damaged("operations too many")
        self._define(values, block.arguments)
        for _ in range(count):
            mine = self.next  # regions inside the operation count on from elsewhere
            self._op(s, block, values, depth + 1)
            self.next = mine + len(block.ops[-1].results)
        if self.next != first + total:
            raise damaged("the number of values is wrong")
        return block

    def _define(self, values: list[Value | None], new: list[Value]) -> None:
        if not new:
            return
        if self.next + len(new) > len(values):
            raise damaged("the number of values is wrong")
        values[self.next:self.next + len(new)] = new
        self.next += len(new)


_BUSY = object()


def _plain(dialect: str, name: str) -> str:
    """The StableHLO name of an operation of VHLO; others keep their dialect."""
    return re.sub(r"_v\d+$", "", name) if dialect == "vhlo" else f"{dialect}.{name}"


def _defined(values: list[Value | None], index: int) -> Value:
    found = values[index] if index < len(values) else None
    if found is None:
        raise damaged("a value is used before it is defined")
    return found


def _dictionaries(attribute: Any) -> tuple[dict[str, Any], ...]:
    if not isinstance(attribute, tuple):
        return ()
    return tuple(a if isinstance(a, dict) else {} for a in attribute)


def _section(s: Stream) -> tuple[int, Stream]:
    head = s.byte()
    size = s.varint()
    if head & 0x80:
        alignment = s.varint()
        if alignment == 0 or alignment & (alignment - 1) or alignment > 1 << 20:
            raise damaged("an alignment that is none")
        s.take(-s.position % alignment)
    return head & 0x7F, s.part(size)


def _sections(s: Stream) -> dict[int, Stream]:
    found: dict[int, Stream] = {}
    while s.left:
        number, part = _section(s)
        if number in found:
            raise damaged(f"section {number} is there twice")
        found[number] = part
    return found


def _strings(s: Stream) -> list[str]:
    sizes = [s.varint() for _ in range(s.count())]
    found = []
    for size in reversed(sizes):
        raw = s.take(size)
        if raw[-1:] != b"\0":
            raise damaged("a string without end")
        found.append(decoded(raw[:-1]))
    return found


def _properties(s: Stream) -> list[Stream]:
    return [s.part(s.varint()) for _ in range(s.count())]


def _skip_orders(s: Stream, values: int) -> None:
    """Orders of uses mean nothing here."""
    for _ in range(s.count() if values > 1 else 1):
        if values > 1:
            s.varint()
        n, _flag = s.flagged()
        if n > s.left:
            raise damaged("an order of uses too many")
        for _ in range(n):
            s.varint()
