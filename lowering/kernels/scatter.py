"""The loop of a scatter over rows, written by hand with memref ops.

IREE writes scatter's rows element by element and wherever the indices point; this loop drops rows
outside, moves a row by vectors (four times as fast at 64 columns) and keeps the order of the
updates.  Rows may repeat, so that workgroups share columns, where these are many.  CPU targets
only; the portable form is in lowering/rules/scatter.py.
"""
from __future__ import annotations

from typing import Any

from calque.core.dims import is_static
from calque.lowering.emit import mlir
from calque.lowering.emit.builder import Value
from calque.lowering.emit.context import Context
from calque.lowering.emit.dtypes import F32, F64
from calque.lowering.kernels.dispatch import dispatch, executable

VECTOR_BYTES = 64
COLUMNS = 256  # that a workgroup has at least,
GROUPS, LARGE = 4, 1 << 17  # and workgroups at most; of so many elements that are written

_JOINS = {"add": ("addf", "addi", "addi"), "sub": ("subf", "subi", "subi"),
          "mul": ("mulf", "muli", "muli"), "min": ("minimumf", "minsi", "minui"),
          "max": ("maximumf", "maxsi", "maxui")}


def _join(op: str, kind: str, type_: str) -> str:
    """%s from the old %a and the new %b; kind is f, i or u."""
    if op == "set":
        return ""
    return f"%s = arith.{_JOINS[op]['fiu'.index(kind)]} %a, %b : {type_}"


def _inner(op: str, kind: str, element: str, rows: Any, width: Any, count: Any, lanes: int) -> str:
    """The loop over a workgroup's part of one row: by vectors, then what is left one by one."""
    x, u = f"memref<{rows}x{width}x{element}>", f"memref<{count}x{width}x{element}>"
    result = "%b" if op == "set" else "%s"
    parts = []
    steps = [(lanes, "%begin", "%whole")]
    if width == "?" or width % lanes:
        steps.append((1, "%whole", "%end"))
    for n, first, last in steps:
        t, ops, end = element, "memref", ""
        if n > 1:
            t = f"vector<{n}x{element}>"
            ops, end = "vector", f", {t}"
        old = f"%a = {ops}.load %x[%r, %w] : {x}{end}" if op != "set" else ""
        parts.append(f"""
            %s{n} = arith.constant {n} : index
            scf.for %w = {first} to {last} step %s{n} {{
              {old}
              %b = {ops}.load %u[%k, %w] : {u}{end}
              {_join(op, kind, t)}
              {ops}.store {result}, %x[%r, %w] : {x}{end}
            }}""")
    return "".join(parts)


def _pairs(op: str, element: str, rows: Any, width: Any, count: Any) -> str:
    """The loop over one row of complex numbers, each two elements."""
    x, u = f"memref<{rows}x{width}x{element}>", f"memref<{count}x{width}x{element}>"
    if op == "mul":
        body = f"""
              %p = arith.mulf %ar, %br : {element}
              %q = arith.mulf %ai, %bi : {element}
              %re = arith.subf %p, %q : {element}
              %v = arith.mulf %ar, %bi : {element}
              %z = arith.mulf %ai, %br : {element}
              %im = arith.addf %v, %z : {element}"""
    else:  # by real part, then imaginary part; NaN stays
        order = "olt" if op == "min" else "ogt"
        body = f"""
              %better = arith.cmpf {order}, %br, %ar : {element}
              %equal = arith.cmpf oeq, %br, %ar : {element}
              %second = arith.cmpf {order}, %bi, %ai : {element}
              %tie = arith.andi %equal, %second : i1
              %nan = arith.cmpf uno, %br, %bi : {element}
              %either = arith.ori %better, %tie : i1
              %old = arith.cmpf ord, %ar, %ai : {element}
              %want = arith.ori %either, %nan : i1
              %take = arith.andi %want, %old : i1
              %re = arith.select %take, %br, %ar : {element}
              %im = arith.select %take, %bi, %ai : {element}"""
    return f"""
            %two = arith.constant 2 : index
            %one = arith.constant 1 : index
            scf.for %w = %c0 to %width step %two {{
              %w1 = arith.addi %w, %one : index
              %ar = memref.load %x[%r, %w] : {x}
              %ai = memref.load %x[%r, %w1] : {x}
              %br = memref.load %u[%k, %w] : {u}
              %bi = memref.load %u[%k, %w1] : {u}
              {body}
              memref.store %re, %x[%r, %w] : {x}
              memref.store %im, %x[%r, %w1] : {x}
            }}"""


