"""One dispatch of an executable of our own: what calls of kernels written here have in common.

`dispatch` calls a `stream.executable` of the module from the program; `insert` puts one, given as
text, before the functions; `executable` writes the part of that text that most share, `share` a
workgroup's part of the work, `copied` a run of elements that moves; `merge_equal` lets those that
do the same be one.
"""
from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from calque.core.lists import types_of
from calque.core.program import Equation
from calque.core.types import Dtype
from calque.lowering.emit import mlir
from calque.lowering.emit.builder import Value
from calque.lowering.emit.context import Context
from calque.lowering.emit.dtypes import signed

VECTOR = 64  # bytes
_FUNCTION = re.compile(r"@calque_function_\d+")
Spec = tuple[tuple[int, ...], Dtype]


def insert(module: Any, text: str) -> None:
    """Put an executable, written as text, at the module's start."""
    ir = mlir.ir()
    with ir.InsertionPoint.at_block_begin(module.body):
        ir.InsertionPoint.current.insert(ir.Operation.parse(text))


def executable(name: str, bindings: int, groups: int, body: str, sizes: str = "",
               functions: str = "") -> str:
    """The text of an executable whose function runs `body` in each workgroup, %group of %groups.

    Its arguments are bindings %b0, %b1, ... and `sizes`; %c0 and %c1 are there.  `functions`: what
    it calls, as text before it.
    """
    arguments = ", ".join(f"%b{i}: !stream.binding" for i in range(bindings))
    return f"""
stream.executable private @{name} {{
  stream.executable.export public @{name} workgroups() -> (index, index, index) {{
    %g = arith.constant {groups} : index
    %one = arith.constant 1 : index
    stream.return %g, %one, %one : index, index, index
  }}
  builtin.module {{{functions}
    func.func @{name}({arguments}{sizes}) {{
      %c0 = arith.constant 0 : index
      %c1 = arith.constant 1 : index
      %groups = arith.constant {groups} : index
      %group = stream.dispatch.workgroup.id[0] : index
      {body}
      return
    }}
  }}
}}"""


def share(tag: str, count: int, groups: int) -> str:
    """%tag_begin and %tag_end: a workgroup's part of so many rows or elements; all of them for each
    of a single one.  %next is the number of the workgroup behind it."""
    if groups == 1:
        return (f"%{tag}_begin = arith.constant 0 : index\n      "
                f"%{tag}_end = arith.constant {count} : index")
    return f"""%{tag}_n = arith.constant {count} : index
      %{tag}_a = arith.muli %group, %{tag}_n : index
      %{tag}_b = arith.muli %next, %{tag}_n : index
      %{tag}_begin = arith.divui %{tag}_a, %groups : index
      %{tag}_end = arith.divui %{tag}_b, %groups : index"""


