"""gather and scatter in a kernel: a loop over index vectors, a window each.

Positions are clamped; what a window outside gives or leaves alone follows the mode, as in
rules/gather and rules/scatter.
"""
from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from calque.core.lists import other_axes
from calque.core.program import Equation
from calque.lowering.emit.builder import Value
from calque.lowering.kernels import memory
from calque.lowering.kernels.memory import Index, Memory
from calque.lowering.kernels.values import SCALAR
from calque.lowering.passes.scalars import JOINS

NAMES = frozenset(("gather", *JOINS))
Copy = Callable[[tuple[int, ...], list[Memory], list[Any], Any], None]


def _window(x: Memory, indices: Memory, where: Sequence[Index], sizes: Sequence[int],
            axes: Sequence[int], batching: Sequence[tuple[int, int]], kept: Sequence[int]
            ) -> tuple[Memory, Value | None]:
    """The part of x (its axes `kept`) that one index vector names, and whether it was inside."""
    base: Index = 0
    inside: Value | None = None
    for k, axis in enumerate(axes):
        given = memory.load(SCALAR, indices, [*where, k])
        safe = memory.clamped(given, x.shape[axis] - sizes[axis])
        one = given.eq(safe)
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

    def one(where: list[Index]) -> None:
        window, inside = _window(x, indices, where, sizes, d.scatter_dims_to_operand_dims, list(
            zip(d.operand_batching_dims, d.scatter_indices_batching_dims)), kept)
        new = updates.view(window.shape, [updates.strides[i] for i in d.update_window_dims],
                           updates.offset(places, where))
        asked = [] if p["mode"].name == "CLIP" or inside is None else [inside]

        def joined(b: Any, xs: list[Value]) -> list[Value]:
            made = b.binary(join, xs[0], xs[1]) if join else xs[1]
            return [b.select(xs[2], made, xs[0]) if asked else made]

        copy(window.shape, [window], [window, new, *asked], joined)

    memory.nest(indices.shape[:-1], one)
