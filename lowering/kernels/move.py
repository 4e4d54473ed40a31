"""Large arrays moved by kernels written here: joined, reversed, rows picked.

IREE copies on one thread, and reverses and picks element by element.  Here an array is written run
by run: runs of at most RUN elements, moved by vectors and spread over workgroups.  Elements are
integers of their size, whatever they stand for.  What is padded or reversed of what was moved is
moved from where that came from (`_placed`): rolled, padded and flipped is one kernel.
Start reading at `_runs`.
"""
from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from calque.core.dims import is_static
from calque.core.types import Dtype, Shape
from calque.lowering.emit import mlir
from calque.lowering.emit.aliasing import AliasAnalysis
from calque.lowering.emit.builder import Value
from calque.lowering.emit.context import Context
from calque.lowering.kernels.dispatch import dispatch, executable, insert
from calque.lowering.passes.edges import Edges
from calque.lowering.plan.switches import off

RUN = 8192  # elements of a run at most
LARGE = 1 << 16  # bytes from which on it pays
SHORT = 16  # rows of fewer elements are left to IREE,
NARROW = 2  # of fewer of what is joined
GROUPS = 32  # workgroups at most
WORTH = 16384  # elements that a workgroup should have
MOST_PARTS = 16  # of a kernel


@dataclass(frozen=True, slots=True)
class Part:
    """Rows of an operand that become rows of the result (numbers in elements)."""

    operand: int
    rows: int
    width: int
    start: int  # of the first row in the operand
    stride: int  # from row to row there
    to: int  # of the first row in the result
    to_stride: int
    backwards: bool = False  # the elements of each row
    order: tuple[tuple[int, bool], ...] = ()  # (size, reversed) of the axes that rows run over
    picked: bool = False  # rows of the operand are named by the operand behind the data
    fill: int | None = None  # bits of what rows are that the operand behind those says are outside
    constant: int | None = None  # bits of all elements, whatever the operand holds


def is_large(ctx: Context, shape: Sequence[int], dtype: Dtype, width: int,
             least: int = SHORT) -> bool:
    """Whether a result of rows of a width is worth a kernel (not in loops that the host steps
    through: there IREE may free what a kernel reads, as lowering/passes/cost says)."""
    return (ctx.cpu and ctx.module is not None and not ctx.regions and is_static(shape)
            and dtype.itemsize in (1, 2, 4, 8) and width >= least
            and math.prod(shape) * dtype.itemsize >= LARGE and not off("moves"))


def concatenate(ctx: Context, xs: Sequence[Value], axis: int) -> Value | None:
    """The operands behind each other along an axis; None where IREE does it better: it computes
    operands in their places, so only those that are there already are worth moving."""
    first = xs[0]
    if not is_static(first.shape) or not all(is_static(x.shape) for x in xs):
        return None
    shape = (*first.shape[:axis], sum(x.shape[axis] for x in xs), *first.shape[axis + 1:])
    inner = math.prod(shape[axis + 1:])
    if not is_large(ctx, shape, first.dtype, min(x.shape[axis] for x in xs) * inner, NARROW):
        return None
    outer, to = math.prod(shape[:axis]), 0
    parts, sources = [], []
    for i, x in enumerate(xs):
        width = x.shape[axis] * inner
        source, start = _sliced(x, axis)
        if not (ctx.closing or _is_argument(source.ir)):
            return None
        sources.append(source)
        stride = width if source is x else source.shape[axis] * inner
        parts.append(Part(i, outer, width, start * inner, stride, to, shape[axis] * inner))
        to += width
    return _moved(ctx, "concatenate", sources, shape, parts)


def _sliced(x: Value, axis: int) -> tuple[Value, int]:
    """What x is a slice of, along the axis only, and where that starts; or x itself."""
    op = x.ir.owner
    if mlir.made_by(op) != "stablehlo.slice" or {*op.attributes["strides"]} != {1}:
        return x, 0
    shape = tuple(op.operands[0].type.shape)
    if any(n != m for i, (n, m) in enumerate(zip(shape, x.shape)) if i != axis):
        return x, 0
    return Value(x.b, op.operands[0], shape, x.dtype), list(op.attributes["start_indices"])[axis]


