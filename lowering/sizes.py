"""Sizes that are known at the call only: index values in the program, and the operations on arrays
that take them.

StableHLO's dynamic operations take sizes as tensors and IREE's knowledge of them is thin, so most
of what moves elements is written with tensor ops, whose sizes are operands: a `Dim` becomes
arithmetic on the sizes of arguments, once, at the function's start.  `tensor` ops know no unsigned
integers: `signless` goes round them.  Builder's methods come here when a shape holds a Dim.
Start reading at `Sizes`.  Imports lowering.mlir and core.dims.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from calque.core.dims import Dim, is_static, max_dim, quotient
from calque.core.errors import InconclusiveDimensionOperation, explain
from calque.lowering import mlir
from calque.lowering.value import Value

if TYPE_CHECKING:
    from calque.lowering.builder import Builder

DYNAMIC = -(2**63)  # MLIR's mark for sizes that are operands
_OPS = {
    "add": "arith.addi",
    "mul": "arith.muli",
    "floordiv": "arith.floordivsi",
    "max": "arith.maxsi",
    "min": "arith.minsi",
}


class Sizes:
    """The dimensions of one function as index values; all stand at its start."""

    def __init__(self, anchor: Any) -> None:
        self.anchor = anchor  # an operation: what is computed goes before it
        self.known: dict[Any, Any] = {}  # int or Dim or (op, values) -> ir.Value

    def define(self, name: str, size: Any, factor: int, offset: int) -> None:
        """A variable of which size = factor * variable + offset is an argument's (checked at the
        call)."""
        if offset:
            size = self._op("add", size, self.of(-offset))
        self.known[name] = size if factor == 1 else self._op("floordiv", size, self.of(factor))

    def of(self, d: Any) -> Any:
        """The index value of a size."""
        found = self.known.get(d)
        if found is None:
            found = self.known[d] = (
                d.compute(self._variable, self.of, self._op)
                if isinstance(d, Dim)
                else self._constant(int(d))
            )
        return found

    def _variable(self, name: str) -> Any:
        if name not in self.known:
            raise InconclusiveDimensionOperation(
                explain(
                    f"Encountered dimension variable '{name}' that is not appearing in the "
                    "shapes of the function arguments.",
                    fix="dimensions come from the shapes of arguments: give one such an axis.",
                )
            )
        return self.known[name]

    def _constant(self, n: int) -> Any:
        ir = mlir.ir()
        with ir.InsertionPoint(self.anchor):
            index = ir.IndexType.get()
            return ir.Operation.create(
                "arith.constant",
                results=[index],
                attributes={"value": ir.IntegerAttr.get(index, n)},
            ).results[0]

    def _op(self, name: str, x: Any, y: Any) -> Any:
        if name == "mod":
            return self._op(
                "add",
                x,
                self._op("mul", self._op("mul", self._op("floordiv", x, y), y), self.of(-1)),
            )
        key = (name, x, y)
        found = self.known.get(key)
        if found is None:
            ir = mlir.ir()
            with ir.InsertionPoint(self.anchor):
                found = self.known[key] = ir.Operation.create(
                    _OPS[name], results=[ir.IndexType.get()], operands=[x, y]
                ).results[0]
        return found

    # ---- what operations take
    def dynamic(self, shape: Sequence[Any]) -> list[Any]:
        """The sizes of a shape that are operands."""
        return [self.of(d) for d in shape if isinstance(d, Dim)]

    def vector(self, shape: Sequence[Any]) -> Any:
        """All sizes of a shape as a tensor<nxindex>."""
        ir = mlir.ir()
        kind = ir.Type.parse(f"tensor<{len(shape)}xindex>", mlir.context())
        return ir.Operation.create(
            "tensor.from_elements", results=[kind], operands=[self.of(d) for d in shape]
        ).results[0]


def numbers(values: Sequence[Any]) -> Any:
    """A static array attribute, DYNAMIC for what is an operand."""
    body = ", ".join(str(DYNAMIC if isinstance(v, Dim) else int(v)) for v in values)
    return mlir.ir().Attribute.parse(f"array<i64: {body}>" if body else "array<i64>")


def segments(*counts: int) -> Any:
    return mlir.ir().Attribute.parse(f"array<i32: {', '.join(map(str, counts))}>")


def signless(b: Builder, x: Value, move: Callable[[Value], Value]) -> Value:
    """move(x), through a signed type where x is unsigned and as two halves where it is complex."""
    if x.dtype.kind == "u":
        return move(x.view(np.dtype(f"i{x.dtype.itemsize}"))).view(x.dtype)
    if x.dtype.kind == "c":
        return b.complex(move(b.real(x)), move(b.imag(x)))
    return move(x)


def _make(
    b: Builder,
    name: str,
    x: Value,
    shape: tuple[Any, ...],
    operands: Sequence[Any],
    attributes: dict[str, Any],
) -> Value:
    made = mlir.ir().Operation.create(
        name, results=[mlir.tensor_type(shape, x.dtype)], operands=operands, attributes=attributes
    )
    return Value(b, made.results[0], shape, x.dtype)


def extract(
    b: Builder, x: Value, start: Sequence[Any], sizes: Sequence[Any], strides: Sequence[int]
) -> Value:
    """tensor.extract_slice; places and sizes are ints, Dims or (places) index values."""
    offsets = [s for s in start if not isinstance(s, int)]
    at = [b.extents.of(s) if isinstance(s, Dim) else s for s in offsets]
    marks = [s if isinstance(s, int) else None for s in start]
    body = ", ".join(str(DYNAMIC if s is None else s) for s in marks)
    dynamic, steps = b.extents.dynamic(sizes), b.extents.dynamic(strides)

    def cut(v: Value) -> Value:
        return _make(
            b,
            "tensor.extract_slice",
            v,
            tuple(sizes),
            [v.ir, *at, *dynamic, *steps],
            {
                "static_offsets": mlir.ir().Attribute.parse(f"array<i64: {body}>"),
                "static_sizes": numbers(sizes),
                "static_strides": numbers(strides),
                "operandSegmentSizes": segments(1, len(at), len(dynamic), len(steps)),
            },
        )

    return signless(b, x, cut)


def insert(b: Builder, x: Value, update: Value, start: Sequence[Any]) -> Value:
    """tensor.insert_slice of update into x; places are ints, Dims or index values."""
    if x.dtype.kind == "u":
        kind = np.dtype(f"i{x.dtype.itemsize}")
        return insert(b, x.view(kind), update.view(kind), start).view(x.dtype)
    if x.dtype.kind == "c":
        return b.complex(
            insert(b, b.real(x), b.real(update), start), insert(b, b.imag(x), b.imag(update), start)
        )
    at = [b.extents.of(s) if isinstance(s, Dim) else s for s in start if not isinstance(s, int)]
    body = ", ".join(str(s if isinstance(s, int) else DYNAMIC) for s in start)
    dynamic = b.extents.dynamic(update.shape)
    return _make(
        b,
        "tensor.insert_slice",
        x,
        x.shape,
        [update.ir, x.ir, *at, *dynamic],
        {
            "static_offsets": mlir.ir().Attribute.parse(f"array<i64: {body}>"),
            "static_sizes": numbers(update.shape),
            "static_strides": numbers([1] * len(start)),
            "operandSegmentSizes": segments(1, 1, len(at), len(dynamic), 0),
        },
    )


# ---- reshape
def reshape(b: Builder, x: Value, shape: tuple[Any, ...]) -> Value:
    """Axes that belong together are merged, then split."""
    groups = _groups(x.shape, shape)
    if groups is None:
        groups = [(list(range(len(x.shape))), list(range(len(shape))))]
    merged = tuple(math.prod(x.shape[i] for i in ins) for ins, _ in groups)
    ins = [list(i) for i, _ in groups]
    outs = [list(o) for _, o in groups]

    def move(v: Value) -> Value:
        if len(merged) != len(v.shape) or any(len(i) != 1 for i in ins):
            v = _collapse(b, v, ins, merged)
        if len(merged) != len(shape) or any(len(o) != 1 for o in outs):
            v = _expand(b, v, outs, shape)
        return v

    if not x.shape or not shape:  # rank 0 on a side: all sizes there are 1 in disguise
        return signless(b, x, lambda v: _by_flow(b, v, shape))
    return signless(b, x, move)


def _groups(old: Sequence[Any], new: Sequence[Any]) -> list[tuple[list[int], list[int]]] | None:
    """Runs of axes with equal products, as short as possible; None where only all agree."""
    groups: list[tuple[list[int], list[int]]] = []
    i = j = 0
    while i < len(old) or j < len(new):
        ins, outs = [], []
        p: Any = 1
        q: Any = 1
        if i < len(old):
            ins.append(i)
            p, i = old[i], i + 1
        if j < len(new):
            outs.append(j)
            q, j = new[j], j + 1
        while p != q:
            more = quotient(q, p)
            if more is not None and i < len(old) and more != 1:
                ins.append(i)
                p, i = p * old[i], i + 1
            elif quotient(p, q) is not None and j < len(new):
                outs.append(j)
                q, j = q * new[j], j + 1
            elif i < len(old):
                ins.append(i)
                p, i = p * old[i], i + 1
            elif j < len(new):
                outs.append(j)
                q, j = q * new[j], j + 1
            else:
                return None
        groups.append((ins, outs))
    # axes of size 1 that belong to nothing join a neighbour
    result: list[tuple[list[int], list[int]]] = []
    for ins, outs in groups:
        if result and (not ins or not outs or not result[-1][0] or not result[-1][1]):
            result[-1] = (result[-1][0] + ins, result[-1][1] + outs)
        else:
            result.append((ins, outs))
    if len(result) > 1 and (not result[-1][0] or not result[-1][1]):
        last = result.pop()
        result[-1] = (result[-1][0] + last[0], result[-1][1] + last[1])
    return result if all(ins and outs for ins, outs in result) else None


def _nested(groups: Sequence[Sequence[int]]) -> Any:
    rows = ", ".join("[" + ", ".join(f"{i} : i64" for i in g) + "]" for g in groups)
    return mlir.ir().Attribute.parse(f"[{rows}]")


def _collapse(
    b: Builder, x: Value, groups: Sequence[Sequence[int]], shape: tuple[Any, ...]
) -> Value:
    return _make(b, "tensor.collapse_shape", x, shape, [x.ir], {"reassociation": _nested(groups)})


def _expand(b: Builder, x: Value, groups: Sequence[Sequence[int]], shape: tuple[Any, ...]) -> Value:
    return _make(
        b,
        "tensor.expand_shape",
        x,
        shape,
        [x.ir, *b.extents.dynamic(shape)],
        {"reassociation": _nested(groups), "static_output_shape": numbers(shape)},
    )


def _by_flow(b: Builder, x: Value, shape: tuple[Any, ...]) -> Value:
    before, after = b.extents.dynamic(x.shape), b.extents.dynamic(shape)
    return _make(
        b,
        "flow.tensor.reshape",
        x,
        shape,
        [x.ir, *before, *after],
        {"operandSegmentSizes": segments(1, len(before), len(after))},
    )


# ---- others
def broadcast(b: Builder, x: Value, shape: tuple[Any, ...], dims: Sequence[int]) -> Value:
    """broadcast_in_dim to sizes that are operands: a linalg.generic that reads along some axes."""
    if not x.shape:
        return full(b, x, shape)
    kept = [i for i, d in enumerate(dims) if x.shape[i] == shape[d]]
    if len(kept) < len(dims):  # the others are 1
        x = b.reshape(x, tuple(x.shape[i] for i in kept))
        dims = [dims[i] for i in kept]
    ir, rank = mlir.ir(), len(shape)
    every = ", ".join(f"d{i}" for i in range(rank))
    maps = [
        f"affine_map<({every}) -> ({', '.join(f'd{d}' for d in dims)})>",
        f"affine_map<({every}) -> ({every})>",
    ]

    def spread(v: Value) -> Value:
        op = ir.Operation.create(
            "linalg.generic",
            results=[mlir.tensor_type(shape, v.dtype)],
            operands=[v.ir, b.empty(shape, v.dtype)],
            regions=1,
            attributes={
                "indexing_maps": ir.Attribute.parse(f"[{', '.join(maps)}]"),
                "iterator_types": ir.Attribute.parse(
                    f"[{', '.join(['#linalg.iterator_type<parallel>'] * rank)}]"
                ),
                "operandSegmentSizes": segments(1, 1),
            },
        )
        element = v.ir.type.element_type
        block = op.regions[0].blocks.append(element, element)
        with ir.InsertionPoint(block):
            ir.Operation.create("linalg.yield", operands=[block.arguments[0]])
        return Value(b, op.results[0], shape, v.dtype)

    return signless(b, x, spread)


def full(b: Builder, value: Value, shape: tuple[Any, ...]) -> Value:
    """One value everywhere, as linalg.fill: IREE makes one for each use.  Of another operation it
    makes one for all, and updates of several overwrite each other
    (tests/lowering/test_dynamic.py)."""
    ir = mlir.ir()

    def fill(v: Value) -> Value:
        one = ir.Operation.create(
            "tensor.extract", results=[v.ir.type.element_type], operands=[v.ir]
        ).results[0]
        return Value(b, mlir.fill(one, b.empty(shape, v.dtype)), shape, v.dtype)

    return signless(b, value, fill)


def concatenate(b: Builder, xs: Sequence[Value], axis: int, shape: tuple[Any, ...]) -> Value:
    """Parts written behind each other into new memory."""
    dtype = xs[0].dtype
    if dtype.kind == "u":
        kind = np.dtype(f"i{dtype.itemsize}")
        return concatenate(b, [x.view(kind) for x in xs], axis, shape).view(dtype)
    if dtype.kind == "c":
        return b.complex(
            *[concatenate(b, [f(x) for x in xs], axis, shape) for f in (b.real, b.imag)]
        )
    out, at = Value(b, b.empty(shape, dtype), shape, dtype), 0
    for x in xs:
        out = insert(b, out, x, [at if i == axis else 0 for i in range(len(shape))])
        at = at + x.shape[axis]
    return out


def tied(b: Builder, x: Value) -> Value:
    """x and the sizes that it has."""
    return signless(
        b,
        x,
        lambda v: _make(
            b, "flow.tensor.tie_shape", v, v.shape, [v.ir, *b.extents.dynamic(v.shape)], {}
        ),
    )


def iota(b: Builder, shape: tuple[Any, ...], dtype: Any, axis: int) -> Value:
    ir = mlir.ir()
    made = ir.Operation.create(
        "stablehlo.dynamic_iota",
        results=[mlir.tensor_type(shape, np.dtype(dtype))],
        operands=[b.extents.vector(shape)],
        attributes={"iota_dimension": ir.Attribute.parse(f"{axis} : i64")},
    )
    return Value(b, made.results[0], shape, np.dtype(dtype))


def pad(b: Builder, x: Value, value: Value, config: Sequence[tuple[Any, Any, int]]) -> Value:
    """x in the middle of an array full of value; no size is negative."""
    shape = tuple(
        lo + hi + n + (i * max_dim(0, n - 1) if i else 0) for n, (lo, hi, i) in zip(x.shape, config)
    )
    if x.dtype.kind == "u":
        kind = np.dtype(f"i{x.dtype.itemsize}")
        return pad(b, x.view(kind), value.view(kind), config).view(x.dtype)
    if all(i == 0 for _, _, i in config):
        return insert(b, full(b, value, shape), x, [lo for lo, _, _ in config])
    for axis, (_, _, i) in enumerate(
        config
    ):  # a column of values behind each element, but the last
        if i:
            before, n, after = x.shape[:axis], x.shape[axis], x.shape[axis + 1 :]
            x = pad(
                b,
                b.reshape(x, (*before, n, 1, *after)),
                value,
                [*[(0, 0, 0)] * (axis + 1), (0, i, 0), *[(0, 0, 0)] * len(after)],
            )
            x = b.reshape(x, (*before, n * (1 + i), *after))
            limit = [*before, n + i * max_dim(0, n - 1), *after]
            x = b.slice(x, [0] * len(limit), limit)
    return b.pad(x, value, [(lo, hi, 0) for lo, hi, _ in config])


def scalar(b: Builder, d: Any, dtype: Any) -> Value:
    """A size as an array of rank 0."""
    ir, dtype = mlir.ir(), np.dtype(dtype)
    kind = np.dtype(f"i{dtype.itemsize}") if dtype.kind in "iu" else np.dtype(np.int64)
    element = ir.IntegerType.get_signless(8 * kind.itemsize, mlir.context())
    cast = ir.Operation.create("arith.index_cast", results=[element], operands=[b.extents.of(d)])
    # (of tensor.from_elements IREE makes one of the unsigned type that it is converted to, and
    # rejects that: tests/lowering/test_dynamic_windows.py)
    made = mlir.fill(cast.results[0], b.empty((), kind))
    found = Value(b, made, (), kind)
    return (
        found if kind == dtype else found.view(dtype) if dtype.kind == "u" else found.astype(dtype)
    )


def is_dynamic(*shapes: Sequence[Any]) -> bool:
    return not all(map(is_static, shapes))