def lanes_of(count: int, bits: int) -> int:
    """How many elements of up to `count` side by side a vector moves."""
    return min(8 * VECTOR // bits, 1 << (count.bit_length() - 1))


def copied(tag: str, count: str, source: tuple[str, str, str], target: tuple[str, str, str],
           lanes: int, bits: int) -> str:
    """So many elements of one array become another's, by vectors, then one by one; both are given
    as (memref, its type, the first place)."""
    (array, kind, begin), (out, out_kind, to) = source, target
    vector = f"vector<{lanes}xi{bits}>"
    several = f"""
          scf.for %j = %c0 to %{tag}_whole step %{tag}_lanes {{
            %p = arith.addi {begin}, %j : index
            %q = arith.addi {to}, %j : index
            %v = vector.load {array}[%p] : {kind}, {vector}
            vector.store %v, {out}[%q] : {out_kind}, {vector}
          }}"""
    return f"""
          %{tag}_lanes = arith.constant {lanes} : index
          %{tag}_count = arith.divui {count}, %{tag}_lanes : index
          %{tag}_whole = arith.muli %{tag}_count, %{tag}_lanes : index{several * (lanes > 1)}
          scf.for %j = {f"%{tag}_whole" if lanes > 1 else "%c0"} to {count} step %c1 {{
            %p = arith.addi {begin}, %j : index
            %q = arith.addi {to}, %j : index
            %v = memref.load {array}[%p] : {kind}
            memref.store %v, {out}[%q] : {out_kind}
          }}"""


def dispatch(ctx: Context, family: str, name: str, operands: Sequence[Value],
             results: Sequence[Spec], entry: str | Sequence[str] = "",
             into: int | Sequence[int] = -1, sizes: Sequence[Any] = (),
             numbers: Sequence[int] = (), groups: int = 0,
             equations: Sequence[Equation] = ()) -> list[Value]:
    """Results of executable `name`, whose bindings are operands, then results: new memory, or the
    memory of operand `into` (a number for each result, -1: new).  flow.dispatch takes no unsigned
    tensors (memory has no sign).  `entry`: the symbol in the executable, or those of its variants;
    `sizes` are further arguments of the executable's function, as index, `numbers` push constants
    of code that others wrote, int32.  `family`, `groups` and `equations` (by default the one at
    hand) are what the plan says of it (plan/record)."""
    b = ctx.b
    ctx.plan.kernel(family, name, equations, types_of(operands), results, groups)
    given = [b.bitcast(x, signed(x.dtype)) for x in operands]
    read = [n for x in given for n in b.lengths(x.shape)]
    made = [n for s, _ in results for n in b.lengths(s)]
    words = list(map(ctx.word, numbers))
    arguments = [*words, *[x.ir for x in given], *[b.extents.of(n) for n in sizes]]
    entries = [f"@{entry or name}"] if isinstance(entry, str) else entry
    tied = [i + len(words) if i >= 0 else i
            for i in ([into] * len(results) if isinstance(into, int) else into)]
    op = mlir.operation(
        "flow.dispatch", [mlir.tensor_type(s, signed(d)) for s, d in results],
        [*arguments, *read, *made], {
            "entry_points": "[" + ", ".join(f"@{name}::{e}" for e in entries) + "]",
            "operandSegmentSizes": f"array<i32: 0, {len(arguments)}, {len(read)}, {len(made)}>",
            "tied_operands": f"[{', '.join(f'{i} : index' for i in tied)}]"})
    return [b.bitcast(Value(b, r, s, signed(d)), d) for r, (s, d) in zip(op.results, results)]


def _nameless(text: str) -> str:
    """An executable's text with its functions numbered in their order."""
    numbers: dict[str, int] = {}
    return _FUNCTION.sub(lambda m: f"@f{numbers.setdefault(m[0], len(numbers))}", text)


def merge_equal(module: Any) -> None:
    """Of executables that agree but for their names, and those of the functions in them, one is
    left, which all dispatches call: it is compiled once."""
    executables = [op.operation for op in module.body.operations
                   if op.operation.name == "stream.executable"]
    if len(executables) < 2:
        return
    first: dict[str, str] = {}
    others: dict[str, str] = {}
    for op in executables:
        name = op.attributes["sym_name"].value
        kept = first.setdefault(_nameless(
            op.get_asm(use_local_scope=True, assume_verified=True).replace(name, "")), name)
        if kept is not name:
            others[name] = kept
            op.erase()
    if not others:
        return
    ir = mlir.ir()

    def renamed(op: Any) -> Any:
        if op.name == "flow.dispatch":
            entries = [re.sub(r"\w+", lambda m: others.get(m[0], m[0]), str(e))
                       for e in op.attributes["entry_points"]]
            op.attributes["entry_points"] = ir.Attribute.parse(f"[{', '.join(entries)}]")
        return ir.WalkResult.ADVANCE

    for op in module.body.operations:
        if op.operation.name != "stream.executable":  # (those dispatch nothing)
            op.operation.walk(renamed)
