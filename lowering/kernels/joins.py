"""Many arrays joined: parameters raveled into a vector, frames stacked into a batch.

One kernel copies each array to its place by a function that all of them share; where a dispatch has
too few bindings, several write into the same result, one after the other.  Start reading at `join`.
"""
from __future__ import annotations

import math
from collections.abc import Sequence

from calque.core.dims import is_static
from calque.core.types import Shape
from calque.lowering.compiler.server import FUNCTIONS
from calque.lowering.emit.builder import Value
from calque.lowering.emit.context import Context
from calque.lowering.kernels.dispatch import VECTOR, copied, dispatch, executable, insert, share
from calque.lowering.passes.cost import MOST_BINDINGS
from calque.lowering.passes.remainder import joins_many
from calque.lowering.plan.switches import off

WORTH = 16384  # elements that a workgroup should have
GROUPS = 16


def join(ctx: Context, xs: Sequence[Value], axis: int, shape: Shape) -> Value | None:
    """The operands behind each other along an axis; None where that is not for this kernel."""
    if (not ctx.closing or ctx.module is None or ctx.regions or off("moves") or not is_static(shape)
            or not joins_many([x.shape for x in xs], axis, xs[0].dtype)):
        return None
    inner = math.prod(shape[axis + 1:])
    rows, line = math.prod(shape[:axis]), shape[axis] * inner
    made: Value | None = None
    to = first = 0
    while first < len(xs):
        some = xs[first:first + MOST_BINDINGS - 2]
        widths = [x.shape[axis] * inner for x in some]
        name = _kernel(ctx, widths, rows, line, to, 8 * xs[0].dtype.itemsize)
        before = [] if made is None else [made]
        (made,) = dispatch(ctx, "move", name, ctx.entering([*some, *before]),
                           [(shape, xs[0].dtype)], into=len(some) if before else -1,
                           groups=_groups(rows * line))
        to, first = to + sum(widths), first + len(some)
    return made


def _groups(total: int) -> int:
    return max(1, min(GROUPS, total // WORTH))


def _kernel(ctx: Context, widths: Sequence[int], rows: int, line: int, to: int, bits: int) -> str:
    """The executable that copies arrays of rows of these widths, the first to `to`."""
    key = "join", tuple(widths), rows, line, to, bits
    if key not in ctx.sources:
        ctx.kernels += 1
        ctx.sources[key] = name = f"join_{ctx.kernels}"
        insert(ctx.module, _executable(ctx, name, widths, rows, line, to, bits))
    return str(ctx.sources[key])


def _executable(ctx: Context, name: str, widths: Sequence[int], rows: int, line: int, to: int,
                bits: int) -> str:
    function = FUNCTIONS[ctx.functions] if ctx.functions < len(FUNCTIONS) else f"copy_{name}"
    ctx.functions += 1
    groups = _groups(rows * line)
    out = f"memref<{rows * line}xi{bits}>"
    calls = []
    for i, width in enumerate(widths):
        calls.append(f"""
      %n{i} = arith.constant {rows * width} : index
      %m{i} = stream.binding.subspan %b{i}[%c0] : !stream.binding -> memref<?xi{bits}>{{%n{i}}}
      %w{i} = arith.constant {width} : index
      %t{i} = arith.constant {to} : index
      {share(f"r{i}", rows, groups if rows >= groups else 1)}
      {share(f"k{i}", width, 1 if rows >= groups else groups)}
      func.call @{function}(%m{i}, %out, %w{i}, %t{i}, %r{i}_begin, %r{i}_end, %k{i}_begin,
        %k{i}_end) : (
        memref<?xi{bits}>, {out}, index, index, index, index, index, index) -> ()""")
        to += width
    copy = f"""
    func.func private @{function}(%m: memref<?xi{bits}>, %out: {out}, %width: index, %to: index,
        %first: index, %last: index, %begin: index, %end: index) attributes {{no_inline}} {{
      %c0 = arith.constant 0 : index
      %c1 = arith.constant 1 : index
      %line = arith.constant {line} : index
      %span = arith.subi %end, %begin : index
      scf.for %row = %first to %last step %c1 {{
        %above = arith.muli %row, %width : index
        %from = arith.addi %above, %begin : index
        %before = arith.muli %row, %line : index
        %at = arith.addi %before, %to : index
        %there = arith.addi %at, %begin : index
        {copied("run", "%span", ("%m", f"memref<?xi{bits}>", "%from"), ("%out", out, "%there"),
                8 * VECTOR // bits, bits)}
      }}
      return
    }}"""
    return executable(name, len(widths) + 1, groups, f"""
      %next = arith.addi %group, %c1 : index
      %out = stream.binding.subspan %b{len(widths)}[%c0] : !stream.binding -> {out}
      {"".join(calls)}""", functions=copy)


__all__ = ["join"]
