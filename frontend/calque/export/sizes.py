"""Sizes of the caller's that are symbols while a module is read.

A module computes sizes as arrays of integers.  Where a function is called with arrays of symbolic
sizes, such an array is a `Sizes`: as NumPy's are for known sizes, its elements are ints and Dims,
and operations on it give others as long as their results follow from what is known of the symbols.
Start reading at `Sizes`.
"""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from calque.core.avals import ShapedArray
from calque.core.dimension import Dim, floordiv, is_nonnegative, mod
from calque.core.dims import max_dim, min_dim
from calque.core.dims import number as as_value
from calque.core.primitive import registry


class Sizes:
    """An array of integers, some of which are symbolic."""

    __slots__ = ("values", "aval")

    def __init__(self, values: Any, dtype: Any) -> None:
        self.values = np.asarray(values, object)
        self.aval = ShapedArray(self.values.shape, np.dtype(dtype))

    @property
    def dtype(self) -> Any:
        return self.aval.dtype

    @property
    def shape(self) -> tuple[int, ...]:
        return self.values.shape

    def tuple(self) -> tuple[Any, ...]:
        """A vector as a shape."""
        return tuple(n if isinstance(n, Dim) else int(n) for n in self.values.reshape(-1))

    def traced(self) -> Any:
        """As an array of the program that is read."""
        numbers = [registry["reshape"].bind(as_value(n, self.dtype), new_sizes=(1,),
                                            dimensions=None, sharding=None)
                   for n in self.tuple()]
        if not numbers:
            return np.zeros(self.shape, self.dtype)
        flat = numbers[0] if len(numbers) == 1 else registry["concatenate"].bind(
            *numbers, dimension=0)
        return registry["reshape"].bind(flat, new_sizes=self.shape, dimensions=None, sharding=None)


class _Unknown(Exception):
    """What is asked does not follow from what is known of the symbols."""


def _less(x: Any, y: Any) -> bool:
    if not isinstance(x, Dim) and not isinstance(y, Dim):
        return bool(x < y)
    found = is_nonnegative(x - y if isinstance(x, Dim) else -y + x)
    if found is None:
        raise _Unknown
    return not found


def _equal(x: Any, y: Any) -> bool:
    if x == y:
        return True
    if _less(x, y) or _less(y, x):
        return False
    raise _Unknown


def _least(x: Any, least: int) -> Any:
    """x, which has to be so large."""
    if is_nonnegative(x - least) if isinstance(x, Dim) else x >= least:
        return x
    raise _Unknown


_ELEMENTS: dict[str, Callable[..., Any]] = {
    "add": lambda x, y: x + y, "subtract": lambda x, y: x - y, "multiply": lambda x, y: x * y,
    "negate": lambda x: -x, "maximum": max_dim, "minimum": min_dim,
    "divide": lambda x, y: floordiv(_least(x, 0), _least(y, 1)),
    "remainder": lambda x, y: mod(_least(x, 0), _least(y, 1)),
    "sign": lambda x: 0 if _equal(x, 0) else -1 if _less(x, 0) else 1,
    "abs": lambda x: -x if _less(x, 0) else x,
    "EQ": _equal, "NE": lambda x, y: not _equal(x, y),
    "LT": _less, "LE": lambda x, y: not _less(y, x),
    "GT": lambda x, y: _less(y, x), "GE": lambda x, y: not _less(x, y),
    "select": lambda which, x, y: x if which else y,
    "clamp": lambda low, x, high: min_dim(max_dim(x, low), high)}


def computed(name: str, xs: list[Any], dtype: Any) -> Any:
    """The result of an operation on sizes and known integers; None where it does not follow."""
    f = _ELEMENTS.get(name)
    if f is None or not any(isinstance(x, Sizes) for x in xs) or not all(map(_known, xs)):
        return None
    rows = np.broadcast_arrays(*[elements(x) for x in xs])
    try:
        made = [f(*row) for row in zip(*[r.reshape(-1) for r in rows])]
    except _Unknown:
        return None
    out = np.empty(len(made), object)
    out[:] = made
    return settled(out.reshape(rows[0].shape), dtype)


def _known(x: Any) -> bool:
    return isinstance(x, Sizes) or isinstance(x, np.ndarray) and x.dtype.kind in "biu"


def elements(x: Any) -> Any:
    """Sizes, or known integers, as an array of objects."""
    return x.values if isinstance(x, Sizes) else x.astype(object)


def settled(values: Any, dtype: Any) -> Any:
    """As a NumPy array where no symbol is left."""
    if any(isinstance(n, Dim) for n in values.reshape(-1)):
        return Sizes(values, dtype)
    return np.asarray(values, dtype)


__all__ = ["Sizes", "computed", "elements", "settled"]
