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

def dct(x: ArrayLike, type: int = ..., n: int | None = ..., axis: int = ..., norm: str | None = ...) -> Array: ...
def dctn(x: ArrayLike, type: int = ..., s: Sequence[int] | None = ..., axes: int | Sequence[int] | None = ..., norm: str | None = ...) -> Array: ...
def idct(x: ArrayLike, type: int = ..., n: int | None = ..., axis: int = ..., norm: str | None = ...) -> Array: ...
def idctn(x: ArrayLike, type: int = ..., s: Sequence[int] | None = ..., axes: int | Sequence[int] | None = ..., norm: str | None = ...) -> Array: ...
_along: Any
_as_type: Any
_backward: Any
_forward: Any
_linear: Any
_many: Any
_one: Any
_operand: Any
_scales: Any
_sized: Any
_turns: Any
_wide: Any

__all__ = ["dct", "dctn", "idct", "idctn"]
