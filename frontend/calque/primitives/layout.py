"""Where the blocks of an array lie: what follows from an index map's values.

A block's starts are known for every cell of a grid.  Negative ones count from the end, and those
outside are moved inside, after the array was padded so that whole blocks cover it: what JAX's
interpreter of Pallas does.  Start reading at `layout_of`.
"""
from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from calque.core.avals import shape_of
from calque.core.errors import explain
from calque.core.program import Program
from calque.core.types import Axes, Shape
from calque.primitives import elementwise as ew
from calque.primitives import shape as sh
from calque.primitives.index import dynamic_slice, dynamic_update_slice
from calque.primitives.known import UnknownError, evaluate
from calque.primitives.simplify import simplified


@dataclass(frozen=True)
class Block:
    """The part of an array that a cell sees.

    Args:
      shape: of the array.
      sizes: of the block along each axis of the array.
      kinds: "b" where positions count blocks, "e" where they count elements, "s" for an axis of
        size 1 that the kernel does not see.
      padding: elements before and after each axis.

    Example:
      >>> from calque.primitives.layout import Block
      >>> Block((8, 8), (1, 4), "sb", ((0, 0), (0, 0)))
      Block(squeezed, 4)
    """

    shape: Shape
    sizes: Shape
    kinds: str
    padding: tuple[tuple[int, int], ...]

    def __repr__(self) -> str:
        names = {"b": "{}", "e": "Element({})", "s": "squeezed"}
        return f"Block({', '.join(names[k].format(n) for k, n in zip(self.kinds, self.sizes))})"

    @property
    def seen(self) -> tuple[int, ...]:
        """The shape of the block in the kernel."""
        return tuple(n for n, k in zip(self.sizes, self.kinds) if k != "s")

    @property
    def whole(self) -> Shape:
        """The shape of the array with its padding, up to a whole number of blocks."""
        return tuple(-(-(n + sum(p)) // b) * b if b else n + sum(p)
                     for n, b, p in zip(self.shape, self.sizes, self.padding))

    def of_batch(self, size: int) -> Block:
        """The block of an array with one more axis, before the others."""
        return Block((size, *self.shape), (1, *self.sizes), "s" + self.kinds,
                     ((0, 0), *self.padding))


def places(grid: Sequence[int]) -> list[Any]:
    """The cells' places along each axis, as arrays that broadcast."""
    return [np.arange(n, dtype=np.int32).reshape([n if i == g else 1 for i in range(len(grid))])
            for g, n in enumerate(grid)]


def layout_of(block: Block, index_map: Program, grid: Shape) -> Layout:
    """Where the blocks lie.

    Raises:
      NotImplementedError: the index map is more than arithmetic and choices.
    """
    try:
        found = evaluate(index_map, places(grid))
    except UnknownError as error:
        raise NotImplementedError(explain(
            f"pallas_call: an index map computes {error}, and which block a cell sees must be "
            "known before anything runs.",
            fix="compute the block by arithmetic, jnp.where or lax.cond.")) from None
    size = block.whole
    starts, raw = [], []
    for value, n, b, k in zip(found, size, block.sizes, block.kinds):
        at = np.asarray(value, np.int64) * (b if k == "b" else 1)
        at = at.reshape((1,) * (len(grid) - at.ndim) + at.shape)
        raw.append(bool((at < 0).any()))
        at = np.clip(np.where(at < 0, at + n, at), 0, n - b)
        for g in range(len(grid)):
            if at.shape[g] > 1 and (at == at.take([0], g)).all():
                at = at.take([0], g)
        starts.append(at)
    return Layout(block, index_map, grid, size, starts, raw)


class Layout:
    """The blocks of one array.

    size: of the array, padded; starts: of the blocks along each axis of it, arrays with an axis for
    each of the grid's; axes: those of the grid on which they depend; orders: where they follow one
    another, the grid's axes for each axis of the array, the slowest first; else None.
    """

    def __init__(self, block: Block, index_map: Program, grid: Shape,
                 size: Shape, starts: Sequence[Any], negative: Sequence[bool]) -> None:
        self.block, self.index_map, self.grid, self.size = block, index_map, grid, size
        self.starts, self.negative = starts, negative
        of = [tuple(g for g, n in enumerate(s.shape) if n > 1) for s in starts]
        self.axes = sorted({g for axes in of for g in axes})
        found = [self._order(d, axes) for d, axes in enumerate(of)]
        self.orders: list[tuple[int, ...]] | None = None
        if all(o is not None for o in found) and sum(map(len, of)) == len(self.axes):
            self.orders = [o for o in found if o is not None]

    def _order(self, d: int, axes: Axes) -> Axes | None:
        """The axes in the order in which they number the blocks along d, one after another."""
        if not axes:
            return ()
        at, steps = self.starts[d], {}
        for g in axes:
            one = [0] * at.ndim
            one[g] = 1
            steps[g] = int(at[tuple(one)])
        order = tuple(sorted(axes, key=lambda g: -steps[g]))
        wanted, unit = np.zeros((1,) * at.ndim, np.int64), self.block.sizes[d]
        for g in reversed(order):
            wanted = wanted + places(self.grid)[g].astype(np.int64) * unit
            unit *= self.grid[g]
        return order if np.array_equal(np.broadcast_to(wanted, at.shape), at) else None

    def separates(self, g: int) -> bool:
        """Whether cells at two places along axis g of the grid never see one element."""
        for at, b in zip(self.starts, self.block.sizes):
            if 1 < at.shape[g] == at.size and (np.diff(np.sort(at, axis=None)) >= b).all():
                return True
        if g not in self.axes or any((at % b).any() for at, b in zip(
                self.starts, self.block.sizes) if b):
            return False
        number = np.zeros((1,) * len(self.grid), np.int64)
        for at, b, n in zip(self.starts, self.block.sizes, self.size):
            number = number * max(n // max(b, 1), 1) + at // max(b, 1)
        number = np.moveaxis(number, g, 0)
        number = number.reshape(number.shape[0], -1)
        # each block is seen at one place along g: sorted by block, neighbours have equal places
        place = np.broadcast_to(np.arange(number.shape[0])[:, None], number.shape).reshape(-1)
        flat = number.reshape(-1)
        order = np.argsort(flat, kind="stable")
        same = np.diff(flat[order]) == 0
        return not (same & (np.diff(place[order]) != 0)).any()

    # ---- arrays
    def padded(self, x: Any, blank: Any) -> Any:
        """x as the cells see it: with padding, and up to a whole number of blocks."""
        config = [(lo, n - m - lo, 0) for n, m, (lo, _) in zip(
            self.size, self.block.shape, self.block.padding)]
        return sh.pad(x, blank, config) if any(any(c) for c in config) else x

    def cut(self, x: Any) -> Any:
        """The array in a padded one."""
        first = [lo for lo, _ in self.block.padding]
        if self.size == self.block.shape:
            return x
        return sh.slice_(x, first, [f + n for f, n in zip(first, self.block.shape)])

    def split(self, x: Any) -> tuple[Any, dict[int, int]]:
        """(an array of all blocks, its axis for each of the grid's); `orders` is there."""
        assert self.orders is not None
        first: list[int] = []
        shape: list[int] = []
        at: dict[int, int] = {}
        counts = [math.prod(self.grid[g] for g in order) for order in self.orders]
        for d, order in enumerate(self.orders):
            first.append(0 if order else int(self.starts[d].flat[0]))
            for g in order:
                at[g] = len(shape)
                shape.append(self.grid[g])
            if self.block.kinds[d] != "s":
                shape.append(self.block.sizes[d])
        last = [f + n * b for f, n, b in zip(first, counts, self.block.sizes)]
        if any(first) or tuple(last) != self.size:
            x = sh.slice_(x, first, last)
        return (sh.reshape(x, tuple(shape)) if tuple(shape) != shape_of(x) else x), at

    def joined(self, x: Any, at: dict[int, int]) -> tuple[Any, list[int]]:
        """(what `split` takes apart, where it starts)."""
        assert self.orders is not None
        shape = shape_of(x)
        inner = iter(i for i in range(len(shape)) if i not in at.values())
        permutation, joined, first = [], [], []
        for d, order in enumerate(self.orders):
            first.append(0 if order else int(self.starts[d].flat[0]))
            permutation += [at[g] for g in order]
            if self.block.kinds[d] != "s":
                permutation.append(next(inner))
            joined.append(math.prod(self.grid[g] for g in order) * self.block.sizes[d])
        if permutation != list(range(len(shape))):
            x = sh.transpose(x, permutation)
        return (sh.reshape(x, tuple(joined)) if tuple(joined) != shape_of(x) else x), first

    def starts_at(self, pids: Sequence[Any]) -> list[Any]:
        """The starts of a cell's block; what is outside is moved inside by who uses them."""
        facts = [p if isinstance(p, np.generic) else None for p in pids]
        found = simplified(self.index_map, pids, facts)
        made = []
        for value, at, b, n, k, negative in zip(found, self.starts, self.block.sizes, self.size,
                                                self.block.kinds, self.negative):
            if at.size == 1:
                made.append(np.int32(at.flat[0]))
                continue
            value = ew.convert(value, np.int32)
            if k == "b" and b != 1:
                value = ew.mul(value, np.int32(b))
            if negative:
                value = ew.select_n(ew.lt(value, np.int32(0)), value,
                                    ew.add(value, np.int32(n)))
            made.append(value)
        return made

    def read(self, x: Any, pids: Sequence[Any]) -> Any:
        """A cell's block of the padded array."""
        part = dynamic_slice(x, self.starts_at(pids), self.block.sizes)
        return sh.reshape(part, self.block.seen) if "s" in self.block.kinds else part

    def written(self, x: Any, block: Any, pids: Sequence[Any]) -> Any:
        """The padded array with a cell's block in it."""
        if "s" in self.block.kinds:
            block = sh.reshape(block, self.block.sizes)
        return dynamic_update_slice(x, block, self.starts_at(pids))
