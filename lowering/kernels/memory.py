"""Flat memory in a kernel: `Memory` is a strided view of a 1-D memref; `load`, `store` and loops.

Indices are MLIR values of type index; `at` adds up base and strides, folding what is known.
bool is a byte in memory.  Start reading at `Memory`.
"""
from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from calque.core.types import Dtype, Shape
from calque.lowering.emit import mlir
from calque.lowering.emit.builder import Value, int_array
from calque.lowering.emit.dtypes import BOOL, I8, I32
from calque.lowering.kernels.values import SCALAR, KernelBuilder, scalar_text
from calque.lowering.passes.strided import CLOSE

Index = Any  # int, or an MLIR value of type index


def index_type() -> Any:
    return mlir.ir().Type.parse("index", mlir.context())


def index(i: Index) -> Any:
    """An MLIR value of type index."""
    return mlir.number(i, index_type()) if isinstance(i, int) else i


def computed(name: str, *operands: Index) -> Any:
    """An operation of arith that gives an index."""
    return mlir.value(f"arith.{name}", index_type(), [index(i) for i in operands])


def add(a: Index, b: Index) -> Index:
    if isinstance(a, int) and isinstance(b, int):
        return a + b
    if isinstance(a, int) and a == 0:
        return b
    if isinstance(b, int) and b == 0:
        return a
    return computed("addi", a, b)


def times(a: Index, k: int) -> Index:
    if isinstance(a, int):
        return a * k
    if k == 1:
        return a
    return 0 if k == 0 else computed("muli", a, k)


def quotient(a: Index, n: Index) -> Index:
    """a // n of what is not negative."""
    return a // n if isinstance(a, int) else computed("divui", a, n)


def remainder(a: Index, n: Index) -> Index:
    """a % n of what is not negative."""
    return a % n if isinstance(a, int) else computed("remui", a, n)


def number(i: Index) -> Value:
    """An index as an int32."""
    cast = mlir.value("arith.index_cast", SCALAR.type_of(I32), [index(i)])
    return Value(SCALAR, cast, (), I32)


def numbers(b: KernelBuilder, i: Index) -> Value:
    """An index and those behind it, a lane each, as int32."""
    first = b.to_lanes(number(i))
    return first if b.lanes == 1 else first + constant(b, range(b.lanes), I32)


def constant(b: KernelBuilder, values: Iterable[Any], dtype: Dtype) -> Value:
    """A vector with a value for each lane."""
    text, kind = ", ".join(str(v).lower() for v in values), b.type_of(dtype)
    made = mlir.value("arith.constant", kind, value=f"dense<[{text}]> : {kind}")
    return Value(b, made, (), dtype)


def clamped(start: Value, last: int, b: KernelBuilder = SCALAR) -> Value:
    """A position brought to 0..last."""
    if start.dtype.kind == "i":
        start = b.maximum(start, 0)
    return b.minimum(start, min(last, np.iinfo(start.dtype).max))


def position(start: Value) -> Index:
    """An integer that is not negative as an index."""
    return mlir.value("arith.index_cast" if start.dtype.kind == "i" else "arith.index_castui",
                      index_type(), [start.ir])


def row_major(shape: Sequence[int]) -> tuple[int, ...]:
    strides, step = [], 1
    for n in reversed(shape):
        strides.append(step)
        step *= n
    return tuple(reversed(strides))


@dataclass(frozen=True, slots=True, eq=False)
class Memory:
    """A view: element [i, j] lies at base + i * strides[0] + j * strides[1] of a flat memref."""

    ref: Any
    base: Index
    shape: Shape
    strides: Shape
    dtype: Dtype

    @property
    def size(self) -> int:
        return math.prod(self.shape)

    @property
    def ndim(self) -> int:
        return len(self.shape)

    def is_dense(self) -> bool:
        return all(s == w or n == 1
                   for s, w, n in zip(self.strides, row_major(self.shape), self.shape))

    def at(self, indices: Sequence[Index]) -> Index:
        return add(self.base, self.offset(range(len(self.strides)), indices))

    def offset(self, axes: Sequence[int], indices: Sequence[Index]) -> Index:
        """How far from the base indices along these axes lie."""
        out: Index = 0
        for axis, i in zip(axes, indices):
            out = add(out, times(i, self.strides[axis]))
        return out

    def view(self, shape: Sequence[int], strides: Sequence[int], base: Index = 0) -> Memory:
        return replace(self, base=add(self.base, base), shape=tuple(shape), strides=tuple(strides))

    def row(self, i: Index) -> Memory:
        """Element i along the first axis."""
        return self.view(self.shape[1:], self.strides[1:], times(i, self.strides[0]))

    def transposed(self, order: Sequence[int]) -> Memory:
        return self.view([self.shape[i] for i in order], [self.strides[i] for i in order])

    def cut(self, axis: int, first: Index, count: int, step: int = 1) -> Memory:
        """Every step-th element of an axis."""
        shape, strides = list(self.shape), list(self.strides)
        shape[axis], strides[axis] = count, step * strides[axis]
        return self.view(shape, strides, times(first, self.strides[axis]))

    def reshaped(self, shape: Shape) -> Memory | None:
        """The same elements in another shape, where no copy is needed."""
        if self.is_dense():
            return self.view(shape, row_major(shape))
        if [n for n in self.shape if n != 1] == [n for n in shape if n != 1]:  # units come and go
            kept = iter([s for n, s in zip(self.shape, self.strides) if n != 1])
            return self.view(shape, [0 if n == 1 else next(kept) for n in shape])
        return None


