"""Indices whose start is computed and whose size is known: `calque.ds(start, size)` in x[...], in
x.at[...] and in references.  Such an axis stays an axis, whatever else is indexed.
"""
from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

from calque.core.avals import shape_of
from calque.core.lists import as_tuple
from calque.lax import dynamic_slice, dynamic_update_slice
from calque.trees.util import register_pytree_node


@dataclasses.dataclass(frozen=True)
class Slice:
    """`size` elements from `start` on, which may be computed (see `ds`).

    Args:
      start: integer.
      size: a Python int.
      stride: from one to the next.

    Example:
      >>> import calque
      >>> calque.ds(1, 4, 2)
      Slice(start=1, size=4, stride=2)
    """

    start: Any
    size: int
    stride: int = 1


register_pytree_node(Slice, lambda x: ((x.start,), (x.size, x.stride)),
                     lambda sizes, start: Slice(*start, *sizes))


def has_slice(index: Any) -> bool:
    """Whether one of an index's parts is a Slice."""
    kind = type(index)
    return kind is Slice or kind is tuple and Slice in map(type, index)


def window(value: Any, idx: Any) -> tuple[Any, list[Any] | None, Any]:
    """(the part of an array that Slices name, its starts, the index within it); starts that would
    lead outside are moved inside."""
    if idx is None or not has_slice(idx):
        return value, None, idx
    idx, shape = as_tuple(idx), shape_of(value)
    # axes that an Ellipsis stands for
    skipped = len(shape) - sum(p is not Ellipsis and p is not None for p in idx)
    starts: list[Any] = [0] * len(shape)
    sizes, rest, d = list(shape), list(idx), 0
    for i, p in enumerate(idx):
        if isinstance(p, Slice):
            starts[d], sizes[d] = p.start, (p.size - 1) * p.stride + 1 if p.size else 0
            rest[i] = slice(None, None, p.stride)
        d += skipped if p is Ellipsis else p is not None
    return dynamic_slice(value, starts, sizes), starts, tuple(rest)


class WindowRef:
    """`x.at[...]` of an index with Slices: the methods of `x.at[...]` on the part that they name.

    Args:
      array: the array.
      index: with one Slice at least.
      at: makes of an array and an index what `x.at[...]` is.
    """

    def __init__(self, array: Any, index: Any, at: Callable[[Any, Any], Any]) -> None:
        self._array = array
        self._part, self._starts, rest = window(array, index)
        self._inner = at(self._part, rest)

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._inner, name)
        if name == "get":
            return method

        def update(*args: Any, **options: Any) -> Any:
            return dynamic_update_slice(self._array, method(*args, **options), self._starts)
        return update