def _is_argument(value: Any) -> bool:
    """Whether a value is an argument of the program, perhaps in another shape."""
    while mlir.made_by(value.owner) in ("stablehlo.reshape", "stablehlo.broadcast_in_dim"):
        if math.prod(value.owner.operands[0].type.shape) != math.prod(value.type.shape):
            return False
        value = value.owner.operands[0]
    return not hasattr(value.owner, "name")


def _stays(ctx: Context, value: Any) -> bool:
    """Whether a value is an argument, perhaps in another shape, whose memory nobody writes to."""
    while mlir.made_by(value.owner) == "stablehlo.reshape":
        value = value.owner.operands[0]
    return any(value == v for v in ctx.aliases.fixed)


def reverse(ctx: Context, x: Value, axes: Sequence[int]) -> Value | None:
    """x with the order of some axes turned round; None where a kernel does not pay."""
    if not is_static(x.shape) or x in ctx.constants:
        return None
    merged: list[tuple[int, bool]] = []
    for i, n in enumerate(x.shape):
        if n == 1:
            continue
        if merged and merged[-1][1] == (i in axes):
            merged[-1] = (merged[-1][0] * n, i in axes)
        else:
            merged.append((n, i in axes))
    if not merged or not is_large(ctx, x.shape, x.dtype, merged[-1][0]):
        return None
    width, backwards = merged.pop()
    rows = math.prod(n for n, _ in merged)
    if len(merged) < 2:
        moved = _placed(ctx, x, width, lambda p: _turned(p, rows, width, backwards, bool(
            merged and merged[0][1])))
        if moved is not None:
            return _moved(ctx, "reverse", moved[0], x.shape, moved[1])
    part = Part(0, rows, width, 0, width, 0, width, backwards, tuple(merged))
    return _moved(ctx, "reverse", [x], x.shape, [part])


