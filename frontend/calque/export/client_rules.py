"""Primitives of clients in portable modules: the rule for each platform, and what a rule in MLIR
makes, read back as operations.

A rule in MLIR runs on a function of its own, whose operations are then data like those that our
forms write.  Start reading at `written`.
"""
from __future__ import annotations

import re
import types
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from calque.core.avals import ShapedArray
from calque.core.errors import explain
from calque.core.program import Equation, Program
from calque.core.source import here
from calque.core.types import Function
from calque.export import vhlo
from calque.export.build import PortableBuilder, ints, number
from calque.export.bytecode_write import VERSION
from calque.export.errors import UnsupportedOperationError
from calque.export.hlo import (
    DYNAMIC,
    ELEMENTS,
    Block,
    Enum,
    Func,
    Module,
    Number,
    Op,
    Special,
    Tensor,
)
from calque.export.hlo import Value as Made
from calque.lowering.emit import mlir
from calque.lowering.emit.builder import Value
from calque.lowering.passes.clients import closed_by_constants
from calque.lowering.rules.client import LoweringContext, LoweringParameters, checked_types

Write = Callable[[Program, Sequence[Value], str], list[Value]]


class ExportContext(LoweringContext):
    """What a rule in MLIR gets when its function is exported: `emit` and `call` make calls, which
    are written when what the rule made is read."""

    def __init__(self, e: Equation, module: Any, platforms: tuple[str, ...]) -> None:
        self.primitive = e.primitive
        self.avals_in = [a.aval for a in e.inputs]
        self.avals_out = [v.aval for v in e.outputs]
        self.module = module
        self.platforms = platforms
        self.lowering_parameters = LoweringParameters(for_export=True)
        self._source = e.source
        self.called: dict[str, Any] = {}  # a Program, or the operation of a function

    @property
    def source(self) -> Any:
        return self._source

    def emit(self, p: Program, operands: Sequence[Any]) -> list[Any]:
        kinds = [mlir.tensor_type(a.shape, a.dtype) for a in p.out_avals]
        return self._call(closed_by_constants(p), operands, kinds)

    def call(self, function: Any, operands: Sequence[Any], results: Sequence[Any]) -> list[Any]:
        with mlir.ir().InsertionPoint(self.module.body):
            kept = function.clone()  # (what it was parsed from may go)
        return self._call(kept, operands, results)

    def _call(self, of: Any, operands: Sequence[Any], kinds: Sequence[Any]) -> list[Any]:
        ir = mlir.ir()
        name = f"called_{len(self.called)}"
        self.called[name] = of
        return list(ir.Operation.create(
            "func.call", results=list(kinds), operands=[getattr(v, "result", v) for v in operands],
            attributes={"callee": ir.FlatSymbolRefAttr.get(name)}).results)


def written(b: PortableBuilder, e: Equation, rule: Function, values: Sequence[Value],
            outs: Sequence[ShapedArray], platforms: tuple[str, ...], write: Write) -> list[Value]:
    """The results of a client's equation, whose rule in MLIR makes their operations.

    Args:
      values: the operands; outs: the types of the results; platforms: that they are written for.
      write: writes a Program's operations on values.

    Raises:
      UnsupportedOperationError: the rule makes operations of other dialects than StableHLO.
      TypeError: it makes values of other types than the abstract evaluation says.
    """
    ir = mlir.ir()
    with mlir.context(), ir.Location.unknown():
        module = ir.Module.create()
        kinds = [mlir.tensor_type(v.shape, v.dtype) for v in values]
        with ir.InsertionPoint(module.body):
            function = mlir.operation("func.func", [], [], {
                "sym_name": '"rule"',
                "function_type": f"({', '.join(map(str, kinds))}) -> ()"}, 1)
        block = function.regions[0].blocks.append(
            *kinds, arg_locs=[ir.Location.unknown()] * len(kinds))
        context = ExportContext(e, module, platforms)
        with ir.InsertionPoint(block):
            made = rule(context, *block.arguments, **e.params)
        made = list(made) if isinstance(made, list | tuple) else [made]
        results = [getattr(v, "result", v) for v in made]
        checked_types(e.primitive, [v.type for v in results], outs, str(e.source))
        reader = _Reader(b, context, write)
        env = dict(zip(block.arguments, [v.ir for v in values]))
        b.block.ops += reader.operations(block, env)
        return [Value(b, env[v], tuple(a.shape), a.dtype) for v, a in zip(results, outs)]


