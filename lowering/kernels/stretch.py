"""The code of an elementwise stretch (passes/chains, uneven), a vector of all results at a time.

A gradient reads each step's values when all steps are done: LLVM would keep thousands of vectors
on the stack, and that of IREE's workers is small (the gradient of 1,000 sines of 1M elements ended
the process).  Where that many are alive, the code falls into parts, which hand values on in
memory.  Start reading at `emit_stretch`.
"""
from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from calque.core.types import Dtype
from calque.lowering.emit import mlir
from calque.lowering.kernels import memory

if TYPE_CHECKING:
    from calque.lowering.kernels.rows import Kernel, Node

ALIVE = 16 * 1024  # bytes of values on the stack at a time; C kernels keep below 32 KiB, too


def emit_stretch(kernel: Kernel) -> None:
    """A vector of each result, at kernel.where."""
    b, where = kernel.across, kernel.where
    order = [n for n in kernel.needed([n for n, _ in kernel.numbers])
             if n.kind in ("map", "picked") and n not in kernel.fixed]
    for n, m in kernel.numbers:
        if n.kind not in ("map", "picked"):  # moved, or counted
            memory.store(b, kernel.computed(b, n, {}, where), m, where)
    if not order:
        return
    last = {x: i for i, n in enumerate(order) for x in n.operands}
    length = _length(order, last, b.lanes)
    slots, counts = _slots(order, last, length)
    scratch = {d: kernel.shell.allocate((count, b.lanes), d) for d, count in counts.items()}
    values = dict(kernel.fixed)
    for i, n in enumerate(order):
        if i and i % length == 0:
            for x, v in values.items():
                if slots.get(x, (-1,))[0] == i:
                    memory.store(b, v, scratch[x.dtype], [slots[x][1], 0])
            values = dict(kernel.fixed)
            _forget()
        for x in n.operands:
            if x not in values:
                values[x] = (memory.load(b, scratch[x.dtype], [slots[x][1], 0]) if x in slots
                             else kernel.computed(b, x, {}, where))
        values[n] = kernel.computed(b, n, values, where)
        for target, m in kernel.numbers:
            if target is n:
                memory.store(b, values[n], m, where)


def _length(order: Sequence[Node], last: dict[Node, int], lanes: int) -> int:
    """How many operations a part has: all, where few values are alive at a time."""
    size = lanes * max([4, *[n.dtype.itemsize for n in order]])
    ends: dict[int, int] = {}
    alive = most = 0
    for i, n in enumerate(order):
        alive += 1
        most = max(most, alive)
        end = last.get(n, i)
        ends[end] = ends.get(end, 0) + 1
        alive -= ends.pop(i, 0)
    # in a part each operation may read three values, of those before it
    return len(order) if most * size <= ALIVE else max(4, ALIVE // (4 * size))


def _slots(order: Sequence[Node], last: dict[Node, int], length: int
           ) -> tuple[dict[Node, tuple[int, int]], dict[Dtype, int]]:
    """Where values wait that a later part reads: (the end of their own part, a row of the memory of
    their dtype); and how many rows there are."""
    found: dict[Node, tuple[int, int]] = {}
    counts: dict[Dtype, int] = {}
    free: dict[Dtype, list[int]] = {}
    held: list[Node] = []
    for cut in range(length, len(order), length):
        for x in held:
            if last[x] < cut:
                free[x.dtype].append(found[x][1])
        held = [x for x in held if last[x] >= cut]
        for x in order[cut - length:cut]:
            if last.get(x, -1) >= cut:
                rows = free.setdefault(x.dtype, [])
                if not rows:
                    rows.append(counts.get(x.dtype, 0))
                    counts[x.dtype] = rows[0] + 1
                found[x] = cut, rows.pop()
                held.append(x)
    return found, counts


def _forget() -> None:
    """What memory holds is not known from here on: LLVM would keep what was stored in registers."""
    ir = mlir.ir()
    mlir.operation("llvm.inline_asm", [], [], {
        "asm_string": ir.StringAttr.get(""), "constraints": ir.StringAttr.get("~{memory}"),
        "has_side_effects": ir.UnitAttr.get()})
