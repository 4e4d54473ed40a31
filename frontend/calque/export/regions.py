"""What the small functions inside reduce, sort and scatter say: `add`, a comparison by some keys.

Start reading at `fold_of` and `order_of`.
"""
from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from calque.export.hlo import Block, Enum, Op, Value

_COMMUTATIVE = {"add", "multiply", "maximum", "minimum", "and", "or", "xor"}


def text_of(block: Block) -> str:
    """A region in one line, values by number: equal text, equal function."""
    names: dict[Value, str] = {}
    for a in block.arguments:
        names[a] = f"a{len(names)}"
    lines = []
    for op in block.ops:
        marks = [v.case if isinstance(v, Enum) else repr(v)
                 for _, v in sorted(op.attributes.items())]
        operands = ",".join(names.get(v, "?") for v in op.operands)
        for v in op.results:
            names[v] = f"v{len(names)}"
        made = ",".join(names[v] for v in op.results)
        extra = "{" + " ".join(marks) + "}" if marks else ""
        lines.append(f"{made}={op.name}({operands}){extra}")
    return "; ".join(lines)


_ARG = ("v4=compare(a0,a2){%s %s}; v5=compare(a0,a0){%s NE}; v6=or(v4,v5); "
        "v7=compare(a0,a2){%s EQ}; v8=compare(a1,a3){SIGNED LT}; v9=and(v7,v8); v10=or(v6,v9); "
        "v11=select(v6,a0,a2); v12=select(v10,a1,a3); =return(v11,v12)")
_ARGS = {_ARG % (kind, direction, kind, kind): name
         for kind in ("FLOAT", "SIGNED", "UNSIGNED")
         for direction, name in (("GT", "argmax"), ("LT", "argmin"))}
_COMPLEX = ("v2=real(a0); v3=real(a1); v4=compare(v2,v3){FLOAT EQ}; v5=compare(v2,v3){FLOAT %s}; "
            "v6=imag(a0); v7=imag(a1); v8=compare(v6,v7){FLOAT %s}; v9=select(v4,v8,v5); "
            "v10=select(v9,a0,a1); =return(v10)")
_WHOLE = {_COMPLEX % ("GT", "GT"): "maximum", _COMPLEX % ("LT", "LT"): "minimum",
          "=return(a1)": "second", "=return(a0)": "first"}


def fold_of(block: Block) -> str:
    """The operation of two arguments that a region is; '' for another."""
    whole = _WHOLE.get(text_of(block))
    if whole is not None:
        return whole
    if len(block.ops) != 2 or len(block.arguments) != 2 or len(block.ops[0].results) != 1:
        return ""
    op, back = block.ops
    if back.operands != op.results or op.attributes:
        return ""
    if op.operands == block.arguments:
        return op.name
    return op.name if op.operands == block.arguments[::-1] and op.name in _COMMUTATIVE else ""


def arg_of(block: Block) -> str:
    """argmax or argmin of (values, positions), as JAX writes them; '' for another."""
    return _ARGS.get(text_of(block), "")


def picks(block: Block) -> str:
    """ge or le: the region that says whether the first argument stays."""
    for direction, name in (("GE", "ge"), ("LE", "le")):
        if len(block.ops) == 2 and text_of(block).split("; ")[0].endswith(f" {direction}}}") and (
                block.ops[0].operands == block.arguments) and (
                block.ops[1].operands == block.ops[0].results):
            return name
    return ""


# ---- comparisons of sort
@dataclass(frozen=True, slots=True)
class Key:
    """Operand number, which part ('', 're', 'im'), descending, total order, one NaN and zero."""

    operand: int
    part: str
    descending: bool
    total: bool
    plain: bool


@dataclass(frozen=True, slots=True)
class _Operand:
    """An argument of the comparison: of which operand, left or right."""

    operand: int
    left: bool
    part: str = ""
    plain: bool = False


@dataclass(frozen=True, slots=True)
class _Test:
    """left < right, or > or ==, of one key; `then` decides where they are the same."""

    kind: str
    key: Key
    then: _Test | None = None


def order_of(block: Block) -> list[Key] | None:
    """The keys, the decisive one first; None where the comparison is of another form."""
    env: dict[Value, Any] = {a: _Operand(i // 2, i % 2 == 0)
                             for i, a in enumerate(block.arguments)}
    for op in block.ops:
        if op.name == "return":
            found = env.get(op.operands[0])
            return _keys(found) if len(op.operands) == 1 else None
        if len(op.results) != 1:
            return None
        env[op.results[0]] = _meaning(op, [env.get(v) for v in op.operands])
    return None


def _keys(test: Any) -> list[Key] | None:
    found = []
    while isinstance(test, _Test):
        if test.kind != "before":
            return None
        found.append(test.key)
        test = test.then
    return found if found and test is None else None


def _meaning(op: Op, xs: list[Any]) -> Any:
    if op.name in ("real", "imag") and isinstance(xs[0], _Operand):
        return _Operand(xs[0].operand, xs[0].left, op.name[:2])
    if op.name == "convert" and isinstance(xs[0], _Operand) and _widens(op):
        return xs[0]
    if op.name == "constant":
        return ("constant", np.asarray(op.attributes.get("value")))
    if op.name == "compare" and len(xs) == 2:
        return _comparison(op, *xs)
    if op.name == "select" and len(xs) == 3:
        return _choice(*xs)
    if op.name in ("and", "or") and len(xs) == 2:
        return _joined(op.name, *xs)
    return None


def _widens(op: Op) -> bool:
    """Whether a conversion keeps the order: 8-bit floats to f32."""
    narrow, wide = op.operands[0].dtype, op.results[0].dtype
    return narrow.itemsize == 1 and narrow.kind == "V" and wide == np.dtype("f4")


def _comparison(op: Op, x: Any, y: Any) -> Any:
    direction = op.attributes["comparison_direction"].case
    total = op.attributes["compare_type"].case == "TOTALORDER"
    if not isinstance(x, _Operand):
        return None
    if not isinstance(y, _Operand):  # x == 0, of values captured too: a known number or none
        return ("zero", x) if direction == "EQ" else None
    if x == y:
        return ("nan", x) if direction == "NE" else None
    if (x.operand, x.part, x.plain) != (y.operand, y.part, y.plain) or x.left == y.left:
        return None
    descending = (direction == "GT") == x.left
    key = Key(x.operand, x.part, descending and direction != "EQ", total, x.plain)
    if direction == "EQ":
        return _Test("same", key)
    return _Test("before", key) if direction in ("LT", "GT") else None


def _choice(which: Any, on_true: Any, on_false: Any) -> Any:
    """x with one zero, x with one NaN: the same operand."""
    if not isinstance(which, tuple) or not isinstance(on_false, _Operand):
        return None
    kind, x = which[0], which[1]
    if kind == "zero" and x == on_false:
        return _Operand(x.operand, x.left, x.part, False)
    if kind == "nan" and (x.operand, x.left, x.part) == (
            on_false.operand, on_false.left, on_false.part):
        return _Operand(x.operand, x.left, x.part, True)
    return None


def _joined(name: str, x: Any, y: Any) -> Any:
    """same(k) and rest, before(k) or that."""
    if not isinstance(x, _Test) or not isinstance(y, _Test):
        return None
    if name == "and":
        return _Test("rest", x.key, y) if x.kind == "same" and y.kind == "before" else None
    first, rest = (x, y) if y.kind == "rest" else (y, x)
    if rest.kind != "rest" or first.kind != "before" or first.then is not None or (
            first.key.operand, first.key.part) != (rest.key.operand, rest.key.part):
        return None
    return _Test("before", first.key, rest.then)