class _Functions:
    """What stands for a rule's context where a module is read: its functions, by name."""

    def __init__(self, asked: str, called: dict[str, Any]) -> None:
        self.called, self.source = called, here()
        self.primitive = types.SimpleNamespace(name=asked)


def module_of(text: str, asked: str) -> Module:
    """A module of StableHLO's operations, as text of MLIR; calls are written out.

    Args:
      asked: the function that reads it, for errors.

    Raises:
      ValueError: the text is no module, or has no function main.
      UnsupportedOperationError: it has operations of other dialects.
    """
    ir = mlir.ir()
    with mlir.context(), ir.Location.unknown():
        try:
            parsed = ir.Module.parse(text)
        except ir.MLIRError as error:
            raise ValueError(explain(f"{asked}: this is no module of StableHLO: {error}",
                                     fix="pass an MLIR module.")) from None
        bodies = {op.attributes["sym_name"].value: op.operation for op in parsed.body.operations
                  if op.operation.name == "func.func"}
        if "main" not in bodies:
            raise ValueError(explain(f"{asked}: the module has no function main.",
                                     fix="name the function that callers call main."))
        reader, functions = _Reader(PortableBuilder(), _Functions(asked, bodies), _no_programs), []
        for name in sorted(bodies, key=lambda n: n != "main"):
            body = bodies[name].regions[0].blocks[0]
            arguments = [Made(reader._type(v.type)) for v in body.arguments]
            env: dict[Any, Any] = dict(zip(body.arguments, arguments))
            block = Block(arguments, reader.operations(body, env))
            block.ops.append(Op("return", env[None]))
            functions.append(Func(name, block, tuple(v.type for v in env[None]), name == "main",
                                  ({},) * len(arguments)))
        named = parsed.operation.attributes
        return Module(named["sym_name"].value if "sym_name" in named else "module", functions)


def _no_programs(p: Program, values: Sequence[Value], name: str) -> list[Value]:
    raise AssertionError("a module of MLIR calls no Program")


