"""The order of rows of keys as one dispatch of a kernel written here.

A row's positions are sorted by its keys (unsigned integers), stably: short rows by insertion, long
ones by counting digits from the lowest up (LSD radix sort: Knuth 5.2.5); a digit that all keys
share costs one counting pass.  Where few of many are wanted, two countings of the highest digits
leave only positions that can be among them.  Rows are spread over workgroups.  Start reading at
`emit_order`.
"""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from calque.core.dims import is_static
from calque.lowering.emit.builder import Value
from calque.lowering.emit.context import Context
from calque.lowering.emit.dtypes import I32
from calque.lowering.kernels.dispatch import dispatch, executable, insert

INSERTION = 32  # rows up to this are sorted by insertion
WIDE_DIGITS = 4096  # rows from this on have digits of 11 bits, others of 8
GROUPS = 64  # workgroups that rows are spread over at most
FEW = 4  # positions are selected first where at most one in four is wanted
WORTH = 4096  # elements that a workgroup should have


def emit_order(ctx: Context, keys: Sequence[Value], k: int) -> Value:
    """For keys (rows, n): the first k positions in ascending order, equal ones in theirs; int32."""
    b = ctx.b
    rows, n = keys[0].shape
    ctx.kernels += 1
    name = f"sort_{ctx.kernels}"
    widths = [8 * k.dtype.itemsize for k in keys]
    if not is_static(keys[0].shape):
        return _order_of_any(ctx, name, keys, widths, k)
    groups = max(1, min(GROUPS, rows, rows * n // WORTH))
    insert(ctx.module, _executable(name, widths, rows, n, k, groups))
    kind, short = I32, n <= INSERTION
    width = n if short else k
    results = [((rows, width), kind)] + ([] if short else [((rows, 2 * n), kind)])
    order = dispatch(ctx, "sort", name, keys, results, groups=groups)[0]
    return order if width == k else b.slice(order, (0, 0), (rows, k))


class _Any:
    """A number in the text of a kernel that is an argument of it: MLIR's `?`."""

    def __str__(self) -> str:
        return "?"

    def __mul__(self, other: Any) -> _Any:
        return self

    __rmul__ = __mul__


def _order_of_any(ctx: Context, name: str, keys: Sequence[Value], widths: Sequence[int],
                  k: Any) -> Value:
    """emit_order for sizes that are known at the call only: the numbers are arguments."""
    rows, n = keys[0].shape
    insert(ctx.module, _executable_of_any(name, widths))
    kind = I32
    return dispatch(ctx, "sort", name, keys, [((rows, k), kind), ((rows, 2 * n), kind)],
                    sizes=[rows, n, k])[0]


def _executable_of_any(name: str, widths: Sequence[int]) -> str:
    anything, at = _Any(), len(widths)
    refs = [f"%k{i} = stream.binding.subspan %b{i}[%c0] : !stream.binding -> "
            f"memref<?xi{w}>{{%total}}" for i, w in enumerate(widths)]
    return executable(name, at + 2, GROUPS, f"""%any = arith.cmpi ugt, %n, %c0 : index
      %rows = arith.select %any, %all_rows, %c0 : index
      %each = arith.ceildivui %rows, %groups : index
      %total = arith.muli %all_rows, %n : index
      %double = arith.addi %total, %total : index
      %results = arith.muli %all_rows, %k : index
      {chr(10).join(refs)}
      %out = stream.binding.subspan %b{at}[%c0] : !stream.binding -> memref<?xi32>{{%results}}
      %work = stream.binding.subspan %b{at + 1}[%c0] : !stream.binding -> memref<?xi32>{{%double}}
      %counts = memref.alloca() : memref<{1 << _digits(0)}xi32>
      {_rows(_radix(widths, 0, 0, anything, any_size=True))}""",
                      ", %all_rows: index, %n: index, %k: index")


def _rows(body: str) -> str:
    """A loop over the workgroup's rows, %each of them."""
    return f"""%first = arith.muli %group, %each : index
      %last = arith.addi %first, %each : index
      %end = arith.minsi %last, %rows : index
      scf.for %row = %first to %end step %c1 {{
        %base = arith.muli %row, %n : index
        {body}
      }}"""


def _executable(name: str, widths: Sequence[int], rows: int, n: int, k: int,
                groups: int) -> str:
    short = n <= INSERTION
    count = len(widths) + (1 if short else 2)
    total = rows * n
    refs = [f"%k{i} = stream.binding.subspan %b{i}[%c0] : !stream.binding -> memref<{total}xi{w}>"
            for i, w in enumerate(widths)]
    at = len(widths)
    refs.append(f"%out = stream.binding.subspan %b{at}[%c0] : !stream.binding -> "
                f"memref<{rows * (n if short else k)}xi32>")
    if not short:
        refs.append(f"%work = stream.binding.subspan %b{at + 1}[%c0] : !stream.binding -> "
                    f"memref<{2 * total}xi32>")
        refs.append(f"%counts = memref.alloca() : memref<{1 << _digits(n)}xi32>")
    body = _insertion(widths, total) if short else _radix(widths, n, k, total)
    each = -(-rows // groups)
    return executable(name, count, groups, f"""%n = arith.constant {n} : index
      %rows = arith.constant {rows} : index
      %each = arith.constant {each} : index
      {chr(10).join(refs)}
      {_rows(body)}""")


def _insertion(widths: Sequence[int], total: int) -> str:
    """Each position moves down over those with larger keys."""
    loads = []
    for i, w in enumerate(widths):
        loads.append(f"""
            %p{i} = memref.load %k{i}[%there] : memref<{total}xi{w}>
            %q{i} = memref.load %k{i}[%here] : memref<{total}xi{w}>
            %more{i} = arith.cmpi ugt, %p{i}, %q{i} : i{w}
            %same{i} = arith.cmpi eq, %p{i}, %q{i} : i{w}""")
    last = len(widths) - 1
    chain = f"%larger{last} = arith.cmpi ugt, %p{last}, %q{last} : i{widths[last]}"
    for i in reversed(range(last)):
        chain += f"""
            %tie{i} = arith.andi %same{i}, %larger{i + 1} : i1
            %larger{i} = arith.ori %more{i}, %tie{i} : i1"""
    return f"""
        scf.for %i = %c0 to %n step %c1 {{
          %here = arith.addi %base, %i : index
          %own = arith.index_cast %i : index to i32
          %place = scf.while (%j = %i) : (index) -> index {{
            %inside = arith.cmpi ugt, %j, %c0 : index
            %go = scf.if %inside -> i1 {{
              %before = arith.subi %j, %c1 : index
              %slot = arith.addi %base, %before : index
              %p = memref.load %out[%slot] : memref<{total}xi32>
              %pi = arith.index_cast %p : i32 to index
              %there = arith.addi %base, %pi : index
              {"".join(loads)}
              {chain}
              scf.yield %larger0 : i1
            }} else {{
              %no = arith.constant false
              scf.yield %no : i1
            }}
            scf.condition(%go) %j : index
          }} do {{
          ^bb0(%j: index):
            %before = arith.subi %j, %c1 : index
            %slot = arith.addi %base, %before : index
            %p = memref.load %out[%slot] : memref<{total}xi32>
            %to = arith.addi %base, %j : index
            memref.store %p, %out[%to] : memref<{total}xi32>
            scf.yield %before : index
          }}
          %target = arith.addi %base, %place : index
          memref.store %own, %out[%target] : memref<{total}xi32>
        }}"""


def _digits(n: int) -> int:
    return 11 if n >= WIDE_DIGITS else 8


def _radix(widths: Sequence[int], n: int, k: int, total: Any, any_size: bool = False) -> str:
    """Digits from the lowest of the last key to the highest of the first one.

    The positions lie in one half of a row's scratch and go to the other; `src` says which half.
    """
    digits = _digits(n)
    buckets = 1 << digits
    rows = total if any_size else total // n
    few = not any_size and len(widths) == 1 and FEW * k <= n
    text = f"""
        %zero = arith.constant 0 : i32
        %one = arith.constant 1 : i32
        %buckets = arith.constant {buckets} : index
        %wbase = arith.addi %base, %base : index
        {_selection(widths[0], n, k, total) if few else _everything(total)}
        %m32 = arith.index_cast %m : index to i32
        %src{len(widths)} = arith.constant 0 : index"""
    for i in reversed(range(len(widths))):
        text += _passes(i, widths[i], digits, total, few)
    wanted = f"%wanted = arith.{'addi %k, %c0' if any_size else f'constant {k}'} : index"
    return text + f"""
        %from = arith.addi %wbase, %src0 : index
        {wanted}
        %obase = arith.muli %row, %wanted : index
        scf.for %i = %c0 to %wanted step %c1 {{
          %w = arith.addi %from, %i : index
          %p = memref.load %work[%w] : memref<{2 * total}xi32>
          %o = arith.addi %obase, %i : index
          memref.store %p, %out[%o] : memref<{rows * k}xi32>
        }}"""


def _everything(total: Any) -> str:
    """All positions, in order."""
    return f"""
        scf.for %i = %c0 to %n step %c1 {{
          %own = arith.index_cast %i : index to i32
          %w = arith.addi %wbase, %i : index
          memref.store %own, %work[%w] : memref<{2 * total}xi32>
        }}
        %m = arith.addi %n, %c0 : index"""


def _selection(width: int, n: int, k: int, total: int) -> str:
    """Positions in order whose keys do not exceed the k-th one in its highest digits."""
    digits = min(_digits(n), width)
    high = width - digits
    low = max(0, high - digits)
    counts, key = f"memref<{1 << _digits(n)}xi32>", f"memref<{total}xi{width}>"

    def value(shift: str, name: str) -> str:
        return f"""
            %e = arith.addi %base, %i : index
            %v = memref.load %k0[%e] : {key}
            {name}_s = arith.shrui %v, {shift} : i{width}
            {name} = arith.index_castui {name}_s : i{width} to index"""

    def cut(level: int, wanted: str) -> str:
        """The digit of the wanted-th key, and how many keys lie below it."""
        return f"""
        %cut{level}, %below{level}, %all{level} = scf.for %i = %c0 to %buckets step %c1
            iter_args(%at = %c0, %under = %zero, %sum = %zero) -> (index, i32, i32) {{
          %c = memref.load %counts[%i] : {counts}
          %next = arith.addi %sum, %c : i32
          %early = arith.cmpi slt, %sum, {wanted} : i32
          %late = arith.cmpi sge, %next, {wanted} : i32
          %here = arith.andi %early, %late : i1
          %at2 = arith.select %here, %i, %at : index
          %under2 = arith.select %here, %sum, %under : i32
          scf.yield %at2, %under2, %next : index, i32, i32
        }}"""

    clear = f"""
        scf.for %i = %c0 to %buckets step %c1 {{
          memref.store %zero, %counts[%i] : {counts}
        }}"""
    count = f"""
            %c = memref.load %counts[%d] : {counts}
            %c2 = arith.addi %c, %one : i32
            memref.store %c2, %counts[%d] : {counts}"""
    text = f"""
        %high = arith.constant {high} : i{width}
        %low = arith.constant {low} : i{width}
        %k32 = arith.constant {k} : i32
        {clear}
        scf.for %i = %c0 to %n step %c1 {{
            {value("%high", "%d")}
            {count}
        }}
        {cut(1, "%k32")}"""
    if high:
        text += f"""
        %rest = arith.subi %k32, %below1 : i32
        %span = arith.constant {1 << (high - low)} : index
        %floor = arith.muli %cut1, %span : index
        {clear}
        scf.for %i = %c0 to %n step %c1 {{
            {value("%low", "%u")}
            %d = arith.subi %u, %floor : index
            %inside = arith.cmpi ult, %d, %span : index
            scf.if %inside {{
              {count}
            }}
        }}
        {cut(2, "%rest")}
        %limit = arith.addi %floor, %cut2 : index"""
    else:
        text += """
        %limit = arith.addi %cut1, %c0 : index"""
    return text + f"""
        %m = scf.for %i = %c0 to %n step %c1 iter_args(%found = %c0) -> (index) {{
            {value("%low", "%u")}
            %own = arith.index_cast %i : index to i32
            %w = arith.addi %wbase, %found : index
            memref.store %own, %work[%w] : memref<{2 * total}xi32>
            %take = arith.cmpi ule, %u, %limit : index
            %more = arith.addi %found, %c1 : index
            %now = arith.select %take, %more, %found : index
            scf.yield %now : index
        }}"""


def _passes(k: int, width: int, digits: int, total: Any, few: bool) -> str:
    """All digits of key k, of the positions at hand (all: counted where they lie)."""
    key, work = f"memref<{total}xi{width}>", f"memref<{2 * total}xi32>"
    counts = f"memref<{1 << digits}xi32>"
    passes = -(-width // digits)
    mask = (1 << min(digits, width)) - 1
    mask = mask if mask < 1 << (width - 1) else mask - (1 << width)

    place = f"""
            %w = arith.addi %from, %i : index
            %p = memref.load %work[%w] : {work}
            %pi = arith.index_cast %p : i32 to index
            %e = arith.addi %base, %pi : index""" if few else """
            %e = arith.addi %base, %i : index"""

    def digit(value: str, result: str) -> str:
        cast = (f"{result} = arith.index_castui {result}_m : i{width} to index")
        return f"""
            {result}_s = arith.shrui {value}, %shift{k} : i{width}
            {result}_m = arith.andi {result}_s, %mask{k} : i{width}
            {cast}"""

    return f"""
        %mask{k} = arith.constant {mask} : i{width}
        %step{k} = arith.constant {digits} : index
        %passes{k} = arith.constant {passes} : index
        %src{k} = scf.for %pass = %c0 to %passes{k} step %c1 iter_args(%src = %src{k + 1})
            -> (index) {{
          %at = arith.muli %pass, %step{k} : index
          %shift{k} = arith.index_cast %at : index to i{width}
          scf.for %i = %c0 to %buckets step %c1 {{
            memref.store %zero, %counts[%i] : {counts}
          }}
          %from = arith.addi %wbase, %src : index
          scf.for %i = %c0 to %m step %c1 {{
            {place}
            %v = memref.load %k{k}[%e] : {key}
            {digit("%v", "%d")}
            %c = memref.load %counts[%d] : {counts}
            %c2 = arith.addi %c, %one : i32
            memref.store %c2, %counts[%d] : {counts}
          }}
          %p0 = memref.load %work[%from] : {work}
          %pi0 = arith.index_cast %p0 : i32 to index
          %e0 = arith.addi %base, %pi0 : index
          %v0 = memref.load %k{k}[%e0] : {key}
          {digit("%v0", "%d0")}
          %most = memref.load %counts[%d0] : {counts}
          %shared = arith.cmpi eq, %most, %m32 : i32
          %next = scf.if %shared -> index {{
            scf.yield %src : index
          }} else {{
            %all = scf.for %i = %c0 to %buckets step %c1 iter_args(%sum = %zero) -> (i32) {{
              %c = memref.load %counts[%i] : {counts}
              memref.store %sum, %counts[%i] : {counts}
              %more = arith.addi %sum, %c : i32
              scf.yield %more : i32
            }}
            %dst = arith.subi %n, %src : index
            %to = arith.addi %wbase, %dst : index
            scf.for %i = %c0 to %m step %c1 {{
              %w = arith.addi %from, %i : index
              %p = memref.load %work[%w] : {work}
              %pi = arith.index_cast %p : i32 to index
              %e = arith.addi %base, %pi : index
              %v = memref.load %k{k}[%e] : {key}
              {digit("%v", "%d")}
              %c = memref.load %counts[%d] : {counts}
              %c2 = arith.addi %c, %one : i32
              memref.store %c2, %counts[%d] : {counts}
              %place = arith.index_cast %c : i32 to index
              %slot = arith.addi %to, %place : index
              memref.store %p, %work[%slot] : {work}
            }}
            scf.yield %dst : index
          }}
          scf.yield %next : index
        }}"""
