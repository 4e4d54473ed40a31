"""The one door to MLIR's Python bindings (those inside iree-base-compiler).

Importing the bindings costs a few hundred milliseconds and loads the compiler library, so nothing
imports them at module level: `ir()` loads them at first use.  `import calque.runtime` and
`import calque` therefore stay light.  Also here: dtype <-> MLIR element type.
"""
from __future__ import annotations

import functools
import importlib
import importlib.metadata
import sys
import threading
import types
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import ml_dtypes
import numpy as np

from calque.core.dims import Dim
from calque.core.dtypes import SMALL_FLOATS, SMALL_INTEGERS
from calque.core.errors import explain
from calque.core.types import Dtype, Ndarray, Shape

_ELEMENT_NAMES: dict[Dtype, str] = {
    np.dtype(bool): "i1",
    np.dtype(np.int8): "i8",
    np.dtype(np.int16): "i16",
    np.dtype(np.int32): "i32",
    np.dtype(np.int64): "i64",
    np.dtype(np.uint8): "ui8",
    np.dtype(np.uint16): "ui16",
    np.dtype(np.uint32): "ui32",
    np.dtype(np.uint64): "ui64",
    np.dtype(np.float16): "f16",
    np.dtype(ml_dtypes.bfloat16): "bf16",
    np.dtype(np.float32): "f32",
    np.dtype(np.float64): "f64",
    np.dtype(np.complex64): "complex<f32>",
    np.dtype(np.complex128): "complex<f64>",
}
_DTYPES = {name: dtype for dtype, name in _ELEMENT_NAMES.items()}
# of fewer bits than hardware computes in: bytes (lowering/passes/narrow)
_ELEMENT_NAMES |= {d: "i8" for d in (*SMALL_INTEGERS, *SMALL_FLOATS)}

# The bindings import a dialect's package when they first see an operation of it: 2 to 25 ms each
# (linalg 80), and of those that have none (StableHLO) 0.1 ms at every operation.
_DIALECTS = ("arith", "cf", "complex", "flow", "func", "gpu", "hal", "iree_codegen",
             "iree_linalg_ext", "iree_tensor_ext", "linalg", "llvm", "math", "memref", "scf",
             "stablehlo", "stream", "tensor", "util", "vector")
_lock = threading.Lock()


class NoCompilerError(ModuleNotFoundError):
    """The package iree.compiler is missing."""

    def __init__(self) -> None:
        super().__init__(explain(
            "compiling needs IREE's compiler (No module named 'iree.compiler').",
            fix=f"pip install 'iree-base-compiler=={_wanted()}'; without it only artifacts run, "
                "which were compiled elsewhere (calque.aot.load)."), name="iree.compiler")


def _wanted() -> str:
    """The version that the runtime, which is here, goes with."""
    try:
        return importlib.metadata.version("iree-base-runtime")
    except importlib.metadata.PackageNotFoundError:
        return "3.13.*"


@functools.cache
def ir() -> Any:
    """MLIR's `ir` module, loaded once.

    Raises:
      NoCompilerError: the compiler is not installed.
    """
    with _lock:
        try:
            from iree.compiler import ir as module
        except ModuleNotFoundError as error:
            if error.name not in ("iree", "iree.compiler"):
                raise
            raise NoCompilerError from None
        for dialect in _DIALECTS:
            name = f"{module.__package__}.dialects.{dialect}"
            sys.modules.setdefault(name, _Later(name))
    return module


class _Later(types.ModuleType):
    """A dialect's package until somebody uses it, which nothing of ours does: operations are made
    and read by name."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") and name != "__path__":  # (imports of what lies in it ask for it)
            raise AttributeError(name)
        if sys.modules.get(self.__name__) is self:
            del sys.modules[self.__name__]
        return getattr(importlib.import_module(self.__name__), name)


@functools.cache
def context() -> Any:
    """One MLIR context for all modules we build (the dialects are registered by the wheel)."""
    ctx = ir().Context()
    ctx.allow_unregistered_dialects = False
    ctx.enable_multithreading(False)  # (threads of it would be missing in a forked child)
    return ctx


def operation(name: str, kinds: Sequence[Any], operands: Sequence[Any] = (),
              attributes: Mapping[str, Any] | None = None, regions: int = 0) -> Any:
    """An operation with results of these types; attributes may be MLIR text."""
    module = ir()
    return module.Operation.create(
        name, results=list(kinds), operands=list(operands), regions=regions, attributes={
            k: _attribute(v) if isinstance(v, str) else v
            for k, v in (attributes or {}).items()})


@functools.lru_cache(4096)
def _attribute(text: str) -> Any:
    return ir().Attribute.parse(text, context())


def value(name: str, kind: Any, operands: Sequence[Any] = (), /, **attributes: Any) -> Any:
    """The only result of an operation."""
    return operation(name, [kind], operands, attributes).operation.results[0]


def elements(a: Ndarray) -> Any:
    """The attribute of an array's elements, from its bytes (text takes ten times their memory)."""
    return ir().DenseElementsAttr.get(
        np.ascontiguousarray(a).reshape(-1).view(np.uint8), shape=list(a.shape),
        type=ir().Type.parse(element_name(a.dtype), context()))


