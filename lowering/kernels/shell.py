"""The executable around a kernel written here: its bindings, scratch and workgroups, and the
dispatch that calls it.  Start reading at `Shell`.
"""
from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from calque.core.avals import ShapedArray
from calque.core.program import Equation, Literal
from calque.core.types import Dtype, Ndarray, Shape
from calque.lowering.compiler.server import FUNCTIONS
from calque.lowering.emit import mlir
from calque.lowering.emit.builder import Value
from calque.lowering.emit.context import Context
from calque.lowering.emit.dtypes import BOOL, I8
from calque.lowering.kernels import memory
from calque.lowering.kernels.contract import registers_of
from calque.lowering.kernels.dispatch import dispatch
from calque.lowering.kernels.memory import Index, Memory
from calque.lowering.kernels.native import digest_of, linked
from calque.lowering.kernels.small import apart, joined
from calque.lowering.kernels.tensors import apply
from calque.lowering.kernels.values import KernelBuilder
from calque.lowering.passes.cost import MOST_BINDINGS

OFTEN, CALLED = 4, 2  # uses of a function in a kernel, and its weight, from which it is called
FEW = 128  # elements up to which twice is often: to compile it costs more than to call it
STACK = 16 * 1024  # bytes of scratch kept on the stack (IREE allows 32768)
Spec = tuple[tuple[int, ...], Dtype]


def bundles(operands: Sequence[Spec], results: Sequence[Spec], most: int
            ) -> tuple[list[list[int]], list[list[int]]]:
    """Which operands and which results lie together in one binding, so that there are at most
    `most`: of one dtype, small ones first; one that is alone keeps its shape."""
    every = [*[(False, i, s) for i, s in enumerate(operands)],
             *[(True, i, s) for i, s in enumerate(results)]]
    every.sort(key=lambda v: math.prod(v[2][0]) * v[2][1].itemsize)
    alone, joined = {(r, i) for r, i, _ in every}, dict[tuple[bool, Dtype], list[int]]()
    for r, i, (_, dtype) in every:
        if len(alone) + len(joined) <= most:
            break
        alone.remove((r, i))
        joined.setdefault((r, dtype), []).append(i)
    groups = [sorted(g) for g in joined.values()]
    found = [sorted([*[[i] for q, i in alone if q == r],
                     *[g for (q, _), g in zip(joined, groups) if q == r]]) for r in (False, True)]
    return found[0], found[1]


