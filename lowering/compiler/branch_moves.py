"""Cures of IREE's virtual machine code: a branch passes on what its operands were before it.

**Moves.** A block's argument may keep the register of what a branch passes to it.  Where the same
buffer is passed twice, once so and once to another register, IREE's compiler (3.13) writes the
second as a move, which empties the first: a loop ends at its first step in "binding table slot
requires a buffer but none was provided" (iree-org/iree, pull request 24781).  Any loop on the host
can be one whose first values lie in one piece of memory (1 in 1,000 of the programs that our tests
compile).  `mend` finds the moves from registers that the branch's target still reads, and makes
them copies.

**Order.** The pairs of a branch are copied one after the other.  IREE sorts them so that none is
read after it was written, but takes a register of 32 bits and one of 64 with the same number for
two: a loop's counter begins with a part of some size, and no step is taken.  `mend` puts such pairs
before those that write what they read.

Layouts of instructions: bytecode.py.
"""
from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from calque.runtime import bytecode, program

_REFERENCE, _MOVE, _NUMBER = 1 << 15, 1 << 14, (1 << 14) - 1
# of the core: those whose last register of references is their result
_GIVES = frozenset((8, 10, 16, 17, 18, 26, 30, 33, 108, 109, 130, 134))
_DISCARD, _BLOCK = 133, 121
_CALLS = frozenset((88, 89, 135, 136))  # their last list is of results
_OF_MANY = frozenset((89, 136))  # their first list is of counts
_BRANCHES = frozenset((86, 87, 93, 96, 97, 131, 135, 136))


@dataclass(slots=True)
class _Pair:
    """A register that a branch passes on: where its number is written, and what becomes of it."""

    at: int
    source: int
    result: int
    moves: bool


@dataclass(slots=True)
class _List:
    """The pairs of a branch as they are written: where, and both numbers."""

    places: list[int]
    numbers: list[tuple[int, int]]


@dataclass(slots=True)
class _Block:
    """What a block reads before it writes it, what it writes (a bit a register), where it leads."""

    reads: int = 0
    writes: int = 0
    edges: list[tuple[int, list[_Pair]]] = field(default_factory=list)
    lists: list[_List] = field(default_factory=list)
    live: int = 0

    def read(self, registers: int) -> None:
        self.reads |= registers & ~self.writes


class Tangled(Exception):
    """The pairs of a branch are an exchange that no order makes right."""


def mend(vmfb: bytes) -> bytes:
    """A module whose branches pass on what their operands were; Tangled where that cannot be."""
    data = bytearray(vmfb)
    code = program.read_code(memoryview(data))
    if not bytecode.is_known(code.version):
        return vmfb
    made = 0
    for f in code.functions:
        part = memoryview(code.data)[f.start:f.start + f.size]
        made += _order_function(part)
        made += _mend_function(part)
    return bytes(data) if made else vmfb


def _order_function(part: memoryview) -> int:
    """Puts pairs before those that write what they read, in place: how many."""
    reader = _Reader(part)
    lists = [pairs for block in reader.blocks().values() for pairs in block.lists]
    held = reader.used  # registers that hold values, and are not IREE's for exchanges alone
    for pairs in lists:
        written: set[int] = set()
        for source, result in pairs.numbers:
            if source & ~_MOVE not in written:
                held.add(source & ~_MOVE)
            written.add(result)
    return sum(_order(part, pairs, held) for pairs in lists)


def _order(part: memoryview, pairs: _List, held: set[int]) -> int:
    order, made = list(pairs.numbers), 0
    while (found := _late(order, held)) is not None:
        i, j = found
        source, result = order[j]
        between = [order[k][0] & ~_MOVE for k in range(i, j)]
        if result in between or made > len(order):
            raise Tangled
        if source & _REFERENCE and source & ~_MOVE in between:
            source &= ~_MOVE  # what is read once more is not taken
        del order[j]
        order.insert(i, (source, result))
        made += 1
    if made:
        for at, (source, result) in zip(pairs.places, order, strict=True):
            part[at:at + 4] = source.to_bytes(2, "little") + result.to_bytes(2, "little")
    return made


def _late(order: list[tuple[int, int]], held: set[int]) -> tuple[int, int] | None:
    """The first pair that reads what an earlier one wrote: (the earlier one's place, its own)."""
    written: dict[int, int] = {}
    for j, (source, result) in enumerate(order):
        i = written.get(source & ~_MOVE)
        if i is not None and source & ~_MOVE in held:
            return i, j
        written.setdefault(result, j)
    return None


