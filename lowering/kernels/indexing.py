"""gather and scatter in a kernel: a loop over index vectors, a window each; and elements that a
gather picks where something elementwise reads them (`Picked`), whole vectors of them.

Positions are clamped; what a window outside gives or leaves alone follows the mode, as in
rules/gather and rules/scatter.
"""
from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from calque.core.lists import other_axes
from calque.core.program import Equation
from calque.lowering.emit import mlir
from calque.lowering.emit.builder import Value
from calque.lowering.emit.dtypes import BOOL, I32, I64, U64
from calque.lowering.kernels import memory
from calque.lowering.kernels.memory import Index, Memory
from calque.lowering.kernels.values import SCALAR, KernelBuilder
from calque.lowering.passes import picks
from calque.lowering.passes.scalars import JOINS

NAMES = frozenset(("gather", *JOINS))
Copy = Callable[[tuple[int, ...], list[Memory], list[Any], Any], None]


def _window(x: Memory, indices: Memory, where: Sequence[Index], sizes: Sequence[int],
            axes: Sequence[int], batching: Sequence[tuple[int, int]], kept: Sequence[int],
            clamp: bool = True) -> tuple[Memory, Value | None]:
    """The part of x (its axes `kept`) that one index vector names, and whether it was inside;
    without `clamp` it may be read and written only then."""
    base: Index = 0
    inside: Value | None = None
    for k, axis in enumerate(axes):
        given, most = memory.load(SCALAR, indices, [*where, k]), x.shape[axis] - sizes[axis]
        if clamp:
            safe = memory.clamped(given, most)
            one = given.eq(safe)
        else:
            safe = SCALAR.convert(given, I64)
            one = SCALAR.convert(given, I64).view(U64) < max(0, most + 1)
        inside = one if inside is None else inside & one
        base = memory.add(base, memory.times(memory.position(safe), x.strides[axis]))
    for axis, along in batching:
        base = memory.add(base, memory.times(where[along], x.strides[axis]))
    return x.view([sizes[a] for a in kept], [x.strides[a] for a in kept], base), inside


def gather(e: Equation, x: Memory, indices: Memory, out: Memory, copy: Copy) -> None:
    """out = the windows of x; `copy` is tensors.elementwise."""
    p = e.params
    d, sizes = p["dimension_numbers"], p["slice_sizes"]
    dropped = {*d.collapsed_slice_dims, *d.operand_batching_dims}
    kept = other_axes(x.ndim, dropped)
    places = other_axes(out.ndim, d.offset_dims)
    fills = p["mode"].name == "FILL_OR_DROP"
    fill = 0 if p["fill_value"] is None else p["fill_value"]

    def one(where: list[Index]) -> None:
        window, inside = _window(x, indices, where, sizes, d.start_index_map, list(zip(
            d.operand_batching_dims, d.start_indices_batching_dims)), kept)
        target = out.view(window.shape, [out.strides[i] for i in d.offset_dims],
                          out.offset(places, where))
        if not fills or inside is None:
            copy(window.shape, [target], [window], lambda b, xs: xs)
            return
        copy(window.shape, [target], [window, inside], lambda b, xs: [
            b.select(xs[1], xs[0], b.splat(fill, (), x.dtype))])

    memory.nest(indices.shape[:-1], one)