class _Reader:
    """Operations of MLIR -> hlo.Op."""

    def __init__(self, b: PortableBuilder, context: ExportContext | _Functions, write: Write
                 ) -> None:
        self.b, self.context, self.write = b, context, write

    def operations(self, block: Any, env: dict[Any, Made]) -> list[Op]:
        """What a block holds, but for the end of a function; env gets its values."""
        ops: list[Op] = []
        for one in block.operations:
            op = one.operation
            operands = [env[v] for v in op.operands]
            if op.name == "func.return":
                env[None] = operands  # type: ignore[assignment]
            elif op.name == "func.call":
                made, found = self._called(op, operands)
                ops += made
                env.update(zip(op.results, found))
            else:
                results = [Made(self._type(v.type)) for v in op.results]
                env.update(zip(op.results, results))
                ops.append(self._op(op, operands, results, env))
        return ops

    def _op(self, op: Any, operands: list[Made], results: list[Made], env: dict[Any, Made]) -> Op:
        dialect, _, name = op.name.partition(".")
        if dialect != "stablehlo":
            raise self._unsupported(f"makes {op.name}", "write the rule in StableHLO's operations, "
                                    "or as a function of arrays: mlir.lower_fun(function).")
        regions = []
        for region in op.regions:
            inner = region.blocks[0]
            arguments = [Made(self._type(v.type)) for v in inner.arguments]
            env.update(zip(inner.arguments, arguments))
            regions.append(Block(arguments, self.operations(inner, env)))
        names = [getattr(a, "name", a) for a in op.attributes]
        if name == "constant" and self._type(op.results[0].type).dtype.kind == "c":  # (text alone)
            text = op.get_asm(print_generic_op_form=True, large_elements_limit=1 << 40)
            found = {"value": _elements(text, self._type(op.results[0].type))}
        else:
            found = self._attributes({n: op.attributes[n] for n in names})
        form = vhlo.form_for(name, VERSION)
        attributes = {a: found[a] if a in found else self._default(name, a, found, operands)
                      for a in form.attributes}
        lost = found.keys() - attributes.keys() - _WITHOUT_MEANING
        if lost:
            raise self._unsupported(f"makes {op.name} with {', '.join(sorted(lost))}",
                                    "leave these attributes out.")
        return Op(name, operands, results, attributes, regions)

    def _called(self, op: Any, operands: list[Made]) -> tuple[list[Op], list[Made]]:
        """The operations of what is called, and its results."""
        of = self.context.called[op.attributes["callee"].value]
        if isinstance(of, Program):
            with self.b.inside(Block()) as block:
                values = [Value(self.b, v, tuple(a.shape), a.dtype)
                          for v, a in zip(operands, of.in_avals)]
                outs = self.write(of, values, "lowered")
            return block.ops, [v.ir for v in outs]
        body = of.regions[0].blocks[0]
        env: dict[Any, Any] = dict(zip(body.arguments, operands))
        ops = self.operations(body, env)
        return ops, env[None]

    def _type(self, kind: Any) -> Any:
        text = str(kind)
        if text == "!stablehlo.token":
            return Special("token")
        found = re.fullmatch(r"tensor<((?:(?:\d+|\?)x)*)([^,]+)>", text)
        if found is None or found[2] not in ELEMENTS:
            raise self._unsupported(f"makes a value of type {text}", "make tensors.")
        sizes = found[1].split("x")[:-1]
        return Tensor(tuple(DYNAMIC if n == "?" else int(n) for n in sizes), ELEMENTS[found[2]])

    # ---- attributes
    def _attributes(self, given: dict[str, Any]) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for name, a in given.items():
            text = str(a)
            structure = re.match(r"#stablehlo\.(gather|scatter|dot|conv)<", text)
            if structure is None:
                found[name] = self._value(a, text)
            elif structure[1] == "conv":
                found |= _convolution(text)
            else:
                found |= _numbers(text[structure.end():-1], _LISTS[structure[1]])
        return found

    def _value(self, a: Any, text: str) -> Any:
        ir = mlir.ir()
        enum = re.fullmatch(r"#stablehlo<(\w+) (\w+)>", text)
        if enum is not None:
            return Enum(enum[1], enum[2])
        if isinstance(a, ir.BoolAttr | ir.StringAttr | ir.FlatSymbolRefAttr):
            return a.value
        if isinstance(a, ir.DenseI64ArrayAttr):
            return ints(list(a))
        if isinstance(a, ir.DenseBoolArrayAttr):
            return np.asarray(list(a), bool)
        if isinstance(a, ir.IntegerAttr | ir.FloatAttr):
            return Number(a.value, ELEMENTS[str(a.type)])
        if isinstance(a, ir.ArrayAttr):
            return tuple(self._value(x, str(x)) for x in a)
        if isinstance(a, ir.DictAttr):
            return {a[i].name: self._value(a[i].attr, str(a[i].attr)) for i in range(len(a))}
        if isinstance(a, ir.DenseElementsAttr):
            return self._dense(a)
        raise self._unsupported(f"makes an attribute {text[:60]}", "leave it out.")

    def _dense(self, a: Any) -> Any:
        kind = self._type(a.type)
        try:
            raw = memoryview(a).tobytes()
        except BufferError:  # of dtypes that Python lacks
            return _elements(str(a), kind)
        return np.frombuffer(raw, kind.dtype).reshape(kind.shape)

    def _default(self, name: str, attribute: str, found: dict[str, Any],
                 operands: list[Made]) -> Any:
        """What an attribute that was left out means."""
        if attribute in ("window_strides", "lhs_dilation", "rhs_dilation", "window_dilations",
                         "base_dilations"):
            return ints([1] * self._rank(name, found, operands))
        if attribute == "padding":
            return np.zeros((self._rank(name, found, operands), 2), np.int64)
        if attribute == "window_reversal":
            return np.zeros(self._rank(name, found, operands), bool)
        if attribute == "index_vector_dim":
            return number(0)
        if attribute in _DEFAULTS:
            return _DEFAULTS[attribute]
        raise self._unsupported(f"makes stablehlo.{name} without {attribute}", f"give {attribute}.")

    @staticmethod
    def _rank(name: str, found: dict[str, Any], operands: list[Made]) -> int:
        if name == "convolution":
            return len(operands[0].shape) - 2
        return len(found["window_dimensions"])

    def _unsupported(self, what: str, fix: str) -> Exception:
        if isinstance(self.context, _Functions):
            return UnsupportedOperationError(explain(
                f"{self.context.primitive.name}: the module {what}, which has no portable form in "
                "StableHLO.", where=str(self.context.source), fix="pass one of StableHLO's "
                "operations alone: export.export(jit(f))(...).mlir_module()."))
        return UnsupportedOperationError(explain(
            f"{self.context.primitive.name}: its lowering {what}, which has no portable form in "
            "StableHLO.", where=str(self.context.source), fix=fix))


