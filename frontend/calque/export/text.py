"""hlo.Module as MLIR text of StableHLO, for people and for MLIR's parsers.

The generic form is written; where iree.compiler is installed it is parsed, checked and printed in
the usual form.  Start reading at `module_text`.
"""
from __future__ import annotations

import re
from typing import Any

import numpy as np

from calque.core.types import Ndarray
from calque.export.hlo import (
    NAMES,
    Accuracy,
    Alias,
    Block,
    Enum,
    Func,
    Module,
    Number,
    Op,
    Special,
    TypeOf,
    Value,
    type_text,
)
from calque.export.vhlo import Dense

_GATHER = ("offset_dims", "collapsed_slice_dims", "operand_batching_dims",
           "start_indices_batching_dims", "start_index_map", "index_vector_dim")
_SCATTER = ("update_window_dims", "inserted_window_dims", "input_batching_dims",
            "scatter_indices_batching_dims", "scatter_dims_to_operand_dims", "index_vector_dim")
_DOT = ("lhs_batching_dimensions", "rhs_batching_dimensions", "lhs_contracting_dimensions",
        "rhs_contracting_dimensions")
_CONV = ("input_batch_dimension", "input_feature_dimension", "input_spatial_dimensions",
         "kernel_input_feature_dimension", "kernel_output_feature_dimension",
         "kernel_spatial_dimensions", "output_batch_dimension", "output_feature_dimension",
         "output_spatial_dimensions")
# operation -> attributes that are one of StableHLO's own, its name and prefix
_STRUCTURES = {"gather": (_GATHER, "dimension_numbers", "#stablehlo.gather<"),
               "dynamic_gather": (_GATHER, "dimension_numbers", "#stablehlo.gather<"),
               "scatter": (_SCATTER, "scatter_dimension_numbers", "#stablehlo.scatter<"),
               "dot_general": (_DOT, "dot_dimension_numbers", "#stablehlo.dot<"),
               "convolution": (_CONV, "dimension_numbers", "#stablehlo.conv<raw ")}


def module_text(module: Module, pretty: bool = True) -> str:
    """The module as text."""
    functions = "\n".join(_function(f) for f in module.functions)
    name = f"@{module.name} " if module.name.replace("_", "").isalnum() else ""
    text = f"module {name}{{\n{functions}\n}}\n"
    return _parsed(text) if pretty else text


def _parsed(text: str) -> str:
    """The text as MLIR prints it, where it is installed."""
    try:
        from calque.lowering.emit import mlir
        ir = mlir.ir()
    except ImportError:
        return text
    with ir.Context() as context:
        context.allow_unregistered_dialects = True
        try:
            return str(ir.Module.parse(text))
        except ir.MLIRError:  # operations of a later version
            return text


class _Names:
    def __init__(self) -> None:
        self.known: dict[Value, str] = {}

    def __call__(self, v: Value) -> str:
        return self.known.setdefault(v, f"%{len(self.known)}")


def _function(f: Func) -> str:
    names = _Names()
    attributes = list(f.arg_attrs) or [{}] * len(f.body.arguments)
    args = ", ".join(f"{names(a)}: {type_text(a.type)}{_marks(m)}"
                     for a, m in zip(f.body.arguments, attributes))
    outs = ", ".join(map(type_text, f.outputs))
    body = "\n".join(filter(None, (_op(op, names, 2, "func.return") for op in f.body.ops)))
    kind = "public" if f.public else "private"
    return f"  func.func {kind} {_symbol(f.name)}({args}) -> ({outs}) {{\n{body}\n  }}"


def _symbol(name: str) -> str:
    """A function's name where it is called; some are texts (Writer.call)."""
    if re.fullmatch(r"[A-Za-z_][\w$.]*", name):
        return f"@{name}"
    return '@"' + name.replace("\\", r"\5C").replace('"', r"\22") + '"'


def _marks(attributes: dict[str, Any]) -> str:
    kept = {k: v for k, v in attributes.items() if isinstance(v, str)}
    return " {" + ", ".join(f'{k} = "{v}"' for k, v in kept.items()) + "}" if kept else ""