def _groups(count: Any, width: Any, pairs: bool) -> int:
    """How many workgroups there are."""
    if pairs or not is_static((count, width)) or count * width < LARGE:
        return 1
    groups = max(1, min(GROUPS, width // COLUMNS))
    return groups + groups % 2 if groups > 1 else 1  # (of three two cores take two and one)


def _kernel(name: str, op: str, kind: str, element: str, index: str, rows: Any, limit: int,
            width: Any, count: Any, lanes: int, pairs: bool, groups: int) -> str:
    inner = _pairs(op, element, rows, width, count) if pairs else _inner(
        op, kind, element, rows, width, count, lanes)
    any_size = count == "?"  # sizes are arguments then
    any_width = width == "?"
    more = ", %rows: index, %count: index" if any_size else ""
    of_count, of_rows = ("%count", "%rows") if any_size else ("", "")
    numbers = f"%limit = arith.index_cast %rows : index to {index}" if any_size else (
        f"%count = arith.constant {count} : index\n"
        f"        %limit = arith.constant {limit} : {index}")
    if any_width:
        more += ", %width: index"
    else:
        numbers += f"\n        %width = arith.constant {width} : index"
    part = "%width"
    if groups > 1:
        part, each = "%part", -(-width // groups // lanes) * lanes
        numbers += f"\n        %part = arith.constant {each} : index"
    wide = ", %width" if any_width else ""
    of_rows, of_count = (f"{{{n}{wide}}}" if n else "" for n in (of_rows, of_count))
    of_ids = "{%count}" if any_size else ""
    return executable(name, 3, groups, f"""
      {numbers}
      %lanes = arith.constant {lanes} : index
      %before = arith.muli %group, {part} : index
      %begin = arith.minui %before, %width : index
      %behind = arith.addi %begin, {part} : index
      %end = arith.minui %behind, %width : index
      %span = arith.subi %end, %begin : index
      %left = arith.remui %span, %lanes : index
      %whole = arith.subi %end, %left : index
      %i = stream.binding.subspan %b0[%c0] : !stream.binding -> memref<{count}x{index}>{of_ids}
      %u = stream.binding.subspan %b1[%c0]
        : !stream.binding -> memref<{count}x{width}x{element}>{of_count}
      %x = stream.binding.subspan %b2[%c0]
        : !stream.binding -> memref<{rows}x{width}x{element}>{of_rows}
      scf.for %k = %c0 to %count step %c1 {{
        %id = memref.load %i[%k] : memref<{count}x{index}>
        %inside = arith.cmpi ult, %id, %limit : {index}
        scf.if %inside {{
          %r = arith.index_cast %id : {index} to index
          {inner}
        }}
      }}""", more)


def _enclosing_module() -> Any:
    op = mlir.ir().InsertionPoint.current.block.owner
    while op.operation.name != "builtin.module":
        op = op.operation.parent
    return op


def _declare(name: str, text: str) -> None:
    """The kernel in the module that is being written, once."""
    ir = mlir.ir()
    body = _enclosing_module().regions[0].blocks[0]
    for op in body.operations:
        if op.operation.name == "stream.executable" and (
                op.operation.attributes["sym_name"].value == name):
            return
    made = ir.Operation.parse(text, context=mlir.context())
    ir.InsertionPoint.at_block_begin(body).insert(made)


def scatter_rows(ctx: Context, x: Value, ids: Value, updates: Value, op: str, *,
                 limit: int | None = None, unsigned: bool = False, pairs: bool = False) -> Value:
    """x[ids[k]] = join(x[ids[k]], updates[k]) for k in order; x's memory is written.

    Args:
      x: (rows, width) of signed integers or floats of 32 or 64 bits.
      ids: (count,) of i32 or i64; rows outside [0, limit) are left out.
      updates: (count, width).
      op: set, add, sub, mul, min or max.
      limit: rows that may be written; all by default.
      unsigned: min and max read the integers as unsigned.
      pairs: neighbours along the width are complex numbers (mul, min, max).
    """
    rows, width = x.shape
    count = ids.shape[0]
    any_width = not is_static((width,))
    any_size = any_width or not is_static((rows, count))
    limit = rows if limit is None else limit
    element, index = mlir.element_name(x.dtype), mlir.element_name(ids.dtype)
    kind = "f" if x.dtype.kind == "f" else ("u" if unsigned else "i")
    lanes = VECTOR_BYTES // x.dtype.itemsize
    while not any_width and lanes > width:
        lanes //= 2
    sizes = f"{rows}_{limit}_{width}_{count}"
    if any_size:
        sizes = f"any_{'any' if any_width else width}"
    groups = _groups(count, width, pairs)
    name = f"scatter_{op}{'_pairs' if pairs else ''}_{kind}{element}_{index}_{sizes}"
    _declare(name, _kernel(
        name, op, kind, element, index, "?" if any_size else rows, limit,
        "?" if any_width else width, "?" if any_size else count, max(1, lanes), pairs, groups))
    assert x.dtype in (F32, F64) or x.dtype.kind == "i", x.dtype
    return dispatch(ctx, "scatter", name, [ids, updates, x], [(x.shape, x.dtype)], into=2,
                    groups=groups if groups > 1 else 0,
                    sizes=(rows, count, *[width] * any_width) if any_size else ())[0]