class Shell:
    """One executable with one function: operands, results and scratch as bindings; `c`: the object
    of the functions in C that it calls.

    A dispatch has few bindings: where there are more arrays, small ones share one.
    """

    def __init__(self, ctx: Context, family: str, xs: Sequence[Value],
                 outs: Sequence[ShapedArray], c: Path | None = None) -> None:
        ir = mlir.ir()
        self.family = family
        self.ctx, self.outs = ctx, [(o.shape, o.dtype) for o in outs]
        self.registers = registers_of(ctx.target)
        ctx.kernels += 1
        self.name = f"loop_{ctx.kernels}" + ("" if c is None else f"_{digest_of(c)}")
        self.groups = 1
        self.functions: dict[Any, str] = {}  # names of what is called, by what it does
        self.declared: set[str] = set()  # of those in C
        self.tables: dict[Any, str] = {}  # names of constants beside the code
        self.works: dict[Any, Any] = {}  # work space of those in C
        self.uses: Counter[Any] = Counter()
        self.often, self.heavy = OFTEN, 0
        with ir.InsertionPoint.at_block_begin(ctx.module.body):
            self.executable = ir.Operation.parse(
                f"stream.executable private @{self.name} {'' if c is None else linked(ctx, c)}"
                "{ builtin.module { } }")
            ir.InsertionPoint.current.insert(self.executable)
        self.exports = self.executable.regions[0].blocks[0]
        self.module = self.exports.operations[0]
        self.binding = ir.Type.parse("!stream.binding", mlir.context())
        self.specs = [(x.shape, x.dtype) for x in xs]
        self.taken, self.given = bundles(self.specs, self.outs, MOST_BINDINGS - 1)  # (and scratch)
        count = len(self.taken) + len(self.given)
        with ir.InsertionPoint(self.module.regions[0].blocks[0]):
            self.function = ir.Operation.create("func.func", regions=1, attributes={
                "sym_name": ir.StringAttr.get(self.name), "function_type": self.type_of(count)})
        self.block = self.function.regions[0].blocks.append(
            *[self.binding] * count, arg_locs=[ir.Location.unknown()] * count)
        self.stack, self.scratch, self.scratch_binding = 0, 0, None
        self.each: Any = None  # bytes of scratch of one workgroup, where there are several
        with ir.InsertionPoint(self.block):
            self.mark = memory.index(0).owner
        self.operands = self.bound(0, self.taken, self.specs)
        self.results = self.bound(len(self.taken), self.given, self.outs)

    def type_of(self, count: int) -> Any:
        ir = mlir.ir()
        return ir.TypeAttr.get(ir.FunctionType.get([self.binding] * count, []))

    def inside(self) -> Any:
        return mlir.ir().InsertionPoint(self.block)

    def distribute(self, groups: int) -> Index:
        """Several workgroups, with scratch of their own; the number of this one."""
        self.groups = groups
        with mlir.ir().InsertionPoint(self.mark):
            group = mlir.value("stream.dispatch.workgroup.id", memory.index_type(),
                               dimension="0 : index")
            each = memory.index(0)
            self.each = each.owner  # its number is known when the function is closed
            self.own = memory.computed("muli", group, each)
        return group

    def subspan(self, binding: Any, offset: Index, shape: Shape, dtype: Dtype) -> Memory:
        with mlir.ir().InsertionPoint(self.mark):
            kind = memory.memref_type(max(1, math.prod(shape)), dtype)
            ref = mlir.value("stream.binding.subspan", kind, [binding, memory.index(offset)])
        return Memory(ref, 0, shape, memory.row_major(shape), dtype)

    def bound(self, first: int, groups: list[list[int]], specs: list[Spec]) -> list[Memory]:
        """The memory of each of `specs`, whose groups are the bindings from `first` on."""
        found: dict[int, Memory] = {}
        for k, group in enumerate(groups):
            sizes = [math.prod(specs[i][0]) for i in group]
            whole = self.subspan(self.block.arguments[first + k], 0,
                                 _together(group, specs)[0], specs[group[0]][1])
            for i, at in zip(group, itertools.accumulate(sizes, initial=0)):
                shape = specs[i][0]
                found[i] = whole.view(shape, memory.row_major(shape), at)
        return [found[i] for i in range(len(specs))]

    def allocate(self, shape: Shape, dtype: Dtype) -> Memory:
        """Scratch: on the stack while that lasts, where LLVM can turn it into registers."""
        ir, size = mlir.ir(), max(1, math.prod(shape))
        nbytes = -(-size * dtype.itemsize // 64) * 64
        if self.stack + nbytes <= STACK:
            self.stack += nbytes
            with ir.InsertionPoint(self.mark):
                ref = mlir.value("memref.alloca", memory.memref_type(size, dtype),
                                 operandSegmentSizes="array<i32: 0, 0>", alignment="64 : i64")
            return Memory(ref, 0, shape, memory.row_major(shape), dtype)
        if self.scratch_binding is None:
            self.scratch_binding = self.block.add_argument(self.binding, ir.Location.unknown())
        with ir.InsertionPoint(self.mark):
            offset = self.scratch if self.each is None else memory.add(self.own, self.scratch)
        made = self.subspan(self.scratch_binding, offset, shape, dtype)
        self.scratch += nbytes
        return made

    def count(self, equations: Iterable[Equation], times: Callable[[Equation], int] = lambda e: 1
              ) -> None:
        """Know what the kernel will compute: functions that are used often are written once."""
        for e in equations:
            self.uses[_function(e)] += times(e)

    def apply(self, b: KernelBuilder, e: Equation, xs: Sequence[Value]) -> Value:
        """An elementwise equation on registers, by its rule or by a call."""
        key = _function(e)
        uses, weight = self.uses[key], e.weight
        if uses < self.often or weight < CALLED or uses * weight < self.heavy or any(
                x.dtype == BOOL for x in xs):
            return apply(b, e, xs)
        result = b.type_of(e.outputs[0].aval.dtype)
        if (*key, b.lanes) not in self.functions:
            if self.ctx.functions == len(FUNCTIONS):
                return apply(b, e, xs)
            self.functions[*key, b.lanes] = self.write(
                [x.ir.type for x in xs], [result], lambda given: [
                    apply(b, e, [Value(b, v, (), x.dtype) for v, x in zip(given, xs)]).ir])
        made = mlir.value("func.call", result, [x.ir for x in xs],
                          callee=f"@{self.functions[*key, b.lanes]}")
        return Value(b, made, (), e.outputs[0].aval.dtype)

    def written(self, e: Equation, operands: Sequence[Memory],
                body: Callable[[Sequence[Memory]], None]) -> None:
        """body(operands), which does what an equation says and no more, in place or by a call."""
        if self.uses[_function(e)] < 2:
            body(operands)
            return
        key = (_function(e), *[(m.ref.type, m.shape, m.strides,
                                m.base if isinstance(m.base, int) else None) for m in operands])
        given = [v for m in operands
                 for v in (m.ref, *(() if isinstance(m.base, int) else (m.base,)))]
        if key not in self.functions:
            if self.ctx.functions == len(FUNCTIONS):
                body(operands)
                return

            def inside(arguments: Sequence[Any]) -> list[Any]:
                left = iter(arguments)
                body([replace(m, ref=next(left), base=m.base if isinstance(m.base, int)
                              else next(left)) for m in operands])
                return []

            self.functions[key] = self.write([v.type for v in given], [], inside)
        mlir.operation("func.call", [], given, {"callee": f"@{self.functions[key]}"})

    def write(self, types: Sequence[Any], results: Sequence[Any],
              body: Callable[[Sequence[Any]], Sequence[Any]]) -> str:
        """A function of MLIR values; its name."""
        ir, name = mlir.ir(), FUNCTIONS[self.ctx.functions]
        self.ctx.functions += 1
        with ir.InsertionPoint.at_block_begin(self.module.regions[0].blocks[0]):
            function = ir.Operation.create("func.func", regions=1, attributes={
                "sym_name": ir.StringAttr.get(name),
                "sym_visibility": ir.StringAttr.get("private"),
                "no_inline": ir.UnitAttr.get(),  # (for MLIR; of LLVM compiler_server asks it)
                "function_type": ir.TypeAttr.get(ir.FunctionType.get(
                    list(types), list(results)))})
        block = function.regions[0].blocks.append(
            *types, arg_locs=[ir.Location.unknown()] * len(types))
        with ir.InsertionPoint(block):
            mlir.operation("func.return", [], body(list(block.arguments)))
        return name

    def pointer(self, m: Memory, at: Index) -> list[Any]:
        """An array and a place in it as functions in C take them."""
        kind = mlir.ir().MemRefType(m.ref.type)
        bare = mlir.ir().Type.parse(f"memref<{kind.element_type}>", mlir.context())
        parts = mlir.operation("iree_codegen.extract_strided_metadata",
                               [bare, *[memory.index_type()] * 3], [m.ref]).results
        return [parts[0], memory.index(memory.add(memory.add(parts[1], m.base), at))]

    def table(self, values: Ndarray) -> list[Any]:
        """Constants that lie beside the code, as functions in C take them."""
        key = values.dtype, values.tobytes()
        kind = memory.memref_type(values.size, values.dtype)
        if key not in self.tables:
            self.tables[key] = name = f"table{len(self.tables)}_{self.name}"
            with mlir.ir().InsertionPoint.at_block_begin(self.module.regions[0].blocks[0]):
                mlir.ir().InsertionPoint.current.insert(mlir.ir().Operation.parse(
                    f'memref.global "private" constant @{name} : {kind} = '
                    f'dense<"0x{key[1].hex()}">'))
        with mlir.ir().InsertionPoint(self.mark):
            ref = mlir.value("memref.get_global", kind, [], name=f"@{self.tables[key]}")
        return self.pointer(Memory(ref, 0, (values.size,), (1,), values.dtype), 0)

    def call_c(self, entry: str, given: Sequence[Any]) -> None:
        """A call of a function in C."""
        ir = mlir.ir()
        if entry not in self.declared:
            self.declared.add(entry)
            types = ", ".join(str(v.type) for v in given)
            with ir.InsertionPoint.at_block_begin(self.module.regions[0].blocks[0]):
                ir.InsertionPoint.current.insert(ir.Operation.parse(
                    f"func.func private @{entry}({types}) "
                    "attributes {hal.import.static, llvm.bareptr = true}"))
        mlir.operation("func.call", [], given, {"callee": f"@{entry}"})

    def dispatch(self, xs: Sequence[Value], equations: Sequence[Equation] = ()) -> list[Value]:
        """Close the function and call it from the program; `equations` as in dispatch."""
        self.close()
        return self.call(xs, equations)

    def close(self) -> None:
        """The end of the function, and its export."""
        ir = mlir.ir()
        with self.inside():
            mlir.operation("func.return", [], [])
        if self.each is not None:
            self.each.attributes["value"] = ir.Attribute.parse(f"{self.scratch} : index")
        nbytes = self.scratch * self.groups
        self.made = [*[_together(g, self.outs) for g in self.given],
                     *([((nbytes,), I8)] if nbytes else [])]
        self.function.attributes["function_type"] = self.type_of(len(self.taken) + len(self.made))
        with ir.InsertionPoint.at_block_begin(self.exports):
            export = ir.Operation.create("stream.executable.export", regions=1, attributes={
                "sym_name": ir.StringAttr.get(self.name),
                "sym_visibility": ir.StringAttr.get("public"),
                "function_ref": ir.FlatSymbolRefAttr.get(self.name)})
            with ir.InsertionPoint(export.regions[0].blocks.append()):
                sizes = [memory.index(self.groups), memory.index(1), memory.index(1)]
                mlir.operation("stream.return", [], sizes)

    def call(self, xs: Sequence[Value], equations: Sequence[Equation] = ()) -> list[Value]:
        """The results of one more call of what is closed."""
        operands = [joined(self.ctx, [xs[i] for i in g]) for g in self.taken]
        made = dispatch(self.ctx, self.family, self.name, operands, self.made, groups=self.groups,
                        equations=equations)
        found: dict[int, Value] = {}
        for group, v in zip(self.given, made):
            found.update(zip(group, apart(self.ctx, v, [self.outs[i][0] for i in group])))
        return [found[i] for i in range(len(self.outs))]


def _function(e: Equation) -> Any:
    """What an elementwise equation, or a product, computes of its operands."""
    return (e.name, e.outputs[0].aval.dtype, *[a.aval.dtype for a in e.inputs],
            *[a.aval.shape for a in e.inputs if e.primitive.kernel != "map"],
            *e.params_key,
            *[np.asarray(a.value).tobytes() for a in e.inputs if isinstance(a, Literal)])


def _together(group: list[int], specs: Sequence[Spec]) -> Spec:
    """The array that holds those of a group."""
    if len(group) == 1:
        return specs[group[0]]
    return (sum(math.prod(specs[i][0]) for i in group),), specs[group[0]][1]
