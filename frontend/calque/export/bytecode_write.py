"""Writes hlo.Module as a portable StableHLO artifact: MLIR bytecode of VHLO operations.

The version written is the oldest that has all operations we write, so that older readers can read
it too; StableHLO promises to read it for five years.  The same module gives the same bytes: nothing
here depends on addresses, hashes or the machine.  `bytecode` reads it back.
Start reading at `write_module`.
"""
from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import numpy as np

from calque.export import vhlo
from calque.export.bytecode import MAGIC
from calque.export.hlo import Block, Func, Module, Op, TypeOf, Value, walk
from calque.export.stream import varint

VERSION = (1, 4, 0)  # of StableHLO: the first with `tan`
_FORMAT = 6  # of the bytecode, in that version
_UNKNOWN_LOCATION = varint(15)  # builtin.loc, the first attribute of every file


def write_module(module: Module) -> bytes:
    """The module as a portable artifact of StableHLO 1.4."""
    return _Writer().module(module)


@dataclass(frozen=True, slots=True)
class _Bool:
    """True and False as keys: True == 1 otherwise."""

    value: bool


K = TypeVar("K", str, bytes)


class _Table(Generic[K]):
    """Strings or bytes by number, in the order they are first asked for."""

    def __init__(self) -> None:
        self.numbers: dict[K, int] = {}

    def __call__(self, key: K) -> int:
        return self.numbers.setdefault(key, len(self.numbers))


class _Entries:
    """Attributes or types: numbers and bytes."""

    def __init__(self, first: int) -> None:
        self.first = first
        self.numbers: dict[Hashable, int] = {}
        self.encoded: list[bytes] = []

    def number(self, key: Hashable, encode: Any) -> int:
        found = self.numbers.get(key)
        if found is None:
            found = self.numbers[key] = self.first + len(self.encoded)
            self.encoded.append(b"")
            self.encoded[found - self.first] = encode()
        return found