@dataclass(frozen=True, slots=True, eq=False)
class Picked:
    """What a gather gives (passes/picks), in the place of the array: the operand and each entry of
    the index vectors as views of its result's shape."""

    equation: Equation
    x: Memory
    at: tuple[Memory, ...]
    entries: tuple[tuple[int, int], ...]  # of each how far apart in x, and the greatest

    @classmethod
    def of(cls, e: Equation, x: Memory, indices: Memory) -> Picked:
        shape = e.outputs[0].aval.shape
        along, (*places, _) = picks.operand_axes(e, tuple(range(len(shape))))
        strides, steps = [0] * len(shape), [0] * len(shape)
        for i, s in zip(along, x.strides):
            if i >= 0:
                strides[i] += s
        for i, s in zip(places, indices.strides):
            steps[i] = s
        found = picks.positions(e)
        return cls(e, x.view(shape, strides), tuple(
            indices.view(shape, steps, k * indices.strides[-1]) for k, _, _ in found), tuple(
            (x.strides[axis], most) for _, axis, most in found))

    @property
    def shape(self) -> tuple[int, ...]:
        return self.x.shape

    @property
    def arrays(self) -> tuple[Memory, ...]:
        return (self.x, *self.at)

    def is_flat(self) -> bool:
        """Whether it can be read along one axis: none of the operand is one of the result."""
        return not any(self.x.strides) and all(m.is_dense() for m in self.at)

    def flat(self) -> Picked:
        """The same along one axis."""
        n = (self.x.size,)
        return replace(self, x=self.x.view(n, (0,)), at=tuple(m.view(n, (1,)) for m in self.at))

    def cut(self, axis: int, first: Index, count: int) -> Picked:
        """count elements along an axis."""
        return replace(self, x=self.x.cut(axis, first, count), at=tuple(
            m.cut(axis, first, count) for m in self.at))

    def load(self, b: KernelBuilder, where: Sequence[Index]) -> Value:
        """As memory.load."""
        each = b if any(m.strides[-1] for m in self.at) else SCALAR
        return pick(b, each, self.equation, self.x, self.entries, [
            memory.load(each, m, where) for m in self.at], where)


def pick(b: KernelBuilder, each: KernelBuilder, e: Equation, x: Memory,
         entries: Sequence[tuple[int, int]], at: Sequence[Value], where: Sequence[Index]) -> Value:
    """The elements that a gather gives at `where`; at: its positions there, of b's lanes or of all
    of them one (`each`); entries: of each how far apart in x and the greatest; x: without them."""
    offset, inside = each.splat(0, (), I32), each.splat(True, (), BOOL)
    for given, (step, most) in zip(at, entries):
        safe = memory.clamped(given, most, each)
        offset = offset + each.convert(safe, I32) * (step if most else 0)
        inside = inside & given.eq(safe)
    if each.lanes > 1:
        found = memory.at_lanes(b, x, offset, where)
    else:
        found = memory.load(b, x.view(x.shape, x.strides, memory.position(offset)), where)
    if e.params["mode"].name != "FILL_OR_DROP" or not entries:
        return found
    fill = e.params["fill_value"]
    return b.select(b.to_lanes(inside) if each.lanes < b.lanes else inside, found,
                    b.splat(0 if fill is None else fill, (), x.dtype))


def scatter(e: Equation, x: Memory, indices: Memory, updates: Memory, copy: Copy) -> None:
    """x with windows joined with updates, in their order."""
    p, join = e.params, JOINS[e.name]
    d = p["dimension_numbers"]
    dropped = {*d.inserted_window_dims, *d.operand_batching_dims}
    kept = other_axes(x.ndim, dropped)
    sizes = [1] * x.ndim
    for a, i in zip(kept, d.update_window_dims):
        sizes[a] = updates.shape[i]
    places = other_axes(updates.ndim, d.update_window_dims)
    clips = p["mode"].name == "CLIP"

    def one(where: list[Index]) -> None:
        window, inside = _window(x, indices, where, sizes, d.scatter_dims_to_operand_dims, list(
            zip(d.operand_batching_dims, d.scatter_indices_batching_dims)), kept, clips)
        new = updates.view(window.shape, [updates.strides[i] for i in d.update_window_dims],
                           updates.offset(places, where))
        if clips or inside is None:
            write(window, new)
            return
        choice = mlir.operation("scf.if", [], [inside.ir], regions=2)
        with mlir.ir().InsertionPoint(choice.regions[0].blocks.append()):
            write(window, new)
            mlir.operation("scf.yield", [], [])

    def write(window: Memory, new: Memory) -> None:
        if join:
            copy(window.shape, [window], [window, new], lambda b, xs: [b.binary(join, *xs)])
        else:
            copy(window.shape, [window], [new], lambda b, xs: xs)

    memory.nest(indices.shape[:-1], one)
