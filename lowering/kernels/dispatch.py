"""One dispatch of an executable of our own: what calls of kernels written here have in common.

`dispatch` calls a `stream.executable` of the module from the program; `insert` puts one, given as
text, before the functions.
"""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from calque.lowering import mlir
from calque.lowering.builder import Builder, Value, signed

Dtype = np.dtype[Any]
Spec = tuple[tuple[int, ...], Dtype]


def insert(module: Any, text: str) -> None:
    """Put an executable, written as text, at the module's start."""
    ir = mlir.ir()
    with ir.InsertionPoint.at_block_begin(module.body):
        ir.InsertionPoint.current.insert(ir.Operation.parse(text))


def dispatch(b: Builder, name: str, operands: Sequence[Value], results: Sequence[Spec],
             entry: str = "", into: int = -1) -> list[Value]:
    """Results of executable `name`, whose bindings are operands, then results: new memory, or the
    memory of operand `into`.  flow.dispatch takes no unsigned tensors (memory has no sign)."""
    op = b.op("flow.dispatch", [b.bitcast(x, signed(x.dtype)) for x in operands],
              [(s, signed(d)) for s, d in results], {
                  "entry_points": f"[@{name}::@{entry or name}]",
                  "operandSegmentSizes": f"array<i32: 0, {len(operands)}, 0, 0>",
                  "tied_operands": f"[{', '.join([f'{into} : index'] * len(results))}]"})
    return [b.bitcast(Value(b, r, s, signed(d)), d) for r, (s, d) in zip(op.results, results)]