def memref_type(size: int, dtype: Dtype) -> Any:
    element = "i8" if dtype == BOOL else scalar_text(dtype)
    return mlir.ir().Type.parse(f"memref<{size}x{element}>", mlir.context())


def widest(dtype: Dtype) -> int:
    """Lanes of one vector: 64 bytes."""
    return max(2, 64 // max(4, dtype.itemsize))


def load(b: KernelBuilder, m: Memory, where: Sequence[Index]) -> Value:
    """The element at `where`, or as many as b has lanes along the last axis."""
    at = m.at(where)
    stride = m.strides[-1] if m.strides else 0
    if b.lanes == 1 or stride == 0:
        one = _load(SCALAR, m, at)
        return b.to_lanes(one) if b.lanes > 1 else one
    if stride == 1:
        return _load(b, m, at)
    if stride == -1:
        return _shuffled(b, b, m, add(at, 1 - b.lanes), range(b.lanes - 1, -1, -1))
    if 2 <= stride <= CLOSE and b.lanes > CLOSE:
        return _every(b, m, at, stride)
    return _together(b, [_raw(SCALAR, m, add(at, k * stride)) for k in range(b.lanes)], m.dtype)


def _every(b: KernelBuilder, m: Memory, at: Index, step: int) -> Value:
    """Every step-th element from `at` on: of as many vectors, the last of which ends with the last
    of them, so that nothing behind it is read."""
    n, kind = b.lanes, b.type_of(_kept(m.dtype))
    starts = [min(j * n, (n - 1) * step + 1 - n) for j in range(step)]
    found = _raw(b, m, at)
    order = [i * step for i in range(n)]  # places in what is found and the vector behind it
    for j, start in enumerate(starts[1:], 1):
        last = j == step - 1
        mask = [order[i] if i * step < j * n else n + i * step - start if last or (
            i * step < (j + 1) * n) else 0 for i in range(n)]
        found = mlir.value("vector.shuffle", kind, [found, _raw(b, m, add(at, start))],
                           mask=int_array(mask))
        order = list(range(n))
    return _as_value(b, found, m.dtype)


def load_pair(b: KernelBuilder, m: Memory, at: Index) -> tuple[Value, Value]:
    """The real and the imaginary parts, which lie in turn, of as many complex numbers from number
    `at` on as b has lanes."""
    first = add(m.base, times(at, 2))
    if b.lanes == 1:
        return _load(SCALAR, m, first), _load(SCALAR, m, add(first, 1))
    n = 2 * b.lanes
    re, im = (_shuffled(b, KernelBuilder(n), m, first, range(k, n, 2)) for k in (0, 1))
    return re, im


def store_pair(b: KernelBuilder, re: Value, im: Value, m: Memory, at: Index) -> None:
    """Write them so."""
    first = times(at, 2)
    if b.lanes == 1:
        for k, x in enumerate((re, im)):
            mlir.operation("memref.store", [], [x.ir, m.ref, index(add(m.base, add(first, k)))])
        return
    both = KernelBuilder(2 * b.lanes)
    turn = [k for i in range(b.lanes) for k in (i, b.lanes + i)]
    made = mlir.value("vector.shuffle", both.type_of(m.dtype), [re.ir, im.ir],
                      mask=int_array(turn))
    mlir.operation("vector.store", [], [made, m.ref, index(add(m.base, first))])


def is_tile(m: Memory, n: int) -> bool:
    """Whether `load_tile` reads rows of n elements of a view, its last axis, by whole vectors."""
    return m.strides[-1] in (0, 1) and (m.strides[-2] in (0, n, -n) or m.strides[-2] == 1
                                        and not m.strides[-1])


def load_tile(b: KernelBuilder, m: Memory, where: Sequence[Index], n: int) -> Value:
    """The elements from `where` on of as many rows of n, the last axis, as b has lanes for, one
    behind the other."""
    at, count = m.at(where), b.lanes // n
    step, stride = m.strides[-2:]
    if stride:
        if step == n:
            return _load(b, m, at)
        if step == -n:
            return _shuffled(b, b, m, add(at, n - b.lanes), [
                i * n + j for i in reversed(range(count)) for j in range(n)])
        return _shuffled(b, KernelBuilder(n), m, at, [*range(n)] * count)
    if not step:
        return b.to_lanes(_load(SCALAR, m, at))
    if step != 1:  # a number for each row, of rows side by side
        return _together(b, [x for i in range(count)
                             for x in [_raw(SCALAR, m, add(at, i * step))] * n], m.dtype)
    return _shuffled(b, KernelBuilder(count), m, at, [i for i in range(count) for _ in range(n)])


def _shuffled(b: KernelBuilder, of: KernelBuilder, m: Memory, at: Index, order: Sequence[int]
              ) -> Value:
    """The elements of a vector of `of` in an order, or repeated."""
    raw = _raw(of, m, at)
    if of.lanes == 1:
        return _together(b, [raw] * b.lanes, m.dtype)
    return _as_value(b, mlir.value("vector.shuffle", b.type_of(_kept(m.dtype)), [raw, raw],
                                   mask=int_array(order)), m.dtype)


def gathered(b: KernelBuilder, each: Sequence[Memory], where: Sequence[Index]) -> Value:
    """The element at `where` of each of as many views as b has lanes."""
    return _together(b, [_raw(SCALAR, m, m.at(where)) for m in each], each[0].dtype)


def at_lanes(b: KernelBuilder, m: Memory, offset: Value, where: Sequence[Index]) -> Value:
    """The element at `where` and, in each lane, so many elements on."""
    base, step = m.at(where), m.strides[-1] if m.strides else 0
    return _together(b, [_raw(SCALAR, m, add(add(base, k * step), position(lane(offset, k))))
                         for k in range(b.lanes)], m.dtype)


def picked(b: KernelBuilder, m: Memory, offset: Value) -> Value:
    """In each lane the element so many elements behind the first."""
    if b.lanes == 1:
        return _load(SCALAR, m, add(m.base, position(offset)))
    return at_lanes(b, m.view((1,), (0,)), offset, [0])


def lane(x: Value, k: int) -> Value:
    """One lane's number."""
    made = mlir.value("vector.extract", SCALAR.type_of(x.dtype), [x.ir],
                      static_position=int_array([k]))
    return Value(SCALAR, made, (), x.dtype)


def _together(b: KernelBuilder, parts: Sequence[Any], dtype: Dtype) -> Value:
    return _as_value(b, mlir.value("vector.from_elements", b.type_of(_kept(dtype)), parts), dtype)


def _kept(dtype: Dtype) -> Dtype:
    return I8 if dtype == BOOL else dtype


def _raw(b: KernelBuilder, m: Memory, at: Index) -> Any:
    name = "memref.load" if b.lanes == 1 else "vector.load"
    return mlir.value(name, b.type_of(_kept(m.dtype)), [m.ref, index(at)])


def _load(b: KernelBuilder, m: Memory, at: Index) -> Value:
    return _as_value(b, _raw(b, m, at), m.dtype)


def _as_value(b: KernelBuilder, raw: Any, dtype: Dtype) -> Value:
    value = Value(b, raw, (), _kept(dtype))
    return value.ne(0) if dtype == BOOL else value


def store(b: KernelBuilder, x: Value, m: Memory, where: Sequence[Index]) -> None:
    """Write the lanes of x along m's last axis: as a vector where they lie side by side."""
    if x.dtype == BOOL:
        x = b.convert(x, I8)
    if b.lanes > 1 and m.strides[-1] != 1:
        for k in range(b.lanes):
            at = add(m.at(where), k * m.strides[-1])
            mlir.operation("memref.store", [], [lane(x, k).ir, m.ref, index(at)])
        return
    name = "memref.store" if b.lanes == 1 else "vector.store"
    mlir.operation(name, [], [x.ir, m.ref, index(m.at(where))])


def entry(m: Memory) -> Value | Memory:
    """m; of rank 0 the number in it."""
    return m if m.shape else load(SCALAR, m, [])


# ---- loops
def loop(count: Index, body: Callable[..., Sequence[Any]], carry: Sequence[Any] = (),
         start: Index = 0, step: int = 1) -> list[Any]:
    """scf.for from start to count; body(i, *carried MLIR values) -> the next ones."""
    if isinstance(count, int) and isinstance(start, int) and start + step >= count:
        return list(carry if start >= count else body(start, *carry))
    types = [c.type for c in carry]
    op = mlir.operation("scf.for", types, [index(start), index(count), index(step), *carry],
                        regions=1)
    mlir.fill_region(op.regions[0], [index_type(), *types], "scf.yield", body)
    return list(op.results)


def nest(shape: Sequence[int], body: Callable[[list[Index]], None],
         outer: Sequence[Index] = ()) -> None:
    """Loops over all indices of a shape."""
    if not shape:
        body(list(outer))
        return

    def inner(i: Index) -> list[Any]:
        nest(shape[1:], body, [*outer, i])
        return []

    loop(shape[0], inner)


def strip(n: int, widest: int, body: Callable[[KernelBuilder, Index], None]) -> None:
    """body(builder, i) over 0..n by the builder's lanes: vectors first, then what is left."""
    start, lanes = 0, widest
    while start < n:
        while lanes > n - start:
            lanes //= 2
        builder = SCALAR if lanes == 1 else KernelBuilder(lanes)
        stop = start + (n - start) // lanes * lanes

        def run(i: Index, builder: KernelBuilder = builder) -> list[Any]:
            body(builder, i)
            return []

        loop(stop, run, start=start, step=lanes)
        start = stop
