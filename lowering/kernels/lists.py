"""A kernel that does the same elementwise work on each array of a list (passes/lists).

The work is a function, written once, that is told an array's memory and a range of it; the kernel
calls it for each place of the list.  Sizes are numbers that a dispatch gives, so that lists of
other sizes share the executable.  Start reading at `emit_list`.
"""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from calque.core.avals import ShapedArray
from calque.core.program import Atom, Literal, Program, Var
from calque.core.types import Dtype
from calque.lowering.compiler.server import FUNCTIONS
from calque.lowering.emit import mlir
from calque.lowering.emit.builder import Value
from calque.lowering.emit.context import Context
from calque.lowering.emit.dtypes import BOOL
from calque.lowering.kernels import memory
from calque.lowering.kernels.dispatch import dispatch, executable, insert
from calque.lowering.kernels.memory import Memory
from calque.lowering.kernels.tensors import apply
from calque.lowering.kernels.values import SCALAR, KernelBuilder, scalar_text
from calque.lowering.passes.lists import List

VECTOR = 64  # bytes of the widest type that are computed at a time
ANY = 1 << 30  # elements that a view of unknown size is taken to have


def emit_list(ctx: Context, how: List, xs: Sequence[Value], outs: Sequence[ShapedArray],
              equations: Sequence[Any]) -> list[Value]:
    """The outputs of a list, place by place."""
    places = len(how.sizes)
    key = ("list", how.work, places, how.groups)
    if key not in ctx.sources:
        ctx.kernels += 1
        ctx.sources[key] = f"list_{ctx.kernels}"
        _write(ctx, ctx.sources[key], how)
    made = dispatch(ctx, "list", ctx.sources[key], ctx.entering(xs),
                    [(o.shape, o.dtype) for o in outs], numbers=how.sizes, groups=how.groups,
                    equations=equations)
    ctx.aliases.add_new(made)
    return made


def _write(ctx: Context, name: str, how: List) -> None:
    """The executable."""
    ir, part, places = mlir.ir(), how.part, len(how.sizes)
    own = len(part.inputs) - how.shared
    count = places * (own + len(part.outputs)) + how.shared
    sizes = "".join(f", %n{k}: i32" for k in range(places))
    insert(ctx.module, executable(name, count, how.groups, "", sizes))
    made = next(op for op in ctx.module.body.operations
                if "sym_name" in op.operation.attributes
                and op.operation.attributes["sym_name"].value == name)
    module = made.operation.regions[0].blocks[0].operations[1]
    block = module.operation.regions[0].blocks[0]
    main = block.operations[0].operation.regions[0].blocks[0]
    kinds = [v.aval for v in part.inputs] + [v.aval for v in part.outputs]
    callee = _function(ctx, block, part, kinds)
    with ir.InsertionPoint.at_block_terminator(main):
        _calls(main.arguments, how, kinds, callee)


def _calls(arguments: Sequence[Any], how: List, kinds: Sequence[ShapedArray],
           callee: str) -> None:
    """A call for each place, of the workgroup's range of its arrays."""
    part, places = how.part, len(how.sizes)
    own, made = len(part.inputs) - how.shared, len(part.outputs)
    results = places * own + how.shared
    group = mlir.value("stream.dispatch.workgroup.id", memory.index_type(),
                       dimension="0 : index") if how.groups > 1 else 0
    for k in range(places):
        n = mlir.value("arith.index_castui", memory.index_type(),
                       [arguments[results + places * made + k]])
        bindings = [*arguments[k * own:(k + 1) * own],
                    *arguments[places * own:places * own + how.shared],
                    *arguments[results + k * made:results + (k + 1) * made]]
        refs = [_subspan(b, n if a.shape else 1, a.dtype)
                for b, a in zip(bindings, kinds, strict=True)]
        first, end = _range(n, group, how.groups)
        mlir.operation("func.call", [], [*refs, first, end], {"callee": f"@{callee}"})


