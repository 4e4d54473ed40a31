"""Python's numbers where a transformation hands them on as they are: eagerly, outside jit.

`TypedInt`, `TypedFloat` and `TypedComplex` are Python's int, float and complex that say which dtype
they have as an array: rules of custom derivatives ask arguments for theirs.  Imports core/dtypes.
"""
from __future__ import annotations

from typing import Any

from calque.core import dtypes


class _Typed:
    __slots__ = ()

    @property
    def dtype(self) -> Any:
        """Of the array that it becomes: the default one of its kind."""
        return dtypes.default_dtype(type(dtypes.plain_number(self)))


class TypedInt(_Typed, int):
    """An int with a dtype."""


class TypedFloat(_Typed, float):
    """A float with a dtype."""


class TypedComplex(_Typed, complex):
    """A complex number with a dtype."""


_KINDS: dict[type, type] = {int: TypedInt, float: TypedFloat, complex: TypedComplex}
KINDS = frozenset((bool, *_KINDS))


def typed(x: Any) -> Any:
    """A Python number with a dtype; anything else as it is."""
    kind = _KINDS.get(type(x))
    return x if kind is None else kind(x)


__all__ = ["KINDS", "TypedComplex", "TypedFloat", "TypedInt", "typed"]