def quoted(text: str) -> str:
    """A string as MLIR's text has it."""
    return '"' + "".join(chr(b) if 32 <= b < 127 and b not in b'"\\' else f"\\{b:02X}"
                         for b in text.encode()) + '"'


def number(n: int, kind: Any) -> Any:
    """An integer constant of type `kind`."""
    return value("arith.constant", kind, value=ir().IntegerAttr.get(kind, n))


def fill_region(region: Any, kinds: Sequence[Any], end: str,
                body: Callable[..., Sequence[Any]]) -> None:
    """One block with arguments of these types; operation `end` takes what body makes of them."""
    module = ir()
    block = region.blocks.append(*kinds, arg_locs=[module.Location.current] * len(kinds))
    with module.InsertionPoint(block):
        operation(end, [], body(*block.arguments))


def linalg(name: str, inputs: Sequence[Any], outs: Sequence[Any],
           body: Callable[..., Sequence[Any]], **attributes: str) -> list[Any]:
    """The results of an operation of linalg on MLIR values; `body` gives their elements from those
    of inputs and outs.  (Importing iree.compiler.dialects.linalg, which has builders of them, takes
    80 ms.)"""
    operands = [*inputs, *outs]
    op = operation(f"linalg.{name}", [v.type for v in outs], operands, {
        "operandSegmentSizes": f"array<i32: {len(inputs)}, {len(outs)}>", **attributes}, 1)
    elements = [getattr(v.type, "element_type", v.type) for v in operands]
    fill_region(op.regions[0], elements, "linalg.yield", body)
    return list(op.operation.results)


def generic(axes: Sequence[str], summed: int, maps: Sequence[Sequence[str]],
            inputs: Sequence[Any], outs: Sequence[Any], body: Callable[..., Sequence[Any]]
            ) -> list[Any]:
    """linalg.generic over loops of these names, of which the last `summed` are reductions; maps:
    for each operand where it is read, an expression of the names for each of its axes."""
    kinds = ["parallel"] * (len(axes) - summed) + ["reduction"] * summed
    every = [f"affine_map<({', '.join(axes)}) -> ({', '.join(to)})>" for to in maps]
    return linalg("generic", inputs, outs, body, indexing_maps=f"[{', '.join(every)}]",
                  iterator_types=f"[{', '.join(f'#linalg.iterator_type<{k}>' for k in kinds)}]")


def fill(scalar: Any, out: Any) -> Any:
    """linalg.fill of a scalar."""
    return linalg("fill", [scalar], [out], lambda v, _: [v])[0]


def while_loop(start: Sequence[Any], condition: Callable[..., Sequence[Any]],
               step: Callable[..., Sequence[Any]], kinds: Sequence[Any] = ()) -> list[Any]:
    """The results of scf.while: from the carried values, `condition` gives whether to go on and
    what `step` makes the next values from (of these types, where they are not the carried ones)."""
    carried = [v.type for v in start]
    op = operation("scf.while", kinds or carried, start, regions=2)
    fill_region(op.regions[0], carried, "scf.condition", condition)
    fill_region(op.regions[1], kinds or carried, "scf.yield", step)
    return list(op.operation.results)


def element_name(dtype: Dtype) -> str:
    """MLIR's spelling of a dtype: float32 -> f32, uint8 -> ui8, complex64 -> complex<f32>."""
    try:
        return _ELEMENT_NAMES[dtype]
    except KeyError:
        if dtype.kind == "T":
            raise TypeError(
                f"an array of strings, {dtype}, is not a valid JAX type in a program: nothing is "
                "computed with strings.\n  Fix: use np.asarray(x) outside, or a function of "
                "experimental.colocated_python.") from None
        raise TypeError(
            f"dtype {dtype} has no MLIR element type here.\n"
            f"  Fix: cast to one of {', '.join(str(d) for d in _ELEMENT_NAMES)}."
        ) from None


