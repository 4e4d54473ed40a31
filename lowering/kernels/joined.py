"""Arrays that were joined or padded, as the parts that they consist of: nobody copies them together
where an elementwise loop reads them, which runs over boxes of one part each instead (a stencil of
rolled arrays reads the array itself).  Start reading at `Joined`, then `boxes`.
"""
from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from calque.core.types import Dtype, Shape
from calque.lowering.emit.builder import Value
from calque.lowering.kernels.memory import Memory

ROW = 16  # elements of a box's rows from which on boxes pay
MOST_BOXES = 27
MOST_CODE = 400  # operations in all boxes


@dataclass(frozen=True, slots=True, eq=False)
class Joined:
    """Parts one after another along an axis; a Value stands for any number of its elements."""

    shape: Shape
    dtype: Dtype
    axis: int
    parts: tuple[Value | Memory | Joined, ...]
    sizes: Shape

    def starts(self) -> list[int]:
        return [0, *itertools.accumulate(self.sizes)]


Part = Value | Memory | Joined


def join(axis: int, parts: Sequence[Part], sizes: Sequence[int], shape: Sequence[int],
         dtype: Dtype) -> Part:
    """Parts of these sizes along an axis, empty ones left out."""
    kept = [(p, n) for p, n in zip(parts, sizes) if n]
    if len(kept) == 1:
        return kept[0][0]
    return Joined(tuple(shape), np.dtype(dtype), axis, tuple(p for p, _ in kept),
                  tuple(n for _, n in kept))


def cut(x: Part, axis: int, first: int, count: int) -> Part:
    """count elements along an axis, from first on."""
    if isinstance(x, Value):
        return x
    if not isinstance(x, Joined):  # (Memory, or what is picked of it)
        return x.cut(axis, first, count)
    shape = (*x.shape[:axis], count, *x.shape[axis + 1:])
    if axis != x.axis:
        return Joined(shape, x.dtype, x.axis, tuple(cut(p, axis, first, count) for p in x.parts),
                      x.sizes)
    parts, sizes = [], []
    for p, start, n in zip(x.parts, x.starts(), x.sizes):
        low, high = max(first, start), min(first + count, start + n)
        if low < high:
            parts.append(cut(p, axis, low - start, high - low))
            sizes.append(high - low)
    return join(axis, parts, sizes, shape, x.dtype)


def refs(x: Any) -> Iterator[Any]:
    """The memory that a value is made of."""
    if isinstance(x, Memory):
        yield x.ref
    elif isinstance(x, Joined):
        for p in x.parts:
            yield from refs(p)


def edges(x: Any, axis: int) -> set[int]:
    """Where parts begin along an axis."""
    if not isinstance(x, Joined):
        return set()
    if axis != x.axis:
        return set().union(*[edges(p, axis) for p in x.parts])
    return {start + k for p, start in zip(x.parts, x.starts()) for k in (0, *edges(p, axis))}


def boxes(shape: Sequence[int], sources: Sequence[Any]) -> list[list[tuple[int, int]]]:
    """(first, count) along each axis of boxes in which every source is of one part."""
    cuts = [sorted({0, n}.union(*[edges(s, axis) for s in sources]))
            for axis, n in enumerate(shape)]
    return [list(box) for box in itertools.product(*[
        [(a, b - a) for a, b in itertools.pairwise(c)] for c in cuts])]


def within(x: Any, box: Sequence[tuple[int, int]]) -> Any:
    """The part of x (a scalar: itself) in a box."""
    if not isinstance(x, Value):
        for axis, (first, count) in enumerate(box):
            if x.shape[axis] != count:
                x = cut(x, axis, first, count)
                if isinstance(x, Value):
                    return x
    return x


def pays(x: Joined) -> bool:
    """Whether boxes of x have rows for vectors: where most of x lies, at least."""
    largest = max(x.sizes)
    row = largest if x.axis == len(x.shape) - 1 else x.shape[-1]
    return row >= ROW and largest * 2 >= x.shape[x.axis] and math.prod(x.shape) >= ROW * ROW