def _mend_function(part: memoryview) -> int:
    """Makes copies of such moves, in place: how many."""
    blocks = _Reader(part).blocks()
    if not any(pair.moves for b in blocks.values() for _, pairs in b.edges for pair in pairs):
        return 0
    _find_live(blocks)
    return sum(_mend_edge(part, blocks[target].live, pairs)
               for block in blocks.values() for target, pairs in block.edges)


def _mend_edge(part: memoryview, live: int, pairs: list[_Pair]) -> int:
    made = written_later = 0
    for pair in reversed(pairs):
        if pair.moves and live & ~written_later & 1 << pair.source:
            part[pair.at + 1] &= ~_MOVE >> 8 & 0xff
            made += 1
        written_later |= 1 << pair.result
    return made


def _find_live(blocks: dict[int, _Block]) -> None:
    """Of each block the registers that are read from its start on before they are written."""
    changed = True
    while changed:
        changed = False
        for block in reversed(blocks.values()):
            after = 0
            for target, pairs in block.edges:
                live = blocks[target].live
                for pair in reversed(pairs):
                    live = live & ~(1 << pair.result) | 1 << pair.source
                after |= live
            live = block.reads | after & ~block.writes
            changed |= live != block.live
            block.live = live


class _Reader:
    def __init__(self, data: memoryview) -> None:
        self.data = data
        self.at = 0
        self.used: set[int] = set()  # registers that instructions name, but for pairs

    def take(self, size: int) -> int:
        start = self.at
        self.at += size
        return int.from_bytes(self.data[start:self.at], "little")

    def places(self, width: int) -> Iterator[int]:
        """The places of a list's elements."""
        self.at += self.at % 2
        count = self.take(2)
        start = self.at
        self.at += count * width
        return iter(range(start, self.at, width))

    def number(self, at: int) -> int:
        return int.from_bytes(self.data[at:at + 2], "little")

    def registers(self) -> int:
        """Those of references in a list."""
        mask = 0
        for at in self.places(2):
            number = self.number(at)
            self.used.add(number & ~_MOVE)
            if number & _REFERENCE:
                mask |= 1 << (number & _NUMBER)
        return mask

    def pairs(self, block: _Block) -> list[_Pair]:
        made = []
        places = list(self.places(4))
        block.lists.append(_List(places, [(self.number(at), self.number(at + 2))
                                          for at in places]))
        for at, (source, result) in zip(places, block.lists[-1].numbers, strict=True):
            if source & _REFERENCE:
                made.append(_Pair(at, source & _NUMBER, result & _NUMBER, bool(source & _MOVE)))
        return made

    def blocks(self) -> dict[int, _Block]:
        """A function's blocks by the places where they begin."""
        made: dict[int, _Block] = {}
        block = _Block()
        while self.at < len(self.data) - 1:
            start = self.at
            opcode, table = self.take(1), 0
            if opcode in bytecode.PREFIXES:
                table, opcode = bytecode.PREFIXES[opcode], self.take(1)
            if not table and opcode == _BLOCK:
                block = made[start] = _Block()
            else:
                self.step(block, bytecode.LAYOUTS[table][opcode], -1 if table else opcode)
        return made

    def step(self, block: _Block, layout: str, opcode: int) -> None:
        single: list[int] = []
        lists: list[int] = []
        target = 0
        for letter in layout:
            if letter == "r":
                number = self.take(2) & ~_MOVE
                self.used.add(number | _REFERENCE)
                single.append(1 << (number & _NUMBER))
            elif letter in "il":
                number = self.take(2)
                self.used.update((number, number + (letter == "l")))
            elif letter == "v":
                lists.append(self.registers())
            elif letter == "w":
                target = self.take(4)
            elif letter == "b":
                block.edges.append((target, self.pairs(block)))
            elif letter == "c":
                for _ in range(self.take(2)):
                    target = self.take(4)
                    block.edges.append((target, self.pairs(block)))
            elif letter == "s":
                length = self.take(2)
                self.at += length
            else:
                self.at += 8 if letter == "d" else 4
        written = 0
        if opcode in _GIVES:
            written = single.pop()
        if opcode in _CALLS or opcode == _DISCARD:
            written = lists.pop()
        if opcode in _OF_MANY:
            del lists[0]
        for mask in (*single, *lists):
            block.read(mask)
        block.writes |= written
        if opcode in _CALLS & _BRANCHES:
            block.edges.append((target, []))
