"""Elementwise work over arrays whose size IREE does not cut into vectors, each to be one kernel
(kernels/rows, without folds).

IREE cuts an array into tiles that divide it; where no tile is whole vectors, as of 1,000,000
elements, its loop is scalar code (x + y of 1M f32 at AVX2: 1.5 ms for 0.5).  A kernel of ours lets
the last vector overlap the one before.  What IREE would compute on the way, of what it reads or
for what reads it, stays with it: that saves memory, which is dearer.  Start reading at `uneven`.
"""
from __future__ import annotations

import math
from collections.abc import Iterator

from calque.core.program import Equation, Var
from calque.core.types import Shape
from calque.lowering.passes import rows

EVEN = 1024  # elements that a whole number of IREE's tiles has
LEAST = 1 << 14  # elements: below, a dispatch costs more than what is in it
PRODUCT = 1 << 23  # multiply-adds: IREE computes smaller products, and what follows with them
READERS = frozenset(("dot_general", "scan", "while", "cond", "sort"))  # that read memory


def uneven(finder: rows.Finder) -> Iterator[rows.Group]:
    """The groups of a program, each when it is grown."""
    tried = set[int]()
    for i in sorted(finder.live, key=finder.position.__getitem__):
        e = finder.equations[i]
        if i not in finder.live or i in tried or not rows.is_elementwise(e) or e.is_dynamic:
            continue
        shape = tuple(n for n in e.outputs[0].aval.shape if n > 1)
        if not is_uneven(shape):
            continue
        group = rows.Group(shape, frozenset(), i)
        if not finder.add(group, i):
            continue
        finder.spread(group)
        tried.update(group.members)
        finder.trim(group)
        if group.members and _pays(finder, group):
            yield group


def is_uneven(shape: Shape) -> bool:
    """Whether IREE's tiles of it are no whole vectors, and ours are."""
    size = math.prod(shape)
    return size >= LEAST and size % EVEN != 0 and shape[-1] >= rows.SHORTEST


def _pays(finder: rows.Finder, group: rows.Group) -> bool:
    """Whether all that it reads is in memory and all that it makes is read from there."""
    size = math.prod(group.sizes)
    members = {v: e for e, _ in group.members.values() for v in e.outputs}
    return all(finder.is_at_hand(v) and not _is_small_product(finder, v)
               for v in finder.operands(group)
               if v.aval.size >= size and v not in group.outside) and all(
        members[v].name not in rows.VIEWS and (finder.is_result(v) or all(
            u in group.members or _is_reader(finder.equations[u])
            for u in finder.users.get(v, ()))) for v in finder.outputs(group))


def _is_small_product(finder: rows.Finder, v: Var) -> bool:
    e = finder.equations[finder.producer[v]] if v in finder.producer else None
    if e is None or e.name != "dot_general":
        return False
    (contracted, _), _ = e.params["dimension_numbers"]
    return v.aval.size * math.prod(e.inputs[0].aval.shape[i] for i in contracted) < PRODUCT


def _is_reader(e: Equation) -> bool:
    return e.name in READERS or "rows" in e.params


__all__ = ["is_uneven", "uneven"]