def _op(op: Op, names: _Names, depth: int, back: str = "stablehlo.return") -> str:
    space = "  " * depth
    if op.name.startswith(("sdy.", "builtin.")) and len(op.operands) == len(op.results):
        names.known.update(zip(op.results, map(names, op.operands)))  # marks of JAX's
        return ""
    name = back if op.name == "return" else "func.call" if op.name == "call" else \
        op.name if "." in op.name else f"stablehlo.{op.name}"
    operands = ", ".join(names(v) for v in op.operands)
    types = ", ".join(type_text(v.type) for v in op.operands)
    results = ", ".join(type_text(v.type) for v in op.results)
    regions = ", ".join(_region(r, names, depth) for r in op.regions)
    made = ", ".join(names(v) for v in op.results)
    return (f"{space}{made + ' = ' if made else ''}\"{name}\"({operands})"
            f"{f' ({regions})' if regions else ''}{_attributes(op)} : ({types}) -> ({results})")


def _region(block: Block, names: _Names, depth: int) -> str:
    space = "  " * depth
    args = ", ".join(f"{names(a)}: {type_text(a.type)}" for a in block.arguments)
    body = "\n".join(filter(None, (_op(op, names, depth + 1) for op in block.ops)))
    return f"{{\n{space}^bb0({args}):\n{body}\n{space}}}" if args else f"{{\n{body}\n{space}}}"


def _attributes(op: Op) -> str:
    rest = dict(op.attributes)
    parts = []
    if op.name in _STRUCTURES:
        fields, name, start = _STRUCTURES[op.name]
        inner = ", ".join(f"{k} = {_plain(rest.pop(k))}" for k in fields if k in rest)
        parts.append(f"{name} = {start}{inner}>")
    for k, v in rest.items():
        text = _attribute(op, k, v)
        if text:
            parts.append(f"{k} = {text}")
    return " {" + ", ".join(parts) + "}" if parts else ""


def _plain(value: Any) -> str:
    return str(value.value) if isinstance(value, Number) else str(np.asarray(value).tolist())


def _attribute(op: Op, name: str, value: Any) -> str:
    if name in ("callee", "decomposition"):
        return _symbol(value)
    if name == "called_computations":
        return "[" + ", ".join(map(_symbol, value)) + "]"
    if name.endswith("_layouts"):
        if not op.attributes["operand_layouts"]:
            return ""
        return "[" + ", ".join(map(_layout, value)) + "]"
    if name in ("value", "padding"):
        return _dense(value)
    if isinstance(value, np.ndarray):
        kind = "i1" if value.dtype == bool else "i64"
        items = ", ".join(str(v).lower() for v in value.reshape(-1).tolist())
        return f"array<{kind}: {items}>" if items else f"array<{kind}>"
    return _any(value)


def _any(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'
    if isinstance(value, Enum):
        if value.kind == "api_version":
            cases = ("UNSPECIFIED", "ORIGINAL", "STATUS_RETURNING", "STATUS_RETURNING_UNIFIED",
                     "TYPED_FFI")
            return f"{cases.index(value.case.removeprefix('API_VERSION_'))} : i32"
        return f"#stablehlo<{value.kind} {value.case}>"
    if isinstance(value, Number):
        return f"{value.value!r} : {type_text(value.dtype)}".replace("inf", "0x7FF0000000000000")
    if isinstance(value, tuple | list):
        return "[" + ", ".join(filter(None, map(_any, value))) + "]"
    if isinstance(value, dict):
        inner = ", ".join(f'"{k}" = {_any(v)}' for k, v in value.items() if _any(v))
        return f"{{{inner}}}"
    if isinstance(value, np.ndarray):
        return _dense(value)
    if isinstance(value, TypeOf) and not isinstance(value.type, Special):
        return type_text(value.type)
    if isinstance(value, Alias):
        return (f"#stablehlo.output_operand_alias<output_tuple_indices = {list(value.output)}, "
                f"operand_index = {value.operand}, operand_tuple_indices = {list(value.inside)}>")
    return "" if isinstance(value, Accuracy) else ""


def _layout(value: Any) -> str:
    """The order of axes in memory: numbers of type index."""
    order = np.frombuffer(value.data, np.int64) if isinstance(value, Dense) else value
    return f"dense<{order.tolist() if len(order) else ''}> : tensor<{len(order)}xindex>"


def _dense(value: Any) -> str:
    if not isinstance(value, np.ndarray):
        return _any(value)
    kind = "x".join([*map(str, value.shape), NAMES[value.dtype]])
    if not value.size:
        body = ""
    elif value.dtype == bool:
        body = str(bool(value.flat[0]) if _splat(value) else value.tolist()).lower()
    else:
        raw = value.flat[0].tobytes() if _splat(value) else value.tobytes()
        body = f'"0x{raw.hex().upper()}"'
    return f"dense<{body}> : tensor<{kind}>"


def _splat(value: Ndarray) -> bool:
    return value.size == 1 or not any(s for s, n in zip(value.strides, value.shape) if n > 1)