def pad(ctx: Context, x: Value, value: Any, config: Sequence[tuple[int, int, int]]
        ) -> Value | None:
    """x with a number around it; None where IREE does it better: it computes x in its place, so
    only what is there already is worth moving (1000 x 1000 f32 rolled, then padded by 2: 0.7 to
    0.2 ms)."""
    if not is_static(x.shape) or not _is_there(x.ir) or any(
            inside or not is_static((low, high)) or min(low, high) < 0
            for low, high, inside in config):
        return None
    axes = [i for i, (low, high, _) in enumerate(config) if low or high]
    shape = tuple(n + low + high for n, (low, high, _) in zip(x.shape, config))
    if not axes or len(axes) > 2 or len(axes) == 2 and (
            math.prod(x.shape[:axes[0]]) != 1 or math.prod(x.shape[axes[0] + 1:axes[1]]) != 1):
        return None
    inner = math.prod(shape[axes[-1] + 1:])
    left, right = (inner * n for n in config[axes[-1]][:2])
    width, line = x.shape[axes[-1]] * inner, shape[axes[-1]] * inner
    above, below = (line * n for n in config[axes[0]][:2]) if len(axes) == 2 else (0, 0)
    if not is_large(ctx, shape, x.dtype, width):
        return None
    rows, first, gap = math.prod(x.shape) // width, above + left, left + right
    bits = int(np.asarray(value).astype(x.dtype).view(f"i{x.dtype.itemsize}"))
    around = [(1, first, 0), (rows - 1, gap, first + width),
              (1, right + below, first + (rows - 1) * line + width)]  # (rows, width, start)
    moved = _placed(ctx, x, width, lambda p: replace(
        p, to=first + p.to // width * line + p.to % width, to_stride=p.to_stride // width * line))
    sources, parts = moved or ([x], [Part(0, rows, width, 0, width, first, line)])
    return _moved(ctx, "pad", sources, shape, [
        *parts, *[Part(0, n, w, 0, 0, to, line, constant=bits) for n, w, to in around if n and w]])


def _turned(p: Part, rows: int, width: int, backwards: bool, below: bool) -> Part:
    """Part of rows of a width, in the result that has each row turned round, or their order."""
    row, column = divmod(p.to, width)
    if below:
        row, p = rows - 1 - row, replace(p, to_stride=-p.to_stride)
    if backwards:
        column, p = width - column - p.width, replace(p, backwards=not p.backwards)
    return replace(p, to=row * width + column)


def _placed(ctx: Context, x: Value, width: int, place: Callable[[Part], Part]
            ) -> tuple[list[Value], list[Part]] | None:
    """From where x was moved, and its parts, cut into rows of a width, in their new places; None
    where x was not moved, or parts do not fit into rows."""
    sources, parts = ctx.moves.get(x, ([], []))
    cut = [_cut(p, width) for p in parts]
    if not sources or not all(cut):
        return None
    found = [place(q) for c in cut for q in c]
    return (sources, found) if len(found) <= MOST_PARTS else None


def _cut(p: Part, width: int) -> list[Part]:
    """A part as parts that lie within rows of a width each; none where that cannot be said."""
    column = p.to % width
    steady = p.rows == 1 or p.to_stride % width == 0
    if steady and column + p.width <= width:
        return [p]
    plain = p.constant is not None or not (p.backwards or p.order or p.picked)
    if not plain or not (p.rows == 1 or steady and p.constant is not None):
        return []
    head = min(p.width, (width - column) % width)
    count, tail = divmod(p.width - head, width)
    if p.rows > 1 and count:
        return []
    ahead = 0 if p.constant is not None else 1  # how far in the source
    pieces = [replace(p, width=head)] if head else []
    if count:
        pieces.append(replace(p, rows=count, width=width, start=p.start + ahead * head,
                              stride=ahead * width, to=p.to + head, to_stride=width))
    if tail:
        pieces.append(replace(p, width=tail, start=p.start + ahead * (head + count * width),
                              to=p.to + head + count * width))
    return pieces


def exchange(ctx: Context, x: Value, permutation: Sequence[int]) -> Value | None:
    """x with leading axes exchanged with those behind them, in long runs (what all_to_all is);
    None where IREE computes x, or runs are short."""
    n = len(permutation)
    while n and permutation[n - 1] == n - 1:
        n -= 1
    k = permutation[0] if n else 0
    if not n or list(permutation[:n]) != [*range(k, n), *range(k)] or not is_static(x.shape):
        return None
    first, second = math.prod(x.shape[:k]), math.prod(x.shape[k:n])
    width = math.prod(x.shape[n:])
    if width < 1024 or min(first, second) > 64 or not _is_there(x.ir):
        return None
    shape = tuple(x.shape[i] for i in permutation)
    if not is_large(ctx, shape, x.dtype, width):
        return None
    if first <= second:
        parts = [Part(0, second, width, i * second * width, width, i * width, first * width)
                 for i in range(first)]
    else:
        parts = [Part(0, first, width, j * width, second * width, j * first * width, width)
                 for j in range(second)]
    return _moved(ctx, "exchange", [x], shape, parts)


def _is_there(value: Any) -> bool:
    """Whether a value is an argument of the program or what a kernel of ours made."""
    while mlir.made_by(value.owner) in (
            "stablehlo.reshape", "stablehlo.bitcast_convert", "flow.tensor.bitcast"):
        value = value.owner.operands[0]
    return mlir.made_by(value.owner) in ("flow.dispatch", None)


def pick(ctx: Context, x: Value, ids: Value, inside: Value | None = None, fill: Any = 0
         ) -> Value | None:
    """x[ids] for x (rows, width) and ids (count,) that are inside; `fill` where `inside` (count,),
    if there is one, does not hold."""
    if not is_static(ids.shape):
        return None
    shape = (ids.shape[0], x.shape[1])
    if not is_static(x.shape) or not is_large(ctx, shape, x.dtype, shape[1]):
        return None
    bits = None
    if inside is not None:
        word = np.asarray(fill).astype(x.dtype).view(f"i{x.dtype.itemsize}")
        bits = int(word)
    part = Part(0, shape[0], shape[1], 0, shape[1], 0, shape[1], picked=True, fill=bits)
    return _moved(ctx, "pick", [x, ids, *([] if inside is None else [inside])], shape, [part])


def around(ctx: Context, x: Value, how: Edges, shape: Shape) -> Value | None:
    """x with edges around it; None where that is no work for a kernel."""
    if not is_large(ctx, shape, x.dtype, how.wide):
        return None
    ctx.kernels += 1
    name, bits = f"edges_{ctx.kernels}", 8 * x.dtype.itemsize
    total, count = math.prod(shape), len(how.source)
    lines = ctx.b.constant(np.array(how.source, np.int32))
    groups = max(1, min(GROUPS, total // WORTH, count))
    source, target = f"memref<{math.prod(x.shape)}xi{bits}>", f"memref<{total}xi{bits}>"
    refs = [f"%m{i} = stream.binding.subspan %b{i}[%c0] : !stream.binding -> {kind}"
            for i, kind in enumerate((source, f"memref<{count}xi32>", target))]
    body = "".join(_run_around(i, run, how.inner, bits, source, target)
                   for i, run in enumerate(how.runs))
    insert(ctx.module, executable(name, 3, groups, f"""{chr(10).join(refs)}
      %next = arith.addi %group, %c1 : index
      %count = arith.constant {count} : index
      %a = arith.muli %group, %count : index
      %b = arith.muli %next, %count : index
      %first = arith.divui %a, %groups : index
      %last = arith.divui %b, %groups : index
      %width = arith.constant {how.width} : index
      %wide = arith.constant {how.wide} : index
      scf.for %row = %first to %last step %c1 {{
        %id = memref.load %m1[%row] : memref<{count}xi32>
        %line = arith.index_cast %id : i32 to index
        %from = arith.muli %line, %width : index
        %to = arith.muli %row, %wide : index
        {body}
      }}"""))
    return dispatch(ctx, "move", name, [x, lines], [(shape, x.dtype)], groups=groups)[0]


def _run_around(i: int, run: tuple[int, int, int, int], inner: int, bits: int, source: str,
                target: str) -> str:
    """A run of elements of a row: by vectors, the last of which ends with it, where they lie as
    they did, else number by number."""
    to, start, count, step = run
    size = count * inner
    lanes = min(512 // bits, 1 << (size.bit_length() - 1))
    if step != 1 and count > 1:  # elements one after another
        return f"""
        %n{i} = arith.constant {count} : index
        %k{i} = arith.constant {inner} : index
        %d{i} = arith.constant {to * inner} : index
        %e{i} = arith.constant {start * inner} : index
        %g{i} = arith.constant {step * inner} : index
        scf.for %j = %c0 to %n{i} step %c1 {{
          %p = arith.muli %j, %k{i} : index
          %q = arith.muli %j, %g{i} : index
          %ahead = arith.addi %p, %d{i} : index
          %behind = arith.addi %q, %e{i} : index
          %there = arith.addi %ahead, %to : index
          %here = arith.addi %behind, %from : index
          scf.for %c = %c0 to %k{i} step %c1 {{
            %get = arith.addi %here, %c : index
            %put = arith.addi %there, %c : index
            %x = memref.load %m0[%get] : {source}
            memref.store %x, %m2[%put] : {target}
          }}
        }}"""
    return f"""
        %n{i} = arith.constant {-(-size // lanes) * lanes} : index
        %l{i} = arith.constant {lanes} : index
        %z{i} = arith.constant {size - lanes} : index
        %d{i} = arith.constant {to * inner} : index
        %e{i} = arith.constant {start * inner} : index
        %p{i} = arith.addi %to, %d{i} : index
        %q{i} = arith.addi %from, %e{i} : index
        scf.for %v = %c0 to %n{i} step %l{i} {{
          %j = arith.minui %v, %z{i} : index
          %q = arith.addi %q{i}, %j : index
          %p = arith.addi %p{i}, %j : index
          %x = vector.load %m0[%q] : {source}, vector<{lanes}xi{bits}>
          vector.store %x, %m2[%p] : {target}, vector<{lanes}xi{bits}>
        }}"""


def _moved(ctx: Context, what: str, xs: Sequence[Value], shape: Shape,
           parts: Sequence[Part]) -> Value:
    parts = [p for p in parts if p.rows and p.width]
    ctx.kernels += 1
    name = f"{what}_{ctx.kernels}"
    total = math.prod(shape)
    groups = max(1, min(GROUPS, total // WORTH))
    insert(ctx.module, _executable(name, [(math.prod(x.shape), 8 * x.dtype.itemsize) for x in xs],
                                   (total, 8 * xs[0].dtype.itemsize), parts, groups))
    made = dispatch(ctx, "move", name, xs, [(shape, xs[0].dtype)], groups=groups)[0]
    # only of arguments that stay as they are: others may be gone when they are read later
    if all(_stays(ctx, x.ir) for x in xs) and not any(p.picked for p in parts):
        ctx.moves[made] = list(xs), list(parts)
    return made


def _executable(name: str, operands: Sequence[tuple[int, int]], result: tuple[int, int],
                parts: Sequence[Part], groups: int) -> str:
    arrays = [*operands, result]
    refs = [f"%m{i} = stream.binding.subspan %b{i}[%c0] : !stream.binding -> memref<{n}xi{w}>"
            for i, (n, w) in enumerate(arrays)]
    return executable(name, len(arrays), groups, f"""{chr(10).join(refs)}
      %next = arith.addi %group, %c1 : index
      {chr(10).join(_runs(p, f"p{i}", arrays) for i, p in enumerate(parts))}""")


def _runs(p: Part, tag: str, arrays: Sequence[tuple[int, int]]) -> str:
    """The workgroup's share of the runs of a part."""
    size, bits = arrays[p.operand]
    out = len(arrays) - 1
    source, target = f"memref<{size}xi{bits}>", f"memref<{arrays[out][0]}xi{bits}>"
    lanes = max(1, min(512 // bits, 1 << (p.width.bit_length() - 1)))
    vector = f"vector<{lanes}xi{bits}>"
    chunks = -(-p.width // RUN)
    turn = (f"%y = vector.shuffle %x, %x {list(range(lanes - 1, -1, -1))} : {vector}, {vector}"
            if p.backwards else "")
    single = several = ""
    if p.constant is not None:
        single = f"%x = arith.constant {p.constant} : i{bits}"
        several = f"%x = arith.constant dense<{p.constant}> : {vector}"
    at = "%far = arith.subi %turned, %j : index" if p.backwards else ""
    return f"""
      %{tag}items = arith.constant {p.rows * chunks} : index
      %{tag}a = arith.muli %group, %{tag}items : index
      %{tag}b = arith.muli %next, %{tag}items : index
      %{tag}first = arith.divui %{tag}a, %groups : index
      %{tag}last = arith.divui %{tag}b, %groups : index
      scf.for %item = %{tag}first to %{tag}last step %c1 {{
        %chunks = arith.constant {chunks} : index
        %run = arith.constant {RUN} : index
        %width = arith.constant {p.width} : index
        %lanes = arith.constant {lanes} : index
        %row = arith.divui %item, %chunks : index
        %chunk = arith.remui %item, %chunks : index
        %begin = arith.muli %chunk, %run : index
        %rest = arith.subi %width, %begin : index
        %length = arith.minui %rest, %run : index
        {_row(p, arrays)}
        %stride = arith.constant {p.stride} : index
        %start = arith.constant {p.start} : index
        %s0 = arith.muli %from, %stride : index
        %s1 = arith.addi %s0, %start : index
        %s = arith.addi %s1, %begin : index
        %to_stride = arith.constant {p.to_stride} : index
        %to = arith.constant {p.to} : index
        %d0 = arith.muli %row, %to_stride : index
        %d1 = arith.addi %d0, %to : index
        %d = arith.addi %d1, %begin : index
        %whole = arith.divui %length, %lanes : index
        %vectors = arith.muli %whole, %lanes : index
        %end = arith.addi %s1, %rest : index
        %turned = arith.subi %end, %lanes : index
        %single = arith.subi %end, %c1 : index
        {_filled(p, arrays, vector, target)}
        scf.for %j = %c0 to %vectors step %lanes {{
          {at or "%far = arith.addi %s, %j : index"}
          {several or f"%x = vector.load %m{p.operand}[%far] : {source}, {vector}"}
          {turn}
          %k = arith.addi %d, %j : index
          vector.store {"%y" if p.backwards else "%x"}, %m{out}[%k] : {target}, {vector}
        }}
        scf.for %j = %vectors to %length step %c1 {{
          {at.replace("%turned", "%single") or "%far = arith.addi %s, %j : index"}
          {single or f"%x = memref.load %m{p.operand}[%far] : {source}"}
          %k = arith.addi %d, %j : index
          memref.store %x, %m{out}[%k] : {target}
        }}
        {"}" if p.fill is not None else ""}
      }}"""


def _filled(p: Part, arrays: Sequence[tuple[int, int]], vector: str, target: str) -> str:
    """The run where its row is outside; what follows is where it is not."""
    if p.fill is None:
        return ""
    asked, out = p.operand + 2, len(arrays) - 1
    bits = arrays[out][1]
    return f"""%byte = memref.load %m{asked}[%row] : memref<{arrays[asked][0]}xi8>
        %zero = arith.constant 0 : i8
        %outside = arith.cmpi eq, %byte, %zero : i8
        scf.if %outside {{
          %word = arith.constant {p.fill} : i{bits}
          %words = vector.broadcast %word : i{bits} to {vector}
          scf.for %j = %c0 to %vectors step %lanes {{
            %k = arith.addi %d, %j : index
            vector.store %words, %m{out}[%k] : {target}, {vector}
          }}
          scf.for %j = %vectors to %length step %c1 {{
            %k = arith.addi %d, %j : index
            memref.store %word, %m{out}[%k] : {target}
          }}
        }} else {{"""


def _row(p: Part, arrays: Sequence[tuple[int, int]]) -> str:
    """%from: the row of the operand that becomes %row of the result."""
    if p.picked:
        size, bits = arrays[p.operand + 1]
        return f"""%id = memref.load %m{p.operand + 1}[%row] : memref<{size}xi{bits}>
        %from = arith.index_cast %id : i{bits} to index"""
    lines, rest, total = [], "%row", "%c0"
    for i, (n, backwards) in reversed(list(enumerate(p.order))):
        below = math.prod(k for k, _ in p.order[i + 1:])
        lines.append(f"""%n{i} = arith.constant {n} : index
        %e{i} = arith.constant {n - 1} : index
        %i{i} = arith.remui {rest}, %n{i} : index
        %q{i} = arith.divui {rest}, %n{i} : index
        %r{i} = arith.subi %e{i}, %i{i} : index
        %w{i} = arith.constant {below} : index
        %t{i} = arith.muli {"%r" if backwards else "%i"}{i}, %w{i} : index
        %f{i} = arith.addi {total}, %t{i} : index""")
        rest, total = f"%q{i}", f"%f{i}"
    if not lines:
        return "%from = arith.addi %row, %c0 : index"
    return "\n        ".join([*lines, f"%from = arith.addi {total}, %c0 : index"])


AliasAnalysis.joined = staticmethod(concatenate)