def _range(n: Any, group: Any, groups: int) -> tuple[Any, Any]:
    """A workgroup's part of n elements, in whole lines but for the last."""
    if groups == 1:
        return memory.index(0), n
    each = memory.computed("muli", memory.computed("ceildivui", n, groups * VECTOR), VECTOR)
    first = memory.computed("minui", memory.computed("muli", group, each), n)
    return first, memory.computed("minui", memory.computed("addi", first, each), n)


def _element(dtype: Dtype) -> str:
    return "i8" if dtype == BOOL else scalar_text(dtype)


def _kind(a: ShapedArray) -> Any:
    size = "?" if a.shape else "1"
    return mlir.ir().Type.parse(f"memref<{size}x{_element(a.dtype)}>", mlir.context())


def _subspan(binding: Any, n: Any, dtype: Dtype) -> Any:
    text = f"memref<{n if isinstance(n, int) else '?'}x{_element(dtype)}>"
    return mlir.value("stream.binding.subspan", mlir.ir().Type.parse(text, mlir.context()),
                      [binding, memory.index(0), *([] if isinstance(n, int) else [n])])


def _function(ctx: Context, block: Any, part: Program, kinds: Sequence[ShapedArray]) -> str:
    """The work on elements first to end of a place's arrays; its name."""
    ir, index = mlir.ir(), memory.index_type()
    name = FUNCTIONS[ctx.functions] if ctx.functions < len(FUNCTIONS) else f"part_{ctx.kernels}"
    ctx.functions += 1
    types = [*map(_kind, kinds), index, index]
    with ir.InsertionPoint.at_block_begin(block):
        function = ir.Operation.create("func.func", regions=1, attributes={
            "sym_name": ir.StringAttr.get(name), "sym_visibility": ir.StringAttr.get("private"),
            "no_inline": ir.UnitAttr.get(),
            "function_type": ir.TypeAttr.get(ir.FunctionType.get(types, []))})
    body = function.regions[0].blocks.append(*types, arg_locs=[ir.Location.unknown()] * len(types))
    with ir.InsertionPoint(body):
        *refs, first, end = body.arguments
        views = [Memory(r, 0, (ANY,), (1,), a.dtype) if a.shape else
                 Memory(r, 0, (), (), a.dtype) for r, a in zip(refs, kinds)]
        numbers = {v: memory.load(SCALAR, m, []) for v, m in zip(part.inputs, views)
                   if not v.aval.shape}
        lanes = VECTOR // max(a.dtype.itemsize for a in kinds)
        whole = memory.computed("addi", first, memory.computed("muli", memory.computed(
            "divui", memory.computed("subi", end, first), lanes), lanes))
        for b, start, stop, step in ((KernelBuilder(lanes), first, whole, lanes),
                                     (SCALAR, whole, end, 1)):
            def run(i: Any, b: KernelBuilder = b) -> list[Any]:
                _compute(b, part, views, numbers, i)
                return []

            memory.loop(stop, run, start=start, step=step)
        mlir.operation("func.return", [], [])
    return name


def _compute(b: KernelBuilder, part: Program, views: Sequence[Memory],
             numbers: dict[Var, Value], i: Any) -> None:
    """As many elements from i on as b has lanes."""
    env: dict[Atom, Value] = {v: b.to_lanes(x) for v, x in numbers.items()}
    for v, m in zip(part.inputs, views):
        if v.aval.shape:
            env[v] = memory.load(b, m, [i])

    def read(a: Atom) -> Value:
        return b.splat(a.value, (), a.aval.dtype) if isinstance(a, Literal) else env[a]

    for e in part.equations:
        given = [read(a) for a in e.inputs]
        env[e.outputs[0]] = given[0] if e.name == "broadcast_in_dim" else apply(b, e, given)
    for o, m in zip(part.outputs, views[len(part.inputs):]):
        memory.store(b, read(o), m, [i])
