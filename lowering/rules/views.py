"""Loops and branches from the host whose values are buffer views.

IREE 3.13 compiles a loop over arrays that holds another loop or a branch wrongly, or not at all:
"region branch point has 46 operands", "failed to solve for timepoint coverage", "circular
dependency", a resource that is null when the loop runs (docs/iree.md).  So what such a loop
carries, and what a branch in it gives, leaves the program as buffer views and comes back by
hal.tensor.export and import: each step is straight code between imports and exports, and the loop
is one of host values.  Steps take less time than IREE's own (benchmarks/host_loops.py).

Whose memory a view is, IREE no longer sees: what has been exported or imported is not written
into (AliasAnalysis.add_argument), but for what a loop alone has (`shared`, control.apart).
"""
from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from calque.core.dims import is_static
from calque.core.lists import types_of
from calque.lowering.emit import mlir
from calque.lowering.emit.aliasing import Roots
from calque.lowering.emit.builder import Builder, Value
from calque.lowering.emit.context import Context
from calque.lowering.emit.dtypes import I32, signed

Spec = tuple[tuple[int, ...], Any]


def is_possible(values: Sequence[Any]) -> bool:
    """Whether all sizes are known: those of a view would have to be carried beside it."""
    return all(is_static(v.shape) for v in values)


def counted(ctx: Context, length: int, state: Sequence[Value],
            step: Callable[[Value, list[Value]], list[Value]], shared: int) -> list[Value]:
    """state = step(i, state) for each i < length; what lies behind the first `shared` members is
    nobody else's, and is written into."""
    number = mlir.ir().IntegerType.get_signless(32)
    zero, one, end = (_int32(n) for n in (0, 1, length))

    def following(at: Any, values: list[Value]) -> tuple[Any, list[Value]]:
        results = step(_array(ctx.b, at), values)
        return mlir.value("arith.addi", number, [at, one]), results

    return _loop(ctx, zero, lambda at: _compared("slt", at, end), state, following, shared)


def conditional(ctx: Context, go: Value, state: Sequence[Value],
                step: Callable[[list[Value]], tuple[Value, list[Value]]], shared: int | None
                ) -> list[Value]:
    """While go: go, state = step(state); `shared` as in counted."""
    def following(_: Any, values: list[Value]) -> tuple[Any, list[Value]]:
        go, results = step(values)
        return _number(ctx.b, go), results

    return _loop(ctx, _number(ctx.b, go), lambda go: go, state, following, shared)


def _loop(ctx: Context, start: Any, go: Callable[[Any], Any], state: Sequence[Value],
          step: Callable[[Any, list[Value]], tuple[Any, list[Value]]],
          shared: int | None = None) -> list[Value]:
    """While go(number): number, state = step(number, state)."""
    specs, results = types_of(state), list(state)

    def body(number: Any, views: Any) -> list[Any]:
        nonlocal results
        with ctx.inside(loop=True):
            number, results = step(
                number, _imported(ctx, views, specs, _of(ctx, state[:shared]), shared))
            return [number, _exported(ctx, results)]

    _, views = mlir.while_loop([start, _exported(ctx, state)],
                               lambda number, views: [go(number), number, views], body)
    return _imported(ctx, views, specs, _of(ctx, state, results))


def branch(ctx: Context, index: Value, count: int, case: Callable[[int], list[Value]],
           specs: Sequence[Spec]) -> list[Value]:
    """What case(i) gives for the one i < count that index (int32, in range) is."""
    roots: list[Roots] = []

    def taken(i: int) -> Any:
        results = case(i)
        roots.append(_of(ctx, results))
        return _exported(ctx, results)

    chosen = _chosen(ctx, _number(ctx.b, index), count, taken)
    return _imported(ctx, chosen, specs, frozenset[int]().union(*roots))


def _chosen(ctx: Context, index: Any, count: int, taken: Callable[[int], Any], i: int = 0) -> Any:
    """The views of the i-th case or a later one."""
    if i == count - 1:
        return taken(i)
    ir = mlir.ir()
    op = ir.Operation.create("scf.if", results=[_list()], regions=2,
                             operands=[_compared("sle", index, _int32(i))])
    for k, region in enumerate(op.regions):
        with ir.InsertionPoint(region.blocks.append()), ctx.inside(loop=False):
            ir.Operation.create("scf.yield", operands=[
                taken(i) if k == 0 else _chosen(ctx, index, count, taken, i + 1)])
    return op.result


def _of(ctx: Context, *values: Sequence[Value]) -> Roots:
    """Whose memory these may be."""
    return frozenset[int]().union(*[ctx.aliases.roots_of(v) for some in values for v in some])


def _list() -> Any:
    return mlir.ir().Type.parse("!util.list<?>")


def _compared(how: str, x: Any, y: Any) -> Any:
    """Of two int32 on the host."""
    predicate = {"slt": 2, "sle": 3}[how]
    return mlir.value("arith.cmpi", mlir.ir().IntegerType.get_signless(1), [x, y],
                      predicate=f"{predicate} : i64")


def _int32(n: int) -> Any:
    return mlir.number(n, mlir.ir().IntegerType.get_signless(32))


def _array(b: Builder, number: Any) -> Value:
    """An array of rank 0, of an int32 on the host."""
    kind = I32
    made = mlir.value("tensor.from_elements", mlir.tensor_type((), kind), [number])
    return Value(b, made, (), kind)


def _number(b: Builder, v: Value) -> Any:
    """A number on the host, out of an array of rank 0."""
    return mlir.value("tensor.extract", v.ir.type.element_type, [v.ir])


def _exported(ctx: Context, values: Sequence[Value]) -> Any:
    """A list of views of these arrays.

    One list, not a view each: where a branch passes one reference twice, IREE's virtual machine may
    give null for one of them.
    """
    ir, views = mlir.ir(), []
    for v in values:
        ctx.aliases.protect(v)
        seen = ctx.b.bitcast(v, signed(v.dtype))
        views.append(mlir.value("hal.tensor.export", ir.Type.parse("!hal.buffer_view"), [seen.ir],
                                source_encoding=ir.TypeAttr.get(seen.ir.type)))
    # (util.list.set is a change that IREE may put behind the loop which reads the list)
    return mlir.value("util.list.construct", _list(), views)


def _imported(ctx: Context, views: Any, specs: Sequence[Spec], roots: Roots,
              shared: int | None = None) -> list[Value]:
    """The arrays of a list of views; `roots`: whose memory the first `shared` of them (None: all)
    may be.  IREE may write into the others."""
    ir, found = mlir.ir(), []
    for i, (shape, dtype) in enumerate(specs):
        kind = mlir.tensor_type(shape, signed(dtype))
        view = mlir.value("util.list.get", ir.Type.parse("!hal.buffer_view"),
                          [views, mlir.number(i, ir.IndexType.get())])
        ours = shared is not None and i >= shared
        result = mlir.value("hal.tensor.import", kind, [view],
                            target_encoding=ir.TypeAttr.get(kind),
                            operandSegmentSizes="array<i32: 1, 0, 0, 0>",
                            **{"consume": "unit"} if ours else {})
        value = Value(ctx.b, result, shape, signed(dtype))
        ctx.aliases.add_argument(value, protected=not ours)
        ctx.imported.add(id(value))
        found.append(ctx.b.bitcast(value, dtype))
        ctx.aliases.roots[found[-1]] = frozenset((id(value),)) if ours else roots | {id(value)}
    return found