def _elements(text: str, kind: Tensor) -> Any:
    """An array from `dense<[1.0, 2.0]> : tensor<2xbf16>`; complex numbers are (re, im)."""
    found = re.search(r"dense<(.*?)> : tensor<", text, re.DOTALL)
    body = found[1] if found else ""
    part = np.dtype(f"f{kind.dtype.itemsize // 2}") if kind.dtype.kind == "c" else kind.dtype
    if body.startswith('"0x'):
        flat = np.frombuffer(bytes.fromhex(body[3:-1]), kind.dtype)
    else:
        flat = np.asarray([
            np.frombuffer(bytes.fromhex(n[2:])[::-1], part)[0] if n.startswith("0x")
            else np.asarray(float(n)).astype(part) for n in re.findall(r"[^][(), ]+", body)],
            part).view(kind.dtype)
    size = int(np.prod(kind.shape))
    return (np.broadcast_to(flat, size) if len(flat) == 1 else flat).reshape(kind.shape)


_WITHOUT_MEANING = {"result_accuracy", "algorithm", "mhlo.frontend_attributes"}
_EMPTY = ints(())
_DEFAULTS: dict[str, Any] = {
    "precision_config": (), "compare_type": Enum("comparison_type", "NOTYPE"),
    "indices_are_sorted": False, "unique_indices": False, "is_stable": False,
    "dimension": Number(-1, np.dtype("i8")), "lower": False,
    "known_expanding_dimensions": _EMPTY, "known_nonexpanding_dimensions": _EMPTY,
    "version": Number(0, np.dtype("i4")), "composite_attributes": {},
    "api_version": Enum("api_version", "API_VERSION_ORIGINAL"), "backend_config": "",
    "called_computations": (), "has_side_effect": False, "operand_layouts": (),
    "result_layouts": (), "output_operand_aliases": (), **dict.fromkeys((
        "offset_dims", "collapsed_slice_dims", "operand_batching_dims", "start_index_map",
        "start_indices_batching_dims", "update_window_dims", "inserted_window_dims",
        "input_batching_dims", "scatter_indices_batching_dims", "scatter_dims_to_operand_dims",
        "lhs_batching_dimensions", "rhs_batching_dimensions", "lhs_contracting_dimensions",
        "rhs_contracting_dimensions"), _EMPTY)}
# of StableHLO's own attributes, the parts that are one number
_LISTS = {"gather": ("index_vector_dim",), "scatter": ("index_vector_dim",), "dot": ()}


def _numbers(text: str, single: Sequence[str]) -> dict[str, Any]:
    """`a = [1, 2], b = 3` as vectors and numbers."""
    found: dict[str, Any] = {}
    for name, items, one in re.findall(r"(\w+) = (?:\[([\d, ]*)\]|(\d+))", text):
        found[name] = number(int(one)) if name in single or one else ints(
            [int(n) for n in items.split(",") if n.strip()])
    return found


def _convolution(text: str) -> dict[str, Any]:
    """`#stablehlo.conv<[b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f]>`."""
    sides = re.fullmatch(r"#stablehlo\.conv<\[(.*)\]x\[(.*)\]->\[(.*)\]>", text)
    assert sides is not None, text
    found: dict[str, Any] = {}
    for side, side_name, letters in (
            (sides[1], "input", {"b": "batch", "f": "feature"}),
            (sides[2], "kernel", {"i": "input_feature", "o": "output_feature"}),
            (sides[3], "output", {"b": "batch", "f": "feature"})):
        places = [p.strip() for p in side.split(",")]
        for letter, what in letters.items():
            found[f"{side_name}_{what}_dimension"] = number(places.index(letter))
        found[f"{side_name}_spatial_dimensions"] = ints(
            [places.index(str(i)) for i in range(len(places) - 2)])
    return found


def rules_of(e: Equation, platforms: tuple[str, ...]
             ) -> list[tuple[tuple[str, ...], Function | None, Function | None]]:
    """(platforms, Program maker, rule in MLIR) for the platforms of a client's equation: those that
    have one rule are together, in the order in which they come."""
    prim: Any = e.primitive
    groups: dict[Any, list[str]] = {}
    for platform in platforms:
        rule = prim.rule_for(platform)
        if rule == (None, None):
            raise NotImplementedError(explain(
                f"MLIR translation rule for primitive '{prim.name}' not found for platform "
                f"{platform}", where=str(e.source),
                fix=f"register one: mlir.register_lowering({prim.name}_p, "
                    f"mlir.lower_fun(function), platform={platform!r})."))
        groups.setdefault(rule, []).append(platform)
    return [(tuple(names), *rule) for rule, names in groups.items()]
