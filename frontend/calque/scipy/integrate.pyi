"""Made by `python docs/scripts/stubs.py` from signatures and docstrings."""
import contextlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from types import ModuleType
from typing import Any, Generic, Literal, NamedTuple, ParamSpec, TypeVar, overload

import numpy as np

from calque.dispatch.array import Array
from calque.typing import ArrayLike, DTypeLike

_P = ParamSpec("_P")
_R = TypeVar("_R")
_T = TypeVar("_T")
_A = TypeVar("_A")
_B = TypeVar("_B")
_X = TypeVar("_X")
_Y = TypeVar("_Y")
_F = TypeVar("_F", bound=Callable[..., Any])

def trapezoid(y: ArrayLike, x: Any = ..., dx: Any = ..., axis: int = ...) -> Array: ...

__all__ = ["trapezoid"]
