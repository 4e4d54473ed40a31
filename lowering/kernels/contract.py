"""dot_general in a kernel: a block of rows and vectors of columns stays in registers while the
contracted axis goes by.

Blocks are as large as the target's registers allow (`Registers`).  Where columns do not lie side by
side but the contracted axis does, in both operands, vectors run along that one (`_across`).
"""
from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from calque.core.lists import other_axes
from calque.core.types import Dtype
from calque.lowering.emit.builder import Value
from calque.lowering.emit.dtypes import summed
from calque.lowering.kernels import memory
from calque.lowering.kernels.memory import Index, Memory
from calque.lowering.kernels.native import level_of
from calque.lowering.kernels.values import SCALAR, KernelBuilder
from calque.lowering.target.targets import Target

Axes = list[tuple[int, int]]  # size and stride of each
MOST_ROWS, MOST_VECTORS = 8, 8  # of a block
LATENCY = 4  # cycles of a multiply-add, of which two begin in each; as many loads


@dataclass(frozen=True, slots=True)
class Registers:
    """Bytes of a vector register, how many there are, and whether one instruction multiplies and
    adds."""

    nbytes: int = 16
    count: int = 16
    fused: bool = True

    def lanes(self, dtype: Dtype) -> int:
        """Numbers of a register, as they are added up."""
        return max(2, self.nbytes // summed(dtype).itemsize)


LEVELS = {"x86-64-v2": Registers(fused=False), "x86-64-v3": Registers(32, 16),
          "x86-64-v4": Registers(64, 32), "aarch64": Registers(16, 32)}


def registers_of(target: Target | None) -> Registers:
    return LEVELS.get(level_of(target), LEVELS["x86-64-v2"])


def dot_general(x: Memory, y: Memory, out: Memory, dims: Any, registers: Registers) -> None:
    """out = x . y; every operand is a view, so that any order of axes will do."""
    (xc, yc), (xb, yb) = dims
    xf, yf = other_axes(x.ndim, xc, xb), other_axes(y.ndim, yc, yb)
    n = len(xb)

    def parts(m: Memory, axes: Sequence[int]) -> Axes:
        return [(m.shape[i], m.strides[i]) for i in axes]

    made = list(zip(out.shape[n:], out.strides[n:]))
    rows = _merged(parts(x, xf), made[:len(xf)])
    columns = _merged(parts(y, yf), made[len(xf):])
    contracted = _merged(parts(x, xc), parts(y, yc))

    def one(where: list[Index]) -> None:
        xs, ys, os = (m.view(m.shape, m.strides, m.offset(axes, where))
                      for m, axes in ((x, xb), (y, yb), (out, range(n))))
        _product(_view(xs, [*rows[0], *contracted[0]]), _view(ys, [*contracted[1], *columns[0]]),
                 _view(os, [*rows[1], *columns[1]]), len(rows[0]), len(contracted[0]), registers)

    memory.nest([x.shape[i] for i in xb], one)


def _view(m: Memory, axes: Axes) -> Memory:
    return m.view([n for n, _ in axes], [s for _, s in axes])


def _merged(a: Axes, b: Axes) -> tuple[Axes, Axes]:
    """The same axes of two arrays, at least one, neighbours joined where both step through them as
    through one."""
    found: tuple[Axes, Axes] = [(1, 0)], [(1, 0)]
    for axes in zip(a, b):
        if axes[0][0] == 1:
            continue
        n = axes[0][0]
        if all(k[-1][0] == 1 or k[-1][1] == n * s for k, (_, s) in zip(found, axes)):
            for k, (_, s) in zip(found, axes):
                k[-1] = (k[-1][0] * n, s)
        else:
            for k, axis in zip(found, axes):
                k.append(axis)
    return found


def _product(a: Memory, b: Memory, out: Memory, rows: int, folded: int, registers: Registers
             ) -> None:
    """out[m..., n...] = sum over k... of a[m..., k...] * b[k..., n...]."""
    k_shape, n_shape = a.shape[rows:], b.shape[folded:]
    if n_shape == (1,) and a.shape[rows - 1] > 1 and a.strides[rows - 1] == 1:
        # a column: vectors run down the rows instead
        flipped = a.transposed([*range(rows, a.ndim), *range(rows)])
        row = b.view([1, *k_shape], [0, *b.strides[:folded]])
        _product(row, flipped, out.view([1, *out.shape[:rows]], [0, *out.strides[:rows]]), 1,
                 folded, registers)
        return
    beside = b.strides[-1] == 1 and out.strides[-1] == 1 and n_shape[-1] > 1
    form = _block if beside or a.strides[-1] != 1 or b.strides[folded - 1] != 1 else _across
    lanes = _width(n_shape[-1] if beside else k_shape[-1], registers.lanes(out.dtype))
    if not beside and form is _block:
        lanes = 1
    count = -(-n_shape[-1] // lanes) if form is _block else n_shape[-1]
    high, wide = tile(a.shape[rows - 1], count, registers, form is _across)

    def at(outer: list[Index], columns: list[Index]) -> None:
        def cell(r: int, c: int, lanes: int) -> Callable[[Index, Index], None]:
            return lambda i, j: form(a, b, out, [*outer, i], [*columns, j], (r, c), lanes,
                                     registers)

        def strip(j: Index, c: int) -> None:
            _parts(a.shape[rows - 1], high, lambda i, r: cell(r, c, lanes)(i, j))

        if form is _across:
            _parts(n_shape[-1], wide, strip)
            return
        whole = n_shape[-1] // lanes
        _parts(whole, wide, lambda j, c: strip(memory.times(j, lanes), c))
        if n_shape[-1] % lanes:  # the last vector begins earlier, over columns that are done twice
            strip(n_shape[-1] - lanes, 1)

    memory.nest(a.shape[:rows - 1], lambda outer: memory.nest(
        n_shape[:-1], lambda columns: at(outer, columns)))


def _width(n: int, most: int) -> int:
    """The largest power of two up to n and `most`."""
    return min(most, 1 << (n.bit_length() - 1))


def tile(m: int, n: int, registers: Registers, across: bool) -> tuple[int, int]:
    """Rows and vectors of a block for m rows of n vectors: the least cycles for a step of the
    contracted axis.  across: both operands are read by vectors, whose sums are folded at last."""
    def cycles(size: tuple[int, int]) -> tuple[float, int]:
        found, loads = 0.0, 0
        for r, many in _sizes(m, size[0]):
            for c, more in _sizes(n, size[1]):
                found += many * more * max(r * c / 2, (r + c) / 2, LATENCY)
                loads += many * more * (r + c)
        return found, loads

    every = [(r, c) for r in range(1, min(m, MOST_ROWS) + 1)
             for c in range(1, min(n, MOST_VECTORS) + 1)
             if r * c + (min(r, c) if across else c if r > 1 else 0) + 1 <= registers.count]
    return min(every, key=cycles)


def panel_width(rows: int, columns: int, dtype: Dtype, registers: Registers) -> int:
    """Columns of a panel (passes/panels) for products of so many rows and columns."""
    lanes = _width(columns, registers.lanes(dtype))
    return lanes * tile(rows, -(-columns // lanes), registers, False)[1]


def _sizes(n: int, most: int) -> list[tuple[int, int]]:
    """n in the fewest parts of at most `most`, nearly equal: (size, how many)."""
    count = -(-n // most)
    size, more = divmod(n, count) if count else (0, 0)
    return [(s, k) for s, k in ((size + 1, more), (size, count - more)) if k]


def _parts(n: int, most: int, body: Callable[[Index, int], None]) -> None:
    """body(first, size) for nearly equal parts of n."""
    start = 0
    for size, count in _sizes(n, most):
        def run(i: Index, size: int = size) -> list[Any]:
            body(i, size)
            return []

        memory.loop(start + size * count, run, start=start, step=size)
        start += size * count


def _block(a: Memory, b: Memory, out: Memory, row: list[Index], column: list[Index],
           size: tuple[int, int], lanes: int, registers: Registers) -> None:
    """size[0] rows from `row` on times size[1] vectors from `column` on."""
    kind, kb = summed(out.dtype), SCALAR if lanes == 1 else KernelBuilder(lanes)
    rows, columns = _places(row, size[0]), _places(column, size[1], lanes)

    def step(k: list[Index], sums: Sequence[Any]) -> list[Any]:
        right = [kb.convert(memory.load(kb, b, [*k, *c]), kind) for c in columns]
        found, old = [], iter(sums)
        for r in rows:
            left = kb.to_lanes(SCALAR.convert(memory.load(SCALAR, a, [*r, *k]), kind))
            found += [_added(kb, left, w, Value(kb, next(old), (), kind), registers).ir
                      for w in right]
        return found

    zero = kb.splat(0, (), kind).ir
    sums = iter(_folded(a.shape[len(row):], step, [zero] * math.prod(size)))
    for r in rows:
        for c in columns:
            memory.store(kb, kb.convert(Value(kb, next(sums), (), kind), out.dtype), out, [*r, *c])


def _across(a: Memory, b: Memory, out: Memory, row: list[Index], column: list[Index],
            size: tuple[int, int], lanes: int, registers: Registers) -> None:
    """size[0] rows times size[1] columns, by vectors along the last contracted axis."""
    kind, k_shape = summed(out.dtype), a.shape[len(row):]
    rows, columns = _places(row, size[0]), _places(column, size[1])
    b = b.transposed([*range(len(k_shape), b.ndim), *range(len(k_shape))])
    totals = [SCALAR.splat(0, (), kind)] * math.prod(size)
    at = 0
    while at < k_shape[-1]:
        lanes = _width(k_shape[-1] - at, lanes)
        kb = SCALAR if lanes == 1 else KernelBuilder(lanes)
        stop = at + (k_shape[-1] - at) // lanes * lanes

        def step(k: list[Index], sums: Sequence[Any], kb: KernelBuilder = kb) -> list[Any]:
            left = [kb.convert(memory.load(kb, a, [*r, *k]), kind) for r in rows]
            right = [kb.convert(memory.load(kb, b, [*c, *k]), kind) for c in columns]
            old = iter(sums)
            return [_added(kb, x, y, Value(kb, next(old), (), kind), registers).ir
                    for x in left for y in right]

        def strip(k: list[Index], sums: Sequence[Any], at: int = at, stop: int = stop,
                  lanes: int = lanes, step: Any = step) -> list[Any]:
            return memory.loop(stop, lambda i, *now: step([*k, i], now), sums, start=at,
                               step=lanes)

        sums = _folded(k_shape[:-1], strip, [kb.splat(0, (), kind).ir] * len(totals))
        parts = [kb.horizontal("add", Value(kb, s, (), kind)) for s in sums]
        totals = [t + Value(SCALAR, p.ir, (), kind) for t, p in zip(totals, parts)]
        at = stop
    found = iter(totals)
    for r in rows:
        for c in columns:
            memory.store(SCALAR, SCALAR.convert(next(found), out.dtype), out, [*r, *c])


def _places(first: list[Index], count: int, step: int = 1) -> list[list[Index]]:
    """Indices along the last axis, from `first` on."""
    return [[*first[:-1], memory.add(first[-1], i * step)] for i in range(count)]


def _folded(shape: Sequence[int], body: Any, sums: list[Any]) -> list[Any]:
    """Loops over shape that carry the sums."""
    def level(done: list[Index], sums: list[Any]) -> list[Any]:
        if len(done) == len(shape):
            return list(body(done, sums))
        return memory.loop(shape[len(done)], lambda i, *a: level([*done, i], list(a)), sums)
    return level([], sums)


def _added(b: KernelBuilder, x: Value, y: Value, z: Value, registers: Registers) -> Value:
    return b.fma(x, y, z) if x.dtype.kind == "f" and registers.fused else x * y + z
