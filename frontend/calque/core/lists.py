"""Words about shapes and lists of values: all but some, those that are marked, one put in.

Imports core.types only.
"""
from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from itertools import chain, compress
from typing import Any, TypeVar

from calque.core.types import Axes

T = TypeVar("T")


def flagged(values: Iterable[T], flags: Iterable[Any]) -> list[T]:
    """The values whose flag is set."""
    return list(compress(values, flags))


def without(values: Iterable[T], places: Collection[int]) -> tuple[T, ...]:
    """The values at all other places."""
    return tuple([v for i, v in enumerate(values) if i not in places])


def other_axes(ndim: int, *groups: Iterable[int]) -> Axes:
    """The axes of an array that are in none of these groups."""
    taken = list(chain.from_iterable(groups))
    return tuple([axis for axis in range(ndim) if axis not in taken])


def split_list(values: Sequence[Any], first: int, second: int) -> tuple[Any, Any, Any]:
    """So many of the values, so many more, and the rest: a scan's (consts, carry, xs)."""
    end = first + second
    return values[:first], values[first:end], values[end:]


def inserted(values: Sequence[T], place: int, *new: T) -> tuple[T, ...]:
    """The values with new ones in front of the one at a place."""
    return *values[:place], *new, *values[place:]


def replaced(values: Sequence[T], place: int, *new: T) -> tuple[T, ...]:
    """The values with the one at a place replaced by new ones."""
    return *values[:place], *new, *values[place + 1:]


def as_tuple(value: Any) -> tuple[Any, ...]:
    """A tuple as it is, another value as one of it."""
    return value if isinstance(value, tuple) else (value,)


def types_of(values: Iterable[Any]) -> list[tuple[tuple[int, ...], Any]]:
    """The shape and dtype of each value."""
    return [(v.shape, v.dtype) for v in values]