def type_text(shape: Shape, dtype: Dtype) -> str:
    """The tensor type as text: ((2, -1), float32) -> tensor<2x?xf32>."""
    sizes = "".join("?x" if isinstance(d, Dim) or d < 0 else f"{d}x" for d in shape)
    return f"tensor<{sizes}{element_name(dtype)}>"


@functools.lru_cache(maxsize=8192)
def tensor_type(shape: Shape, dtype: Dtype) -> Any:
    """The ranked tensor type of a shape and dtype in our context.

    Raises:
      OverflowError: a size is 2**63 or more.
    """
    if any(not isinstance(d, Dim) and d >= 1 << 63 for d in shape):
        raise OverflowError(explain(f"an array of shape {shape} has a size of 2**63 or more.",
                                    fix="use smaller sizes."))
    return ir().Type.parse(type_text(shape, dtype), context())


@functools.lru_cache(maxsize=8192)
def _spec(kind: Any) -> tuple[tuple[int, ...], Dtype] | None:
    text = str(kind)
    if not text.startswith("tensor<"):
        return None
    *sizes, element = text[7:-1].split("x") if "complex" not in text else [
        *text[7:text.index("complex")].split("x")[:-1], text[text.index("complex"):-1]]
    dtype = _DTYPES.get(element)
    return None if dtype is None else (
        tuple(-1 if n == "?" else int(n) for n in sizes), dtype)


def spec(v: Any) -> tuple[tuple[int, ...], Dtype] | None:
    """Shape and dtype of an ir.Value, -1 for sizes known at the call only; None for no tensor."""
    return _spec(v.type)


def made_by(owner: Any) -> str | None:
    """The name of the operation that owns a value; None of a block."""
    operation = getattr(owner, "operation", None)  # (hal.tensor.import has another `name`)
    return None if operation is None else str(operation.name)


_EFFECTS = frozenset(("stablehlo.custom_call", "stablehlo.while", "stablehlo.case",
                      "stablehlo.if"))


def erase_unread(block: Any) -> None:
    """Without operations that nothing uses, transpositions that products see through among them: of
    a program of kernels they would leave all of it to IREE."""
    for op in reversed(list(block.operations)):
        name = str(op.operation.name)
        if (name in ("flow.dispatch", "arith.constant") or name.startswith("stablehlo.")
                and name not in _EFFECTS) and op.operation.results and not any(
                    True for r in op.operation.results for _ in r.uses):
            op.operation.erase()


_OF_KERNELS = frozenset(("flow.dispatch", "arith.constant", "func.return", "stablehlo.reshape",
                         "stablehlo.bitcast_convert", "flow.tensor.bitcast"))


FEW_BESIDE, DISPATCHES = 12, 4  # so many operations beside kernels, each beside so many of them
_BESIDE = frozenset(("stablehlo.convolution", "stablehlo.transpose", "stablehlo.slice",
                     "stablehlo.pad", "iree_tensor_ext.compute_barrier.start"))
# of a branch that the host takes, and of a call of Python
_OF_HOST = frozenset(("tensor.extract", "arith.cmpi", "scf.if", "scf.yield", "func.call",
                      "util.list.construct", "util.list.get", "hal.tensor.import",
                      "hal.tensor.export"))


def others(block: Any) -> int:
    """How many operations of a function are no dispatches of kernels of ours, as
    compiler/stream_module knows them; -1 where they are more than a few, or such as gain by what
    IREE fuses with them."""
    def is_known(op: Any) -> bool:
        name = str(op.operation.name)
        if name == "stablehlo.constant":
            return bool(op.attributes["value"].is_splat)
        return name in _OF_KERNELS or name == "stablehlo.broadcast_in_dim" and (
            made_by(op.operands[0].owner) == "stablehlo.constant" and not op.operands[0].type.rank)

    def beside(block: Any) -> Iterator[str]:
        for op in block:
            name = str(op.operation.name)
            if name in _OF_HOST:
                for region in op.operation.regions:
                    for inner in region:
                        yield from beside(inner)
            elif not is_known(op):
                yield name

    names = list(beside(block))
    few = not names or len(names) <= FEW_BESIDE and all(n in _BESIDE for n in names) and (
        sum(op.operation.name == "flow.dispatch" for op in block) >= DISPATCHES * len(names))
    return len(names) if few else -1


def is_tensor(v: Any) -> bool:
    """Whether an ir.Value is a tensor."""
    return str(v.type).startswith("tensor<")


def is_inexact(v: Any) -> bool:
    """Whether an ir.Value is a tensor of floats or complex numbers."""
    element = str(v.type).rpartition("x")[2].removeprefix("tensor<")
    return "complex" in str(v.type) or element.startswith(("f", "bf"))