class _Writer:
    def __init__(self) -> None:
        self.strings: _Table[str] = _Table()
        self.types = _Entries(0)
        self.attributes = _Entries(2)  # after two of builtin: the location, the module's name
        self.properties: _Table[bytes] = _Table()
        self.names: dict[str, int] = {"module": 0}  # operations; all others are VHLO's
        self.ids: dict[Value, int] = {}
        self.told: dict[str, int] = {}  # error_message -> its dictionary, of builtin

    # ---- tables
    def string(self, text: str) -> int:
        return self.strings(text)

    def type(self, value: Any) -> int:
        return self.types.number(value, lambda: vhlo.write_type(value, self))

    def attribute(self, value: Any) -> int:
        key = _key(value)
        plain = key.value if isinstance(key, _Bool) else key
        return self.attributes.number(key, lambda: vhlo.write_attribute(plain, self))

    # ---- the file
    def module(self, module: Module) -> bytes:
        name = varint(2) + varint(self.string(module.name))  # a string of builtin
        dictionaries = self._dictionaries(module)
        block = varint(len(module.functions) << 1) + b"".join(map(self._function, module.functions))
        region = _section(4, varint(1) + varint(0) + block)  # one block, no values
        number = self.properties(varint(1 << 1 | 1) + varint(0))  # sym_name, no sym_visibility
        body = varint(1 << 1) + (varint(0) + bytes((0x50,)) + varint(0) + varint(number)
                                 + varint(1 << 1 | 1) + region)
        builtin = [_UNKNOWN_LOCATION, name, *dictionaries]
        entries = [*builtin, *self.attributes.encoded]
        offsets = [varint(len(entries)), varint(len(self.types.encoded)), _offsets(0, builtin),
                   _offsets(1, self.attributes.encoded), _offsets(1, self.types.encoded)]
        properties = [varint(len(self.properties.numbers))]
        properties += [varint(len(p)) + p for p in self.properties.numbers]
        dialects = self._dialects()
        producer = f"StableHLO_v{'.'.join(map(str, VERSION))}\0"
        return b"".join((
            MAGIC, varint(_FORMAT), producer.encode(), _section(1, dialects),
            _section(2, b"".join((*entries, *self.types.encoded))),
            _section(3, b"".join(offsets)), _section(4, body),
            _section(8, b"".join(properties)), _section(0, self._strings())))

    def _dictionaries(self, module: Module) -> list[bytes]:
        """What custom calls say besides their properties, {error_message: text}: the name, and a
        dictionary for each text."""
        every = dict.fromkeys(op.attributes["error_message"] for f in module.functions
                              for op in walk(f.body) if "error_message" in op.attributes)
        if not every:
            return []
        key = self.attributes.first
        self.told = {text: i for i, text in enumerate(every, key + 1)}
        self.attributes.first += 1 + len(every)
        return [varint(2) + varint(self.string("error_message")),
                *(varint(1) + varint(1) + varint(key) + varint(self.attribute(text))
                  for text in every)]

    def _dialects(self) -> bytes:
        names = list(self.names)
        text = varint(2) + varint(self.string("builtin") << 1) + varint(self.string("vhlo") << 1)
        text += varint(len(names))
        for dialect, part in ((0, names[:1]), (1, names[1:])):
            text += varint(dialect) + varint(len(part))
            text += b"".join(varint(self.string(n) << 1 | 1) for n in part)
        return text

    def _strings(self) -> bytes:
        raw = [s.encode() + b"\0" for s in self.strings.numbers]
        return (varint(len(raw)) + b"".join(varint(len(r)) for r in reversed(raw)) + b"".join(raw))

    # ---- operations
    def _function(self, f: Func) -> bytes:
        attributes = {
            "arg_attrs": tuple(f.arg_attrs) or ({},) * len(f.body.arguments),
            "res_attrs": tuple(f.res_attrs) or ({},) * len(f.outputs),
            "function_type": TypeOf(f.type), "sym_name": f.name,
            "sym_visibility": "public" if f.public else "private"}
        self.ids = {}
        region = _section(4, self._region(f.body, 0))
        return self._op(Op("func", attributes=attributes), varint(1 << 1 | 1) + region)

    def _op(self, op: Op, regions: bytes = b"") -> bytes:
        form = vhlo.form_for(op.name, VERSION)
        name = self.names.setdefault(form.name, len(self.names))
        mask, parts = 0, [varint(0)]
        if "error_message" in op.attributes:
            mask |= 1
            parts.append(varint(self.told[op.attributes["error_message"]]))
        if form.attributes:
            mask |= 0x40
            numbers = [varint(self.attribute(op.attributes[a])) for a in form.attributes]
            parts.append(varint(self.properties(b"".join(numbers))))
        if op.results:
            mask |= 2
            parts.append(_list([self.type(v.type) for v in op.results]))
        if op.operands:
            mask |= 4
            parts.append(_list([self.ids[v] for v in op.operands]))
        if regions:
            mask |= 0x10
            parts.append(regions)
        return varint(name) + bytes((mask,)) + b"".join(parts)

    def _region(self, block: Block, first: int) -> bytes:
        """A region of one block whose values are numbered from `first`."""
        for v in (*block.arguments, *[r for op in block.ops for r in op.results]):
            self.ids[v] = first
            first += 1
        mine = len(block.arguments) + sum(len(op.results) for op in block.ops)
        parts = [varint(1), varint(mine), varint(len(block.ops) << 1 | bool(block.arguments))]
        if block.arguments:
            parts.append(_list([self.type(a.type) << 1 for a in block.arguments]) + b"\0")
        for op in block.ops:
            regions = b""
            if op.regions:
                regions = varint(len(op.regions) << 1) + b"".join(
                    self._region(r, first) for r in op.regions)
            parts.append(self._op(op, regions))
        return b"".join(parts)


def _key(value: Any) -> Hashable:
    """An attribute as what can be looked up."""
    if isinstance(value, bool):
        return _Bool(value)
    if isinstance(value, np.ndarray | np.generic):
        return vhlo.dense_key(np.asarray(value))
    if isinstance(value, dict):
        return vhlo.Dictionary(tuple((k, _part(v)) for k, v in sorted(value.items())))
    if isinstance(value, tuple | list):
        return tuple(map(_part, value))
    assert isinstance(value, Hashable)
    return value


def _part(value: Any) -> Any:
    key = _key(value)
    return key.value if isinstance(key, _Bool) else key


def _list(numbers: Sequence[int]) -> bytes:
    return varint(len(numbers)) + b"".join(map(varint, numbers))


def _offsets(dialect: int, entries: Sequence[bytes]) -> bytes:
    """Sizes of the entries of one dialect, all of them in its own encoding."""
    return varint(dialect) + _list([len(e) << 1 | 1 for e in entries]) if entries else b""


def _section(number: int, data: bytes) -> bytes:
    return bytes((number,)) + varint(len(data)) + data
