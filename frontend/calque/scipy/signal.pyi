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

def convolve(in1: ArrayLike, in2: ArrayLike, mode: str = ..., method: str = ..., precision: Any = ...) -> Array: ...
def convolve2d(in1: ArrayLike, in2: ArrayLike, mode: str = ..., boundary: str = ..., fillvalue: float = ..., precision: Any = ...) -> Array: ...
def correlate(in1: ArrayLike, in2: ArrayLike, mode: str = ..., method: str = ..., precision: Any = ...) -> Array: ...
def correlate2d(in1: ArrayLike, in2: ArrayLike, mode: str = ..., boundary: str = ..., fillvalue: float = ..., precision: Any = ...) -> Array: ...
def csd(x: ArrayLike, y: Any, fs: Any = ..., window: Any = ..., nperseg: int | None = ..., noverlap: int | None = ..., nfft: int | None = ..., detrend: Any = ..., return_onesided: bool = ..., scaling: str = ..., axis: int = ..., average: str = ...) -> tuple[Array, Array]: ...
def detrend(data: Any, axis: int = ..., type: str = ..., bp: int | Sequence[int] | np.ndarray[Any, Any] = ..., overwrite_data: None = ...) -> Array: ...
def fftconvolve(in1: ArrayLike, in2: ArrayLike, mode: str = ..., axes: Any | None = ...) -> Array: ...
def istft(Zxx: ArrayLike, fs: Any = ..., window: Any = ..., nperseg: int | None = ..., noverlap: int | None = ..., nfft: int | None = ..., input_onesided: bool = ..., boundary: bool = ..., time_axis: int = ..., freq_axis: int = ...) -> tuple[Array, Array]: ...
def stft(x: ArrayLike, fs: Any = ..., window: Any = ..., nperseg: int = ..., noverlap: int | None = ..., nfft: int | None = ..., detrend: Any = ..., return_onesided: bool = ..., boundary: str | None = ..., padded: bool = ..., axis: int = ...) -> tuple[Array, Array, Array]: ...
def welch(x: ArrayLike, fs: Any = ..., window: Any = ..., nperseg: int | None = ..., noverlap: int | None = ..., nfft: int | None = ..., detrend: Any = ..., return_onesided: bool = ..., scaling: str = ..., axis: int = ..., average: str = ...) -> tuple[Array, Array]: ...
_by_fft: Any
_check_mode: Any
_convolve: Any
_direct: Any
_mirrored: Any
_operands: Any
_ordered: Any
_product: Any
_two_dimensional: Any

__all__ = ["convolve", "convolve2d", "correlate", "correlate2d", "csd", "detrend", "fftconvolve", "istft", "stft", "welch"]
