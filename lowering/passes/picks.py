"""Rows that a gather picks, where a group of rows (passes/rows) reads them: `v[ids, :] * q` summed.

Outside of a group the rows picked are copied to memory first (kernels/move), more of them than
there are in what they are picked of: value functions at the states that a policy leads to,
embeddings, neighbours in graphs.  A kernel reads them where they are.  Positions are numbers of a
place before the last axis, or differ from lane to lane (the ends of the intervals that `interp`
reads): then each lane loads its element, of which one number says where it is.  A single position
may be computed by the group itself.
Start reading at `is_picked`.
"""
from __future__ import annotations

from calque.core.lists import other_axes
from calque.core.program import Equation, Var
from calque.core.types import Axes
from calque.lowering.passes import loops

MOST = 1 << 31  # elements of what is picked of: addresses of lanes are int32


def is_picked(e: Equation, windows: bool = False) -> bool:
    """Whether an equation picks windows that are whole along all axes but those that positions are
    of; `windows`: or parts of rows."""
    if e.name != "gather" or not loops.is_plain(e) or not all(
            isinstance(a, Var) for a in e.inputs):
        return False
    d, sizes, x = e.params["dimension_numbers"], e.params["slice_sizes"], e.inputs[0].aval
    return (e.inputs[1].aval.dtype.kind in "iu" and 0 < x.size < MOST and all(
        n == s or (s == 1 or windows) and (a in d.start_index_map or a in d.operand_batching_dims)
        for a, (n, s) in enumerate(zip(x.shape, sizes))))


def is_single(e: Equation) -> bool:
    """Whether an index vector has one entry."""
    return len(e.params["dimension_numbers"].start_index_map) == 1


def operand_axes(e: Equation, made: Axes) -> tuple[Axes, Axes]:
    """The axes of a space along which the operand and the positions are read, by the result's; -1
    along those that positions are of, and along the entries of an index vector."""
    d, sizes = e.params["dimension_numbers"], e.params["slice_sizes"]
    x = e.inputs[0].aval
    batch = [made[i] for i in other_axes(len(made), d.offset_dims, ())]
    found = [-1] * x.ndim
    window = other_axes(x.ndim, d.collapsed_slice_dims, d.operand_batching_dims)
    for a, i in zip(window, d.offset_dims):
        if sizes[a] != 1 or x.shape[a] == 1:
            found[a] = made[i]
    for a, i in zip(d.operand_batching_dims, d.start_indices_batching_dims):
        found[a] = batch[i]
    return tuple(found), (*batch, -1)


def positions(e: Equation) -> list[tuple[int, int, int]]:
    """(entry of the index vector, axis of the operand, greatest position)"""
    d, sizes, shape = e.params["dimension_numbers"], e.params["slice_sizes"], e.inputs[0].aval.shape
    return [(k, a, shape[a] - sizes[a]) for k, a in enumerate(d.start_index_map)]


__all__ = ["is_picked", "is_single", "operand_axes", "positions"]
