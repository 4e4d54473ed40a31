"""Folds of a kernel's arrays over axes: of what lies in memory, or of what is computed where it is
folded (`Computed`), which takes no memory: a comparison of every number with every other is counted
without a table of bits.  Start reading at `reduce`.
"""
from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from calque.core.dtypes import extreme
from calque.core.lists import other_axes
from calque.core.types import Dtype, Shape
from calque.lowering.emit.builder import Value
from calque.lowering.emit.dtypes import BOOL, summed
from calque.lowering.kernels import memory
from calque.lowering.kernels.indexing import Picked
from calque.lowering.kernels.memory import Index, Memory
from calque.lowering.kernels.values import SCALAR, KernelBuilder

FOLDS = {"reduce_sum": ("add", "add", 0), "reduce_prod": ("multiply", "mul", 1),
         "reduce_max": ("maximum", "max", None), "reduce_min": ("minimum", "min", None),
         "reduce_and": ("and", "and", -1), "reduce_or": ("or", "or", 0)}
UNROLLED = 8  # numbers folded one behind the other, without a loop


@dataclass(frozen=True, slots=True, eq=False)
class Computed:
    """An array that is computed where it is read: an element of `parts` (a number: of all) at each
    place, and what `body` makes of them."""

    shape: Shape
    dtype: Dtype
    parts: tuple[Memory | Value | Picked, ...]
    body: Callable[[KernelBuilder, Sequence[Value]], Value]

    @property
    def lanes(self) -> int:
        arrays = [m for p in self.parts if not isinstance(p, Value)
                  for m in (p.arrays if isinstance(p, Picked) else (p,))]
        return min(memory.widest(d) for d in (self.dtype, *[m.dtype for m in arrays]))

    def load(self, b: KernelBuilder, where: Sequence[Index]) -> Value:
        """As memory.load."""
        return self.body(b, [
            b.to_lanes(p) if isinstance(p, Value) else p.load(b, where) if isinstance(p, Picked)
            else memory.load(b, p, where) for p in self.parts])


def reduce(name: str, x: Memory | Computed, axes: Sequence[int], out: Memory) -> None:
    """out = x folded over axes: lanes run along the last axis, which is kept or folded at the end.
    """
    how, kind, start = FOLDS[name]
    if x.dtype == BOOL:
        start = how in ("and", "minimum")
    elif start is None:
        start = extreme(x.dtype, how == "minimum")
    rank = len(x.shape)
    kept, last = other_axes(rank, axes), rank - 1
    dtype = summed(x.dtype) if how in ("add", "multiply") else x.dtype
    along = bool(kept) and kept[-1] == last
    inner = [i for i in axes if along or i != last]
    if isinstance(x, Computed):
        lanes = x.lanes
    else:
        lanes = memory.widest(x.dtype) if x.strides[last] in (0, 1) else 1

    def source(outer: Sequence[Index], folded: Sequence[Index], i: Index) -> list[Index]:
        where: list[Index] = [0] * rank
        for axis, k in (*zip(kept, outer), *zip(inner, folded)):
            where[axis] = k
        where[last] = i
        return where

    def folds(b: KernelBuilder, outer: Sequence[Index], i: Index, acc: Value) -> Value:
        """acc with x folded in over the inner axes."""
        def level(axes: list[int], folded: list[Index], ir: Any) -> Any:
            if not axes:
                where = source(outer, folded, i)
                read = x.load(b, where) if isinstance(x, Computed) else memory.load(b, x, where)
                value = b.convert(read, dtype)
                return b.binary(how, Value(b, ir, (), dtype), value).ir
            count = x.shape[axes[0]]
            if len(axes) == 1 and count <= UNROLLED:
                for k in range(count):
                    ir = level([], [*folded, k], ir)
                return ir
            return memory.loop(count, lambda k, a: [
                level(axes[1:], [*folded, k], a)], [ir])[0]
        return Value(b, level(list(inner), [], acc.ir), (), dtype)

    if along:
        def row(outer: list[Index]) -> None:
            def step(b: KernelBuilder, i: Index) -> None:
                found = folds(b, [*outer, i], i, b.splat(start, (), dtype))
                memory.store(b, b.convert(found, x.dtype), out, [*outer, i])
            memory.strip(x.shape[last], lanes, step)
        memory.nest([x.shape[i] for i in kept[:-1]], row)
        return

    def cell(outer: list[Index]) -> None:
        total = SCALAR.splat(start, (), dtype)
        at, width, n = 0, lanes, x.shape[last]
        while at < n:
            while width > n - at:
                width //= 2
            b = SCALAR if width == 1 else KernelBuilder(width)
            stop = at + (n - at) // width * width
            (acc,) = memory.loop(stop, lambda i, a, b=b: [
                folds(b, outer, i, Value(b, a, (), dtype)).ir],
                [b.splat(start, (), dtype).ir], start=at, step=width)
            part = b.horizontal(_kind(kind, dtype), Value(b, acc, (), dtype))
            total = SCALAR.binary(how, total, Value(SCALAR, part.ir, (), dtype))
            at = stop
        memory.store(SCALAR, SCALAR.convert(total, x.dtype), out, outer)

    memory.nest(out.shape, cell)


def _kind(kind: str, dtype: Dtype) -> str:
    """vector.reduction's name of a fold."""
    if kind not in ("max", "min"):
        return kind
    if dtype.kind in "fV":
        return f"{kind}imumf"
    return f"{kind}ui" if dtype.kind in "ub" else f"{kind}si"
